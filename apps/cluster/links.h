/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - a host's Ethernet ports, the host links over them, and its control channels, as the
 * cluster file has them.
 */
#ifndef APPS_CLUSTER_LINKS_H
#define APPS_CLUSTER_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include "apps/cluster/cluster.h"
#include "apps/fabric/fabric.h"
#include "apps/cluster/hosts.h"
#include "emu/hostlink/session/session.h"
#include "emu/util/json.h"

struct links;

/**
 * links_session - of pair @number of the pairs of ports that join hosts @self and @host, but for
 * `port`. @digest: cluster_digest(). @key: NULL: none; borrowed.
 */
struct emu_session_config links_session(const struct cluster *cluster, uint32_t self, uint32_t host,
                                        uint32_t number, const uint8_t *digest, const uint8_t *key);

/**
 * links_open - open the ports of host @self, and make what its fabric needs to be a part.
 * @config: what the fabric will be started with, but for `hosts`: that is set here. Borrowed, with
 *          @cluster, until links_close().
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

/** links_close - after fabric_stop(). */
void links_close(struct links *links);

/**
 * links_control - this end of the control channel to @host, which passes on; -1: there is none, or
 * it was taken. Between the governor, host 0, and each other.
 */
int links_control(struct links *links, uint32_t host);

/**
 * links_watched - the host links that no control channel goes over; as long as @links live.
 */
const struct hosts_link *links_watched(const struct links *links, uint32_t *count);

/** links_up - do all host links carry segments? @links: struct links. Thread: any. */
bool links_up(const void *links);

/**
 * links_why - which host link does not carry segments, and why: a line for the user, "" if all do.
 * Returns false if it is of no use to wait: the other host is of another fabric. Thread: any.
 */
bool links_why(const void *links, char *text, size_t bytes);

/**
 * links_launch_why - has an agent ended with an error, of a host that a link does not carry
 * segments to? Then @text is a line for the user. @failed: did the agent that this process has
 * started for @host end with an error? If so, it writes which and how. Thread: who started them.
 */
#define LINKS_HOW_BYTES 112
bool links_launch_why(const void *links, bool (*failed)(uint32_t host, char *text, size_t bytes),
                      char *text, size_t bytes);

/**
 * links_control_again - this end of another control channel to @host, for the next life of its
 * session. Errors: -errno. @links: struct links.
 */
int links_control_again(void *links, uint32_t host);

/**
 * links_rejoin - the host links to @host may come up again, once it says so, too; sockets of those
 * that are watched, and have ended, are new ones (links_watched()). Returns 1: they all carry
 * segments; 0: not yet; -errno. @links: struct links. Thread: who watches.
 */
int links_rejoin(void *links, uint32_t host);

/**
 * links_refused - does somebody who says that he is @host not get in? Then @text says why. @links:
 * struct links.
 */
bool links_refused(const void *links, uint32_t host, char *text, size_t bytes);

/**
 * links_warn - print which host is not met although its frames arrive, and why (for example, it has
 * another key). One line for each pair of ports. The start goes on, since a stranger may have sent
 * the frames. @links: struct links. Thread: one.
 */
void links_warn(void *links);

/**
 * links_duplicate - was somebody refused who said that he was another host, while that one was
 * there? Who, and why, which is told once, and is good until the next call; NULL: nobody else.
 * @links: struct links. Thread: one.
 * links_print_duplicates - all of them, as lines for the user: LINKS_DUPLICATE.
 */
#define LINKS_DUPLICATE "another one was refused that says it is host %s, which goes on: %s"
const char *links_duplicate(void *links, uint32_t *host);
void links_print_duplicates(void *links);

/** links_report - an array: of each host link what passed, was lost, was refused. */
struct json_object *links_report(const struct links *links);

#endif
