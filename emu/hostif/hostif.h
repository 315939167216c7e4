/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostif.h - the cable between an application's process and the fabric.
 *
 * An edge is one shared memory region with a ring of whole segments each way:
 * `up` from the adapter to the fabric, `down` from the fabric to the adapter.
 * The process maps its own edge, for reading its switch's shelf (fabric/shelf.h),
 * and nothing else. Both sides keep their own copies of what they wrote; the
 * fabric believes nothing it reads: an index out of range, a bad header or a
 * foreign source is counted and dropped.
 *
 * The adapter's credits on the wire are kept by the fabric's side (link.c):
 * the up ring is the adapter's transmit queue, not the wire.
 *
 * Behind the rings the fabric writes who is at which node (emu_seat_first), and the process what it
 * has sent to each (emu/hostif/comm.h).
 */
#ifndef EMU_HOSTIF_H
#define EMU_HOSTIF_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "emu/hostif/comm.h"
#include "emu/hostif/finished.h"
#include "emu/hostif/pending.h"
#include "emu/packet/seg.h"

#define EMU_HOSTIF_MAGIC 0x656764656d756266u /* "fbumedge" */
/* of edges, of what processes say over them, and of the control protocol */
#define EMU_HOSTIF_VERSION 16u

/* Kinds of collectives that programs count, and reasons why one did not run in the network: as many
 * as nic/fabemu.h has (FABEMU_COLLS, FABEMU_WHYS). */
#define EMU_HOSTIF_COLLS   4
#define EMU_HOSTIF_REASONS 9
/*
 * Of each ring; a power of two. A ring is more than a core's caches hold: its lines have gone to
 * the cache that cores share by the time the other end wants them, and come from there in a third
 * of the time that they take out of another core's own (12 ns a segment, not 31 to 41; with 1024
 * slots 1 MB broadcasts took 1.3 times as long, messages of 1 MB 1.13 times).
 */
#define EMU_HOSTIF_SLOTS 4096
/*
 * Slots, of which a ring that is empty needs no more: whoever writes begins at the first one again
 * when so many or more are behind it and all of them were read. Else what says little at a time
 * would go through all of the ring's memory, and touch each page of it for the first time: 2 us a
 * page in the one process, 1 in the other, for 16 segments.
 */
#define EMU_HOSTIF_TURN 1024u

/* Of a shelf (emu/hostif/fabric/shelf.h), and of a part of it; powers of two. */
#define EMU_SHELF_SLOTS 8192u
#define EMU_SHELF_PART  1024u
#define EMU_SHELF_PARTS (EMU_SHELF_SLOTS / EMU_SHELF_PART)

#define EMU_HOSTIF_RING_DATA 1u /* bell: ring when the up ring gains an entry */
#define EMU_HOSTIF_RING_ROOM 2u /* bell: ring when the down ring gains room */

struct emu_hostif_slot {
    struct emu_seg seg;
};

/* A shelf, as all map it (emu/hostif/fabric/shelf.h). */
struct emu_shelf_shared {
    alignas(EMU_LINE) struct emu_hostif_slot slot[EMU_SHELF_SLOTS];
};

#define EMU_STREAM_SEGS  16u /* so many segments in a row are a stream */
#define EMU_HOSTIF_AHEAD 8   /* slots that emu_hostif_prefetch() looks ahead */

/** emu_seg_prefetch - all lines of @seg. */
static inline void emu_seg_prefetch(const struct emu_seg *seg, bool write)
{
    const uint8_t *at = (const uint8_t *)seg;

    for (uint32_t line = 0; line < EMU_SEG_BYTES; line += EMU_LINE) {
        if (write)
            emu_prefetch_to_write(at + line);
        else
            __builtin_prefetch(at + line, 0);
    }
}

/*
 * Slots lie in another core's cache more often than not. Both ends ask for the
 * slot that they will want next while they are at work on this one: never past
 * @end, for that one is still the other end's.
 */
