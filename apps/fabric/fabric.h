/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - a running fabric: the one place that assembles a graph into
 * devices, links and workers, and the manager's operations on it.
 */
#ifndef APPS_FABRIC_H
#define APPS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/clock.h"
#include "emu/edge/bounds.h"
#include "emu/profile.h"
#include "switch/switch.h"
#include "topo/topo.h"

struct emu_dev;
struct emu_fault_rates;
struct emu_fault_hit;
struct emu_faults;
struct emu_rx;
struct emu_tx;
struct emu_worker;
struct fabric;
struct fabric_totals;

/*
 * Nodes that are devices inside the fabric instead of edges to processes: for
 * benchmarks and synthetic traffic. The device and its link ends are the caller's.
 */
struct fabric_node_ops {
    int (*create)(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
                  struct emu_tx **tx, struct emu_rx **rx);
    void *ctx;
};

/* --- several hosts: hosts.c ----------------------------------------------------------- */

/* A cable with one end here and the other on another host. */
struct fabric_crossing {
    uint32_t cable; /* fabric_cable() */
    uint32_t host;  /* the other one */
    uint32_t
        number; /* of those that join the same two hosts, in the order of cables: both's the same */
};

/* The end of it that is here: of a switch, or of a link engine. */
struct fabric_crossing_end {
    struct emu_dev *dev;
    struct emu_tx *tx; /* what it sends */
    struct emu_rx *rx;
    uint8_t port; /* of the device, for both */
};

/*
 * Host links, as a fabric sees them. Their devices are stepped by its workers. A cable's credits
 * are its far switch's, and pass; a host link keeps the credits of its own sending end as a sender
 * does: what it puts on the cable takes one, what comes back is added.
 */
struct fabric_crossing_ops {
    uint32_t devices;
    /* Device @i, on @worker; all are made before any cable is joined. Errors: its own, negative. */
    int (*create)(void *ctx, uint32_t i, struct emu_worker *worker);
    /*
     * In the place of two emu_link_join(), both ways between @end and a device.
     * @credits: as on one host; with channels EMU_VC_SLOTS. Errors: as above.
     */
    int (*join)(void *ctx, const struct fabric_crossing *crossing,
                const struct fabric_crossing_end *end, uint32_t credits,
                const struct emu_profile *profile);
    /*
     * All devices end, if any was made; each frees its sending ends, emu_link_unjoin(). Workers run
     * no more, and are still there.
     */
    void (*destroy)(void *ctx);
    /* References to buffers that devices hold, and those on cables to them; NULL: none ever. */
    uint64_t (*held)(void *ctx);
    /* The clock is rebased: as emu_tx_rebase() and emu_rx_rebase() of all ends. NULL: no times. */
    void (*rebase)(void *ctx, uint64_t by_ps);
};

/* A network that several hosts have together. Nodes are where topo_first_link() is. */
struct fabric_hosts {
    uint32_t self; /* this host */
    uint32_t count;
    const uint32_t *of; /* by switch: which host has it; borrowed, as are the others */
    const struct fabric_crossing_ops *ops;
    void *ctx;
};

#define FABRIC_THREADS_AUTO   0u         /* what this host runs best */
#define FABRIC_THREADS_DEVICE UINT32_MAX /* a thread a device */
#define FABRIC_GROUPS_MAX     65536      /* collective addresses */
#define FABRIC_COMBINING_MAX  1024       /* of them, groups that can combine */

struct fabric_config {
    char name[64];                  /* of the fabric: names its socket */
    const struct topo_graph *graph; /* borrowed; outlives the fabric */
    struct emu_profile profile;
    /* "option", "network" or "default": for reports; NULL: default */
    const char *profile_from;
    /* FIELD=VALUE, for each of its fields that was set by an option: for reports */
    const char *const *sets;
    unsigned set_count;
    enum emu_clock_mode clock;
    uint32_t threads; /* a count, or FABRIC_THREADS_* */
    uint64_t seed;
    struct emu_bounds bounds;                  /* on waiting; what is 0 is the default */
    const struct fabric_node_ops *local_nodes; /* NULL: nodes are edges */
    const struct fabric_hosts *hosts;          /* borrowed; NULL: the whole network is here */
    const struct emu_fault_rates *faults; /* on every cable with channels, each way; NULL: none */
    uint64_t start_ps; /* clock real: its time at the start; tests begin where numbers end */
    /* where free-running numbers begin: 0; tests let them wrap (docs/NUMBERS.md) */
    uint32_t first;
    bool start_stopped; /* no threads: the caller steps fabric_worker() itself */
};

