/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - the timeline of a running fabric: the finished operations of processes, collected a
 * hundred times a second, and events. Thread: the daemon's. If no timeline is recorded, these
 * functions do nothing.
 */
#ifndef APPS_DAEMON_TIMELINE_H
#define APPS_DAEMON_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct client;
struct daemon;
struct coordinator_piece;
struct json_object;

struct timeline_plan {
    int fd;                          /* the file; -1: no timeline is recorded */
    char *path;                      /* name of the file; owned */
    uint64_t most_bytes, from_bytes; /* as in struct timeline_config */
};

/** timeline_serve_open - start the timeline. Errors: -errno, with one line in @error. */
int timeline_serve_open(struct daemon *daemon, const struct timeline_plan *plan, char *error,
                        unsigned long error_bytes);

void timeline_serve_attach(struct daemon *daemon, const struct client *client);

/**
 * timeline_serve_detach - collect the last operations of a process that is about to detach. @dead:
 * the process has ended.
 */
void timeline_serve_detach(struct daemon *daemon, const struct client *client, bool dead);

/** timeline_serve_event - record an event (docs/control.md) that @host has reported. */
void timeline_serve_event(struct daemon *daemon, uint32_t host, struct json_object *event);

/** timeline_serve_run - collect finished operations, because the timer has expired. */
void timeline_serve_run(struct daemon *daemon);

/**
 * timeline_serve_receive - take operations that processes of another host have finished. Returns
 * false if they are invalid.
 * timeline_serve_host_lost() - handle the loss of a host.
 * timeline_serve_host_back() - request operations from all other hosts, because a host was admitted
 * and no process has attached there yet.
 */
bool timeline_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece);
void timeline_serve_host_lost(struct daemon *daemon, uint32_t host);
void timeline_serve_host_back(struct daemon *daemon);

/** timeline_serve_report - add "timeline" to @report, after a last collection from all hosts. */
void timeline_serve_report(struct daemon *daemon, struct json_object *report);

void timeline_serve_close(struct daemon *daemon);

#endif
