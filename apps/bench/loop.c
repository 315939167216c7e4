/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loop.c - measure an upper bound for the results of hops.c and virtual.c: the speed of one loop
 * that only moves segments through the same network.
 *
 * For each segment a switch reads the entry from the cable, looks up its output ports, takes one of
 * them round robin, and writes the entry into the next cable. If that cable is full, the segment
 * waits where it is, and so do all segments behind it. In simulated time an entry also has its time
 * of arrival. A segment leaves when its link is free, and arrives one hop later. Each pass over the
 * network is a window that is as long as one hop, so a segment never moves twice in a pass.
 *
 * The loop has no payloads, headers, queues, channels, collectives, faults or counters, and no
 * second thread. Its entries are as large as those of the fabric.
 */
#include <stdlib.h>
#include <time.h>

#include "apps/bench/internal.h"
#include "emu/util/alloc.h"
#include "emu/util/bits.h"
#include "emu/util/now.h"
#include "emu/util/random.h"
#include "emu/util/pages.h"

#define SLOTS_RAW   64u     /* slots of a cable, as in a fabric of this size */
#define SLOTS_TIMED 16u     /* at load 0.9, an output rarely has more waiting segments */
#define HOP_PS      110000u /* delay of a switch and a cable of profile oq2004 */
#define LINK_PS     204800u /* wire time of a segment on a link of 10 Gb/s */
#define CLOCK_EVERY 16u     /* passes between two reads of the clock */

struct loop_entry {
    uint64_t at_ps; /* time of arrival; 0 on clock raw */
    uint32_t dst;
    uint32_t rest[5];
};

/* One direction of a cable. It is identified by its receiver. */
struct loop_cable {
    uint32_t head, tail;     /* free-running; both 0 when the cable is empty */
    uint32_t sw;             /* the receiving switch; graph->switches: the receiver is a node */
    uint32_t port;           /* port of the receiver */
    uint64_t busy_ps;        /* time until which the link sends earlier segments */
    struct loop_entry *slot; /* ring of loop->slots entries */
};

struct loop_switch {
    uint64_t filled; /* input ports whose cable has segments */
    struct topo_route route;
    uint32_t last; /* the last output that was chosen among several */
};

struct bench_loop {
    const struct topo_graph *graph;
    uint32_t slots;            /* slots of a cable, a power of two */
    struct loop_cable *cable;  /* by switch and port of the receiver, then by node */
    struct loop_cable **out;   /* the cable that leaves a switch, by switch and port */
    struct loop_cable **first; /* the cable that leaves a node */
    struct loop_switch *sw;
    struct loop_entry *slot;
    uint64_t *send_ps; /* by node: time of the next segment */
    uint64_t gap_ps;   /* mean time between two segments of a node; 0: clock raw */
    uint64_t now_ps;
    uint64_t random;
    uint64_t hops;
    bool opposite;
};

/* --- the network -------------------------------------------------------------------- */

static uint32_t loop_cables(const struct topo_graph *graph)
{
    return graph->switches * graph->ports + graph->nodes;
}

static void loop_join(struct bench_loop *loop)
{
    const struct topo_graph *graph = loop->graph;
    uint32_t inner = graph->switches * graph->ports;

    for (uint32_t c = 0; c < loop_cables(graph); c++) {
        loop->cable[c].slot = &loop->slot[(size_t)c * loop->slots];
        loop->cable[c].sw = c < inner ? c / graph->ports : graph->switches;
        loop->cable[c].port = c % graph->ports;
    }
    for (uint32_t c = 0; c < inner; c++) {
        const struct topo_end *end = &graph->sw[c / graph->ports].end[c % graph->ports];

        if (end->kind == TOPO_END_SWITCH) {
            loop->out[c] = &loop->cable[end->id * graph->ports + end->port];
        } else if (end->kind == TOPO_END_NODE) {
            loop->out[c] = &loop->cable[inner + end->id];
            loop->first[end->id] = &loop->cable[c];
        }
    }
    for (uint32_t s = 0; s < graph->switches; s++)
        loop->sw[s].route = graph->sw[s].route;
    for (uint32_t n = 0; n < graph->nodes && loop->gap_ps; n++)
        loop->send_ps[n] = emu_xorshift(&loop->random) % loop->gap_ps;
}

void bench_loop_close(struct bench_loop *loop)
{
    if (!loop)
        return;
    free(loop->cable);
    free(loop->out);
    free(loop->first);
    free(loop->sw);
    free(loop->slot);
    free(loop->send_ps);
    free(loop);
}

struct bench_loop *bench_loop_open(const struct bench_loop_config *config)
{
    const struct topo_graph *graph = config->graph;
    size_t cables = loop_cables(graph), inner = (size_t)graph->switches * graph->ports;
    uint32_t slots = config->load > 0 ? SLOTS_TIMED : SLOTS_RAW;
    bool huge = emu_pages_begin(cables * (slots * sizeof(struct loop_entry)));
    struct bench_loop *loop = emu_zeros(sizeof *loop);

