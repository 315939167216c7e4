/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_node.c - how segments are drawn, sent, received and checked.
 */
#include "tests/world/engine/transport_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/link/link.h"
#include "emu/util/random.h"
#include "tests/world/bytes.h"

#define NODE_BURST   64u /* raw: segments in one pass, each way */
#define GROUP_ONE_IN 16u /* messages, of a node that is member of a group */
#define TOLD_ONE_IN  8u  /* segments ask to be told: these numbers, and no others */

struct set {
    uint64_t *word;
    size_t words;
};

struct transport_node {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    const struct transport_nodes *all;
    uint32_t node;

    /* Sending: the message that is being sent. */
    uint64_t random;
    uint64_t drawn;                     /* messages, this one included */
    uint32_t stream;                    /* of this node: a node, or nodes + a group */
    uint32_t left;                      /* segments of it */
    uint32_t rest;                      /* bytes of it */
    uint32_t own[TRANSPORT_GROUPS_MAX]; /* groups that this node is a member of */
    uint32_t owns;
    uint64_t *next; /* by stream: number of the next segment */

    /* Receiving. */
    struct set *came;   /* by source and what stream_slot() says */
    struct set *failed; /* by own stream: given up, */
    struct set *told;   /* and those that are at their destinations, of those that asked */
    uint64_t content, order;
    char wrong_line[200];

    struct {
        _Atomic uint64_t sent, awaited, asked, came, failed, innocent, told, wrong;
        _Atomic uint64_t done; /* 1: has sent everything */
    } counts;
};

/* --- what a segment is -------------------------------------------------------------- */

static uint64_t segment_key(const struct transport_plan *plan, uint32_t src, uint32_t stream,
                            uint64_t number)
{
    uint64_t key = emu_mix(plan->seed ^ emu_mix((uint64_t)src << 32 | stream));

    return emu_splitmix_at(key, number);
}

/* Does its sender ask to be told when it is at all of its destinations? */
static bool segment_asks(uint64_t number)
{
    return number % TOLD_ONE_IN == TOLD_ONE_IN / 2;
}

/* As it is sent, but for EMU_NOTIFY. */
static struct emu_hdr segment_hdr(const struct transport_plan *plan, uint32_t src, uint32_t stream,
                                  uint64_t number, uint8_t len)
{
    uint64_t word = emu_mix(segment_key(plan, src, stream, number) + 1);
    bool group = stream >= plan->nodes;

    return (struct emu_hdr){.dst = group ? plan->group[stream - plan->nodes] : stream,
                            .src = src,
                            .seq = (uint32_t)number,
                            .kind = group ? EMU_MULTICAST : EMU_UNICAST,
                            .len = len,
                            .op = (uint8_t)word,
                            .type = (uint8_t)(word >> 8)};
}

/* What goes with it outside of its header: vouches for its length. */
static uint32_t segment_note(const struct transport_plan *plan, uint32_t src, uint32_t stream,
                             uint64_t number, uint8_t len)
{
    return (uint32_t)(emu_mix(segment_key(plan, src, stream, number) ^ len) >> 32);
}

/* --- sets of numbers ---------------------------------------------------------------- */

static bool set_has(const struct set *set, uint64_t number)
{
    return number / 64 < set->words && (set->word[number / 64] >> number % 64 & 1);
}

/* False: no memory. */
static bool set_grow(struct set *set, uint64_t number)
{
    size_t words = 2 * set->words + 64;
    uint64_t *word;

    while (words <= number / 64)
        words *= 2;
    word = realloc(set->word, words * sizeof *word);
    if (!word)
        return false;
    memset(word + set->words, 0, (words - set->words) * sizeof *word);
    set->word = word;
    set->words = words;
    return true;
}

/* Put @number in. NULL, or what is wrong. */
static const char *set_add(struct set *set, uint64_t number)
{
    if (set_has(set, number))
        return "came twice";
    if (number / 64 >= set->words && !set_grow(set, number))
        return "no memory to remember it";
    set->word[number / 64] |= (uint64_t)1 << number % 64;
    return NULL;
}

static void sets_free(struct set *sets, uint32_t count)
{
    for (uint32_t i = 0; sets && i < count; i++)
        free(sets[i].word);
    free(sets);
}

/* Where a receiver keeps the stream of a source: its own one first, then groups. */
static uint32_t stream_slot(const struct transport_plan *plan, uint32_t src, uint32_t stream)
{
    return src * (1 + plan->groups) + (stream < plan->nodes ? 0 : 1 + stream - plan->nodes);
}

