/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - the base of every kind of switch, and its table of operations.
 *
 * Each router has a folder: crosspoint/, input/ (two routers), channel/. Its device is a struct
 * that begins with a struct switch_dev, and the list in switch.c names its struct switch_kind.
 * Parts that several devices share: store.h (segments), events.h (timed clocks), crossbar.h (rows
 * and outputs).
 *
 * The switch's worker owns all fields unless a comment says otherwise. Manager and driver read them
 * only while the worker is stopped.
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
 * Flag in the result of struct switch_kind's queued(): the link at the output is down. It is larger
 * than any number of segments, so such an output is never lightly loaded, and never has the
 * shortest queue while another candidate's link is up.
 */
#define SWITCH_OUT_DOWN (UINT32_C(1) << 30)

/* The device of a kind on one sort of clock. */
struct switch_impl {
    size_t bytes;     /* of its struct */
    emu_step_fn step; /* NULL: the kind does not support this clock */
    emu_fetch_fn fetch;
};

/*
 * A kind of switch: its implementation of switch.h and device.h, which document each function. None
 * is called per segment: the step function is in the emu_dev.
 */
struct switch_kind {
    struct switch_impl raw;                          /* clock raw */
    struct switch_impl timed;                        /* timed clocks */
    bool combines;                                   /* takes groups with combine units */
    bool (*fits)(const struct emu_profile *profile); /* does the profile describe this kind? */
    bool (*sane)(uint32_t ports, const struct emu_profile *profile); /* are its numbers valid? */
    uint32_t (*segments)(uint32_t ports, const struct emu_profile *profile);
    size_t (*bytes)(uint32_t ports, const struct emu_profile *profile);

    /*
     * Initialize a device whose base is filled in, dev.timed too. False: no memory; destroy() it.
     */
    bool (*init)(struct switch_dev *sw);
    /* free all parts except the base's and the device itself */
    void (*destroy)(struct switch_dev *sw);
    struct emu_tx *(*tx)(struct switch_dev *sw, uint32_t port);
    struct emu_rx *(*rx)(struct switch_dev *sw, uint32_t port);
    /* switch_queued(), plus SWITCH_OUT_DOWN; any thread */
    uint32_t (*queued)(const struct switch_dev *sw, uint32_t port);
    /* the subset of @outs with the least queued() */
    emu_ports (*shortest)(const struct switch_dev *sw, emu_ports outs);
    void (*check)(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);
    /*
     * switch_crossbar_check(): check row @r; add segments outside the crossbar's queues to the sums
     */
    const char *(*check_row)(struct switch_dev *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                             uint64_t *waited_ps);
    uint32_t (*bufs)(struct switch_dev *sw);
    void (*rebase)(struct switch_dev *sw, uint64_t by_ps); /* timed clocks only */

