/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - a fabric on several hosts (--cluster): which host this is, and starting the others.
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
    uint32_t self;     /* index of this host */
    uint32_t *host_of; /* by switch */
    const char
        *launcher; /* command that starts the other hosts (launch.c); NULL: do not start them */
    const char *name[CLUSTER_HOSTS_MAX];
    const struct options *options; /* the other hosts get them, too */
};

/* Which host of the file this host must be. */
enum hosts_role {
    HOSTS_COORDINATOR, /* the coordinator: the first one */
    HOSTS_AGENT,       /* an agent: any other one */
    HOSTS_ANY          /* any: all hosts do the same */
};

/**
 * hosts_plan_make - read options->cluster, find this host in it, and place the network.
 * Prints errors. Returns 0 or an exit status.
 */
int hosts_plan_make(struct hosts_plan *ret, const struct options *options,
                    const struct fabric_config *config, enum hosts_role role);
void hosts_plan_release(struct hosts_plan *plan);

/**
 * hosts_launch - start `fabemu join` with this fabric's options on the other hosts, by the agent.
 * These processes end by themselves. Errors: -errno. Thread: the fabric's process, while it has
 * one.
 */
int hosts_launch(const struct hosts_plan *plan, const char *fabric);

/**
 * hosts_launch_same - start this very command on the other hosts. @argv: from the subcommand on,
 * ends with NULL; each host gets it with `--host` and `--launch none`.
 */
int hosts_launch_same(const struct hosts_plan *plan, char *const *argv);

/**
 * hosts_launch_failed - has the agent that this process started for @host ended with an error? Then
 * write the error to @text. An agent that ends with status 0 may have left the work to others.
 */
bool hosts_launch_failed(uint32_t host, char *text, size_t bytes);

/**
 * hosts_launched_end - wait up to 2 s for the end of the agents that this process has started, so
 * that the other hosts can print why they end.
 */
void hosts_launched_end(void);

#endif
