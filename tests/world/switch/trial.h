/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trial.h - random networks, profiles and traffic in simulated time, all drawn from one number, and
 * what must have arrived in the end.
 *
 * A trial is a value: it owns nothing. What it stands in is a struct sim, the caller's.
 */
#ifndef TESTS_WORLD_TRIAL_H
#define TESTS_WORLD_TRIAL_H

#include "tests/world/switch/sim.h"

#define TRIAL_BROADCASTS 3 /* groups for multicasts */
/* collectives of the group that combines: fewer than half its window */
#define TRIAL_OPS 96u

struct trial_group {
    uint32_t id;
    uint32_t members;
    uint32_t node[SIM_NODES];
};

struct trial {
    uint64_t seed;
    const char *spec;
    struct emu_profile profile;
    uint32_t ops; /* collectives that combine; 0 where the policy has none */
    /* what the times of posts are drawn from: another schedule of the same posts */
    uint64_t spread;
    uint32_t posts;   /* of a node, about */
    uint64_t grid_ps; /* posts are ready at its multiples: many at the same time */
    uint8_t type;     /* of the reductions */
    struct trial_group cast[TRIAL_BROADCASTS];
    struct trial_group all;     /* combines */
    uint32_t expect[SIM_NODES]; /* segments that a node is to get */
};

/** trial_draw - a trial of the policy @buffers. */
struct trial trial_draw(uint64_t seed, enum emu_buffers buffers);

/** trial_say - what it is, on one line: for who looks for a fault. */
void trial_say(const struct trial *t);

/** trial_open - all of it in a simulation, at its beginning; sim_close() ends it. */
void trial_open(struct trial *t, struct sim *w, uint32_t workers);

/** trial_arrived - has everything arrived that was to, once, and with the right numbers? */
bool trial_arrived(const struct trial *t, const struct sim *w);

#endif
