/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * up.c - `fabemu up`: start a fabric that runs until it is stopped.
 *
 * Without --foreground the command forks a supervisor, which continues in the background. Like
 * `fabemu run`, the supervisor starts the fabric's process. It sends the result of the start to the
 * command over a pipe, and then waits for the end of the fabric. If the fabric is killed, the
 * supervisor removes the socket.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/timeline/timeline.h"
#include "apps/cmd/host.h"
#include "apps/cmd/plan.h"
#include "apps/cmd/options.h"
#include "apps/daemon/report.h"
#include "apps/cmd/commands.h"
#include "apps/cmd/standstill.h"
#include "apps/base/message.h"

#define DEFAULT_NAME "default"

static const struct options_command up_command = {
    .name = "up",
    .operands = "[NAME]",
    .about = "Start the fabric NAME (or \"default\"). It runs until 'fabemu down NAME'. Programs\n"
             "use it after their shell has executed: eval \"$(fabemu env NAME)\"",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_NAME | OPTIONS_REPORT |
              OPTIONS_FOREGROUND | OPTIONS_FAULTS | OPTIONS_EVENTS | OPTIONS_BOUNDS |
              OPTIONS_CLUSTER | OPTIONS_LAUNCH | OPTIONS_CAPTURE | OPTIONS_WEB | OPTIONS_PROVIDER,
};

struct up {
    const struct options *options;
    const struct fabric_config *config;
    struct plan *plan;
    int result_fd; /* pipe to the command, which waits for the result of the start; -1: none */
    struct standstill standstill;
};

/* Handle an event of the fabric. Messages about it are printed only in the foreground. */
static void on_event(struct up *up, struct host *host, struct json_object *event)
{
    const char *what = emu_json_text(event, "event", "");
    char node[TOPO_SHOWN_BYTES];

    host_event(host, event);
    if (!up->options->foreground)
        return;
    if (strcmp(what, "node_died") == 0)
        print_message("%s (pid %lld, %s) died: %s", json_show_node(event, node),
                      (long long)emu_json_number(event, "pid", 0),
                      emu_json_text(event, "command", "?"), emu_json_text(event, "how", "?"));
    else if (strcmp(what, "host_lost") == 0)
        print_message("host %s is lost: %s", emu_json_text(event, "name", "?"),
                      emu_json_text(event, "why", "?"));
    else if (strcmp(what, "standstill") == 0)
        standstill_event(&up->standstill, event, true);
    else
        host_print_event(event);
}

static void take_events(struct up *up, struct host *host)
{
    struct json_object *event;

    while (conn_next(&host->conn, &event) == 1) {
        on_event(up, host, event);
        json_object_put(event);
    }
}

static void wait_for_end(struct up *up, struct host *host, int signal_fd)
{
    struct signalfd_siginfo info;

    take_events(up, host); /* an event may have arrived together with the event "ready" */
    while (host->conn.fd >= 0) {
        struct pollfd fds[2] = {{signal_fd, POLLIN, 0}, {host->conn.fd, POLLIN, 0}};
        poll(fds, 2, -1);
        int end = fds[1].revents ? conn_fill(&host->conn) : 0;
        take_events(up, host);
        if (end)
            conn_close(&host->conn);
        if (web_ended(&up->plan->web) && up->options->foreground)
            print_message("the web page's server has ended; the fabric goes on");
        while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo != SIGCHLD)
                return;
    }
}

/* Send the result of the start to the command: @error, or "" for success. */
static void send_result(const struct up *up, const char *error)
{
    if (up->result_fd < 0) {
        if (*error)
            print_message("%s", error);
    } else if (write(up->result_fd, error, strlen(error) + 1) < 0) {
        return; /* the command was killed */
    }
}

static void print_started(const struct up *up, const char *socket_path)
{
    const struct options *options = up->options;
    FILE *to = options_on_stdout(options) ? stderr : stdout;
    const char *name = up->config->name;
    char page[WEB_ADDRESS_BYTES];
    struct fold fold;
    FILE *out = fold_begin(&fold, to, "  ", FOLD_COLUMNS);

    fprintf(out, "fabric %s: %s, %s nodes, profile %s", name, up->config->graph->spec,
            amount_count(up->config->graph->nodes).text, up->config->profile.name);
    for (unsigned i = 0; i < up->config->set_count; i++)
        fprintf(out, "%s%s", i ? ", " : " with ", up->config->sets[i]);
    fprintf(out, ", clock %s\n", emu_clock_name(up->config->clock));
    fold_end(&fold);
    fprintf(to, "socket %s\n", socket_path);
    if (up->plan->web.port) {
        web_address(&up->plan->web, page);
        fprintf(to, "page %s\n", page);
    }
    /* the command's name as the user has typed it, because fabemu may not be in PATH */
    fprintf(to, "use it:   eval \"$(%s env %s)\"\nstop it:  %s down %s\n", program_invocation_name,
            name, program_invocation_name, name);
    fflush(to);
}

