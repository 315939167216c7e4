/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h - the cluster file: the hosts of a fabric, the ports that connect them, and the part of
 * the network that each host has. docs/hosts.md has the format.
 *
 * Functions on text are pure; others read files. All hosts must read the same file, which
 * cluster_digest() verifies.
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
#define CLUSTER_PORTS_MAX    8   /* of a host */
#define CLUSTER_RANGES_MAX   64  /* of switches, of a host */
#define CLUSTER_JOINS_MAX    512 /* lines in a file */
#define CLUSTER_NAME_BYTES   64
#define CLUSTER_DEVICE_BYTES 256
#define CLUSTER_MAC_BYTES    6
#define CLUSTER_KEY_BYTES    32
#define CLUSTER_DIGEST_BYTES 32
#define CLUSTER_SHARE_MAX    1000
#define CLUSTER_ERROR_BYTES  640 /* a line about an error */

/* An Ethernet port for links to other hosts. */
struct cluster_port {
    char device[CLUSTER_DEVICE_BYTES]; /* in DPDK's syntax */
    bool has_mac;                      /* else it is learned in the handshake */
    uint8_t mac[CLUSTER_MAC_BYTES];
};

struct cluster_range {
    uint32_t first, last; /* switches */
};

struct cluster_host {
    char name[CLUSTER_NAME_BYTES];
    uint32_t share; /* weight of its part of the network */
    uint32_t ports;
    struct cluster_port port[CLUSTER_PORTS_MAX];
    uint32_t ranges;                                /* 0: assigned by topo_cut() */
    struct cluster_range range[CLUSTER_RANGES_MAX]; /* ascending, with gaps between them */
};

/* Two connected ports: of the host with the lower number, and of the other. */
struct cluster_join {
    uint32_t host[2];
    uint32_t port[2];
};

struct cluster {
    char fabric[CLUSTER_NAME_BYTES];
    char key[CLUSTER_DEVICE_BYTES]; /* name of a file; "": none */
    uint64_t silent_ns;             /* a host that sends nothing for so long has failed */
    uint32_t hosts;                 /* at least 1 */
    struct cluster_host *host;
    uint32_t joins;
    struct cluster_join *join; /* in the order of hosts, then ports */
};

/**
 * cluster_text - parse a cluster file's text.
 * @name: for messages.
 * @error: one line that names the text's line and the error, and says what would be right.
 * Errors: -EINVAL; -E2BIG, too many hosts, ports, ranges or joins; -ENOMEM.
 */
int cluster_text(struct cluster *ret, const char *name, const char *text, size_t bytes, char *error,
                 size_t error_bytes);

/** cluster_read - parse a file. Errors: as cluster_text(); -EIO, it cannot be read. */
int cluster_read(struct cluster *ret, const char *name, char *error, size_t error_bytes);

void cluster_release(struct cluster *cluster);

/** cluster_print - print the canonical text: cluster_text() parses it into the same cluster. */
void cluster_print(const struct cluster *cluster, FILE *to);

/** cluster_host - number of the host with that name; CLUSTER_HOSTS_MAX: none. Pure. */
uint32_t cluster_host(const struct cluster *cluster, const char *name);

/** cluster_fabric - the fabric's number: its name if that is a number, else a hash of it. */
uint64_t cluster_fabric(const struct cluster *cluster);

/**
 * cluster_links - number of pairs of ports that connect two hosts: the pairs in `join` lines, or
 * else the i-th port of each. cluster_link() - the ports of @a and @b in pair @i. Pure.
 */
uint32_t cluster_links(const struct cluster *cluster, uint32_t a, uint32_t b);
void cluster_link(const struct cluster *cluster, uint32_t a, uint32_t b, uint32_t i,
                  uint32_t *port_a, uint32_t *port_b);

/** cluster_sessions - number of pairs of ports that include port @port of @host. Pure. */
uint32_t cluster_sessions(const struct cluster *cluster, uint32_t host, uint32_t port);

/**
 * cluster_place - assign the switches of a network to hosts.
 * @host_of: by switch, written.
 * Errors: -EINVAL, the network has no such switch, a switch is on no host, or hosts with cables
 * between them have no connected ports; -ENOMEM; with one line in @error.
 */
int cluster_place(const struct cluster *cluster, const struct topo_graph *graph, uint32_t *host_of,
                  char *error, size_t error_bytes);

/**
 * cluster_key - read the key from a file with 32 bytes, or as many in hexadecimal digits.
 * Errors: -ENOENT, the cluster has none; -EACCES, other users may read it; -EIO, it cannot be read;
 * -EINVAL, it is no key; with one line in @error.
 */
int cluster_key(const struct cluster *cluster, uint8_t key[static CLUSTER_KEY_BYTES], char *error,
                size_t error_bytes);

/**
 * cluster_digest - digest of everything that hosts must agree on: cluster, network, profile, clock,
 * seed, bounds, and the numbers at which a fabric begins. It detects accidents such as an old copy
 * of a file. It is not cryptographic and does not detect forgery, which the key prevents. Errors:
 * -ENOMEM.
 */
int cluster_digest(const struct cluster *cluster, const struct fabric_config *config,
                   uint8_t digest[static CLUSTER_DIGEST_BYTES]);

#endif
