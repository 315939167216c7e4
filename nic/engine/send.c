/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - packets onto the links, until they are acknowledged or given up.
 *
 * A link serves replies first, then by priority: first what it has begun, packet by packet in the
 * order in which they were begun as far as there is room for their next segment, then new packets. So
 * segments of several packets interleave where one of them has to wait, and at every segment's end
 * something of a higher priority goes first.
 * Source: QsNet III §III, §IV-B; which of several packets goes on first is ours.
 */
#include "emu/random.h"
#include "nic/engine/internal.h"

/* --- flows: who is how far ahead -------------------------------------------------------- */

/* NULL: to a group that all have left; its flow went with it. */
static struct engine_flow *flow_to(struct engine *e, uint32_t dst, bool group)
{
    struct engine_group *to;

    if (!group)
        return &e->flow[dst];
    to = engine_group_of(e, dst);
    return to ? &to->flow : NULL;
}

static struct engine_flow *flow_of(struct engine *e, const struct engine_packet *p)
{
    return flow_to(e, p->dst, p->group);
}

bool engine_flow_dead(struct engine *e, struct engine_to to)
{
    const struct engine_flow *flow = to.class == ENGINE_TEST ? NULL
                                                             : flow_to(e, to.dst, to.group);

    return flow && flow->next - flow->acked >= ENGINE_SPAN;
}

/* May a new packet of this flow be sent? */
static bool flow_open(struct engine *e, const struct engine_packet *p)
{
    const struct engine_flow *flow;

    if (p->tries || p->class == ENGINE_TEST)
        return true;
    flow = flow_of(e, p);
    if (!flow || !flow->oldest)
        return true;
    return flow->next + e->first_seq - e->packet[flow->oldest - 1].seq < ENGINE_WINDOW;
}

static void flow_number(struct engine *e, uint16_t i)
{
    struct engine_packet *p = &e->packet[i];
    struct engine_flow *flow = flow_of(e, p);

    p->seq = e->first_seq;
    p->newer = p->older = ENGINE_NONE;
    if (!flow)
        return;
    p->seq += flow->next++;
    p->older = flow->oldest ? (uint16_t)(flow->newest - 1u) : ENGINE_NONE;
    if (p->older == ENGINE_NONE)
        flow->oldest = (uint16_t)(i + 1u);
    else
        e->packet[p->older].newer = i;
    flow->newest = (uint16_t)(i + 1u);
}

static void flow_leave(struct engine *e, const struct engine_packet *p)
{
    struct engine_flow *flow = p->tries && p->class != ENGINE_TEST ? flow_of(e, p) : NULL;

    if (!flow)
        return;
    if (p->older == ENGINE_NONE)
        flow->oldest = p->newer == ENGINE_NONE ? 0 : (uint16_t)(p->newer + 1u);
    else
        e->packet[p->older].newer = p->newer;
    if (p->newer == ENGINE_NONE)
        flow->newest = p->older == ENGINE_NONE ? 0 : (uint16_t)(p->older + 1u);
    else
        e->packet[p->newer].older = p->older;
}

/* Packet @p was acknowledged: by all members, if it was to a group. */
static void flow_acked(struct engine *e, const struct engine_packet *p)
{
    struct engine_flow *flow = flow_of(e, p);
    uint32_t next = p->seq - e->first_seq + 1;

    if (flow && (int32_t)(next - flow->acked) > 0)
        flow->acked = next;
}

/* --- a packet's life ---------------------------------------------------------------------- */

/* Small packets overtake the others, unless the host has a wish. */
static uint8_t packet_priority(const struct engine_packet *p)
{
    return p->asked ? p->asked - 1 : p->segs == 1;
}

static void waiting_drop(struct engine *e, uint16_t i)
{
    struct engine_list *list = &e->waiting[e->packet[i].priority];

    engine_list_drop(list, e->join, i);
    if (engine_list_empty(list))
        e->waiting_any &= ~(1u << e->packet[i].priority);
}

void engine_ready(struct engine *e, uint16_t i, bool first, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[i];
    struct engine_list *list;

    p->state = ENGINE_WAITING;
    p->priority = packet_priority(p);
    list = &e->waiting[p->priority];
    engine_list_insert(list, e->join, first ? ENGINE_NONE : list->last, i);
    e->waiting_any |= 1u << p->priority;
    engine_wake_all(e, at_ps);
}

