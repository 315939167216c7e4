/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * samples.c - requests samples from the other hosts: counters for the telemetry, and finished
 * operations of processes for the timeline. A *sample* contains the changes since the previous
 * sample. An agent sends it in pieces, and each piece answers one request. agent/sample.c is the
 * other side.
 *
 * Only coordinator_sample_last() waits for samples. A host gets the request for its next sample
 * only after it has sent the last sample completely, so that a slow host has at most one sample in
 * progress. Requests contain sample_number, which the pieces repeat. coordinator_sample_end()
 * increments it, so that pieces of older requests are ignored.
 */
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/cluster/coordinator/internal.h"
#include "apps/timeline/agent.h"
#include "emu/util/now.h"

/* Build a request for the first or the next piece of a sample. */
static struct json_object *request_build(struct coordinator_agent *agent, enum hosts_sample_kind of)
{
    struct json_object *with = json_add_number(json_object_new_object(), "of", of);
    struct coordinator_sample *sample = &agent->sample[of];

    if (!sample->begun)
        json_add_number(json_add_number(with, "anew", 1), "from_bytes", agent->coord->from_bytes);
    sample->begun = true;
    if (!sample->asked++)
        sample->asked_ns = emu_now_ns();
    return json_add_number(with, "number", agent->coord->sample_number[of]);
}

void coordinator_sample_messages(struct coordinator *coord, uint64_t from_bytes)
{
    coord->from_bytes = from_bytes;
}

bool coordinator_sample_waits(const struct coordinator *coord, enum hosts_sample_kind of)
{
    for (uint32_t h = 1; h < coord->config.count; h++)
        if (!coord->agent[h].lost && coord->agent[h].sample[of].asked)
            return true;
    return false;
}

bool coordinator_sample_request(struct coordinator *coord, enum hosts_sample_kind of)
{
    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];

        if (!agent->lost && !agent->sample[of].asked)
            coordinator_notify(agent->coord, agent->number, "sample", request_build(agent, of));
    }
    return coordinator_sample_waits(coord, of);
}

/* Return whether the host has sent more pieces than the largest possible sample needs. */
static bool is_endless(const struct coordinator_agent *agent, enum hosts_sample_kind of)
{
    const struct fabric *fabric = agent->coord->config.fabric;
    uint64_t rows = 2 * (uint64_t)fabric_cable_count(fabric) + fabric_graph(fabric)->switches +
                    fabric_graph(fabric)->nodes;
    uint64_t bytes = of == HOSTS_SAMPLE_COUNTERS
                         ? rows * HOSTS_SAMPLE_ROW
                         : timeline_agent_most_bytes(fabric_graph(fabric)->nodes);

    return agent->sample[of].pieces > 2 + bytes / HOSTS_SAMPLE_BYTES;
}

/* Return the kind of a piece; HOSTS_SAMPLE_KINDS if no such piece was requested. */
static enum hosts_sample_kind kind_of(const struct coordinator_agent *agent,
                                      struct json_object *message)
{
    int64_t of = emu_json_number(message, "of", -1);
    bool right = of >= 0 && of < HOSTS_SAMPLE_KINDS && !agent->lost && agent->sample[of].asked &&
                 emu_json_number(message, "number", -1) == (int64_t)agent->coord->sample_number[of];

    return right ? (enum hosts_sample_kind)of : HOSTS_SAMPLE_KINDS;
}

/* Handle a piece of a sample. Returns whether the sample has further pieces. */
static bool piece_take(struct coordinator_agent *agent, enum hosts_sample_kind of,
                       struct json_object *message)
{
    const struct coordinator_ops *ops = &agent->coord->config.ops;
    bool more = emu_json_number(message, "more", 0) != 0;
    struct coordinator_piece piece = {.of = of,
                                      .host = agent->number,
                                      .bytes = agent->coord->sample};
    struct coordinator_sample *sample;

    if (of == HOSTS_SAMPLE_KINDS)
        return false;
    sample = &agent->sample[of];
    piece.asked_ns = sample->asked_ns;
    piece.count = hosts_from_hex(json_object_object_get(message, "sample"), agent->coord->sample,
                                 sizeof agent->coord->sample);
    sample->asked--;
    sample->pieces = more ? sample->pieces + 1 : 0;
    if (!piece.count || is_endless(agent, of) || !ops->sampled(ops->ctx, &piece))
        coordinator_lose(agent, "it sent an invalid sample");
    return more && !agent->lost;
}

void coordinator_message_of_sample(struct coordinator_agent *agent, struct json_object *message)
{
    const struct coordinator_ops *ops = &agent->coord->config.ops;
    enum hosts_sample_kind of = kind_of(agent, message);

    if (piece_take(agent, of, message))
        coordinator_notify(agent->coord, agent->number, "sample", request_build(agent, of));
    if (of != HOSTS_SAMPLE_KINDS && !coordinator_sample_waits(agent->coord, of))
        ops->sampled_all(ops->ctx, of);
}

struct last {
    struct coordinator *coord;
    bool more;
};

static void take_last(void *ctx, uint32_t host, struct json_object *reply)
{
    struct last *last = ctx;
    struct coordinator_agent *agent = &last->coord->agent[host];

    last->more = piece_take(agent, kind_of(agent, reply), reply);
}

/* Pieces of earlier requests arrive before the reply to the call, and are handled as usual. */
void coordinator_sample_last(struct coordinator *coord, enum hosts_sample_kind of)
{
    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];
        struct last last = {.coord = coord, .more = true};

        while (last.more && !agent->lost) {
            last.more = false;
            coordinator_call(coord, h, "sample", request_build(agent, of), take_last, &last);
        }
    }
}

void coordinator_sample_end(struct coordinator *coord, enum hosts_sample_kind of)
{
    coord->sample_number[of]++;
    for (uint32_t h = 1; h < coord->config.count; h++) {
        struct coordinator_agent *agent = &coord->agent[h];

        if (!agent->lost && agent->sample[of].begun)
            coordinator_notify(agent->coord, agent->number, "sample_end",
                               json_add_number(json_object_new_object(), "of", of));
        memset(&agent->sample[of], 0, sizeof agent->sample[of]);
    }
}
