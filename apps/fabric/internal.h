/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the state of a running fabric. Only the manager's thread uses it. Workers use only
 * the data that the manager has published to them.
 *
 * A *contribution* is one member's operand of a collective. The *units* of a switch are its combine
 * units; with acknowledgments and combining=switch, a switch has one unit, which is a link engine.
 * A *part* of a group is its table in one switch or link engine. A *state* is one operation in
 * progress in a combine unit. A link is *out* while the manager has taken it out of use.
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
static_assert(FABRIC_COMBINING_MAX == SWITCH_COMBINING_MAX, "a switch can list each of them");

#define FABRIC_GROUP_BUFS (1u << 22) /* buffers for partial results of groups: 1 GB of addresses */
/*
 * Number of generations, which is the number of addresses with the same slot. It is one less than
 * possible, so that no address is UINT32_MAX.
 */
#define FABRIC_GENERATIONS (EMU_GROUP_WIDE / FABRIC_GROUPS_MAX - 1)

/*
 * With acknowledgments: the link engines that have a part of a group. They are the engines of its
 * members and, if switches have unit engines, those of the switches in its tree. An engine keeps
 * its part until the group is freed, even after its member has left. Used by members.c.
 */
struct fabric_group_engines {
    uint32_t count;
    struct {
        uint32_t number;            /* index in fabric_engines.at */
        uint64_t incarnation;       /* incarnation of the node's process when the group was made */
        struct engine *engine;      /* NULL: on another host */
        struct engine_group *group; /* the engine's part of the group; NULL: on another host */
    } at[];
};

struct fabric_group {
    uint32_t id;      /* collective address: a slot and, in the bits above it, a generation */
    bool combines;    /* the group has combine states; else it can only multicast */
    bool failed;      /* a segment or a partial result of the group was lost for good (drops.c) */
    bool treeless;    /* its tree has lost a link, and no other tree is possible now */
    bool partitioned; /* its tree has lost a link, and some members cannot reach each other */
    uint32_t sources; /* maximum number of members that send to it */
    /* by bit: hosts that have, or had, a member or a switch of its tree; they may report losses */
    uint64_t hosts;
    struct topo_tree tree;
    /* parts in switches, one for each of tree.switches; NULL: on another host */
    struct switch_group **part;
    struct fabric_group_engines *engines; /* NULL: there are no link engines */
    uint64_t bufs;                        /* buffers of the pool that are reserved for it */
    struct fabric_group *next;            /* next in the list fabric.retired */
    uint32_t members;                     /* number of members that have not left */
    uint32_t count;                       /* elements of node[] */
    uint32_t node[];                      /* members; one that has left has the flag FABRIC_LEFT */
};

/* The operations of one kind of drive, which lets the workers run and holds them. */
struct fabric_drive_kind {
    int (*start)(struct fabric *fabric);
    void (*stop)(struct fabric *fabric); /* also called if start() failed */
    void (*pause)(struct fabric *fabric);
    void (*resume)(struct fabric *fabric);
    void (*wake)(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps);
    bool is_virtual;
};

/* The drive of a fabric: free-running threads, or windows of simulated time. Used by drive.c. */
struct fabric_drive {
    const struct fabric_drive_kind *kind;
    struct emu_thread **thread;    /* by worker; NULL: not started */
    struct emu_windows *windows;   /* clock virtual */
    struct emu_lockstep *lockstep; /* clock virtual, with processes; thread[0] drives it */
    /* number of calls of fabric_pause() for which fabric_resume() was not called yet */
    uint32_t holds;
};

/* The link engines (engines.c). */
struct fabric_engines {
    uint32_t count; /* number of engines on all hosts; 0: the fabric has none */
    /* by number: the engines of nodes, then the units of switches; NULL: on another host */
    struct engine **at;
    uint32_t *units; /* by switch and port: number of the neighbour's unit; see switch_units() */
};

