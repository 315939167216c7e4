/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coordinator.h - one fabric on several hosts: how the coordinator controls the other hosts, the
 * agents (apps/cluster/hosts.h). Each host has a *replica*: a fabric with the description of the
 * whole network, but only with the devices of the host's own part. A *call* is a message that a
 * host executes and replies to.
 */
#ifndef APPS_CLUSTER_COORDINATOR_COORDINATOR_H
#define APPS_CLUSTER_COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/fabric/fabric.h"
#include "apps/fabric/hosts.h"
#include "apps/cluster/hosts.h"
#include "apps/inject/inject.h"
#include "emu/util/json.h"

struct fabric_audit;
struct coordinator;
/* a process on another host; the daemon serves it as one of its clients */
struct coordinator_process;

/*
 * A piece of a *sample*: the values of a host's counters that have changed since its last sample
 * (hosts.h).
 */
struct coordinator_piece {
    enum hosts_sample_kind of;
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns() when the sample was requested; it was taken after that */
};

/*
 * Events for the coordinator's daemon. The functions are called in coordinator_serve() and in
 * functions that wait for other hosts, in the thread of their caller.
 */
struct coordinator_ops {
    /*
     * A process on another host has connected. The daemon serves @fd like the connection of a local
     * process, and owns it. When the daemon frees the client, it must call
     * coordinator_process_forget(). On an error the caller keeps @fd; *why is the reason, a static
     * text.
     */
    int (*connected)(void *ctx, int fd, struct coordinator_process *process, const char **why);
    /* The host is lost, and so are its processes: their connections have been closed. */
    void (*lost)(void *ctx, uint32_t host, const char *why);
    /* The session of a link of @host has ended. Each of the two hosts may report that. */
    void (*link_lost)(void *ctx, uint32_t host, const struct hosts_link *link);
    /* A lost host was restarted and waits for coordinator_admit(). */
    void (*back)(void *ctx, uint32_t host);
    /*
     * A link between these two hosts was lost, but now all links between them carry segments again.
     */
    void (*mended)(void *ctx, uint32_t a, uint32_t b);
    /* A host that claims to be the lost host @host was rejected. Called once for each @why. */
    void (*refused)(void *ctx, uint32_t host, const char *why);
    /* A host that claims to be the connected host @host was rejected. Called once for each @why. */
    void (*duplicate)(void *ctx, uint32_t host, const char *why);
    /*
     * Two connected hosts have lost a link between them, and it is time to bring it up. The daemon
     * must send a query (COORDINATOR_ANSWER), and call coordinator_links_mend() when all hosts have
     * replied. Otherwise a host that does not reply would block the daemon.
     */
    void (*links_due)(void *ctx);
    /*
     * @host reports that the process at @node does not read its segments. The caller has not
     * checked whether @node exists.
     */
    void (*cut_off)(void *ctx, uint32_t host, uint32_t node);
    /*
     * sampled: a host has sent a piece of a sample. Return false if the piece is invalid; then the
     * host is lost. sampled_all: each host from which a sample was requested has sent it, or is
     * lost.
     */
    bool (*sampled)(void *ctx, const struct coordinator_piece *piece);
    void (*sampled_all)(void *ctx, enum hosts_sample_kind of);
    void *ctx;
};

struct coordinator_config {
    struct fabric *fabric; /* the coordinator's replica; borrowed */
    uint32_t count;        /* number of hosts; host 0 is the coordinator */
    /* by host: non-blocking socket to the host, owned from now on; [0] is unused */
    const int *control;
    const char *const *name; /* by host: its name; borrowed */
    /*
     * Time limits of the reply to a call and to a query, after which the host is lost; UINT64_MAX:
     * none. The limit of a query may be longer, because only a call blocks the daemon. call_ms is
     * also the limit for all calls of an operation (coordinator_operation()).
     */
    uint64_t call_ms, query_ms;
    uint64_t start_ms; /* time limit of the start, and least limit of coordinator_query_audit() */
    uint64_t last_ms;  /* time limit of coordinator_call_last() and coordinator_limit_calls() */
    /*
     * when one of these becomes readable, the fabric must end, and long waits are canceled.
     * -1: none; borrowed
     */
    int signal_fd;
    int owner_fd;
    /*
     * Functions with the same names as in apps/cluster/links.h, called with links_ctx. Each may be
     * NULL. Without links_up, all links count as up. Without links_again, links_rejoin and
     * links_refused, lost hosts cannot rejoin.
     */
    bool (*links_up)(const void *links);
    bool (*links_why)(const void *links, char *text, size_t bytes);
    void (*links_warn)(void *links);
    bool (*agents_why)(const void *links, char *text, size_t bytes); /* links_launch_why() */
    struct json_object *(*links_report)(const void *links);
    int (*links_again)(void *links, uint32_t host); /* links_control_again() */
    int (*links_rejoin)(void *links, uint32_t host);
    bool (*links_refused)(const void *links, uint32_t host, char *text, size_t bytes);
    const char *(*links_duplicate)(void *links, uint32_t *host);
    void *links_ctx;
    /* the links of this host that have no control channel; borrowed */
    const struct hosts_link *link;
    uint32_t links;
    struct coordinator_ops ops;
};

