/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loss.c - find lost frames.
 *
 * A frame counts as lost if a later one has arrived, and if it was sent longer ago than a round
 * trip and the *reordering window* (RFC 8985, RFC 9002). A frame also counts as lost if nothing was
 * acknowledged for a time-out (RFC 6298). Then only the oldest frame is sent again, as a probe.
 *
 * It is not known in advance how far the wire reorders frames. When the peer reports that a
 * retransmission was needless, the reordering window is doubled. After many justified
 * retransmissions it is halved.
 */
#include "emu/hostlink/session/internal.h"

#define LOSS_LEAST_NS UINT64_C(1000000) /* shortest time-out, longer than most round trips */
/* longest time-out, which limits how long recovery takes after an outage */
#define LOSS_MOST_NS     UINT64_C(250000000)
#define LOSS_OVERTAKE_NS UINT64_C(10000) /* shortest reordering window */
#define LOSS_WIDEST      16u             /* maximum number of doublings of the reordering window */
/*
 * The reordering window is halved after LOSS_NARROW_RTTS round trips and LOSS_GOOD retransmissions
 * without a needless one.
 */
#define LOSS_NARROW_RTTS 8u
#define LOSS_GOOD        64u

void session_loss_begin(struct emu_session *s)
{
    s->lost = (struct session_loss){.rto_ns = UINT64_MAX, .found_ns = UINT64_MAX};
    emu_list_init(&s->lost.flight);
    emu_list_init(&s->lost.lost);
    emu_rto_init(&s->lost.rto, LOSS_MOST_NS * 1000);
    emu_rto_adapt(&s->lost.rto, LOSS_LEAST_NS * 1000);
    session_set(&s->rtt_ns, 0);
}

static uint64_t loss_rto_ns(const struct emu_session *s)
{
    return emu_rto_ps(&s->lost.rto, 1) / 1000;
}

/* Return the longest reordering window: 1.5 times a round trip that is rarely exceeded. */
static uint64_t loss_widest_ns(const struct emu_session *s)
{
    return 3 * (s->lost.rto.mean_ps + 4 * s->lost.rto.spread_ps) / 2000 + LOSS_OVERTAKE_NS;
}

/*
 * Return the reordering window: for how long after the arrival of a later frame an earlier one may
 * still arrive.
 */
static uint64_t loss_overtake_ns(const struct emu_session *s)
{
    uint64_t least_ns = s->lost.rto.mean_ps / 1000 / 4, most_ns = loss_widest_ns(s);
    uint64_t ns;

    if (least_ns < LOSS_OVERTAKE_NS)
        least_ns = LOSS_OVERTAKE_NS;
    ns = least_ns << s->lost.widened;
    return ns < most_ns ? ns : most_ns;
}

static struct session_slot *loss_oldest(const struct emu_session *s)
{
    return emu_list_entry(s->lost.flight.next, struct session_slot, link);
}

static void loss_set_timer(struct emu_session *s)
{
    uint64_t from_ns;

    if (emu_list_empty(&s->lost.flight)) {
        s->lost.rto_ns = UINT64_MAX;
        return;
    }
    from_ns = loss_oldest(s)->sent_ns;
    if (from_ns < s->lost.rto_from_ns)
        from_ns = s->lost.rto_from_ns;
    s->lost.rto_ns = from_ns + loss_rto_ns(s);
}

void session_loss_sent(struct emu_session *s, struct session_slot *slot, uint64_t now_ns)
{
    bool first = emu_list_empty(&s->lost.flight);

    slot->state = SLOT_FLIGHT;
    slot->sent_ns = now_ns;
    emu_list_add(&s->lost.flight, &slot->link);
    slot->twice = slot->again;
    slot->again = true;
    if (slot->twice)
        emu_count(&s->counts.sent_again, 1);
    if (first)
        loss_set_timer(s);
}

void session_loss_rtt(struct emu_session *s, uint64_t rtt_ns)
{
    emu_rto_sample(&s->lost.rto, UINT64_C(1000) * rtt_ns);
    s->lost.late = false;
}

/* Widen the reordering window, because a retransmission was needless. */
static void loss_widen(struct emu_session *s, uint64_t now_ns)
{
    struct session_loss *lost = &s->lost;
    uint64_t overtake_ns = loss_overtake_ns(s);

    lost->good = 0;
    lost->sign_ns = now_ns;
    if (now_ns - lost->widened_ns < lost->rto.mean_ps / 1000)
        return; /* at most once per round trip */
    lost->widened_ns = now_ns;
    if (overtake_ns < loss_widest_ns(s) && lost->widened < LOSS_WIDEST)
        lost->widened++;
    /*
     * Retransmitted frames give no round trip (Karn's algorithm), so only the round trips of the
     * fastest frames were measured. To correct this, take a longer round trip into account.
     */
    session_loss_rtt(s, lost->rtt_ns + overtake_ns);
}

void session_loss_needless(struct emu_session *s, uint32_t needless, uint64_t now_ns)
{
    if (needless != s->lost.needless)
        loss_widen(s, now_ns);
    s->lost.needless = needless;
}

void session_loss_has(struct emu_session *s, struct session_slot *slot, uint64_t now_ns)
{
    uint64_t rtt_ns = now_ns - slot->sent_ns;

    if (slot->state != SLOT_FLIGHT && slot->state != SLOT_LOST)
        return;
    if (slot->state == SLOT_LOST) /* the frame was still in flight, and not lost */
        loss_widen(s, now_ns);
    emu_list_del(&slot->link);
    if (!slot->twice)
        session_loss_rtt(s, rtt_ns);
}

void session_loss_arrived(struct emu_session *s, uint32_t newest, uint64_t rtt_ns)
{
    uint64_t last = s->send.packet - 1;
    uint32_t back = (uint32_t)last - newest;

    /* the packet was never sent, or is far in the past */
    if (back >= s->send.packet || back > INT32_MAX || last - back <= s->lost.packet)
        return;
    s->lost.packet = last - back;
    s->lost.rtt_ns = rtt_ns;
}

static void loss_mark(struct emu_session *s, struct session_slot *slot)
{
    emu_list_del(&slot->link);
    slot->state = SLOT_LOST;
    emu_list_add(&s->lost.lost, &slot->link);
}

/* Mark frames as lost that later frames have overtaken by more than the reordering window. */
static void loss_find_overtaken(struct emu_session *s, uint64_t now_ns)
{
    struct session_loss *lost = &s->lost;
    uint64_t after_ns = lost->rtt_ns + loss_overtake_ns(s);

    lost->found_ns = UINT64_MAX;
    while (!emu_list_empty(&lost->flight)) {
        struct session_slot *slot = loss_oldest(s);

        if (slot->packet >= lost->packet)
            break;
        if (now_ns - slot->sent_ns < after_ns) {
            lost->found_ns = slot->sent_ns + after_ns;
            break;
        }
        loss_mark(s, slot);
        lost->good++;
    }
    if (lost->good >= LOSS_GOOD && lost->widened &&
        now_ns - lost->sign_ns > LOSS_NARROW_RTTS * lost->rtt_ns) {
        lost->widened--;
        lost->good = 0;
    }
}

void session_loss_find(struct emu_session *s, uint64_t now_ns)
{
    loss_find_overtaken(s, now_ns);
    loss_set_timer(s);
    if (now_ns < s->lost.rto_ns)
        return;
    emu_count(&s->counts.timeouts, 1);
    emu_rto_late(&s->lost.rto);
    s->lost.late = true;
    s->lost.rto_from_ns = now_ns;
    loss_mark(s, loss_oldest(s));
    loss_set_timer(s);
}
