/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dev.h - a device is a step function; what wakes it is a bit.
 *
 * Whoever puts something on a link sets the bit of the receiving port (its
 * DATA word) or of the sending port (its CREDIT word, when a credit comes
 * back) and the bit of the device at its worker. Bits set from the same worker
 * are plain, and lie together, for all of its devices; bits from elsewhere are
 * atomic and live on the receiver's lines.
 */
#ifndef EMU_DEV_H
#define EMU_DEV_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/util/ports.h"
#include "emu/util/clock.h"
#include "emu/buffer/pool.h"
#include "emu/packet/seg.h"
#include "emu/dev/place.h"

struct emu_dev;
struct emu_outbox;
struct emu_taps;
struct emu_worker;

enum emu_event {
    EMU_EVENT_DATA,   /* a segment arrived at a port */
    EMU_EVENT_CREDIT, /* a port may send again */
    EMU_EVENTS
};

/**
 * A device's pass: does a bounded amount of work, never blocks, never allocates.
 * Returns segments moved. It sets dev->next_ps (raw: by emu_dev_rest()), and marks itself again
 * (emu_dev_again) when its bound ended the pass. Thread: its worker's.
 */
typedef uint32_t (*emu_step_fn)(struct emu_dev *dev, uint64_t until_ps);

/*
 * What a step is going to touch, asked of memory some steps before it: several misses at a time
 * instead of one after the other. What one of these reads the one before it has asked for.
 */
enum emu_fetch {
    EMU_FETCH_SELF,  /* the device's own lines; its first has been asked for */
    EMU_FETCH_PORTS, /* what the device points to: its ports */
    EMU_FETCH_RINGS, /* what the ports point to */
    EMU_FETCH_WAYS,  /* the ports that it is going to send by, as what has come says */
    EMU_FETCH_ENDS,  /* what those point to */
    EMU_FETCHES
};

/*
 * Asks for lines, and changes nothing. @kept: what it returned for the one before @what of the same
 * step; first 0. Thread: its worker's.
 */
typedef uint64_t (*emu_fetch_fn)(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept);

struct emu_dev {
    /* Written once, before the worker starts. */
    emu_step_fn step;
    emu_fetch_fn fetch; /* NULL: nothing is asked for. Used on clock virtual */
    struct emu_worker *worker;
    uint32_t index; /* at its worker */
    bool timed;     /* the clock is not raw */

    /* Its worker's. */
    uint64_t next_ps; /* when it wants to be stepped without being told; EMU_NEVER. Clock raw is
                         always at 0, which is every pass: emu_dev_rest() */

    /* Set by other workers; taken by its own. By port: emu_port_signal(). */
    alignas(EMU_LINE) _Atomic uint64_t ready_far[EMU_EVENTS];
};

/* What a worker's devices have been told. */
struct emu_signals {
    uint64_t *near;                /* a bit a device */
    uint64_t (*ready)[EMU_EVENTS]; /* by device, by port: emu_port_signal() */
};

enum emu_worker_stop {
    EMU_WORKER_RUNS,
    EMU_WORKER_ENDS, /* leaves the loop */
    EMU_WORKER_HOLDS /* stands still */
};

/* The device at the far end of a local cable, at its worker: whom to tell. */
struct emu_peer {
    uint32_t index;  /* of the device there */
    uint8_t port;    /* of the device */
    uint16_t number; /* of the worker: of ends that are apart */
};

/* A worker among threads that outnumber cores: worker/crowd.h. */
struct emu_crowd {
    bool asked;       /* since something moved: is there anything to be waited for? */
    bool answer;      /* an answer, not a device */
    uint32_t in_vain; /* so often in a row no answer came, or was awaited for that */
    uint32_t turns;   /* since it was looked who is where */
    uint64_t wait_ns; /* until then something may come; 0: nothing is waited for */
};

/* A thread that steps its devices. The members that other threads may touch say so. */
struct emu_worker {
    /* Set by other workers and by the manager; taken by the worker. */
    alignas(EMU_LINE) _Atomic uint64_t *far; /* a bit a device, `words` of them, on own lines */
    _Atomic uint32_t asleep;                 /* 1: ring its bell after setting bits */
    _Atomic uint32_t stop;                   /* enum emu_worker_stop */
    /* 1: this host has more busy threads than cores */
    _Atomic uint32_t oversubscribed;
    _Atomic uint32_t crowded; /* 1: and no other worker */

