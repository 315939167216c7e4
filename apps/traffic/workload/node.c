/* SPDX-License-Identifier: BSD-3-Clause */
/* node.c - a node: draws, sends, receives and measures messages. */
#include "apps/traffic/workload/node.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/packet/packet.h"
#include "emu/util/alloc.h"

#define NODE_SLOTS 256u /* initial size of a node's table of incomplete messages */
/* 20 us: longest simulated time between two calls of the driver */
#define SLICE_PS UINT64_C(20000000)
/* maximum number of segments per link in a slice, if there are tables or logs */
#define PARTS_IN_SLICE 256
/*
 * limit of the mean gap between births. A drawn gap is at most 44 times the mean, so it fits into
 * 63 bits
 */
#define GAP_MOST_PS (UINT64_C(1) << 57)

struct traffic_node {
    struct traffic_base base;

    /* For sending. The fields describe the message that is being sent or that is sent next. */
    alignas(EMU_LINE) struct traffic_nodes *all;
    struct traffic_random gaps;
    struct traffic_random picks;
    uint64_t birth_ps;
    uint64_t drawn; /* number of messages drawn so far, including this one */
    uint32_t dst;
    /* number of segments of this copy that are left to send; 0: the node never sends again */
    uint32_t left;
    uint32_t set;  /* multicast: its destination set */
    uint32_t copy; /* multicast by messages: position of this copy's receiver in the set */
    uint8_t kind;  /* enum emu_kind */
    uint8_t links;
    uint32_t node;

    /* For receiving, and the times of the next events. */
    alignas(EMU_LINE) uint64_t arrive_ps; /* next arrival; EMU_NEVER: unknown */
    uint64_t depart_ps;                   /* next departure; EMU_NEVER: unknown */
    uint64_t digest;
    struct traffic_worker *worker;
    struct traffic_pending pending; /* incomplete messages of more than one segment */
    /* number of arrivals, at all receivers, of the segments that this node has sent */
    uint64_t awaited;
    struct traffic_relay *relay; /* multicasts to forward; NULL: no node forwards any in this run */
    bool invalid;                /* a segment arrived that no source can have sent */

    /* For the driver: it draws the times of birth a second time, to count messages. */
    struct traffic_random counted_gaps;
    uint64_t counted_birth_ps; /* birth of the next message to count */
    uint64_t counted;          /* messages counted so far */
    uint32_t first_set;        /* multicast: the first of this source's sets */
};
static_assert(offsetof(struct traffic_node, arrive_ps) - offsetof(struct traffic_node, all) ==
                  EMU_LINE,
              "sending uses one cache line");

/* --- sending ------------------------------------------------------------------------ */

/* A gap is at least 1 ps, because the source and the time of birth identify a message. */
static uint64_t draw_gap(const struct traffic_node *node, struct traffic_random *gaps)
{
    const struct traffic_nodes *all = node->all;
    uint64_t gap_ps = all->gap_ps[node->links];

    if (all->plan.poisson)
        gap_ps = traffic_exp_ps(&all->exp, gaps, gap_ps);
    return gap_ps ? gap_ps : 1;
}

/* Return the node at @position of a set; the source has position 0, which is not allowed here. */
static uint32_t member_at(const struct traffic_sets *sets, uint32_t set, uint32_t position)
{
    return sets->member[sets->first[set] + position - 1];
}

static void pick_set(struct traffic_node *node)
{
    const struct traffic_plan *plan = &node->all->plan;
    const struct traffic_sets *sets = plan->sets;

    node->set = node->first_set + traffic_random_below(&node->picks, sets->per_source);
    if (plan->hardware) {
        node->dst = sets->group[node->set];
        return;
    }
    node->copy = traffic_tree_next(plan->arity, 0, 0, traffic_sets_fanout(sets, node->set));
    node->dst = member_at(sets, node->set, node->copy);
}

