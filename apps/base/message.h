/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h - one line to the user.
 */
#ifndef APPS_BASE_MESSAGE_H
#define APPS_BASE_MESSAGE_H

#include <stddef.h>

/* Exit codes that scripts can trust. */
#define EXIT_USAGE      2   /* the command line is wrong */
#define EXIT_STANDSTILL 124 /* COMMAND stood still; timeout(1) uses 124, too */
#define EXIT_CANNOT_RUN 126 /* COMMAND is there and cannot be executed */
#define EXIT_NOT_FOUND  127 /* COMMAND is not there */

/**
 * say - "fabemu: what is wrong; what to do" to stderr, in one write. What a terminal would obey is
 * shown as '?': some of it was in a file of somebody else's.
 */
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** fail - put one line into @error and return @err, so that a caller can say it in its place. */
int fail(int err, char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
