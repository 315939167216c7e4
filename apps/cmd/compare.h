/* SPDX-License-Identifier: BSD-3-Clause */
/* compare.h - the results of `fabemu compare`: one row for each network. */
#ifndef APPS_CMD_COMPARE_H
#define APPS_CMD_COMPARE_H

#include <json-c/json.h>
#include <stdio.h>

#define COMPARE_ROWS_MAX 64

struct compare_row {
    char name[128];
    const char *variant;        /* options of --variant; NULL: none */
    const char *topo, *profile; /* NULL: not given */
    struct json_object *report; /* of fabemu run; NULL: there is none */
    int status;                 /* exit status of fabemu run */
    char why[512];              /* "": the run succeeded */
};

struct compare_table {
    struct compare_row row[COMPARE_ROWS_MAX];
    unsigned rows;
    unsigned wanted;     /* rows that the user has requested; more than `rows` after an interrupt */
    const char *compute; /* the value of --compute */
    struct json_object *origin;
};

/* Each prints the whole table in one format. */
void compare_print(FILE *out, const struct compare_table *table);
void compare_print_csv(FILE *out, const struct compare_table *table);
void compare_print_json(FILE *out, const struct compare_table *table);
void compare_print_svg(FILE *out, const struct compare_table *table);

#endif
