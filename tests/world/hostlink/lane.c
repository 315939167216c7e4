/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.c - see lane.h. */
#include "tests/world/hostlink/lane.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/util/random.h"

struct lane_frame {
    struct emu_hostframe frame; /* first */
    struct lane_frame *next;    /* while nobody holds it */
    uint32_t holders;
};

struct lane_port {
    struct emu_hostport port; /* first */
    int fd;
    struct lane_frame *free;
    struct lane_frame *all;
    uint8_t *bytes;
    uint64_t receives;
    uint64_t sent;
    _Atomic uint32_t lost; /* of LANE_UNIT */
    _Atomic uint64_t seed;
};

struct lane {
    struct lane_port port[2];
};

static struct lane_port *port_of(struct emu_hostport *port)
{
    return (struct lane_port *)port;
}

static struct emu_hostframe *lane_take(struct emu_hostport *port)
{
    struct lane_port *lane = port_of(port);
    struct lane_frame *frame = lane->free;

    if (!frame)
        return NULL;
    lane->free = frame->next;
    frame->holders = 1;
    return &frame->frame;
}

static void lane_keep(struct emu_hostport *port, struct emu_hostframe *frame)
{
    (void)port;
    ((struct lane_frame *)frame)->holders++;
}

static bool lane_is_alone(struct emu_hostport *port, const struct emu_hostframe *frame)
{
    (void)port;
    return ((const struct lane_frame *)frame)->holders == 1;
}

static void lane_drop(struct emu_hostport *port, struct emu_hostframe *frame)
{
    struct lane_frame *own = (struct lane_frame *)frame;

    if (--own->holders)
        return;
    own->next = port_of(port)->free;
    port_of(port)->free = own;
}

static uint32_t lane_receive(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t max)
{
    uint32_t got = 0;

    port_of(port)->receives++;
    while (got < max) {
        struct emu_hostframe *frame = lane_take(port);
        ssize_t bytes = frame ? recv(port_of(port)->fd, frame->data, frame->room, MSG_DONTWAIT)
                              : -1;

        if (bytes <= 0) {
            if (frame)
                lane_drop(port, frame);
            break;
        }
        frame->bytes = (uint32_t)bytes;
        frames[got++] = frame;
    }
    return got;
}

static uint32_t lane_send(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count)
{
    struct lane_port *lane = port_of(port);
    uint32_t lost = atomic_load_explicit(&lane->lost, memory_order_relaxed);
    uint64_t seed = atomic_load_explicit(&lane->seed, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        bool gone = lost && emu_mix(seed + lane->sent++) % LANE_UNIT < lost;

        if (!gone && send(port_of(port)->fd, frames[i]->data, frames[i]->bytes,
                          MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return i;
        lane_drop(port, frames[i]);
    }
    return count;
}

static int lane_wake_fd(struct emu_hostport *port)
{
    return port_of(port)->fd;
}

static void lane_wake_clear(struct emu_hostport *port)
{
    (void)port; /* each frame tells anew */
}

static bool lane_is_up(struct emu_hostport *port)
{
    (void)port;
    return true;
}

static void lane_close(struct emu_hostport *port)
{
    (void)port; /* the lane has it */
}

static const struct emu_hostport_ops lane_ops = {.receive = lane_receive,
                                                 .send = lane_send,
                                                 .take = lane_take,
                                                 .keep = lane_keep,
                                                 .is_alone = lane_is_alone,
                                                 .drop = lane_drop,
                                                 .wake_fd = lane_wake_fd,
                                                 .wake_clear = lane_wake_clear,
                                                 .is_up = lane_is_up,
                                                 .close = lane_close};

static bool port_init(struct lane_port *port, uint32_t frames, uint32_t frame_bytes, uint8_t number)
{
    port->port = (struct emu_hostport){.ops = &lane_ops,
                                       .mac = {2, 0, 0, 0, 0, number},
                                       .frame_bytes = frame_bytes};
    port->all = calloc(frames, sizeof *port->all);
    port->bytes = malloc((size_t)frames * frame_bytes);
    if (!port->all || !port->bytes)
        return false;
    for (uint32_t i = 0; i < frames; i++) {
        port->all[i].frame = (struct emu_hostframe){.data = port->bytes + (size_t)i * frame_bytes,
                                                    .room = frame_bytes};
        port->all[i].next = port->free;
        port->free = &port->all[i];
    }
    return true;
}

struct lane *lane_create(uint32_t frames, uint32_t frame_bytes)
{
    struct lane *lane = calloc(1, sizeof *lane);
    int fd[2];

    if (!lane || socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd)) {
        free(lane);
        return NULL;
    }
    for (uint8_t i = 0; i < 2; i++) {
        lane->port[i].fd = fd[i];
        if (!port_init(&lane->port[i], frames, frame_bytes, i)) {
            lane_destroy(lane);
            return NULL;
        }
    }
    return lane;
}

void lane_destroy(struct lane *lane)
{
    for (uint32_t i = 0; i < 2; i++) {
        close(lane->port[i].fd);
        free(lane->port[i].all);
        free(lane->port[i].bytes);
    }
    free(lane);
}

struct emu_hostport *lane_port(struct lane *lane, uint32_t port)
{
    return &lane->port[port].port;
}

void lane_lose(struct lane *lane, uint32_t rate, uint64_t seed)
{
    for (uint32_t i = 0; i < 2; i++) {
        atomic_store_explicit(&lane->port[i].seed, seed + i, memory_order_relaxed);
        atomic_store_explicit(&lane->port[i].lost, rate, memory_order_relaxed);
    }
}

uint64_t lane_receives(const struct lane *lane, uint32_t port)
{
    return lane->port[port].receives;
}
