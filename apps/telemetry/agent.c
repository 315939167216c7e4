/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * part.c - the counters of a follower's part of the network, for the sampler of the coordinator.
 *
 * A follower sends records of numbers: by how much a count has grown since it was sent last, and
 * levels as they are. So the coordinator adds up, whichever host has which end of a cable, and a
 * host that starts again from 0 takes nothing back. Counters are in the order of counters.def; the
 * hosts of a fabric have the same list (cluster_digest()). A number has 7 bits a byte, the lowest
 * first, and its last byte is below 128, since most numbers are small. Parts whose counters have
 * not changed have no record.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/telemetry/internal.h"
#include "emu/util/now.h"

/* Each record begins with what it is. */
enum record {
    RECORD_WAY,           /* way, its counters */
    RECORD_SWITCH,        /* switch, its counters */
    RECORD_NODE,          /* node, its counters */
    RECORD_FINISHED,      /* group, number, kind, bytes, members, ns since it began, ended */
    RECORD_FINISHED_SUMS, /* told by members, missed */
    RECORD_TOTALS,        /* FABRIC_COUNTERS of them */
    RECORDS
};

#define NUMBERS_MOST FABRIC_COUNTERS /* of a record */
static_assert(1 + FABRIC_COUNTERS_MOST <= NUMBERS_MOST, "records of parts have room");

/* Of a collective, what the governor knows. */
struct sent_finished {
    uint32_t group, members;
    uint64_t first;
};

struct telemetry_agent {
    struct telemetry *telemetry;
    uint64_t now_ns; /* of its last look */
    uint64_t next;   /* row to be told, counted through all lists; 0: a look is due */
    struct fabric_direction_sample *direction;
    struct fabric_switch_sample *sw;
    struct fabric_node_sample *node;
    struct sent_finished *finished;
    uint64_t finished_count, finished_missed;
    struct fabric_totals totals;
};

int telemetry_agent_create(struct telemetry_agent **ret, const struct telemetry_source *source)
{
    const struct topo_graph *graph = source->config->graph;
    struct telemetry_agent *part = calloc(1, sizeof *part);
    int err = part ? telemetry_create(&part->telemetry, source) : -ENOMEM;

    if (err) {
        free(part);
        return err;
    }
    part->direction =
        calloc(2 * (size_t)fabric_cable_count(source->fabric) + 1, sizeof *part->direction);
    part->sw = calloc(graph->switches, sizeof *part->sw);
    part->node = calloc(graph->nodes, sizeof *part->node);
    part->finished = calloc(TELEMETRY_FINISHED, sizeof *part->finished);
    if (!part->direction || !part->sw || !part->node || !part->finished) {
        telemetry_agent_destroy(part);
        return -ENOMEM;
    }
    *ret = part;
    return 0;
}

void telemetry_agent_destroy(struct telemetry_agent *part)
{
    if (!part)
        return;
    free(part->finished);
    free(part->node);
    free(part->sw);
    free(part->direction);
    telemetry_destroy(part->telemetry);
    free(part);
}

void telemetry_agent_leaves(struct telemetry_agent *part, uint32_t node)
{
    telemetry_leaves(part->telemetry, node);
}

/* --- records, told ---------------------------------------------------------------------- */

