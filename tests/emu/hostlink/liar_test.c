/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liar_test.c - a remote host with a valid session sends invalid records: each is counted and ends
 * the session, and has no other effect. When the host sends valid records again, the cables come up
 * again.
 *
 * Host 1 of the pair has no device: the test drives its session directly.
 */
#include <string.h>

#include "emu/hostlink/wire.h"
#include "emu/link/channels.h"
#include "emu/retry/intake.h"
#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/hostlink/duo.h"
#include "tests/fixtures/fixture.h"

#define STEPS   100000u
#define CABLES  3u /* cables of both kinds */
#define CREDITS 8u
#define PLAIN   0u
#define PACKETS 1u

struct liar {
    struct duo duo;
    struct emu_session *session;
    uint64_t random;
    uint32_t ready;   /* READY records received */
    uint64_t entries; /* entries received */
};

static uint64_t liar_random(void *ctx)
{
    return emu_splitmix(ctx);
}

static void liar_receive(void *ctx, const uint8_t *records, uint32_t bytes)
{
    struct liar *l = ctx;
    struct emu_hostlink_record record;

    while (bytes) {
        uint32_t whole = emu_hostlink_parse(records, bytes, CABLES, &record);

        CU_ASSERT_NOT_EQUAL_FATAL(whole, 0);
        l->ready += record.kind == EMU_HOSTLINK_READY;
        l->entries += record.kind == EMU_HOSTLINK_ENTRY;
        records += whole;
        bytes -= whole;
    }
}

static void liar_step(struct liar *l)
{
    struct emu_hostport *port = wire_port(l->duo.wire, 1);
    struct emu_hostframe *frame[EMU_HOSTLINK_BURST];
    uint32_t got;

    duo_step(&l->duo);
    got = port->ops->receive(port, frame, EMU_HOSTLINK_BURST);
    for (uint32_t i = 0; i < got; i++)
        emu_session_receive(l->session, frame[i], l->duo.now_ns, liar_receive, l);
    emu_session_step(l->session, l->duo.now_ns);
}

static void liar_send(struct liar *l, const struct emu_hostlink_record *record)
{
    uint8_t *to = NULL;

    for (uint32_t i = 0; i < STEPS && !to; i++) {
        to = emu_session_room(l->session, emu_hostlink_bytes(record));
        if (!to)
            liar_step(l);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(to);
    emu_hostlink_write(to, record);
    emu_session_put(l->session, emu_hostlink_bytes(record));
}

static void liar_send_kind(struct liar *l, enum emu_hostlink_kind kind, uint32_t cable,
                           uint32_t channel, uint32_t count)
{
    liar_send(l, &(struct emu_hostlink_record){.kind = (uint8_t)kind,
                                               .cable = cable,
                                               .channel = (uint8_t)channel,
                                               .count = count});
}

static bool liar_until(struct liar *l, bool (*is)(struct liar *l))
{
    for (uint32_t i = 0; i < STEPS && !is(l); i++)
        liar_step(l);
    return is(l);
}

static bool is_ready(struct liar *l)
{
    return l->ready;
}

static bool is_up(struct liar *l)
{
    return emu_hostlink_phase(l->duo.host[0].link, 0) == EMU_HOSTLINK_UP;
}

static bool is_cut(struct liar *l)
{
    return emu_count_read(&duo_counts(&l->duo, 0)->cuts);
}

/* Connect both hosts; host 0 has sent READY. @up: host 1 has too. */
static void liar_open(struct liar *l, bool up, uint32_t bufs)
{
    struct emu_session_config config;

    memset(l, 0, sizeof *l);
    l->random = test_seed();
    duo_open(&l->duo, &(struct duo_config){.kind = DUO_MIXED,
                                           .cables = CABLES,
                                           .credits = CREDITS,
                                           .bufs = bufs,
                                           .seed = test_seed()});
    duo_end(&l->duo, 1);
    config = duo_session(&l->duo, 1);
    config.port = wire_port(l->duo.wire, 1);
    config.random = liar_random;
    config.random_ctx = &l->random;
    CU_ASSERT_EQUAL_FATAL(emu_session_create(&l->session, &config), 0);
    CU_ASSERT_TRUE_FATAL(liar_until(l, is_ready));
    if (!up)
        return;
    liar_send_kind(l, EMU_HOSTLINK_READY, 0, 0, 0);
    CU_ASSERT_TRUE_FATAL(liar_until(l, is_up));
}

static void liar_close(struct liar *l)
{
    emu_session_destroy(l->session);
    duo_close(&l->duo);
}

/*
 * The invalid record was detected: @counter is 1, the other error counters 0. Valid records then
 * bring the cables up.
 */
static void liar_detected(struct liar *l, size_t counter)
{
    static const size_t all[] = {offsetof(struct emu_hostlink_counts, malformed),
                                 offsetof(struct emu_hostlink_counts, bad),
                                 offsetof(struct emu_hostlink_counts, overrun),
                                 offsetof(struct emu_hostlink_counts, unearned),
                                 offsetof(struct emu_hostlink_counts, untimely)};

    CU_ASSERT_TRUE(liar_until(l, is_cut));
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++)
        CU_ASSERT_EQUAL(fixture_counter(duo_counts(&l->duo, 0), all[i]), all[i] == counter);
    CU_ASSERT_FALSE(is_up(l));
    CU_ASSERT_EQUAL(duo_wrong(&l->duo), 0);
    for (uint32_t i = 0; i < CABLES; i++) {
        l->duo.host[0].end[i].deaf = false;
        l->duo.host[0].end[i].got = l->duo.host[0].end[i].next = 0;
    }
    emu_hostlink_bring_up(l->duo.host[0].link, 0);
    l->ready = 0;
    CU_ASSERT_TRUE_FATAL(liar_until(l, is_ready));
    liar_send_kind(l, EMU_HOSTLINK_READY, 0, 0, 0);
    CU_ASSERT_TRUE(liar_until(l, is_up));
    liar_close(l);
}

