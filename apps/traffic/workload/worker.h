/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h - functions that all kinds of nodes share: segmentation, receiving, and the measurements
 * of a worker.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_WORKER_H
#define APPS_TRAFFIC_WORKLOAD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/traffic/workload/pending.h"
#include "apps/traffic/workload/stats.h"
#include "emu/link/link.h"

/** traffic_segments_of - return the number of segments of a message of @bytes payload. Pure. */
static inline uint64_t traffic_segments_of(uint64_t bytes)
{
    return bytes ? (bytes + EMU_PAYLOAD_BYTES - 1) / EMU_PAYLOAD_BYTES : 1;
}

/** traffic_wire_ps - return the wire time of a segment without packet headers. Pure. */
static inline uint64_t traffic_wire_ps(const struct emu_profile *profile, uint64_t bytes)
{
    struct emu_hdr hdr = {.len = (uint8_t)bytes};

    return emu_wire_ps(profile, &hdr);
}

/**
 * traffic_message_wire_ps - return the wire time of a message of @bytes payload. Pure.
 *
 * With acknowledgments this is the wire time of the message's packets, each with header,
 * continuations and trailer (emu/packet/packet.h). If an adapter puts several messages for one node
 * into one packet, they take less time.
 */
uint64_t traffic_message_wire_ps(const struct emu_profile *profile, uint64_t bytes);

/* Delays of an adapter, between the memory of a node and its cable. */
struct traffic_times {
    uint64_t send_ps;   /* from the post until the segment may be on the cable */
    uint64_t memory_ps; /* from an entry's arrival until it is in memory, without its wire time */
    bool engines;       /* there are link engines: an entry's time is when it is in memory */
};

struct traffic_times traffic_times_of(const struct emu_profile *profile);

/* Return when the payload of @entry is in memory, which is never before the entry's own time. */
static inline uint64_t traffic_memory_ps(const struct traffic_times *times,
                                         const struct emu_profile *profile,
                                         const struct emu_entry *entry)
{
    if (times->engines)
        return entry->time_ps;
    return entry->time_ps + times->memory_ps + emu_wire_ps(profile, &entry->hdr);
}

/* The common part of all nodes, and the first member of their structs. */
struct traffic_base {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    uint64_t bus_ps; /* when the bus between memory and adapter becomes free for the next segment */
};

/** traffic_earliest_ps - like emu_tx_earliest_ps(), but wait for the bus, too. */
static inline uint64_t traffic_earliest_ps(struct traffic_base *base, uint64_t ready_ps)
{
    return emu_tx_earliest_ps(&base->tx, ready_ps > base->bus_ps ? ready_ps : base->bus_ps);
}

/** traffic_depart - like emu_tx_depart(), but also occupy the bus. */
static inline void traffic_depart(struct traffic_base *base, const struct emu_entry *entry,
                                  uint64_t at_ps)
{
    uint64_t bus_ps = entry->hdr.len * base->tx.profile->bus_ps_per_byte;

    emu_tx_depart(&base->tx, entry, at_ps);
    if (bus_ps)
        base->bus_ps = at_ps + bus_ps;
}

/**
 * traffic_base_new - allocate a node of @bytes for fabric_node_ops.create, and initialize its
 * device. The rest of the node is zero. Returns NULL if there is no memory.
 */
void *traffic_base_new(size_t bytes, struct emu_worker *worker, emu_step_fn step,
                       struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx);

/* Measurements of the nodes of one worker. Only that worker writes them. */
struct traffic_worker {
    struct traffic_stats stats; /* open loop */
    uint64_t *from;             /* open loop, by source: sum of traffic_batch.share_ps */
    uint64_t *series;           /* open loop, by window: payload bytes delivered; NULL: no series */
    struct traffic_log log;
    uint32_t nodes;
};

struct traffic_workers {
    struct traffic_worker **at; /* by index of the worker; NULL: it has no nodes */
    uint32_t count;
    uint32_t sources; /* size of traffic_worker.from: all nodes, or 0 */
    uint32_t windows; /* number of windows of the series; 0: no series */
    uint64_t window_ps;
};

/** traffic_worker_join - add a node to worker @index, and return that worker; NULL: no memory. */
struct traffic_worker *traffic_worker_join(struct traffic_workers *all, uint32_t index);

void traffic_workers_free(struct traffic_workers *all);

/** traffic_workers_bytes - return the memory of one worker's measurements. Pure. */
uint64_t traffic_workers_bytes(const struct traffic_workers *all);

/** traffic_workers_measure - reset the statistics, and measure @phase from now on. */
void traffic_workers_measure(struct traffic_workers *all, const struct traffic_phase *phase);

/** traffic_workers_from - return the sum of all workers' traffic_worker.from for node @source. */
uint64_t traffic_workers_from(const struct traffic_workers *all, uint32_t source);

/** traffic_workers_window - return the sum of all workers' traffic_worker.series for window @i. */
uint64_t traffic_workers_window(const struct traffic_workers *all, uint32_t i);

/** traffic_worker_window - add @bytes of payload that arrived at @at_ps to the series, if any. */
static inline void traffic_worker_window(struct traffic_worker *worker,
                                         const struct traffic_workers *all, uint64_t at_ps,
                                         uint64_t bytes)
{
    if (worker->series && at_ps / all->window_ps < all->windows)
        worker->series[at_ps / all->window_ps] += bytes;
}

/** traffic_worker_wire - add a segment of @src, if its arrival at @at_ps is in the measurement. */
static inline void traffic_worker_wire(struct traffic_worker *worker, uint32_t src, uint64_t at_ps,
                                       uint64_t wire_ps, uint64_t share_ps)
{
    struct traffic_stats *stats = &worker->stats;

    if (at_ps - stats->phase.start_ps >= stats->phase.measure_ps)
        return;
    traffic_stats_wire(stats, at_ps, wire_ps, share_ps);
    worker->from[src] += share_ps;
}

/**
 * traffic_take - pass all entries that have arrived at @rx by @until_ps to @deliver, and return
 * their credits. Callers pass a constant @deliver, so that it is inlined. Returns the time of the
 * next arrival; EMU_NEVER: unknown.
 */
static inline uint64_t traffic_take(struct emu_rx *rx, uint64_t credit_ps, uint64_t until_ps,
                                    void *node, void (*deliver)(void *, const struct emu_entry *))
{
    const struct emu_entry *entry;
    uint64_t time_ps = EMU_NEVER;
    uint32_t taken = 0;

    for (; (entry = emu_rx_front(rx, EMU_NEVER)); taken++) {
        time_ps = entry->time_ps;
        if (time_ps > until_ps)
            break;
        deliver(node, entry);
        /* free the slot first: the sender may fill it again when it has the credit */
        emu_rx_skip(rx);
        rx->owed = 1;
        emu_rx_pay(rx, rx->owner, time_ps + credit_ps);
    }
    if (taken)
        emu_rx_done(rx, taken);
    return entry ? time_ps : EMU_NEVER;
}

#endif
