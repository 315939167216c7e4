/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry_test.c - snapshots of a fabric: they add up to the fabric's own counters, and report
 * exactly what has changed.
 *
 * Workers do not run, except where a case says so: the test steps them.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/telemetry/telemetry.h"
#include "emu/util/json.h"
#include "emu/util/now.h"
#include "tests/apps/telemetry/snapshot.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

/* --- a sampler, and a reader -------------------------------------------------------- */

struct watch {
    struct hostifs e;
    struct telemetry *telemetry;
    struct text_buf text;
};

static void watch_open(struct watch *w, const char *topo, const char *profile, bool stopped)
{
    struct fabric_config config = {.threads = 2, .seed = 1, .start_stopped = stopped};
    struct telemetry_source source;

    memset(w, 0, sizeof *w);
    fixture_profile(&config.profile, profile, NULL);
    hostifs_open(&w->e, topo, &config);
    source = (struct telemetry_source){.fabric = w->e.fabric, .config = &w->e.fabric->config};
    CU_ASSERT_EQUAL_FATAL(telemetry_create(&w->telemetry, &source), 0);
}

static void watch_close(struct watch *w)
{
    telemetry_destroy(w->telemetry);
    text_buf_free(&w->text);
    hostifs_close(&w->e);
}

/* The next line for a reader that has received the lines up to @since. */
static struct json_object *line_after(struct watch *w, uint64_t since)
{
    telemetry_line(w->telemetry, since, 0, &w->text);
    return parsed(&w->text);
}

static struct json_object *look(struct watch *w, uint64_t since)
{
    telemetry_sample(w->telemetry, emu_now_ns());
    return line_after(w, since);
}

static struct json_object *list_of(struct json_object *line, const char *name)
{
    struct json_object *list = json_object_object_get(line, name);

    CU_ASSERT_TRUE_FATAL(json_object_is_type(list, json_type_array));
    return list;
}

static uint64_t rows(struct json_object *line, const char *name)
{
    return json_object_array_length(list_of(line, name));
}

static int64_t at(struct json_object *row, size_t column)
{
    return json_object_get_int64(json_object_array_get_idx(row, column));
}

/* The sum of a column of a list. */
static uint64_t sum(struct json_object *line, const char *name, size_t column)
{
    uint64_t all = 0;

    for (size_t i = 0; i < rows(line, name); i++)
        all += (uint64_t)at(json_object_array_get_idx(list_of(line, name), i), column);
    return all;
}

/* Columns of the row for @number; NULL: there is none. */
static struct json_object *row_of(struct json_object *line, const char *name, int64_t number)
{
    for (size_t i = 0; i < rows(line, name); i++) {
        struct json_object *row = json_object_array_get_idx(list_of(line, name), i);

        if (at(row, 0) == number)
            return row;
    }
    return NULL;
}

static uint64_t total(struct json_object *line, const char *name)
{
    return (uint64_t)emu_json_number(json_object_object_get(line, "totals"), name, -1);
}

/* --- traffic ------------------------------------------------------------------------ */

static bool post(struct watch *w, uint32_t from, uint8_t kind, uint32_t to)
{
    uint8_t payload[EMU_PAYLOAD_BYTES] = {0};
    struct emu_hdr hdr = {.dst = to, .src = from, .kind = kind, .len = kind == EMU_UNICAST};

    return hostifs_post(&w->e, from, &hdr, payload);
}

static void settle(struct watch *w)
{
    for (uint32_t pass = 0; pass < 1000; pass++)
        fixture_fabric_pass(w->e.fabric);
}

static uint32_t take_all(struct watch *w, uint32_t node)
{
    struct emu_seg seg;
    uint32_t taken = 0;

    while (hostifs_take(&w->e, node, &seg))
        taken++;
    return taken;
}

/* Segments that the switches sent on cables, according to the lines. */
static uint64_t hops_of(struct watch *w, struct json_object *line)
{
    uint64_t hops = 0;

    for (size_t i = 0; i < rows(line, "links"); i++) {
        struct json_object *row = json_object_array_get_idx(list_of(line, "links"), i);
        const struct fabric_cable *cable = fabric_cable(w->e.fabric, (uint32_t)(at(row, 0) / 2));

        if (at(row, 0) % 2 || cable->kind == TOPO_END_SWITCH)
            hops += (uint64_t)at(row, 1);
    }
    return hops;
}