/* The cables between devices (links.c). */
struct fabric_links {
    const struct topo_graph *routed; /* the network without the links that the tables avoid */
    uint32_t count;                  /* number of cables */
    struct fabric_cable *cable;
    uint32_t crossings; /* cables with one end on this host and one on another */
    struct fabric_crossing *crossing;
    uint32_t *at; /* by switch and port: its cable; TOPO_NONE: the port has none */
    /* number of groups that keep a tree with a lost link until they are idle */
    uint32_t replans_pending;
    uint64_t replanned;    /* number of trees that have lost a link and were replaced */
    bool drop_unreachable; /* drop segments whose destination is unreachable; else they wait */
    uint64_t partitioned;  /* number of segments dropped because of drop_unreachable */
    /* fabric_reroute_in_flight() acts as if every destination were reachable */
    bool assume_reachable;
    bool *severed; /* by cable: whether it led to a lost host (hosts.c); NULL: none did */
    /* by destination, then switch: whether a route between them uses a severed cable (hosts.c) */
    bool *uses_severed;
    bool *out;   /* by cable: out of use (fabric_link_set()) */
    bool faulty; /* some cable has had faults, or faults are expected (fabric_expect_faults()) */
    /* two per cable: to its first end, and from it; NULL: it never had faults */
    struct emu_faults **faults;
    struct emu_slow **slow;     /* two per cable, like `faults`; NULL: it was never slow */
    struct emu_fault_log **log; /* by worker: hits by faults of its devices; NULL: no log yet */
};

/*
 * Added to the tree load of a switch while its units are out of service, so that trees avoid this
 * switch.
 */
#define FABRIC_OUT_LOAD (UINT32_C(1) << 24)

/* Faults of one combiner: the units of a switch, or an adapter that combines. */
struct fabric_combine {
    struct emu_faults *faults; /* rules about contributions; NULL: none were ever added */
    bool exhausted;            /* a fault makes the switch refuse states to new groups */
    uint64_t refused;          /* number of groups that were refused because of `exhausted` */

    /* The next fields are written by drops.c when it scans the switch. */
    uint64_t taken; /* number of contributions that its units have taken */
    /* since this time, contributions have waited at each scan, and the units have taken none */
    uint64_t since_ps;
    bool waits;       /* some contribution waited */
    uint64_t damaged; /* number of states that were found damaged */
    uint64_t overran; /* number of segments dropped because there was no space */
    bool returns;     /* its host may report that the units are back in service */

    /* The next fields are written by faults.c. */
    bool out; /* its units are out of service */
    /* number of contributions that waited when the units were taken out of service */
    uint32_t held;
};

#define FABRIC_DROPS_RECENT 256u
/* limit of the queued losses of pairs, and of all other queued losses */
#define FABRIC_DROPS_MOST 65536u

/* Queue of unrecoverable drops. A loss *of a pair* is a lost unicast between two processes. */
struct fabric_drops {
    struct fabric_drop *at;
    /* number of elements: in use; already taken from the queue; allocated */
    uint32_t count, taken, most;
    uint32_t urgent;                      /* number of queued losses that are not of a pair */
    uint32_t held[TOPO_HOSTS_MAX];        /* by host: queued losses that it has found */
    uint32_t recent[FABRIC_DROPS_RECENT]; /* by hash of a pair: index in `at` of its last loss */
    uint64_t refused;  /* number of reports of losses that the host cannot have found */
    uint64_t now_ps;   /* time of the last scan */
    uint64_t given_up; /* number of packets that the nodes' engines had given up at the last scan */
    bool left;         /* since the last scan a node has left a group that still has members */
    bool unreported;   /* memory ran out, so the next scan must find some losses again */
};

