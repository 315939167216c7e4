/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - data frames, from their first byte until the peer has received them, and
 * acknowledgments.
 *
 * The header and tag of a frame are written just before the frame is passed to the port. They are
 * written again for each transmission, with a new packet number, the current acknowledgment, and
 * the current time. A frame that the port does not take stays unchanged until the port takes it.
 */
#include "emu/hostlink/session/internal.h"

#define SEND_BURSTS    4u              /* maximum number of bursts of frames sent per step */
#define SEND_LAG       16u             /* an acknowledgment is due after this many frames */
#define SEND_LAG_NS    UINT64_C(50000) /* or this long after the first of these frames */
#define SEND_MAP_WORDS (EMU_FRAME_WINDOW_MOST / 64)

void session_send_begin(struct emu_session *s)
{
    s->send.unacked = s->send.ready = s->send.fill = s->config.first_seq;
    s->send.packet = s->config.first_packet;
    s->send.stuck = s->send.hold = false;
    session_loss_begin(s);
}

void session_send_end(struct emu_session *s)
{
    struct session_send *send = &s->send;

    for (uint32_t i = 0; i <= s->mask; i++) {
        if (send->slot[i].frame)
            s->port->ops->drop(s->port, send->slot[i].frame);
        send->slot[i] = (struct session_slot){.state = SLOT_FREE};
    }
    for (uint32_t i = 0; i < send->outs; i++)
        s->port->ops->drop(s->port, send->out_frame[i]);
    send->outs = 0;
    send->filling = false;
}

struct emu_hostframe *session_take(struct emu_session *s)
{
    struct emu_hostframe *frame = s->port->ops->take(s->port);

    if (!frame)
        s->send.stuck = true;
    return frame;
}

/* --- records ------------------------------------------------------------------------- */

uint32_t emu_session_record_max(const struct emu_session *session)
{
    return session->body_max;
}

/* Begin to fill the next frame. Return false if too many are in flight or no frame is free. */
static bool send_open(struct emu_session *s)
{
    struct session_send *send = &s->send;
    struct session_slot *slot = session_slot(s, send->fill);

    if (send->fill - send->unacked == s->window)
        return false;
    slot->frame = session_take(s);
    if (!slot->frame)
        return false;
    slot->state = SLOT_READY;
    slot->again = slot->twice = false;
    send->filling = true;
    send->fill_bytes = 0;
    return true;
}

static void send_close(struct emu_session *s)
{
    struct session_send *send = &s->send;

    session_slot(s, send->fill)->body_bytes = (uint16_t)send->fill_bytes;
    send->filling = false;
    send->fill++;
}

uint8_t *emu_session_room(struct emu_session *session, uint32_t bytes)
{
    struct session_send *send = &session->send;

    if (!session_is(session, EMU_SESSION_UP) || bytes > session->body_max)
        return NULL;
    if (send->filling && send->fill_bytes + bytes > session->body_max)
        send_close(session);
    if (!send->filling && !send_open(session))
        return NULL;
    return session_slot(session, send->fill)->frame->data + EMU_FRAME_HEADER_BYTES +
           send->fill_bytes;
}

uint32_t emu_session_left(const struct emu_session *session)
{
    return session->body_max - session->send.fill_bytes;
}

void emu_session_put(struct emu_session *session, uint32_t bytes)
{
    session->send.fill_bytes += bytes;
}

void emu_session_hold(struct emu_session *session)
{
    session->send.hold = true;
}

/* --- to the port --------------------------------------------------------------------- */

void session_out(struct emu_session *s, struct emu_hostframe *frame, struct session_slot *slot,
                 uint64_t packet)
{
    s->send.out_frame[s->send.outs] = frame;
    s->send.out[s->send.outs++] = (struct session_out){.slot = slot, .packet = packet};
}

