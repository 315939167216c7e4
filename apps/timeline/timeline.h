/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - a run as a file that viewers open: Chrome's trace-event format, which Perfetto
 * reads.
 *
 * A process of the viewer is a node; its threads are kinds: collectives, messages sent, messages
 * received, and what became of processes. Behind the nodes one more is the fabric, with faults and
 * what followed. What overlaps is put into several threads of one kind, so that in each thread
 * times rise and nothing overlaps. Times are in microseconds since the fabric's start. On several
 * hosts all are by the clock of the one that writes the file, which says how wrong those of the
 * others may be.
 *
 * The file is whole JSON at any moment, so that a fabric that is killed in the middle of a write
 * leaves one that opens: two files take turns, one is written while the other has the name, and
 * then they change names. It is bounded: what comes first is kept, the rest is counted, and that is
 * said.
 * Rejected: to overwrite the end in one write, which a kill cuts short between two pages; what no
 * reader may see half of, no order of writes to one file can do.
 *
 * Thread: one.
 */
#ifndef APPS_TIMELINE_TIMELINE_H
#define APPS_TIMELINE_TIMELINE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "emu/hostif/finished.h"
#include "topo/topo.h"

#define TIMELINE_MOST_BYTES (UINT64_C(256) << 20) /* of a file, unless it is said otherwise */
#define TIMELINE_FROM_BYTES 1024u                 /* of a message, likewise */

struct timeline;

struct timeline_config {
    int fd; /* a regular file with nothing in it; the caller's */
    /* its name, without links. NULL, or there cannot be a second: its end is overwritten */
    const char *path;
    uint64_t most_bytes; /* that it may have, at least 1 MiB */
    uint64_t from_bytes; /* messages of so many bytes, and more, are in it */
    uint32_t nodes;
    const struct topo_graph *graph; /* has names of nodes; borrowed. NULL: show only numbers */
    uint64_t origin_ns;             /* emu_now_ns() at the timeline's time 0 */
    /* Names of all hosts, so many, this one first; borrowed. NULL: there is one. */
    const char *const *host;
    uint32_t hosts;
    struct json_object *origin; /* apps/fabric/origin.h; only for timeline_create(); NULL: none */
};

/** timeline_blank - an empty timeline, in place of what the file held. False: errno. */
bool timeline_blank(int fd);

/** timeline_create - Errors: -ENOMEM; -ESPIPE, it is no regular file; those of write(). */
int timeline_create(struct timeline **ret, const struct timeline_config *config);

/** timeline_finished - the process at @node, of that seat, has finished a collective or message. */
void timeline_finished(struct timeline *t, uint32_t node, uint64_t incarnation,
                       const struct emu_finished *one);

/** timeline_missed - so many more it had finished, which nobody knows now. */
void timeline_missed(struct timeline *t, uint64_t count);

/** timeline_clock - times of @host are translated, and wrong by so much at most. */
void timeline_clock(struct timeline *t, uint32_t host, uint64_t error_ns);

/** timeline_host_lost - what its processes had not told yet nobody knows. */
void timeline_host_lost(struct timeline *t, uint32_t host);

/** timeline_process - @what became of the process at @node, at @at_ns by emu_now_ns(). */
void timeline_process(struct timeline *t, uint32_t node, uint64_t at_ns, const char *what);

/** timeline_event - of the fabric, at its own time or else at @now_ns; docs/control.md has them. */
void timeline_event(struct timeline *t, uint64_t now_ns, struct json_object *event);

/** timeline_write - what is known so far, into the file; when that cannot be, it is said, once. */
void timeline_write(struct timeline *t);

/** timeline_report - of the report: what is in the file, and what is not. */
struct json_object *timeline_report(const struct timeline *t);

/** timeline_print - of that, a line for people; NULL: nothing. Thread: any. */
void timeline_print(FILE *out, struct json_object *report);

/** timeline_failed - true if the file could not be written; it is incomplete then. */
bool timeline_failed(const struct timeline *t);

/** timeline_destroy - the file is complete. */
void timeline_destroy(struct timeline *t);

/**
 * timeline_sweep - the second file of one whose writer was killed is removed; @path NULL: of none.
 * Thread: any.
 */
void timeline_sweep(const char *path);

#endif
