/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.h - the environment that makes a program use a fabric.
 */
#ifndef APPS_ENV_H
#define APPS_ENV_H

#include <stddef.h>

/**
 * env_each - call @each with the name and the value of every variable that a
 * command needs to find the fabric whose socket is @socket_path. What the user
 * has set already is left out, paths are prepended to.
 * Returns 0, or -ENOENT with one line in @error: the provider is not there.
 */
int env_each(const char *socket_path,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes);

#endif
