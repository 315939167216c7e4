/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stranger_test.c - which hosts may connect: other keys, cluster files and versions are refused,
 * and so are forged, cut, changed and replayed frames.
 */
#include "emu/hostlink/session/session.h"

#include <errno.h>
#include <string.h>

#include "emu/util/bits.h"
#include "emu/util/count.h"
#include "tests/test.h"
#include "tests/fixtures/hostlink/talk.h"
#include "tests/fixtures/fixture.h"

#define MS   UINT64_C(1000000)
#define S    (1000 * MS)
#define TAPS 4096u
#define KIND 28u    /* offset of the kind in a frame */
#define SPAN 65536u /* a packet this far behind the newest one is dropped */

/* A session pair plus a third port for strangers, which records all frames; both ends are up. */
static void begin(struct talk *talk, bool keyed, uint64_t seed)
{
    const struct talk_config config = {.keyed = keyed, .frames = 600, .silent_ns = S};

    talk_create(talk, &config, seed);
    wire_tap(talk->wire, TAPS);
    talk->end[0].limit = talk->end[1].limit = 2000;
    for (uint32_t i = 0; i < 2; i++) {
        wire_faults(talk->wire, i)->each_ns = 1000;
        CU_ASSERT_EQUAL_FATAL(talk_start(talk, i), 0);
    }
}

static uint64_t sum(const struct talk *talk, size_t offset)
{
    return fixture_counter(talk_counts(talk, 0), offset) +
           fixture_counter(talk_counts(talk, 1), offset);
}
#define SUM(talk, field) sum(talk, offsetof(struct emu_session_counts, field))

/* Nothing has changed: all records arrived once, in the @incarnation-th incarnation of both. */
static void expect_done(struct talk *talk, uint64_t incarnation)
{
    CU_ASSERT(talk_until_done(talk, 10 * S));
    talk_for(talk, 10 * MS); /* frames in flight still arrive */
    CU_ASSERT_EQUAL(talk->end[0].wrong + talk->end[1].wrong, 0);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(emu_session_incarnation(talk->end[i].session), incarnation);
}

static void expect_why(const struct talk *talk, uint32_t end, const char *has)
{
    char why[160];

    emu_session_why(talk->end[end].session, why, sizeof why);
    if (!strstr(why, has)) {
        printf("why: %s\n", why);
        CU_FAIL("another reason is given");
    }
}

/* Neither end connects, and hardly a frame is sent. */
static void expect_not_connected(struct talk *talk)
{
    talk_for(talk, 5 * S);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_NOT_EQUAL(emu_session_state(talk->end[i].session), EMU_SESSION_UP);
        CU_ASSERT_EQUAL(emu_session_incarnation(talk->end[i].session), 0);
        CU_ASSERT_PTR_NULL(emu_session_room(talk->end[i].session, 1));
    }
    CU_ASSERT(SUM(talk, frames_sent) < 100);
}

/* @session refused a host that claimed the peer's identity: check the port and the reason. */
static void expect_refused(const struct emu_session *session, const struct emu_hostport *port,
                           const char *has)
{
    const uint8_t *mac = port->mac;
    char who[200] = "", from[20];

    snprintf(from, sizeof from, "%02x:%02x:%02x:%02x:%02x:%02x,", mac[0], mac[1], mac[2], mac[3],
             mac[4], mac[5]);
    CU_ASSERT(emu_session_impostor(session, who, sizeof who));
    if (!strstr(who, from) || !strstr(who, has)) {
        printf("knock: %s\n", who);
        CU_FAIL("another one is named");
    }
}

static bool no_keys(void)
{
    if (emu_auth_missing())
        printf("(no libsodium: left out) ");
    return emu_auth_missing();
}

/* --- mismatched hosts ------------------------------------------------------------------- */

/*
 * Both ends detect and report that the cluster files differ; with the right file the same end
 * connects.
 */
