/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.h - what the parts of a running fabric have counted, one by one: each way of a cable, each
 * switch, each node.
 *
 * The counters are read where their owners keep them, with relaxed loads: no worker is held, and
 * none is disturbed but by the line that it shares for a moment. Each number is recent; several
 * need not be of one moment. On several hosts only what is on this one is known.
 */
#ifndef APPS_FABRIC_SAMPLE_H
#define APPS_FABRIC_SAMPLE_H

#include "apps/fabric/fabric.h"
#include "emu/hostif/finished.h"

/* One direction of a cable, as its sending end sees it. Counts are since the start. */
struct fabric_way {
    uint64_t segments; /* sent on it; with acknowledgments replies, too */
    uint64_t stalls;   /* times that something was to be sent, and the far end had no room */
    uint64_t errors;   /* segments, or packets, lost or damaged on it, by faults */
    uint32_t queue;    /* what waits to be sent on it: switch_queued(); at a process, in its ring */
};

/**
 * fabric_way - the way from (@out) or to the first end of cable @cable. False: its sending end is
 * on another host. Thread: manager.
 */
bool fabric_way(const struct fabric *fabric, uint32_t cable, bool out, struct fabric_way *ret);

/* What a switch, or the combine unit at it, has done for collectives since the start. */
struct fabric_combined {
    uint64_t contributions; /* taken */
    uint64_t results;       /* sent */
    uint64_t multicasts;    /* segments that it copied to more than one port */
    uint32_t states;        /* partial results that groups have set aside in it now */
};

/** fabric_combined - of switch @sw. False: it is on another host. Thread: manager. */
bool fabric_combined(const struct fabric *fabric, uint32_t sw, struct fabric_combined *ret);

/* What a node has had of the network since the start, by all processes that were there. */
struct fabric_passed {
    uint64_t sent;          /* segments that have entered the fabric */
    uint64_t delivered;     /* segments that were handed to it, copies of multicasts each */
    uint64_t contributions; /* to collectives, combined by its adapter */
    uint32_t posted;        /* segments in its process's ring that are not in the fabric yet */
    uint32_t untaken;       /* segments that its process has not taken yet */
};

/** fabric_passed - of node @node. False: it is on another host. Thread: manager. */
bool fabric_passed(const struct fabric *fabric, uint32_t node, struct fabric_passed *ret);

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
