/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h - one direction of a cable. Segments go from a sender to a receiver, and credits return.
 *
 * The sender (emu_tx) spends one credit per segment. The receiver (emu_rx) returns the credit when
 * its buffer policy allows it. A *local* link is a pair of rings between two devices of this
 * process. A *hostif* link connects a switch port to an application's process
 * (hostif/fabric/fabric.h); while no process is attached, segments sent there are dropped and
 * counted. "raw:" means that a comment is about clock raw only, "timed:" that it is about timed
 * clocks only (emu/util/clock.h).
 */
#ifndef EMU_LINK_H
#define EMU_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/util/count.h"
#include "emu/dev/dev.h"
#include "emu/hostif/fabric/fabric.h"
#include "emu/packet/profile.h"
#include "emu/buffer/ring.h"
#include "emu/link/tap.h"

enum emu_link_kind {
    EMU_LINK_NONE, /* no cable */
    EMU_LINK_LOCAL,
    EMU_LINK_HOSTIF
};

/* Counters of a sender. Written by its device only. */
struct emu_port_counts {
    _Atomic uint64_t segments;
    _Atomic uint64_t stalls;  /* how often a segment waited for a credit */
    _Atomic uint64_t dropped; /* segments sent while no process was attached */
};

/* The process that is attached to a hostif link. Its interface replaces the two rings. */
struct emu_plug {
    /* set by the thread that controls the fabric, with RCU; NULL: no process is attached */
    _Atomic(struct emu_hostif *) hostif;
    struct emu_hostif *plugged; /* copy of hostif, refreshed before each burst */
};

/*
 * The sender. Owned by the sending device, except plug.hostif. A switch's structure for an output
 * port contains this structure and has two cache lines. Sending on a fused cable
 * (emu_link_join_fused()) touches only the first cache line.
 */
struct emu_tx {
    union {
        struct {
            uint8_t kind;          /* enum emu_link_kind */
            bool slow : 1;         /* `profile` points into a struct emu_slow; timed only */
            bool tapped : 1;       /* emu_tap_sent() is called for each segment */
            bool cross_worker : 1; /* another worker steps the receiver: emu_link_cross_worker() */
            bool fused : 1;        /* credits are in slots of `data`: emu_link_join_fused() */
        };
        uint16_t shape; /* kind and flags; EMU_LINK_LOCAL: a local link without flags */
    };
    uint16_t unnotified; /* segments sent since the receiver was last signalled */
    uint32_t credits;    /* segments that may be sent; fused: always 0 */
    uint64_t busy_ps;    /* the wire is busy until then; raw: 0; EMU_NEVER: emu_tx_is_stuck() */
    union {
        struct emu_ring_end data; /* EMU_LINK_LOCAL: the producer's end */
        struct emu_plug plug;     /* EMU_LINK_HOSTIF */
    };
    struct emu_peer peer; /* EMU_LINK_LOCAL */
    struct emu_port_counts counts;
    /* when the latest credit arrived; raw: 0; after emu_tx_stick(): earliest next departure */
    uint64_t credit_ps;
    /* EMU_LINK_LOCAL only: */
    struct emu_credit_end credit; /* consumer */
    struct emu_worker *remote;    /* worker of the remote device */
    const struct emu_profile *profile;
    struct emu_dev *owner;
};

/* The receiver. Owned by the receiving device, except plug.hostif. */
struct emu_rx {
    union {
        struct {
            uint8_t kind; /* enum emu_link_kind */
            /* emu_tap_*() is called for credits, and for segments from a process */
            bool tapped : 1;
            bool cross_worker : 1; /* another worker steps the sender */
            bool fused : 1;        /* the credits are in `data`; of `credit` only `at` is used */
        };
        uint16_t shape; /* as in the sender */
    };
    uint8_t port;
    uint32_t owed; /* credits not yet returned */
    struct {
        _Atomic uint64_t segments;
    } counts;
    union {
        struct {                          /* EMU_LINK_LOCAL */
            struct emu_ring_end data;     /* consumer */
            struct emu_credit_end credit; /* producer */
            struct emu_peer peer;
            struct emu_worker *remote;
            struct emu_tx *tx; /* the sender; not accessed while workers run */
            /*
             * If the cable leads to another host: 1 + the number of the device there, counting all
             * switches and then the nodes; `tx` belongs to a host link. Else 0.
             */
            uint32_t beyond;
        };
        struct { /* EMU_LINK_HOSTIF */
            struct emu_plug plug;
            /* allocated by emu_link_hostif(), and kept when another process attaches */
            struct emu_credits *credits;
        };
    };
    struct emu_dev *owner;
};
static_assert(offsetof(struct emu_rx, tx) == EMU_LINE, "the fields of each pass are in one line");

