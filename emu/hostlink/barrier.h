/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h - hosts that go on together, superstep by superstep: clock virtual on several hosts.
 *
 * Each host is joined with each other one by a session (session.h), or by several over as many
 * pairs of ports. In a superstep a host puts in what is for the others: records of cables, each for
 * the host at the cable's other end, and bytes that all hosts get. emu_barrier_sync() ends it: it
 * returns when all other hosts have ended it, too, and all that they put in has come. So there is
 * one wait for all of them in a superstep, of a frame's way from the slowest.
 *
 * A session brings all records, once and in order, or it ends; then its host is lost, for good. A
 * host that is at work says nothing of its own accord, so a thread of the barrier's keeps the
 * sessions alive meanwhile: it receives what comes, for the next sync, and gives signs of life. A
 * host is lost when nothing was heard of it for the sessions' silent_ns, and then everybody is told
 * so by the next put or sync, and by each one after it; the first tells the other hosts.
 *
 * What came is kept until the sync that it is for. A host can be ahead of another by one superstep
 * at most, so that is at most what others put into two. A host that sends more breaks the rules,
 * and that ends the barrier.
 *
 * Source: Valiant, "A bridging model for parallel computation", 1990 (supersteps); Nicol, "The cost
 * of conservative synchronization in parallel discrete event simulations", 1993 (windows of the
 * lookahead, whose begin all agree on).
 *
 * Thread: one at a time calls these functions, whichever; a lock keeps the barrier's own apart.
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

/* More than one host gives all others: a number for each of 2^20 nodes is 8 MiB. */
#define EMU_BARRIER_MOST_BYTES ((size_t)256 << 20)

struct emu_barrier;

/* A session with another host. Of those with the same host the first one has the bytes for all. */
struct emu_barrier_peer {
    uint32_t host;
    uint32_t port;                     /* which of config.port leads there */
    struct emu_session_config session; /* `port` is set by the barrier */
};

struct emu_barrier_config {
    uint32_t self; /* this host's number, below hosts */
    uint32_t hosts;
    const char *const *name;          /* by host, for messages; borrowed */
    struct emu_hostport *const *port; /* on success they pass on */
    uint32_t ports;
    const struct emu_barrier_peer *peer; /* at least one for each other host */
    uint32_t peers;
    bool oversubscribed; /* more busy threads than cores: do not spin */
    /*
     * That another host sends in two supersteps, beside records of cables (emu_barrier_expect());
     * 0: EMU_BARRIER_MOST_BYTES.
     */
    size_t most_bytes;
    /*
     * Asked about ten times a second while a put or sync waits for another host, in the thread that
     * waits: is it to stop? Then that fails with -EINTR. NULL: never.
     */
    bool (*stops)(void *ctx);
    void *stops_ctx;
    /*
     * While hosts are met: has what was to start @host ended with an error, which @text says? Then
     * it is not waited for. NULL: that is not known.
     */
    bool (*failed)(uint32_t host, char *text, size_t bytes);
    uint64_t (*now_ns)(void *ctx); /* what time it is, any thread; NULL: the monotonic clock says */
    void *now_ctx;
};

/* Who takes records of cables. */
struct emu_barrier_taker {
    /* Returns NULL, or what is wrong with it: then its host has broken the rules. */
    const char *(*record)(void *ctx, uint32_t peer, const struct emu_hostlink_record *record);
    void *ctx;
};

/**
 * emu_barrier_create - begin to meet the others. Errors: as emu_session_create(), emu_waiter_add(),
 * emu_spawn(); -EINVAL, the configuration cannot be.
 */
int emu_barrier_create(struct emu_barrier **ret, const struct emu_barrier_config *config);

/**
 * emu_barrier_connect - wait until all hosts are there. Errors: -ETIMEDOUT, not within @timeout_ns;
 * -EPROTO, one of them is of another fabric; -EHOSTDOWN, one came and is gone: emu_barrier_why().
 */
int emu_barrier_connect(struct emu_barrier *barrier, uint64_t timeout_ns);

/**
 * emu_barrier_destroy - wait until all others have what was put in, a second at most, and end. It
 * closes the ports. NULL is allowed.
 */
void emu_barrier_destroy(struct emu_barrier *barrier);

/** emu_barrier_taker - records of cables are for @taker from now on; NULL: for nobody. */
void emu_barrier_taker(struct emu_barrier *barrier, const struct emu_barrier_taker *taker);

/** emu_barrier_expect - there is a cable more, of which @bytes bytes may come in two supersteps. */
void emu_barrier_expect(struct emu_barrier *barrier, size_t bytes);

/**
 * emu_barrier_put - a record for @peer, which comes before the end of this superstep. Errors: as
 * emu_barrier_sync().
 */
int emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                    const struct emu_hostlink_record *record);

/**
 * emu_barrier_sync - end this superstep, with @bytes bytes for all others; returns when all of them
 * have, and their records were taken. Errors: -EHOSTDOWN, a host is lost; -ECONNABORTED, one says
 * that it ends (emu_barrier_fail()); -EPROTO, one broke the rules; -EINTR, config.stops() said so;
 * -ENOMEM. All are for good, and emu_barrier_why() is a line about it.
 */
int emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes);

/** emu_barrier_of - what @host, another one, gave all in the last sync; good until the next. */
const void *emu_barrier_of(const struct emu_barrier *barrier, uint32_t host, size_t *bytes);

/** emu_barrier_fail - this host ends: the others are told, by their next sync. @why: a line. */
void emu_barrier_fail(struct emu_barrier *barrier, const char *why);

/** emu_barrier_error - 0, or what ended it, and the line about it. */
int emu_barrier_error(const struct emu_barrier *barrier);
const char *emu_barrier_why(const struct emu_barrier *barrier);

/** emu_barrier_hosts, emu_barrier_self, emu_barrier_peers - as it was made. */
uint32_t emu_barrier_hosts(const struct emu_barrier *barrier);
uint32_t emu_barrier_self(const struct emu_barrier *barrier);
uint32_t emu_barrier_peers(const struct emu_barrier *barrier);

/** emu_barrier_name - of @host. */
const char *emu_barrier_name(const struct emu_barrier *barrier, uint32_t host);

/** emu_barrier_host - of @peer. */
uint32_t emu_barrier_host(const struct emu_barrier *barrier, uint32_t peer);

#endif
