/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts.h - one network on several hosts: its partition, the replicas, and how they stay alike. */
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

/* A cable with one end here and the other on another host. */
struct fabric_crossing {
    uint32_t cable;  /* fabric_cable() */
    uint32_t host;   /* the other one */
    uint32_t number; /* among the cables between these two hosts; the same on both */
};

/* The end of it on this host, at a switch or a link engine. */
struct fabric_crossing_end {
    struct emu_dev *dev;
    struct emu_tx *tx;
    struct emu_rx *rx;
    uint8_t port;              /* of the device, for both */
    struct emu_intake *intake; /* of @rx, with link-level retry (emu_retry_join()); else NULL */
};

/*
 * Host links, as a fabric sees them: devices that its workers step. A cable has the credits of the
 * receiving switch and, without virtual channels, `depth` more for segments that wait in the remote
 * host link until that switch has space. A host link accounts credits of its own sending end as any
 * sender does: an entry put on the cable takes one, a returned one is added.
 */
struct fabric_crossing_ops {
    uint32_t devices;
    uint32_t depth; /* extra credits of a cable without virtual channels */
    /* Device @i, on @worker; all are created before any cable is joined. Errors: its own, < 0. */
    int (*create)(void *ctx, uint32_t i, struct emu_worker *worker);
    /*
     * Replaces two emu_link_join(), one for each direction between @end and a host link device.
     * With an intake the direction to @end is an emu_retry_join() from a replay buffer of that
     * device. @credits: as on one host; with channels emu_vc_ring(). Errors: its own, negative.
     */
    int (*join)(void *ctx, const struct fabric_crossing *crossing,
                const struct fabric_crossing_end *end, uint32_t credits,
                const struct emu_profile *profile);
    /* Destroy the devices, which free their sending ends by emu_link_unjoin(); no worker runs. */
    void (*destroy)(void *ctx);
    /*
     * Entries of the crossing, modulo 2^32, that its device has taken from here, and brought here.
     * False: some still wait to be taken. Call while workers stand still. NULL: not supported.
     */
    bool (*passed)(void *ctx, const struct fabric_crossing *crossing, uint32_t *sent,
                   uint32_t *arrived);
    /* Replay buffer of the crossing towards this host's switch; NULL: none. */
    struct emu_replay *(*replay)(void *ctx, const struct fabric_crossing *crossing);
    /* References to buffers held by devices and by cables to them; NULL: never any. */
    uint64_t (*held)(void *ctx);
    /* Rebase the clock of all ends: emu_tx_rebase(), emu_rx_rebase(). NULL: no timed clock. */
    void (*rebase)(void *ctx, uint64_t by_ps);
    /* Clock virtual: struct emu_windows_hosts (emu/worker/windows.h). NULL: not supported. */
    void (*agree)(void *ctx, uint64_t *next_ps);
};

/* One network on several hosts. A node is on the host of its topo_first_link(). */
struct fabric_hosts {
    uint32_t self; /* this host */
    uint32_t count;
    const uint32_t *of; /* by switch: its host; borrowed, like the other pointers */
    const struct fabric_crossing_ops *ops;
    void *ctx;
};

/* --- replicas ---------------------------------------------------------------------- */

/*
 * On several hosts each has a fabric of the whole network, a *replica*: it knows all cables,
 * groups, trees and incarnations, and has the devices of its own partition. All hosts apply the
 * calls that change this knowledge, in the same order and with the same arguments:
 *
 *     fabric_group_create(), _wide(), fabric_multicast_create(), fabric_group_leave(),
 *     fabric_node_leave(), fabric_link_set(), fabric_reroute(), fabric_regrow(),
 *     fabric_combine_exhaust(), fabric_node_linked(), fabric_incarnation_set()
 *
 * Each decides from common knowledge alone, so all decide alike; then each changes its own devices.
 * Only -ENOMEM can happen on one host alone: the coordinator then undoes a group on the others by
 * fabric_group_leave(), or drops the host. All other calls are about devices here: they do nothing,
 * and find nothing, for devices elsewhere.
 */