    if (loop)
        *loop = (struct bench_loop){
            .graph = graph,
            .slots = slots,
            .cable = emu_zeros(cables * sizeof *loop->cable),
            .out = calloc(inner, sizeof(struct loop_cable *)),
            .first = calloc(graph->nodes, sizeof(struct loop_cable *)),
            .sw = emu_zeros(graph->switches * sizeof *loop->sw),
            .slot = emu_zeros(cables * slots * sizeof *loop->slot),
            .send_ps = calloc(graph->nodes, sizeof *loop->send_ps),
            .gap_ps = config->load > 0 ? (uint64_t)(LINK_PS / config->load) : 0,
            .random = emu_spread(1),
            .opposite = config->opposite,
        };
    if (huge)
        emu_pages_end();
    if (loop && loop->cable && loop->out && loop->first && loop->sw && loop->slot &&
        loop->send_ps) {
        loop_join(loop);
        return loop;
    }
    bench_loop_close(loop);
    return NULL;
}

/* --- one pass ------------------------------------------------------------------------ */

/*
 * Put a segment into a cable, which must have a free slot. @timed is constant, so the compiler
 * makes two versions.
 */
static inline void loop_put(struct bench_loop *loop, struct loop_cable *to, uint32_t dst,
                            uint64_t at_ps, bool timed)
{
    struct loop_entry *slot = &to->slot[to->tail & (loop->slots - 1)];

    *slot = (struct loop_entry){.dst = dst};
    if (timed) {
        uint64_t leave_ps = at_ps > to->busy_ps ? at_ps : to->busy_ps;

        to->busy_ps = leave_ps + LINK_PS;
        slot->at_ps = leave_ps + HOP_PS;
    }
    if (to->head == to->tail++ && to->sw < loop->graph->switches)
        loop->sw[to->sw].filled |= emu_bit(to->port);
}

static inline bool loop_full(const struct bench_loop *loop, const struct loop_cable *cable)
{
    return cable->tail - cable->head == loop->slots;
}

/* Forward the segments that have arrived at an input port. Returns false if some are left. */
static inline bool loop_forward(struct bench_loop *loop, uint32_t s, uint32_t in, bool timed)
{
    struct loop_cable *const *out = &loop->out[s * loop->graph->ports];
    struct loop_cable *from = &loop->cable[s * loop->graph->ports + in];
    struct loop_switch *sw = &loop->sw[s];

    for (; from->head != from->tail; from->head++) {
        const struct loop_entry *entry = &from->slot[from->head & (loop->slots - 1)];
        uint64_t ports = emu_ports_word(topo_route_ports(&sw->route, entry->dst), 0);
        uint32_t port = emu_bits_next(ports, sw->last);

        if ((timed && entry->at_ps > loop->now_ps) || loop_full(loop, out[port]))
            return false;
        sw->last = emu_bits_several(ports) ? port : sw->last;
        loop_put(loop, out[port], entry->dst, entry->at_ps, timed);
        loop->hops++;
    }
    from->head = from->tail = 0; /* reuse the first slots, which are in the cache */
    return true;
}

static inline void loop_switch_step(struct bench_loop *loop, uint32_t s, bool timed)
{
    emu_each_bit (in, loop->sw[s].filled)
        if (loop_forward(loop, s, in, timed))
            loop->sw[s].filled &= ~emu_bit(in);
}

static uint32_t loop_destination(struct bench_loop *loop, uint32_t node)
{
    uint32_t nodes = loop->graph->nodes;

    if (loop->opposite)
        return nodes - 1 - node;
    return (uint32_t)((emu_xorshift(&loop->random) >> 32) * nodes >> 32);
}

/*
 * Discard the segments that have arrived, and send new ones: at the configured load or, on clock
 * raw, until the cable is full.
 */
static inline void loop_node_step(struct bench_loop *loop, uint32_t node, bool timed)
{
    const struct topo_graph *graph = loop->graph;
    struct loop_cable *in = &loop->cable[graph->switches * graph->ports + node];
    struct loop_cable *out = loop->first[node];

    while (in->head != in->tail &&
           !(timed && in->slot[in->head & (loop->slots - 1)].at_ps > loop->now_ps))
        in->head++;
    if (in->head == in->tail)
        in->head = in->tail = 0;
    while (!loop_full(loop, out) && !(timed && loop->send_ps[node] > loop->now_ps)) {
        loop_put(loop, out, loop_destination(loop, node), loop->send_ps[node], timed);
        if (timed)
            loop->send_ps[node] += loop->gap_ps / 2 + emu_xorshift(&loop->random) % loop->gap_ps;
    }
}

static inline __attribute__((always_inline)) void loop_pass(struct bench_loop *loop, bool timed)
{
    loop->now_ps += HOP_PS;
    for (uint32_t n = 0; n < loop->graph->nodes; n++)
        loop_node_step(loop, n, timed);
    for (uint32_t s = 0; s < loop->graph->switches; s++)
        loop_switch_step(loop, s, timed);
}

double bench_loop_mhops(struct bench_loop *loop, uint64_t run_ns)
{
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = start_ns;
    uint64_t before = loop->hops;

    while (now_ns < start_ns + run_ns) {
        for (unsigned i = 0; i < CLOCK_EVERY; i++) {
            if (loop->gap_ps)
                loop_pass(loop, true);
            else
                loop_pass(loop, false);
        }
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(loop->hops - before) * 1e3 / (double)(now_ns - start_ns);
}
