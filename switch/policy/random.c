/* SPDX-License-Identifier: BSD-3-Clause */
/* random.c - choose a lightly loaded output (policy.h) at random, all with equal probability. */
#include "emu/util/random.h"
#include "switch/policy/policy.h"

static uint32_t random_pick(struct route_state *state, emu_ports best)
{
    return emu_ports_nth(best, (uint32_t)(emu_xorshift(&state->random) % emu_ports_count(best)));
}

const struct route_policy route_random = {
    .name = "random",
    .metric = switch_queued,
    .pick = random_pick,
    .source = "QsNet III, section III",
};
