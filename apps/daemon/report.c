/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c - build the run report, in the fabric's process. The command prints it (report_print.c).
 *
 * Other programs rely on the JSON fields (docs/manual.md), so add fields but do not change them.
 */
#include "apps/daemon/report.h"

#include <math.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/fabric/origin.h"
#include "apps/fabric/sample.h"
#include "apps/control/conn.h"
#include "apps/telemetry/view.h"
#include "emu/util/count.h"
#include "nic/fabemu.h"
#include "nic/provider.h"

static_assert(FABEMU_COLLS == TELEMETRY_COLLECTIVES,
              "telemetry_collectives has a name for each collective");

static const char *const why_names[FABEMU_WHYS] = {
    [FABEMU_WHY_OP] = "operation",      [FABEMU_WHY_TYPE] = "type",
    [FABEMU_WHY_WINDOW] = "window",     [FABEMU_WHY_GROUP] = "group",
    [FABEMU_WHY_SINGLE] = "single",     [FABEMU_WHY_INTER] = "intercommunicator",
    [FABEMU_WHY_FINALIZE] = "finalize", [FABEMU_WHY_OFF] = "off",
    [FABEMU_WHY_SLOWER] = "slower",     [FABEMU_WHY_COUNTS] = "counts",
};

/* The mechanism by which the network executes a collective. */
struct mechanism {
    bool in_adapter; /* adapters combine the contributions; false: switches do */
    const char *name;
};

static struct mechanism mechanism_of(const struct emu_profile *profile, int coll)
{
    static const struct mechanism switches[FABEMU_COLLS] = {
        [FABEMU_COLL_BARRIER] = {false, "combine units, multicast"},
        [FABEMU_COLL_BROADCAST] = {false, "multicast"},
        [FABEMU_COLL_REDUCE] = {false, "combine units"},
        [FABEMU_COLL_ALLREDUCE] = {false, "combine units, multicast"},
        [FABEMU_COLL_ALLGATHER] = {false, "multicasts"},
        [FABEMU_COLL_REDUCE_SCATTER] = {false, "combine units"},
        [FABEMU_COLL_GATHER] = {false, "combine units"},
        [FABEMU_COLL_SCATTER] = {false, "multicast"},
        [FABEMU_COLL_SCAN] = {false, "combine units, multicast"},
        [FABEMU_COLL_ALLTOALL] = {false, "combine units, multicast"},
        [FABEMU_COLL_NEIGHBOR] = {false, "none"},
    };
    static const struct mechanism adapters[FABEMU_COLLS] = {
        [FABEMU_COLL_BARRIER] = {true, "adapter tree, broadcast"},
        [FABEMU_COLL_BROADCAST] = {false, "broadcast"},
        [FABEMU_COLL_REDUCE] = {true, "adapter tree"},
        [FABEMU_COLL_ALLREDUCE] = {true, "adapter tree, broadcast"},
        [FABEMU_COLL_ALLGATHER] = {false, "broadcasts"},
        [FABEMU_COLL_REDUCE_SCATTER] = {true, "adapter tree"},
        [FABEMU_COLL_GATHER] = {true, "adapter tree"},
        [FABEMU_COLL_SCATTER] = {false, "broadcast"},
        [FABEMU_COLL_SCAN] = {true, "adapter tree, broadcast"},
        [FABEMU_COLL_ALLTOALL] = {true, "adapter tree, broadcast"},
        [FABEMU_COLL_NEIGHBOR] = {false, "none"},
    };

    if (emu_profile_switches_combine(profile))
        return switches[coll];
    if (coll == FABEMU_COLL_BARRIER && emu_profile_barrier_queries(profile))
        return (struct mechanism){false, "network conditional, broadcast"};
    return adapters[coll];
}

