/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flow.h - sequence numbers of packets. A source assigns them, and a destination uses them to
 * detect duplicates.
 *
 * A *flow* is the sequence of packets from one node to another node, or to a group while the group
 * exists. Its source assigns consecutive numbers, and its destination delivers each number once.
 * Conditionals belong to no flow, because they change nothing at their receivers and may be
 * answered repeatedly. Owner: the engine's worker.
 */
#ifndef NIC_ENGINE_FLOW_H
#define NIC_ENGINE_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/util/random.h"

/* a flow's next number is at most this far beyond the number of its oldest unfinished packet */
#define ENGINE_WINDOW 256u
/* a flow is dead when its next number is this far beyond the highest acknowledged one */
#define ENGINE_SPAN     (1u << 24)
#define ENGINE_TRY_BITS 6u /* low bits of a tag: number of the try; then the sequence number */

struct engine;
struct engine_incoming;
struct engine_packet;
struct engine_to;

/*
 * The source's end of a flow: packets that have a number and are not acknowledged. There is one
 * flow per node, and one per group while it exists; all fields are zero before the first packet.
 * Numbers are relative to config.first_seq and free-running. A tag has only their low bits
 * (flow.c).
 */
struct engine_flow {
    uint32_t next;   /* number of the next packet */
    uint32_t acked;  /* one past the highest acknowledged number */
    uint16_t oldest; /* 1 + index of the oldest packet; 0: none */
    uint16_t newest;
    bool cut; /* the destination is unreachable: engine_flow_cut() */
};

/*
 * The destination's end of a flow: the numbers that it has received. Any number may be the first.
 * Before it arrives, all fields except `incarnation` are zero. flow.c shows that a new number is
 * never taken for an old one.
 */
struct engine_history {
    uint32_t from;                     /* 1 + the source; 0: nothing received */
    uint32_t last;                     /* the highest number, as in a tag (without its high bits) */
    uint64_t seen[ENGINE_WINDOW / 64]; /* bit per number modulo ENGINE_WINDOW: received */
    /* incarnation of the source, from engine_set_incarnation(); not used for groups */
    uint32_t incarnation;
};

/** engine_flow_dead - return whether none of the last ENGINE_SPAN packets to @to was ACKed. */
bool engine_flow_dead(struct engine *e, struct engine_to to);

/**
 * engine_flow_open - return whether packet @p may be sent now. A first try must be within the
 * window of the packet's flow; later tries are always allowed.
 */
bool engine_flow_open(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_tries - return the number of tries after which packet @p is dropped.
 *
 * A packet that cannot be delivered has as many tries as the profile allows, and occupies a channel
 * during each try. A link has few channels, so such packets can hold up traffic to other
 * destinations. After engine_flow_cut(), each packet to the unreachable destination therefore gets
 * only its first tries, between which the backoff doubles, until a packet is acknowledged.
 */
uint32_t engine_flow_tries(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_cut - mark the destination @to as unreachable, because a packet to it was dropped or
 * the manager has found it unreachable.
 */
void engine_flow_cut(struct engine *e, struct engine_to to);

/** engine_flow_number - assign a number to packet @i at its first try. */
void engine_flow_number(struct engine *e, uint16_t i);

/** engine_flow_leave - remove packet @i, which has ended, from its flow, if it is in one. */
void engine_flow_leave(struct engine *e, uint16_t i);

/**
 * engine_flow_acked - note that packet @p was acknowledged, by all members if it went to a group.
 */
void engine_flow_acked(struct engine *e, const struct engine_packet *p);

/**
 * engine_flow_key - return a hash that identifies the flow from @src in a packet's tag. @dst: a
 * node, or all bits of a group's address. Pure.
 */
static inline uint32_t engine_flow_key(uint32_t src, uint32_t dst, bool group)
{
    uint64_t key = (uint64_t)src << 33 | (uint64_t)dst << 1 | group;

    return (uint32_t)emu_hash(key + 1);
}

/**
 * engine_history_first - return whether this packet's number is new, and mark it as received.
 * Counts the packet if it is not new.
 */
bool engine_history_first(struct engine *e, const struct engine_incoming *in);

#endif
