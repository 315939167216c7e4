/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c - the host's side: its segments are gathered into packets, what came for it is
 * handed over.
 *
 * A packet grows for as long as it waits for a channel: what the host posts at one time is one
 * packet, and what it posts faster than the links go, too. Nothing waits in order to grow. What
 * fits into one segment on the wire is a packet of its own: it would lose its priority in another.
 */
#include "nic/engine/internal.h"

#include <string.h>

/* --- from the host ------------------------------------------------------------------------- */

/* The buffer of a host segment, its header stored in it. EMU_NO_BUF: none is left. */
static uint32_t host_buf(struct engine *e, const struct emu_entry *entry)
{
    uint32_t buf = entry->buf;
    struct emu_hdr *hdr;

    if (buf == EMU_NO_BUF)
        buf = emu_pool_take(engine_cache(e));
    if (buf == EMU_NO_BUF)
        return buf;
    hdr = engine_hdr(e, buf);
    *hdr = entry->hdr;
    hdr->src = e->node;
    if (entry->buf == EMU_NO_BUF)
        engine_set_hollow(hdr, true);
    *engine_born_ns(e, buf) = entry->born_ns;
    return buf;
}

/*
 * May the packet that is being formed have this segment as well? Not one of the process that was there
 * before: what becomes of it, only that process would be told. One to a group only as far as switches
 * have places for all of it: they refuse what is longer.
 */
static bool post_joins(const struct engine *e, const struct emu_hdr *hdr, struct engine_to to)
{
    const struct engine_packet *p;
    uint32_t bytes, segs;

    if (e->forming == ENGINE_NONE || emu_packet_segments(engine_seg_bytes(hdr)) == 1)
        return false;
    p = &e->packet[e->forming];
    bytes = p->bytes + engine_seg_bytes(hdr);
    segs = emu_packet_segments(bytes);
    return p->host == e->host && p->dst == to.dst && p->class == to.class && p->group == to.group &&
           p->segs > 1 && bytes <= e->profile->packet_bytes && p->count < segs &&
           (!to.group || segs <= 1 + e->profile->pool_places);
}

static void post_append(struct engine *e, struct engine_packet *p, uint32_t buf)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);

    p->crc = emu_crc32(p->crc, hdr, engine_seg_there(hdr));
    p->bytes = (uint16_t)(p->bytes + engine_seg_bytes(hdr));
    p->segs = (uint8_t)emu_packet_segments(p->bytes);
    if (hdr->kind & EMU_TOLD)
        p->back = ENGINE_WORD_TOLD;
    p->buf[p->count++] = buf;
}

uint16_t engine_begin(struct engine *e, uint32_t buf, struct engine_to to)
{
    uint16_t i = e->free.first;
    struct engine_packet *p = &e->packet[i];

    engine_list_drop(&e->free, e->join, i);
    p->dst = to.dst;
    p->group = to.group;
    p->class = to.class;
    p->only = to.only;
    p->back = ENGINE_WORD_NONE;
    p->asked = 0;
    p->ask = NULL;
    p->host = e->host;
    /*
     * Others get theirs with the first try, and count up. Conditionals count down: one to the same
     * group must not have the tag of another packet, or a late reply to one is one to the other.
     */
    p->seq = to.class == ENGINE_TEST ? ~e->tests++ : 0;
    p->crc = 0;
    p->bytes = 0;
    p->tries = 0;
    p->count = 0;
    post_append(e, p, buf);
    return i;
}

bool engine_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps)
{
    if (post_joins(e, engine_hdr(e, buf), to)) {
        post_append(e, &e->packet[e->forming], buf);
        return true;
    }
    if (engine_list_empty(&e->free))
        return false;
    if (engine_flow_dead(e, to)) {
        emu_count(&e->counts.lost, 1);
        engine_back(e, engine_begin(e, buf, to), ENGINE_WORD_FAILED, at_ps);
        return true;
    }
    e->forming = engine_begin(e, buf, to);
    engine_ready(e, e->forming, false, at_ps);
    return true;
}

/* --- what the host asks for: its reference to @buf is the engine's, unless it is false -------- */

static bool take_failed(struct engine *e, uint32_t buf, _Atomic uint64_t *count, uint64_t at_ps)
{
    if (engine_list_empty(&e->free))
        return false;
    emu_count(count, 1);
    engine_back(e, engine_begin(e, buf, (struct engine_to){.dst = e->node}), ENGINE_WORD_FAILED,
                at_ps);
    return true;
}

/* This transport does not carry it. */
static bool take_refused(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    return take_failed(e, buf, &e->counts.refused, at_ps);
}

/*
 * Its group is not known here: all have left it, or it never was. What a host had posted before it
 * left, a token of the stream or a probe, may be taken only now.
 */
static bool take_in_vain(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    return take_failed(e, buf, &e->counts.vain, at_ps);
}

