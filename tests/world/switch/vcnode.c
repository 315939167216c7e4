/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vcnode.c - a node of a vcnet: speaks the contract of emu/packet/packet.h itself, sends its posts,
 * and notes what comes.
 */
#include <assert.h>
#include <string.h>

#include "emu/packet/crc.h"
#include "emu/util/bits.h"
#include "tests/test.h"
#include "tests/world/switch/vcnet.h"

/* --- what it sends ------------------------------------------------------------------ */

void vcnode_take_credits(struct vcnode *p, uint64_t at_ps)
{
    const struct emu_credit *back;

    while ((back = emu_credit_front(&p->tx.credit)) && back->time_ps <= at_ps) {
        for (uint32_t i = 0; i < back->count; i++) {
            assert(p->vcs.used[back->channel]);
            emu_vcs_return(&p->vcs, back->channel);
        }
        emu_credit_skip(&p->tx.credit);
    }
}

/* What byte @i of segment @index of packet @tag is. */
static uint8_t payload_byte(uint32_t tag, uint32_t index, uint32_t i)
{
    return (uint8_t)((tag * 31 + index * 7 + i) ^ tag >> 8);
}

static uint32_t carried(uint32_t bytes, uint32_t index)
{
    return emu_packet_wire_bytes(bytes, index) - (index ? EMU_CONT_BYTES : EMU_HEAD_BYTES);
}

static uint32_t payload_make(struct vcnode *p, uint32_t tag, uint32_t bytes, uint32_t index,
                             uint32_t *crc)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    uint32_t buf;
    uint8_t *at;

    if (!p->world->payload)
        return EMU_NO_BUF;
    buf = emu_pool_take(cache);
    assert(buf != EMU_NO_BUF);
    at = (uint8_t *)emu_pool_seg(cache->pool, buf);
    for (uint32_t i = 0; i < carried(bytes, index); i++)
        at[i] = payload_byte(tag, index, i);
    *crc = emu_crc32(*crc, at, carried(bytes, index));
    return buf;
}

/* Are places for all of it taken before its head is sent? (channel/allocate.h says why.) */
static bool node_collects(const struct vcnode *p, const struct vcnet_post *post)
{
    uint32_t segments = emu_packet_segments(post->bytes);

    return post->group && segments > 1 && segments <= 1 + p->world->profile.pool_slots;
}

static struct vcnet_post *node_post_at(struct vcnode *p, uint32_t c)
{
    return &p->post[p->out[c].post];
}

static void node_put(struct vcnode *p, struct emu_entry *entry, uint64_t at_ps)
{
    if (p->dev.timed)
        emu_tx_depart_packet(&p->tx, entry, at_ps);
    else
        emu_tx_send(&p->tx, entry);
    emu_tx_flush(&p->tx);
}

static void node_send_segment(struct vcnode *p, uint32_t c, uint64_t at_ps)
{
    struct vcnode_out *out = &p->out[c];
    struct vcnet_post *post = node_post_at(p, c);
    uint32_t index = out->sent++;
    bool last = out->sent == out->segments;
    struct emu_entry entry = {
        .packet = {.tag = post->tag,
                   .channel = (uint8_t)c,
                   .last = last,
                   .wire = (uint8_t)(emu_packet_wire_bytes(post->bytes, index) - 1)},
    };

    if (index) {
        struct emu_cont cont = {.channel = (uint8_t)c,
                                .priority = post->priority,
                                .index = (uint8_t)index,
                                .last = last};

        entry.packet.kind = EMU_PACKET_CONT;
        entry.packet.cont = emu_cont_pack(&cont);
    } else {
        struct emu_head head = {.channel = (uint8_t)c,
                                .priority = post->priority,
                                .group = post->group,
                                .dst = post->dst,
                                .bytes = post->bytes};

        entry.packet.kind = EMU_PACKET_HEAD;
        entry.packet.head = emu_head_pack(&head);
        post->crc = 0;
        post->head_ps = at_ps;
    }
    entry.buf = payload_make(p, post->tag, post->bytes, index, &post->crc);
    entry.crc = last ? post->crc : 0;
    emu_vcs_spend(&p->vcs, c);
    out->since_ps = at_ps;
    out->over = last;
    node_put(p, &entry, at_ps);
}

