/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - the fabric's end of a host interface: move segments in and out. If a process is *cut
 * off*, because it does not take its segments, the segments for it are dropped. hostif/nic.c
 * explains the labels of orderings: X1 to X6 at this end, Y1 to Y8 at the process's end. "X1: Y2"
 * means that X1 pairs with Y2.
 */
#include "emu/hostif/fabric/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/packet/sane.h"
#include "emu/util/count.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HOSTIF_PAST_PS  1000000000000u /* a post dated more than 1 s ago counts as posted now */
#define HOSTIF_SCAN_MAX 64u            /* segments read per step of the device, valid or not */

#define HOSTIF_SHAPE_KIND_LEN 0xffffu /* mask of the kind and length in emu_hostif_shape() */

/* Times in this memory are never rebased (clock.h), so undo the rebases in the clock's origin. */
static void hostif_shared_init(struct emu_hostif_shared *shared, const struct emu_hostif *hostif,
                               bool device_threads, const struct emu_clock *clock)
{
    shared->magic = EMU_HOSTIF_MAGIC;
    shared->version = EMU_HOSTIF_VERSION;
    shared->slots = EMU_HOSTIF_SLOTS;
    shared->node = hostif->node;
    shared->nodes = hostif->nodes;
    shared->timed = clock->mode != EMU_CLOCK_RAW;
    shared->simulated = hostif->simulated;
    atomic_init(&shared->sim.now_ps, hostif->sim_now_ps);
    atomic_init(&shared->sim.reached_ps, hostif->sim_now_ps);
    shared->sim.compute = hostif->compute;
    shared->sim.call_ps = hostif->profile->call_ps;
    shared->device_threads = device_threads;
    shared->origin_ns = clock->origin_ns - clock->rebased_ps / 1000u;
    shared->nic_send_ps = hostif->profile->nic_send_ps;
    shared->mcast_buf_slots = hostif->mcast_buf ? EMU_MCAST_BUF_SLOTS : 0;
    atomic_init(&shared->up_head, hostif->up_head);
    atomic_init(&shared->up_tail, hostif->up_head);
    atomic_init(&shared->down_head, hostif->up_head);
    atomic_init(&shared->down_tail, hostif->up_head);
}

int emu_hostif_create(struct emu_hostif **ret, const struct emu_hostif *init, bool device_threads,
                      const struct emu_clock *clock, int *memfd)
{
    struct emu_hostif *hostif = malloc(sizeof *hostif);
    int err;

    if (!hostif)
        return -ENOMEM;
    *hostif = *init;
    hostif->simulated = clock->mode == EMU_CLOCK_VIRTUAL;
    for (uint32_t block = 0; block < EMU_MCAST_BLOCKS; block++)
        hostif->mcast_buf_last[block] = hostif->up_head;
    hostif->up_tail = hostif->up_polled = hostif->up_published = hostif->up_head;
    hostif->down_tail = hostif->down_head = hostif->down_polled = hostif->down_published =
        hostif->up_head;
    hostif->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hostif->bell < 0) {
        err = -errno;
        goto free_hostif;
    }
    hostif->shared = emu_hostif_memory("fabemu-hostif", emu_hostif_bytes(hostif->nodes), 0, memfd);
    if (!hostif->shared) {
        err = -errno;
        goto close_bell;
    }
    hostif_shared_init(hostif->shared, hostif, device_threads, clock);
    if (hostif->mcast_buf)
        emu_mcast_buf_hold(hostif->mcast_buf);
    *ret = hostif;
    return 0;

close_bell:
    close(hostif->bell);
free_hostif:
    free(hostif);
    return err;
}

void emu_hostif_destroy(struct emu_hostif *hostif, struct emu_pool_cache *cache)
{
    if (!hostif)
        return;
    for (; hostif->batch_at != hostif->batch_end; hostif->batch_at++)
        emu_pool_drop(cache, hostif->batch[hostif->batch_at].buf);
    munmap(hostif->shared, emu_hostif_bytes(hostif->nodes));
    close(hostif->bell);
    emu_mcast_buf_drop(hostif->mcast_buf);
    free(hostif);
}

