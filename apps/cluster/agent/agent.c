/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agent.c - the loop of an agent, which is a host other than the coordinator: it forwards the
 * requests of this host's processes to the coordinator, and executes the coordinator's calls.
 *
 * One thread waits in epoll. It is also the fabric's manager on this host. clients.c handles the
 * processes of this host.
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
#include "apps/cluster/agent/internal.h"
#include "emu/util/now.h"

#define EVENTS_PER_ROUND 64

void agent_end_with(struct agent *agent, enum agent_end end)
{
    if (!agent->over)
        agent->end = end;
    agent->over = true;
}

void agent_send(struct agent *agent, struct json_object *message)
{
    int err = conn_put(&agent->coordinator, message);

    if (!err)
        err = conn_flush(&agent->coordinator);
    if (err && err != -EAGAIN)
        agent_end_with(agent, AGENT_LOST);
    else
        hosts_listen(agent->epoll, &agent->coordinator, &agent->coordinator_events,
                     &agent->coordinator);
}

/* --- host interfaces made for processes --- */

struct agent_reservation *agent_reservation_of(struct agent *agent, int64_t node)
{
    emu_each_listed (struct agent_reservation, reservation, &agent->reservations, link)
        if (reservation->attachment.node == node)
            return reservation;
    return NULL;
}

void agent_reservation_free(struct agent_reservation *reservation, bool passed)
{
    if (!passed)
        fabric_attachment_close(&reservation->attachment);
    emu_list_del(&reservation->link);
    free(reservation);
}

/* --- calls ------------------------------------------------------------------------------ */

static int call_handshake(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    const struct agent_config *config = agent->config;
    char why[HOSTS_WHY_BYTES] = "";

    (void)call;
    if (!config->links_up || config->links_up(config->links_ctx))
        return 0;
    if (config->links_why)
        config->links_why(config->links_ctx, why, sizeof why);
    json_add_text(reply, "why", why);
    return -EAGAIN;
}

/* Do nothing: the coordinator only wants to know whether this host replies. */
static int call_answer(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    (void)agent;
    (void)call;
    (void)reply;
    return 0;
}

static int call_end(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    bool failed = json_object_object_get_ex(call, "why", NULL);

    (void)reply;
    hosts_text(agent->why, sizeof agent->why, call, "why");
    agent_end_with(agent, failed ? AGENT_FAILED : AGENT_ENDED);
    return 0;
}

static int call_attach(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);
    struct agent_reservation *reservation = calloc(1, sizeof *reservation);
    int err = reservation ? fabric_attach(agent->fabric, node, &reservation->attachment) : -ENOMEM;

    (void)reply;
    if (err) {
        free(reservation);
        return err;
    }
    emu_list_add(&agent->reservations, &reservation->link);
    if (reservation->attachment.node == node)
        return 0;
    fabric_detach(agent->fabric, reservation->attachment.node);
    agent_reservation_free(reservation, false);
    return -EBUSY;
}

static int call_detach(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);
    struct agent_reservation *reservation = agent_reservation_of(agent, node);

    (void)reply;
    if (reservation)
        agent_reservation_free(reservation, false);
    if (node >= 0 && node < fabric_graph(agent->fabric)->nodes)
        agent_sample_leaves(agent, (uint32_t)node);
    if (node >= 0 && emu_json_number(call, "dead", 1))
        fabric_detach_dead(agent->fabric, (uint32_t)node);
    else if (node >= 0)
        fabric_detach(agent->fabric, (uint32_t)node);
    return 0;
}

static int call_incarnation(struct agent *agent, struct json_object *call,
                            struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);

    (void)reply;
    if (node >= 0 && node < fabric_graph(agent->fabric)->nodes &&
        fabric_node_is_here(agent->fabric, (uint32_t)node))
        return 0; /* it was set here when the process attached or detached */
    return fabric_incarnation_set(agent->fabric, node < 0 ? TOPO_NONE : (uint32_t)node,
                                  (uint64_t)emu_json_number(call, "word", 0));
}