#define FOUND(l, counter) liar_detected(l, offsetof(struct emu_hostlink_counts, counter))

/* The @n-th valid entry of @cable. */
static struct emu_hostlink_record an_entry(const struct liar *l, uint32_t cable, uint32_t n)
{
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_ENTRY, .cable = cable};

    (void)l;
    if (cable == PACKETS)
        record.entry.packet = (struct emu_packet_hdr){.tag = n,
                                                      .kind = EMU_PACKET_HEAD,
                                                      .wire = 40,
                                                      .channel = (uint8_t)(n % EMU_VCS),
                                                      .last = 1};
    else
        record.entry.hdr = (struct emu_hdr){.dst = 1, .src = cable, .seq = n, .kind = EMU_UNICAST};
    return record;
}

static void entries__beyond_the_credits_of_a_cable(void)
{
    struct liar l;

    liar_open(&l, true, 0);
    l.duo.host[0].end[PLAIN].deaf = true;
    for (uint32_t n = 0; n <= CREDITS; n++) {
        struct emu_hostlink_record record = an_entry(&l, PLAIN, n);

        CU_ASSERT_FALSE_FATAL(is_cut(&l));
        liar_send(&l, &record);
    }
    CU_ASSERT_TRUE(liar_until(&l, is_cut));
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&l.duo, 0)->entries_received), CREDITS);
    l.duo.host[0].end[PLAIN].wrong = 0; /* no end sent these entries */
    FOUND(&l, overrun);
}

static void entries__beyond_the_slots_of_a_ring(void)
{
    struct liar l;

    liar_open(&l, true, 0);
    l.duo.host[0].end[PACKETS].deaf = true;
    for (uint32_t n = 0; n <= 2 * EMU_VC_SLOTS; n++) {
        struct emu_hostlink_record record = an_entry(&l, PACKETS, n);

        liar_send(&l, &record);
    }
    CU_ASSERT_TRUE(liar_until(&l, is_cut));
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&l.duo, 0)->entries_received), 2 * EMU_VC_SLOTS);
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&l.duo, 0)->overrun), 1);
    liar_close(&l);
}

