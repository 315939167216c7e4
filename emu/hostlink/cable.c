/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cable.c - a cable to another host: sending, and the counts of both directions. rx.c receives.
 * "Our switch" is the switch or link engine at this host's end of the cable.
 *
 * Invariant, per channel, while the session is up: `unpaid` (our segments whose credits have not
 * returned) plus `old` (segments in the remote switch from before the session last went down)
 * equals the remote host's `open` (segments for which its switch has not returned credits) plus the
 * segments and credits in flight. A cable without channels uses channel 0.
 */
#include "emu/hostlink/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hostlink/entry.h"
#include "emu/link/channels.h"
#include "emu/retry/replay.h"
#include "emu/util/alloc.h"

/* this many owed credits of a cable, or a quarter of its depth, are sent in a frame of their own */
#define CABLE_PRESSING 64u

/* --- join and check ----------------------------------------------------------------- */

static int room_grow(struct hostlink_room *room, uint32_t more)
{
    uint8_t *record = realloc(room->record, (room->slots + more) * (size_t)EMU_HOSTLINK_ENTRY_MOST);

    if (!record)
        return -ENOMEM;
    room->record = record;
    room->slots += more;
    return 0;
}

/* Join the last hop, from the host link to our switch, with link-level retry. */
static int retry_join(struct hostlink_cable *cable, uint8_t bit, struct emu_intake *intake,
                      struct emu_rx *rx, struct emu_dev *dev, uint8_t port, uint32_t credits,
                      const struct emu_profile *profile)
{
    struct emu_hostlink *link = cable->peer->link;
    int err;

    cable->replay = emu_zeros(sizeof *cable->replay);
    if (!cable->replay)
        return -ENOMEM;
    err = emu_retry_join(cable->replay, &cable->ends.tx, &link->dev, bit, intake, rx, dev, port,
                         credits, profile);
    link->retries = true;
    return err;
}

int emu_hostlink_join(struct emu_hostlink *link, uint32_t peer, uint32_t number, struct emu_tx *tx,
                      struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                      struct emu_intake *intake, uint32_t credits, uint32_t depth,
                      const struct emu_profile *profile)
{
    struct hostlink_cable *cable = &link->peer[peer].cable[number];
    uint8_t bit = (uint8_t)(cable->index % 64);
    bool channels = emu_profile_acknowledged(profile);
    uint32_t most = channels ? 2 * emu_vc_ring(profile) : credits + EMU_INTAKE_FORGED;
    uint32_t slots = channels ? most : most + depth;
    int err = room_grow(&cable->peer->room, slots);

    cable->depth = channels ? 0 : depth;
    while (cable->queue_mask + 1u < cable->depth)
        cable->queue_mask = 2 * cable->queue_mask + 1u;
    cable->queue = calloc(cable->queue_mask + 1u, sizeof *cable->queue);
    if (!err)
        err = cable->queue
                  ? emu_link_join(tx, dev, port, &cable->ends.rx, &link->dev, bit, slots, profile)
                  : -ENOMEM;
    if (err)
        return err;
    err = intake ? retry_join(cable, bit, intake, rx, dev, port, credits, profile)
                 : emu_link_join(&cable->ends.tx, &link->dev, bit, rx, dev, port, most, profile);
    if (err) {
        emu_link_unjoin(tx);
        return err;
    }
    if (!channels) {
        tx->credits = credits + depth;
        cable->ends.tx.credits = credits;
    }
    cable->slots = slots;
    cable->credits = credits;
    cable->channels = channels;
    cable->profile = profile;
    return 0;
}

const char *emu_hostlink_check(const struct emu_hostlink *link, uint32_t peer, uint32_t number)
{
    const struct hostlink_cable *cable = &link->peer[peer].cable[number];
    const struct emu_rx *rx = &cable->ends.rx;

    if (!cable->slots)
        return NULL;
    if (cable->channels)
        return emu_link_check_segments(rx);
    if ((int64_t)cable->ends.tx.credits + cable->open[0] - cable->queued != cable->credits)
        return "the credits of a cable from another host do not add up";
    return emu_link_check(rx, (uint32_t)cable->unpaid[0], cable->credits + cable->depth);
}

