/* SPDX-License-Identifier: BSD-3-Clause */
/* asleep.h - ask the kernel whether a process sleeps. */
#ifndef EMU_ASLEEP_H
#define EMU_ASLEEP_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * emu_is_asleep - return whether all threads of process @pid sleep in system calls, as
 * /proc/PID/task/TID/stat shows. A process that has been stopped by a signal, waits for a disk, or
 * waits for a core is not asleep. Also returns false if /proc does not show the process. Reads one
 * file per thread up to the first one that is awake, at about 10 us each.
 */
bool emu_is_asleep(pid_t pid);

#endif