    /* NULL: links are always up. */
    uint32_t (*link)(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);
    void (*stick)(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
    bool (*ready)(const struct switch_dev *sw, uint32_t port);
    uint32_t (*waiting)(struct switch_dev *sw, uint32_t port,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx);
    bool (*holds)(struct switch_dev *sw, uint32_t id); /* NULL: with channels */
    void (*ups)(struct switch_dev *sw);                /* sw->ups was set; NULL: nothing to do */
    /* NULL: no combine units of its own. */
    int (*combine_faults)(struct switch_dev *sw, struct emu_faults *faults);
    int (*combine_stall)(struct switch_dev *sw, bool stalled, uint64_t at_ps);
    void (*combine_out)(struct switch_dev *sw, bool out, uint64_t at_ps);
    uint64_t (*combine_taken)(const struct switch_dev *sw);
    uint32_t (*combine_waiting)(struct switch_dev *sw,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);
    int (*faults)(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);
    /* NULL: combine units are part of the switch, or there are none. */
    void (*units)(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at);
    /* NULL: only switches are at the other ends of its cables. */
    const char *(*check_cable)(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised);
    const char *(*check_out)(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults);
};

/* State of a routing policy. */
struct route_state {
    uint64_t random; /* xorshift: never 0 */
    uint32_t last;   /* output chosen last, if the policy uses it */
};

/* The base of every device: its first member. */
struct switch_dev {
    struct emu_dev dev;
    /* The cache line that every segment touches. */
    _Atomic(const struct topo_route *) route; /* published by the manager (RCU) */
    const struct emu_profile *profile;
    const struct route_policy *policy; /* of the profile's `choice`: switch/policy/policy.h */
    struct route_state choice;
    /* ports to check again: more has come than a pass takes, or segments are still on the wire */
    emu_ports arriving;
    emu_ports ups;  /* ports to switches of higher levels */
    uint32_t ports; /* external */
    /* Rarely touched; groups by collective segments only. */
    _Atomic(struct emu_table *) groups; /* published by the manager (RCU) */
    const struct switch_kind *kind;
    struct switch_cables *cables;   /* cables.h; NULL: no faults and no link-level retry */
    const struct topo_route *whole; /* the routes when all links are up */
    emu_ports stuck;                /* ports that a fault keeps from sending */
    struct switch_counts counts;
};
static_assert(EMU_PORT_WORDS > 1 ||
                  offsetof(struct switch_dev, groups) - offsetof(struct switch_dev, route) ==
                      EMU_LINE,
              "what every segment touches is in one cache line");

/** switch_impl_of - the device of @kind on this sort of clock. Pure. */
static inline const struct switch_impl *switch_impl_of(const struct switch_kind *kind, bool timed)
{
    return timed ? &kind->timed : &kind->raw;
}

/* device.c: @dev as a switch of @kind; NULL: it is not one. Too slow to call per segment. */
struct switch_dev *switch_of(struct emu_dev *dev, const struct switch_kind *kind);

/*
 * The ports with a cable to which an event's @signals may belong. If several ports share a bit
 * (emu_port_signal()), some of them may have had no event; checking these is harmless.
 */
static inline emu_ports switch_signalled(const struct switch_dev *sw, uint64_t signals)
{
    emu_ports ports = emu_ports_signalled(signals);

    if (EMU_PORT_WORDS == 1)
        return ports;
    ports &= emu_ports_below(sw->ports);
    emu_each_port (p, ports)
        if (sw->kind->rx((struct switch_dev *)sw, p)->kind == EMU_LINK_NONE)
            ports &= ~emu_port(p);
    return ports;
}

/*
 * The ports that have an event. switch_take() clears the events, switch_signalled_ports() does not.
 */
static inline emu_ports switch_signalled_ports(const struct switch_dev *sw, enum emu_event event)
{
    return switch_signalled(sw, emu_dev_signalled(&sw->dev, event));
}

static inline emu_ports switch_take(struct switch_dev *sw, enum emu_event event)
{
    return switch_signalled(sw, emu_dev_take(&sw->dev, event));
}

/* The routing table. Thread: the switch's step. */
static inline const struct topo_route *switch_route(const struct switch_dev *sw)
{
    return atomic_load_explicit(&sw->route, memory_order_acquire); /* G5 pairs with G6 */
}

/* Count a unicast to @dst that has no route, for the manager. Thread: the switch's step. */
static inline void switch_trap(struct switch_dev *sw, uint32_t dst)
{
    emu_count(&sw->counts.trapped, 1);
    atomic_store_explicit(&sw->counts.trapped_dst, dst, memory_order_relaxed);
}

/* More has come to @port than a pass takes: run another pass. Thread: the switch's step. */
static inline void switch_more(struct switch_dev *sw, uint32_t port)
{
    sw->arriving |= emu_port(port);
    emu_dev_again(&sw->dev);
}

/* The group with address @id, or NULL. */
static inline struct switch_group *switch_group_of(const struct switch_dev *sw, uint32_t id)
{
    struct switch_group *group = emu_table_at(&sw->groups, id);

    return group && group->id == id ? group : NULL;
}

/*
 * The outputs of a collective segment that came by @row (§2.1); empty: drop it. The result of an
 * all-reduce comes down from the tree's top, and from there on it is a multicast.
 * @unit: output of the combine unit for contributions from @row, as a set; empty: there is none.
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
 * Count a dropped segment as bad, or as late if its @group no longer exists here. The latter is no
 * error: a member that leaves a group does not wait for the arrival of its adapter's last token.
 */
static inline void switch_count_drop(struct switch_dev *sw, const struct switch_group *group,
                                     const struct emu_hdr *hdr)
{
    emu_count(!group && hdr->kind != EMU_UNICAST ? &sw->counts.late : &sw->counts.bad, 1);
}

/*
 * The later of @at_ps and the arrival of @entry. On clock real a credit may be seen late, and then
 * its time may be earlier than the arrival of the segment that uses it.
 */
static inline uint64_t switch_no_sooner(uint64_t at_ps, const struct emu_entry *entry)
{
    return at_ps > entry->time_ps ? at_ps : entry->time_ps;
}

#endif
