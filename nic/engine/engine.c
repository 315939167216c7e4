/* SPDX-License-Identifier: BSD-3-Clause */
/* engine.c - create and destroy an engine; rebase its clock */
#include "nic/engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/random.h"
#include "nic/engine/internal.h"

uint32_t engine_bufs(uint32_t links, const struct emu_profile *profile)
{
    uint32_t packets = engine_packets(links, profile->channels) + links * EMU_VCS + 1;

    return packets * emu_packet_segments(profile->packet_bytes) + ENGINE_QUERIES +
           ENGINE_LOCAL_CREDITS;
}

size_t engine_bytes(uint32_t links, const struct emu_profile *profile)
{
    return engine_raw.bytes + ENGINE_QUERIES * sizeof(struct engine_host_query) +
           links * (sizeof(struct engine_link) + emu_link_bytes(emu_vc_ring(profile))) +
           engine_packets(links, profile->channels) *
               (sizeof(struct engine_packet) + 2 * sizeof(struct engine_join)) +
           links * EMU_VCS * (sizeof(struct engine_incoming) + sizeof(struct engine_join));
}

static bool engine_sane(const struct engine_config *config)
{
    const struct emu_profile *profile = config->profile;

    return config->links && config->links <= ENGINE_LINKS_MAX && config->nodes &&
           config->nodes <= ENGINE_NODES_MAX && config->node < config->nodes && profile->channels &&
           profile->channels <= EMU_VCS && profile->pool_slots <= EMU_POOL_SLOTS_MAX &&
           profile->packet_bytes >= EMU_SEG_BYTES && profile->packet_bytes <= EMU_PACKET_BYTES;
}

static bool engine_alloc(struct engine *e)
{
    struct engine_sending *send = &e->send;
    struct engine_receiving *receive = &e->receive;
    size_t links = e->links * sizeof *e->link;

    e->link = aligned_alloc(EMU_LINE, links);
    send->packet = calloc(send->packets, sizeof *send->packet);
    send->join = calloc(send->packets, sizeof *send->join);
    send->flow_join = calloc(send->packets, sizeof *send->flow_join);
    receive->incoming = calloc(e->links * EMU_VCS, sizeof *receive->incoming);
    receive->join = calloc(e->links * EMU_VCS, sizeof *receive->join);
    /* these two arrays are large; the system allocates their pages at the first use */
    send->flow = calloc(e->nodes, sizeof *send->flow);
    receive->history = calloc(e->nodes, sizeof *receive->history);
    if (e->link)
        memset(e->link, 0, links);
    return e->link && send->packet && send->join && send->flow_join && receive->incoming &&
           receive->join && send->flow && receive->history;
}

static void engine_init(struct engine *e, bool timed)
{
    engine_sending_init(&e->send);
    engine_list_init(&e->receive.parts);
    engine_list_init(&e->receive.complete);
    engine_list_init(&e->receive.stored);
    for (uint32_t i = 0; i < e->links; i++) {
        e->link[i].tx_ps = EMU_NEVER;
        emu_vcs_init(&e->link[i].vcs, e->profile->channels, e->profile->pool_slots, timed);
    }
    e->host.in_ps = e->tree.results_ps = EMU_NEVER;
    e->host_profile = *e->profile;
    e->host_profile.link_ps_per_byte = e->host_profile.channel_ps = e->host_profile.switch_ps = 0;
    emu_rto_init(&e->rto, e->profile->reply_timeout_ps);
    e->tree.queries = emu_profile_barrier_queries(e->profile);
    e->tree.checks = e->profile->combine_check == EMU_COMBINE_CHECK_PARITY;
}

static const struct engine_impl *engine_impl(enum emu_clock_mode clock)
{
    return clock == EMU_CLOCK_RAW ? &engine_raw : &engine_timed;
}

