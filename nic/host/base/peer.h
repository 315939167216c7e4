/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.h - another node, as seen from this process. Lock: held, except for nic_node_check(). */
#ifndef NIC_PEER_H
#define NIC_PEER_H

#include "nic/host/base/adapter.h"
#include "nic/host/base/wire.h"

#define NIC_ORDER_WINDOW 1024u        /* requests in flight to one peer; a power of two */
#define NIC_EAGER_WINDOW (256u << 10) /* per peer: bytes of eager messages longer than a segment */

struct nic_recv;

/* A segment that arrived before its predecessors. */
struct nic_early {
    struct nic_early *next; /* when free */
    struct emu_seg seg;
};

/* Where the rest of an eager message goes. */
struct nic_fill {
    struct nic_recv *recv; /* the receive that it has matched; NULL: none */
    /* or else the buffer that keeps it; both NULL: the rest is dropped */
    struct fabemu_message *msg;
    uint64_t got, bytes; /* so far; of the whole message */
    uint32_t id;         /* the sender's transfer to confirm with a FIN; 0: none */
};

/* Another node, as seen from this process. All 0 until first used. */
struct nic_peer {
    struct emu_list sendq;   /* requests that have not been sent completely, in post order */
    struct emu_list ready;   /* in fab->ready: open, and sendq is not empty */
    struct emu_list connect; /* in fab->connecting: wanted, not open */
    uint32_t node;
    uint64_t first; /* lower incarnations of the node are gone or have disconnected */
    /* the incarnation with which we have exchanged hellos, equal to first; 0: none */
    uint64_t incarnation;
    uint32_t tx_check, rx_check;
    bool open; /* its process knows us: requests may be sent */
    /* a process there is gone or silent, and none has sent us a hello since */
    bool vacated;
    bool unanswered; /* the last hellos were not answered: fabemu_inject() and stderr report it */
    bool reported;   /* stderr has reported it */
    _Atomic uint64_t breaks; /* fabemu_breaks() */
    _Atomic uint64_t drops;  /* fabemu_drops() */
    uint8_t broke;           /* enum nic_broke: why operations with it were last broken off */
    uint64_t broke_ns;       /* when; 0: never */
    uint64_t broke_away_ns;  /* if it was silent: its hello_away_ns at that time */
    char *lost;              /* the last drop that the fabric reported for it, one line; or NULL */
    uint64_t drop_incarnation; /* that process's incarnation; 0: unknown */
    /* since when a hello of a later epoch waits for the fabric's report of a drop, */
    uint64_t awaits_ns;
    uint32_t awaits_epoch; /* and that epoch */
    uint32_t epoch;        /* of the pair; both checks include it */
    bool must_notify;      /* the epoch was raised by a break that the peer may not know of */
    /* a hello of ours is in flight, and the network will report its delivery */
    bool hello_pending;
    /* data to this incarnation may be lost and no operation has failed for it: the next one does.
       0: none */
    uint64_t unreported_incarnation;

    uint32_t tx_seq, tx_acked;      /* requests sent; dispatched by the peer (lags) */
    uint32_t tx_eager, tx_consumed; /* charged bytes sent; taken by the peer (lags) */
    uint32_t rx_next, rx_acked;     /* requests dispatched here; acknowledged of these */
    uint32_t rx_consumed, rx_consumed_acked;
    struct nic_early **early; /* by number modulo NIC_ORDER_WINDOW; NULL until needed */
    uint32_t earlies;

    bool filling; /* an eager message of several segments is arriving */
    struct nic_fill fill;

    uint64_t hello_ns;       /* when the next hello is due */
    uint64_t hello_gap_ns;   /* interval between the last two */
    uint64_t hello_began_ns; /* since when the peer could have answered */
    uint64_t hello_away_ns;  /* time without a core, which is not counted as silence */
    uint32_t hello_at;       /* position of the first hello in the up ring */
    uint32_t hello_taken;    /* how far the fabric had read the up ring at the last check */
    uint64_t debt_ns;        /* rate limit for hellos that answer: nic_peer_may_answer() */

