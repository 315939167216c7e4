/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - the fabric's end of a host interface: move segments in and out.
 *
 * Labels: X1..X6 are this end's, X2 and X4 in tell.c; Y1..Y8 the adapter's (hostif/nic.c).
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

#define EDGE_PAST_PS 1000000000000u /* a post dated more than 1 s back counts as posted now */
#define EDGE_LOOKS   64u            /* segments read per pass, well-formed or not */

#define EDGE_SHAPE_KIND_LEN 0xffffu /* of emu_hostif_shape(): kind and length */

/* The process's clock is never rebased, so it gets the original time 0. */
static void edge_shared_init(struct emu_hostif_shared *shared, const struct emu_hostif *edge,
                             bool timed, bool device_threads, const struct emu_clock *clock)
{
    shared->magic = EMU_HOSTIF_MAGIC;
    shared->version = EMU_HOSTIF_VERSION;
    shared->slots = EMU_HOSTIF_SLOTS;
    shared->node = edge->node;
    shared->nodes = edge->nodes;
    shared->timed = timed;
    shared->device_threads = device_threads;
    shared->origin_ns = clock->origin_ns - clock->rebased_ps / 1000u;
    shared->nic_send_ps = edge->profile->nic_send_ps;
    shared->shelf_slots = edge->shelf ? EMU_SHELF_SLOTS : 0;
    atomic_init(&shared->up_head, edge->up_head);
    atomic_init(&shared->up_tail, edge->up_head);
    atomic_init(&shared->down_head, edge->up_head);
    atomic_init(&shared->down_tail, edge->up_head);
}

int emu_hostif_create(struct emu_hostif **ret, const struct emu_hostif *init, bool timed,
                      bool device_threads, const struct emu_clock *clock, int *memfd)
{
    struct emu_hostif *edge = malloc(sizeof *edge);
    int err;

    if (!edge)
        return -ENOMEM;
    *edge = *init;
    for (uint32_t part = 0; part < EMU_SHELF_PARTS; part++)
        edge->shelf_last[part] = edge->up_head;
    edge->up_tail = edge->up_looked = edge->up_told = edge->up_head;
    edge->down_tail = edge->down_head = edge->down_looked = edge->down_told = edge->up_head;
    edge->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (edge->bell < 0) {
        err = -errno;
        goto free_edge;
    }
    edge->shared = emu_hostif_memory("fabemu-edge", emu_hostif_bytes(edge->nodes), 0, memfd);
    if (!edge->shared) {
        err = -errno;
        goto close_bell;
    }
    edge_shared_init(edge->shared, edge, timed, device_threads, clock);
    if (edge->shelf)
        emu_shelf_hold(edge->shelf);
    *ret = edge;
    return 0;

close_bell:
    close(edge->bell);
free_edge:
    free(edge);
    return err;
}

void emu_hostif_destroy(struct emu_hostif *edge, struct emu_pool_cache *cache)
{
    if (!edge)
        return;
    for (; edge->batch_at != edge->batch_end; edge->batch_at++)
        emu_pool_drop(cache, edge->batch[edge->batch_at].buf);
    munmap(edge->shared, emu_hostif_bytes(edge->nodes));
    close(edge->bell);
    emu_shelf_drop(edge->shelf);
    free(edge);
}

void emu_hostif_rebase(struct emu_hostif *edge, uint64_t by_ps)
{
    edge->up_busy_ps = emu_rebased_ps(edge->up_busy_ps, by_ps);
    if (edge->blocked && edge->dev->timed)
        emu_count(&edge->times.full, 2 * (by_ps / 1000u));
    for (uint32_t i = 0; i < EMU_HOSTIF_BATCH; i++)
        edge->batch[i].time_ps = emu_rebased_ps(edge->batch[i].time_ps, by_ps);
}

void emu_hostif_seat(struct emu_hostif *edge, uint32_t node, uint64_t word)
{
    atomic_store_explicit(&edge->shared->seats[node], word, memory_order_release); /* X5: Y7 */
    if (!emu_seat_attached(word))
        atomic_fetch_add_explicit(&edge->shared->endings, 1, memory_order_release); /* X6: Y8 */
}

