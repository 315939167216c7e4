/* SPDX-License-Identifier: BSD-3-Clause */
/* standstill.c - decide when the supervisor of a run reports a standstill. */
#include "apps/cmd/standstill.h"

#include <json-c/json.h>

#include "apps/base/message.h"
#include "apps/cmd/standstill_lines.h"
#include "apps/control/conn.h"

static void print_line(const char *line)
{
    print_message("%s", line);
}

void standstill_print_last(const struct standstill *standstill)
{
    if (!standstill->last)
        return;
    standstill_print_time(standstill->last, print_line);
    standstill_print(standstill->last, print_line);
}

void standstill_event(struct standstill *standstill, struct json_object *event, bool say_it)
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
    if (say_it && !standstill->printed && standstill->after_ns &&
        standstill_for_ns(event) - standstill_starved_ns(event) >= standstill->after_ns) {
        standstill->printed = true;
        standstill_print_last(standstill);
    }
    if (standstill->printed &&
        (!standstill->longest ||
         standstill_for_ns(event) > standstill_for_ns(standstill->longest))) {
        json_object_put(standstill->longest);
        standstill->longest = json_object_get(event);
    }
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
