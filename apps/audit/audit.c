/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * audit.c - the audit's parts one after the other, and how it names a place.
 */
#include "apps/audit/audit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/now.h"
#include "emu/worker/found.h"

/* The far end of a switch's port. */
static void name_far(const struct fabric_place *place, char *to, size_t bytes)
{
    const struct topo_graph *graph = place->fabric->config.graph;
    const struct topo_end *end =
        place->port < graph->ports ? &graph->sw[place->number].end[place->port] : NULL;

    char shown[TOPO_SHOWN_BYTES];

    to[0] = '\0';
    if (end && end->kind == TOPO_END_SWITCH)
        snprintf(to, bytes, " (cable to %s port %u)", topo_show_switch(graph, end->id, shown),
                 end->port);
    else if (end && end->kind == TOPO_END_NODE)
        snprintf(to, bytes, " (cable to %s)", topo_show_node(graph, end->id, shown));
}

static void name_place(const struct fabric_place *place, char *to, size_t bytes)
{
    const struct topo_graph *graph = place->fabric->config.graph;
    const struct topo_link *link;
    char far[32 + TOPO_SHOWN_BYTES] = "", shown[TOPO_SHOWN_BYTES], other[TOPO_SHOWN_BYTES];

    switch (place->at) {
    case FABRIC_AT_FABRIC:
        snprintf(to, bytes, "fabric");
        return;
    case FABRIC_AT_UNIT:
        snprintf(to, bytes, "combine unit of %s", topo_show_switch(graph, place->number, shown));
        return;
    case FABRIC_AT_SWITCH:
        if (place->port == EMU_NO_PORT) {
            snprintf(to, bytes, "%s", topo_show_switch(graph, place->number, shown));
            return;
        }
        name_far(place, far, sizeof far);
        snprintf(to, bytes, "%s port %u%s", topo_show_switch(graph, place->number, shown),
                 place->port, far);
        return;
    case FABRIC_AT_NODE:
        if (place->port == EMU_NO_PORT) {
            snprintf(to, bytes, "%s", topo_show_node(graph, place->number, shown));
            return;
        }
        link = &graph->node[place->number].link[place->port];
        snprintf(to, bytes, "%s link %u (cable to %s port %u)",
                 topo_show_node(graph, place->number, shown), place->port,
                 topo_show_switch(graph, link->sw, other), link->port);
        return;
    }
}

void fabric_found(struct fabric_audit *audit, const struct fabric_place *place, const char *format,
                  ...)
{
    char where[64 + 2 * TOPO_SHOWN_BYTES], group[32] = "", what[FABRIC_FINDING_BYTES];
    va_list args;

    if (audit->found++ >= FABRIC_FINDINGS)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    name_place(place, where, sizeof where);
    if (place->group)
        snprintf(group, sizeof group, ", group %u", place->group->id);
    snprintf(audit->line[audit->found - 1], FABRIC_FINDING_BYTES, "%s%s: %.*s", where, group,
             (int)(FABRIC_FINDING_BYTES - sizeof where - sizeof group), what);
}

void fabric_place_engine(struct fabric_place *place, uint32_t number)
{
    uint32_t nodes = place->fabric->config.graph->nodes;

    place->at = number < nodes ? FABRIC_AT_NODE : FABRIC_AT_UNIT;
    place->number = number < nodes ? number : number - nodes;
    place->port = EMU_NO_PORT;
}

int fabric_audit_part(struct fabric *fabric, uint64_t now_ps, bool routes, struct fabric_audit *ret)
{
    uint64_t begin_ns = emu_now_ns();
    int err = 0;

    memset(ret, 0, sizeof *ret);
    ret->switches = fabric_own_switches(&fabric->config);
    ret->cables = fabric_own_cables(fabric, &ret->crossing);
    fabric_hold(fabric);
    fabric_check_devices(fabric, now_ps, ret);
    fabric_go(fabric);
    if (!fabric_is_virtual(fabric))
        ret->held_ns = emu_now_ns() - begin_ns;
    if (routes)
        err = fabric_audit_routes(fabric, ret);
    if (!err)
        err = fabric_audit_groups(fabric, ret);
    ret->elapsed_ns = emu_now_ns() - begin_ns;
    return err;
}

int fabric_audit(struct fabric *fabric, uint64_t now_ps, bool routes, struct fabric_audit *ret)
{
    uint64_t begin_ns = emu_now_ns();
    int err = fabric_audit_part(fabric, now_ps, routes, ret);

    if (!err && fabric->mirror)
        err = fabric->mirror->audit(fabric->mirror->ctx, routes, ret);
    ret->elapsed_ns = emu_now_ns() - begin_ns;
    return err;
}
