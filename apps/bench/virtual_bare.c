/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual_bare.c - what a simulated hop cannot take less than, however little the fabric does.
 *
 * The same network, routes, load, times and windows, and of the model only what decides when a
 * segment leaves by which port: it is taken from its cable when it is due, in order of time; its
 * way is looked up, and of several the least loaded is chosen; it waits for the output, which
 * serves its inputs in turns, one segment for as long as the link takes; it needs a credit, and
 * gives one back. A segment is an entry of 32 bytes, as in fabemu. There are no headers,
 * priorities, multicasts, counters a port, histograms, faults, traces, nor a second thread to be
 * safe from.
 *
 * All of a port lies side by side, and who is stepped next is asked for in time.
 */
#include "apps/bench/virtual_bare.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "emu/alloc.h"
#include "emu/bits.h"
#include "emu/now.h"
#include "emu/random.h"
#include "emu/worker/pages.h"
#include "topo/topo.h"

#define BARE_SLOTS   4u      /* segments on a cable and behind it, as many credits */
#define BARE_HOP_PS  110000u /* a switch and a cable: the window, too */
#define BARE_LINK_PS 204800u /* a segment on a link */
#define BARE_AHEAD   4u      /* devices that are asked for before they are stepped */
#define BARE_NONE    UINT8_MAX

static_assert(256 % BARE_SLOTS == 0, "slots are counted in a byte");

struct bare_entry {
    uint64_t at_ps; /* 0: nothing here */
    uint32_t dst;
    uint32_t rest[5];
};

/* A port of a switch, or a node: what comes from its cable, and what waits for it. */
struct bare_port {
    alignas(EMU_LINE) struct bare_entry in[BARE_SLOTS];
    struct bare_entry held[BARE_SLOTS]; /* came by this port, and wait for others */
    uint64_t credit_ps[BARE_SLOTS];     /* when each credit is here; 0: none */
    uint64_t busy_ps;                   /* of the link, until then */
    uint64_t waiting;                   /* inputs of the same switch that hold something for it */
    uint32_t far;                       /* port at the other end of the cable */
    uint32_t far_sw;                    /* its switch; TOPO_NONE: a node's */
    uint8_t far_port;                   /* there */
    uint8_t in_at, out_at, due_at, paid_at; /* slots, free-running */
    uint8_t credits, load, last, free;      /* free: slots of held[], a bit each */
    uint8_t next[BARE_SLOTS];               /* behind each of held[] for the same output */
};

/* What says whether a device is to be stepped, and for what; apart, so that all are few lines. */
struct bare_told {
    uint64_t came; /* ports with something on their cable */
    uint64_t outs; /* ports for which something waits */
};

struct bare {
    const struct topo_graph *graph;
    struct bare_port *port; /* of all switches, in order; then one of each node */
    struct bare_told *told; /* of all switches */
    uint8_t *first;         /* slot of held[], by input and output: the oldest; BARE_NONE: none */
    uint8_t *newest;
    uint64_t *send_ps; /* of each node */
    uint64_t between_ps;
    uint64_t random;
    uint64_t hops;
};

static struct bare_port *port_of(const struct bare *bare, uint32_t sw, uint32_t port)
{
    return &bare->port[sw * bare->graph->ports + port];
}

static struct bare_port *port_of_node(const struct bare *bare, uint32_t node)
{
    return &bare->port[bare->graph->switches * bare->graph->ports + node];
}

/* By input and output of a switch. */
static size_t queue_of(const struct bare *bare, uint32_t sw, uint32_t in, uint32_t out)
{
    return ((size_t)sw * bare->graph->ports + in) * bare->graph->ports + out;
}

/* --- cables --------------------------------------------------------------------------- */

