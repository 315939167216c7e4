/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * follower.c - a host that does not govern: passes its processes' requests on, and does as it is
 * told.
 *
 * One thread, the fabric's manager here, in epoll. served.c has the processes of this host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fabric/stalls.h"
#include "apps/cluster/follower/internal.h"
#include "emu/util/now.h"

#define EVENTS_A_ROUND 64

void obey_over(struct obey *obey, enum obey_end end)
{
    if (!obey->over)
        obey->end = end;
    obey->over = true;
}

/* @message is put. */
void obey_say(struct obey *obey, struct json_object *message)
{
    int err = conn_put(&obey->governor, message);

    if (!err)
        err = conn_flush(&obey->governor);
    if (err && err != -EAGAIN)
        obey_over(obey, OBEY_LOST);
    else
        hosts_listen(obey->epoll, &obey->governor, &obey->governor_events, &obey->governor);
}

/* --- edges made for processes --- */

struct seat *obey_seat_of(struct obey *obey, int64_t node)
{
    emu_each_listed (struct seat, seat, &obey->seats, link)
        if (seat->seat.node == node)
            return seat;
    return NULL;
}

void obey_seat_free(struct seat *seat, bool passed)
{
    if (!passed)
        fabric_seat_close(&seat->seat);
    emu_list_del(&seat->link);
    free(seat);
}

/* --- calls ------------------------------------------------------------------------------ */

static int call_meet(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    const struct obey_config *config = obey->config;
    char why[HOSTS_WHY_BYTES] = "";

    (void)call;
    if (!config->links_up || config->links_up(config->links_ctx))
        return 0;
    if (config->links_why)
        config->links_why(config->links_ctx, why, sizeof why);
    json_add_text(reply, "why", why);
    return -EAGAIN;
}

static int call_answer(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    (void)obey;
    (void)call;
    (void)reply;
    return 0;
}

static int call_end(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    bool failed = json_object_object_get_ex(call, "why", NULL);

    (void)reply;
    hosts_text(obey->why, sizeof obey->why, call, "why");
    obey_over(obey, failed ? OBEY_FAILED : OBEY_ENDED);
    return 0;
}

static int call_attach(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);
    struct seat *seat = calloc(1, sizeof *seat);
    int err = seat ? fabric_attach(obey->fabric, node, &seat->seat) : -ENOMEM;

    (void)reply;
    if (err) {
        free(seat);
        return err;
    }
    emu_list_add(&obey->seats, &seat->link);
    if (seat->seat.node == node)
        return 0;
    fabric_detach(obey->fabric, seat->seat.node);
    obey_seat_free(seat, false);
    return -EBUSY;
}

static int call_detach(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);
    struct seat *seat = obey_seat_of(obey, node);

    (void)reply;
    if (seat)
        obey_seat_free(seat, false);
    if (node >= 0 && node < fabric_graph(obey->fabric)->nodes)
        obey_sample_leaves(obey, (uint32_t)node);
    if (node >= 0 && emu_json_number(call, "dead", 1))
        fabric_detach_dead(obey->fabric, (uint32_t)node);
    else if (node >= 0)
        fabric_detach(obey->fabric, (uint32_t)node);
    return 0;
}

static int call_seat(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);

    (void)reply;
    if (node >= 0 && node < fabric_graph(obey->fabric)->nodes &&
        fabric_node_is_here(obey->fabric, (uint32_t)node))
        return 0; /* as it is here already */
    return fabric_seat_set(obey->fabric, node < 0 ? TOPO_NONE : (uint32_t)node,
                           (uint64_t)emu_json_number(call, "word", 0));
}

static int call_linked(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);

    (void)reply;
    if (node < 0 || node >= fabric_graph(obey->fabric)->nodes)
        return -EINVAL;
    fabric_node_linked(obey->fabric, (uint32_t)node, emu_json_number(call, "linked", 1) != 0);
    return 0;
}

