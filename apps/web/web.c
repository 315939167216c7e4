/* SPDX-License-Identifier: BSD-3-Clause */
/* web.c - the server's listening socket, its token, and its process. */
#include "apps/web/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/control/conn.h"
#include "emu/util/now.h"

#define BACKLOG  SOMAXCONN /* the system's limit; see admission.c */
#define STOP_MS  8000      /* the server's process has this time to end by itself */
#define LAST_MS  2000      /* time-out of sending the last report */
#define POLL_MS  10        /* interval of checks whether that process has ended */
#define NICENESS 5         /* gives the fabric's threads priority over the server */

static int listen_at(uint16_t port, char *error, size_t error_bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;

    int err = -errno;
    if (fd >= 0)
        close(fd);
    return fail(err, error, error_bytes, "cannot serve the page at 127.0.0.1, port %u: %s", port,
                strerror(-err));
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in address = {0};
    socklen_t bytes = sizeof address;

    getsockname(fd, (struct sockaddr *)&address, &bytes);
    return ntohs(address.sin_port);
}

int web_open(struct web *ret, uint16_t port, char *error, size_t error_bytes)
{
    uint8_t random[WEB_TOKEN_CHARS / 2];

    *ret = WEB_NONE;
    if (!web_supported())
        return fail(-ENOSYS, error, error_bytes,
                    "this build has no web server; install libmicrohttpd-dev and build again");
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fail(-EIO, error, error_bytes, "cannot get random numbers for the page's address");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(ret->token + 2 * i, 3, "%02x", random[i]);
    ret->listen_fd = listen_at(port, error, error_bytes);
    if (ret->listen_fd < 0) {
        int err = ret->listen_fd;

        ret->listen_fd = -1;
        return err;
    }
    ret->port = port_of(ret->listen_fd);
    return 0;
}

void web_close(struct web *web)
{
    if (web->listen_fd >= 0)
        close(web->listen_fd);
    web->listen_fd = -1;
}

void web_address(const struct web *web, char ret[WEB_ADDRESS_BYTES])
{
    snprintf(ret, WEB_ADDRESS_BYTES, "http://127.0.0.1:%u/%s/", web->port, web->token);
}

/* --- the server's process ----------------------------------------------------------- */

/*
 * Leave the terminal's foreground process group, so that this process does not get the terminal's
 * signals, and let the kernel send SIGTERM to this process when its parent ends. Returns a
 * descriptor that is readable on SIGTERM.
 */
static int child_init(pid_t parent)
{
    sigset_t term;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_NAME, "fabemu-web");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICENESS);
    signal(SIGPIPE, SIG_IGN);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    return signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * Close all descriptors except @fd, @other and the standard ones. Other processes may wait until a
 * socket of the supervisor closes, and a copy of the socket here would keep it open.
 */
static void keep_only(int fd, int other)
{
    unsigned low = (unsigned)(fd < other ? fd : other), high = (unsigned)(fd < other ? other : fd);

    if (low > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
}

/* Wait until the parent calls web_fabric_ready(). Returns false if the fabric has not started. */
static bool wait_ready(int parent_fd, int signal_fd)
{
    struct pollfd fds[2] = {{parent_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}};
    char byte;

    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        continue;
    return !fds[1].revents && read(parent_fd, &byte, 1) == 1;
}

static int child_main(struct web *web, const char *name, int parent_fd, pid_t parent)
{
    keep_only(web->listen_fd, parent_fd);
    int signal_fd = child_init(parent), err = 0;
    char error[512] = "";

    fcntl(parent_fd, F_SETFL, O_NONBLOCK);
    web->parent_fd = parent_fd;
    if (wait_ready(parent_fd, signal_fd))
        err = web_serve(web, name, signal_fd, NULL, error, sizeof error);
    if (err)
        print_message("the page is not served: %s", error);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int web_start(struct web *web, const char *name, char *error, size_t error_bytes)
{
    pid_t parent = getpid();
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fail(-errno, error, error_bytes, "cannot make a socket for the page's server: %s",
                    strerror(errno));
    fflush(NULL);
    web->pid = fork();
    if (web->pid == 0) {
        close(ends[1]);
        _exit(child_main(web, name, ends[0], parent));
    }
    close(ends[0]);
    web_close(web);
    if (web->pid < 0) {
        close(ends[1]);
        web->pid = 0;
        return fail(-errno, error, error_bytes, "cannot start the page's server: %s",
                    strerror(errno));
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    web->child_fd = ends[1];
    return 0;
}

/*
 * Close only our direction of the socket. If we closed the socket while it has unread input (the
 * byte that reports an opened page), the server would lose the last report.
 */
static void hang_up(const struct web *web)
{
    if (web->child_fd >= 0)
        shutdown(web->child_fd, SHUT_WR);
}

void web_fabric_ready(struct web *web)
{
    if (web->child_fd < 0)
        return;
    if (send(web->child_fd, "", 1, MSG_NOSIGNAL) < 0) /* the process has ended */
        print_message("the page's server has ended");
}

bool web_opened(struct web *web)
{
    char byte;

    return web->child_fd < 0 || recv(web->child_fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* Send bytes until all are sent or @end_ms has passed. Returns whether all were sent. */
static bool send_all(int fd, const char *text, size_t bytes, int64_t end_ms)
{
    int64_t left_ms;

    while (bytes && (left_ms = end_ms - emu_now_ms()) > 0) {
        struct pollfd pollfd = {fd, POLLOUT, 0};

        poll(&pollfd, 1, (int)left_ms);
        ssize_t put = send(fd, text, bytes, MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        text += put > 0 ? put : 0;
        bytes -= put > 0 ? (size_t)put : 0;
    }
    return !bytes;
}

void web_send_report(struct web *web, struct json_object *report)
{
    int64_t end_ms = emu_now_ms() + LAST_MS;
    struct json_object *event;
    const char *text;

    if (web->child_fd < 0)
        return;
    event = conn_event("report");
    json_object_object_add(event, "report", json_object_get(report));
    text = json_object_to_json_string_ext(event, JSON_C_TO_STRING_PLAIN);
    if (send_all(web->child_fd, text, strlen(text), end_ms))
        send_all(web->child_fd, "\n", 1, end_ms); /* it tells the server that the report is whole */
    json_object_put(event);
    hang_up(web);
}

bool web_ended(struct web *web)
{
    if (web->pid <= 0 || waitpid(web->pid, NULL, WNOHANG) != web->pid)
        return false;
    web->pid = 0;
    return true;
}

void web_stop(struct web *web)
{
    int64_t end_ms = emu_now_ms() + STOP_MS;

    web_close(web);
    hang_up(web);
    while (web->pid > 0 && waitpid(web->pid, NULL, WNOHANG) == 0) {
        if (emu_now_ms() >= end_ms)
            kill(web->pid, SIGKILL);
        poll(NULL, 0, POLL_MS);
    }
    web->pid = 0;
    if (web->child_fd >= 0)
        close(web->child_fd);
    web->child_fd = -1;
}
