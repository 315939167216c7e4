/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - incoming packets, one per channel of each link.
 *
 * Owner: the engine's worker. An incoming packet is incomplete while its segments arrive, complete
 * while it waits for space at the host, and taken while it is delivered. On clocks real and virtual
 * it is then *stored* until it is in the host's memory. At the end it is acknowledged and closed.
 * While it is incomplete or complete it holds a reference to the buffer of each of its segments.
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
    ENGINE_STORED      /* being written to the host's memory */
} __attribute__((packed));

struct engine_incoming {
    uint64_t due_ps; /* while incomplete or stored: when its timer is due */
    /*
     * while incomplete: when its latest segment arrived. When due_ps is reached,
     * engine_receive_due() corrects due_ps by this time.
     */
    uint64_t active_ps;
    struct emu_head head;
    uint32_t tag;
    enum engine_incoming_state state;
    bool broken;                   /* damaged: will be answered with a NACK */
    uint8_t segs;                  /* segments arrived */
    uint8_t count;                 /* number of host segments; valid when complete */
    uint32_t buf[ENGINE_SEGS_MAX]; /* buffer of each segment; EMU_NO_BUF: none */
};

struct engine_receiving {
    struct engine_list parts; /* incomplete packets, ordered by due_ps, like `stored` */
    struct engine_list complete;
    struct engine_list stored;
    struct engine_incoming *incoming; /* links * EMU_VCS incoming packets */
    struct engine_join *join;         /* list links; same index as incoming */
    struct engine_history *history;   /* indexed by node; each group has its own */
};

/**
 * engine_arrives_credit - return whether @entry occupied a slot at this end of the cable, so that
 * its credit must be returned. Replies occupy no slot, and neither do copies that a fault has made.
 */
static inline bool engine_arrives_credit(const struct emu_entry *entry, enum emu_fate fate)
{
    assert(entry->packet.kind >= EMU_PACKET_HEAD && entry->packet.kind <= EMU_PACKET_NACK);
    return entry->packet.kind <= EMU_PACKET_CONT && fate != EMU_FATE_DUPLICATED;
}

/**
 * engine_arrive - handle an entry that has arrived completely on link @l, and take its reference.
 * The caller has returned its credit, if it occupied a slot.
 */
void engine_arrive(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                   enum emu_fate fate, uint64_t at_ps);

/**
 * engine_arrive_run - clock raw, a local cable without faults: take up to @most valid continuations
 * of the packet on channel @c of link @l. The oldest entry on the link must be a continuation on
 * this channel. Returns how many; the caller returns their credits.
 */
uint32_t engine_arrive_run(struct engine *e, struct engine_link *l, uint32_t c, uint32_t most);

/** engine_answer - reply to incoming packet @i with an ACK or NACK, and close it. */
void engine_answer(struct engine *e, uint32_t i, bool ack, uint64_t at_ps);

/**
 * engine_receive_due - drop incomplete packets whose next segment is overdue at e->now_ps, and
 * acknowledge packets that are in memory now.
 */
void engine_receive_due(struct engine *e, uint64_t at_ps);

#endif
