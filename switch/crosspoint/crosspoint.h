/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.h - the output-queued router with crosspoint buffers and combine units: its machine.
 *
 * A machine is one of these structs and begins with struct switch_crosspoints, which has what all
 * of them have; the router of input/fifo.c has machines of its own. All of it is the switch's
 * worker's. What a segment meets, in order: admit.c (or through.c), then send.c on clock raw and
 * timed.h where the clock has times; a contribution to a reduction turns off into combine.c.
 */
#ifndef SWITCH_CROSSPOINT_H
#define SWITCH_CROSSPOINT_H

#include "switch/cables.h"
#include "switch/crossbar.h"

/* Twice the groups that can combine: one that is gone may still stand in a list. */
#define SWITCH_PENDING_MAX (2 * SWITCH_COMBINING_MAX)
static_assert((SWITCH_PENDING_MAX & (SWITCH_PENDING_MAX - 1)) == 0, "their numbers may wrap");

#define SWITCH_BURST 64 /* segments taken from one port in one pass */

/*
 * Credits under the row guarantee keep
 *
 *     sender's credits + credits and segments on the wire + fullest crosspoint = xpoint_slots,
 *
 * so an arrival that does not raise the fullest crosspoint owes its credit at
 * once, and a departure that lowers the fullest owes one. A timed clock keeps
 * the fullest at every event (struct switch_level); raw settles once a pass, for any number
 * of arrivals and departures: the arrivals, less what the fullest rose.
 */
struct switch_settling {
    uint32_t arrived; /* segments since the row's credits were last settled */
    uint8_t fullest;  /* segments at its fullest crosspoint then */
};

/* Where the clock has times: how full the crosspoints of a row are now. */
struct switch_level {
    uint8_t fullest;                /* segments at the fullest of them */
    uint8_t at[EMU_XPOINT_MAX + 1]; /* those that hold so many segments */
};

/* Where the clock has times: what a combine unit does. */
struct switch_work {
    bool working; /* on the oldest segment of `row`, until its next act */
    uint8_t row;
    uint64_t free_ps; /* when its last work ended */
};

/* What the machine keeps where the clock has times. */
struct switch_timing {
    struct switch_agenda agenda;
    struct switch_little little;
    struct switch_level *level; /* rows */
    struct switch_work *work;   /* units */
};

/* By the plain counter, a part of its own: a credit is back when the last copy has left. */
struct switch_copies {
    /* ports: copies of a multicast not yet sent; there is one a credit */
    uint8_t (*left)[EMU_XPOINT_MAX];
    uint16_t *of; /* like slot: 1 + index into its row's left, or 0 */
};

/* A combine unit: output and row number `ports` + its own number. */
struct switch_unit {
    uint32_t first; /* groups with results that wait for room in its row: free-running */
    uint32_t last;
    uint32_t *group; /* their ids, SWITCH_PENDING_MAX; each at most once */
};

/* What is wrong with the combine units. */
struct switch_ailing {
    struct emu_faults *faults; /* what is folded goes by them; NULL: by none */
    bool stalled;
    uint64_t held; /* timed: units that were to act while they stood still */
};

/* What every machine with crosspoints has. */
struct switch_crosspoints {
    struct switch_crossbar bar;
    /* outputs that no segment passes without a stop at a crosspoint; see switch_passes() */
    uint64_t shut;
    uint32_t xpoint_slots;        /* a copy of the profile's, for the path of every segment */
    uint32_t units;               /* combine units */
    uint32_t leaf_ports;          /* ports that one leaf unit serves */
    struct switch_unit *unit;     /* units */
    struct switch_ailing *ailing; /* NULL: nothing was ever wrong with them */
    struct switch_copies *copies; /* NULL: credits are not accounted for by the plain counter */
};

/* The machine on clock raw. */
struct switch_crosspoints_raw {
    struct switch_crosspoints xp;
    /* rows that something came to, or left, in this pass: they may owe credits */
    uint64_t touched;
};

