/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.h - the output-queued router with crosspoint buffers and combine units: its machine.
 *
 * A machine is one of these structs and begins with struct switch_crosspoints, which has what all
 * of them have; the plain counter (counter.c) and the router of input/fifo.c have machines of their
 * own. All of it is the switch's worker's. What a segment meets, in order: admit.c (or through.c),
 * then send.h on clock raw and timed.h where the clock has times; a contribution to a reduction
 * turns off into combine.c.
 */
#ifndef SWITCH_CROSSPOINT_H
#define SWITCH_CROSSPOINT_H

#include "switch/common/cables.h"
#include "switch/common/crossbar.h"

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
 * the levels of a row at every event (switch_level()); raw settles once a pass, for any number
 * of arrivals and departures: the arrivals, less what the fullest rose.
 */
struct switch_settling {
    uint32_t arrived; /* segments since the row's credits were last settled */
    uint8_t fullest;  /* segments at its fullest crosspoint then */
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
    bool alone;               /* the arrival that is being taken is all that happens at its time */
    struct switch_work *work; /* units */
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
    bool out;       /* of service: what they take is dropped */
    uint64_t taken; /* contributions that they took, since anything was wrong with them */
    uint64_t held;  /* timed: units that were to act while they stood still */
};

struct switch_crosspoints;

/* A segment is put at the crosspoint (r, o), which has room; @share: see struct switch_access. */
typedef void (*switch_put_fn)(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                              const struct emu_entry *entry, uint8_t share);

/*
 * The oldest segment is taken off the crosspoint (r, o), which has one. It stays readable until
 * the next one is put anywhere in the switch.
 */
typedef struct emu_entry *(*switch_dequeue_fn)(struct switch_crosspoints *xp, uint32_t r,
                                               uint32_t o);

/*
 * How segments come to the crosspoints of a machine and leave them, with the accounts that it keeps
 * of that. Collectives find it in their machine; on the way of a unicast, and where outputs send,
 * these functions are constants, so that none of them is called by a pointer.
 */
struct switch_access {
    switch_put_fn put;
    switch_dequeue_fn dequeue;
    /*
     * So many copies of a multicast from port @r are to be put. Returns what tells put() that a
     * copy is one of these; 0: of none. NULL: nobody counts them.
     */
    uint8_t (*share)(struct switch_crosspoints *xp, uint32_t r, uint32_t copies);
    bool at_once; /* a result that nothing waits before goes on as soon as it is complete */
};

/* What every machine with crosspoints has. */
struct switch_crosspoints {
    struct switch_crossbar bar;
    /* outputs that no segment passes without a stop at a crosspoint; see switch_passes() */
    emu_ports shut;
    const struct switch_access *access;
    uint32_t xpoint_slots;        /* a copy of the profile's, for the path of every segment */
    uint32_t units;               /* combine units */
    uint32_t leaf_ports;          /* ports that one leaf unit serves */
    struct switch_unit *unit;     /* units */
    struct switch_ailing *ailing; /* NULL: nothing was ever wrong with them */
};

/* The machine on clock raw. */
struct switch_crosspoints_raw {
    struct switch_crosspoints xp;
    /* rows that something came to, or left, in this pass: they may owe credits */
    emu_ports touched;
};

/* The machine on clock raw with the row guarantee: the only one that outputs are open in. */
struct switch_crosspoints_row {
    struct switch_crosspoints_raw raw;
    struct switch_settling *settling; /* ports */
    /*
     * Outputs to anything but a plain local cable, whose credits say it all: those that this pass
     * has looked at. They are shut now, or have room.
     */
    emu_ports open;
    /* outputs to plain local cables that are open, as this pass has found: see row_put() */
    emu_ports plain;
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

/*
 * Its parts, in a machine whose base is filled in; @access outlives it. False: there is no memory.
 * Freed in any case.
 */
bool switch_crosspoints_init(struct switch_crosspoints *xp, uint32_t slots,
                             const struct switch_access *access);
void switch_crosspoints_free(struct switch_crosspoints *xp);

/* Does the profile want crosspoints alone, and this reading of their credits? */
bool switch_crosspoints_fit(const struct emu_profile *profile, enum emu_credit_policy credit);

/* sane of a struct switch_kind. */
bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile);

/* Memory for the machine with @slots slots, and segments that the crosspoints hold. */
size_t switch_crosspoints_bytes(uint32_t ports, uint32_t slots, const struct emu_profile *profile);
uint32_t switch_crosspoints_segments(uint32_t ports, const struct emu_profile *profile);

/* What the kinds with crosspoints have in common: members of a struct switch_kind. */
#define SWITCH_CROSSPOINTS_KIND                                                  \
    .combines = true, .sane = switch_crosspoints_sane, .tx = switch_crossbar_tx, \
    .rx = switch_crossbar_rx, .queued = switch_crossbar_queued,                  \
    .shortest = switch_crossbar_shortest, .rebase = switch_crosspoints_rebase,   \
    .link = switch_crossbar_link, .stick = switch_crosspoints_stick,             \
    .waiting = switch_crossbar_waiting, .ready = switch_crossbar_ready,          \
    .combine_faults = switch_units_faults, .combine_stall = switch_units_stall,  \
    .combine_out = switch_units_out, .combine_taken = switch_units_taken,        \
    .combine_waiting = switch_units_waiting, .ups = switch_crossbar_ups,         \
    .faults = switch_cables_faults

