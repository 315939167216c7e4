/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_write.c - write a network as a topology file that file_scan.c can read.
 *
 * Ports count from 1, as everywhere in InfiniBand. A network from a file keeps its port numbers and
 * the GUIDs of its devices. A generated network gets GUIDs that are derived from the numbers of its
 * switches and nodes, because other programs that read the file may need them. Ports get no GUIDs.
 */
#include <errno.h>
#include <inttypes.h>

#include "topo/file.h"

#define SWITCH_GUID UINT64_C(0x0002000000000000)
#define NODE_GUID   UINT64_C(0x0003000000000000)

/* Return the GUID of switch @i, or of node @i - graph->switches; 0: none. */
static uint64_t guid_of(const struct topo_graph *graph, uint32_t i)
{
    if (graph->label)
        return graph->label[i].guid;
    return i < graph->switches ? SWITCH_GUID + i : NODE_GUID + (i - graph->switches);
}

/* Write the identity of a switch or node, in quotes. */
static void write_name(FILE *to, const struct topo_graph *graph, uint32_t i)
{
    if (graph->label)
        fprintf(to, "\"%s\"", graph->label_text + graph->label[i].id);
    else
        fprintf(to, "\"%c-%016" PRIx64 "\"", i < graph->switches ? 'S' : 'H', guid_of(graph, i));
}

/* Write the comment after a device, or after a cable to it. @rate: of the cable; 0: not given. */
static void write_comment(FILE *to, const struct topo_graph *graph, uint32_t i, uint8_t rate)
{
    const char *title = graph->label ? graph->label_text + graph->label[i].title : "";
    char text[16];

    if (*title)
        fprintf(to, "\t\t# \"%s\"", title);
    else if (i < graph->switches)
        fprintf(to, "\t\t# switch %u", i);
    else
        fprintf(to, "\t\t# node %u", i - graph->switches);
    if (rate)
        fprintf(to, " %s", topo_rate_name(rate, text));
    fputc('\n', to);
}

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
    uint32_t ports = graph->sw[s].ports ? graph->sw[s].ports : graph->ports;
    uint64_t guid = guid_of(graph, s);

    fprintf(to, "\nlevel=%u\n", graph->sw[s].level);
    if (guid)
        fprintf(to, "switchguid=0x%" PRIx64 "(%" PRIx64 ")\n", guid, guid);
    fprintf(to, "Switch\t%u ", ports);
    write_name(to, graph, s);
    write_comment(to, graph, s, 0);
    for (uint32_t port = 0; port < graph->ports; port++) {
        const struct topo_end *end = &graph->sw[s].end[port];
        uint32_t remote = end->kind == TOPO_END_NODE ? graph->switches + end->id : end->id;

        if (end->kind == TOPO_END_NONE)
            continue;
        fprintf(to, "[%u]\t", switch_port(graph, s, port));
        write_name(to, graph, remote);
        fprintf(to, "[%u]",
                end->kind == TOPO_END_SWITCH ? switch_port(graph, end->id, end->port)
                                             : node_port(graph, end->id, end->port));
        write_comment(to, graph, remote, end->rate);
    }
}

static void write_node(FILE *to, const struct topo_graph *graph, uint32_t n)
{
    const struct topo_node *node = &graph->node[n];
    uint64_t guid = guid_of(graph, graph->switches + n);

    fputc('\n', to);
    if (guid)
        fprintf(to, "caguid=0x%" PRIx64 "\n", guid);
    fprintf(to, "Ca\t%u ", node->ports ? node->ports : node->links);
    write_name(to, graph, graph->switches + n);
    write_comment(to, graph, graph->switches + n, 0);
    for (uint32_t i = 0; i < node->links; i++) {
        const struct topo_link *link = &node->link[i];

        if (link->sw == TOPO_NONE)
            continue; /* topo_without() removed the cable */
        fprintf(to, "[%u]\t", node_port(graph, n, i));
        write_name(to, graph, link->sw);
        fprintf(to, "[%u]", switch_port(graph, link->sw, link->port));
        write_comment(to, graph, link->sw, graph->sw[link->sw].end[link->port].rate);
    }
}

int topo_write(const struct topo_graph *graph, FILE *to)
{
    fprintf(to,
            "#\n# Topology file: %s, %u nodes, %u switches\n# Written by fabemu %s; the format "
            "is that of ibnetdiscover, and level=N\n# is the level of the switch that is listed "
            "after it: routes go up, then down.\n#\n",
            graph->spec, graph->nodes, graph->switches, FABEMU_VERSION);
    for (uint32_t s = 0; s < graph->switches; s++)
        write_switch(to, graph, s);
    for (uint32_t n = 0; n < graph->nodes; n++)
        write_node(to, graph, n);
    return fflush(to) || ferror(to) ? -EIO : 0;
}
