/* SPDX-License-Identifier: BSD-3-Clause */
/* report_print.c - print the run report, which report.c builds, as text or JSON. */
#include "apps/daemon/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/base/message.h"
#include "apps/base/output.h"
#include "apps/control/conn.h"
#include "apps/fabric/origin.h"
#include "apps/telemetry/view.h"
#include "apps/timeline/timeline.h"
#include "nic/fabemu.h"
#include "nic/provider.h"

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

#define INDENT "               " /* as wide as the title of a line */

static void print_collective(FILE *out, const char *name, struct json_object *one)
{
    struct json_object *why = member(one, "why");
    const char *before = "  (";

    fprintf(out, "    %-14s%9s %11s %10s", name, counted(one, "in_switch").text,
            counted(one, "in_adapter").text, counted(one, "elsewhere").text);
    if (number(one, "in_switch") || number(one, "in_adapter"))
        fprintf(out, "  by %s", text(one, "mechanism"));
    if (json_object_is_type(why, json_type_object)) {
        size_t left = (size_t)json_object_object_length(why);

        json_object_object_foreach(why, reason, count)
        {
            fprintf(out, "%s%s %s%s", before, reason,
                    amount_count((uint64_t)json_object_get_int64(count)).text, --left ? "," : ")");
            before = " ";
        }
    }
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

/* Print for how long processes computed, in simulated time. @compute: NULL on other clocks. */
static void print_compute(FILE *out, struct json_object *compute)
{
    if (strcmp(text(compute, "mode"), "none") == 0 || !compute)
        return;
    fprintf(out, "\n  computing    %s: %s in all processes, between %s calls",
            text(compute, "mode"), lasted(compute, "computed_ns").text,
            counted(compute, "calls").text);
    if (number(compute, "differing"))
        fprintf(out, ", NOT REPLAYED: %lld process%s made other calls than those of the recording",
                number(compute, "differing"), plural_es(number(compute, "differing")));
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

/* Describe the means by which a process measures the host's time. @name: from field "by". */
static const char *host_time_by(const char *name)
{
    return strcmp(name, "timers") == 0    ? "timers"
           : strcmp(name, "threads") == 0 ? "threads that sleep or wait"
                                          : "clocks, since libfabemu-clock is not loaded";
}

static void print_host_time(FILE *out, struct json_object *clock)
{
    struct json_object *host_time = member(clock, "host_time"), *by = member(host_time, "by");
    long long processes = number(host_time, "processes");

    if (!host_time)
        return;
    fprintf(out, ", not exact: ");
    if (member(host_time, "rank"))
        fprintf(out, "rank %lld", number(host_time, "rank"));
    else
        fprintf(out, "the process of node %lld", number(host_time, "node"));
    if (processes > 1)
        fprintf(out, " and %lld other%s use", processes - 1, plural_s(processes - 1));
    fprintf(out, "%s the host's time, by ", processes > 1 ? "" : " uses");
    for (size_t i = 0; i < emu_json_count(by); i++) {
        const char *name = json_object_get_string(emu_json_at(by, i));

        fprintf(out, "%s%s", i ? " and " : "", host_time_by(name ? name : ""));
    }
}

static void print_fabric(FILE *out, struct json_object *report)
{
    struct json_object *clock = member(report, "clock");
    struct json_object *processes = member(report, "processes");
    long long threads = number(report, "threads");
    long long switches = number(report, "switches");
    bool finished = number(clock, "finished_ns");

    fprintf(out, "  fabric       %s: %s nodes, %s switch%s, profile %s, %lld thread%s\n",
            text(report, "topo"), counted(report, "nodes").text, counted(report, "switches").text,
            plural_es(switches), report_profile(report).text, threads, plural_s(threads));
    fprintf(out, "  clock        %s", text(clock, "mode"));
    if (strcmp(text(clock, "mode"), "real") == 0)
        fprintf(out, ": real-time factor %.3f, worst lag %s", real(clock, "real_time_factor"),
                lasted(clock, "worst_lag_ns").text);
    if (member(clock, "simulated_ns"))
        fprintf(out, ": %s simulated, %s%s, digest %s", lasted(clock, "simulated_ns").text,
                finished ? "finished after " : "no process has finished",
                finished ? lasted(clock, "finished_ns").text : "", text(report, "digest"));
    if (number(clock, "late_posts"))
        fprintf(out, ", not exact: %s posted too late for their time",
                counted_of(clock, "late_posts", "segment").text);
    print_sleeps(out, clock);
    print_host_time(out, clock);
    print_compute(out, member(clock, "compute"));
    fprintf(out, "\n  processes    %lld attached, %lld at the same time",
            number(processes, "attached"), number(processes, "peak"));
    if (number(processes, "refused"))
        fprintf(out, ", %lld attempt%s to attach failed", number(processes, "refused"),
                plural_s(number(processes, "refused")));
    if (number(processes, "cut_off"))
        fprintf(out, ", %lld cut off for not reading segments", number(processes, "cut_off"));
    if (number(processes, "disconnects_unconfirmed"))
        fprintf(out, ", %s not complete in time",
                counted_of(processes, "disconnects_unconfirmed", "disconnect").text);
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
        fputs("               their measurements may show this host's speed, not the network's\n",
              out);
    if (late && longest)
        fprintf(out,
                "               the threads of %s waited longest, %s together (%s, pid %lld)\n",
                json_show_node(longest, node), lasted(longest, "waited_ns").text,
                text(longest, "command"), number(longest, "pid"));
    if (number(programs, "hostif_full_ns"))
        fprintf(out, "               segments waited %s for space in receive rings of processes\n",
                lasted(programs, "hostif_full_ns").text);
    if (factor < REPORT_ON_TIME_FACTOR)
        fputs("               the fabric itself was late: see the real-time factor\n", out);
    if (unseen)
        fprintf(out,
                "               the waits of %lld process%s are unknown, because this host cannot "
                "see them\n",
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
    long long more = number(member(report, "processes"), "died");

    for (size_t i = 0; i < emu_json_count(died) && i < 4; i++, more--) {
        struct json_object *one = emu_json_at(died, i);
        char node[TOPO_SHOWN_BYTES];
        fprintf(out, "  %s %s (pid %lld, %s): %s\n", i ? "            " : "died        ",
                json_show_node(one, node), number(one, "pid"), text(one, "command"),
                text(one, "how"));
    }
    if (more > 0) /* the list may be shorter than the number */
        fprintf(out, "               and %lld more\n", more);
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

            if (json_object_get_int64(count) == 1 && length &&
                name[length - 1] == 's') /* "1 hop" */
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

/*
 * The network executes some collectives by others, and the table of calls counts only these others.
 * Print a line about them, because otherwise the two tables would seem to contradict each other.
 */
static void print_counted_as(FILE *out, struct json_object *collectives)
{
    static const char *const others[FABEMU_COLLS] = {
        [FABEMU_COLL_ALLGATHER] = "broadcast",
        [FABEMU_COLL_REDUCE_SCATTER] = "reduce",
        [FABEMU_COLL_GATHER] = "reduce",
        [FABEMU_COLL_SCATTER] = "broadcast",
        [FABEMU_COLL_SCAN] = "allreduce or broadcast",
        [FABEMU_COLL_ALLTOALL] = "allreduce or broadcast",
    };
    bool any = false;

    for (int coll = 0; coll < FABEMU_COLLS; coll++) {
        const char *name = telemetry_collectives[coll];
        struct json_object *one = member(collectives, name);

        if (!others[coll] || !(number(one, "in_switch") || number(one, "in_adapter")))
            continue;
        fprintf(out, "%s%s counts as %s", any ? ", " : "    calls below: ", name, others[coll]);
        any = true;
    }
    if (any)
        fputc('\n', out);
}

void report_print(FILE *out, struct json_object *report)
{
    struct json_object *hosts = member(report, "hosts");
    struct fold fold;

    fputs("fabemu: report\n", out);
    origin_print(out, member(report, "origin"), "  origin       ", INDENT, FOLD_COLUMNS);
    out = fold_begin(&fold, out, INDENT, FOLD_COLUMNS);
    if (member(report, "exit_status"))
        fprintf(out, "  command      exit status %lld after %s\n", number(report, "exit_status"),
                duration_of_ns(real(report, "wall_s") * 1e9).text);
    else if (member(report, "wall_s"))
        fprintf(out, "  command      not started\n");
    print_fabric(out, report);
    if (number(report, "standstill_ns"))
        fprintf(out, "  standstill   nothing moved for %s%s\n",
                lasted(report, "standstill_ns").text,
                strcmp(text(member(report, "clock"), "mode"), "virtual") == 0 ? " of simulated time"
                                                                              : "");
    if (member(report, "programs"))
        print_programs(out, member(report, "programs"),
                       real(member(report, "clock"), "real_time_factor"));
    print_counts(out, "  segments     ", member(report, "segments"));
    fprintf(out, "  stalls       %s for lack of a credit\n", counted(report, "credit_stalls").text);
    print_drops(out, report);
    print_transport(out, member(report, "transport"));
    print_link_retry(out, member(report, "link_retry"));
    print_counts(out, "\n  combining    ", member(report, "combined"));
    fprintf(out, "  %-14s%11s %11s %10s\n", "collectives", "in switches", "in adapters",
            "elsewhere");
    for (int coll = 0; coll < FABEMU_COLLS; coll++) {
        struct json_object *one =
            member(member(report, "collectives"), telemetry_collectives[coll]);

        if (coll <= FABEMU_COLL_ALLREDUCE || number(one, "in_switch") ||
            number(one, "in_adapter") || number(one, "elsewhere"))
            print_collective(out, telemetry_collectives[coll], one);
    }
    print_counted_as(out, member(report, "collectives"));
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
    fold_end(&fold);
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
