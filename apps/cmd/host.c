/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c - the process of a fabric: its start and its end.
 *
 * The supervisor (the process that the user started) forks the fabric's process. If the fabric is
 * killed, the supervisor removes the socket. If the supervisor is killed, the fabric detects the
 * end of their connection, removes the socket, and ends the processes of the run. Rejected:
 * PR_SET_PDEATHSIG for the fabric's process, because poll() cannot wait for it.
 */
#include "apps/cmd/host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/daemon/daemon.h"
#include "apps/cluster/links.h"
#include "apps/cluster/agent/agent.h"
#include "apps/cmd/launch.h"
#include "apps/base/procs.h"
#include "apps/base/message.h"
#include "apps/cmd/scratch.h"
#include "apps/cmd/standstill.h"
#include "emu/util/now.h"

#define EXIT_UNWRITTEN 3     /* exit status of the fabric's process if it could not write a file */
#define FAILED_MS      2000  /* longest wait until the supervisor has read why the start failed */
#define OTHERS_MS      10000 /* additional time for which the supervisor waits for other hosts */
#define CLOSE_MS       5000  /* longest wait until all other hosts confirm the end */
#define CONFIRM_MS     1000  /* longest wait until the coordinator confirms that a host leaves */
#define START_CHECK_MS 100   /* interval between checks whether the start was cancelled */
/* interval between checks whether a process without a pidfd has ended */
#define CHECK_MS 20

void host_signals(sigset_t *ret)
{
    struct sigaction hangup;

    sigemptyset(ret);
    sigaddset(ret, SIGINT);
    sigaddset(ret, SIGTERM);
    /* SIGHUP is ignored, for example, under nohup */
    if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN)
        sigaddset(ret, SIGHUP);
    sigaddset(ret, SIGQUIT);
    sigaddset(ret, SIGCHLD);
}

int host_signal_waits(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t pending;

    sigpending(&pending);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (sigismember(&pending, ends[i]))
            return ends[i];
    return 0;
}

/* --- the fabric's process ----------------------------------------------------------- */

static void raise_limit(__rlimit_resource_t what)
{
    struct rlimit limit;

    if (getrlimit(what, &limit) || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(what, &limit);
}

/*
 * Prepare the fabric's process: leave the terminal's foreground process group, replace standard
 * input and output by /dev/null, and raise limits to their maximum. The process stays in the
 * session of its parent, in which the attached processes usually are. Linux may schedule each
 * session as a group (sched_autogroup), and then a thread that yields does not let threads of other
 * sessions run: on Linux 6.18 they waited for up to a minute.
 */
static void detach_from_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN); /* otherwise writing to the terminal could stop this process */
    prctl(PR_SET_NAME, "fabemu-fabric");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* at the limit of file sizes, calls then return an error */
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        close(null);
    }
    raise_limit(RLIMIT_NOFILE);
    raise_limit(RLIMIT_FSIZE);
}

static void report_failure(int owner_fd, int err, const char *error)
{
    struct conn conn;

    conn_open(&conn, owner_fd, CONN_LINE_MAX);
    if (conn_put(&conn, conn_failed(err, error)) == 0)
        conn_drain(&conn, FAILED_MS);
    conn_close(&conn);
}

