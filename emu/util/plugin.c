/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - find the folder of plug-ins. */
#include "emu/util/plugin.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "emu/util/plugin_build.h"

/* The first folder is relative to the running program, because an installation may be moved. */
static const char *const installed[] = {PLUGIN_BESIDE, PLUGIN_INSTALLED};

static bool holds(const char *dir, const char *file)
{
    char path[1024];

    return snprintf(path, sizeof path, "%s/%s", dir, file) < (int)sizeof path &&
           access(path, R_OK) == 0;
}

bool emu_plugin_dir(char *ret, size_t ret_bytes, const char *file, const char *built)
{
    char exe[512];
    ssize_t bytes = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (bytes <= 0)
        return false;
    exe[bytes] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash)
        return false;
    *slash = '\0';
    snprintf(ret, ret_bytes, "%s/%s", exe, built);
    if (holds(ret, file))
        return true;
    snprintf(ret, ret_bytes, "%s/../%s", exe, built);
    for (size_t i = 0; !holds(ret, file); i++) {
        if (i == sizeof installed / sizeof installed[0])
            return false;
        snprintf(ret, ret_bytes, "%s%s%s", *installed[i] == '/' ? "" : exe,
                 *installed[i] == '/' ? "" : "/", installed[i]);
    }
    return true;
}
