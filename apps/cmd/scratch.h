/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch.h - a run's own folder for temporary files, gone with the run.
 *
 * Open MPI keeps its session there: files that processes share, which it leaves
 * behind when it is killed.
 */
#ifndef APPS_CMD_SCRATCH_H
#define APPS_CMD_SCRATCH_H

#include <stddef.h>
#include <sys/types.h>

/** scratch_path - the folder of the run of @supervisor, beside the socket at @socket_path. */
void scratch_path(char *ret, size_t ret_bytes, const char *socket_path, pid_t supervisor);

/** scratch_make - make it, empty; remove those whose supervisor is gone. Errors: -errno. */
int scratch_make(const char *path);

/** scratch_remove - remove it with all that is in it. */
void scratch_remove(const char *path);

#endif
