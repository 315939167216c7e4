/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * govern.c - the governor's side: processes of other hosts as clients of its daemon, and calls.
 *
 * A client elsewhere is a pair of sockets here. The daemon has one end and reads and writes it like
 * any other connection; what stands behind the other one copies lines to and from the host's
 * control channel. So back-pressure, limits and the end of a connection are those of a socket.
 *
 * A call is waited for. What else comes from that host meanwhile is kept, in order, for the next
 * hosts_serve().
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/daemon/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/hosts/internal.h"
#include "apps/say.h"
#include "emu/list.h"
#include "emu/now.h"

#define MEET_AGAIN_MS 5 /* between looks at links that come up */

struct hosts_process {
    struct emu_list link; /* in host->processes; alone once the connection has ended */
    struct host_far *host;
    int64_t client; /* its number there */
    struct conn conn;
    uint32_t events; /* epoll events asked for */
    pid_t pid;
    bool ended;     /* its connection there */
    bool forgotten; /* nobody here wants to know how it ended */
    bool stopped;   /* for too long, as its host says */
    char command[16];
    char how[96];
};

struct host_far {
    struct hosts *hosts;
    uint32_t number;
    struct conn conn;
    uint32_t events;
    bool lost;
    struct emu_list processes;
    struct json_object *kept;  /* array of messages that came while a call was waited for */
    struct json_object *links; /* its report; NULL: none */
    struct hosts_said said;
    struct hosts_hits hits;
};

struct hosts {
    struct hosts_config config;
    struct fabric_mirror mirror;
    int epoll;
    int kept_fd; /* eventfd: something is kept */
    int64_t calls;
    struct fabric_totals *sum; /* of all hosts, while they are asked */
    struct fabric_totals part[HOSTS_MAX];
    uint64_t asked_ns; /* when all were asked last what their processes have pending */
    struct host_far far[HOSTS_MAX];
};

/* --- connections --------------------------------------------------------------------- */

static void process_free(struct hosts_process *process)
{
    emu_list_del(&process->link);
    conn_close(&process->conn);
    free(process);
}

/* The daemon sees the end of its connection. */
static void process_end(struct hosts_process *process)
{
    process->ended = true;
    conn_close(&process->conn);
}

/* Of whom nobody wants to know any more, between two messages. */
static void far_sweep(struct host_far *far)
{
    for (struct emu_list *at = far->processes.next, *next; at != &far->processes; at = next) {
        struct hosts_process *process = emu_list_entry(at, struct hosts_process, link);

        next = at->next;
        if (process->ended && process->forgotten)
            process_free(process);
    }
}

static void far_lose(struct host_far *far, const char *why)
{
    struct hosts *hosts = far->hosts;

    if (far->lost)
        return;
    far->lost = true;
    conn_close(&far->conn);
    emu_each_listed (struct hosts_process, process, &far->processes, link) {
        if (!*process->how)
            snprintf(process->how, sizeof process->how, "its host %s was lost",
                     hosts->config.name[far->number]);
        if (!process->ended)
            process_end(process);
    }
    hosts->config.ops.lost(hosts->config.ops.ctx, far->number, why);
}

static void far_flush(struct host_far *far)
{
    int err = far->lost ? 0 : conn_flush(&far->conn);

    if (err && err != -EAGAIN)
        far_lose(far, "its control channel has ended");
    else
        hosts_listen(far->hosts->epoll, &far->conn, &far->events, far);
}

/* @message is put. */
static void far_say(struct host_far *far, struct json_object *message)
{
    if (far->lost) {
        json_object_put(message);
    } else if (conn_put(&far->conn, message)) {
        far_lose(far, "it does not read its control channel");
    } else {
        far_flush(far);
    }
}

static struct json_object *to_client(const struct hosts_process *process)
{
    struct json_object *ret = json_object_new_object();

    json_object_object_add(ret, "client", json_object_new_int64(process->client));
    return ret;
}

/* --- processes ------------------------------------------------------------------------ */

static struct hosts_process *process_of(struct host_far *far, int64_t client)
{
    emu_each_listed (struct hosts_process, process, &far->processes, link)
        if (process->client == client)
            return process;
    return NULL;
}

static void process_refuse(struct host_far *far, int64_t client)
{
    const struct hosts_process process = {.client = client};

    far_say(far, json_add_number(to_client(&process), "end", 1));
}

