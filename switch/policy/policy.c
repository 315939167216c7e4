/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy.c - the table of adaptive routing policies, and the candidates that a metric prefers.
 */
#include "switch/policy/policy.h"

#include "emu/util/least.h"

#define ROUTE_ENTRY(upper, lower) [EMU_CHOICE_##upper] = &route_##lower,
const struct route_policy *const route_policies[EMU_CHOICES_COUNT] = {EMU_CHOICES(ROUTE_ENTRY)};
#undef ROUTE_ENTRY

/* By a metric of the policy's own. An output whose link is down comes after all others. */
static uint32_t policy_load(const void *of, uint32_t o)
{
    const struct switch_dev *sw = of;
    bool down = sw->kind->queued(sw, o) & SWITCH_OUT_DOWN;

    return down ? UINT32_MAX : sw->policy->metric(sw, o);
}

emu_ports route_least(const struct switch_dev *sw, emu_ports candidates)
{
    if (sw->policy->metric == switch_queued)
        return sw->kind->shortest(sw, candidates);
    return emu_least(candidates, policy_load, sw);
}
