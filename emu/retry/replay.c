/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.c - the sending half of link-level retry. An *answer* is the receiver's ACK, or its
 * request to resend.
 */
#include "emu/retry/replay.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "emu/util/alloc.h"
#include "emu/util/now.h"
#include "emu/util/random.h"

/* first sequence number: numbers wrap around soon, so every run tests the wrap-around */
#define REPLAY_BEGINS (UINT32_MAX - 20)
#define REPLAY_SLOTS  4u          /* slots of a ring per slot of the replay buffer */
#define REPLAY_TRIES  6u          /* maximum number of doublings of the time-out */
#define REPLAY_RAW_PS 1000000000u /* clocks raw and real: the time-out is at least 1 ms */
#define REPLAY_RTTS   2u          /* number of round trips in a time-out */

/* --- creation ----------------------------------------------------------------------- */

uint32_t emu_retry_window(uint32_t credits)
{
    uint32_t window = 1;

    while (window < credits)
        window *= 2;
    return window;
}

size_t emu_retry_bytes(uint32_t credits)
{
    uint32_t window = emu_retry_window(credits), slots = REPLAY_SLOTS * window;

    return sizeof(struct emu_replay) + sizeof(struct emu_intake) + 2 * (emu_ring_bytes(credits)) +
           emu_ring_bytes(slots) + emu_credit_bytes(slots) +
           slots * (sizeof(uint32_t) + 2 * sizeof(uint64_t)) + window * sizeof(struct emu_entry);
}

static bool replay_simulates(const struct emu_replay *replay)
{
    return replay->wire.owner->worker->clock.mode == EMU_CLOCK_VIRTUAL;
}

/*
 * Set the time-out to two round trips, each with the time to send a full replay buffer. On clocks
 * raw and real this is only the initial value and lower limit, as the time-out follows measured
 * round trips.
 */
static void replay_set_timeout(struct emu_replay *replay)
{
    const struct emu_profile *profile = replay->wire.profile;
    uint64_t rtt_ps = replay->flight_ps + profile->credit_ps +
                      (replay->window + 1u) * EMU_SEG_BYTES * profile->link_ps_per_byte;

    replay->timeout_ps = REPLAY_RTTS * rtt_ps;
    if (replay_simulates(replay))
        return;
    if (replay->timeout_ps < REPLAY_RAW_PS)
        replay->timeout_ps = REPLAY_RAW_PS;
    emu_rto_init(&replay->rto, replay->timeout_ps << REPLAY_TRIES);
    emu_rto_adapt(&replay->rto, replay->timeout_ps);
    replay->rto.first_ps = replay->timeout_ps;
    replay->times = false;
}

static bool retry_alloc(struct emu_replay *replay, struct emu_tx *tx, struct emu_intake *intake,
                        struct emu_rx *rx, uint32_t credits)
{
    uint32_t slots = REPLAY_SLOTS * emu_retry_window(credits);

    if (!emu_ring_create(&tx->data, &replay->from.data, credits) ||
        !emu_credit_create(&rx->credit, &tx->credit, credits) ||
        !emu_ring_create(&replay->wire.data, &intake->wire.data, slots) ||
        !emu_credit_create(&intake->answers, &replay->answers, slots) ||
        !emu_ring_create(&intake->to.data, &rx->data, credits))
        return false;
    replay->window = emu_retry_window(credits);
    replay->kept = calloc(replay->window, sizeof *replay->kept);
    replay->number = calloc(replay->wire.data.mask + 1u, sizeof *replay->number);
    replay->there_ps = calloc(replay->wire.data.mask + 1u, sizeof *replay->there_ps);
    intake->there_ps = calloc(intake->answers.mask + 1u, sizeof *intake->there_ps);
    return replay->kept && replay->number && replay->there_ps && intake->there_ps;
}

/* Connect both ends of a pair of rings inside one device. Each end signals that device. */
static void retry_join_inside(struct emu_tx *tx, struct emu_rx *rx, struct emu_dev *dev,
                              uint8_t port, const struct emu_profile *profile)
{
    struct emu_peer self = {.index = dev->index, .port = port};

    tx->kind = rx->kind = EMU_LINK_LOCAL;
    tx->owner = rx->owner = dev;
    tx->peer = rx->peer = self;
    tx->remote = rx->remote = dev->worker;
    tx->profile = profile;
    rx->port = port;
    rx->tx = tx;
}