static bool test_sane(struct engine *e, uint32_t buf, struct emu_word *word)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);

    if (hdr->len != sizeof(*word) || engine_is_hollow(hdr))
        return false;
    memcpy(word, emu_pool_bytes(engine_cache(e)->pool, buf), sizeof(*word));
    return word->word < EMU_WORDS && word->test <= EMU_TEST_REACHED &&
           word->until <= EMU_TEST_TAKE_BACK;
}

static bool take_test(struct engine *e, struct engine_group *group, uint32_t buf, uint64_t at_ps)
{
    struct emu_word word;

    if (!test_sane(e, buf, &word))
        return take_refused(e, buf, at_ps);
    return engine_test(e, group, buf, &word, at_ps);
}

static bool take_collective(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);
    struct engine_group *group = engine_group_of(e, hdr->dst);
    struct emu_word word;

    if (!group)
        return take_in_vain(e, buf, at_ps);
    if (!group->state)
        return take_refused(e, buf, at_ps);
    switch (engine_kind(hdr)) {
    case EMU_SET:
        if (engine_is_hollow(hdr))
            return take_refused(e, buf, at_ps);
        memcpy(&word, emu_pool_bytes(engine_cache(e)->pool, buf), sizeof(word));
        engine_set(e, group, hdr, &word);
        emu_pool_drop(engine_cache(e), buf);
        return true;
    case EMU_TEST:
        return take_test(e, group, buf, at_ps);
    default:
        engine_contribute(e, group, e->node, buf, at_ps);
        return true;
    }
}

/* The id of a group that has gone has a slot in the switches' tables, which may be another's by now. */
static bool take_multicast(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    const struct engine_group *group = engine_group_of(e, engine_hdr(e, buf)->dst);

    if (!group)
        return take_in_vain(e, buf, at_ps);
    return engine_post(e, buf, engine_to_group(e, group, ENGINE_PLAIN), at_ps);
}

bool engine_take(struct engine *e, const struct emu_entry *entry, uint64_t at_ps)
{
    uint8_t kind = engine_kind(&entry->hdr);
    uint32_t buf = host_buf(e, entry);
    bool taken;

    if (buf == EMU_NO_BUF)
        return false;
    if (entry->hdr.len > EMU_PAYLOAD_BYTES || kind > EMU_TEST ||
        (kind == EMU_UNICAST && entry->hdr.dst >= e->nodes))
        taken = take_refused(e, buf, at_ps);
    else if (kind == EMU_UNICAST)
        taken = engine_post(e, buf, (struct engine_to){.dst = entry->hdr.dst}, at_ps);
    else if (kind == EMU_MULTICAST)
        taken = take_multicast(e, buf, at_ps);
    else
        taken = take_collective(e, buf, at_ps);
    if (taken)
        return true;
    if (entry->buf == EMU_NO_BUF)
        emu_pool_drop(engine_cache(e), buf);
    e->in_full = true; /* until a packet is free: engine_free() */
    return false;
}

/* --- to the host --------------------------------------------------------------------------- */

void engine_back(struct engine *e, uint16_t i, enum engine_word word, uint64_t at_ps)
{
    struct engine_packet *p = &e->packet[i];

    p->state = ENGINE_BACK;
    p->back = word;
    engine_list_add(&e->back, e->join, i);
    engine_deliver(e, at_ps);
}

/* What there is to say of a packet of this engine's. */
static void deliver_back(struct engine *e, uint16_t i)
{
    struct engine_packet *p = &e->packet[i];
    struct engine_delivery *to = &e->delivery;

    engine_list_drop(&e->back, e->join, i);
    *to = (struct engine_delivery){.active = true, .word = p->back, .answer = p->answer,
                                   .count = p->count, .packet = i, .reply = ENGINE_NONE,
                                   .host = p->host};
    memcpy(to->buf, p->buf, p->count * sizeof(p->buf[0]));
    p->count = 0; /* its buffers are the delivery's */
}

/* One that came whole. False: it came before. */
static bool deliver_whole(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->incoming[i];
    struct engine_delivery *to = &e->delivery;

    engine_list_drop(&e->whole, e->incoming_join, i);
    if (!engine_heard_first(e, in)) {
        for (uint32_t s = 0; s < in->count; s++)
            emu_pool_drop(engine_cache(e), in->buf[s]);
        engine_answer(e, i, true, at_ps);
        return false;
    }
    if (engine_kind(engine_hdr(e, in->buf[0])) == EMU_BARRIER)
        engine_barrier_over(e, engine_hdr(e, in->buf[0]));
    in->state = ENGINE_TAKEN;
    *to = (struct engine_delivery){.active = true, .word = ENGINE_WORD_HERE, .count = in->count,
                                   .packet = ENGINE_NONE, .reply = i, .late_ps = in->late_ps};
    memcpy(to->buf, in->buf, in->count * sizeof(in->buf[0]));
    return true;
}

static bool deliver_next(struct engine *e, uint64_t at_ps)
{
    if (e->delivery.active)
        return true;
    if (!engine_list_empty(&e->back)) {
        deliver_back(e, e->back.first);
        return true;
    }
    while (!engine_list_empty(&e->whole))
        if (deliver_whole(e, e->whole.first, at_ps))
            return true;
    return false;
}

