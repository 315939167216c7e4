/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - shared by the files of the coordinator. An *agent* is another host of the fabric. An
 * *incarnation* of an agent is one of the processes that serve that host one after the other.
 * Everything is used only by the daemon's thread, which is the fabric's manager. Internal to this
 * folder.
 */
#ifndef APPS_CLUSTER_COORDINATOR_INTERNAL_H
#define APPS_CLUSTER_COORDINATOR_INTERNAL_H

#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/coordinator/coordinator.h"
#include "emu/util/list.h"

/* Pending operations of the processes on an agent's host, as it last reported them (views.c). */
struct coordinator_pending {
    /* by node: the bytes of struct emu_pending as hexadecimal digits (agent/queries.c); NULL if
       none */
    struct json_object *blocks;
    int64_t next;               /* first node that did not fit into the reply; 0: the reply was
                                 * complete */
    uint64_t there_ns, here_ns; /* time of the report, by the agent's clock and by this host's
                                 * clock */
};

struct coordinator_hit_count {
    uint64_t fault, hits;
};

/* Hits of faults on an agent's host (faults.c). */
struct coordinator_hits {
    /* hits of each fault as the agent last reported them, ordered by the faults' numbers */
    struct coordinator_hit_count *count;
    uint32_t counts;
    /* by fault: packets lost on cables that went down, plus all hits of former incarnations */
    uint64_t *link_down;
    uint32_t link_down_slots;
    uint64_t missed;      /* hits that the current incarnation could not log */
    uint64_t past_missed; /* hits that former incarnations could not log */
};
#define COORDINATOR_FAULTS_MOST 131072 /* largest fault number accepted from a host */

struct coordinator_process {
    struct emu_list link; /* entry in agent->processes */
    struct coordinator_agent *host;
    int64_t client; /* number by which the agent refers to this process */
    struct conn conn;
    struct coordinator_process_info info;
    uint32_t events; /* epoll events for which conn is registered */
    size_t unacked;  /* bytes of text sent to the process that its host has not acknowledged yet */
    bool in_line;    /* the text sent to the process so far ends in the middle of a line */
    bool at_end;    /* the daemon has closed its socket; output that it has written is still sent */
    bool ended;     /* its connection to its own host has ended */
    bool forgotten; /* the daemon has freed its client */
};

struct coordinator_agent {
    struct coordinator *coord;
    uint32_t number;
    struct conn conn;
    uint32_t events;
    bool blocked;          /* output to processes waits until conn.out has space */
    bool lost;             /* the host is lost; its next incarnation may connect over conn */
    bool back;             /* a new incarnation has connected, and waits to be admitted */
    uint32_t incarnations; /* number of times that the host has rejoined */
    /* how long the calls of this coordinator_operation() may still wait for this host */
    int64_t left_ms;
    uint64_t groups_refused;        /* how often the host has replied that it cannot make a group */
    char lost_why[HOSTS_WHY_BYTES]; /* why the host was lost */
    /* why the last host that claimed to be this one was rejected; "": none was */
    char why[HOSTS_WHY_BYTES];
    struct emu_list processes;
    /* other messages that arrived while a call waited for its reply, as lines */
    struct emu_json_buf kept;
    uint32_t kept_lines;       /* number of messages in `kept` */
    struct json_object *links; /* the agent's report on its links, or NULL */
    struct coordinator_pending pending;
    uint64_t starved_ns;      /* the host's fabric_starved_ns(), as it last reported */
    uint64_t more_starved_ns; /* increase since the last coordinator_view_starved() */
    struct coordinator_hits hits;
    struct coordinator_sample {
        bool begun;        /* a request was sent since sampling began */
        uint32_t asked;    /* number of requests to which no part of a sample has come back yet */
        uint64_t asked_ns; /* emu_now_ns() when the first of these requests was sent */
        uint64_t pieces;   /* parts of the current sample that have arrived */
    } sample[HOSTS_SAMPLE_KINDS];
};

/*
 * A query that does not block the coordinator: the daemon does other work until all hosts have
 * replied (queries.c).
 */
struct coordinator_query {
    int64_t number;   /* number of the call that sent it; 0 before the first */
    uint64_t waits;   /* bit per host: it has not replied yet, and is not lost */
    int64_t until_ms; /* deadline of the replies, by emu_now_ms() */
    int err;          /* first error of a reply */
};

struct coordinator_audits {
    struct coordinator *coord;
    struct fabric_audit *sum;
};

