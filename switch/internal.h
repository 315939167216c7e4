/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the switch's state. All of it is its worker's, but what says so.
 */
#ifndef SWITCH_INTERNAL_H
#define SWITCH_INTERNAL_H

#include <stddef.h>

#include "emu/bits.h"
#include "emu/clock.h"
#include "emu/table.h"
#include "switch/group.h"
#include "emu/worker/order.h"
#include "switch/switch.h"

/* Twice the groups that can combine: one that is gone may still stand in a list. */
#define SWITCH_PENDING_MAX (2 * SWITCH_COMBINING_MAX)
static_assert((SWITCH_PENDING_MAX & (SWITCH_PENDING_MAX - 1)) == 0, "their numbers may wrap");

/*
 * A row: the crosspoints of one input. Credits under the row guarantee keep
 *
 *     sender's credits + credits and segments on the wire + fullest crosspoint = xpoint_slots,
 *
 * so an arrival that does not raise the fullest crosspoint owes its credit at
 * once, and a departure that lowers the fullest owes one. A timed clock keeps
 * the fullest at every event (level[]); raw settles once a pass, for any number
 * of arrivals and departures: the arrivals, less what the fullest rose.
 */
struct switch_row {
    alignas(EMU_LINE) uint32_t arrived; /* raw: segments since the credits were last settled */
    bool backed;                       /* something may wait for room at its crosspoints: a unit's results,
                                          or an input's fifo */
    uint8_t fullest;                   /* segments at the fullest crosspoint; raw: as last settled */
    uint8_t level[EMU_XPOINT_MAX + 1]; /* timed: crosspoints that hold so many segments */
    struct emu_rx rx;
    uint8_t copies[EMU_XPOINT_MAX];    /* plain counter: copies of a multicast not yet sent */
};

#define SWITCH_BURST 64 /* segments taken from one port in one pass */

/* The segments of a queue, oldest first, as slots; without meaning while there is none. */
struct switch_list {
    uint16_t first;
    uint16_t last;
};

struct switch_slot {
    uint16_t next;    /* in its queue, or among the free */
    union {
        uint16_t copy_of; /* plain counter: 1 + index into row->copies, or 0 */
        struct {          /* with channels */
            uint8_t left; /* copies that are still to leave */
            bool ghost;   /* no credit stands for it */
        };
    };
};

#define SWITCH_NO_SLOT UINT16_MAX
static_assert(SWITCH_SEGMENTS_MAX <= SWITCH_NO_SLOT, "a number for each slot");

/*
 * An input's own buffer, where the profile has one. buffers=input: the fifo is
 * of multicasts, and unicasts wait at (row, output), as at crosspoints.
 */
struct switch_input {
    struct switch_list fifo;
    uint32_t queued;    /* segments in the fifo */
    uint32_t last;      /* buffers=input: output served last, round robin */
    uint64_t head_slot; /* buffers=input: the first time slot that the fifo's first one is first in */
};

/* buffers=input: time is cut into slots of a whole segment's wire time. */
struct switch_slots {
    uint64_t length_ps;
    uint64_t next_ps; /* the arbiter works then; EMU_NEVER: nothing that waits can go */
    uint64_t from_ps; /* and no earlier than then: slots before it are over */
    uint64_t counted; /* outputs whose stall has been counted */
};

struct switch_out {
    alignas(EMU_LINE) uint64_t waiting; /* rows with a segment for it */
    uint32_t queued;  /* segments in all */
    uint8_t last;     /* row served last: round robin */
    uint32_t room;    /* raw: segments that may pass through in this pass */
    struct emu_tx tx;
};

/* A combine unit: output and row number `ports` + its own number. */
struct switch_unit {
    bool working;     /* timed: on the oldest segment of `row`, until its next act */
    uint8_t row;
    uint64_t free_ps; /* timed: when its last work ended */
    uint32_t first;   /* groups with results that wait for room in its row: free-running */
    uint32_t last;
    uint32_t *group;  /* their ids, SWITCH_PENDING_MAX; each at most once */
};

/* Timed: what Little's law says must be equal, kept in two independent ways. */
struct switch_little {
    uint64_t held;      /* segments at crosspoints now, copies each */
    uint64_t last_ps;   /* when that last changed */
    uint64_t area_ps;   /* held, integrated over time */
    uint64_t waited_ps; /* by those that have left, each from its arrival to its departure */
};

