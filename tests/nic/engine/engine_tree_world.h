/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_tree_world.h - hosts that use groups, behind the engines of a whole fabric.
 *
 * A stream is a group and the collectives that its members do, one after the other, as a host's
 * library posts them (emu/link/seg.h: numbers, half windows, tokens). What the i-th one is, and what each
 * member contributes, is drawn by functions, so every result is checked against all contributions,
 * and that none came before the last of these was posted. Beside streams a host sends unicasts, what
 * the test tells it to say, and junk: anything that an edge lets pass.
 *
 * Timed, a host does everything in the order of its times: nothing depends on how time is cut.
 */
#ifndef TESTS_ENGINE_TREE_WORLD_H
#define TESTS_ENGINE_TREE_WORLD_H

#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/fault.h"
#include "nic/engine/internal.h"
#include "tests/nic/engine/engine_tree_draw.h"

#define STREAMS_MAX 16u /* of a host at a time */
#define LOG_MAX     4096u
#define JUNK_IDS    4u
#define NOISE_OP    0x5a /* in the op of the hosts' unicasts */
#define LIMIT_PS    20000000000000u /* simulated: 20 s */

/* How a world is made. What is 0 or NULL has the meaning that it says. */
struct setting {
    enum emu_clock_mode clock;
    const char *topo;
    const char *set;     /* "NAME=VALUE ...": what differs from qsnet3 */
    uint32_t workers;    /* 0: one */
    uint32_t streams;    /* at the start, each of random members */
    uint32_t ops;        /* of each */
    uint32_t mix;        /* 0: all but rough */
    uint64_t delay_ps;   /* up to so much between two posts of a member */
    uint64_t delay_seed; /* of these times alone */
    uint64_t nap_ps;     /* a host now and then takes nothing for up to so long */
    uint32_t noise;      /* unicasts of each host; of three one is EMU_TOLD */
    uint32_t junk;       /* segments of each host to w->junk_id */
    uint64_t cut_ps;     /* time is advanced by up to so much; 0: by as much as one likes */
    uint32_t faults;     /* in a million entries: of each kind */
    uint32_t lost;       /* only losses, instead */
    bool all;            /* streams have all nodes */
};

/* A host's place in a stream. As in nic/host/group/stream.c. */
struct member {
    struct stream *stream;
    uint64_t next;     /* operation to post next */
    uint64_t due_ps;
    uint64_t random;   /* of its times */
    uint32_t left;     /* results, and words that all have them, that are still to come; and posts */
    uint32_t cur, issued, done; /* half windows */
    uint8_t *complete; /* by half window: operations */
    bool *token_back;  /* by half window */
    uint8_t *got;      /* by operation: results */
    uint8_t *told;     /* by operation */
};

/* What the test says to a host, or a host heard that is not of a stream. */
struct line {
    uint64_t at_ps;
    struct emu_hdr hdr;
    uint8_t payload[EMU_PAYLOAD_BYTES];
};

struct world;

struct host {
    alignas(EMU_LINE) struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct world *world;
    uint32_t node;
    uint32_t members;
    struct member *member[STREAMS_MAX];
    uint64_t now_ps;  /* timed: of the last thing that it did */
    uint64_t nap_ps;  /* timed: takes nothing before */
    uint64_t random;
    uint32_t noise;   /* sent */
    uint32_t junk;    /* sent */
    struct line *script;
    uint32_t lines, said;
    struct line *log;
    uint32_t heard;   /* lines in it */
    uint64_t digest;
    uint64_t bits;    /* of the results of reductions: the same in whatever order they came */
    _Atomic uint64_t results; /* of streams, right */
    _Atomic uint64_t wrong;   /* not as they should be */
    _Atomic uint64_t other;   /* of no stream */
};

struct world {
    struct setting set;
    struct emu_profile profile;
    struct emu_fault_rates rates;
    struct topo_graph *graph;
    struct fabric *fabric;
    struct fabric_node_ops ops;
    uint32_t hosts;
    struct host *host[HOSTS_MAX];
    struct stream *stream[STREAMS_MAX];
    uint32_t streams;
    _Atomic uint8_t *noise_got;  /* [source][number] */
    _Atomic uint8_t *noise_told;
    _Atomic uint64_t noise_left;
    _Atomic uint32_t junk_id[JUNK_IDS];
    uint64_t seed;
    uint64_t cut_random;
    uint64_t now_ps; /* virtual: up to where world_advance() has come */
    uint64_t spare_bufs; /* for groups, at the start */
};

