/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - the link engine of an adapter with acknowledgments: a device between a host and the
 * cables of its node.
 *
 * Segments (emu/packet/seg.h) pass between host and engine. The engine gathers consecutive segments
 * to one destination into packets (emu/packet/packet.h), distributes these over its links, keeps
 * them until they are acknowledged, repeats them if they are not, and delivers each exactly once at
 * the remote end.
 * Source: QsNet III §III, §IV-B.
 *
 * The payload of a packet is its host segments in sequence, each with its 16-byte header; nothing
 * is copied. Segment i on the wire carries the buffer of host segment i, with the header in its
 * seg.hdr, so a packet has at most as many host segments as segments. Only the number of bytes on
 * the wire is modelled: emu_packet_wire_bytes(). The last segment's crc is the CRC-32 over the
 * payload, then over the packet's id (its tag) and destination, so that a packet with a wrong id or
 * at a wrong destination is refused.
 *
 * A tag names source, destination, sequence number and try (flow.h). So a reply to an earlier try
 * is recognised, and the receiver reads the sequence number from the tag.
 */
#ifndef NIC_ENGINE_H
#define NIC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/vc.h"
#include "emu/dev/dev.h"
#include "emu/fault/fault.h"
#include "emu/link/link.h"
#include "emu/packet/profile.h"

#define ENGINE_LINKS_MAX 4u
#define ENGINE_HOST      ENGINE_LINKS_MAX /* the host's port; link i is port i */
#define ENGINE_NODES_MAX 65536u           /* a packet's destination has 16 bits */
/* limit of doublings of profile->retry_ps, the backoff between tries */
#define ENGINE_DOUBLINGS 16u

#define ENGINE_HOSTIF_CREDITS 16u /* of a host interface towards the engine */
#define ENGINE_LOCAL_CREDITS  64u /* of the cable of a host inside the fabric, in each direction */

struct emu_mismatch;
struct engine;

/* Counters of an engine (counts.def), written by its worker only. */
struct engine_counts {
#define REPORTED(name)   _Atomic uint64_t name;
#define UNREPORTED(name) _Atomic uint64_t name;
#include "nic/engine/counts.def"
};

struct engine_config {
    const struct emu_profile *profile; /* borrowed */
    uint32_t node;
    uint32_t nodes;     /* of the fabric, plus combine units: at most ENGINE_NODES_MAX */
    uint32_t links;     /* 1 to ENGINE_LINKS_MAX */
    uint32_t cut;       /* bit per link: nothing is plugged in there */
    uint64_t seed;      /* for the jitter of retries */
    uint32_t first_seq; /* first sequence number: tests make it wrap */
};

/**
 * engine_create - create an engine with nothing plugged in. Errors: -ENOMEM, -EINVAL.
 *
 * Links: emu_link_join() with emu_vc_ring(), in each direction. Host: a host interface
 * (emu_link_hostif(), ENGINE_HOSTIF_CREDITS) or a local cable in each direction
 * (ENGINE_LOCAL_CREDITS), with engine_host_profile(). An entry from the host is ready for the wire
 * at its time, which includes nic_send_ps. An entry to the host is in memory at its time.
 */
int engine_create(struct engine **ret, struct emu_worker *worker,
                  const struct engine_config *config);

/**
 * engine_destroy - free the engine, the cables of its sending ends and its host interface, after
 * its worker has ended.
 */
void engine_destroy(struct engine *engine);

struct emu_dev *engine_emu_dev(struct engine *engine);
struct emu_tx *engine_tx(struct engine *engine, uint32_t port); /* a link, or ENGINE_HOST */
struct emu_rx *engine_rx(struct engine *engine, uint32_t port);
const struct engine_counts *engine_counts(const struct engine *engine);

/**
 * engine_host_profile - the profile of the host's side: no time on the wire. Valid as long as
 * @engine.
 */
const struct emu_profile *engine_host_profile(const struct engine *engine);

/** engine_rebase - the clock is rebased by @by_ps. Thread: manager, while the worker is paused. */
void engine_rebase(struct engine *engine, uint64_t by_ps);

/** engine_faults - set the faults of @link; NULL: none. While the worker is paused. */
void engine_faults(struct engine *engine, uint32_t link, struct emu_faults *faults);