/* A list of cables, or of nodes; NULL: it is none, or there is no memory. */
static uint32_t *list_of(struct json_object *call, const char *name, uint32_t *count)
{
    struct json_object *list = json_object_object_get(call, name);
    uint32_t *ret;

    if (!json_object_is_type(list, json_type_array))
        return NULL;
    *count = (uint32_t)json_object_array_length(list);
    ret = calloc(*count + 1u, sizeof *ret);
    for (uint32_t i = 0; ret && i < *count; i++)
        ret[i] = (uint32_t)json_object_get_int64(json_object_array_get_idx(list, i));
    return ret;
}

static int call_group(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    struct fabric_group_call group = {.wide = emu_json_number(call, "wide", 0) != 0,
                                      .id = (uint32_t)emu_json_number(call, "group", 0)};
    uint32_t *nodes = list_of(call, "nodes", &group.count);
    int err;

    (void)reply;
    group.nodes = nodes;
    err = nodes && group.count ? fabric_group_is(obey->fabric, &group) : -EINVAL;
    free(nodes);
    return err;
}

static int call_leave(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    (void)reply;
    return fabric_group_leave(obey->fabric, (uint32_t)emu_json_number(call, "group", 0),
                              (uint32_t)emu_json_number(call, "node", -1));
}

static int call_comm(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    uint64_t from = (uint64_t)emu_json_number(call, "from", 0);

    json_object_object_add(reply, "comm", hosts_comm_list(obey->fabric, from, HOSTS_PAIRS_MOST));
    return 0;
}

static int call_totals(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    struct fabric_totals totals;

    (void)call;
    fabric_totals_read(obey->fabric, &totals);
    json_object_object_add(reply, "totals", hosts_totals_list(&totals));
    if (obey->config->links_report)
        json_object_object_add(reply, "links", obey->config->links_report(obey->config->links_ctx));
    return 0;
}

static int call_link(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t cable = emu_json_number(call, "cable", -1);
    uint32_t hit;
    int err;

    if (cable < 0 || cable >= fabric_cable_count(obey->fabric))
        return -EINVAL;
    fabric_hold(obey->fabric);
    err = fabric_link_set(obey->fabric, (uint32_t)cable, emu_json_number(call, "up", 0) != 0,
                          (uint32_t)emu_json_number(call, "fault", 0), fabric_now_ps(obey->fabric),
                          &hit);
    fabric_go(obey->fabric);
    if (!err && hit)
        json_add_number(json_add_number(reply, "hit", hit), "fault",
                        (uint64_t)emu_json_number(call, "fault", 0));
    return err;
}

static void group_treeless(void *ctx, uint32_t group)
{
    (void)ctx; /* the governor knows, too */
    (void)group;
}

static int call_reroute(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    uint32_t cables = fabric_cable_count(obey->fabric), count;
    uint32_t *out = list_of(call, "out", &count);
    bool *routed = malloc(cables * sizeof *routed + 1u);
    uint64_t parted;
    int err = out && routed ? 0 : out ? -ENOMEM : -EINVAL;

    (void)reply;
    for (uint32_t i = 0; !err && i < cables; i++)
        routed[i] = true;
    for (uint32_t i = 0; !err && i < count; i++)
        if (out[i] < cables)
            routed[out[i]] = false;
        else
            err = -EINVAL;
    if (!err)
        err = fabric_reroute(obey->fabric, routed, fabric_now_ps(obey->fabric), &parted,
                             group_treeless, NULL);
    free(routed);
    free(out);
    return err;
}

static int call_cut_off(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    (void)reply;
    fabric_cut_off(obey->fabric, emu_json_number(call, "parted", 0) != 0);
    return 0;
}

static int call_signal(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    struct served *served = served_of(obey, emu_json_number(call, "client", -1));

    (void)reply;
    if (!served || served->ended)
        return -ESRCH;
    return served_signal(obey, served, (int)emu_json_number(call, "signal", 0));
}

