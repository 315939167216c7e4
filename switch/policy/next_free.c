/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * next_free.c - the next lightly loaded output in round-robin order.
 *
 * Round robin undoes nearly all contention of a permutation (docs/figures.md, A2 and A3).
 */
#include "switch/policy/policy.h"

static uint32_t next_free_pick(struct route_state *state, emu_ports best)
{
    state->last = emu_ports_next(best, state->last);
    return state->last;
}

const struct route_policy route_next_free = {
    .name = "next_free",
    .metric = switch_queued,
    .pick = next_free_pick,
    .source = "QsNet III, section III",
};
