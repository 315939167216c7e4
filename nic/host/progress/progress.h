/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - step the adapter (receive, check on peers, send) and wait; its thread */
#ifndef NIC_PROGRESS_H
#define NIC_PROGRESS_H

#include "nic/host/base/adapter.h"

/* --- step.c ------------------------------------------------------------------------- */

/** nic_step - one bounded step: receive, send, publish. Returns segments moved. Lock: held. */
uint32_t nic_step(struct fabemu *fab);
/** nic_poll - nic_step(), unless another thread holds the lock. */
uint32_t nic_poll(struct fabemu *fab);
/** nic_poll_app - nic_poll() for the application: counts polls; locks only if there is work. */
uint32_t nic_poll_app(struct fabemu *fab);

/* --- receive.c: the lock is held ---------------------------------------------------- */

/** nic_receive - receive a bounded number of segments. Returns how many. */
uint32_t nic_receive(struct fabemu *fab);
/** nic_receive_resume - handle requests that waited for a queue to be opened. */
void nic_receive_resume(struct fabemu *fab);

/* --- wait.c ------------------------------------------------------------------------- */

#define NIC_SLEEP_NS 10000000u /* longest sleep: bounds the harm of a lost wake-up */
/* Sleep while nobody wakes us, and in fabemu_idle(), whose callers may wait for something else. */
#define NIC_NAP_NS        50000u
#define NIC_NAP_QUESTIONS 8u /* polls before such a sleep */
/* Empty polls before the first such sleep of a wait, if yields reach the fabric: 50 us. */
#define NIC_NAP_PATIENCE 100u
/* A thread with less CPU time than this between polls does nothing but wait. */
#define NIC_NAP_WORK_NS 4000u

/**
 * nic_sleep - sleep until a segment arrives, for at most NIC_SLEEP_NS; NIC_NAP_NS if something must
 * be done soon. The caller has polled before without success. Lock: not held.
 * @seen_tail: tail of the down ring that the caller has seen.
 */
void nic_sleep(struct fabemu *fab, uint32_t seen_tail);

/* --- watch.c, pending.c: the lock is held ------------------------------------------- */

#define NIC_WATCH_NS 1000000000u /* interval of nic_watch() */

/** nic_watch - send a hello to every peer that something here waits for, once per interval. */
void nic_watch(struct fabemu *fab);
/**
 * nic_pending_show - report the oldest pending operations to the fabric (emu/hostif/pending.h). The
 * age of an operation counts from the first sample that found it.
 */
void nic_pending_show(struct fabemu *fab, uint64_t now_ns);

/* --- thread.c ----------------------------------------------------------------------- */

int nic_thread_start(struct nic_thread **ret, struct fabemu *fab);
void nic_thread_stop(struct nic_thread *thread); /* may be NULL */

#endif
