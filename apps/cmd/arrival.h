/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival.h - prints for `fabemu run` how many processes have attached, if attaching takes long.
 *
 * The first line is printed after 2 s, and further lines after 4, 8, 16 s and so on, but only if
 * the number has changed since the last line. If a line was printed, a last line follows when all
 * processes have attached. Thread: the supervisor.
 */
#ifndef APPS_CMD_ARRIVAL_H
#define APPS_CMD_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;

struct arrival {
    bool waits;       /* some processes have not attached yet */
    int64_t since_ms; /* start of the wait, by emu_now_ms() */
    int64_t next_ms;  /* earliest time of the next line */
    int64_t attached; /* processes that are attached now */
    int64_t ranks;    /* ranks of the job; 0: unknown until a process attaches */
    int64_t printed;  /* `attached` in the last line; -1: no line yet */
};

/**
 * arrival_begin - begin to wait if @command, which was just started, is an MPI launcher. For other
 * commands the wait begins when a process attaches that belongs to a job of several ranks.
 */
void arrival_begin(struct arrival *a, const char *command);

/** arrival_event - handle an event "attached" of the fabric (docs/control.md). */
void arrival_event(struct arrival *a, struct json_object *event);

/** arrival_due_ms - return the time until arrival_print() prints a line, in ms; -1: never. */
int64_t arrival_due_ms(const struct arrival *a);

/**
 * arrival_prints_line - return whether @line is a line that arrival_print() or arrival_event()
 * prints. @line does not have the "fabemu: " at its beginning. Pure.
 */
bool arrival_prints_line(const char *line);

/** arrival_print - print a line if one is due. */
void arrival_print(struct arrival *a);

#endif
