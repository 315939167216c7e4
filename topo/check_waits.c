/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_waits.c - list which channels may wait for each other, and check that these waits form no
 * cycle. A cycle would be a possible deadlock.
 *
 * A *channel* is one direction of a cable between two switches, named by the receiving switch and
 * its port. Suppose that a segment has arrived on channel A and must leave on channel B. Until it
 * gets a buffer of B's receiver, it occupies a buffer of A's receiver. So A waits for B. Cables of
 * nodes are in no cycle, because an adapter accepts every segment and forwards none.
 *
 * There are two kinds of waits:
 * - Unicasts wait on all paths from every switch with nodes to each destination, for each of the
 * candidate ports that the switches may choose.
 * - Multicasts, and results of reductions on their way down, follow collective trees. Every tree of
 * topo_tree_build() climbs from its members to its root and descends from there. So a segment that
 * came from a lower switch may leave through any other port, and a segment that came from a higher
 * switch only through a port to a lower switch.
 *
 * Contributions add no waits. Each ends at the next combine unit, where a state (the storage of one
 * operation) was reserved when the group was made. A result that cannot leave yet waits in that
 * state, not in a buffer of a channel.
 *
 * If consecutive nodes have the same candidate ports in all switches except the nodes' own, only
 * the first of these nodes is checked as a destination.
 */
#include "topo/check.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/ports.h"

#define CYCLE_SHOWN 8 /* channels of a cycle in a message */

struct waits {
    struct check *check;
    const struct topo_graph *graph;
    emu_ports *wants; /* by channel: ports by which segments that arrived on it may leave */
    emu_ports *in;    /* by switch: ports where segments for the current destination arrive */
    emu_ports *out;   /* by switch: candidate ports for the current destination */
    uint32_t *queue;  /* switches on routes to the current destination */
    bool *is_new;     /* by node: some switch routes it differently from the previous node */
    bool *is_source;  /* by switch: whether it has nodes */
};

static int waits_new(struct waits *w, struct check *check)
{
    const struct topo_graph *graph = check->graph;

    *w = (struct waits){
        .check = check,
        .graph = graph,
        .wants = calloc((size_t)graph->switches * graph->ports, sizeof *w->wants),
        .in = calloc(graph->switches, sizeof *w->in),
        .out = calloc(graph->switches, sizeof *w->out),
        .queue = calloc(graph->switches, sizeof *w->queue),
        .is_new = calloc(graph->nodes, sizeof *w->is_new),
        .is_source = calloc(graph->switches, sizeof *w->is_source),
    };
    return w->wants && w->in && w->out && w->queue && w->is_new && w->is_source ? 0 : -ENOMEM;
}

static void waits_free(struct waits *w)
{
    free(w->wants);
    free(w->in);
    free(w->out);
    free(w->queue);
    free(w->is_new);
    free(w->is_source);
}

static bool plugged_into(const struct topo_node *node, uint32_t sw)
{
    for (uint32_t i = 0; i < node->links; i++)
        if (node->link[i].sw == sw)
            return true;
    return false;
}

static bool same_switches(const struct topo_node *a, const struct topo_node *b)
{
    bool same = a->links == b->links;

    for (uint32_t i = 0; same && i < a->links; i++)
        same = a->link[i].sw == b->link[i].sw;
    return same;
}

static void find_new(struct waits *w)
{
    const struct topo_graph *graph = w->graph;

    w->is_new[0] = true;
    for (uint32_t n = 1; n < graph->nodes; n++)
        w->is_new[n] = !same_switches(&graph->node[n], &graph->node[n - 1]);
    for (uint32_t s = 0; s < graph->switches; s++) {
        const struct topo_route *route = &graph->sw[s].route;
        emu_ports last = topo_route_ports(route, 0);

        for (uint32_t n = 1; n < graph->nodes; n++) {
            emu_ports ports = topo_route_ports(route, n);

            if (!emu_ports_equal(ports, last) && !w->is_new[n] && !plugged_into(&graph->node[n], s))
                w->is_new[n] = true;
            last = ports;
        }
    }
}

/* Check that the switches of node @n send segments for it only to ports where it is plugged in. */
static int check_delivery(const struct waits *w, uint32_t n)
{
    const struct topo_graph *graph = w->graph;
    const struct topo_node *node = &graph->node[n];
    char name[TOPO_SHOWN_BYTES], to[TOPO_SHOWN_BYTES];

    for (uint32_t i = 0; i < node->links; i++) {
        uint32_t s = node->link[i].sw;

        if (s == TOPO_NONE)
            continue;
        emu_ports ports = topo_route_ports(&graph->sw[s].route, n);
        bool right = emu_ports_any(ports);
        emu_each_port (port, ports) {
            const struct topo_end *end = &graph->sw[s].end[port];
            right = right && end->kind == TOPO_END_NODE && end->id == n;
        }
        if (!right)
            return check_fail(w->check, "%s does not deliver to %s, which is plugged in there",
                              topo_show_switch(graph, s, name), topo_show_node(graph, n, to));
    }
    return 0;
}