/* The post of @priority that is opened next, if there is one and it is ready by @at_ps. */
static struct vcnet_post *node_next_post(struct vcnode *p, uint32_t priority, uint64_t at_ps)
{
    while (p->next[priority] < p->posts && p->post[p->next[priority]].priority != priority)
        p->next[priority]++;
    if (p->next[priority] >= p->posts || p->post[p->next[priority]].ready_ps > at_ps)
        return NULL;
    if (p->post[p->next[priority]].state == POST_OPEN) /* endless, and still under way */
        return NULL;
    return &p->post[p->next[priority]];
}

/* May it open a channel for @post: with a place for a segment, or to collect them? */
static bool node_may_open(const struct vcnode *p, const struct vcnet_post *post)
{
    struct emu_vcs trial = p->vcs;
    int c;

    if (emu_vcs_pending(&p->vcs) >= p->open_max && !post->priority)
        return false;
    c = emu_vcs_open(&trial, 0);
    if (c < 0)
        return false;
    if (node_collects(p, post))
        return !emu_vcs_collecting(&p->vcs);
    return emu_vcs_room(&p->vcs) >> c & 1;
}

static void node_open(struct vcnode *p, struct vcnet_post *post, uint64_t at_ps)
{
    uint32_t c = (uint32_t)emu_vcs_open(&p->vcs, post->tag);
    uint32_t segments = emu_packet_segments(post->bytes);

    p->last_channel = c;
    p->out[c] = (struct vcnode_out){.post = (uint32_t)(post - p->post),
                                    .since_ps = at_ps,
                                    .segments = (uint8_t)segments};
    post->state = POST_OPEN;
    p->next[post->priority]++;
    if (node_collects(p, post))
        emu_vcs_promise(&p->vcs, c, segments);
    if (emu_vcs_room(&p->vcs) >> c & 1)
        node_send_segment(p, c, at_ps);
}

/* Channels of @priority with something to send that has room. */
static uint32_t node_ready(struct vcnode *p, uint32_t priority)
{
    uint32_t ready = 0;

    emu_each_bit (c, p->vcs.open & emu_vcs_room(&p->vcs))
        if (!p->out[c].over && node_post_at(p, c)->priority == priority)
            ready |= 1u << c;
    return ready;
}

/* Is there anything that only room, or a channel, is missing for? */
static bool node_blocked(struct vcnode *p, uint64_t at_ps)
{
    emu_each_bit (c, p->vcs.open)
        if (!p->out[c].over)
            return true;
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        if (node_next_post(p, priority, at_ps))
            return true;
    return false;
}

/* Send one thing that may go at @at_ps. False: there is none. */
static bool node_send(struct vcnode *p, uint64_t at_ps)
{
    vcnode_take_credits(p, at_ps);
    if (p->replies && p->reply[0].ready_ps <= at_ps) {
        const struct vcnode_reply *r = &p->reply[0];
        struct emu_entry entry = {.packet = {.tag = r->tag,
                                             .channel = r->channel,
                                             .last = 1,
                                             .kind = r->nack ? EMU_PACKET_NACK : EMU_PACKET_ACK,
                                             .wire = EMU_REPLY_BYTES - 1},
                                  .buf = EMU_NO_BUF};

        memmove(p->reply, p->reply + 1, --p->replies * sizeof p->reply[0]);
        node_put(p, &entry, at_ps);
        return true;
    }
    for (uint32_t priority = EMU_PRIORITIES; priority--;) {
        struct vcnet_post *post = node_next_post(p, priority, at_ps);
        uint32_t ready = node_ready(p, priority);

        if (ready) { /* one packet after the other */
            if (!(ready >> p->last_channel & 1))
                p->last_channel = emu_bits_next(ready, p->last_channel);
            node_send_segment(p, p->last_channel, at_ps);
            return true;
        }
        if (post && node_may_open(p, post)) {
            node_open(p, post, at_ps);
            return true;
        }
    }
    return false;
}

/* Timed: when it will try to send next. */
static uint64_t node_send_ps(struct vcnode *p)
{
    uint64_t base_ps = p->now_ps > p->tx.busy_ps ? p->now_ps : p->tx.busy_ps;
    uint64_t at_ps = EMU_NEVER;
    const struct emu_credit *back;

    vcnode_take_credits(p, base_ps);
    if (p->replies)
        at_ps = p->reply[0].ready_ps > base_ps ? p->reply[0].ready_ps : base_ps;
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++) {
        struct vcnet_post *post = node_next_post(p, priority, EMU_NEVER);

        if (node_ready(p, priority))
            at_ps = base_ps;
        if (post && post->ready_ps > base_ps && post->ready_ps < at_ps)
            at_ps = post->ready_ps;
        if (post && post->ready_ps <= base_ps && node_may_open(p, post))
            at_ps = base_ps;
    }
    back = emu_credit_front(&p->tx.credit);
    if (back && at_ps > back->time_ps && node_blocked(p, base_ps))
        at_ps = back->time_ps > base_ps ? back->time_ps : base_ps;
    return at_ps;
}

