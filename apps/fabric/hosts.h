/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - one network on several hosts: the parts of the hosts, the replicas of the network, and
 * their consistency.
 *
 * A *crossing* is a cable between two hosts. A *host link* is the device that stands for the remote
 * end of crossings and exchanges their entries with the other host (emu/hostlink/). The
 * *coordinator* is the host that controls the fabric. Its *mirror* applies its changes on all other
 * hosts and queries them.
 */
#ifndef APPS_FABRIC_HOSTS_H
#define APPS_FABRIC_HOSTS_H

#include "apps/fabric/fabric.h"

struct emu_mismatch;
struct emu_dev;
struct emu_pending;
struct emu_rx;
struct emu_tx;
struct emu_worker;
struct fabric_audit;
struct fabric_arrived;
struct fabric_comm;
struct fabric_drop;
struct fabric_stall;

/* A cable with one end on this host and one on another host. */
struct fabric_crossing {
    uint32_t cable; /* number for fabric_cable() */
    uint32_t host;  /* the other host */
    /* number of this cable among the cables between these two hosts; the same on both hosts */
    uint32_t number;
};

/* The end of a crossing that is on this host, at a switch or a link engine. */
struct fabric_crossing_end {
    struct emu_dev *dev; /* the switch or the engine */
    struct emu_tx *tx;
    struct emu_rx *rx;
    uint8_t port; /* port of the device, for @tx and @rx */
    /* with link-level retry: the intake of @rx (emu_retry_join()); else NULL */
    struct emu_intake *intake;
};

/*
 * The interface of host links to a fabric. The fabric's workers step these devices. A crossing has
 * the credits of the receiving switch. Without virtual channels it has `depth` more credits, for
 * segments that wait in the remote host link until that switch has space. A host link counts the
 * credits of its own sending end like any sender.
 */
struct fabric_crossing_ops {
    uint32_t devices;
    uint32_t depth; /* extra credits of a crossing without virtual channels */
    /* Create device @i on @worker. Called before any join(). Errors: negative. */
    int (*create)(void *ctx, uint32_t i, struct emu_worker *worker);
    /*
     * Join @end to a host link device in both directions, as two emu_link_join() would. If @end has
     * an intake, join a replay buffer of that device to it, as emu_retry_join() would.
     * @credits: the credits of a cable within one host (fabric_cable_credits()). Errors: negative.
     */
    int (*join)(void *ctx, const struct fabric_crossing *crossing,
                const struct fabric_crossing_end *end, uint32_t credits,
                const struct emu_profile *profile);
    /*
     * Destroy the devices, and free their sending ends (emu_link_unjoin()). Called when no worker
     * runs any more.
     */
    void (*destroy)(void *ctx);
    /*
     * Count the entries, modulo 2^32, that the device has taken from the crossing's end on this
     * host (@sent) and delivered to it (@arrived). False: the device still has to take some
     * entries. Called while workers are held. NULL: not supported.
     */
    bool (*passed)(void *ctx, const struct fabric_crossing *crossing, uint32_t *sent,
                   uint32_t *arrived);
    /* Return the replay buffer that sends to this host's end of the crossing; NULL: none. */
    struct emu_replay *(*replay)(void *ctx, const struct fabric_crossing *crossing);
    /* Count the references to buffers in the devices and on cables to them. NULL: always 0. */
    uint64_t (*held)(void *ctx);
    /* Rebase the clock of all ends: emu_tx_rebase(), emu_rx_rebase(). NULL: no timed clock. */
    void (*rebase)(void *ctx, uint64_t by_ps);
    /*
     * On clock virtual, agree with all hosts on the next window (struct emu_windows_hosts in
     * emu/worker/windows.h). NULL: not supported.
     */
    void (*agree)(void *ctx, uint64_t *next_ps);
};

/*
 * How a network is divided among hosts. A node is on the same host as the switch at its
 * topo_first_link().
 */