/* --- sending ------------------------------------------------------------------------ */

static bool cable_is_segment(const struct hostlink_cable *cable, const struct emu_hdr *hdr)
{
    return hostlink_is_segment(hdr, cable->channels);
}

static uint32_t cable_channel(const struct hostlink_cable *cable, const struct emu_entry *entry)
{
    return cable->channels ? entry->packet.channel % EMU_VCS : 0;
}

/* Return how many forged credits a channel has received. They make `unpaid` negative. */
static uint32_t cable_forged(int32_t unpaid)
{
    return unpaid < 0 ? (uint32_t)-unpaid : 0;
}

static void cable_sent(struct hostlink_cable *cable, uint32_t channel, uint32_t count)
{
    uint32_t forged = cable->forged - cable_forged(cable->unpaid[channel]);

    cable->unpaid[channel] += (int32_t)count;
    cable->forged = forged + cable_forged(cable->unpaid[channel]);
}

static uint32_t cable_may_send(const struct hostlink_cable *cable)
{
    int64_t in_flight = cable->unpaid[0] + (int64_t)cable->old[0];
    int64_t most = cable->credits + (int64_t)cable->depth;

    if (cable->channels)
        return cable->slots - cable->in_flight;
    return in_flight < most ? (uint32_t)(most - in_flight) : 0;
}

/*
 * The state of a cable while it sends its quantum of entries: values that are loaded once, and the
 * position in the session's frame. Callers pass the kind of cable and clock as constants, so that
 * the compiler removes all other cases from the code for the most common kind.
 */
struct cable_quantum {
    struct emu_pool_cache *cache;
    struct emu_session *session;
    uint64_t origin_ns;
    uint32_t number;
    uint8_t *to;
    uint32_t left; /* bytes left in the frame */
    uint32_t put;  /* bytes written since the last emu_session_put() */
};

/* Fill *@ret with the record of an entry. Convert its times to the monotonic clock. */
static inline void cable_record(const struct cable_quantum *quantum, const struct emu_entry *entry,
                                bool channels, bool timed, struct emu_hostlink_record *ret)
{
    hostlink_entry_record(entry, quantum->cache->pool, channels, quantum->number, ret);
    ret->at_ps = timed ? ret->at_ps + quantum->origin_ns * 1000u : 0;
    if (!timed)
        return;
    if (!channels)
        ret->entry.crc = hostlink_born_ns(entry->born_ns, quantum->origin_ns);
    ret->note = hostlink_born_ns(ret->note, quantum->origin_ns);
}

static void quantum_put(struct cable_quantum *quantum)
{
    if (quantum->put)
        emu_session_put(quantum->session, quantum->put);
    quantum->put = 0;
}

/* Get space for @bytes in a frame of the session. Return false if there is none. */
static bool quantum_find(struct cable_quantum *quantum, uint32_t bytes)
{
    quantum_put(quantum);
    quantum->to = emu_session_room(quantum->session, bytes);
    quantum->left = quantum->to ? emu_session_left(quantum->session) : 0;
    return quantum->to;
}

/*
 * Write an entry of the most common kind: with a pool buffer, without times and channels, and with
 * a record that fits into the rest of the frame.
 */
