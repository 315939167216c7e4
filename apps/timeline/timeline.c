/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.c - see timeline.h.
 * Source: "Trace Event Format", Google: complete events (X) for collectives and messages, instants
 * (i), asynchronous events (b, e) for faults, flows (s, f) from the sender to the receiver of a
 * message, metadata (M) for names. The viewer shows each thread as one line. For each kind of
 * events, a node has one or more such threads, its *lanes*. No two events of a lane overlap.
 *
 * The file ends with a summary, the *tail*. Usually there are two files, so that the one with the
 * timeline's name is complete at any time. The other one is the *second file*. Each write
 * overwrites the tail of the second file with new events and a new tail, and then swaps the names.
 * The second file therefore always lacks the events of the latest write.
 */
#include "apps/timeline/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/message.h"
#include "apps/base/text.h"
#include "apps/fabric/hosts.h"
#include "emu/packet/kind.h"
#include "emu/util/count.h"
#include "emu/util/json.h"

#define LANES_MOST 32u
#define LAST_BYTES \
    (UINT64_C(64) << 10) /* space at the end of the file for the last event and the tail */

/* Kinds of threads in the viewer. */
enum lane_kind { COLLECTIVES, SENDS, RECEIVES, PROCESS, FABRIC, LANE_KINDS };

static const char *const lane_names[LANE_KINDS] = {
    [COLLECTIVES] = "collectives", [SENDS] = "sends",   [RECEIVES] = "receives",
    [PROCESS] = "process",         [FABRIC] = "fabric",
};

/* Classes of events, which are counted separately. */
enum event_class { COLLECTIVE, SENT, RECEIVED, PROCESSES, EVENTS, CLASSES };

static const char *const class_names[CLASSES] = {
    [COLLECTIVE] = "collectives", [SENT] = "sends",    [RECEIVED] = "receives",
    [PROCESSES] = "processes",    [EVENTS] = "events",
};

/* The lanes of one kind of one node. */
struct lanes {
    uint64_t end_ns[LANES_MOST]; /* by lane: end of its last event */
    uint32_t used;
};

/* The second file: the next write goes to it, and then it gets the timeline's name. */
struct second {
    char *path; /* NULL: there is no second file */
    int fd;
    uint64_t at;            /* offset of its tail */
    struct text_buf behind; /* events that the other file has and this one lacks */
};

struct host_state {
    uint64_t error_ns; /* largest error of the host's clock */
    uint64_t lost;     /* number of times that the host failed */
    uint64_t bytes;    /* size of its events in the file */
    bool full;         /* its share of the file is full */
};

struct timeline {
    struct timeline_config config;
    size_t head_bytes; /* size of the file before the first event */
    int fd;            /* the file with the timeline's name */
    struct second second;
    struct host_state *host;         /* by number of the host; NULL: there is one host */
    struct lanes *lanes[LANE_KINDS]; /* by node, then for the fabric; NULL: no event yet */
    bool *named;                     /* by node, then for the fabric: its name is in the file */
    struct text_buf text;            /* events that are not written yet */
    struct text_buf tail;
    uint64_t at; /* offset of the tail in the file */
    uint64_t kept[CLASSES], left_out[CLASSES];
    uint64_t missed; /* completions that were lost before they were read */
    uint64_t last_ns;
    uint64_t *fault; /* numbers of the active faults */
    uint32_t faults;
    bool dirty;  /* changed since the last write */
    bool full;   /* later events are only counted */
    bool failed; /* the file cannot be written */
};

/* --- the file ----------------------------------------------------------------------- */

static void head_put(struct text_buf *text, struct json_object *origin)
{
    text_puts(text, "{");
    text_field_string(text, "displayTimeUnit", "ns");
    if (origin) {
        text_field(text, "origin");
        text_json(text, origin);
    }
    text_field(text, "traceEvents");
    text_puts(text, "[");
}

static void add_number(struct json_object *object, const char *name, uint64_t number)
{
    json_object_object_add(object, name, json_object_new_uint64(number));
}

static void add_counts(struct json_object *object, const char *name, const uint64_t *counts)
{
    struct json_object *list = json_object_new_object();

    for (int i = 0; i < CLASSES; i++)
        add_number(list, class_names[i], counts[i]);
    json_object_object_add(object, name, list);
}

