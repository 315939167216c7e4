/* SPDX-License-Identifier: BSD-3-Clause */
/* common.c - see common.h. */
#include "common.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS     80
#define HELP_COLUMN 24 /* where the text about an option begins */

static const char *base_name(const char *program)
{
    const char *slash = strrchr(program, '/');

    return slash ? slash + 1 : program;
}

/* Return whether this is rank 0, or runs without mpirun. Works before MPI_Init(). */
static bool is_first_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (!rank)
        rank = getenv("PMI_RANK"); /* MPICH */
    return !rank || !strcmp(rank, "0");
}

/* Continue the usage on a new line, indented by @indent. Returns the column. */
static size_t new_line(size_t indent)
{
    return (size_t)printf("\n%*s", (int)indent, "") - 1;
}

static void print_usage(const struct option_row *rows, const char *program)
{
    size_t column = (size_t)printf("usage: %s", program), indent = column;

    for (const struct option_row *row = rows; row->name; row++) {
        const char *at = row->value ? row->value : "", *const value = at;

        if (column > indent && column + strlen(row->name) + strlen(value) + 6 > COLUMNS)
            column = new_line(indent);
        column += (size_t)printf(" [--%s%s", row->name, *value ? " " : "");
        while (*at) { /* break a long list of words between two words */
            int length = (int)strcspn(at, "|") + 1;

            if (at > value && column + (size_t)length > COLUMNS)
                column = new_line(indent + 3);
            column += (size_t)printf("%.*s", length, at);
            at += strnlen(at, (size_t)length);
        }
        column += (size_t)printf("]");
    }
    printf("\n\n");
    for (; rows->name; rows++) {
        /* the usage above has the words of a choice */
        const char *value = rows->kind == OPTION_CHOICE ? "..." : rows->value;

        column = (size_t)printf("  --%s %s", rows->name, value ? value : "");
        printf("%*s%s\n", HELP_COLUMN - (int)column, "", rows->help);
    }
    printf("  %-*s%s\n", HELP_COLUMN - 2, "--help", "print this text");
}

void options_error(const char *program, const char *format, ...)
{
    if (is_first_rank()) {
        va_list args;

        fprintf(stderr, "%s: ", base_name(program));
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, "; see --help\n");
    }
    /* mpirun ends a job at the first status other than 0, so the other ranks must not have one:
       rank 0 may not have printed yet. */
    exit(is_first_rank() ? 2 : 0);
}

static bool number_read(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(text, &end, 0);
    return end != text && !*end && !strchr(text, '-') && !errno && *ret <= most;
}

/* Return whether @text is one of the words of @choices, which are separated by '|'. */
static bool is_choice(const char *choices, const char *text)
{
    size_t length = strcspn(text, "|");

    if (text[length])
        return false;
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (length && !strncmp(at, text, length) && (at[length] == '|' || !at[length]))
            return true;
    }
    return false;
}

/* Set the option to @text. Returns NULL, or which values are valid if @text is not one of them. */
static const char *row_set(const struct option_row *row, const char *text)
{
    uint64_t number;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)row->to = true;
        return NULL;
    case OPTION_INT:
        if (!number_read(text, INT_MAX, &number))
            return "a number from 0 to 2147483647";
        *(int *)row->to = (int)number;
        return NULL;
    case OPTION_NUMBER:
        return number_read(text, UINT64_MAX, row->to) ? NULL : "a number of at most 64 bits";
    case OPTION_CHOICE:
        if (!is_choice(row->value, text))
            return row->value;
        *(const char **)row->to = text;
        return NULL;
    default:
        *(const char **)row->to = text;
        return NULL;
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
        const char *word = argv[i], *text = "", *wanted;
        const struct option_row *row = strncmp(word, "--", 2) ? NULL : row_find(rows, word + 2);

        if (!strcmp(word, "--help")) {
            if (is_first_rank())
                print_usage(rows, base_name(argv[0]));
            exit(0);
        }
        if (!row)
            options_error(argv[0], "there is no option '%s'", word);
        if (row->value && !(text = argv[++i]))
            options_error(argv[0], "%s needs a value", word);
        wanted = row_set(row, text);
        if (wanted)
            options_error(argv[0], "%s %s: it must be %s", word, text, wanted);
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
