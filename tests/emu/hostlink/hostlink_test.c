/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink_test.c - the host link's device: cables between two hosts, over a wire in memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/fixtures/hostlink/duo.h"

#define SEEDS  TEST_ALONE(50u)
#define STEPS  400000u   /* a hang, not a slow host */
#define CUT_NS 50000000u /* longer than a host may be silent */

static void bad_wire(struct duo *h, uint32_t each)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_faults *faults = wire_faults(h->wire, i);

        faults->lost = faults->twice = faults->damaged = each;
        faults->jitter_ns = 20000;
    }
}

/* --- cables ------------------------------------------------------------------------- */

/* All arrives once, in order, as it was sent, and credits are as many as they were, at any time. */
static void cables_carry(enum duo_kind kind, uint64_t seed)
{
    static const uint32_t credits[] = {1, 4, 16, 255};
    uint64_t cuts[2]; /* a handshake on a bad wire may need two lives */
    struct duo h;

    duo_open(&h, &(struct duo_config){.kind = kind,
                                      .cables = 1 + (uint32_t)(seed % 5),
                                      .credits = credits[(seed >> 8) % 4],
                                      .depth = (uint32_t)(seed >> 16) % 3 * 20,
                                      .seed = seed});
    bad_wire(&h, seed % 3 ? 20000 : 0);
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    for (uint32_t host = 0; host < 2; host++)
        cuts[host] = emu_count_read(&duo_counts(&h, host)->cuts);
    duo_limit(&h, 300);
    for (uint32_t i = 0; i < STEPS && !duo_are_done(&h); i++) {
        duo_step(&h);
        if (i % 64 == 0)
            CU_ASSERT_EQUAL_FATAL(duo_wrong(&h), 0);
    }
    CU_ASSERT_TRUE(duo_are_done(&h));
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    for (uint32_t host = 0; host < 2; host++) {
        CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&h, host)->cuts), cuts[host]);
        CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&h, host)->entries_sent),
                        emu_count_read(&duo_counts(&h, !host)->entries_received));
    }
    duo_close(&h);
}

static void cables_carry_seeds(enum duo_kind kind)
{
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < SEEDS; i++)
        cables_carry(kind, test_random(&random));
}

static void cables__without_channels_carry_all_once_and_in_order(void)
{
    cables_carry_seeds(DUO_PLAIN);
}

static void cables__with_channels_carry_all_once_and_in_order(void)
{
    cables_carry_seeds(DUO_CHANNELS);
}

static void cables__of_both_kinds_share_a_link(void)
{
    cables_carry_seeds(DUO_MIXED);
}

/* --- shares ------------------------------------------------------------------------- */

/*
 * What a cable sends in a while does not depend on its number, nor on how much others want to, nor
 * on how many credits it has: the first has as many as a turn fifteen times over.
 */
