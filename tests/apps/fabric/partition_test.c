/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * partition_test.c - a network partitioned into several fabrics in this process, joined by
 * simulated wires: segments and collectives pass as in one fabric, every partition's accounting is
 * right, and all replicas decide the same.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "apps/capture/filter.h"
#include "apps/audit/audit.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/retry/replay.h"
#include "nic/engine/internal.h"
#include "switch/channel/channel.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define PARTS_MAX     4u
#define CROSSINGS_MAX 256u
#define PASSES        4000000u /* of all partitions, until a case fails: a hang, not a slow host */
#define AUDITS        1000u    /* passes with one audit among them */
#define WORDS         30u      /* of a contribution */

struct fixture;

/* The end of a crossing cable that replaces the switch or adapter on the other partition. */
struct wire_end {
    uint32_t host; /* the remote host */
    uint32_t number;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_replay replay; /* link-level retry to the switch; answers.slot NULL: none */
};

#define ITEMS 32768u /* in flight to a partition: more than the rings of all its crossings hold */

/* An entry with the content of its buffer, or credits, in flight between two partitions. */
struct item {
    uint32_t from, number; /* of the crossing */
    bool credits;
    struct emu_credit credit;
    struct emu_entry entry;
    struct emu_seg seg;
    uint32_t note;
};

/* With running workers: what other partitions have sent here, in order. */
struct inbox {
    pthread_mutex_t lock;
    uint32_t head, tail;
    bool closed;       /* this partition ends: it accepts nothing more */
    struct item *item; /* ITEMS of them; NULL: workers do not run */
};

/*
 * A partition with its replacement for a host link: fixture_pass() moves entries and credits, or
 * its own step does through inboxes.
 */
struct part {
    struct inbox inbox;
    struct emu_dev dev;
    struct fixture *w;
    struct fabric *fabric;
    struct fabric_hosts hosts;
    uint32_t made, ends;
    struct wire_end end[CROSSINGS_MAX];
    uint64_t carried; /* entries received here */
};

struct fixture {
    struct topo_graph *graph;
    uint32_t host_of[64];
    uint32_t parts;
    uint64_t random;
    struct part *part[PARTS_MAX];
    struct emu_hostif_nic nic[HOSTIFS_MAX];
    const struct emu_fault_rates *faults; /* on every cable; NULL: none */
    bool threads;                         /* workers run; else fixture_pass() steps them */
    uint32_t flap[2];                     /* cables of one switch that flap; TOPO_NONE: none */
    bool link_down;                       /* they are down */
    /* ups: how often they came up; carried: segments rerouted */
    uint32_t passes, ups, carried;
};

/* --- wires -------------------------------------------------------------------------- */

/* The end of crossing @number to @host. */
static struct wire_end *end_find(struct part *p, uint32_t host, uint32_t number)
{
    for (uint32_t i = 0; i < p->ends; i++)
        if (p->end[i].host == host && p->end[i].number == number)
            return &p->end[i];
    return NULL;
}

static void inbox_put(struct part *to, const struct item *item)
{
    pthread_mutex_lock(&to->inbox.lock);
    /* otherwise the entry is lost and the test fails */
    if (to->inbox.head - to->inbox.tail < ITEMS)
        to->inbox.item[to->inbox.head++ % ITEMS] = *item;
    if (!to->inbox.closed)
        emu_dev_signal_remote(&to->dev, EMU_EVENT_DATA, 1);
    pthread_mutex_unlock(&to->inbox.lock);
}

static bool inbox_take(struct part *p, struct item *ret)
{
    bool any;

    pthread_mutex_lock(&p->inbox.lock);
    any = p->inbox.head != p->inbox.tail;
    if (any)
        *ret = p->inbox.item[p->inbox.tail++ % ITEMS];
    pthread_mutex_unlock(&p->inbox.lock);
    return any;
}

/* Send entries from the local switch, and its credits, to the remote partition. */
static uint32_t end_send(struct part *p, struct wire_end *end, struct part *remote)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    struct item item = {.from = p->hosts.self, .number = end->number};
    const struct emu_credit *back;
    const struct emu_entry *entry;
    uint32_t moved = 0, taken = 0;

    for (; (entry = emu_rx_front(&end->rx, 0)); taken++) {
        item.entry = *entry;
        if (entry->buf != EMU_NO_BUF) {
            item.seg = *emu_pool_seg(cache->pool, entry->buf);
            item.note = *emu_pool_note(cache->pool, entry->buf);
            emu_pool_drop(cache, entry->buf);
        }
        emu_rx_skip(&end->rx);
        inbox_put(remote, &item);
    }
    if (taken)
        emu_rx_done(&end->rx, taken);
    item.credits = true;
    for (; (back = emu_credit_front(&end->tx.credit)); moved++) {
        end->tx.credits += back->count;
        item.credit = *back;
        emu_credit_skip(&end->tx.credit);
        inbox_put(remote, &item);
    }
    return moved + taken;
}

static void end_receive(struct part *p, const struct item *item)
{
    struct wire_end *end = end_find(p, item->from, item->number);
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    struct emu_entry entry = item->entry;

    if (item->credits) {
        emu_credit_put(&end->rx.credit, item->credit.count, item->credit.channel, 0);
        emu_rx_notify(&end->rx, p->dev.worker);
        return;
    }
    if (entry.buf != EMU_NO_BUF) {
        entry.buf = emu_pool_take(cache);
        *emu_pool_seg(cache->pool, entry.buf) = item->seg;
        *emu_pool_note(cache->pool, entry.buf) = item->note;
    }
    emu_tx_send(&end->tx, &entry);
    emu_tx_flush(&end->tx);
    p->carried++;
}

