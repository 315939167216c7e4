/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - what a process communicates, summed up: its messages by peer, its collectives by kind
 * and size. Counters in the edge's memory, which its own library writes and the fabric reads.
 *
 * A message costs two adds, to a line that four peers share and that only this process writes; a
 * collective three, to a line of its own. Collectives are timed, so that the report can say where
 * time goes, but a look at the clock costs about as much as a hundredth of a short collective: of
 * each kind and size in a group the first EMU_COMM_TIMED are timed, and then one in
 * EMU_COMM_TIMED_EACH, which counts for as many. Which is drawn by its number, so that all members
 * draw the same.
 *
 * Some of those are told of one by one, in a ring (emu/hostif/finished.h): from what all members
 * tell of one follows when the last of them came. Of the first EMU_COMM_TOLD all, then about as
 * many as half of that whenever the number doubles.
 */
#ifndef EMU_COMM_H
#define EMU_COMM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"
#include "emu/util/count.h"

#define EMU_COMM_KINDS      (EMU_KINDS - EMU_MULTICAST)
#define EMU_COMM_SIZES      14u /* classes of size: 0 bytes; up to 8, 16, 64, … 16M; more */
#define EMU_COMM_TIMED      1024u
#define EMU_COMM_TIMED_BITS 4u
#define EMU_COMM_TIMED_EACH (1u << EMU_COMM_TIMED_BITS)
#define EMU_COMM_TOLD       32u
#define EMU_COMM_UNTOLD     UINT8_MAX

/* Who carried a collective out. */
enum emu_comm_where {
    EMU_COMM_NETWORK,   /* switches, or adapters */
    EMU_COMM_ELSEWHERE, /* the process and its peers, by messages */
    EMU_COMM_WHERES
};

/* Collectives of one kind and class of size, as this process had them. */
struct emu_comm_cell {
    alignas(32) _Atomic uint64_t calls;
    _Atomic uint64_t bytes;
    _Atomic uint64_t ns; /* from beginning to end; of all, as those that were timed have it */
    _Atomic uint64_t longest_ns; /* of those that were timed */
};

/* Messages to one node: emu_hostif_sent(). */
struct emu_comm_peer {
    _Atomic uint64_t messages;
    _Atomic uint64_t bytes;
};

struct emu_comm_shared {
    struct emu_comm_cell cell[EMU_COMM_WHERES][EMU_COMM_KINDS][EMU_COMM_SIZES];
};

/** emu_comm_size - the class of so many bytes. Pure. */
static inline uint32_t emu_comm_size(uint64_t bytes)
{
    uint32_t size = bytes <= 8 ? bytes > 0 : (64u - (uint32_t)__builtin_clzll(bytes - 1) + 1) / 2;

    return size < EMU_COMM_SIZES ? size : EMU_COMM_SIZES - 1;
}

/** emu_comm_size_most - the most bytes that the class has; UINT64_MAX: there is no most. Pure. */
static inline uint64_t emu_comm_size_most(uint32_t size)
{
    if (size < 2)
        return 8 * size;
    return size < EMU_COMM_SIZES - 1 ? UINT64_C(1) << 2 * size : UINT64_MAX;
}

/* What is to be known of a collective beside its kind. */
struct emu_comm_draw {
    bool timed;
    uint8_t weight_bits; /* timed: it counts for 2 to that many */
    /* It is told of, one in 2 to that many; EMU_COMM_UNTOLD: it is not. */
    uint8_t told_bits;
};

/** emu_comm_draw - of collective @number, from 0, of its kind and size in its group. Pure. */
static inline struct emu_comm_draw emu_comm_draw(uint32_t number)
{
    uint32_t draw = (number * UINT32_C(0x9e3779b1)) >> 8; /* Fibonacci hashing: 24 bits */
    uint32_t bits = number < EMU_COMM_TOLD ? 0 : 32u - (uint32_t)__builtin_clz(number) - 5;
    uint32_t told_bits = bits < 24 ? bits : 24;
    bool late = number >= EMU_COMM_TIMED;

    return (struct emu_comm_draw){.timed = !late || !(draw & (EMU_COMM_TIMED_EACH - 1)),
                                  .weight_bits = late ? EMU_COMM_TIMED_BITS : 0,
                                  .told_bits = draw & ((UINT32_C(1) << told_bits) - 1)
                                                   ? EMU_COMM_UNTOLD
                                                   : (uint8_t)told_bits};
}

/** emu_comm_called - the process: one more of it is over. Thread: one at a time. */
static inline void emu_comm_called(struct emu_comm_cell *cell, uint64_t bytes)
{
    emu_count(&cell->calls, 1);
    emu_count(&cell->bytes, bytes);
}

/** emu_comm_timed - and it took so long, and counts for 2 to @weight_bits. */
static inline void emu_comm_timed(struct emu_comm_cell *cell, uint64_t ns, uint8_t weight_bits)
{
    emu_count(&cell->ns, ns << weight_bits);
    if (ns > emu_count_read(&cell->longest_ns))
        atomic_store_explicit(&cell->longest_ns, ns, memory_order_relaxed);
}

#endif
