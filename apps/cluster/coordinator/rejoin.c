/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rejoin.c - hosts that were lost are waited for, and links between hosts that were lost are
 * mended.
 *
 * The control channel to a host that is lost is opened anew, for its session's next life. Who says
 * "here" on it is a process that has just begun: that of the former life has closed its end, and
 * never gets another one.
 *
 * A link between two hosts comes up again when both have let it, in a life of its session that both
 * are in. So both are asked, again and again while it is missing; each says whether its end carries
 * segments. An end that says so in a life that is over is no harm: then the other one does not.
 */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/cluster/coordinator/internal.h"
#include "emu/util/now.h"

#define LOOK_FIRST_MS 20   /* after a host, or a link, was lost or came back; */
#define LOOK_LAST_MS  1000 /* doubled up to that while nothing happens */

/* --- hosts that are apart --------------------------------------------------------------- */

static void look_in(struct coordinator *coord, uint64_t ms)
{
    const struct itimerspec when = {.it_value = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)}};

    coord->check_ms = ms;
    coord->check_at_ms = emu_now_ms() + (int64_t)ms;
    timerfd_settime(coord->timer, 0, &when, NULL);
}

/* Something has changed: what is missing is looked at soon, and no later than it would be. */
void coordinator_rejoin_soon(struct coordinator *coord)
{
    if (!coord->check_at_ms || coord->check_at_ms > emu_now_ms() + LOOK_FIRST_MS)
        look_in(coord, LOOK_FIRST_MS);
    coord->check_ms = LOOK_FIRST_MS;
}

static bool are_apart(const struct coordinator *coord, uint32_t a, uint32_t b)
{
    return coord->lost_links[a] >> b & 1;
}

/*
 * A pair that is known to be apart changes nothing: who says so over and over is not to have looks
 * put off, nor to have them follow each other as after a loss.
 */
void coordinator_link_lost(struct coordinator *coord, uint32_t a, uint32_t b)
{
    bool news = false;

    for (uint32_t h = 0; h < coord->config.count; h++)
        if (h != a && (b == TOPO_NONE || h == b)) {
            news = news || !are_apart(coord, a, h);
            coord->lost_links[a] |= UINT64_C(1) << h;
            coord->lost_links[h] |= UINT64_C(1) << a;
        }
    if (news && coord->config.links_rejoin)
        coordinator_rejoin_soon(coord);
}

static bool is_there(const struct coordinator *coord, uint32_t h)
{
    return !h || !coord->agent[h].lost;
}

bool coordinator_is_connected(const struct coordinator *coord, uint32_t host)
{
    for (uint32_t h = 0; h < coord->config.count; h++)
        if (h != host && is_there(coord, h) && are_apart(coord, host, h))
            return false;
    return is_there(coord, host);
}

static void take_up(void *ctx, uint32_t host, struct json_object *reply)
{
    (void)host;
    *(bool *)ctx = emu_json_number(reply, "up", 0) != 0;
}

/* Do all links of @a to @b carry segments, for what it knows? They may, from now on. */
static bool end_mends(struct coordinator *coord, uint32_t a, uint32_t b)
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
            hosts_watch(coord->epoll, &config->link[i]); /* those that are new */
    return up;
}

/* Returns whether they are together again. */
static bool pair_mends(struct coordinator *coord, uint32_t a, uint32_t b)
{
    bool up = end_mends(coord, a, b); /* both are to let it */

    up &= is_there(coord, b) && end_mends(coord, b, a);
    if (!up || !is_there(coord, a) || !is_there(coord, b))
        return false;
    coord->lost_links[a] &= ~(UINT64_C(1) << b);
    coord->lost_links[b] &= ~(UINT64_C(1) << a);
    coord->config.ops.mended(coord->config.ops.ctx, a, b);
    return true;
}

/* --- hosts that are lost ---------------------------------------------------------------- */

void coordinator_await(struct coordinator_agent *agent)
{
    const struct coordinator_config *config = &agent->coord->config;
    int fd = config->links_again ? config->links_again(config->links_ctx, agent->number) : -1;

    if (fd < 0)
        return; /* it is tried again by the next look */
    conn_open(&agent->conn, fd, CONN_REPLY_MAX);
    agent->events = 0;
    hosts_listen(agent->coord->epoll, &agent->conn, &agent->events, agent);
}

/*
 * The first that it says is that it is there. What it says then is served once it is let in. False:
 * that is too much.
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
    agent->back = false; /* it has ended again */
    conn_close(&agent->conn);
    json_object_put(agent->kept);
    agent->kept = NULL;
    coordinator_await(agent);
}

/* Does somebody want to be that host, and may not? */
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

/* Who was refused in the place of hosts that are there. */
static void look_at_knocks(struct coordinator *coord)
{
    const struct coordinator_config *config = &coord->config;
    const char *who;
    uint32_t host;

    while (config->links_duplicate &&
           (who = config->links_duplicate(config->links_ctx, &host)) != NULL)
        config->ops.duplicate(config->ops.ctx, host, who);
}

/* --- a look ----------------------------------------------------------------------------- */

/* Returns whether anything is missing still. */
static bool look_at_lost(struct coordinator *coord)
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

void coordinator_rejoin_check(struct coordinator *coord)
{
    uint32_t count = coord->config.count;
    uint64_t times, ms = coord->check_ms;
    bool missing, mended = false;

    if (read(coord->timer, &times, sizeof times) < 0)
        return;
    coord->check_at_ms = 0;
    look_at_knocks(coord);
    missing = look_at_lost(coord);
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = a + 1; b < count; b++)
            if (are_apart(coord, a, b) && is_there(coord, a) && is_there(coord, b)) {
                bool mends = pair_mends(coord, a, b);

                mended |= mends;
                missing |= !mends;
            }
    if (missing && mended)
        coordinator_rejoin_soon(coord);
    else if (missing && !coord->check_at_ms) /* nothing has changed meanwhile */
        look_in(coord, 2 * ms < LOOK_LAST_MS ? 2 * ms : LOOK_LAST_MS);
    else if (!missing && !coord->check_at_ms && coord->config.links_duplicate)
        look_in(coord, LOOK_LAST_MS);
}

int coordinator_rejoin_open(struct coordinator *coord)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &coord->timer};

    coord->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (coord->timer < 0 || epoll_ctl(coord->epoll, EPOLL_CTL_ADD, coord->timer, &event) < 0)
        return -errno;
    if (coord->config.links_duplicate)
        look_in(coord, LOOK_LAST_MS);
    return 0;
}
