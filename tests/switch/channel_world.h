/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel_world.h - switches with channels between nodes that speak the contract of emu/packet/packet.h
 * themselves, send what a test has written down, and write down what comes and when.
 */
#ifndef TESTS_CHANNEL_WORLD_H
#define TESTS_CHANNEL_WORLD_H

#include <string.h>

#include "emu/packet/crc.h"
#include "emu/worker/windows.h"
#include "emu/worker/worker.h"
#include "switch/channel/channel.h"
#include "tests/test.h"

#define PROBES_MAX   256u
#define SWITCHES_MAX 256u
#define WORKERS_MAX  4u
#define GROUPS_MAX   16u
#define TAG_NODE     20u /* a tag is a node's number above, and that of its packet below */

enum post_state { POST_WAITS, POST_OPEN, POST_ACKED, POST_NACKED, POST_TIMED_OUT };

/* A packet to send. */
struct post {
    uint64_t ready_ps; /* no earlier */
    uint64_t head_ps;  /* its head left, */
    uint64_t reply_ps; /* and its reply came */
    uint32_t tag;
    uint32_t crc;
    uint16_t dst;
    uint16_t bytes;
    bool group;
    uint8_t priority;
    uint8_t state;
};

/* One that came. */
struct got {
    uint64_t head_ps;  /* its head came, */
    uint64_t whole_ps; /* and its last byte */
    uint32_t tag;
    uint16_t bytes;
    uint8_t priority;
    bool good; /* all of it, in order, as it was sent */
};

/* What is on a channel: sending, receiving. */
struct probe_out {
    uint32_t post;     /* index */
    uint64_t since_ps;
    uint8_t segments, sent;
    bool over;         /* nothing is left to send */
};

struct probe_in {
    bool open, good;
    uint8_t index, last;
    uint8_t priority;
    uint16_t bytes;
    uint32_t tag, crc;
    uint64_t head_ps;
};

struct probe_reply {
    uint64_t ready_ps;
    uint32_t tag;
    uint8_t channel;
    bool nack;
};

struct probe {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct world *world;
    uint32_t node;
    struct emu_channels books;
    struct emu_faults *faults;
    struct switch_dev *sw; /* at the other end, */
    uint32_t port;         /* and where */

    /* The test's wishes. */
    struct post *post;
    uint32_t posts, posts_room;
    uint32_t open_max;    /* channels that it opens at a time, for bulk */
    uint32_t refuse;      /* of a thousand packets, those that get a NACK */
    bool silent;          /* it never replies */
    uint64_t service_ps;  /* it takes no more than one segment in such a time */
    bool endless;         /* raw: posts are sent again and again */

    uint32_t next[EMU_PRIORITIES]; /* post to open next */
    struct probe_out out[EMU_CHANNELS];
    struct probe_in in[EMU_CHANNELS];
    struct probe_reply reply[4 * EMU_CHANNELS];
    uint32_t replies;
    uint32_t last_channel;
    uint64_t now_ps;
    uint64_t served_ps;
    struct got *got;
    uint32_t gots, gots_room;
    uint64_t segments_got, bad, stale, twice, packets_got;
    bool quiet;      /* keeps no list of what came */
};

struct world {
    struct topo_graph *graph; /* or NULL: the test made its own */
    struct emu_profile profile;
    enum emu_clock_mode clock;
    struct emu_pool *pool;
    struct emu_pool_cache cache;
    struct emu_worker *worker[WORKERS_MAX];
    uint32_t workers;
    struct emu_windows *windows;
    struct emu_thread *thread[WORKERS_MAX];
    struct switch_dev *sw[SWITCHES_MAX];
    uint32_t switches;
    struct probe *probe[PROBES_MAX];
    uint32_t probes;
    bool member[GROUPS_MAX][PROBES_MAX];
    struct switch_group *part[GROUPS_MAX * SWITCHES_MAX];
    struct switch_dev *part_sw[GROUPS_MAX * SWITCHES_MAX];
    uint32_t parts;
    struct emu_faults *faults; /* of all cables, if any */
    bool payload;              /* segments have buffers */
    uint64_t timeout_ps;       /* a node gives a packet up; EMU_NEVER */
    uint64_t now_ps;
};

/* --- a node: what it sends ----------------------------------------------------------- */

static inline uint32_t post_tag(const struct probe *p, uint32_t i)
{
    return p->node << TAG_NODE | (i + 1);
}

static inline void probe_take_credits(struct probe *p, uint64_t at_ps)
{
    const struct emu_credit *back;

    while ((back = emu_credit_front(&p->tx.credit)) && back->time_ps <= at_ps) {
        assert(p->books.used[back->channel]);
        emu_channels_return(&p->books, back->channel);
        emu_credit_skip(&p->tx.credit);
    }
}

