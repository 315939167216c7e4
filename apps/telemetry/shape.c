/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shape.c - what does not change of a fabric, as a line of JSON: docs/telemetry.md.
 */
#include <json-c/json.h>

#include "apps/fabric/origin.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/telemetry/internal.h"

void telemetry_shape_names(struct telemetry_text *text, const char *field, const char *const *names,
                           size_t count)
{
    telemetry_field(text, field);
    telemetry_puts(text, "[");
    for (size_t i = 0; i < count; i++) {
        telemetry_comma(text);
        telemetry_string(text, names[i]);
    }
    telemetry_puts(text, "]");
}

/* Its level, its place among those of the level, and the nodes below it: none, the last before. */
static void put_switches(const struct topo_graph *graph, struct telemetry_text *text)
{
    uint32_t of_level[64] = {0};

    telemetry_field(text, "switches");
    telemetry_puts(text, "[");
    for (uint32_t s = 0; s < graph->switches; s++) {
        const struct topo_switch *sw = &graph->sw[s];
        uint32_t *position = &of_level[sw->level % 64];
        int64_t low = sw->low <= sw->high ? sw->low : 0;
        int64_t high = sw->low <= sw->high ? (int64_t)sw->high : -1;

        telemetry_row(text, (const int64_t[]){sw->level, (*position)++, low, high}, 4);
    }
    telemetry_puts(text, "]");
}

/* So many cables before it join the same two switches, or the same node and switch. */
int64_t telemetry_shape_lane(const struct fabric *fabric, const struct fabric_cable *cable)
{
    int64_t lane = 0;

    for (uint32_t p = 0; p < cable->at.port; p++) {
        uint32_t i = fabric_cable_at(fabric, cable->at.sw, p);
        const struct fabric_cable *other = i == TOPO_NONE ? NULL : fabric_cable(fabric, i);

        if (!other || other->kind != cable->kind)
            continue;
        lane += cable->kind == TOPO_END_NODE
                    ? other->node == cable->node
                    : other->at.sw == cable->at.sw && other->far.sw == cable->far.sw;
    }
    return lane;
}

static void put_cables(const struct fabric *fabric, struct telemetry_text *text)
{
    telemetry_field(text, "cables");
    telemetry_puts(text, "[");
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);
        bool node = cable->kind == TOPO_END_NODE;

        telemetry_row(text,
                      (const int64_t[]){cable->at.sw, cable->at.port, !node,
                                        node ? cable->node : cable->far.sw,
                                        node ? cable->link : cable->far.port,
                                        telemetry_shape_lane(fabric, cable)},
                      6);
    }
    telemetry_puts(text, "]");
}

/* What a file calls switches and nodes. */
static void put_called(const struct topo_graph *graph, struct telemetry_text *text)
{
    if (!graph->label)
        return;
    telemetry_field(text, "names");
    telemetry_puts(text, "[");
    for (uint32_t i = 0; i < graph->switches + graph->nodes; i++) {
        telemetry_comma(text);
        telemetry_string(text, topo_label_name(graph, i));
    }
    telemetry_puts(text, "]");
}

/* GUIDs of switches, then of nodes, from the network's file; "": the file gives none. */
static void put_guids(const struct topo_graph *graph, struct telemetry_text *text)
{
    char guid[24];

    if (!graph->label)
        return;
    telemetry_field(text, "guids");
    telemetry_puts(text, "[");
    for (uint32_t i = 0; i < graph->switches + graph->nodes; i++) {
        telemetry_comma(text);
        snprintf(guid, sizeof guid, "0x%016llx", (unsigned long long)graph->label[i].guid);
        telemetry_string(text, graph->label[i].guid ? guid : "");
    }
    telemetry_puts(text, "]");
}

static void put_hosts(const struct telemetry_source *source, struct telemetry_text *text)
{
    const struct fabric_hosts *hosts = source->config->hosts;

    if (!hosts || !source->hosts)
        return;
    telemetry_shape_names(text, "hosts", source->hosts, hosts->count);
    telemetry_field(text, "host_of");
    telemetry_puts(text, "[");
    for (uint32_t s = 0; s < source->config->graph->switches; s++) {
        telemetry_comma(text);
        telemetry_number(text, hosts->of[s]);
    }
    telemetry_puts(text, "]");
}

static void put_machine(const struct fabric_config *config, struct telemetry_text *text)
{
    const struct emu_profile *profile = &config->profile;

    telemetry_field_string(text, "profile", profile->name);
    telemetry_field_string(text, "clock", emu_clock_name(config->clock));
    telemetry_field_string(text, "queue",
                           emu_profile_has_engines(profile) ? "packets" : "segments");
    telemetry_field_string(text, "combines",
                           emu_profile_switches_combine(profile) ? "switches" : "adapters");
    /* On clock raw, too: what links of the machine would carry. */
    telemetry_field_number(text, "link_bytes_per_s",
                           profile->link_ps_per_byte ? 1000000000000u / profile->link_ps_per_byte
                                                     : 0);
    telemetry_field_number(text, "segment_bytes", EMU_HDR_BYTES + EMU_PAYLOAD_BYTES);
}

static void put_origin(const struct fabric_config *config, struct telemetry_text *text)
{
    struct json_object *origin = origin_json(config);

    telemetry_field(text, "origin");
    telemetry_json(text, origin);
    json_object_put(origin);
}

void telemetry_shape_begin(const struct telemetry *t, uint64_t every_ns, uint32_t nodes,
                           struct telemetry_text *text)
{
    const struct topo_graph *graph = t->source.config->graph;

    telemetry_text_clear(text);
    telemetry_puts(text, "{");
    telemetry_field_string(text, "event", "telemetry_shape");
    telemetry_field_number(text, "version", TELEMETRY_VERSION);
    telemetry_field_string(text, "name", t->source.config->name);
    telemetry_field_string(text, "topo", graph->spec);
    put_machine(t->source.config, text);
    if (every_ns)
        telemetry_field_number(text, "every_ns", every_ns);
    put_origin(t->source.config, text);
    telemetry_field_number(text, "nodes", nodes);
    telemetry_field_number(text, "levels", graph->levels);
    telemetry_field_number(text, "ports", graph->ports);
    telemetry_shape_names(text, "link_states", telemetry_link_names, TELEMETRY_LINKS);
    telemetry_shape_names(text, "wait_kinds", telemetry_kind_names, TELEMETRY_KINDS);
}

void telemetry_shape(const struct telemetry *t, uint64_t every_ns, struct telemetry_text *text)
{
    const struct topo_graph *graph = t->source.config->graph;

    telemetry_shape_begin(t, every_ns, graph->nodes, text);
    put_switches(graph, text);
    put_cables(t->source.fabric, text);
    put_called(graph, text);
    put_guids(graph, text);
    put_hosts(&t->source, text);
    telemetry_puts(text, "}");
}
