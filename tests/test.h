/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test.h - what every CUnit program here shares: a table of cases, a seed.
 *
 * FABEMU_SEED replays a run; without it the seed is drawn from the clock, and
 * either way it is printed.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <CUnit/Basic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "emu/random.h"

#define TEST_SEED "FABEMU_SEED"

struct test_case {
    const char *name; /* function__what_happens; NULL ends the table */
    void (*fn)(void);
};

/* Start of a test's own random numbers; the environment holds it since test_run(). */
static inline uint64_t test_seed(void)
{
    const char *text = getenv(TEST_SEED);

    return text ? strtoull(text, NULL, 0) : 0;
}

/* The next random number (splitmix64). */
static inline uint64_t test_random(uint64_t *state)
{
    return emu_splitmix(state);
}

static inline void test_seed_print(const char *suite)
{
    struct timespec now;
    char text[24];

    timespec_get(&now, TIME_UTC);
    snprintf(text, sizeof(text), "%llu",
             (unsigned long long)now.tv_sec * 1000000007ull ^ (unsigned long long)now.tv_nsec);
    setenv(TEST_SEED, text, 0); /* one that the caller set stays */
    printf("%s: " TEST_SEED "=%s\n", suite, getenv(TEST_SEED));
    fflush(stdout);
}

/* Run the cases; 0, or 1 if any failed. */
static inline int test_run(const char *suite, const struct test_case *cases)
{
    int failed = 1;

    test_seed_print(suite);
    if (CU_initialize_registry() != CUE_SUCCESS)
        return failed;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_pSuite into = CU_add_suite(suite, NULL, NULL);
    for (; into && cases->name; cases++)
        if (!CU_add_test(into, cases->name, cases->fn))
            into = NULL;
    if (into && CU_basic_run_tests() == CUE_SUCCESS)
        failed = CU_get_number_of_failures() > 0;
    CU_cleanup_registry();
    return failed;
}

#endif
