/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.c - sends the counters of an agent host to the sampler of the coordinator.
 *
 * An agent sends *records* of numbers. Most records are about one row of counters, for example of a
 * switch. Such a record has the growth of each counter since the last record about this row, or the
 * value if the counter is a gauge, such as a queue length. The coordinator adds the growth to its
 * sums, so the sums do not fall when a host restarts from 0. If a counter grows at both ends of a
 * cable, the growth from both hosts is added, otherwise only the growth from the host to which the
 * row belongs. Counters are in the order of counters.def; all hosts of a fabric have the same list
 * (cluster_digest()). Most numbers are small, so they are encoded with 7 bits per byte, lowest bits
 * first. Bit 7 is set in all bytes except the last. Rows that have not changed get no record.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fabric/stalls.h"
#include "apps/telemetry/internal.h"
#include "emu/util/count.h"
#include "emu/util/now.h"

/* The first number of a record is its type. The comments list the numbers after it. */
enum record {
    /* a type below TELEMETRY_TABLES is a table of counters: row number, counters of the row */
    /*
     * a collective: group, first sequence number, kind, bytes, members, ns since it began and ended
     */
    RECORD_FINISHED = TELEMETRY_TABLES,
    RECORD_FINISHED_SUMS, /* completions counted, completions missed */
    RECORD_TOTALS,        /* FABRIC_COUNTERS totals */
    RECORDS
};

#define NUMBERS_MOST FABRIC_COUNTERS /* maximum number of numbers in a record, without the first */
static_assert(1 + FABRIC_COUNTERS_MOST <= NUMBERS_MOST, "a row of counters fits into a record");

/* The values that were last sent about a collective. */
struct sent_finished {
    uint32_t group, members;
    uint64_t first;
};

struct telemetry_agent {
    struct telemetry *telemetry;
    uint64_t now_ns; /* time of the last sample */
    uint64_t next;   /* next row to send, counted over all tables; 0: take a sample first */

    /* The values that were last sent to the coordinator. */
    struct telemetry_table table[TELEMETRY_TABLES];
    struct sent_finished *finished;
    uint64_t finished_count, finished_missed;
    struct fabric_totals totals;
};

int telemetry_agent_create(struct telemetry_agent **ret, const struct telemetry_source *source)
{
    const struct topo_graph *graph = source->config->graph;
    struct telemetry_agent *agent = calloc(1, sizeof *agent);
    int err = agent ? telemetry_create(&agent->telemetry, source) : -ENOMEM;

    if (err) {
        free(agent);
        return err;
    }
    agent->finished = calloc(TELEMETRY_FINISHED, sizeof *agent->finished);
    if (telemetry_tables_create(agent->table, 2 * fabric_cable_count(source->fabric),
                                graph->switches, graph->nodes) ||
        !agent->finished) {
        telemetry_agent_destroy(agent);
        return -ENOMEM;
    }
    *ret = agent;
    return 0;
}

void telemetry_agent_destroy(struct telemetry_agent *agent)
{
    if (!agent)
        return;
    free(agent->finished);
    telemetry_tables_free(agent->table);
    telemetry_destroy(agent->telemetry);
    free(agent);
}

void telemetry_agent_leaves(struct telemetry_agent *agent, uint32_t node)
{
    telemetry_leaves(agent->telemetry, node);
}

/* --- sending ---------------------------------------------------------------------------- */

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

static void report_counters(struct telemetry_agent *agent, unsigned kind, uint64_t row,
                            struct text_buf *bytes)
{
    const struct fabric_counters *counters = agent->table[kind].counters;
    const uint64_t *now = telemetry_values(&agent->telemetry->table[kind], row);
    uint64_t *last_sent = telemetry_values(&agent->table[kind], row);
    uint64_t numbers[2 + FABRIC_COUNTERS_MOST] = {kind, row};

    if (memcmp(now, last_sent, counters->count * sizeof *now) == 0)
        return;
    for (size_t c = 0; c < counters->count; c++)
        numbers[2 + c] = counters->counter[c].kind == FABRIC_GAUGE ? now[c] : now[c] - last_sent[c];
    put(bytes, numbers, 2 + counters->count);
    memcpy(last_sent, now, counters->count * sizeof *now);
}

