/* SPDX-License-Identifier: BSD-3-Clause */
/* common.c - see common.h. */
#include "common.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void options_usage(const struct option_row *rows, const char *program, int status)
{
    const char *slash = strrchr(program, '/');

    printf("usage: %s", slash ? slash + 1 : program);
    for (; rows->name; rows++)
        if (rows->value)
            printf(" [--%s %s]", rows->name, rows->value);
        else
            printf(" [--%s]", rows->name);
    printf("\n");
    exit(status);
}

static bool number_read(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(text, &end, 0);
    return end != text && !*end && !strchr(text, '-') && !errno && *ret <= most;
}

/* Returns false if @text is not a valid value. */
static bool row_set(const struct option_row *row, const char *text)
{
    uint64_t number;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->to = true;
        return true;
    case OPTION_INT:
        if (!number_read(text, INT_MAX, &number))
            return false;
        *(int *)row->to = (int)number;
        return true;
    case OPTION_NUMBER:
        return number_read(text, UINT64_MAX, row->to);
    default:
        *(const char **)row->to = text;
        return true;
    }
}

static const struct option_row *row_find(const struct option_row *rows, const char *name)
{
    while (rows->name && strcmp(rows->name, name) != 0)
        rows++;
    return rows->name ? rows : NULL;
}

void options_read(const struct option_row *rows, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help"))
            options_usage(rows, argv[0], 0);

        const struct option_row *row = strncmp(argv[i], "--", 2) ? NULL
                                                                 : row_find(rows, argv[i] + 2);
        const char *text = row && row->value ? argv[++i] : "";

        if (!row || !text || !row_set(row, text))
            options_usage(rows, argv[0], 2);
    }
}

double *samples_alloc(int count)
{
    double *samples = calloc((size_t)count, sizeof *samples);

    if (!samples)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return samples;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double samples_sort(double *samples, int count)
{
    qsort(samples, (size_t)count, sizeof *samples, compare);
    return samples[count / 2];
}

/* Decide by Open MPI's tools interface (MPI_T) for communicators that are created from now on. */
static void network_enable(bool enable)
{
    MPI_T_cvar_handle handle;
    int provided, index, count, value = enable;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_cvar_get_index("coll_fabemu_enable", &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS ||
        MPI_T_cvar_write(handle, &value) != MPI_SUCCESS) {
        fprintf(stderr, "coll_fabemu_enable cannot be set: does this program run over fabemu?\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
}

void transports_open(MPI_Comm comm[TRANSPORTS], bool differ)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[NETWORK]);
    if (differ)
        network_enable(false);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[MESSAGES]);
    if (differ)
        network_enable(true);
}

void transports_close(MPI_Comm comm[TRANSPORTS])
{
    MPI_Comm_free(&comm[MESSAGES]);
    MPI_Comm_free(&comm[NETWORK]);
}

void checks_that(struct checks *checks, bool ok, const char *what)
{
    if (!ok)
        printf("%s: rank %d: wrong: %s\n", checks->program, checks->rank, what);
    checks->passed += ok;
    checks->failed += !ok;
}

int checks_sum(const struct checks *checks)
{
    const int own[2] = {checks->passed, checks->failed};
    int sums[2];

    MPI_Reduce(own, sums, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!checks->rank)
        printf("%s: %d checks passed, %d failed\n", checks->program, sums[0], sums[1]);
    return checks->failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
