/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - messages to the user. */
#include "apps/base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/base/fold.h"
#include "emu/util/printable.h"

/*
 * Break @line between words so that it fits on the terminal. Returns NULL if standard error is not
 * a terminal, or if there is no memory. The caller frees the result.
 */
static char *folded_for_terminal(const char *line)
{
    struct winsize size = {0};
    size_t bytes = 0;
    char *text = NULL;
    FILE *out;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size))
        return NULL;
    out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fold_print(out, line, "        ", size.ws_col ? size.ws_col : FOLD_COLUMNS);
    fclose(out);
    return text;
}

void print_message(const char *format, ...)
{
    char line[1024] = "fabemu: ", *folded;
    size_t start = strlen(line);
    int err = errno;
    va_list args;

    va_start(args, format);
    int bytes = vsnprintf(line + start, sizeof line - start - 1, format, args);
    va_end(args);
    if (bytes < 0)
        return;
    emu_no_controls(line, strlen(line));
    folded = folded_for_terminal(line);
    const char *text = folded ? folded : strcat(line, "\n");
    ssize_t wrote = write(STDERR_FILENO, text, strlen(text));
    (void)wrote; /* there is no other way to report an error */
    free(folded);
    errno = err;
}

int exit_status_of(int err)
{
    return err == -EINVAL || err == -EXDEV || err == -EMSGSIZE ? EXIT_USAGE : EXIT_FAILURE;
}

int fail(int err, char *error, size_t error_bytes, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return err;
}
