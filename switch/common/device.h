/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - operations on a switch of any kind. switch.h creates one.
 *
 * "While stopped" means: while the switch's worker is stopped. A *combine unit* is the part of a
 * switch that combines *contributions*, the operands that members of a group send. A cable connects
 * two ports; each port has a *link*, which is up or down.
 */
#ifndef SWITCH_DEVICE_H
#define SWITCH_DEVICE_H

#include <stdint.h>

#include "emu/packet/vc.h"
#include "emu/dev/dev.h"
#include "emu/fault/fault.h"
#include "emu/link/link.h"
#include "emu/retry/replay.h"
#include "emu/packet/profile.h"
#include "topo/topo.h"

#define SWITCH_COMBINING_MAX 1024u         /* limit of groups with combine states, per switch */
#define SWITCH_ROWS_MAX      EMU_PORTS_MAX /* limit of ports and combine units together */
#if EMU_PORT_WORDS == 1
#define SWITCH_SEGMENTS_MAX 65535u /* limit of segments that a switch can hold */
#else
#define SWITCH_SEGMENTS_MAX 1048575u
#endif

struct emu_mismatch;
struct switch_dev;
struct switch_group;

/* Counters. The switch's worker writes them; any thread may read them. */
struct switch_counts {
    _Atomic uint64_t combined;   /* contributions that were combined */
    _Atomic uint64_t results;    /* results of reductions that were sent */
    _Atomic uint64_t multicasts; /* segments that were copied to more than one port */
    /* segments dropped because they came from outside the group's tree or violated the protocol */
    _Atomic uint64_t bad;
    _Atomic uint64_t late; /* dropped: segments of groups that do not exist (any more) */
    /* unicasts without a route: dropped, refused, or waiting for a link */
    _Atomic uint64_t trapped;
    _Atomic uint32_t trapped_dst; /* destination of the last unicast without a route */
    /* states of combine units that were found damaged when they were read */
    _Atomic uint64_t damaged;
    _Atomic uint64_t
        dropped_out_of_service; /* dropped: contributions to units that were out of service */

    /* Counters of packets and their segments, only in switches with virtual channels. */
    _Atomic uint64_t stale; /* segments and replies of packets that had ended */
    /* packets that were refused by a NACK, because no output leads on to their destination */
    _Atomic uint64_t refused;
    /* packets that got no reply in time, or for which no channel was free in time */
    _Atomic uint64_t timeouts;
    _Atomic uint64_t given_up; /* packets that ended because their sender has given them up */
    _Atomic uint64_t overrun;  /* dropped: segments that found no free slot */
};

/* Counts of faults on cables into a switch, and of link-level retry on cables out of it. */
struct switch_retries {
#define REPLAY(name)     uint64_t name;
#define INTAKE(name)     uint64_t name;
#define UNREPORTED(name) uint64_t name;
#include "switch/common/retries.def"
};

/**
 * switch_destroy - free a switch, after its worker has ended. The function also unjoins its cables
 * to devices on this host.
 */
void switch_destroy(struct switch_dev *sw);

struct emu_dev *switch_emu_dev(struct switch_dev *sw);
struct emu_tx *switch_tx(struct switch_dev *sw, uint32_t port);
struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port);
const struct switch_counts *switch_counts(const struct switch_dev *sw);

/**
 * switch_queued - return the load of an output: the segments in the switch that will leave by it.
 * With virtual channels: the packets that were sent by it and have no reply yet. The value may be
 * slightly old. Thread: any.
 */
uint32_t switch_queued(const struct switch_dev *sw, uint32_t port);

/**
 * switch_audit - check the invariants that hold between two iterations of the worker: that credits,
 * queues and counters agree, and, on clock virtual, that Little's law holds to the picosecond.
 * @now_ps: on clock virtual, all events up to this time have happened.
 * @reporter: called for each error.
 * Thread: the driver, while all workers are stopped.
 */
void switch_audit(struct switch_dev *sw, uint64_t now_ps, const struct emu_reporter *reporter);

