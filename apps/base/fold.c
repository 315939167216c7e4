/* SPDX-License-Identifier: BSD-3-Clause */
/* fold.c - break lines of text between words. */
#include "apps/base/fold.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Return the length of the first part of @line, which has @bytes bytes. If the line has at most
 * @columns columns, it is one part. Otherwise the line is broken before a space: the last one that
 * keeps the part within @columns columns, or else the first one.
 * @from:  the first column in which the part may end.
 * @shell: the line is a command. A part does not end within quotes.
 */
static size_t part_bytes(const char *line, size_t bytes, int from, int columns, bool shell)
{
    bool quoted = false;
    size_t ret = bytes;
    int column = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (line[i] == ' ' && !quoted && column >= from && (column <= columns || ret == bytes) &&
            (shell || strncmp(line + i, " --", 3) != 0))
            ret = i;
        if (shell && line[i] == '\'' && (quoted || !i || line[i - 1] != '\\'))
            quoted = !quoted;
        column += (line[i] & 0xc0) != 0x80; /* the first byte of a character */
    }
    return column > columns ? ret : bytes;
}

static void print_line(FILE *out, const char *line, size_t bytes, const char *next, int columns,
                       bool shell)
{
    int from = (int)strlen(next);

    for (;;) {
        size_t part = part_bytes(line, bytes, from, columns, shell);

        if (shell && part < bytes) /* leave space for the backslash */
            part = part_bytes(line, bytes, from, columns - 2, shell);
        if (part == bytes)
            break;
        size_t text = part;
        while (text && line[text - 1] == ' ')
            text--;
        fprintf(out, "%.*s%s\n%s", (int)text, line, shell ? " \\" : "", next);
        while (part < bytes && line[part] == ' ')
            part++;
        line += part;
        bytes -= part;
        columns -= from; /* columns that @next fills */
        from = 0;
    }
    fprintf(out, "%.*s\n", (int)bytes, line);
}

void fold_print(FILE *out, const char *text, const char *next, int columns)
{
    for (; *text; text += *text == '\n') {
        size_t bytes = strcspn(text, "\n");

        print_line(out, text, bytes, next, columns, false);
        text += bytes;
    }
}

void fold_print_command(FILE *out, const char *line, const char *next, int columns)
{
    print_line(out, line, strlen(line), next, columns, true);
}

FILE *fold_begin(struct fold *fold, FILE *out, const char *next, int columns)
{
    *fold = (struct fold){.out = out, .next = next, .columns = columns};
    fold->text = open_memstream(&fold->at, &fold->bytes);
    return fold->text ? fold->text : out;
}

void fold_end(struct fold *fold)
{
    if (!fold->text)
        return;
    fclose(fold->text);
    if (fold->at)
        fold_print(fold->out, fold->at, fold->next, fold->columns);
    free(fold->at);
}

void fold_printf(FILE *out, const char *next, const char *format, ...)
{
    struct fold fold;
    va_list args;

    va_start(args, format);
    vfprintf(fold_begin(&fold, out, next, FOLD_COLUMNS), format, args);
    va_end(args);
    fold_end(&fold);
}
