/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.h - the adapter's own view of itself: struct fabemu and its parts.
 *
 * One lock an adapter. Whoever holds it may step: an application thread that
 * waits, or the adapter's thread when none does. Every function declared here
 * wants the lock held unless it says otherwise.
 *
 * Memory: no step waits for memory of a peer. What a peer can make this process
 * hold is bounded by NIC_ORDER_WINDOW early segments, NIC_EAGER_WINDOW bytes of
 * charged messages, NIC_PARKED_MAX messages (of all peers) to queues that are not
 * open, NIC_SERVED_MAX transfers (likewise) and an answer to each of its requests.
 * Not bounded here, but by what the senders choose to send: messages of one
 * segment, and NIC_RTS, to an open queue whose application takes none. They are
 * not charged, as asking first would cost the receiver as much as the message.
 */
#ifndef NIC_ADAPTER_H
#define NIC_ADAPTER_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/edge/edge.h"
#include "emu/link/seg.h"
#include "nic/fabemu.h"
#include "emu/list.h"
#include "nic/host/wire.h"

#define NIC_ORDER_WINDOW 1024u        /* requests under way to one peer; a power of two */
#define NIC_EAGER_WINDOW (256u << 10) /* bytes of eager messages of several segments, a peer */
#define NIC_EAGER_LIMIT (64u << 10)   /* no eager message is longer, whatever the sender's threshold */
#define NIC_IOVS 4
#define NIC_RECEIVE_BURST 256u        /* segments a step takes */
#define NIC_RECEIVE_TELL 64u          /* and after so many gives their room back */
#define NIC_PEER_BURST 32u            /* segments a peer sends in its turn */
#define NIC_BULK_BURST 32u            /* segments a transfer sends in its turn */
#define NIC_RING_RESERVE 64u          /* up slots that bulk data leaves to the rest */
#define NIC_GROUP_BURST 128u          /* segments a group sends in its turn */
#define NIC_OPS_MAX (1u << 20)        /* transfers at a time: 20 bits of an id */
#define NIC_SERVED_MAX (1u << 16)     /* of them, on behalf of peers */
#define NIC_CTL_MAX (1u << 16)        /* hellos and acknowledgments that wait for room */
#define NIC_PARKED_MAX 4096u          /* messages to queues that are not open yet; then their senders are stopped */
#define NIC_EARLY_GROUPS_MAX 1024u    /* groups that others use before we joined: as many as a fabric has */
#define NIC_BROKEN_GROUPS 1024u       /* groups left after a break whose late segments are known as such */
#define NIC_GROUP_BUCKETS 256u
#define NIC_QUEUES 65536u
#define NIC_KEY_SYMMETRIC (UINT64_C(1) << 63) /* in the keys of groups' regions, and in no others */
#define NIC_CAST_WINDOW 64u           /* segments of a group's broadcast puts that not all members have; at most 64 */
#define NIC_LOOP_SLOTS 512u           /* segments to this node itself; a power of two */
#define NIC_WATCH_NS 1000000000u      /* between looks whether those we wait for are still there */
#define NIC_WATCH_STEPS 64u           /* between looks at the clock for that */
#define NIC_SLEEP_NS 10000000u        /* no sleep is longer: bounds the harm of a lost wake */
#define NIC_NAP_NS 50000u             /* in fabemu_idle(), whose callers may wait for something else, too */
#define NIC_NAP_QUESTIONS 8u          /* so often it is asked before a nap; */
#define NIC_NAP_WORK_NS 4000u         /* who has run less for each of them does nothing but wait */

/* Counts of input that was dropped; tests read them, a debugger shows them. */
struct nic_counts {
    uint64_t malformed;     /* a field is out of range, or no such thing was expected */
    uint64_t stranger;      /* from or to a process that has been replaced */
    uint64_t out_of_window; /* a request number nobody may have sent yet, or a repeated one */
    uint64_t stale;         /* names a transfer that is over */
    uint64_t refused;       /* memory or a bound ran out */
    uint64_t late;          /* for a group, or a region of one, that is not here (any more) or broken */
    uint64_t given_up;      /* segments of ours that the network gave up */
};

