/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - shared by the parts of the MPI check.
 *
 * The check knows nothing of fabemu: built by plain mpicc, it compares MPI's results with its own
 * computation. Every rank can draw every other rank's input from the seed, so only MPI transfers
 * data.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check_op {
    OP_MAX,
    OP_MIN,
    OP_SUM,
    OP_PROD,
    OP_LAND,
    OP_LOR,
    OP_LXOR,
    OP_BAND,
    OP_BOR,
    OP_BXOR,
    OP_MINLOC,
    OP_MAXLOC,
    OPS
};

/* One random input: all values follow from it. */
struct draw {
    uint64_t key; /* the seed and the number of the test */
    int rank;     /* the rank whose input it is */
    int size;     /* of the communicator: sums and products must stay exact */
    enum check_op op;
    bool strict; /* see struct check */
};

struct check_type {
    const char *name;
    MPI_Datatype mpi;
    size_t bytes;                                                   /* of an element in memory */
    unsigned ops;                                                   /* bit per enum check_op */
    void (*fill)(void *buf, size_t count, const struct draw *draw); /* input */
    /* our own computation */
    void (*fold)(void *acc, const void *in, size_t count, enum check_op op);
    /* first difference, or count */
    size_t (*differs)(const void *a, const void *b, size_t count);
};
extern const struct check_type check_types[];
extern const size_t check_types_count;

/** check_op_name, check_op_mpi - an operation's name and handle. */
const char *check_op_name(enum check_op op);
MPI_Op check_op_mpi(enum check_op op);

/** check_mix - a random-looking number from three. Pure. */
uint64_t check_mix(uint64_t a, uint64_t b, uint64_t c);

struct check_comm {
    const char *name;
    MPI_Comm comm;
    int rank;
    int size;
};

struct check {
    /* Set once at the start. */
    uint64_t seed;
    bool quick;       /* a few seconds */
    bool full;        /* every combination */
    bool strict;      /* also cases that Open MPI 4.1.4 itself gets wrong */
    bool threads;     /* MPI_THREAD_MULTIPLE, several threads */
    int part;         /* one in this many reductions, selected by the seed; 0: all of them */
    int iterations;   /* of the mixed test; 0: the whole check */
    int timeout_s;    /* of the run */
    const char *only; /* NULL, or the name of one test */
    const char *skip; /* NULL, or the name of one test */
    int rank;         /* in the world */
    int size;

    const char *running;     /* name of the test that runs */
    int64_t began_s;         /* when it began, by time(); not changed while it runs */
    _Atomic int64_t shown_s; /* when the last line about it was printed, or when it began */
    uint64_t tests;          /* number of the current draw: the same on every rank */
    _Atomic uint64_t passed;
    _Atomic uint64_t failed;
};

/** check_that - count one check; print the first failures. Returns @ok. Thread: any. */
bool check_that(struct check *check, bool ok, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** check_key - the key of the next test's draws: all ranks must call it in the same order. */
uint64_t check_key(struct check *check);

/**
 * check_epoch - renumber the tests equally on every rank. All ranks call it after they ran
 * different numbers of tests in different communicators.
 */
void check_epoch(struct check *check);

/** check_comm_of - @comm with rank and size. */
struct check_comm check_comm_of(const char *name, MPI_Comm comm);

/** check_sleep_us - be late, to vary the order of events. */
void check_sleep_us(uint64_t us);

/** check_alloc - memory, or MPI_Abort. */
void *check_alloc(size_t bytes);

/*
 * Draw calls on the communicators, and have several in flight at once. All ranks must pass the same
 * @key. Thread: any, if no other thread uses the communicators.
 */
/** check_blocks_in_flight - calls that move blocks. @neighbors: on the neighbours of a graph. */
void check_blocks_in_flight(struct check *check, uint64_t key, const struct check_comm *comms,
                            size_t count, bool neighbors);
/** check_calls_in_flight - other non-blocking calls, together with blocking ones. */
void check_calls_in_flight(struct check *check, uint64_t key, const struct check_comm *comms,
                           size_t count);
/** check_requests_restart - the same calls, as persistent requests that are started repeatedly. */
void check_requests_restart(struct check *check, uint64_t key, const struct check_comm *comms,
                            size_t count);

/* The tests, each on the world and on communicators derived from it. */
void check_reductions(struct check *check, const struct check_comm *comms, size_t count);
void check_broadcasts(struct check *check, const struct check_comm *comms, size_t count);
void check_barriers(struct check *check, const struct check_comm *comms, size_t count);
void check_in_flight(struct check *check, const struct check_comm *comms, size_t count);
void check_nonblocking(struct check *check, const struct check_comm *comms, size_t count);
void check_persistent(struct check *check, const struct check_comm *comms, size_t count);
void check_run_ahead(struct check *check, const struct check_comm *comms, size_t count);
void check_blocks(struct check *check, const struct check_comm *comms, size_t count);
void check_scans(struct check *check, const struct check_comm *comms, size_t count);
void check_threads(struct check *check, const struct check_comm *comms, size_t count);
void check_odds(struct check *check, const struct check_comm *comms, size_t count);
void check_onesided(struct check *check, const struct check_comm *comms, size_t count);

#endif
