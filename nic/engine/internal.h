/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - struct engine, and the functions of the engine that do not depend on its clock. Only
 * the engine's worker uses them, and the manager while that worker is paused.
 *
 * send.h, receive.h, host.h, link.h and group.h define the parts of struct engine and name their
 * owner. engine_create() chooses one of two implementations by the clock: raw (raw.c), where
 * nothing takes time, or timed (timed.c).
 */
#ifndef NIC_ENGINE_INTERNAL_H
#define NIC_ENGINE_INTERNAL_H

#include <assert.h>

#include "emu/fault/fault.h"
#include "emu/packet/crc.h"
#include "emu/packet/rto.h"
#include "emu/packet/sane.h"
#include "emu/util/bits.h"
#include "emu/util/count.h"
#include "nic/engine/query.h"
#include "nic/engine/engine.h"
#include "nic/engine/group.h"
#include "nic/engine/host.h"
#include "nic/engine/link.h"
#include "nic/engine/list.h"
#include "nic/engine/receive.h"
#include "nic/engine/send.h"

/*
 * an iteration takes at most this many segments from each port, and sends at most this many on each
 * link: six packets
 */
#define ENGINE_BURST 96u

struct engine {
    struct emu_dev dev;
    const struct emu_profile *profile;
    struct emu_profile host_profile;
    uint32_t node, nodes;
    uint32_t incarnation; /* the engine's own incarnation: engine_set_incarnation() */
    uint32_t links;
    uint32_t group_slots; /* emu_profile_group_slots() */
    uint32_t cut;         /* bit per link: the link is down, or no cable is connected */
    struct emu_rto rto;   /* reply time-out */
    uint64_t random;      /* state of the xorshift generator, for jitter */
    uint64_t now_ps;      /* clock for time-outs and backoff */

    struct engine_host host;
    struct engine_sending send;
    struct engine_receiving receive;
    struct engine_trees tree;

    struct engine_counts counts;
    struct engine_link *link;
    struct engine_queries queries; /* last, because it is rarely used */
};

struct engine_impl {
    size_t bytes; /* size of the implementation's struct, which begins with a struct engine */
    emu_step_fn step;
    engine_deliver_fn *deliver;
    /* sets the fields that depend on the clock */
    void (*init)(struct engine *e, enum emu_clock_mode clock);
};

extern const struct engine_impl engine_raw, engine_timed;

static inline struct emu_pool_cache *engine_cache(struct engine *e)
{
    return &e->dev.worker->cache;
}

static inline struct emu_hdr *engine_hdr(struct engine *e, uint32_t buf)
{
    return &emu_pool_seg(engine_cache(e)->pool, buf)->hdr;
}

/*
 * A host inside the fabric may send segments whose header has a length, but which have no payload.
 * The buffer of such a segment belongs to the engine, holds only the header, and goes only as far
 * as the remote engine. A bit in the kind of the stored header, ENGINE_LENGTH_ONLY, marks it. No
 * host sees this bit, and engines use it only through the functions below.
 */
#define ENGINE_LENGTH_ONLY EMU_STORED
static_assert(!(ENGINE_LENGTH_ONLY & (EMU_NOTIFY | EMU_FAILED)) && (unsigned)EMU_TEST < EMU_NOTIFY,
              "no flag of a kind has this bit");

static inline bool engine_is_length_only(const struct emu_hdr *hdr)
{
    return hdr->kind & ENGINE_LENGTH_ONLY;
}

static inline void engine_set_length_only(struct emu_hdr *hdr, bool length_only)
{
    hdr->kind =
        (uint8_t)((hdr->kind & ~ENGINE_LENGTH_ONLY) | (length_only ? ENGINE_LENGTH_ONLY : 0));
}

/* Return a pointer to the time, in ns, at which the host posted the segment in @buf. */
static inline uint32_t *engine_born_ns(struct engine *e, uint32_t buf)
{
    return emu_pool_note(engine_cache(e)->pool, buf);
}

static inline uint8_t engine_kind(const struct emu_hdr *hdr)
{
    return hdr->kind & (uint8_t) ~(ENGINE_LENGTH_ONLY | EMU_NOTIFY);
}

/*
 * Return whether a packet may carry a host segment with this header. The source's host interface
 * has checked the header, and the packet's CRC-32 detects damage by faults. So an invalid header
 * can only come from another host that sends forged data with a matching CRC-32.
 */
static inline bool engine_seg_is_sane(const struct engine *e, const struct emu_hdr *hdr)
{
    struct emu_hdr plain = *hdr;

    engine_set_length_only(&plain, false);
    if (plain.kind == EMU_SET) /* a host sends EMU_SET only to its own adapter */
        return false;
    if (plain.kind == EMU_TEST && plain.op == ENGINE_TEST_BARRIER)
        return !plain.len;
    return emu_hdr_is_sane(&plain, e->profile, e->nodes);
}

/* Return how many bytes of a packet's payload a host segment with this header occupies. */
static inline uint32_t engine_seg_bytes(const struct emu_hdr *hdr)
{
    return EMU_HDR_BYTES + hdr->len;
}

/*
 * Return how many bytes of a host segment are in memory: only the bytes of the header, if it has no
 * payload.
 */
static inline uint32_t engine_seg_there(const struct emu_hdr *hdr)
{
    return EMU_HDR_BYTES + (engine_is_length_only(hdr) ? 0u : hdr->len);
}

