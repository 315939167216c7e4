/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input.c - what comes in: checked, and queued on its channel.
 *
 * Nothing that comes from outside is trusted, and nothing is asserted of it:
 * what breaks the protocol is counted and dropped, and its credit goes back.
 * Indexes of a packet's segments must grow: a second copy is dropped, a gap is
 * left for the packet's receiver to find.
 */
#include "switch/channel/channel.h"

/* Faults have a hand in it: no credit goes back, or one, or more. */
static __attribute__((noinline)) void input_pay_faulty(struct switch_channels *ch,
                                                       struct switch_channel_port *port,
                                                       uint32_t channel, uint64_t at_ps)
{
    uint32_t credits = emu_faults_credit(port->faults, &port->rx, at_ps);

    for (; credits; credits--)
        emu_rx_pay_channel(&port->rx, channel, at_ps + ch->credit_ps);
}

static void input_pay(struct switch_channels *ch, uint32_t p, uint32_t channel, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[p];

    if (__builtin_expect(port->faults != NULL, 0)) {
        input_pay_faulty(ch, port, channel % EMU_VCS, at_ps);
    } else if (ch->timing) {
        emu_rx_pay_channel(&port->rx, channel % EMU_VCS, at_ps + ch->credit_ps);
    } else {
        switch_channel_owe(ch, p, channel % EMU_VCS, 1);
    }
}

void switch_channel_tell_paid(struct switch_channels *ch)
{
    emu_ports paid = ch->paid;

    ch->paid = EMU_NO_PORTS;
    emu_each_port (p, paid) {
        struct switch_channel_port *port = &ch->port[p];

        emu_rx_put_credits(&port->rx, port->rx.owed, port->owed_channel, 0);
        port->rx.owed = 0;
        emu_rx_tell(&port->rx, ch->sw.dev.worker);
    }
}

static void input_drop(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                       enum emu_fate fate, uint64_t at_ps)
{
    emu_pool_drop(&ch->sw.dev.worker->cache, entry->buf);
    if (fate != EMU_FATE_TWICE)
        input_pay(ch, p, entry->packet.channel, at_ps);
}

static void input_bad(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                      enum emu_fate fate, uint64_t at_ps)
{
    emu_count(&ch->sw.counts.bad, 1);
    input_drop(ch, p, entry, fate, at_ps);
}

/*
 * There is nothing wrong with it, but there is no slot for it: a credit was forged, or it is a
 * second copy.
 */
static void input_overrun(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                          enum emu_fate fate, uint64_t at_ps)
{
    emu_count(&ch->sw.counts.overrun, 1);
    input_drop(ch, p, entry, fate, at_ps);
}

/* The oldest segment of @v leaves. */
static void input_pop(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
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
        input_pay(ch, p, v, at_ps);
    }
}

void switch_channel_leave(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];

    while (in->queued && !ch->hold[in->queue.first].left)
        input_pop(ch, v, at_ps);
}

/* The copies of @v that have sent all there was have something to send again. */
static void input_tell(struct switch_channels *ch, uint32_t v, uint32_t slot)
{
    for (uint32_t w = ch->in[v].copies; w != CHANNEL_NONE; w = ch->out[w].next) {
        struct switch_channel_out *out = &ch->out[w];
        uint32_t o = w / EMU_VCS, c = w % EMU_VCS;

        if (out->cursor != CHANNEL_NONE)
            continue;
        out->cursor = (uint16_t)slot;
        switch_channel_stopped(ch, o, c, v / EMU_VCS, out->priority);
    }
}

/* A segment of the open packet @v, at the end of its queue. */
static void input_append(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry,
                         enum emu_fate fate)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t slot = switch_append(&ch->store, &in->queue, in->queued, entry);

    in->queued++;
    ch->hold[slot] =
        (struct switch_channel_hold){.left = in->unsettled, .no_credit = fate == EMU_FATE_TWICE};
    if (fate == EMU_FATE_TWICE)
        ch->uncredited++;
    else
        ch->port[v / EMU_VCS].held++;
    if (ch->timing) {
        switch_little_until(&ch->timing->little, entry->time_ps);
        ch->timing->little.held++;
    }
    if (in->unsettled > 1)
        emu_pool_share(ch->sw.dev.worker->cache.pool, entry->buf, in->unsettled - 1u);
    input_tell(ch, v, slot);
}

