/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dev.h - a device is a step function that bits wake.
 *
 * To signal a device, set the bit of its receiving port (DATA) or of its sending port (CREDIT, when
 * a credit comes back), and the device's bit at its worker. Signals of the same worker are plain
 * bits, stored together for all of its devices. Signals of other threads are atomic bits in cache
 * lines of the receiver.
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
#include "emu/dev/affinity.h"

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
 * A device's pass: does a bounded amount of work, never blocks, never allocates. Returns segments
 * moved. It sets dev->next_ps (raw: by emu_dev_poll_within()), and calls emu_dev_again() if the
 * bound ended the pass. Thread: its worker's.
 */
typedef uint32_t (*emu_step_fn)(struct emu_dev *dev, uint64_t until_ps);

/*
 * The stages in which a step's memory is prefetched some steps ahead, so that cache misses overlap.
 * Each stage reads only what the one before has prefetched.
 */
enum emu_fetch {
    EMU_FETCH_SELF,    /* the rest of the device; its first line is there */
    EMU_FETCH_PORTS,   /* what the device points to: its ports */
    EMU_FETCH_RINGS,   /* what the ports point to */
    EMU_FETCH_OUTPUTS, /* ports that it will send by, according to its input */
    EMU_FETCH_ENDS,    /* what those point to */
    EMU_FETCHES
};

/* Prefetches for stage @what. @kept: its result for the stage before; at first 0. */
typedef uint64_t (*emu_fetch_fn)(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept);

struct emu_dev {
    /* Written once, before the worker starts. */
    emu_step_fn step;
    emu_fetch_fn fetch; /* may be NULL. Clock virtual only */
    struct emu_worker *worker;
    uint32_t index; /* among its worker's devices */
    bool timed;     /* the clock is not raw */

    /* Owned by its worker. */
    uint64_t next_ps; /* step it then without a signal; EMU_NEVER. Raw: see emu_dev_poll_within() */

    /* Set by other workers, taken by its own. Bits by port: emu_port_signal(). */
    alignas(EMU_LINE) _Atomic uint64_t ready_remote[EMU_EVENTS];
};

/* Signals to a worker's devices. */
struct emu_signals {
    uint64_t *near;                /* one bit per device */
    uint64_t (*ready)[EMU_EVENTS]; /* by device; bits by port: emu_port_signal() */
};

enum emu_worker_stop {
    EMU_WORKER_RUNS,
    EMU_WORKER_STOPS, /* leave the loop */
    EMU_WORKER_PAUSES /* stop until released */
};

/* The remote device of a local cable, to be signalled. */
struct emu_peer {
    uint32_t index;  /* of the device at its worker */
    uint8_t port;    /* port of that device */
    uint16_t number; /* of its worker, if that is another one (emu_link_cross_worker()) */
};

/* A worker with more threads than cores: worker/oversub.h. */
struct emu_oversub {
    bool asked;       /* since the last progress: whether to wait was decided */
    bool answer;      /* it waits for a process's reply, not for a device */
    uint32_t misses;  /* replies in a row that did not come, or were not waited for */
    uint32_t turns;   /* passes since the affinity was last checked */
    uint64_t wait_ns; /* wait until then; 0: not waiting */
};

/* A thread that steps its devices. Members that other threads may touch say so. */
struct emu_worker {
    /* Set by other workers and the manager; taken by the worker. */
    alignas(EMU_LINE) _Atomic uint64_t
        *remote;             /* one bit per device, `words` words, on lines of their own */
    _Atomic uint32_t asleep; /* 1: ring the bell after setting bits */
    _Atomic uint32_t stop;   /* enum emu_worker_stop */
    /* 1: more busy threads than cores on this host */
    _Atomic uint32_t oversubscribed;
    _Atomic uint32_t sole_oversubscribed; /* 1: oversubscribed, and this is the only worker */

