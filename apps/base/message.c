/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - messages to the user, each on one line. */
#include "apps/base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/util/printable.h"

void print_message(const char *format, ...)
{
    char line[1024] = "fabemu: ";
    size_t start = strlen(line);
    va_list args;

    va_start(args, format);
    int bytes = vsnprintf(line + start, sizeof line - start - 1, format, args);
    va_end(args);
    if (bytes < 0)
        return;
    size_t end = strlen(line);
    emu_no_controls(line, end);
    line[end++] = '\n';
    if (write(STDERR_FILENO, line, end) < 0)
        return; /* there is no other way to report it */
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
