/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.c - the plain counter: a credit returns when the last copy of its segment has left.
 *
 * Source: output-queued routers §2. docs/ARCHITECTURE.md, section 4, explains the two possible
 * readings of the credit counter in this paper.
 */
#include "switch/crosspoint/counter.h"

#include <stdlib.h>

#include "switch/crosspoint/admit.h"
#include "switch/crosspoint/raw.h"
#include "switch/crosspoint/timed.h"

static bool counter_fits(const struct emu_profile *profile)
{
    return switch_crosspoints_fit(profile, EMU_CREDIT_COUNTER);
}

/* Count @count copies of a multicast from row @r. Returns 1 + the index of their counter. */
static uint8_t counter_share(struct switch_crosspoints *xp, uint32_t r, uint32_t count)
{
    uint8_t *left = switch_copies_of(&xp->bar.sw)->left[r];
    uint8_t i = 0;

    while (left[i])
        i++;
    left[i] = (uint8_t)count;
    return (uint8_t)(i + 1);
}

/* Note that the segment in @slot has left row @r. Returns the number of credits owed: 0 or 1. */
static inline uint32_t copies_leave(struct switch_copies *copies, uint32_t r, uint32_t slot)
{
    uint32_t of = copies->of[slot];

    return !of || !--copies->left[r][of - 1];
}

/* --- clock raw ---------------------------------------------------------------------- */

static inline struct switch_copies *raw_copies(struct switch_crosspoints *xp)
{
    return &((struct switch_counter_raw *)xp)->copies;
}

static inline void raw_put(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                           const struct emu_entry *entry, uint8_t share)
{
    raw_copies(xp)->of[switch_put_slot(xp, r, o, entry)] = share;
    xp->bar.runnable |= emu_port(o);
}

static inline struct emu_entry *raw_dequeue(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t slot = switch_dequeue_slot(xp, r, o);

    xp->bar.row[r].rx.owed += copies_leave(raw_copies(xp), r, slot);
    return &xp->bar.store.slot[slot];
}

static void raw_admit(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    xp->bar.row[r].rx.owed += !switch_admit(xp, r, entry, false, raw_put);
}

static inline uint32_t raw_take(struct switch_crosspoints_raw *raw, uint32_t r)
{
    return raw_take_port(&raw->xp, r, raw_admit);
}

static uint32_t counter_step_raw(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_pass counter_pass = {.take = raw_take,
                                                    .dequeue = raw_dequeue,
                                                    .settle = switch_row_owed};

    (void)until_ps;
    return switch_pass_run((struct switch_crosspoints_raw *)dev, &counter_pass);
}

/* --- timed clocks ------------------------------------------------------------------- */

static inline struct switch_copies *timed_copies(struct switch_crosspoints *xp)
{
    return &((struct switch_counter_timed *)xp)->copies;
}

static inline void timed_put(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                             const struct emu_entry *entry, uint8_t share)
{
    timed_copies(xp)->of[switch_put_slot(xp, r, o, entry)] = share;
    xp->bar.runnable |= emu_port(o);
    switch_level_gains(xp, r, o);
}

static inline struct emu_entry *timed_dequeue(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t slot = switch_dequeue_slot(xp, r, o);

    switch_level_loses(xp, r, o);
    xp->bar.row[r].rx.owed += copies_leave(timed_copies(xp), r, slot);
    return &xp->bar.store.slot[slot];
}

static void timed_admit(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    switch_little_until(&xp->bar.little, entry->time_ps);
    xp->bar.row[r].rx.owed += !switch_admit(xp, r, entry, false, timed_put);
}

static uint32_t counter_step_timed(struct emu_dev *dev, uint64_t until_ps)
{
    static const struct switch_timed counter = {.admit = timed_admit, .dequeue = timed_dequeue};

    return switch_timed_run(dev, until_ps, &counter);
}

/* --- the kind ----------------------------------------------------------------------- */

static size_t counter_bytes(uint32_t ports, const struct emu_profile *profile)
{
    uint32_t slots = switch_crosspoints_segments(ports, profile);

    return switch_crosspoints_bytes(ports, slots, profile) + sizeof(struct switch_copies) +
           ports * EMU_XPOINT_MAX + slots * sizeof(uint16_t);
}

static void counter_destroy(struct switch_dev *sw)
{
    free(switch_copies_of(sw)->left);
    emu_sparse_free(switch_copies_of(sw)->of);
    switch_crosspoints_free(switch_crosspoints_of(sw));
}

static bool counter_init(struct switch_dev *sw)
{
    static const struct switch_access raw = {.put = raw_put,
                                             .dequeue = raw_dequeue,
                                             .share = counter_share,
                                             .fast_path = true};
    static const struct switch_access timed = {.put = timed_put,
                                               .dequeue = timed_dequeue,
                                               .share = counter_share};
    struct switch_copies *copies = switch_copies_of(sw);
    uint32_t slots = switch_crosspoints_segments(sw->ports, sw->profile);

    if (!switch_crosspoints_init(switch_crosspoints_of(sw), slots, sw->dev.timed ? &timed : &raw))
        return false;
    copies->left = calloc(sw->ports, sizeof *copies->left);
    copies->of = emu_sparse_alloc(slots * sizeof *copies->of);
    return copies->left && copies->of;
}

/* Return how many segments row @r holds. The copies of one segment count as one. */
static uint32_t counter_holds(struct switch_crosspoints *xp, uint32_t r)
{
    const struct switch_copies *copies = switch_copies_of(&xp->bar.sw);
    const struct switch_crossbar *bar = &xp->bar;
    uint32_t holds = 0;

    for (uint32_t o = 0; o < bar->rows; o++) {
        uint32_t slot = switch_xpoint(bar, r, o)->first;

        for (uint32_t left = *switch_count(bar, r, o); left; left--) {
            holds += !copies->of[slot];
            slot = bar->store.next[slot];
        }
    }
    for (uint32_t i = 0; i < EMU_XPOINT_MAX; i++)
        holds += copies->left[r][i] != 0;
    return holds;
}

static const char *counter_check_row(struct switch_dev *sw, uint32_t r, uint64_t now_ps,
                                     uint64_t *held, uint64_t *waited_ps)
{
    struct switch_crosspoints *xp = switch_crosspoints_of(sw);
    const char *wrong = switch_crosspoints_check_row(xp, r);

    (void)now_ps, (void)held, (void)waited_ps;
    if (wrong || r >= sw->ports)
        return wrong;
    return switch_crossbar_check_cable(&xp->bar, r, counter_holds(xp, r));
}

const struct switch_kind switch_counter_kind = {
    .raw = {sizeof(struct switch_counter_raw), counter_step_raw},
    .timed = {sizeof(struct switch_counter_timed), counter_step_timed, switch_fetch_timed},
    .fits = counter_fits,
    .segments = switch_crosspoints_segments,
    .bytes = counter_bytes,
    .init = counter_init,
    .destroy = counter_destroy,
    .check_row = counter_check_row,
    .bufs = switch_crossbar_bufs,
    .holds = switch_crossbar_holds,
    SWITCH_CROSSPOINTS_KIND,
};
