/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parsed.h - a fault out of its text.
 */
#ifndef TESTS_WORLD_PARSED_H
#define TESTS_WORLD_PARSED_H

#include "apps/fault/fault.h"

/** parsed - what @text says; the test ends if that is refused. */
struct fault parsed(const char *text);

#endif
