/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.h - one direction of a cable: segments forward, credits back.
 *
 * The sending end (emu_tx) spends a credit a segment and the receiving end
 * (emu_rx) gives it back when its buffer policy says so. Two kinds stand behind
 * one interface: *local*, a pair of rings between two devices of this process,
 * and *edge*, the cable to an application's process (hostif/fabric/fabric.h). An edge
 * end without a process is unplugged: what is sent there is dropped and counted.
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
    EMU_LINK_NONE, /* nothing plugged in, ever */
    EMU_LINK_LOCAL,
    EMU_LINK_EDGE
};

/* What a sending end counts; one writer, its device. */
struct emu_port_counts {
    _Atomic uint64_t segments; /* sent */
    _Atomic uint64_t stalls;   /* a segment waited and no credit was there */
    _Atomic uint64_t dropped;  /* to an unplugged edge */
};

/* What an end has that is plugged into a process, instead of two rings. */
struct emu_plug {
    _Atomic(struct emu_hostif *) edge; /* published by the manager (RCU); NULL: unplugged */
    struct emu_hostif *plugged;        /* the edge as of the last look: good for this pass */
};

/*
 * The sending end, the sending device's but for plug.edge. Two lines with a switch's own, of which
 * a segment by a fused cable touches the first alone.
 */
struct emu_tx {
    union {
        struct {
            uint8_t kind;    /* enum emu_link_kind */
            bool slow : 1;   /* `profile` is that of a struct emu_slow; raw: none is */
            bool tapped : 1; /* what is sent is told to emu_tap_sent() */
            bool apart : 1;  /* the far end is another worker's: emu_link_apart() */
            bool fused : 1;  /* its credits are in `data`: emu_link_join_fused() */
        };
        uint16_t shape; /* both, for one look: EMU_LINK_LOCAL is such a cable and nothing else */
    };
    uint16_t untold;  /* segments sent that the receiver has not been told of */
    uint32_t credits; /* segments that may be sent; fused: 0 */
    uint64_t busy_ps; /* the wire is taken until then; raw: 0. EMU_NEVER: the port is stuck */
    union {
        struct emu_ring_end data; /* EMU_LINK_LOCAL: produces */
        struct emu_plug plug;     /* EMU_LINK_EDGE */
    };
    struct emu_peer peer; /* EMU_LINK_LOCAL */
    struct emu_port_counts counts;
    uint64_t credit_ps; /* when the credits in hand came; raw: 0. Stuck: nothing leaves before */
    /* EMU_LINK_LOCAL: */
    struct emu_credit_end credit; /* consumes */
    struct emu_worker *far;       /* of the device at the far end */
    const struct emu_profile *profile;
    struct emu_dev *owner;
};

/* The receiving end, the receiving device's but for plug.edge. A line, and what is seldom used. */
struct emu_rx {
    union {
        struct {
            uint8_t kind;    /* enum emu_link_kind */
            bool tapped : 1; /* what goes back, and from an edge what comes: emu_tap_*() */
            bool apart : 1;  /* as in a sending end, for what goes back */
            bool fused : 1;  /* as in a sending end: of `credit` only the place is used */
        };
        uint16_t shape; /* as in a sending end */
    };
    uint8_t port;
    uint32_t owed; /* credits to give back */
    struct {
        _Atomic uint64_t segments; /* received */
    } counts;
    union {
        struct {                          /* EMU_LINK_LOCAL */
            struct emu_ring_end data;     /* consumes */
            struct emu_credit_end credit; /* produces */
            struct emu_peer peer;
            struct emu_worker *far;
            struct emu_tx *tx; /* the other end; not touched while workers run */
            /*
             * The cable goes on to another host, and the other end is a host link's: 1 + the number
             * of the device beyond it, switches before nodes. 0: it does not.
             */
            uint32_t beyond;
        };
        struct { /* EMU_LINK_EDGE */
            struct emu_plug plug;
            struct emu_credits *credits; /* the adapter's; they outlive processes */
        };
    };
    struct emu_dev *owner;
};
static_assert(offsetof(struct emu_rx, tx) == EMU_LINE, "what each pass touches is in one line");