static void put(struct bare *bare, struct bare_port *port, const struct bare_entry *entry,
                uint64_t at_ps)
{
    struct bare_entry *to = &bare->port[port->far].in[port->out_at++ % BARE_SLOTS];

    *to = *entry;
    to->at_ps = at_ps + BARE_HOP_PS;
    port->credits--;
    port->busy_ps = at_ps + BARE_LINK_PS;
    if (port->far_sw != TOPO_NONE)
        bare->told[port->far_sw].came |= UINT64_C(1) << port->far_port;
}

static void pay(struct bare *bare, struct bare_port *port, uint64_t at_ps)
{
    bare->port[port->far].credit_ps[port->paid_at++ % BARE_SLOTS] = at_ps + BARE_HOP_PS;
}

/* A credit at hand, or one that is here before @until_ps, which the link then waits for. */
static bool has_credit(struct bare_port *port, uint64_t until_ps)
{
    uint64_t *due = &port->credit_ps[port->due_at % BARE_SLOTS];

    if (port->credits)
        return true;
    if (*due == 0 || *due > until_ps)
        return false;
    if (port->busy_ps < *due)
        port->busy_ps = *due;
    *due = 0;
    port->due_at++;
    port->credits = 1;
    return true;
}

/* --- a switch ------------------------------------------------------------------------- */

static uint32_t choose(const struct bare *bare, uint32_t sw, uint32_t dst)
{
    uint64_t ways = topo_route_ports(&bare->graph->sw[sw].route, dst);
    uint32_t best = (uint32_t)__builtin_ctzll(ways);

    for (ways &= ways - 1; ways; ways &= ways - 1) {
        uint32_t port = (uint32_t)__builtin_ctzll(ways);
        bool less = port_of(bare, sw, port)->load < port_of(bare, sw, best)->load;

        best = less ? port : best;
    }
    return best;
}

/* The front segment of a cable waits for its output from now on. */
static void arrive(struct bare *bare, uint32_t sw, uint32_t in)
{
    struct bare_port *port = port_of(bare, sw, in);
    struct bare_entry *entry = &port->in[port->in_at++ % BARE_SLOTS];
    uint32_t out = choose(bare, sw, entry->dst);
    struct bare_port *to = port_of(bare, sw, out);
    uint8_t slot = (uint8_t)__builtin_ctz(port->free);
    size_t queue = queue_of(bare, sw, in, out);

    __builtin_prefetch(&bare->port[to->far].in[to->out_at % BARE_SLOTS], 1);
    port->held[slot] = *entry;
    entry->at_ps = 0;
    port->free &= (uint8_t) ~(1u << slot);
    port->next[slot] = BARE_NONE;
    if (bare->first[queue] == BARE_NONE)
        bare->first[queue] = slot;
    else
        port->next[bare->newest[queue]] = slot;
    bare->newest[queue] = slot;
    to->waiting |= UINT64_C(1) << in;
    to->load++;
    bare->told[sw].outs |= UINT64_C(1) << out;
}

/* All that have come before @until_ps, in order of time: a cable brings one in a window at most. */
static void arrivals(struct bare *bare, uint32_t sw, uint64_t until_ps)
{
    uint64_t at_ps[TOPO_PORTS_MAX], later = 0;
    uint8_t by[TOPO_PORTS_MAX];
    uint32_t count = 0;

    for (uint64_t came = bare->told[sw].came; came; came &= came - 1) {
        uint32_t in = (uint32_t)__builtin_ctzll(came), k = count;
        const struct bare_port *port = port_of(bare, sw, in);
        uint64_t ps = port->in[port->in_at % BARE_SLOTS].at_ps;

        if (port->in[(port->in_at + (ps <= until_ps)) % BARE_SLOTS].at_ps)
            later |= UINT64_C(1) << in;
        if (ps > until_ps)
            continue;
        for (count++; k && at_ps[k - 1] > ps; k--) {
            at_ps[k] = at_ps[k - 1];
            by[k] = by[k - 1];
        }
        at_ps[k] = ps;
        by[k] = (uint8_t)in;
    }
    bare->told[sw].came = later;
    for (uint32_t k = 0; k < count; k++)
        arrive(bare, sw, by[k]);
}