void session_flush(struct emu_session *s, uint64_t now_ns)
{
    struct session_send *send = &s->send;
    uint32_t sent;

    if (!send->outs)
        return;
    sent = s->port->ops->send(s->port, send->out_frame, send->outs);
    for (uint32_t i = 0; i < sent; i++) {
        struct session_slot *slot = send->out[i].slot;

        /* if an earlier transmission was acknowledged, the slot may now hold another frame */
        if (slot && slot->state == SLOT_OUT && slot->packet == send->out[i].packet)
            session_loss_sent(s, slot, now_ns);
    }
    emu_count(&s->counts.frames_sent, sent);
    send->outs -= sent;
    memmove(send->out_frame, send->out_frame + sent, send->outs * sizeof send->out_frame[0]);
    memmove(send->out, send->out + sent, send->outs * sizeof send->out[0]);
    if (send->outs)
        send->stuck = true;
}

/* Write the header and tag of a frame whose body is complete. Return its packet number. */
static uint64_t send_seal(struct emu_session *s, struct emu_hostframe *frame,
                          enum emu_frame_kind kind, uint32_t seq, uint16_t body_bytes,
                          uint64_t now_ns)
{
    struct emu_frame header;

    session_stamp(s, &header, now_ns);
    memcpy(header.to_mac, s->handshake.mac, sizeof header.to_mac);
    header.kind = (uint8_t)kind;
    header.check = s->check;
    header.body_bytes = body_bytes;
    header.packet = s->send.packet++;
    header.mine = s->handshake.mine;
    header.yours = s->handshake.yours;
    header.seq = seq;
    header.ack = s->receive.next;
    header.needless = s->receive.needless;
    header.newest = (uint32_t)s->receive.newest;
    header.echo_ns = session_echo_ns(s->receive.sent_ns, s->receive.received_ns, now_ns);
    emu_frame_write(frame->data, &header);
    frame->bytes = emu_frame_bytes(body_bytes);
    emu_auth_seal(s->auth, header.check, header.packet, frame->data,
                  frame->bytes - EMU_FRAME_TAG_BYTES);
    s->send.last_ns = now_ns;
    return header.packet;
}

/*
 * Make the slot's frame writable: if the port still holds it, replace it with a copy. Return false
 * if no frame is free for the copy.
 */
static bool send_own(struct emu_session *s, struct session_slot *slot)
{
    struct emu_hostframe *copy;

    if (s->port->ops->is_alone(s->port, slot->frame))
        return true;
    copy = session_take(s);
    if (!copy)
        return false;
    memcpy(copy->data + EMU_FRAME_HEADER_BYTES, slot->frame->data + EMU_FRAME_HEADER_BYTES,
           slot->body_bytes);
    s->port->ops->drop(s->port, slot->frame);
    slot->frame = copy;
    return true;
}

static bool send_slot(struct emu_session *s, struct session_slot *slot, uint32_t seq,
                      uint64_t now_ns)
{
    if (!send_own(s, slot))
        return false;
    emu_list_del(&slot->link); /* if the frame was lost, remove it from the list of lost frames */
    slot->packet = send_seal(s, slot->frame, EMU_FRAME_DATA, seq, slot->body_bytes, now_ns);
    slot->state = SLOT_OUT;
    s->port->ops->keep(s->port, slot->frame);
    session_out(s, slot->frame, slot, slot->packet);
    return true;
}

/*
 * Queue a burst of frames, the lost ones first, because without them the peer cannot deliver later
 * ones. Return false if nothing was queued.
 */
static bool send_burst(struct emu_session *s, uint64_t now_ns)
{
    struct session_send *send = &s->send;
    uint32_t before = send->outs;

    while (send->outs < EMU_HOSTLINK_BURST && !emu_list_empty(&s->lost.lost)) {
        struct session_slot *slot = emu_list_entry(s->lost.lost.next, struct session_slot, link);
        uint32_t at = (uint32_t)(slot - send->slot);

        if (!send_slot(s, slot, send->unacked + ((at - send->unacked) & s->mask), now_ns))
            return send->outs != before;
    }
    if (send->ready == send->fill && send->filling && send->fill_bytes && !send->hold)
        send_close(s);
    while (send->outs < EMU_HOSTLINK_BURST && send->ready != send->fill) {
        if (!send_slot(s, session_slot(s, send->ready), send->ready, now_ns))
            break;
        send->ready++;
    }
    return send->outs != before;
}