enum nic_op_state {
    NIC_OP_IDLE,     /* over */
    NIC_OP_ARMED,    /* waits for its event */
    NIC_OP_QUEUED,   /* a request that is not on its way */
    NIC_OP_EAGER,    /* an eager message that is partly on its way */
    NIC_OP_WAITING,  /* waits for the peer: CTS, FIN, RESULT or DATA; or for the network's answer */
    NIC_OP_STREAM,   /* sends DATA */
    NIC_OP_POSTED,   /* a receive that has not matched */
    NIC_OP_FILLING   /* a receive whose eager message is under way */
};

enum nic_op_kind {
    NIC_OP_SEND,
    NIC_OP_RECV,
    NIC_OP_PUT,       /* ours */
    NIC_OP_GET,
    NIC_OP_ATOMIC,
    NIC_OP_SERVE_PUT, /* a peer's, into memory of ours */
    NIC_OP_SERVE_GET,
    NIC_OP_WHEN,      /* does nothing but wait for its event */
    NIC_OP_SET,       /* a group's: node is FABEMU_ANY_NODE, so that no peer can name it */
    NIC_OP_TEST,
    NIC_OP_CAST
};

/* What every operation of the application's begins with. */
struct nic_post {
    struct emu_list link;   /* armed: event's */
    struct fabemu_req *req;
    int (*begin)(struct fabemu *fab, struct nic_post *post); /* on an error nothing has begun */
} __attribute__((may_alias));

/* One message or transfer. Lies in the request's opaque words, or is the adapter's (req NULL). */
struct nic_op {
    union {
        struct nic_post post;
        struct {
            struct emu_list link;   /* event's, peer's sendq, adapter's bulk, queue's posted or active, group's */
            struct fabemu_req *req; /* NULL when it serves a peer */
        };
    };
    uint8_t kind;           /* enum nic_op_kind */
    uint8_t state;          /* enum nic_op_state */
    uint8_t iovs;
    uint8_t iov_at;         /* sending: the piece that comes next */
    uint32_t node;          /* peer; receives: wanted, later actual */
    uint32_t id;            /* ours, 0: none */
    uint32_t remote;        /* the peer's */
    uint64_t seat;          /* begun: it is with the first process of the node whose seat is not lower */
    bool named;             /* and with no other: the application named that seat */
    struct fabemu_iov iov[NIC_IOVS];
    uint64_t iov_off;       /* sending: within that piece, bytes */
    uint64_t bytes;         /* to move */
    uint64_t moved;
    union {
        struct { /* messages */
            uint64_t tag;
            uint64_t data_or_ignore; /* sends: data; receives: ignore */
            struct fabemu_queue *queue; /* receives */
            uint16_t dst_queue, src_queue; /* sends */
            int32_t status;   /* receives: with which it will complete */
            uint32_t from;    /* receives: the sender's queue, or FABEMU_ANY_QUEUE */
            bool delivered;   /* sends: complete when it is in the receiver's memory */
        };
        struct { /* memory; broadcast puts, too */
            uint64_t key, offset;
            union {
                struct nic_region *region; /* serving */
                struct {                   /* atomics */
                    uint64_t operand, compare;
                    uint8_t atomic_op, atomic_type;
                };
                struct {                   /* broadcast puts */
                    struct fabemu_group *cast_group;
                    uint64_t told;  /* segments that all have, of the 64 from base on: by number modulo 64 */
                    uint32_t sent;  /* segments */
                    uint32_t base;  /* of them, all before this one are told */
                };
            };
        };
        struct { /* words, conditionals */
            struct fabemu_group *group;
            uint64_t value;
            uint32_t word;
            uint8_t test, until;
        };
    };
} __attribute__((may_alias));
static_assert(sizeof(struct nic_op) <= sizeof(((struct fabemu_req *)0)->opaque), "fits");

struct nic_slot {
    struct nic_op *op;
    uint32_t generation; /* 12 bits of the id */
    uint32_t next_free;
};

/* An early segment. */
struct nic_early {
    struct nic_early *next; /* when free */
    struct emu_seg seg;
};

