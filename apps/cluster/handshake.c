/* SPDX-License-Identifier: BSD-3-Clause */
/* handshake.c - connects the hosts of a simulation on clock virtual (links.h). */
#include "apps/cluster/links.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/fabric.h"
#include "apps/base/message.h"
#include "emu/hostif/bounds.h"
#include "emu/hostlink/port/open.h"

struct handshakes {
    const struct hosts_handshake_config *with;
    struct emu_hostport *port[CLUSTER_PORTS_MAX];
    uint32_t ports;
    struct emu_barrier_peer *peer;
    uint32_t peers;
    bool has_key;
    uint8_t key[CLUSTER_KEY_BYTES];
    uint8_t digest[CLUSTER_DIGEST_BYTES];
};

/* Configure a session for each pair of ports that connects this host with another one. */
static int handshakes_peers(struct handshakes *handshakes)
{
    const struct cluster *cluster = handshakes->with->cluster;
    uint32_t self = handshakes->with->self, all = 0;

    for (uint32_t h = 0; h < cluster->hosts; h++)
        all += h == self ? 0 : cluster_links(cluster, self, h);
    handshakes->peer = calloc(all + 1u, sizeof *handshakes->peer);
    if (!handshakes->peer)
        return -ENOMEM;
    for (uint32_t h = 0; h < cluster->hosts; h++)
        for (uint32_t i = 0; h != self && i < cluster_links(cluster, self, h); i++) {
            struct emu_barrier_peer *peer = &handshakes->peer[handshakes->peers++];
            uint32_t its;

            peer->host = h;
            cluster_link(cluster, self, h, i, &peer->port, &its);
            peer->session = links_session(cluster, self, h, i, handshakes->digest,
                                          handshakes->has_key ? handshakes->key : NULL);
        }
    return 0;
}

/*
 * Check that ports connect this host with every other host. In simulated time all hosts exchange
 * frames, even if no cable of the network joins their parts.
 */
static int check_pairs(const struct cluster *cluster, uint32_t self, char *error,
                       size_t error_bytes)
{
    for (uint32_t h = 0; h < cluster->hosts; h++)
        if (h != self && !cluster_links(cluster, self, h))
            return fail(-EINVAL, error, error_bytes,
                        "in simulated time ports must connect each host with every other one; "
                        "no port connects %s with %s",
                        cluster->host[self].name, cluster->host[h].name);
    return 0;
}

static int handshakes_open(struct handshakes *handshakes, const struct fabric_config *config,
                           char *error, size_t error_bytes)
{
    const struct cluster *cluster = handshakes->with->cluster;
    const struct cluster_host *host = &cluster->host[handshakes->with->self];
    int err = check_pairs(cluster, handshakes->with->self, error, error_bytes);

    if (err)
        return err;
    err = cluster_key(cluster, handshakes->key, error, error_bytes);
    handshakes->has_key = !err;
    if (err && err != -ENOENT)
        return err;
    *error = '\0';
    err = cluster_digest(cluster, config, handshakes->digest);
    if (!err)
        err = handshakes_peers(handshakes);
    if (err)
        return fail(err, error, error_bytes, "cannot make host links: %s", strerror(-err));
    for (; !err && handshakes->ports < host->ports; handshakes->ports += !err) {
        uint32_t p = handshakes->ports;
        const struct emu_hostport_options options = links_port(cluster, handshakes->with->self, p);

        err = emu_hostport_open(&handshakes->port[p], host->port[p].device, &options, error,
                                error_bytes);
    }
    return err;
}

static int handshakes_begin(struct emu_barrier **ret, struct handshakes *handshakes,
                            const struct fabric_config *config, char *error, size_t error_bytes)
{
    const struct emu_barrier_config barrier = {
        .self = handshakes->with->self,
        .hosts = handshakes->with->cluster->hosts,
        .name = handshakes->with->name,
        .port = handshakes->port,
        .ports = handshakes->ports,
        .peer = handshakes->peer,
        .peers = handshakes->peers,
        .stops = handshakes->with->stops,
        .failed = handshakes->with->launch_failed,
    };
    uint64_t start_ms = emu_bounds_filled(config->bounds).start_ms;
    int err = emu_barrier_create(ret, &barrier);

    if (err)
        return fail(err, error, error_bytes, "cannot make host links: %s", strerror(-err));
    handshakes->ports = 0; /* the barrier owns the ports now */
    err = emu_barrier_connect(*ret,
                              start_ms > UINT64_MAX / 1000000u ? UINT64_MAX : start_ms * 1000000u);
    if (!err)
        return 0;
    snprintf(error, error_bytes, "%s", emu_barrier_why(*ret));
    emu_barrier_destroy(*ret);
    *ret = NULL;
    return err;
}

int hosts_handshake(struct emu_barrier **ret, const struct hosts_handshake_config *with,
                    const struct fabric_config *config, char *error, size_t error_bytes)
{
    struct handshakes handshakes = {.with = with};
    int err = handshakes_open(&handshakes, config, error, error_bytes);

    if (!err)
        err = handshakes_begin(ret, &handshakes, config, error, error_bytes);
    for (uint32_t p = 0; p < handshakes.ports; p++)
        handshakes.port[p]->ops->close(handshakes.port[p]);
    free(handshakes.peer);
    explicit_bzero(handshakes.key, sizeof handshakes.key);
    return err;
}
