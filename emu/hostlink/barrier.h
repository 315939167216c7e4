/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h - clock virtual on several hosts: all hosts advance together, superstep by superstep.
 *
 * Each pair of hosts is connected by one session (session.h), or by several over as many pairs of
 * ports. During a superstep a host sends cable records, each to the host at the cable's remote end.
 * emu_barrier_sync() ends the superstep with some bytes for all hosts. It returns when every other
 * host has ended the superstep, too, and all of its records have arrived: one wait per superstep,
 * as long as one frame from the slowest host takes.
 *
 * A session delivers all records, once and in order, or it goes down; then its host is lost for
 * good. A host that simulates sends nothing by itself, so a keeper thread of the barrier runs the
 * sessions meanwhile: it receives frames for the next sync and sends keep-alives. A host is lost
 * when nothing arrived from it for the session's silent_ns. Every later put or sync reports that
 * error; the first one also notifies the other hosts.
 *
 * Received records are kept until the sync that they belong to. A host can be ahead of another by
 * at most one superstep, so at most two supersteps' records are kept. A host that sends more
 * violates the protocol, which ends the barrier.
 *
 * Source: Valiant, "A bridging model for parallel computation", 1990 (supersteps); Nicol, "The cost
 * of conservative synchronization in parallel discrete event simulations", 1993 (windows of the
 * lookahead whose begin all hosts agree on).
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

/* More than a host needs: one number for each of 2^20 nodes takes 8 MiB. */
#define EMU_BARRIER_MOST_BYTES ((size_t)256 << 20)

struct emu_barrier;

/* A session with another host. The first session of each host carries the bytes for all hosts. */
struct emu_barrier_peer {
    uint32_t host;
    uint32_t port;                     /* index in config.port */
    struct emu_session_config session; /* `port` is set by the barrier */
};

struct emu_barrier_config {
    uint32_t self; /* this host's number, below hosts */
    uint32_t hosts;
    const char *const *name;          /* by host, for messages; borrowed */
    struct emu_hostport *const *port; /* on success the barrier owns them */
    uint32_t ports;
    const struct emu_barrier_peer *peer; /* at least one for each other host */
    uint32_t peers;
    bool oversubscribed; /* more busy threads than cores: do not spin */
    /*
     * Bytes that another host may send in two supersteps, besides cable records
     * (emu_barrier_expect()); 0: EMU_BARRIER_MOST_BYTES.
     */
    size_t most_bytes;
    /*
     * Called about ten times a second by a thread that waits in a put or sync. If it returns true
     * the call fails with -EINTR. NULL: never stop.
     */
    bool (*stops)(void *ctx);
    void *stops_ctx;
    /*
     * During the handshake: has the command that starts fabemu on @host failed? If so, it writes
     * the reason to @text, and the barrier stops waiting for that host. NULL: not known.
     */
    bool (*failed)(uint32_t host, char *text, size_t bytes);
    uint64_t (*now_ns)(void *ctx); /* called by any thread; NULL: the monotonic clock */
    void *now_ctx;
};

/* The receiver of cable records. */
struct emu_barrier_taker {
    /* Returns NULL, or why the record is invalid: its host has violated the protocol. */
    const char *(*record)(void *ctx, uint32_t peer, const struct emu_hostlink_record *record);
    void *ctx;
};

/**
 * emu_barrier_create - start the handshakes with all other hosts. Errors: as emu_session_create(),
 * emu_waiter_add(), emu_spawn(); -EINVAL, an invalid configuration.
 */
int emu_barrier_create(struct emu_barrier **ret, const struct emu_barrier_config *config);

/**
 * emu_barrier_connect - wait until all hosts are connected. Errors: -ETIMEDOUT, not within
 * @timeout_ns; -EPROTO, a host belongs to another fabric; -EHOSTDOWN, a connected host was lost:
 * emu_barrier_why().
 */
int emu_barrier_connect(struct emu_barrier *barrier, uint64_t timeout_ns);

/**
 * emu_barrier_destroy - wait until the other hosts have received all records, at most 1 s, then
 * free the barrier and close its ports. NULL is allowed.
 */
void emu_barrier_destroy(struct emu_barrier *barrier);

/** emu_barrier_taker - pass cable records to @taker from now on; NULL: to nobody. */
void emu_barrier_taker(struct emu_barrier *barrier, const struct emu_barrier_taker *taker);

/** emu_barrier_expect - allow @bytes more bytes of cable records in two supersteps. */
void emu_barrier_expect(struct emu_barrier *barrier, size_t bytes);

/**
 * emu_barrier_put - send a record to @peer; it arrives before this superstep ends. Errors: as
 * emu_barrier_sync().
 */
int emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                    const struct emu_hostlink_record *record);

/**
 * emu_barrier_sync - end this superstep with @bytes bytes for all other hosts, and wait until all
 * of them have ended it and their records were delivered. Errors: -EHOSTDOWN, a host is lost;
 * -ECONNABORTED, a host called emu_barrier_fail(); -EPROTO, a host violated the protocol; -EINTR,
 * config.stops() returned true; -ENOMEM. All are permanent; emu_barrier_why() explains them in a
 * line.
 */
int emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes);

/** emu_barrier_of - the bytes of @host, another host, in the last sync; valid until the next. */
const void *emu_barrier_of(const struct emu_barrier *barrier, uint32_t host, size_t *bytes);

/** emu_barrier_fail - this host gives up: the next sync of every other host fails. @why: a line. */
void emu_barrier_fail(struct emu_barrier *barrier, const char *why);

/**
 * emu_barrier_error - 0, or the error that ended the barrier; emu_barrier_why() - a line about it.
 */
int emu_barrier_error(const struct emu_barrier *barrier);
const char *emu_barrier_why(const struct emu_barrier *barrier);

/** emu_barrier_config - the configuration, without `port` and `peer`. */
const struct emu_barrier_config *emu_barrier_config(const struct emu_barrier *barrier);

/** emu_barrier_host - the host of session @peer. */
uint32_t emu_barrier_host(const struct emu_barrier *barrier, uint32_t peer);

#endif