static struct json_object *collectives(const struct fabric_totals *totals,
                                       const struct emu_profile *profile)
{
    struct json_object *all = json_object_new_object();

    for (int coll = FABEMU_COLLS - 1; coll >= 0; coll--) {
        struct mechanism how = mechanism_of(profile, coll);
        struct json_object *one = json_object_new_object();
        struct json_object *why = json_object_new_object();
        uint64_t combined = totals->in_network[coll];
        uint64_t elsewhere = 0;
        for (int i = 0; i < FABEMU_WHYS; i++) {
            emu_sum(&elsewhere, totals->elsewhere[coll][i]);
            if (totals->elsewhere[coll][i])
                json_add_number(why, why_names[i], totals->elsewhere[coll][i]);
        }
        json_add_number(one, "in_switch", how.in_adapter ? 0 : combined);
        json_add_number(one, "in_adapter", how.in_adapter ? combined : 0);
        json_add_number(one, "elsewhere", elsewhere);
        json_object_object_add(one, "why", why);
        json_add_text(one, "mechanism", how.name);
        json_object_object_add(all, telemetry_collectives[coll], one);
    }
    return all;
}

static struct json_object *deaths(const struct daemon_record *record,
                                  const struct topo_graph *graph)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < record->deaths; i++) {
        const struct daemon_death *death = &record->death[i];
        struct json_object *one = json_object_new_object();
        json_add_node(one, graph, death->node);
        json_add_number(one, "pid", (uint64_t)death->pid);
        json_add_text(one, "command", death->command);
        json_add_text(one, "how", death->how);
        json_object_array_add(all, one);
    }
    return all;
}

static struct json_object *processes(const struct daemon_record *record)
{
    struct json_object *object = json_object_new_object();

    json_add_number(object, "attached", record->attaches);
    json_add_number(object, "peak", record->peak);
    json_add_number(object, "refused", record->refused);
    json_add_number(object, "cut_off", record->cut_off);
    json_add_number(object, "died", record->died);
    return json_add_number(object, "disconnects_unconfirmed", record->disconnects_unconfirmed);
}

static struct json_object *transport(const struct fabric_transport *of)
{
    struct json_object *object = json_object_new_object();

#define REPORTED(name) json_add_number(object, #name, of->name);
#include "nic/engine/counts.def"
    return object;
}

/* Build the counters of link-level retry, which profiles without acknowledgments may have. */
static struct json_object *link_retry(const struct switch_retries *of)
{
    struct json_object *object = json_object_new_object();

#define REPLAY(name) json_add_number(object, #name, of->name);
#define INTAKE(name) json_add_number(object, #name, of->name);
#include "switch/common/retries.def"
    return object;
}

static struct json_object *dropped(const struct fabric_totals *totals)
{
    struct json_object *object = json_object_new_object();

#define DROP(name, text) json_add_number(object, #name, totals->dropped_##name);
#include "apps/fabric/counters.def"
    return object;
}

/* --- timing accuracy on clock real ---------------------------------------------------- */

/* Return whether programs were on time (docs/manual.md). NULL: unknown. */
static struct json_object *on_time(const struct daemon_waits *waits, double factor)
{
    if (waits->late_ns > waits->attached_ns / REPORT_ON_TIME_SHARE ||
        factor < REPORT_ON_TIME_FACTOR)
        return json_object_new_boolean(false);
    return waits->attached_ns && !waits->unseen ? json_object_new_boolean(true) : NULL;
}

static struct json_object *programs(const struct daemon_waits *waits, double factor,
                                    const struct topo_graph *graph)
{
    struct json_object *all = json_object_new_object();
    struct json_object *longest = NULL;

    json_object_object_add(all, "on_time", on_time(waits, factor));
    json_add_number(all, "attached_ns", waits->attached_ns);
    json_add_number(all, "late_most_ns", waits->late_ns);
    json_add_number(all, "waited_ns", waits->programs_ns);
    json_add_number(all, "fabric_waited_ns", waits->fabric_ns);
    json_add_number(all, "hostif_full_ns", waits->full_ns);
    if (waits->longest_pid) {
        longest = json_add_node(json_object_new_object(), graph, waits->longest_node);
        json_add_number(longest, "pid", (uint64_t)waits->longest_pid);
        json_add_text(longest, "command", waits->longest_command);
        json_add_number(longest, "waited_ns", waits->longest_ns);
    }
    json_object_object_add(all, "longest", longest);
    json_add_number(all, "unseen", waits->unseen);
    return all;
}

