/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * obey.c - a host that does not govern: passes its processes' requests on, and does as it is told.
 *
 * One thread, the fabric's manager here, in epoll. Of what its processes ask it understands one
 * thing: the reply to "attach", with which the descriptors of the node's edge must go, since these
 * are this host's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "apps/daemon/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fabric/look/stalls.h"
#include "apps/hosts/internal.h"
#include "apps/run/procs.h"
#include "apps/say.h"
#include "emu/list.h"
#include "emu/now.h"

#define LAST_BREATH_MS 200 /* between a process's closing of its files and its end, at most */
#define EVENTS_A_ROUND 64

/* A process of this host. */
struct served {
    struct emu_list link;
    struct conn conn;
    uint32_t events; /* epoll events asked for */
    int64_t client;  /* its number, of this host */
    pid_t pid;
    bool exits;        /* it has said that it ends by itself */
    bool ended;        /* its connection has; it is kept until it is known how it did */
    int end_fd;        /* pidfd; -1: none */
    int64_t how_by_ms; /* until then it may show how it ended */
    struct procs_stop stop;
    bool stopped; /* for too long, and the governor knows */
};

/* An edge that was made for a process that has not been told yet. */
struct seat {
    struct emu_list link;
    struct fabric_seat seat;
};

struct obey {
    struct fabric *fabric;
    const struct obey_config *config;
    struct befallen befallen;
    struct conn governor;
    uint32_t governor_events;
    struct conn owner;
    int epoll;
    int timer; /* once a second */
    int64_t clients;
    struct emu_list served;
    struct emu_list seats;
    int64_t began_ms;
    bool met;                  /* the governor has said something */
    int64_t good_ms;           /* when no host was known to be of another fabric */
    char why[HOSTS_WHY_BYTES]; /* the governor was not met */
    bool over;
    enum obey_end end;
};

static void obey_over(struct obey *obey, enum obey_end end)
{
    if (!obey->over)
        obey->end = end;
    obey->over = true;
}

/* @message is put. */
static void governor_say(struct obey *obey, struct json_object *message)
{
    int err = conn_put(&obey->governor, message);

    if (!err)
        err = conn_flush(&obey->governor);
    if (err && err != -EAGAIN)
        obey_over(obey, OBEY_LOST);
    else
        hosts_listen(obey->epoll, &obey->governor, &obey->governor_events, &obey->governor);
}

static struct json_object *of_client(const struct served *served)
{
    return json_add_number(json_object_new_object(), "client", (uint64_t)served->client);
}

/* --- processes ------------------------------------------------------------------------ */

static void served_free(struct served *served)
{
    emu_list_del(&served->link);
    conn_close(&served->conn);
    if (served->end_fd >= 0)
        close(served->end_fd);
    free(served);
}

/* Its connection ends; how it ended itself shows a moment later. */
static void served_end(struct obey *obey, struct served *served, bool tell)
{
    if (tell)
        governor_say(obey, json_add_number(of_client(served), "end", 1));
    conn_close(&served->conn);
    served->ended = true;
    served->end_fd = pidfd_open(served->pid, 0);
    served->how_by_ms = emu_now_ms() + LAST_BREATH_MS;
}

