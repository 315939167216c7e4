/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - the engine's side towards its host: what it posts (post.c), what is handed over to it
 * (deliver.c).
 *
 * Owner: the engine's worker; the cable's ends have their own rules (emu/link/link.h). One packet
 * at a time is handed over, and it may wait for room. Which machine the engine is in says how
 * (`deliver`).
 */
#ifndef NIC_ENGINE_HOST_H
#define NIC_ENGINE_HOST_H

#include "emu/link/link.h"
#include "nic/engine/send.h"

struct engine;

/* What is being handed to the host: one packet at a time, so that a superseded one still ends. */
struct engine_delivery {
    bool active;
    enum engine_notice word;
    uint8_t answer; /* enum emu_test_answer */
    uint8_t at;     /* host segments handed over */
    uint8_t count;
    uint16_t reply;   /* incoming to acknowledge in the end; ENGINE_NONE */
    uint16_t packet;  /* of this engine: to free in the end; ENGINE_NONE */
    uint32_t process; /* a word about a packet of this engine: as there */
    uint32_t buf[ENGINE_SEGS_MAX];
};

typedef void engine_deliver_fn(struct engine *e, uint64_t at_ps);

struct engine_host {
    struct emu_rx in;  /* from the host */
    struct emu_tx out; /* to it */
    /* when the next of its segments can be taken; EMU_NEVER: none is known, or full */
    uint64_t in_ps;
    bool in_full;     /* segments of the host wait for a free packet */
    uint32_t process; /* names the one that is attached: emu_hostif.serial; 0: none */
    struct engine_delivery delivery;
    engine_deliver_fn *deliver; /* of the engine's machine: one of the two below */
};

/**
 * engine_post - a host segment in @buf goes to @to; its reference is the
 * engine's from now on. False: there is no free packet; nothing changed.
 */
bool engine_post(struct engine *e, uint32_t buf, struct engine_to to, uint64_t at_ps);

/**
 * engine_post_room - clock raw: so many full segments to @to can be posted together now; 0: none,
 * or not together.
 */
uint32_t engine_post_room(struct engine *e, struct engine_to to);

/** engine_post_run - then: the @count, up to so many, in @bufs. Their references are passed on. */
void engine_post_run(struct engine *e, const uint32_t *bufs, uint32_t count, struct engine_to to);

/** engine_begin - a packet of this one host segment, in no list. There is a free one. */
uint16_t engine_begin(struct engine *e, uint32_t buf, struct engine_to to);

/** engine_take - a segment of the host's enters. False: no room for it now; nothing changed. */
bool engine_take(struct engine *e, const struct emu_entry *entry, uint64_t at_ps);

/**
 * engine_take_edge - clock raw: segments enter from the host's @edge, up to @most. Returns how
 * many; fewer: there are no more, or no room for the next one now.
 */
uint32_t engine_take_edge(struct engine *e, struct emu_hostif *edge, uint32_t most);

/**
 * engine_posts_again - if the host's segments wait for a free packet, and there is one, they go on.
 */
void engine_posts_again(struct engine *e, uint64_t at_ps);

/** engine_back - @word about packet @i goes to the host; it is in no list. */
void engine_back(struct engine *e, uint16_t i, enum engine_notice word, uint64_t at_ps);

/**
 * engine_deliver_raw, engine_deliver_timed - hand over to the host what there is, as far as it has
 * room. Once for each packet; all but the machines call it by engine_deliver().
 */
engine_deliver_fn engine_deliver_raw, engine_deliver_timed;

/**
 * engine_delivers_at_once - clock raw: is nothing to be handed over before what comes now, and has
 * the host, a process's or nobody's, room for @count segments more?
 */
bool engine_delivers_at_once(struct engine *e, uint32_t count);

/** engine_hand_run - then: results made here, for the host. Their references are passed on. */
void engine_hand_run(struct engine *e, const uint32_t *bufs, uint32_t count);

/**
 * engine_deliver_at_once - or: the @count segments in @bufs, of one packet, which say nothing
 * that is not for the host. Their references are passed on.
 */
void engine_deliver_at_once(struct engine *e, const uint32_t *bufs, uint32_t count);

/**
 * engine_hand_at_once - a result in @buf, made here, for the host. Its reference is passed on.
 * False: it is not clock raw, or something is to be handed over before it, or changed in it.
 */
bool engine_hand_at_once(struct engine *e, uint32_t buf);

/**
 * engine_host_tell - the host is told what has been handed over, and what was copied out is
 * dropped. At the end of a step, and of whatever delivers outside of one.
 */
void engine_host_tell(struct engine *e);

#endif
