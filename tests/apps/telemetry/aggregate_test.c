/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate_test.c - aggregated telemetry agrees with the full one: each aggregate row is the sum
 * of its members, and members of open blocks have their own rows.
 *
 * Networks, counters and blocks are random. The test computes the mapping again, by brute force.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/hosts.h"
#include "apps/telemetry/aggregate.h"
#include "apps/telemetry/filter.h"
#include "emu/util/json.h"
#include "tests/apps/telemetry/snapshot.h"
#include "tests/test.h"

#define DIRECTION 4u /* counters of a link's row */
#define SWITCH    4u
#define NODE      5u
#define STATE     3u
#define MOST      5u

/* --- a fabric, its counters, and a reader ------------------------------------------- */

struct net {
    struct topo_graph *graph;
    struct fabric_config config;
    struct fabric *fabric;
    struct telemetry *t;
    struct text_buf text;
    uint64_t seed;
    uint32_t cables;
};

/* Rows that a reader has received, each replacing its predecessor. */
struct held {
    int64_t (*direction)[MOST], (*sw)[MOST], (*node)[MOST], (*state)[MOST];
    uint32_t directions, switches, nodes, cables;
};

static void net_open(struct net *net, uint64_t seed)
{
    static const char *const topos[] = {"kary:2,3",
                                        "kary:4,2",
                                        "kary:3,3",
                                        "kary:2,5",
                                        "kary:4,3",
                                        "qsnet:24",
                                        "qsnet:100",
                                        "qsnet:32,links=2",
                                        "clos:radix=8,levels=2",
                                        "clos:down=4x6,up=4,cables=2"};
    const char *topo = topos[test_draw(&seed, 0, sizeof topos / sizeof topos[0] - 1)];
    char error[256] = "";

    memset(net, 0, sizeof *net);
    net->seed = seed;
    CU_ASSERT_EQUAL_FATAL(topo_parse(&net->graph, topo, error, sizeof error), 0);
    net->config = (struct fabric_config){.name = "fold",
                                         .graph = net->graph,
                                         .threads = 1,
                                         .start_stopped = true};
    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&net->config.profile,
                                           strstr(topo, "qsnet") ? "qsnet3" : "oq2004", error,
                                           sizeof error),
                          0);
    CU_ASSERT_EQUAL_FATAL(fabric_start(&net->fabric, &net->config, error, sizeof error), 0);
    net->cables = fabric_cable_count(net->fabric);
    const struct telemetry_source source = {.fabric = net->fabric, .config = &net->config};
    CU_ASSERT_EQUAL_FATAL(telemetry_create(&net->t, &source), 0);
    uint32_t most = (uint32_t)test_draw(&net->seed, 1, net->cables);
    CU_ASSERT_EQUAL_FATAL(telemetry_aggregate_create(&net->t->aggregate, net->t, 0, most), 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(net->t->aggregate);
}

static void net_close(struct net *net)
{
    text_buf_free(&net->text);
    telemetry_destroy(net->t);
    fabric_stop(net->fabric);
    topo_free(net->graph);
}

static uint64_t some(struct net *net)
{
    return test_draw(&net->seed, 0, 1) ? test_draw(&net->seed, 0, 1000000) : 0;
}

/* Set new values in a row, as changed in the last sample. */
static void change(struct net *net, int kind, uint32_t row)
{
    struct telemetry_table *table = &net->t->table[kind];

    for (size_t c = 0; c < table->counters->count; c++)
        telemetry_values(table, row)[c] = some(net);
    table->changed[row] = net->t->samples;
}

/* A sample in which some rows have changed. */
static void sample(struct net *net)
{
    struct telemetry *t = net->t;
    uint64_t share = test_draw(&net->seed, 1, 9);

    t->samples++;
    for (uint32_t i = 0; i < 2 * net->cables; i++)
        if (test_draw(&net->seed, 1, share) == 1)
            change(net, TELEMETRY_DIRECTIONS, i);
    for (uint32_t i = 0; i < net->cables; i++)
        if (test_draw(&net->seed, 1, share + 1) == 1)
            t->cable[i] = (struct telemetry_cable_entry){
                {(enum telemetry_link)test_draw(&net->seed, 0, TELEMETRY_LINKS - 1), some(net)},
                t->samples};
    for (uint32_t s = 0; s < net->graph->switches; s++)
        if (test_draw(&net->seed, 1, share) == 1)
            change(net, TELEMETRY_SWITCHES, s);
    for (uint32_t n = 0; n < net->graph->nodes; n++)
        if (test_draw(&net->seed, 1, share) == 1)
            change(net, TELEMETRY_NODES, n);
}

