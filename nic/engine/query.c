/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * query.c - network conditionals: tests at all members of a group, repeated until they are true.
 *
 * A *packet* here is an entry of the table of packets to send (struct engine_packet). A conditional
 * in backoff occupies no packet. It waits in a queue, and takes a packet only for a test. Repeated
 * tests may use only a part of the packets. So even if many conditionals wait, the traffic that
 * makes them true always finds free packets. A host's conditional occupies one of ENGINE_QUERIES
 * slots until it is true. If no slot is free, the engine tests the conditional only once. If the
 * conditional is false then, the host gets this answer and posts the conditional again
 * (nic/host/group/word.c). A barrier's conditional belongs to the barrier's state, so it needs no
 * slot.
 *
 * A conditional is dropped, when it is due, if its process has ended or if all members have left
 * its group. But a barrier's conditional continues, with longer backoff, after its process has
 * ended, because the process has contributed to the barrier.
 * Source: QsNet III §IV-A.
 */
#include "nic/engine/query.h"

#include <stdlib.h>

#include "nic/engine/internal.h"

/*
 * If this many conditionals or more are in backoff, the backoff time grows in proportion to their
 * number, so that they leave the links to other traffic.
 */
#define QUERIES_MANY 4u
/*
 * Clock raw: number of tries that are repeated without backoff. On this clock even the shortest
 * backoff can end long after the last members have arrived, because the engine reads the clock less
 * often than once per round trip.
 */
#define QUERY_IMMEDIATE_TRIES 1u

/* --- in backoff --------------------------------------------------------------------- */

bool engine_queries_init(struct engine_queries *queries, uint64_t random)
{
    queries->jitter = (uint32_t)(random >> 32);
    queries->slot = calloc(ENGINE_QUERIES, sizeof *queries->slot);
    for (uint32_t i = 0; queries->slot && i < ENGINE_QUERIES; i++)
        engine_queue_add(&queries->free, &queries->slot[i].query.at);
    return queries->slot;
}

uint64_t engine_queries_due_ps(const struct engine_queries *queries)
{
    uint64_t at_ps = EMU_NEVER;

    emu_each_bit (doublings, queries->any) {
        const struct engine_query *first = engine_query_of(queries->backoff[doublings].first);

        if (first->due_ps < at_ps)
            at_ps = first->due_ps;
    }
    return at_ps;
}

/* --- one conditional ---------------------------------------------------------------- */

/*
 * Return the group to test. NULL: the answer is not wanted any more, or all members have left the
 * group. Call this again for each use, because the manager may remove the group in between.
 */
static struct engine_group *query_group(struct engine *e, struct engine_query *query)
{
    const struct engine_host_query *host;
    struct engine_group *group;

    if (query->barrier) {
        group = query->barrier->group;
        return engine_group_of(e, group->id) == group ? group : NULL;
    }
    host = engine_host_query_of(query);
    if (host->taken_back || query->process != e->host.process)
        return NULL;
    return engine_group_of(e, host->group);
}

/* Free the conditional, which is in no queue. The caller has passed on or dropped its buffer. */
static void query_end(struct engine *e, struct engine_query *query)
{
    if (query->barrier) {
        query->barrier->querying = false;
        engine_group_release(query->barrier->group);
        return;
    }
    engine_host_query_of(query)->used = false;
    engine_queue_push(&e->queries.free, &query->at);
}

static void query_drop(struct engine *e, struct engine_query *query)
{
    if (!query->barrier)
        emu_pool_drop(engine_cache(e), engine_host_query_of(query)->buf);
    query_end(e, query);
}

static uint32_t immediate_tries(const struct engine *e)
{
    return e->dev.timed ? 0 : QUERY_IMMEDIATE_TRIES;
}

/*
 * Return whether the conditional may be repeated without backoff. This is limited to few
 * conditionals and few tries, because packets are needed for the traffic that makes conditionals
 * true.
 */
static bool query_is_immediate(const struct engine *e, const struct engine_query *query)
{
    return query->tries < immediate_tries(e) && engine_queue_empty(&e->queries.due) &&
           e->queries.backing_off + e->queries.in_packets < QUERIES_MANY;
}

/*
 * Put the conditional into backoff. All conditionals in a queue have the same backoff time, so the
 * queue is in the order of due times. The time doubles with each try, and grows with the number of
 * conditionals in backoff. Up to half of it is added as jitter, which differs between adapters, so
 * that tests that collided do not collide again.
 */