struct fabric {
    struct fabric_config config;
    struct emu_profile inward; /* profile of cables to nodes inside the fabric */
    struct emu_clock clock;
    uint32_t workers;
    struct emu_worker **worker;
    struct fabric_drive drive;
    /* two lists of host interfaces per worker; the worker uses one while the other is changed */
    struct emu_hostif_list **list;
    struct switch_dev **sw; /* by switch; NULL: on another host */
    struct fabric_links links;
    struct fabric_engines engines;
    struct fabric_combine *combine; /* fabric_combine_slots() elements */
    struct fabric_drops drops;
    struct emu_mcast_buf **mcast_buf; /* by switch: shared multicast buffer; NULL: none */
    struct emu_hostif **hostif;       /* by node: host interface; NULL: no process attached */
    uint64_t *incarnation;            /* by node: emu_incarnation_state() of its process */
    struct emu_rx **local;            /* by node inside the fabric: its receiving end; else NULL */
    struct emu_pool *pool;
    struct emu_pool_cache cache; /* the manager's cache of the pool */
    uint32_t attached;           /* number of attached processes on this host */
    unsigned watched;            /* bits of enum fabric_watcher */
    uint64_t watched_bytes;      /* emu_hostif_shared.watched_bytes */
    uint64_t starved_ns;         /* sum of the times passed to fabric_starved() */
    uint64_t starved_at_ns;      /* time of the last fabric_starved(); 0: never called */
    uint64_t tick_starved_ns;    /* starved_ns at the last fabric_tick() */
    uint32_t remote;             /* coordinator: number of attached processes on other hosts */
    uint32_t hostifs;            /* serial number of the host interface that was created last */
    uint32_t *tree_load;         /* by switch: number of trees through it */
    /* by switch: number of combine states that groups have reserved */
    uint32_t *states;
    uint64_t spare_bufs;          /* number of buffers of the pool that groups may still reserve */
    bool has_host_links;          /* the devices of config.hosts->ops must be destroyed */
    struct fabric_group **group;  /* by slot */
    struct fabric_group *retired; /* removed groups that still have packets in engines */
    bool stopped;                 /* no worker runs any more */
    /* number of usable elements of `group`; doubled when half of them are taken */
    uint32_t slots;
    uint32_t groups;     /* slots taken */
    uint32_t combining;  /* slots taken by groups that can combine */
    uint32_t last_slot;  /* slot allocated last; the search for a free one starts there */
    uint32_t generation; /* generation of the newest collective address */
    const struct fabric_mirror *mirror; /* NULL: one host, or not the coordinator */
    struct emu_mismatch mismatch;       /* result of fabric_mismatch() if there is a mirror */
    struct fabric_moved *moved;         /* stalls.c: last sample of each link; NULL until needed */
    struct fabric_taps *taps;           /* taps.c; NULL: no capture */
    struct fabric_comm_past *comm;      /* statistics (comm.c); NULL until needed */
    /* sums over the host interfaces that were destroyed */
    struct fabric_totals past;
    uint64_t past_ideal_ns;
    uint64_t past_actual_ns;
    uint64_t past_full_ns;
};

/*
 * The port to which a node's host interface, or its device inside the fabric, is connected. It
 * belongs to the node's link engine or, without engines, to its switch.
 */
struct fabric_host {
    struct emu_dev *dev; /* the engine or the switch */
    struct emu_tx *tx;   /* sends to the node */
    struct emu_rx *rx;   /* receives from the node */
    uint8_t port;
    uint32_t credits;                  /* credits of each direction */
    const struct emu_profile *profile; /* profile of the wire from the node or host interface */
    const struct emu_profile *inward;  /* profile of the wire to a node inside the fabric */
};

/* --- hosts.c --- */

/* Return whether a switch, or a node, is on this host. Pure. */
static inline bool fabric_has_switch(const struct fabric_config *config, uint32_t s)
{
    return !config->hosts || config->hosts->of[s] == config->hosts->self;
}

static inline bool fabric_has_node(const struct fabric_config *config, uint32_t n)
{
    return !config->hosts || fabric_has_switch(config, topo_first_link(config->graph, n)->sw);
}

/* Return the number of switches, or of nodes, on this host. Pure. */
uint32_t fabric_own_switches(const struct fabric_config *config);
uint32_t fabric_own_nodes(const struct fabric_config *config);

/* Return the number of host link devices that worker @w of @workers steps. Pure. */
uint32_t fabric_host_links(const struct fabric_config *config, uint32_t w, uint32_t workers);

/**
 * fabric_crossing_replay - return the replay buffer from which the host link of a cable to another
 * host sends to the switch here. NULL: there is no link-level retry, or the cable does not lead to
 * another host. After a change, wake its device (emu_replay.wire.owner). Thread: manager, between
 * fabric_pause() and fabric_resume().
 */
struct emu_replay *fabric_crossing_replay(const struct fabric *fabric, uint32_t cable);

/** fabric_crossings_count - add the counters of all replay buffers of host links to @sum. */
void fabric_crossings_count(const struct fabric *fabric, struct switch_retries *sum);

/**
 * fabric_crossing_segments - return the maximum number of segments in one direction of a crossing.
 * Pure.
 */
uint32_t fabric_crossing_segments(const struct fabric_config *config);

/*
 * Return the number of cables whose first end is on this host. @crossing: how many of them lead to
 * another host.
 */
uint32_t fabric_own_cables(const struct fabric *fabric, uint32_t *crossing);

int fabric_make_crossings(struct fabric *fabric); /* list the cables to other hosts; -ENOMEM */
/* create the devices of the host links; errors: those of create() in hosts->ops */
int fabric_make_host_links(struct fabric *fabric);
/* join the cables to these devices; errors: those of join() in hosts->ops */
int fabric_plug_crossings(struct fabric *fabric);
void fabric_free_host_links(struct fabric *fabric);

