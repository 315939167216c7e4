/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - build a running fabric from a network graph, attach processes to its nodes, create its
 * collective groups, and advance its simulated time.
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
 * For benchmarks and synthetic traffic, all nodes are *inside the fabric*: create() makes a device
 * that simulates a node. The caller owns the device and its link ends. Errors: its own, negative.
 */
struct fabric_node_ops {
    int (*create)(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
                  struct emu_tx **tx, struct emu_rx **rx);
    void *ctx;
};

/* the fabric chooses a number that suits the cores of this host */
#define FABRIC_THREADS_AUTO   0u
#define FABRIC_THREADS_DEVICE UINT32_MAX /* one thread per switch */
#define FABRIC_GROUPS_MAX     65536      /* limit of groups that exist at the same time */
#define FABRIC_COMBINING_MAX  1024       /* limit of groups among them that can combine */

struct fabric_config {
    char name[64];                  /* name of the fabric; part of its control socket's path */
    const struct topo_graph *graph; /* borrowed; outlives the fabric */
    struct emu_profile profile;
    /* for reports: the source of the profile: "option", "network" or "default"; NULL: default */
    const char *profile_from;
    const char *const *sets; /* for reports: FIELD=VALUE for each profile field that options set */
    unsigned set_count;
    const char *provider; /* for reports: name of the libfabric provider; NULL: "fabemu" */
    enum emu_clock_mode clock;
    struct emu_compute compute; /* clock virtual: how much time the computing of processes takes */
    uint32_t date_s;  /* clock virtual: date at time 0, seconds since 1970; 0: the host's date */
    uint32_t threads; /* a count, or FABRIC_THREADS_* */
    uint64_t seed;
    int64_t began_s; /* for reports: when the command began, seconds since 1970; 0: unknown */
    struct emu_bounds bounds;                  /* limits on waiting; 0 stands for the default */
    const struct fabric_node_ops *local_nodes; /* NULL: processes attach to the nodes */
    const struct fabric_hosts *hosts;          /* borrowed; NULL: there are no other hosts */
    /* fault rates of both directions of every cable with virtual channels; NULL: no faults */
    const struct emu_fault_rates *faults;
    /*
     * cables have the rates that the network's file gives (topo_end.rate), not that of the profile
     */
    bool link_rates;
    uint64_t start_ps;  /* clock real: time at the start; tests start just before the time wraps */
    uint32_t first;     /* start of free-running numbers: 0, except in tests (docs/NUMBERS.md) */
    bool start_stopped; /* start no threads; the caller steps each fabric_worker() itself */
};

/**
 * fabric_check_config - check that network, clock, profile and nodes can be used together.
 * fabric_start() calls it first. Errors, with one line in @error: -EINVAL; -EFBIG, a host interface
 * exceeds the limit on file sizes.
 */
int fabric_check_config(const struct fabric_config *config, char *error, size_t error_bytes);

/**
 * fabric_start - build the devices and start the workers.
 * Errors: those of fabric_check_config(); -ENOMEM; -EAGAIN and -EMFILE, a thread cannot start;
 * -EFBIG, also for too many buffers. Writes one line to @error. Thread: any. The thread that calls
 * the functions below is the fabric's *manager*; only one thread may do so at a time.
 */
int fabric_start(struct fabric **ret, const struct fabric_config *config, char *error,
                 size_t error_bytes);

/** fabric_stop - stop the workers and free everything, even if processes are still attached. */
void fabric_stop(struct fabric *fabric);

/* The properties of an attached process. The caller passes the descriptors on and closes them. */
struct fabric_attachment {
    uint32_t node;
    uint64_t incarnation;      /* number of this process among the processes of the node, from 1 */
    struct emu_hostif_fds fds; /* descriptors of its host interface, which only this process gets */
};

/**
 * fabric_expect - clock virtual: let time begin when @processes processes are attached. The job of
 * an attached process has this many processes. No effect if time has begun, or on other clocks.
 */
void fabric_expect(struct fabric *fabric, uint32_t processes);

