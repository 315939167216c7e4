/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unwind_test.c - a test that a fatal assertion ends while a thread uses what is on its stack: the
 * program ends there (tests/test.h), for the next test's stack would be what the thread writes to.
 *
 * This program runs itself again: its argument is what goes wrong then. So for lanes, of which one
 * that fails, or crashes, fails the program.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

static atomic_bool ends;

static void *writes(void *arg)
{
    atomic_uint *to = arg;

    while (!atomic_load(&ends)) {
        atomic_fetch_add(to, 1);
        usleep(1000);
    }
    return NULL;
}

/* The world of a test: a number, and a thread that counts it up. Not on the stack here, where what
 * comes after would race with the thread before the program ends. */
static void fails(bool unwinds)
{
    static atomic_uint number;
    pthread_t thread;

    atomic_store(&ends, false);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, writes, &number), 0);
    if (unwinds)
        CU_FAIL_FATAL("unwound");
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    CU_FAIL_FATAL("joined");
}

static void fails__while_a_thread_runs(void)
{
    fails(true);
}

static void fails__when_it_is_joined(void)
{
    fails(false);
}

static void ends__by_a_signal(void)
{
    raise(SIGKILL);
}

static void comes_after(void)
{
    printf("was run ");
}

/* What such a program prints, and its exit status. */
static int run_again(const char *what, char *printed, size_t bytes)
{
    int out[2], status = -1;
    size_t got = 0;
    ssize_t n;
    pid_t pid;

    CU_ASSERT_EQUAL_FATAL(pipe(out), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        execl("/proc/self/exe", "unwind_test", what, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    while (got < bytes - 1 && (n = read(out[0], printed + got, bytes - 1 - got)) > 0)
        got += (size_t)n;
    printed[got] = '\0';
    close(out[0]);
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_run__ends_when_a_thread_outlives_its_test(void)
{
    char printed[4096];

    CU_ASSERT_EQUAL(run_again("runs", printed, sizeof printed), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "unwound"));
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "this program ends here"));
    CU_ASSERT_PTR_NULL(strstr(printed, "was run"));
}

static void test_run__goes_on_when_all_threads_are_joined(void)
{
    char printed[4096];

    CU_ASSERT_EQUAL(run_again("joined", printed, sizeof printed), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "joined"));
    CU_ASSERT_PTR_NULL(strstr(printed, "this program ends here"));
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "was run"));
}

/* Every case is run once, and what all lanes print comes out. */
static void test_run__in_lanes_fails_if_one_does(void)
{
    char printed[4096];
    const char *first;

    setenv(TEST_LANES, "2", 1);
    CU_ASSERT_EQUAL(run_again("right", printed, sizeof printed), 0);
    first = strstr(printed, "was run");
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    first = strstr(first + 1, "was run");
    CU_ASSERT_PTR_NOT_NULL_FATAL(first);
    CU_ASSERT_PTR_NULL(strstr(first + 1, "was run"));
    CU_ASSERT_EQUAL(run_again("joined", printed, sizeof printed), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "was run"));
    CU_ASSERT_EQUAL(run_again("killed", printed, sizeof printed), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(printed, "lane 1 of 2 was ended by signal 9"));
    unsetenv(TEST_LANES);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        struct test_case cases[3];
    } again[] = {
        {"runs", {CASE(fails__while_a_thread_runs), CASE(comes_after), {NULL, NULL}}},
        {"joined", {CASE(fails__when_it_is_joined), CASE(comes_after), {NULL, NULL}}},
        {"right", {CASE(comes_after), CASE(comes_after), {NULL, NULL}}},
        {"killed", {CASE(comes_after), CASE(ends__by_a_signal), {NULL, NULL}}},
    };
    static const struct test_case cases[] = {
        CASE(test_run__ends_when_a_thread_outlives_its_test),
        CASE(test_run__goes_on_when_all_threads_are_joined),
        CASE(test_run__in_lanes_fails_if_one_does),
        {NULL, NULL},
    };

    for (size_t i = 0; argc > 1 && i < sizeof again / sizeof again[0]; i++)
        if (!strcmp(argv[1], again[i].name))
            return test_run("unwound", again[i].cases);
    return argc > 1 ? 2 : test_run("unwind", cases);
}