/* --- a member's stream ---------------------------------------------------------------- */

static inline void host_mix(struct host *h, uint64_t number)
{
    h->digest = (h->digest ^ number) * UINT64_C(0x100000001b3);
}

static inline void member_settle(struct member *m)
{
    if (!--m->left)
        atomic_fetch_sub(&m->stream->left, 1);
}

/* Operation @i is complete here: its result came, or there is none for us. */
static inline void member_complete(struct member *m, uint64_t i)
{
    m->complete[i / USABLE]++;
    while (m->complete[m->cur] == USABLE)
        m->cur++;
}

static inline bool member_open(const struct member *m, uint64_t half)
{
    return half < m->done + 2;
}

static inline bool member_token_due(const struct member *m)
{
    return m->issued < m->cur && member_open(m, m->issued);
}

/* Has it something to post that it may post? */
static inline bool member_may_post(struct member *m, uint32_t node)
{
    struct op op;

    if (member_token_due(m))
        return true;
    for (; m->next < m->stream->ops; m->next++) {
        draw_op(m->stream, m->next, &op);
        if (op_posts(&op, node))
            return member_open(m, m->next / USABLE);
    }
    return false;
}

static inline uint64_t member_delay_ps(struct world *w, struct member *m)
{
    uint64_t number = test_random(&m->random);

    if (!w->set.delay_ps || number % 2)
        return 0;
    return number / 2 % (number / 64 % 16 ? w->set.delay_ps / 16 + 1 : w->set.delay_ps);
}

/* The header and payload of what it posts next; it is posted. */
static inline void member_post(struct host *h, struct member *m, struct line *ret)
{
    struct stream *s = m->stream;
    uint64_t i = m->next;
    struct op op;

    if (member_token_due(m)) {
        uint32_t half = m->issued++;

        atomic_fetch_add(&s->posted[s->ops + half], 1);
        ret->hdr = (struct emu_hdr){.dst = s->id, .kind = EMU_BARRIER,
                                    .seq = s->base + half * (EMU_WINDOW / 2) + (EMU_WINDOW / 2) - 1};
        return;
    }
    draw_op(s, i, &op);
    m->next++;
    atomic_fetch_add(&s->posted[i], 1);
    ret->hdr = (struct emu_hdr){.dst = s->id, .seq = stream_seq(s, i), .len = op.len, .op = op.op,
                                .type = op.type,
                                .kind = (uint8_t)(op.kind | (op.told ? EMU_TOLD : 0))};
    contribution(s, i, &op, h->node, ret->payload);
    if (!op_awaits(&op, h->node))
        member_complete(m, i);
    member_settle(m);
}

static inline bool member_take_token(struct member *m, uint32_t half, const struct emu_hdr *hdr)
{
    const struct stream *s = m->stream;

    if (half >= m->issued || m->token_back[half] || hdr->kind != EMU_BARRIER || hdr->len ||
        atomic_load(&s->posted[s->ops + half]) != s->members)
        return false;
    m->token_back[half] = true;
    while (m->token_back[m->done])
        m->done++;
    return true;
}

/* The adapter says that all have our multicast @i. Hosts that nap may not have looked at it yet. */
static inline bool member_take_told(struct host *h, struct member *m, uint64_t i,
                                    const struct op *op, const struct emu_entry *entry)
{
    struct stream *s = m->stream;

    if (entry->hdr.kind != (EMU_MULTICAST | EMU_TOLD) || op->kind != EMU_MULTICAST || !op->told ||
        op->root != h->node || entry->hdr.src != h->node || entry->hdr.len ||
        entry->buf != EMU_NO_BUF || m->told[i]++)
        return false;
    if (h->dev.timed && !h->world->set.nap_ps && atomic_load(&s->taken[i]) != s->members - 1)
        return false;
    member_settle(m);
    return true;
}

static inline bool result_good(const struct host *h, const struct stream *s, uint64_t i,
                               const struct op *op, const struct emu_entry *entry)
{
    struct emu_pool *pool = h->dev.worker->cache.pool;
    uint8_t want[EMU_PAYLOAD_BYTES];

    if (entry->hdr.kind != op->kind || entry->hdr.len != op->len || entry->hdr.op != op->op ||
        entry->hdr.type != op->type || entry->hdr.src >= h->world->fabric->engine[h->node]->nodes ||
        (op->kind == EMU_MULTICAST && entry->hdr.src != op->root) ||
        (entry->buf == EMU_NO_BUF) != !op->len)
        return false;
    if ((s->mix & MIX_ROUGH) || !op->len)
        return true;
    result_of(s, i, op, want);
    return !memcmp(want, emu_pool_bytes(pool, entry->buf), op->len);
}

