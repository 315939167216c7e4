/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - the timeline of a running fabric: what processes tell is taken a hundred times a
 * second, and what happens is noted when it does. The daemon's one thread's.
 */
#ifndef APPS_DAEMON_TIMELINE_H
#define APPS_DAEMON_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct client;
struct daemon;
struct coordinator_piece;
struct json_object;

/* What the command asks for. */
struct timeline_plan {
    int fd;                          /* -1: none */
    char *path;                      /* of it, as in struct timeline_config; the plan's */
    uint64_t most_bytes, from_bytes; /* struct timeline_config */
};

/** timeline_serve_open - begin. Errors: a line in @error. */
int timeline_serve_open(struct daemon *daemon, const struct timeline_plan *plan, char *error,
                        unsigned long error_bytes);

/** timeline_serve_attach - a process has its node. */
void timeline_serve_attach(struct daemon *daemon, const struct client *client);

/** timeline_serve_detach - it is about to leave it. @dead: its process has ended. */
void timeline_serve_detach(struct daemon *daemon, const struct client *client, bool dead);

/** timeline_serve_event - to be noted: docs/control.md. */
void timeline_serve_event(struct daemon *daemon, struct json_object *event);

/** timeline_serve_run - take what is told. When the timer has expired. */
void timeline_serve_run(struct daemon *daemon);

/**
 * timeline_serve_receive - what another host has told of what its processes have finished; false:
 * it is wrong. timeline_serve_host_lost() - the host is. timeline_serve_host_back() - another one
 * was let in, and tells before anybody attaches there.
 */
bool timeline_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece);
void timeline_serve_host_lost(struct daemon *daemon, uint32_t host);
void timeline_serve_host_back(struct daemon *daemon);

/** timeline_serve_report - the same, and "timeline" of the report; of no timeline nothing. */
void timeline_serve_report(struct daemon *daemon, struct json_object *report);

/** timeline_serve_close - the file is complete. */
void timeline_serve_close(struct daemon *daemon);

#endif
