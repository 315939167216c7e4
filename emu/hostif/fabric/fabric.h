/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - the fabric's end of a host interface. It copies segments from the process into the
 * fabric and checks every field. It uses private copies of its own indexes, because a process can
 * overwrite the indexes in the shared memory. A *pass* is an iteration of the worker's loop. The
 * *manager*, the thread that controls the fabric, *cuts off* a process that does not take its
 * segments: the fabric then drops them.
 */
#ifndef EMU_HOSTIF_FABRIC_H
#define EMU_HOSTIF_FABRIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/dev/dev.h"
#include "emu/hostif/hostif.h"
#include "emu/hostif/fabric/mcast_buf.h"
#include "emu/packet/packet.h"
#include "emu/packet/profile.h"
#include "emu/buffer/ring.h"

#define EMU_HOSTIF_BATCH 16 /* at most this many segments are copied into the fabric at a time */
/* up to this many segments at once count as a short message, not as a stream */
#define EMU_HOSTIF_FEW 4u

/* The credits of a process's adapter towards its switch. The fabric keeps them. */
struct emu_credits {
    uint32_t count;
    uint32_t first;                 /* number of the oldest credit, free-running */
    uint64_t at_ps[EMU_XPOINT_MAX]; /* timed clocks: arrival time of each */
};

static_assert((EMU_XPOINT_MAX & (EMU_XPOINT_MAX - 1)) == 0, "credit numbers are taken modulo it");

/** emu_credits_add - add @count credits that arrive at @at_ps. Call in the order of arrival. */
static inline void emu_credits_add(struct emu_credits *credits, uint32_t count, uint64_t at_ps)
{
    for (; count; count--) {
        uint32_t end = credits->first + credits->count++;

        credits->at_ps[end % EMU_XPOINT_MAX] = at_ps;
    }
}

/* Transit and blocking times; 0 on clock raw. Written by the worker, read by any thread. */
struct emu_hostif_times {
    _Atomic uint64_t ideal_ns;  /* sum of the transit times that the profile gives */
    _Atomic uint64_t actual_ns; /* sum of the transit times on the host */
    _Atomic uint64_t full;      /* time for which the down ring was full: emu_hostif_full_ns() */
};

#define EMU_HOSTIF_ANYWHERE UINT32_MAX /* unknown core */

struct emu_hostif {
    /* Written once, before the interface is published. */
    struct emu_hostif_shared *shared;
    struct emu_dev *dev; /* the switch */
    uint32_t port;       /* port of that switch */
    uint32_t node;
    uint32_t nodes;
    uint32_t serial; /* unique among all host interfaces so far; not 0 */
    int bell;        /* eventfd written by the process; never read */
    bool simulated;  /* clock virtual */
    const struct emu_profile *profile;
    struct emu_compute compute;      /* clock virtual: the time that computing takes */
    uint64_t late_ps_per_byte;       /* delay added by a slow wire: see emu_tx_late_ps() */
    struct emu_mcast_buf *mcast_buf; /* shared multicast buffer of the switch; NULL: none */
    struct emu_credits *credits; /* owned by the switch's emu_rx, and kept for the next process */

    /* Owned by the worker: into the fabric. */
    uint32_t up_head;    /* segments copied out of the up ring */
    uint32_t up_tail;    /* checked copy of the process's tail */
    uint32_t up_shift;   /* emu_hostif_slot_at(): shift of the segments from up_head to up_tail */
    uint32_t up_polled;  /* tail at the last poll; a new tail wakes the switch */
    uint64_t up_busy_ps; /* the wire is busy until this time */
    uint32_t shape;      /* emu_hostif_shape() of the last header that emu_hostif_find() accepted */
    uint32_t batch_at;   /* index of the front segment in batch[] */
    uint32_t batch_end;  /* one past the last segment in batch[] */
    struct emu_entry batch[EMU_HOSTIF_BATCH];

