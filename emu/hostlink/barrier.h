/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h - clock virtual on several hosts: all hosts advance together, superstep by superstep.
 *
 * A *superstep* lasts from one emu_barrier_sync() to the next. In a run it is one window of
 * simulated time. During a superstep a host sends cable records, each to the host at the cable's
 * remote end. emu_barrier_sync() ends the superstep, and sends some bytes to all hosts. It returns
 * when every other host has also ended the superstep, and all records of these hosts have arrived.
 * So a host waits only once per superstep: for a frame from the slowest host.
 *
 * Each pair of hosts is connected by one session (session.h), or by several, each over its own pair
 * of ports. A session delivers all records, once and in order, or it goes down. If it goes down,
 * the other host is lost for good. A host is also lost if nothing arrives from it for the session's
 * silent_ns. Every later put or sync returns an error; the first of them also notifies the other
 * hosts.
 *
 * In a superstep a host's workers simulate first. When they have paused, one thread puts the
 * records and calls emu_barrier_sync(). While the workers simulate, a thread of the barrier, the
 * *keeper*, runs the sessions: it receives frames for the next sync and sends keep-alives. While
 * the host's other threads use processors, the keeper also reports to the other hosts that this
 * host is busy. A host that sends only keep-alives for silent_ns while another one waits for it is
 * lost: its workers have stopped, and would never end the superstep.
 *
 * Received records are kept until the sync of their superstep. A host can be ahead of another by at
 * most one superstep, so records of at most two supersteps are kept. If a host sends more than two
 * supersteps can contain, it violates the protocol, which ends the barrier.
 *
 * Source: Valiant, "A bridging model for parallel computation", 1990 (supersteps); Nicol, "The cost
 * of conservative synchronization in parallel discrete event simulations", 1993 (windows that
 * are as long as the lookahead, and whose beginning all hosts agree on).
 *
 * Thread: any, but only one at a time calls these functions. A lock excludes the keeper thread.
 */
#ifndef EMU_HOSTLINK_BARRIER_H
#define EMU_HOSTLINK_BARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostlink/session/session.h"
#include "emu/hostlink/wire.h"

#define EMU_BARRIER_HOSTS_MAX 64u
#define EMU_BARRIER_WHY_BYTES 640u

/* this is ample: an 8-byte number for each of 2^20 nodes takes only 8 MiB */
#define EMU_BARRIER_MOST_BYTES ((size_t)256 << 20)

struct emu_barrier;

/* A session with another host. The first session with each host carries the bytes for all hosts. */
struct emu_barrier_peer {
    uint32_t host;
    uint32_t port;                     /* index in config.port */
    struct emu_session_config session; /* all but `port`, which the barrier sets */
};

struct emu_barrier_config {
    uint32_t self; /* number of this host, below `hosts` */
    uint32_t hosts;
    const char *const *name;          /* names of the hosts, for messages; borrowed */
    struct emu_hostport *const *port; /* on success the barrier owns them */
    uint32_t ports;
    const struct emu_barrier_peer *peer; /* at least one for each other host */
    uint32_t peers;
    bool oversubscribed; /* there are more busy threads than cores, so a wait does not spin */
    /*
     * Maximum number of bytes that another host may send in two supersteps over its first session,
     * not counting cable records (emu_barrier_expect()); 0: EMU_BARRIER_MOST_BYTES. Its other
     * sessions carry only cable records and the ends of supersteps.
     */
    size_t most_bytes;
    /*
     * Called about ten times a second by a thread that waits in a put or sync. If it returns true,
     * the call fails with -EINTR. NULL: the call never stops.
     */
    bool (*stops)(void *ctx);
    void *stops_ctx;
    /*
     * Called during the handshake for a host that is not connected. Returns whether the command
     * that starts fabemu on @host has failed, and writes the reason to @text. If so, the barrier
     * soon stops waiting for that host. NULL: not known.
     */
    bool (*failed)(uint32_t host, char *text, size_t bytes);
    uint64_t (*now_ns)(void *ctx); /* called by any thread; NULL: use the monotonic clock */
    void *now_ctx;
    /*
     * Returns the total work of the simulating threads in ns. Called by the keeper. NULL: use the
     * processor time of all threads of this process except the keeper.
     */
    uint64_t (*worked_ns)(void *ctx);
    void *worked_ctx;
};