int emu_retry_join(struct emu_replay *replay, struct emu_tx *tx, struct emu_dev *from,
                   uint8_t from_port, struct emu_intake *intake, struct emu_rx *rx,
                   struct emu_dev *to, uint8_t to_port, uint32_t credits,
                   const struct emu_profile *profile)
{
    struct emu_peer near = {.index = from->index, .port = from_port};
    struct emu_peer remote = {.index = to->index, .port = to_port};

    intake->remote = replay;
    if (!retry_alloc(replay, tx, intake, rx, credits)) {
        emu_ring_destroy(&tx->data);
        emu_credit_destroy(&tx->credit);
        return -ENOMEM;
    }
    retry_join_inside(tx, &replay->from, from, from_port, profile);
    retry_join_inside(&intake->to, rx, to, to_port, profile);
    rx->peer = intake->wire.peer = near;
    rx->remote = intake->wire.remote = from->worker;
    replay->wire.peer = remote;
    replay->wire.remote = to->worker;
    tx->credits = credits;
    replay->wire.kind = intake->wire.kind = EMU_LINK_LOCAL;
    replay->wire.owner = from;
    replay->wire.profile = profile;
    intake->wire.owner = to;
    intake->wire.port = to_port;
    intake->wire.tx = &replay->wire;
    intake->rx = rx;
    intake->number = replay->number;
    intake->profile = profile;
    intake->expected = replay->first = replay->next = replay->last = REPLAY_BEGINS;
    replay->flight_ps = profile->channel_ps + profile->switch_ps;
    replay->lookahead_ps = emu_profile_lookahead_ps(profile);
    replay_set_timeout(replay);
    return 0;
}

void emu_replay_free(struct emu_replay *replay)
{
    emu_ring_destroy(&replay->wire.data);
    free(replay->kept);
    free(replay->number);
    free(replay->there_ps);
}

/* --- all clocks --------------------------------------------------------------------- */

static bool replay_timed(const struct emu_replay *replay)
{
    return replay->wire.owner->timed;
}

static struct emu_entry *replay_kept(const struct emu_replay *replay, uint32_t number)
{
    return &replay->kept[number & (replay->window - 1)];
}

/*
 * Restart the timer. In simulated time it runs from @at_ps, on other clocks from the time of this
 * emu_replay_run().
 */
static void replay_wait(struct emu_replay *replay, uint64_t at_ps)
{
    if (replay_simulates(replay))
        replay->timer_ps = at_ps + (replay->timeout_ps << replay->tries);
    else
        replay->timer_ps = replay->pass_ps + replay->rto.first_ps;
}

/*
 * Send all unacknowledged segments again. This also ends the measurement of a round trip, because
 * the next answer could belong to either transmission (Karn's algorithm).
 */
static void replay_again(struct emu_replay *replay, uint64_t at_ps)
{
    replay->next = replay->first;
    replay->times = false;
    replay_wait(replay, at_ps);
}

static void replay_timeout(struct emu_replay *replay, uint64_t at_ps)
{
    emu_count(&replay->counts.timeouts, 1);
    if (!replay_simulates(replay))
        emu_rto_late(&replay->rto);
    else if (replay->tries < REPLAY_TRIES)
        replay->tries++;
    replay_again(replay, at_ps);
}

/* Measure the round trip of the new segment @number, if no other measurement is in progress. */
static void replay_start_rtt(struct emu_replay *replay, uint32_t number)
{
    if (replay->times || replay_simulates(replay))
        return;
    replay->times = true;
    replay->timed = number;
    replay->timed_ps = replay->pass_ps;
}

/*
 * End the measurement if its segment is before @number, because all earlier segments are
 * acknowledged.
 */
static void replay_measure_rtt(struct emu_replay *replay, uint32_t number)
{
    if (!replay->times || (int32_t)(number - replay->timed) <= 0)
        return;
    replay->times = false;
    emu_rto_sample(&replay->rto, replay->pass_ps - replay->timed_ps);
}

/* Return whether a fault of the direction in which the arriving answer travels loses it. */
static bool replay_loses_answer(struct emu_replay *replay)
{
    const struct emu_faults *faults = replay->faults;
    uint64_t n = replay->answered++;

    if (!faults)
        return false;
    return faults->down || emu_splitmix_at(~faults->seed, n) % EMU_FAULT_UNIT <
                               faults->rates.lost + faults->rates.head + faults->rates.payload;
}