static int call_linked(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int64_t node = emu_json_number(call, "node", -1);

    (void)reply;
    if (node < 0 || node >= fabric_graph(agent->fabric)->nodes)
        return -EINVAL;
    fabric_node_linked(agent->fabric, (uint32_t)node, emu_json_number(call, "linked", 1) != 0);
    return 0;
}

/*
 * Read field @name, a list of cables or nodes, into an array that the caller frees. Returns NULL if
 * the field is not a list, or if there is no memory.
 */
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

static int call_group(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric_group_call group = {.wide = emu_json_number(call, "wide", 0) != 0,
                                      .id = (uint32_t)emu_json_number(call, "group", 0)};
    uint32_t *nodes = list_of(call, "nodes", &group.count);
    int err;

    (void)reply;
    group.nodes = nodes;
    err = nodes && group.count ? fabric_group_is(agent->fabric, &group) : -EINVAL;
    free(nodes);
    return err;
}

static int call_leave(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int err = fabric_group_leave(agent->fabric, (uint32_t)emu_json_number(call, "group", 0),
                                 (uint32_t)emu_json_number(call, "node", -1));

    (void)reply;
    /* -ENOENT: this host had no memory for the group, so no node can leave it here */
    return err == -ENOENT ? 0 : err;
}

static int call_comm(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    uint64_t from = (uint64_t)emu_json_number(call, "from", 0);

    json_object_object_add(reply, "comm", hosts_comm_list(agent->fabric, from, HOSTS_PAIRS_MOST));
    return 0;
}

static int call_totals(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct fabric_totals totals;

    (void)call;
    fabric_totals_read(agent->fabric, &totals);
    json_object_object_add(reply, "totals", hosts_totals_list(&totals));
    if (agent->config->links_report)
        json_object_object_add(reply, "links",
                               agent->config->links_report(agent->config->links_ctx));
    return 0;
}

static int call_link(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int64_t cable = emu_json_number(call, "cable", -1);
    uint32_t hit;
    int err;

    if (cable < 0 || cable >= fabric_cable_count(agent->fabric))
        return -EINVAL;
    fabric_pause(agent->fabric);
    err = fabric_link_set(agent->fabric, (uint32_t)cable, emu_json_number(call, "up", 0) != 0,
                          (uint32_t)emu_json_number(call, "fault", 0), fabric_now_ps(agent->fabric),
                          &hit);
    fabric_resume(agent->fabric);
    if (!err && hit)
        json_add_number(json_add_number(reply, "hit", hit), "fault",
                        (uint64_t)emu_json_number(call, "fault", 0));
    return err;
}

static void group_treeless(void *ctx, uint32_t group)
{
    (void)ctx; /* ignore these groups, because the coordinator's fabric finds the same ones */
    (void)group;
}

static int call_reroute(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    uint32_t cables = fabric_cable_count(agent->fabric), count;
    uint32_t *out = list_of(call, "out", &count);
    bool *routed = malloc(cables * sizeof *routed + 1u);
    uint64_t partitioned;
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
        err = fabric_reroute(agent->fabric, routed, fabric_now_ps(agent->fabric), &partitioned,
                             group_treeless, NULL);
    free(routed);
    free(out);
    return err;
}

static int call_cut_off(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    (void)reply;
    fabric_cut_off(agent->fabric, emu_json_number(call, "partitioned", 0) != 0);
    return 0;
}

static int call_signal(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct agent_process *process = agent_process_of(agent, emu_json_number(call, "client", -1));

    (void)reply;
    if (!process || process->ended)
        return -ESRCH;
    return agent_process_signal(agent, process, (int)emu_json_number(call, "signal", 0));
}

/* Bring up the links to another host. The reply says whether all of them carry segments. */
static int call_rejoin(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    const struct agent_config *config = agent->config;
    int64_t host = emu_json_number(call, "host", -1);
    int up;

    if (!config->links_rejoin || host < 0 || host >= HOSTS_MAX)
        return config->links_rejoin ? -EINVAL : -ENOTSUP;
    up = config->links_rejoin(config->links_ctx, (uint32_t)host);
    for (uint32_t i = 0; i < config->links; i++)
        if (config->link[i].host == host)
            hosts_watch(agent->epoll, &config->link[i]); /* the link has a new socket */
    json_add_number(reply, "up", up > 0);
    return up < 0 ? up : 0;
}

