/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * intake.c - the receiving half of a cable with faults or link-level retry. With retry, the intake
 * sends *answers*: acknowledgments (ACKs) and requests to resend.
 */
#include "emu/retry/intake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "emu/retry/replay.h"

/* --- creation ----------------------------------------------------------------------- */

/*
 * Define NAME_widen(), which replaces the ring of a cable by a larger one, so that there is space
 * even if faults forge credits. It returns false if there is no memory.
 */
#define INTAKE_WIDEN(NAME)                                                             \
    static bool NAME##_widen(struct NAME##_end *producer, struct NAME##_end *consumer, \
                             uint32_t slots)                                           \
    {                                                                                  \
        struct NAME##_end put, take;                                                   \
                                                                                       \
        if (!NAME##_create(&put, &take, slots))                                        \
            return false;                                                              \
        put.at = producer->at;                                                         \
        take.at = consumer->at;                                                        \
        for (uint32_t at = consumer->at; at != producer->at; at++)                     \
            put.slot[at & put.mask] = consumer->slot[at & consumer->mask];             \
        NAME##_destroy(consumer);                                                      \
        *producer = put;                                                               \
        *consumer = take;                                                              \
        return true;                                                                   \
    }

INTAKE_WIDEN(emu_ring)
INTAKE_WIDEN(emu_credit)

/*
 * Return the number of the device's free slots: one per unspent credit, and one per segment on the
 * cable. No credit has been forged yet.
 */
static uint32_t intake_room(const struct emu_rx *rx)
{
    const struct emu_tx *tx = rx->tx;

    return (uint32_t)emu_link_credits(rx) + (tx->data.at - rx->data.at);
}

int emu_intake_insert(struct emu_intake *intake, struct emu_rx *rx, uint32_t credits,
                      const struct emu_profile *profile)
{
    struct emu_ring_end data;
    struct emu_credit_end credit;

    intake->lost_ps = calloc(EMU_INTAKE_LOST, sizeof *intake->lost_ps);
    intake->over = calloc(EMU_INTAKE_FORGED, sizeof *intake->over);
    if (!intake->lost_ps || !intake->over || emu_link_unfuse(rx) != 0 ||
        !emu_ring_widen(&rx->tx->data, &rx->data, credits + EMU_INTAKE_FORGED) ||
        !emu_credit_widen(&rx->credit, &rx->tx->credit, credits + EMU_INTAKE_FORGED) ||
        !emu_ring_create(&intake->to.data, &data, credits) ||
        !emu_credit_create(&credit, &intake->paid, credits)) {
        emu_intake_free(intake);
        *intake = (struct emu_intake){.room = 0}; /* because its owner frees it, too */
        return -ENOMEM;
    }
    intake->room = intake_room(rx);
    intake->wire = *rx;
    /* the device's own receiver records segments for a capture, so they are not recorded here */
    intake->wire.tapped = false;
    rx->cross_worker = false; /* the intake, which is in the same device, is now its sender */
    intake->to.kind = EMU_LINK_LOCAL;
    intake->rx = rx;
    intake->profile = profile;
    rx->data = data;
    rx->credit = credit;
    rx->tx = &intake->to;
    return 0;
}

void emu_intake_faults(struct emu_intake *intake, struct emu_faults *faults)
{
    intake->faults = faults;
    if (!faults)
        return;
    faults->checked = true;
    faults->numbers = intake->number;
    faults->forges_left = intake->remote ? 0 : EMU_INTAKE_FORGED;
}

void emu_intake_free(struct emu_intake *intake)
{
    emu_ring_destroy(&intake->to.data);
    if (intake->remote)
        emu_credit_destroy(&intake->answers);
    else
        emu_credit_destroy(&intake->paid);
    free(intake->there_ps);
    free(intake->lost_ps);
    free(intake->over);
}

/* --- arriving entries --------------------------------------------------------------- */

/* Take the next entry that arrives by @until_ps, with its sequence number and its fate. */
static bool intake_next(struct emu_intake *intake, uint64_t until_ps, struct emu_entry *entry,
                        enum emu_fate *fate, uint32_t *number)
{
    struct emu_rx *wire = &intake->wire;

    if (intake->faults) {
        if (!emu_faults_take(intake->faults, wire, &wire->owner->worker->cache, until_ps, entry,
                             fate))
            return false;
        *number = intake->faults->number;
        return true;
    }
    if (!emu_rx_front(wire, until_ps))
        return false;
    *number = intake->remote ? intake->number[wire->data.at & wire->data.mask] : 0;
    return emu_rx_take(wire, NULL, NULL, until_ps, entry, fate);
}

static void intake_drop(struct emu_intake *intake, const struct emu_entry *entry,
                        _Atomic uint64_t *count)
{
    emu_count(count, 1);
    emu_pool_drop(&intake->wire.owner->worker->cache, entry->buf);
}

static void intake_deliver(struct emu_intake *intake, const struct emu_entry *entry)
{
    /* a credit was spent for the entry, so there is a slot */
    emu_ring_put(&intake->to.data, entry);
    emu_dev_add_event(intake->wire.owner, EMU_EVENT_DATA, emu_port_signal(intake->wire.port));
}

/* Return whether two segments are from the same pair of nodes or of the same group. */
static bool same_flow(const struct emu_hdr *a, const struct emu_hdr *b)
{
    return a->dst == b->dst && (a->kind == EMU_UNICAST) == (b->kind == EMU_UNICAST) &&
           (a->kind != EMU_UNICAST || (a->src == b->src && a->op == b->op && a->type == b->type));
}

/*
 * Store the header of a segment that found no free slot, for a report, because nobody sends it
 * again. There are at most EMU_INTAKE_FORGED such segments, because each uses up a forged credit.
 */
static void intake_overrun(struct emu_intake *intake, const struct emu_entry *entry)
{
    emu_count(&intake->counts.overrun, 1);
    for (uint32_t i = 0; i < intake->overs; i++)
        if (same_flow(&intake->over[i], &entry->hdr))
            return;
    assert(intake->overs < EMU_INTAKE_FORGED);
    intake->over[intake->overs++] = entry->hdr;
}

void emu_intake_overruns(struct emu_intake *intake,
                         void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx)
{
    for (uint32_t i = 0; i < intake->overs; i++)
        report(ctx, &intake->over[i]);
    intake->overs = 0;
}

static void intake_take_plain(struct emu_intake *intake, const struct emu_entry *entry,
                              enum emu_fate fate)
{
    if (fate == EMU_FATE_ARRIVED && !intake->room) {
        intake_overrun(intake, entry);
        intake_drop(intake, entry, &intake->counts.lost);
    } else if (fate == EMU_FATE_ARRIVED) {
        intake->room--;
        intake_deliver(intake, entry);
    } else if (fate == EMU_FATE_DUPLICATED) {
        intake_drop(intake, entry, &intake->counts.doubles);
    } else {
        emu_count(&intake->counts.lost, 1);
        intake->lost_ps[intake->lost_to++ % EMU_INTAKE_LOST] = entry->time_ps +
                                                               intake->profile->credit_ps;
    }
}

/* --- link-level retry --------------------------------------------------------------- */

/* Return the time stamp of a credit or answer that reaches the sender at @there_ps. */
static uint64_t intake_stamp_ps(struct emu_intake *intake, uint64_t there_ps)
{
    struct emu_dev *dev = intake->wire.owner;

    if (dev->timed)
        emu_dev_expect(dev, there_ps);
    return emu_dev_stamp_ps(dev, there_ps);
}

/*
 * Send the pending answer to an entry that arrived at @at_ps. If the ring has no free slot, no
 * answer is sent. A later answer will include this one, or the sender resends after its time-out.
 *
 * In simulated time, the existence of a free slot must not depend on how far the sender's worker
 * has advanced. Therefore a slot is used again only if its last answer reached the sender so long
 * ago that the sender has certainly read it: before the current window of simulated time. On clock
 * raw there_ps[] is 0, which skips this test.
 */
static void intake_send_answer(struct emu_intake *intake, uint64_t at_ps)
{
    uint64_t *there_ps = &intake->there_ps[intake->answers.at & intake->answers.mask];
    enum emu_answer answer = intake->answer;

    intake->answer = EMU_ANSWER_NONE;
    if (!answer || (*there_ps && *there_ps + emu_profile_lookahead_ps(intake->profile) > at_ps) ||
        !emu_credit_has_slot(&intake->answers))
        return;
    *there_ps = intake_stamp_ps(intake, at_ps + intake->profile->credit_ps);
    if (__builtin_expect(intake->wire.tapped, 0))
        emu_tap_answer(&intake->wire, intake->expected, answer, *there_ps);
    emu_credit_put(&intake->answers, intake->expected, answer, *there_ps);
    emu_rx_notify(&intake->wire, intake->wire.owner->worker);
}

/* Raise the pending answer to @answer. Each kind of answer includes the kinds below it. */
static void intake_answer(struct emu_intake *intake, enum emu_answer answer)
{
    if (answer > intake->answer)
        intake->answer = answer;
}

static void intake_request_resend(struct emu_intake *intake)
{
    if (intake->requested)
        return;
    intake->requested = true;
    intake_answer(intake, EMU_ANSWER_AGAIN);
}

static void intake_take_numbered(struct emu_intake *intake, const struct emu_entry *entry,
                                 enum emu_fate fate, uint32_t number)
{
    int32_t ahead = (int32_t)(number - intake->expected);

    if (fate == EMU_FATE_LOST)
        return; /* the next segment shows a gap in the sequence numbers */
    if (fate == EMU_FATE_DAMAGED) {
        emu_count(&intake->counts.damaged, 1);
        intake_request_resend(intake);
    } else if (ahead > 0) {
        intake_drop(intake, entry, &intake->counts.gaps);
        intake_request_resend(intake);
    } else if (ahead < 0) {
        intake_drop(intake, entry, &intake->counts.doubles);
        intake_answer(intake, EMU_ANSWER_ACK);
    } else {
        intake->expected++;
        intake->requested = false;
        if (intake->answer == EMU_ANSWER_AGAIN)
            /* the request is obsolete, because the segment has arrived */
            intake->answer = EMU_ANSWER_NONE;
        intake_deliver(intake, entry);
        intake_answer(intake, EMU_ANSWER_ACK);
    }
}

static void intake_expects_next(struct emu_intake *intake)
{
    intake->expected++;
    intake->requested = false;
    intake->answer = EMU_ANSWER_NONE;
}

void emu_intake_back(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps)
{
    struct emu_dev *dev = intake->wire.owner;
    struct emu_entry in = *entry;

    in.time_ps = emu_dev_stamp_ps(dev, at_ps);
    emu_ring_put(&intake->to.data, &in); /* a credit was spent for the entry, so there is a slot */
    emu_dev_signal_remote(dev, EMU_EVENT_DATA, emu_port_signal(intake->wire.port));
}

void emu_intake_rerouted(struct emu_intake *intake, const struct emu_entry *entry, uint64_t at_ps)
{
    intake_expects_next(intake);
    emu_intake_back(intake, entry, at_ps);
}

void emu_intake_missed(struct emu_intake *intake, uint64_t at_ps)
{
    struct emu_rx *rx = intake->rx;

    intake_expects_next(intake);
    emu_count(&intake->counts.missed, 1);
    emu_credit_put(&rx->credit, 1, 0,
                   emu_dev_stamp_ps(intake->wire.owner, at_ps + intake->profile->credit_ps));
    emu_dev_signal_remote(rx->remote->dev[rx->peer.index], EMU_EVENT_CREDIT,
                          emu_port_signal(rx->peer.port));
}

/* --- once per iteration of the worker's loop ------------------------------------------- */

/*
 * On timed clocks each entry is answered. On clock raw emu_intake_give() sends one answer per
 * iteration of the worker's loop, because an acknowledgment covers all earlier segments.
 */
uint64_t emu_intake_take(struct emu_intake *intake, uint64_t until_ps)
{
    bool answers_each = intake->remote && intake->wire.owner->timed;
    struct emu_entry entry;
    enum emu_fate fate;
    uint32_t number;

    while (intake_next(intake, until_ps, &entry, &fate, &number)) {
        if (intake->remote)
            intake_take_numbered(intake, &entry, fate, number);
        else
            intake_take_plain(intake, &entry, fate);
        if (answers_each)
            intake_send_answer(intake, entry.time_ps);
    }
    return intake->faults ? emu_faults_next_ps(intake->faults, &intake->wire)
                          : emu_rx_next_ps(&intake->wire);
}

/* Apply the faults, which may lose or forge credits. Return how many to send instead of @count. */
static uint32_t intake_credits(struct emu_intake *intake, uint32_t count, uint64_t at_ps)
{
    uint32_t go = 0;

    if (!intake->faults || !intake->faults->rules)
        return count;
    for (; count; count--)
        go += emu_faults_credit(intake->faults, &intake->wire, at_ps - intake->profile->credit_ps);
    return go;
}

/* Return the device's credits and those of lost segments to the sender, in order of time. */
static void intake_pay(struct emu_intake *intake)
{
    const struct emu_credit *paid;
    bool any = false;

    for (;;) {
        bool lost = intake->lost_at != intake->lost_to;
        uint64_t at_ps = lost ? intake->lost_ps[intake->lost_at % EMU_INTAKE_LOST] : EMU_NEVER;
        uint32_t count = 1;

        paid = emu_credit_front(&intake->paid);
        if (!paid && !lost)
            break;
        if (paid && paid->time_ps <= at_ps) {
            at_ps = paid->time_ps;
            count = paid->count;
            intake->room += count;
            emu_credit_skip(&intake->paid);
        } else {
            intake->lost_at++;
        }
        count = intake_credits(intake, count, at_ps);
        if (!count)
            continue;
        emu_credit_put(&intake->wire.credit, count, 0, intake_stamp_ps(intake, at_ps));
        any = true;
    }
    if (any)
        emu_rx_notify(&intake->wire, intake->wire.owner->worker);
}

void emu_intake_give(struct emu_intake *intake)
{
    if (intake->remote)
        intake_send_answer(intake, 0);
    else
        intake_pay(intake);
}

/* --- checks ------------------------------------------------------------------------- */

/* Return the number of delayed entries that hold a credit. Duplicates hold none. */
static uint32_t late_in(const struct emu_faults *faults)
{
    uint32_t late = 0;

    for (uint32_t i = 0; faults && i < faults->held; i++)
        late += faults->at[i].fate == EMU_FATE_ARRIVED;
    return late;
}

const char *emu_intake_check(const struct emu_intake *intake, uint32_t held, uint32_t credits)
{
    const struct emu_rx *rx = intake->rx;
    const struct emu_tx *tx = intake->wire.tx;
    uint32_t flying = intake->to.data.at - rx->data.at;
    uint64_t sum = held + rx->owed;

    if (intake->remote) {
        const struct emu_replay *replay = intake->remote;

        tx = replay->from.tx;
        flying += (tx->data.at - replay->from.data.at) + (replay->last - intake->expected);
        sum += emu_credit_sum(&rx->credit, &tx->credit);
    } else {
        flying += tx->data.at - intake->wire.data.at + late_in(intake->faults);
        sum += emu_credit_sum(&rx->credit, &intake->paid) + intake->lost_to - intake->lost_at +
               emu_credit_sum(&intake->wire.credit, &tx->credit);
    }
    sum += tx->credits + flying;
    if (sum != credits && !rx->beyond)
        return emu_credits_wrong(sum, credits);
    if (emu_count_read(&tx->counts.segments) != emu_count_read(&rx->counts.segments) + flying +
                                                    emu_count_read(&intake->counts.lost) +
                                                    emu_count_read(&intake->counts.missed))
        return "a cable lost or duplicated segments";
    return NULL;
}

uint32_t emu_intake_bufs(const struct emu_intake *intake)
{
    return emu_link_bufs(&intake->wire);
}

void emu_intake_rebase(struct emu_intake *intake, uint64_t by_ps)
{
    emu_ring_rebase(&intake->wire.data, by_ps);
    if (intake->remote) {
        emu_credit_rebase(&intake->answers, by_ps);
        for (uint32_t i = 0; i <= intake->answers.mask; i++)
            intake->there_ps[i] = emu_rebased_ps(intake->there_ps[i], by_ps);
        return;
    }
    emu_credit_rebase(&intake->wire.credit, by_ps);
    for (uint32_t i = 0; i < EMU_INTAKE_LOST; i++)
        intake->lost_ps[i] = emu_rebased_ps(intake->lost_ps[i], by_ps);
}