void emu_hostif_rebase(struct emu_hostif *hostif, uint64_t by_ps)
{
    hostif->up_busy_ps = emu_rebased_ps(hostif->up_busy_ps, by_ps);
    if (hostif->blocked && hostif->dev->timed)
        emu_count(&hostif->times.full, 2 * (by_ps / 1000u));
    for (uint32_t i = 0; i < EMU_HOSTIF_BATCH; i++)
        hostif->batch[i].time_ps = emu_rebased_ps(hostif->batch[i].time_ps, by_ps);
}

void emu_hostif_set_incarnation(struct emu_hostif *hostif, uint32_t node, uint64_t word)
{
    /* X5 pairs with Y7 */
    atomic_store_explicit(&hostif->shared->incarnations[node], word, memory_order_release);
    if (!emu_incarnation_attached(word))
        atomic_fetch_add_explicit(&hostif->shared->endings, 1, memory_order_release); /* X6: Y8 */
}

uint32_t emu_hostif_left(const struct emu_hostif *hostif)
{
    /* X1 pairs with Y2 */
    uint32_t tail = atomic_load_explicit(&hostif->shared->up_tail, memory_order_acquire);
    uint32_t left = tail - emu_hostif_taken(hostif);

    return left <= EMU_HOSTIF_SLOTS ? left : 0;
}

#if defined(__x86_64__)
/*
 * Copy a whole segment, one cache line per instruction. A core can wait for only a few cache misses
 * at a time, and an instruction for a whole line causes only one.
 */
__attribute__((target("avx512f"))) static void hostif_copy_lines(void *to, const void *from)
{
    __m512i line[EMU_SEG_BYTES / EMU_LINE];

    for (unsigned i = 0; i < EMU_SEG_BYTES / EMU_LINE; i++)
        line[i] = _mm512_load_si512((const char *)from + (size_t)i * EMU_LINE);
    for (unsigned i = 0; i < EMU_SEG_BYTES / EMU_LINE; i++)
        _mm512_store_si512((char *)to + (size_t)i * EMU_LINE, line[i]);
}
#endif

static inline void hostif_seg_copy(struct emu_seg *to, const struct emu_seg *from, uint32_t len)
{
#if defined(__x86_64__)
    if (len > 2 * EMU_LINE - EMU_HDR_BYTES && __builtin_cpu_supports("avx512f")) {
        hostif_copy_lines(to, from);
        return;
    }
#endif
    emu_seg_copy(to, from, len);
}

/* --- into the fabric ---------------------------------------------------------------- */

void emu_hostif_poll(struct emu_hostif *hostif)
{
    struct emu_hostif_shared *shared = hostif->shared;
    uint32_t tail = atomic_load_explicit(&shared->up_tail, memory_order_acquire); /* X1: Y2 */

    if (tail != hostif->up_polled) {
        hostif->owes = tail - hostif->up_polled > EMU_HOSTIF_FEW ? EMU_HOSTIF_ANYWHERE : 0;
        hostif->up_polled = tail;
        hostif->posted = true;
        emu_dev_signal(hostif->dev, hostif->dev->worker, EMU_EVENT_DATA,
                       emu_port_signal(hostif->port));
    } else { /* prefetch the next slot, so that its line arrives together with the next tail */
        __builtin_prefetch(&shared->up[emu_hostif_up_slot(hostif)], 0);
    }
    if (hostif->blocked) {
        uint32_t head = atomic_load_explicit(&shared->down_head, memory_order_acquire); /* X3: Y4 */

        if (head != hostif->down_polled ||
            atomic_load_explicit(&hostif->cut, memory_order_relaxed)) {
            hostif->down_polled = head;
            emu_dev_signal(hostif->dev, hostif->dev->worker, EMU_EVENT_CREDIT,
                           emu_port_signal(hostif->port));
        }
    }
}

/* Return whether the up ring has another segment. Count and ignore an impossible tail. */
static bool hostif_has_segment(struct emu_hostif *hostif)
{
    uint32_t tail;

    if (hostif->up_head != hostif->up_tail)
        return true;
    tail = atomic_load_explicit(&hostif->shared->up_tail, memory_order_acquire); /* X1: Y2 */
    if (tail - hostif->up_head > EMU_HOSTIF_SLOTS) {
        emu_count(&hostif->bad, 1);
        return false;
    }
    hostif->up_tail = tail;
    hostif->up_shift =
        atomic_load_explicit(&hostif->shared->up_shift, memory_order_relaxed); /* after X1 */
    return hostif->up_head != tail;
}

