/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the switch's state. All of it is its worker's, but what says so.
 */
#ifndef SWITCH_INTERNAL_H
#define SWITCH_INTERNAL_H

#include <stddef.h>

#include "switch/group.h"
#include "switch/switch.h"

/*
 * A row: the crosspoints of one input. Credits under the row guarantee keep
 *
 *     sender's credits + segments on the wire + fullest crosspoint = xpoint_slots,
 *
 * so what a row owes after any number of arrivals and departures is the
 * arrivals, plus what the fullest crosspoint fell or less what it rose.
 */
struct switch_row {
    uint32_t arrived;                 /* segments since the credits were last settled */
    uint8_t fullest;                  /* count of the fullest crosspoint when they were */
    uint8_t copies[EMU_XPOINT_MAX];   /* plain counter: copies of a multicast not yet sent */
    struct emu_rx rx;
};

struct switch_out {
    uint64_t waiting; /* rows with a segment for it */
    uint32_t queued;  /* segments in all */
    uint8_t last;     /* row served last: round robin */
    struct emu_tx tx;
};

struct switch_dev {
    struct emu_dev dev;
    const struct topo_route *route;
    const struct emu_profile *profile;
    uint32_t ports; /* external; row and output number `ports` are the combine unit's */
    uint32_t slots; /* of a crosspoint, rounded up to a power of two */

    uint64_t runnable; /* outputs to try in this pass */
    uint64_t unsettled; /* rows with arrivals or departures since their credits were settled */
    uint64_t arriving; /* timed: rows whose front segment is still on the wire */
    uint64_t crediting; /* timed: outputs that wait for a credit that is on its way */
    uint64_t light;    /* outputs with fewer than profile->light_slots segments */
    uint64_t random;   /* xorshift state, for EMU_CHOICE_RANDOM */
    uint32_t turn;     /* for EMU_CHOICE_NEXT_FREE */
    uint32_t light_slots;  /* copies of the profile's, for the path of every segment */
    uint32_t xpoint_slots;
    bool by_row;

    uint64_t unit_busy_ps; /* the combine unit works until then */
    struct switch_results results;

    struct switch_row *row;       /* ports + 1 */
    struct switch_out *out;       /* ports + 1 */
    uint32_t width;               /* of a row in count and head: ports + 1, rounded up to 16 */
    uint8_t *count;               /* [row][output]: segments at the crosspoint */
    uint8_t *head;                /* [row][output]: slot of the oldest */
    struct emu_entry *slot;       /* [row][output][slots] */
    uint8_t *copy_of;             /* like slot: 1 + index into row->copies, or 0 */

    struct switch_counts counts;
    _Atomic(struct switch_groups *) groups; /* published by the manager (RCU) */
};

/* Where crosspoint (row, out) stands in count[] and head[]. */
static inline size_t switch_at(const struct switch_dev *sw, uint32_t row, uint32_t out)
{
    return (size_t)row * sw->width + out;
}

/* Where its slot @i stands in slot[] and copy_of[]. */
static inline size_t switch_slot(const struct switch_dev *sw, uint32_t row, uint32_t out,
                                 uint32_t i)
{
    return ((size_t)row * (sw->ports + 1) + out) * sw->slots + (i & (sw->slots - 1));
}

static inline bool switch_by_row(const struct switch_dev *sw)
{
    return sw->by_row;
}

/* admit.c: a segment enters row @row. The row's crosspoints have room: its credit says so. */
void switch_admit(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry);

/* admit.c: put copies of a segment at the crosspoints (row, outs). */
void switch_queue(struct switch_dev *sw, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry);

/* choose.c: one of several candidate outputs. */
uint32_t switch_choose(struct switch_dev *sw, uint64_t candidates);

/*
 * send.c: take the oldest segment off a crosspoint; the row's credit accounting follows.
 * The entry stays readable until the crosspoint is filled again.
 */
struct emu_entry *switch_dequeue(struct switch_dev *sw, uint32_t row, uint32_t out);

/* send.c: all runnable outputs send what they may. Returns segments sent. */
uint32_t switch_send(struct switch_dev *sw, uint64_t until_ps);

/*
 * send.c: the row whose oldest segment for @out may leave first, in turn among those that may by
 * @now_ps; *ready_ps is when. The output has segments waiting.
 */
uint32_t switch_pick(const struct switch_dev *sw, uint32_t out, uint64_t now_ps,
                     uint64_t *ready_ps);

/* credit.c: settle what row @row owes and start it on its way; it arrives at @arrive_ps. */
void switch_pay_row(struct switch_dev *sw, uint32_t row, uint64_t arrive_ps);

/* combine.c: the unit takes contributions and sends results back into the crossbar. */
uint32_t switch_combine(struct switch_dev *sw, uint64_t until_ps);

/* group.c: the group that a header names, or NULL. */
struct switch_group *switch_group_of(const struct switch_dev *sw, uint32_t id);

/* The next set bit of @bits after bit @last, in turn. @bits is not 0. */
static inline uint32_t switch_next_bit(uint64_t bits, uint32_t last)
{
    uint64_t above = last >= 63 ? 0 : bits & ~(((uint64_t)2 << last) - 1);

    return (uint32_t)__builtin_ctzll(above ? above : bits);
}

#endif
