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
    bool on;                            /* and applied; with a duty it is so in turn */
    uint32_t applied;                   /* to the first so many of its targets */
    uint64_t seed;                      /* of this time's draws */
    uint64_t begin_ps, end_ps, turn_ps; /* the next of each; EMU_NEVER */
    bool waits;                         /* on= has not been seen yet */
    bool saw;                           /* it has, since the last step */
    uint64_t past;                      /* hits of rules that were reverted */
    struct fault_targets targets;       /* that it acts on, or did last */
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

/* inject.c: apply the fault to all its targets on this host, or revert it where it is applied. */
int inject_set_here(struct injector *in, struct injection *f, bool on);

/* One direction of a cable. */
struct inject_way {
    uint32_t cable;
    bool out; /* from its first end */
};

/* A fault that is active and inactive in turn. */
struct inject_duty {
    uint64_t on_ps, off_ps;
};

/*
 * How a kind of fault acts on one target. While it is applied or reverted workers are held, unless
 * it is by_others. Errors: -ENOMEM; of manager_signal().
 */
struct inject_kind {
    int (*apply)(struct injector *in, struct injection *f, const struct fault_target *at);
    /* NULL: the fault is a moment */
    int (*revert)(struct injector *in, struct injection *f, const struct fault_target *at);
    /* The manager or the daemon applies it. They take care of other hosts themselves. */
    bool by_others;
    bool stops_ports; /* entries wait at ports of cables for its end */
    /* NULL: it is active all the time */
    struct inject_duty (*duty)(const struct fault *fault);
    /* Entries that wait for its end at this target: they count as hit. NULL: none do. */
    uint64_t (*waiting)(const struct injector *in, const struct fault_target *at);
};

/* apply.c */
const struct inject_kind *inject_kind(const struct injection *f);
bool inject_is_by_others(enum fault_kind kind);

/* apply.c: the way of the target's cable that leaves the target's port, or (!@leaves) enters it. */
struct inject_way inject_way_of(const struct injector *in, const struct fault_target *at,
                                bool leaves);

/*
 * hits.c: entries that the fault has hit: by its rules, because they were on a cable that it took
 * down, or because they wait at something that it has stopped.
 */
uint64_t inject_hits(const struct injector *in, const struct injection *f);

#endif