/*
 * Convert @due_ps, the time at which the process says that the segment reaches the wire, to this
 * worker's clock. Limit the result to times near @now_ps, at which the worker last read the clock.
 * If the post seems to be in the future, read the clock again, because this thread may have waited
 * for a core.
 */
static uint64_t hostif_due(const struct emu_hostif *hostif, uint64_t due_ps, uint64_t now_ps)
{
    const struct emu_clock *clock = &hostif->dev->worker->clock;
    int64_t most_ps = (int64_t)hostif->profile->nic_send_ps;
    uint64_t least_ps = now_ps < HOSTIF_PAST_PS ? now_ps : HOSTIF_PAST_PS;
    int64_t ahead_ps;

    due_ps -= clock->rebased_ps;
    ahead_ps = (int64_t)(due_ps - now_ps);
    if (ahead_ps > most_ps) {
        now_ps = emu_clock_now(clock);
        ahead_ps = (int64_t)(due_ps - now_ps);
    }
    if (ahead_ps > most_ps)
        return now_ps + (uint64_t)most_ps;
    return ahead_ps < -(int64_t)least_ps ? now_ps : now_ps + (uint64_t)ahead_ps;
}

/* Clock virtual: limit a departure to times that are still to be simulated. */
static uint64_t hostif_not_past(const struct emu_hostif *hostif, uint64_t depart_ps)
{
    if (depart_ps < hostif->sim_least_ps)
        depart_ps = hostif->sim_least_ps;
    return depart_ps < EMU_LAST_PS ? depart_ps : EMU_LAST_PS;
}

/* Return when a segment leaves: after @due_ps, when the wire is free and a credit has arrived. */
static uint64_t hostif_depart(struct emu_hostif *hostif, const struct emu_hdr *hdr, uint64_t due_ps,
                              uint64_t now_ps, uint32_t *born_ns)
{
    const struct emu_profile *profile = hostif->profile;
    uint64_t depart_ps = hostif->simulated ? due_ps : hostif_due(hostif, due_ps, now_ps);
    uint64_t credit_ps;

    *born_ns = (uint32_t)(depart_ps / 1000u);
    if (depart_ps < hostif->up_busy_ps)
        depart_ps = hostif->up_busy_ps;
    credit_ps =
        hostif->credits->at_ps[(hostif->credits->first + hostif->batch_end) % EMU_XPOINT_MAX];
    if (depart_ps < credit_ps)
        depart_ps = credit_ps;
    if (hostif->simulated)
        depart_ps = hostif_not_past(hostif, depart_ps);
    hostif->up_busy_ps = depart_ps + emu_wire_ps(profile, hdr);
    return depart_ps;
}

/* Returns false if no buffer is free. */
static bool hostif_copy_in(struct emu_worker *worker, const struct emu_seg *seg, uint32_t len,
                           uint32_t *buf)
{
    *buf = EMU_NO_BUF;
    if (!len)
        return true;
    *buf = emu_pool_take(&worker->cache);
    if (*buf == EMU_NO_BUF)
        return false;
    hostif_seg_copy(emu_pool_seg(worker->cache.pool, *buf), seg, len);
    return true;
}

/* Make the worker step the device again, in the next iteration of its loop. */
static void hostif_again(struct emu_hostif *hostif)
{
    emu_dev_signal(hostif->dev, hostif->dev->worker, EMU_EVENT_DATA, emu_port_signal(hostif->port));
}

