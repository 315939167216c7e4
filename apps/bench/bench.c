/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c - `fabemu bench`: the emulator's own speed, with its conditions.
 *
 * The benchmarks stand in one table: what --list prints, --only chooses from,
 * and the order in which they run.
 */
#include "apps/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/internal.h"
#include "apps/cli/options.h"
#include "apps/cli/say.h"
#include "emu/clock.h"

struct entry {
    const char *name;
    const char *about;
    void (*run)(struct bench *bench, int arg);
    int arg;
    bool mpi;
    double cost_s; /* about, on an idle machine with two cores; for the progress bar */
    double quick_s;
};

static const struct entry entries[] = {
    {"ring", "ns per push and pop: on one core and across two, bursts 1, 8, 32", bench_ring, 0,
     false, 11, 0.6},
    {"hops", "segment-hops per second of one core: one switch, a 3-level tree", bench_hops, 0,
     false, 8, 0.5},
    {"virtual", "simulated time: segment-hops per second with one worker, and the gain of two",
     bench_virtual, 0, false, 14, 3},
    {"real", "clock real: nodes that one core keeps on time at the full rate of their links",
     bench_real, 0, false, 15, 6},
    {"cores",
     "hops and nodes with 1, 2, 4, ... workers, as many as there are cores: raw, simulated, real",
     bench_cores, 0, false, 60, 10},
    {"crc", "the checksums of a packet: ns per segment, per header", bench_crc, 0, false, 8, 0.5},
    {"hostlink", "ns a segment of a link between hosts at either end, and by a bare loop",
     bench_hostlink, 0, false, 8, 0.5},
    {"ack.hops", "hops with acknowledgments beside hops without, and what one adds", bench_ack_hops,
     0, false, 30, 2},
    {"ack.split", "where that goes: to segments, to packets, to both ends", bench_ack_split, 0,
     false, 13, 1},
    {"ack.rate", "simulated time: what links carry with acknowledgments, of their rate",
     bench_ack_rate, 0, false, 10, 2},
    {"ack.virtual", "simulated time: speed with acknowledgments beside that without",
     bench_ack_virtual, 0, false, 40, 2},
    {"start256", "time to start a fabric of 256 nodes", bench_start256, 0, false, 0.5, 0.2},
    {"idle256_raw", "share of a core that 256 idle nodes take, clock raw", bench_idle256,
     EMU_CLOCK_RAW, false, 2.3, 0.6},
    {"idle256_real", "the same, clock real", bench_idle256, EMU_CLOCK_REAL, false, 2.3, 0.6},
    {"face.nodes64",
     "hops with a page, a scraper and a subscriber beside those without; their cost", bench_face,
     64, false, 27, 3},
    {"face.nodes1000", "the same of 1000 nodes", bench_face, 1000, false, 28, 3},
    {"relay", "what messages cannot be faster than: three threads that hand on slots", bench_relay,
     0, false, 6, 0.4},
    {"relay.allreduce8",
     "what an all-reduce cannot be faster than: four threads that meet, and one between them",
     bench_relay_allreduce, 0, false, 4, 0.3},
    {"mpi.latency8", "half a round trip of 8 bytes between two ranks", bench_mpi_latency, 2, true,
     12, 4},
    {"mpi.bandwidth1M", "messages of 1 MB between two ranks", bench_mpi_bandwidth, 2, true, 19, 4},
    {"mpi.collectives.np4", "8-byte all-reduce, barrier, broadcast; 4 ranks", bench_mpi_collectives,
     4, true, 19, 6},
    {"mpi.large64K",
     "all-reduce, broadcast, reduce of 64 KB, in the network and over messages; 4 ranks",
     bench_mpi_large, 64 << 10, true, 20, 4},
    {"mpi.large1M", "the same of 1 MB", bench_mpi_large, 1 << 20, true, 20, 4},
    {"mpi.collectives.np8", "as with 4 ranks; 8 ranks", bench_mpi_collectives, 8, true, 38, 10},
    {"mpi.collectives.np16", "as with 4 ranks; 16 ranks", bench_mpi_collectives, 16, true, 75, 18},
};

#define ENTRIES (sizeof entries / sizeof entries[0])

/* --- which -------------------------------------------------------------------------- */

/* "mpi" is the beginning of "mpi.latency8", "idle256" of "idle256_raw". */
static bool stands_for(const char *word, size_t bytes, const char *name)
{
    return strncmp(word, name, bytes) == 0 &&
           (name[bytes] == '\0' || name[bytes] == '.' || name[bytes] == '_');
}

static bool chosen(const char *only, const struct entry *entry)
{
    while (only && *only) {
        size_t bytes = strcspn(only, ",");
        if (stands_for(only, bytes, entry->name))
            return true;
        only += bytes + (only[bytes] == ',');
    }
    return !only;
}

/* The benchmark that prints a row of this name; NULL: none. */
static const char *benchmark_of(const char *row, size_t bytes)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        size_t own = strlen(entries[i].name);

        if (own < bytes && row[own] == '.' && strncmp(row, entries[i].name, own) == 0)
            return entries[i].name;
    }
    return NULL;
}

static int no_benchmark(const char *word, size_t bytes)
{
    const char *name = benchmark_of(word, bytes);
    int shown = bytes < 80 ? (int)bytes : 80;

    if (name)
        return options_usage_error("bench",
                                   "--only: '%.*s' is not measured alone; '%s' has its row", shown,
                                   word, name);
    return options_usage_error("bench", "--only: no benchmark '%.*s'; --list prints them", shown,
                               word);
}

