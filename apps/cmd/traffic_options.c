/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_options.c - text becomes a configuration; what does not fit together is said.
 */
#include "apps/cmd/traffic_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/quantity.h"
#include "apps/base/message.h"
#include "apps/traffic/workload/relay.h"
#include "emu/util/bits.h"

#define LOAD_MOST    (10 * (uint64_t)TRAFFIC_LOAD_UNIT)
#define BYTES_MOST   (UINT64_C(1) << 30)
#define SNAPSHOTS_PS 1000000u

/* Which patterns have a use for an option. */
enum use { USE_ALL, USE_OPEN, USE_MULTICAST, USE_COLLECTIVE };

/* All options: what reads it, its name, its value, which patterns take it, and --help's words. */
#define OPTIONS(ROW)                                                                               \
    ROW(pattern, "pattern", "P", USE_ALL, "who sends to whom: see above (default uniform)")        \
    ROW(load, "load", "F[,F...]|A:B:STEP", USE_OPEN,                                               \
        "of each source, as a fraction of link rate (default 0.5)")                                \
    ROW(arrivals, "arrivals", "poisson|fixed", USE_OPEN,                                           \
        "times between messages: random (default), or all the same")                               \
    ROW(bytes, "bytes", "SIZE", USE_ALL,                                                           \
        "payload of a message or a vector (default 240: one segment; vectors 8)")                  \
    ROW(sources, "sources", "[first:|random:]N", USE_OPEN,                                         \
        "only N nodes send: evenly spread, the first, or drawn")                                   \
    ROW(warmup, "warmup", "TIME", USE_OPEN,                                                        \
        "virtual time before the measurement (default: by load and latency)")                      \
    ROW(measure, "measure", "TIME", USE_OPEN,                                                      \
        "virtual time of the measurement (default: until it is steady)")                           \
    ROW(series, "series", "TIME", USE_OPEN,                                                        \
        "also report bytes delivered in each TIME of the run; needs --measure (default: no)")      \
    ROW(telemetry, "telemetry", "FILE|-", USE_ALL,                                                 \
        "write snapshots of all counters, as fabemu run --record does; -: standard output")        \
    ROW(every, "every", "TIME", USE_ALL, "time between snapshots, in the run (default 1us)")       \
    ROW(fanout, "fanout", "MEAN", USE_MULTICAST,                                                   \
        "multicast: mean destinations (default 4; md: 16)")                                        \
    ROW(law, "fanout-law", "uniform|binomial|fixed", USE_MULTICAST,                                \
        "multicast: law of the number of destinations; uniform (default): 1 to 2*MEAN-1")          \
    ROW(sets, "sets", "N", USE_MULTICAST,                                                          \
        "multicast: destination sets of each source (default 1024; 65536 in all)")                 \
    ROW(multicast, "multicast", "hardware|messages|tree[:K]", USE_MULTICAST,                       \
        "hardware: switches copy (default); messages: one a destination; tree[:K]: "               \
        "destinations pass them on, binomially, or to K each")                                     \
    ROW(groups, "groups", "N", USE_COLLECTIVE,                                                     \
        "collectives: groups at work at the same time (default 1)")                                \
    ROW(members, "group-size", "N", USE_COLLECTIVE,                                                \
        "collectives: nodes of a group (default: all, shared out)")                                \
    ROW(operations, "operations", "N", USE_COLLECTIVE, "collectives: of each group (default 100)") \
    ROW(interval, "interval", "TIME", USE_COLLECTIVE,                                              \
        "collectives: time between posts; 0: post when the previous one is complete (default)")    \
    ROW(skew, "skew", "TIME", USE_COLLECTIVE,                                                      \
        "collectives: members post later, by a random time up to TIME (default 0)")                \
    ROW(placement, "placement", "block|random", USE_COLLECTIVE,                                    \
        "collectives: which nodes make a group (default block)")                                   \
    ROW(collective, "collective", "hardware|dissemination|tree", USE_COLLECTIVE,                   \
        "collectives: hardware: switches or adapters (default); dissemination, tree: messages")    \
    ROW(noise, "noise", "PERIOD:LENGTH", USE_COLLECTIVE,                                           \
        "collectives: in every PERIOD each node's system takes the core for LENGTH")

