/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common.h - shared by the MPI programs here: options, samples, and a switch for collectives.
 *
 * It uses no header of fabemu: plain mpicc builds it.
 */
#ifndef COMMON_H
#define COMMON_H

#include <stdbool.h>
#include <stddef.h>

enum option_kind {
    OPTION_FLAG,   /* bool: present or not */
    OPTION_INT,    /* int */
    OPTION_NUMBER, /* uint64_t, also in hexadecimal */
    OPTION_TEXT,   /* const char * */
};

/* An option of a program: --NAME, and a value unless it is a flag. */
struct option_row {
    const char *name;  /* NULL ends the table */
    const char *value; /* name of the value in the usage line; NULL: a flag */
    enum option_kind kind;
    void *to; /* unchanged if the option is not given */
};

/**
 * options_read - set variables from the options of the command line. --help prints the usage line
 * and exits with status 0; an invalid option with status 2.
 */
void options_read(const struct option_row *rows, int argc, char **argv);

/** options_usage - print the usage line of the program and its options; exit with @status. */
void options_usage(const struct option_row *rows, const char *program, int status)
    __attribute__((noreturn));

/** samples_alloc - @count zeros, or MPI_Abort. */
double *samples_alloc(int count);

/** samples_sort - sort ascending. Returns the median. */
double samples_sort(double *samples, int count);

/**
 * network_enable - decide whether communicators that are created from now on run their collectives
 * in the network or over messages. Sets the parameter coll_fabemu_enable by Open MPI's tools
 * interface (MPI_T). Aborts if the program does not run over fabemu.
 */
void network_enable(bool enable);

#endif
