/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.c - faults on a running fabric: requests, the injector's and the manager's steps, events,
 * and the report. The *injector* applies faults at their times (apps/inject/); the *manager*
 * handles links that go down (apps/manager/).
 *
 * Times are those of daemon_now_ps(). The times in a schedule count from the fabric's start, and
 * the times in a request from the request. A timer expires when the next step is due; on clock
 * virtual, simulated time then stops until the step is complete. While faults are active, the
 * daemon collects their hits ten times a second. A *hit* is a packet that a fault has changed or
 * lost.
 */
#include "apps/daemon/faults.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "apps/inject/inject.h"
#include "apps/daemon/report.h"
#include "apps/base/message.h"
#include "emu/util/clock.h"
#include "emu/util/count.h"
#include "emu/fault/fault.h"
#include "nic/host/base/wire.h"

#define COLLECT_PS UINT64_C(100000000000) /* interval of collections of hits */
/* the same interval while a fault waits for an event (key on=) */
#define WATCH_PS UINT64_C(1000000000)
/* the same as WATCH_PS on several hosts, where each collection is a query to all hosts */
#define WATCH_REMOTE_PS UINT64_C(10000000000)
#define STEP_REMOTE_PS  UINT64_C(1000000000) /* step_ps and in_flight_ps on several hosts */
#define HITS_REPORTED   100u /* the report lists at most this many hits, beginning with the first */

struct daemon_faults {
    struct inject_remote remote; /* the other hosts' injectors; used on several hosts only */
    struct manager *manager;     /* NULL: this fabric cannot reroute, so its links never go down */
    struct injector *injector;
    int timer;        /* on clock virtual an eventfd for fabric_set_alarm() */
    uint64_t scan_ps; /* time of the next collection of hits; EMU_NEVER: no fault is active */
    struct json_object *hits;    /* the listed hits */
    uint32_t hits_of[HOSTS_MAX]; /* by host: listed hits that it has logged */
    uint64_t hits_seen;
    struct daemon_drops drops;
    uint64_t links[MANAGER_EVENT_NO_LINK + 1]; /* number of the manager's events, by kind */
    /* time from the loss of a link to the new routing tables: sum over all losses; maximum */
    uint64_t recovery_ps, recovery_most_ps;
};

const char *daemon_cable_name(const struct fabric *fabric, uint32_t i, const char *direction,
                              char text[static DAEMON_CABLE_BYTES])
{
    const struct topo_graph *graph = fabric_graph(fabric);
    const struct fabric_cable *cable = fabric_cable(fabric, i);
    bool node = cable->kind == TOPO_END_NODE;
    const struct topo_end *far = &graph->sw[cable->at.sw].end[cable->at.port];
    int used = snprintf(text, DAEMON_CABLE_ENDS_BYTES, "switch %u:%u %s %s %u:%u", cable->at.sw,
                        topo_switch_port(graph, cable->at.sw, cable->at.port), direction,
                        node ? "node" : "switch", far->id, topo_end_port(graph, far));

    topo_show_cable(graph, cable->at.sw, cable->at.port, text + used);
    return text;
}

const struct manager *daemon_faults_manager(const struct daemon *daemon)
{
    return daemon->faults ? daemon->faults->manager : NULL;
}

/* Return the name of a unicast segment's operation in the adapters' protocol; NULL: unknown. */
static const char *operation(const struct emu_fault_hit *hit)
{
    static const char *const names[] = {[NIC_EAGER] = "eager message",
                                        [NIC_SHORT] = "short message",
                                        [NIC_MORE] = "next part of an eager message",
                                        [NIC_RTS] = "request to send",
                                        [NIC_PUT] = "put",
                                        [NIC_PUT_RTS] = "request to put",
                                        [NIC_PUT_NOTICE] = "put with a notice",
                                        [NIC_PUT_NOTICE_RTS] = "request to put with a notice",
                                        [NIC_BATCH] = "batch of puts and atomics",
                                        [NIC_BATCH_MORE] = "next part of a batch",
                                        [NIC_GET] = "get",
                                        [NIC_ATOMIC] = "atomic",
                                        [NIC_CTS] = "clear to send",
                                        [NIC_FIN] = "finished",
                                        [NIC_RESULT] = "result of an atomic",
                                        [NIC_ACK] = "acknowledgment",
                                        [NIC_DISCONNECT] = "disconnect",
                                        [NIC_DATA] = "data",
                                        [NIC_HELLO] = "hello"};
    uint8_t what = hit->begins[0];

    if (emu_hdr_kind(&hit->hdr) != EMU_UNICAST || !hit->hdr.len)
        return NULL;
    return what < sizeof names / sizeof names[0] ? names[what] : NULL;
}

