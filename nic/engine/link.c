/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - chooses the next entry that a link sends: a reply, a segment of a packet that it has
 * started, or a new packet.
 *
 * A link sends replies first. Then it serves the highest priority that can send. Within a priority
 * it continues the packet that it served last. If there is no space for the next segment of that
 * packet, it continues another packet that it has started. It starts a new packet only if it cannot
 * continue any started packet. So the segments of several packets interleave if one of them has to
 * wait, and a packet of a higher priority waits for one segment at most. Source: QsNet III §III,
 * §IV-B. Deviation: the choice among several started packets.
 */
#include "nic/engine/internal.h"

/* --- credits and replies ------------------------------------------------------------ */

void engine_take_credits(struct engine_link *l, uint64_t until_ps)
{
    const struct emu_credit *back;

    while ((back = emu_credit_front(&l->tx.credit)) && back->time_ps <= until_ps) {
        uint32_t c = back->channel % EMU_VCS;

        emu_vcs_return_all(&l->vcs, c, back->count);
        emu_credit_skip(&l->tx.credit);
    }
}

void engine_link_close(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];
    struct engine_link *l = &e->link[p->link];

    l->left[p->priority] &= ~(1u << p->channel);
    emu_vcs_forget(&l->vcs, p->channel);
    engine_list_drop(&e->send.awaiting, e->send.join, i);
    engine_wake(l, at_ps);
}

void engine_link_reply(struct engine *e, struct engine_link *l, const struct emu_packet_hdr *reply,
                       uint64_t at_ps)
{
    uint32_t c = reply->channel;
    uint16_t i;

    if (c >= EMU_VCS || !emu_vcs_close(&l->vcs, c, reply->tag)) {
        emu_count(&e->counts.stale, 1);
        return;
    }
    i = l->packet[c];
    engine_link_close(e, i, at_ps);
    e->send.packet[i].late = 0;
    if (reply->kind == EMU_PACKET_ACK)
        emu_count(&e->counts.acks, 1);
    /* a NACK is a regular answer to a conditional: engine_tested() */
    else if (e->send.packet[i].class != ENGINE_TEST)
        emu_count(&e->counts.nacks, 1);
    engine_replied(e, i, reply->kind == EMU_PACKET_ACK, at_ps);
}

/* --- sending ------------------------------------------------------------------------ */

/*
 * Return whether the ring has slots for @count entries, 1 or more. Between two local devices it
 * always has these: one for each buffer slot of the remote end, one for a reply on each channel,
 * and one for a segment that was sent just before its packet was dropped. (The end that drops a
 * packet has emptied the ring first, so there is only one such segment.) In the ring of a cable to
 * another host, slots become free only when that host reports this. A malicious host may never
 * report it.
 */
static inline bool link_has_slots(const struct engine_link *l, uint32_t count)
{
    struct emu_ring_end last = l->tx.data;

    last.at += count - 1; /* slots are freed in order, so only the last one is checked */
    return emu_ring_has_slot(&last);
}

static void send_reply(struct engine_link *l, struct emu_entry *entry)
{
    uint32_t c = emu_bits_first(l->replies);
    bool nack = l->nacks >> c & 1;

    entry->packet = (struct emu_packet_hdr){.tag = l->reply_tag[c],
                                            .kind = nack ? EMU_PACKET_NACK : EMU_PACKET_ACK,
                                            .wire = EMU_REPLY_BYTES - 1,
                                            .channel = (uint8_t)c,
                                            .last = 1};
    entry->buf = EMU_NO_BUF;
    entry->crc = 0;
    l->replies &= l->replies - 1;
}

static inline uint64_t segment_rest(const struct engine_packet *p, uint32_t s, uint32_t c)
{
    bool last = s + 1 == p->segs;
    uint32_t wire = last ? emu_packet_last_wire(p->bytes, p->segs) : EMU_SEG_BYTES;
    struct emu_packet_hdr hdr = {.tag = p->tag,
                                 .kind = s ? EMU_PACKET_CONT : EMU_PACKET_HEAD,
                                 .wire = (uint8_t)(wire - 1),
                                 .channel = (uint8_t)c,
                                 .last = last};

    return hdr.rest;
}

/* Return the packet's destination on the wire: a node, or the slot of a tree of the group. */
static inline uint16_t wire_dst(const struct engine_packet *p)
{
    return (uint16_t)(p->dst + p->tree);
}

