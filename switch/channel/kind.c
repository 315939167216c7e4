/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.c - the switch with channels as a kind of switch: creates, frees and rebases it. */
#include "switch/channel/stages.h"

#include <stdlib.h>

#include "emu/packet/crc.h"
#include "emu/util/alloc.h"
#include "emu/util/ports.h"

static bool channels_fit(const struct emu_profile *profile)
{
    return emu_profile_acknowledged(profile);
}

static uint32_t channels_segments(uint32_t ports, const struct emu_profile *profile)
{
    return ports * (profile->channels + profile->pool_slots) + CHANNEL_UNCREDITED_MAX;
}

static size_t channels_bytes(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t slots = channels_segments(ports, profile);

    return sizeof(struct switch_channels_timed) +
           ports *
               (sizeof(struct switch_channel_port) + 3 * sizeof(uint64_t) +
                EMU_VCS * (sizeof(struct switch_channel_in) + sizeof(struct switch_channel_out)) +
                ports * sizeof(struct switch_channel_pair) + emu_link_bytes(emu_vc_ring(profile))) +
           switch_agenda_bytes(ports) + switch_store_bytes(slots) +
           slots * sizeof(struct switch_channel_hold);
}

/*
 * The ring of a cable has one slot per buffer slot of the receiver, and two per channel for replies
 * (emu_vc_slots()). On clock raw the remote end may give up further packets on a channel before it
 * takes the replies to them out of the ring, so this end checks emu_tx_has_slot() before it sends.
 */
static_assert(3 * EMU_VCS + EMU_POOL_SLOTS_MAX < EMU_VC_SLOTS_MAX, "emu_vc_ring()");

static bool channels_sane(uint32_t ports, const struct emu_profile *profile)
{
    (void)ports;
    return profile->channels && profile->channels <= EMU_VCS &&
           profile->pool_slots <= EMU_POOL_SLOTS_MAX;
}

static bool timing_init(struct switch_channel_timing *timing, uint32_t ports)
{
    timing->sweep_ps = EMU_NEVER;
    timing->busy_ps = emu_zeros(ports * sizeof *timing->busy_ps);
    timing->due_ps = emu_zeros(ports * sizeof *timing->due_ps);
    timing->stalled_ps = emu_zeros(ports * sizeof *timing->stalled_ps);
    return switch_agenda_init(&timing->agenda, ports) && timing->busy_ps && timing->due_ps &&
           timing->stalled_ps;
}

static void timing_free(struct switch_channel_timing *timing)
{
    emu_sparse_free(timing->agenda.acts.event);
    free(timing->stalled_ps);
    free(timing->due_ps);
    free(timing->busy_ps);
}

static bool channels_alloc(struct switch_channels *ch)
{
    uint32_t ports = ch->sw.ports;
    uint32_t slots = channels_segments(ports, ch->sw.profile);

    ch->port = emu_zeros(ports * sizeof *ch->port);
    ch->in = emu_zeros(ports * EMU_VCS * sizeof *ch->in);
    ch->out = emu_zeros(ports * EMU_VCS * sizeof *ch->out);
    ch->pair = emu_zeros(ports * ports * sizeof *ch->pair);
    ch->hold = calloc(slots, sizeof *ch->hold);
    return switch_store_init(&ch->store, slots) && ch->port && ch->in && ch->out && ch->pair &&
           ch->hold;
}

static void channels_begin(struct switch_channels *ch)
{
    const struct emu_profile *profile = ch->sw.profile;

    ch->channels = profile->channels;
    ch->units.first = ch->units.own = UINT32_MAX;
    ch->light_pending = profile->light_pending;
    ch->light = emu_ports_below(ch->sw.ports);
    for (uint32_t priority = 0; priority < CHANNEL_OPENABLES; priority++) {
        ch->openable[priority] = ch->light;
        ch->most_open[priority] = ch->channels - emu_vcs_kept(ch->channels, priority);
    }
    ch->tick_ps = (profile->reply_timeout_ps + CHANNEL_TICKS - 1) / CHANNEL_TICKS;
    for (uint32_t p = 0; p < ch->sw.ports; p++)
        emu_vcs_init(&ch->port[p].vcs, profile->channels, profile->pool_slots, ch->sw.dev.timed);
    for (uint32_t bits = 0; bits < EMU_VCS; bits++) { /* a CRC is linear over XOR */
        ch->head_crc[bits] = emu_crc16(bits, 6) ^ emu_crc16(0, 6);
        ch->cont_crc[bits] = emu_crc16(bits, 2) ^ emu_crc16(0, 2);
    }
    for (uint32_t i = 0; i < EMU_INDEXES; i++)
        ch->cont_index[i] = emu_cont_other(i << EMU_CONT_INDEX);
    ch->cont_last = emu_cont_other(EMU_CONT_LAST);
}