struct coordinator {
    struct coordinator_config config;
    struct fabric_mirror mirror;
    int epoll;
    int kept_fd;   /* eventfd: readable when there are kept messages to handle, or when output that
                    * waited for space can be sent */
    int64_t calls; /* number of the last call */
    /* if the fabric must end: deadline of the calls of this coordinator_operation(); else 0 */
    int64_t end_by_ms;
    bool may_end;              /* a wait for a reply ends when signal_fd or owner_fd is readable */
    bool ends;                 /* coordinator_call_last() was canceled, so it does not wait again */
    bool limits;               /* left_ms limits all calls together: coordinator_limit_calls() */
    struct fabric_totals *sum; /* sum over all hosts, while a call "totals" is in progress */
    struct fabric_totals totals[HOSTS_MAX];
    uint64_t lost_links[HOSTS_MAX]; /* by host: bit per host to which it has lost a link */
    int timer;                      /* timerfd: the next attempt to bring up lost links */
    uint64_t check_ms;              /* interval between attempts */
    int64_t check_at_ms; /* time of the next attempt by emu_now_ms(); 0 if none is planned */
    /*
     * by kind: how often sampling has ended. Requests and pieces have this number, and a piece with
     * an old number is ignored
     */
    uint64_t sample_number[HOSTS_SAMPLE_KINDS];
    uint64_t from_bytes; /* finished messages with fewer bytes are not reported */
    uint8_t sample[HOSTS_SAMPLE_BYTES + HOSTS_SAMPLE_SLACK];
    uint64_t asked_ns; /* emu_now_ns() when pending operations were last queried */
    struct coordinator_query query[COORDINATOR_QUERIES];
    struct coordinator_audits audits; /* used by COORDINATOR_AUDIT */
    struct coordinator_agent agent[HOSTS_MAX];
};

/* --- coordinator.c --- */

/*
 * Treat the host as lost: close its control channel and the connections of its processes, and
 * notify the daemon once.
 */
void coordinator_lose(struct coordinator_agent *agent, const char *why);

/* Send and release @message. An agent that does not read its channel is lost. */
void coordinator_send(struct coordinator_agent *agent, struct json_object *message);

/**
 * coordinator_call - let all other hosts or, if @only is not 0, only host @only execute call @what
 * with the fields @with, and wait for all replies. Releases @with. Calls @each with each reply.
 * Returns the first error, or 0.
 */