/* The same while all entries wait for buffers: the queue reserved for them does not overflow. */
static void entries__beyond_the_credits_while_buffers_are_out(void)
{
    static uint8_t payload[EMU_PAYLOAD_BYTES];
    struct emu_pool_cache *cache;
    struct liar l;

    liar_open(&l, true, 1);
    cache = &l.duo.host[0].worker->cache;
    CU_ASSERT_NOT_EQUAL(emu_pool_take(cache), EMU_NO_BUF); /* that was the last buffer */
    l.duo.host[0].reserved++;
    for (uint32_t n = 0; n <= CREDITS; n++) {
        struct emu_hostlink_record record = an_entry(&l, PLAIN, n);

        record.entry.hdr.len = EMU_PAYLOAD_BYTES;
        record.has_buf = true;
        record.payload = payload;
        record.payload_bytes = EMU_PAYLOAD_BYTES;
        liar_send(&l, &record);
    }
    CU_ASSERT_TRUE(liar_until(&l, is_cut));
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&l.duo, 0)->waited), CREDITS);
    CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&l.duo, 0)->cut), CREDITS);
    FOUND(&l, overrun);
}

/* An invalid entry: its cable, and a function that makes a valid entry invalid. */
struct lie {
    uint32_t cable;
    void (*make)(struct emu_hostlink_record *record);
};

static uint8_t lie_payload[EMU_PAYLOAD_BYTES];
static uint8_t lie_own_header[EMU_HDR_BYTES];

static void lie_has_payload(struct emu_hostlink_record *record, uint8_t len)
{
    record->has_buf = true;
    record->payload = lie_payload;
    record->payload_bytes = len;
}

static void lie_dst(struct emu_hostlink_record *record)
{
    record->entry.hdr.dst = 1000; /* one above the largest node */
}

static void lie_src(struct emu_hostlink_record *record)
{
    record->entry.hdr.src = 1000;
}

static void lie_src_of_full(struct emu_hostlink_record *record)
{
    record->entry.hdr.src = UINT32_MAX;
    record->entry.hdr.len = EMU_PAYLOAD_BYTES;
    lie_has_payload(record, EMU_PAYLOAD_BYTES);
}

static void lie_kind(struct emu_hostlink_record *record)
{
    record->entry.hdr.kind = EMU_PACKET_HEAD;
}

static void lie_kind_bits(struct emu_hostlink_record *record)
{
    record->entry.hdr.kind = EMU_UNICAST | EMU_NOTIFY;
}

static void lie_without_payload(struct emu_hostlink_record *record)
{
    record->entry.hdr.len = 8;
}

static void lie_payload_of_another_length(struct emu_hostlink_record *record)
{
    record->entry.hdr.len = 8;
    lie_has_payload(record, 9);
}

/* A reduction with @op and @type. */
static void lie_reduction(struct emu_hostlink_record *record, uint8_t op, uint8_t type, uint8_t len)
{
    record->entry.hdr.kind = EMU_ALLREDUCE;
    record->entry.hdr.op = op;
    record->entry.hdr.type = type;
    record->entry.hdr.len = len;
    lie_has_payload(record, len);
}

static void lie_op(struct emu_hostlink_record *record)
{
    lie_reduction(record, 200, EMU_I32, 8);
}

static void lie_type(struct emu_hostlink_record *record)
{
    lie_reduction(record, EMU_SUM, 200, 8);
}

static void lie_op_of_type(struct emu_hostlink_record *record)
{
    lie_reduction(record, EMU_BAND, EMU_F64, 8);
}

static void lie_half_an_element(struct emu_hostlink_record *record)
{
    lie_reduction(record, EMU_SUM, EMU_F64, 12);
}

static void lie_packet_kind(struct emu_hostlink_record *record)
{
    record->entry.packet.kind = EMU_UNICAST;
}

static void lie_channel(struct emu_hostlink_record *record)
{
    record->entry.packet.channel = EMU_VCS;
}

static void lie_last(struct emu_hostlink_record *record)
{
    record->entry.packet.last = 2;
}

static void lie_without_own_header(struct emu_hostlink_record *record)
{
    record->has_buf = true;
}

static void lie_of_another_length(struct emu_hostlink_record *record)
{
    lie_own_header[offsetof(struct emu_hdr, len)] = 20;
    record->own_hdr = lie_own_header;
    lie_has_payload(record, 10);
}

/*
 * Shorter on the wire than its own header: a fault injected there would flip a bit beyond the
 * payload.
 */
static void lie_wire(struct emu_hostlink_record *record)
{
    record->entry.packet.wire = EMU_HEAD_BYTES - 1;
    lie_own_header[offsetof(struct emu_hdr, len)] = 10;
    record->own_hdr = lie_own_header;
    lie_has_payload(record, 10);
}

