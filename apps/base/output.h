/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h - a file that a command is to write.
 *
 * It is opened before the command begins, so that a name that cannot be written is told early. What
 * it held stays until the command begins: one that is refused leaves all as it was. One at a time
 * writes a regular file: who opens it holds an advisory lock (flock()), and so do the processes
 * that inherit the descriptor.
 */
#ifndef APPS_BASE_OUTPUT_H
#define APPS_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

struct output {
    const char *path; /* borrowed */
    int fd;           /* -1: it is not open */
    bool made;        /* it was not there before */
};

#define OUTPUT_NONE ((struct output){.fd = -1})

/**
 * output_open - open @path for writing, and lock it; "-" is standard output, which is not locked.
 * For a pipe, wait for a reader until emu_now_ms() is @until_ms; INT64_MAX: without limit.
 * Errors: -EWOULDBLOCK, somebody else writes it; -ENXIO, nobody reads the pipe; as open().
 */
int output_open(struct output *ret, const char *path, int64_t until_ms);

/** output_why - what to say of an error of output_open(). */
const char *output_why(int err);

/**
 * output_begin - what the file held is gone; what was written to @fd since it was opened stays.
 * Nothing happens to what is no regular file, and with @fd -1. Errors: as ftruncate().
 */
int output_begin(int fd);

/**
 * output_end - close it; it may be closed. @refused: if it was not there before and nothing was
 * written to it since, it is removed.
 */
void output_end(struct output *output, bool refused);

#endif
