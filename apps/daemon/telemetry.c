/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.c - snapshots for readers: subscribers on the control socket, and the file of --record.
 * To the counters of apps/telemetry/ this file adds the state of cables and processes, which only
 * the daemon knows.
 */
#include "apps/daemon/telemetry.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/daemon/client.h"
#include "apps/daemon/faults.h"
#include "apps/daemon/standstill.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/sample.h"
#include "apps/telemetry/filter.h"
#include "emu/util/now.h"

#define GRID_MS TELEMETRY_EVERY_LEAST_MS

/*
 * maximum number of readers that have opened blocks of a large network, to get the devices of these
 * blocks one by one (apps/telemetry/aggregate.h); each of these readers needs a few MB
 */
#define OPEN_READERS 32u

#define HOSTS_MS       50u   /* time limit for the replies of other hosts */
#define HOSTS_FIRST_MS 2000u /* for the first snapshot, because its replies contain all counters */

#define LAST_MS  500 /* at the end of the fabric: time limit for all readers */
#define QUIET_MS 50  /* at the end of the fabric: time limit while no reader reads */
#define LOOK_MS  5   /* at the end of the fabric: interval between attempts to send */

struct telemetry_serve {
    struct telemetry *telemetry; /* the sampler; NULL: there are no readers */
    struct text_buf line;
    struct telemetry_reader file; /* the reader that is the file of --record */
    uint64_t origin_ns;           /* emu_now_ns() when the first reader came */
    int timer;
    /* a snapshot is due and waits for other hosts; the timer expires at their time limit */
    bool awaits_hosts;
};

/* --- state of cables and processes ------------------------------------------------------ */

static void cable_state_read(void *ctx, uint32_t cable, struct telemetry_cable *ret)
{
    const struct daemon *daemon = ctx;

    *ret = telemetry_cable_at(daemon_faults_manager(daemon), cable);
    if (daemon->remote.lost && daemon->remote.lost[cable])
        ret->state = TELEMETRY_DOWN;
}

/*
 * Return whether a wait is certain. A process reports its oldest operations once a second, with the
 * time of the first report that has the operation. An operation that only the last report contains
 * may have completed since then, so it does not count as a wait.
 */
static bool is_seen_twice(uint64_t since_ns, const struct emu_pending *pending)
{
    return since_ns < pending->written_ns;
}

static void wait_of_op(struct telemetry_wait *waits, const struct emu_pending *pending,
                       const struct emu_pending_op *op)
{
    static const enum telemetry_kind kinds[EMU_PENDING_KINDS] = {
        [EMU_PENDING_SEND] = TELEMETRY_SEND,       [EMU_PENDING_RECEIVE] = TELEMETRY_RECEIVE,
        [EMU_PENDING_PUT] = TELEMETRY_PUT,         [EMU_PENDING_GET] = TELEMETRY_GET,
        [EMU_PENDING_ATOMIC] = TELEMETRY_ATOMIC,   [EMU_PENDING_PROBE] = TELEMETRY_RECEIVE,
        [EMU_PENDING_UNLOCK] = TELEMETRY_WINDOW,   [EMU_PENDING_POST] = TELEMETRY_WINDOW,
        [EMU_PENDING_COMPLETE] = TELEMETRY_WINDOW, [EMU_PENDING_FREE] = TELEMETRY_WINDOW,
    };

    if (!op->kind || !is_seen_twice(op->since_ns, pending) ||
        (waits->kind && waits->since_ns <= op->since_ns))
        return;
    *waits = (struct telemetry_wait){.kind = kinds[op->kind],
                                     .other = op->node == EMU_PENDING_ANY ? -1 : (int64_t)op->node,
                                     .group = -1,
                                     .bytes = op->bytes == EMU_PENDING_SIZE_UNKNOWN ? 0 : op->bytes,
                                     .since_ns = op->since_ns};
}

static void wait_of_group(struct telemetry_wait *waits, const struct emu_pending *pending,
                          const struct emu_pending_group *group)
{
    if (!group->since_ns || !is_seen_twice(group->since_ns, pending) ||
        (waits->kind && waits->since_ns <= group->since_ns))
        return;
    *waits = (struct telemetry_wait){.kind = telemetry_kind_of(group->what.kind),
                                     .other = -1,
                                     .group = group->id,
                                     .bytes = group->what.bytes,
                                     .since_ns = group->since_ns};
}

