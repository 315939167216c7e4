/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.h - the supervisor's reports of standstills. A *standstill* is a time in which no
 * segment moves while processes wait for the fabric.
 */
#ifndef APPS_CMD_STANDSTILL_H
#define APPS_CMD_STANDSTILL_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;

#define STANDSTILL_AFTER_NS INT64_C(5000000000) /* default of --standstill */

/*
 * A supervisor's state. A program may stand still often, each time for long. Therefore each
 * standstill is reported only once, and `after_ns` doubles when a reported standstill ends.
 */
struct standstill {
    bool ends_run;               /* end the run after the report */
    struct json_object *last;    /* the fabric's last event; NULL: no standstill */
    int64_t after_ns;            /* report a standstill that has lasted this long; 0: never */
    bool printed;                /* the current standstill was reported */
    struct json_object *longest; /* the last event of the longest reported standstill; NULL: none */
};

/** standstill_event - handle an event "standstill". @prints: print a report if one is due. */
void standstill_event(struct standstill *standstill, struct json_object *event, bool prints);
/** standstill_print_last - report the current standstill, if there is one. */
void standstill_print_last(struct standstill *standstill);
void standstill_release(struct standstill *standstill);
/** standstill_report - add the longest reported standstill, if any, to the final report. */
void standstill_report(const struct standstill *standstill, struct json_object *report);
/** standstill_print_report - print the standstill of a final report that has one. */
void standstill_print_report(struct json_object *report);
/** standstill_disagreement - print one line for the event "disagreement". */
void standstill_disagreement(struct json_object *event);

/**
 * standstill_read - read the value of --standstill. @into: struct standstill. *@right becomes a
 * description of the valid values. Returns false if @value is not valid.
 */
bool standstill_read(void *into, const char *value, const char **right);

#endif