static void digest__mismatch_is_refused(void)
{
    struct talk talk;

    for (uint32_t run = 0; run < 2; run++) {
        if (run && no_keys())
            break;
        begin(&talk, run, test_seed());
        expect_done(&talk, 1);
        talk_stop(&talk, 1); /* an old incarnation, which ends by the silence limit */
        talk.end[1].config.digest[31] ^= 1;
        CU_ASSERT_EQUAL(talk_start(&talk, 1), 0);
        talk_for(&talk, 100 * MS);
        CU_ASSERT_EQUAL(emu_session_state(talk.end[1].session), EMU_SESSION_REFUSED);
        expect_why(&talk, 1, "another cluster file");
        CU_ASSERT_EQUAL(emu_session_state(talk.end[0].session), EMU_SESSION_UP);
        expect_refused(talk.end[0].session, wire_port(talk.wire, 1), "another cluster file");
        talk_for(&talk, 2 * S);
        for (uint32_t i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL(emu_session_state(talk.end[i].session), EMU_SESSION_REFUSED);
            expect_why(&talk, i, "another cluster file");
        }
        talk_for(&talk, 5 * S);
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[1].session), 0);
        talk_stop(&talk, 1);
        talk.end[1].config.digest[31] ^= 1;
        CU_ASSERT_EQUAL(talk_start(&talk, 1), 0);
        CU_ASSERT(talk_until_done(&talk, S));
        expect_why(&talk, 0, "up");
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[0].session), 2);
        talk_destroy(&talk);
    }
}

/* --- refused hosts beside a running session --------------------------------------------- */

static void no_records(void *ctx, const uint8_t *records, uint32_t bytes)
{
    (void)ctx, (void)records, (void)bytes;
    CU_FAIL("a refused host receives no record");
}

/* As talk_for(), with the third host, which is at port 2. */
static void third_for(struct talk *talk, struct emu_session *third, uint64_t ns)
{
    struct emu_hostport *port = wire_port(talk->wire, 2);
    struct emu_hostframe *frames[EMU_HOSTLINK_BURST];
    uint64_t until_ns = talk->now_ns + ns;

    while (talk->now_ns < until_ns) {
        uint32_t count = port->ops->receive(port, frames, EMU_HOSTLINK_BURST);

        for (uint32_t i = 0; i < count; i++)
            emu_session_receive(third, frames[i], talk->now_ns, no_records, NULL);
        emu_session_step(third, talk->now_ns);
        talk_step(talk);
    }
}

/* The third host claims to be @end, with another cluster file. */
static struct emu_session *third_create(struct talk *talk, uint32_t end)
{
    struct emu_session_config config = talk->end[end].config;
    struct emu_session *third;

    config.port = wire_port(talk->wire, 2);
    config.digest[0] ^= 1;
    CU_ASSERT_EQUAL_FATAL(emu_session_create(&third, &config), 0);
    return third;
}

/*
 * A third host claims to be one of two connected hosts but has another cluster file. It is refused
 * again and again and learns why; the two keep their incarnation.
 */
static void third__refused_ends_no_session(void)
{
    const char *const none = NULL;

    for (uint32_t run = 0; run < TEST_ALONE(4u); run++) {
        const struct talk_config config = {.ports = 3,
                                           .keyed = run % 2 ^ run / 2,
                                           .frames = 600,
                                           .silent_ns = S};
        uint32_t end = run % 2;
        struct emu_session *third;
        struct talk talk;
        char why[160];

        if (config.keyed && no_keys())
            continue;
        talk_create(&talk, &config, test_seed() + run);
        talk.end[0].limit = talk.end[1].limit = 2000;
        for (uint32_t i = 0; i < 2; i++)
            CU_ASSERT_EQUAL_FATAL(talk_start(&talk, i), 0);
        talk_for(&talk, 10 * MS);
        CU_ASSERT(!emu_session_impostor(talk.end[!end].session, why, sizeof why));
        third = third_create(&talk, end);
        third_for(&talk, third, 3 * S);
        CU_ASSERT_EQUAL(emu_session_state(third), EMU_SESSION_REFUSED);
        emu_session_why(third, why, sizeof why);
        CU_ASSERT_PTR_NOT_EQUAL(strstr(why, "another cluster file"), none);
        CU_ASSERT(talk_is_up(&talk));
        expect_refused(talk.end[!end].session, wire_port(talk.wire, 2), "another cluster file");
        CU_ASSERT(!emu_session_impostor(talk.end[end].session, why, sizeof why));
        expect_done(&talk, 1);
        /*
         * A host that is silent is not reported as refused, and does not count for the next
         * refusal.
         */
        emu_session_destroy(third);
        talk_stop(&talk, end);
        talk_for(&talk, 2 * S);
        CU_ASSERT(!emu_session_is_refused(talk.end[!end].session));
        expect_why(&talk, !end, "nothing has arrived from the other host for too long");
        CU_ASSERT_EQUAL(talk_start(&talk, end), 0);
        CU_ASSERT(talk_until_done(&talk, S));
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[!end].session), 2);
        talk_destroy(&talk);
    }
}

