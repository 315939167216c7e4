/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink_test.c - the host link's device: cables between two hosts over a simulated wire.
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
#define CUT_NS 50000000u /* longer than the silence limit of a host */

static void bad_wire(struct duo *h, uint32_t each)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_faults *faults = wire_faults(h->wire, i);

        faults->lost = faults->duplicated = faults->damaged = each;
        faults->jitter_ns = 20000;
    }
}

/* --- cables ------------------------------------------------------------------------- */

/* All entries arrive once and in order, and credits are conserved, at any time. */
static void cables_deliver(enum duo_kind kind, uint64_t seed)
{
    static const uint32_t credits[] = {1, 4, 16, 255};
    uint64_t cuts[2]; /* a handshake on a lossy wire may need two incarnations */
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
        cables_deliver(kind, test_random(&random));
}

static void cables__without_channels_deliver_once_and_in_order(void)
{
    cables_carry_seeds(DUO_PLAIN);
}

static void cables__with_channels_deliver_once_and_in_order(void)
{
    cables_carry_seeds(DUO_CHANNELS);
}

static void cables__of_both_kinds_share_a_link(void)
{
    cables_carry_seeds(DUO_MIXED);
}

/* --- fair shares -------------------------------------------------------------------- */

/*
 * Cables with pending entries share the wire equally, whatever their number, the load of others and
 * their count of credits: cable 0 has fifteen times the credits of one quantum.
 */
static void shares__busy_cables_get_equal_shares(void)
{
    uint64_t least = UINT64_MAX, most = 0, before[40];
    struct duo h;

    duo_open(&h,
             &(struct duo_config){.cables = 40, .credits = 64, .first = 255, .seed = test_seed()});
    wire_faults(h.wire, 0)->each_ns = 20000; /* the wire is the bottleneck */
    wire_faults(h.wire, 0)->queue = 8;
    CU_ASSERT_TRUE_FATAL(duo_until(&h, duo_are_up, STEPS));
    for (uint32_t i = 0; i < h.cables; i++)
        h.host[0].end[i].limit = i % 7 != 3 ? UINT64_MAX : 0; /* some cables are idle */
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
                   8 * EMU_HOSTLINK_QUANTUM); /* several quanta: credits return in batches */
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

/* Control bytes arrive in order while cables saturate the wire. */
static void control__continues_while_cables_are_busy(void)
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

/* Two hosts without a network cable between them still have a link for control. */
static void control__connects_hosts_without_cables(void)
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

/*
 * Host 1 does not read: control bytes wait there until its socket is full, then the sender stops.
 * Cables are not affected.
 */
static void control__without_a_reader_blocks_only_itself(void)
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
        duo_step(&h); /* host 1 reads now */
        duo_control(&h, 1, 0);
    }
    CU_ASSERT_EQUAL(h.host[1].control_got, h.host[0].control_sent);
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

/* One end closes its direction: the other reads all bytes up to the end and may still answer. */
static void control__half_close_keeps_the_other_direction(void)
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

/* Run @steps steps; both hosts read their control channels. */
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
        CU_ASSERT_FALSE(is_closed(&h, host)); /* host 1 may still have something to write */
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

/* Nothing can be delivered to a host that disconnected, so the control channel closes at once. */
static void control__closes_with_its_session(void)
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

/*
 * Without free buffers, entries wait in order. Credits and replies still pass, so buffers become
 * free.
 */
static void buffers__exhausted_make_entries_wait(void)
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

/* --- incarnations ------------------------------------------------------------------- */

static bool both_down(struct duo *h)
{
    return emu_hostlink_phase(h->host[0].link, 0) == EMU_HOSTLINK_DOWN &&
           emu_hostlink_phase(h->host[1].link, 0) == EMU_HOSTLINK_DOWN;
}

/* The cables of both hosts send @more entries. */
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

/* All entries that the ends send from now on arrive, and all credits return. */
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

