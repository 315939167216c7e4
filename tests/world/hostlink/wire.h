/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - Ethernet ports on one wire in memory, with faults, in simulated time.
 *
 * The wire owns its ports and their frames. Whoever tests sets the time; nothing comes before it.
 * What is lost, doubled, damaged or late follows from the seed. Nothing here needs CUnit.
 */
#ifndef TESTS_WORLD_HOSTLINK_WIRE_H
#define TESTS_WORLD_HOSTLINK_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/port/port.h"

#define WIRE_UNIT 1000000u /* rates are of so many frames */

struct wire;

/* What befalls frames that a port sends. */
struct wire_faults {
    uint32_t lost;
    uint32_t twice;
    uint32_t damaged; /* one bit, anywhere */
    uint64_t delay_ns;
    uint64_t jitter_ns; /* up to so much more, each frame for itself: so they overtake */
    uint64_t each_ns;   /* a frame leaves every so often; 0: at once */
    uint32_t queue;     /* frames that wait for that, at most; 0: any number */
    uint64_t hold_ns;   /* the device has a frame for so long after it was taken */
};

/**
 * wire_create - @ports ports, each with @frames frames of @frame_bytes. wire_destroy() takes all
 * back; whoever holds a frame then has forgotten it, and the wire says so by aborting.
 */
struct wire *wire_create(uint32_t ports, uint32_t frames, uint32_t frame_bytes, uint64_t seed);
void wire_destroy(struct wire *wire);

struct emu_hostport *wire_port(struct wire *wire, uint32_t port);
struct wire_faults *wire_faults(struct wire *wire, uint32_t port);

/** wire_at - it is @now_ns. Time never goes back. */
void wire_at(struct wire *wire, uint64_t now_ns);

/** wire_next_ns - when the next frame comes anywhere; UINT64_MAX: none is on its way. */
uint64_t wire_next_ns(const struct wire *wire);

/** wire_cut - until @until_ns what ports send is lost, and nothing that is under way arrives. */
void wire_cut(struct wire *wire, uint64_t until_ns);

/** wire_inject - @bytes bytes arrive at @port now, whoever sent them. */
void wire_inject(struct wire *wire, uint32_t port, const uint8_t *data, uint32_t bytes);

/**
 * wire_tap - from now on copies of the last @count frames that ports send are kept.
 * wire_tapped - the @at-th of them from the oldest, or NULL.
 */
struct wire_tapped {
    uint32_t from; /* port */
    uint32_t bytes;
    uint8_t data[];
};
void wire_tap(struct wire *wire, uint32_t count);
const struct wire_tapped *wire_tapped(const struct wire *wire, uint32_t at);

/** wire_free - frames of @port that nobody holds; wire_reserve() takes all but @left away. */
uint32_t wire_free(const struct wire *wire, uint32_t port);
void wire_reserve(struct wire *wire, uint32_t port, uint32_t left);
void wire_release(struct wire *wire, uint32_t port);

#endif