/* Copy one segment into the batch. Returns false if no buffer is free. */
static bool hostif_take(struct emu_hostif *hostif, uint64_t now_ps)
{
    uint32_t at = emu_hostif_up_slot(hostif);
    const struct emu_seg *seg = &hostif->shared->up[at].seg;
    struct emu_entry *entry = &hostif->batch[hostif->batch_end];

    emu_hostif_read(&entry->hdr, hostif->node, seg);
    emu_hostif_prefetch_up(hostif, at);
    if (!emu_hdr_is_sane(&entry->hdr, hostif->profile, hostif->nodes)) {
        emu_count(&hostif->bad, 1);
        hostif->up_head++;
        return true;
    }
    if (!hostif_copy_in(hostif->dev->worker, seg, entry->hdr.len, &entry->buf))
        return false;
    entry->time_ps = 0;
    entry->born_ns = 0;
    if (hostif->dev->timed)
        entry->time_ps =
            hostif_depart(hostif, &entry->hdr,
                          __atomic_load_n(&hostif->shared->up_ps[at], __ATOMIC_RELAXED), now_ps,
                          &entry->born_ns) +
            emu_hostif_cable_ps(hostif) +
            hostif->late_ps_per_byte * (EMU_HDR_BYTES + entry->hdr.len);
    hostif->batch_end++;
    hostif->up_head++;
    return true;
}

/* HOSTIF_SCAN_MAX counts invalid segments, too, so that a process cannot keep this worker busy. */
bool emu_hostif_refill(struct emu_hostif *hostif, uint64_t now_ps)
{
    uint32_t credits = hostif->credits->count;
    uint32_t room = credits < EMU_HOSTIF_BATCH ? credits : EMU_HOSTIF_BATCH;
    uint32_t looked = 0;

    hostif->batch_at = hostif->batch_end = 0;
    while (hostif->batch_end < room && hostif_has_segment(hostif)) {
        if (looked++ < HOSTIF_SCAN_MAX && hostif_take(hostif, now_ps))
            continue;
        hostif_again(hostif);
        break;
    }
    if (looked)
        emu_hostif_mark(hostif);
    return hostif->batch_end != 0;
}

const struct emu_seg *emu_hostif_find(struct emu_hostif *hostif, struct emu_hdr *hdr)
{
    for (uint32_t looked = 0; hostif->credits->count && hostif_has_segment(hostif); looked++) {
        uint32_t at = emu_hostif_up_slot(hostif);
        const struct emu_seg *seg = &hostif->shared->up[at].seg;

        if (looked == HOSTIF_SCAN_MAX) {
            hostif_again(hostif);
            break;
        }
        emu_hostif_read(hdr, hostif->node, seg);
        emu_hostif_prefetch_up(hostif, at);
        if (emu_hdr_is_sane(hdr, hostif->profile, hostif->nodes)) {
            hostif->shape = emu_hostif_shape(hdr);
            return seg;
        }
        emu_count(&hostif->bad, 1);
        hostif->up_head++;
        emu_hostif_mark(hostif);
    }
    return NULL;
}

bool emu_hostif_take(struct emu_hostif *hostif, const struct emu_seg *seg, struct emu_entry *entry)
{
    entry->time_ps = 0;
    entry->born_ns = 0;
    if (hostif_copy_in(hostif->dev->worker, seg, entry->hdr.len, &entry->buf))
        return true;
    hostif_again(hostif);
    return false;
}

/*
 * Read the two header words of the front segment once, into @words. Return whether the first word
 * is @first and the second has the fields @shape, with any sequence number.
 */
static inline bool hostif_front_is(const struct emu_hostif *hostif, uint64_t first, uint32_t shape,
                                   struct emu_hdr_words *words)
{
    const uint64_t *from = (const void *)&hostif->shared->up[emu_hostif_up_slot(hostif)].seg.hdr;

    words->ends = emu_hdr_from(__atomic_load_n(&from[0], __ATOMIC_RELAXED), hostif->node);
    words->fields = __atomic_load_n(&from[1], __ATOMIC_RELAXED);
    return words->ends == first && words->fields >> 32 == shape;
}

/*
 * Return whether the last checked segment was a full one of @kind. If so, all segments to @dst with
 * the same kind, length, operation and type are valid.
 */
static inline bool hostif_continues_run(const struct emu_hostif *hostif, uint8_t kind, uint32_t dst)
{
    const struct emu_hdr full = {.kind = kind, .len = EMU_PAYLOAD_BYTES};

    return (hostif->shape & HOSTIF_SHAPE_KIND_LEN) == emu_hostif_shape(&full) &&
           (kind != EMU_UNICAST || dst < hostif->nodes);
}

static inline void hostif_spend(struct emu_hostif *hostif, uint32_t run)
{
    hostif->credits->first += run;
    hostif->credits->count -= run;
}

