/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - the groups of a node, and the trees in which they combine.
 *
 * Owner: the manager creates a group and frees it. From its publication (engine_groups_set()) until
 * the end of the grace period after its removal it belongs to the engine's worker. It is freed only
 * when none of its states is in a queue of the engine (`waiting`). A group without combining has no
 * tree.
 */
#ifndef NIC_ENGINE_GROUP_H
#define NIC_ENGINE_GROUP_H

#include <stdalign.h>
#include <stdatomic.h>

#include "emu/buffer/combiner.h"
#include "emu/packet/seg.h"
#include "emu/util/table.h"
#include "nic/engine/query.h"
#include "nic/engine/engine.h"
#include "nic/engine/flow.h"
#include "nic/engine/list.h"
#include "nic/engine/send.h"

/* Contributors to a collective at an adapter or combine unit: inputs of a combiner, as bits. */
#define ENGINE_HERE   0u /* the host */
#define ENGINE_PARENT 1u
#define ENGINE_CHILD  2u /* the first child; others follow */
#define ENGINE_WIDTH  (ENGINE_CHILD + ENGINE_CHILDREN_MAX)
/* not an input: the state waits for a conditional to all members */
#define ENGINE_QUERY (EMU_PORTS_MAX - 2)
#define ENGINE_GROUP (EMU_PORTS_MAX - 1) /* not an input; as an output, the whole group */

/* in the op of a conditional's segment */
enum engine_test { ENGINE_TEST_WORD, ENGINE_TEST_BARRIER };

/* State of one segment of a collective. Free if `have` is 0. */
struct engine_coll {
    struct engine_queued at; /* first: engine_coll_of(); in the queue of results that wait */
    struct engine_group *group;
    uint64_t due_ps;    /* when the result is complete */
    struct emu_hdr hdr; /* of the first contribution; free: of the last operation */
    emu_ports have;     /* inputs that have contributed */
    emu_ports outs;     /* where the result must still go; 0: no result yet */
    uint32_t buf;       /* combined so far; with a fixed order: only the result */
    bool used;          /* has been used */
    bool made;          /* buf is the result; `have` has no other meaning then */
    bool querying;      /* a barrier by conditional: the conditional is under way */
    bool flipped;       /* a bit has flipped; found by parity when the state is read */
};
static_assert(EMU_PORT_WORDS > 1 || sizeof(struct engine_coll) == EMU_LINE,
              "larger states of a wide window would not fit into the caches");

/* Consecutive numbers that passed through without a state, usually between two tokens. */
struct engine_row {
    uint32_t from, to; /* to: one past the last */
};
#define ENGINE_ROWS 3u /* number of half windows with such numbers that somebody may wait for */

/* What a member of a combining group keeps. */
struct engine_tree {
    emu_ports all;   /* existing inputs */
    uint8_t width;   /* ENGINE_CHILD + children */
    bool by_link;    /* contributions use the group's link, too */
    uint32_t window; /* numbers of the stream in the window; a power of two */
    bool unit;       /* of a combine unit */
    bool failed;   /* stops combining: a state was damaged, or a unit dropped a segment for good */
    uint32_t open; /* states of reductions in use */
    struct engine_row passed[ENGINE_ROWS]; /* latest first */
    uint32_t forgot;                       /* next state whose `used` is reset */
    /* reductions in a fixed order: engine_kept() of each state; NULL: in order of arrival */
    uint32_t *kept;
    struct engine_query *query;  /* of each state: the conditional of its barrier */
    void *memory;                /* the allocation that contains this struct */
    uint32_t node[ENGINE_WIDTH]; /* by position */
    uint64_t word[EMU_WORDS];
    struct emu_mismatch mismatch;                 /* mismatch of contributions here */
    alignas(EMU_LINE) struct engine_coll state[]; /* window of them, by sequence number */
};

struct engine_group {
    uint32_t id;
    uint8_t link;
    bool gave_up;             /* a segment that others may wait for was dropped for good here */
    struct engine_tree *tree; /* NULL: no combining */
    _Atomic uint32_t waiting; /* states in queues of the engine: it must not be freed */
    struct engine_flow flow;  /* packets of this node to it */
    uint32_t sources;
    /* one per source: a hash table, which may be full */
    struct engine_history history[];
};

/*
 * An engine's data for all its groups. Results are sent one after the other, in the order of
 * due_ps.
 */
struct engine_trees {
    _Atomic(struct emu_table *) groups; /* published by the manager (RCU) */
    bool queries;                       /* emu_profile_barrier_queries(): written once */
    bool checks;                        /* states have parity: written once */
    struct engine_queue results;        /* results that wait to be sent */
    /* when they can continue; EMU_NEVER: none, or no packet is free */
    uint64_t results_ps;
    /* contributions are being combined until then; 0 on clock raw, where nothing takes time */
    uint64_t combine_ps;
    uint64_t header_ps, word_ps; /* time per contribution, and per word of it; 0 on clock raw */
    struct emu_faults *faults;   /* faults of the combine unit; NULL: none */
    bool stalled;                /* a fault: no result is sent */
    bool out;                    /* a fault: results are dropped */
};