static void add_hosts(struct json_object *object, const struct timeline *t)
{
    struct json_object *list;

    if (!t->host)
        return;
    list = json_object_new_array();
    for (uint32_t h = 0; h < t->config.hosts; h++) {
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "host", json_object_new_string(t->config.host[h]));
        add_number(one, "clock_error_ns", t->host[h].error_ns);
        add_number(one, "lost", t->host[h].lost);
        json_object_array_add(list, one);
    }
    json_object_object_add(object, "hosts", list);
}

static void tail_make(struct timeline *t)
{
    struct json_object *data = json_object_new_object();

    json_object_object_add(data, "written_by", json_object_new_string("fabemu"));
    add_number(data, "nodes", t->config.nodes);
    add_number(data, "message_bytes_least", t->config.from_bytes);
    add_number(data, "file_bytes_most", t->config.most_bytes);
    add_counts(data, "kept", t->kept);
    add_counts(data, "left_out", t->left_out);
    add_number(data, "missed", t->missed);
    add_hosts(data, t);
    text_buf_clear(&t->tail);
    text_puts(&t->tail, "\n],\"otherData\":");
    text_json(&t->tail, data);
    text_puts(&t->tail, "}\n");
    json_object_put(data);
}

static bool write_at(int fd, const char *at, size_t bytes, uint64_t offset)
{
    while (bytes) {
        ssize_t wrote = pwrite(fd, at, bytes, (off_t)offset);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        bytes -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return true;
}

/* Write @text and the tail at offset @at. @text is unchanged. On failure errno is set. */
static bool write_with_tail(struct timeline *t, int fd, struct text_buf *text, uint64_t at)
{
    size_t bytes = text->bytes;
    bool written;

    text_put(text, t->tail.at, t->tail.bytes);
    errno = ENOMEM;
    written = !text->failed && !t->tail.failed && write_at(fd, text->at, text->bytes, at);
    text->bytes = bytes;
    return written;
}

static char *second_name(const char *path)
{
    char *ret = NULL;

    return asprintf(&ret, "%s.fabemu-next", path) < 0 ? NULL : ret;
}

static void second_close(struct second *second)
{
    if (!second->path)
        return;
    close(second->fd);
    unlink(second->path);
    free(second->path);
    text_buf_free(&second->behind);
    second->path = NULL;
}

/*
 * Open the second file, with the owner and mode of the first. If this fails, or if the names cannot
 * be swapped later, writes overwrite the tail of the only file.
 */
static void second_open(struct timeline *t, const struct stat *first)
{
    struct second *second = &t->second;
    bool same;

    second->path = t->config.path ? second_name(t->config.path) : NULL;
    if (!second->path)
        return;
    unlink(second->path); /* left by a run that was killed */
    second->fd = open(second->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (second->fd < 0) {
        free(second->path);
        second->path = NULL;
        return;
    }
    /* another fabemu must find the file locked once it has the timeline's name */
    flock(second->fd, LOCK_EX | LOCK_NB);
    same = fchown(second->fd, first->st_uid, first->st_gid) == 0 &&
           fchmod(second->fd, first->st_mode & 0777) == 0;
    if (!same)
        second_close(second);
}

/* Record that the files have swapped names: the second file now lacks the new events. */
static void second_swap(struct timeline *t)
{
    struct second *second = &t->second;
    struct text_buf text = t->text;
    int fd = t->fd;

    t->fd = second->fd;
    second->fd = fd;
    second->at = t->at;
    t->text = second->behind;
    second->behind = text;
}

/* Write new events and the tail. False: it failed; with two files, the first is intact. */
static bool write_all(struct timeline *t)
{
    struct second *second = &t->second;

    if (second->path) {
        text_put(&second->behind, t->text.at, t->text.bytes);
        if (!write_with_tail(t, second->fd, &second->behind, second->at))
            return false;
        if (renameat2(AT_FDCWD, second->path, AT_FDCWD, t->config.path, RENAME_EXCHANGE) == 0) {
            second_swap(t);
            return true;
        }
        second_close(second); /* the file system cannot swap names, or somebody moved the file */
    }
    return write_with_tail(t, t->fd, &t->text, t->at);
}

void timeline_write(struct timeline *t)
{
    size_t bytes = t->text.bytes;

    if (t->failed || !t->dirty)
        return;
    t->dirty = false;
    tail_make(t);
    if (!write_all(t)) {
        t->failed = true;
        print_message("the timeline is no longer written: %s", strerror(errno));
    }
    t->at += bytes;
    text_buf_clear(&t->text);
}

bool timeline_failed(const struct timeline *t)
{
    return t->failed;
}

bool timeline_blank(int fd)
{
    static const char blank[] = "{\"traceEvents\":[]}\n";

    return write_at(fd, blank, strlen(blank), 0) && ftruncate(fd, (off_t)strlen(blank)) == 0;
}

void timeline_sweep(const char *path)
{
    char *name = path ? second_name(path) : NULL;

    if (name)
        unlink(name);
    free(name);
}

int timeline_create(struct timeline **ret, const struct timeline_config *config)
{
    struct timeline *t;
    struct stat st;

    if (fstat(config->fd, &st))
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ESPIPE;
    if (!timeline_blank(config->fd)) /* it may have the timeline of an earlier run */
        return -errno;
    t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->config = *config;
    t->fd = fcntl(config->fd, F_DUPFD_CLOEXEC, 0);
    t->named = calloc(config->nodes + 1u, sizeof *t->named);
    t->host = config->host ? calloc(config->hosts, sizeof *t->host) : NULL;
    if (t->fd < 0 || !t->named || (config->host && !t->host)) {
        int err = t->fd < 0 ? -errno : -ENOMEM;

        if (t->fd >= 0)
            close(t->fd);
        free(t->host);
        free(t->named);
        free(t);
        return err;
    }
    second_open(t, &st);
    head_put(&t->text, config->origin);
    t->head_bytes = t->text.bytes;
    t->dirty = true;
    timeline_write(t);
    *ret = t;
    return 0;
}

static uint32_t host_of(const struct timeline *t, uint32_t node)
{
    return t->host && t->config.fabric ? fabric_node_host(t->config.fabric, node) : 0;
}

/* Return whether @host has used up its share of the file. */
static bool share_is_full(struct timeline *t, uint32_t host, uint64_t left_bytes)
{
    struct host_state *state = t->host ? &t->host[host] : NULL;

    if (!state || fabric_host_has_space(left_bytes, host, state->bytes))
        return false;
    if (!state->full)
        print_message("the events of host %s have filled its share of the timeline; later ones "
                      "are only counted (--timeline-limit)",
                      t->config.host[host]);
    state->full = true;
    return true;
}

/* Count an event of @host. Returns whether there is space for it in the file. */
static bool is_kept(struct timeline *t, uint32_t host, enum event_class class)
{
    uint64_t used_bytes = t->at + t->text.bytes + LAST_BYTES;
    bool kept;

    if (t->failed)
        return false;
    t->dirty = true;
    if (!t->full && used_bytes >= t->config.most_bytes) {
        t->full = true;
        print_message("the timeline has reached %s; later events are only counted "
                      "(--timeline-limit)",
                      amount_of_bytes(t->config.most_bytes).text);
    }
    kept = !t->full && !share_is_full(t, host, t->config.most_bytes - used_bytes);
    if (kept)
        t->kept[class]++;
    else
        t->left_out[class]++;
    return kept;
}

/* Add the size of an event of @host to its share. @from_bytes: size of t->text before the event. */
static void share_add(struct timeline *t, uint32_t host, size_t from_bytes)
{
    if (t->host)
        t->host[host].bytes += t->text.bytes - from_bytes;
}

/* --- events ------------------------------------------------------------------------- */

static void put_us(struct text_buf *text, const char *name, uint64_t ns)
{
    const char digits[] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                           (char)('0' + ns % 10)};

    text_field_number(text, name, ns / 1000);
    text_put(text, digits, sizeof digits);
}

static void event_begin(struct timeline *t, const char *phase, uint32_t node, uint32_t thread)
{
    bool first = t->at + t->text.bytes == t->head_bytes;

    text_puts(&t->text, first ? "\n{" : ",\n{");
    text_field_string(&t->text, "ph", phase);
    text_field_number(&t->text, "pid", node);
    text_field_number(&t->text, "tid", thread);
}

static void event_name(struct timeline *t, const char *name, const char *category)
{
    text_field_string(&t->text, "name", name);
    text_field_string(&t->text, "cat", category);
}

static void event_end(struct timeline *t)
{
    text_puts(&t->text, "}");
}

static void args_begin(struct timeline *t)
{
    text_field(&t->text, "args");
    text_puts(&t->text, "{");
}

static void put_name(struct timeline *t, const char *what, uint32_t node, uint32_t thread,
                     const char *name)
{
    event_begin(t, "M", node, thread);
    text_field_string(&t->text, "name", what);
    args_begin(t);
    text_field_string(&t->text, "name", name);
    text_puts(&t->text, "}");
    event_end(t);
}

static uint32_t thread_of(enum lane_kind kind, uint32_t lane)
{
    return 1 + kind * LANES_MOST + lane;
}

static void name_lane(struct timeline *t, uint32_t node, enum lane_kind kind, uint32_t lane)
{
    char name[TOPO_SHOWN_BYTES];

    if (!t->named[node]) {
        if (t->config.graph && node < t->config.nodes)
            topo_show_node(t->config.graph, node, name);
        else
            snprintf(name, sizeof name, "node %u", node);
        put_name(t, "process_name", node, 0, node < t->config.nodes ? name : "fabric");
        t->named[node] = true;
    }
    if (lane)
        snprintf(name, sizeof name, "%s (%u)", lane_names[kind], lane + 1);
    else
        snprintf(name, sizeof name, "%s", lane_names[kind]);
    put_name(t, "thread_name", node, thread_of(kind, lane), name);
}

/*
 * Find a lane that is free from @began_ns on, occupy it until @ended_ns, and return its thread
 * number. If none is free, take the lane that becomes free first, and set @began_ns to that time.
 * If there is no memory, return the number of the first lane and occupy nothing.
 */
static uint32_t lane_take(struct timeline *t, uint32_t node, enum lane_kind kind,
                          uint64_t *began_ns, uint64_t *ended_ns)
{
    struct lanes *lanes;
    uint32_t lane = 0, first = 0;

    if (!t->lanes[kind])
        t->lanes[kind] = calloc(t->config.nodes + 1u, sizeof *t->lanes[kind]);
    if (!t->lanes[kind])
        return thread_of(kind, 0);
    lanes = &t->lanes[kind][node];
    for (; lane < lanes->used && lanes->end_ns[lane] > *began_ns; lane++)
        if (lanes->end_ns[lane] < lanes->end_ns[first])
            first = lane;
    if (lane == LANES_MOST) {
        lane = first;
        *began_ns = lanes->end_ns[lane];
    } else if (lane == lanes->used) {
        lanes->used++;
        name_lane(t, node, kind, lane);
    }
    if (*ended_ns < *began_ns)
        *ended_ns = *began_ns;
    lanes->end_ns[lane] = *ended_ns;
    if (*ended_ns > t->last_ns)
        t->last_ns = *ended_ns;
    return thread_of(kind, lane);
}

static uint64_t since(const struct timeline *t, uint64_t at_ns)
{
    return at_ns > t->config.origin_ns ? at_ns - t->config.origin_ns : 0;
}

/* --- collectives and messages ------------------------------------------------------- */

static const char *name_of(uint8_t kind)
{
    const char *name = kind < EMU_KINDS                ? emu_kind_traits(kind)->collective
                       : kind == EMU_FINISHED_SENT     ? "send"
                       : kind == EMU_FINISHED_RECEIVED ? "receive"
                                                       : NULL;

    return name ? name : "?";
}

static void put_args(struct timeline *t, const struct emu_finished *one)
{
    args_begin(t);
    text_field_number(&t->text, "bytes", one->bytes);
    if (one->kind == EMU_FINISHED_SENT || one->kind == EMU_FINISHED_RECEIVED) {
        text_field_number(&t->text, one->kind == EMU_FINISHED_SENT ? "to" : "from", one->group);
    } else {
        text_field_number(&t->text, "group", one->group);
        text_field_number(&t->text, "number", one->first);
        if (emu_kind_traits(one->kind)->root)
            text_field_number(&t->text, "root", one->root);
    }
    text_puts(&t->text, "}");
}

/*
 * Write one end of the arrow from a message's send to its receive. Both ends have the same id,
 * which consists of the two nodes, their incarnations, and the message's number.
 */
static void put_flow(struct timeline *t, uint32_t node, uint64_t incarnation, uint32_t thread,
                     const struct emu_finished *one, uint64_t at_ns)
{
    bool sent = one->kind == EMU_FINISHED_SENT;
    char id[96];

    snprintf(id, sizeof id, "%u.%llu-%u.%llu-%llu", sent ? node : one->group,
             (unsigned long long)(sent ? (uint32_t)incarnation : one->root),
             sent ? one->group : node,
             (unsigned long long)(sent ? one->root : (uint32_t)incarnation),
             (unsigned long long)one->first);
    event_begin(t, sent ? "s" : "f", node, thread);
    put_us(&t->text, "ts", at_ns);
    event_name(t, "message", "message");
    text_field_string(&t->text, "id", id);
    if (!sent)
        text_field_string(&t->text, "bp", "e");
    event_end(t);
}

void timeline_finished(struct timeline *t, uint32_t node, uint64_t incarnation,
                       const struct emu_finished *one)
{
    bool sent = one->kind == EMU_FINISHED_SENT, received = one->kind == EMU_FINISHED_RECEIVED;
    enum lane_kind kind = sent ? SENDS : received ? RECEIVES : COLLECTIVES;
    uint64_t began_ns = since(t, one->began_ns), ended_ns = since(t, one->ended_ns);
    uint32_t thread, host = host_of(t, node);
    size_t from_bytes = t->text.bytes;

    if (!is_kept(t, host, sent ? SENT : received ? RECEIVED : COLLECTIVE))
        return;
    thread = lane_take(t, node, kind, &began_ns, &ended_ns);
    event_begin(t, "X", node, thread);
    put_us(&t->text, "ts", began_ns);
    put_us(&t->text, "dur", ended_ns - began_ns);
    event_name(t, name_of(one->kind), sent || received ? "message" : "collective");
    put_args(t, one);
    event_end(t);
    if (sent || received)
        put_flow(t, node, incarnation, thread, one, sent ? began_ns : ended_ns);
    share_add(t, host, from_bytes);
}

void timeline_missed(struct timeline *t, uint64_t count)
{
    emu_sum(&t->missed, count); /* another host may send any number */
    t->dirty = t->dirty || count;
}

void timeline_clock(struct timeline *t, uint32_t host, uint64_t error_ns)
{
    if (error_ns <= t->host[host].error_ns)
        return;
    t->host[host].error_ns = error_ns;
    t->dirty = true;
}

void timeline_host_lost(struct timeline *t, uint32_t host)
{
    t->host[host].lost++;
    t->dirty = true;
}

/* --- processes and faults ----------------------------------------------------------- */

static void instant_begin(struct timeline *t, uint32_t node, enum lane_kind kind, uint64_t at_ns,
                          const char *name, const char *category)
{
    uint64_t end_ns = at_ns;
    uint32_t used = t->lanes[kind] ? t->lanes[kind][node].used : 0;
    uint32_t thread;

    if (used && t->lanes[kind][node].end_ns[0] > at_ns) /* the event was reported late */
        at_ns = t->lanes[kind][node].end_ns[0];
    thread = lane_take(t, node, kind, &at_ns, &end_ns);
    event_begin(t, "i", node, thread);
    put_us(&t->text, "ts", at_ns);
    event_name(t, name, category);
    text_field_string(&t->text, "s", kind == FABRIC ? "g" : "p"); /* scope: global or process */
}

void timeline_process(struct timeline *t, uint32_t node, uint64_t at_ns, const char *what)
{
    uint32_t host = host_of(t, node);
    size_t from_bytes = t->text.bytes;

    if (!is_kept(t, host, PROCESSES))
        return;
    instant_begin(t, node, PROCESS, since(t, at_ns), what, "process");
    event_end(t);
    share_add(t, host, from_bytes);
}

static void put_fault(struct timeline *t, const char *phase, uint64_t number, uint64_t at_ns)
{
    char name[32];

    snprintf(name, sizeof name, "fault %llu", (unsigned long long)number);
    event_begin(t, phase, t->config.nodes, thread_of(FABRIC, 0));
    put_us(&t->text, "ts", at_ns);
    event_name(t, name, "fault");
    text_field_number(&t->text, "id", number);
    event_end(t);
}

static uint32_t fault_find(const struct timeline *t, uint64_t number)
{
    uint32_t i = 0;

    while (i < t->faults && t->fault[i] != number)
        i++;
    return i;
}

static void note_fault(struct timeline *t, struct json_object *event, uint64_t at_ns)
{
    const char *state = json_object_get_string(json_object_object_get(event, "state"));
    uint64_t number = json_object_get_uint64(json_object_object_get(event, "fault"));
    bool begins = state && strcmp(state, "begins") == 0;
    uint32_t i = fault_find(t, number);
    uint64_t *more;

    if (begins && i == t->faults) {
        more = realloc(t->fault, (t->faults + 1u) * sizeof *more);
        if (!more)
            return;
        t->fault = more;
        t->fault[t->faults++] = number;
        put_fault(t, "b", number, at_ns);
    } else if (!begins && i < t->faults) {
        t->fault[i] = t->fault[--t->faults];
        put_fault(t, "e", number, at_ns);
    }
}

void timeline_event(struct timeline *t, uint32_t host, uint64_t now_ns, struct json_object *event)
{
    size_t from_bytes = t->text.bytes;
    struct json_object *s = json_object_object_get(event, "s");
    uint64_t at_ns = s ? (uint64_t)(json_object_get_double(s) * 1e9) : since(t, now_ns);
    const char *name = json_object_get_string(json_object_object_get(event, "event"));

    if (!is_kept(t, host, EVENTS))
        return;
    instant_begin(t, t->config.nodes, FABRIC, at_ns, name ? name : "?", "fabric");
    text_field(&t->text, "args");
    text_puts(&t->text, json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN));
    event_end(t);
    if (name && strcmp(name, "fault") == 0)
        note_fault(t, event, at_ns);
    share_add(t, host, from_bytes);
}

