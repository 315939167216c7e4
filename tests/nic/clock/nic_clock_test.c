/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_clock_test.c - the C library's clocks and sleeps, as nic/clock/clock.c replaces them. */
#include "nic/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <unistd.h>

#include "tests/test.h"

fabemu_clock_follow_fn fabemu_clock_follow;

static struct {
    time_t s;           /* the simulated time */
    clockid_t read;     /* the clock that was read last */
    uint64_t slept_ns;  /* duration of the last sleep */
    bool refuses;       /* threads must sleep by the host's clock */
    int sleeps, timers; /* how often the program has slept and set a timer by the host's clock */
} simulated;

static bool reads(void *ctx, clockid_t id, struct timespec *ret)
{
    (void)ctx;
    simulated.read = id;
    *ret = (struct timespec){.tv_sec = simulated.s};
    return true;
}

static bool sleeps(void *ctx, uint64_t ns)
{
    (void)ctx;
    if (simulated.refuses)
        return false;
    simulated.slept_ns = ns;
    return true;
}

static void notes_sleep(void *ctx)
{
    (void)ctx;
    simulated.sleeps++;
}

static void notes_timer(void *ctx)
{
    (void)ctx;
    simulated.timers++;
}

static const struct fabemu_clock simulated_clock = {.read = reads,
                                                    .sleep = sleeps,
                                                    .note_sleep = notes_sleep,
                                                    .note_timer = notes_timer};

/* Returns how long this process has been running by the host's clock. */
static double host_s(void)
{
    struct timespec now = {0};

    fabemu_clock_follow(NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    fabemu_clock_follow(&simulated_clock);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep__of_any_duration_is_simulated(void)
{
    static const struct {
        struct timespec duration;
        uint64_t ns;
    } sleeps_of[] = {
        {{0, 0}, 0},
        {{1, 5}, 1000000005},
        {{UINT64_MAX / 1000000000 - 1, 999999999}, UINT64_MAX / 1000000000 * 1000000000 - 1},
        {{UINT64_MAX / 1000000000, 999999999}, UINT64_MAX},
        {{INT64_MAX, 999999999}, UINT64_MAX},
    };

    fabemu_clock_follow(&simulated_clock);
    for (size_t i = 0; i < sizeof sleeps_of / sizeof sleeps_of[0]; i++) {
        CU_ASSERT_EQUAL(nanosleep(&sleeps_of[i].duration, NULL), 0);
        CU_ASSERT_EQUAL(simulated.slept_ns, sleeps_of[i].ns);
    }
    CU_ASSERT_EQUAL(sleep(UINT32_MAX), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, UINT64_C(1000000000) * UINT32_MAX);
    fabemu_clock_follow(NULL);
}

static void sleep__until_a_time_ends_then(void)
{
    const struct timespec past = {.tv_sec = 3}, soon = {.tv_sec = 12, .tv_nsec = 1},
                          never = {.tv_sec = INT64_MAX};

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 0);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &soon, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 2000000001);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &never, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, UINT64_MAX - UINT64_C(10000000000));
    fabemu_clock_follow(NULL);
}

static void sleep__with_a_wrong_duration_fails(void)
{
    static const struct timespec wrong[] = {{-1, 0}, {0, -1}, {0, 1000000000}};

    simulated.sleeps = 0;
    fabemu_clock_follow(&simulated_clock);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errno = 0;
        CU_ASSERT_EQUAL(nanosleep(&wrong[i], NULL), -1);
        CU_ASSERT_EQUAL(errno, EINVAL);
    }
    CU_ASSERT_EQUAL(simulated.sleeps, 0);
    fabemu_clock_follow(NULL);
}