static inline void emu_hostif_prefetch(const struct emu_hostif_slot *ring, uint32_t index,
                                       uint32_t end, bool write)
{
    if (end - index > EMU_HOSTIF_AHEAD)
        emu_seg_prefetch(&ring[(index + EMU_HOSTIF_AHEAD) % EMU_HOSTIF_SLOTS].seg, write);
}

/* Counts that the process keeps about itself; the fabric copies them out at the end. */
struct emu_hostif_stats {
    _Atomic uint64_t in_network[EMU_HOSTIF_COLLS]; /* by enum fabemu_coll */
    /* by enum fabemu_coll, enum fabemu_why */
    _Atomic uint64_t elsewhere[EMU_HOSTIF_COLLS][EMU_HOSTIF_REASONS];
};

/*
 * The processes that attach to a node are numbered from 1; that number is a process's seat. One
 * word a node says which seat was the last, and whether its process is still there: twice the seat,
 * less 1 while it is attached; 0 before the first. That only grows. Its highest bit is set while no
 * link of the node is in use.
 */
#define EMU_SEAT_NO_LINK (UINT64_C(1) << 63)

static inline uint64_t emu_seat_state(uint64_t seat, bool attached)
{
    return 2 * seat - attached;
}

/** emu_seat_attached - is the last process of the node still there? Pure. */
static inline bool emu_seat_attached(uint64_t word)
{
    return word & 1;
}

/**
 * emu_seat_first - the seat of the process that is there or, where nobody is, of the next one.
 * Pure.
 */
static inline uint64_t emu_seat_first(uint64_t word)
{
    return (word & ~EMU_SEAT_NO_LINK) / 2 + 1;
}

struct emu_hostif_shared {
    /* Written once by the fabric, before the process maps it. */
    uint64_t magic;
    uint32_t version;
    uint32_t slots;
    uint32_t node;
    uint32_t nodes;
    uint32_t timed;          /* 1: clock real, entries carry times that matter */
    uint32_t device_threads; /* 1: --threads device: the adapter's own thread steps it */
    uint64_t origin_ns;      /* CLOCK_MONOTONIC when the fabric's time was 0 */
    uint64_t nic_send_ps;    /* profile: from the post to the wire */
    uint32_t shelf_slots;    /* of the shelf that comes with it; 0: none does */

    /* Written by the adapter; the fabric reads. */
    alignas(EMU_LINE) _Atomic uint32_t up_tail; /* segments posted, free-running */
    _Atomic uint32_t up_core; /* 1 + the core that a stream is posted on; 0: none is. A hint */
    /* 1 + the core that was posted on last, where threads outnumber cores; 0: not known. A hint */
    _Atomic uint32_t post_core;
    _Atomic uint32_t up_shift; /* segment n lies in slot n + up_shift: emu_hostif_slot_at() */
    alignas(EMU_LINE) _Atomic uint32_t down_head; /* segments taken, free-running */

    /* Written by the fabric; the adapter reads. */
    alignas(EMU_LINE) _Atomic uint32_t up_head;   /* segments that are in the fabric */
    alignas(EMU_LINE) _Atomic uint32_t down_tail; /* segments the fabric wrote */
    _Atomic uint32_t down_shift;                  /* as up_shift */

    /* Set by the fabric's worker before it sleeps: what to ring the bell for. */
    alignas(EMU_LINE) _Atomic uint32_t bell_wanted; /* EMU_HOSTIF_RING_* */

    /* Set to 1 by the adapter before it sleeps on it (futex); the fabric sets 0 and wakes. */
    alignas(EMU_LINE) _Atomic uint32_t asleep;

    /* Set to 1 by the fabric when it has given the process up (it did not take its segments). */
    alignas(EMU_LINE) _Atomic uint32_t cut_off;
    /* processes that are gone, of all nodes, so far: it is time to look at seats */
    _Atomic uint32_t endings;
    /* 1: workers and attached processes outnumber the cores: yield soon */
    _Atomic uint32_t oversubscribed;
    _Atomic uint32_t watched; /* 1: somebody wants to know what collectives are finished */
    /* 1 + bytes: messages of so many, or more, are told of, too; 0: none are. */
    _Atomic uint64_t watched_bytes;
    /*
     * Written about once a second by the fabric's manager: fabric_starved(). For how long processes
     * of this host, or the fabric, have had no core; and the emu_now_ns() of the last count, 0 if
     * nobody counts.
     */
    _Atomic uint64_t starved_ns;
    _Atomic uint64_t counted_ns;

