/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - operations on a switch of any kind. switch.h creates one.
 *
 * "Stopped" below means that the switch's worker is stopped.
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

#define SWITCH_COMBINING_MAX 1024u         /* groups with combine states, per switch */
#define SWITCH_ROWS_MAX      EMU_PORTS_MAX /* ports and combine units together */
#if EMU_PORT_WORDS == 1
#define SWITCH_SEGMENTS_MAX 65535u /* segments that a switch can hold */
#else
#define SWITCH_SEGMENTS_MAX 1048575u
#endif

struct emu_mismatch;
struct switch_dev;
struct switch_group;

/* Counters. The switch's worker writes them; any thread may read them. */
struct switch_counts {
    _Atomic uint64_t combined;    /* contributions combined */
    _Atomic uint64_t results;     /* results sent */
    _Atomic uint64_t multicasts;  /* segments copied to more than one port */
    _Atomic uint64_t bad;         /* dropped: not of the group, or a protocol error */
    _Atomic uint64_t late;        /* dropped: the group does not exist here (any more) */
    _Atomic uint64_t trapped;     /* unicasts without a route: refused, or held */
    _Atomic uint32_t trapped_dst; /* destination of the last of them */
    _Atomic uint64_t damaged;     /* combine states that were found damaged when read */
    _Atomic uint64_t scrapped;    /* dropped: contributions to units that were out of service */

    /* Packets, with channels only. */
    _Atomic uint64_t stale;    /* segments and replies of packets that had ended */
    _Atomic uint64_t refused;  /* packets that no output led on for: a NACK */
    _Atomic uint64_t timeouts; /* no reply came in time, or no channel was free */
    _Atomic uint64_t given_up; /* packets given up because their sender gave them up */
    _Atomic uint64_t overrun;  /* dropped: segments without a free slot */
};

/* Counts of faults on cables into a switch, and of link-level retry on cables out of it. */
struct switch_retries {
#define REPLAY(name)     uint64_t name;
#define INTAKE(name)     uint64_t name;
#define UNREPORTED(name) uint64_t name;
#include "switch/common/retries.def"
};

/** switch_destroy - free a switch, after its worker has ended. Unjoins its local cables. */
void switch_destroy(struct switch_dev *sw);

struct emu_dev *switch_emu_dev(struct switch_dev *sw);
struct emu_tx *switch_tx(struct switch_dev *sw, uint32_t port);
struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port);
const struct switch_counts *switch_counts(const struct switch_dev *sw);

/**
 * switch_queued - load of an output: segments in the switch that will leave by it; with channels,
 * packets that were sent by it and have no reply yet. A recent value. Thread: any.
 */
uint32_t switch_queued(const struct switch_dev *sw, uint32_t port);

/**
 * switch_audit - check all invariants between two passes: credits, queues and counters agree; on
 * clock virtual also Little's law, to the picosecond.
 * @now_ps: clock virtual: all events up to then have happened. @found: is called for each error.
 * Thread: the driver, while all workers are stopped.
 */
void switch_audit(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);

/** switch_check - as switch_audit(). Returns the first error, or NULL. */
const char *switch_check(struct switch_dev *sw, uint64_t now_ps);

/**
 * switch_bufs - references to pool buffers in the switch and on the cables to it, without those of
 * groups. Thread: the driver, while all workers are stopped.
 */
uint32_t switch_bufs(struct switch_dev *sw);

/* --- clocks, faults, units ---------------------------------------------------------- */

/** switch_rebase - rebase a timed clock by @by_ps. Thread: manager, while stopped. */
void switch_rebase(struct switch_dev *sw, uint64_t by_ps);

/**
 * switch_faults - set the faults of the cable from another device into @port; NULL: none.
 * Thread: manager, while stopped. Errors: -ENOMEM.
 */
int switch_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

/** switch_retries_add - add the counts of a switch without channels to @sum. Thread: any. */
void switch_retries_add(const struct switch_dev *sw, struct switch_retries *sum);

/**
 * switch_overruns - report the segments on the cable into @port that found no buffer and have not
 * been reported yet: emu_intake_overruns(). Thread: manager, while stopped.
 */
