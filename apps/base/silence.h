/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * silence.h - print regularly on standard error what a command does, and for how long, so that it
 * is never silent for long. A thread prints these lines.
 */
#ifndef APPS_BASE_SILENCE_H
#define APPS_BASE_SILENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Interval of the lines. A command must not be silent for 10 s, and may take 1 s to start. */
#define SILENCE_MS 9000

/* All zero: no thread runs, and the functions below do nothing. */
struct silence {
    pthread_t thread;
    bool started; /* the thread runs */
    pthread_mutex_t lock;
    pthread_cond_t ending;
    int64_t every_ms;
    /* guarded by the lock; times by emu_now_ms() */
    bool ended;
    int64_t began_ms, printed_ms;
    char what[160];
};

/**
 * silence_begin - start the thread. After each @every_ms without a line it prints a line such as
 * "fabemu: topo: building the network, 9 s so far". If no thread can be created, no line is
 * printed. @what: what the command does, up to 159 bytes; copied.
 */
void silence_begin(struct silence *silence, int64_t every_ms, const char *what);

/**
 * silence_set - say that the command does @what from now on. The time in the lines starts at 0
 * again, and the next line comes after the interval, as if the caller had just printed one.
 */
void silence_set(struct silence *silence, const char *what);

/**
 * silence_update - change the text to @what. This changes neither the time in the lines nor when
 * the next line is printed.
 */
void silence_update(struct silence *silence, const char *what);

/** silence_end - end the thread. No line is printed afterwards. */
void silence_end(struct silence *silence);

#endif