/* Every word must stand for something. Returns 0 or an exit status. */
static int check_only(const char *only)
{
    if (only && !*only)
        return options_usage_error("bench", "--only needs a name; --list prints them");
    while (only && *only) {
        size_t bytes = strcspn(only, ",");
        bool known = false;
        for (size_t i = 0; i < ENTRIES; i++)
            known |= bytes && stands_for(only, bytes, entries[i].name);
        if (!known)
            return no_benchmark(only, bytes);
        only += bytes + (only[bytes] == ',');
    }
    return 0;
}

static void list_json(const char *only)
{
    struct json_object *names = json_object_new_array();

    for (size_t i = 0; i < ENTRIES; i++) {
        struct json_object *one;

        if (!chosen(only, &entries[i]))
            continue;
        one = json_object_new_object();
        json_object_object_add(one, "name", json_object_new_string(entries[i].name));
        json_object_object_add(one, "about", json_object_new_string(entries[i].about));
        json_object_array_add(names, one);
    }
    puts(json_object_to_json_string_ext(names, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(names);
}

/* Prints those that --only stands for. Returns an exit status. */
static int list(const char *only, bool json)
{
    if (json) {
        list_json(only);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < ENTRIES; i++)
        if (chosen(only, &entries[i]))
            printf("%-22s %s\n", entries[i].name, entries[i].about);
    return EXIT_SUCCESS;
}

/* --- the command line --------------------------------------------------------------- */

#define NUMBER(n)    #n
#define NUMBER_OF(n) NUMBER(n)

/* What is asked for beside how it is measured. */
struct asked {
    struct bench bench;
    const char *only; /* NULL: all */
    bool list;
};

static bool read_quick(void *into, const char *value, const char **right)
{
    (void)value, (void)right;
    return ((struct asked *)into)->bench.quick = true;
}

static bool read_only(void *into, const char *value, const char **right)
{
    (void)right; /* check_only() says what is wrong */
    ((struct asked *)into)->only = value;
    return true;
}

static bool read_repeat(void *into, const char *value, const char **right)
{
    uint64_t repeat = 0;

    *right = "a number from 1 to " NUMBER_OF(BENCH_SAMPLES_MAX);
    if (!options_count(value, 1, BENCH_SAMPLES_MAX, &repeat))
        return false;
    ((struct asked *)into)->bench.repeat = (unsigned)repeat;
    return true;
}

static bool read_json(void *into, const char *value, const char **right)
{
    (void)value, (void)right;
    return ((struct asked *)into)->bench.json = true;
}

static bool read_list(void *into, const char *value, const char **right)
{
    (void)value, (void)right;
    return ((struct asked *)into)->list = true;
}

static const struct options_own bench_own[] = {
    {"quick", NULL, "less time a sample, fewer samples, of MPI one: about a minute in all",
     read_quick},
    {"only", "NAME[,NAME...]",
     "only these of --list; mpi stands for mpi.*, and so do ack, face and idle256", read_only},
    {"repeat", "N", "samples a row, 1 to " NUMBER_OF(BENCH_SAMPLES_MAX), read_repeat},
    {"json", NULL, "print JSON", read_json},
    {"list", NULL, "print the names, with --json as JSON", read_list},
};

static const struct options_command bench_command = {
    .name = "bench",
    .operands = "",
    .about =
        "Measure the emulator's own speed. A row is the median of its samples, and says how many "
        "it had.",
    .more = "Rows of MPI programs need mpirun and the bench programs that come with the command\n"
            "(FABEMU_BENCH_DIR names another folder for them). Exit status: 0, everything was "
            "measured; 1, a row failed, or one that --only named could not be measured.",
};

/* Returns -1 to go on, otherwise the exit status. */
static int parse(struct asked *asked, int argc, char **argv)
{
    const struct options_owns owns = {bench_own, sizeof bench_own / sizeof bench_own[0], asked};
    struct options options;
    int status = options_parse_own(&options, &bench_command, &owns, argc, argv);

    if (status >= 0)
        return status;
    if (options.operands < argc)
        return options_usage_error("bench", "bench takes no '%.80s'", argv[options.operands]);
    if (check_only(asked->only))
        return EXIT_USAGE;
    return asked->list ? list(asked->only, asked->bench.json) : -1;
}

/* --- the run ------------------------------------------------------------------------ */

static void run_entries(struct bench *bench, const bool *run)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (run[i])
            bench->all_s += bench->quick ? entries[i].quick_s : entries[i].cost_s;
    for (size_t i = 0; i < ENTRIES; i++) {
        if (!run[i])
            continue;
        bench->step_s = bench->quick ? entries[i].quick_s : entries[i].cost_s;
        bench_progress(bench, entries[i].name, 0);
        entries[i].run(bench, entries[i].arg);
        bench->done_s += bench->step_s;
    }
}

int bench_main(int argc, char **argv)
{
    struct asked asked = {.only = NULL};
    struct bench *bench = &asked.bench;
    bool run[ENTRIES];
    bool skipped = false;
    char missing[512];
    int core[2];

    int status = parse(&asked, argc, argv);
    if (status >= 0)
        return status;
    bool lacking = bench_mpi_missing(missing, sizeof missing);
    for (size_t i = 0; i < ENTRIES; i++) {
        run[i] = chosen(asked.only, &entries[i]);
        skipped |= run[i] && entries[i].mpi && lacking;
        run[i] &= !(entries[i].mpi && lacking);
    }
    if (skipped)
        say("no MPI rows: %s", missing);
    if (!bench_two_cores(core))
        say("no rows of two cores: this process may use one");
    bench_begin(bench);
    run_entries(bench, run);
    bench_end(bench);
    /* What was asked for by name was to be measured. */
    return bench->failed || (skipped && asked.only) ? EXIT_FAILURE : EXIT_SUCCESS;
}
