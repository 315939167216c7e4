/* SPDX-License-Identifier: BSD-3-Clause */
/* topo.c - `fabemu topo`: print a network's parts, its routes, and the memory that it needs. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/base/output.h"
#include "apps/cmd/options.h"
#include "apps/fabric/origin.h"
#include "apps/daemon/report.h"
#include "apps/cmd/commands.h"
#include "apps/base/message.h"
#include "apps/base/silence.h"
#include "apps/control/conn.h"

#define SEGMENT_BYTES 256

static const struct options_command topo_command = {
    .name = "topo",
    .operands = "[SPEC]",
    .about = "Print a network: its parts, its longest route, its memory. SPEC is\n"
             "  kary:K,N   a K-ary N-tree: K^N nodes below N levels of K^(N-1)\n"
             "             switches, each with K ports down and K ports up\n"
             "  qsnet:N    QsNet III for 2 to 16384 nodes: chassis of 128 nodes,\n"
             "             routers of 32 ports. Options:\n"
             "             ,links=1|2|4           number of links of each node\n"
             "             ,apart=router|chassis  a node's links lead to different\n"
             "                                    routers or chassis (default: to\n"
             "                                    one router)\n"
             "             ,rails=1..4            number of parallel networks\n"
             "             ,tops=1..128           number of top switches; with fewer\n"
             "                                    than 128, the network is\n"
             "                                    oversubscribed\n"
             "  clos:radix=R,levels=L[,over=F]\n"
             "             a folded Clos network of switches with R ports; in the\n"
             "             lowest level F ports lead down for each one that leads up\n"
             "  clos:down=D0xD1..,up=U0..[,cables=C1..]\n"
             "             a folded Clos network. Levels count from 0, the lowest. D0\n"
             "             and U0: ports down and up of each switch of level 0; C1:\n"
             "             number of parallel cables from a switch of level 1 to each\n"
             "             switch of level 0 below it\n"
             "  FILE       output of ibnetdiscover or of --write. Its name must have\n"
             "             a '/', or end in .topo, .txt or .net\n"
             "docs/topo.md has examples and the format of files.",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_JSON | OPTIONS_CHECK,
};

static const struct option_row rows[] = {
    {"write", "FILE", "write the network to FILE in the format of ibnetdiscover (-: to stdout)",
     .right = "the name of a file"},
};

#define INDENT "                 " /* as wide as the title of a line */

struct figures {
    uint64_t node_cables, switch_cables;
    uint32_t longest;  /* number of switches on the longest route */
    uint64_t least_ps; /* latency of a segment over one switch, in an idle network */
    uint64_t most_ps;  /* latency of a segment over `longest` switches, in an idle network */
    struct fabric_bytes bytes;
    uint32_t workers; /* 0: --threads was not given */
    double cables;    /* mean number of cables between switches on a route to a random node */
    double others;    /* how many of these cables lead to a switch of another worker */
};

static uint64_t zero_load_ps(const struct emu_profile *profile, uint32_t switches)
{
    return profile->nic_send_ps + profile->nic_recv_ps + switches * profile->switch_ps +
           (switches + 1) * profile->channel_ps + SEGMENT_BYTES * profile->link_ps_per_byte;
}

/*
 * Compute the mean numbers of cables of a route. Cables between switches of different workers cost
 * the emulator more time than others.
 */
static void measure_workers(struct figures *ret, const struct fabric_config *config)
{
    uint32_t *worker_of = calloc(config->graph->switches, sizeof *worker_of);
    struct topo_crossings crossings;

    if (!worker_of)
        return;
    ret->workers = fabric_worker_count(config);
    topo_partition(config->graph, ret->workers, worker_of);
    topo_partition_crossings(config->graph, worker_of, &crossings);
    ret->cables = (double)crossings.cables / (double)crossings.segments;
    ret->others = (double)crossings.others / (double)crossings.segments;
    free(worker_of);
}

static void measure(struct figures *ret, const struct fabric_config *config)
{
    const struct topo_graph *graph = config->graph;
    uint64_t ends = 0;

    *ret = (struct figures){0};
    for (uint32_t node = 0; node < graph->nodes; node++)
        ret->node_cables += graph->node[node].links;
    for (uint32_t sw = 0; sw < graph->switches; sw++)
        for (uint32_t port = 0; port < graph->ports; port++)
            ends += graph->sw[sw].end[port].kind == TOPO_END_SWITCH;
    ret->switch_cables = ends / 2;
    ret->longest = graph->longest;
    ret->least_ps = zero_load_ps(&config->profile, 1);
    ret->most_ps = zero_load_ps(&config->profile, ret->longest);
    fabric_bytes(config, &ret->bytes);
    if (config->threads != FABRIC_THREADS_AUTO)
        measure_workers(ret, config);
}

