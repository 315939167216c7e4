/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_test.c - the file of a run's timeline: at any time it is valid JSON, its events are in
 * order, and its size is bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/daemon/report.h"
#include "apps/timeline/timeline.h"
#include "emu/util/random.h"
#include "tests/test.h"
#include "tests/fixtures/json.h"

#define NODES     3u
#define ORIGIN_NS UINT64_C(1000000)
#define MOST      (UINT64_C(1) << 20)

static struct timeline *open_on(int fd)
{
    const struct timeline_config config = {
        .fd = fd, .most_bytes = MOST, .from_bytes = 1, .nodes = NODES, .origin_ns = ORIGIN_NS};
    struct timeline *t;

    CU_ASSERT_EQUAL_FATAL(timeline_create(&t, &config), 0);
    return t;
}

static struct json_object *at(struct json_object *object, const char *name)
{
    return json_object_object_get(object, name);
}

static uint64_t number(struct json_object *object, const char *name)
{
    return json_object_get_uint64(at(object, name));
}

static bool is_phase(struct json_object *event, const char *phase)
{
    return strcmp(json_object_get_string(at(event, "ph")), phase) == 0;
}

static size_t phases(struct json_object *all, const char *phase)
{
    struct json_object *events = at(all, "traceEvents");
    size_t count = 0;

    for (size_t i = 0; i < json_object_array_length(events); i++)
        count += is_phase(json_object_array_get_idx(events, i), phase);
    return count;
}

/* In each thread of each node nothing begins before its predecessor has ended. */
static void is_in_order(struct json_object *all)
{
    struct json_object *events = at(all, "traceEvents");
    double end_us[NODES + 1][256] = {0};

    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *event = json_object_array_get_idx(events, i);
        double ts = json_object_get_double(at(event, "ts"));
        double dur = json_object_get_double(at(event, "dur"));
        uint64_t node = number(event, "pid"), thread = number(event, "tid");

        if (!is_phase(event, "X") && !is_phase(event, "i"))
            continue;
        CU_ASSERT_TRUE_FATAL(node <= NODES && thread < 256);
        CU_ASSERT_TRUE(ts + 1e-6 >= end_us[node][thread]);
        end_us[node][thread] = ts + dur;
    }
}

/* Whatever times processes write, the file is in order. */
static void file__is_in_order(void)
{
    int fd = memfd_create("timeline", 0);
    struct timeline *t = open_on(fd);
    uint64_t state = test_seed(), end_ns[NODES] = {0};
    struct json_object *all;

    for (int i = 0; i < 2000; i++) {
        uint64_t draw = emu_splitmix(&state);
        uint32_t node = draw % NODES;
        struct emu_finished one = {.first = draw >> 32,
                                   .bytes = draw >> 40,
                                   .kind = (uint8_t)(EMU_MULTICAST +
                                                     (draw >> 8) % (EMU_FINISHED_KINDS - 1))};

        end_ns[node] += draw >> 16 & 0xfff; /* by completion time */
        one.ended_ns = ORIGIN_NS + end_ns[node];
        one.began_ns = one.ended_ns - (draw >> 28 & (i % 8 ? 0xfff : 0xfffff));
        timeline_finished(t, node, 1, &one);
        if (i % 100 == 0)
            timeline_process(t, node, one.began_ns, "attached");
        if (i % 300 == 0) {
            timeline_write(t);
            json_object_put(json_of_file(fd));
        }
    }
    timeline_destroy(t);
    all = json_of_file(fd);
    is_in_order(all);
    CU_ASSERT_EQUAL(phases(all, "X"), 2000);
    CU_ASSERT_EQUAL(phases(all, "i"), 20);
    json_object_put(all);
    close(fd);
}

/* A message has the same id at both ends, and differs from the next one's. */
static void flow__joins_both_ends(void)
{
    int fd = memfd_create("timeline", 0);
    struct timeline *t = open_on(fd);
    struct emu_finished sent = {.first = 5,
                                .began_ns = ORIGIN_NS + 1000,
                                .ended_ns = ORIGIN_NS + 2000,
                                .bytes = 8,
                                .group = 2,
                                .root = 4,
                                .kind = EMU_FINISHED_SENT};
    struct emu_finished received = {.first = 5,
                                    .began_ns = ORIGIN_NS,
                                    .ended_ns = ORIGIN_NS + 3500,
                                    .bytes = 8,
                                    .group = 1,
                                    .root = 3,
                                    .kind = EMU_FINISHED_RECEIVED};
    const char *sent_id = NULL, *received_id = NULL;
    struct json_object *all, *events;

    timeline_finished(t, 1, 3, &sent);
    timeline_finished(t, 2, 4, &received);
    timeline_destroy(t);
    all = json_of_file(fd);
    events = at(all, "traceEvents");
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *event = json_object_array_get_idx(events, i);
        const char *id = json_object_get_string(at(event, "id"));

        sent_id = is_phase(event, "s") ? id : sent_id;
        received_id = is_phase(event, "f") ? id : received_id;
        if (is_phase(event, "f"))
            CU_ASSERT_DOUBLE_EQUAL(json_object_get_double(at(event, "ts")), 3.5, 1e-9);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(sent_id);
    CU_ASSERT_STRING_EQUAL(sent_id, "1.3-2.4-5");
    CU_ASSERT_STRING_EQUAL(sent_id, received_id);
    json_object_put(all);
    close(fd);
}

