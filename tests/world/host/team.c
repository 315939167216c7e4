/* SPDX-License-Identifier: BSD-3-Clause */
/* team.c - see team.h. */
#include "tests/world/host/team.h"

#include <string.h>

#include "tests/test.h"

void team_open(struct team *t, uint32_t count, bool shuffle)
{
    uint32_t nodes[FAKE_NODES];

    memset(t, 0, sizeof *t);
    peers_open_on(&t->w, count, shuffle, true);
    t->count = count;
    t->id = 77;
    for (uint32_t i = 0; i < count; i++)
        nodes[i] = i;
    if (count > 1)
        fake_group(t->w.fake, t->id, nodes, count);
    for (uint32_t i = 0; i < count; i++)
        CU_ASSERT_EQUAL_FATAL(fabemu_group_join(t->w.fab[i], t->id, count, &t->group[i]), 0);
}

void team_close(struct team *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->group[i])
            fabemu_group_leave(t->group[i]);
    peers_close(&t->w);
}

bool team_clean(const struct team *t)
{
    bool all = true;

    for (uint32_t i = 0; i < t->count; i++)
        all = all && peers_clean(t->w.fab[i]);
    return all;
}

uint64_t team_register(struct team *t, void *const *at, size_t bytes)
{
    struct fabemu_req req[FAKE_NODES] = {{0}};
    uint64_t key[FAKE_NODES] = {0};

    for (uint32_t i = 0; i < t->count; i++)
        CU_ASSERT_EQUAL_FATAL(fabemu_register_symmetric(t->group[i], at[i], bytes,
                                                        FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE |
                                                            FABEMU_REMOTE_ATOMIC,
                                                        &key[i], &req[i]),
                              0);
    CU_ASSERT_TRUE_FATAL(fake_finish(t->w.fake, req, t->count));
    for (uint32_t i = 0; i < t->count; i++)
        CU_ASSERT_TRUE(req[i].status == 0 && key[i] == key[0]);
    return key[0];
}
