/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - the parts of the host link's device: cables (cable.c, rx.c), peers, which are other
 * hosts (peer.c), and the device that owns both (hostlink.c). Everything is used only by the
 * device's thread, except where a comment says otherwise.
 */
#ifndef EMU_HOSTLINK_DEVICE_H
#define EMU_HOSTLINK_DEVICE_H

#include "emu/hostlink/control.h"
#include "emu/hostlink/hostlink.h"
#include "emu/hostlink/offset.h"
#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "emu/util/now.h"

#define HOSTLINK_ALL_MAX 4096u /* cables of a device, at most */

/* Words of a bit set of @count numbers. */
#define HOSTLINK_WORDS(count) (((count) + 63u) / 64u)

struct hostlink_peer;

struct hostlink_cable {
    struct emu_hostlink_cable ends;
    struct hostlink_peer *peer;
    uint32_t number;  /* index among its peer's cables */
    uint32_t any;     /* index in the device; the event bit is this modulo 64 */
    uint32_t slots;   /* most entries in flight per direction; 0: not joined */
    uint32_t credits; /* without channels: credits of our switch, */
    uint32_t depth;   /* and most entries queued here for its credits */
    bool channels;
    struct emu_replay *replay; /* link-level retry to our switch; NULL: none */
    const struct emu_profile *profile;

    /* Sending, by channel; channel 0 if the cable has no channels. */
    int32_t unpaid[EMU_VCS]; /* segments sent without a credit yet; negative: forged credits */
    uint32_t old[EMU_VCS];   /* credits to ignore: for segments of an earlier incarnation */
    uint32_t forged;         /* sum of the negative unpaid[], as a positive number */
    uint32_t in_flight;      /* channels: entries in flight or in the remote ring */

    /* Receiving. */
    int32_t open[EMU_VCS];   /* segments given to our switch and not credited by it */
    uint32_t paid[EMU_VCS];  /* credits that our switch returned, to be sent */
    uint32_t pays;           /* channels with paid[] > 0, by bit */
    uint32_t emptied_at;     /* channels: slots that our switch has emptied; free-running */
    uint32_t emptied;        /* of these, not yet reported to the peer */
    uint32_t waiting;        /* entries that wait for a pool buffer */
    struct emu_entry *queue; /* up to `depth` entries that wait for credits of our switch */
    uint32_t queue_mask;     /* number of slots, a power of two, less 1 */
    uint32_t queue_at;       /* index of the first entry, free-running */
    uint32_t queued;         /* entries in it; 0 unless the switch has no credits */
    uint32_t announced;      /* channels, by bit, whose OLD was sent: credits count from then on */
    uint64_t last_ps;        /* clock real: time of the last entry */
    uint32_t sent_from, received_from; /* when the cables came up: emu_hostlink_passed() */
};

/* The slot of the @i-th queued entry; @i = queued: of the next one to queue. */
static inline struct emu_entry *hostlink_queued(const struct hostlink_cable *cable, uint32_t i)
{
    return &cable->queue[(cable->queue_at + i) & cable->queue_mask];
}

/* A ring of records of entries that wait for pool buffers. */
struct hostlink_room {
    uint8_t *record;   /* EMU_HOSTLINK_ENTRY_MOST each */
    uint32_t slots;    /* as many entries as all cables allow in flight */
    uint32_t put, got; /* modulo slots; equal when the ring is empty or full: see count */
    uint32_t count;
};

/* Another host. */
struct hostlink_peer {
    struct emu_hostlink *link;
    struct emu_session *session;
    uint64_t fabric;
    uint16_t from, to; /* the peer's host number, and ours */
    uint32_t cables;
    struct hostlink_cable *cable;

    _Atomic uint32_t phase; /* enum emu_hostlink_phase: see emu_hostlink_bring_up() */
    _Atomic bool closed;    /* emu_hostlink_is_closed(); written by the device */

    /* incarnation of the session that the counts below belong to; 0: none */
    uint64_t incarnation;
    bool up;             /* entries are sent and received */
    bool broken;         /* the peer violated the protocol: end the session */
    bool full;           /* the session's window is full */
    bool ready_sent;     /* READY was sent in this incarnation */
    bool ready_received; /* READY was received in this incarnation */
    uint32_t announces;  /* the cable whose OLD records are sent next */
    uint32_t turn;       /* round robin: the current cable; `cables`: the control channel */
    uint32_t left;       /* entries that it may still send before the next one */
    uint64_t *active;    /* cables that may have entries to send, by bit */
    uint64_t *owing;     /* cables with credits or TAKEN to send, by bit */
    uint64_t owed_ns;    /* time since when the oldest of these waits */
    bool pressing;       /* some must not wait for a frame with entries */
    struct hostlink_room room;
    struct hostlink_control control;
    struct hostlink_offset offset;
    uint64_t clock_due_ns; /* time of the next CLOCK */
    uint64_t moved_ns;     /* time of the last entry, sent or received */
    struct emu_hostlink_counts counts;
};

