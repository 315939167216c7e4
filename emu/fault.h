/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - what can go wrong on a cable with channels: loss, damage, doubles, delays.
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

#include "emu/link/link.h"
#include "emu/link/pool.h"
#include "emu/link/ring.h"

#define EMU_FAULT_HELD 16u      /* entries of a cable that can be late at a time; more are not */
#define EMU_FAULT_UNIT 1000000u /* rates are of so many entries */

/* How often, in EMU_FAULT_UNIT entries; all together at most so often. */
struct emu_fault_rates {
    uint32_t lost;
    uint32_t head;    /* one bit of the header or continuation is flipped; a reply is lost */
    uint32_t payload; /* one bit of the payload; without one, of the header */
    uint32_t twice;   /* a second copy follows, after up to late_ps */
    uint32_t late;    /* by up to late_ps */
    uint64_t late_ps; /* raw: instead, up to as many entries as can be held */
};

/* What a device learns of an entry beside what stands in it. */
enum emu_fate {
    EMU_FATE_ARRIVED, /* perhaps damaged: checksums tell */
    EMU_FATE_LOST,    /* nothing is left of it but its credit */
    EMU_FATE_TWICE    /* it arrived before: no credit stands for it */
};

struct emu_fault_held {
    uint64_t due; /* timed: ps; raw: entries seen */
    struct emu_entry entry;
    enum emu_fate fate;
};

/* All of it is the receiving device's. */
struct emu_faults {
    struct emu_fault_rates rates;
    uint64_t seed;
    uint64_t seen; /* entries judged so far */
    uint32_t held;
    struct emu_fault_held at[EMU_FAULT_HELD]; /* by `due` */
    struct {
        uint64_t lost, damaged, twice, late;
    } counts;
};

/** emu_faults_init - @seed: of this cable; others have others. */
void emu_faults_init(struct emu_faults *faults, const struct emu_fault_rates *rates, uint64_t seed);

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

/** emu_faults_bufs - pool buffers that held entries have. Thread: while the workers stand still. */
uint32_t emu_faults_bufs(const struct emu_faults *faults);
/**
 * emu_faults_rebase - timed: what is held, when the clock is rebased. Thread: while the workers
 * stand still.
 */
void emu_faults_rebase(struct emu_faults *faults, uint64_t by_ps);

/** emu_faults_drop - forget what is held, at the end. Thread: while the workers stand still. */
void emu_faults_drop(struct emu_faults *faults, struct emu_pool_cache *cache);

#endif
