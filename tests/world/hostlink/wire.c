/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c - see wire.h. */
#include "tests/world/hostlink/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/random.h"

/* A frame on its way. */
struct packet {
    uint64_t due_ns;
    uint64_t order; /* of those due at once */
    uint32_t bytes;
    uint8_t data[];
};

/* A frame of a port. */
struct own {
    struct emu_hostframe frame;
    uint32_t holders;
    uint64_t held_ns; /* the device holds it until then; 0: it does not */
    uint8_t *data;
};

struct port {
    struct emu_hostport port;
    struct wire *wire;
    struct wire_faults faults;
    struct own *own;
    struct own **free;
    uint32_t frees, reserved;
    struct packet **coming; /* a heap: the next first */
    uint32_t comings, room;
    uint64_t busy_ns;
    uint64_t unreceived;
};

struct wire {
    uint64_t now_ns;
    uint64_t cut_ns;
    uint64_t random;
    uint64_t order;
    uint32_t ports, frames, frame_bytes;
    struct wire_tapped **tapped; /* a ring */
    uint32_t taps;
    uint64_t tap;
    struct port port[];
};

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "wire: %s\n", what);
    abort();
}

static void *zeros(size_t count, size_t bytes)
{
    void *at = calloc(count, bytes);

    must(at, "no memory");
    return at;
}

static struct port *port_of(struct emu_hostport *port)
{
    return (struct port *)(void *)port;
}

static bool befalls(struct wire *wire, uint32_t rate)
{
    return rate && emu_splitmix(&wire->random) % WIRE_UNIT < rate;
}

/* --- frames under way ------------------------------------------------------------------ */

