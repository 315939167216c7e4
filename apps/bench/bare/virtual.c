/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.c - what a simulated hop cannot take less than, however little the fabric does.
 *
 * The same network, routes, load, times and windows, and of the model only what decides when a
 * segment leaves by which port: it is taken from its cable when it is due, in order of time; its
 * way is looked up, and of several the next is chosen that nothing waits for, or the least loaded;
 * it waits for the output, which serves its inputs in turns, one segment for as long as the link
 * takes; it needs a credit, and gives one back. A segment is an entry of 32 bytes, as in fabemu.
 * There are no headers, priorities, multicasts, counters, histograms, faults, traces, other kinds
 * of links, nor a second thread to be safe from; where two share the work, each writes what the
 * other reads as fabemu does, looks at the cables between them in each window, and waits for the
 * other behind it.
 *
 * On clock real the same is stepped up to what the host's clock says, as often as that goes.
 *
 * All of it is laid out for this: a port is a line and what is on its cable two, what a switch is
 * stepped for is in its first, what waits lies in the slots used last, and who is stepped next is
 * asked for in time. Windows are as long as a hop, so that what is sent in one is due in the next,
 * always: its time is compared with nothing.
 */
#include "apps/bench/bare/virtual.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bare/ordered.h"
#include "emu/alloc.h"
#include "emu/now.h"
#include "emu/random.h"
#include "emu/worker/pages.h"

#define BARE_AHEAD   4u /* devices that are asked for before they are stepped */
#define BARE_WORKERS 2u /* at most */

/* On clock real. */
struct bare_real {
    struct bare bare;
    struct topo_graph *graph;
    uint32_t *worker_of; /* by switch: there is one */
    uint64_t origin_ns;
};

static void hold(struct bare *bare, struct bare_switch *sw, uint32_t in, uint32_t out,
                 const struct bare_entry *entry, uint64_t at_ps)
{
    struct bare_queue *queue = &sw->queue[in * bare->ports + out];
    uint8_t slot = sw->free;

    sw->free = sw->next[slot];
    copy(&sw->held[slot], entry);
    set_ps(&sw->held[slot].at_ps, at_ps);
    *(queue->first == BARE_NONE ? &queue->first : &sw->next[queue->last]) = slot;
    queue->last = slot;
    sw->next[slot] = BARE_NONE;
    sw->load[out]++;
    sw->outs |= emu_bit(out);
}

/* The front segment of a cable goes on, or waits for its output from now on. */
static void arrive(struct bare *bare, uint32_t s, uint32_t in, uint64_t at_ps)
{
    struct bare_switch *sw = &bare->sw[s];
    struct bare_port *from = &bare->port[port_of(bare, s, in)];
    struct bare_entry *entry = &bare->cable[port_of(bare, s, in)].slot[from->in_at++ % BARE_SLOTS];
    uint32_t out = choose(sw, emu_ports_word(topo_route_ports(&sw->route, entry->dst), 0));
    struct bare_port *to = &bare->port[port_of(bare, s, out)];

    if (!to->waiting && to->busy_ps <= at_ps && credit_ps(to) - 1 < at_ps) { /* 0 - 1: never */
        put(bare, to, entry, at_ps);
        pay(bare, from, at_ps);
        bare->hops++;
    } else {
        hold(bare, sw, in, out, entry, at_ps);
        to->waiting |= emu_bit(in);
    }
    set_ps(&entry->at_ps, 0);
}

static inline __attribute__((always_inline)) void arrivals(struct bare *bare, uint32_t s,
                                                           uint64_t until_ps, bool windows)
{
    uint64_t due[BARE_PORTS];
    uint32_t count = bare_due(bare, s, until_ps, windows, due);

    for (uint32_t k = 0; k < count; k++)
        arrive(bare, s, due[k] % 64, due[k] >> 6);
}

