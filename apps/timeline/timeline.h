/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - writes a run to a trace file in Chrome's trace-event format, which Perfetto reads.
 *
 * In the viewer each node is a process with threads of four kinds: collectives, messages sent,
 * messages received, and the life cycle of the node's process. One more process, after the nodes,
 * shows the fabric's faults and other events. Events that overlap are put into several threads of
 * one kind, so that the events of a thread are in order and do not overlap. Times are in
 * microseconds since the fabric's start. On several hosts they are times of the clock of the host
 * that writes the file, and the file says how far the clocks of the other hosts may be off.
 *
 * The file is complete JSON at any time, even after a kill in the middle of a write. For this there
 * are two files. One has the timeline's name. The other is written, and then the two swap names.
 * The size is limited: events that come after the limit is reached are only counted.
 * Rejected: overwriting the end of a single file in one write, which a kill can cut short between
 * two pages.
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

struct fabric_config;
struct timeline;

struct timeline_config {
    int fd;              /* an empty regular file; the caller closes it */
    const char *path;    /* the file's name, symbolic links resolved; NULL: use only one file */
    uint64_t most_bytes; /* maximum size of the file, at least 1 MiB */
    uint64_t from_bytes; /* size of the smallest message in the timeline */
    uint32_t nodes;
    const struct topo_graph *graph; /* for the names of nodes; borrowed. NULL: show numbers */
    uint64_t origin_ns;             /* emu_now_ns() at the timeline's time 0 */
    const char *const *host; /* names of all hosts, this one first; borrowed. NULL: one host */
    uint32_t hosts;
    const struct fabric_config *fabric; /* which nodes the hosts have; borrowed. NULL: one host */
    struct json_object *origin; /* from origin_json(), or NULL; only timeline_create() uses it */
};

/** timeline_blank - replace the file's contents by an empty timeline. On failure errno is set. */
bool timeline_blank(int fd);

/**
 * timeline_create - begin the timeline, which replaces the file's contents. Errors: -ENOMEM;
 * -ESPIPE if fd is not a regular file; errors of write().
 */
int timeline_create(struct timeline **ret, const struct timeline_config *config);

/** timeline_finished - add a completion of the process at @node with this @incarnation. */
void timeline_finished(struct timeline *t, uint32_t node, uint64_t incarnation,
                       const struct emu_finished *one);

/** timeline_missed - count completions that were overwritten or dropped before they were read. */
void timeline_missed(struct timeline *t, uint64_t count);

/** timeline_clock - note that times of @host were converted with an error of up to @error_ns. */
void timeline_clock(struct timeline *t, uint32_t host, uint64_t error_ns);

/** timeline_host_lost - count a failure of @host; its most recent completions are lost. */
void timeline_host_lost(struct timeline *t, uint32_t host);

/** timeline_process - add the event @what of the process at @node. @at_ns: by emu_now_ns(). */
void timeline_process(struct timeline *t, uint32_t node, uint64_t at_ns, const char *what);

/**
 * timeline_event - add an event (docs/control.md) at the time in its field "s", or at @now_ns.
 * @host: the host that has reported it.
 */
void timeline_event(struct timeline *t, uint32_t host, uint64_t now_ns, struct json_object *event);

/** timeline_write - write all events so far to the file. Prints a line on the first error. */
void timeline_write(struct timeline *t);

/** timeline_report - return the numbers of events in the file and of events left out. */
struct json_object *timeline_report(const struct timeline *t);

/** timeline_print - print @report as one line, or nothing if it is NULL. Thread: any. */
void timeline_print(FILE *out, struct json_object *report);

/** timeline_failed - return whether a write has failed, so that the file is incomplete. */
bool timeline_failed(const struct timeline *t);

/** timeline_destroy - complete the file and free @t. */
void timeline_destroy(struct timeline *t);

/**
 * timeline_sweep - remove the second file that a killed writer has left beside the timeline at
 * @path, which may be NULL. Thread: any.
 */
void timeline_sweep(const char *path);

#endif
