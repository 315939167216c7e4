/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_options.c - text becomes a configuration; what does not fit together is said.
 */
#include "apps/traffic_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/say.h"

#define NS_PS      1000u
#define TIME_MOST  UINT64_C(1000000000000) /* ps: a second */
#define LOAD_MOST  (10 * (uint64_t)TRAFFIC_LOAD_UNIT)
#define BYTES_MOST (UINT64_C(1) << 30)

/* Options that not every pattern takes: bits of traffic_options.given. */
enum given {
    GIVEN_LOAD = 1,
    GIVEN_ARRIVALS = 2,
    GIVEN_BYTES = 4,
    GIVEN_SOURCES = 8,
    GIVEN_WARMUP = 16,
    GIVEN_MEASURE = 32,
    GIVEN_FANOUT = 64,
    GIVEN_LAW = 128,
    GIVEN_SETS = 256,
    GIVEN_MULTICAST = 512,
    GIVEN_GROUPS = 1024,
    GIVEN_MEMBERS = 2048,
    GIVEN_OPERATIONS = 4096,
    GIVEN_INTERVAL = 8192,
    GIVEN_PLACEMENT = 16384
};

/* --- numbers ------------------------------------------------------------------------ */

static bool read_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < least || number > most)
        return false;
    *ret = number;
    return true;
}

/* "12.345" with up to 9 digits after the point becomes 12345000000; *end is what follows. */
static bool read_decimal(const char *text, uint64_t *ret, const char **end)
{
    uint64_t value = 0;
    uint64_t unit = TRAFFIC_LOAD_UNIT;
    bool digits = false;

    for (; *text >= '0' && *text <= '9' && value <= LOAD_MOST; text++, digits = true)
        value = 10 * value + (uint64_t)(*text - '0') * TRAFFIC_LOAD_UNIT;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9' && unit > 1; text++, digits = true)
            value += (uint64_t)(*text - '0') * (unit /= 10);
    *ret = value;
    *end = text;
    return digits && value <= LOAD_MOST;
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
        if (!read_decimal(text, &first, &text))
            return false;
        last = first;
        step = 1;
        if (*text == ':' && (!read_decimal(text + 1, &last, &text) || *text != ':' ||
                             !read_decimal(text + 1, &step, &text) || step == 0 || last < first))
            return false;
        for (uint64_t load = first; load <= last; load += step)
            if (!add_load(options, load))
                return false;
        if (*text != ',')
            return *text == '\0';
        text++;
    }
}

static bool read_time(const char *text, uint64_t least, uint64_t *ret, const char **right)
{
    uint64_t ns;

    *right = least ? "a number of ns from 1 to 1000000000" : "a number of ns up to 1000000000";
    if (!read_count(text, least, TIME_MOST / NS_PS, &ns))
        return false;
    *ret = ns * NS_PS;
    return true;
}

/* --- readers --------------------------------------------------------------------------- */

#define READER(name, bit)                                                                          \
    static bool take_##name(struct traffic_options *o, const char *value, const char **right);     \
    static bool read_##name(void *into, const char *value, const char **right)                     \
    {                                                                                              \
        struct traffic_options *options = into;                                                    \
        options->given |= bit;                                                                     \
        return take_##name(options, value, right);                                                 \
    }                                                                                              \
    static bool take_##name(struct traffic_options *o, const char *value, const char **right)

READER(pattern, 0)
{
    (void)right; /* traffic_pattern_parse() says what is wrong */
    o->pattern = value;
    return true;
}

READER(load, GIVEN_LOAD)
{
    *right = "fractions of the link rate above 0 and at most 10, such as 0.5 or 0.1,0.2 or "
             "0.1:1:0.1, 1000 in all";
    return read_loads(o, value);
}

READER(arrivals, GIVEN_ARRIVALS)
{
    *right = "poisson or fixed";
    o->config.fixed_gaps = strcmp(value, "fixed") == 0;
    return o->config.fixed_gaps || strcmp(value, "poisson") == 0;
}

READER(bytes, GIVEN_BYTES)
{
    *right = "a number from 0 to 1073741824";
    return read_count(value, 0, BYTES_MOST, &o->config.bytes);
}

READER(sources, GIVEN_SOURCES)
{
    *right = "N, first:N or random:N";
    return traffic_sources_parse(&o->config.sources, value);
}

READER(warmup, GIVEN_WARMUP)
{
    return read_time(value, 1, &o->config.warmup_ps, right);
}

READER(measure, GIVEN_MEASURE)
{
    return read_time(value, 1, &o->config.measure_ps, right);
}

READER(fanout, GIVEN_FANOUT)
{
    char *end;

    *right = "a mean of destinations from 1 on";
    o->config.fanout = strtod(value, &end);
    return *value >= '0' && *value <= '9' && !*end && o->config.fanout >= 1 &&
           o->config.fanout < 65536;
}

READER(law, GIVEN_LAW)
{
    static const char *const names[] = { [TRAFFIC_LAW_UNIFORM] = "uniform",
                                         [TRAFFIC_LAW_BINOMIAL] = "binomial",
                                         [TRAFFIC_LAW_FIXED] = "fixed" };

    *right = "uniform, binomial or fixed";
    for (int law = 0; law < 3; law++) {
        o->config.law = (enum traffic_law)law;
        if (strcmp(value, names[law]) == 0)
            return true;
    }
    return false;
}

READER(sets, GIVEN_SETS)
{
    uint64_t sets = 0;

    *right = "a number from 1 to 65536";
    if (!read_count(value, 1, FABRIC_GROUPS_MAX, &sets))
        return false;
    o->config.sets = (uint32_t)sets;
    return true;
}

