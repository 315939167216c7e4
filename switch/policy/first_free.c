/* SPDX-License-Identifier: BSD-3-Clause */
/* first_free.c - choose the lightly loaded output (policy.h) with the lowest number. */
#include "switch/policy/policy.h"

static uint32_t first_free_pick(struct route_state *state, emu_ports best)
{
    (void)state;
    return emu_ports_first(best);
}

const struct route_policy route_first_free = {
    .name = "first_free",
    .metric = switch_queued,
    .pick = first_free_pick,
    .source = "QsNet III, section III",
};
