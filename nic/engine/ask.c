/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.c - network conditionals: tests at all members of a group, repeated until they are true.
 *
 * A conditional in backoff holds no packet. It is in a list here and takes a packet only while it
 * is tested; conditionals may use only a part of the packets. So however many wait for something to
 * become true, the traffic that makes it true always finds packets. A host's conditional keeps one
 * of ENGINE_ASKS slots while it waits. When all are taken, a conditional is tested once; the host
 * gets the answer false and repeats it (nic/host/group/word.c). A barrier's conditional is in the
 * state of its number, so there is one for each.
 *
 * Conditionals of a process that has ended are dropped when they are due, and so are all
 * conditionals in groups that all members have left. A barrier to which the process has contributed
 * continues, with longer backoff.
 * Source: QsNet III §IV-A.
 */
#include "nic/engine/ask.h"

#include <stdlib.h>

#include "nic/engine/internal.h"

/*
 * From this number of conditionals in backoff on, the backoff time grows in proportion to their
 * number, so that they leave the links to others.
 */
#define ASKS_MANY 4u
/*
 * Clock raw: tries without backoff. The shortest backoff there is longer than members on their way
 * need to arrive, because a round trip takes less time than passes between two reads of the clock.
 */
#define ASKS_AT_ONCE 1u

/* --- in backoff --------------------------------------------------------------------- */

bool engine_asks_init(struct engine_asks *asks, uint64_t random)
{
    asks->jitter = (uint32_t)(random >> 32);
    asks->slot = calloc(ENGINE_ASKS, sizeof *asks->slot);
    for (uint32_t i = 0; asks->slot && i < ENGINE_ASKS; i++)
        engine_queue_add(&asks->free, &asks->slot[i].ask.at);
    return asks->slot;
}

uint64_t engine_asks_due_ps(const struct engine_asks *asks)
{
    uint64_t at_ps = EMU_NEVER;

    emu_each_bit (doublings, asks->any) {
        const struct engine_ask *first = engine_ask_of(asks->rest[doublings].first);

        if (first->due_ps < at_ps)
            at_ps = first->due_ps;
    }
    return at_ps;
}

/* --- one conditional ---------------------------------------------------------------- */

/*
 * Returns the group to test. NULL: nobody wants the answer any more, or all members have left. Call
 * it once per use: the manager may remove the group between two calls.
 */
static struct engine_group *ask_group(struct engine *e, struct engine_ask *ask)
{
    const struct engine_host_ask *host;
    struct engine_group *group;

    if (ask->barrier) {
        group = ask->barrier->group;
        return engine_group_of(e, group->id) == group ? group : NULL;
    }
    host = engine_host_ask_of(ask);
    if (host->taken_back || ask->process != e->host.process)
        return NULL;
    return engine_group_of(e, host->group);
}

/*
 * The conditional has ended and is in no list. Its buffer belongs to somebody else, or was dropped.
 */
static void ask_end(struct engine *e, struct engine_ask *ask)
{
    if (ask->barrier) {
        ask->barrier->asking = false;
        engine_group_release(ask->barrier->group);
        return;
    }
    engine_host_ask_of(ask)->used = false;
    engine_queue_push(&e->asks.free, &ask->at);
}

static void ask_drop(struct engine *e, struct engine_ask *ask)
{
    if (!ask->barrier)
        emu_pool_drop(engine_cache(e), engine_host_ask_of(ask)->buf);
    ask_end(e, ask);
}

/* Tries that are not followed by backoff. */
static uint32_t tries_at_once(const struct engine *e)
{
    return e->dev.timed ? 0 : ASKS_AT_ONCE;
}

/*
 * May it be repeated without backoff? Only few and rarely: packets are needed for the traffic that
 * makes conditionals true.
 */
static bool ask_at_once(const struct engine *e, const struct engine_ask *ask)
{
    return ask->tries < tries_at_once(e) && engine_queue_empty(&e->asks.due) &&
           e->asks.resting + e->asks.in_packets < ASKS_MANY;
}

