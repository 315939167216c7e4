/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.c - the device: receives and sends frames, and computes how long it may sleep. "Our
 * switches" are the switches on this host. device.h lists the other parts of the host link.
 */
#include "emu/hostlink/device.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/retry/replay.h"
#include "emu/util/alloc.h"
#include "emu/util/wait.h"

#define LINK_BURSTS 4u /* maximum number of bursts of frames received per step */
/* a port without wake_fd is polled continuously for this long after a frame */
#define LINK_NEAR_NS 1000000u
#define LINK_POLL_NS 100000u /* polling interval of an idle port without wake_fd */
#define LINK_ARM     64u     /* wake_fd is armed after this many steps without a frame or entry */

/* --- creation --------------------------------------------------------------------------- */

static uint32_t hostlink_step(struct emu_dev *dev, uint64_t until_ps);

static int link_number(struct emu_hostlink *link)
{
    uint32_t n = 0;

    link->cable = calloc(link->cables ? link->cables : 1, sizeof *link->cable);
    if (!link->cable)
        return -ENOMEM;
    for (uint32_t p = 0; p < link->peers; p++)
        for (uint32_t c = 0; c < link->peer[p].cables; c++) {
            link->peer[p].cable[c].index = n;
            link->cable[n++] = &link->peer[p].cable[c];
        }
    return 0;
}

static void link_free(struct emu_hostlink *link)
{
    for (uint32_t p = 0; link->peer && p < link->peers; p++)
        hostlink_peer_free(&link->peer[p]);
    free(link->cable);
    free(link->peer);
    free(link);
}

static int link_init(struct emu_hostlink *link, const struct emu_hostlink_peer *peers)
{
    int err = 0;

    for (uint32_t p = 0; p < link->peers; p++)
        hostlink_control_none(&link->peer[p].control);
    for (uint32_t p = 0; !err && p < link->peers; p++) {
        link->cables += peers[p].cables;
        err = link->cables > HOSTLINK_ALL_MAX ? -EINVAL
                                              : hostlink_peer_init(&link->peer[p], link, &peers[p]);
    }
    return err ? err : link_number(link);
}

int emu_hostlink_create(struct emu_hostlink **ret, struct emu_worker *worker,
                        const struct emu_hostlink_config *config)
{
    uint32_t count = config->count;
    struct emu_hostlink *link;
    int err;

    if (worker->clock.mode == EMU_CLOCK_VIRTUAL)
        return -ENOTSUP;
    link = emu_zeros(sizeof *link);
    if (!link)
        return -ENOMEM;
    link->peer = calloc(count ? count : 1, sizeof *link->peer);
    link->config = *config;
    link->port = config->port;
    link->peers = link->peer ? count : 0;
    link->wake_fd = link->port->ops->wake_fd(link->port);
    err = link->peer ? link_init(link, config->peers) : -ENOMEM;
    if (!err && link->wake_fd >= 0)
        err = emu_waiter_add(worker->waiter, link->wake_fd);
    if (err) {
        link_free(link);
        return err;
    }
    for (uint32_t p = 0; p < count; p++)
        emu_hostlink_control(link, p, config->peers[p].control_fd);
    link->config.peers = NULL;
    emu_dev_init(&link->dev, worker, hostlink_step);
    emu_dev_always(&link->dev);
    emu_dev_again(&link->dev);
    *ret = link;
    return 0;
}

void emu_hostlink_destroy(struct emu_hostlink *link)
{
    struct emu_hostport *port;

    if (!link)
        return;
    port = link->port;
    if (link->wake_fd >= 0)
        emu_waiter_remove(link->dev.worker->waiter, link->wake_fd);
    link_free(link);
    port->ops->close(port);
}

/* --- called by other threads ------------------------------------------------------- */

struct emu_replay *emu_hostlink_replay(const struct emu_hostlink *link, uint32_t peer,
                                       uint32_t cable)
{
    return link->peer[peer].cable[cable].replay;
}

bool emu_hostlink_passed(const struct emu_hostlink *link, uint32_t peer, uint32_t cable,
                         uint32_t *sent, uint32_t *delivered)
{
    struct hostlink_cable *at = &link->peer[peer].cable[cable];

    *sent = at->ends.rx.data.at - at->sent_from;
    *delivered = at->ends.tx.data.at - at->received_from;
    return emu_rx_next_ps(&at->ends.rx) == EMU_NEVER;
}

enum emu_hostlink_phase emu_hostlink_phase(const struct emu_hostlink *link, uint32_t peer)
{
    return (enum emu_hostlink_phase)atomic_load_explicit(&link->peer[peer].phase,
                                                         memory_order_relaxed);
}

