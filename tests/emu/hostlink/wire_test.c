/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_test.c - the wire format of host link records: decoding inverts encoding, and invalid
 * records are refused.
 */
#include <string.h>

#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "tests/test.h"

#define CABLES 5u
#define ROUNDS 4000u

/* A record and its encoding. */
struct written {
    struct emu_hostlink_record record;
    uint8_t own[EMU_HDR_BYTES];
    uint8_t bytes[EMU_HOSTLINK_CONTROL_BYTES];
};

static void draw_entry(uint64_t *random, struct written *w)
{
    struct emu_hostlink_record *r = &w->record;
    struct emu_hdr *hdr = &r->entry.hdr;

    *hdr = (struct emu_hdr){.dst = (uint32_t)test_random(random),
                            .src = (uint32_t)test_random(random),
                            .seq = (uint32_t)test_random(random),
                            .kind = (uint8_t)test_random(random),
                            .op = (uint8_t)test_random(random)};
    r->entry.crc = (uint32_t)test_random(random);
    r->at_ps = test_random(random);
    r->has_buf = test_random(random) % 4;
    if (!r->has_buf)
        return;
    r->payload = w->bytes;
    r->payload_bytes = (uint32_t)test_draw(random, 0, EMU_PAYLOAD_BYTES);
    r->note = (uint32_t)test_random(random);
    if (test_random(random) % 2)
        r->own_hdr = w->own;
}

static void draw(uint64_t *random, struct written *w)
{
    struct emu_hostlink_record *r = &w->record;

    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < sizeof w->bytes; i++)
        w->bytes[i] = (uint8_t)test_random(random);
    memcpy(w->own, w->bytes + 7, sizeof w->own);
    r->kind = (uint8_t)test_draw(random, 1, EMU_HOSTLINK_KINDS - 1);
    if (r->kind <= EMU_HOSTLINK_OLD || r->kind == EMU_HOSTLINK_CREDIT_AT)
        r->cable = (uint32_t)test_draw(random, 0, CABLES - 1);
    if (r->kind == EMU_HOSTLINK_ENTRY) {
        draw_entry(random, w);
    } else if (r->kind == EMU_HOSTLINK_CONTROL || r->kind == EMU_HOSTLINK_STEP) {
        if (r->kind == EMU_HOSTLINK_STEP)
            r->channel = (uint8_t)test_draw(random, 0, EMU_STEPS - 1);
        r->bytes = w->bytes;
        r->length = (uint32_t)test_draw(random, 0, EMU_HOSTLINK_CONTROL_BYTES);
    } else if (r->kind == EMU_HOSTLINK_CLOCK) {
        r->sent_ns = test_random(random);
        r->echo_ns = test_random(random);
        r->received_ns = test_random(random);
    } else if (r->kind != EMU_HOSTLINK_READY) {
        r->count = (uint32_t)test_draw(random, 1, UINT32_MAX);
        if (r->kind == EMU_HOSTLINK_CREDIT_AT)
            r->credit_ps = test_random(random);
        if (r->kind == EMU_HOSTLINK_CREDITS || r->kind == EMU_HOSTLINK_CREDIT_AT ||
            r->kind == EMU_HOSTLINK_OLD)
            r->channel = (uint8_t)test_draw(random, 0, EMU_VCS - 1);
    }
}

static bool same_entry(const struct emu_hostlink_record *a, const struct emu_hostlink_record *b)
{
    if (memcmp(&a->entry.hdr, &b->entry.hdr, EMU_HDR_BYTES) || a->entry.crc != b->entry.crc ||
        a->at_ps != b->at_ps || a->has_buf != b->has_buf || a->note != b->note)
        return false;
    return !a->has_buf || (a->payload_bytes == b->payload_bytes && !a->own_hdr == !b->own_hdr &&
                           !memcmp(a->payload, b->payload, a->payload_bytes) &&
                           (!a->own_hdr || !memcmp(a->own_hdr, b->own_hdr, EMU_HDR_BYTES)));
}

static bool same(const struct emu_hostlink_record *a, const struct emu_hostlink_record *b)
{
    if (a->kind != b->kind || a->cable != b->cable || a->channel != b->channel)
        return false;
    switch (a->kind) {
    case EMU_HOSTLINK_ENTRY:
        return same_entry(a, b);
    case EMU_HOSTLINK_READY:
        return true;
    case EMU_HOSTLINK_CREDIT_AT:
        return a->count == b->count && a->credit_ps == b->credit_ps;
    case EMU_HOSTLINK_CONTROL:
    case EMU_HOSTLINK_STEP:
        return a->length == b->length && !memcmp(a->bytes, b->bytes, a->length);
    case EMU_HOSTLINK_CLOCK:
        return a->sent_ns == b->sent_ns && a->echo_ns == b->echo_ns &&
               a->received_ns == b->received_ns;
    default:
        return a->count == b->count;
    }
}

