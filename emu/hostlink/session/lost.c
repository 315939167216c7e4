/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lost.c - which frames on their way are lost.
 *
 * Two signs (RFC 8985, RFC 9002): one that was sent later has arrived, and the time by which
 * frames may overtake each other is over; or nothing has been heard for a time-out (RFC 6298),
 * which sends only the oldest again, to learn more. How far frames overtake each other is the
 * wire's: when the other host says that a frame came by two of its transmissions, that time is
 * doubled, and after many frames that were sent again with reason it is halved.
 */
#include "emu/hostlink/session/internal.h"

#define LOST_LEAST_NS    UINT64_C(1000000)   /* time-outs: wires are short */
#define LOST_MOST_NS     UINT64_C(250000000) /* it is back so soon after a cut, at most */
#define LOST_OVERTAKE_NS UINT64_C(10000)     /* frames overtake each other by that at least */
#define LOST_WIDEST      16u                 /* doublings */
#define LOST_PATIENCE    8u                  /* round trips without such a sign before that */
#define LOST_GOOD        64u                 /* frames sent again with reason, for one halving */

void session_lost_begin(struct emu_session *s)
{
    s->lost = (struct session_lost){.rto_ns = UINT64_MAX, .found_ns = UINT64_MAX};
    emu_list_init(&s->lost.flight);
    emu_list_init(&s->lost.lost);
    emu_rto_init(&s->lost.rto, LOST_MOST_NS * 1000);
    emu_rto_adapt(&s->lost.rto, LOST_LEAST_NS * 1000);
    session_set(&s->trip_ns, 0);
}

static uint64_t lost_rto_ns(const struct emu_session *s)
{
    return emu_rto_ps(&s->lost.rto, 1) / 1000;
}

/* Half as much again as nearly all trips take: nothing is overtaken by more. */
static uint64_t lost_widest_ns(const struct emu_session *s)
{
    return 3 * (s->lost.rto.mean_ps + 4 * s->lost.rto.spread_ps) / 2000 + LOST_OVERTAKE_NS;
}

/* By so much a frame may be overtaken. */
static uint64_t lost_overtake_ns(const struct emu_session *s)
{
    uint64_t least_ns = s->lost.rto.mean_ps / 1000 / 4, most_ns = lost_widest_ns(s);
    uint64_t ns;

    if (least_ns < LOST_OVERTAKE_NS)
        least_ns = LOST_OVERTAKE_NS;
    ns = least_ns << s->lost.widened;
    return ns < most_ns ? ns : most_ns;
}

static struct session_slot *lost_oldest(const struct emu_session *s)
{
    return emu_list_entry(s->lost.flight.next, struct session_slot, link);
}

/* When the oldest frame on its way is timed out. */
static void lost_set_timer(struct emu_session *s)
{
    uint64_t from_ns;

    if (emu_list_empty(&s->lost.flight)) {
        s->lost.rto_ns = UINT64_MAX;
        return;
    }
    from_ns = lost_oldest(s)->sent_ns;
    if (from_ns < s->lost.rto_from_ns)
        from_ns = s->lost.rto_from_ns;
    s->lost.rto_ns = from_ns + lost_rto_ns(s);
}

void session_lost_sent(struct emu_session *s, struct session_slot *slot, uint64_t now_ns)
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
        lost_set_timer(s);
}

void session_lost_trip(struct emu_session *s, uint64_t trip_ns)
{
    emu_rto_came(&s->lost.rto, UINT64_C(1000) * trip_ns);
    s->lost.late = false;
}

/* A frame was sent again, and had not been lost: it took longer than was thought that any does. */
static void lost_widen(struct emu_session *s, uint64_t now_ns)
{
    struct session_lost *lost = &s->lost;
    uint64_t overtake_ns = lost_overtake_ns(s);

    lost->good = 0;
    lost->sign_ns = now_ns;
    if (now_ns - lost->widened_ns < lost->rto.mean_ps / 1000)
        return; /* once a round trip */
    lost->widened_ns = now_ns;
    if (overtake_ns < lost_widest_ns(s) && lost->widened < LOST_WIDEST)
        lost->widened++;
    /* Of such frames no trip is known, and those of the others are too short (Karn). */
    session_lost_trip(s, lost->trip_ns + overtake_ns);
}

void session_lost_needless(struct emu_session *s, uint32_t needless, uint64_t now_ns)
{
    if (needless != s->lost.needless)
        lost_widen(s, now_ns);
    s->lost.needless = needless;
}

void session_lost_has(struct emu_session *s, struct session_slot *slot, uint64_t now_ns)
{
    uint64_t trip_ns = now_ns - slot->sent_ns;

    if (slot->state != SLOT_FLIGHT && slot->state != SLOT_LOST)
        return;
    if (slot->state == SLOT_LOST) /* it was on its way all the time */
        lost_widen(s, now_ns);
    emu_list_del(&slot->link);
    if (!slot->twice)
        session_lost_trip(s, trip_ns);
}

void session_lost_arrived(struct emu_session *s, uint32_t newest, uint64_t trip_ns)
{
    uint64_t last = s->send.packet - 1;
    uint32_t back = (uint32_t)last - newest;

    /* no packet has such a number: it was never sent, or it is far in the past */
    if (back >= s->send.packet || back > INT32_MAX || last - back <= s->lost.packet)
        return;
    s->lost.packet = last - back;
    s->lost.trip_ns = trip_ns;
}

static void lost_mark(struct emu_session *s, struct session_slot *slot)
{
    emu_list_del(&slot->link);
    slot->state = SLOT_LOST;
    emu_list_add(&s->lost.lost, &slot->link);
}

/* Those that others have overtaken by too much. */
static void lost_find_overtaken(struct emu_session *s, uint64_t now_ns)
{
    struct session_lost *lost = &s->lost;
    uint64_t after_ns = lost->trip_ns + lost_overtake_ns(s);

    lost->found_ns = UINT64_MAX;
    while (!emu_list_empty(&lost->flight)) {
        struct session_slot *slot = lost_oldest(s);

        if (slot->packet >= lost->packet)
            break;
        if (now_ns - slot->sent_ns < after_ns) {
            lost->found_ns = slot->sent_ns + after_ns;
            break;
        }
        lost_mark(s, slot);
        lost->good++;
    }
    if (lost->good >= LOST_GOOD && lost->widened &&
        now_ns - lost->sign_ns > LOST_PATIENCE * lost->trip_ns) {
        lost->widened--;
        lost->good = 0;
    }
}

void session_lost_find(struct emu_session *s, uint64_t now_ns)
{
    lost_find_overtaken(s, now_ns);
    lost_set_timer(s);
    if (now_ns < s->lost.rto_ns)
        return;
    emu_count(&s->counts.timeouts, 1);
    emu_rto_late(&s->lost.rto);
    s->lost.late = true;
    s->lost.rto_from_ns = now_ns;
    lost_mark(s, lost_oldest(s));
    lost_set_timer(s);
}
