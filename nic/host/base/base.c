/* SPDX-License-Identifier: BSD-3-Clause */
/* base.c - helpers that are independent of adapters: random numbers, error texts, and threads */
#include "nic/host/base/base.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "emu/util/random.h"
#include "nic/fabemu.h"

uint64_t nic_random(void)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = emu_spread(emu_now_ns()) ^ (uintptr_t)&random;
    return random;
}

/* --- the text of the last error ----------------------------------------------------- */

static _Thread_local char error_line[256];

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

static atomic_bool forked; /* this process is a forked child, and has not reported this yet */

void nic_note_forked(void)
{
    atomic_store_explicit(&forked, true, memory_order_relaxed);
}

int nic_fail_defunct(void)
{
    if (atomic_exchange_explicit(&forked, false, memory_order_relaxed))
        fprintf(stderr,
                "fabemu: process %d was forked by process %d, and cannot use its adapter; only "
                "process %d can communicate\n",
                getpid(), getppid(), getppid());
    return nic_fail(-ENOTCONN, "this process is not attached to a fabric (any more)");
}

const char *fabemu_error(void)
{
    return error_line;
}

/* --- threads ------------------------------------------------------------------------ */

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

struct timespec nic_until(uint64_t limit_ns)
{
    uint64_t at_ns = emu_now_ns() + limit_ns;

    return (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000u),
                             .tv_nsec = (long)(at_ns % 1000000000u)};
}

void nic_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}
