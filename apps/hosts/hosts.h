/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - one fabric on several hosts: one of them governs, the others obey.
 *
 * The governor's daemon is the daemon of the whole fabric. To it a process on another host is a client
 * like its own: the host there passes the client's lines on over the control channel (govern.c,
 * obey.c), so attaching, groups, deaths, status and reports are in one place, and ask nobody where a
 * process is. The fabrics of all hosts are replicas (apps/fabric/fabric.h, struct fabric_mirror): what
 * the governor does to its own it has all others do, each with its devices, and goes on when all
 * have done it.
 *
 * Both sides speak JSON, a line a message, over a stream that the host link carries:
 *
 *   to the governor   {"client":C,"new":PID,"command":NAME}   a process has connected
 *                     {"client":C,"line":{…}}                 its request
 *                     {"client":C,"end":true}                 its connection has ended
 *                     {"client":C,"how":TEXT}                 how the process itself ended
 *                     {"reply":N,"errno":E,…}                 to a call
 *   from it           {"client":C,"line":{…}}                 a reply, or an event
 *                     {"client":C,"end":true}                 close its connection
 *                     {"call":N,"do":NAME,…}                  obey (obey.c has the table)
 */
#ifndef APPS_HOSTS_H
#define APPS_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "apps/fabric/fabric.h"
#include "emu/json.h"

#define HOSTS_MAX 64u

struct hosts;
struct hosts_process; /* on another host; a client here */

/* What the governor's daemon is told of. Thread: within hosts_serve(), and within calls. */
struct hosts_ops {
    /*
     * A process on another host has connected; its end here is @fd, a connection like others, which
     * passes on. False: it cannot be served, and @fd is still the caller's. The client calls
     * hosts_forget() in the end.
     */
    bool (*connected)(void *ctx, int fd, struct hosts_process *process);
    /* The host is lost, and all its processes: their connections have ended. */
    void (*lost)(void *ctx, uint32_t host, const char *why);
    void *ctx;
};

struct hosts_config {
    uint32_t count;          /* hosts; number 0 is this one, which governs */
    const int *control;      /* by host: a socket to it, not blocking; passes on. [0] is not read */
    const char *const *name; /* by host: borrowed */
    uint64_t call_ms;  /* a host that has not answered after so long is lost; UINT64_MAX: never */
    uint64_t start_ms; /* the same of the first call */
    /* Do all of this host's links carry segments? NULL: they always do. */
    bool (*links_up)(const void *links);
    const void *links;
    struct hosts_ops ops;
};

/**
 * hosts_open - meet all other hosts: returns when each has answered. Errors: -ENOMEM, -EMFILE,
 * -ETIMEDOUT, -EPIPE, with one line in @error. The sockets pass on in any case.
 * Thread: that of all functions here, the fabric's manager.
 */
int hosts_open(struct hosts **ret, const struct hosts_config *config, char *error,
               size_t error_bytes);

/** hosts_close - the other hosts end. */
void hosts_close(struct hosts *hosts);

/** hosts_fd - readable when hosts_serve() has something to do. */
int hosts_fd(const struct hosts *hosts);
void hosts_serve(struct hosts *hosts);

/** hosts_mirror - for the governor's fabric: fabric_mirror(). It lives as long as @hosts. */
const struct fabric_mirror *hosts_mirror(struct hosts *hosts);

/** hosts_is_lost - is @host, above 0? */
bool hosts_is_lost(const struct hosts *hosts, uint32_t host);

/** hosts_links - by host, above 0: what it says of its links; an array, the caller's to put. */
void hosts_links(struct hosts *hosts, struct json_object *ret[static HOSTS_MAX]);

/* Of a process elsewhere. How it ended: "" while that is not known. */
uint32_t hosts_of(const struct hosts_process *process);
pid_t hosts_pid(const struct hosts_process *process);
const char *hosts_command(const struct hosts_process *process);
const char *hosts_how(const struct hosts_process *process);

/** hosts_signal - send @signal to it. False: it, or its host, is gone. */
bool hosts_signal(struct hosts_process *process, int signal);

/** hosts_forget - its client is freed. */
void hosts_forget(struct hosts_process *process);

/* --- a host that does not govern ----------------------------------------------------- */

struct obey_config {
    int control;       /* a socket to the governor, not blocking; passes on */
    int listen_fd;     /* where processes of this host connect; the caller's */
    int signal_fd;     /* readable when this host is to end; the caller's */
    int owner_fd;      /* connection of the supervisor: told "ready" and "ended"; passes on */
    uint64_t start_ms; /* the governor must have said something by then; UINT64_MAX: never */
    /* Do all host links carry segments? NULL: they always do. */
    bool (*links_up)(const void *links);
    const void *links;
    /* what they say of themselves; NULL: nothing */
    struct json_object *(*links_report)(const void *links);
};

enum obey_end {
    OBEY_ENDED,     /* the governor has said so */
    OBEY_SIGNALLED, /* asked for here */
    OBEY_LOST,      /* the governor is gone */
    OBEY_UNMET,     /* it never came */
    OBEY_OWNER_GONE /* the supervisor has died */
};

/** obey_serve - do as the governor says, until the end. Returns enum obey_end, or -errno. */
int obey_serve(struct fabric *fabric, const struct obey_config *config);

#endif
