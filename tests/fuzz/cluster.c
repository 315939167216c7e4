/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.c - cluster files. An accepted file is unchanged after printing and reading it. It places
 * the switches of a network on hosts, or gives a reason why this is impossible.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/cluster/cluster.h"
#include "tests/fuzz/fuzz.h"

static char *print(const struct cluster *cluster)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    fuzz_must(to, "no memory");
    cluster_print(cluster, to);
    fclose(to);
    return text;
}

static void print_and_read(const struct cluster *cluster)
{
    char *text[2] = {print(cluster)}, error[CLUSTER_ERROR_BYTES] = "";
    struct cluster again;

    fuzz_must(cluster_text(&again, "again", text[0], strlen(text[0]), error, sizeof error) == 0,
              error);
    text[1] = print(&again);
    fuzz_must(strcmp(text[0], text[1]) == 0,
              "a cluster file that is printed and read is printed identically");
    cluster_release(&again);
    free(text[0]);
    free(text[1]);
}

static void place(const struct cluster *cluster, const char *spec)
{
    char error[1280] = "";
    struct topo_graph *graph;
    uint32_t *host_of;

    fuzz_must(topo_parse(&graph, spec, error, sizeof error) == 0, error);
    host_of = malloc(graph->switches * sizeof *host_of);
    fuzz_must(host_of, "no memory");
    if (cluster_place(cluster, graph, host_of, error, sizeof error))
        fuzz_print_why(error);
    else
        for (uint32_t s = 0; s < graph->switches; s++)
            fuzz_must(host_of[s] < cluster->hosts, "every switch is on a host");
    free(host_of);
    topo_free(graph);
}

static void look_at_ports(const struct cluster *cluster)
{
    uint32_t a, b;

    for (uint32_t h = 1; h < cluster->hosts; h++)
        for (uint32_t i = 0; i < cluster_links(cluster, 0, h); i++) {
            cluster_link(cluster, 0, h, i, &a, &b);
            fuzz_must(a < cluster->host[0].ports && b < cluster->host[h].ports,
                      "the ports of a link exist");
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char error[CLUSTER_ERROR_BYTES] = "";
    struct cluster cluster;

    if (cluster_text(&cluster, "input", (const char *)data, bytes, error, sizeof error)) {
        fuzz_print_why(error);
        return 0;
    }
    print_and_read(&cluster);
    look_at_ports(&cluster);
    cluster_fabric(&cluster);
    place(&cluster, "kary:2,2");
    place(&cluster, "qsnet:40,links=2");
    cluster_release(&cluster);
    return 0;
}