/* Return the first word of a head's header; segment_cont() returns that of a continuation. */
static inline uint64_t segment_head(const struct engine_packet *p, uint32_t c, uint64_t at_ps)
{
    return emu_head_pack(&(struct emu_head){.channel = (uint8_t)c,
                                            .priority = p->priority,
                                            .group = p->group,
                                            .more = p->more,
                                            .dst = wire_dst(p),
                                            .bytes = p->bytes,
                                            .stamp = at_ps / 64000 % 1024});
}

static inline uint64_t segment_cont(const struct engine_packet *p, uint32_t s, uint32_t c)
{
    return emu_cont_pack(&(struct emu_cont){.channel = (uint8_t)c,
                                            .priority = p->priority,
                                            .index = (uint8_t)s,
                                            .last = s + 1 == p->segs});
}

/*
 * Put the payload buffer of segment @s of packet @p into @entry, with a new reference, and the CRC
 * if it is the last segment.
 */
static inline void segment_payload(struct engine *e, const struct engine_packet *p, uint32_t s,
                                   struct emu_entry *entry)
{
    uint32_t buf = s < p->count ? p->buf[s] : EMU_NO_BUF;

    emu_pool_share(engine_cache(e)->pool, buf, 1);
    entry->buf = buf;
    entry->crc =
        s + 1 == p->segs ? engine_crc(p->crc, p->tag, wire_dst(p), p->group, e->incarnation) : 0;
}

/* Account for one or more segments of packet @p that were sent on channel @c. */
static inline void segment_sent(struct engine *e, struct engine_link *l, struct engine_packet *p,
                                uint32_t c)
{
    if (p->sent == p->segs)
        l->left[p->priority] &= ~(1u << c);
    else
        l->left[p->priority] |= 1u << c;
    p->active_ps = e->now_ps;
}

/* Fill in the next segment of the packet on the open channel @c, for which there is space. */
static void send_segment(struct engine *e, struct engine_link *l, uint32_t c,
                         struct emu_entry *entry, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[l->packet[c]];
    uint32_t s = p->sent++;

    entry->packet.head = s ? segment_cont(p, s, c) : segment_head(p, c, at_ps);
    entry->packet.rest = segment_rest(p, s, c);
    segment_payload(e, p, s, entry);
    segment_sent(e, l, p, c);
    emu_vcs_spend(&l->vcs, c);
    l->at = (uint8_t)c;
}

/*
 * Return the first packet waiting with @priority that link @l may send; ENGINE_NONE: none. The
 * search ends after ENGINE_SCAN packets whose windows are full. Packets that must use another link
 * do not count, because no event would wake this link when they have gone.
 */
static uint16_t waiting_first(struct engine *e, const struct engine_link *l, uint32_t priority)
{
    uint32_t link = (uint32_t)(l - e->link), closed = 0;

    for (uint16_t i = e->send.waiting[priority].first; i != ENGINE_NONE; i = e->send.join[i].next) {
        const struct engine_packet *p = &e->send.packet[i];

        if (p->only && p->only != link + 1)
            continue;
        if (engine_flow_open(e, p))
            return i;
        if (++closed == ENGINE_SCAN)
            break; /* engine_free() wakes the links when a window has space */
    }
    return ENGINE_NONE;
}

/* Return whether a packet to the same destination waits right behind packet @i. */
static bool packet_follows(const struct engine *e, uint16_t i)
{
    const struct engine_packet *p = &e->send.packet[i], *next;

    if (e->send.join[i].next == ENGINE_NONE)
        return false;
    next = &e->send.packet[e->send.join[i].next];
    return next->dst == p->dst && next->group == p->group && next->class == p->class;
}

/*
 * Return whether the packet must reserve slots for all its segments before its head is sent. A
 * packet that needs more slots than exist reserves none, and a switch answers it with a NACK.
 */
static bool packet_collects(const struct engine *e, const struct engine_packet *p)
{
    return p->group && p->segs > 1 && p->segs <= 1 + e->profile->pool_slots;
}

