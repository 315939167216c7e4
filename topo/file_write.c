/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_write.c - a network as a topology file: what file_scan.c reads.
 *
 * Ports count from 1, as everywhere in InfiniBand. GUIDs are made from the numbers of
 * switches and nodes, in blocks of their own, for other programs that read such files.
 */
#include <errno.h>
#include <inttypes.h>

#include "topo/file.h"

#define SWITCH_GUID UINT64_C(0x0002000000000000)
#define NODE_GUID   UINT64_C(0x0003000000000000)
#define PORT_GUIDS  8 /* apart: a node's own, and one for each of its links */

static uint64_t node_guid(uint32_t node, uint32_t link)
{
    return NODE_GUID + (uint64_t)node * PORT_GUIDS + link;
}

static void write_switch_name(FILE *to, const struct topo_graph *graph, uint32_t s)
{
    if (graph->names)
        fprintf(to, "\"%s\"", graph->name_text + graph->names[s]);
    else
        fprintf(to, "\"S-%016" PRIx64 "\"", SWITCH_GUID + s);
}

static void write_node_name(FILE *to, const struct topo_graph *graph, uint32_t n)
{
    if (graph->names)
        fprintf(to, "\"%s\"", graph->name_text + graph->names[graph->switches + n]);
    else
        fprintf(to, "\"H-%016" PRIx64 "\"", node_guid(n, 0));
}

/* A port as the file calls it. */
static uint32_t switch_port(const struct topo_graph *graph, uint32_t s, uint32_t port)
{
    uint32_t number = graph->sw[s].end[port].number;

    return number ? number : port + 1;
}

static uint32_t node_port(const struct topo_graph *graph, uint32_t n, uint32_t link)
{
    uint32_t number = graph->node[n].link[link].number;

    return number ? number : link + 1;
}

static void write_switch(FILE *to, const struct topo_graph *graph, uint32_t s)
{
    uint32_t most = graph->ports;

    for (uint32_t port = 0; port < graph->ports; port++)
        if (graph->sw[s].end[port].kind != TOPO_END_NONE && switch_port(graph, s, port) > most)
            most = switch_port(graph, s, port);
    fprintf(to, "\nlevel=%u\nswitchguid=0x%" PRIx64 "(%" PRIx64 ")\nSwitch\t%u ",
            graph->sw[s].level, SWITCH_GUID + s, SWITCH_GUID + s, most);
    write_switch_name(to, graph, s);
    fprintf(to, "\t\t# \"switch %u\"\n", s);
    for (uint32_t port = 0; port < graph->ports; port++) {
        const struct topo_end *end = &graph->sw[s].end[port];

        if (end->kind == TOPO_END_NONE)
            continue;
        fprintf(to, "[%u]\t", switch_port(graph, s, port));
        if (end->kind == TOPO_END_SWITCH) {
            write_switch_name(to, graph, end->id);
            fprintf(to, "[%u]\t\t# \"switch %u\"\n", switch_port(graph, end->id, end->port),
                    end->id);
        } else {
            write_node_name(to, graph, end->id);
            fprintf(to, "[%u](%" PRIx64 ")\t\t# \"node %u\"\n",
                    node_port(graph, end->id, end->port), node_guid(end->id, end->port + 1u),
                    end->id);
        }
    }
}

static void write_node(FILE *to, const struct topo_graph *graph, uint32_t n)
{
    const struct topo_node *node = &graph->node[n];
    uint32_t most = node->links;

    for (uint32_t i = 0; i < node->links; i++)
        if (node_port(graph, n, i) > most)
            most = node_port(graph, n, i);
    fprintf(to, "\ncaguid=0x%" PRIx64 "\nCa\t%u ", node_guid(n, 0), most);
    write_node_name(to, graph, n);
    fprintf(to, "\t\t# \"node %u\"\n", n);
    for (uint32_t i = 0; i < node->links; i++) {
        const struct topo_link *link = &node->link[i];

        if (link->sw == TOPO_NONE)
            continue; /* cut */
        fprintf(to, "[%u](%" PRIx64 ")\t", node_port(graph, n, i), node_guid(n, i + 1));
        write_switch_name(to, graph, link->sw);
        fprintf(to, "[%u]\t\t# \"switch %u\"\n", switch_port(graph, link->sw, link->port),
                link->sw);
    }
}

int topo_write(const struct topo_graph *graph, FILE *to)
{
    fprintf(to,
            "#\n# Topology file: %s, %u nodes, %u switches\n# Written by fabemu %s; the format "
            "is that of ibnetdiscover, and level=N\n# says how high the next switch is: routes "
            "go up, then down.\n#\n",
            graph->spec, graph->nodes, graph->switches, FABEMU_VERSION);
    for (uint32_t s = 0; s < graph->switches; s++)
        write_switch(to, graph, s);
    for (uint32_t n = 0; n < graph->nodes; n++)
        write_node(to, graph, n);
    return fflush(to) || ferror(to) ? -EIO : 0;
}
