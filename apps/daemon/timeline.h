/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - the timeline of a running fabric: finished operations, taken from processes a
 * hundred times a second, and events when they happen. Thread: the daemon's. Without a timeline,
 * these functions do nothing.
 */
#ifndef APPS_DAEMON_TIMELINE_H
#define APPS_DAEMON_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

struct client;
struct daemon;
struct coordinator_piece;
struct json_object;

/* The options of the command. */
struct timeline_plan {
    int fd;                          /* -1: none */
    char *path;                      /* of the file; owned */
    uint64_t most_bytes, from_bytes; /* as in struct timeline_config */
};

/** timeline_serve_open - start the timeline. Errors: one line in @error. */
int timeline_serve_open(struct daemon *daemon, const struct timeline_plan *plan, char *error,
                        unsigned long error_bytes);

/** timeline_serve_attach - a process has attached. */
void timeline_serve_attach(struct daemon *daemon, const struct client *client);

/** timeline_serve_detach - it is about to detach. @dead: the process has ended. */
void timeline_serve_detach(struct daemon *daemon, const struct client *client, bool dead);

/** timeline_serve_event - record an event (docs/control.md). */
void timeline_serve_event(struct daemon *daemon, struct json_object *event);

/** timeline_serve_run - the timer has expired: take finished operations. */
void timeline_serve_run(struct daemon *daemon);

/**
 * timeline_serve_receive - another host has sent operations that its processes finished. False:
 * they are invalid. timeline_serve_host_lost() - a host is lost. timeline_serve_host_back() - a
 * host was
 * admitted: query it, before a process attaches there.
 */
bool timeline_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece);
void timeline_serve_host_lost(struct daemon *daemon, uint32_t host);
void timeline_serve_host_back(struct daemon *daemon);

/** timeline_serve_report - take finished operations of all hosts, and add "timeline" to @report. */
void timeline_serve_report(struct daemon *daemon, struct json_object *report);

/** timeline_serve_close - complete the file. */
void timeline_serve_close(struct daemon *daemon);

#endif
