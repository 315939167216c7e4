/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common.h - shared by the MPI programs here: options, checks, samples, and communicators.
 *
 * It uses no header of fabemu: plain mpicc builds it.
 */
#ifndef COMMON_H
#define COMMON_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

enum option_kind {
    OPTION_FLAG,   /* bool: present or not */
    OPTION_INT,    /* int */
    OPTION_NUMBER, /* uint64_t, also in hexadecimal */
    OPTION_TEXT,   /* const char * */
    OPTION_CHOICE, /* const char *, one of the words in struct option_row's value, as in "a|b" */
};

/* An option of a program: --NAME, and a value unless it is a flag. */
struct option_row {
    const char *name;  /* NULL ends the table */
    const char *value; /* name of the value, or the words of a choice; NULL: a flag */
    enum option_kind kind;
    void *to;         /* unchanged if the option is not given */
    const char *help; /* what the option does, in at most 55 characters */
};

/**
 * options_read - set variables from the options of the command line. --help prints all options and
 * exits with status 0. An invalid option ends the program with options_error(). In an MPI job, only
 * rank 0 prints.
 */
void options_read(const struct option_row *rows, int argc, char **argv);

/** options_error - rank 0 prints the error and exits with status 2. Other ranks exit with 0. */
void options_error(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Checks of one rank. */
struct checks {
    const char *program; /* begins each line */
    int rank;            /* of MPI_COMM_WORLD */
    int passed, failed;
};

/** checks_that - count a check, and print a line with @what if it failed. */
void checks_that(struct checks *checks, bool ok, const char *what);

/** checks_sum - rank 0 prints the sums over all ranks. Collective. Returns the exit status. */
int checks_sum(const struct checks *checks);

/** samples_alloc - @count zeros, or MPI_Abort. */
double *samples_alloc(int count);

/** samples_sort - sort ascending. Returns the median. */
double samples_sort(double *samples, int count);

enum transport { NETWORK, MESSAGES, TRANSPORTS };

/**
 * transports_open - make two duplicates of MPI_COMM_WORLD, whose collectives run in the network and
 * over messages. Aborts if the program does not run over fabemu.
 * @differ: false: both use whatever Open MPI selects, for runs without fabemu.
 */
void transports_open(MPI_Comm comm[TRANSPORTS], bool differ);
void transports_close(MPI_Comm comm[TRANSPORTS]);

#endif