static inline void quantum_send_plain(struct cable_quantum *quantum, const struct emu_entry *entry,
                                      uint32_t bytes)
{
    uint64_t head = EMU_HOSTLINK_ENTRY | (uint64_t)ENTRY_BUF << ENTRY_FLAGS |
                    (uint64_t)entry->hdr.len << ENTRY_LENGTH |
                    (uint64_t)quantum->number << ENTRY_CABLE;
    uint8_t *to = quantum->to;

    memcpy(to, &head, sizeof head);
    memset(to + ENTRY_TIME, 0, sizeof head);
    memcpy(to + ENTRY_HDR, &entry->hdr, sizeof entry->hdr);
    memcpy(to + ENTRY_CRC, &entry->crc, sizeof entry->crc);
    memset(to + ENTRY_NOTE, 0, EMU_HOSTLINK_ENTRY_BYTES - ENTRY_NOTE);
    emu_copy(to + EMU_HOSTLINK_ENTRY_BYTES, emu_pool_bytes(quantum->cache->pool, entry->buf),
             entry->hdr.len);
    quantum->to = to + bytes;
    quantum->left -= bytes;
    quantum->put += bytes;
}

/* Write an entry into the frame, or into a new one. Return false if the session has no space. */
static inline bool quantum_send(struct cable_quantum *quantum, const struct emu_entry *entry,
                                bool channels, bool timed)
{
    struct emu_hostlink_record record;
    uint32_t bytes = EMU_HOSTLINK_ENTRY_BYTES + entry->hdr.len;

    if (!channels && !timed && entry->buf != EMU_NO_BUF && bytes <= quantum->left) {
        quantum_send_plain(quantum, entry, bytes);
        return true;
    }
    cable_record(quantum, entry, channels, timed, &record);
    bytes = hostlink_entry_bytes(&record);
    if (bytes > quantum->left && !quantum_find(quantum, bytes))
        return false;
    hostlink_entry_write(quantum->to, &record);
    quantum->to += bytes;
    quantum->left -= bytes;
    quantum->put += bytes;
    return true;
}

static inline __attribute__((always_inline)) enum hostlink_sent cable_send(
    struct hostlink_cable *cable, uint32_t *left, bool channels, bool timed)
{
    struct emu_rx *rx = &cable->ends.rx;
    struct emu_ring_end ring = rx->data;
    struct cable_quantum quantum = {.cache = &rx->owner->worker->cache,
                                    .session = cable->peer->session,
                                    .origin_ns = rx->owner->worker->clock.origin_ns,
                                    .number = cable->number};
    uint32_t may = cable_may_send(cable), most = *left, moved = 0;
    enum hostlink_sent how = HOSTLINK_SENT_MORE;
    const struct emu_entry *entry;

    for (; moved < most; moved++) {
        entry = moved < may ? emu_ring_front(&ring) : NULL;
        if (!entry) {
            how = HOSTLINK_SENT_NONE;
            break;
        }
        if (!quantum_send(&quantum, entry, channels, timed)) {
            how = HOSTLINK_SENT_FULL;
            break;
        }
        emu_pool_drop(quantum.cache, entry->buf);
        if (channels && hostlink_is_segment(&entry->hdr, true))
            cable_sent(cable, cable_channel(cable, entry), 1);
        emu_ring_skip(&ring);
    }
    quantum_put(&quantum);
    rx->data.at = ring.at;
    *left = most - moved;
    cable->in_flight += channels ? moved : 0;
    if (!channels)
        cable_sent(cable, 0, moved);
    return how;
}

/* cable_send() for the most common cables. It is not inlined, so its loop stays in registers. */
static __attribute__((noinline)) enum hostlink_sent cable_send_plain(struct hostlink_cable *cable,
                                                                     uint32_t *left)
{
    return cable_send(cable, left, false, false);
}

enum hostlink_sent hostlink_cable_send(struct hostlink_cable *cable, uint32_t *left)
{
    bool timed = cable->peer->link->dev.timed;
    uint32_t before = *left, moved;
    enum hostlink_sent how;

    if (!cable->channels && !timed)
        how = cable_send_plain(cable, left);
    else
        how = cable_send(cable, left, cable->channels, timed);
    moved = before - *left;
    if (moved) {
        emu_rx_done(&cable->ends.rx, moved);
        emu_count(&cable->peer->counts.entries_sent, moved);
        cable->peer->moved_ns = cable->peer->link->now_ns;
    }
    return how;
}

