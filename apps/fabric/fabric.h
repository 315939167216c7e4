/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - a running fabric: assembles a network graph into devices, links and workers. Its
 * nodes, collective groups and time.
 *
 * Further operations of the manager: cables, faults, routing tables and trees (links.h); a network
 * on several hosts (hosts.h); stall diagnosis (stalls.h); audits (apps/audit/audit.h).
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
 * Creates nodes that are devices inside the fabric instead of host interfaces to processes, for
 * benchmarks and synthetic traffic. The caller owns the device and its link ends.
 */
struct fabric_node_ops {
    int (*create)(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
                  struct emu_tx **tx, struct emu_rx **rx);
    void *ctx;
};

#define FABRIC_THREADS_AUTO   0u         /* a number chosen for the cores of this host */
#define FABRIC_THREADS_DEVICE UINT32_MAX /* one thread per switch */
#define FABRIC_GROUPS_MAX     65536      /* collective addresses */
#define FABRIC_COMBINING_MAX  1024       /* groups that can combine */

struct fabric_config {
    char name[64];                  /* of the fabric: names its socket */
    const struct topo_graph *graph; /* borrowed; outlives the fabric */
    struct emu_profile profile;
    /* for reports: "option", "network" or "default"; NULL: default */
    const char *profile_from;
    const char *const *sets; /* for reports: FIELD=VALUE for each field of it set by an option */
    unsigned set_count;
    enum emu_clock_mode clock;
    uint32_t threads; /* a count, or FABRIC_THREADS_* */
    uint64_t seed;
    int64_t began_s; /* for reports: when the command began, seconds since 1970; 0: unknown */
    struct emu_bounds bounds;                  /* limits on waiting; 0 stands for the default */
    const struct fabric_node_ops *local_nodes; /* NULL: nodes are host interfaces */
    const struct fabric_hosts *hosts;          /* borrowed; NULL: the whole network is here */
    /* on every cable with virtual channels, in each direction; NULL: none */
    const struct emu_fault_rates *faults;
    bool link_rates;    /* cables have the rates of the network's file: topo_end.rate */
    uint64_t start_ps;  /* clock real: time at the start; tests start just before the time wraps */
    uint32_t first;     /* start of free-running numbers: 0, except in tests (docs/NUMBERS.md) */
    bool start_stopped; /* start no threads: the caller steps each fabric_worker() */
};

/**
 * fabric_check_config - check that network, clock, profile and nodes fit each other. fabric_start()
 * does this first. Errors: -EINVAL; -EFBIG (host interfaces), with one line in @error.
 */
int fabric_check_config(const struct fabric_config *config, char *error, size_t error_bytes);

/**
 * fabric_start - build the devices and start the workers.
 * Errors: -ENOMEM, -EAGAIN and -EMFILE (threads), -EFBIG (host interfaces), -EINVAL (profile), with
 * one line in @error. Thread: any. The thread that calls the functions below is the fabric's
 * manager; there is one at a time.
 */
int fabric_start(struct fabric **ret, const struct fabric_config *config, char *error,
                 size_t error_bytes);

/** fabric_stop - stop the workers and free everything, also host interfaces still attached. */
void fabric_stop(struct fabric *fabric);

/* What an attaching process gets. The caller passes the descriptors on and closes them. */
struct fabric_attachment {
    uint32_t node;
    uint64_t incarnation;      /* incarnation: numbers the processes of the node, from 1 */
    struct emu_hostif_fds fds; /* the bell is a file description of its own for each process */
};

/** fabric_attachment_close - close descriptors that were not passed on. */
void fabric_attachment_close(const struct fabric_attachment *incarnation);

/**
 * fabric_attach - give a node to a process.
 * @want: the requested node, or a negative number; if it is taken, any free node.
 * Errors: -EXDEV, the node is on another host; -ENOSPC, all nodes here are taken; -ENOMEM; -EMFILE;
 * -EFBIG, the host interface exceeds the limit on file sizes (ignore SIGXFSZ); -EDQUOT, the user's
 * limit of epoll watches.
 */
