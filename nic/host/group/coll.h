/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - posting collectives.
 *
 * Owner: nothing of its own; a collective lies in its request. Lock: none held. Callers: calls on
 * groups.
 */
#ifndef NIC_COLL_H
#define NIC_COLL_H

#include "nic/host/group/group.h"

/** nic_coll_post - @init has what, from where and to where; the rest is found here. */
int nic_coll_post(struct fabemu_group *g, struct fabemu_req *req, const struct nic_coll *init);

#endif