    /* Clock virtual, owned by the thread that advances the time (emu/worker/lockstep.h). */
    uint32_t sim_seen;    /* waits of the process that this thread has seen */
    uint32_t sim_ended;   /* waits of the process that have ended */
    uint32_t sim_checked; /* sim_seen when this thread last checked whether the process is asleep */
    /* number of quiet segments (simtime.h) that have arrived during wait number sim_quiet_of */
    uint32_t sim_quiet;
    uint32_t sim_quiet_of;
    uint64_t sim_now_ps;   /* end of the last wait: the process's local time is not earlier */
    uint64_t sim_least_ps; /* earliest departure time of the next segment that the process posts */
    pid_t pid;             /* the process; 0: unknown, so it is never outside (simtime.h) */
    bool outside;          /* the process is outside */
    uint64_t asleep_ns;    /* host time at which it was first found asleep; 0: it is awake */
    uint64_t asleep_ps;    /* its local time at asleep_ns */
    uint64_t counted_ns;   /* slept_ns is counted up to this host time */
    uint64_t slept_ns;     /* how long it was outside since its last progress */
    uint64_t progress;     /* sim.progress when slept_ns began to count */

    /* Owned by the worker: out of the fabric. */
    uint32_t down_tail;   /* segments written */
    uint32_t down_head;   /* checked copy of the process's head */
    uint32_t down_shift;  /* emu_hostif_slot_at(): shift of the segments from head to tail */
    uint32_t down_polled; /* head at the last poll, while blocked */
    bool blocked;         /* a segment waits for space */
    bool streams;         /* the last notification covered many segments */
    bool posted; /* the process has posted since its core was last counted (worker/oversub.h) */
    /* 0: no reply is expected; else 1 + the core of the replying process, or EMU_HOSTIF_ANYWHERE */
    uint32_t owes;
    uint32_t mcast_buf_last[EMU_MCAST_BLOCKS]; /* down_tail after the last reference to a block */

    /* Owned by the worker: notifications not yet sent. */
    uint32_t up_published;      /* last published head; segments in the batch do not count */
    uint32_t down_published;    /* last published tail */
    uint32_t unnotified_passes; /* for how many passes a notification has waited */
    bool wake_pending; /* the tail was published, and emu_hostif_wake() has not been called */
    /*
     * next in the list of interfaces to notify; the last interface points to itself; NULL: not in
     * the list
     */
    struct emu_hostif *unnotified;

    /* Counters: written by the worker, read by any thread. */
    _Atomic uint64_t sent;
    _Atomic uint64_t delivered;
    _Atomic uint64_t bad;  /* invalid segments that were dropped, and impossible indexes */
    _Atomic uint64_t dead; /* segments dropped because the process was cut off */
    /* clock virtual: segments that were sent late, because their posting time had been simulated */
    _Atomic uint64_t late_posts;
    /*
     * clock virtual: host time during which the process was outside. A sleep after its last
     * operation does not count.
     */
    _Atomic uint64_t outside_ns;
    struct emu_hostif_times times;
    _Atomic uint32_t stuck; /* 1 while a segment waits for space */

    /* Set by the manager. */
    _Atomic uint32_t cut; /* 1: the process is cut off, so drop all segments for it */

    /* The manager's watch for processes that do not read. */
    uint64_t watch_delivered; /* segments delivered when the watch began */
    uint64_t watch_ms;        /* time since then in which each check found the ring full */
};

/**
 * emu_hostif_memory - map a new memory file. It is sealed: a process that gets it cannot shrink or
 * grow it and, if @seals is F_SEAL_FUTURE_WRITE, cannot write to it. The caller owns *@memfd.
 * Returns NULL and sets errno on failure.
 */
void *emu_hostif_memory(const char *name, size_t bytes, int seals, int *memfd);

/**
 * emu_hostif_create - allocate a host interface with the fields of @init. All its indexes begin at
 * init->up_head. The caller owns *@memfd; the interface owns its bell.
 */
int emu_hostif_create(struct emu_hostif **ret, const struct emu_hostif *init, bool device_threads,
                      const struct emu_clock *clock, int *memfd);
void emu_hostif_destroy(struct emu_hostif *hostif, struct emu_pool_cache *cache);

/**
 * emu_hostif_full_ns - return how long segments have waited for space in the down ring, up to
 * @now_ps. This includes a segment that still waits. Thread: any.
 *
 * While no segment waits, `full` is twice the sum of all waits. While a segment waits, the time at
 * which its wait began is subtracted twice, and 1 is added, modulo 2^64. So one word is enough, and
 * a reader cannot count a wait twice. The worker uses the time at which its pass began. So a value
 * that is read during a wait may be larger than a later value, by less than a pass.
 */
static inline uint64_t emu_hostif_full_ns(const struct emu_hostif *hostif, uint64_t now_ps)
{
    uint64_t full = atomic_load_explicit(&hostif->times.full, memory_order_relaxed);
    int64_t twice = (int64_t)(full + (full & 1 ? 2 * (now_ps / 1000u) - 1 : 0));

    return twice > 0 ? (uint64_t)twice / 2 : 0;
}

