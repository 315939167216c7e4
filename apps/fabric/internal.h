/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - a running fabric as its manager sees it. Everything here
 * is the manager's; workers have only what was published to them.
 */
#ifndef APPS_FABRIC_INTERNAL_H
#define APPS_FABRIC_INTERNAL_H

#include "apps/fabric/fabric.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fabric/stalls.h"
#include "emu/buffer/combiner.h"
#include "emu/buffer/pool.h"
#include "emu/hostif/fabric/fabric.h"
#include "emu/link/channels.h"
#include "emu/util/table.h"
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
 * With acknowledgments: the link engines that know a group. They are its members' and, where
 * switches have units, those of the switches of its tree. They know it as long as it is, whether a
 * member has left or not. fabric/members.c's.
 */
struct fabric_group_engines {
    uint32_t count;
    struct {
        uint32_t number;            /* of the engine: a node, or a unit */
        uint64_t seat;              /* of the node's process */
        struct engine *engine;      /* NULL: on another host */
        struct engine_group *group; /* what it knows; NULL: as above */
    } at[];
};

struct fabric_group {
    uint32_t id; /* collective address: slot, and a generation above it */
    bool combines;
    bool failed;      /* something of it is lost for good: see fabric/losses.c */
    bool treeless;    /* links are out, and no other tree can be for now: */
    bool parted;      /* its members cannot reach each other */
    uint32_t sources; /* members that send to it, at most */
    struct topo_tree tree;
    struct switch_group **part; /* tree.count of them, beside tree.switches; NULL: elsewhere */
    struct fabric_group_engines *engines; /* NULL: none knows it */
    uint64_t bufs;                        /* of the pool, set aside for it */
    struct fabric_group *next;            /* of those that are gone and not freed */
    uint32_t members;                     /* that have not left */
    uint32_t count;                       /* of node[] */
    uint32_t node[];                      /* with FABRIC_LEFT once it has left */
};

/* What drives on one kind of clock. */
struct fabric_drive_kind {
    int (*start)(struct fabric *fabric);
    void (*stop)(struct fabric *fabric); /* of what start() has made, the failed one too */
    void (*hold)(struct fabric *fabric);
    void (*go)(struct fabric *fabric);
    void (*wake)(struct emu_dev *dev, uint64_t now_ps);
    bool is_virtual;
};

/*
 * What steps the workers: threads that go on by themselves, or windows that the driver opens.
 * fabric/drive.c's, and nobody else looks which it is; tests that step workers know their clock.
 */
struct fabric_drive {
    const struct fabric_drive_kind *kind;
    union {
        struct emu_thread **thread; /* by worker; NULL: it has none now */
        struct emu_windows *windows;
    };
};

/* The link engines. fabric/engines.c's. */
struct fabric_engines {
    uint32_t count; /* fabric_engine_numbers(), or 0: there are none */
    /* by number: the nodes', then the switches' combine units; NULL: on another host */
    struct engine **at;
    uint32_t *units; /* whose the units are, by switch and port: see switch_units() */
};

/* The cables between devices. fabric/links.c's. */
struct fabric_links {
    const struct topo_graph
        *routed;    /* the network without links that are out: tables' and trees' */
    uint32_t count; /* cables */
    struct fabric_cable *cable;
    uint32_t crossings; /* cables with one end here */
    struct fabric_crossing *crossing;
    uint32_t *at;     /* the cable, by switch and port; TOPO_NONE */
    uint32_t ungrown; /* groups that keep a tree with a lost link until they are quiet */
    uint64_t regrown; /* trees that others have taken the place of */
    bool parting;     /* what has no way to where it is to go is dropped, */
    uint64_t parted;  /* and so many segments were */
    bool eased;       /* for now it is carried all the same */
    bool *severed;    /* by cable; NULL: none is. fabric/hosts.c's, as is */
    bool *strands;    /* by node, then switch: what goes from here to there may be lost */
    bool *out;        /* by cable: it is not in use (fabric_link_set()) */
    bool faulty;      /* something was made to go wrong on one of them: */
    /* two a cable: from its first end, to it; NULL: nothing goes wrong there */
    struct emu_faults **faults;
    struct emu_slow **slow;     /* the same order; NULL: the wire was never slow */
    struct emu_fault_log **log; /* by worker: what its devices' faults have hit; NULL: none has */
};

/* Trees through a switch with units out of service count as so many: others are taken first. */
#define FABRIC_OUT_LOAD (UINT32_C(1) << 24)

