/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.h - lines of telemetry, for tests that read them.
 */
#ifndef TESTS_APPS_TELEMETRY_SNAPSHOT_H
#define TESTS_APPS_TELEMETRY_SNAPSHOT_H

#include <CUnit/CUnit.h>
#include <json-c/json.h>

#include "apps/telemetry/telemetry.h"

/* Exactly one whole line; the caller puts it. */
static inline struct json_object *parsed(const struct text_buf *text)
{
    struct json_tokener *tok = json_tokener_new();
    struct json_object *line;

    CU_ASSERT_FALSE_FATAL(text->failed);
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
    line = json_tokener_parse_ex(tok, text->at, (int)text->bytes);
    CU_ASSERT_EQUAL_FATAL(json_tokener_get_error(tok), json_tokener_success);
    CU_ASSERT_EQUAL(json_tokener_get_parse_end(tok), text->bytes);
    json_tokener_free(tok);
    return line;
}

#endif
