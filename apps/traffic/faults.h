/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.h - a schedule of faults in a run of synthetic traffic, at exact simulated times, and the
 * fabric's manager. The driver's, between two windows.
 */
#ifndef APPS_TRAFFIC_FAULTS_H
#define APPS_TRAFFIC_FAULTS_H

#include "apps/fault/fault.h"
#include "apps/traffic/inside.h"

struct manager;
struct traffic_faults;

/** traffic_faults_start - Errors, with a line in the run's error: as injector_add_all(). */
int traffic_faults_start(struct traffic_run *run);
void traffic_faults_stop(struct traffic_run *run);

/** traffic_faults_manager - who takes links out; NULL: nobody does. */
const struct manager *traffic_faults_manager(const struct traffic_run *run);

/** traffic_faults_heal - all faults are taken back: the run is to end. */
int traffic_faults_heal(struct traffic_run *run);

/** traffic_faults_result - what there was of them, into the run's result. */
void traffic_faults_result(struct traffic_run *run);

/** traffic_faults_busy - is a link on its way back, or are tables? */
bool traffic_faults_busy(const struct traffic_run *run);

/**
 * traffic_faults_hold - is a fault at work that will be taken back? What stands still may go on.
 */
bool traffic_faults_hold(const struct traffic_run *run);

/**
 * traffic_faults_advance - run on to run->now_ps; what is due of the faults happens at its time.
 */
int traffic_faults_advance(struct traffic_run *run);

#endif
