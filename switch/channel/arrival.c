/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival.c - checks an entry that has arrived at a port, and stores it in its input's buffer.
 *
 * The switch does not trust entries. It counts and drops an entry that violates the protocol, and
 * returns its credit. The indexes of a packet's segments must grow, so the switch drops duplicates.
 * The packet's receiver detects gaps.
 */
#include "switch/channel/stages.h"

static void arrival_drop(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                         enum emu_fate fate, uint64_t at_ps)
{
    emu_pool_drop(&ch->sw.dev.worker->cache, entry->buf);
    if (fate != EMU_FATE_DUPLICATED)
        switch_channel_return_credit(ch, p, entry->packet.channel, at_ps);
}

static void arrival_bad(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                        enum emu_fate fate, uint64_t at_ps)
{
    emu_count(&ch->sw.counts.bad, 1);
    arrival_drop(ch, p, entry, fate, at_ps);
}

/* Drop a valid entry that has no slot, because a fault forged a credit or duplicated the entry. */
static void arrival_overrun(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                            enum emu_fate fate, uint64_t at_ps)
{
    emu_count(&ch->sw.counts.overrun, 1);
    arrival_drop(ch, p, entry, fate, at_ps);
}

/* Let the copies of @v that have waited for the segment in @slot request to send it. */
static void arrival_request(struct switch_channels *ch, uint32_t v, uint32_t slot)
{
    for (uint32_t w = ch->in[v].copies; w != CHANNEL_NONE; w = ch->out[w].next) {
        struct switch_channel_out *out = &ch->out[w];
        uint32_t o = w / EMU_VCS, c = w % EMU_VCS;

        if (out->cursor != CHANNEL_NONE)
            continue;
        out->cursor = (uint16_t)slot;
        switch_channel_request_segment(ch, o, c, v / EMU_VCS, out->priority);
    }
}

/*
 * Handle a segment of the open packet @v: let it skip the buffer if possible, or append it to the
 * queue.
 */
static void arrival_accept(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry,
                           enum emu_fate fate, uint64_t at_ps)
{
    ch->in[v].tick = ch->tick;
    ch->in[v].whole = entry->packet.last;
    if (!ch->timing && fate == EMU_FATE_ARRIVED && switch_channel_bypass_segment(ch, v, entry))
        switch_channel_return_credit(ch, v / EMU_VCS, v, at_ps);
    else
        arrival_request(ch, v, switch_channel_append(ch, v, entry, fate));
}

/* Drop a segment of a packet that cannot leave by any output. */
static void arrival_drain(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry,
                          enum emu_fate fate, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];

    in->tick = ch->tick;
    arrival_drop(ch, v / EMU_VCS, entry, fate, at_ps);
    if (entry->packet.last)
        switch_channel_answer(ch, v);
}

/* Route packet @v, whose head has arrived. If it cannot leave, its segments will be dropped. */
static void arrival_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head,
                          uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];
    emu_ports outs = switch_channel_route(ch, v, head);

    if (emu_ports_any(outs)) {
        if (in->group)
            emu_count(&ch->sw.counts.multicasts, emu_ports_several(outs));
        switch_channel_allocate(ch, v, outs, at_ps);
        return;
    }
    emu_count(&ch->sw.counts.refused, 1);
    if (!in->group)
        switch_trap(&ch->sw, head->dst);
    in->state = CHANNEL_DRAINED;
    in->nack = true;
}

static void arrival_head(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
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
    if (!sane || in->tag == hdr->tag) {
        /* with the same tag, this is a duplicate of the head of the current or last packet */
        arrival_bad(ch, p, entry, fate, at_ps);
        return;
    }
    if (!switch_channel_has_slot(ch, p, fate)) {
        arrival_overrun(ch, p, entry, fate, at_ps);
        return;
    }
    if (in->state != CHANNEL_CLOSED)
        switch_channel_give_up(ch, v, at_ps);
    switch_channel_new(ch, in, &head, hdr->tag, segments);
    arrival_route(ch, v, &head, at_ps);
    if (in->state == CHANNEL_DRAINED)
        arrival_drain(ch, v, entry, fate, at_ps);
    else
        arrival_accept(ch, v, entry, fate, at_ps);
}

/* Return whether this is the next segment of the packet on its channel, or a later one. */
static bool arrival_cont_sane(const struct switch_channel_in *in, const struct emu_cont *cont,
                              const struct emu_packet_hdr *hdr)
{
    bool last = cont->index == in->last;

    return cont->channel == hdr->channel && cont->index >= in->index && cont->index <= in->last &&
           cont->last == last && hdr->last == last &&
           hdr->wire == (last ? in->last_wire : EMU_SEG_BYTES - 1);
}

static void arrival_cont(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                         enum emu_fate fate, uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint32_t v = p * EMU_VCS + hdr->channel;
    struct switch_channel_in *in = &ch->in[v];
    struct emu_cont cont;

    if (!emu_cont_unpack(&cont, hdr->cont)) {
        arrival_bad(ch, p, entry, fate, at_ps);
    } else if (in->state == CHANNEL_CLOSED || in->state == CHANNEL_REPLIED || in->tag != hdr->tag ||
               in->whole) {
        emu_count(&ch->sw.counts.stale, 1);
        arrival_drop(ch, p, entry, fate, at_ps);
    } else if (!arrival_cont_sane(in, &cont, hdr)) {
        arrival_bad(ch, p, entry, fate, at_ps);
    } else if (!switch_channel_has_slot(ch, p, fate)) {
        arrival_overrun(ch, p, entry, fate, at_ps);
    } else {
        in->index = (uint8_t)(cont.index + 1);
        if (in->state == CHANNEL_DRAINED)
            arrival_drain(ch, v, entry, fate, at_ps);
        else
            arrival_accept(ch, v, entry, fate, at_ps);
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
        arrival_drop(ch, p, entry, fate, at_ps);
    } else if (hdr->channel < ch->channels && hdr->kind == EMU_PACKET_HEAD) {
        arrival_head(ch, p, entry, fate, at_ps);
    } else if (hdr->channel < ch->channels && hdr->kind == EMU_PACKET_CONT) {
        arrival_cont(ch, p, entry, fate, at_ps);
    } else {
        arrival_bad(ch, p, entry, fate, at_ps);
    }
}