    /* Disconnect: disconnect.c, leave.c. Counts of queries and answers are modulo 2^16. */
    uint16_t queries_sent;    /* we leave: queries sent */
    uint16_t came;            /* how many of these had arrived, as the last answer says, */
    uint16_t given;           /* and how many answers it had sent */
    uint16_t answers;         /* answers that have arrived here */
    bool answered_disconnect; /* one has arrived */
    bool done_sent;           /* it knows that we send no more queries */
    uint32_t last;            /* total of requests that it has sent, as its answer says */
    /* the checks that we had with the last process that disconnected */
    uint32_t disconnect_tx;
    uint32_t disconnect_rx;       /* and whose query may arrive again */
    uint32_t disconnect_sent;     /* total of our requests, as our answer to it said */
    uint64_t disconnect_at_ns;    /* when we first sent that answer */
    uint64_t queries_incarnation; /* incarnation that last sent a query or an answer: */
    uint16_t queries_received;    /* its queries that have arrived, */
    uint16_t replies;             /* answers sent to these, */
    bool done_announced;          /* it has announced a DONE, */
    bool done_received;           /* which has arrived, */
    bool queries_ended;           /* it has said that it sends no more queries, */
    uint16_t queries_total;       /* and how many it has sent */
    /* rate limit for answers to repeated queries: nic_peer_may_answer() */
    uint64_t disconnect_debt_ns;
};

/* Why the streams of a pair broke. */
enum nic_broke {
    NIC_BROKE_NOT,
    NIC_BROKE_SILENT,      /* it did not answer within the bound */
    NIC_BROKE_GIVEN_UP,    /* the network dropped a segment to it for good */
    NIC_BROKE_DROP,        /* the fabric reports an unrecoverable drop: see `lost` */
    NIC_BROKE_PARTITIONED, /* the fabric reports that no route leads to its node */
    /* the peer started a new epoch: one of its segments was dropped for good */
    NIC_BROKE_NOTIFIED,
};

struct nic_peer *nic_peer(struct fabemu *fab, uint32_t node); /* @node < nodes */
/** nic_node_check - is there such a node? Errors: -ENOTCONN, -EHOSTUNREACH. Lock: none. */
int nic_node_check(const struct fabemu *fab, uint32_t node);
/** nic_peer_is_there - is a process attached that has not disconnected from us? */
bool nic_peer_is_there(const struct fabemu *fab, const struct nic_peer *peer);
/** nic_peer_count_break - operations with @node were broken off. */
void nic_peer_count_break(struct fabemu *fab, uint32_t node);
/** nic_peer_count_drop - an unrecoverable drop hit a segment from or to @node. */
void nic_peer_count_drop(struct fabemu *fab, uint32_t node);
/**
 * nic_incarnation_is_last - has incarnation @incarnation of @node no successor? True for 0
 * (unknown).
 */
bool nic_incarnation_is_last(const struct fabemu *fab, uint32_t node, uint64_t incarnation);
/** nic_peer_is_new - has no process ever been attached there? */
bool nic_peer_is_new(const struct fabemu *fab, const struct nic_peer *peer);
/** nic_peer_why - print one line about why @node does not answer now. @node < nodes. Lock: none. */
void nic_peer_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes);
/**
 * nic_peer_report - an operation with @node ends with -EHOSTUNREACH: report on stderr why it cannot
 * be reached, once, if its process is attached.
 */
void nic_peer_report(struct fabemu *fab, uint32_t node);
/** nic_peer_ack - take over the acknowledgments in a segment's head. */
void nic_peer_ack(struct nic_peer *peer, const struct nic_wire_head *head);
/**
 * nic_peer_may_answer - limit the rate of unsolicited or repeated queries that we answer: one per
 * 50 ms, with bursts of @ahead.
 * @debt_ns: when the answers sent so far are paid for, at one per 50 ms.
 */
bool nic_peer_may_answer(uint64_t *debt_ns, uint32_t ahead);

/**
 * nic_reports_on - does the network report the delivery of a segment to @node? Segments to this
 * process itself bypass it.
 */
static inline bool nic_reports_on(const struct fabemu *fab, uint32_t node)
{
    return fab->transport.reports_delivery && node != fab->info.node;
}

/**
 * nic_peer_sent - count one more message, or one-sided access that moves bytes, to @peer, for the
 * report's matrix.
 */
static inline void nic_peer_sent(struct fabemu *fab, const struct nic_peer *peer, uint64_t bytes)
{
    emu_hostif_sent(fab->hostif.shared, fab->info.nodes, peer->node, bytes);
}

/** nic_peer_window - may one more request go to @peer before it acknowledges others? */
static inline bool nic_peer_window(const struct nic_peer *peer)
{
    return peer->tx_seq - peer->tx_acked < NIC_ORDER_WINDOW;
}

/** nic_peer_check_is_current - does @check belong to the pair's current processes and epoch? */
static inline bool nic_peer_check_is_current(const struct nic_peer *peer, uint32_t check)
{
    return peer->incarnation && peer->rx_check == check;
}

#endif
