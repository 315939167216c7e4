/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - the engine's host side: segments that the host posts (post.c), and deliveries to it
 * (deliver.c).
 *
 * Owner: the engine's worker; the ends of the cable have their own rules (emu/link/link.h). One
 * packet at a time is delivered, and may wait for space.
 */
#ifndef NIC_ENGINE_HOST_H
#define NIC_ENGINE_HOST_H

#include "emu/link/link.h"
#include "nic/engine/send.h"

struct engine;

/* The packet that is being delivered, so that a superseded one can still finish. */
struct engine_delivery {
    bool active;
    enum engine_notice word;
    uint8_t answer; /* enum emu_test_answer */
    uint8_t at;     /* host segments handed over */
    uint8_t count;
    uint16_t reply;   /* incoming packet to acknowledge at the end; ENGINE_NONE */
    uint16_t packet;  /* packet of this engine to free at the end; ENGINE_NONE */
    uint32_t process; /* report on a packet of this engine: engine_packet.process */
    uint32_t buf[ENGINE_SEGS_MAX];
};

typedef void engine_deliver_fn(struct engine *e, uint64_t at_ps);

struct engine_host {
    struct emu_rx in;  /* from the host */
    struct emu_tx out; /* to it */
    /* when its next segment can be taken; EMU_NEVER: none is known, or no packet is free */
    uint64_t in_ps;
    bool in_full;     /* segments of the host wait for a free packet */
    uint32_t process; /* the attached process: emu_hostif.serial; 0: none */
    struct engine_delivery delivery;
    engine_deliver_fn *deliver; /* for the engine's clock: one of the two below */
};

/**
 * engine_post - send the host segment in @buf to @to; takes the reference. False: no packet is
 * free, nothing has changed.
 */
bool engine_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps);

/**
 * engine_post_room - clock raw: how many full segments to @to can be posted together now; 0: none.
 */
uint32_t engine_post_room(struct engine *e, struct engine_to to);

/** engine_post_run - post up to that many segments. Takes their references. */
void engine_post_run(struct engine *e, const uint32_t *bufs, uint32_t count, struct engine_to to);

/** engine_begin - start a packet with this host segment, in no list. One is free. */
uint16_t engine_begin(struct engine *e, uint32_t buf, struct engine_to to);

/** engine_take - accept a segment of the host. False: no space now, nothing has changed. */
bool engine_take(struct engine *e, const struct emu_entry *entry, uint64_t at_ps);

/**
 * engine_take_hostif - clock raw: accept up to @most segments from the host interface @hostif.
 * Returns how many; fewer: there are no more, or no space for the next one.
 */
uint32_t engine_take_hostif(struct engine *e, struct emu_hostif *hostif, uint32_t most);

/**
 * engine_posts_again - continue with the host's segments if they waited for a packet and one is
 * free.
 */
void engine_posts_again(struct engine *e, uint64_t at_ps);

/** engine_back - report @word about packet @i to the host; the packet is in no list. */
void engine_back(struct engine *e, uint16_t i, enum engine_notice word, uint64_t at_ps);

/**
 * engine_deliver_raw, engine_deliver_timed - deliver as much as the host has space for. Called by
 * engine_deliver() for each packet.
 */
engine_deliver_fn engine_deliver_raw, engine_deliver_timed;

/**
 * engine_may_deliver_fast - clock raw: does nothing wait to be delivered first, and has the host
 * interface space for @count more segments?
 */
bool engine_may_deliver_fast(struct engine *e, uint32_t count);

/** engine_hand_run - then: deliver results made here. Takes their references. */
void engine_hand_run(struct engine *e, const uint32_t *bufs, uint32_t count);

/**
 * engine_hand_fast - deliver a result made here; takes its reference. False: the clock is not
 * raw, another delivery comes first, or its header must be changed.
 */
bool engine_hand_fast(struct engine *e, uint32_t buf);

/**
 * engine_host_notify - publish what was delivered, and drop buffers that were copied out. At the
 * end of a step, and after deliveries outside of one.
 */
void engine_host_notify(struct engine *e);

#endif
