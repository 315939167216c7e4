/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.h - the device that carries cables to another host.
 *
 * A cable whose ends are on two hosts is, on each of them, a local cable (link.h) between the
 * switch, or the link engine, and this device. What the switch sends the device takes out of the
 * ring and puts into frames; what comes in frames it puts into the ring of the switch. The cable's
 * own credits pass as the switches at its ends return them.
 *
 * A cable carries as much in a round trip as it has credits, and one between hosts is long. So on
 * clock raw, where buffers are as large as is good for this host and no machine's, a cable without
 * channels has more credits: its *depth*, for entries that wait in the far device, in order, until
 * its switch has room. They wait for what they would wait for at the near end, so no cycle of waits
 * goes through a host link that the network does not have.
 *
 * What a cable's ends count, and what the device counts of it. It trusts neither the wire nor the
 * far host: what these accounts do not allow is counted, and the session is torn down.
 *
 * - Cables without channels (buffers at crosspoints with either meaning of a credit, or at
 *   inputs): a segment is sent for a credit, and each credit stands for a slot of the ring and for
 *   room behind it, and comes back after the slot was emptied, however late. So entries that came,
 *   less credits that the switch here has given back, are never more than the cable's credits:
 *   that is the account of what comes. Credits that came back are never more than entries that
 *   were sent: that is the account of what goes. Nothing else is needed. Faults may forge
 *   EMU_INTAKE_FORGED credits for a way of a cable in all: so many more are believed, and the
 *   rings have room for them.
 * - Cables with channels (packet.h): a segment is sent for room that its channel has at the far end
 *   (vc.h), and its credit, which names the channel, comes back when it leaves there: credits are
 *   accounted for by channel. A reply needs no credit, but a free slot in the ring. So entries are
 *   accounted for by the slots of the far ring, and TAKEN records say which have been emptied. The
 *   rings are wider than on one host, so that a TAKEN needs not be prompt.
 * - Link-level retry (retry/replay.h) does not run over the wire, since a session loses nothing
 *   while it lives. It runs on the last step of each way, from the device to the switch that the
 *   way leads to: there faults stand, and there numbers and answers lie in the memory of one host.
 *
 * When a session ends (the other host was silent, began anew, or broke an account) what was under
 * way is gone. All its cables are cut: what their switches send is dropped, counted, and paid for
 * at once, as if it had been received, so that nothing backs up behind them. That is so until
 * somebody says that they may be brought up (emu_hostlink_bring_up()), after the fabric manager
 * has treated them as links that went down; then, in the session's next life, both ends tell each
 * other what of the earlier one still lies in their switches (OLD), then READY, and accounts begin
 * anew with that: credits that come back for what is old are nobody's here.
 *
 * Many cables share a session by turns (deficit round robin): each may put EMU_HOSTLINK_QUANTUM
 * entries into frames, and then it is the next one's turn. The bytes of the control channel have a
 * turn beside them; credits go before all. What comes needs buffers; where the pool has none
 * entries wait in memory that was set aside for as many as the accounts allow, and credits and
 * control go on.
 *
 * Time. On clock raw entries have none. On clock real they have that of the sender's clock, and are
 * translated by the offset of the hosts' monotonic clocks: each asks the other one's every 50 ms
 * while entries go to and fro, else once in a second; of the answers of two seconds the one with
 * the least round trip tells the offset, wrong by half that round trip at most, and by what the
 * drift of the clocks is not known (offset.h). On clock virtual cables to other hosts are another
 * device's: virtual.h.
 */
#ifndef EMU_HOSTLINK_H
#define EMU_HOSTLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/session/session.h"
#include "emu/link/link.h"

#define EMU_HOSTLINK_QUANTUM 32u        /* entries of a cable before it is the next one's turn */
#define EMU_HOSTLINK_DEPTH   256u       /* of a cable on clock raw, at least; */
#define EMU_HOSTLINK_DEEP    512u       /* at most, */
#define EMU_HOSTLINK_DEPTHS  16384u     /* and that of all cables, if each has the least */
#define EMU_HOSTLINK_WINDOW  (1u << 16) /* control bytes that the far host has not read, at most */

