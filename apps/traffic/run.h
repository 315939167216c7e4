/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.h - one run of synthetic traffic, from the configuration to the figures.
 */
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
struct traffic_hosts;

struct telemetry;

/* Who looks at runs as they go, in the driver's thread between two windows; NULL: nobody. */
struct traffic_viewer {
    /* a run of @fabric begins, and snapshots are taken each @every_ns; both NULL: it is over */
    void (*run)(void *ctx, const struct fabric *fabric, struct telemetry *telemetry,
                uint64_t every_ns);
    /*
     * A snapshot was @taken, or time has passed. True: it is to stand still, and this is called
     * again, with false; so it waits a moment itself.
     */
    bool (*look)(void *ctx, bool taken);
    bool (*ends)(const void *ctx); /* is the run to end now? */
    void *ctx;
};

struct traffic_config {
    struct fabric_config fabric; /* the clock is set here */
    struct traffic_pattern pattern;
    uint64_t bytes; /* payload of a message, or of an operation's vector */

    /* Open loop. */
    uint64_t load;   /* of each source, in TRAFFIC_LOAD_UNITths */
    bool fixed_gaps; /* else Poisson */
    struct traffic_sources sources;
    uint64_t warmup_ps;  /* 0: traffic_phases_choose() */
    uint64_t measure_ps; /* both 0: and as long as it takes until the traffic is steady */
    uint64_t window_ps;  /* of a series of what is delivered; 0: none is kept; needs measure_ps */
    double fanout;       /* multicast: 0: 4, or what the network allows */
    enum traffic_law law;
    uint32_t sets;    /* of each source; 0: 1024, or as many as there can be */
    bool by_messages; /* multicast: a message a destination, */
    uint32_t arity;   /* in a tree of this: traffic/workload/relay.h */

    /* Collectives. */
    uint32_t groups;
    uint32_t members; /* of a group; 0: nodes / groups */
    uint64_t operations;
    uint64_t interval_ps;
    uint64_t skew_ps;
    bool at_random;
    enum traffic_by by;
    struct traffic_noise noise;

    const struct fault_schedule *faults; /* NULL: none; on several hosts there are none */
    struct traffic_hosts *hosts;         /* apps/traffic/hosts.h; NULL: it is on one */
    const struct capture_plan *capture;  /* NULL: none */

    struct {
        FILE *out; /* the caller's; NULL: none are written */
        uint64_t every_ps;
        struct traffic_viewer viewer;
    } snapshots;

    /* Called now and then with the part that is done, 0 to 1; false: end the run. May be NULL. */
    bool (*progress)(void *context, double done);
    void *context;
};

/* Messages a second. */
struct traffic_rates {
    double mean;
    double least;
    double most;
};

#define TRAFFIC_WINDOWS_MOST 100000u

/* What was delivered, by windows of equal length from the start of the run to the measurement's
 * end. */
struct traffic_series {
    uint64_t window_ps;
    uint32_t windows;
    uint64_t *bytes; /* of payload that came to lie in memory, at all nodes; NULL: there is none */
};

#define TRAFFIC_CHANGES_MOST 256u

/* A change to the network: how many links are out of use from then on, or that tables follow. */
struct traffic_change {
    uint64_t at_ps;
    uint32_t links_out;
    bool tables; /* new ones are in force */
};

/* What there was of faults. */
struct traffic_faults_seen {
    bool any;             /* there was a schedule */
    uint64_t hit;         /* entries, and packets under way, that were hit */
    uint64_t lost, up;    /* links that lost their signal, and came back */
    uint64_t out;         /* links that were taken out for their errors */
    uint64_t tables;      /* times that new tables were published */
    uint64_t recovery_ps; /* from a change to these, at most */
    uint32_t links;       /* between switches, of the network when it is whole */
    struct traffic_change change[TRAFFIC_CHANGES_MOST]; /* the first of them, in order of time */
    uint32_t changes;
};

struct traffic_result {
    /* Open loop: fractions of the rate of the sources' links. */
    double offered;
    struct traffic_mean accepted;
    double delivered; /* of all nodes' links: each copy of a multicast counts whole */
    /* by source: delivered in the measurement; copies count a part each */
    struct traffic_rates from;
    bool saturated;
    bool steady;          /* latencies and backlog did not drift */
    uint64_t undelivered; /* measured messages that had not arrived when the run ended */
    int64_t backlog;      /* messages that waited in sources when the measurement ended */
    uint32_t senders;
    double fanout; /* multicast: mean of the sets drawn */
    uint32_t sets; /* multicast: sets of each source */
    uint64_t warmup_ps;
    uint64_t measure_ps;
    bool multicast;
    struct traffic_latency completion; /* multicast: until the last copy */
    struct traffic_series series;

    /* Collectives. */
    bool collective;
    uint32_t groups;
    uint32_t members;

    /* Both. */
    uint64_t bytes; /* as it was used */
    struct traffic_latency latency;
    uint64_t virtual_ps;
    uint64_t segments; /* sent by nodes */
    uint64_t hops;
    uint64_t digest;
    uint32_t threads; /* of all hosts together */
    uint32_t hosts;
    uint64_t
        windows;   /* of simulated time: hosts meet after each, and for each sum of the driver's */
    double wall_s; /* of the run, without building the fabric */
    double build_s;
    uint64_t bytes_per_node; /* memory, reserved */
    struct traffic_faults_seen faults;
};

/**
 * traffic_run - build the fabric, run, measure, check conservation, free it. When it returns 0,
 * traffic_result_release() @ret.
 * On several hosts each calls it, with the same traffic, and each has the whole result. An error of
 * one is everybody's; -EHOSTDOWN, a host is lost; -ECONNABORTED, another one had an error.
 * Errors: -EINVAL, the configuration cannot be; -ENOMEM, it does not fit; -EPROTO, a check of the
 *         fabric or of a result failed; -EINTR, progress() said so; -ENOTSUP, -ENOSPC, the profile
 *         has no such groups; others of fabric_start(); with one line in @error.
 */
int traffic_run(struct traffic_result *ret, const struct traffic_config *config, char *error,
                size_t error_bytes);

/** traffic_result_release - free what a result owns, its series. */
void traffic_result_release(struct traffic_result *result);

#endif