/* What goes wrong where a switch, or an adapter, combines. fabric/combining.c's. */
struct fabric_combine {
    struct emu_faults *faults; /* rules about what is folded; NULL: none ever */
    bool exhausted;            /* no group that is new has states in it */
    uint64_t refused;          /* groups that were refused for that */

    /* fabric/losses.c's, as of its last look at the switch. */
    uint64_t taken;    /* contributions that its units had taken */
    uint64_t since_ps; /* since when they have taken none, and some wait */
    bool waits;        /* some did */
    uint64_t damaged;  /* states that were found damaged */
    uint64_t overran;  /* segments that found no room */

    /* fabric/combining.c's. */
    bool out;      /* its units are out of service */
    uint32_t held; /* contributions that waited when they were taken out */
};

#define FABRIC_LOSSES_RECENT 256u
#define FABRIC_LOSSES_MOST   65536u /* that have not been reported: of pairs, and as many others */

/* What was found and not taken yet. fabric/losses.c's. */
struct fabric_losses {
    struct fabric_loss *at;
    uint32_t count, taken, most;
    uint32_t urgent;                       /* of those in it: not of a pair */
    uint32_t recent[FABRIC_LOSSES_RECENT]; /* by pair: where in `at` one of it may be */
    uint64_t now_ps;                       /* of the last look */
    uint64_t given_up;                     /* by nodes' engines, as of it */
    bool left;                             /* since then a node has left a group that goes on */
    bool untold; /* some were not noted, for want of memory: they are looked for again */
};

