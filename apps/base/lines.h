/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.h - an output file of lines (--events, --record). The file may be a pipe whose reader has
 * stopped, so writing never blocks: lines wait in a queue or, if it is full, are dropped. Owned by
 * one thread.
 */
#ifndef APPS_BASE_LINES_H
#define APPS_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/util/json.h"

struct lines {
    int fd;                  /* -1 if there is no file, or a write has failed */
    bool opened;             /* lines_open() has opened fd, with O_NONBLOCK */
    mode_t type;             /* type of the file: S_IFIFO, ... */
    int epoll;               /* borrowed */
    const char *what;        /* what the lines are, for messages to the user */
    struct emu_json_buf out; /* waiting lines; the first one may be partly written */
    bool watched;            /* fd is registered in epoll */
    bool failed;             /* a write failed, and not because the pipe's reader closed it */
    uint64_t left_out;       /* lines dropped since a line was last queued */
    uint64_t all_left_out;   /* all dropped lines; the caller may add those that it drops itself */
};

/**
 * lines_open - prepare to write to @fd, which is borrowed. Its flags do not change, because the
 * user's program may share them. If @fd is -1, there is no file, and lines_put() does nothing.
 * @epoll: while lines wait, @fd is registered in it for EPOLLOUT, with @file as data. The caller
 *         then calls lines_flush() when @fd is writable.
 * @what:  what the lines are, for messages to the user.
 */
void lines_open(struct lines *file, int fd, int epoll, const char *what);

/**
 * lines_put - write a line, which is given without its newline. If the file does not take it now,
 * the line is queued or, if the queue is full, dropped and counted. After an error of write(),
 * prints a message and sets fd to -1.
 */
void lines_put(struct lines *file, const char *line, size_t bytes);

/** lines_flush - write as many waiting lines as the file takes. */
void lines_flush(struct lines *file);

/** lines_is_behind - return whether lines wait. */
bool lines_is_behind(const struct lines *file);

/** lines_drain - write all waiting lines, but wait for at most 500 ms. */
void lines_drain(struct lines *file);

/** lines_close - write waiting lines as lines_drain() does, and print how many were dropped. */
void lines_close(struct lines *file);

#endif
