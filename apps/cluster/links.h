/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - opens a host's Ethernet ports, the host links over them, and its control channels, as
 * the cluster file describes them. A *host link* is the device at one end of the cables between two
 * hosts. It sends the segments of these cables in frames. A *session* numbers the frames and
 * retransmits lost ones (emu/hostlink/).
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
 * links_session - return the configuration, except its field `port`, of a session between hosts
 * @self and @host. @number: number of the pair of ports that the session uses, among the pairs that
 * connect the two hosts.
 * @digest: from cluster_digest(). @key: borrowed; NULL if the cluster has none.
 */
struct emu_session_config links_session(const struct cluster *cluster, uint32_t self, uint32_t host,
                                        uint32_t number, const uint8_t *digest, const uint8_t *key);

/**
 * links_port - return the options with which port @port of host @self is opened. The port gets as
 * many frames as all its sessions together can use, so that no session uses up the frames of
 * others. Pure.
 */
struct emu_hostport_options links_port(const struct cluster *cluster, uint32_t self, uint32_t port);

/**
 * links_open - open the ports of host @self and prepare its host links.
 * @config: the configuration with which the fabric will be started; this function sets its `hosts`.
 * @config and @cluster are borrowed until links_close().
 * @host_of: for each switch, the number of its host, from cluster_place(); borrowed.
 * Errors: as emu_hostport_open(), cluster_key(); -ENOMEM; with one line in @error.
 * Thread: the thread that will start the fabric.
 */
int links_open(struct links **ret, const struct cluster *cluster, uint32_t self,
               struct fabric_config *config, const uint32_t *host_of, char *error,
               size_t error_bytes);

/**
 * links_await_close - wait until the other hosts have received everything that was written to this
 * host's control channels, and have closed their ends (emu_hostlink_is_closed()). This host must
 * have closed its own ends. Does not wait for a host whose session has ended. Returns after
 * @most_ms at the latest. Thread: any, while the fabric's workers run.
 */
void links_await_close(const struct links *links, uint64_t most_ms);

/** links_close - free @links, after fabric_stop(). */
void links_close(struct links *links);

/**
 * links_control - return the socket at this host's end of the control channel to @host. The caller
 * owns the socket from now on. The coordinator, host 0, has a channel to each other host. Returns
 * -1 if there is no such channel, or an earlier call has returned its socket.
 */
int links_control(struct links *links, uint32_t host);

/**
 * links_watched - return an array of the host links that have no control channel, valid until
 * links_close().
 */
const struct hosts_link *links_watched(const struct links *links, uint32_t *count);

/** links_up - return whether all host links carry segments. @links: struct links. Thread: any. */
bool links_up(const void *links);

/**
 * links_why - write a line for the user about a host link that does not carry segments, with the
 * reason; "" if all links carry segments. Returns false if waiting is pointless, because the host
 * at the other end belongs to another fabric. @links: struct links. Thread: any.
 */
bool links_why(const void *links, char *text, size_t bytes);

#define LINKS_HOW_BYTES 112 /* size of the text in which @failed describes the agent */

/**
 * links_launch_why - return true if the agent on some host has failed, so that the links to it
 * carry no segments. If so, write a line for the user to @text. @failed: a function that returns
 * whether the agent that this process started on @host has ended with an error. If so, it describes
 * the agent and the error in @text.
 * @links: struct links. Thread: the thread that started the agents.
 */
bool links_launch_why(const void *links, bool (*failed)(uint32_t host, char *text, size_t bytes),
                      char *text, size_t bytes);

/**
 * links_control_again - open another control channel to @host, for the session with the process
 * that will replace a lost one on @host. Returns this host's end of it. Errors: -errno. @links:
 * struct links.
 */
int links_control_again(void *links, uint32_t host);

/**
 * links_rejoin - allow the host links to @host to come up again. They come up when @host has
 * allowed it, too. If the session of a link in links_watched() has ended, the link's closed_fd
 * (hosts.h) becomes a descriptor for the next session. Returns 1 if all links to @host carry
 * segments, 0 if not yet. Errors: -errno. @links: struct links. Thread: the thread that watches the
 * links.
 */
int links_rejoin(void *links, uint32_t host);

/**
 * links_refused - return whether this host rejects another host that claims to be @host. If so,
 * @text says why. @links: struct links.
 */
bool links_refused(const void *links, uint32_t host, char *text, size_t bytes);

/**
 * links_warn - for each host that cannot connect although its frames arrive, print the reason; for
 * example, it has another key. Prints at most one line for each pair of ports. The start continues,
 * because a stranger may have sent these frames. @links: struct links. Thread: always the same.
 */
void links_warn(void *links);

/**
 * links_duplicate - return a text about a host that was rejected because it claims to be a
 * connected host: its address, and the reason of the rejection. *host: gets the number of the host
 * that it claims to be. Returns each text once, valid until the next call; NULL if no text is left.
 * links_print_duplicates() - print these texts, in the format LINKS_DUPLICATE, but at most one for
 * each pair of ports. @links: struct links. Thread: always the same.
 */
#define LINKS_DUPLICATE \
    "refused another host that claims to be host %s; the first one stays connected: %s"
const char *links_duplicate(void *links, uint32_t *host);
void links_print_duplicates(void *links);

/** links_report - return an array with the counters of each host link. */
struct json_object *links_report(const struct links *links);

/* --- handshake.c: connections of clock virtual ------------------------------------------------ */

/* Arguments of hosts_handshake(). */
struct hosts_handshake_config {
    const struct cluster *cluster;
    uint32_t self;           /* number of this host */
    const char *const *name; /* for each host, its name */
    /* as @failed of links_launch_why() */
    bool (*launch_failed)(uint32_t host, char *text, size_t bytes);
    bool (*stops)(void *ctx); /* as emu_barrier_config.stops; called with NULL */
};

/**
 * hosts_handshake - open this host's ports and connect to all other hosts, for a simulation that
 * all hosts run together on clock virtual. The caller frees the barrier with emu_barrier_destroy().
 * @ret: gets the barrier, by which the hosts advance simulated time in step (barrier.h).
 * @config: all hosts must have the same network, profile, clock, seed and bounds. Its bound `start`
 * limits the wait for the other hosts. The function borrows @config and the pointers in @with as
 * long as the barrier exists. Errors: as emu_hostport_open(), cluster_key(), emu_barrier_create(),
 * emu_barrier_connect(), with one line in @error.
 */
int hosts_handshake(struct emu_barrier **ret, const struct hosts_handshake_config *with,
                    const struct fabric_config *config, char *error, size_t error_bytes);

#endif
