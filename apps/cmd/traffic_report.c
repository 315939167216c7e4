/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_report.c - the reports of the runs of `fabemu traffic`.
 *
 * Users' programs rely on the fields of the JSON (docs/traffic.md), so add fields, but do not
 * change them.
 */
#include "apps/cmd/traffic.h"

#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/fabric/origin.h"
#include "apps/daemon/report.h"
#include "apps/traffic/workload/relay.h"
#include "apps/control/conn.h"

#define INDENT          "               " /* as wide as the title of a line */
#define LATENCY_COLUMNS 10                /* width of a latency in the table of loads */

static double ns(uint64_t ps)
{
    return (double)ps / 1000;
}

static double per(double value, double by)
{
    return by > 0 ? value / by : 0;
}

static double load_of(const struct traffic_config *config)
{
    return (double)config->load / TRAFFIC_LOAD_UNIT;
}

/* --- JSON --------------------------------------------------------------------------- */

static void add(struct json_object *object, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", value);
    json_object_object_add(object, name, json_object_new_double_s(value, text));
}

/* Add a time in ns. It gets three decimals, so that it is exact to the ps. */
static void add_ns(struct json_object *object, const char *name, uint64_t ps)
{
    char text[32];

    snprintf(text, sizeof text, "%llu.%03u", (unsigned long long)(ps / 1000),
             (unsigned)(ps % 1000));
    json_object_object_add(object, name, json_object_new_double_s(ns(ps), text));
}

static struct json_object *latency_json(const struct traffic_latency *latency)
{
    struct json_object *object = json_object_new_object();
    const struct {
        const char *name;
        uint64_t ps;
    } times[] = {
        {"mean", latency->mean_ps}, {"min", latency->least_ps}, {"median", latency->median_ps},
        {"p99", latency->p99_ps},   {"max", latency->most_ps},
    };

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (latency->messages)
            add_ns(object, times[i].name, times[i].ps);
        else
            json_object_object_add(object, times[i].name, NULL);
    }
    if (latency->messages && latency->mean_ci95_ps >= 0)
        add(object, "mean_ci95", latency->mean_ci95_ps / 1000);
    else
        json_object_object_add(object, "mean_ci95", NULL);
    return object;
}

static void add_rates(struct json_object *all, const char *name, const struct traffic_rates *rates,
                      double unit)
{
    struct json_object *object = json_object_new_object();

    add(object, "mean", unit * rates->mean);
    add(object, "min", unit * rates->least);
    add(object, "max", unit * rates->most);
    json_object_object_add(all, name, object);
}

/* Return the value of --multicast, such as "tree:4". @text: a buffer for it. */
static const char *multicast_of(const struct traffic_config *config, char *text, size_t bytes)
{
    if (!config->by_messages)
        return "hardware";
    if (config->arity == TRAFFIC_TREE_FLAT)
        return "messages";
    if (config->arity == TRAFFIC_TREE_BINOMIAL)
        return "tree";
    snprintf(text, bytes, "tree:%u", config->arity);
    return text;
}

static struct json_object *series_json(const struct traffic_series *series)
{
    struct json_object *object = json_object_new_object();
    struct json_object *bytes = json_object_new_array();

    add_ns(object, "window_ns", series->window_ps);
    for (uint32_t i = 0; i < series->windows; i++)
        json_object_array_add(bytes, json_object_new_uint64(series->bytes[i]));
    json_object_object_add(object, "payload_bytes", bytes);
    return object;
}