/* Another node, as seen from here. Zero until touched. */
struct nic_peer {
    struct emu_list sendq;  /* requests that are not wholly on their way, in post order */
    struct emu_list ready;  /* in fab->ready: open, and sendq is not empty */
    struct emu_list hail;   /* in fab->hailing: wanted, not open */
    uint32_t node;
    uint64_t first;         /* whoever had a lower seat there is gone, or has said goodbye */
    uint64_t life;          /* the process there that we have met: its seat is first; 0: not yet */
    uint32_t tx_check, rx_check;
    bool open;              /* it knows us: requests may be sent */
    bool missed;            /* there was somebody, who is gone or silent, and nobody has greeted us since */
    bool unanswered;        /* the last hail had no answer: for fabemu_inject() to report, and for stderr: */
    bool named;             /* which says it once */
    uint32_t epoch;         /* of the pair: both checks are of this one */
    bool broke;             /* it came after a break that the process there may not know of */
    bool greeted;           /* a hello of ours is under way, and the network will say what comes of it */
    uint64_t unsaid;        /* what was said to this process may be lost, and nothing here ended with that: the
                               next operation does. 0: nothing to say */

    uint32_t tx_seq, tx_acked;     /* requests sent; dispatched by it: acked lags */
    uint32_t tx_eager, tx_eaten;   /* charged bytes sent; taken there: eaten lags */
    uint32_t rx_next, rx_told;     /* requests dispatched here; of them acknowledged */
    uint32_t rx_eaten, rx_eaten_told;
    struct nic_early **early;      /* by number modulo NIC_ORDER_WINDOW; NULL until needed */
    uint32_t earlies;

    bool filling;                  /* an eager message of several segments is under way */
    struct nic_op *fill_op;        /* into this receive, */
    struct fabemu_message *fill_msg; /* or this message, or nowhere */
    uint64_t fill_got, fill_bytes;
    uint32_t fill_id;              /* the sender's transfer that wants to be told; 0: none */

    uint64_t hail_ns, hail_gap_ns, hail_began_ns; /* next hail, distance */
    uint64_t debt_ns;              /* hellos that answered it: see nic_peer_may_answer() */

    /* Parting: leave.c. */
    uint16_t asked, answered;      /* we leave: number of our last question, and of its last answer; modulo 2^16 */
    bool parted;                   /* it has answered one: */
    uint32_t last;                 /* it has sent so many requests, and sends no more */
    uint32_t bye_tx, bye_rx;       /* checks of us and the last process that left: said again, its question */
    uint32_t bye_sent;             /* has this answer, */
    uint64_t bye_at_ns;            /* first given then */
    uint64_t bye_debt_ns;          /* answers to questions of such: see nic_peer_may_answer() */
};

/* An unexpected message. */
struct fabemu_message {
    struct emu_list link; /* queue's unexpected; unlisted once claimed or matched */
    struct fabemu_queue *queue;
    struct nic_op *op;    /* the receive that waits for the rest of it */
    uint32_t src_node;
    uint64_t src_seat;
    uint32_t check;       /* of the process that sent it, and the epoch */
    uint16_t src_queue;
    bool rts;             /* the bytes are at the sender, named by id */
    bool whole;           /* all of buf is here */
    bool broken;          /* the sender died before */
    uint8_t pool;         /* free list that buf's size belongs to */
    uint32_t id;
    uint64_t tag, data, bytes;
    uint8_t buf[];
};
#define NIC_MSG_POOLS 4

struct fabemu_queue {
    struct fabemu *fab;
    struct emu_list posted;     /* receives, oldest first */
    struct emu_list unexpected; /* messages, oldest first */
    struct emu_list active;     /* receives that matched and are under way */
    uint16_t id;
    bool open;                  /* false: messages came before fabemu_queue_open() */
};

struct nic_region {
    uint64_t key;
    uint8_t *base;
    uint64_t bytes;
    unsigned access;
    struct fabemu_event *event;   /* counts what is written here, or NULL */
    struct fabemu_group *group;   /* symmetric: whose; else NULL */
    struct nic_region *symmetric; /* the next one of fab->symmetric */
};

/* An answer that waits for room in the up ring. */
struct nic_ctl {
    struct emu_list link;
    uint32_t dst;
    uint8_t len;
    uint8_t payload[48];
};

