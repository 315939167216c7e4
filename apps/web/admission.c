/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admission.c - connections that have not sent the token yet.
 *
 * Every process of this host can connect to the server. If one connected faster than we accept, the
 * queue of the listening socket would fill up. The system would then drop connection attempts of
 * the user's browser, which tries again only after a second. So we accept each connection at once,
 * and only read its first bytes until it has sent the token. We then pass it to microhttpd, which
 * has memory and time limits of its own. A connection must send the token within WEB_REQUEST_MS. If
 * there are too many connections without the token, a new one replaces the oldest.
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

#define ACCEPTS_MOST 256    /* connections accepted in one step */
#define EVENTS_MOST  64     /* events of connections handled in one step */
#define OTHER_FDS    256    /* descriptors for other uses, which connections must leave free */
#define DRAIN_MOST   65536  /* largest number of bytes that are read from a refused connection */
#define SEND_BYTES   131072 /* kernel send buffer: limits the memory for a slow browser */
#define HEAD_BYTES   (METHOD_MOST + 2 + WEB_TOKEN_CHARS + 1) /* "OPTIONS /TOKEN/" */
#define METHOD_MOST  8
#define PAUSE_MS     100 /* wait before accepting again, if no descriptor or memory is free */

struct unverified {
    struct emu_list all;
    int fd;
    int64_t since_ms;
    uint32_t drained; /* bytes that were read after the refusal */
    bool refused;     /* the refusal was sent */
};

static const char refusal[] = "HTTP/1.1 403 Forbidden\r\n"
                              "Content-Type: text/plain; charset=utf-8\r\n"
                              "X-Content-Type-Options: nosniff\r\n"
                              "Cache-Control: no-store\r\n"
                              "Connection: close\r\n"
                              "Content-Length: 54\r\n\r\n"
                              "Open the address that fabemu printed: it has a token.\n";

static void drop(struct web_admission *admission, struct unverified *conn)
{
    emu_list_del(&conn->all);
    admission->count--;
    close(conn->fd);
    free(conn);
}

static struct unverified *oldest(const struct web_admission *admission)
{
    return emu_list_entry(admission->unverified.next, struct unverified, all);
}

enum verdict { INCOMPLETE, RIGHT, WRONG };

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
        return bytes < HEAD_BYTES && !memchr(head, '\n', bytes) ? INCOMPLETE : WRONG;
    return web_same_token(token, head + from) && head[from + WEB_TOKEN_CHARS] == '/' ? RIGHT
                                                                                     : WRONG;
}

/* Discard input until the client disconnects. If we closed first, the refusal could be lost. */
static void drain(struct web_admission *admission, struct unverified *conn)
{
    char bytes[4096];
    ssize_t got;

    while (conn->drained < DRAIN_MOST &&
           (got = recv(conn->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        conn->drained += (uint32_t)got;
    if (conn->drained >= DRAIN_MOST || !got || (errno != EAGAIN && errno != EINTR))
        drop(admission, conn);
}

static void refuse(struct web_admission *admission, struct unverified *conn)
{
    send(conn->fd, refusal, sizeof refusal - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(conn->fd, SHUT_WR);
    conn->refused = true;
    drain(admission, conn);
}

/* Pass a connection that has sent the token to microhttpd, which will close it. */
static void hand_over(struct web_server *server, struct unverified *conn)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int fd = conn->fd, send_bytes = SEND_BYTES;

    epoll_ctl(server->admission.epoll, EPOLL_CTL_DEL, fd, NULL);
    emu_list_del(&conn->all);
    server->admission.count--;
    free(conn);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof send_bytes);
    if (getpeername(fd, (struct sockaddr *)&address, &bytes))
        close(fd); /* the client has closed it */
    else
        MHD_add_connection(server->daemon, fd, (struct sockaddr *)&address, bytes);
}

static void on_readable(struct web_server *server, struct unverified *conn)
{
    char head[HEAD_BYTES];
    ssize_t got;

    if (conn->refused) {
        drain(&server->admission, conn);
        return;
    }
    got = recv(conn->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        drop(&server->admission, conn);
        return;
    }
    switch (verdict_of(server->web->token, head, (size_t)got)) {
    case RIGHT:
        hand_over(server, conn);
        break;
    case WRONG:
        refuse(&server->admission, conn);
        break;
    case INCOMPLETE:
        break;
    }
}

static void add_conn(struct web_server *server, int fd)
{
    struct web_admission *admission = &server->admission;
    struct unverified *conn = calloc(1, sizeof *conn);
    /* edge-triggered, because MSG_PEEK leaves the bytes in the socket */
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = conn};

    if (!conn || epoll_ctl(admission->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(conn);
        close(fd);
        return;
    }
    if (admission->count == admission->most)
        drop(admission, oldest(admission));
    conn->fd = fd;
    conn->since_ms = emu_now_ms();
    emu_list_add(&admission->unverified, &conn->all);
    admission->count++;
    on_readable(server, conn);
}

/*
 * Watch the listening socket. If accepting has @failed, do not watch it for PAUSE_MS, because
 * poll() would otherwise return at once until a descriptor is free.
 */
static void watch_socket(struct web_server *server, bool failed)
{
    struct epoll_event event = {.events = failed ? 0 : EPOLLIN};

    epoll_ctl(server->admission.epoll, EPOLL_CTL_MOD, server->web->listen_fd, &event);
    server->admission.paused_ms = failed ? emu_now_ms() : 0;
}

static void accept_all(struct web_server *server)
{
    struct web_admission *admission = &server->admission;

    for (int i = 0; i < ACCEPTS_MOST; i++) {
        int fd = accept4(server->web->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
            add_conn(server, fd);
        else if ((errno == EMFILE || errno == ENFILE) && admission->count)
            drop(admission, oldest(admission));
        else if (errno == EAGAIN)
            return;
        else if (errno != ECONNABORTED && errno != EINTR) {
            watch_socket(server, true);
            return;
        }
    }
}

void web_admission_step(struct web_server *server)
{
    struct web_admission *admission = &server->admission;
    struct epoll_event events[EVENTS_MOST];
    int64_t now_ms = emu_now_ms(), late_ms = now_ms - WEB_REQUEST_MS;
    bool incoming = false;
    int count;

    if (admission->paused_ms && now_ms >= admission->paused_ms + PAUSE_MS)
        watch_socket(server, false);
    count = epoll_wait(admission->epoll, events, EVENTS_MOST, 0);

    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            on_readable(server, events[i].data.ptr);
        else
            incoming = true;
    }
    if (incoming) /* do this last, because it may close connections that have events */
        accept_all(server);
    while (admission->count && oldest(admission)->since_ms <= late_ms)
        drop(admission, oldest(admission));
}

int web_admission_open(struct web_admission *admission, int listen_fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct rlimit limit;

    emu_list_init(&admission->unverified);
    admission->count = 0;
    admission->paused_ms = 0;
    admission->most = WEB_UNVERIFIED;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < WEB_UNVERIFIED + OTHER_FDS)
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
