/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c - see fabric.h. */
#include "tests/world/fabric.h"

#include "apps/audit/audit.h"
#include "tests/test.h"

struct fabric *world_fabric_start(struct topo_graph **graph, const char *spec, uint32_t most,
                                  const struct fabric_config *config)
{
    struct fabric_config with = *config;
    struct fabric *fabric;
    char error[256];
    int err;

    with.graph = *graph = world_graph(spec, most);
    err = fabric_start(&fabric, &with, error, sizeof error);
    if (err)
        printf("%s\n", error);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return fabric;
}

void world_fabric_stop(struct fabric *fabric, struct topo_graph *graph)
{
    fabric_stop(fabric);
    topo_free(graph);
}

uint32_t world_nodes(uint32_t *nodes, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++)
        nodes[n] = n;
    return count;
}

uint32_t world_group(struct fabric *fabric, const uint32_t *nodes, uint32_t count)
{
    uint32_t group = 0;
    char error[256];
    int err = fabric_group_create(fabric, nodes, count, &group, error, sizeof error);

    if (err)
        printf("%s\n", error);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    return group;
}

uint32_t world_group_of_first(struct fabric *fabric, uint32_t count)
{
    uint32_t nodes[WORLD_GROUP_MAX];

    CU_ASSERT_TRUE_FATAL(count <= WORLD_GROUP_MAX);
    return world_group(fabric, nodes, world_nodes(nodes, count));
}

void world_group_end(struct fabric *fabric, uint32_t group)
{
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++) {
        int err = fabric_group_leave(fabric, group, n);

        CU_ASSERT_TRUE(!err || err == -ENOENT); /* it has left, or was none */
    }
}

uint32_t world_multicast(struct fabric *fabric, const uint32_t *nodes, uint32_t count)
{
    uint32_t group = 0;
    char error[256];

    CU_ASSERT_EQUAL_FATAL(fabric_multicast_create(fabric, nodes, count, count, &group, error,
                                                  sizeof error),
                          0);
    return group;
}

uint32_t world_fabric_pass(struct fabric *fabric)
{
    uint32_t moved = 0;

    for (uint32_t i = 0; i < fabric->workers; i++)
        moved += emu_worker_pass(fabric->worker[i]);
    return moved;
}

bool world_fabric_holds(struct fabric *fabric, uint64_t now_ps)
{
    char error[256];

    if (!fabric_check(fabric, now_ps, error, sizeof error))
        return true;
    printf("%s\n", error);
    return false;
}
