/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * silence.h - end the silences of a command on standard error: a thread prints what the command
 * does, and for how long.
 */
#ifndef APPS_BASE_SILENCE_H
#define APPS_BASE_SILENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Longest time without a line. A command may also start slowly, and is silent for 10 s at most. */
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
 * "fabemu: topo: building the network, 9 s so far". If there can be no thread, no line is printed.
 * @what: what the command does, up to 159 bytes; copied
 */
void silence_begin(struct silence *silence, int64_t every_ms, const char *what);

/**
 * silence_set - say that the command does @what from now on. The time in the lines starts at 0
 * again, and the next line comes after the interval, as if the caller had just printed one.
 */
void silence_set(struct silence *silence, const char *what);

/** silence_update - change the text to @what. The times in and of the lines stay the same. */
void silence_update(struct silence *silence, const char *what);

/** silence_end - end the thread. No line is printed afterwards. */
void silence_end(struct silence *silence);

#endif
