/* SPDX-License-Identifier: BSD-3-Clause */
/* join.c - `fabemu join`: this host's part of a fabric that another host coordinates. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/command.h"
#include "apps/cmd/launch.h"
#include "apps/cmd/commands.h"
#include "apps/cmd/host.h"
#include "apps/base/message.h"

static const struct options_command join_command = {
    .name = "join",
    .operands = "--cluster FILE",
    .about = "Run this host's part of a fabric until the first host of FILE ends it. On the\n"
             "first host 'fabemu run --cluster' and 'fabemu up --cluster' start this command\n"
             "on all other hosts (option --launch).",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_NAME | OPTIONS_BOUNDS | OPTIONS_CLUSTER,
};

static void print_reason(struct host *host, const char *name)
{
    if (*host->why)
        print_message("host %s: %s", name, host->why);
    host->why[0] = '\0';
}

static void take_events(struct host *host, const char *name)
{
    struct json_object *event;
    int end = conn_fill(&host->conn);

    while (conn_next(&host->conn, &event) == 1) {
        host_event(host, event);
        print_reason(host, name);
        json_object_put(event);
    }
    if (end)
        conn_close(&host->conn);
}

static int wait_for_end(struct host *host, const char *name, int signal_fd)
{
    struct signalfd_siginfo info;

    while (host->conn.fd >= 0) {
        struct pollfd fds[2] = {{signal_fd, POLLIN, 0}, {host->conn.fd, POLLIN, 0}};

        poll(fds, 2, -1);
        if (fds[1].revents)
            take_events(host, name);
        while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
            if (info.ssi_signo != SIGCHLD)
                return 128 + (int)info.ssi_signo;
    }
    return host->in_order ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int join(const struct fabric_config *config, const struct hosts_plan *plan)
{
    const struct host_plan tasks = {
        .events_fd = -1, .record_fd = -1, .starter_fd = -1, .timeline.fd = -1, .hosts = plan};
    struct host host;
    char error[1024];
    sigset_t signals;
    int signal_fd, status;

    host_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int err = host_start(&host, config, &tasks, error, sizeof error);
    if (err) {
        print_message("host %s: %s", plan->name[plan->self], error);
        return exit_status_of(err);
    }
    status = wait_for_end(&host, plan->name[plan->self], signal_fd);
    host_stop(&host);
    print_reason(&host, plan->name[plan->self]);
    if (status == EXIT_FAILURE && WIFSIGNALED(host.status))
        print_message("host %s: the fabric was killed by signal %d", plan->name[plan->self],
                      WTERMSIG(host.status));
    host_release(&host);
    return status;
}

int join_main(int argc, char **argv)
{
    struct fabric_config config;
    struct topo_graph *graph;
    struct hosts_plan plan;
    struct options options;
    char name[64];
    int status = options_parse(&options, &join_command, NULL, argc, argv);

    if (status >= 0)
        return status;
    if (!options.cluster || argc > options.operands)
        return options_usage_error("join", options.cluster ? "join takes no operands"
                                                           : "option --cluster FILE is missing");
    hosts_socket_name(name, sizeof name, options.name ? options.name : "default");
    status = options_fabric(&config, &graph, &options, name);
    if (status)
        return status;
    status = hosts_plan_make(&plan, &options, &config, HOSTS_AGENT);
    if (!status) {
        /* without this variable, the folder of sockets has the same path on all hosts */
        unsetenv("XDG_RUNTIME_DIR");
        status = join(&config, &plan);
        hosts_plan_release(&plan);
    }
    topo_free(graph);
    return status;
}
