/* SPDX-License-Identifier: BSD-3-Clause */
/* admission.c - limits on the connections to a control socket (admission.h). */
#include "apps/control/admission.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * connections allowed beyond two per node: for status, shutdown, and processes that wait for a node
 */
#define CONNECTIONS_SPARE 256u
/* descriptors kept free for an attaching process: its event descriptor, and the ones sent to it */
#define SPARE_FDS 8u

static int spare_open(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int admission_open(struct admission *admission)
{
    admission->spare = spare_open();
    admission->paused = true;
    admission_resume(admission);
    return admission->paused ? -errno : 0;
}

void admission_close(struct admission *admission)
{
    if (admission->spare >= 0)
        close(admission->spare);
    admission->spare = -1;
}

void admission_pause(struct admission *admission)
{
    if (!admission->paused)
        epoll_ctl(admission->epoll, EPOLL_CTL_DEL, *admission->listen_fd, NULL);
    admission->paused = true;
}

void admission_resume(struct admission *admission)
{
    struct epoll_event event = {.events = EPOLLIN,
                                .data.ptr = (void *)(uintptr_t)admission->listen_fd};

    if (admission->paused)
        admission->paused =
            epoll_ctl(admission->epoll, EPOLL_CTL_ADD, *admission->listen_fd, &event) < 0;
}

void admission_reject(int fd, int err, const char *why)
{
    char line[256];
    int bytes =
        snprintf(line, sizeof line, "{\"ok\":false,\"errno\":%d,\"error\":\"%s\"}\n", -err, why);

    send(fd, line, (size_t)bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

static int accept_client(const struct admission *admission)
{
    return accept4(*admission->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* No descriptor is free. Close the spare one to accept the client, and send it the reason. */
static void accept_without_room(struct admission *admission)
{
    int fd;

    if (admission->spare < 0)
        admission->spare = spare_open();
    if (admission->spare < 0) {
        admission_pause(admission);
        return;
    }
    close(admission->spare);
    fd = accept_client(admission);
    if (fd >= 0)
        admission_reject(fd, -EMFILE,
                         "the fabric has no file descriptors left; start it with a higher limit "
                         "(ulimit -n)");
    admission->spare = spare_open();
}

static void accept_failed(struct admission *admission, int err)
{
    if (err == EMFILE || err == ENFILE)
        accept_without_room(admission);
    else if (err != EAGAIN && err != EINTR && err != ECONNABORTED)
        admission_pause(admission); /* usually out of memory */
}

uint64_t admission_most(uint32_t nodes)
{
    return 2 * (uint64_t)nodes + CONNECTIONS_SPARE;
}

/* Return the number of further connections that the number of nodes allows. */
static uint64_t connections_left_by_nodes(const struct admission *admission)
{
    uint64_t most = admission_most(admission->nodes);

    return most > admission->connections ? most - admission->connections : 0;
}

/*
 * Return the number of further connections that RLIMIT_NOFILE allows. @fd: the lowest free
 * descriptor.
 */
static uint64_t connections_left_by_files(int fd)
{
    uint64_t used = (uint64_t)fd + SPARE_FDS;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX / ADMISSION_SHARE;
    return files.rlim_cur > used ? files.rlim_cur - used : 0;
}

/*
 * Return whether the process has used up its share when @left further connections are possible. If
 * all processes together have fewer connections than one share, it has not, and its connections
 * need not be counted. A process without any connection always gets one.
 */
static bool has_its_share(const struct admission *admission, uint32_t host, pid_t pid,
                          uint64_t left)
{
    uint64_t share = left * ADMISSION_SHARE, held;

    if (admission->connections < share)
        return false;
    held = admission->connections_of(admission->ctx, host, pid);
    return held && held >= share;
}

const char *admission_refuses(const struct admission *admission, int fd, uint32_t host, pid_t pid)
{
    if (has_its_share(admission, host, pid, connections_left_by_files(fd)))
        return "this process has used up its share of the fabric's connections; close some of "
               "them, or start the fabric with a higher limit (ulimit -n)";
    if (has_its_share(admission, host, pid, connections_left_by_nodes(admission)))
        return "this process has used up its share of the fabric's connections; close some of "
               "them, or start a fabric with more nodes";
    return NULL;
}

int admission_accept(struct admission *admission, struct ucred *cred)
{
    socklen_t bytes = sizeof *cred;
    const char *why;
    int fd = accept_client(admission);

    *cred = (struct ucred){.uid = (uid_t)-1};
    if (fd < 0) {
        accept_failed(admission, errno);
        return -1;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, cred, &bytes) < 0)
        cred->uid = (uid_t)-1;
    why = admission_refuses(admission, fd, 0, cred->pid);
    if (!why)
        return fd;
    admission_reject(fd, -EMFILE, why);
    return -1;
}