/* clang-format off */
static const struct agent_call calls[] = {
    {"handshake", call_handshake},
    {"answer", call_answer},
    {"end", call_end},
    {"attach", call_attach},
    {"detach", call_detach},
    {"node_incarnation", call_incarnation},
    {"linked", call_linked},
    {"group", call_group},
    {"leave", call_leave},
    {"link", call_link},
    {"reroute", call_reroute},
    {"cut_off", call_cut_off},
    {"totals", call_totals},
    {"comm", call_comm},
    {"signal", call_signal},
    {"rejoin", call_rejoin},
    {"sample", agent_sample},
    {"sample_end", agent_sample_end},
    {NULL, NULL},
};
/* clang-format on */

static const struct agent_call *call_of(const char *name)
{
    static const struct agent_call *const tables[] = {calls, agent_queries, agent_rejoin_calls,
                                                      agent_faults};

    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct agent_call *row = tables[t]; row->name; row++)
            if (strcmp(row->name, name) == 0)
                return row;
    return NULL;
}

static void call_serve(struct agent *agent, struct json_object *call)
{
    const char *what = emu_json_text(call, "do", "");
    struct json_object *reply = json_add_number(json_object_new_object(), "reply",
                                                (uint64_t)emu_json_number(call, "call", 0));
    const struct agent_call *row = call_of(what);
    int err = row ? row->execute(agent, call, reply) : -ENOSYS;

    if (emu_json_number(call, "call", 0) || json_object_object_get_ex(reply, "hit", NULL) ||
        json_object_object_get_ex(reply, "sample", NULL))
        agent_send(agent, json_add_number(reply, "errno", (uint64_t)-err));
    else
        json_object_put(reply); /* the coordinator expects no reply */
    if (err && !emu_json_number(call, "call", 0))
        agent_send(agent, json_add_number(json_add_text(json_object_new_object(), "failed", what),
                                          "errno", (uint64_t)-err));
}

/* --- the loop ----------------------------------------------------------------------------- */

/*
 * Replace the field at_ns of an event "lost" by the current time of this host, because the hosts'
 * clocks differ. The field only says that the drop happened before this time, so a later time is
 * correct, too.
 */
static void line_set_time(struct json_object *line)
{
    if (strcmp(emu_json_text(line, "event", ""), "lost") == 0)
        json_object_object_add(line, "at_ns", json_object_new_uint64(emu_now_ns()));
}

static void coordinator_message(struct agent *agent, struct json_object *message)
{
    struct json_object *line;
    struct agent_process *process;

    agent->connected = true;
    if (json_object_object_get_ex(message, "call", NULL)) {
        call_serve(agent, message);
        return;
    }
    process = agent_process_of(agent, emu_json_number(message, "client", -1));
    if (!process || process->ended)
        return;
    if (json_object_object_get_ex(message, "line", &line)) {
        line_set_time(line);
        agent_process_line(agent, process, json_object_get(line));
    }
    if (!process->ended && json_object_object_get_ex(message, "text", NULL))
        agent_process_text(agent, process, message);
    if (!process->ended && json_object_object_get_ex(message, "end", NULL))
        agent_process_dismiss(agent, process);
}

static void coordinator_step(struct agent *agent)
{
    struct json_object *message;
    int end, got = 1, err = conn_flush(&agent->coordinator);

    hosts_listen(agent->epoll, &agent->coordinator, &agent->coordinator_events,
                 &agent->coordinator);
    end = conn_fill(&agent->coordinator);
    while (!agent->over && (got = conn_next(&agent->coordinator, &message)) == 1) {
        coordinator_message(agent, message);
        json_object_put(message);
    }
    if (end || got < 0 || (err && err != -EAGAIN))
        agent_end_with(agent, AGENT_LOST);
}

