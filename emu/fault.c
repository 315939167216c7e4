/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.c - one draw an entry decides what becomes of it.
 */
#include "emu/fault.h"

#include <string.h>

#include "emu/random.h"

void emu_faults_init(struct emu_faults *faults, const struct emu_fault_rates *rates, uint64_t seed)
{
    memset(faults, 0, sizeof *faults);
    faults->rates = *rates;
    faults->seed = emu_splitmix_at(seed, 1);
}

/*
 * On clock raw a held entry is released after so many others have passed, or when the cable is
 * empty.
 */
static uint64_t fault_held_ps(const struct emu_faults *faults, bool timed, bool alone)
{
    if (!faults->held)
        return EMU_NEVER;
    if (timed)
        return faults->at[0].due;
    return alone || faults->at[0].due <= faults->seen ? 0 : EMU_NEVER;
}

uint64_t emu_faults_next_ps(const struct emu_faults *faults, struct emu_rx *rx)
{
    uint64_t held_ps = fault_held_ps(faults, rx->owner->timed, true);
    uint64_t front_ps = emu_rx_next_ps(rx);

    return held_ps < front_ps ? held_ps : front_ps;
}

/* It comes later, after those that are due by then. There is room. */
static void fault_hold(struct emu_faults *faults, const struct emu_entry *entry, uint64_t due,
                       enum emu_fate fate)
{
    uint32_t i = faults->held++;

    for (; i && faults->at[i - 1].due > due; i--)
        faults->at[i] = faults->at[i - 1];
    faults->at[i] = (struct emu_fault_held){.due = due, .entry = *entry, .fate = fate};
}

static uint64_t fault_due(const struct emu_faults *faults, const struct emu_rx *rx,
                          const struct emu_entry *entry, uint64_t draw)
{
    if (!rx->owner->timed)
        return faults->seen + 1 + draw % EMU_FAULT_HELD;
    return entry->time_ps + (faults->rates.late_ps ? draw % faults->rates.late_ps : 0);
}

static bool fault_is_reply(const struct emu_entry *entry)
{
    return entry->packet.kind == EMU_PACKET_ACK || entry->packet.kind == EMU_PACKET_NACK;
}

static enum emu_fate fault_lose(struct emu_faults *faults, struct emu_pool_cache *cache,
                                struct emu_entry *entry)
{
    faults->counts.lost++;
    emu_pool_drop(cache, entry->buf);
    entry->buf = EMU_NO_BUF;
    return EMU_FATE_LOST;
}

static void fault_flip_head(struct emu_entry *entry, uint64_t draw)
{
    if (entry->packet.kind == EMU_PACKET_HEAD)
        entry->packet.head ^= (uint64_t)1 << draw % (8 * EMU_HEAD_BYTES);
    else
        entry->packet.cont ^= 1u << draw % (8 * EMU_CONT_BYTES);
}

/* In a copy: other copies of a multicast, and the source's own, are not on this cable. */
static enum emu_fate fault_flip_payload(struct emu_faults *faults, struct emu_pool_cache *cache,
                                        struct emu_entry *entry, uint64_t draw)
{
    uint32_t header = entry->packet.kind == EMU_PACKET_HEAD ? EMU_HEAD_BYTES : EMU_CONT_BYTES;
    uint32_t bytes = entry->packet.wire + 1u - header;
    uint32_t buf = emu_pool_take(cache);
    uint8_t *payload;

    if (buf == EMU_NO_BUF)
        return fault_lose(faults, cache, entry);
    payload = (uint8_t *)emu_pool_seg(cache->pool, buf);
    memcpy(payload, emu_pool_seg(cache->pool, entry->buf), EMU_SEG_BYTES);
    *emu_pool_note(cache->pool, buf) = *emu_pool_note(cache->pool, entry->buf);
    payload[draw / 8 % bytes] ^= (uint8_t)(1u << draw % 8);
    emu_pool_drop(cache, entry->buf);
    entry->buf = buf;
    return EMU_FATE_ARRIVED;
}

/* What becomes of @entry, just off the ring; false: it is held. */
static bool fault_judge(struct emu_faults *faults, const struct emu_rx *rx,
                        struct emu_pool_cache *cache, struct emu_entry *entry, enum emu_fate *fate)
{
    const struct emu_fault_rates *rates = &faults->rates;
    uint64_t draw = emu_splitmix_at(faults->seed, 2 * faults->seen);
    uint64_t how = emu_splitmix_at(faults->seed, 2 * faults->seen + 1);
    uint32_t of = (uint32_t)(draw % EMU_FAULT_UNIT);
    bool room = faults->held < EMU_FAULT_HELD;

    faults->seen++;
    *fate = EMU_FATE_ARRIVED;
    if (of < rates->lost) {
        *fate = fault_lose(faults, cache, entry);
    } else if ((of -= rates->lost) < rates->head + rates->payload) {
        faults->counts.damaged++;
        if (fault_is_reply(entry))
            *fate = fault_lose(faults, cache, entry);
        else if (of < rates->head || entry->buf == EMU_NO_BUF)
            fault_flip_head(entry, how);
        else
            *fate = fault_flip_payload(faults, cache, entry, how);
    } else if ((of -= rates->head + rates->payload) < rates->twice && room) {
        faults->counts.twice++;
        emu_pool_share(cache->pool, entry->buf, 1);
        fault_hold(faults, entry, fault_due(faults, rx, entry, how), EMU_FATE_TWICE);
    } else if (of - rates->twice < rates->late && of >= rates->twice && room) {
        faults->counts.late++;
        fault_hold(faults, entry, fault_due(faults, rx, entry, how), EMU_FATE_ARRIVED);
        return false;
    }
    return true;
}

bool emu_faults_take(struct emu_faults *faults, struct emu_rx *rx, struct emu_pool_cache *cache,
                     uint64_t until_ps, struct emu_entry *entry, enum emu_fate *fate)
{
    for (;;) {
        uint64_t front_ps = emu_rx_next_ps(rx);
        uint64_t held_ps = fault_held_ps(faults, rx->owner->timed, front_ps == EMU_NEVER);

        if ((held_ps < front_ps ? held_ps : front_ps) > until_ps)
            return false;
        if (held_ps <= front_ps) {
            *entry = faults->at[0].entry;
            *fate = faults->at[0].fate;
            if (rx->owner->timed)
                entry->time_ps = held_ps & (EMU_RING_FULL - 1); /* all of it: see EMU_LAST_PS */
            memmove(faults->at, faults->at + 1, --faults->held * sizeof faults->at[0]);
            return true;
        }
        *entry = *emu_rx_front(rx, until_ps);
        emu_rx_skip(rx);
        emu_rx_done(rx, 1);
        if (fault_judge(faults, rx, cache, entry, fate))
            return true;
    }
}

uint32_t emu_faults_bufs(const struct emu_faults *faults)
{
    uint32_t bufs = 0;

    for (uint32_t i = 0; i < faults->held; i++)
        bufs += faults->at[i].entry.buf != EMU_NO_BUF;
    return bufs;
}

void emu_faults_rebase(struct emu_faults *faults, uint64_t by_ps)
{
    for (uint32_t i = 0; i < faults->held; i++) {
        faults->at[i].due = emu_rebased_ps(faults->at[i].due, by_ps);
        faults->at[i].entry.time_ps = emu_rebased_ps(faults->at[i].entry.time_ps, by_ps);
    }
}

void emu_faults_drop(struct emu_faults *faults, struct emu_pool_cache *cache)
{
    for (; faults->held; faults->held--)
        emu_pool_drop(cache, faults->at[faults->held - 1].entry.buf);
}
