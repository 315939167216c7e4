/* SPDX-License-Identifier: BSD-3-Clause */
/* status.c - `fabemu down`, `status`, `check` and `env`: requests to running fabrics. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "apps/audit/audit.h"
#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/cmd/options.h"
#include "apps/cmd/launch.h"
#include "apps/base/command.h"
#include "apps/control/paths.h"
#include "apps/daemon/report.h"
#include "apps/cmd/commands.h"
#include "apps/cmd/standstill_lines.h"
#include "apps/base/message.h"
#include "apps/base/text.h"
#include "apps/telemetry/view.h"
#include "apps/control/conn.h"
#include "nic/provider.h"

#define END_MS 5000 /* longest wait for the end of a fabric */

/* --- down --------------------------------------------------------------------------- */

static const struct options_command down_command = {
    .name = "down",
    .operands = "[NAME]",
    .about = "Stop the fabric NAME (or \"default\"). Processes that are attached to it end.",
};

/*
 * Request the end of the fabric. If it does not answer, it may be waiting for another host: send
 * SIGTERM to its supervisor. Open the pidfd before the pid is checked, so that the signal cannot
 * reach another process that gets the same pid later. @owner: set to the supervisor's pid. Errors:
 * one line in @error.
 */
static int ask_down(const char *name, int *pidfd, pid_t *owner, char *error, size_t error_bytes)
{
    struct json_object *reply, *request = query_request("status");
    int err;

    /* do not wait for other hosts: SIGTERM ends the fabric sooner */
    json_object_object_add(request, "wait", json_object_new_boolean(false));
    err = query_fabric(name, request, NULL, &reply, owner, error, error_bytes);

    *pidfd = *owner > 0 ? pidfd_open(*owner, 0) : -1;
    if (!err) {
        json_object_put(reply);
        err = query_fabric(name, query_request("shutdown"), NULL, &reply, NULL, error, error_bytes);
    } else if (err == -ETIMEDOUT && *pidfd >= 0) {
        if (!paths_supervised_by(name, *owner))
            return fail(err, error, error_bytes,
                        "fabric '%s' does not answer, and process %d, which listens there, is not "
                        "its supervisor: no signal was sent",
                        name, (int)*owner);
        return pidfd_send_signal(*pidfd, SIGTERM, NULL, 0) ? err : 0;
    }
    if (!err)
        json_object_put(reply);
    return err;
}