/* The machine on clock raw with the row guarantee: the only one that outputs are open in. */
struct switch_crosspoints_row {
    struct switch_crosspoints_raw raw;
    struct switch_settling *settling; /* ports */
    /* outputs that this pass has looked at: they are shut now, or have room */
    uint64_t open;
    /* by output in `open`: segments that may pass through in this pass */
    uint32_t room[SWITCH_ROWS_MAX];
};

/* The machine where the clock has times: sw.dev.timed. */
struct switch_crosspoints_timed {
    struct switch_crosspoints xp;
    struct switch_timing timing;
};

/* Every machine with crosspoints begins with them. */
static inline struct switch_crosspoints *switch_crosspoints_of(struct switch_dev *sw)
{
    return (struct switch_crosspoints *)sw;
}

/* Only on clock raw with the row guarantee. */
static inline struct switch_crosspoints_row *switch_row_of(struct switch_crosspoints *xp)
{
    return (struct switch_crosspoints_row *)xp;
}

/* Only where the clock has times. */
static inline struct switch_timing *switch_timing_of(struct switch_crosspoints *xp)
{
    return &((struct switch_crosspoints_timed *)xp)->timing;
}

static inline struct emu_pool_cache *switch_cache(const struct switch_crosspoints *xp)
{
    return &xp->bar.sw.dev.worker->cache;
}

/* --- made, and what must hold: crosspoint.c, check.c -------------------------------- */

/* Its parts, in a machine whose base is filled in. False: there is no memory. Freed in any case. */
bool switch_crosspoints_init(struct switch_crosspoints *xp, uint32_t slots);
void switch_crosspoints_free(struct switch_crosspoints *xp);

/* sane of a struct switch_kind. */
bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile);

/* Memory for the machine with @slots slots, and segments that the crosspoints hold. */
size_t switch_crosspoints_bytes(uint32_t ports, uint32_t slots, const struct emu_profile *profile);
uint32_t switch_crosspoints_segments(uint32_t ports, const struct emu_profile *profile);

/* What the kinds with crosspoints have in common: members of a struct switch_kind. */
#define SWITCH_CROSSPOINTS_KIND                                                                  \
    .combines = true, .sane = switch_crosspoints_sane, .tx = switch_crossbar_tx,                 \
    .rx = switch_crossbar_rx, .rebase = switch_crosspoints_rebase, .link = switch_crossbar_link, \
    .stick = switch_crosspoints_stick, .waiting = switch_crossbar_waiting,                       \
    .combine_faults = switch_units_faults, .combine_stall = switch_units_stall,                  \
    .combine_waiting = switch_units_waiting, .faults = switch_cables_faults

/* combine_faults, combine_stall and combine_waiting of a struct switch_kind. */
int switch_units_faults(struct switch_dev *sw, struct emu_faults *faults);
int switch_units_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps);
uint32_t switch_units_waiting(struct switch_dev *sw,
                              void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/* stick of a struct switch_kind. */
void switch_crosspoints_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);

/* rebase of a struct switch_kind. */
void switch_crosspoints_rebase(struct switch_dev *sw, uint64_t by_ps);

/* check of a struct switch_kind, with @row_check as well. */
void switch_crosspoints_check(struct switch_dev *sw, uint64_t now_ps, switch_row_check_fn row_check,
                              const struct emu_found *found);

/* Segments at the fullest crosspoint of row @r, counted. */
uint8_t switch_crosspoints_fullest(const struct switch_crosspoints *xp, uint32_t r);

/* NULL, or what is wrong with the crosspoints of row @r by themselves: part of a row_check. */
const char *switch_crosspoints_check_row(struct switch_crosspoints *xp, uint32_t r);

/* By the plain counter: segments that row @r holds, copies of one counted once. */
uint32_t switch_copies_holds(const struct switch_crosspoints *xp, uint32_t r);

/* --- steps: raw.c, timed.c ---------------------------------------------------------- */

