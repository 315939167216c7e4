/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_soak.c - packets over faulty cables, in any number: each arrives exactly once, with the
 * right bytes. A failure prints one line and the command that replays it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/test.h"
#include "tests/fixtures/engine/transport_run.h"

#define SOAK_USAGE 2 /* exit status: the command line is wrong */

struct soak {
    struct transport_config run;
    double loss, corrupt, duplicated,
        late;       /* faults per crossing of a cable by a segment or reply */
    uint64_t mixes; /* number of runs with random settings; 0: one run with the given settings */
    bool help;
};

/* Parses a value. Prints the valid values if it is wrong. */
typedef const char *soak_reader(struct soak *soak, const char *value);

struct soak_row {
    const char *name;
    const char *value; /* name of the value; NULL: takes none */
    const char *help;
    soak_reader *read;
};

static bool read_number(const char *value, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(value, &end, 0);
    return *value >= '0' && *value <= '9' && !*end && !errno && *ret <= most;
}

static const char *read_rate(const char *value, double *ret)
{
    char *end;

    *ret = strtod(value, &end);
    return end != value && !*end && *ret >= 0 && *ret <= 1 ? NULL
                                                           : "want a rate from 0 to 1, as 1e-3";
}

static const char *read_clock(struct soak *soak, const char *value)
{
    bool raw = !strcmp(value, "raw");

    soak->run.clock = raw ? EMU_CLOCK_RAW : EMU_CLOCK_VIRTUAL;
    return raw || !strcmp(value, "virtual") ? NULL : "want virtual or raw";
}

static const char *read_packets(struct soak *soak, const char *value)
{
    return read_number(value, UINT32_MAX, &soak->run.packets) ? NULL : "want a count";
}

static const char *read_loss(struct soak *soak, const char *value)
{
    return read_rate(value, &soak->loss);
}

static const char *read_corrupt(struct soak *soak, const char *value)
{
    return read_rate(value, &soak->corrupt);
}

static const char *read_double(struct soak *soak, const char *value)
{
    return read_rate(value, &soak->duplicated);
}

static const char *read_late(struct soak *soak, const char *value)
{
    return read_rate(value, &soak->late);
}

static const char *read_late_ns(struct soak *soak, const char *value)
{
    uint64_t ns;

    if (!read_number(value, 1000000000, &ns))
        return "want nanoseconds, at most 1000000000";
    soak->run.faults.late_ps = ns * 1000;
    return NULL;
}

static const char *read_topo(struct soak *soak, const char *value)
{
    soak->run.topo = value;
    return NULL; /* topo_parse() has printed the error */
}

static const char *read_seed(struct soak *soak, const char *value)
{
    return read_number(value, UINT64_MAX, &soak->run.seed) ? NULL : "want a number";
}

static const char *read_threads(struct soak *soak, const char *value)
{
    uint64_t threads;

    if (!read_number(value, 1024, &threads))
        return "want a count, at most 1024; 0: what this host runs best";
    soak->run.threads = (uint32_t)threads;
    return NULL;
}

static const char *read_groups(struct soak *soak, const char *value)
{
    uint64_t groups;

    if (!read_number(value, TRANSPORT_GROUPS_MAX, &groups))
        return "want a count, at most 16";
    soak->run.groups = (uint32_t)groups;
    return NULL;
}

static const char *read_deaf(struct soak *soak, const char *value)
{
    uint64_t node;

    if (!read_number(value, UINT32_MAX - 1, &node))
        return "want a node";
    soak->run.deaf = (uint32_t)node;
    return NULL;
}

static const char *read_may_fail(struct soak *soak, const char *value)
{
    (void)value;
    soak->run.may_fail = true;
    return NULL;
}

static const char *read_sizes(struct soak *soak, const char *value)
{
    struct transport_sizes *sizes = &soak->run.sizes;
    const char *wrong = "want up to 8 of BYTES or BYTES-BYTES with commas between, at most 1048576";

    sizes->count = 0;
    for (const char *at = value;; at++) {
        unsigned long least, most;
        char *end;

        least = most = strtoul(at, &end, 10);
        if (end != at && *end == '-')
            most = strtoul(at = end + 1, &end, 10);
        if (end == at || most < least || most > 1u << 20 || sizes->count == TRANSPORT_SIZES_MAX)
            return wrong;
        sizes->range[sizes->count].least = (uint32_t)least;
        sizes->range[sizes->count++].most = (uint32_t)most;
        if (!*end)
            return NULL;
        if (*end != ',')
            return wrong;
        at = end;
    }
}

