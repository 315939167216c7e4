/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.h - the parts of the host link's device: cables (cable.c, rx.c), other hosts (peer.c),
 * and the device that has both (hostlink.c). All of it is the device's, but for what says so.
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

/* A set of numbers below some count: so many words. */
#define HOSTLINK_WORDS(count) (((count) + 63u) / 64u)

struct hostlink_peer;

struct hostlink_cable {
    struct emu_hostlink_cable ends;
    struct hostlink_peer *peer;
    uint32_t number;  /* of its peer's cables */
    uint32_t any;     /* of the device's: its bit there is that modulo 64 */
    uint32_t slots;   /* entries under way each way, at most; 0: it was not joined */
    uint32_t credits; /* without channels: what our switch has room for, */
    uint32_t depth;   /* and what waits here for that room, at most */
    bool channels;
    struct emu_replay *replay; /* link-level retry to our switch; NULL: none */
    const struct emu_profile *profile;

    /* What goes: by channel, 0 where there are none. */
    int32_t unpaid[EMU_VCS]; /* entries sent whose credit has not come; below 0: forged ones have */
    uint32_t old[EMU_VCS];   /* credits that come for an earlier life's: for nobody */
    uint32_t forged;         /* by so much are those below 0, in all */
    uint32_t in_flight;      /* channels: entries in the far ring, or on their way to it */

    /* What comes. */
    int32_t open[EMU_VCS];   /* entries that the switch here was given, and has not paid for */
    uint32_t paid[EMU_VCS];  /* credits that it has given back: to be sent */
    uint32_t pays;           /* channels that have such, by bit */
    uint32_t emptied_at;     /* channels: slots that it has emptied, of all; free-running */
    uint32_t emptied;        /* of them, the far host has not been told of */
    uint32_t waiting;        /* entries that wait for a buffer */
    struct emu_entry *queue; /* those that wait for our switch's room, `depth` at most: */
    uint32_t queue_mask;     /* its slots less one, a power of two, */
    uint32_t queue_at;       /* which is the first one's, free-running, */
    uint32_t queued;         /* and how many there are; 0, or the switch has no room */
    uint32_t announced;      /* channels, by bit: this life: what is open was said; credits count */
    uint64_t last_ps;        /* clock real: the time of the last entry */
    uint32_t sent_from, received_from; /* since the cables came up: emu_hostlink_passed() */
};

/* The slot of the @i-th of those that wait for our switch's room, or of the next one to do so. */
static inline struct emu_entry *hostlink_queued(const struct hostlink_cable *cable, uint32_t i)
{
    return &cable->queue[(cable->queue_at + i) & cable->queue_mask];
}

/* Entries that wait for buffers, in order, as records. */
struct hostlink_room {
    uint8_t *record;   /* EMU_HOSTLINK_ENTRY_MOST each */
    uint32_t slots;    /* as many as the accounts of all cables allow */
    uint32_t put, got; /* modulo slots; equal: none, or all: `count` says */
    uint32_t count;
};

/* Another host. */
struct hostlink_peer {
    struct emu_hostlink *link;
    struct emu_session *session;
    uint64_t fabric;
    uint16_t from, to; /* its number, and ours */
    uint32_t cables;
    struct hostlink_cable *cable;

    _Atomic uint32_t phase; /* enum emu_hostlink_phase: see emu_hostlink_bring_up() */
    _Atomic bool closed;    /* emu_hostlink_is_closed(); written by the device */

    uint64_t incarnation; /* of the session, as the accounts know it; 0: none */
    bool up;              /* entries pass */
    bool broken;          /* the other host broke an account: the session is to be ended */
    bool full;            /* the session had no room */
    bool ready_sent;      /* this life: our accounts begin anew, */
    bool ready_received;  /* and theirs */
    uint32_t announces;   /* this life: the cable to be announced next */
    uint32_t turn;        /* whose turn it is: a cable, or `cables`: the control channel */
    uint32_t left;        /* entries that it may still send in this turn */
    uint64_t *active;     /* cables that may have something to send, by bit */
    uint64_t *owing;      /* cables that have credits, or TAKEN, to be sent, */
    uint64_t owed_ns;     /* the first of them since then, */
    bool pressing;        /* and some at once: else they may wait for a frame that goes anyway */
    struct hostlink_room room;
    struct hostlink_control control;
    struct hostlink_offset offset;
    uint64_t clock_due_ns; /* a CLOCK is to be sent then */
    uint64_t moved_ns;     /* entries went or came last */
    struct emu_hostlink_counts counts;
};

