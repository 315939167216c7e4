/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.c - `fabemu fault` on a running fabric.
 */
#include "apps/cmd/live.h"

#include <stdio.h>
#include <string.h>

#include "apps/base/command.h"
#include "apps/control/conn.h"
#include "apps/fault/fault.h"
#include "apps/cmd/options.h"
#include "apps/control/ask.h"
#include "apps/base/say.h"

/* Asks; on failure says why and returns false. */
static bool ask(const char *name, struct json_object *request, const struct ask_field *fields,
                struct json_object **reply)
{
    char error[FAULT_ERROR_BYTES + 256];

    if (!ask_fabric(name, request, fields, reply, NULL, error, sizeof error))
        return true;
    say("%s", error);
    return false;
}

int live_fault(const char *name, char *const *words, int count)
{
    struct json_object *request = ask_request("fault"), *reply;
    char text[FAULT_TEXT_BYTES] = "";
    size_t used = 0;

    for (int i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", words[i]);
    json_add_text(request, "fault", text);
    if (!ask(name, request, ASK_FIELDS({"fault", json_type_int}), &reply))
        return EXIT_FAILURE;
    printf("fault %lld\n", (long long)emu_json_number(reply, "fault", 0));
    if (*emu_json_text(reply, "note", ""))
        say("%s", emu_json_text(reply, "note", ""));
    json_object_put(reply);
    return EXIT_SUCCESS;
}

int live_clear(const char *name, const char *number)
{
    struct json_object *request = ask_request("fault_clear"), *reply;
    uint64_t id;

    if (!options_count(number, 1, UINT32_MAX, &id)) {
        json_object_put(request);
        return options_usage_error("fault", "--clear %.40s: it must be the number of a fault",
                                   number);
    }
    json_add_number(request, "fault", id);
    if (!ask(name, request, NULL, &reply))
        return EXIT_FAILURE;
    json_object_put(reply);
    return EXIT_SUCCESS;
}

static void print_state(struct json_object *state)
{
    printf("%4lld  %-6s  %lld time%s, %lld target%s, %lld hit%s  %s\n",
           (long long)emu_json_number(state, "fault", 0), emu_json_text(state, "state", "?"),
           (long long)emu_json_number(state, "times", 0),
           emu_json_number(state, "times", 0) == 1 ? "" : "s",
           (long long)emu_json_number(state, "targets", 0),
           emu_json_number(state, "targets", 0) == 1 ? "" : "s",
           (long long)emu_json_number(state, "hits", 0),
           emu_json_number(state, "hits", 0) == 1 ? "" : "s", emu_json_text(state, "text", "?"));
}

/* Print the sums of faults that are over and not listed any more. */
static void print_past(struct json_object *past)
{
    if (emu_json_number(past, "faults", 0))
        printf("%lld more that are over: %lld times, %lld hits\n",
               (long long)emu_json_number(past, "faults", 0),
               (long long)emu_json_number(past, "times", 0),
               (long long)emu_json_number(past, "hits", 0));
}

int live_list(const char *name, bool json)
{
    struct json_object *reply, *faults;

    if (!ask(name, ask_request("faults"), ASK_FIELDS({"faults", json_type_array}), &reply))
        return EXIT_FAILURE;
    faults = json_object_object_get(reply, "faults");
    if (json)
        printf("%s\n", json_object_to_json_string_ext(faults, JSON_C_TO_STRING_PRETTY |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE));
    else if (!emu_json_count(faults))
        puts("no faults");
    for (size_t i = 0; !json && i < emu_json_count(faults); i++)
        print_state(emu_json_at(faults, i));
    if (!json)
        print_past(json_object_object_get(reply, "past_faults"));
    json_object_put(reply);
    return EXIT_SUCCESS;
}
