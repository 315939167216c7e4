/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coordinator.c - the coordinator's side of the control channels to the agents: messages, start and
 * end. calls.c makes calls, clients.c handles the processes of other hosts, and mirror.c makes the
 * calls that the fabric needs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "apps/cluster/coordinator/internal.h"
#include "apps/base/message.h"
#include "emu/util/list.h"
#include "emu/util/now.h"

#define CONNECT_CHECK_MS 5 /* interval between checks whether links have come up, at the start */
/* the start fails if agents_why() has reported a failure for this long */
#define AGENTS_MS 1000

/* --- connections --------------------------------------------------------------------- */

void coordinator_lose(struct coordinator_agent *agent, const char *why)
{
    struct coordinator *coord = agent->coord;

    if (agent->lost)
        return;
    agent->lost = true;
    agent->back = false;
    snprintf(agent->lost_why, sizeof agent->lost_why, "%s", why);
    conn_close(&agent->conn);
    hosts_forget_kept(agent);
    json_object_put(agent->links); /* this is the report on the links of the former incarnation */
    agent->links = NULL;
    coordinator_hits_keep(&agent->hits);
    memset(agent->sample, 0, sizeof agent->sample); /* the host's next incarnation counts
                                                     * requests and pieces from 0 */
    coordinator_query_lost(agent);
    emu_each_listed (struct coordinator_process, process, &agent->processes, link) {
        if (!*process->info.how)
            snprintf(process->info.how, sizeof process->info.how, "its host %s was lost",
                     coord->config.name[agent->number]);
        if (!process->ended)
            coordinator_process_end(process);
        process->info.lost = true;
        process->client = -1; /* the next incarnation of its host may use that number */
    }
    coordinator_link_lost(coord, agent->number, TOPO_NONE);
    coord->config.ops.lost(coord->config.ops.ctx, agent->number, why);
    coordinator_await(agent);
}

void coordinator_expel(struct coordinator *coord, uint32_t host, const char *why)
{
    coordinator_lose(&coord->agent[host], why);
}

void coordinator_agent_listen(struct coordinator_agent *agent)
{
    hosts_listen(agent->coord->epoll, &agent->conn, &agent->events, agent);
    if (agent->blocked && !hosts_is_full(&agent->conn))
        eventfd_write(agent->coord->kept_fd, 1);
}

static void agent_flush(struct coordinator_agent *agent)
{
    int err = agent->lost ? 0 : conn_flush(&agent->conn);

    if (err && err != -EAGAIN)
        coordinator_lose(agent, "its control channel has ended");
    else
        coordinator_agent_listen(agent);
}

void coordinator_send(struct coordinator_agent *agent, struct json_object *message)
{
    if (agent->lost) {
        json_object_put(message);
    } else if (conn_put(&agent->conn, message)) {
        coordinator_lose(agent, "it does not read its control channel");
    } else {
        agent_flush(agent);
    }
}

void coordinator_agent_failed(struct coordinator_agent *agent, const char *what, int err)
{
    char why[HOSTS_WHY_BYTES];

    snprintf(why, sizeof why, "it could not execute a call (%.32s): %s", what, strerror(-err));
    emu_printable(why);
    coordinator_lose(agent, why);
}

/* --- messages ------------------------------------------------------------------------- */

/* Handle the agent's message that its session with another host has ended. */
static void message_of_link(struct coordinator_agent *agent, struct json_object *link)
{
    const struct coordinator_ops *ops = &agent->coord->config.ops;
    int64_t host = emu_json_number(link, "host", -1), of = emu_json_number(link, "of", 0);
    int64_t number = emu_json_number(link, "number", -1);

    if (host < 0 || host >= agent->coord->config.count || host == agent->number || of < 1 ||
        of > UINT32_MAX || number < 0 || number >= of)
        return;
    coordinator_link_lost(agent->coord, agent->number, (uint32_t)host);
    ops->link_lost(ops->ctx, agent->number,
                   &(struct hosts_link){.host = (uint32_t)host,
                                        .number = (uint32_t)number,
                                        .of = (uint32_t)of,
                                        .closed_fd = -1});
}

