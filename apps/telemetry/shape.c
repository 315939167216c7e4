/* SPDX-License-Identifier: BSD-3-Clause */
/* shape.c - writes the shape, the constant properties of a fabric, as JSON: docs/telemetry.md. */
#include <json-c/json.h>

#include "apps/fabric/origin.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/telemetry/internal.h"

void telemetry_shape_names(struct text_buf *text, const char *field, const char *const *names,
                           size_t count)
{
    telemetry_list_begin(text, field);
    for (size_t i = 0; i < count; i++) {
        text_comma(text);
        text_string(text, names[i]);
    }
    text_puts(text, "]");
}

/*
 * Write for each switch its level, its index in the level, and the first and last node below it (0
 * and -1 if there is none).
 */
static void put_switches(const struct topo_graph *graph, struct text_buf *text)
{
    uint32_t of_level[64] = {0};

    telemetry_list_begin(text, "switches");
    for (uint32_t s = 0; s < graph->switches; s++) {
        const struct topo_switch *sw = &graph->sw[s];
        uint32_t *position = &of_level[sw->level % 64];
        int64_t low = sw->low <= sw->high ? sw->low : 0;
        int64_t high = sw->low <= sw->high ? (int64_t)sw->high : -1;

        text_row(text, (const int64_t[]){sw->level, (*position)++, low, high}, 4);
    }
    text_puts(text, "]");
}

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
                    : other->at.sw == cable->at.sw && other->peer.sw == cable->peer.sw;
    }
    return lane;
}

static void put_cables(const struct fabric *fabric, struct text_buf *text)
{
    const struct topo_graph *graph = fabric_graph(fabric);

    telemetry_list_begin(text, "cables");
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);
        const struct topo_at *at = &cable->at;
        const struct topo_end *far = &graph->sw[at->sw].end[at->port];

        text_row(text,
                 (const int64_t[]){at->sw, topo_switch_port(graph, at->sw, at->port),
                                   far->kind == TOPO_END_SWITCH, far->id, topo_end_port(graph, far),
                                   telemetry_shape_lane(fabric, cable)},
                 6);
    }
    text_puts(text, "]");
}

/* Write the names of switches and then of nodes from the network's file. */
static void put_names(const struct topo_graph *graph, struct text_buf *text)
{
    if (!graph->label)
        return;
    telemetry_list_begin(text, "names");
    for (uint32_t i = 0; i < graph->switches + graph->nodes; i++) {
        text_comma(text);
        text_string(text, topo_label_name(graph, i));
    }
    text_puts(text, "]");
}

/*
 * Write the GUIDs of switches and then of nodes from the network's file; "" for a device without
 * GUID.
 */
static void put_guids(const struct topo_graph *graph, struct text_buf *text)
{
    char guid[24];

    if (!graph->label)
        return;
    telemetry_list_begin(text, "guids");
    for (uint32_t i = 0; i < graph->switches + graph->nodes; i++) {
        text_comma(text);
        snprintf(guid, sizeof guid, "0x%016llx", (unsigned long long)graph->label[i].guid);
        text_string(text, graph->label[i].guid ? guid : "");
    }
    text_puts(text, "]");
}

static void put_hosts(const struct telemetry_source *source, struct text_buf *text)
{
    const struct fabric_hosts *hosts = source->config->hosts;

    if (!hosts || !source->hosts)
        return;
    telemetry_shape_names(text, "hosts", source->hosts, hosts->count);
    telemetry_list_begin(text, "host_of");
    for (uint32_t s = 0; s < source->config->graph->switches; s++) {
        text_comma(text);
        text_number(text, hosts->of[s]);
    }
    text_puts(text, "]");
}

static void put_profile(const struct fabric_config *config, struct text_buf *text)
{
    const struct emu_profile *profile = &config->profile;

    text_field_string(text, "profile", profile->name);
    text_field_string(text, "clock", emu_clock_name(config->clock));
    text_field_number(text, "generators", config->local_nodes != NULL);
    text_field_string(text, "queue", emu_profile_has_engines(profile) ? "packets" : "segments");
    text_field_string(text, "combines",
                      emu_profile_switches_combine(profile) ? "switches" : "adapters");
    /* the rate of the profile, even on clock raw, where links have no limit */
    text_field_number(text, "link_bytes_per_s",
                      profile->link_ps_per_byte ? 1000000000000u / profile->link_ps_per_byte : 0);
    text_field_number(text, "segment_bytes", EMU_HDR_BYTES + EMU_PAYLOAD_BYTES);
}

static void put_origin(const struct fabric_config *config, struct text_buf *text)
{
    struct json_object *origin = origin_json(config);

    text_field(text, "origin");
    text_json(text, origin);
    json_object_put(origin);
}

void telemetry_shape_begin(const struct telemetry *t, uint64_t every_ns, uint32_t nodes,
                           struct text_buf *text)
{
    const struct topo_graph *graph = t->source.config->graph;

    text_buf_clear(text);
    text_puts(text, "{");
    text_field_string(text, "event", "telemetry_shape");
    text_field_number(text, "version", TELEMETRY_VERSION);
    text_field_string(text, "name", t->source.config->name);
    text_field_string(text, "topo", graph->spec);
    put_profile(t->source.config, text);
    if (every_ns)
        text_field_number(text, "every_ns", every_ns);
    put_origin(t->source.config, text);
    text_field_number(text, "nodes", nodes);
    text_field_number(text, "levels", graph->levels);
    text_field_number(text, "ports", graph->ports);
    telemetry_shape_names(text, "link_states", telemetry_link_names, TELEMETRY_LINKS);
    telemetry_shape_names(text, "wait_kinds", telemetry_kind_names, TELEMETRY_KINDS);
}

void telemetry_shape(const struct telemetry *t, uint64_t every_ns, struct text_buf *text)
{
    const struct topo_graph *graph = t->source.config->graph;

    telemetry_shape_begin(t, every_ns, graph->nodes, text);
    put_switches(graph, text);
    put_cables(t->source.fabric, text);
    put_names(graph, text);
    put_guids(graph, text);
    put_hosts(&t->source, text);
    text_puts(text, "}");
}