/** emu_hostif_bufs - count the pool buffers in use. Thread: any, while the worker is stopped. */
static inline uint32_t emu_hostif_bufs(const struct emu_hostif *hostif)
{
    uint32_t bufs = 0;

    for (uint32_t i = hostif->batch_at; i != hostif->batch_end; i++)
        bufs += hostif->batch[i].buf != EMU_NO_BUF;
    return bufs;
}

/** emu_hostif_rebase - subtract @by_ps from all times. Thread: any, while the worker is stopped. */
void emu_hostif_rebase(struct emu_hostif *hostif, uint64_t by_ps);

/** emu_hostif_cable_ps - return the time from a segment's departure to its arrival. Pure. */
static inline uint64_t emu_hostif_cable_ps(const struct emu_hostif *hostif)
{
    return hostif->profile->channel_ps + hostif->profile->switch_ps;
}

/**
 * emu_hostif_lookahead_ps - clock virtual: return the least time in which the process can affect
 * the device. Pure.
 */
static inline uint64_t emu_hostif_lookahead_ps(const struct emu_hostif *hostif)
{
    return hostif->profile->nic_send_ps + emu_hostif_cable_ps(hostif);
}

/** emu_hostif_poll - signal new segments, or space for a blocked segment, to the device. */
void emu_hostif_poll(struct emu_hostif *hostif);

/**
 * emu_hostif_refill - copy the next segments into the empty batch, as long as there are credits and
 * buffers. Invalid segments are counted and skipped. Returns false if the batch is still empty.
 */
bool emu_hostif_refill(struct emu_hostif *hostif, uint64_t now_ps);

/** emu_hostif_front - return the oldest segment, or NULL if none is due by @until_ps. */
static inline const struct emu_entry *emu_hostif_front(struct emu_hostif *hostif, uint64_t until_ps)
{
    if (hostif->batch_at == hostif->batch_end && !emu_hostif_refill(hostif, until_ps))
        return NULL;
    if (hostif->batch[hostif->batch_at].time_ps > until_ps)
        return NULL;
    return &hostif->batch[hostif->batch_at];
}

/** emu_hostif_taken - return how many segments the device has taken, without the batch. */
static inline uint32_t emu_hostif_taken(const struct emu_hostif *hostif)
{
    return hostif->up_head - (hostif->batch_end - hostif->batch_at);
}

/**
 * emu_hostif_skip - remove the front segment at @at_ps, or at its arrival if that is later, and
 * spend its credit.
 */
static inline void emu_hostif_skip(struct emu_hostif *hostif, uint64_t at_ps)
{
    uint32_t slot = emu_hostif_slot_at(emu_hostif_taken(hostif), hostif->up_shift);
    uint64_t front_ps = hostif->batch[hostif->batch_at].time_ps;

    if (hostif->simulated) /* before X2 */
        __atomic_store_n(&hostif->shared->up_ps[slot], at_ps > front_ps ? at_ps : front_ps,
                         __ATOMIC_RELAXED);
    hostif->batch_at++;
    hostif->credits->first++;
    hostif->credits->count--;
}

/** emu_hostif_tclass - return the process's traffic class, or the default one if it is invalid. */
static inline uint8_t emu_hostif_tclass(const struct emu_hostif *hostif)
{
    uint32_t tclass = atomic_load_explicit(&hostif->shared->tclass, memory_order_relaxed);

    return tclass < EMU_TCLASSES ? (uint8_t)tclass : EMU_TCLASS_DEFAULT;
}

/** emu_hostif_word - return word @at, which is below EMU_MEMORY_WORDS, of the process's memory. */
static inline uint64_t emu_hostif_word(const struct emu_hostif *hostif, uint32_t at)
{
    /* X7 pairs with Y9: a store of the program */
    return atomic_load_explicit(&hostif->shared->memory[at], memory_order_acquire);
}

/*
 * Copy the header of @seg and set its source to @node. The process may change the header at any
 * time. So it is read only once, and only the copy is checked and used.
 */