/* Free the segments before @number, which have arrived. Does nothing if there are none. */
static void replay_acknowledged(struct emu_replay *replay, uint32_t number, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &replay->wire.owner->worker->cache;

    if (number - replay->first - 1 >= replay->last - replay->first)
        return;
    for (; replay->first != number; replay->first++)
        emu_pool_drop(cache, replay_kept(replay, replay->first)->buf);
    if ((int32_t)(replay->next - replay->first) < 0)
        replay->next = replay->first; /* these segments need not be sent again any more */
    replay->tries = 0;
    replay_measure_rtt(replay, number);
    replay_wait(replay, at_ps);
}

static void replay_take_answer(struct emu_replay *replay, const struct emu_credit *answer,
                               uint64_t at_ps)
{
    if (replay_loses_answer(replay))
        return;
    replay_acknowledged(replay, answer->count, at_ps);
    if (answer->channel == EMU_ANSWER_AGAIN && answer->count == replay->first) {
        emu_count(&replay->counts.asked, 1);
        replay_again(replay, at_ps);
    }
}

static bool replay_has_new(const struct emu_replay *replay)
{
    return replay->last - replay->first < replay->window && emu_ring_front(&replay->from.data);
}

/*
 * Send the next segment, which is new or sent again, so that it arrives at @there_ps. The caller
 * has checked that there is a segment to send, and a free slot in the cable's ring.
 */
static void replay_send(struct emu_replay *replay, uint64_t there_ps)
{
    struct emu_ring_end *wire = &replay->wire.data;
    uint32_t slot = wire->at & wire->mask;
    bool again = replay->next != replay->last;
    struct emu_entry *kept = replay_kept(replay, replay->next);

    if (!again) {
        *kept = *emu_ring_front(&replay->from.data);
        emu_ring_skip(&replay->from.data);
        replay->last++;
        replay_start_rtt(replay, replay->next);
    } else {
        emu_count(&replay->counts.again, 1);
    }
    kept->time_ps = there_ps;
    emu_pool_share(replay->wire.owner->worker->cache.pool, kept->buf, 1);
    if (__builtin_expect(replay->wire.tapped, 0))
        emu_tap_numbered(&replay->wire, kept, replay->next, again, there_ps);
    replay->number[slot] = replay->next++;
    replay->there_ps[slot] = there_ps;
    emu_ring_put(wire, kept);
}

/* --- clock raw ---------------------------------------------------------------------- */

static uint64_t replay_run_raw(struct emu_replay *replay)
{
    const struct emu_credit *answer;
    uint64_t now_ps = 0;
    bool sent = false;

    if (replay->first != replay->last || emu_ring_front(&replay->from.data))
        replay->pass_ps = now_ps = emu_now_ns() * 1000u;
    while ((answer = emu_credit_front(&replay->answers))) {
        replay_take_answer(replay, answer, now_ps);
        emu_credit_skip(&replay->answers);
    }
    if (replay->down)
        return EMU_NEVER;
    if (replay->first != replay->next && now_ps >= replay->timer_ps)
        replay_timeout(replay, now_ps);
    while ((replay->next != replay->last || replay_has_new(replay)) &&
           emu_ring_has_slot(&replay->wire.data)) {
        if (replay->next == replay->first)
            replay_wait(replay, now_ps);
        replay_send(replay, 0);
        sent = true;
    }
    if (sent)
        emu_tx_notify(&replay->wire, replay->wire.owner->worker);
    if (replay->first == replay->last)
        return EMU_NEVER;
    return replay->timer_ps > now_ps ? replay->timer_ps - now_ps : 0;
}

/* --- timed clocks ------------------------------------------------------------------- */

/* Return when the next segment leaves, or EMU_NEVER if there is none. */
static uint64_t replay_send_ps(const struct emu_replay *replay)
{
    const struct emu_ring_end *wire = &replay->wire.data;
    uint64_t there_ps = replay->there_ps[wire->at & wire->mask];
    uint64_t at_ps = replay->at_ps > replay->wire.busy_ps ? replay->at_ps : replay->wire.busy_ps;

    if (replay->down)
        return EMU_NEVER;
    if (replay->next == replay->last) {
        uint64_t left_ps;

        if (!replay_has_new(replay))
            return EMU_NEVER;
        left_ps = emu_ring_front(&replay->from.data)->time_ps - replay->flight_ps;
        at_ps = left_ps > at_ps ? left_ps : at_ps;
    }
    /* The slot is certainly empty lookahead_ps after its last entry arrived (intake.c). */
    if (there_ps && there_ps + replay->lookahead_ps > at_ps)
        at_ps = there_ps + replay->lookahead_ps;
    return at_ps;
}