/* Run link-level retry at all ends that have it. Returns how long the device may sleep. */
static uint64_t wire_retry(struct part *p, uint64_t until_ps)
{
    uint64_t next_ps = EMU_NEVER;

    for (uint32_t i = 0; i < p->ends; i++) {
        struct emu_replay *replay = &p->end[i].replay;
        uint64_t at_ps = replay->answers.slot ? emu_replay_run(replay, until_ps) : EMU_NEVER;

        next_ps = at_ps < next_ps ? at_ps : next_ps;
    }
    return next_ps;
}

static uint32_t wire_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct part *p = (struct part *)(void *)((char *)dev - offsetof(struct part, dev));
    uint32_t moved = 0;
    struct item item;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    for (; p->inbox.item && inbox_take(p, &item); moved++)
        end_receive(p, &item);
    emu_dev_poll_within(dev, wire_retry(p, until_ps));
    if (!p->inbox.item)
        return 0;
    for (uint32_t i = 0; i < p->ends; i++)
        moved += end_send(p, &p->end[i], p->w->part[p->end[i].host]);
    return moved;
}

static int wire_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    struct part *p = ctx;

    CU_ASSERT_EQUAL(i, p->made++);
    emu_dev_init(&p->dev, worker, wire_step);
    return 0;
}

static int wire_join(void *ctx, const struct fabric_crossing *crossing,
                     const struct fabric_crossing_end *here, uint32_t credits,
                     const struct emu_profile *profile)
{
    struct part *p = ctx;
    struct wire_end *end = &p->end[p->ends++];
    int err;

    CU_ASSERT_FATAL(p->ends <= CROSSINGS_MAX);
    end->host = crossing->host;
    end->number = crossing->number;
    err = emu_link_join(here->tx, here->dev, here->port, &end->rx, &p->dev, 0, credits, profile);
    if (!err && here->intake)
        return emu_retry_join(&end->replay, &end->tx, &p->dev, 0, here->intake, here->rx, here->dev,
                              here->port, credits, profile);
    return err ? err
               : emu_link_join(&end->tx, &p->dev, 0, here->rx, here->dev, here->port, credits,
                               profile);
}

static void wire_destroy(void *ctx)
{
    struct part *p = ctx;

    for (uint32_t i = 0; i < p->ends; i++) {
        emu_link_unjoin(&p->end[i].tx);
        if (p->end[i].replay.answers.slot)
            emu_replay_free(&p->end[i].replay);
    }
}

static struct emu_replay *wire_replay(void *ctx, const struct fabric_crossing *crossing)
{
    struct wire_end *end = end_find(ctx, crossing->host, crossing->number);

    return end->replay.answers.slot ? &end->replay : NULL;
}

static bool wire_passed(void *ctx, const struct fabric_crossing *crossing, uint32_t *sent,
                        uint32_t *arrived)
{
    struct wire_end *end = end_find(ctx, crossing->host, crossing->number);

    *sent = end->rx.data.at;
    *arrived = end->tx.data.at;
    return emu_rx_next_ps(&end->rx) == EMU_NEVER;
}

static uint64_t wire_held(void *ctx)
{
    const struct part *p = ctx;
    uint64_t held = 0;

    for (uint32_t i = 0; i < p->ends; i++)
        held += emu_link_bufs(&p->end[i].rx) +
                (p->end[i].replay.answers.slot ? emu_replay_bufs(&p->end[i].replay) : 0);
    return held;
}

static const struct fabric_crossing_ops wire_ops = {
    .devices = 1,
    .create = wire_create,
    .join = wire_join,
    .destroy = wire_destroy,
    .passed = wire_passed,
    .replay = wire_replay,
    .held = wire_held,
};

/* The remote end of the cable: both hosts number crossings alike. */
static struct wire_end *wire_remote(struct fixture *w, uint32_t host, const struct wire_end *end)
{
    struct wire_end *remote = end_find(w->part[end->host], host, end->number);

    CU_ASSERT_PTR_NOT_NULL_FATAL(remote);
    return remote;
}

/* Copy a buffer, with the adapter's header and note, from one fabric's pool to the other's. */
static void wire_copy(struct part *from, const struct emu_entry *entry, struct part *to,
                      struct emu_tx *tx)
{
    struct emu_pool_cache *near = &from->dev.worker->cache, *remote = &to->dev.worker->cache;
    struct emu_entry copy = *entry;

    if (entry->buf != EMU_NO_BUF) {
        copy.buf = emu_pool_take(remote);
        CU_ASSERT_NOT_EQUAL_FATAL(copy.buf, EMU_NO_BUF);
        *emu_pool_seg(remote->pool, copy.buf) = *emu_pool_seg(near->pool, entry->buf);
        *emu_pool_note(remote->pool, copy.buf) = *emu_pool_note(near->pool, entry->buf);
        emu_pool_drop(near, entry->buf);
    }
    emu_tx_send(tx, &copy);
    emu_tx_flush(tx);
    to->carried++;
}

/* Move entries from the switch at @host to the remote end, and credits back. */
static uint32_t wire_move(struct fixture *w, uint32_t host, struct wire_end *end)
{
    struct wire_end *remote = wire_remote(w, host, end);
    const struct emu_credit *back;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    for (; (entry = emu_rx_front(&end->rx, 0)); moved++) {
        wire_copy(w->part[host], entry, w->part[end->host], &remote->tx);
        emu_rx_skip(&end->rx);
    }
    if (moved)
        emu_rx_done(&end->rx, moved);
    for (; (back = emu_credit_front(&remote->tx.credit)); moved++) {
        remote->tx.credits += back->count;
        emu_credit_put(&end->rx.credit, back->count, back->channel, 0);
        emu_rx_notify(&end->rx, end->rx.owner->worker);
        emu_credit_skip(&remote->tx.credit);
    }
    return moved;
}

static void flap_step(struct fixture *w);

