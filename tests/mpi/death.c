/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.c - what MPI returns, with MPI_ERRORS_RETURN, when a rank is gone: death
 * recv|send|barrier|allreduce. tests/cli/bounds_test.py runs it, with --bound stopped.
 *
 * Rank 1 stops itself: a rank that is killed would have mpirun end the job. The fabric gives it up.
 * The others do what they are asked to, and rank 0 prints the class of the error that comes of it.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100000 /* more than goes without asking */

static int buf[COUNT];

static int attempt(const char *what)
{
    int one = 1, sum;

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
    if (rank == 1)
        raise(SIGSTOP);
    MPI_Error_class(attempt(argc > 1 ? argv[1] : "recv"), &class);
    for (size_t i = 0; rank == 0 && i < sizeof names / sizeof names[0]; i++)
        if (names[i].class == class)
            printf("it ended with %s\n", names[i].name);
    if (rank == 0)
        printf("class %d\n", class);
    fflush(stdout);
    while (rank != 0)
        pause(); /* mpirun ends us with rank 0 */
    kill(pid, SIGKILL);
    _exit(class == MPI_SUCCESS);
}
