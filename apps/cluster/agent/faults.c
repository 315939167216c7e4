/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.c - an agent's side of the coordinator's calls about faults: apply faults to the devices
 * of this host, report their hits, report the state of cable ends to the fabric manager, and report
 * unrecoverable drops. The comment before a call shows the fields of the request and, after an
 * arrow, the fields of the reply, if it has any. DIGITS stands for the bytes of a structure in
 * hexadecimal. coordinator/faults.c is the other side.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/cluster/agent/internal.h"
#include "apps/inject/inject.h"
#include "emu/util/clock.h"
#include "emu/fault/log.h"
#include "emu/util/now.h"

/* Return field @name of @call if it is a number below @most, otherwise UINT32_MAX. */
static uint32_t below(struct json_object *call, const char *name, uint64_t most)
{
    int64_t number = emu_json_number(call, name, -1);

    return number >= 0 && (uint64_t)number < most ? (uint32_t)number : UINT32_MAX;
}

/* --- faults --------------------------------------------------------------------------- */

static int injector_of(struct agent *agent)
{
    const struct fabric_config *config = fabric_config_of(agent->fabric);
    const struct inject_config config_here = {.network = {.graph = fabric_graph(agent->fabric),
                                                          .profile = &config->profile,
                                                          .clock = config->clock},
                                              .scan_ps = 1};

    return agent->injector ? 0
                           : injector_create(&agent->injector, agent->fabric, NULL, &config_here);
}

/* {"fault":ID,"text":TEXT,"seed":DIGITS,"what":enum inject_action} */
static int call_fault(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct inject_call what = {.what = (enum inject_action)emu_json_number(call, "what", -1),
                               .id = below(call, "fault", UINT32_MAX)};
    struct fault fault;
    char error[FAULT_ERROR_BYTES];
    int err = fault_parse(&fault, emu_json_text(call, "text", ""), fabric_graph(agent->fabric),
                          error, sizeof error);

    (void)reply;
    if (!err && hosts_from_hex(json_object_object_get(call, "seed"), &what.seed,
                               sizeof what.seed) != sizeof what.seed)
        err = -EINVAL;
    if (!err)
        err = injector_of(agent);
    what.fault = &fault;
    return err ? err : injector_apply_call(agent->injector, &what, emu_now_ns() * 1000u);
}

/* {"cable":N} */
static int call_taken_out(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    uint32_t cable = below(call, "cable", fabric_cable_count(agent->fabric));

    (void)reply;
    if (cable == UINT32_MAX)
        return -EINVAL;
    if (agent->injector)
        injector_taken_out(agent->injector, cable, emu_now_ns() * 1000u);
    return 0;
}

/*
 * {"counts":BOOL} -> {"log":[DIGITS,…],"missed":N,"now_ps":T}. With "counts" the reply also has
 * "hits":[FAULT,COUNT,…]. If the reply has "more", the log was cut off after HOSTS_HITS_MOST
 * entries, and the next call returns further entries.
 */
static int call_hits(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct json_object *hits = json_object_new_array(), *log = json_object_new_array();
    bool counts = agent->injector && emu_json_number(call, "counts", 0);
    uint32_t faults = counts ? injector_count(agent->injector) : 0, count = 0;
    struct emu_fault_hit hit;

    for (uint32_t i = 0; i < faults; i++) {
        struct inject_state state = injector_at(agent->injector, i);

        if (!state.hits)
            continue;
        hosts_list_add(hits, state.id);
        hosts_list_add(hits, state.hits);
    }
    json_add_number(reply, "now_ps",
                    fabric_has_time(agent->fabric) ? fabric_now_ps(agent->fabric)
                                                   : emu_now_ns() * 1000u);
    while (count < HOSTS_HITS_MOST && fabric_hit_take(agent->fabric, &hit)) {
        json_object_array_add(log, hosts_to_hex(&hit, sizeof hit));
        count++;
    }
    if (count == HOSTS_HITS_MOST)
        json_add_number(reply, "more", 1);
    json_add_number(reply, "missed", fabric_hits_missed(agent->fabric));
    if (counts)
        json_object_object_add(reply, "hits", json_object_get(hits));
    json_object_put(hits);
    json_object_object_add(reply, "log", log);
    return 0;
}

