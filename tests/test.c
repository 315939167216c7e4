/* SPDX-License-Identifier: BSD-3-Clause */
/* test.c - see test.h. */
#include "tests/test.h"

#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t test_seed(void)
{
    const char *text = getenv(TEST_SEED);

    return text ? strtoull(text, NULL, 0) : 0;
}

uint32_t test_trials(uint32_t count)
{
    const char *text = getenv(TEST_MANY);

    return text && !strcmp(text, "all") ? count : (count + 1) / 2;
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

/* --- threads that a test leaves behind ---------------------------------------------- */

#define LEAVE_TRIES 20 /* looks, 10 ms apart: a thread that was joined is listed a moment longer */

/* What the test that runs found when it began. Suites run one after the other. */
static struct {
    unsigned threads;
    unsigned failures;
} before;

static unsigned count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    while (tasks && readdir(tasks))
        count++;
    if (tasks)
        closedir(tasks);
    return count;
}

static void test_begins(void)
{
    before.threads = count_threads();
    before.failures = CU_get_number_of_failure_records();
}

static void test_ends(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    if (CU_get_number_of_failure_records() == before.failures)
        return;
    for (int i = 0; i < LEAVE_TRIES; i++) {
        if (count_threads() <= before.threads)
            return;
        nanosleep(&pause, NULL);
    }
    for (CU_pFailureRecord at = CU_get_failure_list(); at; at = at->pNext)
        printf("\n    %s:%u  - %s", at->strFileName, at->uiLineNumber, at->strCondition);
    printf("\n    a test failed while threads of its own ran; what they use may be gone, so this "
           "program ends here\n");
    fflush(stdout);
    _exit(1);
}

static void *nothing(void *arg)
{
    return arg;
}

/* ThreadSanitizer has a thread of its own from the first one on: it is there before any test. */
static void first_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, nothing, NULL) == 0)
        pthread_join(thread, NULL);
}

int test_run(const char *suite, const struct test_case *cases)
{
    int failed = 1;

    seed_print(suite);
    first_thread();
    if (CU_initialize_registry() != CUE_SUCCESS)
        return failed;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_pSuite into =
        CU_add_suite_with_setup_and_teardown(suite, NULL, NULL, test_begins, test_ends);
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
