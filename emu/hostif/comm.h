/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - counters of a process's communication: messages by peer, collectives by kind and size.
 * The counters are in the host interface's memory. The process's library writes them, and the
 * fabric reads them.
 *
 * Counting a message takes two additions in a cache line that four peers share. Counting a
 * collective takes up to three additions in one line. Collectives are timed so that reports can
 * show where time goes. Reading the clock costs about a hundredth of a short collective. So the
 * first EMU_COMM_TIMED collectives of each kind and size in a group are timed. Of the later ones
 * only one in EMU_COMM_TIMED_EACH is timed, and its time counts for all of them. The choice depends
 * only on the collective's number, so all members of the group choose the same collectives.
 *
 * Some timed collectives are also recorded one by one in a ring (emu/hostif/finished.h). By
 * comparing the members' records, a report shows which member arrived last. The first
 * EMU_COMM_REPORTED collectives are recorded, then about EMU_COMM_REPORTED / 2 each time that the
 * number of collectives doubles.
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
#define EMU_COMM_SIZES      14u /* size classes: 0 bytes; up to 8, 16, 64, … 16M; more */
#define EMU_COMM_TIMED      1024u
#define EMU_COMM_TIMED_BITS 4u
#define EMU_COMM_TIMED_EACH (1u << EMU_COMM_TIMED_BITS)
#define EMU_COMM_REPORTED   32u
#define EMU_COMM_UNREPORTED UINT8_MAX

enum emu_comm_where {
    EMU_COMM_NETWORK,   /* in switches or adapters */
    EMU_COMM_ELSEWHERE, /* by messages between processes */
    EMU_COMM_WHERES
};

/* Collectives of one kind and size class. */
struct emu_comm_cell {
    alignas(32) _Atomic uint64_t calls;
    _Atomic uint64_t bytes;
    _Atomic uint64_t ns;         /* total duration of all calls, estimated from the timed ones */
    _Atomic uint64_t longest_ns; /* longest duration of a timed call */
};

/* Messages to one node, counted by emu_hostif_sent(). */
struct emu_comm_peer {
    _Atomic uint64_t messages;
    _Atomic uint64_t bytes;
};

/* An access of a peer to memory that is not mapped. */
struct emu_comm_trap {
    uint32_t from;    /* the peer's node */
    uint32_t error;   /* the errno value that the peer gets */
    uint64_t address; /* the address that the peer sent */
    uint64_t bytes;
};

struct emu_comm_shared {
    struct emu_comm_cell cell[EMU_COMM_WHERES][EMU_COMM_KINDS][EMU_COMM_SIZES];
    _Atomic uint64_t translated; /* accesses of peers to mapped memory */
    _Atomic uint64_t traps;      /* accesses to other memory */
    /* the last trap's `from` in the lower half, and its `error` in the upper half */
    _Atomic uint64_t trap_peer;
    _Atomic uint64_t trap_address, trap_bytes;
};

static inline uint32_t emu_comm_size(uint64_t bytes)
{
    uint32_t size = bytes <= 8 ? bytes > 0 : (64u - (uint32_t)__builtin_clzll(bytes - 1) + 1) / 2;

    return size < EMU_COMM_SIZES ? size : EMU_COMM_SIZES - 1;
}

/** emu_comm_size_most - return the largest size in a class; UINT64_MAX: no limit. Pure. */
static inline uint64_t emu_comm_size_most(uint32_t size)
{
    if (size < 2)
        return 8 * size;
    return size < EMU_COMM_SIZES - 1 ? UINT64_C(1) << 2 * size : UINT64_MAX;
}

/* How one collective is counted. */
struct emu_comm_draw {
    bool timed;
    uint8_t weight_bits; /* a timed collective counts for 2^weight_bits collectives */
    /*
     * a recorded collective stands for 2^report_bits collectives; EMU_COMM_UNREPORTED: not recorded
     */
    uint8_t report_bits;
};

/**
 * emu_comm_draw - return how to count collective @number (from 0) of a kind and size in a group.
 * Pure.
 */
static inline struct emu_comm_draw emu_comm_draw(uint32_t number)
{
    uint32_t draw = (number * UINT32_C(0x9e3779b1)) >> 8; /* Fibonacci hashing: 24 bits */
    uint32_t bits = number < EMU_COMM_REPORTED ? 0 : 32u - (uint32_t)__builtin_clz(number) - 5;
    uint32_t report_bits = bits < 24 ? bits : 24;
    bool late = number >= EMU_COMM_TIMED;

    return (struct emu_comm_draw){.timed = !late || !(draw & (EMU_COMM_TIMED_EACH - 1)),
                                  .weight_bits = late ? EMU_COMM_TIMED_BITS : 0,
                                  .report_bits = draw & ((UINT32_C(1) << report_bits) - 1)
                                                     ? EMU_COMM_UNREPORTED
                                                     : (uint8_t)report_bits};
}

/** emu_comm_trapped - count a trap, and store it as the last one. Thread: see emu_comm_called(). */
static inline void emu_comm_trapped(struct emu_comm_shared *to, const struct emu_comm_trap *trap)
{
    atomic_store_explicit(&to->trap_peer, trap->from | (uint64_t)trap->error << 32,
                          memory_order_relaxed);
    atomic_store_explicit(&to->trap_address, trap->address, memory_order_relaxed);
    atomic_store_explicit(&to->trap_bytes, trap->bytes, memory_order_relaxed);
    emu_count(&to->traps, 1);
}

/**
 * emu_comm_trap - return the last trap. Its fields may come from two different traps. Thread: any.
 */
static inline struct emu_comm_trap emu_comm_trap(const struct emu_comm_shared *from)
{
    uint64_t peer = emu_count_read(&from->trap_peer);

    return (struct emu_comm_trap){.from = (uint32_t)peer,
                                  .error = (uint32_t)(peer >> 32),
                                  .address = emu_count_read(&from->trap_address),
                                  .bytes = emu_count_read(&from->trap_bytes)};
}

/** emu_comm_called - count a completed collective. Thread: the process, one thread at a time. */
static inline void emu_comm_called(struct emu_comm_cell *cell, uint64_t bytes)
{
    emu_count(&cell->calls, 1);
    emu_count(&cell->bytes, bytes);
}

/** emu_comm_timed - add the duration of a timed collective, weighted by 2^@weight_bits. */
static inline void emu_comm_timed(struct emu_comm_cell *cell, uint64_t ns, uint8_t weight_bits)
{
    emu_count(&cell->ns, ns << weight_bits);
    if (ns > emu_count_read(&cell->longest_ns))
        atomic_store_explicit(&cell->longest_ns, ns, memory_order_relaxed);
}

#endif