/* Handle the agent's message that the process at @node does not read its segments. */
static void message_of_node(struct coordinator_agent *agent, int64_t node)
{
    const struct coordinator_ops *ops = &agent->coord->config.ops;

    if (node >= 0 && node <= UINT32_MAX)
        ops->cut_off(ops->ctx, agent->number, (uint32_t)node);
}

int coordinator_error_of(struct json_object *message, int64_t unsaid)
{
    int64_t number = emu_json_number(message, "errno", unsaid);

    return number >= 0 && number < 4096 ? -(int)number : -EIO;
}

bool coordinator_message_of_counts(struct coordinator_agent *agent, struct json_object *message)
{
    struct json_object *hit;
    bool hits = json_object_object_get_ex(message, "hit", &hit);
    bool sample = json_object_object_get_ex(message, "sample", NULL);

    if (hits)
        coordinator_hits_down(&agent->hits, emu_json_number(message, "fault", 0),
                              json_object_get_int64(hit));
    else if (sample)
        coordinator_message_of_sample(agent, message);
    return hits || sample;
}

/* Handle a message. Its first field in the order of the checks below tells its kind. */
static void message_serve(struct coordinator_agent *agent, struct json_object *message)
{
    int64_t client = emu_json_number(message, "client", -1);
    struct json_object *field;

    if (coordinator_message_of_counts(agent, message))
        return;
    if (client >= 0)
        coordinator_message_of_client(agent, client, message);
    else if (json_object_object_get_ex(message, "link_lost", &field))
        message_of_link(agent, field);
    else if (json_object_object_get_ex(message, "cut_off", &field))
        message_of_node(agent, json_object_get_int64(field));
    else if (json_object_object_get_ex(message, "failed", &field))
        coordinator_agent_failed(agent, emu_json_text(message, "failed", "?"),
                                 coordinator_error_of(message, EIO));
    else if (emu_json_number(message, "reply", 0) > 0)
        coordinator_message_of_query(agent, message);
}

static void serve_kept(struct coordinator_agent *agent)
{
    /* handling a kept message may make a call, during which further messages are kept */
    struct emu_json_buf kept = agent->kept;
    struct json_object *message;

    agent->kept = (struct emu_json_buf){.room = 0};
    agent->kept_lines = 0;
    /* if the host is lost during this loop, accept no further processes of it */
    while (!agent->lost && emu_json_next(&kept, SIZE_MAX, SIZE_MAX, &message) == 1) {
        message_serve(agent, message);
        json_object_put(message);
    }
    emu_json_free(&kept);
}

void coordinator_agent_serve(struct coordinator_agent *agent)
{
    struct json_object *message;
    int end, got = 1;

    if (agent->lost) {
        coordinator_await_serve(agent);
        return;
    }
    serve_kept(agent);
    agent_flush(agent);
    end = agent->lost ? 0 : conn_fill(&agent->conn);
    while (!agent->lost && (got = conn_next(&agent->conn, &message)) == 1) {
        message_serve(agent, message);
        json_object_put(message);
    }
    if (end || got < 0)
        coordinator_lose(agent, end ? "its control channel has ended" : hosts_line_why(got));
}

bool coordinator_is_among(const void *what, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr == what)
            return true;
    return false;
}

void coordinator_serve(struct coordinator *coord)
{
    struct epoll_event events[64];
    int count = epoll_wait(coord->epoll, events, 64, 0);
    uint64_t times;
    bool kept = read(coord->kept_fd, &times, sizeof times) > 0;

    for (uint32_t i = 0; i < coord->config.links; i++)
        if (coordinator_is_among(&coord->config.link[i], events, count)) {
            epoll_ctl(coord->epoll, EPOLL_CTL_DEL, coord->config.link[i].closed_fd, NULL);
            coordinator_link_lost(coord, 0, coord->config.link[i].host);
            coord->config.ops.link_lost(coord->config.ops.ctx, 0, &coord->config.link[i]);
        }

    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];

        if (kept || coordinator_is_among(agent, events, count))
            coordinator_agent_serve(agent);
        coordinator_processes_serve(agent, events, count);
    }
    if (coordinator_is_among(&coord->timer, events, count))
        coordinator_rejoin_check(coord);
}

int coordinator_fd(const struct coordinator *coord)
{
    return coord->epoll;
}

/* --- messages that arrive during a call -------------------------------------------------- */

