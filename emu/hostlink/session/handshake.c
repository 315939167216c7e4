/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.c - the handshake of two hosts: HELLO, REPLY, CONFIRM.
 *
 * A handshake begins an *incarnation* of the session, which ends when the session goes down. Each
 * host has a random session number for its next incarnation. HELLO contains the sender's number.
 * REPLY returns it, together with the replying host's number. CONFIRM returns the number of the
 * replying host. A host that gets its own number back knows that the peer is active now, and that
 * the frame is not a replayed one. Only then does an incarnation begin or end. A HELLO alone
 * changes nothing and is only answered. At most SESSION_ANSWERS of them are answered per step.
 *
 * While the session is up, a HELLO is answered with the number of the next incarnation. If the peer
 * was restarted it confirms this number, and the old incarnation ends here. If a host confirms the
 * number but must be rejected, it is not the peer, and the session continues until its peer is
 * silent.
 *
 * Both hosts may send HELLO at the same time. Because all frames contain the same two numbers, both
 * hosts get the same incarnation.
 */
#include "emu/hostlink/session/internal.h"

#include <sys/random.h>

/* first interval between two HELLOs or two CONFIRMs */
#define HANDSHAKE_FIRST_NS   UINT64_C(20000000)
#define HANDSHAKE_LONGEST_NS UINT64_C(500000000) /* the interval doubles up to this */

/* Draw a random number, not 0. */
static uint64_t handshake_draw(struct emu_session *s)
{
    uint64_t number = 0;

    for (unsigned tries = 0; !number && tries < 1000; tries++) {
        if (s->config.random)
            number = s->config.random(s->config.random_ctx);
        else if (getrandom(&number, sizeof number, 0) != sizeof number)
            number = 0;
    }
    return number;
}

void session_handshake_restart(struct emu_session *s)
{
    if (s->handshake.impostor_seen) /* a rejected host knows this number, so it must not be used */
        s->handshake.next = handshake_draw(s);
    s->handshake.impostor_seen = false;
    s->handshake.heard = false;
    s->handshake.handshake_ns = 0;
    s->handshake.wait_ns = HANDSHAKE_FIRST_NS < s->keep_ns ? HANDSHAKE_FIRST_NS : s->keep_ns;
}

void session_handshake_init(struct emu_session *s)
{
    s->handshake.next = handshake_draw(s);
    session_handshake_restart(s);
    memcpy(s->handshake.mac, s->config.peer_mac, sizeof s->handshake.mac);
}

static bool mac_is_known(const uint8_t *mac)
{
    static const uint8_t none[EMU_HOSTLINK_MAC_BYTES];

    return memcmp(mac, none, sizeof none) != 0;
}

/* Queue an answer to a handshake frame. If too many answers are queued, it is dropped. */
static void handshake_answer(struct emu_session *s, uint8_t kind, uint64_t mine,
                             const struct emu_frame *header, uint64_t now_ns)
{
    struct session_handshake *handshake = &s->handshake;
    struct session_answer answer = {.kind = kind,
                                    .mine = mine,
                                    .yours = header->mine,
                                    .sent_ns = header->sent_ns,
                                    .received_ns = now_ns};
    uint32_t at = 0;

    memcpy(answer.mac, mac_is_known(s->config.peer_mac) ? s->config.peer_mac : header->from_mac,
           sizeof answer.mac);
    while (at < handshake->answers && handshake->answer[at].yours != answer.yours)
        at++;
    if (at == SESSION_ANSWERS)
        return;
    handshake->answer[at] = answer;
    if (at == handshake->answers)
        handshake->answers++;
}

/* Remember a host that was rejected while the session is up. It is not the peer. */
static void handshake_note_impostor(struct emu_session *s, enum session_refusal why,
                                    const struct emu_frame *header)
{
    uint64_t impostor = (uint64_t)why << SESSION_IMPOSTOR_WHY | (uint64_t)header->version
                                                                    << SESSION_IMPOSTOR_VERSION;

    for (unsigned i = 0; i < EMU_HOSTLINK_MAC_BYTES; i++)
        impostor |= (uint64_t)header->from_mac[i] << 8 * i;
    session_set(&s->handshake.impostor, impostor);
    s->handshake.impostor_seen = true;
}

/*
 * Reject a host that is active and claims to be the peer, but is incompatible. `next` stays valid,
 * because the true peer may have received it and may be about to return it.
 */
