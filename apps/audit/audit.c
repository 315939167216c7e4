/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.c - run an audit, check devices while the workers are held, describe where errors are. */
#include "apps/audit/audit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/dev/dev.h"
#include "emu/util/now.h"

static void name_far(const struct fabric_place *place, char *to, size_t bytes)
{
    const struct topo_graph *graph = place->fabric->config.graph;
    const struct topo_end *end =
        place->port < graph->ports ? &graph->sw[place->number].end[place->port] : NULL;

    char shown[TOPO_SHOWN_BYTES];

    to[0] = '\0';
    if (end && end->kind == TOPO_END_SWITCH)
        snprintf(to, bytes, " (cable to %s port %u)", topo_show_switch(graph, end->id, shown),
                 topo_end_port(graph, end));
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
                 topo_switch_port(graph, place->number, place->port), far);
        return;
    case FABRIC_AT_NODE:
        if (place->port == EMU_NO_PORT) {
            snprintf(to, bytes, "%s", topo_show_node(graph, place->number, shown));
            return;
        }
        link = &graph->node[place->number].link[place->port];
        snprintf(to, bytes, "%s link %u (cable to %s port %u)",
                 topo_show_node(graph, place->number, shown),
                 topo_node_port(graph, place->number, place->port),
                 topo_show_switch(graph, link->sw, other),
                 topo_switch_port(graph, link->sw, link->port));
        return;
    }
}

void fabric_found(struct fabric_audit *audit, const struct fabric_place *place, const char *format,
                  ...)
{
    char where[64 + 2 * TOPO_SHOWN_BYTES], group[32] = "", what[FABRIC_FINDING_BYTES];
    va_list args;

    audit->found++;
    if (audit->lines == FABRIC_FINDINGS)
        return;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    name_place(place, where, sizeof where);
    if (place->group)
        snprintf(group, sizeof group, ", group %u", place->group->id);
    snprintf(audit->line[audit->lines++], FABRIC_FINDING_BYTES, "%s%s: %.*s", where, group,
             (int)(FABRIC_FINDING_BYTES - sizeof where - sizeof group), what);
}

void fabric_place_engine(struct fabric_place *place, uint32_t number)
{
    uint32_t nodes = place->fabric->config.graph->nodes;

    place->at = number < nodes ? FABRIC_AT_NODE : FABRIC_AT_UNIT;
    place->number = number < nodes ? number : number - nodes;
    place->port = EMU_NO_PORT;
}

int fabric_audit_host(struct fabric *fabric, uint64_t now_ps, bool routes, struct fabric_audit *ret)
{
    uint64_t begin_ns = emu_now_ns();
    int err = 0;

    memset(ret, 0, sizeof *ret);
    ret->switches = fabric_own_switches(&fabric->config);
    ret->cables = fabric_own_cables(fabric, &ret->crossing);
    fabric_pause(fabric);
    fabric_check_devices(fabric, now_ps, ret);
    fabric_resume(fabric);
    if (!fabric_is_virtual(fabric))
        ret->paused_ns = emu_now_ns() - begin_ns;
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
    int err = fabric_audit_host(fabric, now_ps, routes, ret);

    if (!err && fabric->mirror)
        err = fabric->mirror->audit(fabric->mirror->ctx, routes, ret);
    ret->elapsed_ns = emu_now_ns() - begin_ns;
    return err;
}

/* --- references to pool buffers: the pool's count and those of the holders ----------- */

static uint64_t group_held(const struct fabric *fabric, const struct fabric_group *group)
{
    uint64_t held = 0;

    for (uint32_t i = 0; i < group->tree.count; i++)
        if (group->part[i])
            held += switch_group_bufs(group->part[i], fabric->config.graph->ports);
    for (uint32_t i = 0; group->engines && i < group->engines->count; i++)
        held += group->engines->at[i].group ? engine_group_held(group->engines->at[i].group) : 0;
    return held;
}

static uint64_t node_held(const struct fabric *fabric, uint32_t n)
{
    uint64_t held = 0;

    if (fabric->hostif[n])
        held += emu_hostif_bufs(fabric->hostif[n]);
    if (fabric->local[n])
        held += emu_link_bufs(fabric->local[n]);
    return held;
}

static uint64_t fabric_held(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint64_t held = 0;

    for (uint32_t s = 0; s < graph->switches; s++)
        held += fabric->sw[s] ? switch_bufs(fabric->sw[s]) : 0;
    for (uint32_t i = 0; i < fabric->engines.count; i++)
        held += fabric->engines.at[i] ? engine_held(fabric->engines.at[i]) : 0;
    for (uint32_t n = 0; n < graph->nodes; n++)
        held += node_held(fabric, n);
    for (uint32_t i = 0; i < 2 * fabric->links.count; i++)
        held += fabric->links.faults[i] ? emu_faults_bufs(fabric->links.faults[i]) : 0;
    for (uint32_t g = 0; g < fabric->slots; g++)
        held += fabric->group[g] ? group_held(fabric, fabric->group[g]) : 0;
    for (const struct fabric_group *group = fabric->retired; group; group = group->next)
        held += group_held(fabric, group);
    if (fabric->has_host_links && fabric->config.hosts->ops->held)
        held += fabric->config.hosts->ops->held(fabric->config.hosts->ctx);
    return held;
}

uint64_t fabric_bufs_out(const struct fabric *fabric)
{
    uint32_t cached = fabric->cache.count;

    for (uint32_t w = 0; w < fabric->workers; w++)
        cached += fabric->worker[w]->cache.count;
    return emu_pool_out(fabric->pool, cached);
}

