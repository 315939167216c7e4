/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h - the engine's end of a cable: which packet's segment, or which reply, it sends next.
 *
 * Owner: the engine's worker; the cable's ends have their own rules (emu/link/link.h). An open
 * channel has a packet that awaits its reply. The choice is made here; raw.c or timed.c puts the
 * segment on the wire, because only they know when it is sent.
 */
#ifndef NIC_ENGINE_LINK_H
#define NIC_ENGINE_LINK_H

#include <stdalign.h>

#include "emu/fault/fault.h"
#include "emu/link/channels.h"
#include "emu/packet/vc.h"

/* limit of waiting packets that are checked to find one whose flow is open */
#define ENGINE_SCAN 16u

struct engine;

struct engine_link {
    alignas(EMU_LINE) uint64_t tx_ps; /* when to check for something to send; EMU_NEVER: not */
    uint32_t left[EMU_PRIORITIES];    /* open channels of packets with segments left to send */
    uint32_t replies;                 /* bit per channel: a reply must be sent, */
    uint32_t nacks;                   /* which is a NACK */
    uint8_t at;                       /* channel served last */
    /* has something to send but no space; EMU_EVENT_CREDIT announces space */
    bool blocked;
    bool full; /* the cable's ring has no slot; the remote end frees slots without a signal */
    struct emu_vcs vcs;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_faults *faults; /* faults of the cable in our direction; NULL: none */
    uint16_t packet[EMU_VCS];  /* by open channel */
    uint32_t reply_tag[EMU_VCS];
};

/* Result of an attempt to send. */
enum engine_sent {
    ENGINE_SENT_NOTHING, /* nothing to send, or no space */
    ENGINE_SENT_LATER,   /* a channel was opened, and its packet reserves slots */
    ENGINE_SENT          /* the entry must be put on the wire */
};

/**
 * engine_wake - let link @l check for something to send, at @at_ps or as soon as its wire is free.
 */
static inline void engine_wake(struct engine_link *l, uint64_t at_ps)
{
    if (at_ps < l->tx.busy_ps)
        at_ps = l->tx.busy_ps;
    if (at_ps < l->tx_ps)
        l->tx_ps = at_ps;
}

/**
 * engine_link_send - choose the next reply or segment that link @l sends at @at_ps, and fill in
 * @entry except its time. The caller puts it on the wire immediately: the ring has a slot for it,
 * which @entry may be. Nothing is sent while the ring has no slot (@l->full): the caller tries
 * again soon.
 */
enum engine_sent engine_link_send(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                                  uint64_t at_ps);

/**
 * engine_link_run - clock raw, a plain local cable. @l has just sent a segment of a packet, and
 * nothing has arrived since: send the packet's next segments as far as there is space, unless it
 * reserves slots. engine_link_send() would choose the same ones. Returns how many.
 */
uint32_t engine_link_run(struct engine *e, struct engine_link *l);

/**
 * engine_link_holds_back - clock raw: does something wait for the next pass: a packet that has not
 * started, or anything that needs a slot of the ring?
 */
bool engine_link_holds_back(struct engine *e, const struct engine_link *l);

/** engine_link_reply - a reply arrived on link @l. */
void engine_link_reply(struct engine *e, struct engine_link *l, const struct emu_packet_hdr *reply,
                       uint64_t at_ps);

/**
 * engine_link_close - packet @i gives up its channel and is in no list; its link checks for the
 * next one.
 */
void engine_link_close(struct engine *e, uint16_t i, uint64_t at_ps);

/** engine_take_credits - take the credits that returned on link @l by @until_ps. */
void engine_take_credits(struct engine_link *l, uint64_t until_ps);

#endif
