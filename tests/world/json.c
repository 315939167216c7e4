/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.c - a file that was written as JSON.
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
