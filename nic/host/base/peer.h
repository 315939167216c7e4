/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.h - a peer: another node and the process there, as seen from this process.
 *
 * Two processes handshake by *hellos* (peer/handshake.c). A message is *charged* if it is eager and
 * longer than one segment: its bytes count against a window until the application has received
 * them. The pair of processes has an *epoch*, which changes when the network drops one of its
 * segments for good. Lock: held, except for nic_node_check().
 */
#ifndef NIC_PEER_H
#define NIC_PEER_H

#include "nic/host/base/adapter.h"
#include "nic/host/base/wire.h"

/* requests that may be sent to a peer before it acknowledges them; a power of two */
#define NIC_ORDER_WINDOW 1024u
/* bytes of charged messages that may be sent to a peer before it acknowledges them */
#define NIC_EAGER_WINDOW (256u << 10)

struct nic_recv;
struct nic_serve;

/* A request that arrived before requests with lower numbers. */
struct nic_early {
    struct nic_early *next; /* next entry in fab->early_free */
    struct emu_seg seg;
};

/* The destination of the rest of an eager message that is arriving. */
struct nic_fill {
    struct nic_recv *recv; /* the receive that the message has matched, or NULL */
    /* if recv is NULL: the unexpected message that keeps the data; if that is NULL, too, the rest
       is dropped */
    struct fabemu_message *msg;
    uint64_t got, bytes; /* bytes that have arrived; bytes of the whole message */
    /* the sender's id of the transfer, for the FIN that confirms it; 0: the sender wants no FIN */
    uint32_t id;
};

/* The rest of a batch that is arriving. */
struct nic_batch {
    struct nic_wire_mem mem; /* of the first segment */
    uint64_t left;           /* bytes of the list that have not arrived; 0: no batch is arriving */
    uint64_t data;           /* part of `left`: data and padding of the current record */
    struct fabemu_record record; /* the current record; executed data are subtracted */
    struct fabemu_stride stride; /* of the current record */
    uint64_t in_block;           /* bytes of the current block that were executed */
    bool awaits_stride;          /* the record's struct fabemu_stride follows */
    struct nic_serve *serve;     /* NULL, or the operation that will send the result */
    uint64_t fetched;            /* bytes of the result so far */
    int status;                  /* the first error; the rest is then skipped */
};

/* A message that was sent, and whose delivery no operation of the sender awaits. */
struct nic_sender {
    uint32_t seq;   /* number of its first segment */
    uint32_t queue; /* 1 + the sender's queue; 0: none */
};

/* A peer. All fields are 0 until the peer is first used. */
struct nic_peer {
    struct emu_list sendq; /* requests with segments that are not sent yet, in post order */
    struct emu_list ready; /* entry in fab->ready, if the peer is open and sendq is not empty */
    /* entry in fab->connecting, while we wait for an answer to our hellos */
    struct emu_list connect;
    uint32_t node;
    /* lowest incarnation that may be attached: all lower ones have ended or disconnected */
    uint64_t first;
    /* the incarnation with which we have exchanged hellos, equal to first; 0: none */
    uint64_t incarnation;
    /* nic_check() of segments to the peer and from it: a hash of both incarnations and the epoch */
    uint32_t tx_check, rx_check;
    bool open; /* we have the process's answer to our hello, so requests may be sent */
    /* a process of the node has ended or was silent, and no process there has sent us a hello
       since */
    bool vacated;
    bool unanswered; /* our last hellos were not answered; fabemu_inject() and stderr report that */
    bool reported;   /* stderr has reported that the peer cannot be reached */
    _Atomic uint64_t breaks; /* result of fabemu_breaks() */
    _Atomic uint64_t drops;  /* result of fabemu_drops() */
    /* enum nic_broke: why operations with the peer last ended with an error */
    uint8_t broke;
    uint64_t broke_ns; /* when operations with the peer last ended with an error; 0: never */
    /* hello_away_ns at that time, if the reason was a silent peer */
    uint64_t broke_away_ns;
    /* a line about the last unrecoverable drop that the fabric reported for this peer, or NULL */
    char *lost;
    uint64_t drop_incarnation; /* incarnation of the peer at that drop; 0: unknown */
    /* when a hello of a later epoch first arrived; 0: never. We ignore it for at most 50 ms, until
       the fabric has reported the drop that raised the epoch */
    uint64_t awaits_ns;
    uint32_t awaits_epoch; /* the epoch of that hello */
    uint32_t epoch;        /* epoch of the pair; a part of tx_check and rx_check */
    bool must_notify;      /* we have raised the epoch, and the peer may not have the new one */
    /* a hello of ours is in flight, and the network will report whether it was delivered */
    bool hello_pending;
    /* if not 0: data sent to this incarnation may be lost, and no failed operation has reported
       this. Therefore the next operation fails */
    uint64_t unreported_incarnation;