/*
 * Step all partitions by one pass, and move what is on the wires: in random order, sometimes
 * skipping one.
 */
static uint32_t fixture_pass(struct fixture *w)
{
    uint32_t moved = 0;

    if (w->threads) {
        sched_yield();
        return 0;
    }
    if (w->flap[0] != TOPO_NONE)
        flap_step(w);
    for (uint32_t h = 0; h < w->parts; h++) {
        moved += fixture_fabric_pass(w->part[h]->fabric);
        for (uint32_t i = 0; i < w->part[h]->ends; i++)
            if (test_random(&w->random) % 3)
                moved += wire_move(w, h, &w->part[h]->end[i]);
    }
    return moved;
}

/* --- partitions --------------------------------------------------------------------- */

static void part_open(struct fixture *w, uint32_t h, const struct emu_profile *profile)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW,
                                   .threads = 1 + h % 2,
                                   .graph = w->graph,
                                   .profile = *profile,
                                   .seed = test_seed(),
                                   .first = UINT32_MAX - 5,
                                   .faults = w->faults,
                                   .start_stopped = !w->threads};
    struct part *p = w->part[h];
    char error[256] = "";

    p->w = w;
    pthread_mutex_init(&p->inbox.lock, NULL);
    p->inbox.item = w->threads ? calloc(ITEMS, sizeof *p->inbox.item) : NULL;
    p->hosts = (struct fabric_hosts){
        .self = h, .count = w->parts, .of = w->host_of, .ops = &wire_ops, .ctx = p};
    config.hosts = &p->hosts;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&p->fabric, &config, error, sizeof error), 0);
    CU_ASSERT_EQUAL(p->made, 1);
    CU_ASSERT_EQUAL(p->ends, fabric_crossings(&config, TOPO_NONE));
}

static struct fabric *fabric_of(const struct fixture *w, uint32_t node)
{
    return w->part[w->host_of[topo_first_link(w->graph, node)->sw]]->fabric;
}

/* Create all partitions, and a process at each node in the partition that owns it. */
static void fixture_open_on(struct fixture *w, const char *spec, uint32_t parts, const char *name,
                            const char *set, const struct emu_fault_rates *faults, bool threads)
{
    struct emu_profile profile;
    char error[160];

    memset(w, 0, sizeof *w);
    w->flap[0] = w->flap[1] = TOPO_NONE;
    w->random = test_seed();
    w->faults = faults;
    w->threads = threads;
    w->graph = fixture_graph(spec, HOSTIFS_MAX);
    w->parts = parts;
    fixture_profile(&profile, name, set);
    CU_ASSERT_FATAL(w->graph->switches <= 64);
    CU_ASSERT_EQUAL_FATAL(topo_cut(w->graph, parts, NULL, w->host_of, error, sizeof error), 0);
    for (uint32_t h = 0; h < parts; h++) /* a running partition may reach any other */
        w->part[h] = fixture_zeros(sizeof *w->part[h]);
    for (uint32_t h = 0; h < parts; h++)
        part_open(w, h, &profile);
    for (uint32_t n = 0; n < w->graph->nodes; n++)
        hostifs_attach_at(fabric_of(w, n), n, &w->nic[n]);
}

static void fixture_open(struct fixture *w, const char *spec, uint32_t parts, const char *name,
                         const char *set)
{
    fixture_open_on(w, spec, parts, name, set, NULL, false);
}

static void fixture_close(struct fixture *w)
{
    for (uint32_t n = 0; n < w->graph->nodes; n++)
        emu_hostif_nic_close(&w->nic[n]);
    for (uint32_t h = 0; h < w->parts; h++) {
        pthread_mutex_lock(&w->part[h]->inbox.lock);
        w->part[h]->inbox.closed = true;
        pthread_mutex_unlock(&w->part[h]->inbox.lock);
    }
    for (uint32_t h = 0; h < w->parts; h++) {
        fabric_stop(w->part[h]->fabric);
    }
    for (uint32_t h = 0; h < w->parts; h++) {
        free(w->part[h]->inbox.item);
        free(w->part[h]);
    }
    topo_free(w->graph);
}

/* Audit every partition. */
static void check_audits(struct fixture *w)
{
    static struct fabric_audit audit;

    for (uint32_t h = 0; h < w->parts; h++) {
        CU_ASSERT_EQUAL_FATAL(fabric_audit(w->part[h]->fabric, 0, true, &audit), 0);
        for (uint32_t i = 0; i < audit.lines; i++)
            printf("part %u: %s\n", h, audit.line[i]);
        CU_ASSERT_EQUAL(audit.found, 0);
    }
}

/* The state behind all decisions is the same everywhere. */
static void check_replicas(const struct fixture *w)
{
    const struct fabric *a = w->part[0]->fabric;
    size_t bytes = w->graph->switches * sizeof(uint32_t);

    for (uint32_t h = 1; h < w->parts; h++) {
        const struct fabric *b = w->part[h]->fabric;

        CU_ASSERT_EQUAL(memcmp(a->tree_load, b->tree_load, bytes), 0);
        CU_ASSERT_EQUAL(memcmp(a->states, b->states, bytes), 0);
        CU_ASSERT_EQUAL(a->spare_bufs, b->spare_bufs);
        CU_ASSERT_EQUAL(a->generation, b->generation);
        CU_ASSERT_EQUAL(a->last_slot, b->last_slot);
        CU_ASSERT_EQUAL(a->slots, b->slots);
        CU_ASSERT_EQUAL(a->groups, b->groups);
        CU_ASSERT_EQUAL(a->combining, b->combining);
        CU_ASSERT_EQUAL(a->links.replanned, b->links.replanned);
    }
}

/* --- traffic ------------------------------------------------------------------------ */

