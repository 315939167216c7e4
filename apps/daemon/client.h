/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client.h - internal to the daemon: its state, its connections, and the functions that its files
 * share. Everything here belongs to the daemon's only thread, which is the fabric's manager.
 *
 * A *client* is the other end of a connection: a process that attaches to a node, a command, or the
 * supervisor (the process that started the fabric). A *round* is one iteration of the daemon's
 * loop.
 */
#ifndef APPS_DAEMON_CLIENT_H
#define APPS_DAEMON_CLIENT_H

#include "apps/base/lines.h"
#include "apps/daemon/daemon.h"
#include "apps/control/conn.h"
#include "apps/control/admission.h"
#include "apps/daemon/timeline.h"
#include "apps/base/procs.h"
#include "apps/daemon/telemetry.h"
#include "emu/util/list.h"
#include "emu/util/now.h"

/* A connection. In its fields, "the process" is the process at the other end. */
struct client {
    struct conn conn;
    struct emu_list link; /* entry in daemon->clients, later in daemon->exiting */
    /* from SO_PEERCRED; for a process of another host, reported by that host */
    pid_t pid;
    struct coordinator_process *remote; /* the process, if it is on another host; else NULL */
    int64_t node;                       /* node that the process is attached to; -1: none */
    uint64_t incarnation; /* number of the process among all processes that have attached to its
                           * node, from 1 */
    int64_t rank;         /* the process's rank in its MPI job, reported by the process; -1: none */
    /* pending operations of the process (standstill.c); NULL: unknown */
    struct standstill_sample *sample;
    /* queues that the process has announced; NULL: none */
    struct daemon_queues *queues;
    char command[16];    /* name of an attached process */
    struct waits *waits; /* reads how long the process waits for cores; NULL: not readable */
    uint64_t waited_ns;  /* how long the process has waited for cores */
    uint64_t starved_ns; /* sum of emu_starved_ns() over the samples of this process */
    uint32_t events;     /* epoll events for which conn is registered */
    bool has_lines;      /* received requests may be waiting in conn's buffer */
    bool at_end;         /* the peer sends no more: close when has_lines is false */
    bool closing;        /* close when all queued bytes are sent */
    bool gone;           /* close at the end of this round */
    bool unread;         /* set with `gone`: the peer did not read the bytes that were sent to it */
    size_t excess;       /* conn_excess(); daemon->excess includes this number */
    uint32_t groups;     /* number of groups that are charged to the process */
    bool subscribed;     /* the client has subscribed to events */
    struct telemetry_reader telemetry;
    struct procs_stop stop;
    bool stopped;               /* set with `gone`: the process was stopped for too long */
    bool frozen;                /* a fault has stopped the process, and has not resumed it yet */
    bool captures;              /* the client has started the capture that is in progress */
    bool cut_off;               /* daemon_cut_off() has notified the process */
    bool exits;                 /* the process has announced that it exits without detaching */
    bool outside;               /* its MPI messages do not use the fabric (daemon_record.outside) */
    struct daemon_query *query; /* the query for which the last request waits; NULL: none */
    const struct request *request; /* the last request's row in the table of request.c */
    struct json_object *asked;     /* the last request, while it waits for the query; else NULL */
    uint64_t query_number;         /* number of the query that answers the last request */

    /* Set when the process has died (death.c). */
    int64_t died;      /* node to which the process was attached; -1: it has not died */
    int pidfd;         /* from procs_pidfd(); -1: none, or the process is on another host */
    int64_t how_by_ms; /* emu_now_ms() at which the daemon stops waiting for the cause of death */
};

/*
 * A query to all other hosts on behalf of requests of clients. Only these requests wait for the
 * replies; the daemon serves other clients. A request that arrives while a query is in progress
 * waits for the next query, so that each answer is newer than its request.
 */
struct daemon_query {
    uint64_t number; /* number of the last query, from 1 */
    bool waits;      /* a query is in progress */
};

#define DAEMON_SAMPLES 256u /* number of kept samples, one per second */