/* bufs of a struct switch_kind, where nothing is but at the crosspoints. */
uint32_t switch_crosspoints_bufs(struct switch_dev *sw);

/* holds of a struct switch_kind. */
bool switch_crosspoints_hold(struct switch_dev *sw, uint32_t id);

/* combine_faults, combine_stall and so on of a struct switch_kind. */
int switch_units_faults(struct switch_dev *sw, struct emu_faults *faults);
int switch_units_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps);
void switch_units_out(struct switch_dev *sw, bool out, uint64_t at_ps);
uint64_t switch_units_taken(const struct switch_dev *sw);
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

/* --- steps by the row guarantee: raw.c, timed.c ------------------------------------- */

uint32_t switch_step_row_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_row_timed(struct emu_dev *dev, uint64_t until_ps);

/* timed.c: fetch of a machine that begins with struct switch_crosspoints_timed. */
uint64_t switch_fetch_timed(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept);

/* --- a segment's way ---------------------------------------------------------------- */

/* admit.c: clock raw, the row guarantee: a segment enters; its credit is the caller's to see to. */
void switch_enter(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry);

/* admit.c: put copies of a segment at the crosspoints (row, outs). */
void switch_queue(struct switch_crosspoints *xp, uint32_t row, emu_ports outs,
                  const struct emu_entry *entry);

/* Do the units stand still? Those that are out of service drop what comes. */
static inline bool switch_units_stalled(const struct switch_crosspoints *xp)
{
    return __builtin_expect(xp->ailing != NULL, 0) && xp->ailing->stalled && !xp->ailing->out;
}

/* The unit that takes contributions from @row. */
static inline uint32_t switch_unit_of(const struct switch_crosspoints *xp, uint32_t row)
{
    return row < xp->bar.sw.ports && xp->units > 1 ? row / xp->leaf_ports : xp->units - 1;
}

/* Collective kinds: the outputs that a segment of @group goes to from @row; 0: drop it. */
static inline emu_ports switch_collective_outs(const struct switch_crosspoints *xp,
                                               const struct switch_group *group, uint32_t row,
                                               const struct emu_hdr *hdr)
{
    return switch_group_outs(group, row, hdr, emu_port(xp->bar.sw.ports + switch_unit_of(xp, row)));
}

/*
 * Put a segment at one crosspoint. It has room. Returns its slot. No accounts are kept, and the
 * output is not told.
 */
static inline uint32_t switch_put_slot(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                                       const struct emu_entry *entry)
{
    struct switch_crossbar *bar = &xp->bar;
    uint8_t *count = switch_count(bar, r, o);
    uint32_t slot;

    assert(*count < xp->xpoint_slots);
    slot = switch_append(&bar->store, switch_xpoint(bar, r, o), *count, entry);
    ++*count;
    switch_out_gains(bar, r, o);
    return slot;
}

/*
 * Take the oldest segment off a crosspoint. Returns its slot, see switch_dequeue_fn. No accounts.
 */
static inline uint32_t switch_dequeue_slot(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    struct switch_crossbar *bar = &xp->bar;
    uint32_t slot = switch_remove(&bar->store, switch_xpoint(bar, r, o));

    switch_out_loses(bar, r, o, --*switch_count(bar, r, o));
    return slot;
}

/*
 * Where the clock has times: the crosspoint (r, o) has got a segment. Has the fullest risen? It has
 * when this is the first that holds so many.
 */
static inline bool switch_level_gains(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t count = *switch_count(&xp->bar, r, o);

    xp->bar.little.held++;
    return !(*switch_level(&xp->bar, r, count))++;
}

/*
 * Where the clock has times: a segment has left the crosspoint (r, o). Has the fullest fallen? It
 * has when none holds so many any more.
 */
static inline bool switch_level_loses(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t count = *switch_count(&xp->bar, r, o);

    xp->bar.little.held--;
    return !--*switch_level(&xp->bar, r, count + 1);
}

/* --- access by the row guarantee, whose machines see to credits themselves ---------- */

static inline void switch_put_raw(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                                  const struct emu_entry *entry, uint8_t share)
{
    (void)share;
    switch_put_slot(xp, r, o, entry);
    xp->bar.runnable |= emu_port(o);
}

static inline struct emu_entry *switch_dequeue_raw(struct switch_crosspoints *xp, uint32_t r,
                                                   uint32_t o)
{
    return &xp->bar.store.slot[switch_dequeue_slot(xp, r, o)];
}

/* --- the same where the clock has times; none of them sees to credits ---------------- */

static inline void switch_put_timed(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                                    const struct emu_entry *entry, uint8_t share)
{
    (void)share;
    switch_put_slot(xp, r, o, entry);
    switch_level_gains(xp, r, o);
    xp->bar.runnable |= emu_port(o);
}

static inline struct emu_entry *switch_dequeue_timed(struct switch_crosspoints *xp, uint32_t r,
                                                     uint32_t o)
{
    uint32_t slot = switch_dequeue_slot(xp, r, o);

    switch_level_loses(xp, r, o);
    return &xp->bar.store.slot[slot];
}

extern const struct switch_access switch_access_raw;   /* crosspoint.c: of these, on clock raw */
extern const struct switch_access switch_access_timed; /* and where the clock has times */

/* timed.c: where the clock has times, with the credits of the row guarantee. */
extern const struct switch_access switch_access_row_timed;

/* crosspoint.c: the kind with the row guarantee, for the list in switch.c. */
extern const struct switch_kind switch_row_kind;

#endif
