/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject.h - injects faults into a running fabric: each begins at its time, on the cables, switches
 * or nodes that it names or draws at random, ends, and may begin again.
 *
 * Times are the manager's (apps/manager/manager.h), so that a schedule on clock virtual is exact.
 * Random targets depend on the seed, the fault's number, and how often it has begun.
 *
 * Thread: manager; on clock virtual between two advances.
 */
#ifndef APPS_INJECT_INJECT_H
#define APPS_INJECT_INJECT_H

#include "apps/fault/fault.h"
#include "apps/manager/manager.h"
#include "emu/fault/log.h"

struct injector;

/* Action on a node's process. */
enum inject_process { INJECT_FREEZE, INJECT_GO_ON, INJECT_KILL };

struct inject_event {
    uint32_t id;
    const struct fault *fault;
    bool begins; /* false: it ends */
    uint64_t at_ps;
    uint32_t targets;
};

/* A call from the coordinator's injector to those of other hosts (injector_apply_call()). */
struct inject_call {
    enum inject_do {
        INJECT_ON,     /* apply the fault to all targets with a device there */
        INJECT_OFF,    /* revert it, also if it is not applied, or not to all targets */
        INJECT_WATCH,  /* observe the event that the fault waits for (on=) */
        INJECT_UNWATCH /* stop observing it */
    } what;
    uint32_t id;
    const struct fault *fault;
    uint64_t seed; /* for random targets: all hosts find the same */
    uint32_t only; /* the host to call; 0: all */
};

/*
 * Calls to the other hosts of a coordinator. They return when all hosts are done. Never made while
 * workers are held, because workers carry them.
 */
struct inject_remote {
    int (*call)(void *ctx, const struct inject_call *call); /* Errors: -ENOMEM */
    void (*taken_out)(void *ctx, uint32_t cable);           /* injector_taken_out() */
    uint64_t (*hits)(void *ctx, uint32_t id);               /* as last reported */
    void *ctx;
};

struct inject_config {
    struct fault_network network; /* the fabric's; borrowed */
    uint64_t seed;
    uint64_t origin_ps;                 /* start of schedules */
    uint64_t scan_ps;                   /* interval of checks for observed events (on=), above 0 */
    const struct inject_remote *remote; /* borrowed; NULL: there are no other hosts */
    void (*event)(void *ctx, const struct inject_event *event); /* may be NULL */
    /* NULL: nodes have no processes. Returns false if none is attached to the node. */
    bool (*process)(void *ctx, uint32_t node, enum inject_process what);
    void *ctx;
};

/* Sums over past faults that are no longer listed. */
struct inject_past {
    uint64_t faults;
    uint64_t times; /* that they began */
    uint64_t hits;  /* on other hosts as far as they had been fetched */
};

/* State of a fault. */
struct inject_state {
    uint32_t id;
    const struct fault *fault;
    uint32_t times; /* that it has begun */
    bool active;
    bool over;        /* it will not begin again */
    uint32_t targets; /* of the last time */
    uint64_t hits;    /* packets or processes that it hit: fault_hits_are() */
    uint64_t next_ps; /* its next change; EMU_NEVER */
};

/** injector_create - @manager: the fabric's. Errors: -ENOMEM. */
int injector_create(struct injector **ret, struct fabric *fabric, struct manager *manager,
                    const struct inject_config *config);
void injector_destroy(struct injector *injector);

/**
 * injector_add - add a fault, whose times count from @from_ps. @id: its number, from 1. @text: one
 * line for the user, also on success. Errors: as fault_check(); -ENOMEM, also for too many faults
 * that are not over.
 */
int injector_add(struct injector *injector, const struct fault *fault, uint64_t from_ps,
                 uint32_t *id, char *text, size_t text_bytes);

/** injector_add_all - add a schedule that starts at the origin. @error names the line. */
int injector_add_all(struct injector *injector, const struct fault_schedule *schedule, char *error,
                     size_t error_bytes);

/**
 * injector_clear - end the fault at @now_ps for good. Errors: -ENOENT. injector_clear_all() - end
 * all faults; returns the first error.
 */
int injector_clear(struct injector *injector, uint32_t id, uint64_t now_ps);
int injector_clear_all(struct injector *injector, uint64_t now_ps);

/**
 * injector_apply_call - execute a call of the coordinator. An injector that gets such calls is
 * never stepped, and its faults have the coordinator's numbers. @now_ps: as for a step. Errors:
 * -ENOMEM; -EINVAL, no such fault; as fault_check(), since a call may be wrong.
 */
int injector_apply_call(struct injector *injector, const struct inject_call *call, uint64_t now_ps);

/**
 * injector_reapply - another host has rejoined with devices without faults: let it apply and
 * observe all current ones. Errors: -ENOMEM, it could not do all of it.
 */
int injector_reapply(const struct injector *injector, uint32_t host);

/** injector_due_ps - the time of the next step; EMU_NEVER. */
uint64_t injector_due_ps(const struct injector *injector);

/** injector_is_active - is any fault active? */
bool injector_is_active(const struct injector *injector);

/** injector_will_revert - is any fault active that will end? Then a stall may end by itself. */
bool injector_will_revert(const struct injector *injector);

/**
 * injector_step - do what is due by @now_ps, with a limit per call: injector_due_ps() says whether
 * more is due. Errors: -ENOMEM; that fault is not tried again.
 */
int injector_step(struct injector *injector, uint64_t now_ps);

/**
 * injector_observe - handle an entry of the fabric's fault log, before the step. True: it is not a
 * hit, but the event that a fault waits for (on=).
 */
bool injector_observe(struct injector *injector, const struct emu_fault_hit *hit, uint64_t now_ps);

/**
 * injector_taken_out - count entries that wait at a stuck port as hit by the faults that stopped
 * it, since the manager is about to take the cable out of use and to reroute them.
 */
void injector_taken_out(struct injector *injector, uint32_t cable, uint64_t now_ps);

/** injector_waits - does a fault wait for an event, so that the fault log must be read? */
bool injector_waits(const struct injector *injector);

/**
 * injector_count, injector_at - the listed faults, in the order in which they were added: all that
 * are not over, and at least the last 1000 that are. injector_past() - sums over the others.
 */
uint32_t injector_count(const struct injector *injector);
struct inject_state injector_at(const struct injector *injector, uint32_t i);
struct inject_past injector_past(const struct injector *injector);

#endif