/*
 * Describe the process at @node and its wait. The process's report may be two seconds old: the
 * process writes it once a second, and the daemon reads it once a second.
 */
static void process_state_read(void *ctx, uint32_t node, struct telemetry_process *who,
                               struct telemetry_wait *waits)
{
    const struct daemon *daemon = ctx;
    const struct client *client = daemon->by_node[node];
    const struct emu_pending *pending;

    if (!client)
        return;
    who->pid = client->pid;
    who->rank = client->rank;
    snprintf(who->command, sizeof who->command, "%s", client->command);
    pending = client->sample ? &client->sample->pending : NULL;
    if (!pending || !pending->written_ns || !pending->waits)
        return;
    wait_of_op(waits, pending, &pending->send);
    wait_of_op(waits, pending, &pending->receive);
    for (uint32_t g = 0; g < pending->groups; g++)
        wait_of_group(waits, pending, &pending->group[g]);
}

/* --- readers ---------------------------------------------------------------------------- */

static uint64_t now_ms(const struct telemetry_serve *serve)
{
    return (emu_now_ns() - serve->origin_ns) / 1000000u;
}

/* Return the next multiple of the interval, so that readers with equal intervals share samples. */
static uint64_t next_ms(uint64_t ms, uint64_t every_ms)
{
    return (ms / every_ms + 1) * every_ms;
}

static bool is_due(const struct telemetry_reader *reader, uint64_t ms)
{
    return reader->every_ms && reader->due_ms <= ms;
}

/* Return the time at which the first reader is due; EMU_NEVER: there is no reader. */
static uint64_t due_ms(const struct daemon *daemon)
{
    const struct telemetry_reader *file = &daemon->telemetry->file;
    uint64_t due = file->every_ms ? file->due_ms : EMU_NEVER;

    emu_each_listed (const struct client, client, &daemon->clients, link)
        if (!client->gone && client->telemetry.every_ms && client->telemetry.due_ms < due)
            due = client->telemetry.due_ms;
    return due;
}

static void timer_arm(const struct telemetry_serve *serve, uint64_t due)
{
    daemon_timer_set(serve->timer,
                     due == EMU_NEVER ? EMU_NEVER : serve->origin_ns + due * 1000000u);
}

static int serve_open(struct daemon *daemon)
{
    struct telemetry_serve *serve = daemon->telemetry;

    if (serve)
        return 0;
    serve = calloc(1, sizeof *serve);
    if (!serve)
        return -ENOMEM;
    serve->origin_ns = emu_now_ns();
    serve->timer = daemon_timer_open(daemon, &daemon->telemetry);
    if (serve->timer < 0) {
        int err = serve->timer;

        free(serve);
        return err;
    }
    daemon->telemetry = serve;
    return 0;
}

static int sampler_open(struct daemon *daemon)
{
    const struct telemetry_source source = {
        .fabric = daemon->fabric,
        .config = daemon->config->fabric,
        .origin = daemon->began_ps / 1000u,
        .link = cable_state_read,
        .node = process_state_read,
        .ctx = daemon,
        .hosts = daemon->config->hosts ? daemon->config->hosts->name : NULL,
    };
    int err = serve_open(daemon);

    if (err || daemon->telemetry->telemetry)
        return err;
    err = telemetry_create(&daemon->telemetry->telemetry, &source);
    fabric_watch(daemon->fabric, FABRIC_WATCH_TELEMETRY, !err);
    return err;
}

static void sampler_close(struct daemon *daemon)
{
    struct telemetry_serve *serve = daemon->telemetry;

    if (daemon->coordinator && serve->telemetry)
        coordinator_sample_end(daemon->coordinator, HOSTS_SAMPLE_COUNTERS);
    fabric_watch(daemon->fabric, FABRIC_WATCH_TELEMETRY, false);
    telemetry_destroy(serve->telemetry);
    serve->telemetry = NULL;
    text_buf_free(&serve->line);
}

