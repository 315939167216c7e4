/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what the files of the governor's side share. All of it is the daemon's thread's,
 * which is the fabric's manager. Not for others.
 */
#ifndef APPS_CLUSTER_COORDINATOR_INTERNAL_H
#define APPS_CLUSTER_COORDINATOR_INTERNAL_H

#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/coordinator/coordinator.h"
#include "emu/util/list.h"

/* What a host said last of all of its processes. views.c's. */
struct coordinator_pending {
    struct json_object *blocks; /* by node: queries.c; NULL: nothing */
    int64_t next;               /* there is more, from that node on; 0: that was all */
    uint64_t there_ns, here_ns; /* when, by its clock and by ours */
};

/* What a host has told of faults: faults.c's. */
struct coordinator_hits {
    struct json_object *counts; /* [FAULT,HITS,…], as it said last; NULL: nothing */
    /* by fault: packets that were on cables when they went down, and hits of former lives */
    uint64_t *link_down;
    uint32_t link_down_slots;
    uint64_t missed, past_missed;
};
#define COORDINATOR_FAULTS_MOST 131072 /* numbers of faults that a host is believed */

struct coordinator_process {
    struct emu_list link; /* in host->processes; alone once the connection has ended */
    struct coordinator_agent *host;
    int64_t client; /* its number there */
    struct conn conn;
    uint32_t events; /* epoll events asked for */
    pid_t pid;
    size_t unacked; /* bytes of text that its host has not told as taken */
    bool mid;       /* of a line that passes in pieces some have passed */
    bool at_end;    /* the daemon has closed its end; what it said is still passed on */
    bool ended;     /* its connection there */
    bool lost;      /* its host was */
    bool forgotten; /* nobody here wants to know how it ended */
    bool stopped;   /* for too long, as its host says */
    char command[16];
    char how[96];
};

struct coordinator_agent {
    struct coordinator *coord;
    uint32_t number;
    struct conn conn;
    uint32_t events;
    bool blocked;          /* some of what its processes are told waits for room in conn.out */
    bool lost;             /* and if its connection is there, another life of it is waited for, */
    bool back;             /* or has come */
    uint32_t incarnations; /* times that it came back */
    char why[HOSTS_WHY_BYTES]; /* somebody was refused in its place for that; "": nobody was */
    struct emu_list processes;
    struct json_object *kept;  /* array of messages that came while a call was waited for */
    struct json_object *links; /* its report; NULL: none */
    struct coordinator_pending pending;
    struct coordinator_hits hits;
    struct coordinator_sample {
        bool begun;        /* since somebody wants to know it was asked */
        bool complete;     /* all of an answer was there once */
        uint32_t asked;    /* questions that have no answer yet, */
        uint64_t asked_ns; /* and when the first of them was asked */
        uint64_t pieces;   /* of this answer */
    } sample[HOSTS_SAMPLE_KINDS];
};

/* A question that nobody waits for. queries.c's. */
struct coordinator_query {
    int64_t number;   /* of the call; 0: nothing was asked yet */
    uint64_t waits;   /* by host, bits: it has not answered, and is not lost; */
    int64_t until_ms; /* by emu_now_ms(): it has as long */
    int err;          /* the first that one answered */
};

struct coordinator_audits {
    struct coordinator *coord;
    struct fabric_audit *sum;
    uint32_t lines; /* of sum->line */
};

struct coordinator {
    struct coordinator_config config;
    struct fabric_mirror mirror;
    int epoll;
    int kept_fd; /* eventfd: something is kept */
    int64_t calls;
    bool may_end;              /* who waits for a reply looks whether the end is wanted */
    bool ends;                 /* it was, while what takes long was waited for */
    struct fabric_totals *sum; /* of all hosts, while they are asked */
    struct fabric_totals totals[HOSTS_MAX];
    uint64_t lost_links[HOSTS_MAX]; /* by host: bits of those that a link to has been lost */
    int timer;                      /* for the next look at these */
    uint64_t check_ms;              /* after so long, */
    int64_t check_at_ms;            /* by emu_now_ms(); 0: none is due */
    uint64_t sample_number[HOSTS_SAMPLE_KINDS]; /* of the beginning that answers belong to */
    uint64_t from_bytes;                        /* of messages that are told of as finished */
    uint8_t sample[HOSTS_SAMPLE_BYTES + HOSTS_SAMPLE_SLACK];
    uint64_t asked_ns; /* when all were asked last what their processes have pending */
    struct coordinator_query query[COORDINATOR_QUERIES];
    struct coordinator_audits audits; /* of COORDINATOR_AUDIT */
    struct coordinator_agent agent[HOSTS_MAX];
};

/* --- coordinator.c --- */

