/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.h - the device that connects cables to another host.
 *
 * A cable whose ends are on two hosts is, on each host, a local cable (link.h) between the switch,
 * or the link engine, and this device. The device moves entries from the switch's ring into frames,
 * and from received frames into the ring of the switch. Credits of the cable are forwarded as the
 * switches return them.
 *
 * A cable's throughput is limited by its credits per round trip, and the round trip between hosts
 * is long. On clock raw, where buffers are as large as suits this host and model no machine, a
 * cable without channels therefore gets extra credits, its *depth*: entries that wait in the
 * receiving device, in order, until its switch has credits. They wait for the same credits as at
 * the sender, so a host link adds no cycle of waits to the network.
 *
 * The device trusts neither the wire nor the peer. It counts what is in flight on each cable; a
 * record that these counts do not allow is counted, and ends the session:
 *
 * - Cables without channels (crosspoint buffers, or input buffers): each segment takes a credit,
 *   which stands for a ring slot and buffer space, and returns after the slot was emptied. Received
 *   entries less credits that our switch returned never exceed the cable's credits. Received
 *   credits never exceed sent entries. Faults may forge up to EMU_INTAKE_FORGED credits per
 *   direction of a cable: so many extra credits are accepted, and the rings have slots for them.
 * - Cables with channels (packet.h): a segment takes space in its channel's buffer at the remote
 *   end (vc.h), and its credit, which names the channel, returns when the segment leaves that
 *   buffer: credits are counted per channel. A reply takes no credit, only a ring slot. So entries
 *   are counted against the slots of the remote ring, and TAKEN records report emptied slots. These
 *   rings are larger than within a host, so TAKEN may be late.
 * - Link-level retry (retry/replay.h) does not run over the wire, because a session loses nothing
 *   while it is up. It runs on the last hop of each direction, from the device to the switch: there
 *   faults are injected, and sequence numbers and replies are in the memory of one host.
 *
 * When a session ends (the peer was silent, restarted or violated the protocol) everything in
 * flight is lost. All its cables go down: the device drops what their switches send, counts it and
 * returns the credits at once, so that nothing backs up. They stay down until
 * emu_hostlink_bring_up(), which is called after the fabric manager has treated them as failed
 * links. In the next incarnation of the session each host reports how many segments of earlier
 * incarnations are still in its switches (OLD), then sends READY, and the counts start from there:
 * credits for old segments are ignored.
 *
 * The cables of a session are served by deficit round robin: each may send EMU_HOSTLINK_QUANTUM
 * entries before the next one. The control channel takes part as one more cable; credits go first.
 * Received entries need pool buffers. If there is none they wait in memory reserved for as many as
 * the counts allow, while credits and control bytes continue.
 *
 * Time: on clock raw entries carry none. On clock real they carry the sender's time, which the
 * receiver translates by the offset between the hosts' monotonic clocks: each host queries the
 * other's clock every 50 ms while entries flow, else once per second. Of the replies of two seconds
 * the one with the shortest round trip gives the offset. Its error is at most half of that round
 * trip, plus the uncertainty of the drift (offset.h). Clock virtual uses another device: virtual.h.
 */
#ifndef EMU_HOSTLINK_H
#define EMU_HOSTLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/session/session.h"
#include "emu/link/link.h"

#define EMU_HOSTLINK_QUANTUM 32u        /* entries of a cable before the next one is served */
#define EMU_HOSTLINK_DEPTH   256u       /* depth of a cable on clock raw: least, */
#define EMU_HOSTLINK_DEEP    512u       /* most, */
#define EMU_HOSTLINK_DEPTHS  16384u     /* and the total over all cables */
#define EMU_HOSTLINK_WINDOW  (1u << 16) /* most control bytes that the peer has not read */

struct emu_hostlink;
struct emu_intake;
struct emu_replay;

/* The device's ends of a local cable. */
struct emu_hostlink_cable {
    struct emu_tx tx; /* to the switch here */
    struct emu_rx rx; /* from it */
};