static int64_t at(struct json_object *list, size_t i)
{
    return json_object_get_int64(json_object_array_get_idx(list, i));
}

static void take_rows(struct json_object *line, const char *name, uint32_t columns,
                      int64_t (*rows)[MOST], uint32_t count)
{
    struct json_object *list = json_object_object_get(line, name);

    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *row = json_object_array_get_idx(list, i);

        CU_ASSERT_TRUE_FATAL(at(row, 0) >= 0 && at(row, 0) < count);
        for (uint32_t c = 0; c < columns; c++)
            rows[at(row, 0)][c] = at(row, c + 1);
    }
}

static void held_open(struct held *held, uint32_t cables, uint32_t switches, uint32_t nodes)
{
    *held = (struct held){.directions = 2 * cables,
                          .switches = switches,
                          .nodes = nodes,
                          .cables = cables};
    held->direction = calloc(held->directions + 1u, sizeof *held->direction);
    held->sw = calloc(switches + 1u, sizeof *held->sw);
    held->node = calloc(nodes + 1u, sizeof *held->node);
    held->state = calloc(cables + 1u, sizeof *held->state);
    CU_ASSERT_TRUE_FATAL(held->direction && held->sw && held->node && held->state);
}

static void held_close(struct held *held)
{
    free(held->direction);
    free(held->sw);
    free(held->node);
    free(held->state);
}

static void held_take(struct held *held, const struct text_buf *text)
{
    struct json_object *line = parsed(text);

    take_rows(line, "links", DIRECTION, held->direction, held->directions);
    take_rows(line, "switches", SWITCH, held->sw, held->switches);
    take_rows(line, "nodes", NODE, held->node, held->nodes);
    take_rows(line, "states", STATE, held->state, held->cables);
    json_object_put(line);
}

/* --- the model ---------------------------------------------------------------------- */

struct parts {
    struct json_object *shape, *folded, *cables;
    uint32_t *of_sw, *of_node; /* row by number; */
    uint32_t *of_cable;        /* row of the cables; */
    bool *turned;              /* and whether its direction is reversed */
};

/* Rows in the order of the full ones; an open block has as many as it has members, by number. */
static void expand(const uint32_t *of, uint32_t count, const struct telemetry_group *group,
                   uint32_t groups, const bool *is_open, uint32_t *part)
{
    uint32_t next = 0;

    for (uint32_t g = 0; g < groups; g++) {
        bool open = is_open[group[g].block];

        for (uint32_t i = 0; i < count; i++)
            if (of[i] == g) {
                part[i] = next;
                next += open;
            }
        next += !open;
    }
}

static bool joins(struct json_object *row, uint32_t near, bool is_node, uint32_t remote)
{
    return at(row, 0) == near && at(row, 2) == !is_node && at(row, 3) == remote;
}

static void find_row(struct net *net, struct parts *parts, uint32_t i)
{
    const struct fabric_cable *cable = fabric_cable(net->fabric, i);
    bool is_node = cable->kind == TOPO_END_NODE;
    uint32_t near = parts->of_sw[cable->at.sw];
    uint32_t remote = is_node ? parts->of_node[cable->node] : parts->of_sw[cable->peer.sw];
    size_t rows = json_object_array_length(parts->cables), found = 0;

    for (size_t k = 0; k < rows; k++) {
        struct json_object *row = json_object_array_get_idx(parts->cables, k);
        bool same = joins(row, near, is_node, remote);

        if (!same && (is_node || !joins(row, remote, false, near)))
            continue;
        found++;
        parts->of_cable[i] = (uint32_t)k;
        parts->turned[i] = !same;
        if (at(row, 6) != 1)
            continue;
        CU_ASSERT_EQUAL(at(row, 7), cable->at.sw); /* the fabric's name of it */
        CU_ASSERT_EQUAL(at(row, 8), cable->at.port);
        CU_ASSERT_EQUAL(at(row, same ? 1 : 4), cable->at.port);
        CU_ASSERT_EQUAL(at(row, same ? 4 : 1), is_node ? cable->link : cable->peer.port);
    }
    CU_ASSERT_EQUAL_FATAL(found, 1);
}