int fabric_check_bufs(struct fabric *fabric, char *error, size_t error_bytes)
{
    uint64_t out = fabric_bufs_out(fabric), held = fabric_held(fabric);

    if (out == held)
        return 0;
    snprintf(error, error_bytes, "%llu references to buffers exist, but holders have %llu",
             (unsigned long long)out, (unsigned long long)held);
    return -EPROTO;
}

/* --- segments, credits, channels, states -------------------------------------------- */

/* Context of check_report(): the audit, and the device whose errors it reports. */
struct check_at {
    struct fabric_audit *audit;
    struct fabric_place place;
};

static void check_report(void *ctx, uint32_t port, const char *wrong)
{
    struct check_at *at = ctx;

    at->place.port = port;
    fabric_found(at->audit, &at->place, "%s", wrong);
}

static void check_switch(struct fabric *fabric, uint32_t s, uint64_t now_ps,
                         struct fabric_audit *audit)
{
    struct check_at at = {audit, {.fabric = fabric, .at = FABRIC_AT_SWITCH, .number = s}};
    const struct emu_reporter reporter = {check_report, &at};
    struct engine *unit = fabric_unit(fabric, s);

    switch_audit(fabric->sw[s], now_ps, &reporter);
    if (!unit)
        return;
    at.place.at = FABRIC_AT_UNIT;
    engine_audit(unit, &reporter);
    emu_report_error(&reporter, EMU_NO_PORT,
                     switch_check_cable(fabric->sw[s], fabric->config.graph->ports,
                                        engine_vcs(unit, 0), NULL));
    emu_report_error(&reporter, EMU_NO_PORT,
                     switch_check_out(fabric->sw[s], fabric->config.graph->ports,
                                      engine_rx(unit, 0), NULL));
}

/* Node @n has a link engine. Check both directions of the cable of its link @i. */
static void check_link(const struct fabric *fabric, uint32_t n, uint32_t i,
                       const struct emu_reporter *reporter)
{
    const struct topo_link *link = &fabric->config.graph->node[n].link[i];
    struct engine *engine = fabric_engine(fabric, n);
    struct switch_dev *sw;

    if (link->sw == TOPO_NONE)
        return;
    if (!fabric->sw[link->sw]) { /* the switch is on another host */
        emu_report_error(reporter, i, emu_link_check_segments(engine_rx(engine, i)));
        return;
    }
    sw = fabric->sw[link->sw];
    emu_report_error(reporter, i, switch_check_cable(sw, link->port, engine_vcs(engine, i), NULL));
    emu_report_error(reporter, i,
                     switch_check_out(sw, link->port, engine_rx(engine, i),
                                      fabric_faults_of(fabric, fabric_cable_of(fabric, n, i),
                                                       true)));
}

static void check_node(struct fabric *fabric, uint32_t n, struct fabric_audit *audit)
{
    struct check_at at = {audit, {.fabric = fabric, .at = FABRIC_AT_NODE, .number = n}};
    const struct emu_reporter reporter = {check_report, &at};
    const struct fabric_host host = fabric_host(fabric, n);

    if (fabric->local[n])
        emu_report_error(&reporter, EMU_NO_PORT, emu_link_check(fabric->local[n], 0, host.credits));
    if (!fabric_engine(fabric, n))
        return;
    engine_audit(fabric_engine(fabric, n), &reporter);
    emu_report_error(&reporter, EMU_NO_PORT,
                     fabric->local[n] ? emu_link_check(host.rx, 0, host.credits)
                                      : emu_hostif_check(host.rx, 0, host.credits));
    for (uint32_t i = 0; i < fabric->config.graph->node[n].links; i++)
        check_link(fabric, n, i, &reporter);
}

static void check_group(struct fabric *fabric, const struct fabric_group *group,
                        struct fabric_audit *audit)
{
    struct check_at at = {audit, {.fabric = fabric, .group = group}};
    const struct emu_reporter reporter = {check_report, &at};

    for (uint32_t i = 0; i < group->tree.count; i++) {
        at.place.at = FABRIC_AT_SWITCH;
        at.place.number = group->tree.switches[i].sw;
        if (group->part[i])
            emu_report_error(&reporter, EMU_NO_PORT, switch_group_check(group->part[i]));
    }
    for (uint32_t i = 0; group->engines && i < group->engines->count; i++) {
        if (!group->engines->at[i].engine)
            continue;
        fabric_place_engine(&at.place, group->engines->at[i].number);
        emu_report_error(&reporter, EMU_NO_PORT, engine_group_check(group->engines->at[i].group));
    }
}

void fabric_check_devices(struct fabric *fabric, uint64_t now_ps, struct fabric_audit *audit)
{
    const struct topo_graph *graph = fabric->config.graph;
    char error[FABRIC_FINDING_BYTES];

    for (uint32_t s = 0; s < graph->switches; s++)
        if (fabric->sw[s])
            check_switch(fabric, s, now_ps, audit);
    for (uint32_t n = 0; n < graph->nodes; n++)
        if (fabric_node_is_here(fabric, n))
            check_node(fabric, n, audit);
    for (uint32_t g = 0; g < fabric->slots; g++)
        if (fabric->group[g])
            check_group(fabric, fabric->group[g], audit);
    if (fabric_check_bufs(fabric, error, sizeof error))
        fabric_found(audit, &(struct fabric_place){.fabric = fabric}, "%s", error);
    audit->buffers = fabric_bufs_out(fabric);
}

int fabric_check(struct fabric *fabric, uint64_t now_ps, char *error, size_t error_bytes)
{
    struct fabric_audit audit = {0};

    fabric_check_devices(fabric, now_ps, &audit);
    if (!audit.found)
        return 0;
    snprintf(error, error_bytes, "at %llu ps, %s", (unsigned long long)now_ps, audit.line[0]);
    return -EPROTO;
}
