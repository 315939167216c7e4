/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h - an output file of a command.
 *
 * The file is opened before the command's work begins, so that errors show early. It is truncated
 * when the work begins; if the command is refused, it stays as it was. An advisory
 * lock (flock()) keeps a second command from writing the same regular file. Child processes inherit
 * the lock with the descriptor.
 */
#ifndef APPS_BASE_OUTPUT_H
#define APPS_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

struct output {
    const char *path; /* borrowed */
    int fd;           /* -1: not open */
    bool made;        /* output_open() created the file */
};

#define OUTPUT_NONE ((struct output){.fd = -1})

/**
 * output_open - open @path for writing, and lock it; "-" is standard output, which is not locked.
 * For a pipe, wait for a reader until emu_now_ms() is @until_ms; INT64_MAX: without limit. Errors:
 * -EWOULDBLOCK, another process writes it; -ENXIO, no process reads the pipe; as open().
 */
int output_open(struct output *ret, const char *path, int64_t until_ms);

/** output_why - describe an error of output_open() for the user. */
const char *output_why(int err);

/**
 * output_begin - truncate the file behind the bytes that were written since it was opened. Does
 * nothing if @fd is -1 or not a regular file. Errors: as ftruncate().
 */
int output_begin(int fd);

/**
 * output_end - close the file if it is open. @refused: the command did not run, so remove the file
 * if output_open() created it and it is empty.
 */
void output_end(struct output *output, bool refused);

#endif