/* The host's monotonic clock is far from the simulated time of 10 s. */
static void sleep__by_the_hosts_clock_is_noted(void)
{
    const struct timespec soon = {.tv_sec = 10, .tv_nsec = 20000000}, timeout = {.tv_nsec = 1000};
    double began;

    simulated.s = 10;
    simulated.refuses = true;
    simulated.sleeps = 0;
    fabemu_clock_follow(&simulated_clock);
    began = host_s();
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &soon, NULL), 0);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &soon, NULL), 0);
    CU_ASSERT(host_s() - began >= 0.04);
    CU_ASSERT_EQUAL(simulated.sleeps, 2);
    CU_ASSERT_EQUAL(ppoll(NULL, 0, &timeout, NULL), 0);
    CU_ASSERT_EQUAL(simulated.sleeps, 3);
    fabemu_clock_follow(NULL);
    simulated.refuses = false;
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* ppoll() and pselect() of nothing end at once if their mask unblocks a pending signal. */
static void sleep__with_a_mask_ends_by_a_signal(void)
{
    const struct sigaction action = {.sa_handler = count_signal};
    const struct timespec long_time = {.tv_sec = 1000};
    sigset_t usr1, before;

    simulated.sleeps = 0;
    fabemu_clock_follow(&simulated_clock);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigaction(SIGUSR1, &action, NULL);
    sigprocmask(SIG_BLOCK, &usr1, &before);
    raise(SIGUSR1);
    CU_ASSERT_EQUAL(ppoll(NULL, 0, &long_time, &before), -1);
    CU_ASSERT_EQUAL(errno, EINTR);
    raise(SIGUSR1);
    CU_ASSERT_EQUAL(pselect(0, NULL, NULL, NULL, &long_time, &before), -1);
    CU_ASSERT_EQUAL(errno, EINTR);
    CU_ASSERT_EQUAL(simulated.sleeps, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    CU_ASSERT_EQUAL(signals, 2); /* ThreadSanitizer runs handlers only in calls that it knows */
    fabemu_clock_follow(NULL);
}

static void clocks__of_system_calls_and_C11_are_simulated(void)
{
    struct timezone zone = {.tz_minuteswest = 4711};
    struct timespec ts = {0};
    struct timeval tv = {0};
    struct tms cpu;

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    CU_ASSERT_EQUAL(timespec_get(&ts, TIME_UTC), TIME_UTC);
    CU_ASSERT_EQUAL(ts.tv_sec, 10);
    ts.tv_sec = 0;
    CU_ASSERT_EQUAL(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts), 0);
    CU_ASSERT_EQUAL(ts.tv_sec, 10);
    CU_ASSERT_EQUAL(syscall(SYS_gettimeofday, &tv, NULL), 0);
    CU_ASSERT_EQUAL(tv.tv_sec, 10);
    CU_ASSERT_EQUAL(gettimeofday(&tv, &zone), 0);
    CU_ASSERT_NOT_EQUAL(zone.tz_minuteswest, 4711);
    CU_ASSERT_EQUAL(tv.tv_sec, 10);
    CU_ASSERT_EQUAL(times(&cpu), 10 * sysconf(_SC_CLK_TCK));
    CU_ASSERT_EQUAL(syscall(SYS_nanosleep, &ts, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 10000000000);
    CU_ASSERT_EQUAL(syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &(struct timespec){-1, 0},
                            NULL),
                    -1);
    CU_ASSERT_EQUAL(errno, EINVAL);
    CU_ASSERT_EQUAL(syscall(SYS_getpid), getpid());
#ifdef SYS_time
    CU_ASSERT_EQUAL(syscall(SYS_time, NULL), 10);
    CU_ASSERT_EQUAL(syscall(SYS_poll, NULL, 0, 5), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 5000000);
    CU_ASSERT_EQUAL(syscall(SYS_select, 0, NULL, NULL, NULL, &(struct timeval){.tv_sec = 7}), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 7000000000);
#endif
    fabemu_clock_follow(NULL);
}

