/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strangers.c - programs that do more than to communicate, in simulated time (fabemu run --clock
 * virtual): they sleep, fork, use threads, signals and timers, or end without MPI_Finalize.
 *
 *    mpirun -np 3 mpi_strangers --name NAME
 *
 * The program "spawns" starts more processes of mpi_strangers.
 * Each program checks that no clock goes back, and that messages arrive after they were sent.
 * tests/cli/strangers_test.py has a table with the results.
 */
#include "common.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3
#define ROUNDS  50

struct test {
    struct checks checks;
    const char *command;
    int ranks;
};

/* --- Lamport ------------------------------------------------------------------------- */

/*
 * Return a time that ranks may compare. MPI_Wtime() of Open MPI counts from the process's first
 * call of it.
 */
static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One thread of each rank exchanges messages that carry the time of their send. */
struct exchange {
    const struct test *test;
    int tag;
    bool late, back;
};

static void *exchange(void *argument)
{
    struct exchange *self = argument;
    int rank = self->test->checks.rank, ranks = self->test->ranks;
    uint64_t sent = monotonic_ns(), received, before;

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Sendrecv(&sent, 1, MPI_UINT64_T, (rank + 1 + i % (ranks - 1)) % ranks, self->tag,
                     &received, 1, MPI_UINT64_T, (rank + ranks - 1 - i % (ranks - 1)) % ranks,
                     self->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        before = sent;
        sent = monotonic_ns();
        self->late |= sent <= received;
        self->back |= sent < before;
    }
    return NULL;
}

/* Threads exchange messages, while the main thread reads the clock. */
static void threads(struct test *test)
{
    struct exchange exchanges[THREADS];
    double before = MPI_Wtime(), now;
    pthread_t thread[THREADS];
    bool back = false;

    for (int i = 0; i < THREADS; i++) {
        exchanges[i] = (struct exchange){.test = test, .tag = i};
        pthread_create(&thread[i], NULL, exchange, &exchanges[i]);
    }
    for (int i = 0; i < 20000; i++) {
        now = MPI_Wtime();
        back |= now < before;
        before = now;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        checks_that(&test->checks, !exchanges[i].late, "a thread receives after the send");
        back |= exchanges[i].back;
    }
    checks_that(&test->checks, !back, "the clock of a thread does not go back");
}

static void exchange_once(struct test *test)
{
    struct exchange exchanges = {.test = test, .tag = THREADS};

    exchange(&exchanges);
    checks_that(&test->checks, !exchanges.late, "a message is received after it was sent");
    checks_that(&test->checks, !exchanges.back, "the clock does not go back");
}

/* --- clocks -------------------------------------------------------------------------- */

static void spin(struct test *test)
{
    double began = MPI_Wtime(), limit = 0.0005 * (test->checks.rank + 1);

    while (MPI_Wtime() - began < limit)
        ;
    checks_that(&test->checks, MPI_Wtime() - began < limit + 1e-6, "spinning takes its time");
}

static void *spin_in_thread(void *argument)
{
    double began = MPI_Wtime();

    (void)argument;
    while (MPI_Wtime() - began < 0.0005)
        ;
    return NULL;
}

/* Two threads wait by reading the clock, while the main thread waits for them. */
static void thread_spins(struct test *test)
{
    double began = MPI_Wtime();
    pthread_t thread[2];

    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, spin_in_thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    checks_that(&test->checks, MPI_Wtime() - began >= 0.0005, "spinning takes its time");
}

/* A thread sleeps until a time that is far ahead of the host's clock. */
static void *sleep_in_thread(void *argument)
{
    struct timespec when;

    clock_gettime(CLOCK_MONOTONIC, &when);
    when.tv_nsec += 50000000;
    when.tv_sec += when.tv_nsec / 1000000000;
    when.tv_nsec %= 1000000000;
    *(int *)argument = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
    return NULL;
}

static void thread_sleeps(struct test *test)
{
    pthread_t thread;
    int err = -1;

    sleep(3600);
    pthread_create(&thread, NULL, sleep_in_thread, &err);
    pthread_join(thread, NULL);
    checks_that(&test->checks, !err, "a thread sleeps until a time");
}

