/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inside.h - inside a run: what the drivers of open and closed loops share. For
 * run.c, open.c, open_build.c and closed.c.
 */
#ifndef APPS_TRAFFIC_INSIDE_H
#define APPS_TRAFFIC_INSIDE_H

#include "apps/traffic/hosts.h"
#include "apps/traffic/run.h"

struct traffic_run {
    const struct traffic_config *config;
    struct traffic_result *result;
    struct fabric *fabric;
    struct fabric_config built;          /* what the fabric was started with */
    uint64_t now_ps;                     /* up to where everything has happened */
    double done;                         /* of it, as it was told last */
    uint64_t began_ns;                   /* host time: of the step that it is at */
    uint64_t bytes;                      /* memory that this host's part takes */
    struct traffic_faults *faults;       /* NULL: none */
    struct capture_thread *capture;      /* NULL: none */
    struct traffic_snapshots *snapshots; /* NULL: none */
    char *error;
    size_t error_bytes;
};

/** traffic_run_open - sources that send at random times: warm-up, measurement, drain. */
int traffic_run_open(struct traffic_run *run);

/** traffic_run_closed - reductions and barriers, one after the other. */
int traffic_run_closed(struct traffic_run *run);

/**
 * traffic_run_start - check the memory and start the fabric.
 * @own_bytes: what its nodes take. @group_bytes: what destination sets take.
 */
int traffic_run_start(struct traffic_run *run, const struct fabric_node_ops *ops,
                      uint64_t own_bytes, uint64_t group_bytes);

/** traffic_run_stop - faults, the capture and the fabric end. */
void traffic_run_stop(struct traffic_run *run);

/** traffic_run_begin - everything is built: wall time counts from here. */
void traffic_run_begin(struct traffic_run *run);

/** traffic_run_tell - @done of the run is done. Errors: -EINTR, it is to end. */
int traffic_run_tell(struct traffic_run *run, double done);

/** traffic_run_check - wall time ends; read the totals, check conservation. Errors: -EPROTO. */
int traffic_run_check(struct traffic_run *run);

/** traffic_run_wrong - put a line into the run's error, and tell other hosts; returns @err. */
int traffic_run_wrong(struct traffic_run *run, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
