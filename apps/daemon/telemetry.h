/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.h - snapshots of counters for readers: subscribers on the control socket, and the file
 * of --record. Thread: the daemon's.
 *
 * Times count from the fabric's first subscription. A reader's first snapshot is due at the next
 * multiple of 100 ms, and the others are due at multiples of the reader's interval. The daemon
 * samples all counters once for all readers that are due at the same time. If a reader's socket has
 * not taken the last line yet, the reader's next snapshot is skipped, and a later snapshot contains
 * the number of skipped ones. Therefore no reader blocks the daemon, and each has at most one line
 * queued. Without readers no sampler exists, and no timer runs. On several hosts, the daemon
 * queries the other hosts when a snapshot is due. It takes the snapshot when they have replied, or
 * after a time limit.
 */
#ifndef APPS_DAEMON_TELEMETRY_H
#define APPS_DAEMON_TELEMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/telemetry/filter.h"

struct client;
struct daemon;
struct coordinator_piece;
struct json_object;

/* A subscription of a client or of the file to snapshots. */
struct telemetry_reader {
    uint32_t every_ms; /* interval of snapshots; 0: no subscription */
    uint64_t due_ms;   /* time of the next snapshot, since the fabric's first subscription */
    uint64_t seen;     /* number of the sample that was sent last; 0: none */
    uint64_t skipped;  /* snapshots skipped since that sample */
    struct telemetry_format format;
};

/**
 * telemetry_serve_subscribe - handle field "telemetry" of a subscribe request: send the reply and
 * the shape record, which describes the network. Interval 0 ends the subscription to snapshots, and
 * only the reply is sent. Returns false if the request is invalid, after it has sent an error.
 */
bool telemetry_serve_subscribe(struct daemon *daemon, struct client *client,
                               struct json_object *request);

/**
 * telemetry_serve_record - write ten snapshots a second to the file of --record, and one at the
 * end. Errors: -ENOMEM, -EMFILE.
 */
int telemetry_serve_record(struct daemon *daemon);

/** telemetry_serve_left - free the subscription of @client, which has ended or gets a new one. */
void telemetry_serve_left(struct client *client);

/**
 * telemetry_serve_detach - take the last counters of the process at @node, which is about to
 * detach.
 */
void telemetry_serve_detach(struct daemon *daemon, uint32_t node);

/** telemetry_serve_run - send snapshots to readers that are due, because the timer has expired. */
void telemetry_serve_run(struct daemon *daemon);

/**
 * telemetry_serve_receive - take counters that another host has sent, as telemetry_receive() does.
 * Returns false if they are invalid.
 * telemetry_serve_received_all() - take the snapshot, because all queried hosts have replied or are
 * lost.
 * telemetry_serve_host_lost() - wait no longer for @host; take the snapshot if no other host is
 * left to wait for.
 */
bool telemetry_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece);
void telemetry_serve_received_all(struct daemon *daemon);
void telemetry_serve_host_lost(struct daemon *daemon, uint32_t host);

/**
 * telemetry_serve_close - send a last snapshot, at the end of the fabric, to each reader that has
 * received its last line. Wait until they have read it, for at most 500 ms, and at most 50 ms after
 * a reader last read something.
 */
void telemetry_serve_close(struct daemon *daemon);

#endif
