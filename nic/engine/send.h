/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - packets that an engine sends, from their first host segment until they are acknowledged
 * or dropped. A *host segment* is a segment that the host has posted. Several may form a packet,
 * which is divided into other segments on the wire.
 *
 * Owner: the engine's worker. A packet is in one list at a time: it is free, waits for a channel
 * (one list per priority), awaits its reply, is in backoff until its next try, or waits until the
 * host can be notified (ENGINE_BACK). During this notification (host.h) it is in no list. A packet
 * holds a reference to the buffer of each of its host segments.
 */
#ifndef NIC_ENGINE_SEND_H
#define NIC_ENGINE_SEND_H

#include "emu/packet/packet.h"
#include "nic/engine/flow.h"
#include "nic/engine/list.h"

#define ENGINE_SEGS_MAX 17u /* segments on the wire of a packet of EMU_PACKET_BYTES */
#define ENGINE_QUEUE    64u /* packets in addition to those that await a reply or are in backoff */

struct engine_query;

enum engine_state {
    ENGINE_FREE,
    ENGINE_WAITING,  /* waits for a channel */
    ENGINE_AWAITING, /* has a channel, awaits its reply */
    ENGINE_BACKOFF,  /* in backoff until its next try */
    ENGINE_BACK      /* waits until the host is notified */
} __attribute__((packed));

/* The contents of a packet. The receiver knows them from the kinds of its host segments. */
enum engine_class {
    ENGINE_PLAIN, /* messages from host to host, or to the hosts of a group */
    ENGINE_TREE,  /* contributions and results of collectives */
    /* a network conditional; has no sequence number, because it changes nothing at its receivers */
    ENGINE_TEST
} __attribute__((packed));

struct engine_to {
    uint32_t dst; /* node, or a group's address */
    enum engine_class class;
    bool group;
    uint8_t only; /* 1 + the link that it must use; 0: any */
};

/* A delivery to the host: segments of other nodes, or a report on its own segments. */
enum engine_notice {
    ENGINE_NOTICE_NONE,
    ENGINE_NOTICE_SEGMENTS, /* segments from other nodes */
    ENGINE_NOTICE_FAILED,   /* own segments that were dropped for good */
    /* own segments that were acknowledged, if the host requested a report */
    ENGINE_NOTICE_ACKED,
    ENGINE_NOTICE_ANSWER /* own segments with the answer to a conditional */
} __attribute__((packed));

struct engine_packet {
    /* when the timer of its reply or backoff is due; orders the lists awaiting and backing_off */
    uint64_t due_ps;
    /*
     * awaiting its reply: when its latest segment was sent. When due_ps is reached,
     * engine_send_due() corrects due_ps by this time.
     */
    uint64_t active_ps;
    /* the conditional that is repeated until true and uses this packet; else NULL */
    struct engine_query *query;
    /* engine_host.process when the packet was begun: the process that is notified of it */
    uint32_t process;
    uint32_t dst;   /* node, or a group's address */
    uint32_t seq;   /* assigned at the first try; a conditional has it from the start */
    uint32_t tag;   /* tag of the current try */
    uint32_t crc;   /* CRC-32 of the payload; valid if has_crc */
    uint16_t bytes; /* bytes of payload */
    uint16_t tries;
    enum engine_state state;
    bool group;
    /* when this packet was sent, the packet directly behind it had the same destination */
    bool more;
    /* crc is valid, and the packet does not grow any more, because it was sent before or is full */
    bool has_crc;
    enum engine_class class;
    uint8_t only; /* 1 + the link that it must use; 0: any */
    uint8_t tree; /* if it goes to a group: which of the group's trees it uses */
    /* in state ENGINE_BACK: the notice for the host; earlier: the notice to give after an ACK */
    enum engine_notice back;
    uint8_t answer; /* answer to a conditional: enum emu_test_answer */
    uint8_t tclass; /* enum emu_tclass of the host's process when the packet was begun */
    /* has the priority of longer packets of its class, even if it has one segment */
    bool priority_as_long;
    uint8_t priority;
    uint8_t late;    /* latest tries in a row that got no reply in time; see emu_rto_ps() */
    uint8_t count;   /* host segments */
    uint8_t segs;    /* segments on the wire */
    uint8_t sent;    /* segments that were sent in the current try */
    uint8_t link;    /* awaiting its reply: the link */
    uint8_t channel; /* awaiting its reply: the channel that it occupies */
    /* buffers of the host segments; the packet holds a reference to each */
    uint32_t buf[ENGINE_SEGS_MAX];
};

struct engine_sending {
    uint32_t first_seq; /* number of the first packet of each flow (config.first_seq) */
    /* first_seq + conditionals begun; it gives the next conditional its number */
    uint32_t tests;
    uint32_t waiting_any; /* bit per priority: packets of this priority wait */
    struct engine_list waiting[EMU_PRIORITIES];
    struct engine_list awaiting; /* ordered by due_ps, like backing_off */
    struct engine_list backing_off;
    struct engine_list back;
    struct engine_list free;
    uint16_t forming;    /* the newest waiting packet, which may still grow; ENGINE_NONE: none */
    uint8_t last_served; /* link that opened a channel last */
    uint32_t packets;
    uint32_t held; /* host segments in packets */
    uint32_t most; /* limit: the host must wait when held reaches this */
    struct engine_packet *packet;
    struct engine_join *join;      /* list links; same index as packet */
    struct engine_join *flow_join; /* list links of the packets of a flow; same index as packet */
    struct engine_flow *flow;      /* indexed by node; each group has its own flow */
};

/**
 * engine_packets - return the number of packets of an engine. The number of packets in backoff has
 * the same limit as the number of packets that await replies. Pure.
 */
static inline uint32_t engine_packets(uint32_t links, uint32_t channels)
{
    return 2 * links * channels + ENGINE_QUEUE;
}

void engine_sending_init(struct engine_sending *send);

/**
 * engine_ready - let packet @i wait for a channel. @first: it goes before all other packets of its
 * priority.
 */
void engine_ready(struct engine *e, uint16_t i, bool first, uint64_t at_ps);

/**
 * engine_waiting_drop - remove packet @i from its list of waiting packets. It is in no list then.
 */
void engine_waiting_drop(struct engine *e, uint16_t i);

void engine_await(struct engine *e, uint16_t i);

/**
 * engine_replied - handle the end of a try of packet @i, which is in no list. @taken: an ACK ended
 * the try; if false, the try failed, for example by a NACK or a time-out.
 */
void engine_replied(struct engine *e, uint16_t i, bool taken, uint64_t at_ps);

/** engine_free - free packet @i, which is in no list, for use by later segments. */
void engine_free(struct engine *e, uint16_t i, uint64_t at_ps);

/**
 * engine_send_due - handle packets whose reply is overdue at e->now_ps or whose backoff has ended.
 */
void engine_send_due(struct engine *e, uint64_t at_ps);

#endif
