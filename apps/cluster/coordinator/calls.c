/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c - calls of the coordinator to the agents, and the time limits of the waits for replies.
 *
 * A *call* is a message to which the agent replies; the caller waits for the reply. Other messages
 * of an agent that arrive before its reply are kept, in order, and handled by the next
 * coordinator_serve().
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "apps/cluster/coordinator/internal.h"
#include "emu/util/now.h"

/* maximum number of other messages accepted after the deadline of a reply */
#define LATE_MOST    4096u
#define CALL_MORE_MS 50  /* by how much each call extends the time limit of its operation */
#define REST_MS      500 /* by how much each further part of a long reply extends it */
#define READ_MS      500 /* time to read a reply that came during the wait for another host */
#define END_CHECK_MS 100 /* during a wait: interval between checks whether the fabric must end */

bool coordinator_ends_within(const struct coordinator *coord, int ms)
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
    if (agent->coord->may_end && coordinator_ends_within(agent->coord, 0))
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
    if (!coord->limits && !coord->may_end && !coord->end_by_ms && coordinator_ends_within(coord, 0))
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
    if (!coordinator_message_of_counts(agent, message))
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
            coordinator_agent_listen(agent);
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
            coordinator_agent_failed(&coord->agent[h], call->what, failed);
        json_object_put(reply);
    }
    return err;
}

int coordinator_call_until(struct coordinator *coord, uint32_t only, int64_t until_ms,
                           const char *what, struct json_object *with,
                           void (*each)(void *ctx, uint32_t host, struct json_object *reply),
                           void *ctx)
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
    return coordinator_call_until(coord, only, 0, what, with, each, ctx);
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
    coord->may_end = !coordinator_ends_within(coord, 0);
    err = coordinator_call_until(coord, 0, coordinator_deadline_ms(coord->config.last_ms), what,
                                 with, each, ctx);
    coord->may_end = false;
    coord->ends = err == -ECANCELED;
    return err;
}