struct nic_loop {
    uint32_t head, tail; /* free-running */
    struct emu_seg seg[NIC_LOOP_SLOTS];
};

struct nic_control;
struct nic_thread;

struct fabemu {
    pthread_mutex_t lock;
    struct emu_edge_nic edge;
    struct fabemu_info info;
    uint64_t life;        /* this process's seat: names it to its peers */
    uint32_t eager_bytes; /* longest eager message */
    uint64_t send_ps;     /* from a post to the wire */
    uint64_t hail_limit_ns; /* a peer that does not answer for so long is unreachable */
    uint64_t hail_scan_ns;  /* when the hails are looked at next */
    uint32_t endings;       /* of the edge's: looked at */
    uint32_t steps;         /* so far, modulo 2^32 */
    uint64_t watch_ns;      /* when to ask next whether those we wait for are there */
    uint64_t watch_gap_ns;
    bool leaving;         /* nothing new begins: leave.c */
    uint64_t bye_ns, bye_gap_ns; /* when the peers are asked again, and how long after that */
    uint64_t bye_began_ns;       /* when they were asked first */
    bool timed;
    uint64_t now_ps;      /* fabric time of this step; 0 unless timed */
    atomic_bool gone;     /* forked child, or no fabric any more */

    struct nic_peer *peers;            /* info.nodes of them */
    struct emu_list ready;             /* peers */
    struct emu_list hailing;           /* peers */
    struct emu_list bulk;              /* operations that stream */
    struct emu_list ctls;              /* answers */
    uint32_t ctl_count;                /* hellos and acknowledgments among them */
    struct nic_loop *loop;             /* to ourselves; NULL until needed */

    struct nic_slot *slots;            /* transfers by id; slot 0 is never used */
    uint32_t slot_count, slot_free, served;
    struct emu_list serving;           /* free operations for serving peers */

    struct fabemu_queue **queues;      /* by id */
    uint32_t parked;
    uint32_t queue_any;                /* the id that fabemu_queue_open_any() tries first */
    struct nic_region **regions;       /* by low bits of the key */
    uint32_t region_count;
    struct nic_region *symmetric;      /* those of groups */
    struct emu_list events;            /* open */
    struct emu_list fired;             /* of them, those on which something may be due */
    struct nic_early *early_free;
    struct emu_list ctl_free;
    struct emu_list msg_free[NIC_MSG_POOLS];

    struct fabemu_group *groups[NIC_GROUP_BUCKETS]; /* by id, chained */
    struct emu_list busy;              /* groups that have something to send */
    struct emu_list setting;           /* groups with words that their adapters do not have yet */
    struct emu_list again;             /* groups with conditionals that are to be asked again, */
    uint64_t again_ns;                 /* then */
    uint32_t early_groups;
    uint32_t broken_ids[NIC_BROKEN_GROUPS]; /* the last that were left after a member's death; a ring */
    uint32_t broken_count;             /* ever left so */

    uint32_t completions;              /* in this turn of the lock */
    struct nic_counts counts;

    /* Read without the lock. */
    alignas(EMU_LINE) _Atomic uint32_t polls;     /* by the application; relaxed: a hint */
    alignas(EMU_LINE) _Atomic uint32_t seen_tail; /* down ring: read up to here */
    _Atomic uint32_t sleepers;                    /* application threads in fabemu_wait()'s sleep */
    atomic_bool stalled;                          /* something waits for room in the up ring: do not sleep */

    struct nic_control *control;       /* NULL in tests */
    struct nic_thread *thread;         /* NULL when switched off */

    /* The registry's, under its lock. */
    struct fabemu *next;
    char *path;
    uint32_t refs;
    pid_t pid;
};

/* --- adapter.c ------------------------------------------------------------- */

/**
 * nic_open - an adapter on an edge; without control socket and thread.
 * @memfd: may be closed after. @bell: passes to the adapter on success; -1: none.
 * Errors: -EPROTO, -ENOMEM. Lock: none.
 */
int nic_open(struct fabemu **ret, int memfd, int bell, const struct fabemu_info *info);
void nic_close(struct fabemu *fab); /* Lock: none */

