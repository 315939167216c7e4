/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_internal.h - a running fabric as its manager sees it. Everything here
 * is the manager's; workers have only what was published to them.
 */
#ifndef APPS_FABRIC_INTERNAL_H
#define APPS_FABRIC_INTERNAL_H

#include "apps/fabric.h"
#include "emu/edge_fabric.h"
#include "emu/pool.h"
#include "emu/windows.h"
#include "emu/worker.h"
#include "switch/switch.h"

static_assert(FABRIC_GROUPS_MAX == SWITCH_GROUPS_MAX, "a slot in every switch for each group");
static_assert(FABRIC_COMBINING_MAX == SWITCH_COMBINING_MAX, "as many as a switch can list");

struct fabric_group {
    uint32_t id; /* collective address: slot, and a generation above it */
    bool combines;
    struct topo_tree tree;
    struct switch_group **part; /* tree.count of them, beside tree.switches */
    uint32_t members;           /* that have not left */
    uint32_t count;             /* of node[] */
    uint32_t node[];            /* TOPO_NONE once it has left */
};

struct fabric {
    struct fabric_config config;
    struct emu_clock clock;
    uint32_t workers;
    struct emu_worker **worker;
    struct emu_thread **thread;    /* clocks raw and real */
    struct emu_windows *windows;   /* clock virtual */
    struct emu_edge_list **list; /* two a worker, by turns: the worker's edges */
    struct switch_dev **sw; /* by switch */
    struct emu_edge **edge; /* by node; NULL: nobody attached */
    struct emu_rx **local;  /* by node: the receiving end of one inside the fabric, or NULL */
    struct emu_pool *pool;
    struct emu_pool_cache cache; /* the manager's */
    uint32_t attached;
    uint32_t *tree_load;         /* by switch: trees through it */
    uint32_t *states;            /* by switch: partial results set aside */
    uint64_t spare_bufs; /* buffers of the pool that groups may still set aside */
    struct fabric_group **group; /* by slot */
    uint32_t slots;              /* in use: the table grows when half of it is taken */
    uint32_t groups;             /* slots taken */
    uint32_t combining;          /* of them, by groups that can combine */
    uint32_t last_slot;          /* the slot handed out last: freed ones rest a while */
    uint32_t generation;         /* of collective addresses */
    struct fabric_totals past;   /* of edges that are gone */
    uint64_t past_ideal_ns;
    uint64_t past_actual_ns;
};

/* fabric_groups.c: free a group that no switch knows any more. */
void fabric_group_free(struct fabric *fabric, struct fabric_group *group);

#endif
