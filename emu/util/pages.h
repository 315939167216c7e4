/* SPDX-License-Identifier: BSD-3-Clause */
/* pages.h - huge pages for many small allocations that are accessed at random. */
#ifndef EMU_PAGES_H
#define EMU_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/**
 * emu_pages_begin - make this thread's allocations adjacent until emu_pages_end(). The first @bytes
 * bytes are in huge pages, if madvise() may request them on this host. Returns false and does
 * nothing if @bytes is too small for a gain or above 1 TiB, or if the C library is not glibc. Then
 * do not call emu_pages_end(). Thread: the process's main thread, while no other thread allocates.
 */
bool emu_pages_begin(uint64_t bytes);
void emu_pages_end(void);

#endif
