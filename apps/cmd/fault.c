/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.c - `fabemu fault`: inject, list and clear faults of a running fabric, list scenarios, and
 * check a schedule. A *scenario* is a schedule of faults that is built into fabemu.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/command.h"
#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/base/message.h"
#include "apps/cmd/commands.h"
#include "apps/cmd/options.h"
#include "apps/cmd/plan.h"
#include "apps/control/paths.h"
#include "emu/util/nearest.h"
#include "apps/control/conn.h"
#include "apps/fault/fault.h"
#include "apps/fault/internal.h"

#define TARGETS_SHOWN 8 /* maximum number of targets of a fault that the dry run prints */

static const struct options_command fault_command = {
    .name = "fault",
    .operands = "[NAME] [FAULT]",
    .about = "Inject FAULT into the running fabric NAME (or \"default\"), for example\n"
             "    fabemu fault mine for=100ms link-down link=3:5\n"
             "or, without FAULT, list the injected faults. --check is a dry run: it reads a\n"
             "schedule and prints each fault in its canonical form with its targets. It gives\n"
             "the same errors as run, up and traffic; for traffic give --clock virtual.\n"
             "docs/faults.md explains the kinds of fault and their syntax.",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_NAME | OPTIONS_JSON | OPTIONS_ANY_CLOCK,
};

/* The values of options that exclude each other. */
struct wanted {
    bool list;
    const char *show;
    const char *check;
    const char *clear;
};

static const struct option_row rows[] = {
    {"clear", "NUMBER", "clear a fault of the running fabric", .at = offsetof(struct wanted, clear),
     .right = "the number of a fault"},
    {"list", NULL, "list the kinds of fault and the scenarios, with --json as JSON",
     .at = offsetof(struct wanted, list)},
    {"show", "NAME", "print the schedule of a scenario", .at = offsetof(struct wanted, show),
     .right = "the name of a scenario"},
    {"check", "FILE|NAME", "check a schedule or a scenario for the network: a dry run",
     .at = offsetof(struct wanted, check), .right = "the name of a scenario or of a file"},
};

/* Return whether any fault of a scenario needs a fabric that retransmits lost segments. */
static bool scenario_needs_repair(const char *name)
{
    struct fault_schedule schedule = {.count = 0};
    char error[FAULT_ERROR_BYTES];
    bool needs = false;

    if (fault_schedule_read(&schedule, name, NULL, error, sizeof error))
        return false;
    for (uint32_t i = 0; i < schedule.count; i++)
        needs |= fault_needs_repair(schedule.line[i].fault.kind);
    fault_schedule_release(&schedule);
    return needs;
}

static void list_one(FILE *out, const char *name, const char *about, bool needs_repair)
{
    fprintf(out, "  %-16s %s%s\n", name, about, needs_repair ? " (*)" : "");
}

static void add_one(struct json_object *list, const char *name, const char *about,
                    bool needs_repair)
{
    struct json_object *one = json_add_text(json_object_new_object(), "name", name);

    json_add_text(one, "about", about);
    json_object_object_add(one, "needs_retransmission", json_object_new_boolean(needs_repair));
    json_object_array_add(list, one);
}

static int list_json(void)
{
    struct json_object *all = json_object_new_object(), *faults = json_object_new_array();
    struct json_object *scenarios = json_object_new_array();
    const struct fault_scenario *scenario;

    for (enum fault_kind kind = 0; kind < FAULT_KINDS; kind++)
        add_one(faults, fault_name(kind), fault_about(kind), fault_needs_repair(kind));
    for (size_t i = 0; (scenario = fault_scenario_at(i)); i++)
        add_one(scenarios, scenario->name, scenario->about, scenario_needs_repair(scenario->name));
    json_object_object_add(all, "faults", faults);
    json_object_object_add(all, "scenarios", scenarios);
    options_print_json(all);
    json_object_put(all);
    return EXIT_SUCCESS;
}