void timeline_destroy(struct timeline *t)
{
    if (!t)
        return;
    t->dirty = t->dirty || t->faults;
    while (t->faults) /* active faults end with the fabric */
        put_fault(t, "e", t->fault[--t->faults], t->last_ns);
    timeline_write(t);
    second_close(&t->second);
    close(t->fd);
    free(t->fault);
    for (int kind = 0; kind < LANE_KINDS; kind++)
        free(t->lanes[kind]);
    text_buf_free(&t->tail);
    text_buf_free(&t->text);
    free(t->host);
    free(t->named);
    free(t);
}

struct json_object *timeline_report(const struct timeline *t)
{
    struct json_object *ret = json_object_new_object();

    add_number(ret, "bytes", t->at + t->tail.bytes);
    add_counts(ret, "kept", t->kept);
    add_counts(ret, "left_out", t->left_out);
    add_number(ret, "missed", t->missed);
    json_object_object_add(ret, "whole", json_object_new_boolean(!t->failed));
    add_hosts(ret, t);
    return ret;
}

static uint64_t sum_of(struct json_object *counts)
{
    uint64_t sum = 0;

    for (int i = 0; i < CLASSES; i++)
        sum += json_object_get_uint64(json_object_object_get(counts, class_names[i]));
    return sum;
}

