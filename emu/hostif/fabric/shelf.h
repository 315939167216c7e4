/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shelf.h - what several processes at one switch get is written once, where all of them read it.
 *
 * A copy for each of them in its own ring is a line's way to another core for each line of each
 * copy. A shelf is memory that the switch's worker writes and all processes at that switch map for
 * reading; their rings say where on it the segment lies. It is filled in a circle, by parts: a part
 * is written again once nobody has anything left to read in it. Where a process does not read, the
 * others get copies, as they do of segments that are not full. A process that asks to detach has
 * read what it ever will. One that is gone without that may be there still, and read: its shelf is
 * retired. Nothing is written there any more, those who have it get copies, and who comes gets a
 * new one.
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

#include "emu/hostif/hostif.h"

/* The fabric's side. */
struct emu_shelf {
    /* The worker's of the switch, once it is made. */
    alignas(EMU_LINE) struct emu_shelf_shared *shared;
    int memfd;        /* nobody can map it for writing any more */
    uint32_t next;    /* slots written, free-running */
    uint32_t end;     /* so many may be: at the end of a part */
    uint32_t refused; /* looks in vain at the part that is wanted, since it was */

    /* Set to 1 by the manager: somebody may read there for ever. */
    _Atomic uint32_t retired;
    uint32_t users; /* the manager's: whoever made it, and edges */
};

/**
 * emu_shelf_create - a shelf; its indexes begin at @first. The caller holds it.
 * Errors: -ENOMEM, -EMFILE, -EFBIG; -errno of fcntl().
 */
int emu_shelf_create(struct emu_shelf **ret, uint32_t first);

/** emu_shelf_hold - one user more. Thread: the manager. */
static inline void emu_shelf_hold(struct emu_shelf *shelf)
{
    shelf->users++;
}

/** emu_shelf_drop - one less: the last one frees it. NULL: nothing happens. Thread: the manager. */
void emu_shelf_drop(struct emu_shelf *shelf);

/**
 * emu_shelf_retire - a process that has it is about to be unplugged, and may read on. Thread: the
 * manager. E4 of the unplugging comes after it: see emu_shelf_is_retired().
 */
static inline void emu_shelf_retire(struct emu_shelf *shelf)
{
    atomic_store_explicit(&shelf->retired, 1, memory_order_relaxed);
}

/**
 * emu_shelf_is_retired - asked after a look at all edges: by E3 who has not seen the edge of such a
 * process any more sees this. Thread: worker.
 */
static inline bool emu_shelf_is_retired(const struct emu_shelf *shelf)
{
    return atomic_load_explicit(&shelf->retired, memory_order_relaxed);
}

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

/** emu_shelf_turn - nobody reads in the next part any more. */
static inline void emu_shelf_turn(struct emu_shelf *shelf)
{
    shelf->end += EMU_SHELF_PART;
    shelf->refused = 0;
}

#endif