    alignas(EMU_LINE) struct emu_hostif_stats stats;

    /*
     * Written by the adapter: of the collectives, those that emu_comm_draw() tells of. The fabric
     * looks at the count once a second, so it stands in the first page, which has been touched:
     * 256 nodes of which none has told of any cost 1 ms once, where that was another page of each.
     */
    struct emu_finished_shared drawn;

    /* Written by the adapter about once a second; the fabric reads. */
    struct emu_pending_shared pending;

    /* Written by the adapter while it is watched; the fabric reads. */
    struct emu_finished_shared finished;

    /* Written by the adapter; the fabric reads. Its messages by peer: emu_hostif_peer(). */
    struct emu_comm_shared comm;

    /*
     * Time at which an entry is due: up, earliest departure; down, arrival in memory. ps, modulo
     * 2^64.
     */
    alignas(EMU_LINE) uint64_t up_ps[EMU_HOSTIF_SLOTS];
    alignas(EMU_LINE) uint64_t down_ps[EMU_HOSTIF_SLOTS];
    /* Where a segment of the down ring lies: emu_on(); 0: in its slot of the ring. */
    alignas(EMU_LINE) uint32_t down_on[EMU_HOSTIF_SLOTS];
    alignas(EMU_LINE) struct emu_hostif_slot up[EMU_HOSTIF_SLOTS];
    alignas(EMU_LINE) struct emu_hostif_slot down[EMU_HOSTIF_SLOTS];

    /* Written by the fabric; the adapter reads: who is where, by node (emu_seat_state). */
    alignas(EMU_LINE) _Atomic uint64_t seats[];
};

/** emu_hostif_bytes - of an edge in a fabric of @nodes. Pure. */
static inline size_t emu_hostif_bytes(uint32_t nodes)
{
    return sizeof(struct emu_hostif_shared) +
           ((size_t)nodes + nodes % 2 + ((size_t)nodes + 63) / 64) * sizeof(uint64_t) +
           (size_t)nodes * sizeof(struct emu_comm_peer);
}

/**
 * emu_hostif_peer - what the process has sent to @node, which is one of @nodes: behind the seats,
 * at an even place, so that none lies in two lines. Pure.
 */
static inline struct emu_comm_peer *emu_hostif_peer(struct emu_hostif_shared *shared,
                                                    uint32_t nodes, uint32_t node)
{
    return (struct emu_comm_peer *)(void *)&shared->seats[nodes + nodes % 2] + node;
}

/**
 * emu_hostif_peers - behind these, by bit: nodes that it has sent to. Who looks for these alone
 * touches no memory of the others. Pure.
 */
static inline _Atomic uint64_t *emu_hostif_peers(struct emu_hostif_shared *shared, uint32_t nodes)
{
    return (_Atomic uint64_t *)(void *)emu_hostif_peer(shared, nodes, nodes);
}

/** emu_hostif_sent - the process: one more message to @node. Thread: one at a time. */
static inline void emu_hostif_sent(struct emu_hostif_shared *shared, uint32_t nodes, uint32_t node,
                                   uint64_t bytes)
{
    struct emu_comm_peer *peer = emu_hostif_peer(shared, nodes, node);

    if (!emu_count_read(&peer->messages))
        emu_count(&emu_hostif_peers(shared, nodes)[node / 64], UINT64_C(1) << node % 64);
    emu_count(&peer->messages, 1);
    emu_count(&peer->bytes, bytes);
}

/* What a process is handed over: it maps two of them, and they may be closed then. */
struct emu_hostif_fds {
    int memory; /* the edge */
    int bell;   /* eventfd that wakes the worker; -1: it never sleeps */
    int shelf;  /* -1: there is none */
};

