/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - the fabric's end of a host interface. It copies segments from the process into the
 * fabric and checks every field. It works with private indexes; the copies in the shared memory
 * only inform the process.
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

#define EMU_HOSTIF_BATCH 16 /* most segments that are copied in at a time */
#define EMU_HOSTIF_FEW   4u /* more segments at once may be part of a stream */

/*
 * The credits of a process's adapter, which the fabric keeps for it; on timed clocks with the
 * arrival time of each.
 */
struct emu_credits {
    uint32_t count;
    uint32_t first; /* number of the oldest credit, free-running */
    uint64_t at_ps[EMU_XPOINT_MAX];
};

static_assert((EMU_XPOINT_MAX & (EMU_XPOINT_MAX - 1)) == 0, "credit numbers are taken modulo it");

/** emu_credits_add - add @count credits that come back at @at_ps. Call in the order of times. */
static inline void emu_credits_add(struct emu_credits *credits, uint32_t count, uint64_t at_ps)
{
    for (; count; count--) {
        uint32_t end = credits->first + credits->count++;

        credits->at_ps[end % EMU_XPOINT_MAX] = at_ps;
    }
}

/* Transit and blocking times. Written by the worker; anyone may read them. On clock raw 0. */
struct emu_hostif_times {
    _Atomic uint64_t ideal_ns;  /* emulated transit times, summed */
    _Atomic uint64_t actual_ns; /* actual transit times, summed */
    _Atomic uint64_t full;      /* time blocked on a full ring: emu_hostif_full_ns() */
};

#define EMU_HOSTIF_ANYWHERE UINT32_MAX /* unknown core */

struct emu_hostif {
    /* Written once, before the interface is published. */
    struct emu_hostif_shared *shared;
    struct emu_dev *dev; /* the switch, whose port is `port` */
    uint32_t port;
    uint32_t node;
    uint32_t nodes;
    uint32_t serial; /* unique among all host interfaces so far; not 0 */
    int bell;        /* eventfd written by the process; never read */
    const struct emu_profile *profile;
    /*
     * timed: additional delay per byte if the wire is slower than the profile's: emu_tx_late_ps()
     */
    uint64_t late_ps_per_byte;
    struct emu_mcast_buf *mcast_buf; /* shared multicast buffer of the switch; NULL: none */
    /*
     * credits of the wire towards the switch. They belong to the emu_rx, and stay when another
     * process attaches
     */
    struct emu_credits *credits;

    /* Owned by the worker: into the fabric. */
    uint32_t up_head;    /* segments copied out of the up ring */
    uint32_t up_tail;    /* checked copy of the process's tail */
    uint32_t up_shift;   /* shift of the segments between these two */
    uint32_t up_polled;  /* tail at the last poll; a new one wakes the switch */
    uint64_t up_busy_ps; /* the wire is busy until then */
    /*
     * kind, length, operation and type of the last header that emu_hostif_find() found valid;
     * initially those of a unicast without payload
     */
    uint32_t shape;
    uint32_t batch_at;  /* index of the front segment in batch[] */
    uint32_t batch_end; /* one past the last segment in batch[] */
    struct emu_entry batch[EMU_HOSTIF_BATCH];

    /* Owned by the worker: out of the fabric. */
    uint32_t down_tail;   /* segments written */
    uint32_t down_head;   /* checked copy of the process's head */
    uint32_t down_shift;  /* shift of the segments between these two */
    uint32_t down_polled; /* head at the last poll, while blocked */
    bool blocked;         /* a segment waits for space */
    bool streams;         /* the last notification was for many segments */
    bool posted; /* the process has posted since its core was last counted (worker/oversub.h) */
    /*
     * 1 + the core on which the process may soon post a reply to a notification, or
     * EMU_HOSTIF_ANYWHERE; 0: it owes no reply
     */
    uint32_t owes;
    /* by block of the shared multicast buffer: down_tail after the latest segment in it */
    uint32_t mcast_buf_last[EMU_MCAST_BLOCKS];

    /* Owned by the worker: notifications not yet sent. */
    /* head last published; it counts only segments that the switch has taken */
    uint32_t up_published;
    uint32_t down_published;    /* tail last published */
    uint32_t unnotified_passes; /* passes for which a notification has waited */
    /* the tail was published, and emu_hostif_wake() must still check whether the process sleeps */
    bool shown;
    /*
     * next in the worker's list of interfaces to notify; the last one points to itself; NULL: not
     * in the list
     */
    struct emu_hostif *unnotified;

    /* Counters: written by the worker, read by anyone. */
    _Atomic uint64_t sent;
    _Atomic uint64_t delivered;
    _Atomic uint64_t bad;  /* invalid segments that were dropped, and impossible indexes */
    _Atomic uint64_t dead; /* segments dropped because the process was cut off */
    struct emu_hostif_times times;
    _Atomic uint32_t stuck; /* 1 while a segment waits for space */

    /* Set by the manager. */
    _Atomic uint32_t cut; /* 1: the process is cut off, so drop all segments for it */

