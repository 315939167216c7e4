/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file_build.c - build the graph that a topology file describes.
 *
 * Each line about a cable gives both ends. A cable may be listed at one of its devices or at both,
 * and a device may be described twice (as ibnetdiscover -g does), but all lines about a port must
 * agree. To compare them, all ends are sorted by device and port.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topo/file.h"

/* Arguments for "%.*s": a device's name. */
#define NAME(file, i) (int)(file)->device[i].length, (file)->device[i].name

static int ends_resolve(struct file *file)
{
    for (uint32_t i = 0; i < file->plugs; i++) {
        struct plug *plug = &file->plug[i];

        plug->remote_device = file_find(file, plug->remote, plug->remote_length);
        if (plug->remote_device == TOPO_NONE)
            return file_fail(file, plug->line,
                             "the cable leads to \"%.*s\", which no Switch or Ca line "
                             "describes",
                             (int)plug->remote_length, plug->remote);
        if (plug->remote_port < 1 || plug->remote_port > file->device[plug->remote_device].ports)
            return file_fail(file, plug->line,
                             "the cable leads to port %u of \"%.*s\", which has ports 1 "
                             "to %u",
                             plug->remote_port, NAME(file, plug->remote_device),
                             file->device[plug->remote_device].ports);
    }
    return 0;
}

static int by_port(const void *left, const void *right)
{
    const struct plug *a = left, *b = right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->port != b->port)
        return a->port < b->port ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

/* Add the opposite end of each cable, and sort all ends by device and port. */
static int ends_mirror(struct file *file)
{
    struct plug *both = realloc(file->plug, 2 * ((size_t)file->plugs + 1) * sizeof *both);

    if (!both)
        return -ENOMEM;
    file->plug = both;
    file->plugs_room = 2 * file->plugs;
    for (uint32_t i = 0; i < file->plugs; i++) {
        const struct plug *plug = &both[i];

        both[file->plugs + i] = (struct plug){.device = plug->remote_device,
                                              .port = plug->remote_port,
                                              .remote_device = plug->device,
                                              .remote_port = plug->port,
                                              .line = plug->line,
                                              .rate = plug->rate,
                                              .unknown_rate = plug->unknown_rate,
                                              .unknown_length = plug->unknown_length};
    }
    file->plugs *= 2;
    qsort(both, file->plugs, sizeof *both, by_port);
    return 0;
}

/* Return the lower of the rates that two lines give for a cable. 0: a line gives none. */
static uint8_t lower_rate(uint8_t a, uint8_t b)
{
    if (!a || !b)
        return a ? a : b;
    return topo_rate_ps(a) >= topo_rate_ps(b) ? a : b;
}

/* Count the cable of @plug if its rate is not known. Only one end of each cable counts. */
static void note_rate(struct topo_parts *parts, const struct plug *plug)
{
    if (!plug->unknown_rate || plug->rate || plug->device > plug->remote_device)
        return;
    if (!parts->rate_unknown++)
        snprintf(parts->rate, sizeof parts->rate, "%.*s", plug->unknown_length, plug->unknown_rate);
}

/* Keep one end per port. Drop cables to devices that are not emulated, or to the device itself. */
static int ends_merge(struct file *file, struct topo_parts *parts)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < file->plugs; i++) {
        const struct plug *plug = &file->plug[i];
        struct plug *last = kept ? &file->plug[kept - 1] : NULL;

        if (last && last->device == plug->device && last->port == plug->port) {
            if (last->remote_device != plug->remote_device ||
                last->remote_port != plug->remote_port)
                return file_fail(
                    file, plug->line,
                    "port %u of \"%.*s\" is cabled to \"%.*s\"[%u], but line %u has it "
                    "cabled to \"%.*s\"[%u]",
                    plug->port, NAME(file, plug->device), NAME(file, plug->remote_device),
                    plug->remote_port, last->line, NAME(file, last->remote_device),
                    last->remote_port);
            last->rate = lower_rate(last->rate, plug->rate);
            if (!last->unknown_rate) {
                last->unknown_rate = plug->unknown_rate;
                last->unknown_length = plug->unknown_length;
            }
            continue;
        }
        file->plug[kept++] = *plug;
    }
    file->plugs = kept;
    kept = 0;
    for (uint32_t i = 0; i < file->plugs; i++) {
        const struct plug *plug = &file->plug[i];

        if (plug->device == plug->remote_device) {
            parts->loops += plug->port <= plug->remote_port;
            continue;
        }
        if (file->device[plug->device].kind != DEVICE_OTHER &&
            file->device[plug->remote_device].kind != DEVICE_OTHER) {
            note_rate(parts, plug);
            file->plug[kept++] = *plug;
        }
    }
    file->plugs = kept;
    return 0;
}