/* Set the timer to the time at which the next reader is due. Without readers, close the sampler. */
static void serve_rearm(struct daemon *daemon)
{
    uint64_t due = due_ms(daemon);

    if (daemon->telemetry->awaits_hosts)
        return; /* the timer is set to the time limit for the other hosts */
    timer_arm(daemon->telemetry, due);
    if (due == EMU_NEVER)
        sampler_close(daemon);
}

static int64_t every_wanted(struct json_object *request)
{
    int64_t every_ms = emu_json_number(request, "telemetry", -1);
    bool right = every_ms >= TELEMETRY_EVERY_LEAST_MS && every_ms <= TELEMETRY_EVERY_MOST_MS;

    return right || every_ms == 0 ? every_ms : -1;
}

/* Return whether @client may have blocks open. Its present subscription, if any, does not count. */
static bool may_open_blocks(const struct daemon *daemon, const struct client *client)
{
    uint32_t host = daemon_client_host(client), left = OPEN_READERS, held = 0;

    emu_each_listed (const struct client, other, &daemon->clients, link)
        if (other != client && other->telemetry.format.open) {
            left--;
            held += daemon_client_host(other) == host;
        }
    return fabric_host_has_space(left, host, held);
}

/*
 * Open the sampler, and prepare the format of a reader, which is @client, for the part of the
 * network that @filter selects. On an error *why is a line for the user.
 */
static int reader_open(struct daemon *daemon, const struct client *client,
                       const struct telemetry_filter *filter, struct telemetry_reader *reader,
                       const char **why)
{
    int err = sampler_open(daemon);

    *why = "no memory or descriptor is left for telemetry";
    if (err)
        return err;
    if (filter->count && !may_open_blocks(daemon, client)) {
        *why = "too many readers have blocks open; close a browser window or another reader";
        return -ENOSPC;
    }
    return telemetry_filter_apply(filter, daemon->telemetry->telemetry, &reader->format, why);
}

static void reader_begin(struct daemon *daemon, struct client *client)
{
    struct telemetry_serve *serve = daemon->telemetry;
    struct telemetry_reader *reader = &client->telemetry;
    uint64_t every_ns = reader->every_ms * UINT64_C(1000000);

    reader->due_ms = next_ms(now_ms(serve), GRID_MS);
    telemetry_format_shape(&reader->format, serve->telemetry, every_ns, &serve->line);
    daemon_send_line(daemon, client, serve->line.at, serve->line.bytes);
}

/* Replace the client's subscription. On an error the client keeps its old one. */
static bool subscribe(struct daemon *daemon, struct client *client, uint32_t every_ms,
                      const struct telemetry_filter *filter)
{
    struct telemetry_reader reader = {.every_ms = every_ms};
    const char *why;
    int err = every_ms ? reader_open(daemon, client, filter, &reader, &why) : 0;

    if (err) {
        daemon_reply_error(daemon, client, err, "%s", why);
    } else {
        telemetry_serve_left(client);
        client->telemetry = reader;
        daemon_send(daemon, client, conn_ok());
        if (every_ms)
            reader_begin(daemon, client);
    }
    if (daemon->telemetry)
        serve_rearm(daemon);
    return !err;
}

bool telemetry_serve_subscribe(struct daemon *daemon, struct client *client,
                               struct json_object *request)
{
    int64_t every_ms = every_wanted(request);
    struct telemetry_filter filter;
    const char *why;
    bool done;
    int err;

    if (every_ms < 0) {
        daemon_reply_error(daemon, client, -EINVAL,
                           "\"telemetry\" must be 0, or a number of ms from 100 to 3600000");
        return false;
    }
    err = telemetry_filter_read(&filter, request, &why);
    if (err) {
        daemon_reply_error(daemon, client, err, "%s", why);
        return false;
    }
    done = subscribe(daemon, client, (uint32_t)every_ms, &filter);
    telemetry_filter_free(&filter);
    return done;
}

void telemetry_serve_left(struct client *client)
{
    telemetry_format_free(&client->telemetry.format);
}

/* Return whether bytes of the client's last line have not been sent yet. */
static bool is_behind(const struct client *client)
{
    return client->conn.out.bytes;
}