/* What byte @i of segment @index of packet @tag is. */
static inline uint8_t payload_byte(uint32_t tag, uint32_t index, uint32_t i)
{
    return (uint8_t)((tag * 31 + index * 7 + i) ^ tag >> 8);
}

static inline uint32_t carried(uint32_t bytes, uint32_t index)
{
    return emu_packet_wire_bytes(bytes, index) - (index ? EMU_CONT_BYTES : EMU_HEAD_BYTES);
}

static inline uint32_t payload_make(struct probe *p, uint32_t tag, uint32_t bytes, uint32_t index,
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

/* Are places for all of it taken before its head is sent? (channel/route.c says why.) */
static inline bool probe_collects(const struct probe *p, const struct post *post)
{
    uint32_t segments = emu_packet_segments(post->bytes);

    return post->group && segments > 1 && segments <= 1 + p->world->profile.pool_places;
}

static inline struct post *probe_post_at(struct probe *p, uint32_t c)
{
    return &p->post[p->out[c].post];
}

static inline void probe_put(struct probe *p, struct emu_entry *entry, uint64_t at_ps)
{
    if (p->dev.timed)
        emu_tx_depart_packet(&p->tx, entry, at_ps);
    else
        emu_tx_send(&p->tx, entry);
    emu_tx_flush(&p->tx);
}

static inline void probe_send_segment(struct probe *p, uint32_t c, uint64_t at_ps)
{
    struct probe_out *out = &p->out[c];
    struct post *post = probe_post_at(p, c);
    uint32_t index = out->sent++;
    bool last = out->sent == out->segments;
    struct emu_entry entry = {.packet = {.tag = post->tag, .channel = (uint8_t)c, .last = last,
                                         .wire = (uint8_t)(emu_packet_wire_bytes(post->bytes, index) - 1)}};

    if (index) {
        struct emu_cont cont = {.channel = (uint8_t)c, .priority = post->priority,
                                .index = (uint8_t)index, .last = last};

        entry.packet.kind = EMU_PACKET_CONT;
        entry.packet.cont = emu_cont_pack(&cont);
    } else {
        struct emu_head head = {.channel = (uint8_t)c, .priority = post->priority,
                                .group = post->group, .dst = post->dst, .bytes = post->bytes};

        entry.packet.kind = EMU_PACKET_HEAD;
        entry.packet.head = emu_head_pack(&head);
        post->crc = 0;
        post->head_ps = at_ps;
    }
    entry.buf = payload_make(p, post->tag, post->bytes, index, &post->crc);
    entry.born_ns = last ? post->crc : 0;
    emu_channels_spend(&p->books, c);
    out->since_ps = at_ps;
    out->over = last;
    probe_put(p, &entry, at_ps);
}

/* The post of @priority that is opened next, if there is one and it is ready by @at_ps. */
static inline struct post *probe_next_post(struct probe *p, uint32_t priority, uint64_t at_ps)
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
static inline bool probe_may_open(const struct probe *p, const struct post *post)
{
    struct emu_channels trial = p->books;
    int c;

    if (emu_channels_pending(&p->books) >= p->open_max && !post->priority)
        return false;
    c = emu_channels_open(&trial, 0);
    if (c < 0)
        return false;
    if (probe_collects(p, post))
        return !emu_channels_collecting(&p->books);
    return emu_channels_room(&p->books) >> c & 1;
}

static inline void probe_open(struct probe *p, struct post *post, uint64_t at_ps)
{
    uint32_t c = (uint32_t)emu_channels_open(&p->books, post->tag);
    uint32_t segments = emu_packet_segments(post->bytes);

    p->last_channel = c;
    p->out[c] = (struct probe_out){.post = (uint32_t)(post - p->post), .since_ps = at_ps,
                                   .segments = (uint8_t)segments};
    post->state = POST_OPEN;
    p->next[post->priority]++;
    if (probe_collects(p, post))
        emu_channels_promise(&p->books, c, segments);
    if (emu_channels_room(&p->books) >> c & 1)
        probe_send_segment(p, c, at_ps);
}

/* Channels of @priority with something to send that has room. */
static inline uint32_t probe_ready(struct probe *p, uint32_t priority)
{
    uint32_t ready = 0;

    for (uint32_t left = p->books.open & emu_channels_room(&p->books); left; left &= left - 1) {
        uint32_t c = (uint32_t)__builtin_ctz(left);

        if (!p->out[c].over && probe_post_at(p, c)->priority == priority)
            ready |= 1u << c;
    }
    return ready;
}

/* Is there anything that only room, or a channel, is missing for? */
static inline bool probe_blocked(struct probe *p, uint64_t at_ps)
{
    for (uint32_t left = p->books.open; left; left &= left - 1)
        if (!p->out[__builtin_ctz(left)].over)
            return true;
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        if (probe_next_post(p, priority, at_ps))
            return true;
    return false;
}

/* Send one thing that may go at @at_ps. False: there is none. */
static inline bool probe_send(struct probe *p, uint64_t at_ps)
{
    probe_take_credits(p, at_ps);
    if (p->replies && p->reply[0].ready_ps <= at_ps) {
        const struct probe_reply *r = &p->reply[0];
        struct emu_entry entry = {.packet = {.tag = r->tag, .channel = r->channel, .last = 1,
                                             .kind = r->nack ? EMU_PACKET_NACK : EMU_PACKET_ACK,
                                             .wire = EMU_REPLY_BYTES - 1},
                                  .buf = EMU_NO_BUF};

        memmove(p->reply, p->reply + 1, --p->replies * sizeof(p->reply[0]));
        probe_put(p, &entry, at_ps);
        return true;
    }
    for (uint32_t priority = EMU_PRIORITIES; priority--;) {
        struct post *post = probe_next_post(p, priority, at_ps);
        uint32_t ready = probe_ready(p, priority);

        if (ready) { /* one packet after the other */
            if (!(ready >> p->last_channel & 1))
                p->last_channel = emu_bits_next(ready, p->last_channel);
            probe_send_segment(p, p->last_channel, at_ps);
            return true;
        }
        if (post && probe_may_open(p, post)) {
            probe_open(p, post, at_ps);
            return true;
        }
    }
    return false;
}

/* Timed: when it will try to send next. */
static inline uint64_t probe_send_ps(struct probe *p)
{
    uint64_t base_ps = p->now_ps > p->tx.busy_ps ? p->now_ps : p->tx.busy_ps;
    uint64_t at_ps = EMU_NEVER;
    const struct emu_credit *back;

    probe_take_credits(p, base_ps);
    if (p->replies)
        at_ps = p->reply[0].ready_ps > base_ps ? p->reply[0].ready_ps : base_ps;
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++) {
        struct post *post = probe_next_post(p, priority, EMU_NEVER);

        if (probe_ready(p, priority))
            at_ps = base_ps;
        if (post && post->ready_ps > base_ps && post->ready_ps < at_ps)
            at_ps = post->ready_ps;
        if (post && post->ready_ps <= base_ps && probe_may_open(p, post))
            at_ps = base_ps;
    }
    back = emu_credit_front(&p->tx.credit);
    if (back && at_ps > back->time_ps && probe_blocked(p, base_ps))
        at_ps = back->time_ps > base_ps ? back->time_ps : base_ps;
    return at_ps;
}