static int termination_fd(void)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int cannot_serve(int err, char *error, size_t error_bytes)
{
    return fail(err, error, error_bytes, "cannot serve its socket: %s%s", strerror(-err),
                err == -EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

struct fabric_process {
    struct fabric_config config;
    struct fabric *fabric;
    struct links *links;            /* links to other hosts; NULL: one host */
    int control[CLUSTER_HOSTS_MAX]; /* sockets to the agents of other hosts */
};

static struct json_object *links_now(const void *ctx)
{
    return links_report(ctx);
}

static bool agents_why(const void *links, char *text, size_t bytes)
{
    return links_launch_why(links, hosts_launch_failed, text, bytes);
}

/* On the coordinator, start the other hosts. Then open the ports to them, and start the fabric. */
static int host_begin(struct fabric_process *process, const struct host_plan *plan,
                      const char *name, char *error, size_t error_bytes)
{
    const struct hosts_plan *hosts = plan->hosts;
    int err = 0;

    if (hosts && !hosts->self) {
        err = hosts_launch(hosts, name);
        if (err)
            return fail(err, error, error_bytes, "cannot start the other hosts: %s",
                        strerror(-err));
    }
    if (hosts)
        err = links_open(&process->links, &hosts->cluster, hosts->self, &process->config,
                         hosts->host_of, error, error_bytes);
    return err ? err : fabric_start(&process->fabric, &process->config, error, error_bytes);
}

static int serve_all(struct fabric_process *process, struct daemon_config *serve,
                     const struct hosts_plan *plan, char *error, size_t error_bytes)
{
    struct coordinator_config hosts = {.control = process->control};

    if (plan) {
        hosts.count = plan->cluster.hosts;
        hosts.name = plan->name;
        hosts.call_ms = plan->cluster.silent_ns / 1000000u + 1000;
        hosts.query_ms = plan->cluster.silent_ns / 1000000u * 4 + 1000;
        hosts.start_ms = process->config.bounds.start_ms;
        hosts.last_ms = emu_bounds_filled(process->config.bounds).stop_ms / 2;
        hosts.links_up = links_up;
        hosts.links_why = links_why;
        hosts.links_warn = links_warn;
        hosts.agents_why = agents_why;
        hosts.links_report = links_now;
        hosts.links_again = links_control_again;
        hosts.links_rejoin = links_rejoin;
        hosts.links_refused = links_refused;
        hosts.links_duplicate = links_duplicate;
        hosts.links_ctx = process->links;
        hosts.link = links_watched(process->links, &hosts.links);
        for (uint32_t h = 1; h < hosts.count; h++)
            process->control[h] = links_control(process->links, h);
        serve->hosts = &hosts;
    }
    serve->fabric = &process->config;
    return daemon_serve(process->fabric, serve, error, error_bytes);
}

static int agent_main(const struct host *host, struct fabric_process *process,
                      const struct daemon_config *serve)
{
    uint32_t links;
    const struct hosts_link *link = links_watched(process->links, &links);
    const struct agent_config agent = {.control = links_control(process->links, 0),
                                       .listen_fd = serve->listen_fd,
                                       .signal_fd = serve->signal_fd,
                                       .owner_fd = serve->owner_fd,
                                       .start_ms = process->config.bounds.start_ms,
                                       .links_up = links_up,
                                       .links_why = links_why,
                                       .links_report = links_now,
                                       .links_rejoin = links_rejoin,
                                       .links_print_duplicates = links_print_duplicates,
                                       .links_warn = links_warn,
                                       .links_ctx = process->links,
                                       .link = link,
                                       .links = links,
                                       .stopped_ms = process->config.bounds.stopped_ms};
    int end = agent_serve(process->fabric, &agent);

    close(serve->listen_fd);
    paths_unlink(&host->socket);
    links_await_close(process->links, CONFIRM_MS);
    fabric_stop(process->fabric);
    links_close(process->links);
    return end == AGENT_ENDED ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Return how long to wait for other hosts at the end: at most half of the bound `stop`. */
static uint64_t close_bound_ms(const struct emu_bounds *bounds)
{
    uint64_t half_ms = emu_bounds_filled(*bounds).stop_ms / 2;

    return half_ms < CLOSE_MS ? half_ms : CLOSE_MS;
}

static int host_main(const struct host *host, const struct fabric_config *config, int listen_fd,
                     int owner_fd, const struct host_plan *plan)
{
    struct daemon_config serve = {.fabric = config,
                                  .faults = plan->faults,
                                  .capture = &plan->capture,
                                  .events_fd = plan->events_fd,
                                  .record_fd = plan->record_fd,
                                  .calls_fd = plan->calls_fd,
                                  .replay = plan->replay,
                                  .timeline = plan->timeline.fd < 0 ? NULL : &plan->timeline,
                                  .listen_fd = listen_fd,
                                  .owner_fd = owner_fd,
                                  .owner = getppid()};
    struct fabric_process process = {.config = *config};
    char error[1024] = "";
    char scratch[160];

    detach_from_terminal();
    serve.signal_fd = termination_fd();
    int err = serve.signal_fd < 0 ? cannot_serve(-errno, error, sizeof error)
                                  : host_begin(&process, plan, plan->fabric, error, sizeof error);
    if (err) {
        report_failure(owner_fd, err, *error ? error : strerror(-err));
        return EXIT_FAILURE;
    }
    if (plan->hosts && plan->hosts->self)
        return agent_main(host, &process, &serve);
    int end = serve_all(&process, &serve, plan->hosts, error, sizeof error);
    if (end < 0) {
        if (!*error)
            cannot_serve(end, error, sizeof error);
        report_failure(owner_fd, end, error);
    }
    close(listen_fd);
    paths_unlink(&host->socket);
    if (end == DAEMON_OWNER_GONE && plan->mark) {
        print_message("the supervisor of fabric '%s' died; ending the processes of its run",
                      config->name);
        procs_end_marked(plan->mark);
        scratch_path(scratch, sizeof scratch, host->socket.path, serve.owner);
        scratch_remove(scratch);
    }
    if (process.links)
        links_await_close(process.links, close_bound_ms(&config->bounds));
    if (end == DAEMON_OWNER_GONE)
        _exit(EXIT_SUCCESS); /* the supervisor, which would read the report, is dead */
    fabric_stop(process.fabric);
    links_close(process.links);
    return end < 0 ? EXIT_FAILURE : end == DAEMON_UNWRITTEN ? EXIT_UNWRITTEN : EXIT_SUCCESS;
}

/* --- the supervisor's side ---------------------------------------------------------- */

/* Return whether the start is cancelled, by a signal or the end of the process at starter_fd. */
static bool is_cancelled(const struct host_plan *plan)
{
    struct pollfd starter = {plan->starter_fd, 0, 0};

    return host_signal_waits() || poll(&starter, 1, 0) > 0; /* poll() ignores -1 */
}

/*
 * Wait for the next message of the fabric that is starting. Errors: those of conn_wait(); -EINTR if
 * is_cancelled().
 */
static int wait_first(struct host *host, const struct host_plan *plan, int most_ms,
                      struct json_object **event)
{
    int64_t end_ms = emu_now_ms() + most_ms, left_ms = most_ms;
    int err;

    do {
        err =
            conn_wait(&host->conn, event, left_ms < START_CHECK_MS ? (int)left_ms : START_CHECK_MS);
        if (err == -ETIMEDOUT && is_cancelled(plan))
            return -EINTR;
        left_ms = end_ms - emu_now_ms();
    } while (err == -ETIMEDOUT && left_ms > 0);
    return err;
}

/* Write to @error why the fabric did not start. @event: the event that came instead of "ready". */
static int not_ready(struct json_object *event, char *error, size_t error_bytes)
{
    if (strcmp(emu_json_text(event, "event", ""), "host_lost") == 0)
        return fail(-EHOSTDOWN, error, error_bytes,
                    "the fabric did not start: host %s was lost: %s",
                    emu_json_text(event, "name", "?"), emu_json_text(event, "why", "?"));
    return fail(-(int)emu_json_number(event, "errno", EAGAIN), error, error_bytes,
                "the fabric did not start: %s",
                emu_json_text(event, "error", "no reason was given"));
}

static int wait_ready(struct host *host, const struct host_plan *plan, uint64_t start_ms,
                      char *error, size_t error_bytes)
{
    struct json_object *event;
    int err = wait_first(host, plan, emu_bound_int_ms(start_ms), &event);

    if (!err && strcmp(emu_json_text(event, "event", ""), "handshake") == 0) {
        /* this host's part has started: begin a new time limit, for the other hosts */
        json_object_put(event);
        err = wait_first(host, plan, emu_bound_int_ms(start_ms), &event);
    }
    if (err == -EINTR)
        return fail(err, error, error_bytes, "interrupted while the fabric started");
    if (err)
        return fail(err, error, error_bytes, "the fabric %s",
                    err == -ETIMEDOUT
                        ? "did not start in time: --bound start=5min waits longer, and a "
                          "smaller network takes less"
                        : "died while it started; see the lines above, or try a smaller network");
    if (strcmp(emu_json_text(event, "event", ""), "ready") != 0)
        err = not_ready(event, error, error_bytes);
    json_object_put(event);
    return err;
}

static int fork_host(struct host *host, const struct fabric_config *config, int listen_fd,
                     const struct host_plan *plan, char *error, size_t error_bytes)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(-errno, error, error_bytes, "cannot make a socket: %s", strerror(errno));
    fflush(NULL);
    host->pid = fork();
    if (host->pid == 0) {
        close(pair[0]);
        /* exit() prints no line twice, because stdio's buffers were flushed before fork() */
        exit(host_main(host, config, listen_fd, pair[1], plan));
    }
    close(pair[1]);
    if (host->pid < 0) {
        close(pair[0]);
        return fail(-errno, error, error_bytes, "cannot start a process: %s", strerror(errno));
    }
    conn_open(&host->conn, pair[0], CONN_REPLY_MAX);
    return 0;
}

int host_start(struct host *ret, const struct fabric_config *config, const struct host_plan *plan,
               char *error, size_t error_bytes)
{
    uint64_t start_ms = config->bounds.start_ms;
    int listen_fd;

    *ret = (struct host){.conn = {.fd = -1}, .bounds = config->bounds};
    int err = procs_check(error, error_bytes);
    if (!err)
        err = paths_listen(&ret->socket, &listen_fd, config->name, error, error_bytes);
    if (err)
        return err;
    err = fork_host(ret, config, listen_fd, plan, error, error_bytes);
    close(listen_fd); /* the fabric's process has its own copy */
    if (err) {
        paths_unlink(&ret->socket);
        return err;
    }
    /* wait longer than the fabric itself, so that it can report which host is missing */
    if (plan->hosts && start_ms < UINT64_MAX - OTHERS_MS)
        start_ms += OTHERS_MS;
    err = wait_ready(ret, plan, start_ms, error, error_bytes);
    if (err) {
        host_stop(ret);
        host_release(ret);
    }
    return err;
}

int host_start_status(int err)
{
    return host_signal_waits() ? 128 + host_signal_waits() : exit_status_of(err);
}

struct prefix {
    char text[128];
};

/* Return "host NAME: " if the event is about a process on another host, else "". */
static struct prefix prefix_of(struct json_object *event)
{
    const char *host = emu_json_text(event, "host", NULL);
    struct prefix prefix = {""};

    if (host)
        snprintf(prefix.text, sizeof prefix.text, "host %s: ", host);
    return prefix;
}

void host_event(struct host *host, struct json_object *event)
{
    const char *what = emu_json_text(event, "event", "");

    if (strcmp(what, "ended") == 0 && !host->report) {
        host->report = json_object_get(json_object_object_get(event, "report"));
        host->in_order = emu_json_true(event, "in_order");
        snprintf(host->why, sizeof host->why, "%s", emu_json_text(event, "why", ""));
    } else if (strcmp(what, "frozen") == 0) {
        /* host_ended() resumes the frozen process, even if the fabric was killed */
        procs_freeze(&host->frozen, (pid_t)emu_json_number(event, "pid", 0));
    } else if (strcmp(what, "refused") == 0) {
        snprintf(host->refused, sizeof host->refused, "%s%s", prefix_of(event).text,
                 emu_json_text(event, "error", ""));
    }
}

void host_print_event(struct json_object *event)
{
    const char *what = emu_json_text(event, "event", "");
    const char *name = emu_json_text(event, "name", "?"), *why = emu_json_text(event, "why", "?");

    if (strcmp(what, "host_back") == 0)
        print_message("host %s is back", name);
    else if (strcmp(what, "host_refused") == 0)
        print_message("host %s cannot come back: %s", name, why);
    else if (strcmp(what, "host_duplicate") == 0)
        print_message(LINKS_DUPLICATE, name, why);
    else if (strcmp(what, "outside") == 0)
        print_message("%sMPI messages do not pass through the fabric: %s", prefix_of(event).text,
                      why);
    else if (strcmp(what, "refused") == 0)
        print_message("%s%s", prefix_of(event).text, emu_json_text(event, "error", ""));
    else if (strcmp(what, "time_over") == 0)
        print_message("simulated time has ended after 53 days, its limit: every process waits, and "
                      "nothing was to happen before this limit");
    else if (strcmp(what, "disagreement") == 0)
        standstill_disagreement(event);
}

void host_ended(struct host *host)
{
    procs_thaw(&host->frozen);
}

/* Handle messages up to the event "ended", which contains the final report. */
static void take_last_messages(struct host *host)
{
    struct json_object *message;
    int stop_ms = emu_bound_int_ms(host->bounds.stop_ms);
    bool ended = false;

    while (!ended && conn_wait(&host->conn, &message, stop_ms) == 0) {
        ended = strcmp(emu_json_text(message, "event", ""), "ended") == 0;
        host_event(host, message);
        host_print_event(message);
        json_object_put(message);
    }
}

/*
 * Wait for the end of the fabric's process, and kill it after the bound `stop`. Return false if it
 * was killed.
 */
static bool reap(struct host *host)
{
    struct pollfd end = {pidfd_open(host->pid, 0), POLLIN, 0};
    int64_t end_ms = emu_now_ms() + emu_bound_int_ms(host->bounds.stop_ms);
    bool in_time = true;
    pid_t ended;

    while (!(ended = waitpid(host->pid, &host->status, in_time ? WNOHANG : 0))) {
        int64_t left_ms = end_ms - emu_now_ms();
        if (left_ms > 0) {
            poll(&end, 1, end.fd < 0 ? CHECK_MS : (int)left_ms); /* poll() ignores -1 */
        } else {
            kill(host->pid, SIGKILL);
            in_time = false;
        }
    }
    if (ended > 0)
        host->pid = 0;
    if (end.fd >= 0)
        close(end.fd);
    return in_time;
}

bool host_stop(struct host *host)
{
    bool in_time = true;

    if (host->conn.fd >= 0) {
        if (conn_put(&host->conn, query_request("shutdown")) == 0)
            take_last_messages(host);
        conn_close(&host->conn);
    }
    if (host->pid > 0)
        in_time = reap(host);
    paths_unlink(&host->socket);
    return in_time;
}

bool host_has_unwritten_files(const struct host *host)
{
    return !host->pid && WIFEXITED(host->status) && WEXITSTATUS(host->status) == EXIT_UNWRITTEN;
}

void host_release(struct host *host)
{
    host_ended(host);
    conn_close(&host->conn);
    json_object_put(host->report);
    host->report = NULL;
}
