/* SPDX-License-Identifier: BSD-3-Clause */
/* node.h - a node that plays a rank. For player.c, ops.c, message.c and wire.c. */
#ifndef APPS_TRAFFIC_GOAL_NODE_H
#define APPS_TRAFFIC_GOAL_NODE_H

#include "apps/traffic/goal/player.h"

/*
 * The adapter library's headers, and what fits into a segment behind them (nic/host/base/wire.h).
 * goal_test.c compares these numbers with that file.
 */
#define GOAL_SHORT_BYTES 32u /* header of a message of one segment */
#define GOAL_FIRST_BYTES 48u /* header of a longer message's first segment, and of RTS */
#define GOAL_MORE_BYTES  16u /* header of its further segments */
#define GOAL_DATA_BYTES  8u  /* header of the segments behind a CTS */
#define GOAL_CTS_BYTES   32u
#define GOAL_FIN_BYTES   24u

/* What a node sends for a message, once each at most, and the end of its receive. */
enum goal_packet {
    GOAL_EAGER, /* the whole message, which does not wait for a receive */
    GOAL_RTS,   /* a long message waits at the sender */
    GOAL_DATA,  /* the whole long message, after CTS */
    GOAL_CTS,   /* to the sender: a receive waits for the message */
    GOAL_FIN,   /* to the sender: the message has arrived */
    GOAL_END    /* not sent: the receive is complete */
};

enum goal_fault { GOAL_RIGHT, GOAL_TRUNCATED, GOAL_TOO_LATE };

struct goal_list {
    uint32_t head, tail; /* GOAL_NONE: empty */
};

struct goal_cpu {
    struct goal_list ready; /* operations that wait for the cpu */
    uint32_t calc;          /* the calc that runs; GOAL_NONE: none */
    uint64_t end_ps;        /* when it ends; EMU_NEVER: none runs */
};

struct goal_node {
    struct traffic_base base;

    alignas(EMU_LINE) struct goal_player *player;
    const struct goal_rank *rank; /* without operations if the node plays no rank */
    struct goal_worker *worker;
    struct goal_cpu *cpu;
    uint32_t node;
    struct goal_list arrived;   /* items that are in memory from item.at_ps on, in that order */
    struct goal_list out;       /* items that will be sent, in this order */
    struct goal_list unmatched; /* items: messages without a receive, in order of arrival */
    struct goal_list posted;    /* operations: receives without a message, in order of posts */
    uint32_t computing;         /* cpus that compute */
    uint64_t since_ps;          /* since when any of them does */
    uint64_t busy_ps;           /* time before, in which any did */
    uint64_t finish_ps;
    uint32_t done; /* complete operations */
    enum goal_fault fault;
    uint32_t fault_op; /* the operation with the fault */
    uint64_t received; /* segments */
    uint64_t digest;
};

static inline const struct goal_op *goal_node_op(const struct goal_node *node, uint32_t op)
{
    return &node->player->goal->op[op];
}

static inline struct goal_item *goal_node_item(const struct goal_node *node, uint32_t ref)
{
    return &node->player->item[ref];
}

/* An item is named by a number: the message, plus player->goal->messages at the receiver. */
static inline bool goal_ref_receives(const struct goal_node *node, uint32_t ref)
{
    return ref >= node->player->goal->messages;
}

static inline uint32_t goal_ref_message(const struct goal_node *node, uint32_t ref)
{
    return goal_ref_receives(node, ref) ? ref - node->player->goal->messages : ref;
}

/* --- ops.c: operations, dependencies, cpus --------------------------------------------- */

/** goal_ops_begin - make operations ready that wait for none, and start them, at time 0. */
void goal_ops_begin(struct goal_node *node);

/** goal_ops_done - operation @op is complete: operations that wait for it may become ready. */
void goal_ops_done(struct goal_node *node, uint32_t op, uint64_t now_ps);

/** goal_ops_fail - operation @op has a fault: the driver will end the run. */
void goal_ops_fail(struct goal_node *node, uint32_t op, enum goal_fault fault);

/** goal_ops_end - the calcs that end at @now_ps are complete. */
void goal_ops_end(struct goal_node *node, uint64_t now_ps);

/** goal_ops_start - start all ready operations whose cpu is free. */
void goal_ops_start(struct goal_node *node, uint64_t now_ps);

/** goal_ops_next_ps - return when the next calc ends; EMU_NEVER: none runs. */
uint64_t goal_ops_next_ps(const struct goal_node *node);

/* --- message.c: the protocol of messages, and matching --------------------------------- */

/** goal_message_send, goal_message_recv - a send or a receive starts. */
void goal_message_send(struct goal_node *node, uint32_t op, uint64_t now_ps);
void goal_message_recv(struct goal_node *node, uint32_t op, uint64_t now_ps);

/** goal_message_arrived - what item @ref stands for is in memory completely. */
void goal_message_arrived(struct goal_node *node, uint32_t ref, uint64_t now_ps);

/* --- wire.c: segments ------------------------------------------------------------------ */

/** goal_wire_put - queue what @what of item @ref to be sent from @now_ps on. */
void goal_wire_put(struct goal_node *node, uint32_t ref, enum goal_packet what, uint64_t now_ps);

/** goal_wire_send - send segments until @until_ps. Returns when the next one may leave. */
uint64_t goal_wire_send(struct goal_node *node, uint64_t until_ps);

/** goal_wire_deliver - take a segment that has arrived, for traffic_take(). */
void goal_wire_deliver(void *context, const struct emu_entry *entry);

/** goal_wire_segments - number of segments of @what of a message of @bytes. Pure. */
uint32_t goal_wire_segments(enum goal_packet what, uint64_t bytes);

/** goal_wire_len - payload, with headers, of the segment after which @left - 1 remain. Pure. */
uint8_t goal_wire_len(enum goal_packet what, uint64_t bytes, uint32_t left);

/** goal_wire_wait - let item @ref arrive as GOAL_END at @at_ps. */
void goal_wire_wait(struct goal_node *node, uint32_t ref, uint64_t at_ps);

/** goal_list_push - append item @ref to a list. */
void goal_list_push(const struct goal_node *node, struct goal_list *list, uint32_t ref);

/** goal_list_pop - remove and return the first item. */
uint32_t goal_list_pop(const struct goal_node *node, struct goal_list *list);

#endif
