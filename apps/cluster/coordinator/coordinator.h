/* SPDX-License-Identifier: BSD-3-Clause */
/* coordinator.h - one fabric on several hosts: how the coordinator controls the other hosts. */
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
struct coordinator_process; /* a process on another host, a client of this daemon */

struct coordinator_piece {
    enum hosts_sample_kind of;
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns(): it was sent after that */
};

/*
 * Events for the coordinator's daemon. Thread: the caller's, within coordinator_serve() and calls.
 */
struct coordinator_ops {
    /*
     * A process on another host has connected. @fd is its connection, like that of a local process,
     * and is owned by the daemon. The client must call coordinator_process_forget() in the end.
     * Errors: it cannot be served, for the reason in *why, a static text; then @fd stays the
     * caller's.
     */
    int (*connected)(void *ctx, int fd, struct coordinator_process *process, const char **why);
    /* The host is lost with all its processes: their connections have ended. */
    void (*lost)(void *ctx, uint32_t host, const char *why);
    /* The session of a link of @host has ended; both of its hosts may report that. */
    void (*link_lost)(void *ctx, uint32_t host, const struct hosts_link *link);
    /* A lost host was restarted and waits for coordinator_admit(). */
    void (*back)(void *ctx, uint32_t host);
    /* All links between these two hosts carry segments again, after one was lost. */
    void (*mended)(void *ctx, uint32_t a, uint32_t b);
    /* A host was rejected that claims to be a lost host; called once per reason. */
    void (*refused)(void *ctx, uint32_t host, const char *why);
    /* A host was rejected that claims to be a connected host; called once per reason. */
    void (*duplicate)(void *ctx, uint32_t host, const char *why);
    /* The process at @node, on @host as that host says, takes no segments. */
    void (*cut_off)(void *ctx, uint32_t host, uint32_t node);
    /*
     * sampled: a piece of a host's sample; returns false if it is invalid, then the host is lost.
     * sampled_all: no queried host has anything left to send.
     */
    bool (*sampled)(void *ctx, const struct coordinator_piece *piece);
    void (*sampled_all)(void *ctx, enum hosts_sample_kind of);
    void *ctx;
};

struct coordinator_config {
    struct fabric *fabric; /* the whole fabric; borrowed */
    uint32_t count;        /* number of hosts; 0 is this one, the coordinator */
    const int *control; /* by host: non-blocking socket to it, owned from now on; [0] is unused */
    const char *const *name; /* by host: borrowed */
    uint64_t call_ms;        /* time limit of a call: then the host is lost; UINT64_MAX: none */
    uint64_t start_ms;       /* time limit of the first call */
    int signal_fd;           /* if either is readable waiting ends; -1: none; borrowed */
    int owner_fd;
    /* Do all of this host's links carry segments? NULL: always. */
    bool (*links_up)(const void *links);
    /*
     * Which one does not, and why, as a line for the user. Returns false if waiting is pointless.
     * NULL: unknown.
     */
    bool (*links_why)(const void *links, char *text, size_t bytes);
    void (*links_warn)(void *links); /* links.h; NULL: no warning */
    /* links_launch_why(); NULL: no agents were started */
    bool (*agents_why)(const void *links, char *text, size_t bytes);
    /* Their report. NULL: none. */
    struct json_object *(*links_report)(const void *links);
    /*
     * links.h: links_control_again(), links_rejoin(), links_refused(). NULL: lost hosts cannot
     * rejoin.
     */
    int (*links_again)(void *links, uint32_t host);
    int (*links_rejoin)(void *links, uint32_t host);
    bool (*links_refused)(const void *links, uint32_t host, char *text, size_t bytes);
    const char *(*links_duplicate)(void *links, uint32_t *host); /* links.h; NULL: not reported */
    void *links_ctx;
    /* this host's links without a control channel; borrowed */
    const struct hosts_link *link;
    uint32_t links;
    struct coordinator_ops ops;
};

/**
 * coordinator_open - connect to all other hosts: returns when each has answered. Owns the sockets
 * in any case. Errors: -ENOMEM, -EMFILE, -ETIMEDOUT, -EPROTO (a host has another cluster file),
 * -EHOSTDOWN, -ECANCELED (signal_fd or owner_fd is readable, which is noticed within a moment),
 * with one line in @error.
 * Thread: that of all functions here, the fabric's manager.
 */
int coordinator_open(struct coordinator **ret, const struct coordinator_config *config, char *error,
                     size_t error_bytes);

/**
 * coordinator_close - send "end" to the other hosts and close their control channels. The host
 * links must run until links_await_close() returns, or the message may not arrive. @why: why the
 * fabric has failed, one line for the user of each host; NULL: regular end.
 */
void coordinator_close(struct coordinator *coord, const char *why);

/** coordinator_fd - readable when coordinator_serve() has something to do. */
int coordinator_fd(const struct coordinator *coord);
void coordinator_serve(struct coordinator *coord);

