/* SPDX-License-Identifier: BSD-3-Clause */
/* lies.c - change the frames of a lying host (lies.h). */
#include "tests/e2e/lies.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "emu/hostlink/session/frame.h"
#include "emu/hostlink/wire.h"
#include "emu/packet/crc.h"

#define RECORDS_MOST 512u
#define BODY_AT      30u /* offset of body_bytes in a frame (frame.c) */

/* Messages to insert; each %u is replaced by a random number. */
static const char *const messages[] = {
    "{\"cut_off\":%u}",
    "{\"link_lost\":{\"host\":%u,\"number\":%u,\"of\":%u}}",
    "{\"hit\":%u,\"fault\":%u}",
    "{\"reply\":%u,\"errno\":%u}",
    "{\"reply\":0,\"hit\":%u,\"fault\":%u}",
    "{\"reply\":0,\"sample\":\"%u\",\"of\":%u,\"number\":%u,\"more\":1}",
    "{\"client\":%u,\"new\":%u,\"command\":\"liar\"}",
    "{\"client\":%u,\"new\":1,\"hit\":%u}",
    "{\"client\":%u,\"end\":true}",
    "{\"client\":%u,\"how\":\"\\u001b[2Jgone\"}",
    "{\"client\":%u,\"stopped\":%u}",
    "{\"client\":%u,\"taken\":%u}",
    "{\"client\":%u,\"line\":{\"cmd\":\"status\"}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"attach\",\"version\":12,\"want\":%u}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"detach\"}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"group_leave\",\"group\":%u}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"group_break\",\"group\":%u}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"group_create\",\"nodes\":[%u,%u]}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"fault\",\"fault\":\"link-down link=%u:%u for=10ms\"}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"fault_clear\",\"fault\":%u}}",
    "{\"client\":%u,\"line\":{\"cmd\":\"check\"}}",
    "{\"client\":%u,\"line\":{\"ok\":true,\"node\":%u,\"incarnation\":%u}}",
    "{\"client\":%u,\"text\":\"{\\\"ok\\\":\",\"more\":%u}",
    "{\"call\":%u,\"do\":\"detach\",\"node\":%u,\"dead\":%u}",
    "{\"call\":%u,\"do\":\"attach\",\"node\":%u}",
    "{\"call\":%u,\"do\":\"leave\",\"node\":%u,\"group\":%u}",
    "{\"call\":%u,\"do\":\"group\",\"nodes\":[%u,%u],\"wide\":%u,\"group\":%u}",
    "{\"call\":%u,\"do\":\"link\",\"cable\":%u,\"up\":%u,\"fault\":%u}",
    "{\"call\":%u,\"do\":\"reroute\",\"out\":[%u,%u]}",
    "{\"call\":%u,\"do\":\"unit_out\",\"switch\":%u}",
    "{\"call\":%u,\"do\":\"failed\",\"group\":%u}",
    "{\"call\":%u,\"do\":\"node_incarnation\",\"node\":%u,\"word\":%u}",
    "{\"call\":%u,\"do\":\"host_incarnation\",\"host\":%u,\"incarnation\":%u}",
    "{\"call\":%u,\"do\":\"begin\",\"nodes\":[%u,%u,1],\"down\":[%u],\"units\":[%u]}",
    "{\"call\":%u,\"do\":\"sample\",\"of\":%u,\"anew\":1,\"number\":%u}",
    "{\"call\":%u,\"do\":\"test\",\"cables\":[%u],\"packets\":%u}",
    "{\"call\":%u,\"do\":\"pending\",\"from\":%u}",
    "{\"call\":%u,\"do\":\"arrived\",\"group\":%u,\"seq\":%u}",
    "{\"call\":%u,\"do\":\"reroute_in_flight\",\"reachable\":%u,\"drops\":%u}",
};
#define MESSAGES (sizeof messages / sizeof messages[0])