/**
 * fabric_set_pid - clock virtual: record that process @pid is attached to @node. While that process
 * sleeps outside the fabric, simulated time continues (emu/hostif/simtime.h). No effect on other
 * clocks.
 */
void fabric_set_pid(struct fabric *fabric, uint32_t node, pid_t pid);

/**
 * fabric_reached_ps - clock virtual with processes: return the time up to which everything is
 * simulated; otherwise 0. Thread: any.
 */
uint64_t fabric_reached_ps(const struct fabric *fabric);

/**
 * fabric_outside_ns - clock virtual: return for how long the process at @node has slept outside the
 * fabric, in ns of the host's time. Sleeps after its last operation do not count. 0: never, or the
 * node has no process. Thread: manager.
 */
uint64_t fabric_outside_ns(const struct fabric *fabric, uint32_t node);

/**
 * fabric_host_time - clock virtual: return how the process at @node measures the host's time, as
 * bits of enum emu_host_time; other bits are ignored. 0: it does not measure it, or the node has no
 * process.
 * Thread: manager.
 */
uint32_t fabric_host_time(const struct fabric *fabric, uint32_t node);

/**
 * fabric_process_ps - return the time of the clock that processes use in their reports. It is the
 * host's monotonic clock or, on clock virtual, the simulated time.
 * fabric_process_ns() - the same in ns. Thread: any.
 */
uint64_t fabric_process_ps(const struct fabric *fabric);
uint64_t fabric_process_ns(const struct fabric *fabric);

/**
 * fabric_set_alarm - clock virtual with processes: stop simulated time at @at_ps, and then write to
 * eventfd @fd, which is borrowed. Time continues when a later alarm is set. EMU_NEVER: no alarm.
 * Time does not advance to the alarm while no process is attached.
 */
void fabric_set_alarm(struct fabric *fabric, uint64_t at_ps, int fd);

/** fabric_attachment_close - close all descriptors. */
void fabric_attachment_close(const struct fabric_attachment *attachment);

/**
 * fabric_attach - give a node on this host to a process.
 * @want: the requested node. If it is taken, or if @want is negative, the process gets any free
 * node. Errors: -EXDEV, the node is on another host; -ENOSPC, all nodes here are taken; -ENOMEM;
 * -EMFILE; -EFBIG, the host interface exceeds the limit on file sizes (ignore SIGXFSZ); -EDQUOT,
 * the limit of epoll watches.
 */
int fabric_attach(struct fabric *fabric, int64_t want, struct fabric_attachment *ret);

/**
 * fabric_detach - detach a process from its node at its own request. The process no longer reads
 * shared multicast buffers (emu_hostif_nic_leave). Two kinds of segments are dropped and counted:
 * those in flight to the node, and those that the process has posted but the fabric has not taken
 * yet. When this returns, all attached processes can see that this process has detached. The node
 * also leaves all of its groups; on several hosts the coordinator does this for all hosts
 * (fabric_node_leave()).
 * fabric_detach_dead() - detach a process that has not requested it. That process may still run and
 * read shared multicast buffers.
 */
void fabric_detach(struct fabric *fabric, uint32_t node);
void fabric_detach_dead(struct fabric *fabric, uint32_t node);

/**
 * fabric_set_tclass - set the traffic class of a node inside the fabric (engine_set_tclass()). No
 * effect without link engines, or if the node is on another host. Thread: manager, while the
 * workers are paused.
 */
void fabric_set_tclass(struct fabric *fabric, uint32_t node, uint8_t tclass);

/**
 * fabric_group_create - create a group that can combine: plan its tree, and publish its tables in
 * the switches. @group: receives the group's collective address. Errors: -EINVAL, the members are
 * not 2 or more distinct nodes, or a unit engine cannot take contributions from enough ports;
 * -EHOSTUNREACH, no tree is possible with the links that are in use; -ENOSPC, no address, combine
 * state or buffer is left; -ENOTSUP, the profile has buffers=input or no pool slots; -ENOMEM.
 * Writes one line to @error.
 */