/* The adapter's end. Owned by whoever holds the adapter's lock. */
struct emu_hostif_nic {
    struct emu_hostif_shared *shared;
    const struct emu_shelf_shared *shelf; /* for reading; NULL: there is none */
    int bell;                             /* eventfd: write 1 to wake the fabric's worker */
    uint32_t up_tail;   /* segments written; published by emu_hostif_nic_publish() */
    uint32_t up_shown;  /* segments published */
    uint32_t up_head;   /* copy of shared->up_head: lags */
    uint32_t down_head; /* segments read; published by emu_hostif_nic_consumed() */
    uint32_t down_shown;
    uint32_t down_tail;            /* copy of shared->down_tail: lags */
    uint32_t up_shift, down_shift; /* of the segments between the heads and tails above */
};

/**
 * emu_hostif_slot_at - the slot of a ring in which segment @number lies. A ring's shift is its
 * writer's. It changes only while the ring is empty, and is shown before the tail: so who has seen
 * a tail, and has not yet said that it has read so far, knows the shift of all segments before it.
 */
static inline uint32_t emu_hostif_slot_at(uint32_t number, uint32_t shift)
{
    return (number + shift) % EMU_HOSTIF_SLOTS;
}

/**
 * emu_hostif_may_turn - is the ring far enough, and nothing of it @untold, so that it could turn?
 */
static inline bool emu_hostif_may_turn(uint32_t at, uint32_t untold)
{
    return at >= EMU_HOSTIF_TURN && !untold;
}

/**
 * emu_hostif_show - an index of a ring to who is at its other end. Not an exchange: that would ask
 * for the index's line, which who waits for it has, only when those of the segments are here.
 */
static inline void emu_hostif_show(_Atomic uint32_t *index, uint32_t value)
{
    atomic_store_explicit(index, value, memory_order_release); /* X4, Y2 or Y4 */
}

/**
 * emu_hostif_shown - behind one index that was shown, or several: who reads them may be about to
 * sleep, and whether that is so is to be read, seq_cst, after this.
 */
static inline void emu_hostif_shown(void)
{
    atomic_thread_fence(memory_order_seq_cst); /* Y5, Y6 */
}

/**
 * emu_hostif_nic_open - map an edge that the fabric handed over, and its shelf.
 * Errors: -EPROTO, it is not an edge of this version; -errno of mmap. The bell passes on success.
 */
int emu_hostif_nic_open(struct emu_hostif_nic *nic, const struct emu_hostif_fds *fds);
void emu_hostif_nic_close(struct emu_hostif_nic *nic); /* unmaps, closes bell */

/**
 * emu_hostif_nic_leave - read no more of the shelf: what lies there is dropped where it would be
 * peeked at. Before the process asks to detach, for then others' segments are written there.
 */
void emu_hostif_nic_leave(struct emu_hostif_nic *nic);

/* The slot to write next: @at, or the first one, if all that is behind was taken. */
uint32_t emu_hostif_nic_turn(struct emu_hostif_nic *nic, uint32_t at);

/**
 * emu_hostif_nic_claim - the next free up slot to fill in place, or NULL when the ring is full.
 * Several may be claimed before publishing. @due_ps: earliest departure; 0 in a raw fabric.
 */
static inline struct emu_seg *emu_hostif_nic_claim(struct emu_hostif_nic *nic, uint64_t due_ps)
{
    struct emu_hostif_shared *shared = nic->shared;
    uint32_t at = emu_hostif_slot_at(nic->up_tail, nic->up_shift);

    if (emu_hostif_may_turn(at, nic->up_tail - nic->up_shown))
        at = emu_hostif_nic_turn(nic, at);
    if (nic->up_tail - nic->up_head >= EMU_HOSTIF_SLOTS) {
        uint32_t head = atomic_load_explicit(&shared->up_head, memory_order_acquire); /* Y1: X2 */

        if (nic->up_tail - head >= EMU_HOSTIF_SLOTS)
            return NULL;
        nic->up_head = head;
    }
    if (due_ps) /* a raw fabric does not look */
        shared->up_ps[at] = due_ps;
    nic->up_tail++;
    emu_hostif_prefetch(shared->up, nic->up_tail + nic->up_shift - 1,
                        nic->up_head + nic->up_shift + EMU_HOSTIF_SLOTS, true);
    return &shared->up[at].seg;
}

