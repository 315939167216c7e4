/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.h - the hosts of a cluster file, for what all of them do together in simulated time.
 */
#ifndef APPS_CLUSTER_HANDSHAKE_H
#define APPS_CLUSTER_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/cluster/cluster.h"
#include "emu/hostlink/barrier.h"

/* Who meets whom. */
struct hosts_handshake_config {
    const struct cluster *cluster;
    uint32_t self;           /* this host's number there */
    const char *const *name; /* of all hosts, by number */
    /* Did the agent that this process has started for @host end with an error? Which, and how. */
    bool (*launch_failed)(uint32_t host, char *text, size_t bytes);
    bool (*stops)(void *ctx); /* emu_barrier_config.stops, without a ctx */
};

/**
 * hosts_handshake - open this host's ports and meet all others: emu_barrier_destroy() it.
 * @config: all hosts must have the same: network, profile, clock, seed and bounds; the others are
 *          waited for as long as its bound `start` says.
 * Errors: as emu_hostport_open(), cluster_key(), emu_barrier_create(), emu_barrier_connect(), with
 * one line in @error. What @with points to, and @config, is borrowed as long as the barrier lives.
 */
int hosts_handshake(struct emu_barrier **ret, const struct hosts_handshake_config *with,
                    const struct fabric_config *config, char *error, size_t error_bytes);

#endif
