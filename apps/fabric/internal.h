/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the state of a running fabric. Only the manager's thread uses it; workers use what
 * the manager has published to them.
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

#define FABRIC_GROUP_BUFS  (1u << 22) /* for partial results of groups: 1 GB of address space */
#define FABRIC_GENERATIONS (EMU_GROUP_WIDE / FABRIC_GROUPS_MAX - 1) /* no address is UINT32_MAX */

/*
 * With acknowledgments: the link engines that know a group. They are those of its members and, if
 * switches have unit engines, of the switches in its tree. An engine keeps the group until it is
 * freed, also if its member has left. Used by members.c.
 */
struct fabric_group_engines {
    uint32_t count;
    struct {
        uint32_t number;            /* of the engine: a node, or a unit */
        uint64_t incarnation;       /* incarnation of the node's process */
        struct engine *engine;      /* NULL: on another host */
        struct engine_group *group; /* the engine's part of the group; NULL: on another host */
    } at[];
};

struct fabric_group {
    uint32_t id; /* collective address: slot, and above it a generation */
    bool combines;
    bool failed;      /* something of it was dropped unrecoverably: drops.c */
    bool treeless;    /* its tree has lost a link, and there is no other tree now: */
    bool partitioned; /* because its members cannot reach each other */
    uint32_t sources; /* upper limit of members that send to it */
    struct topo_tree tree;
    struct switch_group **part;           /* one for each of tree.switches; NULL: on another host */
    struct fabric_group_engines *engines; /* NULL: without link engines */
    uint64_t bufs;                        /* reserved for it in the pool */
    struct fabric_group *next;            /* in the list fabric.gone */
    uint32_t members;                     /* that have not left */
    uint32_t count;                       /* elements of node[] */
    uint32_t node[];                      /* with FABRIC_LEFT if the member has left */
};

/* Operations of one way to drive the workers. */
struct fabric_drive_kind {
    int (*start)(struct fabric *fabric);
    void (*stop)(struct fabric *fabric); /* also after start() failed */
    void (*pause)(struct fabric *fabric);
    void (*resume)(struct fabric *fabric);
    void (*wake)(struct emu_dev *dev, uint64_t now_ps);
    bool is_virtual;
};

/* Drives the workers: free threads, or windows of simulated time. Only drive.c knows which. */
struct fabric_drive {
    const struct fabric_drive_kind *kind;
    union {
        struct emu_thread **thread; /* by worker; NULL: not started */
        struct emu_windows *windows;
    };
};

/* The link engines (engines.c). */
struct fabric_engines {
    uint32_t count; /* fabric_engine_numbers(); 0: there are none */
    /* by number: those of nodes, then the combine units of switches; NULL: on another host */
    struct engine **at;
    uint32_t *units; /* units reached by each switch and port: see switch_units() */
};

/* The cables between devices (links.c). */
struct fabric_links {
    const struct topo_graph *routed; /* the network without links that are out */
    uint32_t count;                  /* cables */
    struct fabric_cable *cable;
    uint32_t crossings; /* cables with one end on this host and one on another */
    struct fabric_crossing *crossing;
    uint32_t *at;          /* the cable, by switch and port; TOPO_NONE: none */
    uint32_t ungrown;      /* groups that keep a tree with a lost link until they are idle */
    uint64_t regrown;      /* trees that were replaced */
    bool drop_unreachable; /* drop segments whose destination is unreachable; else they wait */
    uint64_t partitioned;  /* number of segments dropped so */
    bool eased;            /* reroute in flight as if every destination were reachable */
    bool *severed;         /* hosts.c: by cable; NULL: none is */
    bool *strands; /* hosts.c: by node, then switch: segments from here to there may be lost */
    bool *out;     /* by cable: not in use (fabric_link_set()) */
    bool faulty;   /* some cable was ever faulty */
    /* two per cable: from its first end, and to it; NULL: never faulty */
    struct emu_faults **faults;
    struct emu_slow **slow;     /* in the same order; NULL: never slow */
    struct emu_fault_log **log; /* by worker: hits of its devices' faults; NULL: none yet */
};

/* Added to the tree load of a switch with units out of service, so that trees avoid it. */
#define FABRIC_OUT_LOAD (UINT32_C(1) << 24)

/* Faults where a switch or an adapter combines. */
struct fabric_combine {
    struct emu_faults *faults; /* rules about contributions; NULL: never any */
    bool exhausted;            /* new groups are refused states in it */
    uint64_t refused;          /* number of groups refused so */

