/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - a growing buffer for JSON and metrics. */
#include "apps/base/text.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES  4096u
#define NUMBER_BYTES 20u /* number of digits of 2^64 - 1 */

void text_buf_free(struct text_buf *text)
{
    free(text->at);
    *text = (struct text_buf){0};
}

char *text_buf_reserve(struct text_buf *text, size_t bytes)
{
    size_t capacity = text->capacity ? text->capacity : FIRST_BYTES;
    char *at;

    if (text->failed)
        return NULL;
    if (text->bytes + bytes <= text->capacity)
        return text->at + text->bytes;
    while (capacity < text->bytes + bytes)
        capacity *= 2;
    at = realloc(text->at, capacity);
    if (!at) {
        text->failed = true;
        return NULL;
    }
    text->at = at;
    text->capacity = capacity;
    return at + text->bytes;
}

void text_put(struct text_buf *text, const char *at, size_t bytes)
{
    char *to = text_buf_reserve(text, bytes);

    if (!to)
        return;
    memcpy(to, at, bytes);
    text->bytes += bytes;
}

void text_puts(struct text_buf *text, const char *string)
{
    text_put(text, string, strlen(string));
}

/* Write @number with two digits per division. Returns the end, at most @to + NUMBER_BYTES. */
static char *digits(char *to, uint64_t number)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char text[NUMBER_BYTES];
    size_t at = sizeof text;

    for (; number >= 10; number /= 100) {
        at -= 2;
        memcpy(text + at, pairs + 2 * (number % 100), 2);
    }
    if (number || at == sizeof text)
        text[--at] = (char)('0' + number);
    memcpy(to, text + at, sizeof text - at);
    return to + (sizeof text - at);
}

void text_number(struct text_buf *text, uint64_t number)
{
    char *to = text_buf_reserve(text, NUMBER_BYTES);

    if (to)
        text->bytes = (size_t)(digits(to, number) - text->at);
}

static char *signed_digits(char *to, int64_t number)
{
    if (number >= 0)
        return digits(to, (uint64_t)number);
    *to = '-';
    return digits(to + 1, -(uint64_t)number);
}

static void put_character(struct text_buf *text, char character)
{
    char pair[2] = {'\\', character};

    if (character < ' ' || character > '~')
        pair[1] = '?';
    if (character == '"' || character == '\\')
        text_put(text, pair, 2);
    else
        text_put(text, pair + 1, 1);
}

void text_string(struct text_buf *text, const char *string)
{
    text_put(text, "\"", 1);
    for (; *string; string++)
        put_character(text, *string);
    text_put(text, "\"", 1);
}

void text_json(struct text_buf *text, struct json_object *value)
{
    text_puts(text, json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                              JSON_C_TO_STRING_NOSLASHESCAPE));
}

void text_comma(struct text_buf *text)
{
    char last = text->bytes ? text->at[text->bytes - 1] : '{';

    if (last != '{' && last != '[' && last != ',')
        text_put(text, ",", 1);
}

void text_row(struct text_buf *text, const int64_t *numbers, size_t count)
{
    char *to = text_buf_reserve(text, 2 + count * (NUMBER_BYTES + 2));

    if (!to)
        return;
    if (text->bytes && to[-1] == ']')
        *to++ = ',';
    *to++ = '[';
    for (size_t i = 0; i < count; i++) {
        to = signed_digits(to, numbers[i]);
        *to++ = i + 1 < count ? ',' : ']';
    }
    text->bytes = (size_t)(to - text->at);
}

void text_field(struct text_buf *text, const char *name)
{
    text_comma(text);
    text_string(text, name);
    text_put(text, ":", 1);
}

void text_field_number(struct text_buf *text, const char *name, uint64_t number)
{
    text_field(text, name);
    text_number(text, number);
}

void text_field_string(struct text_buf *text, const char *name, const char *string)
{
    text_field(text, name);
    text_string(text, string);
}
