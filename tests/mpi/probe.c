/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - MPI's results during network faults: probe --board FILE --what collectives messages
 * onesided fences. scripts/faulttable runs it.
 *
 * Every rank runs operation after operation with MPI_ERRORS_RETURN, checks each result, and writes
 * its state to its row of the board (tests/fixtures/board.h). A rank that gets an error records it
 * and stops. All keep answering each other until every rank has ended.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fixtures/board.h"
#include "common.h"

#define WORDS       2048
#define PATIENCE_NS 2000000000u /* for a rank that has failed and will send nothing */

struct probe {
    struct board *board;
    struct board_row *row;
    int rank, ranks;
    long round;
    long out[WORDS], in[WORDS];
    MPI_Win win;
    bool fences; /* synchronize the window with fences instead of flushes */
    /* The window: a slot of WORDS for each rank, which only that rank writes; then one sum each. */
    long *memory;
};

static bool check(struct probe *p, int rc, bool right)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;

    if (rc == MPI_SUCCESS) {
        board_done(p->board, p->row, right);
        return true;
    }
    MPI_Error_class(rc, &class);
    MPI_Error_string(rc, text, &length);
    board_fail(p->row, class, text);
    return false;
}

/* Numbers that are unique for round, rank and index. */
static void fill(long *words, int count, long round, int rank)
{
    for (int i = 0; i < count; i++)
        words[i] = (round << 24) + (rank << 16) + i;
}

static bool is_filled(const long *words, int count, long round, int rank)
{
    for (int i = 0; i < count; i++)
        if (words[i] != (round << 24) + (rank << 16) + i)
            return false;
    return true;
}

/* Sizes of a round that fit one segment, a few, or many. */
static int round_words(const struct probe *p)
{
    static const int words[] = {1, 16, 300, WORDS};

    return words[p->round % 4];
}

/* --- collectives -------------------------------------------------------------------- */