    /* The worker's. */
    alignas(EMU_LINE) struct emu_signals told; /* set now */
    struct emu_signals taken;   /* the bits being served: as above, but on clock virtual a signal
                                 given in one window is served in the next */
    uint64_t *wants;            /* by device: ports of which a credit steps it, emu_dev_wants() */
    struct emu_outbox **outbox; /* by worker: for whom there is one; NULL: none (outbox.h) */
    struct emu_outbox *written[2]; /* of these, those that hold something, by turns */
    struct emu_outbox *inbox;      /* those of others that are for this one */
    uint32_t outboxes;
    uint32_t window;  /* clock virtual: windows so far */
    bool amid;        /* it steps one: what it sends may lie in an outbox until the next */
    uint64_t *always; /* devices that are stepped in every pass: a bit a device */
    uint32_t index;   /* of the worker in its fabric: the manager's */
    uint32_t words;
    uint32_t devs;
    struct emu_dev **dev;
    struct emu_clock clock;
    uint64_t now_ps;  /* of this pass; virtual: up to which this window goes */
    uint64_t next_ps; /* the earliest time that a device waits for; EMU_NEVER */
    uint64_t *due_ps; /* by device, its next_ps as of its last step */
    /* raw, a bit a device: have been stepped in this pass; are to be in the next one, told or not;
       and, as they had said before, in this one */
    uint64_t *stepped, *rests, *rested;
    uint64_t rest_ps; /* how long devices that are stepped in every pass let it sleep; EMU_NEVER:
                         there are none, as on timed clocks */
    bool woke;        /* it has slept since the last pass: time has passed */
    bool away;        /* another thread has had its core since then: as many as passes take */
    uint64_t sent_ps; /* the earliest time for which an entry was sent in this window; clock real is
                         one window, and on raw entries have no times: EMU_NEVER */
    struct emu_pool_cache cache;
    struct emu_taps *taps;         /* of ends of its devices (link/tap.h); NULL: there are none */
    struct emu_place place;        /* where streams come from */
    struct emu_hostif *untold;     /* edges whose process is to be told something */
    struct emu_crowd crowd;        /* among threads that outnumber cores */
    uint64_t seen;                 /* serial of the edge list as of the last pass */
    struct emu_waiter *waiter;     /* how it sleeps: wait.h */
    _Atomic uint64_t worst_lag_ps; /* furthest that an event was late */

    /* Published by the manager (RCU): edges to look at. */
    _Atomic(struct emu_hostif_list *) edges;
    uint64_t published; /* the manager's: serial of that list */
};

/** emu_worker_is_alone - has it a core of its own? Thread: any. */
static inline bool emu_worker_is_alone(const struct emu_worker *worker)
{
    return !atomic_load_explicit(&worker->oversubscribed, memory_order_relaxed);
}

/**
 * emu_dev_init - a device that worker @worker will step; adds it there. Before the worker starts.
 */
void emu_dev_init(struct emu_dev *dev, struct emu_worker *worker, emu_step_fn step);

/**
 * emu_dev_told - the ports that have an event to be taken in the next step. Thread: its worker's.
 */
static inline uint64_t emu_dev_told(const struct emu_dev *dev, enum emu_event event)
{
    return dev->worker->taken.ready[dev->index][event];
}

/**
 * emu_fetch_line - the line of @at will be touched soon; _lines: and those up to @end. The empty
 * statement is there for the compiler, which leaves out calls of functions that only prefetch.
 */
static inline void emu_fetch_line(const void *at)
{
    __builtin_prefetch(at);
    __asm__ __volatile__("" : : "r"(at));
}

static inline void emu_fetch_lines(const void *at, const void *end)
{
    for (const uint8_t *line = at; line < (const uint8_t *)end; line += EMU_LINE)
        emu_fetch_line(line);
}

/**
 * emu_dev_always - step it in every pass from now on, whatever the time, so also after a sleep
 * that a descriptor has ended (emu_waiter_add()). next_ps is how long the worker may sleep. Not
 * for clock virtual. Before the worker starts.
 */
void emu_dev_always(struct emu_dev *dev);

/** emu_dev_signal_far - set a bit from another thread than the device's worker. */
void emu_dev_signal_far(struct emu_dev *dev, enum emu_event event, uint64_t ports);

/**
 * emu_dev_is_told - has another thread told it anything that it was not stepped for since? Thread:
 * any, while its worker stands still.
 */
bool emu_dev_is_told(const struct emu_dev *dev);

/*
 * Device @index is told of an event at @ports, in @signals. @step: 1, it is to be stepped for that;
 * 0.
 */
static inline void emu_signals_add(const struct emu_signals *signals, uint32_t index,
                                   enum emu_event event, uint64_t ports, uint64_t step)
{
    signals->ready[index][event] |= ports;
    signals->near[index / 64] |= step << index % 64;
}

/* Is the device of @worker to be stepped for a credit at @port? 1 or 0: emu_dev_wants(). */
static inline uint64_t emu_worker_wants(const struct emu_worker *worker, uint32_t index,
                                        uint32_t port)
{
    return worker->wants[index] >> port % 64 & 1;
}

/**
 * emu_signal - tell device @index of worker @to of an event at the ports @ports.
 * @from: the calling worker.
 */
