/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - packets that an engine sends, from their first host segment until they are acknowledged
 * or dropped.
 *
 * Owner: the engine's worker. A packet is in one list at a time: free; waiting for a channel, by
 * priority; awaiting its reply; in backoff until its next try; or back, until the host is notified.
 * Or it is in the host's delivery, and in no list. It holds a reference to the buffer of each of
 * its host segments.
 */
#ifndef NIC_ENGINE_SEND_H
#define NIC_ENGINE_SEND_H

#include "emu/packet/packet.h"
#include "nic/engine/flow.h"
#include "nic/engine/list.h"

#define ENGINE_SEGS_MAX 17u /* segments of a packet of EMU_PACKET_BYTES */
#define ENGINE_QUEUE    64u /* packets in addition to those in flight or in backoff */

struct engine_query;

enum engine_state {
    ENGINE_FREE,
    ENGINE_WAITING,  /* waits for a channel */
    ENGINE_AWAITING, /* has a channel, awaits its reply */
    ENGINE_BACKOFF,  /* in backoff until its next try */
    ENGINE_BACK      /* waits until the host is notified */
} __attribute__((packed));

/* Contents of a packet; the receiver recognises it by its host segments. */
enum engine_class {
    ENGINE_PLAIN, /* from host to host, or to the hosts of a group */
    ENGINE_TREE,  /* contributions and results of collectives */
    ENGINE_TEST   /* a network conditional: has no sequence number, because it changes nothing */
} __attribute__((packed));

/* Destination of a packet. */
struct engine_to {
    uint32_t dst; /* node, or a group's address */
    enum engine_class class;
    bool group;
    uint8_t only; /* 1 + the link that it must use; 0: any */
};

/* Contents of a delivery to the host. */
enum engine_notice {
    ENGINE_NOTICE_NONE,
    ENGINE_NOTICE_SEGMENTS, /* segments from other nodes */
    ENGINE_NOTICE_FAILED,   /* own segments: dropped for good */
    ENGINE_NOTICE_ACKED,    /* own segments: acknowledged, if a report was requested */
    ENGINE_NOTICE_ANSWER    /* own segments: answer to a conditional */
} __attribute__((packed));

struct engine_packet {
    uint64_t due_ps;    /* awaiting, backoff: order of the list */
    uint64_t active_ps; /* awaiting: when its last segment was sent; due_ps is updated lazily */
    struct engine_query *query; /* a conditional that is repeated until true; else NULL */
    uint32_t process;           /* engine_host.process at its start: notified of it */
    uint32_t dst;               /* node, or a group's address */
    uint32_t seq;               /* assigned at the first try */
    uint32_t tag;               /* of the current try */
    uint32_t crc;               /* of the payload; valid if has_crc */
    uint16_t bytes;             /* of payload */
    uint16_t tries;
    enum engine_state state;
    bool group;
    bool more;    /* a packet to the same destination waits right behind */
    bool has_crc; /* crc is valid: the packet has had a channel and does not grow any more */
    enum engine_class class;
    uint8_t only;            /* 1 + the link that it must use; 0: any */
    enum engine_notice back; /* report to the host when acknowledged, or now */
    uint8_t answer;          /* enum emu_test_answer */
    bool bulk;               /* lowest priority, however short */
    uint8_t priority;
    uint8_t count;                 /* host segments */
    uint8_t segs;                  /* on the wire */
    uint8_t sent;                  /* of these, in the current try */
    uint8_t link;                  /* awaiting: link */
    uint8_t channel;               /* and channel */
    uint32_t buf[ENGINE_SEGS_MAX]; /* of host segments: holds a reference each */
};

struct engine_sending {
    uint32_t first_seq;   /* first sequence number */
    uint32_t tests;       /* conditionals sent so far: numbers them */
    uint32_t waiting_any; /* bit per priority: some packets wait */
    struct engine_list waiting[EMU_PRIORITIES];
    struct engine_list awaiting; /* ordered by due_ps, like resting */
    struct engine_list backing_off;
    struct engine_list back;
    struct engine_list free;
    uint16_t forming;    /* the newest waiting packet, which may still grow; ENGINE_NONE */
    uint8_t last_served; /* link that opened a channel last */
    uint32_t packets;
    uint32_t held; /* segments in packets */
    uint32_t most; /* the host must wait when held reaches this */
    struct engine_packet *packet;
    struct engine_join *join;      /* same index as packet */
    struct engine_join *flow_join; /* same index as packet: links the packets of a flow */
    struct engine_flow *flow;      /* by node; groups have their own */
};

/**
 * engine_packets - number of packets of an engine: as many as can be in flight may also be in
 * backoff. Pure.
 */
static inline uint32_t engine_packets(uint32_t links, uint32_t channels)
{
    return 2 * links * channels + ENGINE_QUEUE;
}

/** engine_sending_init - all packets are free. */
void engine_sending_init(struct engine_sending *send);

/** engine_ready - let packet @i wait for a channel; @first: before the others. */
void engine_ready(struct engine *e, uint16_t i, bool first, uint64_t at_ps);

/** engine_waiting_drop - packet @i stops waiting: it is in no list. */
void engine_waiting_drop(struct engine *e, uint16_t i);

/** engine_await - packet @i awaits a reply. */
void engine_await(struct engine *e, uint16_t i);

/**
 * engine_replied - the try of packet @i has ended; the packet is in no list. @taken: with an ACK.
 */
void engine_replied(struct engine *e, uint16_t i, bool taken, uint64_t at_ps);

/** engine_free - packet @i has ended; it is in no list. */
void engine_free(struct engine *e, uint16_t i, uint64_t at_ps);

/**
 * engine_send_due - handle packets whose reply is overdue by e->now_ps, or whose backoff has ended.
 */
void engine_send_due(struct engine *e, uint64_t at_ps);

#endif
