/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.c - what knows nothing of adapters: the clock, random numbers, the error line, starting a thread.
 */
#include "nic/host/base.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "nic/fabemu.h"

uint64_t nic_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t nic_random(void)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = nic_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)&random;
    return random;
}

/* --- the error line --------------------------------------------------------------- */

static _Thread_local char error_line[256]; /* fabemu_error() is a thread's own */

int nic_fail(int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error_line, sizeof error_line, format, args);
    va_end(args);
    return err;
}

const char *nic_remedy(int err)
{
    switch (err) {
    case -EMFILE:
        return "; raise its limit of open files (ulimit -n)";
    case -ENOMEM:
        return "; raise its limit of memory (ulimit -v)";
    case -EAGAIN:
        return "; raise this user's limit of processes and threads (ulimit -u)";
    default:
        return "";
    }
}

int nic_fail_gone(void)
{
    return nic_fail(-ENOTCONN, "this process has no fabric (any more)");
}

const char *fabemu_error(void)
{
    return error_line;
}

/* --- threads ---------------------------------------------------------------------- */

int nic_spawn(pthread_t *thread, void *(*body)(void *), void *argument)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -err;
}
