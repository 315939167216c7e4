/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold.h - break lines of text for people between words, so that they fit on a terminal. Output for
 * programs, such as CSV and JSON, is never folded.
 */
#ifndef APPS_BASE_FOLD_H
#define APPS_BASE_FOLD_H

#include <limits.h>
#include <stdio.h>

#define FOLD_COLUMNS 80      /* columns of a report, of a table, and of --help */
#define FOLD_NEVER   INT_MAX /* columns of a line that is never broken */

/**
 * fold_print - print @text, and break each line of more than @columns columns at spaces.
 * @next: text before each further part of a line, such as spaces or "# ".
 *
 * A line is not broken within its first strlen(@next) columns, which may be a title. It is not
 * broken before " --", because docs/man/pages.py would read an option there. A word that is wider
 * than a line stays whole. The last line ends with a newline even if @text does not.
 */
void fold_print(FILE *out, const char *text, const char *next, int columns);

/**
 * fold_print_command - as fold_print(), for one line with a command that is quoted for a shell. It
 * is broken only between words of the command, and a backslash ends each part but the last, so that
 * a user can copy the command.
 */
void fold_print_command(FILE *out, const char *line, const char *next, int columns);

/* A text that is folded when it is complete. */
struct fold {
    FILE *out, *text; /* text: NULL if there is no memory */
    const char *next;
    int columns;
    char *at;
    size_t bytes;
};

/**
 * fold_begin - return a stream for a text that fold_end() prints to @out, as fold_print() does. If
 * there is no memory, the stream is @out. @next must exist until fold_end().
 */
FILE *fold_begin(struct fold *fold, FILE *out, const char *next, int columns);
void fold_end(struct fold *fold);

/** fold_printf - print one text as fprintf() does, folded to FOLD_COLUMNS columns. */
void fold_printf(FILE *out, const char *next, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