/* Its control channel is closed and its processes' connections end; the daemon is told, once. */
void coordinator_lose(struct coordinator_agent *agent, const char *why);

/* @message is put. A host that does not read what it is told is lost. */
void coordinator_send(struct coordinator_agent *agent, struct json_object *message);

/**
 * coordinator_call - have all other hosts, or @only one, do @what with @with, which is put; returns
 * when they have. @each is called with each reply. Returns 0, or the first error.
 */
int coordinator_call(struct coordinator *coord, uint32_t only, const char *what,
                     struct json_object *with,
                     void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/**
 * coordinator_do - the same of what cannot fail, or with error @may_fail alone, where nothing is
 * left to
 * do: a host that fails otherwise is lost, with that reason. coordinator_query_all() - all are
 * asked what no host fails to say: so is who does.
 */
void coordinator_do(struct coordinator *coord, uint32_t only, const char *what,
                    struct json_object *with, int may_fail);
void coordinator_query_all(struct coordinator *coord, const char *what, struct json_object *with,
                           void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                           void *ctx);

/**
 * coordinator_notify - have all other hosts do what cannot fail: they do it in the order in which
 * they are told and called, and nobody waits. Who fails says so, and is lost. @with is put.
 */
void coordinator_notify(struct coordinator *coord, const char *what, struct json_object *with);

/**
 * coordinator_call_long - the same of all, for what may take long, as the start of a fabric may:
 * for as long as that (--bound start). Errors: -ECANCELED, the end is wanted meanwhile; nobody is
 * lost.
 */
int coordinator_call_long(struct coordinator *coord, const char *what, struct json_object *with,
                          void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                          void *ctx);

/* Have one of them do what coordinator_notify() has all do. */
void coordinator_notify_one(struct coordinator_agent *agent, const char *what,
                            struct json_object *with);

/* Have all others, or @only one, do what is not waited for here; @with is put. Its number. */
int64_t coordinator_call_begin(struct coordinator *coord, uint32_t only, const char *what,
                               struct json_object *with);

/* What a host says has failed: a negative errno, whatever it says; @unsaid, 0: nothing has. */
int coordinator_error_of(struct json_object *message, int64_t unsaid);

/* In so many ms, by emu_now_ms(). */
int64_t coordinator_deadline_ms(uint64_t ms);

/*
 * A message is for the next coordinator_serve(). False: so many are kept that it is no honest host.
 */
bool coordinator_defer(struct coordinator_agent *agent, struct json_object *message);

/* Is @what one of those whom @events tell of? */
bool coordinator_is_among(const void *what, const struct epoll_event *events, int count);

/* --- rejoin.c --- */

static_assert(HOSTS_MAX == 64, "a bit a host");

/* Errors: -errno. */
int coordinator_rejoin_open(struct coordinator *coord);

/* A link between them has been lost; @b TOPO_NONE: all that @a has. */
void coordinator_link_lost(struct coordinator *coord, uint32_t a, uint32_t b);

/* The control channel to a host that is lost is for its next life from now on, if that can be. */
void coordinator_await(struct coordinator_agent *agent);

/* A host that is lost, and what comes on that. */
void coordinator_await_serve(struct coordinator_agent *agent);

/* A host is there again: what is missing of its links is looked at soon. */
void coordinator_rejoin_soon(struct coordinator *coord);

/* The timer says that a look is due. */
void coordinator_rejoin_check(struct coordinator *coord);

/* --- clients.c --- */

void coordinator_process_free(struct coordinator_process *process);

/* The daemon sees the end of its connection. */
void coordinator_process_end(struct coordinator_process *process);

/* What @client there, known or new, says or has come to. */
void coordinator_message_of_client(struct coordinator_agent *agent, int64_t client,
                                   struct json_object *message);

/* Those of its processes that @events name, and those that were held and need not be any more. */
void coordinator_processes_serve(struct coordinator_agent *agent, const struct epoll_event *events,
                                 int count);

/* --- queries.c --- */

/* It may be an answer to one. */
void coordinator_message_of_query(struct coordinator_agent *agent, struct json_object *message);

/* It answers none any more. */
void coordinator_query_lost(struct coordinator_agent *agent);

/* Until when it may take to answer a call, which has until @until_ms of its own. */
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

/* The process at @node has gone, or has just come. */
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

/* @count more of those of @fault. */
void coordinator_hits_down(struct coordinator_hits *hits, int64_t fault, int64_t count);

/* What its former life has told stays counted. */
void coordinator_hits_keep(struct coordinator_hits *hits);

/* --- samples.c --- */

/* What it tells of its part. */
void coordinator_message_of_sample(struct coordinator_agent *agent, struct json_object *message);

/* --- mirror.c --- */

void coordinator_mirror_open(struct coordinator *coord);

#endif
