/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * env.h - the environment that makes a program use a fabric.
 */
#ifndef APPS_ENV_H
#define APPS_ENV_H

#include <stddef.h>

/**
 * env_each - call @each with the name and the value of every variable that a command needs to find
 * the fabric whose socket is @socket_path. What the user has set stays: it is left out, or our part
 * is put before it. A name may have a byte that no shell takes in one (libfabric's, in Turkish).
 * Says a line for each value of the user's that keeps programs off the fabric.
 * Returns 0, or -ENOENT with one line in @error: the provider or /proc is not there.
 */
int env_each(const char *socket_path,
             void (*each)(void *context, const char *name, const char *value), void *context,
             char *error, size_t error_bytes);

#endif