/**
 * fabric_start - build the devices and start the workers.
 * Errors: -ENOMEM, -EAGAIN and -EMFILE (threads), -EFBIG (edges), -EINVAL (profile) with one line
 * in @error. Thread: any; the thread that calls the functions below is the fabric's manager: one at
 * a time.
 */
int fabric_start(struct fabric **ret, const struct fabric_config *config, char *error,
                 size_t error_bytes);

/** fabric_stop - stop the workers, free everything. Edges still attached are detached. */
void fabric_stop(struct fabric *fabric);

/*
 * On several hosts each has a fabric of the whole network, a *replica*: it knows all cables,
 * groups, trees and seats, and has the devices of its own part. What changes them is told to all
 * hosts, in the same order and with the same arguments:
 *
 *     fabric_group_create(), _wide(), fabric_multicast_create(), fabric_group_leave(),
 *     fabric_node_leave(), fabric_link_set(), fabric_reroute(), fabric_regrow(),
 *     fabric_combine_exhaust(), fabric_node_linked(), fabric_seat_set()
 *
 * and each decides the same, by what all know alone; then it does what is to be done to its own
 * devices. -ENOMEM alone is one host's: whoever governs takes back what the others have done, a
 * group by fabric_group_leave(), or gives the host up. Everything else is about devices here: it
 * does nothing, and finds nothing, where they are elsewhere.
 */

/** fabric_switch_host, fabric_node_host - which host has it; one host: 0. Pure. */
uint32_t fabric_switch_host(const struct fabric_config *config, uint32_t sw);
uint32_t fabric_node_host(const struct fabric_config *config, uint32_t node);

/** fabric_crossings - cables between this host and @host; TOPO_NONE: and any other. Pure. */
uint32_t fabric_crossings(const struct fabric_config *config, uint32_t host);

/** fabric_node_is_here - is the node on this host? */
bool fabric_node_is_here(const struct fabric *fabric, uint32_t node);

/**
 * fabric_cable_ends_here - is the receiving end of the way from (@out) or to the cable's first end
 * here? That is also the sending end of the other way.
 */
