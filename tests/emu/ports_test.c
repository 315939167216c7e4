/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ports_test.c - compares sets of ports with a table of their numbers. Built for sets of one word
 * and of four.
 */
#include "emu/util/ports.h"

#include "tests/test.h"

#define ROUNDS 2000

struct model {
    bool in[EMU_PORTS_MAX];
};

static emu_ports set_of(const struct model *model)
{
    emu_ports set = EMU_NO_PORTS;

    for (uint32_t n = 0; n < EMU_PORTS_MAX; n++)
        set |= emu_port_if(n, model->in[n]);
    return set;
}

static uint32_t model_count(const struct model *model)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < EMU_PORTS_MAX; n++)
        count += model->in[n];
    return count;
}

/* The first number in the model at or above @from, or EMU_PORTS_MAX. */
static uint32_t model_from(const struct model *model, uint32_t from)
{
    while (from < EMU_PORTS_MAX && !model->in[from])
        from++;
    return from;
}

/* Draw few or many numbers, from the whole range or from one word. */
static struct model model_draw(uint64_t *random)
{
    uint32_t rare = 1u << test_random(random) % 9, word = (uint32_t)test_random(random);
    bool everywhere = test_random(random) % 2;
    struct model model;

    for (uint32_t n = 0; n < EMU_PORTS_MAX; n++)
        model.in[n] = test_random(random) % rare == 0 &&
                      (everywhere || n / 64 == word % EMU_PORT_WORDS);
    return model;
}

static void check_numbers(const struct model *model, emu_ports set)
{
    uint32_t at = model_from(model, 0), nth = 0;

    emu_each_port (n, set) {
        CU_ASSERT_EQUAL(n, at);
        CU_ASSERT_EQUAL(emu_ports_nth(set, nth++), n);
        at = model_from(model, at + 1);
    }
    CU_ASSERT_EQUAL(at, EMU_PORTS_MAX);
    for (uint32_t n = 0; n < EMU_PORTS_MAX; n++) {
        uint32_t next = model_from(model, n + 1);

        CU_ASSERT_EQUAL(emu_ports_has(set, n), model->in[n]);
        if (emu_ports_any(set))
            CU_ASSERT_EQUAL(emu_ports_next(set, n),
                            next < EMU_PORTS_MAX ? next : model_from(model, 0));
    }
}

static void ports__hold_exactly_what_was_added(void)
{
    uint64_t random = 20261127;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct model model = model_draw(&random);
        emu_ports set = set_of(&model), copy = EMU_NO_PORTS;
        uint32_t count = model_count(&model);

        CU_ASSERT_EQUAL(emu_ports_count(set), count);
        CU_ASSERT_EQUAL(emu_ports_any(set), count > 0);
        CU_ASSERT_EQUAL(emu_ports_several(set), count > 1);
        if (count)
            CU_ASSERT_EQUAL(emu_ports_first(set), model_from(&model, 0));
        for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
            emu_ports_word_set(&copy, w, emu_ports_word(set, w));
        CU_ASSERT(emu_ports_equal(copy, set));
        CU_ASSERT(emu_ports_equal(emu_ports_if(set, true), set));
        CU_ASSERT(!emu_ports_any(emu_ports_if(set, false)));
        check_numbers(&model, set);
    }
}

static void ports__of_a_range(void)
{
    for (uint32_t first = 0; first < EMU_PORTS_MAX; first++)
        for (uint32_t count = 0; first + count <= EMU_PORTS_MAX; count += 7) {
            emu_ports set = emu_ports_range(first, count);

            CU_ASSERT_EQUAL(emu_ports_count(set), count);
            if (count)
                CU_ASSERT(emu_ports_has(set, first) && emu_ports_has(set, first + count - 1));
        }
    CU_ASSERT_EQUAL(emu_ports_count(emu_ports_below(EMU_PORTS_MAX)), EMU_PORTS_MAX);
}

/* A signal maps to every port of the set, and perhaps to others that share its bit. */
static void signals__reach_their_ports(void)
{
    uint64_t random = 20261128;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct model model = model_draw(&random);
        emu_ports set = set_of(&model);
        uint64_t signals = 0;

        emu_each_port (n, set)
            signals |= emu_port_signal(n);
        CU_ASSERT_EQUAL(emu_ports_signals(set), signals);
        CU_ASSERT(!emu_ports_any(set & ~emu_ports_signalled(signals)));
        CU_ASSERT_EQUAL(emu_ports_signals(emu_ports_signalled(signals)), signals);
    }
}

/* break and continue work as in any loop. */
static void each_port__takes_break_and_continue(void)
{
    emu_ports set = emu_ports_below(EMU_PORTS_MAX);
    uint32_t seen = 0;

    emu_each_port (n, set) {
        if (n % 2)
            continue;
        if (n == EMU_PORTS_MAX - 2)
            break;
        seen++;
    }
    CU_ASSERT_EQUAL(seen, EMU_PORTS_MAX / 2 - 1);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(ports__hold_exactly_what_was_added),
        CASE(ports__of_a_range),
        CASE(signals__reach_their_ports),
        CASE(each_port__takes_break_and_continue),
        {NULL, NULL},
    };

    return test_run("ports", cases);
}