uint32_t emu_hostif_left(const struct emu_hostif *edge)
{
    uint32_t tail = atomic_load_explicit(&edge->shared->up_tail, memory_order_acquire); /* X1: Y2 */
    uint32_t left = tail - emu_hostif_taken(edge);

    return left <= EMU_HOSTIF_SLOTS ? left : 0;
}

#if defined(__x86_64__)
/*
 * Copy a whole segment, one cache line per instruction. A core has a limited number of outstanding
 * misses; full-line loads and stores use each for a whole line.
 */
__attribute__((target("avx512f"))) static void edge_copy_lines(void *to, const void *from)
{
    __m512i line[EMU_SEG_BYTES / EMU_LINE];

    for (unsigned i = 0; i < EMU_SEG_BYTES / EMU_LINE; i++)
        line[i] = _mm512_load_si512((const char *)from + (size_t)i * EMU_LINE);
    for (unsigned i = 0; i < EMU_SEG_BYTES / EMU_LINE; i++)
        _mm512_store_si512((char *)to + (size_t)i * EMU_LINE, line[i]);
}
#endif

/* emu_seg_copy() by the widest instructions available. */
static inline void edge_seg_copy(struct emu_seg *to, const struct emu_seg *from, uint32_t len)
{
#if defined(__x86_64__)
    if (len > 2 * EMU_LINE - EMU_HDR_BYTES && __builtin_cpu_supports("avx512f")) {
        edge_copy_lines(to, from);
        return;
    }
#endif
    emu_seg_copy(to, from, len);
}

/* --- into the fabric ---------------------------------------------------------------- */

void emu_hostif_look(struct emu_hostif *edge)
{
    struct emu_hostif_shared *shared = edge->shared;
    uint32_t tail = atomic_load_explicit(&shared->up_tail, memory_order_acquire); /* X1: Y2 */

    if (tail != edge->up_looked) {
        edge->owes = tail - edge->up_looked > EMU_HOSTIF_FEW ? EMU_HOSTIF_ANYWHERE : 0;
        edge->up_looked = tail;
        edge->posted = true;
        emu_dev_signal(edge->dev, edge->dev->worker, EMU_EVENT_DATA, emu_port_signal(edge->port));
    } else { /* so that its line arrives together with the tail */
        __builtin_prefetch(&shared->up[emu_hostif_up_slot(edge)], 0);
    }
    if (edge->blocked) {
        uint32_t head = atomic_load_explicit(&shared->down_head, memory_order_acquire); /* X3: Y4 */

        if (head != edge->down_looked || atomic_load_explicit(&edge->cut, memory_order_relaxed)) {
            edge->down_looked = head;
            emu_dev_signal(edge->dev, edge->dev->worker, EMU_EVENT_CREDIT,
                           emu_port_signal(edge->port));
        }
    }
}

/* Is there a segment to copy in? An impossible index is counted and ignored. */
static bool edge_has(struct emu_hostif *edge)
{
    uint32_t tail;

    if (edge->up_head != edge->up_tail)
        return true;
    tail = atomic_load_explicit(&edge->shared->up_tail, memory_order_acquire); /* X1: Y2 */
    if (tail - edge->up_head > EMU_HOSTIF_SLOTS) {
        emu_count(&edge->bad, 1);
        return false;
    }
    edge->up_tail = tail;
    edge->up_shift =
        atomic_load_explicit(&edge->shared->up_shift, memory_order_relaxed); /* after X1 */
    return edge->up_head != tail;
}

/*
 * When the process says that it posted, converted to our clock and limited to values near @now_ps,
 * the start of this pass. If the post seems later the clock is read, since this thread may have
 * waited for a core.
 */