static void draw_message(struct traffic_node *node)
{
    const struct traffic_nodes *all = node->all;
    const struct traffic_pattern *pattern = all->plan.pattern;

    node->birth_ps += draw_gap(node, &node->gaps);
    node->left = all->segments;
    node->drawn++;
    switch (pattern->kind) {
    case TRAFFIC_UNIFORM:
        node->dst = traffic_other(&node->picks, all->nodes, node->node);
        break;
    case TRAFFIC_HOTSPOT:
        node->dst = traffic_hot_or_other(pattern, &node->picks, node->node);
        break;
    case TRAFFIC_ALLTOALL:
        node->dst = traffic_next_in_turn(all->nodes, node->node, node->dst);
        break;
    case TRAFFIC_MULTICAST:
        pick_set(node);
        break;
    case TRAFFIC_FIXED:
    case TRAFFIC_PERMUTATION:
    case TRAFFIC_COLLECTIVE:
        break;
    }
}

/* Prepare the next copy of the message or, after its last copy, the next message. */
static void next_copy(struct traffic_node *node)
{
    const struct traffic_plan *plan = &node->all->plan;

    if (plan->sets && !plan->hardware)
        node->copy = traffic_tree_next(plan->arity, 0, node->copy,
                                       traffic_sets_fanout(plan->sets, node->set));
    if (!plan->sets || plan->hardware || !node->copy) {
        draw_message(node);
        return;
    }
    node->dst = member_at(plan->sets, node->set, node->copy);
    node->left = node->all->segments;
}

/* Send one segment, after which @left - 1 remain. `op` and `type` carry the set's number. */
static void put_segment(struct traffic_node *node, uint64_t birth_ps, uint32_t dst, uint32_t set,
                        uint32_t left, uint64_t depart_ps)
{
    const struct traffic_nodes *all = node->all;
    struct emu_entry entry = {
        .hdr = {.dst = dst,
                .src = node->node,
                .seq = (uint32_t)(birth_ps >> 32),
                .kind = node->kind,
                .len = left == 1 ? all->last_bytes : EMU_PAYLOAD_BYTES,
                .op = (uint8_t)set,
                .type = (uint8_t)(set >> 8)},
        .buf = EMU_NO_BUF,
        .note = (uint32_t)birth_ps,
    };

    traffic_depart(&node->base, &entry, depart_ps);
    node->awaited += node->kind == EMU_MULTICAST ? traffic_sets_fanout(all->plan.sets, set) : 1;
}

/*
 * Return whether the node next sends a segment of a relayed copy instead of its own message. @own:
 * it has a message of its own to send. The node first finishes the copy or message that it has
 * begun. If it has begun none, it sends the one that was ready first.
 */
static bool relay_is_next(const struct traffic_node *node, const struct traffic_relay_item *item,
                          bool own)
{
    uint32_t segments = node->all->segments;

    if (!item || !own)
        return item;
    return node->relay->left < segments ||
           (node->left == segments && item->ready_ps <= node->birth_ps);
}

/* Advance to the next segment, copy or item after a segment of the relay's @item has left. */
static void relay_advance(struct traffic_node *node, struct traffic_relay_item *item)
{
    const struct traffic_nodes *all = node->all;
    uint32_t fanout = traffic_sets_fanout(all->plan.sets, item->set);

    if (--node->relay->left)
        return;
    node->relay->left = all->segments;
    node->relay->waiting -= all->share[fanout];
    item->child = traffic_tree_next(all->plan.arity, item->position, item->child, fanout);
    if (!item->child)
        traffic_relay_skip(node->relay);
}

static void node_abandon(struct traffic_node *node)
{
    node->left = 0;
    if (node->relay)
        node->relay->count = 0;
}

/*
 * Send all segments that may leave by @until_ps. Returns the time of the next departure; EMU_NEVER:
 * unknown.
 */
static uint64_t node_send(struct traffic_node *node, uint64_t until_ps)
{
    const struct traffic_nodes *all = node->all;
    bool sent = false;
    uint64_t depart_ps;

    if (!all->stop_ps)
        node_abandon(node);
    for (;;) {
        bool own = node->left && node->birth_ps < all->stop_ps;
        struct traffic_relay_item *item = node->relay ? traffic_relay_front(node->relay) : NULL;
        bool relay = relay_is_next(node, item, own);

        depart_ps = EMU_NEVER;
        if (!own && !relay)
            break;
        uint64_t ready_ps = relay ? item->ready_ps : node->birth_ps;
        depart_ps = traffic_earliest_ps(&node->base, ready_ps + all->times.send_ps);
        if (depart_ps > until_ps)
            break;
        sent = true;
        if (relay) {
            put_segment(node, item->birth_ps, member_at(all->plan.sets, item->set, item->child),
                        item->set, node->relay->left, depart_ps);
            relay_advance(node, item);
            continue;
        }
        put_segment(node, node->birth_ps, node->dst, node->set, node->left, depart_ps);
        if (!--node->left)
            next_copy(node);
    }
    if (sent)
        emu_tx_flush(&node->base.tx);
    return depart_ps;
}

