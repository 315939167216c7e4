/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.h - read the counters of one direction of a cable, one switch or one node of a running
 * fabric, and the reports of its processes. counters.def lists the counters.
 *
 * Relaxed loads read the counters without holding a worker. Each value is recent, but the values of
 * one sample were not necessarily read at the same moment. Only parts on this host can be sampled.
 */
#ifndef APPS_FABRIC_SAMPLE_H
#define APPS_FABRIC_SAMPLE_H

#include "apps/fabric/counters.h"
#include "apps/fabric/fabric.h"
#include "emu/hostif/finished.h"

/**
 * fabric_sample_direction - sample a direction (links.h) of a cable at its sending end. False: the
 * sending end is on another host. Then @ret has only the errors that the receiving end has counted,
 * if that end is on this host. Thread: manager.
 */
bool fabric_sample_direction(const struct fabric *fabric, uint32_t cable, bool out,
                             struct fabric_direction_sample *ret);

/**
 * fabric_sample_switch - sample the counters of collectives of switch @sw, including those of the
 * link engine that is its combine unit (engines.c), if it has one. False: it is on another host.
 * Thread: manager.
 */
bool fabric_sample_switch(const struct fabric *fabric, uint32_t sw,
                          struct fabric_switch_sample *ret);

/**
 * fabric_sample_node - sample the traffic of node @node: counts are sums over all its processes so
 * far. False: it is on another host. Thread: manager.
 */
bool fabric_sample_node(const struct fabric *fabric, uint32_t node, struct fabric_node_sample *ret);

enum fabric_watcher { FABRIC_WATCH_TELEMETRY = 1, FABRIC_WATCH_TIMELINE = 2 };

/**
 * fabric_watch - set whether watcher @who needs reports. Processes report finished collectives
 * while at least one watcher needs them.
 */
void fabric_watch(struct fabric *fabric, enum fabric_watcher who, bool watched);

/**
 * fabric_watch_messages - let processes also report messages of @bytes or more. Thread: manager.
 */
void fabric_watch_messages(struct fabric *fabric, uint64_t bytes);

/*
 * A reader's position in the reports of the process at a node. If all fields are 0, it is before
 * the first report.
 */
struct fabric_finished_at {
    uint64_t incarnation; /* emu_incarnation_state() of the node when its reports were read */
    uint64_t next;        /* number of the next report to read */
};

/** fabric_finished_from - set @ret to the end of the reports so far at @node. Thread: manager. */
void fabric_finished_from(const struct fabric *fabric, uint32_t node,
                          struct fabric_finished_at *ret);

/**
 * fabric_finished - read the reports of the current process at @node, beginning at position @at,
 * and advance @at. Writes at most EMU_FINISHED_SLOTS reports to @ret and returns how many. Adds the
 * number of reports that were overwritten before they were read to @missed.
 * fabric_drawn() - do the same for another list of reports: the random sample of collectives that
 * processes report even without a watcher (emu_comm_draw()). Thread: manager.
 */
uint32_t fabric_drawn(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                      struct emu_finished *ret, uint64_t *missed);
uint32_t fabric_finished(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                         struct emu_finished *ret, uint64_t *missed);

#endif
