/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - incoming packets, one per channel of each link.
 *
 * Owner: the engine's worker. States: closed; in parts; whole, waiting for space at the host; taken
 * by the delivery; stored, if writing to memory takes time and the acknowledgment waits for that.
 * In parts and whole, a packet holds a reference to each segment's buffer.
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
    ENGINE_INCOMPLETE, /* segments are arriving */
    ENGINE_COMPLETE,   /* waits for the host */
    ENGINE_TAKEN,      /* is being delivered */
    ENGINE_STORED      /* being written to memory; acknowledged after that */
} __attribute__((packed));

struct engine_incoming {
    uint64_t due_ps;    /* in parts, stored: order of the list */
    uint64_t active_ps; /* in parts: when the last segment arrived; due_ps is updated lazily */
    struct emu_head head;
    uint32_t tag;
    enum engine_incoming_state state;
    bool broken;                   /* will be answered with a NACK */
    uint8_t segs;                  /* segments arrived */
    uint8_t count;                 /* whole: host segments */
    uint32_t buf[ENGINE_SEGS_MAX]; /* by segment, or EMU_NO_BUF */
};

struct engine_receiving {
    struct engine_list parts; /* ordered by due_ps, like `stored` */
    struct engine_list complete;
    struct engine_list stored;
    struct engine_incoming *incoming; /* links * EMU_VCS of them */
    struct engine_join *join;         /* same index as incoming */
    struct engine_history *history;   /* by node; groups have their own */
};

/**
 * engine_arrives_credit - did @entry occupy a slot at this end of the cable, which is free now?
 * Replies occupy none, and neither does a copy that a fault made.
 */
static inline bool engine_arrives_credit(const struct emu_entry *entry, enum emu_fate fate)
{
    assert(entry->packet.kind >= EMU_PACKET_HEAD && entry->packet.kind <= EMU_PACKET_NACK);
    return entry->packet.kind <= EMU_PACKET_CONT && fate != EMU_FATE_TWICE;
}

/**
 * engine_arrive - an entry arrived on link @l completely. Takes its reference. The caller has
 * returned its credit, if it has one.
 */
void engine_arrive(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                   enum emu_fate fate, uint64_t at_ps);

/**
 * engine_arrive_run - clock raw, a local cable without faults: take up to @most valid continuations
 * of the packet on channel @c of link @l; the oldest entry is one. Returns how many; the caller
 * returns their credits.
 */
uint32_t engine_arrive_run(struct engine *e, struct engine_link *l, uint32_t c, uint32_t most);

/** engine_answer - reply to incoming packet @i, and close it. */
void engine_answer(struct engine *e, uint32_t i, bool ack, uint64_t at_ps);

/**
 * engine_receive_due - handle incomplete packets that are overdue by e->now_ps, and packets that
 * are in memory now.
 */
void engine_receive_due(struct engine *e, uint64_t at_ps);

#endif
