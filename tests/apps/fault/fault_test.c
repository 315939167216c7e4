/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault_test.c - the text form of faults: parsing, printing, error texts.
 */
#include "apps/fault/fault.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/fixtures/parsed.h"

#define ROUND_TRIPS 20000
#define MUTATIONS   40000

/* A fault of this kind with typical values. */
static struct fault example(enum fault_kind kind)
{
    static const char *const where[] = {[FAULT_OF_LINKS] = "link=0:1",
                                        [FAULT_OF_SWITCHES] = "switch=0",
                                        [FAULT_OF_NODES] = "node=0"};
    char text[FAULT_TEXT_BYTES];

    CU_ASSERT_TRUE_FATAL(fault_example(kind, where[fault_domain(kind)], "", text, sizeof text));
    return parsed(text);
}

static bool same(const struct fault *a, const struct fault *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* --- reading and writing ------------------------------------------------------------ */

static void fault_parse__sets_the_given_fields(void)
{
    struct fault f = parsed("at=1.5s for=10ms every=20ms on=allreduce:3:7 loss link=4:5> "
                            "packet=ack,nack kind=reduce from=1 to=2 group=9 rate=0.1% count=12");

    CU_ASSERT_EQUAL(f.kind, FAULT_LOSS);
    CU_ASSERT_EQUAL(f.when.at_ps, UINT64_C(1500000000000));
    CU_ASSERT_EQUAL(f.when.for_ps, UINT64_C(10000000000));
    CU_ASSERT_EQUAL(f.when.every_ps, UINT64_C(20000000000));
    CU_ASSERT_EQUAL(f.when.on.kind, EMU_ALLREDUCE);
    CU_ASSERT_EQUAL(f.when.on.nth, 3);
    CU_ASSERT_EQUAL(f.when.on.group, 7);
    CU_ASSERT_EQUAL(f.where.place, FAULT_AT_LINK);
    CU_ASSERT_EQUAL(f.where.port.sw, 4);
    CU_ASSERT_EQUAL(f.where.port.port, 5);
    CU_ASSERT_EQUAL(f.where.port.direction, FAULT_OUT);
    CU_ASSERT_EQUAL(f.rule.what, EMU_FAULT_LOSE);
    CU_ASSERT_EQUAL(f.rule.aim.packets, EMU_FAULT_ACK | EMU_FAULT_NACK);
    CU_ASSERT_EQUAL(f.rule.aim.kinds, 1u << EMU_REDUCE);
    CU_ASSERT_EQUAL(f.rule.aim.src, 1);
    CU_ASSERT_EQUAL(f.rule.aim.dst, 2);
    CU_ASSERT_EQUAL(f.rule.aim.group, 9);
    CU_ASSERT_EQUAL(f.rule.rate, 1000000);
    CU_ASSERT_EQUAL(f.rule.most, 12);
}

static void fault_parse__defaults_to_all_targets(void)
{
    struct fault f = parsed("loss link=n3");

    CU_ASSERT_EQUAL(f.rule.rate, EMU_FAULT_ONE);
    CU_ASSERT_EQUAL(f.rule.aim.packets, EMU_FAULT_ENTRIES);
    CU_ASSERT_EQUAL(f.rule.aim.kinds, EMU_FAULT_KINDS);
    CU_ASSERT_EQUAL(f.rule.aim.src, EMU_FAULT_ANY);
    CU_ASSERT_EQUAL(f.rule.nth, 0);
    CU_ASSERT_EQUAL(f.when.on.nth, 0);
    CU_ASSERT_EQUAL(f.where.link.link, EMU_FAULT_ANY);
    f = parsed("credit-forge link=n3:1< nth=4");
    CU_ASSERT_EQUAL(f.rule.what, EMU_FAULT_DUPLICATE);
    CU_ASSERT_EQUAL(f.rule.aim.packets, EMU_FAULT_CREDIT);
    CU_ASSERT_EQUAL(f.where.link.link, 1);
    CU_ASSERT_EQUAL(f.where.link.direction, FAULT_IN);
    f = parsed("combine-flip switch=any");
    CU_ASSERT_EQUAL(f.rule.aim.kinds, 1u << EMU_REDUCE | 1u << EMU_ALLREDUCE);
}

/* Each row: a text, and the canonical text of the same fault. */
static void each_is_printed(const char *const (*rows)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct fault f = parsed(rows[i][0]), again;
        char text[FAULT_TEXT_BYTES];

        fault_print(&f, NULL, text);
        if (strcmp(text, rows[i][1]) != 0)
            printf("\n%s: %s\n", rows[i][0], text);
        CU_ASSERT_STRING_EQUAL(text, rows[i][1]);
        again = parsed(text);
        CU_ASSERT(same(&f, &again));
    }
}

/* The many spellings of a time have one canonical text. */
static void fault_print__has_one_text_for_a_time(void)
{
    static const char *const rows[][2] = {
        {"  link-down\tlink=0:1  ", "link-down link=0:1"},
        {"link-down link=00:01 at=0", "link-down link=0:1"},
        {"link-down at=1000ms link=1:2", "at=1s link-down link=1:2"},
        {"at=1500us link-down link=1:2", "at=1.5ms link-down link=1:2"},
        {"at=.5s link-down link=1:2", "at=500ms link-down link=1:2"},
        {"at=2.s link-down link=1:2", "at=2s link-down link=1:2"},
        {"at=1e3us link-down link=1:2", "at=1ms link-down link=1:2"},
        {"at=0.001ns link-down link=1:2", "at=1ps link-down link=1:2"},
        {"at=1.000000000001s link-down link=1:2", "at=1000000000.001ns link-down link=1:2"},
        {"at=999ps link-down link=1:2", "at=999ps link-down link=1:2"},
        {"at=1000000s link-down link=1:2", "at=1000000s link-down link=1:2"},
        {"at=1.00000000000000000000000000000s link-down link=1:2", "at=1s link-down link=1:2"},
        {"on=barrier:007 link-down link=1:2", "on=barrier:7 link-down link=1:2"},
    };

    each_is_printed(rows, sizeof rows / sizeof rows[0]);
}