static void reader_serve(struct daemon *daemon, struct client *client)
{
    struct telemetry_serve *serve = daemon->telemetry;
    struct telemetry_reader *reader = &client->telemetry;

    telemetry_format_line(&reader->format, serve->telemetry, reader->seen, reader->skipped,
                          &serve->line);
    if (serve->line.failed) {
        reader->skipped++;
        return;
    }
    reader->seen = telemetry_samples(serve->telemetry);
    reader->skipped = 0;
    daemon_send_line(daemon, client, serve->line.at, serve->line.bytes);
}

/* Take a sample now. The unit of the time depends on the clock: see telemetry_sample(). */
static void sample(struct daemon *daemon)
{
    const struct fabric *fabric = daemon->fabric;

    telemetry_sample(daemon->telemetry->telemetry,
                     fabric_is_virtual(fabric) ? fabric_reached_ps(fabric) : emu_now_ns());
}

/* Take a sample for all readers that are due, unless it was already taken. */
static void sample_once(struct daemon *daemon, bool *sampled)
{
    if (!*sampled)
        sample(daemon);
    *sampled = true;
}

static void readers_serve(struct daemon *daemon, uint64_t ms, bool *sampled)
{
    emu_each_listed (struct client, client, &daemon->clients, link) {
        if (client->gone || !is_due(&client->telemetry, ms))
            continue;
        client->telemetry.due_ms = next_ms(ms, client->telemetry.every_ms);
        if (is_behind(client)) {
            client->telemetry.skipped++;
            continue;
        }
        sample_once(daemon, sampled);
        reader_serve(daemon, client);
    }
}

static void file_serve(struct daemon *daemon)
{
    struct telemetry_serve *serve = daemon->telemetry;

    telemetry_line(serve->telemetry, serve->file.seen, serve->file.skipped, &serve->line);
    if (serve->line.failed) {
        serve->file.skipped++;
        return;
    }
    serve->file.seen = telemetry_samples(serve->telemetry);
    serve->file.skipped = 0;
    lines_put(&daemon->snapshots, serve->line.at, serve->line.bytes);
}

static void file_serve_due(struct daemon *daemon, uint64_t ms, bool *sampled)
{
    struct telemetry_serve *serve = daemon->telemetry;

    if (!is_due(&serve->file, ms))
        return;
    serve->file.due_ms = next_ms(ms, serve->file.every_ms);
    if (lines_is_behind(&daemon->snapshots)) {
        serve->file.skipped++;
        daemon->snapshots.all_left_out++;
    } else {
        sample_once(daemon, sampled);
        file_serve(daemon);
    }
    if (daemon->snapshots.fd < 0)
        serve->file.every_ms = 0;
}

int telemetry_serve_record(struct daemon *daemon)
{
    struct telemetry_serve *serve;
    int err = sampler_open(daemon);

    if (err)
        return err;
    serve = daemon->telemetry;
    serve->file =
        (struct telemetry_reader){.every_ms = GRID_MS, .due_ms = next_ms(now_ms(serve), GRID_MS)};
    telemetry_shape(serve->telemetry, GRID_MS * UINT64_C(1000000), &serve->line);
    if (serve->line.failed)
        return -ENOMEM;
    lines_put(&daemon->snapshots, serve->line.at, serve->line.bytes);
    timer_arm(serve, due_ms(daemon));
    return 0;
}

void telemetry_serve_detach(struct daemon *daemon, uint32_t node)
{
    if (daemon->telemetry && daemon->telemetry->telemetry)
        telemetry_leaves(daemon->telemetry->telemetry, node);
}

/* --- other hosts -------------------------------------------------------------------- */

/*
 * If a snapshot is due at @ms, query the other hosts. Returns whether the snapshot has to wait for
 * their replies.
 */
static bool hosts_query(struct daemon *daemon, uint64_t ms)
{
    struct telemetry_serve *serve = daemon->telemetry;
    uint64_t most_ms;

    if (!daemon->coordinator || serve->awaits_hosts || due_ms(daemon) > ms ||
        !coordinator_sample_request(daemon->coordinator, HOSTS_SAMPLE_COUNTERS))
        return false;
    most_ms = telemetry_samples(serve->telemetry) ? HOSTS_MS : HOSTS_FIRST_MS;
    serve->awaits_hosts = true;
    timer_arm(serve, ms + most_ms);
    return true;
}

