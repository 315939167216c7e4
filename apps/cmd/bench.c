/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c - `fabemu bench`: the speed of the emulator, with the conditions of the measurement.
 *
 * One table has all benchmarks: --list prints it, --only selects from it, and it gives the order
 * in which they run.
 */
#include "apps/cmd/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/internal.h"
#include "apps/cmd/options.h"
#include "apps/base/message.h"

struct benchmark {
    const char *name;
    const char *about;
    void (*run)(struct bench *bench, int arg);
    int arg;
    bool mpi; /* needs mpirun and the MPI programs of tests/mpi */
};

static const struct benchmark benchmarks[] = {
    {"hops", "clock raw: segments that leave a switch, per second of one core", bench_hops, 0,
     false},
    {"virtual", "simulated time: segments that leave a switch, per second", bench_virtual, 0,
     false},
    {"hostlink", "time per segment at both ends of a link between hosts", bench_hostlink, 0, false},
    {"mpi.latency8", "half a round trip of 8 bytes between two ranks", bench_mpi_latency, 0, true},
    {"mpi.bandwidth1M", "messages of 1 MB between two ranks", bench_mpi_bandwidth, 0, true},
    {"mpi.collectives.np4", "all-reduce and broadcast of 8 bytes, barrier; 4 ranks",
     bench_mpi_collectives, 4, true},
    {"mpi.collectives.np8", "the same with 8 ranks", bench_mpi_collectives, 8, true},
    {"mpi.collectives.np16", "the same with 16 ranks", bench_mpi_collectives, 16, true},
};

#define BENCHMARKS (sizeof benchmarks / sizeof benchmarks[0])

/* --- --only and --list -------------------------------------------------------------- */

/* "mpi" selects all names that begin with "mpi.". */
static bool selects(const char *word, size_t bytes, const char *name)
{
    return strncmp(word, name, bytes) == 0 && (name[bytes] == '\0' || name[bytes] == '.');
}

static bool selected(const char *only, const struct benchmark *benchmark)
{
    while (only && *only) {
        size_t bytes = strcspn(only, ",");
        if (selects(only, bytes, benchmark->name))
            return true;
        only += bytes + (only[bytes] == ',');
    }
    return !only;
}

/* The benchmark that prints row @row; NULL: none. */
static const char *benchmark_of(const char *row, size_t bytes)
{
    for (size_t i = 0; i < BENCHMARKS; i++) {
        size_t own = strlen(benchmarks[i].name);

        if (own < bytes && row[own] == '.' && strncmp(row, benchmarks[i].name, own) == 0)
            return benchmarks[i].name;
    }
    return NULL;
}

static int unknown_name(const char *word, size_t bytes)
{
    const char *name = benchmark_of(word, bytes);
    int shown = bytes < 80 ? (int)bytes : 80;

    if (name)
        return options_usage_error("bench", "--only: '%.*s' is a row of benchmark '%s'; name that",
                                   shown, word, name);
    return options_usage_error("bench", "--only: no benchmark '%.*s'; --list prints them", shown,
                               word);
}

/* Every word must select something. Returns 0 or an exit status. */
static int check_only(const char *only)
{
    if (only && !*only)
        return options_usage_error("bench", "--only needs a name; --list prints them");
    while (only && *only) {
        size_t bytes = strcspn(only, ",");
        bool known = false;
        for (size_t i = 0; i < BENCHMARKS; i++)
            known |= bytes && selects(only, bytes, benchmarks[i].name);
        if (!known)
            return unknown_name(only, bytes);
        only += bytes + (only[bytes] == ',');
    }
    return 0;
}

