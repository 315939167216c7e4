/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hops.c - what a hop cannot be less than, clock raw: the tree of 48 switches of `hops.tree`, whose
 * 64 nodes send to nodes drawn at random.
 *
 * For a segment a switch does this and no more: it reads the entry, looks up where it may go,
 * chooses one of these outputs, takes a credit of it, and writes the entry into the next ring. For
 * a port and pass it publishes what it has written, gives back the credits of what it has taken,
 * and counts. Entries are as large as the fabric's, and rings as long.
 *
 * Without queues what finds no credit stays in its ring, with all that is behind it. With them each
 * pair of input and output has one, as in an output-queued router: what finds no credit, or others
 * waiting, is put there; an output with credits serves the inputs that wait for it in turn; and a
 * credit is given back by the row guarantee (docs/ARCHITECTURE.md, section 4). Nobody
 * is told of anything, for all switches are looked at in every pass. There are no payloads, no
 * multicasts, no faults, no links that go down, no processes, no captures, and one kind of switch.
 */
#include "apps/bench/bare/hops.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/alloc.h"
#include "emu/bits.h"
#include "emu/link/ring.h"
#include "emu/now.h"
#include "emu/random.h"

#define ARITY      4u
#define LEVELS     3u
#define NODES      64u             /* ARITY to the power of LEVELS */
#define ROW        (NODES / ARITY) /* switches of a level */
#define PORTS      (2 * ARITY)     /* of a switch: those down, then those up */
#define SLOTS      64u             /* of a ring: the credits of a cable on clock raw */
#define LOOK_EVERY 16              /* passes between looks at the clock */

/*
 * A cable one way. Who sends has as many credits as there are slots that it has not filled, or that
 * were given back; so the two counts are all that both sides share.
 */
struct bare_ring {
    alignas(EMU_LINE) _Atomic uint64_t sent; /* the sender's: segments, and so the port's counter */
    alignas(EMU_LINE) _Atomic uint64_t back; /* the receiver's: credits */
    alignas(EMU_LINE) struct emu_entry slot[SLOTS];
};

struct bare_switch {
    alignas(EMU_LINE) uint8_t ways[NODES]; /* by destination: a bit an output */
    uint64_t sent[PORTS];                  /* by output */
    uint64_t taken[PORTS];                 /* by input */
    uint32_t credits[PORTS];               /* by output */
    struct bare_ring *out[PORTS];
    struct bare_ring *in[PORTS];
    uint32_t ports;  /* those of the highest level have none that lead up */
    uint32_t chosen; /* the last of several outputs */
};

/* What waits at a switch. A queue that is empty begins at its first slot again: it stays warm. */
struct bare_queues {
    alignas(EMU_LINE) uint8_t count[PORTS][PORTS]; /* by input and output */
    uint8_t first[PORTS][PORTS];                   /* where the oldest one is */
    uint64_t waiting[PORTS];                       /* by output: inputs with something for it */
    uint32_t last[PORTS];                          /* by output: the input served last */
    alignas(EMU_LINE) struct emu_entry slot[PORTS][PORTS][SLOTS];
};

struct bare_node {
    struct bare_ring *out, *in;
    uint64_t sent, taken, random;
    uint32_t strayed; /* not 0: something came that is not for it */
};

struct bare_hops {
    struct bare_switch sw[LEVELS][ROW];
    struct bare_node node[NODES];
    struct bare_queues (*queues)[ROW]; /* LEVELS; NULL: there are none */
    struct bare_ring *ring;            /* of all cables, two each */
};

/* --- the network -------------------------------------------------------------------- */

/* Cable @c of @level joins it with what is below: the ring that leads up, or the other one. */
static struct bare_ring *bare_cable(const struct bare_hops *bare, uint32_t level, uint32_t c,
                                    bool up)
{
    return &bare->ring[(level * NODES + c) * 2 + up];
}

/* What digit @level of a number stands for. */
static uint32_t bare_unit(uint32_t level)
{
    return level ? ARITY * bare_unit(level - 1) : 1;
}

