/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.h - take and release the adapter's lock; post operations. In comments of this library,
 * "Lock: held" means that the caller holds this lock.
 */
#ifndef NIC_LOCK_H
#define NIC_LOCK_H

#include "nic/host/base/adapter.h"

struct emu_call;
struct nic_post;

void nic_lock(struct fabemu *fab);
bool nic_trylock(struct fabemu *fab); /* false: another thread holds it */
/**
 * nic_unlock - start the armed operations that are due, publish the segments that were posted for
 * the fabric, release the lock, and wake sleeping threads if a request has completed.
 */
void nic_unlock(struct fabemu *fab);

/**
 * nic_in_fabric - return whether the fabric has taken all segments that this adapter has to send.
 * Lock: held.
 */
bool nic_in_fabric(struct fabemu *fab);

/**
 * nic_post - make the request of @post pending, and start its operation with post->begin() or arm
 * it.
 *
 * If the request names no event (req->after), the operation starts now. If post->begin() fails, its
 * error is returned and becomes the request's status, and the callback done() is not called. If the
 * request names an event, the operation is armed and 0 is returned. It starts when the event
 * reaches the threshold, or at once if the event has already reached it. An error of post->begin()
 * then completes the request. Takes the lock. @call: describes the operation for
 * nic_call_begin().
 */
int nic_post(struct fabemu *fab, struct nic_post *post, const struct emu_call *call);

#endif
