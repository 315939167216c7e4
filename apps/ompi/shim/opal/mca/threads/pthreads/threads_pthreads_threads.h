/* SPDX-License-Identifier: BSD-3-Clause */
/* threads_pthreads_threads.h - lets a thread yield its core: see threads_pthreads_mutex.h. */
#ifndef SHIM_THREADS_PTHREADS_THREADS_H
#define SHIM_THREADS_PTHREADS_THREADS_H

#include <pthread.h>
#include <sched.h>

#include "opal/mca/threads/threads.h"

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

static inline void opal_thread_yield(void)
{
    sched_yield();
}

#endif
