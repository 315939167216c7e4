/* SPDX-License-Identifier: BSD-3-Clause */
/* instructions.h - count the instructions of a thread. */
#ifndef EMU_INSTRUCTIONS_H
#define EMU_INSTRUCTIONS_H

/**
 * emu_instructions_open - open a counter of the instructions that the calling thread retires in
 * user mode. read() of the returned descriptor gets their number, a uint64_t. Errors: those of
 * perf_event_open(), such as -ENOENT if the host has no such counter.
 */
int emu_instructions_open(void);

#endif