struct emu_hostlink;
struct emu_intake;
struct emu_replay;

/* One cable's end here: the device's own ends of the local cable. */
struct emu_hostlink_cable {
    struct emu_tx tx; /* to the switch here */
    struct emu_rx rx; /* from it */
};

/* Another host that the port leads to. */
struct emu_hostlink_peer {
    struct emu_session_config session; /* `port` is set by the device */
    uint32_t cables;                   /* to that host over this port */
    /*
     * A stream socket for the control channel: what is written to its other end arrives, in order,
     * at the far host's. -1: none goes over this port, or none yet. The device's, which closes it
     * when the session ends. Non-blocking, or not: the device never blocks on it.
     */
    int control_fd;
};

/* How the cables of a peer stand. */
enum emu_hostlink_phase {
    EMU_HOSTLINK_DOWN,        /* cut: what is sent is dropped; set by the device, or by anybody */
    EMU_HOSTLINK_TO_BRING_UP, /* the same, until both hosts are ready; as all begin */
    EMU_HOSTLINK_UP           /* entries pass: set by the device alone */
};

/* Counted for each peer, over all its lives; written by the device, read by any thread. */
struct emu_hostlink_counts {
    _Atomic uint64_t entries_sent;
    _Atomic uint64_t entries_received;
    _Atomic uint64_t credits_sent;
    _Atomic uint64_t credits_received;
    _Atomic uint64_t control_sent; /* bytes */
    _Atomic uint64_t control_received;
    _Atomic uint64_t waited; /* entries that came when the pool had no buffer */
    _Atomic uint64_t late;   /* clock real: entries that came after their time */
    _Atomic uint64_t ahead;  /* clock real: entries of a time too far ahead: now is taken for it */
    _Atomic uint64_t cuts;   /* lives that ended */

    /* Dropped. */
    _Atomic uint64_t sunk;         /* entries sent while the cables were down */
    _Atomic uint64_t cut;          /* entries that waited for a buffer when they went down */
    _Atomic uint64_t control_lost; /* bytes that no socket was there for, any more */

    /* What the other host should never do. Each ends the session. */
    _Atomic uint64_t malformed; /* records */
    _Atomic uint64_t bad;       /* entries that cannot be on that cable */
    _Atomic uint64_t overrun;   /* entries beyond the account */
    _Atomic uint64_t unearned;  /* credits, or TAKEN, beyond it */
    _Atomic uint64_t untimely;  /* records of a cable before READY, or a READY too many */
};

/* Of the port, for all peers. */
struct emu_hostlink_port_counts {
    _Atomic uint64_t frames;    /* that came */
    _Atomic uint64_t foreign;   /* of another fabric, or of or to a host that is none of ours */
    _Atomic uint64_t malformed; /* with our EtherType, and no more of ours */
};

/* What is known of the other host's clock. */
struct emu_hostlink_clock {
    bool known;
    int64_t offset_ns; /* its monotonic clock less ours */
    uint64_t error_ns; /* that is wrong by so much at most: half of the least round trip */
    int64_t drift_ppb; /* so much faster than ours it goes; 0 until known */
};

/* A device: the port is its own, which it closes in the end; all else is borrowed for the call. */
struct emu_hostlink_config {
    struct emu_hostport *port;
    uint32_t nodes; /* of the fabric: destinations that an entry may have are below */
    const struct emu_hostlink_peer *peers;
    uint32_t count;
    uint64_t (*now_ns)(void *ctx); /* what time it is; NULL: the monotonic clock says */
    void *now_ctx;
};

/**
 * emu_hostlink_create - the device, on @worker. Sessions begin with the worker. Errors: as
 * emu_session_create(), emu_waiter_add(); -ENOTSUP on clock virtual; -EINVAL, too many cables. On
 * an error port and sockets stay the caller's.
 */
int emu_hostlink_create(struct emu_hostlink **ret, struct emu_worker *worker,
                        const struct emu_hostlink_config *config);

