/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h - the cluster file: which hosts a fabric is on, by which ports they reach each other,
 * and which part of the network each has. docs/hosts.md has the format.
 *
 * Pure functions on text, but for those that read files. Every host reads the same file;
 * cluster_digest() is how they find out whether it is.
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
#define CLUSTER_JOINS_MAX    512 /* lines of a file */
#define CLUSTER_NAME_BYTES   64
#define CLUSTER_DEVICE_BYTES 256
#define CLUSTER_MAC_BYTES    6
#define CLUSTER_KEY_BYTES    32
#define CLUSTER_DIGEST_BYTES 32
#define CLUSTER_SHARE_MAX    1000
#define CLUSTER_ERROR_BYTES  640 /* room for a line about what is wrong */

/* An Ethernet port for links to other hosts. */
struct cluster_port {
    char device[CLUSTER_DEVICE_BYTES]; /* as DPDK calls it */
    bool has_mac;                      /* else it is found */
    uint8_t mac[CLUSTER_MAC_BYTES];
};

struct cluster_range {
    uint32_t first, last; /* switches */
};

struct cluster_host {
    char name[CLUSTER_NAME_BYTES];
    uint32_t share; /* of the network, beside others' */
    uint32_t ports;
    struct cluster_port port[CLUSTER_PORTS_MAX];
    uint32_t ranges;                                /* 0: what it has is found, topo_cut() */
    struct cluster_range range[CLUSTER_RANGES_MAX]; /* ascending, with gaps between them */
};

/* Two ports that reach each other: of the first host, which has the lower number, and the other. */
struct cluster_join {
    uint32_t host[2];
    uint32_t port[2];
};

struct cluster {
    char fabric[CLUSTER_NAME_BYTES];
    char key[CLUSTER_DEVICE_BYTES]; /* a file's name; "": none */
    uint64_t silent_ns;             /* a host that says nothing for so long is gone */
    uint32_t hosts;                 /* at least 1 */
    struct cluster_host *host;
    uint32_t joins;
    struct cluster_join *join; /* in the order of hosts, then ports */
};

/**
 * cluster_text - read a cluster file's text.
 * @name: for messages. @error: one line that names the text's line, says what is wrong, and what
 *        would be right.
 * Errors: -EINVAL; -E2BIG, too many hosts, ports, ranges or joins; -ENOMEM.
 */
int cluster_text(struct cluster *ret, const char *name, const char *text, size_t bytes, char *error,
                 size_t error_bytes);

/** cluster_read - the same of a file. Errors: also -EIO, it cannot be read. */
int cluster_read(struct cluster *ret, const char *name, char *error, size_t error_bytes);

void cluster_release(struct cluster *cluster);

/** cluster_print - the canonical text: cluster_text() makes the same cluster of it. */
void cluster_print(const struct cluster *cluster, FILE *to);

/** cluster_host - number of the host of that name, CLUSTER_HOSTS_MAX: there is none. Pure. */
uint32_t cluster_host(const struct cluster *cluster, const char *name);

/** cluster_fabric - the fabric's number: the one that it is called by, or one made of its name. */
uint64_t cluster_fabric(const struct cluster *cluster);

/**
 * cluster_links - pairs of ports that join two hosts: those that `join` lines name, or else the
 * i-th of one with the i-th of the other. cluster_link() - ports of @a and @b of pair @i of them.
 * Pure.
 */
uint32_t cluster_links(const struct cluster *cluster, uint32_t a, uint32_t b);
void cluster_link(const struct cluster *cluster, uint32_t a, uint32_t b, uint32_t i,
                  uint32_t *port_a, uint32_t *port_b);

/**
 * cluster_place - which host has which switch of a network.
 * @host_of: by switch, written.
 * Errors: -EINVAL, the network has not what the file names, a switch is nowhere, or hosts with
 * cables between them have no ports that are joined; -ENOMEM; with one line in @error.
 */
int cluster_place(const struct cluster *cluster, const struct topo_graph *graph, uint32_t *host_of,
                  char *error, size_t error_bytes);

/**
 * cluster_key - the key, of a file with 32 bytes, or as many in hexadecimal digits.
 * Errors: -ENOENT, the cluster has none; -EACCES, others may read it; -EIO, it cannot be read;
 * -EINVAL, it is no key; with one line in @error.
 */
int cluster_key(const struct cluster *cluster, uint8_t key[static CLUSTER_KEY_BYTES], char *error,
                size_t error_bytes);

/**
 * cluster_digest - of all that hosts must agree on: the cluster, the network, the profile, clock,
 * seed, bounds and the numbers at which a fabric begins. It tells accidents, such as an old copy
 * of a file; it is no cryptographic hash and stops nobody who forges one (the key does). Errors:
 * -ENOMEM.
 */
int cluster_digest(const struct cluster *cluster, const struct fabric_config *config,
                   uint8_t digest[static CLUSTER_DIGEST_BYTES]);

#endif