static void fault_print__has_one_text_for_a_rate(void)
{
    static const char *const rows[][2] = {
        {"loss rate=1 link=any", "loss link=any"},
        {"loss rate=100% link=any", "loss link=any"},
        {"loss rate=0.001 link=any", "loss link=any rate=1e-3"},
        {"loss rate=0.1% link=any", "loss link=any rate=1e-3"},
        {"loss rate=2.5e-4 link=any", "loss link=any rate=2.5e-4"},
        {"loss rate=1E-9 link=any", "loss link=any rate=1e-9"},
        {"loss rate=0.123456789 link=any", "loss link=any rate=0.123456789"},
        {"loss rate=1% link=any", "loss link=any rate=0.01"},
        {"loss rate=99.9999999% link=any", "loss link=any rate=0.999999999"},
    };

    each_is_printed(rows, sizeof rows / sizeof rows[0]);
}

static void fault_print__has_one_text_for_all_else(void)
{
    static const char *const rows[][2] = {
        {"loss kind=barrier,reduce link=any", "loss link=any kind=reduce,barrier"},
        {"loss packet=nack,head,cont,ack link=any", "loss link=any"},
        {"loss nth=1e3 link=any", "loss link=any nth=1000"},
        {"bit-errors part=any link=any", "bit-errors link=any"},
        {"bit-errors part=payload link=any", "bit-errors link=any part=payload"},
        {"slow-link factor=1.500 link=any", "slow-link link=any factor=1.5"},
        {"slow-link factor=1.001 link=any", "slow-link link=any factor=1.001"},
        {"slow-link factor=1e3 link=any", "slow-link link=any factor=1000"},
        {"node-slow share=25% node=1", "node-slow node=1 share=0.25"},
        {"node-kill nodes=3", "node-kill node=3"},
        {"node-kill nodes=5-9,3,4,1-2,20", "node-kill nodes=1-9,20"},
        {"node-kill nodes=1,1,1-1", "node-kill node=1"},
        {"node-kill nodes=9,7,5,3,1,2-8", "node-kill nodes=1-9"},
        {"node-kill random=1", "node-kill random"},
        {"node-kill random=50%", "node-kill random=50%"},
        {"node-kill random=6.25%", "node-kill random=6.25%"},
        {"node-kill random=0.0000001%", "node-kill random=0.0000001%"},
        {"link-down top", "link-down top"},
        {"switch-crash top=3", "switch-crash top=3"},
        {"link-down link=n3:0>", "link-down link=n3:0>"},
        {"link-down link=leaf1:05>", "link-down link=leaf1:5>"},
        {"link-down link=node01<", "link-down link=node01<"},
        {"link-down link=n1x", "link-down link=n1x"},
        {"link-down link=MF0;leaf1:X/U1:9", "link-down link=MF0;leaf1:X/U1:9"},
        {"link-down link=leaf1:256", "link-down link=leaf1:256"},
    };

    each_is_printed(rows, sizeof rows / sizeof rows[0]);
}

/* --- round trips of random faults ----------------------------------------------------- */

static uint64_t random_time(uint64_t *random, uint64_t least)
{
    uint64_t most = FAULT_TIME_MAX_PS;

    for (uint64_t digits = test_draw(random, 0, 18); digits; digits--)
        most /= 10;
    return least + test_draw(random, 0, most) % (FAULT_TIME_MAX_PS - least + 1);
}

static void random_links(uint64_t *random, struct fault_where *where)
{
    switch (where->place) {
    case FAULT_AT_LINK:
        where->port = (struct fault_port){(uint32_t)test_draw(random, 0, UINT32_MAX - 1),
                                          (uint32_t)test_draw(random, 0, 255),
                                          (enum fault_direction)test_draw(random, 0, 2)};
        return;
    case FAULT_AT_NODE_LINK:
        where->link = (struct fault_node_link){(uint32_t)test_draw(random, 0, TOPO_NODES_MAX - 1),
                                               (uint32_t)test_draw(random, 0, 255),
                                               (enum fault_direction)test_draw(random, 0, 2)};
        if (where->link.link == 255)
            where->link.link = EMU_FAULT_ANY;
        return;
    default:
        where->sw = (uint32_t)test_draw(random, 0, UINT32_MAX - 1);
    }
}

static void random_some(uint64_t *random, struct fault_where *where)
{
    where->random = (struct fault_random){0};
    if (test_draw(random, 0, 1))
        where->random.count = (uint32_t)test_draw(random, 1, UINT32_MAX - 1);
    else
        where->random.share = (uint32_t)test_draw(random, 1, EMU_FAULT_ONE);
}

static void random_nodes(uint64_t *random, struct fault_where *where)
{
    uint32_t at = 0;

    where->nodes.ranges = (uint32_t)test_draw(random, 1, FAULT_RANGES_MAX);
    for (uint32_t i = 0; i < where->nodes.ranges; i++) {
        where->nodes.range[i].first = at + (uint32_t)test_draw(random, 0, 10000);
        where->nodes.range[i].last = where->nodes.range[i].first +
                                     (uint32_t)test_draw(random, 0, 10000);
        at = where->nodes.range[i].last + 2;
    }
}

