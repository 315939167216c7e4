/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * governor.h - what the files of the governor's side share: govern.c, guests.c, mirror.c, views.c,
 * queries.c, faults.c. All of it is the daemon's thread's, which is the fabric's manager. Not for
 * others.
 */
#ifndef APPS_HOSTS_GOVERNOR_H
#define APPS_HOSTS_GOVERNOR_H

#include "apps/daemon/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/hosts/internal.h"
#include "emu/list.h"

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

/* --- govern.c --- */

/* Its control channel is closed and its processes' connections end; the daemon is told, once. */
void hosts_lose(struct host_far *far, const char *why);

/* @message is put. A host that does not read what it is told is lost. */
void hosts_say(struct host_far *far, struct json_object *message);

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

/* --- samples.c --- */

/* What it tells of its part. */
void hosts_message_of_sample(struct host_far *far, struct json_object *message);

/* --- mirror.c --- */

void hosts_mirror_open(struct hosts *hosts);

#endif
