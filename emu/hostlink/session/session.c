/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * session.c - create, step and query a session. An *incarnation* of a session lasts from a
 * handshake until the session goes down.
 */
#include "emu/hostlink/session/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/util/alloc.h"
#include "emu/util/clock.h"

#define SESSION_KEEP_NS  UINT64_C(100000000) /* longest interval of keep-alives */
#define SESSION_QUIET_NS UINT64_C(1000000)   /* smallest silent_ns */
#define SESSION_PACKETS  1024u               /* more packet numbers than one step can use */
#define SESSION_RETRY_NS UINT64_C(20000) /* retry interval if the port was full or had no frame */

static bool config_is_good(const struct emu_session_config *config)
{
    return config->port->frame_bytes >= EMU_FRAME_LEAST_BYTES &&
           config->port->frame_bytes <= EMU_FRAME_MOST_BYTES &&
           config->window >= EMU_FRAME_WINDOW_LEAST && config->window <= EMU_FRAME_WINDOW_MOST &&
           !(config->window & (config->window - 1)) && config->silent_ns >= SESSION_QUIET_NS &&
           config->host != config->peer;
}

static bool session_rings(struct emu_session *s)
{
    uint32_t count = s->config.window;

    s->send.slot = emu_zeros(count * sizeof *s->send.slot);
    s->receive.held = emu_zeros(count * sizeof(struct emu_hostframe *));
    s->receive.got = emu_zeros(count / 8);
    return s->send.slot && s->receive.held && s->receive.got;
}

static void session_free(struct emu_session *s)
{
    emu_auth_destroy(s->auth);
    free(s->send.slot);
    free(s->receive.held);
    free(s->receive.got);
    free(s);
}

int emu_session_create(struct emu_session **ret, const struct emu_session_config *config)
{
    struct emu_session *s;
    int err;

    if (!config_is_good(config))
        return -EINVAL;
    s = emu_zeros(sizeof *s);
    if (!s)
        return -ENOMEM;
    s->config = *config;
    s->config.key = NULL; /* valid only during this call */
    s->port = config->port;
    s->mask = config->window - 1;
    s->body_max = s->port->frame_bytes - emu_frame_bytes(0);
    s->keep_ns = config->silent_ns / 8 < SESSION_KEEP_NS ? config->silent_ns / 8 : SESSION_KEEP_NS;
    err = emu_auth_create(&s->auth, config->key);
    if (!err && !session_rings(s))
        err = -ENOMEM;
    if (!err) {
        uint32_t checks = emu_auth_checks(s->auth);

        s->config.checks = config->checks ? config->checks & checks : checks;
        if (!s->config.checks)
            err = -EINVAL;
    }
    if (err) {
        session_free(s);
        return err;
    }
    session_loss_begin(s);
    session_handshake_init(s);
    *ret = s;
    return 0;
}

void session_down(struct emu_session *s, enum emu_session_state state)
{
    if (session_is(s, EMU_SESSION_UP) || state == EMU_SESSION_REFUSED) {
        session_set(&s->handshake.past_key_mismatches,
                    emu_count_read(&s->handshake.key_mismatches));
        session_set(&s->handshake.past_forged, emu_count_read(&s->counts.forged));
    }
    session_send_end(s);
    session_receive_end(s);
    session_loss_begin(s);
    session_handshake_restart(s);
    session_set(&s->state, (uint64_t)state);
}

void emu_session_end(struct emu_session *session)
{
    session_down(session, EMU_SESSION_CONNECTING);
}

void emu_session_destroy(struct emu_session *session)
{
    session_down(session, EMU_SESSION_CONNECTING);
    session_free(session);
}

/* --- common header fields --------------------------------------------------------------- */

/* Return the low 32 bits of a time, but never 0. */
static uint32_t session_time32(uint64_t ns)
{
    return (uint32_t)ns ? (uint32_t)ns : 1;
}

uint32_t session_echo_ns(uint32_t sent_ns, uint64_t received_ns, uint64_t now_ns)
{
    if (!sent_ns || now_ns - received_ns > INT32_MAX)
        return 0;
    return session_time32((uint64_t)sent_ns + (now_ns - received_ns));
}

