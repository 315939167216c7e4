/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sparse.h - memory that may stay mostly unused, such as rings and the buffers of a switch. The
 * allocator stores nothing in it, so only its user touches it. Therefore pages that stay unused
 * cost neither memory nor time. A fabric of 256 nodes starts with 360 used pages. With malloc() it
 * started with 2300.
 */
#ifndef EMU_SPARSE_H
#define EMU_SPARSE_H

#include <stddef.h>

/**
 * emu_sparse_alloc - allocate at least @bytes of zeros, aligned to a cache line. Returns NULL if
 * there is no memory. Thread: any.
 */
void *emu_sparse_alloc(size_t bytes);

/** emu_sparse_free - free @piece, which may be NULL. Thread: any. */
void emu_sparse_free(void *piece);

#endif
