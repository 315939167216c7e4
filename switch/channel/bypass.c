/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass.c - clock raw: a packet that need not wait skips the input's buffer.
 *
 * On clock raw nothing takes time. A segment leaves in the step in which it arrived, if no other
 * segment waits at its output and the output has a credit for it. It moves from one cable's ring to
 * the next and never enters the store. The same is true for a segment of a broadcast if all its
 * outputs are free, and for a reply. Checks, credits, counters and the state of channels are the
 * same as for other segments. If a segment or packet waits, new arrivals wait behind it
 * (allocate.c, transmit.c), so the order of service and the priorities are kept.
 *
 * A packet's first segment is its *head*, the others are *continuations*. Most arrivals are of
 * three kinds: the head of a unicast packet on a closed channel, the next continuations of a
 * packet, and an ACK of a packet whose last segment was sent. These take a short path without
 * copies, calls and the bookkeeping for waiting packets: a packet of five segments takes about 1000
 * instructions per switch instead of 1850. arrival.c and reply.c handle all other arrivals. A check
 * that fails in this file changes nothing, except the round robin among equally good outputs.
 *
 * A link sends packet by packet, so several continuations usually arrive together with their head,
 * and this file handles them together. Each header must be exactly the one that is expected next on
 * its channel. So the CRC-16 of a header is compared and not computed, and the state that these
 * continuations share is looked up once.
 */
#include "switch/channel/stages.h"

/*
 * Return for how many segments channel @c of output @o has credits, at most @wanted. Nothing may
 * wait at @o.
 */
static inline uint32_t bypass_room(struct switch_channels *ch, uint32_t o, uint32_t c,
                                   uint32_t wanted)
{
    const struct emu_vcs *vcs = &ch->port[o].vcs;

    if (emu_vcs_room_for(vcs, c) < wanted) {
        switch_channel_take_credits(ch, o, 0);
        /* the credits have made a segment of a waiting packet ready */
        if (emu_ports_has(ch->queued, o))
            return 0;
    }
    return emu_vcs_room_for(vcs, c) < wanted ? emu_vcs_room_for(vcs, c) : wanted;
}

/* Return whether the unicast packet @in has an output channel, and no segment in the buffer. */
static inline bool bypass_may(const struct switch_channel_in *in)
{
    return in->state == CHANNEL_OPEN && in->copies != CHANNEL_NONE && !in->queued;
}

/* Copy @entry, which arrived on channel @from, into @slot with a header for channel @c. */
static inline void bypass_fill(const struct switch_channels *ch, struct emu_entry *slot,
                               uint32_t from, uint32_t c, const struct emu_entry *entry)
{
    struct emu_packet_hdr hdr = {.head = entry->packet.head, .rest = entry->packet.rest};

    switch_channel_relabel(ch, &hdr, from, c);
    slot->packet.head = hdr.head;
    slot->packet.rest = hdr.rest;
    slot->buf = entry->buf;
    slot->crc = entry->crc;
}

/* Send @entry, which arrived on channel @from of its input, on channel @c of its output. */
static inline void bypass_send(struct switch_channels *ch, struct emu_tx *tx, uint32_t from,
                               uint32_t c, const struct emu_entry *entry)
{
    bypass_fill(ch, emu_tx_slot(tx), from, c, entry);
    emu_tx_publish(tx, 0);
}

/*
 * Return whether the @left remaining segments of the broadcast @in may skip the buffer: all its
 * copies have channels and slots, nothing waits at their outputs, and no segment was lost.
 */
static inline bool bypass_all_may(struct switch_channels *ch, const struct switch_channel_in *in,
                                  uint32_t left)
{
    if (in->state != CHANNEL_OPEN || in->copies == CHANNEL_NONE || in->queued ||
        emu_ports_any(in->wants))
        return false;
    for (uint32_t w = in->copies; w != CHANNEL_NONE; w = ch->out[w].next) {
        uint32_t o = w / EMU_VCS, c = w % EMU_VCS;

        if (!switch_channel_is_open(ch, o) ||
            (in->last ? !emu_vcs_has_promised(&ch->port[o].vcs, c, left)
                      : !bypass_room(ch, o, c, 1)))
            return false;
    }
    return true;
}