/*
 * For a QsNet III network, print how many parts it has of each kind, as in Table I of the paper.
 * For a network from a file, print how many parts of the file are not in the network.
 */
static void print_parts(FILE *out, const struct topo_graph *graph, const struct figures *figures)
{
    const struct topo_parts *parts = &graph->parts;

    if (parts->node_chassis)
        fprintf(out,
                "  made of        %u node chassis, %u top chassis (%u top switch%s), %s router%s\n"
                "                 %s cables: %s to nodes, %s between chassis; %s backplane "
                "link%s\n",
                parts->node_chassis, parts->top_chassis, parts->top_switches,
                plural_es(parts->top_switches), amount_count(graph->switches).text,
                plural_s(graph->switches),
                amount_count(figures->node_cables + parts->top_cables).text,
                amount_count(figures->node_cables).text, amount_count(parts->top_cables).text,
                amount_count(parts->backplane).text, plural_s(parts->backplane));
    if (parts->left_out || parts->loops)
        fprintf(out,
                "  left out       %s device%s neither switch nor node, %s cable%s from a switch to "
                "itself\n",
                amount_count(parts->left_out).text,
                parts->left_out == 1 ? " that is" : "s that are", amount_count(parts->loops).text,
                plural_s(parts->loops));
}

static void print_checked(FILE *out, const struct topo_checked *checked)
{
    fprintf(out,
            "  check          %s links agree at both ends; %s routes arrive with any choice of "
            "ports;",
            amount_count(checked->cables).text, amount_count(checked->routes).text);
    if (checked->by_levels)
        fputs(" all lead up and then down, so waits form no cycle: no deadlock\n", out);
    else
        fprintf(out,
                " %s wait%s between %s channel%s (of routes, multicast and combining) form%s no "
                "cycle: no deadlock\n",
                amount_count(checked->waits).text, plural_s(checked->waits),
                amount_count(checked->channels).text, plural_s(checked->channels),
                checked->waits == 1 ? "s" : "");
}

static void find_sizes(const struct topo_graph *graph, uint32_t *least, uint32_t *most)
{
    *least = UINT32_MAX;
    *most = 0;
    for (uint32_t s = 0; s < graph->switches; s++) {
        uint32_t ports = graph->sw[s].ports ? graph->sw[s].ports : graph->ports;

        *least = ports < *least ? ports : *least;
        *most = ports > *most ? ports : *most;
    }
}

static void print_switches(FILE *out, const struct topo_graph *graph)
{
    uint32_t least, most;

    find_sizes(graph, &least, &most);
    fprintf(out, "  switches       %s in %u level%s, ", amount_count(graph->switches).text,
            graph->levels, plural_s(graph->levels));
    if (least == most)
        fprintf(out, "%u port%s each", most, plural_s(most));
    else
        fprintf(out, "%u to %u ports", least, most);
    fputs(graph->sw[0].ports ? ", including unused ones\n" : "\n", out);
}

/*
 * Print the memory. The emulator gives all switches of a network the same number of ports. For a
 * network from a file, this number may be enough only for the ports in use.
 */
static void print_memory(FILE *out, const struct topo_graph *graph,
                         const struct fabric_bytes *bytes)
{
    uint32_t least, most;
    char size[72] = "";

    find_sizes(graph, &least, &most);
    if (least < graph->ports || most > graph->ports)
        snprintf(size, sizeof size, " (each is emulated with %u ports%s)", graph->ports,
                 most > graph->ports ? ", enough for the used ones" : "");
    fprintf(out,
            "  memory         %s per switch%s, %s in all (%s per node, switches included), "
            "%s more for each attached process\n",
            amount_of_bytes(bytes->per_switch).text, size, amount_of_bytes(bytes->total).text,
            amount_of_bytes(bytes->per_idle_node).text,
            amount_of_bytes(bytes->per_attached_node).text);
}

