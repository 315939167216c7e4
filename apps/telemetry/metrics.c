/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * metrics.c - writes a view in Prometheus' text format.
 *
 * Prometheus' node_exporter has metrics of the ports of InfiniBand adapters. Our metrics with the
 * same meaning have the same names, so that dashboards for node_exporter work with a fabric. A
 * device is a switch or a node's adapter: "switch3", "node5". For dashboards of whole
 * InfiniBand networks the metrics can have the names of infiniband_exporter instead. It identifies
 * devices by GUID.
 * Source: Prometheus, "Exposition formats", text version 0.0.4; node_exporter, infiniband;
 * treydock/infiniband_exporter, collectors of switches and adapters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/origin.h"
#include "apps/base/text.h"
#include "apps/telemetry/view.h"
#include "emu/util/json.h"

/* --- the format --------------------------------------------------------------------- */

static void family(struct text_buf *text, const char *name, const char *type, const char *help)
{
    text_puts(text, "# HELP ");
    text_puts(text, name);
    text_puts(text, " ");
    text_puts(text, help);
    text_puts(text, "\n# TYPE ");
    text_puts(text, name);
    text_puts(text, " ");
    text_puts(text, type);
    text_puts(text, "\n");
}

/*
 * Write a label: NAME="VALUE". Before the first label of a metric comes "{", before the others ",".
 */
static void label(struct text_buf *text, const char *name, const char *value)
{
    text_puts(text, text->bytes && text->at[text->bytes - 1] == '"' ? "," : "{");
    text_puts(text, name);
    text_puts(text, "=");
    text_string(text, value);
}

static void label_number(struct text_buf *text, const char *name, uint64_t value)
{
    text_puts(text, text->bytes && text->at[text->bytes - 1] == '"' ? "," : "{");
    text_puts(text, name);
    text_puts(text, "=\"");
    text_number(text, value);
    text_puts(text, "\"");
}

static void sample(struct text_buf *text, uint64_t value)
{
    text_puts(text, text->bytes && text->at[text->bytes - 1] == '"' ? "} " : " ");
    text_number(text, value);
    text_puts(text, "\n");
}

static void single(struct text_buf *text, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    family(text, name, type, help);
    text_puts(text, name);
    sample(text, value);
}

/* --- ports -------------------------------------------------------------------------- */

/* One end of a cable, with the directions from it and to it. */
struct end {
    const struct telemetry_view *view;
    uint32_t cable;
    bool node; /* the end is at a node's adapter */
    uint32_t device, port;
    const struct fabric_direction_sample *out, *in;
};

enum port_metric { SENT, RECEIVED, WAITS, ERRORS, DOWNED, STATE, PHYSICAL_STATE, RATE, OF_PORT };

/* Prefixes of infiniband_exporter's names: for switches and for adapters. */
static const char *const exporter_prefix[2] = {"infiniband_switch_", "infiniband_hca_"};

static const struct {
    const char *name;
    const char *exporter; /* infiniband_exporter's name without the prefix; NULL: none */
    bool switches;        /* infiniband_exporter has it only for switches */
    const char *type;
    const char *help;
} of_port[] = {
    [SENT] = {"node_infiniband_port_packets_transmitted_total", "port_transmit_packets_total",
              false, "counter", "Segments sent."},
    [RECEIVED] = {"node_infiniband_port_packets_received_total", "port_receive_packets_total",
                  false, "counter", "Segments sent by the peer port."},
    [WAITS] = {"node_infiniband_port_transmit_wait_total", "port_transmit_wait_total", false,
               "counter", "How often the port had a segment to send, but no credit."},
    [ERRORS] = {"node_infiniband_symbol_error_total", "port_symbol_error_total", false, "counter",
                "Segments or packets lost or damaged in the direction to the port."},
    [DOWNED] =
        {"node_infiniband_link_downed_total", "port_link_downed_total", false, "counter",
         "How often the link went out of use: no signal, errors, or a port that sent nothing."},
    [STATE] = {"node_infiniband_state_id", NULL, false, "gauge",
               "State of the port: 1 down, 2 init, 4 active."},
    [PHYSICAL_STATE] = {"node_infiniband_physical_state_id", NULL, false, "gauge",
                        "Physical state: 2 polling, 3 disabled, 4 training, 5 link up."},
    [RATE] = {"node_infiniband_rate_bytes_per_second", "port_rate_bytes_per_second", true, "gauge",
              "Rate of the link in each direction, from the profile."},
};

