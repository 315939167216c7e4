/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * door.h - who is let in at a control socket, and what the refused ones are told.
 *
 * Descriptors and memory are bounded, so connections are: as many as nodes may want, within what
 * the process may open. A process that takes more than its share (DOOR_SHARE) is refused before
 * others find nothing left.
 */
#ifndef APPS_CONTROL_DOOR_H
#define APPS_CONTROL_DOOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * Connections and groups are shared without fixed quotas. A process gets another one as long as
 * it holds no more than this many times what is left. So one process that wants all of them gets
 * 8 of 9, two get 8 of 17 each, and something is always left for others.
 * Source: Choudhury and Hahne, dynamic queue length thresholds for shared memory switches.
 */
#define DOOR_SHARE 8u

/* What who is turned away is told. */
#define DOOR_NOT_YOURS \
    "this fabric belongs to another user; start one of your own with 'fabemu run' or 'fabemu up'"
#define DOOR_NO_MEMORY "the fabric has no memory left for another connection"

/* Owned by one thread, whose epoll tells of callers. */
struct door {
    int epoll;
    const int *listen_fd; /* borrowed; its address is what the epoll tells */
    uint32_t nodes;       /* of the network */
    uint32_t connections; /* that there are; kept by whoever opens and closes them */
    int spare;            /* given up to say why when descriptors run out */
    bool deaf;            /* callers wait until door_hear() */
    /* Of the connections: those of process @pid on @host. */
    uint32_t (*held)(void *ctx, uint32_t host, pid_t pid);
    void *ctx;
};

/** door_open - hear callers. @door: all but spare and deaf is set. Errors: of epoll_ctl(). */
int door_open(struct door *door);
void door_close(struct door *door);

/** door_shut - callers wait. door_hear() - they wait no longer; if it cannot be, it is deaf. */
void door_shut(struct door *door);
void door_hear(struct door *door);

/**
 * door_accept - take one caller. Returns its descriptor, which does not block and is the caller's
 * now, and in @cred who it is; -1: there is none, or it was refused and told why. A door that can
 * take nobody is deaf then, and must not keep its thread awake.
 */
int door_accept(struct door *door, struct ucred *cred);

/**
 * door_refuses - why process @pid on @host gets no connection on @fd, the first descriptor that was
 * free: one line, a static text. NULL: it may have it.
 */
const char *door_refuses(const struct door *door, int fd, uint32_t host, pid_t pid);

/** door_turn_away - the line {"ok":false,…}, as far as the socket takes it, and the end. */
void door_turn_away(int fd, int err, const char *why);

#endif