/* --- a node: what comes -------------------------------------------------------------------- */

static inline void probe_end(struct probe *p, uint32_t c, enum post_state state, uint64_t at_ps)
{
    struct post *post = probe_post_at(p, c);

    post->state = (uint8_t)state;
    post->reply_ps = at_ps;
    emu_channels_forget(&p->books, c);
    p->out[c].over = true;
    if (p->endless) {
        post->state = POST_WAITS;
        post->tag += 1u << 12; /* a tag of its own for each try */
        if (p->next[post->priority] >= p->posts)
            p->next[post->priority] = 0;
    }
}

static inline void probe_replied(struct probe *p, const struct emu_packet_hdr *hdr, uint64_t at_ps)
{
    if (!emu_channels_close(&p->books, hdr->channel, hdr->tag))
        p->stale++;
    else
        probe_end(p, hdr->channel, hdr->kind == EMU_PACKET_ACK ? POST_ACKED : POST_NACKED, at_ps);
}

static inline void probe_answer(struct probe *p, uint32_t c, uint64_t ready_ps)
{
    struct probe_in *in = &p->in[c];
    uint64_t draw = in->tag;
    struct probe_reply reply = {.ready_ps = ready_ps, .tag = in->tag, .channel = (uint8_t)c};
    uint32_t i;

    reply.nack = !in->good || test_random(&draw) % 1000 < p->refuse;
    in->open = false;
    if (p->silent)
        return;
    assert(p->replies < sizeof(p->reply) / sizeof(p->reply[0]));
    for (i = p->replies++; i && p->reply[i - 1].ready_ps > ready_ps; i--)
        p->reply[i] = p->reply[i - 1];
    p->reply[i] = reply;
}

