/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ordered.h - the bare loop's switch with what an output-queued one cannot do without, either.
 *
 * virtual.c's own takes all that comes in a window, and then lets leave what may. Here both are
 * taken in order of time, for who comes chooses by what waits at that moment, and an output by who
 * has come: with that the network carries what fabemu's does. And credits go back by the row
 * guarantee: as long as no queue of an input is fuller than its fullest, at once.
 *
 * What it has not, still: turns among those that come at one and the same time (here the lower port
 * is first), and all that virtual.c says.
 */
#ifndef APPS_BENCH_BARE_ORDERED_H
#define APPS_BENCH_BARE_ORDERED_H

#include "apps/bench/bare/network.h"

/* There are more slots than in network.h: each queue may hold as many as its cable has credits. */
#define BARE_UNHELD UINT16_MAX
static_assert(BARE_PORTS * BARE_PORTS * BARE_SLOTS < BARE_UNHELD, "what waits is numbered");

struct bare_line {
    uint16_t first, last; /* BARE_UNHELD: nothing waits */
};

struct bare_order {
    alignas(
        EMU_LINE) uint64_t stalled; /* ports for which something waits, and no credit is known */
    uint32_t acts;                  /* of act[] */
    uint16_t free;                  /* as in a struct bare_switch */
    uint64_t *act;          /* when ports send, and which: the next one last. No two of one port */
    uint8_t *count;         /* by input and output: what waits; by input and level: of how many */
    struct bare_line *line; /* by input and output */
    uint16_t *next;
    struct bare_entry *held;
};

/* What waits from @in for @out. */
static inline uint8_t *bare_count(const struct bare *bare, uint32_t s, uint32_t in, uint32_t out)
{
    return &bare->order[s].count[in * (bare->ports + BARE_SLOTS) + out];
}

/* Outputs for which @level or more wait from @in; from 1. */
static inline uint8_t *bare_level(const struct bare *bare, uint32_t s, uint32_t in, uint32_t level)
{
    return bare_count(bare, s, in, bare->ports + level - 1);
}

static inline void bare_append(struct bare *bare, uint32_t s, uint32_t in, uint32_t out,
                               const struct bare_entry *entry, uint64_t at_ps)
{
    struct bare_order *order = &bare->order[s];
    struct bare_line *line = &order->line[in * bare->ports + out];
    uint16_t slot = order->free;

    order->free = order->next[slot];
    copy(&order->held[slot], entry);
    set_ps(&order->held[slot].at_ps, at_ps);
    *(line->first == BARE_UNHELD ? &line->first : &order->next[line->last]) = slot;
    line->last = slot;
    order->next[slot] = BARE_UNHELD;
}

/* The oldest of those that wait from @in for @out, which there are: readable until the next one. */
static inline const struct bare_entry *bare_remove(struct bare *bare, uint32_t s, uint32_t in,
                                                   uint32_t out)
{
    struct bare_order *order = &bare->order[s];
    struct bare_line *line = &order->line[in * bare->ports + out];
    uint16_t slot = line->first;

    line->first = order->next[slot];
    order->next[slot] = order->free;
    order->free = slot;
    return &order->held[slot];
}

static inline void bare_plan(struct bare_order *order, uint32_t out, uint64_t at_ps)
{
    uint64_t act = at_ps << 6 | out;
    uint32_t k = order->acts++;

    for (; k && order->act[k - 1] < act; k--)
        order->act[k] = order->act[k - 1];
    order->act[k] = act;
}

/* When what is ready at @at_ps leaves by @port; 0: that is not known, for want of a credit. */
static inline uint64_t bare_leaves_ps(const struct bare_port *port, uint64_t at_ps)
{
    uint64_t credit = credit_ps(port);

    at_ps = at_ps > port->busy_ps ? at_ps : port->busy_ps;
    at_ps = at_ps > credit ? at_ps : credit;
    return credit ? at_ps : 0;
}