/* False: nothing more leaves by this output before @until_ps. */
static bool depart(struct bare *bare, uint32_t s, uint32_t out, uint64_t until_ps)
{
    struct bare_switch *sw = &bare->sw[s];
    struct bare_port *to = &bare->port[port_of(bare, s, out)];
    uint64_t at_ps = credit_ps(to);
    uint32_t in = emu_bits_next(to->waiting, to->last);
    struct bare_queue *queue = &sw->queue[in * bare->ports + out];
    uint8_t slot = queue->first;
    const struct bare_entry *entry = &sw->held[slot];

    if (at_ps == 0)
        return false;
    at_ps = at_ps > to->busy_ps ? at_ps : to->busy_ps;
    at_ps = at_ps > ps_of(&entry->at_ps) ? at_ps : ps_of(&entry->at_ps);
    if (at_ps > until_ps)
        return false;
    put(bare, to, entry, at_ps);
    pay(bare, &bare->port[port_of(bare, s, in)], at_ps);
    queue->first = sw->next[slot];
    sw->next[slot] = sw->free;
    sw->free = slot;
    to->waiting &= ~((uint64_t)(queue->first == BARE_NONE) << in);
    to->last = (uint8_t)in;
    sw->outs &= ~((uint64_t) !--sw->load[out] << out);
    bare->hops++;
    return to->waiting;
}

/* How the loop goes: a constant wherever it is asked. */
enum bare_way {
    BARE_WINDOWS,
    BARE_ORDERED, /* windows, and switches as in ordered.h */
    BARE_NOW      /* clock real: up to what the clock says */
};

static inline __attribute__((always_inline)) void step_switch(struct bare *bare, uint32_t s,
                                                              uint64_t until_ps, enum bare_way way)
{
    const struct bare_switch *sw = &bare->sw[s];

    if (way == BARE_ORDERED) {
        bare_step_ordered(bare, s, until_ps);
        return;
    }
    if (sw->came[bare->turn] | sw->look)
        arrivals(bare, s, until_ps, way == BARE_WINDOWS);
    emu_each_bit (out, sw->outs)
        while (depart(bare, s, out, until_ps))
            ;
}

/* The lines of the ports at which something is to be done there. */
static void fetch_switch(const struct bare *bare, uint32_t s)
{
    const struct bare_switch *sw = &bare->sw[s];

    emu_each_bit (port, sw->came[bare->turn] | sw->look) {
        uint32_t at = port_of(bare, s, port);

        __builtin_prefetch(&bare->port[at], 1);
        __builtin_prefetch(&bare->cable[at], 1);
        __builtin_prefetch(&bare->cable[at].slot[BARE_SLOTS / 2], 1);
    }
    emu_each_bit (port, sw->outs)
        __builtin_prefetch(&bare->port[port_of(bare, s, port)], 1);
}

/* --- nodes ---------------------------------------------------------------------------- */

/* Between two segments of a node: on average what the load says. */
static uint64_t pause_ps(struct bare *bare)
{
    return bare->between_ps / 2 + emu_xorshift(&bare->random) % bare->between_ps;
}

static void step_node(struct bare *bare, uint32_t node, uint64_t until_ps)
{
    struct bare_port *port = &bare->port[port_of_node(bare, node)];
    struct bare_cable *cable = &bare->cable[port_of_node(bare, node)];
    struct bare_entry *came = &cable->slot[port->in_at % BARE_SLOTS];
    uint64_t came_ps = ps_of(&came->at_ps), at_ps;

    if (came_ps && came_ps <= until_ps) {
        pay(bare, port, came_ps);
        set_ps(&came->at_ps, 0);
        port->in_at++;
        bare->taken++;
        if (until_ps - came_ps > bare->late_ps)
            bare->late_ps = until_ps - came_ps;
    }
    if (bare->send_ps[node] > until_ps || !credit_ps(port))
        return;
    at_ps = bare->send_ps[node] > port->busy_ps ? bare->send_ps[node] : port->busy_ps;
    at_ps = at_ps > credit_ps(port) ? at_ps : credit_ps(port);
    if (at_ps > until_ps)
        return;
    struct bare_entry entry = {.dst = (uint32_t)(emu_xorshift(&bare->random) >> 32) %
                                      bare->graph->nodes};
    put(bare, port, &entry, at_ps);
    bare->sent++;
    bare->send_ps[node] += pause_ps(bare);
}

/* --- a network ------------------------------------------------------------------------ */

static void far(struct bare_port *port, uint32_t at, uint32_t sw, uint32_t sw_port)
{
    port->far = at;
    port->far_sw = sw;
    port->far_port = (uint8_t)sw_port;
}