/* What the host gets for a segment in @buf, whose reference goes along or is dropped. */
static struct emu_entry deliver_entry(struct engine *e, const struct engine_delivery *from,
                                      uint32_t buf)
{
    struct emu_entry entry = {.hdr = *engine_hdr(e, buf), .buf = buf,
                              .born_ns = *engine_born_ns(e, buf)};
    bool bare = engine_is_hollow(&entry.hdr);

    engine_set_hollow(&entry.hdr, false);
    switch (from->word) {
    case ENGINE_WORD_NONE: /* nobody is told nothing */
        break;
    case ENGINE_WORD_HERE:
        entry.hdr.kind &= (uint8_t)~EMU_TOLD;
        break;
    case ENGINE_WORD_FAILED:
        entry.hdr.kind |= EMU_FAILED;
        break;
    case ENGINE_WORD_ANSWER:
        entry.hdr.op = from->answer;
        /* fallthrough */
    case ENGINE_WORD_TOLD:
        entry.hdr.len = 0;
        bare = true;
        break;
    }
    if (bare) {
        entry.buf = EMU_NO_BUF;
        emu_pool_drop(engine_cache(e), buf);
    }
    return entry;
}

/* Timed: when a segment that is handed over at @at_ps is in memory. They get there in order. */
static uint64_t deliver_time(struct engine *e, const struct engine_delivery *from, uint64_t at_ps)
{
    uint64_t time_ps = at_ps + e->recv_ps - from->late_ps;

    if (time_ps < at_ps + e->lookahead_ps)
        time_ps = at_ps + e->lookahead_ps;
    if (time_ps > e->handed_ps)
        e->handed_ps = time_ps;
    return e->handed_ps;
}

static void deliver_segment(struct engine *e, uint64_t at_ps)
{
    struct engine_delivery *from = &e->delivery;
    struct emu_entry entry = deliver_entry(e, from, from->buf[from->at++]);

    if (e->dev.timed) {
        entry.time_ps = deliver_time(e, from, at_ps);
        emu_dev_expect(&e->dev, entry.time_ps);
    }
    emu_tx_send(&e->out, &entry);
}

/* Segments that there is nothing to say about. */
static void deliver_skip(struct engine *e)
{
    struct engine_delivery *from = &e->delivery;

    while (from->word == ENGINE_WORD_TOLD && from->at < from->count &&
           !(engine_hdr(e, from->buf[from->at])->kind & EMU_TOLD))
        emu_pool_drop(engine_cache(e), from->buf[from->at++]);
}

/*
 * Is it a word to a process that is no more? Another one there may take it for an answer of its own.
 * An edge's end has been looked up for this pass.
 */
static bool deliver_void(const struct engine *e)
{
    const struct engine_delivery *from = &e->delivery;
    const struct emu_edge *edge = e->out.kind == EMU_LINK_EDGE ? e->out.plug.plugged : NULL;

    return from->word != ENGINE_WORD_HERE && e->out.kind == EMU_LINK_EDGE &&
           from->host != (edge ? edge->serial : 0);
}

/* Early for all but the last packet to a destination: of that it says that it lies in memory. */
static void deliver_answer(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->incoming[i];

    if (!e->dev.timed || in->head.more) {
        engine_answer(e, i, true, at_ps);
        return;
    }
    in->state = ENGINE_STORED;
    in->due_ps = e->handed_ps;
    engine_list_add(&e->stored, e->incoming_join, i);
}

static void deliver_end(struct engine *e, uint64_t at_ps)
{
    struct engine_delivery *done = &e->delivery;

    done->active = false;
    if (done->packet != ENGINE_NONE) {
        engine_free(e, done->packet, at_ps);
        return;
    }
    emu_count(&e->counts.received, 1);
    if (done->reply != ENGINE_NONE)
        deliver_answer(e, done->reply, at_ps);
}

/* Segments that the host has room for. Timed: one, or none, and then when it will have. */
static uint32_t deliver_room(struct engine *e, uint64_t at_ps)
{
    if (!e->dev.timed)
        return emu_tx_room(&e->out);
    e->out_ps = emu_tx_earliest_ps(&e->out, at_ps);
    return e->out_ps <= at_ps;
}

void engine_deliver(struct engine *e, uint64_t at_ps)
{
    uint32_t room = 0;

    e->out_ps = EMU_NEVER;
    while (deliver_next(e, at_ps)) {
        for (deliver_skip(e); e->delivery.at < e->delivery.count; room--, deliver_skip(e)) {
            if (!room && !(room = deliver_room(e, at_ps))) {
                emu_count(&e->out.counts.stalls, 1);
                return;
            }
            if (deliver_void(e)) {
                emu_pool_drop(engine_cache(e), e->delivery.buf[e->delivery.at++]);
                room++;
                continue;
            }
            deliver_segment(e, at_ps);
        }
        deliver_end(e, at_ps);
        e->out_ps = EMU_NEVER;
    }
}
