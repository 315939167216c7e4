/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake.h - the receiving half of a cable with faults or link-level retry.
 *
 * An *intake* sits between the cable's ring and the receiver of the device. It takes entries off
 * the cable, applies the faults, and puts the remaining entries into a ring inside the device. The
 * device's receiver reads that ring as if it were the cable. So the device need not know of the
 * intake, and a cable without an intake has no extra cost. The device calls emu_intake_take()
 * before its step, and emu_intake_give() after it.
 *
 * Without link-level retry, nobody sends a lost or damaged segment again. The intake returns the
 * segment's credit, because the slot at the receiver is free. It drops a duplicate, because no slot
 * was reserved for it.
 *
 * With link-level retry (replay.h is the sending half) each segment has a sequence number on the
 * cable. The intake takes only the segment with the expected number, and acknowledges it. A lower
 * number is a duplicate: the intake drops it and repeats the acknowledgment. If a higher number or
 * a damaged segment arrives, the intake asks the sender once to resend from the expected number. An
 * acknowledgment or a request to resend is an *answer*.
 *
 * Comments that begin with "raw" hold for clock raw only (emu/util/clock.h). Thread, unless a
 * function says otherwise: any, while the devices at both ends are stopped.
 */
#ifndef EMU_INTAKE_H
#define EMU_INTAKE_H

#include "emu/fault/fault.h"
#include "emu/link/link.h"

struct emu_replay;

/*
 * Kind of an answer. Answers have a ring of the same type as credits: emu_credit.channel is the
 * kind, emu_credit.count the sequence number.
 */
enum emu_answer {
    EMU_ANSWER_NONE,
    EMU_ANSWER_ACK, /* all segments with lower numbers have arrived */
    /* like ACK; also asks the sender to resend all segments from this number on */
    EMU_ANSWER_AGAIN
};

/* The receiving half of a cable. Owned by the receiving device. */
struct emu_intake {
    struct emu_rx wire;        /* receives entries from the cable */
    struct emu_tx to;          /* fills the ring inside the device; equal to rx->tx */
    struct emu_rx *rx;         /* the device's receiver, which reads that ring */
    struct emu_faults *faults; /* NULL: no faults */
    const struct emu_profile *profile;

    /*
     * Without retry: free slots of the device. A segment that was sent with a forged credit may
     * find no free slot. Then the intake drops it, and returns no credit, because a forged credit
     * stands for no slot.
     */
    uint32_t room;
    /* headers of segments without a free slot, until they are reported: emu_intake_overruns() */
    struct emu_hdr *over; /* EMU_INTAKE_FORGED elements; one per pair of nodes or group */
    uint32_t overs;

    /* Without retry: credits to return to the sender. */
    struct emu_credit_end paid;
    /* ring of EMU_INTAKE_LOST times at which the credits of lost segments reach the sender */
    uint64_t *lost_ps;
    /* indexes of the oldest and the next element of lost_ps, free-running */
    uint32_t lost_at, lost_to;

    /* With retry: */
    /* the sending half, which is not accessed while workers run; NULL: no retry */
    const struct emu_replay *remote;
    bool requested;         /* a resend was requested, and `expected` has not arrived since then */
    enum emu_answer answer; /* pending answer; raw: emu_intake_give() sends it */
    uint32_t expected;      /* sequence number of the next segment to take */
    /* sequence numbers by slot of the cable's ring; the sender writes them */
    const uint32_t *number;
    struct emu_credit_end answers; /* producer end of the ring of answers */
    /* by slot of the ring of answers: when the slot's last answer reaches the sender */
    uint64_t *there_ps;

    struct {
        _Atomic uint64_t lost;    /* segments that will never be delivered */
        _Atomic uint64_t overrun; /* part of `lost`: segments that found no free slot */
        _Atomic uint64_t damaged; /* retry: dropped because of a wrong checksum */
        _Atomic uint64_t gaps;    /* retry: dropped because an earlier number was missing */
        _Atomic uint64_t doubles; /* dropped duplicates */
        /* retry: the link was down, and the segment left by another route */
        _Atomic uint64_t missed;
    } counts;
};

#define EMU_INTAKE_FORGED 32u  /* credits that can be forged per direction of a cable */
#define EMU_INTAKE_LOST   512u /* more than the credits of a cable */
static_assert(EMU_INTAKE_LOST > EMU_INPUT_MAX + EMU_INTAKE_FORGED, "each credit has a place");

/**
 * emu_intake_insert - insert an intake without retry into a local cable, in front of receiver @rx.
 * @intake: zeros. @credits: the cable's number of credits. Errors: -ENOMEM.
 */
int emu_intake_insert(struct emu_intake *intake, struct emu_rx *rx, uint32_t credits,
                      const struct emu_profile *profile);

/** emu_intake_faults - set the faults, or none if @faults is NULL. */
void emu_intake_faults(struct emu_intake *intake, struct emu_faults *faults);

/**
 * emu_intake_free - free the rings and arrays of the intake, but not the cable's rings, which
 * belong to the sender. Call it after the workers have ended.
 */
void emu_intake_free(struct emu_intake *intake);

/**
 * emu_intake_take - move the entries that have arrived by @until_ps to the ring inside the device,
 * and signal the device (emu_dev_add_event()). Returns when the next entry arrives, or EMU_NEVER if
 * that is not known. Thread: the device's worker.
 */
uint64_t emu_intake_take(struct emu_intake *intake, uint64_t until_ps);

/**
 * emu_intake_overruns - report segments that were dropped because they found no free slot. Calls
 * @report with one header for each pair of nodes or group that lost segments since the last call.
 */
void emu_intake_overruns(struct emu_intake *intake,
                         void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/** emu_intake_give - after a step, send credits or answers. Thread: the device's worker. */
void emu_intake_give(struct emu_intake *intake);

/**
 * emu_intake_rerouted, emu_intake_missed, emu_intake_back - for emu_replay_reroute(), while the
 * link is down. emu_intake_rerouted() delivers the next segment, as if the cable had carried it.
 * emu_intake_missed() skips the next segment, which left by another route, and returns its credit.
 * emu_intake_back() delivers a segment of the opposite direction to the device that sent it. The
 * caller has spent a credit of this direction for it. The intake takes over the entry's reference
 * to a pool buffer.
 */
void emu_intake_rerouted(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps);
void emu_intake_missed(struct emu_intake *intake, uint64_t at_ps);
void emu_intake_back(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps);

/** emu_intake_check - check a cable with an intake, as emu_link_check() checks other cables. */
const char *emu_intake_check(const struct emu_intake *intake, uint32_t held, uint32_t credits);

/** emu_intake_bufs - return the number of references to pool buffers in the cable's ring. */
uint32_t emu_intake_bufs(const struct emu_intake *intake);

/**
 * emu_intake_rebase - subtract @by_ps from the intake's times, except those of its faults and of
 * the rings inside the device.
 */
void emu_intake_rebase(struct emu_intake *intake, uint64_t by_ps);

#endif
