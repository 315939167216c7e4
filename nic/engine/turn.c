/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turn.c - an engine when the clock is turned back: all the times that it keeps (emu/clock.h).
 *
 * On clock raw an engine has a time of its own, which counts for time-outs alone; it turns that back
 * itself.
 */
#include "nic/engine/timed.h"

static void turn(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_turned_ps(*at_ps, by_ps);
}

void engine_turn_timers(struct engine *e, uint64_t by_ps)
{
    turn(&e->now_ps, by_ps);
    for (uint32_t i = 0; i < e->send.packets; i++) {
        turn(&e->send.packet[i].due_ps, by_ps);
        turn(&e->send.packet[i].active_ps, by_ps);
    }
    for (uint32_t i = 0; i < e->links * EMU_CHANNELS; i++) {
        turn(&e->receive.incoming[i].due_ps, by_ps);
        turn(&e->receive.incoming[i].active_ps, by_ps);
    }
    emu_each_bit (doublings, e->asks.any)
        for (struct engine_queued *at = e->asks.rest[doublings].first; at; at = at->next)
            turn(&engine_ask_of(at)->due_ps, by_ps);
}

void engine_turn_back(struct engine *e, uint64_t by_ps)
{
    struct engine_timed *t = engine_timed_of(e);

    engine_turn_timers(e, by_ps);
    turn(&t->handed_ps, by_ps);
    turn(&e->host.in_ps, by_ps);
    turn(&t->out_ps, by_ps);
    turn(&e->tree.results_ps, by_ps);
    turn(&e->tree.combine_ps, by_ps);
    for (struct engine_queued *at = e->tree.results.first; at; at = at->next)
        turn(&engine_coll_of(at)->due_ps, by_ps);
    emu_tx_turn_back(&e->host.out, by_ps);
    emu_rx_turn_back(&e->host.in, by_ps);
    for (uint32_t i = 0; i < e->links; i++) {
        struct engine_link *l = &e->link[i];

        turn(&l->tx_ps, by_ps);
        emu_tx_turn_back(&l->tx, by_ps);
        emu_rx_turn_back(&l->rx, by_ps);
        if (l->faults)
            emu_faults_turn_back(l->faults, by_ps);
    }
}
