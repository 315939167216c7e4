/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.h - snapshots for whoever has subscribed to them on the control socket. The daemon's
 * one thread's.
 *
 * There are at most ten looks a second, at multiples of 100 ms, whoever asks for how many. A reader
 * whose socket has not taken the last line yet has the next one left out, and is told how many
 * were: it holds up nobody, and has one line waiting at most. Without readers there is no sampler,
 * and no timer runs. On several hosts the others are asked when a snapshot is due, and it is taken
 * when they have answered, or are late.
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

/* What the daemon keeps of a connection's wish. */
struct telemetry_reader {
    uint32_t every_ms; /* 0: it wants none */
    uint64_t due_ms;   /* since the fabric's start: the next */
    uint64_t seen;     /* the look that it was told of last; 0: none */
    uint64_t skipped;  /* since then */
    struct telemetry_format format;
};

/**
 * telemetry_serve_subscribe - "telemetry" of a subscribe request: reply, and the shape.
 * False: the request is wrong, and was answered.
 */
bool telemetry_serve_subscribe(struct daemon *daemon, struct client *client,
                               struct json_object *request);

/**
 * telemetry_serve_record - from now on ten snapshots a second go into the file of the daemon's
 * configuration, one behind the other, and one more at the end. Errors: -ENOMEM, -EMFILE.
 */
int telemetry_serve_record(struct daemon *daemon);

/** telemetry_serve_left - @client does not read any more. */
void telemetry_serve_left(struct client *client);

/** telemetry_serve_detach - the process at @node is about to leave it. */
void telemetry_serve_detach(struct daemon *daemon, uint32_t node);

/** telemetry_serve_run - whoever is due gets a line. When the timer has expired. */
void telemetry_serve_run(struct daemon *daemon);

/**
 * telemetry_serve_receive - what another host has told of its counters: telemetry_receive(); false:
 * it is wrong. telemetry_serve_received_all() - no host that was asked is waited for any more.
 * telemetry_serve_host_lost() - the host is.
 */
bool telemetry_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece);
void telemetry_serve_received_all(struct daemon *daemon);
void telemetry_serve_host_lost(struct daemon *daemon, uint32_t host);

/**
 * telemetry_serve_close - the fabric ends: each reader gets one more line, of what is so now, if it
 * takes it in half a second. Who takes nothing is waited for a twentieth of a second.
 */
void telemetry_serve_close(struct daemon *daemon);

#endif
