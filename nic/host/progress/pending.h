/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending.h - tells the fabric what this process has pending (emu/hostif/pending.h).
 *
 * Owner: `pending`, except its clash (stream.c) and its call (coll.c). Lock: held. Callers: the
 * watch.
 */
#ifndef NIC_PENDING_H
#define NIC_PENDING_H

#include "nic/host/base/adapter.h"

/**
 * nic_pending_show - look through the operations under way and show the oldest. An operation's age
 * counts from the first look that found it, so what comes and goes between two looks has none.
 */
void nic_pending_show(struct fabemu *fab, uint64_t now_ns);

#endif
