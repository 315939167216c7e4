/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * door.h - admission of connections to a control socket.
 *
 * Descriptors and memory are limited, and so are connections: as many as the nodes may need, within
 * the process's limit of open files. A process with more than its share (DOOR_SHARE) is refused, to
 * leave some for others.
 */
#ifndef APPS_CONTROL_DOOR_H
#define APPS_CONTROL_DOOR_H

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
#define DOOR_SHARE 8u

/* Reasons for a refusal. */
#define DOOR_NOT_YOURS \
    "this fabric belongs to another user; start one of your own with 'fabemu run' or 'fabemu up'"
#define DOOR_NO_MEMORY "the fabric has no memory left for another connection"

/* Owned by one thread, which waits for clients with an epoll. */
struct door {
    int epoll;
    const int *listen_fd; /* borrowed; its address is the data of the epoll event */
    uint32_t nodes;       /* of the network */
    uint32_t connections; /* open now; updated by the owner of the connections */
    int spare;            /* a descriptor to close when none is left, to send a refusal */
    bool deaf;            /* clients wait until door_hear() */
    /* Number of connections of process @pid on @host. */
    uint32_t (*held)(void *ctx, uint32_t host, pid_t pid);
    void *ctx;
};

/** door_open - admit clients. @door: all but spare and deaf is set. Errors: of epoll_ctl(). */
int door_open(struct door *door);
void door_close(struct door *door);

/** door_shut - let clients wait. door_hear() - admit them again; on failure the door stays deaf. */
void door_shut(struct door *door);
void door_hear(struct door *door);

/**
 * door_accept - accept one client. Returns its non-blocking descriptor, which the caller closes,
 * and its credentials in @cred. -1: there is no client, or it was refused with a reason. The door
 * is deaf afterwards if it can accept nobody, so that its epoll does not wake the thread again and
 * again.
 */
int door_accept(struct door *door, struct ucred *cred);

/**
 * door_refuses - the reason, a static text, to refuse process @pid on @host a connection on @fd,
 * the first free descriptor. NULL: it is admitted.
 */
const char *door_refuses(const struct door *door, int fd, uint32_t host, pid_t pid);

/** door_turn_away - send a refusal {"ok":false,…}, as far as the socket takes it, and close. */
void door_turn_away(int fd, int err, const char *why);

#endif
