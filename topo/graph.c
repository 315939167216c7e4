/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.c - the graph: memory, cables, paths, and copies without some cables. */
#include "topo/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/ports.h"

struct topo_graph *topo_graph_new(const struct topo_size *size, emu_ports **sets)
{
    size_t ends = (size_t)size->switches * size->ports;
    size_t bytes = sizeof(struct topo_graph) + size->switches * sizeof(struct topo_switch) +
                   size->sets * sizeof(emu_ports) + ends * sizeof(struct topo_end) +
                   size->nodes * sizeof(struct topo_node);
    struct topo_graph *graph = calloc(1, bytes);

    if (!graph)
        return NULL;
    graph->nodes = size->nodes;
    graph->switches = size->switches;
    graph->ports = size->ports;
    graph->levels = size->levels;
    graph->slab = graph;
    graph->bytes = bytes;

    /* Arrays with the strictest alignment come first, so that no padding is needed. */
    graph->sw = (struct topo_switch *)(graph + 1);
    emu_ports *first_set = (emu_ports *)(graph->sw + size->switches);
    struct topo_end *end = (struct topo_end *)(first_set + size->sets);
    graph->node = (struct topo_node *)(end + ends);
    for (uint32_t s = 0; s < size->switches; s++) {
        graph->sw[s].end = end + (size_t)s * size->ports;
        graph->sw[s].route.stride = 1;
        graph->sw[s].low = 1; /* low > high: there is no node below */
    }
    if (sets)
        *sets = first_set;
    return graph;
}

int topo_ports_fit(uint32_t ports, char *why, size_t why_bytes)
{
    if (ports <= TOPO_PORTS_MAX)
        return 0;
    snprintf(why, why_bytes,
             "switches of %u ports need the program fabemu-wide, which is not installed: build it "
             "with -Dwide=enabled",
             ports);
    return -EOVERFLOW;
}

void topo_free(struct topo_graph *graph)
{
    if (!graph)
        return;
    free(graph->routes);
    free((void *)graph->label);
    free(graph->slab);
}

void topo_plug_node(struct topo_graph *graph, uint32_t node, uint32_t sw, uint32_t port)
{
    struct topo_node *at = &graph->node[node];
    struct topo_end *end = &graph->sw[sw].end[port];

    at->link[at->links] = (struct topo_link){.sw = sw, .port = (uint8_t)port};
    end->kind = TOPO_END_NODE;
    end->id = node;
    end->port = at->links++;
}

static void plug_one(struct topo_end *end, uint32_t sw, uint32_t port)
{
    end->kind = TOPO_END_SWITCH;
    end->port = (uint8_t)port;
    end->id = sw;
}

void topo_plug_cable(struct topo_graph *graph, uint32_t a, uint32_t a_port, uint32_t b,
                     uint32_t b_port)
{
    plug_one(&graph->sw[a].end[a_port], b, b_port);
    plug_one(&graph->sw[b].end[b_port], a, a_port);
}

/* Copy nodes, switches, cables and levels, but no routes and names. */
static struct topo_graph *graph_copy(const struct topo_graph *from)
{
    const struct topo_size size = {.nodes = from->nodes,
                                   .switches = from->switches,
                                   .ports = from->ports};
    struct topo_graph *graph = topo_graph_new(&size, NULL);

    if (!graph)
        return NULL;
    memcpy(graph->spec, from->spec, sizeof graph->spec);
    memcpy(graph->node, from->node, from->nodes * sizeof from->node[0]);
    graph->parts = from->parts;
    graph->up = from->up;
    for (uint32_t s = 0; s < from->switches; s++) {
        graph->sw[s].level = from->sw[s].level;
        graph->sw[s].ports = from->sw[s].ports;
        memcpy(graph->sw[s].end, from->sw[s].end, from->ports * sizeof(struct topo_end));
    }
    return graph;
}

static int graph_copy_labels(struct topo_graph *graph, const struct topo_graph *from)
{
    struct topo_label *label;

    if (!from->label)
        return 0;
    label = malloc(from->label_bytes);
    if (!label)
        return -ENOMEM;
    memcpy(label, from->label, from->label_bytes);
    graph->label = label;
    graph->label_text = (const char *)(label + from->switches + from->nodes);
    graph->label_bytes = from->label_bytes;
    graph->bytes += from->label_bytes;
    return 0;
}

