/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.c - samples the pending operations of processes once a second, and reports a
 * standstill.
 *
 * A run stands still while a process waits for the fabric and, for QUIET_NS, no operation of any
 * process has begun, made progress or completed. A run in which all processes compute does not
 * stand still, because none of them waits. The daemon reports a standstill to the supervisor each
 * second. The supervisor prints the last report if the standstill lasts, or if the user interrupts
 * the run. By then the processes are ending, so it would be too late to query them.
 */
#include "apps/daemon/standstill.h"
#include "apps/fabric/stalls.h"
#include "apps/base/procs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/now.h"

#define QUIET_NS 2000000000u /* if nothing moves for this long, the run stands still */
/* a process that has sent no report for this long counts as silent */
#define SILENT_NS 3500000000u
/* a program that has had a core for this long without polling does not wait */
#define UNPOLLED_NS 1000000000u
#define LINKS_MAX   32u /* maximum number of stalled links that are listed */

/* --- samples ---------------------------------------------------------------------------- */

void daemon_standstill_attach(struct daemon *daemon, struct client *client)
{
    daemon->last_rank[client->node] = client->rank;
    /* NULL: there is no memory, so the process's operations stay unknown */
    client->sample = calloc(1, sizeof *client->sample);
    if (client->sample)
        client->sample->attached_ns = fabric_process_ns(daemon->fabric);
}

/* Build the mismatch between a call of @client's process and that of another member. */
static struct json_object *mismatch_build(const struct client *client)
{
    const struct emu_pending_mismatch *mismatch = &client->sample->pending.mismatch;
    struct json_object *one = json_object_new_object(), *mine = json_object_new_object();
    struct json_object *other = json_object_new_object();

    json_add_number(one, "group", mismatch->group);
    json_add_text(one, "name", mismatch->name);
    json_add_number(one, "number", mismatch->number);
    json_add_number(mine, "node", (uint64_t)client->node);
    standstill_what(mine, &mismatch->mine);
    json_add_number(other, "node", mismatch->node);
    standstill_what(other, &mismatch->other);
    json_object_object_add(one, "mine", mine);
    json_object_object_add(one, "other", other);
    return one;
}

struct json_object *daemon_process_build(const struct daemon *daemon, const struct client *client)
{
    uint32_t node = (uint32_t)client->node;
    struct json_object *one = json_add_node(json_object_new_object(), daemon->graph, node);

    daemon_host_add(daemon, node, one);
    json_add_number(one, "pid", (uint64_t)client->pid);
    return json_add_text(one, "command", client->command);
}

static struct json_object *process_build(const struct daemon *daemon, uint32_t node)
{
    struct json_object *who = NULL;

    if (daemon->by_node[node]) {
        who = daemon_process_build(daemon, daemon->by_node[node]);
    } else {
        who = json_add_node(json_object_new_object(), daemon->graph, node);
        daemon_host_add(daemon, node, who);
    }
    if (daemon->last_rank[node] >= 0)
        json_add_number(who, "rank", (uint64_t)daemon->last_rank[node]);
    return who;
}

static bool has_mismatch(const struct client *client)
{
    const struct emu_pending *pending = &client->sample->pending;

    return pending->written_ns && pending->mismatch.node != EMU_PENDING_ANY;
}

static void mismatch_publish(struct daemon *daemon, struct client *client)
{
    const struct emu_pending_mismatch *mismatch = &client->sample->pending.mismatch;
    const uint32_t nodes[] = {(uint32_t)client->node, mismatch->node, mismatch->mine.root,
                              mismatch->other.root};
    struct json_object *event, *who;

    if (client->sample->mismatch_reported || !has_mismatch(client))
        return;
    client->sample->mismatch_reported = true;
    if (daemon->mismatch_group == mismatch->group + UINT64_C(1))
        return;
    daemon->mismatch_group = mismatch->group + UINT64_C(1);
    event = conn_event("disagreement");
    who = json_object_new_array();
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        if (nodes[i] != EMU_PENDING_ANY)
            json_object_array_add(who, process_build(daemon, nodes[i]));
    json_object_object_add(event, "attached", who);
    json_object_object_add(event, "disagreement", mismatch_build(client));
    daemon_publish_from(daemon, daemon_client_host(client), json_object_get(event));
    daemon_notify_owner(daemon, event);
}

/*
 * Update whether the program waits. Without a core it cannot poll. So a program that has waited
 * counts as waiting until it has had a core for UNPOLLED_NS and has not polled.
 */
