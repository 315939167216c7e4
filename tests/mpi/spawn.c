/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.c - starts processes again and again on nodes that others have left, and communicates with
 * each of them.
 *
 * spawn TIMES: one child at a time; prints "spawned TIMES times" at the end. With any transport, a
 * child of Open MPI 4.1.4 sometimes hangs in PMIx_Init(). To distinguish that from our errors, the
 * parent prints "spawn: wanted" on stderr, and the child, once it is initialised, "spawn: there".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGE 100000

static void fail(const char *what, int round)
{
    fprintf(stderr, "spawn: round %d: %s\n", round, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A short and a long message in each direction, then a sum of all. */
static void communicate(MPI_Comm all, int round)
{
    int rank, size, sum = 0, *buf = malloc(LARGE * sizeof(int));

    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    for (int child = 1; child < size; child++) {
        for (int count = 1; count <= LARGE; count += LARGE - 1) {
            if (rank == 0) {
                for (int i = 0; i < count; i++)
                    buf[i] = round * 7 + child + i;
                MPI_Send(buf, count, MPI_INT, child, 1, all);
                MPI_Recv(buf, count, MPI_INT, child, 2, all, MPI_STATUS_IGNORE);
            } else if (rank == child) {
                MPI_Recv(buf, count, MPI_INT, 0, 1, all, MPI_STATUS_IGNORE);
                MPI_Send(buf, count, MPI_INT, 0, 2, all);
            }
            for (int i = 0; (rank == 0 || rank == child) && i < count; i++)
                if (buf[i] != round * 7 + child + i)
                    fail("a message is not what was sent", round);
        }
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    if (sum != size * (size - 1) / 2)
        fail("the sum is wrong", round);
    free(buf);
}

static void child(MPI_Comm parent)
{
    MPI_Comm all;
    int round;

    MPI_Bcast(&round, 1, MPI_INT, 0, parent);
    MPI_Intercomm_merge(parent, 1, &all);
    communicate(all, round);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children, all;
    int times;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        fprintf(stderr, "spawn: there\n");
        child(parent);
        MPI_Finalize();
        return 0;
    }
    times = argc > 1 ? atoi(argv[1]) : 5;
    for (int round = 0; round < times; round++) {
        fprintf(stderr, "spawn: wanted\n");
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                       MPI_ERRCODES_IGNORE);
        MPI_Bcast(&round, 1, MPI_INT, MPI_ROOT, children);
        MPI_Intercomm_merge(children, 0, &all);
        communicate(all, round);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&children);
    }
    MPI_Finalize();
    printf("spawned %d times\n", times);
    return 0;
}