/** switch_check - do the checks of switch_audit(). Returns the first error, or NULL. */
const char *switch_check(struct switch_dev *sw, uint64_t now_ps);

/**
 * switch_bufs - return how many references to pool buffers the switch and the cables to it hold.
 * References of groups do not count. Thread: the driver, while all workers are stopped.
 */
uint32_t switch_bufs(struct switch_dev *sw);

/* --- clocks, faults, units ---------------------------------------------------------- */

/** switch_rebase - timed clocks: subtract @by_ps from all times. Thread: manager, while stopped. */
void switch_rebase(struct switch_dev *sw, uint64_t by_ps);

/**
 * switch_faults - set the faults of the cable that leads from another device into @port; NULL:
 * none. Thread: manager, while stopped. Errors: -ENOMEM.
 */
int switch_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

/** switch_retries_add - add the counts of a switch to @sum. Thread: any. */
void switch_retries_add(const struct switch_dev *sw, struct switch_retries *sum);

/**
 * switch_overruns - report the segments on the cable into @port that were lost for want of a pool
 * buffer since the last report; see emu_intake_overruns(). Thread: manager, while stopped.
 */
void switch_overruns(struct switch_dev *sw, uint32_t port,
                     void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * switch_join_retry - join a cable with link-level retry, as emu_link_join() joins one without.
 * Only for switches without virtual channels. Errors: -ENOMEM. Thread: before their workers start.
 */
int switch_join_retry(struct switch_dev *from, uint32_t from_port, struct switch_dev *to,
                      uint32_t to_port);

/* The ends of rings that are directly at the cable of a port, for a capture. */
struct switch_cable_ends {
    /* the sending end of the port or, with link-level retry, of its replay buffer */
    struct emu_tx *tx;
    struct emu_rx *rx; /* the receiving end of the port; returns credits */
    /*
     * with link-level retry: the end that takes segments from the wire and acknowledges them, and
     * then passes them to `rx`; otherwise NULL
     */
    struct emu_rx *answers;
};

/** switch_cable_ends - return the ends of rings at the cable of @port. Thread: any. */
struct switch_cable_ends switch_cable_ends(struct switch_dev *sw, uint32_t port);

/* --- links and routes; thread: the manager, while stopped --------------------------- */

/**
 * switch_reroute - publish a new routing table, which is borrowed. The caller may free the old one
 * after emu_rcu_wait(). Thread: manager, at any time.
 */
void switch_reroute(struct switch_dev *sw, const struct topo_route *route);

/** switch_route_now - return the current routing table. Thread: manager, at any time. */
const struct topo_route *switch_route_now(const struct switch_dev *sw);

/**
 * switch_ups - set the ports that lead to switches of higher levels. A segment that arrived at one
 * of these ports never leaves through one of them. Thread: before the worker starts.
 */
void switch_ups(struct switch_dev *sw, emu_ports ports);

/**
 * switch_link - the signal at @port is lost, or is back: let the switch detect this at @at_ps, and
 * take the link down or up. The caller calls this for both ends. All links are up at first. Returns
 * how many packets were sent over the link and had no reply yet; they are lost. The caller then
 * wakes the switch (emu_dev_signal_remote()).
 * Source: QsNet III §III, Figure 2.
 */
uint32_t switch_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

/**
 * switch_reroute_in_flight - reroute the segments that wait for the cable from @from to @to (see
 * emu_replay_reroute()). The cable has link-level retry, and is down. Some segments go back to
 * @from: they enter it at @from_port, as if @to had sent them, and leave it by another port.
 * @replay: NULL for a cable between two switches. Otherwise @from is NULL, and @replay is the
 * replay buffer of the device that connects @to with a switch on another host. A segment that goes
 * back is then sent to that host through the port @to_port.
 * @carry: the caller sets the fields carry.most, .at_ps, .may and .ctx, and if @replay is not NULL
 * also .depth.
 * Returns the number of rerouted segments. The caller then wakes both devices.
 */
uint32_t switch_reroute_in_flight(struct emu_replay *replay, struct switch_dev *from,
                                  uint32_t from_port, struct switch_dev *to, uint32_t to_port,
                                  struct emu_reroute carry);

/**
 * switch_retry_end - return the receiving half of link-level retry on the cable into @port, for
 * emu_retry_join() with a device that is not a switch. NULL: no memory. Thread: as
 * switch_join_retry().
 */
struct emu_intake *switch_retry_end(struct switch_dev *sw, uint32_t port);

/**
 * switch_is_clear - return whether all rerouted segments that went back into the switch at @port,
 * and must go up, have left. The link at @port must stay down until then, because segments that
 * come down through it must not wait for segments that go up.
 */
bool switch_is_clear(const struct switch_dev *sw, uint32_t port);

/**
 * switch_stick - if @stuck, stop the port from sending, without any signal; otherwise let it send
 * again, beginning at @at_ps (raw: 0). Nothing is lost. Exception, in switches without virtual
 * channels: while the port's link is down (switch_link()), a stuck port sends, so that the manager
 * can reroute its segments. With link-level retry the segments go only into the replay buffer, for
 * switch_reroute_in_flight(). Without it they go over the cable.
 */
void switch_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);

