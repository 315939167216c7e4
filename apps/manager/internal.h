/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - state and functions shared by the manager's files; manager.h explains the terms. */
#ifndef APPS_MANAGER_INTERNAL_H
#define APPS_MANAGER_INTERNAL_H

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/manager/manager.h"

#define MANAGER_ERRORS_OF 1000000u   /* config.errors_* are limits per this many packets */
#define MANAGER_UNCOUNTED UINT64_MAX /* link.seen: the count of the other host is not known yet */

/*
 * State of a cable's link. In arrays of two elements, [0] is the direction to the cable's first
 * end, [1] the direction from it.
 */
struct link {
    enum manager_link state;
    uint64_t outs;       /* how often it was taken out or lost */
    uint8_t failed;      /* successive failed tests, at most AGAIN_DOUBLINGS */
    bool isolated;       /* it was taken out with its switch and has not been in use since then */
    bool severed;        /* the device or host at one end is lost: manager_sever() */
    bool link_down;      /* if severed: its signal was also lost for another reason */
    uint64_t due_ps;     /* time of its next step; EMU_NEVER: none */
    uint64_t signal_ps;  /* time when its signal returned, or when it was taken out */
    struct topo_at peer; /* the port to which its second end is connected */
    uint64_t seen[2];    /* count of received packets when counting began */
    uint64_t errors[2];  /* count of errors when counting began */
    struct {
        uint64_t sent;     /* segments sent, at the last scan */
        uint64_t since_ps; /* time since which it could send but did not; EMU_NEVER: it sends */
    } port[2];             /* the port that sends in each direction */
    bool stuck;            /* one of these ports could send for config.stuck_ps but did not */
    bool barred;           /* its test succeeded, but it waits until old packets have left */
};

struct manager {
    struct fabric *fabric;
    struct manager_config config;
    struct link *link;                /* by cable */
    bool *routed;                     /* by cable: whether its link is in use */
    uint64_t *trapped;                /* by switch: packets without a route, at the last scan */
    struct fabric_scan_result remote; /* last scan of other hosts; NULL pointers: there are none */
    struct fabric_test *test; /* other hosts' results for the links that this step tests, or NULL */
    uint32_t tests;           /* used elements of `test` */

    /* Times at which work is due; EMU_NEVER: never. */
    uint64_t *no_link;       /* by node: when its adapter gives up packets, if it has no link */
    uint64_t no_link_ps;     /* the earliest time in no_link[] */
    uint64_t cut_off_ps;     /* next fabric_cut_off() */
    uint64_t links_ps;       /* the earliest link.due_ps */
    uint64_t tables_ps;      /* publish new tables */
    uint64_t scan_ps;        /* next scan (scan.c), done only if cables can have faults */
    uint64_t in_flight_ps;   /* next rerouting in flight */
    uint64_t partitioned_ps; /* next drop and report of segments of partitioned pairs */

    uint32_t out;          /* number of links not in use */
    uint64_t since_ps;     /* time of the first change of a link after the last new tables */
    uint64_t gap_ps;       /* interval between the last rerouting in flight and the next */
    uint64_t rerouted;     /* segments moved by rerouting in flight since the start */
    uint64_t partitioned;  /* number of partitioned pairs according to the tables in force */
    bool drop_unreachable; /* segments between these pairs are being dropped */
    uint32_t nodes;
    uint64_t now_ps; /* the time that the caller passed last */
};

/* --- manager.c --- */

/* Report @event to config.event(), with the time and the number of links that are out. */
void manager_notify(struct manager *m, struct manager_event event);

/*
 * Return the time to pass to functions that change devices: the simulated time; on clock real the
 * present time, which is later than now_ps; on clock raw 0.
 */
uint64_t manager_device_ps(const struct manager *m);

/* Schedule new tables in config.reaction_ps, unless they are already scheduled. */
void manager_tables_plan(struct manager *m);

/*
 * Schedule rerouting in flight in @gap_ps if a link is out, and if fabric_needs_replans() is true.
 */
void manager_in_flight_plan(struct manager *m, uint64_t gap_ps);

/* --- links.c --- */

/* Set the link's state, and schedule its next step in @in_ps. */
void manager_link_plan(struct manager *m, struct link *link, enum manager_link state,
                       uint64_t in_ps);

/*
 * Take a link out of use at both ends, and plan tables without it. @fault, @hit and errors: as in
 * fabric_link_set(). After an error nothing has changed.
 */
int manager_link_out(struct manager *m, uint32_t i, uint32_t fault, uint32_t *hit);

/*
 * Return how many links of a switch are isolated. @others: receives how many of its other links are
 * out.
 */
uint32_t manager_count_out(const struct manager *m, uint32_t sw, uint32_t *others);

/*
 * Return how many packets the receiving end of a direction of a link has received, and how many of
 * them had errors. If this end is on another host, the counts are those of the last scan.
 */
void manager_link_counts(const struct manager *m, uint32_t i, uint32_t out, uint64_t *packets,
                         uint64_t *errors);

void manager_link_begin(struct manager *m, uint32_t i);

/* Return the link's limit of errors in MANAGER_ERRORS_OF packets. */
uint32_t manager_link_most(const struct manager *m, uint32_t i);

void manager_links_step(struct manager *m);

/* Return whether a link is in its bring-up, without a failed test and for less than no_link_ps. */
bool manager_link_comes_up(const struct manager *m, uint32_t i);

/* Let adapters give up packets of and to nodes that have had no link for too long. */
void manager_nodes_step(struct manager *m);

void manager_scan(struct manager *m); /* scan.c */

#endif