/* --- events ------------------------------------------------------------------------- */

/*
 * Return the host whose share of the timeline an event uses: another host if the event is about a
 * device or cable end there, because that host can report such events without end.
 */
static uint32_t manager_event_host(const struct daemon *daemon, const struct manager_event *event)
{
    const struct fabric_config *config = daemon->config->fabric;
    uint32_t far;

    if (event->what == MANAGER_EVENT_TRAP)
        return fabric_switch_host(config, event->sw);
    if (event->what == MANAGER_EVENT_NO_LINK)
        return fabric_node_host(config, event->node);
    if (event->cable == TOPO_NONE)
        return 0;
    far = fabric_direction_host(daemon->fabric, 2 * event->cable, true);
    return far ? far : fabric_direction_host(daemon->fabric, 2 * event->cable, false);
}

static void on_manager(void *ctx, const struct manager_event *event)
{
    static const char *const names[] = {
        [MANAGER_EVENT_LOST] = "lost",       [MANAGER_EVENT_UP] = "up",
        [MANAGER_EVENT_SWAPPED] = "swapped", [MANAGER_EVENT_FAILED] = "test failed",
        [MANAGER_EVENT_OUT] = "taken out",   [MANAGER_EVENT_STUCK] = "stuck",
    };
    struct daemon *daemon = ctx;
    struct daemon_faults *f = daemon->faults;
    struct json_object *reported;
    char text[DAEMON_CABLE_BYTES];

    f->links[event->what]++;
    if (event->what == MANAGER_EVENT_STUCK)
        injector_taken_out(f->injector, event->cable, event->at_ps);
    if (event->what == MANAGER_EVENT_TABLES) {
        reported = daemon_event(daemon, "tables", event->at_ps);
        f->recovery_ps += event->took_ps;
        if (event->took_ps > f->recovery_most_ps)
            f->recovery_most_ps = event->took_ps;
        json_add_number(reported, "took_ns", event->took_ps / 1000);
        json_add_number(reported, "without_route", event->partitioned);
    } else if (event->what == MANAGER_EVENT_TREELESS) {
        reported =
            json_add_number(daemon_event(daemon, "no_tree", event->at_ps), "group", event->group);
    } else if (event->what == MANAGER_EVENT_TRAP) {
        reported =
            json_add_switch(daemon_event(daemon, "trap", event->at_ps), daemon->graph, event->sw);
        json_add_number(reported, "to", event->to);
        json_add_number(reported, "packets", event->trapped);
        json_add_number(reported, "isolated", event->isolated);
    } else if (event->what == MANAGER_EVENT_PARTITIONED) {
        daemon_notify_unreachable(daemon);
        reported = json_add_number(daemon_event(daemon, "partitioned", event->at_ps),
                                   "without_route", event->partitioned);
    } else if (event->what == MANAGER_EVENT_NO_LINK) {
        reported = json_add_node(daemon_event(daemon, "node_no_link", event->at_ps), daemon->graph,
                                 event->node);
    } else {
        reported = daemon_event(daemon, "link", event->at_ps);
        json_add_text(reported, "state", names[event->what]);
        json_add_text(reported, "cable",
                      daemon_cable_name(daemon->fabric, event->cable, "-", text));
    }
    if (event->what == MANAGER_EVENT_UP || event->what == MANAGER_EVENT_STUCK)
        json_add_number(reported, "took_ns", event->took_ps / 1000);
    if (event->what == MANAGER_EVENT_FAILED || event->what == MANAGER_EVENT_OUT) {
        json_add_number(reported, "errors", event->errors);
        json_add_number(reported, "packets", event->packets);
    }
    json_add_number(reported, "links_out", event->links_out);
    daemon_publish_from(daemon, manager_event_host(daemon, event), reported);
}

