/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults of a cable: loss, corruption, duplication, delay.
 *
 * Faults apply at the receiver, between ring and device. What happens to an entry depends on the
 * seed and its number on the cable only, so a run is reproduced by its seed with any number of
 * workers.
 *
 * The credit of a lost segment is returned, since its slot at the receiver is free. A duplicate has
 * no credit: no slot was reserved for it. A delayed entry is overtaken by later ones.
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

#define EMU_FAULT_DELAYED 16u /* delayed entries of a cable at most; further ones arrive in time */
#define EMU_FAULT_UNIT    1000000u /* rates are per so many entries */

/* Per EMU_FAULT_UNIT entries; the sum is at most EMU_FAULT_UNIT. */
struct emu_fault_rates {
    uint32_t lost;
    uint32_t head;    /* one bit of the header or continuation is flipped; a reply is lost */
    uint32_t payload; /* one bit of the payload; without one, of the header */
    uint32_t twice;   /* a duplicate follows later */
    uint32_t late;    /* delayed */
    uint64_t late_ps; /* by at most this; clock raw: by at most EMU_FAULT_DELAYED entries */
};

/* What a device learns about an entry besides its contents. */
enum emu_fate {
    EMU_FATE_ARRIVED, /* possibly damaged: checksums show it */
    EMU_FATE_LOST,    /* only its credit remains */
    EMU_FATE_TWICE,   /* a duplicate, without a credit */
    EMU_FATE_DAMAGED  /* lost, but noticed: on cables with a checksum */
};

struct emu_fault_delayed {
    uint64_t due_ps;  /* arrival; raw: 0 */
    uint64_t passing; /* raw: arrives once so many entries were seen; timed: 0 */
    struct emu_entry entry;
    uint32_t number; /* see struct emu_faults */
    enum emu_fate fate;
};

#define EMU_FAULT_SEEN 64u /* groups that an EMU_FAULT_SEE rule can track */

/* Occurrences of one group for an EMU_FAULT_SEE rule. */
struct emu_fault_seen {
    uint32_t group;
    uint64_t count; /* 0: unused element */
};

/* A rule on a cable. */
struct emu_fault_armed {
    struct emu_fault_rule rule;
    uint32_t fault;              /* number of the fault, for the log */
    uint64_t seed;               /* of its random numbers */
    uint64_t aimed;              /* entries that it matched so far */
    struct emu_fault_seen *seen; /* EMU_FAULT_SEE: EMU_FAULT_SEEN elements; else NULL */
    _Atomic uint64_t hits;       /* matched entries that were hit */
};

/* Owned by the receiving device. */
struct emu_faults {
    struct emu_fault_rates rates;
    bool down;          /* link down: everything on the cable is lost */
    uint32_t link_down; /* down: number of the fault that did it; 0: not logged */
    uint32_t rules;
    struct emu_fault_armed *armed; /* the first rule that hits an entry applies */
    struct emu_fault_log *log;     /* may be NULL */
    uint32_t name;                 /* of this direction of the cable, in the log */
    /*
     * The cable carries segments, and its checksum finds all damage: damaged ones are dropped
     * (intake.h). False: packets on channels.
     */
    bool checked;
    const uint32_t *numbers; /* by ring slot: link-level sequence numbers; may be NULL */
    uint32_t number;         /* of the entry taken last */
    uint32_t forges;         /* credits that may still be forged: the rings have space for them */
    uint64_t seed;
    uint64_t seen;  /* entries so far */
    uint64_t tried; /* test packets so far */
    uint32_t held;
    struct emu_fault_delayed at[EMU_FAULT_DELAYED]; /* by arrival */
    struct {
        _Atomic uint64_t seen, lost, damaged, twice, late;
        _Atomic uint64_t link_down; /* of the lost: because the link was down */
    } counts;
};

/** emu_faults_init - @seed: different for each cable. */
void emu_faults_init(struct emu_faults *faults, const struct emu_fault_rates *rates, uint64_t seed);

/**
 * emu_faults_add - append a rule. @fault: its number in the log, not 0. @seed: of its random
 * numbers. Errors: -ENOMEM. Thread: any, while workers are stopped; so for the next three.
 */
int emu_faults_add(struct emu_faults *faults, const struct emu_fault_rule *rule, uint32_t fault,
                   uint64_t seed);

/** emu_faults_remove - remove the rules of @fault. Returns how many entries they hit. */
uint64_t emu_faults_remove(struct emu_faults *faults, uint32_t fault);

/** emu_faults_hits - entries that the rules of @fault have hit. */
uint64_t emu_faults_hits(const struct emu_faults *faults, uint32_t fault);

/** emu_faults_note - log that @fault hit @entry at @at_ps without a rule. */
void emu_faults_note(const struct emu_faults *faults, const struct emu_pool_cache *cache,
                     const struct emu_entry *entry, uint32_t fault, enum emu_fault_what what,
                     uint64_t at_ps);

/** emu_faults_next_ps - timed: emu_rx_next_ps() with faults applied. */
uint64_t emu_faults_next_ps(const struct emu_faults *faults, struct emu_rx *rx);

/**
 * emu_faults_take - take the oldest entry that has arrived by @until_ps. False: there is none.
 * @cache: the receiver's. @entry: a copy; the caller gets its buffer reference.
 * Thread: the receiving device's.
 */
bool emu_faults_take(struct emu_faults *faults, struct emu_rx *rx, struct emu_pool_cache *cache,
                     uint64_t until_ps, struct emu_entry *entry, enum emu_fate *fate);

/**
 * emu_faults_credit - apply faults to a credit being returned for this direction. Returns how many
 * to send: 0, 1 or 2. @at_ps: the current time on timed clocks. Thread: the receiving device's.
 */
uint32_t emu_faults_credit(struct emu_faults *faults, const struct emu_rx *rx, uint64_t at_ps);

/**
 * emu_faults_fold - a contribution with header @hdr was combined into @state at @at_ps: a rule may
 * flip a bit there, in a copy if the buffer is shared; then *@state is the copy. @begins: it is the
 * first contribution to the operation here. Returns whether a bit was flipped. Thread: the
 * device's.
 */
bool emu_faults_fold(struct emu_faults *faults, struct emu_pool_cache *cache,
                     const struct emu_hdr *hdr, uint32_t *state, bool begins, bool timed,
                     uint64_t at_ps);

/** emu_rx_take - emu_faults_take() for any cable with channels; @faults may be NULL. */
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

/** emu_faults_errors - entries lost or damaged so far. Thread: any. */
uint64_t emu_faults_errors(const struct emu_faults *faults);

/** emu_faults_seen - entries so far. Thread: any. */
static inline uint64_t emu_faults_seen(const struct emu_faults *faults)
{
    return emu_count_read(&faults->counts.seen);
}

/**
 * emu_faults_try - send @packets pseudo-random packets over the unused cable. Returns how many
 * arrive damaged or not at all. Thread: any, while workers are stopped.
 * Source: QsNet III §V (link bring-up, step 3).
 */
uint32_t emu_faults_try(struct emu_faults *faults, uint32_t packets);

/** emu_faults_bufs - pool buffers of delayed entries. Thread: any, while workers are stopped. */
uint32_t emu_faults_bufs(const struct emu_faults *faults);
/** emu_faults_rebase - subtract @by_ps from all times. Thread: any, while workers are stopped. */
void emu_faults_rebase(struct emu_faults *faults, uint64_t by_ps);

/** emu_faults_drop - drop delayed entries and rules. Thread: any, while workers are stopped. */
void emu_faults_drop(struct emu_faults *faults, struct emu_pool_cache *cache);

#endif