/* Times are sent as ages, because hosts have different clocks. */
static uint64_t age_ns(const struct telemetry_agent *agent, uint64_t at_ns)
{
    return agent->now_ns > at_ns ? agent->now_ns - at_ns : 0;
}

static void report_finished(struct telemetry_agent *agent, uint64_t i, struct text_buf *bytes)
{
    const struct telemetry_finished *at = &agent->telemetry->finished[i];
    struct sent_finished *last_sent = &agent->finished[i];

    if (last_sent->group != at->now.group || last_sent->first != at->now.first)
        *last_sent = (struct sent_finished){.group = at->now.group, .first = at->now.first};
    if (at->members != last_sent->members)
        PUT(bytes, RECORD_FINISHED, at->now.group, at->now.first, at->now.kind, at->now.bytes,
            at->members - last_sent->members, age_ns(agent, at->now.began_ns),
            age_ns(agent, at->now.ended_ns));
    last_sent->members = at->members;
}

static void report_sums(struct telemetry_agent *agent, struct text_buf *bytes)
{
    const uint64_t *now = (const uint64_t *)(const void *)&agent->telemetry->totals;
    uint64_t *last_sent = (uint64_t *)(void *)&agent->totals;
    uint64_t totals[1 + FABRIC_COUNTERS] = {RECORD_TOTALS};

    PUT(bytes, RECORD_FINISHED_SUMS, agent->telemetry->finished_count - agent->finished_count,
        agent->telemetry->finished_missed - agent->finished_missed);
    agent->finished_count = agent->telemetry->finished_count;
    agent->finished_missed = agent->telemetry->finished_missed;
    for (size_t i = 0; i < FABRIC_COUNTERS; i++) {
        totals[1 + i] = now[i] - last_sent[i];
        last_sent[i] = now[i];
    }
    put(bytes, totals, sizeof totals / sizeof totals[0]);
}

/*
 * Report the changes of row @row, which is counted over all tables. Returns false if @row is beyond
 * the last row.
 */
static bool report_row(struct telemetry_agent *agent, uint64_t row, struct text_buf *bytes)
{
    for (unsigned k = 0; k < TELEMETRY_TABLES; k++) {
        if (row < agent->table[k].rows) {
            report_counters(agent, k, row, bytes);
            return true;
        }
        row -= agent->table[k].rows;
    }
    if (row >= TELEMETRY_FINISHED)
        return false;
    report_finished(agent, row, bytes);
    return true;
}

int telemetry_agent_report(struct telemetry_agent *agent, size_t most, struct text_buf *bytes)
{
    text_buf_clear(bytes);
    if (!agent->next) {
        agent->now_ns = emu_now_ns();
        telemetry_sample(agent->telemetry, agent->now_ns);
    }
    while (bytes->bytes < most && !bytes->failed) {
        if (report_row(agent, agent->next, bytes)) {
            agent->next++;
            continue;
        }
        report_sums(agent, bytes);
        agent->next = 0;
        break;
    }
    return bytes->failed ? -ENOMEM : agent->next > 0;
}

/* --- receiving -------------------------------------------------------------------------- */

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