static inline void emu_hostif_read(struct emu_hdr *hdr, uint32_t node, const struct emu_seg *seg)
{
    const uint64_t *words = (const void *)&seg->hdr;
    uint64_t copy[2] = {emu_hdr_from(__atomic_load_n(&words[0], __ATOMIC_RELAXED), node),
                        __atomic_load_n(&words[1], __ATOMIC_RELAXED)};

    memcpy(hdr, copy, sizeof *hdr);
}

/* Return the fields of a header that are checked, except the destination, as one word. */
static inline uint32_t emu_hostif_shape(const struct emu_hdr *hdr)
{
    static_assert(offsetof(struct emu_hdr, kind) == 12, "kind, len, op, type");
    uint32_t shape;

    memcpy(&shape, (const char *)hdr + offsetof(struct emu_hdr, kind), sizeof shape);
    return shape;
}

/** emu_hostif_up_slot - return the slot of the oldest segment in the up ring. */
static inline uint32_t emu_hostif_up_slot(const struct emu_hostif *hostif)
{
    return emu_hostif_slot_at(hostif->up_head, hostif->up_shift);
}

/* Prefetch a later segment of the up ring. @at: slot of the oldest segment. */
static inline void emu_hostif_prefetch_up(const struct emu_hostif *hostif, uint32_t at)
{
    emu_hostif_prefetch(hostif->shared->up, at, at + hostif->up_tail - hostif->up_head, false);
}

/** emu_hostif_find - the slow path of emu_hostif_peek(). */
const struct emu_seg *emu_hostif_find(struct emu_hostif *hostif, struct emu_hdr *hdr);

/**
 * emu_hostif_peek - clock raw: return the oldest valid segment in the process's memory, or NULL if
 * there is no segment or no credit. Invalid segments are counted and skipped.
 * @hdr: gets the checked header. The payload may change while it is read and must not be
 * interpreted.
 * A device uses either emu_hostif_peek() or emu_hostif_front().
 */
static inline const struct emu_seg *emu_hostif_peek(struct emu_hostif *hostif, struct emu_hdr *hdr)
{
    uint32_t at = emu_hostif_up_slot(hostif);
    const struct emu_seg *seg = &hostif->shared->up[at].seg;

    if (!hostif->credits->count || hostif->up_head == hostif->up_tail)
        return emu_hostif_find(hostif, hdr);
    emu_hostif_read(hdr, hostif->node, seg);
    if (emu_hostif_shape(hdr) != hostif->shape ||
        ((hdr->kind & ~EMU_NOTIFY) == EMU_UNICAST && hdr->dst >= hostif->nodes))
        return emu_hostif_find(hostif, hdr);
    emu_hostif_prefetch_up(hostif, at);
    return seg;
}

/**
 * emu_hostif_take - clock raw: copy the peeked segment into the fabric. Returns false if no pool
 * buffer is free; the device is then stepped again.
 */
bool emu_hostif_take(struct emu_hostif *hostif, const struct emu_seg *seg, struct emu_entry *entry);

/**
 * emu_hostif_take_run - clock raw: copy up to @most of the next segments into the fabric. Stops at
 * a segment that is not full, is not of @kind to @dst (a node or group), or whose operation or type
 * differs from the last checked header. Spends their credits. @bufs: gets their buffers, which also
 * contain the checked headers. Returns the number of segments. If it is 0, the next segment may
 * still be taken by emu_hostif_take().
 */
uint32_t emu_hostif_take_run(struct emu_hostif *hostif, uint8_t kind, uint32_t dst, uint32_t *bufs,
                             uint32_t most);

/** emu_hostif_pass - clock raw: remove the peeked segment and spend its credit. */
static inline void emu_hostif_pass(struct emu_hostif *hostif)
{
    hostif->up_head++;
    hostif->credits->first++;
    hostif->credits->count--;
}

/**
 * emu_hostif_pass_run - clock raw: do emu_hostif_take_run() for unicasts, but copy the segments
 * directly into the down ring of @to, which has space for @most. If it returns 0, the next segment
 * may still be sent singly.
 */
uint32_t emu_hostif_pass_run(struct emu_hostif *hostif, struct emu_hostif *to, uint32_t dst,
                             uint32_t most);

/**
 * emu_hostif_set_incarnation - tell this interface's process the state of @node's process. @word:
 * see emu_incarnation_state(). Thread: the manager.
 */
void emu_hostif_set_incarnation(struct emu_hostif *hostif, uint32_t node, uint64_t word);

/**
 * emu_hostif_left - return how many posted segments have not entered the fabric. Thread: the
 * manager, after the worker has stopped using the interface.
 */
