/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - the link engine of an adapter with acknowledgments: a device between a host and the
 * cables of its node.
 *
 * What crosses the host's side are segments (emu/packet/seg.h). The engine gathers consecutive ones
 * to one destination into packets (emu/packet/packet.h), stripes these over its links, keeps them
 * until they are acknowledged, sends them again when they are not, and at the far end delivers each
 * once.
 * Source: QsNet III §III, §IV-B.
 *
 * The payload of a packet is its host segments one after the other, each with its 16-byte header;
 * nothing is copied. Segment i on the wire carries the buffer of host segment i, with the header in
 * its seg.hdr, so a packet has no more host segments than it has segments. How the bytes would lie
 * on the wire is what emu_packet_wire_bytes() says; only the number of bytes is modelled. The
 * last segment's crc is the CRC-32: over the payload, then over the packet's id (its tag) and
 * where it goes, so that a packet with a wrong id or at a wrong place is not taken for good.
 *
 * A tag names source, destination, sequence number and try (flow.h): a reply to an
 * earlier try is no reply to this one, and the receiver reads the sequence number from it.
 */
#ifndef NIC_ENGINE_H
#define NIC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/vc.h"
#include "emu/dev/dev.h"
#include "emu/dev/found.h"
#include "emu/fault/fault.h"
#include "emu/link/link.h"
#include "emu/packet/profile.h"

#define ENGINE_LINKS_MAX 4u
#define ENGINE_HOST      ENGINE_LINKS_MAX /* the host's port; link i is port i */
#define ENGINE_NODES_MAX 65536u           /* a packet's destination has 16 bits */
#define ENGINE_DOUBLINGS 16u /* of the rest between two tries, profile->retry_ps, at most */

#define ENGINE_EDGE_CREDITS  16u /* of an edge towards the engine */
#define ENGINE_LOCAL_CREDITS 64u /* of a local host's cable, each way */

struct emu_clash;
struct engine;

/* What an engine counts (counts.def). Its worker is the only writer. */
struct engine_counts {
#define REPORTED(name)   _Atomic uint64_t name;
#define UNREPORTED(name) _Atomic uint64_t name;
#include "nic/engine/counts.def"
};

struct engine_config {
    const struct emu_profile *profile; /* borrowed */
    uint32_t node;
    uint32_t nodes;     /* of the fabric, and combine units: at most ENGINE_NODES_MAX */
    uint32_t links;     /* 1 to ENGINE_LINKS_MAX */
    uint32_t cut;       /* a bit a link: nothing is plugged in there */
    uint64_t seed;      /* of the jitter of retries */
    uint32_t first_seq; /* where sequence numbers begin: tests let them wrap */
};

/**
 * engine_create - an engine, nothing plugged in. Errors: -ENOMEM, -EINVAL.
 *
 * Links: emu_link_join() with emu_vc_ring(), each way. Host: an edge (emu_link_edge(),
 * ENGINE_EDGE_CREDITS) or a local cable each way (ENGINE_LOCAL_CREDITS), with
 * engine_host_profile(). Times there: an entry from the host is ready for the wire at its time,
 * nic_send_ps and all; one to the host lies in memory at its time, as at an edge.
 */
int engine_create(struct engine **ret, struct emu_worker *worker,
                  const struct engine_config *config);

/** engine_destroy - after its worker has ended; frees its sending ends' cables and its edge. */
void engine_destroy(struct engine *engine);

struct emu_dev *engine_emu_dev(struct engine *engine);
struct emu_tx *engine_tx(struct engine *engine, uint32_t port); /* a link, or ENGINE_HOST */
struct emu_rx *engine_rx(struct engine *engine, uint32_t port);
const struct engine_counts *engine_counts(const struct engine *engine);

/**
 * engine_host_profile - the profile of the host's side: no time on the wire. Good as long as
 * @engine.
 */
const struct emu_profile *engine_host_profile(const struct engine *engine);

/**
 * engine_rebase - the clock is rebased by @by_ps. Thread: manager, while the worker stands still.
 */
void engine_rebase(struct engine *engine, uint64_t by_ps);

/**
 * engine_faults - from now on @faults stand at @link; NULL: none. While its worker stands still.
 */
void engine_faults(struct engine *engine, uint32_t link, struct emu_faults *faults);

