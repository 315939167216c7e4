/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - --cluster: which host this is, and what the others are called.
 */
#include "apps/cmd/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/base/command.h"
#include "apps/base/say.h"
#include "apps/control/paths.h"

/* As the file calls it: by --host, else by its name, else by that up to its first dot. */
static uint32_t find_self(const struct cluster *cluster, const char *given)
{
    char name[256];
    uint32_t host;

    if (given)
        return cluster_host(cluster, given);
    hosts_node_name(name, sizeof name);
    host = cluster_host(cluster, name);
    if (host == CLUSTER_HOSTS_MAX) {
        name[strcspn(name, ".")] = '\0';
        host = cluster_host(cluster, name);
    }
    return host;
}

static int check_self(const struct hosts_plan *plan, const struct options *options,
                      enum hosts_role role)
{
    const char *first = plan->cluster.host[0].name;
    char name[256];

    hosts_node_name(name, sizeof name);
    if (plan->self == CLUSTER_HOSTS_MAX) {
        say("%s: there is no host '%s'; name this one as the file does: --host NAME",
            options->cluster, options->host ? options->host : name);
        return EXIT_USAGE;
    }
    if (role == HOSTS_GOVERNS && plan->self) {
        say("%s: its first host, %s, governs the fabric; start it there", options->cluster, first);
        return EXIT_USAGE;
    }
    if (role == HOSTS_OBEYS && !plan->self) {
        say("%s: %s is its first host, and governs: start the fabric there, with fabemu run or up",
            options->cluster, first);
        return EXIT_USAGE;
    }
    return 0;
}

int hosts_plan_make(struct hosts_plan *ret, const struct options *options,
                    const struct fabric_config *config, enum hosts_role role)
{
    char error[CLUSTER_ERROR_BYTES];
    int status = 0;

    *ret = (struct hosts_plan){.options = options, .agent = options->launch};
    if (cluster_read(&ret->cluster, options->cluster, error, sizeof error)) {
        say("%s", error);
        return EXIT_USAGE;
    }
    ret->self = find_self(&ret->cluster, options->host);
    ret->host_of = calloc(config->graph->switches, sizeof *ret->host_of);
    for (uint32_t h = 0; h < ret->cluster.hosts; h++)
        ret->name[h] = ret->cluster.host[h].name;
    status = ret->host_of ? check_self(ret, options, role) : EXIT_FAILURE;
    if (!status && cluster_place(&ret->cluster, config->graph, ret->host_of, error, sizeof error)) {
        say("%s: %s", options->cluster, error);
        status = EXIT_USAGE;
    }
    if (status)
        hosts_plan_release(ret);
    return status;
}

void hosts_plan_release(struct hosts_plan *plan)
{
    free(plan->host_of);
    plan->host_of = NULL;
    cluster_release(&plan->cluster);
}
