/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coordinator.h - one fabric on several hosts: what the host that governs does with the others.
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
struct coordinator_process; /* on another host; a client here */

struct coordinator_piece {
    enum hosts_sample_kind of;
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns(): it was told after that */
};

/* What the governor's daemon is told of. Thread: within coordinator_serve(), and within calls. */
struct coordinator_ops {
    /*
     * A process on another host has connected; its end here is @fd, a connection like others, which
     * passes on. The client calls coordinator_process_forget() in the end. Errors: it cannot be
     * served, with a static text that says why, and @fd is still the caller's.
     */
    int (*connected)(void *ctx, int fd, struct coordinator_process *process, const char **why);
    /* The host is lost, and all its processes: their connections have ended. */
    void (*lost)(void *ctx, uint32_t host, const char *why);
    /* The session of a link of @host has ended; both its ends may say so. */
    void (*link_lost)(void *ctx, uint32_t host, const struct hosts_link *link);
    /* A host that was lost has been started again, and waits for coordinator_admit(). */
    void (*back)(void *ctx, uint32_t host);
    /* All links between these two hosts carry segments again, of which one was lost. */
    void (*mended)(void *ctx, uint32_t a, uint32_t b);
    /* Somebody says that he is a host that is lost, and does not get in; told once. */
    void (*refused)(void *ctx, uint32_t host, const char *why);
    /* Somebody says that he is a host that is there, and was refused: who, and why; told once. */
    void (*duplicate)(void *ctx, uint32_t host, const char *why);
    /* The process at @node, on @host as that says, does not take its segments. */
    void (*cut_off)(void *ctx, uint32_t host, uint32_t node);
    /*
     * A piece of what a host tells. False: it is wrong, and the host is lost. Then, once: of none
     * that was asked any more is to come.
     */
    bool (*sampled)(void *ctx, const struct coordinator_piece *piece);
    void (*sampled_all)(void *ctx, enum hosts_sample_kind of);
    void *ctx;
};

struct coordinator_config {
    struct fabric *fabric;   /* that is governed; borrowed */
    uint32_t count;          /* hosts; number 0 is this one, which governs */
    const int *control;      /* by host: a socket to it, not blocking; passes on. [0] is not read */
    const char *const *name; /* by host: borrowed */
    uint64_t call_ms;  /* a host that has not answered after so long is lost; UINT64_MAX: never */
    uint64_t start_ms; /* the same of the first call */
    int signal_fd;     /* either readable: all are waited for no longer; -1: none; borrowed */
    int owner_fd;
    /* Do all of this host's links carry segments? NULL: they always do. */
    bool (*links_up)(const void *links);
    /*
     * Which one does not, and why, as a line for the user; false: it is of no use to wait for it.
     * NULL: nothing is known.
     */
    bool (*links_why)(const void *links, char *text, size_t bytes);
    void (*links_warn)(void *links); /* links.h; NULL: no warning */
    /* links_launch_why(); NULL: nobody was started. */
    bool (*agents_why)(const void *links, char *text, size_t bytes);
    /* What they say of themselves, for the report. NULL: nothing. */
    struct json_object *(*links_report)(const void *links);
    /*
     * links.h: links_control_again(), links_rejoin(), links_refused(). NULL: who is lost stays so.
     */
    int (*links_again)(void *links, uint32_t host);
    int (*links_rejoin)(void *links, uint32_t host);
    bool (*links_refused)(const void *links, uint32_t host, char *text, size_t bytes);
    const char *(*links_duplicate)(void *links,
                                   uint32_t *host); /* links.h; NULL: nobody is told of */
    void *links_ctx;
    /* those of this host's links that no control channel goes over; borrowed */
    const struct hosts_link *link;
    uint32_t links;
    struct coordinator_ops ops;
};

/**
 * coordinator_open - meet all other hosts: returns when each has answered. Errors: -ENOMEM,
 * -EMFILE, -ETIMEDOUT, -EPROTO (one of them has another cluster file), -EHOSTDOWN, -ECANCELED
 * (signal_fd or owner_fd is readable; within a moment), with one line in @error. The sockets pass
 * on in any case.
 * Thread: that of all functions here, the fabric's manager.
 */
int coordinator_open(struct coordinator **ret, const struct coordinator_config *config, char *error,
                     size_t error_bytes);

/**
 * coordinator_close - tell the other hosts to end, and close their control channels. The host links
 * must run until links_await_close() returns, or the message may not arrive. @why: why the fabric
 * has failed, one line for the user of each host; NULL: it ends in order.
 */
void coordinator_close(struct coordinator *coord, const char *why);

/** coordinator_fd - readable when coordinator_serve() has something to do. */
int coordinator_fd(const struct coordinator *coord);
void coordinator_serve(struct coordinator *coord);

/**
 * coordinator_forward - coordinator_serve(), and returns the bytes that the daemon has told
 * processes there and that have not been passed on, for want of room.
 */
