/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold_shape.c - the shape of a network that is folded, as a line of JSON: docs/telemetry.md.
 */
#include <stdio.h>

#include "apps/fabric/hosts.h"
#include "apps/telemetry/fold.h"

static void put_switches(const struct telemetry_fold *fold, struct telemetry_text *text)
{
    uint32_t of_level[64] = {0};

    telemetry_field(text, "switches");
    telemetry_puts(text, "[");
    for (uint32_t g = 0; g < fold->switches; g++) {
        const struct telemetry_group *group = &fold->sw_group[g];
        int64_t to = group->low <= group->high ? (int64_t)group->to : -1;

        telemetry_row(text,
                      (const int64_t[]){group->level, of_level[group->level % 64]++, group->from,
                                        to},
                      4);
    }
    telemetry_puts(text, "]");
}

/* One cable: with its ports, and what the fabric calls it. */
static void put_cable(const struct fabric *fabric, const struct telemetry_trunk *trunk,
                      struct telemetry_text *text)
{
    const struct fabric_cable *cable = fabric_cable(fabric, trunk->cable);
    uint32_t near = cable->at.port, far = trunk->is_node ? cable->link : cable->far.port;

    telemetry_row(text,
                  (const int64_t[]){trunk->sw, trunk->turned ? far : near, !trunk->is_node,
                                    trunk->far, trunk->turned ? near : far,
                                    telemetry_shape_lane(fabric, cable), 1, cable->at.sw,
                                    cable->at.port},
                  9);
}

static void put_trunks(const struct telemetry *t, const struct telemetry_fold *fold,
                       struct telemetry_text *text)
{
    telemetry_field(text, "cables");
    telemetry_puts(text, "[");
    for (uint32_t k = 0; k < fold->trunks; k++) {
        const struct telemetry_trunk *trunk = &fold->trunk[k];

        if (trunk->cable != TELEMETRY_MANY)
            put_cable(t->source.fabric, trunk, text);
        else
            telemetry_row(text,
                          (const int64_t[]){trunk->sw, trunk->port, !trunk->is_node, trunk->far, 0,
                                            0, trunk->count},
                          7);
    }
    telemetry_puts(text, "]");
}

/* One has the name that the network's file gives it, if there is one. */
static void put_name(const struct topo_graph *graph, const struct telemetry_group *group,
                     bool is_node, struct telemetry_text *text)
{
    uint32_t before = is_node ? graph->switches : 0;
    char name[96];

    telemetry_comma(text);
    if (group->number != TELEMETRY_MANY && graph->label) {
        telemetry_string(text, topo_label_name(graph, before + group->number));
        return;
    }
    if (group->number != TELEMETRY_MANY)
        snprintf(name, sizeof name, "%s %u", is_node ? "node" : "switch", group->number);
    else if (is_node && group->high - group->low + 1 == group->count)
        snprintf(name, sizeof name, "nodes %u-%u", group->low, group->high);
    else
        snprintf(name, sizeof name, "%u %s", group->count, is_node ? "nodes" : "switches");
    telemetry_string(text, name);
}

static void put_names(const struct telemetry *t, const struct telemetry_fold *fold,
                      struct telemetry_text *text)
{
    telemetry_field(text, "names");
    telemetry_puts(text, "[");
    for (uint32_t g = 0; g < fold->switches; g++)
        put_name(t->source.config->graph, &fold->sw_group[g], false, text);
    for (uint32_t g = 0; g < fold->nodes; g++)
        put_name(t->source.config->graph, &fold->node_group[g], true, text);
    telemetry_puts(text, "]");
}

/* --- where it is from --------------------------------------------------------------- */

static const struct telemetry_group *part_at(const struct telemetry_fold *fold, uint32_t part)
{
    return part < fold->switches ? &fold->sw_group[part] : &fold->node_group[part - fold->switches];
}

/* A number for each part: switches, then nodes. */
static void put_numbers(const struct telemetry_fold *fold, const char *field, uint32_t count,
                        int64_t (*number)(const void *ctx, const struct telemetry_group *group),
                        const void *ctx, struct telemetry_text *text)
{
    telemetry_field(text, field);
    telemetry_puts(text, "[");
    for (uint32_t part = 0; part < count; part++) {
        int64_t of = number(ctx, part_at(fold, part));

        telemetry_comma(text);
        if (of < 0)
            telemetry_puts(text, "-1");
        else
            telemetry_number(text, (uint64_t)of);
    }
    telemetry_puts(text, "]");
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

static void put_hosts(const struct telemetry_source *source, const struct telemetry_fold *fold,
                      struct telemetry_text *text)
{
    const struct fabric_hosts *hosts = source->config->hosts;

    if (!hosts || !source->hosts)
        return;
    telemetry_shape_names(text, "hosts", source->hosts, hosts->count);
    put_numbers(fold, "host_of", fold->switches, host_of, hosts, text);
}

static void put_open(const struct telemetry_fold *fold, struct telemetry_text *text)
{
    telemetry_field(text, "open");
    telemetry_puts(text, "[");
    for (uint32_t b = 0; fold->is_open && b < fold->blocks; b++) {
        if (!fold->is_open[b])
            continue;
        telemetry_comma(text);
        telemetry_number(text, b);
    }
    telemetry_puts(text, "]");
}

/* How much there is of all, and which of it each part is. */
static void put_folded(const struct telemetry *t, const struct telemetry_fold *fold,
                       struct telemetry_text *text)
{
    const struct topo_graph *graph = t->source.config->graph;
    uint32_t parts = fold->switches + fold->nodes;

    telemetry_field(text, "folded");
    telemetry_puts(text, "{");
    telemetry_field_number(text, "nodes", graph->nodes);
    telemetry_field_number(text, "switches", graph->switches);
    telemetry_field_number(text, "cables", fabric_cable_count(t->source.fabric));
    telemetry_field_number(text, "blocks", fold->blocks);
    put_open(fold, text);
    put_numbers(fold, "block_of", parts, block_of, NULL, text);
    put_numbers(fold, "number_of", parts, number_of, NULL, text);
    put_numbers(fold, "count_of", parts, count_of, NULL, text);
    telemetry_puts(text, "}");
}

void telemetry_folded_shape(const struct telemetry *t, const struct telemetry_fold *open,
                            uint64_t every_ns, struct telemetry_text *text)
{
    const struct telemetry_fold *fold = open ? open : t->fold;

    telemetry_shape_begin(t, every_ns, fold->nodes, text);
    put_switches(fold, text);
    put_trunks(t, fold, text);
    put_names(t, fold, text);
    put_hosts(&t->source, fold, text);
    put_folded(t, fold, text);
    telemetry_puts(text, "}");
}
