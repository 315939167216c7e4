/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - the control socket: requests of clients to a daemon that serves a small fabric.
 *
 * The daemon is the real one, on this thread. When it would sleep, the next line of the input is
 * executed (the linker replaces epoll_wait()), so a run depends only on its input. The input also
 * triggers the daemon's timer. A line begins with a character:
 *   A to H, O   send the rest of the line as that client, which connects first if necessary;
 *               O is the supervisor
 *   -X          send the rest as client X, without the end of the line
 *   ~X /X <X    client X closes; shuts down its sending side; reads
 *   ! = .       the timer expires; the fabric's workers do a pass; the daemon is asked to end
 *   ,           before any of these: execute the next line as well before the daemon runs
 *
 * In sent text an @ stands for EMU_HOSTIF_VERSION, so that the corpus is valid for every version.
 *
 * An input that begins with 'q' uses a fabric with acknowledgments, and one that begins with 'v' a
 * fabric on clock virtual.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "apps/audit/audit.h"
#include "apps/control/conn.h"
#include "apps/daemon/daemon.h"
#include "apps/fabric/internal.h"
#include "emu/worker/lockstep.h"
#include "tests/fuzz/fuzz.h"

#define CLIENTS 9 /* A to H, and O */
#define OWNER   8

struct client {
    int fd; /* -1: not connected */
    struct emu_json_buf in;
};

/* Global, because the replaced library functions have no argument for it. */
static struct fixture {
    struct fabric *fabric;
    struct client client[CLIENTS];
    int listen_fd;
    int signal_fd;
    int timer_fd; /* the daemon's timer */
    const char *at;
    const char *end;
} fixture;

int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);

/* --- clients ------------------------------------------------------------------------ */

static void client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    emu_json_free(&client->in);
}

static int listen_somewhere(struct sockaddr_un *ret, socklen_t *bytes)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *bytes = sizeof *ret;
    fuzz_must(fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof any.sun_family) &&
                  !listen(fd, CLIENTS) && !getsockname(fd, (struct sockaddr *)ret, bytes),
              "a socket can listen");
    return fd;
}

static void client_connect(struct client *client)
{
    struct sockaddr_un address;
    socklen_t bytes = sizeof address;

    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_must(client->fd >= 0 &&
                  !getsockname(fixture.listen_fd, (struct sockaddr *)&address, &bytes),
              "a client can create a socket");
    if (connect(client->fd, (struct sockaddr *)&address, bytes)) /* the daemon has ended */
        client_close(client);
}

/* Read the output of the daemon: objects, each a reply or an event. */
static void client_read(struct client *client)
{
    struct json_object *message;
    struct emu_json_fds fds;
    int got = 0;

    if (client->fd < 0)
        return;
    while (emu_json_read(&client->in, client->fd, &fds, MSG_DONTWAIT) > 0)
        for (unsigned i = 0; i < 2; i++)
            if (fds.fd[i] >= 0)
                close(fds.fd[i]);
    while ((got = emu_json_next(&client->in, CONN_REPLY_MAX, SIZE_MAX, &message)) == 1) {
        fuzz_must(json_object_object_get_ex(message, "ok", NULL) ||
                      emu_json_text(message, "event", NULL),
                  "each line of the daemon is a reply or an event");
        json_object_put(message);
    }
    fuzz_must(got == 0, "each line of the daemon is an object");
}

/* Return the client of the letter at @at; NULL if it is no client. */
static struct client *client_of(const char *at, const char *end)
{
    if (at < end && *at >= 'A' && *at <= 'H')
        return &fixture.client[*at - 'A'];
    return at < end && *at == 'O' ? &fixture.client[OWNER] : NULL;
}

/* Return @text with each @ replaced by the version; the caller frees it. */
static char *written_out(const char *text, size_t *bytes)
{
    char *ret;
    FILE *out = open_memstream(&ret, bytes);
    size_t left = *bytes;

    fuzz_must(out != NULL, "memory for a line");
    for (; left; text++, left--) {
        if (*text == '@')
            fprintf(out, "%u", EMU_HOSTIF_VERSION);
        else
            fputc(*text, out);
    }
    fuzz_must(fclose(out) == 0, "memory for a line");
    return ret;
}

