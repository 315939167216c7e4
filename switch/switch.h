/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch.h - the router, of four kinds behind one interface: the profile says which.
 *
 * crosspoint/     output-queued, with crosspoint buffers and combine units.
 *                 Source: output-queued routers §2.
 * input/fifo.c    the same, behind a buffer at each input. Source: there, §5.
 * input/slots.c   input-queued with a central arbiter, the baseline. No combine units.
 * channel/        virtual channels and acknowledgments. No combine units of its own.
 *                 Source: QsNet III §III, §IV.
 */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include <stdint.h>

#include "emu/packet/vc.h"
#include "emu/worker/dev.h"
#include "emu/fault.h"
#include "emu/link/link.h"
#include "emu/profile.h"
#include "topo/topo.h"

#define SWITCH_COMBINING_MAX 1024u  /* of them, groups that can combine */
#define SWITCH_ROWS_MAX      64u    /* ports and combine units together */
#define SWITCH_SEGMENTS_MAX  65535u /* that a switch can hold */

struct switch_dev;
struct switch_group;

/* What the switch counts; each has one writer, the switch's worker. */
struct switch_counts {
    _Atomic uint64_t combined;   /* contributions folded */
    _Atomic uint64_t results;    /* results sent */
    _Atomic uint64_t multicasts; /* segments copied to more than one port */
    _Atomic uint64_t bad;        /* dropped: foreign to the group, or against the protocol */
    _Atomic uint64_t late;       /* dropped: to a group that is not here (any more) */

    /* Packets: none but with channels. */
    _Atomic uint64_t stale;    /* segments and replies of packets that were over */
    _Atomic uint64_t refused;  /* packets that go nowhere: a NACK */
    _Atomic uint64_t timeouts; /* channels given up because no reply came */
    _Atomic uint64_t given_up; /* packets given up because their sender did so */
};

/**
 * switch_create - a switch, its ports empty.
 * @ports: external ports, at most TOPO_PORTS_MAX, and with the combine units SWITCH_ROWS_MAX.
 * @route, @profile: borrowed.
 * With channels its cables are joined with EMU_VC_SLOTS credits.
 * Errors: -ENOMEM; -EINVAL, the profile, the clock and the ports do not go together.
 */
int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile, uint64_t seed);

/** switch_destroy - after its worker has ended; frees its local cables' sending ends. */
void switch_destroy(struct switch_dev *sw);

struct emu_dev *switch_emu_dev(struct switch_dev *sw);
struct emu_tx *switch_tx(struct switch_dev *sw, uint32_t port);
struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port);
const struct switch_counts *switch_counts(const struct switch_dev *sw);

/** switch_has_clock - is there such a switch for clocks with times (@timed), or for raw? Pure. */
bool switch_has_clock(const struct emu_profile *profile, bool timed);

/** switch_combines - has it combine units of its own? Else its groups only multicast. Pure. */
bool switch_combines(const struct emu_profile *profile);

/** switch_segments - segments that a switch can hold. Pure. */
uint32_t switch_segments(uint32_t ports, const struct emu_profile *profile);

/** switch_bytes - memory that a switch takes, rings of its sending ends included. Pure. */
size_t switch_bytes(uint32_t ports, const struct emu_profile *profile);

/**
 * switch_check - what must hold at any time: credits, crosspoints and counters agree, and Little's
 * law to the picosecond. For clock virtual. Returns NULL, or what is wrong.
 * @now_ps: everything up to then has happened. Thread: the driver, while the workers stand still.
 */
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
 * switch_faults - from now on @faults stand at port @port; NULL: none. While its worker stands
 * still. With channels only, as the two that follow.
 */
void switch_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults);

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
 * switch_check_channels - the same for any cable. @held: by channel, segments that the receiver has
 * taken and not paid for; NULL: none. @faults: at the receiver. @slots: of the pool.
 */
const char *switch_check_channels(const struct emu_rx *rx, const struct emu_vcs *vcs,
                                  const struct emu_faults *faults, const uint32_t *held,
                                  const uint32_t *promised, uint32_t slots);

/* --- groups: the manager's side ----------------------------------------------------- */

/**
 * switch_group_create - the switch's part of a collective tree.
 * @id: its address. Slots are used again; the bits above tell the users of one apart, so that a
 *      late segment of an old group is not taken for one of the new. It says the window
 *      (emu/link/seg.h).
 * @ports: bit vector of the tree's ports here; @up: port towards the top, -1 at the top.
 * @units: combine units of the switch: the group holds a state for each number of its window. 0: the
 *      group is for multicasts only.
 * Errors: -ENOMEM.
 */
int switch_group_create(struct switch_group **ret, uint32_t id, uint64_t ports, int up,
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
