/* SPDX-License-Identifier: BSD-3-Clause */
/* open.c - see open.h. Loads the library that has DPDK; it stays loaded, as DPDK cannot leave. */
#include "emu/hostlink/port/open.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "emu/util/plugin.h"

#define LIBRARY_BUILT "emu/hostlink/dpdk" /* below the build folder */

#ifdef HOSTLINK_DPDK
static const bool built_with_dpdk = true;
#else
static const bool built_with_dpdk = false;
#endif

/* The library's function; NULL, with the reason at @error and *@err. */
static emu_hostport_open_fn *library_open(int *err, char *error, size_t error_bytes)
{
    char dir[600], path[700];

    *err = -ENOENT;
    if (!emu_plugin_dir(dir, sizeof dir, EMU_HOSTPORT_LIBRARY, LIBRARY_BUILT)) {
        *err = built_with_dpdk ? -ENOENT : -ENOTSUP;
        snprintf(error, error_bytes,
                 built_with_dpdk
                     ? EMU_HOSTPORT_LIBRARY " is neither beside this program nor where it was to be"
                                            " installed: build and install fabemu anew"
                     : "this fabemu was built without DPDK, and links between hosts need it:"
                       " install libdpdk-dev and build it anew");
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s", dir, EMU_HOSTPORT_LIBRARY);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(
            error, error_bytes,
            "DPDK cannot be loaded, and links between hosts need it: %s; install its libraries",
            dlerror());
        return NULL;
    }
    const char *built = dlsym(library, EMU_HOSTPORT_BUILT_SYMBOL);
    emu_hostport_open_fn *fn = (emu_hostport_open_fn *)dlsym(library, EMU_HOSTPORT_OPEN_SYMBOL);
    emu_hostport_unmaps_fn *unmaps =
        (emu_hostport_unmaps_fn *)dlsym(library, EMU_HOSTPORT_UNMAPS_SYMBOL);
    if (!fn || !unmaps || !built || strcmp(built, FABEMU_VERSION) != 0) {
        snprintf(error, error_bytes, "%s is of fabemu %s, this is " FABEMU_VERSION, path,
                 built ? built : "(unknown)");
        return NULL;
    }
    emu_unmap_guard(unmaps);
    return fn;
}

int emu_hostport_open(struct emu_hostport **ret, const char *device,
                      const struct emu_hostport_options *options, char *error, size_t error_bytes)
{
    static const struct emu_hostport_options none = {0};
    int err;
    emu_hostport_open_fn *fn = library_open(&err, error, error_bytes);

    return fn ? fn(ret, device, options ? options : &none, error, error_bytes) : err;
}