int engine_create(struct engine **ret, struct emu_worker *worker,
                  const struct engine_config *config)
{
    const struct engine_impl *impl = engine_impl(worker->clock.mode);
    size_t bytes = (impl->bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    struct engine *e;

    if (!engine_sane(config))
        return -EINVAL;
    e = aligned_alloc(EMU_LINE, bytes);
    if (!e)
        return -ENOMEM;
    memset(e, 0, bytes);
    e->profile = config->profile;
    e->node = config->node;
    e->nodes = config->nodes;
    e->links = config->links;
    e->group_slots = emu_profile_group_slots(config->profile);
    e->cut = config->cut;
    e->send.first_seq = e->send.tests = config->first_seq;
    e->random = emu_spread(config->seed ^ config->node) | 1;
    e->send.packets = engine_packets(e->links, e->profile->channels);
    e->send.most = UINT32_MAX;
    if (!engine_alloc(e) || !engine_queries_init(&e->queries, emu_mix(e->random))) {
        engine_destroy(e);
        return -ENOMEM;
    }
    engine_init(e, worker->clock.mode != EMU_CLOCK_RAW);
    e->host.deliver = impl->deliver;
    impl->init(e, worker->clock.mode);
    emu_dev_init(&e->dev, worker, impl->step);
    *ret = e;
    return 0;
}

void engine_set_tclass(struct engine *engine, uint8_t tclass)
{
    assert(tclass < EMU_TCLASSES && engine->host.in.kind == EMU_LINK_LOCAL);
    engine->host.tclass = tclass;
}

void engine_destroy(struct engine *engine)
{
    if (!engine)
        return;
    for (uint32_t i = 0; engine->link && i < engine->links; i++)
        emu_link_unjoin(&engine->link[i].tx);
    emu_link_unjoin(&engine->host.out);
    emu_link_free_hostif(&engine->host.in);
    emu_table_free(&engine->tree.groups);
    free(engine->queries.slot);
    free(engine->receive.history);
    free(engine->receive.join);
    free(engine->receive.incoming);
    free(engine->send.flow);
    free(engine->send.flow_join);
    free(engine->send.join);
    free(engine->send.packet);
    free(engine->link);
    free(engine);
}

void engine_faults(struct engine *engine, uint32_t link, struct emu_faults *faults)
{
    assert(link < engine->links);
    engine->link[link].faults = faults;
    if (faults)
        faults->forges_left = emu_vc_ring(engine->profile) - emu_vc_slots(engine->profile);
}

const struct emu_vcs *engine_vcs(const struct engine *engine, uint32_t link)
{
    assert(link < engine->links);
    return &engine->link[link].vcs;
}

struct emu_dev *engine_emu_dev(struct engine *engine)
{
    return &engine->dev;
}

struct emu_tx *engine_tx(struct engine *engine, uint32_t port)
{
    assert(port < engine->links || port == ENGINE_HOST);
    return port == ENGINE_HOST ? &engine->host.out : &engine->link[port].tx;
}

struct emu_rx *engine_rx(struct engine *engine, uint32_t port)
{
    assert(port < engine->links || port == ENGINE_HOST);
    return port == ENGINE_HOST ? &engine->host.in : &engine->link[port].rx;
}

const struct engine_counts *engine_counts(const struct engine *engine)
{
    return &engine->counts;
}

const struct emu_profile *engine_host_profile(const struct engine *engine)
{
    return &engine->host_profile;
}

/* --- rebasing: all times that an engine keeps (emu/util/clock.h) -------------------- */

static void rebase(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_rebased_ps(*at_ps, by_ps);
}

/* On clock raw only timers have times, and the engine itself rebases these. */
void engine_rebase_timers(struct engine *e, uint64_t by_ps)
{
    rebase(&e->now_ps, by_ps);
    for (uint32_t i = 0; i < e->send.packets; i++) {
        rebase(&e->send.packet[i].due_ps, by_ps);
        rebase(&e->send.packet[i].active_ps, by_ps);
    }
    for (uint32_t i = 0; i < e->links * EMU_VCS; i++) {
        rebase(&e->receive.incoming[i].due_ps, by_ps);
        rebase(&e->receive.incoming[i].active_ps, by_ps);
    }
    emu_each_bit (doublings, e->queries.any)
        for (struct engine_queued *at = e->queries.backoff[doublings].first; at; at = at->next)
            rebase(&engine_query_of(at)->due_ps, by_ps);
}

void engine_rebase(struct engine *e, uint64_t by_ps)
{
    struct engine_timed *t = engine_timed_of(e);

    engine_rebase_timers(e, by_ps);
    rebase(&t->handed_ps, by_ps);
    rebase(&e->host.in_ps, by_ps);
    rebase(&t->out_ps, by_ps);
    rebase(&e->tree.results_ps, by_ps);
    rebase(&e->tree.combine_ps, by_ps);
    for (struct engine_queued *at = e->tree.results.first; at; at = at->next)
        rebase(&engine_coll_of(at)->due_ps, by_ps);
    emu_tx_rebase(&e->host.out, by_ps);
    emu_rx_rebase(&e->host.in, by_ps);
    for (uint32_t i = 0; i < e->links; i++) {
        struct engine_link *l = &e->link[i];

        rebase(&l->tx_ps, by_ps);
        emu_tx_rebase(&l->tx, by_ps);
        emu_rx_rebase(&l->rx, by_ps);
        if (l->faults)
            emu_faults_rebase(l->faults, by_ps);
    }
}
