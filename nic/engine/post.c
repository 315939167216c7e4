/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - segments that the host posts: this file gathers them into packets, or hands them to
 * tree.c (contributions), group.c (words) or query.c (conditionals).
 *
 * A packet grows while it waits for a channel. So segments that are posted at the same time, or
 * faster than the links send them, form one packet. No packet is delayed in order to grow. A host
 * segment that, with its header, fits into one wire segment becomes a separate packet, because
 * packets of one wire segment have a higher priority.
 *
 * A contribution to a collective usually needs a *state* (group.h), in which it is combined with
 * those of other members. A contribution *passes without a state* if nothing is combined with it
 * here.
 */
#include <string.h>

#include "nic/engine/internal.h"

/* Store a host segment's header in its buffer, and return the buffer. EMU_NO_BUF: none is free. */
static uint32_t host_buf(struct engine *e, const struct emu_entry *entry)
{
    uint32_t buf = entry->buf;
    struct emu_hdr *hdr;
    uint64_t words[2];

    if (buf == EMU_NO_BUF)
        buf = emu_pool_take(engine_cache(e));
    if (buf == EMU_NO_BUF)
        return buf;
    hdr = engine_hdr(e, buf);
    memcpy(words, &entry->hdr, sizeof words);
    words[0] = emu_hdr_from(words[0], e->node);
    memcpy(hdr, words, sizeof words);
    if (entry->buf == EMU_NO_BUF)
        engine_set_length_only(hdr, true);
    *engine_born_ns(e, buf) = entry->born_ns;
    return buf;
}

/*
 * Return the largest payload of a packet to @to, in bytes. A packet to a group starts on a cable
 * only when slots for all its segments are reserved at the remote end. So it is limited to the
 * channel's own slot and half of the slots of the pool. If it needed the whole pool, a few credits
 * lost by faults would keep it waiting forever.
 */
static uint32_t packet_most(const struct engine *e, struct engine_to to)
{
    uint32_t most = e->profile->packet_bytes;
    uint32_t held = emu_packet_most(1 + (e->profile->pool_slots + 1) / 2);

    return to.group && held < most ? held : most;
}

/*
 * Return whether the segment may join the packet that is being formed. A packet has only segments
 * of one process, because only that process gets reports about the packet.
 */
static bool post_joins(const struct engine *e, const struct emu_hdr *hdr, struct engine_to to)
{
    const struct engine_packet *p;
    uint32_t bytes, segs;

    if (e->send.forming == ENGINE_NONE || emu_packet_segments(engine_seg_bytes(hdr)) == 1)
        return false;
    p = &e->send.packet[e->send.forming];
    bytes = p->bytes + engine_seg_bytes(hdr);
    segs = emu_packet_segments(bytes);
    return p->process == e->host.process && p->dst == to.dst && p->class == to.class &&
           p->group == to.group && p->segs > 1 && bytes <= packet_most(e, to) && p->count < segs;
}

static void post_append(struct engine *e, struct engine_packet *p, uint32_t buf)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);

    p->bytes = (uint16_t)(p->bytes + engine_seg_bytes(hdr));
    p->segs = (uint8_t)emu_packet_segments(p->bytes);
    if (hdr->kind & EMU_NOTIFY)
        p->back = ENGINE_NOTICE_ACKED;
    p->buf[p->count++] = buf;
    e->send.held++;
}