/*
 * Warn of hosts that do not connect. Stop waiting for the coordinator if the time limit has passed,
 * or if some host belongs to another fabric.
 */
static void no_handshake(struct agent *agent)
{
    const struct agent_config *config = agent->config;
    int64_t now_ms = emu_now_ms();

    if (!config->links_why || config->links_why(config->links_ctx, agent->why, sizeof agent->why))
        agent->good_ms = now_ms;
    if (config->links_warn && now_ms - agent->began_ms > HOSTS_WARN_MS)
        config->links_warn(config->links_ctx);
    if (now_ms - agent->good_ms > HOSTS_REFUSED_MS ||
        (uint64_t)(now_ms - agent->began_ms) >= config->start_ms)
        agent_end_with(agent, AGENT_NO_HANDSHAKE);
}

static void tick_nodes(struct agent *agent)
{
    uint32_t nodes[64], count = fabric_tick(agent->fabric, nodes, 64);

    for (uint32_t i = 0; i < count; i++)
        agent_send(agent, json_add_number(json_object_new_object(), "cut_off", nodes[i]));
}

/*
 * Report that the session of a link without a control channel has ended: a link to another agent,
 * or one of several links to the coordinator.
 */
static void link_ended(struct agent *agent, const struct hosts_link *link)
{
    struct json_object *message = json_object_new_object(), *which = json_object_new_object();

    epoll_ctl(agent->epoll, EPOLL_CTL_DEL, link->closed_fd, NULL);
    json_add_number(which, "host", link->host);
    json_add_number(which, "number", link->number);
    json_object_object_add(message, "link_lost", json_add_number(which, "of", link->of));
    agent_send(agent, message);
}

static bool is_link(const struct agent *agent, const void *what)
{
    for (uint32_t i = 0; i < agent->config->links; i++)
        if (what == &agent->config->link[i])
            return true;
    return false;
}

static void tick(struct agent *agent)
{
    uint64_t expired;

    if (read(agent->timer, &expired, sizeof expired) > 0) {
        agent_process_tick(agent);
        tick_nodes(agent);
        if (agent->config->links_print_duplicates)
            agent->config->links_print_duplicates(agent->config->links_ctx);
        /* on -ENOMEM the report lists no stalled links */
        fabric_stalls_sample(agent->fabric, emu_now_ns());
    }
    if (!agent->connected)
        no_handshake(agent);
}

static void owner_step(struct agent *agent)
{
    struct json_object *request;
    int end = conn_fill(&agent->owner);

    while (conn_next(&agent->owner, &request) == 1) {
        if (strcmp(emu_json_text(request, "cmd", ""), "shutdown") == 0)
            agent_end_with(agent, AGENT_SIGNALLED);
        json_object_put(request);
    }
    if (end)
        agent_end_with(agent, AGENT_OWNER_GONE);
}

static void agent_round(struct agent *agent)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    int count = epoll_wait(agent->epoll, events, EVENTS_PER_ROUND, agent_process_wait_ms(agent));

    for (int i = 0; i < count && !agent->over; i++) {
        void *what = events[i].data.ptr;

        if (what == &agent->config->listen_fd)
            agent_process_accept(agent);
        else if (what == &agent->config->signal_fd)
            agent_end_with(agent, AGENT_SIGNALLED);
        else if (what == &agent->timer)
            tick(agent);
        else if (what == &agent->owner)
            owner_step(agent);
        else if (what == &agent->coordinator)
            coordinator_step(agent);
        else if (is_link(agent, what))
            link_ended(agent, what);
        else
            /* @what is still valid: only agent_process_report_exits() frees processes */
            agent_process_event(agent, what);
    }
    agent_process_report_exits(agent);
    agent_process_resume(agent);
}