/* --- cases -------------------------------------------------------------------------- */

static void adds_up(const char *profile)
{
    struct watch w;
    struct fabric_totals totals;
    struct json_object *line;
    uint32_t group;

    watch_open(&w, "kary:2,2", profile, true);
    group = fixture_group_of_first(w.e.fabric, 4);
    for (uint32_t node = 0; node < 4; node++) {
        CU_ASSERT_TRUE_FATAL(post(&w, node, EMU_UNICAST, (node + 1) % 4));
        CU_ASSERT_TRUE_FATAL(post(&w, node, EMU_BARRIER, group));
    }
    settle(&w);
    fabric_totals_read(w.e.fabric, &totals);
    line = look(&w, 0);
    CU_ASSERT_EQUAL(totals.sent, 8);
    CU_ASSERT_EQUAL(total(line, "sent"), totals.sent);
    CU_ASSERT_EQUAL(sum(line, "nodes", 1), totals.sent);
    CU_ASSERT_EQUAL(sum(line, "nodes", 2), totals.delivered);
    CU_ASSERT_EQUAL(hops_of(&w, line), totals.hops);
    CU_ASSERT_EQUAL(total(line, "hops"), totals.hops);
    CU_ASSERT_EQUAL(sum(line, "links", 2), totals.credit_stalls);
    CU_ASSERT_EQUAL(sum(line, "switches", 1) + sum(line, "nodes", 5), totals.contributions);
    CU_ASSERT_EQUAL(total(line, "contributions"), totals.contributions);
    CU_ASSERT_TRUE(totals.contributions > 0);
    CU_ASSERT_EQUAL(sum(line, "switches", 3), totals.multicasts);
    json_object_put(line);
    fixture_group_end(w.e.fabric, group);
    watch_close(&w);
}

static void snapshot__adds_up_to_the_report(void)
{
    adds_up("oq2004");
    adds_up("qsnet3");
}

static void waits_add_up(const char *profile)
{
    struct watch w;
    struct fabric_totals totals;
    struct json_object *line;

    watch_open(&w, "kary:2,2", profile, true);
    for (uint32_t pass = 0; pass < 4 * EMU_HOSTIF_SLOTS; pass++) {
        post(&w, 0, EMU_UNICAST, 1);
        post(&w, 2, EMU_UNICAST, 1);
        fixture_fabric_pass(w.e.fabric);
    }
    fabric_totals_read(w.e.fabric, &totals);
    line = look(&w, 0);
    CU_ASSERT_EQUAL(sum(line, "links", 2), totals.credit_stalls);
    CU_ASSERT_EQUAL(total(line, "credit_stalls"), totals.credit_stalls);
    json_object_put(line);
    watch_close(&w);
}

/*
 * A process takes nothing, so ports wait for space. Waits of its own adapter are not counted as a
 * port's.
 */
static void snapshot__adds_up_what_ports_have_waited(void)
{
    waits_add_up("oq2004");
    waits_add_up("qsnet3");
}

/* One message from node 0 to node 1 on the same switch: only that row changes. */
static void snapshot__reports_exactly_the_changes(void)
{
    struct watch w;
    struct json_object *line;

    watch_open(&w, "kary:2,2", "oq2004", true);
    line = look(&w, 0);
    CU_ASSERT_EQUAL(rows(line, "links") + rows(line, "nodes") + rows(line, "switches"), 0);
    json_object_put(line);
    CU_ASSERT_TRUE_FATAL(post(&w, 0, EMU_UNICAST, 1));
    settle(&w);
    line = look(&w, 1);
    CU_ASSERT_EQUAL(rows(line, "links"), 2);
    CU_ASSERT_EQUAL(rows(line, "nodes"), 2);
    CU_ASSERT_EQUAL(rows(line, "switches"), 0);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 0), 1), 1);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 1), 2), 1);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 1), 4), 1); /* not taken yet */
    json_object_put(line);
    CU_ASSERT_EQUAL(take_all(&w, 1), 1);
    line = look(&w, 2);
    CU_ASSERT_EQUAL(rows(line, "links"), 0);
    CU_ASSERT_EQUAL(rows(line, "nodes"), 1);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 1), 4), 0);
    json_object_put(line);
    watch_close(&w);
}

