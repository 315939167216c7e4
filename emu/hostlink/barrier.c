/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.c - supersteps of several hosts (barrier.h), over sessions. The *keeper* is a thread that
 * runs the sessions while no other thread does.
 *
 * Each thread appends the records that it receives to `in` of the peer that sent them. Only
 * emu_barrier_sync() reads `in`, up to the end of the current superstep. Later records belong to
 * the next superstep.
 */
#include "emu/hostlink/barrier.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/util/now.h"
#include "emu/util/printable.h"
#include "emu/util/spawn.h"
#include "emu/util/wait.h"

/* maximum number of bursts of frames received from a port at a time */
#define BARRIER_BURSTS     4u
#define BARRIER_KEEP_NS    UINT64_C(20000000)  /* longest sleep of the keeper thread */
#define BARRIER_POLL_NS    UINT64_C(100000)    /* polling interval of a port without wake_fd */
#define BARRIER_SLEEP_NS   UINT64_C(100000000) /* longest sleep of a sync */
#define BARRIER_CONNECT_NS UINT64_C(1000000)   /* polling interval of the handshakes */
/* a host may refuse the handshake for this long, because its old fabric is about to exit */
#define BARRIER_REFUSED_NS UINT64_C(3000000000)
/* a failed host is reported after this time, so that other hosts can first give the reason */
#define BARRIER_FAILED_NS UINT64_C(1000000000)
/* a host is busy if its threads work for more than 1/BARRIER_BUSY_FRACTION of the time */
#define BARRIER_BUSY_FRACTION 1000u
/* longest wait of emu_barrier_destroy() for the other hosts to receive the last records */
#define BARRIER_LINGER_NS    UINT64_C(1000000000)
#define BARRIER_STOP_POLL_NS UINT64_C(100000000) /* interval between calls of config.stops() */

struct byte_array {
    uint8_t *at;
    size_t bytes, room;
};

struct barrier_peer {
    struct emu_barrier *barrier;
    struct emu_session *session;
    uint64_t fabric;
    uint32_t host, port;
    uint16_t from; /* number of the other host, as in the frames that it sends */
    /* the first session with its host; it carries the bytes for all hosts */
    bool first;
    bool lost;
    /* 0, or why received records were dropped: -EPROTO, too many bytes; -ENOMEM */
    int refused;
    bool ended;           /* the peer has ended the current superstep */
    uint64_t silent_ns;   /* silent_ns of the session's configuration */
    uint64_t idle_ns;     /* for how long the current sync has got no record from the peer */
    uint64_t incarnation; /* number of the session's connection; 0: not connected yet */
    /* for how long the host has refused the handshake, or its command has failed */
    uint64_t refused_ns;
    size_t most_bytes; /* maximum number of bytes of `in`: records of two supersteps */
    struct byte_array in;
    size_t taken;            /* number of bytes of `in` that a sync has read */
    struct byte_array given; /* the peer's bytes for all hosts in the last superstep */
};

struct emu_barrier {
    struct emu_barrier_config config; /* without `port` and `peer` */
    uint64_t stops_asked_ns;          /* when config.stops() was last called */
    struct emu_hostport **port;
    struct barrier_peer *peer;
    uint32_t peers; /* number of initialized peers */
    struct emu_barrier_taker taker;
    struct emu_waiter *waiter; /* a put or sync sleeps on it */
    int err;
    bool notified; /* the other hosts were notified of the error, if possible */
    char why[EMU_BARRIER_WHY_BYTES];

    pthread_mutex_t lock; /* protects all fields */
    uint64_t pass_ns;     /* time of the last barrier_pass() */
    uint64_t reported_ns; /* time of the last barrier_report_busy() */
    struct emu_waiter *keeper;
    uint64_t keep_ns;
    uint64_t looked_ns; /* time of the last keeper_look() */
    uint64_t worked_ns; /* barrier_worked_ns() at that time */
    pthread_t thread;
    bool ends; /* the keeper must exit */
};

