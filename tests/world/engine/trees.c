/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trees.c - see trees.h: streams, how it is made and taken apart, how time goes on, and what must
 * be left.
 */
#include "tests/world/engine/trees.h"

#include <string.h>

#include "apps/audit/audit.h"
#include "tests/test.h"

/* --- streams ------------------------------------------------------------------------ */

void trees_nodes(const struct trees *w, uint64_t *random, uint32_t *node, uint32_t count)
{
    uint32_t all[TREES_HOSTS];

    test_shuffle(random, all, world_nodes(all, w->hosts), count);
    memcpy(node, all, count * sizeof *node);
}

struct tree_stream *trees_stream(struct trees *w, const uint32_t *node, uint32_t members,
                                 uint32_t ops, uint64_t seed)
{
    struct tree_stream *s = calloc(1, sizeof *s);

    *s = (struct tree_stream){.base = (uint32_t)(seed >> 32) % 3 ? 0
                                                                 : UINT32_MAX - 2 * EMU_WINDOW + 1,
                              .members = members,
                              .ops = ops,
                              .seed = seed,
                              .left = members,
                              .mix = w->set.mix ? w->set.mix : MIX_ALL};
    s->posted = calloc(ops + ops / TREES_USABLE + 2, sizeof *s->posted);
    s->taken = calloc(ops, sizeof *s->taken);
    memcpy(s->node, node, members * sizeof *node);
    s->id = world_group(w->fabric, node, members);
    for (uint32_t m = 0; m < members; m++) {
        struct tree_host *h = w->host[node[m]];

        CU_ASSERT_TRUE_FATAL(h->members < TREES_STREAMS);
        h->member[h->members++] = trees_member_create(w, s, node[m]);
        trees_wake(w, node[m]);
    }
    CU_ASSERT_TRUE_FATAL(w->streams < TREES_STREAMS);
    w->stream[w->streams++] = s;
    return s;
}

void trees_stream_end(struct trees *w, uint32_t at)
{
    struct tree_stream *s = w->stream[at];

    world_group_end(w->fabric, s->id);
    for (uint32_t i = 0; i < s->members; i++) {
        struct tree_host *h = w->host[s->node[i]];
        struct tree_member **m = h->member;

        while ((*m)->stream != s)
            m++;
        trees_member_destroy(*m);
        *m = h->member[--h->members];
    }
    w->stream[at] = w->stream[--w->streams];
    free(s->posted);
    free(s->taken);
    free(s);
}

/* --- made and taken apart ----------------------------------------------------------- */

static void trees_start(struct trees *w)
{
    uint32_t each = w->set.faults;
    struct fabric_config config = {.clock = w->set.clock,
                                   .profile = w->profile,
                                   .seed = w->seed,
                                   .threads = w->set.workers ? w->set.workers : 1,
                                   .start_stopped = true,
                                   .local_nodes = &w->ops,
                                   .faults = each || w->set.lost ? &w->rates : NULL};

    w->rates = world_faults(each);
    if (w->set.lost)
        w->rates.lost = w->set.lost;
    w->ops = (struct fabric_node_ops){.create = trees_host, .ctx = w};
    w->fabric = world_fabric_start(&w->graph, w->set.topo, TREES_HOSTS, &config);
    w->hosts = w->graph->nodes;
    w->spare_bufs = w->fabric->spare_bufs;
}

static void trees_streams(struct trees *w)
{
    uint64_t random = w->seed + 11;
    uint32_t node[TREES_HOSTS];

    for (uint32_t i = 0; i < w->set.streams; i++) {
        uint32_t members = 2 + (uint32_t)(test_random(&random) % (w->hosts - 1));

        if (w->set.all)
            members = w->hosts;
        trees_nodes(w, &random, node, members);
        trees_stream(w, node, members, w->set.ops, test_random(&random));
    }
}

void trees_open(struct trees *w, const struct trees_config *set)
{
    uint64_t awaited = 0;
    struct emu_hdr hdr;

    memset(w, 0, sizeof *w);
    w->set = *set;
    w->seed = test_seed();
    w->cut_random = w->seed ^ set->cut_ps;
    world_profile(&w->profile, "qsnet3", set->set);
    trees_start(w);
    w->noise_got = calloc(w->hosts * set->noise + 1u, 1);
    w->noise_told = calloc(w->hosts * set->noise + 1u, 1);
    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint32_t i = 0; i < set->noise; i++) {
            trees_noise(w, n, i, &hdr);
            awaited += 1 + (hdr.kind & EMU_NOTIFY ? 1 : 0);
        }
    w->noise_left = awaited;
    trees_streams(w);
    for (uint32_t n = 0; n < w->hosts; n++)
        trees_wake(w, n);
}

