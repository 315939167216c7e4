/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c - endpoints for messages: the table of queues, and matching.
 */
#include "nic/host/rx/queue.h"

#include <stdlib.h>

static bool tag_matches(uint64_t tag, uint64_t want, uint64_t ignore)
{
    return ((tag ^ want) & ~ignore) == 0;
}

static bool source_matches(struct fabemu_source from, struct fabemu_source want)
{
    return (want.node == FABEMU_ANY_NODE || want.node == from.node) &&
           (want.queue == FABEMU_ANY_QUEUE || want.queue == from.queue);
}

struct nic_recv *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag)
{
    for (struct emu_list *at = queue->posted.next; at != &queue->posted; at = at->next) {
        struct nic_recv *recv = emu_list_entry(at, struct nic_recv, op.post.link);

        if (!source_matches(from, (struct fabemu_source){recv->op.node, recv->from}) ||
            !tag_matches(tag, recv->tag, recv->ignore))
            continue;
        emu_list_del(at);
        return recv;
    }
    return NULL;
}

struct fabemu_message *nic_queue_find(struct fabemu_queue *queue, struct fabemu_source want,
                                      uint64_t seat, uint64_t tag, uint64_t ignore)
{
    for (struct emu_list *at = queue->unexpected.next; at != &queue->unexpected; at = at->next) {
        struct fabemu_message *msg = emu_list_entry(at, struct fabemu_message, link);

        if (source_matches((struct fabemu_source){msg->src_node, msg->src_queue}, want) &&
            (!seat || msg->src_seat == seat) && tag_matches(msg->tag, tag, ignore))
            return msg;
    }
    return NULL;
}

struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint16_t id)
{
    struct fabemu_queue *queue = fab->queues[id];

    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->fab = fab;
    queue->id = id;
    emu_list_init(&queue->posted);
    emu_list_init(&queue->unexpected);
    emu_list_init(&queue->active);
    emu_list_init(&queue->notices);
    emu_list_init(&queue->awaiting);
    fab->queues[id] = queue;
    return queue;
}