static void open_loop_json(struct json_object *all, const struct traffic_result *result,
                           const struct traffic_config *config)
{
    char how[16];

    add(all, "load", load_of(config));
    add(all, "offered", result->offered);
    add(all, "accepted", result->accepted.mean);
    add(all, "accepted_ci95", result->accepted.ci95);
    add(all, "delivered", result->delivered);
    add_rates(all, "source_messages_per_s", &result->from, 1);
    add_rates(all, "source_bytes_per_s", &result->from, (double)result->bytes);
    json_object_object_add(all, "saturated", json_object_new_boolean(result->saturated));
    json_object_object_add(all, "steady", json_object_new_boolean(result->steady));
    json_add_number(all, "senders", result->senders);
    json_add_number(all, "undelivered", result->undelivered);
    json_object_object_add(all, "backlog", json_object_new_int64(result->backlog));
    json_add_text(all, "arrivals", config->fixed_gaps ? "fixed" : "poisson");
    add_ns(all, "warmup_ns", result->warmup_ps);
    add_ns(all, "measure_ns", result->measure_ps);
    if (result->series.bytes)
        json_object_object_add(all, "series", series_json(&result->series));
    if (!result->multicast)
        return;
    add(all, "fanout", result->fanout);
    json_add_text(all, "multicast", multicast_of(config, how, sizeof how));
    json_object_object_add(all, "completion_ns", latency_json(&result->completion));
}

/* Return the fraction of a hot spot, rounded to 9 decimals as in --pattern. */
static double hot_fraction(const struct traffic_pattern *pattern)
{
    return (double)(uint64_t)(pattern->share / 4.294967296 + 0.5) / 1e9;
}

/* Return all parameters of a pattern, including defaults that --pattern did not set. */
static struct json_object *parameters_json(const struct traffic_result *result,
                                           const struct traffic_config *config)
{
    const struct traffic_pattern *pattern = &config->pattern;
    struct json_object *all = json_object_new_object();

    if (pattern->kind == TRAFFIC_HOTSPOT) {
        json_add_number(all, "node", pattern->hot);
        add(all, "fraction", hot_fraction(pattern));
    } else if (pattern->kind == TRAFFIC_PERMUTATION) {
        json_add_number(all, "number", pattern->number);
    } else if (pattern->kind == TRAFFIC_MULTICAST) {
        json_add_text(all, "fanout_law", traffic_distribution_name(config->law));
        json_add_number(all, "sets", result->sets);
    }
    return all;
}

struct collective_text {
    char text[24];
};

/* Return the value of --collective, such as "tree:4". */
static struct collective_text collective_of(const struct traffic_config *config)
{
    static const char *const names[] = {[TRAFFIC_BY_HARDWARE] = "hardware",
                                        [TRAFFIC_BY_DISSEMINATION] = "dissemination",
                                        [TRAFFIC_BY_TREE] = "tree"};

    struct collective_text ret;

    if (config->radix)
        snprintf(ret.text, sizeof ret.text, "%s:%u", names[config->by], config->radix);
    else
        snprintf(ret.text, sizeof ret.text, "%s", names[config->by]);
    return ret;
}

/* Return the payload that all servers of the file system receive per second. */
static double storage_bytes_per_s(const struct traffic_result *result)
{
    return per((double)result->storage_bytes, (double)result->virtual_ps / 1e12);
}

/* Set the fields about the load for a run that has no load: offered and accepted are null. */
static void no_load_json(struct json_object *all)
{
    json_object_object_add(all, "offered", NULL);
    json_object_object_add(all, "accepted", NULL);
    json_object_object_add(all, "saturated", json_object_new_boolean(false));
}

static void collective_json(struct json_object *all, const struct traffic_result *result,
                            const struct traffic_config *config)
{
    struct json_object *one = json_object_new_object();

    json_add_number(one, "operations", result->latency.messages);
    json_add_number(one, "groups", result->groups);
    json_add_number(one, "group_size", result->members);
    add_ns(one, "mean_ns", result->latency.mean_ps);
    add_ns(one, "min_ns", result->latency.least_ps);
    add_ns(one, "max_ns", result->latency.most_ps);
    json_add_text(one, "by", collective_of(config).text);
    json_add_number(one, "processes", config->processes);
    add_ns(one, "noise_period_ns", config->noise.period_ps);
    add_ns(one, "noise_length_ns", config->noise.length_ps);
    if (result->servers)
        add(one, "storage_bytes_per_s", storage_bytes_per_s(result));
    no_load_json(all);
    json_object_object_add(all, "collectives", one);
}

