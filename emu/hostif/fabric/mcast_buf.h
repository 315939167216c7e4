/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_buf.h - the shared multicast buffer of a switch.
 *
 * If each process's ring got a copy of a multicast segment, every cache line of every copy would
 * travel to another core. Instead the switch's worker writes the segment once to this buffer, and
 * the processes' rings refer to its slot. The processes at the switch map the buffer read-only. The
 * buffer is used only on clock raw, at nodes without a link engine. It is circular and consists of
 * blocks. A block is reused once no process has unread segments in it. If the next block cannot be
 * reused because a process does not read, segments are copied to the rings. Segments that are not
 * full are always copied.
 *
 * A process that asks to detach has finished reading the buffer. If the manager (the thread that
 * attaches and detaches processes) detaches a process against its will, the process may still read
 * the buffer. The manager then retires the buffer: nothing is written to it any more, processes
 * that map it get copies, and new processes get a new buffer.
 *
 * Security: a process can read full multicast segments that were sent to other processes at its
 * switch, even before it attached.
 */
#ifndef EMU_MCAST_BUF_H
#define EMU_MCAST_BUF_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hostif/hostif.h"

/* The fabric's end. */
struct emu_mcast_buf {
    /* Owned by the switch's worker, once created. */
    alignas(EMU_LINE) struct emu_mcast_buf_shared *shared;
    int memfd;        /* sealed, so that no process can map it writable */
    uint32_t next;    /* slots written, free-running */
    uint32_t end;     /* `next` must not pass this value, which is the end of a block */
    uint32_t refused; /* how often in a row the next block could not be reused */

    _Atomic uint32_t retired; /* set to 1 by the manager; see emu_mcast_buf_retire() */
    uint32_t users; /* references: the creator's, and one per host interface; used by the manager */
};

/**
 * emu_mcast_buf_create - create a buffer, with one reference to it. Its indexes begin at @first,
 * rounded down to a block.
 * Errors: -ENOMEM, -EMFILE, -EFBIG; -errno of fcntl().
 */
int emu_mcast_buf_create(struct emu_mcast_buf **ret, uint32_t first);

/** emu_mcast_buf_hold - add a reference. Thread: the manager. */
static inline void emu_mcast_buf_hold(struct emu_mcast_buf *mcast_buf)
{
    mcast_buf->users++;
}

/**
 * emu_mcast_buf_drop - drop a reference; the last one frees the buffer. @mcast_buf may be NULL.
 * Thread: the manager.
 */
void emu_mcast_buf_drop(struct emu_mcast_buf *mcast_buf);

/**
 * emu_mcast_buf_retire - stop writing to the buffer, because a process that is about to be detached
 * may still read it. The manager then detaches the process: it stores NULL as the node's host
 * interface (E4 in docs/ORDERING.md), so that a worker that loads this NULL also sees `retired`.
 * Thread: the manager.
 */
static inline void emu_mcast_buf_retire(struct emu_mcast_buf *mcast_buf)
{
    atomic_store_explicit(&mcast_buf->retired, 1, memory_order_relaxed);
}

/**
 * emu_mcast_buf_is_retired - return whether the buffer is retired. Call this after loading the
 * pointers to all host interfaces (E3 in docs/ORDERING.md): a worker that then finds no interface
 * of a detached process also sees that the buffer is retired. Thread: the worker.
 */
static inline bool emu_mcast_buf_is_retired(const struct emu_mcast_buf *mcast_buf)
{
    return atomic_load_explicit(&mcast_buf->retired, memory_order_relaxed);
}

static inline uint32_t emu_mcast_buf_block(uint32_t index)
{
    return index % EMU_MCAST_BUF_SLOTS / EMU_MCAST_BLOCK_SLOTS;
}

/** emu_mcast_buf_is_full - return whether the next block must become free before the next write. */
static inline bool emu_mcast_buf_is_full(const struct emu_mcast_buf *mcast_buf)
{
    return mcast_buf->next == mcast_buf->end;
}

/** emu_mcast_buf_next_block - allow writes to the next block, which is free. */
static inline void emu_mcast_buf_next_block(struct emu_mcast_buf *mcast_buf)
{
    mcast_buf->end += EMU_MCAST_BLOCK_SLOTS;
    mcast_buf->refused = 0;
}

#endif