/* --- receiving ---------------------------------------------------------------------- */

/* Queue a multicast that has arrived completely, so that this node forwards it. */
static void relay_begin(struct traffic_node *node, const struct traffic_part *whole, uint32_t set)
{
    const struct traffic_nodes *all = node->all;
    uint32_t fanout = traffic_sets_fanout(all->plan.sets, set);
    struct traffic_relay_item item = {.birth_ps = whole->birth_ps,
                                      .ready_ps = whole->at_ps,
                                      .set = set,
                                      .position = 1};

    while (item.position < fanout && member_at(all->plan.sets, set, item.position) != node->node)
        item.position++;
    item.child = traffic_tree_next(all->plan.arity, item.position, 0, fanout);
    if (!item.child || !all->stop_ps)
        return;
    for (uint32_t child = item.child; child;
         child = traffic_tree_next(all->plan.arity, item.position, child, fanout))
        node->relay->waiting += all->share[fanout];
    bool blocked = node->depart_ps == EMU_NEVER &&
                   (node->relay->count || (node->left && node->birth_ps < all->stop_ps));
    traffic_relay_add(node->relay, &item);
    if (!blocked && item.ready_ps + all->times.send_ps < node->depart_ps)
        node->depart_ps = item.ready_ps + all->times.send_ps; /* a lower bound */
}

/* Return whether the source and set of a segment exist. If not, a malicious host has sent it. */
static inline bool segment_is_sane(const struct traffic_nodes *all, const struct emu_hdr *hdr,
                                   uint32_t set)
{
    return hdr->src < all->nodes && (!all->plan.sets || set < all->plan.sets->count);
}

static inline void node_deliver(void *context, const struct emu_entry *entry)
{
    struct traffic_node *node = context;
    const struct traffic_nodes *all = node->all;
    struct traffic_worker *worker = node->worker;
    uint64_t wire_ps = emu_wire_ps(all->plan.profile, &entry->hdr);
    struct traffic_part part = {
        .birth_ps = (uint64_t)entry->hdr.seq << 32 | entry->note,
        .at_ps = traffic_memory_ps(&all->times, all->plan.profile, entry),
        .src = entry->hdr.src,
    };
    const struct traffic_sets *sets = all->plan.sets;
    uint32_t set = entry->hdr.op | (uint32_t)entry->hdr.type << 8;
    uint32_t fanout;

    emu_pool_drop(&node->base.dev.worker->cache, entry->buf); /* a payload of a malicious host */
    if (!segment_is_sane(all, &entry->hdr, set)) {
        node->invalid = true;
        return;
    }
    fanout = sets ? traffic_sets_fanout(sets, set) : 1;
    if (all->relays)
        part.src = sets->source[set];
    node->digest = traffic_digest(node->digest, part.src, part.birth_ps, part.at_ps);
    traffic_worker_wire(worker, part.src, part.at_ps, wire_ps, wire_ps * all->share[fanout] >> 22);
    traffic_worker_window(worker, &all->workers, part.at_ps, entry->hdr.len);
    if (all->segments > 1) {
        part.of = all->segments;
        if (!traffic_pending_arrive(&node->pending, &part, &part.at_ps))
            return;
    }
    if (all->relays)
        relay_begin(node, &part, set);
    traffic_stats_latency(&worker->stats, part.birth_ps, part.at_ps);
    if (all->plan.completions &&
        part.birth_ps - all->plan.phase.start_ps < all->plan.phase.measure_ps) {
        part.of = fanout;
        traffic_log_add(&worker->log, &part);
    }
}

/*
 * arrive_ps and depart_ps are lower bounds of the times of the next arrival and departure, or
 * EMU_NEVER if unknown. A signal for data or for a credit matters only while the corresponding time
 * is unknown. So a credit for which the node does not wait costs only two comparisons.
 */
