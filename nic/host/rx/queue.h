/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.h - endpoints for messages: the table of queues, matching, and closing.
 *
 * A queue has two ordered lists: posted receives that no message has matched, and *unexpected*
 * messages that no receive has matched. Between calls no entry of one list matches an entry of the
 * other. Lock: held.
 */
#ifndef NIC_QUEUE_H
#define NIC_QUEUE_H

#include "nic/host/base/op.h"
#include "nic/host/base/wire.h"

/*
 * At most this many messages from one node are kept for queues that are not open. Further messages
 * of that node wait at the sender, and do not delay other senders.
 */
#define NIC_PARKED_MAX 4096u
#define NIC_NUMBERS    65536u /* number of queues to which peers can send */
/* shared receive queues have the ids from NIC_NUMBERS up */
#define NIC_QUEUES (NIC_NUMBERS + 4096u)

struct fabemu_message {
    /* entry in the queue's `unexpected` until a receive matches the message, or in `claimed` */
    struct emu_list link;
    struct fabemu_queue *queue;
    /* the receive that has matched and waits for the rest of this message, or NULL */
    struct nic_recv *recv;
    uint32_t src_node;
    uint64_t src_incarnation;
    uint32_t check;  /* nic_check() in its first segment */
    bool rts;        /* the message is still at its sender, where it has the id wire.id */
    bool whole;      /* the whole message is in buf */
    bool broken;     /* the rest will not arrive, so a receive that matches it fails */
    uint8_t pool;    /* index of the free list for buffers of this size */
    uint32_t number; /* as struct nic_watched.number */
    struct nic_wire_msg wire;
    uint8_t buf[];
};

struct fabemu_queue {
    struct fabemu *fab;
    /* the queue in whose lists this queue's messages are: itself, or a shared receive queue */
    struct fabemu_queue *receiver;
    struct emu_list posted;     /* receives, oldest first */
    struct emu_list unexpected; /* messages, oldest first */
    struct emu_list claimed;    /* messages that a probe has claimed, until they are received */
    struct emu_list active;     /* receives that have matched and are not complete */
    /* notices (struct nic_notice) that no call has received, oldest first */
    struct emu_list notices;
    struct emu_list awaiting; /* receives of notices, oldest first; empty if there are notices */
    struct emu_list opened;   /* entry in fab->opened */
    struct nic_access_events events;
    uint32_t id;
    /* fabemu_queue_open_counted(): number of references; 0: not opened by this function */
    uint32_t refs;
    bool open;          /* false: messages arrived for it before fabemu_queue_open() */
    bool announced;     /* fabemu_queue_announce() was called */
    bool takes_notices; /* fabemu_recv_notice() was called for this queue */
    /* the group of fabemu_group_queue(); NULL: none. Only nic/host/group reads the group itself */
    const struct fabemu_group *group;
    bool broken; /* the group is broken: receives end, and messages are refused */
    /* the function given to fabemu_queue_on_loss() */
    void (*lost)(struct fabemu_queue *queue, const struct fabemu_req *failed, void *arg);
    void *lost_arg;
    /* node to which messages were lost, if no error has reported that yet; FABEMU_ANY_NODE: none */
    uint32_t lost_to;
};

/* A posted receive of one message or, if `next` is not NULL, of several (fabemu_recv_multi()). */
struct nic_recv {
    struct nic_op op;
    struct nic_watched watched;
    uint64_t tag, ignore; /* the tag, and a mask of its bits that need not match */
    struct fabemu_queue *queue;
    int32_t status; /* after the match: the status with which it will complete */
    uint32_t from;  /* the sender's queue, or FABEMU_ANY_QUEUE */
    /*
     * next of struct fabemu_multi; op.moved counts the bytes of the buffer that messages have taken
     */
    struct fabemu_req *(*next)(struct fabemu_req *req, void *at);
    union {
        uint64_t min_bytes; /* of struct fabemu_multi */
        /* receive of one message: id of its queue, which may close before an armed one starts */
        uint32_t queue_id;
    };
} __attribute__((may_alias));
NIC_OP_KIND(nic_recv_of, struct nic_recv, op);
static_assert(offsetof(struct nic_recv, watched) == sizeof(struct nic_op), "nic_op_report()");

/** nic_queue_at - return queue @id, creating it (not open) if necessary; NULL: no memory. */
struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint32_t id);
/**
 * nic_queue_match - find the oldest posted receive that matches a message of @bytes, and remove it
 * from the list. NULL: none matches. If it is a receive for several messages, return the part for
 * this message. @incarnation: of the sender.
 */
struct nic_recv *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t incarnation, uint64_t tag, uint64_t bytes);
/**
 * nic_multi_next - take from @multi, a receive of several messages, a receive for one message of
 * @bytes. If too little space is left, complete @multi. @open: receives whether @multi takes more
 * messages; if not, the caller must not use it any more. NULL: there is no memory, so @multi has
 * failed.
 */
struct nic_recv *nic_multi_next(struct nic_recv *multi, uint64_t bytes, bool *open);
/**
 * nic_queue_find - return the oldest unexpected message that matches, or NULL.
 * @incarnation: of the sender; 0: any.
 */
struct fabemu_message *nic_queue_find(struct fabemu_queue *queue, struct fabemu_source want,
                                      uint64_t incarnation, uint64_t tag, uint64_t ignore);

/** nic_receive_abandon - cancel a receive, and drop the rest of its message. */
void nic_receive_abandon(struct fabemu *fab, struct nic_recv *recv);
/**
 * nic_queue_fail_older - fail posted receives from incarnations of @node below @first, because
 * these have ended. A message that waits at such a sender is marked broken, so that the receive
 * that matches it fails rather than match a later message.
 * @withdrawn: the process has disconnected, which cancels its messages, so drop them instead.
 */
void nic_queue_fail_older(struct fabemu *fab, uint32_t node, uint64_t first, bool withdrawn);
/** nic_queue_is_shared - return whether this is a shared receive queue. Lock: none. */
static inline bool nic_queue_is_shared(const struct fabemu_queue *queue)
{
    return queue->id >= NIC_NUMBERS;
}

/** nic_queue_share - implement fabemu_queue_share() for a queue without receives. */
void nic_queue_share(struct fabemu_queue *queue, struct fabemu_queue *shared);
/** nic_queue_break - end the queue's receives and, by nic_sends_end(), sends; refuse messages. */
void nic_queue_break(struct fabemu_queue *queue);
/** nic_queue_free - close the queue: end its receives and drop its messages. */
void nic_queue_free(struct fabemu_queue *queue);
/** nic_queue_forget_event - let no queue count in @event, which is being closed. */
void nic_queue_forget_event(struct fabemu *fab, const struct fabemu_event *event);
void nic_queue_release(struct fabemu *fab);

#endif