bool switch_is_stuck(const struct switch_dev *sw, uint32_t port);

/**
 * switch_is_ready - return whether the port has a segment or a reply that it could send now. The
 * port must lead to another device.
 */
bool switch_is_ready(const struct switch_dev *sw, uint32_t port);

/**
 * switch_waiting - return how many segments are queued for the port. @report: called with each of
 * them, as it would be sent; NULL: they are only counted.
 */
uint32_t switch_waiting(struct switch_dev *sw, uint32_t port,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx);

/**
 * switch_combine_faults - set the faults to which combining is subject; see emu_faults_fold().
 * switch_combine_stall - if @stalled, stop the combine units; otherwise let them continue from
 * @at_ps on (raw: 0). Only for switches that have combine units of their own. Errors: -ENOMEM.
 */
int switch_combine_faults(struct switch_dev *sw, struct emu_faults *faults);
int switch_combine_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps);

/**
 * switch_combine_out - if @out, take the combine units out of service at @at_ps (raw: 0), otherwise
 * back into service. Out of service they drop all contributions and count them
 * (switch_counts.dropped_out_of_service).
 */
void switch_combine_out(struct switch_dev *sw, bool out, uint64_t at_ps);

/** switch_combine_taken - return how many contributions the units took since their first fault. */
uint64_t switch_combine_taken(const struct switch_dev *sw);

/** switch_combine_waiting - like switch_waiting(), but for contributions at the combine units. */
uint32_t switch_combine_waiting(struct switch_dev *sw,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/** switch_slow - timed clocks: make the wire from the port slower by @factor; see emu_tx_slow(). */
void switch_slow(struct switch_dev *sw, uint32_t port, struct emu_slow *slow, uint32_t factor);

/**
 * switch_units - tell a switch that combine units are devices of their own, each on a port of its
 * switch.
 * @first: number of the first unit, as a destination; nodes have lower numbers.
 * @own: the port of this switch's unit.
 * @at: for each port: the number of the combine unit that is attached to this port, or to the
 * switch to which the port's cable leads; 0: none. Borrowed.
 */
void switch_units(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at);

/**
 * switch_check_cable - check the cable into @port from a device that is not a switch, as
 * switch_check() checks the cables between switches. Returns an error, or NULL.
 * @vcs: the sender's count of the buffer slots.
 * @promised: by channel, slots that are reserved for segments that are not sent yet; NULL: none.
 */
const char *switch_check_cable(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised);

/**
 * switch_check_out - check the cable from @port to a device that is not a switch.
 * @rx: the receiver, which returns the credit of each segment when it arrives.
 * @faults: at the receiver.
 */
const char *switch_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults);

