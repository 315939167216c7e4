/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h - sequence numbers of packets: those that a source has given, and those that a destination
 * has heard.
 *
 * Owner: the engine's worker. A flow goes from one node to one other, or to one group as long as
 * that is. Its numbers are without gaps at the source, and each is delivered once. Conditionals are
 * in no flow: they change nothing, so it does not matter how often one is answered.
 */
#ifndef NIC_ENGINE_FLOW_H
#define NIC_ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/util/random.h"

/* packets that a source is ahead of its oldest one to a destination */
#define ENGINE_WINDOW 256u
/* numbers beyond the last acknowledged one: then a flow is dead */
#define ENGINE_SPAN     (1u << 24)
#define ENGINE_TRY_BITS 6u /* of a tag: the try; above them the sequence number */

struct engine;
struct engine_incoming;
struct engine_packet;
struct engine_to;

/*
 * The source's side: packets to one destination that have a sequence number and are not
 * acknowledged. One flow for each node, and one for each group as long as it is: all zero before
 * the first packet. A number here is less config.first_seq, free-running; a tag has its low bits
 * (flow.c).
 */
struct engine_flow {
    uint32_t next;   /* number of the next packet */
    uint32_t acked;  /* one past the highest number that was acknowledged */
    uint16_t oldest; /* 1 + index of the packet; 0: none */
    uint16_t newest;
    bool cut; /* nothing gets there: engine_flow_cut() */
};

/*
 * The destination's side: what was heard of one flow. It does not matter where numbers begin. All
 * zero: nothing yet. That no new number is taken for an old one is shown in flow.c.
 */
struct engine_heard {
    uint32_t from;                     /* 1 + the source; 0: nothing was heard */
    uint32_t last;                     /* the highest number, as a tag has it */
    uint64_t seen[ENGINE_WINDOW / 64]; /* by number modulo ENGINE_WINDOW */
    uint32_t life;                     /* of the source: engine_life() */
};

/** engine_flow_dead - has nothing that was sent there come through for ENGINE_SPAN packets? */
bool engine_flow_dead(struct engine *e, struct engine_to to);

/**
 * engine_flow_open - may packet @p be sent now? Its first try waits until its flow's window has
 * room.
 */
bool engine_flow_open(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_tries - after how many tries is packet @p given up?
 *
 * A packet that no try gets through waits for as long as the profile says, and holds one of few
 * places meanwhile; when all are held, what is for others waits behind them. So what follows it to
 * the same destination does not wait as long once more, and then again: from engine_flow_cut()
 * until a packet is acknowledged each has only its first tries, those whose rests double.
 */
uint32_t engine_flow_tries(struct engine *e, const struct engine_packet *p);

/** engine_flow_cut - nothing gets to where @to is: a packet was given up, or the manager knows. */
void engine_flow_cut(struct engine *e, struct engine_to to);

/** engine_flow_number - the first try of packet @i: it gets its number. */
void engine_flow_number(struct engine *e, uint16_t i);

/** engine_flow_leave - packet @i is over. Harmless for one that is in no flow. */
void engine_flow_leave(struct engine *e, uint16_t i);

/** engine_flow_acked - packet @p was acknowledged: by all members, if it was to a group. */
void engine_flow_acked(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_key - what names the flow from @src in a packet's tag. @dst: a node, or a group's
 * whole address. Pure.
 */
static inline uint32_t engine_flow_key(uint32_t src, uint32_t dst, bool group)
{
    uint64_t key = (uint64_t)src << 33 | (uint64_t)dst << 1 | group;

    return (uint32_t)emu_hash(key + 1);
}

/**
 * engine_heard_first - is this packet's number new? Then it is from now on not. Counts what is not.
 */
bool engine_heard_first(struct engine *e, const struct engine_incoming *in);

#endif
