/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.c - the timeline of a running fabric.
 *
 * A process records finished operations in a ring of EMU_FINISHED_SLOTS. If it finishes more
 * operations within EVERY_MS, the others are lost, and the timeline only counts them. Other hosts
 * are queried at the same interval, except a host that has not yet replied to the last query
 * (apps/timeline/agent.h).
 */
#include "apps/daemon/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/fabric/origin.h"
#include "apps/base/message.h"
#include "apps/daemon/client.h"
#include "apps/fabric/sample.h"
#include "apps/timeline/agent.h"
#include "apps/timeline/timeline.h"
#include "emu/util/now.h"

#define EVERY_MS     10 /* interval between collections, in ms */
#define CLOCK_ROUNDS 8  /* queries at the start that measure the clocks of other hosts */

struct timeline_serve {
    struct timeline *timeline;
    struct fabric_finished_at *at; /* by node: where the next collection continues */
    /* by host: the estimate of its clock; NULL: there is only one host */
    struct hostlink_offset *clock;
    int timer;
};

static int serve_timer(struct daemon *daemon, struct timeline_serve *serve)
{
    const struct timespec each = {0, EVERY_MS * 1000000};

    serve->timer = daemon_timer_open(daemon, &daemon->timeline);
    if (serve->timer < 0)
        return serve->timer;
    return timerfd_settime(serve->timer, 0, &(struct itimerspec){each, each}, NULL) < 0 ? -errno
                                                                                        : 0;
}

static void serve_free(struct timeline_serve *serve)
{
    if (serve->timer >= 0)
        close(serve->timer);
    timeline_destroy(serve->timeline);
    free(serve->clock);
    free(serve->at);
    free(serve);
}

/*
 * Measure the clocks of the other hosts. From now on, these hosts report the finished operations of
 * their processes.
 */
static void hosts_begin(struct daemon *daemon, uint64_t from_bytes)
{
    if (!daemon->coordinator)
        return;
    for (uint32_t h = 0; h < daemon->config->hosts->count; h++)
        hostlink_offset_reset(&daemon->timeline->clock[h]);
    coordinator_sample_messages(daemon->coordinator, from_bytes);
    for (int round = 0; round < CLOCK_ROUNDS; round++)
        coordinator_sample_last(daemon->coordinator, HOSTS_SAMPLE_FINISHED);
}

static int serve_make(struct timeline_serve *serve, const struct timeline_config *config)
{
    serve->at = calloc(config->nodes, sizeof *serve->at);
    serve->clock = config->host ? calloc(config->hosts, sizeof *serve->clock) : NULL;
    if (!serve->at || (config->host && !serve->clock))
        return -ENOMEM;
    return timeline_create(&serve->timeline, config);
}

int timeline_serve_open(struct daemon *daemon, const struct timeline_plan *plan, char *error,
                        unsigned long error_bytes)
{
    const struct coordinator_config *hosts = daemon->config->hosts;
    struct json_object *origin = origin_json(daemon->config->fabric);
    const struct timeline_config config = {.fd = plan->fd,
                                           .path = plan->path,
                                           .most_bytes = plan->most_bytes,
                                           .from_bytes = plan->from_bytes,
                                           .nodes = daemon->graph->nodes,
                                           .graph = daemon->graph,
                                           .origin_ns = daemon->began_ps / 1000u,
                                           .host = hosts ? hosts->name : NULL,
                                           .hosts = hosts ? hosts->count : 0,
                                           .fabric = daemon->config->fabric,
                                           .origin = origin};
    struct timeline_serve *serve = calloc(1, sizeof *serve);
    int err = serve ? 0 : -ENOMEM;

    if (serve) {
        serve->timer = -1;
        err = serve_make(serve, &config);
    }
    json_object_put(origin);
    if (!err)
        err = serve_timer(daemon, serve);
    if (err) {
        snprintf(error, error_bytes, "cannot write the timeline: %s",
                 err == -ESPIPE ? "it must be a regular file; choose another --timeline"
                                : strerror(-err));
        if (serve)
            serve_free(serve);
        return err;
    }
    daemon->timeline = serve;
    fabric_watch(daemon->fabric, FABRIC_WATCH_TIMELINE, true);
    fabric_watch_messages(daemon->fabric, plan->from_bytes);
    hosts_begin(daemon, plan->from_bytes);
    return 0;
}