static inline uint64_t bytes_sum(const uint8_t *bytes, uint32_t count)
{
    uint64_t sum = count;

    for (uint32_t b = 0; b < count; b++)
        sum = sum * 0x9e3779b97f4a7c15u + bytes[b];
    return sum;
}

/* A segment of a stream: is it what it should be, once, and not before it can be? */
static inline bool member_take(struct host *h, struct member *m, const struct emu_entry *entry)
{
    struct stream *s = m->stream;
    uint32_t number = entry->hdr.seq - s->base;
    uint64_t i = (uint64_t)number / (EMU_WINDOW / 2) * USABLE + number % (EMU_WINDOW / 2);
    struct op op;

    if (number % (EMU_WINDOW / 2) == (EMU_WINDOW / 2) - 1)
        return member_take_token(m, number / (EMU_WINDOW / 2), &entry->hdr);
    if (i >= s->ops)
        return false;
    draw_op(s, i, &op);
    if (entry->hdr.kind & EMU_TOLD)
        return member_take_told(h, m, i, &op, entry);
    if (!op_awaits(&op, h->node) || m->got[i]++ || !result_good(h, s, i, &op, entry) ||
        atomic_load(&s->posted[i]) != contributions(s, &op))
        return false;
    if (op.kind == EMU_MULTICAST)
        atomic_fetch_add(&s->taken[i], 1);
    else if (entry->buf != EMU_NO_BUF)
        h->bits += bytes_sum(emu_pool_bytes(h->dev.worker->cache.pool, entry->buf), op.len) *
                   (s->seed + i);
    member_complete(m, i);
    member_settle(m);
    return true;
}

/* --- unicasts ------------------------------------------------------------------------- */

static inline void noise_draw(const struct world *w, uint32_t node, uint32_t i, struct emu_hdr *hdr)
{
    uint64_t number = draw(w->seed + 3, node, i, 0);

    *hdr = (struct emu_hdr){.dst = (uint32_t)(number >> 32) % w->hosts, .src = node, .seq = i,
                            .kind = (uint8_t)(EMU_UNICAST | (i % 3 ? 0 : EMU_TOLD)),
                            .op = NOISE_OP,
                            .len = (uint8_t)(number % 2 ? EMU_PAYLOAD_BYTES : number / 2 % 64)};
}

static inline void noise_payload(const struct emu_hdr *hdr, uint8_t *bytes)
{
    for (uint32_t b = 0; b < hdr->len; b++)
        bytes[b] = (uint8_t)(hdr->src * 31 + hdr->seq * 7 + b);
}

static inline bool noise_take(struct host *h, const struct emu_entry *entry)
{
    struct world *w = h->world;
    uint8_t want[EMU_PAYLOAD_BYTES];
    struct emu_hdr hdr;
    uint64_t at;

    if (entry->hdr.src >= w->hosts || entry->hdr.seq >= w->set.noise)
        return false;
    noise_draw(w, entry->hdr.src, entry->hdr.seq, &hdr);
    at = (uint64_t)hdr.src * w->set.noise + hdr.seq;
    atomic_fetch_sub(&w->noise_left, 1);
    if (entry->hdr.kind & EMU_TOLD)
        return hdr.kind & EMU_TOLD && hdr.src == h->node && !entry->hdr.len &&
               !atomic_fetch_add(&w->noise_told[at], 1) &&
               (!h->dev.timed || w->set.nap_ps || atomic_load(&w->noise_got[at]));
    hdr.kind = EMU_UNICAST;
    if (memcmp(&hdr, &entry->hdr, sizeof(hdr)) || hdr.dst != h->node ||
        atomic_fetch_add(&w->noise_got[at], 1))
        return false;
    noise_payload(&hdr, want);
    return !hdr.len || !memcmp(want, emu_pool_bytes(h->dev.worker->cache.pool, entry->buf), hdr.len);
}

/* --- junk: whatever an edge lets pass ------------------------------------------------- */

static inline void junk_word(uint64_t number, struct line *ret)
{
    struct emu_word word = {.value = number >> 60, .word = (uint32_t)(number >> 8) % 20,
                            .test = (uint8_t)(number >> 16 & 3), .until = (uint8_t)(number >> 18 & 1)};

    ret->hdr.len = sizeof(word);
    memcpy(ret->payload, &word, sizeof(word));
}