static uint64_t edge_due(const struct emu_hostif *edge, uint64_t due_ps, uint64_t now_ps)
{
    const struct emu_clock *clock = &edge->dev->worker->clock;
    int64_t most_ps = (int64_t)edge->profile->nic_send_ps;
    uint64_t least_ps = now_ps < EDGE_PAST_PS ? now_ps : EDGE_PAST_PS;
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

/* When a segment posted for @due_ps leaves: wire rate and credits hold whatever is claimed. */
static uint64_t edge_depart(struct emu_hostif *edge, const struct emu_hdr *hdr, uint64_t due_ps,
                            uint64_t now_ps, uint32_t *born_ns)
{
    const struct emu_profile *profile = edge->profile;
    uint64_t depart_ps = edge_due(edge, due_ps, now_ps);
    uint64_t credit_ps;

    *born_ns = (uint32_t)(depart_ps / 1000u);
    if (depart_ps < edge->up_busy_ps)
        depart_ps = edge->up_busy_ps;
    credit_ps = edge->credits->at_ps[(edge->credits->first + edge->batch_end) % EMU_XPOINT_MAX];
    if (depart_ps < credit_ps)
        depart_ps = credit_ps;
    edge->up_busy_ps = depart_ps + emu_wire_ps(profile, hdr);
    return depart_ps;
}

/* Copy the payload into a pool buffer. False: no buffer is free. */
static bool edge_copy_in(struct emu_worker *worker, const struct emu_seg *seg, uint32_t len,
                         uint32_t *buf)
{
    *buf = EMU_NO_BUF;
    if (!len)
        return true;
    *buf = emu_pool_take(&worker->cache);
    if (*buf == EMU_NO_BUF)
        return false;
    edge_seg_copy(emu_pool_seg(worker->cache.pool, *buf), seg, len);
    return true;
}

/* Have the device step again in the next pass. */
static void edge_again(struct emu_hostif *edge)
{
    emu_dev_signal(edge->dev, edge->dev->worker, EMU_EVENT_DATA, emu_port_signal(edge->port));
}

/* Copy one segment in. False: no buffer is free. */
static bool edge_take(struct emu_hostif *edge, uint64_t now_ps)
{
    uint32_t at = emu_hostif_up_slot(edge);
    const struct emu_seg *seg = &edge->shared->up[at].seg;
    struct emu_entry *entry = &edge->batch[edge->batch_end];

    emu_hostif_read(&entry->hdr, edge->node, seg);
    emu_hostif_prefetch_up(edge, at);
    if (!emu_hdr_is_sane(&entry->hdr, edge->profile, edge->nodes)) {
        emu_count(&edge->bad, 1);
        edge->up_head++;
        return true;
    }
    if (!edge_copy_in(edge->dev->worker, seg, entry->hdr.len, &entry->buf))
        return false;
    entry->time_ps = 0;
    entry->born_ns = 0;
    if (edge->dev->timed)
        entry->time_ps = edge_depart(edge, &entry->hdr,
                                     __atomic_load_n(&edge->shared->up_ps[at], __ATOMIC_RELAXED),
                                     now_ps, &entry->born_ns) +
                         edge->profile->channel_ps + edge->profile->switch_ps +
                         edge->late_ps_per_byte * (EMU_HDR_BYTES + entry->hdr.len);
    edge->batch_end++;
    edge->up_head++;
    return true;
}

/* Bounded by segments read, not found: garbage posted as fast as we drop it must not hold us. */
bool emu_hostif_refill(struct emu_hostif *edge, uint64_t now_ps)
{
    uint32_t credits = edge->credits->count;
    uint32_t room = credits < EMU_HOSTIF_BATCH ? credits : EMU_HOSTIF_BATCH;
    uint32_t looked = 0;

    edge->batch_at = edge->batch_end = 0;
    while (edge->batch_end < room && edge_has(edge)) {
        if (looked++ < EDGE_LOOKS && edge_take(edge, now_ps))
            continue;
        edge_again(edge);
        break;
    }
    if (looked)
        emu_hostif_mark(edge);
    return edge->batch_end != 0;
}

const struct emu_seg *emu_hostif_find(struct emu_hostif *edge, struct emu_hdr *hdr)
{
    for (uint32_t looked = 0; edge->credits->count && edge_has(edge); looked++) {
        uint32_t at = emu_hostif_up_slot(edge);
        const struct emu_seg *seg = &edge->shared->up[at].seg;

        if (looked == EDGE_LOOKS) {
            edge_again(edge);
            break;
        }
        emu_hostif_read(hdr, edge->node, seg);
        emu_hostif_prefetch_up(edge, at);
        if (emu_hdr_is_sane(hdr, edge->profile, edge->nodes)) {
            edge->shape = emu_hostif_shape(hdr);
            return seg;
        }
        emu_count(&edge->bad, 1);
        edge->up_head++;
        emu_hostif_mark(edge);
    }
    return NULL;
}

bool emu_hostif_take(struct emu_hostif *edge, const struct emu_seg *seg, struct emu_entry *entry)
{
    entry->time_ps = 0;
    entry->born_ns = 0;
    if (edge_copy_in(edge->dev->worker, seg, entry->hdr.len, &entry->buf))
        return true;
    edge_again(edge);
    return false;
}

/* Read the front segment's header words once. Do they match, except for the sequence number? */
static inline bool edge_front_is(const struct emu_hostif *edge, uint64_t first, uint32_t shape,
                                 struct emu_hdr_words *words)
{
    const uint64_t *from = (const void *)&edge->shared->up[emu_hostif_up_slot(edge)].seg.hdr;

    words->ends = emu_hdr_from(__atomic_load_n(&from[0], __ATOMIC_RELAXED), edge->node);
    words->fields = __atomic_load_n(&from[1], __ATOMIC_RELAXED);
    return words->ends == first && words->fields >> 32 == shape;
}

/* Was the last checked segment a full one of @kind, so that others to @dst are valid, too? */
static inline bool edge_runs(const struct emu_hostif *edge, uint8_t kind, uint32_t dst)
{
    const struct emu_hdr full = {.kind = kind, .len = EMU_PAYLOAD_BYTES};

    return (edge->shape & EDGE_SHAPE_KIND_LEN) == emu_hostif_shape(&full) &&
           (kind != EMU_UNICAST || dst < edge->nodes);
}

/* Spend the credits of @run segments. */
static inline void edge_spend(struct emu_hostif *edge, uint32_t run)
{
    edge->credits->first += run;
    edge->credits->count -= run;
}

/* Segments that are there and have credits, up to @most. */
static uint32_t edge_ready(struct emu_hostif *edge, uint32_t most)
{
    uint32_t ready = edge_has(edge) ? edge->up_tail - edge->up_head : 0;

    ready = ready < edge->credits->count ? ready : edge->credits->count;
    return ready < most ? ready : most;
}

uint32_t emu_hostif_take_run(struct emu_hostif *edge, uint8_t kind, uint32_t dst, uint32_t *bufs,
                             uint32_t most)
{
    struct emu_pool_cache *cache = &edge->dev->worker->cache;
    uint64_t first = emu_hdr_from(dst, edge->node);
    uint32_t ready = edge_ready(edge, most), run = 0;
    struct emu_hdr_words words;

    if (!edge_runs(edge, kind, dst))
        return 0;
    for (; run < ready && edge_front_is(edge, first, edge->shape, &words); run++) {
        uint32_t at = emu_hostif_up_slot(edge), buf = emu_pool_take(cache);
        const struct emu_seg *seg = &edge->shared->up[at].seg;

        if (buf == EMU_NO_BUF) {
            edge_again(edge);
            break;
        }
        emu_hostif_prefetch_up(edge, at);
        edge_seg_copy(emu_pool_seg(cache->pool, buf), seg, EMU_PAYLOAD_BYTES);
        emu_hdr_store(&emu_pool_seg(cache->pool, buf)->hdr, words);
        bufs[run] = buf;
        edge->up_head++;
    }
    edge_spend(edge, run);
    return run;
}

/* --- out of the fabric -------------------------------------------------------------- */

/* Clock real: add up the time for which a full ring blocks the network. */
static void edge_block(struct emu_hostif *edge, bool blocked)
{
    uint64_t twice = 2 * (edge->dev->worker->now_ps / 1000u);

    if (edge->dev->timed)
        emu_count(&edge->times.full, blocked ? 1 - twice : twice - 1);
    edge->blocked = blocked;
}

/* Refresh down_head. False: the process wrote an impossible value, which is ignored. */
static bool edge_look_down(struct emu_hostif *edge)
{
    uint32_t head =
        atomic_load_explicit(&edge->shared->down_head, memory_order_acquire); /* X3: Y4 */

    if (head - edge->down_head > edge->down_tail - edge->down_head)
        return false;
    edge->down_head = head;
    return true;
}

/* Slots that the process has not read. Refreshes down_head only when the ring looks full. */
static uint32_t edge_used(struct emu_hostif *edge)
{
    if (edge->down_tail - edge->down_head == EMU_HOSTIF_SLOTS && !edge_look_down(edge))
        emu_count(&edge->bad, 1); /* the ring stays full */
    return edge->down_tail - edge->down_head;
}

uint32_t emu_hostif_room(struct emu_hostif *edge)
{
    uint32_t used;

    if (atomic_load_explicit(&edge->cut, memory_order_relaxed)) {
        if (edge->blocked)
            edge_block(edge, false);
        atomic_store_explicit(&edge->stuck, 0, memory_order_relaxed);
        return UINT32_MAX; /* emu_hostif_send() drops them */
    }
    used = edge_used(edge);
    if (edge->blocked != (used == EMU_HOSTIF_SLOTS))
        edge_block(edge, used == EMU_HOSTIF_SLOTS);
    atomic_store_explicit(&edge->stuck, edge->blocked, memory_order_relaxed);
    return EMU_HOSTIF_SLOTS - used;
}

bool emu_hostif_has_room(struct emu_hostif *edge, uint32_t count)
{
    if (!atomic_load_explicit(&edge->cut, memory_order_relaxed) &&
        EMU_HOSTIF_SLOTS - edge_used(edge) < count)
        return false;
    return emu_hostif_room(edge) >= count;
}

/* The slot to write next; the first slot if the process has read everything. */
static inline uint32_t edge_down_slot(struct emu_hostif *edge)
{
    uint32_t at = emu_hostif_slot_at(edge->down_tail, edge->down_shift);

    if (!emu_hostif_may_turn(at, edge->down_tail - edge->down_told) || !edge_look_down(edge) ||
        edge->down_head != edge->down_tail)
        return at;
    edge->down_shift -= at;
    atomic_store_explicit(&edge->shared->down_shift, edge->down_shift,
                          memory_order_relaxed); /* before X4 */
    return 0;
}

static void edge_lag(struct emu_hostif *edge, const struct emu_entry *entry)
{
    uint64_t due_ns = entry->time_ps / 1000u, now_ns = edge->dev->worker->now_ps / 1000u;
    uint32_t ideal_ns = (uint32_t)due_ns - entry->born_ns;
    uint64_t late_ns = now_ns > due_ns ? now_ns - due_ns : 0;

    emu_count(&edge->times.ideal_ns, ideal_ns);
    emu_count(&edge->times.actual_ns, ideal_ns + late_ns);
}

/* May @count segments be written? After a cut-off they are dropped and counted. */
static bool edge_gets(struct emu_hostif *edge, uint32_t count)
{
    if (!atomic_load_explicit(&edge->cut, memory_order_relaxed))
        return true;
    emu_count(&edge->dead, count);
    return false;
}

/* Write the next segment to slot @at. Call edge_down_slot() for it only once. */
static inline void edge_put(struct emu_hostif *edge, uint32_t at, const struct emu_hdr *hdr,
                            const struct emu_seg *payload)
{
    struct emu_seg *seg = &edge->shared->down[at].seg;
    uint32_t *on = &edge->shared->down_on[at];

    emu_hostif_prefetch_on(edge->shared, at);
    emu_hostif_prefetch(edge->shared->down, at,
                        at + edge->down_head - edge->down_tail + EMU_HOSTIF_SLOTS, true);
    if (payload)
        edge_seg_copy(seg, payload, hdr->len);
    seg->hdr = *hdr;
    if (*on)
        *on = 0;
    edge->down_tail++;
}

void emu_hostif_put(struct emu_hostif *edge, const struct emu_hdr *hdr,
                    const struct emu_seg *payload)
{
    if (!edge_gets(edge, 1))
        return;
    edge_put(edge, edge_down_slot(edge), hdr, payload);
    emu_count(&edge->delivered, 1);
}

void emu_hostif_put_run(struct emu_hostif *edge, const uint32_t *bufs, uint32_t count)
{
    struct emu_pool *pool = edge->dev->worker->cache.pool;

    if (!edge_gets(edge, count))
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct emu_seg *seg = emu_pool_seg(pool, bufs[i]);

        edge_put(edge, edge_down_slot(edge), &seg->hdr, seg);
    }
    emu_count(&edge->delivered, count);
}