/* Take the first free packet, without host segments, and set its destination. It is in no list. */
static uint16_t post_begin(struct engine *e, struct engine_to to)
{
    uint16_t i = e->send.free.first;
    struct engine_packet *p = &e->send.packet[i];

    assert(i != ENGINE_NONE && (to.group || to.dst < e->nodes));
    engine_list_drop(&e->send.free, e->send.join, i);
    p->dst = to.dst;
    p->group = to.group;
    p->class = to.class;
    p->only = to.only;
    p->tree = 0;
    if (to.group && e->group_slots > 1)
        engine_choose_tree(e, p);
    p->back = ENGINE_NOTICE_NONE;
    p->tclass = e->host.tclass;
    p->priority_as_long = false;
    p->query = NULL;
    p->process = e->host.process;
    /*
     * A conditional gets its number here; these numbers count down. Other packets get their numbers
     * at the first try; those count up. So a conditional to a group never has the tag of another
     * packet to it, and a late reply to one is not taken for a reply to the other.
     */
    p->seq = to.class == ENGINE_TEST ? ~e->send.tests++ : 0;
    p->has_crc = false;
    p->bytes = 0;
    p->tries = 0;
    p->late = 0;
    p->count = 0;
    return i;
}

uint16_t engine_begin(struct engine *e, uint32_t buf, struct engine_to to)
{
    uint16_t i = post_begin(e, to);

    post_append(e, &e->send.packet[i], buf);
    return i;
}

bool engine_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps)
{
    if (post_joins(e, engine_hdr(e, buf), to)) {
        post_append(e, &e->send.packet[e->send.forming], buf);
        return true;
    }
    if (engine_list_empty(&e->send.free))
        return false;
    if (engine_flow_dead(e, to)) {
        emu_count(&e->counts.lost, 1);
        engine_back(e, engine_begin(e, buf, to), ENGINE_NOTICE_FAILED, at_ps);
        return true;
    }
    e->send.forming = engine_begin(e, buf, to);
    engine_ready(e, e->send.forming, false, at_ps);
    return true;
}

/* --- accepting segments: the engine owns the reference to @buf, unless false is returned --- */

static bool take_failed(struct engine *e, uint32_t buf, _Atomic uint64_t *count, uint64_t at_ps)
{
    if (engine_list_empty(&e->send.free))
        return false;
    emu_count(count, 1);
    engine_back(e, engine_begin(e, buf, (struct engine_to){.dst = e->node}), ENGINE_NOTICE_FAILED,
                at_ps);
    return true;
}

static bool take_refused(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    return take_failed(e, buf, &e->counts.refused, at_ps);
}

/*
 * Report as failed a segment whose group this adapter does not know: all members have left it, it
 * never existed, or this node is not in it. The host may have posted the segment, for example a
 * token (a barrier of the adapters), before it left the group.
 */
static bool take_for_no_group(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    return take_failed(e, buf, &e->counts.not_in_group, at_ps);
}

static bool test_sane(struct engine *e, uint32_t buf, struct emu_word *word)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);

    if (hdr->len != sizeof *word || engine_is_length_only(hdr))
        return false;
    memcpy(word, emu_pool_bytes(engine_cache(e)->pool, buf), sizeof *word);
    return word->word < EMU_WORDS + EMU_MEMORY_WORDS && word->test <= EMU_TEST_REACHED &&
           word->until <= EMU_TEST_TAKE_BACK;
}

static bool take_test(struct engine *e, struct engine_group *group, uint32_t buf, uint64_t at_ps)
{
    struct emu_word word;

    if (!test_sane(e, buf, &word))
        return take_refused(e, buf, at_ps);
    return engine_test(e, group, buf, &word, at_ps);
}

static bool take_set(struct engine *e, struct engine_group *group, uint32_t buf, uint64_t at_ps)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);
    struct emu_word word;

    if (engine_is_length_only(hdr))
        return take_refused(e, buf, at_ps);
    memcpy(&word, emu_pool_bytes(engine_cache(e)->pool, buf), sizeof word);
    engine_set(e, group, hdr, &word);
    emu_pool_drop(engine_cache(e), buf);
    return true;
}

/* Return whether a segment that starts a packet must wait until another packet has ended. */
static inline bool take_waits(const struct engine *e)
{
    return engine_list_empty(&e->send.free) || e->send.held >= e->send.most;
}