/* --- credits to our switch ---------------------------------------------------------- */

static uint64_t cable_credit_ps(const struct hostlink_cable *cable)
{
    const struct emu_hostlink *link = cable->peer->link;

    return link->dev.timed ? link->until_ps + cable->profile->credit_ps : 0;
}

static void cable_pay_switch(struct hostlink_cable *cable, uint32_t channel, uint32_t count)
{
    struct emu_rx *rx = &cable->ends.rx;
    uint64_t at_ps = cable_credit_ps(cable);

    if (!count)
        return;
    if (cable->channels) {
        while (count--)
            emu_rx_pay_channel(rx, channel, at_ps);
    } else {
        rx->owed = count;
        emu_rx_pay(rx, rx->owner, at_ps);
    }
}

uint32_t hostlink_cable_discard(struct hostlink_cable *cable)
{
    struct emu_rx *rx = &cable->ends.rx;
    const struct emu_entry *entry;
    uint32_t moved = 0, segments = 0;

    while (moved < cable->slots && (entry = emu_rx_front(rx, EMU_NEVER))) {
        emu_pool_drop(&rx->owner->worker->cache, entry->buf);
        if (!cable->channels)
            segments++;
        else if (cable_is_segment(cable, &entry->hdr))
            cable_pay_switch(cable, cable_channel(cable, entry), 1);
        emu_rx_skip(rx);
        moved++;
    }
    if (moved) {
        emu_rx_done(rx, moved);
        emu_count(&cable->peer->counts.discarded, moved);
    }
    cable_pay_switch(cable, 0, segments);
    return moved;
}

bool hostlink_cable_credit(struct hostlink_cable *cable, const struct emu_hostlink_record *record)
{
    uint32_t c = record->channel, count = record->count;
    uint32_t old = count < cable->old[c] ? count : cable->old[c];
    int64_t left = cable->unpaid[c] - (int64_t)(count - old);
    uint32_t forged = cable->forged - cable_forged(cable->unpaid[c]);

    if ((!cable->channels && c) || left < -(int64_t)(EMU_INTAKE_FORGED - forged))
        return false;
    count -= old;
    cable->old[c] -= old;
    cable->unpaid[c] = (int32_t)left;
    cable->forged = forged + cable_forged(cable->unpaid[c]);
    cable_pay_switch(cable, c, count);
    hostlink_set_active(cable); /* entries may have waited for this credit */
    return true;
}

bool hostlink_cable_taken(struct hostlink_cable *cable, uint32_t count)
{
    if (!cable->channels || count > cable->in_flight)
        return false;
    cable->in_flight -= count;
    hostlink_set_active(cable);
    return true;
}

bool hostlink_cable_old(struct hostlink_cable *cable, const struct emu_hostlink_record *record)
{
    if (cable->old[record->channel] || (!cable->channels && record->channel) ||
        record->count > cable->slots)
        return false;
    cable->old[record->channel] = record->count;
    return true;
}

/* --- credits to the peer ---------------------------------------------------------- */

static void cable_advance(struct hostlink_cable *cable)
{
    if (!cable->queued || !cable->ends.tx.credits)
        return;
    for (; cable->queued && cable->ends.tx.credits; cable->queued--) {
        emu_tx_send(&cable->ends.tx, hostlink_queued(cable, 0));
        cable->queue_at++;
    }
    hostlink_set_touched(cable);
}