static void parts_open(struct parts *parts, struct net *net, const bool *is_open)
{
    const struct telemetry_aggregate *plain = net->t->aggregate;

    parts->shape = parsed(&net->text);
    parts->folded = json_object_object_get(parts->shape, "folded");
    parts->cables = json_object_object_get(parts->shape, "cables");
    parts->of_sw = calloc(net->graph->switches, sizeof *parts->of_sw);
    parts->of_node = calloc(net->graph->nodes, sizeof *parts->of_node);
    parts->of_cable = calloc(net->cables, sizeof *parts->of_cable);
    parts->turned = calloc(net->cables, sizeof *parts->turned);
    CU_ASSERT_TRUE_FATAL(parts->of_sw && parts->of_node && parts->of_cable && parts->turned);
    expand(plain->of_sw, net->graph->switches, plain->sw_group, plain->switches, is_open,
           parts->of_sw);
    expand(plain->of_node, net->graph->nodes, plain->node_group, plain->nodes, is_open,
           parts->of_node);
    for (uint32_t i = 0; i < net->cables; i++)
        find_row(net, parts, i);
}

static void parts_close(struct parts *parts)
{
    json_object_put(parts->shape);
    free(parts->of_sw);
    free(parts->of_node);
    free(parts->of_cable);
    free(parts->turned);
}

/* Members of open blocks are reported by their own number. */
static void check_numbers(struct net *net, struct parts *parts, const bool *is_open)
{
    const struct telemetry_aggregate *plain = net->t->aggregate;
    struct json_object *numbers = json_object_object_get(parts->folded, "number_of");
    struct json_object *blocks = json_object_object_get(parts->folded, "block_of");
    size_t switches = json_object_array_length(json_object_object_get(parts->shape, "switches"));

    for (uint32_t s = 0; s < net->graph->switches; s++) {
        uint32_t block = plain->sw_group[plain->of_sw[s]].block;

        CU_ASSERT_EQUAL(at(blocks, parts->of_sw[s]), block);
        if (is_open[block])
            CU_ASSERT_EQUAL(at(numbers, parts->of_sw[s]), s);
    }
    for (uint32_t n = 0; n < net->graph->nodes; n++) {
        uint32_t block = plain->node_group[plain->of_node[n]].block;

        CU_ASSERT_EQUAL(at(blocks, switches + parts->of_node[n]), block);
        if (is_open[block])
            CU_ASSERT_EQUAL(at(numbers, switches + parts->of_node[n]), n);
    }
}

static void check_sum(int64_t (*whole)[MOST], uint32_t count, const uint32_t *of, uint32_t columns,
                      int64_t (*reported)[MOST], uint32_t parts)
{
    int64_t(*sum)[MOST] = calloc(parts + 1u, sizeof *sum);

    CU_ASSERT_PTR_NOT_NULL_FATAL(sum);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = 0; c < columns; c++)
            sum[of[i]][c] += whole[i][c];
    CU_ASSERT_EQUAL(memcmp(sum, reported, parts * sizeof *sum), 0);
    free(sum);
}

static void check_ways(struct net *net, const struct parts *parts, const struct held *whole,
                       const struct held *reported)
{
    uint32_t *of = calloc(whole->directions, sizeof *of);

    CU_ASSERT_PTR_NOT_NULL_FATAL(of);
    for (uint32_t i = 0; i < whole->directions; i++)
        of[i] = 2 * parts->of_cable[i / 2] + (i % 2 ^ parts->turned[i / 2]);
    check_sum(whole->direction, whole->directions, of, DIRECTION, reported->direction,
              reported->directions);
    free(of);
    for (uint32_t k = 0; k < reported->cables; k++) {
        int64_t state = 0, outs = 0, wrong = 0, count = 0;

        for (uint32_t i = 0; i < net->cables; i++) {
            if (parts->of_cable[i] != k)
                continue;
            state = whole->state[i][0] > state ? whole->state[i][0] : state;
            outs += whole->state[i][1];
            wrong += whole->state[i][0] != TELEMETRY_UP;
            count++;
        }
        CU_ASSERT_EQUAL(reported->state[k][0], state);
        CU_ASSERT_EQUAL(reported->state[k][1], outs);
        CU_ASSERT_EQUAL(reported->state[k][2], wrong);
        CU_ASSERT_EQUAL(at(json_object_array_get_idx(parts->cables, k), 6), count);
    }
}

/* --- cases -------------------------------------------------------------------------- */

static uint32_t draw_blocks(struct net *net, uint32_t *block, bool *is_open)
{
    uint32_t blocks = net->t->aggregate->blocks, count = (uint32_t)test_draw(&net->seed, 0, blocks);

    for (uint32_t i = 0; i < count; i++) { /* some of them twice */
        block[i] = (uint32_t)test_draw(&net->seed, 0, blocks - 1);
        is_open[block[i]] = true;
    }
    return count;
}

