/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.h - whole fabrics for tests, and groups over their nodes. */
#ifndef TESTS_WORLD_FABRIC_H
#define TESTS_WORLD_FABRIC_H

#include "apps/fabric/internal.h"
#include "tests/world/world.h"

#define WORLD_GROUP_MAX 64u /* nodes of world_group_of_first() */

/**
 * world_fabric_start - a fabric over the network @spec, of @most nodes at most, the rest as @config
 * says.
 * @graph: the network, the caller's; world_fabric_stop() takes both back.
 */
struct fabric *world_fabric_start(struct topo_graph **graph, const char *spec, uint32_t most,
                                  const struct fabric_config *config);
void world_fabric_stop(struct fabric *fabric, struct topo_graph *graph);

/** world_nodes - 0 to @count - 1. Returns @count. */
uint32_t world_nodes(uint32_t *nodes, uint32_t count);

/** world_group - a group that combines, of these nodes; its address. */
uint32_t world_group(struct fabric *fabric, const uint32_t *nodes, uint32_t count);
/** world_group_of_first - the same of nodes 0 to @count - 1. */
uint32_t world_group_of_first(struct fabric *fabric, uint32_t count);
/** world_group_end - all members of @group leave. */
void world_group_end(struct fabric *fabric, uint32_t group);
/** world_multicast - a group for multicasts, to which all of these nodes send; its address. */
uint32_t world_multicast(struct fabric *fabric, const uint32_t *nodes, uint32_t count);

/**
 * world_fabric_pass - step every worker of a fabric that was started stopped. Returns segments
 * moved.
 */
uint32_t world_fabric_pass(struct fabric *fabric);

/**
 * world_fabric_bufs_held - buffers that are in no cache and not in the depot. Nobody runs. No
 * CUnit.
 */
static inline uint32_t world_fabric_bufs_held(const struct fabric *fabric)
{
    return world_bufs_held(fabric->pool, fabric->worker, fabric->workers) - fabric->cache.count;
}

/** world_fabric_holds - all that fabric_check() knows holds at @now_ps. If not, it is printed. */
bool world_fabric_holds(struct fabric *fabric, uint64_t now_ps);

#endif
