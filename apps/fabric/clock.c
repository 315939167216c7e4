/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - the fabric's clock: where it begins, and how it is rebased (emu/clock.h).
 */
#include "apps/fabric/internal.h"
#include "emu/now.h"

void fabric_clock_start(struct fabric *fabric)
{
    uint64_t start_ps = fabric->config.start_ps;
    uint64_t rebased_ps = start_ps / EMU_REBASE_BY_PS * EMU_REBASE_BY_PS;

    if (start_ps < EMU_REBASE_PS)
        rebased_ps = 0;
    fabric->clock = (struct emu_clock){.mode = fabric->config.clock,
                                       .rebased_ps = rebased_ps,
                                       .origin_ns = emu_now_ns() - (start_ps - rebased_ps) / 1000u};
}

/* Cables are rebased with the devices at their ends, and an edge with its node. */
void fabric_clock_rebase(struct fabric *fabric, uint64_t by_ps)
{
    const struct topo_graph *graph = fabric->config.graph;

    emu_clock_rebase(&fabric->clock, by_ps);
    for (uint32_t w = 0; w < fabric->workers; w++)
        emu_worker_rebase(fabric->worker[w], by_ps);
    for (uint32_t s = 0; s < graph->switches; s++)
        if (fabric->sw[s])
            switch_rebase(fabric->sw[s], by_ps);
    for (uint32_t i = 0; i < fabric->engines.count; i++)
        if (fabric->engines.at[i])
            engine_rebase(fabric->engines.at[i], by_ps);
    for (uint32_t n = 0; n < graph->nodes; n++)
        if (fabric->edge[n])
            emu_edge_rebase(fabric->edge[n], by_ps);
    if (fabric->has_host_links && fabric->config.hosts->ops->rebase)
        fabric->config.hosts->ops->rebase(fabric->config.hosts->ctx, by_ps);
}

uint64_t fabric_now_ps(const struct fabric *fabric)
{
    return fabric->clock.mode == EMU_CLOCK_REAL ? emu_clock_now(&fabric->clock) : 0;
}

/*
 * In nanoseconds, which last for 584 years: while no process is attached there are no ticks, and
 * picoseconds may have wrapped meanwhile.
 */
static bool clock_needs_rebase(const struct fabric *fabric)
{
    return emu_now_ns() - fabric->clock.origin_ns >= EMU_REBASE_PS / 1000u;
}

void fabric_clock_tick(struct fabric *fabric)
{
    if (fabric->clock.mode != EMU_CLOCK_REAL || fabric->config.local_nodes ||
        !clock_needs_rebase(fabric))
        return;
    fabric_hold(fabric);
    while (clock_needs_rebase(fabric))
        fabric_clock_rebase(fabric, EMU_REBASE_BY_PS);
    fabric_go(fabric);
}
