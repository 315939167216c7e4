/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_command.c - `fabemu topo`: what a network consists of, and what it takes.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/options.h"
#include "apps/report.h"
#include "apps/run.h"
#include "apps/say.h"
#include "apps/wire.h"

#define SEGMENT_BYTES 256

static const struct options_command topo_command = {
    "topo", "[SPEC]",
    "Print a network: its parts, its longest route, its memory. SPEC is\n"
    "  kary:K,N   a K-ary N-tree: K^N nodes below N levels of K^(N-1) switches,\n"
    "             each with K ports down and K ports up",
    OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_JSON | OPTIONS_CHECK, false
};

struct figures {
    uint64_t node_cables, switch_cables;
    uint32_t longest;           /* switches on the longest route */
    uint64_t least_ps, most_ps; /* zero load, one segment, over 1 and over longest switches */
    struct fabric_bytes bytes;
};

static uint64_t zero_load_ps(const struct emu_profile *profile, uint32_t switches)
{
    return profile->nic_send_ps + profile->nic_recv_ps + switches * profile->switch_ps +
           (switches + 1) * profile->channel_ps + SEGMENT_BYTES * profile->link_ps_per_byte;
}

static void measure(struct figures *ret, const struct fabric_config *config)
{
    const struct topo_graph *graph = config->graph;
    uint64_t ends = 0;

    for (uint32_t sw = 0; sw < graph->switches; sw++)
        for (uint32_t port = 0; port < graph->ports; port++)
            ends += graph->sw[sw].end[port].kind == TOPO_END_SWITCH;
    ret->node_cables = graph->nodes;
    ret->switch_cables = ends / 2;
    ret->longest = report_longest_route(graph);
    ret->least_ps = zero_load_ps(&config->profile, 1);
    ret->most_ps = zero_load_ps(&config->profile, ret->longest);
    fabric_bytes(config, &ret->bytes);
}

static void print_text(const struct fabric_config *config, const struct figures *figures,
                       bool checked)
{
    const struct topo_graph *graph = config->graph;

    printf("%s\n", graph->spec);
    printf("  nodes          %u\n", graph->nodes);
    printf("  switches       %u in %u level%s, %u ports each\n", graph->switches, graph->levels,
           graph->levels == 1 ? "" : "s", graph->ports);
    printf("  cables         %llu to nodes, %llu between switches\n",
           (unsigned long long)figures->node_cables, (unsigned long long)figures->switch_cables);
    printf("  longest route  %u switch%s\n", figures->longest, figures->longest == 1 ? "" : "es");
    printf("  zero load      %.1f ns over 1 switch, %.1f ns over %u (profile %s, %d bytes)\n",
           (double)figures->least_ps / 1000, (double)figures->most_ps / 1000, figures->longest,
           config->profile.name, SEGMENT_BYTES);
    printf(
        "  memory         %.1f KiB a switch, %.1f KiB an idle node, %.1f KiB more once attached, "
        "%.1f MiB in all\n",
        (double)figures->bytes.per_switch / 1024, (double)figures->bytes.per_idle_node / 1024,
        (double)figures->bytes.per_attached_node / 1024,
        (double)figures->bytes.total / (1024 * 1024));
    if (checked)
        puts("  check          cables and routes are right");
}

static void print_json(const struct fabric_config *config, const struct figures *figures,
                       bool checked)
{
    const struct topo_graph *graph = config->graph;
    struct json_object *all = json_object_new_object();
    struct json_object *cables = json_object_new_object();
    struct json_object *bytes = json_object_new_object();

    wire_add_text(all, "topo", graph->spec);
    wire_add_text(all, "profile", config->profile.name);
    wire_add_number(all, "nodes", graph->nodes);
    wire_add_number(all, "switches", graph->switches);
    wire_add_number(all, "levels", graph->levels);
    wire_add_number(all, "ports", graph->ports);
    wire_add_number(cables, "node", figures->node_cables);
    json_object_object_add(all, "cables",
                           wire_add_number(cables, "switch", figures->switch_cables));
    wire_add_number(all, "longest_route", figures->longest);
    wire_add_number(all, "zero_load_least_ps", figures->least_ps);
    wire_add_number(all, "zero_load_most_ps", figures->most_ps);
    wire_add_number(bytes, "switch", figures->bytes.per_switch);
    wire_add_number(bytes, "idle_node", figures->bytes.per_idle_node);
    wire_add_number(bytes, "attached_node", figures->bytes.per_attached_node);
    json_object_object_add(all, "bytes", wire_add_number(bytes, "total", figures->bytes.total));
    json_object_object_add(all, "checked", json_object_new_boolean(checked));
    printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(all);
}

static int print_network(const struct fabric_config *config, const struct options *options)
{
    struct figures figures;
    char error[256];

    if (options->check && topo_check(config->graph, error, sizeof error)) {
        say("%s: %s", config->graph->spec, error);
        return EXIT_FAILURE;
    }
    measure(&figures, config);
    if (options->json)
        print_json(config, &figures, options->check);
    else
        print_text(config, &figures, options->check);
    return EXIT_SUCCESS;
}

int topo_main(int argc, char **argv)
{
    struct options options;
    struct fabric_config config;
    struct topo_graph *graph;

    int status = options_parse(&options, &topo_command, argc, argv);
    if (status >= 0)
        return status;
    int operands = argc - options.operands;
    if (operands > 1 || (operands == 1 && (options.topo || options.nodes)))
        return options_usage_error("topo", "give one SPEC");
    if (operands == 0 && !options.topo && !options.nodes)
        return options_usage_error("topo", "no SPEC; for example: fabemu topo kary:4,2");
    if (operands == 1)
        options.topo = argv[options.operands];
    status = options_fabric(&config, &graph, &options, NULL);
    if (status)
        return status;
    status = print_network(&config, &options);
    topo_free(graph);
    return status;
}