static void served_accept(struct obey *obey)
{
    int fd = accept4(obey->config->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred cred = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof cred;
    struct served *served;
    char command[16];

    if (fd < 0)
        return;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes);
    served = cred.uid == geteuid() ? calloc(1, sizeof *served) : NULL;
    if (!served) {
        static const char no[] = "{\"ok\":false,\"errno\":13,\"error\":\"this fabric belongs to "
                                 "another user, or has no memory left\"}\n";
        send(fd, no, sizeof no - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(fd);
        return;
    }
    served->client = obey->clients++;
    served->pid = cred.pid;
    served->end_fd = -1;
    conn_open(&served->conn, fd, CONN_LINE_MAX);
    emu_list_add(&obey->served, &served->link);
    hosts_listen(obey->epoll, &served->conn, &served->events, served);
    procs_name(cred.pid, command, sizeof command);
    governor_say(obey, json_add_text(json_add_number(of_client(served), "new", (uint64_t)cred.pid),
                                     "command", command));
}

/* What it asks goes to the governor. */
static void served_turn(struct obey *obey, struct served *served)
{
    struct json_object *line;
    int end = conn_fill(&served->conn), got = 1;

    while (!served->ended && !obey->over && (got = conn_next(&served->conn, &line)) == 1) {
        struct json_object *message = of_client(served);

        served->exits |= strcmp(emu_json_text(line, "cmd", ""), "exits") == 0;
        json_object_object_add(message, "line", line);
        governor_say(obey, message);
    }
    if (!served->ended && (end || got < 0))
        served_end(obey, served, true);
}

static struct seat *seat_of(struct obey *obey, int64_t node)
{
    emu_each_listed (struct seat, seat, &obey->seats, link)
        if (seat->seat.node == node)
            return seat;
    return NULL;
}

static void seat_free(struct seat *seat, bool passed)
{
    if (!passed) {
        close(seat->seat.memfd);
        close(seat->seat.bell);
    }
    emu_list_del(&seat->link);
    free(seat);
}

/* What the governor says to it. With the reply to "attach" go the descriptors of its edge. */
static void served_line(struct obey *obey, struct served *served, struct json_object *line)
{
    struct seat *seat = json_object_object_get_ex(line, "seat", NULL) &&
                                json_object_object_get_ex(line, "ok", NULL)
                            ? seat_of(obey, emu_json_number(line, "node", -1))
                            : NULL;
    int err;

    if (seat) {
        err = conn_put_with(&served->conn, line, (const int[2]){seat->seat.memfd, seat->seat.bell});
        seat_free(seat, true);
    } else {
        err = conn_put(&served->conn, line);
    }
    if (!err)
        err = conn_flush(&served->conn);
    if (err && err != -EAGAIN)
        served_end(obey, served, true);
    else
        hosts_listen(obey->epoll, &served->conn, &served->events, served);
}

/* How those that have gone did so. */
static void tell_how(struct obey *obey)
{
    for (struct emu_list *at = obey->served.next, *next; at != &obey->served; at = next) {
        struct served *served = emu_list_entry(at, struct served, link);
        struct json_object *message;
        char how[48];

        next = at->next;
        if (!served->ended ||
            (!procs_how_it_ended(served->pid, served->end_fd, served->exits, how, sizeof how) &&
             emu_now_ms() < served->how_by_ms))
            continue;
        message = of_client(served);
        governor_say(obey, json_add_text(message, "how", how));
        served_free(served);
    }
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

static int call_end(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    (void)call;
    (void)reply;
    obey_over(obey, OBEY_ENDED);
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
    seat_free(seat, false);
    return -EBUSY;
}

static int call_detach(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);
    struct seat *seat = seat_of(obey, node);

    (void)reply;
    if (seat)
        seat_free(seat, false);
    if (node >= 0)
        fabric_detach(obey->fabric, (uint32_t)node);
    return 0;
}

static int call_seat(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);

    (void)reply;
    return fabric_seat_set(obey->fabric, node < 0 ? TOPO_NONE : (uint32_t)node,
                           (uint64_t)emu_json_number(call, "word", 0));
}

static int call_linked(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);

    (void)reply;
    if (node < 0 || node >= fabric_nodes(obey->fabric))
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

static struct served *served_of(struct obey *obey, int64_t client)
{
    emu_each_listed (struct served, served, &obey->served, link)
        if (served->client == client)
            return served;
    return NULL;
}

static int call_signal(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    struct served *served = served_of(obey, emu_json_number(call, "client", -1));

    (void)reply;
    if (!served || served->ended)
        return -ESRCH;
    return kill(served->pid, (int)emu_json_number(call, "signal", 0)) < 0 ? -errno : 0;
}

/* clang-format off */
static const struct {
    const char *name;
    int (*obey)(struct obey *, struct json_object *call, struct json_object *reply);
} calls[] = {
    {"meet", call_meet},
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
    {"signal", call_signal},
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
        err = hosts_befall(&obey->befallen, what, call, reply);
    if (emu_json_number(call, "call", 0) || json_object_object_get_ex(reply, "hit", NULL))
        governor_say(obey, json_add_number(reply, "errno", (uint64_t)-err));
    else
        json_object_put(reply); /* it was told, and not asked */
}

/* --- the loop ----------------------------------------------------------------------------- */