READER(multicast, GIVEN_MULTICAST)
{
    *right = "hardware or messages";
    o->config.by_messages = strcmp(value, "messages") == 0;
    return o->config.by_messages || strcmp(value, "hardware") == 0;
}

READER(groups, GIVEN_GROUPS)
{
    uint64_t groups = 0;

    *right = "a number from 1 to 1024";
    if (!read_count(value, 1, FABRIC_COMBINING_MAX, &groups))
        return false;
    o->config.groups = (uint32_t)groups;
    return true;
}

READER(members, GIVEN_MEMBERS)
{
    uint64_t members = 0;

    *right = "a number from 2 on";
    if (!read_count(value, 2, UINT32_MAX, &members))
        return false;
    o->config.members = (uint32_t)members;
    return true;
}

READER(operations, GIVEN_OPERATIONS)
{
    *right = "a number from 1 to 1000000000";
    return read_count(value, 1, 1000000000, &o->config.operations);
}

READER(interval, GIVEN_INTERVAL)
{
    return read_time(value, 0, &o->config.interval_ps, right);
}

READER(placement, GIVEN_PLACEMENT)
{
    *right = "block or random";
    o->config.at_random = strcmp(value, "random") == 0;
    return o->config.at_random || strcmp(value, "block") == 0;
}

static const struct options_own owns_rows[] = {
    { "pattern", "P", "who sends to whom: see above (default uniform)", read_pattern },
    { "load", "F[,F...]|A:B:STEP", "of each source, as a fraction of link rate (default 0.5)",
      read_load },
    { "arrivals", "poisson|fixed", "times between messages: random (default), or all the same",
      read_arrivals },
    { "bytes", "N", "payload of a message or a vector (default 240: one segment; vectors 8)",
      read_bytes },
    { "sources", "[first:|random:]N", "only N nodes send: evenly spread, the first, or drawn",
      read_sources },
    { "warmup", "NS", "virtual time before the measurement (default: by load and latency)",
      read_warmup },
    { "measure", "NS", "virtual time of the measurement (default: 200000 or more)", read_measure },
    { "fanout", "MEAN", "multicast: mean destinations (default 4; md: 16)", read_fanout },
    { "fanout-law", "LAW", "multicast: uniform (1 to 2*MEAN-1; default), binomial, fixed",
      read_law },
    { "sets", "N", "multicast: destination sets of each source (default 1024; 65536 in all)", read_sets },
    { "multicast", "HOW", "hardware: switches copy (default); messages: one a destination",
      read_multicast },
    { "groups", "N", "collectives: groups at work at the same time (default 1)", read_groups },
    { "group-size", "N", "collectives: nodes of a group (default: all, shared out)", read_members },
    { "operations", "N", "collectives: of each group (default 100)", read_operations },
    { "interval", "NS", "collectives: from post to post; 0: after the one before (default)",
      read_interval },
    { "placement", "block|random", "collectives: which nodes make a group (default block)",
      read_placement },
};

void traffic_options_init(struct traffic_options *ret, struct options_owns *owns)
{
    *ret = (struct traffic_options){
        .pattern = "uniform",
        .config = { .bytes = 240, .groups = 1, .operations = 100 },
        .loads = 1,
        .load = { TRAFFIC_LOAD_UNIT / 2 },
    };
    *owns = (struct options_owns){ .row = owns_rows,
                                   .count = sizeof owns_rows / sizeof owns_rows[0],
                                   .into = ret };
}

/* --- together ------------------------------------------------------------------------------ */

#define OPEN_ONLY                                                                                  \
    (GIVEN_LOAD | GIVEN_ARRIVALS | GIVEN_SOURCES | GIVEN_WARMUP | GIVEN_MEASURE)
#define MULTICAST_ONLY  (GIVEN_FANOUT | GIVEN_LAW | GIVEN_SETS | GIVEN_MULTICAST)
#define COLLECTIVE_ONLY                                                                            \
    (GIVEN_GROUPS | GIVEN_MEMBERS | GIVEN_OPERATIONS | GIVEN_INTERVAL | GIVEN_PLACEMENT)

static const char *option_name(uint64_t bit)
{
    static const char *const names[] = { "load",   "arrivals",   "bytes",      "sources",
                                         "warmup", "measure",    "fanout",     "fanout-law",
                                         "sets",   "multicast",  "groups",     "group-size",
                                         "operations", "interval", "placement" };

    return names[__builtin_ctzll(bit)];
}

/* An option that this pattern has no use for is a mistake. */
static int check_use(const struct traffic_options *options, const struct traffic_pattern *pattern)
{
    bool collective = pattern->kind == TRAFFIC_COLLECTIVE;
    uint64_t useless = pattern->kind == TRAFFIC_MULTICAST ? 0 : MULTICAST_ONLY;

    useless |= collective ? OPEN_ONLY : COLLECTIVE_ONLY;
    if (collective && pattern->collective == TRAFFIC_BARRIER)
        useless |= GIVEN_BYTES;
    useless &= options->given;
    if (!useless)
        return 0;
    return options_usage_error("traffic", "--%s has no meaning with --pattern %.80s",
                               option_name(useless & -useless), options->pattern);
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
        say("--pattern: %s", error);
        return err == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
    }
    int status = check_use(options, &ret->pattern);
    if (!status && ret->pattern.kind == TRAFFIC_COLLECTIVE && !(options->given & GIVEN_BYTES))
        ret->bytes = 8;
    if (!status && ret->pattern.kind == TRAFFIC_COLLECTIVE &&
        ret->pattern.collective != TRAFFIC_BARRIER && ret->bytes == 0)
        status = options_usage_error("traffic", "--bytes 0: a reduction has 1 or more");
    if (status)
        traffic_pattern_release(&ret->pattern);
    return status;
}
