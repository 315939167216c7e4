/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock_test.c - clock real, started at any time: delays are correct and everything arrives, also
 * when times wrap around, when the fabric rebases the clock, and after a long time without traffic.
 *
 * Workers are threads; this thread acts for all processes and the manager. Nothing may arrive
 * early. Lateness is not checked, because it depends on the machine.
 */
#include <string.h>

#include "emu/util/combine.h"
#include "emu/util/now.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODES    4u
#define LEAST    60u /* segments of each node */
#define UNDERWAY 48u /* in flight at a time */
#define SUMS     20u /* all-reduces: within a half window, so that no tokens are needed */
#define MS_PS    UINT64_C(1000000000)
#define LIMIT_NS UINT64_C(20000000000)
#define DAY_NS   UINT64_C(86400000000000)

struct clock_fixture {
    struct hostifs e;
    uint64_t least_ps; /* minimum delay of any segment */
    bool combines;
    uint32_t group;
    uint32_t sums[NODES]; /* results received */
    uint32_t posted, got, early, wrong;
};

/* A network and its profile. */
struct kind {
    const char *topo, *profile, *set;
};

static void clock_fixture_group(struct clock_fixture *b)
{
    const uint32_t nodes[NODES] = {0, 1, 2, 3};
    char error[256];

    b->combines = !fabric_group_create(b->e.fabric, nodes, NODES, &b->group, error, sizeof error);
}

static void clock_fixture_open(struct clock_fixture *b, const struct kind *kind, uint64_t start_ps)
{
    struct fabric_config config = {.clock = EMU_CLOCK_REAL,
                                   .threads = 2,
                                   .start_ps = start_ps,
                                   .seed = test_seed()};

    memset(b, 0, sizeof *b);
    fixture_profile(&config.profile, kind->profile, kind->set);
    b->least_ps = 2 * config.profile.channel_ps + config.profile.nic_recv_ps;
    hostifs_open(&b->e, kind->topo, &config);
    clock_fixture_group(b);
}

static void clock_fixture_post(struct clock_fixture *b, uint32_t node, const struct emu_hdr *hdr,
                               uint64_t value)
{
    uint8_t payload[EMU_PAYLOAD_BYTES] = {0};

    memcpy(payload, &value, sizeof value);
    CU_ASSERT_TRUE_FATAL(hostifs_post(&b->e, node, hdr, payload));
}

/* Send to another node, with the time of the post in the payload. */
static void clock_fixture_send(struct clock_fixture *b, uint32_t node)
{
    struct emu_hdr hdr = {.dst = (node + 1 + b->posted / NODES % (NODES - 1)) % NODES,
                          .seq = b->posted,
                          .len = b->posted % 3 ? EMU_PAYLOAD_BYTES : 8};

    clock_fixture_post(b, node, &hdr, hostifs_now(&b->e, node));
    b->posted++;
}

static void clock_fixture_sum(struct clock_fixture *b, uint32_t node)
{
    struct emu_hdr hdr = {.dst = b->group,
                          .seq = b->sums[node],
                          .len = 8,
                          .kind = EMU_ALLREDUCE,
                          .op = EMU_SUM,
                          .type = EMU_U64};

    clock_fixture_post(b, node, &hdr, node + 1);
}

static void clock_fixture_take_one(struct clock_fixture *b, uint32_t node,
                                   const struct emu_seg *seg, uint64_t now_ps)
{
    uint64_t value;

    memcpy(&value, seg->payload, sizeof value);
    if (seg->hdr.kind == EMU_UNICAST) {
        b->got++;
        b->early += (int64_t)(now_ps - value - b->least_ps) < 0;
    } else {
        b->wrong += seg->hdr.kind != EMU_ALLREDUCE || seg->hdr.seq != b->sums[node] ||
                    value != NODES * (NODES + 1) / 2;
        if (++b->sums[node] < SUMS)
            clock_fixture_sum(b, node);
    }
}

static void clock_fixture_take(struct clock_fixture *b, uint32_t node)
{
    uint64_t now_ps = hostifs_now(&b->e, node);
    struct emu_seg seg;

    while (hostifs_take_by(&b->e, node, now_ps, &seg))
        clock_fixture_take_one(b, node, &seg, now_ps);
}

static bool clock_fixture_over(const struct clock_fixture *b, bool enough)
{
    bool over = enough && b->got == b->posted;

    for (uint32_t n = 0; n < NODES && b->combines; n++)
        over = over && b->sums[n] == SUMS;
    return over;
}

/* Traffic of all nodes until there was enough, and, if @rebased, the clock was rebased. */
static void clock_fixture_run(struct clock_fixture *b, bool rebased)
{
    uint64_t end_ns = emu_now_ns() + LIMIT_NS, before_ps = b->e.fabric->clock.rebased_ps;
    uint32_t after = 0, looks = 0;
    bool enough = false;

    for (uint32_t n = 0; n < NODES && b->combines; n++)
        clock_fixture_sum(b, n);
    while (!clock_fixture_over(b, enough) && emu_now_ns() < end_ns) {
        bool turned = b->e.fabric->clock.rebased_ps != before_ps;
        uint32_t got = b->got;

        after = turned && !after ? b->posted : after;
        enough = b->posted >= NODES * LEAST && (!rebased || (turned && b->posted >= after + LEAST));
        for (uint32_t n = 0; n < NODES; n++) {
            if (!enough && b->posted - b->got < UNDERWAY)
                clock_fixture_send(b, n);
            clock_fixture_take(b, n);
        }
        fabric_clock_tick(b->e.fabric);
        if (b->got == got)
            hostifs_pause(looks++);
    }
    CU_ASSERT_TRUE(clock_fixture_over(b, enough));
    CU_ASSERT_EQUAL(b->e.fabric->clock.rebased_ps - before_ps, rebased ? EMU_REBASE_BY_PS : 0);
}

