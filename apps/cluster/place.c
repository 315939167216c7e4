/* SPDX-License-Identifier: BSD-3-Clause */
/* place.c - assigns the switches to hosts, and finds the ports that connect two hosts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/cluster/cluster.h"
#include "apps/base/message.h"
#include "emu/util/random.h"

uint32_t cluster_host(const struct cluster *cluster, const char *name)
{
    for (uint32_t h = 0; h < cluster->hosts; h++)
        if (strcmp(cluster->host[h].name, name) == 0)
            return h;
    return CLUSTER_HOSTS_MAX;
}

uint64_t cluster_fabric(const struct cluster *cluster)
{
    uint64_t number = 0;
    char *end;

    errno = 0;
    number = strtoull(cluster->fabric, &end, 10);
    if (!*end && !errno && cluster->fabric[0] != '-')
        return number;
    number = 0;
    for (const char *c = cluster->fabric; *c; c++)
        number = emu_mix(number ^ (unsigned char)*c) + 1;
    return number;
}

/* --- ports -------------------------------------------------------------------------- */

static bool joins(const struct cluster_join *join, uint32_t a, uint32_t b)
{
    return (join->host[0] == a && join->host[1] == b) || (join->host[0] == b && join->host[1] == a);
}

static uint32_t joins_between(const struct cluster *cluster, uint32_t a, uint32_t b)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < cluster->joins; i++)
        count += joins(&cluster->join[i], a, b);
    return count;
}

uint32_t cluster_links(const struct cluster *cluster, uint32_t a, uint32_t b)
{
    uint32_t count = joins_between(cluster, a, b);
    uint32_t ports_a = cluster->host[a].ports, ports_b = cluster->host[b].ports;

    return count ? count : ports_a < ports_b ? ports_a : ports_b;
}

void cluster_link(const struct cluster *cluster, uint32_t a, uint32_t b, uint32_t i,
                  uint32_t *port_a, uint32_t *port_b)
{
    uint32_t seen = 0;

    *port_a = *port_b = i;
    for (uint32_t j = 0; j < cluster->joins; j++) {
        const struct cluster_join *join = &cluster->join[j];

        if (!joins(join, a, b) || seen++ != i)
            continue;
        *port_a = join->port[join->host[0] != a];
        *port_b = join->port[join->host[0] == a];
        return;
    }
}

uint32_t cluster_sessions(const struct cluster *cluster, uint32_t host, uint32_t port)
{
    uint32_t sessions = 0;

    for (uint32_t h = 0; h < cluster->hosts; h++)
        for (uint32_t i = 0; h != host && i < cluster_links(cluster, host, h); i++) {
            uint32_t mine, its;

            cluster_link(cluster, host, h, i, &mine, &its);
            sessions += mine == port;
        }
    return sessions;
}

/* --- switches ----------------------------------------------------------------------- */

static int place_listed(const struct cluster *cluster, const struct topo_graph *graph,
                        uint32_t *host_of, char *error, size_t error_bytes)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        host_of[s] = TOPO_NONE;
    for (uint32_t h = 0; h < cluster->hosts; h++)
        for (uint32_t i = 0; i < cluster->host[h].ranges; i++) {
            const struct cluster_range *range = &cluster->host[h].range[i];

            if (range->last >= graph->switches)
                return fail(-EINVAL, error, error_bytes,
                            "host %s has switch %u, but %s has only switches 0 to %u",
                            cluster->host[h].name, range->last, graph->spec, graph->switches - 1);
            for (uint32_t s = range->first; s <= range->last; s++)
                host_of[s] = h;
        }
    for (uint32_t s = 0; s < graph->switches; s++)
        if (host_of[s] == TOPO_NONE)
            return fail(-EINVAL, error, error_bytes, "switch %u of %s is on no host", s,
                        graph->spec);
    return 0;
}

static int place_automatically(const struct cluster *cluster, const struct topo_graph *graph,
                               uint32_t *host_of, char *error, size_t error_bytes)
{
    uint32_t share[CLUSTER_HOSTS_MAX];

    for (uint32_t h = 0; h < cluster->hosts; h++)
        share[h] = cluster->host[h].share;
    return topo_cut(graph, cluster->hosts, share, host_of, error, error_bytes);
}

/*
 * Check that ports connect any two hosts between which there are cables. @between: the number of
 * cables between hosts A and B, at index A * hosts + B.
 */
static int check_ports(const struct cluster *cluster, const uint32_t *between, char *error,
                       size_t error_bytes)
{
    for (uint32_t a = 0; a < cluster->hosts; a++)
        for (uint32_t b = a + 1; b < cluster->hosts; b++)
            if (between[a * cluster->hosts + b] && !cluster_links(cluster, a, b))
                return fail(-EINVAL, error, error_bytes,
                            "%u cables join hosts %s and %s, but no ports connect these hosts",
                            between[a * cluster->hosts + b], cluster->host[a].name,
                            cluster->host[b].name);
    return 0;
}

int cluster_place(const struct cluster *cluster, const struct topo_graph *graph, uint32_t *host_of,
                  char *error, size_t error_bytes)
{
    uint32_t between[CLUSTER_HOSTS_MAX * CLUSTER_HOSTS_MAX];
    int err = cluster->host[0].ranges
                  ? place_listed(cluster, graph, host_of, error, error_bytes)
                  : place_automatically(cluster, graph, host_of, error, error_bytes);

    if (err)
        return err;
    topo_cut_cables(graph, host_of, cluster->hosts, between);
    return check_ports(cluster, between, error, error_bytes);
}