static void join(struct bare *bare, const uint32_t *worker_of)
{
    const struct topo_graph *graph = bare->graph;
    uint32_t inner = graph->switches * graph->ports;

    for (uint32_t at = 0; at < inner; at++) {
        uint32_t sw = at / graph->ports, port = at % graph->ports;
        const struct topo_end *end = &graph->sw[sw].end[port];

        bare->port[at].far_sw = TOPO_NONE;
        if (end->kind == TOPO_END_SWITCH) {
            bool own = worker_of[end->id] == worker_of[sw];

            far(&bare->port[at], end->id * graph->ports + end->port, own ? end->id : TOPO_NONE,
                end->port);
            bare->sw[sw].look |= (uint64_t)!own << port;
        }
        if (end->kind != TOPO_END_NODE)
            continue;
        far(&bare->port[at], inner + end->id, TOPO_NONE, 0);
        far(&bare->port[inner + end->id], at, sw, port);
    }
}

/* What worker @self of them has. False: no memory. */
static bool share(struct bare *bare, unsigned self, const uint32_t *worker_of)
{
    const struct topo_graph *graph = bare->graph;

    bare->self = self;
    bare->random = emu_spread(self + 1);
    bare->device = malloc((graph->switches + graph->nodes) * sizeof *bare->device);
    if (!bare->device)
        return false;
    for (uint32_t sw = 0; sw < graph->switches; sw++)
        if (worker_of[sw] == self)
            bare->device[bare->switches++] = sw;
    for (uint32_t n = 0; n < graph->nodes; n++) {
        if (worker_of[graph->node[n].link[0].sw] != self)
            continue;
        bare->device[bare->switches + bare->nodes++] = n;
        bare->send_ps[n] = pause_ps(bare);
    }
    return true;
}

static void bare_close(struct bare *bare)
{
    free(bare->port);
    free(bare->cable);
    free(bare->sw);
    free(bare->queue);
    free(bare->held);
    free(bare->order);
    free(bare->act);
    free(bare->count);
    free(bare->line);
    free(bare->next);
    free(bare->ordered);
    free(bare->send_ps);
    free(bare->done);
}

static void open_switch(struct bare *bare, uint32_t s)
{
    struct bare_switch *sw = &bare->sw[s];
    uint32_t slots = bare->ports * BARE_SLOTS;

    sw->route = bare->graph->sw[s].route;
    sw->queue = &bare->queue[(size_t)s * bare->ports * bare->ports];
    sw->held = &bare->held[(size_t)s * slots];
    memset(sw->queue, BARE_NONE, bare->ports * bare->ports * sizeof *sw->queue);
    for (uint32_t slot = 0; slot < slots; slot++)
        sw->next[slot] = (uint8_t)(slot + 1);
}

static void order_switch(struct bare *bare, uint32_t s)
{
    struct bare_order *order = &bare->order[s];
    uint32_t lines = bare->ports * bare->ports, slots = lines * BARE_SLOTS;

    order->act = &bare->act[(size_t)s * bare->ports];
    order->count = &bare->count[(size_t)s * bare->ports * (bare->ports + BARE_SLOTS)];
    order->line = &bare->line[(size_t)s * lines];
    order->next = &bare->next[(size_t)s * slots];
    order->held = &bare->ordered[(size_t)s * slots];
    memset(order->line, UINT8_MAX, lines * sizeof *order->line); /* BARE_UNHELD */
    for (uint32_t slot = 0; slot < slots; slot++)
        order->next[slot] = (uint16_t)(slot + 1);
}

/* Its switches go by ordered.h. False: no memory. bare_close() frees what there is. */
static bool bare_put_in_order(struct bare *bare)
{
    size_t switches = bare->graph->switches, inner = switches * bare->ports;
    size_t lines = inner * bare->ports;

    bare->order = emu_zeros(switches * sizeof *bare->order);
    bare->act = emu_zeros(inner * sizeof *bare->act);
    bare->count = emu_zeros(inner * (bare->ports + BARE_SLOTS));
    bare->line = emu_zeros(lines * sizeof *bare->line);
    bare->next = emu_zeros(lines * BARE_SLOTS * sizeof *bare->next);
    bare->ordered = emu_zeros(lines * BARE_SLOTS * sizeof *bare->ordered);
    if (!bare->order || !bare->act || !bare->count || !bare->line || !bare->next || !bare->ordered)
        return false;
    for (uint32_t s = 0; s < switches; s++)
        order_switch(bare, s);
    return true;
}

