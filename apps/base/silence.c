/* SPDX-License-Identifier: BSD-3-Clause */
/* silence.c - a thread that prints what a command does. */
#include "apps/base/silence.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "apps/base/message.h"
#include "emu/util/now.h"

static void *print_lines(void *arg)
{
    struct silence *silence = arg;
    struct timespec at;

    pthread_mutex_lock(&silence->lock);
    while (!silence->ended) {
        int64_t now_ms = emu_now_ms(), next_ms = silence->printed_ms + silence->every_ms;

        if (now_ms >= next_ms) {
            silence->printed_ms = now_ms;
            print_message("%s, %lld s so far", silence->what,
                          (long long)(now_ms - silence->began_ms) / 1000);
            continue;
        }
        at = (struct timespec){.tv_sec = next_ms / 1000, .tv_nsec = next_ms % 1000 * 1000000};
        pthread_cond_clockwait(&silence->ending, &silence->lock, CLOCK_MONOTONIC, &at);
    }
    pthread_mutex_unlock(&silence->lock);
    return NULL;
}

void silence_begin(struct silence *silence, int64_t every_ms, const char *what)
{
    sigset_t all, before;

    *silence = (struct silence){.every_ms = every_ms};
    pthread_mutex_init(&silence->lock, NULL);
    pthread_cond_init(&silence->ending, NULL);
    snprintf(silence->what, sizeof silence->what, "%s", what);
    silence->began_ms = silence->printed_ms = emu_now_ms();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the caller */
    silence->started = pthread_create(&silence->thread, NULL, print_lines, silence) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void silence_set(struct silence *silence, const char *what)
{
    if (!silence->started)
        return;
    pthread_mutex_lock(&silence->lock);
    snprintf(silence->what, sizeof silence->what, "%s", what);
    silence->began_ms = silence->printed_ms = emu_now_ms();
    pthread_mutex_unlock(&silence->lock);
}

void silence_update(struct silence *silence, const char *what)
{
    if (!silence->started)
        return;
    pthread_mutex_lock(&silence->lock);
    snprintf(silence->what, sizeof silence->what, "%s", what);
    pthread_mutex_unlock(&silence->lock);
}

void silence_end(struct silence *silence)
{
    if (!silence->started)
        return;
    pthread_mutex_lock(&silence->lock);
    silence->ended = true;
    pthread_cond_signal(&silence->ending);
    pthread_mutex_unlock(&silence->lock);
    pthread_join(silence->thread, NULL);
    silence->started = false;
}
