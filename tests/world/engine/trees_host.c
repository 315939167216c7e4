/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trees_host.c - see trees.h: one host, what it says and what it makes of what it hears.
 *
 * Timed, it does everything in the order of its times: nothing depends on how time is cut.
 */
#include <assert.h>
#include <string.h>

#include "tests/test.h"
#include "tests/world/engine/trees.h"

#define NOISE_OP 0x5a /* in the op of the hosts' unicasts */

static void host_mix(struct tree_host *h, uint64_t number)
{
    h->digest = world_digest(h->digest, number);
}

/* --- unicasts ----------------------------------------------------------------------- */

void trees_noise(const struct trees *w, uint32_t node, uint32_t i, struct emu_hdr *hdr)
{
    uint64_t number = trees_draw(w->seed + 3, node, i, 0);

    *hdr = (struct emu_hdr){.dst = (uint32_t)(number >> 32) % w->hosts,
                            .src = node,
                            .seq = i,
                            .kind = (uint8_t)(EMU_UNICAST | (i % 3 ? 0 : EMU_NOTIFY)),
                            .op = NOISE_OP,
                            .len = (uint8_t)(number % 2 ? EMU_PAYLOAD_BYTES : number / 2 % 64)};
}

static void noise_payload(const struct emu_hdr *hdr, uint8_t *bytes)
{
    for (uint32_t b = 0; b < hdr->len; b++)
        bytes[b] = (uint8_t)(hdr->src * 31 + hdr->seq * 7 + b);
}

static bool noise_take(struct tree_host *h, const struct emu_entry *entry)
{
    struct trees *w = h->world;
    uint8_t want[EMU_PAYLOAD_BYTES];
    struct emu_hdr hdr;
    uint64_t at;

    if (entry->hdr.src >= w->hosts || entry->hdr.seq >= w->set.noise)
        return false;
    trees_noise(w, entry->hdr.src, entry->hdr.seq, &hdr);
    at = (uint64_t)hdr.src * w->set.noise + hdr.seq;
    atomic_fetch_sub(&w->noise_left, 1);
    if (entry->hdr.kind & EMU_NOTIFY)
        return hdr.kind & EMU_NOTIFY && hdr.src == h->node && !entry->hdr.len &&
               !atomic_fetch_add(&w->noise_told[at], 1) &&
               (!h->dev.timed || w->set.nap_ps || atomic_load(&w->noise_got[at]));
    hdr.kind = EMU_UNICAST;
    if (memcmp(&hdr, &entry->hdr, sizeof hdr) || hdr.dst != h->node ||
        atomic_fetch_add(&w->noise_got[at], 1))
        return false;
    noise_payload(&hdr, want);
    return !hdr.len ||
           !memcmp(want, emu_pool_bytes(h->dev.worker->cache.pool, entry->buf), hdr.len);
}

/* --- junk: whatever an edge lets pass ----------------------------------------------- */

static void junk_word(uint64_t number, struct tree_line *ret)
{
    struct emu_word word = {.value = number >> 60,
                            .word = (uint32_t)(number >> 8) % 20,
                            .test = (uint8_t)(number >> 16 & 3),
                            .until = (uint8_t)(number >> 18 & 1)};

    ret->hdr.len = sizeof word;
    memcpy(ret->payload, &word, sizeof word);
}

static void junk_draw(struct tree_host *h, struct tree_line *ret)
{
    static const uint8_t kinds[] = {EMU_MULTICAST, EMU_MULTICAST | EMU_NOTIFY,
                                    EMU_REDUCE,    EMU_SET,
                                    EMU_ALLREDUCE, EMU_BARRIER,
                                    EMU_TEST,      EMU_ALLREDUCE};
    struct trees *w = h->world;
    uint64_t number = test_random(&h->random);
    struct tree_stream any = {.mix = MIX_ALL};
    struct tree_op op = {0};

    ret->hdr = (struct emu_hdr){.dst = atomic_load_explicit(&w->junk_id[number % TREES_JUNK],
                                                            memory_order_relaxed),
                                .kind = kinds[number / 8 % 8],
                                .seq = (uint32_t)(number >> 16 & 7)};
    if ((number >> 20) % 64 == 0)
        ret->hdr.seq = (uint32_t)(number >> 32);
    number = test_random(&h->random);
    memset(ret->payload, 0, sizeof ret->payload);
    if (ret->hdr.kind == EMU_REDUCE || ret->hdr.kind == EMU_ALLREDUCE) {
        trees_draw_reduction(&any, number >> 40 & 3, &op); /* few, so that many agree */
        ret->hdr.op = op.op;
        ret->hdr.type = op.type;
        ret->hdr.len = op.len;
    } else if (ret->hdr.kind == EMU_SET || ret->hdr.kind == EMU_TEST) {
        junk_word(number, ret);
    } else if (ret->hdr.kind != EMU_BARRIER) {
        ret->hdr.len = (uint8_t)(number % (EMU_PAYLOAD_BYTES + 1));
    }
}

/* --- hosts -------------------------------------------------------------------------- */

