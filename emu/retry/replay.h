/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.h - link-level retry, the sending half: go-back-n between neighbours.
 *
 * A device sends into a ring of its own. From there a segment gets a sequence number, goes onto the
 * cable, and stays in the replay buffer, with a reference to its payload, until the receiver
 * (intake.h) acknowledges it. If the receiver requests it, or does not answer in time, all
 * unacknowledged segments are sent again, in order. They take wire time like all others, and new
 * segments wait behind them. While the link is down nothing is sent and nothing dropped.
 *
 * Credits are independent of retry: one is taken from when the device sends a segment until the
 * segment leaves the receiver's buffer. Credits also bound the number of unacknowledged segments,
 * and without errors an acknowledgment arrives no later than the credit. So retry does not slow a
 * cable down.
 *
 * Timed clocks: answers, time-outs and departures are processed in order of their times, which
 * follow from the profile: the cable, and credit_ps for an answer.
 *
 * Time-outs: in simulated time, twice the time of a full window and its answer. On clocks raw and
 * real an answer also waits until the receiver's thread has run. So the time-out adapts to measured
 * round trips (rto.h), between that value and 2^REPLAY_TRIES times it. It starts at the end of the
 * pass that sends, since the receiver can answer only after that.
 * Source: InfiniBand's and Slingshot's link-level retry, PCI Express's data link layer; deviation:
 * answers take no wire time, like credits, and are never corrupted, only lost.
 */
#ifndef EMU_REPLAY_H
#define EMU_REPLAY_H

#include "emu/packet/rto.h"
#include "emu/retry/intake.h"

/* Owned by the sending device. */
struct emu_replay {
    struct emu_rx from; /* receives what the device has sent */
    struct emu_tx wire; /* fills the cable's ring */
    uint64_t flight_ps; /* from departure to the remote ingress */
    uint64_t lookahead_ps;
    uint64_t timeout_ps;
    uint32_t *number;              /* by slot of the cable's ring; read by the receiver */
    uint64_t *there_ps;            /* by slot: arrival of its last entry */
    struct emu_credit_end answers; /* consumer of answers */
    /* faults of the opposite direction, which may lose answers; may be NULL */
    const struct emu_faults *faults;
    uint64_t answered; /* answers so far */

    struct emu_entry *kept; /* the replay buffer: `window` elements, by number */
    uint32_t window;        /* a power of two */
    uint32_t first;         /* oldest unacknowledged number */
    uint32_t next;          /* number to be sent next */
    uint32_t last;          /* first number never sent */

    bool down;
    uint32_t tries;    /* time-outs in a row */
    uint64_t at_ps;    /* of the last event: nothing is sent before */
    uint64_t timer_ps; /* time-out; raw: by the host's clock */

    /* Clocks raw and real: time-outs from round trips. */
    struct emu_rto rto;
    uint64_t pass_ps;  /* end of this pass; simulated time: 0 */
    bool times;        /* a round trip is being measured: */
    uint32_t timed;    /* of this number, which was sent once, */
    uint64_t timed_ps; /* from the end of that pass */

    struct {
        _Atomic uint64_t again;    /* segments sent again */
        _Atomic uint64_t asked;    /* requests to resend */
        _Atomic uint64_t timeouts; /* because it did not answer */
    } counts;
};

/**
 * emu_retry_join - emu_link_join() with retry: @tx belongs to a device that calls emu_replay_run(),
 * @rx to one that calls emu_intake_take() and emu_intake_give().
 * @replay, @intake: zeros; freed by their owners, also on errors. Errors: -ENOMEM.
 */
int emu_retry_join(struct emu_replay *replay, struct emu_tx *tx, struct emu_dev *from,
                   uint8_t from_port, struct emu_intake *intake, struct emu_rx *rx,
                   struct emu_dev *to, uint8_t to_port, uint32_t credits,
                   const struct emu_profile *profile);

/** emu_retry_bytes - memory of such a cable beyond emu_link_bytes(). Pure. */
size_t emu_retry_bytes(uint32_t credits);

/** emu_retry_window - segments, and so pool buffers, in a replay buffer at most. Pure. */
uint32_t emu_retry_window(uint32_t credits);

/** emu_replay_free - free what emu_retry_join() made for the sending half except @tx. */
void emu_replay_free(struct emu_replay *replay);

/**
 * emu_replay_run - after the device's step: process answers and send. Returns when it next has
 * something to do, or EMU_NEVER; raw: how long it may sleep. Thread: the device's.
 */
uint64_t emu_replay_run(struct emu_replay *replay, uint64_t until_ps);

/**
 * emu_replay_link - the link went down, or up, at @at_ps. When it comes up, all unacknowledged
 * segments are sent again. Thread: any, while the device is stopped.
 */
void emu_replay_link(struct emu_replay *replay, bool up, uint64_t at_ps);

/** emu_replay_slow - emu_tx_slow() of the cable. Thread: as above. */
void emu_replay_slow(struct emu_replay *replay, struct emu_slow *slow, uint32_t factor);

/* What to do with a segment that waits for a cable that is down. */
enum emu_reroute_fate {
    EMU_REROUTE_WAITS,   /* it waits, and so do all behind it */
    EMU_REROUTE_FORWARD, /* deliver it to the remote device by another path */
    EMU_REROUTE_BACK,    /* return it to its own device, as if the remote device had sent it */
    EMU_REROUTE_DONE     /* drop it; the callback has done the rest */
};

/* How to reroute the segments that wait for one direction of a cable that is down. */
struct emu_reroute {
    struct emu_replay *replay;
    struct emu_intake *remote; /* its receiving half */
    struct emu_intake *near;   /* the opposite direction's, at this end; NULL: on another host */
    struct emu_tx *back;       /* the remote device's sender of the opposite direction */
    bool spare;                /* which has nothing to send, so its credits can be spent */
    uint32_t credits;          /* per direction: the receiver's slots */
    uint32_t depth; /* if this end is on another host: segments on their way there beyond that */
    uint32_t most;  /* entries, at most */
    uint64_t at_ps; /* timed: arrival; the devices are stepped later */
    /* decides about each segment; again for one that waits */
    enum emu_reroute_fate (*may)(void *ctx, const struct emu_entry *entry);
    void *ctx;
};

/**
 * emu_replay_reroute - reroute the segments that wait for a cable that is down, in order, each
 * once. Segments that had arrived unacknowledged are not sent again. Credits bound the space: a
 * segment that goes back needs a credit of the remote device, else it waits. If this end is on
 * another host it goes back as a segment of the remote device, to be rerouted there. Returns how
 * many left.
 * Thread: any, while both devices are stopped; wake both afterwards.
 */
uint32_t emu_replay_reroute(const struct emu_reroute *carry);

/** emu_replay_is_empty - does no segment wait to be sent or acknowledged? Thread: as above. */
bool emu_replay_is_empty(const struct emu_replay *replay);

/** emu_replay_bufs - references to pool buffers of segments kept or waiting. */
uint32_t emu_replay_bufs(const struct emu_replay *replay);

/** emu_replay_holds - is a segment of group @id kept or waiting? */
bool emu_replay_holds(const struct emu_replay *replay, uint32_t id);

/** emu_replay_rebase - subtract @by_ps from all times. */
void emu_replay_rebase(struct emu_replay *replay, uint64_t by_ps);

#endif