/* The code compares `shape` with a value of `kind`, which must therefore be its lower byte. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower byte comes first");
static_assert(offsetof(struct emu_tx, shape) == offsetof(struct emu_tx, kind) &&
                  offsetof(struct emu_tx, unnotified) == 2,
              "shape is kind and the flags, no more");

/* Bits of `shape`. The first two are for a sender. The flags of a receiver have other bits. */
#define EMU_SHAPE_CROSS_WORKER 0x400u
#define EMU_SHAPE_FUSED        0x800u
#define EMU_TX_FUSED           (EMU_LINK_LOCAL | EMU_SHAPE_FUSED)
#define EMU_RX_FUSED           (EMU_LINK_LOCAL | 0x400u)

/** emu_tx_is_cable - return whether the link is local, not slow and not tapped. */
static inline bool emu_tx_is_cable(const struct emu_tx *tx)
{
    return (tx->shape & ~(EMU_SHAPE_CROSS_WORKER | EMU_SHAPE_FUSED)) == EMU_LINK_LOCAL;
}

/* The profile of a sender whose time per byte differs from that of its device. */
struct emu_slow {
    struct emu_profile profile;    /* a copy with another link_ps_per_byte */
    const struct emu_profile *own; /* the device's profile; NULL if not slow */
};

/** emu_slow_set - copy @own with @factor / 1000 times its time per byte, rounded up. */
void emu_slow_set(struct emu_slow *slow, const struct emu_profile *own, uint32_t factor);

/**
 * emu_tx_slow - timed: beginning with the next segment, a byte takes @factor / 1000 times the
 * profile's time, rounded up to whole ps. 1000 restores the profile.
 * @slow: zeroed by the caller; must outlive the sender.
 * Thread: any, while the device is stopped.
 */
void emu_tx_slow(struct emu_tx *tx, struct emu_slow *slow, uint32_t factor);

/**
 * emu_tx_late_ps - timed: return by how much a slow wire delays the last of @bytes bytes. A
 * segment's head is delayed by the same time, because the next device forwards at the profile's
 * rate, and would otherwise run out of bytes before the last one arrives.
 */
uint64_t emu_tx_late_ps(const struct emu_tx *tx, uint64_t bytes);

/**
 * emu_tx_stick - stop sending (@stuck), or allow it again, beginning at @at_ps (raw: 0).
 * Thread: any, while the device is stopped.
 */
void emu_tx_stick(struct emu_tx *tx, bool stuck, uint64_t at_ps);

/** emu_tx_is_stuck - return whether emu_tx_stick() stops sending. Thread: as emu_tx_stick(). */
static inline bool emu_tx_is_stuck(const struct emu_tx *tx)
{
    return tx->busy_ps == EMU_NEVER;
}

/** emu_tx_notify, emu_rx_notify - signal the remote device. @from: the calling worker. */
static inline void emu_tx_notify(const struct emu_tx *tx, const struct emu_worker *from)
{
    emu_signal(tx->remote, tx->peer.index, from, EMU_EVENT_DATA, emu_port_signal(tx->peer.port));
}

static inline void emu_rx_notify(const struct emu_rx *rx, const struct emu_worker *from)
{
    emu_signal(rx->remote, rx->peer.index, from, EMU_EVENT_CREDIT, emu_port_signal(rx->peer.port));
}

/**
 * emu_link_join - connect sender @tx of device @from with receiver @rx of @to; the sender gets
 * @credits credits. Errors: -ENOMEM.
 */
int emu_link_join(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port, struct emu_rx *rx,
                  struct emu_dev *to, uint8_t to_port, uint32_t credits,
                  const struct emu_profile *profile);

