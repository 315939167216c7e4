/* SPDX-License-Identifier: BSD-3-Clause */
/* bare.c - see bare.h. Nothing here is the switches' own code but the rings. */
#include "apps/bench/ack/bare.h"

#include <stdlib.h>
#include <time.h>

#include "emu/alloc.h"
#include "emu/bits.h"
#include "emu/link/channels.h"
#include "emu/now.h"
#include "topo/topo.h"

#define TOPO    "kary:4,3"
#define PORTS   8u  /* of a device; nodes use the first */
#define PACKETS 16u /* of a node, not acknowledged yet: no output's channels are ever all taken */
#define POOL    16u /* slots beyond a channel's own */
#define CREDITS 16u /* of a cable without channels */
#define LOOK    16u /* passes between looks at the clock */

/* A port: both directions of its cable. */
struct bare_port {
    struct emu_ring_end in, out;
    struct emu_credit_end owe, back; /* for what came in, and for what went out */
    struct bare_dev *peer;
    uint64_t peer_bit;
    uint32_t closed;        /* channels of the output, by bit */
    uint32_t room;          /* slots of the far end's pool; without channels, credits */
    uint8_t used[EMU_VCS];  /* by channel of the output, slots taken */
    uint16_t from[EMU_VCS]; /* of which input's channel its packet came: port * EMU_VCS + channel */
    uint16_t to[EMU_VCS];   /* by channel of the input, by which one its packet goes on */
};

struct bare_dev {
    uint64_t told;     /* ports at which something has arrived */
    uint64_t openable; /* outputs with a closed channel */
    uint32_t last;     /* output chosen last */
    uint32_t open;     /* a node's packets */
    uint32_t dst;      /* a node's */
    uint64_t got;      /* segments, at a node */
    const struct topo_route *route;
    struct bare_port port[PORTS];
};

struct bare {
    struct topo_graph *graph;
    struct bare_dev *dev; /* switches, then nodes */
    uint32_t segments;    /* of a packet; 0: no acknowledgments */
};

/* --- what both kinds do ------------------------------------------------------------- */

/* Segments of channel @c that have slots at the far end. */
static inline uint32_t bare_room(struct bare_port *port, uint32_t c, uint32_t wanted)
{
    const struct emu_credit *back;

    if (port->room + !port->used[c] < wanted) {
        while ((back = emu_credit_front(&port->back))) {
            uint32_t left = port->used[back->channel] - back->count;

            port->used[back->channel] = (uint8_t)left;
            port->room += back->count - !left;
            emu_credit_skip(&port->back);
        }
    }
    return port->room + !port->used[c];
}

static inline void bare_spend(struct bare_port *port, uint32_t c, uint32_t count)
{
    port->room -= count - !port->used[c];
    port->used[c] = (uint8_t)(port->used[c] + count);
}

static inline void bare_put(struct bare_port *port, const struct emu_entry *entry, uint32_t c)
{
    struct emu_entry *slot = emu_ring_next(&port->out);

    slot->packet = entry->packet;
    slot->packet.channel = (uint8_t)c;
    slot->buf = entry->buf;
    slot->crc = entry->crc;
    emu_ring_show(slot, 0);
}

static inline void bare_tell(struct bare_dev *dev, uint64_t outs)
{
    emu_each_bit (o, outs)
        dev->port[o].peer->told |= dev->port[o].peer_bit;
}

/* --- with acknowledgments ----------------------------------------------------------- */

/* A reply came by @port: its channel is free, and the reply goes back.Returns by which output. */
static inline uint32_t bare_reply(struct bare_dev *dev, uint32_t p, const struct emu_entry *entry)
{
    struct bare_port *port = &dev->port[p];
    uint32_t v = port->from[entry->packet.channel];

    port->closed |= 1u << entry->packet.channel;
    dev->openable |= emu_bit(p);
    bare_put(&dev->port[v / EMU_VCS], entry, v % EMU_VCS);
    return v / EMU_VCS;
}

/* The packet whose head is @entry gets an output, and a channel of it. False: all are taken. */
static inline bool bare_head(struct bare_dev *dev, uint32_t p, const struct emu_entry *entry)
{
    uint64_t outs = emu_ports_word(topo_route_ports(dev->route, (uint32_t)entry->packet.head), 0) &
                    dev->openable;
    struct bare_port *out;
    uint32_t o, c;

    if (!outs)
        return false;
    o = dev->last = emu_bits_next(outs, dev->last);
    out = &dev->port[o];
    c = (uint32_t)__builtin_ctz(out->closed);
    out->closed &= out->closed - 1;
    dev->openable &= ~((uint64_t)!out->closed << o);
    out->from[c] = (uint16_t)(p * EMU_VCS + entry->packet.channel);
    dev->port[p].to[entry->packet.channel] = (uint16_t)(o * EMU_VCS + c);
    return true;
}

