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
struct hosts_said {
    struct json_object *blocks; /* by node: look.c; NULL: nothing */
    int64_t next;               /* there is more, from that node on; 0: that was all */
    uint64_t there_ns, here_ns; /* when, by its clock and by ours */
};

/* What a host has told of faults: faults.c's. */
struct hosts_hits {
    struct json_object *counts; /* [FAULT,HITS,…], as it said last; NULL: nothing */
    /* by fault: packets that were on cables when they went down, and hits of former lives */
    uint64_t *dark;
    uint32_t dark_slots;
    uint64_t missed, past_missed;
};
#define HOSTS_FAULTS_MOST 131072 /* numbers of faults that a host is believed */

struct hosts_process {
    struct emu_list link; /* in host->processes; alone once the connection has ended */
    struct host_far *host;
    int64_t client; /* its number there */
    struct conn conn;
    uint32_t events; /* epoll events asked for */
    pid_t pid;
    size_t under_way; /* bytes of text that its host has not told as taken */
    bool mid;         /* of a line that passes in pieces some have passed */
    bool at_end;      /* the daemon has closed its end; what it said is still passed on */
    bool ended;       /* its connection there */
    bool lost;        /* its host was */
    bool forgotten;   /* nobody here wants to know how it ended */
    bool stopped;     /* for too long, as its host says */
    char command[16];
    char how[96];
};

struct host_far {
    struct hosts *hosts;
    uint32_t number;
    struct conn conn;
    uint32_t events;
    bool held;     /* some of what its processes are told waits for room in conn.out */
    bool lost;     /* and if its connection is there, another life of it is waited for, */
    bool back;     /* or has come */
    uint32_t life; /* times that it came back */
    char why[HOSTS_WHY_BYTES]; /* somebody was refused in its place for that; "": nobody was */
    struct emu_list processes;
    struct json_object *kept;  /* array of messages that came while a call was waited for */
    struct json_object *links; /* its report; NULL: none */
    struct hosts_said said;
    struct hosts_hits hits;
    struct hosts_sampled {
        bool begun;        /* since somebody wants to know it was asked */
        bool whole;        /* all of an answer was there once */
        uint32_t asked;    /* questions that have no answer yet, */
        uint64_t asked_ns; /* and when the first of them was asked */
        uint64_t pieces;   /* of this answer */
    } sample[HOSTS_TOLDS];
};

/* A question that nobody waits for. queries.c's. */
struct hosts_query {
    int64_t number;   /* of the call; 0: nothing was asked yet */
    uint64_t waits;   /* by host, bits: it has not answered, and is not lost; */
    int64_t until_ms; /* by emu_now_ms(): it has as long */
    int err;          /* the first that one answered */
};

struct hosts_audits {
    struct hosts *hosts;
    struct fabric_audit *sum;
    uint32_t lines; /* of sum->line */
};

struct hosts {
    struct hosts_config config;
    struct fabric_mirror mirror;
    int epoll;
    int kept_fd; /* eventfd: something is kept */
    int64_t calls;
    bool may_end;              /* who waits for a reply looks whether the end is wanted */
    bool ends;                 /* it was, while what takes long was waited for */
    struct fabric_totals *sum; /* of all hosts, while they are asked */
    struct fabric_totals part[HOSTS_MAX];
    uint64_t apart[HOSTS_MAX];           /* by host: bits of those that a link to has been lost */
    int timer;                           /* for the next look at these */
    uint64_t look_ms;                    /* after so long, */
    int64_t look_at_ms;                  /* by emu_now_ms(); 0: none is due */
    uint64_t sample_number[HOSTS_TOLDS]; /* of the beginning that answers belong to */
    uint64_t from_bytes;                 /* of messages that are told of as finished */
    uint8_t sample[HOSTS_SAMPLE_BYTES + HOSTS_SAMPLE_SLACK];
    uint64_t asked_ns; /* when all were asked last what their processes have pending */
    struct hosts_query query[HOSTS_ASKED];
    struct hosts_audits audits; /* of HOSTS_AUDIT */
    struct host_far far[HOSTS_MAX];
};

/* --- coordinator.c --- */

/* Its control channel is closed and its processes' connections end; the daemon is told, once. */
void hosts_lose(struct host_far *far, const char *why);

/* @message is put. A host that does not read what it is told is lost. */
void hosts_say(struct host_far *far, struct json_object *message);

/**
 * hosts_call - have all other hosts, or @only one, do @what with @with, which is put; returns when
 * they have. @each is called with each reply. Returns 0, or the first error.
 */
