/* SPDX-License-Identifier: BSD-3-Clause */
/* base.h - helpers that are independent of adapters: random numbers, error texts, and threads */
#ifndef NIC_BASE_H
#define NIC_BASE_H

#include <pthread.h>
#include <stdint.h>

#include "emu/util/now.h"

uint64_t nic_random(void);

/** nic_fail - set the text that fabemu_error() returns in this thread. Returns @err. */
int nic_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/**
 * nic_fail_defunct - set a text for "not attached". Returns -ENOTCONN. The first call in a forked
 * child, which called nic_note_forked(), also prints a line, because a program rarely shows the
 * error.
 */
int nic_fail_defunct(void);
void nic_note_forked(void);

/**
 * nic_remedy - return how to raise the limit that made this process fail with @err, as a text that
 * begins with "; ". Returns "" if @err does not stand for a limit.
 */
const char *nic_remedy(int err);

/** nic_spawn - start a thread that blocks all signals, so it runs no handlers of the program. */
int nic_spawn(pthread_t *thread, void *(*body)(void *), void *argument);
/** nic_cond_init - make a condition variable whose timed waits use the clock of emu_now_ns(). */
void nic_cond_init(pthread_cond_t *cond);
/** nic_until - return the time @limit_ns from now, for a timed wait after nic_cond_init(). */
struct timespec nic_until(uint64_t limit_ns);

#endif
