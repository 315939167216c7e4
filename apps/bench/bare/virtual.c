/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.c - what a simulated hop cannot take less than, however little the fabric does.
 *
 * The same network, routes, load, times and windows, and of the model only what decides when a
 * segment leaves by which port: it is taken from its cable when it is due, in order of time; its
 * way is looked up, and of several the least loaded is chosen; it waits for the output, which
 * serves its inputs in turns, one segment for as long as the link takes; it needs a credit, and
 * gives one back. A segment is an entry of 32 bytes, as in fabemu. There are no headers,
 * priorities, multicasts, counters a port, histograms, faults, traces, nor a second thread to be
 * safe from; where two share the work, each writes what the other reads as fabemu does, looks at
 * the cables between them in each window, and waits for the other behind it.
 *
 * On clock real the same is stepped up to what the host's clock says, as often as that goes.
 *
 * All of a port lies side by side, and who is stepped next is asked for in time.
 */
#include "apps/bench/bare/virtual.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
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
#define BARE_WORKERS 2u /* at most */

static_assert(256 % BARE_SLOTS == 0, "slots are counted in a byte");

struct bare_entry {
    _Atomic uint64_t at_ps; /* 0: nothing here */
    uint32_t dst;
    uint32_t rest[5];
};

/* A port of a switch, or a node: what comes from its cable, and what waits for it. */
struct bare_port {
    alignas(EMU_LINE) struct bare_entry in[BARE_SLOTS];
    struct bare_entry held[BARE_SLOTS];     /* came by this port, and wait for others */
    _Atomic uint64_t credit_ps[BARE_SLOTS]; /* when each credit is here; 0: none */
    uint64_t busy_ps;                       /* of the link, until then */
    uint64_t waiting; /* inputs of the same switch that hold something for it */
    uint32_t far;     /* port at the other end of the cable */
    uint32_t far_sw;  /* to be told of it; TOPO_NONE: nobody */
    uint8_t far_port; /* there */
    uint8_t in_at, out_at, due_at, paid_at; /* slots, free-running */
    uint8_t credits, load, last, free;      /* free: slots of held[], a bit each */
    uint8_t next[BARE_SLOTS];               /* behind each of held[] for the same output */
};

/* What says whether a device is to be stepped, and for what; apart, so that all are few lines. */
struct bare_told {
    uint64_t came; /* ports with something on their cable */
    uint64_t outs; /* ports for which something waits */
    uint64_t look; /* ports of whose cables the other worker tells nothing */
};

struct bare_done {
    alignas(2 * EMU_LINE) _Atomic uint64_t ps; /* windows up to there are done */
};

/* A network as one worker has it. */
struct bare {
    const struct topo_graph *graph;
    unsigned self, workers;
    uint32_t *device; /* its own: switches, then nodes */
    uint32_t switches, nodes;
    struct bare_done *done; /* of each worker */
    uint64_t from_ps, to_ps;
    struct bare_port *port; /* of all switches, in order; then one of each node */
    struct bare_told *told; /* of all switches */
    uint8_t *first;         /* slot of held[], by input and output: the oldest; BARE_NONE: none */
    uint8_t *newest;
    uint64_t *send_ps; /* of each node */
    uint64_t between_ps;
    uint64_t random;
    uint64_t hops;
    uint64_t sent, taken; /* by nodes */
    uint64_t late_ps;     /* clock real: of what nodes have taken, the latest */
};

