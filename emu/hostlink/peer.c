/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - another host: follow the session with it through its *incarnations* (an incarnation
 * lasts from a handshake until the session goes down), process received records, and decide what to
 * send next. The *manager* is the thread that lets cables come up and takes them down (hostlink.h).
 * The session's *window* limits its frames in flight.
 */
#include "emu/hostlink/device.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/retry/replay.h"

#define PEER_BURST 256u /* maximum number of entries sent per step */
/* a step that sends at least this many entries keeps its last frame open for the next step */
#define PEER_STREAM   8u
#define PEER_CLOCK_NS 50000000u /* interval of CLOCK records while entries flow */
/* if no entries have moved for this long, CLOCK records are sent at this interval */
#define PEER_IDLE_NS UINT64_C(1000000000)
/* polling interval while the session's window or a ring is full, because no event reports space */
#define PEER_POLL_NS  50000u
#define PEER_OWED_NS  50000u   /* longest time that credits wait for a frame with entries */
#define PEER_STUCK_NS 1000000u /* interval of polling a control socket that is full */

/* --- creation --------------------------------------------------------------------------- */

int hostlink_peer_init(struct hostlink_peer *peer, struct emu_hostlink *link,
                       const struct emu_hostlink_peer *config)
{
    struct emu_session_config session = config->session;
    uint32_t words = HOSTLINK_WORDS(config->cables + 1);
    int err = hostlink_control_init(&peer->control);

    peer->link = link;
    peer->fabric = session.fabric;
    peer->from = session.peer;
    peer->to = session.host;
    peer->cables = config->cables;
    peer->turn = config->cables;
    peer->cable = calloc(config->cables ? config->cables : 1, sizeof *peer->cable);
    peer->active = calloc(words, sizeof *peer->active);
    peer->owing = calloc(words, sizeof *peer->owing);
    atomic_init(&peer->phase, EMU_HOSTLINK_TO_BRING_UP);
    atomic_init(&peer->closed, true);
    if (err || !peer->cable || !peer->active || !peer->owing)
        return -ENOMEM;
    for (uint32_t i = 0; i < peer->cables; i++) {
        peer->cable[i].peer = peer;
        peer->cable[i].number = i;
    }
    session.port = link->port;
    return emu_session_create(&peer->session, &session);
}

void hostlink_peer_free(struct hostlink_peer *peer)
{
    for (uint32_t i = 0; peer->cable && i < peer->cables; i++) {
        emu_link_unjoin(&peer->cable[i].ends.tx);
        if (peer->cable[i].replay)
            emu_replay_free(peer->cable[i].replay);
        free(peer->cable[i].replay);
        free(peer->cable[i].queue);
    }
    if (peer->session)
        emu_session_destroy(peer->session);
    hostlink_control_free(&peer->control);
    free(peer->room.record);
    free(peer->owing);
    free(peer->active);
    free(peer->cable);
}

bool hostlink_put(struct hostlink_peer *peer, const struct emu_hostlink_record *record)
{
    uint32_t bytes = emu_hostlink_bytes(record);
    uint8_t *to = emu_session_room(peer->session, bytes);

    if (!to)
        return false;
    emu_hostlink_write(to, record);
    emu_session_put(peer->session, bytes);
    return true;
}

/* --- incarnations ---------------------------------------------------------------------- */

static void peer_set_closed(struct hostlink_peer *peer, bool closed)
{
    atomic_store_explicit(&peer->closed, closed, memory_order_relaxed);
}