static void waits_update(const struct daemon *daemon, const struct client *client)
{
    struct standstill_sample *sample = client->sample;
    uint64_t since_ns = standstill_age(daemon->waits.sample_ns, sample->polled_ns);
    uint64_t starved_ns = standstill_age(client->starved_ns, sample->polled_starved_ns);

    if (sample->pending.waits) {
        sample->waits = true;
        sample->polled_ns = daemon->waits.sample_ns;
        sample->polled_starved_ns = client->starved_ns;
    } else if (standstill_age(since_ns, starved_ns) >= UNPOLLED_NS) {
        sample->waits = false;
    }
}

static void client_sample(struct daemon *daemon, struct client *client)
{
    if (!client->sample)
        return;
    fabric_pending(daemon->fabric, (uint32_t)client->node, &client->sample->pending);
    waits_update(daemon, client);
    mismatch_publish(daemon, client);
}

static void clients_sample(struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        if (client->node >= 0)
            client_sample(daemon, client);
}

void daemon_standstill_detach(struct daemon *daemon, struct client *client)
{
    client_sample(daemon, client);
    free(client->sample);
    client->sample = NULL;
}

/* Return whether the process waits for an operation that is older than STANDSTILL_AGE_NS. */
static bool client_is_waiting(const struct client *client, uint64_t now_ns)
{
    const struct emu_pending *pending = &client->sample->pending;
    uint64_t old_ns = standstill_age(now_ns, STANDSTILL_AGE_NS);
    bool any = false;

    if (!client->sample->waits)
        return false;
    any = (pending->send.kind && pending->send.since_ns < old_ns) ||
          (pending->receive.kind && pending->receive.since_ns < old_ns);
    for (uint32_t g = 0; !any && g < pending->groups; g++)
        any = pending->group[g].since_ns && pending->group[g].since_ns < old_ns;
    return any;
}

/*
 * Return for how long a process or the fabric has waited for a core since @since_ns. The sums are
 * known only at the times of samples, so count from the last sample before @since_ns, or from the
 * oldest sample.
 */
static uint64_t quiet_starved_ns(const struct daemon *daemon, uint64_t since_ns)
{
    uint64_t now_ns = fabric_starved_ns(daemon->fabric), then_ns = now_ns;

    if (fabric_is_virtual(daemon->fabric))
        return 0; /* simulated time stands still while a thread has no core */
    for (uint32_t back = 1; back <= DAEMON_SAMPLES; back++) {
        uint32_t at = (daemon->samples - back) % DAEMON_SAMPLES;

        if (!daemon->sample[at].at_ns)
            break;
        then_ns = daemon->sample[at].starved_ns;
        if (daemon->sample[at].at_ns <= since_ns)
            break;
    }
    return now_ns - then_ns;
}

/* Return the time since which nothing has moved in any process; 0: no process waits. */
static uint64_t quiet_since_ns(const struct daemon *daemon, uint64_t now_ns)
{
    uint64_t since_ns = 0;
    bool waits = false;

    emu_each_listed (const struct client, client, &daemon->clients, link) {
        const struct standstill_sample *sample = client->node >= 0 ? client->sample : NULL;
        uint64_t quiet_ns;

        if (!sample)
            continue;
        quiet_ns = sample->pending.written_ns ? sample->pending.quiet_ns : sample->attached_ns;
        since_ns = quiet_ns > since_ns ? quiet_ns : since_ns;
        waits = waits || client_is_waiting(client, now_ns);
    }
    return waits ? since_ns : 0;
}

/* --- as JSON ---------------------------------------------------------------------------- */

static const char *const kind_names[EMU_PENDING_KINDS] = {
    [EMU_PENDING_NOTHING] = "",        [EMU_PENDING_SEND] = "send",
    [EMU_PENDING_RECEIVE] = "receive", [EMU_PENDING_PUT] = "put",
    [EMU_PENDING_GET] = "get",         [EMU_PENDING_ATOMIC] = "atomic",
    [EMU_PENDING_PROBE] = "probe",     [EMU_PENDING_UNLOCK] = "unlock",
    [EMU_PENDING_POST] = "post",       [EMU_PENDING_COMPLETE] = "complete",
    [EMU_PENDING_FREE] = "free",
};

static const char *const state_names[EMU_PENDING_STATES] = {
    [EMU_PENDING_UNSENT] = "unsent",
    [EMU_PENDING_UNMATCHED] = "unmatched",
    [EMU_PENDING_MOVING] = "moving",
};

