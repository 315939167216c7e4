/* SPDX-License-Identifier: BSD-3-Clause */
/* policy.c - the table of adaptive routing policies; route_choose() for policies with a metric. */
#include "switch/policy/policy.h"

#include "emu/util/ports.h"

#define ROUTE_ENTRY(upper, lower) [EMU_CHOICE_##upper] = &route_##lower,
const struct route_policy *const route_policies[EMU_CHOICES_COUNT] = {EMU_CHOICES(ROUTE_ENTRY)};
#undef ROUTE_ENTRY

/* Return an output's load by the policy's metric. A link that is down has the highest load. */
static uint32_t policy_load(const void *of, uint32_t o)
{
    const struct switch_dev *sw = of;
    bool down = sw->kind->queued(sw, o) & SWITCH_OUT_DOWN;

    return down ? UINT32_MAX : sw->policy->metric(sw, o);
}

uint32_t route_choose_else(struct switch_dev *sw, emu_ports candidates, emu_ports light)
{
    const struct route_policy *policy = sw->policy;
    emu_ports best = light;

    if (policy->metric != switch_queued)
        best = emu_least(candidates, policy_load, sw);
    else if (!emu_ports_any(light))
        best = sw->kind->shortest(sw, candidates);
    return policy->pick(&sw->choice, best);
}