static void replay_depart(struct emu_replay *replay, uint64_t at_ps)
{
    struct emu_dev *dev = replay->wire.owner;
    const struct emu_hdr *hdr = replay->next == replay->last
                                    ? &emu_ring_front(&replay->from.data)->hdr
                                    : &replay_kept(replay, replay->next)->hdr;
    uint64_t there_ps = at_ps + replay->flight_ps;

    if (replay->next == replay->first)
        replay_wait(replay, at_ps);
    if (replay->wire.slow)
        there_ps += emu_tx_late_ps(&replay->wire, EMU_HDR_BYTES + hdr->len);
    replay->wire.busy_ps = at_ps + emu_wire_ps(replay->wire.profile, hdr);
    replay_send(replay, there_ps);
    emu_dev_expect(dev, there_ps);
    emu_tx_notify(&replay->wire, dev->worker);
}

/* Process the events up to @until_ps in order of time. At the same time, answers come first. */
static uint64_t replay_run_timed(struct emu_replay *replay, uint64_t until_ps)
{
    replay->pass_ps = until_ps;
    for (;;) {
        const struct emu_credit *answer = emu_credit_front(&replay->answers);
        uint64_t answer_ps = answer ? answer->time_ps : EMU_NEVER;
        uint64_t timer_ps = replay->first != replay->next && !replay->down ? replay->timer_ps
                                                                           : EMU_NEVER;
        uint64_t send_ps = replay_send_ps(replay);
        uint64_t own_ps = timer_ps < send_ps ? timer_ps : send_ps;
        uint64_t at_ps = answer_ps <= own_ps ? answer_ps : own_ps;

        if (at_ps == EMU_NEVER || at_ps > until_ps)
            return at_ps;
        if (at_ps > replay->at_ps)
            replay->at_ps = at_ps;
        if (answer_ps <= own_ps) {
            replay_take_answer(replay, answer, replay->at_ps);
            emu_credit_skip(&replay->answers);
        } else if (timer_ps <= send_ps) {
            replay_timeout(replay, replay->at_ps);
        } else if (emu_ring_has_slot(&replay->wire.data)) {
            replay_depart(replay, at_ps);
        } else {
            /* clock real: the receiver's thread is late and has not emptied the slot */
            return until_ps + 1;
        }
    }
}

/* --- link state and reroute -------------------------------------------------------- */

uint64_t emu_replay_run(struct emu_replay *replay, uint64_t until_ps)
{
    return replay_timed(replay) ? replay_run_timed(replay, until_ps) : replay_run_raw(replay);
}

void emu_replay_link(struct emu_replay *replay, bool up, uint64_t at_ps)
{
    if (replay->down == !up)
        return;
    replay->down = !up;
    replay->times = false;
    if (!up)
        return;
    if (replay_timed(replay))
        at_ps++; /* simulated time up to @at_ps has passed, so no event may be added there */
    else
        at_ps = emu_now_ns() * 1000u;
    if (at_ps > replay->at_ps)
        replay->at_ps = at_ps;
    if (at_ps > replay->pass_ps)
        replay->pass_ps = at_ps;
    replay->tries = 0;
    replay_again(replay, at_ps);
}

void emu_replay_slow(struct emu_replay *replay, struct emu_slow *slow, uint32_t factor)
{
    emu_tx_slow(&replay->wire, slow, factor);
    replay_set_timeout(replay);
}

/*
 * Return the oldest unacknowledged segment, or NULL. If the replay buffer is empty, first move a
 * new segment into it.
 */
static struct emu_entry *replay_oldest(struct emu_replay *replay)
{
    struct emu_entry *kept = replay_kept(replay, replay->first);
    const struct emu_entry *fresh = emu_ring_front(&replay->from.data);

    if (replay->first != replay->last)
        return kept;
    if (!fresh)
        return NULL;
    *kept = *fresh;
    emu_ring_skip(&replay->from.data);
    replay->last++;
    return kept;
}

/*
 * Collect the credits that have arrived at carry->back, and return whether there are more than the
 * number that must stay unspent. Used if the sending device is on another host.
 */
static bool reroute_has_space_back(const struct emu_reroute *carry)
{
    struct emu_tx *back = carry->back;
    const struct emu_credit *come;

    while ((come = emu_credit_front(&back->credit)) && come->time_ps <= carry->at_ps) {
        back->credits += come->count;
        emu_credit_skip(&back->credit);
    }
    return back->credits > carry->depth + (carry->credits > 1);
}

