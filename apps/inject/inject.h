/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject.h - faults befall a running fabric: each begins at its time, on the cables, switches or
 * nodes that it names or draws, is taken back, and begins again.
 *
 * Times are the manager's (apps/manager/manager.h), so that a schedule on clock virtual is exact.
 * What is drawn is drawn from the seed, the fault's number, and which time it begins.
 *
 * Thread: the fabric's manager, all of it; on clock virtual between two advances.
 */
#ifndef APPS_INJECT_INJECT_H
#define APPS_INJECT_INJECT_H

#include "apps/fault/fault.h"
#include "apps/manager/manager.h"
#include "emu/fault/log.h"

struct injector;

/* What is done to a node's process. */
enum inject_process { INJECT_FREEZE, INJECT_GO_ON, INJECT_KILL };

/* What its user is told. */
struct inject_event {
    uint32_t id;
    const struct fault *fault;
    bool begins; /* else it is taken back, or over */
    uint64_t at_ps;
    uint32_t targets; /* that it befalls */
};

/* What the injector of whoever governs has those of other hosts do (injector_obey()). */
struct inject_call {
    enum inject_do {
        INJECT_ON,     /* done to all targets that have a device there */
        INJECT_OFF,    /* taken back from them; also if it was not done, or not to all */
        INJECT_WATCH,  /* they look out for what the fault waits for (on=) */
        INJECT_UNWATCH /* and do not any more */
    } what;
    uint32_t id;
    const struct fault *fault;
    uint64_t seed; /* of this time's draws: all find the same targets */
    uint32_t only; /* the host that is to do it; 0: all */
};

/*
 * Other hosts, which this one governs. Each returns when all have done it; never called while
 * workers are held, which carry the calls.
 */
struct inject_far {
    int (*call)(void *ctx, const struct inject_call *call); /* Errors: -ENOMEM */
    void (*taken_out)(void *ctx, uint32_t cable);           /* injector_taken_out() */
    uint64_t (*hits)(void *ctx, uint32_t id);               /* as they said last */
    void *ctx;
};

struct inject_config {
    struct fault_network network; /* the fabric's; borrowed */
    uint64_t seed;
    uint64_t origin_ps;           /* the time from which schedules count */
    uint64_t look_ps;             /* between two looks for what faults wait for (on=), above 0 */
    const struct inject_far *far; /* NULL: there are none; borrowed */
    void (*event)(void *ctx, const struct inject_event *event); /* may be NULL */
    /* NULL: nodes have no processes. Returns false: nobody is attached there. */
    bool (*process)(void *ctx, uint32_t node, enum inject_process what);
    void *ctx;
};

/* Faults that are over and not listed any more: how many, and their sums. */
struct inject_past {
    uint64_t faults;
    uint64_t times; /* how often they began */
    uint64_t hits;  /* those of other hosts as far as they had been fetched */
};

/* A fault, as it is now. */
struct inject_state {
    uint32_t id;
    const struct fault *fault;
    uint32_t times; /* it has begun */
    bool active;
    bool over;        /* it never begins again */
    uint32_t targets; /* that it befell last */
    uint64_t hits;    /* entries that it hit; of links: packets that were under way on them */
    uint64_t next_ps; /* when it changes next; EMU_NEVER */
};

/** injector_create - @manager: of the same fabric. Errors: -ENOMEM. */
int injector_create(struct injector **ret, struct fabric *fabric, struct manager *manager,
                    const struct inject_config *config);
void injector_destroy(struct injector *injector);

/**
 * injector_add - @fault from now on, in addition to others. Its times count from @from_ps.
 * @id: names it, from 1.
 * @text: one line for the user, and errors: as fault_check(), which decides; -ENOMEM, or there are
 * too many faults that are not over.
 */
int injector_add(struct injector *injector, const struct fault *fault, uint64_t from_ps,
                 uint32_t *id, char *text, size_t text_bytes);

/** injector_add_all - a whole schedule, from the origin on; its last line's number in an error. */
int injector_add_all(struct injector *injector, const struct fault_schedule *schedule, char *error,
                     size_t error_bytes);

/**
 * injector_clear - the fault is taken back at @now_ps, and does not begin again. Errors: -ENOENT.
 * injector_clear_all() - the same of all; the first error of those that cannot be taken back.
 */
int injector_clear(struct injector *injector, uint32_t id, uint64_t now_ps);
int injector_clear_all(struct injector *injector, uint64_t now_ps);

/**
 * injector_obey - of an injector on a host that does not govern: do what the governing one has
 * decided to devices here. It is never stepped, and its faults are those that it was told of, by
 * their numbers there. @now_ps: as for a step. Errors: -ENOMEM; -EINVAL, there is no such fault;
 * those of fault_check(), since the governing host may lie.
 */
int injector_obey(struct injector *injector, const struct inject_call *call, uint64_t now_ps);

/**
 * injector_again - @host, which this one governs, has devices without any fault: what befalls them
 * now, or is waited for, is asked of it. Errors: -ENOMEM, it could not do all of it.
 */
int injector_again(const struct injector *injector, uint32_t host);

/** injector_due_ps - when it wants to be stepped; EMU_NEVER. */
uint64_t injector_due_ps(const struct injector *injector);

/** injector_is_active - is any fault at work? */
bool injector_is_active(const struct injector *injector);

/** injector_holds - is any at work that will be taken back? What stands still may go on then. */
bool injector_holds(const struct injector *injector);

/**
 * injector_step - what is due by @now_ps; of very much only the first, so that the caller can do
 * other things: injector_due_ps() says so. Errors, it is tried no more: -ENOMEM.
 */
int injector_step(struct injector *injector, uint64_t now_ps);

/**
 * injector_saw - a hit from the fabric's log, before the step: true if it is none, but what a fault
 * has waited for (on=).
 */
bool injector_saw(struct injector *injector, const struct emu_fault_hit *hit, uint64_t now_ps);

/**
 * injector_taken_out - the manager is about to take the cable out of use, since a port at it does
 * not send: what waits there is hit by the faults that have stopped it, and goes another way.
 */
void injector_taken_out(struct injector *injector, uint32_t cable, uint64_t now_ps);

/** injector_waits - does a fault wait for something to be seen? Then hits are to be looked at. */
bool injector_waits(const struct injector *injector);

/**
 * injector_count, injector_at - the faults that are listed, in the order in which they were added:
 * all that are not over, and at least the last 1000 that are. injector_past() - the faults before
 * these.
 */
uint32_t injector_count(const struct injector *injector);
struct inject_state injector_at(const struct injector *injector, uint32_t i);
struct inject_past injector_past(const struct injector *injector);

#endif
