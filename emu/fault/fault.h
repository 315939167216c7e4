/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - what can go wrong on a cable: loss, damage, doubles, delays.
 *
 * The faults of a cable stand at its receiving end, between the ring and the
 * device. What happens to an entry is drawn from the seed and its number on the
 * cable alone, so a run is replayed by its seed, on any number of workers.
 *
 * A lost segment's credit is not lost: the far end's slot was set aside, and is
 * free. A second copy has none: no slot was set aside for it. An entry that
 * comes late is overtaken by those behind it.
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

#define EMU_FAULT_HELD 16u      /* entries of a cable that can be late at a time; more are not */
#define EMU_FAULT_UNIT 1000000u /* rates are of so many entries */

/* How often, in EMU_FAULT_UNIT entries; all together at most so often. */
struct emu_fault_rates {
    uint32_t lost;
    uint32_t head;    /* one bit of the header or continuation is flipped; a reply is lost */
    uint32_t payload; /* one bit of the payload; without one, of the header */
    uint32_t twice;   /* a second copy follows late */
    uint32_t late;    /* it comes late */
    uint64_t late_ps; /* so late at most; on clock raw after EMU_FAULT_HELD others at most */
};

/* What a device learns of an entry beside what stands in it. */
enum emu_fate {
    EMU_FATE_ARRIVED, /* perhaps damaged: checksums tell */
    EMU_FATE_LOST,    /* nothing is left of it but its credit */
    EMU_FATE_TWICE,   /* it arrived before: no credit stands for it */
    EMU_FATE_DAMAGED  /* as lost, and noticed: on cables that are checked */
};

struct emu_fault_held {
    uint64_t due_ps;  /* it comes at that time: on clock raw, which is always at 0, 0; */
    uint64_t passing; /* and when so many entries were judged: on a timed clock 0 */
    struct emu_entry entry;
    uint32_t number; /* the cable's own for it: see struct emu_faults */
    enum emu_fate fate;
};

#define EMU_FAULT_SEEN 64u /* groups that a rule to see something counts for, at most */

/* A group, and how much of what a rule is to see was of it. */
struct emu_fault_seen {
    uint32_t group;
    uint64_t count; /* 0: nobody's */
};

/* A rule on a cable. */
struct emu_fault_armed {
    struct emu_fault_rule rule;
    uint32_t fault;              /* whose rule it is: for the log */
    uint64_t seed;               /* of its draws */
    uint64_t aimed;              /* entries that it was about so far */
    struct emu_fault_seen *seen; /* EMU_FAULT_SEE: EMU_FAULT_SEEN of them; else NULL */
    _Atomic uint64_t hits;       /* of them, those that it hit */
};

/* All of it is the receiving device's. */
struct emu_faults {
    struct emu_fault_rates rates;
    bool down;     /* the cable has no signal: all that is on it is lost */
    uint32_t dark; /* down: by which fault; 0: none that is logged */
    uint32_t rules;
    struct emu_fault_armed *armed; /* rules of them: the first that hits an entry counts */
    struct emu_fault_log *log;     /* NULL: hits are not logged */
    uint32_t name;                 /* of this way of the cable, in the log */
    /*
     * The cable carries segments with their own headers; its checksum finds all damage, and what is
     * damaged is dropped (intake.h). False: packets, on channels.
     */
    bool checked;
    const uint32_t *numbers; /* by slot of the ring: the cable's number of an entry; NULL: none */
    uint32_t number;         /* of the entry that was taken last */
    uint32_t forges;         /* so many credits more may be forged: the rings have room for them */
    uint64_t seed;
    uint64_t seen;  /* entries judged so far */
    uint64_t tried; /* packets of test patterns */
    uint32_t held;
    struct emu_fault_held at[EMU_FAULT_HELD]; /* in the order in which they come */
    struct {
        _Atomic uint64_t seen, lost, damaged, twice, late;
        _Atomic uint64_t dark; /* of the lost, those that were on it when it was down */
    } counts;
};

/** emu_faults_init - @seed: of this cable; others have others. */
void emu_faults_init(struct emu_faults *faults, const struct emu_fault_rates *rates, uint64_t seed);