bool coordinator_defer(struct coordinator_agent *agent, struct json_object *message)
{
    uint32_t nodes = fabric_graph(agent->coord->config.fabric)->nodes;
    /* a correct host sends fewer messages than this limit during a call */
    bool few = agent->kept_lines < 64 * ((uint64_t)nodes + 128);

    if (emu_json_put(&agent->kept, message, few ? HOSTS_KEPT_BYTES(nodes) : 0))
        return false;
    agent->kept_lines++;
    eventfd_write(agent->coord->kept_fd, 1);
    return true;
}

void hosts_forget_kept(struct coordinator_agent *agent)
{
    emu_json_free(&agent->kept);
    agent->kept_lines = 0;
}

const char *hosts_line_why(int err)
{
    return err == -EMSGSIZE ? "it sent a longer line than a correct host does"
                            : "it sent a line that is not a valid message";
}

bool coordinator_is_lost(const struct coordinator *coord, uint32_t host)
{
    return coord->agent[host].lost;
}

/* --- beginning and end ------------------------------------------------------------------ */

static int coordinator_make(struct coordinator *coord)
{
    struct epoll_event event = {.events = EPOLLIN};

    coord->epoll = epoll_create1(EPOLL_CLOEXEC);
    coord->kept_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (coord->epoll < 0 || coord->kept_fd < 0 ||
        epoll_ctl(coord->epoll, EPOLL_CTL_ADD, coord->kept_fd, &event) < 0)
        return -errno;
    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];

        conn_open(&agent->conn, coord->config.control[h], CONN_REPLY_MAX);
        hosts_limit(&agent->conn, coord->config.fabric, HOSTS_AGENT_CONTAINERS);
        hosts_listen(coord->epoll, &agent->conn, &agent->events, agent);
    }
    for (uint32_t i = 0; i < coord->config.links; i++)
        if (hosts_watch(coord->epoll, &coord->config.link[i]))
            return -errno;
    return coordinator_rejoin_open(coord);
}

/*
 * Wait until this host's links carry segments. Errors: -ETIMEDOUT; -EPROTO, a host belongs to
 * another fabric or an agent has failed; -ECANCELED.
 */
static int links_await(struct coordinator *coord, int64_t until_ms, char *why)
{
    const struct coordinator_config *config = &coord->config;
    int64_t began_ms = emu_now_ms(), good_ms = began_ms, now_ms = began_ms, failed_ms = 0;

    while (config->links_up && !config->links_up(config->links_ctx)) {
        now_ms = emu_now_ms();
        if (config->links_warn && now_ms - began_ms > HOSTS_WARN_MS)
            config->links_warn(config->links_ctx);
        if (!config->links_why || config->links_why(config->links_ctx, why, HOSTS_WHY_BYTES))
            good_ms = now_ms;
        if (now_ms - good_ms > HOSTS_REFUSED_MS + HOSTS_LONGER_MS)
            return -EPROTO;
        if (!config->agents_why || !config->agents_why(config->links_ctx, why, HOSTS_WHY_BYTES))
            failed_ms = 0;
        else if (!failed_ms)
            failed_ms = now_ms;
        else if (now_ms - failed_ms > AGENTS_MS)
            return -EPROTO;
        if (now_ms > until_ms)
            return -ETIMEDOUT;
        if (coordinator_ends_within(coord, CONNECT_CHECK_MS))
            return -ECANCELED;
    }
    return 0;
}

struct handshake {
    struct coordinator *coord;
    char *why;
};

static void take_why(void *ctx, uint32_t host, struct json_object *reply)
{
    const struct handshake *handshake = ctx;
    char why[HOSTS_WHY_BYTES];

    hosts_text(why, sizeof why, reply, "why");
    if (*why)
        snprintf(handshake->why, HOSTS_WHY_BYTES, "host %s does not reach %.*s",
                 handshake->coord->config.name[host], HOSTS_WHY_BYTES / 2, why);
}

/*
 * Wait until host @h reports that its links carry segments. @why: gets the reason if they do not.
 */
