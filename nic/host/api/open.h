/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - create and free an adapter; disconnect it from its peers.
 *
 * Lock: nic_leave() takes it; nic_leave_begin() and nic_leave_step() need it. Nobody else knows the
 * adapter yet in nic_open(), or still uses it in nic_close().
 */
#ifndef NIC_OPEN_H
#define NIC_OPEN_H

#include "nic/host/base/adapter.h"

/**
 * nic_open - create an adapter on a host interface, without control socket and thread.
 * @fds: on success the adapter owns the bell.
 * Errors: -EPROTO, -ENOMEM.
 */
int nic_open(struct fabemu **ret, const struct emu_hostif_fds *fds, const struct fabemu_info *info);
void nic_close(struct fabemu *fab);

/**
 * nic_leave - wait until the peers have received everything whose operation has completed here.
 * @limit_ns: wait at most this long. Returns the number of peers that may lack data of ours, or
 * whose last data has not arrived; reports them on stderr.
 */
uint32_t nic_leave(struct fabemu *fab, uint64_t limit_ns);
/** nic_leave_begin - start to disconnect: no new operations from here on. */
void nic_leave_begin(struct fabemu *fab);
/** nic_leave_step - query the peers that have not answered. Returns true when all are done. */
bool nic_leave_step(struct fabemu *fab);

#endif
