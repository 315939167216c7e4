/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what the files of a host that obeys share. All of it is the thread's that serves
 * this host, which is its fabric's manager. Not for others.
 */
#ifndef APPS_CLUSTER_FOLLOWER_INTERNAL_H
#define APPS_CLUSTER_FOLLOWER_INTERNAL_H

#include "apps/control/conn.h"
#include "apps/control/door.h"
#include "apps/fabric/fabric.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/follower/follower.h"
#include "apps/inject/inject.h"
#include "apps/timeline/part.h"
#include "apps/base/procs.h"
#include "apps/telemetry/telemetry.h"
#include "emu/util/list.h"

/* What befalls devices of a host that obeys: befall.c's. */
struct befallen {
    struct fabric *fabric;
    const struct topo_graph *graph;
    struct injector *injector; /* NULL: nobody has asked for a fault yet */
};

/* A process of this host. */
struct served {
    struct emu_list link;
    struct conn conn;
    uint32_t events; /* epoll events asked for */
    int64_t client;  /* its number, of this host */
    pid_t pid;
    uint32_t asked;      /* its requests that have no reply yet; HOSTS_ASKED_MOST at most */
    bool mid;            /* of a line that it is told in pieces, some have come */
    size_t owed;         /* bytes of such pieces that the governor does not know as taken yet */
    int wrong;           /* 0, or what is wrong with the line behind these: -errno */
    bool attached;       /* it has got a node: the end of its connection is its death */
    bool at_end;         /* nothing comes from it any more; what it has asked is still answered */
    bool closing;        /* its connection ends when all that it was told is out */
    bool dismissed;      /* and the governor knows, who has closed it */
    bool exits;          /* it has said that it ends by itself */
    bool ended;          /* its connection has; it is kept until it is known how it did */
    int end_fd;          /* pidfd; -1: none */
    int64_t how_by_ms;   /* until then it may show how it ended */
    struct waits *waits; /* its waits for cores; NULL: not attached, or they cannot be seen */
    struct procs_stop stop;
    bool stopped; /* for too long, and the governor knows */
};

/* An edge that was made for a process that has not been told yet. */
struct seat {
    struct emu_list link;
    struct fabric_seat seat;
};

struct obey {
    struct fabric *fabric;
    const struct obey_config *config;
    struct befallen befallen;
    struct telemetry_part *part;    /* NULL: nobody wants to know */
    struct timeline_part *timeline; /* likewise */
    struct telemetry_text told;     /* of these */
    struct conn governor;
    uint32_t governor_events;
    struct conn owner;
    int epoll;
    int timer; /* once a second */
    int64_t clients;
    struct door door; /* its connections are those of served */
    struct emu_list served;
    struct waits *waits; /* this process's waits for cores; NULL: they cannot be seen */
    uint64_t waits_ns;   /* when all of them were read last */
    bool held;           /* some of them wait for room in governor.out */
    struct procs_frozen frozen;
    struct emu_list seats;
    int64_t began_ms;
    bool met;                  /* the governor has said something */
    int64_t good_ms;           /* when no host was known to be of another fabric */
    char why[HOSTS_WHY_BYTES]; /* why the governor was not met, or says that the fabric failed */
    bool over;
    enum obey_end end;
};

/* --- follower.c --- */

/* The first end counts. */
void obey_over(struct obey *obey, enum obey_end end);

/* @message is put. */
void obey_say(struct obey *obey, struct json_object *message);

/* The edge that was made for @node; NULL: none. */
struct seat *obey_seat_of(struct obey *obey, int64_t node);

/* @passed: its descriptors are somebody else's now. */
void obey_seat_free(struct seat *seat, bool passed);

/* --- befall.c, look.c and begin.c: what it is asked --- */

/**
 * hosts_befall - befall.c: what such a host is asked that has to do with faults and what follows.
 * Errors: -ENOSYS, there is no such call; those of what is asked. Thread: the fabric's manager.
 */
int hosts_befall(struct befallen *befallen, const char *what, struct json_object *call,
                 struct json_object *reply);
void hosts_befallen_free(struct befallen *befallen);

/**
 * hosts_look - look.c: what a host that obeys is asked of its part, told in @reply. Errors:
 * -ENOSYS, there is no such question; -ENOMEM. Thread: the fabric's manager.
 */
int hosts_look(struct fabric *fabric, const char *what, struct json_object *call,
               struct json_object *reply);

/**
 * hosts_begin - begin.c: what a host that obeys is asked when one comes back, itself or another.
 * Errors: -ENOSYS, there is no such call; those of what is asked. Thread: the fabric's manager.
 */
int hosts_begin(struct fabric *fabric, const char *what, struct json_object *call);

/* --- sample.c: what it tells of its part --- */

/* Calls. Errors: -ENOMEM; -EINVAL, it was not begun. */
int obey_sample(struct obey *obey, struct json_object *call, struct json_object *reply);
int obey_unsampled(struct obey *obey, struct json_object *call, struct json_object *reply);

/* The process at @node is about to leave. */
void obey_sample_leaves(struct obey *obey, uint32_t node);

/* Nobody wants to know any more: all of it. */
void obey_sample_close(struct obey *obey);

/* --- served.c: processes of this host --- */

/* Callers are heard from now on. Errors: as door_open(). */
int served_open(struct obey *obey);
void served_close(struct obey *obey);

/* Somebody calls. */
void served_accept(struct obey *obey);

/* Process @client; NULL: there is none. */
struct served *served_of(struct obey *obey, int64_t client);

/* {"client":C} */
struct json_object *served_message(const struct served *served);

/* Its socket has something for us, or room. */
void served_event(struct obey *obey, struct served *served);

/* What the governor says to it: @line is put; a piece of one; it has closed its connection. */
void served_line(struct obey *obey, struct served *served, struct json_object *line);
void served_text(struct obey *obey, struct served *served, struct json_object *message);
void served_dismiss(struct obey *obey, struct served *served);

/* After events: what was held goes on, if there is room again; else nobody is let in. */
void served_go_on(struct obey *obey);

/* @signal, which a fault sends it. Errors: as kill(), procs_freeze(). */
int served_signal(struct obey *obey, struct served *served, int signal);

/* How those that have gone did so is told. Between events: it frees. */
void served_tell_how(struct obey *obey);

/* How long to sleep for them at most; -1: there are none. */
int served_wait_ms(const struct obey *obey);

/* Once a second. */
void served_tick(struct obey *obey);

#endif
