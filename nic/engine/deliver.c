/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deliver.c - deliveries to the host: packets that arrived for it, and reports on its own packets
 */
#include <string.h>

#include "nic/engine/internal.h"

/*
 * Return whether this segment of @p belongs to an operation of all members of a group. A multicast
 * with EMU_NOTIFY (for example a broadcast put) does not, because only its own host waits for it.
 */
static bool segment_of_all(const struct engine_packet *p, const struct emu_hdr *hdr)
{
    if (p->class == ENGINE_TREE)
        return true;
    return p->group && p->class == ENGINE_PLAIN && !(hdr->kind & EMU_NOTIFY);
}

/*
 * Mark the groups whose segments were dropped for good. The manager polls this mark
 * (engine_group_gave_up()), because a combine unit has no host that can be notified, and a node's
 * process may leave the group, or end, before it is notified.
 */
static void groups_give_up(struct engine *e, const struct engine_packet *p)
{
    for (uint32_t s = 0; s < p->count; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, p->buf[s]);
        struct engine_group *group = segment_of_all(p, hdr) ? engine_group_of(e, hdr->dst) : NULL;

        if (!group)
            continue;
        group->gave_up = true;
        if (group->tree && group->tree->unit)
            group->tree->failed = true;
    }
}

void engine_back(struct engine *e, uint16_t i, enum engine_notice notice, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];

    if (notice == ENGINE_NOTICE_FAILED)
        groups_give_up(e, p);
    p->state = ENGINE_BACK;
    p->back = notice;
    engine_list_add(&e->send.back, e->send.join, i);
    engine_deliver(e, at_ps);
}

/*
 * Prepare the next delivery: the @count segments in @buf or, depending on @notice, a report on
 * them. Fields are stored one by one, and all elements of @buf are copied even if fewer are used.
 * Assigning the whole struct would clear it first, and copying a variable number uses an
 * instruction with a long start-up time.
 */
static struct engine_delivery *deliver_new(struct engine *e, enum engine_notice notice,
                                           const uint32_t buf[ENGINE_SEGS_MAX], uint8_t count)
{
    struct engine_delivery *to = &e->host.delivery;

    to->active = true;
    to->notice = notice;
    to->answer = 0;
    to->at = 0;
    to->count = count;
    to->reply = to->packet = ENGINE_NONE;
    to->process = 0;
    memcpy(to->buf, buf, sizeof to->buf);
    return to;
}

static void deliver_back(struct engine *e, uint16_t i)
{
    struct engine_packet *p = &e->send.packet[i];
    struct engine_delivery *to = deliver_new(e, p->back, p->buf, p->count);

    engine_list_drop(&e->send.back, e->send.join, i);
    to->answer = p->answer;
    to->packet = i;
    to->process = p->process;
    e->send.held -= p->count;
    p->count = 0; /* the delivery owns its buffers now */
}

/* Begin to deliver a complete incoming packet. False: it is a duplicate, and was dropped. */
static bool deliver_packet(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    engine_list_drop(&e->receive.complete, e->receive.join, i);
    if (!engine_history_first(e, in)) {
        for (uint32_t s = 0; s < in->count; s++)
            emu_pool_drop(engine_cache(e), in->buf[s]);
        engine_answer(e, i, true, at_ps);
        return false;
    }
    if (engine_kind(engine_hdr(e, in->buf[0])) == EMU_BARRIER)
        engine_barrier_over(e, engine_hdr(e, in->buf[0]));
    in->state = ENGINE_TAKEN;
    deliver_new(e, ENGINE_NOTICE_SEGMENTS, in->buf, in->count)->reply = i;
    return true;
}

/* Begin the next delivery. False: there is none. */
static bool deliver_take(struct engine *e, uint64_t at_ps)
{
    if (!engine_list_empty(&e->send.back)) {
        deliver_back(e, e->send.back.first);
        return true;
    }
    while (!engine_list_empty(&e->receive.complete))
        if (deliver_packet(e, e->receive.complete.first, at_ps))
            return true;
    return false;
}

