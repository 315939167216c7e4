/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pages.h - huge pages for what is allocated in small pieces and touched in no order.
 */
#ifndef EMU_PAGES_H
#define EMU_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/**
 * emu_pages_begin - until emu_pages_end(), what malloc() and its like give this thread lies side by
 * side, @bytes of it in huge pages, where the host has such for those who ask; else memory is as
 * always. Returns false if so few bytes are as well off without; then there is nothing to end.
 * Thread: the process's first, while no other allocates.
 */
bool emu_pages_begin(uint64_t bytes);
void emu_pages_end(void);

#endif