static void hits_add(void *list, uint32_t id, uint64_t hits)
{
    if (!hits)
        return;
    hosts_list_add(list, id);
    hosts_list_add(list, hits);
}

/* {"faults":[FAULT,…]}, in ascending order -> {"hits":[FAULT,COUNT,…]} */
static int call_forget(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct json_object *faults = json_object_object_get(call, "faults");
    struct json_object *hits = json_object_new_array();
    uint32_t count = (uint32_t)emu_json_count(faults), *ids = calloc(count + 1u, sizeof *ids);

    for (uint32_t i = 0; ids && i < count; i++)
        ids[i] = (uint32_t)hosts_number_at(faults, i);
    if (ids && agent->injector)
        injector_forget(agent->injector, ids, count, hits_add, hits);
    json_object_object_add(reply, "hits", hits);
    free(ids);
    return ids ? 0 : -ENOMEM;
}

/* --- calls of the fabric manager ------------------------------------------------------ */

/* Test one cable, and append HOSTS_TEST numbers to @list. */
static void test_add(struct agent *agent, uint32_t cable, uint32_t packets,
                     struct json_object *list)
{
    struct fabric_past past;
    uint32_t errors = fabric_cable_try(agent->fabric, cable, packets);

    fabric_pause(agent->fabric);
    fabric_link_past(agent->fabric, cable, &past);
    fabric_resume(agent->fabric);
    hosts_list_add(list, errors);
    hosts_list_add(list, past.quiet);
    hosts_list_add(list, past.crosses);
    hosts_list_add(list, past.sent);
    hosts_list_add(list, past.arrived);
}

/*
 * {"cables":[CABLE,…],"packets":N} -> {"tests":[ERRORS,QUIET,CROSSES,SENT,ARRIVED,…]}. Refuse the
 * call if a cable cannot fail: it is a host interface, so there is no cable end to test.
 */
static int call_test(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct json_object *cables = json_object_object_get(call, "cables");
    struct json_object *list = json_object_new_array();
    int64_t packets = emu_json_number(call, "packets", 0);
    size_t count = emu_json_count(cables);
    int err = count && count <= fabric_cable_count(agent->fabric) && packets >= 0 &&
                      packets <= HOSTS_TEST_MOST
                  ? 0
                  : -EINVAL;

    for (size_t i = 0; !err && i < count; i++) {
        int64_t cable = json_object_get_int64(json_object_array_get_idx(cables, i));

        if (cable >= 0 && cable < fabric_cable_count(agent->fabric) &&
            fabric_can_fail(agent->fabric, (uint32_t)cable))
            test_add(agent, (uint32_t)cable, (uint32_t)packets, list);
        else
            err = -EINVAL;
    }
    json_object_object_add(reply, "tests", list);
    return err;
}

static bool scan_make(const struct fabric *fabric, struct fabric_scan_result *ret)
{
    size_t directions = 2 * (size_t)fabric_cable_count(fabric) + 1,
           switches = fabric_graph(fabric)->switches;

    *ret = (struct fabric_scan_result){.packets = calloc(directions, sizeof *ret->packets),
                                       .errors = calloc(directions, sizeof *ret->errors),
                                       .port = calloc(directions, sizeof *ret->port),
                                       .trapped = calloc(switches, sizeof *ret->trapped),
                                       .trapped_to = calloc(switches, sizeof *ret->trapped_to)};
    return ret->packets && ret->errors && ret->port && ret->trapped && ret->trapped_to;
}

static void scan_free(struct fabric_scan_result *seen)
{
    free(seen->packets);
    free(seen->errors);
    free(seen->port);
    free(seen->trapped);
    free(seen->trapped_to);
}

/*
 * no fields -> {"errors":[DIRECTION,PACKETS,ERRORS,…],"ready":[DIRECTION,SENT,IDLE,…],
 * "traps":[SWITCH,COUNT,TO,…]}. DIRECTION is 2 * cable, plus 1 if segments go from the cable's
 * first end to its second. TO is trapped_to of struct fabric_scan_result.
 */
