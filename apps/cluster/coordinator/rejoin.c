/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rejoin.c - lets lost hosts connect again, and brings up lost links between hosts.
 *
 * When a host is lost, the coordinator opens another control channel to it, for the next
 * incarnation of its session. If the message "here" arrives on that channel, it comes from a new
 * process, because the lost process never opens another channel.
 *
 * A session that has ended begins again, as the next *incarnation* of the session. A link between
 * two hosts comes up again when both have allowed it within one incarnation. Therefore the
 * coordinator calls both hosts repeatedly while the link is down, and each replies whether its end
 * carries segments. A reply may be about an incarnation that has ended in the meantime. Then the
 * other host replies that its end does not carry segments. Before each attempt, the daemon waits
 * until all hosts have replied to a query (links_due()), because the calls would block it if a host
 * did not reply.
 */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/cluster/coordinator/internal.h"
#include "emu/util/now.h"

/* time before the first attempt after a change (a host or link was lost or has come back) */
#define ATTEMPT_FIRST_MS 20
#define ATTEMPT_LAST_MS  1000 /* the interval is doubled up to this value while nothing changes */

/* --- lost links ----------------------------------------------------------------------- */

static void attempt_in(struct coordinator *coord, uint64_t ms)
{
    const struct itimerspec when = {.it_value = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)}};

    coord->check_ms = ms;
    coord->check_at_ms = emu_now_ms() + (int64_t)ms;
    timerfd_settime(coord->timer, 0, &when, NULL);
}

void coordinator_rejoin_soon(struct coordinator *coord)
{
    if (!coord->check_at_ms || coord->check_at_ms > emu_now_ms() + ATTEMPT_FIRST_MS)
        attempt_in(coord, ATTEMPT_FIRST_MS);
    coord->check_ms = ATTEMPT_FIRST_MS;
}

static bool lost_a_link(const struct coordinator *coord, uint32_t a, uint32_t b)
{
    return coord->lost_links[a] >> b & 1;
}

/*
 * Ignore reports of links that are already lost: a host that repeats such a report could delay the
 * next attempt, or cause attempts at the shortest interval.
 */
void coordinator_link_lost(struct coordinator *coord, uint32_t a, uint32_t b)
{
    bool changed = false;

    for (uint32_t h = 0; h < coord->config.count; h++)
        if (h != a && (b == TOPO_NONE || h == b)) {
            changed = changed || !lost_a_link(coord, a, h);
            coord->lost_links[a] |= UINT64_C(1) << h;
            coord->lost_links[h] |= UINT64_C(1) << a;
        }
    if (changed && coord->config.links_rejoin)
        coordinator_rejoin_soon(coord);
}

static bool is_present(const struct coordinator *coord, uint32_t h)
{
    return !h || !coord->agent[h].lost;
}

bool coordinator_is_connected(const struct coordinator *coord, uint32_t host)
{
    for (uint32_t h = 0; h < coord->config.count; h++)
        if (h != host && is_present(coord, h) && lost_a_link(coord, host, h))
            return false;
    return is_present(coord, host);
}

static void take_up(void *ctx, uint32_t host, struct json_object *reply)
{
    (void)host;
    *(bool *)ctx = emu_json_number(reply, "up", 0) != 0;
}

/*
 * Let host @a bring up its links to @b. Returns whether @a reports that all of them carry segments.
 */
static bool end_comes_up(struct coordinator *coord, uint32_t a, uint32_t b)
{
    struct coordinator_config *config = &coord->config;
    bool up = false;

    if (a) {
        if (coordinator_call(coord, a, "rejoin",
                             json_add_number(json_object_new_object(), "host", b), take_up, &up))
            return false;
        return up;
    }
    up = config->links_rejoin(config->links_ctx, b) > 0;
    for (uint32_t i = 0; i < config->links; i++)
        if (config->link[i].host == b)
            hosts_watch(coord->epoll, &config->link[i]); /* the link has a new socket */
    return up;
}

/* Let both hosts bring up the links between them. Returns whether all of these carry segments. */
static bool pair_comes_up(struct coordinator *coord, uint32_t a, uint32_t b)
{
    bool up = end_comes_up(coord, a, b);

    /* both hosts must allow the link, so call @b even if the end of @a is not up */
    up &= is_present(coord, b) && end_comes_up(coord, b, a);
    if (!up || !is_present(coord, a) || !is_present(coord, b))
        return false;
    coord->lost_links[a] &= ~(UINT64_C(1) << b);
    coord->lost_links[b] &= ~(UINT64_C(1) << a);
    coord->config.ops.mended(coord->config.ops.ctx, a, b);
    return true;
}

/* --- lost hosts ---------------------------------------------------------------------- */

void coordinator_await(struct coordinator_agent *agent)
{
    const struct coordinator_config *config = &agent->coord->config;
    int fd = config->links_again ? config->links_again(config->links_ctx, agent->number) : -1;

    if (fd < 0)
        return; /* the next attempt calls this host again */
    conn_open(&agent->conn, fd, CONN_REPLY_MAX);
    hosts_limit(&agent->conn, config->fabric, HOSTS_AGENT_CONTAINERS);
    agent->events = 0;
    hosts_listen(agent->coord->epoll, &agent->conn, &agent->events, agent);
}