/* `shape` is compared with a kind: the kind is its lower byte. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower byte comes first");
static_assert(offsetof(struct emu_tx, shape) == offsetof(struct emu_tx, kind) &&
                  offsetof(struct emu_tx, untold) == 2,
              "kind and bits, and no more");

/* In `shape`: `apart` and `fused` of a sending end, and `fused` of a receiving one. */
#define EMU_SHAPE_APART 0x400u
#define EMU_SHAPE_FUSED 0x800u
#define EMU_TX_FUSED    (EMU_LINK_LOCAL | EMU_SHAPE_FUSED)
#define EMU_RX_FUSED    (EMU_LINK_LOCAL | 0x400u)

/** emu_tx_is_cable - is it a plain local cable, be its far end apart or not, fused or not? */
static inline bool emu_tx_is_cable(const struct emu_tx *tx)
{
    return (tx->shape & ~(EMU_SHAPE_APART | EMU_SHAPE_FUSED)) == EMU_LINK_LOCAL;
}

/* A sending end whose wire takes longer for each byte than its device's profile says. */
struct emu_slow {
    struct emu_profile profile;    /* the device's, but for link_ps_per_byte */
    const struct emu_profile *own; /* the device's; NULL: it is not slow */
};

/**
 * emu_slow_set - set the profile to @own, but with @factor / 1000 times the time for a byte,
 * rounded up.
 */
void emu_slow_set(struct emu_slow *slow, const struct emu_profile *own, uint32_t factor);

/**
 * emu_tx_slow - timed: a byte takes @factor / 1000 times as long from the next segment on, rounded
 * up to whole ps; 1000: as the profile says. @slow: the end's until the end, zeros at first.
 * Thread: any, while the device stands still.
 */
void emu_tx_slow(struct emu_tx *tx, struct emu_slow *slow, uint32_t factor);

/**
 * emu_tx_late_ps - timed, a slow wire: so much later than by the profile the last of @bytes is at
 * the far end, and the first may be passed on, for what follows at the profile's rate must be
 * there.
 */
uint64_t emu_tx_late_ps(const struct emu_tx *tx, uint64_t bytes);

/**
 * emu_tx_stick - nothing is sent from now on; not @stuck: it may be again, from @at_ps on (raw: 0).
 * Thread: the same.
 */
void emu_tx_stick(struct emu_tx *tx, bool stuck, uint64_t at_ps);

/** emu_tx_is_stuck - is it? Thread: the same. */
static inline bool emu_tx_is_stuck(const struct emu_tx *tx)
{
    return tx->busy_ps == EMU_NEVER;
}

/** emu_tx_tell, emu_rx_tell - tell the far end of what was sent. @from: the calling worker. */
static inline void emu_tx_tell(const struct emu_tx *tx, const struct emu_worker *from)
{
    emu_signal(tx->far, tx->peer.index, from, EMU_EVENT_DATA, emu_port_signal(tx->peer.port));
}

static inline void emu_rx_tell(const struct emu_rx *rx, const struct emu_worker *from)
{
    emu_signal(rx->far, rx->peer.index, from, EMU_EVENT_CREDIT, emu_port_signal(rx->peer.port));
}

/**
 * emu_link_join - plug a local cable: @tx of @from's port to @rx of @to's port, with @credits
 * credits. Errors: -ENOMEM.
 */
int emu_link_join(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port, struct emu_rx *rx,
                  struct emu_dev *to, uint8_t to_port, uint32_t credits,
                  const struct emu_profile *profile);

