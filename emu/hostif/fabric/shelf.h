/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shelf.h - the shared multicast buffer of a switch: a multicast segment is written once, and all
 * processes at the switch read it there.
 *
 * With a copy in each process's ring, every cache line of every copy would travel to another core.
 * Instead the switch's worker writes to this buffer, which all processes at the switch map
 * read-only, and their rings refer to its slots. It is a circular buffer of parts; a part is reused
 * once no process has unread segments in it. While a process does not read, the others get copies,
 * as for segments that are not full. A process that asks to detach has finished reading. A process
 * that was cut off may still read, so its buffer is retired: nothing is written to it any more,
 * processes that map it get copies, and new processes get a new buffer.
 *
 * Security: a process sees full multicast segments to other processes at its switch, also from
 * before it attached.
 */
#ifndef EMU_SHELF_H
#define EMU_SHELF_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostif/hostif.h"

/* The fabric's end. */
struct emu_shelf {
    /* Owned by the switch's worker, once created. */
    alignas(EMU_LINE) struct emu_shelf_shared *shared;
    int memfd;        /* sealed: no further writable mapping */
    uint32_t next;    /* slots written, free-running */
    uint32_t end;     /* slots that may be written: the end of a part */
    uint32_t refused; /* failed checks of the part that is needed next */

    /* Set to 1 by the manager: a process may read it for ever. */
    _Atomic uint32_t retired;
    uint32_t users; /* by the manager: its creator, and host interfaces */
};

/**
 * emu_shelf_create - @first: where its indexes begin. The caller has a reference.
 * Errors: -ENOMEM, -EMFILE, -EFBIG; -errno of fcntl().
 */
int emu_shelf_create(struct emu_shelf **ret, uint32_t first);

/** emu_shelf_hold - add a reference. Thread: the manager. */
static inline void emu_shelf_hold(struct emu_shelf *shelf)
{
    shelf->users++;
}

/** emu_shelf_drop - drop a reference; the last one frees it. May be NULL. Thread: the manager. */
void emu_shelf_drop(struct emu_shelf *shelf);

/**
 * emu_shelf_retire - call before a process that may read on is detached. E4 of the detaching
 * follows it: see emu_shelf_is_retired(). Thread: the manager.
 */
static inline void emu_shelf_retire(struct emu_shelf *shelf)
{
    atomic_store_explicit(&shelf->retired, 1, memory_order_relaxed);
}

/**
 * emu_shelf_is_retired - call after visiting all host interfaces: by E3, a worker that no longer
 * finds the detached one sees that the buffer is retired. Thread: the worker.
 */
static inline bool emu_shelf_is_retired(const struct emu_shelf *shelf)
{
    return atomic_load_explicit(&shelf->retired, memory_order_relaxed);
}

/** emu_shelf_part - the part of slot @index. Pure. */
static inline uint32_t emu_shelf_part(uint32_t index)
{
    return index % EMU_SHELF_SLOTS / EMU_SHELF_PART;
}

/** emu_shelf_is_full - must the next part become free before a write? */
static inline bool emu_shelf_is_full(const struct emu_shelf *shelf)
{
    return shelf->next == shelf->end;
}

/** emu_shelf_turn - the next part is free. */
static inline void emu_shelf_turn(struct emu_shelf *shelf)
{
    shelf->end += EMU_SHELF_PART;
    shelf->refused = 0;
}

#endif
