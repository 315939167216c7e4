/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * query.h - network conditionals: tests at all members of a group, repeated until they are true.
 *
 * Owner: the engine's worker. A conditional is free, in backoff, due, or in a packet: it is in one
 * queue, or in none while it is in a packet. A host's conditional has a slot and holds a reference
 * to its segment, which its packet takes over meanwhile. A barrier's conditional is in the
 * barrier's state and has no segment.
 */
#ifndef NIC_ENGINE_QUERY_H
#define NIC_ENGINE_QUERY_H

#include "nic/engine/engine.h"
#include "nic/engine/list.h"

/* limit of backoff doublings for a conditional whose process is still attached */
#define ENGINE_TEST_DOUBLINGS 6u
#define ENGINE_QUERIES        128u /* conditionals of a host that are repeated until true */
#define ENGINE_QUERY_SHARE    4u   /* conditionals use at most one of this many packets */

struct emu_word;
struct engine_coll;
struct engine_group;

struct engine_query {
    struct engine_queued at; /* first: engine_query_of() */
    /* the barrier that it is for; NULL: for a host, engine_host_query_of() */
    struct engine_coll *barrier;
    uint64_t due_ps;  /* in backoff: when it is tested again */
    uint32_t process; /* engine_host.process when it arrived */
    uint16_t tries;
};

/* A conditional of the host. */
struct engine_host_query {
    struct engine_query query; /* first */
    uint32_t buf;              /* its segment */
    uint32_t seq, group;       /* its operation id, and the group's address */
    bool used;                 /* not in the queue of free slots */
    bool taken_back;           /* the host wants no answer any more */
};

struct engine_queries {
    uint32_t any; /* non-empty backoff queues, by bit */
    uint32_t backing_off;
    uint32_t in_packets;
    uint32_t jitter; /* adds this share, in units of 2^-32, of half the backoff time */
    struct engine_queue backoff[ENGINE_DOUBLINGS + 1]; /* in backoff, by doublings */
    struct engine_queue due;                           /* waiting for a packet */
    struct engine_queue free;
    struct engine_host_query *slot; /* ENGINE_QUERIES */
};

static inline struct engine_query *engine_query_of(struct engine_queued *at)
{
    return (struct engine_query *)at;
}

static inline struct engine_host_query *engine_host_query_of(struct engine_query *query)
{
    assert(!query->barrier);
    return (struct engine_host_query *)query;
}

/** engine_queries_init - allocate the slots, all free. False: no memory. */
bool engine_queries_init(struct engine_queries *queries, uint64_t random);

/**
 * engine_test - the host posted the conditional @word in @buf, whose reference the engine takes.
 * False: no packet is free, nothing has changed.
 */
bool engine_test(struct engine *e, struct engine_group *group, uint32_t buf,
                 const struct emu_word *word, uint64_t at_ps);

/** engine_query_barrier - test until all members have reached the barrier @state. */
void engine_query_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/**
 * engine_tested - a reply to the conditional in packet @i arrived, or timed out; the packet is in
 * no list.
 */
void engine_tested(struct engine *e, uint16_t i, bool agreed, uint64_t at_ps);

/** engine_queries_due_ps - when the first conditional in backoff is due; EMU_NEVER: none. */
uint64_t engine_queries_due_ps(const struct engine_queries *queries);

/** engine_queries_due - handle conditionals whose backoff has ended, a bounded number. */
void engine_queries_due(struct engine *e, uint64_t at_ps);

/** engine_queries_go - send due conditionals in free packets. */
void engine_queries_go(struct engine *e, uint64_t at_ps);

#endif
