/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - messages as segments. A segment's header has the message in `seq` and the enum
 * goal_packet in `op`. Segments may overtake each other, so the receiver only counts them.
 */
#include "apps/traffic/goal/node.h"

#define FIRST_ROOM (EMU_PAYLOAD_BYTES - GOAL_FIRST_BYTES)
#define MORE_ROOM  (EMU_PAYLOAD_BYTES - GOAL_MORE_BYTES)
#define DATA_ROOM  (EMU_PAYLOAD_BYTES - GOAL_DATA_BYTES)

/* --- lengths ------------------------------------------------------------------------ */

uint32_t goal_wire_segments(enum goal_packet what, uint64_t bytes)
{
    if (what == GOAL_EAGER && bytes > FIRST_ROOM)
        return (uint32_t)(1 + (bytes - FIRST_ROOM + MORE_ROOM - 1) / MORE_ROOM);
    if (what == GOAL_DATA)
        return (uint32_t)((bytes + DATA_ROOM - 1) / DATA_ROOM);
    return 1;
}

uint8_t goal_wire_len(enum goal_packet what, uint64_t bytes, uint32_t left)
{
    static const uint8_t headers[] = {
        [GOAL_RTS] = GOAL_FIRST_BYTES, [GOAL_CTS] = GOAL_CTS_BYTES, [GOAL_FIN] = GOAL_FIN_BYTES};
    uint64_t before = goal_wire_segments(what, bytes) - 1;

    if (what != GOAL_EAGER && what != GOAL_DATA)
        return headers[what];
    if (left > 1)
        return EMU_PAYLOAD_BYTES;
    if (what == GOAL_DATA)
        return (uint8_t)(GOAL_DATA_BYTES + bytes - before * DATA_ROOM);
    if (!before)
        return (uint8_t)(GOAL_SHORT_BYTES + bytes);
    return (uint8_t)(GOAL_MORE_BYTES + bytes - FIRST_ROOM - (before - 1) * MORE_ROOM);
}

/* --- lists -------------------------------------------------------------------------- */

/* Insert item @id after item @previous. If @previous is GOAL_NONE, insert it at the front. */
static void list_insert(const struct goal_node *node, struct goal_list *list, uint32_t previous,
                        uint32_t id)
{
    struct goal_item *item = goal_node_item(node, id);
    uint32_t *link = previous == GOAL_NONE ? &list->head : &goal_node_item(node, previous)->next;

    item->prev = previous;
    item->next = *link;
    *(item->next == GOAL_NONE ? &list->tail : &goal_node_item(node, item->next)->prev) = id;
    *link = id;
}

void goal_list_push(const struct goal_node *node, struct goal_list *list, uint32_t id)
{
    list_insert(node, list, list->head == GOAL_NONE ? GOAL_NONE : list->tail, id);
}

uint32_t goal_list_pop(const struct goal_node *node, struct goal_list *list)
{
    uint32_t id = list->head;

    list->head = goal_node_item(node, id)->next;
    if (list->head != GOAL_NONE)
        goal_node_item(node, list->head)->prev = GOAL_NONE;
    return id;
}

/* The search begins at the end, because few arrivals are later than a new one. */
void goal_list_arrive(struct goal_node *node, uint32_t id)
{
    uint32_t before = node->arrived.head == GOAL_NONE ? GOAL_NONE : node->arrived.tail;

    while (before != GOAL_NONE &&
           goal_node_item(node, before)->at_ps > goal_node_item(node, id)->at_ps)
        before = goal_node_item(node, before)->prev;
    list_insert(node, &node->arrived, before, id);
}

void goal_wire_wait(struct goal_node *node, uint32_t id, uint64_t at_ps)
{
    struct goal_item *item = goal_node_item(node, id);

    item->what = GOAL_END;
    item->at_ps = at_ps;
    goal_list_arrive(node, id);
}

/* --- sending ------------------------------------------------------------------------ */

