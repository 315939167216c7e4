/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcu.c - calls to liburcu, with annotations for ThreadSanitizer.
 *
 * ThreadSanitizer does not see into liburcu. Therefore this file declares the order that a grace
 * period provides: U1 (a reader has finished) pairs with U2 (the old data may be freed).
 */
#include "emu/dev/rcu.h"

#include <urcu-qsbr.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
static char rcu_grace;                               /* its address represents the grace period */
#define RCU_READER_DONE() __tsan_release(&rcu_grace) /* U1 pairs with U2 */
#define RCU_GRACE_OVER()  __tsan_acquire(&rcu_grace) /* U2 pairs with U1 */
#else
#define RCU_READER_DONE() ((void)0)
#define RCU_GRACE_OVER()  ((void)0)
#endif

void emu_rcu_enter(void)
{
    urcu_qsbr_register_thread();
}

void emu_rcu_leave(void)
{
    RCU_READER_DONE();
    urcu_qsbr_unregister_thread();
}

void emu_rcu_quiescent(void)
{
    RCU_READER_DONE();
    urcu_qsbr_quiescent_state();
}

void emu_rcu_offline(void)
{
    RCU_READER_DONE();
    urcu_qsbr_thread_offline();
}

void emu_rcu_online(void)
{
    urcu_qsbr_thread_online();
}

void emu_rcu_wait(void)
{
    urcu_qsbr_synchronize_rcu();
    RCU_GRACE_OVER();
}
