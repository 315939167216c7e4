/* SPDX-License-Identifier: BSD-3-Clause */
/* test.c - see test.h. */
#include "tests/test.h"

#include <time.h>

uint64_t test_seed(void)
{
    const char *text = getenv(TEST_SEED);

    return text ? strtoull(text, NULL, 0) : 0;
}

void test_shuffle(uint64_t *state, uint32_t *of, uint32_t all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i + (uint32_t)(test_random(state) % (all - i)), was = of[i];

        of[i] = of[at];
        of[at] = was;
    }
}

/* Draw a seed unless the caller set one, and say which. */
static void seed_print(const char *suite)
{
    struct timespec now;
    char text[24];

    timespec_get(&now, TIME_UTC);
    snprintf(text, sizeof text, "%llu",
             (unsigned long long)now.tv_sec * 1000000007ull ^ (unsigned long long)now.tv_nsec);
    setenv(TEST_SEED, text, 0); /* one that the caller set stays */
    printf("%s: " TEST_SEED "=%s\n", suite, getenv(TEST_SEED));
    fflush(stdout);
}

int test_run(const char *suite, const struct test_case *cases)
{
    int failed = 1;

    seed_print(suite);
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

void test_print_option(const char *name, const char *value, const char *help)
{
    char option[40];

    snprintf(option, sizeof option, "--%s %s", name, value ? value : "");
    printf("  %-22s %s\n", option, help);
}