/**
 * emu_link_join_fused - emu_link_join() of a cable whose credits lie in the slots of its ring that
 * they stand for: to take one, and to send a segment, touches one line in the place of two, and
 * there is no ring of credits. Clock virtual: 1.1 times the hops a second. For timed
 * clocks, devices of one worker, and ends that look at credits by emu_tx_earliest_ps() alone and
 * send by @profile. Errors: -ENOMEM.
 */
int emu_link_join_fused(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port,
                        struct emu_rx *rx, struct emu_dev *to, uint8_t to_port, uint32_t credits,
                        const struct emu_profile *profile);

/**
 * emu_link_unfuse - from now on a local cable is as emu_link_join() makes it, with all that is on
 * it. @rx: the receiving end. Errors: -ENOMEM. Thread: any, while both ends' workers stand still.
 */
int emu_link_unfuse(struct emu_rx *rx);

/**
 * emu_link_apart - clock virtual: if two workers step the ends of a cable, what passes between them
 * goes by their outboxes from now on, both ways (emu/dev/outbox.h). For cables whose ends are
 * looked at in windows alone, not between them; before emu_outbox_open(). Thread: any, while both
 * stand still. Errors: -ENOMEM.
 */
int emu_link_apart(struct emu_tx *tx, struct emu_rx *rx);

/** emu_link_bytes - memory that the rings of such a cable take. Pure. */
static inline size_t emu_link_bytes(uint32_t credits)
{
    return emu_ring_bytes(credits) + emu_credit_bytes(credits);
}

/**
 * emu_link_credits - credits of a local cable that its sender has, or that are on their way back.
 * @rx: the receiving end. Thread: any, while both ends' workers stand still.
 */
uint64_t emu_link_credits(const struct emu_rx *rx);

/** emu_link_unjoin - free what emu_link_join() made. After the workers have ended. */
void emu_link_unjoin(struct emu_tx *tx);

/**
 * emu_link_edge - make both ends of a switch port edge ends, unplugged as yet. Errors: -ENOMEM.
 */
int emu_link_edge(struct emu_tx *tx, struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                  uint32_t credits, const struct emu_profile *profile);

/** emu_link_free_edge - free what emu_link_edge() made. After the workers have ended. */
void emu_link_free_edge(struct emu_rx *rx);

/**
 * emu_tx_rebase, emu_rx_rebase - the clock is rebased by @by_ps: the times of an end, and
 * with its receiving end those in the rings of a local cable. Thread: any, while workers stand
 * still.
 */
void emu_tx_rebase(struct emu_tx *tx, uint64_t by_ps);
void emu_rx_rebase(struct emu_rx *rx, uint64_t by_ps);

/**
 * emu_link_check - what must hold on a local cable at any time: no segment was lost or made, and
 * its credits add up. Returns NULL, or what is wrong.
 * @rx: the receiving end. @held: credits that what it holds stands for. @credits: in all.
 * Thread: any, while both ends' workers stand still.
 */
const char *emu_link_check(const struct emu_rx *rx, uint32_t held, uint32_t credits);

/**
 * emu_link_check_segments - the same of its segments alone: what was sent has come, or is on it.
 */
const char *emu_link_check_segments(const struct emu_rx *rx);

/** emu_hostif_check - the same of the credits of a cable from a process. */
const char *emu_hostif_check(const struct emu_rx *rx, uint32_t held, uint32_t credits);

/**
 * emu_credits_wrong - there are @sum credits and there should be @credits, which is not as many.
 */
static inline const char *emu_credits_wrong(uint64_t sum, uint64_t credits)
{
    return sum < credits ? "credits were lost on the cable to here"
                         : "credits were made on the cable to here";
}

/**
 * emu_link_bufs - pool buffers that are on a local cable now: references. Any other cable: 0.
 * Thread: any, while both ends' workers stand still.
 */
uint32_t emu_link_bufs(const struct emu_rx *rx);

/** emu_link_holds - is a segment of group @id on a local cable now? Thread: the same. */
bool emu_link_holds(const struct emu_rx *rx, uint32_t id);

/* --- sending ------------------------------------------------------------------------ */

