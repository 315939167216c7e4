/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc.h - memory for what has lines of its own.
 */
#ifndef EMU_ALLOC_H
#define EMU_ALLOC_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "emu/link/seg.h"

/**
 * emu_zeros - at least @bytes of zeros, from the beginning of a line to the end of one; NULL: none
 * left.
 */
static inline void *emu_zeros(size_t bytes)
{
    size_t whole = bytes ? (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE : EMU_LINE;
    void *at = aligned_alloc(EMU_LINE, whole);

    return at ? memset(at, 0, whole) : NULL;
}

/**
 * emu_sparse_alloc - at least @bytes of zeros, from the beginning of a line on; NULL: there is no
 * memory. For much of which little may ever be used: rings, and what a switch can hold at most.
 * None of it is touched before its user does, by a header neither, so a page that nobody has used
 * takes no memory and no time: a fabric of 256 nodes starts with 360 pages of it, where the C
 * library's memory for the same took 2300. Given back by emu_sparse_free(). Thread: any.
 */
void *emu_sparse_alloc(size_t bytes);

/** emu_sparse_free - @piece: from emu_sparse_alloc(), or NULL. Thread: any. */
void emu_sparse_free(void *piece);

#endif
