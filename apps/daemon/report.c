/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c - the run report: the fabric's process builds it, the command prints it.
 *
 * Other programs rely on the JSON fields (docs/manual.md), so add fields but do not change them.
 */
#include "apps/daemon/report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/fabric/links.h"
#include "apps/fabric/origin.h"
#include "apps/fabric/sample.h"
#include "apps/base/message.h"
#include "apps/base/output.h"
#include "apps/control/conn.h"
#include "apps/telemetry/view.h"
#include "apps/timeline/timeline.h"
#include "nic/fabemu.h"
#include "nic/provider.h"

static_assert(FABEMU_COLLS == TELEMETRY_COLLECTIVES, "telemetry_collectives has a name for each");

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
            elsewhere += totals->elsewhere[coll][i];
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

    for (uint32_t i = 0; i < record->died && i < DAEMON_DEATHS_MAX; i++) {
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
    return json_add_number(object, "goodbyes_late", record->goodbyes_late);
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

/*
 * Programs were "on time" if they lost at most 1/ON_TIME_SHARE of the time, and if the fabric's
 * real-time factor was at least ON_TIME_FACTOR.
 */
#define ON_TIME_SHARE  100
#define ON_TIME_FACTOR 0.99

/* Return whether programs were on time (docs/manual.md). NULL: unknown. */
static struct json_object *on_time(const struct daemon_waits *waits, double factor)
{
    if (waits->late_ns > waits->attached_ns / ON_TIME_SHARE || factor < ON_TIME_FACTOR)
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

/* Build the summary of how the computing of processes counted in simulated time. */
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

/* Which processes slept outside the fabric, so that the results are not exact. */
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

/* Build the numbers of calls in simulated time, and how long processes waited after them. */
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
static struct json_object *link_ends(const struct fabric_cable *cable, bool out)
{
    char first[32], second[32], text[80];

    snprintf(first, sizeof first, "switch %u:%u", cable->at.sw, cable->at.port);
    if (cable->kind == TOPO_END_SWITCH)
        snprintf(second, sizeof second, "switch %u:%u", cable->peer.sw, cable->peer.port);
    else
        snprintf(second, sizeof second, "node %u", cable->node);
    snprintf(text, sizeof text, "%s to %s", out ? first : second, out ? second : first);
    return json_object_new_string(text);
}

/* Build the load of the links: of all directions of cables whose sending end is on this host. */
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
                           most ? link_ends(fabric_cable(fabric, busiest / 2), busiest % 2) : NULL);
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

/* Build the list of requests that were refused, each with its first process. */
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

/* --- as text -------------------------------------------------------------------------- */

static struct json_object *member(struct json_object *object, const char *name)
{
    return json_object_object_get(object, name); /* NULL if @object is NULL */
}

static long long number(struct json_object *object, const char *name)
{
    return (long long)json_object_get_int64(member(object, name));
}

static struct amount counted(struct json_object *object, const char *name)
{
    return amount_count((uint64_t)json_object_get_int64(member(object, name)));
}

struct counted_noun {
    char text[64];
};

/* Return a count with its noun: "1 hop", "2 hops". @one: the singular of a regular noun. */
static struct counted_noun counted_of(struct json_object *object, const char *name, const char *one)
{
    uint64_t count = (uint64_t)json_object_get_int64(member(object, name));
    struct counted_noun ret;

    snprintf(ret.text, sizeof ret.text, "%.30s %.30s%s", amount_count(count).text, one,
             plural_s(count));
    return ret;
}

static double real(struct json_object *object, const char *name)
{
    return json_object_get_double(member(object, name));
}

static const char *text(struct json_object *object, const char *name)
{
    const char *got = json_object_get_string(member(object, name));
    return got ? got : "";
}

static struct duration lasted(struct json_object *object, const char *name_ns)
{
    return duration_of_ns(real(object, name_ns));
}

static void print_collective(FILE *out, const char *name, struct json_object *one)
{
    fprintf(out, "    %-14s%9s %12s %12s", name, counted(one, "in_switch").text,
            counted(one, "in_adapter").text, counted(one, "elsewhere").text);
    struct json_object *why = member(one, "why");
    const char *before = "   (";
    if (json_object_is_type(why, json_type_object)) {
        json_object_object_foreach(why, reason, count)
        {
            fprintf(out, "%s%s %lld", before, reason, (long long)json_object_get_int64(count));
            before = ", ";
        }
        fputs(*before == ',' ? ")" : "", out);
    }
    if (number(one, "in_switch") || number(one, "in_adapter"))
        fprintf(out, "   by %s", text(one, "mechanism"));
    fputc('\n', out);
}

struct report_profile report_profile(struct json_object *report)
{
    struct json_object *set = member(report, "profile_set");
    size_t count = emu_json_count(set);
    struct report_profile ret;
    bool own = strcmp(text(report, "profile_from"), "network") == 0;

    int bytes = snprintf(ret.text, sizeof ret.text, "%s%s", text(report, "profile"),
                         own ? " (the network's own)" : "");
    for (size_t i = 0; i < count && bytes < (int)sizeof ret.text; i++)
        bytes += snprintf(ret.text + bytes, sizeof ret.text - (size_t)bytes, "%s%s",
                          i ? ", " : " with ", json_object_get_string(emu_json_at(set, i)));
    return ret;
}

/* Print how computing counted in simulated time. @compute: NULL on other clocks. */
static void print_compute(FILE *out, struct json_object *compute)
{
    if (strcmp(text(compute, "mode"), "none") == 0 || !compute)
        return;
    fprintf(out, "\n  computing    %s: %s in all processes, between %s calls",
            text(compute, "mode"), lasted(compute, "computed_ns").text,
            counted(compute, "calls").text);
    if (number(compute, "differing"))
        fprintf(out, ", NOT REPLAYED: %lld made other calls than those of the recording",
                number(compute, "differing"));
}

static void print_sleeps(FILE *out, struct json_object *clock)
{
    struct json_object *outside = member(clock, "outside");

    if (!number(clock, "outside_ns"))
        return;
    fprintf(out, ", not exact: processes slept outside the fabric for %s",
            lasted(clock, "outside_ns").text);
    if (member(outside, "rank"))
        fprintf(out, ", most of all rank %lld, for %s", number(outside, "rank"),
                lasted(outside, "longest_ns").text);
    else if (outside)
        fprintf(out, ", most of all the process of node %lld, for %s", number(outside, "node"),
                lasted(outside, "longest_ns").text);
}

static void print_fabric(FILE *out, struct json_object *report)
{
    struct json_object *clock = member(report, "clock");
    struct json_object *processes = member(report, "processes");
    long long threads = number(report, "threads");
    long long switches = number(report, "switches");

    fprintf(out, "  fabric       %s: %lld nodes, %lld switch%s, profile %s, %lld thread%s\n",
            text(report, "topo"), number(report, "nodes"), switches, plural_es(switches),
            report_profile(report).text, threads, plural_s(threads));
    fprintf(out, "  clock        %s", text(clock, "mode"));
    if (strcmp(text(clock, "mode"), "real") == 0)
        fprintf(out, ": real-time factor %.3f, worst lag %s", real(clock, "real_time_factor"),
                lasted(clock, "worst_lag_ns").text);
    if (member(clock, "simulated_ns"))
        fprintf(out, ": %s simulated, finished after %s, digest %s",
                lasted(clock, "simulated_ns").text, lasted(clock, "finished_ns").text,
                text(report, "digest"));
    if (number(clock, "late_posts"))
        fprintf(out, ", not exact: %s posted too late for their time",
                counted_of(clock, "late_posts", "segment").text);
    print_sleeps(out, clock);
    print_compute(out, member(clock, "compute"));
    fprintf(out, "\n  processes    %lld attached, %lld at the same time",
            number(processes, "attached"), number(processes, "peak"));
    if (number(processes, "refused"))
        fprintf(out, ", %lld attempt%s to attach failed", number(processes, "refused"),
                plural_s(number(processes, "refused")));
    if (number(processes, "cut_off"))
        fprintf(out, ", %lld cut off: did not take their segments", number(processes, "cut_off"));
    if (number(processes, "goodbyes_late"))
        fprintf(out, ", %s not complete in time",
                counted_of(processes, "goodbyes_late", "disconnect").text);
    fputc('\n', out);
}

/* Print whether programs measured the network's times, and the largest possible error. */
static void print_programs(FILE *out, struct json_object *programs, double factor)
{
    struct json_object *longest = member(programs, "longest");
    struct json_object *verdict = member(programs, "on_time");
    double attached_ns = real(programs, "attached_ns"), late_ns = real(programs, "late_most_ns");
    bool late = verdict && !json_object_get_boolean(verdict);
    long long unseen = number(programs, "unseen");
    char node[TOPO_SHOWN_BYTES];

    if (!(attached_ns > 0))
        return;
    fprintf(out, "  programs     %s: up to %s of %s (%.1f %%) lost waiting for cores\n",
            late      ? "NOT on time"
            : verdict ? "on time"
                      : "on time, as far as is known",
            duration_of_ns(late_ns).text, duration_of_ns(attached_ns).text,
            100 * late_ns / attached_ns);
    if (late)
        fputs("               what they measured may be this host's speed, not the network's\n",
              out);
    if (late && longest)
        fprintf(out,
                "               the threads of %s waited longest, %s together (%s, pid %lld)\n",
                json_show_node(longest, node), lasted(longest, "waited_ns").text,
                text(longest, "command"), number(longest, "pid"));
    if (number(programs, "hostif_full_ns"))
        fprintf(out, "               segments waited %s for space in receive rings of processes\n",
                lasted(programs, "hostif_full_ns").text);
    if (factor < ON_TIME_FACTOR)
        fputs("               the fabric itself was late: see the real-time factor\n", out);
    if (unseen)
        fprintf(
            out,
            "               the waits of %lld process%s are unknown: not visible from this host\n",
            unseen, plural_es(unseen));
}

static void print_provider(FILE *out, const char *name)
{
    if (*name && strcmp(name, PROVIDER_NAME) != 0)
        fprintf(out, "  provider     libfabric programs see the provider '%s', which is fabemu\n",
                name);
}

static void print_outside(FILE *out, struct json_object *one)
{
    if (one)
        fprintf(
            out,
            "  outside      MPI messages of %lld process%s do not pass through the fabric: %s\n",
            number(one, "processes"), plural_es(number(one, "processes")), text(one, "why"));
}

static void print_refusals(FILE *out, struct json_object *list)
{
    for (size_t i = 0; i < emu_json_count(list); i++) {
        struct json_object *one = emu_json_at(list, i);
        int64_t rank = emu_json_number(one, "rank", -1);
        long long more = number(one, "processes") - 1;

        fprintf(out, "  %s fi_getinfo() of ", i ? "            " : "refused     ");
        if (rank >= 0)
            fprintf(out, "rank %lld, ", (long long)rank);
        fprintf(out, "pid %lld (%s)", number(one, "pid"), text(one, "command"));
        if (more > 0)
            fprintf(out, " and %lld more process%s", more, plural_es(more));
        fprintf(out, ": the provider does not support the %s\n", text(one, "what"));
    }
}

static void print_deaths(FILE *out, struct json_object *report)
{
    struct json_object *died = member(report, "died");
    size_t count = emu_json_count(died);

    for (size_t i = 0; i < count && i < 4; i++) {
        struct json_object *one = emu_json_at(died, i);
        char node[TOPO_SHOWN_BYTES];
        fprintf(out, "  %s %s (pid %lld, %s): %s\n", i ? "            " : "died        ",
                json_show_node(one, node), number(one, "pid"), text(one, "command"),
                text(one, "how"));
    }
    if (count > 4)
        fprintf(out, "               and %zu more\n", count - 4);
}

static void print_transport(FILE *out, struct json_object *transport)
{
    if (!transport)
        return;
    fprintf(out, "\n  packets      %s sent, %s sent again (%s refused, %s without a reply)",
            counted(transport, "packets").text, counted(transport, "retransmissions").text,
            counted(transport, "nacks").text, counted(transport, "timeouts").text);
    if (number(transport, "lost"))
        fprintf(out, ", %s given up", counted_of(transport, "lost", "segment").text);
    if (number(transport, "refused"))
        fprintf(out, ", %s refused", counted_of(transport, "refused", "segment").text);
    if (number(transport, "conditionals"))
        fprintf(out,
                "\n  conditionals %s sent, %s answered false: some members had not entered yet",
                counted(transport, "conditionals").text, counted(transport, "unequal").text);
}

static void print_link_retry(FILE *out, struct json_object *retry)
{
    if (!retry)
        return;
    fprintf(out, "\n  link retry   %s sent again (%s, %s without an answer)",
            counted_of(retry, "again", "segment").text, counted_of(retry, "asked", "request").text,
            counted(retry, "timeouts").text);
    if (number(retry, "lost"))
        fprintf(out, ", %lld lost", number(retry, "lost"));
}

/* Print the failed combine units, and the groups and pairs that lost segments for good. */
static void print_losses(FILE *out, struct json_object *drops)
{
    if (number(drops, "units_out"))
        fprintf(out, "  units        %s taken out of service, %lld back in service; %s moved\n",
                counted_of(drops, "units_out", "combine unit").text, number(drops, "units_back"),
                counted_of(drops, "groups_moved", "group").text);
    if (number(drops, "groups_failed") || number(drops, "pairs_reported"))
        fprintf(out, "  lost         %s failed, %s of processes lost segments; %s, %s\n",
                counted_of(drops, "groups_failed", "group").text,
                counted_of(drops, "pairs_reported", "pair").text,
                counted_of(drops, "states_damaged", "parity error").text,
                counted_of(drops, "overruns", "overrun").text);
}

/*
 * Return whether the fault took links down, while all pairs of nodes still had another route. It
 * does not matter whether traffic has used these routes.
 */
static bool routes_changed(struct json_object *fault, struct json_object *links)
{
    return strstr(text(fault, "hits_are"), "in transit") && number(links, "new_tables") &&
           !number(links, "partitioned");
}

static void print_faults(FILE *out, struct json_object *report)
{
    struct json_object *faults = member(report, "faults"), *links = member(report, "links");

    for (size_t i = 0; i < emu_json_count(faults); i++) {
        struct json_object *fault = emu_json_at(faults, i);

        fprintf(out, "  fault %-6lld %s: %s", number(fault, "fault"),
                json_object_get_string(member(fault, "text")),
                number(fault, "times") ? "" : "did not begin");
        if (number(fault, "times"))
            fprintf(out, "%lld time%s, %s: %lld%s", number(fault, "times"),
                    plural_s(number(fault, "times")), text(fault, "hits_are"),
                    number(fault, "hits"),
                    routes_changed(fault, links) ? "; routes were changed" : "");
        fputc('\n', out);
    }
    struct json_object *past = member(report, "past_faults");
    if (number(past, "faults"))
        fprintf(out, "  faults       %lld more that ended: %s, %s\n", number(past, "faults"),
                counted_of(past, "times", "time").text, counted_of(past, "hits", "hit").text);
    print_losses(out, member(report, "unrecoverable"));
    if (!links)
        return;
    fprintf(out, "  links        %lld lost, %lld up again, %lld taken out, %lld out now\n",
            number(links, "lost"), number(links, "up_again"), number(links, "taken_out"),
            number(links, "out_now"));
    if (number(links, "new_tables"))
        fprintf(out, "  tables       new %lld time%s, %s after a change on average, %s at most\n",
                number(links, "new_tables"), plural_s(number(links, "new_tables")),
                duration_of_ns((double)number(links, "recovery_mean_ns")).text,
                duration_of_ns((double)number(links, "recovery_longest_ns")).text);
    if (number(links, "trees_moved") || number(links, "rerouted"))
        fprintf(out, "  moved        trees: %s; segments rerouted around links that were out: %s\n",
                counted(links, "trees_moved").text, counted(links, "rerouted").text);
}

static void print_host(FILE *out, struct json_object *host)
{
    struct json_object *links = member(host, "links");

    fprintf(out, "  host %-7s %s, ", text(host, "host"), text(host, "state"));
    if (number(host, "attached")) /* at the end of a run no process is attached */
        fprintf(out, "%lld of ", number(host, "attached"));
    fprintf(out, "%s%s\n", counted_of(host, "nodes", "node").text,
            number(host, "attached") ? " attached" : "");
    fprintf(out, "               %s, %s, %s\n",
            counted_of(member(host, "segments"), "hops", "hop").text,
            counted_of(member(host, "combined"), "contributions", "contribution").text,
            counted_of(member(host, "combined"), "results", "result").text);
    for (size_t i = 0; i < emu_json_count(links); i++) {
        struct json_object *link = emu_json_at(links, i);

        fprintf(out,
                "               to %s: %s, %s sent in %s, %lld again; %lld dropped, round trip %s",
                text(link, "host"), counted_of(link, "cables", "cable").text,
                counted_of(link, "segments_sent", "segment").text,
                counted_of(link, "frames_sent", "frame").text, number(link, "sent_again"),
                number(link, "dropped"), lasted(link, "round_trip_ns").text);
        if (number(link, "clock_error_ns"))
            fprintf(out, ", clock offset known to within %s", lasted(link, "clock_error_ns").text);
        fputc('\n', out);
    }
}

/* Print the violated invariants that the check at the end of a run has found. */
static void print_check(FILE *out, struct json_object *check)
{
    struct json_object *wrong = check ? member(check, "wrong") : NULL;
    size_t count = emu_json_count(wrong);

    for (size_t i = 0; i < count; i++)
        fprintf(out, "  %s %s\n", i ? "            " : "NOT RIGHT   ",
                json_object_get_string(emu_json_at(wrong, i)));
}

/* Print the counters of an object in a line like "5 sent, 3 delivered, 9 hops". */
static void print_counts(FILE *out, const char *title, struct json_object *counts)
{
    const char *before = title;

    if (json_object_is_type(counts, json_type_object)) {
        json_object_object_foreach(counts, name, count)
        {
            size_t length = strlen(name);

            if (json_object_get_int64(count) == 1 && name[length - 1] == 's') /* "1 hop" */
                length--;
            fprintf(out, "%s%s %.*s", before, counted(counts, name).text, (int)length, name);
            before = ", ";
        }
    }
    fputc('\n', out);
}

static void print_drops(FILE *out, struct json_object *report)
{
    static const struct {
        const char *name, *text;
    } why[] = {
#define DROP(name, text) {#name, text},
#include "apps/fabric/counters.def"
    };
    struct json_object *drops = member(report, "drops");

    fprintf(out, "  dropped      %s", counted(report, "dropped").text);
    if (!number(report, "dropped"))
        return;
    for (size_t i = 0; i < sizeof why / sizeof why[0]; i++)
        fprintf(out, "%s%s %lld", i ? ", " : " (", why[i].text, number(drops, why[i].name));
    fputc(')', out);
}

void report_print(FILE *out, struct json_object *report)
{
    struct json_object *hosts = member(report, "hosts");

    fputs("fabemu: report\n", out);
    origin_print(out, member(report, "origin"), "  origin       ", "               ");
    if (member(report, "exit_status"))
        fprintf(out, "  command      exit status %lld after %s\n", number(report, "exit_status"),
                duration_of_ns(real(report, "wall_s") * 1e9).text);
    print_fabric(out, report);
    if (number(report, "standstill_ns"))
        fprintf(out, "  standstill   nothing moved for %s\n", lasted(report, "standstill_ns").text);
    if (member(report, "programs"))
        print_programs(out, member(report, "programs"),
                       real(member(report, "clock"), "real_time_factor"));
    print_counts(out, "  segments     ", member(report, "segments"));
    fprintf(out, "  stalls       %s for lack of a credit\n", counted(report, "credit_stalls").text);
    print_drops(out, report);
    print_transport(out, member(report, "transport"));
    print_link_retry(out, member(report, "link_retry"));
    print_counts(out, "\n  combining    ", member(report, "combined"));
    fprintf(out, "  collectives   in switches  in adapters    elsewhere\n");
    for (int coll = 0; coll < FABEMU_COLLS; coll++) {
        struct json_object *one =
            member(member(report, "collectives"), telemetry_collectives[coll]);

        if (coll <= FABEMU_COLL_ALLREDUCE || number(one, "in_switch") ||
            number(one, "in_adapter") || number(one, "elsewhere"))
            print_collective(out, telemetry_collectives[coll], one);
    }
    comm_print(out, member(report, "communication"));
    print_provider(out, text(report, "provider"));
    print_outside(out, member(report, "outside"));
    print_refusals(out, member(report, "refusals"));
    timeline_print(out, member(report, "timeline"));
    print_faults(out, report);
    for (size_t i = 0; i < emu_json_count(hosts); i++)
        print_host(out, emu_json_at(hosts, i));
    print_deaths(out, report);
    print_check(out, member(report, "check"));
}

int report_write(int fd, const char *path, struct json_object *report)
{
    const char *text = json_object_to_json_string_ext(report, JSON_C_TO_STRING_PRETTY |
                                                                  JSON_C_TO_STRING_SPACED |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE);

    int err = output_begin(fd);

    if (!err && dprintf(fd, "%s\n", text) < 0)
        err = -errno;
    if (!err || err == -EPIPE) /* it is not an error if the reader of a pipe closes it */
        return 0;
    print_message("cannot write the report to %s: %s", path, strerror(-err));
    return err;
}
