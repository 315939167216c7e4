/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - messages from their send to their receive: the protocol of the adapter library, and
 * the matching of messages and receives.
 */
#include "apps/traffic/goal/node.h"

static const struct goal_op *send_of(const struct goal_node *node, uint32_t message)
{
    return goal_node_op(node, node->player->goal->message[message].op);
}

static bool is_eager(const struct goal_op *send)
{
    return send->amount <= GOAL_EAGER_BYTES;
}

/* Return whether a rank sends a message to itself. Such a message does not use the network. */
static bool is_own(const struct goal_node *node, uint32_t message)
{
    return send_of(node, message)->peer == node->player->goal->message[message].from;
}

static bool matches(const struct goal_node *node, const struct goal_op *recv, uint32_t message)
{
    return (recv->peer == GOAL_ANY || recv->peer == node->player->goal->message[message].from) &&
           (recv->tag == GOAL_ANY || recv->tag == send_of(node, message)->tag);
}

/* Record the latency of the message of item @id, which is now in memory. */
static void measure(struct goal_node *node, uint32_t id)
{
    traffic_stats_latency(&node->worker->latency,
                          node->player->sent[goal_item_message(node, id)].at_ps,
                          goal_node_item(node, id)->at_ps);
}

/* Complete the receive that has got the message of item @id. */
static void receive_end(struct goal_node *node, uint32_t id, uint64_t now_ps)
{
    uint32_t message = goal_item_message(node, id);
    const struct goal_op *send = send_of(node, message);

    node->worker->messages++;
    node->worker->bytes += send->amount;
    goal_ops_done(node, goal_node_item(node, id)->recv, now_ps);
    if (is_eager(send))
        return;
    if (is_own(node, message))
        goal_ops_done(node, node->player->goal->message[message].op, now_ps);
    else
        goal_wire_put(node, id, GOAL_FIN, now_ps);
}

/* Match @message with the receive @op. */
static void match(struct goal_node *node, uint32_t message, uint32_t op, uint64_t now_ps)
{
    const struct goal_op *send = send_of(node, message);
    uint32_t id = node->player->goal->messages + message;

    if (send->amount > goal_node_op(node, op)->amount)
        goal_ops_fail(node, op, GOAL_TRUNCATED);
    goal_node_item(node, id)->recv = op;
    if (is_eager(send) || is_own(node, message))
        goal_wire_wait(node, id, now_ps + GOAL_POLL_PS);
    else
        goal_wire_put(node, id, GOAL_CTS, now_ps);
}

/*
 * Match a message, which is the next one of its pair, with the first posted receive that accepts
 * it. If there is none, the message waits.
 */
static void dispatch(struct goal_node *node, uint32_t message, uint64_t now_ps)
{
    struct goal_state *state = node->player->state;
    uint32_t before = GOAL_NONE, op = node->posted.head;

    while (op != GOAL_NONE && !matches(node, goal_node_op(node, op), message)) {
        before = op;
        op = state[op].next;
    }
    if (op == GOAL_NONE) {
        goal_list_push(node, &node->unmatched, node->player->goal->messages + message);
        return;
    }
    goal_ops_unlink(node, &node->posted, before, op);
    match(node, message, op, now_ps);
}

/*
 * Handle the arrival of an RTS, or of a message that has none. Messages of a pair are dispatched in
 * the order of their sends, so a message may wait for earlier ones.
 */
static void arrive(struct goal_node *node, uint32_t message, uint64_t now_ps)
{
    const struct goal_player *player = node->player;
    uint32_t first = player->goal->messages;
    struct goal_pair *pair = &player->pair[player->goal->message[message].pair];
    uint32_t *at = &pair->early;

    if (player->sent[message].number != pair->expected) {
        while (*at != GOAL_NONE && player->sent[*at].number < player->sent[message].number)
            at = &player->item[first + *at].next;
        player->item[first + message].next = *at;
        *at = message;
        return;
    }
    for (;;) {
        pair->expected++;
        dispatch(node, message, now_ps);
        message = pair->early;
        if (message == GOAL_NONE || player->sent[message].number != pair->expected)
            return;
        pair->early = player->item[first + message].next;
    }
}

void goal_message_send(struct goal_node *node, uint32_t op, uint64_t now_ps)
{
    const struct goal_op *send = goal_node_op(node, op);
    uint32_t message = send->message;
    struct goal_pair *pair = &node->player->pair[node->player->goal->message[message].pair];

    node->player->sent[message] = (struct goal_sent){now_ps, pair->sent++};
    if (is_own(node, message))
        arrive(node, message, now_ps);
    else
        goal_wire_put(node, message, is_eager(send) ? GOAL_EAGER : GOAL_RTS, now_ps);
    if (is_eager(send))
        goal_ops_done(node, op, now_ps);
}

void goal_message_recv(struct goal_node *node, uint32_t op, uint64_t now_ps)
{
    uint32_t first = node->player->goal->messages;
    uint32_t before = GOAL_NONE, id = node->unmatched.head;

    while (id != GOAL_NONE && !matches(node, goal_node_op(node, op), id - first)) {
        before = id;
        id = goal_node_item(node, id)->next;
    }
    if (id != GOAL_NONE) {
        *(before == GOAL_NONE ? &node->unmatched.head : &goal_node_item(node, before)->next) =
            goal_node_item(node, id)->next;
        if (node->unmatched.tail == id)
            node->unmatched.tail = before;
        match(node, id - first, op, now_ps);
        return;
    }
    goal_ops_append(node, &node->posted, op);
}

void goal_message_arrived(struct goal_node *node, uint32_t id, uint64_t now_ps)
{
    const struct goal_item *item = goal_node_item(node, id);
    uint32_t message = goal_item_message(node, id);

    switch ((enum goal_packet)item->what) {
    case GOAL_EAGER:
        measure(node, id);
        arrive(node, message, now_ps);
        break;
    case GOAL_RTS:
        arrive(node, message, now_ps);
        break;
    case GOAL_CTS:
        goal_wire_put(node, id, GOAL_DATA, now_ps);
        break;
    case GOAL_DATA:
        measure(node, id);
        goal_wire_wait(node, id, now_ps + GOAL_POLL_PS);
        break;
    case GOAL_END:
        receive_end(node, id, now_ps);
        break;
    case GOAL_FIN:
        goal_ops_done(node, node->player->goal->message[message].op, now_ps);
        break;
    case GOAL_GROUP:
        goal_coll_arrived(node, id, now_ps);
        break;
    }
}