/* The clocks that programs use besides clock_gettime() advance by an hour, too. */
static void clocks(struct test *test)
{
    clock_t ticks = times(&(struct tms){0});
    struct timespec c11, call, now;
    long hour;

    sleep(3600);
    hour = (times(&(struct tms){0}) - ticks) / sysconf(_SC_CLK_TCK);
    checks_that(&test->checks, hour == 3600, "times() returns simulated time");
    timespec_get(&c11, TIME_UTC);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &call);
    clock_gettime(CLOCK_REALTIME, &now);
    checks_that(&test->checks, now.tv_sec - c11.tv_sec <= 1, "timespec_get() is in step");
    checks_that(&test->checks, now.tv_sec - call.tv_sec <= 1, "a system call is in step");
}

/* Locks that another thread holds, with time limits. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *lock(void *argument)
{
    sigset_t *usr2 = argument;

    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    sigwait(usr2, &(int){0});
    pthread_rwlock_unlock(&rwlock);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void locks(struct test *test)
{
    const struct timespec short_time = {.tv_nsec = 40000000};
    struct timespec when;
    pthread_t thread;
    sigset_t usr2;

    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    sleep(3600);
    pthread_create(&thread, NULL, lock, &usr2);
    while (!pthread_rwlock_tryrdlock(&rwlock)) {
        pthread_rwlock_unlock(&rwlock);
        usleep(100);
    }
    clock_gettime(CLOCK_REALTIME, &when);
    when.tv_sec += 1;
    checks_that(&test->checks, pthread_mutex_timedlock(&mutex, &when) == ETIMEDOUT, "a mutex");
    when.tv_sec += 1;
    checks_that(&test->checks, pthread_rwlock_timedrdlock(&rwlock, &when) == ETIMEDOUT, "readers");
    when.tv_sec += 1;
    checks_that(&test->checks, pthread_rwlock_timedwrlock(&rwlock, &when) == ETIMEDOUT, "writers");
    when.tv_sec += 1;
    checks_that(&test->checks, pthread_timedjoin_np(thread, NULL, &when) == ETIMEDOUT, "a thread");
    checks_that(&test->checks, sigtimedwait(&usr2, NULL, &short_time) < 0 && errno == EAGAIN,
                "a signal");
    pthread_kill(thread, SIGUSR2);
    pthread_join(thread, NULL);
}

/* --- signals and timers -------------------------------------------------------------- */

static volatile sig_atomic_t signals;

/* Reads the clock and sleeps: both are permitted in a handler. */
static void handle(int number)
{
    struct timespec now = {.tv_nsec = 1000};

    (void)number;
    nanosleep(&now, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    signals++;
}

static void catch (int number)
{
    const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    sigaction(number, &action, NULL);
}

/* Each rank signals the next one while all communicate. */
static void signalled(struct test *test)
{
    int pid = getpid(), *pids = calloc((size_t)test->ranks, sizeof *pids);

    catch (SIGUSR1);
    MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) {
        kill(pids[(test->checks.rank + 1) % test->ranks], SIGUSR1);
        exchange_once(test);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    checks_that(&test->checks, signals > 0, "a signal arrives");
    free(pids);
}

static void timers(struct test *test)
{
    const struct itimerspec once = {.it_value.tv_nsec = 20000000};
    const struct itimerval often = {{0, 20000}, {0, 20000}}, off = {0};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t expired = 0;

    catch (SIGALRM);
    setitimer(ITIMER_REAL, &often, NULL);
    while (!signals)
        exchange_once(test);
    setitimer(ITIMER_REAL, &off, NULL);
    timerfd_settime(fd, 0, &once, NULL);
    checks_that(&test->checks, read(fd, &expired, sizeof expired) == sizeof expired && expired == 1,
                "a timer expires");
    close(fd);
}

/* --- the counter: --tsc -------------------------------------------------------------- */

#ifdef __x86_64__
static uint64_t rdtsc(void)
{
    return __builtin_ia32_rdtsc();
}

static uint64_t rdtscp(void)
{
    unsigned core = 7;
    uint64_t ticks = __builtin_ia32_rdtscp(&core);

    return core ? 0 : ticks;
}
#else
static uint64_t rdtsc(void)
{
    return 0;
}
#define rdtscp rdtsc
#endif

/* A reading takes 20 ns. */
static void counter_is_right(struct test *test, const char *where)
{
    uint64_t now = monotonic_ns(), first = rdtsc(), second = rdtscp();

    checks_that(&test->checks, first == now + 20 && second == now + 40, where);
}

static void *read_counter(void *argument)
{
    *(uint64_t *)argument = rdtsc();
    return NULL;
}

static volatile sig_atomic_t faults;
static void *volatile fault_at;
static uint64_t volatile counted;
static sigjmp_buf before_fault;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    faults++;
    fault_at = info->si_addr;
    siglongjmp(before_fault, 1);
}