/* Send a segment of a broadcast on the channels of all its copies. False: it has to wait. */
static bool bypass_pass_all(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry)
{
    const struct switch_channel_in *in = &ch->in[v];

    /* in->index already counts this segment */
    if (!bypass_all_may(ch, in, in->last + 2u - in->index))
        return false;
    emu_pool_share(ch->sw.dev.worker->cache.pool, entry->buf, in->unsettled - 1u);
    for (uint32_t w = in->copies; w != CHANNEL_NONE; w = ch->out[w].next) {
        uint32_t o = w / EMU_VCS, c = w % EMU_VCS;

        ch->out[w].tick = ch->tick;
        ch->out[w].ended = entry->packet.last;
        emu_vcs_spend(&ch->port[o].vcs, c);
        bypass_send(ch, &ch->port[o].tx, v % EMU_VCS, c, entry);
        ch->news |= emu_port(o); /* the step notifies the receiver */
    }
    return true;
}

bool switch_channel_bypass_segment(struct switch_channels *ch, uint32_t v,
                                   const struct emu_entry *entry)
{
    const struct switch_channel_in *in = &ch->in[v];
    uint32_t w = in->copies, o = w / EMU_VCS, c = w % EMU_VCS;

    if (in->group)
        return bypass_pass_all(ch, v, entry);
    if (!bypass_may(in) || !switch_channel_is_open(ch, o) || !bypass_room(ch, o, c, 1))
        return false;
    ch->out[w].tick = ch->tick;
    ch->out[w].ended = entry->packet.last;
    emu_vcs_spend_all(&ch->port[o].vcs, c, 1);
    bypass_send(ch, &ch->port[o].tx, v % EMU_VCS, c, entry);
    ch->news |= emu_port(o);
    return true;
}

/* --- continuations ------------------------------------------------------------------ */

/*
 * The header words of a packet's next continuations on its input channel. The relabel fields are
 * the bits that change on the output channel.
 */
struct bypass_words {
    uint64_t rest; /* second word */
    uint64_t relabel_rest;
    uint32_t word; /* first word, for index 0 */
    uint32_t relabel;
};

static inline struct bypass_words bypass_words_of(const struct switch_channels *ch,
                                                  const struct switch_channel_in *in, uint32_t c,
                                                  uint32_t to)
{
    struct emu_cont first = {.channel = (uint8_t)c, .priority = in->priority};

    return (struct bypass_words){.rest = (struct emu_packet_hdr){.tag = in->tag,
                                                                 .kind = EMU_PACKET_CONT,
                                                                 .wire = EMU_SEG_BYTES - 1,
                                                                 .channel = (uint8_t)c}
                                             .rest,
                                 .relabel_rest =
                                     (struct emu_packet_hdr){.channel = (uint8_t)(c ^ to)}.rest,
                                 .word = emu_cont_pack(&first),
                                 .relabel = switch_channel_relabel_cont(ch, c, to)};
}

/* Return @words, changed to those of the packet's last continuation. */
static inline struct bypass_words bypass_last_of(const struct switch_channels *ch,
                                                 const struct switch_channel_in *in,
                                                 struct bypass_words words)
{
    words.word ^= ch->cont_last;
    words.rest ^=
        (struct emu_packet_hdr){.wire = in->last_wire ^ (EMU_SEG_BYTES - 1), .last = 1}.rest;
    return words;
}

/*
 * Move up to @count continuations, the first with index @index, from the front of @from to @to.
 * Stop before an entry without the expected header (@words). Returns how many were moved.
 */
static inline uint32_t bypass_copy(const struct switch_channels *ch, struct emu_ring_end *from,
                                   struct emu_ring_end *to, struct bypass_words words,
                                   uint32_t index, uint32_t count)
{
    uint32_t sent = 0;

    for (; sent < count; sent++) {
        const struct emu_entry *entry = emu_ring_slot(from);
        struct emu_entry *slot = emu_ring_slot(to);
        uint32_t word = words.word ^ ch->cont_index[index + sent];

        if (entry->packet.cont != word || entry->packet.rest != words.rest)
            break;
        slot->packet.head = word ^ words.relabel;
        slot->packet.rest = words.rest ^ words.relabel_rest;
        slot->buf = entry->buf;
        slot->crc = entry->crc;
        emu_ring_publish(emu_ring_next(to), 0);
        emu_ring_skip(from); /* free the slot before the credit lets the sender fill it again */
    }
    return sent;
}

