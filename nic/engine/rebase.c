/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rebase.c - an engine when the clock is rebased: all the times that it keeps (emu/clock.h).
 *
 * On clock raw an engine has a time of its own, which counts for time-outs alone; it turns that
 * back itself.
 */
#include "nic/engine/timed.h"

static void rebase(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_rebased_ps(*at_ps, by_ps);
}

void engine_rebase_timers(struct engine *e, uint64_t by_ps)
{
    rebase(&e->now_ps, by_ps);
    for (uint32_t i = 0; i < e->send.packets; i++) {
        rebase(&e->send.packet[i].due_ps, by_ps);
        rebase(&e->send.packet[i].active_ps, by_ps);
    }
    for (uint32_t i = 0; i < e->links * EMU_VCS; i++) {
        rebase(&e->receive.incoming[i].due_ps, by_ps);
        rebase(&e->receive.incoming[i].active_ps, by_ps);
    }
    emu_each_bit (doublings, e->asks.any)
        for (struct engine_queued *at = e->asks.rest[doublings].first; at; at = at->next)
            rebase(&engine_ask_of(at)->due_ps, by_ps);
}

void engine_rebase(struct engine *e, uint64_t by_ps)
{
    struct engine_timed *t = engine_timed_of(e);

    engine_rebase_timers(e, by_ps);
    rebase(&t->handed_ps, by_ps);
    rebase(&e->host.in_ps, by_ps);
    rebase(&t->out_ps, by_ps);
    rebase(&e->tree.results_ps, by_ps);
    rebase(&e->tree.combine_ps, by_ps);
    for (struct engine_queued *at = e->tree.results.first; at; at = at->next)
        rebase(&engine_coll_of(at)->due_ps, by_ps);
    emu_tx_rebase(&e->host.out, by_ps);
    emu_rx_rebase(&e->host.in, by_ps);
    for (uint32_t i = 0; i < e->links; i++) {
        struct engine_link *l = &e->link[i];

        rebase(&l->tx_ps, by_ps);
        emu_tx_rebase(&l->tx, by_ps);
        emu_rx_rebase(&l->rx, by_ps);
        if (l->faults)
            emu_faults_rebase(l->faults, by_ps);
    }
}
