/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life.h - an adapter begins on an edge, and ends.
 *
 * Owner: struct fabemu as a whole. Lock: none; nobody else knows the adapter yet, or any more.
 * Callers: attach.c, and tests.
 */
#ifndef NIC_LIFE_H
#define NIC_LIFE_H

#include "nic/host/base/adapter.h"

/**
 * nic_open - an adapter on an edge; without control socket and thread.
 * @fds: the bell passes to the adapter on success.
 * Errors: -EPROTO, -ENOMEM.
 */
int nic_open(struct fabemu **ret, const struct emu_hostif_fds *fds, const struct fabemu_info *info);
void nic_close(struct fabemu *fab);

#endif