static inline void junk_draw(struct host *h, struct line *ret)
{
    static const uint8_t kinds[] = {EMU_MULTICAST, EMU_MULTICAST | EMU_TOLD, EMU_REDUCE, EMU_SET,
                                    EMU_ALLREDUCE, EMU_BARRIER, EMU_TEST, EMU_ALLREDUCE};
    struct world *w = h->world;
    uint64_t number = test_random(&h->random);
    struct stream any = {.mix = MIX_ALL};
    struct op op = {0};

    ret->hdr = (struct emu_hdr){
        .dst = atomic_load_explicit(&w->junk_id[number % JUNK_IDS], memory_order_relaxed),
        .kind = kinds[number / 8 % 8], .seq = (uint32_t)(number >> 16 & 7)};
    if (number >> 20 % 64 == 0)
        ret->hdr.seq = (uint32_t)(number >> 32);
    number = test_random(&h->random);
    memset(ret->payload, 0, sizeof(ret->payload));
    if (ret->hdr.kind == EMU_REDUCE || ret->hdr.kind == EMU_ALLREDUCE) {
        draw_reduction(&any, number >> 40 & 3, &op); /* few, so that many agree */
        ret->hdr.op = op.op;
        ret->hdr.type = op.type;
        ret->hdr.len = op.len;
    } else if (ret->hdr.kind == EMU_SET || ret->hdr.kind == EMU_TEST) {
        junk_word(number, ret);
    } else if (ret->hdr.kind != EMU_BARRIER) {
        ret->hdr.len = (uint8_t)(number % (EMU_PAYLOAD_BYTES + 1));
    }
}

/* --- hosts ---------------------------------------------------------------------------- */

static inline struct member *host_member(const struct host *h, uint32_t id)
{
    for (uint32_t m = 0; m < h->members; m++)
        if (h->member[m]->stream->id == id)
            return h->member[m];
    return NULL;
}

static inline void host_log(struct host *h, const struct emu_entry *entry, uint64_t at_ps)
{
    struct line *line;

    emu_count(&h->other, 1);
    if (h->heard == LOG_MAX)
        return;
    if (!h->log)
        h->log = calloc(LOG_MAX, sizeof(*h->log));
    line = &h->log[h->heard++];
    line->at_ps = at_ps;
    line->hdr = entry->hdr;
    if (entry->buf != EMU_NO_BUF)
        memcpy(line->payload, emu_pool_bytes(h->dev.worker->cache.pool, entry->buf),
               entry->hdr.len);
}

static inline void host_take_entry(struct host *h, const struct emu_entry *entry, uint64_t at_ps)
{
    struct member *m = host_member(h, entry->hdr.dst);
    bool unicast = (entry->hdr.kind & ~EMU_TOLD) == EMU_UNICAST, good = true;

    if (unicast && entry->hdr.op == NOISE_OP)
        good = noise_take(h, entry);
    else if (m && !unicast && !(entry->hdr.kind & EMU_FAILED))
        good = member_take(h, m, entry);
    else
        host_log(h, entry, at_ps);
    emu_count(&h->results, good);
    emu_count(&h->wrong, !good);
    host_mix(h, at_ps);
    host_mix(h, (uint64_t)entry->hdr.seq << 32 | entry->hdr.src << 16 | entry->hdr.kind);
    host_mix(h, entry->born_ns);
    if (entry->buf != EMU_NO_BUF)
        host_mix(h, bytes_sum(emu_pool_bytes(h->dev.worker->cache.pool, entry->buf),
                              entry->hdr.len));
}

/* A host says one thing at a time. */
enum voice { VOICE_NONE, VOICE_SCRIPT, VOICE_NOISE, VOICE_JUNK, VOICE_MEMBER };

struct turn {
    uint64_t ready_ps;
    enum voice voice;
    struct member *member;
};

static inline void turn_sooner(struct turn *turn, uint64_t ready_ps, enum voice voice,
                               struct member *member)
{
    if (turn->voice == VOICE_NONE || ready_ps < turn->ready_ps)
        *turn = (struct turn){.ready_ps = ready_ps, .voice = voice, .member = member};
}