/* False: no memory. In any case bare_close() wants to be called. */
static bool bare_open(struct bare *bare, const struct topo_graph *graph, double load)
{
    size_t inner = (size_t)graph->switches * graph->ports;
    size_t ports = inner + graph->nodes, queues = inner * graph->ports, held = inner * BARE_SLOTS;
    bool huge;

    if (graph->ports > BARE_PORTS)
        return false;
    huge = emu_pages_begin(ports * (sizeof *bare->port + sizeof *bare->cable) +
                           graph->switches * sizeof *bare->sw + queues * sizeof *bare->queue +
                           held * sizeof *bare->held);
    *bare = (struct bare){.graph = graph,
                          .ports = graph->ports,
                          .between_ps = (uint64_t)(BARE_LINK_PS / load),
                          .port = emu_zeros(ports * sizeof *bare->port),
                          .cable = emu_zeros(ports * sizeof *bare->cable),
                          .sw = emu_zeros(graph->switches * sizeof *bare->sw),
                          .queue = emu_zeros(queues * sizeof *bare->queue),
                          .held = emu_zeros(held * sizeof *bare->held),
                          .send_ps = calloc(graph->nodes, sizeof *bare->send_ps),
                          .done = emu_zeros(BARE_WORKERS * sizeof *bare->done)};
    if (huge)
        emu_pages_end();
    if (!bare->port || !bare->cable || !bare->sw || !bare->queue || !bare->held || !bare->send_ps ||
        !bare->done)
        return false;
    for (uint32_t s = 0; s < graph->switches; s++)
        open_switch(bare, s);
    for (size_t i = 0; i < ports * BARE_SLOTS; i++) /* all credits, since the first moment */
        set_ps(&bare->port[i / BARE_SLOTS].credit_ps[i % BARE_SLOTS], 1);
    return true;
}

/* Until all have done the window that ends at @ps. */
static void meet(struct bare *bare, uint64_t ps)
{
    unsigned rounds = 0;

    set_ps(&bare->done[bare->self].ps, ps);
    for (unsigned w = 0; w < bare->workers; w++)
        while (ps_of(&bare->done[w].ps) < ps)
            bench_wait(&rounds, false);
}

/* All of its devices, up to @until_ps. */
static inline __attribute__((always_inline)) void bare_step(struct bare *bare, uint64_t until_ps,
                                                            enum bare_way way)
{
    const uint32_t *sw = bare->device, *node = sw + bare->switches;

    for (uint32_t i = 0; i < bare->nodes; i++) {
        if (i + BARE_AHEAD < bare->nodes)
            __builtin_prefetch(&bare->port[port_of_node(bare, node[i + BARE_AHEAD])], 1);
        step_node(bare, node[i], until_ps);
    }
    for (uint32_t i = 0; i < bare->switches; i++) {
        if (i + BARE_AHEAD < bare->switches)
            fetch_switch(bare, sw[i + BARE_AHEAD]);
        step_switch(bare, sw[i], until_ps, way);
    }
    bare->turn = !bare->turn;
}

static void *bare_run(void *of)
{
    struct bare *bare = of;

    for (uint64_t ps = bare->from_ps; ps < bare->to_ps; ps += BARE_HOP_PS) {
        if (bare->order)
            bare_step(bare, ps + BARE_HOP_PS - 1, BARE_ORDERED);
        else
            bare_step(bare, ps + BARE_HOP_PS - 1, BARE_WINDOWS);
        meet(bare, ps + BARE_HOP_PS);
    }
    return NULL;
}

/* Both of them, or the one. Returns how many hops there were. */
static uint64_t bare_all(struct bare *bare, uint64_t from_ps, uint64_t to_ps)
{
    uint64_t before = bare[0].hops + bare[1].hops;
    bool two = bare->workers == 2;
    pthread_t other;

    for (unsigned w = 0; w < bare->workers; w++) {
        bare[w].from_ps = from_ps;
        bare[w].to_ps = to_ps;
    }
    if (two && pthread_create(&other, NULL, bare_run, &bare[1]) != 0)
        return 0;
    bare_run(&bare[0]);
    if (two)
        pthread_join(other, NULL);
    return bare[0].hops + bare[1].hops - before;
}

