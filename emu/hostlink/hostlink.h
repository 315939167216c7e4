/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.h - the *host link*, a device that connects cables to other hosts.
 *
 * A cable whose ends are on two hosts becomes a local cable (link.h) on each of them, between the
 * switch or link engine of that host and the host link. The host link puts entries from the
 * switch's ring into frames, and entries from received frames into the ring of the switch. (A ring
 * *entry* is a segment or a reply.) When a switch returns credits of the cable, the host link
 * forwards them to the other host.
 *
 * The hosts exchange *records* (wire.h) within a *session*, which numbers, acknowledges and
 * retransmits frames (session.h). A *peer* is another host. After a session has ended, its next
 * *incarnation* can begin.
 *
 * The credits of a cable limit its throughput per round trip, and the round trip between hosts is
 * long. On clock raw, buffer sizes do not model a machine, so a cable without channels gets extra
 * credits, its *depth*. This many entries can wait in the receiving host link, in order, until the
 * switch there has credits. The entries wait for the same credits as they would at the sender, so a
 * host link cannot cause a deadlock.
 *
 * The host link trusts neither the wire nor the peer. It counts the segments and credits in flight
 * on each cable. A record that contradicts these counts is a protocol violation, which is counted
 * and ends the session.
 *
 * - Cables without channels (crosspoint buffers, or input buffers): each segment needs a credit,
 *   which stands for a ring slot and buffer space. The credit returns after the slot was emptied.
 *   The number of entries received, minus the number of credits that the switch on this host ("our
 *   switch") has returned, never exceeds the cable's credits. The credits received never exceed the
 *   entries sent. But faults may forge up to EMU_INTAKE_FORGED credits per direction of a cable.
 *   Therefore the host link accepts this many more, and the rings have slots for them.
 * - Cables with channels (packet.h): each segment takes space in the buffer of its channel at the
 *   remote end (vc.h). Its credit names the channel and returns when the segment leaves that
 *   buffer, so credits are counted per channel. A reply needs no credit, only a ring slot.
 *   Therefore entries are also counted against the slots of the remote ring, and TAKEN records
 *   report emptied slots. These rings are larger than rings within a host, so that TAKEN may be
 *   late.
 * - Link-level retry (retry/replay.h) does not run between hosts, because a session that is up
 *   loses nothing. It runs on the last hop of each direction, from the host link to the switch. The
 *   faults are injected there, and all state of link-level retry is in the memory of one host.
 *
 * When a session ends (the peer was silent, restarted or violated the protocol) everything in
 * flight is lost, and all its cables go down. While they are down, the host link drops and counts
 * the entries that the switches send, and returns the credits at once, so that no switch waits for
 * a credit. The cables stay down until emu_hostlink_bring_up(), which the thread that controls the
 * fabric calls after it has treated them as failed links. In the next incarnation each host reports
 * how many segments of earlier incarnations are still in its switches (OLD records), because their
 * credits do not count. Then it sends READY.
 *
 * The cables of a session are served by deficit round robin: each may send EMU_HOSTLINK_QUANTUM
 * entries before the next one. The control channel is served like one more cable. Credits are sent
 * before entries. Received entries need pool buffers. If no buffer is free, the entries wait in
 * reserved memory, which is large enough for all entries that the counts allow. Credits and control
 * bytes are still received.
 *
 * On clock raw entries carry no time. On clock real they carry the sender's time, and the receiver
 * adds the offset between the hosts' monotonic clocks. Each host queries the other's clock every 50
 * ms while entries flow, else once per second. The offset comes from the reply with the shortest
 * round trip in two seconds. Its error is at most half of that round trip, plus the uncertainty of
 * the drift (offset.h). Clock virtual uses another device: virtual.h.
 */
#ifndef EMU_HOSTLINK_H
#define EMU_HOSTLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/session/session.h"
#include "emu/link/link.h"

/* entries that a cable may send before the next cable is served */
#define EMU_HOSTLINK_QUANTUM 32u
#define EMU_HOSTLINK_DEPTH   256u   /* clock raw: least depth of a cable */
#define EMU_HOSTLINK_DEEP    512u   /* clock raw: greatest depth of a cable */
#define EMU_HOSTLINK_DEPTHS  16384u /* clock raw: sum of all depths, if both limits permit it */
/* maximum number of control bytes in flight or not yet read by the peer */
#define EMU_HOSTLINK_WINDOW (1u << 16)

struct emu_hostlink;
struct emu_intake;
struct emu_replay;

/* The host link's ends of a local cable. */
struct emu_hostlink_cable {
    struct emu_tx tx; /* sends to our switch */
    struct emu_rx rx; /* receives from our switch */
};

struct emu_hostlink_peer {
    struct emu_session_config session; /* all but `port`, which the host link sets */
    uint32_t cables;                   /* number of cables to this peer over this port */
    /*
     * A stream socket for the control channel to the peer: one end of a socket pair, whose other
     * end the user keeps. The user on the peer's host reads the bytes that this user writes.
     * -1: there is no socket yet, or none over this port. The host link owns the socket and closes
     * it when the session ends. It never blocks on the socket, not even if the socket is blocking.
     */
    int control_fd;
};

enum emu_hostlink_phase {
    EMU_HOSTLINK_DOWN,        /* entries are dropped; set by the host link or by any caller */
    EMU_HOSTLINK_TO_BRING_UP, /* entries are dropped until both hosts are ready; initial state */
    EMU_HOSTLINK_UP           /* entries are forwarded; set only by the host link */
};

/* Counters of a peer, over all incarnations. Written by the host link; any thread may read them. */
struct emu_hostlink_counts {
    _Atomic uint64_t entries_sent;
    _Atomic uint64_t entries_received;
    _Atomic uint64_t credits_sent;
    _Atomic uint64_t credits_received;
    _Atomic uint64_t control_sent; /* bytes */
    _Atomic uint64_t control_received;
    _Atomic uint64_t waited; /* entries that arrived when the pool had no buffer */
    /* clock real: entries that arrived after the time when they were due */
    _Atomic uint64_t late;
    /* clock real: entries due too far in the future, which got the current time instead */
    _Atomic uint64_t ahead;
    _Atomic uint64_t cuts; /* sessions that have ended */

    /* Dropped entries and bytes. */
    _Atomic uint64_t discarded; /* entries that our switches sent while the cables were down */
    _Atomic uint64_t cut;       /* entries that waited in the host link when the cables went down */
    _Atomic uint64_t control_lost; /* bytes that could not be written to a socket any more */

    /* Protocol violations of the peer. Each ends the session. */
    _Atomic uint64_t malformed; /* records that cannot be parsed */
    _Atomic uint64_t bad;       /* entries that are invalid on their cable */
    _Atomic uint64_t overrun;   /* entries for which there was no credit or no slot */
    _Atomic uint64_t unearned;  /* credits or TAKEN for more than we sent */
    _Atomic uint64_t untimely;  /* records of cables before READY, or a second READY */
};

/* Counters of the port, over all peers. */
struct emu_hostlink_port_counts {
    _Atomic uint64_t frames;
    _Atomic uint64_t foreign;   /* frames of another fabric, or between other hosts */
    _Atomic uint64_t malformed; /* frames with our EtherType that are not in our format */
};

struct emu_hostlink_clock {
    bool known;
    int64_t offset_ns; /* the peer's monotonic clock minus ours */
    uint64_t error_ns; /* largest error of offset_ns: half of the shortest round trip */
    int64_t drift_ppb; /* how much faster the peer's clock runs than ours; 0 until known */
};

/*
 * Configuration of a host link, which owns the port and closes it. The other pointers are used only
 * during the call.
 */
struct emu_hostlink_config {
    struct emu_hostport *port;
    /* number of nodes in the fabric; node numbers in entries must be smaller */
    uint32_t nodes;
    const struct emu_hostlink_peer *peers;
    uint32_t count;
    uint64_t (*now_ns)(void *ctx); /* NULL: use the monotonic clock */
    void *now_ctx;
};

/**
 * emu_hostlink_create - create the host link as a device of @worker. Its sessions start with the
 * worker. Errors: as emu_session_create() and emu_waiter_add(); -ENOTSUP: the clock is virtual;
 * -EINVAL: too many cables. After an error the caller still owns the port and the sockets.
 */
int emu_hostlink_create(struct emu_hostlink **ret, struct emu_worker *worker,
                        const struct emu_hostlink_config *config);

/**
 * emu_hostlink_destroy - free the host link and the rings that it fills. Call it after the workers
 * have ended.
 */
void emu_hostlink_destroy(struct emu_hostlink *link);

/**
 * emu_hostlink_join - connect @tx and @rx, the ends at port @port of @dev, to cable @cable of peer
 * @peer. This call replaces the two calls of emu_link_join() for a local cable. Both hosts must
 * pass the same @credits, @depth and @profile. @credits: as for a local cable. @depth: extra
 * credits, see above; 0 unless the clock is raw. With channels both are ignored. @intake: the
 * switch's intake if link-level retry is on, else NULL. emu_hostlink_destroy() frees the rings of
 * the host link's sending end. The owner of @tx frees the rings of @tx (emu_link_unjoin()). Errors:
 * -ENOMEM. Thread: before the worker starts.
 */
int emu_hostlink_join(struct emu_hostlink *link, uint32_t peer, uint32_t cable, struct emu_tx *tx,
                      struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                      struct emu_intake *intake, uint32_t credits, uint32_t depth,
                      const struct emu_profile *profile);

/**
 * emu_hostlink_replay - return the replay buffer of a cable's last hop, from the host link to the
 * switch; NULL if the cable has no link-level retry. Thread: any, while the worker is paused; wake
 * the device after changing it.
 */
struct emu_replay *emu_hostlink_replay(const struct emu_hostlink *link, uint32_t peer,
                                       uint32_t cable);

/**
 * emu_hostlink_passed - count the entries of a cable since it came up, modulo 2^32: entries that
 * the host link has taken from our switch (@sent), and entries that it has delivered to our switch
 * (@delivered). Returns false if entries of our switch have not yet been taken. Nothing is in
 * flight between two hosts if each has delivered as many as the other has taken. Thread: any, while
 * the workers are paused.
 */
bool emu_hostlink_passed(const struct emu_hostlink *link, uint32_t peer, uint32_t cable,
                         uint32_t *sent, uint32_t *delivered);

/** emu_hostlink_phase - return the state of the cables of @peer. Thread: any. */
enum emu_hostlink_phase emu_hostlink_phase(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_bring_up - allow the cables of @peer to come up. They come up as soon as the peer
 * has allowed it, too.
 * emu_hostlink_take_down - take them down now; the session ends on both hosts. Thread: any; takes
 * effect in the host link's next step.
 */
void emu_hostlink_bring_up(struct emu_hostlink *link, uint32_t peer);
void emu_hostlink_take_down(struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_control - use socket @fd as the control channel of @peer, in the next session if the
 * current one already has a channel. Returns -1, or a socket from an earlier call that was not
 * used; the caller then owns that socket again. Thread: any.
 */
int emu_hostlink_control(struct emu_hostlink *link, uint32_t peer, int fd);

/**
 * emu_hostlink_is_closed - return whether nothing more can be delivered over the control channel of
 * @peer: there is no session, or both hosts have closed the channel, and everything that each of
 * them wrote was received and acknowledged. A host that waits for this before it ends its workers
 * leaves no byte undelivered. Thread: any.
 */
bool emu_hostlink_is_closed(const struct emu_hostlink *link, uint32_t peer);

/** emu_hostlink_session - return the session with @peer, to read its state and counters. */
const struct emu_session *emu_hostlink_session(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_counts, emu_hostlink_port_counts - return the counters. They exist as long as the
 * host link. Thread: any.
 */
const struct emu_hostlink_counts *emu_hostlink_counts(const struct emu_hostlink *link,
                                                      uint32_t peer);
const struct emu_hostlink_port_counts *emu_hostlink_port_counts(const struct emu_hostlink *link);

/** emu_hostlink_clock - return the current estimate of @peer's clock. Thread: any. */
struct emu_hostlink_clock emu_hostlink_clock(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_check - check the invariants of a cable. Returns NULL, or a text about the error.
 * The check of the switch covers the direction from the host link to the switch, although the
 * sender of that direction belongs to the host link.
 * Thread: any, while the workers are paused.
 */
const char *emu_hostlink_check(const struct emu_hostlink *link, uint32_t peer, uint32_t cable);

/**
 * emu_hostlink_bufs - return the number of references to pool buffers in the rings that the host
 * link reads, and in its queues. Thread: any, while the workers are paused.
 */
uint32_t emu_hostlink_bufs(const struct emu_hostlink *link);

#endif