static bool round_reduce(struct probe *p)
{
    long mine = p->round + p->rank, got = 0;
    long sum = p->round * p->ranks + (long)p->ranks * (p->ranks - 1) / 2;
    int root = (int)(p->round % p->ranks), rc;

    board_begin(p->row, "MPI_Allreduce");
    rc = MPI_Allreduce(&mine, &got, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (!check(p, rc, got == sum))
        return false;
    board_begin(p->row, "MPI_Reduce");
    rc = MPI_Reduce(&mine, &got, 1, MPI_LONG, MPI_MAX, root, MPI_COMM_WORLD);
    return check(p, rc, p->rank != root || got == p->round + p->ranks - 1);
}

static bool round_collectives(struct probe *p)
{
    int root = (int)(p->round % p->ranks), words = round_words(p), rc;

    if (!round_reduce(p))
        return false;
    memset(p->in, 0, sizeof p->in);
    if (p->rank == root)
        fill(p->in, words, p->round, root);
    board_begin(p->row, "MPI_Bcast");
    rc = MPI_Bcast(p->in, words, MPI_LONG, root, MPI_COMM_WORLD);
    if (!check(p, rc, is_filled(p->in, words, p->round, root)))
        return false;
    board_begin(p->row, "MPI_Barrier");
    rc = MPI_Barrier(MPI_COMM_WORLD);
    return check(p, rc, true);
}

/* --- messages ----------------------------------------------------------------------- */

/* Returns false if they do not arrive because a failed rank does not send them. */
static bool wait_both(struct probe *p, MPI_Request *both, int *rc)
{
    MPI_Status status[2] = {{.MPI_ERROR = MPI_SUCCESS}, {.MPI_ERROR = MPI_SUCCESS}};
    int done = 0;

    for (;;) {
        *rc = MPI_Testall(2, both, &done, status);
        if (*rc == MPI_ERR_IN_STATUS) {
            int one = status[0].MPI_ERROR;

            *rc = one != MPI_SUCCESS && one != MPI_ERR_PENDING ? one : status[1].MPI_ERROR;
        }
        if (*rc != MPI_SUCCESS || done)
            return true;
        if (board_any_failed(p->board, (uint32_t)p->ranks, PATIENCE_NS) || p->board->quit)
            return false;
    }
}

static bool round_messages(struct probe *p)
{
    int step = 1 + (int)(p->round % (p->ranks - 1)), words = round_words(p), rc;
    int to = (p->rank + step) % p->ranks, from = (p->rank - step + p->ranks) % p->ranks;
    MPI_Request both[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    fill(p->out, words, p->round, p->rank);
    memset(p->in, 0, sizeof p->in);
    board_begin(p->row, "MPI_Isend, MPI_Irecv");
    rc = MPI_Irecv(p->in, words, MPI_LONG, from, (int)(p->round & 4095), MPI_COMM_WORLD, &both[0]);
    if (rc == MPI_SUCCESS)
        rc = MPI_Isend(p->out, words, MPI_LONG, to, (int)(p->round & 4095), MPI_COMM_WORLD,
                       &both[1]);
    if (rc == MPI_SUCCESS && !wait_both(p, both, &rc)) {
        p->row->failed_ns = board_now_ns();
        p->row->state = BOARD_FOLLOWED;
        return false;
    }
    return check(p, rc, is_filled(p->in, words, p->round, from));
}

/* --- one-sided ---------------------------------------------------------------------- */

/* The call and the flush that completes it. */
static int flushed(struct probe *p, int rc, int target)
{
    return rc == MPI_SUCCESS ? MPI_Win_flush(target, p->win) : rc;
}

static bool round_onesided(struct probe *p)
{
    int step = 1 + (int)(p->round % (p->ranks - 1)), words = round_words(p), rc;
    int target = (p->rank + step) % p->ranks;
    MPI_Aint slot = (MPI_Aint)p->rank * WORDS, sum = (MPI_Aint)p->ranks * WORDS + p->rank;
    long one = 1, old = -1, before = p->round / (p->ranks - 1);

    fill(p->out, words, p->round, p->rank);
    memset(p->in, 0, sizeof p->in);
    board_begin(p->row, "MPI_Put");
    rc = MPI_Put(p->out, words, MPI_LONG, target, slot, words, MPI_LONG, p->win);
    if (!check(p, flushed(p, rc, target), true))
        return false;
    board_begin(p->row, "MPI_Get");
    rc = MPI_Get(p->in, words, MPI_LONG, target, slot, words, MPI_LONG, p->win);
    rc = flushed(p, rc, target);
    if (!check(p, rc, is_filled(p->in, words, p->round, p->rank)))
        return false;
    board_begin(p->row, "MPI_Accumulate");
    rc = MPI_Accumulate(&one, 1, MPI_LONG, target, sum, 1, MPI_LONG, MPI_SUM, p->win);
    if (!check(p, flushed(p, rc, target), true))
        return false;
    board_begin(p->row, "MPI_Fetch_and_op");
    rc = MPI_Fetch_and_op(&one, &old, MPI_LONG, target, sum, MPI_NO_OP, p->win);
    rc = flushed(p, rc, target);
    return check(p, rc, old == before + 1);
}

/* Data put between two fences is visible after the second. */
static bool round_fences(struct probe *p)
{
    int step = 1 + (int)(p->round % (p->ranks - 1)), words = round_words(p), rc;
    int target = (p->rank + step) % p->ranks, from = (p->rank - step + p->ranks) % p->ranks;
    MPI_Aint slot = (MPI_Aint)p->rank * WORDS;

    fill(p->out, words, p->round, p->rank);
    board_begin(p->row, "MPI_Put");
    rc = MPI_Put(p->out, words, MPI_LONG, target, slot, words, MPI_LONG, p->win);
    if (!check(p, rc, true))
        return false;
    board_begin(p->row, "MPI_Win_fence");
    rc = MPI_Win_fence(0, p->win);
    if (!check(p, rc, is_filled(p->memory + (size_t)from * WORDS, words, p->round, from)))
        return false;
    board_begin(p->row, "MPI_Win_fence");
    return check(p, MPI_Win_fence(0, p->win), true);
}

static void window_open(struct probe *p)
{
    size_t words = (size_t)p->ranks * (WORDS + 1);

    p->memory = calloc(words, sizeof *p->memory);
    MPI_Win_create(p->memory, (MPI_Aint)(words * sizeof *p->memory), sizeof *p->memory,
                   MPI_INFO_NULL, MPI_COMM_WORLD, &p->win);
    MPI_Win_set_errhandler(p->win, MPI_ERRORS_RETURN);
    if (p->fences)
        MPI_Win_fence(0, p->win);
    else
        MPI_Win_lock_all(0, p->win);
}

static void window_close(struct probe *p)
{
    if (p->fences)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, p->win);
    else
        MPI_Win_unlock_all(p->win);
    MPI_Win_free(&p->win);
}

/* --- all ---------------------------------------------------------------------------- */

/* Other ranks may still need our answers. */
static void wait_for_all(struct probe *p)
{
    int flag;

    while (!board_all_over(p->board, (uint32_t)p->ranks)) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(100);
    }
}

static bool (*what_of(const char *name))(struct probe *p)
{
    if (strcmp(name, "messages") == 0)
        return round_messages;
    if (strcmp(name, "fences") == 0)
        return round_fences;
    return strcmp(name, "onesided") == 0 ? round_onesided : round_collectives;
}

int main(int argc, char **argv)
{
    static struct probe p;
    const char *path = "", *what = "collectives";
    const struct option_row rows[] = {{"board", "FILE", OPTION_TEXT, &path,
                                       "file with a row for the state of each rank"},
                                      {"what", "collectives|messages|onesided|fences",
                                       OPTION_CHOICE, &what, "the operations"},
                                      {0}};

    MPI_Init(&argc, &argv);
    options_read(rows, argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p.ranks);
    p.board = board_open(path);
    if (!p.board || p.ranks < 2 || p.ranks > BOARD_ROWS)
        MPI_Abort(MPI_COMM_WORLD, 2);
    p.row = &p.board->row[p.rank];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    p.fences = what_of(what) == round_fences;
    if (p.fences || what_of(what) == round_onesided)
        window_open(&p);
    board_run(p.row);
    while (what_of(what)(&p) && board_goes_on(p.board, p.row))
        p.round++;
    wait_for_all(&p);
    if (!board_all_well(p.board, (uint32_t)p.ranks))
        _exit(1); /* MPI_Finalize() needs all of them */
    if (p.memory)
        window_close(&p);
    MPI_Finalize();
    return 0;
}
