/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.h - samples of the counters of each part of a running fabric: each direction of a cable,
 * each switch, each node. counters.def lists the counters.
 *
 * Relaxed loads read the counters without stopping a worker. Each value is recent, but values of
 * one sample may be of different moments. Only parts on this host can be sampled.
 */
#ifndef APPS_FABRIC_SAMPLE_H
#define APPS_FABRIC_SAMPLE_H

#include "apps/fabric/counters.h"
#include "apps/fabric/fabric.h"
#include "emu/hostif/finished.h"

/**
 * fabric_sample_direction - sample the direction of a cable from its first end (@out), or to it, at
 * the sending end. False: that is on another host; @ret has the errors that are counted here.
 * Thread: manager.
 */
bool fabric_sample_direction(const struct fabric *fabric, uint32_t cable, bool out,
                             struct fabric_direction_sample *ret);

/**
 * fabric_sample_switch - sample the collectives of switch @sw and of the combine unit at it. False:
 * it is on another host. Thread: manager.
 */
bool fabric_sample_switch(const struct fabric *fabric, uint32_t sw,
                          struct fabric_switch_sample *ret);

/**
 * fabric_sample_node - sample the traffic of node @node, of all its processes so far. False: it is
 * on another host. Thread: manager.
 */
bool fabric_sample_node(const struct fabric *fabric, uint32_t node, struct fabric_node_sample *ret);

enum fabric_watcher { FABRIC_WATCH_TELEMETRY = 1, FABRIC_WATCH_TIMELINE = 2 };

/** fabric_watch - let processes report finished collectives while @watched by anyone. */
void fabric_watch(struct fabric *fabric, enum fabric_watcher who, bool watched);

/** fabric_watch_messages - report also all messages of at least @bytes. Thread: manager. */
void fabric_watch_messages(struct fabric *fabric, uint64_t bytes);

/* Position of a reader in the reports of the process at a node. Zeros at first. */
struct fabric_finished_at {
    uint64_t incarnation; /* incarnation of the process */
    uint64_t next;
};

/** fabric_finished_from - set @ret to the current end of the reports at @node. Thread: manager. */
void fabric_finished_from(const struct fabric *fabric, uint32_t node,
                          struct fabric_finished_at *ret);

/**
 * fabric_finished - read what the current process at @node has reported since @at:
 * emu_finished_read(). fabric_drawn() - the same for the random sample of collectives that is
 * reported without a watcher (emu_comm_draw()). Thread: manager.
 */
uint32_t fabric_drawn(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                      struct emu_finished *ret, uint64_t *missed);
uint32_t fabric_finished(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                         struct emu_finished *ret, uint64_t *missed);

#endif
