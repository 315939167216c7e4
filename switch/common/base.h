/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - the base of every kind of switch, and the table of operations of a kind.
 *
 * The folders crosspoint/, input/ and channel/ have one or two kinds each. The device of a kind is
 * a struct that begins with a struct switch_dev, and the list in switch.c names its struct
 * switch_kind. Several kinds share store.h (segments), events.h (timed clocks) and crossbar.h (rows
 * and outputs). A *row* is an input with its queues. It belongs to a port, or to a combine unit
 * that sends results.
 *
 * The switch's worker owns all fields unless a comment says otherwise. The manager and the driver
 * read them only while the worker is stopped.
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
 * Flag in the result of struct switch_kind's queued(): the link at the output is down. Because the
 * flag is larger than any number of segments, such an output is never lightly loaded, and never has
 * the shortest queue while the link of another candidate is up.
 */
#define SWITCH_OUT_DOWN (UINT32_C(1) << 30)

/* How a kind is implemented on clock raw, or on timed clocks. */
struct switch_impl {
    size_t bytes;     /* size of the device's struct */
    emu_step_fn step; /* NULL: the kind does not support this clock */
    emu_fetch_fn fetch;
};

/*
 * A kind of switch: its implementation of the functions in switch.h and device.h, where each is
 * documented. A worker steps a switch by the function in its emu_dev. Of the functions here,
 * routing policies may call queued() and shortest() per segment; the others are called less often.
 */
struct switch_kind {
    struct switch_impl raw;   /* clock raw */
    struct switch_impl timed; /* clocks real and virtual */
    /* has combine units, so that groups can combine */
    bool combines;
    /* returns whether the profile describes this kind */
    bool (*fits)(const struct emu_profile *profile);
    /* returns whether the profile's numbers are valid */
    bool (*sane)(uint32_t ports, const struct emu_profile *profile);
    uint32_t (*segments)(uint32_t ports, const struct emu_profile *profile);
    size_t (*bytes)(uint32_t ports, const struct emu_profile *profile);

    /*
     * Initialize a device whose base is already initialized, including dev.timed. False: no memory;
     * the caller calls destroy() also in this case.
     */
    bool (*init)(struct switch_dev *sw);
    /* frees everything except the base and the device itself */
    void (*destroy)(struct switch_dev *sw);
    struct emu_tx *(*tx)(struct switch_dev *sw, uint32_t port);
    struct emu_rx *(*rx)(struct switch_dev *sw, uint32_t port);
    /* returns switch_queued(), plus SWITCH_OUT_DOWN if the link is down; any thread may call it */
    uint32_t (*queued)(const struct switch_dev *sw, uint32_t port);
    /* returns the subset of @outs with the least queued() */
    emu_ports (*shortest)(const struct switch_dev *sw, emu_ports outs);
    void (*check)(struct switch_dev *sw, uint64_t now_ps, const struct emu_reporter *reporter);
    /*
     * called by switch_crossbar_check(): checks row @r, and adds the segments that are not in the
     * crossbar's queues to *@held and *@waited_ps
     */
    const char *(*check_row)(struct switch_dev *sw, uint32_t r, uint64_t now_ps, uint64_t *held,
                             uint64_t *waited_ps);
    uint32_t (*bufs)(struct switch_dev *sw);
    void (*rebase)(struct switch_dev *sw, uint64_t by_ps); /* timed clocks only */