struct daemon {
    struct fabric *fabric;
    const struct daemon_config *config;
    const struct topo_graph *graph; /* the fabric's network */
    int epoll;
    int timer;                  /* expires once a second while a process is attached */
    bool ticking;               /* the timer is armed */
    struct admission admission; /* limits the number of connections */
    uint32_t hop_limit;         /* switches on the longest route */
    char fabric_id[17];         /* random: distinguishes this fabric from others of the same name */
    bool shutdown;              /* a signal or a request has asked the fabric to end */
    bool ending;                /* the end was announced */
    bool owner_gone;
    bool busy;                /* some client has requests that can be handled now */
    bool standstill_reported; /* the supervisor has been notified of a standstill */
    /* time at which run_stands_still() last returned true; 0: its last result was false */
    uint64_t standstill_ns;
    bool time_over; /* the supervisor has been notified that simulated time has ended */
    struct {
        uint64_t at_ns;       /* emu_now_ns() of the sample; 0: none yet */
        uint64_t starved_ns;  /* fabric_starved_ns() at that time */
    } sample[DAEMON_SAMPLES]; /* ring of the last samples (standstill.c) */
    uint32_t samples;         /* number of samples so far */
    /* 1 + id of the last group for which a disagreement of its members was reported; 0: none */
    uint64_t mismatch_group;
    struct emu_list clients;     /* all connections, the newest first */
    size_t excess;               /* sum of the clients' `excess`, in bytes */
    struct daemon_group *groups; /* all groups that processes have created, the newest first */
    /*
     * clients whose processes have died, in the order of deaths; a client stays in the list until
     * the cause of death is reported
     */
    struct emu_list exiting;
    struct client *owner;         /* the supervisor; NULL when its connection has ended */
    struct client **by_node;      /* by node: the attached process, or NULL */
    struct forgotten **forgotten; /* by node: errors forgotten before the process got them */
    int64_t *last_rank;           /* by node: rank of the process that attached last; -1: none */
    struct daemon_record record;
    struct procs_frozen frozen; /* processes of this host that faults have ever stopped */
    /* faults.c; NULL: there has been no fault, and no lost link between hosts */
    struct daemon_faults *faults;
    struct telemetry_serve *telemetry; /* telemetry.c; NULL: nobody has subscribed to it yet */
    struct daemon_calls *calls;        /* calls.c; NULL: no process has recorded calls */
    struct daemon_goal *goal;          /* goal.c; NULL: no group has been recorded */
    bool goal_lost;                    /* goal.c: there was no memory for a group */
    struct timeline_serve *timeline;   /* timeline.c; NULL: no timeline is recorded */
    uint64_t began_ps; /* start of the fabric, daemon_now_ps(); 0 on clock virtual */
    /* a file other than `events` and `snapshots` could not be written */
    bool unwritten;
    struct lines events;            /* the file of all events (--events) */
    struct lines snapshots;         /* the file of all events and snapshots (--record) */
    struct capture_thread *capture; /* the capture of --capture; NULL: none */
    /* controls the other hosts; NULL: there are no others, or they are not connected */
    struct coordinator *coordinator;
    struct daemon_query query[COORDINATOR_QUERIES];
    /* Work that calls other hosts, and therefore waits for a query: daemon_await() */
    struct {
        bool faults, standstill; /* a step of faults.c or standstill.c is due */
        bool links;              /* coordinator_links_mend() is due */
        bool back;               /* restarted hosts (remote.back) wait for the query */
        bool admit;              /* the query is complete, so these hosts may be admitted */
        uint64_t query_number;   /* number of the query that the work waits for; 0: none */
    } due;
    /* sum of all hosts' audits, for the query COORDINATOR_AUDIT; NULL: no memory */
    struct fabric_audit *audit;
    uint64_t audit_ns; /* emu_now_ns() when that query began */
    struct {
        /*
         * by cable: it is down because its two hosts have lost their connection; NULL: there is
         * only one host
         */
        bool *lost;
        /* by cable: its hosts are connected again, and settle_mended() has to handle that */
        bool *mended;
        bool *affected;      /* scratch space; by cable: the current loss affects it */
        bool lost_changed;   /* `lost` has changed, and settle_lost() has to handle it */
        bool mended_changed; /* `mended` has changed, and settle_mended() has to handle it */
        bool severed;        /* a cable is lost, and this fabric cannot reroute traffic */
        uint64_t gone;       /* bit per host: it is lost, and settle_gone() has to handle that */
        uint64_t back;       /* bit per host: it was restarted, and settle_back() has to admit it */
        uint64_t joins; /* bit per host: it was admitted, and some of its links are not up yet */
    } remote;           /* remote.c */

