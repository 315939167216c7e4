/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - a running fabric: the one place that assembles a graph into devices, links and
 * workers; its nodes, its groups and its time.
 *
 * The manager's other operations on it: cables, what goes wrong on them, tables and trees that
 * follow (links.h); a network on several hosts (hosts.h); what stands still (stalls.h); audits
 * (apps/audit/audit.h).
 */
#ifndef APPS_FABRIC_FABRIC_H
#define APPS_FABRIC_FABRIC_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/hostif/bounds.h"
#include "emu/hostif/hostif.h"
#include "emu/packet/profile.h"
#include "emu/util/clock.h"
#include "switch/switch.h"
#include "topo/topo.h"

struct emu_dev;
struct emu_fault_rates;
struct emu_rx;
struct emu_tx;
struct emu_worker;
struct fabric;
struct fabric_hosts;

/*
 * Nodes that are devices inside the fabric instead of edges to processes: for
 * benchmarks and synthetic traffic. The device and its link ends are the caller's.
 */
struct fabric_node_ops {
    int (*create)(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
                  struct emu_tx **tx, struct emu_rx **rx);
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
    int64_t began_s; /* when the command began, seconds since 1970: for reports; 0: not known */
    struct emu_bounds bounds;                  /* on waiting; what is 0 is the default */
    const struct fabric_node_ops *local_nodes; /* NULL: nodes are edges */
    const struct fabric_hosts *hosts;          /* borrowed; NULL: the whole network is here */
    const struct emu_fault_rates *faults; /* on every cable with channels, each way; NULL: none */
    bool link_rates;   /* cables have the rates of the network's file: topo_end.rate */
    uint64_t start_ps; /* clock real: its time at the start; tests begin where numbers end */
    /* where free-running numbers begin: 0; tests let them wrap (docs/NUMBERS.md) */
    uint32_t first;
    bool start_stopped; /* no threads: the caller steps fabric_worker() itself */
};

/**
 * fabric_check_config - do network, clock, profile and nodes suit each other? fabric_start() checks
 * this first. Errors: -EINVAL; -EFBIG (edges), with one line in @error.
 */
int fabric_check_config(const struct fabric_config *config, char *error, size_t error_bytes);

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

/* What a process gets when it attaches: the descriptors are the caller's to pass on and close. */
struct fabric_seat {
    uint32_t node;
    uint64_t seat;             /* counts the processes of the node, from 1 */
    struct emu_hostif_fds fds; /* the bell: a description of its own for each edge */
};

/** fabric_seat_close - descriptors that nobody was given. */
void fabric_seat_close(const struct fabric_seat *seat);

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
 * Its process has asked for it, and reads nothing of a shelf any more (emu_hostif_nic_leave).
 */
void fabric_detach(struct fabric *fabric, uint32_t node);
/** fabric_detach_dead - the same of a process that has not asked: it may be there, and read. */
void fabric_detach_dead(struct fabric *fabric, uint32_t node);

/**
 * fabric_group_create - plan a tree and put its tables into the switches.
 * Errors: -EINVAL (members), -EHOSTUNREACH (a damaged network), -ENOSPC (addresses or combine
 * states), -ENOTSUP (profile: buffers=input, or no pool slots) with one line in @error.
 */
int fabric_group_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                        uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_group_create_wide - the same with a wide window (emu/packet/seg.h), for operations of many
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

/**
 * fabric_hold, fabric_go - between the two all workers stand still, between two passes; on clock
 * virtual they do between two advances. To hold a worker takes two wake-ups, so who has much to do
 * holds them once. Not one within the other. Thread: manager.
 */
void fabric_hold(struct fabric *fabric);
void fabric_go(struct fabric *fabric);

/** fabric_nodes - how many there are. */
uint32_t fabric_nodes(const struct fabric *fabric);
const struct topo_graph *fabric_graph(const struct fabric *fabric); /* the whole network */