void engine_free(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[i];

    for (uint32_t s = 0; s < p->count; s++)
        emu_pool_drop(engine_cache(e), p->buf[s]);
    flow_leave(e, p);
    if (p->tries && e->waiting_any)
        engine_wake_all(e, at_ps); /* the flow may have opened */
    p->state = ENGINE_FREE;
    engine_list_insert(&e->free, e->join, ENGINE_NONE, i); /* the last one is warm */
    if (!engine_queue_empty(&e->results) && e->results_ps == EMU_NEVER) {
        e->results_ps = at_ps; /* results before conditionals, and these before what the host posts */
        return;
    }
    if (!engine_queue_empty(&e->asks.due))
        engine_asks_go(e, at_ps);
    if (!e->in_full || engine_list_empty(&e->free))
        return;
    e->in_full = false; /* the host's segments go on */
    e->in_ps = at_ps;
}

/* Into a list in the order of due times; most are due last. */
static void timer_add(struct engine *e, struct engine_list *list, uint16_t i)
{
    uint16_t prev = list->last;

    while (prev != ENGINE_NONE && e->packet[prev].due_ps > e->packet[i].due_ps)
        prev = e->join[prev].prev;
    engine_list_insert(list, e->join, prev, i);
}

/* Doubled with each try, and up to half as much more, so that those who met do not meet again. */
static uint64_t packet_rest_ps(struct engine *e, const struct engine_packet *p)
{
    uint32_t doublings = p->tries ? p->tries - 1u : 0;
    uint64_t rest_ps;

    if (doublings > ENGINE_DOUBLINGS)
        doublings = ENGINE_DOUBLINGS;
    rest_ps = e->profile->retry_ps << doublings;
    return rest_ps + (uint64_t)((unsigned __int128)(rest_ps / 2 + 1) * emu_xorshift(&e->random) >> 64);
}

/* Is it to a group that all have left? Tried on, it would hold up those to other groups. */
static bool packet_in_vain(const struct engine *e, const struct engine_packet *p)
{
    return p->group && !engine_group_of(e, p->dst);
}

void engine_rest(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[i];
    bool vain = packet_in_vain(e, p);

    if (vain || p->tries >= e->profile->retry_limit) {
        emu_count(vain ? &e->counts.vain : &e->counts.lost, p->count);
        engine_back(e, i, ENGINE_WORD_FAILED, at_ps);
        return;
    }
    p->state = ENGINE_RESTING;
    p->due_ps = e->now_ps + packet_rest_ps(e, p);
    timer_add(e, &e->resting, i);
}

/* Its channel is closed: the packet is in no list any more, and its link looks for the next. */
static void packet_off(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[i];
    struct engine_link *l = &e->link[p->link];

    l->left[p->priority] &= ~(1u << p->channel);
    emu_channels_forget(&l->books, p->channel);
    engine_list_drop(&e->awaiting, e->join, i);
    engine_wake(l, at_ps);
}

/* A try has ended; the packet is in no list. */
static void packet_over(struct engine *e, uint16_t i, bool taken, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[i];

    if (p->class == ENGINE_TEST) {
        engine_tested(e, i, taken, at_ps);
        return;
    }
    if (!taken) {
        engine_rest(e, i, at_ps);
        return;
    }
    flow_acked(e, p);
    if (p->back)
        engine_back(e, i, p->back, at_ps);
    else
        engine_free(e, i, at_ps);
}

void engine_reply(struct engine *e, struct engine_link *l, const struct emu_packet_hdr *reply,
                  uint64_t at_ps)
{
    uint32_t c = reply->channel;
    uint16_t i;

    if (c >= EMU_CHANNELS || !emu_channels_close(&l->books, c, reply->tag)) {
        emu_count(&e->counts.stale, 1);
        return;
    }
    i = l->packet[c];
    packet_off(e, i, at_ps);
    emu_count(reply->kind == EMU_PACKET_ACK ? &e->counts.acks : &e->counts.nacks, 1);
    packet_over(e, i, reply->kind == EMU_PACKET_ACK, at_ps);
}

