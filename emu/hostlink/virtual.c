/* SPDX-License-Identifier: BSD-3-Clause */
/* virtual.c - the device for cables to other hosts on clock virtual (virtual.h). */
#include "emu/hostlink/virtual.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hostlink/entry.h"
#include "emu/link/channels.h"
#include "emu/util/alloc.h"
#include "emu/worker/worker.h"

/*
 * Part of the error for a host whose times do not match those of this host. That host may be
 * correct: if a third host sends different times to two hosts, these simulate different windows.
 */
#define DIVERGED "and this host have diverged: "

struct virtual_cable {
    struct emu_tx tx; /* sends to the switch or link engine on this host */
    struct emu_rx rx; /* receives from that switch or link engine */
    bool joined;
    bool channels;
    uint32_t peer, number;
    /* by channel, or [0] without channels: segments sent whose credits have not returned */
    uint32_t unpaid[EMU_VCS];
    uint64_t last_ps; /* time of the last received entry */
    const struct emu_profile *profile;
};

struct virtual_peer {
    uint32_t cables;
    struct virtual_cable **cable; /* array of `cables`, by cable number; NULL: no such cable */
    /* time of the earliest entry or credit received since the last window; EMU_NEVER: none */
    uint64_t first_ps;
};

struct emu_virtual {
    struct emu_dev dev;
    struct emu_barrier *barrier;
    uint32_t nodes;
    uint32_t peers;
    struct virtual_peer *peer;
    uint64_t window_ps; /* end of the window (windows.h) after which first_ps was cleared */
};

/* A step only clears the events: emu_virtual_agree() reads the cables at the end of each window. */
static uint32_t virtual_step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    dev->next_ps = EMU_NEVER;
    return 0;
}

/* --- sending ----------------------------------------------------------------------------- */

static int cable_send_entries(struct emu_virtual *link, struct virtual_cable *cable)
{
    struct emu_pool_cache *cache = &link->dev.worker->cache;
    struct emu_rx *rx = &cable->rx;
    const struct emu_entry *entry;
    uint32_t moved = 0;
    int err = 0;

    for (; !err && (entry = emu_rx_front(rx, EMU_NEVER)); moved++) {
        uint32_t channel = cable->channels ? entry->packet.channel % EMU_VCS : 0;
        struct emu_hostlink_record record;

        hostlink_entry_record(entry, cache->pool, cable->channels, cable->number, &record);
        cable->unpaid[channel] += hostlink_is_segment(&entry->hdr, cable->channels);
        err = emu_barrier_put(link->barrier, cable->peer, &record);
        emu_pool_drop(cache, entry->buf);
        emu_rx_skip(rx);
    }
    if (moved)
        emu_rx_done(rx, moved);
    return err;
}

/* Send the credits that our switch has returned, with their times. */
static int cable_send_credits(struct emu_virtual *link, struct virtual_cable *cable)
{
    struct emu_tx *tx = &cable->tx;
    const struct emu_credit *back;
    int err = 0;

    while (!err && (back = emu_credit_front(&tx->credit))) {
        struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_CREDIT_AT,
                                             .channel = (uint8_t)back->channel,
                                             .cable = cable->number,
                                             .count = back->count};

        record.credit_ps = back->time_ps;
        tx->credits += back->count;
        err = emu_barrier_put(link->barrier, cable->peer, &record);
        emu_credit_skip(&tx->credit);
    }
    return err;
}

/* --- receiving --------------------------------------------------------------------------- */

/* Return whether @at_ps is in the past, or later than any valid time. */
static bool is_late(const struct emu_virtual *link, uint64_t at_ps)
{
    return at_ps <= link->dev.worker->now_ps || at_ps > EMU_LAST_PS * 2 - 1;
}

static const char *cable_entry(struct emu_virtual *link, struct virtual_cable *cable,
                               const struct emu_hostlink_record *record)
{
    struct emu_pool_cache *cache = &link->dev.worker->cache;
    uint32_t buf = EMU_NO_BUF;
    struct emu_entry entry;

    if (!hostlink_entry_is_sane(record, cable->profile, link->nodes, true))
        return EMU_BARRIER_VIOLATED "an entry that is invalid on its cable";
    if (is_late(link, record->at_ps))
        return DIVERGED "an entry with a time in the past";
    if (record->at_ps < cable->last_ps)
        return EMU_BARRIER_VIOLATED "an entry with a time before that of an earlier entry";
    if ((!cable->channels && !cable->tx.credits) || !emu_tx_has_slot(&cable->tx))
        return EMU_BARRIER_VIOLATED "more entries than its cable has credits or slots";
    if (record->has_buf && (buf = emu_pool_take(cache)) == EMU_NO_BUF)
        return EMU_BARRIER_VIOLATED "an entry for which this host has no buffer";
    cable->last_ps = record->at_ps;
    entry = (struct emu_entry){.time_ps = record->at_ps & ~EMU_RING_FULL};
    hostlink_entry_of(record, cache->pool, buf, &entry);
    emu_tx_send(&cable->tx, &entry);
    emu_tx_flush(&cable->tx);
    return NULL;
}