    /* drops.c: as of its last scan of the switch */
    uint64_t taken;    /* contributions that its units had taken */
    uint64_t since_ps; /* since when they have taken none while some wait */
    bool waits;        /* some contribution waited */
    uint64_t damaged;  /* states that were found damaged */
    uint64_t overran;  /* segments dropped for want of space */

    /* faults.c */
    bool out;      /* its units are out of service */
    uint32_t held; /* contributions that waited when the units went out of service */
};

#define FABRIC_DROPS_RECENT 256u
#define FABRIC_DROPS_MOST   65536u /* unreported losses of pairs, and as many other ones */

/* drops.c: unrecoverable drops that were found and not yet taken. */
struct fabric_drops {
    struct fabric_drop *at;
    uint32_t count, taken, most;
    uint32_t urgent;                      /* losses in `at` that are not of a pair */
    uint32_t recent[FABRIC_DROPS_RECENT]; /* by hash of a pair: index in `at` of its last loss */
    uint64_t now_ps;                      /* time of the last scan */
    uint64_t given_up;                    /* packets that nodes' engines had given up by then */
    bool left;                            /* since then a node has left a group that goes on */
    bool unreported; /* out of memory: the next scan must find some losses again */
};

struct fabric {
    struct fabric_config config;
    struct emu_profile inward; /* of cables to nodes inside the fabric: emu_profile_node_ps() */
    struct emu_clock clock;
    uint32_t workers;
    struct emu_worker **worker;
    struct fabric_drive drive;
    struct emu_hostif_list **list; /* two per worker, used alternately: its host interfaces */
    struct switch_dev **sw;        /* by switch; NULL: on another host */
    struct fabric_links links;
    struct fabric_engines engines;
    struct fabric_combine *combine; /* fabric_combine_slots() elements */
    struct fabric_drops drops;
    struct emu_mcast_buf **mcast_buf; /* by switch: shared multicast buffer; NULL: none */
    struct emu_hostif **hostif;       /* by node: host interface; NULL: no process attached */
    uint64_t *incarnation;            /* by node: incarnation, emu_incarnation_state() */
    struct emu_rx **local;            /* by node inside the fabric: its receiving end; else NULL */
    struct emu_pool *pool;
    struct emu_pool_cache cache;  /* of the manager's thread */
    uint32_t attached;            /* processes on this host */
    unsigned watched;             /* bits of enum fabric_watcher */
    uint64_t watched_bytes;       /* emu_hostif_shared.watched_bytes */
    uint64_t starved_ns;          /* fabric_starved() */
    uint64_t starved_at_ns;       /* time of its last call; 0: never */
    uint64_t tick_starved_ns;     /* starved_ns at the last fabric_tick() */
    uint32_t remote;              /* coordinator: processes on other hosts */
    uint32_t hostifs;             /* host interfaces ever made: numbers them */
    uint32_t *tree_load;          /* by switch: trees through it */
    uint32_t *states;             /* by switch: reserved partial results */
    uint64_t spare_bufs;          /* buffers of the pool that groups may still reserve */
    bool has_host_links;          /* config.hosts->ops may have created devices */
    struct fabric_group **group;  /* by slot */
    struct fabric_group *retired; /* removed groups that have packets under way in engines */
    bool stopped;                 /* no worker runs any more */
    uint32_t slots;               /* in use: doubled when half of them are taken */
    uint32_t groups;              /* slots taken */
    uint32_t combining;           /* slots taken by groups that can combine */
    uint32_t last_slot;           /* allocated last: a freed slot is reused as late as possible */
    uint32_t generation;          /* of collective addresses */
    const struct fabric_mirror *mirror; /* NULL: one host, or not the coordinator */
    struct emu_mismatch mismatch;       /* result of fabric_mismatch() if there is a mirror */
    struct fabric_moved *moved;         /* stalls.c: by link; NULL until needed */
    struct fabric_taps *taps;           /* taps.c; NULL: no capture */
    struct fabric_comm_past *comm;      /* comm.c; NULL until needed */
    /* of host interfaces that were destroyed */
    struct fabric_totals past;
    uint64_t past_ideal_ns;
    uint64_t past_actual_ns;
    uint64_t past_full_ns;
};

/* Where a node's host interface or local device is connected: its switch, or its engine. */
struct fabric_host {
    struct emu_dev *dev;
    struct emu_tx *tx; /* to the host */
    struct emu_rx *rx; /* from it */
    uint8_t port;
    uint32_t credits;                  /* of either direction */
    const struct emu_profile *profile; /* of a host interface, or from a node inside the fabric */
    const struct emu_profile *inward;  /* to a node inside the fabric */
};