void engine_send_due(struct engine *e, uint64_t at_ps)
{
    uint16_t i;

    while ((i = e->awaiting.first) != ENGINE_NONE && e->packet[i].due_ps <= e->now_ps) {
        struct engine_packet *p = &e->packet[i];

        if (p->active_ps + e->timeout_ps > e->now_ps) { /* has been heard of since it was put here */
            p->due_ps = p->active_ps + e->timeout_ps;
            engine_list_drop(&e->awaiting, e->join, i);
            timer_add(e, &e->awaiting, i);
            continue;
        }
        emu_count(&e->counts.timeouts, 1);
        emu_channels_close(&e->link[p->link].books, p->channel, p->tag);
        packet_off(e, i, at_ps);
        packet_over(e, i, false, at_ps);
    }
    while ((i = e->resting.first) != ENGINE_NONE && e->packet[i].due_ps <= e->now_ps) {
        engine_list_drop(&e->resting, e->join, i);
        engine_ready(e, i, true, at_ps);
    }
    if (e->asks.any)
        engine_asks_due(e, at_ps);
}

/* --- onto the wire -------------------------------------------------------------------------- */

void engine_take_credits(struct engine_link *l, uint64_t until_ps)
{
    const struct emu_credit *back;

    while ((back = emu_credit_front(&l->tx.credit)) && back->time_ps <= until_ps) {
        uint32_t c = back->channel % EMU_CHANNELS;

        assert(l->books.used[c]);
        emu_channels_return(&l->books, c);
        emu_credit_skip(&l->tx.credit);
    }
}

static void link_put(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                     uint64_t at_ps)
{
    /*
     * There is a slot for the segment in every place, for a reply on each channel, and for one
     * more that was sent just before its packet was given up: who gives up has emptied the ring.
     */
    assert(emu_tx_has_slot(&l->tx));
    if (e->dev.timed)
        emu_tx_depart_packet(&l->tx, entry, at_ps);
    else
        emu_tx_send(&l->tx, entry);
}

static void send_reply(struct engine *e, struct engine_link *l, uint64_t at_ps)
{
    uint32_t c = emu_bits_first(l->replies);
    bool nack = l->nacks >> c & 1;
    struct emu_entry entry = {.packet = {.tag = l->reply_tag[c],
                                         .kind = nack ? EMU_PACKET_NACK : EMU_PACKET_ACK,
                                         .wire = EMU_REPLY_BYTES - 1,
                                         .channel = (uint8_t)c,
                                         .last = 1},
                              .buf = EMU_NO_BUF};

    l->replies &= l->replies - 1;
    link_put(e, l, &entry, at_ps);
}

/* The next segment of the packet on open channel @c; there is room for it. */
static void send_segment(struct engine *e, struct engine_link *l, uint32_t c, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[l->packet[c]];
    uint32_t s = p->sent++;
    bool last = p->sent == p->segs;
    struct emu_entry entry = {
        .packet = {.tag = p->tag,
                   .kind = s ? EMU_PACKET_CONT : EMU_PACKET_HEAD,
                   .wire = (uint8_t)(emu_packet_wire_bytes(p->bytes, s) - 1),
                   .channel = (uint8_t)c,
                   .last = last},
        .buf = s < p->count ? p->buf[s] : EMU_NO_BUF,
    };

    if (s)
        entry.packet.cont = emu_cont_pack(&(struct emu_cont){
            .channel = (uint8_t)c, .priority = p->priority, .index = (uint8_t)s, .last = last});
    else
        entry.packet.head = emu_head_pack(&(struct emu_head){
            .channel = (uint8_t)c, .priority = p->priority, .group = p->group,
            .more = p->more, .dst = (uint16_t)p->dst, .bytes = p->bytes,
            .stamp = at_ps / 64000 % 1024});
    if (last) {
        *engine_entry_crc(&entry) = engine_crc(p->crc, p->tag, (uint16_t)p->dst, p->group);
        l->left[p->priority] &= ~(1u << c);
    } else {
        l->left[p->priority] |= 1u << c;
    }
    emu_pool_share(engine_cache(e)->pool, entry.buf, 1);
    emu_channels_spend(&l->books, c);
    l->at = (uint8_t)c;
    p->active_ps = e->now_ps;
    link_put(e, l, &entry, at_ps);
}

/*
 * The first packet that may be sent by @l of those that wait with @priority; ENGINE_NONE. All are
 * looked at that must go by another link: when these have gone, nobody would wake this one.
 */
static uint16_t waiting_first(struct engine *e, const struct engine_link *l, uint32_t priority)
{
    uint32_t link = (uint32_t)(l - e->link), closed = 0;

    for (uint16_t i = e->waiting[priority].first; i != ENGINE_NONE; i = e->join[i].next) {
        const struct engine_packet *p = &e->packet[i];

        if (p->only && p->only != link + 1)
            continue;
        if (flow_open(e, p))
            return i;
        if (++closed == ENGINE_LOOK)
            break; /* until a flow opens: engine_free() */
    }
    return ENGINE_NONE;
}