/* --- what comes --------------------------------------------------------------------- */

static void node_end(struct vcnode *p, uint32_t c, enum post_state state, uint64_t at_ps)
{
    struct vcnet_post *post = node_post_at(p, c);

    post->state = (uint8_t)state;
    post->reply_ps = at_ps;
    emu_vcs_forget(&p->vcs, c);
    p->out[c].over = true;
    if (p->endless) {
        post->state = POST_WAITS;
        post->tag += 1u << 12; /* a tag of its own for each try */
        if (p->next[post->priority] >= p->posts)
            p->next[post->priority] = 0;
    }
}

static void node_replied(struct vcnode *p, const struct emu_packet_hdr *hdr, uint64_t at_ps)
{
    if (!emu_vcs_close(&p->vcs, hdr->channel, hdr->tag))
        p->stale++;
    else
        node_end(p, hdr->channel, hdr->kind == EMU_PACKET_ACK ? POST_ACKED : POST_NACKED, at_ps);
}

static void node_answer(struct vcnode *p, uint32_t c, uint64_t ready_ps)
{
    struct vcnode_in *in = &p->in[c];
    uint64_t draw = in->tag;
    struct vcnode_reply reply = {.ready_ps = ready_ps, .tag = in->tag, .channel = (uint8_t)c};
    uint32_t i;

    reply.nack = !in->good || test_random(&draw) % 1000 < p->refuse;
    in->open = false;
    if (p->silent)
        return;
    assert(p->replies < sizeof p->reply / sizeof p->reply[0]);
    for (i = p->replies++; i && p->reply[i - 1].ready_ps > ready_ps; i--)
        p->reply[i] = p->reply[i - 1];
    p->reply[i] = reply;
}

static void node_note(struct vcnode *p, const struct vcnode_in *in, uint64_t whole_ps)
{
    p->packets_got++;
    if (p->quiet)
        return;
    p->got = world_room(p->got, p->gots, &p->gots_room, sizeof *p->got);
    p->got[p->gots] = (struct vcnet_got){.head_ps = in->head_ps,
                                         .whole_ps = whole_ps,
                                         .tag = in->tag,
                                         .bytes = in->bytes,
                                         .priority = in->priority,
                                         .good = in->good};
    p->gots++;
}

/* The payload of a segment: into the CRC-32. */
static void payload_take(struct vcnode *p, struct vcnode_in *in, uint32_t index, uint32_t buf)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;

    if (buf != EMU_NO_BUF)
        in->crc = emu_crc32(in->crc, emu_pool_seg(cache->pool, buf), carried(in->bytes, index));
}

static bool node_head(struct vcnode *p, const struct emu_entry *entry)
{
    struct vcnode_in *in = &p->in[entry->packet.channel];
    struct emu_head head = {0};

    if (!emu_head_unpack(&head, entry->packet.head) || head.channel != entry->packet.channel)
        return false;
    if (in->open && in->tag == entry->packet.tag)
        return false;
    for (uint32_t i = 0; i < p->replies; i++)
        if (p->reply[i].channel == head.channel)
            memmove(&p->reply[i], &p->reply[i + 1], (--p->replies - i) * sizeof p->reply[0]);
    *in = (struct vcnode_in){.open = true,
                             .good = true,
                             .tag = entry->packet.tag,
                             .bytes = head.bytes,
                             .index = 1,
                             .priority = head.priority,
                             .last = (uint8_t)(emu_packet_segments(head.bytes) - 1),
                             .head_ps = entry->time_ps};
    payload_take(p, in, 0, entry->buf);
    return true;
}

static bool node_cont(struct vcnode *p, const struct emu_entry *entry)
{
    struct vcnode_in *in = &p->in[entry->packet.channel];
    struct emu_cont cont = {0};

    if (!emu_cont_unpack(&cont, entry->packet.cont) || cont.channel != entry->packet.channel ||
        !in->open || in->tag != entry->packet.tag)
        return false;
    if (cont.index < in->index)
        return false;
    in->good &= cont.index == in->index && cont.last == (cont.index == in->last);
    in->index = (uint8_t)(cont.index + 1);
    payload_take(p, in, cont.index, entry->buf);
    return true;
}

