/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - a file that was written as JSON, and JSON that is drawn at random.
 */
#ifndef TESTS_WORLD_JSON_H
#define TESTS_WORLD_JSON_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>

/**
 * json_of_file - @fd as it is now, which is one JSON object and nothing behind it; the caller puts
 * it. The test ends if it is not.
 */
struct json_object *json_of_file(int fd);

/* What is drawn. */
struct json_drawn {
    uint64_t random;          /* state of the generator: the seed at first */
    const char *const *names; /* fields that objects have, count of them */
    size_t count;
    const size_t *digits; /* bytes that strings of hexadecimal digits stand for: these lengths, */
    size_t lengths;       /* so many of them, or another length below the first */
};

/**
 * json_drawn_object - an object with some of these fields. Their values are of any type: numbers at
 * the limits of 32 and 64 bits and small ones, hexadecimal digits, text that no terminal should
 * get, lists and objects, @depth of them in each other. The caller puts it.
 */
struct json_object *json_drawn_object(struct json_drawn *drawn, uint32_t depth);

#endif