static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct traffic_node *node = (struct traffic_node *)dev;
    bool data = emu_dev_take(dev, EMU_EVENT_DATA);
    bool credit = emu_dev_take(dev, EMU_EVENT_CREDIT);

    if (node->arrive_ps <= until_ps || (data && node->arrive_ps == EMU_NEVER))
        node->arrive_ps = traffic_take(&node->base.rx, node->base.tx.profile->credit_ps, until_ps,
                                       node, node_deliver);
    if (node->depart_ps <= until_ps || (credit && node->depart_ps == EMU_NEVER))
        node->depart_ps = node_send(node, until_ps);
    dev->next_ps = node->arrive_ps < node->depart_ps ? node->arrive_ps : node->depart_ps;
    emu_dev_wants(dev, node->depart_ps == EMU_NEVER);
    return 0;
}

static uint64_t node_fetch(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept)
{
    const struct traffic_node *node = (const struct traffic_node *)dev;

    if (what == EMU_FETCH_SELF) {
        emu_fetch_line(&node->arrive_ps);
        emu_fetch_line(&node->base.tx);
        emu_fetch_line(&node->base.tx.profile);
        emu_fetch_line(&node->base.rx.data);
        emu_fetch_line(&node->all);
    } else if (what == EMU_FETCH_RINGS) {
        emu_rx_fetch(&node->base.rx);
        emu_tx_fetch(&node->base.tx);
    }
    return kept;
}

/* --- creation ----------------------------------------------------------------------- */

/*
 * Start a source. With constant gaps, the first message is born at a random time within the first
 * gap.
 */
static void source_begin(struct traffic_node *node)
{
    const struct traffic_plan *plan = &node->all->plan;

    traffic_random_init(&node->gaps, plan->seed, node->node, TRAFFIC_STREAM_GAPS);
    traffic_random_init(&node->picks, plan->seed, node->node, TRAFFIC_STREAM_PICKS);
    if (!plan->poisson) {
        uint64_t at = traffic_random_next(&node->gaps);
        node->birth_ps = (uint64_t)((unsigned __int128)node->all->gap_ps[node->links] * at >> 64);
        node->birth_ps -= draw_gap(node, &node->gaps); /* draw_message() adds this gap again */
    }
    node->counted_gaps = node->gaps;
    node->counted_birth_ps = node->birth_ps + draw_gap(node, &node->counted_gaps);
    node->kind = plan->pattern->kind == TRAFFIC_MULTICAST && plan->hardware ? EMU_MULTICAST
                                                                            : EMU_UNICAST;
    node->dst = plan->pattern->kind == TRAFFIC_FIXED ? plan->pattern->to[node->node] : node->node;
    draw_message(node);
}

/* Return the first set of @node, by binary search, because sets are ordered by source. */
static uint32_t first_set_of(const struct traffic_sets *sets, uint32_t node)
{
    uint32_t low = 0, high = sets->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sets->source[middle] < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int node_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    struct traffic_nodes *all = ctx;
    struct traffic_node *node = traffic_base_new(sizeof *node, worker, node_step, dev, tx, rx);

    if (!node)
        return -ENOMEM;
    (*dev)->fetch = node_fetch;
    all->node[n] = node;
    node->worker = traffic_worker_join(&all->workers, worker->index);
    node->all = all;
    node->node = n;
    node->links = all->plan.links[n];
    node->first_set = all->plan.sets ? first_set_of(all->plan.sets, n) : 0;
    node->arrive_ps = node->depart_ps = EMU_NEVER;
    node->digest = TRAFFIC_DIGEST_START + n;
    if (all->relays) {
        node->relay = calloc(1, sizeof *node->relay);
        if (!node->relay)
            return -ENOMEM;
        node->relay->left = all->segments;
    }
    return node->worker ? 0 : -ENOMEM;
}