/* Another host that is reached by the port. */
struct emu_hostlink_peer {
    struct emu_session_config session; /* `port` is set by the device */
    uint32_t cables;                   /* cables to that host over this port */
    /*
     * A stream socket for the control channel: the remote host's socket receives what is written to
     * its peer socket, in order. -1: none over this port, or none yet. Owner: the device, which
     * closes it when the session ends. The device never blocks on it, whether it is non-blocking or
     * not.
     */
    int control_fd;
};

/* State of all cables of a peer. */
enum emu_hostlink_phase {
    EMU_HOSTLINK_DOWN,        /* entries are dropped; set by the device or any caller */
    EMU_HOSTLINK_TO_BRING_UP, /* the same until both hosts are ready; initial state */
    EMU_HOSTLINK_UP           /* entries are forwarded; set by the device only */
};

/* Counters of a peer over all incarnations; written by the device, read by any thread. */
struct emu_hostlink_counts {
    _Atomic uint64_t entries_sent;
    _Atomic uint64_t entries_received;
    _Atomic uint64_t credits_sent;
    _Atomic uint64_t credits_received;
    _Atomic uint64_t control_sent; /* bytes */
    _Atomic uint64_t control_received;
    _Atomic uint64_t waited; /* entries that arrived when the pool had no buffer */
    _Atomic uint64_t late;   /* clock real: entries that arrived after their time */
    _Atomic uint64_t ahead;  /* clock real: entries with a time too far ahead, replaced by now */
    _Atomic uint64_t cuts;   /* sessions that ended */

    /* Dropped. */
    _Atomic uint64_t sunk;         /* entries sent while the cables were down */
    _Atomic uint64_t cut;          /* entries that waited here when the cables went down */
    _Atomic uint64_t control_lost; /* bytes that no socket could take any more */

    /* Protocol violations of the peer. Each ends the session. */
    _Atomic uint64_t malformed; /* records */
    _Atomic uint64_t bad;       /* entries that cannot be on that cable */
    _Atomic uint64_t overrun;   /* entries without a credit or slot */
    _Atomic uint64_t unearned;  /* credits or TAKEN for more than was sent */
    _Atomic uint64_t untimely;  /* cable records before READY, or a second READY */
};

/* Counters of the port over all peers. */
struct emu_hostlink_port_counts {
    _Atomic uint64_t frames;    /* received */
    _Atomic uint64_t foreign;   /* from another fabric, or with host numbers that are not ours */
    _Atomic uint64_t malformed; /* with our EtherType, but not in our format */
};

/* An estimate of the peer's clock. */
struct emu_hostlink_clock {
    bool known;
    int64_t offset_ns; /* the peer's monotonic clock minus ours */
    uint64_t error_ns; /* error bound of offset_ns: half of the shortest round trip */
    int64_t drift_ppb; /* rate of the peer's clock above ours; 0 until known */
};

/*
 * Configuration of a device. The device owns the port and closes it; the rest is borrowed for the
 * call.
 */
struct emu_hostlink_config {
    struct emu_hostport *port;
    uint32_t nodes; /* number of nodes in the fabric: node numbers in entries are lower */
    const struct emu_hostlink_peer *peers;
    uint32_t count;
    uint64_t (*now_ns)(void *ctx); /* NULL: the monotonic clock */
    void *now_ctx;
};

/**
 * emu_hostlink_create - make the device on @worker. Sessions start with the worker. Errors: as
 * emu_session_create(), emu_waiter_add(); -ENOTSUP on clock virtual; -EINVAL, too many cables. On
 * an error the caller keeps the port and the sockets.
 */
int emu_hostlink_create(struct emu_hostlink **ret, struct emu_worker *worker,
                        const struct emu_hostlink_config *config);

/**
 * emu_hostlink_destroy - free the device and the rings that it fills. Call it after the workers
 * have ended.
 */
void emu_hostlink_destroy(struct emu_hostlink *link);

