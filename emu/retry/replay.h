/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.h - link-level retry, the sending half: go-back-n between the two ends of a cable.
 *
 * The sending device writes its segments into a ring inside the device. The *replay buffer* takes
 * each segment from this ring, gives it a sequence number, puts it on the cable, and keeps it, with
 * a reference to its payload, until the receiver (the *intake*, intake.h) acknowledges it. If the
 * receiver asks for a segment again, the replay buffer sends it and all later ones again, in order.
 * If no answer comes in time, it sends all unacknowledged segments again. Retransmissions occupy
 * the wire like any segment, and new segments wait behind them. While the link is down nothing is
 * sent and nothing is dropped. An *answer* is an acknowledgment or request of the receiver.
 *
 * Credits are independent of retry. A segment holds a credit from when the device sends it until it
 * leaves the receiver's buffer. Therefore credits also limit the number of unacknowledged segments.
 * Without errors an acknowledgment arrives no later than the credit, so retry does not slow a cable
 * down.
 *
 * On timed clocks, answers, time-outs and departures are processed in the order of their times,
 * which follow from the profile: the cable's delay for a segment, and credit_ps for an answer.
 *
 * In simulated time the time-out is a constant: twice the round trip of a full replay buffer and
 * its answer. On clocks raw and real an answer also waits until the receiver's thread runs. There
 * the time-out adapts to measured round trips (rto.h), from that constant (at least 1 ms) up to
 * 2^REPLAY_TRIES times as much. It starts at the end of the iteration of the worker's loop in which
 * the segment is sent, because the receiver cannot answer earlier.
 *
 * Source: InfiniBand's and Slingshot's link-level retry, PCI Express's data link layer. Deviation:
 * like credits, answers take no wire time, and are never corrupted, only lost.
 */
#ifndef EMU_REPLAY_H
#define EMU_REPLAY_H

#include "emu/packet/rto.h"
#include "emu/retry/intake.h"

/* The sending half of a cable. Owned by the sending device. */
struct emu_replay {
    struct emu_rx from; /* receives the segments that the device has sent */
    struct emu_tx wire; /* sends into the cable's ring */
    uint64_t flight_ps; /* time from a segment's departure to its arrival at the remote device */
    uint64_t lookahead_ps;
    uint64_t timeout_ps;
    /* by slot of the cable's ring: sequence number of its entry; the receiver reads them */
    uint32_t *number;
    uint64_t *there_ps;            /* by slot of the cable's ring: when its last entry arrives */
    struct emu_credit_end answers; /* consumer end of the ring of answers */
    /* faults of the opposite direction, which may lose answers; NULL: none */
    const struct emu_faults *faults;
    uint64_t answered; /* number of answers so far */

    struct emu_entry *kept; /* the replay buffer: `window` elements, by sequence number */
    uint32_t window;        /* a power of two */
    uint32_t first;         /* oldest unacknowledged sequence number */
    /* sequence number to send next; below `last` while segments are sent again */
    uint32_t next;
    uint32_t last; /* sequence number of the next new segment */

    bool down;
    uint32_t tries;    /* number of time-outs since the last acknowledgment */
    uint64_t at_ps;    /* time of the last event; nothing is sent before it */
    uint64_t timer_ps; /* when the time-out ends; raw: by the host's clock */

    /* Clocks raw and real: the time-out follows measured round trips. */
    struct emu_rto rto;
    uint64_t pass_ps; /* end of this iteration of the worker's loop; not used in simulated time */
    /* the round trip of segment `timed`, which was sent only once, is being measured */
    bool times;
    uint32_t timed;
    uint64_t timed_ps; /* start of this round trip */

    struct {
        _Atomic uint64_t again;    /* segments sent again */
        _Atomic uint64_t asked;    /* requests of the receiver to send again */
        _Atomic uint64_t timeouts; /* time-outs without an answer */
    } counts;
};

/**
 * emu_retry_join - connect two devices by a cable with link-level retry. (emu_link_join() connects
 * them without retry.) @tx belongs to a device that calls emu_replay_run(), @rx to one that calls
 * emu_intake_take() and emu_intake_give(). @replay, @intake: zeros; their owners free them, even
 * after an error. Errors: -ENOMEM.
 */