/* Return whether segments from @from to @to may use a severed cable (fabric_sever()). */
bool fabric_uses_severed(const struct fabric *fabric, uint32_t from, uint32_t to);
void fabric_free_severed(struct fabric *fabric);

/* --- fabric.c, config.c --- */

/** fabric_switch_ups - return the ports of a switch that lead to higher levels. Pure. */
emu_ports fabric_switch_ups(const struct topo_graph *graph, uint32_t sw);

/* Return whether there is a link engine between each node and its cables. Pure. */
static inline bool fabric_has_engines(const struct fabric_config *config)
{
    return emu_profile_has_engines(&config->profile);
}

/*
 * Return the number of credits of a cable between switches; with engines, the sum over all its
 * virtual channels.
 */
static inline uint32_t fabric_cable_credits(const struct fabric_config *config)
{
    return fabric_has_engines(config) ? emu_vc_ring(&config->profile)
                                      : emu_profile_credits(&config->profile);
}

/* Return whether each switch has a combine unit that is a link engine. Pure. */
static inline bool fabric_has_units(const struct fabric_config *config)
{
    return emu_profile_has_unit_engines(&config->profile);
}

/* Return whether switches, instead of link engines, hold the partial results. Pure. */
static inline bool fabric_has_states(const struct fabric_config *config)
{
    return !fabric_has_engines(config);
}

/*
 * Return the maximum number of buffers that all switches, engines, host interfaces and workers'
 * caches use together. The pool has FABRIC_GROUP_BUFS more. Both only reserve address space. Pure.
 */
uint64_t fabric_bufs(const struct fabric_config *config, uint32_t workers);

/* Return the profile adapted to the clock and to the size of the network. Pure. */
struct emu_profile fabric_profile_on(const struct fabric_config *config);

/* --- engines.c --- */

/*
 * fabric_switch_ports - return how many ports a switch has, with the port of its unit engine. Pure.
 * fabric_engine_numbers - return how many engines all nodes and switches have. Pure.
 */
uint32_t fabric_switch_ports(const struct fabric_config *config);
uint32_t fabric_engine_numbers(const struct fabric_config *config);

/* Create a unit engine for each switch here, if the profile has them. Errors: -ENOMEM. */
int fabric_plug_units(struct fabric *fabric);

/* Create the part of a group for the unit of a switch in its tree. Errors: -ENOMEM. */
int fabric_unit_group(const struct fabric *fabric, const struct fabric_group *group,
                      const struct topo_tree_switch *at, struct engine_group **ret);

/* Return the engine of @node; NULL: nodes have none, or it is on another host. */
static inline struct engine *fabric_engine(const struct fabric *fabric, uint32_t node)
{
    return node < fabric->engines.count ? fabric->engines.at[node] : NULL;
}

/* Return the unit engine of switch @s; NULL: it has none, or it is on another host. */
static inline struct engine *fabric_unit(const struct fabric *fabric, uint32_t s)
{
    return fabric_engine(fabric, fabric->config.graph->nodes + s);
}

/* Return the port to which the host interface or the device of @node is connected. Pure. */
struct fabric_host fabric_host(const struct fabric *fabric, uint32_t node);

/* Create the empty table of engines; destroy it with all engines in it. Errors: -ENOMEM. */
int fabric_engines_create(struct fabric *fabric);
void fabric_engines_destroy(struct fabric *fabric);

/* Create the engine of node @n on the worker of its switch, and join it there. Errors: -ENOMEM. */
int fabric_plug_engine(struct fabric *fabric, uint32_t n);

/* Join both directions of a cable between an engine and a switch. Errors: -ENOMEM. */
int fabric_join_engine(struct engine *engine, uint8_t link, struct switch_dev *sw, uint8_t port,
                       const struct emu_profile *profile);

/* --- links.c --- */

/* Describe the cable whose first end is at a port. False: there is no such cable. Pure. */
bool fabric_cable_from(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                       struct fabric_cable *ret);

int fabric_make_cables(struct fabric *fabric);  /* list the cables; -ENOMEM */
int fabric_fault_cables(struct fabric *fabric); /* put config.faults on all cables; -ENOMEM */

/*
 * Create the faults of a direction of a cable or of a combiner. Their hits go to the log of
 * @worker. @seed is added to the fabric's seed. @name identifies them in the log. NULL: out of
 * memory.
 */