static struct json_object *profile_set(const struct fabric_config *config)
{
    struct json_object *all = json_object_new_array();

    for (unsigned i = 0; i < config->set_count; i++)
        json_object_array_add(all, json_object_new_string(config->sets[i]));
    return all;
}

void report_network(struct json_object *all, const struct fabric_config *config)
{
    json_add_text(all, "topo", config->graph->spec);
    json_add_text(all, "profile", config->profile.name);
    if (config->graph->label)
        json_add_text(all, "up", topo_up_name(config->graph->up));
}

/* Build the field about the time for which processes computed, in simulated time (--compute). */
static struct json_object *compute(const struct fabric_config *config,
                                   const struct fabric_totals *totals)
{
    static const char *const names[] = {[EMU_COMPUTE_NONE] = "none",
                                        [EMU_COMPUTE_CPU] = "cpu",
                                        [EMU_COMPUTE_COUNT] = "count",
                                        [EMU_COMPUTE_RECORD] = "record",
                                        [EMU_COMPUTE_REPLAY] = "replay"};
    struct json_object *all = json_object_new_object();

    json_add_text(all, "mode", names[config->compute.mode]);
    json_object_object_add(all, "unit_ps", json_object_new_double(config->compute.unit_ps));
    json_add_number(all, "call_ps", config->profile.call_ps);
    json_add_number(all, "calls",
                    totals->calls_message + totals->calls_collective + totals->calls_one_sided);
    json_add_number(all, "computed_ns", totals->computed_ns);
    return json_add_number(all, "differing", totals->differing);
}

/*
 * Build the field about processes that slept outside the fabric. If there are any, the results are
 * not exact.
 */
static struct json_object *outside_sleeps(const struct daemon_sleeps *sleeps,
                                          const struct topo_graph *graph)
{
    struct json_object *all = json_object_new_object();

    json_add_number(all, "processes", sleeps->processes);
    json_add_number(all, "longest_ns", sleeps->longest_ns);
    json_object_object_add(all, "rank",
                           sleeps->rank < 0 ? NULL : json_object_new_int64(sleeps->rank));
    json_add_node(all, graph, sleeps->node);
    return all;
}

/* Build the field about processes that measured the host's time, and how. NULL: none did. */
static struct json_object *host_time(const struct daemon_host_time *record,
                                     const struct topo_graph *graph)
{
    static const struct {
        enum emu_host_time bit;
        const char *name;
    } hows[] = {{EMU_HOST_TIME_TIMERS, "timers"},
                {EMU_HOST_TIME_THREADS, "threads"},
                {EMU_HOST_TIME_CLOCKS, "clocks"}};
    struct json_object *all, *list;

    if (!record->processes)
        return NULL;
    all = json_add_number(json_object_new_object(), "processes", record->processes);
    json_object_object_add(all, "rank",
                           record->rank < 0 ? NULL : json_object_new_int64(record->rank));
    json_add_node(all, graph, record->node);
    list = json_object_new_array();
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++)
        if (record->how & hows[i].bit)
            json_object_array_add(list, json_object_new_string(hows[i].name));
    json_object_object_add(all, "by", list);
    return all;
}

/* Build the numbers of calls in simulated time, and the times of the waits after them. */
static struct json_object *calls(const struct fabric_totals *totals)
{
    struct json_object *all = json_object_new_object();
    const struct {
        const char *name;
        uint64_t calls, waited_ns;
    } classes[] = {
        {"message", totals->calls_message, totals->waited_message_ns},
        {"collective", totals->calls_collective, totals->waited_collective_ns},
        {"one_sided", totals->calls_one_sided, totals->waited_one_sided_ns},
    };

    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        struct json_object *one = json_object_new_object();

