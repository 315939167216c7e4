/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival.h - if the processes of a run take long to attach, `fabemu run` prints how many have
 * attached.
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
    bool waits;       /* processes are still to attach */
    int64_t since_ms; /* when the wait began, by emu_now_ms() */
    int64_t next_ms;  /* no line before this time */
    int64_t attached; /* processes that are attached now */
    int64_t ranks;    /* of their job; 0: not known, no process has attached */
    int64_t printed;  /* the number in the last line; -1: there was no line */
};

/**
 * arrival_begin - the command was started. If it is an MPI launcher, the wait for processes begins
 * now; else it begins when a process attaches that says how many ranks its job has.
 */
void arrival_begin(struct arrival *a, const char *command);

/** arrival_event - an event "attached" of the fabric (docs/control.md). */
void arrival_event(struct arrival *a, struct json_object *event);

/** arrival_due_ms - milliseconds until arrival_print() has a line to print; -1: it has none. */
int64_t arrival_due_ms(const struct arrival *a);

/** arrival_print - print the line that is due, if one is. */
void arrival_print(struct arrival *a);

#endif
