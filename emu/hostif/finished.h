/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finished.h - collectives and messages that a process has finished, as its own library tells the
 * fabric: a ring in the edge's memory, which it writes while somebody watches. Another one has
 * those collectives that emu/hostif/comm.h draws.
 *
 * The adapter overwrites the oldest entry and waits for nobody; who reads too late has missed some,
 * and knows how many. The fabric copies and believes nothing: what cannot be is left out.
 *
 * F1 pairs with F2: who sees a count sees the words of the entries below it. F3 pairs with F4: who
 * sees a word of a later entry sees a count by which the entry before it in that slot is gone.
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

/* What an entry is of: a collective (enum emu_kind), or: */
enum emu_finished_kind {
    EMU_FINISHED_SENT = EMU_KINDS, /* a message to another process, */
    EMU_FINISHED_RECEIVED,         /* or from one */
    EMU_FINISHED_KINDS
};

/* A collective, as one of its members had it; or a message, as one of its two ends had it. */
struct emu_finished {
    /*
     * A collective: its first segment in the group's stream, the same for all members. A message:
     * its number among all requests of its sender to its receiver, modulo 2^16.
     */
    uint64_t first;
    uint64_t began_ns; /* by emu_now_ns(): the process has begun it, */
    uint64_t ended_ns; /* and it is complete there */
    uint64_t bytes;    /* of the operation */
    uint32_t group;    /* a message: the node of the other end */
    uint32_t root;     /* a broadcast or reduction: the node; a message: the other end's seat */
    uint16_t members;  /* of the group; 65535: so many or more */
    uint8_t kind;      /* enum emu_kind, enum emu_finished_kind */
    uint8_t op;        /* reductions: enum emu_op, enum emu_type */
    uint8_t type;
    uint8_t told_bits; /* struct emu_comm_draw */
};

/* In the edge's memory. */
struct emu_finished_shared {
    alignas(EMU_LINE) _Atomic uint64_t count; /* entries so far; the last slots of them are here */
    _Atomic uint64_t word[EMU_FINISHED_SLOTS][EMU_FINISHED_WORDS];
};

/** emu_finished_write - the adapter: one more. Thread: one at a time. */
void emu_finished_write(struct emu_finished_shared *to, const struct emu_finished *from);

/**
 * emu_finished_read - the fabric: entries from *@at on, which becomes one past the last. Writes at
 * most EMU_FINISHED_SLOTS to @ret, checked: no time is later than @now_ns says after all was read,
 * nor the end before the beginning, and the kind is one. Returns how many. @missed: so many more
 * were gone, or were none.
 */
uint32_t emu_finished_read(struct emu_finished *ret, struct emu_finished_shared *from, uint64_t *at,
                           uint64_t (*now_ns)(void), uint64_t *missed);

#endif