static bool post(struct fixture *w, uint32_t n, const struct emu_hdr *hdr, const void *payload)
{
    struct emu_seg *seg = emu_hostif_nic_claim(&w->nic[n], 0);

    if (!seg)
        return false;
    seg->hdr = *hdr;
    memcpy(seg->payload, payload, hdr->len);
    emu_hostif_nic_publish(&w->nic[n]);
    return true;
}

static bool take(struct fixture *w, uint32_t n, struct emu_seg *ret)
{
    const struct emu_seg *seg = emu_hostif_nic_peek(&w->nic[n], 0);

    if (!seg)
        return false;
    *ret = *seg;
    emu_hostif_nic_pop(&w->nic[n]);
    emu_hostif_nic_consumed(&w->nic[n]);
    return true;
}

/* Every node sends @each segments to every other; all arrive once, with their content. */
static void unicasts(struct fixture *w, uint32_t each)
{
    uint32_t nodes = w->graph->nodes, want = nodes * (nodes - 1) * each, got = 0;
    uint32_t sent[HOSTIFS_MAX] = {0};
    static uint8_t seen[HOSTIFS_MAX][HOSTIFS_MAX][256];
    struct emu_seg seg;

    CU_ASSERT_FATAL(each <= 256);
    memset(seen, 0, sizeof seen);
    for (uint32_t pass = 0; got < want && pass < PASSES; pass++) {
        for (uint32_t n = 0; n < nodes; n++) {
            uint32_t i = sent[n] / (nodes - 1), to = (n + 1 + sent[n] % (nodes - 1)) % nodes;
            uint32_t number[8] = {n, to, i};
            struct emu_hdr hdr = {.dst = to, .seq = i, .len = (uint8_t)(12 + i % 20)};

            if (i < each && post(w, n, &hdr, number))
                sent[n]++;
            while (take(w, n, &seg)) {
                memcpy(number, seg.payload, sizeof number);
                CU_ASSERT_FATAL(number[0] < nodes && number[1] == n && number[2] < each);
                CU_ASSERT_EQUAL(seg.hdr.src, number[0]);
                CU_ASSERT_EQUAL(seen[number[0]][n][number[2]]++, 0);
                got++;
            }
        }
        fixture_pass(w);
        if (pass < AUDITS && pass % 64 == 5)
            check_audits(w);
    }
    CU_ASSERT_EQUAL(got, want);
}

/* Create the same group in all replicas; returns its address. */
static uint32_t group_everywhere(struct fixture *w, const uint32_t *nodes, uint32_t count)
{
    uint32_t id = 0;

    for (uint32_t h = 0; h < w->parts; h++) {
        uint32_t group = fixture_group(w->part[h]->fabric, nodes, count);

        CU_ASSERT(h == 0 || group == id);
        id = group;
    }
    return id;
}

static void leave_everywhere(struct fixture *w, uint32_t group)
{
    for (uint32_t h = 0; h < w->parts; h++)
        fixture_group_end(w->part[h]->fabric, group);
}

/* @count all-reduces over all nodes; every node gets every sum, in any order. */
static void allreduces(struct fixture *w, uint32_t count)
{
    uint32_t nodes[HOSTIFS_MAX], members = fixture_nodes(nodes, w->graph->nodes);
    uint32_t group = group_everywhere(w, nodes, members), sent[HOSTIFS_MAX] = {0},
             got[HOSTIFS_MAX] = {0};
    static bool seen[HOSTIFS_MAX][256];
    uint32_t done = 0, wrong = 0;
    struct emu_seg seg;

    memset(seen, 0, sizeof seen);
    for (uint32_t pass = 0; done < members && pass < PASSES; pass++) {
        done = 0;
        for (uint32_t n = 0; n < members; n++) {
            int64_t words[WORDS];
            struct emu_hdr hdr = {.dst = group,
                                  .seq = sent[n],
                                  .kind = EMU_ALLREDUCE,
                                  .len = sizeof words,
                                  .op = EMU_SUM,
                                  .type = EMU_I64};

            for (uint32_t i = 0; i < WORDS; i++)
                words[i] = (int64_t)(sent[n] * 1000 + n + i);
            if (sent[n] < count && sent[n] - got[n] < 32 && post(w, n, &hdr, words))
                sent[n]++;
            while (take(w, n, &seg)) {
                CU_ASSERT_EQUAL(seg.hdr.dst, group);
                CU_ASSERT_FATAL(seg.hdr.seq < count && !seen[n][seg.hdr.seq]);
                seen[n][seg.hdr.seq] = true;
                memcpy(words, seg.payload, sizeof words);
                for (uint32_t i = 0; i < WORDS; i++)
                    wrong += words[i] != (int64_t)(members * (seg.hdr.seq * 1000 + i) +
                                                   members * (members - 1) / 2);
                got[n]++;
            }
            done += got[n] == count;
        }
        fixture_pass(w);
        if (pass < AUDITS && pass % 64 == 5)
            check_audits(w);
    }
    CU_ASSERT_EQUAL(done, members);
    CU_ASSERT_EQUAL(wrong, 0);
    leave_everywhere(w, group);
    check_replicas(w);
}

static void quiet(struct fixture *w)
{
    for (uint32_t still = 0, pass = 0; still < 50 && pass < PASSES; pass++)
        still = fixture_pass(w) ? 0 : still + 1;
}

/* --- settings ----------------------------------------------------------------------- */

