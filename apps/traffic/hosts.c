/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts.c - see hosts.h. */
#include "apps/traffic/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/traffic/internal.h"
#include "emu/util/random.h"

/* --- cables to other hosts --------------------------------------------------------------- */

static int hosts_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    struct traffic_hosts *hosts = ctx;

    (void)i;
    return emu_virtual_create(&hosts->link, worker, hosts->barrier, hosts->graph->nodes);
}

/* Join a cable. The cables between two hosts are spread round robin over their connections. */
static int hosts_join(void *ctx, const struct fabric_crossing *crossing,
                      const struct fabric_crossing_end *end, uint32_t credits,
                      const struct emu_profile *profile)
{
    const struct traffic_hosts *hosts = ctx;
    uint32_t connections = 0, peer = 0;

    for (uint32_t p = 0; p < emu_barrier_config(hosts->barrier)->peers; p++)
        connections += emu_barrier_host(hosts->barrier, p) == crossing->host;
    if (!connections)
        return -ENODEV;
    for (uint32_t left = crossing->number % connections;; peer++)
        if (emu_barrier_host(hosts->barrier, peer) == crossing->host && !left--)
            break;
    return emu_virtual_join(hosts->link, peer, crossing->number / connections, end->tx, end->rx,
                            end->dev, end->port, credits, profile);
}

static void hosts_destroy(void *ctx)
{
    struct traffic_hosts *hosts = ctx;

    emu_virtual_destroy(hosts->link);
    hosts->link = NULL;
}

static uint64_t hosts_held(void *ctx)
{
    const struct traffic_hosts *hosts = ctx;

    return hosts->link ? emu_virtual_bufs(hosts->link) : 0;
}

static void hosts_agree(void *ctx, uint64_t *next_ps)
{
    const struct traffic_hosts *hosts = ctx;

    /* returns early after an error, which traffic_hosts_error() will report */
    emu_virtual_agree(hosts->link, next_ps);
}

static const struct fabric_crossing_ops crossing_ops = {.devices = 1,
                                                        .create = hosts_create,
                                                        .join = hosts_join,
                                                        .destroy = hosts_destroy,
                                                        .held = hosts_held,
                                                        .agree = hosts_agree};

void traffic_hosts_init(struct traffic_hosts *hosts, struct emu_barrier *barrier,
                        const struct topo_graph *graph, const uint32_t *of)
{
    *hosts =
        (struct traffic_hosts){.barrier = barrier, .graph = graph, .of = of, .ops = crossing_ops};
    hosts->fabric = (struct fabric_hosts){.self = emu_barrier_config(barrier)->self,
                                          .count = emu_barrier_config(barrier)->hosts,
                                          .of = of,
                                          .ops = &hosts->ops,
                                          .ctx = hosts};
}

uint32_t traffic_hosts_of_node(const struct traffic_hosts *hosts, uint32_t node)
{
    return hosts->of[topo_first_link(hosts->graph, node)->sw];
}

/* --- exchange between hosts -------------------------------------------------------------- */

int traffic_hosts_error(struct traffic_run *run)
{
    const struct traffic_hosts *hosts = run->config->hosts;
    int err = hosts ? emu_barrier_error(hosts->barrier) : 0;

    return err ? traffic_run_wrong(run, err, "%s", emu_barrier_why(hosts->barrier)) : 0;
}

void traffic_hosts_gather(struct traffic_run *run, const void *mine, size_t bytes,
                          void (*each)(void *ctx, uint32_t host, const void *theirs, size_t bytes),
                          void *ctx)
{
    const struct traffic_hosts *hosts = run->config->hosts;

    if (!hosts || emu_barrier_error(hosts->barrier) ||
        emu_barrier_sync(hosts->barrier, mine, bytes))
        return;
    for (uint32_t h = 0; h < hosts->fabric.count; h++) {
        size_t their_bytes;
        const void *theirs = emu_barrier_of(hosts->barrier, h, &their_bytes);

        if (h != hosts->fabric.self)
            each(ctx, h, theirs, their_bytes);
    }
}

struct words {
    struct traffic_run *run;
    uint64_t *at;
    size_t count;
};

static bool same_length(const struct words *words, size_t bytes, size_t wanted)
{
    if (bytes == wanted)
        return true;
    emu_barrier_fail(words->run->config->hosts->barrier,
                     "the hosts have diverged: they are at different steps of the run");
    return false;
}

static void add_words(void *ctx, uint32_t host, const void *theirs, size_t bytes)
{
    const struct words *words = ctx;

    (void)host;
    for (size_t i = 0;
         same_length(words, bytes, words->count * sizeof(uint64_t)) && i < words->count; i++) {
        uint64_t word;

        memcpy(&word, (const char *)theirs + i * sizeof word, sizeof word);
        if (__builtin_add_overflow(words->at[i], word, &words->at[i]))
            emu_barrier_fail(words->run->config->hosts->barrier,
                             "a host has sent a count that is too large");
    }
}

void traffic_hosts_sum(struct traffic_run *run, uint64_t *words, size_t count)
{
    struct words all = {.run = run, .at = words, .count = count};

    traffic_hosts_gather(run, words, count * sizeof words[0], add_words, &all);
}

