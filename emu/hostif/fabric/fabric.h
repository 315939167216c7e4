/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - the fabric's end of a host interface. It copies segments in and checks every field.
 * Its own indexes are private; the shared copies only inform the process.
 */
#ifndef EMU_HOSTIF_FABRIC_H
#define EMU_HOSTIF_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/dev/dev.h"
#include "emu/hostif/hostif.h"
#include "emu/hostif/fabric/mcast_buf.h"
#include "emu/packet/profile.h"
#include "emu/buffer/ring.h"

#define EMU_HOSTIF_BATCH 16 /* segments copied in at a time */
#define EMU_HOSTIF_FEW   4u /* a message of more segments may be part of a stream */

/* An adapter's credits, kept on its behalf; on timed clocks with each one's arrival time. */
struct emu_credits {
    uint32_t count;
    uint32_t first; /* index of the oldest, free-running */
    uint64_t at_ps[EMU_XPOINT_MAX];
};

static_assert((EMU_XPOINT_MAX & (EMU_XPOINT_MAX - 1)) == 0, "credits' numbers may wrap");

/** emu_credits_add - @count credits come back at @at_ps. Call in order of time. */
static inline void emu_credits_add(struct emu_credits *credits, uint32_t count, uint64_t at_ps)
{
    for (; count; count--) {
        uint32_t end = credits->first + credits->count++;

        credits->at_ps[end % EMU_XPOINT_MAX] = at_ps;
    }
}

/* Transit and blocking times, written by the worker, read by anyone. Clock raw: 0. */
struct emu_hostif_times {
    _Atomic uint64_t ideal_ns;  /* emulated transit times, summed */
    _Atomic uint64_t actual_ns; /* actual transit times, summed */
    _Atomic uint64_t full;      /* time blocked on a full ring: emu_hostif_full_ns() */
};

#define EMU_HOSTIF_ANYWHERE UINT32_MAX /* unknown core */

struct emu_hostif {
    /* Written once, before it is published. */
    struct emu_hostif_shared *shared;
    struct emu_dev *dev; /* the switch, and its port */
    uint32_t port;
    uint32_t node;
    uint32_t nodes;
    uint32_t serial; /* unique among all host interfaces so far; not 0 */
    int bell;        /* eventfd written by the process; never read */
    const struct emu_profile *profile;
    /* timed: delay per byte of a wire slower than others: emu_tx_late_ps() */
    uint64_t late_ps_per_byte;
    struct emu_mcast_buf *mcast_buf; /* shared multicast buffer of the switch; NULL: none */
    /* for the wire towards the switch; kept in emu_rx when processes change */
    struct emu_credits *credits;

    /* Owned by the worker: into the fabric. */
    uint32_t up_head;    /* segments copied out */
    uint32_t up_tail;    /* checked copy of the process's tail */
    uint32_t up_shift;   /* for the segments between those */
    uint32_t up_polled;  /* tail at the last check: a new one wakes the switch */
    uint64_t up_busy_ps; /* the wire is busy until then */
    /*
     * kind, length, operation and type of the last valid header that emu_hostif_find() checked; at
     * first those of a unicast without payload
     */
    uint32_t shape;
    uint32_t batch_at;  /* front of batch[] */
    uint32_t batch_end; /* one past its last */
    struct emu_entry batch[EMU_HOSTIF_BATCH];

    /* Owned by the worker: out of the fabric. */
    uint32_t down_tail;   /* segments written */
    uint32_t down_head;   /* checked copy of the process's head */
    uint32_t down_shift;  /* for the segments between those */
    uint32_t down_polled; /* head at the last check, while blocked */
    bool blocked;         /* a segment waits for space */
    bool streams;         /* the last notification was for many segments */
    bool posted;          /* by the process, since the last check of its core (worker/oversub.h) */
    /* 1 + core of a process that was notified and may answer soon; 0: none */
    uint32_t owes;
    /* down_tail after the latest segment in each part of the shared multicast buffer */
    uint32_t mcast_buf_last[EMU_MCAST_BLOCKS];

