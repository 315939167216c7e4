/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake.h - the receiving half of a cable that something can go wrong on: what stands between the
 * cable's ring and the receiving end of a device that loses nothing by itself.
 *
 * What comes off the cable goes by the faults on it, and what is left of it into a ring of the
 * device's own, which its receiving end reads as it would read the cable. So the device knows of
 * none of this, and a cable without an intake is as it always was. The device calls
 * emu_intake_take() before its step, and emu_intake_give() after it.
 *
 * Without link-level retry a segment that is lost or damaged is gone; its room was set aside, so
 * its credit goes back. A second copy has no room, and is dropped.
 *
 * With it (replay.h is the other half) each segment has a number on the cable. The next one is
 * taken and acknowledged; one that is behind is a second copy, dropped and acknowledged again; when
 * one is ahead, or damaged, the sender is asked once to begin again with the next one.
 */
#ifndef EMU_INTAKE_H
#define EMU_INTAKE_H

#include "emu/fault/fault.h"
#include "emu/link/link.h"

struct emu_replay;

/*
 * What goes back beside the credits, in a ring of its own: emu_credit.channel; count is a number.
 */
enum emu_answer {
    EMU_ANSWER_NONE,
    EMU_ANSWER_ACK,  /* all before this number have come */
    EMU_ANSWER_AGAIN /* and begin again with it */
};

/* All of it is the receiving device's. */
struct emu_intake {
    struct emu_rx wire;        /* takes off the cable */
    struct emu_tx to;          /* fills the device's own ring: its receiving end has it as rx->tx */
    struct emu_rx *rx;         /* the device's receiving end */
    struct emu_faults *faults; /* NULL: none */
    const struct emu_profile *profile;

    /*
     * Without retry the room that the device has is counted: who sends with a credit that was
     * forged finds none, and the segment is dropped. No credit goes back for it: the forged one is
     * spent.
     */
    uint32_t room;
    /* Of those that nobody was told of, each pair and each group once: emu_intake_overruns(). */
    struct emu_hdr *over; /* EMU_INTAKE_FORGED: as many as there can be */
    uint32_t overs;

    /* Without retry: credits that the device gives back, and those of segments that were lost. */
    struct emu_credit_end paid;
    uint64_t *lost_ps;         /* a ring of EMU_INTAKE_LOST: when they are at the far end */
    uint32_t lost_at, lost_to; /* free-running */

    /* With it. */
    const struct emu_replay *far; /* the other half; not read while workers run. NULL: no retry */
    bool asked;                   /* to begin again with `expected`, which has not come since */
    enum emu_answer answer;       /* to be given: to this segment; raw: in this pass */
    uint32_t expected;            /* number of the next one */
    const uint32_t *number;       /* by slot of the cable's ring; the far end's */
    struct emu_credit_end says;   /* produces answers */
    uint64_t *there_ps; /* by slot of that ring: when its last answer was at the far end */

    struct {
        _Atomic uint64_t lost;    /* segments that are gone for good */
        _Atomic uint64_t overrun; /* of them: that found no room */
        _Atomic uint64_t damaged; /* retry: found by their mark */
        _Atomic uint64_t gaps;    /* retry: came before the one that was expected; dropped */
        _Atomic uint64_t doubles; /* came before; dropped */
        _Atomic uint64_t missed;  /* retry: went another way while the cable was down */
    } counts;
};

#define EMU_INTAKE_FORGED 32u  /* credits that can be forged for a way of a cable, in all */
#define EMU_INTAKE_LOST   512u /* as many as a cable has credits, at least */
static_assert(EMU_INTAKE_LOST > EMU_INPUT_MAX + EMU_INTAKE_FORGED, "one a credit");

/**
 * emu_intake_insert - into a local cable at its receiving end @rx, without retry.
 * @intake: zeros. @credits: of the cable. Errors: -ENOMEM. Thread: while both ends stand still.
 */
int emu_intake_insert(struct emu_intake *intake, struct emu_rx *rx, uint32_t credits,
                      const struct emu_profile *profile);

/** emu_intake_faults - from now on @faults stand there; NULL: none. Thread: the same. */
void emu_intake_faults(struct emu_intake *intake, struct emu_faults *faults);

/** emu_intake_free - what it made; the rings of the cable are its other end's. At the end. */
void emu_intake_free(struct emu_intake *intake);

/**
 * emu_intake_take - what has come by @until_ps goes to the device's own ring. Returns when more
 * comes, if that is known; EMU_NEVER. Tells the device (emu_dev_give()). Thread: the device's.
 */
uint64_t emu_intake_take(struct emu_intake *intake, uint64_t until_ps);

/**
 * emu_intake_overruns - segments that found no room since the last call: @tell is called with a
 * header of each pair of nodes, or group. Thread: any, while the device stands still.
 */
void emu_intake_overruns(struct emu_intake *intake,
                         void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/** emu_intake_give - what goes back: credits, answers. Thread: the device's, after its step. */
void emu_intake_give(struct emu_intake *intake);

/**
 * emu_intake_carried - the next segment has come by another way than the cable, which is down
 * (emu_replay_carry()); emu_intake_missed - it never will, and its room is free; emu_intake_back -
 * one comes that was not sent on this cable, though a credit was spent for it. The reference to its
 * buffer passes to the device. Thread: any, while both ends' devices stand still.
 */
void emu_intake_carried(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps);
void emu_intake_missed(struct emu_intake *intake, uint64_t at_ps);
void emu_intake_back(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps);

/**
 * emu_intake_check - emu_link_check() of such a cable. @held, @credits: as there. Thread: any,
 * while both ends' workers stand still.
 */
const char *emu_intake_check(const struct emu_intake *intake, uint32_t held, uint32_t credits);

/** emu_intake_bufs - pool buffers in the cable's ring: references. Thread: the same. */
uint32_t emu_intake_bufs(const struct emu_intake *intake);

/**
 * emu_intake_rebase - the clock is rebased by @by_ps. Faults, and the device's end: by who has
 * them.
 */
void emu_intake_rebase(struct emu_intake *intake, uint64_t by_ps);

#endif
