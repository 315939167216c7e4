/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.h - a group on a fake fabric with acknowledgments as all its members see it: nodes 0 to
 * count - 1.
 *
 * It owns the peers that are its members; team_close() lets those leave that have not.
 */
#ifndef TESTS_WORLD_TEAM_H
#define TESTS_WORLD_TEAM_H

#include "tests/world/host/peers.h"

struct team {
    struct peers w;
    uint32_t count;
    uint32_t id;
    struct fabemu_group *group[FAKE_NODES];
};

void team_open(struct team *t, uint32_t count, bool shuffle);
void team_close(struct team *t);

/** team_clean - has no member's adapter dropped anything? */
bool team_clean(const struct team *t);

/** team_register - a region of each member's under one key, with all access; the key. */
uint64_t team_register(struct team *t, void *const *at, size_t bytes);

#endif
