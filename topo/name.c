/* SPDX-License-Identifier: BSD-3-Clause */
/* name.c - show switches, nodes and cables to users, and find them by the names that users type. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/nearest.h"
#include "emu/util/printable.h"
#include "topo/topo.h"

static const char *show(const char *kind, uint32_t number, const char *name,
                        char text[static TOPO_SHOWN_BYTES])
{
    if (name)
        snprintf(text, TOPO_SHOWN_BYTES, "%s %u (%s)", kind, number, name);
    else
        snprintf(text, TOPO_SHOWN_BYTES, "%s %u", kind, number);
    return text;
}

const char *topo_show_switch(const struct topo_graph *graph, uint32_t sw,
                             char text[static TOPO_SHOWN_BYTES])
{
    return show("switch", sw, topo_switch_name(graph, sw), text);
}

const char *topo_show_node(const struct topo_graph *graph, uint32_t node,
                           char text[static TOPO_SHOWN_BYTES])
{
    return show("node", node, topo_node_name(graph, node), text);
}

const char *topo_show_cable(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                            char text[static TOPO_CABLE_BYTES])
{
    const struct topo_end *near = &graph->sw[sw].end[port];
    bool node = near->kind == TOPO_END_NODE;

    *text = '\0';
    if (graph->label)
        snprintf(text, TOPO_CABLE_BYTES, " (%s:%u, %s:%u)", topo_switch_name(graph, sw),
                 topo_switch_port(graph, sw, port),
                 node ? topo_node_name(graph, near->id) : topo_switch_name(graph, near->id),
                 topo_end_port(graph, near));
    return text;
}

/* Find a device by name or identity among @count devices, beginning with @first. */
static uint32_t find_label(const struct topo_graph *graph, uint32_t first, uint32_t count,
                           const char *name, size_t length)
{
    for (uint32_t i = 0; graph->label && i < count; i++) {
        const struct topo_label *label = &graph->label[first + i];
        const uint32_t texts[] = {label->name, label->id};

        for (uint32_t t = 0; t < 2; t++) {
            const char *text = graph->label_text + texts[t];

            if (strlen(text) == length && memcmp(text, name, length) == 0)
                return i;
        }
    }
    return TOPO_NONE;
}

uint32_t topo_find_switch(const struct topo_graph *graph, const char *name, size_t length)
{
    return find_label(graph, 0, graph->switches, name, length);
}

uint32_t topo_find_node(const struct topo_graph *graph, const char *name, size_t length)
{
    return find_label(graph, graph->switches, graph->nodes, name, length);
}

int topo_parse_node(uint32_t *ret, const struct topo_graph *graph, const char *text, char *error,
                    size_t error_bytes)
{
    bool is_number = *text && !text[strspn(text, "0123456789")];
    uint64_t number = is_number ? strtoull(text, NULL, 10) : UINT64_MAX;
    uint32_t node = number < graph->nodes ? (uint32_t)number
                                          : topo_find_node(graph, text, strlen(text));
    struct nearest nearest = nearest_to(text);
    char shown[TOPO_NAME_MAX + 1];

    if (node < graph->nodes) {
        *ret = node;
        return 0;
    }
    for (uint32_t n = 0; graph->label && n < graph->nodes; n++)
        nearest_try(&nearest, topo_node_name(graph, n));
    snprintf(shown, sizeof shown, "%s", text);
    emu_printable(shown);
    snprintf(error, error_bytes, "there is no node %s; %s has nodes 0 to %u%s%s", shown,
             graph->spec, graph->nodes - 1,
             is_number || graph->label ? "" : " and, because it is not from a file, no names",
             nearest_question(&nearest, "").text);
    return -EINVAL;
}