void nic_lock(struct fabemu *fab);
void nic_unlock(struct fabemu *fab); /* shows what was posted; wakes sleepers if something completed */

/** nic_step - one bounded pass: receive, send, show. Returns segments moved. */
uint32_t nic_step(struct fabemu *fab);
/** nic_poll - nic_step() unless another thread is at it. Lock: none. */
uint32_t nic_poll(struct fabemu *fab);
/** nic_poll_app - the same for an application's thread: counts the poll. Lock: none. */
uint32_t nic_poll_app(struct fabemu *fab);
/** nic_in_fabric - has the fabric taken all that was to be sent? */
bool nic_in_fabric(struct fabemu *fab);

/** nic_sleep - until the fabric brings something, or NIC_SLEEP_NS; only yields when there is something to do soon. Lock: none. */
void nic_sleep(struct fabemu *fab, uint32_t seen_tail);

/** nic_complete - the request is over; its memory is the caller's again. */
void nic_complete(struct fabemu *fab, struct fabemu_req *req, int status);

uint64_t nic_now_ns(void);
uint64_t nic_random(void);

/** nic_fail - set fabemu_error()'s line; returns @err. Lock: any. */
int nic_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int nic_fail_gone(void); /* -ENOTCONN */

/** nic_remedy - "; " and what the user can do where this process has reached a limit; or "". */
const char *nic_remedy(int err);

/* --- transmit.c -------------------------------------------------------------- */

/** nic_claim - a slot for a segment to @node with header filled but seq and len; NULL: no room. */
struct emu_seg *nic_claim(struct fabemu *fab, uint32_t node);
/** nic_claim_up - a slot of the up ring: every segment into the fabric takes it here. NULL: no room. */
struct emu_seg *nic_claim_up(struct fabemu *fab);
/** nic_bulk_room - is there room in the up ring beyond what is kept for small things? */
bool nic_bulk_room(struct fabemu *fab);
/** nic_answer - send a small answer, now or when there is room. False: dropped (NIC_HELLO, NIC_ACK; others only without memory). */
bool nic_answer(struct fabemu *fab, struct nic_peer *peer, void *payload, size_t bytes);
/** nic_head - begin of every answer and request; acknowledges. */
struct nic_wire_head nic_head(struct nic_peer *peer, enum nic_what what, uint16_t queue);
/** nic_request - queue a request and send what can be sent at once. */
void nic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
/** nic_request_now - send the first segment of a small message past the queue; false: it must wait. */
bool nic_request_now(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
/** nic_stream - let @op send DATA to the peer's transfer op->remote. */
void nic_stream(struct fabemu *fab, struct nic_op *op);
uint32_t nic_transmit(struct fabemu *fab);

/* --- op.c ---------------------------------------------------------------------- */

/** nic_op_id - give @op an id. Errors: -ENOBUFS. */
int nic_op_id(struct fabemu *fab, struct nic_op *op);
/** nic_op_find - the operation that a peer names; NULL (counted) unless it is alive and with @node. */
struct nic_op *nic_op_find(struct fabemu *fab, uint32_t id, uint32_t node);
/** nic_op_end - off every list and out of the table; completes the request, or frees a served one. */
void nic_op_end(struct fabemu *fab, struct nic_op *op, int status);
/** nic_op_serve - an operation on behalf of a peer, or NULL. */
struct nic_op *nic_op_serve(struct fabemu *fab, uint8_t kind, uint32_t node);
/** nic_op_fail_all - end every transfer with @node (or any), or every one served from @region. */
void nic_op_fail_all(struct fabemu *fab, uint32_t node, const struct nic_region *region,
                     int status);
/**
 * nic_op_new - the operation in the words of @req, not begun: what is not named here is 0.
 * @node: FABEMU_ANY_NODE: it is with no peer.
 */
struct nic_op *nic_op_new(struct fabemu_req *req, enum nic_op_kind kind, uint32_t node,
                          int (*begin)(struct fabemu *fab, struct nic_post *post));
/** nic_buffer_check, nic_iov_check - can these be an operation's? Errors: -EFAULT, -EINVAL, -EMSGSIZE. Lock: none. */
int nic_buffer_check(const void *base, size_t bytes);
int nic_iov_check(const struct fabemu_iov *iov, unsigned iovs);
void nic_op_iov(struct nic_op *op, const struct fabemu_iov *iov, unsigned iovs);
/** nic_op_write - copy into the pieces at @offset; what does not fit is cut off. */
void nic_op_write(const struct nic_op *op, uint64_t offset, const void *src, size_t bytes);
/** nic_op_read - copy the next @bytes out of the pieces. */
void nic_op_read(struct nic_op *op, void *dst, size_t bytes);

/** nic_gone - has this process no fabric, or is it a forked child? Then even the lock is not to be touched. */
static inline bool nic_gone(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->gone, memory_order_relaxed);
}