static void print_text(const struct fabric_config *config, const struct figures *figures,
                       const struct topo_checked *checked)
{
    const struct topo_graph *graph = config->graph;
    char rates[512];
    struct fold fold;
    FILE *out = fold_begin(&fold, stdout, INDENT, FOLD_COLUMNS);

    fprintf(out, "%s\n", graph->spec);
    fprintf(out, "  nodes          %s\n", amount_count(graph->nodes).text);
    print_switches(out, graph);
    fprintf(out, "  links          %s to nodes, %s between switches\n",
            amount_count(figures->node_cables).text, amount_count(figures->switch_cables).text);
    if (options_print_rates(config, rates, sizeof rates))
        fprintf(out, "  rates          %s\n", rates);
    print_parts(out, graph, figures);
    if (graph->label)
        fprintf(out, "  direction up   %s\n", topo_up_text(graph->up));
    fprintf(out, "  longest route  %u switch%s\n", figures->longest, plural_es(figures->longest));
    fprintf(out, "  zero load      %s ns over 1 switch",
            amount_of_real((double)figures->least_ps / 1000, 1).text);
    if (figures->longest > 1)
        fprintf(out, ", %s ns over %u", amount_of_real((double)figures->most_ps / 1000, 1).text,
                figures->longest);
    fprintf(out, " (profile %s, %d bytes)\n", config->profile.name, SEGMENT_BYTES);
    print_memory(out, graph, &figures->bytes);
    if (figures->workers)
        fprintf(
            out,
            "  workers        %u: the route to a random node has on average %.2f cables between "
            "switches, %.2f of them to a switch of another worker\n",
            figures->workers, figures->cables, figures->others);
    if (checked)
        print_checked(out, checked);
    fold_end(&fold);
    struct json_object *origin = origin_json(config);
    origin_print(stdout, origin, "  origin         ", INDENT, FOLD_COLUMNS);
    json_object_put(origin);
}

static struct json_object *json_parts(const struct topo_graph *graph, const struct figures *figures)
{
    struct json_object *all = json_object_new_object();
    const struct topo_parts *parts = &graph->parts;

    json_add_number(all, "node_chassis", parts->node_chassis);
    json_add_number(all, "top_chassis", parts->top_chassis);
    json_add_number(all, "top_switches", parts->top_switches);
    json_add_number(all, "routers", graph->switches);
    json_add_number(all, "cables", figures->node_cables + parts->top_cables);
    json_add_number(all, "node_cables", figures->node_cables);
    json_add_number(all, "top_cables", parts->top_cables);
    return json_add_number(all, "backplane_links", parts->backplane);
}

static struct json_object *json_labels(const struct topo_graph *graph, uint32_t first,
                                       uint32_t count)
{
    struct json_object *all = json_object_new_array();
    char guid[24];

    for (uint32_t i = first; i < first + count; i++) {
        const struct topo_label *label = &graph->label[i];
        struct json_object *one = json_object_new_object();

        json_add_text(one, "name", topo_label_name(graph, i));
        json_add_text(one, "id", graph->label_text + label->id);
        snprintf(guid, sizeof guid, "0x%016llx", (unsigned long long)label->guid);
        if (label->guid)
            json_add_text(one, "guid", guid);
        json_object_array_add(all, one);
    }
    return all;
}

static struct json_object *json_rates(const struct topo_graph *graph)
{
    struct json_object *all = json_object_new_object();
    struct topo_rates rates;
    char name[16];

    topo_rates(graph, &rates);
    for (uint8_t rate = 1; rate < TOPO_RATES; rate++)
        if (rates.cables[rate])
            json_add_number(all, topo_rate_name(rate, name), rates.cables[rate]);
    return all;
}

static struct json_object *json_checked(const struct topo_checked *checked)
{
    struct json_object *all = json_object_new_object();

    json_add_number(all, "cables", checked->cables);
    json_add_number(all, "routes", checked->routes);
    json_add_number(all, "channels", checked->channels);
    json_add_number(all, "waits", checked->waits);
    json_object_object_add(all, "by_levels", json_object_new_boolean(checked->by_levels));
    return all;
}