/* The ends of one device: file->plug[from..to). */
struct ends {
    uint32_t from;
    uint32_t to;
};

static struct ends ends_of(const struct file *file, uint32_t device, uint32_t from)
{
    struct ends ends = {from, from};

    while (ends.to < file->plugs && file->plug[ends.to].device == device)
        ends.to++;
    return ends;
}

/* Return whether a switch's ports are renumbered, because a used one is above TOPO_PORTS_MAX. */
static bool is_renumbered(const struct file *file, const struct device *device, struct ends ends)
{
    return device->kind == DEVICE_SWITCH && device->ports > TOPO_PORTS_MAX && ends.to > ends.from &&
           file->plug[ends.to - 1].port > TOPO_PORTS_MAX;
}

static int check_device(const struct file *file, uint32_t d, struct ends ends)
{
    const struct device *device = &file->device[d];
    uint32_t cables = ends.to - ends.from;

    if (device->kind == DEVICE_SWITCH && cables > TOPO_PORTS_WIDE)
        return file_fail(file, device->line, "\"%.*s\" has %u cables; fabemu supports at most %d",
                         NAME(file, d), cables, TOPO_PORTS_WIDE);
    if (device->kind != DEVICE_NODE)
        return 0;
    if (!cables)
        return file_fail(file, device->line, "\"%.*s\" has no cable", NAME(file, d));
    if (cables > TOPO_NODE_LINKS_MAX)
        return file_fail(file, device->line, "\"%.*s\" has %u cables; fabemu supports at most %d",
                         NAME(file, d), cables, TOPO_NODE_LINKS_MAX);
    for (uint32_t i = ends.from; i < ends.to; i++)
        if (file->device[file->plug[i].remote_device].kind != DEVICE_SWITCH)
            return file_fail(file, file->plug[i].line,
                             "the cable joins two adapters: there must be "
                             "a switch between them");
    return 0;
}

static int devices_number(struct file *file, struct topo_size *size)
{
    uint32_t count[3] = {0};
    struct ends ends = {0, 0};

    *size = (struct topo_size){.ports = 1};
    for (uint32_t d = 0; d < file->devices; d++) {
        struct device *device = &file->device[d];
        uint32_t ports = 0;

        ends = ends_of(file, d, ends.to);
        device->number = count[device->kind]++;
        int err = check_device(file, d, ends);
        if (err)
            return err;
        if (device->kind != DEVICE_SWITCH)
            continue;
        if (device->ports <= TOPO_PORTS_MAX)
            ports = device->ports;
        else if (is_renumbered(file, device, ends))
            ports = ends.to - ends.from;
        else if (ends.to > ends.from)
            ports = file->plug[ends.to - 1].port;
        size->ports = ports > size->ports ? ports : size->ports;
        if (file->levels && device->level == TOPO_NONE)
            return file_fail(file, device->line,
                             "\"%.*s\" has no level=N line before it; other "
                             "switches have one",
                             NAME(file, d));
    }
    if (topo_ports_fit(size->ports, file->error, file->error_bytes))
        return -EOVERFLOW;
    size->switches = count[DEVICE_SWITCH];
    size->nodes = count[DEVICE_NODE];
    if (!size->switches)
        return file_fail(file, 0,
                         "there is no Switch line: this is not the output of ibnetdiscover");
    if (size->nodes < 2)
        return file_fail(file, 0, "the file has %u Ca line%s; a network has at least 2 nodes",
                         size->nodes, size->nodes == 1 ? "" : "s");
    return 0;
}