struct fabric_hosts {
    uint32_t self; /* this host */
    uint32_t count;
    const uint32_t *of; /* by switch: its host. All pointers in this struct are borrowed */
    const struct fabric_crossing_ops *ops;
    void *ctx;
};

/* --- replicas ---------------------------------------------------------------------- */

/*
 * Each host has a *replica*, a fabric of the whole network. A replica has the tables of all cables,
 * groups, trees and incarnations, but only the devices of its own part of the network. All hosts
 * make the calls that change these tables, in the same order and with the same arguments:
 *
 *     fabric_group_create(), _wide(), fabric_multicast_create(), fabric_group_leave(),
 *     fabric_node_leave(), fabric_link_set(), fabric_reroute(), fabric_replan(),
 *     fabric_combine_exhaust(), fabric_node_linked(), fabric_incarnation_set()
 *
 * The result of such a call depends only on the tables, so it is the same on all hosts. Then the
 * call changes the devices of its own host. Only -ENOMEM can happen on a single host. The
 * coordinator then undoes a new group on the other hosts by fabric_group_leave(), or drops the
 * host. All other calls concern only the devices on their own host. For devices of other hosts they
 * change nothing and find nothing.
 */

/** fabric_switch_host, fabric_node_host - return the host of @sw or of @node. Pure. */
uint32_t fabric_switch_host(const struct fabric_config *config, uint32_t sw);
uint32_t fabric_node_host(const struct fabric_config *config, uint32_t node);

/**
 * fabric_direction_host - return the host of a direction's sending end or, if @sends is false, of
 * its receiving end.
 * @direction: 2 * cable, plus 1 for the direction from the cable's first end.
 * Thread: any.
 */
uint32_t fabric_direction_host(const struct fabric *fabric, uint32_t direction, bool sends);

/** fabric_crossings - return the number of this host's cables to @host; TOPO_NONE: to all. Pure. */
uint32_t fabric_crossings(const struct fabric_config *config, uint32_t host);

/** fabric_crossings_all - return the number of cables between any two hosts. Pure. */
uint32_t fabric_crossings_all(const struct fabric_config *config);

bool fabric_node_is_here(const struct fabric *fabric, uint32_t node); /* on this host */

/**
 * fabric_cable_ends_here - return whether the receiving end of a direction (links.h) of a cable is
 * on this host. This end also sends in the opposite direction.
 */