void traffic_hosts_digest(struct traffic_run *run, uint64_t *by_node, uint32_t nodes)
{
    const struct traffic_hosts *hosts = run->config->hosts;
    uint64_t digest = TRAFFIC_DIGEST_START;

    for (uint32_t n = 0; hosts && n < nodes; n++)
        if (traffic_hosts_of_node(hosts, n) != hosts->fabric.self)
            by_node[n] = 0;
    traffic_hosts_sum(run, by_node, nodes);
    for (uint32_t n = 0; n < nodes; n++)
        digest = traffic_digest(digest, n, by_node[n], 0);
    run->result->digest = digest;
}

/* --- logs -------------------------------------------------------------------------------- */

struct parts {
    void (*take)(void *ctx, const struct traffic_part *part, size_t count);
    void *ctx;
    struct traffic_part *part;
    size_t capacity; /* allocated elements of part[] */
    bool no_memory;
};

/* Make room for @count elements. Returns false if there is no memory. */
static bool parts_grow(struct parts *parts, size_t count)
{
    struct traffic_part *more = parts->part;

    if (count <= parts->capacity)
        return true;
    more = realloc(more, count * sizeof more[0]);
    if (!more)
        return false;
    parts->part = more;
    parts->capacity = count;
    return true;
}

/* Process another host's log from a copy, because the log may not be aligned. */
static void take_theirs(void *ctx, uint32_t host, const void *theirs, size_t bytes)
{
    struct parts *parts = ctx;
    size_t count = bytes / sizeof parts->part[0];

    (void)host;
    parts->no_memory |= !parts_grow(parts, count);
    if (parts->no_memory || !count)
        return;
    memcpy(parts->part, theirs, count * sizeof parts->part[0]);
    parts->take(parts->ctx, parts->part, count);
}

int traffic_hosts_logs(struct traffic_run *run, struct traffic_workers *workers,
                       void (*take)(void *ctx, const struct traffic_part *part, size_t count),
                       void *ctx)
{
    struct parts all = {.take = take, .ctx = ctx};
    size_t count = 0;

    for (uint32_t w = 0; w < workers->count; w++) {
        struct traffic_log *log = workers->at[w] ? &workers->at[w]->log : NULL;

        if (!log || !log->count)
            continue;
        take(ctx, log->part, log->count);
        all.no_memory |= run->config->hosts && !parts_grow(&all, count + log->count);
        if (run->config->hosts && !all.no_memory)
            memcpy(all.part + count, log->part, log->count * sizeof log->part[0]);
        count += log->count;
        log->count = 0;
    }
    traffic_hosts_gather(run, all.part, all.no_memory ? 0 : count * sizeof all.part[0], take_theirs,
                         &all);
    free(all.part);
    return all.no_memory ? -ENOMEM : 0;
}

/* --- the start of a run ------------------------------------------------------------------ */

/* Return a digest of the traffic's settings. The hosts have already compared all other settings. */
static uint64_t config_digest(const struct traffic_config *config)
{
    const struct traffic_pattern *pattern = &config->pattern;
    const uint64_t words[] = {
        pattern->kind,
        pattern->collective,
        pattern->md,
        pattern->nodes,
        pattern->number,
        pattern->hot,
        pattern->share,
        config->bytes,
        config->load,
        config->fixed_gaps,
        config->sources.count,
        config->sources.spread,
        config->warmup_ps,
        config->measure_ps,
        config->window_ps,
        config->law,
        config->sets,
        config->by_messages,
        config->arity,
        config->groups,
        config->members,
        config->operations,
        config->interval_ps,
        config->skew_ps,
        config->at_random,
        config->by,
        config->radix,
        config->processes,
        config->noise.period_ps,
        config->fabric.seed,
        (uint64_t)(config->fanout * 1048576),
        config->noise.length_ps,
        config->tclass,
        config->servers,
        config->storage_tclass,
    };
    uint64_t digest = 0;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        digest = emu_mix(digest ^ words[i]);
    for (uint32_t n = 0; pattern->to && n < pattern->nodes; n++)
        digest = emu_mix(digest ^ pattern->to[n]);
    return digest;
}

struct same {
    uint64_t digest;
    uint32_t other; /* the first host with another digest */
};

static void is_same(void *ctx, uint32_t host, const void *theirs, size_t bytes)
{
    struct same *same = ctx;

    if ((bytes != sizeof same->digest || memcmp(theirs, &same->digest, bytes) != 0) &&
        host < same->other)
        same->other = host;
}

int traffic_hosts_begin(struct traffic_run *run)
{
    const struct traffic_hosts *hosts = run->config->hosts;
    struct same same = {.digest = config_digest(run->config), .other = UINT32_MAX};

    if (!hosts)
        return 0;
    if (run->config->faults)
        return traffic_run_wrong(run, -EINVAL, "faults need a network on one host");
    traffic_hosts_gather(run, &same.digest, sizeof same.digest, is_same, &same);
    if (same.other != UINT32_MAX)
        return traffic_run_wrong(run, -EINVAL,
                                 "host %s has other settings of the traffic than this host",
                                 emu_barrier_config(hosts->barrier)->name[same.other]);
    return traffic_hosts_error(run);
}
