/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coordinator.c - the coordinator's side of the control channels to the agents: messages, calls,
 * start and end. clients.c handles the processes of other hosts, and mirror.c makes the calls that
 * the fabric needs.
 *
 * A *call* is a message to which the agent replies; the caller waits for the reply. Other messages
 * of an agent that arrive before its reply are kept, in order, and handled by the next
 * coordinator_serve().
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
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
/* maximum number of other messages accepted after the deadline of a reply */
#define LATE_MOST    4096u
#define CALL_MORE_MS 50   /* by how much each call extends the time limit of its operation */
#define REST_MS      500  /* by how much each further part of a long reply extends it */
#define READ_MS      500  /* time to read a reply that came during the wait for another host */
#define END_CHECK_MS 100  /* during a wait: interval between checks whether the fabric must end */
#define AGENTS_MS    1000 /* the start fails if agents_why() has reported a failure for this long */

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

/* Register for events. If output waited for space in `conn`, have coordinator_serve() send it. */
static void agent_listen(struct coordinator_agent *agent)
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
        agent_listen(agent);
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

/*
 * Treat an agent as lost because a call has failed there, so that its fabric is no longer a
 * replica.
 */
static void agent_failed(struct coordinator_agent *agent, const char *what, int err)
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

/*
 * Handle a message that a caller may need while it waits for a reply: hits, or a piece of a sample.
 * Returns false if the message is of another kind.
 */