size_t coordinator_forward(struct coordinator *coord);

/** coordinator_mirror - for the governor's fabric: fabric_mirror(). It lives as long as @hosts. */
const struct fabric_mirror *coordinator_mirror(struct coordinator *coord);

/**
 * coordinator_totals_of - what @host, this one too, has counted of its part and, in @links, what
 * its links say (a reference that passes on; NULL: nothing). Both are as of the last
 * fabric_totals_read(); a host that was lost by then has none.
 */
const struct fabric_totals *coordinator_totals_of(const struct coordinator *coord, uint32_t host,
                                                  struct json_object **links);

/**
 * coordinator_inject - for the injector of the governor's faults: what has them befall devices of
 * other hosts. As long as @hosts lives.
 */
struct inject_remote coordinator_inject(struct coordinator *coord);

/**
 * coordinator_hits - what faults have hit on other hosts since this was asked last, @each by our
 * clock. What an inject_remote counts is as of the last call with @counts.
 * coordinator_hits_missed() - not logged there, as of the last call.
 */
void coordinator_hits(struct coordinator *coord, bool counts,
                      void (*each)(void *ctx, const struct emu_fault_hit *hit), void *ctx);
uint64_t coordinator_hits_missed(struct coordinator *coord);

/**
 * coordinator_sample_request - have all other hosts tell what there is of that, from now on, or
 * since they told it last: sampled(). Nobody waits; a host that has not answered yet is not asked
 * again. Returns coordinator_sample_waits(): is something of it still to come?
 * coordinator_sample_is_complete() - has every host that is there told all once?
 * coordinator_sample_last() - all tell, and this returns when they have.
 * coordinator_sample_end() - nobody wants to know any more; the next time begins anew.
 * coordinator_sample_messages() - of messages, those of so many bytes and more are told of as
 * finished.
 */
bool coordinator_sample_request(struct coordinator *coord, enum hosts_sample_kind of);
bool coordinator_sample_waits(const struct coordinator *coord, enum hosts_sample_kind of);
bool coordinator_sample_is_complete(const struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_last(struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_end(struct coordinator *coord, enum hosts_sample_kind of);
void coordinator_sample_messages(struct coordinator *coord, uint64_t from_bytes);

/* What all other hosts are asked and not waited for. */
enum coordinator_query_kind {
    COORDINATOR_ANSWER, /* nothing but an answer: who is called next does answer, too */
    COORDINATOR_AUDIT,  /* fabric_audit_host() */
    COORDINATOR_QUERIES
};

/**
 * coordinator_query_answer, coordinator_query_audit - ask all, and go on; nothing that was asked
 * before of the kind is under way. @sum: the governor's own part, which others are added to until
 * all have answered. coordinator_query_wait_ms() - 0: each has, or is lost; else the time until one
 * that has not is lost, for which this is to be called again. coordinator_query_error() - then, the
 * first error.
 * coordinator_query_end() - whatever comes of it is of no use any more.
 */
void coordinator_query_answer(struct coordinator *coord);
void coordinator_query_audit(struct coordinator *coord, bool routes, struct fabric_audit *sum);
int coordinator_query_wait_ms(struct coordinator *coord, enum coordinator_query_kind of);
int coordinator_query_error(const struct coordinator *coord, enum coordinator_query_kind of);
void coordinator_query_end(struct coordinator *coord, enum coordinator_query_kind of);

/**
 * coordinator_is_lost - is @host, above 0? coordinator_is_connected() - it is not, and misses no
 * link to others.
 */
bool coordinator_is_lost(const struct coordinator *coord, uint32_t host);
bool coordinator_is_connected(const struct coordinator *coord, uint32_t host);

/**
 * coordinator_admit - a host that is back becomes one of them: it is given the state of the
 * governor's replica, and has done so when this returns; links to it come up after that (mended()).
 * Nothing of its former life may be in that state. coordinator_expel() - it is lost again.
 * Errors: -EHOSTDOWN, it is lost again; what it says is wrong with the state, and it is expelled.
 */
int coordinator_admit(struct coordinator *coord, uint32_t host);
void coordinator_expel(struct coordinator *coord, uint32_t host, const char *why);

/* Of a process elsewhere. How it ended: "" while that is not known. */
uint32_t coordinator_process_host(const struct coordinator_process *process);
pid_t coordinator_process_pid(const struct coordinator_process *process);
const char *coordinator_process_command(const struct coordinator_process *process);
const char *coordinator_process_exit(const struct coordinator_process *process);
bool coordinator_process_is_stopped(const struct coordinator_process *process); /* for too long */
bool coordinator_process_is_lost(const struct coordinator_process *process);    /* its host is */

/** coordinator_process_signal - send @signal to it. False: it, or its host, is gone. */
bool coordinator_process_signal(struct coordinator_process *process, int signal);

/** coordinator_process_forget - its client is freed. */
void coordinator_process_forget(struct coordinator_process *process);

#endif
