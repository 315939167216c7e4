/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - the options --faults, --report, --events, --record, --timeline, --capture and --web. */
#include "apps/cmd/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/base/command.h"
#include "apps/base/output.h"
#include "apps/base/message.h"
#include "apps/timeline/timeline.h"
#include "apps/control/paths.h"
#include "emu/util/instructions.h"

static int schedule_check(const struct fault_schedule *schedule, const struct fabric_config *config,
                          const char *name, bool notes)
{
    const struct fault_network network = {.graph = config->graph,
                                          .profile = &config->profile,
                                          .clock = config->clock};
    char text[FAULT_ERROR_BYTES], last[FAULT_ERROR_BYTES] = "";

    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct fault_line *line = &schedule->line[i];
        int err = fault_check(&line->fault, &network, text, sizeof text);

        if (err) {
            print_message("%.100s, line %u: %s", name, line->number, text);
            return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
        }
        if (notes && *text && strcmp(text, last) != 0)
            print_message("%.100s, line %u: %s", name, line->number, text);
        memcpy(last, text, sizeof last);
    }
    return 0;
}

int plan_schedule(struct fault_schedule *ret, const char *name, const struct fabric_config *config,
                  bool notes)
{
    char error[FAULT_ERROR_BYTES + 128];
    int err = fault_schedule_read(ret, name, config->graph, error, sizeof error);

    if (err) {
        print_message("%s", error);
        return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    return schedule_check(ret, config, name, notes);
}

int plan_fabric(struct fabric_config *ret, struct topo_graph **graph, const struct options *options,
                const char *name)
{
    char of_host[64];
    int status;

    if (options->cluster) {
        unsetenv("XDG_RUNTIME_DIR");
        hosts_socket_name(of_host, sizeof of_host, name);
        name = of_host;
    }
    status = options_fabric(ret, graph, options, name);
    if (!status)
        options_print_idle(options, ret);
    return status;
}

static int file_open(struct output *ret, const char *path, const char *what, const char *option)
{
    int err = path ? output_open(ret, path, INT64_MAX) : 0;

    if (!err)
        return 0;
    print_message("cannot write %s to %s: %s; choose another %s", what, path, output_why(err),
                  option);
    return EXIT_FAILURE;
}

/*
 * Return whether the path is in /dev or /proc, such as /dev/stdout or /proc/self/fd/5. If a
 * timeline is written to such a path, no second file is created beside it.
 */
static bool is_of_descriptor(const char *path)
{
    return strncmp(path, "/dev/", strlen("/dev/")) == 0 ||
           strncmp(path, "/proc/", strlen("/proc/")) == 0;
}

/*
 * Write a valid empty timeline to a new file. An existing file is changed only when the run begins.
 */
static int timeline_open(struct timeline_plan *ret, struct output *output, const char *path)
{
    int status = file_open(output, path, "a timeline", "--timeline");
    const char *wrong = NULL;
    struct stat st;

    if (status || !path)
        return status;
    if (strcmp(path, "-") == 0 || fstat(output->fd, &st) || !S_ISREG(st.st_mode))
        wrong = "it must be a regular file";
    else if (output->made && !timeline_blank(output->fd))
        wrong = strerror(errno);
    if (wrong) {
        print_message("cannot write a timeline to %s: %s; choose another --timeline", path, wrong);
        return EXIT_FAILURE;
    }
    ret->path = is_of_descriptor(path) ? NULL : realpath(path, NULL);
    return 0;
}

int plan_capture(struct capture_plan *ret, struct capture_files *files,
                 const struct options *options)
{
    int err;

    *ret = (struct capture_plan){.files = files,
                                 .filter = options->capture_filter ? options->capture_filter : "",
                                 .snap_bytes = (uint32_t)options->snap_bytes};
    err = capture_files_open(files, options->capture, &options->capture_limits, INT64_MAX);
    if (!err)
        return 0;
    print_message("cannot write a capture to %s: %s; choose another --capture", files->label,
                  capture_files_why(err));
    return EXIT_FAILURE;
}

static int page_open(struct web *web, uint16_t port)
{
    char error[256];

    if (!web_open(web, port, error, sizeof error))
        return 0;
    print_message("--web: %s", error);
    return EXIT_FAILURE;
}

/*
 * Check that no fabric of this name is running. Do this before files are opened: a running fabric
 * may have locked the same files, and an error about a file would be less helpful.
 */
static int check_name(const char *name)
{
    char error[512];

    if (!paths_free(name, error, sizeof error))
        return 0;
    print_message("%s", error);
    return EXIT_FAILURE;
}

/* Check that the kernel counts instructions, before a program starts. */
static int check_counter(void)
{
    int fd = emu_instructions_open();

    if (fd >= 0) {
        close(fd);
        return 0;
    }
    print_message("--compute count: the kernel does not count the instructions of programs here "
                  "(perf_event_open: %s); use cpu",
                  strerror(-fd));
    return EXIT_FAILURE;
}

static int replay_read(struct plan *ret, const char *path)
{
    char error[512];
    int err = calls_read(&ret->replay, path, error, sizeof error);

    if (err) {
        print_message("--compute: %s", error);
        return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    ret->host.replay = &ret->replay;
    return 0;
}

/* Open all files. They keep their contents until the fabric's process begins to write. */
static int files_open(struct plan *ret, const struct options *options)
{
    int status = file_open(&ret->report, options->report, "the report", "--report");

    if (!status)
        status = file_open(&ret->events, options->events, "events", "--events");
    if (!status)
        status = file_open(&ret->record, options->record, "snapshots", "--record");
    if (!status && options->compute.mode == EMU_COMPUTE_RECORD)
        status = file_open(&ret->calls, options->compute_file, "calls", "file for --compute");
    if (!status && options->goal)
        status = file_open(&ret->calls, options->goal, "GOAL", "--goal");
    if (!status && options->compute.mode == EMU_COMPUTE_REPLAY)
        status = replay_read(ret, options->compute_file);
    if (!status)
        status = timeline_open(&ret->host.timeline, &ret->timeline, options->timeline);
    if (!status && options->capture)
        status = plan_capture(&ret->host.capture, &ret->capture, options);
    ret->host.events_fd = ret->events.fd;
    ret->host.record_fd = ret->record.fd;
    ret->host.calls_fd = ret->calls.fd;
    ret->host.timeline.fd = ret->timeline.fd;
    return status;
}

int plan_make(struct plan *ret, const struct options *options, const struct fabric_config *config,
              const char *mark)
{
    int status = 0;

    *ret = (struct plan){
        .host = {.mark = mark, .events_fd = -1, .record_fd = -1, .calls_fd = -1, .starter_fd = -1},
        .web = WEB_NONE,
        .report = OUTPUT_NONE,
        .events = OUTPUT_NONE,
        .record = OUTPUT_NONE,
        .timeline = OUTPUT_NONE,
        .calls = OUTPUT_NONE};
    ret->host.timeline = (struct timeline_plan){.fd = -1,
                                                .most_bytes = options->timeline_most_bytes,
                                                .from_bytes = options->timeline_from_bytes};
    if (options->cluster) {
        status = hosts_plan_make(&ret->hosts, options, config, HOSTS_COORDINATOR);
        ret->host.hosts = &ret->hosts;
        ret->host.fabric = options->name;
    }
    if (status)
        return status;
    if (options->faults)
        status = plan_schedule(&ret->schedule, options->faults, config, true);
    if (!status && options->faults)
        ret->host.faults = &ret->schedule;
    if (!status && options->compute.mode == EMU_COMPUTE_COUNT)
        status = check_counter();
    if (!status)
        status = check_name(config->name);
    if (!status)
        status = files_open(ret, options);
    if (!status && options->web)
        status = page_open(&ret->web, options->web_port);
    ret->web_waits = options->web_waits;
    if (status)
        plan_release(ret);
    return status;
}

void plan_release(struct plan *plan)
{
    fault_schedule_release(&plan->schedule);
    if (plan->host.hosts)
        hosts_plan_release(&plan->hosts);
    plan->host.hosts = NULL;
    output_end(&plan->report, !plan->begun);
    output_end(&plan->events, !plan->begun);
    output_end(&plan->record, !plan->begun);
    output_end(&plan->timeline, !plan->begun);
    output_end(&plan->calls, !plan->begun);
    calls_release(&plan->replay);
    capture_files_close(&plan->capture, !plan->begun);
    free(plan->host.timeline.path);
    plan->host.timeline.path = NULL;
    web_close(&plan->web);
}
