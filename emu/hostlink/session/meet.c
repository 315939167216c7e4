/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet.c - the handshake: HELLO, REPLY, CONFIRM.
 *
 * Each end has a random number for its next life. HELLO says it; REPLY says it back, with the
 * answerer's own; CONFIRM says that back. Who gets its own number back knows that the other end
 * lives now, and that nobody plays old frames: only then does a life begin, or end. A HELLO alone
 * changes nothing, and what is kept of it is SESSION_ANSWERS answers until the next step.
 *
 * While a life lasts a HELLO is answered with the number of the next one. A host that restarted
 * confirms it, and that ends the old life here. One that confirms it and must be refused ends
 * nothing: it is not the host of this life, which goes on until that one is silent.
 *
 * Both may say HELLO at once: both numbers are the same in all frames, so both come to the same
 * life.
 */
#include "emu/hostlink/session/internal.h"

#include <sys/random.h>

#define MEET_FIRST_NS   UINT64_C(20000000)  /* after the first HELLO or CONFIRM another one */
#define MEET_LONGEST_NS UINT64_C(500000000) /* each time twice as long, until that */

/* A fresh number, never 0. */
static uint64_t meet_draw(struct emu_session *s)
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

void session_meet_again(struct emu_session *s)
{
    if (s->meet.knocked) /* what was said to that one is said again by nobody */
        s->meet.next = meet_draw(s);
    s->meet.knocked = false;
    s->meet.heard = false;
    s->meet.greet_ns = 0;
    s->meet.wait_ns = MEET_FIRST_NS < s->keep_ns ? MEET_FIRST_NS : s->keep_ns;
}

void session_meet_init(struct emu_session *s)
{
    s->meet.next = meet_draw(s);
    session_meet_again(s);
    memcpy(s->meet.mac, s->config.peer_mac, sizeof s->meet.mac);
}

static bool mac_is_known(const uint8_t *mac)
{
    static const uint8_t none[EMU_HOSTLINK_MAC_BYTES];

    return memcmp(mac, none, sizeof none) != 0;
}

/* Owe an answer to a frame; if too many are owed it is not answered. */
static void meet_answer(struct emu_session *s, uint8_t kind, uint64_t mine,
                        const struct emu_frame *header, uint64_t now_ns)
{
    struct session_meet *meet = &s->meet;
    struct session_answer answer = {.kind = kind,
                                    .mine = mine,
                                    .yours = header->mine,
                                    .sent_ns = header->sent_ns,
                                    .came_ns = now_ns};
    uint32_t at = 0;

    memcpy(answer.mac, mac_is_known(s->config.peer_mac) ? s->config.peer_mac : header->from_mac,
           sizeof answer.mac);
    while (at < meet->answers && meet->answer[at].yours != answer.yours)
        at++;
    if (at == SESSION_ANSWERS)
        return;
    meet->answer[at] = answer;
    if (at == meet->answers)
        meet->answers++;
}

/* Who is refused while there is a life: it is not the host that we live with. */
static void meet_knock(struct emu_session *s, enum session_refusal why,
                       const struct emu_frame *header)
{
    uint64_t knock = (uint64_t)why << SESSION_KNOCK_WHY | (uint64_t)header->version
                                                              << SESSION_KNOCK_VERSION;

    for (unsigned i = 0; i < EMU_HOSTLINK_MAC_BYTES; i++)
        knock |= (uint64_t)header->from_mac[i] << 8 * i;
    session_set(&s->meet.knock, knock);
    s->meet.knocked = true;
}

/*
 * Somebody lives who says that he is the other host, and is not what we can talk with. `next` stays
 * as it is: the other host may have been told it, and be about to say it back.
 */
static void meet_refuse(struct emu_session *s, enum session_refusal why,
                        const struct emu_frame *header, uint64_t now_ns)
{
    /* Who was refused before does not put off the greeting: it may be meant for the right one. */
    uint64_t greet_ns = session_is(s, EMU_SESSION_REFUSED) ? s->meet.greet_ns
                                                           : now_ns + MEET_LONGEST_NS;

    if (header->kind == EMU_FRAME_REPLY) /* so that it learns of it, too */
        meet_answer(s, EMU_FRAME_CONFIRM, header->yours, header, now_ns);
    if (session_is(s, EMU_SESSION_UP)) {
        meet_knock(s, why, header);
        return;
    }
    session_down(s, EMU_SESSION_REFUSED);
    s->meet.greet_ns = greet_ns;
    s->meet.wait_ns = MEET_LONGEST_NS;
    session_set(&s->meet.version, header->version);
    session_set(&s->meet.refusal, why);
}