static void take(struct daemon *daemon, uint32_t node)
{
    struct timeline_serve *serve = daemon->timeline;
    struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint64_t missed = 0;
    uint32_t count = fabric_finished(daemon->fabric, node, &serve->at[node], ring, &missed);

    for (uint32_t i = 0; i < count; i++)
        timeline_finished(serve->timeline, node, serve->at[node].incarnation, &ring[i]);
    timeline_missed(serve->timeline, missed);
}

static void take_all(struct daemon *daemon)
{
    for (uint32_t n = 0; n < daemon->graph->nodes; n++)
        take(daemon, n);
    timeline_write(daemon->timeline->timeline);
}

static void take_everywhere(struct daemon *daemon)
{
    if (daemon->coordinator)
        coordinator_sample_last(daemon->coordinator, HOSTS_SAMPLE_FINISHED);
    take_all(daemon);
}

void timeline_serve_run(struct daemon *daemon)
{
    uint64_t expired;

    if (read(daemon->timeline->timer, &expired, sizeof expired) < 0)
        return;
    take_all(daemon);
    if (daemon->coordinator)
        coordinator_sample_request(daemon->coordinator, HOSTS_SAMPLE_FINISHED);
}

bool timeline_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece)
{
    struct timeline_serve *serve = daemon->timeline;
    const struct timeline_received received = {.config = daemon->config->fabric,
                                               .host = piece->host,
                                               .bytes = piece->bytes,
                                               .count = piece->count,
                                               .asked_ns = piece->asked_ns,
                                               .now_ns = emu_now_ns()};
    bool right;

    if (!serve)
        return true;
    right = timeline_receive(serve->timeline, &serve->clock[piece->host], &received);
    timeline_write(serve->timeline);
    return right;
}

/* Forget the host's clock, because its next incarnation may run on another computer. */
void timeline_serve_host_lost(struct daemon *daemon, uint32_t host)
{
    if (!daemon->timeline)
        return;
    timeline_host_lost(daemon->timeline->timeline, host);
    hostlink_offset_reset(&daemon->timeline->clock[host]);
}

void timeline_serve_host_back(struct daemon *daemon)
{
    if (daemon->timeline)
        coordinator_sample_request(daemon->coordinator, HOSTS_SAMPLE_FINISHED);
}

static void process_note(struct daemon *daemon, const struct client *client, const char *what)
{
    char text[96];

    if (client->rank >= 0)
        snprintf(text, sizeof text, "%s: rank %lld, pid %d, %s", what, (long long)client->rank,
                 (int)client->pid, client->command);
    else
        snprintf(text, sizeof text, "%s: pid %d, %s", what, (int)client->pid, client->command);
    timeline_process(daemon->timeline->timeline, (uint32_t)client->node,
                     fabric_process_ns(daemon->fabric), text);
}

void timeline_serve_attach(struct daemon *daemon, const struct client *client)
{
    if (daemon->timeline)
        process_note(daemon, client, "attached");
}

void timeline_serve_detach(struct daemon *daemon, const struct client *client, bool dead)
{
    if (!daemon->timeline)
        return;
    take(daemon, (uint32_t)client->node);
    process_note(daemon, client, dead ? "died" : "left");
    timeline_write(daemon->timeline->timeline);
}

void timeline_serve_event(struct daemon *daemon, uint32_t host, struct json_object *event)
{
    if (daemon->timeline)
        timeline_event(daemon->timeline->timeline, host, fabric_process_ns(daemon->fabric), event);
}

void timeline_serve_report(struct daemon *daemon, struct json_object *report)
{
    if (!daemon->timeline)
        return;
    take_everywhere(daemon);
    json_object_object_add(report, "timeline", timeline_report(daemon->timeline->timeline));
}

void timeline_serve_close(struct daemon *daemon)
{
    if (!daemon->timeline)
        return;
    take_everywhere(daemon);
    if (daemon->coordinator)
        coordinator_sample_end(daemon->coordinator, HOSTS_SAMPLE_FINISHED);
    fabric_watch(daemon->fabric, FABRIC_WATCH_TIMELINE, false);
    if (timeline_failed(daemon->timeline->timeline))
        daemon->unwritten = true;
    serve_free(daemon->timeline);
    daemon->timeline = NULL;
}