/* What was lost before `at_ns` was so before now, too: the governor's clock is not ours. */
static void line_stamp(struct json_object *line)
{
    struct json_object *event;

    if (json_object_object_get_ex(line, "event", &event) &&
        strcmp(json_object_get_string(event), "lost") == 0)
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
    if (!served->ended && json_object_object_get_ex(message, "end", NULL)) {
        conn_drain(&served->conn, 0);
        served_end(obey, served, false);
    }
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
    if (now_ms - obey->good_ms > HOSTS_REFUSED_MS ||
        (uint64_t)(now_ms - obey->began_ms) >= config->start_ms)
        obey_over(obey, OBEY_UNMET);
}

/* What the governor would see of them, were they on its host. */
static void tick_stopped(struct obey *obey)
{
    uint64_t bound_ns = emu_bound_ns(obey->config->stopped_ms);

    if (bound_ns == EMU_BOUND_OFF)
        return;
    emu_each_listed (struct served, served, &obey->served, link) {
        bool stopped = !served->ended && procs_stopped_for(&served->stop, served->pid, bound_ns);

        if (stopped != served->stopped && !served->ended)
            governor_say(obey, json_add_number(of_client(served), "stopped", stopped));
        served->stopped = stopped;
    }
}

static void tick_nodes(struct obey *obey)
{
    uint32_t nodes[64], count = fabric_tick(obey->fabric, nodes, 64);

    for (uint32_t i = 0; i < count && i < 64; i++)
        governor_say(obey, json_add_number(json_object_new_object(), "cut_off", nodes[i]));
}

/* The session of a link to another host that obeys, or of one more to the governor, has ended. */
static void link_ended(struct obey *obey, const struct hosts_link *link)
{
    struct json_object *message = json_object_new_object(), *which = json_object_new_object();

    epoll_ctl(obey->epoll, EPOLL_CTL_DEL, link->end_fd, NULL);
    json_add_number(which, "host", link->host);
    json_add_number(which, "number", link->number);
    json_object_object_add(message, "link_lost", json_add_number(which, "of", link->of));
    governor_say(obey, message);
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
        tick_nodes(obey);
        tick_stopped(obey);
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

static void served_event(struct obey *obey, struct served *served)
{
    int err = served->ended ? 0 : conn_flush(&served->conn);

    if (served->ended)
        return;
    if (err && err != -EAGAIN) {
        served_end(obey, served, true);
        return;
    }
    hosts_listen(obey->epoll, &served->conn, &served->events, served);
    served_turn(obey, served);
}

static int wait_ms(const struct obey *obey)
{
    emu_each_listed (struct served, served, &obey->served, link)
        if (served->ended)
            return 10; /* a few looks, and it is told */
    return -1;
}

static void obey_round(struct obey *obey)
{
    struct epoll_event events[EVENTS_A_ROUND];
    int count = epoll_wait(obey->epoll, events, EVENTS_A_ROUND, wait_ms(obey));

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
            served_event(obey, what); /* freed in tell_how() alone */
    }
    tell_how(obey);
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
    err = watch(obey, obey->config->listen_fd, &obey->config->listen_fd);
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

/* For the supervisor. */
static struct json_object *ended(const struct obey *obey)
{
    struct json_object *event = conn_event("ended");
    char why[HOSTS_WHY_BYTES + 128] = "";

    if (obey->end == OBEY_LOST)
        snprintf(why, sizeof why, "the host that governs the fabric is lost; ending");
    else if (obey->end == OBEY_UNMET)
        snprintf(why, sizeof why,
                 "the host that governs the fabric was not met (--bound start)%s%s",
                 *obey->why ? ": " : "", obey->why);
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
    while (!emu_list_empty(&obey->served)) {
        struct served *served = emu_list_entry(obey->served.next, struct served, link);

        if (!served->ended && conn_put(&served->conn, conn_event("shutdown")) == 0)
            conn_drain(&served->conn, 0);
        served_free(served);
    }
    while (!emu_list_empty(&obey->seats))
        seat_free(emu_list_entry(obey->seats.next, struct seat, link), false);
    hosts_befallen_free(&obey->befallen);
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
    if (!err && obey.owner.fd >= 0 && conn_put(&obey.owner, conn_event("ready")) == 0)
        conn_flush(&obey.owner);
    while (!err && !obey.over)
        obey_round(&obey);
    obey_close(&obey);
    return err ? err : (int)obey.end;
}