/* If an incarnation is in progress here, end it: take the cables down and reset the state. */
static void peer_cut(struct hostlink_peer *peer)
{
    uint32_t up = EMU_HOSTLINK_UP;

    if (!peer->incarnation)
        return;
    if (peer->up) /* do not change a state that the manager has just requested */
        atomic_compare_exchange_strong_explicit(&peer->phase, &up, EMU_HOSTLINK_DOWN,
                                                memory_order_relaxed, memory_order_relaxed);
    peer->incarnation = 0;
    peer_set_closed(peer, true);
    peer->up = peer->ready_sent = peer->ready_received = false;
    peer->announces = peer->left = 0;
    peer->pressing = false;
    peer->owed_ns = 0;
    emu_count(&peer->counts.cuts, 1);
    emu_count(&peer->counts.cut, peer->room.count);
    peer->room.put = peer->room.got = peer->room.count = 0;
    emu_count(&peer->counts.control_lost, hostlink_control_cut(&peer->control, &peer->counts));
    for (uint32_t i = 0; i < peer->cables; i++) {
        if (!peer->cable[i].slots)
            continue;
        hostlink_cable_cut(&peer->cable[i]);
        hostlink_set_active(&peer->cable[i]);
        hostlink_clear(peer->owing, i);
    }
}

/* Follow the session, if it has ended or a new incarnation has begun. */
static void peer_follow_session(struct hostlink_peer *peer)
{
    uint64_t incarnation = 0;

    if (emu_session_state(peer->session) == EMU_SESSION_UP)
        incarnation = emu_session_incarnation(peer->session);
    if (incarnation == peer->incarnation)
        return;
    peer_cut(peer);
    peer->incarnation = incarnation;
    if (!incarnation)
        return;
    peer_set_closed(peer, false);
    peer->control.out_most = emu_session_record_max(peer->session) - EMU_HOSTLINK_HEAD_BYTES;
    if (peer->control.out_most > EMU_HOSTLINK_CONTROL_BYTES)
        peer->control.out_most = EMU_HOSTLINK_CONTROL_BYTES;
    hostlink_offset_reset(&peer->offset);
    peer->clock_due_ns = 0;
}

/* End the session, because the peer violated the protocol or the cables must go down. */
static void peer_end(struct hostlink_peer *peer)
{
    peer->broken = false;
    emu_session_end(peer->session);
    peer_cut(peer);
}

/* Bring the cables up if both hosts are ready, unless the manager has just taken them down. */
static void peer_try_up(struct hostlink_peer *peer)
{
    uint32_t phase = EMU_HOSTLINK_TO_BRING_UP;

    if (peer->up || !peer->ready_sent || !peer->ready_received)
        return;
    peer->up = atomic_compare_exchange_strong_explicit(&peer->phase, &phase, EMU_HOSTLINK_UP,
                                                       memory_order_relaxed, memory_order_relaxed);
    for (uint32_t i = 0; peer->up && i < peer->cables; i++) {
        struct hostlink_cable *cable = &peer->cable[i];

        cable->sent_from = cable->ends.rx.data.at;
        cable->received_from = cable->ends.tx.data.at;
    }
}

/* Send the OLD records of each cable, then READY. If it must wait, the next step continues. */
static void peer_announce(struct hostlink_peer *peer)
{
    static const struct emu_hostlink_record ready = {.kind = EMU_HOSTLINK_READY};

    for (; peer->announces < peer->cables; peer->announces++)
        if (peer->cable[peer->announces].slots &&
            !hostlink_cable_announce(&peer->cable[peer->announces]))
            return;
    peer->ready_sent = hostlink_put(peer, &ready);
}

void hostlink_peer_check(struct hostlink_peer *peer)
{
    uint32_t phase = atomic_load_explicit(&peer->phase, memory_order_relaxed);

    peer_follow_session(peer);
    if (peer->incarnation &&
        ((peer->up && phase != EMU_HOSTLINK_UP) || (peer->announces && phase == EMU_HOSTLINK_DOWN)))
        peer_end(peer); /* the manager took the cables down */
    if (peer->incarnation && phase == EMU_HOSTLINK_TO_BRING_UP && !peer->ready_sent)
        peer_announce(peer);
    peer_try_up(peer);
    hostlink_control_take(&peer->control, peer->link->dev.worker->waiter);
}

/* --- received records -------------------------------------------------------------- */