/* Advance the host's clock by @ns while the workers are stopped. */
static void clock_fixture_move_on(struct clock_fixture *b, uint64_t ns)
{
    b->e.fabric->clock.origin_ns -= ns;
    for (uint32_t w = 0; w < b->e.fabric->workers; w++)
        b->e.fabric->worker[w]->clock.origin_ns -= ns;
    for (uint32_t n = 0; n < NODES; n++)
        if (b->e.fabric->hostif[n])
            b->e.fabric->hostif[n]->shared->origin_ns -= ns;
}

static void clock_fixture_hold(struct clock_fixture *b, bool hold)
{
    hold ? fabric_pause(b->e.fabric) : fabric_resume(b->e.fabric);
}

static void clock_begins_at(const struct kind *kind, uint64_t start_ps, bool rebased)
{
    struct fabric_totals totals;
    struct clock_fixture b;

    clock_fixture_open(&b, kind, start_ps);
    clock_fixture_hold(&b, true);
    if (rebased)
        clock_fixture_move_on(&b,
                              (EMU_REBASE_PS - MS_PS - emu_clock_now(&b.e.fabric->clock)) / 1000u);
    clock_fixture_hold(&b, false);
    clock_fixture_run(&b, rebased);
    fabric_totals_read(b.e.fabric, &totals);
    CU_ASSERT_EQUAL(b.early, 0);
    CU_ASSERT_EQUAL(b.wrong, 0);
    CU_ASSERT_EQUAL(totals.dropped, 0);
    CU_ASSERT_TRUE(totals.real_time_factor <= 1.0);
    hostifs_close(&b.e);
}

/* The workers are stopped and have nothing to do, now or later. */
static bool clock_fixture_is_idle(const struct clock_fixture *b)
{
    bool rests = true;

    for (uint32_t w = 0; w < b->e.fabric->workers; w++)
        rests = rests && emu_worker_quiet(b->e.fabric->worker[w]) &&
                emu_worker_due_ps(b->e.fabric->worker[w]) == EMU_NEVER;
    return rests;
}

/*
 * All processes detach; when nothing is in flight, the host's clock advances by @days, and all
 * attach again.
 */
static void clock_fixture_idle(struct clock_fixture *b, uint64_t days)
{
    uint64_t end_ns = emu_now_ns() + LIMIT_NS;
    bool rests = false;

    for (uint32_t n = 0; n < NODES; n++)
        hostifs_detach(&b->e, n);
    while (!rests && emu_now_ns() < end_ns) {
        clock_fixture_hold(b, true);
        rests = clock_fixture_is_idle(b);
        if (rests)
            clock_fixture_move_on(b, days * DAY_NS);
        clock_fixture_hold(b, false);
    }
    CU_ASSERT_TRUE_FATAL(rests);
    memset(b->sums, 0, sizeof b->sums);
    b->posted = b->got = 0;
    for (uint32_t n = 0; n < NODES; n++)
        hostifs_attach(&b->e, n);
    clock_fixture_group(b);
}

static const struct kind kinds[] = {
    {"kary:2,2", "oq2004", NULL},
    {"kary:2,2", "oq2004", "combine_units=2"},
    {"kary:2,2", "oq2004", "buffers=input_xpoint"},
    {"kary:2,2", "oq2004", "buffers=input"},
    {"qsnet:4,links=2", "qsnet3", NULL},
    {"kary:2,2", "qsnet3", "combining=switch"},
};

/* Near the end of 63 bits, of 64 bits, and at random. */
static void clock__starts_anywhere(void)
{
    const uint64_t starts[] = {MS_PS, (UINT64_C(1) << 63) - MS_PS, (UINT64_C(1) << 63) + 5 * MS_PS,
                               UINT64_MAX - MS_PS};

    for (uint32_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (uint32_t s = 0; s < sizeof starts / sizeof starts[0]; s++)
            clock_begins_at(&kinds[k], starts[s], false);
}

/* Rebased while segments, credits and results are in flight. */
static void clock__is_rebased_under_traffic(void)
{
    for (uint32_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        clock_begins_at(&kinds[k], MS_PS, true);
}

/* Past the end of 63 bits and of 64 bits, repeatedly. */
static void clock__continues_after_a_long_idle_time(void)
{
    const uint64_t days[] = {120, 220, 4000};
    struct clock_fixture b;

    for (uint32_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        clock_fixture_open(&b, &kinds[k], 20 * DAY_NS * 1000u);
        clock_fixture_run(&b, false);
        for (uint32_t d = 0; d < sizeof days / sizeof days[0]; d++) {
            clock_fixture_idle(&b, days[d]);
            clock_fixture_run(&b, false);
        }
        CU_ASSERT_EQUAL(b.early, 0);
        CU_ASSERT_EQUAL(b.wrong, 0);
        hostifs_close(&b.e);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        {"clock__starts_anywhere", clock__starts_anywhere},
        {"clock__is_rebased_under_traffic", clock__is_rebased_under_traffic},
        {"clock__continues_after_a_long_idle_time", clock__continues_after_a_long_idle_time},
        {NULL, NULL},
    };

    return test_run("clock", cases);
}