static struct tree_member *host_member(const struct tree_host *h, uint32_t id)
{
    for (uint32_t m = 0; m < h->members; m++)
        if (h->member[m]->stream->id == id)
            return h->member[m];
    return NULL;
}

static void host_log(struct tree_host *h, const struct emu_entry *entry, uint64_t at_ps)
{
    struct tree_line *line;

    emu_count(&h->other, 1);
    if (h->heard == TREES_LOG)
        return;
    if (!h->log)
        h->log = calloc(TREES_LOG, sizeof *h->log);
    line = &h->log[h->heard++];
    line->at_ps = at_ps;
    line->hdr = entry->hdr;
    if (entry->buf != EMU_NO_BUF)
        memcpy(line->payload, emu_pool_bytes(h->dev.worker->cache.pool, entry->buf),
               entry->hdr.len);
}

static void host_take_entry(struct tree_host *h, const struct emu_entry *entry, uint64_t at_ps)
{
    struct tree_member *m = host_member(h, entry->hdr.dst);
    bool unicast = (entry->hdr.kind & ~EMU_NOTIFY) == EMU_UNICAST, good = true;

    if (unicast && entry->hdr.op == NOISE_OP)
        good = noise_take(h, entry);
    else if (m && !unicast && !(entry->hdr.kind & EMU_FAILED))
        good = trees_member_take(h, m, entry);
    else
        host_log(h, entry, at_ps);
    emu_count(&h->results, good);
    emu_count(&h->wrong, !good);
    host_mix(h, at_ps);
    host_mix(h, (uint64_t)entry->hdr.seq << 32 | entry->hdr.src << 16 | entry->hdr.kind);
    host_mix(h, entry->born_ns);
    if (entry->buf != EMU_NO_BUF)
        host_mix(h, trees_bytes_sum(emu_pool_bytes(h->dev.worker->cache.pool, entry->buf),
                                    entry->hdr.len));
}

/* A host says one thing at a time. */
enum voice { VOICE_NONE, VOICE_SCRIPT, VOICE_NOISE, VOICE_JUNK, VOICE_MEMBER };

struct turn {
    uint64_t ready_ps;
    enum voice voice;
    struct tree_member *member;
};

static void rebase_sooner(struct turn *turn, uint64_t ready_ps, enum voice voice,
                          struct tree_member *member)
{
    if (turn->voice == VOICE_NONE || ready_ps < turn->ready_ps)
        *turn = (struct turn){.ready_ps = ready_ps, .voice = voice, .member = member};
}

/* What it says next, and when it is ready to. */
static struct turn host_turn(struct tree_host *h)
{
    const struct trees_config *set = &h->world->set;
    uint64_t now_ps = h->now_ps;
    struct turn turn = {.voice = VOICE_NONE};

    if (h->said < h->lines)
        rebase_sooner(&turn, h->script[h->said].at_ps > now_ps ? h->script[h->said].at_ps : now_ps,
                      VOICE_SCRIPT, NULL);
    for (uint32_t m = 0; m < h->members; m++)
        if (trees_member_may_post(h->member[m], h->node))
            rebase_sooner(&turn, h->member[m]->due_ps > now_ps ? h->member[m]->due_ps : now_ps,
                          VOICE_MEMBER, h->member[m]);
    if (h->noise < set->noise)
        rebase_sooner(&turn,
                      (uint64_t)h->noise * set->delay_ps / 8 > now_ps
                          ? (uint64_t)h->noise * set->delay_ps / 8
                          : now_ps,
                      VOICE_NOISE, NULL);
    if (h->junk < set->junk)
        rebase_sooner(&turn, now_ps, VOICE_JUNK, NULL);
    return turn;
}

static void host_line(struct tree_host *h, const struct turn *turn, struct tree_line *ret)
{
    switch (turn->voice) {
    case VOICE_SCRIPT:
        *ret = h->script[h->said++];
        break;
    case VOICE_NOISE:
        trees_noise(h->world, h->node, h->noise++, &ret->hdr);
        noise_payload(&ret->hdr, ret->payload);
        break;
    case VOICE_JUNK:
        junk_draw(h, ret);
        h->junk++;
        break;
    default:
        trees_member_post(h, turn->member, ret);
        break;
    }
}

/* Say it. There is room for it. */
static void host_say_turn(struct tree_host *h, const struct turn *turn, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &h->dev.worker->cache;
    struct emu_entry entry = {.buf = EMU_NO_BUF};
    struct tree_line line;

    host_line(h, turn, &line);
    entry.hdr = line.hdr;
    entry.hdr.src = h->node;
    entry.born_ns = (uint32_t)(at_ps / 1000u);
    if (line.hdr.len) {
        entry.buf = emu_pool_take(cache);
        assert(entry.buf != EMU_NO_BUF);
        memcpy(emu_pool_bytes(cache->pool, entry.buf), line.payload, line.hdr.len);
    }
    if (h->dev.timed)
        emu_tx_depart(&h->tx, &entry, at_ps);
    else
        emu_tx_send(&h->tx, &entry);
    h->now_ps = at_ps;
    if (turn->member)
        turn->member->due_ps = at_ps + trees_member_delay_ps(h->world, turn->member);
}

