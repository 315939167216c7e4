/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - the engine's host side: segments that the host posts (post.c), and deliveries to it
 * (deliver.c).
 *
 * Owner: the engine's worker; the ends of the cable have their own rules (emu/link/link.h). The
 * engine delivers one packet at a time to the host. If the host has no space for the whole packet,
 * the delivery continues later.
 */
#ifndef NIC_ENGINE_HOST_H
#define NIC_ENGINE_HOST_H

#include "emu/link/link.h"
#include "nic/engine/send.h"

struct engine;

/*
 * The delivery in progress. It has its own copy of the packet's list of buffers, so that it can
 * finish even if another packet begins on the same channel.
 */
struct engine_delivery {
    bool active;
    enum engine_notice notice;
    uint8_t answer; /* the answer to a conditional: enum emu_test_answer */
    uint8_t at;     /* number of host segments handed over */
    uint8_t count;
    uint16_t reply;   /* incoming packet to acknowledge when the delivery ends; ENGINE_NONE: none */
    uint16_t packet;  /* own packet to free when the delivery ends; ENGINE_NONE: none */
    uint32_t process; /* engine_packet.process, if this is a report on an own packet */
    uint32_t buf[ENGINE_SEGS_MAX];
};

typedef void engine_deliver_fn(struct engine *e, uint64_t at_ps);

struct engine_host {
    struct emu_rx in;  /* receives from the host */
    struct emu_tx out; /* sends to the host */
    /* when the host's next segment can be taken; EMU_NEVER if there is none, or no free packet */
    uint64_t in_ps;
    bool in_full;     /* the host's next segment waits for a free packet */
    uint8_t tclass;   /* enum emu_tclass of the packets that are begun now */
    uint32_t process; /* serial number of the attached process (emu_hostif.serial), or 0 */
    struct engine_delivery delivery;
    /* engine_deliver_raw() or engine_deliver_timed(), by the engine's clock */
    engine_deliver_fn *deliver;
};

/**
 * engine_post - send the host segment in @buf to @to, and take the reference. False: no packet is
 * free, and nothing has changed.
 */
bool engine_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps);

/**
 * engine_post_room - clock raw: return how many full segments to @to can be posted together now.
 */
uint32_t engine_post_room(struct engine *e, struct engine_to to);

/** engine_post_run - post up to engine_post_room() full segments, and take their references. */
void engine_post_run(struct engine *e, const uint32_t *bufs, uint32_t count, struct engine_to to);

/**
 * engine_begin - begin a packet with this host segment. A packet must be free. Returns the index of
 * the packet, which is in no list yet.
 */
uint16_t engine_begin(struct engine *e, uint32_t buf, struct engine_to to);

/** engine_take - accept a segment of the host. False: no space now, and nothing has changed. */
bool engine_take(struct engine *e, const struct emu_entry *entry, uint64_t at_ps);

/**
 * engine_take_hostif - clock raw: accept up to @most segments from the host interface @hostif.
 * Returns how many; this is less than @most if there are no more, or if there is no space for the
 * next segment.
 */
uint32_t engine_take_hostif(struct engine *e, struct emu_hostif *hostif, uint32_t most);

/**
 * engine_posts_again - continue to take the host's segments if they have waited and a packet is
 * free.
 */
void engine_posts_again(struct engine *e, uint64_t at_ps);

/** engine_back - report @notice about packet @i, which is in no list, to the host. */
void engine_back(struct engine *e, uint16_t i, enum engine_notice notice, uint64_t at_ps);

/** engine_deliver_raw, engine_deliver_timed - the implementations of engine_deliver(). */
engine_deliver_fn engine_deliver_raw, engine_deliver_timed;

/**
 * engine_may_deliver_fast - clock raw: return whether nothing else must be delivered first, and the
 * host interface has space for @count segments.
 */
bool engine_may_deliver_fast(struct engine *e, uint32_t count);

/**
 * engine_hand_run - copy @count segments unchanged to the host interface, which must have space for
 * them. Takes their references.
 */
void engine_hand_run(struct engine *e, const uint32_t *bufs, uint32_t count);

/**
 * engine_hand_fast - deliver a result that was combined here, and take its reference. Returns
 * false, and does nothing, if the clock is not raw, another delivery comes first, the host has no
 * space, or the result's header must be changed.
 */
bool engine_hand_fast(struct engine *e, uint32_t buf);

/**
 * engine_host_notify - publish the segments that were delivered to the host, and drop the buffers
 * that were copied to it. Called at the end of a step, and after deliveries outside of a step.
 */
void engine_host_notify(struct engine *e);

#endif
