/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board.h - what the processes of a probe are doing, in a file that all of them map: who else still
 * runs, and for scripts/faulttable what became of each operation.
 *
 * A row is one process's, and only that one writes it. A process that stands still in a call cannot
 * tell anybody: what it was in stands here. Programs of tests/mpi have it, too: no more than C.
 *
 * scripts/faulttable reads and writes the file by these offsets; both change together.
 */
#ifndef TESTS_WORLD_BOARD_H
#define TESTS_WORLD_BOARD_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOARD_ROWS 16

enum board_state {
    BOARD_STARTS,   /* nothing of it counts yet */
    BOARD_RUNS,     /* it is in operation after operation */
    BOARD_ENDED,    /* it was told to stop, and all was well */
    BOARD_FAILED,   /* an operation returned an error, and it stopped */
    BOARD_FOLLOWED, /* it waited for one that failed, in vain: it was told nothing itself */
};

/* Times are of CLOCK_MONOTONIC, in nanoseconds. */
struct board_row {
    _Atomic uint64_t state;         /* enum board_state */
    _Atomic uint64_t rounds;        /* that it has been through */
    _Atomic uint64_t wrong;         /* results that were not what they should be */
    _Atomic uint64_t began_ns;      /* the operation that it is in, or was in last */
    _Atomic uint64_t longest_ns;    /* the longest that ended after the fault began, */
    _Atomic uint64_t longest_at_ns; /* and when it ended */
    _Atomic uint64_t failed_ns;     /* when its error was returned */
    _Atomic int64_t code;           /* that error */
    char op[32];                    /* what began at began_ns */
    _Atomic int64_t pid;            /* the process, once it runs */
    char text[144];                 /* the error's text */
};
static_assert(sizeof(struct board_row) == 248, "scripts/faulttable reads it");

struct board {
    _Atomic uint64_t fault_ns; /* the script's: when the fault was asked for; 0: not yet */
    _Atomic uint64_t stop;     /* the script's: 1, all are to stop */
    _Atomic uint64_t quit;     /* the script's: 1, nobody waits for the others any more */
    _Atomic uint64_t last;     /* row 0's: the round in which those in step all stop; 0: none yet */
    struct board_row row[BOARD_ROWS];
};

/** board_open - map @path, a file as long as the board. NULL: it cannot be. */
struct board *board_open(const char *path);

/** board_run - this process is @row's, and runs from now on. */
void board_run(struct board_row *row);

/** board_now_ns - CLOCK_MONOTONIC. */
uint64_t board_now_ns(void);

/** board_begin - this process is in @op from now on. */
void board_begin(struct board_row *row, const char *op);

/** board_done - what board_begin() said has returned. @right: what came of it is right. */
void board_done(struct board *board, struct board_row *row, bool right);

/** board_fail - it returned an error. */
void board_fail(struct board_row *row, int64_t code, const char *text);

/**
 * board_goes_on - is there another round for @row? All rows stop at the same one, which row 0
 * chooses: no row is further ahead of it than there are rows, since each round needs all others.
 */
bool board_goes_on(struct board *board, struct board_row *row);

/** board_any_failed - has a row of @rows failed, or followed one, more than @patience_ns ago? */
bool board_any_failed(const struct board *board, uint32_t rows, uint64_t patience_ns);

/** board_all_over - have all of @rows ended, one way or another, or is nobody to wait for them? */
bool board_all_over(const struct board *board, uint32_t rows);

/** board_all_well - has each of @rows ended because it was told to? */
bool board_all_well(const struct board *board, uint32_t rows);

#endif
