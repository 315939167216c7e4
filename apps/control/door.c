/* SPDX-License-Identifier: BSD-3-Clause */
/* door.c - see door.h. */
#include "apps/control/door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define CONNECTIONS_SPARE 256u /* beside two for each node: status, shutdown, waiting for a node */
#define SPARE_FDS         8u   /* for an attaching process: its bell, and descriptors to send */

static int spare_open(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int door_open(struct door *door)
{
    door->spare = spare_open();
    door->deaf = true;
    door_hear(door);
    return door->deaf ? -errno : 0;
}

void door_close(struct door *door)
{
    if (door->spare >= 0)
        close(door->spare);
    door->spare = -1;
}

void door_shut(struct door *door)
{
    if (!door->deaf)
        epoll_ctl(door->epoll, EPOLL_CTL_DEL, *door->listen_fd, NULL);
    door->deaf = true;
}

void door_hear(struct door *door)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)door->listen_fd};

    if (door->deaf)
        door->deaf = epoll_ctl(door->epoll, EPOLL_CTL_ADD, *door->listen_fd, &event) < 0;
}

void door_turn_away(int fd, int err, const char *why)
{
    char line[256];
    int bytes =
        snprintf(line, sizeof line, "{\"ok\":false,\"errno\":%d,\"error\":\"%s\"}\n", -err, why);

    send(fd, line, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static int take(const struct door *door)
{
    return accept4(*door->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* No descriptor is left: close the spare one, accept the client with it, and send the reason. */
static void accept_without_room(struct door *door)
{
    int fd;

    if (door->spare < 0)
        door->spare = spare_open();
    if (door->spare < 0) {
        door_shut(door);
        return;
    }
    close(door->spare);
    fd = take(door);
    if (fd >= 0)
        door_turn_away(fd, -EMFILE,
                       "the fabric has no file descriptors left; start it with a higher limit "
                       "(ulimit -n)");
    door->spare = spare_open();
}

static void accept_failed(struct door *door, int err)
{
    if (err == EMFILE || err == ENFILE)
        accept_without_room(door);
    else if (err != EAGAIN && err != EINTR && err != ECONNABORTED)
        door_shut(door); /* usually out of memory */
}

/* Number of further connections allowed by the number of nodes. */
static uint64_t left_of_nodes(const struct door *door)
{
    uint64_t most = 2 * (uint64_t)door->nodes + CONNECTIONS_SPARE;

    return most > door->connections ? most - door->connections : 0;
}

/* Number of further connections allowed by the limit of open files. @fd: the lowest free one. */
static uint64_t left_of_files(int fd)
{
    uint64_t used = (uint64_t)fd + SPARE_FDS;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX / DOOR_SHARE;
    return files.rlim_cur > used ? files.rlim_cur - used : 0;
}

/*
 * Has that process its share, with @left connections left? Its connections are counted only if few
 * are left: else nobody can have reached its share. Every process may have one.
 */
static bool has_its_share(const struct door *door, uint32_t host, pid_t pid, uint64_t left)
{
    uint64_t share = left * DOOR_SHARE, held;

    if (door->connections < share)
        return false;
    held = door->held(door->ctx, host, pid);
    return held && held >= share;
}

const char *door_refuses(const struct door *door, int fd, uint32_t host, pid_t pid)
{
    if (has_its_share(door, host, pid, left_of_files(fd)))
        return "this process has its share of the fabric's connections; close some of them, or "
               "start the fabric with a higher limit (ulimit -n)";
    if (has_its_share(door, host, pid, left_of_nodes(door)))
        return "this process has its share of the fabric's connections; close some of them, or "
               "start a fabric with more nodes";
    return NULL;
}

int door_accept(struct door *door, struct ucred *cred)
{
    socklen_t bytes = sizeof *cred;
    const char *why;
    int fd = take(door);

    *cred = (struct ucred){.uid = (uid_t)-1};
    if (fd < 0) {
        accept_failed(door, errno);
        return -1;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &bytes) < 0)
        cred->uid = (uid_t)-1;
    why = door_refuses(door, fd, 0, cred->pid);
    if (!why)
        return fd;
    door_turn_away(fd, -EMFILE, why);
    return -1;
}