struct emu_faults *fabric_faults_create(struct fabric *fabric, uint32_t worker,
                                        const struct emu_fault_rates *rates, uint64_t seed,
                                        uint32_t name);

/* Free the cables. Buffers of entries that faults delay return to the pool. */
void fabric_free_cables(struct fabric *fabric);

/* --- combine units and drops: faults.c, drops.c --- */

/* Return a switch of the tree that refuses states to new groups because of a fault; NULL: none. */
const struct topo_tree_switch *fabric_combine_exhausted(struct fabric *fabric,
                                                        const struct topo_tree *tree);

/* Return whether switches have combine units of any kind. If not, adapters may combine. */
bool fabric_switches_combine(const struct fabric *fabric);

/* Take a switch's units out of service or, if !@out, put them back. Call with workers held. */
void fabric_combine_out(struct fabric *fabric, uint32_t sw, bool out, uint64_t now_ps);

bool fabric_combine_is_out(const struct fabric *fabric, const struct topo_tree *tree);

/* Queue a FABRIC_UNIT_BACK for switch @sw. */
void fabric_drops_unit_back(struct fabric *fabric, uint32_t sw);
void fabric_free_drops(struct fabric *fabric);

/* --- replan.c --- */

/*
 * Move a group that combines in switches to a tree in which no units are out of service. False:
 * there is no such tree, or a switch holds segments or partial results of the group. Call between
 * fabric_pause() and fabric_resume().
 */
bool fabric_group_avoid_unit(struct fabric *fabric, struct fabric_group *group, uint64_t now_ps);

/*
 * Let fabric_replans_pending() also count groups without a tree, because a tree may be possible
 * now.
 */
void fabric_replan_treeless(struct fabric *fabric);

/* --- faults.c: other functions --- */

/*
 * Return the number of elements of fabric->combine: the larger of the numbers of switches and
 * nodes, because combiners are switches or adapters.
 */
static inline uint32_t fabric_combine_slots(const struct topo_graph *graph)
{
    return graph->switches > graph->nodes ? graph->switches : graph->nodes;
}

void fabric_free_combine(struct fabric *fabric);

/* Return the time that is logged for a hit that the manager finds. @now_ps: the manager's time. */
uint64_t fabric_hit_ps(const struct fabric *fabric, uint64_t now_ps);

/* Give cables their rates by config.link_rates, before the workers start. Errors: -ENOMEM. */
int fabric_rate_cables(struct fabric *fabric);

/* Return the slow wire from a node without an engine to its switch; NULL: it is not slow. */
const struct emu_slow *fabric_slow_node(const struct fabric *fabric, uint32_t node);

/* Free the slow wires. Call after all devices that use one are destroyed. */
void fabric_free_ports(struct fabric *fabric);

/* --- drive.c --- */

void fabric_clock_start(struct fabric *fabric); /* start the clock at config.start_ps */
void fabric_clock_tick(struct fabric *fabric);  /* rebase clock real if it is due */
/* Subtract @by_ps from the clock and from all times in devices, while workers are held. */
void fabric_clock_rebase(struct fabric *fabric, uint64_t by_ps);

/* Choose the drive for the clock; start it; stop it. Errors: -ENOMEM; threads: -EAGAIN, -EMFILE. */
void fabric_drive_choose(struct fabric *fabric);
int fabric_drive_start(struct fabric *fabric);
void fabric_drive_stop(struct fabric *fabric);

/*
 * Clock virtual: if simulated time has begun, write its start to the host interface of a process.
 */
void fabric_publish_base(struct fabric *fabric, struct emu_hostif *hostif);

/* Wake a device that the manager has changed. Call while the workers are held. */
void fabric_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps);

/* Return the first time at which a woken device can act. In simulated time it is after @now_ps. */
uint64_t fabric_soon_ps(const struct fabric *fabric, uint64_t now_ps);

/* --- members.c --- */

/*
 * Create the parts of a group for the switches of its tree that are on this host. @units: number of
 * combine units of each switch that combine; 0: the group only multicasts. NULL: out of memory.
 * Free the parts only after they are withdrawn from the switches.
 */
struct switch_group **fabric_switch_groups_create(struct fabric *fabric, uint32_t id,
                                                  const struct topo_tree *tree, uint32_t units);
void fabric_switch_groups_free(struct fabric *fabric, struct switch_group **part, uint32_t count);

/* Publish the parts in all switches of the tree or, on error, in none; withdraw them. */
int fabric_switch_groups_publish(struct fabric *fabric, uint32_t id, const struct topo_tree *tree,
                                 struct switch_group **part);