int traffic_nodes_init(struct traffic_nodes *all, uint32_t nodes, const struct traffic_plan *plan)
{
    uint32_t most = plan->sets ? plan->sets->fanout_max : 1;
    uint64_t gap_ps = plan->gap_ps < GAP_MOST_PS ? plan->gap_ps : GAP_MOST_PS;
    uint64_t segments = traffic_segments_of(plan->bytes);

    *all = (struct traffic_nodes){
        .ops = {.create = node_create, .ctx = all},
        .plan = *plan,
        .stop_ps = UINT64_MAX,
        .slice_ps = SLICE_PS,
        .message_wire_ps = traffic_message_wire_ps(plan->profile, plan->bytes),
        .message_stats_ps = (segments * EMU_HDR_BYTES + plan->bytes) *
                            plan->profile->link_ps_per_byte,
        .times = traffic_times_of(plan->profile),
        .nodes = nodes,
        .segments = (uint32_t)segments,
        .last_bytes = (uint8_t)(plan->bytes - (segments - 1) * EMU_PAYLOAD_BYTES),
        .relays = plan->sets && !plan->hardware && plan->arity != TRAFFIC_TREE_FLAT,
        .workers = {.sources = nodes, .windows = plan->windows, .window_ps = plan->window_ps},
        .node = calloc(nodes, sizeof(struct traffic_node *)),
        .share = calloc(most + 1, sizeof(uint64_t)),
    };
    for (uint32_t links = 1; links <= TOPO_NODE_LINKS_MAX; links++)
        all->gap_ps[links] = gap_ps / links;
    if (segments > 1 || plan->completions) {
        uint64_t slice_ps = PARTS_IN_SLICE * traffic_wire_ps(plan->profile, all->last_bytes);
        all->slice_ps = slice_ps < SLICE_PS ? slice_ps : SLICE_PS;
    }
    traffic_exp_init(&all->exp);
    for (uint32_t fanout = 1; all->share && fanout <= most; fanout++)
        all->share[fanout] = ((uint64_t)1 << 32) / fanout;
    return all->node && all->share ? 0 : -ENOMEM;
}

void traffic_nodes_free(struct traffic_nodes *all)
{
    for (uint32_t n = 0; all->node && n < all->nodes; n++) {
        if (!all->node[n])
            continue;
        emu_link_unjoin(&all->node[n]->base.tx);
        traffic_pending_release(&all->node[n]->pending);
        if (all->node[n]->relay)
            traffic_relay_release(all->node[n]->relay);
        free(all->node[n]->relay);
        free(all->node[n]);
    }
    traffic_workers_free(&all->workers);
    free(all->share);
    free(all->node);
    *all = (struct traffic_nodes){.nodes = 0};
}

/*
 * Return the maximum number of segments that can arrive at a node within a slice. With link engines
 * it also covers segments that arrived at the engine before the slice, because an engine delivers a
 * packet as a whole.
 */
static uint32_t arrivals_most(const struct traffic_nodes *all)
{
    const struct emu_profile *profile = all->plan.profile;
    uint64_t link = all->slice_ps / traffic_wire_ps(profile, all->last_bytes) + 2;

    if (all->times.engines)
        link += EMU_VCS * emu_packet_segments(profile->packet_bytes);
    return (uint32_t)(all->plan.links_most * link);
}

uint64_t traffic_nodes_bytes(const struct traffic_nodes *all)
{
    uint64_t each = sizeof(struct traffic_node) + sizeof(struct traffic_node *);

    if (all->segments > 1)
        each += 4 * NODE_SLOTS * sizeof(struct traffic_slot);
    if (all->plan.completions)
        each += arrivals_most(all) * sizeof(struct traffic_part);
    if (all->relays)
        each += sizeof(struct traffic_relay) +
                2 * arrivals_most(all) * sizeof(struct traffic_relay_item);
    return all->nodes * each + traffic_workers_bytes(&all->workers);
}

/* --- functions of the driver -------------------------------------------------------- */

void traffic_nodes_measure(struct traffic_nodes *all, const struct traffic_phase *phase)
{
    all->plan.phase = *phase;
    traffic_workers_measure(&all->workers, phase);
}

void traffic_nodes_begin(struct traffic_nodes *all)
{
    traffic_nodes_measure(all, &all->plan.phase);
    for (uint32_t n = 0; n < all->nodes; n++) {
        struct traffic_node *node = all->node[n];
        if (!node || !all->plan.links[n])
            continue;
        source_begin(node);
        node->depart_ps = node->birth_ps + all->times.send_ps; /* a lower bound */
        emu_dev_wake(&node->base.dev, node->depart_ps);
    }
}

