/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * taps.c - adds taps to the link ends of the directions that a capture selects.
 *
 * A *tap* records the traffic of a device at one end of a link (emu/link/tap.h). A capture has one
 * *interface* for each direction of a cable. The device that sends in a direction records
 * everything that it puts on the wire: packets, and the credits and replies for packets of the
 * opposite direction. Therefore only one worker writes records for an interface. A process records
 * nothing: the device that receives the segments of a process records them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "apps/fabric/taps.h"
#include "apps/fabric/internal.h"
#include "emu/link/tap_area.h"

/* number of slots of all rings together, unless a ring would then have fewer than TAPS_LEAST */
#define TAPS_RECORDS   65536u
#define TAPS_LEAST     1024u /* minimum number of slots of one ring */
#define TAPS_ENDS      16u   /* initial capacity of a worker's list of ends; a power of two */
#define DIRECTION_ENDS 8u    /* upper limit of the link ends of a cable */

static_assert(EMU_TAP_NAME_BYTES == 48, "fabric_direction_name() promises 48 bytes");

struct fabric_taps {
    struct emu_tap_area *area;
    /*
     * size of the area. This is a copy, because the reader of the area can change the size in the
     * area
     */
    size_t bytes;
    struct emu_taps **of; /* by worker: its taps; NULL if they are not allocated yet */
};

/*
 * The link ends on this host that record one direction of a cable. These ends send in the
 * direction. If a process sends instead, the end that receives from the process records.
 */
struct direction_ends {
    struct emu_tx *tx;      /* sends the segments; NULL: a process or another host sends them */
    struct emu_rx *rx;      /* returns credits in this direction; NULL: not on this host */
    struct emu_rx *answers; /* sends replies in this direction; NULL: not on this host */
    struct emu_rx *hostif;  /* receives the segments of a process; NULL: no process sends */
};

static struct direction_ends ends_of_switch(const struct fabric *fabric, const struct topo_at *at)
{
    struct switch_cable_ends ends = switch_cable_ends(fabric->sw[at->sw], at->port);

    return (struct direction_ends){.tx = ends.tx, .rx = ends.rx, .answers = ends.answers};
}

/*
 * Find the end that sends to port @at of a switch. If a process sends to this port, find the
 * receiving end of the port itself, because a process records nothing.
 */
static struct direction_ends ends_towards(const struct fabric *fabric, const struct topo_at *at)
{
    struct emu_rx *rx = fabric->sw[at->sw] ? switch_rx(fabric->sw[at->sw], at->port) : NULL;
    struct direction_ends ends = {.tx = NULL};

    if (rx && rx->kind == EMU_LINK_HOSTIF)
        ends.hostif = rx;
    else if (rx && rx->kind == EMU_LINK_LOCAL)
        ends.tx = rx->tx;
    return ends;
}

static struct direction_ends ends_of_node(const struct fabric *fabric,
                                          const struct fabric_cable *cable)
{
    struct engine *engine = fabric_engine(fabric, cable->node);
    struct direction_ends ends;

    if (engine)
        return (struct direction_ends){.tx = engine_tx(engine, cable->link),
                                       .rx = engine_rx(engine, cable->link)};
    ends = ends_towards(fabric, &cable->at);
    ends.rx = fabric->local[cable->node];
    return ends;
}

/*
 * Find the ends of a direction. There are none if the sending device is on another host; that host
 * then captures the direction.
 */
static struct direction_ends ends_of_direction(const struct fabric *fabric, uint32_t i, bool out)
{
    const struct fabric_cable *cable = fabric_cable(fabric, i);
    const struct topo_at *at = out ? &cable->at : &cable->peer;

    if (out || cable->kind == TOPO_END_SWITCH)
        return fabric->sw[at->sw] ? ends_of_switch(fabric, at)
                                  : (struct direction_ends){.tx = NULL};
    return fabric_has_node(&fabric->config, cable->node) ? ends_of_node(fabric, cable)
                                                         : (struct direction_ends){.tx = NULL};
}

void fabric_direction_name(const struct fabric *fabric, uint32_t i, bool out, char *text)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct topo_at *at = &fabric_cable(fabric, i)->at;
    const struct topo_end *end = &graph->sw[at->sw].end[at->port];
    char near[24], far[24];

    snprintf(near, sizeof near, "%u:%u", at->sw, topo_switch_port(graph, at->sw, at->port));
    snprintf(far, sizeof far, "%s%u:%u", end->kind == TOPO_END_NODE ? "n" : "", end->id,
             topo_end_port(graph, end));
    snprintf(text, EMU_TAP_NAME_BYTES, "%s>%s", out ? near : far, out ? far : near);
}

static_assert(EMU_TAP_ABOUT_BYTES >= 2 * TOPO_NAME_MAX + sizeof ">, down", "the longest text");

/*
 * Write a description of a direction: the names of its two ends, if the network's file has names;
 * then "up" if it leads away from the nodes, or "down" if it leads towards them. Examples:
 * "node01>leaf1, up" and "up".
 */