/* Links to a host that is there again. */
static int call_mend(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    const struct obey_config *config = obey->config;
    int64_t host = emu_json_number(call, "host", -1);
    int up;

    if (!config->links_mend || host < 0 || host >= HOSTS_MAX)
        return config->links_mend ? -EINVAL : -ENOTSUP;
    up = config->links_mend(config->links_ctx, (uint32_t)host);
    for (uint32_t i = 0; i < config->links; i++)
        if (config->link[i].host == host)
            hosts_watch(obey->epoll, &config->link[i]); /* those that are new */
    json_add_number(reply, "up", up > 0);
    return up < 0 ? up : 0;
}

/* clang-format off */
static const struct {
    const char *name;
    int (*obey)(struct obey *, struct json_object *call, struct json_object *reply);
} calls[] = {
    {"meet", call_meet},
    {"answer", call_answer},
    {"end", call_end},
    {"attach", call_attach},
    {"detach", call_detach},
    {"seat", call_seat},
    {"linked", call_linked},
    {"group", call_group},
    {"leave", call_leave},
    {"link", call_link},
    {"reroute", call_reroute},
    {"cut_off", call_cut_off},
    {"totals", call_totals},
    {"comm", call_comm},
    {"signal", call_signal},
    {"mend", call_mend},
    {"sample", obey_sample},
    {"unsampled", obey_unsampled},
};
/* clang-format on */

static void obey_call(struct obey *obey, struct json_object *call)
{
    const char *what = emu_json_text(call, "do", "");
    struct json_object *reply = json_add_number(json_object_new_object(), "reply",
                                                (uint64_t)emu_json_number(call, "call", 0));
    size_t i = 0;
    int err;

    while (i < sizeof calls / sizeof calls[0] && strcmp(calls[i].name, what) != 0)
        i++;
    err = i < sizeof calls / sizeof calls[0] ? calls[i].obey(obey, call, reply)
                                             : hosts_look(obey->fabric, what, call, reply);
    if (err == -ENOSYS)
        err = hosts_begin(obey->fabric, what, call);
    if (err == -ENOSYS)
        err = hosts_befall(&obey->befallen, what, call, reply);
    if (emu_json_number(call, "call", 0) || json_object_object_get_ex(reply, "hit", NULL) ||
        json_object_object_get_ex(reply, "sample", NULL))
        obey_say(obey, json_add_number(reply, "errno", (uint64_t)-err));
    else
        json_object_put(reply); /* it was told, and not asked */
    if (err && !emu_json_number(call, "call", 0))
        obey_say(obey, json_add_number(json_add_text(json_object_new_object(), "failed", what),
                                       "errno", (uint64_t)-err));
}

/* --- the loop ----------------------------------------------------------------------------- */

/* What was lost before `at_ns` was so before now, too: the governor's clock is not ours. */
static void line_stamp(struct json_object *line)
{
    if (strcmp(emu_json_text(line, "event", ""), "lost") == 0)
        json_object_object_add(line, "at_ns", json_object_new_uint64(emu_now_ns()));
}

static void governor_message(struct obey *obey, struct json_object *message)
{
    struct json_object *line;
    struct served *served;

    obey->met = true;
    if (json_object_object_get_ex(message, "call", NULL)) {
        obey_call(obey, message);
        return;
    }
    served = served_of(obey, emu_json_number(message, "client", -1));
    if (!served || served->ended)
        return;
    if (json_object_object_get_ex(message, "line", &line)) {
        line_stamp(line);
        served_line(obey, served, json_object_get(line));
    }
    if (!served->ended && json_object_object_get_ex(message, "text", NULL))
        served_text(obey, served, message);
    if (!served->ended && json_object_object_get_ex(message, "end", NULL))
        served_dismiss(obey, served);
}

static void governor_turn(struct obey *obey)
{
    struct json_object *message;
    int end, got = 1, err = conn_flush(&obey->governor);

    hosts_listen(obey->epoll, &obey->governor, &obey->governor_events, &obey->governor);
    end = conn_fill(&obey->governor);
    while (!obey->over && (got = conn_next(&obey->governor, &message)) == 1) {
        governor_message(obey, message);
        json_object_put(message);
    }
    if (end || got < 0 || (err && err != -EAGAIN))
        obey_over(obey, OBEY_LOST);
}