/* False: nothing more leaves by this output before @until_ps. */
static bool depart(struct bare *bare, uint32_t sw, uint32_t out, uint64_t until_ps)
{
    struct bare_port *to = port_of(bare, sw, out);

    if (!to->waiting || !has_credit(to, until_ps))
        return false;
    uint64_t behind = to->waiting & (~UINT64_C(0) << to->last << 1);
    uint32_t in = (uint32_t)__builtin_ctzll(behind ? behind : to->waiting);
    struct bare_port *from = port_of(bare, sw, in);
    size_t queue = queue_of(bare, sw, in, out);
    uint8_t slot = bare->first[queue];
    const struct bare_entry *entry = &from->held[slot];
    uint64_t at_ps = entry->at_ps > to->busy_ps ? entry->at_ps : to->busy_ps;

    if (at_ps > until_ps)
        return false;
    put(bare, to, entry, at_ps);
    pay(bare, from, at_ps);
    from->free |= (uint8_t)(1u << slot);
    bare->first[queue] = from->next[slot];
    if (from->next[slot] == BARE_NONE)
        to->waiting &= ~(UINT64_C(1) << in);
    to->last = (uint8_t)in;
    to->load--;
    bare->hops++;
    return true;
}

static void step_switch(struct bare *bare, uint32_t sw, uint64_t until_ps)
{
    struct bare_told *told = &bare->told[sw];

    if (told->came)
        arrivals(bare, sw, until_ps);
    for (uint64_t outs = told->outs; outs; outs &= outs - 1) {
        uint32_t out = (uint32_t)__builtin_ctzll(outs);

        while (depart(bare, sw, out, until_ps))
            ;
        if (!port_of(bare, sw, out)->waiting)
            told->outs &= ~(UINT64_C(1) << out);
    }
}

/* The lines of the ports at which something is to be done there. */
static void fetch_switch(const struct bare *bare, uint32_t sw)
{
    const struct bare_told *told = &bare->told[sw];

    for (uint64_t ports = told->came | told->outs; ports; ports &= ports - 1) {
        const char *port = (const char *)port_of(bare, sw, (uint32_t)__builtin_ctzll(ports));

        for (size_t at = 0; at < sizeof(struct bare_port); at += EMU_LINE)
            __builtin_prefetch(port + at, 1);
    }
}

/* --- nodes ---------------------------------------------------------------------------- */

/* Between two segments of a node: on average what the load says. */
static uint64_t pause_ps(struct bare *bare)
{
    return bare->between_ps / 2 + emu_xorshift(&bare->random) % bare->between_ps;
}

static void step_node(struct bare *bare, uint32_t node, uint64_t until_ps)
{
    struct bare_port *port = port_of_node(bare, node);
    struct bare_entry *came = &port->in[port->in_at % BARE_SLOTS];
    uint64_t *send_ps = &bare->send_ps[node];

    if (came->at_ps && came->at_ps <= until_ps) {
        pay(bare, port, came->at_ps);
        came->at_ps = 0;
        port->in_at++;
    }
    if (*send_ps > until_ps || !has_credit(port, until_ps))
        return;
    uint64_t at_ps = *send_ps > port->busy_ps ? *send_ps : port->busy_ps;
    if (at_ps > until_ps)
        return;
    struct bare_entry entry = {.dst = (uint32_t)(emu_xorshift(&bare->random) >> 32) %
                                      bare->graph->nodes};
    put(bare, port, &entry, at_ps);
    *send_ps += pause_ps(bare);
}

/* --- a network ------------------------------------------------------------------------ */

static void far(struct bare_port *port, uint32_t at, uint32_t sw, uint32_t sw_port)
{
    port->far = at;
    port->far_sw = sw;
    port->far_port = (uint8_t)sw_port;
}