static bool is_member(const struct transport_plan *plan, uint32_t group, uint32_t node)
{
    return plan->members[group][node / 64] >> node % 64 & 1;
}

/* --- receiving ---------------------------------------------------------------------- */

/* What a header says beside the kind of its segment. */
#define NODE_WORDS (EMU_NOTIFY | EMU_FAILED)

static void node_wrong(struct transport_node *node, const struct emu_hdr *hdr, const char *what)
{
    if (!emu_count_read(&node->counts.wrong))
        snprintf(node->wrong_line, sizeof node->wrong_line,
                 "node %u: %s: segment %u from node %u to %s %u, %u bytes, kind %u", node->node,
                 what, hdr->seq, hdr->src,
                 (hdr->kind & ~NODE_WORDS) == EMU_MULTICAST ? "group" : "node", hdr->dst, hdr->len,
                 hdr->kind);
    emu_count(&node->counts.wrong, 1);
}

/* The stream that a header is of; UINT32_MAX: of none. */
static uint32_t hdr_stream(const struct transport_plan *plan, const struct emu_hdr *hdr)
{
    uint32_t group = 0;

    if (hdr->src >= plan->nodes)
        return UINT32_MAX;
    if ((hdr->kind & ~NODE_WORDS) == EMU_UNICAST)
        return hdr->dst < plan->nodes ? hdr->dst : UINT32_MAX;
    while (group < plan->groups && plan->group[group] != hdr->dst)
        group++;
    return group < plan->groups ? plan->nodes + group : UINT32_MAX;
}

/* Was it meant for this node? */
static bool node_wants(const struct transport_node *node, uint32_t stream,
                       const struct emu_hdr *hdr)
{
    const struct transport_plan *plan = &node->all->plan;

    if (stream == UINT32_MAX)
        return false;
    if (hdr->kind & NODE_WORDS)
        return hdr->src == node->node && hdr->seq < node->next[stream];
    if (hdr->src == node->node)
        return false;
    return stream < plan->nodes ? stream == node->node
                                : is_member(plan, stream - plan->nodes, node->node) &&
                                      is_member(plan, stream - plan->nodes, hdr->src);
}

/* Is every bit of it as it was sent? What tells only that it is there comes without payload. */
static bool node_knows(const struct transport_node *node, uint32_t stream,
                       const struct emu_entry *entry)
{
    const struct transport_plan *plan = &node->all->plan;
    const struct emu_hdr *hdr = &entry->hdr;
    struct emu_hdr want = segment_hdr(plan, hdr->src, stream, hdr->seq, hdr->len);

    want.kind |= hdr->kind & NODE_WORDS;
    if (memcmp(&want, hdr, sizeof want) || hdr->len > EMU_PAYLOAD_BYTES ||
        (entry->buf == EMU_NO_BUF) != !hdr->len)
        return false;
    if ((hdr->kind & NODE_WORDS) == EMU_NOTIFY)
        return !hdr->len;
    if (entry->born_ns != segment_note(plan, hdr->src, stream, hdr->seq, hdr->len))
        return false;
    return !hdr->len || bytes_filled(emu_pool_bytes(node->dev.worker->cache.pool, entry->buf),
                                     hdr->len, segment_key(plan, hdr->src, stream, hdr->seq));
}

static bool concerns_deaf(const struct transport_plan *plan, uint32_t src, uint32_t stream)
{
    return src == plan->deaf || stream == plan->deaf ||
           (plan->deaf < plan->nodes && stream >= plan->nodes &&
            is_member(plan, stream - plan->nodes, plan->deaf));
}

/* It came here. NULL, or what is wrong. */
static const char *node_got(struct transport_node *node, uint32_t stream,
                            const struct emu_entry *entry)
{
    const struct transport_plan *plan = &node->all->plan;
    const struct emu_hdr *hdr = &entry->hdr;
    uint64_t print = (uint64_t)entry->born_ns << 32 ^ (uint64_t)stream << 16 ^ hdr->src;

    node->content += emu_mix(print + ((uint64_t)node->node << 40) + emu_spread(hdr->seq));
    emu_count(&node->counts.came, 1);
    return set_add(&node->came[stream_slot(plan, hdr->src, stream)], hdr->seq);
}

