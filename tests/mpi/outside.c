/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outside.c - processes that sleep outside the fabric, in simulated time (fabemu run --clock
 * virtual). Time must go on meanwhile, and no clock may go back. Rank 0 and the last rank act, the
 * others wait for them.
 *
 *    mpirun -np 3 mpi_outside [--fifo PATH]
 */
#include "common.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_NS 300000000 /* how long a child sleeps */

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
    that(test, took >= CHILD_NS * 0.5e-9 && took < 30, "time goes on during waitpid()");
}

/* The last rank reads from a pipe, into which rank 0 writes after a sleep in simulated time. */
static void pipes(struct test *test)
{
    double began = meet(test), took;
    char byte = 0;
    int fd;

    if (!test->rank)
        sleep(1);
    fd = test->rank && test->rank < test->ranks - 1 ? -1
                                                    : open(test->fifo, test->rank ? O_RDONLY
                                                                                  : O_WRONLY);
    if (!test->rank)
        that(test, write(fd, "x", 1) == 1, "writing into the pipe");
    else if (fd >= 0)
        that(test, read(fd, &byte, 1) == 1 && byte == 'x', "reading from the pipe");
    if (fd >= 0)
        close(fd);
    took = meet(test) - began;
    that(test, took >= 1 && took < 30, "a process that sleeps outside holds up nobody");
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