static void op_add(struct json_object *to, const char *field, const struct emu_pending_op *op,
                   uint64_t now_ns)
{
    struct json_object *one;

    if (!op->kind)
        return;
    one = json_add_text(json_object_new_object(), "kind", kind_names[op->kind]);
    json_add_text(one, "state", state_names[op->state]);
    if (op->node != EMU_PENDING_ANY)
        json_add_number(one, "node", op->node);
    if (op->kind < EMU_PENDING_UNLOCK)
        json_add_number(one, "tag", op->tag);
    else if (op->kind == EMU_PENDING_UNLOCK)
        json_add_number(one, "target", op->tag);
    if (op->ignore)
        json_add_number(one, "ignore", op->ignore);
    if (op->bytes != EMU_PENDING_SIZE_UNKNOWN)
        json_add_number(one, "bytes", op->bytes);
    if (op->since_ns)
        json_add_number(one, "for_ns", standstill_age(now_ns, op->since_ns));
    json_object_object_add(to, field, one);
}

/* Return whether a signal or a debugger has stopped the process; false if it is on another host. */
static bool is_stopped(const struct client *client)
{
    return !client->remote && procs_is_stopped(client->pid);
}

static bool is_silent(const struct emu_pending *pending, uint64_t now_ns)
{
    return standstill_age(now_ns, pending->written_ns) >= SILENT_NS;
}

/* Mark silent and stopped processes as absent, once for all groups and before fabric_pause(). */
static void absent_mark(struct daemon *daemon, uint64_t now_ns)
{
    emu_each_listed (struct client, client, &daemon->clients, link) {
        struct standstill_sample *sample = client->node >= 0 ? client->sample : NULL;

        if (sample)
            sample->absent = is_silent(&sample->pending, now_ns) || is_stopped(client);
    }
}

void daemon_standstill_client(const struct daemon *daemon, const struct client *client,
                              struct json_object *one)
{
    const struct emu_pending *pending = client->sample ? &client->sample->pending : NULL;
    bool stopped = is_stopped(client);
    uint64_t now_ns = fabric_process_ns(daemon->fabric);

    if (client->rank >= 0)
        json_add_number(one, "rank", (uint64_t)client->rank);
    if (stopped)
        json_object_object_add(one, "stopped", json_object_new_boolean(true));
    if (!pending || !pending->written_ns)
        return;
    json_object_object_add(one, "waits", json_object_new_boolean(client->sample->waits));
    if (pending->finalizes)
        json_object_object_add(one, "finalizes", json_object_new_boolean(true));
    if (stopped || is_silent(pending, now_ns))
        json_add_number(one, "silent_ns", standstill_age(now_ns, pending->written_ns));
    op_add(one, "send", &pending->send, now_ns);
    op_add(one, "receive", &pending->receive, now_ns);
    if (!pending->unexpected)
        return;
    json_add_number(one, "unexpected", pending->unexpected);
    op_add(one, "first_unexpected", &pending->early, now_ns);
}

static struct json_object *attached_build(const struct daemon *daemon)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t node = 0; node < daemon->graph->nodes; node++) {
        const struct client *client = daemon->by_node[node];
        struct json_object *one;

        if (!client)
            continue;
        one = daemon_process_build(daemon, client);
        daemon_standstill_client(daemon, client, one);
        json_object_array_add(list, one);
    }
    return list;
}

static const char *const wait_names[] = {
    [FABRIC_WAITS_CREDIT] = "credit",
    [FABRIC_WAITS_PROCESS] = "process",
    [FABRIC_WAITS_PORT] = "port",
    [FABRIC_WAITS_REPLY] = "reply",
};

static struct json_object *links_build(struct daemon *daemon, uint64_t now_ns)
{
    struct fabric_stall stall[LINKS_MAX];
    const struct topo_graph *graph = daemon->graph;
    uint32_t count = fabric_stalls(daemon->fabric, now_ns, stall, LINKS_MAX);
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < count && i < LINKS_MAX; i++) {
        struct json_object *one = json_object_new_object();

        if (stall[i].node != TOPO_NONE)
            json_add_node(one, graph, stall[i].node);
        if (stall[i].sw != TOPO_NONE)
            json_add_switch(one, graph, stall[i].sw);
        json_add_number(one, "port",
                        stall[i].sw == TOPO_NONE
                            ? topo_node_port(graph, stall[i].node, stall[i].port)
                            : topo_switch_port(graph, stall[i].sw, stall[i].port));
        if (stall[i].node == TOPO_NONE) {
            const struct topo_end *end = &graph->sw[stall[i].sw].end[stall[i].port];

            if (end->kind == TOPO_END_SWITCH)
                json_add_number(one, "to_switch", end->id);
        }
        json_add_text(one, "waits_for", wait_names[stall[i].wait]);
        json_add_number(one, "for_ns", standstill_age(now_ns, stall[i].since_ns));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *mismatches_build(const struct daemon *daemon)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t node = 0; node < daemon->graph->nodes; node++) {
        const struct client *client = daemon->by_node[node];

        if (client && client->sample && has_mismatch(client))
            json_object_array_add(list, mismatch_build(client));
    }
    return list;
}

