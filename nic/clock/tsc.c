/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tsc.c - the instructions RDTSC and RDTSCP read simulated time (fabemu run --tsc), for preloading.
 *
 * While the process is attached, these instructions raise SIGSEGV in the thread that has attached
 * and in the threads that it has started since (PR_SET_TSC). A handler sets the result, which is
 * CLOCK_MONOTONIC in ns, and continues after the instruction. It passes any other SIGSEGV to the
 * program's handler. The program can block SIGSEGV only in that handler, because the kernel ends a
 * process in which an instruction raises a blocked signal.
 *
 * The kernel applies the setting of a thread to the processes that it starts, even after exec, and
 * the C library reads the counter before main(). So the setting is reset before a program starts.
 */
#include "nic/clock/simulated.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static bool requested; /* the user has given --tsc; set before main() */

/* The program's action for SIGSEGV. If a thread changes it while another one handles the signal,
   the latter may use the handler of one action and the flags of the other. */
static _Atomic(sighandler_t) handler; /* may be SIG_DFL or SIG_IGN */
static atomic_int handler_flags;      /* sa_flags */

/* Let RDTSC raise a signal in the calling thread, or read the host's counter. */
static bool set_faults(bool faults)
{
    return !prctl(PR_SET_TSC, faults ? PR_TSC_SIGSEGV : PR_TSC_ENABLE);
}

/*
 * Libraries that read the host's counter: the vDSO, which computes the host's time, and Open MPI,
 * which decides by time how often it looks for events. How often it reads the counter depends on
 * the host, so these readings must take no simulated time.
 */
static const char *const host_libraries[] = {"linux-vdso.so", "libopen-pal.so"};
#define HOST_LIBRARIES (sizeof host_libraries / sizeof host_libraries[0])
static struct {
    _Atomic uintptr_t begin, end; /* 0: the library is not loaded */
} host_code[HOST_LIBRARIES];

/* If the library @object is one of host_libraries, note where its code is. Returns 0. */
static int note_code(struct dl_phdr_info *object, size_t bytes, void *context)
{
    (void)bytes, (void)context;
    for (size_t i = 0; i < HOST_LIBRARIES; i++)
        for (size_t k = 0; k < object->dlpi_phnum; k++) {
            uintptr_t begin = object->dlpi_addr + object->dlpi_phdr[k].p_vaddr;

            if (!(object->dlpi_phdr[k].p_flags & PF_X) ||
                !strstr(object->dlpi_name, host_libraries[i]))
                continue;
            atomic_store_explicit(&host_code[i].begin, begin, memory_order_relaxed);
            atomic_store_explicit(&host_code[i].end, begin + object->dlpi_phdr[k].p_memsz,
                                  memory_order_relaxed);
        }
    return 0;
}

void tsc_follow(bool simulated)
{
    if (!requested)
        return;
    if (simulated)
        dl_iterate_phdr(note_code, NULL);
    set_faults(simulated);
}

/* --- the instructions ---------------------------------------------------------------- */

#ifdef __x86_64__
/* Return the length of the instruction at @at if it reads the counter, else 0. */
static int counter_instruction_bytes(const uint8_t *at)
{
    if (at[0] != 0x0f)
        return 0;
    if (at[1] == 0x31) /* RDTSC */
        return 2;
    return at[1] == 0x01 && at[2] == 0xf9 ? 3 : 0; /* RDTSCP */
}

static bool reads_host(uintptr_t at)
{
    for (size_t i = 0; i < HOST_LIBRARIES; i++)
        if (at >= atomic_load_explicit(&host_code[i].begin, memory_order_relaxed) &&
            at < atomic_load_explicit(&host_code[i].end, memory_order_relaxed))
            return true;
    return false;
}

static uint64_t host_counter(void)
{
    uint64_t ticks;

    set_faults(false);
    ticks = __builtin_ia32_rdtsc();
    set_faults(true);
    return ticks;
}

static uint64_t monotonic_ns(void)
{
    static _Atomic(void *) cache;
    long (*function)(long, ...) = fabemu_clock_original(&cache, "syscall");
    struct timespec now = {0};

    if (!simulated_time(CLOCK_MONOTONIC, &now))
        function(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return ns_of(&now);
}

/* If RDTSC or RDTSCP has raised the signal, execute the instruction and return true. */
static bool execute(const siginfo_t *info, ucontext_t *context)
{
    greg_t *reg = context->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)reg[REG_RIP];
    /* a fault of any other kind may come from a jump to an unmapped address */
    int bytes = info->si_code == SI_KERNEL ? counter_instruction_bytes((const void *)at) : 0;
    uint64_t ticks;

    if (!bytes)
        return false;
    ticks = reads_host(at) ? host_counter() : monotonic_ns();
    reg[REG_RAX] = (greg_t)(ticks & UINT32_MAX);
    reg[REG_RDX] = (greg_t)(ticks >> 32);
    if (bytes == 3)
        reg[REG_RCX] = 0; /* the number of the core */
    reg[REG_RIP] += bytes;
    return true;
}
#else
static bool execute(const siginfo_t *info, ucontext_t *context)
{
    (void)info, (void)context;
    return false;
}
#endif

/* --- the program's handler ----------------------------------------------------------- */

static int set_action(int number, const struct sigaction *action, struct sigaction *before)
{
    static _Atomic(void *) cache;
    int (*function)(int, const struct sigaction *, struct sigaction *) =
        fabemu_clock_original(&cache, "sigaction");

    return function(number, action, before);
}

static int set_mask(int how, const sigset_t *set, sigset_t *before)
{
    static _Atomic(void *) cache;
    int (*function)(int, const sigset_t *, sigset_t *) =
        fabemu_clock_original(&cache, "pthread_sigmask");

    return function(how, set, before);
}

