/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - received frames: check that they belong to the session, verify their tags, and
 * deliver their records in order.
 */
#include "emu/hostlink/session/internal.h"

#include "emu/util/bits.h"

void session_receive_begin(struct emu_session *s, uint32_t first_seq)
{
    s->receive.next = s->receive.high = first_seq;
    s->receive.needless = s->receive.ack_pending = 0;
    s->receive.ack_now = s->receive.any = false;
    s->receive.newest = 0;
    memset(s->receive.packets, 0, sizeof s->receive.packets);
}

static bool receive_got(const struct emu_session *s, uint32_t seq)
{
    uint32_t at = seq & s->mask;

    return s->receive.got[at / 64] & emu_bit(at % 64);
}

static void receive_flip(struct emu_session *s, uint32_t seq)
{
    uint32_t at = seq & s->mask;

    s->receive.got[at / 64] ^= emu_bit(at % 64);
}

void session_receive_end(struct emu_session *s)
{
    for (uint32_t i = 0; i <= s->mask; i++)
        if (receive_got(s, i)) {
            s->port->ops->drop(s->port, s->receive.held[i]);
            receive_flip(s, i);
        }
}

uint64_t session_map_word(const struct emu_session *s, uint32_t word)
{
    uint32_t at = (s->receive.next + 64 * word) & s->mask, words = (s->mask + 1) / 64;
    const uint64_t *got = s->receive.got;
    uint64_t bits = got[at / 64] >> at % 64;

    if (at % 64)
        bits |= got[(at / 64 + 1) % words] << (64 - at % 64);
    return bits;
}

/* --- validation ----------------------------------------------------------------------- */

bool emu_session_peek(const struct emu_hostframe *frame, uint64_t fabric, uint16_t *from,
                      uint16_t *to, bool *malformed)
{
    struct emu_frame header;
    bool ours = emu_frame_parse(frame, &header);

    *malformed = !ours && emu_frame_is_ours(frame);
    *from = ours ? header.from : 0;
    *to = ours ? header.to : 0;
    return ours && header.fabric == fabric;
}

static bool receive_is_ours(const struct emu_session *s, const struct emu_frame *header)
{
    if (header->fabric != s->config.fabric || header->from != s->config.peer ||
        header->to != s->config.host)
        return false;
    if (emu_frame_is_handshake(header->kind))
        return true;
    return session_is(s, EMU_SESSION_UP) && header->yours == s->handshake.mine &&
           header->mine == s->handshake.yours;
}

/* Return whether the frame is authentic and belongs to the session. If not, count it. */
static bool receive_verify(struct emu_session *s, const struct emu_hostframe *frame,
                           const struct emu_frame *header)
{
    bool handshake = emu_frame_is_handshake(header->kind);
    uint8_t handshake_check = emu_auth_handshake_check(s->auth);

    if (!receive_is_ours(s, header)) {
        emu_count(&s->counts.foreign, 1);
        return false;
    }
    if (!handshake && header->version != EMU_FRAME_VERSION) {
        emu_count(&s->counts.malformed, 1);
        return false;
    }
    if (header->check == (handshake ? handshake_check : s->check) &&
        emu_auth_good(s->auth, header->check, header->packet, frame->data,
                      emu_frame_bytes(header->body_bytes) - EMU_FRAME_TAG_BYTES))
        return true;
    if (handshake && header->check != handshake_check)
        emu_count(&s->handshake.key_mismatches, 1);
    emu_count(&s->counts.forged, 1);
    return false;
}

/* --- ordering -------------------------------------------------------------------------- */

/* Process a frame that was retransmitted needlessly. Our acknowledgment was probably lost. */
static void receive_double(struct emu_session *s)
{
    emu_count(&s->counts.doubles, 1);
    s->receive.needless++;
    s->receive.ack_now = true;
}

static void receive_keep(struct emu_session *s, struct emu_hostframe *frame,
                         const struct emu_frame *header)
{
    struct session_receive *receive = &s->receive;

    frame->bytes = emu_frame_bytes(header->body_bytes); /* without the padding */
    receive->held[header->seq & s->mask] = frame;
    receive_flip(s, header->seq);
    if ((int32_t)(header->seq + 1 - receive->high) > 0)
        receive->high = header->seq + 1;
    emu_count(&s->counts.out_of_order, 1);
}