static void on_fault(void *ctx, const struct inject_event *event)
{
    struct daemon *daemon = ctx;
    struct json_object *reported = daemon_event(daemon, "fault", event->at_ps);
    char text[FAULT_TEXT_BYTES];

    fault_print(event->fault, daemon->graph, text);
    json_add_number(reported, "fault", event->id);
    json_add_text(reported, "text", text);
    json_add_text(reported, "state", event->begins ? "begins" : "over");
    json_add_number(reported, "targets", event->targets);
    daemon_publish(daemon, reported);
}

/* Kill, stop or resume the process that is attached to @node. Returns false if there is none. */
static bool on_process(void *ctx, uint32_t node, enum inject_process what)
{
    struct daemon *daemon = ctx;
    struct client *client = daemon->by_node[node];

    if (!client || client->gone)
        return false;
    return what == INJECT_KILL ? daemon_signal(client, SIGKILL)
                               : daemon_freeze(daemon, client, what == INJECT_FREEZE);
}

/* Convert the time of a hit to daemon_now_ps(). On clock raw it needs no conversion. */
static uint64_t hit_ps(const struct daemon *daemon, const struct emu_fault_hit *hit)
{
    bool raw = daemon->config->fabric->clock == EMU_CLOCK_RAW;
    uint64_t at_ps = raw ? hit->at_ps : daemon->began_ps + hit->at_ps;

    return at_ps > daemon->began_ps ? at_ps : daemon->began_ps; /* another host may send any time */
}

static struct json_object *hit_of(struct daemon *daemon, const struct emu_fault_hit *hit)
{
    static const char *const whats[] = {
        /* no entries for EMU_FAULT_SEE and above, which hit_take() ignores */
        [EMU_FAULT_LOSE] = "lost",           [EMU_FAULT_FLIP_ANY] = "damaged",
        [EMU_FAULT_FLIP_HEADER] = "damaged", [EMU_FAULT_FLIP_PAYLOAD] = "damaged",
        [EMU_FAULT_DUPLICATE] = "doubled",   [EMU_FAULT_DELAY] = "held",
        [EMU_FAULT_SLOW] = "slowed",         [EMU_FAULT_STICK] = "kept waiting",
    };
    struct json_object *reported = daemon_event(daemon, "hit", hit_ps(daemon, hit));
    const char *what = operation(hit);
    char text[DAEMON_CABLE_BYTES];

    json_add_number(reported, "fault", hit->fault);
    json_add_text(reported, "what", hit->link_down ? "lost" : whats[hit->what]);
    if (hit->cable >= 2 * fabric_cable_count(daemon->fabric))
        json_add_number(reported, "combine_unit_of_switch",
                        hit->cable - 2 * fabric_cable_count(daemon->fabric));
    else
        json_add_text(reported, "cable",
                      daemon_cable_name(daemon->fabric, hit->cable / 2,
                                        hit->cable % 2 ? "->" : "<-", text));
    json_add_text(reported, "packet", fault_packet_name(hit->packet));
    if (!hit->known)
        return reported;
    json_add_text(reported, "kind", fault_segment_name(emu_hdr_kind(&hit->hdr)));
    json_add_number(reported, "from", hit->hdr.src);
    json_add_number(reported, emu_hdr_kind(&hit->hdr) == EMU_UNICAST ? "to" : "group",
                    hit->hdr.dst);
    if (what)
        json_add_text(reported, "operation", what);
    return reported;
}

/* Publish a hit that @host has logged, and list it if there is space. @ctx: the daemon. */
static void hit_take(void *ctx, uint32_t host, const struct emu_fault_hit *hit)
{
    struct daemon *daemon = ctx;
    struct daemon_faults *f = daemon->faults;
    struct json_object *reported;
    bool keep;

    if (injector_observe(f->injector, hit, daemon_now_ps(daemon)) || hit->what >= EMU_FAULT_SEE)
        return;
    f->hits_seen++;
    keep = fabric_host_has_space(HITS_REPORTED - (uint32_t)emu_json_count(f->hits), host,
                                 f->hits_of[host]);
    if (!keep && !daemon_has_subscribers(daemon))
        return;
    reported = hit_of(daemon, hit);
    f->hits_of[host] += keep;
    if (keep)
        json_object_array_add(f->hits, json_object_get(reported));
    daemon_publish_from(daemon, host, reported);
}

