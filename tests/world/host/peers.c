/* SPDX-License-Identifier: BSD-3-Clause */
/* peers.c - see peers.h. */
#include "tests/world/host/peers.h"

#include <string.h>

#include "tests/test.h"

void peers_open_seed(struct peers *w, uint32_t nodes, bool shuffle, bool acknowledged,
                     uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->random = seed;
    w->fake = fake_open(nodes, test_random(&w->random), shuffle);
    if (acknowledged)
        fake_acknowledge(w->fake);
    for (uint32_t i = 0; i < nodes; i++) {
        w->fab[i] = fake_attach(w->fake, i);
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w->fab[i], 1, &w->queue[i]), 0);
    }
}

void peers_open_on(struct peers *w, uint32_t nodes, bool shuffle, bool acknowledged)
{
    peers_open_seed(w, nodes, shuffle, acknowledged, test_seed());
}

void peers_open(struct peers *w, uint32_t nodes, bool shuffle)
{
    peers_open_on(w, nodes, shuffle, false);
}

void peers_close(struct peers *w)
{
    fake_close(w->fake);
}

struct fabemu_dest peers_to(uint32_t node, uint64_t tag, uint64_t data)
{
    return (struct fabemu_dest){.node = node, .queue = 1, .tag = tag, .data = data};
}

/* Of every other tag below 2^32, so that both forms of a short message are sent. */
static uint64_t data_of(uint64_t tag)
{
    return tag % 2 ? ~tag : (uint32_t)~tag;
}

void peers_inject(struct peers *w, uint32_t from, uint32_t node, uint64_t tag, const void *buf,
                  size_t bytes)
{
    struct fabemu_dest dest = peers_to(node, tag, data_of(tag));
    int err;

    while ((err = fabemu_inject(w->queue[from], &dest, buf, bytes)) == -EAGAIN)
        fake_pump(w->fake);
    CU_ASSERT_EQUAL(err, 0);
}

void peers_recv(struct peers *w, uint32_t at, uint32_t node, uint64_t tag, uint64_t ignore,
                void *buf, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};

    memset(req, 0, sizeof *req);
    CU_ASSERT_EQUAL(fabemu_recv(w->queue[at], node, tag, ignore, &iov, 1, req), 0);
}

void peers_send(struct peers *w, uint32_t from, uint32_t node, uint64_t tag, const void *buf,
                size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = (void *)(uintptr_t)buf, .bytes = bytes};
    struct fabemu_dest dest = peers_to(node, tag, data_of(tag));

    memset(req, 0, sizeof *req);
    CU_ASSERT_EQUAL(fabemu_send(w->queue[from], &dest, &iov, 1, req), 0);
}

bool peers_clean(const struct fabemu *fab)
{
    static const struct nic_counts none;

    return memcmp(&fab->counts, &none, sizeof none) == 0;
}
