/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - a running fabric as its manager sees it. Everything here
 * is the manager's; workers have only what was published to them.
 */
#ifndef APPS_FABRIC_INTERNAL_H
#define APPS_FABRIC_INTERNAL_H

#include "apps/fabric/fabric.h"
#include "emu/edge/fabric.h"
#include "emu/link/pool.h"
#include "emu/table.h"
#include "emu/worker/windows.h"
#include "emu/worker/worker.h"
#include "nic/engine/engine.h"
#include "switch/switch.h"

static_assert(FABRIC_GROUPS_MAX == EMU_TABLE_SLOTS, "a slot in every switch for each group");
static_assert(FABRIC_COMBINING_MAX == SWITCH_COMBINING_MAX, "as many as a switch can list");

/* for partial results, which groups set aside: 1 GB of address space */
#define FABRIC_GROUP_BUFS  (1u << 22)
#define FABRIC_GENERATIONS (EMU_GROUP_WIDE / FABRIC_GROUPS_MAX - 1) /* no address is UINT32_MAX */

/*
 * A member's adapter, or a unit of the tree: as long as the group is, whether a member has left or
 * not.
 */
struct fabric_member {
    struct engine *engine;
    struct engine_group *group;
};

struct fabric_group {
    uint32_t id; /* collective address: slot, and a generation above it */
    bool combines;
    uint32_t sources; /* members that send to it, at most */
    struct topo_tree tree;
    struct switch_group **part;   /* tree.count of them, beside tree.switches */
    struct fabric_member *member; /* NULL: packets are not acknowledged */
    /* of member[]: the members, and a unit for each switch of the tree */
    uint32_t knowing;
    uint64_t bufs;             /* of the pool, set aside for it */
    struct fabric_group *next; /* of those that are gone and not freed */
    uint32_t members;          /* that have not left */
    uint32_t count;            /* of node[] */
    uint32_t node[];           /* TOPO_NONE once it has left */
};

struct fabric {
    struct fabric_config config;
    struct emu_profile inward; /* of cables to nodes inside the fabric: emu_profile_node_ps() */
    struct emu_clock clock;
    uint32_t workers;
    struct emu_worker **worker;
    struct emu_thread **thread;  /* clocks raw and real */
    struct emu_windows *windows; /* clock virtual */
    struct emu_edge_list **list; /* two a worker, by turns: the worker's edges */
    struct switch_dev **sw;      /* by switch */
    struct engine **engine;      /* by node; NULL where packets are not acknowledged */
    struct engine **unit;      /* by switch: its combine unit; NULL: they have none of this kind */
    uint32_t *unit_at;         /* by switch and port: see switch_units() */
    struct emu_faults *faults; /* one a direction of a cable; NULL: none are wanted */
    uint32_t faulty;           /* of them, in place */
    struct emu_edge **edge;    /* by node; NULL: nobody attached */
    uint64_t *seat;            /* by node: who is there, emu_seat_state() */
    struct emu_rx **local;     /* by node: the receiving end of one inside the fabric, or NULL */
    struct emu_pool *pool;
    struct emu_pool_cache cache; /* the manager's */
    uint32_t attached;
    uint32_t edges;              /* ever made: names them */
    uint32_t *tree_load;         /* by switch: trees through it */
    uint32_t *states;            /* by switch: partial results set aside */
    uint64_t spare_bufs;         /* buffers of the pool that groups may still set aside */
    struct fabric_group **group; /* by slot */
    struct fabric_group *gone;   /* whose engines have something of them under way */
    bool stopped;                /* no worker runs any more */
    uint32_t slots;              /* in use: the table grows when half of it is taken */
    uint32_t groups;             /* slots taken */
    uint32_t combining;          /* of them, by groups that can combine */
    uint32_t last_slot;          /* the slot handed out last: freed ones rest a while */
    uint32_t generation;         /* of collective addresses */
    struct fabric_totals past;   /* of edges that are gone */
    uint64_t past_ideal_ns;
    uint64_t past_actual_ns;
    uint64_t past_full_ns;
};

