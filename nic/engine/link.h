/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h - the engine's end of a cable: which packet's segment, or which reply, it sends next.
 *
 * Owner: the engine's worker; the cable's ends have their own rules (emu/link/link.h). An open
 * channel has a packet that awaits its reply. What is sent is chosen here and put on the wire by
 * the engine's machine (raw.c, timed.c), for only that knows when it leaves.
 */
#ifndef NIC_ENGINE_LINK_H
#define NIC_ENGINE_LINK_H

#include <stdalign.h>

#include "emu/fault/fault.h"
#include "emu/link/channels.h"
#include "emu/packet/vc.h"

/* waiting packets that are looked at, at most, to find one whose flow may send */
#define ENGINE_LOOK 16u

struct engine;

struct engine_link {
    alignas(EMU_LINE) uint64_t tx_ps; /* looks for something to send then; EMU_NEVER */
    uint32_t left[EMU_PRIORITIES];    /* open channels of packets with segments left to send */
    uint32_t replies;                 /* channels to reply on */
    uint32_t nacks;                   /* of them, those that get a NACK */
    uint8_t at;                       /* channel served last */
    /* has something to send and no room; EMU_EVENT_CREDIT tells */
    bool blocked;
    bool full; /* the cable's ring has no slot; the far end frees slots without a signal */
    struct emu_vcs vcs;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_faults *faults; /* of the cable to here; NULL: none */
    uint16_t packet[EMU_VCS];  /* by open channel */
    uint32_t reply_tag[EMU_VCS];
};

/* What a link has done when it was asked to send. */
enum engine_sent {
    ENGINE_SENT_NOTHING, /* there is nothing, or no room */
    ENGINE_SENT_LATER,   /* it has opened a channel, which collects slots for its packet */
    ENGINE_SENT          /* here is what goes onto the wire */
};

/** engine_wake - link @l looks for something to send, at @at_ps or as soon as its wire is free. */
static inline void engine_wake(struct engine_link *l, uint64_t at_ps)
{
    if (at_ps < l->tx.busy_ps)
        at_ps = l->tx.busy_ps;
    if (at_ps < l->tx_ps)
        l->tx_ps = at_ps;
}

/**
 * engine_link_send - the next reply or segment that link @l sends at @at_ps, into @entry, all but
 * its time. The caller puts it on the wire at once: the ring has a slot for it, which @entry may
 * be. Nothing is sent while the ring has no slot (@l->full): the caller tries again soon.
 */
enum engine_sent engine_link_send(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                                  uint64_t at_ps);

/**
 * engine_link_run - clock raw, a plain local cable: a segment of a packet was what @l has sent
 * last, in this pass, in which nothing has come since: the packet's next ones, as far as there is
 * room, are sent; not those that have collected slots. They are what engine_link_send() would
 * choose. Returns how many.
 */
uint32_t engine_link_run(struct engine *e, struct engine_link *l);

/**
 * engine_link_holds_back - clock raw: does something wait for the next pass: a packet that has not
 * begun, or anything that needs a slot of the ring?
 */
bool engine_link_holds_back(struct engine *e, const struct engine_link *l);

/** engine_link_reply - a reply came on link @l. */
void engine_link_reply(struct engine *e, struct engine_link *l, const struct emu_packet_hdr *reply,
                       uint64_t at_ps);

/**
 * engine_link_close - packet @i gives its channel up and is in no list; its link looks for the next
 * one.
 */
void engine_link_close(struct engine *e, uint16_t i, uint64_t at_ps);

/** engine_take_credits - those that came back on link @l by @until_ps. */
void engine_take_credits(struct engine_link *l, uint64_t until_ps);

#endif
