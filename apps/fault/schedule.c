/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.c - read schedules, which are files with one fault per line. Scenarios are built-in
 * schedules. Most scenarios have random targets, so that they fit any network. They begin within
 * seconds, because they are made for programs that run for seconds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fault/internal.h"
#include "emu/util/nearest.h"
#include "emu/util/slurp.h"

#define FILE_BYTES_MAX (16u << 20)
#define LINE_BYTES_MAX 4095
#define FAULTS_MAX     65536
#define NAME_SHOWN     100 /* characters at the end of a file's name that a message shows */

struct reader {
    struct fault_schedule schedule;
    uint32_t capacity; /* allocated elements of schedule.line */
    uint32_t number;   /* number of the current line */
    const char *name;
    const struct topo_graph *graph;
    char *error;
    size_t error_bytes;
};

static const char *name_tail(const char *name)
{
    size_t length = strlen(name);

    return length > NAME_SHOWN ? name + length - NAME_SHOWN : name;
}

static int append(struct reader *r, const struct fault *fault)
{
    struct fault_schedule *s = &r->schedule;

    if (s->count == FAULTS_MAX)
        return fail(-E2BIG, r->error, r->error_bytes, "%s, line %u: more than %d faults",
                    name_tail(r->name), r->number, FAULTS_MAX);
    if (s->count == r->capacity) {
        uint32_t capacity = r->capacity ? 2 * r->capacity : 8;
        struct fault_line *bigger = realloc(s->line, capacity * sizeof *bigger);

        if (!bigger)
            return fail(-ENOMEM, r->error, r->error_bytes, "%s: out of memory", name_tail(r->name));
        s->line = bigger;
        r->capacity = capacity;
    }
    s->line[s->count++] = (struct fault_line){r->number, *fault};
    return 0;
}

/* Read one line of a schedule. @text does not include the newline. */
static int read_line(struct reader *r, const char *text, size_t bytes)
{
    char line[LINE_BYTES_MAX + 1], why[FAULT_ERROR_BYTES];
    const char *comment = memchr(text, '#', bytes);
    struct fault fault;

    if (memchr(text, '\0', bytes))
        return invalid(r, "%s, line %u: a zero byte; a schedule is a text file", name_tail(r->name),
                       r->number);
    if (comment)
        bytes = (size_t)(comment - text);
    while (bytes && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t' || text[bytes - 1] == '\r'))
        bytes--;
    if (bytes > LINE_BYTES_MAX)
        return invalid(r, "%s, line %u: longer than %d characters; a fault is one short line",
                       name_tail(r->name), r->number, LINE_BYTES_MAX);
    memcpy(line, text, bytes);
    line[bytes] = '\0';
    if (!line[strspn(line, " \t")])
        return 0;
    if (fault_parse(&fault, line, r->graph, why, sizeof why))
        return invalid(r, "%s, line %u: %s", name_tail(r->name), r->number, why);
    return append(r, &fault);
}

int fault_schedule_text(struct fault_schedule *ret, const char *name, const char *text,
                        size_t bytes, const struct topo_graph *graph, char *error,
                        size_t error_bytes)
{
    struct reader r = {.name = name, .graph = graph, .error = error, .error_bytes = error_bytes};
    const char *end = text + bytes;
    int err = 0;

    while (text < end && !err) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));

        r.number++;
        err = read_line(&r, text, (size_t)((newline ? newline : end) - text));
        text = newline ? newline + 1 : end;
    }
    if (!err && !r.schedule.count)
        err = fail(-EINVAL, error, error_bytes,
                   "%s: contains no fault; an example: at=1s for=100ms link-down random",
                   name_tail(name));
    if (err)
        free(r.schedule.line);
    else
        *ret = r.schedule;
    return err;
}

static int read_file(struct fault_schedule *ret, const char *name, const struct topo_graph *graph,
                     char *error, size_t error_bytes)
{
    char *text;
    size_t bytes;
    int err = emu_slurp(name, FILE_BYTES_MAX, &text, &bytes);

    if (err == -EFBIG)
        err = fail(-E2BIG, error, error_bytes, "%s: larger than %u MiB, so it is not a schedule",
                   name_tail(name), FILE_BYTES_MAX >> 20);
    else if (err)
        err = fail(err == -ENOMEM ? err : -EIO, error, error_bytes,
                   "%s: cannot read the schedule: %s", name_tail(name), emu_slurp_why(err));
    else
        err = fault_schedule_text(ret, name, text, bytes, graph, error, error_bytes);
    free(text);
    return err;
}

/* Return whether @text contains the name of a kind of fault, and so is not the name of a file. */
static bool is_fault(const char *text)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        const char *name = fault_name((enum fault_kind)kind), *at = strstr(text, name);

        if (at && (at == text || at[-1] == ' ') && strchr(" ", at[strlen(name)]))
            return true;
    }
    return false;
}