static inline void probe_note(struct probe *p, const struct probe_in *in, uint64_t whole_ps)
{
    p->packets_got++;
    if (p->quiet)
        return;
    if (p->gots == p->gots_room) {
        p->gots_room = p->gots_room ? 2 * p->gots_room : 64;
        p->got = realloc(p->got, p->gots_room * sizeof(*p->got));
    }
    p->got[p->gots] = (struct got){.head_ps = in->head_ps, .whole_ps = whole_ps, .tag = in->tag,
                                   .bytes = in->bytes, .priority = in->priority,
                                   .good = in->good};
    p->gots++;
}

/* The payload of a segment: into the CRC-32. */
static inline void payload_take(struct probe *p, struct probe_in *in, uint32_t index, uint32_t buf)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;

    if (buf != EMU_NO_BUF)
        in->crc = emu_crc32(in->crc, emu_pool_seg(cache->pool, buf), carried(in->bytes, index));
}

static inline bool probe_head(struct probe *p, const struct emu_entry *entry)
{
    struct probe_in *in = &p->in[entry->packet.channel];
    struct emu_head head = {0};

    if (!emu_head_unpack(&head, entry->packet.head) || head.channel != entry->packet.channel)
        return false;
    if (in->open && in->tag == entry->packet.tag)
        return false;
    for (uint32_t i = 0; i < p->replies; i++)
        if (p->reply[i].channel == head.channel)
            memmove(&p->reply[i], &p->reply[i + 1],
                    (--p->replies - i) * sizeof(p->reply[0]));
    *in = (struct probe_in){.open = true, .good = true, .tag = entry->packet.tag,
                            .bytes = head.bytes, .index = 1, .priority = head.priority,
                            .last = (uint8_t)(emu_packet_segments(head.bytes) - 1),
                            .head_ps = entry->time_ps};
    payload_take(p, in, 0, entry->buf);
    return true;
}

