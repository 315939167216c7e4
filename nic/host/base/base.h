/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - what knows nothing of adapters: random numbers, the error line, threads.
 *
 * Owner: nobody; the error line is each thread's own. Lock: none. Callers: all of nic/host.
 */
#ifndef NIC_BASE_H
#define NIC_BASE_H

#include <pthread.h>
#include <stdint.h>

#include "emu/util/now.h"

uint64_t nic_random(void);

/** nic_fail - set fabemu_error()'s line; returns @err. */
int nic_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int nic_fail_gone(void); /* -ENOTCONN */

/** nic_remedy - "; " and what the user can do where this process has reached a limit; or "". */
const char *nic_remedy(int err);

/** nic_spawn - a thread that takes none of the application's signals. */
int nic_spawn(pthread_t *thread, void *(*body)(void *), void *argument);
/** nic_cond_init - a condition variable whose timed waits go by emu_now_ns()'s clock. */
void nic_cond_init(pthread_cond_t *cond);

#endif
