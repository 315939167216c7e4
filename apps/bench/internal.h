/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - shared by the files of `fabemu bench`. A benchmark takes *samples* and prints their
 * median as a *row*. The *bound* of a row is the result of a simple loop that does only the
 * unavoidable work.
 * Thread: only the main thread calls these functions.
 */
#ifndef APPS_BENCH_INTERNAL_H
#define APPS_BENCH_INTERNAL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/base/silence.h"
#include "topo/topo.h"

#define BENCH_SAMPLES_MAX 99

/* One run of `fabemu bench`. */
struct bench {
    bool quick;
    bool json;
    unsigned repeat;                /* number of samples of each row; 0: each benchmark decides */
    struct json_object *conditions; /* conditions that all rows share */
    struct json_object *origin;     /* part of every row: apps/fabric/origin.h */
    unsigned rows;                  /* number of rows printed so far */
    bool failed;                    /* at least one row could not be measured */
    bool progress;                  /* stderr is a terminal */
    struct silence silence;         /* prints the progress if stderr is not a terminal */
};

struct bench_samples {
    double value[BENCH_SAMPLES_MAX];
    unsigned count;
};

/* One line of the table, or one object of the JSON list. */
struct bench_row {
    const char *name;
    const char *unit; /* smaller values are better in "us" and "ns", larger values in other units */
    const struct bench_samples *samples;
    const struct bench_samples *bound; /* samples of the bound; NULL: none */
    struct json_object *conditions;    /* of this row alone, or NULL; bench_row() frees it */
    const char *error;                 /* why the row was not measured; NULL: it was */
};

/* --- rows.c ------------------------------------------------------------------------- */

/** bench_begin - record the conditions and print the head of the table. */
void bench_begin(struct bench *bench);
/** bench_row - print a row. A row with an error makes the whole run fail. */
void bench_row(struct bench *bench, const struct bench_row *row);
/** bench_end - print the end of the list and free the memory of bench_begin(). */
void bench_end(struct bench *bench);

/**
 * bench_progress - show that @name, benchmark @number of @total, is running. On a terminal this is
 * shown at once, elsewhere every SILENCE_MS.
 */
void bench_progress(struct bench *bench, const char *name, unsigned number, unsigned total);

/** bench_sample - add one sample; samples beyond BENCH_SAMPLES_MAX are dropped. */
void bench_sample(struct bench_samples *samples, double value);

/** bench_repeat - return the number of samples: --repeat if given, else @normal or @quick. */
unsigned bench_repeat(const struct bench *bench, unsigned normal, unsigned quick);

/** bench_sample_ns - return the duration of a sample that is measured inside this process. */
uint64_t bench_sample_ns(const struct bench *bench);

/* --- the benchmarks; each prints its rows ------------------------------------------- */

void bench_hops(struct bench *bench, int unused);           /* hops.c */
void bench_virtual(struct bench *bench, int unused);        /* virtual.c */
void bench_hostlink(struct bench *bench, int unused);       /* hostlink.c */
void bench_mpi_latency(struct bench *bench, int unused);    /* mpi.c */
void bench_mpi_bandwidth(struct bench *bench, int unused);  /* mpi.c */
void bench_mpi_collectives(struct bench *bench, int ranks); /* mpi.c */

/**
 * bench_mpi_missing - return whether a program for the MPI rows is missing.
 * @what: set to a line that names the program and says how to install it.
 */
bool bench_mpi_missing(char *what, size_t what_bytes);

/* --- loop.c: the bound of hops and of simulated time -------------------------------- */

struct bench_loop_config {
    const struct topo_graph *graph; /* must outlive the loop; switches have at most 64 ports */
    double load;                    /* clock virtual: load of each node's link; 0: clock raw */
    bool opposite;                  /* node i sends to node N-1-i; otherwise to random nodes */
};

struct bench_loop;

/** bench_loop_open - returns NULL if there is no memory. */
struct bench_loop *bench_loop_open(const struct bench_loop_config *config);
void bench_loop_close(struct bench_loop *loop);

/** bench_loop_mhops - run for @run_ns of this thread's CPU time. Returns millions of hops/s. */
double bench_loop_mhops(struct bench_loop *loop, uint64_t run_ns);

/* --- threads.c: the bounds of MPI; negative if no thread or memory is available ----- */

/** bench_threads_latency_us - measure half a round trip of 8 bytes between @ranks = 2 threads. */
double bench_threads_latency_us(unsigned ranks, uint64_t run_ns);
/** bench_threads_mb_per_s - measure the bandwidth of 1 MB messages between @ranks = 2 threads. */
double bench_threads_mb_per_s(unsigned ranks, uint64_t run_ns);
/** bench_threads_allreduce_us - measure an all-reduce of 8 bytes between @ranks threads. */
double bench_threads_allreduce_us(unsigned ranks, uint64_t run_ns);

/* --- child.c ------------------------------------------------------------------------ */

#define BENCH_OUT_BYTES 65536
#define BENCH_ERR_BYTES 4096

/* The output of a program and its exit status. */
struct bench_child {
    char out[BENCH_OUT_BYTES]; /* standard output; bytes beyond the buffer are dropped */
    char err[BENCH_ERR_BYTES]; /* the beginning of standard error */
    size_t out_bytes;
    size_t err_bytes;
    int status; /* from waitpid() */
    bool timed_out;
};

/**
 * bench_child_run - run a program, wait for its exit, and kill all processes that it leaves behind.
 * @env: its whole environment. After @timeout_s the program and its descendants are killed.
 * Returns 0 if it exited with status 0; otherwise -1 with one line in @error.
 */
int bench_child_run(struct bench_child *ret, char *const *argv, char *const *env,
                    unsigned timeout_s, char *error, size_t error_bytes);

#endif