static void shares__cables_that_always_have_something_get_the_same(void)
{
    uint64_t least = UINT64_MAX, most = 0, before[40];
    struct duo h;

    duo_open(&h,
             &(struct duo_config){.cables = 40, .credits = 64, .first = 255, .seed = test_seed()});
    wire_faults(h.wire, 0)->each_ns = 20000; /* the wire is what they share */
    wire_faults(h.wire, 0)->queue = 8;
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    for (uint32_t i = 0; i < h.cables; i++)
        h.host[0].end[i].limit = i % 7 != 3 ? UINT64_MAX : 0; /* some have nothing */
    for (uint32_t i = 0; i < 1000; i++)
        duo_step(&h);
    for (uint32_t i = 0; i < h.cables; i++)
        before[i] = h.host[1].end[i].got;
    for (uint32_t i = 0; i < 20000; i++)
        duo_step(&h);
    for (uint32_t i = 0; i < h.cables; i++) {
        uint64_t got = h.host[1].end[i].got - before[i];

        if (i % 7 == 3)
            continue;
        least = got < least ? got : least;
        most = got > most ? got : most;
    }
    CU_ASSERT_TRUE(least > 10 * EMU_HOSTLINK_QUANTUM);
    CU_ASSERT_TRUE(most - least <=
                   8 * EMU_HOSTLINK_QUANTUM); /* some turns, for credits come in lumps */
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

/* --- the control channel ------------------------------------------------------------ */

static uint64_t got_by(const struct duo *h, uint32_t host)
{
    uint64_t got = 0;

    for (uint32_t i = 0; i < h->cables; i++)
        got += h->host[host].end[i].got;
    return got;
}

/* Its bytes come in order while cables take all that the wire has. */
static void control__goes_on_while_cables_are_busy(void)
{
    struct duo h;

    duo_open(&h, &(struct duo_config){.kind = DUO_MIXED, .cables = 8, .seed = test_seed()});
    bad_wire(&h, 10000);
    wire_faults(h.wire, 0)->each_ns = wire_faults(h.wire, 1)->each_ns = 10000;
    wire_faults(h.wire, 0)->queue = wire_faults(h.wire, 1)->queue = 8;
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    duo_limit(&h, UINT64_MAX);
    for (uint32_t i = 0;
         i < STEPS && (h.host[0].control_got < 300000 || h.host[1].control_got < 300000); i++) {
        duo_step(&h);
        for (uint32_t host = 0; host < 2; host++)
            duo_control(&h, host, i % 50 ? 0 : 1 + i % 4096);
    }
    for (uint32_t host = 0; host < 2; host++) {
        CU_ASSERT_TRUE(h.host[host].control_got >= 300000);
        CU_ASSERT_TRUE(got_by(&h, host) > 1000);
    }
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

/* Two hosts that no cable of the network joins have a link all the same. */
static void control__goes_between_hosts_without_cables(void)
{
    struct duo h;

    duo_open(&h, &(struct duo_config){.seed = test_seed()});
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    duo_control(&h, 0, 1000);
    for (uint32_t i = 0; i < 1000 && h.host[1].control_got < 1000; i++) {
        duo_step(&h);
        duo_control(&h, 1, 0);
    }
    CU_ASSERT_EQUAL(h.host[1].control_got, 1000);
    duo_close(&h);
}

/* Nobody reads at host 1: what fits waits there, no more is sent, and cables do not notice. */
static void control__that_nobody_reads_stops_itself_alone(void)
{
    uint64_t sent, seed = test_seed();
    struct duo h;

    duo_open(&h, &(struct duo_config){.cables = 3, .seed = seed});
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    for (uint32_t i = 0; i < 20000; i++) {
        duo_step(&h);
        duo_control(&h, 0, 4096);
    }
    sent = emu_count_read(&duo_counts(&h, 0)->control_sent);
    CU_ASSERT_TRUE(sent > EMU_HOSTLINK_WINDOW / 2);
    CU_ASSERT_TRUE(h.host[0].control_sent > sent);
    duo_limit(&h, 500);
    CU_ASSERT_TRUE(duo_until(&h, duo_are_done, STEPS));
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&h, 0)->control_sent), sent);
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&h, 0)->cuts), 0);
    for (uint32_t i = 0; i < STEPS && h.host[1].control_got < h.host[0].control_sent; i++) {
        duo_step(&h); /* now somebody does */
        duo_control(&h, 1, 0);
    }
    CU_ASSERT_EQUAL(h.host[1].control_got, h.host[0].control_sent);
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

/* One end says no more: the other reads to the end, and may still answer. */
static void control__an_end_is_reported_and_the_other_way_goes_on(void)
{
    struct duo h;

    duo_open(&h, &(struct duo_config){.cables = 1, .seed = test_seed()});
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    duo_control(&h, 0, 1000);
    shutdown(h.host[0].control, SHUT_WR);
    for (uint32_t i = 0; i < 1000 && !h.host[1].control_ended; i++) {
        duo_step(&h);
        duo_control(&h, 1, 0);
    }
    CU_ASSERT_TRUE(h.host[1].control_ended);
    CU_ASSERT_EQUAL(h.host[1].control_got, 1000);
    duo_control(&h, 1, 500);
    for (uint32_t i = 0; i < 1000 && h.host[0].control_got < 500; i++) {
        duo_step(&h);
        duo_control(&h, 0, 0);
    }
    CU_ASSERT_EQUAL(h.host[0].control_got, 500);
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

static bool is_closed(const struct duo *h, uint32_t host)
{
    return emu_hostlink_is_closed(h->host[host].link, 0);
}

/* Some time passes, and both hosts read their control channels. */
static void step_and_read(struct duo *h, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        duo_step(h);
        duo_control(h, 0, 0);
        duo_control(h, 1, 0);
    }
}

/*
 * On a wire that loses frames, a host finds its control channel closed only when the other host has
 * received everything. This test cuts the wire at that moment. The other host notices soon, too.
 */