/**
 * coordinator_forward - coordinator_serve(); returns the bytes from the daemon to remote processes
 * that could not be forwarded yet for lack of buffer space.
 */
size_t coordinator_forward(struct coordinator *coord);

/**
 * coordinator_mirror - for fabric_mirror() of the coordinator's fabric; valid as long as @coord. */
const struct fabric_mirror *coordinator_mirror(struct coordinator *coord);

/**
 * coordinator_totals_of - counters of @host's part, which may be this host, and its report on its
 * links in *links (the caller's reference; NULL: none). Both are from the last
 * fabric_totals_read(), and zero for a host that was lost by then.
 */
const struct fabric_totals *coordinator_totals_of(const struct coordinator *coord, uint32_t host,
                                                  struct json_object **links);

/**
 * coordinator_inject - for the coordinator's injector: applies faults to devices of other hosts.
 * Valid as long as @coord.
 */
struct inject_remote coordinator_inject(struct coordinator *coord);

/**
 * coordinator_hits - pass the hits of faults on other hosts since the last call to @each, with
 * times of our clock. The counts of the inject_remote are from the last call with @counts.
 *
 * coordinator_hits_missed - the number of hits that those hosts could not log, as of the last call.
 */
void coordinator_hits(struct coordinator *coord, bool counts,
                      void (*each)(void *ctx, const struct emu_fault_hit *hit), void *ctx);
uint64_t coordinator_hits_missed(struct coordinator *coord);

/**
 * coordinator_sample_request - ask all other hosts for the changes since their last sample. The
 * answers arrive through sampled(). Does not wait; a host that has not answered yet gets no second
 * request. Returns coordinator_sample_waits(): is any answer outstanding?
 * coordinator_sample_is_complete() - has every connected host sent a complete answer?
 * coordinator_sample_last() - as coordinator_sample_request(), but wait until every host has sent
 * everything. coordinator_sample_end() - stop; the next call starts from the beginning.
 * coordinator_sample_messages() - report finished messages of at least @from_bytes bytes.
 */
bool coordinator_sample_request(struct coordinator *coord, enum hosts_sample_kind of);
bool coordinator_sample_waits(const struct coordinator *coord, enum hosts_sample_kind of);
bool coordinator_sample_is_complete(const struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_last(struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_end(struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_messages(struct coordinator *coord, uint64_t from_bytes);

/* Queries to all other hosts that are not waited for. */
enum coordinator_query_kind {
    COORDINATOR_ANSWER, /* an empty reply: shows that the host still answers */
    COORDINATOR_AUDIT,  /* fabric_audit_host() */
    COORDINATOR_QUERIES
};

/**
 * coordinator_query_answer, coordinator_query_audit - send a query to all hosts; no query of the
 * kind may be in progress. @sum: the coordinator's own audit, to which the others are added until
 * all have answered. coordinator_query_wait_ms() - 0: every host has answered or is lost; else the
 * time until one that has not is lost, when this must be called again. coordinator_query_error() -
 * afterwards the first error. coordinator_query_end() - ignore the remaining answers.
 */
void coordinator_query_answer(struct coordinator *coord);
void coordinator_query_audit(struct coordinator *coord, bool routes, struct fabric_audit *sum);
int coordinator_query_wait_ms(struct coordinator *coord, enum coordinator_query_kind of);
int coordinator_query_error(const struct coordinator *coord, enum coordinator_query_kind of);
void coordinator_query_end(struct coordinator *coord, enum coordinator_query_kind of);

/**
 * coordinator_is_lost - is @host, above 0, lost? coordinator_is_connected() - is it connected, with
 * all links to connected hosts?
 */
bool coordinator_is_lost(const struct coordinator *coord, uint32_t host);
bool coordinator_is_connected(const struct coordinator *coord, uint32_t host);

/**
 * coordinator_admit - let a restarted host rejoin: send it the state of the coordinator's replica
 * and wait until it has it. Its links come up later (mended()). That state must contain nothing of
 * its former incarnation. coordinator_expel() - treat it as lost again. Errors: -EHOSTDOWN, it is
 * lost again; its own error with the state, and it is expelled.
 */
int coordinator_admit(struct coordinator *coord, uint32_t host);
void coordinator_expel(struct coordinator *coord, uint32_t host, const char *why);

/**
 * coordinator_process_info - the host, pid, command and exit of @process, as its host reported
 * them. Valid until coordinator_process_forget().
 */
struct coordinator_process_info {
    uint32_t host;
    pid_t pid;
    char command[16];
    char how[96]; /* how it ended; "": not known */
    bool stopped; /* for too long */
    bool lost;    /* its host is lost */
};
const struct coordinator_process_info *coordinator_process_info(
    const struct coordinator_process *process);

/** coordinator_process_signal - send @signal to it. Returns false if it, or its host, is gone. */
bool coordinator_process_signal(struct coordinator_process *process, int signal);

/** coordinator_process_forget - its client was freed. */
void coordinator_process_forget(struct coordinator_process *process);

#endif
