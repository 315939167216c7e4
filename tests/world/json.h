/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - a file that was written as JSON, and random JSON.
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

/* Parameters of random objects. */
struct json_drawn {
    uint64_t random;          /* state of the generator: the seed at first */
    const char *const *names; /* fields that objects have, count of them */
    size_t count;
    const size_t *digits; /* lengths of strings of hexadecimal digits, in bytes */
    size_t lengths;       /* number of digits[]; sometimes a length below the first is used */
};

/**
 * json_drawn_object - an object with some of these fields. Their values have any type: small
 * numbers and numbers at the limits of 32 and 64 bits, hexadecimal digits, text with control
 * characters, lists and objects, nested up to @depth. The caller puts it.
 */
struct json_object *json_drawn_object(struct json_drawn *drawn, uint32_t depth);

#endif