/*
 * Put it into backoff. All conditionals of a list have the same backoff time, so the list is in
 * order of due times. The time doubles with each try and with the number of conditionals in
 * backoff. It has up to half as much jitter, which differs between adapters, so that colliding
 * tests separate.
 */
static void ask_rest(struct engine *e, struct engine_ask *ask)
{
    struct engine_asks *asks = &e->asks;
    uint32_t most = ask->process == e->host.process ? ENGINE_TEST_DOUBLINGS : ENGINE_DOUBLINGS;
    uint32_t tries = ask->tries > tries_at_once(e) ? ask->tries - tries_at_once(e) : 0;
    uint32_t doublings = tries < most ? tries : most;
    uint64_t rest_ps;

    for (uint32_t many = asks->resting / ASKS_MANY; many && doublings < ENGINE_DOUBLINGS; many /= 2)
        doublings++;
    rest_ps = e->profile->retry_ps << doublings;
    rest_ps += (uint64_t)((unsigned __int128)(rest_ps / 2) * asks->jitter >> 32);
    ask->due_ps = e->now_ps + rest_ps;
    ask->tries = (uint16_t)(ask->tries + (ask->tries < UINT16_MAX));
    engine_queue_add(&asks->rest[doublings], &ask->at);
    asks->any |= 1u << doublings;
    asks->resting++;
}

/* The segment of a conditional: the host's own, or a new one for a barrier. */
static uint32_t ask_segment(struct engine *e, struct engine_ask *ask)
{
    uint32_t buf;

    if (!ask->barrier)
        return engine_host_ask_of(ask)->buf;
    buf = emu_pool_take(engine_cache(e));
    assert(buf != EMU_NO_BUF); /* reserved: the engine has some for each of its packets */
    *engine_hdr(e, buf) = (struct emu_hdr){.dst = ask->barrier->group->id,
                                           .src = e->node,
                                           .seq = ask->barrier->hdr.seq,
                                           .kind = EMU_TEST,
                                           .op = ENGINE_TEST_BARRIER};
    *engine_born_ns(e, buf) = 0;
    return buf;
}

/* Send it to @group in a packet; one is free. */
static void ask_send(struct engine *e, struct engine_ask *ask, const struct engine_group *group,
                     uint64_t at_ps)
{
    uint16_t i = engine_begin(e, ask_segment(e, ask), engine_to_group(e, group, ENGINE_TEST));

    e->send.packet[i].ask = ask;
    e->send.packet[i].tries = ask->tries;
    /* repeated tests share with bulk, which they could starve */
    e->send.packet[i].bulk = ask->tries;
    e->asks.in_packets++;
    emu_count(&e->counts.conditionals, 1);
    engine_ready(e, i, false, at_ps);
}

/* Its backoff has ended. If the condition is false here, the other members need not be asked. */
static void ask_retry(struct engine *e, struct engine_ask *ask)
{
    if (!ask_group(e, ask))
        ask_drop(e, ask);
    else if (!ask->barrier && !engine_agrees(e, engine_host_ask_of(ask)->buf))
        ask_rest(e, ask);
    else
        engine_queue_add(&e->asks.due, &ask->at);
}

void engine_asks_go(struct engine *e, uint64_t at_ps)
{
    struct engine_asks *asks = &e->asks;

    while (!engine_queue_empty(&asks->due) &&
           asks->in_packets < e->send.packets / ENGINE_ASK_PART &&
           !engine_list_empty(&e->send.free)) {
        struct engine_ask *ask = engine_ask_of(engine_queue_pop(&asks->due));
        const struct engine_group *group = ask_group(e, ask);

        if (group)
            ask_send(e, ask, group, at_ps);
        else
            ask_drop(e, ask);
    }
}