    /* The manager's watch for processes that do not read. */
    uint64_t watch_delivered; /* segments delivered when the watch began */
    uint64_t watch_ms;        /* time since then in which each check found the ring full */
};

/**
 * emu_hostif_memory - map a new memory file. It is sealed, so that a process that gets it can
 * neither shrink nor grow it, nor, if @seals is F_SEAL_FUTURE_WRITE, write to it. The caller owns
 * *@memfd. Returns NULL and sets errno on failure.
 */
void *emu_hostif_memory(const char *name, size_t bytes, int seals, int *memfd);

/**
 * emu_hostif_create - allocate a host interface with the fields of @init. All its indexes begin at
 * init->up_head. The caller owns *@memfd; the interface owns its bell.
 */
int emu_hostif_create(struct emu_hostif **ret, const struct emu_hostif *init, bool timed,
                      bool device_threads, const struct emu_clock *clock, int *memfd);
void emu_hostif_destroy(struct emu_hostif *hostif, struct emu_pool_cache *cache);

/**
 * emu_hostif_full_ns - how long segments have waited until @now_ps for space in the down ring. This
 * includes a segment that still waits. Thread: any.
 *
 * While no segment waits, `full` is twice the sum of the waits. While one waits, `full` is that
 * minus twice the time at which its wait began, plus 1, modulo 2^64. So all is in one word, and a
 * reader cannot count a wait twice. The worker takes times at the start of its pass. So a value
 * that is read while a segment waits may exceed the next value, by less than a pass.
 */
static inline uint64_t emu_hostif_full_ns(const struct emu_hostif *hostif, uint64_t now_ps)
{
    uint64_t full = atomic_load_explicit(&hostif->times.full, memory_order_relaxed);
    int64_t twice = (int64_t)(full + (full & 1 ? 2 * (now_ps / 1000u) - 1 : 0));

    return twice > 0 ? (uint64_t)twice / 2 : 0;
}

/**
 * emu_hostif_bufs - number of pool buffers that the interface uses. Thread: any, while its worker
 * is stopped.
 */
static inline uint32_t emu_hostif_bufs(const struct emu_hostif *hostif)
{
    uint32_t bufs = 0;

    for (uint32_t i = hostif->batch_at; i != hostif->batch_end; i++)
        bufs += hostif->batch[i].buf != EMU_NO_BUF;
    return bufs;
}

/**
 * emu_hostif_rebase - subtract @by_ps from the interface's times. Thread: the manager, while the
 * worker is stopped.
 */
void emu_hostif_rebase(struct emu_hostif *hostif, uint64_t by_ps);

/**
 * emu_hostif_poll - signal the device if the process has posted segments, or has made space for a
 * blocked one. Thread: the worker.
 */
void emu_hostif_poll(struct emu_hostif *hostif);

/**
 * emu_hostif_refill - copy the next segments into the batch, as far as credits and buffers allow.
 * The batch must be empty. Invalid segments are counted and skipped. Returns false if the batch is
 * still empty.
 */
bool emu_hostif_refill(struct emu_hostif *hostif, uint64_t now_ps);

/**
 * emu_hostif_front - return the oldest segment, its payload in a pool buffer, or NULL if none is
 * due by @until_ps.
 */
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

/**
 * emu_hostif_taken - number of segments of the up ring that have entered the fabric, without those
 * in the batch.
 */
static inline uint32_t emu_hostif_taken(const struct emu_hostif *hostif)
{
    return hostif->up_head - (hostif->batch_end - hostif->batch_at);
}

/*
 * Copy the header of @seg and set its source to @node. The process may change the header at any
 * time, so it is read only once, and only the copy is checked and used.
 */
static inline void emu_hostif_read(struct emu_hdr *hdr, uint32_t node, const struct emu_seg *seg)
{
    const uint64_t *words = (const void *)&seg->hdr;
    uint64_t copy[2] = {emu_hdr_from(__atomic_load_n(&words[0], __ATOMIC_RELAXED), node),
                        __atomic_load_n(&words[1], __ATOMIC_RELAXED)};

    memcpy(hdr, copy, sizeof *hdr);
}

/* All fields of a header that are checked, except the destination. */
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

/* Prefetch a segment that follows the oldest one, which is in slot @at. */
static inline void emu_hostif_prefetch_up(const struct emu_hostif *hostif, uint32_t at)
{
    emu_hostif_prefetch(hostif->shared->up, at, at + hostif->up_tail - hostif->up_head, false);
}

/** emu_hostif_find - the slow path of emu_hostif_peek(). */
const struct emu_seg *emu_hostif_find(struct emu_hostif *hostif, struct emu_hdr *hdr);

/**
 * emu_hostif_peek - raw: return the oldest segment, which is still in the process's memory, or NULL
 * if there is none or no credit. Invalid segments before it are counted and skipped.
 * @hdr: gets its checked header. The payload may change while it is read and must not be
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
 * emu_hostif_take - raw: copy the peeked segment into the fabric. Returns false if no pool buffer
 * is free; the device is then stepped again.
 */
bool emu_hostif_take(struct emu_hostif *hostif, const struct emu_seg *seg, struct emu_entry *entry);