static void process_new(struct host_far *far, int64_t client, struct json_object *message)
{
    struct hosts *hosts = far->hosts;
    struct hosts_process *process = calloc(1, sizeof *process);
    int pair[2];

    if (!process || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        free(process);
        process_refuse(far, client);
        return;
    }
    process->host = far;
    process->client = client;
    process->pid = (pid_t)emu_json_number(message, "new", 0);
    snprintf(process->command, sizeof process->command, "%s",
             emu_json_text(message, "command", "?"));
    conn_open(&process->conn, pair[1], CONN_REPLY_MAX);
    emu_list_add(&far->processes, &process->link);
    hosts_listen(hosts->epoll, &process->conn, &process->events, process);
    if (hosts->config.ops.connected(hosts->config.ops.ctx, pair[0], process))
        return;
    close(pair[0]);
    process_free(process);
    process_refuse(far, client);
}

/* From its host to the daemon. */
static void process_line(struct hosts_process *process, struct json_object *line)
{
    if (process->ended || !json_object_is_type(line, json_type_object))
        return;
    if (conn_put(&process->conn, json_object_get(line)) == 0 &&
        (conn_flush(&process->conn), process->conn.fd >= 0))
        hosts_listen(process->host->hosts->epoll, &process->conn, &process->events, process);
}

/* From the daemon to its host. */
static void process_serve(struct hosts_process *process)
{
    struct json_object *line;
    int end;

    if (conn_flush(&process->conn) == 0)
        hosts_listen(process->host->hosts->epoll, &process->conn, &process->events, process);
    end = conn_fill(&process->conn);
    while (!process->ended && conn_next(&process->conn, &line) == 1) {
        struct json_object *message = to_client(process);

        json_object_object_add(message, "line", line);
        far_say(process->host, message);
    }
    if (!end || process->ended)
        return;
    far_say(process->host, json_add_number(to_client(process), "end", 1));
    if (!process->ended)
        process_end(process);
}

static void message_of_client(struct host_far *far, int64_t client, struct json_object *message)
{
    struct hosts_process *process = process_of(far, client);
    struct json_object *field;

    if (json_object_object_get_ex(message, "new", NULL)) {
        if (!process)
            process_new(far, client, message);
        return;
    }
    if (!process)
        return;
    if (json_object_object_get_ex(message, "line", &field))
        process_line(process, field);
    if (json_object_object_get_ex(message, "how", NULL))
        snprintf(process->how, sizeof process->how, "%s", emu_json_text(message, "how", ""));
    process->stopped = emu_json_number(message, "stopped", process->stopped) != 0;
    if (json_object_object_get_ex(message, "end", NULL) && !process->ended)
        process_end(process);
}

uint32_t hosts_of(const struct hosts_process *process)
{
    return process->host->number;
}

pid_t hosts_pid(const struct hosts_process *process)
{
    return process->pid;
}

const char *hosts_command(const struct hosts_process *process)
{
    return process->command;
}

const char *hosts_how(const struct hosts_process *process)
{
    return process->how;
}

bool hosts_is_stopped(const struct hosts_process *process)
{
    return process->stopped;
}

bool hosts_has_lost(const struct hosts_process *process)
{
    return process->host->lost;
}

void hosts_forget(struct hosts_process *process)
{
    process->forgotten = true;
}

/* --- messages ------------------------------------------------------------------------- */

/* A session between that host and another one has ended. */
static void message_of_link(struct host_far *far, struct json_object *link)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;
    int64_t host = emu_json_number(link, "host", -1), of = emu_json_number(link, "of", 0);
    int64_t number = emu_json_number(link, "number", -1);

    if (host < 0 || host >= far->hosts->config.count || host == far->number || of < 1 ||
        of > UINT32_MAX || number < 0 || number >= of)
        return;
    ops->link_lost(ops->ctx, far->number,
                   &(struct hosts_link){.host = (uint32_t)host,
                                        .number = (uint32_t)number,
                                        .of = (uint32_t)of,
                                        .end_fd = -1});
}

/* A process there does not take its segments. */
static void message_of_node(struct host_far *far, int64_t node)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;

    if (node >= 0 && node <= UINT32_MAX)
        ops->cut_off(ops->ctx, far->number, (uint32_t)node);
}