struct emu_hostlink {
    struct emu_dev dev;
    struct emu_hostlink_config config; /* but for the peers */
    struct emu_hostport *port;
    uint32_t peers;
    struct hostlink_peer *peer;
    uint32_t first;              /* the peer that is served first: they take turns */
    uint32_t all;                /* cables */
    struct hostlink_cable **any; /* each, by its number in the device */
    uint64_t touched[HOSTLINK_WORDS(HOSTLINK_ALL_MAX)]; /* to be flushed */
    uint64_t now_ns;                                    /* of this step: the monotonic clock */
    uint64_t until_ps;                                  /* and the device's */
    uint64_t received_ns;                               /* frames came last */
    uint64_t retry_ps;                                  /* emu_replay_run() of all that have it */
    bool retries;                                       /* some have */
    int wake_fd;                                        /* -1: nothing wakes */
    uint32_t idle;                                      /* passes since something moved */
    bool armed;                                         /* it tells of what comes from now on */
    struct emu_hostlink_port_counts counts;
};

/* --- cable.c ------------------------------------------------------------------------ */

/* What becomes of a cable's turn. */
enum hostlink_sent {
    HOSTLINK_SENT_MORE, /* it has sent all that it may, and has more */
    HOSTLINK_SENT_NONE, /* it has nothing more that may go now */
    HOSTLINK_SENT_FULL  /* the session has no room */
};

/* Sends up to @left entries, and counts them off. */
enum hostlink_sent hostlink_cable_send(struct hostlink_cable *cable, uint32_t *left);

/* The cable is down: what its switch sends is dropped and paid for. Returns entries. */
uint32_t hostlink_cable_sink(struct hostlink_cable *cable);

/* Credits that the switch has given back. */
void hostlink_cable_collect(struct hostlink_cable *cable);

/* Slots that the switch has emptied. True: the far host is to be told, or soon. */
bool hostlink_cable_empty(struct hostlink_cable *cable);

/* Send what of that is to be sent. False: the session has no room. */
bool hostlink_cable_pay(struct hostlink_cable *cable);

/* Say what of an earlier life is still here. False: not yet. */
bool hostlink_cable_announce(struct hostlink_cable *cable);

/* Credits, TAKEN, OLD came. False: the account does not allow it. */
bool hostlink_cable_credit(struct hostlink_cable *cable, const struct emu_hostlink_record *record);
bool hostlink_cable_taken(struct hostlink_cable *cable, uint32_t count);
bool hostlink_cable_old(struct hostlink_cable *cable, const struct emu_hostlink_record *record);

/* Buffers of entries that wait for our switch's room. */
uint32_t hostlink_cable_bufs(const struct hostlink_cable *cable);

/* The session has ended: what was sent is paid for, and the accounts are those of no life. */
void hostlink_cable_cut(struct hostlink_cable *cable);

/* --- rx.c ------------------------------------------------------------------------- */

/*
 * The entries at the beginning of @records: cables are up. Returns their bytes; what follows is no
 * entry, or malformed. The account, or the cable, does not allow one: that is counted, and
 * @peer->broken.
 */
uint32_t hostlink_entries_rx(struct hostlink_peer *peer, const uint8_t *records, uint32_t bytes);

/* Entries that waited for buffers go on. Returns how many did. */
uint32_t hostlink_room_go(struct hostlink_peer *peer);

/* --- peer.c ------------------------------------------------------------------------- */

int hostlink_peer_init(struct hostlink_peer *peer, struct emu_hostlink *link,
                       const struct emu_hostlink_peer *config);
void hostlink_peer_free(struct hostlink_peer *peer);

/* A frame of the peer's came. */
void hostlink_peer_receive(struct hostlink_peer *peer, struct emu_hostframe *frame);

/* How the session stands; what follows of that. */
void hostlink_peer_check(struct hostlink_peer *peer);

/* Send. Returns entries and records of control. */
uint32_t hostlink_peer_send(struct hostlink_peer *peer);

/* After the session's step: set `closed` if the control channel is closed by now. */
void hostlink_peer_notice_close(struct hostlink_peer *peer);

/* For so long it need not be stepped, if nobody tells the device anything. */
uint64_t hostlink_peer_max_sleep_ns(const struct hostlink_peer *peer);

/* One record. False: the session has no room. */
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

/* The cable has credits, or TAKEN, to be sent; @pressing: at once. */
static inline void hostlink_owe(struct hostlink_cable *cable, bool pressing)
{
    struct hostlink_peer *peer = cable->peer;

    if (!peer->owed_ns)
        peer->owed_ns = peer->link->now_ns;
    peer->pressing |= pressing;
    hostlink_mark(peer->owing, cable->number);
}

/* Something was put into the ring of our switch. */
static inline void hostlink_touch(struct hostlink_cable *cable)
{
    hostlink_mark(cable->peer->link->touched, cable->any);
}

/*
 * When the adapter posted a segment, as the clocks of both hosts have it: from the low bits of
 * one's fabric time to those of its monotonic clock, and from there to the other's. 0: it was not
 * said.
 */
static inline uint32_t hostlink_born_ns(uint32_t born_ns, uint64_t by_ns)
{
    return born_ns ? born_ns + (uint32_t)by_ns : born_ns;
}

/* The cable may have something to send. */
static inline void hostlink_stir(struct hostlink_cable *cable)
{
    hostlink_mark(cable->peer->active, cable->number);
}

#endif
