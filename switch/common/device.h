/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - a switch of any kind, once it is made (switch.h).
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
#include "emu/dev/found.h"
#include "topo/topo.h"

#define SWITCH_COMBINING_MAX 1024u         /* of them, groups that can combine */
#define SWITCH_ROWS_MAX      EMU_PORTS_MAX /* ports and combine units together */
#if EMU_PORT_WORDS == 1
#define SWITCH_SEGMENTS_MAX 65535u /* that a switch can hold */
#else
#define SWITCH_SEGMENTS_MAX 1048575u
#endif

struct emu_clash;
struct switch_dev;
struct switch_group;

/* What the switch counts; each has one writer, the switch's worker. */
struct switch_counts {
    _Atomic uint64_t combined;    /* contributions folded */
    _Atomic uint64_t results;     /* results sent */
    _Atomic uint64_t multicasts;  /* segments copied to more than one port */
    _Atomic uint64_t bad;         /* dropped: foreign to the group, or against the protocol */
    _Atomic uint64_t late;        /* dropped: to a group that is not here (any more) */
    _Atomic uint64_t trapped;     /* unicasts that there was no way for: refused, or held */
    _Atomic uint32_t trapped_dst; /* where to, the last of them */
    _Atomic uint64_t damaged;     /* states of combine units that were found damaged when read */
    _Atomic uint64_t scrapped;    /* dropped: contributions to units that were out of service */

    /* Packets: none but with channels. */
    _Atomic uint64_t stale;    /* segments and replies of packets that were over */
    _Atomic uint64_t refused;  /* packets that go nowhere: a NACK */
    _Atomic uint64_t timeouts; /* no reply came in time, or no channel */
    _Atomic uint64_t given_up; /* packets given up because their sender did so */
    _Atomic uint64_t overrun;  /* dropped: segments that found no room */
};

/* What faults have done to cables into a switch, and link-level retry for those out of it. */
struct switch_retries {
#define REPLAY(name)     uint64_t name;
#define INTAKE(name)     uint64_t name;
#define UNREPORTED(name) uint64_t name;
#include "switch/common/retries.def"
};

/** switch_destroy - after its worker has ended; frees its local cables' sending ends. */
void switch_destroy(struct switch_dev *sw);

struct emu_dev *switch_emu_dev(struct switch_dev *sw);
struct emu_tx *switch_tx(struct switch_dev *sw, uint32_t port);
struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port);
const struct switch_counts *switch_counts(const struct switch_dev *sw);

/**
 * switch_queued - what waits at the port: segments here that are to leave by it; with channels,
 * packets that are under way on it, up to their replies. A recent value. Thread: any.
 */
uint32_t switch_queued(const struct switch_dev *sw, uint32_t port);

/**
 * switch_audit - what must hold between two passes: credits, crosspoints and counters agree; and on
 * clock virtual Little's law to the picosecond.
 * @now_ps: clock virtual: everything up to then has happened. @found: told what is wrong, and
 * where. Thread: the driver, while the workers stand still.
 */
void switch_audit(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);

/** switch_check - the same. Returns NULL, or the first thing that is wrong. */
const char *switch_check(struct switch_dev *sw, uint64_t now_ps);

/**
 * switch_bufs - pool buffers that the switch holds and the cables to it, beside those of groups:
 * references.
 * Thread: the driver, while the workers stand still.
 */
uint32_t switch_bufs(struct switch_dev *sw);

/* --- clocks, faults, units ---------------------------------------------------------- */

/**
 * switch_rebase - the clock is rebased by @by_ps. Thread: manager, while the worker stands still.
 */
void switch_rebase(struct switch_dev *sw, uint64_t by_ps);

/**
 * switch_faults - from now on @faults stand at port @port, where a cable from another device is;
 * NULL: none. While its worker stands still. Errors: -ENOMEM.
 */
int switch_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

/** switch_retries_add - to @sum, what became of faults on cables of a switch without channels. */
void switch_retries_add(const struct switch_dev *sw, struct switch_retries *sum);

/**
 * switch_overruns - segments on the cable into @port that found no room, and that nobody was told
 * of: emu_intake_overruns(). Thread: manager, while the worker stands still.
 */