/* One of this node's own was given up. */
static const char *node_failed(struct transport_node *node, uint32_t stream,
                               const struct emu_hdr *hdr)
{
    const struct transport_plan *plan = &node->all->plan;

    if (!plan->may_fail)
        return "given up";
    if (!!(hdr->kind & EMU_NOTIFY) != segment_asks(hdr->seq))
        return "asked, or did not ask, to be told";
    emu_count(&node->counts.failed, 1);
    emu_count(&node->counts.innocent, !concerns_deaf(plan, node->node, stream));
    return set_add(&node->failed[stream], hdr->seq);
}

/* One of its own is at all of its destinations. */
static const char *node_told(struct transport_node *node, uint32_t stream,
                             const struct emu_hdr *hdr)
{
    if (!segment_asks(hdr->seq))
        return "told, and nobody asked";
    emu_count(&node->counts.told, 1);
    return set_add(&node->told[stream], hdr->seq);
}

static void node_deliver(struct transport_node *node, const struct emu_entry *entry, uint64_t at_ps)
{
    const struct emu_hdr *hdr = &entry->hdr;
    uint32_t stream = hdr_stream(&node->all->plan, hdr);
    const char *wrong;

    if (!node_wants(node, stream, hdr))
        wrong = "not for here";
    else if (!node_knows(node, stream, entry))
        wrong = "not as it was sent";
    else if (hdr->kind & EMU_FAILED)
        wrong = node_failed(node, stream, hdr);
    else if (hdr->kind & EMU_NOTIFY)
        wrong = node_told(node, stream, hdr);
    else
        wrong = node_got(node, stream, entry);
    if (wrong)
        node_wrong(node, hdr, wrong);
    node->order = emu_mix(node->order ^ emu_mix(at_ps) ^ (uint64_t)hdr->kind << 56 ^
                          (uint64_t)stream << 40 ^ (uint64_t)hdr->src << 32 ^ hdr->seq);
}

static uint32_t node_take(struct transport_node *node, uint64_t until_ps)
{
    bool timed = node->dev.timed;
    const struct emu_entry *entry;
    uint32_t taken = 0;

    for (; (timed || taken < NODE_BURST) && (entry = emu_rx_front(&node->rx, until_ps)); taken++) {
        uint64_t at_ps = timed ? entry->time_ps : 0;

        node_deliver(node, entry, at_ps);
        emu_pool_drop(&node->dev.worker->cache, entry->buf);
        emu_rx_skip(&node->rx);
        node->rx.owed++;
        if (timed)
            emu_rx_pay(&node->rx, &node->dev, at_ps + node->all->plan.credit_ps);
    }
    if (!taken)
        return 0;
    emu_rx_done(&node->rx, taken);
    if (!timed)
        emu_rx_pay(&node->rx, &node->dev, 0);
    return taken;
}

/* --- sending ------------------------------------------------------------------------ */

/* Any stream of this node but the last one: the engine would put both messages into one packet. */
static uint32_t pick_stream(struct transport_node *node)
{
    const struct transport_plan *plan = &node->all->plan;
    uint32_t last = node->stream, stream;

    if (node->owns && !bytes_below(&node->random, GROUP_ONE_IN)) {
        stream = plan->nodes + node->own[bytes_below(&node->random, node->owns)];
        if (stream != last)
            return stream;
    }
    stream = bytes_below(&node->random, plan->nodes);
    while (stream == node->node || stream == last)
        stream = (stream + 1) % plan->nodes;
    return stream;
}

/* The next message; none: left stays 0. */
static void draw_message(struct transport_node *node)
{
    const struct transport_plan *plan = &node->all->plan;
    uint32_t range;

    if (node->drawn == plan->messages) {
        atomic_store_explicit(&node->counts.done, 1, memory_order_relaxed);
        return;
    }
    node->drawn++;
    node->stream = pick_stream(node);
    range = bytes_below(&node->random, plan->sizes.count);
    node->rest = plan->sizes.range[range].least +
                 bytes_below(&node->random,
                             plan->sizes.range[range].most - plan->sizes.range[range].least + 1);
    node->left = node->rest ? (node->rest + EMU_PAYLOAD_BYTES - 1) / EMU_PAYLOAD_BYTES : 1;
}