void fabric_switch_groups_withdraw(struct fabric *fabric, uint32_t id,
                                   const struct topo_tree *tree);

/*
 * Create the parts of a group for the engines of its members, and for its unit engines. Errors:
 * -ENOMEM.
 */
int fabric_members_create(const struct fabric *fabric, struct fabric_group *group);

/* Publish these parts in the engines; withdraw them. Errors: -ENOMEM. */
int fabric_members_publish(const struct fabric_group *group);
void fabric_members_withdraw(const struct fabric_group *group);

/* Free these parts. False: some are left, because their engines still have packets of the group. */
bool fabric_members_free(struct fabric *fabric, struct fabric_group *group);

/* --- groups.c --- */

/* Return the group with address @id, or NULL. */
struct fabric_group *fabric_group_at(const struct fabric *fabric, uint32_t id);

/*
 * With broadcast_trees=K, a group has up to K trees of switches. The first tree belongs to the
 * group itself. Each other tree is an *extra tree*. In the fabric's table it is a group of its own,
 * with the same members, but without parts in engines. The trees of a group have consecutive
 * addresses.
 *
 * fabric_group_tree() - return tree number @tree of @group: the group itself (0) or an extra tree.
 * NULL: the group has fewer trees. fabric_group_number() - return the number of the tree @group; 0:
 * it is not an extra tree.
 */
struct fabric_group *fabric_group_tree(const struct fabric *fabric,
                                       const struct fabric_group *group, uint32_t tree);
uint32_t fabric_group_number(const struct fabric *fabric, const struct fabric_group *group);

/* Return the index of @node among the members; -1: it is no member, or it has left. */
int64_t fabric_group_find(const struct fabric_group *group, uint32_t node);

/*
 * Move the group's reservations to tree @to. False: not enough states or buffers are left there;
 * nothing has changed.
 */
bool fabric_group_reserve_for(struct fabric *fabric, struct fabric_group *group,
                              const struct topo_tree *to);

struct fabric_group_plan {
    const uint32_t *nodes;
    uint32_t count;
    uint32_t sources; /* maximum number of members that send to the group */
    bool combines;
    bool wide;   /* the group has a wide window */
    uint32_t id; /* address of the coordinator's group; TOPO_NONE: take the next free address */
};

/*
 * fabric_group_new() - create a group for @slot, not yet in the table or in a device. NULL: out of
 * memory. fabric_group_slot_of() - return the slot of address @id; -1: the slot is not free.
 * fabric_group_set_aside() - reserve buffers and states for the group's partial results; the caller
 * has checked that the switches have the states. Errors: -ENOSPC, no buffers are left.
 * fabric_group_unreserve() - release these buffers and states.
 */
struct fabric_group *fabric_group_new(struct fabric *fabric, const struct fabric_group_plan *plan,
                                      uint32_t slot);
int64_t fabric_group_slot_of(struct fabric *fabric, uint32_t id);
int fabric_group_set_aside(struct fabric *fabric, struct fabric_group *group);
void fabric_group_unreserve(struct fabric *fabric, struct fabric_group *group);

/* Return whether link engine @number, which may not exist, is on @host. Pure. */
bool fabric_engine_number_is_on(const struct fabric *fabric, uint32_t number, uint32_t host);

/**
 * fabric_units_can - return whether the unit engine of each switch of @tree can take contributions
 * from all ports of the tree. True if @combines is false, or if there are no unit engines. Pure.
 */
bool fabric_units_can(const struct fabric *fabric, bool combines, const struct topo_tree *tree);

/* Free a withdrawn group or, if engines still have its packets, add it to fabric.retired. */
void fabric_group_free(struct fabric *fabric, struct fabric_group *group);

/* If @err is 0, enter a new group into the table; else free it. Returns @err. */
int fabric_group_enter(struct fabric *fabric, struct fabric_group *group, uint32_t slot, int err);

/* Try again to free the groups in fabric.retired. */
void fabric_groups_sweep(struct fabric *fabric);

/* --- nodes.c, counters.c --- */

/* Set the incarnation word of @node, with all its flags, for all processes on this host to read. */
void fabric_incarnation_publish(struct fabric *fabric, uint32_t node, uint64_t word);

/* Add the counters of a host interface. @reached_ps: fabric_reached_ps(). */
void fabric_totals_add_hostif(struct fabric_totals *to, const struct emu_hostif *hostif,
                              uint64_t reached_ps);

#endif
