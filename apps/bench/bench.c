/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c - `fabemu bench`: the emulator's own speed, with its conditions.
 *
 * The benchmarks stand in one table: what --list prints, --only chooses from,
 * and the order in which they run.
 */
#include "apps/bench/bench.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/internal.h"
#include "apps/options.h"
#include "apps/say.h"
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
    { "ring", "ns per push and pop: on one core and across two, bursts 1, 8, 32", bench_ring, 0,
      false, 11, 0.6 },
    { "hops", "segment-hops per second of one core: one switch, a 3-level tree", bench_hops, 0,
      false, 8, 0.5 },
    { "virtual", "simulated time: segment-hops per second with one worker, and the gain of two",
      bench_virtual, 0, false, 14, 3 },
    { "crc", "the checksums of a packet: ns per segment, per header", bench_crc, 0, false, 8, 0.5 },
    { "ack.hops", "hops with acknowledgments beside hops without, and what one adds",
      bench_ack_hops, 0, false, 30, 2 },
    { "ack.split", "where that goes: to segments, to packets, to both ends", bench_ack_split, 0,
      false, 13, 1 },
    { "ack.rate", "simulated time: what links carry with acknowledgments, of their rate",
      bench_ack_rate, 0, false, 10, 2 },
    { "ack.virtual", "simulated time: speed with acknowledgments beside that without",
      bench_ack_virtual, 0, false, 40, 2 },
    { "start256", "time to start a fabric of 256 nodes", bench_start256, 0, false, 0.5, 0.2 },
    { "idle256_raw", "share of a core that 256 idle nodes take, clock raw", bench_idle256,
      EMU_CLOCK_RAW, false, 2.3, 0.6 },
    { "idle256_real", "the same, clock real", bench_idle256, EMU_CLOCK_REAL, false, 2.3, 0.6 },
    { "mpi.latency8", "half a round trip of 8 bytes between two ranks", bench_mpi_latency, 2, true,
      12, 4 },
    { "mpi.bandwidth1M", "messages of 1 MB between two ranks", bench_mpi_bandwidth, 2, true, 19,
      4 },
    { "mpi.collectives.np4", "8-byte all-reduce, barrier, broadcast; 4 ranks",
      bench_mpi_collectives, 4, true, 19, 6 },
    { "mpi.large64K", "all-reduce, broadcast, reduce of 64 KB, in the network and over messages; 4 ranks",
      bench_mpi_large, 64 << 10, true, 20, 4 },
    { "mpi.large1M", "the same of 1 MB", bench_mpi_large, 1 << 20, true, 20, 4 },
    { "mpi.collectives.np8", "the same, 8 ranks", bench_mpi_collectives, 8, true, 38, 10 },
    { "mpi.collectives.np16", "the same, 16 ranks", bench_mpi_collectives, 16, true, 75, 18 },
};

#define ENTRIES (sizeof entries / sizeof entries[0])

static int help(void)
{
    printf("usage: fabemu bench [options]\n\n"
           "Measure the emulator's own speed. Every row is the median of several samples.\n\n"
           "  --quick                    less time a sample, fewer samples: about a minute in all\n"
           "  --only NAME[,NAME...]      only these of --list; mpi stands for mpi.*, ack for ack.*\n"
           "  --repeat N                 samples a row, 1 to %d\n"
           "  --json                     print JSON\n"
           "  --list                     print the names\n"
           "  --help                     this text\n\n"
           "Rows of MPI programs need mpirun and the bench programs of this build (FABEMU_BENCH_DIR\n"
           "names another folder for them). Exit status: 0, everything was measured; 1, a row "
           "failed.\n",
           BENCH_SAMPLES_MAX);
    return EXIT_SUCCESS;
}

static int list(void)
{
    for (size_t i = 0; i < ENTRIES; i++)
        printf("%-22s %s\n", entries[i].name, entries[i].about);
    return EXIT_SUCCESS;
}

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
            return options_usage_error("bench", "--only: no benchmark '%.*s'; --list prints them",
                                       bytes < 80 ? (int)bytes : 80, only);
        only += bytes + (only[bytes] == ',');
    }
    return 0;
}

/* --- the command line ---------------------------------------------------------------- */

static int read_repeat(struct bench *bench, const char *value)
{
    char *end;
    unsigned long repeat = strtoul(value, &end, 10);

    if (*value < '0' || *value > '9' || *end || repeat < 1 || repeat > BENCH_SAMPLES_MAX)
        return options_usage_error("bench", "--repeat %.80s: it must be a number from 1 to %d",
                                   value, BENCH_SAMPLES_MAX);
    bench->repeat = (unsigned)repeat;
    return -1;
}

/* Returns -1 to go on, otherwise the exit status. */
static int parse(struct bench *bench, const char **only, int argc, char **argv)
{
    static const struct option longs[] = {
        { "quick", no_argument, NULL, 'q' },       { "only", required_argument, NULL, 'o' },
        { "repeat", required_argument, NULL, 'r' }, { "json", no_argument, NULL, 'j' },
        { "list", no_argument, NULL, 'l' },        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int status = -1;
    int got;

    optind = 0; /* glibc: start anew */
    opterr = 0;
    while (status < 0 && (got = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        switch (got) {
        case 'q': bench->quick = true; break;
        case 'j': bench->json = true; break;
        case 'o': *only = optarg; break;
        case 'r': status = read_repeat(bench, optarg); break;
        case 'l': return list();
        case 'h': return help();
        case ':':
            return options_usage_error("bench", "%s needs a value", argv[optind - 1]);
        default:
            return options_usage_error("bench", "bench has no option '%.80s'", argv[optind - 1]);
        }
    }
    if (status < 0 && optind < argc)
        return options_usage_error("bench", "bench takes no '%.80s'", argv[optind]);
    return status;
}

/* --- the run --------------------------------------------------------------------------- */

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
    struct bench bench = { .rows = 0 };
    const char *only = NULL;
    bool run[ENTRIES];
    bool skipped = false;
    char missing[512];

    int status = parse(&bench, &only, argc, argv);
    if (status < 0)
        status = check_only(only) ? EXIT_USAGE : -1;
    if (status >= 0)
        return status;
    bool lacking = bench_mpi_missing(missing, sizeof missing);
    for (size_t i = 0; i < ENTRIES; i++) {
        run[i] = chosen(only, &entries[i]);
        skipped |= run[i] && entries[i].mpi && lacking;
        run[i] &= !(entries[i].mpi && lacking);
    }
    if (skipped)
        say("no MPI rows: %s", missing);
    bench_begin(&bench);
    run_entries(&bench, run);
    bench_end(&bench);
    return bench.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
