/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - a run as a trace file in Chrome's trace-event format, which Perfetto reads.
 *
 * In the viewer each node is a process with threads of four kinds: collectives, messages sent,
 * messages received, and the life cycle of the node's process. After the nodes follows one more
 * process for the fabric, with faults and other events. Events that overlap are put into several
 * threads of one kind, so that in each thread times rise and nothing overlaps. Times are in
 * microseconds since the fabric's start. On several hosts they are by the clock of the host that
 * writes the file, and the file has the largest error of the other clocks.
 *
 * The file is complete JSON at any time, even after a kill in the middle of a write: of two files
 * one is written while the other has the name, and then they swap names. Its size is limited: the
 * first events are kept and the rest is counted.
 * Rejected: overwriting the end of one file in one write. A kill can cut a write short between two
 * pages.
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

#define TIMELINE_MOST_BYTES (UINT64_C(256) << 20) /* default limit of the file */
#define TIMELINE_FROM_BYTES 1024u                 /* default smallest message */

struct timeline;

struct timeline_config {
    int fd;              /* an empty regular file; the caller closes it */
    const char *path;    /* its name without links; NULL: its end is overwritten, without a swap */
    uint64_t most_bytes; /* limit of the file, at least 1 MiB */
    uint64_t from_bytes; /* smallest message that is in it */
    uint32_t nodes;
    const struct topo_graph *graph; /* for the names of nodes; borrowed. NULL: show numbers */
    uint64_t origin_ns;             /* emu_now_ns() at the timeline's time 0 */
    const char *const *host; /* names of all hosts, this one first; borrowed. NULL: one host */
    uint32_t hosts;
    struct json_object *origin; /* apps/fabric/origin.h; used by timeline_create() only; or NULL */
};

/** timeline_blank - replace the contents of the file by an empty timeline. False: see errno. */
bool timeline_blank(int fd);

/** timeline_create - Errors: -ENOMEM; -ESPIPE if fd is not a regular file; those of write(). */
int timeline_create(struct timeline **ret, const struct timeline_config *config);

/** timeline_finished - add a completion of the process at @node with that incarnation. */
void timeline_finished(struct timeline *t, uint32_t node, uint64_t incarnation,
                       const struct emu_finished *one);

/** timeline_missed - count completions that were lost. */
void timeline_missed(struct timeline *t, uint64_t count);

/** timeline_clock - times of @host are converted with an error of at most @error_ns. */
void timeline_clock(struct timeline *t, uint32_t host, uint64_t error_ns);

/** timeline_host_lost - count a failure of @host, with which recent completions are lost. */
void timeline_host_lost(struct timeline *t, uint32_t host);

/** timeline_process - add a change of the process at @node. @at_ns: by emu_now_ns(). */
void timeline_process(struct timeline *t, uint32_t node, uint64_t at_ns, const char *what);

/** timeline_event - add an event (docs/control.md) at the time it has, or else at @now_ns. */
void timeline_event(struct timeline *t, uint64_t now_ns, struct json_object *event);

/** timeline_write - write all events so far to the file. Prints a line on the first error. */
void timeline_write(struct timeline *t);

/** timeline_report - the counts of events in the file and not in it, for the report. */
struct json_object *timeline_report(const struct timeline *t);

/** timeline_print - print @report as one line; nothing if it is NULL. Thread: any. */
void timeline_print(FILE *out, struct json_object *report);

/** timeline_failed - true if a write failed; the file is incomplete then. */
bool timeline_failed(const struct timeline *t);

/** timeline_destroy - complete the file and free @t. */
void timeline_destroy(struct timeline *t);

/**
 * timeline_sweep - remove the second file of a timeline whose writer was killed. @path: of the
 * timeline, or NULL. Thread: any.
 */
void timeline_sweep(const char *path);

#endif
