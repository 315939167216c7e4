/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * talk.h - two sessions that talk over a wire (wire.h), in simulated time; nothing here needs
 * CUnit.
 *
 * Each end puts records in that follow from their number, and checks those that come: the next
 * number, and every byte. In each life both count from 0. More ports of the wire are strangers'.
 */
#ifndef TESTS_WORLD_HOSTLINK_TALK_H
#define TESTS_WORLD_HOSTLINK_TALK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/session/session.h"
#include "tests/world/hostlink/wire.h"

#define TALK_NEVER UINT64_MAX

struct talk_end {
    struct emu_session_config config;
    struct emu_session *session; /* NULL: not there */
    uint64_t random;             /* state of the handshake's numbers */
    uint64_t limit;              /* records that it puts in, in each life */
    uint64_t put;
    uint64_t got;
    uint64_t wrong; /* records that were not the next ones */
    uint64_t put_life;
    uint64_t got_life;
};

struct talk {
    struct wire *wire;
    struct talk_end end[2]; /* ports 0 and 1 */
    uint64_t now_ns;
    uint64_t seed; /* of records' lengths */
};

struct talk_config {
    uint32_t ports;       /* 0: two */
    uint32_t frames;      /* of each port; 0: enough */
    uint32_t frame_bytes; /* 0: 1514 */
    uint32_t window;      /* 0: 64 */
    uint64_t silent_ns;   /* 0: never */
    bool keyed;
};

/** talk_create - the wire and both ends' configurations; the ends are not there yet. */
void talk_create(struct talk *talk, const struct talk_config *config, uint64_t seed);
void talk_destroy(struct talk *talk);

/** talk_come, talk_go - an end begins, by its configuration; it ends, without a word. */
int talk_come(struct talk *talk, uint32_t end);
void talk_go(struct talk *talk, uint32_t end);

/** talk_step - both ends receive, put, and send; then it is the time of what happens next. */
void talk_step(struct talk *talk);

/** talk_for - steps until @ns later. */
void talk_for(struct talk *talk, uint64_t ns);

/**
 * talk_until_done - steps until all records are there, or @ns are over. Returns whether they are.
 */
bool talk_until_done(struct talk *talk, uint64_t ns);

/** talk_is_up - both ends are, in lives that belong together as far as they know. */
bool talk_is_up(const struct talk *talk);

/** talk_counts - of an end that is there. */
const struct emu_session_counts *talk_counts(const struct talk *talk, uint32_t end);

#endif