static int graph_unplug(struct topo_graph *graph, const struct topo_at *at)
{
    if (at->sw >= graph->switches || at->port >= graph->ports)
        return -EINVAL;
    struct topo_end *end = &graph->sw[at->sw].end[at->port];

    if (end->kind == TOPO_END_NODE)
        graph->node[end->id].link[end->port].sw = TOPO_NONE;
    else if (end->kind == TOPO_END_SWITCH)
        graph->sw[end->id].end[end->port].kind = TOPO_END_NONE;
    else
        return -EINVAL;
    end->kind = TOPO_END_NONE;
    return 0;
}

int topo_without(struct topo_graph **ret, const struct topo_graph *graph, const struct topo_at *cut,
                 uint32_t count, uint64_t *unreachable)
{
    struct topo_graph *copy = graph_copy(graph);
    struct topo_gap gap;
    const char *why;
    int err = copy ? graph_copy_labels(copy, graph) : -ENOMEM;

    for (uint32_t i = 0; !err && i < count; i++)
        err = graph_unplug(copy, &cut[i]);
    if (!err)
        err = topo_route_graph(copy, &gap, &why);
    if (err) {
        topo_free(copy);
        return err;
    }
    *unreachable = gap.pairs;
    *ret = copy;
    return 0;
}

uint32_t topo_hops(const struct topo_graph *graph, uint32_t src, uint32_t dst)
{
    uint32_t sw = graph->node[src].link[0].sw;

    for (uint32_t hops = 1; sw != TOPO_NONE && hops < 2 * graph->levels; hops++) {
        emu_ports ports = topo_route_ports(&graph->sw[sw].route, dst);

        if (!emu_ports_any(ports))
            break;
        const struct topo_end *end = &graph->sw[sw].end[emu_ports_first(ports)];
        if (end->kind == TOPO_END_NODE)
            return hops;
        sw = end->id;
    }
    return 0;
}

/*
 * Return whether cables connect two nodes. The first link of @a must have a cable. Errors: -ENOMEM.
 */
static int is_connected(const struct topo_graph *graph, uint32_t a, uint32_t b)
{
    bool *seen = calloc(graph->switches, sizeof *seen);
    uint32_t *queue = malloc(graph->switches * sizeof *queue);
    uint32_t count = 0;
    int found = seen && queue ? 0 : -ENOMEM;

    if (found < 0)
        goto out;
    queue[count++] = graph->node[a].link[0].sw;
    seen[queue[0]] = true;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t port = 0; port < graph->ports; port++) {
            const struct topo_end *end = &graph->sw[queue[i]].end[port];

            found |= end->kind == TOPO_END_NODE && end->id == b;
            if (end->kind == TOPO_END_SWITCH && !seen[end->id]) {
                seen[end->id] = true;
                queue[count++] = end->id;
            }
        }

out:
    free(seen);
    free(queue);
    return found;
}

int topo_build(struct topo_graph **ret, struct topo_graph *graph, char *why, size_t why_bytes)
{
    struct topo_gap gap = {0};
    const char *text = "not enough memory";
    char src[TOPO_SHOWN_BYTES], dst[TOPO_SHOWN_BYTES];
    int err = graph ? topo_route_graph(graph, &gap, &text) : -ENOMEM;

    if (!err && !gap.pairs) {
        *ret = graph;
        return 0;
    }
    if (err) {
        snprintf(why, why_bytes, "%s", text);
    } else {
        int connected = is_connected(graph, gap.src, gap.dst);

        err = connected < 0 ? connected : -EHOSTUNREACH;
        topo_show_node(graph, gap.src, src);
        topo_show_node(graph, gap.dst, dst);
        if (connected < 0)
            snprintf(why, why_bytes, "not enough memory");
        else if (connected)
            snprintf(
                why, why_bytes,
                "no route joins %s and %s: routes go up, then down, and with these levels none "
                "does",
                src, dst);
        else
            snprintf(why, why_bytes, "no cables join %s and %s: the network is in pieces", src,
                     dst);
    }
    topo_free(graph);
    return err;
}