void switch_overruns(struct switch_dev *sw, uint32_t port,
                     void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * switch_join_retry - a cable with link-level retry, in the place of emu_link_join(): switches
 * without channels only. Errors: -ENOMEM. Thread: before their workers start.
 */
int switch_join_retry(struct switch_dev *from, uint32_t from_port, struct switch_dev *to,
                      uint32_t to_port);

/* What of a port stands at its cable itself, where a capture listens. */
struct switch_cable_ends {
    struct emu_tx *tx;      /* fills the cable's ring: the port's, or link-level retry's */
    struct emu_rx *rx;      /* the port's, which gives credits back */
    struct emu_rx *answers; /* of link-level retry; NULL: there is none */
};

/** switch_cable_ends - Thread: any. */
struct switch_cable_ends switch_cable_ends(struct switch_dev *sw, uint32_t port);

/* --- links and routes: the manager's side ------------------------------------------- */

/**
 * switch_reroute - from now on destinations are where @route says. Borrowed; what it replaces is
 * free after emu_rcu_wait(). Thread: manager, while the worker runs or not.
 */
void switch_reroute(struct switch_dev *sw, const struct topo_route *route);

/** switch_route_now - the routes in force. Thread: manager. */
const struct topo_route *switch_route_now(const struct switch_dev *sw);

/**
 * switch_ups - the ports that lead to switches of higher levels: what has come down by one of
 * them never goes up again. Before the worker starts.
 */
void switch_ups(struct switch_dev *sw, emu_ports ports);

/**
 * switch_link - the link at @port goes down, or is up again, at @at_ps, as its loss of signal tells
 * a switch. Both ends must be told. All links are up at first. Returns packets that were sent by it
 * and had no reply yet: they are lost.
 * Thread: manager, while the worker stands still; then it is to be woken (emu_dev_signal_far()).
 * Source: QsNet III §III, Figure 2.
 */
uint32_t switch_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps);

/* Says what becomes of an entry that waits for a link that is down. */
typedef enum emu_carried emu_carry_fn(void *ctx, const struct emu_entry *entry);

/**
 * switch_carry - the cable from @from to @to, with link-level retry, is down: up to @most of what
 * waits for it leaves as @may says, in order, once each (emu_replay_carry()). What goes back enters
 * @from by the same port, and leaves by another. Returns how many left.
 * Thread: manager, while the workers stand still; then both switches are to be woken.
 */
uint32_t switch_carry(struct switch_dev *from, uint32_t from_port, struct switch_dev *to,
                      uint32_t to_port, uint32_t most, uint64_t at_ps, emu_carry_fn *may,
                      void *ctx);

/**
 * switch_carry_in - the same of what waits in @replay, of a device between hosts, for the cable
 * into @port of @to. Its other end is on another host: what goes back is sent there by the same
 * port. @depth: credits of that way beyond the room of its end.
 */
uint32_t switch_carry_in(struct emu_replay *replay, struct switch_dev *to, uint32_t port,
                         uint32_t depth, uint32_t most, uint64_t at_ps, emu_carry_fn *may,
                         void *ctx);

/**
 * switch_retry_end - link-level retry on the cable into @port, whose sending half is another
 * device's than a switch's: emu_retry_join(). NULL: there is no memory. Thread: as
 * switch_join_retry().
 */
struct emu_intake *switch_retry_end(struct switch_dev *sw, uint32_t port);

/**
 * switch_is_clear - has all left that went back by @port and leads up? Until then its link stays
 * down, for what comes down by it must not wait for what goes up. Thread: the same.
 */
bool switch_is_clear(const struct switch_dev *sw, uint32_t port);

/**
 * switch_stick - the port sends nothing from now on, and nobody is told; not @stuck: it goes on,
 * from @at_ps on (raw: 0). Nothing is lost. Without channels the management network stands in for a
 * port that is stuck while its link is down (switch_link()): what waits there goes on. With
 * link-level retry it goes no farther than to what is carried (switch_carry()), else it goes by the
 * cable. Thread: as switch_link().
 */
void switch_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);

/** switch_is_stuck - is it? Thread: the same. */
bool switch_is_stuck(const struct switch_dev *sw, uint32_t port);

/**
 * switch_is_ready - has the port, which leads to another device, something that it could send now?
 * One that waits for room at the far end is not ready. Thread: the same.
 */
bool switch_is_ready(const struct switch_dev *sw, uint32_t port);

/**
 * switch_waiting - what has a place in line at the port and is not sent yet. @tell: each, as it
 * would be sent; NULL: it is only counted. Returns how many. Thread: while the worker stands still.
 */
uint32_t switch_waiting(struct switch_dev *sw, uint32_t port,
                        void (*tell)(void *ctx, const struct emu_entry *entry), void *ctx);

/**
 * switch_combine_faults - from now on what the switch folds goes by @faults: emu_faults_fold().
 * switch_combine_stall() - its units stand still; not @stalled: they go on, from @at_ps on (raw:
 * 0). Of a switch that combines by itself. Errors: -ENOMEM. Thread: the same.
 */
int switch_combine_faults(struct switch_dev *sw, struct emu_faults *faults);
int switch_combine_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps);

/**
 * switch_combine_out - its units are taken out of service: what waits for them, and what comes, is
 * dropped and counted (switch_counts.scrapped), from @at_ps on (raw: 0), until not @out. Of a
 * switch that combines by itself. Thread: the same.
 */
void switch_combine_out(struct switch_dev *sw, bool out, uint64_t at_ps);

/** switch_combine_taken - contributions that its units took since anything was wrong with them. */
uint64_t switch_combine_taken(const struct switch_dev *sw);