struct switch_dev {
    struct emu_dev dev;
    const struct topo_route *route;
    const struct emu_profile *profile;
    uint32_t ports;      /* external */
    uint32_t units;      /* combine units */
    uint32_t rows;       /* ports + units, as many outputs: those from `ports` on are the units' */
    uint32_t leaf_ports; /* ports that one leaf unit serves */

    uint64_t runnable;  /* outputs with news since they were last looked at */
    uint64_t unsettled; /* rows that may owe credits */
    uint64_t arriving;  /* rows to look at again; timed: their front segment is still on the wire */
    uint64_t due;       /* timed: outputs that know when they will act */
    uint64_t stalled;   /* timed: outputs with a segment and no credit on its way */
    uint64_t shut;      /* raw: outputs that segments do not pass through in this pass: see switch_passes() */
    uint64_t open;      /* raw: those that they do; neither: not known yet */
    uint64_t light;     /* outputs with fewer than profile->light_slots segments */
    uint64_t random;    /* xorshift state, for EMU_CHOICE_RANDOM */
    uint32_t turn;      /* for EMU_CHOICE_NEXT_FREE */
    uint32_t light_slots;  /* copies of the profile's, for the path of every segment */
    uint32_t xpoint_slots;
    bool by_row;        /* credits stand for crosspoints, by the row guarantee, */
    bool through;       /* raw, by_row: what finds nothing in its way does not stop at a crosspoint */
    bool by_copy;       /* or by the plain counter; neither: for places in the input's buffer */
    bool acknowledged;  /* this is a struct switch_channels: crosspoints and units are not made */

    void (*admit)(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry);
    struct switch_row *row;       /* rows */
    struct switch_out *out;       /* rows */
    struct switch_unit *unit;     /* units */
    struct emu_order acts;     /* timed: of the outputs in `due` */
    uint32_t width;               /* of a row in count and xpoint: rows, rounded up to 16 */
    uint8_t *count;               /* [row][output]: segments at the crosspoint; beyond them 0 */
    struct switch_list *xpoint;   /* [row][output]: which */
    struct emu_entry *slot;       /* segments at crosspoints; as many as all of them hold */
    struct switch_slot *link;     /* like slot: what joins them */
    uint32_t free;                /* slots free again, linked: the last one given back is warm */
    uint32_t fresh;               /* slots never used start here */

    struct switch_input *input;   /* ports of them, where inputs have buffers; else NULL */
    uint64_t *outs;               /* like slot: outputs that a segment of a fifo still goes to */
    struct switch_slots slots;    /* buffers=input */

    struct switch_little little;
    struct switch_counts counts;
    _Atomic(struct emu_table *) groups; /* published by the manager (RCU) */
};

/* Where crosspoint (row, out) stands in count[] and xpoint[]. */
static inline size_t switch_at(const struct switch_dev *sw, uint32_t row, uint32_t out)
{
    return (size_t)row * sw->width + out;
}

/* Segments at a crosspoint. */
static inline uint8_t *switch_count(const struct switch_dev *sw, uint32_t row, uint32_t out)
{
    return &sw->count[switch_at(sw, row, out)];
}

static inline struct switch_list *switch_xpoint(const struct switch_dev *sw, uint32_t row,
                                                uint32_t out)
{
    return &sw->xpoint[switch_at(sw, row, out)];
}

/* The oldest segment of a crosspoint that has one. */
static inline struct emu_entry *switch_front(const struct switch_dev *sw, uint32_t row,
                                             uint32_t out)
{
    return &sw->slot[switch_xpoint(sw, row, out)->first];
}

/* The timed part of the row guarantee: a crosspoint of @row went from @from to @to segments. */
static inline void switch_row_level(struct switch_row *row, uint8_t from, uint8_t to)
{
    row->level[from]--;
    row->level[to]++;
    row->fullest += (uint8_t)(to > row->fullest); /* no branches: nobody can predict them */
    row->fullest -= (uint8_t)!row->level[row->fullest];
}

/* The unit that takes contributions from @row. */
static inline uint32_t switch_unit_of(const struct switch_dev *sw, uint32_t row)
{
    return row < sw->ports && sw->units > 1 ? row / sw->leaf_ports : sw->units - 1;
}

