/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.h - what all worlds of tests are made of: memory, profiles, networks, workers, pools.
 *
 * A *world* is what a test stands in: devices on workers, and what is at their ends. Each has a
 * header of its own, which says what it builds, what it owns, and how its time goes on. What cannot
 * be made fails the test there and then, so callers look at nothing. There are:
 *
 *   switch/bench      crosspoint switches, stepped pass by pass; probes at the nodes
 *   switch/sim        whole fabrics in simulated time; nodes with lists of what to send
 *                     (switch/trial: random ones)
 *   switch/vcnet      switches with virtual channels and no fabric; nodes that speak packets
 *   engine/hosts      hosts behind link engines, back to back or over a fabric
 *   engine/trees      hosts that do collectives behind link engines
 *   engine/transport  whole runs over bad cables, for tests and for the soak
 *   host/peers        adapters on a fake fabric (host/fake); host/team: a group of them
 *   host/cluster      adapters on a real fabric, and all that they can do
 *   ofi/rig           endpoints of the libfabric provider
 *   hostlink/talk     two sessions over a wire with faults (hostlink/wire)
 *   hostlink/duo      two hosts' devices, over such a wire or on threads (hostlink/lane)
 *   edges             a real fabric and the bare ends of its edges
 *   graphs            networks alone; parsed: faults alone
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/fault/fault.h"
#include "emu/packet/profile.h"
#include "emu/util/count.h"
#include "emu/worker/worker.h"
#include "topo/topo.h"

/** world_zeros - whole cache lines for @bytes, all 0, for a device; free() takes them back. */
void *world_zeros(size_t bytes);

/**
 * world_profile - the profile @name with what @set changes of it.
 * @set: "FIELD=VALUE FIELD=VALUE", or NULL.
 */
void world_profile(struct emu_profile *profile, const char *name, const char *set);

/** world_graph - the network @spec, of @most nodes at most; topo_free() takes it back. */
struct topo_graph *world_graph(const char *spec, uint32_t most);

/* What follows asserts nothing: threads of workers, and programs without CUnit, have it, too. */

/**
 * world_room - @list, of @count elements of @bytes, with room for one more; realloc()ed where it is
 * full.
 */
void *world_room(void *list, uint32_t count, uint32_t *room, size_t bytes);

/**
 * world_faults - loss, damage to heads, to payloads, doubles, delays of 2 us: each in @each of a
 * million.
 */
struct emu_fault_rates world_faults(uint32_t each);

/**
 * world_threads_stop - end the threads of @workers workers; from then on these are stepped by hand.
 */
void world_threads_stop(struct emu_thread **thread, struct emu_worker *const *worker,
                        uint32_t workers);

/**
 * world_bufs_held - buffers of @pool that are in no worker's cache and not in the depot. Nobody
 * runs.
 */
uint32_t world_bufs_held(const struct emu_pool *pool, struct emu_worker *const *worker,
                         uint32_t workers);

/** world_counter - the counter at @offset of the struct of counters @counts. */
static inline uint64_t world_counter(const void *counts, size_t offset)
{
    return emu_count_read((const _Atomic uint64_t *)(const void *)((const char *)counts + offset));
}

/**
 * world_counters - the same, summed over @count structs; @counts finds the i-th in @world.
 */
uint64_t world_counters(const void *world, uint32_t count,
                        const void *(*counts)(const void *world, uint32_t i), size_t offset);

/** world_digest - @digest with @number after it (FNV-1a, by words). */
static inline uint64_t world_digest(uint64_t digest, uint64_t number)
{
    return (digest ^ number) * UINT64_C(0x100000001b3);
}

#endif