static void handshake_refuse(struct emu_session *s, enum session_refusal why,
                             const struct emu_frame *header, uint64_t now_ns)
{
    /* A repeated rejection must not delay the next HELLO, because the true peer may answer it. */
    uint64_t handshake_ns = session_is(s, EMU_SESSION_REFUSED) ? s->handshake.handshake_ns
                                                               : now_ns + HANDSHAKE_LONGEST_NS;

    if (header->kind == EMU_FRAME_REPLY) /* notifies the other host of the rejection, too */
        handshake_answer(s, EMU_FRAME_CONFIRM, header->yours, header, now_ns);
    if (session_is(s, EMU_SESSION_UP)) {
        handshake_note_impostor(s, why, header);
        return;
    }
    session_down(s, EMU_SESSION_REFUSED);
    s->handshake.handshake_ns = handshake_ns;
    s->handshake.wait_ns = HANDSHAKE_LONGEST_NS;
    session_set(&s->handshake.version, header->version);
    session_set(&s->handshake.refusal, why);
}

/* Begin the incarnation of the two session numbers in @header, which were verified. */
static void handshake_begin(struct emu_session *s, const struct emu_frame *header,
                            const struct emu_frame_offer *offer, uint8_t check, uint64_t now_ns)
{
    uint32_t bytes = s->port->frame_bytes;

    session_down(s, EMU_SESSION_CONNECTING);
    s->handshake.mine = header->yours;
    s->handshake.yours = header->mine;
    if (header->yours == s->handshake.next)
        s->handshake.next = handshake_draw(s);
    if (!mac_is_known(s->config.peer_mac))
        memcpy(s->handshake.mac, header->from_mac, sizeof s->handshake.mac);
    s->handshake.heard = header->kind == EMU_FRAME_CONFIRM;
    session_set(&s->handshake.refusal, SESSION_NOT_REFUSED);
    s->window = offer->window < s->config.window ? offer->window : s->config.window;
    s->body_max = (offer->frame_bytes < bytes ? offer->frame_bytes : bytes) - emu_frame_bytes(0);
    s->check = check;
    s->heard_ns = now_ns;
    emu_auth_begin(s->auth, &(struct emu_auth_incarnation){.fabric = s->config.fabric,
                                                           .mine = s->handshake.mine,
                                                           .yours = s->handshake.yours,
                                                           .host = s->config.host,
                                                           .peer = s->config.peer,
                                                           .check = check});
    session_send_begin(s);
    session_receive_begin(s, offer->first_seq);
    s->receive.sent_ns = header->sent_ns;
    s->receive.received_ns = now_ns;
    s->receive.ack_now = s->handshake.heard;
    session_measure_rtt(s, header, now_ns);
    emu_count(&s->counts.incarnations, 1);
    session_set(&s->state, EMU_SESSION_UP);
}

/* Accept or reject a host that has returned our number, and is therefore active now. */
static void handshake_fresh(struct emu_session *s, const struct emu_frame *header,
                            const struct emu_frame_offer *offer, uint64_t now_ns)
{
    uint8_t check = 0;

    if (header->version != EMU_FRAME_VERSION)
        handshake_refuse(s, SESSION_VERSION, header, now_ns);
    else if (memcmp(offer->digest, s->config.digest, sizeof offer->digest) != 0)
        handshake_refuse(s, SESSION_DIGEST, header, now_ns);
    else if (!emu_auth_agree(s->config.checks, offer->checks, &check))
        handshake_refuse(s, SESSION_CHECKS, header, now_ns);
    else
        handshake_begin(s, header, offer, check, now_ns);
}

static bool handshake_is_current(const struct emu_session *s, const struct emu_frame *header)
{
    return session_is(s, EMU_SESSION_UP) && header->mine == s->handshake.yours;
}

static void handshake_hello(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    /* a delayed HELLO, or the peer does not know yet that the session is up */
    if (handshake_is_current(s, header))
        handshake_answer(s, EMU_FRAME_CONFIRM, s->handshake.mine, header, now_ns);
    else
        handshake_answer(s, EMU_FRAME_REPLY, s->handshake.next, header, now_ns);
}

static void handshake_reply(struct emu_session *s, const struct emu_frame *header,
                            const struct emu_frame_offer *offer, uint64_t now_ns)
{
    bool up = session_is(s, EMU_SESSION_UP);

    if (!up && header->yours == s->handshake.next)
        handshake_fresh(s, header, offer, now_ns);
    else if (up && !s->handshake.heard && header->yours == s->handshake.mine &&
             header->mine != s->handshake.yours)
        handshake_fresh(s, header, offer, now_ns); /* the peer has changed its number since then */
    else if (!handshake_is_current(s, header))
        emu_count(&s->counts.foreign, 1);
}