static void direction_describe(const struct fabric *fabric, uint32_t i, bool out,
                               char text[static EMU_TAP_ABOUT_BYTES])
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct fabric_cable *cable = fabric_cable(fabric, i);
    const char *near = topo_switch_name(graph, cable->at.sw);
    const char *far = cable->kind == TOPO_END_NODE ? topo_node_name(graph, cable->node)
                                                   : topo_switch_name(graph, cable->peer.sw);

    bool rises = cable->kind == TOPO_END_SWITCH &&
                 graph->sw[cable->peer.sw].level > graph->sw[cable->at.sw].level;
    const char *direction = rises == out ? "up" : "down";

    if (near && far)
        snprintf(text, EMU_TAP_ABOUT_BYTES, "%s>%s, %s", out ? near : far, out ? far : near,
                 direction);
    else
        snprintf(text, EMU_TAP_ABOUT_BYTES, "%s", direction);
}

/*
 * Find the ends of a direction. Returns whether the capture selects the direction and it has ends
 * on this host.
 */
static bool direction_find_ends(const struct fabric *fabric, const uint8_t *directions_of,
                                uint32_t i, bool out, struct direction_ends *ends)
{
    if (!(directions_of[i] & (out ? FABRIC_CAPTURE_OUT : FABRIC_CAPTURE_IN)))
        return false;
    *ends = ends_of_direction(fabric, i, out);
    return ends->tx || ends->rx || ends->hostif;
}

static uint32_t directions_count(const struct fabric *fabric, const uint8_t *directions_of)
{
    struct direction_ends ends;
    uint32_t count = 0;

    for (uint32_t i = 0; i < 2 * fabric_cable_count(fabric); i++)
        count += direction_find_ends(fabric, directions_of, i / 2, !(i % 2), &ends);
    return count;
}

/*
 * Return the tap of @end on its worker's list. Append it, unless the cable's opposite direction has
 * already done so. NULL: out of memory.
 */
static struct emu_tap_end *tap_end_get(struct fabric_taps *all, const struct emu_dev *dev,
                                       const void *end)
{
    struct emu_taps **taps = &all->of[dev->worker->index];
    uint32_t ends = (*taps)->ends;

    for (uint32_t i = ends; i && i + DIRECTION_ENDS > ends; i--)
        if ((*taps)->end[i - 1].end == end)
            return &(*taps)->end[i - 1];
    if (ends >= TAPS_ENDS && !(ends & (ends - 1))) { /* the list is full: double it */
        struct emu_taps *more = realloc(*taps, sizeof *more + 2 * ends * sizeof more->end[0]);

        if (!more)
            return NULL;
        *taps = more;
    }
    (*taps)->ends++;
    (*taps)->end[ends] =
        (struct emu_tap_end){.end = end, .sends = EMU_TAP_NOWHERE, .takes = EMU_TAP_NOWHERE};
    return &(*taps)->end[ends];
}

/*
 * Let @rx record the entries that arrive if @takes is true, otherwise the entries that it sends. If
 * @rx is NULL, do nothing. Returns false if there is no memory.
 */
static bool tap_rx(struct fabric_taps *all, const struct emu_rx *rx, uint32_t iface, bool takes)
{
    struct emu_tap_end *end = rx ? tap_end_get(all, rx->owner, rx) : NULL;

    if (end)
        *(takes ? &end->takes : &end->sends) = iface;
    return !rx || end;
}

/*
 * Add taps at all ends of a direction. @packets: the fabric has virtual channels. Returns false if
 * there is no memory.
 */
static bool tap_direction(struct fabric_taps *all, const struct direction_ends *ends,
                          uint32_t iface, bool packets)
{
    struct emu_tap_end *end = ends->tx ? tap_end_get(all, ends->tx->owner, ends->tx) : NULL;

    if (end) {
        end->sends = iface;
        end->packets = packets;
    }
    return (end || !ends->tx) && tap_rx(all, ends->rx, iface, false) &&
           tap_rx(all, ends->answers, iface, false) && tap_rx(all, ends->hostif, iface, true);
}

static void taps_free(const struct fabric *fabric, struct fabric_taps *all)
{
    for (uint32_t w = 0; all->of && w < fabric->workers; w++)
        free(all->of[w]);
    free(all->of);
    emu_tap_area_close(all->area, all->bytes);
    free(all);
}

static struct emu_taps *taps_of_worker(const struct fabric *fabric, const struct fabric_taps *all,
                                       const struct emu_tap_filter *filter, uint32_t w)
{
    struct emu_taps *taps = calloc(1, sizeof *taps + TAPS_ENDS * sizeof taps->end[0]);

    if (!taps)
        return NULL;
    taps->filter = *filter;
    taps->clock = fabric->config.clock;
    taps->credit_ps = fabric->config.profile.credit_ps;
    taps->iface = emu_tap_iface(all->area, 0);
    taps->ring = emu_tap_ring(all->area, all->area, w);
    taps->slots = all->area->slots;
    return taps;
}