/* Send the next segment at @at_ps. False: no buffer. */
static bool node_post(struct transport_node *node, uint64_t at_ps)
{
    const struct transport_plan *plan = &node->all->plan;
    struct emu_pool_cache *cache = &node->dev.worker->cache;
    uint32_t stream = node->stream;
    uint64_t number = node->next[stream];
    uint8_t len = (uint8_t)(node->rest < EMU_PAYLOAD_BYTES ? node->rest : EMU_PAYLOAD_BYTES);
    struct emu_entry entry = {.hdr = segment_hdr(plan, node->node, stream, number, len),
                              .buf = EMU_NO_BUF,
                              .born_ns = segment_note(plan, node->node, stream, number, len)};

    if (segment_asks(number))
        entry.hdr.kind |= EMU_NOTIFY;
    if (len) {
        entry.buf = emu_pool_take(cache);
        if (entry.buf == EMU_NO_BUF)
            return false;
        bytes_fill(emu_pool_bytes(cache->pool, entry.buf), len,
                   segment_key(plan, node->node, stream, number));
    }
    if (node->dev.timed)
        emu_tx_depart(&node->tx, &entry, at_ps);
    else
        emu_tx_send(&node->tx, &entry);
    node->next[stream]++;
    node->rest -= len;
    emu_count(&node->counts.sent, 1);
    emu_count(&node->counts.asked, segment_asks(number));
    emu_count(&node->counts.awaited,
              stream < plan->nodes ? 1 : plan->members_count[stream - plan->nodes] - 1);
    if (!--node->left)
        draw_message(node);
    return true;
}

/* As fast as credits come. Timed: when the next may leave; EMU_NEVER: not known, or none will. */
static uint32_t node_send(struct transport_node *node, uint64_t until_ps, uint64_t *next_ps)
{
    bool timed = node->dev.timed;
    uint32_t sent = 0;

    *next_ps = EMU_NEVER;
    if (!timed)
        emu_tx_take_credits(&node->tx);
    while (node->left && (timed || sent < NODE_BURST)) {
        uint64_t at_ps = timed ? emu_tx_earliest_ps(&node->tx, 0) : 0;

        if (timed ? at_ps > until_ps : !emu_tx_room(&node->tx)) {
            *next_ps = at_ps;
            break;
        }
        if (!node_post(node, at_ps)) {
            *next_ps = until_ps + 1; /* when there is a buffer */
            if (!timed)
                emu_dev_again(&node->dev);
            break;
        }
        sent++;
    }
    if (!timed && sent == NODE_BURST)
        emu_dev_again(&node->dev);
    emu_tx_flush(&node->tx);
    return sent;
}

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct transport_node *node = (struct transport_node *)dev;
    uint64_t send_ps, take_ps;
    uint32_t moved;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    moved = node_take(node, until_ps);
    if (!dev->timed && moved == NODE_BURST)
        emu_dev_again(dev);
    moved += node_send(node, until_ps, &send_ps);
    if (!dev->timed)
        return moved;
    take_ps = emu_rx_next_ps(&node->rx);
    dev->next_ps = take_ps < send_ps ? take_ps : send_ps;
    return moved;
}

/* --- made --------------------------------------------------------------------------- */

static int node_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    struct transport_nodes *all = ctx;
    const struct transport_plan *plan = &all->plan;
    size_t bytes = (sizeof(struct transport_node) + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    struct transport_node *node = aligned_alloc(EMU_LINE, bytes);

    if (!node)
        return -ENOMEM;
    memset(node, 0, bytes);
    all->node[n] = node;
    node->all = all;
    node->node = n;
    node->next = calloc(plan->nodes + plan->groups, sizeof *node->next);
    node->failed = calloc(plan->nodes + plan->groups, sizeof *node->failed);
    node->told = calloc(plan->nodes + plan->groups, sizeof *node->told);
    node->came = calloc((size_t)plan->nodes * (1 + plan->groups), sizeof *node->came);
    if (!node->next || !node->failed || !node->told || !node->came)
        return -ENOMEM;
    emu_dev_init(&node->dev, worker, node_step);
    *dev = &node->dev;
    *tx = &node->tx;
    *rx = &node->rx;
    return 0;
}

int transport_nodes_init(struct transport_nodes *all, const struct transport_plan *plan)
{
    *all = (struct transport_nodes){.ops = {.create = node_create, .ctx = all},
                                    .plan = *plan,
                                    .node = calloc(plan->nodes, sizeof(struct transport_node *))};
    return all->node ? 0 : -ENOMEM;
}

static void node_free(const struct transport_plan *plan, struct transport_node *node)
{
    emu_link_unjoin(&node->tx);
    sets_free(node->failed, plan->nodes + plan->groups);
    sets_free(node->told, plan->nodes + plan->groups);
    sets_free(node->came, plan->nodes * (1 + plan->groups));
    free(node->next);
    free(node);
}

void transport_nodes_free(struct transport_nodes *all)
{
    for (uint32_t n = 0; all->node && n < all->plan.nodes; n++)
        if (all->node[n])
            node_free(&all->plan, all->node[n]);
    free(all->node);
    all->node = NULL;
}