static inline struct engine_coll *engine_coll_of(struct engine_queued *at)
{
    return (struct engine_coll *)at;
}

static inline struct engine_coll *engine_state(struct engine_tree *tree, uint32_t seq)
{
    return &tree->state[seq & (tree->window - 1)];
}

/* The buffers kept for @state if reductions have a fixed order. */
static inline struct emu_kept engine_kept(const struct engine_tree *tree,
                                          const struct engine_coll *state)
{
    return (
        struct emu_kept){.buf =
                             &tree->kept[(size_t)(state - tree->state) * emu_kept_slots(tree->all)],
                         .all = tree->all};
}

/* Has number @seq passed through here recently? */
static inline bool engine_passed(const struct engine_tree *tree, uint32_t seq)
{
    bool passed = false;

    for (uint32_t i = 0; i < ENGINE_ROWS; i++)
        passed |= seq - tree->passed[i].from < tree->passed[i].to - tree->passed[i].from;
    return passed;
}

static inline bool engine_state_in_order(const struct engine_tree *tree,
                                         const struct engine_coll *state)
{
    return tree->kept && state->hdr.kind != EMU_BARRIER;
}

/* --- group.c ------------------------------------------------------------------------ */

/** engine_group_of - the group with this id; NULL: the node is not in it. */
struct engine_group *engine_group_of(const struct engine *e, uint32_t id);

/** engine_group_history - numbers received from @src; NULL: it is no source of the group. */
struct engine_history *engine_group_history(struct engine_group *group, uint32_t src);

/** engine_to_group - destination and link of a packet to the group. */
struct engine_to engine_to_group(const struct engine *e, const struct engine_group *group,
                                 enum engine_class class);

/** engine_set - the host writes a word of a combining group. */
void engine_set(struct engine *e, struct engine_group *group, const struct emu_hdr *hdr,
                const struct emu_word *word);

/** engine_agrees - is the conditional in @buf true here? */
bool engine_agrees(struct engine *e, uint32_t buf);

/*
 * While held, the manager must not free the group. T1 pairs with T2 in engine_group_destroy(): it
 * sees everything done before the release.
 */
static inline void engine_group_hold(struct engine_group *group)
{
    atomic_store_explicit(&group->waiting,
                          atomic_load_explicit(&group->waiting, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static inline void engine_group_release(struct engine_group *group)
{
    uint32_t waiting = atomic_load_explicit(&group->waiting, memory_order_relaxed);

    assert(waiting);
    atomic_store_explicit(&group->waiting, waiting - 1, memory_order_release); /* T1 */
}

/* --- tree.c ------------------------------------------------------------------------- */

/**
 * engine_contribute - a contribution from node @from, or from this node's own host. Takes the
 * reference to @buf. Violations of the protocol are counted and dropped.
 */
void engine_contribute(struct engine *e, struct engine_group *group, uint32_t from, uint32_t buf,
                       uint64_t at_ps);

/** engine_passes_note - @count numbers from @seq on pass through without a state. */
void engine_passes_note(struct engine_tree *tree, uint32_t seq, uint32_t count);

/** engine_position - position of node @from in the group's tree; ENGINE_WIDTH: none. */
uint32_t engine_position(const struct engine *e, const struct engine_group *group, uint32_t from);

/** engine_contribute_at - engine_contribute() from the position @at. */
void engine_contribute_at(struct engine *e, struct engine_group *group, uint32_t at, uint32_t buf,
                          uint64_t at_ps);

/**
 * engine_outs - where the result goes, as bits, when inputs @have have contributed; 0: others are
 * missing. Not for barriers by conditional.
 */
emu_ports engine_outs(const struct engine_tree *tree, uint8_t kind, emu_ports have);

/** engine_result_to - the packet destination of output @out, which is not the host here. */
struct engine_to engine_result_to(const struct engine *e, const struct engine_group *group,
                                  uint32_t out);

/** engine_results_pass - may the next result be sent immediately, since none waits? */
static inline bool engine_results_pass(const struct engine_trees *trees)
{
    return engine_queue_empty(&trees->results) && !trees->stalled && !trees->out;
}

/* --- vector.c ----------------------------------------------------------------------- */

/**
 * engine_contribute_all - @count contributions from one node, this one or another, to one group.
 * They are dropped if nobody here is in the group any more.
 */
void engine_contribute_all(struct engine *e, const uint32_t *bufs, uint32_t count, uint64_t at_ps);

/**
 * engine_passes - where contributions from position @at to a reduction of @kind go immediately, as
 * bits: nothing else is combined with them here, so they need no state. 0: they need one. Clock
 * raw.
 */
emu_ports engine_passes(const struct engine *e, const struct engine_group *group, uint8_t kind,
                        uint32_t at);

/** engine_all_ready - a conditional found all members in the barrier @state. */
void engine_all_ready(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/** engine_barrier_over - the barrier's result arrived. */
void engine_barrier_over(struct engine *e, const struct emu_hdr *hdr);

/** engine_results - send the results that are complete by @at_ps, as far as packets are free. */
void engine_results(struct engine *e, uint64_t at_ps);

#endif
