/* SPDX-License-Identifier: BSD-3-Clause */
/* test.c - see test.h. */
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LANES_MOST 16
#ifdef __SANITIZE_THREAD__
#define TSAN true
#else
#define TSAN false
#endif

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

/* Set the seed unless the caller has set one, and print it. */
static void seed_print(const char *suite)
{
    setenv(TEST_SEED, "1", 0);
    printf("%s: " TEST_SEED "=%s\n", suite, getenv(TEST_SEED));
    fflush(stdout);
}

/* --- threads that a test leaves behind ---------------------------------------------- */

#define LEAVE_TRIES 20 /* checks, 10 ms apart: a joined thread is listed a moment longer */

/* State at the start of the running test. Suites run one after the other. */
static struct {
    unsigned threads;
    unsigned failures;
    bool skipped;
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
    before.skipped = false;
}

void test_skip(const char *why)
{
    if (!before.skipped)
        printf("\n    SKIPPED: %s\n    ", why);
    before.skipped = true;
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

/* ThreadSanitizer starts a thread of its own with the first one: that must be before any test. */
static void first_thread(void)
{
    pthread_t thread;

    if (TSAN && pthread_create(&thread, NULL, nothing, NULL) == 0)
        pthread_join(thread, NULL);
}

/* The linker adds this function to the programs in `one_thread` of tests/meson.build. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    (void)thread, (void)attr, (void)fn, (void)arg;
    printf("\n    this test starts a thread, but `one_thread` in tests/meson.build names it\n");
    fflush(stdout);
    _exit(1);
}

/* Run every @lanes-th case, from number @lane on. */
static int lane_run(const char *suite, const struct test_case *cases, unsigned lane, unsigned lanes)
{
    int failed = 1;

    first_thread();
    if (CU_initialize_registry() != CUE_SUCCESS)
        return failed;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_pSuite into =
        CU_add_suite_with_setup_and_teardown(suite, NULL, NULL, test_begins, test_ends);
    for (unsigned i = 0; into && cases[i].name; i++)
        if (i % lanes == lane && cases[i].fn && !CU_add_test(into, cases[i].name, cases[i].fn))
            into = NULL;
    if (into && CU_basic_run_tests() == CUE_SUCCESS)
        failed = CU_get_number_of_failures() > 0;
    CU_cleanup_registry();
    return failed;
}

/* --- lanes -------------------------------------------------------------------------- */

/* Copy the output of a lane after it has ended. */
static void copy_out(FILE *from)
{
    char text[4096];
    size_t bytes;

    rewind(from);
    while ((bytes = fread(text, 1, sizeof text, from)) > 0)
        fwrite(text, 1, bytes, stdout);
}

/* Start a lane as a process that ends with this one. Returns its PID, or -1. */
static pid_t lane_start(const char *suite, const struct test_case *cases, unsigned lane,
                        unsigned lanes, FILE *out)
{
    pid_t parent = getpid(), pid = fork();

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(fileno(out), STDOUT_FILENO) < 0 ||
        dup2(fileno(out), STDERR_FILENO) < 0)
        _exit(1);
    exit(lane_run(suite, cases, lane, lanes));
}

/* Print the output of the lanes that succeeded, or failed. Returns how many there are. */
static int lanes_print(const char *suite, unsigned lanes, FILE *const *out, const int *status,
                       bool good)
{
    int count = 0;

    for (unsigned i = 0; i < lanes; i++) {
        if (!status[i] != good)
            continue;
        count++;
        if (out[i])
            copy_out(out[i]);
        if (WIFSIGNALED(status[i]))
            printf("\n%s: lane %u of %u was ended by signal %d\n", suite, i, lanes,
                   WTERMSIG(status[i]));
    }
    return count;
}

static int lanes_run(const char *suite, const struct test_case *cases, unsigned lanes)
{
    FILE *out[LANES_MOST];
    pid_t pid[LANES_MOST];
    int status[LANES_MOST], failed;

    for (unsigned i = 0; i < lanes; i++) {
        out[i] = tmpfile();
        pid[i] = out[i] ? lane_start(suite, cases, i, lanes, out[i]) : -1;
    }
    for (unsigned i = 0; i < lanes; i++)
        if (pid[i] < 0 || waitpid(pid[i], &status[i], 0) < 0) {
            printf("%s: lane %u of %u did not begin\n", suite, i, lanes);
            status[i] = W_EXITCODE(1, 0);
        }
    lanes_print(suite, lanes, out, status, true);
    /* failures last, where they are seen first */
    failed = lanes_print(suite, lanes, out, status, false);
    for (unsigned i = 0; i < lanes; i++)
        if (out[i])
            fclose(out[i]);
    return failed > 0;
}

/* As many as the environment requests, but no empty ones. */
static unsigned lanes_wanted(const struct test_case *cases)
{
    const char *text = getenv(TEST_LANES);
    unsigned long lanes = text ? strtoul(text, NULL, 10) : 1;
    unsigned most = 0;

    while (most < LANES_MOST && cases[most].name)
        most++;
    return lanes < 1 ? 1 : lanes < most ? (unsigned)lanes : most;
}

void test_forbid(int number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    CU_ASSERT_EQUAL_FATAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CU_ASSERT_EQUAL_FATAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

int test_run(const char *suite, const struct test_case *cases)
{
    unsigned lanes = lanes_wanted(cases);

    seed_print(suite);
    return lanes > 1 ? lanes_run(suite, cases, lanes) : lane_run(suite, cases, 0, 1);
}

void test_print_option(const char *name, const char *value, const char *help)
{
    char option[40];

    snprintf(option, sizeof option, "--%s %s", name, value ? value : "");
    printf("  %-22s %s\n", option, help);
}
