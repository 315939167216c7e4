/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill_lines.h - print which processes wait for which others, from the JSON of
 * daemon/standstill.h.
 */
#ifndef APPS_CMD_STANDSTILL_LINES_H
#define APPS_CMD_STANDSTILL_LINES_H

#include <stdint.h>

struct json_object;

/** standstill_for_ns - return for how long nothing has moved, or 0. @message: a status or event. */
int64_t standstill_for_ns(struct json_object *message);
/** standstill_starved_ns - return for how much of that time threads had no core. */
int64_t standstill_starved_ns(struct json_object *message);

/**
 * standstill_print_time - print a line that says for how long nothing has moved, and for how much
 * of this time threads of a host waited for a core.
 */
void standstill_print_time(struct json_object *message, void (*print)(const char *line));

/**
 * standstill_print - print lines about each collective that waits for members, each process whose
 * operation is pending for a second or more, and each link that waits.
 * @message: a status or an event, with the fields "attached" and "standstill".
 * @print: called with each line, which has no newline.
 */
void standstill_print(struct json_object *message, void (*print)(const char *line));

/** standstill_print_disagreement - print the line about an event "disagreement". */
void standstill_print_disagreement(struct json_object *event, void (*print)(const char *line));

#endif