/* --- the kind ----------------------------------------------------------------------- */

static void channels_destroy(struct switch_dev *sw)
{
    struct switch_channels *ch = switch_channels_of(sw);

    for (uint32_t p = 0; ch->port && p < sw->ports; p++)
        emu_link_unjoin(&ch->port[p].tx);
    if (sw->dev.timed)
        timing_free(switch_channels_timing(ch));
    switch_store_free(&ch->store);
    free(ch->hold);
    free(ch->pair);
    free(ch->out);
    free(ch->in);
    free(ch->port);
}

static bool channels_init(struct switch_dev *sw)
{
    struct switch_channels *ch = switch_channels_of(sw);

    if (!channels_alloc(ch))
        return false;
    channels_begin(ch);
    if (!sw->dev.timed)
        return true;
    ch->timing = switch_channels_timing(ch);
    ch->credit_ps = sw->profile->credit_ps;
    return timing_init(ch->timing, sw->ports);
}

static struct emu_tx *channels_tx(struct switch_dev *sw, uint32_t port)
{
    return &switch_channels_of(sw)->port[port].tx;
}

static struct emu_rx *channels_rx(struct switch_dev *sw, uint32_t port)
{
    return &switch_channels_of(sw)->port[port].rx;
}

static uint32_t channels_queued(const struct switch_dev *sw, uint32_t port)
{
    const struct switch_channels *ch = (const struct switch_channels *)sw;

    return __atomic_load_n(&ch->port[port].pending, __ATOMIC_RELAXED);
}

static uint32_t channels_load(const void *of, uint32_t o)
{
    return ((const struct switch_channel_port *)of)[o].pending;
}

static emu_ports channels_shortest(const struct switch_dev *sw, emu_ports outs)
{
    return emu_least(outs, channels_load, ((const struct switch_channels *)sw)->port);
}

static int channels_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults)
{
    switch_channels_of(sw)->port[port].faults = faults;
    if (faults)
        faults->forges_left = emu_vc_ring(sw->profile) - emu_vc_slots(sw->profile);
    return 0;
}

static uint32_t channels_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps)
{
    struct switch_channels *ch = switch_channels_of(sw);
    uint32_t hit = switch_channel_link(ch, port, up, at_ps);

    if (sw->dev.timed)
        switch_channel_schedule_news(ch, at_ps);
    else
        switch_channel_flush_credits(ch);
    return hit;
}

static void channels_units(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at)
{
    struct switch_channels *ch = switch_channels_of(sw);

    ch->units = (struct switch_channel_units){.first = first, .own = own, .at = at};
}

static void rebase_port(struct switch_channel_port *port, uint64_t by_ps)
{
    emu_tx_rebase(&port->tx, by_ps);
    emu_rx_rebase(&port->rx, by_ps);
    if (port->faults)
        emu_faults_rebase(port->faults, by_ps);
    for (uint32_t c = 0; c < EMU_VCS; c++)
        switch_rebase_time(&port->reply_ps[c], by_ps);
}

static void channels_rebase(struct switch_dev *sw, uint64_t by_ps)
{
    struct switch_channels *ch = switch_channels_of(sw);
    struct switch_channel_timing *timing = switch_channels_timing(ch);

    switch_store_rebase(&ch->store, by_ps);
    for (uint32_t p = 0; p < sw->ports; p++)
        rebase_port(&ch->port[p], by_ps);
    emu_order_rebase(&timing->agenda.acts, by_ps);
    switch_rebase_time(&timing->little.last_ps, by_ps);
    switch_rebase_time(&timing->sweep_ps, by_ps);
    for (uint32_t p = 0; p < sw->ports; p++) {
        switch_rebase_time(&timing->stalled_ps[p], by_ps);
        switch_rebase_time(&timing->busy_ps[p], by_ps);
        switch_rebase_time(&timing->due_ps[p], by_ps);
    }
}

const struct switch_kind switch_channel_kind = {
    .raw = {sizeof(struct switch_channels_raw), switch_step_channels_raw},
    .timed = {sizeof(struct switch_channels_timed), switch_step_channels},
    .fits = channels_fit,
    .sane = channels_sane,
    .segments = channels_segments,
    .bytes = channels_bytes,
    .init = channels_init,
    .destroy = channels_destroy,
    .tx = channels_tx,
    .rx = channels_rx,
    .queued = channels_queued,
    .shortest = channels_shortest,
    .check = switch_channels_check,
    .bufs = switch_channels_bufs,
    .rebase = channels_rebase,
    .faults = channels_faults,
    .link = channels_link,
    .stick = switch_channels_stick,
    .waiting = switch_channels_waiting,
    .ready = switch_channels_ready,
    .units = channels_units,
    .check_cable = switch_channels_check_cable,
    .check_out = switch_channels_check_out,
};