static int list_text(void)
{
    const struct fault_scenario *scenario;
    struct fold fold;
    FILE *out = fold_begin(&fold, stdout, "                   ", FOLD_COLUMNS);

    fputs("faults\n", out);
    for (enum fault_kind kind = 0; kind < FAULT_KINDS; kind++)
        list_one(out, fault_name(kind), fault_about(kind), fault_needs_repair(kind));
    fputs("scenarios\n", out);
    for (size_t i = 0; (scenario = fault_scenario_at(i)); i++)
        list_one(out, scenario->name, scenario->about, scenario_needs_repair(scenario->name));
    fold_end(&fold);
    puts("(*) needs retransmission: --profile qsnet3, or --set link_retry=go_back_n.\n"
         "Not every network accepts every fault: fabemu fault --check says why.");
    return EXIT_SUCCESS;
}

/*
 * Print a scenario, without any additional line, so that line numbers in error messages are
 * correct.
 */
static int show(const char *name)
{
    const struct fault_scenario *scenario = fault_scenario_find(name);
    char error[FAULT_ERROR_BYTES];

    if (!scenario) {
        fault_scenario_unknown(name, "", error, sizeof error);
        return options_usage_error("fault", "--show: %s", error);
    }
    fputs(scenario->text, stdout);
    return EXIT_SUCCESS;
}

/* --- the dry run -------------------------------------------------------------------- */

static void print_target(FILE *out, const struct topo_graph *graph, enum fault_domain domain,
                         const struct fault_target *target)
{
    static const char *const directions[] = {
        [FAULT_BOTH] = "-", [FAULT_OUT] = "->", [FAULT_IN] = "<-"};
    char names[TOPO_CABLE_BYTES];

    if (domain != FAULT_OF_LINKS) {
        bool node = domain == FAULT_OF_NODES;
        const char *name = topo_label_name(graph, (node ? graph->switches : 0) + target->id);

        fprintf(out, " %u", target->id);
        if (name)
            fprintf(out, " (%s)", name);
        return;
    }
    const struct topo_end *far = &graph->sw[target->id].end[target->port];
    fprintf(out, " %u:%u%s%s%u:%u", target->id, topo_switch_port(graph, target->id, target->port),
            directions[target->direction], far->kind == TOPO_END_NODE ? "n" : "", far->id,
            topo_end_port(graph, far));
    fputs(topo_show_cable(graph, target->id, target->port, names), out);
}

static void print_targets(FILE *out, const struct fault *fault, const struct topo_graph *graph,
                          const struct fault_targets *targets)
{
    static const char *const names[][2] = {[FAULT_OF_LINKS] = {"cable", "cables"},
                                           [FAULT_OF_SWITCHES] = {"switch", "switches"},
                                           [FAULT_OF_NODES] = {"node", "nodes"}};
    enum fault_domain domain = fault_domain(fault->kind);
    uint32_t shown = targets->count < TARGETS_SHOWN ? targets->count : TARGETS_SHOWN;
    bool drawn = fault_targets_drawn(fault);

    fprintf(out, "    # %u %s:", targets->count, names[domain][targets->count > 1]);
    for (uint32_t i = 0; i < shown; i++)
        print_target(out, graph, domain, &targets->target[i]);
    if (shown < targets->count)
        fprintf(out, " and %u more", targets->count - shown);
    if (drawn)
        fprintf(out, "; drawn from %u%s%s", targets->among,
                fault->where.place == FAULT_AT_TOP ? " top switches" : "",
                fault->when.every_ps ? ", again each time it begins" : "");
    fputc('\n', out);
}

/*
 * Print a fault in its canonical form, with its targets. @note: the note that was printed last; an
 * equal note is not printed again.
 */
