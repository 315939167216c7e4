/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - packets at their source, until they are acknowledged or dropped.
 *
 * Packets wait for a channel in the order of their priorities. link.c opens a channel and sends the
 * packet, which then awaits its reply. After a failed try the packet is in backoff, and is tried
 * again when its backoff time has passed.
 * Source: QsNet III §III, §IV-B.
 */
#include "nic/engine/send.h"

#include "emu/util/random.h"
#include "nic/engine/internal.h"

/*
 * When the count of tries reaches this value, half of it is subtracted. Otherwise it would overflow
 * with EMU_RETRIES_ENDLESS.
 */
#define TRIES_COUNTED (1u << 15)
static_assert(TRIES_COUNTED / 2 % (1u << ENGINE_TRY_BITS) == 0,
              "tags use the lowest bits of tries");

void engine_sending_init(struct engine_sending *send)
{
    struct engine_list *const lists[] = {&send->awaiting, &send->backing_off, &send->back,
                                         &send->free};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        engine_list_init(lists[i]);
    for (uint32_t p = 0; p < EMU_PRIORITIES; p++)
        engine_list_init(&send->waiting[p]);
    for (uint32_t i = 0; i < send->packets; i++)
        engine_list_add(&send->free, send->join, (uint16_t)i);
    send->forming = ENGINE_NONE;
}

void engine_waiting_drop(struct engine *e, uint16_t i)
{
    struct engine_list *list = &e->send.waiting[e->send.packet[i].priority];

    engine_list_drop(list, e->send.join, i);
    if (engine_list_empty(list))
        e->send.waiting_any &= ~(1u << e->send.packet[i].priority);
}

void engine_ready(struct engine *e, uint16_t i, bool first, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];
    struct engine_list *list;

    p->state = ENGINE_WAITING;
    p->priority = emu_packet_priority(p->tclass, p->segs == 1 && !p->priority_as_long);
    list = &e->send.waiting[p->priority];
    engine_list_insert(list, e->send.join, first ? ENGINE_NONE : list->last, i);
    e->send.waiting_any |= 1u << p->priority;
    engine_wake_all(e, at_ps);
}

void engine_free(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];

    assert(p->state != ENGINE_FREE);
    for (uint32_t s = 0; s < p->count; s++)
        emu_pool_drop(engine_cache(e), p->buf[s]);
    e->send.held -= p->count;
    engine_flow_leave(e, i);
    if (p->tries && e->send.waiting_any)
        engine_wake_all(e, at_ps); /* the window of the packet's flow may have opened */
    p->state = ENGINE_FREE;
    /* first in the list, because it is in the cache */
    engine_list_insert(&e->send.free, e->send.join, ENGINE_NONE, i);
    if (!engine_queue_empty(&e->tree.results) && e->tree.results_ps == EMU_NEVER) {
        /*
         * a free packet buffer is used for a result first, else for a conditional, else for the
         * host's segments
         */
        e->tree.results_ps = at_ps;
        return;
    }
    if (!engine_queue_empty(&e->queries.due))
        engine_queries_go(e, at_ps);
    engine_posts_again(e, at_ps);
}

/*
 * Insert packet @i into a list ordered by due times. Search from the end, because most packets are
 * due last.
 */
static void timer_add(struct engine *e, struct engine_list *list, uint16_t i)
{
    uint16_t prev = list->last;

    while (prev != ENGINE_NONE && e->send.packet[prev].due_ps > e->send.packet[i].due_ps)
        prev = e->send.join[prev].prev;
    engine_list_insert(list, e->send.join, prev, i);
}

/*
 * Return the backoff time, which doubles with each try. Up to half as much is added as jitter, so
 * that packets that collided do not collide again.
 */
static uint64_t packet_backoff_ps(struct engine *e, const struct engine_packet *p)
{
    uint32_t doublings = p->tries ? p->tries - 1u : 0;
    uint64_t rest_ps;

    if (doublings > ENGINE_DOUBLINGS)
        doublings = ENGINE_DOUBLINGS;
    rest_ps = e->profile->retry_ps << doublings;
    return rest_ps +
           (uint64_t)((unsigned __int128)(rest_ps / 2 + 1) * emu_xorshift(&e->random) >> 64);
}

/* Return whether the packet's group is gone, so that more tries would only delay other packets. */
static bool packet_for_no_group(const struct engine *e, const struct engine_packet *p)
{
    return p->group && !engine_group_of(e, p->dst);
}

/* Handle the failure of a try of packet @i, which is in no list: begin its backoff, or drop it. */
static void packet_back_off(struct engine *e, uint16_t i, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];
    bool not_in_group = packet_for_no_group(e, p);

    if (not_in_group || p->tries >= engine_flow_tries(e, p)) {
        engine_flow_cut(e, (struct engine_to){.dst = p->dst, .class = p->class, .group = p->group});
        emu_count(not_in_group ? &e->counts.not_in_group : &e->counts.lost, p->count);
        engine_back(e, i, ENGINE_NOTICE_FAILED, at_ps);
        return;
    }
    if (p->tries >= TRIES_COUNTED) /* only with endless tries; keeps the low bits, which tags use */
        p->tries -= TRIES_COUNTED / 2;
    p->state = ENGINE_BACKOFF;
    p->due_ps = e->now_ps + packet_backoff_ps(e, p);
    if (p->group && e->group_slots > 1)
        engine_choose_tree(e, p);
    timer_add(e, &e->send.backing_off, i);
}

void engine_await(struct engine *e, uint16_t i)
{
    struct engine_packet *p = &e->send.packet[i];

    p->state = ENGINE_AWAITING;
    p->due_ps = e->now_ps + emu_rto_ps(&e->rto, p->late);
    timer_add(e, &e->send.awaiting, i);
}

void engine_replied(struct engine *e, uint16_t i, bool taken, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];

    if (p->class == ENGINE_TEST) {
        engine_tested(e, i, taken, at_ps);
        return;
    }
    if (!taken) {
        packet_back_off(e, i, at_ps);
        return;
    }
    engine_flow_acked(e, p);
    if (p->tries == 1)
        emu_rto_sample(&e->rto, e->now_ps - p->active_ps);
    if (p->back)
        engine_back(e, i, p->back, at_ps);
    else
        engine_free(e, i, at_ps);
}

void engine_send_due(struct engine *e, uint64_t at_ps)
{
    uint16_t i;

    while ((i = e->send.awaiting.first) != ENGINE_NONE && e->send.packet[i].due_ps <= e->now_ps) {
        struct engine_packet *p = &e->send.packet[i];
        uint64_t due_ps = p->active_ps + emu_rto_ps(&e->rto, p->late);

        if (due_ps > e->now_ps) {
            /* since due_ps was set, a segment was sent, or time-outs have become longer */
            p->due_ps = due_ps;
            engine_list_drop(&e->send.awaiting, e->send.join, i);
            timer_add(e, &e->send.awaiting, i);
            continue;
        }
        emu_count(&e->counts.timeouts, 1);
        emu_rto_late(&e->rto);
        p->late = (uint8_t)(p->late + (p->late < UINT8_MAX));
        emu_vcs_close(&e->link[p->link].vcs, p->channel, p->tag);
        engine_link_close(e, i, at_ps);
        engine_replied(e, i, false, at_ps);
    }
    while ((i = e->send.backing_off.first) != ENGINE_NONE &&
           e->send.packet[i].due_ps <= e->now_ps) {
        engine_list_drop(&e->send.backing_off, e->send.join, i);
        engine_ready(e, i, true, at_ps);
    }
    if (e->queries.any)
        engine_queries_due(e, at_ps);
}