    /* Waits for cores since the last sample (waits.c). */
    struct {
        struct waits *fabric; /* reads how long this process's threads wait; NULL: not readable */
        uint64_t sample_ns;   /* emu_now_ns() of the last sample */
        uint64_t next_ns;     /* daemon_waits_tick() takes no sample before this time */
        /* sum of the waits, including those of processes that have detached since sample_ns */
        uint64_t ns;
        uint64_t over_ns;    /* part of `ns` that exceeds the time since the last sample */
        uint64_t starved_ns; /* largest waits_delta.starved_ns */
    } waits;
};

/* --- calls.c: --compute record:FILE and replay:FILE -------------------------------------- */

/**
 * daemon_calls_file - return a file descriptor for @client's process, which the caller closes. The
 * process records its calls in this file, or replays the calls that the file contains. Returns -1
 * if the process neither records nor replays. Errors, with one line in @error: -ENOENT, the
 * recording has no such process; -errno.
 */
int daemon_calls_file(struct daemon *daemon, const struct client *client, char *error,
                      size_t error_bytes);
/** daemon_calls_write - write the recorded calls. Call this after all processes have ended. */
void daemon_calls_write(struct daemon *daemon);
/** daemon_calls_unused - return how many parts of the recording no process has replayed. */
uint32_t daemon_calls_unused(const struct daemon *daemon);
void daemon_calls_close(struct daemon *daemon);

/* --- goal.c: --goal ---------------------------------------------------------------------- */

/* GOAL is a text format for the messages and computing of a program (docs/traffic.md). */

/** daemon_goal_group - remember the members of a new group, if processes record GOAL. */
void daemon_goal_group(struct daemon *daemon, uint32_t id, const uint32_t *nodes, uint32_t count);
/** daemon_goal_write - write the GOAL of all processes. The rank is the node's number. */
void daemon_goal_write(const struct daemon *daemon, FILE *out, struct json_object *origin,
                       const struct calls_part *part, size_t parts);
/**
 * daemon_goal_check - return whether the written GOAL is complete: all processes have ended well,
 * each node had only one process, and GOAL can express all calls. If not, print a line.
 */
bool daemon_goal_check(const struct daemon *daemon, const struct calls_part *part, size_t parts);
void daemon_goal_free(struct daemon *daemon);

/* --- client.c: connections ------------------------------------------------------------- */

/** daemon_accept - accept one connection, or reject it and send the reason. */
void daemon_accept(struct daemon *daemon);

/** daemon_client_new - create a client with connection @fd. NULL: no memory; @fd stays open. */
struct client *daemon_client_new(struct daemon *daemon, int fd, pid_t pid);

/**
 * daemon_client_gone - mark @client as gone. It is closed at the end of the round, when no function
 * uses it any more.
 * daemon_client_close() - close its connection.
 * daemon_client_free() - free the closed client.
 */
void daemon_client_gone(struct daemon *daemon, struct client *client);
void daemon_client_close(struct daemon *daemon, struct client *client);
void daemon_client_free(struct client *client);

/** daemon_client_events - register the epoll events that @client's state needs. */
void daemon_client_events(struct daemon *daemon, struct client *client);

/**
 * daemon_client_count - update daemon->excess. If it exceeds CONN_EXCESS_MAX, mark the clients with
 * the largest excess as gone, because they do not read.
 */
void daemon_client_count(struct daemon *daemon, struct client *client);

/** daemon_client_flush - send as many of the queued bytes as the socket accepts. */
void daemon_client_flush(struct daemon *daemon, struct client *client);

/** daemon_client_host - return the number of the client's host; 0: this host. */
uint32_t daemon_client_host(const struct client *client);

/** daemon_client_command - write the name of the client's process, or "" if it is unknown. */
void daemon_client_command(const struct client *client, char *ret, size_t ret_bytes);

/** daemon_connections_of - count the connections of process @pid on @host. @ctx: the daemon. */
uint32_t daemon_connections_of(void *ctx, uint32_t host, pid_t pid);

/**
 * daemon_send - queue @message, release it (json_object_put()), and send as many bytes as the
 * socket accepts.
 */
void daemon_send(struct daemon *daemon, struct client *client, struct json_object *message);

void daemon_send_line(struct daemon *daemon, struct client *client, const char *line, size_t bytes);