int fabric_group_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                        uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_group_create_wide - like fabric_group_create(), but with a wide window (emu/packet/seg.h),
 * for operations of many segments. Also returns -ENOSPC if groups with a narrow window would be
 * left with less than half of a switch's combine states, or of the buffers.
 */
int fabric_group_create_wide(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                             uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_multicast_create - like fabric_group_create(), but for a group that can only multicast.
 * Such a group needs no combine states.
 * @sources: maximum number of members that send to the group; packets of further members are
 * dropped.
 */
int fabric_multicast_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                            uint32_t sources, uint32_t *group, char *error, size_t error_bytes);

/**
 * fabric_groups_left - return an upper bound on the number of further groups of these nodes that
 * can combine.
 */
uint32_t fabric_groups_left(const struct fabric *fabric, const uint32_t *nodes, uint32_t count);

/**
 * fabric_group_leave - remove member @node from a group. If it was the last member, remove the
 * group. Errors: -ENOENT, no such group, or the node is not a member of it.
 */
int fabric_group_leave(struct fabric *fabric, uint32_t group, uint32_t node);

/** fabric_node_leave - remove @node from all of its groups. */
void fabric_node_leave(struct fabric *fabric, uint32_t node);

/** fabric_node_groups - write at most @max of the groups of @node, and return how many it has. */
uint32_t fabric_node_groups(const struct fabric *fabric, uint32_t node, uint32_t *groups,
                            uint32_t max);

/**
 * fabric_pause - hold all workers: return when each has stopped between two passes over its
 * devices.
 * fabric_resume() - let them continue. On clock virtual without processes these functions do
 * nothing, because no worker runs between two calls of fabric_advance(). Holding a worker costs two
 * wake-ups, so make many changes during one hold. Calls nest. Thread: manager.
 */
void fabric_pause(struct fabric *fabric);
void fabric_resume(struct fabric *fabric);

const struct topo_graph *fabric_graph(const struct fabric *fabric); /* the whole network */

/** fabric_config_of - the fabric's own copy of its configuration. */
const struct fabric_config *fabric_config_of(const struct fabric *fabric);

/** fabric_is_virtual - return whether the time is simulated (clock virtual). */
bool fabric_is_virtual(const struct fabric *fabric);

/** fabric_now_ps - return the time of clock real; 0 on other clocks. */
uint64_t fabric_now_ps(const struct fabric *fabric);

/** fabric_has_time - return whether segments take time on the wire. On clock raw they do not. */
bool fabric_has_time(const struct fabric *fabric);

/**
 * fabric_starved - add @ns of time in which processes of this host, or the fabric itself, waited
 * for a core (emu_starved_ns()). Time-outs of the manager do not count this time. Time-outs of
 * processes do not either, because processes read the sum in their host interfaces. Call about once
 * a second, even if @ns is 0. @now_ns: emu_now_ns().
 * fabric_starved_ns() - return the sum.
 * fabric_hosts_starved_ns() - on the coordinator, return the largest increase of this sum on
 * another host since the last call; otherwise 0. A host can report any value. Thread: manager.
 */
void fabric_starved(struct fabric *fabric, uint64_t ns, uint64_t now_ns);
uint64_t fabric_starved_ns(const struct fabric *fabric);
uint64_t fabric_hosts_starved_ns(const struct fabric *fabric);

/**
 * fabric_tick - do the periodic work of the manager; call it about once a second. It cuts off
 * processes that have read too few of their segments for config->bounds.cut_off_ms, reads the
 * reports of processes, and rebases clock real when necessary. It cuts off at most @max processes,
 * writes their nodes to @nodes, and returns their number.
 */
uint32_t fabric_tick(struct fabric *fabric, uint32_t *nodes, uint32_t max);