static int barrier_wrong(struct emu_barrier *barrier, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int barrier_wrong(struct emu_barrier *barrier, int err, const char *format, ...)
{
    va_list args;

    if (barrier->err)
        return barrier->err;
    va_start(args, format);
    vsnprintf(barrier->why, sizeof barrier->why, format, args);
    va_end(args);
    return barrier->err = err;
}

static uint64_t barrier_now_ns(const struct emu_barrier *barrier)
{
    return barrier->config.now_ns ? barrier->config.now_ns(barrier->config.now_ctx) : emu_now_ns();
}

static const char *name_of(const struct barrier_peer *peer)
{
    return peer->barrier->config.name[peer->host];
}

/* --- bytes ----------------------------------------------------------------------------- */

/* Append bytes. Errors: -EPROTO, the array would have more than @most bytes; -ENOMEM. */
static int bytes_append(struct byte_array *kept, const uint8_t *from, size_t bytes, size_t most)
{
    if (bytes > most - kept->bytes)
        return -EPROTO;
    if (bytes > kept->room - kept->bytes) {
        size_t room = kept->room ? kept->room : 4096;
        uint8_t *at;

        while (room < kept->bytes + bytes)
            room *= 2;
        at = realloc(kept->at, room);
        if (!at)
            return -ENOMEM;
        kept->at = at;
        kept->room = room;
    }
    if (bytes)
        memcpy(kept->at + kept->bytes, from, bytes);
    kept->bytes += bytes;
    return 0;
}

/* Remove the records that a sync has read. Usually these are all records. */
static void peer_forget(struct barrier_peer *peer)
{
    size_t left = peer->in.bytes - peer->taken;

    if (left && peer->taken)
        memmove(peer->in.at, peer->in.at + peer->taken, left);
    peer->in.bytes = left;
    peer->taken = 0;
}

/* --- sessions -------------------------------------------------------------------------- */

static void peer_records(void *ctx, const uint8_t *records, uint32_t bytes)
{
    struct barrier_peer *peer = ctx;
    uint64_t incarnation = emu_session_incarnation(peer->session);

    if (!peer->incarnation)
        peer->incarnation = incarnation;
    if (peer->incarnation != incarnation || peer->lost || peer->refused)
        return; /* the host was restarted, so it counts as lost: ignore its records */
    peer->refused = bytes_append(&peer->in, records, bytes, peer->most_bytes);
}

static struct barrier_peer *barrier_peer_of(struct emu_barrier *barrier, uint32_t port,
                                            const struct emu_hostframe *frame)
{
    for (uint32_t i = 0; i < barrier->peers; i++) {
        struct barrier_peer *peer = &barrier->peer[i];
        uint16_t from, to;
        bool malformed;

        if (peer->port == port && emu_session_peek(frame, peer->fabric, &from, &to, &malformed) &&
            from == peer->from && to == barrier->config.self)
            return peer;
    }
    return NULL;
}

static uint32_t port_receive(struct emu_barrier *barrier, uint32_t p, uint64_t now_ns)
{
    struct emu_hostport *port = barrier->port[p];
    struct emu_hostframe *frame[EMU_HOSTLINK_BURST];
    uint32_t all = 0, got = EMU_HOSTLINK_BURST;

    for (uint32_t burst = 0; burst < BARRIER_BURSTS && got == EMU_HOSTLINK_BURST; burst++) {
        got = port->ops->receive(port, frame, EMU_HOSTLINK_BURST);
        for (uint32_t i = 0; i < got; i++) {
            struct barrier_peer *peer = barrier_peer_of(barrier, p, frame[i]);

            if (peer)
                emu_session_receive(peer->session, frame[i], now_ns, peer_records, peer);
            else
                port->ops->drop(port, frame[i]);
        }
        all += got;
    }
    return all;
}

/*
 * If the peer's session was up, and is now down or was connected again, note that the peer is lost.
 */
static void peer_check(struct barrier_peer *peer)
{
    bool up = emu_session_state(peer->session) == EMU_SESSION_UP;
    uint64_t incarnation = emu_session_incarnation(peer->session);

    if (!peer->incarnation && up)
        peer->incarnation = incarnation;
    peer->lost |= peer->incarnation && (!up || incarnation != peer->incarnation);
}

static uint32_t barrier_pass(struct emu_barrier *barrier)
{
    uint64_t now_ns = barrier_now_ns(barrier);
    uint32_t came = 0;

    barrier->pass_ns = now_ns;
    for (uint32_t p = 0; p < barrier->config.ports; p++)
        came += port_receive(barrier, p, now_ns);
    for (uint32_t i = 0; i < barrier->peers; i++) {
        emu_session_step(barrier->peer[i].session, now_ns);
        peer_check(&barrier->peer[i]);
    }
    return came;
}

static void barrier_sleep(struct emu_barrier *barrier)
{
    uint64_t most_ns = BARRIER_SLEEP_NS, now_ns;

    for (uint32_t p = 0; p < barrier->config.ports; p++) {
        struct emu_hostport *port = barrier->port[p];

        if (port->ops->wake_fd(port) < 0)
            most_ns = BARRIER_POLL_NS;
        else
            port->ops->wake_clear(port);
    }
    if (barrier_pass(barrier))
        return;
    now_ns = barrier_now_ns(barrier);
    for (uint32_t i = 0; i < barrier->peers; i++) {
        uint64_t next_ns = emu_session_next_ns(barrier->peer[i].session);

        next_ns = next_ns > now_ns ? next_ns - now_ns : 0;
        most_ns = next_ns < most_ns ? next_ns : most_ns;
    }
    if (most_ns)
        emu_waiter_sleep(barrier->waiter, most_ns);
}

/*
 * End the wait with an error if config.stops() returns true. Otherwise the wait might never end,
 * because a live host may never end its superstep, or never read the records of this host.
 */
static void barrier_poll_stop(struct emu_barrier *barrier)
{
    uint64_t now_ns = barrier->config.stops ? barrier_now_ns(barrier) : 0;

    if (!barrier->config.stops || now_ns - barrier->stops_asked_ns < BARRIER_STOP_POLL_NS)
        return;
    barrier->stops_asked_ns = now_ns;
    if (barrier->config.stops(barrier->config.stops_ctx))
        barrier_wrong(barrier, -EINTR, "interrupted");
}

/* Poll for frames once. If there is none, spin, yield or sleep. @rounds: calls without a frame. */
static void barrier_wait(struct emu_barrier *barrier, unsigned *rounds)
{
    barrier_poll_stop(barrier);
    if (barrier_pass(barrier))
        *rounds = 0;
    else if (emu_wait_round((*rounds)++, barrier->config.oversubscribed) == EMU_WAIT_SLEEP)
        barrier_sleep(barrier);
}

/* End the run, because the peer has sent @record, which says why it has failed. */
static int peer_failed(const struct barrier_peer *peer, const struct emu_hostlink_record *record)
{
    struct emu_barrier *barrier = peer->barrier;

    barrier_wrong(barrier, -ECONNABORTED, "host %s: %.*s", name_of(peer), (int)record->length,
                  (const char *)record->bytes);
    emu_printable(barrier->why);
    return barrier->err;
}

/* Parse the received record at offset @at. Return its number of bytes, or 0 if it is malformed. */
static uint32_t peer_record(const struct barrier_peer *peer, size_t at,
                            struct emu_hostlink_record *ret)
{
    size_t left = peer->in.bytes - at;

    return emu_hostlink_parse(peer->in.at + at, left < UINT32_MAX ? (uint32_t)left : UINT32_MAX,
                              UINT32_MAX, ret);
}

static bool is_failure(const struct emu_hostlink_record *record)
{
    return record->kind == EMU_HOSTLINK_STEP && record->channel == EMU_STEP_FAIL;
}

/*
 * If the peer has reported a failure, end the run. Records before the report may belong to a
 * superstep that this host never begins.
 */
static void peer_find_failure(const struct barrier_peer *peer)
{
    struct emu_hostlink_record record;
    uint32_t whole = 1;

    for (size_t at = peer->taken; whole && at < peer->in.bytes; at += whole) {
        whole = peer_record(peer, at, &record);
        if (whole && is_failure(&record))
            peer_failed(peer, &record);
    }
}

/*
 * A host that fails sends the reason and then ends, so it looks lost. Report the reason if it has
 * arrived.
 */
static int peer_lost(struct barrier_peer *peer)
{
    char why[128];

    peer_find_failure(peer);
    emu_session_why(peer->session, why, sizeof why);
    return barrier_wrong(peer->barrier, -EHOSTDOWN, "host %s was lost: %s", name_of(peer),
                         emu_session_state(peer->session) == EMU_SESSION_UP ? "it was restarted"
                                                                            : why);
}

/* --- a superstep ----------------------------------------------------------------------- */

/* Send a record if the session has room for it; never wait. */
static void peer_put_at_once(struct barrier_peer *peer, const struct emu_hostlink_record *record)
{
    uint8_t *to = emu_session_room(peer->session, emu_hostlink_bytes(record));

    if (!to)
        return;
    emu_hostlink_write(to, record);
    emu_session_put(peer->session, emu_hostlink_bytes(record));
}

/*
 * Report to the other hosts that this host has not ended the superstep yet, but is busy. If a
 * session has no room for a report, the report is omitted, because further ones follow.
 */
static void barrier_report_busy(struct emu_barrier *barrier)
{
    const struct emu_hostlink_record busy = {.kind = EMU_HOSTLINK_STEP, .channel = EMU_STEP_BUSY};

    barrier->reported_ns = barrier->pass_ns;
    for (uint32_t i = 0; i < barrier->peers; i++) {
        struct barrier_peer *peer = &barrier->peer[i];

        if (peer->first && peer->incarnation && !peer->lost)
            peer_put_at_once(peer, &busy);
    }
}

/*
 * Wait for room in a session. Report meanwhile that this host is busy, because the other hosts must
 * not take this wait for a standstill. The wait ends at the latest when the session's host is lost
 * or config.stops() returns true.
 */
static void peer_put_wait(struct emu_barrier *barrier, unsigned *rounds)
{
    if (barrier->pass_ns - barrier->reported_ns >= 4 * barrier->keep_ns)
        barrier_report_busy(barrier);
    barrier_wait(barrier, rounds);
}

static int peer_put(struct barrier_peer *peer, const struct emu_hostlink_record *record)
{
    struct emu_barrier *barrier = peer->barrier;
    uint32_t bytes = emu_hostlink_bytes(record);
    unsigned rounds = 0;
    uint8_t *to = NULL;

    while (!barrier->err && !peer->lost && !(to = emu_session_room(peer->session, bytes)))
        peer_put_wait(barrier, &rounds);
    if (barrier->err)
        return barrier->err;
    if (!to)
        return peer_lost(peer);
    emu_hostlink_write(to, record);
    emu_session_put(peer->session, bytes);
    return 0;
}

/* Send @bytes bytes in STEP records. The last record is of kind @last, the others EMU_STEP_MORE. */
static int peer_put_bytes(struct barrier_peer *peer, const uint8_t *from, size_t bytes,
                          enum emu_step last)
{
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_STEP};
    size_t most = emu_session_record_max(peer->session) - EMU_HOSTLINK_HEAD_BYTES;
    int err;

    most = most < EMU_HOSTLINK_CONTROL_BYTES ? most : EMU_HOSTLINK_CONTROL_BYTES;
    do {
        record.bytes = from;
        record.length = (uint32_t)(bytes < most ? bytes : most);
        bytes -= record.length;
        if (bytes)
            from += record.length;
        record.channel = (uint8_t)(bytes ? EMU_STEP_MORE : last);
        err = peer_put(peer, &record);
    } while (!err && bytes);
    return err;
}

