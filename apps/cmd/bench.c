/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c - `fabemu bench`: measure the speed of the emulator.
 *
 * One table has all benchmarks, in the order in which they run.
 */
#include "apps/cmd/commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/bench/internal.h"
#include "apps/cmd/options.h"
#include "apps/base/message.h"
#include "emu/util/nearest.h"

struct benchmark {
    const char *name;
    const char *about;
    void (*run)(struct bench *bench, int arg);
    int arg;
    bool mpi; /* the benchmark needs mpirun and the bench programs of tests/mpi */
};

static const struct benchmark benchmarks[] = {
    {"hops", "clock raw: segments through a switch per second on one core", bench_hops, 0, false},
    {"virtual", "simulated time: segments through a switch per second", bench_virtual, 0, false},
    {"hostlink", "time per segment at the two ends of a link between hosts", bench_hostlink, 0,
     false},
    {"mpi.latency8", "half a round trip of 8 bytes between two ranks", bench_mpi_latency, 0, true},
    {"mpi.bandwidth1M", "messages of 1 MB between two ranks", bench_mpi_bandwidth, 0, true},
    {"mpi.collectives.np4", "all-reduce and broadcast of 8 bytes, barrier; 4 ranks",
     bench_mpi_collectives, 4, true},
    {"mpi.collectives.np8", "the same with 8 ranks", bench_mpi_collectives, 8, true},
    {"mpi.collectives.np16", "the same with 16 ranks", bench_mpi_collectives, 16, true},
};

#define BENCHMARKS (sizeof benchmarks / sizeof benchmarks[0])

/* Return whether a word of --only selects a benchmark. "mpi" selects all names "mpi.…". */
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
    struct nearest nearest;
    char shown[81];

    snprintf(shown, sizeof shown, "%.*s", bytes < 80 ? (int)bytes : 80, word);
    if (name)
        return options_usage_error("bench", "--only: '%s' is a row of benchmark '%s'; use its name",
                                   shown, name);
    nearest = nearest_to(shown);
    for (size_t i = 0; i < BENCHMARKS; i++)
        nearest_try(&nearest, benchmarks[i].name);
    return options_usage_error("bench", "--only: there is no benchmark '%s'; --list prints all%s",
                               shown, nearest_question(&nearest, "").text);
}

static int check_only(const char *only)
{
    if (only && !*only)
        return options_usage_error("bench", "--only needs a name; --list prints all");
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

static struct json_object *json_of(const struct benchmark *benchmark)
{
    struct json_object *one = json_object_new_object();

    json_object_object_add(one, "name", json_object_new_string(benchmark->name));
    json_object_object_add(one, "about", json_object_new_string(benchmark->about));
    return one;
}

static int list(const char *only, bool json)
{
    struct json_object *names = json_object_new_array();

    for (size_t i = 0; i < BENCHMARKS; i++) {
        if (!selected(only, &benchmarks[i]))
            continue;
        if (json)
            json_object_array_add(names, json_of(&benchmarks[i]));
        else
            printf("%-20s %s\n", benchmarks[i].name, benchmarks[i].about);
    }
    if (json)
        options_print_json(names);
    json_object_put(names);
    return EXIT_SUCCESS;
}

struct arguments {
    struct bench bench;
    const char *only; /* NULL: all benchmarks */
    bool list;
};

static const struct option_row rows[] = {
    {"quick", NULL, "take fewer and shorter samples: less than a minute in all",
     .at = offsetof(struct arguments, bench.quick)},
    {"only", "NAME[,NAME...]", "run only these benchmarks; mpi selects all that begin with mpi.",
     .at = offsetof(struct arguments, only)},
    {"repeat", "N", "samples of each row, 1 to " OPTIONS_TEXT(BENCH_SAMPLES_MAX),
     .at = offsetof(struct arguments, bench.repeat), OPTIONS_RANGE(1, BENCH_SAMPLES_MAX)},
    {"json", NULL, "print JSON", .at = offsetof(struct arguments, bench.json)},
    {"list", NULL, "list the benchmarks, with --json as JSON",
     .at = offsetof(struct arguments, list)},
};

static const struct options_command bench_command = {
    .name = "bench",
    .operands = "",
    .about = "Measure the speed of the emulator. A row is the median of its samples. The bound\n"
             "of a row is the result of a simple loop on this machine.",
    .more = "The MPI rows need mpirun and the MPI programs that are installed with fabemu\n"
            "(FABEMU_BENCH_DIR names another folder for them). Exit status: 0 if everything\n"
            "was measured; 1 if a row failed, or if a benchmark that --only names could not\n"
            "run.",
};

static int parse(struct arguments *arguments, int argc, char **argv)
{
    const struct option_table own = OPTION_TABLE(rows, arguments);
    struct options options;
    int status = options_parse(&options, &bench_command, &own, argc, argv);

    if (status >= 0)
        return status;
    if (options.operands < argc)
        return options_usage_error("bench", "bench takes no operand '%.80s'",
                                   argv[options.operands]);
    if (check_only(arguments->only))
        return EXIT_USAGE;
    return arguments->list ? list(arguments->only, arguments->bench.json) : -1;
}

/* Print that results are missing, and end the process, because the user has interrupted it. */
static void on_interrupt(int number)
{
    static const char line[] = "fabemu: bench: interrupted; not all benchmarks were measured\n";

    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    raise(number); /* SA_RESETHAND has restored the default action */
}

int bench_main(int argc, char **argv)
{
    const struct sigaction interrupts = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    struct sigaction now;
    struct arguments arguments = {.only = NULL};
    struct bench *bench = &arguments.bench;
    unsigned begun = 0, all = 0; /* benchmarks that run */
    bool skipped = false;
    char missing[512];

    int status = parse(&arguments, argc, argv);
    if (status >= 0)
        return status;
    bool no_mpi = bench_mpi_missing(missing, sizeof missing);
    for (size_t i = 0; i < BENCHMARKS; i++)
        all += selected(arguments.only, &benchmarks[i]) && !(benchmarks[i].mpi && no_mpi);
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaction(SIGINT, &interrupts, NULL);
    bench_begin(bench);
    for (size_t i = 0; i < BENCHMARKS; i++) {
        const struct benchmark *benchmark = &benchmarks[i];

        if (!selected(arguments.only, benchmark))
            continue;
        if (benchmark->mpi && no_mpi) {
            skipped = true;
            continue;
        }
        bench_progress(bench, benchmark->name, ++begun, all);
        benchmark->run(bench, benchmark->arg);
    }
    bench_end(bench);
    if (skipped)
        print_message("the MPI benchmarks did not run: %s", missing);
    /* rows of MPI that were not measured are an error only if --only names them */
    return bench->failed || (skipped && arguments.only) ? EXIT_FAILURE : EXIT_SUCCESS;
}