/* Start the next try of packet @i on one of @channels, which have space. */
static void open_channel(struct engine *e, struct engine_link *l, uint16_t i, uint32_t channels)
{
    struct engine_packet *p = &e->send.packet[i];
    uint32_t usable = l->vcs.usable;

    /* each test of a conditional counts as a new packet, because the previous one was answered */
    emu_count(p->tries && p->class != ENGINE_TEST ? &e->counts.retransmissions : &e->counts.packets,
              1);
    if (!p->tries++ && p->class != ENGINE_TEST)
        engine_flow_number(e, i);
    /*
     * p->tries does not show whether the packet was sent, because repeated conditionals begin with
     * more than 0 tries
     */
    if (!p->has_crc)
        p->crc = engine_payload_crc(e, p->buf, p->count);
    p->has_crc = true;
    p->tag = (p->seq << ENGINE_TRY_BITS | (p->tries & ((1u << ENGINE_TRY_BITS) - 1))) ^
             engine_flow_key(e->node, p->dst, p->group);
    p->sent = 0;
    p->link = (uint8_t)(l - e->link);
    l->vcs.usable = channels;
    p->channel = (uint8_t)emu_vcs_open(&l->vcs, p->tag);
    l->vcs.usable = usable;
    l->packet[p->channel] = i;
    e->send.last_served = p->link;
    engine_await(e, i);
}

static void begin_channel(struct engine *e, struct engine_link *l, uint16_t i, uint32_t channels)
{
    e->send.packet[i].more = packet_follows(e, i);
    engine_waiting_drop(e, i);
    if (i == e->send.forming)
        e->send.forming = ENGINE_NONE;
    open_channel(e, l, i, channels);
}

/* Open one of @channels for a waiting packet. Send its head, or begin to reserve slots for it. */
static enum engine_sent send_head(struct engine *e, struct engine_link *l, uint32_t priority,
                                  uint32_t channels, struct emu_entry *entry, uint64_t at_ps)
{
    uint16_t i = waiting_first(e, l, priority);
    struct engine_packet *p;

    if (i == ENGINE_NONE)
        return ENGINE_SENT_NOTHING;
    p = &e->send.packet[i];
    if (packet_collects(e, p) && emu_vcs_collecting(&l->vcs))
        return ENGINE_SENT_NOTHING;
    begin_channel(e, l, i, channels);
    if (packet_collects(e, p))
        emu_vcs_promise(&l->vcs, p->channel, p->segs);
    if (!(emu_vcs_room(&l->vcs) >> p->channel & 1)) {
        l->left[p->priority] |= 1u << p->channel;
        return ENGINE_SENT_LATER;
    }
    send_segment(e, l, p->channel, entry, at_ps);
    return ENGINE_SENT;
}

/* Return the channel of @channels that was served last (@at), or the next one: round robin. */
static uint32_t next_channel(uint32_t channels, uint32_t at)
{
    uint32_t from = channels & UINT32_MAX << at;

    return emu_bits_first(from ? from : channels);
}

/*
 * Return the channels that a packet of @priority may open, as bits. Long packets leave some free
 * for higher priorities: emu_vcs_kept().
 */
static uint32_t link_openable(const struct engine *e, const struct engine_link *l,
                              uint32_t priority)
{
    uint32_t closed = l->vcs.usable & ~l->vcs.open;
    uint32_t kept = emu_vcs_kept(e->profile->channels, priority);

    return !kept || (uint32_t)__builtin_popcount(closed) > kept ? closed : 0;
}

/*
 * Return how many slots of the pool must be free before packet @i may follow other packets in an
 * iteration. Contributions to a collective leave half of the pool free. In an all-reduce, the
 * results travel on the same cables as the contributions, and each packet of results needs slots at
 * all members at once. In a reduce, two members may send to one, for example to the root in the
 * middle of a chain. If the pool were full, packets would wait in a switch, and everything behind
 * them would be sent in small parts. Measured with 4 adapters, the worker takes 1.2 times as long.
 */
static inline uint32_t packet_wants(const struct engine *e, uint16_t i)
{
    const struct engine_packet *p = &e->send.packet[i];
    uint32_t pool = e->profile->pool_slots, wants = p->segs - 1u + pool / 2;

    if (!pool || p->class != ENGINE_TREE || p->group)
        return 1;
    return wants < pool ? wants : pool;
}

/*
 * Clock raw: return whether a long packet, which has a @priority up to EMU_PRIORITY_LONG, is held
 * back until the next iteration, namely if this one has sent something and the pool has too few
 * free slots (packet_wants()). Without this rule, a packet would soon be in progress on every
 * channel. The link would send one segment of each in turn, and their buffers would leave the cache
 * before their last segments are sent. An iteration that has nothing else to send does start the
 * packet, because the slots may become free only after the packet was sent.
 */
static bool link_holds_back(struct engine *e, const struct engine_link *l, uint32_t priority)
{
    uint16_t next = e->send.waiting[priority].first;

    if (e->dev.timed || priority > EMU_PRIORITY_LONG || !l->tx.unnotified)
        return false;
    return l->vcs.pool < (next == ENGINE_NONE ? 1 : packet_wants(e, next));
}