/*
 * A butterfly. Cables below a level have numbers, and a switch's ports are those whose numbers
 * differ in digit @level alone. Returns the number of the cable at @port of switch @s. The cables
 * above it have the same numbers.
 */
static uint32_t bare_below(uint32_t level, uint32_t s, uint32_t port)
{
    uint32_t unit = bare_unit(level);

    return s / unit * unit * ARITY + port * unit + s % unit;
}

static void bare_switch_join(struct bare_hops *bare, uint32_t level, uint32_t s)
{
    struct bare_switch *sw = &bare->sw[level][s];
    uint32_t unit = bare_unit(level);
    bool top = level + 1 == LEVELS;

    sw->ports = top ? ARITY : PORTS;
    for (uint32_t p = 0; p < ARITY; p++) {
        sw->in[p] = bare_cable(bare, level, bare_below(level, s, p), true);
        sw->out[p] = bare_cable(bare, level, bare_below(level, s, p), false);
        if (top)
            continue;
        sw->in[ARITY + p] = bare_cable(bare, level + 1, bare_below(level, s, p), false);
        sw->out[ARITY + p] = bare_cable(bare, level + 1, bare_below(level, s, p), true);
    }
    for (uint32_t o = 0; o < PORTS; o++)
        sw->credits[o] = SLOTS;
    for (uint32_t d = 0; d < NODES; d++) {
        bool below = d / (unit * ARITY) == s / unit;

        sw->ways[d] = (uint8_t)(below ? emu_bit(d / unit % ARITY) : emu_bits_below(ARITY) << ARITY);
    }
}

void bare_hops_close(struct bare_hops *bare)
{
    if (!bare)
        return;
    free(bare->queues);
    free(bare->ring);
    free(bare);
}

struct bare_hops *bare_hops_open(bool queued)
{
    struct bare_hops *bare = emu_zeros(sizeof *bare);

    if (!bare)
        return NULL;
    bare->ring = emu_zeros(LEVELS * NODES * 2 * sizeof *bare->ring);
    bare->queues = queued ? emu_zeros(LEVELS * sizeof *bare->queues) : NULL;
    if (!bare->ring || (queued && !bare->queues)) {
        bare_hops_close(bare);
        return NULL;
    }
    for (uint32_t level = 0; level < LEVELS; level++)
        for (uint32_t s = 0; s < ROW; s++)
            bare_switch_join(bare, level, s);
    for (uint32_t n = 0; n < NODES; n++)
        bare->node[n] = (struct bare_node){.out = bare_cable(bare, 0, n, true),
                                           .in = bare_cable(bare, 0, n, false),
                                           .random = emu_spread(n + 1)};
    return bare;
}

/* --- what moves --------------------------------------------------------------------- */

static void bare_copy(struct emu_entry *to, const struct emu_entry *from)
{
    to->hdr = from->hdr;
    to->buf = from->buf;
    to->born_ns = from->born_ns;
}

/*
 * What came by input @r goes on, as far as there are credits. Returns the outputs that have some
 * left, of @open. The branch where one has spent its last is seldom taken; without it each choice
 * waits for the one before it, and there are 110 to 120 million hops a second instead of 150.
 */
static inline uint64_t bare_take(struct bare_switch *sw, uint32_t r, uint64_t open)
{
    struct bare_ring *in = sw->in[r];
    uint64_t at = sw->taken[r];
    uint64_t come = atomic_load_explicit(&in->sent, memory_order_acquire);

    for (; at != come; at++) {
        const struct emu_entry *entry = &in->slot[at % SLOTS];
        uint64_t outs = sw->ways[entry->hdr.dst] & open;

        if (!outs)
            break;
        uint32_t o = emu_bits_next(outs, sw->chosen);
        sw->chosen = emu_bits_several(outs) ? o : sw->chosen;
        bare_copy(&sw->out[o]->slot[sw->sent[o]++ % SLOTS], entry);
        if (__builtin_expect(!--sw->credits[o], 0))
            open &= ~emu_bit(o);
    }
    if (at != sw->taken[r]) {
        sw->taken[r] = at;
        atomic_store_explicit(&in->back, at, memory_order_release);
    }
    return open;
}

