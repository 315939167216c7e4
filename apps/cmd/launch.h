/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - a fabric's process on several hosts, by --cluster: which host this is, and how the
 * others are started.
 */
#ifndef APPS_CMD_LAUNCH_H
#define APPS_CMD_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/cluster/cluster.h"
#include "apps/cmd/options.h"

struct hosts_plan {
    struct cluster cluster;
    uint32_t self;
    uint32_t *host_of;    /* by switch */
    const char *launcher; /* what starts the others (launch.c); NULL: nothing does */
    const char *name[CLUSTER_HOSTS_MAX];
    const struct options *options; /* that the others get, too */
};

/* Which host of the file this one must be. */
enum hosts_role {
    HOSTS_COORDINATOR, /* the first */
    HOSTS_AGENT,       /* another one */
    HOSTS_ANY          /* any: all do the same */
};

/**
 * hosts_plan_make - read options->cluster, find this host in it, and place the network.
 * Errors are said. Returns 0 or an exit status.
 */
int hosts_plan_make(struct hosts_plan *ret, const struct options *options,
                    const struct fabric_config *config, enum hosts_role role);
void hosts_plan_release(struct hosts_plan *plan);

/**
 * hosts_launch - have the agent start the other hosts: `fabemu join` with this fabric's options.
 * They end by themselves. Thread: the fabric's process, before it has others. Errors: -errno.
 */
int hosts_launch(const struct hosts_plan *plan, const char *fabric);

/**
 * hosts_launch_same - the same with this very command: @argv, from the subcommand on, ends with
 * NULL; each other host gets it with its name and with `--launch none`.
 */
int hosts_launch_same(const struct hosts_plan *plan, char *const *argv);

/**
 * hosts_launch_failed - has the agent that this process has started for @host ended with an error?
 * Then @text says which, and how. One that ends with 0 may have left it to others.
 */
bool hosts_launch_failed(uint32_t host, char *text, size_t bytes);

/**
 * hosts_launched_end - wait, two seconds at most, until the agents that this process has started
 * have ended: they do when it does, and those on the other hosts are to have said why they end.
 */
void hosts_launched_end(void);

#endif