/* Send an ACK frame. If frames are missing, it contains a map of the frames received after them. */
static bool send_ack(struct emu_session *s, uint64_t now_ns)
{
    uint32_t words = (s->receive.high - s->receive.next + 63) / 64;
    struct emu_hostframe *frame = session_take(s);

    if (!frame)
        return false;
    if (words > s->body_max / 8)
        words = s->body_max / 8;
    for (uint32_t i = 0; i < words; i++)
        emu_frame_map_write(frame->data + EMU_FRAME_HEADER_BYTES, i, session_map_word(s, i));
    session_out(s, frame, NULL,
                send_seal(s, frame, EMU_FRAME_ACK, 0, (uint16_t)(8 * words), now_ns));
    return true;
}

uint64_t session_ack_due_ns(const struct emu_session *s)
{
    if (!s->receive.ack_pending)
        return UINT64_MAX;
    return session_gap(s) || s->receive.ack_pending >= SEND_LAG
               ? 0
               : s->receive.ack_pending_ns + SEND_LAG_NS;
}

/*
 * Return whether an ACK frame is due. @sent_data: data frames were sent, which also carry
 * acknowledgments.
 */
static bool send_must_ack(const struct emu_session *s, bool sent_data, uint64_t now_ns)
{
    const struct session_receive *receive = &s->receive;

    if (now_ns - s->send.last_ns >= s->keep_ns || receive->ack_now)
        return true;
    if (sent_data && !session_gap(s)) /* only an ACK frame has a map of received frames */
        return false;
    return receive->ack_pending && now_ns >= session_ack_due_ns(s);
}

void session_send(struct emu_session *s, uint64_t now_ns)
{
    uint64_t packet = s->send.packet;
    bool acked;

    session_loss_find(s, now_ns);
    for (uint32_t i = 0; i < SEND_BURSTS && !s->send.outs && send_burst(s, now_ns); i++)
        session_flush(s, now_ns);
    s->send.hold = false;
    acked = s->send.packet != packet;
    if (s->send.outs < EMU_HOSTLINK_BURST && send_must_ack(s, acked, now_ns))
        acked = send_ack(s, now_ns);
    else
        acked = acked && !session_gap(s);
    if (acked) {
        s->receive.ack_pending = 0;
        s->receive.ack_now = false;
    }
}

/* --- acknowledgments -------------------------------------------------------------- */

static void acked_slot(struct emu_session *s, struct session_slot *slot, uint64_t now_ns)
{
    if (slot->state == SLOT_HAS)
        return;
    session_loss_has(s, slot, now_ns);
    s->port->ops->drop(s->port, slot->frame);
    slot->frame = NULL;
    slot->state = SLOT_HAS;
}

/* Process the map of an ACK frame. Return false if it contains frames that were never sent. */
static bool acked_map(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    uint32_t sent = s->send.ready - s->send.unacked, words = header->body_bytes / 8u;

    for (uint32_t word = 0; word < words && word < SEND_MAP_WORDS; word++) {
        uint64_t bits = emu_frame_map_word(header, word);

        while (bits) {
            uint32_t off = 64 * word + (uint32_t)__builtin_ctzll(bits);

            if (off >= sent)
                return false;
            acked_slot(s, session_slot(s, header->ack + off), now_ns);
            bits &= bits - 1;
        }
    }
    return true;
}

void session_acked(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    struct session_send *send = &s->send;
    uint32_t more = header->ack - send->unacked;

    if ((int32_t)more < 0)
        return; /* an older frame, overtaken by a frame with a later acknowledgment */
    if (more > send->ready - send->unacked) {
        emu_count(&s->counts.malformed, 1);
        return;
    }
    for (; send->unacked != header->ack; send->unacked++) {
        struct session_slot *slot = session_slot(s, send->unacked);

        acked_slot(s, slot, now_ns);
        slot->state = SLOT_FREE;
    }
    if (header->kind == EMU_FRAME_ACK && !acked_map(s, header, now_ns))
        emu_count(&s->counts.malformed, 1);
    session_loss_find(s, now_ns);
}