/*
 * Return the CRC-32 of a packet's payload, which consists of @count host segments. One call
 * computes it for all full segments at the front, which is faster than a call for each.
 */
static inline uint32_t engine_payload_crc(struct engine *e, const uint32_t *buf, uint32_t count)
{
    const void *full[ENGINE_SEGS_MAX];
    uint32_t s = 0, crc;

    static_assert(EMU_CRC_PIECE == EMU_SEG_BYTES, "a full segment is a piece");
    for (; s < count && engine_seg_there(engine_hdr(e, buf[s])) == EMU_SEG_BYTES; s++)
        full[s] = engine_hdr(e, buf[s]);
    for (crc = emu_crc32_pieces(0, full, s); s < count; s++)
        crc = emu_crc32(crc, engine_hdr(e, buf[s]), engine_seg_there(engine_hdr(e, buf[s])));
    return crc;
}

/* Return a packet's CRC-32. @payload: CRC-32 of its payload; @incarnation: its source's. Pure. */
static inline uint32_t engine_crc(uint32_t payload, uint32_t tag, uint16_t dst, bool group,
                                  uint32_t incarnation)
{
    uint32_t where[2] = {tag, (uint32_t)dst | (uint32_t)group << 16 | incarnation << 17};

    return emu_crc32(payload, where, sizeof where);
}

static inline void engine_wake_all(struct engine *e, uint64_t at_ps)
{
    emu_each_bit (i, emu_bits_below(e->links) & ~e->cut)
        engine_wake(&e->link[i], at_ps);
}

/** engine_deliver - deliver to the host as much as it has space for. */
static inline void engine_deliver(struct engine *e, uint64_t at_ps)
{
    e->host.deliver(e, at_ps);
}

/* --- for both clocks ---------------------------------------------------------------- */

/**
 * engine_host_refresh - read the state of the host interface, which process is attached, and its
 * traffic class. The engine calls this at least once per iteration.
 */
static inline void engine_host_refresh(struct engine *e)
{
    struct emu_rx *in = &e->host.in;

    emu_rx_begin(in);
    if (in->kind == EMU_LINK_HOSTIF) {
        e->host.process = in->plug.plugged ? in->plug.plugged->serial : 0;
        e->host.tclass = in->plug.plugged ? emu_hostif_tclass(in->plug.plugged)
                                          : EMU_TCLASS_DEFAULT;
    }
}

/**
 * engine_next_link - return the link that sends next, if it can send by @until_ps; otherwise NULL.
 * Of several links, choose the link that can send earliest; then the link with the fewest packets
 * that await a reply; then the next in turn.
 */
static inline struct engine_link *engine_next_link(struct engine *e, uint64_t until_ps)
{
    struct engine_link *best = NULL;

    if (e->links == 1)
        return e->link->tx_ps <= until_ps ? e->link : NULL;
    for (uint32_t n = 1; n <= e->links; n++) {
        struct engine_link *l = &e->link[(e->send.last_served + n) % e->links];

        if (l->tx_ps > until_ps || (best && l->tx_ps > best->tx_ps))
            continue;
        if (!best || l->tx_ps < best->tx_ps ||
            emu_vcs_pending(&l->vcs) < emu_vcs_pending(&best->vcs))
            best = l;
    }
    return best;
}

/** engine_timers_ps - return when the first timer is due; EMU_NEVER: none. */
static inline uint64_t engine_timers_ps(const struct engine *e)
{
    uint64_t at_ps = EMU_NEVER;

    if (!engine_list_empty(&e->send.awaiting))
        at_ps = e->send.packet[e->send.awaiting.first].due_ps;
    if (!engine_list_empty(&e->send.backing_off))
        at_ps = emu_earlier(at_ps, e->send.packet[e->send.backing_off.first].due_ps);
    if (!engine_list_empty(&e->receive.parts))
        at_ps = emu_earlier(at_ps, e->receive.incoming[e->receive.parts.first].due_ps);
    if (!engine_list_empty(&e->receive.stored))
        at_ps = emu_earlier(at_ps, e->receive.incoming[e->receive.stored.first].due_ps);
    if (e->queries.any)
        at_ps = emu_earlier(at_ps, engine_queries_due_ps(&e->queries));
    return at_ps;
}

/** engine_rebase_timers - subtract @by_ps from all due times (engine.c). */
void engine_rebase_timers(struct engine *e, uint64_t by_ps);

/* --- timed.c, deliver.c: the engine on a clock that has times, real or virtual -------- */

struct engine_timed {
    struct engine base; /* must be first, because engine_timed_of() casts it */
    /* when the delivery continues; EMU_NEVER: nothing to deliver, or the host has no space */
    uint64_t out_ps;
    uint64_t recv_ps; /* time from the check of a packet until it is in the host's memory */
    /* least time from the delivery of a segment until it is in memory */
    uint64_t lookahead_ps;
    uint64_t handed_ps; /* when the last segment that was handed to the host is in its memory */
    /*
     * Both fields are times from the arrival of a segment's last byte until the engine could see
     * its entry (early_ps() in timed.c). early_ps is for the last segment of the packet that is
     * being delivered. last_early_ps is for the latest segment on each channel of each link, with
     * the same index as engine_receiving.incoming.
     */
    uint64_t early_ps;
    uint64_t last_early_ps[ENGINE_LINKS_MAX * EMU_VCS];
};

static inline struct engine_timed *engine_timed_of(struct engine *e)
{
    assert(e->dev.timed);
    return (struct engine_timed *)e;
}

#endif