/* The third host is present before or from the start: the two connect all the same, and once. */
static void third__refused_does_not_prevent_a_session(void)
{
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < TEST_ALONE(40u); run++) {
        const struct talk_config config = {.ports = 3,
                                           .keyed = run % 2 && !emu_auth_missing(),
                                           .silent_ns = S};
        uint32_t end = run / 2 % 2;
        struct emu_session *third;
        struct talk talk;

        talk_create(&talk, &config, test_random(&state));
        talk.end[0].limit = talk.end[1].limit = 100;
        for (uint32_t i = 0; i < 3; i++)
            wire_faults(talk.wire, i)->delay_ns = test_draw(&state, 1, 2 * MS);
        third = third_create(&talk, end);
        CU_ASSERT_EQUAL_FATAL(talk_start(&talk, !end), 0);
        third_for(&talk, third, test_draw(&state, 0, 30 * MS));
        CU_ASSERT_EQUAL_FATAL(talk_start(&talk, end), 0);
        third_for(&talk, third, 3 * S);
        CU_ASSERT(talk_is_up(&talk));
        CU_ASSERT_EQUAL(emu_session_state(third), EMU_SESSION_REFUSED);
        expect_done(&talk, 1);
        emu_session_destroy(third);
        talk_destroy(&talk);
    }
}

/*
 * A host without the key replays the third host's frames after that host and the peer have gone.
 * The replay is not reported as a refusal, and the peer connects when it comes.
 */
static void third__replayed_is_ignored(void)
{
    const struct talk_config config = {.ports = 3, .frames = 600, .silent_ns = S};
    uint32_t said = 0;
    struct emu_session *third;
    struct talk talk;

    talk_create(&talk, &config, test_seed());
    talk.end[0].limit = talk.end[1].limit = 10;
    wire_tap(talk.wire, TAPS);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(talk_start(&talk, i), 0);
    talk_for(&talk, 10 * MS);
    third = third_create(&talk, 1);
    third_for(&talk, third, 100 * MS);
    emu_session_destroy(third);
    talk_stop(&talk, 1);
    talk_for(&talk, 2 * S);
    for (uint32_t i = 0; wire_tapped(talk.wire, i); i++)
        if (wire_tapped(talk.wire, i)->from == 2) {
            wire_inject(talk.wire, 0, wire_tapped(talk.wire, i)->data,
                        wire_tapped(talk.wire, i)->bytes);
            said++;
        }
    talk_for(&talk, 10 * MS);
    CU_ASSERT(said > 1);
    CU_ASSERT_EQUAL(emu_session_state(talk.end[0].session), EMU_SESSION_CONNECTING);
    CU_ASSERT_EQUAL(talk_start(&talk, 1), 0);
    CU_ASSERT(talk_until_done(&talk, S));
    CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[0].session), 2);
    talk_destroy(&talk);
}

/* --- keys and checks ----------------------------------------------------------------------- */