/** emu_tx_take_credits - raw: collect the credits that came back. */
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
 * emu_tx_room - segments that may be sent now.
 * Looks an edge up once: it may be unplugged at any time, but is not freed in this pass.
 */
static inline uint32_t emu_tx_room(struct emu_tx *tx)
{
    if (tx->kind == EMU_LINK_LOCAL)
        return tx->credits;
    tx->plug.plugged =
        atomic_load_explicit(&tx->plug.edge, memory_order_acquire); /* E3: E4, fabric/nodes.c */
    return tx->plug.plugged ? emu_hostif_room(tx->plug.plugged) : UINT32_MAX;
}

/**
 * emu_tx_has_room - are there as many as @count, for who has perhaps nothing to send? Where there
 * are not nobody is said to wait, as emu_tx_room() says it.
 */
static inline bool emu_tx_has_room(struct emu_tx *tx, uint32_t count)
{
    if (tx->kind == EMU_LINK_LOCAL)
        return tx->credits >= count;
    tx->plug.plugged =
        atomic_load_explicit(&tx->plug.edge, memory_order_acquire); /* E3: E4, fabric/nodes.c */
    return !tx->plug.plugged || emu_hostif_has_room(tx->plug.plugged, count);
}

/** emu_tx_drop - emu_tx_send() where nothing is plugged in. */
void emu_tx_drop(struct emu_tx *tx, const struct emu_entry *entry);

/** emu_tx_send_else - emu_tx_send() where it is no plain local cable: an edge, slow, or tapped. */
void emu_tx_send_else(struct emu_tx *tx, const struct emu_entry *entry);

/**
 * emu_tx_send - put one segment on the wire; its buffer reference passes on.
 *
 * Cost: one credit; the caller saw emu_tx_room(). Told to the receiver by emu_tx_flush().
 * Thread: the sending device's worker; may overlap everything at the other end.
 * Source: output-queued routers §2; deviation: credits may return in batches.
 */
static inline void emu_tx_send(struct emu_tx *tx, const struct emu_entry *entry)
{
    tx->untold++;
    if (tx->shape == EMU_LINK_LOCAL) {
        emu_ring_put(&tx->data, entry); /* there is a slot for each credit */
        tx->credits--;
    } else {
        emu_tx_send_else(tx, entry);
    }
}

/**
 * emu_tx_send_plain - raw: emu_tx_send() where the caller knows that it is a plain local cable.
 * Returns the credits that are left. On clock raw all times are 0.
 */
static inline uint32_t emu_tx_send_plain(struct emu_tx *tx, const struct emu_entry *entry)
{
    emu_ring_put_at(&tx->data, entry, 0);
    tx->untold++;
    return --tx->credits;
}

/**
 * emu_tx_slot, emu_tx_show - emu_tx_send() without a copy, where it is a plain local cable: the
 * slot to be filled, but for its stamp; and then it is sent. NULL: it is no such cable.
 */
static inline struct emu_entry *emu_tx_slot(const struct emu_tx *tx)
{
    return tx->shape == EMU_LINK_LOCAL ? emu_ring_slot(&tx->data) : NULL;
}

static inline void emu_tx_show(struct emu_tx *tx, uint64_t time_ps)
{
    tx->untold++;
    tx->credits--;
    emu_ring_show(emu_ring_next(&tx->data), time_ps);
}

/**
 * emu_tx_sent - the same of @count, which were put into the ring by a copy of its end, @data, as it
 * is now.
 */
static inline void emu_tx_sent(struct emu_tx *tx, const struct emu_ring_end *data, uint32_t count)
{
    tx->data = *data;
    tx->untold = (uint16_t)(tx->untold + count);
    tx->credits -= count;
}

/**
 * emu_tx_copies_out - does the far end copy a payload out during the call? A process's edge does,
 * and a port without one drops it.
 */
static inline bool emu_tx_copies_out(const struct emu_tx *tx)
{
    return tx->kind == EMU_LINK_EDGE;
}