/**
 * switch_check_channels - check a cable with virtual channels.
 * @held: by channel, segments at the receiver whose credits have not returned; NULL: none.
 * @faults: at the receiver.
 * @promised: as for switch_check_cable().
 * @slots: number of slots of the pool.
 */
const char *switch_check_channels(const struct emu_rx *rx, const struct emu_vcs *vcs,
                                  const struct emu_faults *faults, const uint32_t *held,
                                  const uint32_t *promised, uint32_t slots);

/**
 * switch_holds - return whether a segment of group @id is in the switch, or on a cable from or to
 * it. Only for switches with crosspoints. Segments that are still in a process's ring do not count.
 */
bool switch_holds(struct switch_dev *sw, uint32_t id);

/* --- groups; thread: the manager ---------------------------------------------------- */

/**
 * switch_group_create - create one switch's part of the tree of a group.
 * @id: the group's address. Its low bits are a slot of the table, and the bits above a generation.
 * Slots are reused; the generation keeps a late segment of an old group out of the new one. The
 * address also encodes the window (emu/packet/seg.h).
 * @ports: the tree's ports at this switch.
 * @up: port towards the top of the tree; -1 at the top.
 * @units: number of combine units of the switch. If it is not 0, the group holds one combine state
 * for each sequence number in its window. 0: the group is for multicasts only.
 * Errors: -ENOMEM.
 */
int switch_group_create(struct switch_group **ret, uint32_t id, emu_ports ports, int up,
                        uint32_t units, enum emu_combine_order order);

/**
 * switch_group_destroy - free a group and its buffers. The group must not be in any switch's table.
 * @ports: number of ports of the switch.
 */
void switch_group_destroy(struct switch_group *group, uint32_t ports, struct emu_pool_cache *cache);

/** switch_group_bufs - return how many pool buffers the group holds. While stopped. */
uint32_t switch_group_bufs(const struct switch_group *group, uint32_t ports);

/** switch_group_check - check the group's states. Returns an error, or NULL. While stopped. */
const char *switch_group_check(const struct switch_group *group);

/* A switch's table entry for a group. */
struct switch_group_entry {
    emu_ports ports;
    int up;
};

/** switch_group_entry - copy the table entry of group @id. False: the table has none. */
bool switch_group_entry(const struct switch_dev *sw, uint32_t id, struct switch_group_entry *ret);

/** switch_groups_count - return the number of groups in the switch's table. */
uint32_t switch_groups_count(const struct switch_dev *sw);

/** switch_group_is_idle - return whether the group has no operation in progress. While stopped. */
bool switch_group_is_idle(const struct switch_group *group);

/**
 * switch_group_arrived - return the ports that have contributed to segment @seq of the group's
 * stream; after the result was sent, all ports of the group. While stopped.
 */
emu_ports switch_group_arrived(const struct switch_group *group, uint32_t seq);

/**
 * switch_group_failed - return whether a state of the group was found damaged at this switch. If
 * so, none of the group's operations completes any more. While stopped.
 */
bool switch_group_failed(const struct switch_group *group);

/**
 * switch_group_mismatch - return the first two contributions at this switch whose headers did not
 * match, or NULL. While stopped.
 */
const struct emu_mismatch *switch_group_mismatch(const struct switch_group *group);

/**
 * switch_groups_set - put a group into the switch's table. If the table must grow, a new table is
 * published, and the caller frees the old one, *old, after emu_rcu_wait(); otherwise *old is NULL.
 * Errors change nothing: -ENOMEM; -ENOTSUP if the group combines and this kind of switch does not.
 */
int switch_groups_set(struct switch_dev *sw, struct switch_group *group, void **old);

/** switch_groups_clear - remove a group from the table. It may be freed after emu_rcu_wait(). */
void switch_groups_clear(struct switch_dev *sw, uint32_t id);

/** switch_multicast_bytes - return the memory of a group for multicasts only, in bytes. Pure. */
size_t switch_multicast_bytes(void);

#endif
