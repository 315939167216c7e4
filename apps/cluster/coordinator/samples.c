/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * samples.c - the governor has the other hosts tell of their parts: what they have counted, for its
 * telemetry, and what their processes have finished, for its timeline. sample.c is the other side.
 *
 * Nobody waits for what they tell, but at the end: a host that is asked answers when it does. It is
 * asked again when all of its last answer is there, so one that is slow has one under way. Answers
 * have the number of the time that they belong to, from one beginning to the next end.
 */
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/cluster/coordinator/internal.h"
#include "apps/timeline/part.h"
#include "emu/util/now.h"

/* @far is asked for the next piece, or the first of all. */
static struct json_object *question(struct host_far *far, enum hosts_told of)
{
    struct json_object *with = json_add_number(json_object_new_object(), "of", of);
    struct hosts_sampled *sample = &far->sample[of];

    if (!sample->begun)
        json_add_number(json_add_number(with, "anew", 1), "from_bytes", far->hosts->from_bytes);
    sample->begun = true;
    if (!sample->asked++)
        sample->asked_ns = emu_now_ns();
    return json_add_number(with, "number", far->hosts->sample_number[of]);
}

void hosts_sample_messages(struct hosts *hosts, uint64_t from_bytes)
{
    hosts->from_bytes = from_bytes;
}

bool hosts_sample_waits(const struct hosts *hosts, enum hosts_told of)
{
    for (uint32_t h = 1; h < hosts->config.count; h++)
        if (!hosts->far[h].lost && hosts->far[h].sample[of].asked)
            return true;
    return false;
}

bool hosts_sample_is_whole(const struct hosts *hosts, enum hosts_told of)
{
    for (uint32_t h = 1; h < hosts->config.count; h++)
        if (!hosts->far[h].lost && !hosts->far[h].sample[of].whole)
            return false;
    return true;
}

bool hosts_sample(struct hosts *hosts, enum hosts_told of)
{
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        if (!far->lost && !far->sample[of].asked)
            hosts_tell_one(far, "sample", question(far, of));
    }
    return hosts_sample_waits(hosts, of);
}

/* More pieces than an honest host has, all of which but the last are full. */
static bool is_endless(const struct host_far *far, enum hosts_told of)
{
    const struct fabric *fabric = far->hosts->config.fabric;
    uint64_t rows = 2 * (uint64_t)fabric_cable_count(fabric) + fabric_graph(fabric)->switches +
                    fabric_graph(fabric)->nodes;
    uint64_t bytes = of == HOSTS_COUNTED ? rows * HOSTS_SAMPLE_ROW
                                         : timeline_part_most_bytes(fabric_graph(fabric)->nodes);

    return far->sample[of].pieces > 2 + bytes / HOSTS_SAMPLE_BYTES;
}

/* What a piece is of; HOSTS_TOLDS: it is none that was asked for. */
static enum hosts_told kind_of(const struct host_far *far, struct json_object *message)
{
    int64_t of = emu_json_number(message, "of", -1);
    bool right = of >= 0 && of < HOSTS_TOLDS && !far->lost && far->sample[of].asked &&
                 emu_json_number(message, "number", -1) == (int64_t)far->hosts->sample_number[of];

    return right ? (enum hosts_told)of : HOSTS_TOLDS;
}

/* A piece of its answer. True: there is more. */
static bool piece_take(struct host_far *far, enum hosts_told of, struct json_object *message)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;
    bool more = emu_json_number(message, "more", 0) != 0;
    struct hosts_piece piece = {.of = of, .host = far->number, .bytes = far->hosts->sample};
    struct hosts_sampled *sample;

    if (of == HOSTS_TOLDS)
        return false;
    sample = &far->sample[of];
    piece.asked_ns = sample->asked_ns;
    piece.count = hosts_bytes(json_object_object_get(message, "sample"), far->hosts->sample,
                              sizeof far->hosts->sample);
    sample->asked--;
    sample->whole = sample->whole || !more;
    sample->pieces = more ? sample->pieces + 1 : 0;
    if (!piece.count || is_endless(far, of) || !ops->sampled(ops->ctx, &piece))
        hosts_lose(far, "what it says of its part is wrong");
    return more && !far->lost;
}

void hosts_message_of_sample(struct host_far *far, struct json_object *message)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;
    enum hosts_told of = kind_of(far, message);

    if (piece_take(far, of, message))
        hosts_tell_one(far, "sample", question(far, of));
    if (of != HOSTS_TOLDS && !hosts_sample_waits(far->hosts, of))
        ops->sampled_all(ops->ctx, of);
}

struct last {
    struct hosts *hosts;
    bool more;
};

static void take_last(void *ctx, uint32_t host, struct json_object *reply)
{
    struct last *last = ctx;
    struct host_far *far = &last->hosts->far[host];

    last->more = piece_take(far, kind_of(far, reply), reply);
}

/* What is under way of answers comes before that of the call, and is taken, too. */
void hosts_sample_last(struct hosts *hosts, enum hosts_told of)
{
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];
        struct last last = {.hosts = hosts, .more = true};

        while (last.more && !far->lost) {
            last.more = false;
            hosts_call(hosts, h, "sample", question(far, of), take_last, &last);
        }
    }
}

void hosts_sample_end(struct hosts *hosts, enum hosts_told of)
{
    hosts->sample_number[of]++;
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        if (!far->lost && far->sample[of].begun)
            hosts_tell_one(far, "unsampled", json_add_number(json_object_new_object(), "of", of));
        memset(&far->sample[of], 0, sizeof far->sample[of]);
    }
}
