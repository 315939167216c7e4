/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admission.h - admission of connections to a control socket.
 *
 * Descriptors and memory are limited, and so are connections: as many as the nodes may need, within
 * the process's limit of open files. A process with more than its share (ADMISSION_SHARE) is
 * refused, to leave some for others.
 */
#ifndef APPS_CONTROL_ADMISSION_H
#define APPS_CONTROL_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * Connections and groups are shared without fixed quotas. A process gets another one as long as it
 * has at most this many times the number that is left. So one process that wants all of them gets
 * 8 of 9, two get 8 of 17 each, and some are always left for others.
 * Source: Choudhury and Hahne, dynamic queue length thresholds for shared memory switches.
 */
#define ADMISSION_SHARE 8u

/* Reasons for a refusal. */
#define ADMISSION_NOT_YOURS \
    "this fabric belongs to another user; start one of your own with 'fabemu run' or 'fabemu up'"
#define ADMISSION_NO_MEMORY "the fabric has no memory left for another connection"

/* Owned by one thread, which waits for clients with an epoll. */
struct admission {
    int epoll;
    const int *listen_fd; /* borrowed; its address is the data of the epoll event */
    uint32_t nodes;       /* of the network */
    uint32_t connections; /* open now; updated by the owner of the connections */
    int spare;            /* a descriptor to close when none is left, to send a refusal */
    bool paused;          /* clients wait until admission_resume() */
    /* Number of connections of process @pid on @host. */
    uint32_t (*connections_of)(void *ctx, uint32_t host, pid_t pid);
    void *ctx;
};

/**
 * admission_open - admit clients. @admission: all but spare and deaf is set. Errors: of
 * epoll_ctl(). */
int admission_open(struct admission *admission);
void admission_close(struct admission *admission);

/**
 * admission_pause - let clients wait. admission_resume() - admit them again; on failure the door
 * stays deaf. */
void admission_pause(struct admission *admission);
void admission_resume(struct admission *admission);

/**
 * admission_accept - accept one client. Returns its non-blocking descriptor, which the caller
 * closes, and its credentials in @cred. -1: there is no client, or it was refused with a reason.
 * The door is deaf afterwards if it can accept nobody, so that its epoll does not wake the thread
 * again and again.
 */
int admission_accept(struct admission *admission, struct ucred *cred);

/**
 * admission_refuses - the reason, a static text, to refuse process @pid on @host a connection on
 * @fd, the first free descriptor. NULL: it is admitted.
 */
const char *admission_refuses(const struct admission *admission, int fd, uint32_t host, pid_t pid);

/** admission_reject - send a refusal {"ok":false,…}, as far as the socket takes it, and close. */
void admission_reject(int fd, int err, const char *why);

#endif
