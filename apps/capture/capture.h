/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h - a fabric's own capture, from its start to its end: --capture of run, up and traffic.
 *
 * A thread of the fabric's process writes. Others capture with `fabemu capture` (cmd/capture.c),
 * which empties the rings in its own process.
 */
#ifndef APPS_CAPTURE_CAPTURE_H
#define APPS_CAPTURE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#define CAPTURE_SNAP_MOST 240u /* bytes of a payload: all of it */

struct capture_files;
struct fabric;
struct topo_graph;

/* What options ask for. */
struct capture_plan {
    struct capture_files *files; /* open; the caller closes them; NULL: no capture */
    const char *filter;
    uint32_t snap_bytes;
};

struct capture_thread;

/**
 * capture_begin - open the taps, and start the thread. @plan: borrowed until capture_end(). @error:
 * one line.
 * Errors: as capture_filter_read(), fabric_capture_start() and capture_writer_open(); -EAGAIN, no
 * more threads. Thread: the fabric's manager.
 */
int capture_begin(struct capture_thread **ret, struct fabric *fabric,
                  const struct topo_graph *graph, const struct capture_plan *plan, char *error,
                  size_t error_bytes);

/**
 * capture_end - close the taps, write the rest into the file, and print a line about it. @capture:
 * NULL: nothing happens. Errors: those of the file, which are printed; none if its reader has
 * closed it. Thread: the same.
 */
int capture_end(struct capture_thread *capture, struct fabric *fabric);

#endif