static const char *cable_credit(struct emu_virtual *link, struct virtual_cable *cable,
                                const struct emu_hostlink_record *record)
{
    struct emu_rx *rx = &cable->rx;

    if (is_late(link, record->credit_ps))
        return DIVERGED "credits with a time in the past";
    if ((record->channel && !cable->channels) || record->count > cable->unpaid[record->channel] ||
        !emu_credit_has_slot(&rx->credit))
        return EMU_BARRIER_VIOLATED "credits that do not match the segments that were sent";
    cable->unpaid[record->channel] -= record->count;
    emu_credit_put(&rx->credit, record->count, record->channel, record->credit_ps);
    emu_rx_notify(rx, link->dev.worker);
    return NULL;
}

static const char *virtual_record(void *ctx, uint32_t p, const struct emu_hostlink_record *record)
{
    struct emu_virtual *link = ctx;
    struct virtual_peer *peer = &link->peer[p];
    bool is_entry = record->kind == EMU_HOSTLINK_ENTRY;
    uint64_t at_ps = is_entry ? record->at_ps : record->credit_ps;

    if (record->cable >= peer->cables || !peer->cable[record->cable])
        return EMU_BARRIER_VIOLATED "a record of an unknown cable";
    if (at_ps < peer->first_ps)
        peer->first_ps = at_ps;
    return is_entry ? cable_entry(link, peer->cable[record->cable], record)
                    : cable_credit(link, peer->cable[record->cable], record);
}

/* --- end of a window --------------------------------------------------------------------- */

static int virtual_send(struct emu_virtual *link)
{
    int err = emu_barrier_error(link->barrier);

    for (uint32_t p = 0; p < link->peers; p++)
        for (uint32_t c = 0; !err && c < link->peer[p].cables; c++) {
            struct virtual_cable *cable = link->peer[p].cable[c];

            if (cable)
                err = cable_send_entries(link, cable);
            if (cable && !err)
                err = cable_send_credits(link, cable);
        }
    return err;
}

/*
 * Read the time of @host's next event into *@next_ps. Returns NULL or, if the time is impossible,
 * the rest of an error text that begins with "host NAME". The time must not be later than the
 * earliest entry or credit that the host has sent. The next window begins at the earliest event of
 * all hosts, so it could otherwise begin after that entry or credit is due.
 */
static const char *virtual_next(const struct emu_virtual *link, uint32_t host, uint64_t *next_ps)
{
    size_t bytes;
    const void *sent = emu_barrier_of(link->barrier, host, &bytes);

    if (bytes != sizeof *next_ps)
        return DIVERGED "it is not in the same window";
    memcpy(next_ps, sent, sizeof *next_ps);
    if (*next_ps < link->dev.worker->now_ps)
        return DIVERGED "its next event is in the past";
    for (uint32_t p = 0; p < link->peers; p++)
        if (emu_barrier_host(link->barrier, p) == host && *next_ps > link->peer[p].first_ps)
            return EMU_BARRIER_VIOLATED "its next event is later than an entry or credit from it";
    return NULL;
}

/*
 * Forget the times of entries and credits if a window has run since they arrived. They are now
 * events of this host's own devices.
 */
static void virtual_follow_window(struct emu_virtual *link)
{
    if (link->window_ps == link->dev.worker->now_ps)
        return;
    link->window_ps = link->dev.worker->now_ps;
    for (uint32_t p = 0; p < link->peers; p++)
        link->peer[p].first_ps = EMU_NEVER;
}

/* End the run on all hosts, because @host sent something impossible. */
static int virtual_fail(struct emu_virtual *link, const char *host, const char *wrong)
{
    char why[EMU_BARRIER_WHY_BYTES];

    snprintf(why, sizeof why, "host %s %s", host, wrong);
    emu_barrier_fail(link->barrier, why);
    return -EPROTO;
}

