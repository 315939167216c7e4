/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_free.c - choose the next lightly loaded output (policy.h) in round-robin order.
 *
 * If each node sends to one other node, round robin removes nearly all contention
 * (docs/figures/plots.md, A2 and A3).
 */
#include "switch/policy/policy.h"

const struct route_policy route_next_free = {
    .name = "next_free",
    .metric = switch_queued,
    .pick = route_pick_next,
    .source = "QsNet III, section III",
};