/* Count a violation of the protocol in @count. The session will be ended. */
static void peer_break(struct hostlink_peer *peer, _Atomic uint64_t *count)
{
    emu_count(count, 1);
    peer->broken = true;
}

static void peer_credits(struct hostlink_peer *peer, struct hostlink_cable *cable,
                         const struct emu_hostlink_record *record)
{
    bool good = record->kind == EMU_HOSTLINK_CREDITS ? hostlink_cable_credit(cable, record)
                                                     : hostlink_cable_taken(cable, record->count);

    if (!good)
        peer_break(peer, &peer->counts.unearned);
    else if (record->kind == EMU_HOSTLINK_CREDITS)
        emu_count(&peer->counts.credits_received, record->count);
}

/* Process a record of a cable: one that is not an entry, or an entry that may not arrive now. */
static void peer_cable(struct hostlink_peer *peer, const struct emu_hostlink_record *record)
{
    struct hostlink_cable *cable = &peer->cable[record->cable];

    if (!cable->slots) {
        peer_break(peer, &peer->counts.malformed);
    } else if (record->kind == EMU_HOSTLINK_OLD) {
        if (peer->ready_received)
            peer_break(peer, &peer->counts.untimely);
        else if (!hostlink_cable_old(cable, record))
            peer_break(peer, &peer->counts.unearned);
    } else if (!peer->ready_sent || !peer->ready_received) {
        peer_break(peer, &peer->counts.untimely);
    } else if (!peer->up) {
        /* no violation: the peer does not know yet that our cables are down */
        peer->broken = true;
    } else { /* not an entry, because hostlink_entries_rx() handles entries */
        peer_credits(peer, cable, record);
    }
}

static void peer_control(struct hostlink_peer *peer, const struct emu_hostlink_record *record)
{
    bool good = record->kind == EMU_HOSTLINK_CONTROL
                    ? hostlink_control_rx(&peer->control, record->bytes, record->length)
                    : hostlink_control_taken(&peer->control, record->count);

    if (!good)
        peer_break(peer, &peer->counts.unearned);
    else if (record->kind == EMU_HOSTLINK_CONTROL)
        emu_count(&peer->counts.control_received, record->length);
}

static void peer_record(struct hostlink_peer *peer, const struct emu_hostlink_record *record)
{
    switch (record->kind) {
    case EMU_HOSTLINK_READY:
        if (peer->ready_received)
            peer_break(peer, &peer->counts.untimely);
        peer->ready_received = true;
        peer_try_up(peer);
        break;
    case EMU_HOSTLINK_CONTROL:
    case EMU_HOSTLINK_CONTROL_TAKEN:
        peer_control(peer, record);
        break;
    case EMU_HOSTLINK_CLOCK:
        /* use the current time, because the peer may have sent the record after the step began */
        hostlink_offset_sample(&peer->offset, record->sent_ns, record->echo_ns, record->received_ns,
                               hostlink_now_ns(peer->link));
        break;
    case EMU_HOSTLINK_CREDIT_AT:
    case EMU_HOSTLINK_STEP:
        peer_break(peer, &peer->counts.malformed); /* these are used only on clock virtual */
        break;
    default:
        peer_cable(peer, record);
    }
}

static void peer_records(void *ctx, const uint8_t *records, uint32_t bytes)
{
    struct hostlink_peer *peer = ctx;
    struct emu_hostlink_record record;

    if (!peer->broken)
        peer_follow_session(peer);
    while (bytes && !peer->broken) {
        uint32_t whole = peer->up ? hostlink_entries_rx(peer, records, bytes) : 0;

        if (!whole) {
            whole = emu_hostlink_parse(records, bytes, peer->cables, &record);
            if (whole)
                peer_record(peer, &record);
            else
                peer_break(peer, &peer->counts.malformed);
        }
        records += whole;
        bytes -= whole;
    }
}

void hostlink_peer_receive(struct hostlink_peer *peer, struct emu_hostframe *frame)
{
    emu_session_receive(peer->session, frame, peer->link->now_ns, peer_records, peer);
    if (peer->broken)
        peer_end(peer);
}

