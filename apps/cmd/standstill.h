/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.h - who waits for whom, as text for people: what daemon/standstill.h makes as JSON.
 */
#ifndef APPS_CMD_STANDSTILL_H
#define APPS_CMD_STANDSTILL_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;

#define STANDSTILL_AFTER_NS INT64_C(5000000000) /* without any movement, then it is said */

/*
 * What a supervisor has been told of it. Programs may stand still again and again, and for long: it
 * is said once each time, and after twice the time at the next.
 */
struct standstill {
    bool ends_run;            /* the run ends after the report */
    struct json_object *last; /* the fabric's last event of it; NULL: something moves */
    int64_t after_ns;         /* it is said after so long; 0: never */
    bool printed;
    int64_t longest_ns; /* of all that were said; 0: none was */
};

/** standstill_event - the fabric's event of that name. @say_it: when it is time. */
void standstill_event(struct standstill *standstill, struct json_object *event, bool say_it);
/** standstill_print_last - say it now, if it is one. */
void standstill_print_last(const struct standstill *standstill);
void standstill_release(struct standstill *standstill);
/** standstill_report - add the field "standstill_ns" to the final report, if one was said. */
void standstill_report(const struct standstill *standstill, struct json_object *report);
/** standstill_disagreement - say one line for the event of that name. */
void standstill_disagreement(struct json_object *event);

/**
 * standstill_for_ns - how long nothing has moved; 0: something has. @message: with "standstill".
 */
int64_t standstill_for_ns(struct json_object *message);

/**
 * standstill_print_time - print a line: for how long nothing has moved, and how much of that time
 * was without a core.
 */
void standstill_print_time(struct json_object *message, void (*print)(const char *line));

/**
 * standstill_print - a line for each collective that waits and for who is missing from it, for each
 * process with something pending for a second or more, for each link that waits.
 * @message: with "attached" and "standstill", a status or an event.
 * @print: gets each line, without its end.
 */
void standstill_print(struct json_object *message, void (*print)(const char *line));

#endif
