/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster.c - see cluster.h. */
#include "tests/world/host/cluster.h"

#include <sched.h>
#include <string.h>

#include "tests/test.h"

void cluster_attach(struct cluster *w, uint32_t node)
{
    struct fabemu_info info = {.fabric = "test",
                               .node = node,
                               .nodes = w->graph->nodes,
                               .seat = ++w->seats,
                               .acknowledged = fabric_engine(w->fabric, node) != NULL};

    w->fab[node] = adapters_open(w->fabric, &info);
    if (w->alone)
        atomic_store(&w->fabric->worker[0]->oversubscribed, 0);
    w->fab[node]->watch_ns = 0; /* look after others often */
    w->fab[node]->watch_gap_ns = 5000000;
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w->fab[node], 1, &w->queue[node]), 0);
    if (w->threads)
        CU_ASSERT_EQUAL_FATAL(nic_thread_start(&w->fab[node]->thread, w->fab[node]), 0);
}

void cluster_group(struct cluster *w)
{
    w->id = world_group_of_first(w->fabric, w->nodes);
    for (uint32_t n = 0; n < w->nodes; n++)
        CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w->fab[n], w->id, w->nodes, &w->group[n]), 0);
}

void cluster_open(struct cluster *w, const struct cluster_config *set)
{
    struct emu_fault_rates rates = world_faults(set->bad);
    struct fabric_config config = {.clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .faults = &rates,
                                   .start_stopped = !set->threads,
                                   .first = set->first};

    memset(w, 0, sizeof *w);
    w->random = test_seed();
    w->threads = set->threads;
    w->alone = set->alone;
    world_profile(&config.profile, set->profile ? set->profile : "qsnet3", set->set);
    config.seed = test_random(&w->random);
    w->fabric = world_fabric_start(&w->graph, set->topo, UINT32_MAX, &config);
    w->nodes = set->members ? set->members : w->graph->nodes;
    CU_ASSERT_TRUE_FATAL(w->nodes <= CLUSTER_NODES);
    if (!set->threads)
        adapters_hasten(w->fabric, w->nodes);
    for (uint32_t n = 0; n < w->nodes; n++)
        cluster_attach(w, n);
    cluster_group(w);
}

void cluster_close(struct cluster *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_TRUE(w->bad_company || !w->fab[n]->counts.malformed);
        CU_ASSERT_TRUE(w->bad_company || !w->fab[n]->counts.out_of_window);
        nic_thread_stop(w->fab[n]->thread);
        fabemu_group_leave(w->group[n]);
        nic_close(w->fab[n]);
    }
    world_fabric_stop(w->fabric, w->graph);
}

void cluster_pump(struct cluster *w)
{
    if (w->threads) {
        sched_yield();
        return;
    }
    adapters_pass(w->fabric, w->fab, w->nodes);
    if (w->also)
        w->also(w);
}

bool cluster_finish(struct cluster *w, struct fabemu_req *req, uint32_t count)
{
    uint64_t end = emu_now_ns() + UINT64_C(20000000000);

    for (uint32_t i = 0; i < count; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING) {
            cluster_pump(w);
            if (emu_now_ns() > end)
                return false;
        }
    return true;
}