/* Events beyond the file's limit are counted, and the file reports that. */
static void file__is_bounded(void)
{
    int fd = memfd_create("timeline", 0);
    struct timeline *t = open_on(fd);
    struct emu_finished one = {.kind = EMU_BARRIER};
    struct json_object *all, *other;
    uint64_t count = MOST / 64, kept, left_out;

    for (uint64_t n = 0; n < count; n++) {
        one.began_ns = ORIGIN_NS + 10 * n;
        one.ended_ns = one.began_ns + 5;
        one.first = n;
        timeline_finished(t, 0, 1, &one);
    }
    timeline_missed(t, UINT64_MAX - 3);
    timeline_missed(t, 17); /* another host may send any number, so the sum must not wrap around */
    timeline_destroy(t);
    CU_ASSERT_TRUE(lseek(fd, 0, SEEK_END) <= (off_t)MOST);
    all = json_of_file(fd);
    other = at(all, "otherData");
    kept = number(at(other, "kept"), "collectives");
    left_out = number(at(other, "left_out"), "collectives");
    CU_ASSERT_EQUAL(phases(all, "X"), kept);
    CU_ASSERT_TRUE(kept && left_out);
    CU_ASSERT_EQUAL(kept + left_out, count);
    CU_ASSERT_EQUAL(number(other, "missed"), UINT64_MAX);
    json_object_put(all);
    close(fd);
}

static void event_of_fault(struct timeline *t, const char *state, double s)
{
    struct json_object *event = json_object_new_object();

    json_object_object_add(event, "event", json_object_new_string("fault"));
    json_object_object_add(event, "s", json_object_new_double(s));
    json_object_object_add(event, "fault", json_object_new_int(1));
    json_object_object_add(event, "text", json_object_new_string("link-down \"link\"=0:1"));
    json_object_object_add(event, "state", json_object_new_string(state));
    timeline_event(t, 0, 0, event);
    json_object_put(event);
}

/* A fault that ended has an end; others end with the file. */
static void fault__has_an_end(void)
{
    for (int over = 0; over < 2; over++) {
        int fd = memfd_create("timeline", 0);
        struct timeline *t = open_on(fd);
        struct json_object *all;

        event_of_fault(t, "begins", 0.25);
        if (over)
            event_of_fault(t, "over", 0.5);
        timeline_destroy(t);
        all = json_of_file(fd);
        is_in_order(all);
        CU_ASSERT_EQUAL(phases(all, "b"), 1);
        CU_ASSERT_EQUAL(phases(all, "e"), 1);
        json_object_put(all);
        close(fd);
    }
}

/* --- killed writers ----------------------------------------------------------------- */

#define KILLS      800
#define WRITTEN_MS 20000 /* the time within which it has written something, */
#define SEEN_BYTES 4096  /* that is, more than its header */
#define BATCH_MOST 20000 /* events between two writes: megabytes, so that a kill hits a write */

/*
 * A process that writes a timeline as fast as it can, until it is killed. @hosts: of several hosts.
 */
static void writes_on(const char *path, bool hosts, uint64_t seed)
{
    static const char *const names[] = {"red", "green"};
    struct timeline_config config = {.fd = open(path, O_WRONLY),
                                     .path = path,
                                     .most_bytes = UINT64_C(64) << 20,
                                     .nodes = NODES,
                                     .host = hosts ? names : NULL,
                                     .hosts = hosts ? 2 : 0};
    struct emu_finished one = {.kind = EMU_BARRIER};
    struct timeline *t;

    if (timeline_create(&t, &config))
        _exit(1);
    for (uint64_t n = 1;; n++) {
        one.began_ns = 10 * n;
        one.ended_ns = one.began_ns + 5;
        one.first = n;
        timeline_finished(t, n % NODES, 1, &one);
        if (hosts && n % 7 == 0)
            timeline_clock(t, 1, n);
        if (emu_splitmix(&seed) % BATCH_MOST == 0)
            timeline_write(t);
    }
}

static off_t bytes_of(const char *path)
{
    struct stat st;

    return stat(path, &st) ? 0 : st.st_size;
}

/*
 * Kill the writer @us after it started or, if @seen, after it has written something. Returns the
 * number of events in the file.
 */
