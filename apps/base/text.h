/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - text that grows: a line of JSON, or a page of metrics, written number by number.
 *
 * A snapshot of a large fabric has tens of thousands of numbers; an object for each would cost
 * more than all the rest of it. Owned by one thread.
 */
#ifndef APPS_BASE_TEXT_H
#define APPS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

struct telemetry_text {
    char *at; /* not ended by a 0 */
    size_t bytes;
    size_t room;
    bool failed; /* there was no memory: what is there is not whole */
};

/** telemetry_text_free - what it holds; it is empty then. */
void telemetry_text_free(struct telemetry_text *text);

/** telemetry_text_clear - it is empty, and keeps its memory. */
static inline void telemetry_text_clear(struct telemetry_text *text)
{
    text->bytes = 0;
    text->failed = false;
}

/** telemetry_text_room - room for so many bytes more, or NULL: there is no memory. */
char *telemetry_text_room(struct telemetry_text *text, size_t bytes);

/** telemetry_put - bytes as they are. telemetry_puts() - the same of a string. */
void telemetry_put(struct telemetry_text *text, const char *at, size_t bytes);
void telemetry_puts(struct telemetry_text *text, const char *string);

/** telemetry_number - a number, in decimal digits. */
void telemetry_number(struct telemetry_text *text, uint64_t number);

/** telemetry_string - @string in quotes, as JSON has it; what is not ASCII is shown as '?'. */
void telemetry_string(struct telemetry_text *text, const char *string);

/** telemetry_json - a JSON value, on one line. */
void telemetry_json(struct telemetry_text *text, struct json_object *value);

/** telemetry_comma - a comma, but not behind what begins a list or an object. */
void telemetry_comma(struct telemetry_text *text);

/** telemetry_row - [A,B,…]: an element of a list of lists of numbers. */
void telemetry_row(struct telemetry_text *text, const int64_t *numbers, size_t count);

/** telemetry_field - ,"name": of an object, with a comma where one is wanted. */
void telemetry_field(struct telemetry_text *text, const char *name);

/** telemetry_field_number - "name":NUMBER, as telemetry_field(). */
void telemetry_field_number(struct telemetry_text *text, const char *name, uint64_t number);

/** telemetry_field_string - "name":"STRING", as telemetry_field(). */
void telemetry_field_string(struct telemetry_text *text, const char *name, const char *string);

#endif