static int print_fault(const struct fault *fault, const struct fault_network *network,
                       uint64_t seed, char note[static FAULT_ERROR_BYTES])
{
    char text[FAULT_TEXT_BYTES], error[FAULT_ERROR_BYTES], wrong[FAULT_ERROR_BYTES];
    struct fault_targets targets;
    struct fold fold;
    FILE *out;

    fault_print(fault, network->graph, text);
    puts(text);
    if (fault_check(fault, network, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_FAILURE;
    }
    if (fault_targets_find(&targets, fault, network->graph, seed, wrong, sizeof wrong)) {
        print_message("%s", wrong);
        return EXIT_FAILURE;
    }
    fault_targets_limit(&targets, fault, network);
    out = fold_begin(&fold, stdout, "    # ", FOLD_COLUMNS);
    print_targets(out, fault, network->graph, &targets);
    fault_targets_release(&targets);
    if (*error && strcmp(error, note) != 0)
        fprintf(out, "    # %s\n", error);
    fold_end(&fold);
    memcpy(note, error, sizeof error);
    return 0;
}

/*
 * Check that a fabric with this configuration could be started. With clock virtual, this is the
 * fabric of `fabemu traffic`, which simulates the nodes.
 */
static int check_fabric(const struct fabric_config *config)
{
    static const struct fabric_node_ops inside;
    struct fabric_config fabric = *config;
    char error[1024];

    fabric.local_nodes = config->clock == EMU_CLOCK_VIRTUAL ? &inside : NULL;
    if (!fabric_check_config(&fabric, error, sizeof error))
        return 0;
    print_message("%s", error);
    return EXIT_USAGE;
}

static int check(const char *what, const struct fabric_config *config)
{
    const struct fault_network network = {.graph = config->graph,
                                          .profile = &config->profile,
                                          .clock = config->clock};
    struct fault_schedule schedule = {.count = 0};
    char note[FAULT_ERROR_BYTES] = "";
    int status = check_fabric(config);

    if (!status)
        status = plan_schedule(&schedule, what, config, false);
    if (!status) {
        fold_printf(
            stdout, "# ",
            "# %s on %s, profile %s, clock %s, seed %llu: %u fault%s; a dry run, nothing is "
            "injected\n",
            what, config->graph->spec, config->profile.name, emu_clock_name(config->clock),
            (unsigned long long)config->seed, schedule.count, plural_s(schedule.count));
    }
    for (uint32_t i = 0; i < schedule.count && !status; i++)
        status =
            print_fault(&schedule.line[i].fault, &network, fault_seed(config->seed, i, 0), note);
    fault_schedule_release(&schedule);
    return status;
}

/* --- a running fabric --------------------------------------------------------------- */

/* Send a request to the fabric and wait for the reply. Prints errors. Returns 0 or a status. */
static int ask(const char *name, struct json_object *request, const struct query_field *fields,
               struct json_object **reply)
{
    char error[FAULT_ERROR_BYTES + 256];

    int err = query_fabric(name, request, fields, reply, NULL, error, sizeof error);
    if (!err)
        return 0;
    struct nearest kind = nearest_to(name); /* the name may be a misspelt kind of fault */
    for (int i = 0; err == -ENOENT && i < FAULT_KINDS; i++)
        nearest_try(&kind, fault_name((enum fault_kind)i));
    print_message("%s%s", error, nearest_question(&kind, "fabemu fault ").text);
    return exit_status_of(err);
}

static int live_fault(const char *name, char *const *words, int count)
{
    struct json_object *request = query_request("fault"), *reply;
    char text[FAULT_TEXT_BYTES] = "";
    size_t used = 0;

    for (int i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", words[i]);
    if (used >= sizeof text) {
        json_object_put(request);
        return options_usage_error("fault", "a fault's text has at most %zu characters",
                                   sizeof text - 1);
    }
    json_add_text(request, "fault", text);
    int status = ask(name, request, QUERY_FIELDS({"fault", json_type_int}), &reply);
    if (status)
        return status;
    emu_json_no_controls(reply);
    printf("fault %lld\n", (long long)emu_json_number(reply, "fault", 0));
    if (*emu_json_text(reply, "note", ""))
        print_message("%s", emu_json_text(reply, "note", ""));
    json_object_put(reply);
    return EXIT_SUCCESS;
}

static int live_clear(const char *name, const char *number)
{
    struct json_object *request = query_request("fault_clear"), *reply;
    uint64_t id;

    if (!options_count(number, 1, UINT32_MAX, &id)) {
        json_object_put(request);
        return options_usage_error("fault",
                                   "--clear %.40s: the value must be the number of a fault",
                                   number);
    }
    json_add_number(request, "fault", id);
    int status = ask(name, request, NULL, &reply);
    if (status)
        return status;
    printf("fault %llu is over\n", (unsigned long long)id);
    json_object_put(reply);
    return EXIT_SUCCESS;
}

static void print_state(struct json_object *state)
{
    fold_printf(stdout, "              ", "%5lld %-9s %7lld %7lld %9lld  %s\n",
                (long long)emu_json_number(state, "fault", 0), emu_json_text(state, "state", "?"),
                (long long)emu_json_number(state, "times", 0),
                (long long)emu_json_number(state, "targets", 0),
                (long long)emu_json_number(state, "hits", 0), emu_json_text(state, "text", "?"));
}

static void print_past(struct json_object *past)
{
    long long times = emu_json_number(past, "times", 0), hits = emu_json_number(past, "hits", 0);

    if (emu_json_number(past, "faults", 0))
        printf("%lld more have ended: %lld time%s, %lld hit%s\n",
               (long long)emu_json_number(past, "faults", 0), times, plural_s(times), hits,
               plural_s(hits));
}

static int live_list(const char *name, bool json)
{
    struct json_object *reply, *faults;

    int status =
        ask(name, query_request("faults"), QUERY_FIELDS({"faults", json_type_array}), &reply);
    if (status)
        return status;
    faults = json_object_object_get(reply, "faults");
    if (!json)
        emu_json_no_controls(reply);
    if (json)
        options_print_json(faults);
    else if (!emu_json_count(faults))
        puts("no faults");
    else
        puts("FAULT STATE       TIMES TARGETS      HITS  TEXT");
    for (size_t i = 0; !json && i < emu_json_count(faults); i++)
        print_state(emu_json_at(faults, i));
    if (!json)
        print_past(json_object_object_get(reply, "past_faults"));
    json_object_put(reply);
    return EXIT_SUCCESS;
}

/*
 * Return whether @word is part of a fault (a kind, KEY=VALUE or KEY) or a scenario, not the name of
 * a fabric.
 */
static bool is_of_fault(const char *word)
{
    if (fault_scenario_find(word))
        return true;
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        if (strcmp(word, fault_name((enum fault_kind)kind)) == 0)
            return true;
    for (int key = 0; key < FAULT_KEYS; key++)
        if (strcmp(word, fault_key_row((enum fault_key)key)->name) == 0)
            return true;
    return strchr(word, '=') || strchr(word, ' ');
}

static int fault_and_option(void)
{
    return options_usage_error(
        "fault", "give either a fault, or one of --list, --show, --check and --clear");
}

static int json_without_list(void)
{
    return options_usage_error(
        "fault", "--json is possible with --list, and for the list of the injected faults");
}

static int live(struct options *options, const char *clear, int argc, char **argv)
{
    const char *name = options->name;
    int at = options->operands;

    if (!name)
        name = at < argc && !is_of_fault(argv[at]) ? argv[at++]
                                                   : paths_default(options->running, false);
    if (options->json && (clear || at < argc))
        return json_without_list();
    if (clear)
        return at < argc ? fault_and_option() : live_clear(name, clear);
    if (at < argc)
        return live_fault(name, argv + at, argc - at);
    return live_list(name, options->json);
}

int fault_main(int argc, char **argv)
{
    struct wanted wanted = {0};
    struct option_table own = OPTION_TABLE(rows, &wanted);
    struct options options;
    struct fabric_config config;
    struct topo_graph *graph;

    int status = options_parse(&options, &fault_command, &own, argc, argv);
    if (status >= 0)
        return status;
    /* number of given options that need no running fabric */
    int alone = wanted.list + !!wanted.show + !!wanted.check;
    if (alone + !!wanted.clear > 1 || (alone && options.operands < argc))
        return fault_and_option();
    if (!wanted.list && !wanted.show && !wanted.check)
        return live(&options, wanted.clear, argc, argv);
    if (options.json && !wanted.list)
        return json_without_list();
    if (wanted.list)
        return options.json ? list_json() : list_text();
    if (wanted.show)
        return show(wanted.show);
    status = options_fabric(&config, &graph, &options, NULL);
    if (status)
        return status;
    status = check(wanted.check, &config);
    topo_free(graph);
    return status;
}
