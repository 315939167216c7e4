/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - state and functions shared by the manager's files. Thread: manager. */
#ifndef APPS_MANAGER_INTERNAL_H
#define APPS_MANAGER_INTERNAL_H

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/manager/manager.h"

#define MANAGER_ERRORS_OF 1000000u   /* errors_inside and errors_node are per so many packets */
#define MANAGER_UNCOUNTED UINT64_MAX /* link.seen: the other host's count is unknown yet */

/* State of a cable. */
struct link {
    enum manager_link state;
    uint64_t outs;       /* times that it went out of use */
    uint8_t failed;      /* tests in a row */
    bool isolated;       /* taken out with its switch (trap=isolate), until it is in use again */
    bool severed;        /* manager_sever() */
    bool link_down;      /* if severed: its signal is lost for another reason, too */
    uint64_t due_ps;     /* its next step; EMU_NEVER */
    uint64_t signal_ps;  /* since when it has a signal */
    struct topo_at peer; /* where its second end is plugged in */
    uint64_t seen[2];    /* packets, each direction, at the last scan */
    uint64_t errors[2];  /* errors, likewise */
    struct {
        uint64_t sent;     /* at the last scan */
        uint64_t since_ps; /* since when it could send but did not; EMU_NEVER */
    } port[2];             /* that send to its first end, and from it */
    bool stuck;            /* one of them does not send although it could */
    bool barred;           /* it passed its test, but old packets keep it from coming up */
};

struct manager {
    struct fabric *fabric;
    struct manager_config config;
    struct link *link;                /* by cable */
    bool *routed;                     /* by cable: tables may use it */
    uint64_t *trapped;                /* by switch: packets without a route, at the last scan */
    struct fabric_scan_result remote; /* at the last scan, on other hosts; all NULL on one host */
    struct fabric_test *test; /* of links tested by this step, on other hosts; NULL on one host */
    uint32_t tests;           /* elements of `test` */
    uint64_t *no_link;     /* by node without a link: next fabric_node_no_link(); else EMU_NEVER */
    uint64_t no_link_ps;   /* the first of these */
    uint64_t pieces_ps;    /* next fabric_cut_off(); EMU_NEVER */
    uint32_t out;          /* links not in use */
    uint64_t links_ps;     /* the first link.due_ps; EMU_NEVER */
    uint64_t tables_ps;    /* when new tables are due; EMU_NEVER */
    uint64_t since_ps;     /* time of the first change that causes these tables */
    uint64_t scan_ps;      /* next scan (scan.c), if there can be errors */
    uint64_t in_flight_ps; /* next rerouting in flight; EMU_NEVER */
    uint64_t gap_ps;       /* time between the last one and in_flight_ps */
    uint64_t rerouted;     /* segments rerouted in flight since the start */
    uint64_t partitioned_ps; /* next report of partitioned pairs; EMU_NEVER: none is due */
    uint64_t partitioned;    /* partitioned pairs, with the last tables */
    bool drop_unreachable;   /* they have been reported */
    uint32_t nodes;
    uint64_t now_ps; /* of this step */
};

/* --- manager.c --- */

/* Report @event; fills in its time and number of links out. */
void manager_notify(struct manager *m, struct manager_event event);

/* The time for calls about devices: on clock raw 0; on clock real later than this step's. */
uint64_t manager_device_ps(const struct manager *m);

/* Plan new tables, a reaction time after the first change that causes them. */
void manager_tables_plan(struct manager *m);

/* Plan to reroute in flight in @gap_ps if any link is out. */
void manager_in_flight_plan(struct manager *m, uint64_t gap_ps);

/* --- links.c --- */

/* Set the link's state, and its next step in @in_ps. */
void manager_link_plan(struct manager *m, struct link *link, enum manager_link state,
                       uint64_t in_ps);

/* Take a link out of use at its ends, and plan tables without it. @hit: packets on it. */
int manager_link_out(struct manager *m, uint32_t i, uint32_t fault, uint32_t *hit);

/* Number of links of the switch that are isolated, and of @others that are out. */
uint32_t manager_count_out(const struct manager *m, uint32_t sw, uint32_t *others);

/* Packets received in a direction of a link, and their errors; on another host at the last scan. */
void manager_link_counts(const struct manager *m, uint32_t i, uint32_t out, uint64_t *packets,
                         uint64_t *errors);

/* Begin to count packets and errors of a link that is in use from now on. */
void manager_link_begin(struct manager *m, uint32_t i);

/* The link's limit of errors in MANAGER_ERRORS_OF packets. */
uint32_t manager_link_most(const struct manager *m, uint32_t i);

/* Step the links that are due. */
void manager_links_step(struct manager *m);

/* Is the link in its bring-up, for less than the bound, and without a failed test? */
bool manager_link_comes(const struct manager *m, uint32_t i);

/* Handle nodes that have had no link for too long, repeatedly. */
void manager_nodes_step(struct manager *m);

/* --- scan.c --- */

/* Scan for links with too many errors, stuck ports, and packets without a route. */
void manager_scan(struct manager *m);

#endif