    /* Owned by the worker: notifications not yet sent. */
    /* head last published: only segments that the switch has taken */
    uint32_t up_published;
    uint32_t down_published;    /* tail last published */
    uint32_t unnotified_passes; /* passes since there was a notification to send */
    bool shown;                 /* the tail was published; check next whether the process sleeps */
    /* next in the worker's list; itself at the end; NULL: not in it */
    struct emu_hostif *unnotified;

    /* Counters: written by the worker, read by anyone. */
    _Atomic uint64_t sent;
    _Atomic uint64_t delivered;
    _Atomic uint64_t bad;  /* malformed or foreign, dropped */
    _Atomic uint64_t dead; /* dropped because the process was cut off */
    struct emu_hostif_times times;
    _Atomic uint32_t stuck; /* 1 while a segment waits for space */

    /* Set by the manager. */
    _Atomic uint32_t cut; /* 1: drop everything for the process */

    /* The manager's stall watch. */
    uint64_t watch_delivered; /* segments delivered when the watch began */
    uint64_t watch_ms;        /* time counted since then, if stuck at each check */
};

/**
 * emu_hostif_memory - map a new sealed memory file, which a process that gets it can neither shrink
 * nor grow, nor write to with @seals F_SEAL_FUTURE_WRITE. The caller owns @memfd. NULL with errno.
 */
void *emu_hostif_memory(const char *name, size_t bytes, int seals, int *memfd);

/**
 * emu_hostif_create - allocate a host interface. All its indexes begin at init->up_head. The caller
 * owns *@memfd, the interface its bell.
 */
int emu_hostif_create(struct emu_hostif **ret, const struct emu_hostif *init, bool timed,
                      bool device_threads, const struct emu_clock *clock, int *memfd);
void emu_hostif_destroy(struct emu_hostif *hostif, struct emu_pool_cache *cache);

/**
 * emu_hostif_full_ns - how long segments have waited for space in the ring by @now_ps, including
 * one that still waits. Thread: any.
 *
 * While one waits `full` is twice the sum, less twice the time since when, modulo 2^64, plus 1;
 * else twice the sum. So it is one word, and a reader counts nothing twice. The worker's time is
 * that of its pass, so a value read while a segment waits may exceed the next one by less than a
 * pass.
 */
static inline uint64_t emu_hostif_full_ns(const struct emu_hostif *hostif, uint64_t now_ps)
{
    uint64_t full = atomic_load_explicit(&hostif->times.full, memory_order_relaxed);
    int64_t twice = (int64_t)(full + (full & 1 ? 2 * (now_ps / 1000u) - 1 : 0));

    return twice > 0 ? (uint64_t)twice / 2 : 0;
}

/** emu_hostif_bufs - pool buffers that it holds. Thread: any, while its worker is stopped. */
static inline uint32_t emu_hostif_bufs(const struct emu_hostif *hostif)
{
    uint32_t bufs = 0;

    for (uint32_t i = hostif->batch_at; i != hostif->batch_end; i++)
        bufs += hostif->batch[i].buf != EMU_NO_BUF;
    return bufs;
}

/**
 * emu_hostif_rebase - subtract @by_ps from its times. Thread: manager, while the worker is stopped.
 */
void emu_hostif_rebase(struct emu_hostif *hostif, uint64_t by_ps);

/** emu_hostif_poll - signal the device if there is a new segment or space. Thread: the worker. */
void emu_hostif_poll(struct emu_hostif *hostif);

/**
 * emu_hostif_refill - copy in the next segments, as far as credits and buffers allow. The batch
 * must be empty. Malformed segments are counted and skipped. False: there is none.
 */
bool emu_hostif_refill(struct emu_hostif *hostif, uint64_t now_ps);