/* The segments at the front of @port that are of one packet. Returns how many went on. */
static inline uint32_t bare_run(struct bare *bare, struct bare_dev *dev, struct bare_port *port,
                                const struct emu_entry *entry)
{
    uint32_t from = entry->packet.channel, w = port->to[from], c = w % EMU_VCS, sent = 0;
    struct bare_port *out = &dev->port[w / EMU_VCS];
    uint32_t room = bare_room(out, c, bare->segments);

    while (sent < room && entry) {
        bool last = entry->packet.last;

        bare_put(out, entry, c);
        emu_ring_skip(&port->in);
        sent++;
        entry = last ? NULL : emu_ring_front(&port->in);
        if (entry && entry->packet.kind != EMU_PACKET_CONT)
            entry = NULL;
    }
    if (!sent)
        return 0;
    bare_spend(out, c, sent);
    emu_credit_put(&port->owe, sent, from, 0);
    return sent;
}

static void bare_switch(struct bare *bare, struct bare_dev *dev)
{
    uint64_t told = dev->told, outs = 0;

    dev->told = 0;
    emu_each_bit (p, told) {
        struct bare_port *port = &dev->port[p];
        const struct emu_entry *entry;

        while ((entry = emu_ring_front(&port->in))) {
            if (entry->packet.kind == EMU_PACKET_ACK) {
                outs |= emu_bit(bare_reply(dev, p, entry));
                emu_ring_skip(&port->in);
                continue;
            }
            if ((entry->packet.kind == EMU_PACKET_HEAD && !bare_head(dev, p, entry)) ||
                !bare_run(bare, dev, port, entry)) {
                dev->told |= emu_bit(p);
                break;
            }
            outs |= emu_bit(port->to[entry->packet.channel] / EMU_VCS);
        }
    }
    bare_tell(dev, outs);
}

/* What came to a node: packets are answered by their last segment. */
static void bare_take(struct bare_dev *dev)
{
    struct bare_port *port = dev->port;
    const struct emu_entry *entry;

    while ((entry = emu_ring_front(&port->in))) {
        struct emu_entry reply = {.packet = entry->packet};

        if (entry->packet.kind == EMU_PACKET_ACK) {
            port->closed |= 1u << entry->packet.channel;
            dev->open--;
        } else {
            dev->got++;
            emu_credit_put(&port->owe, 1, entry->packet.channel, 0);
            reply.packet.kind = EMU_PACKET_ACK;
            if (entry->packet.last)
                bare_put(port, &reply, entry->packet.channel);
        }
        emu_ring_skip(&port->in);
    }
}

static void bare_node(struct bare *bare, struct bare_dev *dev)
{
    struct bare_port *port = dev->port;

    bare_take(dev);
    for (; dev->open < PACKETS; dev->open++) {
        uint32_t c = (uint32_t)__builtin_ctz(port->closed);
        struct emu_entry entry = {.packet = {.head = dev->dst, .kind = EMU_PACKET_HEAD}};

        if (bare_room(port, c, bare->segments) < bare->segments)
            break;
        port->closed &= ~(1u << c);
        for (uint32_t left = bare->segments; left; left--) {
            entry.packet.last = left == 1;
            bare_put(port, &entry, c);
            entry.packet.kind = EMU_PACKET_CONT;
        }
        bare_spend(port, c, bare->segments);
    }
    bare_tell(dev, 1);
}

/* --- without ------------------------------------------------------------------------ */

static inline bool bare_has_credit(struct bare_dev *dev, uint32_t o)
{
    struct bare_port *port = &dev->port[o];
    const struct emu_credit *back;

    while (!port->room && (back = emu_credit_front(&port->back))) {
        port->room += back->count;
        emu_credit_skip(&port->back);
    }
    return port->room;
}

/* An output for @entry, that has a credit; PORTS: none. */
static inline uint32_t bare_plain_route(struct bare_dev *dev, const struct emu_entry *entry)
{
    uint64_t outs = emu_ports_word(topo_route_ports(dev->route, entry->hdr.dst), 0);

    while (outs) {
        uint32_t o = emu_bits_next(outs, dev->last);

        dev->last = o;
        if (bare_has_credit(dev, o))
            return o;
        outs &= ~emu_bit(o);
    }
    return PORTS;
}

static void bare_plain_switch(struct bare_dev *dev)
{
    uint64_t told = dev->told, outs = 0;

    dev->told = 0;
    emu_each_bit (p, told) {
        struct bare_port *port = &dev->port[p];
        const struct emu_entry *entry;
        uint32_t moved = 0;

        for (; (entry = emu_ring_front(&port->in)); moved++) {
            uint32_t o = bare_plain_route(dev, entry);

            if (o == PORTS) {
                dev->told |= emu_bit(p);
                break;
            }
            emu_ring_put_at(&dev->port[o].out, entry, 0);
            dev->port[o].room--;
            outs |= emu_bit(o);
            emu_ring_skip(&port->in);
        }
        if (moved)
            emu_credit_put(&port->owe, moved, 0, 0);
    }
    bare_tell(dev, outs);
}

