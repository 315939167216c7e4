/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.h - an output file of lines (--events, --record). Writing never blocks, since the file may
 * be a pipe whose reader has stopped. Owned by one thread.
 */
#ifndef APPS_BASE_LINES_H
#define APPS_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/util/json.h"

struct lines {
    int fd;                  /* -1: no file, or a write has failed */
    int epoll;               /* borrowed */
    const char *what;        /* kind of the lines, for messages */
    struct emu_json_buf out; /* waiting lines; the first one may be partly written */
    bool watched;            /* registered in epoll */
    bool failed;             /* a write failed, other than by a reader that closed its pipe */
    uint64_t left_out;       /* lines that were dropped since the last one was taken */
    uint64_t all_left_out;   /* dropped since lines_open(), by us or by the caller */
};

/**
 * lines_open - write to @fd, which becomes non-blocking and is borrowed; -1: no file.
 * @epoll: while lines wait, @fd is registered in it for EPOLLOUT with @file as data; call
 *         lines_flush() then.
 * @what:  kind of the lines, for messages to the user.
 */
void lines_open(struct lines *file, int fd, int epoll, const char *what);

/**
 * lines_put - write a line, given without its newline; queue it; or drop and count it as a whole.
 * After a write error a message is printed, and fd is -1.
 */
void lines_put(struct lines *file, const char *line, size_t bytes);

/** lines_flush - write as many waiting lines as the file takes. */
void lines_flush(struct lines *file);

/** lines_is_behind - do lines wait? */
bool lines_is_behind(const struct lines *file);

/** lines_drain - write all waiting lines, for at most 500 ms. */
void lines_drain(struct lines *file);

/** lines_close - the same, then print how many lines were dropped. */
void lines_close(struct lines *file);

#endif
