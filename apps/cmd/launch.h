/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.h - a fabric on several hosts (--cluster): find out which host of the cluster file this
 * is, and start the fabric's processes on the other hosts.
 *
 * The first host of the file is the *coordinator*, where the user starts the fabric. It starts the
 * fabric's processes on the other hosts through a *launcher*, a program such as ssh.
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
    uint32_t self;        /* index of this host in the cluster file */
    uint32_t *host_of;    /* for each switch, the index of its host */
    const char *launcher; /* value of --launch; NULL: the user starts `fabemu join` */
    const char *name[CLUSTER_HOSTS_MAX];
    const struct options *options; /* hosts_launch() passes the `shared` ones to other hosts */
};

/* The host of the cluster file on which a command must run. */
enum hosts_role {
    HOSTS_COORDINATOR, /* the first host */
    HOSTS_AGENT,       /* any other host */
    HOSTS_ANY
};

/**
 * hosts_plan_make - read the cluster file (options->cluster), find this host in it, check that the
 * host has the @role, and assign the network's switches to hosts. Prints errors. Returns 0 or an
 * exit status.
 */
int hosts_plan_make(struct hosts_plan *ret, const struct options *options,
                    const struct fabric_config *config, enum hosts_role role);
void hosts_plan_release(struct hosts_plan *plan);

/**
 * hosts_launch - start `fabemu join` on every other host through the launcher, with the options
 * that all hosts must have. These processes end by themselves when the fabric ends. Does nothing
 * without a launcher. Errors: -errno. Thread: the first thread of the fabric's process, before it
 * starts others.
 */
int hosts_launch(const struct hosts_plan *plan, const char *fabric);

/**
 * hosts_launch_same - start the same command as this one on every other host through the launcher,
 * with the additional options --host NAME and --launch none. @argv: the words of this command after
 * "fabemu"; the last one is NULL. Errors: -errno.
 */
int hosts_launch_same(const struct hosts_plan *plan, char *const *argv);

/**
 * hosts_launch_failed - return whether the launcher that this process started for @host has ended
 * with an error. If so, write the error to @text. Status 0 is no error, because a launcher may end
 * while the processes that it started go on.
 */
bool hosts_launch_failed(uint32_t host, char *text, size_t bytes);

/**
 * hosts_launched_end - wait, for up to 2 s, until all launchers that this process started have
 * ended. The messages of other hosts pass through the launchers, so until then a host can still
 * print why it has ended.
 */
void hosts_launched_end(void);

#endif