/* What it says next, and when it is ready to. */
static inline struct turn host_turn(struct host *h)
{
    const struct setting *set = &h->world->set;
    uint64_t now_ps = h->now_ps;
    struct turn turn = {.voice = VOICE_NONE};

    if (h->said < h->lines)
        turn_sooner(&turn, h->script[h->said].at_ps > now_ps ? h->script[h->said].at_ps : now_ps,
                    VOICE_SCRIPT, NULL);
    for (uint32_t m = 0; m < h->members; m++)
        if (member_may_post(h->member[m], h->node))
            turn_sooner(&turn, h->member[m]->due_ps > now_ps ? h->member[m]->due_ps : now_ps,
                        VOICE_MEMBER, h->member[m]);
    if (h->noise < set->noise)
        turn_sooner(&turn, (uint64_t)h->noise * set->delay_ps / 8 > now_ps
                               ? (uint64_t)h->noise * set->delay_ps / 8 : now_ps,
                    VOICE_NOISE, NULL);
    if (h->junk < set->junk)
        turn_sooner(&turn, now_ps, VOICE_JUNK, NULL);
    return turn;
}

static inline void host_line(struct host *h, const struct turn *turn, struct line *ret)
{
    switch (turn->voice) {
    case VOICE_SCRIPT:
        *ret = h->script[h->said++];
        break;
    case VOICE_NOISE:
        noise_draw(h->world, h->node, h->noise++, &ret->hdr);
        noise_payload(&ret->hdr, ret->payload);
        break;
    case VOICE_JUNK:
        junk_draw(h, ret);
        h->junk++;
        break;
    default:
        member_post(h, turn->member, ret);
        break;
    }
}

/* Say it. There is room for it. */
static inline void host_say_turn(struct host *h, const struct turn *turn, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &h->dev.worker->cache;
    struct emu_entry entry = {.buf = EMU_NO_BUF};
    struct line line;

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
        turn->member->due_ps = at_ps + member_delay_ps(h->world, turn->member);
}

static inline uint64_t host_take_ps(struct host *h)
{
    uint64_t front_ps = emu_rx_next_ps(&h->rx);

    return front_ps == EMU_NEVER || front_ps > h->nap_ps ? front_ps : h->nap_ps;
}

static inline void host_take_one(struct host *h, uint64_t at_ps)
{
    const struct emu_entry *entry = emu_rx_front(&h->rx, at_ps);

    h->now_ps = at_ps;
    host_take_entry(h, entry, at_ps);
    emu_pool_drop(&h->dev.worker->cache, entry->buf);
    emu_rx_skip(&h->rx);
    emu_rx_done(&h->rx, 1);
    h->rx.owed = 1;
    emu_rx_pay(&h->rx, at_ps + (h->dev.timed ? h->world->profile.credit_ps : 0));
    if (h->dev.timed && h->world->set.nap_ps && test_random(&h->random) % 32 == 0)
        h->nap_ps = at_ps + test_random(&h->random) % h->world->set.nap_ps;
}