static inline bool probe_cont(struct probe *p, const struct emu_entry *entry)
{
    struct probe_in *in = &p->in[entry->packet.channel];
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

static inline void probe_arrive(struct probe *p, const struct emu_entry *entry, enum emu_fate fate,
                                uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint64_t whole_ps = at_ps + (hdr->wire + 1u) * p->world->profile.link_ps_per_byte;
    bool taken;

    if (hdr->kind == EMU_PACKET_ACK || hdr->kind == EMU_PACKET_NACK) {
        if (fate != EMU_FATE_LOST)
            probe_replied(p, hdr, at_ps);
        return;
    }
    p->segments_got++;
    p->served_ps = (at_ps > p->served_ps ? at_ps : p->served_ps) + p->service_ps;
    taken = fate != EMU_FATE_LOST && (hdr->kind == EMU_PACKET_HEAD ? probe_head(p, entry)
                                                                  : probe_cont(p, entry));
    if (taken && hdr->last) {
        struct probe_in *in = &p->in[hdr->channel];

        in->good &= !p->world->payload || in->crc == entry->born_ns;
        probe_note(p, in, whole_ps);
        probe_answer(p, hdr->channel, p->dev.timed ? whole_ps + p->service_ps : 0);
    }
    p->bad += !taken;
    emu_pool_drop(&p->dev.worker->cache, entry->buf);
    if (fate == EMU_FATE_TWICE)
        p->twice++;
    else
        emu_rx_pay_channel(&p->rx, hdr->channel,
                           p->dev.timed ? p->served_ps + p->world->profile.credit_ps : 0);
}

/* --- a node: its step -------------------------------------------------------------------------- */

static inline uint64_t host_ps(void)
{
    return emu_host_ps(0);
}

/* When the first of its packets is given up. */
static inline uint64_t probe_late_ps(const struct probe *p, uint32_t *channel)
{
    uint64_t late_ps = EMU_NEVER;

    for (uint32_t left = p->world->timeout_ps == EMU_NEVER ? 0 : p->books.open; left;
         left &= left - 1) {
        uint32_t c = (uint32_t)__builtin_ctz(left);

        if (p->out[c].since_ps + p->world->timeout_ps < late_ps) {
            late_ps = p->out[c].since_ps + p->world->timeout_ps;
            *channel = c;
        }
    }
    return late_ps;
}

static inline void probe_give_up(struct probe *p, uint32_t c, uint64_t at_ps)
{
    p->books.open &= ~(1u << c);
    probe_end(p, c, POST_TIMED_OUT, at_ps);
}

static inline bool probe_take(struct probe *p, uint64_t until_ps, struct emu_entry *entry,
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

static inline uint32_t probe_step_raw(struct probe *p)
{
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t moved = 0, c = 0;
    uint64_t now_ps = p->world->timeout_ps == EMU_NEVER ? 0 : host_ps();

    probe_take_credits(p, 0);
    for (; probe_take(p, 0, &entry, &fate); moved++)
        probe_arrive(p, &entry, fate, 0);
    while (probe_late_ps(p, &c) <= now_ps && now_ps)
        probe_give_up(p, c, 0);
    for (uint32_t sent = 0; sent < 64 && probe_send(p, now_ps); sent++)
        moved++;
    if (moved || p->books.open)
        emu_dev_again(&p->dev);
    return moved;
}

static inline uint32_t probe_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct probe *p = (struct probe *)dev;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    if (!dev->timed)
        return probe_step_raw(p);
    for (uint32_t moved = 0;; moved++) {
        struct emu_entry entry;
        enum emu_fate fate;
        uint32_t c = 0;
        uint64_t come_ps = p->faults ? emu_faults_next_ps(p->faults, &p->rx)
                                     : emu_rx_next_ps(&p->rx);
        uint64_t late_ps = probe_late_ps(p, &c);
        uint64_t send_ps = probe_send_ps(p);
        uint64_t next_ps = come_ps < late_ps ? come_ps : late_ps;

        next_ps = send_ps < next_ps ? send_ps : next_ps;
        if (next_ps > until_ps) {
            dev->next_ps = next_ps;
            return moved;
        }
        if (p->now_ps < next_ps) /* clock real: what was seen late does not turn it back */
            p->now_ps = next_ps;
        if (come_ps <= next_ps) {
            if (probe_take(p, come_ps, &entry, &fate))
                probe_arrive(p, &entry, fate, come_ps);
        } else if (late_ps <= next_ps) {
            probe_give_up(p, c, late_ps);
        } else {
            probe_send(p, send_ps);
        }
    }
}

/* --- the world -------------------------------------------------------------------------------------- */

static inline void *world_zeros(size_t bytes)
{
    void *at = aligned_alloc(EMU_LINE, (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE);

    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    memset(at, 0, bytes);
    return at;
}

static inline struct probe *world_probe(struct world *w, uint32_t worker)
{
    struct probe *p = world_zeros(sizeof(*p));

    emu_dev_init(&p->dev, w->worker[worker], probe_step);
    p->world = w;
    p->node = w->probes;
    p->open_max = w->profile.channels < EMU_CHANNELS_KEPT_OF ? w->profile.channels
                                                             : w->profile.channels - 1;
    emu_channels_init(&p->books, w->profile.channels, w->profile.pool_places);
    w->probe[w->probes++] = p;
    return p;
}

static inline struct switch_dev *world_switch(struct world *w, uint32_t worker, uint32_t ports,
                                              const struct topo_route *route)
{
    CU_ASSERT_EQUAL_FATAL(switch_create(&w->sw[w->switches], w->worker[worker], ports, route,
                                        &w->profile, test_seed() * 31 + w->switches), 0);
    return w->sw[w->switches++];
}

static inline void world_plug(struct world *w, struct probe *p, struct switch_dev *sw,
                              uint32_t port)
{
    struct emu_dev *dev = switch_emu_dev(sw);

    p->sw = sw;
    p->port = port;
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&p->tx, &p->dev, 0, switch_rx(sw, port), dev,
                                        (uint8_t)port, EMU_CHANNEL_SLOTS, &w->profile), 0);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(switch_tx(sw, port), dev, (uint8_t)port, &p->rx, &p->dev,
                                        0, EMU_CHANNEL_SLOTS, &w->profile), 0);
}

/* One direction. */
static inline void world_cable(struct world *w, uint32_t from, uint32_t from_port, uint32_t to,
                               uint32_t to_port)
{
    CU_ASSERT_EQUAL_FATAL(emu_link_join(switch_tx(w->sw[from], from_port),
                                        switch_emu_dev(w->sw[from]), (uint8_t)from_port,
                                        switch_rx(w->sw[to], to_port), switch_emu_dev(w->sw[to]),
                                        (uint8_t)to_port, EMU_CHANNEL_SLOTS, &w->profile), 0);
}

/* "NAME=VALUE NAME=VALUE": what differs from qsnet3 with acknowledgments. */
static inline void world_profile(struct emu_profile *profile, const char *set)
{
    char text[256], error[512], *save = NULL;

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(profile, "qsnet3", error, sizeof(error)), 0);
    profile->transport = EMU_TRANSPORT_ACKNOWLEDGED;
    snprintf(text, sizeof(text), "%s", set);
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(profile, at, error, sizeof(error)), 0);
}

