/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * part.c - what a host that obeys has counted of its part, for the sampler of the host that
 * governs.
 *
 * Told are records of numbers: what has been added to counters since they were told last, and
 * queues and the like as they are. So the governor adds up, whoever has which end of a cable, and a
 * host that begins anew, from 0, takes nothing back. A number has 7 bits a byte, the lowest first,
 * the last byte below 128: most of them are small, and rows that have not changed are not there.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/telemetry/internal.h"
#include "emu/util/now.h"

/* Each record begins with what it is. */
enum record {
    RECORD_WAY,           /* way, segments, stalls, queue, errors */
    RECORD_SWITCH,        /* switch, contributions, results, multicasts, states */
    RECORD_NODE,          /* node, sent, delivered, contributions, posted, untaken */
    RECORD_FINISHED,      /* group, number, kind, bytes, members, ns since it began, ended */
    RECORD_FINISHED_SUMS, /* told by members, missed */
    RECORD_TOTALS,        /* FABRIC_COUNTERS of them */
    RECORDS
};

#define NUMBERS_MOST FABRIC_COUNTERS /* of a record */

/* Of a collective, what the governor knows. */
struct told_finished {
    uint32_t group, members;
    uint64_t first;
};

struct telemetry_part {
    struct telemetry *telemetry;
    uint64_t now_ns; /* of its last look */
    uint64_t next;   /* row to be told, counted through all lists; 0: a look is due */
    struct fabric_way *way;
    struct fabric_combined *sw;
    struct fabric_passed *node;
    struct told_finished *finished;
    uint64_t finished_count, finished_missed;
    struct fabric_totals totals;
};

int telemetry_part_create(struct telemetry_part **ret, const struct telemetry_source *source)
{
    const struct topo_graph *graph = source->config->graph;
    struct telemetry_part *part = calloc(1, sizeof *part);
    int err = part ? telemetry_create(&part->telemetry, source) : -ENOMEM;

    if (err) {
        free(part);
        return err;
    }
    part->way = calloc(2 * (size_t)fabric_cable_count(source->fabric) + 1, sizeof *part->way);
    part->sw = calloc(graph->switches, sizeof *part->sw);
    part->node = calloc(graph->nodes, sizeof *part->node);
    part->finished = calloc(TELEMETRY_FINISHED, sizeof *part->finished);
    if (!part->way || !part->sw || !part->node || !part->finished) {
        telemetry_part_destroy(part);
        return -ENOMEM;
    }
    *ret = part;
    return 0;
}

void telemetry_part_destroy(struct telemetry_part *part)
{
    if (!part)
        return;
    free(part->finished);
    free(part->node);
    free(part->sw);
    free(part->way);
    telemetry_destroy(part->telemetry);
    free(part);
}

void telemetry_part_leaves(struct telemetry_part *part, uint32_t node)
{
    telemetry_leaves(part->telemetry, node);
}

/* --- records, told ---------------------------------------------------------------------- */

static void put(struct telemetry_text *bytes, const uint64_t *numbers, size_t count)
{
    char *at = telemetry_text_room(bytes, 10 * count), *begin = at;

    if (!at)
        return;
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = numbers[i];

        for (; rest > 127; rest >>= 7)
            *at++ = (char)(uint8_t)(rest | 128);
        *at++ = (char)rest;
    }
    bytes->bytes += (size_t)(at - begin);
}

