/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_test.c - over cables that lose, corrupt, duplicate and delay, every segment arrives
 * exactly once with the right bytes, or its sender gets an error. Short runs of transport_soak; a
 * failing one prints the command that replays it.
 */
#include "tests/test.h"
#include "tests/fixtures/engine/transport_run.h"

#ifdef __SANITIZE_THREAD__ /* ten times as slow */
#define PACKETS_VIRTUAL 8000u
#define PACKETS_RAW     4000u
#define PACKETS_FAULTS  1000u /* for each kind of fault */
#else
#define PACKETS_VIRTUAL 20000u
#define PACKETS_RAW     10000u
#define PACKETS_FAULTS  4000u
#endif

static struct transport_config config_of(enum emu_clock_mode clock, uint32_t threads,
                                         uint64_t packets)
{
    return (struct transport_config){.topo = "kary:4,2",
                                     .clock = clock,
                                     .threads = threads,
                                     .seed = test_seed() % 1000000007u,
                                     .packets = packets,
                                     .groups = 4,
                                     .deaf = TRANSPORT_NOBODY,
                                     .faults = {.late_ps = 2000000},
                                     .sizes = {.count = 2, .range = {{0, 200}, {0, 2000}}}};
}

static struct transport_result run(const struct transport_config *config)
{
    struct transport_result result;
    int err = transport_run(&result, config);

    CU_ASSERT_EQUAL(err, 0);
    if (err) {
        printf("\n  %s\n  again: ", result.wrong);
        transport_command(stdout, config);
    }
    return result;
}

/* Loss, corruption, duplication and delay, each in @each of a million entries. */
static struct emu_fault_rates all_faults(uint32_t each)
{
    return (struct emu_fault_rates){.lost = each,
                                    .head = each / 2,
                                    .payload = each / 2,
                                    .duplicated = each,
                                    .late = each,
                                    .late_ps = 2000000};
}

/* --- equal results ------------------------------------------------------------------ */

static void virtual__is_the_same_for_any_number_of_threads(void)
{
    struct transport_config config = config_of(EMU_CLOCK_VIRTUAL, 1, PACKETS_VIRTUAL);
    struct transport_result one, three;

    config.faults = all_faults(1000);
    one = run(&config);
    config.threads = 3;
    three = run(&config);
    CU_ASSERT_EQUAL(three.threads, 3);
    CU_ASSERT_EQUAL(one.order, three.order);
    CU_ASSERT_EQUAL(one.content, three.content);
    CU_ASSERT_EQUAL(one.transport.retransmissions, three.transport.retransmissions);
    CU_ASSERT_TRUE(one.transport.retransmissions > 0);
    CU_ASSERT_TRUE(one.transport.duplicates > 0);
    CU_ASSERT_TRUE(one.transport.broken > 0);
    CU_ASSERT_TRUE(one.transport.timeouts > 0);
}

/*
 * The data sent, and so the data received, does not depend on the clock or on faults. Without
 * faults no packet times out.
 */
static void raw__gets_what_virtual_gets(void)
{
    struct transport_config config = config_of(EMU_CLOCK_VIRTUAL, 1, PACKETS_RAW);
    struct transport_result result = run(&config);
    uint64_t content = result.content;

    CU_ASSERT_EQUAL(result.transport.retransmissions, 0);
    config.clock = EMU_CLOCK_RAW;
    config.threads = 2;
    config.faults = all_faults(1000);
    result = run(&config);
    CU_ASSERT_EQUAL(result.content, content);
    CU_ASSERT_TRUE(result.transport.retransmissions > 0);
}

/* --- faults ------------------------------------------------------------------------- */