static struct json_object *range_json(const struct traffic_range *range)
{
    struct json_object *object = json_object_new_object();

    add_ns(object, "min", range->least_ps);
    add_ns(object, "median", range->median_ps);
    add_ns(object, "max", range->most_ps);
    return object;
}

static void goal_json(struct json_object *all, const struct traffic_result *result,
                      const struct traffic_title *title)
{
    const struct traffic_goal *goal = &result->goal;
    struct json_object *one = json_object_new_object();

    json_add_text(one, "file", title->goal);
    json_add_number(one, "ranks", goal->ranks);
    json_add_number(one, "operations", goal->operations);
    json_add_number(one, "messages", goal->messages);
    json_add_number(one, "bytes", goal->bytes);
    json_add_number(one, "collectives", goal->collectives);
    add_ns(one, "completion_ns", goal->finish_ps.most_ps);
    json_object_object_add(one, "finish_ns", range_json(&goal->finish_ps));
    json_object_object_add(one, "blocked_ns", range_json(&goal->blocked_ps));
    no_load_json(all);
    json_object_object_add(all, "goal", one);
}

static struct json_object *changes_json(const struct traffic_faults_seen *seen)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < seen->changes; i++) {
        struct json_object *one = json_object_new_object();
        add_ns(one, "at_ns", seen->change[i].at_ps);
        json_add_number(one, "links_out", seen->change[i].links_out);
        json_object_object_add(one, "new_tables", json_object_new_boolean(seen->change[i].tables));
        json_object_array_add(all, one);
    }
    return all;
}

static struct json_object *faults_json(const struct traffic_faults_seen *seen)
{
    struct json_object *all = json_object_new_object();

    json_add_number(all, "faults", seen->all);
    json_add_number(all, "begun", seen->begun);
    json_add_number(all, "hit", seen->hit);
    json_add_number(all, "links_lost", seen->lost);
    json_add_number(all, "links_up_again", seen->up);
    json_add_number(all, "links_taken_out", seen->out);
    json_add_number(all, "new_tables", seen->tables);
    add_ns(all, "recovery_longest_ns", seen->recovery_ps);
    json_add_number(all, "links_between_switches", seen->links);
    json_object_object_add(all, "changes", changes_json(seen));
    return all;
}

struct json_object *traffic_report_json(const struct traffic_result *result,
                                        const struct traffic_config *config,
                                        const struct traffic_title *title)
{
    struct json_object *all = json_object_new_object();
    char digest[20];

    json_object_object_add(all, "origin", json_object_get(title->origin));
    report_network(all, &config->fabric);
    json_add_text(all, "pattern", title->pattern);
    json_object_object_add(all, "pattern_parameters", parameters_json(result, config));
    json_add_number(all, "nodes", config->fabric.graph->nodes);
    json_add_number(all, "switches", config->fabric.graph->switches);
    json_add_number(all, "seed", config->fabric.seed);
    json_add_number(all, "threads", result->threads);
    json_add_number(all, "hosts", result->hosts);
    json_add_number(all, "windows", result->windows);
    json_add_number(all, "bytes", result->bytes);
    if (config->goal)
        goal_json(all, result, title);
    else if (result->collective)
        collective_json(all, result, config);
    else
        open_loop_json(all, result, config);
    json_object_object_add(all, "latency_ns", latency_json(&result->latency));
    json_add_number(all, "messages", result->latency.messages);
    json_add_number(all, "segments", result->segments);
    json_add_number(all, "segment_hops", result->hops);
    add_ns(all, "virtual_ns", result->virtual_ps);
    add(all, "wall_s", result->wall_s);
    add(all, "build_s", result->build_s);
    add(all, "hops_per_s", per((double)result->hops, result->wall_s));
    add(all, "ns_per_hop", per(result->wall_s * 1e9, (double)result->hops));
    json_add_number(all, "bytes_per_node", result->bytes_per_node);
    if (result->faults.any)
        json_object_object_add(all, "faults", faults_json(&result->faults));
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)result->digest);
    return json_add_text(all, "digest", digest);
}

