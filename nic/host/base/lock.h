/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.h - the adapter's lock, and what happens when it is taken and let go.
 *
 * Owner: struct fabemu's lock, edge and time. Lock: these take it, but nic_in_fabric(), which wants
 * it held. Callers: every call of fabemu.h, and whoever steps.
 */
#ifndef NIC_LOCK_H
#define NIC_LOCK_H

#include "nic/host/base/adapter.h"

struct nic_post;

void nic_lock(struct fabemu *fab);
bool nic_trylock(struct fabemu *fab); /* false: another thread has it */
/** nic_unlock - begin what is due, show what was posted, wake sleepers if something completed. */
void nic_unlock(struct fabemu *fab);

/** nic_in_fabric - has the fabric taken all that was to be sent? The lock is held. */
bool nic_in_fabric(struct fabemu *fab);

/**
 * nic_post - the request is pending: begin it, or arm it if its event has not counted so far.
 * Returns what post->begin() returns; that error is the status as well.
 */
int nic_post(struct fabemu *fab, struct nic_post *post);

#endif