/* Deliver the next expected frame, and the frames that were held because it was missing. */
static void receive_deliver(struct emu_session *s, struct emu_hostframe *frame, uint32_t body_bytes,
                            void (*records)(void *ctx, const uint8_t *records, uint32_t bytes),
                            void *ctx)
{
    struct session_receive *receive = &s->receive;
    bool gap = session_gap(s);

    for (;;) {
        receive->next++;
        if (!gap)
            receive->high = receive->next;
        records(ctx, frame->data + EMU_FRAME_HEADER_BYTES, body_bytes);
        s->port->ops->drop(s->port, frame);
        if (!gap || !receive_got(s, receive->next))
            return;
        receive_flip(s, receive->next);
        frame = receive->held[receive->next & s->mask];
        body_bytes = frame->bytes - emu_frame_bytes(0);
    }
}

static void receive_data(struct emu_session *s, struct emu_hostframe *frame,
                         const struct emu_frame *header, uint64_t now_ns,
                         void (*records)(void *ctx, const uint8_t *records, uint32_t bytes),
                         void *ctx)
{
    struct session_receive *receive = &s->receive;
    uint32_t ahead = header->seq - receive->next;

    if (!receive->ack_pending++)
        receive->ack_pending_ns = now_ns;
    if ((int32_t)ahead < 0 || (ahead < s->window && receive_got(s, header->seq))) {
        receive_double(s);
    } else if (ahead >= s->window) {
        emu_count(&s->counts.beyond, 1);
    } else if (ahead) {
        receive_keep(s, frame, header);
        return;
    } else {
        receive_deliver(s, frame, header->body_bytes, records, ctx);
        return;
    }
    s->port->ops->drop(s->port, frame);
}

/*
 * Record that the packet has arrived. Return false if it arrived before or is too old to know this:
 * the wire has duplicated it, or a machine without the key has recorded and repeated it.
 */
static bool receive_packet(struct session_receive *receive, uint64_t packet)
{
    uint64_t *word = &receive->packets[packet % SESSION_SPAN / 64];
    uint64_t bit = emu_bit(packet % 64), ahead = packet - receive->newest;

    if (receive->any && packet <= receive->newest) {
        if (receive->newest - packet >= SESSION_SPAN || *word & bit)
            return false;
    } else if (ahead >= SESSION_SPAN) {
        memset(receive->packets, 0, sizeof receive->packets);
    } else {
        /* a lying host may skip many numbers in each packet, so clear whole words where possible */
        for (uint64_t n = receive->newest + 1, step; n < packet; n += step) {
            step = n % 64 == 0 && packet - n >= 64 ? 64 : 1;
            receive->packets[n % SESSION_SPAN / 64] &= step == 64 ? 0 : ~emu_bit(n % 64);
        }
    }
    *word |= bit;
    return true;
}

/* Process the header of a frame. Return false if the frame is too old, or a copy. */
static bool receive_header(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    struct session_receive *receive = &s->receive;
    uint64_t rtt_ns;

    if (!receive_packet(receive, header->packet)) {
        emu_count(&s->counts.doubles, 1);
        return false;
    }
    if (receive->any && header->packet <= receive->newest)
        return true;
    receive->any = true;
    receive->newest = header->packet;
    receive->sent_ns = header->sent_ns;
    receive->received_ns = now_ns;
    s->heard_ns = now_ns;
    s->handshake.heard = true;
    rtt_ns = session_measure_rtt(s, header, now_ns);
    if (rtt_ns != UINT64_MAX)
        session_loss_arrived(s, header->newest, rtt_ns);
    session_loss_needless(s, header->needless, now_ns);
    return true;
}

void emu_session_receive(struct emu_session *session, struct emu_hostframe *frame, uint64_t now_ns,
                         void (*records)(void *ctx, const uint8_t *records, uint32_t bytes),
                         void *ctx)
{
    struct emu_frame header;

    now_ns = session_now(session, now_ns);
    if (!emu_frame_parse(frame, &header)) {
        emu_count(&session->counts.malformed, 1);
    } else if (receive_verify(session, frame, &header)) {
        if (emu_frame_is_handshake(header.kind)) {
            if (!session_is_spent(session))
                session_handshake(session, &header, now_ns);
        } else if (receive_header(session, &header, now_ns)) {
            emu_count(&session->counts.frames_received, 1);
            session_acked(session, &header, now_ns);
            if (header.kind == EMU_FRAME_DATA) {
                receive_data(session, frame, &header, now_ns, records, ctx);
                return;
            }
        }
    }
    session->port->ops->drop(session->port, frame);
}
