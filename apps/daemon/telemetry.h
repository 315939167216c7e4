/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.h - snapshots for subscribers on the control socket and for --record. Thread: the
 * daemon's.
 *
 * Samples are taken at multiples of 100 ms, each for all readers that are due then. If the socket
 * of a reader has not taken the last line yet, its next snapshot is skipped, and a later one says
 * how many were. So no reader blocks the daemon, and each has at most one line queued. Without
 * readers there is no sampler, and no timer runs. On several hosts the other hosts are queried when
 * a snapshot is due; it is taken when they have answered, or after a time limit.
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

/* A subscription of a connection, or of the file. */
struct telemetry_reader {
    uint32_t every_ms; /* interval; 0: no subscription */
    uint64_t due_ms;   /* next snapshot, since the fabric's start */
    uint64_t seen;     /* number of the last sample that was sent; 0: none */
    uint64_t skipped;  /* snapshots since then */
    struct telemetry_format format;
};

/**
 * telemetry_serve_subscribe - handle "telemetry" in a subscribe request: send the reply and the
 * shape record. False: the request is invalid; an error was sent.
 */
bool telemetry_serve_subscribe(struct daemon *daemon, struct client *client,
                               struct json_object *request);

/**
 * telemetry_serve_record - write ten snapshots a second to the file of the daemon's configuration,
 * and one at the end. Errors: -ENOMEM, -EMFILE.
 */
int telemetry_serve_record(struct daemon *daemon);

/** telemetry_serve_left - @client has closed: free its subscription. */
void telemetry_serve_left(struct client *client);

/** telemetry_serve_detach - the process at @node is about to detach. */
void telemetry_serve_detach(struct daemon *daemon, uint32_t node);

/** telemetry_serve_run - the timer has expired: send snapshots to readers that are due. */
void telemetry_serve_run(struct daemon *daemon);

/**
 * telemetry_serve_receive - another host has sent counters: telemetry_receive(). False: they are
 * invalid. telemetry_serve_received_all() - all queried hosts have answered or are lost.
 * telemetry_serve_host_lost() - a host is lost.
 */
bool telemetry_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece);
void telemetry_serve_received_all(struct daemon *daemon);
void telemetry_serve_host_lost(struct daemon *daemon, uint32_t host);

/**
 * telemetry_serve_close - the fabric ends: send a last snapshot to each reader, and wait until they
 * have read it, at most 500 ms in all and 50 ms without any progress.
 */
void telemetry_serve_close(struct daemon *daemon);

#endif