/* Take a hit from another host, which may only log hits of faults that have a target there. */
static void hit_receive(void *ctx, uint32_t host, const struct emu_fault_hit *hit)
{
    const struct daemon *daemon = ctx;

    if (injector_may_hit(daemon->faults->injector, hit->fault, host))
        hit_take(ctx, host, hit);
}

/*
 * Collect the hits of all hosts. @counts: also fetch the other hosts' numbers of hits, which
 * injector_at() adds to its own.
 */
static void hits_collect(struct daemon *daemon, bool counts)
{
    struct emu_fault_hit hit;

    while (fabric_hit_take(daemon->fabric, &hit))
        hit_take(daemon, 0, &hit);
    if (daemon->coordinator)
        coordinator_hits(daemon->coordinator, counts, hit_receive, daemon);
}

static uint64_t due_ps(const struct daemon_faults *f)
{
    uint64_t at_ps = injector_due_ps(f->injector);
    uint64_t manager_ps = f->manager ? manager_due_ps(f->manager) : EMU_NEVER;

    at_ps = manager_ps < at_ps ? manager_ps : at_ps;
    at_ps = f->drops.scan_ps < at_ps ? f->drops.scan_ps : at_ps;
    return f->scan_ps < at_ps ? f->scan_ps : at_ps;
}

static void timer_arm(const struct daemon *daemon)
{
    const struct daemon_faults *f = daemon->faults;
    uint64_t at_ps = due_ps(f);

    if (fabric_is_virtual(daemon->fabric))
        fabric_set_alarm(daemon->fabric, at_ps, f->timer);
    else
        daemon_timer_set(f->timer, at_ps == EMU_NEVER ? EMU_NEVER : at_ps / 1000u);
}

/* Return a descriptor that wakes the loop when a step is due, or -errno. */
static int timer_open(struct daemon *daemon)
{
    if (fabric_is_virtual(daemon->fabric))
        return daemon_watch_new(daemon, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), &daemon->faults);
    return daemon_timer_open(daemon, &daemon->faults);
}

/* Take all steps that are due, and set the timer to the next step. */
static void faults_step(struct daemon *daemon)
{
    struct daemon_faults *f = daemon->faults;
    uint64_t at_ps = daemon_now_ps(daemon);
    int err;

    if (injector_waits(f->injector))
        hits_collect(daemon, false);
    err = injector_step(f->injector, at_ps);
    if (!err && f->manager)
        err = manager_step(f->manager, at_ps);
    if (err)
        print_message("cannot apply or end a fault, or react to it: %s", strerror(-err));
    daemon_drops_step(daemon, &f->drops, at_ps);
    if (at_ps >= f->scan_ps) {
        hits_collect(daemon, false);
        f->scan_ps = at_ps + COLLECT_PS;
    }
    if (!injector_is_active(f->injector))
        f->scan_ps = EMU_NEVER;
    else if (f->scan_ps == EMU_NEVER)
        f->scan_ps = at_ps + COLLECT_PS;
    timer_arm(daemon);
}

void daemon_faults_run(struct daemon *daemon)
{
    uint64_t expired;

    if (read(daemon->faults->timer, &expired, sizeof expired) < 0)
        return;
    daemon->due.faults = true;
    if (daemon->coordinator)
        daemon_await(daemon);
    else
        daemon_faults_due(daemon);
}

void daemon_faults_due(struct daemon *daemon)
{
    if (daemon->due.faults && daemon->faults)
        faults_step(daemon);
    daemon->due.faults = false;
}

/* --- start and end -------------------------------------------------------------------- */

static uint64_t bound_ps(uint64_t ms)
{
    return ms == EMU_BOUND_OFF ? EMU_NEVER : ms * UINT64_C(1000000000);
}

static struct fault_network network_of(const struct daemon *daemon)
{
    const struct fabric_config *fabric = daemon->config->fabric;

    return (struct fault_network){.graph = fabric->graph,
                                  .profile = &fabric->profile,
                                  .clock = fabric->clock};
}