/**
 * engine_link_set - @link goes down, or is up again, at @at_ps: what awaits a reply on it is sent
 * again by another one. Both ends must be told. Thread: manager, while the worker stands still;
 * then it is to be woken. Returns packets that awaited one.
 * Source: QsNet III §III, Figure 4 (several links into a node).
 */
uint32_t engine_link_set(struct engine *engine, uint32_t link, bool up, uint64_t at_ps);

/**
 * engine_stick, engine_waiting, engine_slow - switch_stick(), switch_waiting() and switch_slow() of
 * @link. What waits are packets, by the next segment of each. Thread: as those.
 */
void engine_stick(struct engine *engine, uint32_t link, bool stuck, uint64_t at_ps);

/** engine_is_ready - has link @link something that it could send now? Thread: the same. */
bool engine_is_ready(struct engine *engine, uint32_t link);
uint32_t engine_waiting(const struct engine *engine, uint32_t link,
                        void (*tell)(void *ctx, const struct emu_entry *entry), void *ctx);
void engine_slow(struct engine *engine, uint32_t link, struct emu_slow *slow, uint32_t factor);

/**
 * engine_combine_faults, engine_combine_stall, engine_combine_waiting - as those of a switch, of an
 * engine that is a combine unit. What waits are results. Thread: as those.
 */
void engine_combine_faults(struct engine *engine, struct emu_faults *faults);
void engine_combine_stall(struct engine *engine, bool stalled, uint64_t at_ps);
uint32_t engine_combine_waiting(struct engine *engine,
                                void (*tell)(void *ctx, const struct emu_hdr *hdr), void *ctx);

/**
 * engine_combine_out - switch_combine_out() of an engine that is a combine unit. Of groups whose
 * results it drops it takes no contribution any more. Thread: the same.
 * engine_combine_stands - does a result wait though no packet is wanting to send it?
 */
void engine_combine_out(struct engine *engine, bool out, uint64_t at_ps);
bool engine_combine_stands(const struct engine *engine);

/**
 * engine_give_up - what waits for a link is given up: there has been none for too long. Thread: as
 * above.
 */
void engine_give_up(struct engine *engine, uint64_t at_ps);

/**
 * engine_cut - the manager knows that nothing gets to @dst, a node or a group's address, and that
 * it has been so for too long: until something does, what is for it has few tries, and then is
 * given up. Else all that is for others could wait behind it until its packets have had every try,
 * and behind the next such destination again. Thread: as above.
 */
void engine_cut(struct engine *engine, uint32_t dst, bool group);

/**
 * engine_life - the engine of number @src, a node or a unit, is in its life @life: modulo 2^15, 0
 * at first. When its host came back it was made anew, and its flows begin anew. What is on its way
 * from an earlier life is not taken any more: the life is in each packet's CRC-32. The engine
 * itself is told its own. Thread: manager, while the worker stands still; then it is to be woken.
 */
void engine_life(struct engine *engine, uint32_t src, uint32_t life, uint64_t at_ps);

/** engine_vcs - what the engine knows of the far end of @link, for checks there. */
const struct emu_vcs *engine_vcs(const struct engine *engine, uint32_t link);

/**
 * engine_audit - what must hold between two passes. @found: told what is wrong, and at which link.
 * Thread: the driver, while the workers stand still.
 */
void engine_audit(const struct engine *engine, const struct emu_found *found);

/** engine_check - the same. Returns NULL, or the first thing that is wrong. */
const char *engine_check(const struct engine *engine);

/**
 * engine_held - pool buffers that the engine holds and the cables to it, beside those of groups:
 * references. Thread: as engine_check().
 */
uint32_t engine_held(const struct engine *engine);

/**
 * engine_idle - nothing is under way here: no packet kept, none in parts. Thread: as
 * engine_check().
 */
bool engine_idle(const struct engine *engine);

/* --- groups: the manager's side ----------------------------------------------------- */

#define ENGINE_NO_NODE      UINT32_MAX
#define ENGINE_CHILDREN_MAX (EMU_PORTS_MAX - 6)

struct engine_group;