static void put(struct text_buf *bytes, const uint64_t *numbers, size_t count)
{
    char *at = text_buf_reserve(bytes, 10 * count), *begin = at;

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

/* The counters of part @i, if they have changed; @last_sent: as they were sent last. */
static void report_counters(enum record record, uint64_t i, const struct fabric_counters *counters,
                            const uint64_t *now, uint64_t *last_sent, struct text_buf *bytes)
{
    uint64_t numbers[2 + FABRIC_COUNTERS_MOST] = {record, i};

    if (memcmp(now, last_sent, counters->count * sizeof *now) == 0)
        return;
    for (size_t c = 0; c < counters->count; c++)
        numbers[2 + c] = counters->counter[c].kind == FABRIC_LEVEL ? now[c] : now[c] - last_sent[c];
    put(bytes, numbers, 2 + counters->count);
    memcpy(last_sent, now, counters->count * sizeof *now);
}

static void report_direction(struct telemetry_agent *part, uint64_t i, struct text_buf *bytes)
{
    report_counters(RECORD_WAY, i, &fabric_direction_counters,
                    part->telemetry->direction[i].now.value, part->direction[i].value, bytes);
}

static void report_switch(struct telemetry_agent *part, uint64_t s, struct text_buf *bytes)
{
    report_counters(RECORD_SWITCH, s, &fabric_switch_counters, part->telemetry->sw[s].now.value,
                    part->sw[s].value, bytes);
}

static void report_node(struct telemetry_agent *part, uint64_t n, struct text_buf *bytes)
{
    report_counters(RECORD_NODE, n, &fabric_node_counters, part->telemetry->node[n].now.value,
                    part->node[n].value, bytes);
}

/* Clocks of hosts differ: told is for how long it has been. */
static uint64_t age_ns(const struct telemetry_agent *part, uint64_t at_ns)
{
    return part->now_ns > at_ns ? part->now_ns - at_ns : 0;
}

static void report_finished(struct telemetry_agent *part, uint64_t i, struct text_buf *bytes)
{
    const struct telemetry_finished *at = &part->telemetry->finished[i];
    struct sent_finished *last_sent = &part->finished[i];

    if (last_sent->group != at->now.group || last_sent->first != at->now.first)
        *last_sent = (struct sent_finished){.group = at->now.group, .first = at->now.first};
    if (at->members != last_sent->members)
        PUT(bytes, RECORD_FINISHED, at->now.group, at->now.first, at->now.kind, at->now.bytes,
            at->members - last_sent->members, age_ns(part, at->now.began_ns),
            age_ns(part, at->now.ended_ns));
    last_sent->members = at->members;
}

static void report_sums(struct telemetry_agent *part, struct text_buf *bytes)
{
    const uint64_t *now = (const uint64_t *)(const void *)&part->telemetry->totals;
    uint64_t *last_sent = (uint64_t *)(void *)&part->totals;
    uint64_t totals[1 + FABRIC_COUNTERS] = {RECORD_TOTALS};

    PUT(bytes, RECORD_FINISHED_SUMS, part->telemetry->finished_count - part->finished_count,
        part->telemetry->finished_missed - part->finished_missed);
    part->finished_count = part->telemetry->finished_count;
    part->finished_missed = part->telemetry->finished_missed;
    for (size_t i = 0; i < FABRIC_COUNTERS; i++) {
        totals[1 + i] = now[i] - last_sent[i];
        last_sent[i] = now[i];
    }
    put(bytes, totals, sizeof totals / sizeof totals[0]);
}

/* The row of that number; false: there is none any more. */
static bool report_row(struct telemetry_agent *part, uint64_t row, struct text_buf *bytes)
{
    const struct telemetry_source *source = &part->telemetry->source;
    const struct topo_graph *graph = source->config->graph;
    const struct {
        uint64_t rows;
        void (*report)(struct telemetry_agent *part, uint64_t row, struct text_buf *bytes);
    } lists[] = {{2 * (uint64_t)fabric_cable_count(source->fabric), report_direction},
                 {graph->switches, report_switch},
                 {graph->nodes, report_node},
                 {TELEMETRY_FINISHED, report_finished}};

    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        if (row < lists[l].rows) {
            lists[l].report(part, row, bytes);
            return true;
        }
        row -= lists[l].rows;
    }
    return false;
}

int telemetry_agent_report(struct telemetry_agent *part, size_t most, struct text_buf *bytes)
{
    text_buf_clear(bytes);
    if (!part->next) {
        part->now_ns = emu_now_ns();
        telemetry_sample(part->telemetry, part->now_ns);
    }
    while (bytes->bytes < most && !bytes->failed) {
        if (report_row(part, part->next, bytes)) {
            part->next++;
            continue;
        }
        report_sums(part, bytes);
        part->next = 0;
        break;
    }
    return bytes->failed ? -ENOMEM : part->next > 0;
}

/* --- heard ------------------------------------------------------------------------------ */

struct received {
    struct telemetry *telemetry;
    uint32_t host;
    uint64_t now_ns;
    const uint8_t *at, *end;
};

