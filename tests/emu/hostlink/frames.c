/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frames.c - prints frames between hosts as the code encodes them: a line of JSON for each, with
 * all fields that the dissector must find. For tests/apps/capture/dissector_test.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hostlink/session/auth.h"
#include "emu/hostlink/session/frame.h"
#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "emu/util/combine.h"
#include "emu/util/random.h"

#define BODY_MOST  1024u
#define ROWS_MOST  80u
#define VALUE_MOST (2 * BODY_MOST + 64)

static uint64_t state = 7; /* random values for fields without meaning */

/* A field of the frame and its value. Repeated fields are printed as a list. */
struct row {
    const char *name;
    char value[VALUE_MOST];
};

struct print {
    struct emu_frame header;
    uint8_t frame[EMU_FRAME_HEADER_BYTES + BODY_MOST + EMU_FRAME_TAG_BYTES];
    uint8_t *body;
    struct row row[ROWS_MOST];
    uint32_t rows;
};

static void fill(void *to, size_t bytes)
{
    uint8_t *at = to;

    while (bytes--)
        *at++ = (uint8_t)emu_splitmix(&state);
}

static void field(struct print *p, const char *name, const char *value)
{
    uint32_t i = 0;
    size_t used;

    while (i < p->rows && strcmp(p->row[i].name, name))
        i++;
    if (i == ROWS_MOST)
        abort();
    if (i == p->rows)
        p->row[p->rows++].name = name;
    used = strlen(p->row[i].value);
    snprintf(p->row[i].value + used, VALUE_MOST - used, "%s%s", used ? "," : "", value);
}

static void decimal(struct print *p, const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, value);
    field(p, name, text);
}

/* @digits: the width of the field. */
static void hex(struct print *p, const char *name, uint64_t value, int digits)
{
    char text[32];

    snprintf(text, sizeof text, "0x%0*" PRIx64, digits, value);
    field(p, name, text);
}

static void bytes(struct print *p, const char *name, const uint8_t *value, size_t count)
{
    char text[2 * BODY_MOST + 1];

    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", value[i]);
    field(p, name, text);
}

static void frame_begin(struct print *p, enum emu_frame_kind kind, enum emu_auth_check check)
{
    struct emu_frame *h = &p->header;

    memset(p, 0, sizeof *p);
    fill(h, sizeof *h);
    h->version = EMU_FRAME_VERSION;
    h->kind = (uint8_t)kind;
    h->check = (uint8_t)check;
    h->body_bytes = 0;
    p->body = p->frame + EMU_FRAME_HEADER_BYTES;
}

static void header_fields(struct print *p)
{
    const struct emu_frame *h = &p->header;

    hex(p, "fabemu_frame.magic", EMU_FRAME_MAGIC, 2);
    decimal(p, "fabemu_frame.version", h->version);
    hex(p, "fabemu_frame.fabric", h->fabric, 16);
    decimal(p, "fabemu_frame.from", h->from);
    decimal(p, "fabemu_frame.to", h->to);
    decimal(p, "fabemu_frame.kind", h->kind);
    decimal(p, "fabemu_frame.check", h->check);
    decimal(p, "fabemu_frame.length", h->body_bytes);
    decimal(p, "fabemu_frame.packet", h->packet);
    hex(p, "fabemu_frame.yours", h->yours, 16);
    hex(p, "fabemu_frame.mine", h->mine, 16);
    decimal(p, "fabemu_frame.seq", h->seq);
    decimal(p, "fabemu_frame.ack", h->ack);
    decimal(p, "fabemu_frame.sent", h->sent_ns);
    decimal(p, "fabemu_frame.echo", h->echo_ns);
    decimal(p, "fabemu_frame.needless", h->needless);
    decimal(p, "fabemu_frame.newest", h->newest);
}

/* A checksum (no key) is correct; a keyed tag is random. */
static void frame_tag(struct print *p, uint8_t *tag)
{
    bool crc = p->header.check == EMU_AUTH_CRC;
    struct emu_auth *auth;

    fill(tag, EMU_FRAME_TAG_BYTES);
    if (crc && emu_auth_create(&auth, NULL) == 0) {
        emu_auth_seal(auth, EMU_AUTH_CRC, p->header.packet, p->frame, (uint32_t)(tag - p->frame));
        emu_auth_destroy(auth);
    }
    bytes(p, "fabemu_frame.tag", tag, EMU_FRAME_TAG_BYTES);
    decimal(p, "fabemu_frame.tag.status", crc ? 1 : 2); /* 1: good, 2: not checked */
}

static void frame_end(struct print *p)
{
    uint32_t whole = emu_frame_bytes(p->header.body_bytes);

    emu_frame_write(p->frame, &p->header);
    header_fields(p);
    frame_tag(p, p->frame + whole - EMU_FRAME_TAG_BYTES);
    printf("{\"hex\": \"");
    for (uint32_t i = 0; i < whole; i++)
        printf("%02x", p->frame[i]);
    printf("\", \"fields\": {");
    for (uint32_t i = 0; i < p->rows; i++)
        printf("%s\"%s\": \"%s\"", i ? ", " : "", p->row[i].name, p->row[i].value);
    printf("}}\n");
}

