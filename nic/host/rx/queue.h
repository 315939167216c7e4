/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.h - endpoints for messages: the table of queues, matching, and closing.
 *
 * A queue has two ordered lists: receives without a message, and messages without a receive. No
 * entry of one ever matches an entry of the other. Lock: held.
 */
#ifndef NIC_QUEUE_H
#define NIC_QUEUE_H

#include "nic/host/base/op.h"

/* Limit of messages to queues that are not open yet; then their senders must wait. */
#define NIC_PARKED_MAX 4096u
#define NIC_QUEUES     65536u

/* An unexpected message. */
struct fabemu_message {
    struct emu_list link; /* queue's unexpected; unlisted once claimed or matched */
    struct fabemu_queue *queue;
    struct nic_recv *recv; /* the receive that waits for the rest of this message */
    uint32_t src_node;
    uint64_t src_incarnation;
    uint32_t check; /* nic_check() of its sender */
    uint16_t src_queue;
    bool rts;     /* the bytes are at the sender, under id */
    bool whole;   /* all of buf has arrived */
    bool broken;  /* the rest will not come: a receive that matches it fails */
    uint8_t pool; /* free list for buffers of this size */
    uint32_t id;
    uint32_t number; /* see struct nic_watched */
    uint64_t tag, data, bytes;
    uint8_t buf[];
};

struct fabemu_queue {
    struct fabemu *fab;
    struct emu_list posted;     /* receives, oldest first */
    struct emu_list unexpected; /* messages, oldest first */
    struct emu_list active;     /* receives that matched and are under way */
    struct emu_list notices;    /* struct nic_notice that no call has received, oldest first */
    struct emu_list awaiting;   /* receives of notices, oldest first; empty if there are notices */
    struct emu_list opened;     /* in fab->opened */
    uint16_t id;
    bool open;          /* false: created by messages that arrived before fabemu_queue_open() */
    bool takes_notices; /* fabemu_recv_notice() was called */
};

/* A receive. */
struct nic_recv {
    struct nic_op op;
    struct nic_watched watched;
    uint64_t tag, ignore; /* wanted tag, and bits of it to ignore */
    struct fabemu_queue *queue;
    int32_t status; /* matched: the status with which it will complete */
    uint32_t from;  /* the sender's queue, or FABEMU_ANY_QUEUE */
} __attribute__((may_alias));
NIC_OP_KIND(nic_recv_of, struct nic_recv, op);
static_assert(offsetof(struct nic_recv, watched) == sizeof(struct nic_op), "nic_op_report()");

/** nic_queue_at - queue @id, created (not open) if needed; NULL: no memory. */
struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint16_t id);
/** nic_queue_match - remove and return the oldest posted receive that matches; or NULL. */
struct nic_recv *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag);
/**
 * nic_queue_find - the oldest message without a receive that matches; or NULL.
 * @incarnation: 0: from any incarnation.
 */
struct fabemu_message *nic_queue_find(struct fabemu_queue *queue, struct fabemu_source want,
                                      uint64_t incarnation, uint64_t tag, uint64_t ignore);

/** nic_receive_abandon - cancel a receive; the rest of its message is dropped. */
void nic_receive_abandon(struct fabemu *fab, struct nic_recv *recv);
/**
 * nic_queue_fail_older - incarnations of @node below @first are gone: fail receives from them.
 * Messages that wait at these senders are marked broken, so that their receives fail instead of
 * matching later messages. @withdrawn: the process disconnected in good order, which cancels its
 * messages.
 */
void nic_queue_fail_older(struct fabemu *fab, uint32_t node, uint64_t first, bool withdrawn);
/** nic_queue_free - free it with its contents. */
void nic_queue_free(struct fabemu_queue *queue);
void nic_queue_release(struct fabemu *fab);

#endif
