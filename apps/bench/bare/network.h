/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.h - the network of a bare loop in simulated time: virtual.c says what it is for.
 */
#ifndef APPS_BENCH_BARE_NETWORK_H
#define APPS_BENCH_BARE_NETWORK_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "emu/bits.h"
#include "emu/link/seg.h"
#include "topo/topo.h"

#define BARE_SLOTS   4u      /* segments on a cable and behind it, as many credits */
#define BARE_HOP_PS  110000u /* a switch and a cable: the window, too */
#define BARE_LINK_PS 204800u /* a segment on a link */
#define BARE_NONE    UINT8_MAX
#define BARE_PORTS   32u /* of a switch, at most */

static_assert(256 % BARE_SLOTS == 0, "slots are counted in a byte");
static_assert(BARE_PORTS * BARE_SLOTS < BARE_NONE, "and numbered in one");

struct bare_entry {
    _Atomic uint64_t at_ps; /* 0: nothing here */
    uint32_t dst;
    uint32_t rest[5];
};

/* What comes to a port from its cable. */
struct bare_cable {
    alignas(EMU_LINE) struct bare_entry slot[BARE_SLOTS];
};

/* A port of a switch, or a node. */
struct bare_port {
    alignas(EMU_LINE) _Atomic uint64_t credit_ps[BARE_SLOTS]; /* when each is here; 0: not known */
    uint64_t busy_ps;                                         /* of the link, until then */
    uint64_t waiting;               /* inputs of the same switch that hold something for it */
    uint32_t far;                   /* port at the other end of the cable */
    uint32_t far_sw;                /* to be told of it; TOPO_NONE: nobody */
    uint8_t far_port;               /* there */
    uint8_t in_at, out_at, paid_at; /* slots, free-running; a credit a slot */
    uint8_t last;                   /* input served */
};
static_assert(sizeof(struct bare_port) == EMU_LINE, "a line");

/* What waits from an input of a switch for one of its outputs: slots of held[]. */
struct bare_queue {
    uint8_t first, last; /* BARE_NONE: nothing waits */
};

struct bare_switch {
    alignas(EMU_LINE) uint64_t came[2]; /* ports with something on their cable: now, and next */
    uint64_t look;                      /* ports of whose cables the other worker tells nothing */
    uint64_t outs;                      /* ports for which something waits */
    struct bare_queue *queue;           /* by input and output */
    uint8_t served;                     /* of several ways, the one that was taken last */
    uint8_t free;                       /* the slot of held[] that was used last: next[] goes on */
    uint8_t load[BARE_PORTS];           /* segments that wait for a port */
    struct topo_route route;
    uint8_t next[BARE_PORTS * BARE_SLOTS]; /* behind each slot in its queue */
    struct bare_entry *held;
};

struct bare_line;
struct bare_order;

struct bare_done {
    alignas(2 * EMU_LINE) _Atomic uint64_t ps; /* windows up to there are done */
};

/* A network as one worker has it. */
struct bare {
    const struct topo_graph *graph;
    uint32_t ports; /* of a switch */
    unsigned self, workers;
    unsigned turn;    /* of came[]: which is now */
    uint32_t *device; /* its own: switches, then nodes */
    uint32_t switches, nodes;
    struct bare_done *done; /* of each worker */
    uint64_t from_ps, to_ps;
    struct bare_port *port;   /* of all switches, in order; then one of each node */
    struct bare_cable *cable; /* that comes to it */
    struct bare_switch *sw;
    struct bare_queue *queue;
    struct bare_entry *held;
    struct bare_order *order; /* of each switch; else NULL: ordered.h, and what it has there */
    uint64_t *act;
    uint8_t *count;
    struct bare_line *line;
    uint16_t *next;
    struct bare_entry *ordered;
    uint64_t *send_ps; /* of each node */
    uint64_t between_ps;
    uint64_t random;
    uint64_t hops;
    uint64_t sent, taken; /* by nodes */
    uint64_t late_ps;     /* clock real: of what nodes have taken, the latest */
};