/*
 * Handle a message of a lost host. The first message must be "here"; later messages are kept until
 * the host is admitted. Returns false if there are too many.
 */
static bool await_message(struct coordinator_agent *agent, struct json_object *message)
{
    const struct coordinator_ops *ops = &agent->coord->config.ops;

    if (agent->back)
        return coordinator_defer(agent, json_object_get(message));
    if (json_object_object_get_ex(message, "here", NULL)) {
        agent->back = true;
        *agent->why = '\0';
        ops->back(ops->ctx, agent->number);
    }
    return true;
}

void coordinator_await_serve(struct coordinator_agent *agent)
{
    struct json_object *message;
    int end = agent->conn.fd < 0 ? 0 : conn_fill(&agent->conn), got = 0;

    while (!end && agent->conn.fd >= 0 && (got = conn_next(&agent->conn, &message)) == 1) {
        end = !await_message(agent, message);
        json_object_put(message);
    }
    if (!end && got >= 0)
        return;
    agent->back = false; /* the new incarnation is lost, too */
    conn_close(&agent->conn);
    hosts_forget_kept(agent);
    coordinator_await(agent);
}

/* Report to the daemon a rejected host that claims to be the lost host @agent. */
static void agent_refused(struct coordinator_agent *agent)
{
    const struct coordinator_config *config = &agent->coord->config;
    char why[HOSTS_WHY_BYTES] = "";

    if (!config->links_refused ||
        !config->links_refused(config->links_ctx, agent->number, why, sizeof why))
        return;
    if (*why && strcmp(why, agent->why) != 0)
        config->ops.refused(config->ops.ctx, agent->number, why);
    memcpy(agent->why, why, sizeof agent->why);
}

/*
 * Report to the daemon the rejected hosts that claim to be connected hosts. Report at most as many
 * as there are hosts, because a rejected host may change its address faster than it is reported.
 */
static void report_duplicates(struct coordinator *coord)
{
    const struct coordinator_config *config = &coord->config;
    const char *who = "";
    uint32_t host;

    for (uint32_t left = config->count; who && left && config->links_duplicate; left--) {
        who = config->links_duplicate(config->links_ctx, &host);
        if (who)
            config->ops.duplicate(config->ops.ctx, host, who);
    }
}

/* --- an attempt ------------------------------------------------------------------------- */

/* Open control channels to lost hosts that have none. Returns whether any host is lost. */
static bool await_lost(struct coordinator *coord)
{
    bool missing = false;

    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];

        if (!agent->lost)
            continue;
        missing = true;
        if (agent->conn.fd < 0)
            coordinator_await(agent);
        agent_refused(agent);
    }
    return missing;
}

/* Return whether @a and @b are connected hosts that have lost a link between them. */
static bool can_mend(const struct coordinator *coord, uint32_t a, uint32_t b)
{
    return lost_a_link(coord, a, b) && is_present(coord, a) && is_present(coord, b);
}

/* Plan the next attempt. @missing: hosts or links are lost; @mended: this attempt mended a link. */
static void attempt_next(struct coordinator *coord, bool missing, bool mended)
{
    uint64_t ms = coord->check_ms;

    if (missing && mended)
        coordinator_rejoin_soon(coord);
    else if (missing && !coord->check_at_ms) /* no attempt is planned yet */
        attempt_in(coord, 2 * ms < ATTEMPT_LAST_MS ? 2 * ms : ATTEMPT_LAST_MS);
    else if (!missing && !coord->check_at_ms && coord->config.links_duplicate)
        attempt_in(coord, ATTEMPT_LAST_MS);
}

void coordinator_rejoin_check(struct coordinator *coord)
{
    uint32_t count = coord->config.count;
    bool missing, due = false;
    uint64_t times;

    if (read(coord->timer, &times, sizeof times) < 0)
        return;
    coord->check_at_ms = 0;
    report_duplicates(coord);
    missing = await_lost(coord);
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = a + 1; b < count; b++)
            due = due || can_mend(coord, a, b);
    if (due)
        coord->config.ops.links_due(coord->config.ops.ctx);
    else
        attempt_next(coord, missing, false);
}

void coordinator_links_mend(struct coordinator *coord)
{
    uint32_t count = coord->config.count;
    bool missing = await_lost(coord), mended = false;

    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = a + 1; b < count; b++)
            if (can_mend(coord, a, b)) {
                bool mends = pair_comes_up(coord, a, b);

                mended |= mends;
                missing |= !mends;
            }
    attempt_next(coord, missing, mended);
}

int coordinator_rejoin_open(struct coordinator *coord)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &coord->timer};

    coord->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (coord->timer < 0 || epoll_ctl(coord->epoll, EPOLL_CTL_ADD, coord->timer, &event) < 0)
        return -errno;
    if (coord->config.links_duplicate)
        attempt_in(coord, ATTEMPT_LAST_MS);
    return 0;
}
