/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options_fabric.c - the fabric that the options of a command describe.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/base/bounds.h"
#include "apps/base/message.h"
#include "apps/cmd/options.h"
#include "apps/cmd/rates.h"
#include "apps/control/paths.h"
#include "emu/util/plugin.h"

#define DEFAULT_NODES   16
#define DEFAULT_PROFILE "oq2004"
#define WIDE            "fabemu-wide"

/* A network that is named after a machine comes with it, unless the user names another. */
static int load_profile(struct fabric_config *ret, const struct options *options)
{
    const char *machine = options->topo ? topo_machine(options->topo) : NULL;
    const char *name = options->profile ? options->profile : machine ? machine : DEFAULT_PROFILE;
    char error[640];

    ret->profile_from = options->profile ? "option" : machine ? "network" : "default";
    if (emu_profile_load(&ret->profile, name, error, sizeof error)) {
        print_message("--profile: %s", error);
        return EXIT_USAGE;
    }
    rates_apply(ret, options);
    bounds_profile(&ret->profile, &options->bounds);
    ret->sets = options->sets;
    ret->set_count = options->set_count;
    if (emu_profile_set_all(&ret->profile, options->sets, options->set_count, error,
                            sizeof error)) {
        print_message("--set: %s", error);
        return EXIT_USAGE;
    }
    return 0;
}

/*
 * The network has switches with more ports than this program's sets can hold. Replace this process
 * by fabemu-wide, which runs the same command from the beginning. Returns if fabemu-wide is not
 * installed.
 */
static void exec_wide(const struct options *options)
{
    char dir[1024], path[1088];
    struct stat st;
    size_t count = 0;

    if (stat(options->topo, &st) == 0 && !S_ISREG(st.st_mode)) {
        print_message(
            "--topo %s: the network has switches of more than %d ports, so fabemu reads it twice, "
            "but a pipe can be read only once: write the network to a file",
            options->topo, TOPO_PORTS_MAX);
        exit(EXIT_USAGE);
    }
    while (options->argv[count])
        count++;
    char **argv = calloc(count + 2, sizeof *argv);
    if (!argv || !emu_plugin_dir(dir, sizeof dir, WIDE, "."))
        return;
    argv[0] = program_invocation_name; /* so the recorded command line is the user's */
    memcpy(argv + 1, options->argv, count * sizeof *argv);
    snprintf(path, sizeof path, "%s/%s", dir, WIDE);
    execv(path, argv);
    print_message("cannot run %s: %s", path, strerror(errno));
    exit(EXIT_FAILURE);
}

int options_fabric(struct fabric_config *ret, struct topo_graph **graph,
                   const struct options *options, const char *name)
{
    char spec[64];
    char error[1280];

    *ret = (struct fabric_config){.clock = options->clock,
                                  .threads = options->threads,
                                  .seed = options->seed,
                                  .began_s = time(NULL),
                                  .bounds = emu_bounds_filled(options->bounds)};
    if (name && paths_check_name(name, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_USAGE;
    }
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
        print_message("--topo: %s", error);
        return err == -EINVAL || err == -E2BIG ? EXIT_USAGE : EXIT_FAILURE;
    }
    ret->graph = *graph;
    int status = load_profile(ret, options);
    if (status)
        topo_free(*graph);
    return status;
}