static void link_set_phase(struct emu_hostlink *link, uint32_t peer, enum emu_hostlink_phase phase)
{
    atomic_store_explicit(&link->peer[peer].phase, phase, memory_order_relaxed);
    emu_dev_signal_remote(&link->dev, EMU_EVENT_CREDIT, 0); /* makes the worker step the device */
}

void emu_hostlink_bring_up(struct emu_hostlink *link, uint32_t peer)
{
    if (emu_hostlink_phase(link, peer) == EMU_HOSTLINK_DOWN)
        link_set_phase(link, peer, EMU_HOSTLINK_TO_BRING_UP);
}

void emu_hostlink_take_down(struct emu_hostlink *link, uint32_t peer)
{
    link_set_phase(link, peer, EMU_HOSTLINK_DOWN);
}

int emu_hostlink_control(struct emu_hostlink *link, uint32_t peer, int fd)
{
    int old = atomic_exchange_explicit(&link->peer[peer].control.next, fd,
                                       memory_order_acq_rel); /* H1 pairs with H2, control.c */

    if (link->dev.worker)
        emu_dev_signal_remote(&link->dev, EMU_EVENT_CREDIT, 0);
    return old;
}

bool emu_hostlink_is_closed(const struct emu_hostlink *link, uint32_t peer)
{
    return atomic_load_explicit(&link->peer[peer].closed, memory_order_relaxed);
}

const struct emu_session *emu_hostlink_session(const struct emu_hostlink *link, uint32_t peer)
{
    return link->peer[peer].session;
}

const struct emu_hostlink_counts *emu_hostlink_counts(const struct emu_hostlink *link,
                                                      uint32_t peer)
{
    return &link->peer[peer].counts;
}

const struct emu_hostlink_port_counts *emu_hostlink_port_counts(const struct emu_hostlink *link)
{
    return &link->counts;
}

struct emu_hostlink_clock emu_hostlink_clock(const struct emu_hostlink *link, uint32_t peer)
{
    const struct hostlink_offset *offset = &link->peer[peer].offset;

    return (struct emu_hostlink_clock){
        .known = atomic_load_explicit(&offset->known, memory_order_relaxed),
        .offset_ns = atomic_load_explicit(&offset->offset_ns, memory_order_relaxed),
        .error_ns = atomic_load_explicit(&offset->error_ns, memory_order_relaxed),
        .drift_ppb = atomic_load_explicit(&offset->drift_ppb, memory_order_relaxed)};
}

uint32_t emu_hostlink_bufs(const struct emu_hostlink *link)
{
    uint32_t bufs = 0;

    for (uint32_t n = 0; n < link->cables; n++)
        bufs += emu_link_bufs(&link->cable[n]->ends.rx) + hostlink_cable_bufs(link->cable[n]);
    return bufs;
}

/* --- a step ------------------------------------------------------------------------- */

/* Return the peer that sent @frame. If no peer did, count the frame and return NULL. */
static struct hostlink_peer *link_peer(struct emu_hostlink *link, const struct emu_hostframe *frame)
{
    bool malformed = false;

    for (uint32_t p = 0; p < link->peers; p++) {
        struct hostlink_peer *peer = &link->peer[p];
        uint16_t from, to;

        if (emu_session_peek(frame, peer->fabric, &from, &to, &malformed) && from == peer->from &&
            to == peer->to)
            return peer;
    }
    emu_count(malformed ? &link->counts.malformed : &link->counts.foreign, 1);
    return NULL;
}

static uint32_t link_receive(struct emu_hostlink *link)
{
    const struct emu_hostport_ops *ops = link->port->ops;
    struct emu_hostframe *frame[EMU_HOSTLINK_BURST];
    uint32_t all = 0, got = EMU_HOSTLINK_BURST;

    for (uint32_t burst = 0; burst < LINK_BURSTS && got == EMU_HOSTLINK_BURST; burst++) {
        got = ops->receive(link->port, frame, EMU_HOSTLINK_BURST);
        for (uint32_t i = 0; i < got; i++) {
            struct hostlink_peer *peer = link_peer(link, frame[i]);

            if (peer)
                hostlink_peer_receive(peer, frame[i]);
            else
                ops->drop(link->port, frame[i]);
        }
        all += got;
    }
    emu_count(&link->counts.frames, all);
    if (all)
        link->received_ns = link->now_ns;
    return all;
}

/*
 * Handle the events that our switches have signalled: entries to send and returned credits. Cables
 * whose indexes are equal modulo 64 share an event bit.
 */
static void link_take_signals(struct emu_hostlink *link)
{
    uint64_t data = emu_dev_take(&link->dev, EMU_EVENT_DATA);
    uint64_t credit = emu_dev_take(&link->dev, EMU_EVENT_CREDIT);

    emu_each_bit (b, data)
        for (uint32_t n = b; n < link->cables; n += 64)
            if (link->cable[n]->slots)
                hostlink_set_active(link->cable[n]);
    emu_each_bit (b, credit)
        for (uint32_t n = b; n < link->cables; n += 64)
            if (link->cable[n]->slots)
                hostlink_cable_collect(link->cable[n]);
}