static inline uint32_t host_step_timed(struct emu_dev *dev, uint64_t until_ps)
{
    struct host *h = (struct host *)dev;
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
static inline uint32_t host_step_raw(struct emu_dev *dev, uint64_t until_ps)
{
    struct host *h = (struct host *)dev;
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

static inline int host_create(void *ctx, uint32_t node, struct emu_worker *worker,
                              struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx)
{
    size_t bytes = (sizeof(struct host) + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    struct host *h = aligned_alloc(EMU_LINE, bytes);
    struct world *w = ctx;

    memset(h, 0, bytes);
    emu_dev_init(&h->dev, worker,
                 worker->clock.mode == EMU_CLOCK_RAW ? host_step_raw : host_step_timed);
    h->world = w;
    h->node = node;
    h->now_ps = 1;
    h->random = draw(w->seed, node, 99, w->set.delay_seed);
    w->host[node] = h;
    *dev = &h->dev;
    *tx = &h->tx;
    *rx = &h->rx;
    return 0;
}

/* Virtual, between two advances; or before the start: the host looks again. */
static inline void host_wake(struct world *w, uint32_t node)
{
    emu_dev_again(&w->host[node]->dev);
    emu_dev_wake(&w->host[node]->dev, w->now_ps + 1);
}

/* The host will say this at @at_ps, after what it was told to say before. */
static inline void host_say(struct world *w, uint32_t node, const struct emu_hdr *hdr,
                            const void *payload, uint64_t at_ps)
{
    struct host *h = w->host[node];
    struct line *line;

    if (!(h->lines & (h->lines - 1))) {
        h->script = realloc(h->script, (h->lines ? 2 * h->lines : 1) * sizeof(*line));
        assert(h->script);
    }
    line = &h->script[h->lines++];
    *line = (struct line){.at_ps = at_ps > w->now_ps ? at_ps : w->now_ps + 1, .hdr = *hdr};
    if (payload)
        memcpy(line->payload, payload, hdr->len);
    host_wake(w, node);
}

/* How often it heard a segment of that kind, group and number, of no stream. The last: *ret. */
static inline uint32_t host_heard(const struct host *h, uint8_t kind, uint32_t dst, uint32_t seq,
                                  struct line *ret)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < h->heard; i++) {
        const struct line *line = &h->log[i];

        if (line->hdr.kind != kind || line->hdr.dst != dst || line->hdr.seq != seq)
            continue;
        count++;
        if (ret)
            *ret = *line;
    }
    return count;
}

/* --- groups --------------------------------------------------------------------------- */

static inline uint32_t group_make(struct world *w, const uint32_t *nodes, uint32_t count)
{
    char error[256];
    uint32_t id = 0;
    int err = fabric_group_create(w->fabric, nodes, count, &id, error, sizeof(error));

    if (err)
        printf("%s\n", error);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return id;
}

static inline uint32_t group_of_all(struct world *w)
{
    uint32_t nodes[HOSTS_MAX];

    for (uint32_t n = 0; n < w->hosts; n++)
        nodes[n] = n;
    return group_make(w, nodes, w->hosts);
}

static inline void group_end(struct world *w, uint32_t id)
{
    uint32_t nodes[HOSTS_MAX];
    uint32_t count = fabric_group_members(w->fabric, id, nodes, HOSTS_MAX);

    for (uint32_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL(fabric_group_leave(w->fabric, id, nodes[i]), 0);
}

/* @count different nodes, at random. */
static inline void nodes_draw(const struct world *w, uint64_t *random, uint32_t *node, uint32_t count)
{
    uint32_t all[HOSTS_MAX];

    for (uint32_t n = 0; n < w->hosts; n++)
        all[n] = n;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i + (uint32_t)(test_random(random) % (w->hosts - i)), pick = all[at];

        all[at] = all[i];
        node[i] = all[i] = pick;
    }
}

static inline struct member *member_create(const struct world *w, struct stream *s, uint32_t node)
{
    struct member *m = calloc(1, sizeof(*m));
    uint32_t halves = s->ops / USABLE + 2;
    struct op op;

    *m = (struct member){.stream = s, .due_ps = w->now_ps + 1,
                         .random = draw(s->seed, node, 5, w->set.delay_seed),
                         .complete = calloc(halves, 1), .token_back = calloc(halves, sizeof(bool)),
                         .got = calloc(s->ops, 1), .told = calloc(s->ops, 1)};
    for (uint64_t i = 0; i < s->ops; i++) {
        draw_op(s, i, &op);
        m->left += op_posts(&op, node) + op_awaits(&op, node) + (op.told && op.root == node);
    }
    return m;
}

static inline void member_destroy(struct member *m)
{
    free(m->complete);
    free(m->token_back);
    free(m->got);
    free(m->told);
    free(m);
}

/* A stream of @ops operations over a new group of these nodes, from now on. Virtual, or before the start. */
static inline struct stream *stream_begin(struct world *w, const uint32_t *node, uint32_t members,
                                          uint32_t ops, uint64_t seed)
{
    struct stream *s = calloc(1, sizeof(*s));

    *s = (struct stream){.base = (uint32_t)(seed >> 32) % 3 ? 0 : UINT32_MAX - 2 * EMU_WINDOW + 1,
                         .members = members, .ops = ops, .seed = seed, .left = members,
                         .mix = w->set.mix ? w->set.mix : MIX_ALL};
    s->posted = calloc(ops + ops / USABLE + 2, sizeof(*s->posted));
    s->taken = calloc(ops, sizeof(*s->taken));
    memcpy(s->node, node, members * sizeof(*node));
    s->id = group_make(w, node, members);
    for (uint32_t m = 0; m < members; m++) {
        struct host *h = w->host[node[m]];

        CU_ASSERT_TRUE_FATAL(h->members < STREAMS_MAX);
        h->member[h->members++] = member_create(w, s, node[m]);
        host_wake(w, node[m]);
    }
    CU_ASSERT_TRUE_FATAL(w->streams < STREAMS_MAX);
    w->stream[w->streams++] = s;
    return s;
}

/* All leave the group of stream @at, whatever is under way. Virtual, or when nothing runs. */
static inline void stream_end(struct world *w, uint32_t at)
{
    struct stream *s = w->stream[at];

    group_end(w, s->id);
    for (uint32_t i = 0; i < s->members; i++) {
        struct host *h = w->host[s->node[i]];
        struct member **m = h->member;

        while ((*m)->stream != s)
            m++;
        member_destroy(*m);
        *m = h->member[--h->members];
    }
    w->stream[at] = w->stream[--w->streams];
    free(s->posted);
    free(s->taken);
    free(s);
}

/* --- made and taken apart ------------------------------------------------------------- */

static inline void world_profile(struct emu_profile *profile, const char *set)
{
    char text[256], error[512], *save = NULL;

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(profile, "qsnet3", error, sizeof(error)), 0);
    snprintf(text, sizeof(text), "%s", set ? set : "");
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(profile, at, error, sizeof(error)), 0);
}