/** fabric_switch_host, fabric_node_host - the host that has it; on one host: 0. Pure. */
uint32_t fabric_switch_host(const struct fabric_config *config, uint32_t sw);
uint32_t fabric_node_host(const struct fabric_config *config, uint32_t node);

/**
 * fabric_direction_host - the host with one end of a direction of a cable. @direction: 2 * cable,
 * plus 1 for the direction from the cable's first end. @sends: the sending end; else the receiving
 * end.
 * Thread: any.
 */
uint32_t fabric_direction_host(const struct fabric *fabric, uint32_t direction, bool sends);

/** fabric_crossings - cables between this host and @host; TOPO_NONE: and any other host. Pure. */
uint32_t fabric_crossings(const struct fabric_config *config, uint32_t host);

/** fabric_crossings_all - cables between any two hosts. Pure. */
uint32_t fabric_crossings_all(const struct fabric_config *config);

bool fabric_node_is_here(const struct fabric *fabric, uint32_t node); /* on this host */

/**
 * fabric_cable_ends_here - is the receiving end of the direction from (@out) or to the cable's
 * first end on this host? It is also the sending end of the opposite direction.
 */
bool fabric_cable_ends_here(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_incarnation_set - set the incarnation, emu_incarnation_state(), of a node on another host;
 * all processes attached here see it when this returns. Errors: -EINVAL, the node is here.
 * fabric_incarnation() - the incarnation of any node, for other hosts. Thread: manager.
 */
int fabric_incarnation_set(struct fabric *fabric, uint32_t node, uint64_t state);
uint64_t fabric_incarnation(const struct fabric *fabric, uint32_t node);

/* --- operations on all hosts ----------------------------------------------------------- */

/* State, on one host, of a cable that is down. */
struct fabric_past {
    bool quiet;             /* the ends on this host have no old packets */
    bool crosses;           /* one end is here, the other on another host */
    uint32_t sent, arrived; /* entries of such a cable to and from that host, modulo 2^32 */
};

/* Result of rerouting in flight on all hosts (links.h). */
struct fabric_rerouted {
    uint32_t segments;    /* that left */
    uint64_t partitioned; /* those of them that were dropped: fabric_dropped_unreachable() */
};

/* Test of a link that is to come up: results of other hosts. */
struct fabric_test {
    uint32_t cable;
    uint32_t errors; /* maximum of fabric_cable_try() */
    bool quiet;      /* no old packets there, nor between hosts: fabric_link_quiet() */
};

/* Samples of the cable ends on all hosts: by direction, 2 * cable + out, and by switch. */
struct fabric_scan_result {
    uint64_t *packets, *errors; /* at the receiving end, if it has faults */
    struct fabric_port *port;   /* the sending end, if it is ready */
    uint64_t *trapped;          /* fabric_traps() */
    uint32_t *trapped_to;
};

/* A group that can combine, as the coordinator's fabric has made it. */
struct fabric_group_call {
    const uint32_t *nodes; /* count of them */
    uint32_t count;
    bool wide;
    uint32_t id; /* its address on the coordinator, and so on all hosts */
};

/*
 * How the coordinator's fabric changes and queries the replicas. Each call returns when all other
 * hosts have done it. Exceptions: link(), linked() and alone() return when the hosts have been
 * notified; these do it before anything that they are sent later. @ctx: the mirror's. Thread:
 * manager.
 */
struct fabric_mirror {
    void *ctx;
    /* Create a host interface for @node on its @host, as fabric_attach() does. */
    int (*attach)(void *ctx, uint32_t host, uint32_t node);
    void (*detach)(void *ctx, uint32_t host, uint32_t node, bool dead);
    void (*incarnation)(void *ctx, uint32_t node, uint64_t state);    /* fabric_incarnation_set() */
    void (*linked)(void *ctx, uint32_t node, bool linked);            /* fabric_node_linked() */
    int (*group)(void *ctx, const struct fabric_group_call *group);   /* fabric_group_is() */
    void (*leave)(void *ctx, uint32_t group, uint32_t node);          /* fabric_group_leave() */
    void (*link)(void *ctx, uint32_t cable, bool up, uint32_t fault); /* fabric_link_set() */
    void (*reroute)(void *ctx, const uint32_t *out, uint32_t count);  /* fabric_reroute(), cables */
    void (*cut_off)(void *ctx, bool partitioned);                     /* fabric_cut_off() */
    void (*totals)(void *ctx, struct fabric_totals *sum);             /* adds the others' */
    void (*comm)(void *ctx, struct fabric_comm *sum);                 /* likewise */
    void (*no_link)(void *ctx, uint32_t node);                        /* fabric_node_no_link() */
    void (*failed)(void *ctx, uint32_t group);                        /* fabric_group_fails() */
    void (*unit_out)(void *ctx, uint32_t sw);                         /* fabric_unit_out() */

    /* Queries about cable ends. Only cable, switch and worker numbers in replies were checked. */
    /* fabric_test_remote(); @here: fabric_link_past() of this host, one for each test. */
    void (*test)(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                 uint32_t count, uint32_t packets);
    /*
     * fabric_ease() and fabric_drop_unreachable() as here, then fabric_reroute_in_flight_all();
     * adds the results.
     */
    void (*reroute_in_flight)(void *ctx, bool eases, bool drops, struct fabric_rerouted *sum);
    void (*scan)(void *ctx, struct fabric_scan_result *ret); /* fabric_scan() */
    /* fabric_drops_find(), and fabric_drop_receive() for the results. */
    void (*drops)(void *ctx, uint64_t bound_ps);

    /*
     * Queries about a stall. Never call these while workers are held, because workers carry queries
     * and replies. Only lengths in the replies have been checked.
     */
    /* fabric_pending() of the process at @node, at most half a second old. */
    bool (*pending)(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
    uint32_t (*arrived)(void *ctx, uint32_t group, uint32_t seq, struct fabric_arrived *ret,
                        uint32_t max);                                     /* fabric_arrived() */
    bool (*mismatch)(void *ctx, uint32_t group, struct emu_mismatch *ret); /* fabric_mismatch() */
    /* fabric_stalls(), with times by this host's clock. */
    uint32_t (*stalls)(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max);
    /* fabric_audit(), added to @sum, each line with its host. Errors: as there. */
    int (*audit)(void *ctx, bool routes, struct fabric_audit *sum);
};

/*
 * Do not call the functions below between fabric_pause() and fabric_resume(), unless they say so:
 * held workers do not carry calls to other hosts. Thread: manager.
 *
 * fabric_link_publish - let all other hosts do the fabric_link_set() that was done here, before
 * anything that they are sent later. fabric_node_no_link_publish() - the same for
 * fabric_node_no_link().
 */
void fabric_link_publish(const struct fabric *fabric, uint32_t cable, bool up, uint32_t fault);
void fabric_node_no_link_publish(const struct fabric *fabric, uint32_t node);

/**
 * fabric_link_past - state of the ends here, between fabric_pause() and fabric_resume().
 * fabric_test_remote() - let other hosts test links that are to come up, at their ends and between
 * two hosts. On one host all tests succeed. Errors: -ENOMEM.
 */
void fabric_link_past(const struct fabric *fabric, uint32_t cable, struct fabric_past *ret);
int fabric_test_remote(struct fabric *fabric, struct fabric_test *tests, uint32_t count,
                       uint32_t packets);

/**
 * fabric_has_remote - is this the coordinator of other hosts? fabric_scan_remote() - samples of
 * those hosts; @ret is zeros or an earlier sample. fabric_scan() - samples of the ends on this
 * host; it holds the workers itself.
 */
bool fabric_has_remote(const struct fabric *fabric);
void fabric_scan_remote(const struct fabric *fabric, struct fabric_scan_result *ret);
void fabric_scan(struct fabric *fabric, struct fabric_scan_result *ret);

/**
 * fabric_drop_receive - queue a loss that another @host has found for fabric_drop_take(). Ignored
 * if no device of @host can have found it, or if the queue is full. fabric_group_fails(),
 * fabric_unit_out() - consequences of a loss, applied on all hosts: the group has failed; the units
 * of a switch are out of service. fabric_group_fails_all() - coordinator: fabric_group_fails() here
 * and on all other hosts; false: it had failed before.
 * fabric_unit_is_out() - are the units out of service?
 */
bool fabric_unit_is_out(const struct fabric *fabric, uint32_t sw);
void fabric_drop_receive(struct fabric *fabric, uint32_t host, const struct fabric_drop *drop);
void fabric_group_fails(struct fabric *fabric, uint32_t group);
bool fabric_group_fails_all(struct fabric *fabric, uint32_t group);
void fabric_unit_out(struct fabric *fabric, uint32_t sw, uint64_t now_ps);

/**
 * fabric_crossings_by - mark in @noted, by cable, the cables between hosts @a and @b that use pair
 * @number of @of pairs of ports. @b TOPO_NONE: all cables of @a to others. Returns their count.
 */
uint32_t fabric_crossings_by(const struct fabric *fabric, uint32_t a, uint32_t b, uint32_t number,
                             uint32_t of, bool *noted);

/**
 * fabric_sever - networks that cannot reroute: exactly the cables of @lost, by cable, now lead
 * nowhere. fabric_reaches() is then false for pairs that may use one of them.
 * fabric_group_is_severed() - does the group's tree use one? Errors: -ENOMEM. Thread: manager.
 */
int fabric_sever(struct fabric *fabric, const bool *lost);
bool fabric_group_is_severed(const struct fabric *fabric, uint32_t group);

/* --- a host that rejoins (resync.c) ------------------------------------------------------ */

#define FABRIC_LEFT (1u << 31) /* flag on the number of a node that is no longer a member */

/* A group as a replica has it; the fabric, or the caller, owns what the pointers refer to. */
struct fabric_group_copy {
    uint32_t id, sources, count;
    bool combines, failed, treeless, partitioned;
    const uint32_t *nodes; /* with FABRIC_LEFT if it has left */
    struct topo_tree tree;
};

/**
 * fabric_group_each - call @each for every group. fabric_group_restore() - add such a group, which
 * has no member on this host. Errors: -EINVAL, it is not of this network, or exists already;
 * -ENOMEM. Thread: manager.
 */
void fabric_group_each(const struct fabric *fabric,
                       void (*each)(void *ctx, const struct fabric_group_copy *group), void *ctx);
int fabric_group_restore(struct fabric *fabric, const struct fabric_group_copy *copy);

/**
 * fabric_node_word - the incarnation of a node and whether it has a link. fabric_node_restore() -
 * set this on a host that rejoins, on which no process is attached now. Errors: -EINVAL.
 */
uint64_t fabric_node_word(const struct fabric *fabric, uint32_t node);
int fabric_node_restore(struct fabric *fabric, uint32_t node, uint64_t word);

/**
 * fabric_host_incarnation - set the incarnation number of the devices of a host, 0 at first.
 * Packets from earlier incarnations are refused (engine_set_incarnation()). Thread: manager; it
 * holds the workers itself.
 */
void fabric_host_incarnation(struct fabric *fabric, uint32_t host, uint32_t incarnation);

/**
 * fabric_groups_through - groups that combine in adapters or units of @host, which have lost their
 * partial results there. Writes at most @max to @groups; returns how many there are.
 */
uint32_t fabric_groups_through(const struct fabric *fabric, uint32_t host, uint32_t *groups,
                               uint32_t max);

/** fabric_mirror - set the mirror, borrowed, before any process attaches. */
void fabric_mirror(struct fabric *fabric, const struct fabric_mirror *mirror);

/**
 * fabric_attach_remote - give a node of @host to a process there: as fabric_attach(), but the
 * descriptors are on that host. Errors: the same; -EHOSTDOWN.
 */
int fabric_attach_remote(struct fabric *fabric, uint32_t host, int64_t want,
                         struct fabric_attachment *ret);

/** fabric_group_is - create the coordinator's group. Errors: as fabric_group_create(); -EPROTO. */
int fabric_group_is(struct fabric *fabric, const struct fabric_group_call *group);

#endif