static uint64_t port_value(const struct end *end, enum port_metric metric)
{
    const char *state = telemetry_view_link(end->view, end->cable);
    bool up = strcmp(state, "up") == 0, testing = strcmp(state, "testing") == 0;
    const uint64_t value[OF_PORT] = {
        [SENT] = end->out->segments,
        [RECEIVED] = end->in->segments,
        [WAITS] = end->out->stalls,
        [ERRORS] = end->in->errors,
        [DOWNED] = end->view->cable[end->cable].outs,
        [STATE] = up        ? 4
                  : testing ? 2
                            : 1,
        [PHYSICAL_STATE] = up                          ? 5
                           : testing                   ? 4
                           : strcmp(state, "out") == 0 ? 3
                                                       : 2,
        [RATE] = end->view->link_bytes_per_s,
    };

    return value[metric];
}

/* Return the first end of cable @c, or its second end if @peer is true. */
static struct end end_of(const struct telemetry_view *view, uint32_t c, bool peer)
{
    const struct telemetry_view_cable *cable = &view->cable[c];

    return (struct end){.view = view,
                        .cable = c,
                        .node = peer && !cable->to_switch,
                        .device = peer ? cable->peer : cable->sw,
                        .port = peer ? cable->peer_port : cable->port,
                        .out = &cable->direction[!peer],
                        .in = &cable->direction[peer]};
}

static void label_port(struct text_buf *text, const struct end *end)
{
    text_puts(text, end->node ? "{device=\"node" : "{device=\"switch");
    text_number(text, end->device);
    text_puts(text, "\"");
    label_number(text, "port", end->port);
}

static void put_ports(const struct telemetry_view *view, struct text_buf *text, size_t i)
{
    family(text, of_port[i].name, of_port[i].type, of_port[i].help);
    for (uint32_t c = 0; c < view->cables; c++)
        for (int peer = 0; peer < 2; peer++) {
            struct end end = end_of(view, c, peer);

            text_puts(text, of_port[i].name);
            label_port(text, &end);
            sample(text, port_value(&end, i));
        }
}

/* --- names of infiniband_exporter ---------------------------------------------------- */

/*
 * Write a GUID as a label. If the network's file has none, make one from 0xfabe, a 0 for a switch
 * or a 1 for a node, and the device's number.
 */
static void label_guid(const struct telemetry_view *view, struct text_buf *text, const char *name,
                       bool node, uint32_t device)
{
    const char *known = telemetry_view_guid(view, node, device);
    char own[24];

    snprintf(own, sizeof own, "0xfabe%04x%08x", node, device);
    label(text, name, known ? known : own);
}

/* LIDs are numbered from 1, switches before nodes. */
static void label_lid(const struct telemetry_view *view, struct text_buf *text, const char *name,
                      bool node, uint32_t device)
{
    label_number(text, name, (node ? view->switches : 0) + device + UINT64_C(1));
}

/*
 * Write a device's name as a label: the name in the network's file or, if there is none, "switch3"
 * or "node5".
 */
static void label_device(const struct telemetry_view *view, struct text_buf *text, const char *name,
                         bool node, uint32_t device)
{
    const char *known = telemetry_view_name(view, node, device);
    char own[24];

    snprintf(own, sizeof own, "%s%u", node ? "node" : "switch", device);
    label(text, name, known ? known : own);
}

static void exporter_family(struct text_buf *text, bool node, const char *name, const char *type,
                            const char *help)
{
    char whole[80];

    snprintf(whole, sizeof whole, "%s%s", exporter_prefix[node], name);
    family(text, whole, type, help);
}

static void exporter_end(struct text_buf *text, const char *name, const struct end *end)
{
    text_puts(text, exporter_prefix[end->node]);
    text_puts(text, name);
    label_guid(end->view, text, "guid", end->node, end->device);
    label_number(text, "port", end->port);
}

/* Write the device at the other end of the cable, which dashboards show as the name of the port. */
static void exporter_uplink(struct text_buf *text, const char *name, const struct end *end)
{
    const struct telemetry_view *view = end->view;
    struct end beyond = end_of(view, end->cable, end->out == &view->cable[end->cable].direction[1]);

    exporter_end(text, name, end);
    label_device(view, text, end->node ? "hca" : "switch", end->node, end->device);
    label_device(view, text, "uplink", beyond.node, beyond.device);
    label_guid(view, text, "uplink_guid", beyond.node, beyond.device);
    label(text, "uplink_type", beyond.node ? "CA" : "SW");
    label_number(text, "uplink_port", beyond.port);
    label_lid(view, text, "uplink_lid", beyond.node, beyond.device);
    sample(text, 1);
}