static int call_scan(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct json_object *errors = json_object_new_array(), *ready = json_object_new_array();
    struct json_object *traps = json_object_new_array();
    struct fabric_scan_result seen;
    int err = scan_make(agent->fabric, &seen) ? 0 : -ENOMEM;

    (void)call;
    if (!err)
        fabric_scan(agent->fabric, &seen);
    for (uint32_t w = 0; !err && w < 2 * fabric_cable_count(agent->fabric); w++) {
        if (seen.packets[w]) {
            hosts_list_add(errors, w);
            hosts_list_add(errors, seen.packets[w]);
            hosts_list_add(errors, seen.errors[w]);
        }
        if (seen.port[w].ready) {
            hosts_list_add(ready, w);
            hosts_list_add(ready, seen.port[w].sent);
            hosts_list_add(ready, seen.port[w].idle);
        }
    }
    for (uint32_t s = 0; !err && s < fabric_graph(agent->fabric)->switches; s++)
        if (seen.trapped[s]) {
            hosts_list_add(traps, s);
            hosts_list_add(traps, seen.trapped[s]);
            hosts_list_add(traps, seen.trapped_to[s]);
        }
    scan_free(&seen);
    json_object_object_add(reply, "errors", errors);
    json_object_object_add(reply, "ready", ready);
    json_object_object_add(reply, "traps", traps);
    return err;
}

/* {"reachable":BOOL,"drops":BOOL} -> {"segments":N,"partitioned":N} */
static int call_reroute_in_flight(struct agent *agent, struct json_object *call,
                                  struct json_object *reply)
{
    uint64_t partitioned = fabric_dropped_unreachable(agent->fabric);

    fabric_assume_reachable(agent->fabric, emu_json_number(call, "reachable", 0));
    fabric_drop_unreachable(agent->fabric, emu_json_number(call, "drops", 0));
    json_add_number(reply, "segments",
                    fabric_reroute_in_flight_all(agent->fabric, fabric_now_ps(agent->fabric)));
    json_add_number(reply, "partitioned", fabric_dropped_unreachable(agent->fabric) - partitioned);
    return 0;
}

/* {"node":N} */
static int call_no_link(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    uint32_t node = below(call, "node", fabric_graph(agent->fabric)->nodes);

    (void)reply;
    if (node == UINT32_MAX)
        return -EINVAL;
    fabric_pause(agent->fabric);
    fabric_node_no_link(agent->fabric, node, fabric_now_ps(agent->fabric));
    fabric_resume(agent->fabric);
    return 0;
}

/* --- unrecoverable drops -------------------------------------------------------------- */

/*
 * {"bound_us":N} -> {"unrecoverable":[DIGITS,…]}. The bound is that of fabric_drops_find(); 0:
 * there is none. If there are more than HOSTS_DROPS_MOST drops, the next call returns the others.
 */
static int call_drops(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    struct json_object *list = json_object_new_array();
    uint64_t bound_us = (uint64_t)emu_json_number(call, "bound_us", 0);
    struct fabric_drop drop;
    uint32_t report = 0;

    fabric_drops_find(agent->fabric, emu_now_ns() * 1000u,
                      bound_us ? bound_us * 1000000u : EMU_NEVER);
    while (report++ < HOSTS_DROPS_MOST && fabric_drop_take(agent->fabric, &drop))
        json_object_array_add(list, hosts_to_hex(&drop, sizeof drop));
    json_object_object_add(reply, "unrecoverable", list);
    return 0;
}

/* {"group":N} */
static int call_failed(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    (void)reply;
    fabric_group_fails(agent->fabric, below(call, "group", UINT32_MAX));
    return 0;
}

/* {"switch":N} */
static int call_unit_out(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    (void)reply;
    fabric_unit_out(agent->fabric, below(call, "switch", UINT32_MAX), emu_now_ns() * 1000u);
    return 0;
}

/* --- the table -------------------------------------------------------------------------- */

/* clang-format off */
const struct agent_call agent_faults[] = {
    {"fault", call_fault},
    {"taken_out", call_taken_out},
    {"hits", call_hits},
    {"forget", call_forget},
    {"test", call_test},
    {"reroute_in_flight", call_reroute_in_flight},
    {"scan", call_scan},
    {"node_no_link", call_no_link},
    {"unrecoverable", call_drops},
    {"failed", call_failed},
    {"unit_out", call_unit_out},
    {NULL, NULL},
};
/* clang-format on */