static void print_json(const struct fabric_config *config, const struct figures *figures,
                       const struct topo_checked *checked)
{
    const struct topo_graph *graph = config->graph;
    struct json_object *all = json_object_new_object();
    struct json_object *cables = json_object_new_object();
    struct json_object *bytes = json_object_new_object();

    json_object_object_add(all, "origin", origin_json(config));
    report_network(all, config);
    json_add_number(all, "nodes", graph->nodes);
    json_add_number(all, "switches", graph->switches);
    json_add_number(all, "levels", graph->levels);
    json_add_number(all, "ports", graph->ports);
    json_add_number(cables, "node", figures->node_cables);
    json_object_object_add(all, "cables",
                           json_add_number(cables, "switch", figures->switch_cables));
    if (graph->parts.node_chassis)
        json_object_object_add(all, "parts", json_parts(graph, figures));
    if (graph->label) {
        json_add_number(all, "left_out", graph->parts.left_out);
        json_add_number(all, "loops", graph->parts.loops);
        json_object_object_add(all, "rates", json_rates(graph));
        json_object_object_add(all, "switch_names", json_labels(graph, 0, graph->switches));
        json_object_object_add(all, "node_names",
                               json_labels(graph, graph->switches, graph->nodes));
    }
    json_add_number(all, "longest_route", figures->longest);
    json_add_number(all, "zero_load_least_ps", figures->least_ps);
    json_add_number(all, "zero_load_most_ps", figures->most_ps);
    json_add_number(bytes, "switch", figures->bytes.per_switch);
    json_add_number(bytes, "idle_node", figures->bytes.per_idle_node);
    json_add_number(bytes, "attached_node", figures->bytes.per_attached_node);
    json_object_object_add(all, "bytes", json_add_number(bytes, "total", figures->bytes.total));
    if (figures->workers) {
        json_add_number(all, "workers", figures->workers);
        json_object_object_add(all, "cables_a_segment", json_object_new_double(figures->cables));
        json_object_object_add(all, "to_other_workers", json_object_new_double(figures->others));
    }
    json_object_object_add(all, "checked", json_object_new_boolean(checked != NULL));
    if (checked)
        json_object_object_add(all, "check", json_checked(checked));
    options_print_json(all);
    json_object_put(all);
}

static int write_network(const struct topo_graph *graph, const char *name)
{
    bool standard = output_is_stdout(name);
    FILE *to = standard ? stdout : fopen(name, "we");
    bool failed = !to || topo_write(graph, to);

    if (to && (standard ? fflush(to) : fclose(to)))
        failed = true;
    if (failed)
        print_message("--write %s: %s", name, strerror(errno));
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int print_network(const struct fabric_config *config, const struct options *options,
                         const char *write)
{
    struct topo_checked checked;
    struct figures figures;
    char error[1280];

    if (options->check && topo_check(config->graph, &checked, error, sizeof error)) {
        print_message("%s: %s", config->graph->spec, error);
        return EXIT_FAILURE;
    }
    if (output_is_stdout(write))
        return EXIT_SUCCESS; /* standard output gets the network itself, so print nothing else */
    measure(&figures, config);
    if (options->json)
        print_json(config, &figures, options->check ? &checked : NULL);
    else
        print_text(config, &figures, options->check ? &checked : NULL);
    return EXIT_SUCCESS;
}

int topo_main(int argc, char **argv)
{
    struct options options;
    struct fabric_config config;
    struct topo_graph *graph;
    struct silence silence;
    const char *write = NULL;
    struct option_table own = OPTION_TABLE(rows, &write);

    int status = options_parse(&options, &topo_command, &own, argc, argv);
    if (status >= 0)
        return status;
    int operands = argc - options.operands;
    if (operands > 1 || (operands == 1 && (options.topo || options.nodes)))
        return options_usage_error("topo", "give one SPEC");
    if (operands == 0 && !options.topo && !options.nodes)
        return options_usage_error("topo", "SPEC is missing; for example: fabemu topo kary:4,2");
    if (options.json && output_is_stdout(write))
        return options_usage_error("topo",
                                   "--json and --write %s cannot be used together: both print to "
                                   "standard output; choose a file for --write",
                                   write);
    options.topo_is_operand = operands == 1;
    if (operands == 1)
        options.topo = argv[options.operands];
    silence_begin(&silence, SILENCE_MS,
                  options.check ? "topo: building and checking the network"
                                : "topo: building the network");
    status = options_fabric(&config, &graph, &options, NULL);
    if (!status) {
        status = print_network(&config, &options, write);
        if (!status && write)
            status = write_network(graph, write);
        topo_free(graph);
    }
    silence_end(&silence);
    return status;
}