void switch_overruns(struct switch_dev *sw, uint32_t port,
                     void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * switch_join_retry - join a cable with link-level retry, instead of emu_link_join(): switches
 * without channels only. Errors: -ENOMEM. Thread: before their workers start.
 */
int switch_join_retry(struct switch_dev *from, uint32_t from_port, struct switch_dev *to,
                      uint32_t to_port);

/* The ends of a port that are directly at its cable, for a capture. */
struct switch_cable_ends {
    struct emu_tx *tx;      /* fills the cable's ring: the port's, or link-level retry's */
    struct emu_rx *rx;      /* the port's, which returns credits */
    struct emu_rx *answers; /* link-level retry's; NULL: there is none */
};

/** switch_cable_ends - Thread: any. */
struct switch_cable_ends switch_cable_ends(struct switch_dev *sw, uint32_t port);

/* --- links and routes; thread: the manager, while stopped --------------------------- */

/**
 * switch_reroute - publish a new routing table. Borrowed; the old one may be freed after
 * emu_rcu_wait(). Thread: manager, at any time.
 */
void switch_reroute(struct switch_dev *sw, const struct topo_route *route);

/** switch_route_now - the current routing table. Thread: manager, at any time. */
const struct topo_route *switch_route_now(const struct switch_dev *sw);

/**
 * switch_ups - set the ports that lead to switches of higher levels: segments that came down by one
 * of them never go up again. Before the worker starts.
 */
void switch_ups(struct switch_dev *sw, emu_ports ports);

/**
 * switch_link - the link at @port goes down, or is up again, at @at_ps: the switch detects a loss
 * of signal. Call it for both ends. All links are up at first. Returns packets that were sent by it
 * and had no reply yet: they are lost. Wake the switch afterwards (emu_dev_signal_remote()).
 * Source: QsNet III §III, Figure 2.
 */
uint32_t switch_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

/**
 * switch_reroute_in_flight - the cable from @from to @to, with link-level retry, is down: reroute
 * segments that wait for it: emu_replay_reroute(). A segment that goes back enters @from by the
 * same port, and leaves by another.
 * @replay: NULL; or the replay buffer of a device between hosts, and @from is NULL: then the remote
 *          end is on another host, and a segment that goes back is sent there by the same port.
 * @carry: with most, at_ps, may and ctx set, and depth if there is @replay.
 * Returns the number of segments. Wake both devices afterwards.
 */
uint32_t switch_reroute_in_flight(struct emu_replay *replay, struct switch_dev *from,
                                  uint32_t from_port, struct switch_dev *to, uint32_t to_port,
                                  struct emu_reroute carry);

/**
 * switch_retry_end - the receiving half of link-level retry on the cable into @port, for
 * emu_retry_join() with a device that is not a switch. NULL: no memory. Thread: as
 * switch_join_retry().
 */
struct emu_intake *switch_retry_end(struct switch_dev *sw, uint32_t port);

/**
 * switch_is_clear - have all rerouted segments that came back by @port and lead up left? Until then
 * its link must stay down: segments that come down by it must not wait for those.
 */
bool switch_is_clear(const struct switch_dev *sw, uint32_t port);

/**
 * switch_stick - the port sends nothing from now on, without any signal; not @stuck: it sends again
 * from @at_ps on (raw: 0). Nothing is lost. Without channels, a stuck port whose link is down
 * (switch_link()) does send, on behalf of the management network: with link-level retry, only up to
 * the replay buffer, for switch_reroute_in_flight(); else over the cable.
 */
void switch_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);

/** switch_is_stuck - is the port stuck? */
bool switch_is_stuck(const struct switch_dev *sw, uint32_t port);

/** switch_is_ready - has the port, which leads to another device, a segment and a credit for it? */
bool switch_is_ready(const struct switch_dev *sw, uint32_t port);

/**
 * switch_waiting - segments that are queued for the port. @report: is called with each, as it would
 * be sent; NULL: they are only counted. Returns how many.
 */
uint32_t switch_waiting(struct switch_dev *sw, uint32_t port,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx);

/**
 * switch_combine_faults - combine through @faults: emu_faults_fold().
 * switch_combine_stall() - stop the combine units; not @stalled: continue, from @at_ps on (raw: 0).
 * Switches that combine by themselves only. Errors: -ENOMEM.
 */
int switch_combine_faults(struct switch_dev *sw, struct emu_faults *faults);
int switch_combine_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps);

/**
 * switch_combine_out - take the combine units out of service from @at_ps on (raw: 0): they drop and
 * count (switch_counts.scrapped) all contributions until not @out.
 */
void switch_combine_out(struct switch_dev *sw, bool out, uint64_t at_ps);

/** switch_combine_taken - contributions that the units took since the first fault in them. */
uint64_t switch_combine_taken(const struct switch_dev *sw);

