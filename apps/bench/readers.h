/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * readers.h - all who can look at a running fabric, at the same time: a subscriber of the control
 * socket, a page and a scraper of metrics at its server.
 */
#ifndef APPS_BENCH_READERS_H
#define APPS_BENCH_READERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct web;

enum { READER_SUBSCRIBER, READER_PAGE, READER_SCRAPER, READERS };

/* They read on one thread, which drops what comes. */
struct bench_readers {
    const char *name;      /* of the fabric; borrowed */
    const struct web *web; /* its page's server; NULL: it has none */
    int fd[READERS];       /* -1: not connected */
    int end_fd;
    pthread_t thread;
    uint64_t scrape_ms;        /* when the next one begins */
    bool begun;                /* something of its answer has come, */
    bool answered;             /* and it begins as it should */
    _Atomic uint64_t lines;    /* that the subscriber has read: shape, snapshots, replies */
    _Atomic uint64_t streamed; /* bytes that the page has */
    _Atomic uint64_t scrapes;  /* that are complete */
    char error[256];           /* ""; else a reader has lost its connection. After the close */
};

/**
 * bench_readers_open - all are connected, and have had their first snapshot. Errors: one line in
 * @error; nothing is to be closed then.
 */
int bench_readers_open(struct bench_readers *readers, const char *name, const struct web *web,
                       char *error, size_t error_bytes);

/** bench_readers_close - nobody reads any more. */
void bench_readers_close(struct bench_readers *readers);

#endif