static const char *read_set(struct soak *soak, const char *value)
{
    if (soak->run.sets == TRANSPORT_SETS_MAX)
        return "that is too many";
    soak->run.set[soak->run.sets++] = value;
    return NULL; /* emu_profile_set() has printed the error */
}

static const char *read_mixes(struct soak *soak, const char *value)
{
    return read_number(value, UINT32_MAX, &soak->mixes) ? NULL : "want a count";
}

static const char *read_help(struct soak *soak, const char *value)
{
    (void)value;
    soak->help = true;
    return NULL;
}

static const struct soak_row rows[] = {
    {"clock", "virtual|raw", "simulated time (default), or as fast as threads go", read_clock},
    {"packets", "N", "so many packets, or more (default 50000)", read_packets},
    {"loss", "R", "of segments and replies are lost, on each cable (default 0; 1e-3: one in 1000)",
     read_loss},
    {"corrupt", "R", "have a bit flipped, half of them in the header", read_corrupt},
    {"double", "R", "come twice", read_double},
    {"late", "R", "come late, behind others", read_late},
    {"late-ns", "N", "by up to so many nanoseconds (default 2000; clock raw: by up to 16 others)",
     read_late_ns},
    {"topo", "SPEC", "the network (default kary:4,2)", read_topo},
    {"seed", "N", "of everything that is drawn (default: drawn, and printed)", read_seed},
    {"threads", "N", "workers; 0: what this host runs best (default 2)", read_threads},
    {"sizes", "LIST", "of messages: BYTES or BYTES-BYTES, commas between, each as likely",
     read_sizes},
    {"groups", "N", "broadcast groups of random members (default 4; 0: none)", read_groups},
    {"deaf", "NODE", "nothing reaches this node: what concerns it is told as failed", read_deaf},
    {"may-fail", NULL, "segments may be given up: very bad cables, few tries", read_may_fail},
    {"set", "NAME=VALUE", "a field of the profile, qsnet3; may be given again", read_set},
    {"mixes", "N", "so many runs under random settings: only --clock, --packets, --seed count",
     read_mixes},
    {"help", NULL, "this text", read_help},
};
#define ROWS (sizeof rows / sizeof rows[0])

static void soak_help(void)
{
    printf("usage: transport_soak [OPTION...]\n"
           "Nodes send messages to each other and to groups over cables on which things go wrong;\n"
           "each must come exactly once, and right. Exit status 1 if not.\n\n");
    for (size_t i = 0; i < ROWS; i++)
        test_print_option(rows[i].name, rows[i].value, rows[i].help);
}

/* Convert to parts of a million; all together at most 1. */
static bool soak_rates(struct soak *soak)
{
    struct emu_fault_rates *faults = &soak->run.faults;
    double half = soak->corrupt * EMU_FAULT_UNIT / 2;

    faults->lost = (uint32_t)lround(soak->loss * EMU_FAULT_UNIT);
    faults->head = (uint32_t)lround(half);
    faults->payload = (uint32_t)lround(half);
    faults->duplicated = (uint32_t)lround(soak->duplicated * EMU_FAULT_UNIT);
    faults->late = (uint32_t)lround(soak->late * EMU_FAULT_UNIT);
    if (soak->loss + soak->corrupt + soak->duplicated + soak->late <= 1)
        return true;
    fprintf(stderr,
            "transport_soak: --loss, --corrupt, --double and --late are above 1 together\n");
    return false;
}

/* Returns false after printing one error line. */
static bool soak_options(struct soak *soak, int argc, char **argv)
{
    struct option options[ROWS + 1] = {{0}};
    int index = 0, got;

    for (size_t i = 0; i < ROWS; i++)
        options[i] = (struct option){.name = rows[i].name, .has_arg = rows[i].value != NULL};
    while ((got = getopt_long(argc, argv, "", options, &index)) != -1) {
        const char *right;

        if (got) { /* getopt has printed the error */
            fprintf(stderr, "transport_soak: --help lists the options\n");
            return false;
        }
        right = rows[index].read(soak, optarg);
        if (right) {
            fprintf(stderr, "transport_soak: --%s %s: %s\n", rows[index].name, optarg, right);
            return false;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "transport_soak: unexpected \"%s\"; --help lists the options\n",
                argv[optind]);
        return false;
    }
    return soak_rates(soak);
}