/** switch_combine_waiting - contributions that wait at the units: as switch_waiting(). */
uint32_t switch_combine_waiting(struct switch_dev *sw,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/** switch_slow - timed: make the wire from the port slower by @factor: emu_tx_slow(). */
void switch_slow(struct switch_dev *sw, uint32_t port, struct emu_slow *slow, uint32_t factor);

/**
 * switch_units - combine units are devices of their own, each on a port of its switch.
 * @first: number of the first unit, as a destination; nodes have lower numbers.
 * @own: the port of this switch's unit.
 * @at: by port, the number of the unit of this switch behind it, or of the neighbour's unit; 0:
 *      none. Borrowed.
 */
void switch_units(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at);

/**
 * switch_check_cable - the part of switch_check() for a cable into @port from a device that is not
 * a switch. @vcs: the sender's. @promised: by channel, slots reserved for segments that it has not
 * sent yet; NULL: none. Returns an error, or NULL.
 */
const char *switch_check_cable(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised);

/**
 * switch_check_out - the same for a cable from @port to a device that is not a switch.
 * @rx: the receiver, which returns each segment's credit as it comes. @faults: at the receiver.
 */
const char *switch_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults);

/**
 * switch_check_channels - the same for any cable. @held: by channel, segments at the receiver whose
 * credits have not returned; NULL: none. @faults: at the receiver. @slots: of the pool.
 */
const char *switch_check_channels(const struct emu_rx *rx, const struct emu_vcs *vcs,
                                  const struct emu_faults *faults, const uint32_t *held,
                                  const uint32_t *promised, uint32_t slots);

/**
 * switch_holds - is a segment of group @id in the switch, or on a cable from or to it? Without
 * channels only. Segments in a process's ring that have not been taken do not count.
 */
bool switch_holds(struct switch_dev *sw, uint32_t id);

/* --- groups; thread: the manager ---------------------------------------------------- */

/**
 * switch_group_create - make the switch's part of a collective tree.
 * @id: its address: a slot and, above it, a generation. Slots are used again; the generation keeps
 *      a late segment of an old group out of the new one. It encodes the window (emu/packet/seg.h).
 * @ports: the tree's ports here; @up: port towards the top, -1 at the top.
 * @units: combine units of the switch: the group holds a state for each number of its window. 0:
 *      the group is for multicasts only.
 * Errors: -ENOMEM.
 */
int switch_group_create(struct switch_group **ret, uint32_t id, emu_ports ports, int up,
                        uint32_t units, enum emu_combine_order order);

/**
 * switch_group_destroy - free a group that is in no switch's table, and its buffers.
 * @ports: external ports of the switch.
 */
void switch_group_destroy(struct switch_group *group, uint32_t ports, struct emu_pool_cache *cache);

/** switch_group_bufs - pool buffers that the group holds. While stopped. */
uint32_t switch_group_bufs(const struct switch_group *group, uint32_t ports);

/** switch_group_check - check the group's states. Returns an error, or NULL. While stopped. */
const char *switch_group_check(const struct switch_group *group);

/* A switch's table entry for a group. */
struct switch_group_entry {
    emu_ports ports;
    int up;
};

/** switch_group_entry - the table entry of group @id. False: the table has none. */
bool switch_group_entry(const struct switch_dev *sw, uint32_t id, struct switch_group_entry *ret);

/** switch_groups_count - number of groups in the switch's table. */
uint32_t switch_groups_count(const struct switch_dev *sw);

/** switch_group_is_idle - is no operation of the group in progress here? While stopped. */
bool switch_group_is_idle(const struct switch_group *group);

/**
 * switch_group_arrived - the ports that have contributed to segment @seq of the group's stream; all
 * ports of the group once the result was sent. While stopped.
 */
emu_ports switch_group_arrived(const struct switch_group *group, uint32_t seq);

/**
 * switch_group_failed - was a state of the group found damaged here? Then none of its operations
 * completes any more. While stopped.
 */
bool switch_group_failed(const struct switch_group *group);

/**
 * switch_group_mismatch - the first two contributions here whose headers did not match, or NULL.
 * While stopped.
 */
const struct emu_mismatch *switch_group_mismatch(const struct switch_group *group);

/**
 * switch_groups_set - put a group into the switch's table. If the table must grow, a new one is
 * published; *old is the old one, to be freed after emu_rcu_wait(), else NULL. Errors, nothing
 * changed: -ENOMEM; -ENOTSUP, a switch with channels does not combine.
 */
int switch_groups_set(struct switch_dev *sw, struct switch_group *group, void **old);

/** switch_groups_clear - remove a group. It may be freed after emu_rcu_wait(). */
void switch_groups_clear(struct switch_dev *sw, uint32_t id);

/** switch_multicast_bytes - memory of a group for multicasts only. Pure. */
size_t switch_multicast_bytes(void);

#endif