/* --- hosts.c --- */

/* Is the switch, or the node, on this host? Pure. */
static inline bool fabric_has_switch(const struct fabric_config *config, uint32_t s)
{
    return !config->hosts || config->hosts->of[s] == config->hosts->self;
}

static inline bool fabric_has_node(const struct fabric_config *config, uint32_t n)
{
    return !config->hosts || fabric_has_switch(config, topo_first_link(config->graph, n)->sw);
}

/* Switches and nodes on this host. Pure. */
uint32_t fabric_own_switches(const struct fabric_config *config);
uint32_t fabric_own_nodes(const struct fabric_config *config);

/* Number of host link devices that worker @w of @workers steps. Pure. */
uint32_t fabric_host_links(const struct fabric_config *config, uint32_t w, uint32_t workers);

/**
 * fabric_crossing_replay - the replay buffer of the host link towards the switch here, of a cable
 * to another host with link-level retry; NULL: none. Thread: manager, between fabric_pause() and
 * fabric_resume(). After a change, wake its device (emu_replay.wire.owner).
 */
struct emu_replay *fabric_crossing_replay(const struct fabric *fabric, uint32_t cable);

/** fabric_crossings_count - add the counts of these replay buffers to @sum. */
void fabric_crossings_count(const struct fabric *fabric, struct switch_retries *sum);

/** fabric_crossing_segments - limit of segments on a cable between hosts, each way. Pure. */
uint32_t fabric_crossing_segments(const struct fabric_config *config);

/* Cables whose first end is here, and how many of these (@crossing) lead to another host. */
uint32_t fabric_own_cables(const struct fabric *fabric, uint32_t *crossing);

/* The list of cables between hosts; host link devices; and the cables joined to them. */
int fabric_make_crossings(struct fabric *fabric); /* -ENOMEM */
int fabric_make_host_links(struct fabric *fabric);
int fabric_plug_crossings(struct fabric *fabric);
void fabric_free_host_links(struct fabric *fabric);

/* May segments from @from to @to use a severed cable? */
bool fabric_strands(const struct fabric *fabric, uint32_t from, uint32_t to);
void fabric_free_severed(struct fabric *fabric);

/* --- fabric.c, config.c --- */

/** fabric_switch_ups - ports of a switch that lead to switches of higher levels. Pure. */
emu_ports fabric_switch_ups(const struct topo_graph *graph, uint32_t sw);

/* Is there a link engine between each node and its cables? */
static inline bool fabric_has_engines(const struct fabric_config *config)
{
    return emu_profile_has_engines(&config->profile);
}

/* Credits of a cable between switches; with engines each virtual channel has its own. */
static inline uint32_t fabric_cable_credits(const struct fabric_config *config)
{
    return fabric_has_engines(config) ? emu_vc_ring(&config->profile)
                                      : emu_profile_credits(&config->profile);
}

/* Does each switch have a combine unit that is a link engine? */
static inline bool fabric_has_units(const struct fabric_config *config)
{
    return emu_profile_has_unit_engines(&config->profile);
}

/* Do switches, instead of link engines, hold the partial results of reductions? */
static inline bool fabric_has_states(const struct fabric_config *config)
{
    return !fabric_has_engines(config);
}

/*
 * Upper limit of buffers in all switches, host interfaces and workers' caches together. Beyond
 * these the pool has FABRIC_GROUP_BUFS for partial results. This reserves address space only. Pure.
 */
uint64_t fabric_bufs(const struct fabric_config *config, uint32_t workers);

/* The profile adapted to the clock and to the size of the network. Pure. */
struct emu_profile fabric_profile_on(const struct fabric_config *config);

/* --- engines.c --- */

/* Ports of a switch, and numbers of engines, including those of units. Pure. */
uint32_t fabric_switch_ports(const struct fabric_config *config);
uint32_t fabric_engine_numbers(const struct fabric_config *config);

/* Create a unit for each switch if the profile asks for it. Errors: -ENOMEM. */
int fabric_plug_units(struct fabric *fabric);

/* Create the part of a group for the unit of a switch in its tree. Errors: -ENOMEM. */
int fabric_unit_group(const struct fabric *fabric, const struct fabric_group *group,
                      const struct topo_tree_switch *at, struct engine_group **ret);

/* The engine of @node; NULL: nodes have none, or it is on another host. */
static inline struct engine *fabric_engine(const struct fabric *fabric, uint32_t node)
{
    return node < fabric->engines.count ? fabric->engines.at[node] : NULL;
}