/*
 * Return how many of the next @count slots of a ring are filled (bypass_filled()), or empty
 * (bypass_empty()). Slots are filled and emptied in order, so check the last slot first.
 */
static inline uint32_t bypass_filled(struct emu_ring_end end, uint32_t count)
{
    end.at += count - 1;
    for (; count && !emu_ring_front(&end); count--)
        end.at--;
    return count;
}

static inline uint32_t bypass_empty(struct emu_ring_end end, uint32_t count)
{
    end.at += count - 1;
    for (; count && !emu_ring_has_slot(&end); count--)
        end.at--;
    return count;
}

/*
 * Move up to @most continuations of packet @in from channel @c of the ring @from to channel @by of
 * the ring @to. Returns how many.
 */
static inline uint32_t bypass_run(const struct switch_channels *ch, struct switch_channel_in *in,
                                  struct emu_ring_end *from, uint32_t c, struct emu_ring_end *to,
                                  uint32_t by, uint32_t most)
{
    uint32_t count = bypass_empty(*to, bypass_filled(*from, most));
    /* number of continuations before the last one */
    uint32_t before = (uint32_t)in->last - in->index;
    uint32_t middle = before < count ? before : count;
    struct bypass_words words = bypass_words_of(ch, in, c, by);
    uint32_t sent = bypass_copy(ch, from, to, words, in->index, middle);

    if (sent == middle && middle < count)
        sent += bypass_copy(ch, from, to, bypass_last_of(ch, in, words), in->last, 1);
    in->index = (uint8_t)(in->index + sent);
    return sent;
}

/* Return how many of @count entries at the front of @from are the next continuations of @in. */
static inline uint32_t bypass_match(const struct switch_channels *ch,
                                    const struct switch_channel_in *in, uint32_t c,
                                    struct emu_ring_end from, uint32_t count)
{
    struct bypass_words words = bypass_words_of(ch, in, c, c);
    uint32_t index = in->index;

    for (; index < in->index + count; index++, from.at++) {
        const struct emu_entry *entry = emu_ring_slot(&from);

        if (index == in->last)
            words = bypass_last_of(ch, in, words);
        if (entry->packet.cont != (words.word ^ ch->cont_index[index]) ||
            entry->packet.rest != words.rest)
            break;
    }
    return index - in->index;
}

/* Add @more references to each of @count payload buffers, before any copy becomes visible. */
static inline void bypass_share(struct switch_channels *ch, struct emu_ring_end from,
                                uint32_t count, uint32_t more)
{
    for (; count; count--, from.at++)
        emu_pool_share(ch->sw.dev.worker->cache.pool, emu_ring_slot(&from)->buf, more);
}

/*
 * Send @count entries on channel @w, which carries one copy of the broadcast. They stay at the
 * front of @from for the other copies.
 */
static inline void bypass_put(struct switch_channels *ch, const struct switch_channel_in *in,
                              uint32_t c, uint32_t w, struct emu_ring_end from, uint32_t count)
{
    struct bypass_words words = bypass_words_of(ch, in, c, w % EMU_VCS);
    struct emu_tx *tx = &ch->port[w / EMU_VCS].tx;
    struct emu_ring_end to = tx->data;

    for (uint32_t index = in->index; index < in->index + count; index++, from.at++) {
        const struct emu_entry *entry = emu_ring_slot(&from);
        struct emu_entry *slot = emu_ring_slot(&to);

        if (index == in->last)
            words = bypass_last_of(ch, in, words);
        slot->packet.head = words.word ^ ch->cont_index[index] ^ words.relabel;
        slot->packet.rest = words.rest ^ words.relabel_rest;
        slot->buf = entry->buf;
        slot->crc = entry->crc;
        emu_ring_publish(emu_ring_next(&to), 0);
    }
    emu_tx_sent(tx, &to, count);
}

/*
 * Send continuations of a broadcast on the channels of all its copies. Returns how many; 0: nothing
 * was done.
 */
