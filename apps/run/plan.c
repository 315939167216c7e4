/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.c - --faults, --events, --record, --timeline, --capture and --web.
 */
#include "apps/run/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/command.h"
#include "apps/cli/say.h"
#include "apps/program/timeline.h"

/* Has the network all that the schedule names? */
static int schedule_check(const struct fault_schedule *schedule, const struct fabric_config *config,
                          const char *name, bool notes)
{
    const struct fault_network network = {.graph = config->graph, .profile = &config->profile};
    char text[FAULT_ERROR_BYTES], last[FAULT_ERROR_BYTES] = "";

    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct fault_line *line = &schedule->line[i];
        int err = fault_check(&line->fault, &network, text, sizeof text);

        if (err) {
            say("%.100s, line %u: %s", name, line->number, text);
            return err == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
        }
        if (notes && *text && strcmp(text, last) != 0)
            say("%.100s, line %u: %s", name, line->number, text);
        memcpy(last, text, sizeof last);
    }
    return 0;
}

int plan_schedule(struct fault_schedule *ret, const char *name, const struct fabric_config *config,
                  bool notes)
{
    char error[FAULT_ERROR_BYTES + 128];
    int err = fault_schedule_read(ret, name, error, sizeof error);

    if (err) {
        say("%s", error);
        return err == -EIO || err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    return schedule_check(ret, config, name, notes);
}

int plan_fabric(struct fabric_config *ret, struct topo_graph **graph, const struct options *options,
                const char *name)
{
    char of_host[64];

    if (!options->cluster)
        return options_fabric(ret, graph, options, name);
    unsetenv("XDG_RUNTIME_DIR");
    hosts_socket_name(of_host, sizeof of_host, name);
    return options_fabric(ret, graph, options, of_host);
}

static int file_open(int *fd, const char *path, const char *what, const char *option)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (*fd >= 0)
        return 0;
    say("cannot write %s to %s: %s; choose another %s", what, path, strerror(errno), option);
    return EXIT_FAILURE;
}

static void file_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Of files that come and go with a descriptor there is no second one beside them. */
static bool is_of_descriptor(const char *path)
{
    return strncmp(path, "/dev/", strlen("/dev/")) == 0 ||
           strncmp(path, "/proc/", strlen("/proc/")) == 0;
}

static int timeline_open(struct timeline_plan *ret, const char *path)
{
    int status = file_open(&ret->fd, path, "a timeline", "--timeline");
    struct stat st;

    if (status || fstat(ret->fd, &st) || !S_ISREG(st.st_mode))
        return status; /* what is no file is refused by the fabric */
    if (!timeline_blank(ret->fd)) {
        say("cannot write a timeline to %s: %s; choose another --timeline", path, strerror(errno));
        return EXIT_FAILURE;
    }
    ret->path = is_of_descriptor(path) ? NULL : realpath(path, NULL);
    return 0;
}

int plan_capture(struct capture_plan *ret, const struct options *options)
{
    *ret = (struct capture_plan){.file = options->capture,
                                 .filter = options->capture_filter ? options->capture_filter : "",
                                 .snap_bytes = options->snap_bytes,
                                 .fd = -1};
    return options->capture ? file_open(&ret->fd, options->capture, "a capture", "--capture") : 0;
}

static int page_open(struct web *web, uint16_t port)
{
    char error[256];

    if (!web_open(web, port, error, sizeof error))
        return 0;
    say("--web: %s", error);
    return EXIT_FAILURE;
}

int plan_make(struct plan *ret, const struct options *options, const struct fabric_config *config,
              const char *mark)
{
    int status = 0;

    *ret = (struct plan){.host = {.mark = mark,
                                  .events_fd = -1,
                                  .record_fd = -1,
                                  .starter_fd = -1,
                                  .capture.fd = -1},
                         .web = WEB_NONE};
    ret->host.timeline = (struct timeline_plan){.fd = -1,
                                                .most_bytes = options->timeline_most_bytes,
                                                .from_bytes = options->timeline_from_bytes};
    if (options->cluster) {
        status = hosts_plan_make(&ret->hosts, options, config, HOSTS_GOVERNS);
        ret->host.hosts = &ret->hosts;
        ret->host.fabric = options->name;
    }
    if (status)
        return status;
    if (options->faults)
        status = plan_schedule(&ret->schedule, options->faults, config, true);
    if (!status && options->faults)
        ret->host.faults = &ret->schedule;
    if (!status && options->events)
        status = file_open(&ret->host.events_fd, options->events, "events", "--events");
    if (!status && options->record)
        status = file_open(&ret->host.record_fd, options->record, "snapshots", "--record");
    if (!status && options->timeline)
        status = timeline_open(&ret->host.timeline, options->timeline);
    if (!status)
        status = plan_capture(&ret->host.capture, options);
    if (!status && options->web)
        status = page_open(&ret->web, options->web_port);
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
    file_close(&plan->host.events_fd);
    file_close(&plan->host.record_fd);
    file_close(&plan->host.timeline.fd);
    free(plan->host.timeline.path);
    plan->host.timeline.path = NULL;
    file_close(&plan->host.capture.fd);
    web_close(&plan->web);
}