static void message_serve(struct host_far *far, struct json_object *message)
{
    int64_t client = emu_json_number(message, "client", -1);
    struct json_object *field;

    if (client >= 0)
        message_of_client(far, client, message);
    if (json_object_object_get_ex(message, "hit", &field))
        hosts_dark(&far->hits, emu_json_number(message, "fault", 0), json_object_get_int64(field));
    if (json_object_object_get_ex(message, "link_lost", &field))
        message_of_link(far, field);
    if (json_object_object_get_ex(message, "cut_off", &field))
        message_of_node(far, json_object_get_int64(field));
}

static void serve_kept(struct host_far *far)
{
    struct json_object *kept = far->kept;

    far->kept = NULL;
    for (size_t i = 0; kept && i < json_object_array_length(kept); i++)
        message_serve(far, json_object_array_get_idx(kept, i));
    json_object_put(kept);
}

static void far_serve(struct host_far *far)
{
    struct json_object *message;
    int end, got = 1;

    serve_kept(far);
    far_flush(far);
    end = far->lost ? 0 : conn_fill(&far->conn);
    while (!far->lost && (got = conn_next(&far->conn, &message)) == 1) {
        message_serve(far, message);
        json_object_put(message);
    }
    if (end || got < 0)
        far_lose(far, end ? "its control channel has ended" : "what it says is no message");
}

static bool is_among(const void *what, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr == what)
            return true;
    return false;
}

/* Those of its processes that @events name. */
static void processes_serve(struct host_far *far, const struct epoll_event *events, int count)
{
    emu_each_listed (struct hosts_process, process, &far->processes, link)
        if (!process->ended && is_among(process, events, count))
            process_serve(process);
    far_sweep(far);
}

void hosts_serve(struct hosts *hosts)
{
    struct epoll_event events[64];
    int count = epoll_wait(hosts->epoll, events, 64, 0);
    uint64_t times;
    bool kept = read(hosts->kept_fd, &times, sizeof times) > 0;

    for (uint32_t i = 0; i < hosts->config.links; i++)
        if (is_among(&hosts->config.link[i], events, count)) {
            epoll_ctl(hosts->epoll, EPOLL_CTL_DEL, hosts->config.link[i].end_fd, NULL);
            hosts->config.ops.link_lost(hosts->config.ops.ctx, 0, &hosts->config.link[i]);
        }

    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        if (kept || is_among(far, events, count))
            far_serve(far);
        processes_serve(far, events, count);
    }
}

int hosts_fd(const struct hosts *hosts)
{
    return hosts->epoll;
}

/* --- calls ---------------------------------------------------------------------------- */

/* For the next hosts_serve(). */
static void keep(struct host_far *far, struct json_object *message)
{
    if (!far->kept)
        far->kept = json_object_new_array();
    json_object_array_add(far->kept, message);
    eventfd_write(far->hosts->kept_fd, 1);
}

/* The reply to call @number, waited for until @until_ms; NULL: the host is lost. */
static struct json_object *far_reply(struct host_far *far, int64_t number, int64_t until_ms)
{
    struct json_object *message;

    while (!far->lost) {
        int64_t left_ms = until_ms - emu_now_ms();
        int err = conn_flush(&far->conn);

        if (!err || err == -EAGAIN)
            err = conn_wait(&far->conn, &message, left_ms > 0 ? (int)left_ms : 0);
        if (err) {
            far_lose(far,
                     err == -ETIMEDOUT ? "it does not answer" : "its control channel has ended");
        } else if (emu_json_number(message, "reply", -1) == number) {
            hosts_listen(far->hosts->epoll, &far->conn, &far->events, far);
            if (far->conn.in.bytes) /* what has come behind it */
                eventfd_write(far->hosts->kept_fd, 1);
            return message;
        } else if (json_object_object_get_ex(message, "hit", NULL)) {
            message_serve(far, message); /* it is to be counted in what is waited for */
            json_object_put(message);
        } else {
            keep(far, message);
        }
    }
    return NULL;
}

static int64_t deadline_ms(uint64_t ms)
{
    return ms > INT32_MAX ? emu_now_ms() + INT32_MAX : emu_now_ms() + (int64_t)ms;
}

/* @with passes on. */
static void far_call(struct host_far *far, int64_t number, const char *what,
                     struct json_object *with)
{
    json_add_number(with, "call", (uint64_t)number);
    json_add_text(with, "do", what);
    far_say(far, with);
}