static void query_back_off(struct engine *e, struct engine_query *query)
{
    struct engine_queries *queries = &e->queries;
    uint32_t most = query->process == e->host.process ? ENGINE_TEST_DOUBLINGS : ENGINE_DOUBLINGS;
    uint32_t tries = query->tries > immediate_tries(e) ? query->tries - immediate_tries(e) : 0;
    uint32_t doublings = tries < most ? tries : most;
    uint64_t rest_ps;

    for (uint32_t many = queries->backing_off / QUERIES_MANY; many && doublings < ENGINE_DOUBLINGS;
         many /= 2)
        doublings++;
    rest_ps = e->profile->retry_ps << doublings;
    rest_ps += (uint64_t)((unsigned __int128)(rest_ps / 2) * queries->jitter >> 32);
    query->due_ps = e->now_ps + rest_ps;
    query->tries = (uint16_t)(query->tries + (query->tries < UINT16_MAX));
    engine_queue_add(&queries->backoff[doublings], &query->at);
    queries->any |= 1u << doublings;
    queries->backing_off++;
}

/* Return the segment of a conditional: the one that the host posted, or a new one for a barrier. */
static uint32_t query_segment(struct engine *e, struct engine_query *query)
{
    uint32_t buf;

    if (!query->barrier)
        return engine_host_query_of(query)->buf;
    buf = emu_pool_take(engine_cache(e));
    assert(buf != EMU_NO_BUF); /* engine_bufs() counts a buffer for each segment of each packet */
    *engine_hdr(e, buf) = (struct emu_hdr){.dst = query->barrier->group->id,
                                           .src = e->node,
                                           .seq = query->barrier->hdr.seq,
                                           .kind = EMU_TEST,
                                           .op = ENGINE_TEST_BARRIER};
    *engine_born_ns(e, buf) = 0;
    return buf;
}

/* Send the conditional to @group in a packet. One must be free. */
static void query_send(struct engine *e, struct engine_query *query,
                       const struct engine_group *group, uint64_t at_ps)
{
    uint16_t i = engine_begin(e, query_segment(e, query), engine_to_group(e, group, ENGINE_TEST));

    e->send.packet[i].query = query;
    e->send.packet[i].tries = query->tries;
    e->send.packet[i].late = query->late;
    /* otherwise repeated tests could starve the longer packets of their class */
    e->send.packet[i].priority_as_long = query->tries;
    e->queries.in_packets++;
    emu_count(&e->counts.conditionals, 1);
    engine_ready(e, i, false, at_ps);
}

/*
 * Make the conditional due, because it is new or its backoff has ended. If a host's conditional is
 * false at this adapter, begin another backoff instead, without a test at the other members.
 */
static void query_retry(struct engine *e, struct engine_query *query)
{
    if (!query_group(e, query))
        query_drop(e, query);
    else if (!query->barrier && !engine_agrees(e, engine_host_query_of(query)->buf))
        query_back_off(e, query);
    else
        engine_queue_add(&e->queries.due, &query->at);
}

void engine_queries_go(struct engine *e, uint64_t at_ps)
{
    struct engine_queries *queries = &e->queries;

    while (!engine_queue_empty(&queries->due) &&
           queries->in_packets < e->send.packets / ENGINE_QUERY_SHARE &&
           !engine_list_empty(&e->send.free)) {
        struct engine_query *query = engine_query_of(engine_queue_pop(&queries->due));
        const struct engine_group *group = query_group(e, query);

        if (group)
            query_send(e, query, group, at_ps);
        else
            query_drop(e, query);
    }
}

void engine_queries_due(struct engine *e, uint64_t at_ps)
{
    struct engine_queries *queries = &e->queries;
    uint32_t handled = 0;

    emu_each_bit (doublings, queries->any) {
        struct engine_queue *backoff = &queries->backoff[doublings];

        while (!engine_queue_empty(backoff) &&
               engine_query_of(backoff->first)->due_ps <= e->now_ps && handled++ < ENGINE_BURST) {
            queries->backing_off--;
            query_retry(e, engine_query_of(engine_queue_pop(backoff)));
        }
        queries->any &= ~((uint32_t)engine_queue_empty(backoff) << doublings);
    }
    engine_queries_go(e, at_ps);
}

/* --- posted by a host or a barrier -------------------------------------------------- */