/* --- text --------------------------------------------------------------------------- */

static struct amount ns_text(uint64_t ps)
{
    return amount_of_real(ns(ps), 1);
}

static void latency_text(FILE *out, const char *what, const struct traffic_latency *latency)
{
    char ci[32] = ""; /* one sample, or equal samples, have no confidence interval */

    if (!latency->messages) {
        fprintf(out, "  %-12s none\n", what);
        return;
    }
    if (latency->mean_ci95_ps >= 0)
        snprintf(ci, sizeof ci, " (+- %.24s)",
                 amount_of_real(latency->mean_ci95_ps / 1000, 1).text);
    fprintf(out, "  %-12s %s ns%s mean, %s least, %s median,\n" INDENT "%s 99 %%, %s most\n", what,
            ns_text(latency->mean_ps).text, ci, ns_text(latency->least_ps).text,
            ns_text(latency->median_ps).text, ns_text(latency->p99_ps).text,
            ns_text(latency->most_ps).text);
}

/* Print the rates per source: messages and, if they have a payload, the bytes of payload. */
static void rates_text(FILE *out, const struct traffic_result *result)
{
    const struct traffic_rates *from = &result->from;
    double unit = (result->bytes ? (double)result->bytes : 1) / 1e6;

    fprintf(out, "  per source   %s million %s a second, %s least, %s most",
            amount_of_real(unit * from->mean, 1).text,
            result->bytes ? "bytes of payload" : "messages",
            amount_of_real(unit * from->least, 1).text, amount_of_real(unit * from->most, 1).text);
    if (result->bytes)
        fprintf(out, "; %.4g million messages", from->mean / 1e6);
    fprintf(out, "\n");
}

static void open_loop_text(FILE *out, const struct traffic_result *result,
                           const struct traffic_config *config)
{
    fprintf(out, "  sources      %u, load %g each, %s, messages of %s byte%s\n", result->senders,
            load_of(config), config->fixed_gaps ? "at fixed intervals" : "Poisson",
            amount_count(result->bytes).text, plural_s(result->bytes));
    fprintf(out, "  measured     %s after %s of warm-up; %s message%s%s\n",
            duration_of_ns(ns(result->measure_ps)).text, duration_of_ns(ns(result->warmup_ps)).text,
            amount_count(result->latency.messages).text, plural_s(result->latency.messages),
            result->steady || result->saturated ? "" : "; not steady: the results still changed");
    fprintf(out, "  throughput   %.4f offered, %.4f (+- %.4f) accepted%s\n", result->offered,
            result->accepted.mean, result->accepted.ci95,
            result->saturated ? "; saturated: the network cannot carry more" : "");
    rates_text(out, result);
    latency_text(out, "latency", &result->latency);
    if (result->multicast)
        latency_text(out, "last copy", &result->completion);
    if (result->saturated)
        fprintf(out,
                "  waiting      %s message%s at the sources; the latency leaves out %s message%s "
                "of the measurement that had not arrived\n",
                amount_count((uint64_t)result->backlog).text, plural_s((uint64_t)result->backlog),
                amount_count(result->undelivered).text, plural_s(result->undelivered));
}

static void series_text(FILE *out, const struct traffic_series *series)
{
    if (!series->windows)
        return;
    fprintf(out, "  series       from/us  million bytes of payload a second, all nodes\n");
    for (uint32_t i = 0; i < series->windows; i++)
        fprintf(
            out, "  %19.3f  %s\n", ns(i * series->window_ps) / 1000,
            amount_of_real((double)series->bytes[i] / ((double)series->window_ps / 1e6), 1).text);
}