static void entry_fields(struct print *p, const struct emu_hostlink_record *r)
{
    decimal(p, "fabemu_frame.record.buffer", r->has_buf);
    decimal(p, "fabemu_frame.record.own", r->own_hdr != NULL);
    decimal(p, "fabemu_frame.record.length", r->payload_bytes);
    decimal(p, "fabemu_frame.entry.at", r->at_ps);
    hex(p, "fabemu_frame.entry.crc", r->entry.crc, 8);
    hex(p, "fabemu_frame.entry.note", r->note, 8);
}

static void record_fields(struct print *p, const struct emu_hostlink_record *r)
{
    bool control = r->kind == EMU_HOSTLINK_CONTROL;

    decimal(p, "fabemu_frame.record", r->kind);
    decimal(p, "fabemu_frame.record.cable", r->cable);
    if (r->kind == EMU_HOSTLINK_ENTRY) {
        entry_fields(p, r);
    } else if (r->kind == EMU_HOSTLINK_CLOCK) {
        decimal(p, "fabemu_frame.clock.sent", r->sent_ns);
        decimal(p, "fabemu_frame.clock.echo", r->echo_ns);
        decimal(p, "fabemu_frame.clock.came", r->received_ns);
    } else if (control || r->kind == EMU_HOSTLINK_STEP) {
        if (!control)
            decimal(p, "fabemu_frame.step", r->channel);
        decimal(p, "fabemu_frame.record.length", r->length);
        bytes(p, control ? "fabemu_frame.control" : "fabemu_frame.step.bytes", r->bytes, r->length);
    } else if (r->kind != EMU_HOSTLINK_READY) {
        decimal(p, "fabemu_frame.record.channel", r->channel);
        decimal(p, "fabemu_frame.record.count", r->count);
    }
    if (r->kind == EMU_HOSTLINK_CREDIT_AT)
        decimal(p, "fabemu_frame.credit.at", r->credit_ps);
}

static void record(struct print *p, const struct emu_hostlink_record *r)
{
    emu_hostlink_write(p->body + p->header.body_bytes, r);
    p->header.body_bytes = (uint16_t)(p->header.body_bytes + emu_hostlink_bytes(r));
    record_fields(p, r);
}

static void print_offer(enum emu_frame_kind kind)
{
    struct emu_frame_offer offer;
    struct print p;

    frame_begin(&p, kind, EMU_AUTH_HANDSHAKE);
    fill(&offer, sizeof offer);
    emu_frame_offer_write(p.body, &offer);
    p.header.body_bytes = EMU_FRAME_OFFER_BYTES;
    bytes(&p, "fabemu_frame.digest", offer.digest, sizeof offer.digest);
    decimal(&p, "fabemu_frame.frame_bytes", offer.frame_bytes);
    decimal(&p, "fabemu_frame.window", offer.window);
    decimal(&p, "fabemu_frame.first", offer.first_seq);
    hex(&p, "fabemu_frame.checks", offer.checks, 8);
    frame_end(&p);
}

static void segment_fields(struct print *p, const struct emu_hdr *hdr)
{
    hex(p, "fabemu.address", hdr->dst, 8);
    decimal(p, "fabemu.group", hdr->dst & ~EMU_GROUP_WIDE);
    decimal(p, "fabemu.wide", hdr->dst >> 31);
    decimal(p, "fabemu.src", hdr->src);
    decimal(p, "fabemu.seq", hdr->seq);
    decimal(p, "fabemu.kind", emu_hdr_kind(hdr));
    decimal(p, "fabemu.notify", hdr->kind / EMU_NOTIFY & 1);
    decimal(p, "fabemu.failed", hdr->kind / EMU_FAILED & 1);
    decimal(p, "fabemu.stored", hdr->kind / EMU_STORED & 1);
    decimal(p, "fabemu.len", hdr->len);
    decimal(p, hdr->kind == EMU_ALLREDUCE ? "fabemu.op" : "fabemu.op.raw", hdr->op);
    decimal(p, hdr->kind == EMU_ALLREDUCE ? "fabemu.type" : "fabemu.type.raw", hdr->type);
}

/* A segment of a group, in the record without the header of its buffer. */
static void print_segment(void)
{
    uint8_t payload[40];
    struct emu_hostlink_record entry = {.kind = EMU_HOSTLINK_ENTRY, .cable = 3, .has_buf = true};
    struct print p;

    frame_begin(&p, EMU_FRAME_DATA, EMU_AUTH_CRC);
    fill(payload, sizeof payload);
    entry.entry.hdr = (struct emu_hdr){.dst = 5 | EMU_GROUP_WIDE,
                                       .src = 11,
                                       .seq = 123456,
                                       .kind = EMU_ALLREDUCE,
                                       .len = sizeof payload,
                                       .op = EMU_MAX,
                                       .type = EMU_F64};
    entry.entry.crc = 0xabcd;
    entry.payload = payload;
    entry.payload_bytes = sizeof payload;
    entry.at_ps = emu_splitmix(&state);
    record(&p, &entry);
    segment_fields(&p, &entry.entry.hdr);
    bytes(&p, "fabemu.payload", payload, sizeof payload);
    frame_end(&p);
}