/* Return, as bits, the priorities that have started or waiting packets. */
static inline uint32_t link_priorities(const struct engine *e, const struct engine_link *l)
{
    uint32_t some = e->send.waiting_any;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        some |= (uint32_t)(l->left[priority] != 0) << priority;
    return some;
}

enum engine_sent engine_link_send(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                                  uint64_t at_ps)
{
    uint32_t room, some, left = 0;

    l->blocked = false;
    l->full = !link_has_slots(l, 1);
    if (l->full)
        return ENGINE_SENT_NOTHING;
    if (l->replies) {
        send_reply(l, entry);
        return ENGINE_SENT;
    }
    room = emu_vcs_room(&l->vcs);
    for (some = link_priorities(e, l); some;) {
        uint32_t priority = emu_bits_last(some), begun = l->left[priority] & room;
        enum engine_sent sent;

        some ^= 1u << priority;
        left |= l->left[priority];
        if (begun) {
            send_segment(e, l, next_channel(begun, l->at), entry, at_ps);
            return ENGINE_SENT;
        }
        if (e->send.waiting_any >> priority & 1) {
            uint32_t closed = link_openable(e, l, priority);

            if (!(closed & room) || link_holds_back(e, l, priority))
                left |= closed; /* these channels have no space, or their packets are held back */
            else if ((sent = send_head(e, l, priority, closed & room, entry, at_ps)))
                return sent;
        }
    }
    l->blocked = left;
    if (l->blocked)
        emu_count(&l->tx.counts.stalls, 1);
    return ENGINE_SENT_NOTHING;
}

bool engine_link_holds_back(struct engine *e, const struct engine_link *l)
{
    if (l->full)
        return true;
    for (uint32_t priority = 0; priority <= EMU_PRIORITY_LONG; priority++)
        if (e->send.waiting_any >> priority & 1 && link_holds_back(e, l, priority))
            return true;
    return false;
}

/*
 * Put segments @from to @end - 1 of packet @p on channel @c into the ring at @to, which has space.
 * Computes the common part of their headers only once.
 */
static inline void run_put(struct engine *e, const struct engine_packet *p, uint32_t c,
                           uint32_t from, uint32_t end, struct emu_ring_end *to)
{
    uint64_t rest = segment_rest(p, 1, c), last_rest = segment_rest(p, p->segs - 1u, c);
    uint32_t cont = segment_cont(p, 0, c), last = p->segs - 1u;

    for (uint32_t s = from; s < end; s++) {
        struct emu_entry *slot = emu_ring_slot(to);
        uint32_t bits = s << EMU_CONT_INDEX | (s == last ? EMU_CONT_LAST : 0);

        slot->packet.head = cont ^ emu_cont_other(bits);
        slot->packet.rest = s == last ? last_rest : rest;
        segment_payload(e, p, s, slot);
        emu_ring_publish(emu_ring_next(to), 0);
    }
}

uint32_t engine_link_run(struct engine *e, struct engine_link *l)
{
    uint32_t c = l->at, sent;
    struct engine_packet *p = &e->send.packet[l->packet[c]];
    struct emu_ring_end to = l->tx.data;

    if (!(l->left[p->priority] >> c & 1) || l->vcs.paid >> c & 1)
        return 0;
    sent = emu_vcs_room_for(&l->vcs, c);
    sent = sent < (uint32_t)p->segs - p->sent ? sent : (uint32_t)p->segs - p->sent;
    if (!sent || !link_has_slots(l, sent))
        return 0;
    run_put(e, p, c, p->sent, p->sent + sent, &to);
    p->sent = (uint8_t)(p->sent + sent);
    emu_tx_sent(&l->tx, &to, sent);
    emu_vcs_spend_all(&l->vcs, c, sent);
    segment_sent(e, l, p, c);
    return sent;
}

/* --- link state and faults ---------------------------------------------------------- */

/*
 * End the tries of packets that await a reply on @l, and send them on another link. Returns the
 * number of these packets.
 */
static uint32_t link_fail(struct engine *e, struct engine_link *l, uint64_t at_ps)
{
    uint32_t hit = 0;
    uint16_t next;

    for (uint16_t i = e->send.awaiting.first; i != ENGINE_NONE; i = next) {
        struct engine_packet *p = &e->send.packet[i];

        next = e->send.join[i].next;
        if (p->link != l - e->link)
            continue;
        emu_vcs_close(&l->vcs, p->channel, p->tag);
        engine_link_close(e, i, at_ps);
        engine_replied(e, i, false, at_ps);
        hit++;
    }
    return hit;
}

