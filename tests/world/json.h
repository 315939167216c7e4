/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - a file that was written as JSON.
 */
#ifndef TESTS_WORLD_JSON_H
#define TESTS_WORLD_JSON_H

#include <json-c/json.h>

/**
 * json_of_file - @fd as it is now, which is one JSON object and nothing behind it; the caller puts
 * it. The test ends if it is not.
 */
struct json_object *json_of_file(int fd);

#endif
