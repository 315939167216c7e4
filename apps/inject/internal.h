/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the injector's state. The manager's thread's.
 */
#ifndef APPS_INJECT_INTERNAL_H
#define APPS_INJECT_INTERNAL_H

#include "apps/inject/inject.h"
#include "emu/fault/fault.h"
#include "emu/util/clock.h"

#define SLOW_PERIOD_PS UINT64_C(10000000000) /* of a slowed process: stopped and running in turn */
#define STEP_MOST      256u    /* beginnings, ends and turns in a step: others wait meanwhile */
#define OVER_KEPT      1000u   /* faults that are over and stay listed; of older ones only sums */
#define LISTED_MOST    131072u /* faults that are listed in all */

/* A fault that was asked for. */
struct injection {
    uint32_t id; /* from 1, in the order of the schedule or of requests */
    struct fault fault;
    uint32_t times;                     /* it has begun */
    bool active;                        /* between a beginning and an end */
    bool on;                            /* and at work: one of turns is, and is not, in turn */
    uint32_t turned;                    /* of its targets, the first so many: it is done to them */
    uint64_t seed;                      /* of this time's draws */
    uint64_t begin_ps, end_ps, turn_ps; /* the next of each; EMU_NEVER */
    bool waits;                         /* on= has not been seen yet */
    bool saw;                           /* it has, since the last step */
    uint64_t past;                      /* hits of rules that are taken back */
    struct fault_targets targets;       /* that it befalls, or befell last */
};

struct injector {
    struct fabric *fabric;
    const struct topo_graph *graph;
    struct manager *manager;
    struct inject_config config;
    struct injection *injection; /* by id, in ascending order */
    uint32_t count, room;
    uint32_t last_id;        /* the last number given out */
    struct inject_past past; /* faults that are not listed any more */

    /* Faults that hold something, each: the last of them to end lets it go. */
    uint32_t *dark;      /* by cable: its signal */
    uint32_t *stuck;     /* two a cable, from its first end and to it: what sends there */
    uint32_t *still;     /* by node: its process */
    uint32_t *stalled;   /* by switch: its combine units */
    uint32_t *exhausted; /* the same: their states, of which groups get none */

    uint64_t look_ps; /* the next look for what faults wait for; EMU_NEVER: none does */
    uint64_t now_ps;
};

/*
 * on.c: the fabric looks out for what the fault waits for; and does not any more. Errors: -ENOMEM.
 */
int inject_watch(struct injector *in, struct injection *f);
void inject_unwatch(struct injector *in, struct injection *f);

/**
 * inject_elsewhere - far.c: the same on other hosts, of a fault that befalls devices, or waits for
 * what they see. Errors: -ENOMEM.
 */
int inject_elsewhere(const struct injector *in, const struct injection *f, enum inject_do what);

/* inject.c: the fault with this number; NULL: it is not listed, or not any more. */
struct injection *inject_find(const struct injector *in, uint32_t id);

/**
 * inject_list - inject.c: add a fault with number @id, which neither begins nor waits yet. @id is
 * above all listed numbers, or (injector_obey()) among them. If the list is full, faults that are
 * over leave it, except the last OVER_KEPT. Errors: NULL, no memory or LISTED_MOST.
 */
struct injection *inject_list(struct injector *in, uint32_t id, const struct fault *fault);

/* inject.c: to all targets here, or to none; taken back from those that it was done to. */
int inject_turn_here(struct injector *in, struct injection *f, bool on);

/*
 * Does, or takes back, what a kind of fault does to one target; workers are held, unless
 * inject_is_of_others(). Errors: -ENOMEM, manager_signal()'s.
 */
typedef int (*inject_turn_fn)(struct injector *in, struct injection *f,
                              const struct fault_target *at, bool on);

/* turns.c: by kind. */
extern const inject_turn_fn inject_turns[FAULT_KINDS];

/*
 * turns.c: entries that it has hit: by its rules, since they were on a cable that it took down, or
 * since they wait at what it has stopped.
 */
uint64_t inject_hits(const struct injector *in, const struct injection *f);

/*
 * turns.c: is the fault applied by the manager or the daemon? These take care of other hosts
 * themselves.
 */
bool inject_is_of_others(enum fault_kind kind);

#endif
