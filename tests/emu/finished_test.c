/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finished_test.c - the ring in which a process reports the collectives that it has finished.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hostif/finished.h"
#include "tests/test.h"

#define NOW_NS UINT64_C(1000000)

static struct emu_finished entry(uint64_t n)
{
    return (struct emu_finished){.first = n,
                                 .began_ns = n % NOW_NS,
                                 .ended_ns = n % NOW_NS,
                                 .bytes = n,
                                 .group = (uint32_t)n,
                                 .kind = EMU_BARRIER};
}

static uint64_t now_ns(void)
{
    return NOW_NS;
}

static bool is_whole(const struct emu_finished *one)
{
    return one->bytes == one->first && one->group == (uint32_t)one->first &&
           one->began_ns == one->first % NOW_NS && one->ended_ns == one->began_ns &&
           one->kind == EMU_BARRIER;
}

static void write_some(struct emu_finished_shared *ring, uint64_t from, uint64_t count)
{
    for (uint64_t n = from; n < from + count; n++) {
        struct emu_finished one = entry(n);

        emu_finished_write(ring, &one);
    }
}

/* Each entry is read once and in order, for any batch sizes; overwritten entries are counted. */
static void ring__reports_each_once_or_counts_it(void)
{
    struct emu_finished_shared *ring = aligned_alloc(EMU_LINE, sizeof *ring);
    struct emu_finished got[EMU_FINISHED_SLOTS];
    static const uint64_t bursts[] = {0,
                                      1,
                                      5,
                                      EMU_FINISHED_SLOTS - 2,
                                      EMU_FINISHED_SLOTS - 1,
                                      EMU_FINISHED_SLOTS,
                                      EMU_FINISHED_SLOTS + 1,
                                      3 * EMU_FINISHED_SLOTS,
                                      1};
    uint64_t at = 0, missed = 0, written = 0;

    memset(ring, 0, sizeof *ring);
    for (size_t b = 0; b < sizeof bursts / sizeof bursts[0]; b++) {
        uint64_t before = missed;
        uint64_t expect = bursts[b] < EMU_FINISHED_SLOTS ? bursts[b] : EMU_FINISHED_SLOTS - 1;
        uint32_t count;

        write_some(ring, written, bursts[b]);
        written += bursts[b];
        count = emu_finished_read(got, ring, &at, now_ns, &missed);
        CU_ASSERT_EQUAL(count, expect);
        CU_ASSERT_EQUAL(missed - before, bursts[b] - expect);
        for (uint32_t i = 0; i < count; i++)
            CU_ASSERT_TRUE(is_whole(&got[i]) && got[i].first == written - count + i);
    }
    CU_ASSERT_EQUAL(at, written);
    free(ring);
}

/* Invalid values written by the process are dropped, and cost at most one pass over the ring. */
static void ring__drops_invalid_values(void)
{
    struct emu_finished_shared *ring = aligned_alloc(EMU_LINE, sizeof *ring);
    struct emu_finished got[EMU_FINISHED_SLOTS], wrong[3] = {entry(1), entry(2), entry(3)};
    uint64_t at = 0, missed = 0;

    memset(ring, 0, sizeof *ring);
    wrong[0].ended_ns = NOW_NS + 1;
    wrong[1].began_ns = wrong[1].ended_ns + 1;
    wrong[2].kind = EMU_FINISHED_KINDS;
    for (int i = 0; i < 3; i++)
        emu_finished_write(ring, &wrong[i]);
    CU_ASSERT_EQUAL(emu_finished_read(got, ring, &at, now_ns, &missed), 0);
    CU_ASSERT_EQUAL(missed, 3);
    atomic_store(&ring->count, UINT64_MAX);
    CU_ASSERT_TRUE(emu_finished_read(got, ring, &at, now_ns, &missed) < EMU_FINISHED_SLOTS);
    atomic_store(&ring->count, 1); /* the count goes backwards */
    CU_ASSERT_TRUE(emu_finished_read(got, ring, &at, now_ns, &missed) <= EMU_FINISHED_SLOTS);
    CU_ASSERT_EQUAL(at, 1);
    free(ring);
}

struct race {
    struct emu_finished_shared *ring;
    uint64_t entries;
};

static void *race_write(void *arg)
{
    struct race *race = arg;

    write_some(race->ring, 0, race->entries);
    return NULL;
}

/*
 * A reader runs beside the writer: each entry it reads is whole, entries are in order, and read
 * plus missed is the total.
 */
static void ring__is_consistent_beside_its_writer(void)
{
    struct emu_finished_shared *ring = aligned_alloc(EMU_LINE, sizeof *ring);
    struct race race = {.ring = ring, .entries = 200000};
    struct emu_finished got[EMU_FINISHED_SLOTS];
    uint64_t at = 0, missed = 0, arrived = 0, last = 0;
    pthread_t writer;

    memset(ring, 0, sizeof *ring);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&writer, NULL, race_write, &race), 0);
    while (at < race.entries) {
        uint32_t count = emu_finished_read(got, ring, &at, now_ns, &missed);

        for (uint32_t i = 0; i < count; i++) {
            CU_ASSERT_TRUE(is_whole(&got[i]));
            CU_ASSERT_TRUE(!arrived || got[i].first > last);
            last = got[i].first;
            arrived++;
        }
    }
    pthread_join(writer, NULL);
    CU_ASSERT_EQUAL(arrived + missed, race.entries);
    free(ring);
}

static const struct test_case cases[] = {
    CASE(ring__reports_each_once_or_counts_it),
    CASE(ring__drops_invalid_values),
    CASE(ring__is_consistent_beside_its_writer),
    {0},
};

int main(void)
{
    return test_run("finished", cases);
}
