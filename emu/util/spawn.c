/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.c - start a thread. */
#include "emu/util/spawn.h"

#include <stdio.h>

int emu_spawn(pthread_t *ret, const char *name, void *(*body)(void *), void *argument)
{
    char shown[16]; /* Linux refuses longer names of threads */
    pthread_attr_t attr;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, EMU_SPAWN_STACK_BYTES);
    err = pthread_create(ret, &attr, body, argument);
    pthread_attr_destroy(&attr);
    if (err)
        return -err;
    snprintf(shown, sizeof shown, "%s", name);
    pthread_setname_np(*ret, shown);
    return 0;
}
