/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ask.h - network conditionals: questions to all members of a group, asked until they are true.
 *
 * Owner: the engine's worker. A question is free, at rest, due, or in a packet: in one queue, or in
 * none while it is in a packet. A host's has a slot and the reference to its segment, which is its
 * packet's while it is in one. A barrier's lies in the barrier's state and has no segment.
 */
#ifndef NIC_ENGINE_ASK_H
#define NIC_ENGINE_ASK_H

#include "nic/engine/engine.h"
#include "nic/engine/list.h"

/* of the rest of a conditional whose process is there still, at most */
#define ENGINE_TEST_DOUBLINGS 6u
#define ENGINE_ASKS           128u /* conditionals of a host that wait until they are true */
#define ENGINE_ASK_PART       4u   /* conditionals have at most one packet in so many */

struct emu_word;
struct engine_coll;
struct engine_group;

struct engine_ask {
    struct engine_queued at;     /* first: engine_ask_of() */
    struct engine_coll *barrier; /* it asks for this; NULL: for a host, engine_host_ask_of() */
    uint64_t due_ps;             /* at rest: when it is asked again */
    uint32_t process;            /* engine_host.process when it came: who asks */
    uint16_t tries;
};

/* A host's. */
struct engine_host_ask {
    struct engine_ask ask; /* first */
    uint32_t buf;          /* its segment */
    uint32_t seq, group;   /* its number, and the group's address */
    bool used;             /* not in the queue of free ones */
    bool taken_back;       /* it wants no answer any more */
};

struct engine_asks {
    uint32_t any; /* queues at rest that are not empty, by bit */
    uint32_t resting;
    uint32_t in_packets;
    uint32_t jitter;                                /* in 2^-32: so much of half a rest more */
    struct engine_queue rest[ENGINE_DOUBLINGS + 1]; /* by doublings */
    struct engine_queue due;                        /* those that wait for a packet */
    struct engine_queue free;
    struct engine_host_ask *slot; /* ENGINE_ASKS */
};

static inline struct engine_ask *engine_ask_of(struct engine_queued *at)
{
    return (struct engine_ask *)at;
}

static inline struct engine_host_ask *engine_host_ask_of(struct engine_ask *ask)
{
    assert(!ask->barrier);
    return (struct engine_host_ask *)ask;
}

/** engine_asks_init - all slots are free; false: there is no memory. */
bool engine_asks_init(struct engine_asks *asks, uint64_t random);

/**
 * engine_test - the host's conditional @word in @buf, whose reference is the engine's. False: it
 * needs a packet, and there is no free one; nothing changed.
 */
bool engine_test(struct engine *e, struct engine_group *group, uint32_t buf,
                 const struct emu_word *word, uint64_t at_ps);

/** engine_ask_barrier - have all members come to the barrier @state? Asked until it is so. */
void engine_ask_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/**
 * engine_tested - a reply to the conditional in packet @i came, or none in time; it is in no list.
 */
void engine_tested(struct engine *e, uint16_t i, bool agreed, uint64_t at_ps);

/** engine_asks_due_ps - when the first of those at rest is due; EMU_NEVER. */
uint64_t engine_asks_due_ps(const struct engine_asks *asks);

/** engine_asks_due - the turn of those that have rested, or of some of them. */
void engine_asks_due(struct engine *e, uint64_t at_ps);

/** engine_asks_go - those that are due take free packets. */
void engine_asks_go(struct engine *e, uint64_t at_ps);

#endif
