/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client.h - internal to the daemon: its state, its connections, and what its files offer each
 * other. Everything here belongs to the daemon's one thread, the fabric's manager.
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

/* A connection. */
struct client {
    struct conn conn;
    struct emu_list link; /* in daemon->clients, then in daemon->dying */
    pid_t pid;            /* from SO_PEERCRED, or from the process's host */
    struct coordinator_process
        *remote;                      /* the process if it is on another host; NULL: on this one */
    int64_t node;                     /* node that the process is attached to; -1: none */
    uint64_t incarnation;             /* number of this process among the node's, from 1 */
    int64_t rank;                     /* in its MPI job, as the process says; -1: none */
    struct standstill_sample *sample; /* its pending operations (standstill.c); NULL: unknown */
    char command[16];                 /* name of an attached process */
    struct waits *waits;              /* its waits for cores; NULL: they cannot be read */
    uint64_t waited_ns;               /* sum of these waits */
    uint32_t events;                  /* epoll events that it is registered for */
    bool has_lines;                   /* received lines may still wait to be handled */
    bool at_end;                      /* the peer sends no more: close when has_lines is false */
    bool closing;                     /* close when all replies are sent */
    bool gone;                        /* closed at the end of this round of events */
    bool unread;                      /* gone because it did not read its events */
    size_t excess;                    /* conn_excess(), as included in daemon->excess */
    uint32_t groups;                  /* number of groups that are charged to it */
    bool subscribed;                  /* it gets all events */
    struct telemetry_reader telemetry;
    struct procs_stop stop;
    bool stopped;                  /* gone because it was stopped for too long */
    bool frozen;                   /* a fault has stopped the process, and has not resumed it yet */
    bool captures;                 /* it owns the fabric's capture */
    bool exits;                    /* the process has announced its exit, without detaching */
    bool outside;                  /* its MPI messages use another transport: counted once */
    struct daemon_query *asks;     /* query that its last request waits for; NULL: none */
    const struct request *request; /* the row of request.c for that request */
    uint64_t asked;                /* number of that query */

    /* Only after the process has died (death.c). */
    int64_t died;      /* node that it was attached to; -1: it did not die */
    int pidfd;         /* pidfd; -1: none */
    int64_t how_by_ms; /* until this time the cause of death may still become known */
};

/*
 * A query to all other hosts for the requests of clients; nothing else waits for it. A request that
 * arrives during a query waits for the next one, so that each answer is newer than its request.
 */
struct daemon_query {
    uint64_t number; /* of the last query, from 1 */
    bool waits;      /* it is in progress */
};

#define DAEMON_SAMPLES 256u /* samples, one a second */

struct daemon {
    struct fabric *fabric;
    const struct daemon_config *config;
    const struct topo_graph *graph; /* the fabric's */
    int epoll;
    int timer;                  /* once a second while a process is attached */
    bool ticking;               /* the timer is armed */
    struct admission admission; /* admits connections */
    uint32_t hop_limit;         /* switches on the longest route */
    char fabric_id[17];         /* random: distinguishes fabrics of the same name */
    bool shutdown;              /* requested */
    bool owner_gone;
    bool busy;   /* a client has lines that can be handled now */
    bool stands; /* the supervisor was notified of a standstill */
    struct {
        uint64_t at_ns;          /* 0: none yet */
        uint64_t starved_ns;     /* fabric_starved_ns() at that time */
    } sample[DAEMON_SAMPLES];    /* ring of the last samples of standstill.c */
    uint32_t samples;            /* number of samples so far */
    uint64_t mismatch_group;     /* 1 + the last group whose members were reported to disagree */
    struct emu_list clients;     /* all connections, the newest first */
    size_t excess;               /* bytes of their buffers, beyond EMU_JSON_KEEP each */
    struct daemon_group *groups; /* all groups that processes have created */
    struct emu_list exiting;     /* clients that died from a cause not known yet, in order */
    struct client *owner;        /* the supervisor; NULL when its connection has ended */
    struct client **by_node;     /* by node: the attached process, or NULL */
    int64_t *last_rank;          /* by node: rank of the last process; -1: none */
    struct daemon_record record;
    struct procs_frozen frozen;        /* processes of this host that faults stop at any time */
    struct daemon_faults *faults;      /* faults.c; NULL: no fault was requested so far */
    struct telemetry_serve *telemetry; /* telemetry.c; NULL: nobody has subscribed so far */
    struct timeline_serve *timeline;   /* timeline.c; NULL: none */
    uint64_t began_ps;                 /* start of the fabric, daemon_now_ps() */
    bool unwritten;                    /* a file other than the next two could not be written */
    struct lines events;               /* file of all events */
    struct lines snapshots;            /* file of all events and snapshots */
    struct capture_thread *capture;    /* of --capture; NULL: none */
    struct coordinator *coordinator;   /* the agents of this coordinator; NULL: none */
    struct daemon_query query[COORDINATOR_QUERIES];
    struct fabric_audit *audit; /* sum of COORDINATOR_AUDIT so far; NULL: no memory */
    uint64_t audit_ns;          /* emu_now_ns() at its start */
    struct {
        bool *lost;     /* by cable between hosts: it is down; NULL: this is the only host */
        bool *mended;   /* by cable: it was lost and works again, which settle_mended() handles */
        bool *now;      /* scratch: the cables of one loss */
        bool news;      /* `lost` has changed and was not handled yet */
        bool heals;     /* `mended` has changed and was not handled yet */
        bool severed;   /* a cable is lost, and the profile cannot send around it */
        uint64_t gone;  /* bit per host: lost, and its collectives have not been failed yet; */
        uint64_t back;  /* restarted, and waiting to be admitted; */
        uint64_t joins; /* admitted, and some of its links are not up yet */
    } remote;           /* far.c */