static uint32_t bypass_conts_all(struct switch_channels *ch, uint32_t p, uint32_t c, uint32_t most)
{
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    struct emu_ring_end *from = &ch->port[p].rx.data;
    uint32_t left = in->last + 1u - in->index, count;

    if (in->index > in->last || !bypass_all_may(ch, in, left))
        return 0;
    count = bypass_filled(*from, left < most ? left : most);
    for (uint32_t w = in->copies; w != CHANNEL_NONE; w = ch->out[w].next)
        count = bypass_empty(ch->port[w / EMU_VCS].tx.data, count);
    count = bypass_match(ch, in, c, *from, count);
    if (!count)
        return 0;
    bypass_share(ch, *from, count, in->unsettled - 1u);
    for (uint32_t w = in->copies; w != CHANNEL_NONE; w = ch->out[w].next) {
        uint32_t o = w / EMU_VCS;

        bypass_put(ch, in, c, w, *from, count);
        emu_vcs_spend_promised(&ch->port[o].vcs, w % EMU_VCS, count);
        ch->out[w].tick = ch->tick;
        ch->out[w].ended = count == left;
        ch->news |= emu_port(o);
    }
    for (uint32_t s = 0; s < count; s++)
        emu_ring_skip(from);
    in->index = (uint8_t)(in->index + count);
    in->tick = ch->tick;
    in->whole = count == left;
    switch_channel_owe(ch, p, c, count);
    return count;
}

/* Update the state of both ports after @sent segments have moved from one cable to another. */
static inline void bypass_moved(struct switch_channels *ch, uint32_t p, uint32_t c, uint32_t w,
                                const struct emu_ring_end *from, const struct emu_ring_end *to,
                                uint32_t sent)
{
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    struct switch_channel_port *out = &ch->port[w / EMU_VCS];

    ch->port[p].rx.data = *from;
    emu_tx_sent(&out->tx, to, sent);
    emu_vcs_spend_all(&out->vcs, w % EMU_VCS, sent);
    in->whole = ch->out[w].ended = in->index > in->last;
    switch_channel_owe(ch, p, c, sent);
    ch->news |= emu_port(w / EMU_VCS);
}

/* Forward up to @most continuations of a packet from port @p's cable. Returns how many. */
static inline uint32_t bypass_conts(struct switch_channels *ch, uint32_t p, uint32_t c,
                                    uint32_t most)
{
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    uint32_t w = in->copies, o = w / EMU_VCS, sent;
    struct emu_ring_end from, to;

    if (in->group)
        return bypass_conts_all(ch, p, c, most);
    if (!bypass_may(in) || in->index > in->last || !switch_channel_is_open(ch, o))
        return 0;
    sent = in->last - in->index + 1u;
    sent = bypass_room(ch, o, w % EMU_VCS, sent < most ? sent : most);
    if (!sent)
        return 0;
    from = ch->port[p].rx.data;
    to = ch->port[o].tx.data;
    sent = bypass_run(ch, in, &from, c, &to, w % EMU_VCS, sent);
    if (!sent)
        return 0;
    in->tick = ch->out[w].tick = ch->tick;
    bypass_moved(ch, p, c, w, &from, &to, sent);
    return sent;
}

/* --- heads -------------------------------------------------------------------------- */

/* Return the outputs at which a unicast with @head can open a channel; if empty, use arrival.c. */
static inline emu_ports bypass_outs(const struct switch_channels *ch, uint32_t p,
                                    const struct emu_head *head)
{
    if (ch->sw.profile->routing != EMU_ROUTING_ADAPTIVE || head->dst >= ch->units.first)
        return EMU_NO_PORTS;
    return topo_route_ports(switch_route(&ch->sw), head->dst) & ch->port[p].onward &
           switch_channel_openable(ch, head->priority);
}

/*
 * Return for how many segments output @o has credits, at most @wanted, if a new channel is opened
 * there for the packet.
 */
static inline uint32_t bypass_room_new(struct switch_channels *ch, uint32_t o, uint32_t wanted)
{
    const struct emu_vcs *vcs = &ch->port[o].vcs;
    uint32_t room = emu_vcs_room_new(vcs);

    if (room < wanted) {
        switch_channel_take_credits(ch, o, 0);
        room = emu_vcs_room_new(vcs);
    }
    if (!switch_channel_is_open(ch, o))
        return 0;
    return room < wanted ? room : wanted;
}