static int faults_make(struct daemon *daemon, struct daemon_faults *f)
{
    const struct fabric_config *fabric = daemon->config->fabric;
    struct manager_config manager = manager_defaults();
    struct inject_config inject = {.network = network_of(daemon),
                                   .seed = fabric->seed,
                                   .origin_ps = daemon->began_ps,
                                   .scan_ps = WATCH_PS,
                                   .event = on_fault,
                                   .process = on_process,
                                   .ctx = daemon};
    int err = 0;

    manager.no_link_ps = bound_ps(fabric->bounds.no_link_ms);
    manager.stuck_ps = bound_ps(fabric->bounds.stuck_ms);
    manager.event = on_manager;
    manager.ctx = daemon;
    if (daemon->coordinator) {
        f->remote = coordinator_inject(daemon->coordinator);
        inject.remote = &f->remote;
        inject.scan_ps = WATCH_REMOTE_PS;
        manager.step_ps = STEP_REMOTE_PS;
        manager.in_flight_ps = STEP_REMOTE_PS;
    }
    f->timer = timer_open(daemon);
    if (f->timer < 0)
        return f->timer;
    if (fabric_can_reroute(daemon->fabric))
        err = manager_create(&f->manager, daemon->fabric, &manager);
    return err ? err : injector_create(&f->injector, daemon->fabric, f->manager, &inject);
}

/* Create the injector and the manager, for the first fault or lost link between hosts. */
static int faults_begin(struct daemon *daemon, char *error, size_t error_bytes)
{
    struct daemon_faults *f;
    int err;

    if (daemon->faults)
        return 0;
    f = calloc(1, sizeof *f);
    if (!f)
        return fail(-ENOMEM, error, error_bytes, "no memory for faults");
    daemon->faults = f;
    f->timer = -1;
    f->scan_ps = EMU_NEVER;
    f->hits = json_object_new_array();
    err = faults_make(daemon, f);
    if (!err)
        return 0;
    daemon_faults_close(daemon);
    return fail(err, error, error_bytes, "cannot inject faults: %s", strerror(-err));
}

int daemon_faults_open(struct daemon *daemon, char *error, size_t error_bytes)
{
    const struct fault_schedule *schedule = daemon->config->faults;
    int err;

    daemon->began_ps = daemon_now_ps(daemon);
    if (!schedule)
        return 0;
    err = faults_begin(daemon, error, error_bytes);
    if (!err)
        err = injector_add_all(daemon->faults->injector, schedule, error, error_bytes);
    if (err)
        return err;
    faults_step(daemon);
    return 0;
}

int daemon_faults_sever(struct daemon *daemon, const bool *lost, char *error, size_t error_bytes)
{
    int err = faults_begin(daemon, error, error_bytes);

    for (uint32_t i = 0; !err && i < fabric_cable_count(daemon->fabric); i++) {
        if (!lost[i] || !fabric_can_fail(daemon->fabric, i))
            continue;
        err = manager_sever(daemon->faults->manager, i, daemon_now_ps(daemon));
        if (err)
            fail(err, error, error_bytes, "cannot take a cable out of service: %s", strerror(-err));
    }
    if (!err)
        faults_step(daemon);
    return err;
}

void daemon_faults_rejoin(struct daemon *daemon, const bool *mended)
{
    for (uint32_t i = 0; daemon->faults && i < fabric_cable_count(daemon->fabric); i++)
        if (mended[i] && fabric_can_fail(daemon->fabric, i))
            manager_rejoin(daemon->faults->manager, i, daemon_now_ps(daemon));
    if (daemon->faults)
        faults_step(daemon);
}

struct on_host {
    const struct fabric_config *config;
    uint32_t host;
};

static bool is_on_host(void *ctx, uint32_t sw, uint32_t node)
{
    const struct on_host *on = ctx;

    return (sw == TOPO_NONE ? fabric_node_host(on->config, node)
                            : fabric_switch_host(on->config, sw)) == on->host;
}

int daemon_faults_reapply(struct daemon *daemon, uint32_t host)
{
    struct on_host on = {daemon->config->fabric, host};

    if (!daemon->faults)
        return 0;
    if (daemon->faults->manager)
        manager_resync(daemon->faults->manager, is_on_host, &on);
    return injector_reapply(daemon->faults->injector, host);
}

void daemon_faults_close(struct daemon *daemon)
{
    struct daemon_faults *f = daemon->faults;

    if (!f)
        return;
    if (fabric_is_virtual(daemon->fabric))
        fabric_set_alarm(daemon->fabric, EMU_NEVER, -1);
    if (f->injector)
        injector_clear_all(f->injector, daemon_now_ps(daemon)); /* also resumes frozen processes */
    injector_destroy(f->injector);
    manager_destroy(f->manager);
    json_object_put(f->hits);
    if (f->timer >= 0)
        close(f->timer);
    free(f);
    daemon->faults = NULL;
}