/* By the row guarantee, and by the plain counter. */
uint32_t switch_step_row_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_row_timed(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_counter_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_counter_timed(struct emu_dev *dev, uint64_t until_ps);

/* --- a segment's way ---------------------------------------------------------------- */

/*
 * admit.c: a segment enters by row @r, which has room: its credit says so. By the row guarantee, on
 * clock raw and where the clock has times; and by the plain counter.
 */
void switch_admit_settling(struct switch_crosspoints *xp, uint32_t r,
                           const struct emu_entry *entry);
void switch_admit_level(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry);
void switch_admit_copies(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry);

/* admit.c: clock raw, the row guarantee: a segment enters; its credit is the caller's to see to. */
void switch_enter(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry);

/* admit.c: put copies of a segment at the crosspoints (row, outs). */
void switch_queue(struct switch_crosspoints *xp, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry);

/* send.c: raw. What row @r owes to its sender, for all that came and left since the last time. */
uint32_t switch_row_settle(struct switch_crosspoints_row *row, uint32_t r);

/* send.c: raw. All runnable outputs send what they may. Returns segments sent. */
uint32_t switch_send(struct switch_crosspoints_raw *raw);

/* Do the units stand still? */
static inline bool switch_units_stalled(const struct switch_crosspoints *xp)
{
    return __builtin_expect(xp->ailing != NULL, 0) && xp->ailing->stalled;
}

/* The unit that takes contributions from @row. */
static inline uint32_t switch_unit_of(const struct switch_crosspoints *xp, uint32_t row)
{
    return row < xp->bar.sw.ports && xp->units > 1 ? row / xp->leaf_ports : xp->units - 1;
}

/* Collective kinds: the outputs that a segment of @group goes to from @row; 0: drop it. */
static inline uint64_t switch_collective_outs(const struct switch_crosspoints *xp,
                                              const struct switch_group *group, uint32_t row,
                                              const struct emu_hdr *hdr)
{
    return switch_group_outs(group, row, hdr, emu_bit(xp->bar.sw.ports + switch_unit_of(xp, row)));
}

/* A crosspoint of a row went from @from to @to segments. */
static inline void switch_level(struct switch_level *level, uint8_t from, uint8_t to)
{
    level->at[from]--;
    level->at[to]++;
    level->fullest += (uint8_t)(to > level->fullest); /* no branches: nobody can predict them */
    level->fullest -= (uint8_t)!level->at[level->fullest];
}

/* Put a segment at one crosspoint. It has room. Returns its slot. */
static inline uint32_t switch_put(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                                  const struct emu_entry *entry)
{
    struct switch_crossbar *bar = &xp->bar;
    uint8_t *count = switch_count(bar, r, o);
    uint32_t slot;

    assert(*count < xp->xpoint_slots);
    slot = switch_append(&bar->store, switch_xpoint(bar, r, o), *count, entry);
    ++*count;
    if (bar->sw.dev.timed) {
        struct switch_timing *timing = switch_timing_of(xp);

        timing->little.held++;
        switch_level(&timing->level[r], (uint8_t)(*count - 1), *count);
    }
    switch_out_gains(bar, r, o);
    return slot;
}

/*
 * Take the oldest segment off a crosspoint. Under the row guarantee the caller says whether that
 * owes a credit; the plain counter counts it here.
 * The entry stays readable until the next one is put anywhere in the switch.
 * Source: output-queued routers §2. The two readings of its credit counter: docs/ARCHITECTURE.md,
 * section 4.
 */
static inline struct emu_entry *switch_dequeue(struct switch_crosspoints *xp, uint32_t r,
                                               uint32_t o)
{
    struct switch_crossbar *bar = &xp->bar;
    uint32_t slot = switch_remove(&bar->store, switch_xpoint(bar, r, o));
    uint8_t left = --*switch_count(bar, r, o);

    switch_out_loses(bar, r, o, left);
    if (bar->sw.dev.timed) {
        struct switch_timing *timing = switch_timing_of(xp);

        timing->little.held--;
        switch_level(&timing->level[r], (uint8_t)(left + 1), left);
    }
    if (xp->copies) { /* the last copy's departure */
        uint32_t of = xp->copies->of[slot];

        bar->row[r].rx.owed += !of || !--xp->copies->left[r][of - 1];
    }
    return &bar->store.slot[slot];
}

#endif