static inline struct nic_op *nic_op_of(struct fabemu_req *req)
{
    return (struct nic_op *)(void *)req->opaque;
}

/* --- peer.c ------------------------------------------------------------------- */

struct nic_peer *nic_peer(struct fabemu *fab, uint32_t node); /* @node < nodes */
/** nic_peer_passed - all with a lower seat than @first are gone from the node of @peer: what was with them ends. */
void nic_peer_passed(struct fabemu *fab, struct nic_peer *peer, uint64_t first, bool goodbye);
/** nic_peer_look - see who is at the node. */
static inline void nic_peer_look(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t first = emu_seat_first(emu_edge_nic_seat(&fab->edge, peer->node));

    if (first > peer->first)
        nic_peer_passed(fab, peer, first, false);
}
/** nic_peer_cancel - end what is queued for it and has not begun to go. */
void nic_peer_cancel(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_look_all - somebody is gone: look at all that we know. */
void nic_peer_look_all(struct fabemu *fab);
/** nic_peer_refuses - the rest of nic_peer_begin(), for who is not simply there. */
int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
/**
 * nic_peer_begin - @op begins: with which process is it? Sets op->seat.
 * Errors: -EHOSTUNREACH, with the one that it names, which is not there; or something was lost and nobody told.
 */
static inline int nic_peer_begin(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    uint64_t word = emu_edge_nic_seat(&fab->edge, peer->node);

    if (peer->unsaid || !emu_seat_attached(word) || emu_seat_first(word) != peer->first ||
        (op->named && op->seat != peer->first))
        return nic_peer_refuses(fab, peer, op);
    op->seat = peer->first;
    return 0;
}
/** nic_peer_named - an operation with @node ends with -EHOSTUNREACH: who is there and silent is named on stderr. */
void nic_peer_named(struct fabemu *fab, uint32_t node);
/** nic_node_check - is there a fabric, and such a node? Errors: -ENOTCONN, -EHOSTUNREACH. Lock: none. */
int nic_node_check(const struct fabemu *fab, uint32_t node);
/** nic_peer_hail - ask the process there to meet us. */
void nic_peer_hail(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_rehail - repeat hails that were not answered; who does not answer for long is lost. */
void nic_peer_rehail(struct fabemu *fab);
/** nic_peer_watch - now and then, hail all that something here waits for. */
void nic_peer_watch(struct fabemu *fab);
/** nic_peer_window - may one more request go to @peer before it acknowledges? */
static inline bool nic_peer_window(const struct nic_peer *peer)
{
    return peer->tx_seq - peer->tx_acked < NIC_ORDER_WINDOW;
}
void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello);
/** nic_peer_stranger - a segment of a process that does not know us, or that we do not know. */
void nic_peer_stranger(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_opened - the process there knows us. */
void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer);
void nic_peer_ack(struct nic_peer *peer, const struct nic_wire_head *head);
/** nic_peer_is - is it still the process and the epoch that this check was of? */
static inline bool nic_peer_is(const struct nic_peer *peer, uint32_t check)
{
    return peer->life && peer->rx_check == check;
}
/** nic_peer_eaten - the application took a charged message of @bytes, which came under @check. */
void nic_peer_eaten(struct fabemu *fab, struct nic_peer *peer, uint32_t check, uint64_t bytes);
/** nic_peer_tell - acknowledge by itself when much is unacknowledged. */
void nic_peer_tell(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_given_up - the network gave @seg up, a segment of ours to @peer. */
void nic_peer_given_up(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_peer_probe - can the node be reached? With acknowledgments the network tells if not. */
void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_may_answer - may one more answer go that nobody here wants? One in 50 ms may, and @ahead more at once.
 * @debt_ns: until when those that went would have taken, at one in 50 ms.
 */
bool nic_peer_may_answer(uint64_t *debt_ns, uint32_t ahead);
/** nic_peer_told - the network has brought a hello of ours to the node of @peer. */
void nic_peer_told(struct nic_peer *peer);
void nic_peer_release(struct fabemu *fab, struct nic_peer *peer);

/* --- leave.c ------------------------------------------------------------------- */

/**
 * nic_leave - part from all that were met: what has completed is with them when this returns.
 * @limit_ns: at most so long. Returns with how many that is not so, or from how many what they sent has not
 * come; each has its line on stderr. Lock: none.
 */
uint32_t nic_leave(struct fabemu *fab, uint64_t limit_ns);
/** nic_leave_begin - from now on nothing new begins. */
void nic_leave_begin(struct fabemu *fab);
/** nic_leave_step - ask who has not answered; is all said and done? */
bool nic_leave_step(struct fabemu *fab);
/** nic_leave_receive - a NIC_BYE came. @known: under the check of the pair. */
void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known);

/* --- receive.c ----------------------------------------------------------------- */

uint32_t nic_receive(struct fabemu *fab);
/** nic_dispatch - handle a request whose turn it is. */
void nic_dispatch(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_receive_resume - a queue was opened: requests that waited for that go on. */
void nic_receive_resume(struct fabemu *fab);

/* --- queue.c, message.c ----------------------------------------------------------- */

void nic_message_eager(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_message_take - let the receive @op have @msg, which ends now or when all of it is here. */
void nic_message_take(struct fabemu *fab, struct fabemu_message *msg, struct nic_op *op);
/** nic_message_break - the sender of what is being filled has died. */
void nic_message_break(struct fabemu *fab, struct nic_peer *peer, int status);
void nic_message_drop(struct fabemu *fab, struct fabemu_message *msg);
void nic_message_release_pools(struct fabemu *fab);
/** nic_queue_at - the queue @id, made (not open) if need be; NULL: no memory. */
struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint16_t id);
/** nic_queue_match - the oldest posted receive that wants it, taken off the list; or NULL. */
struct nic_op *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag);
/** nic_receive_abandon - cancel a receive; what of its message is on its way goes nowhere. */
void nic_receive_abandon(struct fabemu *fab, struct nic_op *op);
/** nic_queue_passed - those of @node with a lower seat than @first are gone: fail receives that are with them, drop their messages that are not here. */
void nic_queue_passed(struct fabemu *fab, uint32_t node, uint64_t first);
/** nic_queue_probe - probe the nodes that receives are posted from. */
void nic_queue_probe(struct fabemu *fab);
void nic_queue_release(struct fabemu *fab);

/* --- memory.c -------------------------------------------------------------------- */

void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_get(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_atomic(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_memory_result - an atomic of ours is done. */
void nic_memory_result(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_region_find - the region of that key, or NULL. */
struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key);
/** nic_region_holds - do @bytes at @offset lie in it? Pure. */
static inline bool nic_region_holds(const struct nic_region *region, uint64_t offset, uint64_t bytes)
{
    return offset <= region->bytes && bytes <= region->bytes - offset;
}
/** nic_transfer_check - can one operation move so much? Errors: -EMSGSIZE. Lock: none. */
int nic_transfer_check(uint64_t bytes);
/** nic_region_check - can these be registered? Errors: -EINVAL, -EFAULT. Lock: none. */
int nic_region_check(const void *addr, size_t bytes, unsigned access);
/** nic_region_add - a copy of @init, which gets a key here unless it is a group's. Errors: -ENOMEM, -ENOSPC. */
int nic_region_add(struct fabemu *fab, const struct nic_region *init, struct nic_region **ret);
/** nic_region_drop - no more. Transfers there end. */
void nic_region_drop(struct fabemu *fab, struct nic_region *region);
/** nic_region_written - something of a peer's was written there as a whole. */
void nic_region_written(struct fabemu *fab, struct nic_region *region);
void nic_fin(struct fabemu *fab, struct nic_peer *peer, uint32_t id, int status);
void nic_cts(struct fabemu *fab, struct nic_peer *peer, uint32_t id, uint32_t to, uint64_t bytes);

/* --- atomic.c: no lock -------------------------------------------------------------- */

/** nic_atomic - apply @op to the word at @at, aligned; returns its value before. */
uint64_t nic_atomic(unsigned op, unsigned type, void *at, uint64_t operand, uint64_t compare);

/* --- event.c --------------------------------------------------------------------- */

/**
 * nic_post - the request is pending: begin it, or arm it if its event has not counted so far.
 * Returns what post->begin() returns; that error is the status as well. Lock: none.
 */
int nic_post(struct fabemu *fab, struct nic_post *post);
/** nic_event_check - may a request of @fab name these events? Errors: -EINVAL. Lock: none. */
int nic_event_check(const struct fabemu *fab, const struct fabemu_req *req);
/** nic_event_counts - @event has counted @n more, or has failed with @status. */
void nic_event_counts(struct fabemu *fab, struct fabemu_event *event, uint64_t n, int status);
/** nic_event_run - start what is due. */
void nic_event_run(struct fabemu *fab);
void nic_event_release(struct fabemu *fab);

/* --- group.c --------------------------------------------------------------------- */

void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg);
/** nic_group_given_up - the network gave @seg up, a segment of ours to a group. */
void nic_group_given_up(struct fabemu *fab, const struct emu_seg *seg);
/** nic_word_flush - what was set goes before all else. False: no room for all of it. */
bool nic_word_flush(struct fabemu *fab);
/** nic_word_again - conditionals that the adapter had no place for, when it is time. Returns segments. */
uint32_t nic_word_again(struct fabemu *fab);
/** nic_word_take_back - @op is about to end: tell the adapter, if it waits there. False: no room now. */
bool nic_word_take_back(const struct nic_op *op);
/** nic_word_answer - the network's answer to a conditional. */
void nic_word_answer(struct fabemu *fab, const struct emu_seg *seg);
/** nic_cast_told - all members have a segment of ours. */
void nic_cast_told(struct fabemu *fab, const struct emu_seg *seg);
/** nic_cast_abandon - @op is about to end; answers to its segments are stale from now on. */
void nic_cast_abandon(struct nic_op *op);
/** nic_group_watch - now and then, tell the members again of breaks that not all could be told of. */
void nic_group_watch(struct fabemu *fab);
uint32_t nic_group_transmit(struct fabemu *fab);
/** nic_group_broken - a member of group @id died; or the group's segments say that it is broken. */
void nic_group_broken(struct fabemu *fab, uint32_t id);
/** nic_group_over - the fabric says that group @id is broken: who has not joined it cannot any more. */
void nic_group_over(struct fabemu *fab, uint32_t id);
void nic_group_release(struct fabemu *fab);

/* --- control.c, thread.c: no lock ---------------------------------------------------- */

struct json_object;
int nic_control_attach(struct nic_control **ret, const char *path, int want,
                       struct fabemu_info *info, int *memfd, int *bell);
/** nic_control_watch - from here on a thread reads the socket and tells @fab of events. */
int nic_control_watch(struct nic_control *control, struct fabemu *fab);
/** nic_control_ask - send a request (put here), wait for the reply. Errors: -errno of the fabric's refusal. */
int nic_control_ask(struct nic_control *control, struct json_object *request,
                    struct json_object **reply);
void nic_control_detach(struct nic_control *control, uint32_t unheard);
void nic_control_exits(struct nic_control *control); /* the process ends without detaching: say so */
void nic_control_forked(struct nic_control *control); /* in a forked child: let go of the socket */

int nic_thread_start(struct nic_thread **ret, struct fabemu *fab);
void nic_thread_stop(struct nic_thread *thread);
/** nic_spawn - a thread that takes none of the application's signals. */
int nic_spawn(pthread_t *thread, void *(*body)(void *), void *argument);

#endif
