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
struct hosts;
struct hosts_process; /* on another host; a client here */

struct hosts_piece {
    enum hosts_told of;
    uint32_t host;
    const void *bytes;
    size_t count;
    uint64_t asked_ns; /* emu_now_ns(): it was told after that */
};

/* What the governor's daemon is told of. Thread: within hosts_serve(), and within calls. */
struct hosts_ops {
    /*
     * A process on another host has connected; its end here is @fd, a connection like others, which
     * passes on. The client calls hosts_forget() in the end. Errors: it cannot be served, with a
     * static text that says why, and @fd is still the caller's.
     */
    int (*connected)(void *ctx, int fd, struct hosts_process *process, const char **why);
    /* The host is lost, and all its processes: their connections have ended. */
    void (*lost)(void *ctx, uint32_t host, const char *why);
    /* The session of a link of @host has ended; both its ends may say so. */
    void (*link_lost)(void *ctx, uint32_t host, const struct hosts_link *link);
    /* A host that was lost has been started again, and waits for hosts_admit(). */
    void (*back)(void *ctx, uint32_t host);
    /* All links between these two hosts carry segments again, of which one was lost. */
    void (*mended)(void *ctx, uint32_t a, uint32_t b);
    /* Somebody says that he is a host that is lost, and does not get in; told once. */
    void (*refused)(void *ctx, uint32_t host, const char *why);
    /* Somebody says that he is a host that is there, and was refused: who, and why; told once. */
    void (*knock)(void *ctx, uint32_t host, const char *why);
    /* The process at @node, on @host as that says, does not take its segments. */
    void (*cut_off)(void *ctx, uint32_t host, uint32_t node);
    /*
     * A piece of what a host tells. False: it is wrong, and the host is lost. Then, once: of none
     * that was asked any more is to come.
     */
    bool (*sampled)(void *ctx, const struct hosts_piece *piece);
    void (*sampled_all)(void *ctx, enum hosts_told of);
    void *ctx;
};

struct hosts_config {
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
    /* links_agents_why(); NULL: nobody was started. */
    bool (*agents_why)(const void *links, char *text, size_t bytes);
    /* What they say of themselves, for the report. NULL: nothing. */
    struct json_object *(*links_report)(const void *links);
    /* links.h: links_control_again(), links_mend(), links_refused(). NULL: who is lost stays so. */
    int (*links_again)(void *links, uint32_t host);
    int (*links_mend)(void *links, uint32_t host);
    bool (*links_refused)(const void *links, uint32_t host, char *text, size_t bytes);
    const char *(*links_knock)(void *links, uint32_t *host); /* links.h; NULL: nobody is told of */
    void *links_ctx;
    /* those of this host's links that no control channel goes over; borrowed */
    const struct hosts_link *link;
    uint32_t links;
    struct hosts_ops ops;
};

/**
 * hosts_open - meet all other hosts: returns when each has answered. Errors: -ENOMEM, -EMFILE,
 * -ETIMEDOUT, -EPROTO (one of them has another cluster file), -EHOSTDOWN, -ECANCELED (signal_fd or
 * owner_fd is readable; within a moment), with one line in @error.
 * The sockets pass on in any case.
 * Thread: that of all functions here, the fabric's manager.
 */
int hosts_open(struct hosts **ret, const struct hosts_config *config, char *error,
               size_t error_bytes);

/**
 * hosts_close - tell the other hosts to end, and close their control channels. The host links must
 * run until links_await_close() returns, or the message may not arrive. @why: why the fabric has
 * failed, one line for the user of each host; NULL: it ends in order.
 */
void hosts_close(struct hosts *hosts, const char *why);

/** hosts_fd - readable when hosts_serve() has something to do. */
int hosts_fd(const struct hosts *hosts);
void hosts_serve(struct hosts *hosts);

/**
 * hosts_pass - hosts_serve(), and returns the bytes that the daemon has told processes there and
 * that have not been passed on, for want of room.
 */
size_t hosts_pass(struct hosts *hosts);

/** hosts_mirror - for the governor's fabric: fabric_mirror(). It lives as long as @hosts. */
const struct fabric_mirror *hosts_mirror(struct hosts *hosts);

/**
 * hosts_part - what @host, this one too, has counted of its part and, in @links, what its links say
 * (a reference that passes on; NULL: nothing). Both are as of the last fabric_totals_read(); a host
 * that was lost by then has none.
 */