/* --- the driver's ------------------------------------------------------------------- */

void transport_nodes_begin(struct transport_nodes *all)
{
    const struct transport_plan *plan = &all->plan;

    for (uint32_t n = 0; n < plan->nodes; n++) {
        struct transport_node *node = all->node[n];

        node->random = emu_splitmix_at(plan->seed, n + 1);
        node->stream = UINT32_MAX;
        for (uint32_t g = 0; g < plan->groups; g++)
            if (is_member(plan, g, n))
                node->own[node->owns++] = g;
        draw_message(node);
        emu_dev_again(&node->dev);
        emu_dev_wake(&node->dev, 0);
    }
}

struct transport_counts transport_nodes_count(const struct transport_nodes *all)
{
    struct transport_counts sum = {0};

    for (uint32_t n = 0; n < all->plan.nodes; n++) {
        const struct transport_node *node = all->node[n];

        sum.came += emu_count_read(&node->counts.came);
        sum.failed += emu_count_read(&node->counts.failed);
        sum.asked += emu_count_read(&node->counts.asked);
        sum.told += emu_count_read(&node->counts.told);
        sum.innocent += emu_count_read(&node->counts.innocent);
        sum.wrong += emu_count_read(&node->counts.wrong);
        sum.sent += emu_count_read(&node->counts.sent);
        sum.awaited += emu_count_read(&node->counts.awaited);
        sum.sending += !emu_count_read(&node->counts.done);
    }
    return sum;
}

const char *transport_nodes_wrong(const struct transport_nodes *all)
{
    for (uint32_t n = 0; n < all->plan.nodes; n++)
        if (emu_count_read(&all->node[n]->counts.wrong))
            return all->node[n]->wrong_line;
    return NULL;
}

/* Segment @number of @stream of @src, as @to and @src have it in the end. NULL or what is wrong. */
static const char *segment_missing(const struct transport_nodes *all, uint32_t src, uint32_t stream,
                                   uint32_t to, uint64_t number)
{
    const struct transport_node *from = all->node[src];
    bool came = set_has(&all->node[to]->came[stream_slot(&all->plan, src, stream)], number);
    bool failed = set_has(&from->failed[stream], number);
    bool told = set_has(&from->told[stream], number);

    if (!came && !failed)
        return "never came";
    if (told && !came)
        return "never came, and its sender was told that it had";
    if (told && failed)
        return "its sender was told both, that it came and that it was given up";
    if (segment_asks(number) && !told && !failed)
        return "came, and its sender was not told";
    return NULL;
}

/* The first segment of @stream of @src for @to with which something is wrong. */
static bool stream_missing(const struct transport_nodes *all, uint32_t src, uint32_t stream,
                           uint32_t to, char *line, size_t line_bytes)
{
    uint64_t sent = all->node[src]->next[stream];
    bool group = stream >= all->plan.nodes;
    const char *wrong = NULL;
    uint64_t number = 0;

    for (; number < sent; number++)
        if ((wrong = segment_missing(all, src, stream, to, number)))
            break;
    if (wrong)
        snprintf(line, line_bytes, "segment %llu of %llu from node %u to %s %u, at node %u: %s",
                 (unsigned long long)number, (unsigned long long)sent, src,
                 group ? "group" : "node", group ? stream - all->plan.nodes : stream, to, wrong);
    return wrong;
}

bool transport_nodes_missing(const struct transport_nodes *all, char *line, size_t line_bytes)
{
    const struct transport_plan *plan = &all->plan;

    for (uint32_t src = 0; src < plan->nodes; src++)
        for (uint32_t to = 0; to < plan->nodes; to++) {
            if (src != to && stream_missing(all, src, to, to, line, line_bytes))
                return true;
            for (uint32_t g = 0; src != to && g < plan->groups; g++)
                if (is_member(plan, g, to) &&
                    stream_missing(all, src, plan->nodes + g, to, line, line_bytes))
                    return true;
        }
    return false;
}

uint64_t transport_nodes_content(const struct transport_nodes *all)
{
    uint64_t content = 0;

    for (uint32_t n = 0; n < all->plan.nodes; n++)
        content += all->node[n]->content;
    return content;
}

uint64_t transport_nodes_order(const struct transport_nodes *all)
{
    uint64_t order = 0;

    for (uint32_t n = 0; n < all->plan.nodes; n++)
        order = emu_mix(order ^ all->node[n]->order);
    return order;
}