static bool message_of_counts(struct coordinator_agent *agent, struct json_object *message)
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

    if (message_of_counts(agent, message))
        return;
    if (client >= 0)
        coordinator_message_of_client(agent, client, message);
    else if (json_object_object_get_ex(message, "link_lost", &field))
        message_of_link(agent, field);
    else if (json_object_object_get_ex(message, "cut_off", &field))
        message_of_node(agent, json_object_get_int64(field));
    else if (json_object_object_get_ex(message, "failed", &field))
        agent_failed(agent, emu_json_text(message, "failed", "?"),
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

/* --- calls ---------------------------------------------------------------------------- */

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

/*
 * Wait up to @ms, and return whether this host must end, because of a signal or because the
 * supervisor has closed its connection. This is used only during waits for other hosts. At other
 * times the daemon's loop reads both descriptors.
 */
static bool ends_within(const struct coordinator *coord, int ms)
{
    struct pollfd fds[2] = {{coord->config.signal_fd, POLLIN, 0},
                            {coord->config.owner_fd, POLLIN, 0}};

    return poll(fds, 2, ms) > 0;
}

/*
 * Wait for the next message, like conn_wait(), for at most @left_ms, but no longer than
 * END_CHECK_MS. Errors: as conn_wait(); -ECANCELED, this host must end, and may_end allows the
 * wait to be cut short. After -ETIMEDOUT the caller must call again if some of @left_ms is left.
 */
static int agent_wait(struct coordinator_agent *agent, struct json_object **message,
                      int64_t left_ms)
{
    if (left_ms <= END_CHECK_MS)
        return conn_wait(&agent->conn, message, left_ms > 0 ? (int)left_ms : 0);
    if (agent->coord->may_end && ends_within(agent->coord, 0))
        return -ECANCELED;
    return conn_wait(&agent->conn, message, END_CHECK_MS);
}

/* Return the time limit of all calls at the end of the fabric. */
static uint64_t end_ms(const struct coordinator *coord)
{
    return coord->config.last_ms - coord->config.last_ms / 4;
}

/*
 * If the fabric must end, limit the rest of this operation to end_ms(). The supervisor waits only
 * for a limited time until the fabric begins to end, so a late host could cost the final report.
 * Returns @until_ms or, if it is earlier, the time at which that limit ends.
 */
static int64_t shortened_ms(struct coordinator *coord, int64_t until_ms)
{
    if (!coord->limits && !coord->may_end && !coord->end_by_ms && ends_within(coord, 0))
        coord->end_by_ms = coordinator_deadline_ms(end_ms(coord));
    return coord->end_by_ms && coord->end_by_ms < until_ms ? coord->end_by_ms : until_ms;
}

/*
 * Take a message other than the awaited reply. Returns false if the message cannot be kept.
 * Messages about processes and links are always kept. If they were handled here, a host could
 * change the daemon's lists while the caller iterates over them.
 */
static bool message_take(struct coordinator_agent *agent, struct json_object *message)
{
    if (!message_of_counts(agent, message))
        return coordinator_defer(agent, message);
    json_object_put(message);
    return true;
}

/*
 * Wait for the reply to call @number until @until_ms. @may_shorten: the wait ends earlier if the
 * fabric must end meanwhile. Returns NULL if the other host is lost, or if this host must end. If
 * the reply arrives after that, it is ignored.
 */
static struct json_object *reply_await(struct coordinator_agent *agent, int64_t number,
                                       int64_t until_ms, bool may_shorten)
{
    struct coordinator *coord = agent->coord;
    struct json_object *message;
    uint32_t late = 0; /* messages that arrived after the deadline */

    if (!coord->end_by_ms)
        until_ms = coordinator_query_until_ms(agent, until_ms);
    while (!agent->lost) {
        int64_t left_ms;
        int err = conn_flush(&agent->conn);

        if (may_shorten && !coord->end_by_ms)
            until_ms = shortened_ms(coord, until_ms);
        left_ms = until_ms - emu_now_ms();
        if (!err || err == -EAGAIN)
            err = agent_wait(agent, &message, left_ms);
        if (err == -ECANCELED)
            return NULL;
        if (err == -ETIMEDOUT && left_ms > END_CHECK_MS)
            continue;
        if (err) {
            coordinator_lose(agent, err == -ETIMEDOUT ? "it does not answer"
                                    : err == -EMSGSIZE || err == -EBADMSG
                                        ? hosts_line_why(err)
                                        : "its control channel has ended");
        } else if (emu_json_number(message, "reply", -1) == number) {
            agent_listen(agent);
            if (agent->conn.in.bytes) /* more messages have been read already */
                eventfd_write(agent->coord->kept_fd, 1);
            return message;
        } else {
            late += left_ms <= 0;
            if (!message_take(agent, message) || late > LATE_MOST)
                coordinator_lose(agent, "it sends many other messages but does not answer");
        }
    }
    return NULL;
}

int64_t coordinator_deadline_ms(uint64_t ms)
{
    return ms > INT32_MAX ? emu_now_ms() + INT32_MAX : emu_now_ms() + (int64_t)ms;
}

/*
 * Wait for a reply, as reply_await(), but at most for the rest of this operation's time limit for
 * the host (left_ms). The time of an audit does not count, because the host executes no call
 * meanwhile.
 */
static struct json_object *agent_reply(struct coordinator_agent *agent, int64_t number,
                                       int64_t until_ms)
{
    int64_t began_ms = emu_now_ms(), most_ms = began_ms + agent->left_ms;
    bool audits = coordinator_query_until_ms(agent, began_ms) > began_ms;
    struct json_object *reply =
        reply_await(agent, number, most_ms < until_ms ? most_ms : until_ms, true);

    if (!audits)
        agent->left_ms -= emu_now_ms() - began_ms;
    return reply;
}

static void limit_calls(struct coordinator *coord, uint64_t most_ms)
{
    for (uint32_t h = 1; h < coord->config.count; h++)
        coord->agent[h].left_ms = most_ms < INT32_MAX ? (int64_t)most_ms : INT32_MAX;
}

void coordinator_operation(struct coordinator *coord)
{
    coord->end_by_ms = 0;
    if (!coord->limits)
        limit_calls(coord, coord->config.call_ms);
}

void coordinator_limit_calls(struct coordinator *coord, bool limits)
{
    coord->limits = limits;
    limit_calls(coord, limits ? end_ms(coord) : coord->config.call_ms);
}

/* Let the calls of this operation wait for the host for @more_ms more. */
static void operation_extend(struct coordinator_agent *agent, int64_t more_ms)
{
    if (!agent->coord->limits)
        agent->left_ms += more_ms;
}

/* Send a call, and release @with. */
static void agent_call(struct coordinator_agent *agent, int64_t number, const char *what,
                       struct json_object *with)
{
    json_add_number(with, "call", (uint64_t)number);
    json_add_text(with, "do", what);
    coordinator_send(agent, with);
}

static void call_send(struct coordinator *coord, uint32_t only, int64_t number, const char *what,
                      struct json_object *with)
{
    for (uint32_t h = 1; h < coord->config.count; h++)
        if (!only || h == only)
            agent_call(&coord->agent[h], number, what, json_object_get(with));
    json_object_put(with);
}

int64_t coordinator_call_begin(struct coordinator *coord, uint32_t only, const char *what,
                               struct json_object *with)
{
    call_send(coord, only, ++coord->calls, what, with);
    return coord->calls;
}

struct call {
    const char *what;
    uint32_t only; /* the host to call; 0 for all */
    int may_fail;  /* a host that fails with another error is lost; INT_MIN: no error makes a
                    * host lost */
    /* when the wait for the replies ends; 0: after call_ms, or when the time limit of the operation
     * has passed (coordinator_operation()) */
    int64_t until_ms;
    void (*each)(void *ctx, uint32_t host, struct json_object *reply);
    void *ctx;
};

/*
 * Return until when to read the reply of a host. The replies of several hosts are read one after
 * the other. If a reply has arrived during the wait for another host, that wait may have used up
 * the time limit @until_ms.
 */
static int64_t agent_read_ms(const struct coordinator_agent *agent, int64_t until_ms)
{
    struct pollfd arrived = {agent->conn.fd, POLLIN, 0};
    int64_t read_ms = emu_now_ms() + READ_MS;

    return until_ms < read_ms && poll(&arrived, 1, 0) > 0 ? read_ms : until_ms;
}

/*
 * Make a call, release @with, and wait for all replies. If a host fails with an error other than
 * call->may_fail, it is lost. Returns the first error.
 */
static int call_all(struct coordinator *coord, const struct call *call, struct json_object *with)
{
    int64_t number = coordinator_call_begin(coord, call->only, call->what, with);
    int64_t until_ms = call->until_ms ? call->until_ms
                                      : coordinator_deadline_ms(coord->config.call_ms);
    int err = 0;

    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct json_object *reply;
        int64_t most_ms;
        int failed;

        if (call->only && h != call->only)
            continue;
        operation_extend(&coord->agent[h], CALL_MORE_MS);
        if (call->until_ms && !coord->limits) {
            most_ms = agent_read_ms(&coord->agent[h], until_ms);
            reply = reply_await(&coord->agent[h], number, most_ms, false);
        } else {
            most_ms = agent_read_ms(&coord->agent[h], shortened_ms(coord, until_ms));
            reply = agent_reply(&coord->agent[h], number, most_ms);
        }
        failed = reply                   ? coordinator_error_of(reply, 0)
                 : !coord->agent[h].lost ? -ECANCELED
                 : call->only            ? -EHOSTDOWN
                                         : 0;
        err = err ? err : failed;
        if (reply && call->each)
            call->each(call->ctx, h, reply);
        if (reply && failed && call->may_fail != INT_MIN && failed != call->may_fail)
            agent_failed(&coord->agent[h], call->what, failed);
        json_object_put(reply);
    }
    return err;
}