static void key__mismatch_prevents_a_session(void)
{
    uint8_t key[EMU_AUTH_KEY_BYTES] = "another key";
    const struct talk_config config = {.keyed = true};
    struct talk talk;

    if (no_keys())
        return;
    talk_create(&talk, &config, test_seed());
    talk.end[1].config.key = key;
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(talk_start(&talk, i), 0);
    expect_not_connected(&talk);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT(emu_count_read(&talk_counts(&talk, i)->forged) > 0);
        expect_why(&talk, i, "same key");
    }
    talk_destroy(&talk);
}

static void key__at_one_end_prevents_a_session(void)
{
    const struct talk_config config = {.keyed = true};
    struct talk talk;

    if (no_keys())
        return;
    talk_create(&talk, &config, test_seed());
    talk.end[1].config.key = NULL;
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(talk_start(&talk, i), 0);
    expect_not_connected(&talk);
    expect_why(&talk, 0, "the other host has no key");
    expect_why(&talk, 1, "the other host has a key");
    talk_destroy(&talk);
}

/* Without libsodium a key is refused with the reason; with libsodium it is accepted. */
static void key__is_refused_without_a_library(void)
{
    const struct talk_config config = {.keyed = true};
    struct talk talk;

    talk_create(&talk, &config, test_seed());
    CU_ASSERT_EQUAL(talk_start(&talk, 0), emu_auth_missing() ? -ENOTSUP : 0);
    talk_destroy(&talk);
}

/* Both ends use the best check that both support, whichever end lacks the better one. */
static void check__is_the_best_of_both(void)
{
    if (no_keys())
        return;
    for (uint32_t run = 0; run < 4; run++) {
        const struct talk_config config = {.keyed = true, .frames = 600};
        struct emu_frame header;
        uint32_t data = 0;
        struct talk talk;

        talk_create(&talk, &config, test_seed());
        wire_tap(talk.wire, TAPS);
        talk.end[0].limit = talk.end[1].limit = 500;
        for (uint32_t i = 0; i < 2; i++) {
            if (run & 1u << i)
                talk.end[i].config.checks = (uint32_t)emu_bit(EMU_AUTH_CHACHA);
            CU_ASSERT_EQUAL(talk_start(&talk, i), 0);
        }
        expect_done(&talk, 1);
        for (uint32_t i = 0; wire_tapped(talk.wire, i); i++) {
            const struct wire_tapped *tapped = wire_tapped(talk.wire, i);
            struct emu_hostframe frame = {.data = (uint8_t *)tapped->data, .bytes = tapped->bytes};

            CU_ASSERT(emu_frame_parse(&frame, &header));
            CU_ASSERT_NOT_EQUAL(header.check, EMU_AUTH_CRC);
            if (header.kind != EMU_FRAME_DATA)
                continue;
            data++;
            if (run)
                CU_ASSERT_EQUAL(header.check, EMU_AUTH_CHACHA);
            CU_ASSERT(!(header.to_mac[0] & 1)); /* unicast: the address is known by now */
        }
        CU_ASSERT(data > 20);
        talk_destroy(&talk);
    }
}

/* --- strangers ---------------------------------------------------------------------------- */

/* A frame of a stranger that knows everything but the key, with a correct CRC. */
static uint32_t made_up(uint8_t *to, const struct talk *talk, struct emu_frame *header)
{
    const struct emu_frame_offer offer = {.frame_bytes = 1514, .window = 64, .checks = ~0u};
    struct emu_auth *auth;
    uint32_t bytes;

    header->fabric = talk->end[0].config.fabric;
    header->from = 1;
    header->to = 0;
    header->from_mac[0] = 2;
    memset(header->to_mac, 255, sizeof header->to_mac);
    if (emu_frame_is_handshake(header->kind)) {
        header->body_bytes = EMU_FRAME_OFFER_BYTES;
        emu_frame_offer_write(to + EMU_FRAME_HEADER_BYTES, &offer);
        memcpy(to + EMU_FRAME_HEADER_BYTES, talk->end[0].config.digest, EMU_FRAME_DIGEST_BYTES);
    }
    emu_frame_write(to, header);
    bytes = EMU_FRAME_HEADER_BYTES + header->body_bytes;
    CU_ASSERT_EQUAL_FATAL(emu_auth_create(&auth, NULL), 0);
    emu_auth_seal(auth, EMU_AUTH_CRC, header->packet, to, bytes);
    emu_auth_destroy(auth);
    return bytes + EMU_FRAME_TAG_BYTES;
}