static uint64_t host_take_ps(struct tree_host *h)
{
    uint64_t front_ps = emu_rx_next_ps(&h->rx);

    return front_ps == EMU_NEVER || front_ps > h->nap_ps ? front_ps : h->nap_ps;
}

static void host_take_one(struct tree_host *h, uint64_t at_ps)
{
    const struct emu_entry *entry = emu_rx_front(&h->rx, at_ps);

    h->now_ps = at_ps;
    host_take_entry(h, entry, at_ps);
    emu_pool_drop(&h->dev.worker->cache, entry->buf);
    emu_rx_skip(&h->rx);
    emu_rx_done(&h->rx, 1);
    h->rx.owed = 1;
    emu_rx_pay(&h->rx, &h->dev, at_ps + (h->dev.timed ? h->world->profile.credit_ps : 0));
    if (h->dev.timed && h->world->set.nap_ps && test_random(&h->random) % 32 == 0)
        h->nap_ps = at_ps + test_random(&h->random) % h->world->set.nap_ps;
}

static uint32_t host_step_timed(struct emu_dev *dev, uint64_t until_ps)
{
    struct tree_host *h = (struct tree_host *)dev;
    uint64_t take_ps, send_ps;
    uint32_t moved = 0;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    for (;; moved++) {
        struct turn turn = host_turn(h);

        take_ps = host_take_ps(h);
        send_ps = turn.voice == VOICE_NONE ? EMU_NEVER : emu_tx_earliest_ps(&h->tx, turn.ready_ps);
        if ((take_ps < send_ps ? take_ps : send_ps) > until_ps)
            break;
        if (take_ps <= send_ps)
            host_take_one(h, take_ps);
        else
            host_say_turn(h, &turn, send_ps);
    }
    emu_tx_flush(&h->tx);
    dev->next_ps = take_ps < send_ps ? take_ps : send_ps;
    return moved;
}

/* Raw: now and then it takes, or says, nothing in a pass. */
static uint32_t host_step_raw(struct emu_dev *dev, uint64_t until_ps)
{
    struct tree_host *h = (struct tree_host *)dev;
    uint64_t lazy = test_random(&h->random);
    uint32_t takes = lazy % 8 ? 32 : 0, says = lazy / 8 % 4 ? 1 + lazy / 32 % 8 : 0;
    uint32_t moved = 0;
    struct turn turn;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    emu_tx_take_credits(&h->tx);
    for (; takes && emu_rx_front(&h->rx, 0); takes--, moved++)
        host_take_one(h, 0);
    while ((turn = host_turn(h)).voice != VOICE_NONE && says && emu_tx_room(&h->tx)) {
        host_say_turn(h, &turn, 0);
        says--;
        moved++;
    }
    emu_tx_flush(&h->tx);
    dev->next_ps = EMU_NEVER;
    if (!takes || (turn.voice != VOICE_NONE && !says))
        emu_dev_again(dev);
    return moved;
}

int trees_host(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
               struct emu_tx **tx, struct emu_rx **rx)
{
    struct tree_host *h = world_zeros(sizeof *h);
    struct trees *w = ctx;

    emu_dev_init(&h->dev, worker,
                 worker->clock.mode == EMU_CLOCK_RAW ? host_step_raw : host_step_timed);
    h->world = w;
    h->node = node;
    h->now_ps = 1;
    h->random = trees_draw(w->seed, node, 99, w->set.delay_seed);
    w->host[node] = h;
    *dev = &h->dev;
    *tx = &h->tx;
    *rx = &h->rx;
    return 0;
}

void trees_wake(struct trees *w, uint32_t node)
{
    emu_dev_again(&w->host[node]->dev);
    emu_dev_wake(&w->host[node]->dev, w->now_ps + 1);
}

void trees_say(struct trees *w, uint32_t node, const struct emu_hdr *hdr, const void *payload,
               uint64_t at_ps)
{
    struct tree_host *h = w->host[node];
    struct tree_line *line;

    if (!(h->lines & (h->lines - 1))) {
        h->script = realloc(h->script, (h->lines ? 2 * h->lines : 1) * sizeof *line);
        assert(h->script);
    }
    line = &h->script[h->lines++];
    *line = (struct tree_line){.at_ps = at_ps > w->now_ps ? at_ps : w->now_ps + 1, .hdr = *hdr};
    if (payload)
        memcpy(line->payload, payload, hdr->len);
    trees_wake(w, node);
}

uint32_t trees_heard(const struct tree_host *h, uint8_t kind, uint32_t dst, uint32_t seq,
                     struct tree_line *ret)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < h->heard; i++) {
        const struct tree_line *line = &h->log[i];

        if (line->hdr.kind != kind || line->hdr.dst != dst || line->hdr.seq != seq)
            continue;
        count++;
        if (ret)
            *ret = *line;
    }
    return count;
}
