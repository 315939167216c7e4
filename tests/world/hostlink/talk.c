/* SPDX-License-Identifier: BSD-3-Clause */
/* talk.c - see talk.h. */
#include "tests/world/hostlink/talk.h"

#include <string.h>

#include "emu/util/random.h"
#include "tests/world/bytes.h"

#define TALK_LEAST_BYTES 12u /* of a record: its length, its number */
#define TALK_STEP_NS     2000u
#define TALK_IDLE_NS     1000000u /* a step takes no longer */

static const uint8_t talk_key[EMU_HOSTLINK_KEY_BYTES] = "this key is known to tests alone";

static uint64_t talk_random(void *ctx)
{
    return emu_splitmix(ctx);
}

void talk_create(struct talk *talk, const struct talk_config *config, uint64_t seed)
{
    uint32_t window = config->window ? config->window : 64;

    memset(talk, 0, sizeof *talk);
    talk->seed = seed;
    talk->now_ns = 1 + emu_mix(seed) % (UINT64_C(1) << 33); /* low bits wrap, sometimes */
    talk->wire = wire_create(config->ports ? config->ports : 2,
                             config->frames ? config->frames : 3 * window + 128,
                             config->frame_bytes ? config->frame_bytes : 1514, seed);
    wire_at(talk->wire, talk->now_ns);
    for (uint32_t i = 0; i < 2; i++) {
        struct talk_end *end = &talk->end[i];

        end->random = emu_mix(seed + 1 + i);
        end->config = (struct emu_session_config){
            .port = wire_port(talk->wire, i),
            .fabric = 4711,
            .host = (uint16_t)i,
            .peer = (uint16_t)!i,
            .digest = "the same cluster file",
            .key = config->keyed ? talk_key : NULL,
            .silent_ns = config->silent_ns ? config->silent_ns : UINT64_MAX,
            .window = window,
            .random = talk_random,
            .random_ctx = &end->random,
        };
        wire_faults(talk->wire, i)->delay_ns = 5000;
    }
}

void talk_destroy(struct talk *talk)
{
    for (uint32_t i = 0; i < 2; i++)
        if (talk->end[i].session)
            talk_go(talk, i);
    wire_destroy(talk->wire);
}

int talk_come(struct talk *talk, uint32_t end)
{
    struct talk_end *at = &talk->end[end];

    at->put_life = at->got_life = 0;
    return emu_session_create(&at->session, &at->config);
}

void talk_go(struct talk *talk, uint32_t end)
{
    emu_session_destroy(talk->end[end].session);
    talk->end[end].session = NULL;
}

/* --- records --------------------------------------------------------------------------- */

static uint32_t record_bytes(const struct talk *talk, uint64_t number)
{
    return TALK_LEAST_BYTES + (uint32_t)(emu_mix(talk->seed ^ number) % 300);
}

static void talk_put(struct talk *talk, uint32_t end)
{
    struct talk_end *at = &talk->end[end];

    if (emu_session_state(at->session) != EMU_SESSION_UP)
        return;
    if (at->put_life != emu_session_life(at->session)) {
        at->put_life = emu_session_life(at->session);
        at->put = 0;
    }
    while (at->put < at->limit) {
        uint32_t bytes = record_bytes(talk, at->put);
        uint8_t *to = emu_session_room(at->session, bytes);

        if (!to)
            return;
        memcpy(to, &bytes, 4);
        memcpy(to + 4, &at->put, 8);
        bytes_fill(to + TALK_LEAST_BYTES, bytes - TALK_LEAST_BYTES, talk->seed ^ at->put ^ end);
        emu_session_put(at->session, bytes);
        at->put++;
    }
}

struct talk_here {
    struct talk *talk;
    uint32_t end;
};

static void talk_got(void *ctx, const uint8_t *records, uint32_t bytes)
{
    const struct talk_here *here = ctx;
    struct talk_end *at = &here->talk->end[here->end];

    if (at->got_life != emu_session_life(at->session)) {
        at->got_life = emu_session_life(at->session);
        at->got = 0;
    }
    while (bytes) {
        uint32_t length = 0;
        uint64_t number = 0;

        if (bytes >= TALK_LEAST_BYTES) {
            memcpy(&length, records, 4);
            memcpy(&number, records + 4, 8);
        }
        if (length < TALK_LEAST_BYTES || length > bytes || number != at->got ||
            length != record_bytes(here->talk, number) ||
            !bytes_filled(records + TALK_LEAST_BYTES, length - TALK_LEAST_BYTES,
                          here->talk->seed ^ number ^ !here->end)) {
            at->wrong++;
            return;
        }
        at->got++;
        records += length;
        bytes -= length;
    }
}

/* --- steps ----------------------------------------------------------------------------- */

static void talk_receive(struct talk *talk, uint32_t end)
{
    struct emu_hostport *port = talk->end[end].config.port;
    struct emu_hostframe *frames[EMU_HOSTLINK_BURST];
    struct talk_here here = {talk, end};
    uint32_t count;

    while ((count = port->ops->receive(port, frames, EMU_HOSTLINK_BURST)) != 0)
        for (uint32_t i = 0; i < count; i++)
            if (talk->end[end].session)
                emu_session_receive(talk->end[end].session, frames[i], talk->now_ns, talk_got,
                                    &here);
            else
                port->ops->drop(port, frames[i]);
}

void talk_step(struct talk *talk)
{
    uint64_t next_ns = wire_next_ns(talk->wire);

    for (uint32_t i = 0; i < 2; i++) {
        struct emu_session *session = talk->end[i].session;

        talk_receive(talk, i);
        if (!session)
            continue;
        talk_put(talk, i);
        emu_session_step(session, talk->now_ns);
        if (emu_session_next_ns(session) < next_ns)
            next_ns = emu_session_next_ns(session);
    }
    if (wire_next_ns(talk->wire) < next_ns)
        next_ns = wire_next_ns(talk->wire);
    if (next_ns < talk->now_ns + TALK_STEP_NS)
        next_ns = talk->now_ns + TALK_STEP_NS;
    if (next_ns > talk->now_ns + TALK_IDLE_NS)
        next_ns = talk->now_ns + TALK_IDLE_NS;
    talk->now_ns = next_ns;
    wire_at(talk->wire, talk->now_ns);
}

void talk_for(struct talk *talk, uint64_t ns)
{
    uint64_t until_ns = talk->now_ns + ns;

    while (talk->now_ns < until_ns)
        talk_step(talk);
}

static bool end_is_done(const struct talk *talk, uint32_t end)
{
    const struct talk_end *at = &talk->end[end], *from = &talk->end[!end];

    return at->session && from->session && at->got_life && from->put_life &&
           at->got_life == emu_session_life(at->session) && from->put == from->limit &&
           at->got == from->limit;
}

bool talk_until_done(struct talk *talk, uint64_t ns)
{
    uint64_t until_ns = talk->now_ns + ns;

    while (!(end_is_done(talk, 0) && end_is_done(talk, 1))) {
        if (talk->now_ns >= until_ns)
            return false;
        talk_step(talk);
    }
    return true;
}

bool talk_is_up(const struct talk *talk)
{
    for (uint32_t i = 0; i < 2; i++)
        if (!talk->end[i].session || emu_session_state(talk->end[i].session) != EMU_SESSION_UP)
            return false;
    return true;
}

const struct emu_session_counts *talk_counts(const struct talk *talk, uint32_t end)
{
    return emu_session_counts(talk->end[end].session);
}
