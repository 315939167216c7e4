/* SPDX-License-Identifier: BSD-3-Clause */
/* break.h - a group breaks: how the members that only wait are notified. Lock: held. */
#ifndef NIC_BREAK_H
#define NIC_BREAK_H

#include "nic/host/base/adapter.h"

/**
 * nic_group_broken - another member reports that the group is broken: one of the segments of @node
 * was dropped for good.
 */
void nic_group_broken(struct fabemu *fab, uint32_t id, uint32_t node);

/* Why the fabric says that groups are broken; FABEMU_ANY_NODE or "" if it does not say. */
struct nic_group_end {
    uint32_t dead;        /* node of the member that died */
    uint32_t by;          /* node of the member that has left or broken them */
    uint32_t partitioned; /* node of a member that cannot be reached any more */
    const char *why;      /* one line */
};

/**
 * nic_group_over - the fabric reports that group @id is broken. A process that has not joined it
 * can no longer join.
 */
void nic_group_over(struct fabemu *fab, uint32_t id, const struct nic_group_end *end);
/** nic_group_given_up - the network dropped @seg, a segment of ours to a group, for good. */
void nic_group_given_up(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_news_delivered - all members have received our alarm or probe @seg. */
void nic_group_news_delivered(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_news - another member's alarm or probe arrived. */
void nic_group_news(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_group_watch - called about once a second: repeat alarms that did not reach all members;
 * probe.
 */
void nic_group_watch(struct fabemu *fab);

#endif
