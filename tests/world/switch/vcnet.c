/* SPDX-License-Identifier: BSD-3-Clause */
/* vcnet.c - see vcnet.h: how it is made and taken apart, and how time goes on. */
#include "tests/world/switch/vcnet.h"

#include <string.h>

#include "switch/channel/allocate.h"
#include "tests/test.h"

static uint32_t post_tag(const struct vcnode *p, uint32_t i)
{
    return p->node << TAG_NODE | (i + 1);
}

struct vcnode *vcnet_node(struct vcnet *w, uint32_t worker)
{
    struct vcnode *p = world_zeros(sizeof *p);

    emu_dev_init(&p->dev, w->worker[worker], vcnode_step);
    p->world = w;
    p->node = w->nodes;
    p->open_max = w->profile.channels < EMU_VCS_KEPT_OF ? w->profile.channels
                                                        : w->profile.channels - 1;
    emu_vcs_init(&p->vcs, w->profile.channels, w->profile.pool_slots, p->dev.timed);
    w->node[w->nodes++] = p;
    return p;
}

struct switch_dev *vcnet_switch(struct vcnet *w, uint32_t worker, uint32_t ports,
                                const struct topo_route *route)
{
    CU_ASSERT_EQUAL_FATAL(switch_create(&w->sw[w->switches], w->worker[worker], ports, route,
                                        &w->profile, test_seed() * 31 + w->switches),
                          0);
    return w->sw[w->switches++];
}

void vcnet_plug(struct vcnet *w, struct vcnode *p, struct switch_dev *sw, uint32_t port)
{
    struct emu_dev *dev = switch_emu_dev(sw);

    p->sw = sw;
    p->port = port;
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&p->tx, &p->dev, 0, switch_rx(sw, port), dev, (uint8_t)port,
                                        emu_vc_ring(&w->profile), &w->profile),
                          0);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(switch_tx(sw, port), dev, (uint8_t)port, &p->rx, &p->dev, 0,
                                        emu_vc_ring(&w->profile), &w->profile),
                          0);
}

void vcnet_cable(struct vcnet *w, uint32_t from, uint32_t from_port, uint32_t to, uint32_t to_port)
{
    CU_ASSERT_EQUAL_FATAL(emu_link_join(switch_tx(w->sw[from], from_port),
                                        switch_emu_dev(w->sw[from]), (uint8_t)from_port,
                                        switch_rx(w->sw[to], to_port), switch_emu_dev(w->sw[to]),
                                        (uint8_t)to_port, emu_vc_ring(&w->profile), &w->profile),
                          0);
}

void vcnet_begin(struct vcnet *w, const char *set, enum emu_clock_mode mode, uint32_t workers)
{
    struct emu_clock clock = {.mode = mode, .origin_ns = emu_host_ps(0) / 1000};

    memset(w, 0, sizeof *w);
    world_profile(&w->profile, "qsnet3", set);
    w->profile = emu_profile_on(&w->profile, mode);
    w->clock = mode;
    w->timeout_ps = EMU_NEVER;
    w->pool = emu_pool_create(200000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(w->pool);
    emu_pool_cache_init(&w->cache, w->pool);
    for (; w->workers < workers; w->workers++)
        CU_ASSERT_EQUAL_FATAL(emu_worker_create(&w->worker[w->workers],
                                                VCNET_SWITCHES + VCNET_NODES, &clock, w->pool),
                              0);
}

void vcnet_ready(struct vcnet *w)
{
    if (w->clock == EMU_CLOCK_VIRTUAL)
        CU_ASSERT_EQUAL_FATAL(emu_windows_create(&w->windows, w->worker, w->workers,
                                                 emu_profile_lookahead_ps(&w->profile), NULL),
                              0);
}

void vcnet_open_on(struct vcnet *w, const char *spec, const char *set, enum emu_clock_mode mode,
                   uint32_t workers)
{
    uint32_t worker_of[VCNET_SWITCHES];

    vcnet_begin(w, set, mode, workers);
    w->graph = world_graph(spec, VCNET_NODES);
    CU_ASSERT_TRUE_FATAL(w->graph->switches <= VCNET_SWITCHES);
    topo_partition(w->graph, workers, worker_of);
    for (uint32_t s = 0; s < w->graph->switches; s++)
        vcnet_switch(w, worker_of[s], w->graph->ports, &w->graph->sw[s].route);
    for (uint32_t s = 0; s < w->graph->switches; s++)
        for (uint32_t p = 0; p < w->graph->ports; p++)
            if (w->graph->sw[s].end[p].kind == TOPO_END_SWITCH)
                vcnet_cable(w, s, p, w->graph->sw[s].end[p].id, w->graph->sw[s].end[p].port);
    for (uint32_t n = 0; n < w->graph->nodes; n++)
        vcnet_plug(w, vcnet_node(w, worker_of[w->graph->node[n].link[0].sw]),
                   w->sw[w->graph->node[n].link[0].sw], w->graph->node[n].link[0].port);
    vcnet_ready(w);
}

void vcnet_open(struct vcnet *w, const char *spec, const char *set)
{
    vcnet_open_on(w, spec, set, EMU_CLOCK_VIRTUAL, 1);
}

void vcnet_group(struct vcnet *w, uint32_t id, const uint32_t *nodes, uint32_t count)
{
    uint32_t load[VCNET_SWITCHES] = {0};
    struct topo_tree tree;

    for (uint32_t s = 0; s < w->switches; s++)
        load[s] = id * 7 + s * 3 % 5; /* not the same top for all */
    for (uint32_t i = 0; i < count; i++)
        w->member[id][nodes[i]] = true;
    CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, w->graph, nodes, count, load), 0);
    for (uint32_t i = 0; i < tree.count; i++) {
        struct switch_dev *sw = w->sw[tree.switches[i].sw];
        void *old;

        CU_ASSERT_EQUAL_FATAL(switch_group_create(&w->part[w->parts], id, tree.switches[i].ports,
                                                  tree.switches[i].up, 0, EMU_COMBINE_ARRIVAL),
                              0);
        CU_ASSERT_EQUAL_FATAL(switch_groups_set(sw, w->part[w->parts], &old), 0);
        free(old);
        w->part_sw[w->parts++] = sw;
    }
    topo_tree_release(&tree);
}

