/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.c - the environment that makes a program use a fabric.
 *
 * Standard doors only (FEASIBILITY §7, §8): libfabric's provider path, and MCA
 * parameters. Debian's openmpi-mca-params.conf excludes mtl ofi and osc pt2pt,
 * so both are named here.
 */
#include "apps/env.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/say.h"

#define PROVIDER  "libfabemu-fi.so"
#define COMPONENT "mca_coll_fabemu.so"

/* Where a file of ours may lie, seen from the folder of the running command. */
static const char *const provider_places[] = { "provider",
                                               "nic/ofi",
                                               ".",
                                               "../lib/fabemu/provider",
                                               "../lib/fabemu",
                                               "../lib/x86_64-linux-gnu/fabemu/provider",
                                               "../lib/x86_64-linux-gnu/fabemu",
                                               "../lib64/fabemu/provider",
                                               "../lib64/fabemu",
                                               NULL };
static const char *const component_places[] = { "openmpi",
                                                "apps/ompi",
                                                ".",
                                                "../lib/fabemu/openmpi",
                                                "../lib/fabemu",
                                                "../lib/x86_64-linux-gnu/fabemu/openmpi",
                                                "../lib/x86_64-linux-gnu/fabemu",
                                                "../lib64/fabemu/openmpi",
                                                "../lib64/fabemu",
                                                NULL };

/* The folder that holds @file; false when it is in none of the places. */
static bool find_dir(char *ret, size_t ret_bytes, const char *file, const char *const *places)
{
    char exe[512];
    char path[1024];
    ssize_t bytes = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (bytes <= 0)
        return false;
    exe[bytes] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = '\0';
    for (; *places; places++) {
        snprintf(path, sizeof path, "%s/%s/%s", exe, *places, file);
        if (access(path, R_OK) == 0) {
            if (strcmp(*places, ".") == 0)
                snprintf(ret, ret_bytes, "%s", exe);
            else
                snprintf(ret, ret_bytes, "%s/%s", exe, *places);
            return true;
        }
    }
    return false;
}

struct walk {
    void (*each)(void *context, const char *name, const char *value);
    void *context;
};

static void unless_set(const struct walk *walk, const char *name, const char *value)
{
    if (!getenv(name))
        walk->each(walk->context, name, value);
}

static void prepend(const struct walk *walk, const char *name, const char *dir,
                    const char *otherwise)
{
    const char *had = getenv(name);
    char value[4096];

    if (!had || !*had)
        had = otherwise;
    if (snprintf(value, sizeof value, "%s%s%s", dir, *had ? ":" : "", had) < (int)sizeof value)
        walk->each(walk->context, name, value);
}

int env_each(const char *socket_path,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes)
{
    static const char *const fixed[][2] = {
        { "FI_PROVIDER", "fabemu" },
        { "OMPI_MCA_pml", "cm" },
        { "OMPI_MCA_mtl", "ofi" },
        { "OMPI_MCA_btl", "self" },
        { "OMPI_MCA_osc", "pt2pt,sm" },
        { "OMPI_MCA_opal_common_ofi_provider_include", "fabemu" },
        { "OMPI_MCA_mtl_ofi_provider_include", "fabemu" },
        { "OMPI_MCA_mpi_yield_when_idle", "1" },
        { "OMPI_MCA_rmaps_base_oversubscribe", "1" },
    };
    const struct walk walk = { each, context };
    char dir[600];

    each(context, "FABEMU_SOCKET", socket_path);
    each(context, "OMPI_MCA_coll_fabemu_socket", socket_path); /* mpirun takes it to other hosts */
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        unless_set(&walk, fixed[i][0], fixed[i][1]);
    if (geteuid() == 0) {
        unless_set(&walk, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        unless_set(&walk, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if (find_dir(dir, sizeof dir, COMPONENT, component_places))
        prepend(&walk, "OMPI_MCA_mca_base_component_path", dir, "SYSTEM_DEFAULT");
    else
        say("%s is not built: collectives will not run in the switches; build it with "
            "scripts/build",
            COMPONENT);
    if (!find_dir(dir, sizeof dir, PROVIDER, provider_places))
        return fail(-ENOENT, error, error_bytes,
                    "%s is not beside the fabemu command: programs "
                    "that use libfabric or MPI cannot reach the fabric; build it with "
                    "scripts/build",
                    PROVIDER);
    prepend(&walk, "FI_PROVIDER_PATH", dir, "");
    return 0;
}