static void random_where(uint64_t *random, struct fault *f)
{
    static const enum fault_place places[][7] = {
        [FAULT_OF_LINKS] = {FAULT_AT_LINK, FAULT_AT_NODE_LINK, FAULT_AT_LEVEL, FAULT_AT_SWITCH,
                            FAULT_AT_ALL, FAULT_AT_TOP, FAULT_AT_RANDOM},
        [FAULT_OF_SWITCHES] = {FAULT_AT_LEVEL, FAULT_AT_SWITCH, FAULT_AT_ALL, FAULT_AT_TOP,
                               FAULT_AT_RANDOM, FAULT_AT_SWITCH, FAULT_AT_LEVEL},
        [FAULT_OF_NODES] = {FAULT_AT_NODES, FAULT_AT_RANDOM, FAULT_AT_NODES, FAULT_AT_NODES,
                            FAULT_AT_NODES, FAULT_AT_RANDOM, FAULT_AT_ALL},
    };

    memset(&f->where, 0, sizeof f->where);
    f->where.place =
        places[fault_domain(f->kind)][test_draw(random, 0, f->kind == FAULT_PARTITION ? 5 : 6)];
    if (f->where.place == FAULT_AT_NODES)
        random_nodes(random, &f->where);
    else if (f->where.place == FAULT_AT_TOP || f->where.place == FAULT_AT_RANDOM)
        random_some(random, &f->where);
    else if (f->where.place != FAULT_AT_ALL)
        random_links(random, &f->where);
}

static void random_rule(uint64_t *random, struct fault *f)
{
    struct emu_fault_rule *rule = &f->rule;

    rule->rate = EMU_FAULT_ONE; /* nth excludes all others */
    rule->most = 0;
    if (test_draw(random, 0, 1))
        rule->nth = test_draw(random, 1, INT64_MAX);
    else
        rule->rate = (uint32_t)test_draw(random, 1, EMU_FAULT_ONE);
    if (!rule->nth)
        rule->most = test_draw(random, 0, INT64_MAX);
    if (f->kind == FAULT_DELAY) {
        rule->by_ps = random_time(random, 1);
        rule->jitter_ps = random_time(random, 0);
    }
    if (f->kind == FAULT_CREDIT_LOSS || f->kind == FAULT_CREDIT_FORGE)
        return;
    if (test_draw(random, 0, 1))
        rule->aim.group = (uint32_t)test_draw(random, 0, EMU_GROUP_WIDE - 1);
    if (f->kind == FAULT_COMBINE_FLIP) {
        rule->aim.kinds = (uint32_t)test_draw(random, 1, 3) << EMU_REDUCE;
        return;
    }
    rule->aim.packets = (uint32_t)test_draw(random, 1, EMU_FAULT_ENTRIES);
    rule->aim.kinds = (uint32_t)test_draw(random, 1, EMU_FAULT_KINDS);
    rule->aim.src = (uint32_t)test_random(random) % TOPO_NODES_MAX;
    rule->aim.dst = (uint32_t)test_random(random) % TOPO_NODES_MAX;
    if (f->kind == FAULT_BIT_ERRORS)
        rule->what =
            (enum emu_fault_what)test_draw(random, EMU_FAULT_FLIP_ANY, EMU_FAULT_FLIP_PAYLOAD);
}

static void random_when(uint64_t *random, struct fault *f)
{
    struct fault_when *when = &f->when;

    when->at_ps = random_time(random, 0);
    if (test_draw(random, 0, 1))
        when->for_ps = fault_at_once(f->kind) ? 0 : random_time(random, 1);
    if (when->for_ps < FAULT_TIME_MAX_PS && test_draw(random, 0, 1) &&
        (when->for_ps || fault_at_once(f->kind)))
        when->every_ps = test_draw(random, when->for_ps + 1, FAULT_TIME_MAX_PS);
    if (test_draw(random, 0, 1))
        when->on = (struct fault_event){(uint32_t)test_draw(random, EMU_MULTICAST, EMU_BARRIER),
                                        test_draw(random, 0, 1)
                                            ? EMU_FAULT_ANY
                                            : (uint32_t)test_draw(random, 0, EMU_GROUP_WIDE - 1),
                                        test_draw(random, 1, INT64_MAX)};
}

/* All parameters of the kind besides target, time and rule. */
static void random_own(uint64_t *random, struct fault *f)
{
    if (fault_has_rule(f->kind)) {
        random_rule(random, f);
    } else if (f->kind == FAULT_LINK_FLAP) {
        f->flap = (struct fault_flap){random_time(random, 1), random_time(random, 1)};
    } else if (f->kind == FAULT_SLOW_LINK) {
        f->factor = (uint32_t)test_draw(random, FAULT_FACTOR_ONE + 1, 1000 * FAULT_FACTOR_ONE);
    } else if (f->kind == FAULT_NODE_SLOW) {
        f->share = (uint32_t)test_draw(random, 1, EMU_FAULT_ONE - 1);
    } else if (f->kind == FAULT_NOISE) {
        f->noise.period_ps = random_time(random, 2);
        f->noise.length_ps = test_draw(random, 1, f->noise.period_ps - 1);
    }
}

static void fault_print__is_read_as_the_same_fault(void)
{
    uint64_t random = test_seed();
    size_t longest = 0;

    for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
        struct fault f = example((enum fault_kind)(i % FAULT_KINDS)), again;
        char text[FAULT_TEXT_BYTES], twice[FAULT_TEXT_BYTES];

        random_where(&random, &f);
        random_when(&random, &f);
        random_own(&random, &f);
        fault_print(&f, NULL, text);
        again = parsed(text);
        fault_print(&again, NULL, twice);
        longest = strlen(text) > longest ? strlen(text) : longest;
        if (!same(&f, &again))
            printf("%s\n%s\n", text, twice);
        CU_ASSERT_FATAL(same(&f, &again));
        CU_ASSERT_STRING_EQUAL(text, twice);
    }
    CU_ASSERT(longest < FAULT_TEXT_BYTES - 200); /* nothing was truncated */
}