static void bare_plain_node(struct bare_dev *dev)
{
    const struct emu_entry entry = {.hdr = {.dst = dev->dst}};
    struct bare_port *port = dev->port;
    uint32_t moved = 0;

    for (; emu_ring_front(&port->in); moved++)
        emu_ring_skip(&port->in);
    dev->got += moved;
    if (moved)
        emu_credit_put(&port->owe, moved, 0, 0);
    for (; bare_has_credit(dev, 0); port->room--)
        emu_ring_put_at(&port->out, &entry, 0);
    bare_tell(dev, 1);
}

/* --- all of it ---------------------------------------------------------------------- */

static void bare_pass(struct bare *bare)
{
    struct bare_dev *node = &bare->dev[bare->graph->switches];

    for (uint32_t s = 0; s < bare->graph->switches; s++) {
        if (!bare->dev[s].told)
            continue;
        if (bare->segments)
            bare_switch(bare, &bare->dev[s]);
        else
            bare_plain_switch(&bare->dev[s]);
    }
    for (uint32_t n = 0; n < bare->graph->nodes; n++) {
        if (bare->segments)
            bare_node(bare, &node[n]);
        else
            bare_plain_node(&node[n]);
    }
}

static uint64_t bare_got(const struct bare *bare)
{
    uint64_t got = 0;

    for (uint32_t n = 0; n < bare->graph->nodes; n++)
        got += bare->dev[bare->graph->switches + n].got;
    return got;
}

double bare_step(struct bare *bare, uint64_t run_ns)
{
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = start_ns;
    uint64_t before = bare_got(bare);

    while (now_ns < start_ns + run_ns) {
        for (unsigned i = 0; i < LOOK; i++)
            bare_pass(bare);
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    before = bare_got(bare) - before;
    return before ? (double)(now_ns - start_ns) / (double)before : 0;
}

/* One direction of a cable: from port @p of @from to port @q of @to. */
static bool bare_join(struct bare *bare, struct bare_dev *from, uint32_t p, struct bare_dev *to,
                      uint32_t q)
{
    struct bare_port *port = &from->port[p], *far = &to->port[q];
    uint32_t slots = bare->segments ? EMU_VC_SLOTS : CREDITS;

    port->peer = to;
    port->peer_bit = emu_bit(q);
    port->closed = UINT32_MAX;
    port->room = bare->segments ? POOL : CREDITS;
    from->openable |= emu_bit(p);
    return emu_ring_create(&port->out, &far->in, slots) &&
           emu_credit_create(&far->owe, &port->back, slots);
}

static bool bare_join_switch(struct bare *bare, uint32_t s)
{
    const struct topo_switch *sw = &bare->graph->sw[s];
    struct bare_dev *dev = &bare->dev[s];
    bool good = true;

    dev->route = &sw->route;
    for (uint32_t p = 0; p < bare->graph->ports; p++) {
        const struct topo_end *end = &sw->end[p];

        if (end->kind == TOPO_END_SWITCH) {
            good &= bare_join(bare, dev, p, &bare->dev[end->id], end->port);
        } else if (end->kind == TOPO_END_NODE) {
            struct bare_dev *node = &bare->dev[bare->graph->switches + end->id];

            good &= bare_join(bare, dev, p, node, 0) && bare_join(bare, node, 0, dev, p);
        }
    }
    return good;
}

struct bare *bare_open(uint32_t within, uint32_t segments)
{
    struct bare *bare = emu_zeros(sizeof *bare);
    char error[256];
    bool good;

    if (!bare)
        return NULL;
    bare->segments = segments;
    good =
        !topo_parse(&bare->graph, TOPO, error, sizeof error) &&
        (bare->dev = emu_zeros((bare->graph->switches + bare->graph->nodes) * sizeof *bare->dev));
    for (uint32_t s = 0; good && s < bare->graph->switches; s++)
        good = bare_join_switch(bare, s);
    for (uint32_t n = 0; good && n < bare->graph->nodes; n++)
        bare->dev[bare->graph->switches + n].dst = n - n % within + within - 1 - n % within;
    if (good)
        return bare;
    bare_close(bare);
    return NULL;
}

void bare_close(struct bare *bare)
{
    if (!bare)
        return;
    for (uint32_t d = 0; bare->dev && d < bare->graph->switches + bare->graph->nodes; d++) {
        for (uint32_t p = 0; p < PORTS; p++) {
            emu_ring_destroy(&bare->dev[d].port[p].in);
            emu_credit_destroy(&bare->dev[d].port[p].back);
        }
    }
    free(bare->dev);
    topo_free(bare->graph);
    free(bare);
}
