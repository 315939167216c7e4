/* SPDX-License-Identifier: BSD-3-Clause */
/* pages.h - huge pages for many small allocations with random access. */
#ifndef EMU_PAGES_H
#define EMU_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/**
 * emu_pages_begin - until emu_pages_end(), this thread's allocations are adjacent, the first @bytes
 * of them in huge pages if the host allows madvise() for them. Returns false if @bytes is too small
 * to gain; then do not call emu_pages_end(). Thread: the process's first, while no other allocates.
 */
bool emu_pages_begin(uint64_t bytes);
void emu_pages_end(void);

#endif
