/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.c - MPI's errors, with MPI_ERRORS_RETURN, when a rank is gone: death recv send barrier
 * allreduce put flush. tests/cli/bounds_test.py runs it, with --bound stopped.
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

static void window_open(void)
{
    MPI_Win_create(buf, sizeof buf, sizeof buf[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
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

/*
 * Rank 1 owes an answer, and all members are locked: no operation that waits for answers can end,
 * nor can the epoch, so no other can begin.
 */
static int flush_others(int rank)
{
    MPI_Request get;
    int one = 1;

    if (rank == 2)
        answer();
    MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    if (MPI_Win_flush(0, win) || /* these two calls do not wait for rank 1 */
        MPI_Rget(buf, 0, MPI_INT, 2, 0, 0, MPI_INT, win, &get) || MPI_Wait(&get, MPI_STATUS_IGNORE))
        return MPI_ERR_UNKNOWN;
    MPI_Put(&one, 1, MPI_INT, 2, COUNT, 1, MPI_INT, win);
    if (!fails(MPI_Win_flush(2, win), "flush of another") ||
        !fails(MPI_Win_flush(1, win), "flush of the lost one") ||
        !fails(MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win), "put to oneself") ||
        !fails(MPI_Win_flush_all(win), "flush_all") ||
        !fails(MPI_Win_unlock_all(win), "unlock_all"))
        return MPI_ERR_UNKNOWN;
    return MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, win) ? MPI_SUCCESS : MPI_ERR_UNKNOWN;
}

static int attempt(const char *what, int rank)
{
    int one = 1, sum;

    if (strcmp(what, "flush") == 0)
        return flush_others(rank);
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
    if (argc > 1 && strcmp(argv[1], "put") == 0)
        put_begin(rank);
    if (argc > 1 && strcmp(argv[1], "flush") == 0)
        window_open();
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
