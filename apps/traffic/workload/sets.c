/* SPDX-License-Identifier: BSD-3-Clause */
/* sets.c - chooses sources and draws destination sets, once, before the run. */
#include "apps/traffic/workload/sets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/traffic/workload/random.h"

/* --- sources ------------------------------------------------------------------------ */

bool traffic_sources_parse(struct traffic_sources *ret, const char *text)
{
    static const struct {
        const char *prefix;
        enum traffic_spread spread;
    } forms[] = {
        {"first:", TRAFFIC_SPREAD_FIRST},
        {"random:", TRAFFIC_SPREAD_RANDOM},
        {"", TRAFFIC_SPREAD_EVEN},
    };
    size_t i = 0;
    char *end;

    while (strncmp(text, forms[i].prefix, strlen(forms[i].prefix)) != 0)
        i++;
    text += strlen(forms[i].prefix);
    unsigned long count = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || count < 1 || count > UINT32_MAX)
        return false;
    *ret = (struct traffic_sources){.spread = forms[i].spread, .count = (uint32_t)count};
    return true;
}

void traffic_sources_choose(const struct traffic_sources *sources, uint64_t seed, uint32_t nodes,
                            bool *sends)
{
    uint32_t left = sources->count ? sources->count : nodes;
    struct traffic_random random;

    traffic_random_init(&random, seed, 0, TRAFFIC_STREAM_SOURCES);
    memset(sends, 0, nodes * sizeof sends[0]);
    for (uint32_t i = 0; i < left && sources->spread != TRAFFIC_SPREAD_RANDOM; i++)
        sends[sources->spread == TRAFFIC_SPREAD_FIRST ? i : (uint64_t)i * nodes / left] = true;
    /* Random spread: choose each node with probability (sources left to choose) / (nodes left). */
    for (uint32_t n = 0; n < nodes && sources->spread == TRAFFIC_SPREAD_RANDOM; n++) {
        sends[n] = traffic_random_below(&random, nodes - n) < left;
        left -= sends[n];
    }
}

/* --- number of destinations --------------------------------------------------------- */

struct draw {
    const struct traffic_sets_config *config;
    struct traffic_exp exp;
    struct traffic_random random;
    /* binomial distribution: -ln(1 - p) * 2^32, where p is the probability of each node */
    uint64_t skip;
    /* by node: whether it is in the set. Nodes above the source have index node - 1 */
    bool *taken;
};

/* Round @value up or down at random, so that the mean of the results is @value. */
static uint32_t round_at_random(struct draw *draw, double value)
{
    uint32_t whole = (uint32_t)value;
    uint32_t part = (uint32_t)((value - whole) * 4294967296.0);

    return whole + ((uint32_t)traffic_random_next(&draw->random) < part);
}

/*
 * Draw a size of a set from the binomial distribution; draw again if it is 0. The distances between
 * the chosen nodes have a geometric distribution. So draw distances, and count how many of them fit
 * into the number of nodes.
 */
static uint32_t binomial(struct draw *draw)
{
    uint64_t others = draw->config->nodes - 1;
    uint32_t count = 0;

    do {
        uint64_t at = 0;
        while (at < others) {
            uint64_t times = traffic_exp_of(&draw->exp, traffic_random_next(&draw->random));
            at += times / draw->skip + 1;
            count += at <= others;
        }
    } while (!count);
    return count;
}

const char *traffic_distribution_name(enum traffic_distribution law)
{
    static const char *const names[TRAFFIC_DISTRIBUTIONS] = {
        [TRAFFIC_DISTRIBUTION_UNIFORM] = "uniform",
        [TRAFFIC_DISTRIBUTION_BINOMIAL] = "binomial",
        [TRAFFIC_DISTRIBUTION_FIXED] = "fixed"};

    return names[law];
}

static uint32_t fanout(struct draw *draw)
{
    double mean = draw->config->fanout;

    if (draw->config->law == TRAFFIC_DISTRIBUTION_UNIFORM)
        return 1 + traffic_random_below(&draw->random, round_at_random(draw, 2 * mean - 1));
    if (draw->config->law == TRAFFIC_DISTRIBUTION_BINOMIAL && draw->skip)
        return binomial(draw);
    return round_at_random(draw, mean);
}

/* Return (1 - p)^n, by repeated squaring, which gives the same bits on any host, unlike libm. */
static double none_of(double p, uint32_t n)
{
    double power = 1, base = 1 - p;

    for (; n; n /= 2) {
        if (n & 1)
            power *= base;
        base *= base;
    }
    return power;
}

/*
 * Find by bisection the probability with which each node must be chosen, so that the sets that are
 * not empty have the wanted mean size.
 */