static int supervise(struct up *up)
{
    struct host_plan plan = up->plan->host;
    struct host host;
    sigset_t signals;
    char error[1024];

    plan.starter_fd = up->result_fd;
    host_signals(&signals);
    if (up->result_fd >= 0) {
        /* in the background, survive the end of the shell, which may send SIGHUP */
        sigdelset(&signals, SIGHUP);
        signal(SIGHUP, SIG_IGN);
    }
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    struct web *web = &up->plan->web;
    bool page = web->listen_fd >= 0;
    int err = page && web_start(web, up->config->name, error, sizeof error) ? -EIO : 0;
    if (!err)
        err = host_start(&host, up->config, &plan, error, sizeof error);
    if (err) {
        send_result(up, error);
        web_stop(web);
        return host_start_status(err);
    }
    up->plan->begun = true;
    web_fabric_ready(web);
    send_result(up, "");
    if (up->options->foreground)
        print_started(up, host.socket.path);
    wait_for_end(up, &host, signal_fd);
    bool asked = host.conn.fd >= 0 || host.report, failed;
    host_stop(&host);
    failed = host_has_unwritten_files(&host);
    timeline_sweep(plan.timeline.path);
    if (host.report)
        web_send_report(web, host.report);
    web_stop(web);
    if (host.report)
        standstill_report(&up->standstill, host.report);
    if (host.report && up->options->foreground)
        report_print(stderr, host.report);
    if (host.report && up->plan->report.fd >= 0 &&
        report_write(up->plan->report.fd, up->options->report, host.report))
        failed = true;
    if (!asked && up->options->foreground && WIFSIGNALED(host.status))
        print_message("fabric '%s' was killed by signal %d", up->config->name,
                      WTERMSIG(host.status));
    host_release(&host);
    standstill_release(&up->standstill);
    return asked && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * Leave the terminal, but not the session (detach_from_terminal() in host.c has the reason). A
 * background process group gets no signals from the terminal's keys. A process without a
 * controlling terminal gets no SIGHUP when the terminal closes. From then on the supervisor can
 * report errors only through the pipe to the command.
 */
static void leave_terminal(void)
{
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    if (terminal >= 0) {
        ioctl(terminal, TIOCNOTTY);
        close(terminal);
    }
    if (null < 0)
        return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    close(null);
}

/* Wait for the start of the supervisor @pid, which sends its result to @fd. Return its status. */
static int wait_started(const struct up *up, pid_t pid, int fd, const char *socket_path)
{
    char error[1024];
    ssize_t bytes = read(fd, error, sizeof error - 1);
    int status;

    if (bytes == 1 && !error[0]) {
        print_started(up, socket_path);
        return EXIT_SUCCESS;
    }
    if (bytes <= 0)
        snprintf(error, sizeof error, "the fabric died while it started; --foreground shows why");
    else
        error[bytes] = '\0';
    print_message("%s", error);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status)
               ? WEXITSTATUS(status)
               : EXIT_FAILURE;
}

static int in_background(struct up *up, const char *socket_path)
{
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        print_message("cannot make a pipe: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        up->result_fd = pipe_fds[1];
        leave_terminal();
        exit(supervise(up)); /* exit() flushes stdio */
    }
    close(pipe_fds[1]);
    int status = EXIT_FAILURE;
    if (pid < 0)
        print_message("cannot start a process: %s", strerror(errno));
    else
        status = wait_started(up, pid, pipe_fds[0], socket_path);
    close(pipe_fds[0]);
    return status;
}

int up_main(int argc, char **argv)
{
    struct options options;
    struct fabric_config config;
    struct topo_graph *graph;
    struct plan plan;
    struct up up = {.options = &options,
                    .config = &config,
                    .plan = &plan,
                    .result_fd = -1,
                    .standstill.after_ns = STANDSTILL_AFTER_NS};
    char path[sizeof((struct paths_socket *)0)->path];
    char error[512];

    int status = options_parse(&options, &up_command, NULL, argc, argv);
    if (status >= 0)
        return status;
    if (argc - options.operands > 1 || (argc > options.operands && options.name))
        return options_usage_error("up", "give one name");
    const char *name = options.name ? options.name : DEFAULT_NAME;
    if (argc > options.operands)
        name = argv[options.operands];
    options.name = name;
    status = plan_fabric(&config, &graph, &options, name);
    if (status)
        return status;
    if (paths_of(path, sizeof path, config.name, error, sizeof error)) {
        print_message("%s", error);
        status = EXIT_FAILURE;
    }
    if (!status)
        status = plan_make(&plan, &options, &config, NULL);
    if (!status) {
        status = options.foreground ? supervise(&up) : in_background(&up, path);
        plan.begun = plan.begun || status == EXIT_SUCCESS; /* the supervisor, which is another
                                                            * process, has set this field only in
                                                            * its own copy */
        plan_release(&plan);
    }
    topo_free(graph);
    return status;
}