static void soak_print(const struct soak *soak, const struct transport_result *result)
{
    const struct fabric_transport *t = &result->transport;
    struct {
        const char *name;
        uint64_t number;
    } lines[] = {
        {"packets", t->packets},
        {"retransmissions", t->retransmissions},
        {"nacks", t->nacks},
        {"time-outs", t->timeouts},
        {"time-outs in switches", result->switch_timeouts},
        {"duplicates suppressed", t->duplicates},
        {"broken", t->broken},
        {"stale", t->stale},
        {"faults: lost", result->injected.lost},
        {"faults: damaged", result->injected.damaged},
        {"faults: twice", result->injected.duplicated},
        {"faults: late", result->injected.late},
        {"segments sent", result->counts.sent},
        {"segments awaited", result->counts.awaited},
        {"segments arrived", result->counts.arrived},
        {"senders asked", result->counts.asked},
        {"delivery notices", result->counts.delivered},
        {"segments given up", result->counts.failed},
        {"of them innocent", result->counts.innocent},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        printf("%-22s %14" PRIu64 "\n", lines[i].name, lines[i].number);
    printf("%-22s %14.1f\n", "wall seconds", result->wall_s);
    if (soak->run.clock == EMU_CLOCK_VIRTUAL)
        printf("%-22s %14.6f\n", "simulated seconds", (double)result->now_ps * 1e-12);
    printf("%-22s   %016" PRIx64 "\n", "digest of contents", result->content);
    if (soak->run.clock == EMU_CLOCK_VIRTUAL)
        printf("%-22s   %016" PRIx64 "\n", "digest of order", result->order);
}

static uint64_t soak_draw_seed(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return ((uint64_t)now.tv_sec * 1000000007u ^ (uint64_t)now.tv_nsec) % 1000000007u;
}

/* Print what failed and how to replay it. */
static void soak_wrong(const struct transport_config *run, const struct transport_result *result)
{
    fflush(stdout);
    fprintf(stderr, "transport_soak: %s\ntransport_soak: again: ", result->wrong);
    transport_command(stderr, run);
}

static int soak_once(const struct soak *soak)
{
    struct transport_result result;
    int err;

    transport_command(stdout, &soak->run);
    fflush(stdout);
    err = transport_run(&result, &soak->run);
    if (err && err != -EPROTO) {
        fprintf(stderr, "transport_soak: %s\n", result.wrong);
        return SOAK_USAGE;
    }
    soak_print(soak, &result);
    if (err)
        soak_wrong(&soak->run, &result);
    printf("transport_soak: %d passed, %d failed\n", !err, !!err);
    return err ? 1 : 0;
}

static int soak_mixes(const struct soak *soak)
{
    uint64_t failed = 0;

    printf("transport_soak --mixes %" PRIu64 " --clock %s --packets %" PRIu64 " --seed %" PRIu64
           "\n",
           soak->mixes, soak->run.clock == EMU_CLOCK_RAW ? "raw" : "virtual", soak->run.packets,
           soak->run.seed);
    fflush(stdout);
    for (uint64_t i = 0; i < soak->mixes; i++) {
        struct transport_config run = soak->run;
        struct transport_result result;

        transport_mix(&run, soak->run.seed + i);
        if (!transport_run(&result, &run))
            continue;
        soak_wrong(&run, &result);
        failed++;
    }
    printf("transport_soak: %" PRIu64 " passed, %" PRIu64 " failed\n", soak->mixes - failed,
           failed);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct soak soak = {.run = {.topo = "kary:4,2",
                                .clock = EMU_CLOCK_VIRTUAL,
                                .threads = 2,
                                .packets = 50000,
                                .groups = 4,
                                .deaf = TRANSPORT_NOBODY,
                                .faults = {.late_ps = 2000000},
                                .seed = soak_draw_seed()}};

    read_sizes(&soak, "0-200,0-200,0-200,200-2000");
    if (!soak_options(&soak, argc, argv))
        return SOAK_USAGE;
    if (soak.help) {
        soak_help();
        return 0;
    }
    return soak.mixes ? soak_mixes(&soak) : soak_once(&soak);
}