/* Set the error that says why the peer's records were dropped. */
static int peer_refused(struct barrier_peer *peer, int err)
{
    if (err == -EPROTO)
        return barrier_wrong(peer->barrier, err,
                             "host %s " EMU_BARRIER_VIOLATED "more than %zu bytes in a superstep",
                             name_of(peer), peer->barrier->config.most_bytes);
    return barrier_wrong(peer->barrier, err, "there is no memory for the data of host %s",
                         name_of(peer));
}

static int peer_step(struct barrier_peer *peer, const struct emu_hostlink_record *record)
{
    struct emu_barrier *barrier = peer->barrier;
    int err;

    if (record->channel == EMU_STEP_FAIL)
        return peer_failed(peer, record);
    if (record->channel == EMU_STEP_BUSY)
        return 0;
    if (record->length && !peer->first)
        return barrier_wrong(barrier, -EPROTO,
                             "host %s " EMU_BARRIER_VIOLATED
                             "bytes for all hosts on a session that "
                             "is not its first",
                             name_of(peer));
    err = bytes_append(&peer->given, record->bytes, record->length, barrier->config.most_bytes);
    if (err)
        return peer_refused(peer, err);
    peer->ended = record->channel == EMU_STEP_LAST;
    return 0;
}

/*
 * Deliver a cable record to the taker. Return NULL if the record is valid, else a text like that of
 * emu_barrier_taker.record().
 */