static void count_fault(int number)
{
    (void)number;
    faults++;
}

static void count_in_handler(int number)
{
    (void)number;
    counted = rdtsc();
}

/* With --tsc, the program's own handlers for SIGSEGV still get its faults, with its own flags. */
static void own_faults(struct test *test)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    sigaction(SIGSEGV, &action, NULL);
    for (int i = 1; i <= 3; i++) {
        if (!sigsetjmp(before_fault, 1))
            page[i] = 1;
        checks_that(&test->checks, faults == i && fault_at == page + i, "the program's fault");
        counter_is_right(test, "the counter after a fault");
    }
    sigaction(SIGSEGV, NULL, &before);
    checks_that(&test->checks, before.sa_sigaction == on_fault && before.sa_flags == SA_SIGINFO,
                "sigaction() returns the program's handler");
    checks_that(&test->checks, signal(SIGSEGV, count_fault) == (void (*)(int))(void *)on_fault,
                "signal() returns the program's handler");
    raise(SIGSEGV);
    signal(SIGSEGV, SIG_IGN);
    raise(SIGSEGV);
    checks_that(&test->checks, faults == 4, "a signal is handled, and another one ignored");
    checks_that(&test->checks, signal(SIGSEGV, SIG_DFL) == SIG_IGN, "signals were ignored");
    counter_is_right(test, "the counter after a handler");
    munmap(page, 4096);
}

/* The instructions also work where the program has blocked all signals. */
static void blocked(struct test *test)
{
    struct sigaction action = {.sa_handler = count_in_handler};
    sigset_t all, before;
    uint64_t now;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    counter_is_right(test, "the counter while signals are blocked");
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    now = rdtsc();
    raise(SIGUSR1);
    checks_that(&test->checks, counted == now + 20, "the counter in a handler");
}

static void counts(struct test *test)
{
    uint64_t first, in_thread = 0, last;
    double began, took;
    pthread_t thread;

    counter_is_right(test, "the counter");
    began = MPI_Wtime();
    first = rdtsc();
    exchange_once(test);
    sleep(100);
    took = MPI_Wtime() - began - (double)(rdtsc() - first) * 1e-9;
    checks_that(&test->checks, took > -1e-7 && took < 1e-7, "the counter and MPI_Wtime()");
    first = rdtsc();
    pthread_create(&thread, NULL, read_counter, &in_thread);
    pthread_join(thread, NULL);
    last = rdtsc();
    checks_that(&test->checks, first <= in_thread && in_thread <= last, "a thread's counter");
    own_faults(test);
    blocked(test);
}

static void segfaults(struct test *test)
{
    static uintptr_t volatile address = 16;

    if (test->checks.rank == 1)
        *(volatile int *)address = 0;
}

/* --- other processes ----------------------------------------------------------------- */

static void children(struct test *test)
{
    int status = -1;
    char line[16] = "", *words[] = {"/bin/sh", "-c", "exit 6", NULL};
    FILE *pipe;
    pid_t pid;

    checks_that(&test->checks, system("exit 5") == 5 << 8, "system()");
    pipe = popen("echo text", "r");
    checks_that(&test->checks, pipe && fgets(line, sizeof line, pipe), "popen()");
    checks_that(&test->checks, strcmp(line, "text\n") == 0, "the output of a child");
    pclose(pipe);
    pid = fork();
    if (!pid) {
        execl("/bin/sh", "sh", "-c", "exit 4", NULL);
        _exit(1);
    }
    checks_that(&test->checks, waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 4,
                "fork() and exec()");
    pid = vfork();
    if (!pid) {
        execv(words[0], words);
        _exit(1);
    }
    checks_that(&test->checks, waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6,
                "vfork() and exec()");
    checks_that(&test->checks,
                !posix_spawn(&pid, words[0], NULL, NULL, words, environ) &&
                    waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6,
                "posix_spawn()");
}

/* A forked child communicates, which it cannot. It fails, and the parent goes on. */
static void child_communicates(struct test *test)
{
    int word = 0, status = 0;
    pid_t pid;

    if (test->checks.rank)
        return;
    fflush(stdout);
    pid = fork();
    if (!pid) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        _exit(MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : 6);
    }
    checks_that(&test->checks, waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6,
                "the child's send fails");
}