    /* requests sent; requests that the peer has acknowledged */
    uint32_t tx_seq, tx_acked;
    /* messages that get no FIN, so that their loss can be reported; by request number modulo
       NIC_ORDER_WINDOW; NULL until needed */
    struct nic_sender *senders;
    /* bytes of charged messages sent; bytes that the peer has acknowledged */
    uint32_t tx_eager, tx_consumed;
    /* requests dispatched here; requests that we have acknowledged */
    uint32_t rx_next, rx_acked;
    /* 0, or the error with which a segment of the peer's present request for memory was refused */
    int refusal;
    /* charged bytes that the application has received; charged bytes that we have acknowledged */
    uint32_t rx_consumed, rx_consumed_acked;
    /* requests that arrived too early, by number modulo NIC_ORDER_WINDOW; NULL until needed */
    struct nic_early **early;
    uint32_t earlies;

    uint32_t parked; /* messages from the node that are kept in queues that are not open */

    bool filling; /* an eager message of several segments is arriving */
    struct nic_fill fill;
    struct nic_batch batch;

    uint64_t hello_ns;       /* when to repeat our hello */
    uint64_t hello_gap_ns;   /* interval between our last two hellos */
    uint64_t hello_began_ns; /* from this time on, the peer could have answered our hello */
    /* time without a core since the first hello, which does not count as silence */
    uint64_t hello_away_ns;
    uint32_t hello_at;    /* position of our first hello in the up ring */
    uint32_t hello_taken; /* the fabric had read the up ring up to here at the last check */
    uint64_t debt_ns;     /* rate limit for answers to hellos: nic_peer_may_answer() */

    /* Disconnecting: peer/disconnect.c, api/leave.c. A query is a NIC_DISCONNECT_ASK. Counts of
       queries and answers are modulo 2^16. */
    uint16_t queries_sent; /* our queries that we have sent to the peer */
    /* our queries that had arrived when the peer sent its last answer */
    uint16_t queries_confirmed;
    /* answers to our queries that the peer had sent when it sent its last answer */
    uint16_t answers_announced;
    uint16_t answers_received; /* answers to our queries that have arrived here */
    bool answered_disconnect;  /* at least one answer to a query of ours has arrived */
    bool done_sent;            /* we have notified the peer that we send no more queries */
    /* number of requests that the peer has sent in total, from its answer */
    uint32_t requests_total;
    /* tx_check that we had with the process that disconnected last, which may repeat its query */
    uint32_t disconnect_tx;
    uint32_t disconnect_rx; /* rx_check that we had with that process */
    /* number of requests that we had sent to that process, from our answer */
    uint32_t disconnect_sent;
    /* when we sent our first answer to that process, by nic_disconnect_now_ns() */
    uint64_t disconnect_at_ns;
    /* the incarnation that last sent a query or an answer; the next six fields concern it */
    uint64_t queries_incarnation;
    uint16_t queries_received; /* its queries that have arrived here */
    uint16_t answers_sent;     /* our answers to its queries */
    bool done_announced;       /* it has announced that it sent a NIC_DISCONNECT_DONE */
    bool done_received;        /* its NIC_DISCONNECT_DONE has arrived */
    bool queries_ended;        /* it sends no more queries */
    uint16_t queries_total;    /* queries that it has sent in total, once queries_ended */
    /* rate limit for answers to repeated queries: nic_peer_may_answer() */
    uint64_t disconnect_debt_ns;
};