static const struct setting {
    const char *spec;
    const char *profile;
    const char *set;
    uint32_t parts;
} settings[] = {
    {"kary:4,2", "oq2004", NULL, 2},
    {"kary:2,3", "oq2004", NULL, 3},
    {"kary:4,2", "oq2004", "credit=counter combine_order=port", 4},
    {"kary:2,4", "oq2004", "combine_units=5", 3},
    {"kary:4,2", "oq2004", "buffers=input_xpoint", 2},
    {"kary:4,2", "qsnet3", NULL, 2},
    {"kary:2,3", "qsnet3", "combining=switch", 3},
    {"kary:2,4", "qsnet3", "combining=switch combine_order=port", 2},
    {"qsnet:16,links=2,rails=2", "qsnet3", NULL, 2}, /* cables of nodes cross, too */
    {"kary:2,3", "oq2004", "link_retry=go_back_n", 3},
    {"kary:4,2", "oq2004", "link_retry=go_back_n credit=counter", 4},
};
#define SETTINGS (sizeof settings / sizeof settings[0])

static void partitions__deliver_segments_and_collectives(void)
{
    test_each_setting (i, SETTINGS) {
        const struct setting *s = &settings[i];
        struct fabric_totals totals;
        struct fixture w;

        fixture_open(&w, s->spec, s->parts, s->profile, s->set);
        unicasts(&w, 20);
        for (uint32_t h = 0; h < w.parts; h++)
            CU_ASSERT(w.part[h]->carried > 0);
        allreduces(&w, 100);
        for (uint32_t h = 0; h < w.parts; h++) {
            fabric_totals_read(w.part[h]->fabric, &totals);
            /* otherwise no member contributes here */
            if (fabric_own_nodes(&w.part[h]->fabric->config))
                CU_ASSERT(totals.contributions > 0 && totals.results > 0);
            CU_ASSERT_EQUAL(totals.dropped, 0);
        }
        quiet(&w);
        check_audits(&w);
        for (uint32_t h = 0; h < w.parts; h++)
            CU_ASSERT_EQUAL(fabric_bufs_out(w.part[h]->fabric), 0);
        fixture_close(&w);
    }
}

/* Faults on every cable, crossings included, are repaired by retransmission. */
static void partitions__repair_faults(void)
{
    struct emu_fault_rates faults = fixture_faults(5000);
    struct fabric_totals totals;

    for (uint32_t retry = 0; retry < 2; retry++) {
        struct fixture w;

        fixture_open_on(&w, "kary:4,2", 3, retry ? "oq2004" : "qsnet3",
                        retry ? "link_retry=go_back_n" : NULL, &faults, false);
        unicasts(&w, 20);
        allreduces(&w, 50);
        for (uint32_t h = 0; h < w.parts; h++) {
            struct fabric *fabric = w.part[h]->fabric;
            uint64_t hit = 0;

            for (uint32_t i = 0; i < 2 * fabric_cable_count(fabric); i++) {
                bool here = fabric_cable_ends_here(fabric, i / 2, i % 2) &&
                            fabric_can_fail(fabric, i / 2);

                CU_ASSERT_EQUAL(fabric_faults_of(fabric, i / 2, i % 2) != NULL, here);
                hit += here;
            }
            CU_ASSERT(hit > 0);
            fabric_totals_read(fabric, &totals);
            CU_ASSERT(retry ? totals.retries.damaged > 0 : totals.transport.retransmissions > 0);
        }
        fixture_close(&w);
    }
}

/* The same with running workers, and a device that moves the entries. */
static void partitions__run_on_threads(void)
{
    static const char *const profiles[][2] = {{"oq2004", NULL},
                                              {"qsnet3", NULL},
                                              {"oq2004", "link_retry=go_back_n"}};

    for (size_t i = 0; i < 3; i++) {
        struct fixture w;

        fixture_open_on(&w, "kary:4,2", 2, profiles[i][0], profiles[i][1], NULL, true);
        unicasts(&w, 20);
        allreduces(&w, 100);
        check_audits(&w);
        fixture_close(&w);
    }
}

/*
 * Without retransmission: fault rules are applied to cables under load, and nothing is lost by
 * that.
 */
static void partitions__accept_rules_while_running(void)
{
    struct fixture w;

    fixture_open(&w, "kary:4,2", 2, "oq2004", NULL);
    unicasts(&w, 5);
    for (uint32_t n = 0; n < w.graph->nodes; n++) { /* in flight meanwhile */
        uint32_t number[3] = {n, (n + 8) % w.graph->nodes, 0};

        post(&w, n, &(struct emu_hdr){.dst = number[1], .len = sizeof number}, number);
    }
    for (uint32_t i = 0; i < 3; i++)
        fixture_pass(&w);
    for (uint32_t h = 0; h < w.parts; h++)
        for (uint32_t i = 0; i < 2 * fabric_cable_count(w.part[h]->fabric); i++) {
            struct fabric *fabric = w.part[h]->fabric;
            bool can = fabric_can_fail(fabric, i / 2) &&
                       fabric_cable_ends_here(fabric, i / 2, i % 2);

            CU_ASSERT_EQUAL(fabric_faults(fabric, i / 2, i % 2) != NULL, can);
        }
    check_audits(&w);
    quiet(&w);
    for (uint32_t n = 0; n < w.graph->nodes; n++) {
        struct emu_seg seg;

        CU_ASSERT(take(&w, n, &seg));
    }
    unicasts(&w, 20);
    allreduces(&w, 50);
    check_audits(&w);
    fixture_close(&w);
}

/* A partition builds only its own devices, and every device has a partition. */
static void partitions__build_only_their_own_devices(void)
{
    test_each_setting (i, SETTINGS) {
        uint32_t switches = 0, nodes = 0, crossings = 0;
        struct fixture w;

        fixture_open(&w, settings[i].spec, settings[i].parts, settings[i].profile, settings[i].set);
        for (uint32_t h = 0; h < w.parts; h++) {
            const struct fabric *fabric = w.part[h]->fabric;

            for (uint32_t s = 0; s < w.graph->switches; s++) {
                CU_ASSERT_EQUAL(fabric->sw[s] != NULL, w.host_of[s] == h);
                switches += fabric->sw[s] != NULL;
            }
            for (uint32_t n = 0; n < w.graph->nodes; n++)
                nodes += fabric_node_is_here(fabric, n);
            CU_ASSERT_EQUAL(fabric_cable_count(fabric), fabric_cable_count(w.part[0]->fabric));
            crossings += w.part[h]->ends;
        }
        CU_ASSERT_EQUAL(switches, w.graph->switches);
        CU_ASSERT_EQUAL(nodes, w.graph->nodes);
        CU_ASSERT_EQUAL(crossings, 2 * topo_cut_cables(w.graph, w.host_of, w.parts, NULL));
        fixture_close(&w);
    }
}

