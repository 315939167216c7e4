/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.h - the adapter's thread: steps it when no thread of the application does.
 *
 * Owner: struct nic_thread, under a lock of its own. Lock: none held. Callers: attach.c, and tests.
 */
#ifndef NIC_THREAD_H
#define NIC_THREAD_H

#include "nic/host/base/adapter.h"

int nic_thread_start(struct nic_thread **ret, struct fabemu *fab);
void nic_thread_stop(struct nic_thread *thread); /* NULL: there is none */

#endif