/* Return how many segments are in the up ring and have credits, up to @most. */
static uint32_t hostif_ready(struct emu_hostif *hostif, uint32_t most)
{
    uint32_t ready = hostif_has_segment(hostif) ? hostif->up_tail - hostif->up_head : 0;

    ready = ready < hostif->credits->count ? ready : hostif->credits->count;
    return ready < most ? ready : most;
}

uint32_t emu_hostif_take_run(struct emu_hostif *hostif, uint8_t kind, uint32_t dst, uint32_t *bufs,
                             uint32_t most)
{
    struct emu_pool_cache *cache = &hostif->dev->worker->cache;
    uint64_t first = emu_hdr_from(dst, hostif->node);
    uint32_t ready = hostif_ready(hostif, most), run = 0;
    struct emu_hdr_words words;

    if (!hostif_continues_run(hostif, kind, dst))
        return 0;
    for (; run < ready && hostif_front_is(hostif, first, hostif->shape, &words); run++) {
        uint32_t at = emu_hostif_up_slot(hostif), buf = emu_pool_take(cache);
        const struct emu_seg *seg = &hostif->shared->up[at].seg;

        if (buf == EMU_NO_BUF) {
            hostif_again(hostif);
            break;
        }
        emu_hostif_prefetch_up(hostif, at);
        hostif_seg_copy(emu_pool_seg(cache->pool, buf), seg, EMU_PAYLOAD_BYTES);
        emu_hdr_store(&emu_pool_seg(cache->pool, buf)->hdr, words);
        bufs[run] = buf;
        hostif->up_head++;
    }
    hostif_spend(hostif, run);
    return run;
}

/* --- out of the fabric -------------------------------------------------------------- */

/*
 * Record whether the down ring is full and blocks the network. @at_ps: the time of the change, if
 * this is one. emu_hostif_full_ns() explains times.full.
 */
static void hostif_set_blocked(struct emu_hostif *hostif, bool blocked, uint64_t at_ps)
{
    uint64_t twice = 2 * (at_ps / 1000u);

    atomic_store_explicit(&hostif->stuck, blocked, memory_order_relaxed);
    if (hostif->blocked == blocked)
        return;
    if (hostif->dev->timed)
        emu_count(&hostif->times.full, blocked ? 1 - twice : twice - 1);
    hostif->blocked = blocked;
}

/* Refresh down_head. Returns false if the process wrote an impossible value, which is ignored. */
static bool hostif_poll_down(struct emu_hostif *hostif)
{
    uint32_t head =
        atomic_load_explicit(&hostif->shared->down_head, memory_order_acquire); /* X3: Y4 */

    if (head - hostif->down_head > hostif->down_tail - hostif->down_head)
        return false;
    hostif->down_head = head;
    return true;
}

/* Return how many slots of the down ring are used. Poll down_head only if it looks full. */
static uint32_t hostif_used(struct emu_hostif *hostif)
{
    if (hostif->down_tail - hostif->down_head == EMU_HOSTIF_SLOTS && !hostif_poll_down(hostif))
        emu_count(&hostif->bad, 1); /* the ring stays full */
    return hostif->down_tail - hostif->down_head;
}

uint32_t emu_hostif_room(struct emu_hostif *hostif)
{
    uint64_t now_ps = hostif->dev->worker->now_ps;
    uint32_t used;

    if (atomic_load_explicit(&hostif->cut, memory_order_relaxed)) {
        hostif_set_blocked(hostif, false, now_ps);
        return UINT32_MAX; /* emu_hostif_send() drops the segments */
    }
    used = hostif_used(hostif);
    hostif_set_blocked(hostif, used == EMU_HOSTIF_SLOTS, now_ps);
    return EMU_HOSTIF_SLOTS - used;
}

/*
 * Clock virtual: return when the next slot of the down ring can be filled again. The process must
 * have read the segment in this slot.
 */
static uint64_t hostif_free_ps(const struct emu_hostif *hostif)
{
    uint32_t at = emu_hostif_slot_at(hostif->down_tail, hostif->down_shift);
    uint64_t read_ps = __atomic_load_n(&hostif->shared->down_ps[at], __ATOMIC_RELAXED);

    if (!read_ps)
        return 0; /* the slot has not been used yet */
    return read_ps < EMU_LAST_PS ? read_ps + emu_hostif_lookahead_ps(hostif) : EMU_NEVER;
}