/* --- sending ------------------------------------------------------------------------ */

/* Return the next member of bit set @set after @last, cyclically; @count if the set is empty. */
static uint32_t set_next(const uint64_t *set, uint32_t count, uint32_t last)
{
    uint32_t words = HOSTLINK_WORDS(count), w;
    uint64_t bits;

    if (!words)
        return count; /* no cable leads to this host */
    w = (last + 1) / 64 % words;
    bits = last + 1 < count ? set[w] & ~emu_bits_below((last + 1) % 64) : 0;
    if (last + 1 >= count)
        w = words - 1; /* continue with word 0 */
    for (uint32_t i = 0; i <= words; i++) {
        if (bits)
            return w * 64 + emu_bits_first(bits);
        w = (w + 1) % words;
        bits = set[w];
    }
    return count;
}

static bool set_any(const uint64_t *set, uint32_t count)
{
    for (uint32_t w = 0; w < HOSTLINK_WORDS(count); w++)
        if (set[w])
            return true;
    return false;
}

/* Return whether credits may wait for a frame with entries, so that they need no separate frame. */
static bool owed_may_wait(const struct hostlink_peer *peer)
{
    return !peer->pressing && peer->link->now_ns - peer->owed_ns < PEER_OWED_NS &&
           !set_any(peer->active, peer->cables + 1);
}

/*
 * If the cables are up, send the CREDITS and TAKEN records that are due. Return false if the
 * session's window is full.
 */
static bool send_owed(struct hostlink_peer *peer)
{
    if (!peer->up || !peer->owed_ns || owed_may_wait(peer))
        return true;
    for (uint32_t w = 0; w < HOSTLINK_WORDS(peer->cables); w++)
        emu_each_bit (b, peer->owing[w]) {
            struct hostlink_cable *cable = &peer->cable[w * 64 + b];
            bool more = cable->channels && hostlink_cable_empty(cable);

            if (!hostlink_cable_pay(cable))
                return false;
            if (!more || !hostlink_cable_empty(cable))
                hostlink_clear(peer->owing, w * 64 + b);
        }
    peer->pressing = set_any(peer->owing, peer->cables);
    if (!peer->pressing)
        peer->owed_ns = 0;
    return true;
}

/*
 * Answer the peer's CLOCK query, and send our own if it is due. Return false if the session's
 * window is full.
 */
static bool send_clock(struct hostlink_peer *peer)
{
    struct hostlink_offset *offset = &peer->offset;
    uint64_t now_ns = peer->link->now_ns;
    bool busy = !offset->best.good || now_ns - peer->moved_ns < PEER_IDLE_NS;
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_CLOCK};

    if (offset->asked_ns) {
        record.echo_ns = offset->asked_ns;
        record.received_ns = offset->received_ns;
        record.sent_ns = hostlink_now_ns(peer->link);
        if (!hostlink_put(peer, &record))
            return false;
        offset->asked_ns = 0;
    }
    if (!peer->link->dev.timed || now_ns < peer->clock_due_ns)
        return true;
    record = (struct emu_hostlink_record){.kind = EMU_HOSTLINK_CLOCK,
                                          .sent_ns = hostlink_now_ns(peer->link)};
    if (!hostlink_put(peer, &record))
        return false;
    peer->clock_due_ns = now_ns + (busy ? PEER_CLOCK_NS : PEER_IDLE_NS);
    return true;
}

static bool send_control_taken(struct hostlink_peer *peer)
{
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_CONTROL_TAKEN,
                                         .count = hostlink_control_unreported(&peer->control)};

    if (!record.count)
        return true;
    if (!hostlink_put(peer, &record))
        return false;
    peer->control.in_reported += record.count;
    return true;
}

static enum hostlink_sent send_control(struct hostlink_peer *peer, uint32_t *left)
{
    struct emu_hostlink_record record = hostlink_control_record(&peer->control);