bool fabric_cable_ends_here(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_incarnation_set - set the emu_incarnation_state() of a node on another host. When this
 * returns, all processes attached to this host can see the new state. Errors: -EINVAL, the node is
 * on this host. Thread: manager.
 */
int fabric_incarnation_set(struct fabric *fabric, uint32_t node, uint64_t state);

/* --- operations on all hosts ----------------------------------------------------------- */

/* What one host knows about old packets of a cable that is down. */
struct fabric_past {
    bool quiet;       /* no end of the cable on this host has old packets */
    bool crosses;     /* one end is on this host, the other on another host */
    uint32_t sent;    /* number of entries that this host has sent to the other host, modulo 2^32 */
    uint32_t arrived; /* number of entries that it has received from the other host, modulo 2^32 */
};

/* Result of rerouting in flight on all other hosts (links.h). */
struct fabric_rerouted {
    uint64_t segments;    /* segments that were moved or dropped */
    uint64_t partitioned; /* segments that were dropped (fabric_dropped_unreachable()) */
};

/* A test, by all other hosts, of a cable whose link is to come up. */
struct fabric_test {
    uint32_t cable;
    uint32_t errors; /* maximum of fabric_cable_try() over these hosts */
    bool quiet;      /* neither these hosts nor links to them hold old packets of the cable */
};

/* Samples of cable ends, by direction (2 * cable + out), and of switches, by switch. */
struct fabric_scan_result {
    uint64_t *packets, *errors; /* emu_faults_seen() and emu_faults_errors() of the receiving end */
    struct fabric_port *port;   /* fabric_port_sample() of the sending end */
    uint64_t *trapped;          /* result of fabric_traps() */
    uint32_t *trapped_to;       /* destination that fabric_traps() returns in @to */
};

/*
 * A group that can combine. The coordinator's fabric has created it, and all hosts must create it,
 * too.
 */
struct fabric_group_call {
    const uint32_t *nodes;
    uint32_t count; /* elements of `nodes` */
    bool wide;
    uint32_t id; /* its address on the coordinator, which all hosts use */
};

/*
 * Callbacks by which the coordinator's fabric changes and queries the replicas. With most of them,
 * the other hosts call the function that the callback's comment names, and the callback returns
 * when all of these hosts have done so. But link(), linked(), no_link(), leave(), detach(),
 * failed() and, for a process that has left, incarnation() only send the request; the hosts execute
 * it before any later one. Thread: manager.
 */
struct fabric_mirror {
    void *ctx;
    /* Create a host interface for @node on its @host, as fabric_attach() does. */
    int (*attach)(void *ctx, uint32_t host, uint32_t node);
    void (*detach)(void *ctx, uint32_t host, uint32_t node, bool dead);
    void (*incarnation)(void *ctx, uint32_t node, uint64_t state); /* fabric_incarnation_set() */
    void (*linked)(void *ctx, uint32_t node, bool linked);         /* fabric_node_linked() */
    /*
     * fabric_group_is(). If a host fails, @error gets a line that names the host and its error. The
     * result is then -ENOSPC, because the program must not take -ENOMEM of a host for its own.
     */
    int (*group)(void *ctx, const struct fabric_group_call *group, char *error, size_t error_bytes);
    void (*leave)(void *ctx, uint32_t group, uint32_t node);          /* fabric_group_leave() */
    void (*link)(void *ctx, uint32_t cable, bool up, uint32_t fault); /* fabric_link_set() */
    void (*reroute)(void *ctx, const uint32_t *out, uint32_t count);  /* fabric_reroute() */
    void (*cut_off)(void *ctx, bool partitioned);                     /* fabric_cut_off() */
    void (*totals)(void *ctx,
                   struct fabric_totals *sum);        /* add other hosts' fabric_totals_here() */
    void (*comm)(void *ctx, struct fabric_comm *sum); /* add other hosts' fabric_comm_read() */
    void (*no_link)(void *ctx, uint32_t node);        /* fabric_node_no_link() */
    void (*failed)(void *ctx, uint32_t group);        /* fabric_group_fails() */
    void (*unit_out)(void *ctx, uint32_t sw);         /* fabric_unit_out() */

    /*
     * Queries about cable ends. The mirror checks only the numbers of cables, switches and workers
     * in replies; the caller must check the rest.
     */
    /* fabric_test_remote(). @here: fabric_link_past() of this host, one for each test. */
    void (*test)(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                 uint32_t count, uint32_t packets);
    /*
     * Let each other host call fabric_assume_reachable(@reachable),
     * fabric_drop_unreachable(@drops) and fabric_reroute_in_flight_all(), and add the results to
     * @sum.
     */
    void (*reroute_in_flight)(void *ctx, bool reachable, bool drops, struct fabric_rerouted *sum);
    void (*scan)(void *ctx, struct fabric_scan_result *ret); /* fabric_scan() */
    /*
     * Let each other host call fabric_drops_find(), and pass the losses that it finds to
     * fabric_drop_receive().
     */
    void (*drops)(void *ctx, uint64_t bound_ps);

    /*
     * Queries about a stall. Never make them while workers are held, because workers transport
     * queries and replies. The mirror checks only the lengths in replies; the caller must check the
     * rest.
     */
    /* fabric_pending() of the process at @node; the result may be half a second old. */
    bool (*pending)(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
    /*
     * The largest increase of fabric_starved_ns() on another host since the last call, from the
     * replies to `pending`. The value comes from another host, so it may be wrong and arbitrarily
     * large.
     */
    uint64_t (*starved)(void *ctx);
    uint32_t (*arrived)(void *ctx, uint32_t group, uint32_t seq, struct fabric_arrived *ret,
                        uint32_t max);                                     /* fabric_arrived() */
    bool (*mismatch)(void *ctx, uint32_t group, struct emu_mismatch *ret); /* fabric_mismatch() */
    /* fabric_stalls(), with the times converted to this host's clock. */
    uint32_t (*stalls)(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max);
    /*
     * Add the results of fabric_audit() on all other hosts to @sum; each line names its host.
     * Errors: negative.
     */
    int (*audit)(void *ctx, bool routes, struct fabric_audit *sum);
};

/*
 * Do not call the functions below between fabric_pause() and fabric_resume(), unless their comment
 * says otherwise, because held workers transport no calls to other hosts. Thread: manager.
 *
 * fabric_link_publish - after a call of fabric_link_set() on this host, let all other hosts make
 * the same call, before they execute any later one. fabric_node_no_link_publish() - let them call
 * fabric_node_no_link().
 */
void fabric_link_publish(const struct fabric *fabric, uint32_t cable, bool up, uint32_t fault);
void fabric_node_no_link_publish(const struct fabric *fabric, uint32_t node);

/**
 * fabric_link_past - find out whether those ends of a cable that are on this host have old packets.
 * Call this between fabric_pause() and fabric_resume().
 * fabric_test_remote() - let all other hosts test the cables of @tests whose links are to come up,
 * and fill in the results. If there are no other hosts, all tests succeed. Errors: -ENOMEM.
 */
void fabric_link_past(const struct fabric *fabric, uint32_t cable, struct fabric_past *ret);
int fabric_test_remote(struct fabric *fabric, struct fabric_test *tests, uint32_t count,
                       uint32_t packets);

/**
 * fabric_has_remote - return whether this is the coordinator of other hosts.
 * fabric_scan_remote() - sample the cable ends on those hosts; before the first call @ret is all
 * zeros.
 * fabric_scan() - sample the ends on this host; holds the workers itself.
 */
bool fabric_has_remote(const struct fabric *fabric);
void fabric_scan_remote(const struct fabric *fabric, struct fabric_scan_result *ret);
void fabric_scan(struct fabric *fabric, struct fabric_scan_result *ret);

/**
 * fabric_host_has_space - return whether a list or file has space for an element of @host. A host
 * other than the coordinator, 0, may use at most half of it, so that no such host can use up the
 * space for the others. @left: free elements or bytes. @held: those of @host. Pure.
 */
static inline bool fabric_host_has_space(uint64_t left, uint32_t host, uint64_t held)
{
    return left && (!host || held < left);
}

/**
 * fabric_drop_receive - queue a loss that @host has found, for fabric_drop_take(). Ignore it if the
 * queue is full, if no device of @host can have found it, or if it is a loss of a group that never
 * had a member or a switch of its tree on @host.
 * fabric_drops_refused() - return how many losses were ignored for one of the last two reasons.
 *
 * The consequences of a loss are applied on all hosts:
 * fabric_group_fails() - mark a group as failed;
 * fabric_unit_out() - take the units of a switch out of service.
 * fabric_group_fails_all() - coordinator: call fabric_group_fails() on this host and all others;
 * returns false if the group had failed before, or does not exist.
 * fabric_unit_is_out() - return whether the units of a switch are out of service.
 */
bool fabric_unit_is_out(const struct fabric *fabric, uint32_t sw);
void fabric_drop_receive(struct fabric *fabric, uint32_t host, const struct fabric_drop *drop);
uint64_t fabric_drops_refused(const struct fabric *fabric);
void fabric_group_fails(struct fabric *fabric, uint32_t group);
bool fabric_group_fails_all(struct fabric *fabric, uint32_t group);
void fabric_unit_out(struct fabric *fabric, uint32_t sw, uint64_t now_ps);

/**
 * fabric_crossings_by - mark in @noted, by cable, some of the cables between hosts @a and @b. The
 * two hosts are connected by @of pairs of Ethernet ports. Their cables are assigned to these pairs
 * round robin, and this function marks the cables of pair @number. If @b is TOPO_NONE, mark all
 * cables of @a to other hosts. Returns how many cables were marked.
 */
uint32_t fabric_crossings_by(const struct fabric *fabric, uint32_t a, uint32_t b, uint32_t number,
                             uint32_t of, bool *noted);

/**
 * fabric_sever - in a network that cannot reroute, set which cables are *severed*: those that led
 * to a lost host. @lost: by cable; replaces the earlier set. fabric_reaches() is then false for two
 * nodes whose segments may use a severed cable. Errors: -ENOMEM.
 * fabric_group_is_severed() - return whether the group's tree uses a severed cable.
 * Thread: manager.
 */
int fabric_sever(struct fabric *fabric, const bool *lost);
bool fabric_group_is_severed(const struct fabric *fabric, uint32_t group);

/* --- a host that rejoins (resync.c) ------------------------------------------------------ */

#define FABRIC_LEFT (1u << 31) /* flag on the number of a node that has left its group */

/*
 * A copy of a group, for the replica of a host that rejoins. The function that writes the copy owns
 * the arrays.
 */
struct fabric_group_copy {
    uint32_t id, sources, count;
    bool combines, failed, treeless, partitioned;
    const uint32_t *nodes; /* members; one that has left has the flag FABRIC_LEFT */
    struct topo_tree tree;
};

/**
 * fabric_group_each - call @each for every group.
 * fabric_group_restore() - add a group from the copy of another replica. Members that have not left
 * must be on other hosts. Errors: -EINVAL, the copy is not valid in this network, or the address is
 * taken; -ENOMEM. Thread: manager.
 */
void fabric_group_each(const struct fabric *fabric,
                       void (*each)(void *ctx, const struct fabric_group_copy *group), void *ctx);
int fabric_group_restore(struct fabric *fabric, const struct fabric_group_copy *copy);

/**
 * fabric_node_word - return the incarnation word of a node, which also says whether a link of the
 * node is in use.
 * fabric_node_restore() - set this word on a host that rejoins. This host has no attached processes
 * yet. Errors: -EINVAL, no such node, or a node of this host with a process.
 */
uint64_t fabric_node_word(const struct fabric *fabric, uint32_t node);
int fabric_node_restore(struct fabric *fabric, uint32_t node, uint64_t word);

/**
 * fabric_host_incarnation - set the incarnation number of a host's devices, which is 0 at first.
 * Link engines here then refuse packets of earlier incarnations (engine_set_incarnation()). Thread:
 * manager; holds the workers itself.
 */
void fabric_host_incarnation(struct fabric *fabric, uint32_t host, uint32_t incarnation);

/**
 * fabric_groups_through - find the groups that combine in adapters or unit engines of @host. If the
 * host is lost, their partial results are lost, too. Writes at most @max addresses; returns how
 * many groups there are.
 */
uint32_t fabric_groups_through(const struct fabric *fabric, uint32_t host, uint32_t *groups,
                               uint32_t max);

/**
 * fabric_mirror - set the mirror, which the fabric borrows until it stops. Call it before any
 * process attaches.
 */
void fabric_mirror(struct fabric *fabric, const struct fabric_mirror *mirror);

/**
 * fabric_attach_remote - give a node of @host to a process on that host, as fabric_attach() does
 * for this host. All descriptors in @ret are -1, because @host has them. Errors: as
 * fabric_attach(); -EHOSTDOWN.
 */
int fabric_attach_remote(struct fabric *fabric, uint32_t host, int64_t want,
                         struct fabric_attachment *ret);

/**
 * fabric_group_is - on another host than the coordinator: create a group that the coordinator has
 * created, with the same address. Errors: as fabric_group_create().
 */
int fabric_group_is(struct fabric *fabric, const struct fabric_group_call *group);

#endif