struct fabric {
    struct fabric_config config;
    struct emu_profile inward; /* of cables to nodes inside the fabric: emu_profile_node_ps() */
    struct emu_clock clock;
    uint32_t workers;
    struct emu_worker **worker;
    struct fabric_drive drive;
    struct emu_hostif_list **list; /* two a worker, by turns: the worker's edges */
    struct switch_dev **sw;        /* by switch; NULL: on another host */
    struct fabric_links links;
    struct fabric_engines engines;
    struct fabric_combine *combine; /* fabric_combine_slots() */
    struct fabric_losses losses;
    struct emu_shelf **shelf; /* by switch; NULL: none yet, or none at all */
    struct emu_hostif **edge; /* by node; NULL: nobody attached */
    uint64_t *seat;           /* by node: who is there, emu_seat_state() */
    struct emu_rx **local; /* by node: receiving end of one inside the fabric; NULL: it is none */
    struct emu_pool *pool;
    struct emu_pool_cache cache; /* the manager's */
    uint32_t attached;           /* here */
    unsigned watched;            /* fabric_watch(): by whom */
    uint64_t watched_bytes;      /* emu_hostif_shared.watched_bytes */
    uint64_t starved_ns;         /* fabric_starved(); */
    uint64_t starved_at_ns;      /* when it was called last; 0: never */
    uint64_t tick_starved_ns;    /* starved_ns at the last fabric_tick() */
    uint32_t far;                /* on other hosts; the governor's */
    uint32_t edges;              /* ever made: names them */
    uint32_t *tree_load;         /* by switch: trees through it */
    uint32_t *states;    /* by switch: partial results set aside in it: fabric_has_states() */
    uint64_t spare_bufs; /* buffers of the pool that groups may still set aside */
    bool has_host_links; /* devices of config.hosts->ops may be there */
    struct fabric_group **group;        /* by slot */
    struct fabric_group *gone;          /* whose engines have something of them under way */
    bool stopped;                       /* no worker runs any more */
    uint32_t slots;                     /* in use: the table grows when half of it is taken */
    uint32_t groups;                    /* slots taken */
    uint32_t combining;                 /* of them, by groups that can combine */
    uint32_t last_slot;                 /* the slot handed out last: freed ones rest a while */
    uint32_t generation;                /* of collective addresses */
    const struct fabric_mirror *mirror; /* NULL: one host, or one that does not govern */
    struct emu_clash clash;             /* what fabric_clash() has given, where there is a mirror */
    struct fabric_moved *moved;         /* fabric/stalls.c: by link; NULL until needed */
    struct fabric_taps *taps;           /* fabric/taps.c's; NULL: nothing is captured */
    struct fabric_totals past;          /* of edges that are gone */
    struct fabric_comm_past *comm;      /* fabric/comm.c's; NULL until needed */
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

/* fabric/hosts.c: is the switch, or the node, on this host? Pure. */
static inline bool fabric_has_switch(const struct fabric_config *config, uint32_t s)
{
    return !config->hosts || config->hosts->of[s] == config->hosts->self;
}

static inline bool fabric_has_node(const struct fabric_config *config, uint32_t n)
{
    return !config->hosts || fabric_has_switch(config, topo_first_link(config->graph, n)->sw);
}

/* fabric/hosts.c: how many of both are here. Pure. */
uint32_t fabric_own_switches(const struct fabric_config *config);
uint32_t fabric_own_nodes(const struct fabric_config *config);

/* fabric/hosts.c: devices of host links that worker @w of @workers steps. Pure. */
uint32_t fabric_host_links(const struct fabric_config *config, uint32_t w, uint32_t workers);

/**
 * fabric_crossing_replay - of a cable that crosses, to the switch here: link-level retry between
 * the host link and that switch. NULL: it has none, or does not cross here. Thread: manager,
 * between fabric_hold() and fabric_go(); its device (emu_replay.wire.owner) is to be woken.
 */
struct emu_replay *fabric_crossing_replay(const struct fabric *fabric, uint32_t cable);

/** fabric_crossings_count - what their sending halves have sent again, added to @sum. */
void fabric_crossings_count(const struct fabric *fabric, struct switch_retries *sum);

/** fabric_switch_ups - ports of a switch that lead to switches of higher levels. Pure. */
emu_ports fabric_switch_ups(const struct topo_graph *graph, uint32_t sw);

/** fabric_crossing_segments - that a cable which crosses may have under way each way. Pure. */
uint32_t fabric_crossing_segments(const struct fabric_config *config);

/*
 * hosts.c: cables of which the switch at the first end is here: each is one host's. @crossing: of
 * them, those that lead to another host.
 */
uint32_t fabric_own_cables(const struct fabric *fabric, uint32_t *crossing);

/* fabric/hosts.c: the devices of host links; crossing cables between them and devices here. */
int fabric_make_host_links(struct fabric *fabric);
int fabric_plug_crossings(struct fabric *fabric);
void fabric_free_host_links(struct fabric *fabric);

/* fabric/hosts.c: may what @from sends to @to go by a severed cable? */
bool fabric_strands(const struct fabric *fabric, uint32_t from, uint32_t to);
void fabric_free_severed(struct fabric *fabric);

/* fabric/hosts.c: the list of crossings. Errors: -ENOMEM. */
int fabric_make_crossings(struct fabric *fabric);

/* Does a link engine stand between each node and its cables? */
static inline bool fabric_has_engines(const struct fabric_config *config)
{
    return emu_profile_has_engines(&config->profile);
}

/* Of a cable between switches; with engines its channels keep their own accounts. */
static inline uint32_t fabric_cable_credits(const struct fabric_config *config)
{
    return fabric_has_engines(config) ? emu_vc_ring(&config->profile)
                                      : emu_profile_credits(&config->profile);
}

/* Has each switch a combine unit that is a link engine? */
static inline bool fabric_has_units(const struct fabric_config *config)
{
    return emu_profile_has_unit_engines(&config->profile);
}

/* Do switches hold the partial results of reductions? Else link engines do. */
static inline bool fabric_has_states(const struct fabric_config *config)
{
    return !fabric_has_engines(config);
}

/*
 * fabric/config.c: buffers that all switches, edges and workers' caches can hold at once. Beyond
 * these the pool has FABRIC_GROUP_BUFS for partial results, which groups set aside when they are
 * made. Reserved, not touched: memory follows use. Pure.
 */
uint64_t fabric_bufs(const struct fabric_config *config, uint32_t workers);

/* fabric/config.c: the profile as a network of this size has it on its clock. Pure. */
struct emu_profile fabric_profile_on(const struct fabric_config *config);

/*
 * fabric/drive.c: the clock begins at config.start_ps; is rebased if it is time, more than once
 * if the last look was long ago; is rebased by @by_ps, while the workers stand still.
 */
void fabric_clock_start(struct fabric *fabric);
void fabric_clock_tick(struct fabric *fabric);
void fabric_clock_rebase(struct fabric *fabric, uint64_t by_ps);

/* fabric/groups.c: the group of that address, or NULL. */
struct fabric_group *fabric_group_at(const struct fabric *fabric, uint32_t id);

/* fabric/engines.c: ports of a switch, and numbers of engines, units included. Pure. */
uint32_t fabric_switch_ports(const struct fabric_config *config);
uint32_t fabric_engine_numbers(const struct fabric_config *config);

/* fabric/engines.c: a unit for each switch, if the profile says so. Errors: -ENOMEM. */
int fabric_plug_units(struct fabric *fabric);

/*
 * fabric/engines.c: what the unit of a switch in its tree is to know of a group. Errors: -ENOMEM.
 */
int fabric_unit_group(const struct fabric *fabric, const struct fabric_group *group,
                      const struct topo_tree_switch *at, struct engine_group **ret);

/* The engine of @node; NULL: nodes have none. */
static inline struct engine *fabric_engine(const struct fabric *fabric, uint32_t node)
{
    return node < fabric->engines.count ? fabric->engines.at[node] : NULL;
}

/* The combine unit of switch @s; NULL: switches have none that is a link engine. */
static inline struct engine *fabric_unit(const struct fabric *fabric, uint32_t s)
{
    return fabric_engine(fabric, fabric->config.graph->nodes + s);
}

/* fabric/engines.c: pure. */
struct fabric_host fabric_host(const struct fabric *fabric, uint32_t node);

/* fabric/engines.c: the table, still empty; with all that is in it, units too. Errors: -ENOMEM. */
int fabric_engines_create(struct fabric *fabric);
void fabric_engines_destroy(struct fabric *fabric);

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

/*
 * fabric/links.c: the cable at a port, seen from its first end; false: there is none, or it is seen
 * from the other end. Pure.
 */
bool fabric_cable_from(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                       struct fabric_cable *ret);

/* fabric/links.c: the list of cables, and config.faults on each. Errors: -ENOMEM. */
int fabric_make_cables(struct fabric *fabric);
int fabric_fault_cables(struct fabric *fabric);

/* fabric/ports.c: the time of a hit that the manager notes at its @now_ps. */
uint64_t fabric_hit_ps(const struct fabric *fabric, uint64_t now_ps);

/* fabric/combining.c: a switch of the tree in which no group finds states now; NULL: none. */
const struct topo_tree_switch *fabric_combine_exhausted(struct fabric *fabric,
                                                        const struct topo_tree *tree);

/* fabric/combining.c: do switches combine, with or without link engines? If not, adapters may. */
bool fabric_switches_combine(const struct fabric *fabric);

/*
 * fabric/combining.c: units of crosspoint switches are out of service, or in it again. Between
 * fabric_hold() and fabric_go().
 */
void fabric_combine_out(struct fabric *fabric, uint32_t sw, bool out, uint64_t now_ps);

/* fabric/combining.c: is a unit of the tree out of service? */
bool fabric_combine_is_out(const struct fabric *fabric, const struct topo_tree *tree);

/* fabric/losses.c: it is in service again. fabric_free_losses() - at the end. */
void fabric_losses_unit_back(struct fabric *fabric, uint32_t sw);
void fabric_free_losses(struct fabric *fabric);

/*
 * fabric/replan.c: the group, which combines in switches, gets a tree without units that are out of
 * service. False: it keeps what it has, for something of it is under way, or there is none. Between
 * fabric_hold() and fabric_go().
 */
bool fabric_group_evade(struct fabric *fabric, struct fabric_group *group, uint64_t now_ps);

/* fabric/replan.c: groups without a tree may have one now: fabric_ungrown() counts them, too. */
void fabric_regrow_treeless(struct fabric *fabric);

/* Elements of fabric->combine: by switch, and where adapters combine by node. Pure. */
static inline uint32_t fabric_combine_slots(const struct topo_graph *graph)
{
    return graph->switches > graph->nodes ? graph->switches : graph->nodes;
}

/* fabric/combining.c: with the cables' faults. */
void fabric_free_combine(struct fabric *fabric);

/*
 * fabric/ports.c: slow down the cables to which the network's file gives a rate below the fastest
 * one, if the configuration asks for that and the clock has times. Before the workers start.
 * Errors: -ENOMEM.
 */
int fabric_rate_cables(struct fabric *fabric);

/*
 * fabric/ports.c: how slow the wire from a node without an engine to its switch is; NULL: it has
 * the profile's rate.
 */
const struct emu_slow *fabric_slow_node(const struct fabric *fabric, uint32_t node);

/* fabric/ports.c: once no device is left that may be slow. */
void fabric_free_ports(struct fabric *fabric);

/* fabric/links.c: what held entries hold goes back to the pool; all of it is freed. */
void fabric_free_cables(struct fabric *fabric);

/*
 * fabric/drive.c: what drives on this clock; the workers run, or can be advanced; they end. Errors:
 * -ENOMEM, -EAGAIN and -EMFILE (threads).
 */
void fabric_drive_choose(struct fabric *fabric);
int fabric_drive_start(struct fabric *fabric);
void fabric_drive_stop(struct fabric *fabric);

/*
 * fabric/drive.c: a device has something to do that no link tells it of. Between fabric_hold() and
 * fabric_go().
 */
void fabric_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps);