#define PUT(bytes, ...)                         \
    put(bytes, (const uint64_t[]){__VA_ARGS__}, \
        sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void tell_way(struct telemetry_part *part, uint64_t i, struct telemetry_text *bytes)
{
    const struct fabric_way *now = &part->telemetry->way[i].now, *told = &part->way[i];

    if (now->segments != told->segments || now->stalls != told->stalls ||
        now->queue != told->queue || now->errors != told->errors)
        PUT(bytes, RECORD_WAY, i, now->segments - told->segments, now->stalls - told->stalls,
            now->queue, now->errors - told->errors);
    part->way[i] = *now;
}

static void tell_switch(struct telemetry_part *part, uint64_t s, struct telemetry_text *bytes)
{
    const struct fabric_combined *now = &part->telemetry->sw[s].now, *told = &part->sw[s];

    if (now->contributions != told->contributions || now->results != told->results ||
        now->multicasts != told->multicasts || now->states != told->states)
        PUT(bytes, RECORD_SWITCH, s, now->contributions - told->contributions,
            now->results - told->results, now->multicasts - told->multicasts, now->states);
    part->sw[s] = *now;
}

static void tell_node(struct telemetry_part *part, uint64_t n, struct telemetry_text *bytes)
{
    const struct fabric_passed *now = &part->telemetry->node[n].now, *told = &part->node[n];

    if (now->sent != told->sent || now->delivered != told->delivered ||
        now->contributions != told->contributions || now->posted != told->posted ||
        now->untaken != told->untaken)
        PUT(bytes, RECORD_NODE, n, now->sent - told->sent, now->delivered - told->delivered,
            now->contributions - told->contributions, now->posted, now->untaken);
    part->node[n] = *now;
}

/* Clocks of hosts differ: told is for how long it has been. */
static uint64_t age_ns(const struct telemetry_part *part, uint64_t at_ns)
{
    return part->now_ns > at_ns ? part->now_ns - at_ns : 0;
}

static void tell_finished(struct telemetry_part *part, uint64_t i, struct telemetry_text *bytes)
{
    const struct telemetry_finished *at = &part->telemetry->finished[i];
    struct told_finished *told = &part->finished[i];

    if (told->group != at->now.group || told->first != at->now.first)
        *told = (struct told_finished){.group = at->now.group, .first = at->now.first};
    if (at->members != told->members)
        PUT(bytes, RECORD_FINISHED, at->now.group, at->now.first, at->now.kind, at->now.bytes,
            at->members - told->members, age_ns(part, at->now.began_ns),
            age_ns(part, at->now.ended_ns));
    told->members = at->members;
}

static void tell_sums(struct telemetry_part *part, struct telemetry_text *bytes)
{
    const uint64_t *now = (const uint64_t *)(const void *)&part->telemetry->totals;
    uint64_t *told = (uint64_t *)(void *)&part->totals;
    uint64_t totals[1 + FABRIC_COUNTERS] = {RECORD_TOTALS};

    PUT(bytes, RECORD_FINISHED_SUMS, part->telemetry->finished_count - part->finished_count,
        part->telemetry->finished_missed - part->finished_missed);
    part->finished_count = part->telemetry->finished_count;
    part->finished_missed = part->telemetry->finished_missed;
    for (size_t i = 0; i < FABRIC_COUNTERS; i++) {
        totals[1 + i] = now[i] - told[i];
        told[i] = now[i];
    }
    put(bytes, totals, sizeof totals / sizeof totals[0]);
}

/* The row of that number; false: there is none any more. */
static bool tell_row(struct telemetry_part *part, uint64_t row, struct telemetry_text *bytes)
{
    const struct telemetry_source *source = &part->telemetry->source;
    const struct topo_graph *graph = source->config->graph;
    const struct {
        uint64_t rows;
        void (*tell)(struct telemetry_part *part, uint64_t row, struct telemetry_text *bytes);
    } lists[] = {{2 * (uint64_t)fabric_cable_count(source->fabric), tell_way},
                 {graph->switches, tell_switch},
                 {graph->nodes, tell_node},
                 {TELEMETRY_FINISHED, tell_finished}};

    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        if (row < lists[l].rows) {
            lists[l].tell(part, row, bytes);
            return true;
        }
        row -= lists[l].rows;
    }
    return false;
}

int telemetry_part_tell(struct telemetry_part *part, size_t most, struct telemetry_text *bytes)
{
    telemetry_text_clear(bytes);
    if (!part->next) {
        part->now_ns = emu_now_ns();
        telemetry_look(part->telemetry, part->now_ns);
    }
    while (bytes->bytes < most && !bytes->failed) {
        if (tell_row(part, part->next, bytes)) {
            part->next++;
            continue;
        }
        tell_sums(part, bytes);
        part->next = 0;
        break;
    }
    return bytes->failed ? -ENOMEM : part->next > 0;
}

/* --- heard ------------------------------------------------------------------------------ */

struct heard {
    struct telemetry *telemetry;
    uint32_t host;
    uint64_t now_ns;
    const uint8_t *at, *end;
};

