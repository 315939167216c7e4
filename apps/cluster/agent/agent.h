/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.h - one fabric on several hosts: an agent, which is a host other than the coordinator.
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
    int control;       /* non-blocking socket to the coordinator; owned from now on */
    int listen_fd;     /* processes of this host connect here; the caller's */
    int signal_fd;     /* readable when this host must end; the caller's */
    int owner_fd;      /* the supervisor, which gets "ready" and "ended"; owned from now on */
    uint64_t start_ms; /* time limit for the coordinator's first message; UINT64_MAX: none */
    /* Do all host links carry segments? NULL: always. */
    bool (*links_up)(const void *links);
    bool (*links_why)(const void *links, char *text, size_t bytes); /* as above */
    struct json_object *(*links_report)(const void *links);         /* NULL: nothing */
    int (*links_rejoin)(void *links, uint32_t host);                /* as above */
    void (*links_print_duplicates)(void *links); /* links.h; NULL: nothing is printed */
    void (*links_warn)(void *links);             /* likewise */
    void *links_ctx;
    const struct hosts_link *link; /* as in struct coordinator_config */
    uint32_t links;
    uint64_t stopped_ms; /* --bound stopped, of this host's processes */
};

enum agent_end {
    AGENT_ENDED,        /* the coordinator ended the fabric */
    AGENT_FAILED,       /* the coordinator reported that the fabric has failed */
    AGENT_SIGNALLED,    /* requested on this host */
    AGENT_LOST,         /* the coordinator is lost */
    AGENT_NO_HANDSHAKE, /* the coordinator never connected, or belongs to another fabric */
    AGENT_OWNER_GONE    /* the supervisor has died */
};

/**
 * agent_serve - execute the coordinator's calls until the end. Returns enum agent_end, or -errno.
 * */
int agent_serve(struct fabric *fabric, const struct agent_config *config);

#endif
