/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - state and functions that the files of apps/traffic/ share. The *driver* is the
 * thread that runs the traffic. It calls all these functions between two windows of simulated time.
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
    struct fabric_config built; /* configuration with which `fabric` was built */
    uint64_t now_ps;            /* all events up to this time have happened */
    double done;                /* last reported progress, 0 to 1 */
    uint64_t began_ns;          /* real time at the start of the current step: building, running */
    uint64_t bytes;             /* memory of this host's part of the network */
    struct traffic_faults *faults;       /* NULL: no schedule of faults */
    struct capture_thread *capture;      /* NULL: no capture */
    struct traffic_snapshots *snapshots; /* NULL: no snapshots */
    char *error;
    size_t error_bytes;
};

/** traffic_run_open - run an open loop (open.c): warm-up, measurement, drain. */
int traffic_run_open(struct traffic_run *run);

/** traffic_run_closed - run a closed loop (closed.c): reductions and barriers. */
int traffic_run_closed(struct traffic_run *run);

/** traffic_run_goal - run the operations of a GOAL file (play.c). */
int traffic_run_goal(struct traffic_run *run);

/* --- run.c -------------------------------------------------------------------------- */

/**
 * traffic_run_start - check that there is enough memory, and start the fabric.
 * @own_bytes: memory of the simulated nodes. @group_bytes: memory of destination sets.
 */
int traffic_run_start(struct traffic_run *run, const struct fabric_node_ops *ops,
                      uint64_t own_bytes, uint64_t group_bytes);

/** traffic_run_stop - stop faults, the capture and the fabric. */
void traffic_run_stop(struct traffic_run *run);

/**
 * traffic_run_begin - begin to measure the wall time of the run. Call it when the fabric is built.
 */
void traffic_run_begin(struct traffic_run *run);

/**
 * traffic_run_progress - report progress. @done: 0 to 1. Errors: -EINTR, the user has interrupted
 * the run.
 */
int traffic_run_progress(struct traffic_run *run, double done);

/** traffic_run_interrupted - write an error with the simulated time so far. Returns -EINTR. */
int traffic_run_interrupted(struct traffic_run *run);

/**
 * traffic_run_check - store wall time and totals in the result, take the last snapshot, and check
 * the fabric. Errors: -EPROTO; as traffic_snapshots_start().
 */
int traffic_run_check(struct traffic_run *run);

/** traffic_run_wrong - set the run's error text, and send it to all other hosts. Returns @err. */
int traffic_run_wrong(struct traffic_run *run, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* --- faults.c: a schedule of faults at exact simulated times, and the fabric's manager */

/**
 * traffic_faults_start - create the manager, and plan the faults of the schedule. Errors, with a
 * line in the run's error: as injector_add_all().
 */
int traffic_faults_start(struct traffic_run *run);
void traffic_faults_stop(struct traffic_run *run);

/** traffic_faults_manager - return the manager that takes links out of use; NULL: none. */
const struct manager *traffic_faults_manager(const struct traffic_run *run);

/** traffic_faults_revert - revert all faults, so that the network can become empty. */
int traffic_faults_revert(struct traffic_run *run);

/** traffic_faults_result - write the counts of faults into the run's result. */
void traffic_faults_result(struct traffic_run *run);

/** traffic_faults_busy - return whether the manager is testing a link or computing tables. */
bool traffic_faults_busy(const struct traffic_run *run);

/**
 * traffic_faults_will_revert - return whether an active fault, which may block traffic, will end.
 */
bool traffic_faults_will_revert(const struct traffic_run *run);

/** traffic_faults_advance - advance to run->now_ps; apply and revert faults at their times. */
int traffic_faults_advance(struct traffic_run *run);

/* --- snapshots.c: telemetry of a run in simulated time: docs/telemetry.md ------------ */

/**
 * traffic_snapshots_start - write the fabric's shape as the first record, if snapshots are
 * configured. Errors, with a line in the run's error: -ENOMEM, -EIO.
 */
int traffic_snapshots_start(struct traffic_run *run);

/**
 * traffic_snapshots_end - take the last snapshot, unless it has been taken. Errors: as
 * traffic_snapshots_start().
 * traffic_snapshots_stop() - take the last snapshot if the run has failed, and free the telemetry.
 */
int traffic_snapshots_end(struct traffic_run *run);
void traffic_snapshots_stop(struct traffic_run *run);

/**
 * traffic_snapshots_advance - like fabric_advance(), advance to @until_ps, and take the snapshots
 * that become due by then. Errors: as traffic_snapshots_start(), and -EINTR if the viewer ends the
 * run.
 */
int traffic_snapshots_advance(struct traffic_run *run, uint64_t until_ps);

#endif