struct emu_hostlink {
    struct emu_dev dev;
    struct emu_hostlink_config config; /* without the peers */
    struct emu_hostport *port;
    uint32_t peers;
    struct hostlink_peer *peer;
    uint32_t first;              /* the peer that is served first: rotates */
    uint32_t all;                /* cables */
    struct hostlink_cable **any; /* all cables, by `any` */
    /* cables whose switch ring was written, by bit */
    uint64_t touched[HOSTLINK_WORDS(HOSTLINK_ALL_MAX)];
    uint64_t now_ns;      /* start of this step on the monotonic clock, */
    uint64_t until_ps;    /* and on the worker's clock */
    uint64_t received_ns; /* time of the last received frame */
    uint64_t retry_ps;    /* earliest result of emu_replay_run() */
    bool retries;         /* some cable has link-level retry */
    int wake_fd;          /* -1: the port has none */
    uint32_t idle;        /* passes since anything moved */
    bool armed;           /* wake_fd reports every frame from now on */
    struct emu_hostlink_port_counts counts;
};

/* --- cable.c ------------------------------------------------------------------------ */

/* Result of serving a cable. */
enum hostlink_sent {
    HOSTLINK_SENT_MORE, /* it used up its quantum and has more */
    HOSTLINK_SENT_NONE, /* it has nothing that may be sent now */
    HOSTLINK_SENT_FULL  /* the session's window is full */
};

/* Sends up to *@left entries and subtracts them. */
enum hostlink_sent hostlink_cable_send(struct hostlink_cable *cable, uint32_t *left);

/* The cable is down: drops what its switch sends and returns the credits. Returns entries. */
uint32_t hostlink_cable_sink(struct hostlink_cable *cable);

/* Collects credits that our switch returned. */
void hostlink_cable_collect(struct hostlink_cable *cable);

/* Counts slots that our switch has emptied. Returns true if a TAKEN is due now or soon. */
bool hostlink_cable_empty(struct hostlink_cable *cable);

/* Sends credits and TAKEN. Returns false if the session's window is full. */
bool hostlink_cable_pay(struct hostlink_cable *cable);

/*
 * Sends OLD records for segments of an earlier incarnation. Returns false if not all could be sent
 * yet.
 */
bool hostlink_cable_announce(struct hostlink_cable *cable);

/* A CREDITS, TAKEN or OLD record arrived. Returns false if its count is too large. */
bool hostlink_cable_credit(struct hostlink_cable *cable, const struct emu_hostlink_record *record);
bool hostlink_cable_taken(struct hostlink_cable *cable, uint32_t count);
bool hostlink_cable_old(struct hostlink_cable *cable, const struct emu_hostlink_record *record);

/* Pool buffers of entries queued for our switch. */
uint32_t hostlink_cable_bufs(const struct hostlink_cable *cable);

/* The session has ended: returns the credits of all sent segments and resets the counts. */
void hostlink_cable_cut(struct hostlink_cable *cable);

/* --- rx.c ------------------------------------------------------------------------- */

/*
 * Receives the entries at the start of @records while the cables are up. Returns their bytes; the
 * next record is no entry, or malformed. An entry that its cable does not allow is counted and sets
 * @peer->broken.
 */
uint32_t hostlink_entries_rx(struct hostlink_peer *peer, const uint8_t *records, uint32_t bytes);

/* Delivers entries that waited for buffers. Returns how many. */
uint32_t hostlink_room_go(struct hostlink_peer *peer);

/* --- peer.c ------------------------------------------------------------------------- */

int hostlink_peer_init(struct hostlink_peer *peer, struct emu_hostlink *link,
                       const struct emu_hostlink_peer *config);
void hostlink_peer_free(struct hostlink_peer *peer);

/* A frame from the peer arrived. */
void hostlink_peer_receive(struct hostlink_peer *peer, struct emu_hostframe *frame);

/* Follows the state of the session and the requested phase. */
void hostlink_peer_check(struct hostlink_peer *peer);

/* Sends what is due. Returns the number of entries and control records. */
uint32_t hostlink_peer_send(struct hostlink_peer *peer);

/* After the session's step: sets `closed` if the control channel is closed by now. */
void hostlink_peer_notice_close(struct hostlink_peer *peer);

/* Time until the peer must be stepped again if no event arrives. */
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

/* The cable has credits or TAKEN to send; @pressing: without waiting for more. */
static inline void hostlink_set_owing(struct hostlink_cable *cable, bool pressing)
{
    struct hostlink_peer *peer = cable->peer;

    if (!peer->owed_ns)
        peer->owed_ns = peer->link->now_ns;
    peer->pressing |= pressing;
    hostlink_mark(peer->owing, cable->number);
}

/* The ring of our switch was written: flush it in this step. */
static inline void hostlink_set_touched(struct hostlink_cable *cable)
{
    hostlink_mark(cable->peer->link->touched, cable->any);
}

/*
 * Converts the time at which an adapter posted a segment, by adding @by_ns: from the low bits of
 * the sender's fabric time to those of its monotonic clock, and there to the receiver's. 0 stays 0:
 * unknown.
 */
static inline uint32_t hostlink_born_ns(uint32_t born_ns, uint64_t by_ns)
{
    return born_ns ? born_ns + (uint32_t)by_ns : born_ns;
}

/* The cable may have entries to send. */
static inline void hostlink_set_active(struct hostlink_cable *cable)
{
    hostlink_mark(cable->peer->active, cable->number);
}

#endif