/** emu_hostlink_destroy - after the workers have ended; with the rings that the device fills. */
void emu_hostlink_destroy(struct emu_hostlink *link);

/**
 * emu_hostlink_join - in the place of two emu_link_join(): @tx and @rx, at port @port of @dev, are
 * the near ends of cable @cable to peer @peer; both hosts must give the same @credits, @depth and
 * @profile. @credits: as they would be joined on one host; @depth: see above; 0 where the clock is
 * not raw. With channels neither is looked at. @intake: of the switch, with link-level retry; else
 * NULL. Rings of the
 * device's sending end are freed by emu_hostlink_destroy(), those of @tx by its owner
 * (emu_link_unjoin()). Errors: -ENOMEM. Thread: before the worker starts.
 */
int emu_hostlink_join(struct emu_hostlink *link, uint32_t peer, uint32_t cable, struct emu_tx *tx,
                      struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                      struct emu_intake *intake, uint32_t credits, uint32_t depth,
                      const struct emu_profile *profile);

/**
 * emu_hostlink_replay - the sending half of link-level retry on the last step of a cable, from the
 * device to the switch here; NULL: it was joined without. Thread: any, while the worker stands
 * still; the device is to be woken after what was done to it.
 */
struct emu_replay *emu_hostlink_replay(const struct emu_hostlink *link, uint32_t peer,
                                       uint32_t cable);

/**
 * emu_hostlink_passed - entries of a cable that the device has taken from the switch here, and that
 * it has brought to it, since the cables came up last, modulo 2^32; false: some wait to be taken.
 * While they are up nothing of a cable is on its way between two devices if what each has taken the
 * other has brought. Thread: any, while the workers stand still.
 */
bool emu_hostlink_passed(const struct emu_hostlink *link, uint32_t peer, uint32_t cable,
                         uint32_t *sent, uint32_t *came);

/** emu_hostlink_cable - the device's ends of a cable; to be read, while the worker stands still. */
const struct emu_hostlink_cable *emu_hostlink_cable(const struct emu_hostlink *link, uint32_t peer,
                                                    uint32_t cable);

/** emu_hostlink_phase - how the cables of @peer stand. Thread: any. */
enum emu_hostlink_phase emu_hostlink_phase(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_bring_up - cables that are down may come up again, once the other host says so, too;
 * emu_hostlink_take_down() - they go down now: the session ends, and with it the other host's.
 * Thread: any; the device does it in its next step.
 */
void emu_hostlink_bring_up(struct emu_hostlink *link, uint32_t peer);
void emu_hostlink_take_down(struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_control - @fd is the control channel of @peer from now on, or from when the session
 * of now has ended if it has one. Returns -1, or one that was given before and not taken yet, which
 * is the caller's again. Thread: any.
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

/** emu_hostlink_session - of @peer; to be read: state, counts. */
const struct emu_session *emu_hostlink_session(const struct emu_hostlink *link, uint32_t peer);

/** emu_hostlink_counts, emu_hostlink_port_counts - they live as long as the device. Thread: any. */
const struct emu_hostlink_counts *emu_hostlink_counts(const struct emu_hostlink *link,
                                                      uint32_t peer);
const struct emu_hostlink_port_counts *emu_hostlink_port_counts(const struct emu_hostlink *link);

/** emu_hostlink_clock - what is known of @peer's clock now. Thread: any. */
struct emu_hostlink_clock emu_hostlink_clock(const struct emu_hostlink *link, uint32_t peer);

/**
 * emu_hostlink_check - what must hold of a cable at any time. Returns NULL, or what is wrong. What
 * the switch at its near end has is for its own check, which finds the device's end as rx->tx.
 * Thread: any, while the workers stand still.
 */
const char *emu_hostlink_check(const struct emu_hostlink *link, uint32_t peer, uint32_t cable);

/**
 * emu_hostlink_bufs - pool buffers in rings that the device takes from, and in its own queues:
 * references. Thread: the same.
 */
uint32_t emu_hostlink_bufs(const struct emu_hostlink *link);

#endif
