/* SPDX-License-Identifier: BSD-3-Clause */
/* trees_member.c - see trees.h: a host's place in a stream, as in nic/host/group/stream.c. */
#include <string.h>

#include "tests/test.h"
#include "tests/world/engine/trees.h"

static void member_settle(struct tree_member *m)
{
    if (!--m->left)
        atomic_fetch_sub(&m->stream->left, 1);
}

/* Operation @i is complete here: its result came, or there is none for us. */
static void member_complete(struct tree_member *m, uint64_t i)
{
    m->complete[i / TREES_USABLE]++;
    while (m->complete[m->cur] == TREES_USABLE)
        m->cur++;
}

static bool member_open(const struct tree_member *m, uint64_t half)
{
    return half < m->done + 2;
}

static bool member_token_due(const struct tree_member *m)
{
    return m->issued < m->cur && member_open(m, m->issued);
}

bool trees_member_may_post(struct tree_member *m, uint32_t node)
{
    struct tree_op op;

    if (member_token_due(m))
        return true;
    for (; m->next < m->stream->ops; m->next++) {
        trees_draw_op(m->stream, m->next, &op);
        if (trees_op_posts(&op, node))
            return member_open(m, m->next / TREES_USABLE);
    }
    return false;
}

uint64_t trees_member_delay_ps(struct trees *w, struct tree_member *m)
{
    uint64_t number = test_random(&m->random);

    if (!w->set.delay_ps || number % 2)
        return 0;
    return number / 2 % (number / 64 % 16 ? w->set.delay_ps / 16 + 1 : w->set.delay_ps);
}

void trees_member_post(struct tree_host *h, struct tree_member *m, struct tree_line *ret)
{
    struct tree_stream *s = m->stream;
    uint64_t i = m->next;
    struct tree_op op;

    if (member_token_due(m)) {
        uint32_t half = m->issued++;

        atomic_fetch_add(&s->posted[s->ops + half], 1);
        ret->hdr =
            (struct emu_hdr){.dst = s->id,
                             .kind = EMU_BARRIER,
                             .seq = s->base + half * (EMU_WINDOW / 2) + (EMU_WINDOW / 2) - 1};
        return;
    }
    trees_draw_op(s, i, &op);
    m->next++;
    atomic_fetch_add(&s->posted[i], 1);
    ret->hdr = (struct emu_hdr){.dst = s->id,
                                .seq = trees_seq(s, i),
                                .len = op.len,
                                .op = op.op,
                                .type = op.type,
                                .kind = (uint8_t)(op.kind | (op.told ? EMU_NOTIFY : 0))};
    trees_contribution(s, i, &op, h->node, ret->payload);
    if (!trees_op_awaits(&op, h->node))
        member_complete(m, i);
    member_settle(m);
}

static bool member_take_token(struct tree_member *m, uint32_t half, const struct emu_hdr *hdr)
{
    const struct tree_stream *s = m->stream;

    if (half >= m->issued || m->token_back[half] || hdr->kind != EMU_BARRIER || hdr->len ||
        atomic_load(&s->posted[s->ops + half]) != s->members)
        return false;
    m->token_back[half] = true;
    while (m->token_back[m->done])
        m->done++;
    return true;
}

/* The adapter says that all have our multicast @i. Hosts that nap may not have looked at it yet. */
static bool member_take_told(struct tree_host *h, struct tree_member *m, uint64_t i,
                             const struct tree_op *op, const struct emu_entry *entry)
{
    struct tree_stream *s = m->stream;

    if (entry->hdr.kind != (EMU_MULTICAST | EMU_NOTIFY) || op->kind != EMU_MULTICAST || !op->told ||
        op->root != h->node || entry->hdr.src != h->node || entry->hdr.len ||
        entry->buf != EMU_NO_BUF || m->told[i]++)
        return false;
    if (h->dev.timed && !h->world->set.nap_ps && atomic_load(&s->taken[i]) != s->members - 1)
        return false;
    member_settle(m);
    return true;
}

static bool result_good(const struct tree_host *h, const struct tree_stream *s, uint64_t i,
                        const struct tree_op *op, const struct emu_entry *entry)
{
    struct emu_pool *pool = h->dev.worker->cache.pool;
    uint8_t want[EMU_PAYLOAD_BYTES];

    if (entry->hdr.kind != op->kind || entry->hdr.len != op->len || entry->hdr.op != op->op ||
        entry->hdr.type != op->type ||
        entry->hdr.src >= fabric_engine_numbers(&h->world->fabric->config) ||
        (op->kind == EMU_MULTICAST && entry->hdr.src != op->root) ||
        (entry->buf == EMU_NO_BUF) != !op->len)
        return false;
    if ((s->mix & MIX_ROUGH) || !op->len)
        return true;
    trees_result(s, i, op, want);
    return !memcmp(want, emu_pool_bytes(pool, entry->buf), op->len);
}

uint64_t trees_bytes_sum(const uint8_t *bytes, uint32_t count)
{
    uint64_t sum = count;

    for (uint32_t b = 0; b < count; b++)
        sum = sum * 0x9e3779b97f4a7c15u + bytes[b];
    return sum;
}

bool trees_member_take(struct tree_host *h, struct tree_member *m, const struct emu_entry *entry)
{
    struct tree_stream *s = m->stream;
    uint32_t number = entry->hdr.seq - s->base;
    uint64_t i = (uint64_t)number / (EMU_WINDOW / 2) * TREES_USABLE + number % (EMU_WINDOW / 2);
    struct tree_op op;

    if (number % (EMU_WINDOW / 2) == (EMU_WINDOW / 2) - 1)
        return member_take_token(m, number / (EMU_WINDOW / 2), &entry->hdr);
    if (i >= s->ops)
        return false;
    trees_draw_op(s, i, &op);
    if (entry->hdr.kind & EMU_NOTIFY)
        return member_take_told(h, m, i, &op, entry);
    if (!trees_op_awaits(&op, h->node) || m->got[i]++ || !result_good(h, s, i, &op, entry) ||
        atomic_load(&s->posted[i]) != trees_contributions(s, &op))
        return false;
    if (op.kind == EMU_MULTICAST)
        atomic_fetch_add(&s->taken[i], 1);
    else if (entry->buf != EMU_NO_BUF)
        h->bits += trees_bytes_sum(emu_pool_bytes(h->dev.worker->cache.pool, entry->buf), op.len) *
                   (s->seed + i);
    member_complete(m, i);
    member_settle(m);
    return true;
}

struct tree_member *trees_member_create(const struct trees *w, struct tree_stream *s, uint32_t node)
{
    struct tree_member *m = calloc(1, sizeof *m);
    uint32_t halves = s->ops / TREES_USABLE + 2;
    struct tree_op op;

    *m = (struct tree_member){.stream = s,
                              .due_ps = w->now_ps + 1,
                              .random = trees_draw(s->seed, node, 5, w->set.delay_seed),
                              .complete = calloc(halves, 1),
                              .token_back = calloc(halves, sizeof(bool)),
                              .got = calloc(s->ops, 1),
                              .told = calloc(s->ops, 1)};
    for (uint64_t i = 0; i < s->ops; i++) {
        trees_draw_op(s, i, &op);
        m->left += trees_op_posts(&op, node) + trees_op_awaits(&op, node) +
                   (op.told && op.root == node);
    }
    return m;
}

void trees_member_destroy(struct tree_member *m)
{
    free(m->complete);
    free(m->token_back);
    free(m->got);
    free(m->told);
    free(m);
}