/**
 * emu_faults_add - a rule stands on the cable from now on, behind those that do.
 * @fault: names it in the log, above 0. @seed: of its draws. Errors: -ENOMEM.
 * Thread: while the workers stand still, as the next two.
 */
int emu_faults_add(struct emu_faults *faults, const struct emu_fault_rule *rule, uint32_t fault,
                   uint64_t seed);

/** emu_faults_remove - the rules of @fault. Returns how many entries they hit. */
uint64_t emu_faults_remove(struct emu_faults *faults, uint32_t fault);

/** emu_faults_hits - entries that the rules of @fault have hit. */
uint64_t emu_faults_hits(const struct emu_faults *faults, uint32_t fault);

/**
 * emu_faults_note - into the log: @entry was hit by @fault at @at_ps, in a way that no rule does.
 * Thread: while the workers stand still.
 */
void emu_faults_note(const struct emu_faults *faults, const struct emu_pool_cache *cache,
                     const struct emu_entry *entry, uint32_t fault, enum emu_fault_what what,
                     uint64_t at_ps);

/** emu_faults_next_ps - timed: emu_rx_next_ps() behind the faults. */
uint64_t emu_faults_next_ps(const struct emu_faults *faults, struct emu_rx *rx);

/**
 * emu_faults_take - take the oldest entry that has arrived by @until_ps; false: there is none.
 * @cache: the receiver's. @entry: a copy; its buffer reference passes to the caller.
 * Thread: the receiving device's.
 */
bool emu_faults_take(struct emu_faults *faults, struct emu_rx *rx, struct emu_pool_cache *cache,
                     uint64_t until_ps, struct emu_entry *entry, enum emu_fate *fate);

/**
 * emu_faults_credit - what becomes of a credit for what came by this way of the cable, as it is
 * given back: so many go, 0, 1 or 2. @rx: the receiving end; @at_ps: now, on timed clocks. Thread:
 * the receiving device's.
 */
uint32_t emu_faults_credit(struct emu_faults *faults, const struct emu_rx *rx, uint64_t at_ps);

/**
 * emu_faults_fold - a contribution of @hdr has been taken into the state of its operation, which is
 * in @state, at @at_ps: a rule may flip a bit there, in a copy if the buffer has other holders.
 * @state: the buffer; the reference passes. @begins: it is the first one to its operation here.
 * Returns whether a bit was flipped. Thread: the device's.
 */
bool emu_faults_fold(struct emu_faults *faults, struct emu_pool_cache *cache,
                     const struct emu_hdr *hdr, uint32_t *state, bool begins, bool timed,
                     uint64_t at_ps);

/**
 * emu_rx_take - the same of any cable with channels; @faults: those on it, or NULL.
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
    emu_rx_skip(rx); /* the slot before the credit that lets it be filled */
    emu_rx_done(rx, 1);
    return true;
}

/** emu_faults_errors - entries that were lost or damaged so far. Thread: any. */
uint64_t emu_faults_errors(const struct emu_faults *faults);

/** emu_faults_seen - of so many. Thread: any. */
static inline uint64_t emu_faults_seen(const struct emu_faults *faults)
{
    return emu_count_read(&faults->counts.seen);
}

/**
 * emu_faults_try - send @packets pseudo-random ones over the cable, which carries nothing else:
 * how many arrive with an error, or do not. Thread: while the workers stand still.
 * Source: QsNet III §V (link bring-up, step 3).
 */
uint32_t emu_faults_try(struct emu_faults *faults, uint32_t packets);

/** emu_faults_bufs - pool buffers that held entries have. Thread: while the workers stand still. */
uint32_t emu_faults_bufs(const struct emu_faults *faults);
/**
 * emu_faults_rebase - timed: what is held, when the clock is rebased. Thread: while the workers
 * stand still.
 */
void emu_faults_rebase(struct emu_faults *faults, uint64_t by_ps);

/**
 * emu_faults_drop - forget what is held, and the rules, at the end. Thread: while the workers stand
 * still.
 */
void emu_faults_drop(struct emu_faults *faults, struct emu_pool_cache *cache);

#endif