/* Bits of traffic_options.given. */
#define OPTION_ROW(reader, name, value, use, help) OPTION_##reader,
enum option_row { OPTIONS(OPTION_ROW) OPTION_COUNT };
#undef OPTION_ROW

static bool given(const struct traffic_options *options, enum option_row row)
{
    return options->given >> row & 1;
}

/* --- numbers ------------------------------------------------------------------------ */

static bool read_small(const char *text, uint32_t least, uint32_t most, uint32_t *ret)
{
    uint64_t number;

    if (!options_count(text, least, most, &number))
        return false;
    *ret = (uint32_t)number;
    return true;
}

/* Read "0.5" or "50%" at *@at, and move *@at behind it. */
static bool scan_load(const char **at, uint64_t *ret)
{
    static const struct quantity_form form = {.units = quantity_shares,
                                              .bare = TRAFFIC_LOAD_UNIT,
                                              .most = LOAD_MOST};

    return quantity_scan(at, &form, ret) == QUANTITY_OK;
}

static bool add_load(struct traffic_options *options, uint64_t load)
{
    if (options->loads == TRAFFIC_LOADS_MAX || load == 0)
        return false;
    options->load[options->loads++] = load;
    return true;
}

/* "0.1,0.5:0.9:0.1": numbers, and ranges FIRST:LAST:STEP. */
static bool read_loads(struct traffic_options *options, const char *text)
{
    uint64_t first, last, step;

    options->loads = 0;
    for (;;) {
        if (!scan_load(&text, &first))
            return false;
        last = first;
        step = 1;
        if (*text == ':' && (text++, !scan_load(&text, &last) || *text++ != ':' ||
                                         !scan_load(&text, &step) || step == 0 || last < first))
            return false;
        for (uint64_t load = first; load <= last; load += step)
            if (!add_load(options, load))
                return false;
        if (*text != ',')
            return *text == '\0';
        text++;
    }
}

/* A number alone is in ns. */
static bool read_time(const char *text, uint64_t least_ns, uint64_t *ret_ps, const char **right)
{
    const struct quantity_form form = {.units = quantity_times,
                                       .bare = QUANTITY_NS_PS,
                                       .least = least_ns * QUANTITY_NS_PS,
                                       .most = QUANTITY_S_PS};

    *right = least_ns ? "a time from 1ns to 1s, such as 500ns, 2us or 1ms; a number alone is in ns"
                      : "a time up to 1s, such as 0, 500ns or 2us; a number alone is in ns";
    return quantity_read(text, &form, ret_ps);
}

/* --- readers ------------------------------------------------------------------------ */