int hosts_call(struct hosts *hosts, uint32_t only, const char *what, struct json_object *with,
               void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    int64_t number = ++hosts->calls;
    int64_t until_ms = deadline_ms(hosts->config.call_ms);
    int err = 0;

    for (uint32_t h = 1; h < hosts->config.count; h++)
        if (!only || h == only)
            far_call(&hosts->far[h], number, what, json_object_get(with));
    json_object_put(with);
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct json_object *reply;

        if (only && h != only)
            continue;
        reply = far_reply(&hosts->far[h], number, until_ms);
        if (!err)
            err = reply ? -(int)emu_json_number(reply, "errno", 0) : only ? -EHOSTDOWN : 0;
        if (reply && each)
            each(ctx, h, reply);
        json_object_put(reply);
    }
    return err;
}

void hosts_tell(struct hosts *hosts, const char *what, struct json_object *with)
{
    for (uint32_t h = 1; h < hosts->config.count; h++)
        far_call(&hosts->far[h], 0, what, json_object_get(with));
    json_object_put(with);
}

int hosts_call_long(struct hosts *hosts, const char *what, struct json_object *with,
                    void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    uint64_t call_ms = hosts->config.call_ms;
    int err;

    hosts->config.call_ms = UINT64_MAX; /* a host that is gone ends its control channel */
    err = hosts_call(hosts, 0, what, with, each, ctx);
    hosts->config.call_ms = call_ms;
    return err;
}

const char *hosts_name(const struct hosts *hosts, uint32_t host)
{
    return hosts->config.name[host];
}

uint32_t hosts_count(const struct hosts *hosts)
{
    return hosts->config.count;
}

bool hosts_is_lost(const struct hosts *hosts, uint32_t host)
{
    return hosts->far[host].lost;
}

struct hosts_hits *hosts_hits_of(struct hosts *hosts, uint32_t host)
{
    return &hosts->far[host].hits;
}

struct fabric *hosts_fabric(struct hosts *hosts)
{
    return hosts->config.fabric;
}

struct hosts_said *hosts_said(struct hosts *hosts, uint32_t host)
{
    return &hosts->far[host].said;
}

uint64_t *hosts_asked_ns(struct hosts *hosts)
{
    return &hosts->asked_ns;
}

bool hosts_signal(struct hosts_process *process, int signal)
{
    struct json_object *with = to_client(process);

    if (process->ended) {
        json_object_put(with);
        return false;
    }
    json_add_number(with, "signal", (uint64_t)signal);
    return hosts_call(process->host->hosts, process->host->number, "signal", with, NULL, NULL) == 0;
}

/* --- the fabric's mirror ---------------------------------------------------------------- */

static struct json_object *of_node(uint32_t node)
{
    return json_add_number(json_object_new_object(), "node", node);
}

static int mirror_attach(void *ctx, uint32_t host, uint32_t node)
{
    hosts_view_forget(ctx, host, node);
    return hosts_call(ctx, host, "attach", of_node(node), NULL, NULL);
}

static void mirror_detach(void *ctx, uint32_t host, uint32_t node)
{
    hosts_view_forget(ctx, host, node);
    hosts_call(ctx, host, "detach", of_node(node), NULL, NULL);
}

static void mirror_seat(void *ctx, uint32_t node, uint64_t word)
{
    hosts_call(ctx, 0, "seat", json_add_number(of_node(node), "word", word), NULL, NULL);
}

static void mirror_linked(void *ctx, uint32_t node, bool linked)
{
    hosts_tell(ctx, "linked", json_add_number(of_node(node), "linked", linked));
}

static int mirror_group(void *ctx, const struct fabric_group_call *group)
{
    struct json_object *with = json_object_new_object(), *nodes = json_object_new_array();

    for (uint32_t i = 0; i < group->count; i++)
        json_object_array_add(nodes, json_object_new_int64(group->nodes[i]));
    json_object_object_add(with, "nodes", nodes);
    json_add_number(with, "wide", group->wide);
    json_add_number(with, "group", group->id);
    return hosts_call(ctx, 0, "group", with, NULL, NULL);
}

