/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reply.c - replies (ACK and NACK) on their way back, packets that end without a reply, and
 * time-outs.
 *
 * A reply closes the channel of the output at which it arrives. A packet has a *copy* at each
 * output through which it leaves. When all copies have their replies, the switch sends one reply to
 * the packet's sender: ACK, or NACK if any reply was a NACK. The channel of the input is then free.
 * When a channel of an output closes, the switch grants it to a packet that waits.
 *
 * If nothing was sent on an open channel for profile->reply_timeout_ps, the packet or its reply was
 * lost. The switch closes the channel as if a NACK had arrived. It measures this time in ticks of
 * an eighth of the time-out, and checks all channels once a tick, so that a packet needs no timer.
 * A late reply finds a channel with another tag, or a closed channel.
 *
 * A packet that waits for a channel for longer than the time-out gets a NACK. The reason: packets
 * of a higher priority, to a node that never answers, may take all channels of an output again and
 * again. Without the NACK, the waiting packet would keep its slots forever, and block all other
 * packets of its sender.
 *
 * If the sender gives up a packet, a copy whose last segment was not sent will get no reply. Its
 * channel closes immediately, and the remote end learns this from the next head on the channel. A
 * copy whose last segment was sent keeps its channel until the reply arrives, which is then
 * ignored.
 *
 * On clock raw, ticks are measured by the host's clock. A switch with an open channel is stepped at
 * least once a tick, because a sender that waits for the channel's slots cannot send anything that
 * would wake the switch.
 */
#include "switch/channel/stages.h"

#include <assert.h>

/* Stop copy @w, and release the segments that no other copy must send. */
static void reply_abandon(struct switch_channels *ch, uint32_t w, uint64_t at_ps)
{
    uint32_t slot = ch->out[w].cursor;

    switch_channel_stop_copy(ch, w);
    switch_channel_forgo(ch, ch->out[w].from, slot, at_ps);
}

static void reply_unlink(struct switch_channels *ch, uint32_t w)
{
    uint16_t *link = &ch->in[ch->out[w].from].copies;

    while (*link != w)
        link = &ch->out[*link].next;
    *link = ch->out[w].next;
    ch->out[w].from = CHANNEL_NONE;
}

void switch_channel_answer(struct switch_channels *ch, uint32_t v)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;

    if (!ch->timing && switch_channel_send_reply_now(ch, v))
        return;
    in->state = CHANNEL_REPLIED;
    ch->port[p].replies |= 1u << c;
    ch->port[p].nacks = (ch->port[p].nacks & ~(1u << c)) | (uint32_t)in->nack << c;
    switch_channel_request(ch, p);
}

/*
 * Note the time of a reply to a copy of a broadcast, because the broadcast's own reply must not be
 * earlier. (On clock real the replies may be seen in another order.)
 */
static void reply_merge(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    uint64_t *reply_ps = &ch->port[v / EMU_VCS].reply_ps[v % EMU_VCS];

    if (*reply_ps < at_ps)
        *reply_ps = at_ps;
}

void switch_channel_settle(struct switch_channels *ch, uint32_t w, bool nack, uint64_t at_ps)
{
    struct switch_channel_out *out = &ch->out[w];
    uint32_t v = out->from;

    switch_channel_closed(ch, w / EMU_VCS, w % EMU_VCS);
    if (v != CHANNEL_NONE) {
        if (!out->ended)
            reply_abandon(ch, w, at_ps);
        reply_unlink(ch, w);
        ch->in[v].nack |= nack;
        if (ch->in[v].group)
            reply_merge(ch, v, at_ps);
        if (!--ch->in[v].unsettled)
            switch_channel_answer(ch, v);
    }
    switch_channel_grant(ch, w / EMU_VCS, at_ps);
}

