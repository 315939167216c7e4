/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h - sequence numbers of packets: assigned by a source, and received by a destination.
 *
 * Owner: the engine's worker. A flow goes from one node to one other, or to one group while that
 * exists. Its numbers have no gaps at the source, and each is delivered once. Conditionals are in
 * no flow: they change nothing, so they may be answered repeatedly.
 */
#ifndef NIC_ENGINE_FLOW_H
#define NIC_ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/util/random.h"

/* limit of packets that a source may be ahead of its oldest one to a destination */
#define ENGINE_WINDOW 256u
/* a flow is dead when it is this far beyond the last acknowledged number */
#define ENGINE_SPAN     (1u << 24)
#define ENGINE_TRY_BITS 6u /* of a tag: the try; the sequence number is above them */

struct engine;
struct engine_incoming;
struct engine_packet;
struct engine_to;

/*
 * The source's side: packets to one destination that have a number and are not acknowledged. One
 * flow for each node, and one for each group while it exists; all zero before the first packet.
 * Numbers are relative to config.first_seq, and free-running; a tag has the low bits (flow.c).
 */
struct engine_flow {
    uint32_t next;   /* number of the next packet */
    uint32_t acked;  /* one past the highest acknowledged number */
    uint16_t oldest; /* 1 + index of the packet; 0: none */
    uint16_t newest;
    bool cut; /* the destination is unreachable: engine_flow_cut() */
};

/*
 * The destination's side: numbers received of one flow, whatever the first one was. All zero: none
 * yet. flow.c shows that a new number is never taken for an old one.
 */
struct engine_history {
    uint32_t from;                     /* 1 + the source; 0: nothing received */
    uint32_t last;                     /* the highest number, as in a tag */
    uint64_t seen[ENGINE_WINDOW / 64]; /* by number modulo ENGINE_WINDOW */
    /* incarnation of the source: engine_set_incarnation() */
    uint32_t incarnation;
};

/** engine_flow_dead - was nothing acknowledged there for ENGINE_SPAN packets? */
bool engine_flow_dead(struct engine *e, struct engine_to to);

/**
 * engine_flow_open - may packet @p be sent now? Its first try waits for space in its flow's window.
 */
bool engine_flow_open(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_tries - after how many tries is packet @p dropped?
 *
 * A packet that cannot be delivered waits for as long as the profile says, and holds one of few
 * channels meanwhile; when all are held, traffic to other destinations waits behind such packets.
 * To keep the next packets to that destination from waiting as long again, each gets only its first
 * tries, whose backoff doubles, from engine_flow_cut() until a packet is acknowledged.
 */
uint32_t engine_flow_tries(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_cut - the destination @to is unreachable: a packet was dropped, or the manager knows.
 */
void engine_flow_cut(struct engine *e, struct engine_to to);

/** engine_flow_number - assign a number to packet @i at its first try. */
void engine_flow_number(struct engine *e, uint16_t i);

/** engine_flow_leave - packet @i has ended. Harmless for a packet that is in no flow. */
void engine_flow_leave(struct engine *e, uint16_t i);

/** engine_flow_acked - packet @p was acknowledged; to a group: by all members. */
void engine_flow_acked(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_key - identifies the flow from @src in a packet's tag. @dst: a node, or a group's
 * whole address. Pure.
 */
static inline uint32_t engine_flow_key(uint32_t src, uint32_t dst, bool group)
{
    uint64_t key = (uint64_t)src << 33 | (uint64_t)dst << 1 | group;

    return (uint32_t)emu_hash(key + 1);
}

/**
 * engine_history_first - is this packet's number new? Then mark it as received. Otherwise counts
 * it.
 */
bool engine_history_first(struct engine *e, const struct engine_incoming *in);

#endif
