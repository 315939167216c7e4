/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - the fabric's end of an edge.
 *
 * Copies in, checks every field, and never follows what the process wrote. The
 * fabric's own indexes are private; the shared ones are only told to the process.
 */
#ifndef EMU_HOSTIF_FABRIC_H
#define EMU_HOSTIF_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/dev/dev.h"
#include "emu/hostif/hostif.h"
#include "emu/hostif/fabric/shelf.h"
#include "emu/packet/profile.h"
#include "emu/buffer/ring.h"

#define EMU_HOSTIF_BATCH 16 /* segments copied in at once */
#define EMU_HOSTIF_FEW   4u /* segments of a message by itself: where more come, more may follow */

/* An adapter's credits, kept for it; on a timed clock with the time at which each came back. */
struct emu_credits {
    uint32_t count;
    uint32_t first; /* the oldest, free-running */
    uint64_t at_ps[EMU_XPOINT_MAX];
};

static_assert((EMU_XPOINT_MAX & (EMU_XPOINT_MAX - 1)) == 0, "credits' numbers may wrap");

/** emu_credits_add - @count credits come back at @at_ps; none before those that came earlier. */
static inline void emu_credits_add(struct emu_credits *credits, uint32_t count, uint64_t at_ps)
{
    for (; count; count--) {
        uint32_t end = credits->first + credits->count++;

        credits->at_ps[end % EMU_XPOINT_MAX] = at_ps;
    }
}

/*
 * How long segments took, and waited for their process. Counters: the worker's; anyone reads. Clock
 * raw has no times, and all of them are 0.
 */
struct emu_hostif_times {
    _Atomic uint64_t ideal_ns;  /* transit as emulated, summed */
    _Atomic uint64_t actual_ns; /* and as it was */
    _Atomic uint64_t full;      /* of waiting for room in its ring: emu_hostif_full_ns() */
};

#define EMU_HOSTIF_ANYWHERE UINT32_MAX /* on a core that is not known */

struct emu_hostif {
    /* Written once, before it is published. */
    struct emu_hostif_shared *shared;
    struct emu_dev *dev; /* the switch it is plugged into, and where */
    uint32_t port;
    uint32_t node;
    uint32_t nodes;
    uint32_t serial; /* of all edges so far: never that of the process before; not 0 */
    int bell;        /* eventfd that the process writes; never read */
    const struct emu_profile *profile;
    /*
     * timed: delay for each byte before the switch may pass a segment on, because this wire is
     * slower than others of the network: emu_tx_late_ps()
     */
    uint64_t late_ps_per_byte;
    struct emu_shelf *shelf; /* of its switch; NULL: none */
    /* of the wire towards the switch: they outlive the process (emu_rx) */
    struct emu_credits *credits;

    /* The worker's: into the fabric. */
    uint32_t up_head;    /* segments copied out */
    uint32_t up_tail;    /* checked copy of the process's tail */
    uint32_t up_shift;   /* of those between */
    uint32_t up_looked;  /* the tail as last looked at: news since then wakes the switch */
    uint64_t up_busy_ps; /* that wire is taken until then */
    /* kind, length, operation and type of a right header: the last that emu_hostif_find() checked,
       or before the first those of a unicast without payload */
    uint32_t shape;
    uint32_t batch_at;  /* of the segments copied in and checked: the front one, */
    uint32_t batch_end; /* and one past the last */
    struct emu_entry batch[EMU_HOSTIF_BATCH];

    /* The worker's: out of the fabric. */
    uint32_t down_tail;   /* segments written */
    uint32_t down_head;   /* checked copy of the process's head */
    uint32_t down_shift;  /* of those between */
    uint32_t down_looked; /* the head as last looked at, while blocked */
    bool blocked;         /* a segment waits for room */
    bool streams;         /* the last notification was of many segments: a stream */
    bool posted;          /* by the process, since it was looked where it is (worker/crowd.h) */
    /* 1 + the core of a process that was told of something and has not posted since then; 0: none
       that may answer at once */
    uint32_t owes;
    /* where the ring ended after the last segment that lies in each part of the shelf */
    uint32_t shelf_last[EMU_SHELF_PARTS];

