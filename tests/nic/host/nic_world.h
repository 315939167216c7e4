/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_world.h - adapters on a fake fabric, each with a queue; short hands for tests.
 */
#ifndef TESTS_NIC_WORLD_H
#define TESTS_NIC_WORLD_H

#include <string.h>

#include "tests/nic/host/fake_fabric.h"
#include "tests/test.h"

struct world {
    struct fake *fake;
    struct fabemu *fab[FAKE_NODES];
    struct fabemu_queue *queue[FAKE_NODES]; /* queue 1 of each */
    uint64_t random;
};

static inline void world_open_on(struct world *w, uint32_t nodes, bool shuffle, bool acknowledged)
{
    memset(w, 0, sizeof *w);
    w->random = test_seed();
    w->fake = fake_open(nodes, test_random(&w->random), shuffle);
    if (acknowledged)
        fake_acknowledge(w->fake);
    for (uint32_t i = 0; i < nodes; i++) {
        w->fab[i] = fake_attach(w->fake, i);
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w->fab[i], 1, &w->queue[i]), 0);
    }
}

static inline void world_open(struct world *w, uint32_t nodes, bool shuffle)
{
    world_open_on(w, nodes, shuffle, false);
}

static inline void world_close(struct world *w)
{
    fake_close(w->fake);
}

static inline struct fabemu_dest to(uint32_t node, uint64_t tag, uint64_t data)
{
    return (struct fabemu_dest){.node = node, .queue = 1, .tag = tag, .data = data};
}

static inline void inject(struct world *w, uint32_t from, uint32_t node, uint64_t tag, const void *buf,
                   size_t bytes)
{
    struct fabemu_dest dest = to(node, tag, ~tag);
    int err;

    while ((err = fabemu_inject(w->queue[from], &dest, buf, bytes)) == -EAGAIN)
        fake_pump(w->fake);
    CU_ASSERT_EQUAL(err, 0);
}

static inline void post_recv(struct world *w, uint32_t at, uint32_t node, uint64_t tag, uint64_t ignore,
                      void *buf, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};

    memset(req, 0, sizeof *req);
    CU_ASSERT_EQUAL(fabemu_recv(w->queue[at], node, tag, ignore, &iov, 1, req), 0);
}

static inline void post_send(struct world *w, uint32_t from, uint32_t node, uint64_t tag,
                      const void *buf, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = (void *)(uintptr_t)buf, .bytes = bytes};
    struct fabemu_dest dest = to(node, tag, ~tag);

    memset(req, 0, sizeof *req);
    CU_ASSERT_EQUAL(fabemu_send(w->queue[from], &dest, &iov, 1, req), 0);
}

static inline void fill(uint8_t *buf, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        buf[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static inline bool filled(const uint8_t *buf, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (buf[i] != (uint8_t)(seed + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* No adapter dropped anything. */
static inline bool clean(const struct fabemu *fab)
{
    static const struct nic_counts none;

    return memcmp(&fab->counts, &none, sizeof none) == 0;
}

#endif