static void faults_on(enum emu_clock_mode clock, uint64_t packets)
{
    const struct emu_fault_rates mixes[] = {
        {.lost = 10000},
        {.head = 5000, .payload = 5000},
        {.duplicated = 10000, .late_ps = 2000000},
        {.late = 10000, .late_ps = 2000000},
        {.lost = 10000,
         .head = 5000,
         .payload = 5000,
         .duplicated = 10000,
         .late = 10000,
         .late_ps = 2000000},
    };

    for (size_t m = 0; m < sizeof mixes / sizeof mixes[0]; m++) {
        struct transport_config config = config_of(clock, 2, packets);
        struct transport_result result;

        /*
         * A broadcast of 5 segments, 1 KB, to 12 of 16 nodes crosses about a hundred cables, and 3
         * % of the entries are faulty: one try in 20 succeeds, and one packet in 150 would need
         * more than the profile's 100 retries. Of raw's default packets of 3840 bytes, one try in
         * several hundred would succeed.
         */
        config.set[config.sets++] = "packet_bytes=1024";
        config.set[config.sets++] = "retry_limit=1000";
        config.faults = mixes[m];
        result = run(&config);
        CU_ASSERT_EQUAL(result.injected.lost > 0, mixes[m].lost + mixes[m].head > 0);
        CU_ASSERT_EQUAL(result.injected.damaged > 0, mixes[m].head > 0);
        CU_ASSERT_EQUAL(result.injected.duplicated > 0, mixes[m].duplicated > 0);
        CU_ASSERT_EQUAL(result.injected.late > 0, mixes[m].late > 0);
    }
}

static void virtual__every_kind_of_fault(void)
{
    faults_on(EMU_CLOCK_VIRTUAL, PACKETS_FAULTS);
}

static void raw__every_kind_of_fault(void)
{
    faults_on(EMU_CLOCK_RAW, 600);
}

/* Delays beyond a time-out: the packet was sent again, and the switches dropped the first copy. */
static void virtual__later_than_a_timeout(void)
{
    struct transport_config config = config_of(EMU_CLOCK_VIRTUAL, 2, 4000);
    struct transport_result result;

    config.faults = (struct emu_fault_rates){.duplicated = 5000, .late = 5000, .late_ps = 60000000};
    config.set[config.sets++] = "reply_timeout_ps=20000000";
    result = run(&config);
    CU_ASSERT_TRUE(result.transport.timeouts > 0);
    CU_ASSERT_TRUE(result.transport.stale > 0);
}

/* --- networks ----------------------------------------------------------------------- */

static void links__two_into_the_network(void)
{
    struct transport_config config = config_of(EMU_CLOCK_VIRTUAL, 2, PACKETS_FAULTS * 3 / 2);

    config.topo = "qsnet:24,links=2";
    config.faults = all_faults(2000);
    run(&config);
    config.clock = EMU_CLOCK_RAW;
    run(&config);
}

static void channels__one_and_no_pool(void)
{
    struct transport_config config = config_of(EMU_CLOCK_VIRTUAL, 2, 6000);

    config.topo = "kary:2,3";
    config.faults = all_faults(2000);
    config.sizes.range[1].most = 200; /* a broadcast of more segments does not fit */
    config.set[config.sets++] = "channels=1";
    config.set[config.sets++] = "pool_slots=0";
    config.set[config.sets++] = "reply_timeout_ps=100000000";
    run(&config);
}

/* --- unreachable nodes -------------------------------------------------------------- */

/*
 * Packets to and from a node that receives nothing are reported as failed; no others are, and
 * nothing hangs.
 */
static void deaf__is_reported_as_failed(void)
{
    struct transport_config config = config_of(EMU_CLOCK_VIRTUAL, 2, 320);
    struct transport_result result;

    config.deaf = (uint32_t)(config.seed % 16);
    config.set[config.sets++] = "retry_limit=40";
    result = run(&config);
    CU_ASSERT_TRUE(result.counts.failed > 2 * 320 / 16);
    CU_ASSERT_EQUAL(result.counts.innocent, 0);
    config.clock = EMU_CLOCK_RAW;
    config.set[0] = "retry_limit=2";
    result = run(&config);
    CU_ASSERT_TRUE(result.counts.failed > 2 * 320 / 16);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(virtual__is_the_same_for_any_number_of_threads),
        CASE(raw__gets_what_virtual_gets),
        CASE(virtual__every_kind_of_fault),
        CASE(raw__every_kind_of_fault),
        CASE(virtual__later_than_a_timeout),
        CASE(links__two_into_the_network),
        CASE(channels__one_and_no_pool),
        CASE(deaf__is_reported_as_failed),
        {NULL, NULL},
    };

    return test_run("transport", cases);
}