        json_add_number(one, "calls", classes[i].calls);
        json_add_number(one, "waited_ns", classes[i].waited_ns);
        json_object_object_add(all, classes[i].name, one);
    }
    return all;
}

static struct json_object *report_clock(struct fabric *fabric, const struct fabric_config *config,
                                        const struct daemon_record *record,
                                        const struct fabric_totals *totals)
{
    struct json_object *clock = json_object_new_object();
    double factor = totals->real_time_factor;

    json_add_text(clock, "mode", emu_clock_name(config->clock));
    if (config->clock == EMU_CLOCK_VIRTUAL) {
        json_add_number(clock, "simulated_ns", fabric_reached_ps(fabric) / 1000u);
        json_add_number(clock, "finished_ns", totals->finished_ns);
        json_object_object_add(clock, "calls", calls(totals));
        json_add_number(clock, "late_posts", totals->late_posts);
        json_add_number(clock, "outside_ns", totals->outside_ns);
        json_object_object_add(clock, "outside",
                               record->sleeps.processes
                                   ? outside_sleeps(&record->sleeps, config->graph)
                                   : NULL);
        json_object_object_add(clock, "host_time", host_time(&record->host_time, config->graph));
        json_object_object_add(clock, "compute", compute(config, totals));
    }
    json_object_object_add(clock, "real_time_factor",
                           json_object_new_double(isfinite(factor) ? factor : 0));
    return json_add_number(clock, "worst_lag_ns", totals->worst_lag_ns);
}

/* In simulated time, equal digests mean that all processes made equal calls at equal times. */
static void report_digest(struct json_object *report, const struct fabric_config *config,
                          const struct fabric_totals *totals)
{
    char digest[20];

    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)totals->digest);
    if (config->clock == EMU_CLOCK_VIRTUAL)
        json_add_text(report, "digest", digest);
    else
        json_object_object_add(report, "digest", NULL);
}

/* The objects of the report to which counters in counters.def belong. */
enum section { IN_REPORT, IN_SEGMENTS, IN_COMBINED };

static struct json_object *add_totals(struct json_object *object, enum section which,
                                      const struct fabric_totals *totals)
{
    const struct {
        enum section section;
        const char *name;
        uint64_t value;
    } all[] = {
#define TOTAL(name, section, shown, text) {section, #name, totals->name},
#include "apps/fabric/counters.def"
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].section == which)
            json_add_number(object, all[i].name, all[i].value);
    return object;
}

/* Return the ends of a direction of a cable, as in "switch 0:3 to node 3". */
static struct json_object *link_ends(const struct topo_graph *graph,
                                     const struct fabric_cable *cable, bool out)
{
    char first[32], second[32], text[80];

    snprintf(first, sizeof first, "switch %u:%u", cable->at.sw,
             topo_switch_port(graph, cable->at.sw, cable->at.port));
    if (cable->kind == TOPO_END_SWITCH)
        snprintf(second, sizeof second, "switch %u:%u", cable->peer.sw,
                 topo_switch_port(graph, cable->peer.sw, cable->peer.port));
    else
        snprintf(second, sizeof second, "node %u", cable->node);
    snprintf(text, sizeof text, "%s to %s", out ? first : second, out ? second : first);
    return json_object_new_string(text);
}

/* Summarize the load of all directions of cables whose sending end is on this host. */
static struct json_object *link_load(struct fabric *fabric)
{
    struct json_object *all = json_object_new_object();
    struct fabric_direction_sample sample;
    uint64_t links = 0, sum = 0, most = 0;
    uint32_t busiest = 0;

    for (uint32_t i = 0; i < 2 * fabric_cable_count(fabric); i++) {
        if (!fabric_sample_direction(fabric, i / 2, i % 2, &sample))
            continue;
        links++;
        sum += sample.segments;
        if (sample.segments > most) {
            most = sample.segments;
            busiest = i;
        }
    }
    json_add_number(all, "links", links);
    json_add_number(all, "segments", sum);
    json_add_number(all, "most", most);
    json_object_object_add(all, "most_at",
                           most ? link_ends(fabric_graph(fabric), fabric_cable(fabric, busiest / 2),
                                            busiest % 2)
                                : NULL);
    return all;
}

