/* SPDX-License-Identifier: BSD-3-Clause */
/* options_fabric.c - make a fabric's configuration from the options of a command. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/bounds.h"
#include "apps/base/message.h"
#include "apps/base/quantity.h"
#include "apps/cmd/options.h"
#include "apps/control/paths.h"
#include "emu/util/plugin.h"
#include "nic/provider.h"
#include "switch/switch.h"

#define DEFAULT_NODES   16
#define DEFAULT_PROFILE "oq2004"
#define WIDE            "fabemu-wide"
/* a crosspoint has space for all segments that can be sent in this many round trips */
#define ROUND_TRIPS 2

/*
 * Return the size of a crosspoint that has space for ROUND_TRIPS of the fastest cable. With less
 * space, the cable would be idle while it waits for credits. The result is at most the size for
 * which a switch of this network has memory.
 */
static uint32_t xpoint_slots(const struct fabric_config *config)
{
    struct emu_profile profile = config->profile;
    uint64_t round_ps = profile.channel_ps + profile.switch_ps + profile.credit_ps;
    uint64_t segment_ps = EMU_SEG_BYTES * profile.link_ps_per_byte;
    uint64_t slots = (ROUND_TRIPS * round_ps + segment_ps - 1) / segment_ps;
    uint32_t least = profile.xpoint_slots;

    profile.xpoint_slots = slots < EMU_XPOINT_MAX ? (uint32_t)slots : EMU_XPOINT_MAX;
    while (profile.xpoint_slots > least &&
           switch_segments(config->graph->ports, &profile) > SWITCH_SEGMENTS_MAX)
        profile.xpoint_slots--;
    return profile.xpoint_slots > least ? profile.xpoint_slots : least;
}

/*
 * Use the rates that the network's file gives for cables, unless --profile or --set gives a rate.
 * The fastest rate becomes the profile's link_ps_per_byte, and slower cables keep their rates.
 * Crosspoints get the size of xpoint_slots(). Call this before --set is applied. Source for the two
 * round trips: OQ (docs/GLOSSARY.md), section 2.
 */
static void apply_rates(struct fabric_config *config, const struct options *options)
{
    const struct topo_parts *parts = &config->graph->parts;
    struct topo_rates rates;

    if (parts->rate_unknown)
        print_message("%s: %s link%s a rate that is not known, for example %s; %s without a rate",
                      config->graph->spec, amount_count(parts->rate_unknown).text,
                      parts->rate_unknown == 1 ? " has" : "s have", parts->rate,
                      parts->rate_unknown == 1 ? "it counts as a link" : "they count as links");
    topo_rates(config->graph, &rates);
    if (!rates.fastest || options->profile || options_sets(options, "link_ps_per_byte"))
        return;
    config->link_rates = true;
    config->profile.link_ps_per_byte = topo_rate_ps(rates.fastest);
    config->profile.xpoint_slots = xpoint_slots(config);
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    size_t own = strlen(end);

    return length >= own && strncmp(text + length - own, end, own) == 0;
}

/*
 * Return the value of --set with a plain number: "switch_ps=90ns" becomes "switch_ps=90000", which
 * is written to @text. All other values are returned unchanged.
 */
static const char *without_unit(const char *set, char *text, size_t text_bytes)
{
    static const struct quantity_form time = {quantity_times, 1, 0, UINT64_MAX};
    static const struct quantity_form size = {quantity_sizes, 1, 0, UINT64_MAX};
    size_t field = strcspn(set, "=");
    const struct quantity_form *form = ends_with(set, field, "_ps")      ? &time
                                       : ends_with(set, field, "_bytes") ? &size
                                                                         : NULL;
    uint64_t number;

    if (!form || !set[field] || !quantity_read(set + field + 1, form, &number))
        return set;
    snprintf(text, text_bytes, "%.*s=%" PRIu64, (int)field, set, number);
    return text;
}

/* Load the profile. Without --profile, a network such as qsnet:N determines it. */
static int load_profile(struct fabric_config *ret, const struct options *options)
{
    const char *machine = options->topo ? topo_machine(options->topo) : NULL;
    const char *name = options->profile ? options->profile : machine ? machine : DEFAULT_PROFILE;
    const char *sets[OPTIONS_SETS_MAX];
    char error[1280], plain[OPTIONS_SETS_MAX][64];

    ret->profile_from = options->profile ? "option" : machine ? "network" : "default";
    if (emu_profile_load(&ret->profile, name, error, sizeof error)) {
        print_message("--profile: %s", error);
        return EXIT_USAGE;
    }
    apply_rates(ret, options);
    bounds_profile(&ret->profile, &options->bounds);
    ret->sets = options->sets;
    ret->set_count = options->set_count;
    for (unsigned i = 0; i < options->set_count; i++)
        sets[i] = without_unit(options->sets[i], plain[i], sizeof plain[i]);
    if (emu_profile_set_all(&ret->profile, sets, options->set_count, error, sizeof error)) {
        print_message("--set: %s", error);
        return EXIT_USAGE;
    }
    return 0;
}

