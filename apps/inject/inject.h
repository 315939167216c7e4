/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject.h - inject faults into a running fabric. A fault begins at its time, on the cables,
 * switches or nodes that it names or that are drawn at random. Then it ends, and may begin again.
 *
 * An *active* fault has begun and not ended. A fault is *applied* to its *targets* while it has an
 * effect on these devices; a fault with a duty cycle (link-flap, node-slow, noise) is applied only
 * during parts of the time in which it is active. A *hit* is a packet, process or group that a
 * fault affected. An *entry* of a cable is a segment or a reply. A fault with the key on= *waits*
 * for an event, which all hosts *observe*.
 *
 * All times are those of the fabric manager (apps/manager/manager.h), so that a schedule on clock
 * virtual is exact. Random targets depend on the seed, the fault's number, and how often it has
 * begun before.
 *
 * Thread: manager; on clock virtual not during fabric_advance().
 */
#ifndef APPS_INJECT_INJECT_H
#define APPS_INJECT_INJECT_H

#include "apps/fault/fault.h"
#include "apps/manager/manager.h"
#include "emu/fault/log.h"

struct injector;

/* Action on a node's process: stop it, let it continue, or kill it. */
enum inject_process { INJECT_FREEZE, INJECT_GO_ON, INJECT_KILL };

/* The beginning or the end of a fault. */
struct inject_event {
    uint32_t id; /* the fault's number */
    const struct fault *fault;
    bool begins; /* false: the fault ends */
    uint64_t at_ps;
    uint32_t targets;
};

/* A call from the coordinator's injector to those of other hosts (injector_apply_call()). */
struct inject_call {
    enum inject_action {
        INJECT_ON,     /* apply the fault to all targets that are on the called host */
        INJECT_OFF,    /* revert the fault, even if it is applied to only some targets, or none */
        INJECT_WATCH,  /* observe the event that the fault waits for (on=) */
        INJECT_UNWATCH /* stop observing this event */
    } what;
    uint32_t id; /* the fault's number */
    const struct fault *fault;
    uint64_t seed; /* for random targets; all hosts draw the same targets from it */
    uint32_t only; /* the host to call; 0: all other hosts */
};

/*
 * The coordinator's calls to the other hosts. A call returns when all called hosts have executed
 * it. The injector never calls while workers are held, because workers carry the calls.
 */
struct inject_remote {
    int (*call)(void *ctx, const struct inject_call *call); /* Errors: -ENOMEM */
    /* let the other hosts call injector_taken_out() */
    void (*taken_out)(void *ctx, uint32_t cable);
    /* hits of fault @id that these hosts last reported. @hosts: a bit for each host. */
    uint64_t (*hits)(void *ctx, uint32_t id, uint64_t hosts);
    /*
     * tell the other hosts to call injector_forget(). From then on, hits() returns the numbers that
     * they reply.
     */
    void (*forget)(void *ctx, const uint32_t *ids, uint32_t count);
    void *ctx;
};

struct inject_config {
    struct fault_network network; /* the fabric's network; the pointers are borrowed */
    uint64_t seed;
    uint64_t origin_ps;                 /* time from which the times of schedules count */
    uint64_t scan_ps;                   /* interval of checks for observed events, above 0 */
    const struct inject_remote *remote; /* borrowed; NULL: there are no other hosts */
    /* called when a fault begins or ends; may be NULL */
    void (*event)(void *ctx, const struct inject_event *event);
    /* Act on the process at @node. False: none is attached. NULL: nodes have no processes. */
    bool (*process)(void *ctx, uint32_t node, enum inject_process what);
    void *ctx; /* for event() and process() */
};

/* Sums over the faults that are over and no longer listed. */
struct inject_past {
    uint64_t faults;
    uint64_t times; /* how often they began */
    uint64_t hits;  /* their hits */
};

struct inject_state {
    uint32_t id; /* its number */
    const struct fault *fault;
    uint32_t times; /* how often it has begun */
    bool active;
    bool over;        /* it has ended and will not begin again */
    uint32_t targets; /* number of targets when it last began */
    uint64_t hits;    /* fault_hits_are() says what they count */
    uint64_t next_ps; /* when it next begins, ends or toggles (duty cycle); EMU_NEVER: never */
};

/** injector_create - create an injector. @manager: the fabric's manager. Errors: -ENOMEM. */
int injector_create(struct injector **ret, struct fabric *fabric, struct manager *manager,
                    const struct inject_config *config);
