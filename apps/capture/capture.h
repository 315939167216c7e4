/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h - captures segments from the start to the end of a fabric (option --capture of `fabemu
 * run`, `fabemu up` and `fabemu traffic`).
 *
 * A thread of the fabric's process writes the capture. The command `fabemu capture` does not use
 * this thread: its own process reads the rings into which the workers put records.
 */
#ifndef APPS_CAPTURE_CAPTURE_H
#define APPS_CAPTURE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#define CAPTURE_SNAP_MOST 240u /* maximum of snap_bytes: the whole payload of a segment */

struct capture_files;
struct fabric;
struct topo_graph;

/* The user's options for a capture. */
struct capture_plan {
    struct capture_files *files; /* open; the caller closes them; NULL: no capture */
    const char *filter;          /* see filter.h */
    uint32_t snap_bytes;         /* payload bytes to keep of each segment */
};

struct capture_thread;

/**
 * capture_begin - start the capture and its thread. Borrows @plan until capture_end().
 * Errors: as capture_filter_read(), fabric_capture_start() and capture_writer_open(); -EAGAIN if no
 * thread can be created. Thread: the fabric's manager.
 */
int capture_begin(struct capture_thread **ret, struct fabric *fabric,
                  const struct topo_graph *graph, const struct capture_plan *plan, char *error,
                  size_t error_bytes);

/**
 * capture_end - stop the capture, write the remaining records, and print a summary. Does nothing if
 * @capture is NULL. Returns 0, or the error of writing, which has been printed. A pipe that was
 * closed by its reader is not an error. Thread: the fabric's manager.
 */
int capture_end(struct capture_thread *capture, struct fabric *fabric);

#endif
