/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults of a cable: loss, corruption, duplication and delay of entries.
 *
 * An *entry* is a segment, or on cables with channels also a reply (emu/buffer/ring.h). The
 * receiving device applies the faults when it takes an entry out of the cable's ring. The effect on
 * an entry depends only on the seed and on the entry's number on the cable. Therefore the same seed
 * gives the same faults with any number of workers.
 *
 * A fault comes from one of two sources: *rates*, which hit random entries, and *rules*, which hit
 * entries with certain properties (emu/packet/rule.h).
 *
 * The receiver returns the credit of a lost segment, because the segment's slot at the receiver is
 * free. A duplicate has no credit, because no slot was reserved for it. Later entries overtake a
 * delayed entry. Comments that begin with "raw" or "timed" hold for that kind of clock only.
 *
 * Thread, unless a function says otherwise: the receiving device's worker, or any while workers are
 * stopped.
 */
#ifndef EMU_FAULT_H
#define EMU_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/pool.h"
#include "emu/buffer/ring.h"
#include "emu/fault/log.h"
#include "emu/link/link.h"
#include "emu/packet/rule.h"
#include "emu/util/count.h"

#define EMU_FAULT_DELAYED 16u      /* a cable holds at most this many delayed entries */
#define EMU_FAULT_UNIT    1000000u /* rates are numbers of entries out of this many */

/* How many of EMU_FAULT_UNIT entries each fault hits. The sum is at most EMU_FAULT_UNIT. */
struct emu_fault_rates {
    uint32_t lost;
    /*
     * One bit of the segment's header is flipped. (All segments of a packet but the first have a
     * continuation header.) A reply is lost instead.
     */
    uint32_t head;
    /* one bit of the payload is flipped, or of the header if there is no payload */
    uint32_t payload;
    uint32_t duplicated; /* a duplicate arrives later */
    uint32_t late;       /* the entry arrives later */
    /* longest delay. On clock raw instead, up to EMU_FAULT_DELAYED entries overtake the entry. */
    uint64_t late_ps;
};

/* What happened to an entry on the cable. */
enum emu_fate {
    EMU_FATE_ARRIVED,    /* it arrived; it may have a flipped bit, which the packet's CRC shows */
    EMU_FATE_LOST,       /* it is lost; the device only returns its credit */
    EMU_FATE_DUPLICATED, /* it is a duplicate, which has no credit */
    EMU_FATE_DAMAGED     /* its checksum (`checked`) was wrong, so it is lost */
};

struct emu_fault_delayed {
    uint64_t due_ps;  /* time of arrival; raw: 0 */
    uint64_t passing; /* raw: the entry arrives when `seen` has reached this number; timed: 0 */
    struct emu_entry entry;
    uint32_t number; /* link-level sequence number: see struct emu_faults.number */
    enum emu_fate fate;
};

#define EMU_FAULT_SEEN 64u /* number of groups that an EMU_FAULT_SEE rule can track */

/* How often an EMU_FAULT_SEE rule has matched one group. */
struct emu_fault_seen {
    uint32_t group;
    uint64_t count; /* 0: unused element */
};

/* A rule that is active on a cable. */
struct emu_fault_armed {
    struct emu_fault_rule rule;
    uint32_t fault; /* number of the fault, for the log */
    uint64_t seed;
    uint64_t aimed;              /* entries that the rule matched so far */
    struct emu_fault_seen *seen; /* EMU_FAULT_SEE: array of EMU_FAULT_SEEN elements; else NULL */
    _Atomic uint64_t hits;       /* matched entries to which the rule was applied */
};

/* The faults of one direction of a cable. Owned by the receiving device. */
struct emu_faults {
    struct emu_fault_rates rates;
    bool down;          /* the link is down: all entries are lost */
    uint32_t link_down; /* number of the fault that took the link down; 0: not logged */
    uint32_t rules;
    /* `rules` elements; only the first rule that hits an entry may change the entry */
    struct emu_fault_armed *armed;
    struct emu_fault_log *log; /* may be NULL: nothing is logged */
    uint32_t name;             /* number of this direction of the cable, used in the log */
    /*
     * The cable has a checksum that finds every flipped bit, so damaged segments are dropped. This
     * holds for all cables without channels (retry/intake.h). On a cable with channels damaged
     * packets are delivered.
     */
    bool checked;
    const uint32_t *numbers; /* by slot of the cable's ring: sequence numbers; may be NULL */
    uint32_t number;         /* sequence number of the entry taken last */
    /*
     * How many more credits may be forged, that is, returned twice (emu_faults_credit()). A forged
     * credit permits one more segment, for which the cable's ring needs an extra slot.
     */
    uint32_t forges_left;
    uint64_t seed;
    uint64_t seen;  /* number of entries so far */
    uint64_t tried; /* number of test packets so far: emu_faults_try() */
    uint32_t held;
    /* delayed entries, in the order of arrival: the first `held` elements */
    struct emu_fault_delayed at[EMU_FAULT_DELAYED];
    struct {
        _Atomic uint64_t seen, lost, damaged, duplicated, late;
        /* part of `lost`: entries that were lost because the link was down */
        _Atomic uint64_t link_down;
    } counts;
};