/* The last frame of @kind that port 1 sent. */
static bool last_of(const struct talk *talk, uint8_t kind, struct emu_frame *ret)
{
    bool found = false;

    for (uint32_t i = 0; wire_tapped(talk->wire, i); i++) {
        const struct wire_tapped *tapped = wire_tapped(talk->wire, i);
        struct emu_hostframe frame = {.data = (uint8_t *)tapped->data, .bytes = tapped->bytes};
        struct emu_frame header;

        if (tapped->from == 1 && emu_frame_parse(&frame, &header) && header.kind == kind) {
            *ret = header;
            found = true;
        }
    }
    return found;
}

/* Frames of all kinds with all numbers right, and a CRC instead of the tag. */
static void stranger__without_the_key_has_no_effect(void)
{
    uint64_t state = test_seed(), before;
    uint8_t bytes[EMU_FRAME_HEADER_BYTES + 512 + EMU_FRAME_TAG_BYTES] = {0};
    struct emu_frame header;
    struct talk talk;

    if (no_keys())
        return;
    begin(&talk, true, test_random(&state));
    talk_for(&talk, MS);
    before = emu_count_read(&talk_counts(&talk, 0)->forged);
    for (uint32_t i = 0; i < 5000; i++) {
        CU_ASSERT_FATAL(last_of(&talk, EMU_FRAME_DATA, &header));
        header.kind = (uint8_t)test_draw(&state, EMU_FRAME_HELLO, EMU_FRAME_ACK);
        header.check = (uint8_t)test_draw(&state, 0, 4);
        header.version = (uint8_t)test_draw(&state, EMU_FRAME_VERSION, EMU_FRAME_VERSION + 1);
        header.seq += (uint32_t)test_draw(&state, 0, 3);
        header.ack += (uint32_t)test_draw(&state, 0, 3);
        header.packet += test_draw(&state, 0, 1000);
        header.body_bytes = (uint16_t)(8 * test_draw(&state, 1, 50));
        wire_inject(talk.wire, 0, bytes, made_up(bytes, &talk, &header));
        if (i % 100 == 0)
            talk_step(&talk);
    }
    expect_done(&talk, 1);
    CU_ASSERT_EQUAL(emu_count_read(&talk_counts(&talk, 0)->forged) +
                        emu_count_read(&talk_counts(&talk, 0)->malformed) - before,
                    5000);
    talk_destroy(&talk);
}

/*
 * Frames truncated anywhere, with a bit flipped anywhere, or of another fabric or host: with a key,
 * and without one where the CRC does not match.
 */
static void frames__changed_are_counted_and_dropped(void)
{
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < 2; run++) {
        uint32_t sent = 0;
        struct talk talk;

        if (run && no_keys())
            break;
        begin(&talk, run, test_random(&state));
        talk_for(&talk, 2 * MS);
        for (uint32_t i = 0; i < 3000; i++) {
            const struct wire_tapped *tapped = wire_tapped(talk.wire, i % 300);
            uint8_t bytes[1514];
            uint32_t length = tapped->bytes;

            CU_ASSERT_FATAL(length <= sizeof bytes);
            memcpy(bytes, tapped->data, length);
            if (i % 2)
                length = (uint32_t)test_draw(&state, 1, length - 1);
            else
                bytes[test_draw(&state, 0, length - 1)] ^= (uint8_t)(1 << test_draw(&state, 0, 7));
            wire_inject(talk.wire, !tapped->from, bytes, length);
            sent++;
            if (i % 50 == 0)
                talk_step(&talk);
        }
        expect_done(&talk, 1);
        CU_ASSERT_EQUAL(SUM(&talk, forged) + SUM(&talk, malformed) + SUM(&talk, foreign), sent);
        CU_ASSERT(SUM(&talk, malformed) >= sent / 2 && SUM(&talk, forged) > sent / 4);
        talk_destroy(&talk);
    }
}

