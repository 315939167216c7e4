/* SPDX-License-Identifier: BSD-3-Clause */
/* node.h - a node that plays a rank. Only the files of the player include it. */
#ifndef APPS_TRAFFIC_GOAL_NODE_H
#define APPS_TRAFFIC_GOAL_NODE_H

#include "apps/traffic/goal/player.h"

/*
 * Sizes of the adapter library's headers (nic/host/base/wire.h). goal_test.c compares them with
 * wire.h.
 */
#define GOAL_SHORT_BYTES 32u /* header of a message of one segment */
#define GOAL_FIRST_BYTES 48u /* header of a longer message's first segment, and of RTS */
#define GOAL_MORE_BYTES  16u /* header of its further segments */
#define GOAL_DATA_BYTES  8u  /* header of the segments that are sent after a CTS */
#define GOAL_CTS_BYTES   32u
#define GOAL_FIN_BYTES   24u

/*
 * The kinds of packets that nodes send for a message, each at most once. GOAL_END, the end of the
 * receive, is treated like an arrival.
 */
enum goal_packet {
    GOAL_EAGER, /* a whole message that is sent without waiting for a receive */
    GOAL_RTS,   /* announces a long message, which waits at the sender */
    GOAL_DATA,  /* a whole long message, sent when CTS has arrived */
    GOAL_CTS,   /* to the sender: a receive waits for the message */
    GOAL_FIN,   /* to the sender: the message has arrived */
    GOAL_END,   /* not sent: the receive is complete */
    GOAL_GROUP  /* belongs to no message, but to a group (coll.c) */
};

enum goal_fault { GOAL_NO_FAULT, GOAL_TRUNCATED, GOAL_TOO_LATE, GOAL_DIFFERS, GOAL_NO_BUFFER };

struct goal_cpu {
    struct goal_list ready; /* operations that are ready and wait for the cpu */
    uint32_t calc;          /* the calc operation that runs; GOAL_NONE: none */
    uint64_t end_ps;        /* when that calc ends; EMU_NEVER: none runs */
};

struct goal_node {
    struct traffic_base base;

    alignas(EMU_LINE) struct goal_player *player;
    /* the rank of this node; it has no operations if the file has no such rank */
    const struct goal_rank *rank;
    struct goal_worker *worker;
    struct goal_cpu *cpu;
    struct goal_stream *stream; /* its memberships in groups */
    uint32_t streams;
    uint32_t node;
    /* items that have arrived, ordered by item.at_ps (the time at which they are in memory) */
    struct goal_list arrived;
    struct goal_list out;       /* items that will be sent, in this order */
    struct goal_list unmatched; /* items: messages without a receive, in order of arrival */
    struct goal_list posted;    /* operations: receives without a message, in order of posts */
    uint32_t computing;         /* number of cpus that compute */
    uint64_t since_ps;          /* since when at least one cpu has computed without a break */
    uint64_t busy_ps;           /* sum of the earlier periods in which at least one cpu computed */
    uint64_t finish_ps;
    uint32_t done; /* number of complete operations */
    enum goal_fault fault;
    uint32_t fault_op;  /* the operation with the fault */
    uint64_t received;  /* segments of messages */
    uint64_t in_groups; /* segments sent to groups */
    uint64_t digest;
};

static inline const struct goal_op *goal_node_op(const struct goal_node *node, uint32_t op)
{
    return &node->player->goal->op[op];
}

static inline struct goal_item *goal_node_item(const struct goal_node *node, uint32_t id)
{
    return &node->player->item[id];
}

/*
 * An item (struct goal_item) has a number, @id. At the sender it is the number of the message, and
 * at the receiver that number plus player->goal->messages. The items of groups follow.
 */
static inline bool goal_item_receives(const struct goal_node *node, uint32_t id)
{
    return id >= node->player->goal->messages;
}

static inline uint32_t goal_item_message(const struct goal_node *node, uint32_t id)
{
    return goal_item_receives(node, id) ? id - node->player->goal->messages : id;
}

/* --- player.c: errors ------------------------------------------------------------------ */

#define GOAL_TEXT_BYTES 96u

/**
 * goal_op_text - describe an operation, for example "recv of 8 bytes from 2 tag 5". @text: a buffer
 * for the description. Returns @text.
 */
const char *goal_op_text(const struct goal_op *op, char text[static GOAL_TEXT_BYTES]);

/* --- ops.c: operations, dependencies, cpus --------------------------------------------- */