/* A segment goes out there. Returns to whom; NULL: nothing is plugged in, and it is dropped. */
static inline struct emu_hostif *emu_tx_out(struct emu_tx *tx, const struct emu_hdr *hdr,
                                            const struct emu_seg *payload)
{
    tx->untold++;
    if (__builtin_expect(tx->tapped, 0))
        emu_tap_copied(tx, hdr, payload);
    if (!tx->plug.plugged)
        emu_count(&tx->counts.dropped, 1);
    return tx->plug.plugged;
}

/**
 * emu_tx_put - raw: emu_tx_send() where that is so, of a payload of the caller's at a line; NULL:
 * there is none.
 */
static inline void emu_tx_put(struct emu_tx *tx, const struct emu_hdr *hdr,
                              const struct emu_seg *payload)
{
    struct emu_hostif *edge = emu_tx_out(tx, hdr, payload);

    if (edge)
        emu_hostif_put(edge, hdr, payload);
}

/**
 * emu_tx_put_run - raw: the same of @count in a row, which lie in the pool's @bufs as they are to
 * be sent.
 */
static inline void emu_tx_put_run(struct emu_tx *tx, struct emu_pool *pool, const uint32_t *bufs,
                                  uint32_t count)
{
    if (tx->plug.plugged && !tx->tapped) {
        tx->untold = (uint16_t)(tx->untold + count);
        emu_hostif_put_run(tx->plug.plugged, bufs, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        emu_tx_put(tx, &emu_pool_seg(pool, bufs[i])->hdr, emu_pool_seg(pool, bufs[i]));
}

/**
 * emu_tx_pass_run - raw: full unicasts to @dst at the front of @from, up to @most, which there is
 * room for: emu_hostif_pass_run(). 0: none of them can go so.
 */
static inline uint32_t emu_tx_pass_run(struct emu_tx *tx, struct emu_hostif *from, uint32_t dst,
                                       uint32_t most)
{
    uint32_t run = tx->plug.plugged && !tx->tapped
                       ? emu_hostif_pass_run(from, tx->plug.plugged, dst, most)
                       : 0;

    tx->untold = (uint16_t)(tx->untold + run);
    return run;
}

/**
 * emu_tx_refer - raw: the same of what lies at @on on the shelf of its switch; @hdr, @payload: that
 * segment, for captures.
 */
static inline void emu_tx_refer(struct emu_tx *tx, uint32_t on, const struct emu_hdr *hdr,
                                const struct emu_seg *payload)
{
    struct emu_hostif *edge = emu_tx_out(tx, hdr, payload);

    if (edge)
        emu_hostif_refer(edge, on, 1);
}

/** emu_tx_refers - raw: may several go so at once? Not to nobody, nor where they are tapped. */
static inline bool emu_tx_refers(const struct emu_tx *tx)
{
    return tx->plug.plugged && !tx->tapped;
}

/** emu_tx_refer_run - raw: emu_tx_refer() of @count of one part of the shelf, from @on on. */
static inline void emu_tx_refer_run(struct emu_tx *tx, uint32_t on, uint32_t count)
{
    tx->untold = (uint16_t)(tx->untold + count);
    emu_hostif_refer(tx->plug.plugged, on, count);
}

/* Timed, not fused: the next batch of credits is in hand. False: none is on its way. */
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
 * emu_tx_earliest_ps - timed: when a segment that is ready at @ready_ps may leave.
 *
 * Once it is ready, the wire is free and a credit is there. Credits are taken one batch at a
 * time, when there is none left, so that a segment leaves no earlier than its own credit comes;
 * one that is on its way may be taken before its time, because nothing can overtake it.
 * EMU_NEVER: none is on its way; EMU_EVENT_CREDIT tells when one is.
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
        return emu_tx_room(tx) ? at_ps : EMU_NEVER;
    if (!tx->credits && !emu_tx_next_credit(tx))
        return EMU_NEVER;
    return at_ps > tx->credit_ps ? at_ps : tx->credit_ps;
}

/**
 * emu_tx_has_credit - is there one, or on its way? Of a local cable. Thread: its device's worker,
 * or any while that stands still.
 */
static inline bool emu_tx_has_credit(const struct emu_tx *tx)
{
    if (tx->fused)
        return emu_ring_credit_ps(&tx->data) != EMU_NEVER;
    return tx->credits || emu_credit_front(&tx->credit);
}

/** emu_tx_depart_else - emu_tx_depart() where it is no plain local cable. */
void emu_tx_depart_else(struct emu_tx *tx, const struct emu_entry *entry, uint64_t depart_ps);

/* Onto the wire of a cable of @dev, which sends by @profile, and no more. */
static inline void emu_tx_depart_by(struct emu_tx *tx, struct emu_dev *dev,
                                    const struct emu_profile *profile,
                                    const struct emu_entry *entry, uint64_t depart_ps)
{
    uint64_t time_ps = depart_ps + profile->channel_ps + profile->switch_ps;

    tx->busy_ps = depart_ps + emu_wire_ps(profile, &entry->hdr);
    emu_dev_expect(dev, time_ps);
    emu_ring_put_at(&tx->data, entry, time_ps);
}

/* Where it is one. The receiver has not been told. */
static inline void emu_tx_depart_plain(struct emu_tx *tx, const struct emu_entry *entry,
                                       uint64_t depart_ps)
{
    emu_tx_depart_by(tx, tx->owner, tx->profile, entry, depart_ps);
    tx->credits--;
}

/**
 * emu_tx_depart - timed: put a segment on the wire; its head leaves at @depart_ps.
 *
 * Stamps it with the time at which its head is through the far end's ingress: the cable and the
 * switch (to a node: emu_profile_node_ps()), so that no device can act on another within less than
 * emu_profile_lookahead_ps(). A process sees the segment when it lies in memory whole.
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
    tx->untold++;
}

/** emu_tx_flush - tell the receiver. Once a burst. */
static inline void emu_tx_flush(struct emu_tx *tx)
{
    if (!tx->untold)
        return;
    emu_count(&tx->counts.segments, tx->untold);
    tx->untold = 0;
    if (tx->kind == EMU_LINK_LOCAL) {
        if (!tx->apart) /* else it has been, or will be */
            emu_tx_tell(tx, tx->owner->worker);
    } else if (tx->plug.plugged) {
        emu_hostif_mark(tx->plug.plugged);
    }
}

/**
 * emu_tx_show_few - raw: the process there sees what was written for it: emu_hostif_show_few(),
 * with what is to follow. False: it is no process, or not yet to see it.
 */
static inline bool emu_tx_show_few(struct emu_tx *tx)
{
    if (tx->kind != EMU_LINK_EDGE || !tx->untold || !tx->plug.plugged)
        return false;
    emu_tx_flush(tx);
    return emu_hostif_show_few(tx->plug.plugged);
}

/**
 * emu_tx_depart_told - emu_tx_depart() of a segment that is a burst by itself: the receiver is told
 * at once. All others have been. @dev, @profile: its device, and what that sends by, which the
 * caller has at hand: here they would cost a line.
 */
static inline __attribute__((always_inline)) void emu_tx_depart_told(
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
        emu_tx_tell(tx, dev->worker);
    } else {
        emu_tx_depart_else(tx, entry, depart_ps);
        emu_tx_flush(tx);
    }
}

