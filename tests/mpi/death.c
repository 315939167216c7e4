/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.c - MPI's errors, with MPI_ERRORS_RETURN, when a rank is gone: death recv send barrier
 * allreduce put flush fence start wait test lock. tests/cli/bounds_test.py runs it, with --bound
 * stopped.
 *
 * Rank 1 stops itself: mpirun would end the job if it were killed. The fabric then counts it as
 * dead. The others run the named operation, and rank 0 prints the class of its error.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100000 /* more than the eager limit */

static int buf[COUNT + 1];

static MPI_Win win;

static void window_make(void)
{
    MPI_Win_create(buf, sizeof buf, sizeof buf[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
}

static void window_open(void)
{
    window_make();
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 1 stops during a long put to rank 2. */
static void put_begin(int rank)
{
    MPI_Request put;

    window_open();
    if (rank == 1)
        MPI_Rput(buf, COUNT, MPI_INT, 2, 0, COUNT, MPI_INT, win, &put);
}

/* Operations of rank 0 with rank 2, which is alive, must not depend on rank 1. */
static int put_others(int rank)
{
    int one = 1, got = 0, flag, rc = MPI_SUCCESS;

    MPI_Barrier(MPI_COMM_WORLD); /* fails once rank 1 is known to be gone */
    for (int i = 0; rank == 2 || (i < 200 && rc == MPI_SUCCESS); i++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
        if (rank == 2)
            continue; /* mpirun kills it with rank 0 */
        MPI_Accumulate(&one, 1, MPI_INT, 2, COUNT, 1, MPI_INT, MPI_SUM, win);
        rc = MPI_Win_flush(2, win);
        MPI_Fetch_and_op(&one, &got, MPI_INT, 2, COUNT, MPI_NO_OP, win);
        if (rc == MPI_SUCCESS)
            rc = MPI_Win_flush(2, win);
        if (rc == MPI_SUCCESS && got != i + 1)
            rc = MPI_ERR_UNKNOWN;
    }
    return rc;
}

/* Rank 2 keeps answering until mpirun kills it with rank 0. */
static void answer(void)
{
    int flag;

    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
}

/* Does the call fail as expected when a member is lost? */
static bool fails(int rc, const char *call)
{
    int class = MPI_SUCCESS;

    MPI_Error_class(rc, &class);
    if (class != MPI_ERR_OTHER)
        printf("%s ended with class %d\n", call, class);
    return class == MPI_ERR_OTHER;
}

/* Operations with other members, and new epochs with them, must not depend on rank 1. */
static int flush_others(int rank)
{
    MPI_Request get;
    int one = 1, rc;

    if (rank == 2)
        answer();
    MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Put(&one, 1, MPI_INT, 2, COUNT, 1, MPI_INT, win);
    if (MPI_Win_flush(0, win) || MPI_Win_flush(2, win) ||
        MPI_Rget(buf, 1, MPI_INT, 2, COUNT, 1, MPI_INT, win, &get) ||
        MPI_Wait(&get, MPI_STATUS_IGNORE) || buf[0] != one)
        return MPI_ERR_UNKNOWN;
    while (!(rc = MPI_Win_flush(1, win))) /* the lost rank has not stopped yet */
        MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    if (!fails(rc, "flush of the lost one") ||
        !fails(MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win), "another put") ||
        !fails(MPI_Win_flush_all(win), "flush_all") ||
        !fails(MPI_Win_unlock_all(win), "unlock_all") ||
        !fails(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win), "lock of the lost one"))
        return MPI_ERR_UNKNOWN;
    if (MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win))
        return MPI_ERR_UNKNOWN;
    return MPI_Win_unlock(2, win);
}

/* A fence and the freeing of a window need all members. Both ranks that are left get the error. */
static int fence(void)
{
    int rc = MPI_Win_fence(0, win);

    return fails(rc, "fence") ? MPI_Win_free(&win) : rc;
}

static MPI_Group group_of_lost(void)
{
    static const int lost = 1;
    MPI_Group all, group;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &lost, &group);
    return group;
}

/* The lost rank never calls MPI_Win_post. */
static int start(int rank)
{
    if (rank == 2)
        answer();
    return MPI_Win_start(group_of_lost(), 0, win);
}

/* The lost rank never calls MPI_Win_complete. The error ends the epoch. */
static int exposure(int rank, bool tests)
{
    int rc = MPI_SUCCESS, done = 0;

    if (rank == 2)
        answer();
    MPI_Win_post(group_of_lost(), 0, win);
    if (!tests)
        return MPI_Win_wait(win);
    while (!done && rc == MPI_SUCCESS)
        rc = MPI_Win_test(win, &done);
    if (done)
        return MPI_SUCCESS;
    return MPI_Win_test(win, &done) == MPI_SUCCESS ? MPI_ERR_UNKNOWN : rc;
}

/* The lost rank never releases its lock. */
static int lock(int rank)
{
    if (rank == 2)
        answer();
    return MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win);
}

static void window_prepare(const char *what, int rank)
{
    if (strcmp(what, "put") == 0)
        put_begin(rank);
    else if (strcmp(what, "flush") == 0)
        window_open();
    else if (strcmp(what, "fence") == 0 || strcmp(what, "start") == 0 ||
             strcmp(what, "wait") == 0 || strcmp(what, "test") == 0 || strcmp(what, "lock") == 0)
        window_make();
    if (strcmp(what, "lock") == 0 && rank == 1)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
    if (strcmp(what, "lock") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
}

static int attempt(const char *what, int rank)
{
    int one = 1, sum;

    if (strcmp(what, "flush") == 0)
        return flush_others(rank);
    if (strcmp(what, "fence") == 0)
        return fence();
    if (strcmp(what, "start") == 0)
        return start(rank);
    if (strcmp(what, "wait") == 0 || strcmp(what, "test") == 0)
        return exposure(rank, strcmp(what, "test") == 0);
    if (strcmp(what, "lock") == 0)
        return lock(rank);
    if (strcmp(what, "put") == 0)
        return put_others(rank);
    if (strcmp(what, "recv") == 0)
        return MPI_Recv(buf, COUNT, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(what, "send") == 0)
        return MPI_Send(buf, COUNT, MPI_INT, 1, 2, MPI_COMM_WORLD);
    if (strcmp(what, "barrier") == 0)
        return MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const struct {
        int class;
        const char *name;
    } names[] = {{MPI_SUCCESS, "MPI_SUCCESS"},
                 {MPI_ERR_OTHER, "MPI_ERR_OTHER"},
                 {MPI_ERR_INTERN, "MPI_ERR_INTERN"},
                 {MPI_ERR_UNKNOWN, "MPI_ERR_UNKNOWN"}};
    int rank, class = 0, pid = (int)getpid();

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Bcast(&pid, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    window_prepare(argc > 1 ? argv[1] : "recv", rank);
    if (rank == 1)
        raise(SIGSTOP);
    MPI_Error_class(attempt(argc > 1 ? argv[1] : "recv", rank), &class);
    for (size_t i = 0; rank == 0 && i < sizeof names / sizeof names[0]; i++)
        if (names[i].class == class)
            printf("it ended with %s\n", names[i].name);
    if (rank == 0)
        printf("class %d\n", class);
    fflush(stdout);
    while (rank != 0)
        pause(); /* mpirun kills us with rank 0 */
    kill(pid, SIGKILL);
    _exit(class == MPI_SUCCESS);
}
