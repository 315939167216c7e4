/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pass_test.c - which devices a pass steps on clock raw, compared with a model: devices signal each
 * other and themselves at random, ask to be polled or do not, and some are always stepped.
 *
 * A pass steps each device at most once. Devices that were signalled before, asked to be polled, or
 * are always stepped run exactly once; others only if they are signalled during the pass. A worker
 * is quiet if and only if no device has a signal that it was not stepped for.
 */
#include "emu/worker/worker.h"
#include "tests/test.h"

#define DEVS 200u /* several words of bits */

/* A device and its expected state. One thread only. */
struct stepped {
    struct emu_dev dev;
    bool always;
    bool signalled;           /* signalled and not stepped since */
    bool poll_now, poll_next; /* asked in the previous pass to be polled, and in this one */
    uint32_t steps;           /* in this pass */
};

static struct {
    struct stepped dev[DEVS];
    uint32_t devs;
    uint64_t random;
    uint32_t talks, moves; /* in a hundred */
    uint32_t idle;         /* steps without a signal, a poll or the flag "always" */
} fixture;

static bool happens(uint32_t in_a_hundred)
{
    return test_random(&fixture.random) % 100 < in_a_hundred;
}

static struct stepped *any(void)
{
    return &fixture.dev[test_random(&fixture.random) % fixture.devs];
}

static uint32_t stepped_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct stepped *s = (struct stepped *)dev;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    fixture.idle += !s->signalled && !s->poll_now && !s->always;
    s->signalled = false;
    s->steps++;
    for (uint64_t words = test_random(&fixture.random) % 4; words--;) {
        struct stepped *to = any();

        if (!happens(fixture.talks))
            continue;
        to->signalled = true;
        if (to == s)
            emu_dev_again(dev);
        else
            emu_dev_signal(&to->dev, dev->worker, EMU_EVENT_DATA, 1);
    }
    s->poll_next = happens(33);
    emu_dev_poll_within(dev, s->poll_next ? 1000000 : EMU_NEVER);
    return happens(fixture.moves) ? 3 : 0;
}

static struct emu_worker *fixture_open(uint32_t devs)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct emu_worker *worker;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, devs, &clock, NULL), 0);
    fixture.devs = devs;
    fixture.talks = (uint32_t)(test_random(&fixture.random) % 70);
    fixture.moves = (uint32_t)(test_random(&fixture.random) % 100);
    for (uint32_t i = 0; i < devs; i++) {
        fixture.dev[i] = (struct stepped){.always = happens(3)};
        emu_dev_init(&fixture.dev[i].dev, worker, stepped_step);
        if (fixture.dev[i].always)
            emu_dev_always(&fixture.dev[i].dev);
    }
    return worker;
}

/* One pass, after signals from outside; checks the model afterwards. */
static void pass_as_modelled(struct emu_worker *worker)
{
    bool must[DEVS], signalled = false, poll_next = false;

    for (uint64_t remote = test_random(&fixture.random) % 3; remote--;) {
        struct stepped *to = any();

        emu_dev_signal_remote(&to->dev, EMU_EVENT_DATA, 1);
        to->signalled = true;
    }
    for (uint32_t i = 0; i < fixture.devs; i++) {
        struct stepped *s = &fixture.dev[i];

        s->steps = 0;
        s->poll_now = s->poll_next;
        s->poll_next = false;
        must[i] = s->signalled || s->poll_now || s->always;
    }
    fixture.idle = 0;
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(fixture.idle, 0);
    for (uint32_t i = 0; i < fixture.devs; i++) {
        CU_ASSERT_TRUE(fixture.dev[i].steps <= 1 && fixture.dev[i].steps >= must[i]);
        signalled |= fixture.dev[i].signalled;
        poll_next |= fixture.dev[i].poll_next;
    }
    CU_ASSERT_EQUAL(emu_worker_quiet(worker), !signalled);
    CU_ASSERT_EQUAL(worker->next_ps != EMU_NEVER, poll_next);
    CU_ASSERT_EQUAL(worker->max_sleep_ps != EMU_NEVER, poll_next);
}

static void pass__steps_exactly_the_ready_devices(void)
{
    static const uint32_t devs[] = {1, 2, 63, 64, 65, 128, 130, DEVS};

    fixture.random = test_seed();
    for (uint32_t run = 0; run < TEST_TRIALS(200u); run++) {
        struct emu_worker *worker = fixture_open(devs[run % 8]);

        for (uint32_t pass = 0; pass < 200; pass++)
            pass_as_modelled(worker);
        emu_worker_destroy(worker);
    }
}

int main(void)
{
    static const struct test_case cases[] = {CASE(pass__steps_exactly_the_ready_devices),
                                             {NULL, NULL}};

    return test_run("pass", cases);
}
