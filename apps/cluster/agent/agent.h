/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - one fabric on several hosts: a host that does not govern.
 */
#ifndef APPS_CLUSTER_AGENT_AGENT_H
#define APPS_CLUSTER_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/cluster/hosts.h"
#include "emu/util/json.h"

struct agent_config {
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
    int (*links_rejoin)(void *links, uint32_t host);                /* as above */
    void (*links_print_duplicates)(void *links); /* links.h; NULL: nothing is said */
    void (*links_warn)(void *links);             /* likewise */
    void *links_ctx;
    const struct hosts_link *link; /* as in struct coordinator_config */
    uint32_t links;
    uint64_t stopped_ms; /* --bound stopped, of this host's processes */
};

enum agent_end {
    AGENT_ENDED,        /* the governor has said so */
    AGENT_FAILED,       /* the governor has said so, and given a reason: the fabric has failed */
    AGENT_SIGNALLED,    /* asked for here */
    AGENT_LOST,         /* the governor is gone */
    AGENT_NO_HANDSHAKE, /* it never came, or is of another fabric */
    AGENT_OWNER_GONE    /* the supervisor has died */
};

/** agent_serve - do as the governor says, until the end. Returns enum agent_end, or -errno. */
int agent_serve(struct fabric *fabric, const struct agent_config *config);

#endif