/** emu_faults_init - initialize @faults. @seed: different for each direction of each cable. */
void emu_faults_init(struct emu_faults *faults, const struct emu_fault_rates *rates, uint64_t seed);

/**
 * emu_faults_add - append a rule. @fault: the number of the fault in the log, not 0. @seed: the
 * seed of the rule's random numbers. Errors: -ENOMEM.
 */
int emu_faults_add(struct emu_faults *faults, const struct emu_fault_rule *rule, uint32_t fault,
                   uint64_t seed);

/** emu_faults_remove - remove the rules of @fault. Returns how many entries they have hit. */
uint64_t emu_faults_remove(struct emu_faults *faults, uint32_t fault);

/** emu_faults_hits - return how many entries the rules of @fault have hit. */
uint64_t emu_faults_hits(const struct emu_faults *faults, uint32_t fault);

/** emu_faults_note - log that @fault, which has no rule here, affected @entry at @at_ps. */
void emu_faults_note(const struct emu_faults *faults, const struct emu_pool_cache *cache,
                     const struct emu_entry *entry, uint32_t fault, enum emu_fault_what what,
                     uint64_t at_ps);

/** emu_faults_next_ps - timed: return when the next entry, perhaps a delayed one, arrives. */
uint64_t emu_faults_next_ps(const struct emu_faults *faults, struct emu_rx *rx);

/**
 * emu_faults_take - take the oldest entry that has arrived by @until_ps, and decide its fate.
 * Returns false if no entry has arrived. @cache: the buffer cache of the receiver's worker. @entry:
 * receives a copy of the entry; the caller then owns the entry's reference to a pool buffer.
 */
bool emu_faults_take(struct emu_faults *faults, struct emu_rx *rx, struct emu_pool_cache *cache,
                     uint64_t until_ps, struct emu_entry *entry, enum emu_fate *fate);

/**
 * emu_faults_credit - apply the rules to a credit that the receiver is about to return. Returns how
 * many credits to send instead: 0 (lost), 1, or 2 (one is forged). @at_ps: the current time on
 * timed clocks.
 */
uint32_t emu_faults_credit(struct emu_faults *faults, const struct emu_rx *rx, uint64_t at_ps);

/**
 * emu_faults_fold - apply the rules to a partial result of a combine unit, which is in buffer
 * *@state. At @at_ps a contribution with header @hdr was combined into it. A rule may flip one bit
 * of the result. If the buffer is shared, the bit is flipped in a copy, and *@state becomes the
 * copy.
 * @begins: the contribution is the first one of its operation at this switch. Returns whether a bit
 * was flipped. Thread: the combine unit's worker.
 */
bool emu_faults_fold(struct emu_faults *faults, struct emu_pool_cache *cache,
                     const struct emu_hdr *hdr, uint32_t *state, bool begins, bool timed,
                     uint64_t at_ps);

/**
 * emu_rx_take - take the oldest entry of a cable with channels, like emu_faults_take(). @faults may
 * be NULL.
 */
static inline bool emu_rx_take(struct emu_rx *rx, struct emu_faults *faults,
                               struct emu_pool_cache *cache, uint64_t until_ps,
                               struct emu_entry *entry, enum emu_fate *fate)
{
    const struct emu_entry *front;

    if (__builtin_expect(faults != NULL, 0))
        return emu_faults_take(faults, rx, cache, until_ps, entry, fate);
    front = emu_rx_front(rx, until_ps);
    if (!front)
        return false;
    *entry = *front;
    *fate = EMU_FATE_ARRIVED;
    emu_rx_skip(rx); /* empty the slot before its credit is returned */
    emu_rx_done(rx, 1);
    return true;
}

/** emu_faults_errors - return the number of entries that were lost or damaged. Thread: any. */
uint64_t emu_faults_errors(const struct emu_faults *faults);

/** emu_faults_seen - return the number of entries so far. Thread: any. */
static inline uint64_t emu_faults_seen(const struct emu_faults *faults)
{
    return emu_count_read(&faults->counts.seen);
}

/**
 * emu_faults_try - test an unused cable with @packets pseudo-random packets. Returns how many of
 * them are lost or arrive damaged.
 * Source: QsNet III §V (link bring-up, step 3).
 */
uint32_t emu_faults_try(struct emu_faults *faults, uint32_t packets);

/** emu_faults_bufs - return the number of pool buffers of delayed entries. */
uint32_t emu_faults_bufs(const struct emu_faults *faults);

/** emu_faults_rebase - subtract @by_ps from the times of all delayed entries. */
void emu_faults_rebase(struct emu_faults *faults, uint64_t by_ps);

/** emu_faults_drop - drop all delayed entries and rules. */
void emu_faults_drop(struct emu_faults *faults, struct emu_pool_cache *cache);

#endif
