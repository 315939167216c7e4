/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kary.c - k-ary n-trees.
 *
 * Switches are numbered level * k^(n-1) + w, where w has n - 1 digits in base k. A switch at level
 * l and a switch at level l + 1 are cabled if all their digits except digit l agree. Digit l of the
 * child is the port at the parent. Digit l of the parent, plus k, is the port at the child, whose
 * ports from k on lead up. So a path up may choose digit l freely, and the path down corrects it.
 */
#include "topo/graph.h"

#include <errno.h>

#include "emu/util/ports.h"

struct kary {
    uint32_t k;
    uint32_t n;
    uint32_t nodes;
    uint32_t row; /* number of switches per level */
};

static int kary_size(struct kary *tree, const char *args, const char **why)
{
    uint32_t k, n;

    if (!topo_scan_number(&args, &k) || !topo_scan_word(&args, ",") ||
        !topo_scan_number(&args, &n) || *args) {
        *why = "want kary:K,N, for example kary:4,2 (16 nodes)";
        return -EINVAL;
    }
    if (k < 2 || n < 1) {
        *why = "K must be at least 2, and N at least 1, as in kary:4,2 (16 nodes)";
        return -EINVAL;
    }
    if (k > (n == 1 ? TOPO_PORTS_WIDE : TOPO_PORTS_WIDE / 2)) {
        *why =
            "K is too large: a switch has 2K ports (K if N is 1), at most " TEXT(TOPO_PORTS_WIDE);
        return -EINVAL;
    }
    *tree = (struct kary){.k = k, .n = n, .nodes = 1};
    for (uint32_t i = 0; i < n; i++) {
        tree->row = tree->nodes;
        tree->nodes *= k;
        if (tree->nodes > TOPO_NODES_MAX) {
            *why = "too large: K to the power of N is at most " TEXT(TOPO_NODES_MAX) " nodes";
            return -E2BIG;
        }
    }
    return 0;
}

/* Plug in the nodes of switch @w and its cables up. @unit: k^level, the weight of digit @level. */
static void kary_switch(struct topo_graph *graph, const struct kary *tree, uint32_t level,
                        uint32_t unit, uint32_t w, emu_ports *sets)
{
    uint32_t id = level * tree->row + w;
    uint32_t digit = w / unit % tree->k;
    struct topo_switch *sw = &graph->sw[id];

    sw->level = level;
    sw->low = w / unit * unit * tree->k;
    sw->high = sw->low + unit * tree->k - 1;
    sw->route.first = sw->low;
    sw->route.span = unit * tree->k;
    sw->route.stride = unit;
    sw->route.spread = unit;
    sw->route.sets = sets;
    if (level == 0)
        for (uint32_t port = 0; port < tree->k; port++)
            topo_plug_node(graph, w * tree->k + port, id, port);
    if (level + 1 == tree->n)
        return;

    sw->route.elsewhere = emu_ports_range(tree->k, tree->k);
    for (uint32_t d = 0; d < tree->k; d++) {
        uint32_t parent = id + tree->row + d * unit - digit * unit;
        topo_plug_cable(graph, id, tree->k + d, parent, digit);
    }
}

int topo_kary(struct topo_graph **ret, const char *args, char *why, size_t why_bytes)
{
    const char *text = "not enough memory";
    struct kary tree = {0};
    int err = kary_size(&tree, args, &text);
    const struct topo_size size = {
        .nodes = tree.nodes,
        .switches = tree.n * tree.row,
        .ports = tree.n == 1 ? tree.k : 2 * tree.k,
        .levels = tree.n,
        .sets = tree.k,
    };
    emu_ports *sets;

    if (!err) {
        err = topo_ports_fit(size.ports, why, why_bytes);
        if (err)
            return err;
    }
    struct topo_graph *graph = err ? NULL : topo_graph_new(&size, &sets);

    if (!graph) {
        snprintf(why, why_bytes, "%s", text);
        return err ? err : -ENOMEM;
    }
    snprintf(graph->spec, sizeof graph->spec, "kary:%u,%u", tree.k, tree.n);
    graph->longest = 2 * tree.n - 1;
    for (uint32_t port = 0; port < tree.k; port++)
        /* at every switch, block i of the nodes below it is behind port i */
        sets[port] = emu_port(port);
    for (uint32_t level = 0, unit = 1; level < tree.n; level++, unit *= tree.k)
        for (uint32_t w = 0; w < tree.row; w++)
            kary_switch(graph, &tree, level, unit, w, sets);
    *ret = graph;
    return 0;
}
