/* SPDX-License-Identifier: BSD-3-Clause */
/* standstill.c - decide when the supervisor of a run reports a standstill. */
#include "apps/cmd/standstill.h"

#include <json-c/json.h>
#include <string.h>

#include "apps/base/message.h"
#include "apps/base/quantity.h"
#include "apps/cmd/standstill_lines.h"
#include "apps/control/conn.h"

static void print_line(const char *line)
{
    print_message("%s", line);
}

/* Keep the last event if its standstill is the longest reported one. */
static void keep_longest(struct standstill *standstill)
{
    if (standstill->longest &&
        standstill_for_ns(standstill->last) <= standstill_for_ns(standstill->longest))
        return;
    json_object_put(standstill->longest);
    standstill->longest = json_object_get(standstill->last);
}

void standstill_print_last(struct standstill *standstill)
{
    if (!standstill->last)
        return;
    standstill_print_time(standstill->last, print_line);
    standstill_print(standstill->last, print_line);
    keep_longest(standstill);
}

void standstill_event(struct standstill *standstill, struct json_object *event, bool prints)
{
    bool stands = json_object_object_get(event, "standstill");

    json_object_put(standstill->last);
    standstill->last = NULL;
    if (!stands && standstill->printed) {
        standstill->printed = false;
        standstill->after_ns *= 2;
    }
    if (!stands)
        return;
    standstill->last = json_object_get(event);
    if (prints && !standstill->printed && standstill->after_ns &&
        standstill_for_ns(event) - standstill_starved_ns(event) >= standstill->after_ns) {
        standstill->printed = true;
        standstill_print_last(standstill);
    }
    if (standstill->printed)
        keep_longest(standstill);
}

void standstill_report(const struct standstill *standstill, struct json_object *report)
{
    if (!standstill->longest)
        return;
    json_add_number(report, "standstill_ns", (uint64_t)standstill_for_ns(standstill->longest));
    json_object_object_add(report, "standstill",
                           json_object_get(
                               json_object_object_get(standstill->longest, "standstill")));
    json_object_object_add(report, "standstill_attached",
                           json_object_get(
                               json_object_object_get(standstill->longest, "attached")));
}

void standstill_print_report(struct json_object *report)
{
    struct json_object *message = json_object_new_object();

    json_object_object_add(message, "standstill",
                           json_object_get(json_object_object_get(report, "standstill")));
    json_object_object_add(message, "attached",
                           json_object_get(json_object_object_get(report, "standstill_attached")));
    standstill_print_time(message, print_line);
    standstill_print(message, print_line);
    json_object_put(message);
}

void standstill_release(struct standstill *standstill)
{
    json_object_put(standstill->last);
    json_object_put(standstill->longest);
    standstill->last = standstill->longest = NULL;
}

void standstill_disagreement(struct json_object *event)
{
    standstill_print_disagreement(event, print_line);
}

bool standstill_read(void *into, const char *value, const char **right)
{
    struct standstill *ret = into;
    static const struct quantity_form form = {.units = quantity_times,
                                              .least = QUANTITY_S_PS,
                                              .most = 86400 * QUANTITY_S_PS};
    uint64_t ps = 0;

    *right = "a time from 1s to 24h with a unit, such as 5s; or 5s:end, to end the run after it; "
             "or off";
    if (strcmp(value, "off") == 0)
        value += strlen(value);
    else if (quantity_scan(&value, &form, &ps) != QUANTITY_OK ||
             (*value && strcmp(value, ":end") != 0))
        return false;
    ret->after_ns = (int64_t)(ps / 1000);
    ret->ends_run = *value;
    return true;
}
