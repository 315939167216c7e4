/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - shared by the files of the coordinator. Everything is used only by the daemon's
 * thread, which is the fabric's manager. Internal to this folder.
 */
#ifndef APPS_CLUSTER_COORDINATOR_INTERNAL_H
#define APPS_CLUSTER_COORDINATOR_INTERNAL_H

#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/coordinator/coordinator.h"
#include "emu/util/list.h"

/* Pending operations of a host's processes, as last reported. views.c. */
struct coordinator_pending {
    struct json_object *blocks; /* by node: queries.c; NULL: none */
    int64_t next;               /* more are available from that node on; 0: no */
    uint64_t there_ns, here_ns; /* time of the report on its clock and on ours */
};

/* Hits of faults on a host. faults.c. */
struct coordinator_hits {
    struct json_object *counts; /* [FAULT,HITS,…] as last reported; NULL: none */
    /* By fault: packets on cables that went down, and hits of former incarnations. */
    uint64_t *link_down;
    uint32_t link_down_slots;
    uint64_t missed, past_missed;
};
#define COORDINATOR_FAULTS_MOST 131072 /* largest fault number accepted from a host */

struct coordinator_process {
    struct emu_list link; /* in host->processes */
    struct coordinator_agent *host;
    int64_t client; /* its client number there */
    struct conn conn;
    struct coordinator_process_info info;
    uint32_t events; /* epoll events asked for */
    size_t unacked;  /* bytes of text not yet acknowledged by its host */
    bool mid;        /* part of a line was sent in pieces */
    bool at_end;     /* the daemon has closed its socket; what it wrote is still sent */
    bool ended;      /* its connection on its host has ended */
    bool forgotten;  /* its client was freed */
};

struct coordinator_agent {
    struct coordinator *coord;
    uint32_t number;
    struct conn conn;
    uint32_t events;
    bool blocked;              /* output to its processes waits for space in conn.out */
    bool lost;                 /* if conn is open, the next incarnation is awaited */
    bool back;                 /* and has connected */
    uint32_t incarnations;     /* number of times that it rejoined */
    char why[HOSTS_WHY_BYTES]; /* why a host was rejected that claims to be this one */
    struct emu_list processes;
    struct emu_json_buf kept;  /* messages received while a call was waited for, as lines, */
    uint32_t kept_lines;       /* and their number */
    struct json_object *links; /* its report; NULL: none */
    struct coordinator_pending pending;
    struct coordinator_hits hits;
    struct coordinator_sample {
        bool begun;        /* a request was sent since sampling began */
        bool complete;     /* a complete answer has arrived */
        uint32_t asked;    /* requests without an answer, */
        uint64_t asked_ns; /* and when the first of them was sent */
        uint64_t pieces;   /* pieces of the current answer */
    } sample[HOSTS_SAMPLE_KINDS];
};

/* A query that is not waited for. queries.c. */
struct coordinator_query {
    int64_t number;   /* number of the call; 0: none yet */
    uint64_t waits;   /* hosts without an answer that are not lost, by bit */
    int64_t until_ms; /* deadline by emu_now_ms() */
    int err;          /* first error of an answer */
};

struct coordinator_audits {
    struct coordinator *coord;
    struct fabric_audit *sum;
    uint32_t lines; /* lines used in sum->line */
};

struct coordinator {
    struct coordinator_config config;
    struct fabric_mirror mirror;
    int epoll;
    int kept_fd; /* eventfd: kept messages or output can be served */
    int64_t calls;
    bool may_end;              /* a wait for a reply stops if the fabric must end */
    bool ends;                 /* such a wait was stopped */
    struct fabric_totals *sum; /* sum over all hosts, during "totals" */
    struct fabric_totals totals[HOSTS_MAX];
    uint64_t lost_links[HOSTS_MAX]; /* by host: hosts to which a link was lost, by bit */
    int timer;                      /* for the next attempt to bring these up */
    uint64_t check_ms;              /* current interval of attempts */
    int64_t check_at_ms;            /* time of the next by emu_now_ms(); 0: none */
    uint64_t
        sample_number[HOSTS_SAMPLE_KINDS]; /* number of the sampling that answers must belong to */
    uint64_t from_bytes;                   /* least bytes of reported finished messages */
    uint8_t sample[HOSTS_SAMPLE_BYTES + HOSTS_SAMPLE_SLACK];
    uint64_t asked_ns; /* when pending operations were last queried */
    struct coordinator_query query[COORDINATOR_QUERIES];
    struct coordinator_audits audits; /* for COORDINATOR_AUDIT */
    struct coordinator_agent agent[HOSTS_MAX];
};

/* --- coordinator.c --- */

/* Close its control channel and its processes' connections, and notify the daemon once. */
void coordinator_lose(struct coordinator_agent *agent, const char *why);

/* Send @message and put it. A host that does not read its channel is lost. */
void coordinator_send(struct coordinator_agent *agent, struct json_object *message);

/**
 * coordinator_call - have all other hosts, or @only one, execute @what with @with, which is put,
 * and wait for all replies. @each is called with each reply. Returns 0 or the first error.
 */