static bool get(struct received *received, uint64_t *number)
{
    *number = 0;
    for (unsigned shift = 0; received->at < received->end && shift < 64; shift += 7) {
        uint8_t byte = *received->at++;

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

/* @value: counters of a part that follow its number in a record; added to @sum. */
static void receive_counters(const struct fabric_counters *counters, const uint64_t *value,
                             uint64_t *sum)
{
    for (size_t c = 0; c < counters->count; c++)
        sum[c] = counters->counter[c].kind == FABRIC_LEVEL ? at_most(value[c]) : sum[c] + value[c];
}

static bool receive_direction(struct received *received, const uint64_t *n)
{
    struct telemetry *t = received->telemetry;

    if (n[0] >= 2 * (uint64_t)fabric_cable_count(t->source.fabric))
        return false;
    uint64_t *sum = t->remote->direction[n[0]].value;

    if (fabric_direction_host(t->source.fabric, (uint32_t)n[0], true) == received->host) {
        receive_counters(&fabric_direction_counters, n + 1, sum);
        return true;
    }
    for (size_t c = 0; c < fabric_direction_counters.count; c++)
        if (fabric_direction_counters.counter[c].kind == FABRIC_GROWS_AT_BOTH_ENDS)
            sum[c] += n[1 + c];
    return true;
}

static bool receive_switch(struct received *received, const uint64_t *n)
{
    const struct fabric_config *config = received->telemetry->source.config;

    if (n[0] >= config->graph->switches ||
        fabric_switch_host(config, (uint32_t)n[0]) != received->host)
        return false;
    receive_counters(&fabric_switch_counters, n + 1, received->telemetry->remote->sw[n[0]].value);
    return true;
}

static bool receive_node(struct received *received, const uint64_t *n)
{
    const struct fabric_config *config = received->telemetry->source.config;

    if (n[0] >= config->graph->nodes || fabric_node_host(config, (uint32_t)n[0]) != received->host)
        return false;
    receive_counters(&fabric_node_counters, n + 1, received->telemetry->remote->node[n[0]].value);
    return true;
}

static bool receive_finished(struct received *received, const uint64_t *n)
{
    struct telemetry *t = received->telemetry;
    struct emu_finished one = {.group = at_most(n[0]),
                               .first = n[1],
                               .kind = (uint8_t)n[2],
                               .bytes = n[3],
                               .began_ns = received->now_ns > n[5] ? received->now_ns - n[5] : 0,
                               .ended_ns = received->now_ns > n[6] ? received->now_ns - n[6] : 0};

    if (n[2] >= EMU_KINDS || n[4] < 1 || n[4] > t->source.config->graph->nodes)
        return false;
    telemetry_finished_note(t, &one, (uint32_t)n[4], t->samples + 1);
    return true;
}

static bool receive_sums(struct received *received, const uint64_t *n)
{
    received->telemetry->finished_count += n[0];
    received->telemetry->finished_missed += n[1];
    return true;
}

static bool receive_totals(struct received *received, const uint64_t *n)
{
    uint64_t *sum = (uint64_t *)(void *)&received->telemetry->remote->totals;

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        sum[i] += n[i];
    return true;
}

/* clang-format off */
static const struct {
    size_t numbers;
    bool (*take)(struct received *received, const uint64_t *numbers);
} records[RECORDS] = {
    [RECORD_WAY] = {1 + FABRIC_DIRECTION_COUNTERS, receive_direction},
    [RECORD_SWITCH] = {1 + FABRIC_SWITCH_COUNTERS, receive_switch},
    [RECORD_NODE] = {1 + FABRIC_NODE_COUNTERS, receive_node},
    [RECORD_FINISHED] = {7, receive_finished},
    [RECORD_FINISHED_SUMS] = {2, receive_sums},
    [RECORD_TOTALS] = {FABRIC_COUNTERS, receive_totals},
};
/* clang-format on */

bool telemetry_receive(struct telemetry *t, uint32_t host, const void *bytes, size_t count,
                       uint64_t now_ns)
{
    struct received received = {.telemetry = t, .host = host, .now_ns = now_ns, .at = bytes};
    uint64_t what, numbers[NUMBERS_MOST];

    received.end = received.at + count;
    while (received.at < received.end) {
        if (!t->remote || !get(&received, &what) || what >= RECORDS)
            return false;
        for (size_t i = 0; i < records[what].numbers; i++)
            if (!get(&received, &numbers[i]))
                return false;
        if (!records[what].take(&received, numbers))
            return false;
    }
    return true;
}

void telemetry_host_lost(struct telemetry *t, uint32_t host)
{
    const struct fabric_config *config = t->source.config;

    if (!t->remote)
        return;
    for (uint32_t i = 0; i < 2 * fabric_cable_count(t->source.fabric); i++)
        if (fabric_direction_host(t->source.fabric, i, true) == host)
            fabric_counters_idle(&fabric_direction_counters, t->remote->direction[i].value);
    for (uint32_t s = 0; s < config->graph->switches; s++)
        if (fabric_switch_host(config, s) == host)
            fabric_counters_idle(&fabric_switch_counters, t->remote->sw[s].value);
    for (uint32_t n = 0; n < config->graph->nodes; n++)
        if (fabric_node_host(config, n) == host)
            fabric_counters_idle(&fabric_node_counters, t->remote->node[n].value);
}

/* --- added up --------------------------------------------------------------------------- */

void telemetry_remote_totals(const struct telemetry *t, struct fabric_totals *sum)
{
    const uint64_t *peer = (const uint64_t *)(const void *)&t->remote->totals;
    uint64_t *here = (uint64_t *)(void *)sum;

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        here[i] += peer[i];
}

int telemetry_remote_create(struct telemetry *t)
{
    const struct topo_graph *graph = t->source.config->graph;

    t->remote = calloc(1, sizeof *t->remote);
    if (!t->remote)
        return -ENOMEM;
    t->remote->direction =
        calloc(2 * (size_t)fabric_cable_count(t->source.fabric) + 1, sizeof *t->remote->direction);
    t->remote->sw = calloc(graph->switches, sizeof *t->remote->sw);
    t->remote->node = calloc(graph->nodes, sizeof *t->remote->node);
    return t->remote->direction && t->remote->sw && t->remote->node ? 0 : -ENOMEM;
}

void telemetry_remote_free(struct telemetry *t)
{
    if (!t->remote)
        return;
    free(t->remote->node);
    free(t->remote->sw);
    free(t->remote->direction);
    free(t->remote);
}