static int host_await(struct coordinator *coord, uint32_t h, int64_t until_ms, char *why)
{
    struct handshake handshake = {coord, why};
    int err = -EAGAIN;

    snprintf(why, HOSTS_WHY_BYTES, "host %s does not answer", coord->config.name[h]);
    while (err == -EAGAIN) {
        if (emu_now_ms() > until_ms)
            return -ETIMEDOUT;
        err = coordinator_call_until(coord, h, until_ms, "handshake", json_object_new_object(),
                                     take_why, &handshake);
        if (err == -EAGAIN && coordinator_ends_within(coord, CONNECT_CHECK_MS))
            return -ECANCELED;
    }
    if (err != -EHOSTDOWN || emu_now_ms() >= until_ms)
        return err;
    snprintf(why, HOSTS_WHY_BYTES, "host %s is lost: %.*s", coord->config.name[h],
             HOSTS_WHY_BYTES / 2, coord->agent[h].lost_why);
    return -EPROTO;
}

/* Wait until all hosts are connected with each other. Processes are served only after that. */
static int all_await(struct coordinator *coord, char *error, size_t error_bytes)
{
    int64_t until_ms = coordinator_deadline_ms(coord->config.start_ms) + HOSTS_LONGER_MS;
    char why[HOSTS_WHY_BYTES] = "";
    int err;

    coord->may_end = true;
    err = links_await(coord, until_ms, why);
    for (uint32_t h = 1; !err && h < coord->config.count; h++)
        err = host_await(coord, h, until_ms, why);
    coord->may_end = false;
    if (err && coordinator_ends_within(coord, 0))
        return fail(-ECANCELED, error, error_bytes, "ended before all hosts were connected");
    if (err)
        fail(err, error, error_bytes, "%s%s", why,
             err == -EPROTO ? "" : "; --bound start sets how long to wait");
    return err;
}

int coordinator_open(struct coordinator **ret, const struct coordinator_config *config, char *error,
                     size_t error_bytes)
{
    struct coordinator *coord = calloc(1, sizeof *coord);
    int err;

    if (!coord) {
        for (uint32_t h = 1; h < config->count; h++)
            close(config->control[h]);
        return fail(-ENOMEM, error, error_bytes, "no memory for %u hosts", config->count);
    }
    coord->config = *config;
    coord->timer = -1;
    coordinator_mirror_open(coord);
    for (uint32_t h = 1; h < config->count; h++) {
        coord->agent[h] = (struct coordinator_agent){.coord = coord, .number = h, .conn.fd = -1};
        emu_list_init(&coord->agent[h].processes);
    }
    coordinator_operation(coord);
    err = coordinator_make(coord);
    if (err)
        fail(err, error, error_bytes, "cannot serve %u hosts: %s", config->count, strerror(-err));
    else
        err = all_await(coord, error, error_bytes);
    if (err) {
        coordinator_close(coord, error);
        return err;
    }
    *ret = coord;
    return 0;
}

/* Send "end" to every connected host, including a host that waits to be admitted. */
static void end_notify(struct coordinator *coord, const char *why)
{
    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];
        struct json_object *with = json_object_new_object();

        agent->lost = agent->lost && !agent->back;
        if (why)
            json_add_text(with, "why", why);
        if (!agent->lost && agent->conn.fd >= 0)
            coordinator_call_begin(coord, h, "end", with);
        else
            json_object_put(with);
    }
}

void coordinator_close(struct coordinator *coord, const char *why)
{
    int64_t until_ms = emu_now_ms() + HOSTS_DRAIN_MS;

    if (!coord)
        return;
    end_notify(coord, why);
    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];
        int64_t left_ms = until_ms - emu_now_ms();

        if (agent->conn.fd >= 0)
            conn_drain(&agent->conn, left_ms > 0 ? (int)left_ms : 0);
        conn_close(&agent->conn);
        while (!emu_list_empty(&agent->processes))
            coordinator_process_free(
                emu_list_entry(agent->processes.next, struct coordinator_process, link));
        hosts_forget_kept(agent);
        json_object_put(agent->links);
        json_object_put(agent->pending.blocks);
        free(agent->hits.count);
        free(agent->hits.link_down);
    }
    if (coord->kept_fd >= 0)
        close(coord->kept_fd);
    if (coord->timer >= 0)
        close(coord->timer);
    if (coord->epoll >= 0)
        close(coord->epoll);
    free(coord);
}