/* Handle the signal as it would be handled without --tsc. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction ends = {.sa_handler = SIG_DFL};
    const struct sigaction action = {.sa_handler =
                                         atomic_load_explicit(&handler, memory_order_relaxed),
                                     .sa_flags = atomic_load_explicit(&handler_flags,
                                                                      memory_order_relaxed)};
    bool was_sent = info->si_code <= 0; /* by a call such as kill() */
    sigset_t set;

    if (was_sent && action.sa_handler == SIG_IGN)
        return;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        set_action(number, &ends, NULL);
        if (was_sent)
            raise(number);
        return; /* the instruction raises the signal again, and it ends the process */
    }
    if (action.sa_flags & (int)SA_RESETHAND)
        atomic_store_explicit(&handler, SIG_DFL, memory_order_relaxed);
    sigemptyset(&set);
    if (!(action.sa_flags & SA_NODEFER))
        sigaddset(&set, number);
    set_mask(SIG_BLOCK, &set, NULL);
    /* a handler without SA_SIGINFO ignores the last two arguments */
    action.sa_sigaction(number, info, context);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int err = errno;

    if (!execute(info, context))
        pass_on(number, info, context);
    errno = err;
}

/*
 * Note that the program sets @action for SIGSEGV, and set on_signal() instead. @action may be NULL,
 * and *@before gets the program's previous action, as with sigaction().
 */
static int note_action(const struct sigaction *action, struct sigaction *before)
{
    sighandler_t function = atomic_load_explicit(&handler, memory_order_relaxed);
    int flags = atomic_load_explicit(&handler_flags, memory_order_relaxed), result;
    struct sigaction ours;

    if (action) {
        ours = *action;
        ours.sa_sigaction = on_signal;
        ours.sa_flags = (action->sa_flags | SA_SIGINFO | SA_NODEFER) & ~(int)SA_RESETHAND;
        atomic_store_explicit(&handler_flags, action->sa_flags, memory_order_relaxed);
        atomic_store_explicit(&handler, action->sa_handler, memory_order_relaxed);
    }
    result = set_action(SIGSEGV, action ? &ours : NULL, before);
    if (before) {
        before->sa_handler = function;
        before->sa_flags = flags;
    }
    return result;
}

PUBLIC int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    struct sigaction open;

    if (!requested)
        return set_action(number, action, before);
    if (action) {
        open = *action;
        sigdelset(&open.sa_mask, SIGSEGV);
        action = &open;
    }
    return number == SIGSEGV ? note_action(action, before) : set_action(number, action, before);
}

static sighandler_t set_handler(int number, sighandler_t function, int flags)
{
    const struct sigaction action = {.sa_handler = function, .sa_flags = flags};
    struct sigaction before;

    return function == SIG_ERR || sigaction(number, &action, &before) ? SIG_ERR : before.sa_handler;
}

PUBLIC sighandler_t signal(int number, sighandler_t function)
{
    static _Atomic(void *) cache;
    sighandler_t (*original)(int, sighandler_t) = fabemu_clock_original(&cache, "signal");

    return requested && number == SIGSEGV ? set_handler(number, function, SA_RESTART)
                                          : original(number, function);
}

/* Programs that are compiled for ISO C without extensions call this function as signal(). */
PUBLIC sighandler_t __sysv_signal(int number, sighandler_t function)
{
    return set_handler(number, function, (int)SA_RESETHAND | SA_NODEFER);
}

PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t open;

    if (requested && set && how != SIG_UNBLOCK) {
        open = *set;
        sigdelset(&open, SIGSEGV);
        set = &open;
    }
    return set_mask(how, set, before);
}

PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    int err = pthread_sigmask(how, set, before);

    errno = err ? err : errno;
    return err ? -1 : 0;
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action;

    if (!getenv("FABEMU_TSC"))
        return;
    set_action(SIGSEGV, NULL, &action);
    requested = true;
    note_action(&action, NULL);
}

/* --- new programs ---------------------------------------------------------------------- */

/* Let RDTSC read the host's counter in the calling thread. Returns whether this was a change. */
static bool stop_faults(void)
{
    int mode = PR_TSC_ENABLE;

    if (requested)
        prctl(PR_GET_TSC, &mode);
    return mode == PR_TSC_SIGSEGV && set_faults(false);
}

/*
 * Define a replacement for a function of the C library that starts a program. @parameters: as the
 * function declares them. @arguments: only the names of the parameters.
 */
#define STARTS(type, name, parameters, arguments)                          \
    PUBLIC type name parameters                                            \
    {                                                                      \
        static _Atomic(void *) cache;                                      \
        type(*function) parameters = fabemu_clock_original(&cache, #name); \
        bool faults = stop_faults();                                       \
        type result = function arguments;                                  \
                                                                           \
        if (faults)                                                        \
            set_faults(true);                                              \
        return result;                                                     \
    }

STARTS(int, system, (const char *command), (command))
STARTS(FILE *, popen, (const char *command, const char *mode), (command, mode))
STARTS(int, posix_spawn,
       (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
        const posix_spawnattr_t *attr, char *const argv[], char *const env[]),
       (pid, path, actions, attr, argv, env))
STARTS(int, posix_spawnp,
       (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,
        const posix_spawnattr_t *attr, char *const argv[], char *const env[]),
       (pid, file, actions, attr, argv, env))
STARTS(int, execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env))
STARTS(int, execv, (const char *path, char *const argv[]), (path, argv))
STARTS(int, execvp, (const char *file, char *const argv[]), (file, argv))
STARTS(int, execvpe, (const char *file, char *const argv[], char *const env[]), (file, argv, env))
