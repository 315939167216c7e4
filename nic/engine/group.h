/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - groups that a node is in, and the trees in which they combine.
 *
 * Owner: the manager makes a group and frees it; from when it is published (engine_groups_set())
 * until the grace period after it was taken out it is the engine's worker's. It is freed only when
 * nothing of it waits in a queue of the engine's (`waiting`). A group for multicasts only has no
 * tree.
 */
#ifndef NIC_ENGINE_GROUP_H
#define NIC_ENGINE_GROUP_H

#include <stdalign.h>
#include <stdatomic.h>

#include "emu/buffer/combiner.h"
#include "emu/packet/seg.h"
#include "emu/util/table.h"
#include "nic/engine/ask.h"
#include "nic/engine/engine.h"
#include "nic/engine/flow.h"
#include "nic/engine/list.h"
#include "nic/engine/send.h"

/* Who contributes to a collective at an adapter, or a combine unit: inputs of a combiner, bits. */
#define ENGINE_HERE   0u /* its host */
#define ENGINE_PARENT 1u
#define ENGINE_CHILD  2u /* and those after it */
#define ENGINE_WIDTH  (ENGINE_CHILD + ENGINE_CHILDREN_MAX)
#define ENGINE_ASK    (EMU_PORTS_MAX - 2) /* no input: a conditional asks all members */
#define ENGINE_GROUP  (EMU_PORTS_MAX - 1) /* no input: as an output, the whole group */

/* in the op of a conditional's segment */
enum engine_test { ENGINE_TEST_WORD, ENGINE_TEST_BARRIER };

/* One segment of a collective. Free: `have` is 0. */
struct engine_coll {
    struct engine_queued at; /* first: engine_coll_of(); the results that wait to go */
    struct engine_group *group;
    uint64_t due_ps;    /* when the result is there */
    struct emu_hdr hdr; /* of the first contribution; free: of the operation that is over */
    emu_ports have;     /* inputs that have contributed */
    emu_ports outs;     /* where the result still has to go; 0: no result yet */
    uint32_t buf;       /* combined so far; in order: only when made */
    bool used;          /* there is one, or was */
    bool made;          /* there is a result, in buf: `have` says no more than that */
    bool asking;        /* a barrier by conditional: its question is under way */
    bool flipped;       /* parity shows that a bit of it has flipped: found when it is read */
};
static_assert(EMU_PORT_WORDS > 1 || sizeof(struct engine_coll) == EMU_LINE,
              "larger states of a wide window would not fit into the caches");

/* Numbers in a row that have gone through without a state: between two tokens, mostly. */
struct engine_row {
    uint32_t from, to; /* the one behind them */
};
#define ENGINE_ROWS 3u /* as many half windows as may have such that somebody waits for */

/* What a member of a group that combines has of it. */
struct engine_tree {
    emu_ports all;   /* the inputs that exist */
    uint8_t width;   /* ENGINE_CHILD + children */
    bool by_link;    /* contributions go by the group's link, too */
    uint32_t window; /* numbers of the stream that may be under way; a power of two */
    bool unit;       /* of a combine unit */
    bool failed;     /* nothing is combined any more: a state was damaged, or a unit gave up */
    uint32_t open;   /* states of reductions that have something */
    struct engine_row passed[ENGINE_ROWS]; /* the one begun last first */
    uint32_t forgot;                       /* the next state to forget what it was used for */
    /* reductions in the order of inputs: engine_kept() of each state; NULL: as they come */
    uint32_t *kept;
    struct engine_ask *ask;      /* of each state: what a barrier by conditional asks */
    void *memory;                /* in which it lies */
    uint32_t node[ENGINE_WIDTH]; /* by position */
    uint64_t word[EMU_WORDS];
    struct emu_clash clash;                       /* of contributions here */
    alignas(EMU_LINE) struct engine_coll state[]; /* window, by sequence number */
};

struct engine_group {
    uint32_t id;
    uint8_t link;
    bool gave_up;             /* something that others may wait for was given up here */
    struct engine_tree *tree; /* NULL: for multicasts only */
    _Atomic uint32_t waiting; /* states in queues of the engine's: it may not be freed */
    struct engine_flow flow;  /* what this node sends to it */
    uint32_t sources;
    /* of each of the sources: a hash table, all of which may be full */
    struct engine_heard heard[];
};

