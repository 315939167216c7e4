/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - create and free an adapter; disconnect it from its peers.
 *
 * Lock: nic_leave() takes it; nic_leave_begin() and nic_leave_step() need it. nic_open() and
 * nic_close() need no lock, because no other thread uses the adapter then.
 */
#ifndef NIC_OPEN_H
#define NIC_OPEN_H

#include "nic/host/base/adapter.h"

/**
 * nic_check_environment - check the numbers in the environment that nic_open() reads. For an
 * invalid number, nic_open() uses the default. Errors: -EINVAL and a text for fabemu_error().
 */
int nic_check_environment(void);

/**
 * nic_open - create an adapter on a host interface, without control socket and thread.
 * @fds: on success the adapter owns the eventfd fds->bell.
 * Errors: -EPROTO, -ENOMEM.
 */
int nic_open(struct fabemu **ret, const struct emu_hostif_fds *fds, const struct fabemu_info *info);
void nic_close(struct fabemu *fab);

/**
 * nic_leave - wait until the peers have received all data of this process's completed operations,
 * and until the peers' data has arrived here.
 * @limit_ns: longest time to wait. Returns the number of peers that may lack some of our data, or
 * some of whose data has not arrived here. Reports these peers on stderr.
 */
uint32_t nic_leave(struct fabemu *fab, uint64_t limit_ns);
/** nic_leave_begin - start to disconnect, and accept no more operations. */
void nic_leave_begin(struct fabemu *fab);
/** nic_leave_step - query the peers that have not answered. Returns whether the wait is over. */
bool nic_leave_step(struct fabemu *fab);

#endif