const struct fabric_totals *hosts_part(const struct hosts *hosts, uint32_t host,
                                       struct json_object **links);

/**
 * hosts_inject - for the injector of the governor's faults: what has them befall devices of other
 * hosts. As long as @hosts lives.
 */
struct inject_far hosts_inject(struct hosts *hosts);

/**
 * hosts_hits - what faults have hit on other hosts since this was asked last, @each by our clock.
 * What an inject_far counts is as of the last call with @counts. hosts_hits_missed() - not logged
 * there, as of the last call.
 */
void hosts_hits(struct hosts *hosts, bool counts,
                void (*each)(void *ctx, const struct emu_fault_hit *hit), void *ctx);
uint64_t hosts_hits_missed(struct hosts *hosts);

/**
 * hosts_sample - have all other hosts tell what there is of that, from now on, or since they told
 * it last: sampled(). Nobody waits; a host that has not answered yet is not asked again. Returns
 * hosts_sample_waits(): is something of it still to come? hosts_sample_is_whole() - has every host
 * that is there told all once? hosts_sample_last() - all tell, and this returns when they have.
 * hosts_sample_end() - nobody wants to know any more; the next time begins anew.
 * hosts_sample_messages() - of messages, those of so many bytes and more are told of as finished.
 */
bool hosts_sample(struct hosts *hosts, enum hosts_told of);
bool hosts_sample_waits(const struct hosts *hosts, enum hosts_told of);
bool hosts_sample_is_whole(const struct hosts *hosts, enum hosts_told of);
void hosts_sample_last(struct hosts *hosts, enum hosts_told of);
void hosts_sample_end(struct hosts *hosts, enum hosts_told of);
void hosts_sample_messages(struct hosts *hosts, uint64_t from_bytes);

/* What all other hosts are asked and not waited for. */
enum hosts_asked {
    HOSTS_ANSWER, /* nothing but an answer: who is called next does answer, too */
    HOSTS_AUDIT,  /* fabric_audit_part() */
    HOSTS_ASKED
};

/**
 * hosts_query_answer, hosts_query_audit - ask all, and go on; nothing that was asked before of the
 * kind is under way. @sum: the governor's own part, which others are added to until all have
 * answered. hosts_query_wait_ms() - 0: each has, or is lost; else the time until one that has not
 * is lost, for which this is to be called again. hosts_query_error() - then, the first error.
 * hosts_query_end() - whatever comes of it is of no use any more.
 */
void hosts_query_answer(struct hosts *hosts);
void hosts_query_audit(struct hosts *hosts, bool routes, struct fabric_audit *sum);
int hosts_query_wait_ms(struct hosts *hosts, enum hosts_asked of);
int hosts_query_error(const struct hosts *hosts, enum hosts_asked of);
void hosts_query_end(struct hosts *hosts, enum hosts_asked of);

/**
 * hosts_is_lost - is @host, above 0? hosts_is_whole() - it is not, and misses no link to others.
 */
bool hosts_is_lost(const struct hosts *hosts, uint32_t host);
bool hosts_is_whole(const struct hosts *hosts, uint32_t host);

/**
 * hosts_admit - a host that is back becomes one of them: it is given the state of the governor's
 * replica, and has done so when this returns; links to it come up after that (mended()). Nothing of
 * its former life may be in that state. hosts_expel() - it is lost again.
 * Errors: -EHOSTDOWN, it is lost again; what it says is wrong with the state, and it is expelled.
 */
int hosts_admit(struct hosts *hosts, uint32_t host);
void hosts_expel(struct hosts *hosts, uint32_t host, const char *why);

/* Of a process elsewhere. How it ended: "" while that is not known. */
uint32_t hosts_of(const struct hosts_process *process);
pid_t hosts_pid(const struct hosts_process *process);
const char *hosts_command(const struct hosts_process *process);
const char *hosts_how(const struct hosts_process *process);
bool hosts_is_stopped(const struct hosts_process *process); /* for too long */
bool hosts_has_lost(const struct hosts_process *process);   /* its host is */

/** hosts_signal - send @signal to it. False: it, or its host, is gone. */
bool hosts_signal(struct hosts_process *process, int signal);

/** hosts_forget - its client is freed. */
void hosts_forget(struct hosts_process *process);

#endif