int hosts_call(struct hosts *hosts, uint32_t only, const char *what, struct json_object *with,
               void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/**
 * hosts_do - the same of what cannot fail, or with error @may_fail alone, where nothing is left to
 * do: a host that fails otherwise is lost, with that reason. hosts_ask() - all are asked what no
 * host fails to say: so is who does.
 */
void hosts_do(struct hosts *hosts, uint32_t only, const char *what, struct json_object *with,
              int may_fail);
void hosts_ask(struct hosts *hosts, const char *what, struct json_object *with,
               void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/**
 * hosts_tell - have all other hosts do what cannot fail: they do it in the order in which they are
 * told and called, and nobody waits. Who fails says so, and is lost. @with is put.
 */
void hosts_tell(struct hosts *hosts, const char *what, struct json_object *with);

/**
 * hosts_call_long - the same of all, for what may take long, as the start of a fabric may: for as
 * long as that (--bound start). Errors: -ECANCELED, the end is wanted meanwhile; nobody is lost.
 */
int hosts_call_long(struct hosts *hosts, const char *what, struct json_object *with,
                    void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx);

/* Have one of them do what hosts_tell() has all do. */
void hosts_tell_one(struct host_far *far, const char *what, struct json_object *with);

/* Have all others, or @only one, do what is not waited for here; @with is put. Its number. */
int64_t hosts_call_begin(struct hosts *hosts, uint32_t only, const char *what,
                         struct json_object *with);

/* What a host says has failed: a negative errno, whatever it says; @unsaid, 0: nothing has. */
int hosts_error_of(struct json_object *message, int64_t unsaid);

/* In so many ms, by emu_now_ms(). */
int64_t hosts_deadline_ms(uint64_t ms);

/* A message is for the next hosts_serve(). False: so many are kept that it is no honest host. */
bool hosts_keep(struct host_far *far, struct json_object *message);

/* Is @what one of those whom @events tell of? */
bool hosts_is_among(const void *what, const struct epoll_event *events, int count);

/* --- mend.c --- */

static_assert(HOSTS_MAX == 64, "a bit a host");

/* Errors: -errno. */
int hosts_mend_open(struct hosts *hosts);

/* A link between them has been lost; @b TOPO_NONE: all that @a has. */
void hosts_part_of(struct hosts *hosts, uint32_t a, uint32_t b);

/* The control channel to a host that is lost is for its next life from now on, if that can be. */
void hosts_await(struct host_far *far);

/* A host that is lost, and what comes on that. */
void hosts_await_serve(struct host_far *far);

/* A host is there again: what is missing of its links is looked at soon. */
void hosts_mend_soon(struct hosts *hosts);

/* The timer says that a look is due. */
void hosts_mend_look(struct hosts *hosts);

/* --- guests.c --- */

void hosts_process_free(struct hosts_process *process);

/* The daemon sees the end of its connection. */
void hosts_process_end(struct hosts_process *process);

/* What @client there, known or new, says or has come to. */
void hosts_message_of_client(struct host_far *far, int64_t client, struct json_object *message);

/* Those of its processes that @events name, and those that were held and need not be any more. */
void hosts_processes_serve(struct host_far *far, const struct epoll_event *events, int count);

/* --- queries.c --- */

/* It may be an answer to one. */
void hosts_message_of_query(struct host_far *far, struct json_object *message);

/* It answers none any more. */
void hosts_query_lost(struct host_far *far);

/* Until when it may take to answer a call, which has until @until_ms of its own. */
int64_t hosts_query_until_ms(const struct host_far *far, int64_t until_ms);

/* --- views.c --- */

/* Of struct fabric_mirror. */
int hosts_view_audit(void *ctx, bool routes, struct fabric_audit *sum);
bool hosts_view_pending(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
uint32_t hosts_view_came(void *ctx, uint32_t group, uint32_t seq, struct fabric_came *ret,
                         uint32_t max);
bool hosts_view_clash(void *ctx, uint32_t group, struct emu_clash *ret);
uint32_t hosts_view_stalls(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max);

/* The process at @node has gone, or has just come. */
void hosts_view_forget(struct hosts *hosts, uint32_t host, uint32_t node);

/* --- faults.c --- */

/* Of struct fabric_mirror. */
void hosts_mirror_test(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                       uint32_t count, uint32_t packets);
void hosts_mirror_carry(void *ctx, bool eases, bool drops, struct fabric_carried *sum);
void hosts_mirror_look(void *ctx, struct fabric_seen *ret);
void hosts_mirror_losses(void *ctx, uint64_t bound_ps);
void hosts_mirror_alone(void *ctx, uint32_t node);
void hosts_mirror_failed(void *ctx, uint32_t group);
void hosts_mirror_unit_out(void *ctx, uint32_t sw);

/* @count more of those of @fault. */
void hosts_dark(struct hosts_hits *hits, int64_t fault, int64_t count);

/* What its former life has told stays counted. */
void hosts_hits_past(struct hosts_hits *hits);

/* --- samples.c --- */

/* What it tells of its part. */
void hosts_message_of_sample(struct host_far *far, struct json_object *message);

/* --- mirror.c --- */

void hosts_mirror_open(struct hosts *hosts);

#endif
