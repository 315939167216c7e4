/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lost.c - MPI's errors, with MPI_ERRORS_RETURN, when a host is lost: lost pairs allreduce.
 * tests/apps/cluster/loss_test.py makes the host fail.
 *
 * All ranks repeat one operation until it fails: an exchange with a rank on another host, or an
 * all-reduce. Each then reports the error in one line, and waits to be killed. Before the error,
 * each rank prints a line ten times a second, or after each operation if these take longer.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT   10000 /* more than the eager limit */
#define PRINT_S 0.1   /* shortest time between two lines */

static int to[COUNT], from[COUNT];

/* Each with one on another host. */
static int pairs(int rank, int ranks)
{
    int peer = (rank + ranks / 2) % ranks;

    return MPI_Sendrecv(to, COUNT, MPI_INT, peer, 1, from, COUNT, MPI_INT, peer, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, ranks, rc = MPI_SUCCESS, turn = 0;
    double said_s = 0;
    bool reduces = argc > 1 && strcmp(argv[1], "allreduce") == 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    for (; rc == MPI_SUCCESS; turn++) {
        rc = reduces ? MPI_Allreduce(&turn, from, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)
                     : pairs(rank, ranks);
        if (MPI_Wtime() - said_s > PRINT_S) {
            said_s = MPI_Wtime();
            printf("rank %d goes\n", rank);
            fflush(stdout);
        }
    }
    printf("rank %d has an error after %d turns\n", rank, turn);
    fflush(stdout);
    for (;;)
        pause();
}
