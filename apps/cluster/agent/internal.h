/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - shared by the files of an agent, which is a host other than the coordinator.
 * Everything is used only by one thread: the fabric's manager on this host. Internal to this
 * folder.
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

struct agent_process {
    struct emu_list link;
    struct conn conn;
    uint32_t events; /* epoll events for which conn is registered */
    int64_t client;  /* the process's number in messages to the coordinator, unique on this host */
    pid_t pid;
    uint32_t asked;      /* number of requests that have no reply yet; at most HOSTS_ASKED_MOST */
    bool in_line;        /* the text sent to the process so far ends in the middle of a line */
    size_t owed;         /* bytes of text from the coordinator that are not acknowledged yet */
    int wrong;           /* 0, or -errno of an invalid line that the process has sent after its
                          * last request */
    bool attached;       /* the process has a node: if its connection ends, it has died */
    bool at_end;         /* the process has closed its sending side. It still gets replies,
                          * but sends no more requests */
    bool closing;        /* close the connection when all output is sent */
    bool dismissed;      /* the coordinator has closed the connection */
    bool exits;          /* the process has announced that it exits without detaching */
    bool ended;          /* its connection has ended; this structure is kept until the exit
                          * status is known */
    int pidfd;           /* pidfd of the ended process, or -1 */
    int64_t how_by_ms;   /* emu_now_ms() at which the wait for its exit status ends */
    struct waits *waits; /* reads how long it waits for cores; NULL: not attached, or not
                          * readable */
    struct procs_stop stop;
    /* this agent has reported that the process was stopped for longer than --bound stopped */
    bool stopped;
};

/* A host interface made for a process that has not received its descriptors yet. */
struct agent_reservation {
    struct emu_list link;
    struct fabric_attachment attachment;
};

struct agent {
    struct fabric *fabric;
    const struct agent_config *config;
    struct injector *injector;         /* NULL until the coordinator applies a fault on this host */
    struct telemetry_agent *telemetry; /* NULL while no samples of counters are requested */
    struct timeline_agent *timeline;   /* NULL while no finished operations are requested */
    struct text_buf report;            /* last piece of a sample of counters or operations */
    struct conn coordinator;
    uint32_t coordinator_events;
    struct conn owner;
    int epoll;
    int timer;                  /* timerfd, expires once a second */
    int64_t clients;            /* number for the next process: agent_process.client */
    struct admission admission; /* its field `connections` is the number of elements of
                                 * `processes` */
    struct emu_list processes;
    struct waits *waits; /* reads how long this process's own threads wait for cores; NULL: not
                          * readable */
    uint64_t waits_ns;   /* emu_now_ns() when the waits of all processes were last read */
    bool blocked;        /* some processes wait for space in coordinator.out */
    struct procs_frozen frozen; /* processes of this host that faults have stopped */
    struct emu_list reservations;
    int64_t began_ms;
    bool connected;            /* the coordinator has sent a message */
    int64_t good_ms;           /* emu_now_ms() when links_why() last returned that waiting makes
                                * sense */
    char why[HOSTS_WHY_BYTES]; /* why the coordinator did not connect, or why it ended the fabric */
    bool over;
    enum agent_end end;
};

/* --- agent.c --- */

/* End this host for reason @end. Only the first call has an effect. */
void agent_end_with(struct agent *agent, enum agent_end end);

/* Send @message to the coordinator, and release it. */
void agent_send(struct agent *agent, struct json_object *message);

/* Return the host interface made for @node; NULL if there is none. */
struct agent_reservation *agent_reservation_of(struct agent *agent, int64_t node);

/*
 * Free a reservation. @passed: the descriptors were passed on to another owner, so do not close
 * them.
 */
void agent_reservation_free(struct agent_reservation *reservation, bool passed);

/* --- calls of the coordinator --- */

/* Execute a call, and add fields to @reply. Errors: a negative errno, which the reply gets, too. */
struct agent_call {
    const char *name;
    int (*execute)(struct agent *agent, struct json_object *call, struct json_object *reply);
};

/* Calls that are not in agent.c. Each table ends with a NULL name. */
extern const struct agent_call agent_faults[], agent_queries[], agent_rejoin_calls[];

/* --- sample.c: samples of this host's part --- */

/*
 * Calls "sample" and "sample_end". Errors: -ENOMEM; -EINVAL, there is no such kind, or its sampling
 * was not started.
 */
int agent_sample(struct agent *agent, struct json_object *call, struct json_object *reply);
int agent_sample_end(struct agent *agent, struct json_object *call, struct json_object *reply);

/* Take the last counters and operations of the process at @node, which is about to detach. */
void agent_sample_leaves(struct agent *agent, uint32_t node);

void agent_sample_close(struct agent *agent);

/* --- clients.c: processes of this host --- */

/* Start accepting connections. Errors: as admission_open(). */
int agent_process_open(struct agent *agent);
void agent_process_close(struct agent *agent);

void agent_process_accept(struct agent *agent);

/* Return the process with number @client; NULL if there is none. */
struct agent_process *agent_process_of(struct agent *agent, int64_t client);

/* Begin a message about the process: {"client":C}. */
struct json_object *agent_process_message(const struct agent_process *process);

void agent_process_event(struct agent *agent, struct agent_process *process);

/*
 * Handle a message of the coordinator about the process: a line for it (@line is released), a piece
 * of a line, or the end of its connection.
 */
void agent_process_line(struct agent *agent, struct agent_process *process,
                        struct json_object *line);
void agent_process_text(struct agent *agent, struct agent_process *process,
                        struct json_object *message);
void agent_process_dismiss(struct agent *agent, struct agent_process *process);

/*
 * Call this after each round of events. If the channel to the coordinator has space, serve the
 * processes that waited for space; otherwise stop accepting connections.
 */
void agent_process_resume(struct agent *agent);

/* Send a signal to the process because of a fault. Errors: as kill() and procs_freeze(). */
int agent_process_signal(struct agent *agent, struct agent_process *process, int signal);

/* Report to the coordinator how ended processes exited, and free them. Call this between events. */
void agent_process_report_exits(struct agent *agent);

/*
 * Return for how many ms the thread may sleep until it must check ended processes again; -1 if
 * there are none.
 */
int agent_process_wait_ms(const struct agent *agent);

/*
 * Once a second, make the checks that the coordinator's daemon makes for the processes of its own
 * host.
 */
void agent_process_tick(struct agent *agent);

#endif