int emu_virtual_agree(struct emu_virtual *link, uint64_t *next_ps)
{
    const struct emu_barrier_config *config = emu_barrier_config(link->barrier);
    uint64_t least_ps = *next_ps;
    int err = virtual_send(link);

    virtual_follow_window(link);
    if (!err)
        err = emu_barrier_sync(link->barrier, &least_ps, sizeof least_ps);
    for (uint32_t h = 0; !err && h < config->hosts; h++) {
        uint64_t host_ps = EMU_NEVER;
        const char *wrong = h == config->self ? NULL : virtual_next(link, h, &host_ps);

        if (wrong)
            err = virtual_fail(link, config->name[h], wrong);
        least_ps = host_ps < least_ps ? host_ps : least_ps;
    }
    *next_ps = err ? EMU_NEVER : least_ps;
    return err;
}

uint64_t emu_virtual_bufs(const struct emu_virtual *link)
{
    uint64_t bufs = 0;

    for (uint32_t p = 0; p < link->peers; p++)
        for (uint32_t c = 0; c < link->peer[p].cables; c++)
            if (link->peer[p].cable[c])
                bufs += emu_link_bufs(&link->peer[p].cable[c]->rx);
    return bufs;
}

/*
 * Return how many bytes the other host may send for a cable in two supersteps (barrier.h; a
 * superstep is one window). In each superstep it sends at most one entry and one credit per slot of
 * the ring.
 */
static size_t cable_bytes(const struct virtual_cable *cable)
{
    size_t slots = (size_t)cable->rx.data.mask + 1;

    return 2 * slots * (EMU_HOSTLINK_ENTRY_MOST + EMU_HOSTLINK_COUNT_BYTES + 8);
}

/* --- creation -------------------------------------------------------------------------------- */

int emu_virtual_create(struct emu_virtual **ret, struct emu_worker *worker,
                       struct emu_barrier *barrier, uint32_t nodes)
{
    struct emu_virtual *link = emu_zeros(sizeof *link);

    if (!link)
        return -ENOMEM;
    link->barrier = barrier;
    link->nodes = nodes;
    link->peers = emu_barrier_config(barrier)->peers;
    link->peer = calloc(link->peers + 1u, sizeof *link->peer);
    if (!link->peer) {
        free(link);
        return -ENOMEM;
    }
    for (uint32_t p = 0; p < link->peers; p++)
        link->peer[p].first_ps = EMU_NEVER;
    emu_dev_init(&link->dev, worker, virtual_step);
    link->dev.next_ps = EMU_NEVER;
    emu_barrier_taker(barrier, &(struct emu_barrier_taker){.record = virtual_record, .ctx = link});
    *ret = link;
    return 0;
}

void emu_virtual_destroy(struct emu_virtual *link)
{
    if (!link)
        return;
    emu_barrier_taker(link->barrier, NULL);
    for (uint32_t p = 0; p < link->peers; p++) {
        for (uint32_t c = 0; c < link->peer[p].cables; c++) {
            struct virtual_cable *cable = link->peer[p].cable[c];

            if (cable && cable->joined)
                emu_link_unjoin(&cable->tx);
            free(cable);
        }
        free(link->peer[p].cable);
    }
    free(link->peer);
    free(link);
}

static struct virtual_cable *cable_new(struct virtual_peer *peer, uint32_t number)
{
    struct virtual_cable **more = peer->cable;

    if (number >= peer->cables) {
        more = realloc(peer->cable, (number + 1u) * sizeof(struct virtual_cable *));
        if (!more)
            return NULL;
        for (peer->cable = more; peer->cables <= number; peer->cables++)
            more[peer->cables] = NULL;
    }
    more[number] = emu_zeros(sizeof(struct virtual_cable));
    return more[number];
}

int emu_virtual_join(struct emu_virtual *link, uint32_t peer, uint32_t number, struct emu_tx *tx,
                     struct emu_rx *rx, struct emu_dev *dev, uint8_t port, uint32_t credits,
                     const struct emu_profile *profile)
{
    struct virtual_cable *cable = cable_new(&link->peer[peer], number);
    int err;

    if (!cable)
        return -ENOMEM;
    cable->peer = peer;
    cable->number = number;
    cable->channels = emu_profile_acknowledged(profile);
    cable->profile = profile;
    err = emu_link_join(tx, dev, port, &cable->rx, &link->dev, 0, credits, profile);
    if (err)
        return err;
    err = emu_link_join(&cable->tx, &link->dev, 0, rx, dev, port, credits, profile);
    if (err) {
        emu_link_unjoin(tx);
        return err;
    }
    cable->joined = true;
    emu_barrier_expect(link->barrier, peer, cable_bytes(cable));
    return 0;
}