/*
 * All frames of this incarnation replayed many times, and late: they count as duplicates, and do
 * not keep the session alive.
 */
static void frames__replayed_have_no_effect(void)
{
    for (uint32_t run = 0; run < 2; run++) {
        struct talk talk;
        uint64_t sent;

        if (run && no_keys())
            break;
        begin(&talk, run, test_seed() + run);
        for (uint32_t round = 0; round < 40; round++) {
            talk_for(&talk, MS / 10);
            for (uint32_t i = 0; wire_tapped(talk.wire, i); i += 3)
                wire_inject(talk.wire, !wire_tapped(talk.wire, i)->from,
                            wire_tapped(talk.wire, i)->data, wire_tapped(talk.wire, i)->bytes);
        }
        expect_done(&talk, 1);
        CU_ASSERT(SUM(&talk, doubles) > 100);
        /* They are not even acknowledged again. */
        sent = SUM(&talk, frames_sent);
        for (uint32_t i = 0; i < 100; i++) {
            const struct wire_tapped *tapped = wire_tapped(talk.wire, i);

            if (tapped->data[KIND] == EMU_FRAME_DATA)
                wire_inject(talk.wire, !tapped->from, tapped->data, tapped->bytes);
            talk_for(&talk, MS / 10);
        }
        CU_ASSERT(SUM(&talk, frames_sent) - sent < 10);
        /* The peer is gone and its frames are replayed: the session still ends. */
        talk_stop(&talk, 1);
        for (uint32_t round = 0; round < 30; round++) {
            talk_for(&talk, 100 * MS);
            for (uint32_t i = 0; wire_tapped(talk.wire, i) && i < 500; i++)
                if (wire_tapped(talk.wire, i)->from == 1)
                    wire_inject(talk.wire, 0, wire_tapped(talk.wire, i)->data,
                                wire_tapped(talk.wire, i)->bytes);
        }
        CU_ASSERT_EQUAL(emu_session_state(talk.end[0].session), EMU_SESSION_CONNECTING);
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[0].session), 1);
        talk_destroy(&talk);
    }
}

/* Frames of an earlier incarnation, handshake included, replayed in a later one. */
static void frames__of_an_earlier_incarnation_have_no_effect(void)
{
    for (uint32_t run = 0; run < 2; run++) {
        uint32_t old = 0;
        struct talk talk;

        if (run && no_keys())
            break;
        begin(&talk, run, test_seed() + run);
        talk.end[0].limit = talk.end[1].limit = 300;
        expect_done(&talk, 1);
        while (wire_tapped(talk.wire, old))
            old++;
        talk_stop(&talk, 1);
        CU_ASSERT_EQUAL(talk_start(&talk, 1), 0);
        CU_ASSERT(talk_until_done(&talk, S));
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[0].session), 2);
        talk.end[0].limit = talk.end[1].limit = 3000;
        for (uint32_t i = 0; i < 3 * old; i++) {
            const struct wire_tapped *tapped = wire_tapped(talk.wire, i % old);

            wire_inject(talk.wire, !tapped->from, tapped->data, tapped->bytes);
            if (i % 7 == 0)
                talk_step(&talk);
        }
        CU_ASSERT(talk_until_done(&talk, S));
        CU_ASSERT_EQUAL(talk.end[0].wrong + talk.end[1].wrong, 0);
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[0].session), 2);
        CU_ASSERT_EQUAL(emu_session_incarnation(talk.end[1].session), 1);
        CU_ASSERT(SUM(&talk, foreign) > old);
        talk_destroy(&talk);
    }
}

