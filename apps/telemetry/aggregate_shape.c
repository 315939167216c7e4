/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate_shape.c - the shape of a network that is folded, as a line of JSON: docs/telemetry.md.
 */
#include <stdio.h>

#include "apps/fabric/hosts.h"
#include "apps/telemetry/aggregate.h"

static void put_switches(const struct telemetry_aggregate *aggregate, struct text_buf *text)
{
    uint32_t of_level[64] = {0};

    text_field(text, "switches");
    text_puts(text, "[");
    for (uint32_t g = 0; g < aggregate->switches; g++) {
        const struct telemetry_group *group = &aggregate->sw_group[g];
        int64_t to = group->low <= group->high ? (int64_t)group->to : -1;

        text_row(text,
                 (const int64_t[]){group->level, of_level[group->level % 64]++, group->from, to},
                 4);
    }
    text_puts(text, "]");
}

/* One cable: with its ports, and what the fabric calls it. */
static void put_cable(const struct fabric *fabric, const struct telemetry_trunk *trunk,
                      struct text_buf *text)
{
    const struct fabric_cable *cable = fabric_cable(fabric, trunk->cable);
    uint32_t near = cable->at.port, peer = trunk->is_node ? cable->link : cable->peer.port;

    text_row(text,
             (const int64_t[]){trunk->sw, trunk->reversed ? peer : near, !trunk->is_node,
                               trunk->peer, trunk->reversed ? near : peer,
                               telemetry_shape_lane(fabric, cable), 1, cable->at.sw,
                               cable->at.port},
             9);
}

static void put_trunks(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                       struct text_buf *text)
{
    text_field(text, "cables");
    text_puts(text, "[");
    for (uint32_t k = 0; k < aggregate->trunks; k++) {
        const struct telemetry_trunk *trunk = &aggregate->trunk[k];

        if (trunk->cable != TELEMETRY_MANY)
            put_cable(t->source.fabric, trunk, text);
        else
            text_row(text,
                     (const int64_t[]){trunk->sw, trunk->port, !trunk->is_node, trunk->peer, 0, 0,
                                       trunk->count},
                     7);
    }
    text_puts(text, "]");
}

/* One has the name that the network's file gives it, if there is one. */
static void put_name(const struct topo_graph *graph, const struct telemetry_group *group,
                     bool is_node, struct text_buf *text)
{
    uint32_t before = is_node ? graph->switches : 0;
    char name[96];

    text_comma(text);
    if (group->number != TELEMETRY_MANY && graph->label) {
        text_string(text, topo_label_name(graph, before + group->number));
        return;
    }
    if (group->number != TELEMETRY_MANY)
        snprintf(name, sizeof name, "%s %u", is_node ? "node" : "switch", group->number);
    else if (is_node && group->high - group->low + 1 == group->count)
        snprintf(name, sizeof name, "nodes %u-%u", group->low, group->high);
    else
        snprintf(name, sizeof name, "%u %s", group->count, is_node ? "nodes" : "switches");
    text_string(text, name);
}

static void put_names(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                      struct text_buf *text)
{
    text_field(text, "names");
    text_puts(text, "[");
    for (uint32_t g = 0; g < aggregate->switches; g++)
        put_name(t->source.config->graph, &aggregate->sw_group[g], false, text);
    for (uint32_t g = 0; g < aggregate->nodes; g++)
        put_name(t->source.config->graph, &aggregate->node_group[g], true, text);
    text_puts(text, "]");
}

/* --- where it is from --------------------------------------------------------------- */

static const struct telemetry_group *part_at(const struct telemetry_aggregate *aggregate,
                                             uint32_t part)
{
    return part < aggregate->switches ? &aggregate->sw_group[part]
                                      : &aggregate->node_group[part - aggregate->switches];
}

/* A number for each part: switches, then nodes. */
static void put_numbers(const struct telemetry_aggregate *aggregate, const char *field,
                        uint32_t count,
                        int64_t (*number)(const void *ctx, const struct telemetry_group *group),
                        const void *ctx, struct text_buf *text)
{
    text_field(text, field);
    text_puts(text, "[");
    for (uint32_t part = 0; part < count; part++) {
        int64_t of = number(ctx, part_at(aggregate, part));

        text_comma(text);
        if (of < 0)
            text_puts(text, "-1");
        else
            text_number(text, (uint64_t)of);
    }
    text_puts(text, "]");
}

static int64_t count_of(const void *ctx, const struct telemetry_group *group)
{
    (void)ctx;
    return group->count;
}

static int64_t number_of(const void *ctx, const struct telemetry_group *group)
{
    (void)ctx;
    return group->number == TELEMETRY_MANY ? -1 : (int64_t)group->number;
}

static int64_t block_of(const void *ctx, const struct telemetry_group *group)
{
    (void)ctx;
    return group->block;
}

static int64_t host_of(const void *ctx, const struct telemetry_group *group)
{
    const struct fabric_hosts *hosts = ctx;

    return group->number == TELEMETRY_MANY ? -1 : (int64_t)hosts->of[group->number];
}

static void put_hosts(const struct telemetry_source *source,
                      const struct telemetry_aggregate *aggregate, struct text_buf *text)
{
    const struct fabric_hosts *hosts = source->config->hosts;

    if (!hosts || !source->hosts)
        return;
    telemetry_shape_names(text, "hosts", source->hosts, hosts->count);
    put_numbers(aggregate, "host_of", aggregate->switches, host_of, hosts, text);
}

static void put_open(const struct telemetry_aggregate *aggregate, struct text_buf *text)
{
    text_field(text, "open");
    text_puts(text, "[");
    for (uint32_t b = 0; aggregate->is_open && b < aggregate->blocks; b++) {
        if (!aggregate->is_open[b])
            continue;
        text_comma(text);
        text_number(text, b);
    }
    text_puts(text, "]");
}

/* How much there is of all, and which of it each part is. */
static void put_folded(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                       struct text_buf *text)
{
    const struct topo_graph *graph = t->source.config->graph;
    uint32_t parts = aggregate->switches + aggregate->nodes;

    text_field(text, "folded");
    text_puts(text, "{");
    text_field_number(text, "nodes", graph->nodes);
    text_field_number(text, "switches", graph->switches);
    text_field_number(text, "cables", fabric_cable_count(t->source.fabric));
    text_field_number(text, "blocks", aggregate->blocks);
    put_open(aggregate, text);
    put_numbers(aggregate, "block_of", parts, block_of, NULL, text);
    put_numbers(aggregate, "number_of", parts, number_of, NULL, text);
    put_numbers(aggregate, "count_of", parts, count_of, NULL, text);
    text_puts(text, "}");
}

void telemetry_aggregate_put_shape(const struct telemetry *t,
                                   const struct telemetry_aggregate *open, uint64_t every_ns,
                                   struct text_buf *text)
{
    const struct telemetry_aggregate *aggregate = open ? open : t->aggregate;

    telemetry_shape_begin(t, every_ns, aggregate->nodes, text);
    put_switches(aggregate, text);
    put_trunks(t, aggregate, text);
    put_names(t, aggregate, text);
    put_hosts(&t->source, aggregate, text);
    put_folded(t, aggregate, text);
    text_puts(text, "}");
}