static uint32_t slots_per_ring(uint32_t workers)
{
    uint32_t slots = TAPS_RECORDS;

    while (slots > TAPS_LEAST && slots * (uint64_t)workers > TAPS_RECORDS)
        slots /= 2;
    return slots;
}

/* Name the interfaces, and add the ends of all selected directions to their workers' taps. */
static int taps_fill(const struct fabric *fabric, struct fabric_taps *all,
                     const uint8_t *directions_of)
{
    bool packets = fabric_has_engines(&fabric->config);
    struct direction_ends ends;
    uint32_t iface = 0;

    for (uint32_t i = 0; i < 2 * fabric_cable_count(fabric); i++) {
        bool out = !(i % 2);

        if (!direction_find_ends(fabric, directions_of, i / 2, out, &ends))
            continue;
        fabric_direction_name(fabric, i / 2, out, emu_tap_iface(all->area, iface)->name);
        direction_describe(fabric, i / 2, out, emu_tap_iface(all->area, iface)->about);
        if (!tap_direction(all, &ends, iface++, packets))
            return -ENOMEM;
    }
    for (uint32_t w = 0; w < fabric->workers; w++)
        emu_taps_sort(all->of[w]);
    return 0;
}

/*
 * Create the taps; no device uses them yet. The caller sets @memfd to -1 before the call. If it is
 * no longer -1 afterwards, the caller closes it, even after an error. Errors: -ENODEV, no selected
 * direction has an end here.
 */
static int taps_make(const struct fabric *fabric, struct fabric_taps *all,
                     const struct fabric_capture *capture, int *memfd)
{
    const struct emu_tap_area plan = {.rings = fabric->workers,
                                      .ifaces = directions_count(fabric, capture->directions_of),
                                      .slots = slots_per_ring(fabric->workers),
                                      .clock = fabric->config.clock,
                                      .unit_ps = fabric->config.local_nodes ? 1 : 1000,
                                      .snap_bytes = capture->filter.snap_bytes};
    int err = plan.ifaces ? emu_tap_area_create(&all->area, &plan, memfd) : -ENODEV;

    if (err)
        return err;
    all->bytes = all->area->bytes;
    all->of = calloc(fabric->workers, sizeof *all->of);
    if (!all->of)
        return -ENOMEM;
    for (uint32_t w = 0; w < fabric->workers; w++) {
        all->of[w] = taps_of_worker(fabric, all, &capture->filter, w);
        if (!all->of[w])
            return -ENOMEM;
    }
    return taps_fill(fabric, all, capture->directions_of);
}

static void direction_set_tapped(const struct direction_ends *ends, bool tapped)
{
    struct emu_rx *const rx[] = {ends->rx, ends->answers, ends->hostif};

    if (ends->tx)
        ends->tx->tapped = tapped;
    for (size_t i = 0; i < sizeof rx / sizeof rx[0]; i++)
        if (rx[i])
            rx[i]->tapped = tapped;
}

/*
 * Install the taps @all in the workers, and enable them in the directions @directions_of. If @all
 * is NULL, remove all taps from the workers. If @directions_of is NULL, change all directions.
 */
static void taps_publish(struct fabric *fabric, struct fabric_taps *all,
                         const uint8_t *directions_of)
{
    if (!fabric->stopped)
        fabric_pause(fabric);
    for (uint32_t w = 0; w < fabric->workers; w++)
        fabric->worker[w]->taps = all ? all->of[w] : NULL;
    for (uint32_t i = 0; i < 2 * fabric_cable_count(fabric); i++) {
        struct direction_ends ends = ends_of_direction(fabric, i / 2, !(i % 2));

        if (!directions_of ||
            directions_of[i / 2] & (i % 2 ? FABRIC_CAPTURE_IN : FABRIC_CAPTURE_OUT))
            direction_set_tapped(&ends, all);
    }
    if (!fabric->stopped)
        fabric_resume(fabric);
}

int fabric_capture_start(struct fabric *fabric, const struct fabric_capture *capture, int *memfd)
{
    struct fabric_taps *all;
    int fd = -1;
    int err;

    if (fabric->taps)
        return -EBUSY;
    all = calloc(1, sizeof *all);
    if (!all)
        return -ENOMEM;
    err = taps_make(fabric, all, capture, &fd);
    if (err) {
        taps_free(fabric, all);
        if (fd >= 0)
            close(fd);
        return err;
    }
    fabric->taps = all;
    taps_publish(fabric, all, capture->directions_of);
    *memfd = fd;
    return 0;
}

void fabric_capture_stop(struct fabric *fabric)
{
    struct fabric_taps *all = fabric->taps;

    if (!all)
        return;
    fabric->taps = NULL;
    taps_publish(fabric, NULL, NULL);
    taps_free(fabric, all);
}