static inline void world_start(struct world *w)
{
    uint32_t each = w->set.faults;
    struct fabric_config config = {.clock = w->set.clock, .profile = w->profile, .seed = w->seed,
                                   .threads = w->set.workers ? w->set.workers : 1,
                                   .start_stopped = true};
    char error[256];
    int err;

    w->rates = (struct emu_fault_rates){.lost = w->set.lost ? w->set.lost : each, .head = each,
                                        .payload = each, .twice = each, .late = each,
                                        .late_ps = 2000000};
    CU_ASSERT_EQUAL_FATAL(topo_parse(&w->graph, w->set.topo, error, sizeof(error)), 0);
    CU_ASSERT_TRUE_FATAL(w->graph->nodes <= HOSTS_MAX);
    w->hosts = w->graph->nodes;
    w->ops = (struct fabric_node_ops){.create = host_create, .ctx = w};
    config.graph = w->graph;
    config.local_nodes = &w->ops;
    config.faults = each || w->set.lost ? &w->rates : NULL;
    err = fabric_start(&w->fabric, &config, error, sizeof(error));
    if (err)
        printf("%s\n", error);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    w->spare_bufs = w->fabric->spare_bufs;
}

static inline void world_streams(struct world *w)
{
    uint64_t random = w->seed + 11;
    uint32_t node[HOSTS_MAX];

    for (uint32_t i = 0; i < w->set.streams; i++) {
        uint32_t members = 2 + (uint32_t)(test_random(&random) % (w->hosts - 1));

        if (w->set.all)
            members = w->hosts;
        nodes_draw(w, &random, node, members);
        stream_begin(w, node, members, w->set.ops, test_random(&random));
    }
}

static inline void world_open(struct world *w, const struct setting *set)
{
    uint64_t awaited = 0;
    struct emu_hdr hdr;

    memset(w, 0, sizeof(*w));
    w->set = *set;
    w->seed = test_seed();
    w->cut_random = w->seed ^ set->cut_ps;
    world_profile(&w->profile, set->set);
    world_start(w);
    w->noise_got = calloc(w->hosts * set->noise + 1u, 1);
    w->noise_told = calloc(w->hosts * set->noise + 1u, 1);
    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint32_t i = 0; i < set->noise; i++) {
            noise_draw(w, n, i, &hdr);
            awaited += 1 + (hdr.kind & EMU_TOLD ? 1 : 0);
        }
    w->noise_left = awaited;
    world_streams(w);
    for (uint32_t n = 0; n < w->hosts; n++)
        host_wake(w, n);
}

static inline void world_close(struct world *w)
{
    while (w->streams)
        stream_end(w, 0);
    for (uint32_t n = 0; n < w->hosts; n++)
        emu_link_unjoin(&w->host[n]->tx);
    fabric_stop(w->fabric);
    topo_free(w->graph);
    for (uint32_t n = 0; n < w->hosts; n++) {
        free(w->host[n]->script);
        free(w->host[n]->log);
        free(w->host[n]);
    }
    free(w->noise_got);
    free(w->noise_told);
}

/* --- run ------------------------------------------------------------------------------ */

static inline uint64_t world_count(const struct world *w, size_t offset)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        sum += emu_count_read((const _Atomic uint64_t *)(const void *)(
            (const uint8_t *)engine_counts(w->fabric->engine[n]) + offset));
    return sum;
}
#define COUNT(w, field) world_count(w, offsetof(struct engine_counts, field))

static inline uint64_t world_wrong(const struct world *w)
{
    uint64_t wrong = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        wrong += emu_count_read(&w->host[n]->wrong);
    return wrong;
}

static inline uint64_t world_other(const struct world *w)
{
    uint64_t other = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        other += emu_count_read(&w->host[n]->other);
    return other;
}