    /* The worker's: news that the process has not been told yet. */
    uint32_t up_told;          /* the head as last told: only what the switch has taken */
    uint32_t down_told;        /* the tail as last told */
    uint32_t untold_passes;    /* passes since there was any */
    bool shown;                /* the tail; whether the process sleeps is to be looked at */
    struct emu_hostif *untold; /* next in the worker's list; itself at the end, NULL: not in it */

    /* Counters: the worker's; anyone reads. */
    _Atomic uint64_t sent;
    _Atomic uint64_t delivered;
    _Atomic uint64_t bad;  /* malformed or foreign, dropped */
    _Atomic uint64_t dead; /* dropped because the process was cut off */
    struct emu_hostif_times times;
    _Atomic uint32_t stuck; /* 1 while a segment waits for room */

    /* Set by the manager. */
    _Atomic uint32_t cut; /* 1: the process was given up; drop what is for it */

    /* The manager's stall watch. */
    uint64_t watch_delivered; /* segments delivered when the watch began */
    uint64_t watch_ms;        /* counted time since then; stuck at each check */
};

/**
 * emu_hostif_memory - a sealed memory file, mapped: who gets it can neither shrink it under us nor
 * grow it; with @seals F_SEAL_FUTURE_WRITE nor write to it. NULL with errno. @memfd: the caller's.
 */
void *emu_hostif_memory(const char *name, size_t bytes, int seals, int *memfd);

/**
 * emu_hostif_create - memory and bell of an edge. All its indexes begin at init->up_head. The
 * descriptors are in *memfd (the caller's) and edge->bell (the edge's).
 */
int emu_hostif_create(struct emu_hostif **ret, const struct emu_hostif *init, bool timed,
                      bool device_threads, const struct emu_clock *clock, int *memfd);
void emu_hostif_destroy(struct emu_hostif *edge, struct emu_pool_cache *cache);

/**
 * emu_hostif_full_ns - how long segments have waited for room in the ring, by @now_ps; one that
 * still waits, too. Thread: any. While one waits `full` is twice the sum less the time since when,
 * modulo 2^64, and 1 more; else twice the sum. So it is one word, and a reader counts nothing
 * twice. The worker's time is that of its pass, so a value read while a segment waited may exceed
 * the next one by less than a pass.
 */
static inline uint64_t emu_hostif_full_ns(const struct emu_hostif *edge, uint64_t now_ps)
{
    uint64_t full = atomic_load_explicit(&edge->times.full, memory_order_relaxed);
    int64_t twice = (int64_t)(full + (full & 1 ? 2 * (now_ps / 1000u) - 1 : 0));

    return twice > 0 ? (uint64_t)twice / 2 : 0;
}

/** emu_hostif_bufs - pool buffers that it holds. Thread: any, while its worker stands still. */
static inline uint32_t emu_hostif_bufs(const struct emu_hostif *edge)
{
    uint32_t bufs = 0;

    for (uint32_t i = edge->batch_at; i != edge->batch_end; i++)
        bufs += edge->batch[i].buf != EMU_NO_BUF;
    return bufs;
}

/**
 * emu_hostif_rebase - the clock is rebased by @by_ps. Thread: manager, while the worker stands
 * still.
 */
void emu_hostif_rebase(struct emu_hostif *edge, uint64_t by_ps);

/**
 * emu_hostif_look - has the process written, or made room? Signals the device. Thread: worker, once
 * a pass.
 */
void emu_hostif_look(struct emu_hostif *edge);

/**
 * emu_hostif_refill - copy the next segments in, as many as there are credits and buffers for.
 * Malformed ones are counted and skipped. False: there is none. The batch is empty.
 */
bool emu_hostif_refill(struct emu_hostif *edge, uint64_t now_ps);

/** emu_hostif_front - the oldest segment that is due, its payload in a pool buffer, or NULL. */
static inline const struct emu_entry *emu_hostif_front(struct emu_hostif *edge, uint64_t until_ps)
{
    if (edge->batch_at == edge->batch_end && !emu_hostif_refill(edge, until_ps))
        return NULL;
    if (edge->batch[edge->batch_at].time_ps > until_ps)
        return NULL;
    return &edge->batch[edge->batch_at];
}

/** emu_hostif_skip - done with the front segment: its credit is spent. */
static inline void emu_hostif_skip(struct emu_hostif *edge)
{
    edge->batch_at++;
    edge->credits->first++;
    edge->credits->count--;
}

