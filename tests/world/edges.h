/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * edges.h - a fabric, and this test at the processes' ends of all its edges, without a library
 * there.
 *
 * The world owns the network, the fabric and its ends of the edges. Where the fabric was not
 * started stopped its workers are threads, and time goes on by itself; otherwise in
 * world_fabric_pass(). What was lost or dropped is for the test to ask: fabric_totals_read().
 */
#ifndef TESTS_WORLD_EDGES_H
#define TESTS_WORLD_EDGES_H

#include "emu/hostif/hostif.h"
#include "tests/world/fabric.h"

#define EDGES_MAX     16u
#define EDGES_GIVE_UP 4000000u /* empty looks before a case is failed: a hang, not a slow host */

struct edges {
    struct topo_graph *graph;
    struct fabric *fabric;
    uint32_t nodes;
    struct emu_hostif_nic nic[EDGES_MAX];
};

/** edges_open - the network @topo, the rest as @config says; a process attaches to every node. */
void edges_open(struct edges *e, const char *topo, const struct fabric_config *config);
/** edges_close - whatever is under way. */
void edges_close(struct edges *e);

/** edges_attach, edges_detach - a process at @node comes, or goes. */
void edges_attach(struct edges *e, uint32_t node);
void edges_detach(struct edges *e, uint32_t node);
/**
 * edges_attach_at - the same of any fabric: only the edge's end, which is the caller's to close.
 */
void edges_attach_at(struct fabric *fabric, uint32_t node, struct emu_hostif_nic *nic);

/** edges_now - the fabric's time, as the process at @node reads it; 0 on clock raw. */
uint64_t edges_now(const struct edges *e, uint32_t node);

/** edges_post - post one segment. False: the ring is full. */
bool edges_post(struct edges *e, uint32_t node, const struct emu_hdr *hdr, const void *payload);
/** edges_take - take one segment of a node. False: there is none. */
bool edges_take(struct edges *e, uint32_t node, struct emu_seg *ret);
/** edges_take_by - the same, if it is there by @now_ps. */
bool edges_take_by(struct edges *e, uint32_t node, uint64_t now_ps, struct emu_seg *ret);
/**
 * edges_pause - between looks for what the workers do; @looks: in vain so far. They get the core
 * now and then even where all of the system's cores have something to do.
 */
void edges_pause(uint32_t looks);
/** edges_await - wait for one segment of a node while the workers run. False: it does not come. */
bool edges_await(struct edges *e, uint32_t node, struct emu_seg *ret);

#endif
