/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * follower.h - one fabric on several hosts: a host that does not govern.
 */
#ifndef APPS_CLUSTER_FOLLOWER_FOLLOWER_H
#define APPS_CLUSTER_FOLLOWER_FOLLOWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/cluster/hosts.h"
#include "emu/util/json.h"

struct obey_config {
    const struct topo_graph *graph; /* of the network; borrowed */
    int control;                    /* a socket to the governor, not blocking; passes on */
    int listen_fd;                  /* where processes of this host connect; the caller's */
    int signal_fd;                  /* readable when this host is to end; the caller's */
    int owner_fd;      /* connection of the supervisor: told "ready" and "ended"; passes on */
    uint64_t start_ms; /* the governor must have said something by then; UINT64_MAX: never */
    /* Do all host links carry segments? NULL: they always do. */
    bool (*links_up)(const void *links);
    bool (*links_why)(const void *links, char *text, size_t bytes); /* as above */
    struct json_object *(*links_report)(const void *links);         /* NULL: nothing */
    int (*links_mend)(void *links, uint32_t host);                  /* as above */
    void (*links_say_knocks)(void *links); /* links.h; NULL: nothing is said */
    void (*links_warn)(void *links);       /* likewise */
    void *links_ctx;
    const struct hosts_link *link; /* as in struct hosts_config */
    uint32_t links;
    uint64_t stopped_ms; /* --bound stopped, of this host's processes */
};

enum obey_end {
    OBEY_ENDED,     /* the governor has said so */
    OBEY_FAILED,    /* the governor has said so, and given a reason: the fabric has failed */
    OBEY_SIGNALLED, /* asked for here */
    OBEY_LOST,      /* the governor is gone */
    OBEY_UNMET,     /* it never came, or is of another fabric */
    OBEY_OWNER_GONE /* the supervisor has died */
};

/** obey_serve - do as the governor says, until the end. Returns enum obey_end, or -errno. */
int obey_serve(struct fabric *fabric, const struct obey_config *config);

#endif