/**
 * emu_hostif_taken - segments taken from the up ring that are in the fabric: not those of the
 * batch.
 */
static inline uint32_t emu_hostif_taken(const struct emu_hostif *edge)
{
    return edge->up_head - (edge->batch_end - edge->batch_at);
}

/* Read once: the process may change it at any time, and only what was checked is used. */
static inline void emu_hostif_read(struct emu_hdr *hdr, uint32_t node, const struct emu_seg *seg)
{
    const uint64_t *words = (const void *)&seg->hdr;
    uint64_t copy[2] = {emu_hdr_from(__atomic_load_n(&words[0], __ATOMIC_RELAXED), node),
                        __atomic_load_n(&words[1], __ATOMIC_RELAXED)};

    memcpy(hdr, copy, sizeof *hdr);
}

/* All of a header that is checked, but where it goes. */
static inline uint32_t emu_hostif_shape(const struct emu_hdr *hdr)
{
    static_assert(offsetof(struct emu_hdr, kind) == 12, "kind, len, op, type");
    uint32_t shape;

    memcpy(&shape, (const char *)hdr + offsetof(struct emu_hdr, kind), sizeof shape);
    return shape;
}

/** emu_hostif_up_slot - where the oldest segment of the up ring lies. */
static inline uint32_t emu_hostif_up_slot(const struct emu_hostif *edge)
{
    return emu_hostif_slot_at(edge->up_head, edge->up_shift);
}

/* Of the segment at @at, which is the oldest, those that follow. */
static inline void emu_hostif_prefetch_up(const struct emu_hostif *edge, uint32_t at)
{
    emu_hostif_prefetch(edge->shared->up, at, at + edge->up_tail - edge->up_head, false);
}

/** emu_hostif_find - emu_hostif_peek(), the long way. */
const struct emu_seg *emu_hostif_find(struct emu_hostif *edge, struct emu_hdr *hdr);

/**
 * emu_hostif_peek - raw: the oldest segment while it is still the process's, or NULL: there is
 * none, or no credit.
 * @hdr: gets its header, checked. The payload that is returned may change under the reader, who may
 * follow nothing of it. Malformed ones before it are counted and skipped.
 * One user a device: this, or emu_hostif_front().
 */
static inline const struct emu_seg *emu_hostif_peek(struct emu_hostif *edge, struct emu_hdr *hdr)
{
    uint32_t at = emu_hostif_up_slot(edge);
    const struct emu_seg *seg = &edge->shared->up[at].seg;

    if (!edge->credits->count || edge->up_head == edge->up_tail)
        return emu_hostif_find(edge, hdr);
    emu_hostif_read(hdr, edge->node, seg);
    if (emu_hostif_shape(hdr) != edge->shape ||
        ((hdr->kind & ~EMU_NOTIFY) == EMU_UNICAST && hdr->dst >= edge->nodes))
        return emu_hostif_find(edge, hdr);
    emu_hostif_prefetch_up(edge, at);
    return seg;
}

/**
 * emu_hostif_take - raw: copy the peeked segment in. False: there is no buffer now; the device is
 * told again.
 */
bool emu_hostif_take(struct emu_hostif *edge, const struct emu_seg *seg, struct emu_entry *entry);

/**
 * emu_hostif_take_run - raw: of the segments that come next, up to @most are copied in, while they
 * are full ones of @kind to @dst, a node or a group, and else as the last one that was checked:
 * with their headers, checked. Their credits are spent. @bufs: gets their buffers. Returns how
 * many; 0: perhaps the next one can be taken by itself.
 */
uint32_t emu_hostif_take_run(struct emu_hostif *edge, uint8_t kind, uint32_t dst, uint32_t *bufs,
                             uint32_t most);

/** emu_hostif_pass - raw: done with the peeked segment: its credit is spent. */
static inline void emu_hostif_pass(struct emu_hostif *edge)
{
    edge->up_head++;
    edge->credits->first++;
    edge->credits->count--;
}

/**
 * emu_hostif_pass_run - raw: the same as emu_hostif_take_run(), of unicasts, but into the ring of
 * the process at @to, which has room for @most. 0: perhaps the next one can go by itself.
 */