int emu_retry_join(struct emu_replay *replay, struct emu_tx *tx, struct emu_dev *from,
                   uint8_t from_port, struct emu_intake *intake, struct emu_rx *rx,
                   struct emu_dev *to, uint8_t to_port, uint32_t credits,
                   const struct emu_profile *profile);

/** emu_retry_bytes - return the memory of a cable with retry beyond emu_link_bytes(). Pure. */
size_t emu_retry_bytes(uint32_t credits);

/**
 * emu_retry_window - return the maximum number of segments (and pool buffers) in a replay buffer.
 * Pure.
 */
uint32_t emu_retry_window(uint32_t credits);

/** emu_replay_free - free the sending half, except the rings of @tx of emu_retry_join(). */
void emu_replay_free(struct emu_replay *replay);

/**
 * emu_replay_run - process answers and send segments, after the device's step. Timed: returns the
 * time of the next event, or EMU_NEVER. Raw: returns how long the worker may sleep. Thread: the
 * device's worker.
 */
uint64_t emu_replay_run(struct emu_replay *replay, uint64_t until_ps);

/**
 * emu_replay_link - set whether the link is up, beginning at @at_ps. When it comes up, all
 * unacknowledged segments are sent again. Thread: any, while the device is stopped.
 */
void emu_replay_link(struct emu_replay *replay, bool up, uint64_t at_ps);

/** emu_replay_slow - do emu_tx_slow() for this cable. Thread: any, while the device is stopped. */
void emu_replay_slow(struct emu_replay *replay, struct emu_slow *slow, uint32_t factor);

/* What to do with a segment that waits for a cable that is down. */
enum emu_reroute_fate {
    EMU_REROUTE_WAITS,   /* let it wait, and all segments behind it, too */
    EMU_REROUTE_FORWARD, /* deliver it to the remote device by another path */
    /* return it to its sending device, as if the remote device had sent it */
    EMU_REROUTE_BACK,
    EMU_REROUTE_DONE /* drop it; the callback has done everything else */
};

/* How to reroute the segments that wait for one direction of a cable that is down. */
struct emu_reroute {
    struct emu_replay *replay;
    struct emu_intake *remote; /* receiving half of this direction */
    /* receiving half of the opposite direction, at this end; NULL: on another host */
    struct emu_intake *near;
    struct emu_tx *back; /* sender of the opposite direction, in the remote device */
    bool spare;          /* `back` has nothing to send, so its credits can be spent */
    uint32_t credits;    /* number of slots of each receiver */
    uint32_t depth;      /* if `near` is NULL: extra credits of a cable between hosts; else 0 */
    uint32_t most;       /* maximum number of segments to reroute */
    uint64_t at_ps;      /* timed: when rerouted segments arrive; before the devices' next step */
    /* decides what to do with a segment; called again later for a segment that waits */
    enum emu_reroute_fate (*may)(void *ctx, const struct emu_entry *entry);
    void *ctx;
};

/**
 * emu_replay_reroute - reroute the segments that wait for a cable that is down, in order. Segments
 * that have arrived but were not acknowledged are not sent again. A segment that goes back to the
 * sending device needs a credit of the remote device, because it takes space at the sending device;
 * without a credit it waits. If the sending device is on another host, the remote device sends the
 * segment there, and that host reroutes it. Returns how many segments left. Thread: any, while both
 * devices are stopped; wake both afterwards.
 */
uint32_t emu_replay_reroute(const struct emu_reroute *carry);

/**
 * emu_replay_is_empty - return whether no segment waits to be sent or acknowledged. Thread: any,
 * while the device is stopped.
 */
bool emu_replay_is_empty(const struct emu_replay *replay);

/** emu_replay_bufs - return the number of pool buffer references of segments kept or waiting. */
uint32_t emu_replay_bufs(const struct emu_replay *replay);

/** emu_replay_holds - return whether a segment of group @id is kept or waiting. */
bool emu_replay_holds(const struct emu_replay *replay, uint32_t id);

void emu_replay_rebase(struct emu_replay *replay, uint64_t by_ps);

#endif