/* Follow a port towards @dst. @is_new: gets whether it leads to a switch not reached before. */
static int follow(struct waits *w, uint32_t s, uint32_t port, uint32_t dst, bool *is_new)
{
    const struct topo_end *end = &w->graph->sw[s].end[port];
    char name[TOPO_SHOWN_BYTES], to[TOPO_SHOWN_BYTES];

    *is_new = false;
    if (end->kind == TOPO_END_SWITCH) {
        *is_new = !emu_ports_any(w->in[end->id]) && !w->is_source[end->id];
        w->in[end->id] |= emu_port(end->port);
        return 0;
    }
    if (end->kind == TOPO_END_NODE && end->id == dst)
        return 0;
    return check_fail(w->check, "%s port %u does not lead to %s",
                      topo_show_switch(w->graph, s, name), topo_switch_port(w->graph, s, port),
                      topo_show_node(w->graph, dst, to));
}

/*
 * Find all routes to @dst from the @sources switches at the front of the queue, and append all
 * other switches on these routes. Returns the length of the queue, or a negative error.
 */
static int64_t find_routes_to(struct waits *w, uint32_t dst, uint32_t sources)
{
    uint32_t count = sources;
    char name[TOPO_SHOWN_BYTES], to[TOPO_SHOWN_BYTES];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = w->queue[i];

        w->out[s] = topo_route_ports(&w->graph->sw[s].route, dst);
        if (!emu_ports_any(w->out[s]))
            return check_fail(w->check, "%s has no route to %s",
                              topo_show_switch(w->graph, s, name),
                              topo_show_node(w->graph, dst, to));
        emu_each_port (port, w->out[s]) {
            bool is_new;
            int err = follow(w, s, port, dst, &is_new);

            if (err)
                return err;
            if (is_new)
                w->queue[count++] = w->graph->sw[s].end[port].id;
        }
    }
    return count;
}

static int add_routes(struct waits *w)
{
    const struct topo_graph *graph = w->graph;
    uint32_t sources = 0;

    for (uint32_t n = 0; n < graph->nodes; n++)
        for (uint32_t i = 0; i < graph->node[n].links; i++)
            if (graph->node[n].link[i].sw != TOPO_NONE)
                w->is_source[graph->node[n].link[i].sw] = true;
    for (uint32_t s = 0; s < graph->switches; s++)
        if (w->is_source[s])
            w->queue[sources++] = s;

    for (uint32_t n = 0; n < graph->nodes; n++) {
        int64_t count = check_delivery(w, n);

        if (!count && w->is_new[n])
            count = find_routes_to(w, n, sources);
        if (count < 0)
            return (int)count;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t s = w->queue[i];

            emu_each_port (in, w->in[s])
                w->wants[s * graph->ports + in] |= w->out[s];
            w->in[s] = EMU_NO_PORTS;
        }
    }
    return 0;
}

static void add_trees(struct waits *w)
{
    const struct topo_graph *graph = w->graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        const struct topo_switch *sw = &graph->sw[s];
        emu_ports down = EMU_NO_PORTS, up = EMU_NO_PORTS;

        for (uint32_t port = 0; port < graph->ports; port++) {
            if (sw->end[port].kind != TOPO_END_SWITCH)
                continue;
            if (graph->sw[sw->end[port].id].level < sw->level)
                down |= emu_port(port);
            else
                up |= emu_port(port);
        }
        emu_each_port (port, up | down)
            w->wants[s * graph->ports + port] |= (emu_ports_has(up, port) ? down : up | down) &
                                                 ~emu_port(port);
    }
}

/* The depth-first search for a cycle of channels. */
struct cycle {
    const struct waits *waits;
    uint8_t *state;  /* by channel: 0 new, 1 on the current path, 2 in no cycle */
    uint32_t *path;  /* the current path of channels */
    emu_ports *left; /* by element of the path: outputs not visited yet */
    uint32_t length; /* of the path */
};

