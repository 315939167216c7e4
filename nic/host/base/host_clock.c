/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_clock.c - the host's clock for this library, even if libfabemu-clock is preloaded and
 * programs see simulated time. The linker binds all calls in this library to this function.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>

__attribute__((visibility("hidden"))) int clock_gettime(clockid_t id, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct timespec *) =
        atomic_load_explicit(&cache, memory_order_relaxed);

    if (!function) {
        function = dlsym(RTLD_NEXT, "clock_gettime");
        atomic_store_explicit(&cache, function, memory_order_relaxed);
    }
    return function(id, ret);
}