/* The combine unit of switch @s that is a link engine; NULL: none. */
static inline struct engine *fabric_unit(const struct fabric *fabric, uint32_t s)
{
    return fabric_engine(fabric, fabric->config.graph->nodes + s);
}

/* Where the host of @node is connected. Pure. */
struct fabric_host fabric_host(const struct fabric *fabric, uint32_t node);

/* The table of engines, still empty; and its end, with all engines in it. Errors: -ENOMEM. */
int fabric_engines_create(struct fabric *fabric);
void fabric_engines_destroy(struct fabric *fabric);

/* Create the engine of node @n, on the worker of its switch, and its cables. Errors: -ENOMEM. */
int fabric_plug_engine(struct fabric *fabric, uint32_t n);

/* Join both directions of a cable between an engine and a switch. Errors: -ENOMEM. */
int fabric_join_engine(struct engine *engine, uint8_t link, struct switch_dev *sw, uint8_t port,
                       const struct emu_profile *profile);

/* --- links.c --- */

/* The cable at a port. False: there is none, or its first end is elsewhere. Pure. */
bool fabric_cable_from(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                       struct fabric_cable *ret);

/* The list of cables, and config.faults on each of them. Errors: -ENOMEM. */
int fabric_make_cables(struct fabric *fabric);
int fabric_fault_cables(struct fabric *fabric);

/*
 * Create the faults of a direction of a cable, or of a combiner, with the log of the worker that
 * steps it. @seed is added to the fabric's. @name: in the log. NULL: out of memory.
 */
struct emu_faults *fabric_faults_create(struct fabric *fabric, uint32_t worker,
                                        const struct emu_fault_rates *rates, uint64_t seed,
                                        uint32_t name);

/* Free the cables. Entries that their faults hold return to the pool. */
void fabric_free_cables(struct fabric *fabric);

/* --- faults.c, drops.c --- */

/* A switch of the tree that refuses states to new groups; NULL: none. */
const struct topo_tree_switch *fabric_combine_exhausted(struct fabric *fabric,
                                                        const struct topo_tree *tree);

/* Do switches combine, with or without link engines? If not, adapters may. */
bool fabric_switches_combine(const struct fabric *fabric);

/*
 * Take the units of a switch out of service, or back. Between fabric_pause() and fabric_resume().
 */
void fabric_combine_out(struct fabric *fabric, uint32_t sw, bool out, uint64_t now_ps);

/* Is a unit in the tree out of service? */
bool fabric_combine_is_out(const struct fabric *fabric, const struct topo_tree *tree);

/* Note that the unit is in service again. */
void fabric_drops_unit_back(struct fabric *fabric, uint32_t sw);
void fabric_free_drops(struct fabric *fabric);

/* --- replan.c --- */

/*
 * Give a group that combines in switches a tree without units that are out of service. False: there
 * is none, or something of the group is under way. Between fabric_pause() and fabric_resume().
 */
bool fabric_group_evade(struct fabric *fabric, struct fabric_group *group, uint64_t now_ps);

/* Let fabric_ungrown() count groups without a tree, since there may be one now. */
void fabric_regrow_treeless(struct fabric *fabric);

/* Elements of fabric->combine: by switch, or by node if adapters combine. Pure. */
static inline uint32_t fabric_combine_slots(const struct topo_graph *graph)
{
    return graph->switches > graph->nodes ? graph->switches : graph->nodes;
}

void fabric_free_combine(struct fabric *fabric);

/* The time in the log of a hit that the manager notes at its @now_ps. */
uint64_t fabric_hit_ps(const struct fabric *fabric, uint64_t now_ps);

/*
 * With config.link_rates: slow down cables whose rate in the network's file is below the fastest.
 * Call before the workers start. Errors: -ENOMEM.
 */
int fabric_rate_cables(struct fabric *fabric);

/* The slow wire from a node without an engine to its switch; NULL: it is not slow. */
const struct emu_slow *fabric_slow_node(const struct fabric *fabric, uint32_t node);

/* Call this after all devices with a slow wire are gone. */
void fabric_free_ports(struct fabric *fabric);

/* --- drive.c --- */

/* Start the clock at config.start_ps; rebase it if due; rebase it while workers stand still. */
void fabric_clock_start(struct fabric *fabric);
void fabric_clock_tick(struct fabric *fabric);
void fabric_clock_rebase(struct fabric *fabric, uint64_t by_ps);