/* A reader with open blocks, which misses some samples, beside a reader of the full telemetry. */
static void check_reader(struct net *net, struct telemetry_aggregate *open, const bool *is_open)
{
    struct held whole, reported;
    struct parts parts;
    uint64_t seen = 0;

    telemetry_aggregate_put_shape(net->t, open, 0, &net->text);
    parts_open(&parts, net, is_open);
    check_numbers(net, &parts, is_open);
    held_open(&whole, net->cables, net->graph->switches, net->graph->nodes);
    held_open(&reported, (uint32_t)json_object_array_length(parts.cables),
              (uint32_t)json_object_array_length(json_object_object_get(parts.shape, "switches")),
              (uint32_t)emu_json_number(parts.shape, "nodes", 0));
    for (uint32_t i = 0; i < 4; i++) {
        for (uint64_t looks = test_draw(&net->seed, 1, 3); looks; looks--)
            sample(net);
        telemetry_line(net->t, seen, 0, &net->text);
        held_take(&whole, &net->text);
        telemetry_aggregate_put_line(net->t, open, seen, 0, &net->text);
        held_take(&reported, &net->text);
        seen = telemetry_samples(net->t);
        check_ways(net, &parts, &whole, &reported);
        check_sum(whole.sw, whole.switches, parts.of_sw, SWITCH, reported.sw, reported.switches);
        check_sum(whole.node, whole.nodes, parts.of_node, NODE, reported.node, reported.nodes);
    }
    held_close(&whole);
    held_close(&reported);
    parts_close(&parts);
}

static void aggregate__is_the_sum_of_the_full_telemetry(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < TEST_ALONE(60); i++) {
        struct telemetry_aggregate *open = NULL;
        struct net net;
        uint32_t *block, count;
        bool *is_open;

        net_open(&net, test_random(&seed));
        block = calloc(net.t->aggregate->blocks + 1u, sizeof *block);
        is_open = calloc(net.t->aggregate->blocks + 1u, sizeof *is_open);
        CU_ASSERT_TRUE_FATAL(block && is_open);
        check_reader(&net, NULL, is_open);
        count = draw_blocks(&net, block, is_open);
        CU_ASSERT_EQUAL_FATAL(telemetry_open(&open, net.t, block, count), 0);
        check_reader(&net, open, is_open);
        telemetry_aggregate_destroy(open);
        free(block);
        free(is_open);
        net_close(&net);
    }
}

/*
 * Processes at open nodes and what they wait for are reported; nothing is about aggregated nodes.
 */
static void aggregate__reports_processes_at_open_nodes(void)
{
    uint64_t seed = test_seed();
    struct telemetry_aggregate *open;
    struct json_object *line;
    struct net net;

    net_open(&net, test_random(&seed));
    for (uint32_t n = 0; n < net.graph->nodes; n++) {
        net.t->node[n].who.pid = n + 1;
        net.t->node[n].who_changed = net.t->node[n].waits_changed = 1;
    }
    sample(&net);
    CU_ASSERT_EQUAL_FATAL(telemetry_open(&open, net.t, &(uint32_t){0}, 1), 0);
    telemetry_aggregate_put_line(net.t, open, 0, 0, &net.text);
    line = parsed(&net.text);
    struct json_object *list = json_object_object_get(line, "processes");
    uint32_t reported = 0, singles = 0;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        int64_t part = emu_json_number(one, "node", -1);

        CU_ASSERT_TRUE_FATAL(part >= 0 && part < open->nodes);
        CU_ASSERT_EQUAL(emu_json_number(one, "pid", 0), open->node_group[part].number + 1);
        reported++;
    }
    for (uint32_t g = 0; g < open->nodes; g++)
        singles += open->node_group[g].number != TELEMETRY_MANY;
    CU_ASSERT_EQUAL(reported, singles);
    CU_ASSERT_EQUAL(json_object_array_length(json_object_object_get(line, "waits")), singles);
    json_object_put(line);
    telemetry_aggregate_destroy(open);
    net_close(&net);
}

