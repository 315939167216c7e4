/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.c - a file that was written as JSON, and random JSON.
 */
#include "tests/world/json.h"

#include <unistd.h>

#include "tests/test.h"

/* All that is in it. Who reads while another thread appends may find a part of that: once more. */
static char *text_of_file(int fd, size_t *bytes)
{
    char *text = NULL;

    do {
        free(text);
        *bytes = (size_t)lseek(fd, 0, SEEK_END);
        text = malloc(*bytes + 1);
        CU_ASSERT_EQUAL_FATAL(pread(fd, text, *bytes, 0), (ssize_t)*bytes);
    } while ((size_t)lseek(fd, 0, SEEK_END) != *bytes);
    text[*bytes] = '\0';
    return text;
}

struct json_object *json_of_file(int fd)
{
    size_t bytes;
    char *text = text_of_file(fd, &bytes);
    struct json_tokener *tok = json_tokener_new();
    struct json_object *all;

    json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
    all = json_tokener_parse_ex(tok, text, (int)bytes + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(all);
    json_tokener_free(tok);
    free(text);
    return all;
}

/* --- drawn ---------------------------------------------------------------------------- */

static uint64_t draw(struct json_drawn *drawn, uint64_t below)
{
    return test_random(&drawn->random) % below;
}

/* Mostly zeros, so that values read from them may be in range. */
static struct json_object *drawn_digits(struct json_drawn *drawn)
{
    size_t length = drawn->digits[draw(drawn, drawn->lengths)];
    char *text = malloc(2 * length + 1);
    struct json_object *ret;

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    if (draw(drawn, 8) == 0)
        length = draw(drawn, length + 1);
    for (size_t i = 0; i < 2 * length; i++)
        text[i] = draw(drawn, 4) ? '0' : "0123456789abcdef"[draw(drawn, 16)];
    ret = json_object_new_string_len(text, (int)(2 * length));
    free(text);
    return ret;
}

static struct json_object *drawn_value(struct json_drawn *drawn, uint32_t depth);

static struct json_object *drawn_list(struct json_drawn *drawn, uint32_t depth)
{
    struct json_object *list = json_object_new_array();

    for (uint64_t left = draw(drawn, 24); left; left--)
        json_object_array_add(list, drawn_value(drawn, depth));
    return list;
}

static struct json_object *drawn_value(struct json_drawn *drawn, uint32_t depth)
{
    static const int64_t numbers[] = {-1,        1,          255,       65536,    INT32_MAX,
                                      INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN};

    switch (draw(drawn, depth ? 10 : 6)) {
    case 0:
        return draw(drawn, 2) ? NULL : json_object_new_boolean((int)draw(drawn, 2));
    case 1:
        return json_object_new_double(draw(drawn, 2) ? -1e300 : 0.5);
    case 2:
        return json_object_new_int64(numbers[draw(drawn, sizeof numbers / sizeof numbers[0])]);
    case 3:
        return json_object_new_int64((int64_t)draw(drawn, 16));
    case 4:
        return json_object_new_string("\033[2J%s\n");
    case 5:
        return drawn_digits(drawn);
    case 6:
        return json_drawn_object(drawn, depth - 1);
    default:
        return drawn_list(drawn, depth - 1);
    }
}

struct json_object *json_drawn_object(struct json_drawn *drawn, uint32_t depth)
{
    struct json_object *object = json_object_new_object();

    for (uint64_t left = draw(drawn, 12); left; left--)
        json_object_object_add(object, drawn->names[draw(drawn, drawn->count)],
                               drawn_value(drawn, depth));
    return object;
}
