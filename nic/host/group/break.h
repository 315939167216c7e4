/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * break.h - break a group after one of its segments was dropped or a member has ended, and notify
 * the members. An *alarm* is a multicast by which a member notifies the others of the break. A
 * *probe* is a multicast by which a waiting member checks that all others can be reached. Lock:
 * held.
 */
#ifndef NIC_BREAK_H
#define NIC_BREAK_H

#include "nic/host/base/adapter.h"

/**
 * nic_group_broken - break the group, because its member at @node reports that one of its segments
 * was dropped for good.
 */
void nic_group_broken(struct fabemu *fab, uint32_t id, uint32_t node);

/* The reason that the fabric reports for a break. FABEMU_ANY_NODE, "": not reported. */
struct nic_group_end {
    uint32_t dead;        /* node of the member that died */
    uint32_t by;          /* node of the member that has left or broken the group */
    uint32_t partitioned; /* node of a member that cannot be reached any more */
    const char *why;      /* one line */
};

/**
 * nic_group_over - handle the fabric's report that group @id is broken. A process that has not
 * joined the group can no longer join.
 */
void nic_group_over(struct fabemu *fab, uint32_t id, const struct nic_group_end *end);
/** nic_group_given_up - handle the report that the network dropped our segment @seg for good. */
void nic_group_given_up(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_alarm_delivered - handle the report that all members have our alarm or probe @seg. */
void nic_group_alarm_delivered(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_receive_alarm - handle another member's alarm or probe. */
void nic_group_receive_alarm(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_watch - once a second: repeat alarms that were dropped, and send probes. */
void nic_group_watch(struct fabemu *fab);

#endif