static int watch(struct agent *agent, int fd, const void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = (void *)(uintptr_t)what};

    return epoll_ctl(agent->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int agent_open(struct agent *agent)
{
    const struct itimerspec each = {{1, 0}, {1, 0}};
    int err = 0;

    agent->epoll = epoll_create1(EPOLL_CLOEXEC);
    agent->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (agent->epoll < 0 || agent->timer < 0 || timerfd_settime(agent->timer, 0, &each, NULL) < 0)
        return -errno;
    err = agent_process_open(agent);
    if (!err)
        err = watch(agent, agent->config->signal_fd, &agent->config->signal_fd);
    if (!err)
        err = watch(agent, agent->timer, &agent->timer);
    if (!err && agent->owner.fd >= 0)
        err = watch(agent, agent->owner.fd, &agent->owner);
    for (uint32_t i = 0; !err && i < agent->config->links; i++)
        err = hosts_watch(agent->epoll, &agent->config->link[i]);
    hosts_listen(agent->epoll, &agent->coordinator, &agent->coordinator_events,
                 &agent->coordinator);
    return err;
}

/*
 * Build the event "ended" for the supervisor. If a signal ends this host before the coordinator has
 * connected, the event also says why there is no connection, because this may be the reason why the
 * user sent the signal.
 */
static struct json_object *ended(struct agent *agent)
{
    const struct agent_config *config = agent->config;
    struct json_object *event = conn_event("ended");
    char why[HOSTS_WHY_BYTES + 128] = "";

    if (!agent->connected && config->links_why)
        config->links_why(config->links_ctx, agent->why, sizeof agent->why);
    if (agent->end == AGENT_LOST)
        snprintf(why, sizeof why, "the coordinator is lost; ending");
    else if (agent->end == AGENT_FAILED)
        snprintf(why, sizeof why, "the fabric has failed: %s", agent->why);
    else if (agent->end == AGENT_NO_HANDSHAKE)
        snprintf(why, sizeof why, "no connection to the coordinator (--bound start)%s%s",
                 *agent->why ? ": " : "", agent->why);
    else if (agent->end == AGENT_SIGNALLED && !agent->connected && *agent->why)
        snprintf(why, sizeof why, "stopped before it connected to the coordinator: %s", agent->why);
    json_object_object_add(event, "in_order", json_object_new_boolean(agent->end == AGENT_ENDED));
    return json_add_text(event, "why", why);
}

static void agent_close(struct agent *agent)
{
    conn_drain(&agent->coordinator, HOSTS_DRAIN_MS);
    conn_close(&agent->coordinator);
    if (agent->owner.fd >= 0 && agent->end != AGENT_OWNER_GONE &&
        conn_put(&agent->owner, ended(agent)) == 0)
        conn_drain(&agent->owner, HOSTS_DRAIN_MS);
    conn_close(&agent->owner);
    agent_process_close(agent);
    while (!emu_list_empty(&agent->reservations))
        agent_reservation_free(emu_list_entry(agent->reservations.next, struct agent_reservation,
                                              link),
                               false);
    injector_destroy(agent->injector);
    agent_sample_close(agent);
    if (agent->timer >= 0)
        close(agent->timer);
    if (agent->epoll >= 0)
        close(agent->epoll);
}

int agent_serve(struct fabric *fabric, const struct agent_config *config)
{
    struct agent agent = {.fabric = fabric,
                          .config = config,
                          .epoll = -1,
                          .timer = -1,
                          .admission = {.spare = -1},
                          .began_ms = emu_now_ms(),
                          .good_ms = emu_now_ms()};
    int err;

    emu_list_init(&agent.processes);
    emu_list_init(&agent.reservations);
    conn_open(&agent.coordinator, config->control, CONN_REPLY_MAX);
    hosts_limit(&agent.coordinator, fabric, HOSTS_COORDINATOR_CONTAINERS);
    agent.owner.fd = -1;
    if (config->owner_fd >= 0)
        conn_open(&agent.owner, config->owner_fd, CONN_LINE_MAX);
    err = agent_open(&agent);
    if (!err)
        agent_send(&agent, json_add_number(json_object_new_object(), "here", (uint64_t)getpid()));
    if (!err && agent.owner.fd >= 0 && conn_put(&agent.owner, conn_event("ready")) == 0)
        conn_flush(&agent.owner);
    while (!err && !agent.over)
        agent_round(&agent);
    agent_close(&agent);
    return err ? err : (int)agent.end;
}
