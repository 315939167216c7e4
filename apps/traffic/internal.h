/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - state and functions that the files of apps/traffic/ share. All functions are for the
 * driver, between two windows.
 */
#ifndef APPS_TRAFFIC_INTERNAL_H
#define APPS_TRAFFIC_INTERNAL_H

#include "apps/fault/fault.h"
#include "apps/traffic/hosts.h"
#include "apps/traffic/run.h"

struct manager;

struct traffic_run {
    const struct traffic_config *config;
    struct traffic_result *result;
    struct fabric *fabric;
    struct fabric_config built;          /* configuration of `fabric` */
    uint64_t now_ps;                     /* all events up to here have happened */
    double done;                         /* last reported progress, 0 to 1 */
    uint64_t began_ns;                   /* host time: start of the current step */
    uint64_t bytes;                      /* memory of this host's part */
    struct traffic_faults *faults;       /* NULL: none */
    struct capture_thread *capture;      /* NULL: none */
    struct traffic_snapshots *snapshots; /* NULL: none */
    char *error;
    size_t error_bytes;
};

/** traffic_run_open - open.c: sources that send at random times: warm-up, measurement, drain. */
int traffic_run_open(struct traffic_run *run);

/** traffic_run_closed - closed.c: reductions and barriers, one after the other. */
int traffic_run_closed(struct traffic_run *run);

/* --- run.c -------------------------------------------------------------------------- */

/**
 * traffic_run_start - check the memory and start the fabric.
 * @own_bytes: memory of its nodes. @group_bytes: memory of destination sets.
 */
int traffic_run_start(struct traffic_run *run, const struct fabric_node_ops *ops,
                      uint64_t own_bytes, uint64_t group_bytes);

/** traffic_run_stop - stop faults, the capture and the fabric. */
void traffic_run_stop(struct traffic_run *run);

/** traffic_run_begin - the fabric is built: wall time counts from here. */
void traffic_run_begin(struct traffic_run *run);

/**
 * traffic_run_progress - report progress, @done of 1. Errors: -EINTR, the user interrupted the run.
 * */
int traffic_run_progress(struct traffic_run *run, double done);

/** traffic_run_check - end wall time, read the totals, check conservation. Errors: -EPROTO. */
int traffic_run_check(struct traffic_run *run);

/** traffic_run_wrong - set the run's error, and send it to other hosts. Returns @err. */
int traffic_run_wrong(struct traffic_run *run, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- faults.c: a schedule of faults at exact simulated times, and the fabric's manager */

/** traffic_faults_start - Errors, with a line in the run's error: as injector_add_all(). */
int traffic_faults_start(struct traffic_run *run);
void traffic_faults_stop(struct traffic_run *run);

/** traffic_faults_manager - the manager that takes links out; NULL: none. */
const struct manager *traffic_faults_manager(const struct traffic_run *run);

/** traffic_faults_heal - revert all faults before the run ends. */
int traffic_faults_heal(struct traffic_run *run);

/** traffic_faults_result - write the counts of faults into the run's result. */
void traffic_faults_result(struct traffic_run *run);

/** traffic_faults_busy - is the manager bringing a link back, or computing tables? */
bool traffic_faults_busy(const struct traffic_run *run);

/**
 * traffic_faults_will_revert - is a fault active that will be reverted? It may hold the traffic up.
 * */
bool traffic_faults_will_revert(const struct traffic_run *run);

/** traffic_faults_advance - advance to run->now_ps, applying faults at their times. */
int traffic_faults_advance(struct traffic_run *run);

/* --- snapshots.c: telemetry of a run in simulated time: docs/telemetry.md ------------ */

/**
 * traffic_snapshots_start - write the fabric's shape as the first record, if snapshots are
 * configured. Errors, with a line in the run's error: -ENOMEM, -EIO.
 */
int traffic_snapshots_start(struct traffic_run *run);

/** traffic_snapshots_stop - take a last snapshot of the final state. */
void traffic_snapshots_stop(struct traffic_run *run);

/**
 * traffic_snapshots_advance - fabric_advance() to @until_ps, taking the snapshots that are due on
 * the way. Errors: as above.
 */
int traffic_snapshots_advance(struct traffic_run *run, uint64_t until_ps);

#endif