/* Return the ports to switches for which a segment of the channel may wait. */
static emu_ports wants_of(const struct waits *w, uint32_t channel)
{
    const struct topo_switch *sw = &w->graph->sw[channel / w->graph->ports];
    emu_ports wants = EMU_NO_PORTS;

    emu_each_port (port, w->wants[channel])
        if (sw->end[port].kind == TOPO_END_SWITCH)
            wants |= emu_port(port);
    return wants;
}

static void cycle_step_in(struct cycle *cycle, uint32_t channel)
{
    cycle->state[channel] = 1;
    cycle->path[cycle->length] = channel;
    cycle->left[cycle->length] = wants_of(cycle->waits, channel);
    cycle->waits->check->what.waits += emu_ports_count(cycle->left[cycle->length]);
    cycle->length++;
}

/*
 * Search for a cycle among the channels that can be reached from @from. Returns the channel at
 * which the cycle closes, or TOPO_NONE.
 */
static uint32_t cycle_search(struct cycle *cycle, uint32_t from)
{
    const struct topo_graph *graph = cycle->waits->graph;

    cycle_step_in(cycle, from);
    while (cycle->length) {
        uint32_t channel = cycle->path[cycle->length - 1];
        emu_ports *left = &cycle->left[cycle->length - 1];

        if (!emu_ports_any(*left)) {
            cycle->state[channel] = 2;
            cycle->length--;
            continue;
        }
        const struct topo_end *end = &graph->sw[channel / graph->ports].end[emu_ports_first(*left)];
        uint32_t next = end->id * graph->ports + end->port;

        *left &= ~emu_port(emu_ports_first(*left));
        if (cycle->state[next] == 1)
            return next;
        if (cycle->state[next] == 0)
            cycle_step_in(cycle, next);
    }
    return TOPO_NONE;
}

/* Write a channel for a message: the sending switch and its port. */
static int show_channel(const struct topo_graph *graph, uint32_t channel, char *text, size_t bytes)
{
    const struct topo_end *from = &graph->sw[channel / graph->ports].end[channel % graph->ports];

    if (!graph->label)
        return snprintf(text, bytes, "%u:%u", from->id, from->port);
    return snprintf(text, bytes, "\"%s\":%u", topo_switch_name(graph, from->id),
                    topo_end_port(graph, from));
}

static int cycle_fail(const struct cycle *cycle, uint32_t closes)
{
    const struct topo_graph *graph = cycle->waits->graph;
    char text[1024] = "";
    size_t used = 0;
    uint32_t first = 0;

    while (cycle->path[first] != closes)
        first++;
    for (uint32_t i = first; i <= cycle->length; i++) {
        uint32_t shown = i - first;

        if (shown == CYCLE_SHOWN && cycle->length - i > 1) {
            used += (size_t)snprintf(text + used, sizeof text - used, "(%u more) -> ",
                                     cycle->length - i);
            i = cycle->length;
        }
        used += (size_t)show_channel(graph, i < cycle->length ? cycle->path[i] : closes,
                                     text + used, sizeof text - used);
        if (i < cycle->length)
            used += (size_t)snprintf(text + used, sizeof text - used, " -> ");
    }
    check_fail(cycle->waits->check,
               "deadlock: segments can wait for each other in a ring of cables "
               "(switch:port): %s",
               text);
    return -EDEADLK;
}

static int check_cycles(struct waits *w)
{
    const struct topo_graph *graph = w->graph;
    size_t channels = (size_t)graph->switches * graph->ports;
    struct cycle cycle = {
        .waits = w,
        .state = calloc(channels, sizeof *cycle.state),
        .path = malloc(channels * sizeof *cycle.path),
        .left = malloc(channels * sizeof *cycle.left),
    };
    int err = cycle.state && cycle.path && cycle.left ? 0 : -ENOMEM;

    for (uint32_t channel = 0; !err && channel < channels; channel++) {
        const struct topo_switch *sw = &graph->sw[channel / graph->ports];

        if (sw->end[channel % graph->ports].kind != TOPO_END_SWITCH)
            continue;
        w->check->what.channels++;
        if (cycle.state[channel])
            continue;
        uint32_t closes = cycle_search(&cycle, channel);
        if (closes != TOPO_NONE)
            err = cycle_fail(&cycle, closes);
    }
    free(cycle.state);
    free(cycle.path);
    free(cycle.left);
    return err;
}

int check_waits(struct check *c)
{
    struct waits w;
    int err = waits_new(&w, c);

    if (!err) {
        find_new(&w);
        err = add_routes(&w);
    }
    if (!err) {
        add_trees(&w);
        err = check_cycles(&w);
    }
    if (err == -ENOMEM)
        check_fail(c, "not enough memory for the check");
    waits_free(&w);
    return err;
}