#define READER(name)                                                                           \
    static bool take_##name(struct traffic_options *o, const char *value, const char **right); \
    static bool read_##name(void *into, const char *value, const char **right)                 \
    {                                                                                          \
        struct traffic_options *options = into;                                                \
        options->given |= emu_bit(OPTION_##name);                                              \
        return take_##name(options, value, right);                                             \
    }                                                                                          \
    static bool take_##name(struct traffic_options *o, const char *value, const char **right)

READER(pattern)
{
    (void)right; /* traffic_pattern_parse() says what is wrong */
    o->pattern = value;
    return true;
}

READER(load)
{
    *right = "fractions of the link rate above 0 and at most 10 with at most 9 decimals, such as "
             "0.5 or 50% or 0.1,0.2 or 0.1:1:0.1, 1000 in all";
    return read_loads(o, value);
}

READER(arrivals)
{
    *right = "poisson or fixed";
    o->config.fixed_gaps = strcmp(value, "fixed") == 0;
    return o->config.fixed_gaps || strcmp(value, "poisson") == 0;
}

READER(bytes)
{
    static const struct quantity_form form = {.units = quantity_sizes,
                                              .bare = 1,
                                              .most = BYTES_MOST};

    *right = "a size from 0 to 1GiB, such as 240, 64K, 1MB or 1MiB; a number alone is in bytes";
    return quantity_read(value, &form, &o->config.bytes);
}

READER(sources)
{
    *right = "N, first:N or random:N";
    return traffic_sources_parse(&o->config.sources, value);
}

READER(warmup)
{
    return read_time(value, 1, &o->config.warmup_ps, right);
}

READER(measure)
{
    return read_time(value, 1, &o->config.measure_ps, right);
}

READER(series)
{
    return read_time(value, 1, &o->config.window_ps, right);
}

READER(telemetry)
{
    *right = "the name of a file, or -";
    o->telemetry = value;
    return *value != '\0';
}

/* fabemu top has an option of this name too: both refuse a number without a unit. */
READER(every)
{
    static const struct quantity_form form = {.units = quantity_times,
                                              .least = QUANTITY_NS_PS,
                                              .most = QUANTITY_S_PS};

    *right = "a time from 1ns to 1s, with its unit, such as 500ns or 2us";
    return quantity_read(value, &form, &o->config.snapshots.every_ps);
}

READER(fanout)
{
    char *end;

    *right = "a mean of destinations from 1 on, such as 4 or 2.5";
    o->config.fanout = strtod(value, &end);
    return *value >= '0' && *value <= '9' && !value[strspn(value, "0123456789.")] && !*end &&
           o->config.fanout >= 1 && o->config.fanout < 65536;
}

READER(law)
{
    *right = "uniform, binomial or fixed";
    for (int law = 0; law < TRAFFIC_LAWS; law++) {
        o->config.law = (enum traffic_law)law;
        if (strcmp(value, traffic_law_name(o->config.law)) == 0)
            return true;
    }
    return false;
}

READER(sets)
{
    *right = "a number from 1 to 65536";
    return read_small(value, 1, FABRIC_GROUPS_MAX, &o->config.sets);
}

READER(multicast)
{
    uint64_t arity = TRAFFIC_TREE_BINOMIAL;

    *right = "hardware, messages, tree (binomial), or tree:K with K from 1 to 65536";
    o->config.by_messages = strcmp(value, "hardware") != 0;
    if (strcmp(value, "messages") == 0)
        arity = TRAFFIC_TREE_FLAT;
    else if (strncmp(value, "tree:", 5) == 0 && !options_count(value + 5, 1, 65536, &arity))
        return false;
    else if (strncmp(value, "tree", 4) != 0 || (value[4] && value[4] != ':'))
        return !o->config.by_messages;
    o->config.arity = (uint32_t)arity;
    return true;
}

READER(groups)
{
    *right = "a number from 1 to 1024";
    return read_small(value, 1, FABRIC_COMBINING_MAX, &o->config.groups);
}

READER(members)
{
    *right = "a number from 2 on";
    return read_small(value, 2, UINT32_MAX, &o->config.members);
}

READER(operations)
{
    *right = "a number from 1 to 1000000000";
    return options_count(value, 1, 1000000000, &o->config.operations);
}

READER(interval)
{
    return read_time(value, 0, &o->config.interval_ps, right);
}

READER(skew)
{
    return read_time(value, 0, &o->config.skew_ps, right);
}

READER(placement)
{
    *right = "block or random";
    o->config.at_random = strcmp(value, "random") == 0;
    return o->config.at_random || strcmp(value, "block") == 0;
}

READER(collective)
{
    static const char *const names[] = {[TRAFFIC_BY_HARDWARE] = "hardware",
                                        [TRAFFIC_BY_DISSEMINATION] = "dissemination",
                                        [TRAFFIC_BY_TREE] = "tree"};

    *right = "hardware, dissemination or tree";
    for (int by = 0; by < 3; by++) {
        o->config.by = (enum traffic_by)by;
        if (strcmp(value, names[by]) == 0)
            return true;
    }
    return false;
}

READER(noise)
{
    char period[32];
    const char *colon = strchr(value, ':');
    const char *ignored;

    *right = "PERIOD:LENGTH, such as 1ms:25us, each up to 1s, the length less than the period; a "
             "number alone is in ns";
    if (!colon || (size_t)(colon - value) >= sizeof period)
        return false;
    snprintf(period, sizeof period, "%.*s", (int)(colon - value), value);
    return read_time(period, 1, &o->config.noise.period_ps, &ignored) &&
           read_time(colon + 1, 0, &o->config.noise.length_ps, &ignored) &&
           o->config.noise.length_ps < o->config.noise.period_ps;
}

#define OPTION_ROW(reader, name, value, use, help) {name, value, help, read_##reader},
static const struct options_own owns_rows[] = {OPTIONS(OPTION_ROW)};
#undef OPTION_ROW

#define OPTION_ROW(reader, name, value, use, help) use,
static const enum use uses[] = {OPTIONS(OPTION_ROW)};
#undef OPTION_ROW

void traffic_options_init(struct traffic_options *ret, struct options_owns *owns)
{
    *ret = (struct traffic_options){
        .pattern = "uniform",
        .config = {.bytes = 240,
                   .groups = 1,
                   .operations = 100,
                   .snapshots = {.every_ps = SNAPSHOTS_PS}},
        .loads = 1,
        .load = {TRAFFIC_LOAD_UNIT / 2},
    };
    *owns = (struct options_owns){.row = owns_rows, .count = OPTION_COUNT, .into = ret};
}

/* --- together ----------------------------------------------------------------------- */

static bool has_use(const struct traffic_pattern *pattern, enum option_row row)
{
    bool collective = pattern->kind == TRAFFIC_COLLECTIVE;

    if (row == OPTION_bytes)
        return !collective || pattern->collective != TRAFFIC_BARRIER;
    switch (uses[row]) {
    case USE_OPEN:
        return !collective;
    case USE_MULTICAST:
        return pattern->kind == TRAFFIC_MULTICAST;
    case USE_COLLECTIVE:
        return collective;
    case USE_ALL:
        break;
    }
    return true;
}

/* An option that this pattern has no use for is a mistake. */
static int check_use(const struct traffic_options *options, const struct traffic_pattern *pattern)
{
    for (enum option_row row = 0; row < OPTION_COUNT; row++)
        if (given(options, row) && !has_use(pattern, row))
            return options_usage_error("traffic", "--%s has no meaning with --pattern %.80s",
                                       owns_rows[row].name, options->pattern);
    return 0;
}

int traffic_options_config(struct traffic_config *ret, const struct traffic_options *options,
                           const struct fabric_config *fabric)
{
    char error[512];

    *ret = options->config;
    ret->fabric = *fabric;
    int err = traffic_pattern_parse(&ret->pattern, options->pattern, fabric->graph->nodes, error,
                                    sizeof error);
    if (err) {
        print_message("--pattern: %s", error);
        return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    int status = check_use(options, &ret->pattern);
    if (!status && ret->pattern.kind == TRAFFIC_COLLECTIVE && !given(options, OPTION_bytes))
        ret->bytes = 8;
    if (!status && ret->pattern.kind == TRAFFIC_COLLECTIVE &&
        ret->pattern.collective != TRAFFIC_BARRIER && ret->bytes == 0)
        status = options_usage_error("traffic", "--bytes 0: a reduction has 1 or more");
    if (!status && given(options, OPTION_every) && !options->telemetry && !options->page)
        status =
            options_usage_error("traffic", "--every has no meaning without --telemetry or --web");
    if (status)
        traffic_pattern_release(&ret->pattern);
    return status;
}