void session_stamp(const struct emu_session *s, struct emu_frame *header, uint64_t now_ns)
{
    *header = (struct emu_frame){.version = EMU_FRAME_VERSION,
                                 .fabric = s->config.fabric,
                                 .from = s->config.host,
                                 .to = s->config.peer,
                                 .sent_ns = session_time32(now_ns)};
    memcpy(header->from_mac, s->port->mac, sizeof header->from_mac);
}

uint64_t session_measure_rtt(struct emu_session *s, const struct emu_frame *header, uint64_t now_ns)
{
    uint32_t rtt_ns = (uint32_t)now_ns - header->echo_ns;
    uint64_t mean_ns = emu_count_read(&s->rtt_ns);

    if (!header->echo_ns || rtt_ns > INT32_MAX)
        return UINT64_MAX;
    session_set(&s->rtt_ns, mean_ns ? mean_ns - mean_ns / 8 + rtt_ns / 8 : rtt_ns);
    /*
     * While data frames are in flight, their acknowledgments give the round trip
     * (session_loss_has()). The echo is used if no data frame is in flight, or if the time-out was
     * doubled since the last measurement.
     */
    if (emu_list_empty(&s->lost.flight) || s->lost.late)
        session_loss_rtt(s, rtt_ns);
    return rtt_ns;
}

/* --- steps ------------------------------------------------------------------------------- */

/* Return whether the incarnation must end: the peer is silent, or the packet numbers run out. */
static bool session_is_over(const struct emu_session *s, uint64_t now_ns)
{
    return now_ns - s->heard_ns >= s->config.silent_ns ||
           s->send.packet > UINT64_MAX - SESSION_PACKETS;
}

/*
 * Extend the wait for a silent peer if this host paused, because no core was free or the machine
 * was suspended. During a pause this host receives nothing, although the peer may be sending.
 * (Without a pause, even a busy host calls emu_session_step() at least every keep_ns.) A pause
 * counts as an eighth of silent_ns, so that a failed peer is still detected after a bounded number
 * of steps.
 */
static void session_excuse_pause(struct emu_session *s, uint64_t now_ns)
{
    uint64_t paused_ns = now_ns - s->stepped_ns;

    if (paused_ns > s->config.silent_ns / 4)
        s->heard_ns = emu_earlier(now_ns, s->heard_ns + paused_ns - s->config.silent_ns / 8);
    s->stepped_ns = now_ns;
}

uint32_t emu_session_step(struct emu_session *session, uint64_t now_ns)
{
    uint64_t before = emu_count_read(&session->counts.frames_sent);

    session->send.stuck = false;
    now_ns = session_now(session, now_ns);
    session_excuse_pause(session, now_ns);
    if (session_is(session, EMU_SESSION_UP) && session_is_over(session, now_ns))
        session_down(session, EMU_SESSION_CONNECTING);
    session_flush(session, now_ns);
    if (!session_is_spent(session))
        session_handshake_send(session, now_ns);
    if (session_is(session, EMU_SESSION_UP))
        session_send(session, now_ns);
    session_flush(session, now_ns);
    return (uint32_t)(emu_count_read(&session->counts.frames_sent) - before);
}

/* Return when a session that is up must be stepped next; 0: now. */
static uint64_t session_incarnation_next_ns(const struct emu_session *s)
{
    const struct session_send *send = &s->send;
    uint64_t next_ns = send->last_ns + s->keep_ns;

    if (s->receive.ack_now || send->ready != send->fill || (send->filling && send->fill_bytes) ||
        !emu_list_empty(&s->lost.lost))
        return 0;
    if (s->config.silent_ns < UINT64_MAX - s->heard_ns)
        next_ns = emu_earlier(next_ns, s->heard_ns + s->config.silent_ns);
    next_ns = emu_earlier(next_ns, session_ack_due_ns(s));
    return emu_earlier(next_ns, emu_earlier(s->lost.rto_ns, s->lost.found_ns));
}

