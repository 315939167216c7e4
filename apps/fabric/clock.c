/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - the fabric's clock: where it begins, and how it is turned back (emu/clock.h).
 */
#include "apps/fabric/internal.h"
#include "emu/now.h"

void fabric_clock_start(struct fabric *fabric)
{
    uint64_t start_ps = fabric->config.start_ps;
    uint64_t turned_ps = start_ps / EMU_TURN_BY_PS * EMU_TURN_BY_PS;

    if (start_ps < EMU_TURN_PS)
        turned_ps = 0;
    fabric->clock = (struct emu_clock){
        .mode = fabric->config.clock, .turned_ps = turned_ps,
        .origin_ns = emu_now_ns() - (start_ps - turned_ps) / 1000u};
}

/* Cables are turned back with the devices at their ends, and an edge with its node. */
void fabric_clock_turn_back(struct fabric *fabric, uint64_t by_ps)
{
    const struct topo_graph *graph = fabric->config.graph;

    emu_clock_turn_back(&fabric->clock, by_ps);
    for (uint32_t w = 0; w < fabric->workers; w++)
        emu_worker_turn_back(fabric->worker[w], by_ps);
    for (uint32_t s = 0; s < graph->switches; s++) {
        switch_turn_back(fabric->sw[s], by_ps);
        if (fabric->unit)
            engine_turn_back(fabric->unit[s], by_ps);
    }
    for (uint32_t n = 0; n < graph->nodes; n++) {
        if (fabric->engine[n])
            engine_turn_back(fabric->engine[n], by_ps);
        if (fabric->edge[n])
            emu_edge_turn_back(fabric->edge[n], by_ps);
    }
}

/* In nanoseconds, which last for 584 years: while no process is attached there are no ticks, and
 * picoseconds may have wrapped meanwhile. */
static bool clock_is_to_turn(const struct fabric *fabric)
{
    return emu_now_ns() - fabric->clock.origin_ns >= EMU_TURN_PS / 1000u;
}

void fabric_clock_tick(struct fabric *fabric)
{
    if (fabric->clock.mode != EMU_CLOCK_REAL || fabric->config.local_nodes || !clock_is_to_turn(fabric))
        return;
    for (uint32_t w = 0; w < fabric->workers; w++)
        emu_thread_hold(fabric->thread[w]);
    while (clock_is_to_turn(fabric))
        fabric_clock_turn_back(fabric, EMU_TURN_BY_PS);
    for (uint32_t w = 0; w < fabric->workers; w++)
        emu_thread_go(fabric->thread[w]);
}