static bool take_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps)
{
    return (!take_waits(e) || post_joins(e, engine_hdr(e, buf), to)) &&
           engine_post(e, buf, to, at_ps);
}

static bool take_segment(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    const struct emu_hdr *hdr = engine_hdr(e, buf);
    uint8_t kind = engine_kind(hdr);
    struct engine_group *group;

    if (hdr->len > EMU_PAYLOAD_BYTES || kind > EMU_TEST ||
        (kind == EMU_UNICAST && hdr->dst >= e->nodes))
        return take_refused(e, buf, at_ps);
    if (kind == EMU_UNICAST)
        return take_post(e, buf, (struct engine_to){.dst = hdr->dst}, at_ps);
    group = engine_group_of(e, hdr->dst);
    if (!group) /* the group's slot in the switches' tables may now belong to another group */
        return take_for_no_group(e, buf, at_ps);
    if (kind == EMU_MULTICAST)
        return take_post(e, buf, engine_to_group(e, group, ENGINE_PLAIN), at_ps);
    if (!group->tree)
        return take_refused(e, buf, at_ps);
    if (kind == EMU_SET)
        return take_set(e, group, buf, at_ps);
    if (kind == EMU_TEST)
        return take_test(e, group, buf, at_ps);
    engine_contribute(e, group, e->node, buf, at_ps);
    return true;
}

bool engine_take(struct engine *e, const struct emu_entry *entry, uint64_t at_ps)
{
    uint32_t buf = host_buf(e, entry);

    if (buf == EMU_NO_BUF)
        return false;
    if (take_segment(e, buf, at_ps))
        return true;
    if (entry->buf == EMU_NO_BUF)
        emu_pool_drop(engine_cache(e), buf);
    e->host.in_full = true; /* cleared by engine_posts_again() when a packet is free */
    return false;
}

/*
 * Return how many full segments fit into the packet that is being formed; 0 if it does not go to
 * @to.
 */
static uint32_t forming_room(const struct engine *e, struct engine_to to)
{
    const struct engine_packet *p;
    uint32_t most = packet_most(e, to);

    if (e->send.forming == ENGINE_NONE)
        return 0;
    p = &e->send.packet[e->send.forming];
    if (p->dst != to.dst || p->group != to.group || p->class != to.class || p->segs == 1 ||
        p->process != e->host.process || p->bytes > most)
        return 0;
    return (most - p->bytes) / EMU_SEG_BYTES;
}

/*
 * Add @run full segments to packet @p. Their buffers are already in its array. If they fill the
 * packet, compute its CRC-32 now, while the copied bytes are in the cache.
 */
static inline void post_append_run(struct engine *e, struct engine_packet *p, uint32_t run)
{
    p->count = (uint8_t)(p->count + run);
    e->send.held += run;
    p->bytes = (uint16_t)(p->bytes + run * EMU_SEG_BYTES);
    p->segs = (uint8_t)emu_packet_segments(p->bytes);
    if (p->bytes == e->profile->packet_bytes) {
        p->crc = engine_payload_crc(e, p->buf, p->count);
        p->has_crc = true;
    }
}

uint32_t engine_post_room(struct engine *e, struct engine_to to)
{
    uint32_t room = forming_room(e, to);

    if (room)
        return room;
    return engine_list_empty(&e->send.free) || engine_flow_dead(e, to)
               ? 0
               : packet_most(e, to) / EMU_SEG_BYTES;
}

void engine_post_run(struct engine *e, const uint32_t *bufs, uint32_t count, struct engine_to to)
{
    bool joins = forming_room(e, to);
    uint16_t i = joins ? e->send.forming : post_begin(e, to);
    struct engine_packet *p = &e->send.packet[i];

    memcpy(&p->buf[p->count], bufs, count * sizeof *bufs);
    post_append_run(e, p, count);
    if (joins)
        return;
    e->send.forming = i;
    engine_ready(e, i, false, 0);
}

