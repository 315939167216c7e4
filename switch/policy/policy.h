/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy.h - adaptive routing: which of several candidate outputs a segment or a packet takes.
 *
 * A policy is one file in this folder, with one struct route_policy. The list of policies is
 * EMU_CHOICES in emu/packet/profile.h; the profile's field `choice` names one of them.
 * docs/recipes.md says how to add a policy. Every kind of router calls route_choose(), which first
 * selects the best candidates by the policy's metric, and then lets the policy's pick() choose one
 * of these. With the metric switch_queued the best are all lightly loaded candidates (profile:
 * light_slots, light_pending). If there are none, the best are those with the shortest queue. The
 * routers keep the set of lightly loaded outputs up to date, so this selection mostly costs one
 * AND. Any other metric is computed for each candidate.
 *
 * Thread: the switch's worker.
 */
#ifndef SWITCH_POLICY_H
#define SWITCH_POLICY_H

#include "emu/packet/profile.h"
#include "switch/common/base.h"

struct route_policy {
    const char *name; /* as in EMU_CHOICES */
    /*
     * Return the load of an output; the candidates with the least load are the best. The function
     * may call the functions of switch/common/device.h. An output whose link is down is never best
     * while the link of another candidate is up.
     */
    uint32_t (*metric)(const struct switch_dev *sw, uint32_t output);
    /* Choose one of @best, which is not empty. It may change only @state. */
    uint32_t (*pick)(struct route_state *state, emu_ports best);
    const char *source; /* the paper that describes it */
};

#define ROUTE_DECLARE(upper, lower) extern const struct route_policy route_##lower;
EMU_CHOICES(ROUTE_DECLARE)
#undef ROUTE_DECLARE

/* policy.c: all policies, by enum emu_choice. */
extern const struct route_policy *const route_policies[EMU_CHOICES_COUNT];

/* The pick of next_free. It is the default policy, so route_choose() has it inline. */
static inline uint32_t route_pick_next(struct route_state *state, emu_ports best)
{
    state->last = emu_ports_next(best, state->last);
    return state->last;
}

/* policy.c: the slow path of route_choose(). @light: the candidates that are lightly loaded. */
uint32_t route_choose_else(struct switch_dev *sw, emu_ports candidates, emu_ports light);

/**
 * route_choose - choose one of several candidate outputs by the switch's policy.
 * @candidates: not empty.
 * @light: all lightly loaded outputs.
 * Source: output-queued routers §2.2 (adaptive up); QsNet III §III (the choice).
 */
static inline uint32_t route_choose(struct switch_dev *sw, emu_ports candidates, emu_ports light)
{
    emu_ports best = candidates & light;

    if (__builtin_expect(sw->policy != &route_next_free, 0))
        return route_choose_else(sw, candidates, best);
    if (!emu_ports_any(best))
        best = sw->kind->shortest(sw, candidates);
    return route_pick_next(&sw->choice, best);
}

#endif