/* Return the number that the graph has for the port of end @i. @ends: all ends of its device. */
static uint32_t port_index(const struct file *file, struct ends ends, uint32_t i)
{
    const struct plug *plug = &file->plug[i];

    if (is_renumbered(file, &file->device[plug->device], ends))
        return i - ends.from;
    return plug->port - 1;
}

/* Return the index of the other end of the cable of end @i. */
static uint32_t remote_end(const struct file *file, uint32_t i)
{
    const struct plug key = {.device = file->plug[i].remote_device,
                             .port = file->plug[i].remote_port,
                             .line = UINT32_MAX};
    uint32_t low = 0, high = file->plugs;

    while (high - low > 1) { /* find the last end that is not above the key */
        uint32_t mid = low + (high - low) / 2;

        if (by_port(&file->plug[mid], &key) > 0)
            high = mid;
        else
            low = mid;
    }
    return low;
}

static void plug_switch(struct topo_graph *graph, const struct file *file, struct ends ends,
                        const uint32_t *port)
{
    for (uint32_t i = ends.from; i < ends.to; i++) {
        const struct plug *plug = &file->plug[i];
        const struct device *remote = &file->device[plug->remote_device];
        uint32_t sw = file->device[plug->device].number;

        graph->sw[sw].end[port[i]].number = (uint8_t)plug->port;
        graph->sw[sw].end[port[i]].rate = plug->rate;
        if (remote->kind == DEVICE_SWITCH && plug->device < plug->remote_device)
            topo_plug_cable(graph, sw, port[i], remote->number, port[remote_end(file, i)]);
    }
}

static void plug_node(struct topo_graph *graph, const struct file *file, struct ends ends,
                      const uint32_t *port)
{
    for (uint32_t i = ends.from; i < ends.to; i++) {
        const struct plug *plug = &file->plug[i];
        uint32_t n = file->device[plug->device].number;
        uint32_t link = graph->node[n].links;

        topo_plug_node(graph, n, file->device[plug->remote_device].number,
                       port[remote_end(file, i)]);
        graph->node[n].link[link].number = (uint8_t)plug->port;
    }
}

static int graph_plug(struct topo_graph *graph, const struct file *file)
{
    uint32_t *port =
        malloc(((size_t)file->plugs + 1) * sizeof *port); /* by end: the graph's port */
    struct ends ends = {0, 0};

    if (!port)
        return -ENOMEM;
    for (uint32_t d = 0; d < file->devices; d++) {
        ends = ends_of(file, d, ends.to);
        for (uint32_t i = ends.from; i < ends.to; i++)
            port[i] = port_index(file, ends, i);
    }
    ends = (struct ends){0, 0};
    for (uint32_t d = 0; d < file->devices; d++) {
        const struct device *device = &file->device[d];

        ends = ends_of(file, d, ends.to);
        if (device->kind == DEVICE_SWITCH) {
            graph->sw[device->number].level = device->level;
            graph->sw[device->number].ports = device->ports;
            plug_switch(graph, file, ends, port);
        } else if (device->kind == DEVICE_NODE) {
            graph->node[device->number].ports = (uint8_t)device->ports;
            plug_node(graph, file, ends, port);
        }
    }
    free(port);
    return 0;
}

int file_graph(struct topo_graph **ret, struct file *file)
{
    struct topo_parts parts = {.left_out = file->count[DEVICE_OTHER]};
    struct topo_size size;
    int err = ends_resolve(file);

    if (!err)
        err = ends_mirror(file);
    if (!err)
        err = ends_merge(file, &parts);
    if (!err)
        err = devices_number(file, &size);
    if (err)
        return err;
    struct topo_graph *graph = topo_graph_new(&size, NULL);

    if (!graph)
        return -ENOMEM;
    graph->parts = parts;
    err = graph_plug(graph, file);
    if (!err)
        err = file_label(graph, file);
    if (err)
        topo_free(graph);
    else
        *ret = graph;
    return err;
}
