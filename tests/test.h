/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test.h - shared by all CUnit programs: a table of cases, a seed.
 *
 * The seed is 1, so that every run is the same, unless FABEMU_SEED is set. It is printed.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <CUnit/Basic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/util/random.h"

#define TEST_SEED  "FABEMU_SEED"
#define TEST_LANES "FABEMU_LANES"

struct test_case {
    const char *name; /* function__what_happens; NULL ends the table */
    void (*fn)(void); /* NULL: skipped by CASE_ALONE() */
};

/*
 * TEST_TRIALS - the number of random trials of a test with threads: @count, and fewer under
 * ThreadSanitizer, which slows them down thirty times. TEST_ALONE is for a test of one thread, for
 * which ThreadSanitizer adds nothing: even fewer there.
 */
#ifdef __SANITIZE_THREAD__
#define TEST_TRIALS(count) ((count) / 5u + 1u)
#define TEST_ALONE(count)  ((count) / 20u + 1u)
#else
#define TEST_TRIALS(count) (count)
#define TEST_ALONE(count)  (count)
#endif

/*
 * test_each_setting - loop over @count settings with index @i (declared here, uint32_t). With a
 * sanitizer that checks every access, only one setting runs, drawn by the seed.
 */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define test_each_setting(i, count) \
    for (uint32_t i = (uint32_t)(test_seed() % (count)), i##_end = i + 1; i < i##_end; i++)
#else
#define test_each_setting(i, count) for (uint32_t i = 0; i < (count); i++)
#endif

/*
 * A row of a table of tests. CASE_ALONE is for a long test of one thread: a build with
 * ThreadSanitizer, which would find nothing in it, skips it.
 */
/* clang-format off */
#define CASE(name) {#name, name}
#ifdef __SANITIZE_THREAD__
#define CASE_ALONE(name) {#name, 1 ? NULL : name}
#else
#define CASE_ALONE(name) CASE(name)
#endif
/* clang-format on */

/** test_print_option - print a line of a program's help: --@name, @value or NULL, and @help. */
void test_print_option(const char *name, const char *value, const char *help);

/** test_seed - the seed of a test's random numbers; test_run() puts it into the environment. */
uint64_t test_seed(void);

/**
 * test_skip - this case, or part of it, cannot run here for the reason @why: it counts as skipped,
 * not as passed (scripts/count). At most once per case.
 */
void test_skip(const char *why);

/**
 * test_forbid - from now on, system call @number (SYS_perf_event_open, for example) fails with
 * EPERM in this thread, as in a container that forbids it.
 */
void test_forbid(int number);

/** test_random - the next random number (splitmix64). */
static inline uint64_t test_random(uint64_t *state)
{
    return emu_splitmix(state);
}

/** test_draw - a random number from @least to @most. */
static inline uint64_t test_draw(uint64_t *state, uint64_t least, uint64_t most)
{
    return least + test_random(state) % (most - least + 1);
}

/**
 * test_shuffle - put a random selection of @count of the @all numbers at @of at its start, in
 * random order.
 */
void test_shuffle(uint64_t *state, uint32_t *of, uint32_t all, uint32_t count);

/**
 * test_run - print the seed and run the cases. Returns main()'s status: 0, or 1 if any case failed.
 * If FABEMU_LANES=N is set, N processes run every N-th case each, side by side: for cases that
 * mostly wait.
 * A fatal assertion leaves its test at once, and its stack frame with it. If a thread started by
 * the test still runs then, which may use that frame, the program ends with a failure and a
 * message.
 */
int test_run(const char *suite, const struct test_case *cases);

#endif