static const char *peer_cable(struct barrier_peer *peer, const struct emu_hostlink_record *record)
{
    struct emu_barrier *barrier = peer->barrier;

    if (record->kind != EMU_HOSTLINK_ENTRY && record->kind != EMU_HOSTLINK_CREDIT_AT)
        return EMU_BARRIER_VIOLATED "a record that clock virtual does not use";
    if (!barrier->taker.record)
        return EMU_BARRIER_VIOLATED "a record of a cable, but there are no cables";
    return barrier->taker.record(barrier->taker.ctx, (uint32_t)(peer - barrier->peer), record);
}

/*
 * Return whether there is a record to process now. Records after the end of the superstep belong to
 * the next superstep. Only FAIL is processed at once, so that no host waits any longer.
 */
static bool peer_has_record(const struct barrier_peer *peer)
{
    struct emu_hostlink_record record;

    if (peer->taken == peer->in.bytes)
        return false;
    return !peer->ended || (peer_record(peer, peer->taken, &record) && is_failure(&record));
}

static int peer_take(struct barrier_peer *peer)
{
    struct emu_hostlink_record record;
    int err = peer->refused ? peer_refused(peer, peer->refused) : 0;

    while (!err && peer_has_record(peer)) {
        uint32_t whole = peer_record(peer, peer->taken, &record);
        const char *wrong = whole ? NULL : EMU_BARRIER_VIOLATED "a malformed record";

        if (whole && record.kind == EMU_HOSTLINK_STEP)
            err = peer_step(peer, &record);
        else if (whole)
            wrong = peer_cable(peer, &record);
        if (wrong)
            err = barrier_wrong(peer->barrier, -EPROTO, "host %s %s", name_of(peer), wrong);
        peer->taken += whole;
    }
    peer_forget(peer);
    return err;
}