static void control_closes(uint64_t seed)
{
    struct duo h;

    duo_open(&h, &(struct duo_config){.cables = 2, .seed = seed});
    CU_ASSERT_TRUE(is_closed(&h, 0)); /* there is no session yet */
    bad_wire(&h, 50000);
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    for (uint32_t host = 0; host < 2; host++)
        duo_control(&h, host, 4096);
    shutdown(h.host[0].control, SHUT_WR);
    step_and_read(&h, 2000);
    CU_ASSERT_TRUE(h.host[1].control_ended);
    for (uint32_t host = 0; host < 2; host++)
        CU_ASSERT_FALSE(is_closed(&h, host)); /* host 1 may have something to write */
    duo_control(&h, 1, 4096);
    shutdown(h.host[1].control, SHUT_WR);
    for (uint32_t i = 0; i < STEPS && !is_closed(&h, 1); i++)
        duo_step(&h);
    CU_ASSERT_TRUE_FATAL(is_closed(&h, 1));
    wire_cut(h.wire, h.now_ns + CUT_NS);
    step_and_read(&h, 10);
    CU_ASSERT_EQUAL(h.host[0].control_got, h.host[1].control_sent);
    CU_ASSERT_EQUAL(h.host[1].control_got, h.host[0].control_sent);
    CU_ASSERT_TRUE(h.host[0].control_ended);
    for (uint32_t i = 0; i < STEPS && !is_closed(&h, 0); i++)
        duo_step(&h);
    CU_ASSERT_TRUE(is_closed(&h, 0));
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

static void control__is_closed_when_both_hosts_have_received_all(void)
{
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < SEEDS; i++)
        control_closes(test_random(&random));
}

/* Nothing can be delivered to a host that is gone, so nobody waits for it. */
static void control__of_a_session_that_ends_is_closed(void)
{
    struct duo h;

    duo_open(&h, &(struct duo_config){.cables = 1, .seed = test_seed()});
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    wire_cut(h.wire, h.now_ns + CUT_NS);
    duo_control(&h, 0, 1000);
    shutdown(h.host[0].control, SHUT_WR);
    duo_step(&h);
    CU_ASSERT_FALSE(is_closed(&h, 0));
    for (uint32_t i = 0; i < STEPS && !is_closed(&h, 0); i++)
        duo_step(&h);
    CU_ASSERT_TRUE(is_closed(&h, 0));
    duo_close(&h);
}

/* --- buffers ------------------------------------------------------------------------ */

/* Where the pool has none entries wait, in order; credits and replies go on, so some get free. */
static void buffers__that_are_out_make_entries_wait(void)
{
    uint64_t random = test_seed(), waited = 0;

    for (uint32_t i = 0; i < SEEDS; i++) {
        struct duo h;

        duo_open(&h, &(struct duo_config){.kind = (enum duo_kind)(i % 3),
                                          .cables = 4,
                                          .bufs = 1 + i % 40,
                                          .depth = i % 2 * 10,
                                          .seed = test_random(&random)});
        CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
        duo_limit(&h, 200);
        CU_ASSERT_TRUE(duo_until(&h, duo_are_done, STEPS));
        CU_ASSERT_EQUAL(duo_wrong(&h), 0);
        waited += emu_count_read(&duo_counts(&h, 0)->waited);
        duo_close(&h);
    }
    CU_ASSERT_TRUE(waited > 0);
}

/* --- lives -------------------------------------------------------------------------- */

static bool both_down(struct duo *h)
{
    return emu_hostlink_phase(h->host[0].link, 0) == EMU_HOSTLINK_DOWN &&
           emu_hostlink_phase(h->host[1].link, 0) == EMU_HOSTLINK_DOWN;
}

/* One of the hosts' cables, for each. */
static void all_send_more(struct duo *h, uint64_t more)
{
    for (uint32_t i = 0; i < 2 * h->cables; i++) {
        struct duo_end *end = &h->host[i / h->cables].end[i % h->cables];

        end->limit = end->sent + more;
    }
}

static uint64_t sent_by(const struct duo *h, uint32_t host)
{
    uint64_t sent = 0;

    for (uint32_t i = 0; i < h->cables; i++)
        sent += h->host[host].end[i].sent;
    return sent;
}

/* All that the ends send from now on comes, and all credits come home. */
static void all_is_well(struct duo *h)
{
    uint64_t sent[2], got[2];

    all_send_more(h, 0);
    CU_ASSERT_TRUE_FATAL(duo_until(h, duo_are_at_rest, STEPS));
    for (uint32_t host = 0; host < 2; host++) {
        sent[host] = sent_by(h, host);
        got[host] = got_by(h, host);
    }
    all_send_more(h, 300);
    CU_ASSERT_TRUE_FATAL(duo_until(h, duo_are_at_rest, STEPS));
    for (uint32_t host = 0; host < 2; host++)
        CU_ASSERT_EQUAL(got_by(h, !host) - got[!host], sent_by(h, host) - sent[host]);
    CU_ASSERT_EQUAL(duo_wrong(h), 0);
}