uint32_t emu_hostif_left(const struct emu_hostif *hostif);

/** emu_hostif_next_ps - return when the batch's front segment is due; EMU_NEVER: it is empty. */
static inline uint64_t emu_hostif_next_ps(const struct emu_hostif *hostif)
{
    return hostif->batch_at == hostif->batch_end ? EMU_NEVER
                                                 : hostif->batch[hostif->batch_at].time_ps;
}

/**
 * emu_hostif_room - return the number of free slots of the down ring. If it is 0, a segment counts
 * as waiting until a later call finds space. The manager cuts off a process that takes too few
 * segments meanwhile.
 */
uint32_t emu_hostif_room(struct emu_hostif *hostif);

/**
 * emu_hostif_room_ps - timed: return the earliest time, not before @ready_ps, at which the down
 * ring has a free slot; EMU_NEVER: the process has not read any segment of a full ring. If there is
 * no space at @ready_ps, a segment counts as waiting until a later call finds space, as for
 * emu_hostif_room().
 */
uint64_t emu_hostif_room_ps(struct emu_hostif *hostif, uint64_t ready_ps);

/** emu_hostif_has_room - return whether @count segments fit. If not, none counts as waiting. */
bool emu_hostif_has_room(struct emu_hostif *hostif, uint32_t count);
/** emu_hostif_send - copy a segment to the process and drop its buffer. There must be space. */
void emu_hostif_send(struct emu_hostif *hostif, const struct emu_entry *entry);
/**
 * emu_hostif_put - clock raw: copy a segment to the process. There must be space. @payload: aligned
 * to a cache line and kept by the caller; NULL: none.
 */
void emu_hostif_put(struct emu_hostif *hostif, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);
/**
 * emu_hostif_put_run - clock raw: copy the @count segments in the pool's buffers @bufs to the
 * process, in order. There must be space. The caller keeps the buffers.
 */
void emu_hostif_put_run(struct emu_hostif *hostif, const uint32_t *bufs, uint32_t count);
/** emu_hostif_write - write a segment to @mcast_buf, which is not full. Returns its index. */
uint32_t emu_hostif_write(struct emu_mcast_buf *mcast_buf, const struct emu_hdr *hdr,
                          const struct emu_seg *payload);
/**
 * emu_hostif_refer - clock raw: send references to @count segments of the shared multicast buffer,
 * beginning with index @on. All are in one block. The down ring must have space.
 */
void emu_hostif_refer(struct emu_hostif *hostif, uint32_t on, uint32_t count);
/**
 * emu_hostif_reads - return whether the process has unread segments in @block of the shared
 * multicast buffer. A process that was cut off may not know this yet, and may still read.
 */
bool emu_hostif_reads(struct emu_hostif *hostif, uint32_t block);
/**
 * emu_hostif_mark - let emu_hostif_notify_all() notify the process. Call this at the end of a burst
 * in either direction. A notification moves two cache lines between cores, so it covers several
 * passes.
 */
void emu_hostif_mark(struct emu_hostif *hostif);
/** emu_hostif_done - end a burst in which the switch took @moved segments. */
void emu_hostif_done(struct emu_hostif *hostif, uint32_t moved);
/**
 * emu_hostif_publish_few - publish the segments written since the last notification, if they are so
 * few that they are probably a whole message. A worker with a core of its own
 * (emu_worker_is_alone()) does this as soon as it has written them, before the rest of the pass.
 * The caller then calls emu_hostif_publish_end(), and emu_hostif_wake() for each interface for
 * which this function returned true. Returns false if nothing was published. Thread: the worker.
 */
bool emu_hostif_publish_few(struct emu_hostif *hostif);
/** emu_hostif_wake - wake the process if it sleeps. Call this after publishing segments. */
void emu_hostif_wake(struct emu_hostif *hostif);
/**
 * emu_hostif_notify_all - notify processes whose interfaces are marked: all of them if @now (the
 * worker is about to wait), else only processes with many unpublished segments, and processes whose
 * notification has waited for several passes. Thread: the worker, at the end of each pass.
 */
void emu_hostif_notify_all(struct emu_worker *worker, bool now);

/**
 * emu_hostif_bell - ask the process to ring the bell when it posts or, if a segment waits for
 * space, when it reads. @wanted false: withdraw this request. Returns whether there is work now.
 */
bool emu_hostif_bell(struct emu_hostif *hostif, bool wanted);

#endif
