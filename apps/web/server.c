/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server.c - the page's server: one thread that waits in poll() for browsers, for the fabric, and
 * for the signal to end. The *tail* of a stream consists of its last events: the last report, which
 * the parent process sends, and ENDED.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/control/paths.h"
#include "apps/web/internal.h"
#include "emu/util/now.h"

#define CHECK_MS     200            /* interval of checks of time-outs */
#define REPORT_MS    6000           /* longest wait for the last report, if the parent lives */
#define CLOSING_MS   1500           /* browsers have this time to read the tail */
#define TAIL_BYTES   65536          /* bytes of the last report that are read at once */
#define TAIL_MOST    CONN_REPLY_MAX /* limit of the last report, in bytes */
#define MEMORY_BYTES 65536          /* memory of a connection, for its headers and output */

#define ENDED "{\"event\":\"ended\"}\n\n"

bool web_supported(void)
{
    return true;
}

static void cut(struct web_conn *conn)
{
    conn->cut = true;
    shutdown(conn->fd, SHUT_RDWR);
}

void web_conn_busy(struct web_server *server, struct web_conn *conn, bool busy)
{
    conn->busy = busy;
    conn->since_ms = emu_now_ms();
    emu_list_del(&conn->all);
    emu_list_add(&server->conns, &conn->all);
}

void web_page_opened(struct web_server *server)
{
    if (!server->opened && server->web->parent_fd >= 0)
        send(server->web->parent_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    server->opened = true;
}

static void cut_late(struct web_server *server, int64_t now_ms)
{
    emu_each_listed (struct web_conn, conn, &server->conns, all)
        if (!conn->busy && !conn->cut && now_ms - conn->since_ms >= WEB_REQUEST_MS)
            cut(conn);
}

static void begin_conn(struct web_server *server, struct MHD_Connection *http, void **context)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct web_conn *conn = calloc(1, sizeof *conn);

    *context = conn;
    if (!conn)
        return; /* out of memory: only the time-out WEB_IDLE_S applies to this connection */
    conn->fd = info->connect_fd;
    conn->since_ms = emu_now_ms();
    emu_list_add(&server->conns, &conn->all);
}

static void on_conn(void *ctx, struct MHD_Connection *http, void **context,
                    enum MHD_ConnectionNotificationCode what)
{
    struct web_server *server = ctx;
    struct web_conn *conn = *context;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_conn(server, http, context);
    } else if (conn) {
        emu_list_del(&conn->all);
        free(conn);
        *context = NULL;
    }
}

/*
 * Open a connection to the fabric, over which no request is sent. When the fabric ends, it closes
 * this connection, so the server notices the end.
 */
static int watch_open(struct web_server *server, char *error, size_t error_bytes)
{
    int fd, err = paths_connect(&fd, NULL, server->name, error, error_bytes);

    if (!err)
        conn_open(&server->watch, fd, CONN_REPLY_MAX);
    return err;
}

static int server_open(struct web_server *server, char *error, size_t error_bytes)
{
    const struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_LIMIT, WEB_CONNS, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, WEB_IDLE_S, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, MEMORY_BYTES, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)web_request_over, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_conn, server},
        {MHD_OPTION_END, 0, NULL},
    };

    int err = web_admission_open(&server->admission, server->web->listen_fd);

    if (err)
        return fail(err, error, error_bytes, "the page's server does not start: %s",
                    strerror(-err));
    server->daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
                         NULL, NULL, web_request, server, MHD_OPTION_ARRAY, options,
                         MHD_OPTION_END);
    if (server->daemon)
        return 0;
    web_admission_close(&server->admission);
    return fail(-EIO, error, error_bytes, "the page's server does not start");
}

static void server_close(struct web_server *server)
{
    emu_each_listed (struct web_link, link, &server->links, all)
        if (link->waits) {
            link->waits = false;
            MHD_resume_connection(link->http);
        }
    MHD_stop_daemon(server->daemon); /* calls web_request_over() for open requests */
    web_admission_close(&server->admission);
    close(server->web->listen_fd);
    server->web->listen_fd = -1;
    text_buf_free(&server->tail);
    conn_close(&server->watch);
}

static int sleep_ms(const struct web_server *server)
{
    MHD_UNSIGNED_LONG_LONG http_ms;
    bool idle = emu_list_empty(&server->conns) && !server->admission.count &&
                !server->admission.paused_ms;
    int most = idle && !server->ended_ms ? -1 : CHECK_MS;

    if (MHD_get_timeout(server->daemon, &http_ms) != MHD_YES)
        return most;
    return most < 0 || http_ms < (unsigned)most ? (int)http_ms : most;
}

