/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.h - where a result comes from: the version, command line, settings, seed, host and date
 * that every result carries (docs/manual.md, "Where a result comes from").
 */
#ifndef APPS_FABRIC_ORIGIN_H
#define APPS_FABRIC_ORIGIN_H

#include <stdio.h>

struct fabric_config;
struct json_object;

/**
 * origin_json - the origin of a result of this process, as one JSON object; the caller puts it.
 * @config: the fabric that the result is about; NULL: it is not about a single fabric, so the
 * origin has no settings and no seed. Secrets in the command line are hidden, as by origin_words().
 * Thread: any.
 */
struct json_object *origin_json(const struct fabric_config *config);

/**
 * origin_words - the words of a command line, ended by NULL, as a JSON list; the caller puts it.
 *
 * "***" stands for the value of each option or variable whose name contains "key", "token",
 * "secret", "passw", "credential" or "authorization", and for the password in a URL.
 */
struct json_object *origin_words(char *const *words);

/** origin_command - the quoted command line; the caller frees it. NULL: out of memory. */
char *origin_command(struct json_object *origin);

/**
 * origin_print - @origin as two or three lines of text. @first begins the first line, @next each
 * further one. NULL as @origin prints nothing.
 */
void origin_print(FILE *out, struct json_object *origin, const char *first, const char *next);

#endif
