/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alloc.h - memory for what has lines of its own.
 */
#ifndef EMU_ALLOC_H
#define EMU_ALLOC_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EMU_LINE 64 /* bytes of a cache line: one writer a line */

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

#endif