/* fabric/drive.c: the first time at which it can: not in a window that is over. */
uint64_t fabric_soon_ps(const struct fabric *fabric, uint64_t now_ps);

/*
 * fabric/members.c: a group's parts in the switches of its tree; @units: of a switch, that combine.
 * NULL: there is no memory. Freed when no switch knows them.
 */
struct switch_group **fabric_parts_create(struct fabric *fabric, uint32_t id,
                                          const struct topo_tree *tree, uint32_t units);
void fabric_parts_free(struct fabric *fabric, struct switch_group **part, uint32_t count);

/*
 * fabric/members.c: into the tables of all switches of the tree or, on failure, of none; out of
 * all. Errors: as switch_groups_set().
 */
int fabric_parts_publish(struct fabric *fabric, uint32_t id, const struct topo_tree *tree,
                         struct switch_group **part);
void fabric_parts_withdraw(struct fabric *fabric, uint32_t id, const struct topo_tree *tree);

/*
 * fabric/groups.c: what is set aside for the group is for the tree @to from now on, which will be
 * its own. False: there is no room for that, and all is as it was.
 */
bool fabric_group_reserve_for(struct fabric *fabric, struct fabric_group *group,
                              const struct topo_tree *to);

/* What a group is to be. */
struct fabric_group_plan {
    const uint32_t *nodes;
    uint32_t count;
    uint32_t sources; /* members that send to it */
    bool combines;
    bool wide; /* with a wide window */
    /* the governor's, on other hosts; TOPO_NONE, which is no address: the next one */
    uint32_t id;
};