/* Packets far behind the newest are dropped, even in frames with new numbers. */
static void packets__far_behind_are_dropped(void)
{
    uint8_t bytes[EMU_FRAME_HEADER_BYTES + 512 + EMU_FRAME_TAG_BYTES] = {0};
    struct emu_frame header;
    struct talk talk;
    uint64_t received;

    begin(&talk, false, test_seed());
    expect_done(&talk, 1);
    CU_ASSERT_FATAL(last_of(&talk, EMU_FRAME_DATA, &header));
    for (uint32_t i = 0; i < 2; i++) {
        received = emu_count_read(&talk_counts(&talk, 0)->frames_received);
        header.kind = EMU_FRAME_DATA;
        header.seq++;
        header.body_bytes = 100;
        header.packet += i ? 0 : UINT64_C(1) << 40;
        if (i)
            header.packet -= SPAN;
        wire_inject(talk.wire, 0, bytes, made_up(bytes, &talk, &header));
        talk_step(&talk);
        talk_step(&talk);
        CU_ASSERT_EQUAL(emu_count_read(&talk_counts(&talk, 0)->frames_received) - received, !i);
    }
    talk_destroy(&talk);
}

/*
 * Without a key a stranger can forge anything; impossible values are counted, and nothing breaks.
 */
static void acks__of_unsent_packets_are_malformed(void)
{
    static const uint32_t beyond[] = {1, 2, 63, 64, 65, 1000, INT32_MAX};
    uint8_t bytes[EMU_FRAME_HEADER_BYTES + 512 + EMU_FRAME_TAG_BYTES] = {0};
    struct emu_frame header;
    struct talk talk;

    begin(&talk, false, test_seed());
    expect_done(&talk, 1);
    CU_ASSERT_FATAL(last_of(&talk, EMU_FRAME_ACK, &header)); /* it acknowledges everything */
    for (uint32_t i = 0; i < 2 * sizeof beyond / sizeof beyond[0]; i++) {
        struct emu_frame made = header;
        uint64_t before = emu_count_read(&talk_counts(&talk, 0)->malformed);

        made.packet += 1 + i;
        made.body_bytes = i % 2 ? 8 * 64 : 0;
        memset(bytes, i % 2 ? 255 : 0, sizeof bytes);
        if (!(i % 2))
            made.ack += beyond[i / 2];
        wire_inject(talk.wire, 0, bytes, made_up(bytes, &talk, &made));
        talk_for(&talk, MS / 10);
        CU_ASSERT_EQUAL(emu_count_read(&talk_counts(&talk, 0)->malformed), before + 1);
    }
    talk.end[0].limit += 500;
    talk.end[1].limit += 500;
    expect_done(&talk, 1);
    talk_destroy(&talk);
}

/*
 * A host that acknowledges a packet that was never sent, and then nothing, does not make us
 * retransmit all frames again and again: only the oldest is, with growing time-outs.
 */
static void acks__of_an_unsent_packet_lose_nothing(void)
{
    uint8_t bytes[EMU_FRAME_HEADER_BYTES + 512 + EMU_FRAME_TAG_BYTES] = {0};
    struct emu_frame header;
    struct talk talk;
    uint64_t before;

    begin(&talk, false, test_seed());
    expect_done(&talk, 1);
    CU_ASSERT_FATAL(last_of(&talk, EMU_FRAME_ACK, &header));
    before = SUM(&talk, sent_again);
    header.packet++;
    header.body_bytes = 0;
    header.newest = UINT32_MAX - 5;
    wire_inject(talk.wire, 0, bytes, made_up(bytes, &talk, &header));
    talk_for(&talk, MS / 10);
    wire_cut(talk.wire, talk.now_ns + 100 * MS);
    talk.end[0].limit += 3000;
    talk.end[1].limit += 3000;
    talk_for(&talk, 50 * MS);
    CU_ASSERT(SUM(&talk, sent_again) - before < 100);
    expect_done(&talk, 1);
    talk_destroy(&talk);
}