int fabric_attach(struct fabric *fabric, int64_t want, struct fabric_attachment *ret);

/**
 * fabric_detach - take the node back, at its process's request. The process no longer reads shared
 * multicast buffers (emu_hostif_nic_leave). Drops and counts segments on their way to the node and
 * segments that its process posted and the fabric has not taken. When this returns, all attached
 * processes see that the process is gone. The node leaves all of its groups; on several hosts see
 * fabric_node_leave(). fabric_detach_dead() - the same without a request: the process may still
 * run, and read.
 */
void fabric_detach(struct fabric *fabric, uint32_t node);
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
 * segments. Also returns -ENOSPC if groups with a narrow window would be left with less than half
 * of a switch's combine states, or of the buffers.
 */
int fabric_group_create_wide(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                             uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_multicast_create - the same for multicasts only: reserves no combine state.
 * @sources: how many of the members will send to it; segments from other members are dropped.
 */
int fabric_multicast_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                            uint32_t sources, uint32_t *group, char *error, size_t error_bytes);

/** fabric_groups_left - upper bound on the combining groups over these nodes that still fit. */
uint32_t fabric_groups_left(const struct fabric *fabric, const uint32_t *nodes, uint32_t count);

/**
 * fabric_group_leave - remove member @node; the tree is removed with the last member.
 * Errors: -ENOENT, no such group, or the node is not a member of it.
 */
int fabric_group_leave(struct fabric *fabric, uint32_t group, uint32_t node);

/** fabric_node_leave - remove @node from all of its groups. */
void fabric_node_leave(struct fabric *fabric, uint32_t node);

/** fabric_node_groups - write at most @max of the groups of @node, and return how many it has. */
uint32_t fabric_node_groups(const struct fabric *fabric, uint32_t node, uint32_t *groups,
                            uint32_t max);

/**
 * fabric_pause - stop all workers between two passes; fabric_resume() lets them continue. On clock
 * virtual they are stopped between two advances anyway. Stopping a worker takes two wake-ups, so do
 * many changes under one hold. Calls do not nest. Thread: manager.
 */
void fabric_pause(struct fabric *fabric);
void fabric_resume(struct fabric *fabric);

const struct topo_graph *fabric_graph(const struct fabric *fabric); /* the whole network */

/** fabric_config_of - the fabric's own copy of its configuration. */
const struct fabric_config *fabric_config_of(const struct fabric *fabric);

/** fabric_is_virtual - is time simulated by fabric_advance()? */
bool fabric_is_virtual(const struct fabric *fabric);

/** fabric_now_ps - the time of clock real; 0 on other clocks. */
uint64_t fabric_now_ps(const struct fabric *fabric);

/** fabric_has_time - does the clock model the time of a byte on a wire? Clock raw does not. */
bool fabric_has_time(const struct fabric *fabric);

/**
 * fabric_starved - add @ns of time in which processes of this host, or the fabric itself, had no
 * core (emu_starved_ns()). Time-outs of the manager exclude that time, and so do those of
 * processes, which read the sum in their host interfaces. Call about once a second, also with 0.
 * @now_ns: emu_now_ns(). fabric_starved_ns() - the sum. Thread: manager.
 */
void fabric_starved(struct fabric *fabric, uint64_t ns, uint64_t now_ns);
uint64_t fabric_starved_ns(const struct fabric *fabric);

/**
 * fabric_tick - housekeeping, about once a second: cuts off processes that have not taken their
 * segments for config->bounds.cut_off_ms, and rebases clock real when needed. Writes the nodes cut
 * off by this call, at most @max, and returns their count.
 */
uint32_t fabric_tick(struct fabric *fabric, uint32_t *nodes, uint32_t max);

