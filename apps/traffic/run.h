/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - one run of synthetic traffic, from the configuration to the results. */
#ifndef APPS_TRAFFIC_RUN_H
#define APPS_TRAFFIC_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/capture/capture.h"
#include "apps/fabric/fabric.h"
#include "apps/traffic/workload/coll.h"
#include "apps/traffic/workload/pattern.h"
#include "apps/traffic/workload/phases.h"
#include "apps/traffic/workload/sets.h"
#include "apps/traffic/workload/stats.h"

struct fault_schedule;
struct goal;
struct telemetry;
struct traffic_hosts;

/*
 * Callbacks to watch runs; each may be NULL. The driver's thread calls them between two windows of
 * simulated time.
 */
struct traffic_viewer {
    /*
     * a run begins, with a snapshot every @every_ns (simulated time); @fabric is NULL: the run has
     * ended
     */
    void (*run)(void *ctx, const struct fabric *fabric, struct telemetry *telemetry,
                uint64_t every_ns);
    /*
     * Called after each advance of simulated time. @taken: a snapshot was taken. If this function
     * returns true, simulated time pauses, and the driver calls it again at once with @taken false.
     * So it must sleep a moment before it returns true.
     */
    bool (*view)(void *ctx, bool taken);
    bool (*ends)(const void *ctx); /* returns whether the run must end now */
    void *ctx;
};

struct traffic_config {
    struct fabric_config fabric; /* traffic_run() sets the clock */
    struct traffic_pattern pattern;
    uint64_t bytes; /* payload of a message, or of an operation's vector */

    /* Open loop. */
    /* load of each source: fraction of the rate of its links, times TRAFFIC_LOAD_UNIT */
    uint64_t load;
    bool fixed_gaps; /* messages at constant intervals; otherwise Poisson */
    struct traffic_sources sources;
    uint64_t warmup_ps; /* 0: chosen by traffic_phases_choose() */
    /* the same; if both are 0, measurements are repeated until the traffic is steady */
    uint64_t measure_ps;
    /* length of a window in the series of delivered bytes; 0: no series. Needs measure_ps */
    uint64_t window_ps;
    double fanout; /* multicast: mean number of destinations; 0: open_build.c chooses */
    enum traffic_distribution law;
    uint32_t sets; /* multicast: sets of each source; 0: 1024, or as many as possible */
    /* multicast: nodes forward unicast messages in a tree; otherwise switches copy segments */
    bool by_messages;
    uint32_t arity; /* arity of that tree, see traffic/workload/relay.h */

    const struct goal *goal; /* GOAL file to play, instead of a pattern; NULL: none */

    /* Collectives. */
    uint32_t groups;
    uint32_t members; /* members of a group; 0: nodes / groups */
    uint64_t operations;
    uint64_t interval_ps; /* struct traffic_coll_plan explains this and the next fields */
    uint64_t skew_ps;
    bool at_random;
    enum traffic_by by;
    uint32_t radix;
    uint32_t processes;
    struct traffic_noise noise;
    uint8_t tclass;         /* enum emu_tclass: traffic class of the members */
    uint32_t servers;       /* see struct traffic_coll_plan */
    uint8_t storage_tclass; /* traffic class of the other nodes */

    const struct fault_schedule *faults; /* NULL: no faults; must be NULL on several hosts */
    struct traffic_hosts *hosts;         /* apps/traffic/hosts.h; NULL: one host */
    const struct capture_plan *capture;  /* NULL: no capture */

    struct {
        FILE *out; /* borrowed; NULL: do not write snapshots */
        uint64_t every_ps;
        struct traffic_viewer viewer;
    } snapshots;

    /* Called repeatedly with the progress, 0 to 1; returns false to end the run. May be NULL. */
    bool (*progress)(void *context, double done);
    void *context;
};

/* Messages per second. */
struct traffic_rates {
    double mean;
    double least;
    double most;
};

#define TRAFFIC_WINDOWS_MOST 100000u

/* Delivered bytes, in windows of equal length from the start to the end of the measurement. */
struct traffic_series {
    uint64_t window_ps;
    uint32_t windows;
    uint64_t *bytes; /* by window: payload written to the memory of all nodes; NULL: no series */
};

#define TRAFFIC_CHANGES_MOST 256u