/*
 * Spend a credit of the remote device for a segment that goes back. The last credit stays unspent,
 * unless the receiver has only one slot. Return false if no credit may be spent.
 */
static bool reroute_spend_credit(const struct emu_reroute *carry)
{
    if (!carry->near && !reroute_has_space_back(carry))
        return false;
    if (!carry->spare || emu_tx_earliest_ps(carry->back, 0) == EMU_NEVER)
        return false;
    if (carry->credits > 1 && carry->back->credits < 2 && !emu_credit_front(&carry->back->credit))
        return false;
    carry->back->credits--;
    emu_count(&carry->back->counts.segments, 1);
    return true;
}

/* Send a segment from the remote device back to this device, which is on another host. */
static void reroute_back(const struct emu_reroute *carry, const struct emu_entry *entry)
{
    struct emu_tx *back = carry->back;
    struct emu_entry in = *entry;

    in.time_ps = emu_dev_stamp_ps(back->owner, carry->at_ps);
    emu_ring_put(&back->data, &in); /* a credit was spent for the entry, so there is a slot */
    emu_dev_signal_remote(back->remote->dev[back->peer.index], EMU_EVENT_DATA,
                          emu_port_signal(back->peer.port));
}

static bool reroute_one(const struct emu_reroute *carry, const struct emu_entry *entry)
{
    enum emu_reroute_fate how = carry->may(carry->ctx, entry);

    if (how == EMU_REROUTE_WAITS || (how == EMU_REROUTE_BACK && !reroute_spend_credit(carry)))
        return false;
    if (how == EMU_REROUTE_FORWARD)
        emu_intake_rerouted(carry->remote, entry, carry->at_ps);
    else
        emu_intake_missed(carry->remote, carry->at_ps);
    if (how == EMU_REROUTE_BACK && carry->near)
        emu_intake_back(carry->near, entry, carry->at_ps);
    else if (how == EMU_REROUTE_BACK)
        reroute_back(carry, entry);
    if (how == EMU_REROUTE_DONE)
        emu_pool_drop(&carry->replay->wire.owner->worker->cache, entry->buf);
    return true;
}

uint32_t emu_replay_reroute(const struct emu_reroute *carry)
{
    struct emu_replay *replay = carry->replay;
    const struct emu_entry *entry;
    uint32_t carried = 0;

    assert(replay->down && carry->remote->remote == replay);
    replay_acknowledged(replay, carry->remote->expected, carry->at_ps);
    while (carried < carry->most && (entry = replay_oldest(replay)) && reroute_one(carry, entry)) {
        replay->first++;
        if ((int32_t)(replay->next - replay->first) < 0)
            replay->next = replay->first;
        carried++;
    }
    return carried;
}

bool emu_replay_is_empty(const struct emu_replay *replay)
{
    return replay->first == replay->last && !emu_ring_front(&replay->from.data);
}

uint32_t emu_replay_bufs(const struct emu_replay *replay)
{
    uint32_t bufs = emu_link_bufs(&replay->from);

    for (uint32_t n = replay->first; n != replay->last; n++)
        bufs += replay_kept(replay, n)->buf != EMU_NO_BUF;
    return bufs;
}

bool emu_replay_holds(const struct emu_replay *replay, uint32_t id)
{
    for (uint32_t n = replay->first; n != replay->last; n++)
        if (emu_hdr_is_of(&replay_kept(replay, n)->hdr, id))
            return true;
    return emu_link_holds(&replay->from, id);
}

void emu_replay_rebase(struct emu_replay *replay, uint64_t by_ps)
{
    emu_ring_rebase(&replay->from.data, by_ps);
    for (uint32_t i = 0; i <= replay->wire.data.mask; i++)
        replay->there_ps[i] = emu_rebased_ps(replay->there_ps[i], by_ps);
    replay->wire.busy_ps = emu_rebased_ps(replay->wire.busy_ps, by_ps);
    replay->at_ps = emu_rebased_ps(replay->at_ps, by_ps);
    replay->timer_ps = emu_rebased_ps(replay->timer_ps, by_ps);
    replay->pass_ps = emu_rebased_ps(replay->pass_ps, by_ps);
    replay->timed_ps = emu_rebased_ps(replay->timed_ps, by_ps);
}