/* A free slot. There is one: crosspoints hold no more than there are. */
static inline uint32_t switch_slot_take(struct switch_dev *sw)
{
    uint32_t slot = sw->free;

    if (slot == SWITCH_NO_SLOT)
        return sw->fresh++;
    sw->free = sw->link[slot].next;
    return slot;
}

/* Append a segment to a queue that has @count of them. Returns its slot. */
static inline uint32_t switch_append(struct switch_dev *sw, struct switch_list *queue,
                                     uint32_t count, const struct emu_entry *entry)
{
    uint32_t slot = switch_slot_take(sw);
    uint16_t *link;

    sw->slot[slot] = *entry;
    link = count ? &sw->link[queue->last].next : &queue->first;
    *link = (uint16_t)slot;
    queue->last = (uint16_t)slot;
    return slot;
}

/*
 * Take the oldest segment off a queue that has one. Returns its slot: free again, but it stays
 * readable until the next segment is put anywhere in the switch.
 */
static inline uint32_t switch_remove(struct switch_dev *sw, struct switch_list *queue)
{
    uint32_t slot = queue->first;

    queue->first = sw->link[slot].next;
    sw->link[slot].next = (uint16_t)sw->free;
    sw->free = slot;
    return slot;
}

/* Output @o has one more segment, from row @r. */
static inline void switch_out_gains(struct switch_dev *sw, uint32_t r, uint32_t o)
{
    struct switch_out *out = &sw->out[o];

    out->waiting |= emu_bit(r);
    sw->runnable |= emu_bit(o);
    out->queued++;
    sw->light &= ~((uint64_t)(out->queued >= sw->light_slots) << o);
}

/* Output @o has one less, and row @r has @left for it. */
static inline void switch_out_loses(struct switch_dev *sw, uint32_t r, uint32_t o, uint32_t left)
{
    struct switch_out *out = &sw->out[o];

    out->waiting &= ~((uint64_t)(left == 0) << r);
    out->queued--;
    sw->light |= (uint64_t)(out->queued < sw->light_slots) << o;
}

/*
 * A segment leaves at @at_ps, and no sooner than it came: on clock real a credit, or room, may be told of
 * late, and be older than what waits for it by now.
 */
static inline uint64_t switch_no_sooner(uint64_t at_ps, const struct emu_entry *entry)
{
    return at_ps > entry->time_ps ? at_ps : entry->time_ps;
}

/* Put a segment at one crosspoint. It has room. Returns its slot. */
static inline uint32_t switch_put(struct switch_dev *sw, uint32_t r, uint32_t o,
                                 const struct emu_entry *entry)
{
    uint8_t *count = switch_count(sw, r, o);
    uint32_t slot;

    assert(*count < sw->xpoint_slots);
    slot = switch_append(sw, switch_xpoint(sw, r, o), *count, entry);
    ++*count;
    if (sw->dev.timed) {
        sw->little.held++;
        switch_row_level(&sw->row[r], (uint8_t)(*count - 1), *count);
    }
    switch_out_gains(sw, r, o);
    return slot;
}

/*
 * Take the oldest segment off a crosspoint; the row's credit accounting follows.
 * The entry stays readable until the next one is put anywhere in the switch.
 * Source: output-queued routers §2; FACTS A, "Two readings of the credit counter".
 */
static inline struct emu_entry *switch_dequeue(struct switch_dev *sw, uint32_t r, uint32_t o)
{
    uint32_t slot = switch_remove(sw, switch_xpoint(sw, r, o));
    uint8_t left = --*switch_count(sw, r, o);

    switch_out_loses(sw, r, o, left);
    sw->unsettled |= emu_bit(r);
    if (sw->dev.timed) { /* a departure that lowers the fullest */
        struct switch_row *row = &sw->row[r];
        uint8_t fullest = row->fullest;

        sw->little.held--;
        switch_row_level(row, (uint8_t)(left + 1), left);
        row->rx.owed += sw->by_row && row->fullest < fullest;
    }
    if (sw->by_copy) { /* plain counter: the last copy's departure */
        struct switch_row *row = &sw->row[r];
        uint32_t copy_of = sw->link[slot].copy_of;

        row->rx.owed += !copy_of || !--row->copies[copy_of - 1];
    }
    return &sw->slot[slot];
}