/*
 * The session ends under traffic, and a new incarnation starts once both hosts bring the cables up.
 */
static void cut_and_back(struct duo *h, bool stingy)
{
    uint64_t discarded = emu_count_read(&duo_counts(h, 0)->discarded), got;

    all_send_more(h, 100000);
    for (uint32_t i = 0; i < 2000; i++)
        duo_step(h);
    for (uint32_t i = 0; i < h->cables; i++)
        h->host[1].end[i].stingy = stingy; /* holds entries of the old incarnation */
    wire_cut(h->wire, h->now_ns + CUT_NS);
    CU_ASSERT_TRUE_FATAL(duo_until(h, both_down, STEPS));
    CU_ASSERT_EQUAL_FATAL(duo_wrong(h), 0);
    duo_links_down(h);
    emu_hostlink_bring_up(h->host[0].link, 0); /* one host alone is not enough */
    for (uint32_t i = 0; i < 100; i++)
        duo_step(h);
    got = got_by(h, 0) + got_by(h, 1);
    for (uint32_t i = 0; i < 20000; i++)
        duo_step(h);
    CU_ASSERT_EQUAL(emu_session_state(emu_hostlink_session(h->host[0].link, 0)), EMU_SESSION_UP);
    CU_ASSERT_EQUAL(emu_hostlink_phase(h->host[0].link, 0), EMU_HOSTLINK_TO_BRING_UP);
    CU_ASSERT_EQUAL(emu_hostlink_phase(h->host[1].link, 0), EMU_HOSTLINK_DOWN);
    CU_ASSERT_EQUAL(got_by(h, 0) + got_by(h, 1), got);
    CU_ASSERT_TRUE(emu_count_read(&duo_counts(h, 0)->discarded) >
                   discarded + 100); /* not blocked */
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
 * Entries in flight at the end of an incarnation are lost. Entries sent while the link is down are
 * dropped, so nothing backs up. Traffic resumes only when both hosts bring the cables up, and then
 * credits are conserved although switches still hold entries of the previous incarnation.
 */
static void incarnations__cut_cables_come_back(void)
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

/* One host takes the cables down: they go down at both hosts and can come up again. */
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

/*
 * The control channel ends with its incarnation, and the reader sees the end. The next incarnation
 * has a new channel.
 */
static void incarnations__each_has_its_own_control_channel(void)
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
    duo_control(&h, 0, 2000); /* the control channel works before any cable is up */
    for (uint32_t i = 0; i < STEPS && h.host[1].control_got < 2000; i++) {
        duo_step(&h);
        duo_control(&h, 1, 0);
    }
    CU_ASSERT_EQUAL(h.host[1].control_got, 2000);
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    duo_close(&h);
}

/* --- failures to create ------------------------------------------------------------- */

/*
 * If the last of several peers cannot be created, nothing is kept and the caller still owns its
 * arguments.
 */
static void create__failure_keeps_nothing(void)
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
    peers[2].session.window = 3; /* not a power of two */
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
        CASE(cables__without_channels_deliver_once_and_in_order),
        CASE(cables__with_channels_deliver_once_and_in_order),
        CASE(cables__of_both_kinds_share_a_link),
        CASE(shares__busy_cables_get_equal_shares),
        CASE(control__continues_while_cables_are_busy),
        CASE(control__connects_hosts_without_cables),
        CASE(control__without_a_reader_blocks_only_itself),
        CASE(control__half_close_keeps_the_other_direction),
        CASE(control__is_closed_when_both_hosts_have_received_all),
        CASE(control__closes_with_its_session),
        CASE(buffers__exhausted_make_entries_wait),
        CASE(incarnations__cut_cables_come_back),
        CASE(incarnations__one_host_takes_the_cables_down),
        CASE(incarnations__each_has_its_own_control_channel),
        CASE(create__failure_keeps_nothing),
        {NULL, NULL}};

    return test_run("hostlink", cases);
}