/* A timer whose end is in simulated time expires after as long a time of the host. */
static void timer__measures_the_hosts_time(void)
{
    const struct itimerspec soon = {.it_value = {.tv_sec = 10, .tv_nsec = 1000}};
    const struct itimerval never = {0}, late = {.it_value.tv_sec = 1000};
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t expired = 0;

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    simulated.timers = 0;
    CU_ASSERT_EQUAL(setitimer(ITIMER_REAL, &never, NULL), 0);
    CU_ASSERT_EQUAL(alarm(0), 0);
    CU_ASSERT_EQUAL(simulated.timers, 0);
    CU_ASSERT_EQUAL(timerfd_settime(fd, TFD_TIMER_ABSTIME, &soon, NULL), 0);
    CU_ASSERT_EQUAL(read(fd, &expired, sizeof expired), sizeof expired);
    CU_ASSERT_EQUAL(simulated.timers, 1);
    CU_ASSERT_EQUAL(setitimer(ITIMER_REAL, &late, NULL), 0);
    CU_ASSERT_EQUAL(alarm(1000), 1000);
    CU_ASSERT(alarm(0) > 900);
    CU_ASSERT_EQUAL(simulated.timers, 3);
    fabemu_clock_follow(NULL);
    close(fd);
}

/* Its absolute time is a CPU time, and has no relation to the simulated time of 10 s. */
static void timer__of_cpu_time_is_not_changed(void)
{
    const struct itimerspec late = {.it_value = {.tv_sec = 5000}};
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec left;
    timer_t timer;

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    simulated.timers = 0;
    CU_ASSERT_EQUAL_FATAL(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer), 0);
    CU_ASSERT_EQUAL(timer_settime(timer, TIMER_ABSTIME, &late, NULL), 0);
    CU_ASSERT_EQUAL(timer_gettime(timer, &left), 0);
    CU_ASSERT(left.it_value.tv_sec > 4000 && left.it_value.tv_sec <= 5000);
    CU_ASSERT_EQUAL(timer_delete(timer), 0);
    CU_ASSERT_EQUAL(simulated.timers, 0);
    CU_ASSERT_EQUAL_FATAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    CU_ASSERT_EQUAL(timer_settime(timer, TIMER_ABSTIME, &late, NULL), 0);
    CU_ASSERT_EQUAL(simulated.timers, 1);
    CU_ASSERT_EQUAL(timer_delete(timer), 0);
    fabemu_clock_follow(NULL);
}

/* A timer that was set before the process attached is noted when it attaches. */
static void timer__from_before_is_noted(void)
{
    alarm(1000);
    simulated.timers = 0;
    fabemu_clock_follow(&simulated_clock);
    CU_ASSERT_EQUAL(simulated.timers, 1);
    fabemu_clock_follow(NULL);
    alarm(0);
}

static void wait__for_nothing_is_a_sleep(void)
{
    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    CU_ASSERT_EQUAL(poll(NULL, 0, 5), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 5000000);
    fabemu_clock_follow(NULL);
}

/* As on Linux, select() sets the time limit to the remaining time. */
static void wait__by_select_returns_the_remaining_time(void)
{
    struct timeval left = {.tv_usec = 5000};
    fd_set none, in;
    int ends[2];

    FD_ZERO(&none);
    CU_ASSERT_EQUAL(select(0, &none, NULL, NULL, &left), 0);
    CU_ASSERT(left.tv_sec == 0 && left.tv_usec == 0);
    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    left.tv_sec = 7;
    CU_ASSERT_EQUAL(select(0, NULL, NULL, NULL, &left), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 7000000000);
    CU_ASSERT(left.tv_sec == 0 && left.tv_usec == 0);
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    CU_ASSERT_EQUAL(write(ends[1], "", 1), 1);
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    left = (struct timeval){.tv_sec = 7, .tv_usec = 3};
    CU_ASSERT_EQUAL(select(ends[0] + 1, &in, NULL, NULL, &left), 1);
    CU_ASSERT(left.tv_sec == 7 && left.tv_usec == 3); /* no simulated time has passed */
    close(ends[0]);
    close(ends[1]);
    fabemu_clock_follow(NULL);
}

/* Post the semaphore after a while of the host's time. */
static void *post_later(void *sem)
{
    struct timespec while_of_host = {.tv_nsec = 20000000};

    syscall(SYS_ppoll, NULL, 0, &while_of_host, NULL);
    sem_post(sem);
    return NULL;
}