static size_t killed_after(const char *path, bool hosts, bool seen, uint64_t us, uint64_t seed)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), status = 0;
    struct json_object *all;
    size_t count;
    pid_t pid;

    CU_ASSERT_TRUE_FATAL(fd >= 0 && timeline_blank(fd));
    close(fd);
    pid = fork();
    if (pid == 0)
        writes_on(path, hosts, seed);
    for (int left = WRITTEN_MS; seen && left && bytes_of(path) < SEEN_BYTES; left--)
        usleep(1000);
    usleep((useconds_t)us);
    kill(pid, SIGKILL);
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_TRUE(WIFSIGNALED(status));
    fd = open(path, O_RDONLY);
    all = json_of_file(fd);
    count = json_object_array_length(at(all, "traceEvents"));
    if (at(all, "otherData")) /* its summary is of the same moment */
        CU_ASSERT_EQUAL(number(at(at(all, "otherData"), "kept"), "collectives"), phases(all, "X"));
    json_object_put(all);
    close(fd);
    timeline_sweep(path);
    return count;
}

/* Whenever its writer is killed, the file under the final name is valid. */
static void file__is_valid_when_its_writer_is_killed(void)
{
    char dir[] = "/tmp/fabemu-timeline.XXXXXX", path[64];
    uint64_t state = test_seed();
    size_t most = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/timeline", dir);
    for (uint32_t i = 0; i < TEST_TRIALS(KILLS); i++) {
        uint64_t us = emu_splitmix(&state) % 6000;
        size_t count = killed_after(path, i % 2, i < 2, us, emu_splitmix(&state));

        most = count > most ? count : most;
    }
    CU_ASSERT_TRUE(most > 0);
    unlink(path);
    CU_ASSERT_EQUAL(rmdir(dir), 0); /* no temporary file is left */
}

/* A pipe cannot be rewritten at its end. */
static void file__must_be_a_regular_file(void)
{
    struct timeline_config config = {.most_bytes = MOST, .nodes = NODES};
    struct timeline *t;
    int fds[2];

    CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
    config.fd = fds[1];
    CU_ASSERT_EQUAL(timeline_create(&t, &config), -ESPIPE);
    close(fds[0]);
    close(fds[1]);
}

/* The singular of "pairs". */
static void report__uses_the_singular_for_one_pair(void)
{
    for (uint32_t pairs = 1; pairs < 3; pairs++) {
        char text[160], *out = NULL;
        struct json_object *comm;
        size_t bytes;
        FILE *file = open_memstream(&out, &bytes);

        snprintf(text, sizeof text,
                 "{\"messages\":{\"messages\":3,\"bytes\":12,\"pairs\":%u,\"matrix\":[]}}", pairs);
        comm = json_tokener_parse(text);
        comm_print(file, comm);
        fclose(file);
        snprintf(text, sizeof text, "between %u pair%s of nodes\n", pairs, pairs == 1 ? "" : "s");
        CU_ASSERT_PTR_NOT_NULL(strstr(out, text));
        json_object_put(comm);
        free(out);
    }
}

/* A lying daemon or process can make a part larger than the whole, or the whole unknown. */
static void report__prints_no_share_that_cannot_be(void)
{
    static const struct {
        const char *near, *bytes, *share;
    } cases[] = {{"156", "100", "unknown of"},
                 {"100", "100", "100 % of"},
                 {"0", "0", "0 % of"},
                 {"18446744073709551615", "18446744073709551615", "unknown of"},
                 {"-5", "100", "0 % of"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[240], *out = NULL;
        struct json_object *comm;
        size_t bytes;
        FILE *file = open_memstream(&out, &bytes);

        snprintf(text, sizeof text,
                 "{\"overflows\":%zu,\"messages\":{\"messages\":3,\"bytes\":%s,\"pairs\":1,"
                 "\"within_switch\":{\"bytes\":%s}}}",
                 i, cases[i].bytes, cases[i].near);
        comm = json_tokener_parse(text);
        comm_print(file, comm);
        fclose(file);
        CU_ASSERT_PTR_NOT_NULL(strstr(out, cases[i].share));
        CU_ASSERT_EQUAL(strstr(out, "  overflows    ") != NULL, i > 0);
        json_object_put(comm);
        free(out);
    }
}

static const struct test_case cases[] = {
    CASE(file__is_in_order),
    CASE(flow__joins_both_ends),
    CASE(file__is_bounded),
    CASE(fault__has_an_end),
    CASE(file__must_be_a_regular_file),
    CASE(file__is_valid_when_its_writer_is_killed),
    CASE(report__uses_the_singular_for_one_pair),
    CASE(report__prints_no_share_that_cannot_be),
    {0},
};

int main(void)
{
    return test_run("timeline", cases);
}
