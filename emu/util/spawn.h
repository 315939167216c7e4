/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.h - start a thread. */
#ifndef EMU_SPAWN_H
#define EMU_SPAWN_H

#include <pthread.h>

#define EMU_SPAWN_STACK_BYTES (256u * 1024) /* small, because a fabric may have many threads */

/**
 * emu_spawn - start a thread that runs @body with @argument; the caller joins it. @name: shown by
 * the host's tools; cut to 15 characters. Errors: -EAGAIN: the system permits no further thread.
 * Thread: any.
 */
int emu_spawn(pthread_t *ret, const char *name, void *(*body)(void *), void *argument);

#endif
