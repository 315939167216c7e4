/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * break.h - a group breaks: who tells the others, and how those who only wait hear of it.
 *
 * Owner: a group's `broken`, alarm and probe. Lock: held. Callers: receive.c, the watch, the
 * control socket's watcher.
 */
#ifndef NIC_BREAK_H
#define NIC_BREAK_H

#include "nic/host/base/adapter.h"

/** nic_group_broken - the group's segments say that it is broken: one of @node's was given up. */
void nic_group_broken(struct fabemu *fab, uint32_t id, uint32_t node);

/* What the fabric says of groups that are broken; FABEMU_ANY_NODE, "": that it does not say. */
struct nic_group_end {
    uint32_t dead;   /* node of the member that died */
    uint32_t by;     /* node of the member that has left them, or has broken them off */
    uint32_t parted; /* node of a member that no way leads to any more */
    const char *why; /* one line */
};

/**
 * nic_group_over - the fabric says that group @id is broken: a process that has not joined it
 * can no longer do so.
 */
void nic_group_over(struct fabemu *fab, uint32_t id, const struct nic_group_end *end);
/** nic_group_given_up - the network gave @seg up, a segment of ours to a group. */
void nic_group_given_up(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_group_news_delivered - all have heard that the group is broken; or that somebody asks whether
 * they hear.
 */
void nic_group_news_delivered(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_news - another member says that the group is broken, or asks whether all hear. */
void nic_group_news(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_group_watch - now and then: tell the members again of breaks that not all could be told of;
 * probe.
 */
void nic_group_watch(struct fabemu *fab);

#endif