/* A change of the network: a link was taken out or returned to use, or the tables changed. */
struct traffic_change {
    uint64_t at_ps;
    uint32_t links_out; /* number of links out of use after the change */
    bool tables;
};

/* Counts of faults and of reactions to them. */
struct traffic_faults_seen {
    bool any;             /* the run had a schedule of faults */
    uint32_t all, begun;  /* number of faults in the schedule, and how many of them began */
    uint64_t hit;         /* number of segments and packets that faults have affected */
    uint64_t lost, up;    /* how often a link lost its signal, and how often one returned to use */
    uint64_t out;         /* how often the manager took a link out of use because of errors */
    uint64_t tables;      /* how often new routing tables were published */
    uint64_t recovery_ps; /* longest time from a change to the routing tables that reflect it */
    uint32_t links;       /* number of all links between switches, in use or not */
    struct traffic_change change[TRAFFIC_CHANGES_MOST]; /* the first changes, in order of time */
    uint32_t changes;
};

/* Least, median and greatest of the times of all ranks that have operations. */
struct traffic_range {
    uint64_t least_ps;
    uint64_t median_ps;
    uint64_t most_ps;
};

/* The run of a GOAL file: apps/traffic/goal/player.h. */
struct traffic_goal {
    uint32_t ranks; /* 0: the run has no GOAL file */
    uint64_t operations;
    uint64_t messages;
    uint64_t bytes;       /* payload of all messages */
    uint64_t collectives; /* calls of collectives in the network, counted at each rank */
    struct traffic_range finish_ps;
    struct traffic_range blocked_ps;
};

struct traffic_result {
    /* Open loop. Offered and accepted load are fractions of the rate of the sources' links. */
    double offered;
    struct traffic_mean accepted;
    /*
     * delivered load, a fraction of the rate of all nodes' links; each copy of a multicast counts
     * fully
     */
    double delivered;
    /* delivered messages by source; each of the n copies of a multicast counts as 1/n */
    struct traffic_rates from;
    bool saturated;
    bool steady;          /* latencies and backlog did not drift */
    uint64_t undelivered; /* number of measured messages that had not arrived when the run ended */
    int64_t backlog;      /* number of messages that waited in sources when the measurement ended */
    uint32_t senders;
    double fanout; /* multicast: mean size of the drawn sets */
    uint32_t sets; /* multicast: number of sets of each source */
    uint64_t warmup_ps;
    uint64_t measure_ps;
    bool multicast;
    struct traffic_latency completion; /* multicast: times from birth to arrival of the last copy */
    struct traffic_series series;

    /* Collectives. */
    bool collective;
    uint32_t groups;
    uint32_t members;
    uint32_t servers;       /* 0: no traffic of a file system */
    uint64_t storage_bytes; /* payload that servers have received */

    struct traffic_goal goal;

    /* All runs. */
    /* traffic_config.bytes; collectives: rounded up to a multiple of 8; GOAL file: 0 */
    uint64_t bytes;
    struct traffic_latency latency;
    uint64_t virtual_ps;
    uint64_t segments; /* number of segments that nodes have sent */
    uint64_t hops;
    uint64_t digest;
    uint32_t threads; /* number of workers on all hosts together */
    uint32_t hosts;
    uint64_t windows;        /* number of windows of simulated time */
    double wall_s;           /* real time of the run, without building the fabric */
    double build_s;          /* real time of building the fabric */
    uint64_t bytes_per_node; /* reserved memory per node */
    struct traffic_faults_seen faults;
};

/**
 * traffic_run - build the fabric, run and measure the traffic, check that nothing was lost, and
 * free the fabric. After it has returned 0, call traffic_result_release(). On several hosts, each
 * host calls it with the same traffic, and each gets the whole result. An error on one host ends
 * the run on all hosts: -EHOSTDOWN, a host is lost; -ECONNABORTED, another host had an error.
 * Errors: -EINVAL, invalid configuration; -ENOMEM; -EPROTO, a check of the fabric or of a result
 *         failed; -EINTR, progress() returned false; -ENOTSUP, -ENOSPC, the profile cannot support
 *         the groups; and those of fabric_start(). Each comes with one line in @error.
 */
int traffic_run(struct traffic_result *ret, const struct traffic_config *config, char *error,
                size_t error_bytes);

/** traffic_result_release - free the series of a result. */
void traffic_result_release(struct traffic_result *result);

#endif