enum nic_broke {
    NIC_BROKE_NOT,
    NIC_BROKE_SILENT,      /* the peer did not answer within the bound */
    NIC_BROKE_GIVEN_UP,    /* the network dropped a segment to the peer for good */
    NIC_BROKE_DROP,        /* the fabric reported an unrecoverable drop, see `lost` */
    NIC_BROKE_PARTITIONED, /* the fabric reported that no route leads to the node */
    /* the peer has raised the epoch, because the network dropped one of its segments for good */
    NIC_BROKE_NOTIFIED,
};

/** nic_peer - return the peer at @node, which must exist. */
struct nic_peer *nic_peer(struct fabemu *fab, uint32_t node);
/** nic_node_check - check that @node exists. Errors: -ENOTCONN, -EHOSTUNREACH. Lock: none. */
int nic_node_check(const struct fabemu *fab, uint32_t node);
/** nic_peer_is_there - return whether the incarnation peer->first is attached. */
bool nic_peer_is_there(const struct fabemu *fab, const struct nic_peer *peer);
/** nic_peer_count_break - increment fabemu_breaks(), because operations with @node have failed. */
void nic_peer_count_break(struct fabemu *fab, uint32_t node);
/**
 * nic_peer_count_drop - increment fabemu_drops(), because a segment from or to @node was dropped.
 */
void nic_peer_count_drop(struct fabemu *fab, uint32_t node);
/**
 * nic_incarnation_is_last - return whether @incarnation is the last process that has attached to
 * @node. Returns true for 0 (unknown).
 */
bool nic_incarnation_is_last(const struct fabemu *fab, uint32_t node, uint64_t incarnation);
/** nic_peer_is_new - return whether no process has ever been attached to the node. */
bool nic_peer_is_new(const struct fabemu *fab, const struct nic_peer *peer);
/**
 * nic_peer_why - write one line into @text that says why @node, which must exist, does not answer.
 * Lock: none.
 */
void nic_peer_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes);
/**
 * nic_peer_report - print on stderr why @node cannot be reached, because an operation with it ends
 * with -EHOSTUNREACH. Prints it only once, and only if the node's process is attached.
 */
void nic_peer_report(struct fabemu *fab, uint32_t node);
/** nic_peer_ack - read the acknowledgments in the head of a segment that has arrived. */
void nic_peer_ack(struct nic_peer *peer, const struct nic_wire_head *head);
/**
 * nic_peer_may_answer - return whether we may send an answer now. The limit is an average of one
 * per 50 ms, with bursts of up to @ahead answers. @debt_ns: the time at which all answers sent so
 * far are paid for; each answer costs 50 ms.
 */
bool nic_peer_may_answer(const struct fabemu *fab, uint64_t *debt_ns, uint32_t ahead);

/**
 * nic_reports_on - return whether the network reports the delivery of segments to @node. Segments
 * from this process to itself bypass the network.
 */
static inline bool nic_reports_on(const struct fabemu *fab, uint32_t node)
{
    return fab->transport.reports_delivery && node != fab->info.node;
}

/**
 * nic_peer_sent - count one more message, or put, get or atomic, to @peer, for the matrix in the
 * fabric's report.
 */
static inline void nic_peer_sent(struct fabemu *fab, const struct nic_peer *peer, uint64_t bytes)
{
    emu_hostif_sent(fab->hostif.shared, fab->info.nodes, peer->node, bytes);
}

/** nic_peer_window - return whether the window of unacknowledged requests has space. */
static inline bool nic_peer_window(const struct nic_peer *peer)
{
    return peer->tx_seq - peer->tx_acked < NIC_ORDER_WINDOW;
}

/** nic_peer_check_is_current - return whether @check belongs to the current processes and epoch. */
static inline bool nic_peer_check_is_current(const struct nic_peer *peer, uint32_t check)
{
    return peer->incarnation && peer->rx_check == check;
}

#endif