/* --- requests ----------------------------------------------------------------------- */

static struct json_object *state_of(const struct daemon *daemon, const struct inject_state *state)
{
    bool packets = emu_profile_has_packets(&daemon->config->fabric->profile);
    struct json_object *one = json_add_number(json_object_new_object(), "fault", state->id);
    char text[FAULT_TEXT_BYTES];

    fault_print(state->fault, daemon->graph, text);
    json_add_text(one, "text", text);
    json_add_text(one, "state", state->active ? "active" : state->over ? "over" : "scheduled");
    json_add_number(one, "times", state->times);
    json_add_number(one, "targets", state->targets);
    json_add_number(one, "hits", state->hits);
    json_add_text(one, "hits_are", fault_hits_are(state->fault->kind, packets));
    if (state->next_ps != EMU_NEVER)
        json_object_object_add(one, "next_s",
                               json_object_new_double((double)(state->next_ps - daemon->began_ps) *
                                                      1e-12));
    return one;
}

static struct json_object *states_of(const struct daemon *daemon)
{
    const struct daemon_faults *f = daemon->faults;
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; f && i < injector_count(f->injector); i++) {
        struct inject_state state = injector_at(f->injector, i);

        json_object_array_add(all, state_of(daemon, &state));
    }
    return all;
}

/* Add "faults" to @to, and "past_faults" if some faults are no longer listed. */
static void add_states(const struct daemon *daemon, struct json_object *to)
{
    struct inject_past past = {0};

    json_object_object_add(to, "faults", states_of(daemon));
    if (daemon->faults)
        past = injector_past(daemon->faults->injector);
    if (!past.faults)
        return;
    struct json_object *sums = json_add_number(json_object_new_object(), "faults", past.faults);
    json_add_number(sums, "times", past.times);
    json_object_object_add(to, "past_faults", json_add_number(sums, "hits", past.hits));
}

/* Return a note for the user if fault @id has begun and its nodes had no process; else NULL. */
static const char *note_no_process(const struct daemon *daemon, uint32_t id)
{
    const struct injector *injector = daemon->faults->injector;

    for (uint32_t i = injector_count(injector); i--;) {
        struct inject_state state = injector_at(injector, i);

        if (state.id == id)
            return state.times && !state.hits &&
                           strstr(fault_hits_are(state.fault->kind, false), "process")
                       ? "no process is attached at the nodes of this fault"
                       : NULL;
    }
    return NULL;
}

void daemon_fault(struct daemon *daemon, struct client *client, struct json_object *request)
{
    char text[FAULT_ERROR_BYTES + 64] = "";
    struct fault fault;
    struct json_object *reply;
    uint32_t id;
    int err =
        fault_parse(&fault, emu_json_text(request, "fault", ""), daemon->graph, text, sizeof text);

    if (!err)
        err = faults_begin(daemon, text, sizeof text);
    if (!err)
        err = injector_add(daemon->faults->injector, &fault, daemon_now_ps(daemon), &id, text,
                           sizeof text);
    if (err) {
        daemon_reply_error(daemon, client, err, "%s", text);
        return;
    }
    faults_step(daemon);
    reply = json_add_number(conn_ok(), "fault", id);
    const char *note = *text ? text : note_no_process(daemon, id);
    if (note)
        json_add_text(reply, "note", note);
    daemon_send(daemon, client, reply);
}

void daemon_fault_clear(struct daemon *daemon, struct client *client, struct json_object *request)
{
    int64_t id = emu_json_number(request, "fault", 0);

    if (!daemon->faults || id < 0 || id > UINT32_MAX ||
        injector_clear(daemon->faults->injector, (uint32_t)id, daemon_now_ps(daemon))) {
        daemon_reply_error(daemon, client, -ENOENT, "there is no fault with that number");
        return;
    }
    faults_step(daemon);
    daemon_send(daemon, client, conn_ok());
}

/*
 * Describe a fault of kind @kind at target @where, with duration @lasts. If it can be injected,
 * field "note" may have a remark; if not, field "why" has the reason. Returns NULL if a fault of
 * this kind cannot have such a target; then @text has the reason.
 */
