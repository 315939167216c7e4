/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.h - another node, as seen from here: the table of peers, and what can be said of one by
 * looking.
 *
 * Owner: the table (`peers`). Of a peer's fields, those of the streams are moved by send/ and
 * receive.c, the rest by hello.c, gone.c, meet.c; each group of fields says whose. Lock: held, but
 * for nic_node_check(). Callers: all that deal with another node.
 */
#ifndef NIC_PEER_H
#define NIC_PEER_H

#include "nic/host/base/adapter.h"
#include "nic/host/base/wire.h"

#define NIC_ORDER_WINDOW 1024u        /* requests under way to one peer; a power of two */
#define NIC_EAGER_WINDOW (256u << 10) /* bytes of eager messages of several segments, a peer */

struct nic_recv;

/* An early segment. */
struct nic_early {
    struct nic_early *next; /* when free */
    struct emu_seg seg;
};

/* Where the rest of an eager message goes. */
struct nic_fill {
    struct nic_recv *recv;      /* the receive that it has matched; NULL: none, */
    struct fabemu_message *msg; /* and this keeps it; NULL, too: it is dropped */
    uint64_t got, bytes;        /* so far; of the whole message */
    uint32_t id;                /* the sender's transfer that wants to be told; 0: none */
};

/* Another node, as seen from here. Zero until touched. */
struct nic_peer {
    struct emu_list sendq;   /* requests that are not wholly on their way, in post order */
    struct emu_list ready;   /* in fab->ready: open, and sendq is not empty */
    struct emu_list connect; /* in fab->connecting: wanted, not open */
    uint32_t node;
    uint64_t first; /* whoever had a lower seat there is gone, or has said goodbye */
    uint64_t life;  /* the process there that we have met: its seat is first; 0: not yet */
    uint32_t tx_check, rx_check;
    bool open; /* it knows us: requests may be sent */
    /* A process was there that is gone or silent, and none has said hello to us since. */
    bool vacated;
    bool unanswered; /* nobody answered the last hellos: fabemu_inject() and stderr report it */
    bool reported;   /* stderr has: it does so once */
    _Atomic uint64_t breaks; /* fabemu_breaks() */
    _Atomic uint64_t losses; /* fabemu_losses() */
    uint8_t broke;           /* enum nic_broke: why what was under way with it ended last */
    uint64_t broke_ns;       /* when that was; 0: never */
    uint64_t broke_away_ns;  /* if it was silent: its hello_away_ns at that time */
    char *lost;              /* what the fabric lost of it last, as it says; NULL: nothing */
    uint64_t lost_seat;      /* of the process there whose that was; 0: not known */
    uint64_t awaits_ns;      /* since when a hello of a later epoch waits for the fabric's news, */
    uint32_t awaits_epoch;   /* and of which */
    uint32_t epoch;          /* of the pair: both checks are of this one */
    bool must_notify;        /* it came after a break that the process there may not know of */
    /* A hello of ours is under way, and the network will say what comes of it. */
    bool hello_pending;
    uint64_t unreported_seat; /* something sent to this process may be lost and no operation has
                                 ended with an error for it: the next one does. 0: nothing to say */

    uint32_t tx_seq, tx_acked;      /* requests sent; dispatched by it: acked lags */
    uint32_t tx_eager, tx_consumed; /* charged bytes sent; taken there: consumed lags */
    uint32_t rx_next, rx_acked;     /* requests dispatched here; of them acknowledged */
    uint32_t rx_consumed, rx_consumed_acked;
    struct nic_early **early; /* by number modulo NIC_ORDER_WINDOW; NULL until needed */
    uint32_t earlies;

    bool filling; /* an eager message of several segments is under way, */
    struct nic_fill fill;

    uint64_t hello_ns;       /* when the next hello is due, */
    uint64_t hello_gap_ns;   /* how long after the last one, */
    uint64_t hello_began_ns; /* and since when it could have been answered */
    uint64_t hello_away_ns;  /* excluded time: processes had no core */
    uint32_t hello_at;       /* the first one's place among all that this process sends */
    uint32_t hello_taken;    /* of these the fabric had taken so many, at the last look */
    uint64_t debt_ns;        /* hellos that answered it: see nic_peer_may_answer() */

