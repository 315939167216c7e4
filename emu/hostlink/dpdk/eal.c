/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eal.c - start DPDK (its "environment abstraction layer"), which is possible once per process.
 *
 * DPDK does not see the program's options, and its threads receive no signals. It uses only
 * adapters that the cluster file gives to ports. Its files in /var/run are either not created, or
 * removed at once.
 */
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "emu/hostlink/dpdk/dpdk.h"

#define MEMORY_MIB 256u

/* No adapter has this address. With it (option -a), DPDK uses only adapters that we name. */
#define NO_ADAPTER "ffff:ff:1f.7"

struct start {
    bool tried;
    struct emu_hostport_options options;
    int err;
    char why[256];
};

struct elsewhere {
    void (*fn)(void *ctx);
    void *ctx;
};

static void *elsewhere_main(void *ctx)
{
    struct elsewhere *call = ctx;

    call->fn(call->ctx);
    return NULL;
}

int dpdk_elsewhere(void (*fn)(void *ctx), void *ctx)
{
    struct elsewhere call = {fn, ctx};
    sigset_t all, had;
    pthread_t thread;

    /* the new thread, and the threads that DPDK starts from it, inherit this mask */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &had);
    int err = pthread_create(&thread, NULL, elsewhere_main, &call);
    pthread_sigmask(SIG_SETMASK, &had, NULL);
    if (err == 0)
        pthread_join(thread, NULL);
    return -err;
}

static bool huge_pages_free(void)
{
    bool some = false;
    glob_t found;

    if (glob("/sys/kernel/mm/hugepages/*/free_hugepages", 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc && !some; i++) {
        unsigned long pages = 0;
        FILE *f = fopen(found.gl_pathv[i], "r");
        some = f && fscanf(f, "%lu", &pages) == 1 && pages > 0;
        if (f)
            fclose(f);
    }
    globfree(&found);
    return some;
}

/*
 * Write the value of DPDK's option for the cores, such as "0@(2-3,8-8)": DPDK's only lcore, a
 * thread, may use the cores of the calling thread. Return false if the cores are not known.
 */
static bool cores_text(char *ret, size_t bytes)
{
    size_t at = (size_t)snprintf(ret, bytes, "0@(");
    cpu_set_t cores;

    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return false;
    for (int core = 0; core < CPU_SETSIZE && at < bytes; core++) {
        int last = core;
        if (!CPU_ISSET(core, &cores))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cores))
            last++;
        at += (size_t)snprintf(ret + at, bytes - at, "%s%d-%d", ret[at - 1] == '(' ? "" : ",", core,
                               last);
        core = last;
    }
    return at < bytes && (size_t)snprintf(ret + at, bytes - at, ")") < bytes - at;
}

static void eal_start(void *ctx)
{
    struct start *start = ctx;
    bool huge = start->options.huge_pages && huge_pages_free();
    char prefix[40], cores[2048], memory[16], said[DPDK_LOG_CHARS], *argv[20];
    int argc = 0;

    snprintf(prefix, sizeof prefix, "--file-prefix=fabemu-%d", (int)getpid());
    snprintf(memory, sizeof memory, "%u",
             start->options.memory_mib ? start->options.memory_mib : MEMORY_MIB);
    start->err = -EIO;
    if (!cores_text(cores, sizeof cores)) {
        snprintf(start->why, sizeof start->why, "the cores of this process are not known");
        return;
    }
    const char *const always[] = {
        "fabemu", prefix, "--no-telemetry", "--log-level=error", "--lcores",
        cores,    "-a",   NO_ADAPTER};
    const char *const small[] = {"--no-huge", "--no-shconf", "-m", memory};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        argv[argc++] = (char *)(uintptr_t)always[i];
    for (size_t i = 0; i < sizeof small / sizeof small[0] && !huge; i++)
        argv[argc++] = (char *)(uintptr_t)small[i];
    if (huge)
        argv[argc++] = (char *)(uintptr_t) "--in-memory";
    argv[argc] = NULL;
    if (rte_eal_init(argc, argv) >= 0) {
        start->err = 0;
        dpdk_log_libraries();
        /* the folder is empty: DPDK's files in it are only for sharing with other processes */
        rmdir(rte_eal_get_runtime_dir());
        return;
    }
    start->err = rte_errno == ENOMEM ? -ENOMEM : -EIO;
    dpdk_log_kept(said);
    snprintf(start->why, sizeof start->why, "%s%s%s", rte_strerror(rte_errno), *said ? ": " : "",
             said);
}

int dpdk_eal_start(const struct emu_hostport_options *options, const struct dpdk_error *error)
{
    static struct start start; /* static, because DPDK can be started only once per process */

    if (!start.tried) {
        start = (struct start){.tried = true, .options = *options};
        dpdk_log_keep(true);
        int err = dpdk_log_open();
        if (err == 0)
            err = dpdk_elsewhere(eal_start, &start);
        if (err != 0) {
            start.err = err;
            snprintf(start.why, sizeof start.why, "%s", strerror(-err));
        }
    }
    if (start.err != 0)
        return dpdk_fail(error, start.err, "DPDK does not start in this process: %s", start.why);
    return 0;
}
