/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topology.c - topology files: every operation of the fabric on networks must work on an accepted
 * network.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "topo/topo.h"

#define NODES_MOST 64u /* some checks are left out for larger networks */

static char *write_to(const struct topo_graph *graph, size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);

    fuzz_must(to && topo_write(graph, to) == 0, "a network can be written");
    fclose(to);
    return text;
}

/* Check that a network that is written, read and written has the same text. */
static void write_and_read(const struct topo_graph *graph)
{
    struct topo_graph *again = NULL;
    size_t bytes[2];
    char *text[2] = {write_to(graph, &bytes[0])};
    char error[1280] = "";

    fuzz_must(topo_read(&again, "input", text[0], bytes[0], error, sizeof error) == 0, error);
    text[1] = write_to(again, &bytes[1]);
    fuzz_must(bytes[0] == bytes[1] && memcmp(text[0], text[1], bytes[0]) == 0,
              "a network that is written, read and written has the same text");
    topo_free(again);
    free(text[0]);
    free(text[1]);
}

static void grow_tree(const struct topo_graph *graph)
{
    uint32_t *load = calloc(graph->switches, sizeof *load);
    uint32_t members[NODES_MOST];
    struct topo_tree tree;

    fuzz_must(load, "no memory");
    for (uint32_t n = 0; n < graph->nodes; n++)
        members[n] = n;
    int err = topo_tree_build(&tree, graph, members, graph->nodes, load);
    fuzz_must(!err || err == -EHOSTUNREACH, "a tree is built, or no switch reaches all members");
    if (!err) {
        for (uint32_t n = 0; n < graph->nodes; n++)
            fuzz_must(topo_tree_link(&tree, graph, n) != TOPO_NONE, "each member is in the tree");
        topo_tree_charge(&tree, load, 1);
        topo_tree_release(&tree);
    }
    free(load);
}

/* Remove the first cable between switches, and all cables of the first node. */
static void cut_cables(const struct topo_graph *graph)
{
    struct topo_at cut[1 + TOPO_NODE_LINKS_MAX];
    struct topo_graph *without = NULL;
    uint32_t count = 0;
    uint64_t unreachable;

    for (uint32_t i = 0; i < graph->node[0].links; i++)
        cut[count++] = (struct topo_at){graph->node[0].link[i].sw, graph->node[0].link[i].port};
    for (uint32_t at = 0; at < graph->switches * graph->ports; at++) {
        struct topo_at end = {at / graph->ports, at % graph->ports};
        if (graph->sw[end.sw].end[end.port].kind != TOPO_END_SWITCH)
            continue;
        cut[count++] = end;
        break;
    }
    fuzz_must(topo_without(&without, graph, cut, count, &unreachable) == 0,
              "cables can be removed");
    topo_free(without);
}

static void look_at(const struct topo_graph *graph)
{
    uint32_t *worker_of = calloc(graph->switches, sizeof *worker_of);
    struct topo_checked what;
    char error[1280] = "";

    fuzz_must(worker_of, "no memory");
    fuzz_must(topo_check(graph, &what, error, sizeof error) == 0, error);
    topo_partition(graph, 3, worker_of);
    free(worker_of);
    if (graph->nodes > NODES_MOST)
        return;
    for (uint32_t n = 1; n < graph->nodes; n++)
        fuzz_must(topo_hops(graph, 0, n), "every node can be reached");
    write_and_read(graph);
    grow_tree(graph);
    cut_cables(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct topo_graph *graph = NULL;
    char error[1280] = "";
    int err = topo_read(&graph, "input", (const char *)data, bytes, error, sizeof error);

    if (err) {
        fuzz_print_why(error);
        return 0;
    }
    look_at(graph);
    topo_free(graph);
    return 0;
}