/* The life of the numbers in @header, which were found right. */
static void meet_begin(struct emu_session *s, const struct emu_frame *header,
                       const struct emu_frame_offer *offer, uint8_t check, uint64_t now_ns)
{
    uint32_t bytes = s->port->frame_bytes;

    session_down(s, EMU_SESSION_MEETS);
    s->meet.mine = header->yours;
    s->meet.yours = header->mine;
    if (header->yours == s->meet.next)
        s->meet.next = meet_draw(s);
    if (!mac_is_known(s->config.peer_mac))
        memcpy(s->meet.mac, header->from_mac, sizeof s->meet.mac);
    s->meet.heard = header->kind == EMU_FRAME_CONFIRM;
    session_set(&s->meet.refusal, SESSION_NOT_REFUSED);
    s->window = offer->window < s->config.window ? offer->window : s->config.window;
    s->body_max = (offer->frame_bytes < bytes ? offer->frame_bytes : bytes) - emu_frame_bytes(0);
    s->check = check;
    s->heard_ns = now_ns;
    emu_auth_begin(s->auth, &(struct emu_auth_life){.fabric = s->config.fabric,
                                                    .mine = s->meet.mine,
                                                    .yours = s->meet.yours,
                                                    .host = s->config.host,
                                                    .peer = s->config.peer,
                                                    .check = check});
    session_send_begin(s);
    session_receive_begin(s, offer->first_seq);
    s->receive.sent_ns = header->sent_ns;
    s->receive.came_ns = now_ns;
    s->receive.say_now = s->meet.heard;
    session_trip(s, header, now_ns);
    emu_count(&s->counts.lives, 1);
    session_set(&s->state, EMU_SESSION_UP);
}

/* Our own number came back: this is no replay. */
static void meet_fresh(struct emu_session *s, const struct emu_frame *header,
                       const struct emu_frame_offer *offer, uint64_t now_ns)
{
    uint8_t check = 0;

    if (header->version != EMU_FRAME_VERSION)
        meet_refuse(s, SESSION_VERSION, header, now_ns);
    else if (memcmp(offer->digest, s->config.digest, sizeof offer->digest) != 0)
        meet_refuse(s, SESSION_DIGEST, header, now_ns);
    else if (!emu_auth_agree(s->config.checks, offer->checks, &check))
        meet_refuse(s, SESSION_CHECKS, header, now_ns);
    else
        meet_begin(s, header, offer, check, now_ns);
}

/* Is @header of the life that there is now? */
static bool meet_is_current(const struct emu_session *s, const struct emu_frame *header)
{
    return session_is(s, EMU_SESSION_UP) && header->mine == s->meet.yours;
}

static void meet_hello(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    if (meet_is_current(s, header)) /* late, or it has not heard that we are up */
        meet_answer(s, EMU_FRAME_CONFIRM, s->meet.mine, header, now_ns);
    else
        meet_answer(s, EMU_FRAME_REPLY, s->meet.next, header, now_ns);
}

static void meet_reply(struct emu_session *s, const struct emu_frame *header,
                       const struct emu_frame_offer *offer, uint64_t now_ns)
{
    bool up = session_is(s, EMU_SESSION_UP);

    if (!up && header->yours == s->meet.next)
        meet_fresh(s, header, offer, now_ns);
    else if (up && !s->meet.heard && header->yours == s->meet.mine && header->mine != s->meet.yours)
        meet_fresh(s, header, offer, now_ns); /* it had another number for us meanwhile */
    else if (!meet_is_current(s, header))
        emu_count(&s->counts.foreign, 1);
}

