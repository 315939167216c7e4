/* SPDX-License-Identifier: BSD-3-Clause */
/* buffer.c - the input's buffer, and the return of credits. */
#include "switch/channel/buffer.h"

/* --- credits ------------------------------------------------------------------------ */

/* Return a credit on a cable with faults. The faults may turn it into none or several. */
static __attribute__((noinline)) void buffer_return_faulty(struct switch_channels *ch,
                                                           struct switch_channel_port *port,
                                                           uint32_t channel, uint64_t at_ps)
{
    uint32_t credits = emu_faults_credit(port->faults, &port->rx, at_ps);

    for (; credits; credits--)
        emu_rx_pay_channel(&port->rx, channel, at_ps + ch->credit_ps);
}

void switch_channel_return_credit(struct switch_channels *ch, uint32_t p, uint32_t channel,
                                  uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[p];

    if (__builtin_expect(port->faults != NULL, 0)) {
        buffer_return_faulty(ch, port, channel % EMU_VCS, at_ps);
    } else if (ch->timing) {
        emu_rx_pay_channel(&port->rx, channel % EMU_VCS, at_ps + ch->credit_ps);
    } else {
        switch_channel_owe(ch, p, channel % EMU_VCS, 1);
    }
}

void switch_channel_flush_credits(struct switch_channels *ch)
{
    emu_ports paid = ch->owing;

    ch->owing = EMU_NO_PORTS;
    emu_each_port (p, paid) {
        struct switch_channel_port *port = &ch->port[p];

        emu_rx_put_credits(&port->rx, port->rx.owed, port->owed_channel, 0);
        port->rx.owed = 0;
        emu_rx_notify(&port->rx, ch->sw.dev.worker);
    }
}

/* --- segments ----------------------------------------------------------------------- */

bool switch_channel_has_slot(const struct switch_channels *ch, uint32_t p, enum emu_fate fate)
{
    return fate == EMU_FATE_DUPLICATED ? ch->uncredited < CHANNEL_UNCREDITED_MAX
                                       : switch_channel_has_room(ch, p);
}

uint32_t switch_channel_append(struct switch_channels *ch, uint32_t v,
                               const struct emu_entry *entry, enum emu_fate fate)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t slot = switch_append(&ch->store, &in->queue, in->queued, entry);

    in->queued++;
    ch->hold[slot] = (struct switch_channel_hold){.left = in->unsettled,
                                                  .no_credit = fate == EMU_FATE_DUPLICATED};
    if (fate == EMU_FATE_DUPLICATED)
        ch->uncredited++;
    else
        ch->port[v / EMU_VCS].held++;
    if (ch->timing) {
        switch_little_until(&ch->timing->little, entry->time_ps);
        ch->timing->little.held++;
    }
    if (in->unsettled > 1)
        emu_pool_share(ch->sw.dev.worker->cache.pool, entry->buf, in->unsettled - 1u);
    return slot;
}

static void buffer_pop(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t p = v / EMU_VCS;
    uint32_t slot = switch_remove(&ch->store, &in->queue);

    in->queued--;
    if (ch->timing) {
        switch_little_until(&ch->timing->little, at_ps);
        switch_little_leave(&ch->timing->little, &ch->store.slot[slot], at_ps);
    }
    if (ch->hold[slot].no_credit) {
        ch->uncredited--;
    } else {
        ch->port[p].held--;
        switch_channel_return_credit(ch, p, v, at_ps);
    }
}

void switch_channel_release(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];

    while (in->queued && !ch->hold[in->queue.first].left)
        buffer_pop(ch, v, at_ps);
}

void switch_channel_forgo(struct switch_channels *ch, uint32_t v, uint32_t slot, uint64_t at_ps)
{
    while (slot != CHANNEL_NONE) {
        emu_pool_drop(&ch->sw.dev.worker->cache, ch->store.slot[slot].buf);
        ch->hold[slot].left--;
        slot = slot == ch->in[v].queue.last ? CHANNEL_NONE : ch->store.next[slot];
    }
    switch_channel_release(ch, v, at_ps);
}

void switch_channel_discard(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    const struct switch_channel_in *in = &ch->in[v];
    uint32_t slot = in->queue.first;

    for (uint32_t left = in->queued; left; left--) {
        for (; ch->hold[slot].left; ch->hold[slot].left--)
            emu_pool_drop(&ch->sw.dev.worker->cache, ch->store.slot[slot].buf);
        slot = ch->store.next[slot];
    }
    switch_channel_release(ch, v, at_ps);
}