    /* Waits for cores since the last sample. Owner: waits.c. */
    struct {
        struct waits *fabric; /* this process's; NULL: they cannot be read */
        uint64_t sample_ns;   /* when the last sample was taken */
        uint64_t next_ns;     /* no sample before this time, since one takes time */
        uint64_t ns;          /* of processes that have left since then */
        uint64_t over_ns;     /* the part of ns before the last sample */
        uint64_t starved_ns;  /* struct waits_delta: the largest of all threads */
    } waits;
};

/* --- client.c: connections ------------------------------------------------------------- */

/** daemon_accept - accept one connection, or reject it with a reason. */
void daemon_accept(struct daemon *daemon);

/** daemon_client_new - a client on @fd. NULL: no memory; the caller keeps @fd. */
struct client *daemon_client_new(struct daemon *daemon, int fd, pid_t pid);

/**
 * daemon_client_gone - mark @client; it is closed at the end of the round, when no caller uses it.
 * daemon_client_close() - close its connection. daemon_client_free() - free it after that.
 */
void daemon_client_gone(struct daemon *daemon, struct client *client);
void daemon_client_close(struct daemon *daemon, struct client *client);
void daemon_client_free(struct client *client);

/** daemon_client_events - register the epoll events that @client's state needs. */
void daemon_client_events(struct daemon *daemon, struct client *client);

/**
 * daemon_client_count - update the sum of the memory of all buffers. Above CONN_EXCESS_MAX, close
 * the clients that have most of it: they do not read.
 */
void daemon_client_count(struct daemon *daemon, struct client *client);

/** daemon_client_flush - send queued bytes, as many as the socket takes. */
void daemon_client_flush(struct daemon *daemon, struct client *client);

/** daemon_connections_of - number of connections of process @pid on @host. @ctx: the daemon. */
uint32_t daemon_connections_of(void *ctx, uint32_t host, pid_t pid);

/** daemon_send - queue @message, put it, and send what the socket takes. */
void daemon_send(struct daemon *daemon, struct client *client, struct json_object *message);

/** daemon_send_line - the same for a line of telemetry, conn_put_line(). */
void daemon_send_line(struct daemon *daemon, struct client *client, const char *line, size_t bytes);

/** daemon_send_with - the same with descriptors, which pass to the client: conn_put_with(). */
void daemon_send_with(struct daemon *daemon, struct client *client, struct json_object *message,
                      const int pass[EMU_JSON_FDS]);

/** daemon_reply_error - answer {"ok":false,…} with one line for the user. */
void daemon_reply_error(struct daemon *daemon, struct client *client, int err, const char *format,
                        ...) __attribute__((format(printf, 4, 5)));

/** daemon_signal - send @signal to the client's process. False: it has ended. */
bool daemon_signal(const struct client *client, int signal);