/**
 * engine_link_set - @link goes down, or up again, at @at_ps. Packets that await a reply on it are
 * sent again on another one. Both ends must be notified. Thread: manager, while the worker is
 * paused; then wake the worker. Returns the number of such packets.
 * Source: QsNet III §III, Figure 4 (several links into a node).
 */
uint32_t engine_link_set(struct engine *engine, uint32_t link, bool up, uint64_t at_ps);

/**
 * engine_stick, engine_waiting, engine_slow - as switch_stick(), switch_waiting() and
 * switch_slow(), for @link. Packets wait, each represented by its next segment. Thread: as those.
 */
void engine_stick(struct engine *engine, uint32_t link, bool stuck, uint64_t at_ps);

/** engine_is_ready - could link @link send something now? Thread: the same. */
bool engine_is_ready(struct engine *engine, uint32_t link);
uint32_t engine_waiting(const struct engine *engine, uint32_t link,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx);
void engine_slow(struct engine *engine, uint32_t link, struct emu_slow *slow, uint32_t factor);

/**
 * engine_combine_faults, engine_combine_stall, engine_combine_waiting - as those of a switch, for
 * an engine that is a combine unit. Results wait. Thread: as those.
 */
void engine_combine_faults(struct engine *engine, struct emu_faults *faults);
void engine_combine_stall(struct engine *engine, bool stalled, uint64_t at_ps);
uint32_t engine_combine_waiting(struct engine *engine,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * engine_combine_out - as switch_combine_out(), for an engine that is a combine unit. It accepts no
 * contributions any more for groups whose results it drops. Thread: the same.
 * engine_combine_stands - does a result wait although packets to send it are free?
 */
void engine_combine_out(struct engine *engine, bool out, uint64_t at_ps);
bool engine_combine_stands(const struct engine *engine);

/**
 * engine_give_up - drop the packets that wait for a link, because all have been down for too long.
 * Thread: as above.
 */
void engine_give_up(struct engine *engine, uint64_t at_ps);

/**
 * engine_cut - the manager knows that @dst, a node or a group's address, has been unreachable for
 * too long. Until it is reachable again, packets to it get few tries and are then dropped.
 * Otherwise all other traffic could wait behind them until they have had every try, and then again
 * behind the next such destination. Thread: as above.
 */
void engine_cut(struct engine *engine, uint32_t dst, bool group);

/**
 * engine_set_incarnation - the engine with number @src, a node or a unit, is in its incarnation
 * @incarnation: modulo 2^15, 0 at first. When its host rejoined, it was created anew, and its flows
 * start again. Segments in flight from an earlier incarnation are refused, because each packet's
 * CRC-32 includes the incarnation. The engine itself is notified of its own. Thread: manager, while
 * the worker is paused; then wake the worker.
 */
void engine_set_incarnation(struct engine *engine, uint32_t src, uint32_t incarnation,
                            uint64_t at_ps);

/** engine_vcs - the engine's view of the buffers at the remote end of @link, for checks there. */
const struct emu_vcs *engine_vcs(const struct engine *engine, uint32_t link);

/**
 * engine_audit - check what must hold between two passes; report each violation, and its link, to
 * @found. Thread: the driver, while the workers are paused.
 */
void engine_audit(const struct engine *engine, const struct emu_found *found);

/** engine_check - the same. Returns NULL, or the first violation. */
const char *engine_check(const struct engine *engine);

/**
 * engine_held - references to pool buffers that the engine and the cables to it hold, without those
 * of groups. Thread: as engine_check().
 */
uint32_t engine_held(const struct engine *engine);

/** engine_idle - is no packet kept or incomplete here? Thread: as engine_check(). */
bool engine_idle(const struct engine *engine);

/* --- groups: functions for the manager ---------------------------------------------- */

#define ENGINE_NO_NODE      UINT32_MAX
#define ENGINE_CHILDREN_MAX (EMU_PORTS_MAX - 6)

struct engine_group;

/* A member's role in a group. */
struct engine_group_config {
    uint32_t id;   /* collective address, as in the switches */
    uint32_t link; /* link by which the node is in the group's tree of switches */
    /* has words, conditionals and reductions; otherwise only multicasts */
    bool combines;
    bool unit;        /* belongs to a switch's combine unit: contributes nothing of its own */
    bool by_link;     /* contributions use that link, too */
    bool in_order;    /* reductions are combined in a fixed order, with bitwise equal results */
    uint32_t sources; /* limit of adapters and units that send packets to the group */
    /* in the group's tree of adapters or units; ENGINE_NO_NODE: this is the root */
    uint32_t parent;
    uint32_t children;     /* at most ENGINE_CHILDREN_MAX */
    const uint32_t *child; /* nodes; borrowed for the call */
};

/** engine_group_create - Errors: -ENOMEM, -EINVAL. */
int engine_group_create(struct engine_group **ret, const struct engine_group_config *config);

/**
 * engine_group_destroy - free it and the buffers it holds. No engine may know it any more.
 * @stopped: the engine's worker has ended. Returns false if one of its results still waits to be
 * sent: call it again later. Thread: manager.
 */
bool engine_group_destroy(struct engine_group *group, struct emu_pool_cache *cache, bool stopped);

/** engine_group_held - pool buffers that it holds. Thread: manager, while the engine is paused. */
uint32_t engine_group_held(const struct engine_group *group);

/**
 * engine_group_check - check its states. Returns NULL, or the first violation. Thread: as above.
 */
const char *engine_group_check(const struct engine_group *group);

/** engine_knows_group - is @group in the engine's table? Thread: manager. */
bool engine_knows_group(const struct engine *engine, const struct engine_group *group);

/** engine_group_parent - the parent in the group's combining tree; ENGINE_NO_NODE: none. */
uint32_t engine_group_parent(const struct engine_group *group);

/**
 * engine_group_children - the number of children there.
 * engine_group_has_child - is @node one of them?
 */
uint32_t engine_group_children(const struct engine_group *group);
bool engine_group_has_child(const struct engine_group *group, uint32_t node);

/**
 * engine_group_arrived - has the host here contributed to segment @seq of the group's stream?
 * Thread: as engine_group_held().
 */
bool engine_group_arrived(const struct engine_group *group, uint32_t seq);

/**
 * engine_group_mismatch - the first two contributions here whose operations do not match, or NULL.
 * Thread: as engine_group_held().
 */
const struct emu_mismatch *engine_group_mismatch(const struct engine_group *group);

/** engine_group_failed - as switch_group_failed(). Thread: as engine_group_held(). */
bool engine_group_failed(const struct engine_group *group);

/**
 * engine_group_gave_up - was a segment dropped for good here that other members may wait for? A
 * combine unit has no host to notify, so the group has failed there; a node's host is notified,
 * unless it has left the group. @group may be NULL. Thread: as engine_group_held().
 */
bool engine_group_gave_up(const struct engine_group *group);

/**
 * engine_groups_set, engine_groups_clear - as switch_groups_set(), switch_groups_clear(). An engine
 * must know every group of its node, because each group is a flow with its own numbers.
 */
int engine_groups_set(struct engine *engine, struct engine_group *group, void **old);
void engine_groups_clear(struct engine *engine, uint32_t id);

/**
 * engine_group_relink - the node is now in the tree of switches of group @id by @link; packets that
 * wait for the group use it, from @at_ps on. Thread: manager, while the worker is paused.
 */
void engine_group_relink(struct engine *engine, uint32_t id, uint32_t link, uint64_t at_ps);

/** engine_group_bytes - memory of a group without combining at a member. Pure. */
size_t engine_group_bytes(uint32_t sources);

/**
 * engine_group_bufs - pool buffers that a combining group of this address can hold, in addition to
 * those of the engine. Pure.
 */
uint32_t engine_group_bufs(uint32_t id);

/** engine_bufs - pool buffers that an engine can hold, in both directions. Pure. */
uint32_t engine_bufs(uint32_t links, const struct emu_profile *profile);

/**
 * engine_bytes - memory of an idle engine, including the rings of its sending ends. Add about 100
 * bytes for each node that it has communicated with. Pure.
 */
size_t engine_bytes(uint32_t links, const struct emu_profile *profile);

#endif