static inline void run_clear_born(struct engine *e, const uint32_t *bufs, uint32_t run)
{
    for (uint32_t i = 0; i < run; i++)
        *engine_born_ns(e, bufs[i]) = 0;
}

/*
 * Take up to @most full segments of a long message or vector into the packet that is being formed,
 * if it goes to @to. They must have the kind and destination of @hdr. Returns the number.
 */
static uint32_t take_run(struct engine *e, struct emu_hostif *hostif, const struct emu_hdr *hdr,
                         struct engine_to to, uint32_t most)
{
    uint32_t room = forming_room(e, to), run;
    struct engine_packet *p;

    if (!room)
        return 0;
    p = &e->send.packet[e->send.forming];
    run = emu_hostif_take_run(hostif, hdr->kind, hdr->dst, &p->buf[p->count],
                              room < most ? room : most);
    run_clear_born(e, &p->buf[p->count], run);
    if (run)
        post_append_run(e, p, run);
    return run;
}

/* Take up to @most full segments of a message or vector into a new packet. Returns the number. */
static uint32_t take_new(struct engine *e, struct emu_hostif *hostif, const struct emu_hdr *hdr,
                         struct engine_to to, uint32_t most)
{
    uint32_t room = packet_most(e, to) / EMU_SEG_BYTES, run;
    uint16_t i = e->send.free.first;

    if (take_waits(e) || !room || engine_flow_dead(e, to))
        return 0;
    run = emu_hostif_take_run(hostif, hdr->kind, hdr->dst, e->send.packet[i].buf,
                              room < most ? room : most);
    if (!run)
        return 0;
    run_clear_born(e, e->send.packet[i].buf, run);
    post_begin(e, to);
    post_append_run(e, &e->send.packet[i], run);
    e->send.forming = i;
    engine_ready(e, i, false, 0);
    return run;
}

static uint32_t take_full(struct engine *e, struct emu_hostif *hostif, const struct emu_hdr *hdr,
                          struct engine_to to, uint32_t most)
{
    uint32_t run = take_run(e, hostif, hdr, to, most);

    return run ? run : take_new(e, hostif, hdr, to, most);
}

/*
 * Note the sequence numbers of the last @count segments of the packet that is being formed. They
 * are contributions that pass without a state.
 */
static void note_passing(struct engine *e, struct engine_group *group, uint32_t count)
{
    const struct engine_packet *p = &e->send.packet[e->send.forming];
    const uint32_t *buf = &p->buf[p->count - count];

    for (uint32_t s = 0, row; s < count; s += row) {
        uint32_t seq = engine_hdr(e, buf[s])->seq;

        for (row = 1; s + row < count && engine_hdr(e, buf[s + row])->seq == seq + row;)
            row++;
        engine_passes_note(group->tree, seq, row);
    }
}

/* Take contributions that pass without a state. Returns the number taken. */
static uint32_t take_passing(struct engine *e, struct emu_hostif *hostif, const struct emu_hdr *hdr,
                             struct engine_group *group, struct engine_to to, uint32_t most)
{
    uint32_t run = take_full(e, hostif, hdr, to, most);

    if (run)
        note_passing(e, group, run);
    return run;
}

/*
 * Take contributions to a long vector. If they pass without a state, take them into a packet, like
 * a message, and only when a packet has space. If the engine took them earlier, they would wait in
 * more memory than fits into the inner caches.
 */
static uint32_t take_contributions(struct engine *e, struct emu_hostif *hostif,
                                   const struct emu_hdr *hdr, struct engine_group *group,
                                   uint32_t most)
{
    emu_ports outs = engine_passes(e, group, hdr->kind, ENGINE_HERE);
    uint32_t bufs[ENGINE_SEGS_MAX], run;

    if (emu_ports_any(outs) && !engine_passed(group->tree, hdr->seq)) {
        run = take_passing(e, hostif, hdr, group, engine_result_to(e, group, emu_ports_first(outs)),
                           most);
        emu_count(&e->counts.contributions, run);
        emu_count(&e->counts.results, run);
        return run;
    }
    most = most < ENGINE_SEGS_MAX ? most : ENGINE_SEGS_MAX;
    run = emu_hostif_take_run(hostif, hdr->kind, group->id, bufs, most);
    run_clear_born(e, bufs, run);
    if (run)
        engine_contribute_all(e, bufs, run, 0);
    return run;
}