/**
 * daemon_freeze - a fault stops the client's process (@stands), or resumes it. The supervisor is
 * notified the first time, and resumes the process if this one dies. False: the process has ended,
 * or there is no memory or descriptor to list it.
 */
bool daemon_freeze(struct daemon *daemon, struct client *client, bool stands);

/** daemon_subscribe - a request for all events. */
void daemon_subscribe(struct daemon *daemon, struct client *client, struct json_object *request);

/** daemon_notify_owner - send @event to the supervisor if it still runs, and put it. */
void daemon_notify_owner(struct daemon *daemon, struct json_object *event);

/** daemon_publish - send @event to all subscribers, write it to the files, and put it. */
void daemon_publish(struct daemon *daemon, struct json_object *event);

/** daemon_event - an event at @at_ps (daemon_now_ps()); "s": seconds since the fabric's start. */
struct json_object *daemon_event(const struct daemon *daemon, const char *what, uint64_t at_ps);

/** daemon_has_subscribers - does daemon_publish() reach a subscriber or a file? */
bool daemon_has_subscribers(const struct daemon *daemon);

/** daemon_now_ps - the host's monotonic clock. */
static inline uint64_t daemon_now_ps(void)
{
    return emu_now_ns() * 1000u;
}

/* --- daemon.c: the loop ----------------------------------------------------------------- */

/** daemon_watch - wake the loop when @fd is readable; @what: address that identifies it. -errno. */
int daemon_watch(struct daemon *daemon, int fd, const void *what);

/**
 * daemon_timer_open - create a timer that wakes the loop. Returns its descriptor or -errno.
 * daemon_timer_set() - let it expire once at @at_ns of emu_now_ns(); EMU_NEVER: disarm it.
 */
int daemon_timer_open(struct daemon *daemon, const void *what);
void daemon_timer_set(int timer, uint64_t at_ns);

/** daemon_tick_when - arm the tick while a process is attached or the door is deaf. */
void daemon_tick_when(struct daemon *daemon);

/** daemon_least_ms - the shorter of two time limits; -1: none. Pure. */
static inline int daemon_least_ms(int a, int b)
{
    return b >= 0 && (a < 0 || b < a) ? b : a;
}

/** daemon_cut_off - the process at @node does not receive: notify it and the supervisor. */
void daemon_cut_off(struct daemon *daemon, uint32_t node);

/**
 * daemon_reap - handle all deaths that were noticed and not handled yet; then their nodes are free.
 * At the end of a round, and before a process attaches.
 */
void daemon_reap(struct daemon *daemon);

/* --- request.c -------------------------------------------------------------------------- */

/**
 * daemon_request - answer one request of @client. If the answer needs other hosts, query them; no
 * more of the client's requests are read until they have answered.
 */
void daemon_request(struct daemon *daemon, struct client *client, struct json_object *request);

/**
 * daemon_queries_settle - at the end of a round: answer the requests whose queries are complete.
 * daemon_queries_wait_ms() - how long the loop may sleep for them; -1: no query is in progress.
 * daemon_queries_end() - answer all with an error, because the fabric ends.
 */
void daemon_queries_settle(struct daemon *daemon);
int daemon_queries_wait_ms(struct daemon *daemon);
void daemon_queries_end(struct daemon *daemon);

/** daemon_report - the report so far. The caller puts it. */
struct json_object *daemon_report(struct daemon *daemon);

/** daemon_node_free - detach @client from its node and free the node. @dead: the process ended. */
void daemon_node_free(struct daemon *daemon, struct client *client, bool dead);

/* --- groups.c ---------------------------------------------------------------------------- */

