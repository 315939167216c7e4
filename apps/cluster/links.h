/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - a host's Ethernet ports, the host links over them and its control channels, as the
 * cluster file describes them.
 */
#ifndef APPS_CLUSTER_LINKS_H
#define APPS_CLUSTER_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/cluster/cluster.h"
#include "apps/fabric/fabric.h"
#include "apps/cluster/hosts.h"
#include "emu/hostlink/barrier.h"
#include "emu/hostlink/port/open.h"
#include "emu/hostlink/session/session.h"
#include "emu/util/json.h"

struct links;

/**
 * links_session - the session over pair @number of the pairs of ports that connect hosts @self and
 * @host, without `port`. @digest: cluster_digest(). @key: NULL: none; borrowed.
 */
struct emu_session_config links_session(const struct cluster *cluster, uint32_t self, uint32_t host,
                                        uint32_t number, const uint8_t *digest, const uint8_t *key);

/**
 * links_port - options to open port @port of host @self: with as many frames as its sessions can
 * hold together, so that one host cannot take those of the others. Pure.
 */
struct emu_hostport_options links_port(const struct cluster *cluster, uint32_t self, uint32_t port);

/**
 * links_open - open the ports of host @self and make what its part of the fabric needs.
 * @config: the configuration that the fabric will be started with; `hosts` is set here. Borrowed,
 * with @cluster, until links_close().
 * @host_of: by switch, cluster_place(); borrowed.
 * Errors: as emu_hostport_open(), cluster_key(); -ENOMEM; one line in @error.
 * Thread: the one that will start the fabric.
 */
int links_open(struct links **ret, const struct cluster *cluster, uint32_t self,
               struct fabric_config *config, const uint32_t *host_of, char *error,
               size_t error_bytes);

/**
 * links_await_close - wait until the other hosts have received all that was written to this host's
 * control channels, and have closed theirs: emu_hostlink_is_closed(). This host has already closed
 * its own ends. @most_ms: limit of the wait. Does not wait for a host whose session has ended.
 * Thread: any, while the fabric's workers run.
 */
void links_await_close(const struct links *links, uint64_t most_ms);

/** links_close - free it, after fabric_stop(). */
void links_close(struct links *links);

/**
 * links_control - the control channel between the coordinator, host 0, and @host. The caller
 * becomes its owner. -1: there is none, or it was taken before.
 */
int links_control(struct links *links, uint32_t host);

/** links_watched - the host links without a control channel; valid as long as @links. */
const struct hosts_link *links_watched(const struct links *links, uint32_t *count);

/** links_up - do all host links carry segments? @links: struct links. Thread: any. */
bool links_up(const void *links);

/**
 * links_why - which host link does not carry segments, and why: a line for the user, "" if all do.
 * Returns false if waiting is pointless: the other host belongs to another fabric. Thread: any.
 */
bool links_why(const void *links, char *text, size_t bytes);

/**
 * links_launch_why - has an agent failed on a host whose links do not carry segments yet? Then
 * @text is a line for the user. @failed: did the agent that this process started on @host end with
 * an error? If so, it writes which and how. Thread: the one that started the agents.
 */
#define LINKS_HOW_BYTES 112
bool links_launch_why(const void *links, bool (*failed)(uint32_t host, char *text, size_t bytes),
                      char *text, size_t bytes);

/**
 * links_control_again - open another control channel to @host, for the next incarnation of its
 * session. Returns our end. Errors: -errno. @links: struct links.
 */
int links_control_again(void *links, uint32_t host);

/**
 * links_rejoin - allow the host links to @host to come up again, once that host allows it, too.
 * Watched links that have ended get new sockets (links_watched()). Returns 1: all carry segments;
 * 0: not yet; -errno. @links: struct links. Thread: the one that watches the links.
 */
int links_rejoin(void *links, uint32_t host);

/**
 * links_refused - is a host rejected that claims to be @host? Then @text says why. @links: struct
 * links.
 */
bool links_refused(const void *links, uint32_t host, char *text, size_t bytes);

/**
 * links_warn - print which host is not connected although its frames arrive, and why (for example,
 * it has another key). One line per pair of ports. The start continues, because a stranger may have
 * sent the frames. @links: struct links. Thread: one.
 */
void links_warn(void *links);

/**
 * links_duplicate - was a host rejected that claims to be @host, while that one was connected?
 * Returns which and why, once, valid until the next call; NULL: no other. @links: struct links.
 * Thread: one. links_print_duplicates - print them all as lines for the user: LINKS_DUPLICATE.
 */
#define LINKS_DUPLICATE "another one was refused that says it is host %s, which goes on: %s"
const char *links_duplicate(void *links, uint32_t *host);
void links_print_duplicates(void *links);

/** links_report - an array with the counters of each host link. */
struct json_object *links_report(const struct links *links);

/* --- handshake.c: connections of clock virtual ------------------------------------------------ */

/* The hosts to connect. */
struct hosts_handshake_config {
    const struct cluster *cluster;
    uint32_t self;           /* number of this host */
    const char *const *name; /* of all hosts, by number */
    /*
     * Did the agent that this process started on @host end with an error? If so, it writes which
     * and how.
     */
    bool (*launch_failed)(uint32_t host, char *text, size_t bytes);
    bool (*stops)(void *ctx); /* emu_barrier_config.stops, without a ctx */
};

/**
 * hosts_handshake - open this host's ports and connect to all other hosts, for work that all do
 * together in simulated time. The caller frees the barrier with emu_barrier_destroy().
 * @config: all hosts must have the same network, profile, clock, seed and bounds; its bound `start`
 * limits the wait for the others.
 * Errors: as emu_hostport_open(), cluster_key(), emu_barrier_create(), emu_barrier_connect(), with
 * one line in @error. @config and the pointers in @with are borrowed as long as the barrier exists.
 */
int hosts_handshake(struct emu_barrier **ret, const struct hosts_handshake_config *with,
                    const struct fabric_config *config, char *error, size_t error_bytes);

#endif