/* --- receiving ---------------------------------------------------------------------- */

/** emu_rx_begin - before a burst: look an edge up, once for this pass (see emu_tx_room()). */
static inline void emu_rx_begin(struct emu_rx *rx)
{
    if (rx->kind == EMU_LINK_EDGE)
        rx->plug.plugged = atomic_load_explicit(&rx->plug.edge, memory_order_acquire); /* E3: E4 */
}

/** emu_rx_front - the oldest segment that has arrived by @until_ps, or NULL. */
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
 * emu_rx_arrived - the same where it is known that there is one, for its time was looked at
 * (emu_rx_front_ps()): a local cable's is not looked at again.
 */
static inline const struct emu_entry *emu_rx_arrived(struct emu_rx *rx, uint64_t until_ps)
{
    return rx->kind == EMU_LINK_LOCAL ? emu_ring_slot(&rx->data) : emu_rx_front(rx, until_ps);
}

/** emu_rx_skip - done with the front segment. */
static inline void emu_rx_skip(struct emu_rx *rx)
{
    if (rx->kind == EMU_LINK_LOCAL) {
        emu_ring_skip(&rx->data);
        return;
    }
    if (__builtin_expect(rx->tapped, 0))
        emu_tap_took(rx, &rx->plug.plugged->batch[rx->plug.plugged->batch_at]);
    emu_hostif_skip(rx->plug.plugged);
}

