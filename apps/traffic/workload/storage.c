/* SPDX-License-Identifier: BSD-3-Clause */
/* storage.c - traffic of a file system: clients that write to servers without end. */
#include "apps/traffic/workload/storage.h"

#include "apps/traffic/workload/member.h"

/* A client writes this many segments to one server, and then as many to the next server. */
#define WRITE_SEGMENTS ((64 * 1024 + EMU_PAYLOAD_BYTES - 1) / EMU_PAYLOAD_BYTES)

static bool storage_writes(const struct traffic_member *member)
{
    return member->role == TRAFFIC_CLIENT && !member->all->storage.stopped;
}

/* Send all segments that may leave by @until_ps. Returns when the next one may leave. */
static uint64_t storage_send(struct traffic_member *member, uint64_t until_ps)
{
    const struct traffic_coll *all = member->all;
    uint64_t depart_ps = EMU_NEVER;
    bool sent = false;

    while (storage_writes(member)) {
        uint64_t write = member->part / WRITE_SEGMENTS + member->op;
        struct emu_entry entry = {.hdr = {.dst = all->storage.server[write % all->plan.servers],
                                          .src = member->node,
                                          .seq = (uint32_t)member->part,
                                          .kind = EMU_UNICAST,
                                          .len = EMU_PAYLOAD_BYTES},
                                  .buf = EMU_NO_BUF};

        depart_ps = traffic_earliest_ps(&member->base, all->times.send_ps);
        if (depart_ps > until_ps)
            break;
        traffic_depart(&member->base, &entry, depart_ps);
        member->part++;
        sent = true;
        depart_ps = EMU_NEVER;
    }
    if (sent)
        emu_tx_flush(&member->base.tx);
    return depart_ps;
}

static inline void storage_deliver(void *context, const struct emu_entry *entry)
{
    struct traffic_member *member = context;
    uint64_t at_ps = traffic_memory_ps(&member->all->times, member->all->plan.profile, entry);

    if (member->role != TRAFFIC_SERVER || entry->hdr.len != EMU_PAYLOAD_BYTES)
        member->wrong = WRONG_SEGMENT;
    member->got_part++;
    member->digest = traffic_digest(member->digest, entry->hdr.src, entry->hdr.seq, at_ps);
    emu_pool_drop(&member->base.dev.worker->cache, entry->buf);
}

void traffic_storage_assign(struct traffic_coll *all)
{
    uint32_t first = all->plan.groups * all->plan.members;

    all->storage.server = &all->at[first];
    for (uint32_t i = first; all->plan.servers && i < all->nodes; i++) {
        struct traffic_member *member = all->member[all->at[i]];

        if (!member)
            continue; /* the node is on another host */
        member->role = i - first < all->plan.servers ? TRAFFIC_SERVER : TRAFFIC_CLIENT;
        member->op = i; /* so that the clients begin with different servers */
        member->base.dev.step = traffic_storage_step;
        if (member->role == TRAFFIC_CLIENT)
            emu_dev_wake(&member->base.dev, 0);
    }
}

void traffic_storage_totals(const struct traffic_coll *all, uint64_t *sent, uint64_t *received)
{
    *sent = *received = 0;
    for (uint32_t n = 0; n < all->nodes; n++) {
        const struct traffic_member *member = all->member[n];

        if (member && member->role == TRAFFIC_CLIENT)
            *sent += member->part;
        if (member && member->role == TRAFFIC_SERVER)
            *received += member->got_part;
    }
}

uint32_t traffic_storage_step(struct emu_dev *dev, uint64_t until_ps)
{
    return traffic_member_step(dev, until_ps, storage_deliver, storage_send);
}
