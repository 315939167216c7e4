/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * door.c - connections that have not shown the token yet.
 *
 * Every process of this host can connect as fast as it likes. If it made connections faster than we
 * accept them, the queue of the listening socket would fill up, and the system would drop the
 * attempts of the user's own browser, which tries again only after a second. So a connection costs
 * very little until it has shown the token: it is accepted at once, and only its first bytes are
 * read. Only with the token does it pass to microhttpd, which has memory and time limits of its
 * own. The number of connections without the token is limited, each has a few seconds, and the
 * oldest is closed when another one comes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/web/internal.h"
#include "emu/util/now.h"

#define ACCEPTS_MOST 256    /* connections accepted before others are served */
#define EVENTS_MOST  64     /* events of waiting connections, handled in one step */
#define OTHER_FDS    256    /* kept for browsers with the token, links and the process itself */
#define HEARD_MOST   65536  /* bytes that are read from a connection that was refused */
#define SEND_BYTES   131072 /* of the kernel's send buffer, for a browser that does not read */
#define HEAD_BYTES   (METHOD_MOST + 2 + WEB_TOKEN_CHARS + 1) /* "OPTIONS /TOKEN/" */
#define METHOD_MOST  8

/* A connection without the token. */
struct stranger {
    struct emu_list all;
    int fd;
    int64_t since_ms;
    uint32_t heard; /* bytes that were read since it was refused */
    bool refused;   /* it has got its answer, and will be closed */
};

static const char refusal[] = "HTTP/1.1 403 Forbidden\r\n"
                              "Content-Type: text/plain; charset=utf-8\r\n"
                              "X-Content-Type-Options: nosniff\r\n"
                              "Cache-Control: no-store\r\n"
                              "Connection: close\r\n"
                              "Content-Length: 54\r\n\r\n"
                              "Open the address that fabemu printed: it has a token.\n";

static void drop(struct web_door *door, struct stranger *stranger)
{
    emu_list_del(&stranger->all);
    door->count--;
    close(stranger->fd);
    free(stranger);
}

static struct stranger *oldest(const struct web_door *door)
{
    return emu_list_entry(door->strangers.next, struct stranger, all);
}

/* --- what it says ------------------------------------------------------------------- */

enum verdict { WAITS, KNOWN, WRONG };

/* Does the request begin with the token? */
static enum verdict verdict_of(const char *token, const char *head, size_t bytes)
{
    size_t method = 0, from;

    while (method < bytes && method < METHOD_MOST && head[method] >= 'A' && head[method] <= 'Z')
        method++;
    from = method + 2;
    if ((method < bytes && (!method || head[method] != ' ')) ||
        (method + 1 < bytes && head[method + 1] != '/'))
        return WRONG;
    if (bytes < from + WEB_TOKEN_CHARS + 1)
        return bytes < HEAD_BYTES && !memchr(head, '\n', bytes) ? WAITS : WRONG;
    return web_same_token(token, head + from) && head[from + WEB_TOKEN_CHARS] == '/' ? KNOWN
                                                                                     : WRONG;
}

/*
 * Read what the client sends after the refusal: closing with unread input would discard the
 * refusal.
 */
static void hear_out(struct web_door *door, struct stranger *stranger)
{
    char bytes[4096];
    ssize_t got;

    while (stranger->heard < HEARD_MOST &&
           (got = recv(stranger->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        stranger->heard += (uint32_t)got;
    if (stranger->heard >= HEARD_MOST || !got || (errno != EAGAIN && errno != EINTR))
        drop(door, stranger);
}

static void refuse(struct web_door *door, struct stranger *stranger)
{
    send(stranger->fd, refusal, sizeof refusal - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(stranger->fd, SHUT_WR);
    stranger->refused = true;
    hear_out(door, stranger);
}

/* The connection has shown the token: it belongs to microhttpd from now on, which closes it. */
static void let_in(struct web_server *server, struct stranger *stranger)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int fd = stranger->fd, room = SEND_BYTES;

    epoll_ctl(server->door.epoll, EPOLL_CTL_DEL, fd, NULL);
    emu_list_del(&stranger->all);
    server->door.count--;
    free(stranger);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (getpeername(fd, (struct sockaddr *)&address, &bytes))
        close(fd); /* it is gone */
    else
        MHD_add_connection(server->daemon, fd, (struct sockaddr *)&address, bytes);
}

static void look(struct web_server *server, struct stranger *stranger)
{
    char head[HEAD_BYTES];
    ssize_t got;

    if (stranger->refused) {
        hear_out(&server->door, stranger);
        return;
    }
    got = recv(stranger->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        drop(&server->door, stranger);
        return;
    }
    switch (verdict_of(server->web->token, head, (size_t)got)) {
    case KNOWN:
        let_in(server, stranger);
        break;
    case WRONG:
        refuse(&server->door, stranger);
        break;
    case WAITS:
        break;
    }
}

/* --- the door ----------------------------------------------------------------------- */

static void take_in(struct web_server *server, int fd)
{
    struct web_door *door = &server->door;
    struct stranger *stranger = calloc(1, sizeof *stranger);
    /* edge-triggered, because the bytes that were peeked at stay in the socket */
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = stranger};

    if (!stranger || epoll_ctl(door->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(stranger);
        close(fd);
        return;
    }
    if (door->count == door->most)
        drop(door, oldest(door));
    stranger->fd = fd;
    stranger->since_ms = emu_now_ms();
    emu_list_add(&door->strangers, &stranger->all);
    door->count++;
    look(server, stranger);
}

static void take_all_in(struct web_server *server)
{
    struct web_door *door = &server->door;

    for (int i = 0; i < ACCEPTS_MOST; i++) {
        int fd = accept4(server->web->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
            take_in(server, fd);
        else if ((errno == EMFILE || errno == ENFILE) && door->count)
            drop(door, oldest(door));
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

void web_door_step(struct web_server *server)
{
    struct web_door *door = &server->door;
    struct epoll_event events[EVENTS_MOST];
    int64_t late_ms = emu_now_ms() - WEB_REQUEST_MS;
    int count = epoll_wait(door->epoll, events, EVENTS_MOST, 0);
    bool come = false;

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            look(server, events[i].data.ptr);
        else
            come = true;
    }
    if (come) /* after the others: this may close one of them */
        take_all_in(server);
    while (door->count && oldest(door)->since_ms <= late_ms)
        drop(door, oldest(door));
}

int web_door_open(struct web_door *door, int listen_fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct rlimit limit;

    emu_list_init(&door->strangers);
    door->count = 0;
    door->most = WEB_STRANGERS;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < WEB_STRANGERS + OTHER_FDS)
            door->most = limit.rlim_max > 2 * OTHER_FDS ? (uint32_t)limit.rlim_max - OTHER_FDS
                                                        : (uint32_t)limit.rlim_max / 4 + 1;
    }
    door->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (door->epoll >= 0 && !epoll_ctl(door->epoll, EPOLL_CTL_ADD, listen_fd, &event))
        return 0;
    int err = -errno;
    if (door->epoll >= 0)
        close(door->epoll);
    return err;
}

void web_door_close(struct web_door *door)
{
    while (door->count)
        drop(door, oldest(door));
    close(door->epoll);
}