    /* Owned by the worker. */
    alignas(EMU_LINE) struct emu_signals signalled; /* signals being set */
    /* signals being served; shared with `signalled`, except on clock virtual: a window serves those
       of the window before */
    struct emu_signals taken;
    uint64_t *wants;            /* by device: ports at which a credit steps it: emu_dev_wants() */
    struct emu_outbox **outbox; /* by receiving worker; NULL: none (outbox.h) */
    struct emu_outbox *written[2]; /* non-empty ones, by window % 2 */
    struct emu_outbox *inbox;      /* outboxes of other workers for this one */
    uint32_t outboxes;
    uint32_t window;  /* clock virtual: windows so far */
    bool amid;        /* inside a window: entries may stay in an outbox until the next */
    uint64_t *always; /* one bit per device: step in every pass */
    uint32_t index;   /* in its fabric; set by the manager */
    uint32_t words;
    uint32_t devs;
    struct emu_dev **dev;
    struct emu_clock clock;
    uint64_t now_ps;  /* start of this pass; virtual: end of this window */
    uint64_t next_ps; /* earliest next_ps of its devices */
    uint64_t *due_ps; /* by device: next_ps after its last step */
    /*
     * raw, bits by device: stepped in this pass; to rest in the next (emu_dev_poll_within()), in
     * this
     */
    uint64_t *stepped, *poll_next, *poll_now;
    /* raw: the shortest time given to emu_dev_poll_within(); EMU_NEVER: none */
    uint64_t max_sleep_ps;
    bool woke; /* it has slept since the last pass */
    bool away; /* another thread has had its core since then */
    /* timed: first arrival of what it sent in this window (real: since start); raw: EMU_NEVER */
    uint64_t sent_ps;
    struct emu_pool_cache cache;
    struct emu_taps *taps;         /* of its devices' links (link/tap.h); may be NULL */
    struct emu_affinity affinity;  /* where streams come from */
    struct emu_hostif *unnotified; /* host interfaces with a notification due */
    struct emu_oversub oversub;    /* when threads outnumber cores */
    uint64_t seen;                 /* serial of the list of host interfaces at the last pass */
    struct emu_waiter *waiter;     /* how it sleeps: wait.h */
    _Atomic uint64_t worst_lag_ps; /* largest delay of an event */

    /* Published by the manager (RCU): host interfaces to poll. */
    _Atomic(struct emu_hostif_list *) hostifs;
    uint64_t published; /* by the manager: serial of that list */
};

/** emu_worker_is_alone - has it a core of its own? Thread: any. */
static inline bool emu_worker_is_alone(const struct emu_worker *worker)
{
    return !atomic_load_explicit(&worker->oversubscribed, memory_order_relaxed);
}

/** emu_dev_init - add a device to @worker. Before the worker starts. */
void emu_dev_init(struct emu_dev *dev, struct emu_worker *worker, emu_step_fn step);

/** emu_dev_signalled - the ports with an event for the next step. Thread: its worker's. */
static inline uint64_t emu_dev_signalled(const struct emu_dev *dev, enum emu_event event)
{
    return dev->worker->taken.ready[dev->index][event];
}

/**
 * emu_fetch_line - prefetch the line of @at; _lines: all lines up to @end. The empty asm statement
 * keeps the compiler from dropping calls of functions that only prefetch.
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
 * emu_dev_always - step it in every pass, also after a sleep that a descriptor has ended
 * (emu_waiter_add()). next_ps still limits the sleep. Not for clock virtual. Before the worker
 * starts.
 */
void emu_dev_always(struct emu_dev *dev);

/** emu_dev_signal_remote - signal from another thread than the device's worker. */
void emu_dev_signal_remote(struct emu_dev *dev, enum emu_event event, uint64_t ports);

/**
 * emu_dev_is_signalled - is another thread's signal pending? Thread: any, its worker is stopped.
 */
bool emu_dev_is_signalled(const struct emu_dev *dev);

/* Set an event of device @index at @ports. @step: 1 if it is to be stepped for that, else 0. */
static inline void emu_signals_add(const struct emu_signals *signals, uint32_t index,
                                   enum emu_event event, uint64_t ports, uint64_t step)
{
    signals->ready[index][event] |= ports;
    signals->near[index / 64] |= step << index % 64;
}

/* 1 if device @index is to be stepped for a credit at @port, else 0: emu_dev_wants(). */
static inline uint64_t emu_worker_wants(const struct emu_worker *worker, uint32_t index,
                                        uint32_t port)
{
    return worker->wants[index] >> port % 64 & 1;
}

/** emu_signal - signal an event at @ports to device @index of @to. @from: the calling worker. */
static inline void emu_signal(struct emu_worker *to, uint32_t index, const struct emu_worker *from,
                              enum emu_event event, uint64_t ports)
{
    if (to != from) {
        emu_dev_signal_remote(to->dev[index], event, ports);
        return;
    }
    emu_signals_add(&to->signalled, index, event, ports, 1);
}

/** emu_signal_credit - signal a credit on the ring of @port; may step it: emu_dev_wants(). */
static inline void emu_signal_credit(struct emu_worker *to, uint32_t index,
                                     const struct emu_worker *from, uint32_t port)
{
    if (to != from) {
        emu_dev_signal_remote(to->dev[index], EMU_EVENT_CREDIT, emu_port_signal(port));
        return;
    }
    emu_signals_add(&to->signalled, index, EMU_EVENT_CREDIT, emu_port_signal(port),
                    emu_worker_wants(to, index, port));
}