/* All short records: credits, clocks and supersteps. */
static void print_counts(void)
{
    static const uint8_t why[] = "a host has ended";
    struct print p;

    frame_begin(&p, EMU_FRAME_DATA, EMU_AUTH_CRC);
    for (uint8_t kind = EMU_HOSTLINK_CREDITS; kind < EMU_HOSTLINK_KINDS; kind++) {
        struct emu_hostlink_record r = {.kind = kind};

        if (kind == EMU_HOSTLINK_CLOCK) {
            r.sent_ns = emu_splitmix(&state);
            r.echo_ns = emu_splitmix(&state);
            r.received_ns = emu_splitmix(&state);
        } else if (kind == EMU_HOSTLINK_STEP) {
            r.channel = EMU_STEP_FAIL;
            r.bytes = why;
            r.length = sizeof why - 1;
        } else if (kind != EMU_HOSTLINK_CONTROL && kind != EMU_HOSTLINK_READY) {
            r.cable = 70u + kind;
            r.count = 1000u * kind;
            r.channel = kind == EMU_HOSTLINK_OLD || kind == EMU_HOSTLINK_CREDIT_AT ? kind : 0;
            r.credit_ps = kind == EMU_HOSTLINK_CREDIT_AT ? emu_splitmix(&state) : 0;
        }
        if (kind != EMU_HOSTLINK_CONTROL)
            record(&p, &r);
    }
    frame_end(&p);
}

static void head_fields(struct print *p, const struct emu_head *head, uint64_t wire)
{
    decimal(p, "fabemu.head.channel", head->channel);
    decimal(p, "fabemu.head.priority", head->priority);
    decimal(p, "fabemu.head.group", head->group);
    decimal(p, "fabemu.head.dst", head->dst);
    decimal(p, "fabemu.head.bytes", head->bytes);
    decimal(p, "fabemu.head.stamp", head->stamp);
    decimal(p, "fabemu.head.more", head->more);
    hex(p, "fabemu.head.crc16", wire >> 48, 4);
    decimal(p, "fabemu.head.crc16.status", 1);
}

/* A packet with its segment as payload, and control channel bytes, in a keyed frame. */
static void print_packet(void)
{
    static const uint8_t said[] = "{\"cmd\":\"status\"}";
    const struct emu_head head = {
        .channel = 9, .priority = 2, .dst = 300, .bytes = 2000, .stamp = 700, .more = true};
    struct emu_hdr own = {.dst = 6, .src = 12, .seq = 9, .kind = EMU_BARRIER};
    struct emu_hostlink_record entry = {.kind = EMU_HOSTLINK_ENTRY,
                                        .cable = 1,
                                        .has_buf = true,
                                        .note = 0x9876};
    struct emu_hostlink_record control = {.kind = EMU_HOSTLINK_CONTROL,
                                          .bytes = said,
                                          .length = sizeof said - 1};
    struct emu_packet_hdr packet = {.head = emu_head_pack(&head),
                                    .tag = 0x12345678,
                                    .kind = EMU_PACKET_HEAD,
                                    .wire = 255,
                                    .channel = 9};
    struct print p;

    frame_begin(&p, EMU_FRAME_DATA, EMU_AUTH_AES);
    memcpy(&entry.entry.hdr, &packet, sizeof packet);
    entry.own_hdr = (const uint8_t *)&own;
    record(&p, &entry);
    record(&p, &control);
    hex(&p, "fabemu.packet.tag", packet.tag, 8);
    decimal(&p, "fabemu.packet.kind", packet.kind);
    decimal(&p, "fabemu.packet.wire", packet.wire + 1u);
    decimal(&p, "fabemu.packet.channel", packet.channel);
    decimal(&p, "fabemu.packet.last", packet.last);
    head_fields(&p, &head, packet.head);
    segment_fields(&p, &own);
    frame_end(&p);
}

static void print_map(void)
{
    struct print p;

    frame_begin(&p, EMU_FRAME_ACK, EMU_AUTH_CHACHA);
    p.header.body_bytes = 16;
    for (uint32_t word = 0; word < 2; word++)
        emu_frame_map_write(p.body, word, emu_splitmix(&state));
    bytes(&p, "fabemu_frame.map", p.body, 16);
    frame_end(&p);
}

int main(void)
{
    for (int kind = EMU_FRAME_HELLO; kind <= EMU_FRAME_CONFIRM; kind++)
        print_offer((enum emu_frame_kind)kind);
    print_segment();
    print_counts();
    print_packet();
    print_map();
    return 0;
}