static uint64_t bytes_of(const struct goal_node *node, uint32_t message)
{
    return goal_node_op(node, node->player->goal->message[message].op)->amount;
}

void goal_wire_put(struct goal_node *node, uint32_t id, enum goal_packet what, uint64_t now_ps)
{
    struct goal_item *item = goal_node_item(node, id);

    item->what = (uint8_t)what;
    item->at_ps = now_ps;
    item->left = goal_wire_segments(what, bytes_of(node, goal_item_message(node, id)));
    goal_list_push(node, &node->out, id);
}

static void message_segment(const struct goal_node *node, uint32_t id, struct emu_entry *entry)
{
    const struct goal *goal = node->player->goal;
    const struct goal_item *item = goal_node_item(node, id);
    uint32_t message = goal_item_message(node, id);

    *entry = (struct emu_entry){
        .hdr = {.dst = goal_item_receives(node, id) ? goal->message[message].from
                                                    : goal->op[goal->message[message].op].peer,
                .src = node->node,
                .seq = message,
                .kind = EMU_UNICAST,
                .len = goal_wire_len(item->what, bytes_of(node, message), item->left),
                .op = item->what},
        .buf = EMU_NO_BUF,
    };
}

/* Send the next segment of item @id. Returns false if that fails. */
static bool put_segment(struct goal_node *node, uint32_t id, uint64_t depart_ps)
{
    bool in_group = goal_coll_has_item(node->player->goal, id);
    struct emu_entry entry;

    if (!in_group)
        message_segment(node, id, &entry);
    else if (!goal_coll_segment(node, id, &entry))
        return false;
    node->in_groups += in_group;
    node->worker->segments++;
    emu_tx_depart(&node->base.tx, &entry, depart_ps);
    return true;
}

uint64_t goal_wire_send(struct goal_node *node, uint64_t until_ps)
{
    uint64_t depart_ps = EMU_NEVER;
    bool sent = false;

    while (node->out.head != GOAL_NONE) {
        struct goal_item *item = goal_node_item(node, node->out.head);

        depart_ps = emu_tx_earliest_ps(&node->base.tx, item->at_ps + node->player->times.send_ps);
        if (depart_ps > until_ps)
            break;
        if (!put_segment(node, node->out.head, depart_ps))
            return EMU_NEVER;
        sent = true;
        depart_ps = EMU_NEVER;
        if (!--item->left)
            goal_list_pop(node, &node->out);
    }
    if (sent)
        emu_tx_flush(&node->base.tx);
    return depart_ps;
}

/* --- receiving ---------------------------------------------------------------------- */

static void message_deliver(struct goal_node *node, const struct emu_entry *entry)
{
    const struct goal_player *player = node->player;
    enum goal_packet what = (enum goal_packet)entry->hdr.op;
    uint32_t message = entry->hdr.seq;
    uint32_t id = what < GOAL_CTS ? player->goal->messages + message : message;
    struct goal_item *item = goal_node_item(node, id);
    uint64_t at_ps = traffic_memory_ps(&player->times, player->profile, entry);

    node->received++;
    node->digest = traffic_digest(node->digest, entry->hdr.src, message, at_ps);
    if (!item->left) { /* this is the first segment */
        item->what = (uint8_t)what;
        item->left = goal_wire_segments(what, bytes_of(node, message));
        item->at_ps = 0;
    }
    if (at_ps > item->at_ps)
        item->at_ps = at_ps;
    if (!--item->left)
        goal_list_arrive(node, id);
}

void goal_wire_deliver(void *context, const struct emu_entry *entry)
{
    struct goal_node *node = context;

    node->worker->segments++;
    if (emu_hdr_kind(&entry->hdr) == EMU_UNICAST)
        message_deliver(node, entry);
    else
        goal_coll_deliver(node, entry);
    emu_pool_drop(&node->base.dev.worker->cache, entry->buf);
}