/* A life ends, in the midst of traffic, and another one begins when both hosts are told. */
static void cut_and_back(struct duo *h, bool stingy)
{
    uint64_t sunk = emu_count_read(&duo_counts(h, 0)->sunk), got;

    all_send_more(h, 100000);
    for (uint32_t i = 0; i < 2000; i++)
        duo_step(h);
    for (uint32_t i = 0; i < h->cables; i++)
        h->host[1].end[i].stingy = stingy; /* what it has is old in the next life */
    wire_cut(h->wire, h->now_ns + CUT_NS);
    CU_ASSERT_TRUE_FATAL(duo_until(h, both_down, STEPS));
    CU_ASSERT_EQUAL_FATAL(duo_wrong(h), 0);
    duo_links_down(h);
    emu_hostlink_bring_up(h->host[0].link, 0); /* one alone is not enough */
    for (uint32_t i = 0; i < 100; i++)
        duo_step(h);
    got = got_by(h, 0) + got_by(h, 1);
    for (uint32_t i = 0; i < 20000; i++)
        duo_step(h);
    CU_ASSERT_EQUAL(emu_session_state(emu_hostlink_session(h->host[0].link, 0)), EMU_SESSION_UP);
    CU_ASSERT_EQUAL(emu_hostlink_phase(h->host[0].link, 0), EMU_HOSTLINK_TO_BRING_UP);
    CU_ASSERT_EQUAL(emu_hostlink_phase(h->host[1].link, 0), EMU_HOSTLINK_DOWN);
    CU_ASSERT_EQUAL(got_by(h, 0) + got_by(h, 1), got);
    CU_ASSERT_TRUE(emu_count_read(&duo_counts(h, 0)->sunk) > sunk + 100); /* nobody is held up */
    duo_links_down(h);
    emu_hostlink_bring_up(h->host[1].link, 0);
    CU_ASSERT_TRUE_FATAL(duo_until(h, duo_are_up, STEPS));
    duo_links_down(h);
    for (uint32_t i = 0; i < 2000; i++)
        duo_step(h);
    for (uint32_t i = 0; i < h->cables; i++)
        h->host[1].end[i].stingy = false;
    CU_ASSERT_EQUAL_FATAL(duo_wrong(h), 0);
}

/*
 * What was under way is lost, what is sent meanwhile is dropped and nothing backs up; nothing
 * passes until both hosts may, and then all adds up again, though switches still have much of
 * before.
 */
static void incarnations__cables_that_were_cut_come_back(void)
{
    uint64_t random = test_seed();
    uint32_t first = (uint32_t)(random % 6), last = first + TEST_ALONE(6u);

    for (uint32_t i = first; i < last; i++) {
        struct duo h;

        duo_open(&h, &(struct duo_config){.kind = (enum duo_kind)(i % 3),
                                          .cables = 4,
                                          .bufs = i % 6 < 3 ? 0 : 60,
                                          .depth = i % 2 * 10,
                                          .seed = test_random(&random)});
        CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
        for (uint32_t incarnation = 0; incarnation < 3; incarnation++)
            cut_and_back(&h, incarnation == 1);
        all_is_well(&h);
        for (uint32_t host = 0; host < 2; host++) {
            const struct emu_hostlink_counts *counts = duo_counts(&h, host);

            CU_ASSERT_TRUE(emu_count_read(&counts->cuts) >= 3);
            CU_ASSERT_EQUAL(emu_count_read(&counts->overrun) + emu_count_read(&counts->unearned) +
                                emu_count_read(&counts->untimely) +
                                emu_count_read(&counts->malformed) + emu_count_read(&counts->bad),
                            0);
        }
        duo_close(&h);
    }
}

/* Somebody takes the cables down at one host: they are down at both, and may come up again. */
static void incarnations__one_host_takes_the_cables_down(void)
{
    struct duo h;

    duo_open(
        &h, &(struct duo_config){.kind = DUO_MIXED, .cables = 4, .depth = 24, .seed = test_seed()});
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    for (uint32_t incarnation = 0; incarnation < 5; incarnation++) {
        all_send_more(&h, 100000);
        for (uint32_t i = 0; i < 500; i++)
            duo_step(&h);
        emu_hostlink_take_down(h.host[incarnation % 2].link, 0);
        CU_ASSERT_TRUE_FATAL(duo_until(&h, both_down, STEPS));
        duo_links_down(&h);
        for (uint32_t host = 0; host < 2; host++)
            emu_hostlink_bring_up(h.host[host].link, 0);
        CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
        duo_links_down(&h);
        CU_ASSERT_EQUAL_FATAL(duo_wrong(&h), 0);
    }
    all_is_well(&h);
    duo_close(&h);
}

