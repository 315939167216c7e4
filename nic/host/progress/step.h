/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step.h - one bounded pass of the adapter: receive, look after peers, send.
 *
 * Owner: `steps`, `watched`, `seen_tail`, `polls`. Lock: nic_step() wants it held, the others take
 * it if it is free. Callers: who waits, the adapter's thread, the watcher of the control socket.
 */
#ifndef NIC_STEP_H
#define NIC_STEP_H

#include "nic/host/base/adapter.h"

/** nic_step - one bounded pass: receive, send, show. Returns segments moved. The lock is held. */
uint32_t nic_step(struct fabemu *fab);
/** nic_poll - nic_step() unless another thread is at it. */
uint32_t nic_poll(struct fabemu *fab);
/**
 * nic_poll_app - the same for an application's thread: counts the poll. Would a step do nothing, it
 * does nothing, and takes no lock.
 */
uint32_t nic_poll_app(struct fabemu *fab);

#endif