void trees_close(struct trees *w)
{
    while (w->streams)
        trees_stream_end(w, 0);
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

/* --- run ---------------------------------------------------------------------------- */

static const void *trees_engine_counts(const void *world, uint32_t n)
{
    return engine_counts(fabric_engine(((const struct trees *)world)->fabric, n));
}

uint64_t trees_count(const struct trees *w, size_t offset)
{
    return world_counters(w, w->hosts, trees_engine_counts, offset);
}

uint64_t trees_wrong(const struct trees *w)
{
    uint64_t wrong = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        wrong += emu_count_read(&w->host[n]->wrong);
    return wrong;
}

uint64_t trees_other(const struct trees *w)
{
    uint64_t other = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        other += emu_count_read(&w->host[n]->other);
    return other;
}

bool trees_through(const struct trees *w)
{
    for (uint32_t s = 0; s < w->streams; s++)
        if (atomic_load(&w->stream[s]->left))
            return false;
    return !atomic_load(&w->noise_left);
}

void trees_advance(struct trees *w, uint64_t until_ps)
{
    fabric_advance(w->fabric, until_ps);
    w->now_ps = until_ps;
}

void trees_run(struct trees *w, uint64_t limit_ps)
{
    uint64_t next_ps, step_ps;

    while ((next_ps = fabric_next_ps(w->fabric)) <= limit_ps && next_ps != EMU_NEVER) {
        step_ps = w->set.cut_ps ? test_random(&w->cut_random) % w->set.cut_ps : 10000000;
        trees_advance(w, next_ps + step_ps < limit_ps ? next_ps + step_ps : limit_ps);
    }
}

static bool trees_idle(const struct trees *w)
{
    for (uint32_t i = 0; i < w->fabric->engines.count; i++)
        if (!engine_idle(w->fabric->engines.at[i]))
            return false;
    return true;
}

uint64_t trees_digest(const struct trees *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        digest = digest * 31 + w->host[n]->digest;
    return digest + (COUNT(w, retransmissions) << 32) + (COUNT(w, unequal) << 16) +
           COUNT(w, contributions);
}

static bool trees_says(const char *what, uint64_t number)
{
    printf("%llu %s\n", (unsigned long long)number, what);
    return false;
}

bool trees_clean(struct trees *w)
{
    char error[256];
    uint32_t held;

    while (w->streams)
        trees_stream_end(w, 0);
    if (w->set.clock == EMU_CLOCK_VIRTUAL)
        trees_run(w, w->now_ps + TREES_LIMIT_PS);
    fabric_groups_sweep(w->fabric);
    for (uint32_t i = 0; i < 2 * w->fabric->links.count; i++)
        if (w->fabric->links.faults[i])
            emu_faults_drop(w->fabric->links.faults[i], &w->fabric->worker[0]->cache);
    held = world_fabric_bufs_held(w->fabric);
    for (uint32_t n = 0; n < w->hosts; n++) {
        const char *wrong = engine_check(fabric_engine(w->fabric, n));

        if (wrong)
            return trees_says(wrong, n);
    }
    if (!trees_idle(w))
        return trees_says("engines: some are not idle", w->hosts);
    if (w->fabric->gone || w->fabric->spare_bufs != w->spare_bufs)
        return trees_says("buffers are spare", w->fabric->spare_bufs);
    if (w->set.clock == EMU_CLOCK_RAW)
        return true;
    if (fabric_check(w->fabric, w->now_ps, error, sizeof error))
        return trees_says(error, 0);
    return held ? trees_says("buffers are lost", held) : true;
}

void trees_threads(struct trees *w)
{
    for (uint32_t i = 0; i < w->fabric->workers; i++)
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&w->fabric->drive.thread[i], w->fabric->worker[i],
                                               "tree-test"),
                              0);
}

void trees_threads_stop(struct trees *w)
{
    world_threads_stop(w->fabric->drive.thread, w->fabric->worker, w->fabric->workers);
}

bool trees_step(struct trees *w, uint32_t passes)
{
    while (passes--) {
        world_fabric_pass(w->fabric);
        if (passes % 16 == 0 && trees_through(w) && trees_idle(w))
            return true;
    }
    return false;
}
