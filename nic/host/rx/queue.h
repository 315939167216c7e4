/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.h - endpoints for messages: the table of queues, matching, and the end of receives and
 * queues.
 *
 * Two lists a queue, both in order: receives without a message and messages without a receive.
 * Never is there one of each that match.
 *
 * Owner: the table (`queues`), what lies in them. Lock: held. Callers: the rest of rx/, receive.c;
 * code that learns that a process is gone, that cancels, or that closes a queue.
 */
#ifndef NIC_QUEUE_H
#define NIC_QUEUE_H

#include "nic/host/base/op.h"

/* So many messages may wait for queues that are not open yet; then their senders are stopped. */
#define NIC_PARKED_MAX 4096u
#define NIC_QUEUES     65536u

/* An unexpected message. */
struct fabemu_message {
    struct emu_list link; /* queue's unexpected; unlisted once claimed or matched */
    struct fabemu_queue *queue;
    struct nic_recv *recv; /* the receive that waits for the rest of it */
    uint32_t src_node;
    uint64_t src_seat;
    uint32_t check; /* of the process that sent it, and the epoch */
    uint16_t src_queue;
    bool rts;     /* the bytes are at the sender, named by id */
    bool whole;   /* all of buf is here */
    bool broken;  /* what is missing will not come: the receive that takes it ends with an error */
    uint8_t pool; /* free list that buf's size belongs to */
    uint32_t id;
    uint32_t number; /* struct nic_watched */
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
    bool open;          /* false: messages came before fabemu_queue_open() */
    bool takes_notices; /* fabemu_recv_notice() was called */
};

/* A receive. */
struct nic_recv {
    struct nic_op op;
    struct nic_watched watched;
    uint64_t tag, ignore; /* wanted: the tag's bits but those of ignore */
    struct fabemu_queue *queue;
    int32_t status; /* matched: with which it will complete */
    uint32_t from;  /* the sender's queue, or FABEMU_ANY_QUEUE */
} __attribute__((may_alias));
NIC_OP_KIND(nic_recv_of, struct nic_recv, op);
static_assert(offsetof(struct nic_recv, watched) == sizeof(struct nic_op), "nic_op_tell()");

/** nic_queue_at - the queue @id, made (not open) if need be; NULL: no memory. */
struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint16_t id);
/** nic_queue_match - the oldest posted receive that wants it, taken off the list; or NULL. */
struct nic_recv *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag);
/**
 * nic_queue_find - the oldest message without a receive that is wanted; or NULL.
 * @seat: 0, whichever process of the node sent it.
 */
struct fabemu_message *nic_queue_find(struct fabemu_queue *queue, struct fabemu_source want,
                                      uint64_t seat, uint64_t tag, uint64_t ignore);

/** nic_receive_abandon - cancel a receive; what of its message is on its way goes nowhere. */
void nic_receive_abandon(struct fabemu *fab, struct nic_recv *recv);
/**
 * nic_queue_passed - those of @node with a lower seat than @first are gone: fail receives that are
 * with them. Messages that they had offered are broken: in their place nothing is received that
 * came after them. @withdrawn: who left in good order took them back.
 */
void nic_queue_passed(struct fabemu *fab, uint32_t node, uint64_t first, bool withdrawn);
/** nic_queue_free - with all that is in it. */
void nic_queue_free(struct fabemu_queue *queue);
void nic_queue_release(struct fabemu *fab);

#endif
