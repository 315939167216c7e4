/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap_area.h - the memory of a capture: one ring per worker, which the worker fills and a reader
 * empties, and the interfaces (one per direction of a cable) with their counters. The memory is a
 * sealed file, so that a reader in another process cannot shrink it.
 */
#ifndef EMU_TAP_AREA_H
#define EMU_TAP_AREA_H

#include "emu/link/tap.h"
#include "emu/util/count.h"

#define EMU_TAP_NAME_BYTES  48u
#define EMU_TAP_ABOUT_BYTES 144u

/* The worker of the sending device writes the counters; any thread may read them. */
struct emu_tap_iface {
    /* "3:5>7:1": from port 5 of switch 3 to port 1 of switch 7; "n4:0" is port 0 of node 4 */
    alignas(EMU_LINE) char name[EMU_TAP_NAME_BYTES];
    _Atomic uint64_t seen;           /* records that passed the filter */
    _Atomic uint64_t missed;         /* part of `seen` that was dropped because the ring was full */
    char about[EMU_TAP_ABOUT_BYTES]; /* the ends' names and the direction: "leaf1>spine2, up" */
};
static_assert(sizeof(struct emu_tap_iface) % EMU_LINE == 0, "no interface shares a cache line");

struct emu_tap_ring {
    alignas(EMU_LINE) _Atomic uint64_t put;   /* written by the worker: records so far */
    alignas(EMU_LINE) _Atomic uint64_t taken; /* written by the reader: records read so far */
    struct emu_tap_record record[];
};

/* The beginning of the file. Written once. */
struct emu_tap_area {
    uint32_t magic;
    uint32_t version;
    uint32_t rings;
    uint32_t ifaces;
    uint32_t slots; /* per ring; a power of two */
    uint32_t clock; /* enum emu_clock_mode */
    uint32_t snap_bytes;
    uint32_t unit_ps; /* clock virtual: unit of times in the reader's capture file, 1 or 1000 ps */
    uint64_t bytes;   /* size of this memory */
};

/**
 * emu_tap_area_create - create the memory of a capture. @plan: gives rings, ifaces, slots, clock,
 * snap_bytes and unit_ps. The caller owns *@memfd. Errors: those of memfd_create() and mmap().
 */
int emu_tap_area_create(struct emu_tap_area **ret, const struct emu_tap_area *plan, int *memfd);

/**
 * emu_tap_area_open - map the memory of a capture. The caller may then close @memfd. *@head: gets a
 * copy of the area's beginning, which is checked. The caller uses this copy, because another
 * process may change the area at any time. Errors: -EPROTO (no capture of this version); those of
 * mmap().
 */
int emu_tap_area_open(struct emu_tap_area **ret, struct emu_tap_area *head, int memfd);

/**
 * emu_tap_area_close - unmap the memory. @bytes: area->bytes as it was when the area was created or
 * opened, since the other process may have changed it. @area may be NULL.
 */
void emu_tap_area_close(struct emu_tap_area *area, size_t bytes);

/** emu_tap_iface - return interface @i. emu_tap_ring - return ring @i. @head: a copy of *@area. */
struct emu_tap_iface *emu_tap_iface(struct emu_tap_area *area, uint32_t i);
struct emu_tap_ring *emu_tap_ring(struct emu_tap_area *area, const struct emu_tap_area *head,
                                  uint32_t i);

/** emu_tap_there - return the number of records written so far. Thread: the reader. */
static inline uint64_t emu_tap_there(struct emu_tap_ring *ring)
{
    return atomic_load_explicit(&ring->put, memory_order_acquire); /* P2 pairs with P1 */
}

/** emu_tap_done - publish that all records before number @taken were read. Thread: the reader. */
static inline void emu_tap_done(struct emu_tap_ring *ring, uint64_t taken)
{
    atomic_store_explicit(&ring->taken, taken, memory_order_release); /* P3 pairs with P4 */
}

#endif