/* A member's part in a group. */
struct engine_group_config {
    uint32_t id;   /* collective address, as in the switches */
    uint32_t link; /* by which of its links the node is in the group's tree of switches */
    /* has words, conditionals and reductions; else it is for multicasts only */
    bool combines;
    bool unit;        /* of a switch's combine unit: it contributes nothing of its own */
    bool by_link;     /* contributions go by the link, too */
    bool in_order;    /* reductions: combined in a fixed order: the same bits every time */
    uint32_t sources; /* adapters and units that send packets to the group, at most */
    /* in the group's tree of adapters or units; ENGINE_NO_NODE: this is its top */
    uint32_t parent;
    uint32_t children;     /* at most ENGINE_CHILDREN_MAX */
    const uint32_t *child; /* nodes; borrowed for the call */
};

/** engine_group_create - Errors: -ENOMEM, -EINVAL. */
int engine_group_create(struct engine_group **ret, const struct engine_group_config *config);

/**
 * engine_group_destroy - free it and the buffers it holds. No engine may know it any more.
 * @stopped: the engine's worker has ended. Else it may have to be tried again later.
 * Returns false if a result of it still waits to be sent. Thread: manager.
 */
bool engine_group_destroy(struct engine_group *group, struct emu_pool_cache *cache, bool stopped);

/**
 * engine_group_held - pool buffers that it holds. Thread: manager, while the engine stands still.
 */
uint32_t engine_group_held(const struct engine_group *group);

/**
 * engine_group_check - its states are whole. NULL, or what is wrong. Thread: as above.
 */
const char *engine_group_check(const struct engine_group *group);

/**
 * engine_knows_group - is @group in the engine's table? Thread: manager.
 */
bool engine_knows_group(const struct engine *engine, const struct engine_group *group);

/**
 * engine_group_parent - in the tree in which a group combines; ENGINE_NO_NODE: none.
 */
uint32_t engine_group_parent(const struct engine_group *group);

/** engine_group_children - how many it has there. engine_group_has_child - is @node one of them? */
uint32_t engine_group_children(const struct engine_group *group);
bool engine_group_has_child(const struct engine_group *group, uint32_t node);

/**
 * engine_group_came - has the host here contributed to segment @seq of the group's stream? Thread:
 * as engine_group_held().
 */
bool engine_group_came(const struct engine_group *group, uint32_t seq);

/**
 * engine_group_clash - the first two contributions here that did not agree on what they are part
 * of, or NULL. Thread: as engine_group_held().
 */
const struct emu_clash *engine_group_clash(const struct engine_group *group);

/** engine_group_failed - as switch_group_failed(). Thread: as engine_group_held(). */
bool engine_group_failed(const struct engine_group *group);

/**
 * engine_group_gave_up - has something been given up here that other members may wait for? Of a
 * combine unit no host hears of that, and the group has failed there; of a node its host hears,
 * unless it has left the group. @group may be NULL. Thread: as engine_group_held().
 */
bool engine_group_gave_up(const struct engine_group *group);

/**
 * engine_groups_set, engine_groups_clear - as switch_groups_set(), switch_groups_clear(). An
 * engine has to know every group of its node, because each group is a flow with numbers of its
 * own.
 */
int engine_groups_set(struct engine *engine, struct engine_group *group, void **old);
void engine_groups_clear(struct engine *engine, uint32_t id);

/**
 * engine_group_relink - from now on the node is in the tree of switches of group @id by @link; what
 * waits to be sent to the group goes by it, at @at_ps. Thread: manager, while the worker stands
 * still.
 */
void engine_group_relink(struct engine *engine, uint32_t id, uint32_t link, uint64_t at_ps);

/** engine_group_bytes - memory that a group for multicasts takes at a member. Pure. */
size_t engine_group_bytes(uint32_t sources);

/**
 * engine_group_bufs - pool buffers that a combining group of this address can hold, beyond those of
 * the engine. Pure.
 */
uint32_t engine_group_bufs(uint32_t id);

/** engine_bufs - pool buffers that an engine can hold, both ways. Pure. */
uint32_t engine_bufs(uint32_t links, const struct emu_profile *profile);

/**
 * engine_bytes - memory that an idle engine takes, rings of its sending ends included. Beyond that
 * comes about 100 bytes for each node that it has spoken with. Pure.
 */
size_t engine_bytes(uint32_t links, const struct emu_profile *profile);

#endif