void switch_channel_replied(struct switch_channels *ch, uint32_t p,
                            const struct emu_packet_hdr *reply, uint64_t at_ps)
{
    uint32_t w = p * EMU_VCS + reply->channel;

    if (reply->channel >= ch->channels ||
        !emu_vcs_close(&ch->port[p].vcs, reply->channel, reply->tag)) {
        emu_count(&ch->sw.counts.stale, 1);
        return;
    }
    if (reply->kind == EMU_PACKET_ACK && !ch->out[w].ended) /* the last segment was not sent yet */
        emu_count(&ch->sw.counts.bad, 1);
    switch_channel_settle(ch, w, reply->kind == EMU_PACKET_NACK || !ch->out[w].ended, at_ps);
}

/* --- a packet ends without its replies ---------------------------------------------- */

/*
 * Detach the copies of @v, so that replies to them are ignored. Returns the outputs at which a
 * channel was closed.
 */
static emu_ports give_up_copies(struct switch_channels *ch, uint32_t v)
{
    emu_ports closed = EMU_NO_PORTS;
    uint32_t next;

    for (uint32_t w = ch->in[v].copies; w != CHANNEL_NONE; w = next) {
        struct switch_channel_out *out = &ch->out[w];
        uint32_t o = w / EMU_VCS;

        next = out->next;
        if (!out->ended) {
            switch_channel_stop_copy(ch, w);
            ch->port[o].vcs.open &= ~(1u << w % EMU_VCS);
            switch_channel_closed(ch, o, w % EMU_VCS);
            closed |= emu_port(o);
        }
        out->from = CHANNEL_NONE;
    }
    return closed;
}

void switch_channel_give_up(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;
    emu_ports closed = give_up_copies(ch, v);

    switch_channel_stop_waiting_for(ch, v, in->wants);
    switch_channel_discard(ch, v, at_ps);
    ch->port[p].replies &= ~(1u << c);
    switch_channel_unrequest(ch, p);
    in->state = CHANNEL_CLOSED;
    emu_count(&ch->sw.counts.given_up, 1);
    emu_each_port (o, closed)
        switch_channel_grant(ch, o, at_ps);
}

void switch_channel_refuse(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];

    switch_channel_stop_waiting_for(ch, v, emu_port(o));
    if (!in->group && emu_ports_any(in->wants))
        return; /* the packet still waits for other outputs */
    switch_channel_forgo(ch, v, in->queued ? in->queue.first : CHANNEL_NONE, at_ps);
    in->nack = true;
    assert(in->unsettled);
    if (!--in->unsettled)
        switch_channel_answer(ch, v);
}

/* --- time-outs ---------------------------------------------------------------------- */

static bool sweep_late(const struct switch_channels *ch, uint16_t since)
{
    return (uint16_t)(ch->tick - since) > CHANNEL_TICKS;
}

/* Close the channels of output @o that have timed out. Returns true if one is still open. */
static bool sweep_output(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[o];

    emu_each_bit (c, port->vcs.open) {
        if (!sweep_late(ch, ch->out[o * EMU_VCS + c].tick))
            continue;
        port->vcs.open &= ~(1u << c);
        emu_count(&ch->sw.counts.timeouts, 1);
        switch_channel_settle(ch, o * EMU_VCS + c, true, at_ps);
    }
    return port->vcs.open != 0;
}

/*
 * End packet @v if it has timed out: if its segments are dropped and its last segment has not
 * arrived, or if it waits for channels. Returns true if it must be checked again.
 */
static bool sweep_packet(struct switch_channels *ch, uint32_t v, uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];
    bool drained = in->state == CHANNEL_DRAINED;

    if (!drained && (in->state != CHANNEL_OPEN || !emu_ports_any(in->wants)))
        return false;
    if (!sweep_late(ch, in->tick))
        return true;
    emu_count(&ch->sw.counts.timeouts, 1);
    if (drained)
        switch_channel_answer(ch, v);
    emu_each_port (o, in->wants)
        switch_channel_refuse(ch, v, o, at_ps);
    return true;
}

bool switch_channel_check_timeouts(struct switch_channels *ch, uint64_t at_ps)
{
    bool open = false;

    for (uint32_t p = 0; p < ch->sw.ports; p++) {
        open |= sweep_output(ch, p, at_ps);
        for (uint32_t v = p * EMU_VCS; v < (p + 1) * EMU_VCS; v++)
            open |= sweep_packet(ch, v, at_ps);
    }
    return open;
}