/* Return whether the head with @hdr may open channel @in of port @p. Sets *@head and *@segments. */
static inline bool bypass_head_sane(const struct switch_channels *ch, uint32_t p,
                                    const struct switch_channel_in *in,
                                    const struct emu_packet_hdr *hdr, struct emu_head *head,
                                    uint32_t *segments)
{
    if (in->state != CHANNEL_CLOSED || in->tag == hdr->tag || !switch_channel_has_room(ch, p) ||
        !emu_head_unpack(head, hdr->head) || head->group)
        return false;
    *segments = emu_packet_segments(head->bytes);
    return switch_channel_head_sane(head, hdr, *segments);
}

/*
 * Forward the head at the front of port @p's cable and the segments of its packet that have
 * arrived, at most @most. Returns how many. If the chosen output cannot take the head now,
 * arrival.c chooses again, possibly another output that is equally good.
 */
static inline uint32_t bypass_head(struct switch_channels *ch, uint32_t p,
                                   const struct emu_entry *entry, uint32_t most)
{
    uint32_t c = entry->packet.channel, v = p * EMU_VCS + c, o, by, segments, sent;
    struct switch_channel_in *in = &ch->in[v];
    struct emu_ring_end from, to;
    struct emu_head head;
    emu_ports outs;

    if (c >= ch->channels || !bypass_head_sane(ch, p, in, &entry->packet, &head, &segments))
        return 0;
    outs = bypass_outs(ch, p, &head);
    if (!emu_ports_any(outs))
        return 0;
    o = switch_channel_choose(ch, outs, 0);
    sent = bypass_room_new(ch, o, segments < most ? segments : most);
    if (!sent)
        return 0;
    switch_channel_new(ch, in, &head, entry->packet.tag, segments);
    in->unsettled = 1;
    by = switch_channel_open(ch, v, o);
    from = ch->port[p].rx.data;
    to = ch->port[o].tx.data;
    bypass_fill(ch, emu_ring_slot(&to), c, by, emu_ring_slot(&from));
    emu_ring_publish(emu_ring_next(&to), 0);
    emu_ring_skip(&from);
    if (sent > 1)
        sent = 1 + bypass_run(ch, in, &from, c, &to, by, sent - 1);
    bypass_moved(ch, p, c, o * EMU_VCS + by, &from, &to, sent);
    return sent;
}

/* --- replies ------------------------------------------------------------------------ */

/*
 * Handle the ACK at the front of port @p's cable: close the channel on which its packet was sent,
 * and forward the ACK to the sender of the packet. Returns 1, or 0 if nothing was done, for example
 * because packets wait for channels of port @p.
 */
static inline uint32_t bypass_ack(struct switch_channels *ch, uint32_t p,
                                  const struct emu_entry *entry)
{
    struct switch_channel_port *port = &ch->port[p];
    uint32_t c = entry->packet.channel, v;
    struct switch_channel_out *out = &ch->out[p * EMU_VCS + c % EMU_VCS];
    struct switch_channel_in *in;

    v = out->from;
    if (c >= EMU_VCS || v == CHANNEL_NONE || !(port->vcs.open >> c & 1) || !out->ended ||
        emu_ports_any(port->waiters) || entry->buf != EMU_NO_BUF)
        return 0;
    in = &ch->in[v];
    if (in->tag != entry->packet.tag || in->group || !switch_channel_send_reply_now(ch, v))
        return 0;
    port->vcs.open &= ~(1u << c);
    switch_channel_closed(ch, p, c);
    out->from = in->copies = CHANNEL_NONE;
    in->unsettled = 0;
    emu_ring_skip(&port->rx.data);
    return 1;
}

uint32_t switch_channel_bypass(struct switch_channels *ch, uint32_t p, uint32_t most)
{
    struct emu_rx *rx = &ch->port[p].rx;
    const struct emu_entry *entry;
    uint32_t moved = 0, went = 1;

    if (rx->kind != EMU_LINK_LOCAL || ch->port[p].faults)
        return 0;
    while (went && moved < most && (entry = emu_ring_front(&rx->data))) {
        switch (entry->packet.kind) {
        case EMU_PACKET_HEAD:
            went = bypass_head(ch, p, entry, most - moved);
            break;
        case EMU_PACKET_CONT:
            went = bypass_conts(ch, p, entry->packet.channel % EMU_VCS, most - moved);
            break;
        case EMU_PACKET_ACK:
            went = bypass_ack(ch, p, entry);
            break;
        default:
            went = 0;
        }
        moved += went;
    }
    emu_rx_done(rx, moved);
    return moved;
}