/* Workers without devices. */
static inline void world_begin(struct world *w, const char *set, enum emu_clock_mode mode,
                               uint32_t workers)
{
    struct emu_clock clock = {.mode = mode, .origin_ns = host_ps() / 1000};

    memset(w, 0, sizeof(*w));
    world_profile(&w->profile, set);
    w->clock = mode;
    w->timeout_ps = EMU_NEVER;
    w->pool = emu_pool_create(200000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(w->pool);
    emu_pool_cache_init(&w->cache, w->pool);
    for (; w->workers < workers; w->workers++)
        CU_ASSERT_EQUAL_FATAL(emu_worker_create(&w->worker[w->workers],
                                                SWITCHES_MAX + PROBES_MAX, &clock, w->pool), 0);
}

/* All is plugged: time may begin. */
static inline void world_ready(struct world *w)
{
    if (w->clock == EMU_CLOCK_VIRTUAL)
        CU_ASSERT_EQUAL_FATAL(emu_windows_create(&w->windows, w->worker, w->workers,
                                                 emu_profile_lookahead_ps(&w->profile)), 0);
}

/* A tree, by its SPEC, a node at each of its ports. */
static inline void world_open_on(struct world *w, const char *spec, const char *set,
                                 enum emu_clock_mode mode, uint32_t workers)
{
    uint32_t worker_of[SWITCHES_MAX];
    char error[256];

    world_begin(w, set, mode, workers);
    CU_ASSERT_EQUAL_FATAL(topo_parse(&w->graph, spec, error, sizeof(error)), 0);
    CU_ASSERT_TRUE_FATAL(w->graph->nodes <= PROBES_MAX && w->graph->switches <= SWITCHES_MAX);
    topo_partition(w->graph, workers, worker_of);
    for (uint32_t s = 0; s < w->graph->switches; s++)
        world_switch(w, worker_of[s], w->graph->ports, &w->graph->sw[s].route);
    for (uint32_t s = 0; s < w->graph->switches; s++)
        for (uint32_t p = 0; p < w->graph->ports; p++)
            if (w->graph->sw[s].end[p].kind == TOPO_END_SWITCH)
                world_cable(w, s, p, w->graph->sw[s].end[p].id, w->graph->sw[s].end[p].port);
    for (uint32_t n = 0; n < w->graph->nodes; n++)
        world_plug(w, world_probe(w, worker_of[w->graph->node[n].link[0].sw]),
                   w->sw[w->graph->node[n].link[0].sw], w->graph->node[n].link[0].port);
    world_ready(w);
}

static inline void world_open(struct world *w, const char *spec, const char *set)
{
    world_open_on(w, spec, set, EMU_CLOCK_VIRTUAL, 1);
}

/* The group @id of @nodes, in all switches of a tree of its own. */
static inline void world_group(struct world *w, uint32_t id, const uint32_t *nodes, uint32_t count)
{
    uint32_t load[SWITCHES_MAX] = {0};
    struct topo_tree tree;

    for (uint32_t s = 0; s < w->switches; s++)
        load[s] = id * 7 + s * 3 % 5; /* not the same top for all */
    for (uint32_t i = 0; i < count; i++)
        w->member[id][nodes[i]] = true;
    CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, w->graph, nodes, count, load), 0);
    for (uint32_t i = 0; i < tree.count; i++) {
        struct switch_dev *sw = w->sw[tree.switches[i].sw];
        void *old;

        CU_ASSERT_EQUAL_FATAL(switch_group_create(&w->part[w->parts], id, tree.switches[i].ports,
                                                  tree.switches[i].up, 0, EMU_COMBINE_ARRIVAL), 0);
        CU_ASSERT_EQUAL_FATAL(switch_groups_set(sw, w->part[w->parts], &old), 0);
        free(old);
        w->part_sw[w->parts++] = sw;
    }
    topo_tree_release(&tree);
}

/* Something goes wrong on every cable. */
static inline void world_faults(struct world *w, const struct emu_fault_rates *rates,
                                uint64_t seed)
{
    uint32_t ports = w->switches ? w->sw[0]->ports : 0, n = 0;

    w->faults = calloc(w->switches * ports + w->probes, sizeof(*w->faults));
    for (uint32_t s = 0; s < w->switches; s++)
        for (uint32_t p = 0; p < ports; p++) {
            emu_faults_init(&w->faults[n], rates, seed * 1000 + n);
            switch_faults(w->sw[s], p, &w->faults[n++]);
        }
    for (uint32_t i = 0; i < w->probes; i++) {
        emu_faults_init(&w->faults[n], rates, seed * 1000 + n);
        w->probe[i]->faults = &w->faults[n++];
    }
}

