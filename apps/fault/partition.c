/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * partition.c - find the cables that join some nodes with all others.
 *
 * A switch belongs to these nodes if all nodes below it are among them. The cables that join the
 * two parts are those up from such a switch to another switch, and the links of a node whose switch
 * does not belong to these nodes (such a node is cut off alone).
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fault/internal.h"

static bool switch_owned(const struct topo_graph *graph, uint32_t sw, const bool *mine)
{
    bool any = false;

    for (uint32_t n = 0; n < graph->nodes; n++) {
        if (!topo_below(graph, sw, n))
            continue;
        if (!mine[n])
            return false;
        any = true;
    }
    return any;
}

/* Does the cable at a port of switch @sw join the two parts? True for only one end of a cable. */
static bool joins(const struct topo_graph *graph, uint32_t sw, const struct topo_end *end,
                  const bool *mine, const bool *owned)
{
    if (end->kind == TOPO_END_NODE)
        return mine[end->id] && !owned[sw];
    return end->kind == TOPO_END_SWITCH && owned[sw] && !owned[end->id] &&
           graph->sw[end->id].level > graph->sw[sw].level;
}

static int cables_find(struct fault_targets *ret, const struct topo_graph *graph, const bool *mine,
                       const bool *owned)
{
    uint32_t count = 0;

    ret->target = calloc((size_t)graph->switches * graph->ports, sizeof *ret->target);
    if (!ret->target)
        return -ENOMEM;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++)
            if (joins(graph, s, &graph->sw[s].end[p], mine, owned))
                ret->target[count++] = (struct fault_target){s, p, FAULT_BOTH};
    ret->count = ret->among = count;
    return 0;
}

static int partition_find(struct fault_targets *ret, const struct fault_targets *nodes,
                          const struct topo_graph *graph)
{
    bool *mine = calloc(graph->nodes, sizeof *mine);
    bool *owned = calloc(graph->switches, sizeof *owned);
    int err = mine && owned ? 0 : -ENOMEM;

    for (uint32_t i = 0; !err && i < nodes->count; i++)
        mine[nodes->target[i].id] = true;
    for (uint32_t s = 0; !err && s < graph->switches; s++)
        owned[s] = switch_owned(graph, s, mine);
    if (!err)
        err = cables_find(ret, graph, mine, owned);
    free(owned);
    free(mine);
    return err;
}

int fault_affected_find(struct fault_targets *ret, const struct fault *fault,
                        const struct topo_graph *graph, uint64_t seed, char *error,
                        size_t error_bytes)
{
    struct fault_targets nodes = {.count = 0};
    int err;

    if (fault->kind != FAULT_PARTITION)
        return fault_targets_find(ret, fault, graph, seed, error, error_bytes);
    err = fault_targets_find(&nodes, fault, graph, seed, error, error_bytes);
    if (!err)
        err = partition_find(ret, &nodes, graph);
    fault_targets_release(&nodes);
    return err;
}
