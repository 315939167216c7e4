/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster.c - `fabemu cluster`: check a cluster file, and print the part of each host. */
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/cluster/cluster.h"
#include "apps/fault/fault.h"
#include "apps/cmd/options.h"
#include "apps/cmd/commands.h"
#include "apps/base/message.h"

static const struct options_command cluster_command = {
    .name = "cluster",
    .operands = "--check FILE",
    .about = "Check a cluster file: print the switches, nodes and ports of each host, and the\n"
             "number of links between any two hosts. docs/hosts.md explains the format.",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC,
};

static const struct option_row rows[] = {
    {"check", "FILE", "the cluster file; no fabric is started", .right = "the name of a file"},
};

/* Print all numbers below @count for which has() returns true, as ranges: "0-3, 8". */
static void print_ranges(FILE *out, uint32_t count, bool (*has)(const void *ctx, uint32_t i),
                         const void *ctx)
{
    const char *before = " ";

    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = i;

        if (!has(ctx, i))
            continue;
        while (i + 1 < count && has(ctx, i + 1))
            i++;
        fprintf(out, "%s%u", before, first);
        if (i > first)
            fprintf(out, "-%u", i);
        before = ", ";
    }
}

struct placed {
    const struct cluster *cluster;
    const struct topo_graph *graph;
    uint32_t *host_of; /* for each switch, the index of its host */
    uint32_t host;
};

static bool has_switch(const void *ctx, uint32_t s)
{
    const struct placed *p = ctx;

    return p->host_of[s] == p->host;
}

static bool has_node(const void *ctx, uint32_t n)
{
    const struct placed *p = ctx;

    return has_switch(p, topo_first_link(p->graph, n)->sw);
}

static uint32_t count_of(uint32_t count, bool (*has)(const void *ctx, uint32_t i), const void *ctx)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += has(ctx, i);
    return sum;
}

static void print_host(FILE *out, const struct placed *p)
{
    const struct cluster_host *host = &p->cluster->host[p->host];

    fprintf(out, "host %u %s\n  switches %u:", p->host, host->name,
            count_of(p->graph->switches, has_switch, p));
    print_ranges(out, p->graph->switches, has_switch, p);
    fprintf(out, "\n  nodes %u:", count_of(p->graph->nodes, has_node, p));
    print_ranges(out, p->graph->nodes, has_node, p);
    fputc('\n', out);
    for (uint32_t i = 0; i < host->ports; i++) {
        const uint8_t *mac = host->port[i].mac;

        fprintf(out, "  port %u: %s", i, host->port[i].device);
        if (host->port[i].has_mac)
            fprintf(out, ", mac %02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
                    mac[4], mac[5]);
        fputc('\n', out);
    }
}

static void print_between(FILE *out, const struct placed *p)
{
    uint32_t hosts = p->cluster->hosts, between[CLUSTER_HOSTS_MAX * CLUSTER_HOSTS_MAX];
    uint32_t crossing = topo_cut_cables(p->graph, p->host_of, hosts, between);

    fprintf(out, "%u link%s between hosts\n", crossing, plural_s(crossing));
    for (uint32_t a = 0; a < hosts; a++)
        for (uint32_t b = a + 1; b < hosts; b++) {
            uint32_t links = cluster_links(p->cluster, a, b), port_a, port_b;

            if (!between[a * hosts + b])
                continue;
            fprintf(out, "  %s - %s: %u, over ports", p->cluster->host[a].name,
                    p->cluster->host[b].name, between[a * hosts + b]);
            for (uint32_t i = 0; i < links; i++) {
                cluster_link(p->cluster, a, b, i, &port_a, &port_b);
                fprintf(out, "%s %u - %u", i ? "," : "", port_a, port_b);
            }
            fputc('\n', out);
        }
}

static int print_cluster(struct placed *p, const struct fabric_config *config)
{
    uint8_t digest[CLUSTER_DIGEST_BYTES];
    char silent[32];
    struct fold fold;
    FILE *out;

    if (cluster_digest(p->cluster, config, digest)) {
        print_message("out of memory");
        return EXIT_FAILURE;
    }
    out = fold_begin(&fold, stdout, "    ", FOLD_COLUMNS);
    fprintf(out, "fabric %s on %s, profile %s: %u host%s, %s; a host is lost after %s of silence\n",
            p->cluster->fabric, p->graph->spec, config->profile.name, p->cluster->hosts,
            plural_s(p->cluster->hosts), *p->cluster->key ? "with a key" : "without a key",
            fault_print_time(p->cluster->silent_ns * 1000, silent));
    for (p->host = 0; p->host < p->cluster->hosts; p->host++)
        print_host(out, p);
    print_between(out, p);
    fputs("digest ", out);
    for (uint32_t i = 0; i < CLUSTER_DIGEST_BYTES; i++)
        fprintf(out, "%02x", digest[i]);
    fputc('\n', out);
    fold_end(&fold);
    return EXIT_SUCCESS;
}

static int check(const struct cluster *cluster, const struct fabric_config *config,
                 const char *file)
{
    struct placed p = {.cluster = cluster, .graph = config->graph};
    uint8_t key[CLUSTER_KEY_BYTES];
    char error[CLUSTER_ERROR_BYTES] = "out of memory";
    int status, err = 0;

    p.host_of = malloc(p.graph->switches * sizeof *p.host_of);
    if (p.host_of && *cluster->key)
        err = cluster_key(cluster, key, error, sizeof error);
    explicit_bzero(key, sizeof key);
    if (p.host_of && !err)
        err = cluster_place(cluster, p.graph, p.host_of, error, sizeof error);
    if (!p.host_of || err) {
        print_message("%.100s: %s", file, error);
        status = err ? EXIT_USAGE : EXIT_FAILURE;
    } else {
        status = print_cluster(&p, config);
    }
    free(p.host_of);
    return status;
}

int cluster_main(int argc, char **argv)
{
    const char *file = NULL;
    struct option_table own = OPTION_TABLE(rows, &file);
    char error[CLUSTER_ERROR_BYTES];
    struct options options;
    struct fabric_config config;
    struct topo_graph *graph;
    struct cluster cluster;

    int status = options_parse(&options, &cluster_command, &own, argc, argv);
    if (status >= 0)
        return status;
    if (options.operands < argc)
        return options_usage_error("cluster", "cluster takes no operand '%.80s'; give --check FILE",
                                   argv[options.operands]);
    if (!file)
        return options_usage_error("cluster", "option --check FILE is missing");
    if (cluster_read(&cluster, file, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_USAGE;
    }
    status = options_fabric(&config, &graph, &options, NULL);
    if (!status) {
        status = check(&cluster, &config, file);
        topo_free(graph);
    }
    cluster_release(&cluster);
    return status;
}