/** emu_dev_signal - emu_signal() to a device. */
static inline void emu_dev_signal(struct emu_dev *dev, const struct emu_worker *from,
                                  enum emu_event event, uint64_t ports)
{
    emu_signal(dev->worker, dev->index, from, event, ports);
}

/** emu_dev_wake - clock virtual: step @dev by @at_ps. Thread: any, while workers are stopped. */
static inline void emu_dev_wake(struct emu_dev *dev, uint64_t at_ps)
{
    uint64_t *due_ps = &dev->worker->due_ps[dev->index];

    if (at_ps < *due_ps)
        dev->next_ps = *due_ps = at_ps;
}

/**
 * emu_dev_poll_within - raw: step this device in the next pass, and let the worker sleep
 * @max_sleep_ps at most. EMU_NEVER: step it only when signalled. Holds for one pass. Thread: the
 * device's own step.
 */
static inline void emu_dev_poll_within(struct emu_dev *dev, uint64_t max_sleep_ps)
{
    struct emu_worker *worker = dev->worker;

    dev->next_ps = max_sleep_ps == EMU_NEVER ? EMU_NEVER : 0;
    if (max_sleep_ps < worker->max_sleep_ps)
        worker->max_sleep_ps = max_sleep_ps;
}

/**
 * emu_dev_expect - timed: what @dev sent arrives at @at_ps. On clock virtual that must be after the
 * current window, or results would depend on the order in which devices are stepped;
 * emu_worker_window() checks it.
 */
static inline void emu_dev_expect(struct emu_dev *dev, uint64_t at_ps)
{
    struct emu_worker *worker = dev->worker;

    if (at_ps < worker->sent_ps)
        worker->sent_ps = at_ps;
}

/**
 * emu_dev_stamp_ps - the time in an entry that arrives at @at_ps; 0 on clock raw. For what the
 * device itself sends on timed clocks call emu_dev_expect(), too.
 */
static inline uint64_t emu_dev_stamp_ps(const struct emu_dev *dev, uint64_t at_ps)
{
    return dev->timed ? at_ps : 0;
}

/**
 * emu_dev_lag - timed: note that an event due at @due_ps happens at @now_ps, the lag of this host
 * (docs/ARCHITECTURE.md, "real"). Thread: the device's own step.
 */
static inline void emu_dev_lag(struct emu_dev *dev, uint64_t due_ps, uint64_t now_ps)
{
    _Atomic uint64_t *worst = &dev->worker->worst_lag_ps;

    if (now_ps - due_ps > atomic_load_explicit(worst, memory_order_relaxed))
        atomic_store_explicit(worst, now_ps - due_ps, memory_order_relaxed);
}

/**
 * emu_dev_wants - timed: the ports at which a credit from the same worker steps this device, from
 * now on; initially all. For a device that checks the ring of credits before it waits for one, and
 * so finds earlier credits there. Thread: the device's own step.
 */
static inline void emu_dev_wants(const struct emu_dev *dev, uint64_t ports)
{
    dev->worker->wants[dev->index] = ports;
}

/** emu_dev_again - step this device in the next pass. Thread: the device's own step. */
static inline void emu_dev_again(struct emu_dev *dev)
{
    dev->worker->signalled.near[dev->index / 64] |= emu_bit(dev->index % 64);
}

/** emu_dev_give - add an event to this step. Thread: the device's own step. */
static inline void emu_dev_give(struct emu_dev *dev, enum emu_event event, uint64_t ports)
{
    dev->worker->taken.ready[dev->index][event] |= ports;
}

/** emu_dev_take - take the ports that had an event. Thread: the device's own step. */
static inline uint64_t emu_dev_take(struct emu_dev *dev, enum emu_event event)
{
    uint64_t *ready = &dev->worker->taken.ready[dev->index][event];
    uint64_t ports = *ready;

    *ready = 0;
    return ports;
}

/* --- checks --------------------------------------------------------------------------- */

#define EMU_NO_PORT UINT32_MAX /* an error of the device as a whole */

/* Where to report errors. */
struct emu_found {
    void (*tell)(void *ctx, uint32_t port, const char *wrong);
    void *ctx;
};

/** emu_found_at - report error @wrong at @port; NULL: no error. */
static inline void emu_found_at(const struct emu_found *found, uint32_t port, const char *wrong)
{
    if (wrong)
        found->tell(found->ctx, port, wrong);
}

/* A reporter that keeps the first error. ctx: const char **, initially to NULL. */
static inline void emu_found_first(void *ctx, uint32_t port, const char *wrong)
{
    const char **first = ctx;

    (void)port;
    if (!*first)
        *first = wrong;
}

#endif
