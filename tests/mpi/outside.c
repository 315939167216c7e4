/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outside.c - processes that sleep outside the fabric, in simulated time (fabemu run --clock
 * virtual). Time must go on meanwhile, and no clock may go back. Rank 0 and the last rank act, the
 * others wait for them.
 *
 *    mpirun -np 3 mpi_outside [--fifo PATH]
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_NS 300000000 /* how long a child sleeps */
#define LIMIT_MS 40        /* limit of a wait for something that does not happen */

struct test {
    int rank, ranks;
    int passed, failed;
    const char *fifo;
};

static void that(struct test *test, bool ok, const char *what)
{
    if (!ok)
        printf("outside: rank %d: wrong: %s\n", test->rank, what);
    test->passed += ok;
    test->failed += !ok;
}

/* Wait for all ranks. A barrier ends after it began on the rank that comes last. */
static double meet(struct test *test)
{
    double began = MPI_Wtime(), last, ended;

    MPI_Barrier(MPI_COMM_WORLD);
    ended = MPI_Wtime();
    MPI_Allreduce(&began, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    that(test, ended > last, "a barrier ends after it began");
    return ended;
}

/* The last rank waits for a child, which sleeps by the host's clock. */
static void child(struct test *test)
{
    static const struct timespec duration = {.tv_nsec = CHILD_NS};
    double began = meet(test), took;
    int status = -1;
    pid_t pid;

    if (test->rank == test->ranks - 1) {
        pid = fork();
        if (!pid)
            _exit(nanosleep(&duration, NULL) ? 1 : 3);
        that(test, waitpid(pid, &status, 0) == pid, "waiting for the child");
        that(test, WIFEXITED(status) && WEXITSTATUS(status) == 3, "the child's sleep");
    }
    took = meet(test) - began;
    that(test, took > 0 && took < 30, "time goes on after waitpid()");
}

/* The last rank reads from a pipe, into which rank 0 writes after a sleep in simulated time. */
static void pipes(struct test *test)
{
    double began = meet(test), took;
    char byte = 0;
    int fd;

    if (!test->rank)
        sleep(1);
    fd = test->rank && test->rank < test->ranks - 1
             ? -1
             : open(test->fifo, test->rank ? O_RDONLY : O_WRONLY);
    if (!test->rank)
        that(test, write(fd, "x", 1) == 1, "writing into the pipe");
    else if (fd >= 0)
        that(test, read(fd, &byte, 1) == 1 && byte == 'x', "reading from the pipe");
    if (fd >= 0)
        close(fd);
    took = meet(test) - began;
    that(test, took >= 1 && took < 30, "a process that sleeps outside holds up nobody");
}

static struct timespec limit_on(clockid_t clock)
{
    struct timespec when;

    clock_gettime(clock, &when);
    when.tv_nsec += LIMIT_MS * 1000000;
    when.tv_sec += when.tv_nsec / 1000000000;
    when.tv_nsec %= 1000000000;
    return when;
}

/* Check that a wait that began at @began has ended by its limit, which is exact if @exact. */
static void limited(struct test *test, double began, bool over, bool exact, const char *what)
{
    double took = MPI_Wtime() - began;

    that(test, over, what);
    that(test, took >= LIMIT_MS * 1e-3 && took < (exact ? LIMIT_MS * 1e-3 + 1e-6 : 30), what);
}

/* Waits for descriptors, of which none becomes ready. */
static void descriptors(struct test *test)
{
    struct timespec timeout = {.tv_nsec = LIMIT_MS * 1000000};
    struct timeval interval = {.tv_usec = LIMIT_MS * 1000};
    int fds[2], epoll = epoll_create1(0);
    struct epoll_event event;
    struct pollfd wanted;
    double began;
    fd_set in;

    that(test, pipe(fds) == 0, "making a pipe");
    wanted = (struct pollfd){.fd = fds[0], .events = POLLIN};
    FD_ZERO(&in);
    FD_SET(fds[0], &in);
    began = MPI_Wtime();
    limited(test, began, poll(NULL, 0, LIMIT_MS) == 0, true, "poll() of nothing");
    began = MPI_Wtime();
    limited(test, began, select(0, NULL, NULL, NULL, &interval) == 0, true, "select() of nothing");
    began = MPI_Wtime();
    limited(test, began, ppoll(&wanted, 1, &timeout, NULL) == 0, false, "ppoll()");
    began = MPI_Wtime();
    limited(test, began, select(fds[0] + 1, &in, NULL, NULL, &interval) == 0, false, "select()");
    began = MPI_Wtime();
    limited(test, began, epoll_wait(epoll, &event, 1, LIMIT_MS) == 0, false, "epoll_wait()");
    that(test, poll(&wanted, 1, 0) == 0, "poll() without a limit");
    close(fds[0]);
    close(fds[1]);
    close(epoll);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static bool wait_for_condition(clockid_t clock)
{
    struct timespec when = limit_on(clock);
    pthread_condattr_t attributes;
    pthread_cond_t never;
    int err;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&never, &attributes);
    pthread_mutex_lock(&mutex);
    err = pthread_cond_timedwait(&never, &mutex, &when);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&never);
    pthread_condattr_destroy(&attributes);
    return err == ETIMEDOUT;
}

static void *second_thread(void *argument)
{
    struct test *test = argument;

    that(test, wait_for_condition(CLOCK_MONOTONIC), "a condition, by a second thread");
    return NULL;
}

static void conditions(struct test *test)
{
    double began = MPI_Wtime();
    struct timespec when;
    pthread_t thread;
    sem_t never;

    limited(test, began, wait_for_condition(CLOCK_REALTIME), false, "a condition, wall time");
    began = MPI_Wtime();
    limited(test, began, wait_for_condition(CLOCK_MONOTONIC), false, "a condition");
    sem_init(&never, 0, 0);
    began = MPI_Wtime();
    when = limit_on(CLOCK_REALTIME);
    limited(test, began, sem_timedwait(&never, &when) && errno == ETIMEDOUT, false, "a semaphore");
    sem_destroy(&never);
    pthread_create(&thread, NULL, second_thread, test);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    struct test test = {.fifo = "outside.fifo"};
    const struct option_row rows[] = {{"fifo", "PATH", OPTION_TEXT, &test.fifo}, {0}};
    int sums[2], own[2];

    options_read(rows, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    if (!test.rank && mkfifo(test.fifo, 0600))
        MPI_Abort(MPI_COMM_WORLD, 1);
    child(&test);
    pipes(&test);
    descriptors(&test);
    conditions(&test);
    own[0] = test.passed;
    own[1] = test.failed;
    MPI_Reduce(own, sums, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!test.rank) {
        printf("outside: %d checks passed, %d failed\n", sums[0], sums[1]);
        unlink(test.fifo);
    }
    MPI_Finalize();
    return test.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