/**
 * coordinator_open - connect to all other hosts, and return when each of them has replied to a
 * first call. Owns the sockets in config->control, even on an error. Thread: the fabric's manager;
 * this holds for all functions of this file. Errors: -ENOMEM; -EMFILE; -ETIMEDOUT; -EPROTO, a host
 * has another cluster file, or sent an invalid message; -EHOSTDOWN; -ECANCELED, signal_fd or
 * owner_fd is readable. On an error, @error gets one line.
 */
int coordinator_open(struct coordinator **ret, const struct coordinator_config *config, char *error,
                     size_t error_bytes);

/**
 * coordinator_close - send "end" to the other hosts and close their control channels. The caller
 * must keep the host links running until links_await_close() returns, because they carry that
 * message. @why: the reason of a failure, one line for the user of each host; NULL if the fabric
 * ends as planned.
 */
void coordinator_close(struct coordinator *coord, const char *why);

/**
 * coordinator_fd - return the descriptor that is readable when coordinator_serve() has work to do.
 * coordinator_serve() - handle everything that has arrived from other hosts and their clients.
 */
int coordinator_fd(const struct coordinator *coord);
void coordinator_serve(struct coordinator *coord);

/**
 * coordinator_forward - call coordinator_serve(), and return how many bytes of the daemon's output
 * to remote processes still wait here for buffer space.
 */
size_t coordinator_forward(struct coordinator *coord);

/** coordinator_mirror - return the argument of fabric_mirror(). Valid as long as @coord exists. */
const struct fabric_mirror *coordinator_mirror(struct coordinator *coord);

/**
 * coordinator_totals_of - return the counters of @host's part (@host may be the coordinator).
 * *links gets the host's report on its links, which the caller releases; NULL if it has none.
 * Counters and report are from the last call of fabric_totals_read(). If the host was already lost
 * at that time, the counters are zero.
 */
const struct fabric_totals *coordinator_totals_of(const struct coordinator *coord, uint32_t host,
                                                  struct json_object **links);

/** coordinator_groups_refused - return how often @host has replied that it cannot make a group. */
uint64_t coordinator_groups_refused(const struct coordinator *coord, uint32_t host);

/**
 * coordinator_operation - begin an operation, such as attaching a process: all its calls together
 * wait for each host for at most call_ms, plus 50 ms for each call. When the fabric must end, all
 * waits together take at most three quarters of last_ms more. A host that exceeds this limit is
 * lost. Otherwise a host that replies to each call just in time could occupy the daemon's thread
 * for long.
 */
void coordinator_operation(struct coordinator *coord);

/**
 * coordinator_limit_calls - while @limits is set, all calls together wait for each host for at most
 * three quarters of last_ms. So one slow host cannot delay the final report, which the supervisor
 * awaits, for long. The waits for several slow hosts add up.
 */
void coordinator_limit_calls(struct coordinator *coord, bool limits);

/**
 * coordinator_inject - return the functions by which the coordinator's injector applies faults to
 * devices of other hosts. Valid as long as @coord exists.
 */
struct inject_remote coordinator_inject(struct coordinator *coord);

/**
 * coordinator_hits - fetch the *hits* on other hosts since the last call, and call @each with each
 * of them and its host. A hit is a segment or credit that a fault has affected (emu/fault/log.h).
 * Its time is converted to this host's clock. @counts: also fetch the number of hits of each fault.
 * Until the next call with @counts, the function `hits` of coordinator_inject() returns these
 * numbers.
 *
 * coordinator_hits_missed - return the number of hits that the other hosts could not log, as of the
 * last call of coordinator_hits().
 */
