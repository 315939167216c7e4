/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.c - network conditionals: questions to all members of a group, asked until they are true.
 *
 * A question at rest holds no packet. It lies in a list here, and takes a packet when it is asked,
 * of which questions have a part only. So however many wait for something to become true, what
 * makes it true always finds packets. A host's question has one of ENGINE_ASKS slots as long as it
 * waits; when all are taken, a question is asked once and the host, who has been told that it was
 * false, asks again (nic/host/group/word.c). A barrier's lies in the state of its number, so there
 * is one for each.
 *
 * Conditionals of a process that is no more are dropped when their turn comes, and all questions in
 * groups that all members have left. A barrier to which the process has contributed goes on,
 * seldom.
 * Source: QsNet III §IV-A.
 */
#include "nic/engine/ask.h"

#include <stdlib.h>

#include "nic/engine/internal.h"

/* At rest: with twice as many each rests twice as long, so that they leave the links to others. */
#define ASKS_MANY 4u
/* Raw: tries without a rest, for there its least is longer than it takes members to come who are on
   their way: a round through the network takes less than the clock is looked at apart. */
#define ASKS_AT_ONCE 1u

/* --- those that rest ---------------------------------------------------------------- */

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

/* --- one question ------------------------------------------------------------------- */

/*
 * The group that is asked. NULL: nobody wants to know any more, or all members have left it. Who
 * needs it looks once: the manager may take it out between two looks.
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

/* It is in no list. Its buffer is somebody else's, or dropped. */
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

/* Tries that no rest follows. */
static uint32_t tries_at_once(const struct engine *e)
{
    return e->dev.timed ? 0 : ASKS_AT_ONCE;
}

/* Is it asked again at once? Few may be, and not often: packets are for what makes them true. */
static bool ask_at_once(const struct engine *e, const struct engine_ask *ask)
{
    return ask->tries < tries_at_once(e) && engine_queue_empty(&e->asks.due) &&
           e->asks.resting + e->asks.in_packets < ASKS_MANY;
}

/*
 * All questions on a list rest for the same time, so the list is in the order in which they are
 * due. It doubles with each try after a rest, and with the number of those at rest; and has up to
 * half as much more, another part at each adapter, so that those who met do not meet again.
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

/* The segment of a question: the host's own, or a new one for a barrier. */
static uint32_t ask_segment(struct engine *e, struct engine_ask *ask)
{
    uint32_t buf;

    if (!ask->barrier)
        return engine_host_ask_of(ask)->buf;
    buf = emu_pool_take(engine_cache(e));
    assert(buf != EMU_NO_BUF); /* an engine has set some aside for each of its packets */
    *engine_hdr(e, buf) = (struct emu_hdr){.dst = ask->barrier->group->id,
                                           .src = e->node,
                                           .seq = ask->barrier->hdr.seq,
                                           .kind = EMU_TEST,
                                           .op = ENGINE_TEST_BARRIER};
    *engine_born_ns(e, buf) = 0;
    return buf;
}

/* It goes out to @group in a packet; there is a free one. */
static void ask_send(struct engine *e, struct engine_ask *ask, const struct engine_group *group,
                     uint64_t at_ps)
{
    uint16_t i = engine_begin(e, ask_segment(e, ask), engine_to_group(e, group, ENGINE_TEST));

    e->send.packet[i].ask = ask;
    e->send.packet[i].tries = ask->tries;
    e->send.packet[i].bulk = ask->tries; /* again: in turn with bulk, which it could starve */
    e->asks.in_packets++;
    emu_count(&e->counts.conditionals, 1);
    engine_ready(e, i, false, at_ps);
}

/* Its turn has come: what is not so here need not be asked of others. */
static void ask_turn(struct engine *e, struct engine_ask *ask)
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
            ask_turn(e, engine_ask_of(engine_queue_pop(rest)));
        }
        asks->any &= ~((uint32_t)engine_queue_empty(rest) << doublings);
    }
    engine_asks_go(e, at_ps);
}

/* --- asked by whom ------------------------------------------------------------------ */

void engine_ask_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps)
{
    struct engine_tree *tree = state->group->tree;
    struct engine_ask *ask = &tree->ask[state - tree->state];

    *ask = (struct engine_ask){.barrier = state, .process = e->host.process};
    state->asking = true;
    engine_group_hold(state->group);
    ask_turn(e, ask);
    engine_asks_go(e, at_ps);
}

/* A host's question, by the number that the host gave it. NULL: it does not wait here. */
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

/* Once: there is a free packet for it, and for the answer. */
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
    ask_turn(e, &ask->ask);
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

/* All agree. */
static void asked_true(struct engine *e, uint16_t i, struct engine_ask *ask, uint64_t at_ps)
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
        asked_true(e, i, ask, at_ps);
    } else {
        if (!ask->barrier) {
            e->send.held -= p->count;
            p->count = 0; /* the buffer is the question's again */
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