/* Requests of a group's members. */
void daemon_group_create(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_join(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_leave(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_break(struct daemon *daemon, struct client *client, struct json_object *request);

/**
 * daemon_group_fail - no operation of group @id can complete any more: notify its members. @why: a
 * line that names the switch or the cable.
 */
void daemon_group_fail(struct daemon *daemon, uint32_t id, const char *why);

/**
 * daemon_groups_quit - remove @client from all of its groups, which breaks them. Returns, by node,
 * a list of the broken groups that the node's process is a member of or invited to; NULL: none. The
 * caller frees the array and puts the lists.
 */
struct json_object **daemon_groups_quit(struct daemon *daemon, struct client *client);

/**
 * daemon_groups_break_unreachable - break the groups with members that cannot reach each other;
 * likewise. */
struct json_object **daemon_groups_break_unreachable(struct daemon *daemon);

/** daemon_groups_each - call @each for every group, with the members that have joined it. */
void daemon_groups_each(struct daemon *daemon,
                        void (*each)(void *context, uint32_t id, const uint32_t *nodes,
                                     uint32_t count),
                        void *context);

/** daemon_groups_free - free the list of groups. The groups in the fabric stay. */
void daemon_groups_free(struct daemon *daemon);

/* --- death.c ----------------------------------------------------------------------------- */

/** daemon_left - @client detaches: free its node and break the groups that it did not leave. */
void daemon_left(struct daemon *daemon, struct client *client);

/**
 * daemon_died - @client, which is gone, had not detached: free its node and notify all others. A
 * send may find further clients that are gone; daemon_reap() handles them.
 */
void daemon_died(struct daemon *daemon, struct client *client);

/** daemon_notify_broken - @by left the groups in @lists: notify their members. Frees @lists. */
void daemon_notify_broken(struct daemon *daemon, uint32_t by, struct json_object **lists);

/**
 * daemon_notify_unreachable - notify processes of the nodes they cannot reach and of groups broken
 * by that. */
void daemon_notify_unreachable(struct daemon *daemon);

/** daemon_exiting_add - take over @client, which died and is closed, until the cause is known. */
void daemon_exiting_add(struct daemon *daemon, struct client *client);

/**
 * daemon_exiting_report - record, report and free, in order, the dead whose cause is known. @all:
 * also the others. Never waits.
 */
void daemon_exiting_report(struct daemon *daemon, bool all);

/** daemon_exiting_wait_ms - how long the loop may sleep for them; -1: there are none. */
int daemon_exiting_wait_ms(const struct daemon *daemon);

/* --- far.c ------------------------------------------------------------------------------- */

/**
 * daemon_remote_open - connect to the hosts of daemon->config->hosts, as their coordinator. Errors:
 * as coordinator_open(). daemon_remote_settle() - at the end of a round: handle lost and resynced
 * hosts and links. daemon_remote_tick() - once a second: report processes that cannot reach each
 * other.
 * daemon_remote_close() - shut the other hosts down: coordinator_close().
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
 * Requests to start and to stop a capture; _left: @client closes, which ends its capture; _open and
 * _close: the capture of daemon->config, for the fabric's lifetime. Errors: as capture_begin().
 */
void daemon_capture(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_capture_stop(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_capture_left(struct daemon *daemon, struct client *client);
int daemon_capture_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_capture_close(struct daemon *daemon);

/* --- waits.c ----------------------------------------------------------------------------- */

/** daemon_waits_open, daemon_waits_close - start and stop sampling the fabric's own threads. */
void daemon_waits_open(struct daemon *daemon);
void daemon_waits_close(struct daemon *daemon);

/**
 * daemon_waits_attach - start sampling @client's process. daemon_waits_detach() - take the last
 * sample. @dead: its counters cannot be read any more. @client has its node in both.
 */
void daemon_waits_attach(struct daemon *daemon, struct client *client);
void daemon_waits_detach(struct daemon *daemon, struct client *client, bool dead);

/**
 * daemon_waits_sample - sample all processes, so that the record is current. daemon_waits_tick() -
 * the same, unless the last sample took so long that it is too early for another.
 */
void daemon_waits_sample(struct daemon *daemon);
void daemon_waits_tick(struct daemon *daemon);

/* --- standstill.c ------------------------------------------------------------------------ */

/**
 * daemon_standstill_attach - start sampling the pending operations of @client's process.
 * daemon_standstill_detach() - take the last sample. @client has its node in both.
 */
void daemon_standstill_attach(struct daemon *daemon, struct client *client);
void daemon_standstill_detach(struct daemon *daemon, struct client *client);

/** daemon_standstill_tick - sample all processes; notify the supervisor if nothing moves. */
void daemon_standstill_tick(struct daemon *daemon);

/** daemon_process_build - an object with node, host, pid and command of an attached process. */
struct json_object *daemon_process_build(const struct daemon *daemon, const struct client *client);

/** daemon_standstill_client - add to @one the pending operations of @client, as sampled last. */
void daemon_standstill_client(const struct client *client, struct json_object *one);

/** daemon_standstill_add - sample all processes, and add "standstill" to @reply. */
void daemon_standstill_add(struct daemon *daemon, struct json_object *reply);

#endif