static void mirror_leave(void *ctx, uint32_t group, uint32_t node)
{
    hosts_call(ctx, 0, "leave", json_add_number(of_node(node), "group", group), NULL, NULL);
}

static void mirror_link(void *ctx, uint32_t cable, bool up, uint32_t fault)
{
    struct json_object *with = json_add_number(json_object_new_object(), "cable", cable);

    json_add_number(with, "up", up);
    hosts_tell(ctx, "link", json_add_number(with, "fault", fault));
}

static void mirror_reroute(void *ctx, const uint32_t *out, uint32_t count)
{
    struct json_object *with = json_object_new_object(), *cables = json_object_new_array();

    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(cables, json_object_new_int64(out[i]));
    json_object_object_add(with, "out", cables);
    hosts_call(ctx, 0, "reroute", with, NULL, NULL);
}

static void mirror_cut_off(void *ctx, bool parted)
{
    hosts_call(ctx, 0, "cut_off", json_add_number(json_object_new_object(), "parted", parted), NULL,
               NULL);
}

static void add_totals(void *ctx, uint32_t host, struct json_object *reply)
{
    struct hosts *hosts = ctx;
    struct json_object *field;

    if (json_object_object_get_ex(reply, "totals", &field)) {
        hosts->part[host].real_time_factor = INFINITY;
        hosts_totals_add(&hosts->part[host], field);
        hosts_totals_add(hosts->sum, field);
    }
    json_object_put(hosts->far[host].links);
    hosts->far[host].links = json_object_get(json_object_object_get(reply, "links"));
}

static void mirror_totals(void *ctx, struct fabric_totals *sum)
{
    struct hosts *hosts = ctx;

    memset(hosts->part, 0, sizeof hosts->part);
    hosts->part[0] = *sum;
    hosts->sum = sum;
    hosts_call(hosts, 0, "totals", json_object_new_object(), add_totals, hosts);
    hosts->sum = NULL;
}

const struct fabric_totals *hosts_part(const struct hosts *hosts, uint32_t host,
                                       struct json_object **links)
{
    const struct hosts_config *config = &hosts->config;

    if (host)
        *links = json_object_get(hosts->far[host].links);
    else
        *links = config->links_report ? config->links_report(config->links_ctx) : NULL;
    return &hosts->part[host];
}

const struct fabric_mirror *hosts_mirror(struct hosts *hosts)
{
    return &hosts->mirror;
}

/* --- beginning and end ------------------------------------------------------------------ */

static int hosts_make(struct hosts *hosts)
{
    struct epoll_event event = {.events = EPOLLIN};

    hosts->epoll = epoll_create1(EPOLL_CLOEXEC);
    hosts->kept_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hosts->epoll < 0 || hosts->kept_fd < 0 ||
        epoll_ctl(hosts->epoll, EPOLL_CTL_ADD, hosts->kept_fd, &event) < 0)
        return -errno;
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        conn_open(&far->conn, hosts->config.control[h], CONN_REPLY_MAX);
        hosts_listen(hosts->epoll, &far->conn, &far->events, far);
    }
    for (uint32_t i = 0; i < hosts->config.links; i++)
        if (hosts_watch(hosts->epoll, &hosts->config.link[i]))
            return -errno;
    return 0;
}

/* Until our links carry segments. Errors: -ETIMEDOUT, -EPROTO. */
static int links_meet(struct hosts *hosts, int64_t until_ms, char *why)
{
    const struct hosts_config *config = &hosts->config;
    int64_t good_ms = emu_now_ms(), now_ms = good_ms;

    while (config->links_up && !config->links_up(config->links_ctx)) {
        now_ms = emu_now_ms();
        if (!config->links_why || config->links_why(config->links_ctx, why, HOSTS_WHY_BYTES))
            good_ms = now_ms;
        if (now_ms - good_ms > HOSTS_REFUSED_MS + HOSTS_LONGER_MS)
            return -EPROTO;
        if (now_ms > until_ms)
            return -ETIMEDOUT;
        poll(NULL, 0, MEET_AGAIN_MS);
    }
    return 0;
}

struct meets {
    struct hosts *hosts;
    char *why;
};

static void take_why(void *ctx, uint32_t host, struct json_object *reply)
{
    const struct meets *meets = ctx;
    const char *why = emu_json_text(reply, "why", "");

    if (*why)
        snprintf(meets->why, HOSTS_WHY_BYTES, "host %s does not reach %s",
                 meets->hosts->config.name[host], why);
}