/*
 * Parallel cables to one switch on another host are equivalent and those to two switches are not,
 * as on one host.
 */
static void partitions__recognize_parallel_cables(void)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW, .threads = 1, .start_stopped = true};
    struct topo_graph *graph;
    struct fabric *whole;
    struct fixture w;
    uint32_t compared = 0;

    fixture_open(&w, "clos:down=2x8,up=4,cables=2", 2, "qsnet3", NULL);
    fixture_profile(&config.profile, "qsnet3", NULL);
    whole = fixture_fabric_start(&graph, "clos:down=2x8,up=4,cables=2", HOSTIFS_MAX, &config);
    unicasts(&w, 2);
    for (uint32_t s = 0; s < graph->switches; s++)
        emu_dev_signal_remote(switch_emu_dev(whole->sw[s]), EMU_EVENT_DATA, 1);
    fixture_fabric_pass(whole);
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++) {
            const struct fabric *part = w.part[w.host_of[s]]->fabric;
            uint64_t twins = switch_channels_of(part->sw[s])->port[p].twins;

            CU_ASSERT_EQUAL(twins, switch_channels_of(whole->sw[s])->port[p].twins);
            compared += __builtin_popcountll(twins) == 2;
        }
    CU_ASSERT(compared > 0);
    fixture_fabric_stop(whole, graph);
    fixture_close(&w);
}

/* Does host 0's capture accept this filter? */
static bool filter_is_taken(const struct fixture *w, char *error, const char *format, uint32_t a,
                            uint32_t b)
{
    struct capture_filter filter;
    char text[64];
    int err;

    snprintf(text, sizeof text, format, a, b);
    err = capture_filter_read(&filter, text, 0, w->part[0]->fabric, w->graph, error,
                              CAPTURE_ERROR_BYTES);
    if (!err)
        capture_filter_release(&filter);
    else
        CU_ASSERT_TRUE(err == -EXDEV && strstr(error, "on another host"));
    return !err;
}