    /* Parting: bye.c, leave.c. */
    /* Numbers of questions and answers are modulo 2^16. */
    uint16_t asked;     /* we leave: our questions to it */
    uint16_t came;      /* of these the last of its answers says that so many had come, */
    uint16_t given;     /* and that it has given so many answers; */
    uint16_t answers;   /* so many of them have come */
    bool answered_bye;  /* it has answered one */
    bool done_said;     /* and knows that we ask no more */
    uint32_t last;      /* requests that it has sent in all, as its answer says */
    uint32_t bye_tx;    /* the checks that we had with the last process that left from there, */
    uint32_t bye_rx;    /* whose question may come again */
    uint32_t bye_sent;  /* requests of ours, as our answer to it said */
    uint64_t bye_at_ns; /* when that answer went first */
    uint64_t asks_life; /* the process there that has asked, or answered, last: its seat; */
    uint16_t asks;      /* so many questions of its have come, */
    uint16_t replies;   /* and were answered; */
    bool done_told, done_came; /* it has said that it would say so, and has said so: */
    bool asks_told;            /* it has said that it asks no more, */
    uint16_t asks_all;         /* and how many questions there are in all */
    uint64_t bye_debt_ns;      /* answers to questions that come again: nic_peer_may_answer() */
};

/* What broke a pair off. */
enum nic_broke {
    NIC_BROKE_NOT,
    NIC_BROKE_SILENT,   /* it did not answer for too long */
    NIC_BROKE_GIVEN_UP, /* the network gave up a segment to it */
    NIC_BROKE_LOST,     /* the fabric says that a segment was lost: see `lost` */
    NIC_BROKE_PARTED,   /* no way leads to its node, as the fabric says */
    NIC_BROKE_TOLD,     /* it says that the pair is broken: one from it was given up */
};

struct nic_peer *nic_peer(struct fabemu *fab, uint32_t node); /* @node < nodes */
/** nic_node_check - is there such a node? Errors: -ENOTCONN, -EHOSTUNREACH. Lock: none. */
int nic_node_check(const struct fabemu *fab, uint32_t node);
/** nic_peer_is_there - is there somebody whom we may meet? Not one that has said goodbye. */
bool nic_peer_is_there(const struct fabemu *fab, const struct nic_peer *peer);
/** nic_peer_count_break - what was under way with @node has broken off. */
void nic_peer_count_break(struct fabemu *fab, uint32_t node);
/** nic_peer_count_loss - a segment between it and somebody was lost. */
void nic_peer_count_loss(struct fabemu *fab, uint32_t node);
/** nic_seat_is_last - has @seat of @node no successor? 0, one that is not known: so it seems. */
bool nic_seat_is_last(const struct fabemu *fab, uint32_t node, uint64_t seat);
/** nic_peer_is_new - was nobody ever there? */
bool nic_peer_is_new(const struct fabemu *fab, const struct nic_peer *peer);
/**
 * nic_peer_why - one line: why does @node not answer? @node < nodes. What has changed since an
 * operation failed shows. Lock: none.
 */
void nic_peer_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes);
/**
 * nic_peer_report - an operation with @node ends with -EHOSTUNREACH. If its process is attached,
 * say on stderr why it cannot be reached, once.
 */
void nic_peer_report(struct fabemu *fab, uint32_t node);
/** nic_peer_ack - take what a segment's head says of requests dispatched and bytes taken there. */
void nic_peer_ack(struct nic_peer *peer, const struct nic_wire_head *head);
/**
 * nic_peer_may_answer - may one more answer go that nobody here wants? One in 50 ms may, and @ahead
 * more at once.
 * @debt_ns: until when those that went would have taken, at one in 50 ms.
 */
bool nic_peer_may_answer(uint64_t *debt_ns, uint32_t ahead);

/**
 * nic_reports_on - does the network say what becomes of a segment to @node? What this process sends
 * to itself does not go there.
 */
static inline bool nic_reports_on(const struct fabemu *fab, uint32_t node)
{
    return fab->transport.reports_delivery && node != fab->info.node;
}

/**
 * nic_peer_sent - one more message to @peer, or one-sided access that takes bytes there, for the
 * matrix of the report.
 */
static inline void nic_peer_sent(struct fabemu *fab, const struct nic_peer *peer, uint64_t bytes)
{
    emu_hostif_sent(fab->edge.shared, fab->info.nodes, peer->node, bytes);
}

/** nic_peer_window - may one more request go to @peer before it acknowledges? */
static inline bool nic_peer_window(const struct nic_peer *peer)
{
    return peer->tx_seq - peer->tx_acked < NIC_ORDER_WINDOW;
}

/** nic_peer_is - is it still the process and the epoch that this check was of? */
static inline bool nic_peer_is(const struct nic_peer *peer, uint32_t check)
{
    return peer->life && peer->rx_check == check;
}

#endif
