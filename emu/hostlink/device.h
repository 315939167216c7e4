/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - the parts of the host link (hostlink.h): cables (cable.c, rx.c), peers (peer.c), and
 * the device that owns both (hostlink.c). Only the device's thread uses the contents, except where
 * a comment says otherwise. "Our switch" is the switch or link engine on this host to which a cable
 * leads. An *incarnation* of a session lasts from a handshake until the session goes down. Its
 * *window* limits the frames in flight. Records (OLD, READY, TAKEN, ...) are described in wire.h.
 */
#ifndef EMU_HOSTLINK_DEVICE_H
#define EMU_HOSTLINK_DEVICE_H

#include "emu/hostlink/control.h"
#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/offset.h"
#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "emu/util/now.h"

#define HOSTLINK_ALL_MAX 4096u /* maximum number of cables of a host link */

/* Number of words in a bit set of @count numbers. */
#define HOSTLINK_WORDS(count) (((count) + 63u) / 64u)

struct hostlink_peer;

struct hostlink_cable {
    struct emu_hostlink_cable ends;
    struct hostlink_peer *peer;
    uint32_t number; /* index among the peer's cables */
    /* index among all cables of the host link; modulo 64, the number of its event bit */
    uint32_t index;
    /* maximum number of entries in flight per direction; 0: the cable is not joined */
    uint32_t slots;
    uint32_t credits; /* without channels: credits of our switch */
    /* maximum number of entries queued here until our switch has credits; 0 with channels */
    uint32_t depth;
    bool channels;
    struct emu_replay *replay; /* link-level retry to our switch; NULL: off */
    const struct emu_profile *profile;

    /* Sending. The arrays are indexed by channel; a cable without channels uses element 0. */

    /* segments sent whose credits have not returned; negative: forged credits were received */
    int32_t unpaid[EMU_VCS];
    /* credits to ignore, because they are for segments of an earlier incarnation */
    uint32_t old[EMU_VCS];
    uint32_t forged;    /* number of forged credits: sum of the negative unpaid[] */
    uint32_t in_flight; /* with channels: entries in flight or in the remote ring */

    /* Receiving. The arrays are indexed by channel. */

    /* segments received for our switch, which has not returned their credits */
    int32_t open[EMU_VCS];
    uint32_t paid[EMU_VCS]; /* credits that our switch has returned, to be sent to the peer */
    uint32_t pays;          /* by bit: channels whose paid[] is above 0 */
    /* with channels: ring slots that our switch has emptied, free-running */
    uint32_t emptied_at;
    uint32_t emptied;        /* emptied slots that were not yet reported to the peer */
    uint32_t waiting;        /* entries that wait for a pool buffer */
    struct emu_entry *queue; /* up to `depth` entries that wait until our switch has credits */
    uint32_t queue_mask;     /* number of slots of `queue`, a power of two, minus 1 */
    uint32_t queue_at;       /* index of the oldest entry in `queue`, free-running */
    uint32_t queued;         /* entries in `queue`; 0 while our switch has credits */
    /* by bit: channels whose OLD record was sent; credits of other channels are not sent yet */
    uint32_t announced;
    uint64_t last_ps; /* clock real: time of the last received entry */
    /* ring positions when the cable came up, for emu_hostlink_passed() */
    uint32_t sent_from, received_from;
};

/* Returns the slot of queued entry @i, or, if @i is `queued`, the slot for the next entry. */
static inline struct emu_entry *hostlink_queued(const struct hostlink_cable *cable, uint32_t i)
{
    return &cable->queue[(cable->queue_at + i) & cable->queue_mask];
}

/* A ring of received records whose entries wait for pool buffers. */
struct hostlink_room {
    uint8_t *record; /* the slots, each of EMU_HOSTLINK_ENTRY_MOST bytes */
    uint32_t slots;  /* number of slots: the entries that can be in flight on all cables */
    /* indexes of the next slot to fill and to empty; equal if the ring is empty or full */
    uint32_t put, got;
    uint32_t count;
};

