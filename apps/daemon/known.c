/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * known.c - what the daemon knows of cables and processes, for its sampler.
 */
#include "apps/daemon/known.h"

#include <stdio.h>

#include "apps/daemon/client.h"
#include "apps/daemon/faults.h"
#include "apps/daemon/standstill.h"

void telemetry_known_link(void *ctx, uint32_t cable, struct telemetry_cable *ret)
{
    const struct daemon *daemon = ctx;

    *ret = telemetry_cable_at(daemon_faults_manager(daemon), cable);
    if (daemon->far.lost && daemon->far.lost[cable])
        ret->state = TELEMETRY_DOWN;
}

static void wait_of_op(struct telemetry_wait *waits, const struct emu_pending_op *op)
{
    static const enum telemetry_kind kinds[EMU_PENDING_KINDS] = {
        [EMU_PENDING_SEND] = TELEMETRY_SEND,     [EMU_PENDING_RECEIVE] = TELEMETRY_RECEIVE,
        [EMU_PENDING_PUT] = TELEMETRY_PUT,       [EMU_PENDING_GET] = TELEMETRY_GET,
        [EMU_PENDING_ATOMIC] = TELEMETRY_ATOMIC,
    };

    if (!op->kind || (waits->kind && waits->since_ns <= op->since_ns))
        return;
    *waits = (struct telemetry_wait){.kind = kinds[op->kind],
                                     .other = op->node == EMU_PENDING_ANY ? -1 : (int64_t)op->node,
                                     .group = -1,
                                     .bytes = op->bytes,
                                     .since_ns = op->since_ns};
}

static void wait_of_group(struct telemetry_wait *waits, const struct emu_pending_group *group)
{
    if (!group->since_ns || (waits->kind && waits->since_ns <= group->since_ns))
        return;
    *waits = (struct telemetry_wait){.kind = telemetry_kind_of(group->what.kind),
                                     .other = -1,
                                     .group = group->id,
                                     .bytes = group->what.bytes,
                                     .since_ns = group->since_ns};
}

/* As it was told last: once a second. */
void telemetry_known_node(void *ctx, uint32_t node, struct telemetry_process *who,
                          struct telemetry_wait *waits)
{
    const struct daemon *daemon = ctx;
    const struct client *client = daemon->by_node[node];
    const struct emu_pending *pending;

    if (!client)
        return;
    who->pid = client->pid;
    who->rank = client->rank;
    snprintf(who->command, sizeof who->command, "%s", client->command);
    pending = client->look ? &client->look->pending : NULL;
    if (!pending || !pending->written_ns || !pending->waits)
        return;
    wait_of_op(waits, &pending->send);
    wait_of_op(waits, &pending->receive);
    for (uint32_t g = 0; g < pending->groups; g++)
        wait_of_group(waits, &pending->group[g]);
}