int coordinator_call(struct coordinator *coord, uint32_t only, const char *what,
                     struct json_object *with,
                     void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/**
 * coordinator_do - coordinator_call() for calls that must succeed, or fail with @may_fail, which
 * means that nothing is left to do: a host that fails otherwise is lost. coordinator_query_all() -
 * send a query to every other host and wait for all replies. A healthy host always answers, so a
 * host that reports an error is lost.
 */
void coordinator_do(struct coordinator *coord, uint32_t only, const char *what,
                    struct json_object *with, int may_fail);
void coordinator_query_all(struct coordinator *coord, const char *what, struct json_object *with,
                           void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                           void *ctx);

/**
 * coordinator_notify - have all other hosts, or @only one, execute @what, which must succeed,
 * without waiting. A host executes such messages and calls in the order in which they were sent. A
 * host that fails reports it and is lost. @with is put.
 */
void coordinator_notify(struct coordinator *coord, uint32_t only, const char *what,
                        struct json_object *with);

/**
 * coordinator_call_long - coordinator_call() to all hosts for work that may take as long as the
 * start of a fabric (--bound start). Errors: -ECANCELED, the fabric must end; no host is lost by
 * that.
 */
int coordinator_call_long(struct coordinator *coord, const char *what, struct json_object *with,
                          void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                          void *ctx);

/*
 * Send a call to all other hosts, or @only one, without waiting for replies; @with is put. Returns
 * the call's number.
 */
int64_t coordinator_call_begin(struct coordinator *coord, uint32_t only, const char *what,
                               struct json_object *with);

/*
 * The negative errno in a message of a host, whatever it contains; @unsaid if it has none, 0:
 * success.
 */
int coordinator_error_of(struct json_object *message, int64_t unsaid);

/* The time in @ms, by emu_now_ms(). */
int64_t coordinator_deadline_ms(uint64_t ms);

/*
 * Keep @message for the next coordinator_serve(), and put it. Returns false, and keeps nothing, if
 * no honest host sends so much during a call (HOSTS_KEPT_BYTES), or without memory.
 */
bool coordinator_defer(struct coordinator_agent *agent, struct json_object *message);
void hosts_forget_kept(struct coordinator_agent *agent);

/* Why a host is lost whose line conn_next() rejected with @err. */
const char *hosts_line_why(int err);

/* Is @what the data of one of @events? */
bool coordinator_is_among(const void *what, const struct epoll_event *events, int count);

/* --- rejoin.c --- */

static_assert(HOSTS_MAX == 64, "a bit a host");

/* Errors: -errno. */
int coordinator_rejoin_open(struct coordinator *coord);

/* A link between them was lost; @b TOPO_NONE: all links of @a. */
void coordinator_link_lost(struct coordinator *coord, uint32_t a, uint32_t b);

/* Open a control channel for the next incarnation of a lost host, if possible. */
void coordinator_await(struct coordinator_agent *agent);

/* Serve the channel of a lost host. */
void coordinator_await_serve(struct coordinator_agent *agent);

/* A host has rejoined: try to bring up its links soon. */
void coordinator_rejoin_soon(struct coordinator *coord);

/* The timer has expired: try to bring up lost links. */
void coordinator_rejoin_check(struct coordinator *coord);

/* --- clients.c --- */

void coordinator_process_free(struct coordinator_process *process);

/* Close its connection, which the daemon sees. */
void coordinator_process_end(struct coordinator_process *process);

/* A message about @client there, known or new. */
void coordinator_message_of_client(struct coordinator_agent *agent, int64_t client,
                                   struct json_object *message);

/* Serve its processes named in @events, and those that waited for space. */
void coordinator_processes_serve(struct coordinator_agent *agent, const struct epoll_event *events,
                                 int count);

/* --- queries.c --- */

/* Handle a reply, which may belong to a query. */
void coordinator_message_of_query(struct coordinator_agent *agent, struct json_object *message);

/* A lost host answers no query. */
void coordinator_query_lost(struct coordinator_agent *agent);

/* The deadline of a call to a host, given that of the call alone: a running audit extends it. */
int64_t coordinator_query_until_ms(const struct coordinator_agent *agent, int64_t until_ms);

/* --- views.c --- */

/* Of struct fabric_mirror. */
int coordinator_view_audit(void *ctx, bool routes, struct fabric_audit *sum);
bool coordinator_view_pending(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
uint32_t coordinator_view_arrived(void *ctx, uint32_t group, uint32_t seq,
                                  struct fabric_arrived *ret, uint32_t max);
bool coordinator_view_mismatch(void *ctx, uint32_t group, struct emu_mismatch *ret);
uint32_t coordinator_view_stalls(void *ctx, uint64_t now_ns, struct fabric_stall *ret,
                                 uint32_t max);

/* Forget its pending operations: the process at @node has detached, or has just attached. */
void coordinator_view_forget(struct coordinator *coord, uint32_t host, uint32_t node);

/* --- faults.c --- */

/* Of struct fabric_mirror. */
void coordinator_mirror_test(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                             uint32_t count, uint32_t packets);
void coordinator_mirror_reroute_in_flight(void *ctx, bool eases, bool drops,
                                          struct fabric_rerouted *sum);
void coordinator_mirror_scan(void *ctx, struct fabric_scan_result *ret);
void coordinator_mirror_drops(void *ctx, uint64_t bound_ps);
void coordinator_mirror_no_link(void *ctx, uint32_t node);
void coordinator_mirror_failed(void *ctx, uint32_t group);
void coordinator_mirror_unit_out(void *ctx, uint32_t sw);

/* Add @count hits of @fault. */
void coordinator_hits_down(struct coordinator_hits *hits, int64_t fault, int64_t count);

/* Keep the counts of its former incarnation. */
void coordinator_hits_keep(struct coordinator_hits *hits);

/* --- samples.c --- */

/* Handle a sample of a host. */
void coordinator_message_of_sample(struct coordinator_agent *agent, struct json_object *message);

/* --- mirror.c --- */

void coordinator_mirror_open(struct coordinator *coord);

#endif