bool fabric_cable_ends_here(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_seat_set - who is at a node on another host, emu_seat_state(): all that are attached here
 * see it when this returns. fabric_seat() - who is at any node, as other hosts are to be told.
 * Errors: -EINVAL, the node is here. Thread: manager.
 */
int fabric_seat_set(struct fabric *fabric, uint32_t node, uint64_t state);
uint64_t fabric_seat(const struct fabric *fabric, uint32_t node);

/* What a process gets when it attaches: the descriptors are the caller's to pass on and close. */
struct fabric_seat {
    uint32_t node;
    uint64_t seat; /* counts the processes of the node, from 1 */
    int memfd;     /* the edge's memory */
    int bell;      /* eventfd that wakes the worker: a description of its own for each edge */
};

/**
 * fabric_attach - give a process a node.
 * @want: the node asked for, or a negative number; if it is taken, any free one.
 * Errors: -EXDEV, the node is on another host; -ENOSPC, every node here is taken; -ENOMEM; -EMFILE;
 * -EFBIG, the edge is longer than a file may be (SIGXFSZ must be ignored); -EDQUOT, the user's
 * epoll watches.
 */
int fabric_attach(struct fabric *fabric, int64_t want, struct fabric_seat *ret);

/**
 * fabric_detach - take the node back. What is under way to it is dropped and counted, and so is
 * what its process had posted and the fabric had not taken. All attached see that it is gone when
 * this returns. It leaves all of its groups, but not on several hosts: fabric_node_leave().
 */
void fabric_detach(struct fabric *fabric, uint32_t node);

/**
 * fabric_group_create - plan a tree and put its tables into the switches.
 * Errors: -EINVAL (members), -EHOSTUNREACH (a damaged network), -ENOSPC (addresses or combine
 * states), -ENOTSUP (profile: buffers=input, or no pool slots) with one line in @error.
 */
int fabric_group_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                        uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_group_create_wide - the same with a wide window (emu/link/seg.h), for operations of many
 * segments. -ENOSPC also where it would leave less than half of a switch's combine states, or of
 * the buffers, free for groups with a narrow one.
 */
int fabric_group_create_wide(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                             uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_multicast_create - the same for multicasts only: no combine state is set aside.
 * @sources: how many of the members will send to it; what others send is dropped.
 */
int fabric_multicast_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                            uint32_t sources, uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_groups_left - how many groups that can combine there is room for, at most, over these
 * nodes.
 */
uint32_t fabric_groups_left(const struct fabric *fabric, const uint32_t *nodes, uint32_t count);

/**
 * fabric_group_leave - @node is no longer a member; the tree goes when all have left.
 * Errors: -ENOENT, no such group, or the node is no member of it.
 */
int fabric_group_leave(struct fabric *fabric, uint32_t group, uint32_t node);

/** fabric_node_leave - the same of all groups that @node is a member of. */
void fabric_node_leave(struct fabric *fabric, uint32_t node);

/**
 * fabric_node_groups - groups that @node is a member of. Returns their count, writes at most @max.
 */
uint32_t fabric_node_groups(const struct fabric *fabric, uint32_t node, uint32_t *groups,
                            uint32_t max);

/* --- several hosts (nodes.c, groups.c) ----------------------------------------------- */

/* A group that can combine, as the governor's fabric has made it. */
struct fabric_group_call {
    const uint32_t *nodes; /* count of them */
    uint32_t count;
    bool wide;
    uint32_t id; /* that it has there, and must have everywhere */
};

struct emu_clash;
struct emu_pending;
struct fabric_audit;
struct fabric_came;
struct fabric_stall;

/*
 * On several hosts each has a replica of the fabric, with devices of its own part. What changes one
 * changes all: the governor's fabric calls these, and each returns when all other hosts have done
 * it. @ctx: the mirror's. Thread: the manager's.
 */
struct fabric_mirror {
    void *ctx;
    /* An edge for @node, on its @host: fabric_attach() there. */
    int (*attach)(void *ctx, uint32_t host, uint32_t node);
    void (*detach)(void *ctx, uint32_t host, uint32_t node);
    void (*seat)(void *ctx, uint32_t node, uint64_t state);           /* fabric_seat_set() */
    void (*linked)(void *ctx, uint32_t node, bool linked);            /* fabric_node_linked() */
    int (*group)(void *ctx, const struct fabric_group_call *group);   /* fabric_group_is() */
    void (*leave)(void *ctx, uint32_t group, uint32_t node);          /* fabric_group_leave() */
    void (*link)(void *ctx, uint32_t cable, bool up, uint32_t fault); /* fabric_link_set() */
    void (*reroute)(void *ctx, const uint32_t *out, uint32_t count);  /* fabric_reroute(), cables */
    void (*cut_off)(void *ctx, bool parted);                          /* fabric_cut_off() */
    void (*totals)(void *ctx, struct fabric_totals *sum);             /* adds the others' */

    /*
     * What the others see of a standstill, each of its own part; never while workers are held,
     * which carry what is asked and answered. Nothing of it has been checked but lengths.
     */
    /* Of the process at @node, there: fabric_pending(), at most half a second old. */
    bool (*pending)(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
    /* fabric_came(), of all of them. */
    uint32_t (*came)(void *ctx, uint32_t group, uint32_t seq, struct fabric_came *ret,
                     uint32_t max);
    bool (*clash)(void *ctx, uint32_t group, struct emu_clash *ret); /* fabric_clash() */
    /* fabric_stalls(), of all of them; their times by our clock. */
    uint32_t (*stalls)(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max);
    /* fabric_audit() of all others added to @sum, each line with its host. Errors: as there. */
    int (*audit)(void *ctx, bool routes, struct fabric_audit *sum);
};

/**
 * fabric_link_told - all other hosts have done what fabric_link_set() did here. Not between
 * fabric_hold() and fabric_go(): what carries it is held there, too. Thread: manager.
 */
void fabric_link_told(const struct fabric *fabric, uint32_t cable, bool up, uint32_t fault);

/**
 * fabric_crossings_by - the cables between hosts @a and @b that go by pair @number of @of pairs of
 * ports: each is noted in @noted, by cable. Returns their count. @b TOPO_NONE: all of @a's to
 * others.
 */
uint32_t fabric_crossings_by(const struct fabric *fabric, uint32_t a, uint32_t b, uint32_t number,
                             uint32_t of, bool *noted);

/**
 * fabric_sever - where nothing is sent around links that are out: these cables lead nowhere from
 * now on. fabric_reaches() says so of all that may go by one of them; fabric_group_is_severed(), of
 * a group: its tree does. @lost: by cable. Errors: -ENOMEM. Thread: manager.
 */
int fabric_sever(struct fabric *fabric, const bool *lost);
bool fabric_group_is_severed(const struct fabric *fabric, uint32_t group);

/** fabric_mirror - from now on. @mirror: borrowed. Before anything is attached. */
void fabric_mirror(struct fabric *fabric, const struct fabric_mirror *mirror);

/**
 * fabric_attach_far - give a process on @host a node there: as fabric_attach(), but that its
 * descriptors are there. Errors: the same; -EHOSTDOWN.
 */
int fabric_attach_far(struct fabric *fabric, uint32_t host, int64_t want, struct fabric_seat *ret);

/** fabric_group_is - make the group that the governor's fabric has. Errors: as there; -EPROTO. */
int fabric_group_is(struct fabric *fabric, const struct fabric_group_call *group);

/* --- links (links.c) ---------------------------------------------------------------- */

/* A cable of the network: two links, one each way. */
struct fabric_cable {
    struct topo_at at; /* its end at a switch; of two, that of the lower number, then port */
    uint8_t kind;      /* of the other end: TOPO_END_NODE or TOPO_END_SWITCH */
    union {
        struct topo_at far; /* of a switch */
        struct {
            uint32_t node;
            uint32_t link; /* of the node's */
        };
    };
};

/** fabric_cable_count - how many there are; they are numbered from 0. */
uint32_t fabric_cable_count(const struct fabric *fabric);

/** fabric_cable - cable @i of them. */
const struct fabric_cable *fabric_cable(const struct fabric *fabric, uint32_t i);

/**
 * fabric_cable_at, fabric_cable_of - the cable at a switch's port, or at a node's link; TOPO_NONE:
 * nothing is plugged in there, or there is no such port.
 */
uint32_t fabric_cable_at(const struct fabric *fabric, uint32_t sw, uint32_t port);
uint32_t fabric_cable_of(const struct fabric *fabric, uint32_t node, uint32_t link);

/**
 * fabric_has_links - can its links go down? What is lost with them is mended where packets are
 * acknowledged, or cables have link-level retry; else by nothing.
 */
bool fabric_has_links(const struct fabric *fabric);

/**
 * fabric_can_reroute - can new tables be published while traffic runs? What is under way where they
 * have no way on is sent again where packets are acknowledged, and else carried (fabric_carry()).
 */
bool fabric_can_reroute(const struct fabric *fabric);

/**
 * fabric_hold, fabric_go - between the two all workers stand still, between two passes; on clock
 * virtual they do between two advances. Thread: manager.
 */
void fabric_hold(struct fabric *fabric);
void fabric_go(struct fabric *fabric);

/** fabric_nodes - how many there are. */
uint32_t fabric_nodes(const struct fabric *fabric);

/** fabric_is_virtual - is its time simulated, by fabric_advance()? */
bool fabric_is_virtual(const struct fabric *fabric);

/** fabric_now_ps - the time of a timed clock that is not virtual; raw: 0. */
uint64_t fabric_now_ps(const struct fabric *fabric);

/**
 * fabric_link_set - the cable loses its signal, or has it again: both ends know at @now_ps. What is
 * on the wire is lost. Tables stay as they are: fabric_reroute(). @fault: whose doing it is,
 * for the log; 0: nobody's. @hit: packets under way on it, which are lost. Errors: -ENOMEM;
 * -ENOTSUP, not fabric_can_fail().
 * Thread: manager, between fabric_hold() and fabric_go().
 */
int fabric_link_set(struct fabric *fabric, uint32_t cable, bool up, uint32_t fault, uint64_t now_ps,
                    uint32_t *hit);

/**
 * fabric_link_quiet - has all of its past left a cable that is down? Then it may come up again.
 * Thread: as above.
 */
bool fabric_link_quiet(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_traps - unicasts that switch @sw had no way for, so far: refused where packets are
 * acknowledged, else held. @to: where the last of them was to go. Thread: manager.
 */
uint64_t fabric_traps(const struct fabric *fabric, uint32_t sw, uint32_t *to);

/** fabric_switches - how many there are; fabric_ports - how many ports each has. */
uint32_t fabric_switches(const struct fabric *fabric);
uint32_t fabric_ports(const struct fabric *fabric);

/** fabric_isolates - does the profile say trap=isolate? */
bool fabric_isolates(const struct fabric *fabric);

/**
 * fabric_node_alone - no link of the node has been up for too long: what its adapter has to send is
 * given up, and its process is told; what others have to send to it has few tries (engine_cut()).
 * Thread: as above.
 */
void fabric_node_alone(struct fabric *fabric, uint32_t node, uint64_t now_ps);

/**
 * fabric_cut_off - the network has been in pieces for too long: what adapters have to send to
 * groups that can have no tree, and if @parted to nodes that the tables have no way to, has few
 * tries. Without acknowledgments it waits. Returns whether there is any such. Thread: manager; it
 * holds the workers itself.
 */
bool fabric_cut_off(struct fabric *fabric, bool parted);

/**
 * fabric_node_linked - is a link of the node in use? All processes can see it (EMU_SEAT_NO_LINK),
 * so that an error can say so. Thread: manager.
 */
void fabric_node_linked(struct fabric *fabric, uint32_t node, bool linked);

/**
 * fabric_can_fail - can anything be made to go wrong on the cable? Without acknowledgments on those
 * between switches only: a node's cable leads to its process.
 */
bool fabric_can_fail(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_faults - what goes wrong on the cable, on its way from (@out) or to its first end.
 * NULL: there is no memory, or nothing can. Thread: as above.
 */
struct emu_faults *fabric_faults(struct fabric *fabric, uint32_t cable, bool out);

/** fabric_faults_of - the same, where anything was made to go wrong on it; else NULL. */
const struct emu_faults *fabric_faults_of(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_port_stick - the port that sends on the cable from (@out) or to its first end sends
 * nothing from now on; not @stuck: it goes on. Nobody is told, and nothing is lost. Of a cable that
 * fabric_can_fail(). Thread: as above.
 */
void fabric_port_stick(struct fabric *fabric, uint32_t cable, bool out, bool stuck,
                       uint64_t now_ps);

/**
 * fabric_port_waiting - what waits at that port: segments at a switch, packets at an adapter that
 * has no other link for them. Each is logged as hit by @fault; 0: none is. Thread: as above.
 */
uint32_t fabric_port_waiting(const struct fabric *fabric, uint32_t cable, bool out, uint32_t fault,
                             uint64_t now_ps);

/**
 * fabric_combiners - so many combine: all switches; or, where these do not, all nodes' adapters. 0:
 * nothing does.
 */
uint32_t fabric_combiners(const struct fabric *fabric);

/**
 * fabric_combine_faults - rules about contributions that combiner @i folds: emu_faults_fold().
 * NULL: there is no memory. fabric_combine_faults_of(): the same, where there were any; else NULL.
 * In the log its cable is 2 * fabric_cable_count() + @i. Thread: as above.
 */
struct emu_faults *fabric_combine_faults(struct fabric *fabric, uint32_t i);
const struct emu_faults *fabric_combine_faults_of(const struct fabric *fabric, uint32_t i);

/**
 * fabric_combine_stall - the combine units of switch @sw stand still; not @stalled: they go on.
 * Errors: -ENOMEM. Thread: as above.
 */
int fabric_combine_stall(struct fabric *fabric, uint32_t sw, bool stalled, uint64_t now_ps);

/* What is lost for good where nothing is sent again, and what became of who waited for it. */
enum fabric_lost {
    FABRIC_LOST_SEGMENT,  /* a unicast found no room at the far end of a cable; */
    FABRIC_LOST_OF_GROUP, /* a group's: it has failed */
    FABRIC_UNIT_DAMAGED, /* a combine unit has found a partial result damaged: a group has failed */
    FABRIC_UNIT_GAVE_UP, /* a combine unit had to give up what it sent: a group has failed */
    FABRIC_LEFT_GAVE_UP, /* of a node that has left its group: the group has failed */
    FABRIC_UNIT_STUCK,   /* a combine unit is out of service: a group has failed */
    FABRIC_UNIT_OUT,     /* the same: it has just been taken out of service */
    FABRIC_UNIT_BACK     /* it does something again, and is back in service, empty */
};

struct fabric_loss {
    enum fabric_lost what;
    uint32_t cable; /* of a segment; and which way: from its first end? */
    bool out;
    uint32_t sw;       /* of a unit */
    uint32_t from, to; /* FABRIC_LOST_SEGMENT: nodes; FABRIC_LEFT_GAVE_UP: @from has left */
    uint32_t group;    /* that has failed */
    uint32_t moved;    /* FABRIC_UNIT_OUT: groups that have other trees now */
};

/**
 * fabric_losses_look - look for such losses. Combine units of switches for which
 * something has waited for @bound_ps, and that have done nothing, are taken out of service. To be
 * called a few times in @bound_ps, which is EMU_NEVER if they may stand still without limit.
 * fabric_loss_take - what was found, one after the other, each once; false: that was all.
 * A group that has failed stays failed: its members are to leave it.
 * Thread: manager, workers run.
 */
void fabric_losses_look(struct fabric *fabric, uint64_t now_ps, uint64_t bound_ps);
bool fabric_loss_take(struct fabric *fabric, struct fabric_loss *ret);

/**
 * fabric_combine_waiting - what waits at them: contributions; results, where units are link
 * engines. Each is logged as hit by @fault; 0: none is. Thread: as above.
 */
uint32_t fabric_combine_waiting(const struct fabric *fabric, uint32_t sw, uint32_t fault,
                                uint64_t now_ps);

/**
 * fabric_combine_exhaust - no group that is made from now on finds states in switch @sw: it is
 * refused as if all were taken. Those that are have theirs, set aside for them.
 * fabric_combine_refused(): so many groups were.
 */
void fabric_combine_exhaust(struct fabric *fabric, uint32_t sw, bool exhausted);
uint64_t fabric_combine_refused(const struct fabric *fabric, uint32_t sw);

/** fabric_retries - do cables between switches send again what was lost on them? */
bool fabric_retries(const struct fabric *fabric);

/** fabric_has_time - does a byte take any? Not on clock raw. */
bool fabric_has_time(const struct fabric *fabric);

/**
 * fabric_wire_slow - where that is so, a byte takes @factor / 1000 times as long on that way of the
 * cable; 1000: as long as the profile says. Errors: -ENOMEM. Thread: as above.
 */
int fabric_wire_slow(struct fabric *fabric, uint32_t cable, bool out, uint32_t factor);

/**
 * fabric_port_is_stuck - is it? fabric_port_ready() - has it something that it could send now? Not
 * if it waits for room at the far end; nor if its device has not been stepped since this was asked
 * last. @sent: what it has sent, in all. Of a cable that fabric_can_fail(), between fabric_hold()
 * and fabric_go(). Thread: as above.
 */
bool fabric_port_is_stuck(const struct fabric *fabric, uint32_t cable, bool out);
bool fabric_port_ready(struct fabric *fabric, uint32_t cable, bool out, uint64_t now_ps,
                       uint64_t *sent);

/**
 * fabric_hit_take - the next of the entries that faults have hit, in the order of each worker's;
 * false: there is none. Hits are logged of rules (emu_faults_add()), and of cables that are down by
 * a fault with a number.
 */
bool fabric_hit_take(struct fabric *fabric, struct emu_fault_hit *ret);

/** fabric_hits_missed - hits that were not logged, since nobody took them in time. */
uint64_t fabric_hits_missed(const struct fabric *fabric);

/** fabric_is_faulty - was anything made to go wrong on any cable? */
bool fabric_is_faulty(const struct fabric *fabric);

/**
 * fabric_reroute - new tables in all switches, for the network without the cables of which @routed
 * says false, while traffic runs; and trees of groups that went by one of them grow anew.
 * @parted: pairs of a switch with nodes and a destination that no route joins now.
 * @treeless: called for each group that has lost its tree, and can have no other for now: its
 *            adapters try on until profile->retry_limit.
 * Errors, the old tables are in force: -ENOMEM, -E2BIG. Thread: manager.
 */
int fabric_reroute(struct fabric *fabric, const bool *routed, uint64_t now_ps, uint64_t *parted,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx);

/** fabric_regrown - trees that lost a link, and that others have taken the place of, in all. */
uint64_t fabric_regrown(const struct fabric *fabric);

/**
 * fabric_ungrown - groups whose trees have a lost link, and will have others when nothing of them
 * is under way. fabric_regrow() - look whether it is so, as a part of fabric_reroute().
 * Thread: manager.
 */
uint32_t fabric_ungrown(const struct fabric *fabric);
void fabric_regrow(struct fabric *fabric, uint64_t now_ps,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx);

#define FABRIC_CARRY_MOST 16u /* segments that fabric_carry() takes from each end of a link */

/**
 * fabric_can_carry - can what waits for a link that is down be carried another way?
 * fabric_must_tend() - is there more to be done for a link that is down than new tables, again and
 * again: fabric_carry(), fabric_regrow()?
 */
bool fabric_can_carry(const struct fabric *fabric);
bool fabric_must_tend(const struct fabric *fabric);

/**
 * fabric_carry - what switches hold for a link between them that is down leaves another way, as far
 * as there is one by the tables in force, some of it a call: carry.c. Returns segments that left.
 * Thread: manager, between fabric_hold() and fabric_go().
 */
uint32_t fabric_carry(struct fabric *fabric, uint32_t cable, uint64_t now_ps);

/**
 * fabric_reaches - does a way lead from node @from to node @to, by the tables in force?
 * Thread: manager.
 */
bool fabric_reaches(const struct fabric *fabric, uint32_t from, uint32_t to);

/**
 * fabric_part - what fabric_carry() finds that is for a node which its own cannot reach, or for a
 * group with members that cannot reach each other, is dropped from now on; not @drops: it waits, as
 * at first. fabric_parted() - segments that were dropped so. Thread: manager.
 */
void fabric_part(struct fabric *fabric, bool drops);
uint64_t fabric_parted(const struct fabric *fabric);

/**
 * fabric_ease - for now it is carried as if there were a way: a link that is to be up again waits
 * for what is before it (fabric_link_quiet()), which may wait for a way by that very link.
 * Thread: manager.
 */
void fabric_ease(struct fabric *fabric, bool eases);

/**
 * fabric_tick - housekeeping; call about once a second: cuts off processes that do not take their
 * segments for config->bounds.cut_off_ms, and rebases clock real when it is time. Returns the count
 * newly cut off and writes their nodes.
 */
uint32_t fabric_tick(struct fabric *fabric, uint32_t *nodes, uint32_t max);

/* With acknowledgments: what the engines have counted, all together (nic/engine/counts.def). */
struct fabric_transport {
#define REPORTED(name) uint64_t name;
#include "nic/engine/counts.def"
};

/* Totals since the start. */
struct fabric_totals {
    uint64_t sent;          /* segments that entered from adapters */
    uint64_t delivered;     /* segments handed to adapters, copies of multicasts each */
    uint64_t hops;          /* segments that left a switch */
    uint64_t credit_stalls; /* times an output had a segment and no credit */
    uint64_t dropped;       /* segments dropped, for any reason */
    uint64_t dropped_bad;   /* of them: malformed, foreign, or against the protocol */
    uint64_t dropped_late;  /* of them: to a group that was over */
    uint64_t dropped_dead;  /* of them: to a node where nobody is attached */
    /* of them: posted by a process that was gone before the fabric took them */
    uint64_t dropped_left;
    /* of them: contributions to combine units out of service, or that found a group's damaged */
    uint64_t dropped_unit;
    uint64_t damaged; /* states of combine units that were found damaged when read */
    /* dropped, too: lost and refused; not_in_group is among dropped_late */
    struct fabric_transport transport;
    struct switch_retries retries; /* link-level retry: its overruns are among dropped_bad */
    uint64_t combined;             /* contributions taken by combine units, or adapters */
    uint64_t results;              /* results they sent */
    uint64_t multicasts;           /* segments that a switch copied to several ports */
    uint64_t in_switch[4];         /* collectives, as the processes count them: enum fabemu_coll */
    uint64_t elsewhere[4][8];      /* by enum fabemu_coll, enum fabemu_why */
    double real_time_factor;       /* clock real: emulated transit time / actual; else 1 */
    uint64_t worst_lag_ns;         /* clock real: furthest that an event was late */
};

/** fabric_totals_read - sum the counters; disturbs no worker. Thread: manager. */
void fabric_totals_read(struct fabric *fabric, struct fabric_totals *ret);

/**
 * fabric_full_ns - clock real: for how long segments have waited, up to now, for room in an edge
 * that its process did not empty. The sum over all edges, those that are gone too. It may be less
 * than in the call before, by less than what a worker's pass takes. Thread: manager.
 */
uint64_t fabric_full_ns(const struct fabric *fabric);

/* --- what stands still -------------------------------------------------------------- */

/*
 * On several hosts the governor's fabric tells of all: it asks the others, and lets its workers go
 * while it does.
 */

/**
 * fabric_pending - what the process at @node says it has pending, checked (emu/edge/pending.h).
 * False: nobody is there, or it has not said anything yet. Thread: manager.
 */
bool fabric_pending(const struct fabric *fabric, uint32_t node, struct emu_pending *ret);

/* A member's contribution to one segment of a group's stream. */
struct fabric_part {
    uint32_t node;
    bool known; /* the group has a tree, and the member is in it: */
    bool came;
    uint32_t sw;   /* where it comes, or is missing; TOPO_NONE: at the node's adapter */
    uint32_t port; /* of that switch */
};

/* What has come of such a segment to where it is combined. */
struct fabric_came {
    uint32_t at; /* a switch; where adapters combine, a node */
    /* of the switch: bit p, what comes by port p has; of the node: 1, its own has */
    uint64_t ports;
};

/**
 * fabric_came - what has come of segment @seq of group @id, on this host alone. Returns the count
 * of switches or nodes, writes at most @max. Thread: as fabric_parts().
 */
uint32_t fabric_came(const struct fabric *fabric, uint32_t id, uint32_t seq,
                     struct fabric_came *ret, uint32_t max);

/**
 * fabric_parts - where the members' contributions to segment @seq of group @id are. Returns their
 * count, writes at most @max. Thread: manager, between fabric_hold() and fabric_go().
 */
uint32_t fabric_parts(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_part *ret,
                      uint32_t max);

/* A partial result that has left one switch of a group's tree and has not come to the next. */
struct fabric_gap {
    uint32_t from;     /* switch */
    uint32_t sw, port; /* where it is missing */
};

/**
 * fabric_gaps - partial results for segment @seq of group @id that are between two switches.
 * Returns their count, writes at most @max. Thread: as fabric_parts().
 */
uint32_t fabric_gaps(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_gap *ret,
                     uint32_t max);

/**
 * fabric_clash - two contributions to a collective of group @id that did not agree on what it is;
 * NULL: there were none. Good until fabric_go(), and until it is asked again. Thread: as
 * fabric_parts().
 */
const struct emu_clash *fabric_clash(struct fabric *fabric, uint32_t id);

enum fabric_wait {
    FABRIC_WAITS_CREDIT,  /* the far end has no room */
    FABRIC_WAITS_PROCESS, /* the edge is full: the process does not take its segments */
    FABRIC_WAITS_PORT,    /* the port has something to send, and room for it, and does not */
    FABRIC_WAITS_REPLY    /* packets were sent, and nothing has come back */
};

/* A link that has something to send, or that it waits for, and has not moved. */
struct fabric_stall {
    uint32_t node; /* whose link it is; TOPO_NONE: a switch's */
    uint32_t sw;   /* the switch at one end of it; TOPO_NONE: the node's adapter is */
    uint32_t port; /* of the switch, or number of the node's link */
    enum fabric_wait wait;
    uint64_t since_ns;
};

/**
 * fabric_stalls_look - note how far each link is: a stall is what has not moved since. Call about
 * once a second. Errors: -ENOMEM. Thread: manager.
 */
int fabric_stalls_look(struct fabric *fabric, uint64_t now_ns);

/**
 * fabric_stalls - links that wait, and have not moved for a second. Returns their count, writes at
 * most @max. Thread: as fabric_parts().
 */
uint32_t fabric_stalls(struct fabric *fabric, uint64_t now_ns, struct fabric_stall *ret,
                       uint32_t max);

/**
 * fabric_advance - clock virtual: run until everything up to @until_ps (included) has happened.
 * The caller's thread steps one of the workers. Between two calls all of them stand still, and the
 * caller may read any node's state and wake it (emu_dev_wake()).
 */
void fabric_advance(struct fabric *fabric, uint64_t until_ps);

/**
 * fabric_next_ps - clock virtual: when something happens next; EMU_NEVER: nothing is left to
 * happen.
 */
uint64_t fabric_next_ps(struct fabric *fabric);

static inline bool fabric_idle(struct fabric *fabric)
{
    return fabric_next_ps(fabric) == UINT64_MAX;
}

/**
 * fabric_check - clock virtual: conservation of segments and credits on every cable and in every
 * switch, and Little's law in every switch, to the picosecond;
 * and fabric_check_bufs().
 * @now_ps: up to where fabric_advance() has come.
 * Errors: -EPROTO, with one line in @error that says what is wrong and where.
 */
int fabric_check(struct fabric *fabric, uint64_t now_ps, char *error, size_t error_bytes);

/**
 * fabric_check_bufs - every reference to a pool buffer that is out has a holder: a cable, a
 * crosspoint, a packet, a question of a host, a group's state. Part of fabric_check(). Nodes inside
 * the fabric hold none.
 * Errors: -EPROTO, with one line in @error. Thread: manager, while the workers stand still.
 */
int fabric_check_bufs(struct fabric *fabric, char *error, size_t error_bytes);

/** fabric_bufs_out - references to pool buffers that are out. Thread: as fabric_check_bufs(). */
uint64_t fabric_bufs_out(const struct fabric *fabric);

/** fabric_worker - worker @i of a fabric that was started stopped. */
struct emu_worker *fabric_worker(struct fabric *fabric, uint32_t i);

uint32_t fabric_threads(const struct fabric *fabric);  /* workers running */
uint32_t fabric_attached(const struct fabric *fabric); /* nodes attached now */

/** fabric_bytes - memory that an idle fabric of this configuration takes. Pure: starts nothing. */
struct fabric_bytes {
    uint64_t per_switch;
    uint64_t per_idle_node;     /* the fabric's whole memory, divided by its nodes */
    uint64_t per_attached_node; /* an edge */
    uint64_t total;
};
void fabric_bytes(const struct fabric_config *config, struct fabric_bytes *ret);

/**
 * fabric_multicasts_bytes - memory that groups for multicasts with one source each take, at most.
 * Pure.
 * @groups: how many. @members: of all of them together.
 */
uint64_t fabric_multicasts_bytes(const struct fabric_config *config, uint64_t groups,
                                 uint64_t members);

#endif