/* Shared out; whole windows of warm-up. */
static double bare_mhops(struct bare *bare, const struct bench_virtual_how *how)
{
    uint64_t warm_ps = how->warmup_ps / BARE_HOP_PS * BARE_HOP_PS;
    const struct topo_graph *graph = bare->graph;
    uint32_t *worker_of = calloc(graph->switches, sizeof *worker_of);
    double mhops = 0;
    bool good = worker_of;

    if (good) {
        topo_partition(graph, how->workers, worker_of);
        join(bare, worker_of);
        bare->workers = how->workers;
        bare[1] = bare[0];
        for (unsigned w = 0; w < how->workers; w++)
            good = share(&bare[w], w, worker_of) && good;
    }
    if (good && bare_all(bare, 0, warm_ps)) {
        uint64_t start_ns = emu_now_ns(), hops = bare_all(bare, warm_ps, warm_ps + how->measure_ps);

        mhops = (double)hops * 1e3 / (double)(emu_now_ns() - start_ns);
    }
    free(bare[0].device);
    free(bare[1].device);
    free(worker_of);
    return mhops;
}

double bench_virtual_bare(const struct bench_virtual_case *what,
                          const struct bench_virtual_how *how, bool ordered)
{
    struct bare bare[BARE_WORKERS] = {0};
    struct topo_graph *graph;
    char error[256];
    double mhops = 0;

    if (topo_parse(&graph, what->topo, error, sizeof error) != 0)
        return 0;
    if (bare_open(&bare[0], graph, what->load) && (!ordered || bare_put_in_order(&bare[0])))
        mhops = bare_mhops(bare, how);
    bare_close(&bare[0]);
    topo_free(graph);
    return mhops;
}

/* --- clock real ----------------------------------------------------------------------- */

void bare_real_close(struct bare_real *real)
{
    if (!real)
        return;
    free(real->bare.device);
    bare_close(&real->bare);
    free(real->worker_of);
    topo_free(real->graph);
    free(real);
}

struct bare_real *bare_real_open(const char *topo)
{
    struct bare_real *real = calloc(1, sizeof *real);
    char error[256];
    bool good = real && topo_parse(&real->graph, topo, error, sizeof error) == 0;

    good = good && bare_open(&real->bare, real->graph, 1);
    if (good)
        real->worker_of = calloc(real->graph->switches, sizeof *real->worker_of);
    if (good && real->worker_of) {
        join(&real->bare, real->worker_of);
        good = share(&real->bare, 0, real->worker_of);
    }
    if (good && real->worker_of) {
        real->origin_ns = emu_now_ns() - 1; /* a time is never 0 */
        return real;
    }
    bare_real_close(real);
    return NULL;
}

static uint64_t real_now_ps(const struct bare_real *real)
{
    return (emu_now_ns() - real->origin_ns) * 1000u;
}

static void real_run(struct bare_real *real, uint64_t run_ns)
{
    uint64_t now_ps = real_now_ps(real), end_ps = now_ps + run_ns * 1000u;

    for (; now_ps < end_ps; now_ps = real_now_ps(real))
        bare_step(&real->bare, now_ps, BARE_NOW);
}

/* All nodes begin to send at @load of their links' rate, from now on. */
static void real_load(struct bare_real *real, double load)
{
    struct bare *bare = &real->bare;
    uint64_t now_ps = real_now_ps(real);

    bare->between_ps = (uint64_t)((double)BARE_LINK_PS / load);
    for (uint32_t n = 0; n < bare->nodes; n++)
        bare->send_ps[n] = now_ps + bare->between_ps * n / bare->nodes;
}

/* Nobody sends any more; what is under way arrives. */
static void real_drain(struct bare_real *real)
{
    struct bare *bare = &real->bare;

    for (uint32_t n = 0; n < bare->nodes; n++)
        bare->send_ps[n] = UINT64_MAX;
    while (bare->taken != bare->sent)
        bare_step(bare, real_now_ps(real), BARE_NOW);
}

uint64_t bare_real_try(struct bare_real *real, double load, uint64_t run_ns, double *mhops)
{
    uint64_t before = real->bare.hops, late_ps;

    real_load(real, load);
    real_run(real, run_ns - run_ns / 4);
    real->bare.late_ps = 0;
    real_run(real, run_ns / 4);
    late_ps = real->bare.late_ps;
    *mhops = (double)(real->bare.hops - before) * 1e3 / (double)run_ns;
    real_drain(real);
    return late_ps / 1000u;
}