/* Add a descriptor for each link; -1, which poll() ignores, if the link does not wait for data. */
static nfds_t poll_links(struct web_server *server, struct pollfd *fds)
{
    nfds_t count = 0;

    emu_each_listed (struct web_link, link, &server->links, all)
        fds[count++] = (struct pollfd){link->waits && !link->over ? link->conn.fd : -1, POLLIN, 0};
    return count;
}

static void step_links(struct web_server *server, const struct pollfd *fds)
{
    nfds_t at = 0;

    emu_each_listed (struct web_link, link, &server->links, all)
        web_link_step(link, fds[at++].revents);
}

static void watch_step(struct web_server *server)
{
    char bytes[64];
    ssize_t got = recv(server->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    conn_close(&server->watch);
    server->ended_ms = emu_now_ms();
}

/* End the tail: drop the report unless it is @complete, and append the event ENDED. */
static void tail_close(struct web_server *server, bool complete)
{
    if (server->web->parent_fd < 0)
        return;
    close(server->web->parent_fd);
    server->web->parent_fd = -1;
    server->tail_ms = emu_now_ms();
    if (!complete)
        text_buf_clear(&server->tail);
    text_puts(&server->tail, server->tail.bytes ? "\n\ndata: " ENDED : ENDED);
}

static void tail_step(struct web_server *server)
{
    char *space = text_buf_reserve(&server->tail, TAIL_BYTES);
    ssize_t got = space ? read(server->web->parent_fd, space, TAIL_BYTES) : -1;

    if (space && got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    server->tail.bytes += got > 0 ? (size_t)got : 0;
    if (got > 0 && server->tail.bytes <= TAIL_MOST)
        return;
    bool complete = !got && server->tail.bytes && server->tail.at[server->tail.bytes - 1] == '\n';
    server->tail.bytes -= complete;
    tail_close(server, complete);
}

/*
 * Return whether the fabric has ended, and all answers were sent or CLOSING_MS has passed since the
 * tail was complete.
 */
static bool is_over(const struct web_server *server)
{
    int64_t from_ms = server->tail_ms > server->ended_ms ? server->tail_ms : server->ended_ms;

    return server->ended_ms &&
           ((!server->link_count && !server->answers) ||
            (server->web->parent_fd < 0 && emu_now_ms() - from_ms >= CLOSING_MS));
}

/* Serve until the fabric has ended or @signal_fd is readable. Returns 0, or -errno of poll(). */
static int serve(struct web_server *server, int signal_fd)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[5 + WEB_LINKS] = {{.fd = info->epoll_fd, .events = POLLIN},
                                        {.fd = signal_fd, .events = POLLIN}};

    do {
        fds[2] = (struct pollfd){server->watch.fd, POLLIN, 0};
        fds[3] = (struct pollfd){server->web->parent_fd, POLLIN, 0};
        fds[4] = (struct pollfd){server->admission.epoll, POLLIN, 0};
        nfds_t count = 5 + poll_links(server, fds + 5);

        if (poll(fds, count, sleep_ms(server)) < 0) {
            if (errno != EINTR)
                return -errno;
            continue;
        }
        if (fds[2].revents)
            watch_step(server);
        if (fds[3].revents)
            tail_step(server);
        else if (server->ended_ms && emu_now_ms() - server->ended_ms >= REPORT_MS)
            tail_close(server, false);
        step_links(server, fds + 5);
        web_admission_step(server);
        MHD_run(server->daemon);
        cut_late(server, emu_now_ms());
    } while (!fds[1].revents && !is_over(server));
    return 0;
}

int web_serve(struct web *web, const char *name, int signal_fd,
              void (*ready)(const struct web *web), char *error, size_t error_bytes)
{
    struct web_server server = {.web = web, .name = name, .watch.fd = -1};
    int err = name ? watch_open(&server, error, error_bytes) : 0;

    emu_list_init(&server.conns);
    emu_list_init(&server.links);
    if (web->parent_fd < 0)
        text_puts(&server.tail, ENDED);
    if (!err)
        err = server_open(&server, error, error_bytes);
    if (err) {
        text_buf_free(&server.tail);
        conn_close(&server.watch);
        return err;
    }
    if (ready)
        ready(web);
    err = serve(&server, signal_fd);
    server_close(&server);
    return err ? fail(err, error, error_bytes, "the page's server failed in poll(): %s",
                      strerror(-err))
               : 0;
}