/** goal_ops_append - append operation @op to a list of operations of this rank. */
void goal_ops_append(const struct goal_node *node, struct goal_list *list, uint32_t op);

/** goal_ops_unlink - remove operation @op. @before: the one before it in the list, or GOAL_NONE. */
void goal_ops_unlink(const struct goal_node *node, struct goal_list *list, uint32_t before,
                     uint32_t op);

/** goal_ops_begin - at time 0, start the operations that wait for no other operation. */
void goal_ops_begin(struct goal_node *node);

/** goal_ops_done - complete operation @op. Operations that wait for it may become ready. */
void goal_ops_done(struct goal_node *node, uint32_t op, uint64_t now_ps);

/** goal_ops_fail - record a fault of operation @op. The driver will then end the run. */
void goal_ops_fail(struct goal_node *node, uint32_t op, enum goal_fault fault);

/** goal_ops_end - complete the calcs that end at @now_ps. */
void goal_ops_end(struct goal_node *node, uint64_t now_ps);

/** goal_ops_start - start all ready operations whose cpu is free. */
void goal_ops_start(struct goal_node *node, uint64_t now_ps);

/** goal_ops_next_ps - return when the next calc ends; EMU_NEVER: none runs. */
uint64_t goal_ops_next_ps(const struct goal_node *node);

/* --- message.c: the protocol of messages, and matching --------------------------------- */

/** goal_message_send, goal_message_recv - start the send or the receive @op. */
void goal_message_send(struct goal_node *node, uint32_t op, uint64_t now_ps);
void goal_message_recv(struct goal_node *node, uint32_t op, uint64_t now_ps);

/** goal_message_arrived - handle the packet of item @id, which is now completely in memory. */
void goal_message_arrived(struct goal_node *node, uint32_t id, uint64_t now_ps);

/* --- wire.c: segments ------------------------------------------------------------------ */

/** goal_wire_put - queue packet @what of item @id. It may be sent from @now_ps on. */
void goal_wire_put(struct goal_node *node, uint32_t id, enum goal_packet what, uint64_t now_ps);

/** goal_wire_send - send segments until @until_ps. Returns when the next one may leave. */
uint64_t goal_wire_send(struct goal_node *node, uint64_t until_ps);

/** goal_wire_deliver - process a segment that has arrived. Called by traffic_take(). */
void goal_wire_deliver(void *context, const struct emu_entry *entry);

/** goal_wire_segments - return how many segments packet @what of a message of @bytes has. Pure. */
uint32_t goal_wire_segments(enum goal_packet what, uint64_t bytes);

/**
 * goal_wire_len - return the payload, with the library's headers, of one segment of packet @what.
 * @left: number of segments that are left to send, including this one. Pure.
 */
uint8_t goal_wire_len(enum goal_packet what, uint64_t bytes, uint32_t left);

/** goal_list_arrive - insert item @id into the arrivals, which are ordered by time. */
void goal_list_arrive(struct goal_node *node, uint32_t id);

/** goal_wire_wait - let item @id arrive as GOAL_END at @at_ps. */
void goal_wire_wait(struct goal_node *node, uint32_t id, uint64_t at_ps);

/** goal_list_push - append item @id to a list. */
void goal_list_push(const struct goal_node *node, struct goal_list *list, uint32_t id);

/** goal_list_pop - remove and return the first item. */
uint32_t goal_list_pop(const struct goal_node *node, struct goal_list *list);

/* --- coll.c: collectives in the network -------------------------------------------------- */

/** goal_coll_items - return how many items the groups need, after those of the messages. Pure. */
uint64_t goal_coll_items(const struct goal *goal);

/** goal_coll_has_item - return whether item @id belongs to a group. Pure. */
bool goal_coll_has_item(const struct goal *goal, uint32_t id);

/** goal_coll_start - start the collective @op. */
void goal_coll_start(struct goal_node *node, uint32_t op, uint64_t now_ps);

/**
 * goal_coll_segment - set @entry to the next segment of item @id. Returns false if no buffer is
 * free; then its operation has failed.
 */
bool goal_coll_segment(struct goal_node *node, uint32_t id, struct emu_entry *entry);

/** goal_coll_deliver - process a segment of a group that has arrived. */
void goal_coll_deliver(struct goal_node *node, const struct emu_entry *entry);

/** goal_coll_arrived - handle the arrival of item @id, at its time. */
void goal_coll_arrived(struct goal_node *node, uint32_t id, uint64_t now_ps);

#endif