static uint64_t draw(struct lies *lies)
{
    uint64_t x = lies->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool chance(struct lies *lies, double rate)
{
    return (double)(draw(lies) >> 11) * 0x1p-53 < rate;
}

/* Draw a number that is often small, or at a limit. */
static uint64_t number(struct lies *lies)
{
    static const uint64_t limits[] = {UINT32_MAX, UINT64_MAX, INT64_MAX, 1u << 31, 65535, 255};

    if (chance(lies, 0.2))
        return limits[draw(lies) % (sizeof limits / sizeof limits[0])];
    return draw(lies) >> (chance(lies, 0.7) ? 59 : draw(lies) % 64);
}

static void tell(struct lies *lies, const char *what, uint32_t kind, const char *text, size_t bytes)
{
    lies->told++;
    if (!lies->log)
        return;
    fprintf(lies->log, "%llu %s, record %u: ", (unsigned long long)lies->told, what, kind);
    for (size_t i = 0; i < bytes && i < 400; i++)
        fputc(isprint((unsigned char)text[i]) ? text[i] : '.', lies->log);
    fputc('\n', lies->log);
    fflush(lies->log);
}

/* --- the records of a frame ---------------------------------------------------------------- */

struct part {
    uint32_t at, bytes;
    struct emu_hostlink_record record;
};

/* Find the records in a body. Returns 0 if one is malformed. */
static uint32_t parts_of(const uint8_t *body, uint32_t bytes, struct part *part)
{
    uint32_t count = 0, at = 0;

    while (at < bytes && count < RECORDS_MOST) {
        part[count].at = at;
        part[count].bytes =
            emu_hostlink_parse(body + at, bytes - at, UINT32_MAX, &part[count].record);
        if (!part[count].bytes)
            return 0;
        at += part[count++].bytes;
    }
    return count;
}

static void seal(uint8_t *frame, uint32_t body_bytes)
{
    uint32_t bytes = EMU_FRAME_HEADER_BYTES + body_bytes;
    uint32_t crc;
    uint16_t length = (uint16_t)body_bytes;

    memcpy(frame + BODY_AT, &length, sizeof length);
    crc = emu_crc32(0, frame, bytes);
    memset(frame + bytes, 0, EMU_FRAME_TAG_BYTES);
    memcpy(frame + bytes, &crc, sizeof crc);
}

/* --- lies ---------------------------------------------------------------------------------- */

static void change_record(struct lies *lies, uint8_t *body, const struct part *part)
{
    uint8_t *at = body + part->at + draw(lies) % (part->bytes < 56 ? part->bytes : 56);
    uint64_t count = number(lies);
    char text[64];

    if (chance(lies, 0.3) && part->bytes >= EMU_HOSTLINK_COUNT_BYTES) {
        memcpy(body + part->at + EMU_HOSTLINK_HEAD_BYTES, &count, sizeof count);
        at = body + part->at + EMU_HOSTLINK_HEAD_BYTES;
    } else {
        *at = chance(lies, 0.3) ? 0 : chance(lies, 0.3) ? 255 : (uint8_t)draw(lies);
    }
    snprintf(text, sizeof text, "byte %u is %u", (unsigned)(at - body) - part->at, *at);
    tell(lies, "changed a record", part->record.kind, text, strlen(text));
}

/* Change JSON without changing its length. */
static void change_json(struct lies *lies, uint8_t *text, uint32_t bytes)
{
    uint32_t at = (uint32_t)(draw(lies) % bytes), from;
    bool maximum = chance(lies, 0.3), sign = chance(lies, 0.1), any = chance(lies, 0.05);

    for (uint32_t i = 0; i < bytes && !any && !isdigit(text[at]); i++)
        at = (at + 1) % bytes;
    from = at;
    if (any)
        text[at] = (uint8_t)draw(lies);
    else if (isdigit(text[at]))
        do
            text[at] = sign ? '-' : maximum ? '9' : (uint8_t)('0' + draw(lies) % 10);
        while (!sign && ++at < bytes && isdigit(text[at]));
    from = from > 100 ? from - 100 : 0;
    tell(lies, "changed JSON", EMU_HOSTLINK_CONTROL, (const char *)text + from,
         bytes - from < 200 ? bytes - from : 200);
}

static uint32_t message_write(struct lies *lies, char *text, size_t room)
{
    const char *from = messages[draw(lies) % MESSAGES];
    uint32_t at = 0;

    for (; *from && at + 24 < room; from++)
        if (from[0] == '%') {
            at +=
                (uint32_t)snprintf(text + at, room - at, "%llu", (unsigned long long)number(lies));
            from++;
        } else {
            text[at++] = *from;
        }
    text[at++] = '\n';
    return at;
}

/* Insert a message after a record that ends with the end of a line. Returns the bytes inserted. */
static uint32_t insert_json(struct lies *lies, uint8_t *body, uint32_t bytes, uint32_t room,
                            const struct part *part)
{
    char text[600];
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_CONTROL,
                                         .bytes = (const uint8_t *)text};
    uint8_t *to = body + part->at + part->bytes;
    uint32_t more;

    record.length = message_write(lies, text, sizeof text);
    more = emu_hostlink_bytes(&record);
    if (more > room)
        return 0;
    memmove(to + more, to, bytes - (part->at + part->bytes));
    emu_hostlink_write(to, &record);
    lies->inserted += record.length;
    tell(lies, "inserted JSON", EMU_HOSTLINK_CONTROL, text, record.length - 1);
    return more;
}