static void title_text(FILE *out, const char *before, const struct traffic_config *config,
                       const char *pattern)
{
    const struct topo_graph *graph = config->fabric.graph;

    fold_printf(out, before, "%s%s on %s: %s nodes, %s switch%s, profile %s, seed %llu\n", before,
                pattern, graph->spec, amount_count(graph->nodes).text,
                amount_count(graph->switches).text, plural_es(graph->switches),
                config->fabric.profile.name, (unsigned long long)config->fabric.seed);
}

/* Print all parameters of a pattern, including defaults that --pattern did not set. */
static void parameters_text(FILE *out, const char *before, const struct traffic_result *result,
                            const struct traffic_config *config)
{
    const struct traffic_pattern *pattern = &config->pattern;
    char node[TOPO_SHOWN_BYTES], how[16];

    if (pattern->kind == TRAFFIC_HOTSPOT)
        fprintf(out, "%shot spot     %s, fraction %g of the messages of all others\n", before,
                topo_show_node(config->fabric.graph, pattern->hot, node), hot_fraction(pattern));
    else if (pattern->kind == TRAFFIC_PERMUTATION)
        fprintf(out, "%spermutation  number %u\n", before, pattern->number);
    else if (result->multicast)
        fprintf(out,
                "%smulticast    by %s; %s set%s at each source, %.2f destinations on average, "
                "distribution %s\n",
                before,
                config->by_messages ? multicast_of(config, how, sizeof how) : "the switches",
                amount_count(result->sets).text, plural_s(result->sets), result->fanout,
                traffic_distribution_name(config->law));
}

static void range_text(FILE *out, const char *what, const struct traffic_range *range)
{
    fprintf(out, "  %-12s %s ns least, %s median, %s most\n", what, ns_text(range->least_ps).text,
            ns_text(range->median_ps).text, ns_text(range->most_ps).text);
}

static void goal_text(FILE *out, const struct traffic_result *result,
                      const struct traffic_title *title)
{
    const struct traffic_goal *goal = &result->goal;

    fprintf(out, "  file         %s: %s rank%s, %s operation%s\n", title->goal,
            amount_count(goal->ranks).text, plural_s(goal->ranks),
            amount_count(goal->operations).text, plural_s(goal->operations));
    if (goal->messages)
        fprintf(out, "  messages     %s, %s byte%s\n", amount_count(goal->messages).text,
                amount_count(goal->bytes).text, plural_s(goal->bytes));
    if (goal->collectives)
        fprintf(out, "  collectives  %s call%s, counted at each rank, run by the network\n",
                amount_count(goal->collectives).text, plural_s(goal->collectives));
    fprintf(out, "  completion   %s ns\n", ns_text(goal->finish_ps.most_ps).text);
    range_text(out, "ranks end", &goal->finish_ps);
    range_text(out, "blocked", &goal->blocked_ps);
    if (goal->messages)
        latency_text(out, "latency", &result->latency);
}