/* Return "--topo: ", which begins errors about the network, or "" if --topo was not given. */
static const char *before_topo(const struct options *options)
{
    return options->topo_is_operand ? "" : "--topo: ";
}

/*
 * Replace this process by fabemu-wide with the same arguments, because the network has switches
 * with more ports than this program supports. Returns if fabemu-wide is not installed.
 */
static void exec_wide(const struct options *options)
{
    char dir[1024], path[1088];
    struct stat st;
    size_t count = 0;

    if (stat(options->topo, &st) == 0 && !S_ISREG(st.st_mode)) {
        print_message(
            "%s%s: the network has switches of more than %d ports, so fabemu reads it twice, but a "
            "pipe can be read only once: write the network to a file",
            before_topo(options), options->topo, TOPO_PORTS_MAX);
        exit(EXIT_USAGE);
    }
    while (options->argv[count])
        count++;
    char **argv = calloc(count + 2, sizeof *argv);
    if (!argv || !emu_plugin_dir(dir, sizeof dir, WIDE, "."))
        return;
    argv[0] = program_invocation_name; /* so that reports show the command as the user typed it */
    memcpy(argv + 1, options->argv, count * sizeof *argv);
    snprintf(path, sizeof path, "%s/%s", dir, WIDE);
    execv(path, argv);
    print_message("cannot run %s: %s", path, strerror(errno));
    exit(EXIT_FAILURE);
}

/*
 * Choose the libfabric provider's name: from the option or, if it is not given, from the
 * environment.
 */
static int choose_provider(struct fabric_config *ret, const struct options *options)
{
    const char *user = getenv(PROVIDER_NAME_VARIABLE);

    ret->provider = options->provider ? options->provider : user && *user ? user : PROVIDER_NAME;
    if (provider_name_is_valid(ret->provider))
        return 0;
    print_message(PROVIDER_NAME_VARIABLE "=%.80s: it must be " PROVIDER_NAME_FORM, ret->provider);
    return EXIT_USAGE;
}

int options_fabric(struct fabric_config *ret, struct topo_graph **graph,
                   const struct options *options, const char *name)
{
    char spec[64];
    char error[1280];

    *ret = (struct fabric_config){.clock = options->clock,
                                  .compute = options->compute,
                                  .date_s = options->date_s,
                                  .threads = options->threads,
                                  .seed = options->seed,
                                  .began_s = time(NULL),
                                  .bounds = emu_bounds_filled(options->bounds)};
    ret->compute.traces = options->goal != NULL;
    if (name && paths_check_name(name, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_USAGE;
    }
    if (choose_provider(ret, options))
        return EXIT_USAGE;
    snprintf(ret->name, sizeof ret->name, "%s", name ? name : "");
    if (!options->topo && topo_spec_for_nodes(options->nodes ? options->nodes : DEFAULT_NODES, spec,
                                              sizeof spec, error, sizeof error)) {
        print_message("--nodes: %s", error);
        return EXIT_USAGE;
    }
    int err = topo_parse(graph, options->topo ? options->topo : spec, error, sizeof error);
    if (err == -EOVERFLOW)
        exec_wide(options);
    if (err) {
        print_message("%s%s", before_topo(options), error);
        return err == -ENOMEM ? EXIT_FAILURE : EXIT_USAGE;
    }
    ret->graph = *graph;
    int status = load_profile(ret, options);
    if (status)
        topo_free(*graph);
    return status;
}

/* Write "36 of 4xHDR, 4 of 4xEDR, 2 without a rate" to @text, the fastest rate first. */
static void print_counts(const struct topo_rates *rates, char *text, size_t bytes)
{
    bool done[TOPO_RATES] = {false};
    size_t used = 0;
    char name[16];

    for (uint32_t round = 0; round < TOPO_RATES && used < bytes; round++) {
        uint8_t next = 0;

        for (uint8_t rate = 1; rate < TOPO_RATES; rate++)
            if (!done[rate] && rates->cables[rate] &&
                (!next || topo_rate_ps(rate) < topo_rate_ps(next)))
                next = rate;
        if (!next)
            break;
        done[next] = true;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s of %s", used ? ", " : "",
                                 amount_count(rates->cables[next]).text,
                                 topo_rate_name(next, name));
    }
    if (rates->cables[0] && used < bytes)
        snprintf(text + used, bytes - used, ", %s without a rate",
                 amount_count(rates->cables[0]).text);
}

bool options_print_rates(const struct fabric_config *config, char *text, size_t bytes)
{
    double gigabytes = 1000.0 / (double)config->profile.link_ps_per_byte;
    struct topo_rates rates;
    char counts[256];

    topo_rates(config->graph, &rates);
    if (!rates.fastest)
        return false;
    print_counts(&rates, counts, sizeof counts);
    if (!config->link_rates)
        snprintf(text, bytes, "%s; all run at %.2f GB/s, as the profile says", counts, gigabytes);
    else
        snprintf(text, bytes, "%s; each runs at its rate, the fastest%s at %.2f GB/s", counts,
                 rates.cables[0] ? " and those without a rate" : "", gigabytes);
    return true;
}