static uint32_t lie_in_json(struct lies *lies, uint8_t *body, uint32_t bytes, uint32_t room,
                            const struct part *part)
{
    const struct emu_hostlink_record *record = &part->record;
    uint8_t *text = body + part->at + EMU_HOSTLINK_HEAD_BYTES;

    if (text[record->length - 1] == '\n' && chance(lies, 0.5))
        return insert_json(lies, body, bytes, room, part);
    change_json(lies, text, record->length);
    return 0;
}

uint32_t lies_tell(struct lies *lies, uint8_t *frame, uint32_t bytes, uint32_t room)
{
    static struct part part[RECORDS_MOST];
    struct emu_hostframe whole = {.data = frame, .bytes = bytes};
    struct emu_frame header;
    struct timespec now;
    uint8_t *body = frame + EMU_FRAME_HEADER_BYTES;
    uint32_t count, more = 0, before;
    bool lied = false;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec < lies->after_ns ||
        !emu_frame_parse(&whole, &header) || header.kind != EMU_FRAME_DATA)
        return bytes;
    count = parts_of(body, header.body_bytes, part);
    before = header.body_bytes;
    for (uint32_t i = count; i-- && !more;)
        if (part[i].record.kind == EMU_HOSTLINK_CONTROL && part[i].record.length &&
            chance(lies, lies->json)) {
            more = lie_in_json(lies, body, before, room - bytes, &part[i]);
            lied = true;
        }
    if (count && chance(lies, lies->records)) {
        change_record(lies, body, &part[draw(lies) % count]);
        lied = true;
    }
    if (!lied)
        return bytes;
    seal(frame, before + more);
    return emu_frame_bytes(before + more);
}

void lies_hide(struct lies *lies, uint8_t *frame, uint32_t bytes)
{
    static struct part part[RECORDS_MOST];
    struct emu_hostframe whole = {.data = frame, .bytes = bytes};
    struct emu_frame header;
    uint8_t *body = frame + EMU_FRAME_HEADER_BYTES;
    bool hidden = false;
    uint32_t count;

    if (!lies->inserted || !emu_frame_parse(&whole, &header) || header.kind != EMU_FRAME_DATA)
        return;
    count = parts_of(body, header.body_bytes, part);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t taken = part[i].record.count;
        uint64_t hide = lies->inserted < taken - 1 ? lies->inserted : taken - 1;

        if (part[i].record.kind != EMU_HOSTLINK_CONTROL_TAKEN || !hide)
            continue;
        taken -= hide;
        lies->inserted -= hide;
        memcpy(body + part[i].at + EMU_HOSTLINK_HEAD_BYTES, &taken, sizeof taken);
        hidden = true;
    }
    if (hidden)
        seal(frame, header.body_bytes);
}