void injector_destroy(struct injector *injector);

/**
 * injector_add - add a fault, whose times count from @from_ps. @id: receives its number, from 1.
 * @text: receives one line for the user, as from fault_check(). Errors: as fault_check(); -ENOMEM,
 * also if the limit of faults that are not over is reached.
 */
int injector_add(struct injector *injector, const struct fault *fault, uint64_t from_ps,
                 uint32_t *id, char *text, size_t text_bytes);

/**
 * injector_add_all - add all faults of a schedule; their times count from config.origin_ps. Stops
 * at the first error; @error then names the line. Errors: as injector_add().
 */
int injector_add_all(struct injector *injector, const struct fault_schedule *schedule, char *error,
                     size_t error_bytes);

/**
 * injector_clear - end fault @id at @now_ps; it will not begin again. Errors: -ENOENT, no such
 * fault; the errors that reverting it can have.
 * injector_clear_all() - end all faults; returns the first error.
 */
int injector_clear(struct injector *injector, uint32_t id, uint64_t now_ps);
int injector_clear_all(struct injector *injector, uint64_t now_ps);

/**
 * injector_apply_call - execute a call of the coordinator, on another host. The injector of such a
 * host is never stepped, and its faults have the coordinator's numbers. @now_ps: as in
 * injector_step(). Errors: -ENOMEM; -EINVAL, the call is not valid; as fault_check(), because a
 * faulty coordinator may send a fault that this network does not permit.
 */
int injector_apply_call(struct injector *injector, const struct inject_call *call, uint64_t now_ps);

/**
 * injector_forget - on another host: remove faults that the coordinator no longer lists, and pass
 * the hits of each to @each. Until then this host lists every fault that was applied here, because
 * the coordinator asks for its hits. @ids: numbers of the faults, in ascending order.
 */
void injector_forget(struct injector *injector, const uint32_t *ids, uint32_t count,
                     void (*each)(void *ctx, uint32_t id, uint64_t hits), void *ctx);

/**
 * injector_reapply - let a host that has rejoined apply all applied faults, and observe the events
 * of all waiting faults, because its devices are new. Errors: -ENOMEM; then some faults are not
 * applied or observed there.
 */
int injector_reapply(const struct injector *injector, uint32_t host);

/** injector_due_ps - return when to call injector_step() next; EMU_NEVER: nothing is scheduled. */
uint64_t injector_due_ps(const struct injector *injector);

/** injector_is_active - return whether any fault is active. */
bool injector_is_active(const struct injector *injector);

/**
 * injector_will_revert - return whether any active fault will end or be reverted by its duty cycle.
 * If so, a stall may end by itself.
 */
bool injector_will_revert(const struct injector *injector);

/**
 * injector_step - make the changes that are due by @now_ps: begin, end, apply and revert faults. A
 * call makes a limited number of changes, and more may be due afterwards (injector_due_ps()).
 * Errors: -ENOMEM, and the other errors of applying a fault. A fault that has failed is not tried
 * again.
 */
int injector_step(struct injector *injector, uint64_t now_ps);

/**
 * injector_may_hit - return whether @host may log hits of fault @id, because it has a device at a
 * target of the fault, or observes the event that the fault waits for. False: the fault is unknown.
 */
bool injector_may_hit(const struct injector *injector, uint32_t id, uint32_t host);

/**
 * injector_observe - handle an entry of the fabric's fault log; call before injector_step().
 * Returns true if the entry is not a hit, but an event that a fault waits for (on=).
 */
bool injector_observe(struct injector *injector, const struct emu_fault_hit *hit, uint64_t now_ps);

/**
 * injector_taken_out - call before the manager takes a cable with a stuck port out of use and
 * reroutes the entries that wait there. Counts these entries as hits of the faults that stop the
 * port.
 */
void injector_taken_out(struct injector *injector, uint32_t cable, uint64_t now_ps);

/** injector_waits - return whether a fault waits for an event, so that the log must be read. */
bool injector_waits(const struct injector *injector);

/**
 * injector_count - return the number of listed faults.
 * injector_at() - return the state of one, in the order in which they were added. The list has all
 * faults that are not over, and at least the last 1000 that are over.
 * injector_past() - return sums over the faults that are no longer listed.
 */
uint32_t injector_count(const struct injector *injector);
struct inject_state injector_at(const struct injector *injector, uint32_t i);
struct inject_past injector_past(const struct injector *injector);

#endif
