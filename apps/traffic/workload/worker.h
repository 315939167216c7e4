/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h - what nodes of open and of closed loops share: how messages are cut, how
 * arrivals are taken, and where the nodes of one worker put what they have measured.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_WORKER_H
#define APPS_TRAFFIC_WORKLOAD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/traffic/workload/pending.h"
#include "apps/traffic/workload/stats.h"
#include "emu/link/link.h"

/** traffic_segments_of - segments of a message of @bytes payload. Pure. */
static inline uint64_t traffic_segments_of(uint64_t bytes)
{
    return bytes ? (bytes + EMU_PAYLOAD_BYTES - 1) / EMU_PAYLOAD_BYTES : 1;
}

/**
 * traffic_wire_ps - what one segment with @bytes of payload takes of the wire, without what a
 * packet adds to it. Pure.
 */
static inline uint64_t traffic_wire_ps(const struct emu_profile *profile, uint64_t bytes)
{
    struct emu_hdr hdr = {.len = (uint8_t)bytes};

    return emu_wire_ps(profile, &hdr);
}

/**
 * traffic_message_wire_ps - what a message of @bytes payload takes of the wire. Pure.
 *
 * With acknowledgments: in packets of its own, each with its header, its continuations and its
 * end (emu/packet/packet.h). An adapter that has several messages for one node puts them into one
 * packet if it can: then they take less.
 */
uint64_t traffic_message_wire_ps(const struct emu_profile *profile, uint64_t bytes);

/* Between the memory of a node inside the fabric and its cable: what a program's adapter takes. */
struct traffic_times {
    uint64_t send_ps;   /* from the post until the node may hand a segment to its cable */
    uint64_t memory_ps; /* from the time of an entry to memory, without its wire time */
    bool engines;       /* between nodes and switches: an entry's time is when it is in memory */
};

/** traffic_times_of - by transport. Pure. */
struct traffic_times traffic_times_of(const struct emu_profile *profile);

/* When what came as @entry lies in memory: no earlier than the entry's own time. */
static inline uint64_t traffic_memory_ps(const struct traffic_times *times,
                                         const struct emu_profile *profile,
                                         const struct emu_entry *entry)
{
    if (times->engines)
        return entry->time_ps;
    return entry->time_ps + times->memory_ps + emu_wire_ps(profile, &entry->hdr);
}

/* What a node inside the fabric begins with. */
struct traffic_base {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
};

/**
 * traffic_base_new - a node of @bytes, zeros but for its device, for fabric_node_ops.create. NULL:
 * no memory.
 */
void *traffic_base_new(size_t bytes, struct emu_worker *worker, emu_step_fn step,
                       struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx);

/* What the nodes of one worker have measured: no other worker touches it. */
struct traffic_worker {
    struct traffic_stats stats; /* open loop */
    uint64_t *from;             /* open loop, by source: delivered in the measurement: time on the
                                   wire, in 1/1024 ps; a copy of a multicast is a part of it */
    uint64_t *series; /* open loop, by window of the run: bytes of payload that came to lie
                                   in memory in it; NULL: nobody asked for a series */
    struct traffic_log log;
    uint32_t nodes;
};

/* By index; NULL: none of that worker's devices is a node. */
struct traffic_workers {
    struct traffic_worker **at;
    uint32_t count;
    uint32_t sources; /* that are told apart: 0, or all nodes */
    uint32_t windows; /* of the series; 0: none is kept */
    uint64_t window_ps;
};

/** traffic_worker_join - one more node of worker @index; what it shares, or NULL: no memory. */
struct traffic_worker *traffic_worker_join(struct traffic_workers *all, uint32_t index);

void traffic_workers_free(struct traffic_workers *all);

/** traffic_workers_bytes - memory that one of them takes. Pure. */
uint64_t traffic_workers_bytes(const struct traffic_workers *all);

/**
 * traffic_workers_measure - what is born, or arrives, in @phase counts; forget what was counted.
 */
void traffic_workers_measure(struct traffic_workers *all, const struct traffic_phase *phase);

/** traffic_workers_from - traffic_worker.from of node @source, of all of them. */
uint64_t traffic_workers_from(const struct traffic_workers *all, uint32_t source);

/** traffic_workers_window - traffic_worker.series of window @i, of all of them. */
uint64_t traffic_workers_window(const struct traffic_workers *all, uint32_t i);

/** traffic_worker_window - @bytes of payload came at @at_ps: into the series, if it reaches so far.
 */
static inline void traffic_worker_window(struct traffic_worker *worker,
                                         const struct traffic_workers *all, uint64_t at_ps,
                                         uint64_t bytes)
{
    if (worker->series && at_ps / all->window_ps < all->windows)
        worker->series[at_ps / all->window_ps] += bytes;
}

/** traffic_worker_wire - a segment of @src came at @at_ps: see traffic_stats_wire(). */
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
 * traffic_take - hand everything that has arrived at @rx by @until_ps to @deliver, and pay for it.
 * Inlined: @deliver too. Returns when the next will have arrived, EMU_NEVER if that is not known.
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
        emu_rx_skip(rx); /* the slot before the credit that lets it be filled */
        rx->owed = 1;
        emu_rx_pay(rx, rx->owner, time_ps + credit_ps);
    }
    if (taken)
        emu_rx_done(rx, taken);
    return entry ? time_ps : EMU_NEVER;
}

#endif