void engine_asks_due(struct engine *e, uint64_t at_ps)
{
    struct engine_asks *asks = &e->asks;
    uint32_t turns = 0;

    emu_each_bit (doublings, asks->any) {
        struct engine_queue *rest = &asks->rest[doublings];

        while (!engine_queue_empty(rest) && engine_ask_of(rest->first)->due_ps <= e->now_ps &&
               turns++ < ENGINE_BURST) {
            asks->resting--;
            ask_retry(e, engine_ask_of(engine_queue_pop(rest)));
        }
        asks->any &= ~((uint32_t)engine_queue_empty(rest) << doublings);
    }
    engine_asks_go(e, at_ps);
}

/* --- posted by a host or a barrier -------------------------------------------------- */

void engine_ask_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps)
{
    struct engine_tree *tree = state->group->tree;
    struct engine_ask *ask = &tree->ask[state - tree->state];

    *ask = (struct engine_ask){.barrier = state, .process = e->host.process};
    state->asking = true;
    engine_group_hold(state->group);
    ask_retry(e, ask);
    engine_asks_go(e, at_ps);
}

/* Find a host's conditional by its id. NULL: it does not wait here. */
static struct engine_host_ask *ask_find(struct engine *e, const struct emu_hdr *hdr)
{
    for (uint32_t i = 0; i < ENGINE_ASKS; i++) {
        struct engine_host_ask *ask = &e->asks.slot[i];

        if (ask->used && ask->ask.process == e->host.process && ask->seq == hdr->seq &&
            ask->group == hdr->dst)
            return ask;
    }
    return NULL;
}

/* Test once. There is a free packet, also for the answer. */
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
    struct engine_host_ask *ask =
        engine_host_ask_of(engine_ask_of(engine_queue_pop(&e->asks.free)));
    const struct emu_hdr *hdr = engine_hdr(e, buf);

    *ask = (struct engine_host_ask){.ask.process = e->host.process,
                                    .buf = buf,
                                    .seq = hdr->seq,
                                    .group = hdr->dst,
                                    .used = true};
    ask_retry(e, &ask->ask);
    engine_asks_go(e, at_ps);
}

bool engine_test(struct engine *e, struct engine_group *group, uint32_t buf,
                 const struct emu_word *word, uint64_t at_ps)
{
    struct engine_host_ask *ask;

    engine_hdr(e, buf)->op = ENGINE_TEST_WORD;
    if (word->until == EMU_TEST_TAKE_BACK) {
        ask = ask_find(e, engine_hdr(e, buf));
        if (ask)
            ask->taken_back = true;
        emu_pool_drop(engine_cache(e), buf);
    } else if (word->until == EMU_TEST_UNTIL && !engine_queue_empty(&e->asks.free)) {
        test_until(e, buf, at_ps);
    } else if (!engine_list_empty(&e->send.free)) {
        test_once(e, group, buf, at_ps);
    } else {
        return false;
    }
    return true;
}

/* --- the answer --------------------------------------------------------------------- */

/* All members agree. */
static void ask_agreed(struct engine *e, uint16_t i, struct engine_ask *ask, uint64_t at_ps)
{
    struct engine_coll *barrier = ask->barrier;

    ask_end(e, ask);
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
    struct engine_ask *ask = p->ask;

    emu_count(&e->counts.unequal, !agreed);
    if (!ask) {
        p->answer = agreed ? EMU_TEST_TRUE : EMU_TEST_FALSE;
        engine_back(e, i, ENGINE_NOTICE_ANSWER, at_ps);
        return;
    }
    e->asks.in_packets--;
    if (!ask_group(e, ask)) {
        ask_end(e, ask);
        engine_free(e, i, at_ps);
    } else if (agreed) {
        ask_agreed(e, i, ask, at_ps);
    } else {
        if (!ask->barrier) {
            e->send.held -= p->count;
            p->count = 0; /* the conditional has its buffer back */
        }
        if (ask_at_once(e, ask)) {
            ask->tries++;
            engine_queue_add(&e->asks.due, &ask->at);
        } else {
            ask_rest(e, ask);
        }
        engine_free(e, i, at_ps);
    }
}