    /* NULL: links are always up */
    uint32_t (*link)(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);
    void (*stick)(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
    bool (*ready)(const struct switch_dev *sw, uint32_t port);
    uint32_t (*waiting)(struct switch_dev *sw, uint32_t port,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx);
    bool (*holds)(struct switch_dev *sw, uint32_t id); /* NULL: a kind without crosspoints */
    /* called when sw->ups was set; NULL: nothing to do */
    void (*ups)(struct switch_dev *sw);
    /* The combine_ functions are NULL if the kind has no combine units of its own. */
    int (*combine_faults)(struct switch_dev *sw, struct emu_faults *faults);
    int (*combine_stall)(struct switch_dev *sw, bool stalled, uint64_t at_ps);
    void (*combine_out)(struct switch_dev *sw, bool out, uint64_t at_ps);
    uint64_t (*combine_taken)(const struct switch_dev *sw);
    uint32_t (*combine_waiting)(struct switch_dev *sw,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);
    int (*faults)(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);
    /* NULL: combine units are part of the switch, or there are none */
    void (*units)(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at);
    /* NULL: cables lead only to switches and processes */
    const char *(*check_cable)(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised);
    const char *(*check_out)(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults);
};

struct route_state {
    uint64_t random; /* state of the xorshift generator; never 0 */
    uint32_t last;   /* the output that was chosen last, if the policy uses it */
};

/* The base of every device, which is its first member. */
struct switch_dev {
    struct emu_dev dev;
    /* The first cache line has the fields that every segment needs. */
    _Atomic(const struct topo_route *) route; /* routing table, published by the manager (RCU) */
    const struct emu_profile *profile;
    const struct route_policy *policy; /* the profile's `choice`: switch/policy/policy.h */
    struct route_state choice;
    /* ports to poll in the next step, where segments are left or still on the wire */
    emu_ports arriving;
    emu_ports ups;  /* ports to switches of higher levels */
    uint32_t ports; /* number of external ports */
    /* Rarely used, except that collective segments look up their group. */
    _Atomic(struct emu_table *) groups; /* table of groups, published by the manager (RCU) */
    const struct switch_kind *kind;
    struct switch_cables *cables;   /* cables.h; NULL: no faults and no link-level retry */
    const struct topo_route *whole; /* the routing table when all links are up */
    emu_ports stuck;                /* ports that a fault keeps from sending */
    struct switch_counts counts;
};
static_assert(EMU_PORT_WORDS > 1 ||
                  offsetof(struct switch_dev, groups) - offsetof(struct switch_dev, route) ==
                      EMU_LINE,
              "the fields that every segment touches are in one cache line");

/** switch_impl_of - return how @kind is implemented on timed clocks, or on clock raw. Pure. */
static inline const struct switch_impl *switch_impl_of(const struct switch_kind *kind, bool timed)
{
    return timed ? &kind->timed : &kind->raw;
}

/* device.c: return @dev as a switch of @kind; NULL: it is not one. Too slow to call per segment. */
struct switch_dev *switch_of(struct emu_dev *dev, const struct switch_kind *kind);

/*
 * Return the ports that may have caused @signals, the signals of an event, and that have a cable.
 * Several ports may share a bit (emu_port_signal()), so some of these ports may have had no event;
 * polling them does no harm.
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

/* Return the ports that have an event. switch_take() also clears the events. */
static inline emu_ports switch_signalled_ports(const struct switch_dev *sw, enum emu_event event)
{
    return switch_signalled(sw, emu_dev_signalled(&sw->dev, event));
}

static inline emu_ports switch_take(struct switch_dev *sw, enum emu_event event)
{
    return switch_signalled(sw, emu_dev_take(&sw->dev, event));
}

/* Return the routing table. Thread: the switch's step. */
static inline const struct topo_route *switch_route(const struct switch_dev *sw)
{
    return atomic_load_explicit(&sw->route, memory_order_acquire); /* G5 pairs with G6 */
}

/* Count a unicast to @dst without a route, for the manager. Thread: the switch's step. */
static inline void switch_trap(struct switch_dev *sw, uint32_t dst)
{
    emu_count(&sw->counts.trapped, 1);
    atomic_store_explicit(&sw->counts.trapped_dst, dst, memory_order_relaxed);
}

/* Poll @port in another step, because segments are left there. Thread: the switch's step. */
static inline void switch_more(struct switch_dev *sw, uint32_t port)
{
    sw->arriving |= emu_port(port);
    emu_dev_again(&sw->dev);
}

/* Return the group with address @id; NULL: there is none. */
static inline struct switch_group *switch_group_of(const struct switch_dev *sw, uint32_t id)
{
    struct switch_group *group = emu_table_at(&sw->groups, id);

    return group && group->id == id ? group : NULL;
}

/*
 * Return the outputs of a collective segment that arrived at @row (§2.1); empty: drop it. The
 * result of an all-reduce comes down from the top of the group's tree, and is a multicast from
 * there on.
 * @unit: the output of the combine unit for contributions from @row, as a set; may be empty.
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
 * Count a dropped segment as bad, or as late if its @group no longer exists here. A late segment is
 * no error: its adapter may send the last token (a barrier of the adapters) shortly before the
 * member leaves the group, and the member does not wait until the token has arrived.
 */
static inline void switch_count_drop(struct switch_dev *sw, const struct switch_group *group,
                                     const struct emu_hdr *hdr)
{
    emu_count(!group && hdr->kind != EMU_UNICAST ? &sw->counts.late : &sw->counts.bad, 1);
}

/*
 * Return the later of @at_ps and the arrival of @entry. On clock real a switch may see a credit
 * late, so the credit's time may be earlier than the arrival of the segment that uses it.
 */
static inline uint64_t switch_no_sooner(uint64_t at_ps, const struct emu_entry *entry)
{
    return at_ps > entry->time_ps ? at_ps : entry->time_ps;
}

#endif