void coordinator_hits(struct coordinator *coord, bool counts,
                      void (*each)(void *ctx, uint32_t host, const struct emu_fault_hit *hit),
                      void *ctx);
uint64_t coordinator_hits_missed(struct coordinator *coord);

/**
 * coordinator_sample_request - request a sample from every other host: the changes since its last
 * sample. Does not wait: the samples arrive through sampled(). A host that has not completely sent
 * its last sample gets no new request. Returns coordinator_sample_waits().
 * coordinator_sample_waits() - return whether a requested sample of some host has not arrived
 * completely.
 * coordinator_sample_last() - request a sample and wait until every host has sent all of it.
 * coordinator_sample_end() - end sampling. The next request then gets all counters.
 * coordinator_sample_messages() - set the minimum size of the finished messages that are reported.
 */
bool coordinator_sample_request(struct coordinator *coord, enum hosts_sample_kind of);
bool coordinator_sample_waits(const struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_last(struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_end(struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_messages(struct coordinator *coord, uint64_t from_bytes);

/* Queries to all other hosts. The daemon does not block until the replies arrive. */
enum coordinator_query_kind {
    COORDINATOR_ANSWER, /* the reply is empty, and only shows that the host still replies */
    COORDINATOR_AUDIT,  /* fabric_audit_host() */
    COORDINATOR_QUERIES
};

/**
 * coordinator_query_answer, coordinator_query_audit - send a query of that kind to all hosts. No
 * query of that kind may be in progress. @sum: the coordinator's own audit, to which the audits of
 * the other hosts are added.
 * coordinator_query_wait_ms() - return 0 if every host has replied or is lost, else the time until
 * the deadline. Call it again at the deadline: the hosts that have not replied by then are lost.
 * coordinator_query_error() - return the first error of a reply, or 0. Call this when all hosts
 * have replied.
 * coordinator_query_end() - ignore the replies that have not arrived yet.
 */
void coordinator_query_answer(struct coordinator *coord);
void coordinator_query_audit(struct coordinator *coord, bool routes, struct fabric_audit *sum);
int coordinator_query_wait_ms(struct coordinator *coord, enum coordinator_query_kind of);
int coordinator_query_error(const struct coordinator *coord, enum coordinator_query_kind of);
void coordinator_query_end(struct coordinator *coord, enum coordinator_query_kind of);

/**
 * coordinator_request_ms - return a time limit for the reply to a request that waits for a query of
 * kind @of: an estimate of how long slow hosts may delay the reply until they are lost.
 */
uint64_t coordinator_request_ms(const struct coordinator *coord, enum coordinator_query_kind of);

/**
 * coordinator_is_lost - return whether @host, which is not 0, is lost.
 * coordinator_is_connected() - return whether the host is not lost, and all its links to hosts that
 * are not lost carry segments.
 */
bool coordinator_is_lost(const struct coordinator *coord, uint32_t host);
bool coordinator_is_connected(const struct coordinator *coord, uint32_t host);

/**
 * coordinator_admit - let a restarted host rejoin: send it the state of the coordinator's replica,
 * and wait until it has adopted that state. Before this call, remove everything of the host's
 * former incarnation from the coordinator's replica. The host's links come up later (mended()).
 * Errors: -EHOSTDOWN, the host is lost again; an error of the host, which is then lost, too.
 * coordinator_expel() - treat a host as lost for the reason @why.
 */
int coordinator_admit(struct coordinator *coord, uint32_t host);
void coordinator_expel(struct coordinator *coord, uint32_t host, const char *why);

/**
 * coordinator_links_mend - make each pair of connected hosts that has lost a link bring it up.
 * Waits for the replies of these hosts.
 */
void coordinator_links_mend(struct coordinator *coord);

/**
 * coordinator_process_info - return the last report of the process's host on @process. Valid until
 * coordinator_process_forget().
 */
struct coordinator_process_info {
    uint32_t host;
    pid_t pid;
    char command[16];
    char how[96]; /* how the process ended; "" if that is not known */
    bool stopped; /* stopped for longer than --bound stopped */
    bool lost;    /* its host is lost */
};
const struct coordinator_process_info *coordinator_process_info(
    const struct coordinator_process *process);

/** coordinator_process_signal - send @signal. Returns false if the process or its host is gone. */
bool coordinator_process_signal(struct coordinator_process *process, int signal);

/** coordinator_process_forget - call this when the daemon has freed the client of this process. */
void coordinator_process_forget(struct coordinator_process *process);

#endif
