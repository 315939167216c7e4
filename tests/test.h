/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test.h - what every CUnit program here shares: a table of cases, a seed.
 *
 * The seed is 1, so that every run does the same, unless FABEMU_SEED gives another. It is printed.
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
    void (*fn)(void); /* NULL: it is left out, by CASE_ALONE() */
};

/*
 * TEST_TRIALS - the number of random trials of a test that has threads: @count, and fewer under
 * ThreadSanitizer, which slows them down thirty times. TEST_ALONE is for a test of one thread, in
 * which ThreadSanitizer finds no more than a build without it: there are fewer still.
 */
#ifdef __SANITIZE_THREAD__
#define TEST_TRIALS(count) ((count) / 5u + 1u)
#define TEST_ALONE(count)  ((count) / 20u + 1u)
#else
#define TEST_TRIALS(count) (count)
#define TEST_ALONE(count)  (count)
#endif

/*
 * test_each_setting - for each @i (declared here, uint32_t) of @count settings under which the same
 * is tried: all of them; where every access is watched, one that the seed draws.
 */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define test_each_setting(i, count) \
    for (uint32_t i = (uint32_t)(test_seed() % (count)), i##_end = i + 1; i < i##_end; i++)
#else
#define test_each_setting(i, count) for (uint32_t i = 0; i < (count); i++)
#endif

/*
 * A row of a table of tests. CASE_ALONE is for a test of one thread that takes long. It is left out
 * of a build with ThreadSanitizer, which would find nothing.
 */
/* clang-format off */
#define CASE(name) {#name, name}
#ifdef __SANITIZE_THREAD__
#define CASE_ALONE(name) {#name, 1 ? NULL : name}
#else
#define CASE_ALONE(name) CASE(name)
#endif
/* clang-format on */

/** test_print_option - a line of a program's help: --@name, @value or NULL, and what it does. */
void test_print_option(const char *name, const char *value, const char *help);

/**
 * test_seed - where a test's own random numbers start; the environment holds it since test_run().
 */
uint64_t test_seed(void);

/**
 * test_skip - this case cannot be here, or not all of it, for the reason @why: it is counted as
 * skipped, and not as passed (scripts/count). Once a case.
 */
void test_skip(const char *why);

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
 * test_shuffle - @count of the @all numbers at @of, random ones in random order, come to its
 * beginning.
 */
void test_shuffle(uint64_t *state, uint32_t *of, uint32_t all, uint32_t count);

/**
 * test_run - print the seed and run the cases. Returns what main() does: 0, or 1 if any failed.
 * If the environment says FABEMU_LANES=N, every N-th of them in one of N processes, side by side:
 * for those that mostly wait.
 * A fatal assertion leaves its test at once, with all that stood on its stack. If threads that the
 * test has started run on, which may use that, then the program ends there, says so, and fails.
 */
int test_run(const char *suite, const struct test_case *cases);

#endif