/**
 * emu_link_join_fused - do emu_link_join(), but without a ring of credits. A credit is stored in
 * the empty ring slot for which it stands. So taking the credit and sending the segment touch one
 * cache line instead of two, and on clock virtual segments pass 1.1 times as many switches per
 * second. Only for timed clocks, for two devices of one worker, and for senders that read credits
 * by emu_tx_earliest_ps() alone and send at the rate of @profile.
 * Errors: -ENOMEM.
 */
int emu_link_join_fused(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port,
                        struct emu_rx *rx, struct emu_dev *to, uint8_t to_port, uint32_t credits,
                        const struct emu_profile *profile);

/**
 * emu_link_unfuse - convert a fused cable, with its segments and credits, to one with a ring of
 * credits. Errors: -ENOMEM. Thread: any, while both workers are stopped.
 */
int emu_link_unfuse(struct emu_rx *rx);

/**
 * emu_link_cross_worker - clock virtual: if different workers step the two devices, exchange
 * segments and credits through their outboxes from now on (emu/dev/outbox.h). Only for cables whose
 * ends are never used between two windows (emu/worker/windows.h). Call before emu_outbox_open().
 * Errors: -ENOMEM. Thread: any, while both workers are stopped.
 */
int emu_link_cross_worker(struct emu_tx *tx, struct emu_rx *rx);

/** emu_link_bytes - return the memory of a local cable's rings. Pure. */
static inline size_t emu_link_bytes(uint32_t credits)
{
    return emu_ring_bytes(credits) + emu_credit_bytes(credits);
}

/**
 * emu_link_credits - return how many credits are at the sender or on their way back to it. Thread:
 * any, while both workers are stopped.
 */
uint64_t emu_link_credits(const struct emu_rx *rx);

/** emu_link_unjoin - free the rings of emu_link_join(), after the workers have stopped. */
void emu_link_unjoin(struct emu_tx *tx);

/** emu_link_hostif - make both ends of a port hostif links without a process. Errors: -ENOMEM. */
int emu_link_hostif(struct emu_tx *tx, struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                    uint32_t credits, const struct emu_profile *profile);

/** emu_link_free_hostif - free the credits of a hostif link, after the workers have stopped. */
void emu_link_free_hostif(struct emu_rx *rx);

/**
 * emu_tx_rebase, emu_rx_rebase - subtract @by_ps from all times of a sender or receiver.
 * emu_rx_rebase() includes the rings of a local cable. Thread: any, while both workers are stopped.
 */
void emu_tx_rebase(struct emu_tx *tx, uint64_t by_ps);
void emu_rx_rebase(struct emu_rx *rx, uint64_t by_ps);

/**
 * emu_link_check - check the invariants of a local cable: no segment was lost or duplicated, and
 * the credits add up. Returns NULL, or an error text.
 * @held: credits of the segments in the receiver's buffer. @credits: the total.
 * Thread: any, while both workers are stopped.
 */
const char *emu_link_check(const struct emu_rx *rx, uint32_t held, uint32_t credits);

/** emu_link_check_segments - do emu_link_check() without the check of the credits. */
const char *emu_link_check_segments(const struct emu_rx *rx);

/** emu_hostif_check - check the credits of a hostif link as emu_link_check() does. */
const char *emu_hostif_check(const struct emu_rx *rx, uint32_t held, uint32_t credits);

/** emu_credits_wrong - return the error text for @sum credits where there should be @credits. */
static inline const char *emu_credits_wrong(uint64_t sum, uint64_t credits)
{
    return sum < credits ? "credits were lost on the cable to here"
                         : "there are more credits than buffers on the cable to here";
}

/**
 * emu_link_bufs - return the number of references to pool buffers on a local cable; 0 for other
 * links. Thread: any, while both workers are stopped.
 */
uint32_t emu_link_bufs(const struct emu_rx *rx);

/** emu_link_holds - return whether a local cable has a segment of group @id. Thread: as above. */
bool emu_link_holds(const struct emu_rx *rx, uint32_t id);

/* --- sending ------------------------------------------------------------------------ */

/** emu_tx_take_credits - raw: add the credits that have come back to tx->credits. */
static inline void emu_tx_take_credits(struct emu_tx *tx)
{
    const struct emu_credit *back;

    if (tx->kind != EMU_LINK_LOCAL)
        return;
    while ((back = emu_credit_front(&tx->credit))) {
        tx->credits += back->count;
        emu_credit_skip(&tx->credit);
    }
}