/*
 * Raw has no time, so a segment that finds nothing waiting at its output, and room beyond it, would
 * leave its crosspoint in the pass in which it came: it is not put there at all. Its row is credited
 * as if it had been. Is output @o open to the next one?
 */
static inline bool switch_is_open(struct switch_dev *sw, uint32_t o)
{
    struct switch_out *out = &sw->out[o];
    uint64_t bit = emu_bit(o);

    if (sw->shut & bit)
        return false;
    if (!(sw->open & bit)) {
        sw->open |= bit;
        out->room = out->waiting ? 0 : emu_tx_room(&out->tx);
    }
    if (!out->room) {
        sw->shut |= bit;
        return false;
    }
    return true;
}

/* It is open, and one goes through: to be sent now. */
static inline void switch_pass(struct switch_dev *sw, uint32_t o)
{
    sw->out[o].room--;
    sw->runnable |= emu_bit(o); /* its receiver is to be told */
}

static inline bool switch_passes(struct switch_dev *sw, uint32_t o)
{
    if (!switch_is_open(sw, o))
        return false;
    switch_pass(sw, o);
    return true;
}

/* Do all of @outs lead to processes, or to nobody? */
static inline bool switch_lends(const struct switch_dev *sw, uint64_t outs)
{
    emu_each_bit(o, outs) {
        if (o >= sw->ports || !emu_tx_lends(&sw->out[o].tx))
            return false;
    }
    return true;
}

/* Raw: copies of a segment for @outs, which lend, if all of them are open; the payload is the caller's, or NULL. */
static inline bool switch_lend(struct switch_dev *sw, uint64_t outs, const struct emu_hdr *hdr,
                               const struct emu_seg *payload)
{
    emu_each_bit(o, outs)
        if (!switch_is_open(sw, o))
            return false;
    if (emu_bits_several(outs))
        emu_count(&sw->counts.multicasts, 1);
    emu_each_bit(o, outs) {
        switch_pass(sw, o);
        emu_tx_put(&sw->out[o].tx, hdr, payload);
    }
    return true;
}

/*
 * through.c: raw. What a process has sent enters by row @r: all its way through this switch at once
 * where nothing is in the way. Returns segments taken.
 */
uint32_t switch_through(struct switch_dev *sw, uint32_t r);

/* admit.c: sw->admit of crosspoint buffers. A segment enters; its row has room: its credit says so. */
void switch_admit(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry);

/* admit.c: the same, but the row's credits and what it counts are the caller's to see to. */
void switch_enter(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry);

/* admit.c: put copies of a segment at the crosspoints (row, outs). */
void switch_queue(struct switch_dev *sw, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry);

/* input/fifo.c: sw->admit of buffers=input_xpoint, and of buffers=input. */
void switch_input_admit_xpoint(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry);
void switch_input_admit(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry);

/*
 * input/fifo.c: buffers=input_xpoint. The segments of a fifo move on to their crosspoints as far as
 * there is room; timed: at @at_ps. Returns true if any did.
 */
bool switch_input_advance(struct switch_dev *sw, uint32_t r, uint64_t at_ps);

/* input/fifo.c: the first segment of a fifo has left; timed: at @at_ps. Its place is free. */
void switch_input_leave(struct switch_dev *sw, uint32_t r, uint64_t at_ps);

/* input/fifo.c: segments in an input's buffer, counted. */
uint32_t switch_input_holds(const struct switch_dev *sw, uint32_t r);

/* input/fifo.c: who is where in the fifo of @r, for check.c: adds to what it holds and how long that waits. */
const char *switch_input_check(const struct switch_dev *sw, uint32_t r, uint64_t now_ps,
                               uint64_t *held, uint64_t *waited_ps);

/*
 * Collective kinds: the tag says what happens at the group's ports (§2.1).
 * The result of an all-reduce comes down from the tree's top: from there on it
 * is a multicast. Returns all outputs that the segment goes to from @row; 0: drop it.
 */