/* --- errors ----------------------------------------------------------------------------- */

/* An invalid fault, and what its error line must contain: what is wrong, and the valid choices. */
struct refused {
    const char *text, *wrong, *right;
};

static void each_is_refused(const struct refused *rows, size_t count,
                            const struct topo_graph *graph)
{
    for (size_t i = 0; i < count; i++) {
        struct fault fault, before;
        char error[FAULT_ERROR_BYTES] = "";

        memset(&fault, 0x5a, sizeof fault);
        before = fault;
        CU_ASSERT_EQUAL(fault_parse(&fault, rows[i].text, graph, error, sizeof error), -EINVAL);
        if (!strstr(error, rows[i].wrong) || !strstr(error, rows[i].right))
            printf("\n%s: %s\n", rows[i].text, error);
        CU_ASSERT_PTR_NOT_NULL(strstr(error, rows[i].wrong));
        CU_ASSERT_PTR_NOT_NULL(strstr(error, rows[i].right));
        CU_ASSERT_PTR_NULL(strchr(error, '\n'));
        CU_ASSERT(strlen(error) < sizeof error - 1); /* nothing was truncated */
        CU_ASSERT(same(&fault, &before));
    }
}

static void fault_parse__reports_the_wrong_word(void)
{
    static const struct refused rows[] = {
        {"", "no kind of fault is named", "link-down link=0:3"},
        {"   \t ", "no kind of fault is named", "for example"},
        {"at=1s", "no kind of fault is named", "for example"},
        {"linkdown link=0:1", "no fault 'linkdown'", "link-down, link-flap"},
        {"noisy-links", "'noisy-links' is a scenario", "--faults noisy-links"},
        {"LOSS link=0:1", "no fault 'LOSS'", "loss"},
        {"link-down", "does not say where", "link, level, switch, top, random"},
        {"node-kill", "does not say where", "node, nodes, random"},
        {"link=0:1 link-down", "link is before the fault", "then the fault"},
        {"random link-down", "random is before the fault", "then the fault"},
        {"link-down loss link=0:1", "link-down and loss", "its own line"},
        {"link-down link=0:1 link=0:2", "link is given twice", "once"},
        {"at=1s at=2s link-down link=0:1", "at is given twice", "once"},
        {"link-down link=0:1 random", "link and random", "its own line"},
        {"link-down link=0:1 colour=red", "no key 'colour'", "link-down has at, for"},
        {"colour=red link-down", "no key 'colour'", "at, for, every, on"},
        {"=1 link-down", "no key ''", "at, for, every, on"},
        {"link-down link=0:1 rate=0.5", "link-down has no 'rate'", "at, for, every, on, link"},
        {"link-down node=1", "link-down has no 'node'", "link, level, switch"},
        {"for=1s node-kill node=0", "node-kill has no 'for'", "momentary"},
        {"node-kill node=0 for=1s", "node-kill has no 'for'", "momentary"},
        {"link-down link", "link has no value", "S:P"},
        {"link-down link=0:1 at", "at has no value", "1.5s"},
        {"link-flap link=0:1 down=1ms", "link-flap needs up", "too"},
        {"link-flap link=0:1", "link-flap needs down, up", "too"},
        {"slow-link link=0:1", "slow-link needs factor", ""},
        {"node-slow node=0", "node-slow needs share", ""},
        {"noise node=0 length=1ms", "noise needs period", ""},
        {"delay link=0:1", "delay needs", "by=TIME or jitter=TIME"},
        {"link-down link=0:1\n", "a control character, 10", "one line"},
        {"link-down\x1b[1m link=0:1", "a control character, 27", "one line"},
        {"link-down link=0:1\x7f", "a control character, 127", "one line"},
    };

    each_is_refused(rows, sizeof rows / sizeof rows[0], NULL);
}

static void fault_parse__reports_the_wrong_time(void)
{
    static const struct refused rows[] = {
        {"at= link-down link=0:1", "at=:", "1.5s"},
        {"at=1 link-down link=0:1", "at=1:", "10ns, 5us"},
        {"at=1m link-down link=0:1", "at=1m:", "10ns, 5us"},
        {"at=-1s link-down link=0:1", "at=-1s:", "10ns, 5us"},
        {"at=1.2.3s link-down link=0:1", "at=1.2.3s:", "10ns"},
        {"at=.s link-down link=0:1", "at=.s:", "10ns"},
        {"at=1es link-down link=0:1", "at=1es:", "10ns"},
        {"at=nan link-down link=0:1", "at=nan:", "10ns"},
        {"at=0x1s link-down link=0:1", "at=0x1s:", "10ns"},
        {"at=1000001s link-down link=0:1", "at=1000001s is too large", "1000000s"},
        {"at=1000000.000000000001s link-down link=0:1", "too large", "1000000s"},
        {"at=18446744073709551616ps link-down link=0:1", "too large", "1000000s"},
        {"at=99999999999999999999999999999s link-down link=0:1", "too large", "1000000s"},
        {"at=1e30ps link-down link=0:1", "too large", "1000000s"},
        {"at=1e9999s link-down link=0:1", "at=1e9999s:", "10ns"},
        {"at=0.0001ns link-down link=0:1", "too fine", "whole picoseconds"},
        {"at=0.0000000000000000000000000000001s link-down link=0:1", "too fine", "picoseconds"},
        {"for=0 link-down link=0:1", "for=0 is too small", "at least 1ps"},
        {"every=0s link-down link=0:1", "every=0s is too small", "at least 1ps"},
        {"every=1s link-down link=0:1", "never ends", "for=TIME"},
        {"every=1s for=1s link-down link=0:1", "every=1s for=1s", "less than 'every'"},
        {"every=1s for=2s link-down link=0:1", "begin again before it ends", "less than"},
        {"on=allreduce link-down link=0:1", "on=allreduce:", "allreduce:3"},
        {"on=allreduce:0 link-down link=0:1", "on=allreduce:0", "from 1"},
        {"on=unicast:1 link-down link=0:1", "on=unicast:1", "barrier"},
        {"on=set:1 link-down link=0:1", "on=set:1", "barrier"},
        {"on=barrier:1:2:3 link-down link=0:1", "on=barrier:1:2:3", "allreduce:3:0"},
        {"on=barrier:1:2147483648 link-down link=0:1", "on=barrier", "the group"},
        {"on=barrier:9223372036854775808 link-down link=0:1", "on=barrier", "from 1"},
    };

    each_is_refused(rows, sizeof rows / sizeof rows[0], NULL);
}