/* Part of the error for a host that has sent something invalid; a description follows it. */
#define EMU_BARRIER_VIOLATED "violated the protocol: "

struct emu_barrier_taker {
    /*
     * Returns NULL if the record is valid, else the rest of an error text that begins with "host
     * NAME", such as EMU_BARRIER_VIOLATED "a record of an unknown cable".
     */
    const char *(*record)(void *ctx, uint32_t peer, const struct emu_hostlink_record *record);
    void *ctx;
};

/**
 * emu_barrier_create - start the handshakes with all other hosts. Errors: as emu_session_create(),
 * emu_waiter_add(), emu_spawn(); -EINVAL: the configuration is invalid.
 */
int emu_barrier_create(struct emu_barrier **ret, const struct emu_barrier_config *config);

/**
 * emu_barrier_connect - wait until all hosts are connected. Errors: -ETIMEDOUT: some were not
 * connected within @timeout_ns; -EPROTO: a host belongs to another fabric, or its command failed;
 * -EHOSTDOWN: a connected host was lost. emu_barrier_why() returns the reason.
 */
int emu_barrier_connect(struct emu_barrier *barrier, uint64_t timeout_ns);

/**
 * emu_barrier_destroy - wait up to 1 s until the other hosts have received all records. Then free
 * the barrier and close its ports. NULL is allowed.
 */
void emu_barrier_destroy(struct emu_barrier *barrier);

/** emu_barrier_taker - deliver cable records to @taker from now on; NULL: none may arrive. */
void emu_barrier_taker(struct emu_barrier *barrier, const struct emu_barrier_taker *taker);

/** emu_barrier_expect - let @peer send @bytes more in two supersteps, for cable records. */
void emu_barrier_expect(struct emu_barrier *barrier, uint32_t peer, size_t bytes);

/** emu_barrier_put - send a record to @peer in this superstep. Errors: as emu_barrier_sync(). */
int emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                    const struct emu_hostlink_record *record);

/**
 * emu_barrier_sync - end this superstep, and send the @bytes bytes at @mine to all other hosts.
 * Wait until every other host has ended the superstep, and deliver their records. Errors:
 * -EHOSTDOWN: a host was lost; -ECONNABORTED: a host called emu_barrier_fail(); -EPROTO: a host
 * violated the protocol; -EINTR: config.stops() returned true; -ENOMEM. After an error all later
 * calls fail, too. emu_barrier_why() returns a line that explains the error.
 */
int emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes);

/**
 * emu_barrier_of - return the bytes that @host sent to all hosts in the last sync, valid until the
 * next sync. @host: another host.
 */
const void *emu_barrier_of(const struct emu_barrier *barrier, uint32_t host, size_t *bytes);

/**
 * emu_barrier_fail - end the barrier because of an error on this host. The next sync of every other
 * host fails. @why: the reason, one line.
 */
void emu_barrier_fail(struct emu_barrier *barrier, const char *why);

/**
 * emu_barrier_error - return 0, or the error that ended the barrier.
 * emu_barrier_why - return a line for the user that explains it.
 */
int emu_barrier_error(const struct emu_barrier *barrier);
const char *emu_barrier_why(const struct emu_barrier *barrier);

/** emu_barrier_config - return the configuration, without `port` and `peer`. */
const struct emu_barrier_config *emu_barrier_config(const struct emu_barrier *barrier);

uint32_t emu_barrier_host(const struct emu_barrier *barrier, uint32_t peer);

#endif
