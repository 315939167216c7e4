/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c - load the library that contains DPDK, and open a port with it (open.h). The library stays
 * loaded, because DPDK cannot be unloaded.
 */
#include "emu/hostlink/port/open.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/util/plugin.h"

#define LIBRARY_BUILT "emu/hostlink/dpdk" /* the library's folder within the build folder */

#ifdef HOSTLINK_DPDK
static const bool built_with_dpdk = true;
#else
static const bool built_with_dpdk = false;
#endif

/*
 * The function that our munmap() below calls first. This function returns when no ring is in use.
 *
 * When the peer of net_memif disconnects, DPDK's interrupt thread unmaps the rings even if another
 * thread is using them. Neither thread checks for the other (DPDK 22.11), so the process would
 * crash. The driver first marks the device as disconnected in its own flags, and then calls
 * munmap(). A program may define munmap() itself. Our munmap() waits until no thread uses the
 * rings. Rejected: receiving and sending on the interrupt thread, which would cost a thread switch
 * per burst.
 */
static _Atomic(emu_hostport_unmaps_fn *) guard;

void emu_unmap_guard(emu_hostport_unmaps_fn *unmaps)
{
    atomic_store_explicit(&guard, unmaps, memory_order_release); /* H8 pairs with H7 */
}

/* Replaces munmap() in this program and its libraries. Sanitizers need their own munmap(). */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int munmap(void *addr, size_t bytes)
{
    /* H7 pairs with H8 */
    emu_hostport_unmaps_fn *unmaps = atomic_load_explicit(&guard, memory_order_acquire);

    if (unmaps)
        unmaps();
    return (int)syscall(SYS_munmap, addr, bytes);
}
#endif

/* Return whether a loaded library does not belong to this fabemu. If so, write the reason. */
static bool library_is_wrong(void *library, const char *path, char *error, size_t error_bytes)
{
    static const char *const symbols[] = {EMU_HOSTPORT_BUILT_SYMBOL, EMU_HOSTPORT_OPEN_SYMBOL,
                                          EMU_HOSTPORT_UNMAPS_SYMBOL};
    const char *built = dlsym(library, EMU_HOSTPORT_BUILT_SYMBOL);

    if (built && strcmp(built, FABEMU_VERSION) != 0) {
        snprintf(error, error_bytes, "%s belongs to fabemu %s, but this is fabemu " FABEMU_VERSION,
                 path, built);
        return true;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (dlsym(library, symbols[i]))
            continue;
        snprintf(error, error_bytes,
                 "%s has no symbol %s, so it is not the library of this fabemu " FABEMU_VERSION
                 ": build and install fabemu anew",
                 path, symbols[i]);
        return true;
    }
    return false;
}

/* Load the library. Return its open function, or NULL with the reason in @error and *@err. */
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
    if (library_is_wrong(library, path, error, error_bytes))
        return NULL;
    emu_unmap_guard((emu_hostport_unmaps_fn *)dlsym(library, EMU_HOSTPORT_UNMAPS_SYMBOL));
    return (emu_hostport_open_fn *)dlsym(library, EMU_HOSTPORT_OPEN_SYMBOL);
}

int emu_hostport_open(struct emu_hostport **ret, const char *device,
                      const struct emu_hostport_options *options, char *error, size_t error_bytes)
{
    static const struct emu_hostport_options none = {0};
    int err;
    emu_hostport_open_fn *fn = library_open(&err, error, error_bytes);

    return fn ? fn(ret, device, options ? options : &none, error, error_bytes) : err;
}
