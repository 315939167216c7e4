/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast_buf.h - the shared multicast buffer of a switch: a multicast segment is written once, and
 * all processes at the switch read it there.
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
    int memfd;        /* sealed: no further writable mapping */
    uint32_t next;    /* slots written, free-running */
    uint32_t end;     /* slots that may be written: the end of a part */
    uint32_t refused; /* failed checks of the part that is needed next */

    /* Set to 1 by the manager: a process may read it for ever. */
    _Atomic uint32_t retired;
    uint32_t users; /* by the manager: its creator, and host interfaces */
};

/**
 * emu_mcast_buf_create - @first: where its indexes begin. The caller has a reference.
 * Errors: -ENOMEM, -EMFILE, -EFBIG; -errno of fcntl().
 */
int emu_mcast_buf_create(struct emu_mcast_buf **ret, uint32_t first);

/** emu_mcast_buf_hold - add a reference. Thread: the manager. */
static inline void emu_mcast_buf_hold(struct emu_mcast_buf *mcast_buf)
{
    mcast_buf->users++;
}

/**
 * emu_mcast_buf_drop - drop a reference; the last one frees it. May be NULL. Thread: the manager.
 */
void emu_mcast_buf_drop(struct emu_mcast_buf *mcast_buf);

/**
 * emu_mcast_buf_retire - call before a process that may read on is detached. E4 of the detaching
 * follows it: see emu_mcast_buf_is_retired(). Thread: the manager.
 */
static inline void emu_mcast_buf_retire(struct emu_mcast_buf *mcast_buf)
{
    atomic_store_explicit(&mcast_buf->retired, 1, memory_order_relaxed);
}

/**
 * emu_mcast_buf_is_retired - call after visiting all host interfaces: by E3, a worker that no
 * longer finds the detached one sees that the buffer is retired. Thread: the worker.
 */
static inline bool emu_mcast_buf_is_retired(const struct emu_mcast_buf *mcast_buf)
{
    return atomic_load_explicit(&mcast_buf->retired, memory_order_relaxed);
}

/** emu_mcast_buf_block - the part of slot @index. Pure. */
static inline uint32_t emu_mcast_buf_block(uint32_t index)
{
    return index % EMU_MCAST_BUF_SLOTS / EMU_MCAST_BLOCK_SLOTS;
}

/** emu_mcast_buf_is_full - must the next part become free before a write? */
static inline bool emu_mcast_buf_is_full(const struct emu_mcast_buf *mcast_buf)
{
    return mcast_buf->next == mcast_buf->end;
}

/** emu_mcast_buf_next_block - the next part is free. */
static inline void emu_mcast_buf_next_block(struct emu_mcast_buf *mcast_buf)
{
    mcast_buf->end += EMU_MCAST_BLOCK_SLOTS;
    mcast_buf->refused = 0;
}

#endif