/* What an engine has of all its groups. Results go one after the other, in the order of due_ps. */
struct engine_trees {
    _Atomic(struct emu_table *) groups; /* published by the manager (RCU) */
    bool asks;                          /* emu_profile_barrier_asks(): written once */
    bool checks;                        /* states have parity: written once */
    struct engine_queue results;        /* those that wait to go */
    /* when they can go on; EMU_NEVER: none, or no free packet */
    uint64_t results_ps;
    /* until then contributions are being combined; 0 on clock raw, where nothing takes time */
    uint64_t combine_ps;
    uint64_t header_ps, word_ps; /* what one takes, and each word of it; 0 on clock raw */
    struct emu_faults *faults;   /* what is combined goes by them; NULL: by none */
    bool stalled;                /* no result goes on: a fault */
    bool out;                    /* out of service: results go nowhere */
};

static inline struct engine_coll *engine_coll_of(struct engine_queued *at)
{
    return (struct engine_coll *)at;
}

static inline struct engine_coll *engine_state(struct engine_tree *tree, uint32_t seq)
{
    return &tree->state[seq & (tree->window - 1)];
}

/* The buffers that are kept for @state, where reductions are in order. */
static inline struct emu_kept engine_kept(const struct engine_tree *tree,
                                          const struct engine_coll *state)
{
    return (
        struct emu_kept){.buf =
                             &tree->kept[(size_t)(state - tree->state) * emu_kept_slots(tree->all)],
                         .all = tree->all};
}

/* Has number @seq gone through here lately? */
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

/** engine_group_of - NULL: the node is not in it. */
struct engine_group *engine_group_of(const struct engine *e, uint32_t id);

/** engine_group_heard - what was heard of @src there; NULL: it is no source of the group's. */
struct engine_heard *engine_group_heard(struct engine_group *group, uint32_t src);

/** engine_to_group - where a packet to the group goes, and by which link. */
struct engine_to engine_to_group(const struct engine *e, const struct engine_group *group,
                                 enum engine_class class);

/** engine_set - the host writes a word of a group that combines. */
void engine_set(struct engine *e, struct engine_group *group, const struct emu_hdr *hdr,
                const struct emu_word *word);

/** engine_agrees - is the word that the host segment in @buf asks for as it says, here? */
bool engine_agrees(struct engine *e, uint32_t buf);

/*
 * The manager may free a group when it sees that nothing of it waits.
 * T1 pairs with T2, engine_group_destroy(): it sees what was done before.
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
 * engine_contribute - a contribution from @from, a node, or this engine's own for its host. Its
 * reference is the engine's. What breaks the protocol is counted and dropped.
 */
void engine_contribute(struct engine *e, struct engine_group *group, uint32_t from, uint32_t buf,
                       uint64_t at_ps);

/** engine_passes_note - numbers from @seq on, @count of them, go through without a state. */
void engine_passes_note(struct engine_tree *tree, uint32_t seq, uint32_t count);

/** engine_position - of @from, a node, in the group's tree; ENGINE_WIDTH: it has none. */
uint32_t engine_position(const struct engine *e, const struct engine_group *group, uint32_t from);

/** engine_contribute_at - engine_contribute() from the position @at. */
void engine_contribute_at(struct engine *e, struct engine_group *group, uint32_t at, uint32_t buf,
                          uint64_t at_ps);

/**
 * engine_outs - where the result of what is no barrier by conditional goes, by bits, now that these
 * have contributed; 0: others are missing.
 */
emu_ports engine_outs(const struct engine_tree *tree, uint8_t kind, emu_ports have);

/** engine_result_to - the same bit @out, not that of the host here, as a packet's destination. */
struct engine_to engine_result_to(const struct engine *e, const struct engine_group *group,
                                  uint32_t out);

/** engine_results_pass - does no result wait, so that the next one may go at once? */
static inline bool engine_results_pass(const struct engine_trees *trees)
{
    return engine_queue_empty(&trees->results) && !trees->stalled && !trees->out;
}

/* --- vector.c ----------------------------------------------------------------------- */

/**
 * engine_contribute_all - the same of @count from one node, this one or another, to one group; if
 * nobody is in it here any more they are dropped.
 */
void engine_contribute_all(struct engine *e, const uint32_t *bufs, uint32_t count, uint64_t at_ps);

/**
 * engine_passes - where what comes from position @at of a reduction of @kind goes at once, by bits,
 * as nothing else is combined with it here: it needs no state. 0: it does. Clock raw.
 */
emu_ports engine_passes(const struct engine *e, const struct engine_group *group, uint8_t kind,
                        uint32_t at);

/** engine_all_ready - a conditional has found all members in the barrier @state. */
void engine_all_ready(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/** engine_barrier_over - the word of it has come. */
void engine_barrier_over(struct engine *e, const struct emu_hdr *hdr);

/** engine_results - send on what is there by @at_ps, as far as there are free packets. */
void engine_results(struct engine *e, uint64_t at_ps);

#endif
