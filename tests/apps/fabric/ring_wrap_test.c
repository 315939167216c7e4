/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_wrap_test.c - the rings of a host interface (emu/hostif/hostif.h): the writer restarts at
 * the first slot when the ring is empty, so light traffic touches few pages, and a slow reader
 * still has the whole ring.
 *
 * Workers do not run: the test steps them. Each case runs with numbers from 0 on and with numbers
 * about to wrap.
 */
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define FROM 0u
#define TO   1u
#define LATE 2000000u /* empty passes before a case fails */
#define MOST 9u       /* most segments at a time in light traffic */

struct fixture {
    struct hostifs w;
    uint32_t posted, taken;
};

static void fixture_open(struct fixture *r, enum emu_clock_mode clock, uint32_t first)
{
    struct fabric_config config = {
        .threads = 1, .seed = 1, .start_stopped = true, .clock = clock, .first = first};

    *r = (struct fixture){.posted = 0};
    fixture_profile(&config.profile, "oq2004", "");
    hostifs_open(&r->w, "kary:2,2", &config);
}

static void fixture_close(struct fixture *r)
{
    CU_ASSERT_EQUAL(r->taken, r->posted);
    hostifs_close(&r->w);
}

/* Post the next segment, which carries its number. Returns false if there is no space. */
static bool post(struct fixture *r)
{
    uint8_t payload[EMU_PAYLOAD_BYTES];
    struct emu_hdr hdr = {.dst = TO, .src = FROM, .kind = EMU_UNICAST};
    uint32_t bytes = r->posted % 3 ? sizeof r->posted : sizeof payload;

    memset(payload, (uint8_t)r->posted, sizeof payload);
    memcpy(payload, &r->posted, sizeof r->posted);
    hdr.len = (uint8_t)bytes;
    if (!hostifs_post(&r->w, FROM, &hdr, payload))
        return false;
    r->posted++;
    return true;
}

/* A segment that arrives must be the next one, and whole. */
static bool take(struct fixture *r)
{
    struct emu_seg seg;
    uint32_t number;

    if (!hostifs_take(&r->w, TO, &seg))
        return false;
    memcpy(&number, seg.payload, sizeof number);
    CU_ASSERT_EQUAL_FATAL(number, r->taken);
    if (seg.hdr.len > sizeof number)
        CU_ASSERT_EQUAL_FATAL(seg.payload[seg.hdr.len - 1], (uint8_t)number);
    r->taken++;
    return true;
}

static void take_until(struct fixture *r, uint32_t number)
{
    for (uint32_t late = 0; r->taken != number; late++) {
        fixture_fabric_pass(r->w.fabric);
        while (r->taken != number && take(r))
            late = 0;
        CU_ASSERT_FATAL(late < LATE);
    }
}

static const uint32_t firsts[] = {0, UINT32_MAX - EMU_HOSTIF_SLOTS - 100};
#define FIRSTS (sizeof firsts / sizeof firsts[0])

static bool untouched(const struct emu_hostif_slot *ring)
{
    static const struct emu_hostif_slot zero;

    for (uint32_t i = EMU_HOSTIF_WRAP + MOST; i < EMU_HOSTIF_SLOTS; i++)
        if (memcmp(&ring[i], &zero, sizeof zero))
            return false;
    return true;
}

/* One or a few segments at a time: later pages of both rings stay untouched. */
static void light_traffic__stays_in_few_pages(void)
{
    struct fixture r;

    fixture_open(&r, EMU_CLOCK_RAW, 0);
    for (uint32_t round = 0; round < 3 * EMU_HOSTIF_SLOTS / MOST; round++) {
        for (uint32_t i = 0; i < 1 + round % MOST; i++)
            CU_ASSERT_TRUE(post(&r));
        take_until(&r, r.posted);
        fixture_fabric_pass(r.w.fabric); /* the source sees that all was taken */
    }
    CU_ASSERT_TRUE(untouched(r.w.nic[FROM].shared->up));
    CU_ASSERT_TRUE(untouched(r.w.nic[TO].shared->down));
    fixture_close(&r);
}

/*
 * Wherever the ring starts, a process that does not read can fill all of its slots, and later
 * segments wait.
 */
static void reader__behind_has_the_whole_ring(void)
{
    for (size_t f = 0; f < FIRSTS; f++) {
        struct fixture r;

        fixture_open(&r, EMU_CLOCK_RAW, firsts[f]);
        for (uint32_t round = 0; round < 6; round++) {
            uint32_t begun = r.posted;

            for (uint32_t late = 0; late < 1000; late++) {
                while (post(&r))
                    late = 0;
                fixture_fabric_pass(r.w.fabric);
            }
            CU_ASSERT(r.posted - begun > 2 * EMU_HOSTIF_SLOTS);
            take_until(&r, r.posted - (round % 2 ? 700 : 0)); /* ends with some left, or none */
            take_until(&r, r.posted);
            for (uint32_t i = 0; i < 300 * round; i++) {
                CU_ASSERT_TRUE(post(&r));
                take_until(&r, r.posted);
            }
        }
        fixture_close(&r);
    }
}

/* Bursts of any size, readers behind by any number, both kinds of clock. */
static void bursts__arrive_in_order(void)
{
    uint64_t random = test_seed();

    for (size_t f = 0; f < 2 * FIRSTS; f++) {
        struct fixture r;

        fixture_open(&r, f < FIRSTS ? EMU_CLOCK_RAW : EMU_CLOCK_REAL, firsts[f % FIRSTS]);
        for (uint32_t round = 0; round < (f < FIRSTS ? 4000u : 400u); round++) {
            uint32_t burst = (uint32_t)test_draw(&random, 1, test_draw(&random, 1, 300));

            while (burst-- && post(&r))
                ;
            fixture_fabric_pass(r.w.fabric);
            if (test_random(&random) % 8 == 0)
                take_until(&r, r.posted);
            else
                for (uint64_t i = test_draw(&random, 0, 200); i-- && take(&r);)
                    ;
        }
        take_until(&r, r.posted);
        CU_ASSERT_NOT_EQUAL(atomic_load(&r.w.nic[FROM].shared->up_shift), 0);
        CU_ASSERT_NOT_EQUAL(atomic_load(&r.w.nic[TO].shared->down_shift), 0);
        fixture_close(&r);
    }
}

/* A process that claims arbitrary slot positions harms only itself. */
static void invalid_claims__harm_only_their_process(void)
{
    uint64_t random = test_seed();
    struct fixture r;

    fixture_open(&r, EMU_CLOCK_RAW, 0);
    for (uint32_t round = 0; round < 20000; round++) {
        struct emu_hostif_shared *shared = r.w.nic[3].shared;
        struct emu_hdr hdr = {.dst = 2, .src = 3, .kind = EMU_UNICAST};
        struct emu_seg seg;

        hostifs_post(&r.w, 3, &hdr, NULL);
        atomic_store(&shared->up_shift, (uint32_t)test_random(&random));
        atomic_store(&shared->down_shift, (uint32_t)test_random(&random));
        CU_ASSERT_TRUE(post(&r));
        take_until(&r, r.posted);
        while (hostifs_take(&r.w, 2, &seg))
            ;
    }
    fixture_close(&r);
}

static const struct test_case cases[] = {
    CASE(light_traffic__stays_in_few_pages),
    CASE(reader__behind_has_the_whole_ring),
    CASE(bursts__arrive_in_order),
    CASE(invalid_claims__harm_only_their_process),
    {0},
};

int main(void)
{
    return test_run("turns", cases);
}
