/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rounds.c - messages and collectives for a number of seconds, all checked: a program's view of
 * events in its network.
 *
 * Each round every rank sends a message of random length to another one, and receives one; all sum
 * up a number; and one rank, in rotation, broadcasts the length of the round's message. Prints the
 * number of rounds and of wrong results. --rounds sets a minimum number.
 *
 * With --survive rank 0 reports when the first round is done, and errors are returned: a rank that
 * gets one prints it, with the time of the monotonic clock, and exits at once. Ranks that wait for
 * it then detect its end. tests/e2e/kills.py runs it and kills one of the ranks.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define BYTES_MAX 20000

static char out[BYTES_MAX], in[BYTES_MAX];

/* Length of a rank's message in a round. */
static int message_bytes(long round)
{
    return 1 + (int)(round * 7919 % (BYTES_MAX - 1));
}

/*
 * Byte @i of that message; it differs from its neighbours, and from the same byte of adjacent
 * segments.
 */
static char byte_of(long round, int rank, int i)
{
    return (char)((round * 31 + rank) * 7 + i + i / 256 * 3);
}

/* With --survive: end this rank if @error is an error. */
static void survive(int error, const char *what, int rank)
{
    struct timespec now;
    char text[MPI_MAX_ERROR_STRING];
    int length;

    if (error == MPI_SUCCESS)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    MPI_Error_string(error, text, &length);
    printf("rank %d knows at %lld.%09ld: %s: %s\n", rank, (long long)now.tv_sec, now.tv_nsec, what,
           text);
    fflush(stdout);
    _exit(0);
}

static int round_send(long round, int rank, int ranks)
{
    int step = 1 + (int)(round % (ranks - 1)), bytes = message_bytes(round);
    int to = (rank + step) % ranks, from = (rank - step + ranks) % ranks;

    for (int i = 0; i < bytes; i++)
        out[i] = byte_of(round, rank, i);
    memset(in, 0, (size_t)bytes);
    survive(MPI_Sendrecv(out, bytes, MPI_CHAR, to, 0, in, bytes, MPI_CHAR, from, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE),
            "sendrecv", rank);
    for (int i = 0; i < bytes; i++)
        if (in[i] != byte_of(round, from, i))
            return 1;
    return 0;
}

static int round_add(long round, int rank, int ranks)
{
    long mine = round + rank, sum;

    survive(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD), "allreduce", rank);
    return sum != round * ranks + (long)ranks * (ranks - 1) / 2;
}

static int round_broadcast(long round, int rank, int ranks)
{
    int root = (int)(round % ranks);
    int received = rank == root ? message_bytes(round) : -1;

    survive(MPI_Bcast(&received, 1, MPI_INT, root, MPI_COMM_WORLD), "bcast", rank);
    return received != message_bytes(round);
}

/* Rank 0's clock decides for all. */
static int time_is_up(double end_s, int rank)
{
    int up = MPI_Wtime() > end_s;

    survive(MPI_Bcast(&up, 1, MPI_INT, 0, MPI_COMM_WORLD), "bcast", rank);
    return up;
}

int main(int argc, char **argv)
{
    int seconds = 2, least = 0, rank, ranks;
    bool survives = false;
    const struct option_row rows[] = {{"seconds", "N", OPTION_INT, &seconds,
                                       "how long the program runs"},
                                      {"rounds", "N", OPTION_INT, &least, "least number of rounds"},
                                      {"survive", NULL, OPTION_FLAG, &survives,
                                       "MPI returns errors; a rank ends at its first one"},
                                      {0}};
    long rounds = 0, wrong = 0, all = 0;
    double end_s;

    MPI_Init(&argc, &argv);
    options_read(rows, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (survives)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    end_s = MPI_Wtime() + seconds;
    do {
        if (survives && !rank && rounds == 1) {
            printf("going\n");
            fflush(stdout);
        }
        wrong += round_send(rounds, rank, ranks);
        wrong += round_add(rounds, rank, ranks);
        wrong += round_broadcast(rounds, rank, ranks);
    } while (++rounds % 8 || rounds < least || !time_is_up(end_s, rank));
    MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank)
        printf("%ld rounds, %ld wrong\n", rounds, all);
    MPI_Finalize();
    return 0;
}