/* Return for how long nothing has moved, without the time for which threads had no core. */
static uint64_t quiet_counted_ns(const struct daemon *daemon, uint64_t since_ns, uint64_t now_ns)
{
    return standstill_age(standstill_age(now_ns, since_ns), quiet_starved_ns(daemon, since_ns));
}

/*
 * Return whether the run stands still. @quiet_ns: time since which nothing has moved. A wait for a
 * core becomes known only later, and then lowers the result of quiet_counted_ns(). Therefore, once
 * the run stands still, return true until something moves.
 */
static bool run_stands_still(struct daemon *daemon, uint64_t quiet_ns, uint64_t now_ns)
{
    bool stands = quiet_ns && (quiet_ns < daemon->standstill_ns ||
                               quiet_counted_ns(daemon, quiet_ns, now_ns) >= QUIET_NS);

    daemon->standstill_ns = stands ? now_ns : 0;
    return stands;
}

static void time_add(const struct daemon *daemon, uint64_t quiet_ns, uint64_t now_ns,
                     struct json_object *to)
{
    uint64_t for_ns = standstill_age(now_ns, quiet_ns);
    uint64_t starved_ns = quiet_starved_ns(daemon, quiet_ns);

    json_add_number(to, "for_ns", for_ns);
    if (starved_ns)
        json_add_number(to, "starved_ns", starved_ns < for_ns ? starved_ns : for_ns);
}

static struct json_object *standstill_build(struct daemon *daemon, uint64_t now_ns)
{
    struct json_object *ret = json_object_new_object(), *collectives = NULL, *links = NULL;
    uint64_t quiet_ns = quiet_since_ns(daemon, now_ns);

    if (run_stands_still(daemon, quiet_ns, now_ns))
        time_add(daemon, quiet_ns, now_ns, ret);
    else
        json_add_number(ret, "for_ns", 0);
    if (fabric_is_virtual(daemon->fabric))
        json_object_object_add(ret, "simulated", json_object_new_boolean(true));
    if (quiet_ns) { /* pause the workers only if a process waits */
        absent_mark(daemon, now_ns);
        fabric_pause(daemon->fabric);
        collectives = standstill_collectives(daemon, now_ns);
        links = links_build(daemon, now_ns);
        fabric_resume(daemon->fabric);
    }
    json_object_object_add(ret, "collectives", collectives ? collectives : json_object_new_array());
    json_object_object_add(ret, "links", links ? links : json_object_new_array());
    json_object_object_add(ret, "disagreements", mismatches_build(daemon));
    return ret;
}

void daemon_standstill_add(struct daemon *daemon, struct json_object *reply)
{
    clients_sample(daemon);
    json_object_object_add(reply, "standstill",
                           standstill_build(daemon, fabric_process_ns(daemon->fabric)));
}

/* Publish a standstill, or its end, also to the supervisor. The event of an end has no fields. */
static void standstill_publish(struct daemon *daemon, bool stands, uint64_t now_ns)
{
    struct json_object *event;

    if (!stands && !daemon->standstill_reported)
        return;
    daemon->standstill_reported = stands;
    event = conn_event("standstill");
    if (stands) {
        json_object_object_add(event, "attached", attached_build(daemon));
        json_object_object_add(event, "standstill", standstill_build(daemon, now_ns));
    }
    daemon_publish(daemon, json_object_get(event));
    daemon_notify_owner(daemon, event);
}

void daemon_standstill_tick(struct daemon *daemon)
{
    uint64_t now_ns = fabric_process_ns(daemon->fabric), since_ns;

    clients_sample(daemon);
    since_ns = quiet_since_ns(daemon, now_ns);
    daemon->sample[daemon->samples % DAEMON_SAMPLES].at_ns = now_ns;
    daemon->sample[daemon->samples++ % DAEMON_SAMPLES].starved_ns =
        fabric_starved_ns(daemon->fabric);
    fabric_stalls_sample(daemon->fabric, now_ns); /* on -ENOMEM the report lists no links */
    standstill_publish(daemon, run_stands_still(daemon, since_ns, now_ns), now_ns);
}