static inline uint32_t port_of(const struct bare *bare, uint32_t sw, uint32_t port)
{
    return sw * bare->ports + port;
}

static inline uint32_t port_of_node(const struct bare *bare, uint32_t node)
{
    return bare->graph->switches * bare->ports + node;
}

/* --- cables --------------------------------------------------------------------------- */

static inline uint64_t ps_of(const _Atomic uint64_t *ps)
{
    return atomic_load_explicit(ps, memory_order_acquire);
}

static inline void set_ps(_Atomic uint64_t *ps, uint64_t to)
{
    atomic_store_explicit(ps, to, memory_order_release);
}

/* All but the time. */
static inline void copy(struct bare_entry *to, const struct bare_entry *from)
{
    to->dst = from->dst;
    memcpy(to->rest, from->rest, sizeof to->rest);
}

/* When the next credit of a port is here; 0: that is not known. */
static inline uint64_t credit_ps(const struct bare_port *port)
{
    return ps_of(&port->credit_ps[port->out_at % BARE_SLOTS]);
}

/* It spends a credit, which is there. */
static inline void put(struct bare *bare, struct bare_port *port, const struct bare_entry *entry,
                       uint64_t at_ps)
{
    uint32_t slot = port->out_at++ % BARE_SLOTS;
    struct bare_entry *to = &bare->cable[port->far].slot[slot];

    set_ps(&port->credit_ps[slot], 0);
    copy(to, entry);
    set_ps(&to->at_ps, at_ps + BARE_HOP_PS);
    port->busy_ps = at_ps + BARE_LINK_PS;
    if (port->far_sw != TOPO_NONE)
        bare->sw[port->far_sw].came[!bare->turn] |= emu_bit(port->far_port);
}

static inline void pay(struct bare *bare, struct bare_port *port, uint64_t at_ps)
{
    set_ps(&bare->port[port->far].credit_ps[port->paid_at++ % BARE_SLOTS], at_ps + BARE_HOP_PS);
}

/* --- a switch ------------------------------------------------------------------------- */

static inline uint32_t choose(struct bare_switch *sw, uint64_t ways)
{
    uint32_t best;

    if (!emu_bits_several(ways))
        return emu_bits_first(ways);
    if (ways & ~sw->outs)
        return sw->served = (uint8_t)emu_bits_next(ways & ~sw->outs, sw->served);
    best = emu_bits_first(ways);
    emu_each_bit (port, ways & (ways - 1))
        best = sw->load[port] < sw->load[best] ? port : best;
    return best;
}

/*
 * What has come to a switch before @until_ps, in order of time: time and port of each in @due, of
 * BARE_PORTS. @windows: what it was told of is due, and one a cable. Returns how many there are.
 */
static inline __attribute__((always_inline)) uint32_t bare_due(struct bare *bare, uint32_t s,
                                                               uint64_t until_ps, bool windows,
                                                               uint64_t *due)
{
    struct bare_switch *sw = &bare->sw[s];
    uint64_t told = sw->came[bare->turn];
    uint32_t count = 0;

    sw->came[bare->turn] = 0;
    emu_each_bit (in, told | sw->look) {
        const struct bare_cable *cable = &bare->cable[port_of(bare, s, in)];
        uint32_t at = bare->port[port_of(bare, s, in)].in_at, k = count;
        uint64_t ps = ps_of(&cable->slot[at % BARE_SLOTS].at_ps);

        if (!(windows && told >> in & 1)) {
            if (!windows && (ps > until_ps || ps_of(&cable->slot[(at + 1) % BARE_SLOTS].at_ps)))
                sw->came[!bare->turn] |= told & emu_bit(in);
            if (ps == 0 || ps > until_ps)
                continue;
        }
        for (count++, ps = ps << 6 | in; k && due[k - 1] > ps; k--)
            due[k] = due[k - 1];
        due[k] = ps;
    }
    return count;
}

#endif