/* A capture sees what starts on its host: filters that name other devices are refused, by name. */
static void partitions__refuse_a_capture_of_remote_devices(void)
{
    char error[CAPTURE_ERROR_BYTES];
    uint32_t crossing = 0;
    struct fixture w;

    fixture_open(&w, "kary:2,3", 2, "oq2004", NULL);
    for (uint32_t i = 0; i < fabric_cable_count(w.part[0]->fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(w.part[0]->fabric, i);
        bool node = cable->kind == TOPO_END_NODE, here = w.host_of[cable->at.sw] == 0;
        bool remote = node ? here : w.host_of[cable->peer.sw] == 0;
        uint32_t sw = cable->at.sw, port = cable->at.port;

        crossing += here != remote;
        CU_ASSERT_EQUAL(filter_is_taken(&w, error, "link=%u:%u", sw, port), here && remote);
        CU_ASSERT_EQUAL(filter_is_taken(&w, error, "link=%u:%u>", sw, port), here);
        CU_ASSERT_EQUAL(filter_is_taken(&w, error, "link=%u:%u<", sw, port), remote);
        CU_ASSERT_EQUAL(filter_is_taken(&w, error, "switch=%u", sw, 0), here);
        if (node)
            CU_ASSERT_EQUAL(filter_is_taken(&w, error, "node=%u", cable->node, 0), here);
    }
    CU_ASSERT_TRUE(crossing > 0);
    CU_ASSERT_TRUE(filter_is_taken(&w, error, "level=0", 0, 0));
    CU_ASSERT_TRUE(filter_is_taken(&w, error, "kind=barrier", 0, 0));
    fixture_close(&w);
}

/* --- changes of all replicas -------------------------------------------------------- */

static void ignore(void *ctx, uint32_t group)
{
    (void)ctx;
    (void)group;
}

/* Cables go down or up, and all partitions get new tables. */
static void cables_set(struct fixture *w, const uint32_t *cables, uint32_t count, bool up)
{
    bool routed[512];
    uint64_t unreachable;
    uint32_t hit;

    CU_ASSERT_FATAL(fabric_cable_count(w->part[0]->fabric) <= 512);
    for (uint32_t i = 0; i < 512; i++)
        routed[i] = true;
    for (uint32_t i = 0; i < count; i++)
        routed[cables[i]] = up;
    for (uint32_t h = 0; h < w->parts; h++) {
        struct fabric *fabric = w->part[h]->fabric;

        for (uint32_t i = 0; i < count; i++)
            CU_ASSERT_EQUAL(fabric_link_set(fabric, cables[i], up, 0, 0, &hit), 0);
        CU_ASSERT_EQUAL(fabric_reroute(fabric, routed, 0, &unreachable, ignore, NULL), 0);
    }
}

static void cable_set(struct fixture *w, uint32_t cable, bool up)
{
    cables_set(w, &cable, 1, up);
}

/* The same group is requested everywhere, and created everywhere or refused everywhere. */
static bool group_asked(struct fixture *w, uint64_t draw, uint32_t *group)
{
    uint32_t count = (uint32_t)test_draw(&w->random, 2, w->graph->nodes), nodes[HOSTIFS_MAX];
    int first = 0;

    fixture_nodes(nodes, w->graph->nodes);
    test_shuffle(&w->random, nodes, w->graph->nodes, count);
    for (uint32_t h = 0; h < w->parts; h++) {
        struct fabric *fabric = w->part[h]->fabric;
        uint32_t id = 0;
        char error[256];
        int err;

        fabric_combine_exhaust(fabric, 0, draw % 16 == 2);
        err = draw & 64 ? fabric_group_create_wide(fabric, nodes, count, &id, error, sizeof error)
                        : fabric_group_create(fabric, nodes, count, &id, error, sizeof error);
        first = h ? first : err;
        CU_ASSERT_EQUAL(err, first);
        CU_ASSERT(h == 0 || err || id == *group);
        *group = id;
    }
    return !first;
}

/* Have all segments left a cable that is down, at both ends and in between? */
static bool flap_is_drained(const struct fixture *w, uint32_t cable)
{
    struct fabric_past past[2], one;
    uint32_t ends = 0;

    for (uint32_t h = 0; h < w->parts; h++) {
        fabric_link_past(w->part[h]->fabric, cable, &one);
        if (!one.quiet)
            return false;
        if (one.crosses && ends < 2)
            past[ends++] = one;
    }
    return !ends || (past[0].sent == past[1].arrived && past[1].sent == past[0].arrived);
}

/* Cables go down, traffic is rerouted for a while, and they come up as soon as allowed. */
static void flap_step(struct fixture *w)
{
    uint32_t at = w->passes++ % 300;
    bool rises = w->link_down && (at < 100 || at > 200);

    if (!w->link_down && at == 100) {
        w->link_down = true;
        cables_set(w, w->flap, 2, false);
    }
    for (uint32_t h = 0; w->link_down && at % 8 == 0 && h < w->parts; h++) {
        fabric_assume_reachable(w->part[h]->fabric, rises);
        w->carried += fabric_reroute_in_flight_all(w->part[h]->fabric, 0);
    }
    if (rises && flap_is_drained(w, w->flap[0]) && flap_is_drained(w, w->flap[1])) {
        w->link_down = false;
        w->ups++;
        cables_set(w, w->flap, 2, true);
    }
}

/*
 * Choose two cables of switch @top to take down, one of them a crossing. Returns false if it has
 * none.
 */
static bool flap_choose(struct fixture *w, uint32_t top)
{
    const struct topo_graph *graph = w->graph;
    uint32_t count = 0, crosses = 0;

    for (uint32_t p = 0; p < graph->ports && count < 2; p++) {
        const struct topo_end *end = &graph->sw[top].end[p];
        bool remote = end->kind == TOPO_END_SWITCH && w->host_of[top] != w->host_of[end->id];

        if (end->kind != TOPO_END_SWITCH || graph->sw[end->id].level > graph->sw[top].level ||
            (count && !crosses && !remote))
            continue;
        crosses += remote;
        w->flap[count++] = fabric_cable_at(w->part[0]->fabric, top, p);
    }
    if (count < 2 || !crosses)
        w->flap[0] = TOPO_NONE;
    return w->flap[0] != TOPO_NONE;
}

/*
 * Two cables of a switch go down and up under load, one of them between partitions. Segments that
 * wait for it are handed to the next switch or returned to another route, once each.
 */
static void links__between_partitions_are_rerouted(void)
{
    static const char *const sets[] = {"link_retry=go_back_n",
                                       "link_retry=go_back_n raw_xpoint_slots=1"};

    test_each_setting (i, 4) {
        uint32_t carried = 0, ups = 0;
        struct fixture w;

        fixture_open(&w, i < 2 ? "kary:4,2" : "kary:2,4", 2 + i / 2, "oq2004", sets[i % 2]);
        for (uint32_t s = 0; s < w.graph->switches; s++) {
            if (!flap_choose(&w, s))
                continue;
            unicasts(&w, 12);
            allreduces(&w, 20);
            for (uint32_t pass = 0; w.link_down && pass < PASSES; pass++)
                fixture_pass(&w);
            CU_ASSERT_FALSE(w.link_down);
            carried += w.carried;
            ups += w.ups;
            w.flap[0] = TOPO_NONE;
            w.carried = w.ups = w.passes = 0;
            quiet(&w);
            check_audits(&w);
        }
        CU_ASSERT(carried > 0);
        CU_ASSERT(ups > 0);
        for (uint32_t h = 0; h < w.parts; h++)
            CU_ASSERT_EQUAL(fabric_bufs_out(w.part[h]->fabric), 0);
        fixture_close(&w);
    }
}

static void cable_fails(struct fixture *w, uint32_t cable)
{
    cable_set(w, cable, false);
    check_audits(w);
    check_replicas(w);
    cable_set(w, cable, true);
}

/*
 * Groups are created and removed or refused, and cables fail: after each step all replicas agree.
 */
static void replicas__decide_the_same(void)
{
    test_each_setting (i, SETTINGS) {
        uint32_t group[64], groups = 0, cables;
        struct fixture w;

        fixture_open(&w, settings[i].spec, settings[i].parts, settings[i].profile, settings[i].set);
        cables = fabric_cable_count(w.part[0]->fabric);
        for (uint32_t step = 0; step < 60; step++) {
            uint64_t draw = test_random(&w.random);

            if (draw % 4 == 0 && groups)
                leave_everywhere(&w, group[--groups]);
            else if (draw % 4 == 1 && fabric_has_links(w.part[0]->fabric) &&
                     fabric_can_fail(w.part[0]->fabric, (uint32_t)(draw >> 8) % cables))
                cable_fails(&w, (uint32_t)(draw >> 8) % cables);
            else if (groups < 64)
                groups += group_asked(&w, draw, &group[groups]);
            fixture_pass(&w);
            check_replicas(&w);
        }
        check_audits(&w);
        while (groups)
            leave_everywhere(&w, group[--groups]);
        unicasts(&w, 2);
        check_audits(&w);
        fixture_close(&w);
    }
}

/*
 * An attached process in another partition is visible at once, and no process can attach to its
 * node here.
 */
static void processes__are_visible_on_all_hosts(void)
{
    struct fabric_attachment incarnation;
    struct fixture w;

    fixture_open(&w, "kary:4,2", 2, "qsnet3", NULL);
    for (uint32_t n = 0; n < w.graph->nodes; n++)
        for (uint32_t h = 0; h < w.parts; h++) {
            struct fabric *fabric = w.part[h]->fabric;
            uint64_t word = emu_incarnation_state(7 + n, true);

            if (fabric == fabric_of(&w, n)) {
                CU_ASSERT_EQUAL(fabric_incarnation_set(fabric, n, word), -EINVAL);
                continue;
            }
            CU_ASSERT_EQUAL(fabric_attach(fabric, n, &incarnation), -EXDEV);
            CU_ASSERT_EQUAL(fabric_attach(fabric, -1, &incarnation), -ENOSPC);
            fabric_node_linked(fabric, n, false);
            CU_ASSERT_EQUAL(fabric_incarnation_set(fabric, n, word), 0);
            CU_ASSERT_EQUAL(fabric_node_word(fabric, n), word | EMU_INCARNATION_NO_LINK);
            for (uint32_t m = 0; m < w.graph->nodes; m++)
                if (fabric == fabric_of(&w, m))
                    CU_ASSERT_EQUAL(w.nic[m].shared->incarnations[n],
                                    word | EMU_INCARNATION_NO_LINK);
            fabric_node_linked(fabric, n, true);
        }
    fixture_close(&w);
}

/* --- incarnations ---------------------------------------------------------------------- */

#define MANY_SPEC "kary:18,2" /* so that each of two hosts has 162 nodes */
#define MANY      324u

static uint32_t holds;

static void counts_hold(struct fabric *fabric)
{
    (void)fabric;
    holds++;
}

static void lets_go(struct fabric *fabric)
{
    (void)fabric;
}

/*
 * All processes here are notified of all processes there, and the workers are not stopped until
 * that is done.
 */
static void incarnation__of_a_large_host_does_not_stop_all_others(void)
{
    static uint32_t of[MANY];
    struct part *p = fixture_zeros(sizeof *p);
    struct topo_graph *graph = fixture_graph(MANY_SPEC, MANY);
    struct fabric_config config = {.graph = graph, .threads = 1, .start_stopped = true};
    struct fabric_drive_kind kind;
    char error[256] = "";

    CU_ASSERT_FATAL(graph->switches <= MANY);
    CU_ASSERT_EQUAL_FATAL(topo_cut(graph, 2, NULL, of, error, sizeof error), 0);
    fixture_profile(&config.profile, "qsnet3", NULL);
    p->hosts = (struct fabric_hosts){.count = 2, .of = of, .ops = &wire_ops, .ctx = p};
    config.hosts = &p->hosts;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&p->fabric, &config, error, sizeof error), 0);
    kind = *p->fabric->drive.kind;
    kind.pause = counts_hold;
    kind.resume = lets_go;
    p->fabric->drive.kind = &kind;
    holds = 0;
    fabric_host_incarnation(p->fabric, 1, 7);
    CU_ASSERT_TRUE(holds > 1);
    CU_ASSERT_TRUE(holds < 10);
    for (uint32_t e = 0; e < MANY; e++)
        for (uint32_t n = 0; p->fabric->engines.at[e] && n < MANY; n++)
            if (p->fabric->engines.at[e]->receive.history[n].incarnation !=
                (fabric_node_host(&config, n) ? 7 : 0))
                CU_FAIL("a life that was not told of, or is another host's");
    fabric_stop(p->fabric);
    free(p);
    topo_free(graph);
}

