/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - packets that an engine sends, from their first host segment until they are acknowledged
 * or given up.
 *
 * Owner: the engine's worker. A packet is in one list at a time: free; waiting for a channel, by
 * priority; awaiting its reply; resting until its next try; or back, until the host has been told.
 * Or it is in the host's delivery, and in no list. Each of its host segments is a reference to a
 * buffer, which the packet holds until it is over.
 */
#ifndef NIC_ENGINE_SEND_H
#define NIC_ENGINE_SEND_H

#include "emu/packet/packet.h"
#include "nic/engine/flow.h"
#include "nic/engine/list.h"

#define ENGINE_SEGS_MAX 17u /* segments of a packet of EMU_PACKET_BYTES */
#define ENGINE_QUEUE    64u /* packets kept beside those that can be on their way, or resting */

struct engine_ask;

enum engine_state {
    ENGINE_FREE,
    ENGINE_WAITING,  /* for a channel */
    ENGINE_AWAITING, /* on a channel: its reply */
    ENGINE_RESTING,  /* until its next try */
    ENGINE_BACK      /* until the host has been told */
} __attribute__((packed));

/* What a packet carries; the receiver sees it by its host segments. */
enum engine_class {
    ENGINE_PLAIN, /* from host to host, or to a group's */
    ENGINE_TREE,  /* contributions and results of collectives */
    ENGINE_TEST   /* a network conditional: has no sequence number, for it changes nothing */
} __attribute__((packed));

/* Where a packet goes. */
struct engine_to {
    uint32_t dst; /* node, or a group's address */
    enum engine_class class;
    bool group;
    uint8_t only; /* 1 + the link that it must go by; 0: any */
};

/* What goes to the host. */
enum engine_notice {
    ENGINE_NOTICE_NONE,
    ENGINE_NOTICE_SEGMENTS, /* the segments themselves */
    ENGINE_NOTICE_FAILED,   /* its own: given up */
    ENGINE_NOTICE_ACKED,    /* its own: acknowledged, if it asked */
    ENGINE_NOTICE_ANSWER    /* its own: what a conditional came to */
} __attribute__((packed));

struct engine_packet {
    uint64_t due_ps;        /* awaiting, resting: the list is in this order */
    uint64_t active_ps;     /* awaiting: when its last segment was sent; due_ps follows lazily */
    struct engine_ask *ask; /* a conditional that is asked until it is true; else NULL */
    uint32_t process;       /* engine_host.process when it began: who is told of it */
    uint32_t dst;           /* node, or a group's address */
    uint32_t seq;           /* given with the first try */
    uint32_t tag;           /* of this try */
    uint32_t crc;           /* over the payload: has_crc */
    uint16_t bytes;         /* of payload */
    uint16_t tries;
    enum engine_state state;
    bool group;
    bool more;    /* another one to there waits right behind */
    bool has_crc; /* crc was computed, for it has had a channel; it grows no more */
    enum engine_class class;
    uint8_t only;            /* 1 + the link that it must go by; 0: any */
    enum engine_notice back; /* what the host is told when it is acknowledged, or of it now */
    uint8_t answer;          /* enum emu_test_answer */
    bool bulk;               /* has the lowest priority, however short it is */
    uint8_t priority;
    uint8_t count;                 /* host segments */
    uint8_t segs;                  /* on the wire */
    uint8_t sent;                  /* of them, in this try */
    uint8_t link;                  /* awaiting: which, */
    uint8_t channel;               /* and its channel */
    uint32_t buf[ENGINE_SEGS_MAX]; /* of host segments: a reference each */
};

struct engine_sending {
    uint32_t first_seq;   /* where sequence numbers begin */
    uint32_t tests;       /* conditionals sent so far: names them */
    uint32_t waiting_any; /* a bit a priority with some that wait */
    struct engine_list waiting[EMU_PRIORITIES];
    struct engine_list awaiting; /* in the order of due_ps, as the next */
    struct engine_list resting;
    struct engine_list back;
    struct engine_list free;
    uint16_t forming;    /* the newest waiting packet, which may still grow; ENGINE_NONE */
    uint8_t last_served; /* link that opened a channel last */
    uint32_t packets;
    uint32_t held; /* segments in packets */
    uint32_t most; /* with so many of them the host waits */
    struct engine_packet *packet;
    struct engine_join *join;      /* like packet */
    struct engine_join *flow_join; /* like packet: of those in one flow */
    struct engine_flow *flow;      /* by node; those to groups are theirs */
};

/**
 * engine_packets - packets that an engine keeps: as many again as can be on their way may rest.
 * Pure.
 */
static inline uint32_t engine_packets(uint32_t links, uint32_t channels)
{
    return 2 * links * channels + ENGINE_QUEUE;
}

/** engine_sending_init - all packets are free, and in their list. */
void engine_sending_init(struct engine_sending *send);

/** engine_ready - packet @i waits for a channel from now on; @first: before the others. */
void engine_ready(struct engine *e, uint16_t i, bool first, uint64_t at_ps);

/** engine_waiting_drop - packet @i waits no more: it is in no list. */
void engine_waiting_drop(struct engine *e, uint16_t i);

/** engine_await - packet @i awaits a reply from now on. */
void engine_await(struct engine *e, uint16_t i);

/**
 * engine_replied - the try of packet @i has ended, and the packet is in no list. @taken: it had an
 * ACK.
 */
void engine_replied(struct engine *e, uint16_t i, bool taken, uint64_t at_ps);

/** engine_free - packet @i is over; it is in no list. */
void engine_free(struct engine *e, uint16_t i, uint64_t at_ps);

/** engine_send_due - packets whose reply is overdue by e->now_ps, and those that have rested. */
void engine_send_due(struct engine *e, uint64_t at_ps);

#endif