void traffic_report_text(FILE *out, const struct traffic_result *result,
                         const struct traffic_config *config, const struct traffic_title *title)
{
    struct fold fold;

    title_text(out, "", config, title->pattern);
    origin_print(out, title->origin, "  origin       ", INDENT, FOLD_COLUMNS);
    out = fold_begin(&fold, out, INDENT, FOLD_COLUMNS);
    parameters_text(out, "  ", result, config);
    if (config->goal) {
        goal_text(out, result, title);
    } else if (!result->collective) {
        open_loop_text(out, result, config);
    } else {
        fprintf(out,
                "  operations   %s of %s byte%s, %u group%s of %u nodes; all results correct\n",
                amount_count(result->latency.messages).text, amount_count(result->bytes).text,
                plural_s(result->bytes), result->groups, plural_s(result->groups), result->members);
        if (config->by != TRAFFIC_BY_HARDWARE)
            fprintf(out, "  made of      messages (%s)\n", collective_of(config).text);
        if (config->processes > 1)
            fprintf(out, "  processes    %u at each node\n", config->processes);
        if (config->noise.length_ps)
            fprintf(out, "  noise        %s of every %s at each node\n",
                    duration_of_ns(ns(config->noise.length_ps)).text,
                    duration_of_ns(ns(config->noise.period_ps)).text);
        latency_text(out, "latency", &result->latency);
    }
    fprintf(out,
            "  emulation    %s of simulated time in %s, %u thread%s on %u host%s; %s hop%s, %s a "
            "second\n",
            duration_of_ns(ns(result->virtual_ps)).text, duration_of_ns(result->wall_s * 1e9).text,
            result->threads, plural_s(result->threads), result->hosts, plural_s(result->hosts),
            amount_count(result->hops).text, plural_s(result->hops),
            amount_of_real(per((double)result->hops, result->wall_s), 0).text);
    if (result->faults.any) {
        fprintf(out, "  faults       hit %s %s%s; %llu link%s lost, %llu up again, %llu taken out",
                amount_count(result->faults.hit).text,
                emu_profile_has_packets(&config->fabric.profile) ? "packet" : "segment",
                plural_s(result->faults.hit), (unsigned long long)result->faults.lost,
                plural_s(result->faults.lost), (unsigned long long)result->faults.up,
                (unsigned long long)result->faults.out);
        if (result->faults.tables)
            fprintf(out, "; new tables %llu time%s, at most %s after a change",
                    (unsigned long long)result->faults.tables, plural_s(result->faults.tables),
                    duration_of_ns(ns(result->faults.recovery_ps)).text);
        fputc('\n', out);
    }
    fprintf(out, "  digest       %016llx\n", (unsigned long long)result->digest);
    series_text(out, &result->series);
    fold_end(&fold);
}

void traffic_report_head(FILE *out, const struct traffic_result *result,
                         const struct traffic_config *config, const struct traffic_title *title)
{
    static const char *const times[] = {"mean/ns", "median/ns", "p99/ns", "max/ns"};
    struct fold fold;

    origin_print(out, title->origin, "# ", "# ", FOLD_COLUMNS);
    title_text(out, "# ", config, title->pattern);
    parameters_text(fold_begin(&fold, out, "# ", FOLD_COLUMNS), "# ", result, config);
    fold_end(&fold);
    fprintf(out, "%7s %8s %8s", "load", "offered", "accepted");
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        fprintf(out, " %*s", LATENCY_COLUMNS, times[i]);
    fputc('\n', out);
}

/*
 * Return a latency for a column of LATENCY_COLUMNS. It is in ns, with a decimal if there is space
 * for it. If a number of ns does not fit at all, the latency has another unit, which is printed.
 */
static struct amount latency_cell(uint64_t ps)
{
    struct amount cell = amount_of_real(ns(ps), 1);

    if (strlen(cell.text) > LATENCY_COLUMNS)
        cell = amount_of_real(ns(ps), 0);
    if (strlen(cell.text) > LATENCY_COLUMNS)
        snprintf(cell.text, sizeof cell.text, "%s", duration_of_ns(ns(ps)).text);
    return cell;
}

void traffic_report_row(FILE *out, const struct traffic_result *result,
                        const struct traffic_config *config)
{
    const struct traffic_latency *latency = &result->latency;
    const uint64_t times[] = {latency->mean_ps, latency->median_ps, latency->p99_ps,
                              latency->most_ps};
    fprintf(out, "%7g %8.4f %8.4f", load_of(config), result->offered, result->accepted.mean);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        fprintf(out, " %*s", LATENCY_COLUMNS,
                latency->messages ? latency_cell(times[i]).text : "-");
    fprintf(out, "%s\n", result->saturated ? " saturated" : result->steady ? "" : " not steady");
    fflush(out);
}