static void binomial_begin(struct draw *draw)
{
    uint32_t others = draw->config->nodes - 1;
    double low = 0, high = 1;

    for (int i = 0; i < 60; i++) {
        double p = (low + high) / 2;
        if (others * p < draw->config->fanout * (1 - none_of(p, others)))
            low = p;
        else
            high = p;
    }
    double rest = 1 - high;
    draw->skip = traffic_exp_of(&draw->exp, (uint64_t)(rest * 18446744073709549568.0));
    if (draw->config->fanout < 1.01) /* sizes are nearly always 1: use round_at_random() */
        draw->skip = 0;
}

/* --- destinations ------------------------------------------------------------------- */

/* Draw @count distinct nodes other than @source, uniformly (Floyd's algorithm). */
static void members(struct draw *draw, uint32_t source, uint32_t *member, uint32_t count)
{
    uint32_t others = draw->config->nodes - 1;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t last = others - count + i;
        uint32_t at = traffic_random_below(&draw->random, last + 1);
        member[i] = draw->taken[at] ? last : at;
        draw->taken[member[i]] = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        draw->taken[member[i]] = false;
        member[i] += member[i] >= source;
    }
    traffic_shuffle(&draw->random, member, count);
}

/*
 * First draw the sizes of all sets, because the size of member[] is their sum. Then draw the
 * members.
 */
static int draw_all(struct traffic_sets *sets, struct draw *draw)
{
    uint32_t set = 0;
    uint64_t total = 0;

    for (uint32_t node = 0; node < draw->config->nodes; node++) {
        if (!draw->config->sends[node])
            continue;
        traffic_random_init(&draw->random, draw->config->seed, node, TRAFFIC_STREAM_SETS);
        for (uint32_t i = 0; i < sets->per_source; i++, set++) {
            uint32_t count = fanout(draw);
            sets->source[set] = node;
            sets->first[set] = (uint32_t)total;
            sets->fanout_max = count > sets->fanout_max ? count : sets->fanout_max;
            total += count;
        }
    }
    if (total > UINT32_MAX / sizeof sets->member[0])
        return -ENOMEM;
    sets->first[set] = (uint32_t)total;
    sets->member = malloc((total ? total : 1) * sizeof sets->member[0]);
    if (!sets->member)
        return -ENOMEM;
    traffic_random_init(&draw->random, draw->config->seed, UINT32_MAX, TRAFFIC_STREAM_SETS);
    for (set = 0; set < sets->count; set++)
        members(draw, sets->source[set], &sets->member[sets->first[set]],
                traffic_sets_fanout(sets, set));
    return 0;
}

static int check(const struct traffic_sets_config *config, char *error, size_t error_bytes)
{
    bool uniform = config->law == TRAFFIC_DISTRIBUTION_UNIFORM;
    double most = uniform ? config->nodes / 2.0 : config->nodes - 1.0;

    if (config->fanout >= 1 && config->fanout <= most)
        return 0;
    snprintf(error, error_bytes,
             "a mean fanout of %g is impossible: with %u nodes%s it must be from 1 to %g",
             config->fanout, config->nodes, uniform ? " and a uniform distribution" : "", most);
    return -EINVAL;
}

int traffic_sets_draw(struct traffic_sets *ret, const struct traffic_sets_config *config,
                      char *error, size_t error_bytes)
{
    struct draw draw = {.config = config};
    int err = check(config, error, error_bytes);

    if (err)
        return err;
    *ret = (struct traffic_sets){.per_source = config->per_source};
    for (uint32_t node = 0; node < config->nodes; node++)
        ret->sources += config->sends[node];
    ret->count = ret->sources * ret->per_source;
    ret->source = calloc(ret->count + 1, sizeof ret->source[0]);
    ret->first = calloc(ret->count + 1, sizeof ret->first[0]);
    ret->group = calloc(ret->count + 1, sizeof ret->group[0]);
    draw.taken = calloc(config->nodes, sizeof draw.taken[0]);
    traffic_exp_init(&draw.exp);
    binomial_begin(&draw);
    err = -ENOMEM;
    if (ret->source && ret->first && ret->group && draw.taken)
        err = draw_all(ret, &draw);
    free(draw.taken);
    if (err) {
        snprintf(error, error_bytes, "out of memory for %u destination sets", ret->count);
        traffic_sets_release(ret);
    }
    return err;
}

void traffic_sets_release(struct traffic_sets *sets)
{
    free(sets->source);
    free(sets->first);
    free(sets->group);
    free(sets->member);
    *sets = (struct traffic_sets){.count = 0};
}
