/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - the groups of a node, and the trees in which their contributions are combined.
 *
 * A *contribution* is a segment with the operand of one member, or with the combined operands of
 * several. The contributions with one sequence number of the group's stream are combined in a
 * *state*. A contribution with which nothing is combined at this node may pass without a state. The
 * *window* is the range of numbers that may be in progress. A *token*, which is a barrier of the
 * adapters in every half window, keeps members from running further ahead. A group without
 * combining has no tree.
 *
 * Owner: the manager creates a group and frees it. From its publication (engine_groups_set()) until
 * the end of the RCU grace period after its removal it belongs to the engine's worker. The manager
 * frees it only when no state of it is in a queue of the engine (`waiting`).
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

/*
 * Positions around an adapter or combine unit in the tree: its host, its parent and its children.
 * These ENGINE_WIDTH positions are the inputs of a combiner, and may also be outputs. Two further
 * positions are only outputs. A set of positions is an emu_ports.
 */
#define ENGINE_HERE   0u /* the host */
#define ENGINE_PARENT 1u
#define ENGINE_CHILD  2u /* the first child; others follow */
#define ENGINE_WIDTH  (ENGINE_CHILD + ENGINE_CHILDREN_MAX)
/* only an output: send no result, but a conditional that asks whether all are in the barrier */
#define ENGINE_QUERY (EMU_PORTS_MAX - 2)
#define ENGINE_GROUP (EMU_PORTS_MAX - 1) /* only an output: the whole group */

/* The kind of a conditional's test; stored in the op of its segment. */
enum engine_test { ENGINE_TEST_WORD, ENGINE_TEST_BARRIER };

/*
 * A state: the contributions to one segment of a collective are combined here. Free if `have` is 0.
 */
struct engine_coll {
    /* entry in the queue of waiting results; must be first, because engine_coll_of() casts it */
    struct engine_queued at;
    struct engine_group *group;
    uint64_t due_ps; /* when the result may be sent */
    /* header of the first contribution; while the state is free, the previous operation's header */
    struct emu_hdr hdr;
    emu_ports have; /* inputs that have contributed */
    emu_ports outs; /* positions to which the result must still be sent; 0: no result yet */
    uint32_t buf;   /* the operands combined so far; with a fixed order, only the result */
    bool used;      /* the state has been used, so hdr is valid */
    bool made;      /* buf is the result; `have` then only means that buf is valid */
    bool querying;  /* a conditional asks if all members are in this barrier (group.c) */
    bool flipped;   /* a fault has flipped a bit; found by the parity when the state is read */
};
static_assert(EMU_PORT_WORDS > 1 || sizeof(struct engine_coll) == EMU_LINE,
              "larger states of a wide window would not fit into the caches");

/*
 * Consecutive numbers whose contributions passed without a state, usually all between two tokens.
 */
struct engine_seq_range {
    uint32_t from, to; /* to: one past the last */
};
/* a member may still wait for sequence numbers in this many half windows */
#define ENGINE_PASSED_RANGES 3u

/* The state of a combining group at a member or combine unit. */
struct engine_tree {
    emu_ports all;   /* inputs that exist */
    uint8_t width;   /* one past the last input: ENGINE_CHILD + children */
    bool by_link;    /* contributions must use the group's link, as multicasts do */
    uint32_t window; /* sequence numbers in the window; a power of two */
    bool unit;       /* belongs to a combine unit */
    /* the group can no longer combine: a state was damaged, or a unit lost a segment */
    bool failed;
    uint32_t open; /* states in use, except those of barriers */
    /* numbers whose contributions passed without a state; the latest first */
    struct engine_seq_range passed[ENGINE_PASSED_RANGES];
    /* next state that tree_release_old() checks; free-running */
    uint32_t check_next;
    /* contributions to be combined in a fixed order (engine_kept()); NULL: order of arrival */
    uint32_t *kept;
    struct engine_query *query;  /* for each state: the conditional of its barrier */
    void *memory;                /* the allocation that contains this struct */
    uint32_t node[ENGINE_WIDTH]; /* node at each position */
    uint64_t word[EMU_WORDS];
    /* words from EMU_WORDS on: a range of the memory words of the host's process; `process` is the
       serial number of this process */
    struct {
        uint32_t first, count;
        uint32_t process;
    } range;
    struct emu_mismatch mismatch; /* the first mismatch of contributions here */
    /* `window` states; index: sequence number modulo window */
    alignas(EMU_LINE) struct engine_coll state[];
};

struct engine_group {
    uint32_t id;
    uint8_t trees;               /* trees of switches, which the packets to the group use in turn */
    uint8_t turn;                /* the tree of the next packet */
    uint8_t link[EMU_TREES_MAX]; /* by tree: the link that leads to it */
    bool gave_up; /* this engine dropped for good a segment for which other members may wait */
    struct engine_tree *tree; /* NULL: no combining */
    /* number of states in queues of the engine; the group must not be freed unless this is 0 */
    _Atomic uint32_t waiting;
    struct engine_flow flow; /* packets of this node to the group */
    uint32_t sources;
    /* one per source; a hash table, which may be full */
    struct engine_history history[];
};

/* An engine's data for all its groups. Results are sent one by one, in the order of due_ps. */
struct engine_trees {
    _Atomic(struct emu_table *) groups; /* table of groups, published by the manager (RCU) */
    bool queries;                       /* barriers use conditionals; written once */
    bool checks;                        /* states have parity; written once */
    struct engine_queue results;        /* results that wait to be sent */
    /* when the next result can be sent; EMU_NEVER: none waits, or no packet is free */
    uint64_t results_ps;
    /* when all contributions so far are combined; 0 on clock raw */
    uint64_t combine_ps;
    uint64_t root_ps;            /* profile->barrier_root_ps; 0 on clock raw */
    uint64_t header_ps, word_ps; /* time per contribution, and per word of it; 0 on clock raw */
    struct emu_faults *faults;   /* faults of the combine unit; NULL: none */
    bool stalled;                /* by a fault: no result is sent */
    bool out;                    /* by a fault: all results are dropped */
};