/* A life's control channel ends with it, and its reader is told; another is for the next life. */
static void incarnations__each_has_a_control_channel_of_its_own(void)
{
    int fd[2];
    struct duo h;

    duo_open(&h, &(struct duo_config){.cables = 1, .seed = test_seed()});
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    duo_control(&h, 0, 100);
    wire_cut(h.wire, h.now_ns + CUT_NS);
    CU_ASSERT_TRUE_FATAL(duo_until(&h, both_down, STEPS));
    for (uint32_t host = 0; host < 2; host++) {
        duo_control(&h, host, 0);
        CU_ASSERT_TRUE(h.host[host].control_ended);
        CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
        CU_ASSERT_EQUAL(emu_hostlink_control(h.host[host].link, 0, fd[1]), -1);
        close(h.host[host].control);
        h.host[host].control = fd[0];
        h.host[host].control_sent = h.host[host].control_got = 0;
    }
    duo_control(&h, 0, 2000); /* it goes though no cable is brought up */
    for (uint32_t i = 0; i < STEPS && h.host[1].control_got < 2000; i++) {
        duo_step(&h);
        duo_control(&h, 1, 0);
    }
    CU_ASSERT_EQUAL(h.host[1].control_got, 2000);
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

/* --- what cannot be made ------------------------------------------------------------ */

/* Of several peers the last cannot be: nothing is kept, and what the caller has is the caller's. */
static void create__that_fails_takes_nothing(void)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct emu_hostlink_peer peers[3] = {{.cables = 1}, {.cables = 2}, {.cables = 1u << 20}};
    struct wire *wire = wire_create(2, 512, 1514, test_seed());
    struct emu_hostlink_config config = {.port = wire_port(wire, 0),
                                         .nodes = 1,
                                         .peers = peers,
                                         .count = 3};
    struct emu_hostlink *link = NULL;
    struct emu_worker *worker;
    int fd[2];

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, NULL), 0);
    for (uint32_t i = 0; i < 3; i++) {
        peers[i].control_fd = fd[0];
        peers[i].session = (struct emu_session_config){.peer = (uint16_t)(i + 1),
                                                       .silent_ns = UINT64_MAX,
                                                       .window = 64};
    }
    CU_ASSERT_EQUAL(emu_hostlink_create(&link, worker, &config), -EINVAL);
    CU_ASSERT_PTR_NULL(link);
    CU_ASSERT_NOT_EQUAL(fcntl(fd[0], F_GETFD), -1);
    CU_ASSERT_NOT_EQUAL(fcntl(STDIN_FILENO, F_GETFD), -1);
    peers[2].session.window = 3; /* no power of two */
    peers[2].cables = 1;
    CU_ASSERT_EQUAL(emu_hostlink_create(&link, worker, &config), -EINVAL);
    worker->clock.mode = EMU_CLOCK_VIRTUAL;
    CU_ASSERT_EQUAL(emu_hostlink_create(&link, worker, &config), -ENOTSUP);
    worker->clock.mode = EMU_CLOCK_RAW;
    CU_ASSERT_NOT_EQUAL(fcntl(fd[0], F_GETFD), -1);
    emu_worker_destroy(worker);
    wire_destroy(wire);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(cables__without_channels_carry_all_once_and_in_order),
        CASE(cables__with_channels_carry_all_once_and_in_order),
        CASE(cables__of_both_kinds_share_a_link),
        CASE(shares__cables_that_always_have_something_get_the_same),
        CASE(control__goes_on_while_cables_are_busy),
        CASE(control__goes_between_hosts_without_cables),
        CASE(control__that_nobody_reads_stops_itself_alone),
        CASE(control__an_end_is_reported_and_the_other_way_goes_on),
        CASE(control__is_closed_when_both_hosts_have_received_all),
        CASE(control__of_a_session_that_ends_is_closed),
        CASE(buffers__that_are_out_make_entries_wait),
        CASE(incarnations__cables_that_were_cut_come_back),
        CASE(incarnations__one_host_takes_the_cables_down),
        CASE(incarnations__each_has_a_control_channel_of_its_own),
        CASE(create__that_fails_takes_nothing),
        {NULL, NULL}};

    return test_run("hostlink", cases);
}
