/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turn.c - a switch when the clock is turned back: all the times that it keeps (emu/clock.h).
 */
#include "switch/channel/channel.h"

#include "switch/events.h"

static void turn(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_turned_ps(*at_ps, by_ps);
}

static void turn_slots(struct switch_dev *sw, uint64_t by_ps)
{
    for (uint32_t i = 0; i < sw->fresh; i++)
        sw->slot[i].time_ps = emu_turned_ps(sw->slot[i].time_ps, by_ps);
}

/* Results that wait for room say since when. */
static void turn_groups(struct switch_dev *sw, uint64_t by_ps)
{
    const struct emu_table *table = atomic_load_explicit(&sw->groups, memory_order_relaxed);

    for (uint32_t g = 0; table && g < table->count; g++) {
        struct switch_group *group = atomic_load_explicit(&table->at[g], memory_order_relaxed);

        for (uint32_t i = 0; group && group->units && i < group->window; i++)
            for (uint32_t u = 0; u < group->units; u++)
                turn(&switch_group_part(group, i, u)->done_ps, by_ps);
    }
}

/* Time slots go on to be multiples of their length: at the turn one may be longer than the others. */
static void turn_inputs(struct switch_dev *sw, uint64_t by_ps)
{
    uint64_t by_slots = sw->slots.length_ps ? by_ps / sw->slots.length_ps : 0;

    turn(&sw->slots.next_ps, by_ps);
    turn(&sw->slots.from_ps, by_ps);
    for (uint32_t p = 0; sw->input && p < sw->ports; p++)
        sw->input[p].head_slot = emu_turned_ps(sw->input[p].head_slot, by_slots);
}

static void turn_channels(struct switch_channels *ch, uint64_t by_ps)
{
    turn(&ch->sweep_ps, by_ps);
    for (uint32_t p = 0; p < ch->sw.ports; p++) {
        struct switch_channel_port *port = &ch->port[p];

        emu_tx_turn_back(&port->tx, by_ps);
        emu_rx_turn_back(&port->rx, by_ps);
        if (port->faults)
            emu_faults_turn_back(port->faults, by_ps);
        turn(&port->stalled_ps, by_ps);
        turn(&ch->busy_ps[p], by_ps);
        turn(&ch->due_ps[p], by_ps);
        for (uint32_t c = 0; c < EMU_CHANNELS; c++)
            turn(&port->reply_ps[c], by_ps);
    }
}

void switch_turn_back(struct switch_dev *sw, uint64_t by_ps)
{
    emu_order_turn_back(&sw->acts, by_ps);
    turn(&sw->little.last_ps, by_ps);
    turn_slots(sw, by_ps);
    if (sw->acknowledged) {
        turn_channels(switch_channels_of(sw), by_ps);
        return;
    }
    turn_groups(sw, by_ps);
    turn_inputs(sw, by_ps);
    for (uint32_t u = 0; u < sw->units; u++)
        turn(&sw->unit[u].free_ps, by_ps);
    for (uint32_t p = 0; p < sw->ports; p++) {
        emu_tx_turn_back(&sw->out[p].tx, by_ps);
        emu_rx_turn_back(&sw->row[p].rx, by_ps);
    }
}