/*
 * Return the entry that delivers or reports the segment in @buf to the host. Moves the reference to
 * @buf into the entry, or drops it if the host gets no payload.
 */
static inline __attribute__((always_inline)) struct emu_entry deliver_entry(
    struct engine *e, const struct engine_delivery *from, uint32_t buf)
{
    struct emu_entry entry = {.hdr = *engine_hdr(e, buf),
                              .buf = buf,
                              .born_ns = *engine_born_ns(e, buf)};
    bool bare = engine_is_length_only(&entry.hdr);

    engine_set_length_only(&entry.hdr, false);
    switch (from->notice) {
    case ENGINE_NOTICE_NONE: /* is never delivered */
        break;
    case ENGINE_NOTICE_SEGMENTS:
        entry.hdr.kind &= (uint8_t)~EMU_NOTIFY;
        break;
    case ENGINE_NOTICE_FAILED:
        entry.hdr.kind |= EMU_FAILED;
        break;
    case ENGINE_NOTICE_ANSWER:
        entry.hdr.op = from->answer;
        /* fallthrough */
    case ENGINE_NOTICE_ACKED:
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

/* Skip the segments of an acknowledged packet for which the host requested no report. */
static void deliver_skip(struct engine *e)
{
    struct engine_delivery *from = &e->host.delivery;

    while (from->notice == ENGINE_NOTICE_ACKED && from->at < from->count &&
           !(engine_hdr(e, from->buf[from->at])->kind & EMU_NOTIFY))
        emu_pool_drop(engine_cache(e), from->buf[from->at++]);
}

/*
 * Return whether this is a report for a process that has ended. Such a report must not be
 * delivered, because the node's next process could take it for an answer to one of its own
 * operations.
 */
static bool report_is_stale(const struct engine *e)
{
    const struct engine_delivery *from = &e->host.delivery;
    const struct emu_hostif *hostif = e->host.out.kind == EMU_LINK_HOSTIF ? e->host.out.plug.plugged
                                                                          : NULL;

    return from->notice != ENGINE_NOTICE_SEGMENTS && e->host.out.kind == EMU_LINK_HOSTIF &&
           from->process != (hostif ? hostif->serial : 0);
}

/*
 * Functions that depend on the clock. The compiler inlines them where this struct is a constant, so
 * there are no indirect calls.
 */
struct deliver_how {
    /* is called at the beginning of a delivery */
    void (*begin)(struct engine *e);
    /* returns how many segments the host accepts now */
    uint32_t (*room)(struct engine *e, uint64_t at_ps);
    void (*hand)(struct engine *e, struct emu_entry *entry, uint64_t at_ps);
    /*
     * Hand over at most @most segments unchanged, directly from their buffers. Returns how many. If
     * the host has space for more, the next segment must be handed over by @hand.
     */
    uint32_t (*hand_unchanged)(struct engine *e, const uint32_t *bufs, uint32_t most);
    /* is called after incoming packet @i was handed over */
    void (*answer)(struct engine *e, uint16_t i, uint64_t at_ps);
};

static inline __attribute__((always_inline)) bool deliver_next(struct engine *e, uint64_t at_ps,
                                                               const struct deliver_how *how)
{
    if (e->host.delivery.active)
        return true;
    if (!deliver_take(e, at_ps))
        return false;
    how->begin(e);
    return true;
}

static inline __attribute__((always_inline)) void deliver_end(struct engine *e, uint64_t at_ps,
                                                              const struct deliver_how *how)
{
    struct engine_delivery *done = &e->host.delivery;

    done->active = false;
    if (done->packet != ENGINE_NONE) {
        engine_free(e, done->packet, at_ps);
        return;
    }
    emu_count(&e->counts.received, 1);
    if (done->reply != ENGINE_NONE)
        how->answer(e, done->reply, at_ps);
}

/* Hand over up to @room segments unchanged. Returns how many. */
static inline __attribute__((always_inline)) uint32_t deliver_unchanged(
    struct engine *e, uint32_t room, const struct deliver_how *how)
{
    struct engine_delivery *from = &e->host.delivery;
    uint32_t left = (uint32_t)from->count - from->at, handed;

    if (from->notice != ENGINE_NOTICE_SEGMENTS)
        return 0;
    handed = how->hand_unchanged(e, &from->buf[from->at], left < room ? left : room);
    from->at = (uint8_t)(from->at + handed);
    return handed;
}

/*
 * Hand over the segments of the current delivery. *room counts the segments that the host is known
 * to accept. False: the host has no space for the next segment.
 */
static inline __attribute__((always_inline)) bool deliver_segments(struct engine *e, uint32_t *room,
                                                                   uint64_t at_ps,
                                                                   const struct deliver_how *how)
{
    struct engine_delivery *from = &e->host.delivery;

    for (deliver_skip(e); from->at < from->count; (*room)--, deliver_skip(e)) {
        struct emu_entry entry;
        uint32_t unchanged;

        if (!*room && !(*room = how->room(e, at_ps))) {
            emu_count(&e->host.out.counts.stalls, 1);
            return false;
        }
        if (report_is_stale(e)) {
            emu_pool_drop(engine_cache(e), from->buf[from->at++]);
            (*room)++;
            continue;
        }
        unchanged = deliver_unchanged(e, *room, how);
        if (unchanged) {
            *room -= unchanged - 1;
            continue;
        }
        entry = deliver_entry(e, from, from->buf[from->at++]);
        how->hand(e, &entry, at_ps);
    }
    return true;
}

/* Hand over all that must be delivered. False: the host has no space for all of it. */
static inline __attribute__((always_inline)) bool deliver_all(struct engine *e, uint64_t at_ps,
                                                              const struct deliver_how *how)
{
    uint32_t room = 0;

    while (deliver_next(e, at_ps, how)) {
        if (!deliver_segments(e, &room, at_ps, how))
            return false;
        deliver_end(e, at_ps, how);
    }
    return true;
}

/* --- clock raw: immediately --------------------------------------------------------- */

static void raw_begin(struct engine *e)
{
    (void)e;
}

static uint32_t raw_room(struct engine *e, uint64_t at_ps)
{
    (void)at_ps;
    return emu_tx_room(&e->host.out);
}

static void raw_hand(struct engine *e, struct emu_entry *entry, uint64_t at_ps)
{
    (void)at_ps;
    if (!emu_tx_copies_out(&e->host.out)) {
        emu_tx_send(&e->host.out, entry);
        return;
    }
    emu_tx_put(&e->host.out, &entry->hdr, emu_pool_payload(engine_cache(e)->pool, entry->buf));
    if (e->host.delivery.notice == ENGINE_NOTICE_SEGMENTS)
        emu_pool_drop_late(engine_cache(e), entry->buf);
    else /* a state, which the manager frees, may share the buffer of a failed contribution */
        emu_pool_drop(engine_cache(e), entry->buf);
}

void engine_hand_run(struct engine *e, const uint32_t *bufs, uint32_t count)
{
    emu_tx_put_run(&e->host.out, engine_cache(e)->pool, bufs, count);
    for (uint32_t i = 0; i < count; i++)
        emu_pool_drop_late(engine_cache(e), bufs[i]);
}

/* Hand over segments up to the first one without payload or with a flag that hosts must not see. */
static uint32_t raw_hand_unchanged(struct engine *e, const uint32_t *bufs, uint32_t most)
{
    uint32_t count = 0;

    if (!emu_tx_copies_out(&e->host.out))
        return 0;
    while (count < most && !(engine_hdr(e, bufs[count])->kind & (ENGINE_LENGTH_ONLY | EMU_NOTIFY)))
        count++;
    engine_hand_run(e, bufs, count);
    return count;
}

static void raw_answer(struct engine *e, uint16_t i, uint64_t at_ps)
{
    engine_answer(e, i, true, at_ps);
}

void engine_deliver_raw(struct engine *e, uint64_t at_ps)
{
    static const struct deliver_how how = {raw_begin, raw_room, raw_hand, raw_hand_unchanged,
                                           raw_answer};

    deliver_all(e, at_ps, &how);
}

bool engine_may_deliver_fast(struct engine *e, uint32_t count)
{
    return !e->host.delivery.active && engine_list_empty(&e->send.back) &&
           engine_list_empty(&e->receive.complete) && emu_tx_copies_out(&e->host.out) &&
           emu_tx_has_room(&e->host.out, count);
}

bool engine_hand_fast(struct engine *e, uint32_t buf)
{
    if (e->dev.timed || (engine_hdr(e, buf)->kind & (ENGINE_LENGTH_ONLY | EMU_NOTIFY)) ||
        !engine_may_deliver_fast(e, 1))
        return false;
    engine_hand_run(e, &buf, 1);
    return true;
}

void engine_host_notify(struct engine *e)
{
    emu_tx_flush(&e->host.out);
    emu_pool_drop_all_late(engine_cache(e));
}

/* --- clocks real and virtual: each segment takes time to reach memory --------------- */

/*
 * Copy early_ps from the packet's channel, because the channel may start another packet during this
 * delivery.
 */
static void timed_begin(struct engine *e)
{
    struct engine_timed *t = engine_timed_of(e);
    uint16_t i = e->host.delivery.reply;

    t->early_ps = i == ENGINE_NONE ? 0 : t->last_early_ps[i];
}

/*
 * Return 1 if the host has space for a segment. Otherwise set the time at which it will have space,
 * and return 0.
 */
static uint32_t timed_room(struct engine *e, uint64_t at_ps)
{
    struct engine_timed *t = engine_timed_of(e);

    t->out_ps = emu_tx_earliest_ps(&e->host.out, at_ps);
    return t->out_ps <= at_ps;
}

/* Hand over a segment. It is in memory recv_ps later, and not before earlier segments. */
static void timed_hand(struct engine *e, struct emu_entry *entry, uint64_t at_ps)
{
    struct engine_timed *t = engine_timed_of(e);
    uint64_t time_ps = at_ps + t->recv_ps - t->early_ps;

    if (time_ps < at_ps + t->lookahead_ps)
        time_ps = at_ps + t->lookahead_ps;
    if (time_ps > t->handed_ps)
        t->handed_ps = time_ps;
    entry->time_ps = t->handed_ps;
    emu_dev_expect(&e->dev, t->handed_ps);
    emu_tx_send(&e->host.out, entry);
}

/* Hand over nothing, because on these clocks each segment needs its own time. */
static uint32_t timed_hand_unchanged(struct engine *e, const uint32_t *bufs, uint32_t most)
{
    (void)e;
    (void)bufs;
    (void)most;
    return 0;
}

/*
 * Acknowledge a packet that was handed over. If its head says that the sender has another packet
 * for the same destination, acknowledge the packet at once. Otherwise wait until its payload is in
 * memory, because the ACK of a message's last packet means that the message is in memory.
 */
static void timed_answer(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    if (in->head.more) {
        engine_answer(e, i, true, at_ps);
        return;
    }
    in->state = ENGINE_STORED;
    in->due_ps = engine_timed_of(e)->handed_ps;
    engine_list_add(&e->receive.stored, e->receive.join, i);
}

void engine_deliver_timed(struct engine *e, uint64_t at_ps)
{
    static const struct deliver_how how = {timed_begin, timed_room, timed_hand,
                                           timed_hand_unchanged, timed_answer};

    if (deliver_all(e, at_ps, &how))
        engine_timed_of(e)->out_ps = EMU_NEVER;
}