/** emu_hostif_front - the oldest segment that is due, its payload in a pool buffer, or NULL. */
static inline const struct emu_entry *emu_hostif_front(struct emu_hostif *hostif, uint64_t until_ps)
{
    if (hostif->batch_at == hostif->batch_end && !emu_hostif_refill(hostif, until_ps))
        return NULL;
    if (hostif->batch[hostif->batch_at].time_ps > until_ps)
        return NULL;
    return &hostif->batch[hostif->batch_at];
}

/** emu_hostif_skip - remove the front segment and spend its credit. */
static inline void emu_hostif_skip(struct emu_hostif *hostif)
{
    hostif->batch_at++;
    hostif->credits->first++;
    hostif->credits->count--;
}

/** emu_hostif_taken - segments of the up ring that have entered the fabric, the batch excluded. */
static inline uint32_t emu_hostif_taken(const struct emu_hostif *hostif)
{
    return hostif->up_head - (hostif->batch_end - hostif->batch_at);
}

/* Read the header once, as the process may change it; only the checked copy is used. */
static inline void emu_hostif_read(struct emu_hdr *hdr, uint32_t node, const struct emu_seg *seg)
{
    const uint64_t *words = (const void *)&seg->hdr;
    uint64_t copy[2] = {emu_hdr_from(__atomic_load_n(&words[0], __ATOMIC_RELAXED), node),
                        __atomic_load_n(&words[1], __ATOMIC_RELAXED)};

    memcpy(hdr, copy, sizeof *hdr);
}

/* All checked fields of a header except its destination. */
static inline uint32_t emu_hostif_shape(const struct emu_hdr *hdr)
{
    static_assert(offsetof(struct emu_hdr, kind) == 12, "kind, len, op, type");
    uint32_t shape;

    memcpy(&shape, (const char *)hdr + offsetof(struct emu_hdr, kind), sizeof shape);
    return shape;
}

/** emu_hostif_up_slot - slot of the oldest segment in the up ring. */
static inline uint32_t emu_hostif_up_slot(const struct emu_hostif *hostif)
{
    return emu_hostif_slot_at(hostif->up_head, hostif->up_shift);
}

/* Prefetch segments behind the oldest one, which is at @at. */
static inline void emu_hostif_prefetch_up(const struct emu_hostif *hostif, uint32_t at)
{
    emu_hostif_prefetch(hostif->shared->up, at, at + hostif->up_tail - hostif->up_head, false);
}

/** emu_hostif_find - the slow path of emu_hostif_peek(). */
const struct emu_seg *emu_hostif_find(struct emu_hostif *hostif, struct emu_hdr *hdr);

/**
 * emu_hostif_peek - raw: the oldest segment, still in the process's memory; NULL if there is none
 * or no credit. Malformed ones before it are counted and skipped.
 * @hdr: gets its checked header. The payload may change while it is read and must not be
 * interpreted.
 * A device uses either this or emu_hostif_front().
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

/** emu_hostif_take - raw: copy the peeked segment in. False: no buffer; the device runs again. */
bool emu_hostif_take(struct emu_hostif *hostif, const struct emu_seg *seg, struct emu_entry *entry);

/**
 * emu_hostif_take_run - raw: copy in up to @most of the next segments while they are full ones of
 * @kind to @dst (a node or group) and otherwise equal the last checked one. Their credits are
 * spent. @bufs: gets their buffers, with checked headers. Returns how many; after 0 the next one
 * may still be taken singly.
 */
uint32_t emu_hostif_take_run(struct emu_hostif *hostif, uint8_t kind, uint32_t dst, uint32_t *bufs,
                             uint32_t most);

/** emu_hostif_pass - raw: remove the peeked segment and spend its credit. */
static inline void emu_hostif_pass(struct emu_hostif *hostif)
{
    hostif->up_head++;
    hostif->credits->first++;
    hostif->credits->count--;
}

/**
 * emu_hostif_pass_run - raw: emu_hostif_take_run() of unicasts, directly into the ring of @to,
 * which has space for @most. After 0 the next one may still be sent singly.
 */
uint32_t emu_hostif_pass_run(struct emu_hostif *hostif, struct emu_hostif *to, uint32_t dst,
                             uint32_t most);