#define CHILDREN 2

/* All ranks of the parents and children send the time to the next one, again and again. */
static void pass_times(struct test *test, MPI_Comm all)
{
    uint64_t sent = monotonic_ns(), received;
    int rank, ranks, sum = 0;
    bool late = false;

    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Sendrecv(&sent, 1, MPI_UINT64_T, (rank + 1) % ranks, 0, &received, 1, MPI_UINT64_T,
                     (rank + ranks - 1) % ranks, 0, all, MPI_STATUS_IGNORE);
        sent = monotonic_ns();
        late |= sent <= received;
    }
    checks_that(&test->checks, !late, "a message is received after it was sent");
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    checks_that(&test->checks, sum == ranks * (ranks - 1) / 2, "the sum of all ranks");
    MPI_Comm_free(&all);
}

/*
 * Start processes that run spawned(). Both functions print the lines on stderr that cli_helpers.py
 * counts.
 */
static void spawns(struct test *test)
{
    char *words[] = {"--name", "spawns", NULL};
    MPI_Comm children, all;

    if (!test->checks.rank)
        fprintf(stderr, "spawn: wanted\n");
    MPI_Comm_spawn(test->command, words, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(children, 0, &all);
    pass_times(test, all);
    MPI_Comm_disconnect(&children);
}

static void spawned(struct test *test, MPI_Comm parent)
{
    MPI_Comm all;

    if (!test->checks.rank)
        fprintf(stderr, "spawn: there\n");
    MPI_Intercomm_merge(parent, 1, &all);
    pass_times(test, all);
    MPI_Comm_disconnect(&parent);
}

static void reads_input(struct test *test)
{
    char line[16] = "";

    if (!test->checks.rank && !fgets(line, sizeof line, stdin))
        strcpy(line, "nothing");
    MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    checks_that(&test->checks, strcmp(line, "nothing") == 0, "the end of the input");
}

/* --- ends ---------------------------------------------------------------------------- */

static void aborts(struct test *test)
{
    if (test->checks.rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
}

static void exits(struct test *test)
{
    if (test->checks.rank == 1)
        exit(3);
}

/* All ranks receive, and none sends. */
static void receives(struct test *test)
{
    int word;

    MPI_Recv(&word, 1, MPI_INT, (test->checks.rank + 1) % test->ranks, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

static void killed(struct test *test)
{
    if (test->checks.rank == 1)
        raise(SIGKILL);
}

/* A rank is stopped for a while of the host's time, which must not be simulated. */
static void stopped(struct test *test)
{
    double began = MPI_Wtime();
    char command[80];

    snprintf(command, sizeof command, "(kill -STOP %d; sleep 1; kill -CONT %d) &", getpid(),
             getpid());
    if (test->checks.rank == 1)
        checks_that(&test->checks, system(command) == 0, "a shell in the background");
    for (int i = 0; i < 100; i++)
        exchange_once(test);
    checks_that(&test->checks, MPI_Wtime() > began, "time goes on");
}

static const struct {
    const char *name;
    void (*run)(struct test *test);
} programs[] = {
    {"spin", spin},
    {"threads", threads},
    {"thread-spins", thread_spins},
    {"thread-sleeps", thread_sleeps},
    {"clocks", clocks},
    {"locks", locks},
    {"signals", signalled},
    {"timers", timers},
    {"counts", counts},
    {"segfaults", segfaults},
    {"children", children},
    {"child-communicates", child_communicates},
    {"spawns", spawns},
    {"reads-input", reads_input},
    {"aborts", aborts},
    {"exits", exits},
    {"receives", receives},
    {"killed", killed},
    {"stopped", stopped},
};

static void run_program(struct test *test, const char *name)
{
    exchange_once(test);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        if (strcmp(name, programs[i].name) == 0)
            programs[i].run(test);
    exchange_once(test);
}

int main(int argc, char **argv)
{
    struct test test = {.checks = {.program = "strangers"}, .command = argv[0]};
    const char *name = "";
    const struct option_row rows[] = {{"name", "NAME", OPTION_TEXT, &name,
                                       "name of the program to run (see the source)"},
                                      {0}};
    MPI_Comm parent;
    int level, status;

    options_read(rows, argc, argv);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.checks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL)
        run_program(&test, name);
    else
        spawned(&test, parent);
    status = checks_sum(&test.checks);
    MPI_Finalize();
    return status;
}