static void list_json(const char *only)
{
    struct json_object *names = json_object_new_array();

    for (size_t i = 0; i < BENCHMARKS; i++) {
        struct json_object *one;

        if (!selected(only, &benchmarks[i]))
            continue;
        one = json_object_new_object();
        json_object_object_add(one, "name", json_object_new_string(benchmarks[i].name));
        json_object_object_add(one, "about", json_object_new_string(benchmarks[i].about));
        json_object_array_add(names, one);
    }
    puts(json_object_to_json_string_ext(names, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(names);
}

/* Prints the benchmarks that --only selects. Returns an exit status. */
static int list(const char *only, bool json)
{
    if (json) {
        list_json(only);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < BENCHMARKS; i++)
        if (selected(only, &benchmarks[i]))
            printf("%-20s %s\n", benchmarks[i].name, benchmarks[i].about);
    return EXIT_SUCCESS;
}

/* --- the command line --------------------------------------------------------------- */

#define NUMBER(n)    #n
#define NUMBER_OF(n) NUMBER(n)

struct arguments {
    struct bench bench;
    const char *only; /* NULL: all */
    bool list;
};

static bool read_quick(void *into, const char *value, const char **right)
{
    (void)value, (void)right;
    return ((struct arguments *)into)->bench.quick = true;
}

static bool read_only(void *into, const char *value, const char **right)
{
    (void)right; /* check_only() reports errors */
    ((struct arguments *)into)->only = value;
    return true;
}

static bool read_repeat(void *into, const char *value, const char **right)
{
    uint64_t repeat = 0;

    *right = "a number from 1 to " NUMBER_OF(BENCH_SAMPLES_MAX);
    if (!options_count(value, 1, BENCH_SAMPLES_MAX, &repeat))
        return false;
    ((struct arguments *)into)->bench.repeat = (unsigned)repeat;
    return true;
}

static bool read_json(void *into, const char *value, const char **right)
{
    (void)value, (void)right;
    return ((struct arguments *)into)->bench.json = true;
}

static bool read_list(void *into, const char *value, const char **right)
{
    (void)value, (void)right;
    return ((struct arguments *)into)->list = true;
}

static const struct options_own bench_own[] = {
    {"quick", NULL, "shorter and fewer samples: less than a minute in all", read_quick},
    {"only", "NAME[,NAME...]", "only these names of --list; mpi selects all that begin with mpi.",
     read_only},
    {"repeat", "N", "samples of each row, 1 to " NUMBER_OF(BENCH_SAMPLES_MAX), read_repeat},
    {"json", NULL, "print JSON", read_json},
    {"list", NULL, "print the names of the benchmarks, with --json as JSON", read_list},
};

static const struct options_command bench_command = {
    .name = "bench",
    .operands = "",
    .about = "Measure the speed of the emulator. A row is the median of its samples. Where a\n"
             "row has a bound, that is what a simple loop reaches on this machine.",
    .more = "The MPI rows need mpirun and the bench programs that are installed with the\n"
            "command (FABEMU_BENCH_DIR names another folder for them). Exit status: 0,\n"
            "everything was measured; 1, a row failed, or a benchmark that --only names could\n"
            "not run.",
};

/* Returns -1 to go on, otherwise the exit status. */
static int parse(struct arguments *arguments, int argc, char **argv)
{
    const struct options_owns owns = {bench_own, sizeof bench_own / sizeof bench_own[0], arguments};
    struct options options;
    int status = options_parse_own(&options, &bench_command, &owns, argc, argv);

    if (status >= 0)
        return status;
    if (options.operands < argc)
        return options_usage_error("bench", "bench takes no '%.80s'", argv[options.operands]);
    if (check_only(arguments->only))
        return EXIT_USAGE;
    return arguments->list ? list(arguments->only, arguments->bench.json) : -1;
}

/* --- the run ------------------------------------------------------------------------ */

int bench_main(int argc, char **argv)
{
    struct arguments arguments = {.only = NULL};
    struct bench *bench = &arguments.bench;
    bool skipped = false;
    char missing[512];

    int status = parse(&arguments, argc, argv);
    if (status >= 0)
        return status;
    bool no_mpi = bench_mpi_missing(missing, sizeof missing);
    bench_begin(bench);
    for (unsigned i = 0; i < BENCHMARKS; i++) {
        const struct benchmark *benchmark = &benchmarks[i];

        if (!selected(arguments.only, benchmark))
            continue;
        if (benchmark->mpi && no_mpi) {
            skipped = true;
            continue;
        }
        bench_progress(bench, benchmark->name, i + 1, BENCHMARKS);
        benchmark->run(bench, benchmark->arg);
    }
    bench_end(bench);
    if (skipped)
        print_message("no MPI rows: %s", missing);
    /* It is an error if --only names a benchmark and that cannot run. */
    return bench->failed || (skipped && arguments.only) ? EXIT_FAILURE : EXIT_SUCCESS;
}
