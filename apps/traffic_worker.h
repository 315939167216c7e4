/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_worker.h - what nodes of open and of closed loops share: how messages are cut, how
 * arrivals are taken, and where the nodes of one worker put what they have measured.
 */
#ifndef APPS_TRAFFIC_WORKER_H
#define APPS_TRAFFIC_WORKER_H

#include <stdint.h>

#include "apps/traffic_pending.h"
#include "apps/traffic_stats.h"
#include "emu/link.h"

/** traffic_segments_of - segments of a message of @bytes payload. Pure. */
static inline uint64_t traffic_segments_of(uint64_t bytes)
{
    return bytes ? (bytes + EMU_PAYLOAD_BYTES - 1) / EMU_PAYLOAD_BYTES : 1;
}

/** traffic_wire_ps - what one segment with @bytes of payload takes of the wire. Pure. */
static inline uint64_t traffic_wire_ps(const struct emu_profile *profile, uint64_t bytes)
{
    struct emu_hdr hdr = { .len = (uint8_t)bytes };

    return emu_wire_ps(profile, &hdr);
}

/* What the nodes of one worker have measured: no other worker touches it. */
struct traffic_worker {
    struct traffic_stats stats; /* open loop */
    struct traffic_log log;
    uint32_t nodes;
};

/* By index; NULL: none of that worker's devices is a node. */
struct traffic_workers {
    struct traffic_worker **at;
    uint32_t count;
};

/** traffic_worker_join - one more node of worker @index; what it shares, or NULL: no memory. */
struct traffic_worker *traffic_worker_join(struct traffic_workers *all, uint32_t index);

void traffic_workers_free(struct traffic_workers *all);

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
        emu_rx_pay(rx, time_ps + credit_ps);
    }
    if (taken)
        emu_rx_done(rx, taken);
    return entry ? time_ps : EMU_NEVER;
}

#endif
