/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic_options.c - the options of `fabemu traffic`, and the configuration made from them. */
#include "apps/cmd/traffic.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/quantity.h"
#include "apps/base/message.h"
#include "emu/packet/packet.h"
#include "apps/traffic/goal/goal.h"
#include "apps/traffic/workload/relay.h"

#define LOAD_MOST    (10 * (uint64_t)TRAFFIC_LOAD_UNIT)
#define BYTES_MOST   (UINT64_C(1) << 30)
#define SNAPSHOTS_PS 1000000u

/*
 * The patterns with which an option may be used (option_row.group). USE_OPEN: all except
 * collectives. USE_PAYLOAD: all except barrier.
 */
enum use { USE_ALL, USE_OPEN, USE_MULTICAST, USE_COLLECTIVE, USE_PAYLOAD };

/* Parse a load. A load above 1 needs a '%', because 5 may be a typing error for 0.5 or for 5%. */
static bool scan_load(const char **at, uint64_t *ret)
{
    static const struct quantity_form form = {.units = quantity_shares,
                                              .bare = TRAFFIC_LOAD_UNIT,
                                              .most = LOAD_MOST};

    return quantity_scan(at, &form, ret) == QUANTITY_OK &&
           (*ret <= TRAFFIC_LOAD_UNIT || (*at)[-1] == '%');
}

static bool add_load(struct traffic_options *options, uint64_t load)
{
    if (options->loads == TRAFFIC_LOADS_MAX || load == 0)
        return false;
    options->load[options->loads++] = load;
    return true;
}

/* Parse loads such as "0.1,0.5:0.9:0.1": numbers, and ranges FIRST:LAST:STEP. */
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

/* The forms of times. Each time except 0 must have a unit. */
static const struct quantity_form time_from_1ns = {quantity_times, 0, QUANTITY_NS_PS,
                                                   QUANTITY_S_PS};
static const struct quantity_form time_from_0 = {quantity_times, 0, 0, QUANTITY_S_PS};

static bool read_load(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    *right = "a share of the link rate, above 0 and at most 1, such as 0.5; a percentage up to "
             "1000%, such as 50% or 150%; or up to 1000 such values, as in 0.1,0.2 or 0.1:1:0.1; "
             "each value has at most 9 decimals";
    return read_loads(o, value);
}

static bool read_arrivals(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    *right = "poisson or fixed";
    o->config.fixed_gaps = strcmp(value, "fixed") == 0;
    return o->config.fixed_gaps || strcmp(value, "poisson") == 0;
}

static bool read_sources(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    *right = "N, first:N or random:N";
    return traffic_sources_parse(&o->config.sources, value);
}

static bool read_fanout(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    char *end;

    *right = "a mean number of destinations from 1 on, such as 4 or 2.5";
    o->config.fanout = strtod(value, &end);
    return *value >= '0' && *value <= '9' && !value[strspn(value, "0123456789.")] && !*end &&
           o->config.fanout >= 1 && o->config.fanout < 65536;
}