/** emu_hostif_nic_stream - tell the worker on which core this process writes a stream. */
void emu_hostif_nic_stream(struct emu_hostif_nic *nic);
/** emu_hostif_nic_streamed - all of it is written. */
static inline void emu_hostif_nic_streamed(struct emu_hostif_nic *nic)
{
    if (atomic_load_explicit(&nic->shared->up_core, memory_order_relaxed))
        atomic_store_explicit(&nic->shared->up_core, 0, memory_order_relaxed);
}

/**
 * emu_hostif_nic_taken - how many segments the fabric has taken so far, modulo 2^32. A count alone:
 * nothing is read or written by it.
 */
static inline uint32_t emu_hostif_nic_taken(const struct emu_hostif_nic *nic)
{
    return atomic_load_explicit(&nic->shared->up_head, memory_order_relaxed);
}

/**
 * emu_hostif_nic_seat - the word of @node. Y7 pairs with X5: whoever has heard of a process, by
 * whatever way, sees its seat here, and whoever has heard that it is gone sees that.
 */
static inline uint64_t emu_hostif_nic_seat(const struct emu_hostif_nic *nic, uint32_t node)
{
    return atomic_load_explicit(&nic->shared->seats[node], memory_order_acquire); /* Y7: X5 */
}

/**
 * emu_hostif_nic_endings - how many processes are gone so far, modulo 2^32. Y8 pairs with X6: their
 * words say so.
 */
static inline uint32_t emu_hostif_nic_endings(const struct emu_hostif_nic *nic)
{
    return atomic_load_explicit(&nic->shared->endings, memory_order_acquire); /* Y8: X6 */
}

#define EMU_STARVED_SHARE   32u                  /* 1/32 of the time counts, even without a core */
#define EMU_STARVED_LATE_NS UINT64_C(2000000000) /* without a count for longer, it had no core */

/**
 * emu_starved_ns - during @since_ns a thread had no core for @waited_ns: returns how much of that
 * time bounds on silence do not count. A part always counts, so that each bound ends: after
 * EMU_STARVED_SHARE times its length if the host never has a core. Pure.
 */
static inline uint64_t emu_starved_ns(uint64_t since_ns, uint64_t waited_ns)
{
    uint64_t late_ns = since_ns > EMU_STARVED_LATE_NS ? since_ns - EMU_STARVED_LATE_NS : 0;
    uint64_t most_ns = since_ns - since_ns / EMU_STARVED_SHARE;

    waited_ns = waited_ns > late_ns ? waited_ns : late_ns;
    return waited_ns < most_ns ? waited_ns : most_ns;
}

/**
 * emu_hostif_nic_starved - for how long processes of this host, or the fabric, have had no core
 * since the fabric's start, in nanoseconds, estimated for @now_ns. 0 if nobody counts it. The value
 * may decrease a little, since it is an estimate while the manager has no core. Relaxed loads: they
 * order no other access.
 */
static inline uint64_t emu_hostif_nic_starved(const struct emu_hostif_nic *nic, uint64_t now_ns)
{
    uint64_t at_ns = atomic_load_explicit(&nic->shared->counted_ns, memory_order_relaxed);
    uint64_t starved_ns = atomic_load_explicit(&nic->shared->starved_ns, memory_order_relaxed);

    return starved_ns + (at_ns && now_ns > at_ns ? emu_starved_ns(now_ns - at_ns, 0) : 0);
}

/**
 * emu_hostif_nic_publish - show all claimed slots to the fabric; ring its bell if it asked. Once a
 * burst.
 */
void emu_hostif_nic_publish(struct emu_hostif_nic *nic);