/* Return whether the first session with the peer's host has ended the superstep. */
static bool first_has_ended(const struct barrier_peer *peer)
{
    const struct barrier_peer *first = peer->barrier->peer;

    while (first->host != peer->host)
        first++;
    return first->ended;
}

/*
 * Take the peer's records. If the peer has not ended the superstep, check that it still works.
 * @passed_ns: time since the last call in this sync. If it is longer than silent_ns / 8, this host
 * itself was paused, and the time counts as silent_ns / 8. Only the first session with a host
 * carries reports that the host is busy.
 */
static int peer_await(struct barrier_peer *peer, uint64_t passed_ns)
{
    uint64_t most_ns = peer->silent_ns / 8;
    bool works = peer_has_record(peer) || !(peer->first || first_has_ended(peer));
    int err = peer_take(peer);

    peer->idle_ns = works ? 0 : peer->idle_ns + (passed_ns < most_ns ? passed_ns : most_ns);
    if (err || peer->ended)
        return err;
    if (peer->lost)
        return peer_lost(peer);
    if (peer->idle_ns < peer->silent_ns)
        return 0;
    return barrier_wrong(peer->barrier, -EHOSTDOWN,
                         "host %s was lost: it still sends keep-alives, but has not simulated for "
                         "%.3g s",
                         name_of(peer), (double)peer->silent_ns * 1e-9);
}

static int barrier_send(struct emu_barrier *barrier, const void *mine, size_t bytes)
{
    int err = barrier->err;

    for (uint32_t i = 0; !err && i < barrier->peers; i++) {
        struct barrier_peer *peer = &barrier->peer[i];

        err = peer_put_bytes(peer, mine, peer->first ? bytes : 0, EMU_STEP_LAST);
    }
    return err;
}

static int barrier_receive(struct emu_barrier *barrier)
{
    unsigned rounds = 0;
    uint64_t last_ns;
    bool all = false;
    int err = barrier->err;

    for (uint32_t i = 0; i < barrier->peers; i++) {
        barrier->peer[i].ended = false;
        barrier->peer[i].idle_ns = 0;
        barrier->peer[i].given.bytes = 0;
    }
    barrier_pass(barrier);
    last_ns = barrier->pass_ns;
    while (!err && !all) {
        uint64_t passed_ns = barrier->pass_ns - last_ns;

        last_ns = barrier->pass_ns;
        all = true;
        for (uint32_t i = 0; !err && i < barrier->peers; i++) {
            err = peer_await(&barrier->peer[i], passed_ns);
            all &= barrier->peer[i].ended;
        }
        if (!err && !all)
            barrier_wait(barrier, &rounds);
        if (!err)
            err = barrier->err;
    }
    return err;
}

