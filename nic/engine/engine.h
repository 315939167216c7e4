/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - the link engine of an adapter with acknowledgments: a device between a host and the
 * cables of its node.
 *
 * The host and the engine exchange *host segments* (emu/packet/seg.h). The engine gathers
 * consecutive host segments to one destination into a *packet* (emu/packet/packet.h) and sends it
 * over one of its links. It keeps the packet until it is acknowledged (ACK), and sends it again
 * after a refusal (NACK) or a time-out. The engine at the remote end delivers each packet exactly
 * once.
 * Source: QsNet III §III, §IV-B.
 *
 * The payload of a packet is its host segments in sequence, each with its 16-byte header. Nothing
 * is copied: segment i of the packet carries the buffer of host segment i, which has the host
 * segment's header in its seg.hdr. A packet therefore never has more host segments than segments on
 * the wire. Only the number of bytes on the wire is modelled: emu_packet_wire_bytes(). The crc of
 * the last segment is the CRC-32 of the payload, then of the packet's tag and destination. So a
 * receiver refuses a packet that has a wrong tag or arrives at a wrong destination.
 *
 * A *tag* identifies one try of a packet by its source, destination, sequence number and number of
 * the try (flow.h). By the tag, a source recognises replies to earlier tries, and a receiver finds
 * the sequence number.
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
/* limit of doublings of a packet's backoff, which begins with profile->retry_ps */
#define ENGINE_DOUBLINGS 16u

#define ENGINE_HOSTIF_CREDITS 16u /* credits of a host interface for segments to the engine */
/* credits of the cable of a host inside the fabric, in each direction */
#define ENGINE_LOCAL_CREDITS 64u

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
    uint32_t nodes;     /* nodes of the fabric plus combine units: at most ENGINE_NODES_MAX */
    uint32_t links;     /* 1 to ENGINE_LINKS_MAX */
    uint32_t cut;       /* bit per link: no cable is connected */
    uint64_t seed;      /* seed for the jitter of retries */
    uint32_t first_seq; /* first sequence number; tests choose it so that numbers wrap */
};

/**
 * engine_create - create an engine to which no cable is connected yet. Errors: -ENOMEM, -EINVAL.
 *
 * The caller connects each link by emu_link_join() with emu_vc_ring(), in each direction. It
 * connects the host either by a host interface (emu_link_hostif(), ENGINE_HOSTIF_CREDITS) or by a
 * local cable in each direction (ENGINE_LOCAL_CREDITS), with engine_host_profile(). The time of an
 * entry from the host includes nic_send_ps, so the engine may send the segment at that time. The
 * time of an entry to the host is the time at which its segment is in the host's memory.
 */
int engine_create(struct engine **ret, struct emu_worker *worker,
                  const struct engine_config *config);

/**
 * engine_destroy - free the engine, the cables that it sends on and its host interface. Its worker
 * must have ended.
 */
void engine_destroy(struct engine *engine);

struct emu_dev *engine_emu_dev(struct engine *engine);
struct emu_tx *engine_tx(struct engine *engine, uint32_t port); /* @port: a link, or ENGINE_HOST */
struct emu_rx *engine_rx(struct engine *engine, uint32_t port);
const struct engine_counts *engine_counts(const struct engine *engine);

/**
 * engine_host_profile - return the profile of the cable between engine and host, on which segments
 * take no wire time. Valid as long as @engine.
 */
const struct emu_profile *engine_host_profile(const struct engine *engine);

/**
 * engine_rebase - subtract @by_ps from all times that the engine keeps, because the clock is
 * rebased. Thread: manager, while the worker is paused.
 */
void engine_rebase(struct engine *engine, uint64_t by_ps);

/**
 * engine_faults - set the faults of the cable at @link; NULL: none. Thread: manager, while the
 * worker is paused.
 */
void engine_faults(struct engine *engine, uint32_t link, struct emu_faults *faults);

/**
 * engine_link_set - take @link down, or up again, at @at_ps. Packets that await a reply on it are
 * sent again on another link. The caller also changes the other end of the cable. Thread: manager,
 * while the worker is paused; then wake the worker. Returns the number of packets that are sent
 * again.
 * Source: QsNet III §III, Figure 4 (several links into a node).
 */
uint32_t engine_link_set(struct engine *engine, uint32_t link, bool up, uint64_t at_ps);

/**
 * engine_stick, engine_waiting, engine_slow - as switch_stick(), switch_waiting() and
 * switch_slow(), but for @link of an engine. engine_waiting() counts packets, and reports for each
 * the segment that would be sent next. Thread: manager, while the worker is paused.
 */
