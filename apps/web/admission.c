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
    uint32_t received; /* bytes that were read since it was refused */
    bool refused;      /* it has got its answer, and will be closed */
};

static const char refusal[] = "HTTP/1.1 403 Forbidden\r\n"
                              "Content-Type: text/plain; charset=utf-8\r\n"
                              "X-Content-Type-Options: nosniff\r\n"
                              "Cache-Control: no-store\r\n"
                              "Connection: close\r\n"
                              "Content-Length: 54\r\n\r\n"
                              "Open the address that fabemu printed: it has a token.\n";

static void drop(struct web_admission *admission, struct stranger *stranger)
{
    emu_list_del(&stranger->all);
    admission->count--;
    close(stranger->fd);
    free(stranger);
}

static struct stranger *oldest(const struct web_admission *admission)
{
    return emu_list_entry(admission->unauthenticated.next, struct stranger, all);
}

/* --- what it says ------------------------------------------------------------------- */

enum verdict { WAITS, AUTHENTICATED, WRONG };

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
    return web_same_token(token, head + from) && head[from + WEB_TOKEN_CHARS] == '/' ? AUTHENTICATED
                                                                                     : WRONG;
}

/*
 * Read what the client sends after the refusal: closing with unread input would discard the
 * refusal.
 */
static void hear_out(struct web_admission *admission, struct stranger *stranger)
{
    char bytes[4096];
    ssize_t got;

    while (stranger->received < HEARD_MOST &&
           (got = recv(stranger->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        stranger->received += (uint32_t)got;
    if (stranger->received >= HEARD_MOST || !got || (errno != EAGAIN && errno != EINTR))
        drop(admission, stranger);
}

static void refuse(struct web_admission *admission, struct stranger *stranger)
{
    send(stranger->fd, refusal, sizeof refusal - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(stranger->fd, SHUT_WR);
    stranger->refused = true;
    hear_out(admission, stranger);
}

/* The connection has shown the token: it belongs to microhttpd from now on, which closes it. */
static void let_in(struct web_server *server, struct stranger *stranger)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int fd = stranger->fd, room = SEND_BYTES;

    epoll_ctl(server->admission.epoll, EPOLL_CTL_DEL, fd, NULL);
    emu_list_del(&stranger->all);
    server->admission.count--;
    free(stranger);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (getpeername(fd, (struct sockaddr *)&address, &bytes))
        close(fd); /* it is gone */
    else
        MHD_add_connection(server->daemon, fd, (struct sockaddr *)&address, bytes);
}

static void peek(struct web_server *server, struct stranger *stranger)
{
    char head[HEAD_BYTES];
    ssize_t got;

    if (stranger->refused) {
        hear_out(&server->admission, stranger);
        return;
    }
    got = recv(stranger->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        drop(&server->admission, stranger);
        return;
    }
    switch (verdict_of(server->web->token, head, (size_t)got)) {
    case AUTHENTICATED:
        let_in(server, stranger);
        break;
    case WRONG:
        refuse(&server->admission, stranger);
        break;
    case WAITS:
        break;
    }
}

/* --- the door ----------------------------------------------------------------------- */

static void take_in(struct web_server *server, int fd)
{
    struct web_admission *admission = &server->admission;
    struct stranger *stranger = calloc(1, sizeof *stranger);
    /* edge-triggered, because the bytes that were peeked at stay in the socket */
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = stranger};

    if (!stranger || epoll_ctl(admission->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(stranger);
        close(fd);
        return;
    }
    if (admission->count == admission->most)
        drop(admission, oldest(admission));
    stranger->fd = fd;
    stranger->since_ms = emu_now_ms();
    emu_list_add(&admission->unauthenticated, &stranger->all);
    admission->count++;
    peek(server, stranger);
}

static void take_all_in(struct web_server *server)
{
    struct web_admission *admission = &server->admission;

    for (int i = 0; i < ACCEPTS_MOST; i++) {
        int fd = accept4(server->web->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
            take_in(server, fd);
        else if ((errno == EMFILE || errno == ENFILE) && admission->count)
            drop(admission, oldest(admission));
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

void web_admission_step(struct web_server *server)
{
    struct web_admission *admission = &server->admission;
    struct epoll_event events[EVENTS_MOST];
    int64_t late_ms = emu_now_ms() - WEB_REQUEST_MS;
    int count = epoll_wait(admission->epoll, events, EVENTS_MOST, 0);
    bool come = false;

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            peek(server, events[i].data.ptr);
        else
            come = true;
    }
    if (come) /* after the others: this may close one of them */
        take_all_in(server);
    while (admission->count && oldest(admission)->since_ms <= late_ms)
        drop(admission, oldest(admission));
}

int web_admission_open(struct web_admission *admission, int listen_fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct rlimit limit;

    emu_list_init(&admission->unauthenticated);
    admission->count = 0;
    admission->most = WEB_UNAUTHENTICATED;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < WEB_UNAUTHENTICATED + OTHER_FDS)
            admission->most = limit.rlim_max > 2 * OTHER_FDS ? (uint32_t)limit.rlim_max - OTHER_FDS
                                                             : (uint32_t)limit.rlim_max / 4 + 1;
    }
    admission->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (admission->epoll >= 0 && !epoll_ctl(admission->epoll, EPOLL_CTL_ADD, listen_fd, &event))
        return 0;
    int err = -errno;
    if (admission->epoll >= 0)
        close(admission->epoll);
    return err;
}

void web_admission_close(struct web_admission *admission)
{
    while (admission->count)
        drop(admission, oldest(admission));
    close(admission->epoll);
}
