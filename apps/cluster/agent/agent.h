/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - the agent of a fabric on several hosts. Every host but the coordinator runs one
 * (apps/cluster/hosts.h).
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
    int control;   /* non-blocking socket to the coordinator; owned from now on */
    int listen_fd; /* listening socket for processes of this host; borrowed */
    int signal_fd; /* readable when a signal has asked this host to end; borrowed */
    /* connection of the supervisor, for "ready" and "ended", or -1; owned from now on */
    int owner_fd;
    uint64_t start_ms; /* time limit for the coordinator's first message; UINT64_MAX: none */
    /*
     * Functions with the same names as in apps/cluster/links.h, called with links_ctx. Each may be
     * NULL. Without links_up, all links count as up. Without links_rejoin, lost links do not come
     * up again.
     */
    bool (*links_up)(const void *links);
    bool (*links_why)(const void *links, char *text, size_t bytes);
    struct json_object *(*links_report)(const void *links);
    int (*links_rejoin)(void *links, uint32_t host);
    void (*links_print_duplicates)(void *links);
    void (*links_warn)(void *links);
    void *links_ctx;
    /* the links of this host that have no control channel; borrowed */
    const struct hosts_link *link;
    uint32_t links;
    uint64_t stopped_ms; /* --bound stopped, for this host's processes */
};

enum agent_end {
    AGENT_ENDED,        /* the coordinator ended the fabric as planned */
    AGENT_FAILED,       /* the coordinator reported that the fabric has failed */
    AGENT_SIGNALLED,    /* a signal or the supervisor asked this host to end */
    AGENT_LOST,         /* the connection to the coordinator is lost */
    AGENT_NO_HANDSHAKE, /* the coordinator never connected, or belongs to another fabric */
    AGENT_OWNER_GONE    /* the supervisor has died */
};

/**
 * agent_serve - serve this host's processes and the coordinator's calls until the fabric or this
 * host ends. Returns enum agent_end, or -errno.
 */
int agent_serve(struct fabric *fabric, const struct agent_config *config);

#endif