void engine_query_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps)
{
    struct engine_tree *tree = state->group->tree;
    struct engine_query *query = &tree->query[state - tree->state];

    *query = (struct engine_query){.barrier = state, .process = e->host.process};
    state->querying = true;
    engine_group_hold(state->group);
    query_retry(e, query);
    engine_queries_go(e, at_ps);
}

/* Return the waiting conditional of the host with the id in @hdr. NULL: there is none. */
static struct engine_host_query *query_find(struct engine *e, const struct emu_hdr *hdr)
{
    for (uint32_t i = 0; i < ENGINE_QUERIES; i++) {
        struct engine_host_query *query = &e->queries.slot[i];

        if (query->used && query->query.process == e->host.process && query->seq == hdr->seq &&
            query->group == hdr->dst)
            return query;
    }
    return NULL;
}

/* Test a conditional once. A packet must be free, for the test or for the answer. */
static void test_once(struct engine *e, struct engine_group *group, uint32_t buf, uint64_t at_ps)
{
    uint16_t i = engine_begin(e, buf, engine_to_group(e, group, ENGINE_TEST));

    if (engine_agrees(e, buf)) {
        emu_count(&e->counts.conditionals, 1);
        engine_ready(e, i, false, at_ps);
        return;
    }
    e->send.packet[i].answer = EMU_TEST_FALSE;
    engine_back(e, i, ENGINE_NOTICE_ANSWER, at_ps);
}

static void test_until(struct engine *e, uint32_t buf, uint64_t at_ps)
{
    struct engine_host_query *query =
        engine_host_query_of(engine_query_of(engine_queue_pop(&e->queries.free)));
    const struct emu_hdr *hdr = engine_hdr(e, buf);

    *query = (struct engine_host_query){.query.process = e->host.process,
                                        .buf = buf,
                                        .seq = hdr->seq,
                                        .group = hdr->dst,
                                        .used = true};
    query_retry(e, &query->query);
    engine_queries_go(e, at_ps);
}

bool engine_test(struct engine *e, struct engine_group *group, uint32_t buf,
                 const struct emu_word *word, uint64_t at_ps)
{
    struct engine_host_query *query;

    engine_hdr(e, buf)->op = ENGINE_TEST_WORD;
    if (word->until == EMU_TEST_TAKE_BACK) {
        query = query_find(e, engine_hdr(e, buf));
        if (query)
            query->taken_back = true;
        emu_pool_drop(engine_cache(e), buf);
    } else if (word->until == EMU_TEST_UNTIL && !engine_queue_empty(&e->queries.free)) {
        test_until(e, buf, at_ps);
    } else if (!engine_list_empty(&e->send.free)) {
        test_once(e, group, buf, at_ps);
    } else {
        return false;
    }
    return true;
}

/* --- the answer --------------------------------------------------------------------- */

/* End the conditional of packet @i, because it is true at all members. */
static void query_agreed(struct engine *e, uint16_t i, struct engine_query *query, uint64_t at_ps)
{
    struct engine_coll *barrier = query->barrier;

    query_end(e, query);
    if (barrier) {
        engine_free(e, i, at_ps);
        engine_all_ready(e, barrier, at_ps);
    } else {
        e->send.packet[i].answer = EMU_TEST_TRUE;
        engine_back(e, i, ENGINE_NOTICE_ANSWER, at_ps);
    }
}

void engine_tested(struct engine *e, uint16_t i, bool agreed, uint64_t at_ps)
{
    struct engine_packet *p = &e->send.packet[i];
    struct engine_query *query = p->query;

    emu_count(&e->counts.unequal, !agreed);
    if (!query) {
        p->answer = agreed ? EMU_TEST_TRUE : EMU_TEST_FALSE;
        engine_back(e, i, ENGINE_NOTICE_ANSWER, at_ps);
        return;
    }
    e->queries.in_packets--;
    query->late = p->late;
    if (!query_group(e, query)) {
        query_end(e, query);
        engine_free(e, i, at_ps);
    } else if (agreed) {
        query_agreed(e, i, query, at_ps);
    } else {
        if (!query->barrier) {
            e->send.held -= p->count;
            p->count = 0; /* the buffer belongs to the conditional again */
        }
        if (query_is_immediate(e, query)) {
            query->tries++;
            engine_queue_add(&e->queries.due, &query->at);
        } else {
            query_back_off(e, query);
        }
        engine_free(e, i, at_ps);
    }
}
