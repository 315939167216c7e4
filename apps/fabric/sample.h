/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.h - samples of the counters of each part of a running fabric: each direction of a cable,
 * each switch, each node. counters.def lists the counters.
 *
 * The counters are read where their owners keep them, with relaxed loads: no worker is held. Each
 * number is recent; several numbers need not be of one moment. On several hosts only the parts on
 * this host can be sampled.
 */
#ifndef APPS_FABRIC_SAMPLE_H
#define APPS_FABRIC_SAMPLE_H

#include "apps/fabric/counters.h"
#include "apps/fabric/fabric.h"
#include "emu/hostif/finished.h"

/**
 * fabric_sample_way - the direction of cable @cable from its first end (@out), or to it, as the
 * sending end counts it. False: the sending end is on another host; @ret has the errors that are
 * counted here. Thread: manager.
 */
bool fabric_sample_way(const struct fabric *fabric, uint32_t cable, bool out,
                       struct fabric_way_sample *ret);

/**
 * fabric_sample_switch - what switch @sw, or the combine unit at it, has done for collectives.
 * False: it is on another host. Thread: manager.
 */
bool fabric_sample_switch(const struct fabric *fabric, uint32_t sw,
                          struct fabric_switch_sample *ret);

/**
 * fabric_sample_node - the traffic of node @node, by all processes that were there. False: it is on
 * another host. Thread: manager.
 */
bool fabric_sample_node(const struct fabric *fabric, uint32_t node, struct fabric_node_sample *ret);

/* Who watches what processes finish. */
enum fabric_watcher { FABRIC_WATCH_TELEMETRY = 1, FABRIC_WATCH_TIMELINE = 2 };

/**
 * fabric_watch - from now on processes tell of all collectives that they have finished; not
 * @watched: @who does not want to know any more. Thread: manager.
 */
void fabric_watch(struct fabric *fabric, enum fabric_watcher who, bool watched);

/** fabric_watch_messages - and of all messages of so many bytes or more. Thread: manager. */
void fabric_watch_messages(struct fabric *fabric, uint64_t bytes);

/* How far a reader is in what the process at a node has told. Zeros at first. */
struct fabric_finished_at {
    uint64_t seat; /* the process */
    uint64_t next;
};

/** fabric_finished_from - @ret: where the process at @node has come to. Thread: manager. */
void fabric_finished_from(const struct fabric *fabric, uint32_t node,
                          struct fabric_finished_at *ret);

/**
 * fabric_finished - what has been finished at @node since @at was, by the process that is there
 * now: emu_finished_read(). fabric_drawn() - the same of collectives that emu_comm_draw() tells of,
 * whether somebody watches or not. Thread: manager.
 */
uint32_t fabric_drawn(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                      struct emu_finished *ret, uint64_t *missed);
uint32_t fabric_finished(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                         struct emu_finished *ret, uint64_t *missed);

#endif