uint32_t emu_hostif_pass_run(struct emu_hostif *edge, struct emu_hostif *to, uint32_t dst,
                             uint32_t most)
{
    uint64_t first = emu_hdr_from(dst, edge->node);
    uint32_t ready = edge_ready(edge, most), run = 0;
    struct emu_hdr_words words;

    if (!edge_runs(edge, EMU_UNICAST, dst) || atomic_load_explicit(&to->cut, memory_order_relaxed))
        return 0;
    for (; run < ready && edge_front_is(edge, first, edge->shape, &words); run++) {
        uint32_t at = emu_hostif_up_slot(edge);
        struct emu_hdr hdr;

        emu_hdr_store(&hdr, words);
        emu_hostif_prefetch_up(edge, at);
        edge_put(to, edge_down_slot(to), &hdr, &edge->shared->up[at].seg);
        edge->up_head++;
    }
    edge_spend(edge, run);
    emu_count(&to->delivered, run);
    return run;
}

void emu_hostif_send(struct emu_hostif *edge, const struct emu_entry *entry)
{
    struct emu_pool_cache *cache = &edge->dev->worker->cache;

    if (edge_gets(edge, 1)) {
        uint32_t at = edge_down_slot(edge);

        if (edge->dev->timed) {
            edge->shared->down_ps[at] = entry->time_ps + edge->dev->worker->clock.rebased_ps;
            edge_lag(edge, entry);
        }
        edge_put(edge, at, &entry->hdr, emu_pool_payload(cache->pool, entry->buf));
        emu_count(&edge->delivered, 1);
    }
    emu_pool_drop(cache, entry->buf);
}

