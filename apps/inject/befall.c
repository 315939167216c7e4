/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * befall.c - does a fault hit what it is aimed at? Without acknowledgments a node's cable leads to its
 * process, and nothing goes wrong on it.
 */
#include "apps/inject/internal.h"

/* Can all cables of the switch lose their signal? */
static bool switch_can_crash(const struct injector *in, uint32_t sw)
{
    for (uint32_t p = 0; p < in->graph->ports; p++) {
        uint32_t cable = fabric_cable_at(in->fabric, sw, p);

        if (cable != TOPO_NONE && !fabric_can_fail(in->fabric, cable))
            return false;
    }
    return true;
}

static bool any_cable_can_fail(const struct injector *in, const struct fault_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct fault_target *at = &targets->target[i];

        if (fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
            return true;
    }
    return false;
}

bool inject_befalls(const struct injector *in, enum fault_kind kind,
                    const struct fault_targets *targets)
{
    if (fault_domain(kind) == FAULT_OF_LINKS)
        return any_cable_can_fail(in, targets);
    for (uint32_t i = 0; kind == FAULT_SWITCH_CRASH && i < targets->count; i++)
        if (!switch_can_crash(in, targets->target[i].id))
            return false;
    return true;
}