static void fault_parse__reports_the_wrong_value(void)
{
    static const struct refused rows[] = {
        {"loss link=0:1 rate=0", "rate=0 is too small", "1e-9 to 1"},
        {"loss link=0:1 rate=0%", "rate=0% is too small", "1e-9 to 1"},
        {"loss link=0:1 rate=1.000000001", "is too large", "1e-9 to 1"},
        {"loss link=0:1 rate=101%", "rate=101% is too large", "1e-9 to 1"},
        {"loss link=0:1 rate=1e-10", "rate=1e-10 is too fine", "billionths"},
        {"loss link=0:1 rate=-0.5", "rate=-0.5:", "1e-9 to 1"},
        {"loss link=0:1 rate=0.5%%", "rate=0.5%%:", "0.1%"},
        {"loss link=0:1 rate=inf", "rate=inf:", "0.1%"},
        {"loss link=0:1 nth=0", "nth=0 is too small", "from 1"},
        {"loss link=0:1 nth=9223372036854775808", "is too large", "from 1"},
        {"loss link=0:1 nth=1.5", "nth=1.5 is too fine", "number"},
        {"loss link=0:1 count=0", "count=0 is too small", "at least 1"},
        {"loss link=0:1 nth=2 rate=0.5", "nth hits once", "leave out rate"},
        {"loss link=0:1 nth=2 count=3", "nth hits once", "leave out count"},
        {"loss link=0:1 packet=credit", "packet=credit", "ack,nack"},
        {"loss link=0:1 packet=ack,", "packet=ack,", "ack,nack"},
        {"loss link=0:1 packet=", "packet=:", "ack,nack"},
        {"loss link=0:1 kind=broadcast", "kind=broadcast", "multicast"},
        {"loss link=0:1 from=4294967295", "from=4294967295", "number of a node"},
        {"loss link=0:1 group=2147483648", "too large", "2147483647"},
        {"combine-flip switch=0 kind=barrier", "combine-flip", "reduce or allreduce"},
        {"bit-errors link=0:1 part=tail", "part=tail", "header, payload or any"},
        {"slow-link link=0:1 factor=1", "factor=1 is too small", "above 1"},
        {"slow-link link=0:1 factor=1000.001", "too large", "at most 1000"},
        {"slow-link link=0:1 factor=1.0001", "too fine", "thousandths"},
        {"node-slow node=0 share=1", "share=1 is too large", "below 1"},
        {"node-slow node=0 share=0", "share=0 is too small", "above 0"},
        {"noise node=0 period=1ms length=1ms", "lose all of its time", "less than 'period'"},
        {"partition node=any", "no other nodes", "nodes=0-3"},
    };

    each_is_refused(rows, sizeof rows / sizeof rows[0], NULL);
}

static void fault_parse__reports_the_wrong_target(void)
{
    static const struct refused rows[] = {
        {"link-down link=0", "link=0:", "S:P"},
        {"link-down link=0:", "link=0:", "S:P"},
        {"link-down link=:1", "link=:1", "S:P"},
        {"link-down link=0:256", "link=0:256", "S:P"},
        {"link-down link=4294967295:1", "link=4294967295:1", "S:P"},
        {"link-down link=0:1>>", "link=0:1>>", "S:P>"},
        {"link-down link=0:1><", "link=0:1><", "S:P<"},
        {"link-down link=n", "link=n:", "nN"},
        {"link-down link=n1:", "link=n1:", "nN:L"},
        {"link-down link=n1048576", "link=n1048576", "nN"},
        {"link-down link=_x", "link=_x", "or any"},
        {"link-down link=leaf1:2>>", "link=leaf1:2>>", "NAME:P"},
        {"loss link=any kind=reduce,alreduce", "kind=reduce,alreduce", "mean 'allreduce'?"},
        {"bit-errors link=any part=hedaer", "part=hedaer", "mean 'header'?"},
        {"link-donw link=any", "no fault 'link-donw'", "mean 'link-down'?"},
        {"loss link=any rtae=1", "no key 'rtae'", "mean 'rate'?"},
        {"link-down level=x", "level=x", "level 0"},
        {"link-down switch=any", "switch=any", "link=any"},
        {"switch-crash switch=-1", "switch=-1", "number of a switch"},
        {"switch-crash top=0", "top=0", "from 1"},
        {"switch-crash random=0%", "random=0%", "25%"},
        {"switch-crash random=101%", "random=101%", "25%"},
        {"switch-crash random=", "random=:", "from 1"},
        {"switch-crash random=1.5", "random=1.5", "from 1"},
        {"node-kill node=1-2", "node=1-2", "number of a node"},
        {"node-kill node=1,2", "node=1,2", "number of a node"},
        {"node-kill node=1048576", "node=1048576", "1048575"},
        {"node-kill nodes=2-1", "nodes=2-1", "0-3,8"},
        {"node-kill nodes=1,,2", "nodes=1,,2", "0-3,8"},
        {"node-kill nodes=1-", "nodes=1-", "0-3,8"},
        {"node-kill nodes=0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,"
         "52,54,56,58,60,62,64",
         "nodes=0,2,4", "32 ranges"},
    };

    each_is_refused(rows, sizeof rows / sizeof rows[0], NULL);
}