static void bare_switch_step(struct bare_switch *sw)
{
    uint64_t open = 0;

    for (uint32_t o = 0; o < sw->ports; o++) {
        uint64_t back = atomic_load_explicit(&sw->out[o]->back, memory_order_acquire);

        sw->credits[o] = SLOTS - (uint32_t)(sw->sent[o] - back);
        open |= (uint64_t)(sw->credits[o] != 0) << o;
    }
    for (uint32_t r = 0; r < sw->ports; r++)
        open = bare_take(sw, r, open);
    for (uint32_t o = 0; o < sw->ports; o++)
        atomic_store_explicit(&sw->out[o]->sent, sw->sent[o], memory_order_release);
}

/* --- the same with queues ----------------------------------------------------------- */

/* What waits for output @o leaves, as far as there are credits. */
static inline void queued_send(struct bare_switch *sw, struct bare_queues *queues, uint32_t o)
{
    uint64_t waiting = queues->waiting[o];
    uint32_t r = queues->last[o], credits = sw->credits[o];

    for (; waiting && credits; credits--) {
        r = emu_bits_next(waiting, r);
        uint8_t first = queues->first[r][o], left = --queues->count[r][o];

        bare_copy(&sw->out[o]->slot[sw->sent[o]++ % SLOTS], &queues->slot[r][o][first % SLOTS]);
        queues->first[r][o] = left ? first + 1 : 0;
        waiting &= ~((uint64_t)!left << r);
    }
    queues->last[o] = r;
    queues->waiting[o] = waiting;
    sw->credits[o] = credits;
}

/* What came by one input in a pass, sorted by output. */
struct queued_burst {
    uint32_t count[PORTS];
    uint8_t at[PORTS][SLOTS]; /* by output: slots of the input's ring */
};

/*
 * The part of a burst that came by input @r and is for output @o moves on: so much of it as there
 * are credits for, the rest into the queue.
 */
static inline void queued_move(struct bare_switch *sw, struct bare_queues *queues, uint32_t r,
                               uint32_t o, const struct queued_burst *burst)
{
    const struct emu_entry *from = sw->in[r]->slot;
    uint32_t count = burst->count[o], credits = sw->credits[o];
    uint32_t goes = count < credits ? count : credits;
    uint32_t behind = (uint32_t)queues->first[r][o] + queues->count[r][o];
    uint64_t sent = sw->sent[o];

    for (uint32_t i = 0; i < goes; i++)
        bare_copy(&sw->out[o]->slot[sent++ % SLOTS], &from[burst->at[o][i]]);
    sw->sent[o] = sent;
    sw->credits[o] = credits - goes;
    for (uint32_t i = goes; i < count; i++)
        bare_copy(&queues->slot[r][o][behind++ % SLOTS], &from[burst->at[o][i]]);
    queues->count[r][o] += (uint8_t)(count - goes);
    queues->waiting[o] |= (uint64_t)(count > goes) << r;
}

/*
 * All that came by input @r goes on, or into a queue. Of outputs with a credit and without one the
 * former are chosen. Returns the outputs that have some left. Sorted first, so that what there are
 * credits for is asked once for many; asked for each there are 102 to 105 million hops a second in
 * the place of 124 to 134, and where the place to copy to is selected without a branch 76 to 80.
 */
static inline uint64_t queued_take(struct bare_switch *sw, struct bare_queues *queues, uint32_t r,
                                   uint64_t open)
{
    const struct bare_ring *in = sw->in[r];
    uint64_t at = sw->taken[r];
    uint64_t come = atomic_load_explicit(&in->sent, memory_order_acquire);
    struct queued_burst burst;

    memset(burst.count, 0, sizeof burst.count);
    for (; at != come; at++) {
        uint64_t outs = sw->ways[in->slot[at % SLOTS].hdr.dst];
        uint32_t o = emu_bits_next(outs & open ? outs & open : outs, sw->chosen);

        sw->chosen = emu_bits_several(outs) ? o : sw->chosen;
        burst.at[o][burst.count[o]++] = (uint8_t)(at % SLOTS);
        if (__builtin_expect(burst.count[o] == sw->credits[o], 0))
            open &= ~emu_bit(o);
    }
    sw->taken[r] = at;
    for (uint32_t o = 0; o < sw->ports; o++)
        queued_move(sw, queues, r, o, &burst);
    return open;
}

