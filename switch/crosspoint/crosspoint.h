/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crosspoint.h - the output-queued router with crosspoint buffers and combine units: its state.
 *
 * A *row* is the input of a port or of a combine unit. A *crosspoint* (r, o) is the queue between
 * row r and output o. A *credit* lets a sender send one segment. With the *row guarantee* a credit
 * promises space in every crosspoint of the receiving row; with the *plain counter* (counter.c) it
 * returns when the last copy of its segment has left. A *pass* is one step of the switch on clock
 * raw.
 *
 * A device is one of the structs below and begins with the common part, struct switch_crosspoints.
 * The plain counter and the router of input/fifo.c extend them. The switch's worker owns all data.
 * A segment enters by admit.c (or cut_through.c) and leaves by send.h on clock raw, or timed.h on
 * timed clocks. Contributions to a reduction go from admit.c to combine.c.
 */
#ifndef SWITCH_CROSSPOINT_H
#define SWITCH_CROSSPOINT_H

#include "switch/common/cables.h"
#include "switch/common/crossbar.h"

/*
 * limit of ids in a unit's list of groups: twice the groups that can combine, because ids of
 * removed groups may be left
 */
#define SWITCH_PENDING_MAX (2 * SWITCH_COMBINING_MAX)
static_assert((SWITCH_PENDING_MAX & (SWITCH_PENDING_MAX - 1)) == 0, "list indexes may wrap");

#define SWITCH_BURST 64 /* limit of segments that are taken from one port in one pass */

/*
 * With the row guarantee, this sum is constant:
 *
 *     credits of the sender + credits and segments on the wire + segments in the fullest crosspoint
 *         = xpoint_slots
 *
 * So if an arrival does not make the fullest crosspoint fuller, the row owes the sender a credit at
 * once. If a departure makes the fullest crosspoint less full, the row owes one, too. Timed clocks
 * update the levels of a row at every event (switch_level()). Clock raw *settles* a row once a
 * pass, for any number of arrivals and departures: the row owes the number of arrivals minus the
 * growth of the fullest crosspoint.
 */
struct switch_settling {
    uint32_t arrived; /* segments that arrived since the row was last settled */
    uint8_t fullest;  /* segments in the row's fullest crosspoint when the row was last settled */
};

/* Timed clocks: the current work of a combine unit. */
struct switch_work {
    /* the unit works on the oldest segment of `row`, until the time at which it is scheduled */
    bool working;
    uint8_t row;
    uint64_t free_ps; /* when the unit's last work ended */
};

struct switch_timing {
    struct switch_agenda agenda;
    /* no other event has the time of the arrival that is being processed */
    bool alone;
    struct switch_work *work; /* for each unit */
};

/* A combine unit. Its number plus `ports` is the number of its output and of its row. */
struct switch_unit {
    uint32_t first; /* index of the first group in the list; free-running */
    uint32_t last;
    /* ring of SWITCH_PENDING_MAX ids: the groups with results that wait for space, each once */
    uint32_t *group;
};

/* Injected faults of the combine units. */
struct switch_impaired {
    struct emu_faults *faults; /* bit flips while combining; NULL: none */
    bool stalled;
    bool out;       /* the units are out of service: they drop all contributions */
    uint64_t taken; /* contributions that the units took since the first fault */
    uint64_t held;  /* timed clocks: set of units that were due while they were stalled */
};

struct switch_crosspoints;

/* Put a segment at crosspoint (r, o), which must have space. @share: see struct switch_access. */
typedef void (*switch_put_fn)(struct switch_crosspoints *xp, uint32_t r, uint32_t o,
                              const struct emu_entry *entry, uint8_t share);

/*
 * Remove the oldest segment of the crosspoint (r, o), which must have one. The segment stays
 * readable until the next one is put at any crosspoint of the switch.
 */
typedef struct emu_entry *(*switch_dequeue_fn)(struct switch_crosspoints *xp, uint32_t r,
                                               uint32_t o);

/*
 * How segments enter and leave the crosspoints of one kind of switch, and how their credits are
 * counted.
 * Collectives call these functions through the device. Unicasts and outputs use them as constants,
 * without indirect calls.
 */
struct switch_access {
    switch_put_fn put;
    switch_dequeue_fn dequeue;
    /*
     * Count @copies of a multicast from port @r, which the caller will put next. Returns the @share
     * of these copies, from 1 on; other segments have 0. NULL: this kind counts no copies.
     */
    uint8_t (*share)(struct switch_crosspoints *xp, uint32_t r, uint32_t copies);
    /* send a result as soon as it is complete, if no other result waits in front of it */
    bool fast_path;
};

