/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - shared by the files of an agent. Everything is used only by the thread that serves
 * this host, its fabric's manager. Internal to this folder.
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

/* A process of this host. */
struct agent_process {
    struct emu_list link;
    struct conn conn;
    uint32_t events; /* epoll events asked for */
    int64_t client;  /* its client number, unique on this host */
    pid_t pid;
    uint32_t asked;      /* its requests without a reply; at most HOSTS_ASKED_MOST */
    bool mid;            /* part of a line sent to it in pieces has arrived */
    size_t owed;         /* bytes of such pieces not yet acknowledged to the coordinator */
    int wrong;           /* -errno of an invalid line behind these requests; 0: none */
    bool attached;       /* it has a node: if its connection ends it has died */
    bool at_end;         /* it has closed its side; its requests are still answered */
    bool closing;        /* close its connection once its output is sent */
    bool dismissed;      /* the coordinator has closed the connection */
    bool exits;          /* it has announced that it exits */
    bool ended;          /* its connection has ended; kept until its exit status is known */
    int pidfd;           /* pidfd; -1: none */
    int64_t how_by_ms;   /* wait until then for its exit status */
    struct waits *waits; /* its waits for cores; NULL: not attached, or not available */
    struct procs_stop stop;
    bool stopped; /* for too long, as reported to the coordinator */
};

/* A host interface made for a process that does not have it yet. */
struct agent_reservation {
    struct emu_list link;
    struct fabric_attachment attachment;
};

struct agent {
    struct fabric *fabric;
    const struct agent_config *config;
    struct injector *injector;         /* NULL: no fault was applied yet */
    struct telemetry_agent *telemetry; /* NULL: not sampled */
    struct timeline_agent *timeline;   /* likewise */
    struct text_buf report;            /* last sample of one of these */
    struct conn coordinator;
    uint32_t coordinator_events;
    struct conn owner;
    int epoll;
    int timer; /* once a second */
    int64_t clients;
    struct admission admission; /* its connections are those in `served` */
    struct emu_list processes;
    struct waits *waits; /* this process's waits for cores; NULL: not available */
    uint64_t waits_ns;   /* when all of them were last read */
    bool blocked;        /* some processes wait for space in governor.out */
    struct procs_frozen frozen;
    struct emu_list reservations;
    int64_t began_ms;
    bool connected;            /* the coordinator has sent something */
    int64_t good_ms;           /* when last no host was known to belong to another fabric */
    char why[HOSTS_WHY_BYTES]; /* why the coordinator did not connect, or why it ended the fabric */
    bool over;
    enum agent_end end;
};

/* --- agent.c --- */

/* Ends this host; the first reason counts. */
void agent_end_with(struct agent *agent, enum agent_end end);

/* Sends @message to the coordinator and puts it. */
void agent_send(struct agent *agent, struct json_object *message);

/* The host interface made for @node; NULL: none. */
struct agent_reservation *agent_reservation_of(struct agent *agent, int64_t node);

/* @passed: another owner has its descriptors now. */
void agent_reservation_free(struct agent_reservation *reservation, bool passed);

/* --- calls of the coordinator --- */

/* Executes a call and adds to its @reply. Errors: a negative errno, which the reply gets. */
struct agent_call {
    const char *name;
    int (*agent)(struct agent *agent, struct json_object *call, struct json_object *reply);
};

/* Tables that end with a NULL name: faults.c, queries.c, rejoin.c. */
extern const struct agent_call agent_faults[], agent_looks[], agent_begins[];

/* --- sample.c: samples of this host's part --- */

/* Calls. Errors: -ENOMEM; -EINVAL, not started. */
int agent_sample(struct agent *agent, struct json_object *call, struct json_object *reply);
int agent_sample_end(struct agent *agent, struct json_object *call, struct json_object *reply);

/* The process at @node is about to detach. */
void agent_sample_leaves(struct agent *agent, uint32_t node);

/* Stops all sampling. */
void agent_sample_close(struct agent *agent);

/* --- clients.c: processes of this host --- */

/* Starts accepting connections. Errors: as admission_open(). */
int agent_process_open(struct agent *agent);
void agent_process_close(struct agent *agent);

/* Accepts a connection. */
void agent_process_accept(struct agent *agent);

/* The process with number @client; NULL: none. */
struct agent_process *agent_process_of(struct agent *agent, int64_t client);

/* {"client":C} */
struct json_object *agent_process_message(const struct agent_process *process);

/* Its socket is readable or writable. */
void agent_process_event(struct agent *agent, struct agent_process *process);

/* The coordinator sent it a line, which is put; a piece of a line; or closed its connection. */
void agent_process_line(struct agent *agent, struct agent_process *process,
                        struct json_object *line);
void agent_process_text(struct agent *agent, struct agent_process *process,
                        struct json_object *message);
void agent_process_dismiss(struct agent *agent, struct agent_process *process);

/*
 * Call this after each round of events. It serves waiting processes if the channel to the
 * coordinator has space again; otherwise no new process is accepted.
 */
void agent_process_resume(struct agent *agent);

/* Sends the signal of a fault. Errors: as kill(), procs_freeze(). */
int agent_process_signal(struct agent *agent, struct agent_process *process, int signal);

/* Reports how ended processes exited, and frees them. Call it between events. */
void agent_process_report_exits(struct agent *agent);

/* Longest sleep until the next check of ended processes; -1: none. */
int agent_process_wait_ms(const struct agent *agent);

/* Once a second. */
void agent_process_tick(struct agent *agent);

#endif