static void barrier_broadcast_failure(struct emu_barrier *barrier, const char *why)
{
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_STEP, .channel = EMU_STEP_FAIL};

    for (uint32_t i = 0; i < barrier->peers; i++) {
        struct barrier_peer *peer = &barrier->peer[i];
        size_t most = emu_session_record_max(peer->session) - EMU_HOSTLINK_HEAD_BYTES;
        size_t bytes = strlen(why);

        record.bytes = (const uint8_t *)why;
        record.length = (uint32_t)(bytes < most ? bytes : most);
        if (peer->first && !peer->lost)
            peer_put_at_once(peer, &record);
    }
    barrier_pass(barrier);
}

/*
 * If @err is an error, report it to the other hosts, once. Return @err. An error of another host is
 * passed on, because a lying host may have reported it only to this one. Otherwise the others would
 * report that this host was lost. A host that gets a copy first reports the names of both hosts.
 */
static int barrier_end(struct emu_barrier *barrier, int err)
{
    if (err < 0 && !barrier->notified)
        barrier_broadcast_failure(barrier, barrier->why);
    barrier->notified |= err < 0;
    return err;
}

int emu_barrier_put(struct emu_barrier *barrier, uint32_t peer,
                    const struct emu_hostlink_record *record)
{
    int err;

    pthread_mutex_lock(&barrier->lock);
    err = barrier_end(barrier, peer_put(&barrier->peer[peer], record));
    pthread_mutex_unlock(&barrier->lock);
    return err;
}

int emu_barrier_sync(struct emu_barrier *barrier, const void *mine, size_t bytes)
{
    int err;

    pthread_mutex_lock(&barrier->lock);
    err = barrier_send(barrier, mine, bytes);
    if (!err)
        err = barrier_receive(barrier);
    barrier_end(barrier, err);
    pthread_mutex_unlock(&barrier->lock);
    return err;
}

void emu_barrier_fail(struct emu_barrier *barrier, const char *why)
{
    pthread_mutex_lock(&barrier->lock);
    if (!barrier->err)
        barrier_end(barrier, barrier_wrong(barrier, -ECANCELED, "%s", why));
    pthread_mutex_unlock(&barrier->lock);
}

/* --- results --------------------------------------------------------------------------- */

const void *emu_barrier_of(const struct emu_barrier *barrier, uint32_t host, size_t *bytes)
{
    for (uint32_t i = 0; i < barrier->peers; i++)
        if (barrier->peer[i].host == host && barrier->peer[i].first) {
            *bytes = barrier->peer[i].given.bytes;
            return barrier->peer[i].given.at;
        }
    *bytes = 0;
    return NULL;
}

int emu_barrier_error(const struct emu_barrier *barrier)
{
    return barrier->err;
}

const char *emu_barrier_why(const struct emu_barrier *barrier)
{
    return barrier->why;
}

const struct emu_barrier_config *emu_barrier_config(const struct emu_barrier *barrier)
{
    return &barrier->config;
}

uint32_t emu_barrier_host(const struct emu_barrier *barrier, uint32_t peer)
{
    return barrier->peer[peer].host;
}

void emu_barrier_taker(struct emu_barrier *barrier, const struct emu_barrier_taker *taker)
{
    barrier->taker = taker ? *taker : (struct emu_barrier_taker){.record = NULL};
}

void emu_barrier_expect(struct emu_barrier *barrier, uint32_t peer, size_t bytes)
{
    pthread_mutex_lock(&barrier->lock); /* the keeper thread reads most_bytes */
    barrier->peer[peer].most_bytes += bytes;
    pthread_mutex_unlock(&barrier->lock);
}

/* --- start and end --------------------------------------------------------------------- */

/*
 * Return for how long the threads of this host have worked. The two clocks are read one after the
 * other, so a later result may be smaller. Called by the keeper thread.
 */