/* Records of all kinds at maximum length; no byte beyond them is read. */
static void records__decode_to_the_original(void)
{
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct emu_hostlink_record back;
        struct written w;
        uint32_t bytes;
        uint8_t *wire;

        draw(&random, &w);
        bytes = emu_hostlink_bytes(&w.record);
        CU_ASSERT_TRUE_FATAL(bytes <= EMU_HOSTLINK_RECORD_BYTES);
        wire = malloc(bytes);
        emu_hostlink_write(wire, &w.record);
        CU_ASSERT_EQUAL_FATAL(emu_hostlink_parse(wire, bytes, CABLES, &back), bytes);
        CU_ASSERT_TRUE_FATAL(same(&w.record, &back));
        for (uint32_t less = 0; less < bytes; less++) {
            uint8_t *cut = malloc(less + 1);

            memcpy(cut, wire, less);
            CU_ASSERT_EQUAL_FATAL(emu_hostlink_parse(cut, less, CABLES, &back), 0);
            free(cut);
            if (less > 64 && bytes - less > 64)
                less += 60;
        }
        free(wire);
    }
}

/* A record of each kind with one byte that must be zero, or an impossible number. */
static void records__malformed_ones_are_refused(void)
{
    static const struct {
        uint8_t kind, at, value;
    } wrong[] = {
        {EMU_HOSTLINK_ENTRY, 0, 0},     {EMU_HOSTLINK_ENTRY, 0, EMU_HOSTLINK_KINDS},
        {EMU_HOSTLINK_ENTRY, 0, 255},   {EMU_HOSTLINK_ENTRY, 1, 2},
        {EMU_HOSTLINK_ENTRY, 1, 4},     {EMU_HOSTLINK_ENTRY, 2, 1},
        {EMU_HOSTLINK_ENTRY, 4, 5},     {EMU_HOSTLINK_ENTRY, 7, 128},
        {EMU_HOSTLINK_ENTRY, 36, 1},    {EMU_HOSTLINK_CREDITS, 1, EMU_VCS},
        {EMU_HOSTLINK_CREDITS, 8, 0},   {EMU_HOSTLINK_CREDITS, 12, 1},
        {EMU_HOSTLINK_CREDITS, 2, 1},   {EMU_HOSTLINK_CREDITS, 4, 5},
        {EMU_HOSTLINK_TAKEN, 1, 1},     {EMU_HOSTLINK_TAKEN, 8, 0},
        {EMU_HOSTLINK_OLD, 8, 0},       {EMU_HOSTLINK_READY, 1, 1},
        {EMU_HOSTLINK_READY, 2, 1},     {EMU_HOSTLINK_READY, 4, 1},
        {EMU_HOSTLINK_CONTROL, 1, 1},   {EMU_HOSTLINK_CONTROL, 3, 5},
        {EMU_HOSTLINK_CONTROL, 4, 1},   {EMU_HOSTLINK_CONTROL_TAKEN, 4, 1},
        {EMU_HOSTLINK_CLOCK, 1, 1},     {EMU_HOSTLINK_CLOCK, 3, 1},
        {EMU_HOSTLINK_STEP, 4, 1},      {EMU_HOSTLINK_STEP, 1, EMU_STEPS},
        {EMU_HOSTLINK_STEP, 3, 5},      {EMU_HOSTLINK_CREDIT_AT, 1, EMU_VCS},
        {EMU_HOSTLINK_CREDIT_AT, 8, 0}, {EMU_HOSTLINK_CREDIT_AT, 4, 5},
    };
    uint8_t bytes[EMU_HOSTLINK_CONTROL_BYTES] = {0};
    uint8_t wire[2 * EMU_HOSTLINK_RECORD_BYTES];
    struct emu_hostlink_record back;

    for (uint32_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct emu_hostlink_record record = {.kind = wrong[i].kind};

        if (record.kind == EMU_HOSTLINK_CONTROL || record.kind == EMU_HOSTLINK_STEP)
            record.bytes = bytes;
        else if (record.kind != EMU_HOSTLINK_CLOCK && record.kind != EMU_HOSTLINK_ENTRY)
            record.count = 1;
        memset(wire, 0, sizeof wire);
        emu_hostlink_write(wire, &record);
        CU_ASSERT_NOT_EQUAL_FATAL(emu_hostlink_parse(wire, sizeof wire, CABLES, &back), 0);
        CU_ASSERT_NOT_EQUAL_FATAL(wire[wrong[i].at], wrong[i].value);
        wire[wrong[i].at] = wrong[i].value;
        CU_ASSERT_EQUAL(emu_hostlink_parse(wire, sizeof wire, CABLES, &back), 0);
    }
    /* a payload longer than a segment's, and too many control bytes */
    memset(wire, 0, sizeof wire);
    wire[0] = EMU_HOSTLINK_ENTRY;
    wire[1] = 1;
    wire[2] = EMU_PAYLOAD_BYTES;
    CU_ASSERT_NOT_EQUAL(emu_hostlink_parse(wire, sizeof wire, CABLES, &back), 0);
    wire[2]++;
    CU_ASSERT_EQUAL(emu_hostlink_parse(wire, sizeof wire, CABLES, &back), 0);
}

int main(void)
{
    static const struct test_case cases[] = {CASE(records__decode_to_the_original),
                                             CASE(records__malformed_ones_are_refused),
                                             {NULL, NULL}};

    return test_run("wire", cases);
}