/* A segment of the open packet @v goes on at once, or waits in its queue. */
static void input_accept(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry,
                         enum emu_fate fate, uint64_t at_ps)
{
    ch->in[v].tick = ch->tick;
    ch->in[v].whole = entry->packet.last;
    if (!ch->timing && fate == EMU_FATE_ARRIVED && switch_channel_pass(ch, v, entry))
        input_pay(ch, v / EMU_VCS, v, at_ps);
    else
        input_append(ch, v, entry, fate);
}

/* A segment of a packet that goes nowhere. */
static void input_drain(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry,
                        enum emu_fate fate, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];

    in->tick = ch->tick;
    input_drop(ch, v / EMU_VCS, entry, fate, at_ps);
    if (entry->packet.last)
        switch_channel_finish(ch, v);
}

/* Is there a slot for one more segment at port @p? */
static bool input_room(const struct switch_channels *ch, uint32_t p, enum emu_fate fate)
{
    return fate == EMU_FATE_TWICE ? ch->uncredited < CHANNEL_UNCREDITED_MAX
                                  : switch_channel_has_room(ch, p);
}

static void input_head(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                       enum emu_fate fate, uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint32_t v = p * EMU_VCS + hdr->channel;
    struct switch_channel_in *in = &ch->in[v];
    struct emu_head head = {0};
    uint32_t segments = 0;
    bool sane = emu_head_unpack(&head, hdr->head);

    if (sane) {
        segments = emu_packet_segments(head.bytes);
        sane = switch_channel_head_sane(&head, hdr, segments);
    }
    if (!sane || in->tag == hdr->tag) { /* a second copy, of what is here or was here last */
        input_bad(ch, p, entry, fate, at_ps);
        return;
    }
    if (!input_room(ch, p, fate)) {
        input_overrun(ch, p, entry, fate, at_ps);
        return;
    }
    if (in->state != CHANNEL_CLOSED)
        switch_channel_give_up(ch, v, at_ps);
    switch_channel_new(ch, in, &head, hdr->tag, segments);
    switch_channel_route(ch, v, &head, at_ps);
    if (in->state == CHANNEL_DRAINED)
        input_drain(ch, v, entry, fate, at_ps);
    else
        input_accept(ch, v, entry, fate, at_ps);
}

/* Is this the next segment of the packet on its channel, or a later one? */
static bool input_cont_sane(const struct switch_channel_in *in, const struct emu_cont *cont,
                            const struct emu_packet_hdr *hdr)
{
    bool last = cont->index == in->last;

    return cont->channel == hdr->channel && cont->index >= in->index && cont->index <= in->last &&
           cont->last == last && hdr->last == last &&
           hdr->wire == (last ? in->last_wire : EMU_SEG_BYTES - 1);
}

static void input_cont(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                       enum emu_fate fate, uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint32_t v = p * EMU_VCS + hdr->channel;
    struct switch_channel_in *in = &ch->in[v];
    struct emu_cont cont;

    if (!emu_cont_unpack(&cont, hdr->cont)) {
        input_bad(ch, p, entry, fate, at_ps);
    } else if (in->state == CHANNEL_CLOSED || in->state == CHANNEL_REPLIED || in->tag != hdr->tag ||
               in->whole) {
        emu_count(&ch->sw.counts.stale, 1);
        input_drop(ch, p, entry, fate, at_ps);
    } else if (!input_cont_sane(in, &cont, hdr)) {
        input_bad(ch, p, entry, fate, at_ps);
    } else if (!input_room(ch, p, fate)) {
        input_overrun(ch, p, entry, fate, at_ps);
    } else {
        in->index = (uint8_t)(cont.index + 1);
        if (in->state == CHANNEL_DRAINED)
            input_drain(ch, v, entry, fate, at_ps);
        else
            input_accept(ch, v, entry, fate, at_ps);
    }
}

void switch_channel_arrive(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                           enum emu_fate fate, uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;

    if (hdr->kind == EMU_PACKET_ACK || hdr->kind == EMU_PACKET_NACK) {
        emu_pool_drop(&ch->sw.dev.worker->cache, entry->buf);
        if (fate != EMU_FATE_LOST)
            switch_channel_replied(ch, p, hdr, at_ps);
    } else if (fate == EMU_FATE_LOST) {
        input_drop(ch, p, entry, fate, at_ps);
    } else if (hdr->channel < ch->channels && hdr->kind == EMU_PACKET_HEAD) {
        input_head(ch, p, entry, fate, at_ps);
    } else if (hdr->channel < ch->channels && hdr->kind == EMU_PACKET_CONT) {
        input_cont(ch, p, entry, fate, at_ps);
    } else {
        input_bad(ch, p, entry, fate, at_ps);
    }
}