/* The common part of every device with crosspoints. */
struct switch_crosspoints {
    struct switch_crossbar bar;
    emu_ports shut; /* outputs for which every segment must queue: see switch_passes() */
    const struct switch_access *access;
    uint32_t xpoint_slots; /* copy of profile->xpoint_slots */
    /* number of combine units; if several, the last one is the root and the others are leaves */
    uint32_t units;
    uint32_t leaf_ports;              /* number of ports that one leaf serves */
    struct switch_unit *unit;         /* array of `units` */
    struct switch_impaired *impaired; /* NULL: no fault was ever injected into the units */
};

/* The device on clock raw. */
struct switch_crosspoints_raw {
    struct switch_crosspoints xp;
    emu_ports touched; /* rows with arrivals or departures in this pass, which may owe credits */
};

/* The device on clock raw with the row guarantee, the only one where segments skip crosspoints. */
struct switch_crosspoints_row {
    struct switch_crosspoints_raw raw;
    struct switch_settling *settling; /* for each port */
    /*
     * Outputs that this pass has checked and that are not plain local cables (tx.shape is not
     * EMU_LINK_LOCAL). Such an output is in `shut`, or may take room[] segments. (How many segments
     * a plain local cable may take depends only on its credits.)
     */
    emu_ports open;
    /* plain local cables that this pass has found open: row_put() */
    emu_ports plain;
    uint32_t room[SWITCH_ROWS_MAX]; /* for each output in `open`: how many segments it may take */
};

/* The device on timed clocks (sw.dev.timed). */
struct switch_crosspoints_timed {
    struct switch_crosspoints xp;
    struct switch_timing timing;
};

static inline struct switch_crosspoints *switch_crosspoints_of(struct switch_dev *sw)
{
    return (struct switch_crosspoints *)sw;
}

/* Only for clock raw with the row guarantee. */
static inline struct switch_crosspoints_row *switch_row_of(struct switch_crosspoints *xp)
{
    return (struct switch_crosspoints_row *)xp;
}

/* Timed clocks only. */
static inline struct switch_timing *switch_timing_of(struct switch_crosspoints *xp)
{
    return &((struct switch_crosspoints_timed *)xp)->timing;
}

static inline struct emu_pool_cache *switch_cache(const struct switch_crosspoints *xp)
{
    return &xp->bar.sw.dev.worker->cache;
}

/* Count and drop a segment that was not queued. @group: the group in its header, or NULL. */
static inline void switch_drop(struct switch_crosspoints *xp, const struct switch_group *group,
                               const struct emu_entry *entry)
{
    switch_count_drop(&xp->bar.sw, group, &entry->hdr);
    emu_pool_drop(switch_cache(xp), entry->buf);
}

/* --- creation and checks: crosspoint.c, check.c ------------------------------------- */

/*
 * Initialize a device whose base is already initialized. False: no memory; the caller frees the
 * device in either case.
 */
bool switch_crosspoints_init(struct switch_crosspoints *xp, uint32_t slots,
                             const struct switch_access *access);
void switch_crosspoints_free(struct switch_crosspoints *xp);

/* Return whether the profile has crosspoints, no input buffers, and this credit policy. */
bool switch_crosspoints_fit(const struct emu_profile *profile, enum emu_credit_policy credit);

/* Implements sane() of struct switch_kind. */
bool switch_crosspoints_sane(uint32_t ports, const struct emu_profile *profile);

/* Return the bytes of a device with @slots slots, or how many segments its crosspoints can hold. */
size_t switch_crosspoints_bytes(uint32_t ports, uint32_t slots, const struct emu_profile *profile);
uint32_t switch_crosspoints_segments(uint32_t ports, const struct emu_profile *profile);

/* Members of struct switch_kind that all kinds with crosspoints have in common. */
#define SWITCH_CROSSPOINTS_KIND                                                  \
    .combines = true, .sane = switch_crosspoints_sane, .tx = switch_crossbar_tx, \
    .rx = switch_crossbar_rx, .queued = switch_crossbar_queued,                  \
    .shortest = switch_crossbar_shortest, .rebase = switch_crosspoints_rebase,   \
    .link = switch_crossbar_link, .stick = switch_crosspoints_stick,             \
    .waiting = switch_crossbar_waiting, .ready = switch_crossbar_ready,          \
    .combine_faults = switch_units_faults, .combine_stall = switch_units_stall,  \
    .combine_out = switch_units_out, .combine_taken = switch_units_taken,        \
    .combine_waiting = switch_units_waiting, .ups = switch_crossbar_ups,         \
    .check = switch_crosspoints_check, .faults = switch_cables_faults

