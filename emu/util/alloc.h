/* SPDX-License-Identifier: BSD-3-Clause */
/* alloc.h - allocate memory that shares no cache line with other data. */
#ifndef EMU_ALLOC_H
#define EMU_ALLOC_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EMU_LINE 64 /* bytes of a cache line; shared data has one writer per line */

/** emu_zeros - allocate @bytes zero bytes, rounded up to cache lines; NULL: there is no memory. */
static inline void *emu_zeros(size_t bytes)
{
    size_t whole = bytes ? (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE : EMU_LINE;
    void *at = aligned_alloc(EMU_LINE, whole);

    return at ? memset(at, 0, whole) : NULL;
}

#endif