static void lie_reply_with_payload(struct emu_hostlink_record *record)
{
    record->entry.packet.kind = EMU_PACKET_ACK;
    lie_own_header[offsetof(struct emu_hdr, len)] = 10;
    record->own_hdr = lie_own_header;
    lie_has_payload(record, 10);
}

static void entries__invalid_on_their_cable(void)
{
    static const struct lie lies[] = {{PLAIN, lie_dst},
                                      {PLAIN, lie_src},
                                      {PLAIN, lie_src_of_full},
                                      {PLAIN, lie_kind},
                                      {PLAIN, lie_kind_bits},
                                      {PLAIN, lie_without_payload},
                                      {PLAIN, lie_payload_of_another_length},
                                      {PLAIN, lie_op},
                                      {PLAIN, lie_type},
                                      {PLAIN, lie_op_of_type},
                                      {PLAIN, lie_half_an_element},
                                      {PACKETS, lie_packet_kind},
                                      {PACKETS, lie_channel},
                                      {PACKETS, lie_last},
                                      {PACKETS, lie_without_own_header},
                                      {PACKETS, lie_of_another_length},
                                      {PACKETS, lie_wire},
                                      {PACKETS, lie_reply_with_payload}};

    for (uint32_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct emu_hostlink_record record;
        struct liar l;

        liar_open(&l, true, 0);
        record = an_entry(&l, lies[i].cable, 0);
        lies[i].make(&record);
        liar_send(&l, &record);
        FOUND(&l, bad);
    }
}

static void records__malformed(void)
{
    struct liar l;
    uint8_t *to;

    liar_open(&l, true, 0);
    liar_send_kind(&l, EMU_HOSTLINK_CREDITS, CABLES, 0, 1); /* of a cable that does not exist */
    FOUND(&l, malformed);
    liar_open(&l, true, 0);
    to = emu_session_room(l.session, 100);
    memset(to, 255, 100);
    emu_session_put(l.session, 100);
    FOUND(&l, malformed);
}

static void credits__beyond_those_spent(void)
{
    static const struct {
        enum emu_hostlink_kind kind;
        uint32_t cable, channel, count;
    } lies[] = {{EMU_HOSTLINK_CREDITS, PLAIN, 0, EMU_INTAKE_FORGED + 1},
                {EMU_HOSTLINK_CREDITS, PLAIN, 0, UINT32_MAX},
                {EMU_HOSTLINK_CREDITS, PLAIN, 1, 1},
                {EMU_HOSTLINK_CREDITS, PACKETS, 31, EMU_INTAKE_FORGED + 1},
                {EMU_HOSTLINK_TAKEN, PACKETS, 0, 1},
                {EMU_HOSTLINK_TAKEN, PLAIN, 0, 1},
                {EMU_HOSTLINK_CONTROL_TAKEN, 0, 0, 1}};

    for (uint32_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct liar l;

        liar_open(&l, true, 0);
        liar_send_kind(&l, lies[i].kind, lies[i].cable, lies[i].channel, lies[i].count);
        FOUND(&l, unearned);
    }
}

static void control__beyond_its_window(void)
{
    static uint8_t bytes[EMU_HOSTLINK_CONTROL_BYTES];
    struct liar l;

    liar_open(&l, true, 0);
    for (uint32_t sent = 0; sent < (1u << 22) && !is_cut(&l); sent += sizeof bytes) {
        liar_send(&l, &(struct emu_hostlink_record){.kind = EMU_HOSTLINK_CONTROL,
                                                    .bytes = bytes,
                                                    .length = sizeof bytes});
        liar_step(&l);
    }
    FOUND(&l, unearned); /* nobody reads at host 0, and its socket has a limit */
}

static void records__in_the_wrong_state(void)
{
    struct emu_hostlink_record record;
    struct liar l;

    liar_open(&l, false, 0);
    record = an_entry(&l, PLAIN, 0);
    liar_send(&l, &record); /* before READY */
    FOUND(&l, untimely);
    liar_open(&l, true, 0);
    liar_send_kind(&l, EMU_HOSTLINK_READY, 0, 0, 0); /* a second READY */
    FOUND(&l, untimely);
    liar_open(&l, true, 0);
    liar_send_kind(&l, EMU_HOSTLINK_OLD, PLAIN, 0, 1); /* OLD after READY */
    FOUND(&l, untimely);
    liar_open(&l, false, 0);
    liar_send_kind(&l, EMU_HOSTLINK_OLD, PLAIN, 0, UINT32_MAX); /* more than can exist */
    FOUND(&l, unearned);
}

