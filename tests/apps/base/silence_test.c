/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * silence_test.c - silence_begin() starts a thread that prints what the command does, until
 * silence_end() is called. The test replaces standard error by a pipe, and reads the lines from it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/base/silence.h"
#include "tests/test.h"

#define EVERY_MS 1
#define HOUR_MS  3600000

/* The reading end of the pipe, and the standard error from before. */
struct errors {
    FILE *lines;
    int before;
};

static struct errors errors_begin(void)
{
    struct errors ret = {.before = dup(STDERR_FILENO)};
    int fds[2];

    CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
    CU_ASSERT_EQUAL_FATAL(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    close(fds[1]);
    ret.lines = fdopen(fds[0], "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ret.lines);
    return ret;
}

/* Close the writing end, so that the pipe has an end after the lines that are in it. */
static void errors_close(struct errors *errors)
{
    dup2(errors->before, STDERR_FILENO);
    close(errors->before);
}

/* Read a line, and return whether it says that the command does @what. */
static bool says(struct errors *errors, const char *what)
{
    char line[256] = "", expected[256];

    CU_ASSERT_PTR_NOT_NULL_FATAL(fgets(line, sizeof line, errors->lines));
    snprintf(expected, sizeof expected, "fabemu: %s, ", what);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, " s so far\n"));
    return strncmp(line, expected, strlen(expected)) == 0;
}

static void silence__ends_with_lines(void)
{
    struct errors errors = errors_begin();
    struct silence silence;

    silence_begin(&silence, EVERY_MS, "one");
    CU_ASSERT_TRUE(says(&errors, "one"));
    CU_ASSERT_TRUE(says(&errors, "one"));
    silence_set(&silence, "two");
    while (!says(&errors, "two")) /* lines from before are in the pipe */
        ;
    CU_ASSERT_TRUE(says(&errors, "two"));
    silence_update(&silence, "three");
    while (!says(&errors, "three"))
        ;
    silence_end(&silence);
    errors_close(&errors);
    while (fgetc(errors.lines) != EOF) /* the thread has ended: nothing holds the pipe open */
        ;
    fclose(errors.lines);
}

static void no_line__before_the_interval_has_passed(void)
{
    struct errors errors = errors_begin();
    struct silence silence;

    silence_begin(&silence, HOUR_MS, "one");
    silence_set(&silence, "two");
    silence_update(&silence, "three");
    silence_end(&silence);
    silence_set(&silence, "four"); /* there is no thread any more */
    silence_end(&silence);
    errors_close(&errors);
    CU_ASSERT_EQUAL(fgetc(errors.lines), EOF);
    fclose(errors.lines);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(silence__ends_with_lines),
        CASE(no_line__before_the_interval_has_passed),
        {NULL, NULL},
    };

    return test_run("silence", cases);
}