/**
 * emu_hostlink_join - connect a local cable to cable @cable of peer @peer, instead of two
 * emu_link_join(). @tx and @rx are the near ends, at port @port of @dev. Both hosts must give the
 * same @credits, @depth and @profile. @credits: as on one host; @depth: see above, 0 unless the
 * clock is raw; both are ignored with channels. @intake: of the switch if link-level retry is on,
 * else NULL. emu_hostlink_destroy() frees the rings of the device's sending end; the owner of @tx
 * frees its own (emu_link_unjoin()). Errors: -ENOMEM. Thread: before the worker starts.
 */
int emu_hostlink_join(struct emu_hostlink *link, uint32_t peer, uint32_t cable, struct emu_tx *tx,
                      struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                      struct emu_intake *intake, uint32_t credits, uint32_t depth,
                      const struct emu_profile *profile);

/**
 * emu_hostlink_replay - the sender of link-level retry on the last hop of a cable, from the device
 * to the switch; NULL: joined without retry. Thread: any while the worker is paused; wake the
 * device after changing it.
 */
struct emu_replay *emu_hostlink_replay(const struct emu_hostlink *link, uint32_t peer,
                                       uint32_t cable);

/**
 * emu_hostlink_passed - count the entries of a cable that the device has taken from our switch
 * (@sent) and delivered to it (@came) since the cables came up, modulo 2^32. Returns false if
 * entries wait to be taken. Nothing is in flight between two devices if each has delivered as many
 * as the other has taken. Thread: any while the workers are paused.
 */
bool emu_hostlink_passed(const struct emu_hostlink *link, uint32_t peer, uint32_t cable,
                         uint32_t *sent, uint32_t *came);

/** emu_hostlink_phase - state of the cables of @peer. Thread: any. */
enum emu_hostlink_phase emu_hostlink_phase(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_bring_up - allow cables that are down to come up, once the peer allows it, too.
 * emu_hostlink_take_down() - take them down now: the session ends on both hosts. Thread: any; takes
 * effect in the device's next step.
 */
void emu_hostlink_bring_up(struct emu_hostlink *link, uint32_t peer);
void emu_hostlink_take_down(struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_control - use @fd as the control channel of @peer: now, or once the current session
 * has ended if that has a channel. Returns -1, or an earlier descriptor that was not used yet,
 * which the caller owns again. Thread: any.
 */
int emu_hostlink_control(struct emu_hostlink *link, uint32_t peer, int fd);

/**
 * emu_hostlink_is_closed - true if both hosts have closed the control channel of this session, the
 * other host has received everything that was written here, and a confirmation of everything that
 * it wrote was sent to it. Also true while there is no session, because then nothing can be
 * delivered. A host that waits for this before it ends its workers leaves nothing undelivered.
 * Thread: any.
 */
bool emu_hostlink_is_closed(const struct emu_hostlink *link, uint32_t peer);

/** emu_hostlink_session - the session with @peer, to read its state and counters. */
const struct emu_session *emu_hostlink_session(const struct emu_hostlink *link, uint32_t peer);

/** emu_hostlink_counts, emu_hostlink_port_counts - valid as long as the device. Thread: any. */
const struct emu_hostlink_counts *emu_hostlink_counts(const struct emu_hostlink *link,
                                                      uint32_t peer);
const struct emu_hostlink_port_counts *emu_hostlink_port_counts(const struct emu_hostlink *link);

/** emu_hostlink_clock - the current estimate of @peer's clock. Thread: any. */
struct emu_hostlink_clock emu_hostlink_clock(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_check - check the invariants of a cable. Returns NULL, or what is wrong. The switch
 * at the near end has a check of its own, which finds the device's end as rx->tx. Thread: any while
 * the workers are paused.
 */
const char *emu_hostlink_check(const struct emu_hostlink *link, uint32_t peer, uint32_t cable);

/**
 * emu_hostlink_bufs - references to pool buffers in rings that the device reads and in its queues.
 * Thread: any while the workers are paused.
 */
uint32_t emu_hostlink_bufs(const struct emu_hostlink *link);

#endif