/* --- names of nodes ----------------------------------------------------------------------- */

/* Names that look like numbers, ranges, lists and keywords; node 7 has no description. */
static struct topo_graph *named_graph(void)
{
    static const char *const titles[] = {"gpu-01", "gpu-02", "1-2", "a,b",
                                         "any",    "4711",   "x y", ""};
    char text[2048] = "Switch 8 \"leaf\" # \"leaf\"\n", error[1024] = "";
    size_t used = strlen(text);
    struct topo_graph *graph = NULL;

    for (int i = 0; i < 8; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "[%d] \"h%d\"[1]\n", i + 1, i);
    for (int i = 0; i < 8; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "Ca 1 \"h%d\" # \"%s\"\n", i,
                                 titles[i]);
    CU_ASSERT_EQUAL_FATAL(topo_read(&graph, "net", text, used, error, sizeof error), 0);
    CU_ASSERT_STRING_EQUAL(topo_node_name(graph, 1), "gpu-02");
    return graph;
}

/* A name means the same fault as the number, and is in the printed text if it can be read again. */
static void fault_parse__reads_names_of_nodes(void)
{
    static const struct {
        const char *name, *number, *printed;
    } rows[] = {
        {"loss link=any from=gpu-01 to=gpu-02", "loss link=any from=0 to=1", ""},
        {"loss link=any from=1-2 to=a,b", "loss link=any from=2 to=3",
         "loss link=any from=1-2 to=3"},
        {"loss link=any from=4711 to=h6", "loss link=any from=5 to=6",
         "loss link=any from=4711 to=6"},
        {"loss link=any from=any", "loss link=any from=4", "loss link=any from=4"},
        {"node-kill node=gpu-02", "node-kill node=1", ""},
        {"node-kill node=1-2", "node-kill nodes=2", ""},
        {"node-kill node=h7", "node-kill nodes=7", ""},
        {"node-kill node=a,b", "node-kill node=3", "node-kill node=3"},
        {"node-kill nodes=any", "node-kill node=4", "node-kill node=4"},
        {"node-kill nodes=a,b", "node-kill node=3", "node-kill node=3"},
        {"node-kill nodes=1-2", "node-kill nodes=1,2", "node-kill nodes=1-2"},
        {"node-kill nodes=gpu-01,4-5,h7", "node-kill nodes=0,4-5,7", "node-kill nodes=0,4-5,7"},
    };
    struct topo_graph *graph = named_graph();

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *printed = *rows[i].printed ? rows[i].printed : rows[i].name;
        char error[FAULT_ERROR_BYTES] = "", text[FAULT_TEXT_BYTES];
        struct fault named, again, numbered = parsed(rows[i].number);

        CU_ASSERT_EQUAL_FATAL(fault_parse(&named, rows[i].name, graph, error, sizeof error), 0);
        CU_ASSERT(same(&named, &numbered));
        fault_print(&named, graph, text);
        CU_ASSERT_STRING_EQUAL(text, printed);
        CU_ASSERT_EQUAL_FATAL(fault_parse(&again, text, graph, error, sizeof error), 0);
        CU_ASSERT(same(&named, &again));
    }
    topo_free(graph);
}

static void fault_parse__reports_the_wrong_node(void)
{
    static const struct refused rows[] = {
        {"loss link=any from=gpu-03", "from=gpu-03: there is no node gpu-03", "mean 'gpu-0"},
        {"loss link=any to=8", "to=8: there is no node 8", "nodes 0 to 7"},
        {"loss link=any from=", "from=: it must be", "or its name"},
        {"loss link=any from", "from has no value", "or its name"},
        {"node-kill node=gpu01", "there is no node gpu01", "mean 'gpu-01'?"},
        {"node-kill nodes=0,gpu01", "there is no node gpu01", "mean 'gpu-01'?"},
        {"node-kill nodes=gpu-01-gpu-02", "there is no node gpu-01-gpu-02", "nodes 0 to 7"},
        {"node-kill nodes=2-1", "nodes=2-1: it must be", "0-3,8"},
        {"node-kill nodes=0,a,b", "there is no node a", "nodes 0 to 7"},
    };
    struct topo_graph *graph = named_graph(), *plain = NULL;
    char error[FAULT_ERROR_BYTES] = "";
    struct fault fault;

    each_is_refused(rows, sizeof rows / sizeof rows[0], graph);
    topo_free(graph);
    CU_ASSERT_EQUAL_FATAL(topo_parse(&plain, "kary:2,2", error, sizeof error), 0);
    CU_ASSERT_EQUAL(fault_parse(&fault, "loss link=any from=a", plain, error, sizeof error),
                    -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "because it is not from a file, no names"));
    topo_free(plain);
}

/* --- limits ------------------------------------------------------------------------------- */