/* Where a node's host is plugged in: at its switch, or at its engine. */
struct fabric_host {
    struct emu_dev *dev;
    struct emu_tx *tx; /* to the host */
    struct emu_rx *rx; /* from it */
    uint8_t port;
    uint32_t credits; /* of a cable from here, or to here */
    /* of an edge, or of a cable from a node inside the fabric, */
    const struct emu_profile *profile;
    const struct emu_profile *inward; /* and of the cable to that node */
};

static inline bool fabric_acknowledged(const struct fabric_config *config)
{
    return emu_profile_acknowledged(&config->profile);
}

/* The first link of a node that is not cut: its switch is where the node is stepped. There is one.
 */
static inline const struct topo_link *fabric_node_link(const struct topo_graph *graph,
                                                       uint32_t node)
{
    const struct topo_link *link = graph->node[node].link;

    while (link->sw == TOPO_NONE)
        link++;
    return link;
}

/* Are there combine units of their own? */
static inline bool fabric_has_units(const struct fabric_config *config)
{
    return fabric_acknowledged(config) && config->profile.combining == EMU_COMBINING_SWITCH;
}

/*
 * fabric/clock.c: the clock begins at config.start_ps; is rebased if it is time, more than once
 * if the last look was long ago; is rebased by @by_ps, while the workers stand still.
 */
void fabric_clock_start(struct fabric *fabric);
void fabric_clock_tick(struct fabric *fabric);
void fabric_clock_rebase(struct fabric *fabric, uint64_t by_ps);

/* fabric/units.c: ports of a switch, and numbers of engines, units included. Pure. */
uint32_t fabric_switch_ports(const struct fabric_config *config);
uint32_t fabric_engine_numbers(const struct fabric_config *config);

/* fabric/units.c: a unit for each switch, if the profile says so. Errors: -ENOMEM. */
int fabric_plug_units(struct fabric *fabric);
void fabric_free_units(struct fabric *fabric);

/* fabric/units.c: fabric_check() of a switch's unit. NULL, or what is wrong. */
const char *fabric_check_unit(const struct fabric *fabric, uint32_t s);

/* fabric/units.c: what the unit of a switch in its tree is to know of a group. Errors: -ENOMEM. */
int fabric_unit_group(const struct fabric *fabric, const struct fabric_group *group,
                      const struct topo_tree_switch *at, struct engine_group **ret);

/* fabric/engines.c: pure. */
struct fabric_host fabric_host(const struct fabric *fabric, uint32_t node);

/*
 * fabric/engines.c: the engine of node @n, on the worker of its switch, and its cables. Errors:
 * -ENOMEM.
 */
int fabric_plug_engine(struct fabric *fabric, uint32_t n);

/*
 * fabric/engines.c: a cable, both ways, between an engine's link and a switch's port. Errors:
 * -ENOMEM.
 */
int fabric_join_engine(struct engine *engine, uint8_t link, struct switch_dev *sw, uint8_t port,
                       const struct emu_profile *profile);

/* fabric/engines.c: config.faults on every cable; the workers do not run yet. Errors: -ENOMEM. */
int fabric_fault_cables(struct fabric *fabric);

/* fabric/engines.c: what held entries hold goes back to the pool. */
void fabric_unfault_cables(struct fabric *fabric);

/* fabric/engines.c: fabric_check() of a node's engine and its cables. NULL, or what is wrong. */
const char *fabric_check_engine(const struct fabric *fabric, uint32_t n);

/* fabric/groups.c: free a group that no device knows any more, or keep it until that can be. */
void fabric_group_free(struct fabric *fabric, struct fabric_group *group);

/* fabric/groups.c: free those that were kept. */
void fabric_groups_sweep(struct fabric *fabric);

/* fabric/members.c: what the engines of a group's members are to know of it. Errors: -ENOMEM. */
int fabric_members_create(const struct fabric *fabric, struct fabric_group *group);

/* fabric/members.c: the manager's lists, and the engines'. Errors: -ENOMEM. */
int fabric_members_publish(struct fabric_group *group);
void fabric_members_withdraw(const struct fabric_group *group);

/* fabric/members.c: false: something of it is under way. */
bool fabric_members_free(struct fabric *fabric, struct fabric_group *group);

#endif
