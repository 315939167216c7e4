/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c - wire times of messages, and the measurements of each worker. */
#include "apps/traffic/workload/worker.h"

#include <stdlib.h>
#include <string.h>

#include "emu/packet/packet.h"
#include "emu/util/alloc.h"

/*
 * Return the size on the wire of a packet that contains @whole full segments of the host, and one
 * with a payload of @rest bytes (0: none).
 */
static uint64_t packet_wire_bytes(uint64_t whole, uint64_t rest)
{
    uint32_t bytes = (uint32_t)(whole * EMU_SEG_BYTES + (rest ? EMU_HDR_BYTES + rest : 0));
    uint64_t wire = 0;

    for (uint32_t i = 0; i < emu_packet_segments(bytes); i++)
        wire += emu_packet_wire_bytes(bytes, i);
    return wire;
}

/*
 * Return the size of a message on the wire. It is divided into packets in the same way as by a link
 * engine (nic/engine/post.c). Each packet has as many full segments as it may have. A short last
 * segment gets its own packet if that takes one segment on the wire, or if it does not fit into the
 * last packet.
 */
static uint64_t packets_wire_bytes(const struct emu_profile *profile, uint64_t bytes)
{
    uint64_t most = profile->packet_bytes / EMU_SEG_BYTES;
    uint64_t whole = bytes / EMU_PAYLOAD_BYTES, rest = bytes % EMU_PAYLOAD_BYTES;
    /* number of full segments in the last packet */
    uint64_t left = whole ? (whole - 1) % most + 1 : 0;
    bool alone = emu_packet_segments((uint32_t)(EMU_HDR_BYTES + rest)) == 1 || !left ||
                 left * EMU_SEG_BYTES + EMU_HDR_BYTES + rest > profile->packet_bytes;
    uint64_t wire = (whole - left) / most * packet_wire_bytes(most, 0);

    if (!rest)
        return wire + (left ? packet_wire_bytes(left, 0) : 0);
    if (!alone)
        return wire + packet_wire_bytes(left, rest);
    return wire + (left ? packet_wire_bytes(left, 0) : 0) + packet_wire_bytes(0, rest);
}

uint64_t traffic_message_wire_ps(const struct emu_profile *profile, uint64_t bytes)
{
    uint64_t wire_bytes = traffic_segments_of(bytes) * EMU_HDR_BYTES + bytes;

    if (emu_profile_has_packets(profile))
        wire_bytes = bytes ? packets_wire_bytes(profile, bytes)
                           : EMU_HEAD_BYTES + EMU_HDR_BYTES + EMU_TAIL_BYTES;
    return wire_bytes * profile->link_ps_per_byte;
}

struct traffic_times traffic_times_of(const struct emu_profile *profile)
{
    uint64_t cable_ps = emu_profile_lookahead_ps(profile); /* delay from the node to the engine */

    if (!emu_profile_has_engines(profile))
        return (struct traffic_times){.send_ps = profile->nic_send_ps,
                                      .memory_ps = profile->nic_recv_ps -
                                                   emu_profile_node_ps(profile)};
    return (struct traffic_times){
        .send_ps = profile->nic_send_ps > cable_ps ? profile->nic_send_ps - cable_ps : 0,
        .engines = true,
    };
}

void *traffic_base_new(size_t bytes, struct emu_worker *worker, emu_step_fn step,
                       struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx)
{
    struct traffic_base *base = emu_zeros(bytes);

    if (!base)
        return NULL;
    emu_dev_init(&base->dev, worker, step);
    *dev = &base->dev;
    *tx = &base->tx;
    *rx = &base->rx;
    return base;
}

static void worker_free(struct traffic_worker *worker)
{
    if (worker) {
        traffic_log_release(&worker->log);
        free(worker->series);
        free(worker->from);
    }
    free(worker);
}

static struct traffic_worker *worker_new(const struct traffic_workers *all)
{
    struct traffic_worker *worker = calloc(1, sizeof *worker);

    if (!worker)
        return NULL;
    if (all->sources)
        worker->from = calloc(all->sources, sizeof worker->from[0]);
    if (all->windows)
        worker->series = calloc(all->windows, sizeof worker->series[0]);
    if (!all->sources == !worker->from && !all->windows == !worker->series)
        return worker;
    worker_free(worker);
    return NULL;
}

struct traffic_worker *traffic_worker_join(struct traffic_workers *all, uint32_t index)
{
    if (index >= all->count) {
        struct traffic_worker **more = realloc(all->at, (index + 1) * sizeof more[0]);
        if (!more)
            return NULL;
        for (all->at = more; all->count <= index; all->count++)
            more[all->count] = NULL;
    }
    if (!all->at[index])
        all->at[index] = worker_new(all);
    if (all->at[index])
        all->at[index]->nodes++;
    return all->at[index];
}

void traffic_workers_free(struct traffic_workers *all)
{
    for (uint32_t w = 0; w < all->count; w++)
        worker_free(all->at[w]);
    free(all->at);
    *all = (struct traffic_workers){.count = 0};
}

uint64_t traffic_workers_bytes(const struct traffic_workers *all)
{
    return sizeof(struct traffic_worker) +
           ((uint64_t)all->sources + all->windows) * sizeof(uint64_t);
}

void traffic_workers_measure(struct traffic_workers *all, const struct traffic_phase *phase)
{
    for (uint32_t w = 0; w < all->count; w++) {
        if (!all->at[w])
            continue;
        traffic_stats_init(&all->at[w]->stats, phase);
        memset(all->at[w]->from, 0, all->sources * sizeof all->at[w]->from[0]);
    }
}

uint64_t traffic_workers_from(const struct traffic_workers *all, uint32_t source)
{
    uint64_t from = 0;

    for (uint32_t w = 0; w < all->count; w++)
        from += all->at[w] ? all->at[w]->from[source] : 0;
    return from;
}

uint64_t traffic_workers_window(const struct traffic_workers *all, uint32_t i)
{
    uint64_t bytes = 0;

    for (uint32_t w = 0; w < all->count; w++)
        bytes += all->at[w] ? all->at[w]->series[i] : 0;
    return bytes;
}