/** fabric_config_of - what it was started with; the fabric's own copy. */
const struct fabric_config *fabric_config_of(const struct fabric *fabric);

/** fabric_switches - how many there are; fabric_ports - how many ports each has. */
uint32_t fabric_switches(const struct fabric *fabric);
uint32_t fabric_ports(const struct fabric *fabric);

/** fabric_is_virtual - is its time simulated, by fabric_advance()? */
bool fabric_is_virtual(const struct fabric *fabric);

/** fabric_now_ps - the time of a timed clock that is not virtual; raw: 0. */
uint64_t fabric_now_ps(const struct fabric *fabric);

/** fabric_has_time - does a byte take any? Not on clock raw. */
bool fabric_has_time(const struct fabric *fabric);

/**
 * fabric_starved - add @ns to the time in which processes of this host, or the fabric itself, had
 * no core (emu_starved_ns()). @now_ns: emu_now_ns(). Bounds on silence do not count that time:
 * neither those of the manager, nor those of processes, which read the sum in their edges. Call
 * about once a second, also with 0. fabric_starved_ns() - the sum. Thread: the manager.
 */
void fabric_starved(struct fabric *fabric, uint64_t ns, uint64_t now_ns);
uint64_t fabric_starved_ns(const struct fabric *fabric);

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

/* Totals since the start: counters.def says what each of them counts. */
struct fabric_totals {
#define TOTAL(name, section, shown, text) uint64_t name;
#define DROP(name, text)                  uint64_t dropped_##name;
#define KEPT(name)                        uint64_t name;
#include "apps/fabric/counters.def"
    struct fabric_transport transport; /* its not_in_group is in dropped_groups_over */
    struct switch_retries retries;     /* its overrun is in dropped_overrun */
    /* collectives, as the processes count them: by enum fabemu_coll */
    uint64_t in_network[EMU_HOSTIF_COLLS];
    uint64_t elsewhere[EMU_HOSTIF_COLLS][EMU_HOSTIF_REASONS]; /* and by enum fabemu_why */
    double real_time_factor; /* clock real: emulated transit time / actual; else 1 */
    uint64_t worst_lag_ns;   /* clock real: furthest that an event was late */
};

/* All before real_time_factor are counters of 64 bits, one after the other: so many. */
#define FABRIC_COUNTERS (offsetof(struct fabric_totals, real_time_factor) / sizeof(uint64_t))
static_assert(offsetof(struct fabric_totals, real_time_factor) % sizeof(uint64_t) == 0,
              "a list of counters");

/**
 * fabric_totals_read - sum the counters, of all hosts; disturbs no worker. fabric_totals_here() -
 * those of this host alone, which asks nobody. Thread: manager.
 */
void fabric_totals_read(struct fabric *fabric, struct fabric_totals *ret);
void fabric_totals_here(const struct fabric *fabric, struct fabric_totals *ret);

/**
 * fabric_full_ns - clock real: for how long segments have waited, up to now, for room in an edge
 * that its process did not empty. The sum over all edges, those that are gone too. It may be less
 * than in the call before, by less than what a worker's pass takes. Thread: manager.
 */
uint64_t fabric_full_ns(const struct fabric *fabric);

/** fabric_windows - clock virtual: windows so far (emu/worker/windows.h). */
uint64_t fabric_windows(const struct fabric *fabric);

/**
 * fabric_advance - clock virtual: run until everything up to @until_ps (included) has happened.
 * On several hosts all call it, and fabric_next_ps(), equally often and with the same times.
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

/** fabric_worker - worker @i of a fabric that was started stopped. */
struct emu_worker *fabric_worker(struct fabric *fabric, uint32_t i);

uint32_t fabric_threads(const struct fabric *fabric);  /* workers running */
uint32_t fabric_attached(const struct fabric *fabric); /* nodes attached now */

/** fabric_worker_count - workers of such a fabric. Pure, but for the count of cores. */
uint32_t fabric_worker_count(const struct fabric_config *config);

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
