/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parsed.c - a fault out of its text.
 */
#include "tests/world/parsed.h"

#include "tests/test.h"

struct fault parsed(const char *text)
{
    struct fault fault;
    char error[FAULT_ERROR_BYTES] = "";

    if (fault_parse(&fault, text, error, sizeof error)) {
        printf("%s: %s\n", text, error);
        CU_FAIL_FATAL("a good fault was refused");
    }
    return fault;
}
