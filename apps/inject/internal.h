/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - state and functions shared by the injector's files; inject.h explains the terms.
 * Some faults act by *rules* (emu/packet/rule.h) in cables or combine units. Rules count hits.
 */
#ifndef APPS_INJECT_INTERNAL_H
#define APPS_INJECT_INTERNAL_H

#include "apps/inject/inject.h"
#include "emu/fault/fault.h"
#include "emu/util/clock.h"

#define SLOW_PERIOD_PS UINT64_C(10000000000) /* node-slow stops the process once in this time */
#define STEP_MOST      256u    /* limit of changes per step, so as not to delay the caller */
#define OVER_KEPT      1000u   /* at least this many faults stay listed after they are over */
#define LISTED_MOST    131072u /* limit of listed faults */

struct injection {
    uint32_t id; /* its number, from 1, in the order in which faults were added */
    struct fault fault;
    uint32_t times;   /* number of times that it has begun */
    bool active;      /* it has begun and not ended */
    bool on;          /* it is applied; with a duty cycle not always while it is active */
    uint32_t applied; /* number of targets to which it is applied: the first ones of the list */
    uint64_t seed;    /* seed of its random targets when it last began */
    /* times at which it next begins, ends or toggles (duty cycle); EMU_NEVER: never */
    uint64_t begin_ps, end_ps, toggle_ps;
    bool waits;                   /* it waits for the event of on= */
    bool saw;                     /* the event has been observed since the last step */
    uint64_t past;                /* hits that no rule in force counts */
    struct fault_targets targets; /* its targets since it last began */
    uint64_t hosts; /* coordinator: set of the hosts with a device at one of these targets */
};

struct injector {
    struct fabric *fabric;
    const struct topo_graph *graph;
    struct manager *manager;
    struct inject_config config;
    struct injection *injection; /* the listed faults, in the order of their numbers */
    uint32_t count, capacity;    /* elements of `injection`: used, allocated */
    uint32_t last_id;            /* number of the fault that was added last */
    struct inject_past past;     /* sums over faults that are no longer listed */

    /* Counts of the faults that are applied to each target. At 0 the target recovers. */
    uint32_t *link_down; /* by cable: faults that take its link down */
    uint32_t *stuck;   /* by cable and direction (links.h): faults that stop the port that sends */
    uint32_t *stopped; /* by node: faults that stop its process */
    uint32_t *stalled; /* by switch: faults that stop its combine units */
    uint32_t *exhausted; /* by switch: faults that take all its combine states */

    uint64_t scan_ps; /* time of the next check for observed events; EMU_NEVER: no fault waits */
    uint64_t now_ps;  /* time of the present call */
};

/* hits.c: begin or end observing the event that the fault waits for. Errors: -ENOMEM. */
int inject_watch(struct injector *in, struct injection *f);
void inject_unwatch(struct injector *in, struct injection *f);

/*
 * remote.c: let other hosts do @what for the fault: all of them if @only is 0, else host @only.
 * Does nothing if there are none, or if this kind of fault needs no calls. Errors: -ENOMEM.
 */
int inject_elsewhere(const struct injector *in, const struct injection *f, enum inject_action what,
                     uint32_t only);

/* remote.c: return a bit for each host that has a device at a target of the fault. */
uint64_t inject_target_hosts(const struct injector *in, const struct injection *f);

/* remote.c: return a bit for each host that may have counted hits of the fault. */
uint64_t inject_hosts(const struct injection *f);

/* inject.c: return the listed fault with number @id, or NULL. */
struct injection *inject_find(const struct injector *in, uint32_t id);

/*
 * inject.c: add a fault to the list; the caller sets its time to begin, or lets it wait. @id: its
 * number, which on the coordinator is above all listed ones. If the list is full, faults that are
 * over leave it, except the last OVER_KEPT. On other hosts they leave it only by injector_forget().
 * NULL: no memory, or LISTED_MOST faults are listed.
 */
struct injection *inject_list(struct injector *in, uint32_t id, const struct fault *fault);

/* inject.c: apply the fault to all targets on this host (@on), or revert it where it is applied. */
int inject_set_here(struct injector *in, struct injection *f, bool on);

struct inject_direction {
    uint32_t cable;
    bool out; /* the direction leaves its first end */
};

/* Duty cycle of a fault: it is alternately applied for @on_ps and reverted for @off_ps. */
struct inject_duty {
    uint64_t on_ps, off_ps;
};

/*
 * How a kind of fault acts on one target. The workers are held during these calls, unless
 * `by_others` is set. Errors: -ENOMEM, and those of manager_signal().
 */
struct inject_kind {
    /* Apply (@on) or revert the fault. Faults that are fault_at_once() are never reverted. */
    int (*set)(struct injector *in, struct injection *f, const struct fault_target *at, bool on);
    /* If `set` is NULL: apply or revert it for each direction of a cable that the target names. */
    int (*set_direction)(struct injector *in, struct injection *f,
                         struct inject_direction direction, bool on);
    bool by_others;   /* the manager or the daemon applies it, on all hosts */
    bool on_links;    /* the manager takes links down and up */
    bool stops_ports; /* it stops ports of cables, where entries then wait until it is reverted */
    /* Return its duty cycle. NULL: it is applied as long as it is active. */
    struct inject_duty (*duty)(const struct fault *fault);
    /*
     * Return the number of hits at this target that are not yet in injection.past: entries that
     * wait until the fault is reverted, or groups that were refused. NULL: there are none.
     */
    uint64_t (*waiting)(const struct injector *in, const struct fault_target *at);
};

/* apply.c: return how the fault's kind acts, and whether a kind has `by_others`. */
const struct inject_kind *inject_kind(const struct injection *f);
bool inject_is_by_others(enum fault_kind kind);

/* apply.c: apply the fault to one target, or revert it there. If it fails, it is not applied. */
int inject_set(struct injector *in, struct injection *f, const struct fault_target *at, bool on);

/* apply.c: return the direction of a target's cable that leaves its port (@leaves) or enters it. */
struct inject_direction inject_direction_of(const struct injector *in,
                                            const struct fault_target *at, bool leaves);

/*
 * hits.c: return the number of hits of the fault on this host: by its rules, on links that it took
 * down, or waiting at devices that it has stopped.
 */
uint64_t inject_hits(const struct injector *in, const struct injection *f);

#endif