static inline struct engine_coll *engine_coll_of(struct engine_queued *at)
{
    return (struct engine_coll *)at;
}

static inline struct engine_coll *engine_state(struct engine_tree *tree, uint32_t seq)
{
    return &tree->state[seq & (tree->window - 1)];
}

/* For a fixed order: return the contributions to @state, which are kept until all have arrived. */
static inline struct emu_kept engine_kept(const struct engine_tree *tree,
                                          const struct engine_coll *state)
{
    return (
        struct emu_kept){.buf =
                             &tree->kept[(size_t)(state - tree->state) * emu_kept_slots(tree->all)],
                         .all = tree->all};
}

/* Return whether the contribution with number @seq has recently passed here without a state. */
static inline bool engine_passed(const struct engine_tree *tree, uint32_t seq)
{
    bool passed = false;

    for (uint32_t i = 0; i < ENGINE_PASSED_RANGES; i++)
        passed |= seq - tree->passed[i].from < tree->passed[i].to - tree->passed[i].from;
    return passed;
}

static inline bool engine_state_in_order(const struct engine_tree *tree,
                                         const struct engine_coll *state)
{
    return tree->kept && state->hdr.kind != EMU_BARRIER;
}

/* --- group.c ------------------------------------------------------------------------ */

/** engine_group_of - return the group with this id; NULL: the node is not in it. */
struct engine_group *engine_group_of(const struct engine *e, uint32_t id);

/**
 * engine_group_history - return the record of the numbers received from @src. It is zero before the
 * first number. NULL: @src is not among the sources of the group.
 */
struct engine_history *engine_group_history(struct engine_group *group, uint32_t src);

/** engine_to_group - return the destination of a packet to the group over its first tree. */
struct engine_to engine_to_group(const struct engine *e, const struct engine_group *group,
                                 enum engine_class class);

/**
 * engine_choose_tree - choose the tree of the next try of packet @p, which goes to a group with
 * several trees. They are used in turn, so a try that follows a fault takes another tree.
 */
void engine_choose_tree(const struct engine *e, struct engine_packet *p);

/** engine_set - write a word of a combining group, for the host. */
void engine_set(struct engine *e, struct engine_group *group, const struct emu_hdr *hdr,
                const struct emu_word *word);

/** engine_agrees - return whether the conditional in @buf is true at this adapter. */
bool engine_agrees(struct engine *e, uint32_t buf);

/*
 * While the engine holds a group, the manager must not free it. T1 pairs with T2 in
 * engine_group_destroy(): the manager sees everything that the engine has done before the release.
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
 * engine_contribute - add a contribution from node @from, or from this node's own host. Takes the
 * reference to @buf. A contribution that violates the protocol is counted and dropped.
 */
void engine_contribute(struct engine *e, struct engine_group *group, uint32_t from, uint32_t buf,
                       uint64_t at_ps);

/**
 * engine_passes_note - note that @count contributions, beginning with number @seq, passed without a
 * state.
 */
void engine_passes_note(struct engine_tree *tree, uint32_t seq, uint32_t count);

/** engine_position - return the position of node @from in the group's tree; ENGINE_WIDTH: none. */
uint32_t engine_position(const struct engine *e, const struct engine_group *group, uint32_t from);

/** engine_contribute_at - do as engine_contribute(), for a contribution from position @at. */
void engine_contribute_at(struct engine *e, struct engine_group *group, uint32_t at, uint32_t buf,
                          uint64_t at_ps);

/**
 * engine_outs - return the positions, as bits, to which the result goes when the inputs @have have
 * contributed; 0: contributions are missing. Not for barriers by conditional (group.c).
 */
emu_ports engine_outs(const struct engine_tree *tree, uint8_t kind, emu_ports have);

/** engine_result_to - return a packet's destination for a result to @out, which is not the host. */
struct engine_to engine_result_to(const struct engine *e, const struct engine_group *group,
                                  uint32_t out);

/**
 * engine_results_pass - return whether a new result may be sent immediately, because no earlier one
 * waits and no fault holds results.
 */
static inline bool engine_results_pass(const struct engine_trees *trees)
{
    return engine_queue_empty(&trees->results) && !trees->stalled && !trees->out;
}

/** engine_all_ready - send the result of the barrier @state, which all members have reached. */
void engine_all_ready(struct engine *e, struct engine_coll *state, uint64_t at_ps);

/** engine_barrier_over - free the state of a barrier by conditional, whose result has arrived. */
void engine_barrier_over(struct engine *e, const struct emu_hdr *hdr);

/** engine_results - send the results that are complete at @at_ps, until no packet is free. */
void engine_results(struct engine *e, uint64_t at_ps);

/* --- vector.c ----------------------------------------------------------------------- */

/**
 * engine_contribute_all - add @count contributions to one group, all from one node, which may be
 * this one. They are dropped if this node has no such group any more.
 */
void engine_contribute_all(struct engine *e, const uint32_t *bufs, uint32_t count, uint64_t at_ps);

/**
 * engine_passes - clock raw: return the positions, as bits, to which a contribution to a reduction
 * of @kind passes if it arrives from position @at. 0: it needs a state, because it is combined with
 * other contributions here.
 */
emu_ports engine_passes(const struct engine *e, const struct engine_group *group, uint8_t kind,
                        uint32_t at);

#endif
