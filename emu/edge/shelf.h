/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shelf.h - what several processes at one switch get is written once, where all of them read it.
 *
 * A copy for each of them in its own ring is a line's way to another core for each line of each
 * copy. A shelf is memory that the switch's worker writes and all processes at that switch map for
 * reading; their rings say where on it the segment lies. It is filled in a circle, by parts: a part
 * is written again once nobody has anything left to read in it. Where a process does not read, the
 * others get copies, as they do of segments that are not full. One that was given up is not waited
 * for, and what it reads then is nothing: who reads copies a segment, and then looks whether it was
 * there still.
 *
 * What that lets a process see that it could not see otherwise: full segments of multicasts to
 * others at its switch, also of before it came.
 */
#ifndef EMU_SHELF_H
#define EMU_SHELF_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/edge/edge.h"

/* The fabric's side. Owned by the worker of the switch, but for create and destroy. */
struct emu_shelf {
    alignas(EMU_LINE) struct emu_shelf_shared *shared;
    int memfd;        /* nobody can map it for writing any more */
    uint32_t next;    /* slots written, free-running */
    uint32_t end;     /* so many may be: at the end of a part. What all see of it is shared->end */
    uint32_t refused; /* looks in vain at the part that is wanted, since it was */
};

/**
 * emu_shelf_create - a shelf; its indexes begin at @first.
 * Errors: -ENOMEM, -EMFILE, -EFBIG; -errno of fcntl().
 */
int emu_shelf_create(struct emu_shelf **ret, uint32_t first);
void emu_shelf_destroy(struct emu_shelf *shelf);

/** emu_shelf_part - the part that slot @index is in. Pure. */
static inline uint32_t emu_shelf_part(uint32_t index)
{
    return index % EMU_SHELF_SLOTS / EMU_SHELF_PART;
}

/** emu_shelf_is_full - may nothing be written before the next part is known to be free? */
static inline bool emu_shelf_is_full(const struct emu_shelf *shelf)
{
    return shelf->next == shelf->end;
}

/**
 * emu_shelf_turn - nobody who is waited for reads in the next part any more. X7 pairs with Y9: it
 * is said before anything there is written.
 */
static inline void emu_shelf_turn(struct emu_shelf *shelf)
{
    shelf->end += EMU_SHELF_PART;
    shelf->refused = 0;
    atomic_store_explicit(&shelf->shared->end, shelf->end, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* X7: Y9 */
}

#endif