/** switch_combine_waiting - contributions that wait at them: as switch_waiting(). */
uint32_t switch_combine_waiting(struct switch_dev *sw,
                                void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * switch_slow - timed: the wire from the port is slower by @factor: emu_tx_slow(). Thread: the
 * same.
 */
void switch_slow(struct switch_dev *sw, uint32_t port, struct emu_slow *slow, uint32_t factor);

/**
 * switch_units - combine units are devices of their own, each on a port of its switch.
 * @first: number of the first of them, as a destination: nodes are below.
 * @own: port of this switch's.
 * @at: by port, the number of the unit that it leads to: of this switch, or of the one at the far
 *      end; 0: to none. Borrowed.
 */
void switch_units(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at);

/**
 * switch_check_cable - the part of switch_check() for a cable into @port that no switch sends on.
 * @vcs: the sender's. @promised: by channel, slots that it has taken for segments that it has
 * not sent; NULL: none. Returns NULL, or what is wrong.
 */
const char *switch_check_cable(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised);

/**
 * switch_check_out - the same for a cable from @port to a device that is no switch.
 * @rx: the receiving end, which pays for each segment as it comes. @faults: there.
 */
const char *switch_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults);

/**
 * switch_check_channels - the same for any cable. @held: by channel, segments that the receiver has
 * taken and not paid for; NULL: none. @faults: at the receiver. @slots: of the pool.
 */
const char *switch_check_channels(const struct emu_rx *rx, const struct emu_vcs *vcs,
                                  const struct emu_faults *faults, const uint32_t *held,
                                  const uint32_t *promised, uint32_t slots);

/**
 * switch_holds - is a segment of group @id in the switch, or on its way to or from a cable of it?
 * Without channels only. What comes from a process, and has not been taken, does not count.
 * Thread: the same.
 */
bool switch_holds(struct switch_dev *sw, uint32_t id);

/* --- groups: the manager's side ----------------------------------------------------- */

/**
 * switch_group_create - the switch's part of a collective tree.
 * @id: its address. Slots are used again; the bits above tell the users of one apart, so that a
 *      late segment of an old group is not taken for one of the new. It says the window
 *      (emu/packet/seg.h).
 * @ports: bit vector of the tree's ports here; @up: port towards the top, -1 at the top.
 * @units: combine units of the switch: the group holds a state for each number of its window. 0:
 *      the group is for multicasts only.
 * Errors: -ENOMEM.
 */
int switch_group_create(struct switch_group **ret, uint32_t id, emu_ports ports, int up,
                        uint32_t units, enum emu_combine_order order);

/**
 * switch_group_destroy - free it and the buffers it holds. No switch may know it any more.
 * @ports: external ports of the switch.
 */
void switch_group_destroy(struct switch_group *group, uint32_t ports, struct emu_pool_cache *cache);

/**
 * switch_group_bufs - pool buffers that it holds. Thread: manager, while the switch stands still.
 */
uint32_t switch_group_bufs(const struct switch_group *group, uint32_t ports);

/**
 * switch_group_check - its states are whole. NULL, or what is wrong. Thread: as above.
 */
const char *switch_group_check(const struct switch_group *group);

/* What is in a switch's table for a group. */
struct switch_group_entry {
    emu_ports ports;
    int up;
};

/** switch_group_entry - false: the group is not in it. Thread: manager. */
bool switch_group_entry(const struct switch_dev *sw, uint32_t id, struct switch_group_entry *ret);

/** switch_groups_count - groups in the switch's table. Thread: manager. */
uint32_t switch_groups_count(const struct switch_dev *sw);

/**
 * switch_group_is_idle - is no operation of the group's under way here? Thread: as switch_holds().
 */
bool switch_group_is_idle(const struct switch_group *group);

/**
 * switch_group_came - ports by which contributions to segment @seq of the group's stream have come;
 * all of the group's, once the result has gone on. Thread: as switch_group_bufs().
 */
emu_ports switch_group_came(const struct switch_group *group, uint32_t seq);

/**
 * switch_group_failed - was a state of the group found damaged here? Then no operation of it ends
 * any more. Thread: as switch_group_bufs().
 */
bool switch_group_failed(const struct switch_group *group);

/**
 * switch_group_clash - the first two contributions here that did not agree on what they are part
 * of, or NULL. Thread: as switch_group_bufs().
 */
const struct emu_clash *switch_group_clash(const struct switch_group *group);

/**
 * switch_groups_set - put a group into the switch's table.
 * If the table must grow a new one is published; the old one goes to *old, to be freed after
 * emu_rcu_wait(). Else *old is NULL.
 * Errors, nothing changed: -ENOMEM; -ENOTSUP, a switch with channels does not combine. Thread:
 * manager.
 */
int switch_groups_set(struct switch_dev *sw, struct switch_group *group, void **old);

/**
 * switch_groups_clear - take a group out. It may be freed after emu_rcu_wait(). Thread: manager.
 */
void switch_groups_clear(struct switch_dev *sw, uint32_t id);

/** switch_multicast_bytes - memory that a group for multicasts only takes in a switch. Pure. */
size_t switch_multicast_bytes(void);

#endif
