/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - what every kind of switch has, and the table of what a kind does.
 *
 * A router is a folder: crosspoint/, input/ (two of them), channel/. Its machine is a struct that
 * begins with a struct switch_dev, and its struct switch_kind stands in the list in switch.c. Parts
 * that several machines have are structs of their own: store.h (segments), events.h (timed clocks),
 * crossbar.h (rows and outputs).
 *
 * All of it is the switch's worker's, but what says so. Manager and driver look while that stands
 * still.
 */
#ifndef SWITCH_BASE_H
#define SWITCH_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "emu/util/bits.h"
#include "emu/util/clock.h"
#include "emu/util/table.h"
#include "switch/common/device.h"
#include "switch/common/group.h"

struct route_policy;
struct switch_cables;

/*
 * In what struct switch_kind's queued() returns: the link at the output is down. It is more than
 * any number of segments, so such an output is never lightly loaded, nor has it the shortest queue
 * of several candidates.
 */
#define SWITCH_OUT_DOWN (UINT32_C(1) << 30)

/* The machine that a kind has on one sort of clock. */
struct switch_machine {
    size_t bytes;     /* of its struct */
    emu_step_fn step; /* NULL: there is none on this clock */
    emu_fetch_fn fetch;
};

/*
 * A kind of switch: what switch.h offers, as this kind does it. Never called for a segment: the
 * step function is in the emu_dev. See switch.h for what each does.
 */
struct switch_kind {
    struct switch_machine raw;   /* on clock raw */
    struct switch_machine timed; /* where the clock has times */
    bool combines;               /* it takes groups with combine units */
    /* is it the kind that the profile describes? */
    bool (*fits)(const struct emu_profile *profile);
    bool (*sane)(uint32_t ports, const struct emu_profile *profile); /* can it be so? */
    uint32_t (*segments)(uint32_t ports, const struct emu_profile *profile);
    size_t (*bytes)(uint32_t ports, const struct emu_profile *profile);

    /*
     * All parts of a machine whose base is filled in, dev.timed too. False: there is no memory;
     * destroy() frees what is.
     */
    bool (*init)(struct switch_dev *sw);
    /* all parts, but neither the base's nor the machine itself */
    void (*destroy)(struct switch_dev *sw);
    struct emu_tx *(*tx)(struct switch_dev *sw, uint32_t port);
    struct emu_rx *(*rx)(struct switch_dev *sw, uint32_t port);
    /* switch_queued(), and SWITCH_OUT_DOWN: any thread */
    uint32_t (*queued)(const struct switch_dev *sw, uint32_t port);
    /* of several outputs, those with the shortest queues, as queued() says */
    emu_ports (*shortest)(const struct switch_dev *sw, emu_ports outs);
    void (*check)(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);
    uint32_t (*bufs)(struct switch_dev *sw);
    void (*rebase)(struct switch_dev *sw, uint64_t by_ps); /* timed clocks only */