uint32_t emu_hostif_write(struct emu_shelf *shelf, const struct emu_hdr *hdr,
                          const struct emu_seg *payload)
{
    uint32_t on = shelf->next++;
    struct emu_seg *seg = &shelf->shared->slot[on % EMU_SHELF_SLOTS].seg;

    if (shelf->end - on > EMU_HOSTIF_AHEAD)
        emu_seg_prefetch(&shelf->shared->slot[(on + EMU_HOSTIF_AHEAD) % EMU_SHELF_SLOTS].seg, true);
    edge_seg_copy(seg, payload, hdr->len);
    seg->hdr = *hdr;
    return on;
}

void emu_hostif_refer(struct emu_hostif *edge, uint32_t on, uint32_t count)
{
    if (!edge_gets(edge, count))
        return;
    for (uint32_t i = 0; i < count; i++, edge->down_tail++) {
        uint32_t at = edge_down_slot(edge);

        emu_hostif_prefetch_on(edge->shared, at);
        edge->shared->down_on[at] = emu_on(on + i);
    }
    emu_count(&edge->delivered, count);
    edge->shelf_last[emu_shelf_part(on)] = edge->down_tail;
}

/*
 * Does an unread segment lie in @part? Unread ones are in the ring, so an end further off is old.
 */
static bool edge_reads(const struct emu_hostif *edge, uint32_t part)
{
    return edge->shelf_last[part] - edge->down_head - 1 < EMU_HOSTIF_SLOTS;
}

bool emu_hostif_reads(struct emu_hostif *edge, uint32_t part)
{
    return edge_reads(edge, part) && (!edge_look_down(edge) || edge_reads(edge, part));
}
