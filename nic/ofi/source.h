/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - objects for which a program can wait: queues, counters and wait sets */
#ifndef NIC_OFI_SOURCE_H
#define NIC_OFI_SOURCE_H

#include "nic/ofi/ofi.h"

/* after so many polls in a row that found nothing, each further poll of a blocking call sleeps */
#define OFI_POLLS_BEFORE_SLEEP 4096
#define OFI_SLEEP_NS           50000

/* A file descriptor that wakes threads. */
struct ofi_signal {
    int fd;             /* an eventfd; -1: none */
    _Atomic bool armed; /* a thread may be waiting, so the next event must write to fd */
};

struct ofi_wait_set;

/* The common part of the objects for which a program can wait: queues, counters and wait sets. */
struct ofi_source {
    struct fid *fid;
    /* the adapter that ofi_source_step() steps; NULL: ready() steps the adapters itself */
    struct fabemu *fab;
    /* returns whether there is an event that the program has not read */
    bool (*ready)(struct ofi_source *source);
    /* if fab is NULL: calls fabemu_block() for all adapters */
    void (*block)(struct ofi_source *source);
    enum fi_wait_obj wait_obj;
    struct ofi_signal own_signal, *signal; /* &own_signal, or the signal of a wait set */
    struct ofi_wait_set *set;              /* NULL: none */
    _Atomic uint32_t refs;                 /* objects and operations that use it */
};

/* source.c */
/**
 * ofi_source_open - initialise the source of a new object. The caller has set fid, fab and ready.
 * @wait_set: with FI_WAIT_SET, the set of which the object becomes a member.
 * Errors: -FI_ENOSYS, this kind of waiting is not supported; -FI_EINVAL; others of eventfd().
 */
int ofi_source_open(struct ofi_source *source, enum fi_wait_obj wait_obj,
                    struct fid_wait *wait_set);
void ofi_source_close(struct ofi_source *source);

/**
 * ofi_source_of - return the source of @fid. NULL: @fid is NULL, or a program cannot wait for this
 * object.
 */
struct ofi_source *ofi_source_of(struct fid *fid);

/** ofi_source_control - implement fi_control() for objects with a source. */
int ofi_source_control(struct fid *fid, int command, void *arg);

/** ofi_source_step - step the source's adapter, and return whether there is an event. */
bool ofi_source_step(struct ofi_source *source);

/** ofi_source_block - call fabemu_block() for the source's adapters. */
void ofi_source_block(struct ofi_source *source);

/** ofi_source_wake - wake the threads that wait for an event. Thread: any, callbacks too. */
void ofi_source_wake(struct ofi_source *source);

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* set.c */
int ofi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);
int ofi_poll_set_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
/** ofi_wait_set_add, ofi_wait_set_remove - add or remove a member. Errors: -FI_ENOMEM. */
int ofi_wait_set_add(struct ofi_wait_set *set, struct ofi_source *source);
void ofi_wait_set_remove(struct ofi_wait_set *set, struct ofi_source *source);

struct ofi_wait_set *ofi_wait_set_of(struct fid *fid);
struct ofi_source *ofi_wait_set_source(struct ofi_wait_set *set);

/* eq.c */
int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                void *context);
struct ofi_source *ofi_eq_source(struct fid *fid);
/** ofi_eq_bind - let *@slot, which must be NULL, refer to the event queue. Errors: -FI_EINVAL. */
int ofi_eq_bind(struct fid *eq, struct fid_eq **slot);
void ofi_eq_unbind(struct fid_eq **slot);
/**
 * ofi_eq_report, ofi_eq_report_error - append a copy of an event, or of an error. Thread: any.
 * Errors: -FI_ENOMEM.
 */
int ofi_eq_report(struct fid_eq *eq, uint32_t code, const void *entry, size_t bytes);
int ofi_eq_report_error(struct fid_eq *eq, const struct fi_eq_err_entry *err);

/* wait.c */
/** ofi_clock_ms - return the time of CLOCK_MONOTONIC, which is simulated on clock virtual. */
int64_t ofi_clock_ms(void);

struct ofi_wait {
    struct fabemu *fab; /* NULL: the caller steps its adapters */
    int64_t until_ms;   /* INT64_MAX: no limit */
    unsigned rounds;    /* calls of fabemu_progress() in a row that moved nothing */
    bool stepped;       /* ofi_wait_step() was called */
};

/** ofi_wait_begin - begin to wait for at most @timeout_ms; below 0: without limit. */
struct ofi_wait ofi_wait_begin(struct fabemu *fab, int timeout_ms);
/**
 * ofi_wait_drain - begin to wait, for at most the bound `drain`, until operations of a closing
 * object have ended.
 */
struct ofi_wait ofi_wait_drain(struct fabemu *fab);

/**
 * ofi_wait_step - step the adapter, or let other threads run if there is nothing to do. Returns
 * false, and does nothing, if the time has passed. The first call always steps, so a program that
 * polls with a time limit of 0 makes progress.
 */
bool ofi_wait_step(struct ofi_wait *wait);

#endif