void vcnet_faults(struct vcnet *w, const struct emu_fault_rates *rates, uint64_t seed)
{
    uint32_t ports = w->switches ? w->sw[0]->ports : 0, n = 0;

    w->faults = calloc(w->switches * ports + w->nodes, sizeof *w->faults);
    for (uint32_t s = 0; s < w->switches; s++)
        for (uint32_t p = 0; p < ports; p++) {
            emu_faults_init(&w->faults[n], rates, seed * 1000 + n);
            switch_faults(w->sw[s], p, &w->faults[n++]);
        }
    for (uint32_t i = 0; i < w->nodes; i++) {
        emu_faults_init(&w->faults[n], rates, seed * 1000 + n);
        w->node[i]->faults = &w->faults[n++];
    }
}

void vcnet_close(struct vcnet *w)
{
    emu_windows_destroy(w->windows);
    for (uint32_t i = 0; i < w->parts; i++) {
        switch_groups_clear(w->part_sw[i], w->part[i]->id);
        switch_group_destroy(w->part[i], w->part_sw[i]->ports, &w->cache);
    }
    for (uint32_t s = 0; s < w->switches; s++)
        switch_destroy(w->sw[s]);
    for (uint32_t n = 0; n < w->nodes; n++) {
        emu_link_unjoin(&w->node[n]->tx);
        free(w->node[n]->post);
        free(w->node[n]->got);
        free(w->node[n]);
    }
    for (uint32_t i = 0; i < w->workers; i++)
        emu_worker_destroy(w->worker[i]);
    emu_pool_destroy(w->pool);
    free(w->faults);
    topo_free(w->graph);
}

uint32_t vcnet_post(struct vcnet *w, uint32_t src, uint64_t ready_ps, struct vcnet_post post)
{
    struct vcnode *p = w->node[src];

    p->post = world_room(p->post, p->posts, &p->posts_room, sizeof *p->post);
    if (w->now_ps && ready_ps <= w->now_ps) /* that has happened */
        ready_ps = w->now_ps + 1;
    post.ready_ps = ready_ps;
    post.tag = post_tag(p, p->posts);
    p->post[p->posts] = post;
    if (w->clock != EMU_CLOCK_RAW)
        emu_dev_wake(&p->dev, ready_ps);
    return p->posts++;
}

void vcnet_advance(struct vcnet *w, uint64_t until_ps)
{
    emu_windows_advance(w->windows, until_ps);
    w->now_ps = until_ps;
}

void vcnet_settle(struct vcnet *w)
{
    for (uint32_t s = 0; s < w->switches; s++)
        for (uint32_t p = 0; p < w->sw[s]->ports; p++)
            if (switch_channels_of(w->sw[s])->plugged >> p & 1)
                switch_channel_take_credits(switch_channels_of(w->sw[s]), p, EMU_NEVER);
    for (uint32_t n = 0; n < w->nodes; n++)
        vcnode_take_credits(w->node[n], EMU_NEVER);
}

void vcnet_ticks(struct vcnet *w, uint32_t ticks)
{
    while (ticks--) {
        for (uint32_t s = 0; s < w->switches; s++) {
            switch_channels_raw_of(w->sw[s])->swept_ps = 0;
            emu_dev_again(switch_emu_dev(w->sw[s]));
        }
        for (uint32_t k = 0; k < w->workers; k++)
            emu_worker_pass(w->worker[k]);
    }
}

bool vcnet_drain(struct vcnet *w, uint64_t limit_ps)
{
    uint64_t next_ps;

    while ((next_ps = emu_windows_next_ps(w->windows)) < limit_ps)
        vcnet_advance(w, next_ps + 10000000);
    vcnet_settle(w);
    return next_ps == EMU_NEVER;
}