static void wait__until_a_time_far_away_ends_by_the_event(void)
{
    const struct timespec never = {.tv_sec = INT64_MAX}, past = {.tv_sec = 3};
    pthread_t thread;
    sem_t sem;

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    sem_init(&sem, 0, 0);
    pthread_create(&thread, NULL, post_later, &sem);
    CU_ASSERT_EQUAL(sem_timedwait(&sem, &never), 0);
    CU_ASSERT_EQUAL(sem_timedwait(&sem, &past), -1);
    CU_ASSERT_EQUAL(errno, ETIMEDOUT);
    pthread_join(thread, NULL);
    sem_destroy(&sem);
    fabemu_clock_follow(NULL);
}

/* Wait for a condition variable with clock @id until 1 us after the present simulated time. */
static int wait_for_cond(clockid_t id)
{
    const struct timespec when = {.tv_sec = simulated.s, .tv_nsec = 1000};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t attr;
    pthread_cond_t cond;
    int err;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, id);
    pthread_cond_init(&cond, &attr);
    pthread_mutex_lock(&mutex);
    err = pthread_cond_timedwait(&cond, &mutex, &when);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
    pthread_condattr_destroy(&attr);
    return err;
}

static void wait__for_a_condition_uses_its_clock(void)
{
    static const clockid_t ids[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    static const time_t times[] = {10, 2000000000};

    fabemu_clock_follow(&simulated_clock);
    for (size_t i = 0; i < 4; i++) {
        simulated.s = times[i / 2];
        simulated.read = -1;
        CU_ASSERT_EQUAL(wait_for_cond(ids[i % 2]), ETIMEDOUT);
        CU_ASSERT_EQUAL(simulated.read, ids[i % 2]);
    }
    fabemu_clock_follow(NULL);
}

/* A reading of the clock by another thread, which takes a while of the host's time. */
static struct {
    sem_t begun;
    atomic_bool ended;
} reading;

static bool reads_slowly(void *ctx, clockid_t id, struct timespec *ret)
{
    (void)ctx, (void)id, (void)ret;
    sem_post(&reading.begun);
    syscall(SYS_ppoll, NULL, 0, &(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&reading.ended, true);
    return false;
}

static void *read_once(void *unused)
{
    time(NULL);
    return unused;
}

/* A process that detaches frees its clock, so a thread that reads the clock then is awaited. */
static void follow__waits_for_readings_of_the_old_clock(void)
{
    struct fabemu_clock slow = simulated_clock;
    pthread_t thread;

    slow.read = reads_slowly;
    sem_init(&reading.begun, 0, 0);
    fabemu_clock_follow(&slow);
    pthread_create(&thread, NULL, read_once, NULL);
    sem_wait(&reading.begun);
    fabemu_clock_follow(NULL);
    CU_ASSERT(atomic_load(&reading.ended));
    pthread_join(thread, NULL);
    sem_destroy(&reading.begun);
}

static bool reads_and_detaches(void *ctx, clockid_t id, struct timespec *ret)
{
    (void)ctx, (void)id, (void)ret;
    fabemu_clock_follow(NULL);
    return false;
}

/* A signal handler that calls exit() can detach the process while it reads the clock. */
static void follow__returns_within_a_reading(void)
{
    struct fabemu_clock clock = simulated_clock;

    clock.read = reads_and_detaches;
    fabemu_clock_follow(&clock);
    CU_ASSERT(time(NULL) > 1000); /* the host's time */
    fabemu_clock_follow(NULL);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(sleep__of_any_duration_is_simulated),
        CASE(sleep__until_a_time_ends_then),
        CASE(sleep__with_a_wrong_duration_fails),
        CASE(sleep__by_the_hosts_clock_is_noted),
        CASE(sleep__with_a_mask_ends_by_a_signal),
        CASE(clocks__of_system_calls_and_C11_are_simulated),
        CASE(timer__measures_the_hosts_time),
        CASE(timer__of_cpu_time_is_not_changed),
        CASE(timer__from_before_is_noted),
        CASE(wait__for_nothing_is_a_sleep),
        CASE(wait__by_select_returns_the_remaining_time),
        CASE(wait__until_a_time_far_away_ends_by_the_event),
        CASE(wait__for_a_condition_uses_its_clock),
        CASE(follow__waits_for_readings_of_the_old_clock),
        CASE(follow__returns_within_a_reading),
        {0},
    };

    return test_run("nic_clock", cases);
}
