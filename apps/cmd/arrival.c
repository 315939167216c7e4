/* SPDX-License-Identifier: BSD-3-Clause */
/* arrival.c - see arrival.h. */
#include "apps/cmd/arrival.h"

#include <stdio.h>
#include <string.h>

#include "apps/base/command.h"
#include "apps/base/amount.h"
#include "apps/base/message.h"
#include "emu/util/json.h"
#include "emu/util/now.h"

#define WAITING  "waiting: "         /* begins a line that is printed during the wait */
#define ATTACHED " attached, after " /* part of the line that reports the end of the wait */
#define FIRST_MS 2000 /* the first line is printed this long after the start of the wait */

static void wait_begins(struct arrival *a)
{
    *a = (struct arrival){.waits = true, .since_ms = emu_now_ms(), .printed = -1};
    a->next_ms = a->since_ms + FIRST_MS;
}

void arrival_begin(struct arrival *a, const char *command)
{
    if (command_is_launcher(command))
        wait_begins(a);
}

void arrival_event(struct arrival *a, struct json_object *event)
{
    int64_t attached = emu_json_number(event, "attached", 0);
    int64_t ranks = emu_json_number(event, "ranks", 0);

    if (!a->waits && attached < ranks)
        wait_begins(a);
    a->attached = attached;
    a->ranks = ranks;
    if (!a->waits || attached < ranks)
        return;
    if (a->printed >= 0 && ranks) {
        char all[48] = "the process has";

        if (ranks > 1)
            snprintf(all, sizeof all, "all %lld processes have", (long long)ranks);
        print_message("%s" ATTACHED "%s", all,
                      duration_of_ns((double)(emu_now_ms() - a->since_ms) * 1e6).text);
    }
    a->waits = false;
}

bool arrival_prints_line(const char *line)
{
    return strncmp(line, WAITING, sizeof WAITING - 1) == 0 || strstr(line, ATTACHED);
}

int64_t arrival_due_ms(const struct arrival *a)
{
    int64_t left_ms = a->next_ms - emu_now_ms();

    if (!a->waits || a->attached == a->printed)
        return -1;
    return left_ms > 0 ? left_ms : 0;
}

void arrival_print(struct arrival *a)
{
    if (arrival_due_ms(a) != 0)
        return;
    if (a->ranks)
        print_message(WAITING "%lld of %lld processes %s attached", (long long)a->attached,
                      (long long)a->ranks, a->attached == 1 ? "has" : "have");
    else
        print_message(WAITING "no process has attached to the fabric yet");
    a->printed = a->attached;
    a->next_ms = a->since_ms + 2 * (emu_now_ms() - a->since_ms);
}