/**
 * emu_hostif_set_incarnation - publish the state of @node's process: emu_incarnation_state().
 * Thread: the manager.
 */
void emu_hostif_set_incarnation(struct emu_hostif *hostif, uint32_t node, uint64_t word);

/** emu_hostif_left - posted segments not in the fabric. Thread: manager, after the worker. */
uint32_t emu_hostif_left(const struct emu_hostif *hostif);

/** emu_hostif_next_ps - timed: when the front segment is due; EMU_NEVER if none is known. */
static inline uint64_t emu_hostif_next_ps(const struct emu_hostif *hostif)
{
    return hostif->batch_at == hostif->batch_end ? EMU_NEVER
                                                 : hostif->batch[hostif->batch_at].time_ps;
}

/**
 * emu_hostif_room - free slots of the down ring. With none, a segment counts as waiting until a
 * later call finds space; a process that takes too little meanwhile is cut off.
 */
uint32_t emu_hostif_room(struct emu_hostif *hostif);

/** emu_hostif_has_room - is there space for @count? If not, nothing counts as waiting. */
bool emu_hostif_has_room(struct emu_hostif *hostif, uint32_t count);
/** emu_hostif_send - copy a segment to the process and drop its buffer. There must be space. */
void emu_hostif_send(struct emu_hostif *hostif, const struct emu_entry *entry);
/** emu_hostif_put - raw: the same with a payload at a cache line of the caller's; NULL: none. */
void emu_hostif_put(struct emu_hostif *hostif, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);
/** emu_hostif_put_run - raw: the same for the @count segments in @bufs, in order. */
void emu_hostif_put_run(struct emu_hostif *hostif, const uint32_t *bufs, uint32_t count);
/** emu_hostif_write - raw: write a segment to @mcast_buf, which is not full. Returns its index. */
uint32_t emu_hostif_write(struct emu_mcast_buf *mcast_buf, const struct emu_hdr *hdr,
                          const struct emu_seg *payload);
/**
 * emu_hostif_refer - raw: send @count segments of the shared multicast buffer from index @on on,
 * all in one part. The caller has checked space.
 */
void emu_hostif_refer(struct emu_hostif *hostif, uint32_t on, uint32_t count);
/**
 * emu_hostif_reads - has the process unread segments in @part of the shared multicast buffer? After
 * a cut-off, too: it may not know yet and read on.
 */
bool emu_hostif_reads(struct emu_hostif *hostif, uint32_t part);
/**
 * emu_hostif_mark - end of a burst in either direction: a notification is due. One costs two
 * transfers of cache lines between cores, so several passes share it: emu_hostif_notify_all().
 */
void emu_hostif_mark(struct emu_hostif *hostif);
/** emu_hostif_done - end of a burst in which the switch took @moved segments. */
void emu_hostif_done(struct emu_hostif *hostif, uint32_t moved);
/**
 * emu_hostif_show_few - if few segments were written since the last notification, publish them.
 * They are a whole message, so a worker with a core of its own (emu_worker_is_alone()) publishes
 * them where it writes them, before the rest of the pass. The caller then calls emu_hostif_shown()
 * and, for each interface published, emu_hostif_wake(). False: nothing was published. Thread: the
 * worker.
 */
bool emu_hostif_show_few(struct emu_hostif *hostif);
/** emu_hostif_wake - after publishing: wake the process if it sleeps. */
void emu_hostif_wake(struct emu_hostif *hostif);
/**
 * emu_hostif_notify_all - notify the processes whose interfaces are marked: all of them (@now: the
 * worker is about to wait), or those for which it is urgent. Thread: the worker, at the end of each
 * pass.
 */
void emu_hostif_notify_all(struct emu_worker *worker, bool now);

/** emu_hostif_bell - before sleeping: request or cancel the bell. True: there is work already. */
bool emu_hostif_bell(struct emu_hostif *hostif, bool wanted);

#endif