/*
 * fabric/groups.c: a group that no device knows yet, in @slot of the table, which it is not in.
 * NULL: no memory. fabric_group_slot_of(): the slot of address @id; -1: it is taken.
 * fabric_group_set_aside(): buffers for its partial results, and states in every switch of its
 * tree, for which there is room, as was asked before. Errors: -ENOSPC, no buffers are left.
 * fabric_group_unreserve(): they are free again.
 */
struct fabric_group *fabric_group_new(struct fabric *fabric, const struct fabric_group_plan *plan,
                                      uint32_t slot);
int64_t fabric_group_slot_of(struct fabric *fabric, uint32_t id);
int fabric_group_set_aside(struct fabric *fabric, struct fabric_group *group);

/**
 * fabric_units_can - fabric/groups.c: can the combine unit of each switch of @tree take
 * contributions from all of its ports? Always true for a group that does not combine, and where
 * switches have no link engines as units. Pure.
 */
bool fabric_units_can(const struct fabric *fabric, bool combines, const struct topo_tree *tree);

void fabric_group_unreserve(struct fabric *fabric, struct fabric_group *group);

/* fabric/nodes.c: all that are attached here see who is at @node: emu_seat_state() and all bits. */
void fabric_seat_tell(struct fabric *fabric, uint32_t node, uint64_t word);

/*
 * fabric/totals.c: add the counters of a process's host interface,
 * when it detaches and when the sum is read.
 */
void fabric_totals_add_edge(struct fabric_totals *to, const struct emu_hostif *edge);

/* fabric/groups.c: free a group that no device knows any more, or keep it until that can be. */
void fabric_group_free(struct fabric *fabric, struct fabric_group *group);

/*
 * fabric/groups.c: a new group, which went as far as @err, is the fabric's from now on, or freed.
 * Returns @err.
 */
int fabric_group_enter(struct fabric *fabric, struct fabric_group *group, uint32_t slot, int err);

/* fabric/groups.c: free those that were kept. */
void fabric_groups_sweep(struct fabric *fabric);

/* fabric/members.c: what the engines that know a group are to know of it. Errors: -ENOMEM. */
int fabric_members_create(const struct fabric *fabric, struct fabric_group *group);

/* fabric/members.c: into the engines, and out of them. Errors: -ENOMEM. */
int fabric_members_publish(const struct fabric_group *group);
void fabric_members_withdraw(const struct fabric_group *group);

/* fabric/members.c: false: something of it is under way. */
bool fabric_members_free(struct fabric *fabric, struct fabric_group *group);

#endif