/* Is the governor still waited for? */
static void unmet(struct obey *obey)
{
    const struct obey_config *config = obey->config;
    int64_t now_ms = emu_now_ms();

    if (!config->links_why || config->links_why(config->links_ctx, obey->why, sizeof obey->why))
        obey->good_ms = now_ms;
    if (config->links_warn && now_ms - obey->began_ms > HOSTS_WARN_MS)
        config->links_warn(config->links_ctx);
    if (now_ms - obey->good_ms > HOSTS_REFUSED_MS ||
        (uint64_t)(now_ms - obey->began_ms) >= config->start_ms)
        obey_over(obey, OBEY_UNMET);
}

static void tick_nodes(struct obey *obey)
{
    uint32_t nodes[64], count = fabric_tick(obey->fabric, nodes, 64);

    for (uint32_t i = 0; i < count && i < 64; i++)
        obey_say(obey, json_add_number(json_object_new_object(), "cut_off", nodes[i]));
}

/* The session of a link to another host that obeys, or of one more to the governor, has ended. */
static void link_ended(struct obey *obey, const struct hosts_link *link)
{
    struct json_object *message = json_object_new_object(), *which = json_object_new_object();

    epoll_ctl(obey->epoll, EPOLL_CTL_DEL, link->end_fd, NULL);
    json_add_number(which, "host", link->host);
    json_add_number(which, "number", link->number);
    json_object_object_add(message, "link_lost", json_add_number(which, "of", link->of));
    obey_say(obey, message);
}

static bool is_link(const struct obey *obey, const void *what)
{
    for (uint32_t i = 0; i < obey->config->links; i++)
        if (what == &obey->config->link[i])
            return true;
    return false;
}

static void tick(struct obey *obey)
{
    uint64_t expired;

    if (read(obey->timer, &expired, sizeof expired) > 0) {
        served_tick(obey);
        tick_nodes(obey);
        if (obey->config->links_say_knocks)
            obey->config->links_say_knocks(obey->config->links_ctx);
        fabric_stalls_look(obey->fabric, emu_now_ns()); /* without memory none are listed */
    }
    if (!obey->met)
        unmet(obey);
}

static void owner_turn(struct obey *obey)
{
    struct json_object *request;
    int end = conn_fill(&obey->owner);

    while (conn_next(&obey->owner, &request) == 1) {
        if (strcmp(emu_json_text(request, "cmd", ""), "shutdown") == 0)
            obey_over(obey, OBEY_SIGNALLED);
        json_object_put(request);
    }
    if (end)
        obey_over(obey, OBEY_OWNER_GONE);
}

static void obey_round(struct obey *obey)
{
    struct epoll_event events[EVENTS_A_ROUND];
    int count = epoll_wait(obey->epoll, events, EVENTS_A_ROUND, served_wait_ms(obey));

    for (int i = 0; i < count && !obey->over; i++) {
        void *what = events[i].data.ptr;

        if (what == &obey->config->listen_fd)
            served_accept(obey);
        else if (what == &obey->config->signal_fd)
            obey_over(obey, OBEY_SIGNALLED);
        else if (what == &obey->timer)
            tick(obey);
        else if (what == &obey->owner)
            owner_turn(obey);
        else if (what == &obey->governor)
            governor_turn(obey);
        else if (is_link(obey, what))
            link_ended(obey, what);
        else
            served_event(obey, what); /* freed in served_tell_how() */
    }
    served_tell_how(obey);
    served_go_on(obey);
}

