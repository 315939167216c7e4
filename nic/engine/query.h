/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * query.h - network conditionals: tests at all members of a group, repeated until they are true.
 *
 * Owner: the engine's worker. A conditional that is free, in backoff or due is in the queue of that
 * name. A conditional that is in a packet is in no queue. The conditional of a host occupies a
 * slot. It holds a reference to its segment, except while it is in a packet, which then has that
 * reference. The conditional of a barrier belongs to the barrier's state and has no segment.
 */
#ifndef NIC_ENGINE_QUERY_H
#define NIC_ENGINE_QUERY_H

#include "nic/engine/engine.h"
#include "nic/engine/list.h"

/* limit of doublings of a test's backoff while the posting process is attached */
#define ENGINE_TEST_DOUBLINGS 6u
/* slots for conditionals of a host that are repeated until true */
#define ENGINE_QUERIES 128u
/* conditionals that are repeated use at most 1 / ENGINE_QUERY_SHARE of the packets */
#define ENGINE_QUERY_SHARE 4u

struct emu_word;
struct engine_coll;
struct engine_group;

struct engine_query {
    struct engine_queued at; /* must be first, because engine_query_of() casts it */
    /* the barrier's state; NULL: the host has posted the conditional, see engine_host_query_of() */
    struct engine_coll *barrier;
    uint64_t due_ps;  /* when it is tested again, while in backoff */
    uint32_t process; /* engine_host.process when it was posted */
    uint16_t tries;
    uint8_t late; /* engine_packet.late after its latest test */
};

struct engine_host_query {
    struct engine_query query; /* must be first, because engine_host_query_of() casts it */
    uint32_t buf;              /* its segment */
    uint32_t seq, group;       /* the host's id of its operation, and the group's address */
    bool used;                 /* the slot is in use */
    bool taken_back;           /* the host has withdrawn it and wants no answer */
};

struct engine_queries {
    uint32_t any; /* bit per backoff queue: it is not empty */
    uint32_t backing_off;
    uint32_t in_packets;
    uint32_t jitter; /* added to each backoff time: jitter / 2^32 times half of that time */
    struct engine_queue backoff[ENGINE_DOUBLINGS + 1]; /* index: doublings of the backoff time */
    struct engine_queue due;                           /* conditionals that wait for a packet */
    struct engine_queue free;
    struct engine_host_query *slot; /* ENGINE_QUERIES slots */
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

/** engine_queries_init - allocate the slots. False: no memory. */
bool engine_queries_init(struct engine_queries *queries, uint64_t random);

/**
 * engine_test - accept the conditional @word, which the host has posted in @buf. The engine takes
 * the reference to @buf. False: no packet is free, and nothing has changed.
 */
bool engine_test(struct engine *e, struct engine_group *group, uint32_t buf,
                 const struct emu_word *word, uint64_t at_ps);

/** engine_query_barrier - ask all members repeatedly, until all have reached the barrier @state. */
void engine_query_barrier(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/**
 * engine_tested - handle the reply to the conditional in packet @i, which is in no list. @agreed:
 * it is true at all members. If not, it was false at a member, or the reply is overdue.
 */
void engine_tested(struct engine *e, uint16_t i, bool agreed, uint64_t at_ps);

/** engine_queries_due_ps - return when the first backoff ends; EMU_NEVER: none is in backoff. */
uint64_t engine_queries_due_ps(const struct engine_queries *queries);

/** engine_queries_due - handle conditionals whose backoff has ended; at most ENGINE_BURST. */
void engine_queries_due(struct engine *e, uint64_t at_ps);

/** engine_queries_go - send conditionals that are due, until no packet is free. */
void engine_queries_go(struct engine *e, uint64_t at_ps);

#endif
