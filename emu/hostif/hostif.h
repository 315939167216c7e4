/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostif.h - the host interface: the cable between an application's process and the fabric.
 *
 * It is a shared memory region with a ring of whole segments in each direction: `up` from the
 * adapter (the process's library) to the fabric, `down` from the fabric to the adapter. A process
 * maps its own region and, read-only, the shared multicast buffer of its switch
 * (fabric/mcast_buf.h). Each side keeps private copies of the indexes that it writes. The fabric
 * trusts nothing that it reads. It counts and ignores an index out of range, counts and drops a
 * segment with a bad header, and writes the source of each segment itself.
 *
 * The up ring is the adapter's transmit queue, not the wire. The fabric keeps the wire's credits
 * (link.c). The region also contains the incarnation of each node's process, which the fabric
 * writes, and message counters, which the process writes (emu/hostif/comm.h).
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
#include "emu/hostif/simtime.h"
#include "emu/packet/seg.h"

#define EMU_HOSTIF_MAGIC   0x656764656d756266u /* "fbumedge" */
#define EMU_HOSTIF_VERSION 29u                 /* of the region, and of the control protocol */

/* Kinds of collectives, and reasons not to run one in the network: FABEMU_COLLS, FABEMU_WHYS. */
#define EMU_HOSTIF_COLLS   11
#define EMU_HOSTIF_REASONS 10
/*
 * Slots of each ring; a power of two. A ring is larger than a core's private caches. So when the
 * reader reads a line, the writer's core has already evicted it to the shared cache. Reading it
 * there takes a third of the time of reading it in the other core's cache (12 ns a segment instead
 * of 31 to 41). With 1024 slots, broadcasts of 1 MB took 1.3 times as long, and messages of 1 MB
 * took 1.13 times as long.
 */
#define EMU_HOSTIF_SLOTS 4096
/*
 * A writer that has reached this slot and finds its ring empty continues at the first slot.
 * Otherwise light traffic would use all slots in turn, with a page fault in both processes for each
 * 16 segments (2 us in one process, 1 us in the other).
 */
#define EMU_HOSTIF_WRAP 1024u

/* Slots of a shared multicast buffer (fabric/mcast_buf.h), and of a block of it; powers of two. */
#define EMU_MCAST_BUF_SLOTS   8192u
#define EMU_MCAST_BLOCK_SLOTS 1024u
#define EMU_MCAST_BLOCKS      (EMU_MCAST_BUF_SLOTS / EMU_MCAST_BLOCK_SLOTS)

#define EMU_HOSTIF_RING_DATA 1u /* ring the bell (an eventfd) when the up ring gains an entry */
#define EMU_HOSTIF_RING_ROOM 2u /* ring the bell when the down ring gains space */
#define EMU_HOSTIF_RING_WAIT 4u /* clock virtual: ring the bell when the process waits */

#define EMU_HOSTIF_WAKE_SLEEPERS 1u /* wake the threads in emu_hostif_nic_sleep() */
#define EMU_HOSTIF_WAKE_STANDBY  2u /* wake the thread in emu_hostif_nic_stand_by() */

struct emu_hostif_slot {
    struct emu_seg seg;
};

struct emu_mcast_buf_shared {
    alignas(EMU_LINE) struct emu_hostif_slot slot[EMU_MCAST_BUF_SLOTS];
};

/* A *stream* is a long message. This many segments that are published at once are part of one. */
#define EMU_STREAM_SEGS  16u
#define EMU_HOSTIF_AHEAD 8 /* prefetch distance in slots */

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
 * Prefetch the slot EMU_HOSTIF_AHEAD after @index, because most slots are in another core's cache.
 * Slot @end and later slots still belong to the peer and are not prefetched.
 */
static inline void emu_hostif_prefetch(const struct emu_hostif_slot *ring, uint32_t index,
                                       uint32_t end, bool write)
{
    if (end - index > EMU_HOSTIF_AHEAD)
        emu_seg_prefetch(&ring[(index + EMU_HOSTIF_AHEAD) % EMU_HOSTIF_SLOTS].seg, write);
}

/* Numbers of collectives, which the fabric copies when the process has detached. */
struct emu_hostif_stats {
    _Atomic uint64_t in_network[EMU_HOSTIF_COLLS]; /* run in the network; by enum fabemu_coll */
    /* not run in the network; by enum fabemu_coll and enum fabemu_why */
    _Atomic uint64_t elsewhere[EMU_HOSTIF_COLLS][EMU_HOSTIF_REASONS];
};

/*
 * The processes that attach to a node one after the other are numbered from 1. The number is a
 * process's *incarnation*. A word per node gives the state of the node's last process: twice its
 * incarnation, minus 1 while it is attached; 0 before the first process. The word only grows,
 * except for its highest bit, EMU_INCARNATION_NO_LINK, which is set while no link of the node is
 * up.
 */
#define EMU_INCARNATION_NO_LINK (UINT64_C(1) << 63)

static inline uint64_t emu_incarnation_state(uint64_t incarnation, bool attached)
{
    return 2 * incarnation - attached;
}

static inline bool emu_incarnation_attached(uint64_t word)
{
    return word & 1;
}

/** emu_incarnation_first - return the incarnation that is attached, or else the next one. Pure. */
static inline uint64_t emu_incarnation_first(uint64_t word)
{
    return (word & ~EMU_INCARNATION_NO_LINK) / 2 + 1;
}

struct emu_hostif_shared {
    /* Written once by the fabric, before the process maps it. */
    uint64_t magic;
    uint32_t version;
    uint32_t slots;
    uint32_t node;
    uint32_t nodes;
    uint32_t timed;           /* 1: clock real or virtual, so entries carry times */
    uint32_t simulated;       /* 1: clock virtual */
    uint32_t device_threads;  /* 1: the process itself steps its adapter (--threads device) */
    uint64_t origin_ns;       /* CLOCK_MONOTONIC at the fabric's time 0 */
    uint64_t nic_send_ps;     /* from the profile: time from post to wire */
    uint32_t mcast_buf_slots; /* slots of the shared multicast buffer; 0: there is none */

    /* Written by the adapter; read by the fabric. */
    alignas(EMU_LINE) _Atomic uint32_t up_tail; /* segments posted, free-running */
    _Atomic uint32_t up_core;   /* hint: 1 + core of the thread that posts a stream; 0: no stream */
    _Atomic uint32_t post_core; /* hint: 1 + core of the last post, if oversubscribed; 0: unknown */
    _Atomic uint32_t up_shift;  /* segment n is in slot n + up_shift: emu_hostif_slot_at() */
    _Atomic uint32_t tclass;    /* enum emu_tclass of the process's packets */
    alignas(EMU_LINE) _Atomic uint32_t down_head; /* segments read, free-running */

    /* Written by the fabric; read by the adapter. */
    alignas(EMU_LINE) _Atomic uint32_t up_head;   /* segments that have entered the fabric */
    alignas(EMU_LINE) _Atomic uint32_t down_tail; /* segments written */
    _Atomic uint32_t down_shift;                  /* segment n is in slot n + down_shift */

    /* Set by the worker before it sleeps: the EMU_HOSTIF_RING_* of events that are to wake it. */
    alignas(EMU_LINE) _Atomic uint32_t bell_wanted;

    /* A futex with EMU_HOSTIF_WAKE_*, the threads that the fabric wakes when it has written a
       segment. The fabric then sets it to 0. */
    alignas(EMU_LINE) _Atomic uint32_t asleep;

    /* Written by the fabric, rarely. */
    /* 1: the fabric drops the process's segments, because the process does not take them */
    alignas(EMU_LINE) _Atomic uint32_t cut_off;
    _Atomic uint32_t endings; /* ended processes of all nodes; written after incarnations[] */
    _Atomic uint32_t oversubscribed; /* 1: threads outnumber cores, so waiting threads yield */
    _Atomic uint32_t watched;        /* 1: a client watches finished collectives */
    _Atomic uint64_t watched_bytes;  /* 1 + least size of recorded messages; 0: none are recorded */
    /* Written about once a second by the manager, the thread that controls the fabric. */
    _Atomic uint64_t starved_ns; /* how long the host's threads had no core: fabric_starved() */
    _Atomic uint64_t counted_ns; /* emu_now_ns() of the last update; 0: starved_ns is not counted */

    struct emu_simtime sim; /* clock virtual */

    alignas(EMU_LINE) struct emu_hostif_stats stats;

    /*
     * Written by the adapter: the finished collectives that emu_comm_draw() selects. The fabric
     * reads the count once a second. The count is in the first page, which is in use anyway. In a
     * page of its own the count would cost 1 ms for 256 nodes.
     */
    struct emu_finished_shared drawn;

    /* Written by the adapter about once a second; read by the fabric. */
    struct emu_pending_shared pending;

    /* Finished operations. Written by the adapter while a client watches; read by the fabric. */
    struct emu_finished_shared finished;

    /* Written by the adapter; read by the fabric. Messages by peer: emu_hostif_peer(). */
    struct emu_comm_shared comm;

    /*
     * By slot, in ps modulo 2^64: the earliest departure (up), and the arrival in memory (down). On
     * clock virtual, the reader of a ring overwrites the time when it is done with the segment. It
     * writes the time at which the device took the segment (up), or the process read it (down).
     */
    alignas(EMU_LINE) uint64_t up_ps[EMU_HOSTIF_SLOTS];
    alignas(EMU_LINE) uint64_t down_ps[EMU_HOSTIF_SLOTS];
    /* By slot: 0, or emu_mcast_ref() of the segment's slot in the shared multicast buffer. */
    alignas(EMU_LINE) uint32_t down_mcast_ref[EMU_HOSTIF_SLOTS];
    alignas(EMU_LINE) struct emu_hostif_slot up[EMU_HOSTIF_SLOTS];
    alignas(EMU_LINE) struct emu_hostif_slot down[EMU_HOSTIF_SLOTS];

    /* Memory of the process, which the fabric reads for network conditionals. */
    alignas(EMU_LINE) _Atomic uint64_t memory[EMU_MEMORY_WORDS];

    /* Written by the fabric; read by the adapter. One word per node: emu_incarnation_state(). */
    alignas(EMU_LINE) _Atomic uint64_t incarnations[];
};

static inline size_t emu_hostif_bytes(uint32_t nodes)
{
    return sizeof(struct emu_hostif_shared) +
           ((size_t)nodes + nodes % 2 + ((size_t)nodes + 63) / 64) * sizeof(uint64_t) +
           (size_t)nodes * sizeof(struct emu_comm_peer);
}

/**
 * emu_hostif_peer - return the counters of messages to @node. They follow incarnations[], and none
 * spans two cache lines. Pure.
 */
static inline struct emu_comm_peer *emu_hostif_peer(struct emu_hostif_shared *shared,
                                                    uint32_t nodes, uint32_t node)
{
    return (struct emu_comm_peer *)(void *)&shared->incarnations[nodes + nodes % 2] + node;
}

/** emu_hostif_peers - return a bit per node, set if messages were sent to it. Pure. */
static inline _Atomic uint64_t *emu_hostif_peers(struct emu_hostif_shared *shared, uint32_t nodes)
{
    return (_Atomic uint64_t *)(void *)emu_hostif_peer(shared, nodes, nodes);
}

/** emu_hostif_sent - count a message to @node. Thread: the process, one thread at a time. */
static inline void emu_hostif_sent(struct emu_hostif_shared *shared, uint32_t nodes, uint32_t node,
                                   uint64_t bytes)
{
    struct emu_comm_peer *peer = emu_hostif_peer(shared, nodes, node);

    if (!emu_count_read(&peer->messages))
        emu_count(&emu_hostif_peers(shared, nodes)[node / 64], UINT64_C(1) << node % 64);
    emu_count(&peer->messages, 1);
    emu_count(&peer->bytes, bytes);
}

/* Descriptors that a process gets when it attaches. It may close one after mapping its memory. */
struct emu_hostif_fds {
    int memory; /* the region */
    int bell;   /* eventfd that wakes the worker; -1: the worker never sleeps */
    /* the shared multicast buffer or, on clock virtual, a file in which the process records its
       calls or from which it replays them (apps/daemon/calls.c); -1: none */
    int mcast_buf;
};

/* The adapter's end. Protected by the adapter's lock. */
struct emu_hostif_nic {
    struct emu_hostif_shared *shared;
    const struct emu_mcast_buf_shared *mcast_buf; /* read-only; NULL: none */
    int bell;                                     /* eventfd: write 1 to wake the fabric's worker */
    uint32_t up_tail;      /* segments written; published by emu_hostif_nic_publish() */
    uint32_t up_published; /* segments published */
    uint32_t up_head;      /* segments known to be taken; clock virtual: by simulated_ps */
    uint32_t down_head;    /* segments read; published by emu_hostif_nic_consumed() */
    uint32_t down_published;
    uint32_t down_tail;            /* copy of shared->down_tail: may lag */
    uint32_t up_shift, down_shift; /* copies of the rings' shifts: emu_hostif_slot_at() */
    /* clock virtual: the fabric has simulated all events up to this time; written by a thread that
       waits or polls, without the adapter's lock */
    _Atomic uint64_t simulated_ps;
};

/**
 * emu_hostif_slot_at - return the slot of segment @number in a ring. The ring's writer changes the
 * shift only while the ring is empty, and writes it before the tail. So the shift that a reader
 * loads after a tail is valid for all segments before that tail. The shift may change only after
 * the reader has published a head that is equal to the tail.
 */
static inline uint32_t emu_hostif_slot_at(uint32_t number, uint32_t shift)
{
    return (number + shift) % EMU_HOSTIF_SLOTS;
}

/**
 * emu_hostif_may_wrap - return whether a writer at slot @at may continue at slot 0 if the ring is
 * empty. @unnotified: entries that the writer has not published yet.
 */
static inline bool emu_hostif_may_wrap(uint32_t at, uint32_t unnotified)
{
    return at >= EMU_HOSTIF_WRAP && !unnotified;
}

/**
 * emu_hostif_publish - publish an index of a ring. An atomic exchange instead would wait until the
 * lines of all segments and of the index have arrived at this core.
 */
static inline void emu_hostif_publish(_Atomic uint32_t *index, uint32_t value)
{
    atomic_store_explicit(index, value, memory_order_release); /* X4, Y2 or Y4 */
}

/**
 * emu_hostif_publish_end - fence after publishing one or more indexes. The caller then checks by a
 * seq_cst load whether the peer sleeps.
 */
static inline void emu_hostif_publish_end(void)
{
    atomic_thread_fence(memory_order_seq_cst); /* Y5, Y6 */
}

/**
 * emu_hostif_nic_open - map the host interface of this process.
 * Errors: -EPROTO: the fabric has another version; -errno of mmap(). On success @nic owns the bell.
 */
int emu_hostif_nic_open(struct emu_hostif_nic *nic, const struct emu_hostif_fds *fds);
void emu_hostif_nic_close(struct emu_hostif_nic *nic); /* unmaps it and closes the bell */

/**
 * emu_hostif_nic_leave - stop reading the shared multicast buffer. A segment in the buffer is
 * dropped when it comes next in the down ring. Call this before asking the fabric to detach the
 * process, because the fabric then reuses the buffer.
 */
void emu_hostif_nic_leave(struct emu_hostif_nic *nic);

/* If the up ring is empty, set up_shift so that slot 0 is next. Returns the next slot. */
uint32_t emu_hostif_nic_wrap(struct emu_hostif_nic *nic, uint32_t at);

/**
 * emu_hostif_nic_taken - return how many segments the fabric has taken so far, modulo 2^32; on
 * clock virtual, how many by the time simulated_ps.
 */
uint32_t emu_hostif_nic_taken(struct emu_hostif_nic *nic);

/* The slow path of emu_hostif_nic_has_room(). */
bool emu_hostif_nic_find_room(struct emu_hostif_nic *nic, uint32_t reserve);

/**
 * emu_hostif_nic_has_room - return whether the up ring has more than @reserve free slots. If not,
 * on clock virtual the next wait ends at the latest when half of the ring is free.
 */
static inline bool emu_hostif_nic_has_room(struct emu_hostif_nic *nic, uint32_t reserve)
{
    return nic->up_tail - nic->up_head < EMU_HOSTIF_SLOTS - reserve ||
           emu_hostif_nic_find_room(nic, reserve);
}

/**
 * emu_hostif_nic_claim - return the next free slot of the up ring, which the caller fills in, or
 * NULL if the ring is full. Several slots may be claimed before they are published. @due_ps:
 * earliest departure; clock raw: 0.
 */
static inline struct emu_seg *emu_hostif_nic_claim(struct emu_hostif_nic *nic, uint64_t due_ps)
{
    struct emu_hostif_shared *shared = nic->shared;
    uint32_t at = emu_hostif_slot_at(nic->up_tail, nic->up_shift);

    if (emu_hostif_may_wrap(at, nic->up_tail - nic->up_published))
        at = emu_hostif_nic_wrap(nic, at);
    if (!emu_hostif_nic_has_room(nic, 0))
        return NULL;
    if (due_ps) /* clock raw ignores times */
        shared->up_ps[at] = due_ps;
    nic->up_tail++;
    emu_hostif_prefetch(shared->up, nic->up_tail + nic->up_shift - 1,
                        nic->up_head + nic->up_shift + EMU_HOSTIF_SLOTS, true);
    return &shared->up[at].seg;
}

/** emu_hostif_nic_stream - publish on which core this thread posts a stream. */
void emu_hostif_nic_stream(struct emu_hostif_nic *nic);
static inline void emu_hostif_nic_streamed(struct emu_hostif_nic *nic)
{
    if (atomic_load_explicit(&nic->shared->up_core, memory_order_relaxed))
        atomic_store_explicit(&nic->shared->up_core, 0, memory_order_relaxed);
}

/**
 * emu_hostif_nic_incarnation - return the word of incarnations[] for @node. Y7 pairs with X5: if a
 * message has told this process that another process attached or ended, the word shows it.
 */
static inline uint64_t emu_hostif_nic_incarnation(const struct emu_hostif_nic *nic, uint32_t node)
{
    /* Y7 pairs with X5 */
    return atomic_load_explicit(&nic->shared->incarnations[node], memory_order_acquire);
}

/**
 * emu_hostif_nic_endings - return how many processes have ended, modulo 2^32. Y8 pairs with X6: the
 * words in incarnations[] show the ends of all counted processes.
 */
static inline uint32_t emu_hostif_nic_endings(const struct emu_hostif_nic *nic)
{
    return atomic_load_explicit(&nic->shared->endings, memory_order_acquire); /* Y8 pairs with X6 */
}

#define EMU_STARVED_SHARE 32u /* at least 1/32 of a period always counts as silence */
/* If an update of the manager is later than this, the manager had no core in the excess time. */
#define EMU_STARVED_LATE_NS UINT64_C(2000000000)

/**
 * emu_starved_ns - return the part of a period of @since_ns that does not count for bounds on
 * silence, if a thread had no core for @waited_ns of the period. A part always counts, so that each
 * bound is reached at the latest after EMU_STARVED_SHARE times its length. Pure.
 */
static inline uint64_t emu_starved_ns(uint64_t since_ns, uint64_t waited_ns)
{
    uint64_t late_ns = since_ns > EMU_STARVED_LATE_NS ? since_ns - EMU_STARVED_LATE_NS : 0;
    uint64_t most_ns = since_ns - since_ns / EMU_STARVED_SHARE;

    waited_ns = waited_ns > late_ns ? waited_ns : late_ns;
    return waited_ns < most_ns ? waited_ns : most_ns;
}

/**
 * emu_hostif_nic_starved - return the time from the fabric's start to @now_ns in which the fabric,
 * or processes of this host, had no core; 0 if this is not counted. The time since the manager's
 * last update is estimated, so later results may be a little smaller. The loads are relaxed.
 */
static inline uint64_t emu_hostif_nic_starved(const struct emu_hostif_nic *nic, uint64_t now_ns)
{
    uint64_t at_ns = atomic_load_explicit(&nic->shared->counted_ns, memory_order_relaxed);
    uint64_t starved_ns = atomic_load_explicit(&nic->shared->starved_ns, memory_order_relaxed);

    return starved_ns + (at_ns && now_ns > at_ns ? emu_starved_ns(now_ns - at_ns, 0) : 0);
}

/** emu_hostif_nic_publish - publish a burst of claimed slots, and ring the bell if requested. */
void emu_hostif_nic_publish(struct emu_hostif_nic *nic);

/*
 * Prefetch down_mcast_ref[]. A cache line has the entries of 16 segments. At the start of a line,
 * the line after the next line is prefetched for reading. The writer does not write unchanged
 * entries, so their lines stay in the reader's cache.
 */
static inline void emu_hostif_prefetch_mcast_ref(const struct emu_hostif_shared *shared,
                                                 uint32_t index)
{
    const uint32_t line = EMU_LINE / sizeof *shared->down_mcast_ref;

    if (index % line == 0)
        __builtin_prefetch(&shared->down_mcast_ref[(index + 2 * line) % EMU_HOSTIF_SLOTS]);
}

/**
 * emu_mcast_ref - return the entry of down_mcast_ref[] for slot @index of the shared multicast
 * buffer. Pure.
 */
static inline uint32_t emu_mcast_ref(uint32_t index)
{
    return index << 1 | 1;
}

static inline uint32_t emu_mcast_ref_slot(uint32_t ref)
{
    return (ref >> 1) % EMU_MCAST_BUF_SLOTS;
}

/* Returns NULL for a segment in the shared multicast buffer if the buffer is no longer read. */
static inline const struct emu_seg *emu_hostif_nic_at(const struct emu_hostif_nic *nic,
                                                      uint32_t number)
{
    uint32_t at = emu_hostif_slot_at(number, nic->down_shift),
             ref = nic->shared->down_mcast_ref[at];

    if (!ref)
        return &nic->shared->down[at].seg;
    return nic->mcast_buf ? &nic->mcast_buf->slot[emu_mcast_ref_slot(ref)].seg : NULL;
}

/**
 * emu_hostif_nic_skip - drop the next segments while they are in a multicast buffer that is no
 * longer read. Then peek at the next segment.
 */
const struct emu_seg *emu_hostif_nic_skip(struct emu_hostif_nic *nic, uint64_t now_ps);

/**
 * emu_hostif_nic_peek - return the next segment if it is due by @now_ps, or NULL. The segment is
 * valid until emu_hostif_nic_consumed().
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
    emu_hostif_prefetch_mcast_ref(shared, at);
    if (nic->down_tail - nic->down_head > EMU_HOSTIF_AHEAD) {
        ahead = emu_hostif_nic_at(nic, nic->down_head + EMU_HOSTIF_AHEAD);
        if (ahead)
            emu_seg_prefetch(ahead, false);
    }
    seg = emu_hostif_nic_at(nic, nic->down_head);
    return seg ? seg : emu_hostif_nic_skip(nic, now_ps);
}

static inline void emu_hostif_nic_pop(struct emu_hostif_nic *nic)
{
    nic->down_head++;
}

/** emu_hostif_nic_consumed - publish down_head after a burst, and ring the bell if requested. */
void emu_hostif_nic_consumed(struct emu_hostif_nic *nic);

/**
 * emu_hostif_nic_sleep - sleep until the fabric has published a segment or @timeout_ns have passed.
 * @seen_down_tail: the tail up to which the caller has read; if the ring has more, the function
 * returns immediately. Thread: any; needs no lock.
 */
void emu_hostif_nic_sleep(struct emu_hostif_shared *shared, uint32_t seen_down_tail,
                          uint64_t timeout_ns);

/**
 * emu_hostif_nic_stand_by - wait for a call of emu_hostif_nic_hand_over() and then for a segment,
 * but at most for @timeout_ns. Returns whether the thread was woken; this may be true without a
 * reason. Thread: one at a time.
 */
bool emu_hostif_nic_stand_by(struct emu_hostif_shared *shared, uint64_t timeout_ns);

/**
 * emu_hostif_nic_hand_over - let the fabric wake the thread in emu_hostif_nic_stand_by() when it
 * writes the next segment, unless `asleep` is set to 0 before. A segment that the fabric writes
 * during this call may not wake the thread. Thread: any.
 */
void emu_hostif_nic_hand_over(struct emu_hostif_shared *shared);

/**
 * emu_hostif_nic_await - clock virtual: let the process wait until a segment arrives or until
 * @until_ps, whichever is earlier, and set its local time to the end of the wait. If the last
 * call returned false, continue its wait, and ignore @until_ps. Returns false if the wait has not
 * ended after EMU_SIMTIME_CHECK_NS of the host's time, so that the caller can check whether the
 * fabric still exists. Thread: one at a time.
 */
bool emu_hostif_nic_await(struct emu_hostif_nic *nic, uint64_t until_ps);

/** emu_hostif_nic_wake - wake all threads of this process that sleep or stand by. */
void emu_hostif_nic_wake(struct emu_hostif_shared *shared);

#endif