/* Choose the clock's drive; start it; stop it. Errors: -ENOMEM; threads: -EAGAIN, -EMFILE. */
void fabric_drive_choose(struct fabric *fabric);
int fabric_drive_start(struct fabric *fabric);
void fabric_drive_stop(struct fabric *fabric);

/* Wake a device that has work which no link signals. Between fabric_pause() and fabric_resume(). */
void fabric_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps);

/* The first time at which such a device can act: not within a window that is over. */
uint64_t fabric_soon_ps(const struct fabric *fabric, uint64_t now_ps);

/* --- members.c --- */

/*
 * The parts of a group in the switches of its tree. @units: combine units of each switch that
 * combine. NULL: out of memory. Free them when no switch knows them any more.
 */
struct switch_group **fabric_switch_groups_create(struct fabric *fabric, uint32_t id,
                                                  const struct topo_tree *tree, uint32_t units);
void fabric_switch_groups_free(struct fabric *fabric, struct switch_group **part, uint32_t count);

/* Publish the parts, all or none; withdraw them. Errors: as switch_groups_set(). */
int fabric_switch_groups_publish(struct fabric *fabric, uint32_t id, const struct topo_tree *tree,
                                 struct switch_group **part);
void fabric_switch_groups_withdraw(struct fabric *fabric, uint32_t id,
                                   const struct topo_tree *tree);

/* Create the parts of a group for the engines that know it. Errors: -ENOMEM. */
int fabric_members_create(const struct fabric *fabric, struct fabric_group *group);

/* Publish them in the engines, and withdraw them. Errors: -ENOMEM. */
int fabric_members_publish(const struct fabric_group *group);
void fabric_members_withdraw(const struct fabric_group *group);

/* Free them. False: some have packets under way. */
bool fabric_members_free(struct fabric *fabric, struct fabric_group *group);

/* --- groups.c --- */

/* The group with that address, or NULL. */
struct fabric_group *fabric_group_at(const struct fabric *fabric, uint32_t id);

/* The index of a member that has not left; -1: it is no such member. */
int64_t fabric_group_find(const struct fabric_group *group, uint32_t node);

/* Move the group's reservations to the tree @to. False: no space, and nothing has changed. */
bool fabric_group_reserve_for(struct fabric *fabric, struct fabric_group *group,
                              const struct topo_tree *to);

/* Parameters of a new group. */
struct fabric_group_plan {
    const uint32_t *nodes;
    uint32_t count;
    uint32_t sources; /* members that send to it */
    bool combines;
    bool wide;   /* with a wide window */
    uint32_t id; /* on other hosts: the coordinator's; TOPO_NONE: the next free address */
};

/*
 * fabric_group_new() - a group for @slot, not yet in the table or in a device; NULL: out of memory.
 * fabric_group_slot_of() - the slot of address @id; -1: taken. fabric_group_set_aside() - reserve
 * buffers and states for its partial results; the caller has checked the states. Errors: -ENOSPC,
 * no buffers are left. fabric_group_unreserve() - release them.
 */
struct fabric_group *fabric_group_new(struct fabric *fabric, const struct fabric_group_plan *plan,
                                      uint32_t slot);
int64_t fabric_group_slot_of(struct fabric *fabric, uint32_t id);
int fabric_group_set_aside(struct fabric *fabric, struct fabric_group *group);
void fabric_group_unreserve(struct fabric *fabric, struct fabric_group *group);

/**
 * fabric_units_can - can the combine unit of each switch of @tree take contributions from all of
 * its ports? True if the group does not combine, or units are not link engines. Pure.
 */
bool fabric_units_can(const struct fabric *fabric, bool combines, const struct topo_tree *tree);

/* Free a group that no device knows, or keep it in fabric.gone until that is possible. */
void fabric_group_free(struct fabric *fabric, struct fabric_group *group);

/* If @err is 0, enter a new group into the table; else free it. Returns @err. */
int fabric_group_enter(struct fabric *fabric, struct fabric_group *group, uint32_t slot, int err);

/* Try again to free the groups in fabric.gone. */
void fabric_groups_sweep(struct fabric *fabric);

/* --- nodes.c, counters.c --- */

/* Publish the incarnation word of @node, with all its bits, to all processes attached here. */
void fabric_incarnation_publish(struct fabric *fabric, uint32_t node, uint64_t word);

/* Add the counters of a host interface: at detach, and to read the current sum. */
void fabric_totals_add_hostif(struct fabric_totals *to, const struct emu_hostif *hostif);

#endif