int fault_scenario_unknown(const char *name, const char *or_file, char *error, size_t error_bytes)
{
    const struct fault_scenario *scenario;
    char list[FAULT_LIST_BYTES];
    struct fault_writer writer = {.at = list, .left = sizeof list};

    for (size_t i = 0; (scenario = fault_scenario_at(i)); i++)
        fault_put(&writer, "%s%s", i ? ", " : "", scenario->name);
    return fail(-ENOENT, error, error_bytes, "no scenario '%.*s'; there are %s%s%s", FAULT_SHOWN,
                name, list, or_file, nearest_in(name, list).text);
}

int fault_schedule_read(struct fault_schedule *ret, const char *what,
                        const struct topo_graph *graph, char *error, size_t error_bytes)
{
    const struct fault_scenario *scenario = fault_scenario_find(what);

    if (scenario)
        return fault_schedule_text(ret, what, scenario->text, strlen(scenario->text), graph, error,
                                   error_bytes);
    if (is_fault(what))
        return fail(-EINVAL, error, error_bytes,
                    "'%.*s' is a fault; write it to a file, and give the name of the file",
                    FAULT_SHOWN, what);
    if (strpbrk(what, "./"))
        return read_file(ret, what, graph, error, error_bytes);
    return fault_scenario_unknown(what, "; the name of a file has a '/' or a '.'", error,
                                  error_bytes);
}

void fault_schedule_release(struct fault_schedule *schedule)
{
    free(schedule->line);
    *schedule = (struct fault_schedule){0};
}

static const struct fault_scenario scenarios[] = {
    {"flap", "a link flaps, a top switch dies and comes back, 1 segment in 1000 is damaged",
     "# There are never two link faults at a time, so a network without single points of failure\n"
     "# stays connected.\n"
     "at=1s for=100ms every=1s link-down random\n"
     "at=3.2s for=700ms every=5s switch-crash top\n"
     "bit-errors link=any rate=1e-3\n"},
    {"flapping-link", "one link is down for 5 ms, up for 20 ms, and so on",
     "at=1s link-flap random down=5ms up=20ms\n"},
    {"cut-link", "one link fails permanently", "at=1s link-down random\n"},
    {"unplugged-node", "the cables of node 0 are out for a second",
     "at=1s for=1s link-down link=n0\n"},
    {"noisy-links", "1 segment in 1000 is damaged, everywhere", "bit-errors link=any rate=1e-3\n"},
    {"bad-cable", "1 segment in 20 is damaged, on one cable", "bit-errors random rate=5%\n"},
    {"lossy", "1 segment in 1000 is lost, everywhere", "loss link=any rate=1e-3\n"},
    {"doubles", "1 segment in 1000 arrives twice", "duplicate link=any rate=1e-3\n"},
    {"late", "1 segment in 100 is up to 20 us late", "delay link=any rate=1% jitter=20us\n"},
    {"stuck-port", "one port sends nothing for half a second",
     "at=1s for=500ms stuck-port random\n"},
    {"lost-credits", "one link loses 4 credits", "at=1s credit-loss random count=4\n"},
    {"forged-credits", "one link gets 4 credits too many", "at=1s credit-forge random count=4\n"},
    {"slow-link", "one link has a tenth of its bandwidth; not on clock raw",
     "slow-link random factor=10\n"},
    {"slow-top", "all cables of a top switch have a quarter of their bandwidth; not on clock raw",
     "slow-link top factor=4\n"},
    {"dying-switch", "a top switch dies permanently", "at=1s switch-crash top\n"},
    {"rebooting-switch", "a top switch dies and comes back after 2 s",
     "at=1s for=2s switch-crash top\n"},
    {"stalled-combiner", "a top switch combines nothing for half a second",
     "at=1s for=500ms combine-stall top\n"},
    {"wrong-sums", "a top switch flips a bit in 1 of 1000 partial results: errors, or wrong sums",
     "combine-flip top rate=1e-3\n"},
    {"full-combiner", "a top switch refuses combine states to new groups for a second",
     "at=1s for=1s combine-exhaust top\n"},
    {"adapter-resets", "every second the adapter of another node is reset",
     "at=1s every=1s adapter-reset random\n"},
    {"stop-a-node", "a node stands still for 3 s", "at=1s for=3s node-freeze random\n"},
    {"slow-node", "a node's process runs for a quarter of the time",
     "node-slow random share=25%\n"},
    {"kill-a-node", "a node dies", "at=1s node-kill random\n"},
    {"noise", "every node loses 100 us of each 10 ms to its operating system",
     "noise node=any period=10ms length=100us\n"},
    {"noisy-nodes", "one node in 16 loses 1 ms of each 10 ms",
     "noise random=6.25% period=10ms length=1ms\n"},
    {"partition", "half of the nodes are partitioned from the others permanently",
     "at=1s partition random=50%\n"},
    {"partition-heals", "half of the nodes are partitioned from the others for half a second",
     "at=1s for=500ms partition random=50%\n"},
};

#define SCENARIOS (sizeof scenarios / sizeof scenarios[0])

const struct fault_scenario *fault_scenario_at(size_t i)
{
    return i < SCENARIOS ? &scenarios[i] : NULL;
}

const struct fault_scenario *fault_scenario_find(const char *name)
{
    for (size_t i = 0; i < SCENARIOS; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    return NULL;
}