/**
 * emu_tx_plugged - hostif link: load and return the interface of the attached process; NULL: there
 * is none. The process may detach at any time, but its interface is not freed before the next
 * iteration of the worker's loop.
 */
static inline struct emu_hostif *emu_tx_plugged(struct emu_tx *tx)
{
    tx->plug.plugged =
        atomic_load_explicit(&tx->plug.hostif, memory_order_acquire); /* E3: E4, fabric/nodes.c */
    return tx->plug.plugged;
}

/** emu_tx_room - return how many segments may be sent now. */
static inline uint32_t emu_tx_room(struct emu_tx *tx)
{
    if (tx->kind == EMU_LINK_LOCAL)
        return tx->credits;
    return emu_tx_plugged(tx) ? emu_hostif_room(tx->plug.plugged) : UINT32_MAX;
}

/** emu_tx_room_ps - hostif link: return emu_hostif_room_ps() of the attached interface, if any. */
static inline uint64_t emu_tx_room_ps(struct emu_tx *tx, uint64_t ready_ps)
{
    return emu_tx_plugged(tx) ? emu_hostif_room_ps(tx->plug.plugged, ready_ps) : ready_ps;
}

/**
 * emu_tx_has_room - return whether @count segments may be sent. Unlike emu_tx_room(), this does not
 * record that the sender waits for space, so it may be called without a segment to send.
 */
static inline bool emu_tx_has_room(struct emu_tx *tx, uint32_t count)
{
    if (tx->kind == EMU_LINK_LOCAL)
        return tx->credits >= count;
    return !emu_tx_plugged(tx) || emu_hostif_has_room(tx->plug.plugged, count);
}

/** emu_tx_drop - drop and count a segment that was sent while no process is attached. */
void emu_tx_drop(struct emu_tx *tx, const struct emu_entry *entry);

/** emu_tx_send_else - the slow path of emu_tx_send(). */
void emu_tx_send_else(struct emu_tx *tx, const struct emu_entry *entry);

/**
 * emu_tx_send - put one segment on the wire; the link takes the reference to its buffer. The
 * receiver is signalled later, by emu_tx_flush().
 *
 * Cost: one credit; the caller has checked emu_tx_room().
 * Thread: the sending device's worker; the receiver may run at the same time.
 * Source: output-queued routers §2; deviation: credits may return in batches.
 */
static inline void emu_tx_send(struct emu_tx *tx, const struct emu_entry *entry)
{
    tx->unnotified++;
    if (tx->shape == EMU_LINK_LOCAL) {
        emu_ring_put(&tx->data, entry); /* each credit has a slot */
        tx->credits--;
    } else {
        emu_tx_send_else(tx, entry);
    }
}

/**
 * emu_tx_send_plain - raw: do emu_tx_send() on a local link without flags. Returns the number of
 * credits that are left.
 */
static inline uint32_t emu_tx_send_plain(struct emu_tx *tx, const struct emu_entry *entry)
{
    emu_ring_put_at(&tx->data, entry, 0);
    tx->unnotified++;
    return --tx->credits;
}

/**
 * emu_tx_slot, emu_tx_publish - send a segment that the caller writes directly to the ring.
 * emu_tx_slot() returns the next slot, or NULL if the link is not local or has flags. The
 * caller fills in all fields but the stamp and calls emu_tx_publish(), which sends the segment.
 */
static inline struct emu_entry *emu_tx_slot(const struct emu_tx *tx)
{
    return tx->shape == EMU_LINK_LOCAL ? emu_ring_slot(&tx->data) : NULL;
}

static inline void emu_tx_publish(struct emu_tx *tx, uint64_t time_ps)
{
    tx->unnotified++;
    tx->credits--;
    emu_ring_publish(emu_ring_next(&tx->data), time_ps);
}

/**
 * emu_tx_sent - raw: count @count segments that the caller has sent through @data, its copy of
 * tx->data.
 */
static inline void emu_tx_sent(struct emu_tx *tx, const struct emu_ring_end *data, uint32_t count)
{
    tx->data = *data;
    tx->unnotified = (uint16_t)(tx->unnotified + count);
    tx->credits -= count;
}

