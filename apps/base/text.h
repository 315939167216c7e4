/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - a growing buffer for a line of JSON or a page of metrics. Owned by one thread.
 *
 * A snapshot of a large fabric has tens of thousands of numbers. Most of the time would be spent on
 * allocating a JSON object for each, so the text is written directly.
 */
#ifndef APPS_BASE_TEXT_H
#define APPS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

struct text_buf {
    char *at; /* the text, without a final NUL */
    size_t bytes;
    size_t capacity; /* allocated bytes */
    bool failed;     /* there was no memory, so the text is incomplete */
};

/** text_buf_free - free the memory. The text is then empty. */
void text_buf_free(struct text_buf *text);

/** text_buf_clear - make the text empty, but keep the memory. */
static inline void text_buf_clear(struct text_buf *text)
{
    text->bytes = 0;
    text->failed = false;
}

/** text_buf_reserve - return space for @bytes behind the text. NULL: no memory. */
char *text_buf_reserve(struct text_buf *text, size_t bytes);

/** text_put - append bytes. text_puts() - append a string. */
void text_put(struct text_buf *text, const char *at, size_t bytes);
void text_puts(struct text_buf *text, const char *string);

/** text_number - append a decimal number. */
void text_number(struct text_buf *text, uint64_t number);

/** text_string - append @string as a JSON string. Bytes other than printable ASCII become '?'. */
void text_string(struct text_buf *text, const char *string);

/** text_json - append a JSON value, on one line. */
void text_json(struct text_buf *text, struct json_object *value);

/** text_comma - append a comma, unless the text ends with a comma, '[' or '{'. */
void text_comma(struct text_buf *text);

/**
 * text_row - append the list [A,B,…] of numbers, after a comma if the text ends with a list.
 * @count: at least 1.
 */
void text_row(struct text_buf *text, const int64_t *numbers, size_t count);

/** text_field - append a comma by text_comma(), and then "name":. */
void text_field(struct text_buf *text, const char *name);

/** text_field_number - append a comma by text_comma(), and then "name":NUMBER. */
void text_field_number(struct text_buf *text, const char *name, uint64_t number);

/** text_field_string - append a comma by text_comma(), and then "name":"STRING". */
void text_field_string(struct text_buf *text, const char *name, const char *string);

#endif