uint64_t emu_hostif_room_ps(struct emu_hostif *hostif, uint64_t ready_ps)
{
    uint64_t free_ps;

    if (!hostif->simulated)
        return emu_hostif_room(hostif) ? ready_ps : EMU_NEVER;
    if (atomic_load_explicit(&hostif->cut, memory_order_relaxed))
        free_ps = 0;
    else
        free_ps = hostif_used(hostif) == EMU_HOSTIF_SLOTS ? EMU_NEVER : hostif_free_ps(hostif);
    hostif_set_blocked(hostif, free_ps > ready_ps, ready_ps);
    return free_ps > ready_ps ? free_ps : ready_ps;
}

bool emu_hostif_has_room(struct emu_hostif *hostif, uint32_t count)
{
    if (!atomic_load_explicit(&hostif->cut, memory_order_relaxed) &&
        EMU_HOSTIF_SLOTS - hostif_used(hostif) < count)
        return false;
    return emu_hostif_room(hostif) >= count;
}

/*
 * Return whether the process has read everything, so that slot 0 may be written next. On clock
 * virtual, the last read must be so long ago that all slots may be filled again.
 */
static bool hostif_may_wrap(struct emu_hostif *hostif)
{
    uint32_t last = emu_hostif_slot_at(hostif->down_tail - 1, hostif->down_shift);

    return hostif_poll_down(hostif) && hostif->down_head == hostif->down_tail &&
           (!hostif->simulated ||
            __atomic_load_n(&hostif->shared->down_ps[last], __ATOMIC_RELAXED) +
                    emu_hostif_lookahead_ps(hostif) <=
                hostif->sim_least_ps);
}

/* Return the slot to write next. If the process has read everything, this may be the first slot. */
static inline uint32_t hostif_down_slot(struct emu_hostif *hostif)
{
    uint32_t at = emu_hostif_slot_at(hostif->down_tail, hostif->down_shift);

    if (!emu_hostif_may_wrap(at, hostif->down_tail - hostif->down_published) ||
        !hostif_may_wrap(hostif))
        return at;
    hostif->down_shift -= at;
    atomic_store_explicit(&hostif->shared->down_shift, hostif->down_shift,
                          memory_order_relaxed); /* before X4 */
    return 0;
}

static void hostif_lag(struct emu_hostif *hostif, const struct emu_entry *entry)
{
    uint64_t due_ns = entry->time_ps / 1000u, now_ns = hostif->dev->worker->now_ps / 1000u;
    uint32_t ideal_ns = (uint32_t)due_ns - entry->born_ns;
    uint64_t late_ns = now_ns > due_ns ? now_ns - due_ns : 0;

    emu_count(&hostif->times.ideal_ns, ideal_ns);
    emu_count(&hostif->times.actual_ns, ideal_ns + late_ns);
}

/* Returns false, and counts the @count segments as dropped, if the process was cut off. */
static bool hostif_accepts(struct emu_hostif *hostif, uint32_t count)
{
    if (!atomic_load_explicit(&hostif->cut, memory_order_relaxed))
        return true;
    emu_count(&hostif->dead, count);
    return false;
}

/* @at: the result of hostif_down_slot(), which must be called only once per segment. */
static inline void hostif_put(struct emu_hostif *hostif, uint32_t at, const struct emu_hdr *hdr,
                              const struct emu_seg *payload)
{
    struct emu_seg *seg = &hostif->shared->down[at].seg;
    uint32_t *on = &hostif->shared->down_mcast_ref[at];

    emu_hostif_prefetch_mcast_ref(hostif->shared, at);
    emu_hostif_prefetch(hostif->shared->down, at,
                        at + hostif->down_head - hostif->down_tail + EMU_HOSTIF_SLOTS, true);
    if (payload)
        hostif_seg_copy(seg, payload, hdr->len);
    seg->hdr = *hdr;
    if (*on)
        *on = 0;
    hostif->down_tail++;
}

void emu_hostif_put(struct emu_hostif *hostif, const struct emu_hdr *hdr,
                    const struct emu_seg *payload)
{
    if (!hostif_accepts(hostif, 1))
        return;
    hostif_put(hostif, hostif_down_slot(hostif), hdr, payload);
    emu_count(&hostif->delivered, 1);
}