static uint64_t barrier_worked_ns(const struct emu_barrier *barrier)
{
    if (barrier->config.worked_ns)
        return barrier->config.worked_ns(barrier->config.worked_ctx);
    return emu_time_ns(CLOCK_PROCESS_CPUTIME_ID) - emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * If this host has worked since the last look, report to the other hosts that it is busy. Threads
 * that only wait for each other wake now and then, so a little work does not count.
 */
static void keeper_look(struct emu_barrier *barrier)
{
    uint64_t passed_ns = barrier->pass_ns - barrier->looked_ns, worked_ns;

    if (barrier->err || passed_ns < 4 * barrier->keep_ns)
        return;
    worked_ns = barrier_worked_ns(barrier);
    if (worked_ns > barrier->worked_ns + passed_ns / BARRIER_BUSY_FRACTION)
        barrier_report_busy(barrier);
    barrier->looked_ns = barrier->pass_ns;
    barrier->worked_ns = worked_ns;
}

/* The keeper thread: runs the sessions while no other thread does. */
static void *keeper_main(void *arg)
{
    struct emu_barrier *barrier = arg;
    bool ends = false;

    while (!ends) {
        pthread_mutex_lock(&barrier->lock);
        barrier_pass(barrier);
        keeper_look(barrier);
        ends = barrier->ends;
        pthread_mutex_unlock(&barrier->lock);
        if (!ends)
            emu_waiter_sleep(barrier->keeper, barrier->keep_ns);
    }
    return NULL;
}

/*
 * Check the handshakes. Return 0 if all hosts are connected, 1 if not yet, or an error. @passed_ns:
 * time since the last check.
 */
static int barrier_connected(struct emu_barrier *barrier, uint64_t passed_ns)
{
    char why[128], how[128];
    bool failed, rejected;
    int err = 0;

    barrier_pass(barrier);
    for (uint32_t i = 0; i < barrier->peers && err >= 0; i++) {
        struct barrier_peer *peer = &barrier->peer[i];
        enum emu_session_state state = emu_session_state(peer->session);

        peer_find_failure(peer);
        if (barrier->err)
            return barrier->err;
        if (peer->lost)
            return peer_lost(peer);
        if (state == EMU_SESSION_UP)
            continue;
        err = 1;
        failed = barrier->config.failed && barrier->config.failed(peer->host, how, sizeof how);
        rejected = failed || state == EMU_SESSION_REFUSED;
        peer->refused_ns = rejected ? peer->refused_ns + passed_ns : 0;
        if (peer->refused_ns < (failed ? BARRIER_FAILED_NS : BARRIER_REFUSED_NS))
            continue;
        emu_session_why(peer->session, why, sizeof why);
        err = barrier_wrong(barrier, -EPROTO, "host %s: %s%s%s", name_of(peer), why,
                            failed ? "; " : "", failed ? how : "");
    }
    return err;
}

static int barrier_late(struct emu_barrier *barrier)
{
    for (uint32_t i = 0; i < barrier->peers; i++) {
        struct barrier_peer *peer = &barrier->peer[i];
        char why[128];

        if (emu_session_state(peer->session) == EMU_SESSION_UP)
            continue;
        emu_session_why(peer->session, why, sizeof why);
        return barrier_wrong(barrier, -ETIMEDOUT, "host %s: %s", name_of(peer), why);
    }
    return 0;
}

int emu_barrier_connect(struct emu_barrier *barrier, uint64_t timeout_ns)
{
    uint64_t began_ns = barrier_now_ns(barrier), passed_ns = 0, last_ns = 0;
    int err = 1;

    while (err == 1) {
        pthread_mutex_lock(&barrier->lock);
        err = barrier_connected(barrier, passed_ns - last_ns);
        if (err == 1 && passed_ns >= timeout_ns)
            err = barrier_late(barrier);
        barrier_end(barrier, err);
        pthread_mutex_unlock(&barrier->lock);
        if (err == 1)
            emu_waiter_sleep(barrier->waiter, BARRIER_CONNECT_NS);
        last_ns = passed_ns;
        passed_ns = barrier_now_ns(barrier) - began_ns;
    }
    return err;
}

static int peer_init(struct emu_barrier *barrier, uint32_t i, const struct emu_barrier_peer *config)
{
    struct barrier_peer *peer = &barrier->peer[i];
    struct emu_session_config session = config->session;

    if (config->host >= barrier->config.hosts || config->host == barrier->config.self ||
        config->port >= barrier->config.ports)
        return -EINVAL;
    *peer = (struct barrier_peer){.barrier = barrier,
                                  .fabric = session.fabric,
                                  .host = config->host,
                                  .port = config->port,
                                  .from = session.peer,
                                  .first = true};
    for (uint32_t before = 0; before < i; before++)
        peer->first &= barrier->peer[before].host != peer->host;
    peer->most_bytes = peer->first ? barrier->config.most_bytes : 2 * EMU_HOSTLINK_RECORD_BYTES;
    peer->silent_ns = session.silent_ns;
    session.port = barrier->port[config->port];
    if (session.silent_ns / 16 < barrier->keep_ns)
        barrier->keep_ns = session.silent_ns / 16;
    return emu_session_create(&peer->session, &session);
}

static void barrier_free(struct emu_barrier *barrier)
{
    for (uint32_t i = 0; barrier->peer && i < barrier->peers; i++) {
        if (barrier->peer[i].session)
            emu_session_destroy(barrier->peer[i].session);
        free(barrier->peer[i].in.at);
        free(barrier->peer[i].given.at);
    }
    emu_waiter_destroy(barrier->keeper);
    emu_waiter_destroy(barrier->waiter);
    pthread_mutex_destroy(&barrier->lock);
    free(barrier->peer);
    free(barrier->port);
    free(barrier);
}

static int barrier_init(struct emu_barrier *barrier, const struct emu_barrier_config *config)
{
    int err = emu_waiter_create(&barrier->waiter);

    if (!err)
        err = emu_waiter_create(&barrier->keeper);
    barrier->port = calloc(config->ports + 1u, sizeof(struct emu_hostport *));
    barrier->peer = calloc(config->peers + 1u, sizeof *barrier->peer);
    if (err || !barrier->port || !barrier->peer)
        return err ? err : -ENOMEM;
    for (uint32_t p = 0; !err && p < config->ports; p++) {
        int fd = config->port[p]->ops->wake_fd(config->port[p]);

        barrier->port[p] = config->port[p];
        err = fd < 0 ? 0 : emu_waiter_add(barrier->waiter, fd);
    }
    for (; !err && barrier->peers < config->peers; barrier->peers++)
        err = peer_init(barrier, barrier->peers, &config->peer[barrier->peers]);
    return err;
}

/* Start the keeper thread with all signals blocked, so that other threads receive them. */
static int keeper_start(struct emu_barrier *barrier)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = emu_spawn(&barrier->thread, "fab-keeper", keeper_main, barrier);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

int emu_barrier_create(struct emu_barrier **ret, const struct emu_barrier_config *config)
{
    struct emu_barrier *barrier;
    int err;

    if (config->hosts > EMU_BARRIER_HOSTS_MAX || config->self >= config->hosts)
        return -EINVAL;
    barrier = calloc(1, sizeof *barrier);
    if (!barrier)
        return -ENOMEM;
    barrier->config = *config;
    if (!barrier->config.most_bytes)
        barrier->config.most_bytes = EMU_BARRIER_MOST_BYTES;
    barrier->keep_ns = BARRIER_KEEP_NS;
    pthread_mutex_init(&barrier->lock, NULL);
    err = barrier_init(barrier, config);
    if (!err)
        err = keeper_start(barrier);
    if (err) {
        barrier_free(barrier);
        return err;
    }
    *ret = barrier;
    return 0;
}

static bool barrier_is_idle(struct emu_barrier *barrier)
{
    bool idle = true;

    pthread_mutex_lock(&barrier->lock);
    barrier_pass(barrier);
    for (uint32_t i = 0; i < barrier->peers; i++)
        idle &= emu_session_state(barrier->peer[i].session) != EMU_SESSION_UP ||
                emu_session_is_idle(barrier->peer[i].session);
    pthread_mutex_unlock(&barrier->lock);
    return idle;
}

void emu_barrier_destroy(struct emu_barrier *barrier)
{
    uint64_t began_ns;

    if (!barrier)
        return;
    began_ns = barrier_now_ns(barrier);
    while (!barrier_is_idle(barrier) && barrier_now_ns(barrier) - began_ns < BARRIER_LINGER_NS)
        emu_waiter_sleep(barrier->waiter, BARRIER_POLL_NS);
    pthread_mutex_lock(&barrier->lock);
    barrier->ends = true;
    pthread_mutex_unlock(&barrier->lock);
    emu_waiter_ring(barrier->keeper);
    pthread_join(barrier->thread, NULL);
    for (uint32_t p = 0; p < barrier->config.ports; p++) {
        int fd = barrier->port[p]->ops->wake_fd(barrier->port[p]);

        if (fd >= 0)
            emu_waiter_remove(barrier->waiter, fd);
    }
    for (uint32_t i = 0; i < barrier->peers; i++) {
        emu_session_destroy(barrier->peer[i].session);
        barrier->peer[i].session = NULL;
    }
    for (uint32_t p = 0; p < barrier->config.ports; p++)
        barrier->port[p]->ops->close(barrier->port[p]);
    barrier_free(barrier);
}
