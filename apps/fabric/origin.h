/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.h - the origin of a result: the version, command line, settings, seed, host and date that
 * are written into every result (docs/manual.md, "Where a result comes from").
 */
#ifndef APPS_FABRIC_ORIGIN_H
#define APPS_FABRIC_ORIGIN_H

#include <stdio.h>

struct fabric_config;
struct json_object;

/**
 * origin_json - return the origin of a result of this process as a JSON object, which the caller
 * releases by json_object_put(). @config: the fabric that the result is about; NULL: it is not
 * about a single fabric, so the origin has no settings and no seed. Secrets in the command line are
 * hidden (origin_words()). Thread: any.
 */
struct json_object *origin_json(const struct fabric_config *config);

/**
 * origin_words - return the words of a command line as a JSON list, which the caller releases by
 * json_object_put(). NULL ends @words.
 *
 * "***" stands for the value of each option or variable whose name contains "key", "token",
 * "secret", "passw", "passphrase", "credential", "auth" or "pwd" in upper or lower case, and for
 * secrets in URLs.
 */
struct json_object *origin_words(char *const *words);

/** origin_command - return the quoted command line; the caller frees it. NULL: out of memory. */
char *origin_command(struct json_object *origin);

/**
 * origin_print - print @origin as text of two or three lines. Lines of more than @columns columns
 * are broken (apps/base/fold.h). @first is put before the first line, and @next before each further
 * one. Prints nothing if @origin is NULL.
 */
void origin_print(FILE *out, struct json_object *origin, const char *first, const char *next,
                  int columns);

#endif