void emu_hostif_put_run(struct emu_hostif *hostif, const uint32_t *bufs, uint32_t count)
{
    struct emu_pool *pool = hostif->dev->worker->cache.pool;

    if (!hostif_accepts(hostif, count))
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct emu_seg *seg = emu_pool_seg(pool, bufs[i]);

        hostif_put(hostif, hostif_down_slot(hostif), &seg->hdr, seg);
    }
    emu_count(&hostif->delivered, count);
}

uint32_t emu_hostif_pass_run(struct emu_hostif *hostif, struct emu_hostif *to, uint32_t dst,
                             uint32_t most)
{
    uint64_t first = emu_hdr_from(dst, hostif->node);
    uint32_t ready = hostif_ready(hostif, most), run = 0;
    struct emu_hdr_words words;

    if (!hostif_continues_run(hostif, EMU_UNICAST, dst) ||
        atomic_load_explicit(&to->cut, memory_order_relaxed))
        return 0;
    for (; run < ready && hostif_front_is(hostif, first, hostif->shape, &words); run++) {
        uint32_t at = emu_hostif_up_slot(hostif);
        struct emu_hdr hdr;

        emu_hdr_store(&hdr, words);
        emu_hostif_prefetch_up(hostif, at);
        hostif_put(to, hostif_down_slot(to), &hdr, &hostif->shared->up[at].seg);
        hostif->up_head++;
    }
    hostif_spend(hostif, run);
    emu_count(&to->delivered, run);
    return run;
}

void emu_hostif_send(struct emu_hostif *hostif, const struct emu_entry *entry)
{
    struct emu_pool_cache *cache = &hostif->dev->worker->cache;

    if (hostif_accepts(hostif, 1)) {
        uint32_t at = hostif_down_slot(hostif);

        if (hostif->dev->timed) {
            hostif->shared->down_ps[at] = entry->time_ps + hostif->dev->worker->clock.rebased_ps;
            hostif_lag(hostif, entry);
        }
        hostif_put(hostif, at, &entry->hdr, emu_pool_payload(cache->pool, entry->buf));
        emu_count(&hostif->delivered, 1);
    }
    emu_pool_drop(cache, entry->buf);
}

uint32_t emu_hostif_write(struct emu_mcast_buf *mcast_buf, const struct emu_hdr *hdr,
                          const struct emu_seg *payload)
{
    uint32_t on = mcast_buf->next++;
    struct emu_seg *seg = &mcast_buf->shared->slot[on % EMU_MCAST_BUF_SLOTS].seg;

    if (mcast_buf->end - on > EMU_HOSTIF_AHEAD)
        emu_seg_prefetch(
            &mcast_buf->shared->slot[(on + EMU_HOSTIF_AHEAD) % EMU_MCAST_BUF_SLOTS].seg, true);
    hostif_seg_copy(seg, payload, hdr->len);
    seg->hdr = *hdr;
    return on;
}

void emu_hostif_refer(struct emu_hostif *hostif, uint32_t on, uint32_t count)
{
    if (!hostif_accepts(hostif, count))
        return;
    for (uint32_t i = 0; i < count; i++, hostif->down_tail++) {
        uint32_t at = hostif_down_slot(hostif);

        emu_hostif_prefetch_mcast_ref(hostif->shared, at);
        hostif->shared->down_mcast_ref[at] = emu_mcast_ref(on + i);
    }
    emu_count(&hostif->delivered, count);
    hostif->mcast_buf_last[emu_mcast_buf_block(on)] = hostif->down_tail;
}

/*
 * A block has an unread segment if the process's head has not passed the last reference to it, that
 * is, if mcast_buf_last[] is 1 to EMU_HOSTIF_SLOTS ahead of the head.
 */
static bool hostif_has_unread(const struct emu_hostif *hostif, uint32_t block)
{
    return hostif->mcast_buf_last[block] - hostif->down_head - 1 < EMU_HOSTIF_SLOTS;
}

bool emu_hostif_reads(struct emu_hostif *hostif, uint32_t block)
{
    return hostif_has_unread(hostif, block) &&
           (!hostif_poll_down(hostif) || hostif_has_unread(hostif, block));
}