static inline uint64_t switch_collective_outs(const struct switch_dev *sw, const struct switch_group *group,
                                              uint32_t row, const struct emu_hdr *hdr)
{
    uint64_t from = emu_bit(row);

    if (!group || !(group->ports & from))
        return 0;
    if (hdr->kind == EMU_MULTICAST || (hdr->kind != EMU_REDUCE && (int)row == group->up))
        return group->ports & ~from;
    return emu_bit(sw->ports + switch_unit_of(sw, row));
}

/*
 * One of @group (of whose header) is dropped. Who leaves a group does not wait for what it has sent last, a token of
 * its adapter's: when all have left, that may be on its way, and is no fault of anybody.
 */
static inline void switch_count_drop(struct switch_dev *sw, const struct switch_group *group,
                                     const struct emu_hdr *hdr)
{
    emu_count(!group && hdr->kind != EMU_UNICAST ? &sw->counts.late : &sw->counts.bad, 1);
}

/* send.c: raw. What row @r owes to its sender, for all arrivals and departures since the last time. */
uint32_t switch_row_settle(struct switch_dev *sw, uint32_t r);

/* admit.c: how many segments an input holds, copies of one counted once; what its credits stand for. */
uint32_t switch_row_holds(const struct switch_dev *sw, uint32_t row);

/* switch.c: memory by lines: not touched, so that it follows use; or zeroed. NULL: there is none. */
void *switch_lines(size_t bytes);
void *switch_zeros(size_t bytes);

/* choose.c: one of several candidate outputs. */
uint32_t switch_choose(struct switch_dev *sw, uint64_t candidates);

/* choose.c: one of @from, as the profile chooses among the lightly loaded; or at random. */
uint32_t switch_pick(struct switch_dev *sw, uint64_t from);
uint32_t switch_pick_random(struct switch_dev *sw, uint64_t from);

/* send.c: raw. All runnable outputs send what they may. Returns segments sent. */
uint32_t switch_send(struct switch_dev *sw);

/* timed.c: emu_step_fn of a timed clock: everything that happens by @until_ps, in order. */
uint32_t switch_step_timed(struct emu_dev *dev, uint64_t until_ps);

/* slots.c: the same for buffers=input. */
uint32_t switch_step_slots(struct emu_dev *dev, uint64_t until_ps);

/* buffers=input: what a row sends in one time slot. */
struct switch_sends {
    uint64_t outs;  /* 0: nothing */
    bool multicast; /* the first of its fifo; else a unicast, by one output */
};

/* arbiter.c: the match of time slot @slot, by row: outputs of @outs, none of them twice. */
void switch_match(struct switch_dev *sw, uint64_t slot, uint64_t outs, struct switch_sends *sends);

/* combine.c: raw. The units take contributions and send results back into the crossbar. */
uint32_t switch_combine(struct switch_dev *sw);

/* Does unit @u have results that wait? */
static inline bool switch_unit_pending(const struct switch_dev *sw, uint32_t u)
{
    return sw->unit[u].first != sw->unit[u].last;
}

/*
 * combine.c: raw. Add a contribution to a state that has others, from where it lies, if it may be
 * folded as it comes. False: nothing was done.
 */
bool switch_unit_add(struct switch_dev *sw, const struct switch_group *group, uint32_t u,
                     uint32_t row, const struct emu_hdr *hdr, const struct emu_seg *seg);

/* combine.c: raw. The same for a contribution that nothing waits before: it need not stand at the unit's crosspoint. */
void switch_unit_fold(struct switch_dev *sw, const struct switch_group *group, uint32_t u,
                      uint32_t row, const struct emu_entry *in);

/* combine.c: unit @u takes the oldest segment of @row, done at @at_ps. Results wait to be flushed. */
void switch_unit_take(struct switch_dev *sw, uint32_t u, uint32_t row, uint64_t at_ps);

/* combine.c: results enter their unit's row as far as there is room; timed: at @at_ps. */
void switch_units_flush(struct switch_dev *sw, uint64_t at_ps);

/* combine.c: results of unit @u enter its row as far as there is room; timed: at @at_ps. */
void switch_unit_flush(struct switch_dev *sw, uint32_t u, uint64_t at_ps);

/* group.c: the group that a header names, or NULL. */
static inline struct switch_group *switch_group_of(const struct switch_dev *sw, uint32_t id)
{
    struct switch_group *group = emu_table_at(&sw->groups, id);

    return group && group->id == id ? group : NULL;
}

#endif