static void handshake_confirm(struct emu_session *s, const struct emu_frame *header,
                              const struct emu_frame_offer *offer, uint64_t now_ns)
{
    if (header->yours == s->handshake.next) {
        handshake_fresh(s, header, offer, now_ns);
    } else if (!session_is(s, EMU_SESSION_UP) || header->yours != s->handshake.mine) {
        emu_count(&s->counts.foreign, 1);
    } else if (handshake_is_current(s, header)) {
        /* a repeated CONFIRM: the peer has received nothing from us in this incarnation */
        s->handshake.heard = true;
        s->receive.ack_now = true;
    } else {
        handshake_answer(s, EMU_FRAME_REPLY, s->handshake.next, header, now_ns);
    }
}

void session_handshake(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    struct emu_frame_offer offer;

    if (!emu_frame_offer_parse(header, &offer))
        emu_count(&s->counts.malformed, 1);
    else if (header->kind == EMU_FRAME_HELLO)
        handshake_hello(s, header, now_ns);
    else if (header->kind == EMU_FRAME_REPLY)
        handshake_reply(s, header, &offer, now_ns);
    else
        handshake_confirm(s, header, &offer, now_ns);
}

/* Make a handshake frame and queue it for the port. Return false if no frame is free. */
static bool handshake_transmit(struct emu_session *s, const struct session_answer *answer,
                               uint64_t now_ns)
{
    static const uint8_t all[EMU_HOSTLINK_MAC_BYTES] = {255, 255, 255, 255, 255, 255};
    struct emu_frame_offer offer = {.frame_bytes = s->port->frame_bytes,
                                    .window = s->config.window,
                                    .first_seq = s->config.first_seq,
                                    .checks = s->config.checks};
    struct emu_hostframe *frame = session_take(s);
    struct emu_frame header;

    if (!frame)
        return false;
    memcpy(offer.digest, s->config.digest, sizeof offer.digest);
    session_stamp(s, &header, now_ns);
    memcpy(header.to_mac, mac_is_known(answer->mac) ? answer->mac : all, sizeof header.to_mac);
    header.kind = answer->kind;
    header.check = emu_auth_handshake_check(s->auth);
    header.body_bytes = EMU_FRAME_OFFER_BYTES;
    header.mine = answer->mine;
    header.yours = answer->yours;
    header.echo_ns = session_echo_ns(answer->sent_ns, answer->received_ns, now_ns);
    emu_frame_write(frame->data, &header);
    emu_frame_offer_write(frame->data + EMU_FRAME_HEADER_BYTES, &offer);
    frame->bytes = emu_frame_bytes(header.body_bytes);
    emu_auth_seal(s->auth, header.check, 0, frame->data, frame->bytes - EMU_FRAME_TAG_BYTES);
    session_out(s, frame, NULL, 0);
    return true;
}

/*
 * Send a handshake frame that is no answer: HELLO while the session is down, and CONFIRM until a
 * frame of this incarnation has arrived from the peer.
 */
static void handshake_unrequested(struct emu_session *s, uint64_t now_ns)
{
    bool up = session_is(s, EMU_SESSION_UP);
    /* while the session is up, CONFIRM is also its keep-alive */
    uint64_t longest_ns = up ? s->keep_ns : HANDSHAKE_LONGEST_NS;
    struct session_answer hello = {.kind = EMU_FRAME_HELLO, .mine = s->handshake.next};

    if (up) {
        hello.kind = EMU_FRAME_CONFIRM;
        hello.mine = s->handshake.mine;
        hello.yours = s->handshake.yours;
        hello.sent_ns = s->receive.sent_ns;
        hello.received_ns = s->receive.received_ns;
    }
    memcpy(hello.mac, up ? s->handshake.mac : s->config.peer_mac, sizeof hello.mac);
    if (!handshake_transmit(s, &hello, now_ns))
        return;
    s->handshake.handshake_ns = now_ns + s->handshake.wait_ns;
    s->handshake.wait_ns = 2 * s->handshake.wait_ns < longest_ns ? 2 * s->handshake.wait_ns
                                                                 : longest_ns;
}

void session_handshake_send(struct emu_session *s, uint64_t now_ns)
{
    struct session_handshake *handshake = &s->handshake;

    while (handshake->answers && s->send.outs < EMU_HOSTLINK_BURST &&
           handshake_transmit(s, &handshake->answer[handshake->answers - 1], now_ns))
        handshake->answers--;
    if (session_is(s, EMU_SESSION_UP) && handshake->heard)
        return;
    if (now_ns >= handshake->handshake_ns && s->send.outs < EMU_HOSTLINK_BURST)
        handshake_unrequested(s, now_ns);
}