/*
 * With acknowledgments: each counter of link engines (nic/engine/counts.def), summed over all
 * engines.
 */
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
    /* its counter not_in_group is included in the total dropped_groups_over */
    struct fabric_transport transport;
    /* its counter overrun is included in the total dropped_overrun */
    struct switch_retries retries;
    /* collectives that processes ran in the network; by enum fabemu_coll */
    uint64_t in_network[EMU_HOSTIF_COLLS];
    /* collectives that ran in the processes instead; by enum fabemu_coll and enum fabemu_why */
    uint64_t elsewhere[EMU_HOSTIF_COLLS][EMU_HOSTIF_REASONS];
    /* clock real: emulated transit time divided by actual transit time; other clocks: 1 */
    double real_time_factor;
    uint64_t worst_lag_ns; /* clock real: greatest lateness of an event */
    /* clock virtual: digest of all posts of processes, and of their times, on this host */
    uint64_t digest;
};

/* Number of 64-bit counters: all fields before real_time_factor. */
#define FABRIC_COUNTERS (offsetof(struct fabric_totals, real_time_factor) / sizeof(uint64_t))
static_assert(offsetof(struct fabric_totals, real_time_factor) % sizeof(uint64_t) == 0,
              "only 64-bit counters");

/**
 * fabric_totals_read - sum the counters of all hosts without holding the workers.
 * fabric_totals_here() - sum the counters of this host only. Thread: manager.
 */
void fabric_totals_read(struct fabric *fabric, struct fabric_totals *ret);
void fabric_totals_here(const struct fabric *fabric, struct fabric_totals *ret);

/**
 * fabric_full_ns - clock real: return how long segments have waited for space in host interfaces
 * because the processes did not read their segments. This is a sum over all host interfaces since
 * the start, including those of processes that have detached. The sum may decrease between two
 * calls, by less than the duration of a worker's pass. Thread: manager.
 */
uint64_t fabric_full_ns(const struct fabric *fabric);

/** fabric_windows - clock virtual: number of windows of time so far (emu/worker/windows.h). */
uint64_t fabric_windows(const struct fabric *fabric);

/**
 * fabric_advance - clock virtual: simulate up to and including @until_ps. The calling thread steps
 * one of the workers. No worker runs between two calls, so the caller may then read the state of
 * any node inside the fabric and wake its device (emu_dev_wake()). If the network is on several
 * hosts, all of them must make the same calls of fabric_advance() and fabric_next_ps(), with the
 * same times.
 */
void fabric_advance(struct fabric *fabric, uint64_t until_ps);

/** fabric_next_ps - clock virtual: return the time of the next event; EMU_NEVER: there is none. */
uint64_t fabric_next_ps(struct fabric *fabric);

/** fabric_idle - clock virtual: return whether no event is left. */
static inline bool fabric_idle(struct fabric *fabric)
{
    return fabric_next_ps(fabric) == UINT64_MAX;
}

/** fabric_worker - return worker @i of a fabric that was started with config.start_stopped. */
struct emu_worker *fabric_worker(struct fabric *fabric, uint32_t i);

uint32_t fabric_threads(const struct fabric *fabric);  /* number of workers */
uint32_t fabric_attached(const struct fabric *fabric); /* number of nodes attached now */

/**
 * fabric_worker_count - return how many workers a fabric with this configuration has. With
 * FABRIC_THREADS_AUTO this depends on the number of cores. Otherwise the function is pure.
 */
uint32_t fabric_worker_count(const struct fabric_config *config);

/** fabric_bytes - compute the memory of a fabric with this configuration. Pure. */
struct fabric_bytes {
    uint64_t per_switch;
    uint64_t per_idle_node;     /* total / nodes */
    uint64_t per_attached_node; /* memory of one host interface */
    uint64_t total;             /* memory without host interfaces */
};
void fabric_bytes(const struct fabric_config *config, struct fabric_bytes *ret);

/**
 * fabric_multicasts_bytes - return an upper bound on the memory of @groups multicast groups. Each
 * has one source, and all together have @members members. Pure.
 */
uint64_t fabric_multicasts_bytes(const struct fabric_config *config, uint64_t groups,
                                 uint64_t members);

#endif