static int watch(struct obey *obey, int fd, const void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)what};

    return epoll_ctl(obey->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int obey_open(struct obey *obey)
{
    const struct itimerspec each = {{1, 0}, {1, 0}};
    int err = 0;

    obey->epoll = epoll_create1(EPOLL_CLOEXEC);
    obey->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (obey->epoll < 0 || obey->timer < 0 || timerfd_settime(obey->timer, 0, &each, NULL) < 0)
        return -errno;
    err = served_open(obey);
    if (!err)
        err = watch(obey, obey->config->signal_fd, &obey->config->signal_fd);
    if (!err)
        err = watch(obey, obey->timer, &obey->timer);
    if (!err && obey->owner.fd >= 0)
        err = watch(obey, obey->owner.fd, &obey->owner);
    for (uint32_t i = 0; !err && i < obey->config->links; i++)
        err = hosts_watch(obey->epoll, &obey->config->link[i]);
    hosts_listen(obey->epoll, &obey->governor, &obey->governor_events, &obey->governor);
    return err;
}

/*
 * The event for the supervisor. If this host is stopped while it waits for the governor, the event
 * says why it waits: whoever stops it may have seen the same reason on the governor's side.
 */
static struct json_object *ended(struct obey *obey)
{
    const struct obey_config *config = obey->config;
    struct json_object *event = conn_event("ended");
    char why[HOSTS_WHY_BYTES + 128] = "";

    if (!obey->met && config->links_why)
        config->links_why(config->links_ctx, obey->why, sizeof obey->why);
    if (obey->end == OBEY_LOST)
        snprintf(why, sizeof why, "the host that governs the fabric is lost; ending");
    else if (obey->end == OBEY_FAILED)
        snprintf(why, sizeof why, "the fabric has failed: %s", obey->why);
    else if (obey->end == OBEY_UNMET)
        snprintf(why, sizeof why,
                 "the host that governs the fabric was not met (--bound start)%s%s",
                 *obey->why ? ": " : "", obey->why);
    else if (obey->end == OBEY_SIGNALLED && !obey->met && *obey->why)
        snprintf(why, sizeof why,
                 "the host that governs the fabric was not met before this one was stopped: %s",
                 obey->why);
    json_object_object_add(event, "in_order", json_object_new_boolean(obey->end == OBEY_ENDED));
    return json_add_text(event, "why", why);
}

static void obey_close(struct obey *obey)
{
    conn_drain(&obey->governor, HOSTS_DRAIN_MS);
    conn_close(&obey->governor);
    if (obey->owner.fd >= 0 && obey->end != OBEY_OWNER_GONE &&
        conn_put(&obey->owner, ended(obey)) == 0)
        conn_drain(&obey->owner, HOSTS_DRAIN_MS);
    conn_close(&obey->owner);
    served_close(obey);
    while (!emu_list_empty(&obey->seats))
        obey_seat_free(emu_list_entry(obey->seats.next, struct seat, link), false);
    hosts_befallen_free(&obey->befallen);
    obey_sample_close(obey);
    if (obey->timer >= 0)
        close(obey->timer);
    if (obey->epoll >= 0)
        close(obey->epoll);
}

int obey_serve(struct fabric *fabric, const struct obey_config *config)
{
    struct obey obey = {.fabric = fabric,
                        .config = config,
                        .befallen = {.fabric = fabric, .graph = config->graph},
                        .epoll = -1,
                        .timer = -1,
                        .door = {.spare = -1},
                        .began_ms = emu_now_ms(),
                        .good_ms = emu_now_ms()};
    int err;

    emu_list_init(&obey.served);
    emu_list_init(&obey.seats);
    conn_open(&obey.governor, config->control, CONN_REPLY_MAX);
    obey.owner.fd = -1;
    if (config->owner_fd >= 0)
        conn_open(&obey.owner, config->owner_fd, CONN_LINE_MAX);
    err = obey_open(&obey);
    if (!err)
        obey_say(&obey, json_add_number(json_object_new_object(), "here", (uint64_t)getpid()));
    if (!err && obey.owner.fd >= 0 && conn_put(&obey.owner, conn_event("ready")) == 0)
        conn_flush(&obey.owner);
    while (!err && !obey.over)
        obey_round(&obey);
    obey_close(&obey);
    return err ? err : (int)obey.end;
}
