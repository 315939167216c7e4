/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages.c - grow the heap once, with huge pages: a block of the total size is allocated and freed
 * untouched, and later allocations are parts of it. Rejected: memory outside the heap, which would
 * need its own free().
 */
#include "emu/util/pages.h"

#include <stdlib.h>
#include <sys/mman.h>

#ifdef __GLIBC__
#include <malloc.h>

#define HEAP_MMAPS 65536       /* DEFAULT_MMAP_MAX of glibc */
#define HEAP_TRIM  (128 << 10) /* DEFAULT_TRIM_THRESHOLD */
#define PAGE       4096u
#define PAGES_FROM (UINT64_C(1) << 25) /* less memory fits into the caches and gains nothing */
#define PAGES_MOST (UINT64_C(1) << 40)

bool emu_pages_begin(uint64_t bytes)
{
    void *piece;
    uintptr_t at;

    if (bytes < PAGES_FROM || bytes > PAGES_MOST)
        return false;
    mallopt(M_MMAP_MAX, 0); /* so that large blocks come from the heap as well */
    mallopt(M_TRIM_THRESHOLD, -1);
    piece = malloc(bytes);
    at = ((uintptr_t)piece + PAGE - 1) / PAGE * PAGE;
    if (piece && at + PAGE < (uintptr_t)piece + bytes)
        (void)madvise((void *)at, (uintptr_t)piece + bytes - at, MADV_HUGEPAGE);
    free(piece);
    return true;
}

void emu_pages_end(void)
{
    mallopt(M_MMAP_MAX, HEAP_MMAPS);
    mallopt(M_TRIM_THRESHOLD, HEAP_TRIM);
}
#else
bool emu_pages_begin(uint64_t bytes)
{
    (void)bytes;
    return false;
}

void emu_pages_end(void)
{
}
#endif
