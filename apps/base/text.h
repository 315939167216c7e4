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

struct text_buf {
    char *at; /* not ended by a 0 */
    size_t bytes;
    size_t capacity;
    bool failed; /* there was no memory: what is there is not whole */
};

/** text_buf_free - what it holds; it is empty then. */
void text_buf_free(struct text_buf *text);

/** text_buf_clear - it is empty, and keeps its memory. */
static inline void text_buf_clear(struct text_buf *text)
{
    text->bytes = 0;
    text->failed = false;
}

/** text_buf_reserve - room for so many bytes more, or NULL: there is no memory. */
char *text_buf_reserve(struct text_buf *text, size_t bytes);

/** text_put - bytes as they are. text_puts() - the same of a string. */
void text_put(struct text_buf *text, const char *at, size_t bytes);
void text_puts(struct text_buf *text, const char *string);

/** text_number - a number, in decimal digits. */
void text_number(struct text_buf *text, uint64_t number);

/** text_string - @string in quotes, as JSON has it; what is not ASCII is shown as '?'. */
void text_string(struct text_buf *text, const char *string);

/** text_json - a JSON value, on one line. */
void text_json(struct text_buf *text, struct json_object *value);

/** text_comma - a comma, but not behind what begins a list or an object. */
void text_comma(struct text_buf *text);

/** text_row - [A,B,…]: an element of a list of lists of numbers. */
void text_row(struct text_buf *text, const int64_t *numbers, size_t count);

/** text_field - ,"name": of an object, with a comma where one is wanted. */
void text_field(struct text_buf *text, const char *name);

/** text_field_number - "name":NUMBER, as text_field(). */
void text_field_number(struct text_buf *text, const char *name, uint64_t number);

/** text_field_string - "name":"STRING", as text_field(). */
void text_field_string(struct text_buf *text, const char *name, const char *string);

#endif