int coordinator_call(struct coordinator *coord, uint32_t only, const char *what,
                     struct json_object *with,
                     void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/**
 * coordinator_call_until - as coordinator_call(), but wait until @until_ms, by emu_now_ms(),
 * instead of for call_ms. 0: as coordinator_call().
 */
int coordinator_call_until(struct coordinator *coord, uint32_t only, int64_t until_ms,
                           const char *what, struct json_object *with,
                           void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                           void *ctx);

/**
 * coordinator_call_next - make the next one of several calls to host @only that together transmit
 * one long request or reply. Each of them extends the time limit of the operation
 * (coordinator_operation()) by half a second.
 */
int coordinator_call_next(struct coordinator *coord, uint32_t only, const char *what,
                          struct json_object *with,
                          void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                          void *ctx);

/**
 * coordinator_do - as coordinator_call(), for a call that must succeed on each host, or fail with
 * @may_fail, which means that there was nothing to do. A host that fails with another error is
 * lost.
 * coordinator_query_all() - send a query to every other host and wait for all replies. A healthy
 * host always replies without an error, so a host that reports one is lost.
 */
void coordinator_do(struct coordinator *coord, uint32_t only, const char *what,
                    struct json_object *with, int may_fail);
void coordinator_query_all(struct coordinator *coord, const char *what, struct json_object *with,
                           void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                           void *ctx);

/**
 * coordinator_notify - like coordinator_call(), but do not wait for the hosts. The hosts execute
 * notifications and calls in the order in which these were sent. If @what fails on a host, the host
 * reports the error, and is then lost.
 */
void coordinator_notify(struct coordinator *coord, uint32_t only, const char *what,
                        struct json_object *with);

/**
 * coordinator_call_last - make the last call to all hosts. Its time limit is last_ms, so that
 * enough time is left for the final report, for which the supervisor waits. Errors: as
 * coordinator_call(); -ECANCELED, the fabric must end. In that case the hosts that have not replied
 * do not count as lost.
 */
int coordinator_call_last(struct coordinator *coord, const char *what, struct json_object *with,
                          void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                          void *ctx);

/* Send a call as coordinator_call() does, but do not wait. Returns the call's number. */
int64_t coordinator_call_begin(struct coordinator *coord, uint32_t only, const char *what,
                               struct json_object *with);

/*
 * Return the negative errno of a host's message, or 0 for success. If the message has no errno,
 * return -@unsaid; if its errno is not a valid one, -EIO.
 */
int coordinator_error_of(struct json_object *message, int64_t unsaid);

/* Register for events. If output waited for space in `conn`, have coordinator_serve() send it. */
void coordinator_agent_listen(struct coordinator_agent *agent);

/*
 * Treat an agent as lost because a call has failed there, so that its fabric is no longer a
 * replica.
 */
void coordinator_agent_failed(struct coordinator_agent *agent, const char *what, int err);

/*
 * Handle a message that a caller may need while it waits for a reply: hits, or a piece of a sample.
 * Returns false if the message is of another kind.
 */
bool coordinator_message_of_counts(struct coordinator_agent *agent, struct json_object *message);

/*
 * Wait up to @ms, and return whether this host must end, because of a signal or because the
 * supervisor has closed its connection. This is used only during waits for other hosts. At other
 * times the daemon's loop reads both descriptors.
 */
bool coordinator_ends_within(const struct coordinator *coord, int ms);

/* Return the time @ms from now, by emu_now_ms(). */
int64_t coordinator_deadline_ms(uint64_t ms);

/*
 * Save the text of @message for the next coordinator_serve(), and release @message. Returns false
 * and does not save it if there is no memory. The same happens if more text is already kept than a
 * correct host sends during a call (HOSTS_KEPT_BYTES).
 */
bool coordinator_defer(struct coordinator_agent *agent, struct json_object *message);
void hosts_forget_kept(struct coordinator_agent *agent);

/*
 * Return the reason for losing a host when conn_next() has returned error @err for one of its
 * lines.
 */
const char *hosts_line_why(int err);

/*
 * Handle the messages of the host. First handle the messages that were kept during a call, then
 * all messages that have arrived. Does not wait for further ones.
 */
void coordinator_agent_serve(struct coordinator_agent *agent);

/* Return whether one of @events has @what in its field data. */
bool coordinator_is_among(const void *what, const struct epoll_event *events, int count);

/* --- rejoin.c --- */

static_assert(HOSTS_MAX == 64, "sets of hosts have one bit per host");

/* Create the timer for attempts to bring up lost links. Errors: -errno. */
int coordinator_rejoin_open(struct coordinator *coord);

/*
 * Record that hosts @a and @b have lost a link or, if @b is TOPO_NONE, that @a has lost all its
 * links.
 */
void coordinator_link_lost(struct coordinator *coord, uint32_t a, uint32_t b);

/* Open a control channel for the next incarnation of a lost host, if possible. */
void coordinator_await(struct coordinator_agent *agent);

/* Read the control channel of a lost host, where its next incarnation connects. */
void coordinator_await_serve(struct coordinator_agent *agent);

/* Plan an attempt to bring up lost links soon, because a host or link was lost or has come back. */
void coordinator_rejoin_soon(struct coordinator *coord);

/* Try to bring up lost links, because the timer has expired. */
void coordinator_rejoin_check(struct coordinator *coord);

/* --- clients.c --- */

void coordinator_process_free(struct coordinator_process *process);

/* Close the process's connection to the daemon, which then reads end-of-file. */
void coordinator_process_end(struct coordinator_process *process);

/* Handle a message of the host about its client number @client, which may be a new one. */
void coordinator_message_of_client(struct coordinator_agent *agent, int64_t client,
                                   struct json_object *message);

/*
 * Serve the agent's processes for which there is an event in @events, and the processes that waited
 * for space in the control channel.
 */
void coordinator_processes_serve(struct coordinator_agent *agent, const struct epoll_event *events,
                                 int count);

/* --- queries.c --- */

/* Handle a reply that may belong to a query. Other replies are ignored. */
void coordinator_message_of_query(struct coordinator_agent *agent, struct json_object *message);

/* The host is lost: let no query wait for its reply. */
void coordinator_query_lost(struct coordinator_agent *agent);

/*
 * Return the deadline of a call to a host: @until_ms or, if that is later, the deadline of a
 * running audit, because the host does not execute other calls during the audit.
 */
int64_t coordinator_query_until_ms(const struct coordinator_agent *agent, int64_t until_ms);

/* --- views.c --- */

/* Functions of struct fabric_mirror. */
int coordinator_view_audit(void *ctx, bool routes, struct fabric_audit *sum);
bool coordinator_view_pending(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
uint64_t coordinator_view_starved(void *ctx);
uint32_t coordinator_view_arrived(void *ctx, uint32_t group, uint32_t seq,
                                  struct fabric_arrived *ret, uint32_t max);
bool coordinator_view_mismatch(void *ctx, uint32_t group, struct emu_mismatch *ret);
uint32_t coordinator_view_stalls(void *ctx, uint64_t now_ns, struct fabric_stall *ret,
                                 uint32_t max);

/*
 * Forget the pending operations of the process at @node, because it has detached, or because
 * another process is about to replace it.
 */
void coordinator_view_forget(struct coordinator *coord, uint32_t host, uint32_t node);

/* --- faults.c --- */

/* Functions of struct fabric_mirror. */
void coordinator_mirror_test(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                             uint32_t count, uint32_t packets);
void coordinator_mirror_reroute_in_flight(void *ctx, bool reachable, bool drops,
                                          struct fabric_rerouted *sum);
void coordinator_mirror_scan(void *ctx, struct fabric_scan_result *ret);
void coordinator_mirror_drops(void *ctx, uint64_t bound_ps);
void coordinator_mirror_no_link(void *ctx, uint32_t node);
void coordinator_mirror_failed(void *ctx, uint32_t group);
void coordinator_mirror_unit_out(void *ctx, uint32_t sw);

/* Add @count to hits->link_down of this fault. */
void coordinator_hits_down(struct coordinator_hits *hits, int64_t fault, int64_t count);

/*
 * Add the counts of a lost incarnation to hits->link_down, because the next incarnation counts from
 * 0.
 */
void coordinator_hits_keep(struct coordinator_hits *hits);

/* --- samples.c --- */

void coordinator_message_of_sample(struct coordinator_agent *agent, struct json_object *message);

/* --- mirror.c --- */

void coordinator_mirror_open(struct coordinator *coord);

#endif