/* Until it answers that its links do, too. */
static int host_meet(struct hosts *hosts, uint32_t h, int64_t until_ms, char *why)
{
    struct meets meets = {hosts, why};
    int err;

    snprintf(why, HOSTS_WHY_BYTES, "host %s does not answer", hosts->config.name[h]);
    while ((err = hosts_call(hosts, h, "meet", json_object_new_object(), take_why, &meets)) ==
           -EAGAIN) {
        if (emu_now_ms() > until_ms)
            return -ETIMEDOUT;
        poll(NULL, 0, MEET_AGAIN_MS);
    }
    return err;
}

/* All must be there before anybody is served. */
static int hosts_meet(struct hosts *hosts, char *error, size_t error_bytes)
{
    int64_t until_ms = deadline_ms(hosts->config.start_ms) + HOSTS_LONGER_MS;
    uint64_t call_ms = hosts->config.call_ms;
    char why[HOSTS_WHY_BYTES] = "";
    int err = links_meet(hosts, until_ms, why);

    hosts->config.call_ms = hosts->config.start_ms;
    for (uint32_t h = 1; !err && h < hosts->config.count; h++)
        err = host_meet(hosts, h, until_ms, why);
    hosts->config.call_ms = call_ms;
    if (err)
        fail(err, error, error_bytes, "%s%s", why,
             err == -EPROTO ? "" : "; is it up, with the same cluster file? (--bound start)");
    return err;
}

int hosts_open(struct hosts **ret, const struct hosts_config *config, char *error,
               size_t error_bytes)
{
    struct hosts *hosts = calloc(1, sizeof *hosts);
    int err;

    if (!hosts) {
        for (uint32_t h = 1; h < config->count; h++)
            close(config->control[h]);
        return fail(-ENOMEM, error, error_bytes, "no memory for %u hosts", config->count);
    }
    hosts->config = *config;
    hosts->mirror = (struct fabric_mirror){.ctx = hosts,
                                           .attach = mirror_attach,
                                           .detach = mirror_detach,
                                           .seat = mirror_seat,
                                           .linked = mirror_linked,
                                           .group = mirror_group,
                                           .leave = mirror_leave,
                                           .link = mirror_link,
                                           .reroute = mirror_reroute,
                                           .cut_off = mirror_cut_off,
                                           .totals = mirror_totals,
                                           .alone = hosts_mirror_alone,
                                           .failed = hosts_mirror_failed,
                                           .unit_out = hosts_mirror_unit_out,
                                           .test = hosts_mirror_test,
                                           .look = hosts_mirror_look,
                                           .losses = hosts_mirror_losses,
                                           .pending = hosts_view_pending,
                                           .came = hosts_view_came,
                                           .clash = hosts_view_clash,
                                           .stalls = hosts_view_stalls,
                                           .audit = hosts_view_audit};
    for (uint32_t h = 1; h < config->count; h++) {
        hosts->far[h] = (struct host_far){.hosts = hosts, .number = h, .conn.fd = -1};
        emu_list_init(&hosts->far[h].processes);
    }
    err = hosts_make(hosts);
    if (err)
        fail(err, error, error_bytes, "cannot serve %u hosts: %s", config->count, strerror(-err));
    else
        err = hosts_meet(hosts, error, error_bytes);
    if (err) {
        hosts_close(hosts);
        return err;
    }
    *ret = hosts;
    return 0;
}

void hosts_close(struct hosts *hosts)
{
    if (!hosts)
        return;
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        if (!far->lost && far->conn.fd >= 0)
            far_call(far, ++hosts->calls, "end", json_object_new_object());
        if (far->conn.fd >= 0)
            conn_drain(&far->conn, HOSTS_DRAIN_MS);
        conn_close(&far->conn);
        while (!emu_list_empty(&far->processes))
            process_free(emu_list_entry(far->processes.next, struct hosts_process, link));
        json_object_put(far->kept);
        json_object_put(far->links);
        json_object_put(far->said.blocks);
        json_object_put(far->hits.counts);
        free(far->hits.dark);
    }
    if (hosts->kept_fd >= 0)
        close(hosts->kept_fd);
    if (hosts->epoll >= 0)
        close(hosts->epoll);
    free(hosts);
}