/*
 * A line of them says where 16 segments lie: whoever begins one asks for the next but one. Writing,
 * too, looks first: lines that do not change stay where they are read.
 */
static inline void emu_hostif_prefetch_on(const struct emu_hostif_shared *shared, uint32_t index)
{
    const uint32_t line = EMU_LINE / sizeof *shared->down_on;

    if (index % line == 0)
        __builtin_prefetch(&shared->down_on[(index + 2 * line) % EMU_HOSTIF_SLOTS]);
}

/** emu_on - how the down ring says that a segment is the shelf's @index. Pure. */
static inline uint32_t emu_on(uint32_t index)
{
    return index << 1 | 1;
}

/** emu_on_slot - the slot of the shelf. Pure. */
static inline uint32_t emu_on_slot(uint32_t on)
{
    return (on >> 1) % EMU_SHELF_SLOTS;
}

/* Segment @number of the down ring, wherever it lies; NULL: on a shelf that was left. */
static inline const struct emu_seg *emu_hostif_nic_at(const struct emu_hostif_nic *nic,
                                                      uint32_t number)
{
    uint32_t at = emu_hostif_slot_at(number, nic->down_shift), on = nic->shared->down_on[at];

    if (!on)
        return &nic->shared->down[at].seg;
    return nic->shelf ? &nic->shelf->slot[emu_on_slot(on)].seg : NULL;
}

/** emu_hostif_nic_skip - peek, where the next segment lies on a shelf that was left: drop it. */
const struct emu_seg *emu_hostif_nic_skip(struct emu_hostif_nic *nic, uint64_t now_ps);

/**
 * emu_hostif_nic_peek - the next segment that is due (@now_ps; ignored by a raw fabric), or NULL.
 * Valid until its room is returned to the fabric.
 */
static inline const struct emu_seg *emu_hostif_nic_peek(struct emu_hostif_nic *nic, uint64_t now_ps)
{
    struct emu_hostif_shared *shared = nic->shared;
    const struct emu_seg *seg, *ahead;
    uint32_t at;

    if (nic->down_tail == nic->down_head) {
        uint32_t tail = atomic_load_explicit(&shared->down_tail, memory_order_acquire); /* Y3: X4 */

        if (tail == nic->down_head || tail - nic->down_head > EMU_HOSTIF_SLOTS)
            return NULL;
        nic->down_tail = tail;
        nic->down_shift = atomic_load_explicit(&shared->down_shift, memory_order_relaxed);
    }
    at = emu_hostif_slot_at(nic->down_head, nic->down_shift);
    if (shared->timed && (int64_t)(shared->down_ps[at] - now_ps) > 0)
        return NULL;
    emu_hostif_prefetch_on(shared, at);
    if (nic->down_tail - nic->down_head > EMU_HOSTIF_AHEAD) {
        ahead = emu_hostif_nic_at(nic, nic->down_head + EMU_HOSTIF_AHEAD);
        if (ahead)
            emu_seg_prefetch(ahead, false);
    }
    seg = emu_hostif_nic_at(nic, nic->down_head);
    return seg ? seg : emu_hostif_nic_skip(nic, now_ps);
}

/** emu_hostif_nic_pop - done with the peeked segment. */
static inline void emu_hostif_nic_pop(struct emu_hostif_nic *nic)
{
    nic->down_head++;
}

/** emu_hostif_nic_consumed - return the room of all popped slots to the fabric. Once a burst. */
void emu_hostif_nic_consumed(struct emu_hostif_nic *nic);

/**
 * emu_hostif_nic_sleep - sleep until the fabric has written something new, or @timeout_ns passed.
 * @seen_down_tail: the tail up to which the caller has read: returns at once if there is more.
 * Thread: does not need the adapter's lock.
 */
void emu_hostif_nic_sleep(struct emu_hostif_shared *shared, uint32_t seen_down_tail,
                          uint64_t timeout_ns);

/** emu_hostif_nic_wake - wake a thread of this process that sleeps in emu_hostif_nic_sleep(). */
void emu_hostif_nic_wake(struct emu_hostif_shared *shared);

#endif