static void client_send(struct client *client, const char *text, size_t bytes)
{
    char *line = written_out(text, &bytes);

    if (client->fd < 0 && client != &fixture.client[OWNER])
        client_connect(client);
    if (client->fd >= 0 && send(client->fd, line, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        client_close(client);
    free(line);
}

/* --- the input ---------------------------------------------------------------------- */

static void ring(int fd)
{
    uint64_t one = 1;

    fuzz_must(write(fd, &one, sizeof one) == sizeof one || errno == EAGAIN,
              "an eventfd can be written");
}

static void pass(void)
{
    if (fixture.fabric->drive.lockstep) {
        emu_lockstep_pass(fixture.fabric->drive.lockstep);
        return;
    }
    for (uint32_t w = 0; w < fixture.fabric->workers; w++)
        emu_worker_pass(fixture.fabric->worker[w]);
}

/* @next: the start of the following line. */
static void do_line(const char *at, const char *end, const char *next)
{
    struct client *client = client_of(at, end), *other = client_of(at + 1, end);

    if (client)
        client_send(client, at + 1, (size_t)(next - at - 1));
    else if (at < end && *at == '!')
        ring(fixture.timer_fd);
    else if (at < end && *at == '=')
        pass();
    else if (at < end && *at == '.')
        ring(fixture.signal_fd);
    if (client || !other)
        return;
    if (*at == '-' && end > at + 2)
        client_send(other, at + 2, (size_t)(end - at - 2));
    else if (*at == '~')
        client_close(other);
    else if (*at == '/' && other->fd >= 0)
        shutdown(other->fd, SHUT_WR);
    else if (*at == '<')
        client_read(other);
}

/* Replaces sleeping: execute the next line; after the last one, tell the daemon to end. */
static void do_next(void)
{
    bool more = true;

    if (fixture.at == fixture.end)
        ring(fixture.signal_fd);
    while (more && fixture.at < fixture.end) {
        const char *line = fixture.at;
        const char *end = memchr(line, '\n', (size_t)(fixture.end - line));

        fixture.at = end ? end + 1 : fixture.end;
        more = *line == ',';
        do_line(line + more, end ? end : fixture.end, fixture.at);
    }
}

/* --- replaced library functions ----------------------------------------------------- */

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
    int count = __real_epoll_wait(epoll, events, most, 0);

    if (count || !timeout_ms)
        return count;
    do_next();
    return __real_epoll_wait(epoll, events, most, 0);
}

int __wrap_timerfd_create(int clock, int flags)
{
    (void)clock, (void)flags;
    fixture.timer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fixture.timer_fd;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    (void)fd, (void)flags, (void)new, (void)old;
    return 0;
}

/* Do nothing: faults may stop and kill processes, and all clients are this process. */
int __wrap_kill(pid_t pid, int signal);
int __wrap_kill(pid_t pid, int signal)
{
    (void)pid, (void)signal;
    return 0;
}

/* --- a run -------------------------------------------------------------------------- */

static struct topo_graph *graph_make(void)
{
    struct topo_graph *graph;
    char error[256];

    fuzz_must(topo_parse(&graph, "kary:2,2", error, sizeof error) == 0, error);
    return graph;
}

static void serve(const struct fabric_config *config)
{
    struct daemon_config daemon = {.fabric = config,
                                   .owner = getpid(),
                                   .events_fd = -1,
                                   .record_fd = -1};
    char error[FAULT_ERROR_BYTES];
    struct sockaddr_un address;
    socklen_t bytes;
    int pair[2];

    fuzz_must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair),
              "a pair of sockets can be created");
    daemon.owner_fd = pair[0];
    fixture.client[OWNER].fd = pair[1];
    daemon.listen_fd = fixture.listen_fd = listen_somewhere(&address, &bytes);
    daemon.signal_fd = fixture.signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int ended = daemon_serve(fixture.fabric, &daemon, error, sizeof error);
    fuzz_must(ended == DAEMON_SHUTDOWN || ended == DAEMON_OWNER_GONE,
              "the daemon ends by a request or with its supervisor");
    for (unsigned i = 0; i < CLIENTS; i++) {
        client_read(&fixture.client[i]);
        client_close(&fixture.client[i]);
    }
    close(fixture.listen_fd);
    close(fixture.signal_fd);
}

/* When all clients have closed, no process, group or buffer may be left. */
static void check_nothing_left(void)
{
    char error[256];

    for (uint32_t n = 0; n < fixture.fabric->config.graph->nodes; n++)
        fabric_detach(fixture.fabric, n);
    fuzz_must(fabric_attached(fixture.fabric) == 0, "no process is attached");
    fuzz_must(fixture.fabric->groups == 0 && fixture.fabric->combining == 0, "no group is left");
    fuzz_must(fabric_check_bufs(fixture.fabric, error, sizeof error) == 0, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct topo_graph *graph = graph_make();
    bool acknowledged = bytes && *data == 'q', simulated = bytes && *data == 'v';
    struct fabric_config config = {.name = "fuzz",
                                   .graph = graph,
                                   .clock = simulated ? EMU_CLOCK_VIRTUAL : EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .start_stopped = true};
    char error[256];

    fuzz_must(emu_profile_load(&config.profile, acknowledged ? "qsnet3" : "oq2004", error,
                               sizeof error) == 0,
              error);
    fuzz_must(fabric_start(&fixture.fabric, &config, error, sizeof error) == 0, error);
    for (unsigned i = 0; i < CLIENTS; i++)
        fixture.client[i] = (struct client){.fd = -1};
    fixture.at = bytes ? (const char *)data + (acknowledged || simulated) : NULL;
    fixture.end = fixture.at ? (const char *)data + bytes : NULL;
    serve(&config);
    check_nothing_left();
    fabric_stop(fixture.fabric);
    topo_free(graph);
    return 0;
}
