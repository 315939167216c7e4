/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.c - the environment that makes a program use a fabric.
 *
 * Standard doors only (FEASIBILITY §7, §8): libfabric's provider path, and MCA
 * parameters. Debian's openmpi-mca-params.conf excludes mtl ofi and osc pt2pt,
 * so both are named here.
 */
#include "apps/run/env.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cli/say.h"
#include "emu/hostlink/plugin.h"

/* What mpirun is to take to other hosts; MCA parameters go by themselves. */
#define MPIRUN_TAKES "FABEMU_SOCKET;FI_PROVIDER;FI_PROVIDER_PATH"

#define PROVIDER  "libfabemu-fi.so"
#define COMPONENT "mca_coll_fabemu.so"

#define PROVIDER_BUILT  "nic/ofi" /* seen from the folder of a command that is not installed */
#define COMPONENT_BUILT "apps/ompi"

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
    size_t bytes = strlen(dir), length;

    if (!had || !*had)
        had = otherwise;
    if (bytes + strlen(had) + 2 > sizeof value)
        return;
    strcpy(value, dir);
    for (; *had; had += length + (had[length] == ':')) {
        /* it may be there from the last time: once will do */
        length = strcspn(had, ":");
        if (length == strlen(dir) && memcmp(had, dir, length) == 0)
            continue;
        value[bytes++] = ':';
        memcpy(value + bytes, had, length);
        bytes += length;
        value[bytes] = '\0';
    }
    walk->each(walk->context, name, value);
}

int env_each(const char *socket_path,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes)
{
    static const char *const fixed[][2] = {
        {"FI_PROVIDER", "fabemu"},
        {"OMPI_MCA_pml", "cm"},
        {"OMPI_MCA_mtl", "ofi"},
        {"OMPI_MCA_btl", "self"},
        {"OMPI_MCA_osc", "pt2pt,sm"},
        {"OMPI_MCA_opal_common_ofi_provider_include", "fabemu"},
        {"OMPI_MCA_mtl_ofi_provider_include", "fabemu"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    };
    const struct walk walk = {each, context};
    char dir[600];

    each(context, "FABEMU_SOCKET", socket_path);
    unless_set(&walk, "OMPI_MCA_mca_base_env_list", MPIRUN_TAKES);
    each(context, "OMPI_MCA_coll_fabemu_socket", socket_path); /* mpirun takes it to other hosts */
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        unless_set(&walk, fixed[i][0], fixed[i][1]);
    if (geteuid() == 0) {
        unless_set(&walk, "OMPI_ALLOW_RUN_AS_ROOT", "1");
        unless_set(&walk, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    if (emu_plugin_dir(dir, sizeof dir, COMPONENT, COMPONENT_BUILT))
        prepend(&walk, "OMPI_MCA_mca_base_component_path", dir, "SYSTEM_DEFAULT");
    else
        say("%s is not built: collectives will not run in the switches; build it with "
            "scripts/build",
            COMPONENT);
    if (!emu_plugin_dir(dir, sizeof dir, PROVIDER, PROVIDER_BUILT))
        return fail(-ENOENT, error, error_bytes,
                    "%s is not beside the fabemu command: programs "
                    "that use libfabric or MPI cannot reach the fabric; build it with "
                    "scripts/build",
                    PROVIDER);
    prepend(&walk, "FI_PROVIDER_PATH", dir, "");
    return 0;
}