/* As coordinator_call(), with another time limit than call_ms. @until_ms: see struct call. */
static int call_until(struct coordinator *coord, uint32_t only, int64_t until_ms, const char *what,
                      struct json_object *with,
                      void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    const struct call call = {.what = what,
                              .only = only,
                              .may_fail = INT_MIN,
                              .until_ms = until_ms,
                              .each = each,
                              .ctx = ctx};

    return call_all(coord, &call, with);
}

int coordinator_call(struct coordinator *coord, uint32_t only, const char *what,
                     struct json_object *with,
                     void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    return call_until(coord, only, 0, what, with, each, ctx);
}

int coordinator_call_next(struct coordinator *coord, uint32_t only, const char *what,
                          struct json_object *with,
                          void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                          void *ctx)
{
    operation_extend(&coord->agent[only], REST_MS);
    return coordinator_call(coord, only, what, with, each, ctx);
}

void coordinator_do(struct coordinator *coord, uint32_t only, const char *what,
                    struct json_object *with, int may_fail)
{
    call_all(coord, &(struct call){.what = what, .only = only, .may_fail = may_fail}, with);
}

void coordinator_query_all(struct coordinator *coord, const char *what, struct json_object *with,
                           void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                           void *ctx)
{
    call_all(coord, &(struct call){.what = what, .each = each, .ctx = ctx}, with);
}

void coordinator_notify(struct coordinator *coord, uint32_t only, const char *what,
                        struct json_object *with)
{
    call_send(coord, only, 0, what, with);
}

int coordinator_call_last(struct coordinator *coord, const char *what, struct json_object *with,
                          void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                          void *ctx)
{
    int err;

    /* an earlier call of this kind was canceled, so do not wait for the same hosts again */
    if (coord->ends)
        return json_object_put(with), -ECANCELED;
    /* if the fabric must end already, do not cancel this call, because it is the last one */
    coord->may_end = !ends_within(coord, 0);
    err =
        call_until(coord, 0, coordinator_deadline_ms(coord->config.last_ms), what, with, each, ctx);
    coord->may_end = false;
    coord->ends = err == -ECANCELED;
    return err;
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
        if (ends_within(coord, CONNECT_CHECK_MS))
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
        err = call_until(coord, h, until_ms, "handshake", json_object_new_object(), take_why,
                         &handshake);
        if (err == -EAGAIN && ends_within(coord, CONNECT_CHECK_MS))
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
    if (err && ends_within(coord, 0))
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
            agent_call(agent, ++coord->calls, "end", with);
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
