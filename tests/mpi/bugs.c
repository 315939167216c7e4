/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bugs.c - programs that stand still, one for each classic bug: bugs NAME [SECONDS [FILE]].
 *
 * Each one except first-* begins with a barrier of all ranks. fabemu, not this program, must
 * find the reason. Two of the programs are correct but slow: they compute for SECONDS, or until
 * FILE exists, and report that at the end.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LONG 1000000 /* bytes: a message that announces itself first */

static int rank, size, last;
static double seconds = 10;
static const char *file = ""; /* no file has this name */

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The last rank skips a barrier, and waits for a message instead. */
static void skip_barrier(void)
{
    int word;

    if (rank == last)
        MPI_Recv(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    barrier();
    if (rank == 0)
        MPI_Send(&rank, 1, MPI_INT, last, 7, MPI_COMM_WORLD);
}

/* The last rank leaves out a barrier, and waits for the others in MPI_Finalize. */
static void early_finalize(void)
{
    if (rank != last)
        barrier();
}

/* Rank 0 waits for a message from the last rank, which is in MPI_Finalize. */
static void finalize_unsent(void)
{
    int word;

    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A cycle: rank 0 waits for rank 1's broadcast, and all others for rank 0's. */
static void bcast_roots(void)
{
    int word = rank;

    MPI_Bcast(&word, 1, MPI_INT, rank == 0 ? 1 : 0, MPI_COMM_WORLD);
}

/* No rank waits: the last rank broadcasts, too. */
static void bcast_two_roots(void)
{
    int word = rank;

    MPI_Bcast(&word, 1, MPI_INT, rank == last ? last : 0, MPI_COMM_WORLD);
    barrier();
}

static void reduce_roots(void)
{
    int in = rank, out = 0;

    MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, rank == last ? last : 0, MPI_COMM_WORLD);
    barrier();
}

static void reduce_count(void)
{
    int in[8] = {0}, out[8];

    MPI_Reduce(in, out, rank == last ? 8 : 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    barrier();
}

static void allreduce_count(void)
{
    int in[8] = {0}, out[8];

    MPI_Allreduce(in, out, rank == last ? 8 : 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank 1 has forgotten to receive. */
static void missing_receive(void)
{
    char *bytes = calloc(1, LONG);

    if (rank == 0)
        MPI_Send(bytes, LONG, MPI_CHAR, 1, 5, MPI_COMM_WORLD);
    barrier();
    free(bytes);
}

/* Rank 1 has forgotten to receive a short synchronous send, on another communicator. */
static void missing_receive_of_ssend(void)
{
    MPI_Comm other;

    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    if (rank == 0)
        MPI_Ssend(&rank, 1, MPI_INT, 1, 5, other);
    MPI_Comm_free(&other);
    barrier();
}

/* Each rank probes for a message from the next one. */
static void probe_cycle(void)
{
    MPI_Probe((rank + 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static MPI_Win window_create(void)
{
    static int word;
    MPI_Win window;

    MPI_Win_create(&word, sizeof word, sizeof word, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    return window;
}

/* A cycle: the last rank waits for a lock that rank 0 has, and rank 0 for a message. */
static void lock_cycle(int held, int wanted)
{
    MPI_Win window = window_create();
    int word;

    if (rank == 0)
        MPI_Win_lock(held, 1, 0, window);
    barrier();
    if (rank == last)
        MPI_Win_lock(wanted, 1, 0, window);
    if (rank == 0)
        MPI_Recv(&word, 1, MPI_INT, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    barrier();
}

static void exclusive_lock(void)
{
    lock_cycle(MPI_LOCK_EXCLUSIVE, MPI_LOCK_EXCLUSIVE);
}

static void shared_waiter(void)
{
    lock_cycle(MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED);
}

static void shared_lock(void)
{
    lock_cycle(MPI_LOCK_SHARED, MPI_LOCK_EXCLUSIVE);
}

/* Return the group of one rank of the world. */
static MPI_Group group_of(int one)
{
    MPI_Group world, group;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &one, &group);
    return group;
}

/* Rank 1 has forgotten MPI_Win_post, and the last rank waits for MPI_Win_complete of rank 2. */
static void skip_post(void)
{
    MPI_Win window = window_create();

    if (rank == 0)
        MPI_Win_start(group_of(1), 0, window);
    if (rank == last) {
        MPI_Win_post(group_of(2), 0, window);
        MPI_Win_wait(window);
    }
    barrier();
}

/* Rank 0 has forgotten to free a window. */
static void skip_free(void)
{
    MPI_Win window = window_create();

    if (rank != 0)
        MPI_Win_free(&window);
    barrier();
}

/* Rank 0 has forgotten a fence. */
static void skip_fence(void)
{
    MPI_Win window = window_create();

    if (rank != 0)
        MPI_Win_fence(0, window);
    barrier();
}

/* Rank 0 has forgotten to send. */
static void missing_send(void)
{
    int word;

    if (rank == 1)
        MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    barrier();
}

static void wrong_tag(void)
{
    int word = 0;

    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    barrier();
}

/*
 * The last rank waits for tag 5, but rank 0 sends it tag 6, late, when the barrier's group has been
 * formed. The other ranks enter their first barrier.
 */
static void first_wrong_tag(void)
{
    int word = 0;

    if (rank == last)
        MPI_Recv(&word, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        usleep(300000);
        MPI_Send(&word, 1, MPI_INT, last, 6, MPI_COMM_WORLD);
    }
    barrier();
}

/* A collective that uses messages. */
static void skip_gather(void)
{
    int in = rank, out[64], counts[64], displs[64];

    for (int i = 0; i <= last; i++) {
        counts[i] = 1;
        displs[i] = i;
    }
    if (rank != last)
        MPI_Gatherv(&in, 1, MPI_INT, out, counts, displs, MPI_INT, 0, MPI_COMM_WORLD);
    barrier();
}

/* The network executes the next four calls as other collectives. One rank has forgotten them. */
static void skip_small_gather(void)
{
    int in = rank, out[64];

    if (rank != last)
        MPI_Gather(&in, 1, MPI_INT, out, 1, MPI_INT, 0, MPI_COMM_WORLD);
    barrier();
}

static void skip_scatter(void)
{
    int in[64] = {0}, out;

    if (rank != 0)
        MPI_Scatter(in, 1, MPI_INT, &out, 1, MPI_INT, 0, MPI_COMM_WORLD);
    barrier();
}

static void skip_reduce_scatter(void)
{
    int in[64] = {0}, out;

    if (rank == last)
        MPI_Recv(&out, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Reduce_scatter_block(in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Send(&rank, 1, MPI_INT, last, 7, MPI_COMM_WORLD);
}

static void skip_alltoall(void)
{
    int in[64] = {0}, out[64];
    MPI_Request request;

    if (rank == last)
        barrier();
    MPI_Ialltoall(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void stopped(void)
{
    if (rank == last)
        raise(SIGSTOP);
    barrier();
}

/* The same, but its last report says that it waits for the previous barrier. */
static void stopped_later(void)
{
    if (rank == 0)
        usleep(1500000); /* ranks report once a second */
    barrier();
    stopped();
}

/* All ranks stop after a broadcast. All but the root have reported that they wait for it. */
static void all_stopped(void)
{
    int word = 0;

    barrier();
    if (rank == 0)
        usleep(1500000); /* ranks report once a second */
    MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
    raise(SIGSTOP);
    barrier();
}

/* Is process @pid stopped, in all of its threads? Then it receives nothing any more. */
static bool is_stopped(int pid)
{
    char path[32], line[512];
    const char *name_end;
    size_t bytes;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "r");
    if (!file)
        return false;
    bytes = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[bytes] = '\0';
    name_end = strrchr(line, ')');
    return name_end && strncmp(name_end, ") T", 3) == 0;
}

/*
 * All others send to a process that receives nothing. The last rank may get a core only after they
 * have sent everything, so they wait until it is stopped. It first sends them its pid in a message,
 * because a process sends nothing to a peer that has never answered.
 */
static void flood(void)
{
    int pid = getpid();

    for (int i = 0; rank == last && i < last; i++)
        MPI_Send(&pid, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
    if (rank != last)
        MPI_Recv(&pid, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == last)
        raise(SIGSTOP);
    while (rank != last && !is_stopped(pid))
        usleep(1000);
    for (int i = 0; rank != last && i < 3000; i++)
        MPI_Send(&i, 1, MPI_INT, last, 1, MPI_COMM_WORLD);
    barrier();
}

static void compute(void)
{
    volatile double sum = 0;
    double end = MPI_Wtime() + seconds;

    while (MPI_Wtime() < end && access(file, F_OK) < 0)
        for (int i = 0; i < 10000; i++)
            sum += i;
}

/* Correct but slow: one rank computes. */
static void one_computes(void)
{
    if (rank == last)
        compute();
    barrier();
}

static void all_compute(void)
{
    compute();
    barrier();
}

static const struct {
    const char *name;
    void (*run)(void);
} bugs[] = {
    {"skip-barrier", skip_barrier},
    {"first-barrier", skip_barrier},
    {"early-finalize", early_finalize},
    {"finalize-unsent", finalize_unsent},
    {"bcast-roots", bcast_roots},
    {"bcast-two-roots", bcast_two_roots},
    {"reduce-roots", reduce_roots},
    {"reduce-count", reduce_count},
    {"allreduce-count", allreduce_count},
    {"missing-receive", missing_receive},
    {"missing-receive-of-ssend", missing_receive_of_ssend},
    {"probe-cycle", probe_cycle},
    {"skip-fence", skip_fence},
    {"exclusive-lock", exclusive_lock},
    {"shared-waiter", shared_waiter},
    {"shared-lock", shared_lock},
    {"skip-post", skip_post},
    {"skip-free", skip_free},
    {"missing-send", missing_send},
    {"wrong-tag", wrong_tag},
    {"first-wrong-tag", first_wrong_tag},
    {"skip-gather", skip_gather},
    {"skip-small-gather", skip_small_gather},
    {"skip-scatter", skip_scatter},
    {"skip-reduce-scatter", skip_reduce_scatter},
    {"skip-alltoall", skip_alltoall},
    {"stopped", stopped},
    {"stopped-later", stopped_later},
    {"all-stopped", all_stopped},
    {"one-computes", one_computes},
    {"all-compute", all_compute},
    {"flood", flood},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    last = size - 1;
    if (argc > 2)
        seconds = atof(argv[2]);
    if (argc > 3)
        file = argv[3];
    if (argc < 2 || strncmp(argv[1], "first-", strlen("first-")) != 0)
        barrier();
    if (rank == 0)
        printf("begins\n");
    fflush(stdout);
    for (size_t i = 0; argc > 1 && i < sizeof bugs / sizeof bugs[0]; i++)
        if (strcmp(argv[1], bugs[i].name) == 0)
            bugs[i].run();
    if (rank == 0)
        printf("ends\n");
    MPI_Finalize();
    return 0;
}