int down_main(int argc, char **argv)
{
    struct options options;
    const char *name;
    char error[512];
    pid_t owner = 0;

    int status = options_parse_name(&options, &name, &down_command, NULL, argc, argv);
    if (status >= 0)
        return status;
    struct pollfd end = {-1, POLLIN, 0};
    if (argc == options.operands)
        name = paths_default(options.running, true);
    if (argc == options.operands && !strncmp(name, PATHS_RUN_PREFIX, 4)) {
        print_message("fabric '%s' was not stopped, because it was started by fabemu run and its "
                      "name was not given; to stop it: fabemu down %s",
                      name, name);
        return EXIT_FAILURE;
    }
    if (ask_down(name, &end.fd, &owner, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_FAILURE;
    }
    if (end.fd >= 0 && poll(&end, 1, END_MS) == 0) {
        print_message("fabric '%s' is stopping, but its supervisor (pid %d) has not ended yet",
                      name, (int)owner);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* --- status ------------------------------------------------------------------------- */

static const struct options_command status_command = {
    .name = "status",
    .operands = "[NAME]",
    .about = "Show the running fabric NAME with its processes and its report. Without NAME,\n"
             "list all fabrics of this user.",
    .groups = OPTIONS_JSON,
};

struct status {
    bool metrics;
    bool named; /* --names was given */
    enum telemetry_names names;
    bool json;
    bool report;               /* print a single fabric, together with its report */
    struct json_object *array; /* with --json: gets the status of each fabric, and is printed at
                                * the end */
    unsigned running;          /* number of fabrics that run */
    unsigned left_over;        /* number of sockets of fabrics that have crashed */
    bool failed;
};

static bool read_names(void *into, const char *value, const char **right)
{
    struct status *status = into;

    *right = "node_exporter or infiniband_exporter";
    return status->named = telemetry_names_of(value, &status->names);
}

static const struct option_row rows[] = {
    {"metrics", NULL, "print the counters of NAME (or \"default\") in Prometheus' text format",
     .at = offsetof(struct status, metrics)},
    {"names", "node_exporter|infiniband_exporter", "names of metrics (default node_exporter)",
     .read = read_names},
};

static void print_indented(const char *line)
{
    fold_printf(stdout, "    ", "  %s\n", line);
}

static void print_process(FILE *out, struct json_object *one)
{
    int64_t waited_ns = emu_json_number(one, "waited_ns", -1);
    int64_t rank = emu_json_number(one, "rank", -1);
    char node[TOPO_SHOWN_BYTES];

    fprintf(out, "  %s: ", json_show_node(one, node));
    if (json_object_object_get(one, "host"))
        fprintf(out, "host %s, ", emu_json_text(one, "host", ""));
    fprintf(out, "pid %lld, %s", (long long)emu_json_number(one, "pid", 0),
            emu_json_text(one, "command", "?"));
    if (rank >= 0)
        fprintf(out, ", rank %lld", (long long)rank);
    if (waited_ns >= 0)
        fprintf(out, ", waited %s for cores", duration_of_ns((double)waited_ns).text);
    fputc('\n', out);
}

/* Print a fabric. @name: the name of its socket. On an agent's host the fabric has another name. */
static void print_status(const struct status *status, const char *name, struct json_object *reply)
{
    const char *own = emu_json_text(reply, "name", "?");
    struct json_object *report = json_object_object_get(reply, "report");
    struct json_object *attached = json_object_object_get(reply, "attached");
    size_t count = emu_json_count(attached);
    long long threads = (long long)emu_json_number(report, "threads", 0);
    struct fold fold;
    FILE *out = fold_begin(&fold, stdout, "    ", FOLD_COLUMNS);

    emu_json_no_controls(reply);
    if (strcmp(name, own) == 0)
        fprintf(out, "%s: ", name);
    else
        fprintf(out, "%s (a host of %s): ", name, own);
    fprintf(out, "%s, profile %s, clock %s, %lld thread%s, %zu of %lld nodes attached (pid %lld)",
            emu_json_text(report, "topo", "?"), report_profile(report).text,
            emu_json_text(json_object_object_get(report, "clock"), "mode", "?"), threads,
            plural_s(threads), count, (long long)emu_json_number(report, "nodes", 0),
            (long long)emu_json_number(reply, "supervisor", 0));
    if (!status->report && standstill_for_ns(reply))
        fprintf(out, ", nothing has moved for %s%s",
                duration_of_ns((double)standstill_for_ns(reply)).text,
                emu_json_true(json_object_object_get(reply, "standstill"), "simulated")
                    ? " of simulated time"
                    : "");
    fputc('\n', out);
    for (size_t i = 0; i < count && status->report; i++)
        print_process(out, emu_json_at(attached, i));
    fold_end(&fold);
    if (!status->report)
        return;
    if (standstill_for_ns(reply))
        standstill_print_time(reply, print_indented);
    standstill_print(reply, print_indented);
    fflush(stdout);
    report_print(stdout, report);
}

/*
 * Return whether socket @name belongs to an agent whose coordinator is on this machine, too. Hosts
 * share a machine if they are network namespaces. The agent answers with the coordinator's reply.
 */
static bool is_listed_by_coordinator(const char *name, struct json_object *reply)
{
    const char *coordinator = emu_json_text(reply, "name", name);
    char error[512];
    int fd;

    if (strcmp(coordinator, name) == 0 ||
        paths_connect(&fd, NULL, coordinator, error, sizeof error))
        return false;
    close(fd);
    return true;
}

static void one_status(void *context, const char *name)
{
    struct status *status = context;
    struct json_object *reply;
    char error[512];
    int err = query_fabric(name, query_request("status"),
                           QUERY_FIELDS({"name", json_type_string}, {"report", json_type_object},
                                        {"attached", json_type_array}),
                           &reply, NULL, error, sizeof error);

    if (err == -ENOENT && !status->report)
        return; /* it has ended since the folder was read */
    if (err == -ECONNREFUSED && !status->report) {
        status->left_over++;
        return;
    }
    if (err) {
        print_message("%s", error);
        status->failed = true;
        return;
    }
    json_object_object_del(reply, "ok");
    status->running++;
    bool twice = !status->report && is_listed_by_coordinator(name, reply);
    if (!twice && status->json)
        json_object_array_add(status->array, json_object_get(reply));
    else if (!twice)
        print_status(status, name, reply);
    json_object_put(reply);
}

static int print_metrics(const char *name, enum telemetry_names names)
{
    struct telemetry_view view = {0};
    struct text_buf text = {0};
    char error[512];
    int err = telemetry_view_read(&view, name, error, sizeof error);

    if (!err)
        telemetry_metrics(&view, names, &text);
    if (err || text.failed)
        print_message("%s", err ? error : "out of memory");
    else
        fwrite(text.at, 1, text.bytes, stdout);
    err = err || text.failed;
    text_buf_free(&text);
    telemetry_view_release(&view);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int status_main(int argc, char **argv)
{
    struct options options;
    struct status status = {0};
    const char *name;
    char error[512];
    int err = 0;

    struct option_table own = OPTION_TABLE(rows, &status);
    int exit_status = options_parse_name(&options, &name, &status_command, &own, argc, argv);
    if (exit_status >= 0)
        return exit_status;
    if (status.named && !status.metrics)
        return options_usage_error("status", "--names needs --metrics");
    if (status.metrics && options.json)
        return options_usage_error("status", "--metrics and --json cannot be used together");
    if (status.metrics)
        return print_metrics(name, status.names);
    status.json = options.json;
    status.report = argc > options.operands;
    status.array = json_object_new_array();
    if (status.report)
        one_status(&status, name);
    else
        err = paths_list(one_status, &status, error, sizeof error);
    if (err) {
        print_message("%s", error);
        status.failed = true;
    }
    if (status.left_over)
        print_message("%u socket%s left over from fabrics that have crashed; the next fabric that "
                      "starts removes %s",
                      status.left_over, status.left_over == 1 ? " is" : "s are",
                      status.left_over == 1 ? "it" : "them");
    exit_status = err || (status.report && status.failed) ? EXIT_FAILURE : EXIT_SUCCESS;
    if (options.json && !exit_status)
        options_print_json(status.array);
    else if (!options.json && !status.running && !status.failed)
        puts("no fabric is running");
    json_object_put(status.array);
    return exit_status;
}

/* --- check -------------------------------------------------------------------------- */

static const struct options_command check_command = {
    .name = "check",
    .operands = "[NAME]",
    .about = "Check the internal state of the running fabric NAME (or \"default\"): credits,\n"
             "channels, buffers, routing tables and trees of groups. This takes milliseconds\n"
             "and changes nothing. Exit status: 1 if there are errors, which are printed.",
    .groups = OPTIONS_JSON,
};

int check_main(int argc, char **argv)
{
    struct options options;
    struct json_object *reply, *check;
    const char *name;
    char error[512];
    bool right;

    int status = options_parse_name(&options, &name, &check_command, NULL, argc, argv);
    if (status >= 0)
        return status;
    if (query_fabric(name, query_request("check"), QUERY_FIELDS({"check", json_type_object}),
                     &reply, NULL, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_FAILURE;
    }
    check = json_object_object_get(reply, "check");
    right = audit_right(check);
    if (query_check(name, check,
                    QUERY_FIELDS({"right", json_type_boolean}, {"found", json_type_int}), error,
                    sizeof error)) {
        print_message("%s", error);
        right = false;
    } else if (options.json) {
        options_print_json(check);
    } else {
        emu_json_no_controls(check);
        audit_print(stdout, name, check);
    }
    json_object_put(reply);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --- env ---------------------------------------------------------------------------- */

static const struct options_command env_command = {
    .name = "env",
    .operands = "[NAME]",
    .about = "Print the environment in which programs use the fabric NAME (or \"default\"):\n"
             "    eval \"$(fabemu env NAME)\"\n"
             "For a fabric on several hosts, NAME is FABRIC.HOST. Then the environment is\n"
             "valid on all of its hosts.",
    .groups = OPTIONS_PROVIDER,
};

/*
 * Print a variable, quoted for sh: a quote in the value becomes '\''. Skip a variable whose name is
 * not ASCII, because a shell does not accept it.
 */
static void print_export(void *context, const char *name, const char *value)
{
    (void)context;
    for (const char *at = name; *at; at++)
        if (!isascii(*at))
            return;
    printf("export %s='", name);
    for (; *value; value++) {
        if (*value == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*value);
    }
    puts("'");
}

int env_main(int argc, char **argv)
{
    struct options options;
    char path[sizeof((struct paths_socket *)0)->path], anywhere[sizeof path];
    struct json_object *reply;
    const char *name, *provider;
    char error[512];
    int err;

    int status = options_parse_name(&options, &name, &env_command, NULL, argc, argv);
    if (status >= 0)
        return status;
    if (query_fabric(name, query_request("report"), QUERY_FIELDS({"report", json_type_object}),
                     &reply, NULL, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_FAILURE;
    }
    emu_json_no_controls(reply);
    provider = emu_json_text(json_object_object_get(reply, "report"), "provider", PROVIDER_NAME);
    err = paths_of(path, sizeof path, name, error, sizeof error);
    if (!err) {
        hosts_socket_anywhere(anywhere, sizeof anywhere, path);
        err = env_each(anywhere, options.provider ? options.provider : provider, NULL, print_export,
                       NULL, error, sizeof error);
    }
    if (err)
        print_message("%s", error);
    json_object_put(reply);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
