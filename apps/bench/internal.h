/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what the benchmarks share: rows and children.
 */
#ifndef APPS_BENCH_INTERNAL_H
#define APPS_BENCH_INTERNAL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_SAMPLES_MAX 99

/* One `fabemu bench`. Owned by the main thread. */
struct bench {
    bool quick;
    bool json;
    unsigned repeat;                /* samples a row; 0: what the benchmark does by itself */
    struct json_object *conditions; /* of every row */
    struct json_object *origin;     /* written into every row: apps/cli/origin.h */
    unsigned rows;                  /* printed */
    bool failed;                    /* a row could not be measured */
    bool progress;                  /* stderr is a terminal */
    double done_s;                  /* of the benchmarks behind us, by their estimates */
    double step_s;                  /* the estimate of the current one */
    double all_s;                   /* of all */
};

struct bench_samples {
    double value[BENCH_SAMPLES_MAX];
    unsigned count;
};

enum bench_goal { BENCH_NO_GOAL, BENCH_AT_LEAST, BENCH_AT_MOST };

/* One line of the table, one object of the JSON list. */
struct bench_row {
    const char *name;
    const char *unit;
    const struct bench_samples *samples;
    struct json_object *conditions; /* of this row alone; may be NULL; passes to bench_row() */
    const char *error;              /* NULL: it was measured */
    enum bench_goal goal;
    double target;
};

/* --- bench/rows.c ------------------------------------------------------------------- */

/** bench_begin - note the conditions and print the head. */
void bench_begin(struct bench *bench);
/** bench_row - print a row; one with an error makes the whole bench fail. */
void bench_row(struct bench *bench, const struct bench_row *row);
void bench_end(struct bench *bench);

/** bench_progress - show on a terminal that @part (0 to 1) of the current benchmark is done. */
void bench_progress(const struct bench *bench, const char *name, double part);

void bench_sample(struct bench_samples *samples, double value);
double bench_median(const struct bench_samples *samples);

/** bench_repeat - samples to take: what the user said, or @normal, or @quick. */
unsigned bench_repeat(const struct bench *bench, unsigned normal, unsigned quick);

/** bench_sample_ns - how long one sample of what runs inside this process takes. */
uint64_t bench_sample_ns(const struct bench *bench);

/* --- the benchmarks; each prints its rows ------------------------------------------- */

void bench_ring(struct bench *bench, int unused);            /* bench/ring.c */
void bench_hops(struct bench *bench, int unused);            /* bench/hops.c */
void bench_ack_hops(struct bench *bench, int unused);        /* bench/ack/ack.c */
void bench_ack_split(struct bench *bench, int unused);       /* bench/ack/ack.c */
void bench_ack_rate(struct bench *bench, int unused);        /* bench/ack/virtual.c */
void bench_ack_virtual(struct bench *bench, int unused);     /* bench/ack/virtual.c */
void bench_relay(struct bench *bench, int unused);           /* bench/bare/relay.c */
void bench_relay_allreduce(struct bench *bench, int unused); /* bench/bare/allreduce.c */
void bench_cores(struct bench *bench, int unused);           /* bench/cores.c */
void bench_crc(struct bench *bench, int unused);             /* bench/crc.c */
void bench_hostlink(struct bench *bench, int unused);        /* bench/hostlink.c */
void bench_virtual(struct bench *bench, int unused);         /* bench/virtual.c */
void bench_real(struct bench *bench, int unused);            /* bench/real.c */
void bench_start256(struct bench *bench, int unused);        /* bench/fabric.c */
void bench_idle256(struct bench *bench, int clock);          /* enum emu_clock_mode */
void bench_face(struct bench *bench, int nodes);             /* bench/face.c */
void bench_mpi_latency(struct bench *bench, int ranks);      /* bench/mpi.c */
void bench_mpi_bandwidth(struct bench *bench, int ranks);    /* bench/mpi.c */
void bench_mpi_collectives(struct bench *bench, int ranks);  /* bench/mpi.c */

void bench_mpi_large(struct bench *bench, int bytes); /* bench/mpi.c */

/** bench_mpi_missing - do MPI rows lack something here? One line in @what says what. */
bool bench_mpi_missing(char *what, size_t what_bytes);

/* --- bench/child.c ------------------------------------------------------------------ */

#define BENCH_OUT_BYTES 65536
#define BENCH_ERR_BYTES 4096

/* What a program wrote and how it ended. */
struct bench_child {
    char out[BENCH_OUT_BYTES]; /* its standard output; what exceeds the room is dropped */
    char err[BENCH_ERR_BYTES]; /* the beginning of its standard error */
    size_t out_bytes;
    size_t err_bytes;
    int status; /* as wait() has it */
    bool timed_out;
};

/**
 * bench_child_run - run a program to its end, and end what it leaves behind.
 * @env: its whole environment. @timeout_s: after it, the child and its descendants are ended.
 * Returns 0 when it exited with status 0; otherwise -1 with one line in @error.
 */
int bench_child_run(struct bench_child *ret, char *const *argv, char *const *env,
                    unsigned timeout_s, char *error, size_t error_bytes);

#define BENCH_TWIN_NS UINT64_C(600000000000) /* longer than anything is measured beside it */

/**
 * bench_twin_begin - from now on a process of its own does @work, which is to take longer than what
 * is measured beside it: twice what one does then is the most that two workers can do on this
 * machine, whatever they share. Nobody else has a thread here. A negative number: none could be
 * started.
 */
pid_t bench_twin_begin(void (*work)(const void *what), const void *what);
/**
 * bench_twin_end - it ends. False: it was not there to the end, as a line in @error says, and what
 * was measured is void.
 */
bool bench_twin_end(pid_t twin, char *error, size_t error_bytes);

/**
 * bench_wait - poll, but let others run when it takes long: who is waited for may be one of them.
 * @rounds: as of emu_wait_round(). It never sleeps.
 */
void bench_wait(unsigned *rounds, bool oversubscribed);

/** bench_two_cores - the first and last core that the caller may use; false: there is but one. */
bool bench_two_cores(int core[2]);

#define BENCH_REAL_TOPO "kary:4,3" /* 64 nodes, 3 levels, 5 switches between most */

/** bench_real_nodes - clock real: so many nodes of it @workers keep on time; see bench/real.c. */
double bench_real_nodes(uint32_t workers, uint64_t run_ns);

/** bench_bind - the caller to @core, from now on. */
void bench_bind(int core);

#endif