/* On clock real. */
struct bare_real {
    struct bare bare;
    struct topo_graph *graph;
    uint32_t *worker_of; /* by switch: there is one */
    uint64_t origin_ns;
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

static uint64_t ps_of(const _Atomic uint64_t *ps)
{
    return atomic_load_explicit(ps, memory_order_acquire);
}

static void set_ps(_Atomic uint64_t *ps, uint64_t to)
{
    atomic_store_explicit(ps, to, memory_order_release);
}

/* All but the time. */
static void copy(struct bare_entry *to, const struct bare_entry *from)
{
    to->dst = from->dst;
    memcpy(to->rest, from->rest, sizeof to->rest);
}

static void put(struct bare *bare, struct bare_port *port, const struct bare_entry *entry,
                uint64_t at_ps)
{
    struct bare_entry *to = &bare->port[port->far].in[port->out_at++ % BARE_SLOTS];

    copy(to, entry);
    set_ps(&to->at_ps, at_ps + BARE_HOP_PS);
    port->credits--;
    port->busy_ps = at_ps + BARE_LINK_PS;
    if (port->far_sw != TOPO_NONE)
        bare->told[port->far_sw].came |= UINT64_C(1) << port->far_port;
}

static void pay(struct bare *bare, struct bare_port *port, uint64_t at_ps)
{
    set_ps(&bare->port[port->far].credit_ps[port->paid_at++ % BARE_SLOTS], at_ps + BARE_HOP_PS);
}

/* A credit at hand, or one that is here before @until_ps, which the link then waits for. */
static bool has_credit(struct bare_port *port, uint64_t until_ps)
{
    _Atomic uint64_t *due = &port->credit_ps[port->due_at % BARE_SLOTS];

    if (port->credits)
        return true;
    uint64_t ps = ps_of(due);
    if (ps == 0 || ps > until_ps)
        return false;
    if (port->busy_ps < ps)
        port->busy_ps = ps;
    set_ps(due, 0);
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

/* From cable to cable, where nothing is in the way. */
static bool pass(struct bare *bare, struct bare_port *port, struct bare_entry *entry,
                 struct bare_port *to)
{
    uint64_t at_ps = ps_of(&entry->at_ps);

    if (to->waiting || to->busy_ps > at_ps || !has_credit(to, at_ps))
        return false;
    put(bare, to, entry, at_ps);
    set_ps(&entry->at_ps, 0);
    pay(bare, port, at_ps);
    bare->hops++;
    return true;
}

/* The front segment of a cable leaves, or waits for its output from now on. */
static void arrive(struct bare *bare, uint32_t sw, uint32_t in)
{
    struct bare_port *port = port_of(bare, sw, in);
    struct bare_entry *entry = &port->in[port->in_at++ % BARE_SLOTS];
    uint32_t out = choose(bare, sw, entry->dst);
    struct bare_port *to = port_of(bare, sw, out);
    uint8_t slot = (uint8_t)__builtin_ctz(port->free);
    size_t queue = queue_of(bare, sw, in, out);

    if (pass(bare, port, entry, to))
        return;
    __builtin_prefetch(&bare->port[to->far].in[to->out_at % BARE_SLOTS], 1);
    copy(&port->held[slot], entry);
    set_ps(&port->held[slot].at_ps, ps_of(&entry->at_ps));
    set_ps(&entry->at_ps, 0);
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

    for (uint64_t came = bare->told[sw].came | bare->told[sw].look; came; came &= came - 1) {
        uint32_t in = (uint32_t)__builtin_ctzll(came), k = count;
        const struct bare_port *port = port_of(bare, sw, in);
        uint64_t ps = ps_of(&port->in[port->in_at % BARE_SLOTS].at_ps);

        if (ps == 0)
            continue;
        if (ps_of(&port->in[(port->in_at + (ps <= until_ps)) % BARE_SLOTS].at_ps))
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
    uint64_t at_ps = ps_of(&entry->at_ps);

    if (at_ps < to->busy_ps)
        at_ps = to->busy_ps;
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

    if (told->came | told->look)
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

    for (uint64_t ports = told->came | told->look | told->outs; ports; ports &= ports - 1) {
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
    uint64_t came_ps = ps_of(&came->at_ps);

    if (came_ps && came_ps <= until_ps) {
        pay(bare, port, came_ps);
        set_ps(&came->at_ps, 0);
        port->in_at++;
        bare->taken++;
        if (until_ps - came_ps > bare->late_ps)
            bare->late_ps = until_ps - came_ps;
    }
    if (*send_ps > until_ps || !has_credit(port, until_ps))
        return;
    uint64_t at_ps = *send_ps > port->busy_ps ? *send_ps : port->busy_ps;
    if (at_ps > until_ps)
        return;
    struct bare_entry entry = {.dst = (uint32_t)(emu_xorshift(&bare->random) >> 32) %
                                      bare->graph->nodes};
    put(bare, port, &entry, at_ps);
    bare->sent++;
    *send_ps += pause_ps(bare);
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
            bare->told[sw].look |= (uint64_t)!own << port;
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
    free(bare->told);
    free(bare->first);
    free(bare->newest);
    free(bare->send_ps);
    free(bare->done);
}

/* False: no memory. In any case bare_close() wants to be called. */
static bool bare_open(struct bare *bare, const struct topo_graph *graph, double load)
{
    size_t inner = (size_t)graph->switches * graph->ports, queues = inner * graph->ports;
    size_t ports = inner + graph->nodes;
    bool huge = emu_pages_begin(ports * sizeof *bare->port + 2 * queues);

    *bare = (struct bare){.graph = graph,
                          .between_ps = (uint64_t)(BARE_LINK_PS / load),
                          .port = emu_zeros(ports * sizeof *bare->port),
                          .told = emu_zeros(graph->switches * sizeof *bare->told),
                          .first = malloc(queues),
                          .newest = malloc(queues),
                          .send_ps = calloc(graph->nodes, sizeof *bare->send_ps),
                          .done = emu_zeros(BARE_WORKERS * sizeof *bare->done)};
    if (huge)
        emu_pages_end();
    if (!bare->port || !bare->told || !bare->first || !bare->newest || !bare->send_ps ||
        !bare->done)
        return false;
    memset(bare->first, BARE_NONE, queues);
    for (size_t i = 0; i < ports; i++) {
        bare->port[i].credits = BARE_SLOTS;
        bare->port[i].free = (1u << BARE_SLOTS) - 1;
    }
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
static void bare_step(struct bare *bare, uint64_t until_ps)
{
    const uint32_t *sw = bare->device, *node = sw + bare->switches;

    for (uint32_t i = 0; i < bare->nodes; i++) {
        if (i + BARE_AHEAD < bare->nodes)
            __builtin_prefetch(port_of_node(bare, node[i + BARE_AHEAD]), 1);
        step_node(bare, node[i], until_ps);
    }
    for (uint32_t i = 0; i < bare->switches; i++) {
        if (i + BARE_AHEAD < bare->switches)
            fetch_switch(bare, sw[i + BARE_AHEAD]);
        step_switch(bare, sw[i], until_ps);
    }
}

static void *bare_run(void *of)
{
    struct bare *bare = of;

    for (uint64_t ps = bare->from_ps; ps < bare->to_ps; ps += BARE_HOP_PS) {
        bare_step(bare, ps + BARE_HOP_PS - 1);
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
                          const struct bench_virtual_how *how)
{
    struct bare bare[BARE_WORKERS] = {0};
    struct topo_graph *graph;
    char error[256];
    double mhops = 0;

    if (topo_parse(&graph, what->topo, error, sizeof error) != 0)
        return 0;
    if (bare_open(&bare[0], graph, what->load))
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
        bare_step(&real->bare, now_ps);
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
        bare_step(bare, real_now_ps(real));
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