/* The peer uses another version, and both ends report it. */
static void version__mismatch_is_refused(void)
{
    uint8_t bytes[EMU_FRAME_HEADER_BYTES + 512 + EMU_FRAME_TAG_BYTES] = {0};
    struct emu_frame hello, reply = {.kind = EMU_FRAME_REPLY, .mine = 77, .version = 9};
    const struct talk_config config = {.frames = 600};
    struct emu_hostframe frame;
    struct talk talk;

    talk_create(&talk, &config, test_seed());
    wire_tap(talk.wire, TAPS);
    CU_ASSERT_EQUAL(talk_start(&talk, 0), 0);
    talk_for(&talk, MS);
    frame.data = (uint8_t *)wire_tapped(talk.wire, 0)->data;
    frame.bytes = wire_tapped(talk.wire, 0)->bytes;
    CU_ASSERT_FATAL(emu_frame_parse(&frame, &hello));
    CU_ASSERT_EQUAL(hello.kind, EMU_FRAME_HELLO);
    reply.yours = hello.mine + 1; /* does not echo our number: a stranger that has not heard us */
    wire_inject(talk.wire, 0, bytes, made_up(bytes, &talk, &reply));
    talk_for(&talk, MS);
    CU_ASSERT_EQUAL(emu_session_state(talk.end[0].session), EMU_SESSION_CONNECTING);
    reply.yours = hello.mine;
    wire_inject(talk.wire, 0, bytes, made_up(bytes, &talk, &reply));
    talk_for(&talk, MS);
    CU_ASSERT_EQUAL(emu_session_state(talk.end[0].session), EMU_SESSION_REFUSED);
    expect_why(&talk, 0, "version 9");
    talk_destroy(&talk);
}

/* peek() tells which fabric a frame belongs to before a session reads it. */
static void peek__tells_own_frames_from_others(void)
{
    uint8_t bytes[EMU_FRAME_HEADER_BYTES + 512 + EMU_FRAME_TAG_BYTES] = {0};
    struct emu_frame header = {.kind = EMU_FRAME_HELLO, .mine = 1, .version = EMU_FRAME_VERSION};
    struct emu_hostframe frame = {.data = bytes};
    bool malformed = true;
    uint16_t from, to;
    struct talk talk;

    begin(&talk, false, test_seed());
    frame.bytes = made_up(bytes, &talk, &header);
    CU_ASSERT(emu_session_peek(&frame, header.fabric, &from, &to, &malformed));
    CU_ASSERT(from == 1 && to == 0 && !malformed);
    CU_ASSERT(!emu_session_peek(&frame, header.fabric + 1, &from, &to, &malformed));
    CU_ASSERT(!malformed);
    frame.bytes--;
    CU_ASSERT(!emu_session_peek(&frame, header.fabric, &from, &to, &malformed));
    CU_ASSERT(malformed);
    for (frame.bytes = 0; frame.bytes < 14; frame.bytes++) {
        CU_ASSERT(!emu_session_peek(&frame, header.fabric, &from, &to, &malformed));
        CU_ASSERT(!malformed);
    }
    frame.bytes = 100;
    bytes[12] = 8; /* IP */
    bytes[13] = 0;
    CU_ASSERT(!emu_session_peek(&frame, header.fabric, &from, &to, &malformed));
    CU_ASSERT(!malformed);
    talk_destroy(&talk);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(digest__mismatch_is_refused),
        CASE(third__refused_ends_no_session),
        CASE(third__refused_does_not_prevent_a_session),
        CASE(third__replayed_is_ignored),
        CASE(key__mismatch_prevents_a_session),
        CASE(key__at_one_end_prevents_a_session),
        CASE(key__is_refused_without_a_library),
        CASE(check__is_the_best_of_both),
        CASE(stranger__without_the_key_has_no_effect),
        CASE(frames__changed_are_counted_and_dropped),
        CASE(frames__replayed_have_no_effect),
        CASE(frames__of_an_earlier_incarnation_have_no_effect),
        CASE(packets__far_behind_are_dropped),
        CASE(acks__of_unsent_packets_are_malformed),
        CASE(acks__of_an_unsent_packet_lose_nothing),
        CASE(version__mismatch_is_refused),
        CASE(peek__tells_own_frames_from_others),
        {NULL, NULL},
    };

    return test_run("stranger", cases);
}
