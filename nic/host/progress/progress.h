/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - step the adapter (receive, check peers, send), wait, run the adapter's thread */
#ifndef NIC_PROGRESS_H
#define NIC_PROGRESS_H

#include "nic/host/base/adapter.h"

/* --- step.c ------------------------------------------------------------------------- */

/**
 * nic_step - execute one bounded step: receive, send, publish. Returns the number of segments
 * moved. Lock: held.
 */
uint32_t nic_step(struct fabemu *fab);
/** nic_poll - call nic_step() unless another thread holds the lock. Returns the segments moved. */
uint32_t nic_poll(struct fabemu *fab);
/**
 * nic_poll_app - as nic_poll(), for a thread of the application: count the poll, and take the lock
 * only if there is work.
 */
uint32_t nic_poll_app(struct fabemu *fab);

/* --- receive.c: the lock is held ---------------------------------------------------- */

/** nic_receive - receive a bounded number of segments. Returns the number. */
uint32_t nic_receive(struct fabemu *fab);
/** nic_receive_resume - handle requests that had to wait because their queue was not open. */
void nic_receive_resume(struct fabemu *fab);

/* --- wait.c ------------------------------------------------------------------------- */

#define NIC_SLEEP_NS 10000000u /* longest sleep; a lost wake-up costs no more than this */
/*
 * Length of a sleep from which the fabric may not wake us, and of a sleep in fabemu_idle(), whose
 * caller may also wait for other events.
 */
#define NIC_NAP_NS    50000u
#define NIC_NAP_POLLS 8u /* polls before each sleep in fabemu_idle() */
/*
 * polls (about 50 us in all) before the first sleep of fabemu_idle(), if a yield lets the fabric
 * run
 */
#define NIC_NAP_MISSES 100u
/* A thread that on average uses less CPU time than this between polls is only waiting. */
#define NIC_NAP_WORK_NS 4000u

/**
 * nic_sleep - sleep until a segment arrives, for at most NIC_SLEEP_NS. If a segment waits for space
 * in the ring to the fabric, or has arrived and is not due yet, sleep for NIC_NAP_NS. The caller
 * has polled without success. Lock: not held. @seen_tail: the tail of the down ring that the caller
 * has seen.
 */
void nic_sleep(struct fabemu *fab, uint32_t seen_tail);

/* --- simtime.c: clock virtual ------------------------------------------------------- */

/**
 * nic_sim_begin - begin to use simulated time, if the fabric has it. If libfabemu-clock is loaded,
 * the program's clocks follow the local time. Other threads must not use the adapter yet.
 * nic_sim_end - undo nic_sim_begin().
 */
void nic_sim_begin(struct fabemu *fab);
void nic_sim_end(struct fabemu *fab);
/** nic_sim_poll - nic_poll_app() on clock virtual. Lock: not held. */
uint32_t nic_sim_poll(struct fabemu *fab);
/** nic_sim_pause - wait until a segment arrives, for at most 10 ms. Lock: not held. */
void nic_sim_pause(struct fabemu *fab);
/**
 * nic_sim_settle - on clock virtual, wait until the fabric has simulated all events up to the local
 * time. Lock: not held.
 */
void nic_sim_settle(struct fabemu *fab);

/* --- watch.c, pending.c: the lock is held ------------------------------------------- */

#define NIC_WATCH_NS 1000000000u /* interval of nic_watch() */

/**
 * nic_watch - once per interval, send a hello to each peer for which an operation of this process
 * waits.
 */
void nic_watch(struct fabemu *fab);
/**
 * nic_pending_publish - report the oldest pending operations to the fabric (emu/hostif/pending.h).
 * An operation's age counts from the first report that contains it.
 */
void nic_pending_publish(struct fabemu *fab, uint64_t now_ns);

/**
 * nic_pending_sleep - report that the process sleeps until @until_ns. Until then a lack of progress
 * is no standstill.
 */
void nic_pending_sleep(struct fabemu *fab, uint64_t until_ns);

/* --- thread.c ----------------------------------------------------------------------- */

int nic_thread_start(struct nic_thread **ret, struct fabemu *fab);
void nic_thread_stop(struct nic_thread *thread); /* may be NULL */

#endif
