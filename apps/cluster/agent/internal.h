/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what the files of a host that obeys share. All of it is the thread's that serves
 * this host, which is its fabric's manager. Not for others.
 */
#ifndef APPS_CLUSTER_AGENT_INTERNAL_H
#define APPS_CLUSTER_AGENT_INTERNAL_H

#include "apps/control/conn.h"
#include "apps/control/admission.h"
#include "apps/fabric/fabric.h"
#include "apps/cluster/channel.h"
#include "apps/cluster/agent/agent.h"
#include "apps/inject/inject.h"
#include "apps/timeline/agent.h"
#include "apps/base/procs.h"
#include "apps/telemetry/telemetry.h"
#include "emu/util/list.h"

/* What befalls devices of a host that obeys: faults.c's. */
struct agent_faults {
    struct fabric *fabric;
    const struct topo_graph *graph;
    struct injector *injector; /* NULL: nobody has asked for a fault yet */
};

/* A process of this host. */
struct agent_process {
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
    int pidfd;           /* pidfd; -1: none */
    int64_t how_by_ms;   /* until then it may show how it ended */
    struct waits *waits; /* its waits for cores; NULL: not attached, or they cannot be seen */
    struct procs_stop stop;
    bool stopped; /* for too long, and the governor knows */
};

/* An edge that was made for a process that has not been told yet. */
struct agent_reservation {
    struct emu_list link;
    struct fabric_attachment attachment;
};

struct agent {
    struct fabric *fabric;
    const struct agent_config *config;
    struct agent_faults agent_faults;
    struct telemetry_agent *telemetry; /* NULL: nobody wants to know */
    struct timeline_agent *timeline;   /* likewise */
    struct text_buf report;            /* of these */
    struct conn coordinator;
    uint32_t coordinator_events;
    struct conn owner;
    int epoll;
    int timer; /* once a second */
    int64_t clients;
    struct admission admission; /* its connections are those of served */
    struct emu_list processes;
    struct waits *waits; /* this process's waits for cores; NULL: they cannot be seen */
    uint64_t waits_ns;   /* when all of them were read last */
    bool blocked;        /* some of them wait for room in governor.out */
    struct procs_frozen frozen;
    struct emu_list reservations;
    int64_t began_ms;
    bool connected;            /* the governor has said something */
    int64_t good_ms;           /* when no host was known to be of another fabric */
    char why[HOSTS_WHY_BYTES]; /* why the governor was not met, or says that the fabric failed */
    bool over;
    enum agent_end end;
};

/* --- agent.c --- */

/* The first end counts. */
void agent_end_with(struct agent *agent, enum agent_end end);

/* @message is put. */
void agent_send(struct agent *agent, struct json_object *message);

/* The edge that was made for @node; NULL: none. */
struct agent_reservation *agent_reservation_of(struct agent *agent, int64_t node);

/* @passed: its descriptors are somebody else's now. */
void agent_reservation_free(struct agent_reservation *reservation, bool passed);

/* --- faults.c, queries.c and rejoin.c: what it is asked --- */

/**
 * agent_faults - faults.c: what such a host is asked that has to do with faults and what follows.
 * Errors: -ENOSYS, there is no such call; those of what is asked. Thread: the fabric's manager.
 */
int agent_faults(struct agent_faults *agent_faults, const char *what, struct json_object *call,
                 struct json_object *reply);
void agent_faults_free(struct agent_faults *agent_faults);

/**
 * agent_query - queries.c: what a host that obeys is asked of its part, told in @reply. Errors:
 * -ENOSYS, there is no such question; -ENOMEM. Thread: the fabric's manager.
 */
int agent_query(struct fabric *fabric, const char *what, struct json_object *call,
                struct json_object *reply);

/**
 * agent_rejoin - rejoin.c: what a host that obeys is asked when one comes back, itself or another.
 * Errors: -ENOSYS, there is no such call; those of what is asked. Thread: the fabric's manager.
 */
int agent_rejoin(struct fabric *fabric, const char *what, struct json_object *call);

/* --- sample.c: what it tells of its part --- */

/* Calls. Errors: -ENOMEM; -EINVAL, it was not begun. */
int agent_sample(struct agent *agent, struct json_object *call, struct json_object *reply);
int agent_sample_end(struct agent *agent, struct json_object *call, struct json_object *reply);

/* The process at @node is about to leave. */
void agent_sample_leaves(struct agent *agent, uint32_t node);

/* Nobody wants to know any more: all of it. */
void agent_sample_close(struct agent *agent);

/* --- clients.c: processes of this host --- */

/* Callers are heard from now on. Errors: as admission_open(). */
int agent_process_open(struct agent *agent);
void agent_process_close(struct agent *agent);

/* Somebody calls. */
void agent_process_accept(struct agent *agent);

/* Process @client; NULL: there is none. */
struct agent_process *agent_process_of(struct agent *agent, int64_t client);

/* {"client":C} */
struct json_object *agent_process_message(const struct agent_process *process);

/* Its socket has something for us, or room. */
void agent_process_event(struct agent *agent, struct agent_process *process);

/* What the governor says to it: @line is put; a piece of one; it has closed its connection. */
void agent_process_line(struct agent *agent, struct agent_process *process,
                        struct json_object *line);
void agent_process_text(struct agent *agent, struct agent_process *process,
                        struct json_object *message);
void agent_process_dismiss(struct agent *agent, struct agent_process *process);

/* After events: what was held goes on, if there is room again; else nobody is let in. */
void agent_process_resume(struct agent *agent);

/* @signal, which a fault sends it. Errors: as kill(), procs_freeze(). */
int agent_process_signal(struct agent *agent, struct agent_process *process, int signal);

/* How those that have gone did so is told. Between events: it frees. */
void agent_process_report_exits(struct agent *agent);

/* How long to sleep for them at most; -1: there are none. */
int agent_process_wait_ms(const struct agent *agent);

/* Once a second. */
void agent_process_tick(struct agent *agent);

#endif
