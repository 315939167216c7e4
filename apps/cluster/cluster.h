/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h - the cluster file, which describes the hosts of a fabric, the ports that connect them,
 * and the part of the network that each host has. docs/hosts.md describes the format.
 *
 * All hosts must read the same file; cluster_digest() lets them verify that. Only cluster_read()
 * and cluster_key() read files.
 */
#ifndef APPS_CLUSTER_CLUSTER_H
#define APPS_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/fabric/fabric.h"
#include "topo/topo.h"

#define CLUSTER_HOSTS_MAX    TOPO_HOSTS_MAX
#define CLUSTER_PORTS_MAX    8   /* maximum number of ports of a host */
#define CLUSTER_RANGES_MAX   64  /* maximum number of ranges of switches of a host */
#define CLUSTER_JOINS_MAX    512 /* maximum number of `join` lines in a file */
#define CLUSTER_NAME_BYTES   64
#define CLUSTER_DEVICE_BYTES 256
#define CLUSTER_MAC_BYTES    6
#define CLUSTER_KEY_BYTES    32
#define CLUSTER_DIGEST_BYTES 32
#define CLUSTER_SHARE_MAX    1000
#define CLUSTER_ERROR_BYTES  640 /* space for a line about an error */

/* An Ethernet port for links to other hosts. */
struct cluster_port {
    char device[CLUSTER_DEVICE_BYTES]; /* name of the device in DPDK's syntax */
    bool has_mac;                      /* if false, the other hosts learn the address in the
                                        * handshake */
    uint8_t mac[CLUSTER_MAC_BYTES];
};

struct cluster_range {
    uint32_t first, last; /* numbers of the first and the last switch */
};

struct cluster_host {
    char name[CLUSTER_NAME_BYTES];
    uint32_t share; /* weight in topo_cut(): with 2, a host gets twice as many nodes as with 1 */
    uint32_t ports;
    struct cluster_port port[CLUSTER_PORTS_MAX];
    uint32_t ranges;                                /* number of entries of `range`; if 0,
                                                     * topo_cut() assigns the switches */
    struct cluster_range range[CLUSTER_RANGES_MAX]; /* in ascending order, with gaps between them */
};

/* Two connected ports: host[0] is the host with the lower number. */
struct cluster_join {
    uint32_t host[2];
    uint32_t port[2];
};

struct cluster {
    char fabric[CLUSTER_NAME_BYTES];
    char key[CLUSTER_DEVICE_BYTES]; /* name of the key's file; "" if there is no key */
    uint64_t silent_ns;             /* a host that sends nothing for this long is lost */
    uint32_t hosts;                 /* at least 1 */
    struct cluster_host *host;
    uint32_t joins;
    struct cluster_join *join; /* ordered by hosts, then by ports */
};

/**
 * cluster_text - parse the text of a cluster file.
 * @name: name of the file, for messages.
 * @error: one line that has the number of the wrong line, describes the error, and shows a valid
 * form.
 * Errors: -EINVAL; -E2BIG, too many hosts, ports, ranges or joins; -ENOMEM.
 */
int cluster_text(struct cluster *ret, const char *name, const char *text, size_t bytes, char *error,
                 size_t error_bytes);

/** cluster_read - parse a cluster file. Errors: as cluster_text(); -EIO, it cannot be read. */
int cluster_read(struct cluster *ret, const char *name, char *error, size_t error_bytes);

void cluster_release(struct cluster *cluster);

/** cluster_print - print the canonical text; cluster_text() makes an equal cluster from it. */
void cluster_print(const struct cluster *cluster, FILE *to);

/** cluster_host - return the number of host @name; CLUSTER_HOSTS_MAX if there is none. Pure. */
uint32_t cluster_host(const struct cluster *cluster, const char *name);

/**
 * cluster_fabric - return the fabric's number: its name if the name is a number, or else a hash of
 * the name.
 */
uint64_t cluster_fabric(const struct cluster *cluster);

/**
 * cluster_links - return the number of pairs of ports that connect two hosts. If `join` lines
 * connect the two hosts, these lines are the pairs; otherwise the i-th port of one host is
 * connected to the i-th of the other.
 * cluster_link() - find the ports of @a and @b in pair @i. Pure.
 */
uint32_t cluster_links(const struct cluster *cluster, uint32_t a, uint32_t b);
void cluster_link(const struct cluster *cluster, uint32_t a, uint32_t b, uint32_t i,
                  uint32_t *port_a, uint32_t *port_b);

/** cluster_sessions - return the number of pairs of ports to which port @port of @host belongs. */
uint32_t cluster_sessions(const struct cluster *cluster, uint32_t host, uint32_t port);

/**
 * cluster_place - assign the switches of a network to hosts.
 * @host_of: gets, for each switch, the number of its host.
 * Errors: -EINVAL, the file lists a switch that the network does not have, a switch has no host, or
 * no ports connect two hosts between which there are cables; -ENOMEM; with one line in @error.
 */
int cluster_place(const struct cluster *cluster, const struct topo_graph *graph, uint32_t *host_of,
                  char *error, size_t error_bytes);

/**
 * cluster_key - read the key from its file, which has 32 bytes or 64 hexadecimal digits. Errors:
 * -ENOENT, the cluster has no key; -EACCES, other users may read the file; -EIO, it cannot be read;
 * -EINVAL, it does not contain a key; with one line in @error.
 */
int cluster_key(const struct cluster *cluster, uint8_t key[static CLUSTER_KEY_BYTES], char *error,
                size_t error_bytes);

/**
 * cluster_digest - digest everything that hosts must agree on: version, cluster, network, profile,
 * clock, seed, bounds, the initial values of counters and of the time, and the list of counters.
 * The digest detects accidents, such as an old copy of a file. It does not detect forgery, because
 * it is not cryptographic; the key prevents forgery. Errors: -ENOMEM.
 */
int cluster_digest(const struct cluster *cluster, const struct fabric_config *config,
                   uint8_t digest[static CLUSTER_DIGEST_BYTES]);

#endif