static inline void world_close(struct world *w)
{
    emu_windows_destroy(w->windows);
    for (uint32_t i = 0; i < w->parts; i++) {
        switch_groups_clear(w->part_sw[i], w->part[i]->id);
        switch_group_destroy(w->part[i], w->part_sw[i]->ports, &w->cache);
    }
    for (uint32_t s = 0; s < w->switches; s++)
        switch_destroy(w->sw[s]);
    for (uint32_t n = 0; n < w->probes; n++) {
        emu_link_unjoin(&w->probe[n]->tx);
        free(w->probe[n]->post);
        free(w->probe[n]->got);
        free(w->probe[n]);
    }
    for (uint32_t i = 0; i < w->workers; i++)
        emu_worker_destroy(w->worker[i]);
    emu_pool_destroy(w->pool);
    free(w->faults);
    topo_free(w->graph);
}

/* Node @src sends a packet, after those of its priority that it was given before. */
static inline uint32_t world_post(struct world *w, uint32_t src, uint64_t ready_ps, struct post post)
{
    struct probe *p = w->probe[src];

    if (p->posts == p->posts_room) {
        p->posts_room = p->posts_room ? 2 * p->posts_room : 64;
        p->post = realloc(p->post, p->posts_room * sizeof(*p->post));
    }
    if (w->now_ps && ready_ps <= w->now_ps) /* that has happened */
        ready_ps = w->now_ps + 1;
    post.ready_ps = ready_ps;
    post.tag = post_tag(p, p->posts);
    p->post[p->posts] = post;
    if (w->clock != EMU_CLOCK_RAW)
        emu_dev_wake(&p->dev, ready_ps);
    return p->posts++;
}

static inline void world_advance(struct world *w, uint64_t until_ps)
{
    emu_windows_advance(w->windows, until_ps);
    w->now_ps = until_ps;
}

/* What must hold in every switch and on every cable, now. */
static inline bool world_holds(struct world *w)
{
    const char *wrong = NULL;

    for (uint32_t s = 0; s < w->switches && !wrong; s++)
        wrong = switch_check(w->sw[s], w->now_ps);
    for (uint32_t n = 0; n < w->probes && !wrong; n++) {
        struct probe *p = w->probe[n];
        const struct switch_channels *ch = switch_channels_of(p->sw);

        wrong = switch_check_cable(p->sw, p->port, &p->books, NULL);
        if (!wrong)
            wrong = switch_check_channels(&p->rx, &ch->port[p->port].books, p->faults, NULL, NULL,
                                          w->profile.pool_places);
    }
    if (wrong)
        printf("at %llu ps: %s\n", (unsigned long long)w->now_ps, wrong);
    return !wrong;
}

/* Buffers that somebody holds. */
static inline uint32_t world_bufs(const struct world *w)
{
    uint32_t held = atomic_load(&w->pool->fresh);
    uint32_t chain = (uint32_t)atomic_load(&w->pool->depot);

    for (; chain; chain = atomic_load(&w->pool->chain[chain - 1]))
        held -= EMU_POOL_CHAIN;
    for (uint32_t i = 0; i < w->workers; i++)
        held -= w->worker[i]->cache.count;
    return held;
}

/* All places and channels are free; with faults, but for inputs that nobody told that it is over. */
static inline bool world_free(struct world *w, bool lossy)
{
    uint32_t taken = 0;

    for (uint32_t s = 0; s < w->switches; s++) {
        const struct switch_channels *ch = switch_channels_of(w->sw[s]);

        for (uint32_t p = 0; p < ch->sw.ports; p++) {
            const struct switch_channel_port *port = &ch->port[p];

            taken += port->books.open != 0 || port->books.pool != w->profile.pool_places ||
                     port->books.occupied || port->books.paid || port->replies ||
                     port->waiters || port->collect || port->held ||
                     emu_channels_collecting(&port->books);
            for (uint32_t c = 0; c < EMU_CHANNELS; c++) {
                const struct switch_channel_in *in = &ch->in[p * EMU_CHANNELS + c];

                taken += in->queued || in->wants || port->books.used[c] ||
                         (in->state != CHANNEL_CLOSED && !lossy);
            }
        }
        taken += ch->queued != 0 || ch->ghosts != 0;
    }
    for (uint32_t n = 0; n < w->probes; n++)
        taken += w->probe[n]->books.open || w->probe[n]->books.pool != w->profile.pool_places;
    return !taken && !world_bufs(w);
}

