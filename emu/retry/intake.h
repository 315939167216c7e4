/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake.h - the receiving half of a cable with faults or link-level retry: it sits between the
 * cable's ring and the receiver of the device.
 *
 * It takes entries off the cable, applies the faults, and puts the rest into a ring of the device's
 * own, which the device's receiver reads like a cable. So the device is unaware of it, and a cable
 * without an intake has no cost. The device calls emu_intake_take() before its step, and
 * emu_intake_give() after it.
 *
 * Without link-level retry a lost or damaged segment is gone; its slot is free, so its credit is
 * returned. A duplicate has no slot and is dropped.
 *
 * With retry (replay.h is the sending half) each segment has a sequence number on the cable. The
 * next one in order is taken and acknowledged. A lower number is a duplicate, dropped and
 * acknowledged again. At a higher number or a damaged segment the sender is asked, once, to resend
 * from the expected one.
 */
#ifndef EMU_INTAKE_H
#define EMU_INTAKE_H

#include "emu/fault/fault.h"
#include "emu/link/link.h"

struct emu_replay;

/* Sent back in a ring beside the credits: emu_credit.channel; count is a sequence number. */
enum emu_answer {
    EMU_ANSWER_NONE,
    EMU_ANSWER_ACK,  /* all lower numbers have arrived */
    EMU_ANSWER_AGAIN /* the same, and resend from this number */
};

/* Owned by the receiving device. */
struct emu_intake {
    struct emu_rx wire;        /* receives from the cable */
    struct emu_tx to;          /* fills the device's own ring; its receiver has it as rx->tx */
    struct emu_rx *rx;         /* the device's receiver */
    struct emu_faults *faults; /* may be NULL */
    const struct emu_profile *profile;

    /*
     * Without retry: free slots of the device. A segment sent with a forged credit may find none,
     * and is dropped without returning a credit, since the forged one is spent.
     */
    uint32_t room;
    /* Dropped ones not yet reported, one per pair or group: emu_intake_overruns(). */
    struct emu_hdr *over; /* EMU_INTAKE_FORGED elements, the most possible */
    uint32_t overs;

    /* Without retry: credits that the device returns, and those of lost segments. */
    struct emu_credit_end paid;
    uint64_t *lost_ps;         /* ring of EMU_INTAKE_LOST: when they arrive */
    uint32_t lost_at, lost_to; /* free-running */

    /* With retry. */
    /* the sending half; not read while workers run. NULL: no retry */
    const struct emu_replay *remote;
    bool requested;         /* resend was requested for `expected`, which has not arrived since */
    enum emu_answer answer; /* answer to be sent; raw: in this pass */
    uint32_t expected;      /* next sequence number */
    const uint32_t *number; /* by slot of the cable's ring; written by the sender */
    struct emu_credit_end answers; /* producer of answers */
    uint64_t *there_ps;            /* by slot of that ring: arrival of its last answer */

    struct {
        _Atomic uint64_t lost;    /* segments that are never delivered */
        _Atomic uint64_t overrun; /* of those: no slot was free */
        _Atomic uint64_t damaged; /* retry: found by the checksum */
        _Atomic uint64_t gaps;    /* retry: above the expected number; dropped */
        _Atomic uint64_t doubles; /* duplicates; dropped */
        _Atomic uint64_t missed;  /* retry: rerouted while the link was down */
    } counts;
};

#define EMU_INTAKE_FORGED 32u  /* credits that can be forged per direction of a cable */
#define EMU_INTAKE_LOST   512u /* more than a cable has credits */
static_assert(EMU_INTAKE_LOST > EMU_INPUT_MAX + EMU_INTAKE_FORGED, "one a credit");

/**
 * emu_intake_insert - insert into a local cable at its receiver @rx, without retry.
 * @intake: zeros. @credits: of the cable. Errors: -ENOMEM. Thread: any, while both devices are
 * stopped.
 */
int emu_intake_insert(struct emu_intake *intake, struct emu_rx *rx, uint32_t credits,
                      const struct emu_profile *profile);

/** emu_intake_faults - set the faults; may be NULL. Thread: as above. */
void emu_intake_faults(struct emu_intake *intake, struct emu_faults *faults);

/** emu_intake_free - free its memory, at the end. The cable's rings belong to the sender. */
void emu_intake_free(struct emu_intake *intake);

/**
 * emu_intake_take - move what has arrived by @until_ps to the device's own ring, and signal the
 * device (emu_dev_give()). Returns when more arrives, if known; else EMU_NEVER. Thread: the
 * device's.
 */
uint64_t emu_intake_take(struct emu_intake *intake, uint64_t until_ps);

/**
 * emu_intake_overruns - call @tell with one header for each pair of nodes or group whose segments
 * found no free slot since the last call. Thread: any, while the device is stopped.
 */
void emu_intake_overruns(struct emu_intake *intake,
                         void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/** emu_intake_give - send credits and answers. Thread: the device's, after its step. */
void emu_intake_give(struct emu_intake *intake);

/**
 * emu_intake_rerouted - deliver the next segment, rerouted because the link is down
 * (emu_replay_reroute()). emu_intake_missed - skip the next segment, which will never arrive; its
 * slot is free. emu_intake_back - deliver a segment that was not sent on this cable, though a
 * credit was spent for it. The device takes the buffer reference. Thread: any, while both devices
 * are stopped.
 */
void emu_intake_rerouted(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps);
void emu_intake_missed(struct emu_intake *intake, uint64_t at_ps);
void emu_intake_back(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps);

/** emu_intake_check - emu_link_check() for such a cable. Thread: any, both workers stopped. */
const char *emu_intake_check(const struct emu_intake *intake, uint32_t held, uint32_t credits);

/** emu_intake_bufs - references to pool buffers in the cable's ring. Thread: as above. */
uint32_t emu_intake_bufs(const struct emu_intake *intake);

/** emu_intake_rebase - subtract @by_ps from its times, not from its faults' or receiver's. */
void emu_intake_rebase(struct emu_intake *intake, uint64_t by_ps);

#endif
