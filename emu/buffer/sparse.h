/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sparse.h - memory for much of which little may ever be used: rings, and what a switch can hold
 * at most. None of it is touched before its user does, by a header neither, so a page that nobody
 * has used takes no memory and no time: a fabric of 256 nodes starts with 360 pages of it, where
 * the C library's memory for the same took 2300.
 */
#ifndef EMU_SPARSE_H
#define EMU_SPARSE_H

#include <stddef.h>

/**
 * emu_sparse_alloc - at least @bytes of zeros, from the beginning of a line on; NULL: there is no
 * memory. Given back by emu_sparse_free(). Thread: any.
 */
void *emu_sparse_alloc(size_t bytes);

/** emu_sparse_free - @piece: from emu_sparse_alloc(), or NULL. Thread: any. */
void emu_sparse_free(void *piece);

#endif