/* With several hosts: an open switch reports its host. */
static void shape__reports_the_hosts_of_open_switches(void)
{
    static const char *const names[] = {"one", "two", "three"};
    uint64_t seed = test_seed();
    struct telemetry_aggregate *open;
    struct json_object *shape, *list;
    struct fabric_hosts hosts = {.count = 3};
    struct net net;
    uint32_t *of;

    net_open(&net, test_random(&seed));
    of = calloc(net.graph->switches, sizeof *of);
    CU_ASSERT_PTR_NOT_NULL_FATAL(of);
    for (uint32_t s = 0; s < net.graph->switches; s++)
        of[s] = (uint32_t)test_draw(&net.seed, 0, 2);
    hosts.of = of;
    net.config.hosts = &hosts;
    net.t->source.hosts = names;
    CU_ASSERT_EQUAL_FATAL(telemetry_open(&open, net.t, &(uint32_t){0}, 1), 0);
    telemetry_aggregate_put_shape(net.t, open, 0, &net.text);
    shape = parsed(&net.text);
    CU_ASSERT_EQUAL(json_object_array_length(json_object_object_get(shape, "hosts")), 3);
    list = json_object_object_get(shape, "host_of");
    CU_ASSERT_EQUAL_FATAL(json_object_array_length(list), open->switches);
    for (uint32_t g = 0; g < open->switches; g++) {
        uint32_t number = open->sw_group[g].number;

        CU_ASSERT_EQUAL(at(list, g), number == TELEMETRY_MANY ? -1 : (int64_t)of[number]);
    }
    json_object_put(shape);
    telemetry_aggregate_destroy(open);
    free(of);
    net_close(&net);
}

static void open__of_unknown_blocks_is_refused(void)
{
    uint64_t seed = test_seed();
    struct telemetry_aggregate *open = NULL;
    struct net net;

    net_open(&net, test_random(&seed));
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t block[3] = {0, (uint32_t)test_random(&net.seed) | net.t->aggregate->blocks, 0};

        block[1] = i ? block[1] : net.t->aggregate->blocks;
        if (block[1] < net.t->aggregate->blocks)
            continue;
        CU_ASSERT_EQUAL(telemetry_open(&open, net.t, block, 3), -ENOENT);
        CU_ASSERT_PTR_NULL(open);
    }
    net_close(&net);
}

/* --- filters ------------------------------------------------------------------------ */

static int filter_of(const char *text, struct telemetry_filter *filter_words, const char **why)
{
    struct json_object *request = json_tokener_parse(text);
    int err;

    CU_ASSERT_PTR_NOT_NULL_FATAL(request);
    err = telemetry_filter_read(filter_words, request, why);
    json_object_put(request);
    return err;
}

static void filter__is_parsed_or_refused_with_a_reason(void)
{
    static const struct {
        const char *text;
        int err;
        bool aggregates;
        size_t count;
    } rows[] = {
        {"{}", 0, false, 0},
        {"{\"fold\":false}", 0, false, 0},
        {"{\"fold\":true}", 0, true, 0},
        {"{\"fold\":{}}", 0, true, 0},
        {"{\"fold\":{\"open\":[]}}", 0, true, 0},
        {"{\"fold\":{\"open\":[7,0,7,4294967294]}}", 0, true, 4},
        {"{\"fold\":null}", -EINVAL, false, 0},
        {"{\"fold\":1}", -EINVAL, false, 0},
        {"{\"fold\":\"true\"}", -EINVAL, false, 0},
        {"{\"fold\":[3]}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":3}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":null}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":{\"0\":1}}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":[1,\"2\"]}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":[1,2.0]}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":[[1]]}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":[1,null]}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":[1,true]}}", -EINVAL, false, 0},
        {"{\"fold\":{\"open\":[-1]}}", -ENOENT, false, 0},
        {"{\"fold\":{\"open\":[4294967295]}}", -ENOENT, false, 0},
        {"{\"fold\":{\"open\":[4294967296]}}", -ENOENT, false, 0},
        {"{\"fold\":{\"open\":[99999999999999999999999999]}}", -ENOENT, false, 0},
        {"{\"fold\":{\"open\":[-99999999999999999999999999]}}", -ENOENT, false, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct telemetry_filter filter_words;
        const char *why = NULL;

        CU_ASSERT_EQUAL(filter_of(rows[i].text, &filter_words, &why), rows[i].err);
        CU_ASSERT_EQUAL(why != NULL, rows[i].err != 0);
        if (rows[i].err)
            continue;
        CU_ASSERT_EQUAL(filter_words.aggregates, rows[i].aggregates);
        CU_ASSERT_EQUAL(filter_words.count, rows[i].count);
        telemetry_filter_free(&filter_words);
    }
}

static const struct test_case cases[] = {
    CASE(aggregate__is_the_sum_of_the_full_telemetry),
    CASE(aggregate__reports_processes_at_open_nodes),
    CASE(shape__reports_the_hosts_of_open_switches),
    CASE(open__of_unknown_blocks_is_refused),
    CASE(filter__is_parsed_or_refused_with_a_reason),
    {0},
};

int main(void)
{
    return test_run("fold", cases);
}