void engine_stick(struct engine *engine, uint32_t link, bool stuck, uint64_t at_ps);

/** engine_is_ready - return whether @link could send something now. Thread: as engine_stick(). */
bool engine_is_ready(struct engine *engine, uint32_t link);
uint32_t engine_waiting(const struct engine *engine, uint32_t link,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx);
void engine_slow(struct engine *engine, uint32_t link, struct emu_slow *slow, uint32_t factor);

/**
 * engine_combine_faults, engine_combine_stall, engine_combine_waiting - as switch_combine_faults(),
 * switch_combine_stall() and switch_combine_waiting(), but for an engine that is a combine unit.
 * engine_combine_waiting() counts results instead of contributions. Thread: as engine_stick().
 */
void engine_combine_faults(struct engine *engine, struct emu_faults *faults);
void engine_combine_stall(struct engine *engine, bool stalled, uint64_t at_ps);
uint32_t engine_combine_waiting(struct engine *engine,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * engine_combine_out - if @out, drop all results of an engine that is a combine unit; otherwise
 * stop dropping them. Each group that loses a result fails here, and the engine drops its later
 * contributions. Thread: as engine_stick().
 * engine_combine_is_stuck - return whether a result waits although there are free packets to send
 * it.
 */
void engine_combine_out(struct engine *engine, bool out, uint64_t at_ps);
bool engine_combine_is_stuck(const struct engine *engine);

/**
 * engine_give_up - drop the packets that wait for a link, except conditionals, because all links
 * have been down for too long. Thread: as engine_stick().
 */
void engine_give_up(struct engine *engine, uint64_t at_ps);

/**
 * engine_cut - limit the tries of packets to @dst, a node or a group's address, which the manager
 * has found unreachable for too long. The limit ends when a packet to @dst is acknowledged. Without
 * the limit, each packet to @dst could hold up all other traffic until its last try. Thread: as
 * engine_stick().
 */
void engine_cut(struct engine *engine, uint32_t dst, bool group);

/**
 * engine_set_incarnation - set the incarnation of the engine with number @src, a node or a combine
 * unit. @incarnation is 0 at first, and counts modulo 2^15. When the host of @src rejoins, its
 * engine is created anew, and the numbers of its packets start again. Segments in flight from an
 * earlier incarnation are refused, because each packet's CRC-32 includes the incarnation. The
 * caller also calls this for the engine's own number. Thread: manager, while the worker is paused;
 * then wake the worker.
 */
void engine_set_incarnation(struct engine *engine, uint32_t src, uint32_t incarnation,
                            uint64_t at_ps);

/**
 * engine_set_tclass - set the traffic class of the packets that a host inside the fabric begins
 * from now on. A process sets its own: emu_hostif_shared.tclass. @tclass: enum emu_tclass. Thread:
 * as engine_stick().
 */
void engine_set_tclass(struct engine *engine, uint8_t tclass);

/**
 * engine_vcs - return the engine's counts of used buffer slots at the remote end of @link. An audit
 * compares these counts with the slots that the remote end has in use.
 */
const struct emu_vcs *engine_vcs(const struct engine *engine, uint32_t link);

/**
 * engine_audit - check the engine's invariants between two iterations of the worker's loop. Report
 * each violation, and the link that it concerns, to @found. Thread: any, while the workers are
 * paused.
 */
void engine_audit(const struct engine *engine, const struct emu_reporter *reporter);

/** engine_check - do the checks of engine_audit(). Returns NULL, or the first violation. */
const char *engine_check(const struct engine *engine);

/**
 * engine_held - return how many references to pool buffers the engine and the cables to it hold.
 * References of groups are not counted. Thread: as engine_check().
 */
uint32_t engine_held(const struct engine *engine);

/**
 * engine_idle - return whether the engine keeps no packet, in either direction. Thread: as
 * engine_check().
 */
bool engine_idle(const struct engine *engine);

/* --- groups: functions for the manager ---------------------------------------------- */

#define ENGINE_NO_NODE      UINT32_MAX
#define ENGINE_CHILDREN_MAX (EMU_PORTS_MAX - 6)

struct engine_group;

/* The parameters of a group at one member or combine unit. */
struct engine_group_config {
    uint32_t id;                  /* collective address, as in the switches */
    uint32_t trees;               /* trees of switches that this engine uses: 1 to EMU_TREES_MAX */
    uint32_t link[EMU_TREES_MAX]; /* the link that connects the node to each of these trees */
    /* the group has words, conditionals and reductions; otherwise only multicasts */
    bool combines;
    /* this engine is a combine unit of a switch, which has no contribution of its own */
    bool unit;
    bool by_link;     /* contributions must use link[0] */
    bool in_order;    /* reductions are combined in a fixed order, with bitwise equal results */
    uint32_t sources; /* maximum number of adapters and units that send packets to the group */
    /* the parent node in the group's tree of adapters or units; ENGINE_NO_NODE at the root */
    uint32_t parent;
    uint32_t children;     /* at most ENGINE_CHILDREN_MAX */
    const uint32_t *child; /* nodes; borrowed for the call */
};

int engine_group_create(struct engine_group **ret, const struct engine_group_config *config);

/**
 * engine_group_destroy - free @group and the buffers that it holds. The caller has removed it from
 * all engines' tables. @stopped: the engine's worker has ended. Returns false, and frees nothing,
 * if one of the group's results still waits to be sent; then the caller tries again later. Thread:
 * manager.
 */
bool engine_group_destroy(struct engine_group *group, struct emu_pool_cache *cache, bool stopped);

/**
 * engine_group_held - return how many pool buffers the group holds. Thread: manager, while the
 * engine is paused.
 */
uint32_t engine_group_held(const struct engine_group *group);

/**
 * engine_group_check - check the states of the group's collectives. Returns NULL, or the first
 * violation. Thread: as engine_group_held().
 */
const char *engine_group_check(const struct engine_group *group);

/** engine_knows_group - return whether @group is in the engine's table. Thread: manager. */
bool engine_knows_group(const struct engine *engine, const struct engine_group *group);

/** engine_group_parent - return the parent in the group's combining tree; ENGINE_NO_NODE: none. */
uint32_t engine_group_parent(const struct engine_group *group);

/**
 * engine_group_children - return the number of children in the group's combining tree.
 * engine_group_has_child - return whether @node is one of these children.
 */
uint32_t engine_group_children(const struct engine_group *group);
bool engine_group_has_child(const struct engine_group *group, uint32_t node);

/**
 * engine_group_arrived - return whether this node's host has contributed to segment @seq of the
 * group's stream. Thread: as engine_group_held().
 */
bool engine_group_arrived(const struct engine_group *group, uint32_t seq);

/**
 * engine_group_mismatch - return the first two contributions that arrived here and whose operations
 * do not match, or NULL. Thread: as engine_group_held().
 */
const struct emu_mismatch *engine_group_mismatch(const struct engine_group *group);

/**
 * engine_group_failed - return whether the group has stopped combining here, because a state was
 * damaged or a combine unit dropped a segment for good. Thread: as engine_group_held().
 */
bool engine_group_failed(const struct engine_group *group);

/**
 * engine_group_gave_up - return whether the engine has dropped for good a segment for which other
 * members may wait. If the engine is a combine unit, the group has failed there, because the unit
 * has no host that can be notified. A node's host is notified, unless it has left the group.
 * @group may be NULL. Thread: as engine_group_held().
 */
bool engine_group_gave_up(const struct engine_group *group);

/**
 * engine_groups_set, engine_groups_clear - put a group into the engine's table, or remove it, as
 * switch_groups_set() and switch_groups_clear() do for a switch. An engine must have every group of
 * its node in its table, because the packets to each group have separate sequence numbers.
 */
int engine_groups_set(struct engine *engine, struct engine_group *group, void **old);
void engine_groups_clear(struct engine *engine, uint32_t id);

/**
 * engine_group_relink - set the link that connects the node to tree number @tree of group @id. From
 * @at_ps on, all packets to this tree use the link, even packets that wait already.
 * Thread: manager, while the worker is paused.
 */
void engine_group_relink(struct engine *engine, uint32_t id, uint32_t tree, uint32_t link,
                         uint64_t at_ps);

/**
 * engine_group_bytes - return the bytes of memory of a group without combining, at a member. Pure.
 */
size_t engine_group_bytes(uint32_t sources);

/**
 * engine_group_bufs - return how many pool buffers a combining group with address @id can hold, in
 * addition to those of the engine. Pure.
 */
uint32_t engine_group_bufs(uint32_t id);

/** engine_bufs - return how many pool buffers an engine can hold, in both directions. Pure. */
uint32_t engine_bufs(uint32_t links, const struct emu_profile *profile);

/**
 * engine_bytes - return the memory of an idle engine, in bytes, including the rings that it sends
 * on. Each node with which it has communicated adds 64 bytes. Pure.
 */
size_t engine_bytes(uint32_t links, const struct emu_profile *profile);

#endif