void report_traffic(struct json_object *report, const struct fabric_totals *totals)
{
    json_object_object_add(report, "segments",
                           add_totals(json_object_new_object(), IN_SEGMENTS, totals));
    json_object_object_add(report, "combined",
                           add_totals(json_object_new_object(), IN_COMBINED, totals));
}

/*
 * Build the summary of processes whose MPI messages use another transport. NULL: there are no such
 * processes.
 */
static struct json_object *outside(const struct daemon_record *record)
{
    if (!record->outside)
        return NULL;
    return json_add_text(json_add_number(json_object_new_object(), "processes", record->outside),
                         "why", record->outside_why);
}

static bool is_listed(struct json_object *list, const char *what)
{
    for (size_t i = 0; i < emu_json_count(list); i++)
        if (strcmp(emu_json_text(emu_json_at(list, i), "what", ""), what) == 0)
            return true;
    return false;
}

/* Build the list of refused requests. Each entry names the first process that made the request. */
static struct json_object *refusals(const struct daemon_record *record)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < record->refusals; i++) {
        const struct daemon_refusal *first = &record->refusal[i];
        uint32_t processes = 0;

        if (is_listed(list, first->what))
            continue;
        for (uint32_t j = i; j < record->refusals; j++)
            processes += strcmp(record->refusal[j].what, first->what) == 0;
        struct json_object *one = json_add_text(json_object_new_object(), "what", first->what);
        json_add_number(one, "processes", processes);
        json_object_object_add(one, "rank",
                               first->rank < 0 ? NULL : json_object_new_int64(first->rank));
        json_add_number(one, "pid", (uint64_t)first->pid);
        json_add_text(one, "command", first->command);
        json_object_array_add(list, one);
    }
    return list;
}

struct json_object *report_build(struct fabric *fabric, const struct fabric_config *config,
                                 const struct daemon_record *record)
{
    struct json_object *report = json_object_new_object();
    struct fabric_totals totals;

    fabric_totals_read(fabric, &totals);
    json_object_object_add(report, "command", NULL);
    json_object_object_add(report, "exit_status", NULL);
    json_object_object_add(report, "origin", origin_json(config));
    report_network(report, config);
    json_add_text(report, "profile_from", config->profile_from ? config->profile_from : "default");
    json_object_object_add(report, "profile_set", profile_set(config));
    json_object_object_add(report, "clock", report_clock(fabric, config, record, &totals));
    json_object_object_add(report, "programs",
                           config->clock == EMU_CLOCK_REAL
                               ? programs(&record->waits, totals.real_time_factor, config->graph)
                               : NULL);
    json_add_number(report, "threads", fabric_threads(fabric));
    json_add_number(report, "seed", config->seed);
    json_add_number(report, "nodes", config->graph->nodes);
    json_add_number(report, "switches", config->graph->switches);
    report_traffic(report, &totals);
    json_object_object_add(report, "link_load", link_load(fabric));
    json_object_object_add(report, "collectives", collectives(&totals, &config->profile));
    json_object_object_add(report, "communication", comm_build(fabric, config));
    add_totals(report, IN_REPORT, &totals);
    json_object_object_add(report, "drops", dropped(&totals));
    if (emu_profile_has_engines(&config->profile))
        json_object_object_add(report, "transport", transport(&totals.transport));
    if (emu_profile_retries(&config->profile))
        json_object_object_add(report, "link_retry", link_retry(&totals.retries));
    report_digest(report, config, &totals);
    json_object_object_add(report, "processes", processes(record));
    json_add_text(report, "provider", config->provider ? config->provider : PROVIDER_NAME);
    json_object_object_add(report, "outside", outside(record));
    json_object_object_add(report, "refusals", refusals(record));
    json_object_object_add(report, "died", deaths(record, config->graph));
    return report;
}
