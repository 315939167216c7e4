/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what the manager's files share. All of it is its thread's. Not for others.
 */
#ifndef APPS_MANAGER_INTERNAL_H
#define APPS_MANAGER_INTERNAL_H

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/manager/manager.h"

#define MANAGER_ERRORS_OF 1000000u /* errors_inside and errors_node are of so many packets */
#define MANAGER_UNCOUNTED \
    UINT64_MAX /* link.seen: what the other host has counted is not known yet */

/* What the manager knows of a cable. */
struct link {
    enum manager_link state;
    uint64_t outs;      /* times that it went out of use */
    uint8_t failed;     /* tests in a row */
    bool isolated;      /* it is out for no fault of its own, and until it is in use again */
    bool severed;       /* it leads nowhere: whatever its signal, it has none; */
    bool dark;          /* and so it will be once it is mended */
    uint64_t due_ps;    /* its next step; EMU_NEVER */
    uint64_t signal_ps; /* since when it has a signal */
    struct topo_at far; /* where its second end is plugged in */
    uint64_t seen[2];   /* as of the last look: packets, each way, */
    uint64_t errors[2]; /* and errors */
    struct {
        uint64_t sent;     /* as of the last look */
        uint64_t since_ps; /* when it could have sent more, and has not since; EMU_NEVER */
    } port[2];             /* that send on it: to its first end, and from it */
    bool stuck;            /* one of them does not send what it could */
    bool barred;           /* it has passed its test, and something of its past is in the way */
};

struct manager {
    struct fabric *fabric;
    struct manager_config config;
    struct link *link;        /* by cable */
    bool *routed;             /* by cable: tables may name it */
    uint64_t *trapped;        /* by switch: packets without a way, as of the last look */
    struct fabric_seen far;   /* at that look: what other hosts said; all NULL on one host */
    struct fabric_test *test; /* the same of links that this step tests; on one host NULL */
    uint32_t tests;           /* of these */
    uint64_t *alone;    /* by node: when it is next told that it has no link; EMU_NEVER: it has */
    uint64_t alone_ps;  /* the first of these */
    uint64_t pieces_ps; /* the network has been in the same pieces for too long; EMU_NEVER */
    uint32_t out;       /* links not in use */
    uint64_t links_ps;  /* the first that is due; EMU_NEVER */
    uint64_t tables_ps; /* new ones are due; EMU_NEVER */
    uint64_t since_ps;  /* the first change that they are for */
    uint64_t look_ps;   /* the next look at errors, where there can be any */
    uint64_t carry_ps;  /* what waits for links that are out is carried next; EMU_NEVER */
    uint64_t gap_ps;    /* after the last time */
    uint64_t carried;   /* segments, in all */
    uint64_t
        parted_ps;   /* who is parted is told next; EMU_NEVER: nobody is, or it does not matter */
    uint64_t parted; /* pairs, as of the last tables */
    bool parting;    /* they have been told */
    uint32_t nodes;
    uint64_t now_ps; /* of this step */
};

/* --- manager.c --- */

/* Tell who asked for it; @event's time and links out are filled in. */
void manager_say(struct manager *m, struct manager_event event);

/* The time by which devices are told: raw has none, and real goes on meanwhile. */
uint64_t manager_device_ps(const struct manager *m);

/* New tables are due, a reaction's time after the first change that they are for. */
void manager_tables_plan(struct manager *m);

/* What waits for links that are out is carried in @gap_ps, if any is out. */
void manager_carry_plan(struct manager *m, uint64_t gap_ps);

/* --- links.c --- */

/* The link's next step is due in @in_ps, and it is in @state till then. */
void manager_link_plan(struct manager *m, struct link *link, enum manager_link state,
                       uint64_t in_ps);

/* Out of use: its ends know, and soon the tables. @hit: packets on it. */
int manager_link_out(struct manager *m, uint32_t i, uint32_t fault, uint32_t *hit);

/* Links of the switch that it is isolated by, and @others that are out. */
uint32_t manager_count_out(const struct manager *m, uint32_t sw, uint32_t *others);

/* Packets that came by this way of a link, and their errors. */
void manager_link_counts(const struct manager *m, uint32_t i, uint32_t out, uint64_t *packets,
                         uint64_t *errors);

/* It is in use from now on: what is counted is counted from here. */
void manager_link_begin(struct manager *m, uint32_t i);

/* Errors that it may have, of MANAGER_ERRORS_OF packets. */
uint32_t manager_link_most(const struct manager *m, uint32_t i);

/* Links that are due; and when the next one is. */
void manager_links_step(struct manager *m);

/* Is it in its bring-up, with a signal since less than the bound, and without a failed test? */
bool manager_link_comes(const struct manager *m, uint32_t i);

/* Nodes that have had no link for too long are told, again and again. */
void manager_nodes_step(struct manager *m);

/* --- looks.c --- */

void manager_look(struct manager *m);

#endif
