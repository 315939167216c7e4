/* SPDX-License-Identifier: BSD-3-Clause */
/* message.h - messages to the user, and exit statuses. */
#ifndef APPS_BASE_MESSAGE_H
#define APPS_BASE_MESSAGE_H

#include <stddef.h>

/* Exit statuses that scripts can rely on. */
#define EXIT_USAGE      2   /* the command line is wrong */
#define EXIT_STANDSTILL 124 /* COMMAND stood still; timeout(1) uses this status, too */
#define EXIT_CANNOT_RUN 126 /* COMMAND exists, but cannot be executed */
#define EXIT_NOT_FOUND  127 /* COMMAND does not exist */

/**
 * print_message - print a line such as "fabemu: what is wrong; what to do" to stderr, in one write.
 * On a terminal, a line that is too wide is broken between words. Elsewhere it stays whole, because
 * programs read lines. Control characters become '?', because part of the text may come from
 * another user's file. errno does not change.
 */
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * exit_status_of - return EXIT_USAGE if @err says that the command line is wrong (-EINVAL; -EXDEV,
 * it names a part of another host; -EMSGSIZE, it sets a limit that is too small), else
 * EXIT_FAILURE. Pure.
 */
int exit_status_of(int err);

/** fail - write one line to @error, which a caller will print, and return @err. */
int fail(int err, char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