static void fault_parse__refuses_overlong_words(void)
{
    static const char *const fronts[] = {"", "at=", "link-down link=", "node-kill nodes=", "loss "};
    const size_t bytes = 1 << 20;
    char *text = malloc(bytes + 1), error[FAULT_ERROR_BYTES];
    struct fault fault;

    for (size_t i = 0; i < sizeof fronts / sizeof fronts[0]; i++) {
        memset(text, '7', bytes);
        text[bytes] = '\0';
        memcpy(text, fronts[i], strlen(fronts[i]));
        CU_ASSERT_EQUAL(fault_parse(&fault, text, NULL, error, sizeof error), -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(error, "longer than 1023 characters"));
    }
    free(text);
}

/* An error is truncated to its buffer, however small. */
static void fault_parse__truncates_the_error_to_its_buffer(void)
{
    struct fault fault;
    char error[64];

    for (size_t room = 0; room < sizeof error; room++) {
        memset(error, '*', sizeof error);
        CU_ASSERT_EQUAL(fault_parse(&fault, "fly link=0:1", NULL, error, room), -EINVAL);
        CU_ASSERT_EQUAL(error[room], '*');
        if (room)
            CU_ASSERT_EQUAL(strlen(error), room - 1);
    }
}

/* --- garbage -------------------------------------------------------------------------- */

static const char *const seeds[] = {
    "at=1.5s for=10ms every=20ms on=allreduce:3:7 loss link=4:5> packet=ack,nack kind=reduce "
    "from=1 to=2 group=9 rate=0.1% count=12",
    "at=1e3us link-flap link=n3:1< down=1ms up=0.5ms",
    "bit-errors level=1 part=header rate=2.5e-4 nth=3",
    "for=1s partition nodes=0-3,8,10-1048575",
    "noise random=6.25% period=10ms length=100us",
    "every=1s node-kill node=any",
    "slow-link top=2 factor=1.5",
};

/* One or several bytes are changed, removed, duplicated, or copied from elsewhere. */
static size_t mutate(uint64_t *random, char *text, size_t bytes, size_t room)
{
    static const char likely[] = " =:,-<>%.#e0123456789nsum\t\r\n\"any";

    for (uint64_t times = test_draw(random, 1, 6); times; times--) {
        size_t at = (size_t)test_draw(random, 0, bytes ? bytes - 1 : 0);
        size_t from = (size_t)test_draw(random, 0, bytes ? bytes - 1 : 0);
        size_t length = (size_t)test_draw(random, 0, bytes - (at > from ? at : from));

        switch (test_draw(random, 0, 4)) {
        case 0:
            text[at] = likely[test_draw(random, 0, sizeof likely - 2)];
            break;
        case 1:
            text[at] = (char)test_draw(random, 0, 255);
            break;
        case 2: /* some are removed */
            memmove(text + at, text + at + length, bytes - at - length);
            bytes -= length;
            break;
        case 3: /* some are copied from elsewhere */
            memmove(text + at, text + from, length);
            break;
        default: /* some are duplicated */
            if (bytes + length > room)
                break;
            memmove(text + at + length, text + at, bytes - at);
            bytes += length;
        }
    }
    return bytes;
}

/* An accepted text must survive a round trip; a refused one must give one line. */
static void check_round_trip(const char *text)
{
    struct fault fault;
    char error[FAULT_ERROR_BYTES] = "", canonical[FAULT_TEXT_BYTES];

    if (fault_parse(&fault, text, NULL, error, sizeof error) == 0) {
        fault_print(&fault, NULL, canonical);
        struct fault again = parsed(canonical);
        if (!same(&fault, &again))
            printf("%s\n%s\n", text, canonical);
        CU_ASSERT_FATAL(same(&fault, &again));
    } else {
        CU_ASSERT_FATAL(*error && !strchr(error, '\n') && !strchr(error, '\r'));
    }
}

static void garbage__is_refused_or_parsed(void)
{
    uint64_t random = test_seed();
    char room[1024], error[FAULT_ERROR_BYTES];
    struct fault_schedule schedule;

    for (uint32_t i = 0; i < MUTATIONS; i++) {
        const char *seed = seeds[i % (sizeof seeds / sizeof seeds[0])];

        memcpy(room, seed, strlen(seed));
        size_t bytes = mutate(&random, room, strlen(seed), sizeof room);
        char *text = malloc(bytes + 1); /* of the exact size: sanitizers detect a read beyond it */
        memcpy(text, room, bytes);
        text[bytes] = '\0';
        check_round_trip(text);
        free(text);
        char *bare = malloc(bytes ? bytes : 1);
        memcpy(bare, room, bytes);
        if (fault_schedule_text(&schedule, "bare", bare, bytes, NULL, error, sizeof error) == 0)
            fault_schedule_release(&schedule);
        free(bare);
    }
}

/* --- schedules --------------------------------------------------------------------------- */

static struct fault_schedule read_good(const char *text, size_t bytes)
{
    struct fault_schedule schedule = {0};
    char error[FAULT_ERROR_BYTES + 128] = "";

    if (fault_schedule_text(&schedule, "s", text, bytes, NULL, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good schedule was refused");
    }
    return schedule;
}

static void schedule__accepts_comments_and_line_ends(void)
{
    static const char text[] = "# first\r\n"
                               "\r\n"
                               "  link-down link=0:1   # a cable = here\r\n"
                               "\t \n"
                               "node-kill node=3#\n"
                               "\n\n"
                               "loss link=any"; /* without a final newline */
    struct fault_schedule schedule = read_good(text, sizeof text - 1);

    CU_ASSERT_EQUAL_FATAL(schedule.count, 3);
    CU_ASSERT_EQUAL(schedule.line[0].number, 3);
    CU_ASSERT_EQUAL(schedule.line[0].fault.kind, FAULT_LINK_DOWN);
    CU_ASSERT_EQUAL(schedule.line[1].number, 5);
    CU_ASSERT_EQUAL(schedule.line[1].fault.kind, FAULT_NODE_KILL);
    CU_ASSERT_EQUAL(schedule.line[2].number, 8);
    CU_ASSERT_EQUAL(schedule.line[2].fault.kind, FAULT_LOSS);
    fault_schedule_release(&schedule);
    CU_ASSERT_EQUAL(schedule.count, 0);
}

static void refused_as(const char *text, size_t bytes, int err, const char *wrong)
{
    struct fault_schedule schedule;
    char error[FAULT_ERROR_BYTES + 128] = "";

    CU_ASSERT_EQUAL(fault_schedule_text(&schedule, "name", text, bytes, NULL, error, sizeof error),
                    err);
    if (!strstr(error, wrong))
        printf("\n%s\n", error);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, wrong));
}