/** emu_tx_copies_out - return whether emu_tx_send() copies (or drops) the payload at once. */
static inline bool emu_tx_copies_out(const struct emu_tx *tx)
{
    return tx->kind == EMU_LINK_HOSTIF;
}

/*
 * Count and record a segment that is sent to a process. Return the interface of the process; NULL:
 * no process is attached.
 */
static inline struct emu_hostif *emu_tx_out(struct emu_tx *tx, const struct emu_hdr *hdr,
                                            const struct emu_seg *payload)
{
    tx->unnotified++;
    if (__builtin_expect(tx->tapped, 0))
        emu_tap_copied(tx, hdr, payload);
    if (!tx->plug.plugged)
        emu_count(&tx->counts.dropped, 1);
    return tx->plug.plugged;
}

/** emu_tx_put - raw: send a segment on a hostif link. @payload: cache-line aligned, or NULL. */
static inline void emu_tx_put(struct emu_tx *tx, const struct emu_hdr *hdr,
                              const struct emu_seg *payload)
{
    struct emu_hostif *hostif = emu_tx_out(tx, hdr, payload);

    if (hostif)
        emu_hostif_put(hostif, hdr, payload);
}

/** emu_tx_put_run - raw: do emu_tx_put() for the @count segments in the buffers @bufs, in order. */
static inline void emu_tx_put_run(struct emu_tx *tx, struct emu_pool *pool, const uint32_t *bufs,
                                  uint32_t count)
{
    if (tx->plug.plugged && !tx->tapped) {
        tx->unnotified = (uint16_t)(tx->unnotified + count);
        emu_hostif_put_run(tx->plug.plugged, bufs, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        emu_tx_put(tx, &emu_pool_seg(pool, bufs[i])->hdr, emu_pool_seg(pool, bufs[i]));
}

/**
 * emu_tx_pass_run - raw: send up to @most segments to @dst straight from the interface @from of
 * another process, by emu_hostif_pass_run(). The caller has checked that they fit. Returns how many
 * were sent; 0 if none can be sent this way.
 */
static inline uint32_t emu_tx_pass_run(struct emu_tx *tx, struct emu_hostif *from, uint32_t dst,
                                       uint32_t most)
{
    uint32_t run = tx->plug.plugged && !tx->tapped
                       ? emu_hostif_pass_run(from, tx->plug.plugged, dst, most)
                       : 0;

    tx->unnotified = (uint16_t)(tx->unnotified + run);
    return run;
}

/**
 * emu_tx_refer - raw: send a reference to slot @on of the shared multicast buffer. @hdr, @payload:
 * the segment in it, for captures.
 */
static inline void emu_tx_refer(struct emu_tx *tx, uint32_t on, const struct emu_hdr *hdr,
                                const struct emu_seg *payload)
{
    struct emu_hostif *hostif = emu_tx_out(tx, hdr, payload);

    if (hostif)
        emu_hostif_refer(hostif, on, 1);
}

/** emu_tx_refers - raw: return whether emu_tx_refer_run() may be used. */
static inline bool emu_tx_refers(const struct emu_tx *tx)
{
    return tx->plug.plugged && !tx->tapped;
}

/** emu_tx_refer_run - raw: do emu_tx_refer() for @count slots of one block, beginning with @on. */
static inline void emu_tx_refer_run(struct emu_tx *tx, uint32_t on, uint32_t count)
{
    tx->unnotified = (uint16_t)(tx->unnotified + count);
    emu_hostif_refer(tx->plug.plugged, on, count);
}

/* Timed, not fused: take the next batch of credits. Returns false if none is on its way. */
static inline bool emu_tx_next_credit(struct emu_tx *tx)
{
    const struct emu_credit *back = emu_credit_front(&tx->credit);

    if (!back)
        return false;
    if (tx->credit_ps < back->time_ps)
        tx->credit_ps = back->time_ps;
    tx->credits = back->count;
    emu_credit_skip(&tx->credit);
    return true;
}

/**
 * emu_tx_earliest_ps - timed: return the earliest time, not before @ready_ps, at which a segment
 * may leave: the wire is free and a credit has arrived. Returns EMU_NEVER if no credit is here or
 * on its way. The device then gets EMU_EVENT_CREDIT when one is sent.
 *
 * Credits are taken one batch at a time, when none is left, so that no segment leaves before its
 * own credit arrives. A credit that is still on its way may be taken early, because credits arrive
 * in order.
 */
static inline __attribute__((always_inline)) uint64_t emu_tx_earliest_ps(struct emu_tx *tx,
                                                                         uint64_t ready_ps)
{
    uint64_t at_ps = ready_ps > tx->busy_ps ? ready_ps : tx->busy_ps;

    if (tx->fused) {
        uint64_t credit_ps = emu_ring_credit_ps(&tx->data);

        return at_ps > credit_ps ? at_ps : credit_ps;
    }
    if (tx->kind != EMU_LINK_LOCAL)
        return emu_tx_room_ps(tx, at_ps);
    if (!tx->credits && !emu_tx_next_credit(tx))
        return EMU_NEVER;
    return at_ps > tx->credit_ps ? at_ps : tx->credit_ps;
}

/** emu_tx_has_credit - local link: return whether a credit is here or on its way. */
static inline bool emu_tx_has_credit(const struct emu_tx *tx)
{
    if (tx->fused)
        return emu_ring_credit_ps(&tx->data) != EMU_NEVER;
    return tx->credits || emu_credit_front(&tx->credit);
}

/** emu_tx_depart_else - the slow path of emu_tx_depart(). */
void emu_tx_depart_else(struct emu_tx *tx, const struct emu_entry *entry, uint64_t depart_ps);

/* Put a segment on a local cable of @dev without taking a credit. */
static inline void emu_tx_depart_by(struct emu_tx *tx, struct emu_dev *dev,
                                    const struct emu_profile *profile,
                                    const struct emu_entry *entry, uint64_t depart_ps)
{
    uint64_t time_ps = depart_ps + profile->channel_ps + profile->switch_ps;

    tx->busy_ps = depart_ps + emu_wire_ps(profile, &entry->hdr);
    emu_dev_expect(dev, time_ps);
    emu_ring_put_at(&tx->data, entry, time_ps);
}

/* Do emu_tx_depart() on a local link without flags, but do not count the segment. */
static inline void emu_tx_depart_plain(struct emu_tx *tx, const struct emu_entry *entry,
                                       uint64_t depart_ps)
{
    emu_tx_depart_by(tx, tx->owner, tx->profile, entry, depart_ps);
    tx->credits--;
}

/**
 * emu_tx_depart - timed: put a segment on the wire; its head leaves at @depart_ps.
 *
 * Stamps the segment with the time at which its head has passed the next device's input: @depart_ps
 * plus the delays of the cable and of that switch (to a node: emu_profile_node_ps()). So no device
 * affects another in less than emu_profile_lookahead_ps(). If the segment goes to a process, the
 * stamp is the time at which the whole segment is in memory.
 * Source: output-queued routers, Table 1; modelling choice: docs/ARCHITECTURE.md, "Time".
 */
static inline void emu_tx_depart(struct emu_tx *tx, const struct emu_entry *entry,
                                 uint64_t depart_ps)
{
    if (tx->shape != EMU_LINK_LOCAL) {
        emu_tx_depart_else(tx, entry, depart_ps);
        return;
    }
    emu_tx_depart_plain(tx, entry, depart_ps);
    tx->unnotified++;
}

/** emu_tx_flush - signal the receiver that segments were sent. Call once per burst. */
static inline void emu_tx_flush(struct emu_tx *tx)
{
    if (!tx->unnotified)
        return;
    emu_count(&tx->counts.segments, tx->unnotified);
    tx->unnotified = 0;
    if (tx->kind == EMU_LINK_LOCAL) {
        if (!tx->cross_worker) /* otherwise the outbox signals it */
            emu_tx_notify(tx, tx->owner->worker);
    } else if (tx->plug.plugged) {
        emu_hostif_mark(tx->plug.plugged);
    }
}

/**
 * emu_tx_publish_few - raw: call emu_hostif_publish_few(), which publishes the segments written for
 * a process if they are a short message. Returns false if nothing was published.
 */
static inline bool emu_tx_publish_few(struct emu_tx *tx)
{
    if (tx->kind != EMU_LINK_HOSTIF || !tx->unnotified || !tx->plug.plugged)
        return false;
    emu_tx_flush(tx);
    return emu_hostif_publish_few(tx->plug.plugged);
}

/**
 * emu_tx_depart_notify - do emu_tx_depart() and emu_tx_flush() for a single segment. The caller has
 * flushed earlier segments. @dev, @profile: the sender's, which the caller has in registers.
 * Loading them from @tx would touch another cache line.
 */
static inline __attribute__((always_inline)) void emu_tx_depart_notify(
    struct emu_tx *tx, struct emu_dev *dev, const struct emu_profile *profile,
    const struct emu_entry *entry, uint64_t depart_ps)
{
    if (__builtin_expect(tx->shape == EMU_TX_FUSED, 1)) {
        emu_tx_depart_by(tx, dev, profile, entry, depart_ps);
        emu_count(&tx->counts.segments, 1);
        emu_signal(dev->worker, tx->peer.index, dev->worker, EMU_EVENT_DATA,
                   emu_port_signal(tx->peer.port));
    } else if (tx->shape == EMU_LINK_LOCAL) {
        emu_tx_depart_plain(tx, entry, depart_ps);
        emu_count(&tx->counts.segments, 1);
        emu_tx_notify(tx, dev->worker);
    } else {
        emu_tx_depart_else(tx, entry, depart_ps);
        emu_tx_flush(tx);
    }
}

/* --- receiving ---------------------------------------------------------------------- */

/** emu_rx_begin - begin a burst: load the interface of a hostif link as emu_tx_room() does. */
static inline void emu_rx_begin(struct emu_rx *rx)
{
    if (rx->kind == EMU_LINK_HOSTIF)
        /* E3 pairs with E4 */
        rx->plug.plugged = atomic_load_explicit(&rx->plug.hostif, memory_order_acquire);
}

/** emu_rx_front - return the oldest segment that has arrived by @until_ps, or NULL. */
static inline const struct emu_entry *emu_rx_front(struct emu_rx *rx, uint64_t until_ps)
{
    const struct emu_entry *entry;

    if (rx->kind == EMU_LINK_LOCAL) {
        entry = emu_ring_front(&rx->data);
        return entry && entry->time_ps <= until_ps ? entry : NULL;
    }
    return rx->plug.plugged ? emu_hostif_front(rx->plug.plugged, until_ps) : NULL;
}

/**
 * emu_rx_arrived - do emu_rx_front() at less cost. Call this only after emu_rx_front_ps() has
 * returned a time that is not later than @until_ps.
 */
static inline const struct emu_entry *emu_rx_arrived(struct emu_rx *rx, uint64_t until_ps)
{
    return rx->kind == EMU_LINK_LOCAL ? emu_ring_slot(&rx->data) : emu_rx_front(rx, until_ps);
}

/**
 * emu_rx_skip_at - remove the oldest segment at @at_ps, or when it has arrived, whichever is later.
 */
static inline void emu_rx_skip_at(struct emu_rx *rx, uint64_t at_ps)
{
    if (rx->kind == EMU_LINK_LOCAL) {
        emu_ring_skip(&rx->data);
        return;
    }
    if (__builtin_expect(rx->tapped, 0))
        emu_tap_took(rx, &rx->plug.plugged->batch[rx->plug.plugged->batch_at]);
    emu_hostif_skip(rx->plug.plugged, at_ps);
}

/** emu_rx_skip - remove the oldest segment as soon as it has arrived. */
static inline void emu_rx_skip(struct emu_rx *rx)
{
    emu_rx_skip_at(rx, 0);
}

/** emu_rx_done - end a burst in which @moved segments were removed. */
static inline void emu_rx_done(struct emu_rx *rx, uint32_t moved)
{
    emu_count(&rx->counts.segments, moved);
    if (rx->kind != EMU_LINK_LOCAL)
        emu_hostif_done(rx->plug.plugged, moved);
}

/**
 * emu_rx_front_ps - timed: return when the oldest segment arrives, or EMU_NEVER if none is known.
 * @until_ps: segments that arrive later are not fetched from a hostif link.
 */
static inline uint64_t emu_rx_front_ps(struct emu_rx *rx, uint64_t until_ps)
{
    const struct emu_entry *entry;

    if (rx->kind == EMU_LINK_LOCAL) {
        entry = emu_ring_front(&rx->data);
        return entry ? entry->time_ps : EMU_NEVER;
    }
    if (!rx->plug.plugged)
        return EMU_NEVER;
    entry = emu_hostif_front(rx->plug.plugged, until_ps);
    return entry ? entry->time_ps : emu_hostif_next_ps(rx->plug.plugged);
}

/** emu_rx_next_ps - do emu_rx_front_ps(), but do not fetch segments from a hostif link. */
static inline uint64_t emu_rx_next_ps(struct emu_rx *rx)
{
    return emu_rx_front_ps(rx, 0);
}

/** emu_rx_note - record returned credits for a capture, if the link is tapped. */
static inline void emu_rx_note(const struct emu_rx *rx, uint32_t count, uint32_t channel,
                               uint64_t arrive_ps)
{
    if (__builtin_expect(rx->tapped, 0))
        emu_tap_credits(rx, count, channel, arrive_ps);
}

/** emu_rx_pay_cross_worker - timed: return @count credits of @channel to a cross_worker sender. */
void emu_rx_pay_cross_worker(struct emu_rx *rx, uint32_t count, uint32_t channel,
                             uint64_t arrive_ps);

/** emu_rx_pay_else - the slow path of emu_rx_pay(). */
void emu_rx_pay_else(struct emu_rx *rx, struct emu_dev *dev, uint32_t owed, uint64_t arrive_ps);

static inline void emu_rx_pay_local(struct emu_rx *rx, struct emu_dev *dev, uint32_t owed,
                                    uint64_t arrive_ps)
{
    emu_credit_put(&rx->credit, owed, 0, arrive_ps);
    emu_dev_expect(dev, arrive_ps);
    emu_signal_credit(rx->remote, rx->peer.index, dev->worker, rx->peer.port);
}

static inline void emu_rx_pay_fused(struct emu_rx *rx, struct emu_dev *dev, uint32_t owed,
                                    uint64_t arrive_ps)
{
    do
        emu_ring_grant(&rx->data, rx->credit.at++, arrive_ps);
    while (__builtin_expect(--owed != 0, 0));
    emu_dev_expect(dev, arrive_ps);
    emu_signal_credit(dev->worker, rx->peer.index, dev->worker, rx->peer.port);
}

/**
 * emu_rx_pay - return all owed credits, at least one. They arrive at @arrive_ps. Call once per
 * burst on clock raw, and for each credit on timed clocks. @dev: the receiver's device; see
 * emu_tx_depart_notify().
 */
static inline void emu_rx_pay(struct emu_rx *rx, struct emu_dev *dev, uint64_t arrive_ps)
{
    uint32_t owed = rx->owed;

    rx->owed = 0;
    if (rx->shape == EMU_RX_FUSED)
        emu_rx_pay_fused(rx, dev, owed, arrive_ps);
    else if (rx->shape == EMU_LINK_LOCAL)
        emu_rx_pay_local(rx, dev, owed, arrive_ps);
    else
        emu_rx_pay_else(rx, dev, owed, arrive_ps);
}

/** emu_rx_fetch, emu_tx_fetch - prefetch the next slots of the rings, for dev->fetch(). */
static inline void emu_rx_fetch(const struct emu_rx *rx)
{
    if (rx->kind != EMU_LINK_LOCAL)
        return;
    emu_fetch_line(emu_ring_slot(&rx->data));
    emu_fetch_line(emu_ring_after(&rx->data)); /* emu_ring_skip() reads the next slot, too */
    if (!rx->fused)
        emu_fetch_line(emu_credit_slot(&rx->credit));
}

/** emu_rx_fetch_burst - raw: prefetch a burst's first slots; the processor prefetches the rest. */
static inline void emu_rx_fetch_burst(const struct emu_rx *rx)
{
    if (rx->kind == EMU_LINK_LOCAL)
        emu_fetch_lines(emu_ring_slot(&rx->data), emu_ring_slot(&rx->data) + EMU_RAW_SLOTS);
}

static inline void emu_tx_fetch(const struct emu_tx *tx)
{
    if (tx->kind != EMU_LINK_LOCAL)
        return;
    emu_fetch_line(emu_ring_slot(&tx->data));
    if (!tx->fused)
        emu_fetch_line(emu_credit_slot(&tx->credit));
}

#endif