/*
 * Write a metric of all ports of switches or of adapters. @i: index in of_port[]; OF_PORT: the
 * peers of the ports.
 */
static void exporter_ports(const struct telemetry_view *view, struct text_buf *text, bool node,
                           size_t i)
{
    const char *name = i < OF_PORT ? of_port[i].exporter : "uplink_info";

    if (!name || (node && i < OF_PORT && of_port[i].switches))
        return;
    exporter_family(text, node, name, i < OF_PORT ? of_port[i].type : "gauge",
                    i < OF_PORT ? of_port[i].help : "The device at the other end of the cable.");
    for (uint32_t c = 0; c < view->cables; c++)
        for (int peer = 0; peer < 2; peer++) {
            struct end end = end_of(view, c, peer);

            if (end.node != node)
                continue;
            if (i == OF_PORT) {
                exporter_uplink(text, name, &end);
            } else {
                exporter_end(text, name, &end);
                sample(text, port_value(&end, i));
            }
        }
}

static void exporter_devices(const struct telemetry_view *view, struct text_buf *text, bool node)
{
    exporter_family(text, node, "info", "gauge", "A device, and its name.");
    for (uint32_t i = 0; i < (node ? view->nodes : view->switches); i++) {
        text_puts(text, exporter_prefix[node]);
        text_puts(text, "info");
        label_guid(view, text, "guid", node, i);
        label_device(view, text, node ? "hca" : "switch", node, i);
        label_lid(view, text, "lid", node, i);
        sample(text, 1);
    }
}

static void exporter_rates(const struct telemetry_view *view, struct text_buf *text)
{
    exporter_family(text, true, "rate_bytes_per_second", "gauge",
                    "Rate of a link of the adapter in each direction, from the profile.");
    for (uint32_t n = 0; n < view->nodes; n++) {
        text_puts(text, exporter_prefix[1]);
        text_puts(text, "rate_bytes_per_second");
        label_guid(view, text, "guid", true, n);
        sample(text, view->link_bytes_per_s);
    }
}

static void put_exporter(const struct telemetry_view *view, struct text_buf *text)
{
    for (int node = 0; node < 2; node++) {
        exporter_devices(view, text, node);
        for (size_t i = 0; i <= OF_PORT; i++)
            exporter_ports(view, text, node, i);
    }
    exporter_rates(view, text);
}

/* --- switches, nodes, collectives --------------------------------------------------- */

struct metric_name {
    char text[80];
};

/* Write the head of the metric "fabemu_PART_COUNTER" for counter @i. Returns the metric's name. */
static struct metric_name counter_family(struct text_buf *text,
                                         const struct fabric_counters *counters, size_t i)
{
    const struct fabric_counter *counter = &counters->counter[i];
    bool cumulative = counter->kind != FABRIC_GAUGE;
    struct metric_name ret;

    snprintf(ret.text, sizeof ret.text, "fabemu_%s_%s%s", counters->part, counter->name,
             cumulative ? "_total" : "");
    family(text, ret.text, cumulative ? "counter" : "gauge", counter->help);
    return ret;
}

/* Write the counters of @count devices, whose counters begin @stride bytes apart at @first. */
static void put_counters(struct text_buf *text, const struct fabric_counters *counters,
                         uint32_t count, const uint64_t *first, size_t stride)
{
    for (size_t i = 0; i < counters->count; i++) {
        struct metric_name name = counter_family(text, counters, i);

        for (uint32_t part = 0; part < count; part++) {
            const char *at = (const char *)first + part * stride;

            text_puts(text, name.text);
            label_number(text, counters->part, part);
            sample(text, ((const uint64_t *)(const void *)at)[i]);
        }
    }
}

/* Write the metrics of ports that InfiniBand exporters do not have. */
static void put_port_counters(const struct telemetry_view *view, struct text_buf *text)
{
    for (size_t i = 0; i < fabric_direction_counters.count; i++) {
        if (!fabric_direction_counters.counter[i].help)
            continue;
        struct metric_name name = counter_family(text, &fabric_direction_counters, i);

        for (uint32_t c = 0; c < view->cables; c++)
            for (int peer = 0; peer < 2; peer++) {
                struct end end = end_of(view, c, peer);

                text_puts(text, name.text);
                label_port(text, &end);
                sample(text, end.out->value[i]);
            }
    }
}

