/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.h - the environment that makes a program use a fabric.
 */
#ifndef APPS_BASE_ENV_H
#define APPS_BASE_ENV_H

#include <stddef.h>

/**
 * env_each - call @each with the name and the value of every variable that a command needs to find
 * the fabric whose socket is @socket_path. Values that the user has set stay: the variable is
 * skipped, or our part is put before the user's. A name may contain a byte that shells do not
 * accept in names (libfabric's, in Turkish). Prints a line for each of the user's values that keeps
 * programs off the fabric.
 * Returns 0, or -ENOENT with one line in @error: the provider or /proc is not there.
 */
int env_each(const char *socket_path,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes);

#endif