/* @leaves_ps: as bare_leaves_ps() says of output @out, for which something waits. */
static inline void bare_plan_port(struct bare_order *order, uint32_t out, uint64_t leaves_ps)
{
    if (leaves_ps)
        bare_plan(order, out, leaves_ps);
    else
        order->stalled |= emu_bit(out);
}

/* @alone: nothing else happens in this switch at the same time. */
static inline void bare_come(struct bare *bare, uint32_t s, uint32_t in, uint64_t at_ps, bool alone)
{
    struct bare_switch *sw = &bare->sw[s];
    struct bare_port *from = &bare->port[port_of(bare, s, in)];
    struct bare_entry *entry = &bare->cable[port_of(bare, s, in)].slot[from->in_at++ % BARE_SLOTS];
    uint32_t out = choose(sw, emu_ports_word(topo_route_ports(&sw->route, entry->dst), 0));
    struct bare_port *to = &bare->port[port_of(bare, s, out)];
    uint64_t leaves_ps = to->waiting ? 0 : bare_leaves_ps(to, at_ps);
    uint8_t *count;

    if (leaves_ps == at_ps && alone) {
        put(bare, to, entry, at_ps);
        set_ps(&entry->at_ps, 0);
        to->last = (uint8_t)in;
        bare->hops++;
        pay(bare, from, at_ps);
        return;
    }
    bare_append(bare, s, in, out, entry, at_ps);
    set_ps(&entry->at_ps, 0);
    if (!to->waiting)
        bare_plan_port(&bare->order[s], out, leaves_ps);
    to->waiting |= emu_bit(in);
    sw->load[out]++;
    sw->outs |= emu_bit(out);
    count = bare_count(bare, s, in, out);
    if ((*bare_level(bare, s, in, ++*count))++)
        pay(bare, from, at_ps);
}

static inline void bare_send(struct bare *bare, uint32_t s, uint32_t out, uint64_t at_ps)
{
    struct bare_switch *sw = &bare->sw[s];
    struct bare_port *to = &bare->port[port_of(bare, s, out)];
    uint32_t in = emu_bits_next(to->waiting, to->last);
    uint8_t *count = bare_count(bare, s, in, out);

    put(bare, to, bare_remove(bare, s, in, out), at_ps);
    bare->hops++;
    to->last = (uint8_t)in;
    sw->outs &= ~((uint64_t) !--sw->load[out] << out);
    if (!--*bare_level(bare, s, in, (*count)--))
        pay(bare, &bare->port[port_of(bare, s, in)], at_ps);
    to->waiting &= ~((uint64_t) !*count << in);
    if (to->waiting)
        bare_plan_port(&bare->order[s], out, bare_leaves_ps(to, at_ps));
}

/* A window, up to @until_ps. */
static inline void bare_step_ordered(struct bare *bare, uint32_t s, uint64_t until_ps)
{
    struct bare_order *order = &bare->order[s];
    uint64_t due[BARE_PORTS + 1], *next = due; /* time and port */
    uint64_t stalled = order->stalled;

    due[bare_due(bare, s, until_ps, true, due)] = UINT64_MAX; /* behind them one that never comes */
    order->stalled = 0;
    emu_each_bit (out, stalled)
        bare_plan_port(order, out, bare_leaves_ps(&bare->port[port_of(bare, s, out)], 0));
    for (;;) {
        uint64_t send_ps = order->acts ? order->act[order->acts - 1] >> 6 : UINT64_MAX;
        uint64_t come_ps = *next >> 6;

        if (come_ps <= until_ps && come_ps <= send_ps) {
            uint32_t in = *next++ % 64;

            bare_come(bare, s, in, come_ps, send_ps != come_ps && *next >> 6 != come_ps);
        } else if (send_ps <= until_ps) {
            bare_send(bare, s, order->act[--order->acts] % 64, send_ps);
        } else {
            return;
        }
    }
}

#endif