/** daemon_send_with - as daemon_send(), and also pass the descriptors @pass to the client. */
void daemon_send_with(struct daemon *daemon, struct client *client, struct json_object *message,
                      const int pass[EMU_JSON_FDS]);

/** daemon_reply_error - reply {"ok":false,…} with a line for the user. */
void daemon_reply_error(struct daemon *daemon, struct client *client, int err, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/** daemon_signal - send @signal to the client's process. Returns false if the process has ended. */
bool daemon_signal(const struct client *client, int signal);

/**
 * daemon_freeze - stop the client's process because of a fault or, if @stop is false, resume it.
 * The first time that a process is stopped, notify the supervisor, which resumes the process if
 * this daemon dies. Returns false if the process has ended, or if there is no memory or descriptor
 * to add it to daemon->frozen.
 */
bool daemon_freeze(struct daemon *daemon, struct client *client, bool stop);

void daemon_subscribe(struct daemon *daemon, struct client *client, struct json_object *request);

/**
 * daemon_notify_owner - send @event to the supervisor, if its connection is open, and release the
 * event.
 */
void daemon_notify_owner(struct daemon *daemon, struct json_object *event);

/**
 * daemon_publish - send @event to all subscribers, write it to the files, and release it.
 * daemon_publish_from() - do the same with an event that @host has reported.
 */
void daemon_publish(struct daemon *daemon, struct json_object *event);
void daemon_publish_from(struct daemon *daemon, uint32_t host, struct json_object *event);

/**
 * daemon_event - create an event of kind @what at @at_ps (daemon_now_ps()). Its field "s" is the
 * time in seconds since the fabric's start.
 */
struct json_object *daemon_event(const struct daemon *daemon, const char *what, uint64_t at_ps);

/**
 * daemon_has_subscribers - return whether daemon_publish() reaches a subscriber, a file or the
 * timeline.
 */
bool daemon_has_subscribers(const struct daemon *daemon);

/**
 * daemon_now_ps - return the present, by the clock of events: the host's monotonic clock or, on
 * clock virtual, the simulated time.
 */
static inline uint64_t daemon_now_ps(const struct daemon *daemon)
{
    return fabric_process_ps(daemon->fabric);
}

/* --- daemon.c: the loop ----------------------------------------------------------------- */

/**
 * daemon_watch - wake the loop when @fd is readable. @what: the address by which the loop
 * recognises @fd.
 * Errors: -errno.
 */
int daemon_watch(struct daemon *daemon, int fd, const void *what);

/**
 * daemon_watch_new - watch a new descriptor; on an error, close it. @fd: the descriptor, or -1 if
 * the call that creates it has failed and set errno. Returns @fd or -errno.
 */
int daemon_watch_new(struct daemon *daemon, int fd, const void *what);

/**
 * daemon_timer_open - create a timer that wakes the loop. Returns its descriptor or -errno.
 * daemon_timer_set() - let the timer expire once, at @at_ns of emu_now_ns(); EMU_NEVER: never.
 */
int daemon_timer_open(struct daemon *daemon, const void *what);
void daemon_timer_set(int timer, uint64_t at_ns);

/**
 * daemon_tick_when - start or stop the timer: it runs while a process is attached or admission is
 * paused.
 */
void daemon_tick_when(struct daemon *daemon);

/** daemon_least_ms - return the shorter of two time limits; -1 stands for no limit. Pure. */
static inline int daemon_least_ms(int a, int b)
{
    return b >= 0 && (a < 0 || b < a) ? b : a;
}

/**
 * daemon_cut_off - handle the report that the process at @node does not read its segments: notify
 * the process and the supervisor, but only once. Does nothing if no process is attached to @node.
 */
void daemon_cut_off(struct daemon *daemon, uint32_t node);

/**
 * daemon_reap - handle all deaths that were noticed but not yet handled, so that the nodes of these
 * processes become free. Called at the end of a round, and before a process attaches.
 */
void daemon_reap(struct daemon *daemon);

/* --- request.c -------------------------------------------------------------------------- */

/**
 * daemon_request - handle one request of @client. If the reply needs data of other hosts, start a
 * query of these hosts. The daemon reads the client's next request after the query.
 */
void daemon_request(struct daemon *daemon, struct client *client, struct json_object *request);

/**
 * daemon_queries_settle - at the end of a round: reply to the requests whose queries are complete.
 * daemon_queries_wait_ms() - return how long the loop may sleep until a query must end; -1: no
 * query is in progress.
 * daemon_queries_end() - answer all waiting requests with an error, because the fabric is shutting
 * down.
 */
void daemon_queries_settle(struct daemon *daemon);
int daemon_queries_wait_ms(struct daemon *daemon);
void daemon_queries_end(struct daemon *daemon);

/** daemon_operation - begin an operation, as coordinator_operation() explains. */
void daemon_operation(struct daemon *daemon);

/**
 * daemon_await - do the work that is marked in daemon->due when all other hosts have replied to a
 * query. Therefore a host that does not reply delays the work, but not the daemon.
 */
void daemon_await(struct daemon *daemon);

/** daemon_report - return the current run report. The caller releases it. */
struct json_object *daemon_report(struct daemon *daemon);

/** daemon_node_free - detach the process of @client from its node. @dead: the process has ended. */
void daemon_node_free(struct daemon *daemon, struct client *client, bool dead);

/* --- groups.c ---------------------------------------------------------------------------- */

/* Requests of the members of groups. */
void daemon_group_create(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_join(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_leave(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_break(struct daemon *daemon, struct client *client, struct json_object *request);

/**
 * daemon_group_fail - notify the members of group @id that its operations cannot complete any more.
 * @why: one line that names the switch or the cable.
 */
void daemon_group_fail(struct daemon *daemon, uint32_t id, const char *why);

/**
 * daemon_groups_quit - remove @client from all of its groups, which breaks them. Returns an array
 * with an element for each node: the list of the broken groups that have the node as a joined or
 * invited member, or NULL if there are none. Returns NULL if there is no memory. The caller frees
 * the array and releases the lists.
 */
struct json_object **daemon_groups_quit(struct daemon *daemon, struct client *client);

/**
 * daemon_groups_break_unreachable - break the groups of which some members cannot reach each other.
 * Returns an array like daemon_groups_quit().
 */
struct json_object **daemon_groups_break_unreachable(struct daemon *daemon);

/**
 * daemon_groups_each - call @each for every group, with the host of the process that made it, and
 * the nodes of joined or invited members.
 */
void daemon_groups_each(struct daemon *daemon,
                        void (*each)(void *context, uint32_t id, uint32_t host,
                                     const uint32_t *nodes, uint32_t count),
                        void *context);

/** daemon_groups_free - free the daemon's list of groups. The groups stay in the fabric. */
void daemon_groups_free(struct daemon *daemon);

/* --- queues.c ---------------------------------------------------------------------------- */

/* Requests to announce a queue to the processes of the host, to withdraw it, and to find it. */
void daemon_queue_announce(struct daemon *daemon, struct client *client,
                           struct json_object *request);
void daemon_queue_withdraw(struct daemon *daemon, struct client *client,
                           struct json_object *request);
void daemon_queue_find(struct daemon *daemon, struct client *client, struct json_object *request);

/** daemon_queues_forget - withdraw all queues that the process of @client has announced. */
void daemon_queues_forget(struct client *client);

/* --- refusals.c -------------------------------------------------------------------------- */

/**
 * daemon_refused - handle a report that a request of @client's process was refused.
 * daemon_refusals_forget() - forget the refusals of a process, because it has attached.
 */
void daemon_refused(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_refusals_forget(struct daemon *daemon, const struct client *client);

/* --- death.c ----------------------------------------------------------------------------- */

/**
 * daemon_left - called when the process of @client detaches. Free its node, break the groups that
 * it did not leave, and notify their members.
 */
void daemon_left(struct daemon *daemon, struct client *client);

/**
 * daemon_died - called when the process of @client, which is marked as gone, has ended without
 * detaching. Free its node and notify all other processes. This may mark further clients as gone;
 * daemon_reap() handles them.
 */
void daemon_died(struct daemon *daemon, struct client *client);

/**
 * daemon_notify_broken - notify the members of the groups in @lists (by node, as
 * daemon_groups_quit() returns them) that node @by has broken these groups. Frees @lists.
 */
void daemon_notify_broken(struct daemon *daemon, uint32_t by, struct json_object **lists);

/**
 * daemon_notify_unreachable - break the groups of which some members cannot reach each other, and
 * notify each process of these groups and of the nodes that it cannot reach.
 */
void daemon_notify_unreachable(struct daemon *daemon);

/**
 * daemon_exiting_add - become the owner of @client until the cause of death is known. Its process
 * has died, and its connection is closed.
 */
void daemon_exiting_add(struct daemon *daemon, struct client *client);

/**
 * daemon_exiting_report - record and report the deaths whose cause is known, in order, and free the
 * clients. @all: report the other deaths, too, with an unknown cause. Never waits.
 */
void daemon_exiting_report(struct daemon *daemon, bool all);

/**
 * daemon_exiting_wait_ms - return how long the loop may sleep until a death must be reported; -1:
 * there is none.
 */
int daemon_exiting_wait_ms(const struct daemon *daemon);

/* --- remote.c ---------------------------------------------------------------------------- */

/**
 * daemon_remote_open - connect to the hosts in daemon->config->hosts, as their coordinator. Errors:
 * as coordinator_open().
 * daemon_remote_settle() - at the end of a round: handle hosts and links that were lost or have
 * come back.
 * daemon_remote_tick() - once a second: repeat the notification of processes that cannot reach each
 * other.
 * daemon_remote_close() - end the parts of the fabric on other hosts: coordinator_close().
 */
int daemon_remote_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_remote_settle(struct daemon *daemon);
void daemon_remote_tick(struct daemon *daemon);
void daemon_remote_close(struct daemon *daemon, const char *why);

/** daemon_host_add - add to @one the name of the host of @node, if there are several hosts. */
void daemon_host_add(const struct daemon *daemon, uint32_t node, struct json_object *one);

/** daemon_hosts_report - add all hosts and their links to @report, if there are several. */
void daemon_hosts_report(struct daemon *daemon, struct json_object *report);

/* --- capture.c --------------------------------------------------------------------------- */

/*
 * Requests to start and to stop a capture.
 * daemon_capture_left() - end the capture of @client, because its connection closes.
 * daemon_capture_open() - start the capture that --capture requests, which lasts as long as the
 * fabric. Errors: as capture_begin().
 * daemon_capture_close() - stop this capture.
 */
void daemon_capture(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_capture_stop(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_capture_left(struct daemon *daemon, struct client *client);
int daemon_capture_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_capture_close(struct daemon *daemon);

/* --- waits.c ----------------------------------------------------------------------------- */

/**
 * daemon_waits_open - start sampling the waits of the fabric's threads.
 * daemon_waits_close - stop sampling them.
 */
void daemon_waits_open(struct daemon *daemon);
void daemon_waits_close(struct daemon *daemon);

/**
 * daemon_waits_attach - start sampling the waits of @client's process.
 * daemon_waits_detach() - take the last sample. @dead: the process has ended, so its counters
 * cannot be read. Call both while @client has its node.
 */
void daemon_waits_attach(struct daemon *daemon, struct client *client);
void daemon_waits_detach(struct daemon *daemon, struct client *client, bool dead);

/**
 * daemon_waits_sample - sample all processes now, which updates daemon->record.
 * daemon_waits_tick() - sample all processes, unless samples would take too much of this thread's
 * time.
 */
void daemon_waits_sample(struct daemon *daemon);
void daemon_waits_tick(struct daemon *daemon);

/* --- standstill.c ------------------------------------------------------------------------ */

/**
 * daemon_standstill_attach - start sampling the pending operations of @client's process.
 * daemon_standstill_detach() - take the last sample. Call both while @client has its node.
 */
void daemon_standstill_attach(struct daemon *daemon, struct client *client);
void daemon_standstill_detach(struct daemon *daemon, struct client *client);

/** daemon_standstill_tick - sample all processes, and notify the supervisor if nothing moves. */
void daemon_standstill_tick(struct daemon *daemon);

/** daemon_process_build - build an object with node, host, pid and command of @client. */
struct json_object *daemon_process_build(const struct daemon *daemon, const struct client *client);

/** daemon_standstill_client - add to @one the pending operations of @client as last sampled. */
void daemon_standstill_client(const struct daemon *daemon, const struct client *client,
                              struct json_object *one);

/** daemon_standstill_add - sample all processes, and add "standstill" to @reply. */
void daemon_standstill_add(struct daemon *daemon, struct json_object *reply);

#endif