int traffic_nodes_reserve(struct traffic_nodes *all)
{
    uint32_t most = arrivals_most(all);
    int err = 0;

    for (uint32_t n = 0; all->segments > 1 && !err && n < all->nodes; n++)
        if (all->node[n])
            err = traffic_pending_reserve(&all->node[n]->pending,
                                          most > NODE_SLOTS ? most : NODE_SLOTS, UINT64_MAX);
    for (uint32_t n = 0; all->relays && !err && n < all->nodes; n++)
        if (all->node[n])
            err = traffic_relay_reserve(all->node[n]->relay, most);
    for (uint32_t w = 0; all->plan.completions && !err && w < all->workers.count; w++) {
        struct traffic_worker *worker = all->workers.at[w];
        if (worker && worker->log.capacity / worker->nodes < most) {
            traffic_log_release(&worker->log);
            err = traffic_log_init(&worker->log, worker->nodes * most);
        }
    }
    return err;
}

void traffic_nodes_stop(struct traffic_nodes *all, uint64_t stop_ps, uint64_t now_ps)
{
    uint64_t before_ps = all->stop_ps;

    all->stop_ps = stop_ps;
    for (uint32_t n = 0; n < all->nodes; n++) {
        struct traffic_node *node = all->node[n];
        if (!node)
            continue;
        if (!stop_ps && node->birth_ps >= before_ps)
            node->left = 0; /* this node has already stopped */
        if (node->depart_ps == EMU_NEVER || node->depart_ps <= now_ps)
            continue;                 /* the node waits for a credit, or its step is already due */
        node->depart_ps = now_ps + 1; /* node_send() determines the new time */
        emu_dev_wake(&node->base.dev, now_ps + 1);
    }
}

/* Count messages up to @now_ps. Messages that the adapter delays are born, but not waiting. */
static void count_node(struct traffic_node *node, uint64_t now_ps, struct traffic_counts *counts)
{
    uint64_t send_ps = node->all->times.send_ps;

    while (node->counted_birth_ps < now_ps && node->counted_birth_ps + send_ps <= now_ps) {
        node->counted++;
        node->counted_birth_ps += draw_gap(node, &node->counted_gaps);
    }
    counts->born += node->counted;
    counts->waiting += (int64_t)(node->counted - (node->drawn - 1));
    struct traffic_random gaps = node->counted_gaps;
    for (uint64_t birth_ps = node->counted_birth_ps; birth_ps < now_ps;
         birth_ps += draw_gap(node, &gaps))
        counts->born++;
}

struct traffic_counts traffic_nodes_count(struct traffic_nodes *all, uint64_t now_ps)
{
    struct traffic_counts counts = {.born = 0};
    uint64_t relayed = 0;

    for (uint32_t n = 0; n < all->nodes; n++) {
        if (all->node[n] && all->plan.links[n])
            count_node(all->node[n], now_ps, &counts);
        relayed += all->node[n] && all->relays ? all->node[n]->relay->waiting : 0;
    }
    counts.relayed = relayed;
    return counts;
}

void traffic_nodes_digests(const struct traffic_nodes *all, uint64_t *by_node)
{
    for (uint32_t n = 0; n < all->nodes; n++)
        by_node[n] = all->node[n] ? all->node[n]->digest : 0;
}

struct traffic_segments traffic_nodes_segments(const struct traffic_nodes *all)
{
    struct traffic_segments segments = {.sent = 0};

    for (uint32_t n = 0; n < all->nodes; n++) {
        if (!all->node[n])
            continue;
        segments.sent += emu_count_read(&all->node[n]->base.tx.counts.segments);
        segments.awaited += all->node[n]->awaited;
        segments.received += emu_count_read(&all->node[n]->base.rx.counts.segments);
    }
    return segments;
}

uint32_t traffic_nodes_stuck(const struct traffic_nodes *all)
{
    uint32_t n = 0;

    while (n < all->nodes &&
           (!all->node[n] || (!all->node[n]->left && !(all->relays && all->node[n]->relay->count))))
        n++;
    return n;
}

bool traffic_nodes_invalid(const struct traffic_nodes *all)
{
    bool invalid = false;

    for (uint32_t n = 0; n < all->nodes; n++)
        invalid |= all->node[n] && all->node[n]->invalid;
    return invalid;
}

bool traffic_nodes_lost(const struct traffic_nodes *all)
{
    bool lost = false;

    for (uint32_t n = 0; n < all->nodes; n++)
        lost |= all->node[n] &&
                (all->node[n]->pending.full || (all->relays && all->node[n]->relay->full));
    for (uint32_t w = 0; w < all->workers.count; w++)
        lost |= all->workers.at[w] && all->workers.at[w]->log.full;
    return lost;
}