/** emu_rx_done - end of a burst of @moved segments. */
static inline void emu_rx_done(struct emu_rx *rx, uint32_t moved)
{
    emu_count(&rx->counts.segments, moved);
    if (rx->kind != EMU_LINK_LOCAL)
        emu_hostif_done(rx->plug.plugged, moved);
}

/**
 * emu_rx_front_ps - timed: when the oldest segment arrives, if it is known, else EMU_NEVER.
 * @until_ps: an edge is asked for what is due by then.
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

/** emu_rx_next_ps - the same, of what is known already. */
static inline uint64_t emu_rx_next_ps(struct emu_rx *rx)
{
    return emu_rx_front_ps(rx, 0);
}

/** emu_rx_note - what goes back is told to the tap, where there is one. */
static inline void emu_rx_note(const struct emu_rx *rx, uint32_t count, uint32_t channel,
                               uint64_t arrive_ps)
{
    if (__builtin_expect(rx->tapped, 0))
        emu_tap_credits(rx, count, channel, arrive_ps);
}

/** emu_rx_pay_apart - timed: @count credits of @channel go back to another worker's device. */
void emu_rx_pay_apart(struct emu_rx *rx, uint32_t count, uint32_t channel, uint64_t arrive_ps);

/** emu_rx_pay_else - emu_rx_pay() where it is no plain local cable: an edge, or tapped. */
void emu_rx_pay_else(struct emu_rx *rx, struct emu_dev *dev, uint32_t owed, uint64_t arrive_ps);

/* Of a local cable: @owed credits go back. */
static inline void emu_rx_pay_local(struct emu_rx *rx, struct emu_dev *dev, uint32_t owed,
                                    uint64_t arrive_ps)
{
    emu_credit_put(&rx->credit, owed, 0, arrive_ps);
    emu_dev_expect(dev, arrive_ps);
    emu_signal_credit(rx->far, rx->peer.index, dev->worker, rx->peer.port);
}

/* Of a fused one. */
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
 * emu_rx_pay - give the owed credits back; they arrive at @arrive_ps. Once a burst in raw, at once
 * when timed. There are some. @dev: its device, which the caller has at hand: here it would cost a
 * line.
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

/**
 * emu_rx_fetch, emu_tx_fetch - ask for the lines of its rings that it will touch next
 * (emu_fetch_fn). Thread: the end's device's.
 */
static inline void emu_rx_fetch(const struct emu_rx *rx)
{
    if (rx->kind != EMU_LINK_LOCAL)
        return;
    emu_fetch_line(emu_ring_slot(&rx->data));
    emu_fetch_line(emu_ring_after(&rx->data)); /* looked at when the one before it is taken */
    if (!rx->fused)
        emu_fetch_line(emu_credit_slot(&rx->credit));
}

/**
 * emu_rx_fetch_burst - ask for the slots that are taken next, many at a time, on clock raw; those
 * behind them the processor asks for by itself.
 */
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