    /* NULL: its links are always up. */
    uint32_t (*link)(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);
    void (*stick)(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
    bool (*ready)(const struct switch_dev *sw, uint32_t port);
    uint32_t (*waiting)(struct switch_dev *sw, uint32_t port,
                        void (*tell)(void *ctx, const struct emu_entry *entry), void *ctx);
    /* does it hold a segment of group @id? NULL: nobody asks */
    bool (*holds)(struct switch_dev *sw, uint32_t id);
    /* its ups are known; NULL: it asks the base when it wants to know */
    void (*ups)(struct switch_dev *sw);
    /* NULL: it does not combine by itself. */
    int (*combine_faults)(struct switch_dev *sw, struct emu_faults *faults);
    int (*combine_stall)(struct switch_dev *sw, bool stalled, uint64_t at_ps);
    void (*combine_out)(struct switch_dev *sw, bool out, uint64_t at_ps);
    uint64_t (*combine_taken)(const struct switch_dev *sw);
    uint32_t (*combine_waiting)(struct switch_dev *sw,
                                void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);
    /* NULL: nobody injects faults into its cables. */
    int (*faults)(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);
    /* NULL: combine units are part of the switch, or there are none. */
    void (*units)(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at);
    /* NULL: only switches send on its cables. */
    const char *(*check_cable)(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised);
    /* NULL: as above */
    const char *(*check_out)(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults);
};

/* What a routing policy remembers from one choice to the next. */
struct route_state {
    uint64_t random; /* xorshift: never 0 */
    uint32_t last;   /* the output that was chosen last, if the policy keeps it */
};

/* The base of every machine: its first member. */
struct switch_dev {
    struct emu_dev dev;
    /* The cache line that every segment touches. */
    _Atomic(const struct topo_route *) route; /* published by the manager (RCU) */
    const struct emu_profile *profile;
    const struct route_policy *policy; /* of the profile's `choice`: switch/policy/policy.h */
    struct route_state choice;
    /* ports to look at again: more has come than a pass takes, or is still on the wire */
    emu_ports arriving;
    emu_ports ups;  /* ports to switches of higher levels */
    uint32_t ports; /* external */
    /* Seldom touched; groups by collective segments only. */
    _Atomic(struct emu_table *) groups; /* published by the manager (RCU) */
    const struct switch_kind *kind;
    struct switch_cables *cables;   /* cables.h; NULL: nothing stands at any cable */
    const struct topo_route *whole; /* of the network with all its links */
    emu_ports stuck;                /* ports that send nothing: a fault */
    struct switch_counts counts;
};
static_assert(EMU_PORT_WORDS > 1 ||
                  offsetof(struct switch_dev, groups) - offsetof(struct switch_dev, route) ==
                      EMU_LINE,
              "what every segment touches is in one cache line");

/** switch_machine_of - the machine that @kind has on this sort of clock. Pure. */
static inline const struct switch_machine *switch_machine_of(const struct switch_kind *kind,
                                                             bool timed)
{
    return timed ? &kind->timed : &kind->raw;
}

/* device.c: the switch of @kind that @dev is; NULL: it is none. Not for a segment. */
struct switch_dev *switch_of(struct emu_dev *dev, const struct switch_kind *kind);

/*
 * The ports to which an event's @signals may belong. If several ports share a bit
 * (emu_port_signal()), some of them may have had no event; checking these is harmless. Ports
 * without a cable are left out.
 */
static inline emu_ports switch_signalled(const struct switch_dev *sw, uint64_t signals)
{
    emu_ports told = emu_ports_signalled(signals);

    if (EMU_PORT_WORDS == 1)
        return told;
    told &= emu_ports_below(sw->ports);
    emu_each_port (p, told)
        if (sw->kind->rx((struct switch_dev *)sw, p)->kind == EMU_LINK_NONE)
            told &= ~emu_port(p);
    return told;
}

/*
 * The ports that have an event: switch_told() leaves the events for the next step, switch_take()
 * takes them. Thread: the switch's worker.
 */
static inline emu_ports switch_told(const struct switch_dev *sw, enum emu_event event)
{
    return switch_signalled(sw, emu_dev_told(&sw->dev, event));
}

static inline emu_ports switch_take(struct switch_dev *sw, enum emu_event event)
{
    return switch_signalled(sw, emu_dev_take(&sw->dev, event));
}

/* Where destinations are, as of this pass. Thread: the switch's own step. */
static inline const struct topo_route *switch_route(const struct switch_dev *sw)
{
    return atomic_load_explicit(&sw->route, memory_order_acquire); /* G5 pairs with G6 */
}

/* There is no way for a unicast to @dst: the manager is to know. Thread: the switch's own step. */
static inline void switch_trap(struct switch_dev *sw, uint32_t dst)
{
    emu_count(&sw->counts.trapped, 1);
    atomic_store_explicit(&sw->counts.trapped_dst, dst, memory_order_relaxed);
}

/* More has come to @port than a pass takes. Thread: the switch's own step. */
static inline void switch_more(struct switch_dev *sw, uint32_t port)
{
    sw->arriving |= emu_port(port);
    emu_dev_again(&sw->dev);
}

/* The group that a header names, or NULL. */
static inline struct switch_group *switch_group_of(const struct switch_dev *sw, uint32_t id)
{
    struct switch_group *group = emu_table_at(&sw->groups, id);

    return group && group->id == id ? group : NULL;
}

/*
 * Collective kinds: the tag says what happens at the group's ports (§2.1).
 * The result of an all-reduce comes down from the tree's top: from there on it
 * is a multicast. Returns all outputs that the segment goes to from @row; 0: drop it.
 * @unit: the output of the unit that combines what comes by @row, as a set; 0: there is none.
 */
static inline emu_ports switch_group_outs(const struct switch_group *group, uint32_t row,
                                          const struct emu_hdr *hdr, emu_ports unit)
{
    emu_ports from = emu_port(row);

    if (!group || !emu_ports_has(group->ports, row))
        return EMU_NO_PORTS;
    if (hdr->kind == EMU_MULTICAST || (hdr->kind != EMU_REDUCE && (int)row == group->up))
        return group->ports & ~from;
    return unit;
}

/*
 * One of @group (of whose header) is dropped. A member that leaves a group does not wait for the
 * last segment that it has sent, a token of its adapter. When all have left, that token may
 * still be on its way, which is no error.
 */
static inline void switch_count_drop(struct switch_dev *sw, const struct switch_group *group,
                                     const struct emu_hdr *hdr)
{
    emu_count(!group && hdr->kind != EMU_UNICAST ? &sw->counts.late : &sw->counts.bad, 1);
}

/*
 * A segment leaves at @at_ps, and no sooner than it came: on clock real a credit, or room, may be
 * told of late, and be older than what waits for it by now.
 */
static inline uint64_t switch_no_sooner(uint64_t at_ps, const struct emu_entry *entry)
{
    return at_ps > entry->time_ps ? at_ps : entry->time_ps;
}

#endif