/* A peer: another host. */
struct hostlink_peer {
    struct emu_hostlink *link;
    struct emu_session *session;
    uint64_t fabric;
    uint16_t from, to; /* host numbers: the peer's, and ours */
    uint32_t cables;
    struct hostlink_cable *cable;

    /* enum emu_hostlink_phase; emu_hostlink_bring_up() and _take_down() write it, too */
    _Atomic uint32_t phase;
    /* result of emu_hostlink_is_closed(); written by the device, read by any thread */
    _Atomic bool closed;

    /* incarnation of the session to which the state below belongs; 0: no session */
    uint64_t incarnation;
    bool up;     /* the cables are up */
    bool broken; /* the peer violated the protocol, so the session must end */
    bool full;   /* the session's window is full, so nothing can be sent */
    bool ready_sent;
    bool ready_received;
    uint32_t announces; /* the cable whose OLD records are sent next */
    /* round robin: number of the cable that may send now; `cables` means the control channel */
    uint32_t turn;
    uint32_t left; /* how many more entries that cable may send before the next one is served */
    /* by bit: cables that may have entries to send; bit `cables` is the control channel */
    uint64_t *active;
    uint64_t *owing;  /* by bit: cables that have CREDITS or TAKEN records to send */
    uint64_t owed_ns; /* time when the oldest of these records became due */
    bool pressing;    /* some of these records must not wait for a frame with entries */
    struct hostlink_room room;
    struct hostlink_control control;
    struct hostlink_offset offset;
    uint64_t clock_due_ns; /* time when the next CLOCK is sent */
    uint64_t moved_ns;     /* time when an entry was last sent or received */
    struct emu_hostlink_counts counts;
};

struct emu_hostlink {
    struct emu_dev dev;
    struct emu_hostlink_config config; /* without `peers` */
    struct emu_hostport *port;
    uint32_t peers;
    struct hostlink_peer *peer;
    uint32_t first;  /* index of the peer that is served first in the next step */
    uint32_t cables; /* number of cables of all peers */
    struct hostlink_cable **cable;
    /* by bit: cables whose ring to our switch was written in this step */
    uint64_t touched[HOSTLINK_WORDS(HOSTLINK_ALL_MAX)];
    uint64_t now_ns;      /* start of this step on the monotonic clock */
    uint64_t until_ps;    /* start of this step on the worker's clock */
    uint64_t received_ns; /* time when a frame was last received */
    uint64_t retry_ps;    /* earliest result of emu_replay_run(), over all cables */
    bool retries;         /* some cable has link-level retry */
    int wake_fd;          /* becomes readable when a frame arrives; -1: the port has none */
    /* steps in a row that moved no frame or entry */
    uint32_t idle;
    bool armed; /* each frame from now on makes wake_fd readable */
    struct emu_hostlink_port_counts counts;
};

/* --- cable.c ------------------------------------------------------------------------ */

enum hostlink_sent {
    HOSTLINK_SENT_MORE, /* the cable has used up its quantum, and has more entries */
    HOSTLINK_SENT_NONE, /* the cable has nothing that may be sent now */
    HOSTLINK_SENT_FULL  /* the session's window is full */
};

/* Sends up to *@left entries, and subtracts their number from *@left. */
enum hostlink_sent hostlink_cable_send(struct hostlink_cable *cable, uint32_t *left);

/*
 * Drops the entries that our switch sends while the cable is down, and returns their credits.
 * Returns how many entries were dropped.
 */
uint32_t hostlink_cable_discard(struct hostlink_cable *cable);

void hostlink_cable_collect(struct hostlink_cable *cable);

/* Counts ring slots that our switch has emptied. Returns whether to send a TAKEN, now or soon. */
bool hostlink_cable_empty(struct hostlink_cable *cable);

/* Sends CREDITS and TAKEN records. Returns false if the session's window is full. */
bool hostlink_cable_pay(struct hostlink_cable *cable);

/* Sends the OLD records of a cable. Returns false if some of them cannot be sent yet. */
bool hostlink_cable_announce(struct hostlink_cable *cable);

