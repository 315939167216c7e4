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
    struct checks checks;
    int ranks;
    const char *fifo;
};

/* Wait for all ranks. A barrier ends after it began on the rank that comes last. */
static double meet(struct test *test)
{
    double began = MPI_Wtime(), last, ended;

    MPI_Barrier(MPI_COMM_WORLD);
    ended = MPI_Wtime();
    MPI_Allreduce(&began, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    checks_that(&test->checks, ended > last, "a barrier ends after it began");
    return ended;
}

/* The last rank waits for a child, which sleeps by the host's clock. */
static void child(struct test *test)
{
    static const struct timespec duration = {.tv_nsec = CHILD_NS};
    double began = meet(test), took;
    int status = -1;
    pid_t pid;

    if (test->checks.rank == test->ranks - 1) {
        pid = fork();
        if (!pid)
            _exit(nanosleep(&duration, NULL) ? 1 : 3);
        checks_that(&test->checks, waitpid(pid, &status, 0) == pid, "waiting for the child");
        checks_that(&test->checks, WIFEXITED(status) && WEXITSTATUS(status) == 3,
                    "the child's sleep");
    }
    took = meet(test) - began;
    checks_that(&test->checks, took > 0 && took < 30, "time goes on after waitpid()");
}

/* The last rank reads from a pipe, into which rank 0 writes after a sleep in simulated time. */
static void pipes(struct test *test)
{
    double began = meet(test), took;
    char byte = 0;
    int fd;

    if (!test->checks.rank)
        sleep(1);
    fd = test->checks.rank && test->checks.rank < test->ranks - 1
             ? -1
             : open(test->fifo, test->checks.rank ? O_RDONLY : O_WRONLY);
    if (!test->checks.rank)
        checks_that(&test->checks, write(fd, "x", 1) == 1, "writing into the pipe");
    else if (fd >= 0)
        checks_that(&test->checks, read(fd, &byte, 1) == 1 && byte == 'x', "reading from the pipe");
    if (fd >= 0)
        close(fd);
    took = meet(test) - began;
    checks_that(&test->checks, took >= 1 && took < 30,
                "a process that sleeps outside holds up nobody");
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

    checks_that(&test->checks, over, what);
    checks_that(&test->checks,
                took >= LIMIT_MS * 1e-3 && took < (exact ? LIMIT_MS * 1e-3 + 1e-6 : 30), what);
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

    checks_that(&test->checks, pipe(fds) == 0, "making a pipe");
    wanted = (struct pollfd){.fd = fds[0], .events = POLLIN};
    FD_ZERO(&in);
    FD_SET(fds[0], &in);
    began = MPI_Wtime();
    limited(test, began, poll(NULL, 0, LIMIT_MS) == 0, true, "poll() of nothing");
    began = MPI_Wtime();
    limited(test, began, select(0, NULL, NULL, NULL, &interval) == 0, true, "select() of nothing");
    began = MPI_Wtime();
    limited(test, began, ppoll(&wanted, 1, &timeout, NULL) == 0, false, "ppoll()");
    interval.tv_usec = LIMIT_MS * 1000; /* select() has set it to the remaining time */
    began = MPI_Wtime();
    limited(test, began, select(fds[0] + 1, &in, NULL, NULL, &interval) == 0, false, "select()");
    began = MPI_Wtime();
    limited(test, began, epoll_wait(epoll, &event, 1, LIMIT_MS) == 0, false, "epoll_wait()");
    checks_that(&test->checks, poll(&wanted, 1, 0) == 0, "poll() without a limit");
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

    checks_that(&test->checks, wait_for_condition(CLOCK_MONOTONIC),
                "a condition, by a second thread");
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
    struct test test = {.checks = {.program = "outside"}, .fifo = "outside.fifo"};
    const struct option_row rows[] = {{"fifo", "PATH", OPTION_TEXT, &test.fifo,
                                       "the named pipe that the program makes"},
                                      {0}};
    int status;

    options_read(rows, argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test.checks.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    if (!test.checks.rank && mkfifo(test.fifo, 0600))
        MPI_Abort(MPI_COMM_WORLD, 1);
    child(&test);
    pipes(&test);
    descriptors(&test);
    conditions(&test);
    status = checks_sum(&test.checks);
    if (!test.checks.rank)
        unlink(test.fifo);
    MPI_Finalize();
    return status;
}
