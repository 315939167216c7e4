/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival.h - `fabemu run` prints how many processes have attached, if they take long.
 *
 * The first line comes after 2 s, further lines after 4, 8, 16 s, and so on, each only if the
 * number has changed since the last line. When all have attached, a last line says so if there were
 * lines before. Thread: the supervisor.
 */
#ifndef APPS_CMD_ARRIVAL_H
#define APPS_CMD_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;

struct arrival {
    bool waits;       /* not all processes have attached */
    int64_t since_ms; /* start of the wait, by emu_now_ms() */
    int64_t next_ms;  /* earliest time of the next line */
    int64_t attached; /* processes that are attached now */
    int64_t ranks;    /* ranks of the job; 0: unknown until a process attaches */
    int64_t printed;  /* number in the last line; -1: no line yet */
};

/**
 * arrival_begin - @command was started. If it is an MPI launcher, the wait begins now. Otherwise it
 * begins when a process attaches that is one of several ranks.
 */
void arrival_begin(struct arrival *a, const char *command);

/** arrival_event - handle an event "attached" of the fabric (docs/control.md). */
void arrival_event(struct arrival *a, struct json_object *event);

/** arrival_due_ms - time until arrival_print() has a line to print, in ms; -1: no line is due. */
int64_t arrival_due_ms(const struct arrival *a);

/** arrival_print - print the line that is due, if one is. */
void arrival_print(struct arrival *a);

#endif
