/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - packets that come in, one for each channel of each link.
 *
 * Owner: the engine's worker. A packet is closed; in parts; or whole, and waits for room at the
 * host; or taken by the host's delivery; or stored, where memory takes time to write and its
 * acknowledgment waits for that. In parts and whole it holds a reference to each segment's buffer.
 */
#ifndef NIC_ENGINE_RECEIVE_H
#define NIC_ENGINE_RECEIVE_H

#include "emu/buffer/ring.h"
#include "emu/fault/fault.h"
#include "emu/packet/packet.h"
#include "nic/engine/flow.h"
#include "nic/engine/list.h"
#include "nic/engine/send.h"

struct engine;
struct engine_link;

enum engine_incoming_state {
    ENGINE_CLOSED,
    ENGINE_PARTS, /* its segments are coming */
    ENGINE_WHOLE, /* waits for the host */
    ENGINE_TAKEN, /* is being delivered */
    ENGINE_STORED /* on its way to memory, which its acknowledgment waits for */
} __attribute__((packed));

struct engine_incoming {
    uint64_t due_ps;    /* in parts, stored: the list is in this order */
    uint64_t active_ps; /* in parts: when the last segment came; due_ps follows lazily */
    struct emu_head head;
    uint32_t tag;
    enum engine_incoming_state state;
    bool broken;                   /* will be answered with a NACK */
    uint8_t segs;                  /* that came */
    uint8_t count;                 /* whole: host segments */
    uint32_t buf[ENGINE_SEGS_MAX]; /* by segment, or EMU_NO_BUF */
};

struct engine_receiving {
    struct engine_list parts; /* by due_ps, as `stored` */
    struct engine_list whole;
    struct engine_list stored;
    struct engine_incoming *incoming; /* links * EMU_VCS */
    struct engine_join *join;         /* like incoming */
    struct engine_heard *heard;       /* by node; what is to groups they know */
};

/**
 * engine_arrives_credit - had @entry a slot at this end of the cable, which is free now that it is
 * here? Replies need none, and a copy that a fault made has none of its own.
 */
static inline bool engine_arrives_credit(const struct emu_entry *entry, enum emu_fate fate)
{
    assert(entry->packet.kind >= EMU_PACKET_HEAD && entry->packet.kind <= EMU_PACKET_NACK);
    return entry->packet.kind <= EMU_PACKET_CONT && fate != EMU_FATE_TWICE;
}

/**
 * engine_arrive - what came on link @l, as a whole. Its reference is the engine's. Its credit, if
 * it has one, the caller has given back.
 */
void engine_arrive(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                   enum emu_fate fate, uint64_t at_ps);

/**
 * engine_arrive_run - clock raw, a local cable without faults: of what has come on link @l, up to
 * @most continuations of the packet on channel @c, if they are as they should be. The oldest entry
 * is one. Returns how many; the caller gives their credits back.
 */
uint32_t engine_arrive_run(struct engine *e, struct engine_link *l, uint32_t c, uint32_t most);

/** engine_answer - reply to incoming packet @i, and close it. */
void engine_answer(struct engine *e, uint32_t i, bool ack, uint64_t at_ps);

/**
 * engine_receive_due - packets whose rest did not come by e->now_ps, and those that are in memory.
 */
void engine_receive_due(struct engine *e, uint64_t at_ps);

#endif