/*
 * Take several full segments like the front one, whose header is @hdr. Returns the number taken; 0:
 * they must be taken one by one.
 */
static uint32_t take_several(struct engine *e, struct emu_hostif *hostif, const struct emu_hdr *hdr,
                             uint32_t most)
{
    struct engine_to to = {.dst = hdr->dst};
    struct engine_group *group;

    if (hdr->kind > EMU_ALLREDUCE)
        return 0;
    if (hdr->kind != EMU_UNICAST) {
        group = engine_group_of(e, hdr->dst);
        if (!group || (hdr->kind != EMU_MULTICAST && !group->tree))
            return 0;
        if (hdr->kind != EMU_MULTICAST)
            return take_contributions(e, hostif, hdr, group, most);
        to = engine_to_group(e, group, ENGINE_PLAIN);
    }
    return take_full(e, hostif, hdr, to, most);
}

/*
 * Return whether a segment with this header must wait for a packet. Only unicasts, and full
 * contributions that pass without a state, are checked here; engine_take() checks all others.
 */
static inline bool segment_must_wait(struct engine *e, const struct emu_hdr *hdr)
{
    uint8_t kind = engine_kind(hdr);
    const struct engine_group *group;

    if (!take_waits(e))
        return false;
    if (kind == EMU_UNICAST)
        return !post_joins(e, hdr, (struct engine_to){.dst = hdr->dst});
    if ((kind != EMU_REDUCE && kind != EMU_ALLREDUCE) || hdr->len != EMU_PAYLOAD_BYTES)
        return false;
    group = engine_group_of(e, hdr->dst);
    return group && group->tree && emu_ports_any(engine_passes(e, group, kind, ENGINE_HERE));
}

/* Take the single segment @seg, whose header is in @entry. False: there is no space now. */
static bool take_one(struct engine *e, struct emu_hostif *hostif, const struct emu_seg *seg,
                     struct emu_entry *entry)
{
    if (segment_must_wait(e, &entry->hdr)) {
        e->host.in_full = true; /* as in engine_take(), but before the segment is copied */
        return false;
    }
    if (!emu_hostif_take(hostif, seg, entry))
        return false;
    if (engine_take(e, entry, 0)) {
        emu_hostif_pass(hostif);
        return true;
    }
    emu_pool_drop(engine_cache(e), entry->buf);
    return false;
}

/* Take the next segments. Returns the number taken; 0: there is none, or no space now. */
static inline uint32_t take_next(struct engine *e, struct emu_hostif *hostif, uint32_t most)
{
    struct emu_entry entry;
    const struct emu_seg *seg = emu_hostif_peek(hostif, &entry.hdr);
    uint32_t run;

    if (!seg)
        return 0;
    run = entry.hdr.len == EMU_PAYLOAD_BYTES ? take_several(e, hostif, &entry.hdr, most) : 0;
    return run ? run : take_one(e, hostif, seg, &entry);
}

uint32_t engine_take_hostif(struct engine *e, struct emu_hostif *hostif, uint32_t most)
{
    uint32_t taken = 0, some = 1;

    for (; some && taken < most; taken += some)
        some = take_next(e, hostif, most - taken);
    return taken;
}

void engine_posts_again(struct engine *e, uint64_t at_ps)
{
    if (!e->host.in_full || take_waits(e))
        return;
    e->host.in_full = false;
    e->host.in_ps = at_ps;
}