static uint64_t worst_error_ns(struct json_object *hosts)
{
    uint64_t worst_ns = 0;

    for (size_t h = 0; h < emu_json_count(hosts); h++) {
        struct json_object *one = emu_json_at(hosts, h);
        uint64_t error_ns = json_object_get_uint64(json_object_object_get(one, "clock_error_ns"));

        worst_ns = error_ns > worst_ns ? error_ns : worst_ns;
    }
    return worst_ns;
}

void timeline_print(FILE *out, struct json_object *report)
{
    uint64_t kept = sum_of(json_object_object_get(report, "kept"));
    uint64_t left_out = sum_of(json_object_object_get(report, "left_out"));
    uint64_t missed = json_object_get_uint64(json_object_object_get(report, "missed"));
    uint64_t error_ns = worst_error_ns(json_object_object_get(report, "hosts"));

    if (!report)
        return;
    fprintf(out, "  timeline     %llu event%s", (unsigned long long)kept, plural_s(kept));
    if (left_out)
        fprintf(out, "; %llu did not fit into the file", (unsigned long long)left_out);
    if (missed)
        fprintf(out, "; %llu came too fast to be read", (unsigned long long)missed);
    if (error_ns)
        fprintf(out, "; times of other hosts may be wrong by %s",
                duration_of_ns((double)error_ns).text);
    if (!json_object_get_boolean(json_object_object_get(report, "whole")))
        fputs("; the file is incomplete", out);
    fputc('\n', out);
}