static uint32_t clamp_u32(uint64_t number)
{
    return number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

/* Return the host to which a row belongs. */
static uint32_t host_of(const struct telemetry *t, uint64_t kind, uint32_t row)
{
    return kind == TELEMETRY_DIRECTIONS ? fabric_direction_host(t->source.fabric, row, true)
           : kind == TELEMETRY_SWITCHES ? fabric_switch_host(t->source.config, row)
                                        : fabric_node_host(t->source.config, row);
}

/*
 * Return whether the receiving end of a direction is on the host. If so, the host counts the errors
 * found there.
 */
static bool is_receiver(const struct received *received, uint32_t direction)
{
    return fabric_direction_host(received->telemetry->source.fabric, direction, false) ==
           received->host;
}

static bool receive_counters(struct received *received, uint64_t kind, const uint64_t *n)
{
    const struct telemetry_table *table = &received->telemetry->remote[kind];
    const struct fabric_counter *counter = table->counters->counter;
    uint64_t *sum;
    bool owns;

    if (n[0] >= table->rows)
        return false;
    owns = host_of(received->telemetry, kind, (uint32_t)n[0]) == received->host;
    if (!owns && (kind != TELEMETRY_DIRECTIONS || !is_receiver(received, (uint32_t)n[0])))
        return false;
    sum = telemetry_values(table, n[0]);
    for (size_t c = 0; c < table->counters->count; c++) {
        if (owns && counter[c].kind == FABRIC_GAUGE)
            sum[c] = clamp_u32(n[1 + c]);
        else if (owns || counter[c].kind == FABRIC_CUMULATIVE_AT_BOTH_ENDS)
            emu_sum(&sum[c], n[1 + c]);
    }
    return true;
}

static bool receive_finished(struct received *received, const uint64_t *n)
{
    struct telemetry *t = received->telemetry;
    struct emu_finished one = {.group = clamp_u32(n[0]),
                               .first = n[1],
                               .kind = (uint8_t)n[2],
                               .bytes = n[3],
                               .began_ns = received->now_ns > n[5] ? received->now_ns - n[5] : 0,
                               .ended_ns = received->now_ns > n[6] ? received->now_ns - n[6] : 0};

    if (n[2] >= EMU_KINDS || n[4] < 1 || n[4] > t->source.config->graph->nodes || n[5] < n[6] ||
        !fabric_has_group(t->source.fabric, one.group, received->host))
        return false;
    telemetry_finished_note(t, received->host, &one, (uint32_t)n[4], t->samples + 1);
    return true;
}

static bool receive_sums(struct received *received, const uint64_t *n)
{
    emu_sum(&received->telemetry->finished_count, n[0]);
    emu_sum(&received->telemetry->finished_missed, n[1]);
    return true;
}

static bool receive_totals(struct received *received, const uint64_t *n)
{
    uint64_t *sum = (uint64_t *)(void *)&received->telemetry->remote_totals;

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        emu_sum(&sum[i], n[i]);
    return true;
}

static size_t numbers_of(const struct telemetry *t, uint64_t record)
{
    static const size_t numbers[RECORDS] = {
        [RECORD_FINISHED] = 7, [RECORD_FINISHED_SUMS] = 2, [RECORD_TOTALS] = FABRIC_COUNTERS};

    return record < TELEMETRY_TABLES ? 1 + t->table[record].counters->count : numbers[record];
}

static bool receive_record(struct received *received, uint64_t record, const uint64_t *numbers)
{
    return record == RECORD_FINISHED        ? receive_finished(received, numbers)
           : record == RECORD_FINISHED_SUMS ? receive_sums(received, numbers)
           : record == RECORD_TOTALS        ? receive_totals(received, numbers)
                                            : receive_counters(received, record, numbers);
}

bool telemetry_receive(struct telemetry *t, uint32_t host, const void *bytes, size_t count,
                       uint64_t now_ns)
{
    struct received received = {.telemetry = t, .host = host, .now_ns = now_ns, .at = bytes};
    uint64_t what, numbers[NUMBERS_MOST];

    received.end = received.at + count;
    while (received.at < received.end) {
        if (!t->source.hosts || !get(&received, &what) || what >= RECORDS)
            return false;
        for (size_t i = 0; i < numbers_of(t, what); i++)
            if (!get(&received, &numbers[i]))
                return false;
        if (!receive_record(&received, what, numbers))
            return false;
    }
    return true;
}

void telemetry_host_lost(struct telemetry *t, uint32_t host)
{
    for (unsigned k = 0; t->source.hosts && k < TELEMETRY_TABLES; k++) {
        const struct telemetry_table *table = &t->remote[k];

        for (uint32_t row = 0; row < table->rows; row++)
            if (host_of(t, k, row) == host)
                fabric_counters_idle(table->counters, telemetry_values(table, row));
    }
}