static bool read_multicast(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
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

static bool read_placement(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    *right = "block or random";
    o->config.at_random = strcmp(value, "random") == 0;
    return o->config.at_random || strcmp(value, "block") == 0;
}

static bool read_collective(void *into, const char *value, const char **right)
{
    static const struct {
        const char *name;
        enum traffic_by by;
    } ways[] = {{"hardware", TRAFFIC_BY_HARDWARE},
                {"dissemination", TRAFFIC_BY_DISSEMINATION},
                {"tree", TRAFFIC_BY_TREE}};
    struct traffic_options *o = into;
    size_t length = strcspn(value, ":"), i = 0;
    uint64_t radix = 0;

    static_assert(TRAFFIC_RADIX_MAX == 16, "the text below has this limit");
    *right = "hardware, dissemination or tree; the last two optionally with :K, K from 2 to 16";
    while (i < 3 && (strlen(ways[i].name) != length || strncmp(ways[i].name, value, length) != 0))
        i++;
    if (i == 3 ||
        (value[length] && (ways[i].by == TRAFFIC_BY_HARDWARE ||
                           !options_count(value + length + 1, 2, TRAFFIC_RADIX_MAX, &radix))))
        return false;
    o->config.by = ways[i].by;
    o->config.radix = (uint32_t)radix;
    return true;
}

static const char *const tclasses[] = {
    [EMU_TCLASS_DEFAULT] = "default", [EMU_TCLASS_BULK] = "bulk", [EMU_TCLASS_LATENCY] = "latency"};

static bool tclass_of(const char *name, uint8_t *ret)
{
    for (uint8_t i = 0; i < EMU_TCLASSES; i++)
        if (strcmp(name, tclasses[i]) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

static bool read_tclass(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    *right = "default, bulk or latency";
    return tclass_of(value, &o->config.tclass);
}

static bool read_storage(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    size_t bytes = strcspn(value, ":");
    char servers[16];
    uint64_t count;

    *right = "a number of servers from 1 on, and optionally a colon and a traffic class: default, "
             "bulk or latency";
    snprintf(servers, sizeof servers, "%.*s", (int)(bytes < sizeof servers ? bytes : 0), value);
    if (!options_count(servers, 1, UINT32_MAX, &count))
        return false;
    o->config.servers = (uint32_t)count;
    return !value[bytes] || tclass_of(value + bytes + 1, &o->config.storage_tclass);
}

static bool read_noise(void *into, const char *value, const char **right)
{
    struct traffic_options *o = into;
    char period[32];
    const char *colon = strchr(value, ':');

    *right = "PERIOD:LENGTH with their units, such as 1ms:25us, each up to 1s, "
             "and LENGTH shorter than PERIOD";
    if (!colon || (size_t)(colon - value) >= sizeof period)
        return false;
    snprintf(period, sizeof period, "%.*s", (int)(colon - value), value);
    return quantity_read(period, &time_from_1ns, &o->config.noise.period_ps) &&
           quantity_read(colon + 1, &time_from_0, &o->config.noise.length_ps) &&
           o->config.noise.length_ps < o->config.noise.period_ps;
}

#define AT(field) offsetof(struct traffic_options, field)
#define TIME_FROM_1NS       \
    .form = &time_from_1ns, \
    .right = "a time from 1ns to 1s, with its unit, such as 500ns, 2us or 1ms"
#define TIME_FROM_0 \
    .form = &time_from_0, .right = "0, or a time up to 1s with its unit, such as 500ns or 2us"

static const struct option_row rows[] = {
    {"pattern", "P", "traffic pattern: see above (default uniform)", .at = AT(pattern),
     .group = USE_ALL},
    {"goal", "FILE", "play the operations of a GOAL file instead of a pattern; rank r is node r",
     .at = AT(goal), .right = "the name of a file", .group = USE_ALL},
    {"load", "F[,F...]|A:B:STEP", "load of each source, as a fraction of link rate (default 0.5)",
     .read = read_load, .group = USE_OPEN},
    {"arrivals", "poisson|fixed", "time between messages: random (default), or always the same",
     .read = read_arrivals, .group = USE_OPEN},
    {"bytes", "SIZE", "payload of a message (default 240: one segment) or of a reduction (8)",
     .at = AT(config.bytes), .form = &(struct quantity_form){quantity_sizes, 1, 0, BYTES_MOST},
     .right = "a size from 0 to 1GiB, such as 240, 64K, 1MB or 1MiB; a number alone is in bytes",
     .group = USE_PAYLOAD},
    {"sources", "[first:|random:]N",
     "only N nodes send: N nodes at equal distances (default), the first N, or N random ones",
     .read = read_sources, .group = USE_OPEN},
    {"warmup", "TIME",
     "simulated time before the measurement (default: depends on load and latency)",
     .at = AT(config.warmup_ps), TIME_FROM_1NS, .group = USE_OPEN},
    {"measure", "TIME", "simulated time of the measurement (default: until it is steady)",
     .at = AT(config.measure_ps), TIME_FROM_1NS, .group = USE_OPEN},
    {"series", "TIME",
     "also report the bytes delivered in each interval of this length; needs --measure",
     .at = AT(config.window_ps), TIME_FROM_1NS, .group = USE_OPEN},
    {"telemetry", "FILE|-",
     "write snapshots of all counters, as fabemu run --record does; -: standard output",
     .at = AT(telemetry), .right = "the name of a file, or -", .group = USE_ALL},
    {"every", "TIME", "simulated time between snapshots (default 1us)",
     .at = AT(config.snapshots.every_ps), TIME_FROM_1NS, .group = USE_ALL},
    {"fanout", "MEAN", "multicast: mean destinations (default 4; md: 16)", .read = read_fanout,
     .group = USE_MULTICAST},
    {"fanout-law", "uniform|binomial|fixed",
     "multicast: distribution of the number of destinations; uniform (default): 1 to 2*MEAN-1",
     .at = AT(config.law), .choice = true, .right = "uniform, binomial or fixed",
     .group = USE_MULTICAST},
    {"sets", "N",
     "multicast: destination sets of each source (default 1024); at most 65536 for all sources "
     "together",
     .at = AT(config.sets), OPTIONS_RANGE(1, 65536), .group = USE_MULTICAST},
    {"multicast", "hardware|messages|tree[:K]",
     "hardware: switches make copies (default); messages: a message to each destination; "
     "tree[:K]: destinations forward messages in a binomial tree, or to K nodes each",
     .read = read_multicast, .group = USE_MULTICAST},
    {"groups", "N", "collectives: groups that run at the same time (default 1)",
     .at = AT(config.groups), OPTIONS_RANGE(1, 1024), .group = USE_COLLECTIVE},
    {"group-size", "N",
     "collectives: nodes in each group (default: all nodes, divided among the groups)",
     .at = AT(config.members), .least = 2, .most = UINT32_MAX, .right = "a number from 2 on",
     .group = USE_COLLECTIVE},
    {"operations", "N", "collectives: operations of each group (default 100)",
     .at = AT(config.operations), .wide = true, OPTIONS_RANGE(1, 1000000000),
     .group = USE_COLLECTIVE},
    {"interval", "TIME",
     "collectives: time between operations; 0 (default): each begins when the previous one ends",
     .at = AT(config.interval_ps), TIME_FROM_0, .group = USE_COLLECTIVE},
    {"skew", "TIME", "collectives: delay each post by a random time up to TIME (default 0)",
     .at = AT(config.skew_ps), TIME_FROM_0, .group = USE_COLLECTIVE},
    {"placement", "block|random", "collectives: choice of a group's nodes (default block)",
     .read = read_placement, .group = USE_COLLECTIVE},
    {"collective", "hardware|dissemination[:K]|tree[:K]",
     "collectives: by switches or adapters (default); by messages in rounds, each of which reaches "
     "K times as many nodes (default 2); or by messages in a tree, binomial or with K children",
     .read = read_collective, .group = USE_COLLECTIVE},
    {"processes", "N",
     "collectives: processes of each node; one of them communicates for all (default 1)",
     .at = AT(config.processes), OPTIONS_RANGE(1, 1024), .group = USE_COLLECTIVE},
    {"noise", "PERIOD:LENGTH", "collectives: each node is interrupted for LENGTH once per PERIOD",
     .read = read_noise, .group = USE_COLLECTIVE},
    {"tclass", "default|bulk|latency", "collectives: traffic class (--profile qsnet3)",
     .read = read_tclass, .group = USE_COLLECTIVE},
    {"storage", "N[:CLASS]",
     "collectives: N of the nodes in no group are file servers, and the other nodes in no group "
     "write to them without end, in this traffic class",
     .read = read_storage, .group = USE_COLLECTIVE},
};

static_assert(FABRIC_GROUPS_MAX == 65536 && FABRIC_COMBINING_MAX == 1024, "limits in rows[]");

#define ROWS (sizeof rows / sizeof rows[0])

static bool given(const struct traffic_options *options, const char *name)
{
    size_t row = 0;

    while (strcmp(rows[row].name, name) != 0)
        row++;
    return options->given >> row & 1;
}

void traffic_options_init(struct traffic_options *ret, struct option_table *own)
{
    *ret = (struct traffic_options){
        .pattern = "uniform",
        .config = {.bytes = 240,
                   .groups = 1,
                   .processes = 1,
                   .operations = 100,
                   .snapshots = {.every_ps = SNAPSHOTS_PS}},
        .loads = 1,
        .load = {TRAFFIC_LOAD_UNIT / 2},
    };
    *own = (struct option_table){rows, ROWS, ret, &ret->given};
}

/* @pattern: NULL if a GOAL file is played. */
static bool has_use(const struct traffic_pattern *pattern, enum use use)
{
    if (!pattern)
        return use == USE_ALL;
    bool collective = pattern->kind == TRAFFIC_COLLECTIVE;

    return use == USE_ALL || (use == USE_OPEN && !collective) ||
           (use == USE_COLLECTIVE && collective) ||
           (use == USE_MULTICAST && pattern->kind == TRAFFIC_MULTICAST) ||
           (use == USE_PAYLOAD && (!collective || pattern->collective != TRAFFIC_BARRIER));
}

static int check_use(const struct traffic_options *options, const struct traffic_pattern *pattern)
{
    for (size_t row = 0; row < ROWS; row++)
        if (options->given >> row & 1 && !has_use(pattern, (enum use)rows[row].group))
            return options_usage_error("traffic", "--%s cannot be used with --%s %.80s",
                                       rows[row].name, options->goal ? "goal" : "pattern",
                                       options->goal ? options->goal : options->pattern);
    if (given(options, "every") && !options->telemetry && !options->page)
        return options_usage_error("traffic", "--every needs --telemetry or --web");
    return 0;
}

/* Read the file of --goal. Prints errors. Returns 0 or an exit status. */
static int goal_config(struct traffic_config *ret, const struct traffic_options *options)
{
    char error[PATH_MAX + 512];
    struct goal *goal;
    int status =
        given(options, "pattern")
            ? options_usage_error("traffic", "--goal and --pattern cannot be used together")
            : check_use(options, NULL);

    if (status)
        return status;
    int err = goal_read(&goal, options->goal, error, sizeof error);
    if (err) {
        print_message("--goal: %s", error);
        return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    ret->goal = goal;
    return 0;
}

int traffic_options_config(struct traffic_config *ret, const struct traffic_options *options,
                           const struct fabric_config *fabric)
{
    char error[1024];

    *ret = options->config;
    ret->fabric = *fabric;
    if (options->goal)
        return goal_config(ret, options);
    int err =
        traffic_pattern_parse(&ret->pattern, options->pattern, fabric->graph, error, sizeof error);
    if (err) {
        print_message("--pattern: %s", error);
        return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    int status = check_use(options, &ret->pattern);
    if (!status && ret->pattern.kind == TRAFFIC_COLLECTIVE && !given(options, "bytes"))
        ret->bytes = 8;
    if (!status && ret->pattern.kind == TRAFFIC_COLLECTIVE &&
        ret->pattern.collective != TRAFFIC_BARRIER && ret->bytes == 0)
        status = options_usage_error("traffic", "--bytes 0: a reduction has 1 byte or more");
    if (status)
        traffic_pattern_release(&ret->pattern);
    return status;
}