static void join(struct bare *bare)
{
    const struct topo_graph *graph = bare->graph;
    uint32_t inner = graph->switches * graph->ports;

    for (uint32_t at = 0; at < inner; at++) {
        uint32_t sw = at / graph->ports, port = at % graph->ports;
        const struct topo_end *end = &graph->sw[sw].end[port];

        bare->port[at].far_sw = TOPO_NONE;
        if (end->kind == TOPO_END_SWITCH)
            far(&bare->port[at], end->id * graph->ports + end->port, end->id, end->port);
        if (end->kind != TOPO_END_NODE)
            continue;
        far(&bare->port[at], inner + end->id, TOPO_NONE, 0);
        far(&bare->port[inner + end->id], at, sw, port);
    }
}

static void bare_close(struct bare *bare)
{
    free(bare->port);
    free(bare->told);
    free(bare->first);
    free(bare->newest);
    free(bare->send_ps);
}

/* False: no memory. In any case bare_close() wants to be called. */
static bool bare_open(struct bare *bare, const struct topo_graph *graph, double load)
{
    size_t inner = (size_t)graph->switches * graph->ports, queues = inner * graph->ports;
    size_t ports = inner + graph->nodes;
    bool huge = emu_pages_begin(ports * sizeof *bare->port + 2 * queues);

    *bare = (struct bare){.graph = graph,
                          .between_ps = (uint64_t)(BARE_LINK_PS / load),
                          .random = EMU_GOLDEN,
                          .port = emu_zeros(ports * sizeof *bare->port),
                          .told = emu_zeros(graph->switches * sizeof *bare->told),
                          .first = malloc(queues),
                          .newest = malloc(queues),
                          .send_ps = calloc(graph->nodes, sizeof *bare->send_ps)};
    if (huge)
        emu_pages_end();
    if (!bare->port || !bare->told || !bare->first || !bare->newest || !bare->send_ps)
        return false;
    memset(bare->first, BARE_NONE, queues);
    for (size_t i = 0; i < ports; i++) {
        bare->port[i].credits = BARE_SLOTS;
        bare->port[i].free = (1u << BARE_SLOTS) - 1;
    }
    for (uint32_t n = 0; n < graph->nodes; n++)
        bare->send_ps[n] = pause_ps(bare);
    join(bare);
    return true;
}

static void bare_run(struct bare *bare, uint64_t from_ps, uint64_t to_ps)
{
    const struct topo_graph *graph = bare->graph;

    for (uint64_t ps = from_ps; ps < to_ps; ps += BARE_HOP_PS) {
        for (uint32_t n = 0; n < graph->nodes; n++) {
            if (n + BARE_AHEAD < graph->nodes)
                __builtin_prefetch(port_of_node(bare, n + BARE_AHEAD), 1);
            step_node(bare, n, ps + BARE_HOP_PS - 1);
        }
        for (uint32_t sw = 0; sw < graph->switches; sw++) {
            if (sw + BARE_AHEAD < graph->switches)
                fetch_switch(bare, sw + BARE_AHEAD);
            step_switch(bare, sw, ps + BARE_HOP_PS - 1);
        }
    }
}

double bench_virtual_bare(const char *topo, double load, uint64_t warmup_ps, uint64_t measure_ps)
{
    struct topo_graph *graph;
    struct bare bare;
    char error[256];
    double mhops = 0;

    if (topo_parse(&graph, topo, error, sizeof error) != 0)
        return 0;
    if (bare_open(&bare, graph, load)) {
        bare_run(&bare, 0, warmup_ps);
        uint64_t hops = bare.hops, start_ns = emu_now_ns();

        bare_run(&bare, warmup_ps, warmup_ps + measure_ps);
        mhops = (double)(bare.hops - hops) * 1e3 / (double)(emu_now_ns() - start_ns);
    }
    bare_close(&bare);
    topo_free(graph);
    return mhops;
}
