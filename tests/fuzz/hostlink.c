/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.c - two hosts on a wire (emu/hostlink/session/session.h), and a stranger who sends
 * arbitrary bytes, changed or replayed frames of theirs, and forged frames with all numbers right.
 *
 * The input's first byte says whether they have a key (its low bit), and whether the wire loses and
 * reorders frames (the next one). Commands follow, a byte each with parameters.
 *
 * With a key the stranger has no effect: all records of the hosts arrive, and no incarnation ends
 * without their action. Without one the stranger can act for them; still nothing breaks, no frame
 * leaks, and restarted hosts can connect.
 */
#include <string.h>

#include "emu/util/count.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fixtures/hostlink/talk.h"

#define FRAME_BYTES 600u
#define TAPS        256u
#define END_NS      UINT64_C(30000000000) /* at the end, everything arrives within this time */

enum command {
    RAW,    /* end, length, bytes: an arbitrary frame */
    CHANGE, /* end, which tapped frame, 2 of offset, xor, 2 of length: a changed replay */
    MADE,   /* end, kind, check, version, differences of numbers, body: with a valid CRC */
    STEP,   /* count: steps of both hosts */
    TIME,   /* exponent: advances the clock by a power of two */
    PUT,    /* end, records: a host sends this number of records */
    GO,     /* end: a host restarts */
    CUT,    /* exponent: the wire is cut for a power of two of time */
    COMMANDS
};

struct fuzz_fixture {
    struct talk talk;
    bool keyed;
    uint32_t restarts;
};

static void inject_raw(struct fuzz_fixture *fixture, struct fuzz_input *in)
{
    uint8_t frame[FRAME_BYTES] = {0};
    uint32_t end = fuzz_u8(in) % 2;
    size_t bytes = fuzz_bytes(in, frame, fuzz_u8(in) + 1u);

    if (bytes)
        wire_inject(fixture->talk.wire, end, frame, (uint32_t)bytes);
}

static void inject_changed(struct fuzz_fixture *fixture, struct fuzz_input *in)
{
    uint8_t frame[FRAME_BYTES] = {0};
    uint32_t end = fuzz_u8(in) % 2;
    const struct wire_tapped *tapped = wire_tapped(fixture->talk.wire, fuzz_u8(in));
    uint32_t at = fuzz_u16(in), bytes;
    uint8_t with = fuzz_u8(in);
    uint16_t length = fuzz_u16(in);

    if (!tapped)
        return;
    memcpy(frame, tapped->data, tapped->bytes);
    frame[at % tapped->bytes] ^= with;
    bytes = length ? length % FRAME_BYTES + 1 : tapped->bytes;
    wire_inject(fixture->talk.wire, end, frame, bytes);
}

/* The numbers of the last frame sent to @end. */
static bool last_header(const struct fuzz_fixture *fixture, uint32_t end, struct emu_frame *ret)
{
    bool found = false;

    for (uint32_t i = 0; i < TAPS && wire_tapped(fixture->talk.wire, i); i++) {
        const struct wire_tapped *tapped = wire_tapped(fixture->talk.wire, i);
        struct emu_hostframe frame = {.data = (uint8_t *)tapped->data, .bytes = tapped->bytes};

        if (tapped->from != end && emu_frame_parse(&frame, ret))
            found = true;
    }
    return found;
}

static void inject_made(struct fuzz_fixture *fixture, struct fuzz_input *in)
{
    uint8_t frame[FRAME_BYTES] = {0};
    uint32_t end = fuzz_u8(in) % 2;
    struct emu_frame header;
    struct emu_auth *auth;
    size_t most;

    if (!last_header(fixture, end, &header))
        return;
    header.kind = fuzz_u8(in);
    header.check = fuzz_u8(in);
    header.version = (uint8_t)(EMU_FRAME_VERSION + fuzz_u8(in));
    header.packet += fuzz_u16(in);
    header.seq += (uint32_t)(int8_t)fuzz_u8(in);
    header.ack += (uint32_t)(int8_t)fuzz_u8(in);
    header.mine += fuzz_u8(in);
    header.yours += fuzz_u8(in);
    header.echo_ns += fuzz_u16(in);
    header.needless += fuzz_u8(in);
    most = fuzz_u8(in);
    header.body_bytes =
        (uint16_t)(emu_frame_is_handshake(header.kind) ? EMU_FRAME_OFFER_BYTES : most);
    if (emu_frame_is_handshake(header.kind) && most & 1)
        emu_frame_offer_write(frame + EMU_FRAME_HEADER_BYTES,
                              &(struct emu_frame_offer){.digest = "the same cluster file",
                                                        .frame_bytes = 512 + fuzz_u16(in),
                                                        .window = 1u << fuzz_u8(in) % 32,
                                                        .first_seq = fuzz_u32(in),
                                                        .checks = fuzz_u8(in)});
    else
        fuzz_bytes(in, frame + EMU_FRAME_HEADER_BYTES, header.body_bytes);
    emu_frame_write(frame, &header);
    fuzz_must(!emu_auth_create(&auth, NULL), "frames can be checked without a key");
    emu_auth_seal(auth, EMU_AUTH_CRC, 0, frame, EMU_FRAME_HEADER_BYTES + header.body_bytes);
    emu_auth_destroy(auth);
    wire_inject(fixture->talk.wire, end, frame, emu_frame_bytes(header.body_bytes));
}

