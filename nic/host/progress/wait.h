/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - waiting for what another thread, a peer or the fabric does.
 *
 * Owner: `sleepers`. Lock: none. Callers: calls that wait; the adapter's thread.
 */
#ifndef NIC_WAIT_H
#define NIC_WAIT_H

#include "nic/host/base/adapter.h"

#define NIC_SLEEP_NS 10000000u /* no sleep is longer: bounds the harm of a lost wake */
/* What nobody wakes us for; and in fabemu_idle(), whose callers may wait for something else. */
#define NIC_NAP_NS        50000u
#define NIC_NAP_QUESTIONS 8u /* so often it is asked before a nap; */
/* and so often in vain before the first one of a wait, where yields reach the fabric: 50 us. */
#define NIC_NAP_PATIENCE 100u
/* A thread that has run for less than this per question does nothing but wait. */
#define NIC_NAP_WORK_NS 4000u

/**
 * nic_sleep - until the fabric brings something, or NIC_SLEEP_NS; NIC_NAP_NS where something is to
 * be done soon. The caller has asked in vain before.
 * @seen_tail: of the down ring, as the caller has seen it.
 */
void nic_sleep(struct fabemu *fab, uint32_t seen_tail);

#endif
