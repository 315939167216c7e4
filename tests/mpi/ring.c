/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c - messages travel around a ring of ranks, for fabemu run --goal.
 *
 *    mpirun -np 4 mpi_ring [--bytes N] [--rounds N] [--kind ring|mixed|put|short|groups|dup]
 *
 * ring: one message, with blocking calls. mixed: all ranks send at the same time without blocking,
 * and receive from any rank; then a synchronous message and collectives. put: also a one-sided
 * access. short: also a receive whose buffer is too short for its message. groups: collectives in
 * three communicators, which have all ranks, the odd ranks and the even ranks. dup: each round
 * makes a new communicator, and calls one barrier in it.
 */
#include "common.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct ring {
    int rank, next, last, bytes, rounds;
    char *out, *in;
};

static void pass(const struct ring *r, int tag)
{
    if (r->rank == 0)
        MPI_Send(r->out, r->bytes, MPI_BYTE, r->next, tag, MPI_COMM_WORLD);
    MPI_Recv(r->in, r->bytes, MPI_BYTE, r->last, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (r->rank != 0)
        MPI_Send(r->out, r->bytes, MPI_BYTE, r->next, tag, MPI_COMM_WORLD);
}

static void mixed(const struct ring *r, int tag)
{
    MPI_Request requests[2];
    MPI_Status status;
    int word = r->rank, sum;

    MPI_Irecv(r->in, r->bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests);
    MPI_Isend(r->out, r->bytes, MPI_BYTE, r->next, tag, MPI_COMM_WORLD, requests + 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (r->rank == 0)
        MPI_Ssend(r->out, r->bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
    if (r->rank == 1) {
        MPI_Probe(0, tag, MPI_COMM_WORLD, &status);
        MPI_Recv(r->in, r->bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status);
    }
    MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void put(const struct ring *r)
{
    MPI_Win window;

    MPI_Win_create(r->in, r->bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(r->out, r->bytes, MPI_BYTE, r->next, 0, r->bytes, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

static void cut_short(const struct ring *r)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (r->rank == 0)
        MPI_Send(r->out, r->bytes, MPI_BYTE, r->next, 0, MPI_COMM_WORLD);
    if (r->rank == 1 && MPI_Recv(r->in, r->bytes / 2, MPI_BYTE, r->last, 0, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE) == MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void groups(const struct ring *r)
{
    MPI_Comm comm;

    MPI_Comm_split(MPI_COMM_WORLD, r->rank % 2, -r->rank, &comm);
    for (int i = 0; i < r->rounds; i++) {
        MPI_Bcast(r->in, r->bytes, MPI_BYTE, 1, comm);
        MPI_Reduce(r->out, r->in, r->bytes / 8, MPI_DOUBLE, MPI_SUM, 2, comm);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(r->out, r->in, r->bytes / 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Comm_free(&comm);
}

static void dup_once(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    struct ring r = {.bytes = 64, .rounds = 50};
    const char *kind = "ring";
    const struct option_row rows[] = {{"bytes", "N", OPTION_INT, &r.bytes, "size of a message"},
                                      {"rounds", "N", OPTION_INT, &r.rounds, "rounds"},
                                      {"kind", "ring|mixed|put|short|groups|dup", OPTION_CHOICE,
                                       &kind, "what a round does (see the source)"},
                                      {0}};
    int ranks;

    MPI_Init(&argc, &argv);
    options_read(rows, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    r.next = (r.rank + 1) % ranks;
    r.last = (r.rank + ranks - 1) % ranks;
    r.in = calloc((size_t)r.bytes + 1, 1);
    r.out = calloc((size_t)r.bytes + 1, 1);
    if (strcmp(kind, "groups") == 0)
        groups(&r);
    for (int i = 0; i < r.rounds; i++) {
        if (strcmp(kind, "mixed") == 0)
            mixed(&r, i);
        else if (strcmp(kind, "dup") == 0)
            dup_once();
        else
            pass(&r, i);
    }
    if (strcmp(kind, "put") == 0)
        put(&r);
    if (strcmp(kind, "short") == 0)
        cut_short(&r);
    free(r.in);
    free(r.out);
    MPI_Finalize();
    return 0;
}
