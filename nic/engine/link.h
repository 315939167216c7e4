/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h - the engine's end of a cable, and the choice of the segment or reply that it sends next.
 *
 * Owner: the engine's worker; the cable's ends have their own rules (emu/link/link.h). A link has
 * several channels. A *channel* is open from the head of a packet until the packet's reply returns
 * or is overdue. link.c chooses what to send next; raw.c or timed.c puts it on the wire, because
 * only they know when it is sent.
 */
#ifndef NIC_ENGINE_LINK_H
#define NIC_ENGINE_LINK_H

#include <stdalign.h>

#include "emu/fault/fault.h"
#include "emu/link/channels.h"
#include "emu/packet/vc.h"

/*
 * The search for a packet that may be sent now ends after this many packets whose flows (flow.h)
 * have full windows.
 */
#define ENGINE_SCAN 16u

struct engine;

struct engine_link {
    /* when to check for something to send; EMU_NEVER: not before an event */
    alignas(EMU_LINE) uint64_t tx_ps;
    /* by priority, bit per channel: it is open, and its packet has segments left to send */
    uint32_t left[EMU_PRIORITIES];
    uint32_t replies; /* bit per channel: a reply must be sent */
    uint32_t nacks;   /* bit per channel: the reply that must be sent is a NACK */
    uint8_t at;       /* channel served last */
    /* a segment waits for space at the remote end, which announces space by EMU_EVENT_CREDIT; or a
       bulk packet is held back (engine_link_holds_back()) */
    bool blocked;
    bool full; /* the cable's ring has no slot; the remote end frees slots without a signal */
    struct emu_vcs vcs;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_faults *faults; /* faults of the cable that affect arriving entries; NULL: none */
    uint16_t packet[EMU_VCS];  /* by channel: the packet on it, if it is open */
    uint32_t reply_tag[EMU_VCS];
};

enum engine_sent {
    /* nothing to send, no space at the remote end or in the ring, or a packet that is held back */
    ENGINE_SENT_NOTHING,
    /* a channel was opened, and its packet must reserve slots before its head is sent */
    ENGINE_SENT_LATER,
    ENGINE_SENT /* the caller must put the entry on the wire */
};

/**
 * engine_wake - let @l check for something to send at @at_ps or, if its wire is busy then, as soon
 * as its wire is free.
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
 * @entry except its time. The caller must put the entry on the wire immediately. @entry may be the
 * ring's next slot. If the ring has no free slot, nothing is chosen, @l->full is set, and the
 * caller tries again soon.
 */
enum engine_sent engine_link_send(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                                  uint64_t at_ps);

/**
 * engine_link_run - send further segments of a packet on @l, after engine_link_send() has sent one
 * of its segments there. It ends when the receiver has no space left, or at the end of the packet.
 * Further calls of engine_link_send() would do the same more slowly. Call it only on clock raw,
 * for a cable of this host without faults, and before anything else arrives. Sends nothing if the
 * packet has reserved slots. Returns the number of segments sent.
 */
uint32_t engine_link_run(struct engine *e, struct engine_link *l);

/**
 * engine_link_holds_back - clock raw: return whether a bulk packet is held back until the worker's
 * next iteration (link.c), or the ring has no free slot.
 */
bool engine_link_holds_back(struct engine *e, const struct engine_link *l);

void engine_link_reply(struct engine *e, struct engine_link *l, const struct emu_packet_hdr *reply,
                       uint64_t at_ps);

/**
 * engine_link_close - take packet @i off its channel, and let the link check for the next packet.
 * Afterwards @i is in no list.
 */
void engine_link_close(struct engine *e, uint16_t i, uint64_t at_ps);

/** engine_take_credits - take the credits that have returned on link @l by @until_ps. */
void engine_take_credits(struct engine_link *l, uint64_t until_ps);

#endif
