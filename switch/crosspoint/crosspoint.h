/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.h - the output-queued router with crosspoint buffers and combine units: its machine.
 *
 * The router of input/fifo.c has it behind its inputs' buffers: see inputs, advance and backed. All
 * of it is the switch's worker's. What a segment meets, in order: admit.c (or through.c), then
 * send.c on clock raw and timed.c where the clock has times; a contribution to a reduction turns
 * off into combine.c on the way.
 */
#ifndef SWITCH_CROSSPOINT_H
#define SWITCH_CROSSPOINT_H

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
    bool by_row;                /* credits stand for the fullest crosspoint */
    struct switch_level *level; /* rows */
    struct switch_work *work;   /* units */
};

/* The plain counter: a credit is back when the last copy has left. */
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

struct switch_crosspoints {
    struct switch_crossbar bar;
    uint64_t touched; /* rows that something came to, or left, in this pass: they may owe credits */
    /*
     * May a segment pass output o without a stop? As far as this pass has found out: no, yes, or in
     * neither set. Where the clock has times all are shut, always. See switch_passes().
     */
    uint64_t shut;
    uint64_t open;
    /* rows with what may wait for room at their crosspoints: results, or an input's fifo */
    uint64_t backed;
    uint32_t xpoint_slots; /* a copy of the profile's, for the path of every segment */
    /* what finds nothing in its way does not stop here: raw, by the row guarantee */
    bool through;

    /*
     * How a row's credits are accounted for; where none is, they stand for places before the
     * crosspoints.
     */
    struct switch_settling *settling; /* ports: raw, by the row guarantee; else NULL */
    struct switch_copies *copies;     /* by the plain counter; else NULL */
    struct switch_timing *timing;     /* every event is seen: the clock has times; else NULL */
    /* what is before the crosspoints (input/fifo.c); NULL: nothing is */
    struct switch_inputs *inputs;

    /* A segment enters by @row, which has room: its credit says so. */
    void (*admit)(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry);
    /*
     * What is in the buffer of input @row moves on; timed: at @at_ps. Did any? While `backed` says
     * so.
     */
    bool (*advance)(struct switch_crosspoints *xp, uint32_t row, uint64_t at_ps);

    uint32_t units;           /* combine units */
    uint32_t leaf_ports;      /* ports that one leaf unit serves */
    struct switch_unit *unit; /* units */
    /* by output in `open`: segments that may pass through in this pass */
    uint32_t room[SWITCH_ROWS_MAX];
};

/*
 * The machine where the clock has times: timing lies beside the rest, at a place that timed.c
 * knows.
 */
struct switch_crosspoints_timed {
    struct switch_crosspoints xp; /* xp.timing is: */
    struct switch_timing timing;
};

/* Every machine with crosspoints begins with them. */
static inline struct switch_crosspoints *switch_crosspoints_of(struct switch_dev *sw)
{
    return (struct switch_crosspoints *)sw;
}

static inline struct emu_pool_cache *switch_cache(const struct switch_crosspoints *xp)
{
    return &xp->bar.sw.dev.worker->cache;
}

/* --- made, and what must hold: crosspoint.c, check.c -------------------------------- */

/* Its parts, in a machine whose base is filled in. False: there is no memory. Freed in any case. */
bool switch_crosspoints_init(struct switch_crosspoints *xp, bool timed, uint32_t slots);
void switch_crosspoints_free(struct switch_crosspoints *xp);

/* sane of a struct switch_kind. */
bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile);

/* Memory for the machine with @slots slots, and segments that the crosspoints hold. */
size_t switch_crosspoints_bytes(uint32_t ports, uint32_t slots, const struct emu_profile *profile);
uint32_t switch_crosspoints_segments(uint32_t ports, const struct emu_profile *profile);

/* rebase of a struct switch_kind. */
void switch_crosspoints_rebase(struct switch_dev *sw, uint64_t by_ps);

/* check of a struct switch_kind, with @row_check as well. */
const char *switch_crosspoints_check(struct switch_dev *sw, uint64_t now_ps,
                                     switch_row_check_fn row_check);

/* NULL, or what is wrong with the crosspoints of row @r by themselves: part of a row_check. */
const char *switch_crosspoints_check_row(const struct switch_crosspoints *xp, uint32_t r);

/*
 * Credits that what row @r holds stands for, counted: by the row guarantee, or by the plain
 * counter.
 */
uint32_t switch_crosspoints_holds(const struct switch_crosspoints *xp, uint32_t r);

/* --- steps: raw.c, timed.c ---------------------------------------------------------- */

uint32_t switch_step_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_timed(struct emu_dev *dev, uint64_t until_ps);

/* --- a segment's way ---------------------------------------------------------------- */

/*
 * admit.c: xp->admit, by how credits are accounted for: raw and timed by the row guarantee, plain
 * counter.
 */
void switch_admit_settling(struct switch_crosspoints *xp, uint32_t row,
                           const struct emu_entry *entry);
void switch_admit_level(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry);
void switch_admit_copies(struct switch_crosspoints *xp, uint32_t row,
                         const struct emu_entry *entry);

/* admit.c: a segment enters; the row's credits are the caller's to see to. */
void switch_enter(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry);

/* admit.c: put copies of a segment at the crosspoints (row, outs). */
void switch_queue(struct switch_crosspoints *xp, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry);

/* send.c: raw. What row @r owes to its sender, for all arrivals and departures since the last time.
 */
uint32_t switch_row_settle(struct switch_crosspoints *xp, uint32_t r);

/* send.c: raw. All runnable outputs send what they may. Returns segments sent. */
uint32_t switch_send(struct switch_crosspoints *xp);

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
    if (xp->timing) {
        xp->timing->little.held++;
        switch_level(&xp->timing->level[r], (uint8_t)(*count - 1), *count);
    }
    switch_out_gains(bar, r, o);
    return slot;
}

/*
 * Take the oldest segment off a crosspoint; the row's credit accounting follows.
 * The entry stays readable until the next one is put anywhere in the switch.
 * Source: output-queued routers §2; the two readings of its credit counter: docs/ARCHITECTURE.md, 4.
 */
static inline struct emu_entry *switch_dequeue(struct switch_crosspoints *xp, uint32_t r,
                                               uint32_t o)
{
    struct switch_crossbar *bar = &xp->bar;
    uint32_t slot = switch_remove(&bar->store, switch_xpoint(bar, r, o));
    uint8_t left = --*switch_count(bar, r, o);

    switch_out_loses(bar, r, o, left);
    xp->touched |= emu_bit(r);
    if (xp->timing) { /* a departure that lowers the fullest */
        struct switch_level *level = &xp->timing->level[r];
        uint8_t fullest = level->fullest;

        xp->timing->little.held--;
        switch_level(level, (uint8_t)(left + 1), left);
        bar->row[r].rx.owed += xp->timing->by_row && level->fullest < fullest;
    }
    if (xp->copies) { /* the last copy's departure */
        uint32_t of = xp->copies->of[slot];

        bar->row[r].rx.owed += !of || !--xp->copies->left[r][of - 1];
    }
    return &bar->store.slot[slot];
}

#endif