uint32_t engine_link_set(struct engine *e, uint32_t link, bool up, uint64_t at_ps)
{
    struct engine_link *l = &e->link[link];
    uint32_t hit;

    assert(link < e->links);
    if (up == !(e->cut >> link & 1))
        return 0;
    e->cut ^= 1u << link;
    if (at_ps > e->now_ps)
        e->now_ps = at_ps; /* the engine may have been idle for a long time */
    l->vcs.usable = up ? (uint32_t)emu_bits_below(e->profile->channels) : 0;
    if (up) {
        engine_wake(l, at_ps);
        return 0;
    }
    hit = link_fail(e, l, at_ps);
    engine_host_notify(e); /* necessary because this is outside of a step */
    l->replies = 0; /* the packets are tried again when the remote end takes its link down, too */
    l->tx_ps = EMU_NEVER;
    return hit;
}

void engine_stick(struct engine *e, uint32_t link, bool stuck, uint64_t at_ps)
{
    struct engine_link *l = &e->link[link];

    emu_tx_stick(&l->tx, stuck, at_ps);
    l->tx_ps = EMU_NEVER;
    if (!stuck && !(e->cut >> link & 1))
        engine_wake(l, at_ps);
}

bool engine_is_ready(struct engine *e, uint32_t link)
{
    const struct engine_link *l = &e->link[link];
    uint32_t room = emu_vcs_room(&l->vcs);

    if (l->replies)
        return true;
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++) {
        uint16_t i;

        if (l->left[priority] & room)
            return true;
        if (!(e->send.waiting_any >> priority & 1) || !(link_openable(e, l, priority) & room))
            continue;
        i = waiting_first(e, l, priority);
        if (i != ENGINE_NONE &&
            !(packet_collects(e, &e->send.packet[i]) && emu_vcs_collecting(&l->vcs)))
            return true;
    }
    return false;
}

/* Report the next segment of packet @p to @report, unless that is NULL. Returns 1, for counting. */
static uint32_t waiting_report(const struct engine_packet *p,
                               void (*report)(void *ctx, const struct emu_entry *entry), void *ctx)
{
    uint32_t s = p->state == ENGINE_AWAITING ? p->sent : 0;
    struct emu_entry entry = {.packet = {.kind = s ? EMU_PACKET_CONT : EMU_PACKET_HEAD},
                              .buf = s < p->count ? p->buf[s] : EMU_NO_BUF};

    if (report)
        report(ctx, &entry);
    return 1;
}

uint32_t engine_waiting(const struct engine *e, uint32_t link,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx)
{
    const struct engine_link *l = &e->link[link];
    uint32_t waiting = 0;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++) {
        emu_each_bit (c, l->left[priority])
            waiting += waiting_report(&e->send.packet[l->packet[c]], report, ctx);
        for (uint16_t i = e->send.waiting[priority].first; i != ENGINE_NONE;
             i = e->send.join[i].next)
            if (e->links == 1 || e->send.packet[i].only == link + 1)
                waiting += waiting_report(&e->send.packet[i], report, ctx);
    }
    return waiting;
}

void engine_slow(struct engine *e, uint32_t link, struct emu_slow *slow, uint32_t factor)
{
    emu_tx_slow(&e->link[link].tx, slow, factor);
}

void engine_cut(struct engine *e, uint32_t dst, bool group)
{
    engine_flow_cut(e, (struct engine_to){.dst = dst, .group = group});
}

void engine_give_up(struct engine *e, uint64_t at_ps)
{
    uint16_t next;

    if (at_ps > e->now_ps)
        e->now_ps = at_ps;
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        for (uint16_t i = e->send.waiting[priority].first; i != ENGINE_NONE; i = next) {
            next = e->send.join[i].next;
            if (e->send.packet[i].class == ENGINE_TEST)
                continue; /* a waiting conditional delays only its own answer */
            engine_waiting_drop(e, i);
            if (i == e->send.forming)
                e->send.forming = ENGINE_NONE;
            emu_count(&e->counts.lost, e->send.packet[i].count);
            engine_back(e, i, ENGINE_NOTICE_FAILED, at_ps);
        }
    engine_host_notify(e); /* necessary because this is outside of a step */
}