uint32_t emu_hostif_pass_run(struct emu_hostif *edge, struct emu_hostif *to, uint32_t dst,
                             uint32_t most);

/**
 * emu_hostif_seat - tell the process who is at @node: emu_seat_state(). Thread: the manager.
 */
void emu_hostif_seat(struct emu_hostif *edge, uint32_t node, uint64_t word);

/**
 * emu_hostif_left - segments that the process has posted and that are not in the fabric. Thread:
 * the manager, once no worker knows the edge.
 */
uint32_t emu_hostif_left(const struct emu_hostif *edge);

/** emu_hostif_next_ps - timed: when the front segment is due; EMU_NEVER if none is known. */
static inline uint64_t emu_hostif_next_ps(const struct emu_hostif *edge)
{
    return edge->batch_at == edge->batch_end ? EMU_NEVER : edge->batch[edge->batch_at].time_ps;
}

/**
 * emu_hostif_room - free slots of the down ring. None: something waits for the process from now on,
 * until there is one when it is asked again; who takes too little then is cut off.
 */
uint32_t emu_hostif_room(struct emu_hostif *edge);

/** emu_hostif_has_room - as many as @count? If not, nothing waits for the process by that. */
bool emu_hostif_has_room(struct emu_hostif *edge, uint32_t count);
/** emu_hostif_send - copy a segment to the process and drop its buffer. The caller saw room. */
void emu_hostif_send(struct emu_hostif *edge, const struct emu_entry *entry);
/** emu_hostif_put - raw: the same, of a payload of the caller's at a line; NULL: there is none. */
void emu_hostif_put(struct emu_hostif *edge, const struct emu_hdr *hdr,
                    const struct emu_seg *payload);
/**
 * emu_hostif_put_run - raw: the same of @count in a row, which lie in @bufs as they are to be sent.
 */
void emu_hostif_put_run(struct emu_hostif *edge, const uint32_t *bufs, uint32_t count);
/**
 * emu_hostif_write - raw: put the same on @shelf, which is not full. Returns where. Thread: worker.
 */
uint32_t emu_hostif_write(struct emu_shelf *shelf, const struct emu_hdr *hdr,
                          const struct emu_seg *payload);
/**
 * emu_hostif_refer - raw: send the @count segments that are at @on on the shelf and behind it, all
 * in one part. The caller saw room.
 */
void emu_hostif_refer(struct emu_hostif *edge, uint32_t on, uint32_t count);
/**
 * emu_hostif_reads - has the process something left to read in @part of its shelf? One that was cut
 * off may read on: it has not heard of it yet.
 */
bool emu_hostif_reads(struct emu_hostif *edge, uint32_t part);
/**
 * emu_hostif_mark - end of a burst, either way: the process is to be told.
 * Telling costs two lines' way to another core and back, so bursts of passes in a row are told
 * together: see emu_hostif_tell_all().
 */
void emu_hostif_mark(struct emu_hostif *edge);
/** emu_hostif_done - end of a burst in which the switch took @moved segments. */
void emu_hostif_done(struct emu_hostif *edge, uint32_t moved);
/**
 * emu_hostif_show_few - the process sees what was written for it, if that is few segments since it
 * was told last. False: it is not. What is shown is all of a message, so where the worker has a
 * core of its own (emu_worker_is_alone()) it is shown where it is written: neither the rest of a
 * pass nor a reply that goes back is waited for. emu_hostif_shown() is to follow, and then, for
 * each that was shown, emu_hostif_wake(). Thread: the worker.
 */
bool emu_hostif_show_few(struct emu_hostif *edge);
/** emu_hostif_wake - if it was shown something: does its process sleep? */
void emu_hostif_wake(struct emu_hostif *edge);
/**
 * emu_hostif_tell_all - tell the processes whose edges were marked: all of them (@now: the worker
 * is about to wait), or those for which that is urgent. Thread: the worker, at the end of each
 * pass.
 */
void emu_hostif_tell_all(struct emu_worker *worker, bool now);

/**
 * emu_hostif_bell - before the worker sleeps: ask for the bell (true), or not. Returns true if
 * there is something to do already.
 */
bool emu_hostif_bell(struct emu_hostif *edge, bool wanted);

#endif
