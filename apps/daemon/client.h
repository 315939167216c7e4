/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client.h - what the daemon's loop and its requests share. Not for others.
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

/* A connection. Owned by the daemon's one thread. */
struct client {
    struct conn conn;
    struct emu_list link;               /* in daemon->clients, then in daemon->dying */
    pid_t pid;                          /* SO_PEERCRED, or far's */
    struct coordinator_process *remote; /* on another host; NULL: on this one */
    int64_t node;                       /* that it attached to, -1 none */
    uint64_t incarnation;               /* counts the processes of that node, from 1 */
    int64_t rank;                       /* of the process in its job, as it says; -1: it has none */
    struct standstill_sample
        *sample;         /* what it has pending: standstill.c's; NULL: nothing is known */
    char command[16];    /* name of an attached process */
    struct waits *waits; /* its waits for cores; NULL: they cannot be seen */
    uint64_t waited_ns;
    uint32_t events; /* epoll events asked for */
    bool more;       /* lines may be left over from its last turn */
    bool at_end;     /* nothing comes any more: closes once those are answered */
    bool closing;    /* close when all replies are out */
    bool gone;       /* freed after this round of events */
    bool unread;     /* gone because it did not read what it was told */
    size_t excess;   /* of its buffers, as counted in daemon->excess */
    uint32_t groups; /* that are charged to it */
    bool subscribed; /* it is told all events */
    struct telemetry_reader telemetry;
    struct procs_stop stop;
    bool stopped;              /* gone because that was too long */
    bool frozen;               /* a fault has stopped it, and has not let it go on */
    bool captures;             /* the fabric's capture is its */
    bool exits;                /* it has said that it ends, by itself and without detaching */
    bool outside;              /* its MPI messages do not pass the fabric: counted once */
    struct daemon_query *asks; /* that its last request waits for; NULL: none */
    /* That one: request.c's. */
    const struct request *request;
    uint64_t asked; /* number of the query that it waits for */

    /* Of one that died, daemon/death.c's. */
    int64_t died;      /* node that it was attached to, -1: did not die */
    int pidfd;         /* pidfd, -1 none */
    int64_t how_by_ms; /* until then it may show how it ended */
};

/*
 * What other hosts are asked for requests of clients, and nobody but these waits for. Who asks
 * while one is under way waits for the next, so that each answer is of a time after its question.
 */
struct daemon_query {
    uint64_t number; /* of the last one, from 1 */
    bool waits;      /* it is under way */
};

#define DAEMON_SAMPLES 256u /* one a second */

struct daemon {
    struct fabric *fabric;
    const struct daemon_config *config;
    int epoll;
    int timer;                  /* once a second while somebody is attached */
    bool ticking;               /* the timer is armed */
    struct admission admission; /* its connections are all that there are */
    uint32_t hop_limit;         /* switches on the longest route */
    char fabric_id[17]; /* random: tells this fabric from all others, whatever their names */
    bool shutdown;      /* asked for */
    bool owner_gone;
    bool busy;   /* some client has more */
    bool stands; /* the supervisor was told that nothing moves */
    struct {
        uint64_t at_ns;          /* 0: none yet */
        uint64_t starved_ns;     /* fabric_starved_ns() at that time */
    } sample[DAEMON_SAMPLES];    /* a ring of the last samples of daemon/standstill.c */
    uint32_t samples;            /* number of samples so far */
    uint64_t mismatch_group;     /* 1 + the last group whose members were said to disagree */
    struct emu_list clients;     /* all connections, the newest first */
    size_t excess;               /* memory of their buffers, beyond what each may have */
    struct daemon_group *groups; /* all that processes have made */
    struct emu_list exiting; /* connections of those who died, and it is not known how: in order */
    struct client *owner;    /* NULL when gone */
    struct client **by_node; /* nodes of them: who is attached, or NULL */
    int64_t *last_rank;      /* by node: of the process that is or was there last; -1: none */
    struct daemon_record record;
    struct procs_frozen frozen;        /* by faults, at any time, on this host */
    struct daemon_faults *faults;      /* daemon/faults.c's; NULL: none was ever asked for */
    struct telemetry_serve *telemetry; /* NULL: nobody ever asked for it */
    struct timeline_serve *timeline;   /* NULL: none */
    uint64_t began_ps;                 /* by the host's clock */
    bool unwritten;                    /* a file other than the next two could not be written */
    struct lines events;               /* all events go there, too */
    struct lines snapshots;            /* the same, and snapshots */
    struct capture_thread *capture;    /* its own, of --capture; NULL: none */
    struct coordinator *coordinator;   /* others that it governs; NULL: none */
    struct daemon_query query[COORDINATOR_QUERIES];
    struct fabric_audit *audit; /* of COORDINATOR_AUDIT: parts that have come; NULL: no memory */
    uint64_t audit_ns;          /* emu_now_ns() when it began */
    struct {
        bool *lost;    /* by cable between hosts: it leads nowhere; NULL: there are none */
        bool *mended;  /* and since then it does again, which is yet to be seen to */
        bool *now;     /* those of one loss, while it is noted */
        bool news;     /* some have been lost, and nothing was done yet */
        bool heals;    /* some have been mended, and nothing was done yet */
        bool severed;  /* some are lost that nothing can be sent around */
        uint64_t gone; /* by host, bits: it was lost, and what was combined there is yet to fail; */
        uint64_t back; /* it is back, and has not been let in; */
        uint64_t joins; /* it has, and some of its links are not up yet */
    } remote;           /* daemon/far.c's */

