/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.h - a file that lines are written into as they come (--events, --record). It may be a pipe
 * whose reader has stopped: who writes never waits for it. One thread's.
 */
#ifndef APPS_BASE_LINES_H
#define APPS_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/util/json.h"

struct lines {
    int fd;                  /* -1: there is none, or it cannot be written any more */
    int epoll;               /* shows this structure when there is room again */
    const char *what;        /* that are written there */
    struct emu_json_buf out; /* whole lines that wait for room, but for the first one's beginning */
    bool watched;            /* epoll looks for room */
    bool failed;             /* a write failed, but not because a pipe's reader closed it */
    uint64_t left_out;       /* lines that found no room here since one did */
    uint64_t all_left_out;   /* since the start; the caller adds those that it did not offer */
};

/**
 * lines_open - write to @fd from now on, which becomes non-blocking and stays the caller's to
 * close; -1: nowhere.
 * @epoll: where it is registered while something waits, with @file as data; lines_flush() then.
 * @what:  that are written there, for messages to the user.
 */
void lines_open(struct lines *file, int fd, int epoll, const char *what);

/**
 * lines_put - one line, without its end. It is written, or waits, or is left out: whole, and
 * counted. That the file cannot be written is said, and fd is -1 from then on.
 */
void lines_put(struct lines *file, const char *line, size_t bytes);

/** lines_flush - write what there is room for. */
void lines_flush(struct lines *file);

/** lines_is_behind - does a line still wait for room? */
bool lines_is_behind(const struct lines *file);

/** lines_drain - wait for that, half a second at most. */
void lines_drain(struct lines *file);

/** lines_close - the same, and say how many lines were left out. */
void lines_close(struct lines *file);

#endif
