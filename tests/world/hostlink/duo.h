/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * duo.h - two hosts, each with a host link's device, joined by a wire in memory (wire.h), on clock
 * raw or real; at the near end of each cable an end that stands for a switch. Nothing here needs
 * CUnit, but that what cannot be made aborts.
 *
 * An end sends entries that follow from their number, as far as its credits go, and checks those
 * that come; it keeps them for a random time before it gives their credits back. On cables with
 * channels it sends packets of one to four segments, and replies to those that came. Both hosts are
 * stepped by turns in one thread; time is simulated, and each host's clock shows it in its own way.
 */
#ifndef TESTS_WORLD_HOSTLINK_DUO_H
#define TESTS_WORLD_HOSTLINK_DUO_H

#include "emu/hostlink/hostlink.h"
#include "emu/link/channels.h"
#include "emu/packet/vc.h"
#include "emu/worker/worker.h"
#include "tests/world/hostlink/wire.h"

#define DUO_HELD 512u /* entries that an end keeps, replies that it owes: at most */

enum duo_kind { DUO_PLAIN, DUO_CHANNELS, DUO_MIXED };

struct duo;

struct duo_end {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct duo *duo;
    uint32_t host, number;
    bool channels;
    uint32_t credits;
    uint32_t depth;

    uint64_t limit; /* entries that it sends, without replies */
    uint64_t sent;
    bool deaf;    /* takes nothing */
    bool stingy;  /* gives no credits back */
    bool was_cut; /* replies may be to what it has forgotten */
    uint64_t random;

    struct emu_vcs vcs;
    uint32_t packets;      /* opened so far: the next tag */
    uint8_t left[EMU_VCS]; /* segments that an open channel's packet still has */
    uint8_t index[EMU_VCS];
    uint64_t replied;

    uint8_t held[DUO_HELD]; /* channels of entries that it has; oldest first */
    uint32_t held_at, held_to;
    uint32_t owed[DUO_HELD]; /* replies: tag << 8 | channel */
    uint32_t owed_at, owed_to;
    uint32_t in_tag[EMU_VCS]; /* packet that comes, */
    uint8_t in_index[EMU_VCS];

    uint64_t got;   /* entries, without replies */
    uint64_t next;  /* plain: number that comes next */
    uint64_t lost;  /* numbers that did not come: a life has ended */
    uint64_t wrong; /* what should not have come as it did */
    uint64_t last_ps;
    _Atomic uint64_t seen; /* with threads: `got`, for others */
};

struct duo_host {
    struct duo *duo;
    struct emu_pool *pool;
    struct emu_worker *worker;
    struct emu_hostlink *link;
    struct duo_end *end;
    uint64_t skew_ns;  /* its clock is ahead by so much, */
    int32_t drift_ppm; /* and goes faster */
    int control;       /* our end of the control channel; -1: closed */
    uint64_t control_sent, control_got, control_wrong;
    bool control_ended;
    uint64_t random;
    uint32_t reserved; /* buffers that nobody is to have */
};

struct duo {
    struct wire *wire; /* or, with threads, */
    struct lane *lane;
    bool threads;
    struct duo_host host[2];
    struct emu_profile plain, packets;
    uint32_t cables;
    uint64_t now_ns;
    uint64_t seed, random;
    uint32_t bufs;
};

struct duo_config {
    enum duo_kind kind;
    enum emu_clock_mode mode;
    uint32_t cables;
    uint32_t credits; /* 0: 16 */
    uint32_t first;   /* of the first cable; 0: as all */
    uint32_t depth;   /* entries that the far device holds besides */
    uint32_t bufs;    /* of each pool, 1 to 64; 0: enough */
    bool
        threads; /* the test runs the workers, and there is no wire in memory but sockets: lane.h */
    uint64_t seed;
};

void duo_open(struct duo *h, const struct duo_config *config);
void duo_close(struct duo *h);

/** duo_begin, duo_end - a host's device is there, or is not any more, as after a crash. */
void duo_begin(struct duo *h, uint32_t host);
void duo_end(struct duo *h, uint32_t host);

/** duo_session - the configuration of @host's session, but for `port` and `random`. */
struct emu_session_config duo_session(const struct duo *h, uint32_t host);

/** duo_limit - each end of both hosts sends so many entries in all. */
void duo_limit(struct duo *h, uint64_t entries);

/** duo_step - some time passes; ends do what they can, and both workers step. */
void duo_step(struct duo *h);

/** duo_until - steps until @is so. False: it is not after @steps steps. */
bool duo_until(struct duo *h, bool (*is)(struct duo *h), uint32_t steps);

/* Both hosts' cables are up; all that was sent has come, or is lost, and all credits are home. */
bool duo_are_up(struct duo *h);
bool duo_are_done(struct duo *h);

/* Nothing is under way, whatever has become of it, and all credits are home. */
bool duo_are_at_rest(struct duo *h);

/** duo_links_down - as a fabric manager does: ends give up what they await. */
void duo_links_down(struct duo *h);

/** duo_wrong - what the ends found wrong, and what does not add up now; 0. Printed. */
uint64_t duo_wrong(struct duo *h);

/** duo_control - @host writes up to @bytes control bytes, and reads all that came. */
void duo_control(struct duo *h, uint32_t host, uint32_t bytes);

/** duo_counts - of @host. */
static inline const struct emu_hostlink_counts *duo_counts(const struct duo *h, uint32_t host)
{
    return emu_hostlink_counts(h->host[host].link, 0);
}

#endif