static int refused(const struct fabric_hosts *hosts, struct fabric_config *config, const char *want)
{
    struct fabric *fabric;
    char error[256] = "";

    config->hosts = hosts;
    CU_ASSERT_EQUAL(fabric_start(&fabric, config, error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, want);
    return 0;
}

static void fabric_start__refuses_an_invalid_partition(void)
{
    struct topo_graph *graph = fixture_graph("kary:2,2", HOSTIFS_MAX);
    struct fabric_config config = {.graph = graph, .start_stopped = true};
    const uint32_t of[] = {0, 0, 1, 2};
    struct fabric_hosts hosts = {.self = 3, .count = 3, .of = of};

    fixture_profile(&config.profile, "oq2004", NULL);
    refused(&hosts, &config,
            "host 3 of 3 is not possible: hosts are counted from 0, and the limit is 64");
    hosts.self = 1;
    refused(&hosts, &config, "cables to other hosts need host links");
    hosts.ops = &wire_ops;
    hosts.count = 2;
    refused(&hosts, &config, "switch 3 is on host 2, but there are only 2 hosts");
    hosts.count = 4;
    hosts.self = 3;
    refused(&hosts, &config, "host 3 has no switch");
    topo_free(graph);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(partitions__build_only_their_own_devices),
        CASE(partitions__deliver_segments_and_collectives),
        CASE(partitions__repair_faults),
        CASE(links__between_partitions_are_rerouted),
        CASE(partitions__run_on_threads),
        CASE(partitions__accept_rules_while_running),
        CASE(partitions__recognize_parallel_cables),
        CASE(partitions__refuse_a_capture_of_remote_devices),
        CASE(replicas__decide_the_same),
        CASE(processes__are_visible_on_all_hosts),
        CASE(incarnation__of_a_large_host_does_not_stop_all_others),
        CASE(fabric_start__refuses_an_invalid_partition),
        {NULL, NULL},
    };

    return test_run("part", cases);
}
