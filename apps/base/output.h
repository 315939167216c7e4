/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * output.h - an output file of a command.
 *
 * A command opens the file before its work begins, so that the user sees errors early. It truncates
 * the file when the work begins. If the command does not begin, the file keeps its contents. An
 * advisory lock (flock()) keeps two commands from writing the same regular file. Child processes
 * inherit the lock with the descriptor.
 */
#ifndef APPS_BASE_OUTPUT_H
#define APPS_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct output {
    const char *path; /* borrowed */
    int fd;           /* -1: not open */
    bool made;        /* output_open() created the file */
};

#define OUTPUT_NONE ((struct output){.fd = -1})

/**
 * output_is_stdout - return whether @path, which may be NULL, names standard output. If it does,
 * text for people goes to standard error, so that standard output has only the data.
 */
bool output_is_stdout(const char *path);

/**
 * output_open - open @path for writing, and lock it. "-" and "/dev/stdout" are standard output,
 * which is not locked.
 * If @path is a named pipe, wait for a reader until emu_now_ms() is @until_ms, or without limit if
 * that is INT64_MAX.
 * Errors: -EWOULDBLOCK, another process writes it; -ENXIO, no process reads the pipe; those of
 * open().
 */
int output_open(struct output *ret, const char *path, int64_t until_ms);

/** output_why - return a text about an error of output_open() for the user. */
const char *output_why(int err);

/**
 * output_begin - truncate the file. Does nothing if @fd is -1, not a regular file, in append mode,
 * or standard output, to which the user's program writes, too. Errors: those of ftruncate().
 */
int output_begin(int fd);

/**
 * output_stream - truncate the file (output_begin()), and return a stream that writes to it. NULL:
 * errno says why.
 * output_close() - close the stream, but not @fd. Errors: those of write() and close(), negative;
 * -EIO, an earlier write failed.
 */
FILE *output_stream(int fd);
int output_close(FILE *stream);

/**
 * output_end - close the file if it is open. @refused: the command did not begin, so remove the
 * file if output_open() has created it and nothing was written.
 */
void output_end(struct output *output, bool refused);

#endif
