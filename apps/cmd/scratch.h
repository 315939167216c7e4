/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scratch.h - a folder for the temporary files of one run, removed at its end.
 *
 * Open MPI keeps the files of its session in this folder, and does not remove them if it is killed.
 */
#ifndef APPS_CMD_SCRATCH_H
#define APPS_CMD_SCRATCH_H

#include <stddef.h>
#include <sys/types.h>

/**
 * scratch_path - write the path of the folder for the run of @supervisor. The folder is beside the
 * socket @socket_path.
 */
void scratch_path(char *ret, size_t ret_bytes, const char *socket_path, pid_t supervisor);

/**
 * scratch_make - make the folder, with the session folder that Open MPI expects, and remove the
 * folders of dead supervisors. Errors: -errno.
 */
int scratch_make(const char *path);

/** scratch_remove - remove the folder with its contents. */
void scratch_remove(const char *path);

#endif