/* Does another one to the same destination wait right behind packet @i? */
static bool packet_follows(const struct engine *e, uint16_t i)
{
    const struct engine_packet *p = &e->packet[i], *next;

    if (e->join[i].next == ENGINE_NONE)
        return false;
    next = &e->packet[e->join[i].next];
    return next->dst == p->dst && next->group == p->group && next->class == p->class;
}

/* Does it need places for all of it before its head is sent? What can never have them gets a NACK. */
static bool packet_collects(const struct engine *e, const struct engine_packet *p)
{
    return p->group && p->segs > 1 && p->segs <= 1 + e->profile->pool_places;
}

/*
 * Open one of @channels for a waiting packet, and send its head or collect places for it. False: not
 * now.
 */
static bool send_head(struct engine *e, struct engine_link *l, uint32_t priority,
                      uint32_t channels, uint64_t at_ps)
{
    uint32_t usable = l->books.usable;
    uint16_t i = waiting_first(e, l, priority);
    struct engine_packet *p;

    if (i == ENGINE_NONE)
        return false;
    p = &e->packet[i];
    if (packet_collects(e, p) && emu_channels_collecting(&l->books))
        return false;
    p->more = packet_follows(e, i);
    waiting_drop(e, i);
    if (i == e->forming)
        e->forming = ENGINE_NONE;
    emu_count(p->tries ? &e->counts.retransmissions : &e->counts.packets, 1);
    if (!p->tries++ && p->class != ENGINE_TEST)
        flow_number(e, i);
    p->tag = (p->seq << ENGINE_TRY_BITS | (p->tries & ((1u << ENGINE_TRY_BITS) - 1))) ^
             engine_flow_key(e->node, p->dst, p->group);
    p->state = ENGINE_AWAITING;
    p->sent = 0;
    p->link = (uint8_t)(l - e->link);
    l->books.usable = channels; /* those with room */
    p->channel = (uint8_t)emu_channels_open(&l->books, p->tag);
    l->books.usable = usable;
    l->packet[p->channel] = i;
    e->turn = p->link;
    p->due_ps = e->now_ps + e->timeout_ps;
    timer_add(e, &e->awaiting, i);
    if (packet_collects(e, p))
        emu_channels_promise(&l->books, p->channel, p->segs);
    if (emu_channels_room(&l->books) >> p->channel & 1)
        send_segment(e, l, p->channel, at_ps);
    else
        l->left[p->priority] |= 1u << p->channel;
    return true;
}

/* Of @channels, the one served last, or the next one after it: the order in which they were opened. */
static uint32_t next_channel(uint32_t channels, uint32_t at)
{
    uint32_t from = channels & UINT32_MAX << at;

    return emu_bits_first(from ? from : channels);
}

/*
 * Channels that a packet of @priority may open. The last one is not for bulk: a packet above it would
 * have to wait for a bulk packet's reply.
 */
static uint32_t link_closed(const struct engine *e, const struct engine_link *l, uint32_t priority)
{
    uint32_t closed = l->books.usable & ~l->books.open;
    bool keeps = !priority && e->profile->channels >= EMU_CHANNELS_KEPT_OF;

    return keeps && !emu_bits_several(closed) ? 0 : closed;
}

bool engine_send(struct engine *e, struct engine_link *l, uint64_t at_ps)
{
    uint32_t room, left = 0;

    l->blocked = false;
    if (l->replies) {
        send_reply(e, l, at_ps);
        return true;
    }
    room = emu_channels_room(&l->books);
    for (uint32_t priority = EMU_PRIORITIES; priority-- > 0;) {
        uint32_t begun = l->left[priority] & room;

        left |= l->left[priority];
        if (begun) {
            send_segment(e, l, next_channel(begun, l->at), at_ps);
            return true;
        }
        if (e->waiting_any >> priority & 1) {
            uint32_t closed = link_closed(e, l, priority);

            if (!(closed & room))
                left |= closed; /* it would do, but for its place */
            else if (send_head(e, l, priority, closed & room, at_ps))
                return true;
        }
    }
    l->blocked = left;
    if (l->blocked)
        emu_count(&l->tx.counts.stalls, 1);
    return false;
}
