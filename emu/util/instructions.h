/* SPDX-License-Identifier: BSD-3-Clause */
/* instructions.h - count the instructions of a thread. */
#ifndef EMU_INSTRUCTIONS_H
#define EMU_INSTRUCTIONS_H

/**
 * emu_instructions_open - return a descriptor from which the number of instructions that the
 * calling thread has retired in user mode can be read, as a uint64_t. Errors: those of
 * perf_event_open(), such as -ENOENT: the host has no such counter.
 */
int emu_instructions_open(void);

#endif
