/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finished.h - records of collectives and messages that a process has finished: a ring in the host
 * interface's memory, written by the process's library while somebody watches. A second ring holds
 * the collectives that emu_comm_draw() selects.
 *
 * The writer overwrites the oldest entry and never waits; a reader that is too slow learns how many
 * entries it missed. The fabric copies the entries and drops invalid ones.
 *
 * F1 pairs with F2: a reader that sees a count sees the words of the entries below it. F3 pairs
 * with F4: a reader that sees a word of a later entry also sees a count that shows that the earlier
 * entry of the slot is gone.
 */
#ifndef EMU_FINISHED_H
#define EMU_FINISHED_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_FINISHED_SLOTS 4096u
#define EMU_FINISHED_WORDS 6u

/* What an entry describes: an enum emu_kind for a collective, or: */
enum emu_finished_kind {
    EMU_FINISHED_SENT = EMU_KINDS, /* a message to another process */
    EMU_FINISHED_RECEIVED,         /* a message from another process */
    EMU_FINISHED_KINDS
};

/* A collective as seen by one member, or a message as seen by one side. */
struct emu_finished {
    /*
     * A collective: number of its first segment in the group's stream, the same for all members. A
     * message: number among all requests from its sender to its receiver, modulo 2^16.
     */
    uint64_t first;
    uint64_t began_ns; /* start, by emu_now_ns() */
    uint64_t ended_ns; /* completion */
    uint64_t bytes;    /* of the operation */
    uint32_t group;    /* a message: the peer's node */
    uint32_t root; /* a broadcast or reduction: the root node; a message: the peer's incarnation */
    uint16_t members; /* of the group; 65535: as many or more */
    uint8_t kind;     /* enum emu_kind or enum emu_finished_kind */
    uint8_t op;       /* reductions: enum emu_op, enum emu_type */
    uint8_t type;
    uint8_t report_bits; /* struct emu_comm_draw */
};

/* In the host interface's memory. */
struct emu_finished_shared {
    alignas(EMU_LINE) _Atomic uint64_t count; /* entries written; the latest ones are kept */
    _Atomic uint64_t word[EMU_FINISHED_SLOTS][EMU_FINISHED_WORDS];
};

/** emu_finished_write - append an entry. Thread: the process, one at a time. */
void emu_finished_write(struct emu_finished_shared *to, const struct emu_finished *from);

/**
 * emu_finished_read - read the entries from *@at on and set *@at to one past the last. At most
 * EMU_FINISHED_SLOTS valid ones go to @ret: known kind, start not after end, end not after @now_ns
 * as called once all was read. Returns their number. *@missed grows by the number of overwritten or
 * invalid ones.
 */
uint32_t emu_finished_read(struct emu_finished *ret, struct emu_finished_shared *from, uint64_t *at,
                           uint64_t (*now_ns)(void), uint64_t *missed);

#endif