    if (!hostlink_put(peer, &record))
        return HOSTLINK_SENT_FULL;
    emu_count(&peer->counts.control_sent, record.length);
    hostlink_control_sent(&peer->control);
    *left = 0;
    return hostlink_control_read(&peer->control, peer->link->now_ns, false) ? HOSTLINK_SENT_MORE
                                                                            : HOSTLINK_SENT_NONE;
}

/*
 * Serve the cables and the control channel round robin. Return roughly how many records were sent:
 * a control record counts as EMU_HOSTLINK_QUANTUM records.
 */
static uint32_t send_round_robin(struct hostlink_peer *peer)
{
    uint32_t sent = 0;

    while (sent < PEER_BURST) {
        enum hostlink_sent how;
        uint32_t left;

        if (!peer->left) {
            uint32_t next = set_next(peer->active, peer->cables + 1, peer->turn);

            if (next > peer->cables)
                break;
            peer->turn = next;
            peer->left = EMU_HOSTLINK_QUANTUM;
        }
        left = peer->left;
        how = peer->turn == peer->cables
                  ? send_control(peer, &peer->left)
                  : hostlink_cable_send(&peer->cable[peer->turn], &peer->left);
        sent += left - peer->left;
        peer->full = how == HOSTLINK_SENT_FULL;
        if (peer->full)
            break;
        if (how == HOSTLINK_SENT_NONE) {
            hostlink_clear(peer->active, peer->turn);
            peer->left = 0;
        }
    }
    return sent;
}

/* Drop the entries that our switches send while the cables are down. Return their number. */
static uint32_t discard_all(struct hostlink_peer *peer)
{
    uint32_t discarded = 0;

    for (uint32_t i = set_next(peer->active, peer->cables, peer->cables); i < peer->cables;
         i = set_next(peer->active, peer->cables, i)) {
        discarded += hostlink_cable_discard(&peer->cable[i]);
        hostlink_clear(peer->active, i);
    }
    return discarded;
}

uint32_t hostlink_peer_send(struct hostlink_peer *peer)
{
    struct hostlink_control *control = &peer->control;
    uint32_t moved = peer->up ? 0 : discard_all(peer), sent;

    hostlink_control_write(control, &peer->counts);
    peer->full = false;
    if (!peer->incarnation)
        return moved;
    if (hostlink_control_read(control, peer->link->now_ns, peer->link->dev.worker->woke))
        hostlink_mark(peer->active, peer->cables);
    peer->full = !send_owed(peer) || !send_control_taken(peer) || !send_clock(peer);
    sent = peer->full ? 0 : send_round_robin(peer);
    if (sent >= PEER_STREAM)
        emu_session_hold(peer->session);
    return moved + sent;
}

void hostlink_peer_notice_close(struct hostlink_peer *peer)
{
    const struct hostlink_control *control = &peer->control;

    if (control->out_ended && control->in_ended && emu_session_is_idle(peer->session))
        peer_set_closed(peer, true);
}

/* --- sleep --------------------------------------------------------------------------- */

uint64_t hostlink_peer_max_sleep_ns(const struct hostlink_peer *peer)
{
    uint64_t now_ns = peer->link->now_ns;
    uint64_t next_ns = emu_session_next_ns(peer->session);
    bool announcing = peer->announces && !peer->ready_sent;

    if (peer->incarnation && !peer->full && set_any(peer->active, peer->cables + 1))
        return 0;
    if (peer->incarnation && peer->link->dev.timed)
        next_ns = emu_earlier(next_ns, peer->clock_due_ns);
    if (peer->full || announcing || peer->room.count || (peer->up && peer->pressing))
        next_ns = emu_earlier(next_ns, now_ns + PEER_POLL_NS);
    if (peer->up && peer->owed_ns)
        next_ns = emu_earlier(next_ns, peer->owed_ns + PEER_OWED_NS);
    if (peer->control.in_stuck)
        next_ns = emu_earlier(next_ns, now_ns + PEER_STUCK_NS);
    return next_ns > now_ns ? next_ns - now_ns : 0;
}