static bool before(const struct packet *a, const struct packet *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void swap(struct port *port, uint32_t a, uint32_t b)
{
    struct packet *was = port->coming[a];

    port->coming[a] = port->coming[b];
    port->coming[b] = was;
}

static void coming_add(struct port *port, struct packet *packet)
{
    uint32_t at = port->comings++;

    if (at == port->room) {
        port->room = port->room ? 2 * port->room : 64;
        port->coming = realloc(port->coming, port->room * sizeof(struct packet *));
        must(port->coming, "no memory");
    }
    port->coming[at] = packet;
    for (; at && before(port->coming[at], port->coming[(at - 1) / 2]); at = (at - 1) / 2)
        swap(port, at, (at - 1) / 2);
}

static struct packet *coming_take(struct port *port)
{
    struct packet *first = port->coming[0];
    uint32_t at = 0;

    port->coming[0] = port->coming[--port->comings];
    for (;;) {
        uint32_t least = at, child = 2 * at + 1;

        for (uint32_t i = child; i < child + 2 && i < port->comings; i++)
            if (before(port->coming[i], port->coming[least]))
                least = i;
        if (least == at)
            return first;
        swap(port, at, least);
        at = least;
    }
}

static struct packet *packet_add(struct port *to, const uint8_t *data, uint32_t bytes,
                                 uint64_t due_ns)
{
    struct packet *packet = zeros(1, sizeof *packet + bytes);

    packet->due_ns = due_ns;
    packet->order = to->wire->order++;
    packet->bytes = bytes;
    memcpy(packet->data, data, bytes);
    coming_add(to, packet);
    return packet;
}

static void tap(struct wire *wire, uint32_t from, const struct emu_hostframe *frame)
{
    struct wire_tapped *tapped;

    if (!wire->taps)
        return;
    tapped = zeros(1, sizeof *tapped + frame->bytes);
    tapped->from = from;
    tapped->bytes = frame->bytes;
    memcpy(tapped->data, frame->data, frame->bytes);
    free(wire->tapped[wire->tap % wire->taps]);
    wire->tapped[wire->tap++ % wire->taps] = tapped;
}

/* One copy of a frame of @from goes to @to. */
static void copy_goes(struct port *from, struct port *to, const struct emu_hostframe *frame,
                      uint64_t leaves_ns)
{
    struct wire *wire = from->wire;
    const struct wire_faults *faults = &from->faults;
    uint64_t late_ns = faults->jitter_ns ? emu_splitmix(&wire->random) % (faults->jitter_ns + 1)
                                         : 0;
    struct packet *packet;

    if (wire->now_ns < wire->cut_ns || befalls(wire, faults->lost))
        return;
    packet = packet_add(to, frame->data, frame->bytes, leaves_ns + faults->delay_ns + late_ns);
    if (befalls(wire, faults->damaged)) {
        uint64_t bit = emu_splitmix(&wire->random) % (8 * packet->bytes);

        packet->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void frame_goes(struct port *from, const struct emu_hostframe *frame, uint64_t leaves_ns)
{
    struct wire *wire = from->wire;

    tap(wire, (uint32_t)(from - wire->port), frame);
    for (uint32_t i = 0; i < wire->ports; i++) {
        struct port *to = &wire->port[i];

        if (to == from ||
            (!(frame->data[0] & 1) && memcmp(frame->data, to->port.mac, sizeof to->port.mac) != 0))
            continue;
        copy_goes(from, to, frame, leaves_ns);
        if (befalls(wire, from->faults.twice))
            copy_goes(from, to, frame, leaves_ns);
    }
}

/* --- the port's calls -------------------------------------------------------------------- */

static struct emu_hostframe *wire_take(struct emu_hostport *port)
{
    struct port *own = port_of(port);
    struct own *frame;

    if (own->frees <= own->reserved)
        return NULL;
    frame = own->free[--own->frees];
    must(!frame->holders, "a free frame is held");
    frame->holders = 1;
    frame->frame.bytes = 0;
    memset(frame->data, 0xa5, frame->frame.room);
    return &frame->frame;
}

static void wire_keep(struct emu_hostport *port, struct emu_hostframe *frame)
{
    struct own *own = frame->own;

    (void)port;
    must(own->holders, "a frame is kept that nobody holds");
    own->holders++;
}

static void wire_drop(struct emu_hostport *port, struct emu_hostframe *frame)
{
    struct own *own = frame->own;

    must(own->holders, "a frame is dropped that nobody holds");
    if (!--own->holders)
        port_of(port)->free[port_of(port)->frees++] = own;
}

static bool wire_is_alone(struct emu_hostport *port, const struct emu_hostframe *frame)
{
    const struct own *own = frame->own;

    (void)port;
    return own->holders == 1;
}

static uint32_t wire_receive(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t max)
{
    struct port *own = port_of(port);
    uint32_t count = 0;

    while (count < max && own->comings && own->coming[0]->due_ns <= own->wire->now_ns) {
        struct packet *packet = coming_take(own);
        struct emu_hostframe *frame = packet->bytes <= own->wire->frame_bytes ? wire_take(port)
                                                                              : NULL;

        if (frame) {
            memcpy(frame->data, packet->data, packet->bytes);
            frame->bytes = packet->bytes;
            frames[count++] = frame;
        } else {
            own->unreceived++;
        }
        free(packet);
    }
    return count;
}

static uint32_t wire_send(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count)
{
    struct port *own = port_of(port);
    uint64_t now_ns = own->wire->now_ns;
    uint32_t taken = 0;

    for (; taken < count; taken++) {
        struct own *frame = frames[taken]->own;

        if (own->busy_ns < now_ns)
            own->busy_ns = now_ns;
        if (own->faults.queue &&
            (own->busy_ns - now_ns) / (own->faults.each_ns + !own->faults.each_ns) >=
                own->faults.queue)
            break;
        own->busy_ns += own->faults.each_ns;
        must(frames[taken]->bytes && frames[taken]->bytes <= own->wire->frame_bytes,
             "a frame is as long as the port can send");
        must(!frame->held_ns, "a frame is sent while the device has it");
        frame_goes(own, frames[taken], own->busy_ns);
        if (own->faults.hold_ns)
            frame->held_ns = now_ns + own->faults.hold_ns;
        else
            wire_drop(port, frames[taken]);
    }
    return taken;
}

static int wire_wake_fd(struct emu_hostport *port)
{
    (void)port;
    return -1;
}

static void wire_wake_clear(struct emu_hostport *port)
{
    (void)port;
}

static bool wire_is_up(struct emu_hostport *port)
{
    return port_of(port)->wire->now_ns >= port_of(port)->wire->cut_ns;
}

static void wire_close(struct emu_hostport *port)
{
    (void)port; /* the wire's */
}

static const struct emu_hostport_ops wire_ops = {
    .receive = wire_receive,
    .send = wire_send,
    .take = wire_take,
    .keep = wire_keep,
    .is_alone = wire_is_alone,
    .drop = wire_drop,
    .wake_fd = wire_wake_fd,
    .wake_clear = wire_wake_clear,
    .is_up = wire_is_up,
    .close = wire_close,
};

/* --- the wire ------------------------------------------------------------------------------ */

static void port_init(struct wire *wire, uint32_t number)
{
    struct port *port = &wire->port[number];

    port->wire = wire;
    port->port.ops = &wire_ops;
    port->port.mac[0] = 2; /* local */
    port->port.mac[5] = (uint8_t)number;
    port->port.frame_bytes = wire->frame_bytes;
    snprintf(port->port.name, sizeof port->port.name, "wire port %u", number);
    port->own = zeros(wire->frames, sizeof *port->own);
    port->free = zeros(wire->frames, sizeof(struct own *));
    for (uint32_t i = 0; i < wire->frames; i++) {
        struct own *own = &port->own[i];

        own->data = zeros(1, wire->frame_bytes); /* each alone, for the sanitizers */
        own->frame = (struct emu_hostframe){.data = own->data, .room = wire->frame_bytes};
        own->frame.own = own;
        port->free[port->frees++] = own;
    }
}

struct wire *wire_create(uint32_t ports, uint32_t frames, uint32_t frame_bytes, uint64_t seed)
{
    struct wire *wire = zeros(1, sizeof *wire + ports * sizeof wire->port[0]);

    wire->random = seed;
    wire->ports = ports;
    wire->frames = frames;
    wire->frame_bytes = frame_bytes;
    for (uint32_t i = 0; i < ports; i++)
        port_init(wire, i);
    return wire;
}

void wire_destroy(struct wire *wire)
{
    wire_at(wire, UINT64_MAX);
    for (uint32_t i = 0; i < wire->ports; i++) {
        struct port *port = &wire->port[i];

        must(port->frees == wire->frames, "somebody holds a frame still");
        while (port->comings)
            free(coming_take(port));
        for (uint32_t f = 0; f < wire->frames; f++)
            free(port->own[f].data);
        free(port->own);
        free(port->free);
        free(port->coming);
    }
    for (uint32_t i = 0; i < wire->taps; i++)
        free(wire->tapped[i]);
    free(wire->tapped);
    free(wire);
}

struct emu_hostport *wire_port(struct wire *wire, uint32_t port)
{
    return &wire->port[port].port;
}

struct wire_faults *wire_faults(struct wire *wire, uint32_t port)
{
    return &wire->port[port].faults;
}

void wire_at(struct wire *wire, uint64_t now_ns)
{
    must(now_ns >= wire->now_ns, "time goes back");
    wire->now_ns = now_ns;
    for (uint32_t i = 0; i < wire->ports; i++)
        for (uint32_t f = 0; f < wire->frames; f++) {
            struct own *own = &wire->port[i].own[f];

            if (own->held_ns && own->held_ns <= now_ns) {
                own->held_ns = 0;
                wire_drop(&wire->port[i].port, &own->frame);
            }
        }
}

uint64_t wire_next_ns(const struct wire *wire)
{
    uint64_t next_ns = UINT64_MAX;

    for (uint32_t i = 0; i < wire->ports; i++)
        if (wire->port[i].comings && wire->port[i].coming[0]->due_ns < next_ns)
            next_ns = wire->port[i].coming[0]->due_ns;
    return next_ns;
}

void wire_cut(struct wire *wire, uint64_t until_ns)
{
    wire->cut_ns = until_ns;
    for (uint32_t i = 0; i < wire->ports; i++)
        while (wire->port[i].comings)
            free(coming_take(&wire->port[i]));
}

void wire_inject(struct wire *wire, uint32_t port, const uint8_t *data, uint32_t bytes)
{
    packet_add(&wire->port[port], data, bytes, wire->now_ns);
}

void wire_tap(struct wire *wire, uint32_t count)
{
    wire->tapped = zeros(count, sizeof(struct wire_tapped *));
    wire->taps = count;
}

const struct wire_tapped *wire_tapped(const struct wire *wire, uint32_t at)
{
    uint64_t first = wire->tap < wire->taps ? 0 : wire->tap - wire->taps;

    return first + at < wire->tap ? wire->tapped[(first + at) % wire->taps] : NULL;
}

uint32_t wire_free(const struct wire *wire, uint32_t port)
{
    return wire->port[port].frees;
}

void wire_reserve(struct wire *wire, uint32_t port, uint32_t left)
{
    uint32_t frees = wire->port[port].frees;

    wire->port[port].reserved = frees > left ? frees - left : 0;
}

void wire_release(struct wire *wire, uint32_t port)
{
    wire->port[port].reserved = 0;
}