/* combine_faults(), combine_stall() and so on of a struct switch_kind. */
int switch_units_faults(struct switch_dev *sw, struct emu_faults *faults);
int switch_units_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps);
void switch_units_out(struct switch_dev *sw, bool out, uint64_t at_ps);
uint64_t switch_units_taken(const struct switch_dev *sw);
uint32_t switch_units_waiting(struct switch_dev *sw,
                              void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/* stick(), rebase() and check() of a struct switch_kind. */
void switch_crosspoints_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
void switch_crosspoints_rebase(struct switch_dev *sw, uint64_t by_ps);

void switch_crosspoints_check(struct switch_dev *sw, uint64_t now_ps,
                              const struct emu_reporter *reporter);

/* Count the segments in the fullest crosspoint of row @r. */
uint8_t switch_crosspoints_fullest(const struct switch_crosspoints *xp, uint32_t r);

const char *switch_crosspoints_check_row(struct switch_crosspoints *xp, uint32_t r);

/* --- steps with the row guarantee: raw.c, timed.c ----------------------------------- */

uint32_t switch_step_row_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_row_timed(struct emu_dev *dev, uint64_t until_ps);

/* timed.c: emu_fetch_fn of devices that begin with struct switch_crosspoints_timed. */
uint64_t switch_fetch_timed(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept);

/* --- the path of a segment ---------------------------------------------------------- */

/* admit.c, clock raw, row guarantee: let a segment enter, without accounting for its credit. */
void switch_enter(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry);

/* admit.c: put copies of a segment at the crosspoints (row, outs). */
void switch_queue(struct switch_crosspoints *xp, uint32_t row, emu_ports outs,
                  const struct emu_entry *entry);

/* Return whether units are stalled. Units out of service are not, because they drop all input. */
static inline bool switch_units_stalled(const struct switch_crosspoints *xp)
{
    return __builtin_expect(xp->impaired != NULL, 0) && xp->impaired->stalled && !xp->impaired->out;
}

static inline uint32_t switch_unit_of(const struct switch_crosspoints *xp, uint32_t row)
{
    return row < xp->bar.sw.ports && xp->units > 1 ? row / xp->leaf_ports : xp->units - 1;
}

/* Return the outputs of a collective segment of @group from @row; empty: drop the segment. */
static inline emu_ports switch_collective_outs(const struct switch_crosspoints *xp,
                                               const struct switch_group *group, uint32_t row,
                                               const struct emu_hdr *hdr)
{
    return switch_group_outs(group, row, hdr, emu_port(xp->bar.sw.ports + switch_unit_of(xp, row)));
}

/* Put a segment at a crosspoint that has space, without credit accounting. Returns its slot. */
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

/* Remove the oldest segment of a crosspoint, without accounting for credits. Returns its slot. */
static inline uint32_t switch_dequeue_slot(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    struct switch_crossbar *bar = &xp->bar;
    uint32_t slot = switch_remove(&bar->store, switch_xpoint(bar, r, o));

    switch_out_lose(bar, r, o, 1, --*switch_count(bar, r, o));
    return slot;
}

/*
 * Timed clocks: update the row's levels, because the crosspoint (r, o) has one more segment.
 * Returns whether this makes the row's fullest crosspoint fuller.
 */
static inline bool switch_level_gains(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t count = *switch_count(&xp->bar, r, o);

    xp->bar.little.held++;
    return !(*switch_level(&xp->bar, r, count))++;
}

/*
 * Timed clocks: update the row's levels, because a segment has left the crosspoint (r, o). Returns
 * whether this makes the row's fullest crosspoint less full.
 */
static inline bool switch_level_loses(struct switch_crosspoints *xp, uint32_t r, uint32_t o)
{
    uint32_t count = *switch_count(&xp->bar, r, o);

    xp->bar.little.held--;
    return !--*switch_level(&xp->bar, r, count + 1);
}

/* --- access without credit accounting ----------------------------------------------- */

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

/* crosspoint.c: the functions above as struct switch_access, for clock raw and timed clocks */
extern const struct switch_access switch_access_raw;
extern const struct switch_access switch_access_timed;

/* timed.c: with the accounting of the row guarantee */
extern const struct switch_access switch_access_row_timed;

/* crosspoint.c: the kind with the row guarantee, for the list in switch.c. */
extern const struct switch_kind switch_row_kind;

#endif
