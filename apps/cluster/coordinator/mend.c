/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mend.c - hosts that were lost are waited for, and links between hosts that were lost are mended.
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

static void look_in(struct hosts *hosts, uint64_t ms)
{
    const struct itimerspec when = {.it_value = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)}};

    hosts->look_ms = ms;
    hosts->look_at_ms = emu_now_ms() + (int64_t)ms;
    timerfd_settime(hosts->timer, 0, &when, NULL);
}

/* Something has changed: what is missing is looked at soon, and no later than it would be. */
void hosts_mend_soon(struct hosts *hosts)
{
    if (!hosts->look_at_ms || hosts->look_at_ms > emu_now_ms() + LOOK_FIRST_MS)
        look_in(hosts, LOOK_FIRST_MS);
    hosts->look_ms = LOOK_FIRST_MS;
}

static bool are_apart(const struct hosts *hosts, uint32_t a, uint32_t b)
{
    return hosts->apart[a] >> b & 1;
}

/*
 * A pair that is known to be apart changes nothing: who says so over and over is not to have looks
 * put off, nor to have them follow each other as after a loss.
 */
void hosts_part_of(struct hosts *hosts, uint32_t a, uint32_t b)
{
    bool news = false;

    for (uint32_t h = 0; h < hosts->config.count; h++)
        if (h != a && (b == TOPO_NONE || h == b)) {
            news = news || !are_apart(hosts, a, h);
            hosts->apart[a] |= UINT64_C(1) << h;
            hosts->apart[h] |= UINT64_C(1) << a;
        }
    if (news && hosts->config.links_mend)
        hosts_mend_soon(hosts);
}

static bool is_there(const struct hosts *hosts, uint32_t h)
{
    return !h || !hosts->far[h].lost;
}

bool hosts_is_whole(const struct hosts *hosts, uint32_t host)
{
    for (uint32_t h = 0; h < hosts->config.count; h++)
        if (h != host && is_there(hosts, h) && are_apart(hosts, host, h))
            return false;
    return is_there(hosts, host);
}

static void take_up(void *ctx, uint32_t host, struct json_object *reply)
{
    (void)host;
    *(bool *)ctx = emu_json_number(reply, "up", 0) != 0;
}

/* Do all links of @a to @b carry segments, for what it knows? They may, from now on. */
static bool end_mends(struct hosts *hosts, uint32_t a, uint32_t b)
{
    struct hosts_config *config = &hosts->config;
    bool up = false;

    if (a) {
        if (hosts_call(hosts, a, "mend", json_add_number(json_object_new_object(), "host", b),
                       take_up, &up))
            return false;
        return up;
    }
    up = config->links_mend(config->links_ctx, b) > 0;
    for (uint32_t i = 0; i < config->links; i++)
        if (config->link[i].host == b)
            hosts_watch(hosts->epoll, &config->link[i]); /* those that are new */
    return up;
}

/* Returns whether they are together again. */
static bool pair_mends(struct hosts *hosts, uint32_t a, uint32_t b)
{
    bool up = end_mends(hosts, a, b); /* both are to let it */

    up &= is_there(hosts, b) && end_mends(hosts, b, a);
    if (!up || !is_there(hosts, a) || !is_there(hosts, b))
        return false;
    hosts->apart[a] &= ~(UINT64_C(1) << b);
    hosts->apart[b] &= ~(UINT64_C(1) << a);
    hosts->config.ops.mended(hosts->config.ops.ctx, a, b);
    return true;
}

/* --- hosts that are lost ---------------------------------------------------------------- */

void hosts_await(struct host_far *far)
{
    const struct hosts_config *config = &far->hosts->config;
    int fd = config->links_again ? config->links_again(config->links_ctx, far->number) : -1;

    if (fd < 0)
        return; /* it is tried again by the next look */
    conn_open(&far->conn, fd, CONN_REPLY_MAX);
    far->events = 0;
    hosts_listen(far->hosts->epoll, &far->conn, &far->events, far);
}

/*
 * The first that it says is that it is there. What it says then is served once it is let in. False:
 * that is too much.
 */
static bool await_message(struct host_far *far, struct json_object *message)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;

    if (far->back)
        return hosts_keep(far, json_object_get(message));
    if (json_object_object_get_ex(message, "here", NULL)) {
        far->back = true;
        *far->why = '\0';
        ops->back(ops->ctx, far->number);
    }
    return true;
}

void hosts_await_serve(struct host_far *far)
{
    struct json_object *message;
    int end = far->conn.fd < 0 ? 0 : conn_fill(&far->conn), got = 0;

    while (!end && far->conn.fd >= 0 && (got = conn_next(&far->conn, &message)) == 1) {
        end = !await_message(far, message);
        json_object_put(message);
    }
    if (!end && got >= 0)
        return;
    far->back = false; /* it has ended again */
    conn_close(&far->conn);
    json_object_put(far->kept);
    far->kept = NULL;
    hosts_await(far);
}

/* Does somebody want to be that host, and may not? */
static void far_refused(struct host_far *far)
{
    const struct hosts_config *config = &far->hosts->config;
    char why[HOSTS_WHY_BYTES] = "";

    if (!config->links_refused ||
        !config->links_refused(config->links_ctx, far->number, why, sizeof why))
        return;
    if (*why && strcmp(why, far->why) != 0)
        config->ops.refused(config->ops.ctx, far->number, why);
    memcpy(far->why, why, sizeof far->why);
}

/* Who was refused in the place of hosts that are there. */
static void look_at_knocks(struct hosts *hosts)
{
    const struct hosts_config *config = &hosts->config;
    const char *who;
    uint32_t host;

    while (config->links_knock && (who = config->links_knock(config->links_ctx, &host)) != NULL)
        config->ops.knock(config->ops.ctx, host, who);
}

/* --- a look ----------------------------------------------------------------------------- */

/* Returns whether anything is missing still. */
static bool look_at_lost(struct hosts *hosts)
{
    bool missing = false;

    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        if (!far->lost)
            continue;
        missing = true;
        if (far->conn.fd < 0)
            hosts_await(far);
        far_refused(far);
    }
    return missing;
}

void hosts_mend_look(struct hosts *hosts)
{
    uint32_t count = hosts->config.count;
    uint64_t times, ms = hosts->look_ms;
    bool missing, mended = false;

    if (read(hosts->timer, &times, sizeof times) < 0)
        return;
    hosts->look_at_ms = 0;
    look_at_knocks(hosts);
    missing = look_at_lost(hosts);
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = a + 1; b < count; b++)
            if (are_apart(hosts, a, b) && is_there(hosts, a) && is_there(hosts, b)) {
                bool mends = pair_mends(hosts, a, b);

                mended |= mends;
                missing |= !mends;
            }
    if (missing && mended)
        hosts_mend_soon(hosts);
    else if (missing && !hosts->look_at_ms) /* nothing has changed meanwhile */
        look_in(hosts, 2 * ms < LOOK_LAST_MS ? 2 * ms : LOOK_LAST_MS);
    else if (!missing && !hosts->look_at_ms && hosts->config.links_knock)
        look_in(hosts, LOOK_LAST_MS);
}

int hosts_mend_open(struct hosts *hosts)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &hosts->timer};

    hosts->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (hosts->timer < 0 || epoll_ctl(hosts->epoll, EPOLL_CTL_ADD, hosts->timer, &event) < 0)
        return -errno;
    if (hosts->config.links_knock)
        look_in(hosts, LOOK_LAST_MS);
    return 0;
}