static void put_attached(const struct telemetry_view *view, struct text_buf *text)
{
    family(text, "fabemu_node_attached", "gauge", "1: a process is attached to the node.");
    for (uint32_t n = 0; n < view->nodes; n++) {
        text_puts(text, "fabemu_node_attached");
        label_number(text, "node", n);
        sample(text, view->node[n].pid != 0);
    }
}

static void put_collectives(const struct telemetry_view *view, struct text_buf *text)
{
    static const char name[] = "fabemu_collectives_total";

    family(text, name, "counter",
           "Collectives of programs, by implementation: the network, or messages.");
    for (uint32_t c = 0; c < TELEMETRY_COLLECTIVES; c++)
        for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
            text_puts(text, name);
            label(text, "kind", telemetry_collectives[c]);
            label(text, "by", elsewhere ? "messages" : "network");
            sample(text, elsewhere ? view->collectives[c].elsewhere : view->collectives[c].network);
        }
}

static void put_totals(const struct telemetry_view *view, struct text_buf *text)
{
#define PUT(name)                                                                                \
    single(text, "fabemu_" #name "_total", "counter", "Sum over the fabric: docs/telemetry.md.", \
           view->totals.name);
#define TOTAL(name, section, shown, label) PUT(name)
#define DERIVED(name, value, shown, label) PUT(name)
#include "apps/fabric/counters.def"
#undef PUT
}

/* Write the time in seconds, the unit of all times in Prometheus. */
static void put_time(const struct telemetry_view *view, struct text_buf *text)
{
    uint64_t ns = view->is_virtual ? view->at / 1000u : view->at;
    char value[80];

    family(text, "fabemu_time_seconds_total", "counter",
           "Time since the start of the fabric; on clock virtual simulated time.");
    snprintf(value, sizeof value, "fabemu_time_seconds_total %llu.%09llu\n",
             (unsigned long long)(ns / 1000000000u), (unsigned long long)(ns % 1000000000u));
    text_puts(text, value);
}

/* Write the fabric and its origin as labels, so that a scraper stores them with the numbers. */
static void put_info(const struct telemetry_view *view, struct text_buf *text)
{
    struct json_object *origin = json_object_object_get(view->shape, "origin");
    char *command = origin_command(origin);

    family(text, "fabemu_info", "gauge", "The fabric and its origin.");
    text_puts(text, "fabemu_info");
    label(text, "name", view->name);
    label(text, "topo", view->topo);
    label(text, "profile", view->profile);
    label(text, "clock", view->clock);
    label(text, "version", emu_json_text(origin, "version", ""));
    label(text, "host", emu_json_text(origin, "host", ""));
    label(text, "date", emu_json_text(origin, "date", ""));
    label_number(text, "seed", (uint64_t)emu_json_number(origin, "seed", 0));
    label(text, "command", command ? command : "");
    sample(text, 1);
    free(command);
}

static void put_fabric(const struct telemetry_view *view, struct text_buf *text)
{
    put_info(view, text);
    put_time(view, text);
    put_totals(view, text);
    put_collectives(view, text);
}

bool telemetry_names_of(const char *text, enum telemetry_names *ret)
{
    *ret = strcmp(text, "infiniband_exporter") == 0 ? TELEMETRY_INFINIBAND_EXPORTER
                                                    : TELEMETRY_NODE_EXPORTER;
    return *ret || strcmp(text, "node_exporter") == 0;
}

void telemetry_metrics(const struct telemetry_view *view, enum telemetry_names names,
                       struct text_buf *text)
{
    text_buf_clear(text);
    if (!view->sample)
        return;
    if (names == TELEMETRY_INFINIBAND_EXPORTER) {
        put_exporter(view, text);
        return;
    }
    put_fabric(view, text);
    for (size_t i = 0; i < OF_PORT; i++)
        put_ports(view, text, i);
    put_port_counters(view, text);
    put_counters(text, &fabric_switch_counters, view->switches, view->sw->now.value,
                 sizeof *view->sw);
    put_attached(view, text);
    put_counters(text, &fabric_node_counters, view->nodes, view->node->now.value,
                 sizeof *view->node);
}