static void meet_confirm(struct emu_session *s, const struct emu_frame *header,
                         const struct emu_frame_offer *offer, uint64_t now_ns)
{
    if (header->yours == s->meet.next) {
        meet_fresh(s, header, offer, now_ns);
    } else if (!session_is(s, EMU_SESSION_UP) || header->yours != s->meet.mine) {
        emu_count(&s->counts.foreign, 1);
    } else if (meet_is_current(s, header)) { /* once more: it has heard nothing of us */
        s->meet.heard = true;
        s->receive.say_now = true;
    } else {
        meet_answer(s, EMU_FRAME_REPLY, s->meet.next, header, now_ns);
    }
}

void session_meet(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    struct emu_frame_offer offer;

    if (!emu_frame_offer_parse(header, &offer))
        emu_count(&s->counts.malformed, 1);
    else if (header->kind == EMU_FRAME_HELLO)
        meet_hello(s, header, now_ns);
    else if (header->kind == EMU_FRAME_REPLY)
        meet_reply(s, header, &offer, now_ns);
    else
        meet_confirm(s, header, &offer, now_ns);
}

/* A frame of the handshake on its way out. False: not now. */
static bool meet_send(struct emu_session *s, const struct session_answer *answer, uint64_t now_ns)
{
    static const uint8_t all[EMU_HOSTLINK_MAC_BYTES] = {255, 255, 255, 255, 255, 255};
    const struct emu_frame_offer offer = {.frame_bytes = s->port->frame_bytes,
                                          .window = s->config.window,
                                          .first_seq = s->config.first_seq,
                                          .checks = s->config.checks};
    struct emu_frame_offer whole = offer;
    struct emu_hostframe *frame = session_take(s);
    struct emu_frame header;

    if (!frame)
        return false;
    memcpy(whole.digest, s->config.digest, sizeof whole.digest);
    session_stamp(s, &header, now_ns);
    memcpy(header.to_mac, mac_is_known(answer->mac) ? answer->mac : all, sizeof header.to_mac);
    header.kind = answer->kind;
    header.check = emu_auth_greeting(s->auth);
    header.body_bytes = EMU_FRAME_OFFER_BYTES;
    header.mine = answer->mine;
    header.yours = answer->yours;
    header.echo_ns = session_echo_ns(answer->sent_ns, answer->came_ns, now_ns);
    emu_frame_write(frame->data, &header);
    emu_frame_offer_write(frame->data + EMU_FRAME_HEADER_BYTES, &whole);
    frame->bytes = emu_frame_bytes(header.body_bytes);
    emu_auth_seal(s->auth, header.check, 0, frame->data, frame->bytes - EMU_FRAME_TAG_BYTES);
    session_out(s, frame, NULL, 0);
    return true;
}

/* HELLO before a life; CONFIRM at its beginning. */
static void meet_unasked(struct emu_session *s, uint64_t now_ns)
{
    bool up = session_is(s, EMU_SESSION_UP);
    /* A life that the other end does not know of yet has signs of life as any other. */
    uint64_t longest_ns = up ? s->keep_ns : MEET_LONGEST_NS;
    struct session_answer hello = {.kind = EMU_FRAME_HELLO, .mine = s->meet.next};

    if (up) {
        hello.kind = EMU_FRAME_CONFIRM;
        hello.mine = s->meet.mine;
        hello.yours = s->meet.yours;
        hello.sent_ns = s->receive.sent_ns;
        hello.came_ns = s->receive.came_ns;
    }
    memcpy(hello.mac, up ? s->meet.mac : s->config.peer_mac, sizeof hello.mac);
    if (!meet_send(s, &hello, now_ns))
        return;
    s->meet.greet_ns = now_ns + s->meet.wait_ns;
    s->meet.wait_ns = 2 * s->meet.wait_ns < longest_ns ? 2 * s->meet.wait_ns : longest_ns;
}

void session_greet(struct emu_session *s, uint64_t now_ns)
{
    struct session_meet *meet = &s->meet;

    while (meet->answers && s->send.outs < EMU_HOSTLINK_BURST &&
           meet_send(s, &meet->answer[meet->answers - 1], now_ns))
        meet->answers--;
    if (session_is(s, EMU_SESSION_UP) && meet->heard)
        return;
    if (now_ns >= meet->greet_ns && s->send.outs < EMU_HOSTLINK_BURST)
        meet_unasked(s, now_ns);
}