static void schedule__reports_the_wrong_line(void)
{
    static const char zero[] = "link-down link=0:1\nlink-down\0 link=0:1\n";
    char *text = malloc(100000);

    refused_as("", 0, -EINVAL, "name: contains no fault; an example");
    refused_as("# nothing\n\n", 11, -EINVAL, "contains no fault");
    refused_as("link-down link=0:1\n\nfly\n", 24, -EINVAL, "name, line 3: no fault 'fly'");
    refused_as("link-down link=0:1\rloss link=0:1\n", 33, -EINVAL, "line 1: a control character");
    refused_as(zero, sizeof zero - 1, -EINVAL, "name, line 2: a zero byte");
    memset(text, 'x', 100000);
    refused_as(text, 100000, -EINVAL, "line 1: longer than 4095 characters");
    refused_as(text, 4096, -EINVAL, "line 1: longer than 4095 characters");
    refused_as(text, 4095, -EINVAL, "line 1: 'xxxx");
    text[0] = '#'; /* a comment may have any length */
    memcpy(text + 99980, "\nloss link=any\n    ", 19);
    struct fault_schedule schedule = read_good(text, 99999);
    CU_ASSERT_EQUAL(schedule.count, 1);
    fault_schedule_release(&schedule);
    free(text);
}

static void schedule__accepts_thousands_of_lines(void)
{
    const uint32_t most = 65536;
    char *text;
    size_t bytes, last = 0;
    FILE *to = open_memstream(&text, &bytes);

    for (uint32_t i = 0; i <= most; i++) {
        if (i == most) {
            fflush(to);
            last = bytes;
        }
        fprintf(to, "at=%ums link-down link=%u:1\n", i, i);
    }
    fclose(to);
    struct fault_schedule schedule = read_good(text, last);
    CU_ASSERT_EQUAL_FATAL(schedule.count, most);
    CU_ASSERT_EQUAL(schedule.line[most - 1].fault.where.port.sw, most - 1);
    CU_ASSERT_EQUAL(schedule.line[most - 1].number, most);
    fault_schedule_release(&schedule);
    refused_as(text, bytes, -E2BIG, "name, line 65537: more than 65536 faults");
    free(text);
}

static void schedule__is_a_scenario_or_a_file(void)
{
    struct fault_schedule schedule;
    char error[FAULT_ERROR_BYTES + 128], name[] = "/tmp/fault_test.XXXXXX";
    int fd = mkstemp(name);

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(write(fd, "loss link=any rate=1e-3", 23), 23);
    close(fd);
    CU_ASSERT_EQUAL_FATAL(fault_schedule_read(&schedule, name, NULL, error, sizeof error), 0);
    CU_ASSERT_EQUAL(schedule.count, 1);
    fault_schedule_release(&schedule);
    unlink(name);
    CU_ASSERT_EQUAL(fault_schedule_read(&schedule, name, NULL, error, sizeof error), -EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "No such file"));
    CU_ASSERT_EQUAL(fault_schedule_read(&schedule, "/", NULL, error, sizeof error), -EIO);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "Is a directory"));
    CU_ASSERT_EQUAL(fault_schedule_read(&schedule, "/dev/zero", NULL, error, sizeof error), -E2BIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "not a schedule"));
    CU_ASSERT_EQUAL(fault_schedule_read(&schedule, "flop", NULL, error, sizeof error), -ENOENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "no scenario 'flop'; there are flap, "));
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "partition-heals; the name of a file has"));
    CU_ASSERT_EQUAL_FATAL(fault_schedule_read(&schedule, "flap", NULL, error, sizeof error), 0);
    CU_ASSERT_EQUAL(schedule.count, 3);
    fault_schedule_release(&schedule);
}

static const struct test_case cases[] = {
    CASE(fault_parse__sets_the_given_fields),
    CASE(fault_parse__defaults_to_all_targets),
    CASE(fault_print__has_one_text_for_a_time),
    CASE(fault_print__has_one_text_for_a_rate),
    CASE(fault_print__has_one_text_for_all_else),
    CASE(fault_print__is_read_as_the_same_fault),
    CASE(fault_parse__reports_the_wrong_word),
    CASE(fault_parse__reports_the_wrong_time),
    CASE(fault_parse__reports_the_wrong_value),
    CASE(fault_parse__reports_the_wrong_target),
    CASE(fault_parse__reads_names_of_nodes),
    CASE(fault_parse__reports_the_wrong_node),
    CASE(fault_parse__refuses_overlong_words),
    CASE(fault_parse__truncates_the_error_to_its_buffer),
    CASE(garbage__is_refused_or_parsed),
    CASE(schedule__accepts_comments_and_line_ends),
    CASE(schedule__reports_the_wrong_line),
    CASE(schedule__accepts_thousands_of_lines),
    CASE(schedule__is_a_scenario_or_a_file),
    {NULL, NULL},
};

int main(void)
{
    return test_run("fault", cases);
}
