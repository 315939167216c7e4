/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - the injector's state. Thread: manager. */
#ifndef APPS_INJECT_INTERNAL_H
#define APPS_INJECT_INTERNAL_H

#include "apps/inject/inject.h"
#include "emu/fault/fault.h"
#include "emu/util/clock.h"

#define SLOW_PERIOD_PS UINT64_C(10000000000) /* in which a slowed process is stopped once */
#define STEP_MOST      256u    /* changes per step: the caller's other work waits meanwhile */
#define OVER_KEPT      1000u   /* faults that are over and stay listed; of older ones only sums */
#define LISTED_MOST    131072u /* limit of listed faults */

struct injection {
    uint32_t id; /* from 1, in the order of the schedule or of requests */
    struct fault fault;
    uint32_t times;                       /* that it has begun */
    bool active;                          /* between begin and end */
    bool on;                              /* applied; with a duty cycle not always while active */
    uint32_t applied;                     /* number of targets, from the first, it is applied to */
    uint64_t seed;                        /* for the random targets of this time */
    uint64_t begin_ps, end_ps, toggle_ps; /* next begin, end, change of a duty cycle; EMU_NEVER */
    bool waits;                           /* for the event of on= */
    bool saw;                             /* the event has been observed since the last step */
    uint64_t past;                        /* hits of rules that were reverted */
    struct fault_targets targets;         /* present or last ones */
};

struct injector {
    struct fabric *fabric;
    const struct topo_graph *graph;
    struct manager *manager;
    struct inject_config config;
    struct injection *injection; /* by id, in ascending order */
    uint32_t count, capacity;
    uint32_t last_id;
    struct inject_past past; /* faults that are no longer listed */

    /* Number of active faults on each target: it recovers when the last one ends. */
    uint32_t *link_down; /* by cable: its link is down */
    uint32_t *stuck;     /* two per cable, from its first end and to it: sending ports */
    uint32_t *still;     /* by node: its process is stopped */
    uint32_t *stalled;   /* by switch: its combine units */
    uint32_t *exhausted; /* by switch: its combine states */

    uint64_t scan_ps; /* the next check for observed events; EMU_NEVER: no fault waits */
    uint64_t now_ps;
};

/* hits.c: observe the event that the fault waits for; stop observing it. Errors: -ENOMEM. */
int inject_watch(struct injector *in, struct injection *f);
void inject_unwatch(struct injector *in, struct injection *f);

/* remote.c: call other hosts, or only host @only, unless that is 0. Errors: -ENOMEM. */
int inject_elsewhere(const struct injector *in, const struct injection *f, enum inject_do what,
                     uint32_t only);

/* inject.c: the listed fault with this number, or NULL. */
struct injection *inject_find(const struct injector *in, uint32_t id);

/*
 * inject.c: list a fault with number @id, which neither begins nor waits yet. @id is above all
 * listed numbers or, on a host other than the coordinator, among them. If the list is full, faults
 * that are over leave it, except the last OVER_KEPT. NULL: no memory, or LISTED_MOST.
 */
struct injection *inject_list(struct injector *in, uint32_t id, const struct fault *fault);

/* inject.c: apply the fault to all its targets on this host, or revert it where it is applied. */
int inject_set_here(struct injector *in, struct injection *f, bool on);

/* One direction of a cable. */
struct inject_direction {
    uint32_t cable;
    bool out; /* from its first end */
};

/* Duty cycle of a fault that is alternately applied and reverted. */
struct inject_duty {
    uint64_t on_ps, off_ps;
};

/*
 * How a kind of fault acts on one target. Workers are held meanwhile, unless it is by_others.
 * Errors: -ENOMEM; of manager_signal().
 */
struct inject_kind {
    /* Apply (@on) or revert the fault. Faults that are fault_at_once() are never reverted. */
    int (*set)(struct injector *in, struct injection *f, const struct fault_target *at, bool on);
    /* If `set` is NULL: the same for each direction of a cable that the target names. */
    int (*set_way)(struct injector *in, struct injection *f, struct inject_direction direction,
                   bool on);
    bool by_others;   /* the manager or the daemon applies it, also on other hosts */
    bool stops_ports; /* entries wait at ports of cables for its end */
    /* NULL: it is applied as long as it is active */
    struct inject_duty (*duty)(const struct fault *fault);
    /* Entries that wait for its end at this target, which count as hit; NULL: never any. */
    uint64_t (*waiting)(const struct injector *in, const struct fault_target *at);
};

/* apply.c */
const struct inject_kind *inject_kind(const struct injection *f);
bool inject_is_by_others(enum fault_kind kind);
int inject_set(struct injector *in, struct injection *f, const struct fault_target *at, bool on);

/* apply.c: the direction of the target's cable that leaves the target's port, or enters it. */
struct inject_direction inject_direction_of(const struct injector *in,
                                            const struct fault_target *at, bool leaves);

/*
 * hits.c: number of entries that the fault has hit: by its rules, on links that it took down, or
 * waiting at devices that it has stopped.
 */
uint64_t inject_hits(const struct injector *in, const struct injection *f);

#endif
