/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.h - now and then: are those still there whom something here waits for?
 *
 * Owner: `watch_ns`, `watch_gap_ns`. Lock: held. Callers: the step, every NIC_WATCH_STEPS.
 */
#ifndef NIC_WATCH_H
#define NIC_WATCH_H

#include "nic/host/base/adapter.h"

#define NIC_WATCH_NS 1000000000u /* between looks whether those we wait for are still there */

/** nic_watch - from time to time say hello to every peer that an operation here waits for. */
void nic_watch(struct fabemu *fab);

#endif