static void node_arrive(struct vcnode *p, const struct emu_entry *entry, enum emu_fate fate,
                        uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint64_t whole_ps = at_ps + (hdr->wire + 1u) * p->world->profile.link_ps_per_byte;
    bool taken;

    if (hdr->kind == EMU_PACKET_ACK || hdr->kind == EMU_PACKET_NACK) {
        if (fate != EMU_FATE_LOST)
            node_replied(p, hdr, at_ps);
        return;
    }
    p->segments_got++;
    p->served_ps = (at_ps > p->served_ps ? at_ps : p->served_ps) + p->service_ps;
    taken = fate != EMU_FATE_LOST &&
            (hdr->kind == EMU_PACKET_HEAD ? node_head(p, entry) : node_cont(p, entry));
    if (taken && hdr->last) {
        struct vcnode_in *in = &p->in[hdr->channel];

        in->good &= !p->world->payload || in->crc == entry->crc;
        node_note(p, in, whole_ps);
        node_answer(p, hdr->channel, p->dev.timed ? whole_ps + p->service_ps : 0);
    }
    p->bad += !taken;
    emu_pool_drop(&p->dev.worker->cache, entry->buf);
    if (fate == EMU_FATE_TWICE)
        p->twice++;
    else
        emu_rx_pay_channel(&p->rx, hdr->channel,
                           p->dev.timed ? p->served_ps + p->world->profile.credit_ps : 0);
}

/* When the first of its packets is given up. */
static uint64_t node_late_ps(const struct vcnode *p, uint32_t *channel)
{
    uint64_t late_ps = EMU_NEVER;

    if (p->world->timeout_ps == EMU_NEVER)
        return late_ps;
    emu_each_bit (c, p->vcs.open)
        if (p->out[c].since_ps + p->world->timeout_ps < late_ps) {
            late_ps = p->out[c].since_ps + p->world->timeout_ps;
            *channel = c;
        }
    return late_ps;
}

static void node_give_up(struct vcnode *p, uint32_t c, uint64_t at_ps)
{
    p->vcs.open &= ~(1u << c);
    node_end(p, c, POST_TIMED_OUT, at_ps);
}

static bool node_take(struct vcnode *p, uint64_t until_ps, struct emu_entry *entry,
                      enum emu_fate *fate)
{
    const struct emu_entry *front;

    if (p->faults)
        return emu_faults_take(p->faults, &p->rx, &p->dev.worker->cache, until_ps, entry, fate);
    front = emu_rx_front(&p->rx, until_ps);
    if (!front)
        return false;
    *entry = *front;
    *fate = EMU_FATE_ARRIVED;
    emu_rx_skip(&p->rx);
    emu_rx_done(&p->rx, 1);
    return true;
}

static uint32_t node_step_raw(struct vcnode *p)
{
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t moved = 0, c = 0;
    uint64_t now_ps = p->world->timeout_ps == EMU_NEVER ? 0 : emu_host_ps(0);

    vcnode_take_credits(p, 0);
    for (; node_take(p, 0, &entry, &fate); moved++)
        node_arrive(p, &entry, fate, 0);
    while (node_late_ps(p, &c) <= now_ps && now_ps)
        node_give_up(p, c, 0);
    for (uint32_t sent = 0; sent < 64 && node_send(p, now_ps); sent++)
        moved++;
    if (moved || p->vcs.open)
        emu_dev_again(&p->dev);
    return moved;
}

uint32_t vcnode_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct vcnode *p = (struct vcnode *)dev;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    if (!dev->timed)
        return node_step_raw(p);
    for (uint32_t moved = 0;; moved++) {
        struct emu_entry entry;
        enum emu_fate fate;
        uint32_t c = 0;
        uint64_t come_ps = p->faults ? emu_faults_next_ps(p->faults, &p->rx)
                                     : emu_rx_next_ps(&p->rx);
        uint64_t late_ps = node_late_ps(p, &c);
        uint64_t send_ps = node_send_ps(p);
        uint64_t next_ps = come_ps < late_ps ? come_ps : late_ps;

        next_ps = send_ps < next_ps ? send_ps : next_ps;
        if (next_ps > until_ps) {
            dev->next_ps = next_ps;
            return moved;
        }
        if (p->now_ps < next_ps) /* clock real: what was seen late does not turn it back */
            p->now_ps = next_ps;
        if (come_ps <= next_ps) {
            if (node_take(p, come_ps, &entry, &fate))
                node_arrive(p, &entry, fate, come_ps);
        } else if (late_ps <= next_ps) {
            node_give_up(p, c, late_ps);
        } else {
            node_send(p, send_ps);
        }
    }
}