static struct json_object *kind_at(const struct fault_network *network, enum fault_kind kind,
                                   const char *where, const char *lasts, char *text, size_t bytes)
{
    char example[FAULT_TEXT_BYTES];
    struct json_object *one;
    struct fault fault;

    if (!fault_example(kind, where, lasts, example, sizeof example) ||
        fault_parse(&fault, example, network->graph, text, bytes))
        return NULL;
    one = json_add_text(json_object_new_object(), "name", fault_name(kind));
    json_add_text(one, "about", fault_about(kind));
    json_add_text(one, "text", example);
    bool refused = fault_check(&fault, network, text, bytes) != 0;
    if (*text)
        json_add_text(one, refused ? "why" : "note", text);
    return one;
}

void daemon_fault_kinds(struct daemon *daemon, struct client *client, struct json_object *request)
{
    const struct fault_network network = network_of(daemon);
    const char *where = emu_json_text(request, "where", "");
    const char *lasts = emu_json_text(request, "for", "");
    char text[FAULT_ERROR_BYTES] = "this target is too long";
    struct json_object *kinds = json_object_new_array(), *reply;

    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        struct json_object *one =
            kind_at(&network, (enum fault_kind)kind, where, lasts, text, sizeof text);
        if (one)
            json_object_array_add(kinds, one);
    }
    if (!json_object_array_length(kinds)) { /* @text has the last error */
        json_object_put(kinds);
        daemon_reply_error(daemon, client, -EINVAL, "%s", text);
        return;
    }
    reply = conn_ok();
    json_object_object_add(reply, "kinds", kinds);
    daemon_send(daemon, client, reply);
}

void daemon_fault_list(struct daemon *daemon, struct client *client, struct json_object *request)
{
    struct json_object *reply = conn_ok();

    (void)request;
    if (daemon->faults && daemon->coordinator)
        hits_collect(daemon, true);
    add_states(daemon, reply);
    daemon_send(daemon, client, reply);
}

static struct json_object *links_of(const struct daemon *daemon)
{
    const struct daemon_faults *f = daemon->faults;
    uint64_t tables = f->links[MANAGER_EVENT_TABLES];
    struct json_object *links = json_object_new_object();

    json_add_number(links, "lost", f->links[MANAGER_EVENT_LOST]);
    json_add_number(links, "up_again", f->links[MANAGER_EVENT_UP]);
    json_add_number(links, "taken_out", f->links[MANAGER_EVENT_OUT]);
    json_add_number(links, "stuck", f->links[MANAGER_EVENT_STUCK]);
    json_add_number(links, "tests_failed", f->links[MANAGER_EVENT_FAILED]);
    json_add_number(links, "swapped", f->links[MANAGER_EVENT_SWAPPED]);
    json_add_number(links, "out_now", manager_links_out(f->manager));
    json_add_number(links, "new_tables", tables);
    json_add_number(links, "groups_without_tree", f->links[MANAGER_EVENT_TREELESS]);
    json_add_number(links, "traps", f->links[MANAGER_EVENT_TRAP]);
    json_add_number(links, "trees_moved", fabric_replanned(daemon->fabric));
    json_add_number(links, "rerouted", manager_rerouted(f->manager));
    json_add_number(links, "partitioned", fabric_dropped_unreachable(daemon->fabric));
    json_add_number(links, "recovery_mean_ns", tables ? f->recovery_ps / tables / 1000 : 0);
    json_add_number(links, "recovery_longest_ns", f->recovery_most_ps / 1000);
    return links;
}

void daemon_faults_report(struct daemon *daemon, struct json_object *report)
{
    struct daemon_faults *f = daemon->faults;
    uint64_t missed;

    if (!f)
        return;
    hits_collect(daemon, true);
    missed = fabric_hits_missed(daemon->fabric);
    if (daemon->coordinator)
        emu_sum(&missed, coordinator_hits_missed(daemon->coordinator));
    add_states(daemon, report);
    json_object_object_add(report, "hits", json_object_get(f->hits));
    json_add_number(report, "hits_logged", f->hits_seen);
    json_add_number(report, "hits_not_logged", missed);
    if (f->manager)
        json_object_object_add(report, "links", links_of(daemon));
    daemon_drops_report(daemon, &f->drops, report);
}