static void restart(struct fuzz_fixture *fixture, uint32_t end)
{
    talk_stop(&fixture->talk, end);
    fuzz_must(!talk_start(&fixture->talk, end), "an end");
    fixture->restarts++;
}

static void run(struct fuzz_fixture *fixture, struct fuzz_input *in)
{
    struct talk *talk = &fixture->talk;

    switch (fuzz_u8(in) % COMMANDS) {
    case RAW:
        inject_raw(fixture, in);
        break;
    case CHANGE:
        inject_changed(fixture, in);
        break;
    case MADE:
        inject_made(fixture, in);
        break;
    case STEP:
        for (uint32_t steps = fuzz_u8(in) % 64; steps; steps--)
            talk_step(talk);
        break;
    case TIME:
        talk_for(talk, UINT64_C(1000) << fuzz_u8(in) % 16);
        break;
    case PUT:
        talk->end[fuzz_u8(in) % 2].limit += fuzz_u8(in) % 64;
        break;
    case GO:
        restart(fixture, fuzz_u8(in) % 2);
        break;
    case CUT:
        wire_cut(talk->wire, talk->now_ns + (UINT64_C(1000) << fuzz_u8(in) % 20));
        break;
    }
}

/* Check that hosts can communicate when the wire is good and the stranger is gone. */
static void finish(struct fuzz_fixture *fixture)
{
    struct talk *talk = &fixture->talk;

    for (uint32_t i = 0; i < 2; i++) {
        *wire_faults(talk->wire, i) = (struct wire_faults){.delay_ns = 1000};
        talk->end[i].limit += 10;
    }
    if (fixture->keyed) {
        fuzz_must(talk_until_done(talk, END_NS), "with a key, all records arrive");
        fuzz_must(!talk->end[0].wrong && !talk->end[1].wrong, "with a key, no record is changed");
        for (uint32_t i = 0; i < 2; i++)
            fuzz_must(emu_session_incarnation(talk->end[i].session) <= 1 + 2 * fixture->restarts,
                      "with a key, only the hosts end incarnations");
        return;
    }
    talk_for(talk, END_NS / 100);
    for (uint32_t i = 0; i < 2; i++) {
        restart(fixture, i);
        talk->end[i].wrong = 0;
    }
    fuzz_must(talk_until_done(talk, END_NS), "hosts that have restarted can communicate");
    fuzz_must(!talk->end[0].wrong && !talk->end[1].wrong,
              "hosts that have restarted receive what was sent");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {.at = data, .left = bytes};
    struct fuzz_fixture fixture = {.restarts = 0};
    struct talk_config config = {.frames = 512, .frame_bytes = FRAME_BYTES};
    uint8_t how = fuzz_u8(&in);

    fixture.keyed = config.keyed = how & 1 && !emu_auth_missing();
    talk_create(&fixture.talk, &config, 1 + (how >> 2));
    wire_tap(fixture.talk.wire, TAPS);
    for (uint32_t i = 0; i < 2; i++) {
        if (how & 2)
            *wire_faults(fixture.talk.wire, i) =
                (struct wire_faults){.lost = 100000, .duplicated = 50000, .jitter_ns = 100000};
        fuzz_must(!talk_start(&fixture.talk, i), "an end");
    }
    while (in.left)
        run(&fixture, &in);
    finish(&fixture);
    talk_destroy(&fixture.talk);
    return 0;
}
