/* SPDX-License-Identifier: BSD-3-Clause */
/* aggregate_shape.c - writes the shape of an aggregated network as JSON: docs/telemetry.md. */
#include <stddef.h>
#include <stdio.h>

#include "apps/fabric/hosts.h"
#include "apps/telemetry/aggregate.h"

static void put_switches(const struct telemetry_aggregate *aggregate, struct text_buf *text)
{
    uint32_t of_level[64] = {0};

    telemetry_list_begin(text, "switches");
    for (uint32_t g = 0; g < aggregate->switches; g++) {
        const struct telemetry_group *group = &aggregate->sw_group[g];
        int64_t to = group->low <= group->high ? (int64_t)group->to : -1;

        text_row(text,
                 (const int64_t[]){group->level, of_level[group->level % 64]++, group->from, to},
                 4);
    }
    text_puts(text, "]");
}

/*
 * Write a trunk of one cable as a row with the cable's ports. The last two columns are the switch
 * and port of the cable's first end in the whole network.
 */
static void put_cable(const struct fabric *fabric, const struct telemetry_trunk *trunk,
                      struct text_buf *text)
{
    const struct topo_graph *graph = fabric_graph(fabric);
    const struct fabric_cable *cable = fabric_cable(fabric, trunk->cable);
    uint32_t near = topo_switch_port(graph, cable->at.sw, cable->at.port);
    uint32_t peer = topo_end_port(graph, &graph->sw[cable->at.sw].end[cable->at.port]);

    text_row(text,
             (const int64_t[]){trunk->sw, trunk->reversed ? peer : near, !trunk->is_node,
                               trunk->peer, trunk->reversed ? near : peer,
                               telemetry_shape_lane(fabric, cable), 1, cable->at.sw, near},
             9);
}

static void put_trunks(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                       struct text_buf *text)
{
    telemetry_list_begin(text, "cables");
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

/* Write the name of a group. A group of one device has the device's name in the network's file. */
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
    telemetry_list_begin(text, "names");
    for (uint32_t g = 0; g < aggregate->switches; g++)
        put_name(t->source.config->graph, &aggregate->sw_group[g], false, text);
    for (uint32_t g = 0; g < aggregate->nodes; g++)
        put_name(t->source.config->graph, &aggregate->node_group[g], true, text);
    text_puts(text, "]");
}

static void put_number(struct text_buf *text, uint32_t number)
{
    text_comma(text);
    if (number == TELEMETRY_MANY)
        text_puts(text, "-1");
    else
        text_number(text, number);
}

/*
 * Write a list of the field at @offset of each group: first of the switch groups, then of the node
 * groups.
 */
static void put_numbers(const struct telemetry_aggregate *aggregate, const char *field,
                        size_t offset, struct text_buf *text)
{
    telemetry_list_begin(text, field);
    for (uint32_t g = 0; g < aggregate->switches + aggregate->nodes; g++) {
        const struct telemetry_group *group = g < aggregate->switches
                                                  ? &aggregate->sw_group[g]
                                                  : &aggregate->node_group[g - aggregate->switches];

        put_number(text, *(const uint32_t *)(const void *)((const char *)group + offset));
    }
    text_puts(text, "]");
}

static void put_hosts(const struct telemetry_source *source,
                      const struct telemetry_aggregate *aggregate, struct text_buf *text)
{
    const struct fabric_hosts *hosts = source->config->hosts;

    if (!hosts || !source->hosts)
        return;
    telemetry_shape_names(text, "hosts", source->hosts, hosts->count);
    telemetry_list_begin(text, "host_of");
    for (uint32_t g = 0; g < aggregate->switches; g++) {
        uint32_t number = aggregate->sw_group[g].number;

        put_number(text, number == TELEMETRY_MANY ? TELEMETRY_MANY : hosts->of[number]);
    }
    text_puts(text, "]");
}

static void put_open(const struct telemetry_aggregate *aggregate, struct text_buf *text)
{
    telemetry_list_begin(text, "open");
    for (uint32_t b = 0; aggregate->is_open && b < aggregate->blocks; b++) {
        if (!aggregate->is_open[b])
            continue;
        text_comma(text);
        text_number(text, b);
    }
    text_puts(text, "]");
}

/*
 * Write the size of the whole network. Then write for each group its block, its device (-1 if it
 * has several), and its size.
 */
static void put_folded(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                       struct text_buf *text)
{
    const struct topo_graph *graph = t->source.config->graph;

    text_field(text, "folded");
    text_puts(text, "{");
    text_field_number(text, "nodes", graph->nodes);
    text_field_number(text, "switches", graph->switches);
    text_field_number(text, "cables", fabric_cable_count(t->source.fabric));
    text_field_number(text, "blocks", aggregate->blocks);
    put_open(aggregate, text);
    put_numbers(aggregate, "block_of", offsetof(struct telemetry_group, block), text);
    put_numbers(aggregate, "number_of", offsetof(struct telemetry_group, number), text);
    put_numbers(aggregate, "count_of", offsetof(struct telemetry_group, count), text);
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
