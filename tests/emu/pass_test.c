/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pass_test.c - whom a pass steps on clock raw, against a model: devices tell each other, and
 * themselves, at random, rest or do not, and some are stepped always.
 *
 * In a pass each is stepped at most once; who was told before it, has said that it rests, or is
 * always stepped, exactly once; and nobody else but who is told meanwhile. A worker is quiet if and
 * only if nobody has been told something that it was not stepped for.
 */
#include "emu/worker/worker.h"
#include "tests/test.h"

#define DEVS 200u /* several words of bits */

/* A device, and what is to be true of it. All of it is one thread's. */
struct stepped {
    struct emu_dev dev;
    bool always;
    bool told;          /* and not stepped since */
    bool rested, rests; /* said so in the pass before, and in this one */
    uint32_t steps;     /* in this pass */
};

static struct {
    struct stepped dev[DEVS];
    uint32_t devs;
    uint64_t random;
    uint32_t talks, moves; /* in a hundred */
    uint32_t idle;         /* steps of who was not told, did not rest, and is not always stepped */
} world;

static bool happens(uint32_t in_a_hundred)
{
    return test_random(&world.random) % 100 < in_a_hundred;
}

static struct stepped *any(void)
{
    return &world.dev[test_random(&world.random) % world.devs];
}

static uint32_t stepped_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct stepped *s = (struct stepped *)dev;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    world.idle += !s->told && !s->rested && !s->always;
    s->told = false;
    s->steps++;
    for (uint64_t words = test_random(&world.random) % 4; words--;) {
        struct stepped *to = any();

        if (!happens(world.talks))
            continue;
        to->told = true;
        if (to == s)
            emu_dev_again(dev);
        else
            emu_dev_signal(&to->dev, dev->worker, EMU_EVENT_DATA, 1);
    }
    s->rests = happens(33);
    emu_dev_rest(dev, s->rests ? 1000000 : EMU_NEVER);
    return happens(world.moves) ? 3 : 0;
}

static struct emu_worker *world_open(uint32_t devs)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct emu_worker *worker;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, devs, &clock, NULL), 0);
    world.devs = devs;
    world.talks = (uint32_t)(test_random(&world.random) % 70);
    world.moves = (uint32_t)(test_random(&world.random) % 100);
    for (uint32_t i = 0; i < devs; i++) {
        world.dev[i] = (struct stepped){.always = happens(3)};
        emu_dev_init(&world.dev[i].dev, worker, stepped_step);
        if (world.dev[i].always)
            emu_dev_always(&world.dev[i].dev);
    }
    return worker;
}

/* One pass, before which others tell some; and what must be true then. */
static void pass_as_modelled(struct emu_worker *worker)
{
    bool must[DEVS], told = false, rests = false;

    for (uint64_t far = test_random(&world.random) % 3; far--;) {
        struct stepped *to = any();

        emu_dev_signal_far(&to->dev, EMU_EVENT_DATA, 1);
        to->told = true;
    }
    for (uint32_t i = 0; i < world.devs; i++) {
        struct stepped *s = &world.dev[i];

        s->steps = 0;
        s->rested = s->rests;
        s->rests = false;
        must[i] = s->told || s->rested || s->always;
    }
    world.idle = 0;
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(world.idle, 0);
    for (uint32_t i = 0; i < world.devs; i++) {
        CU_ASSERT_TRUE(world.dev[i].steps <= 1 && world.dev[i].steps >= must[i]);
        told |= world.dev[i].told;
        rests |= world.dev[i].rests;
    }
    CU_ASSERT_EQUAL(emu_worker_quiet(worker), !told);
    CU_ASSERT_EQUAL(worker->next_ps != EMU_NEVER, rests);
    CU_ASSERT_EQUAL(worker->rest_ps != EMU_NEVER, rests);
}

static void pass__steps_whom_it_should(void)
{
    static const uint32_t devs[] = {1, 2, 63, 64, 65, 128, 130, DEVS};

    world.random = test_seed();
    for (uint32_t run = 0; run < TEST_TRIALS(200u); run++) {
        struct emu_worker *worker = world_open(devs[run % 8]);

        for (uint32_t pass = 0; pass < 200; pass++)
            pass_as_modelled(worker);
        emu_worker_destroy(worker);
    }
}

int main(void)
{
    static const struct test_case cases[] = {CASE(pass__steps_whom_it_should), {NULL, NULL}};

    return test_run("pass", cases);
}