/* --- random records --------------------------------------------------------------------- */

#define ROUNDS 400u

/* A valid or almost valid record of a random kind. */
static struct emu_hostlink_record drawn_record(struct liar *l)
{
    uint32_t kind = (uint32_t)(test_random(&l->random) % EMU_HOSTLINK_KINDS);
    uint32_t cable = (uint32_t)(test_random(&l->random) % CABLES);
    struct emu_hostlink_record record;

    if (!kind || kind == EMU_HOSTLINK_ENTRY) {
        record = an_entry(l, cable, (uint32_t)test_random(&l->random));
        if (cable == PACKETS && test_random(&l->random) % 2) {
            lie_own_header[offsetof(struct emu_hdr, len)] = 24;
            record.own_hdr = lie_own_header;
        } else if (cable != PACKETS) {
            record.entry.hdr.len = 24;
        }
        if (record.own_hdr || record.entry.hdr.len)
            lie_has_payload(&record, 24);
        return record;
    }
    record = (struct emu_hostlink_record){.kind = (uint8_t)kind};
    if (kind == EMU_HOSTLINK_CONTROL || kind == EMU_HOSTLINK_STEP) {
        record.bytes = lie_payload;
        record.length = (uint32_t)(test_random(&l->random) % sizeof lie_payload);
    } else if (kind == EMU_HOSTLINK_CLOCK) {
        record.sent_ns = test_random(&l->random);
        record.echo_ns = test_random(&l->random) >> test_random(&l->random) % 64;
        record.received_ns = test_random(&l->random);
    } else if (kind != EMU_HOSTLINK_READY) {
        record.cable = kind == EMU_HOSTLINK_CONTROL_TAKEN ? 0 : cable;
        record.count = 1u + (uint32_t)(test_random(&l->random) % 3);
    }
    return record;
}

/* Send a record with a few of its bytes changed to random values, 0 or 255. */
static void send_changed(struct liar *l, const struct emu_hostlink_record *record)
{
    uint32_t bytes = emu_hostlink_bytes(record), changes = (uint32_t)(test_random(&l->random) % 4);
    uint8_t *to = emu_session_room(l->session, bytes);

    if (!to)
        return;
    emu_hostlink_write(to, record);
    for (; changes; changes--) {
        uint8_t *at = &to[test_random(&l->random) % (bytes < 48 ? bytes : 48)];
        uint64_t random = test_random(&l->random);

        *at = random % 4 == 0 ? 0 : random % 4 == 1 ? 255 : (uint8_t)(random >> 8);
    }
    emu_session_put(l->session, bytes);
}

/* Random records at most end the session, and switches only get valid entries. */
static void records__random_values_at_most_end_the_session(void)
{
    struct liar l;

    liar_open(&l, true, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct emu_hostlink_record record = drawn_record(&l);

        send_changed(&l, &record);
        for (uint32_t i = 0; i < 20; i++)
            liar_step(&l);
        if (is_up(&l))
            continue;
        emu_hostlink_bring_up(l.duo.host[0].link, 0);
        l.ready = 0;
        CU_ASSERT_TRUE_FATAL(liar_until(&l, is_ready));
        liar_send_kind(&l, EMU_HOSTLINK_READY, 0, 0, 0);
        CU_ASSERT_TRUE_FATAL(liar_until(&l, is_up));
    }
    CU_ASSERT_TRUE(emu_count_read(&duo_counts(&l.duo, 0)->bad) > 0);
    CU_ASSERT_TRUE(emu_count_read(&duo_counts(&l.duo, 0)->malformed) > 0);
    liar_close(&l);
}

int main(void)
{
    static const struct test_case cases[] = {CASE(entries__beyond_the_credits_of_a_cable),
                                             CASE(entries__beyond_the_slots_of_a_ring),
                                             CASE(
                                                 entries__beyond_the_credits_while_buffers_are_out),
                                             CASE(entries__invalid_on_their_cable),
                                             CASE(records__malformed),
                                             CASE(credits__beyond_those_spent),
                                             CASE(control__beyond_its_window),
                                             CASE(records__in_the_wrong_state),
                                             CASE(records__random_values_at_most_end_the_session),
                                             {NULL, NULL}};

    return test_run("liar", cases);
}