/* A reader that missed samples gets in one line what others got in several. */
static void snapshot__is_complete_after_missed_ones(void)
{
    struct watch w;
    struct json_object *late, *first;

    watch_open(&w, "kary:2,2", "oq2004", true);
    json_object_put(look(&w, 0));
    CU_ASSERT_TRUE_FATAL(post(&w, 0, EMU_UNICAST, 1));
    settle(&w);
    json_object_put(look(&w, 1));
    CU_ASSERT_TRUE_FATAL(post(&w, 2, EMU_UNICAST, 3));
    settle(&w);
    json_object_put(look(&w, 2));
    json_object_put(look(&w, 3));
    late = line_after(&w, 1);
    first = line_after(&w, 0);
    CU_ASSERT_EQUAL(rows(late, "nodes"), 4);
    CU_ASSERT_TRUE(json_object_equal(list_of(late, "nodes"), list_of(first, "nodes")));
    CU_ASSERT_TRUE(json_object_equal(list_of(late, "links"), list_of(first, "links")));
    json_object_put(late);
    json_object_put(first);
    watch_close(&w);
}

/* A process takes nothing: its ring fills, then the port before it, then the upstream queues. */
static void queue__shows_segments_behind_a_process(void)
{
    struct watch w;
    struct json_object *line;
    const struct topo_link *port;
    int64_t queue, direction;

    watch_open(&w, "kary:2,2", "oq2004", true);
    for (uint32_t pass = 0; pass < 4 * EMU_HOSTIF_SLOTS; pass++) {
        post(&w, 0, EMU_UNICAST, 1);
        post(&w, 2, EMU_UNICAST, 1);
        fixture_fabric_pass(w.e.fabric);
    }
    line = look(&w, 0);
    port = &w.e.graph->node[1].link[0];
    direction = 2 * (int64_t)fabric_cable_at(w.e.fabric, port->sw, port->port) + 1;
    queue = at(row_of(line, "links", direction), 3);
    CU_ASSERT_TRUE(queue > 0);
    CU_ASSERT_TRUE(at(row_of(line, "links", direction), 2) > 0);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 1), 4), EMU_HOSTIF_SLOTS);
    CU_ASSERT_TRUE(at(row_of(line, "nodes", 0), 3) > 0);
    json_object_put(line);
    while (take_all(&w, 1))
        settle(&w);
    line = look(&w, 1);
    CU_ASSERT_EQUAL(at(row_of(line, "links", direction), 3), 0);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 1), 4), 0);
    CU_ASSERT_EQUAL(at(row_of(line, "nodes", 0), 3), 0);
    json_object_put(line);
    watch_close(&w);
}

/* A process may write anything into its ring's indexes. */
static void queue__of_a_lying_process_is_empty(void)
{
    struct watch w;
    struct json_object *line;

    watch_open(&w, "kary:2,2", "oq2004", true);
    atomic_store(&w.e.nic[0].shared->up_tail, EMU_HOSTIF_SLOTS + 1);
    atomic_store(&w.e.nic[1].shared->down_head, 7);
    line = look(&w, 0);
    CU_ASSERT_EQUAL(rows(line, "nodes") + rows(line, "links"), 0);
    json_object_put(line);
    watch_close(&w);
}