static inline void emu_signal(struct emu_worker *to, uint32_t index, const struct emu_worker *from,
                              enum emu_event event, uint64_t ports)
{
    if (to != from) {
        emu_dev_signal_far(to->dev[index], event, ports);
        return;
    }
    emu_signals_add(&to->told, index, event, ports, 1);
}

/**
 * emu_signal_credit - tell of a credit at port @port, which is on its ring. The device is stepped
 * for it if it wants that, or is another worker's.
 */
static inline void emu_signal_credit(struct emu_worker *to, uint32_t index,
                                     const struct emu_worker *from, uint32_t port)
{
    if (to != from) {
        emu_dev_signal_far(to->dev[index], EMU_EVENT_CREDIT, emu_port_signal(port));
        return;
    }
    emu_signals_add(&to->told, index, EMU_EVENT_CREDIT, emu_port_signal(port),
                    emu_worker_wants(to, index, port));
}

/** emu_dev_signal - emu_signal() for a device. */
static inline void emu_dev_signal(struct emu_dev *dev, const struct emu_worker *from,
                                  enum emu_event event, uint64_t ports)
{
    emu_signal(dev->worker, dev->index, from, event, ports);
}

/**
 * emu_dev_wake - clock virtual: step @dev at @at_ps, or earlier. Thread: its creator's, or the
 * driver's, while the workers stand still.
 */
static inline void emu_dev_wake(struct emu_dev *dev, uint64_t at_ps)
{
    uint64_t *due_ps = &dev->worker->due_ps[dev->index];

    if (at_ps < *due_ps)
        dev->next_ps = *due_ps = at_ps;
}

/**
 * emu_dev_rest - raw: step me in every pass, and let the worker sleep no longer than @rest_ps;
 * EMU_NEVER: step me when I am told something. Good for one pass. Thread: the device's own step.
 */
static inline void emu_dev_rest(struct emu_dev *dev, uint64_t rest_ps)
{
    struct emu_worker *worker = dev->worker;

    dev->next_ps = rest_ps == EMU_NEVER ? EMU_NEVER : 0;
    if (rest_ps < worker->rest_ps)
        worker->rest_ps = rest_ps;
}

/**
 * emu_dev_expect - timed: @dev sent something that is at the far end at @at_ps. On clock virtual
 * that is after the window that is being stepped (emu_worker_window() looks); otherwise the result
 * would depend on the order in which devices are stepped.
 */
static inline void emu_dev_expect(struct emu_dev *dev, uint64_t at_ps)
{
    struct emu_worker *worker = dev->worker;

    if (at_ps < worker->sent_ps)
        worker->sent_ps = at_ps;
}

/**
 * emu_dev_stamp_ps - the time that an entry carries which is to be at the far end at @at_ps: on raw
 * entries have none. What the device itself sends is also emu_dev_expect()ed there, on timed
 * clocks.
 */
static inline uint64_t emu_dev_stamp_ps(const struct emu_dev *dev, uint64_t at_ps)
{
    return dev->timed ? at_ps : 0;
}

/**
 * emu_dev_lag - timed: what was due at @due_ps happens at @now_ps, which says how late this host is
 * (docs/ARCHITECTURE.md, "real"). Thread: the device's own step.
 */
static inline void emu_dev_lag(struct emu_dev *dev, uint64_t due_ps, uint64_t now_ps)
{
    _Atomic uint64_t *worst = &dev->worker->worst_lag_ps;

    if (now_ps - due_ps > atomic_load_explicit(worst, memory_order_relaxed))
        atomic_store_explicit(worst, now_ps - due_ps, memory_order_relaxed);
}

/**
 * emu_dev_wants - timed: the ports of which a credit from a device of the same worker is to step
 * me, from now on; at first all. For a device that looks at the ring of credits before it waits for
 * one: it finds there what has come before. Thread: the device's own step.
 */
static inline void emu_dev_wants(const struct emu_dev *dev, uint64_t ports)
{
    dev->worker->wants[dev->index] = ports;
}

/** emu_dev_again - step me again in the next pass. Thread: the device's own step. */
static inline void emu_dev_again(struct emu_dev *dev)
{
    dev->worker->told.near[dev->index / 64] |= emu_bit(dev->index % 64);
}

/** emu_dev_give - the event is for this step, as if it had been told before. Thread: the same. */
static inline void emu_dev_give(struct emu_dev *dev, enum emu_event event, uint64_t ports)
{
    dev->worker->taken.ready[dev->index][event] |= ports;
}

/**
 * emu_dev_take - take the ports that had an event since the last call.
 * Thread: the device's own step.
 */
static inline uint64_t emu_dev_take(struct emu_dev *dev, enum emu_event event)
{
    uint64_t *ready = &dev->worker->taken.ready[dev->index][event];
    uint64_t ports = *ready;

    *ready = 0;
    return ports;
}

#endif