/* With acknowledgments: sums over all link engines (nic/engine/counts.def). */
struct fabric_transport {
#define REPORTED(name) uint64_t name;
#include "nic/engine/counts.def"
};

/* Totals since the start; counters.def describes each of them. */
struct fabric_totals {
#define TOTAL(name, section, shown, text) uint64_t name;
#define DROP(name, text)                  uint64_t dropped_##name;
#define KEPT(name)                        uint64_t name;
#include "apps/fabric/counters.def"
    struct fabric_transport transport; /* its not_in_group is in dropped_groups_over */
    struct switch_retries retries;     /* its overrun is in dropped_overrun */
    /* collectives as the processes count them, by enum fabemu_coll */
    uint64_t in_network[EMU_HOSTIF_COLLS];
    uint64_t elsewhere[EMU_HOSTIF_COLLS][EMU_HOSTIF_REASONS]; /* and by enum fabemu_why */
    double real_time_factor; /* clock real: emulated transit time / actual; else 1 */
    uint64_t worst_lag_ns;   /* clock real: greatest lateness of an event */
};

/* Number of leading fields that are 64-bit counters: all before real_time_factor. */
#define FABRIC_COUNTERS (offsetof(struct fabric_totals, real_time_factor) / sizeof(uint64_t))
static_assert(offsetof(struct fabric_totals, real_time_factor) % sizeof(uint64_t) == 0,
              "a list of counters");

/**
 * fabric_totals_read - sum the counters of all hosts; disturbs no worker. fabric_totals_here() -
 * of this host only. Thread: manager.
 */
void fabric_totals_read(struct fabric *fabric, struct fabric_totals *ret);
void fabric_totals_here(const struct fabric *fabric, struct fabric_totals *ret);

/**
 * fabric_full_ns - clock real: how long segments have waited, up to now, for space in a host
 * interface that its process did not empty. The sum over all host interfaces, including past ones.
 * It may decrease between two calls, by less than a worker's pass takes. Thread: manager.
 */
uint64_t fabric_full_ns(const struct fabric *fabric);

/** fabric_windows - clock virtual: number of windows so far (emu/worker/windows.h). */
uint64_t fabric_windows(const struct fabric *fabric);

/**
 * fabric_advance - clock virtual: simulate up to and including @until_ps. The calling thread steps
 * one of the workers. All workers stand still between two calls; the caller may then read the state
 * of any node and wake it (emu_dev_wake()). On several hosts all must make the same sequence of
 * calls of this and fabric_next_ps(), with the same times.
 */
void fabric_advance(struct fabric *fabric, uint64_t until_ps);

/** fabric_next_ps - clock virtual: time of the next event; EMU_NEVER: there is none. */
uint64_t fabric_next_ps(struct fabric *fabric);

static inline bool fabric_idle(struct fabric *fabric)
{
    return fabric_next_ps(fabric) == UINT64_MAX;
}

/** fabric_worker - worker @i of a fabric with config.start_stopped. */
struct emu_worker *fabric_worker(struct fabric *fabric, uint32_t i);

uint32_t fabric_threads(const struct fabric *fabric);  /* workers running */
uint32_t fabric_attached(const struct fabric *fabric); /* nodes attached now */

/** fabric_worker_count - workers of such a fabric. Pure, except that it counts cores. */
uint32_t fabric_worker_count(const struct fabric_config *config);

/** fabric_bytes - memory of an idle fabric of this configuration. Pure. */
struct fabric_bytes {
    uint64_t per_switch;
    uint64_t per_idle_node;     /* total / nodes */
    uint64_t per_attached_node; /* a host interface */
    uint64_t total;
};
void fabric_bytes(const struct fabric_config *config, struct fabric_bytes *ret);

/**
 * fabric_multicasts_bytes - upper bound on the memory of @groups multicast groups with one source
 * each, which have @members members together. Pure.
 */
uint64_t fabric_multicasts_bytes(const struct fabric_config *config, uint64_t groups,
                                 uint64_t members);

#endif