uint64_t emu_session_next_ns(const struct emu_session *session)
{
    bool up = session_is(session, EMU_SESSION_UP);
    uint64_t next_ns = up ? session_incarnation_next_ns(session) : UINT64_MAX;

    if (session->handshake.answers || session->send.outs)
        next_ns = 0;
    if ((!up || !session->handshake.heard) && !session_is_spent(session))
        next_ns = emu_earlier(next_ns, session->handshake.handshake_ns);
    if (session->send.stuck && next_ns < session->now_ns + SESSION_RETRY_NS)
        return session->now_ns + SESSION_RETRY_NS;
    return next_ns;
}

/* --- queries ------------------------------------------------------------------------------- */

enum emu_session_state emu_session_state(const struct emu_session *session)
{
    return (enum emu_session_state)emu_count_read(&session->state);
}

uint64_t emu_session_incarnation(const struct emu_session *session)
{
    return emu_count_read(&session->counts.incarnations);
}

bool emu_session_is_idle(const struct emu_session *session)
{
    const struct session_send *send = &session->send;

    return send->unacked == send->fill && !(send->filling && send->fill_bytes) &&
           session_ack_due_ns(session) == UINT64_MAX;
}

uint64_t emu_session_rtt_ns(const struct emu_session *session)
{
    return emu_count_read(&session->rtt_ns);
}

const struct emu_session_counts *emu_session_counts(const struct emu_session *session)
{
    return &session->counts;
}

/* If the keys of the hosts seem to differ, return a line for the user that says so, else NULL. */
static const char *session_key_mismatch(const struct emu_session *s)
{
    if (emu_count_read(&s->handshake.key_mismatches) !=
        emu_count_read(&s->handshake.past_key_mismatches))
        return emu_auth_handshake_check(s->auth) == EMU_AUTH_CRC
                   ? "the other host has a key, and this one has none"
                   : "the other host has no key, and this one has one";
    if (emu_count_read(&s->counts.forged) != emu_count_read(&s->handshake.past_forged))
        return "frames with a wrong checksum or tag arrived: does the other host have the same "
               "key?";
    return NULL;
}

bool emu_session_is_refused(const struct emu_session *session)
{
    return session_is(session, EMU_SESSION_REFUSED) ||
           (!session_is(session, EMU_SESSION_UP) && session_key_mismatch(session));
}

static void session_refusal(enum session_refusal refusal, uint64_t version, char *text,
                            size_t bytes)
{
    if (refusal == SESSION_VERSION)
        snprintf(text, bytes,
                 "the other host uses version %" PRIu64 " of host links, this one version %u",
                 version, EMU_FRAME_VERSION);
    else if (refusal == SESSION_DIGEST)
        snprintf(text, bytes,
                 "the other host has another cluster file, network, profile or version of fabemu");
    else
        snprintf(text, bytes, "the hosts support no common check of frames");
}

bool emu_session_impostor(const struct emu_session *session, char *text, size_t bytes)
{
    uint64_t impostor = emu_count_read(&session->handshake.impostor);
    char why[128];

    if (!impostor)
        return false;
    session_refusal((enum session_refusal)(impostor >> SESSION_IMPOSTOR_WHY & 255),
                    impostor >> SESSION_IMPOSTOR_VERSION, why, sizeof why);
    snprintf(text, bytes, "%02x:%02x:%02x:%02x:%02x:%02x, %s", (unsigned)(impostor & 255),
             (unsigned)(impostor >> 8 & 255), (unsigned)(impostor >> 16 & 255),
             (unsigned)(impostor >> 24 & 255), (unsigned)(impostor >> 32 & 255),
             (unsigned)(impostor >> 40 & 255), why);
    return true;
}

void emu_session_why(const struct emu_session *session, char *text, size_t bytes)
{
    uint64_t refusal = emu_count_read(&session->handshake.refusal);
    const char *mismatch = session_key_mismatch(session);

    if (session_is(session, EMU_SESSION_UP))
        snprintf(text, bytes, "up");
    /* this comes first, because the keys may differ even after a rejection for another reason */
    else if (mismatch)
        snprintf(text, bytes, "%s", mismatch);
    else if (refusal != SESSION_NOT_REFUSED)
        session_refusal((enum session_refusal)refusal, emu_count_read(&session->handshake.version),
                        text, bytes);
    else
        snprintf(text, bytes, "%s",
                 emu_count_read(&session->counts.incarnations)
                     ? "nothing has arrived from the other host for too long"
                     : "no frame has arrived from the other host");
}