static bool get(struct heard *heard, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; heard->at < heard->end && shift < 64; shift += 7) {
        uint8_t byte = *heard->at++;

        *number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static uint32_t at_most(uint64_t number)
{
    return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

static bool heard_way(struct heard *heard, const uint64_t *n)
{
    struct telemetry *t = heard->telemetry;

    if (n[0] >= 2 * (uint64_t)fabric_cable_count(t->source.fabric))
        return false;
    struct fabric_way *way = &t->far->way[n[0]];

    way->errors += n[4];
    if (fabric_way_host(t->source.fabric, (uint32_t)n[0], true) != heard->host)
        return true;
    way->segments += n[1];
    way->stalls += n[2];
    way->queue = at_most(n[3]);
    return true;
}

static bool heard_switch(struct heard *heard, const uint64_t *n)
{
    const struct fabric_config *config = heard->telemetry->source.config;

    if (n[0] >= config->graph->switches ||
        fabric_switch_host(config, (uint32_t)n[0]) != heard->host)
        return false;
    struct fabric_combined *sw = &heard->telemetry->far->sw[n[0]];

    sw->contributions += n[1];
    sw->results += n[2];
    sw->multicasts += n[3];
    sw->states = at_most(n[4]);
    return true;
}

static bool heard_node(struct heard *heard, const uint64_t *n)
{
    const struct fabric_config *config = heard->telemetry->source.config;

    if (n[0] >= config->graph->nodes || fabric_node_host(config, (uint32_t)n[0]) != heard->host)
        return false;
    struct fabric_passed *node = &heard->telemetry->far->node[n[0]];

    node->sent += n[1];
    node->delivered += n[2];
    node->contributions += n[3];
    node->posted = at_most(n[4]);
    node->untaken = at_most(n[5]);
    return true;
}

static bool heard_finished(struct heard *heard, const uint64_t *n)
{
    struct telemetry *t = heard->telemetry;
    struct emu_finished one = {.group = at_most(n[0]),
                               .first = n[1],
                               .kind = (uint8_t)n[2],
                               .bytes = n[3],
                               .began_ns = heard->now_ns > n[5] ? heard->now_ns - n[5] : 0,
                               .ended_ns = heard->now_ns > n[6] ? heard->now_ns - n[6] : 0};

    if (n[2] >= EMU_KINDS || n[4] < 1 || n[4] > t->source.config->graph->nodes)
        return false;
    telemetry_finished_note(t, &one, (uint32_t)n[4], t->looks + 1);
    return true;
}

static bool heard_sums(struct heard *heard, const uint64_t *n)
{
    heard->telemetry->finished_count += n[0];
    heard->telemetry->finished_missed += n[1];
    return true;
}

static bool heard_totals(struct heard *heard, const uint64_t *n)
{
    uint64_t *sum = (uint64_t *)(void *)&heard->telemetry->far->totals;

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        sum[i] += n[i];
    return true;
}

/* clang-format off */
static const struct {
    size_t numbers;
    bool (*take)(struct heard *heard, const uint64_t *numbers);
} records[RECORDS] = {
    [RECORD_WAY] = {5, heard_way},
    [RECORD_SWITCH] = {5, heard_switch},
    [RECORD_NODE] = {6, heard_node},
    [RECORD_FINISHED] = {7, heard_finished},
    [RECORD_FINISHED_SUMS] = {2, heard_sums},
    [RECORD_TOTALS] = {FABRIC_COUNTERS, heard_totals},
};
/* clang-format on */

bool telemetry_heard(struct telemetry *t, uint32_t host, const void *bytes, size_t count,
                     uint64_t now_ns)
{
    struct heard heard = {.telemetry = t, .host = host, .now_ns = now_ns, .at = bytes};
    uint64_t what, numbers[NUMBERS_MOST];

    heard.end = heard.at + count;
    while (heard.at < heard.end) {
        if (!t->far || !get(&heard, &what) || what >= RECORDS)
            return false;
        for (size_t i = 0; i < records[what].numbers; i++)
            if (!get(&heard, &numbers[i]))
                return false;
        if (!records[what].take(&heard, numbers))
            return false;
    }
    return true;
}

void telemetry_host_lost(struct telemetry *t, uint32_t host)
{
    const struct fabric_config *config = t->source.config;

    if (!t->far)
        return;
    for (uint32_t i = 0; i < 2 * fabric_cable_count(t->source.fabric); i++)
        if (fabric_way_host(t->source.fabric, i, true) == host)
            t->far->way[i].queue = 0;
    for (uint32_t s = 0; s < config->graph->switches; s++)
        if (fabric_switch_host(config, s) == host)
            t->far->sw[s].states = 0;
    for (uint32_t n = 0; n < config->graph->nodes; n++)
        if (fabric_node_host(config, n) == host)
            t->far->node[n].posted = t->far->node[n].untaken = 0;
}

/* --- added up --------------------------------------------------------------------------- */

void telemetry_far_way(const struct telemetry *t, uint32_t i, struct fabric_way *sum)
{
    const struct fabric_way *far = &t->far->way[i];

    sum->segments += far->segments;
    sum->stalls += far->stalls;
    sum->errors += far->errors;
    sum->queue += far->queue;
}

void telemetry_far_totals(const struct telemetry *t, struct fabric_totals *sum)
{
    const uint64_t *far = (const uint64_t *)(const void *)&t->far->totals;
    uint64_t *here = (uint64_t *)(void *)sum;

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        here[i] += far[i];
}

int telemetry_far_create(struct telemetry *t)
{
    const struct topo_graph *graph = t->source.config->graph;

    t->far = calloc(1, sizeof *t->far);
    if (!t->far)
        return -ENOMEM;
    t->far->way = calloc(2 * (size_t)fabric_cable_count(t->source.fabric) + 1, sizeof *t->far->way);
    t->far->sw = calloc(graph->switches, sizeof *t->far->sw);
    t->far->node = calloc(graph->nodes, sizeof *t->far->node);
    return t->far->way && t->far->sw && t->far->node ? 0 : -ENOMEM;
}

void telemetry_far_free(struct telemetry *t)
{
    if (!t->far)
        return;
    free(t->far->node);
    free(t->far->sw);
    free(t->far->way);
    free(t->far);
}
