/* SPDX-License-Identifier: BSD-3-Clause */
/* base.h - random numbers, the error line, and threads: independent of adapters */
#ifndef NIC_BASE_H
#define NIC_BASE_H

#include <pthread.h>
#include <stdint.h>

#include "emu/util/now.h"

uint64_t nic_random(void);

/** nic_fail - set this thread's fabemu_error(); returns @err. */
int nic_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int nic_fail_defunct(void); /* -ENOTCONN */

/**
 * nic_remedy - if @err says that this process has reached a limit: "; " and how to raise it. Else
 * "".
 */
const char *nic_remedy(int err);

/** nic_spawn - start a thread that handles none of the application's signals. */
int nic_spawn(pthread_t *thread, void *(*body)(void *), void *argument);
/** nic_cond_init - a condition variable whose timed waits use the clock of emu_now_ns(). */
void nic_cond_init(pthread_cond_t *cond);
/** nic_until - when @limit_ns have passed from now, for such a wait. */
struct timespec nic_until(uint64_t limit_ns);

#endif