/* Processes a received CREDITS, TAKEN or OLD record. Returns false if its count is too large. */
bool hostlink_cable_credit(struct hostlink_cable *cable, const struct emu_hostlink_record *record);
bool hostlink_cable_taken(struct hostlink_cable *cable, uint32_t count);
bool hostlink_cable_old(struct hostlink_cable *cable, const struct emu_hostlink_record *record);

/* Returns the number of pool buffers of entries that wait for our switch. */
uint32_t hostlink_cable_bufs(const struct hostlink_cable *cable);

/* At the end of a session, resets the counts and returns the credits of sent segments. */
void hostlink_cable_cut(struct hostlink_cable *cable);

/* --- rx.c ------------------------------------------------------------------------- */

/*
 * Receives the entries at the start of @records, while the cables are up. Returns the number of
 * bytes of these entries; the record after them is malformed or not an entry. An entry that is
 * invalid or that the cable's counts do not allow is counted, and sets @peer->broken.
 */
uint32_t hostlink_entries_rx(struct hostlink_peer *peer, const uint8_t *records, uint32_t bytes);

/* Delivers to our switches the entries that waited for buffers. Returns their number. */
uint32_t hostlink_room_deliver(struct hostlink_peer *peer);

/* --- peer.c ------------------------------------------------------------------------- */

int hostlink_peer_init(struct hostlink_peer *peer, struct emu_hostlink *link,
                       const struct emu_hostlink_peer *config);
void hostlink_peer_free(struct hostlink_peer *peer);

void hostlink_peer_receive(struct hostlink_peer *peer, struct emu_hostframe *frame);

/* Takes the cables down or brings them up, if the session or the requested phase has changed. */
void hostlink_peer_check(struct hostlink_peer *peer);

/* Sends everything that is due. Returns the number of entries and control records sent. */
uint32_t hostlink_peer_send(struct hostlink_peer *peer);

/* Sets `closed` if the control channel is now closed. Call this after the session's step. */
void hostlink_peer_notice_close(struct hostlink_peer *peer);

/* Returns after how much time the peer must be stepped again, if no event occurs. */
uint64_t hostlink_peer_max_sleep_ns(const struct hostlink_peer *peer);

/* Sends one record. Returns false if the session's window is full. */
bool hostlink_put(struct hostlink_peer *peer, const struct emu_hostlink_record *record);

static inline uint64_t hostlink_now_ns(const struct emu_hostlink *link)
{
    return link->config.now_ns ? link->config.now_ns(link->config.now_ctx) : emu_now_ns();
}

static inline void hostlink_mark(uint64_t *set, uint32_t n)
{
    set[n / 64] |= emu_bit(n % 64);
}

static inline void hostlink_clear(uint64_t *set, uint32_t n)
{
    set[n / 64] &= ~emu_bit(n % 64);
}

/*
 * Notes that the cable has CREDITS or TAKEN records to send. @pressing: they must not wait for a
 * frame with entries.
 */
static inline void hostlink_set_owing(struct hostlink_cable *cable, bool pressing)
{
    struct hostlink_peer *peer = cable->peer;

    if (!peer->owed_ns)
        peer->owed_ns = peer->link->now_ns;
    peer->pressing |= pressing;
    hostlink_mark(peer->owing, cable->number);
}

/* Notes that the ring to our switch was written, so that this step notifies the switch. */
static inline void hostlink_set_touched(struct hostlink_cable *cable)
{
    hostlink_mark(cable->peer->link->touched, cable->index);
}

/*
 * Returns @born_ns + @by_ns, to convert the time at which an adapter posted a segment. The sending
 * host converts it from its fabric's time to its monotonic clock, and the receiving host from there
 * to its own fabric's time. The low 32 bits are enough. 0 means unknown, and stays 0.
 */
static inline uint32_t hostlink_born_ns(uint32_t born_ns, uint64_t by_ns)
{
    return born_ns ? born_ns + (uint32_t)by_ns : born_ns;
}

static inline void hostlink_set_active(struct hostlink_cable *cable)
{
    hostlink_mark(cable->peer->active, cable->number);
}

#endif