/* Credits that the fullest queue of input @r takes are not given back; all others are. */
static inline void queued_settle(struct bare_switch *sw, const struct bare_queues *queues,
                                 uint32_t r)
{
    uint8_t fullest = 0;

    for (uint32_t o = 0; o < PORTS; o++)
        fullest = queues->count[r][o] > fullest ? queues->count[r][o] : fullest;
    atomic_store_explicit(&sw->in[r]->back, sw->taken[r] - fullest, memory_order_release);
}

static void queued_switch_step(struct bare_switch *sw, struct bare_queues *queues)
{
    uint64_t open = 0;

    for (uint32_t o = 0; o < sw->ports; o++) {
        uint64_t back = atomic_load_explicit(&sw->out[o]->back, memory_order_acquire);

        sw->credits[o] = SLOTS - (uint32_t)(sw->sent[o] - back);
        if (queues->waiting[o])
            queued_send(sw, queues, o);
        open |= (uint64_t)(sw->credits[o] != 0) << o;
    }
    for (uint32_t r = 0; r < sw->ports; r++)
        open = queued_take(sw, queues, r, open);
    for (uint32_t o = 0; o < sw->ports; o++)
        atomic_store_explicit(&sw->out[o]->sent, sw->sent[o], memory_order_release);
    for (uint32_t r = 0; r < sw->ports; r++)
        queued_settle(sw, queues, r);
}

/* --- all of it ---------------------------------------------------------------------- */

static void bare_node_step(struct bare_node *node, uint32_t n)
{
    uint64_t come = atomic_load_explicit(&node->in->sent, memory_order_acquire);
    uint64_t back = atomic_load_explicit(&node->out->back, memory_order_acquire);

    for (; node->taken != come; node->taken++)
        node->strayed |= node->in->slot[node->taken % SLOTS].hdr.dst ^ n;
    atomic_store_explicit(&node->in->back, come, memory_order_release);
    for (; node->sent - back < SLOTS; node->sent++) {
        struct emu_entry entry = {.hdr.dst = (uint32_t)(emu_xorshift(&node->random) >> 32) % NODES};

        bare_copy(&node->out->slot[node->sent % SLOTS], &entry);
    }
    atomic_store_explicit(&node->out->sent, node->sent, memory_order_release);
}

static void bare_pass(struct bare_hops *bare)
{
    for (uint32_t n = 0; n < NODES; n++)
        bare_node_step(&bare->node[n], n);
    for (uint32_t level = 0; level < LEVELS; level++)
        for (uint32_t s = 0; s < ROW; s++) {
            if (bare->queues)
                queued_switch_step(&bare->sw[level][s], &bare->queues[level][s]);
            else
                bare_switch_step(&bare->sw[level][s]);
        }
}

bool bare_hops_stray(const struct bare_hops *bare)
{
    uint32_t strayed = 0;

    for (uint32_t n = 0; n < NODES; n++)
        strayed |= bare->node[n].strayed;
    return strayed;
}

static uint64_t bare_hops_so_far(const struct bare_hops *bare)
{
    uint64_t hops = 0;

    for (uint32_t level = 0; level < LEVELS; level++)
        for (uint32_t s = 0; s < ROW; s++)
            for (uint32_t o = 0; o < PORTS; o++)
                hops += bare->sw[level][s].sent[o];
    return hops;
}

double bare_hops_step(struct bare_hops *bare, uint64_t run_ns)
{
    uint64_t before = bare_hops_so_far(bare), start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now_ns = start_ns;

    while (now_ns < start_ns + run_ns) {
        for (unsigned i = 0; i < LOOK_EVERY; i++)
            bare_pass(bare);
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(now_ns - start_ns) / (double)(bare_hops_so_far(bare) - before);
}