/**
 * emu_hostif_take_run - raw: copy up to @most of the next segments into the fabric, as long as each
 * is a full one of @kind to @dst (a node or group) whose other fields equal those of the last
 * checked header. Spends their credits. @bufs: gets their buffers, which contain the checked
 * headers, too. Returns the number of segments. If it is 0, the next segment may still be taken by
 * emu_hostif_take().
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
 * emu_hostif_pass_run - raw: like emu_hostif_take_run() for unicasts, but copy the segments
 * directly into the down ring of @to, which has space for @most. If it returns 0, the next segment
 * may still be sent singly.
 */
uint32_t emu_hostif_pass_run(struct emu_hostif *hostif, struct emu_hostif *to, uint32_t dst,
                             uint32_t most);

/**
 * emu_hostif_set_incarnation - publish the state of @node's process to this one. @word: see
 * emu_incarnation_state(). Thread: the manager.
 */
void emu_hostif_set_incarnation(struct emu_hostif *hostif, uint32_t node, uint64_t word);

/**
 * emu_hostif_left - number of posted segments that have not entered the fabric. Thread: the
 * manager, after the worker has stopped using the interface.
 */
uint32_t emu_hostif_left(const struct emu_hostif *hostif);

/**
 * emu_hostif_next_ps - timed: when the front segment of the batch is due; EMU_NEVER if the batch is
 * empty.
 */
static inline uint64_t emu_hostif_next_ps(const struct emu_hostif *hostif)
{
    return hostif->batch_at == hostif->batch_end ? EMU_NEVER
                                                 : hostif->batch[hostif->batch_at].time_ps;
}

/**
 * emu_hostif_room - number of free slots of the down ring. If there is none, a segment counts as
 * waiting until a later call finds space. The manager cuts off a process that takes too few
 * segments meanwhile.
 */
uint32_t emu_hostif_room(struct emu_hostif *hostif);

/**
 * emu_hostif_has_room - return whether there is space for @count segments. If not, no segment
 * counts as waiting.
 */
bool emu_hostif_has_room(struct emu_hostif *hostif, uint32_t count);
/** emu_hostif_send - copy a segment to the process and drop its buffer. There must be space. */
void emu_hostif_send(struct emu_hostif *hostif, const struct emu_entry *entry);
/**
 * emu_hostif_put - raw: copy a segment to the process. There must be space. @payload: the caller's,
 * aligned to a cache line; NULL: none.
 */
void emu_hostif_put(struct emu_hostif *hostif, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);
/**
 * emu_hostif_put_run - raw: copy the @count segments in @bufs to the process, in order. There must
 * be space. The caller keeps the buffers.
 */
void emu_hostif_put_run(struct emu_hostif *hostif, const uint32_t *bufs, uint32_t count);
/** emu_hostif_write - raw: write a segment to @mcast_buf, which is not full. Returns its index. */
uint32_t emu_hostif_write(struct emu_mcast_buf *mcast_buf, const struct emu_hdr *hdr,
                          const struct emu_seg *payload);
/**
 * emu_hostif_refer - raw: send the @count segments of the shared multicast buffer from index @on
 * on. All are in one block. The caller has checked that the down ring has space.
 */
void emu_hostif_refer(struct emu_hostif *hostif, uint32_t on, uint32_t count);
/**
 * emu_hostif_reads - return whether the process has unread segments in @block of the shared
 * multicast buffer. This also holds after a cut-off, because the process may not know of it yet and
 * read on.
 */
bool emu_hostif_reads(struct emu_hostif *hostif, uint32_t block);
/**
 * emu_hostif_mark - call at the end of a burst in either direction: the process must be notified. A
 * notification moves two cache lines between cores, so several passes share one:
 * emu_hostif_notify_all().
 */
void emu_hostif_mark(struct emu_hostif *hostif);
/** emu_hostif_done - call at the end of a burst in which the switch took @moved segments. */
void emu_hostif_done(struct emu_hostif *hostif, uint32_t moved);
/**
 * emu_hostif_show_few - if few segments were written since the last notification, publish them.
 * They are probably a whole message. So a worker with a core of its own (emu_worker_is_alone())
 * publishes them as soon as it has written them, before the rest of the pass. The caller then calls
 * emu_hostif_shown(), and emu_hostif_wake() for each interface for which this function returned
 * true. Returns false if nothing was published. Thread: the worker.
 */
bool emu_hostif_show_few(struct emu_hostif *hostif);
/** emu_hostif_wake - after publishing segments, wake the process if it sleeps. */
void emu_hostif_wake(struct emu_hostif *hostif);
/**
 * emu_hostif_notify_all - notify the processes whose interfaces are marked: all of them if @now
 * (the worker is about to wait), else only those with much to notify or that have waited for
 * several passes. Thread: the worker, at the end of each pass.
 */
void emu_hostif_notify_all(struct emu_worker *worker, bool now);

/**
 * emu_hostif_bell - request the bell before the worker sleeps, or cancel the request. Returns
 * whether there is work already.
 */
bool emu_hostif_bell(struct emu_hostif *hostif, bool wanted);

#endif