void hostlink_cable_collect(struct hostlink_cable *cable)
{
    struct emu_tx *tx = &cable->ends.tx;
    const struct emu_credit *back;

    while ((back = emu_credit_front(&tx->credit))) {
        uint32_t c = cable->channels ? back->channel % EMU_VCS : 0;

        tx->credits += back->count;
        cable->open[c] -= (int32_t)back->count;
        if (cable->announced >> c & 1) {
            cable->paid[c] += back->count;
            cable->pays |= 1u << c;
            hostlink_set_owing(cable, cable->paid[c] >= CABLE_PRESSING ||
                                          cable->paid[c] >= cable->depth / 4);
        }
        emu_credit_skip(&tx->credit);
    }
    cable_advance(cable);
}

bool hostlink_cable_empty(struct hostlink_cable *cable)
{
    const struct emu_ring_end *data = &cable->ends.tx.data;

    while (cable->emptied_at != data->at &&
           !(atomic_load_explicit(&data->slot[cable->emptied_at & data->mask].stamp,
                                  memory_order_acquire) & /* R1 pairs with R4 */
             EMU_RING_FULL)) {
        cable->emptied_at++;
        cable->emptied++;
    }
    return data->at - cable->emptied_at + cable->emptied >= cable->slots / 4;
}

bool hostlink_cable_pay(struct hostlink_cable *cable)
{
    struct hostlink_peer *peer = cable->peer;
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_CREDITS, .cable = cable->number};

    emu_each_bit (c, cable->pays) {
        record.channel = (uint8_t)c;
        record.count = cable->paid[c];
        if (!hostlink_put(peer, &record))
            return false;
        emu_count(&peer->counts.credits_sent, record.count);
        cable->paid[c] = 0;
        cable->pays &= ~(1u << c);
    }
    if (cable->emptied < cable->slots / 4)
        return true;
    record = (struct emu_hostlink_record){.kind = EMU_HOSTLINK_TAKEN,
                                          .cable = cable->number,
                                          .count = cable->emptied};
    if (!hostlink_put(peer, &record))
        return false;
    cable->emptied = 0;
    return true;
}

bool hostlink_cable_announce(struct hostlink_cable *cable)
{
    hostlink_cable_collect(cable);
    if (cable->channels) {
        hostlink_cable_empty(cable);
        if (cable->emptied_at != cable->ends.tx.data.at)
            return false; /* the switch will empty the remaining slots in its next step */
        cable->emptied = 0;
    }
    for (uint32_t c = 0; c < EMU_VCS; c++) {
        struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_OLD,
                                             .channel = (uint8_t)c,
                                             .cable = cable->number,
                                             .count = (uint32_t)cable->open[c]};

        if (cable->announced >> c & 1)
            continue;
        if (cable->open[c] > 0 && !hostlink_put(cable->peer, &record))
            return false;
        cable->announced |= 1u << c;
    }
    return true;
}

uint32_t hostlink_cable_bufs(const struct hostlink_cable *cable)
{
    uint32_t bufs = cable->replay ? emu_replay_bufs(cable->replay) : 0;

    for (uint32_t i = 0; i < cable->queued; i++)
        bufs += hostlink_queued(cable, i)->buf != EMU_NO_BUF;
    return bufs;
}

/* --- end of an incarnation -------------------------------------------------------------- */

void hostlink_cable_cut(struct hostlink_cable *cable)
{
    struct emu_pool_cache *cache = &cable->peer->link->dev.worker->cache;

    emu_count(&cable->peer->counts.cut, cable->queued);
    for (; cable->queued; cable->queued--) {
        emu_pool_drop(cache, hostlink_queued(cable, 0)->buf);
        cable->queue_at++;
        cable->open[0]--;
    }
    for (uint32_t c = 0; c < EMU_VCS; c++) {
        if (cable->unpaid[c] > 0) {
            cable_pay_switch(cable, c, (uint32_t)cable->unpaid[c]);
            cable->unpaid[c] = 0;
        }
        cable->old[c] = cable->paid[c] = 0;
    }
    cable->pays = 0;
    cable->in_flight = cable->emptied = 0;
    cable->waiting = 0;
    cable->announced = 0;
}