    /* Waits for cores since the last sample. Owner: daemon/waits.c. */
    struct {
        struct waits *fabric; /* this process's; NULL: they cannot be seen */
        uint64_t sample_ns;   /* when the last sample was taken */
        uint64_t next_ns;     /* no sample before this time, since one takes time */
        uint64_t ns;          /* of processes that have left since then */
        uint64_t over_ns;     /* the part of ns before the last sample */
        uint64_t starved_ns;  /* struct waits_delta: the largest of all threads */
    } waits;
};

/** daemon_client_free - it is closed. */
void daemon_client_free(struct client *client);

/** daemon_signal - send @signal to the client's process. False: it is gone. */
bool daemon_signal(const struct client *client, int signal);

/**
 * daemon_freeze - the client's process stands still, or goes on, for a fault; the supervisor is
 * told the first time, and has it go on when this process is no more. False: it is gone, or could
 * not be listed.
 */
bool daemon_freeze(struct daemon *daemon, struct client *client, bool stands);

/** daemon_host_of - the name of the host that @node is on; NULL: there is one host. */
const char *daemon_host_of(const struct daemon *daemon, uint32_t node);

/** daemon_host_add - the same as a field of @one. */
void daemon_host_add(const struct daemon *daemon, uint32_t node, struct json_object *one);

/** daemon_hosts_report - all hosts and their links, in @report; of one host alone nothing. */
void daemon_hosts_report(struct daemon *daemon, struct json_object *report);

/** daemon_connections_of - connections of process @pid on @host. @ctx: the daemon. */
uint32_t daemon_connections_of(void *ctx, uint32_t host, pid_t pid);

/** daemon_accept - take one connection, or tell the caller why not. */
void daemon_accept(struct daemon *daemon);

/** daemon_client_new - a client on @fd. NULL: no memory; @fd is still the caller's. */
struct client *daemon_client_new(struct daemon *daemon, int fd, pid_t pid);

