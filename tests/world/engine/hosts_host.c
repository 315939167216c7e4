/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts_host.c - see hosts.h: one host, what it sends and what it makes of what comes. */
#include <string.h>

#include "tests/test.h"
#include "tests/world/engine/hosts.h"

static uint64_t draw_number(uint64_t seed, uint32_t node, uint64_t i)
{
    uint64_t state = seed ^ (uint64_t)(node + 1) << 56 ^ i * 0x9e3779b97f4a7c15u;

    return test_random(&state);
}

void hosts_draw_mixed(const struct hosts *w, uint32_t node, uint64_t i, struct hosts_post *ret)
{
    uint64_t number = draw_number(w->seed, node, i);

    *ret = (struct hosts_post){.kind = EMU_UNICAST, .len = EMU_PAYLOAD_BYTES};
    ret->dst = (node + 1 + (uint32_t)(number >> 40) % (w->hosts - !w->fabric)) % w->hosts;
    if (number % 3)
        ret->len = (uint8_t)(number / 3 % (EMU_PAYLOAD_BYTES + 1));
    if (number / 1024 % 16 == 0) {
        ret->kind = EMU_MULTICAST;
        ret->dst = 0;
    }
}

void hosts_draw_whole(const struct hosts *w, uint32_t node, uint64_t i, struct hosts_post *ret)
{
    (void)i;
    *ret = (struct hosts_post){.dst = (node + 1) % w->hosts,
                               .kind = EMU_UNICAST,
                               .len = EMU_PAYLOAD_BYTES};
}

static struct emu_hdr post_hdr(const struct hosts *w, uint32_t node, uint64_t i,
                               const struct hosts_post *post)
{
    bool to_all = post->kind != EMU_UNICAST && !post->dst;

    return (struct emu_hdr){.dst = to_all ? w->group : post->dst,
                            .src = node,
                            .seq = (uint32_t)i,
                            .kind = post->kind,
                            .len = post->len,
                            .op = (uint8_t)(i * 7),
                            .type = (uint8_t)(i * 11)};
}

static void post_payload(const struct hosts *w, uint32_t node, uint64_t i,
                         const struct hosts_post *post, uint8_t *bytes)
{
    uint64_t word = 0;

    for (uint32_t b = 0; b < post->len; b++) {
        if (b % 8 == 0)
            word = draw_number(w->seed + 1 + b, node, i);
        bytes[b] = (uint8_t)(word >> b % 8 * 8);
    }
}

/* --- hosts -------------------------------------------------------------------------- */

static void host_mix(struct host *h, uint64_t number)
{
    h->digest = world_digest(h->digest, number);
}

uint8_t *hosts_mark(const struct host *h, uint32_t src, uint64_t i)
{
    return &h->marks[src * h->world->set.posts + i];
}

/* Is this segment as its source drew it? Then it is marked. */
static bool host_check(struct host *h, const struct emu_entry *entry)
{
    struct hosts *w = h->world;
    struct emu_pool *pool = h->dev.worker->cache.pool;
    bool failed = entry->hdr.kind & EMU_FAILED;
    uint32_t src = entry->hdr.src;
    uint64_t i = entry->hdr.seq;
    uint8_t want[EMU_PAYLOAD_BYTES];
    struct emu_hdr hdr;
    struct hosts_post post;

    if (src >= w->hosts || i >= w->host[src]->posts || (failed && src != h->node))
        return false;
    w->set.draw(w, src, i, &post);
    hdr = post_hdr(w, src, i, &post);
    hdr.kind |= failed ? EMU_FAILED : 0;
    if (memcmp(&hdr, &entry->hdr, sizeof hdr) ||
        (post.kind == EMU_UNICAST && !failed && post.dst != h->node) ||
        (entry->buf == EMU_NO_BUF) != (post.length_only || !post.len) ||
        entry->born_ns != (uint32_t)(i * 3 + 1))
        return false;
    if (entry->buf != EMU_NO_BUF) {
        post_payload(w, src, i, &post, want);
        if (memcmp(want, emu_pool_bytes(pool, entry->buf), post.len))
            return false;
    }
    ++*(failed ? &h->failures[i] : hosts_mark(h, src, i));
    emu_count(failed ? &h->failed : &h->got, 1);
    return true;
}

