/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.h - take and release the adapter's lock; post operations */
#ifndef NIC_LOCK_H
#define NIC_LOCK_H

#include "nic/host/base/adapter.h"

struct nic_post;

void nic_lock(struct fabemu *fab);
bool nic_trylock(struct fabemu *fab); /* false: another thread holds it */
/**
 * nic_unlock - start operations that are due, publish posted segments, wake sleepers if a request
 * completed.
 */
void nic_unlock(struct fabemu *fab);

/** nic_in_fabric - has the fabric taken everything that was to be sent? The lock is held. */
bool nic_in_fabric(struct fabemu *fab);

/**
 * nic_post - make the request pending, and start it, or arm it if its event has not reached the
 * threshold. Returns the result of post->begin(); an error is also the request's status. Takes the
 * lock.
 */
int nic_post(struct fabemu *fab, struct nic_post *post);

#endif