/* Notify our switches of received entries, and count the ring slots that they have emptied. */
static void link_flush(struct emu_hostlink *link)
{
    for (uint32_t w = 0; w < HOSTLINK_WORDS(link->cables); w++) {
        emu_each_bit (b, link->touched[w]) {
            struct hostlink_cable *cable = link->cable[w * 64 + b];

            emu_tx_flush(&cable->ends.tx);
            if (cable->channels && hostlink_cable_empty(cable))
                hostlink_set_owing(cable, true);
        }
        link->touched[w] = 0;
    }
}

/* Run link-level retry on all cables. Return the earliest result of emu_replay_run(). */
static uint64_t link_retry(struct emu_hostlink *link)
{
    uint64_t next_ps = EMU_NEVER;

    for (uint32_t n = 0; link->retries && n < link->cables; n++) {
        struct emu_replay *replay = link->cable[n]->replay;
        uint64_t at_ps = replay ? emu_replay_run(replay, link->until_ps) : EMU_NEVER;

        next_ps = at_ps < next_ps ? at_ps : next_ps;
    }
    return next_ps;
}

/* Move entries from the wire to our switches and from our switches to the wire. */
static uint32_t link_move(struct emu_hostlink *link)
{
    uint32_t moved = link_receive(link);

    for (uint32_t p = 0; p < link->peers; p++) {
        hostlink_peer_check(&link->peer[p]);
        moved += hostlink_room_deliver(&link->peer[p]);
    }
    link_take_signals(link);
    link_flush(link);
    link->retry_ps = link_retry(link);
    for (uint32_t i = 0; i < link->peers; i++) {
        struct hostlink_peer *peer = &link->peer[(link->first + i) % link->peers];

        moved += hostlink_peer_send(peer);
        emu_session_step(peer->session, link->now_ns);
        hostlink_peer_notice_close(peer);
    }
    link->first++;
    return moved;
}

/*
 * Return how long the device may sleep. Before the first sleep after a frame, this arms wake_fd and
 * lets the device poll the port once more. Then every later frame wakes the worker.
 */
static uint64_t link_max_sleep_ns(struct emu_hostlink *link, uint32_t moved)
{
    uint64_t rest_ns = UINT64_MAX;

    if (moved) {
        link->armed = false;
        link->idle = 0;
        return 0;
    }
    for (uint32_t p = 0; p < link->peers; p++) {
        uint64_t peer_ns = hostlink_peer_max_sleep_ns(&link->peer[p]);

        rest_ns = peer_ns < rest_ns ? peer_ns : rest_ns;
    }
    if (link->wake_fd < 0) {
        uint64_t poll_ns = link->now_ns - link->received_ns < LINK_NEAR_NS ? 1 : LINK_POLL_NS;

        return poll_ns < rest_ns ? poll_ns : rest_ns;
    }
    if (link->armed || !rest_ns)
        return rest_ns;
    /* arming takes a system call, and the next frame may arrive soon */
    if (link->idle++ < LINK_ARM)
        return 1;
    link->port->ops->wake_clear(link->port);
    link->armed = true;
    return 0;
}

/*
 * Return @rest_ps, or the time until link-level retry must run if that is shorter. link->retry_ps
 * is absolute on timed clocks, and relative on clock raw.
 */
static uint64_t link_until_retry(const struct emu_hostlink *link, uint64_t rest_ps)
{
    uint64_t in_ps = link->retry_ps;

    if (link->dev.timed)
        in_ps = in_ps > link->until_ps ? in_ps - link->until_ps : 0;
    return in_ps < rest_ps ? in_ps : rest_ps;
}

/*
 * Step the device. The work is bounded, and the step never blocks or allocates memory. Return the
 * number of frames and entries moved.
 */
static uint32_t hostlink_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct emu_hostlink *link = (struct emu_hostlink *)dev;
    uint64_t rest_ns, rest_ps;
    uint32_t moved;

    link->now_ns = hostlink_now_ns(link);
    link->until_ps = until_ps;
    if (dev->worker->woke)
        link->armed = false;
    moved = link_move(link);
    rest_ns = link_max_sleep_ns(link, moved);
    rest_ps = rest_ns > EMU_NEVER / 2000u ? EMU_NEVER : rest_ns * 1000u;
    if (link->retry_ps != EMU_NEVER)
        rest_ps = link_until_retry(link, rest_ps);
    if (!rest_ps)
        emu_dev_again(dev);
    if (!dev->timed)
        emu_dev_poll_within(dev, rest_ps);
    else
        dev->next_ps = rest_ps == EMU_NEVER ? EMU_NEVER : until_ps + rest_ps;
    return moved;
}