static uint32_t host_take(struct host *h, uint64_t until_ps)
{
    const struct emu_entry *entry;
    uint32_t taken = 0;

    while (!h->deaf && (h->dev.timed || taken < 64) && (entry = emu_rx_front(&h->rx, until_ps))) {
        uint64_t at_ps = entry->time_ps > h->wake_ps ? entry->time_ps : h->wake_ps;

        if (!host_check(h, entry))
            emu_count(&h->wrong, 1);
        host_mix(h, at_ps);
        host_mix(h, (uint64_t)entry->hdr.seq << 16 | entry->hdr.src << 8 | entry->hdr.kind);
        h->last_ps = at_ps;
        emu_pool_drop(&h->dev.worker->cache, entry->buf);
        emu_rx_skip(&h->rx);
        taken++;
        if (h->dev.timed) {
            h->rx.owed = 1;
            emu_rx_pay(&h->rx, &h->dev, at_ps + h->world->profile.credit_ps);
        }
    }
    if (taken)
        emu_rx_done(&h->rx, taken);
    if (taken && !h->dev.timed) {
        h->rx.owed += taken;
        emu_rx_pay(&h->rx, &h->dev, 0);
    }
    return taken;
}

/* Send the next one. False: no buffer. */
static bool host_post(struct host *h, const struct hosts_post *post, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &h->dev.worker->cache;
    struct emu_entry entry = {.hdr = post_hdr(h->world, h->node, h->sent, post),
                              .buf = EMU_NO_BUF,
                              .born_ns = (uint32_t)(h->sent * 3 + 1)};

    if (post->len && !post->length_only) {
        entry.buf = emu_pool_take(cache);
        if (entry.buf == EMU_NO_BUF)
            return false;
        post_payload(h->world, h->node, h->sent, post, emu_pool_bytes(cache->pool, entry.buf));
    }
    if (h->dev.timed)
        emu_tx_depart(&h->tx, &entry, at_ps);
    else
        emu_tx_send(&h->tx, &entry);
    h->sent++;
    return true;
}

static uint32_t host_send(struct host *h, uint64_t until_ps, uint64_t *next_ps)
{
    struct hosts *w = h->world;
    uint32_t sent = 0;
    struct hosts_post post;

    if (!h->dev.timed)
        emu_tx_take_credits(&h->tx);
    for (; h->sent < h->posts && (h->dev.timed || sent < 64); sent++) {
        uint64_t at_ps = 0;

        w->set.draw(w, h->node, h->sent, &post);
        if (h->dev.timed)
            at_ps = emu_tx_earliest_ps(&h->tx, post.ready_ps);
        if (h->dev.timed ? at_ps > until_ps : !emu_tx_room(&h->tx)) {
            *next_ps = at_ps;
            break;
        }
        if (!host_post(h, &post, at_ps))
            break;
    }
    if (!h->dev.timed && sent == 64)
        emu_dev_again(&h->dev);
    emu_tx_flush(&h->tx);
    return sent;
}

static uint32_t host_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct host *h = (struct host *)dev;
    uint64_t next_ps = EMU_NEVER, front_ps;
    uint32_t moved;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    if (dev->timed && h->deaf && until_ps >= h->wake_ps)
        h->deaf = false;
    moved = host_take(h, until_ps);
    if (!dev->timed && moved == 64)
        emu_dev_again(dev);
    moved += host_send(h, until_ps, &next_ps);
    front_ps = h->deaf ? h->wake_ps : emu_rx_next_ps(&h->rx);
    dev->next_ps = !dev->timed ? EMU_NEVER : front_ps < next_ps ? front_ps : next_ps;
    return moved;
}

struct host *hosts_host(struct hosts *w, uint32_t node, struct emu_worker *worker)
{
    struct host *h = world_zeros(sizeof *h);

    emu_dev_init(&h->dev, worker, host_step);
    h->world = w;
    h->node = node;
    h->posts = w->set.posts;
    h->marks = calloc(HOSTS_MAX * h->posts + 1, 1);
    h->failures = calloc(h->posts + 1, 1);
    w->host[node] = h;
    return h;
}