/* daemon/groups.c: what a member of a group does, answered. */
void daemon_group_create(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_join(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_leave(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_group_break(struct daemon *daemon, struct client *client, struct json_object *request);

/**
 * daemon_group_fail - nothing of group @id can end any more: its members are told @why, a line that
 * names the switch or the cable.
 */
void daemon_group_fail(struct daemon *daemon, uint32_t id, const char *why);

/**
 * daemon_groups_quit - @client goes, and with it whatever group it has not left.
 * Returns by node the numbers of those that its process is or was to be a member of, too; NULL:
 * none. The array is the caller's to free, and the lists in it to put.
 */
struct json_object **daemon_groups_quit(struct daemon *daemon, struct client *client);

/**
 * daemon_groups_break_unreachable - groups with members that do not reach each other are broken, if
 * they were not before. Returns the same of them.
 */
struct json_object **daemon_groups_break_unreachable(struct daemon *daemon);

/** daemon_groups_each - call @each for every group, with the members that have joined it. */
void daemon_groups_each(struct daemon *daemon,
                        void (*each)(void *context, uint32_t id, const uint32_t *nodes,
                                     uint32_t count),
                        void *context);

/** daemon_groups_free - forget all; the fabric's groups stay. */
void daemon_groups_free(struct daemon *daemon);

/*
 * daemon/capture.c: requests to begin and to end a capture; @client is closed, and its
 * capture ends; the capture of daemon->config, from the start to the end. Errors: as
 * capture_begin().
 */
void daemon_capture(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_capture_stop(struct daemon *daemon, struct client *client, struct json_object *request);
void daemon_capture_left(struct daemon *daemon, struct client *client);
int daemon_capture_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_capture_close(struct daemon *daemon);

/** daemon_subscribe - the request of whoever wants all events. */
void daemon_subscribe(struct daemon *daemon, struct client *client, struct json_object *request);

/** daemon_notify_owner - @event goes to the supervisor, if it is still there; it is put. */
void daemon_notify_owner(struct daemon *daemon, struct json_object *event);

/** daemon_publish - @event goes to all who have subscribed, and into the file; it is put. */
void daemon_publish(struct daemon *daemon, struct json_object *event);

/** daemon_event - one of @at_ps, which is said in seconds since the fabric's start: "s". */
struct json_object *daemon_event(const struct daemon *daemon, const char *what, uint64_t at_ps);

/** daemon_now_ps - by the host's clock, as began_ps. */
static inline uint64_t daemon_now_ps(void)
{
    return emu_now_ns() * 1000u;
}

/** daemon_has_subscribers - is there anybody to tell? */
bool daemon_has_subscribers(const struct daemon *daemon);

/** daemon_report - the report so far. The caller's to put. */
struct json_object *daemon_report(struct daemon *daemon);

/**
 * daemon_request - answer one request of @client, or, where other hosts have a part in the answer,
 * have them asked; until it is there no more of its requests are read.
 */
void daemon_request(struct daemon *daemon, struct client *client, struct json_object *request);

/** daemon_least_ms - the shorter of two times to sleep at most; -1: without limit. Pure. */
static inline int daemon_least_ms(int a, int b)
{
    return b >= 0 && (a < 0 || b < a) ? b : a;
}

/**
 * daemon_queries_settle - answer those who waited for other hosts that have all answered, at the
 * end of a round. daemon_queries_wait_ms() - to sleep for them at most; -1: nobody waits.
 * daemon_queries_end() - they are told that the fabric ends.
 */
void daemon_queries_settle(struct daemon *daemon);
int daemon_queries_wait_ms(struct daemon *daemon);
void daemon_queries_end(struct daemon *daemon);

/** daemon_reply_error - answer with {"ok":false,…}; @error is one line for the user. */
void daemon_reply_error(struct daemon *daemon, struct client *client, int err, const char *error);

/** daemon_send - queue @message and send what the socket takes. */
void daemon_send(struct daemon *daemon, struct client *client, struct json_object *message);

/** daemon_send_line - the same of a line that is JSON already, without its end. */
void daemon_send_line(struct daemon *daemon, struct client *client, const char *line, size_t bytes);

/** daemon_send_with - the same, with descriptors that pass to the client: see conn_put_with(). */
void daemon_send_with(struct daemon *daemon, struct client *client, struct json_object *message,
                      const int pass[EMU_JSON_FDS]);

/**
 * daemon_node_free - @client is no longer attached: free its node. @dead: its process has ended.
 */
void daemon_node_free(struct daemon *daemon, struct client *client, bool dead);

/**
 * daemon_notify - what others are to know: everybody, that the process of @dead died; and those who
 * are in @lists, as daemon_groups_quit() gives them, that these groups are broken. Frees @lists.
 */
void daemon_notify(struct daemon *daemon, const struct client *dead, struct json_object **lists);

/** daemon_notify_broken - the same of groups that the process of node @by is in no more. */
void daemon_notify_broken(struct daemon *daemon, uint32_t by, struct json_object **lists);

/**
 * daemon_notify_unreachable - tell all attached with whom no way joins them any more
 * (fabric_reaches()), and which of their groups are broken for that.
 */
void daemon_notify_unreachable(struct daemon *daemon);

/** daemon_cut_off - the process at @node does not take its segments: it and others are told. */
void daemon_cut_off(struct daemon *daemon, uint32_t node);

/**
 * daemon_remote_open - meet the hosts of daemon->config->hosts, which this one governs. Errors: as
 * coordinator_open(). daemon_remote_settle() - do what is to be done for hosts and host links that
 * were lost, at the end of a round. daemon_remote_tick() - once a second: the same of what was
 * posted since. daemon_remote_close() - make the other hosts end: coordinator_close().
 */
int daemon_remote_open(struct daemon *daemon, char *error, size_t error_bytes);
void daemon_remote_settle(struct daemon *daemon);
void daemon_remote_tick(struct daemon *daemon);
void daemon_remote_close(struct daemon *daemon, const char *why);

/**
 * daemon_died - @client, which is gone, had not detached: tell all others, free its node.
 * Telling may find that others are gone; their turn comes after, in the loop of daemon.c.
 */
void daemon_died(struct daemon *daemon, struct client *client);

/**
 * daemon_reap - all that have died and were not seen to yet: their nodes are free when this
 * returns. At the end of a round; and when a node is asked for that a dead one may still have.
 */
void daemon_reap(struct daemon *daemon);

/** daemon_left - @client detaches: free its node, break the groups that it did not leave. */
void daemon_left(struct daemon *daemon, struct client *client);

/** daemon_exiting_add - take over @client, which died and is closed, until it is known how. */
void daemon_exiting_add(struct daemon *daemon, struct client *client);

/**
 * daemon_exiting_report - for each process whose end is known, in order: record it, tell the owner,
 * and free it.
 * @all: as well as it is known. Never waits.
 */
void daemon_exiting_report(struct daemon *daemon, bool all);

/** daemon_exiting_wait_ms - how long to sleep for them at most; -1 when there are none. */
int daemon_exiting_wait_ms(const struct daemon *daemon);

/**
 * daemon_waits_open, daemon_waits_close - begin and end sampling the waits of the fabric's own
 * threads.
 */
void daemon_waits_open(struct daemon *daemon);
void daemon_waits_close(struct daemon *daemon);

/** daemon_waits_attach - sample @client's process from now on. It has its node. */
void daemon_waits_attach(struct daemon *daemon, struct client *client);

/**
 * daemon_waits_detach - for the last time. @client still has its node. @dead: it has no more to
 * show.
 */
void daemon_waits_detach(struct daemon *daemon, struct client *client, bool dead);

/**
 * daemon_waits_tick - look at all, unless the last time took so long that it cannot be afforded
 * yet.
 */
void daemon_waits_tick(struct daemon *daemon);

/** daemon_waits_sample - look at all, for the record to be as of now. */
void daemon_waits_sample(struct daemon *daemon);

/**
 * daemon_standstill_attach, daemon_standstill_detach - what @client's process has pending is looked
 * at between the two; the last time in the second. It has its node.
 */
void daemon_standstill_attach(struct daemon *daemon, struct client *client);
void daemon_standstill_detach(struct daemon *daemon, struct client *client);

/** daemon_standstill_tick - look at all; tell the supervisor when nothing moves. */
void daemon_standstill_tick(struct daemon *daemon);

/** daemon_standstill_client - add to @one what @client is known to have pending. */
void daemon_standstill_client(const struct client *client, struct json_object *one);

/** daemon_standstill_add - look at all, and add to @reply what waits for what ("standstill"). */
void daemon_standstill_add(struct daemon *daemon, struct json_object *reply);

/** daemon_tick_when - arm the timer while somebody is attached or the daemon deaf. */
void daemon_tick_when(struct daemon *daemon);

#endif
