/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peers.h - adapters on a fake fabric, each with a queue; short hands for messages between them.
 *
 * The world owns the fabric, which owns the adapters. One thread steps all in turn: fake_pump(),
 * fake_finish(), fake_quiet(). That no adapter dropped anything is for the test to ask:
 * peers_clean().
 */
#ifndef TESTS_WORLD_PEERS_H
#define TESTS_WORLD_PEERS_H

#include "tests/world/bytes.h"
#include "tests/world/host/fake.h"

struct peers {
    struct fake *fake;
    struct fabemu *fab[FAKE_NODES];
    struct fabemu_queue *queue[FAKE_NODES]; /* queue 1 of each */
    uint64_t random;
};

/** peers_open_seed - @nodes adapters. @shuffle: segments overtake each other, by @seed. */
void peers_open_seed(struct peers *w, uint32_t nodes, bool shuffle, bool acknowledged,
                     uint64_t seed);
/** peers_open_on - the same by the test's own seed; peers_open: without acknowledgments. */
void peers_open_on(struct peers *w, uint32_t nodes, bool shuffle, bool acknowledged);
void peers_open(struct peers *w, uint32_t nodes, bool shuffle);
/** peers_close - whatever is under way. */
void peers_close(struct peers *w);

/** peers_to - queue 1 of @node. */
struct fabemu_dest peers_to(uint32_t node, uint64_t tag, uint64_t data);
/**
 * peers_inject - a short message, with the inverted tag as its data, of even tags its lower half;
 * it waits for room.
 */
void peers_inject(struct peers *w, uint32_t from, uint32_t node, uint64_t tag, const void *buf,
                  size_t bytes);
/** peers_send, peers_recv - begin one; @req is made anew. */
void peers_send(struct peers *w, uint32_t from, uint32_t node, uint64_t tag, const void *buf,
                size_t bytes, struct fabemu_req *req);
void peers_recv(struct peers *w, uint32_t at, uint32_t node, uint64_t tag, uint64_t ignore,
                void *buf, size_t bytes, struct fabemu_req *req);

/** peers_clean - has the adapter dropped nothing? */
bool peers_clean(const struct fabemu *fab);

#endif
