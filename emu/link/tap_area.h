/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap_area.h - the rings of a capture: memory that the fabric fills and a reader empties.
 *
 * A sealed memory file, so that the reader may be another process, which cannot shrink it under
 * the workers. In it are the interfaces (a way of a cable each) with their counts, and a ring for
 * each worker.
 */
#ifndef EMU_TAP_AREA_H
#define EMU_TAP_AREA_H

#include "emu/link/tap.h"
#include "emu/util/count.h"

#define EMU_TAP_NAME_BYTES  48u
#define EMU_TAP_ABOUT_BYTES 128u

/* One way of a cable. Its counts are the worker's that sends there; anyone reads. */
struct emu_tap_iface {
    alignas(EMU_LINE) char name[EMU_TAP_NAME_BYTES]; /* "3:5>7:1", "n4:0>1:0" */
    _Atomic uint64_t seen;                           /* records that the filter let pass */
    _Atomic uint64_t missed;                         /* of them, those that found the ring full */
    char about[EMU_TAP_ABOUT_BYTES]; /* the ends' names, "leaf1>spine2"; empty: there are none */
};
static_assert(sizeof(struct emu_tap_iface) % EMU_LINE == 0, "its own cache lines");

struct emu_tap_ring {
    alignas(EMU_LINE) _Atomic uint64_t put;   /* the worker's: records so far */
    alignas(EMU_LINE) _Atomic uint64_t taken; /* the reader's: of them */
    struct emu_tap_record record[];
};

/* At the beginning of the file. Written once. */
struct emu_tap_area {
    uint32_t magic;
    uint32_t version;
    uint32_t rings;
    uint32_t ifaces;
    uint32_t slots; /* of each ring; a power of two */
    uint32_t clock; /* enum emu_clock_mode */
    uint32_t snap_bytes;
    uint32_t spare;
    uint64_t bytes; /* of the file */
};

/**
 * emu_tap_area_create - @plan: rings, ifaces, slots, clock and snap_bytes. @memfd: the caller's.
 * Errors: -ENOMEM, -EMFILE, others of memfd_create() and mmap().
 */
int emu_tap_area_create(struct emu_tap_area **ret, const struct emu_tap_area *plan, int *memfd);

/** emu_tap_area_open - the reader's. @memfd may be closed after. Errors: -EPROTO; of mmap(). */
int emu_tap_area_open(struct emu_tap_area **ret, int memfd);

/**
 * emu_tap_area_close - @bytes: area->bytes, as it was when the area was made or opened; later the
 * other side may have written anything there. @area may be NULL.
 */
void emu_tap_area_close(struct emu_tap_area *area, size_t bytes);

struct emu_tap_iface *emu_tap_iface(struct emu_tap_area *area, uint32_t i);
struct emu_tap_ring *emu_tap_ring(struct emu_tap_area *area, uint32_t i);

/** emu_tap_there - so many records were put into the ring so far. Thread: the reader. */
static inline uint64_t emu_tap_there(struct emu_tap_ring *ring)
{
    return atomic_load_explicit(&ring->put, memory_order_acquire); /* P2: P1 */
}

/** emu_tap_done - all before @taken have been read. Thread: the reader. */
static inline void emu_tap_done(struct emu_tap_ring *ring, uint64_t taken)
{
    atomic_store_explicit(&ring->taken, taken, memory_order_release); /* P3: P4 */
}

#endif