/* Is everything through that the hosts do of themselves? */
static inline bool world_through(const struct world *w)
{
    for (uint32_t s = 0; s < w->streams; s++)
        if (atomic_load(&w->stream[s]->left))
            return false;
    return !atomic_load(&w->noise_left);
}

/* Virtual. */
static inline void world_advance(struct world *w, uint64_t until_ps)
{
    fabric_advance(w->fabric, until_ps);
    w->now_ps = until_ps;
}

/* Virtual: until nothing is left to happen, or @limit_ps. */
static inline void world_run(struct world *w, uint64_t limit_ps)
{
    uint64_t next_ps, step_ps;

    while ((next_ps = fabric_next_ps(w->fabric)) <= limit_ps && next_ps != EMU_NEVER) {
        step_ps = w->set.cut_ps ? test_random(&w->cut_random) % w->set.cut_ps : 10000000;
        world_advance(w, next_ps + step_ps < limit_ps ? next_ps + step_ps : limit_ps);
    }
}

static inline bool world_idle(const struct world *w)
{
    for (uint32_t n = 0; n < w->hosts; n++)
        if (!engine_idle(w->fabric->engine[n]))
            return false;
    for (uint32_t s = 0; w->fabric->unit && s < w->graph->switches; s++)
        if (!engine_idle(w->fabric->unit[s]))
            return false;
    return true;
}

static inline uint64_t world_digest(const struct world *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        digest = digest * 31 + w->host[n]->digest;
    return digest + (COUNT(w, retransmissions) << 32) + (COUNT(w, unequal) << 16) +
           COUNT(w, contributions);
}

/* Buffers that are in no cache and not in the depot. */
static inline uint32_t world_bufs_held(const struct world *w)
{
    struct emu_pool *pool = w->fabric->pool;
    uint32_t free = w->fabric->cache.count;

    for (uint32_t i = 0; i < w->fabric->workers; i++)
        free += w->fabric->worker[i]->cache.count;
    for (uint32_t at = (uint32_t)atomic_load(&pool->depot); at; at = pool->chain[at - 1])
        free += EMU_POOL_CHAIN;
    return pool->fresh - free;
}

static inline bool world_says(const char *what, uint64_t number)
{
    printf("%llu %s\n", (unsigned long long)number, what);
    return false;
}

/*
 * Nothing runs and no group is left: no engine keeps anything, everything that groups set aside is
 * back, and every buffer. On clock raw switches may keep some on stale channels.
 */
static inline bool world_clean(struct world *w)
{
    char error[256];

    while (w->streams)
        stream_end(w, 0);
    if (w->set.clock == EMU_CLOCK_VIRTUAL)
        world_run(w, w->now_ps + LIMIT_PS);
    fabric_groups_sweep(w->fabric);
    for (uint32_t i = 0; i < w->fabric->faulty; i++)
        emu_faults_drop(&w->fabric->faults[i], &w->fabric->worker[0]->cache);
    for (uint32_t n = 0; n < w->hosts; n++) {
        const char *wrong = engine_check(w->fabric->engine[n]);

        if (wrong)
            return world_says(wrong, n);
    }
    if (!world_idle(w))
        return world_says("engines: some are not idle", w->hosts);
    if (w->fabric->gone || w->fabric->spare_bufs != w->spare_bufs)
        return world_says("buffers are spare", w->fabric->spare_bufs);
    if (w->set.clock == EMU_CLOCK_RAW)
        return true;
    if (fabric_check(w->fabric, w->now_ps, error, sizeof(error)))
        return world_says(error, 0);
    return world_bufs_held(w) ? world_says("buffers are lost", world_bufs_held(w)) : true;
}

static inline void world_threads(struct world *w)
{
    for (uint32_t i = 0; i < w->fabric->workers; i++)
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&w->fabric->thread[i], w->fabric->worker[i],
                                               "tree-test"),
                              0);
}

static inline void world_stop_threads(struct world *w)
{
    for (uint32_t i = 0; i < w->fabric->workers; i++) {
        emu_thread_stop(w->fabric->thread[i]);
        w->fabric->thread[i] = NULL;
        atomic_store(&w->fabric->worker[i]->stop, 0);
    }
}

/* Raw, by hand: until all is through and the engines are idle. False: not in so many passes. */
static inline bool world_step(struct world *w, uint32_t passes)
{
    while (passes--) {
        for (uint32_t i = 0; i < w->fabric->workers; i++)
            emu_worker_pass(w->fabric->worker[i]);
        if (passes % 16 == 0 && world_through(w) && world_idle(w))
            return true;
    }
    return false;
}

#endif