/* What the nodes make of all that came. */
struct verdict {
    uint32_t wrong; /* not as it was sent, or not for whom it came to */
    uint32_t twice;
    uint32_t lost;  /* acknowledged, and did not come to all that it is for */
};

/* Packets to a group that came to @n and should have: not what it sent itself. */
static inline bool world_wanted(const struct world *w, const struct post *post, uint32_t src,
                                uint32_t n)
{
    return post->group ? w->member[post->dst][n] && n != src : post->dst == n;
}

static inline void verdict_node(const struct world *w, uint32_t n, uint8_t *came,
                                const uint32_t *first, struct verdict *verdict)
{
    const struct probe *p = w->probe[n];

    for (uint32_t i = 0; i < p->gots; i++) {
        uint32_t src = p->got[i].tag >> TAG_NODE;
        uint32_t post = (p->got[i].tag & ((1u << TAG_NODE) - 1)) - 1;

        if (src >= w->probes || post >= w->probe[src]->posts || !p->got[i].good ||
            !world_wanted(w, &w->probe[src]->post[post], src, n))
            verdict->wrong++;
        else
            verdict->twice += came[first[src] + post]++;
    }
    for (uint32_t src = 0; src < w->probes; src++)
        for (uint32_t i = 0; i < w->probe[src]->posts; i++) {
            const struct post *post = &w->probe[src]->post[i];

            verdict->lost += post->state == POST_ACKED && world_wanted(w, post, src, n) &&
                             !came[first[src] + i];
        }
}

static inline struct verdict world_judge(const struct world *w)
{
    struct verdict verdict = {0};
    uint32_t first[PROBES_MAX], posts = 0;
    uint8_t *came;

    for (uint32_t n = 0; n < w->probes; n++) {
        first[n] = posts;
        posts += w->probe[n]->posts;
    }
    came = malloc(posts ? posts : 1);
    for (uint32_t n = 0; n < w->probes; n++) {
        memset(came, 0, posts);
        verdict_node(w, n, came, first, &verdict);
    }
    free(came);
    return verdict;
}

/* Credits that are still on their way are nobody's event: take them. */
static inline void world_settle(struct world *w)
{
    for (uint32_t s = 0; s < w->switches; s++)
        for (uint32_t p = 0; p < w->sw[s]->ports; p++)
            if (switch_channels_of(w->sw[s])->plugged >> p & 1)
                switch_channel_take_credits(switch_channels_of(w->sw[s]), p, EMU_NEVER);
    for (uint32_t n = 0; n < w->probes; n++)
        probe_take_credits(w->probe[n], EMU_NEVER);
}

/* Raw: time for time-outs passes at all switches, and nobody waits for it. */
static inline void world_ticks(struct world *w, uint32_t ticks)
{
    while (ticks--) {
        for (uint32_t s = 0; s < w->switches; s++) {
            switch_channels_raw_of(w->sw[s])->swept_ps = 0;
            emu_dev_again(switch_emu_dev(w->sw[s]));
        }
        for (uint32_t k = 0; k < w->workers; k++)
            emu_worker_pass(w->worker[k]);
    }
}

/* Until nothing is left to happen. False: it takes longer than @limit_ps. */
static inline bool world_drain(struct world *w, uint64_t limit_ps)
{
    uint64_t next_ps;

    while ((next_ps = emu_windows_next_ps(w->windows)) < limit_ps)
        world_advance(w, next_ps + 10000000);
    world_settle(w);
    return next_ps == EMU_NEVER;
}

static inline uint32_t world_count(const struct world *w, enum post_state state)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < w->probes; n++)
        for (uint32_t i = 0; i < w->probe[n]->posts; i++)
            count += w->probe[n]->post[i].state == state;
    return count;
}

static inline uint64_t world_sum(const struct world *w, size_t counter)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < w->switches; s++)
        sum += emu_count_read((const _Atomic uint64_t *)(const void *)((const char *)switch_counts(w->sw[s]) + counter));
    return sum;
}
#define WORLD_SUM(w, counter) world_sum(w, offsetof(struct switch_counts, counter))

/* Of everything that came anywhere and every reply, and when. */
static inline uint64_t world_digest(const struct world *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->probes; n++) {
        const struct probe *p = w->probe[n];

        for (uint32_t i = 0; i < p->gots; i++)
            digest = (digest ^ p->got[i].whole_ps ^ (uint64_t)p->got[i].tag << 32) *
                     UINT64_C(0x100000001b3);
        for (uint32_t i = 0; i < p->posts; i++)
            digest = (digest ^ p->post[i].reply_ps ^ (uint64_t)p->post[i].state << 60) *
                     UINT64_C(0x100000001b3);
    }
    return digest;
}

#endif