/* Samples while two workers move segments: reported values only grow, and are exact at the end. */
static void samples_beside_workers(const char *profile)
{
    struct watch w;
    struct json_object *line = NULL;
    struct fabric_totals totals;
    uint64_t hops = 0, to_send = 4000, taken = 0;

    watch_open(&w, "kary:2,2", profile, false);
    for (uint64_t posted = 0, turn = 0; taken < to_send; turn++) {
        posted += posted < to_send && post(&w, 0, EMU_UNICAST, 3);
        taken += take_all(&w, 3);
        if (turn % 256)
            continue;
        json_object_put(line);
        line = look(&w, 0);
        CU_ASSERT_TRUE(hops_of(&w, line) >= hops);
        hops = hops_of(&w, line);
    }
    fabric_pause(w.e.fabric);
    json_object_put(line);
    line = look(&w, 0);
    fabric_totals_read(w.e.fabric, &totals);
    CU_ASSERT_EQUAL(hops_of(&w, line), totals.hops);
    CU_ASSERT_EQUAL(sum(line, "nodes", 2), to_send);
    fabric_resume(w.e.fabric);
    json_object_put(line);
    watch_close(&w);
}

static void sample__while_the_workers_run(void)
{
    samples_beside_workers("qsnet3");
    samples_beside_workers("oq2004");
}

/* The shape has every switch and node of the network, and each cable once, with both ends. */
static void shape__is_the_network(void)
{
    struct watch w;
    struct json_object *shape;
    uint32_t ends = 0;

    watch_open(&w, "qsnet:16,links=2", "qsnet3", true);
    telemetry_shape(w.telemetry, 0, &w.text);
    shape = parsed(&w.text);
    CU_ASSERT_EQUAL(rows(shape, "switches"), w.e.graph->switches);
    CU_ASSERT_EQUAL(rows(shape, "cables"), fabric_cable_count(w.e.fabric));
    for (uint32_t s = 0; s < w.e.graph->switches; s++)
        for (uint32_t p = 0; p < w.e.graph->ports; p++)
            ends += w.e.graph->sw[s].end[p].kind == TOPO_END_SWITCH ? 1
                    : w.e.graph->sw[s].end[p].kind == TOPO_END_NODE ? 2
                                                                    : 0;
    CU_ASSERT_EQUAL(2 * rows(shape, "cables"), ends);
    for (size_t i = 0; i < rows(shape, "cables"); i++) {
        struct json_object *row = json_object_array_get_idx(list_of(shape, "cables"), i);
        const struct topo_end *end = &w.e.graph->sw[at(row, 0)].end[at(row, 1)];

        CU_ASSERT_EQUAL(at(row, 2), end->kind == TOPO_END_SWITCH);
        CU_ASSERT_EQUAL(at(row, 3), end->id);
        CU_ASSERT_EQUAL(at(row, 4), end->port);
    }
    json_object_put(shape);
    watch_close(&w);
}

static void text__has_every_number(void)
{
    static const uint64_t numbers[] = {0,   9,    10,   99,   100,       101,
                                       999, 1000, 1001, 9999, 123456789, UINT64_MAX};
    struct text_buf text = {0};
    char digits[32];

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        text_buf_clear(&text);
        text_number(&text, numbers[i]);
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)numbers[i]);
        CU_ASSERT_EQUAL(text.bytes, strlen(digits));
        CU_ASSERT_EQUAL(memcmp(text.at, digits, text.bytes), 0);
    }
    text_buf_clear(&text);
    text_row(&text, (const int64_t[]){INT64_MIN, -1, INT64_MAX}, 3);
    text_row(&text, (const int64_t[]){0}, 1);
    text_string(&text, "a\"\\\n\x80");
    snprintf(digits, sizeof digits, "%lld", (long long)INT64_MIN);
    CU_ASSERT_EQUAL(memcmp(text.at + 1, digits, strlen(digits)), 0);
    CU_ASSERT_EQUAL(memcmp(text.at + text.bytes - 14, "],[0]\"a\\\"\\\\??\"", 14), 0);
    text_buf_free(&text);
}

static const struct test_case cases[] = {
    CASE(snapshot__adds_up_to_the_report),
    CASE(snapshot__adds_up_what_ports_have_waited),
    CASE(snapshot__reports_exactly_the_changes),
    CASE(snapshot__is_complete_after_missed_ones),
    CASE(queue__shows_segments_behind_a_process),
    CASE(queue__of_a_lying_process_is_empty),
    CASE(sample__while_the_workers_run),
    CASE(shape__is_the_network),
    CASE(text__has_every_number),
    {0},
};

int main(void)
{
    return test_run("telemetry", cases);
}
