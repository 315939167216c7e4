/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.h - link-level retry, its sending half: go-back-n between neighbours.
 *
 * A device sends into a ring of its own. From there a segment gets its number, goes onto the cable,
 * and stays in the replay buffer, with a reference to its payload, until the far end (intake.h) has
 * acknowledged it. When the far end asks, or does not answer for too long, all that is not
 * acknowledged is sent again, in order. A replay takes the wire like anything else; what the device
 * sends meanwhile waits behind it. While the cable is down nothing is sent, and nothing forgotten.
 *
 * Credits know nothing of this: one stands for a segment from when the device sends it until it has
 * left the far end's buffer. No more can be without an answer than there are credits, and where
 * nothing goes wrong an acknowledgment is there no later than the credit. So a cable with retry is
 * as fast as one without.
 *
 * Timed clocks: answers, time-outs and departures happen in the order of their times, which are
 * those of the profile alone: the cable, and credit_ps for the way back of an answer.
 *
 * Time-outs: in simulated time twice what a full window and its answer take. On clocks raw and real
 * an answer is heard when the far end's thread has been on a core, too; so they follow how long
 * answers took to be heard (rto.h), from there up to 2^REPLAY_TRIES times that. They begin when the
 * pass that sends ends, for before that the far end has nothing to answer.
 * Source: InfiniBand's and Slingshot's link-level retry, PCI Express's data link layer; deviation:
 * answers take no time of the wire, like credits, and are never wrong, only lost.
 */
#ifndef EMU_REPLAY_H
#define EMU_REPLAY_H

#include "emu/packet/rto.h"
#include "emu/retry/intake.h"

/* All of it is the sending device's. */
struct emu_replay {
    struct emu_rx from; /* takes what the device's sending end has sent */
    struct emu_tx wire; /* fills the cable's ring */
    uint64_t flight_ps; /* from a departure to the far end's ingress */
    uint64_t lookahead_ps;
    uint64_t timeout_ps;
    uint32_t *number;           /* by slot of the cable's ring: read by the far end */
    uint64_t *there_ps;         /* by slot of it: when its last entry was at the far end */
    struct emu_credit_end says; /* consumes answers */
    /* whether answers are lost: those on the other way of the cable; NULL: none are */
    const struct emu_faults *faults;
    uint64_t answers; /* so many have come */

    struct emu_entry *kept; /* the replay buffer: window of them, by number */
    uint32_t window;        /* a power of two */
    uint32_t first;         /* the oldest without an acknowledgment */
    uint32_t next;          /* to be sent next; */
    uint32_t last;          /* from here on, for the first time */

    bool down;
    uint32_t tries;    /* time-outs in a row */
    uint64_t at_ps;    /* of the last thing that happened: nothing is sent before */
    uint64_t timer_ps; /* no answer by then: all again. Raw: by the host's clock */

    /* Clocks raw and real: time-outs that follow round trips. */
    struct emu_rto rto;
    uint64_t pass_ps;  /* the pass goes on until then; 0, simulated time */
    bool times;        /* the round trip of one is being taken: */
    uint32_t timed;    /* its number, which was sent once, */
    uint64_t timed_ps; /* at the end of that pass */

    struct {
        _Atomic uint64_t again;    /* segments that were sent again */
        _Atomic uint64_t asked;    /* because the far end asked: so often */
        _Atomic uint64_t timeouts; /* because it did not answer */
    } counts;
};

/**
 * emu_retry_join - emu_link_join() of a cable with retry: @tx is the end of a device that calls
 * emu_replay_run(), @rx of one that calls emu_intake_take() and _give().
 * @replay, @intake: zeros; freed by their owners in any case. Errors: -ENOMEM.
 */
int emu_retry_join(struct emu_replay *replay, struct emu_tx *tx, struct emu_dev *from,
                   uint8_t from_port, struct emu_intake *intake, struct emu_rx *rx,
                   struct emu_dev *to, uint8_t to_port, uint32_t credits,
                   const struct emu_profile *profile);

/** emu_retry_bytes - memory that such a cable takes beyond emu_link_bytes(). Pure. */
size_t emu_retry_bytes(uint32_t credits);

/** emu_retry_window - segments that a replay buffer holds, and pool buffers, at most. Pure. */
uint32_t emu_retry_window(uint32_t credits);

/** emu_replay_free - what emu_retry_join() made for the sending half, but @tx. At the end. */
void emu_replay_free(struct emu_replay *replay);

/**
 * emu_replay_run - after the device's step: hears answers, sends. Returns when it has something to
 * do next, and EMU_NEVER; raw: how long it may sleep. Thread: the device's.
 */
uint64_t emu_replay_run(struct emu_replay *replay, uint64_t until_ps);

/**
 * emu_replay_link - the cable has lost its signal, or has it again, at @at_ps: all that has no
 * acknowledgment is sent again then. Thread: any, while the device stands still.
 */
void emu_replay_link(struct emu_replay *replay, bool up, uint64_t at_ps);

/** emu_replay_slow - emu_tx_slow() of the cable. Thread: the same. */
void emu_replay_slow(struct emu_replay *replay, struct emu_slow *slow, uint32_t factor);

/* What becomes of an entry that waits for a cable without signal. */
enum emu_carried {
    EMU_CARRIED_WAITS, /* it waits on, and all behind it */
    EMU_CARRIED_OVER,  /* the far end's device gets it, by another way than the cable */
    EMU_CARRIED_BACK,  /* its own device gets it again, as if the far end had sent it */
    EMU_CARRIED_AWAY   /* it is gone: whoever said so has seen to the rest */
};

/* A way of a cable with retry that is down, and whoever carries what waits for it. */
struct emu_carry {
    struct emu_replay *replay;
    struct emu_intake *far;  /* its other half, */
    struct emu_intake *near; /* and those of the cable's other way: at this end; NULL: elsewhere, */
    struct emu_tx *back;     /* and what the far end's device sends by */
    bool spare;              /* that has nothing to send, so that a credit of it can be spent */
    uint32_t credits;        /* of a way of the cable: as much room as its end has, */
    uint32_t depth;          /* and more on its way there, where this end is elsewhere */
    uint32_t most;           /* entries */
    uint64_t at_ps;          /* timed: they are there then; the devices are stepped after it */
    /* asked of each, and of one that is to wait again and again */
    enum emu_carried (*may)(void *ctx, const struct emu_entry *entry);
    void *ctx;
};

/**
 * emu_replay_carry - what waits for a cable that is down leaves by another way, in order and each
 * once. What had come to the far end, though no answer said so, is not carried again. Room is what
 * credits promise: one that goes back needs a credit of the far end's, and else waits. Where @near
 * is elsewhere it goes back as what the far end's device sends, and is to be carried over there.
 * Returns how many left. Thread: any, while both devices stand still; both are to be woken.
 */
uint32_t emu_replay_carry(const struct emu_carry *carry);

/** emu_replay_is_empty - does nothing wait in it, to be sent or for an answer? Thread: the same. */
bool emu_replay_is_empty(const struct emu_replay *replay);

/** emu_replay_bufs - pool buffers that it keeps, and that wait to be sent: references. */
uint32_t emu_replay_bufs(const struct emu_replay *replay);

/** emu_replay_holds - does it keep a segment of group @id, or does one wait to be sent? */
bool emu_replay_holds(const struct emu_replay *replay, uint32_t id);

/** emu_replay_rebase - the clock is rebased by @by_ps. */
void emu_replay_rebase(struct emu_replay *replay, uint64_t by_ps);

#endif
