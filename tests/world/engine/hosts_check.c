/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts_check.c - see hosts.h: what the hosts make of what came, and what must be left. */
#include "tests/test.h"
#include "tests/world/engine/hosts.h"

static const void *host_counts(const void *world, uint32_t n)
{
    return ((const struct hosts *)world)->host[n];
}

static uint64_t host_count(const struct hosts *w, size_t offset)
{
    return world_counters(w, w->hosts, host_counts, offset);
}

uint64_t hosts_settled(const struct hosts *w)
{
    return host_count(w, offsetof(struct host, got)) + host_count(w, offsetof(struct host, failed));
}

uint64_t hosts_awaited(const struct hosts *w)
{
    uint64_t sum = 0;
    struct hosts_post post;

    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint64_t i = 0; i < w->host[n]->posts; i++) {
            w->set.draw(w, n, i, &post);
            sum += post.kind == EMU_MULTICAST ? w->hosts - 1 : 1;
        }
    return sum;
}

static const void *hosts_engine_counts(const void *world, uint32_t n)
{
    return engine_counts(((const struct hosts *)world)->engine[n]);
}

uint64_t hosts_count(const struct hosts *w, size_t offset)
{
    return world_counters(w, w->hosts, hosts_engine_counts, offset);
}

bool hosts_idle(const struct hosts *w)
{
    for (uint32_t n = 0; n < w->hosts; n++)
        if (!engine_idle(w->engine[n]))
            return false;
    return true;
}

/* How often post @i of @src is known of at @n, as it should be: settled once, everywhere. */
static bool hosts_once(const struct hosts *w, uint32_t src, uint64_t i)
{
    uint32_t failures = w->host[src]->failures[i];
    struct hosts_post post;
    uint64_t odd = 0;

    w->set.draw(w, src, i, &post);
    for (uint32_t n = 0; n < w->hosts; n++) {
        bool wanted = post.kind == EMU_MULTICAST ? n != src : n == post.dst;

        odd += *hosts_mark(w->host[n], src, i) + (wanted ? failures : 0) != wanted;
    }
    return !odd;
}

bool hosts_exactly_once(const struct hosts *w)
{
    uint64_t odd = host_count(w, offsetof(struct host, wrong));

    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint64_t i = 0; i < w->host[n]->posts; i++)
            odd += !hosts_once(w, n, i);
    if (odd)
        printf("%llu segments were not settled exactly once and right\n", (unsigned long long)odd);
    return !odd;
}

/* What came late, or twice, and was not looked at. */
static void hosts_drop_held(struct hosts *w)
{
    struct emu_pool_cache *cache = &w->worker[0]->cache;

    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint32_t l = 0; l < w->set.links; l++)
            emu_faults_drop(&w->engine_faults[n][l], cache);
    for (uint32_t f = 0; w->fabric && f < w->graph->switches * w->graph->ports; f++)
        emu_faults_drop(&w->switch_faults[f], cache);
}

bool hosts_clean(struct hosts *w)
{
    bool raw_switches = w->fabric && w->set.clock == EMU_CLOCK_RAW;
    uint32_t held;

    hosts_drop_held(w);
    held = w->fabric ? world_fabric_bufs_held(w->fabric)
                     : world_bufs_held(w->pool, w->worker, w->set.workers);
    if (!raw_switches && w->fabric && !world_fabric_holds(w->fabric, w->now_ps))
        return false;
    if (!raw_switches && held) {
        printf("%u buffers are lost\n", held);
        return false;
    }
    for (uint32_t n = 0; n < w->hosts; n++) {
        const char *wrong = engine_check(w->engine[n]);

        if (!wrong && !engine_idle(w->engine[n]))
            wrong = "an engine is not idle";
        if (wrong) {
            printf("node %u: %s\n", n, wrong);
            return false;
        }
    }
    return true;
}
