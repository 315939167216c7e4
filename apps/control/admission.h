/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admission.h - limits on the connections to a control socket.
 *
 * The number of connections is limited, because descriptors and memory are limited. The limit is
 * the number that the processes of all nodes can need (admission_most()), or less if the limit of
 * open files is lower. A process that has used up its share of the connections (ADMISSION_SHARE) is
 * refused, so that some are left for others.
 */
#ifndef APPS_CONTROL_ADMISSION_H
#define APPS_CONTROL_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * Connections are shared among processes without fixed quotas. A process gets another connection
 * while it has fewer connections than ADMISSION_SHARE times the number of connections that are
 * left. Therefore a single process that wants all connections gets 8 of 9 of them, and two
 * processes get 8 of 17 each. Some are always left for others. (apps/daemon/groups.c shares groups
 * in the same way.)
 * Source: Choudhury and Hahne, dynamic queue length thresholds for shared memory switches.
 */
#define ADMISSION_SHARE 8u

/* Texts for refused clients. */
#define ADMISSION_NOT_YOURS \
    "this fabric belongs to another user; start one of your own with 'fabemu run' or 'fabemu up'"
#define ADMISSION_NO_MEMORY "the fabric has no memory left for another connection"

/* The admission of clients to one socket. Owned by the thread that waits for clients in `epoll`. */
struct admission {
    int epoll;
    const int *listen_fd; /* borrowed; this pointer is the data of the epoll event */
    uint32_t nodes;       /* number of nodes of the network */
    uint32_t connections; /* number of open connections; the caller keeps it up to date */
    /* a descriptor that is closed when no other is free, to accept a client and refuse it; or -1 */
    int spare;
    bool paused; /* no client is accepted until admission_resume() */
    /* Return the number of connections of process @pid on @host. */
    uint32_t (*connections_of)(void *ctx, uint32_t host, pid_t pid);
    void *ctx;
};

/**
 * admission_open - begin to accept clients. The caller has set all fields of @admission but spare
 * and paused. Errors: as epoll_ctl().
 */
int admission_open(struct admission *admission);
void admission_close(struct admission *admission);

/**
 * admission_pause - stop accepting clients; they wait in the socket's queue.
 * admission_resume() - accept clients again. If that fails, the admission stays paused.
 */
void admission_pause(struct admission *admission);
void admission_resume(struct admission *admission);

/**
 * admission_accept - accept one client. Returns its non-blocking descriptor, which the caller owns,
 * and writes its credentials to @cred. Returns -1 if there is no client, or if the client was
 * refused and has been sent the reason. If no client can be accepted for lack of resources, the
 * admission is paused, so that its epoll does not wake the thread again and again.
 */
int admission_accept(struct admission *admission, struct ucred *cred);

/**
 * admission_refuses - check whether process @pid on @host may get another connection. Returns NULL
 * if it may, or else the reason, a static text. @fd: the descriptor of the connection. It was the
 * lowest free one, so it tells how many descriptors are in use.
 */
const char *admission_refuses(const struct admission *admission, int fd, uint32_t host, pid_t pid);

/** admission_most - return how many connections the processes of @nodes nodes may need. Pure. */
uint64_t admission_most(uint32_t nodes);

/** admission_reject - send {"ok":false,…} with reason @why, without waiting, and close @fd. */
void admission_reject(int fd, int err, const char *why);

#endif