bool telemetry_serve_receive(struct daemon *daemon, const struct coordinator_piece *piece)
{
    struct telemetry_serve *serve = daemon->telemetry;

    return !serve || !serve->telemetry ||
           telemetry_receive(serve->telemetry, piece->host, piece->bytes, piece->count,
                             emu_now_ns());
}

void telemetry_serve_received_all(struct daemon *daemon)
{
    if (daemon->telemetry && daemon->telemetry->awaits_hosts)
        timer_arm(daemon->telemetry, now_ms(daemon->telemetry)); /* the timer expires at once */
}

void telemetry_serve_host_lost(struct daemon *daemon, uint32_t host)
{
    if (!daemon->telemetry || !daemon->telemetry->telemetry)
        return;
    telemetry_host_lost(daemon->telemetry->telemetry, host);
    if (!coordinator_sample_waits(daemon->coordinator, HOSTS_SAMPLE_COUNTERS))
        telemetry_serve_received_all(daemon);
}

void telemetry_serve_run(struct daemon *daemon)
{
    struct telemetry_serve *serve = daemon->telemetry;
    uint64_t expired, ms;
    bool sampled = false;

    if (read(serve->timer, &expired, sizeof expired) < 0)
        return;
    ms = now_ms(serve);
    if (hosts_query(daemon, ms))
        return;
    serve->awaits_hosts = false;
    readers_serve(daemon, ms, &sampled);
    file_serve_due(daemon, ms, &sampled);
    serve_rearm(daemon);
}

/* --- the end ------------------------------------------------------------------------ */

/* Send readers their queued bytes. Returns the number of bytes that are still queued. */
static size_t readers_flush(struct daemon *daemon)
{
    size_t waits = 0;

    emu_each_listed (struct client, client, &daemon->clients, link) {
        if (client->gone || !client->telemetry.every_ms)
            continue;
        int err = conn_flush(&client->conn);
        if (err && err != -EAGAIN)
            client->telemetry.every_ms = 0; /* the reader has closed its connection */
        else
            waits += client->conn.out.bytes;
    }
    return waits + (daemon->coordinator ? coordinator_forward(daemon->coordinator) : 0);
}

static void readers_drain(struct daemon *daemon, int64_t end_ms)
{
    size_t waits = readers_flush(daemon);
    int64_t now_ms = emu_now_ms(), moved_ms = now_ms;

    while (waits && now_ms < end_ms && now_ms - moved_ms < QUIET_MS) {
        size_t had = waits;

        poll(NULL, 0, LOOK_MS);
        waits = readers_flush(daemon);
        now_ms = emu_now_ms();
        moved_ms = waits == had ? moved_ms : now_ms;
    }
}

/* Send the last snapshot to the readers that have received the previous one. */
static void readers_serve_last(struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (!client->gone && client->telemetry.every_ms && !is_behind(client))
            reader_serve(daemon, client);
}

/* Send a last record that shows the final state to the file and to each reader. */
static void serve_last(struct daemon *daemon)
{
    struct telemetry_serve *serve = daemon->telemetry;
    int64_t end_ms;

    if (daemon->coordinator)
        coordinator_sample_last(daemon->coordinator, HOSTS_SAMPLE_COUNTERS);
    if (serve->file.every_ms)
        lines_drain(&daemon->snapshots);
    end_ms = emu_now_ms() + LAST_MS;
    readers_drain(daemon, end_ms);
    sample(daemon);
    if (serve->file.every_ms)
        file_serve(daemon);
    readers_serve_last(daemon);
    readers_drain(daemon, end_ms);
}

void telemetry_serve_close(struct daemon *daemon)
{
    struct telemetry_serve *serve = daemon->telemetry;

    if (!serve)
        return;
    if (due_ms(daemon) != EMU_NEVER)
        serve_last(daemon);
    sampler_close(daemon);
    close(serve->timer);
    free(serve);
    daemon->telemetry = NULL;
}
