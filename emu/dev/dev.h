/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dev.h - a *device* (a switch, a link engine, a host link) is a step function, which a worker
 * calls when the device was signalled. A *worker* is a thread that steps its devices. Each
 * iteration of its loop is a *pass*; on clock virtual each iteration is a *window* of simulated
 * time instead (worker/windows.h). The *manager* is the thread that controls the fabric.
 *
 * To signal a device, set two bits. The first is the bit of the port: of the receiving port if an
 * entry has arrived (DATA), or of the sending port if a credit has returned (CREDIT). The second is
 * the device's bit at its worker. Signals from the same worker are plain bits, stored together for
 * all of its devices. Signals from other threads are atomic bits in cache lines of the receiving
 * worker.
 *
 * Comments that begin with "raw" or "timed" hold for that kind of clock only (emu/util/clock.h).
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
 * A step of a device: does a bounded amount of work, never blocks, and never allocates memory.
 * Returns how many segments it moved. The step sets dev->next_ps (raw: by emu_dev_poll_within()).
 * If it stopped only because its work is bounded, it calls emu_dev_again(). Thread: the device's
 * worker.
 */
typedef uint32_t (*emu_step_fn)(struct emu_dev *dev, uint64_t until_ps);

/*
 * The memory that a step touches is prefetched some steps ahead, in stages, so that cache misses
 * overlap. Each stage reads only data that the previous stage has prefetched.
 */
enum emu_fetch {
    EMU_FETCH_SELF, /* the device except its first line, which is already in the cache */
    EMU_FETCH_PORTS,
    EMU_FETCH_RINGS,   /* the rings to which these ports point */
    EMU_FETCH_OUTPUTS, /* the ports through which the device will send, according to its input */
    EMU_FETCH_ENDS,    /* the rings to which those ports point */
    EMU_FETCHES
};

/*
 * Prefetch the memory of stage @what. The caller passes the result to the next stage as @kept; the
 * first stage gets 0.
 */
typedef uint64_t (*emu_fetch_fn)(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept);

struct emu_dev {
    /* Written once, before the worker starts. */
    emu_step_fn step;
    emu_fetch_fn fetch; /* clock virtual; may be NULL */
    struct emu_worker *worker;
    uint32_t index; /* index among its worker's devices */
    bool timed;     /* the clock is not raw */

    /* Owned by its worker. */
    uint64_t next_ps; /* step it at this time even without a signal; raw: emu_dev_poll_within() */

    /* Signals from other threads, which the worker takes: bits by port, emu_port_signal(). */
    alignas(EMU_LINE) _Atomic uint64_t ready_remote[EMU_EVENTS];
};

/* Signals to the devices of a worker. */
struct emu_signals {
    uint64_t *near; /* one bit per device: the device was signalled */
    /* by device and event: the signalled ports as bits, emu_port_signal() */
    uint64_t (*ready)[EMU_EVENTS];
};

enum emu_worker_stop {
    EMU_WORKER_RUNS,
    EMU_WORKER_STOPS, /* the worker must leave its loop */
    EMU_WORKER_PAUSES /* the worker must wait until it is released */
};

/* The device at the other end of a local cable, for signals to it. */
struct emu_peer {
    uint32_t index; /* index of the device at its worker */
    uint8_t port;   /* port of the device */
    /* number of the device's worker, if that is another one (emu_link_cross_worker()) */
    uint16_t number;
};

/* State of a worker that shares its core with other threads: worker/oversub.h. */
struct emu_oversub {
    bool decided; /* the worker has decided whether to wait, and no segment has moved since */
    bool answer;  /* the worker waits for a process to reply, and not for a device */
    /* replies in a row that did not come in time, or for which the worker did not wait */
    uint32_t misses;
    uint32_t turns;   /* time slices since the worker's core was last checked */
    uint64_t wait_ns; /* keep the core and wait until this time; 0: not waiting */
};

/* A thread that steps its devices. Unless a comment says otherwise, only it touches a field. */
struct emu_worker {
    /* Set by other workers and by the manager; the worker takes them. */
    /* bits of signalled devices, on separate cache lines */
    alignas(EMU_LINE) _Atomic uint64_t *remote;
    /* 1: the worker sleeps or is about to, so wake it after setting bits */
    _Atomic uint32_t asleep;
    _Atomic uint32_t stop; /* enum emu_worker_stop */
    /* 1: this host has more busy threads than cores */
    _Atomic uint32_t oversubscribed;
    _Atomic uint32_t sole_oversubscribed; /* 1: oversubscribed, and the fabric's only worker */

    /* Owned by the worker. */
    alignas(EMU_LINE) struct emu_signals signalled; /* signals for the next pass or window */
    /*
     * signals that this pass serves: on clock virtual the signals of the previous window, else the
     * same arrays as `signalled`
     */
    struct emu_signals taken;
    /*
     * by device, one bit per port: a credit at this port makes the worker step the device; set by
     * emu_dev_wants()
     */
    uint64_t *wants;
    struct emu_outbox **outbox;    /* outboxes by receiving worker; NULL: none (outbox.h) */
    struct emu_outbox *written[2]; /* outboxes that are not empty, by window % 2 */
    struct emu_outbox *inbox;      /* list of the outboxes in which others send to this worker */
    uint32_t outboxes;
    uint32_t window;  /* clock virtual: number of windows so far */
    bool in_window;   /* a window is in progress, so that entries may be put into outboxes */
    uint64_t *always; /* one bit per device: step it in every pass */
    uint32_t index;   /* index among the workers of its fabric; set by the manager */
    uint32_t words;   /* number of words of a bit set with one bit per device */
    uint32_t devs;
    struct emu_dev **dev;
    struct emu_clock clock;
    uint64_t now_ps;  /* start of this pass; clock virtual: end of this window */
    uint64_t next_ps; /* earliest next_ps of its devices */
    uint64_t *due_ps; /* by device: its next_ps after its last step */
    /* raw, one bit per device */
    uint64_t *stepped;   /* the device was stepped in this pass */
    uint64_t *poll_next; /* the device must be stepped in the next pass (emu_dev_poll_within()) */
    uint64_t *poll_now;  /* the device must be stepped in this pass */
    /* raw: smallest @max_sleep_ps given to emu_dev_poll_within(); EMU_NEVER: none */
    uint64_t max_sleep_ps;
    bool woke;      /* the worker has slept since the last pass */
    bool preempted; /* another thread has used its core since the last pass */
    /*
     * timed: earliest arrival of an entry or credit that its devices sent in this window (clock
     * real: since the start); raw: EMU_NEVER
     */
    uint64_t sent_ps;
    struct emu_pool_cache cache;
    struct emu_taps *taps;         /* captures on its devices' links (link/tap.h); NULL: none */
    struct emu_affinity affinity;  /* the core from which streams of segments come: affinity.h */
    struct emu_hostif *unnotified; /* list of host interfaces whose processes must be notified */
    struct emu_oversub oversub;    /* used when there are more threads than cores */
    uint64_t seen;                 /* serial number of `hostifs` at the last pass */
    struct emu_waiter *waiter;     /* the worker sleeps on it: wait.h */
    /* clock real: largest delay of an event; any thread may read it */
    _Atomic uint64_t worst_lag_ps;

    /* Host interfaces to poll. Published by the manager (RCU). */
    _Atomic(struct emu_hostif_list *) hostifs;
    uint64_t published; /* how often the manager has published that list */
};

/** emu_worker_is_alone - return whether the worker has a core of its own. Thread: any. */
static inline bool emu_worker_is_alone(const struct emu_worker *worker)
{
    return !atomic_load_explicit(&worker->oversubscribed, memory_order_relaxed);
}

/** emu_dev_init - add a device to @worker. Call it before the worker starts. */
void emu_dev_init(struct emu_dev *dev, struct emu_worker *worker, emu_step_fn step);

/** emu_dev_signalled - return the ports with an event for this step. Thread: its worker. */
static inline uint64_t emu_dev_signalled(const struct emu_dev *dev, enum emu_event event)
{
    return dev->worker->taken.ready[dev->index][event];
}

/**
 * emu_fetch_line - prefetch the line at @at.
 * emu_fetch_lines - prefetch all lines from @at to @end. Without the empty asm statement the
 * compiler would remove calls of functions that only prefetch.
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
 * emu_dev_always - step the device in every pass. If the worker sleeps, it also makes a pass when a
 * descriptor (emu_waiter_add()) becomes readable. next_ps still limits the sleep. Not allowed on
 * clock virtual. Call it before the worker starts.
 */
void emu_dev_always(struct emu_dev *dev);

/** emu_dev_signal_remote - signal the device from a thread that is not its worker. */
void emu_dev_signal_remote(struct emu_dev *dev, enum emu_event event, uint64_t ports);

/**
 * emu_dev_is_signalled - return whether a signal of another thread is pending. Thread: any, while
 * the worker is stopped.
 */
bool emu_dev_is_signalled(const struct emu_dev *dev);

/* Set an event of device @index at @ports. @step: 1 if the event steps the device, else 0. */
static inline void emu_signals_add(const struct emu_signals *signals, uint32_t index,
                                   enum emu_event event, uint64_t ports, uint64_t step)
{
    signals->ready[index][event] |= ports;
    signals->near[index / 64] |= step << index % 64;
}

/* Return 1 if a credit at @port steps device @index, else 0: emu_dev_wants(). */
static inline uint64_t emu_worker_wants(const struct emu_worker *worker, uint32_t index,
                                        uint32_t port)
{
    return worker->wants[index] >> port % 64 & 1;
}

/** emu_signal - signal an event at @ports to device @index of worker @to. @from: this worker. */
static inline void emu_signal(struct emu_worker *to, uint32_t index, const struct emu_worker *from,
                              enum emu_event event, uint64_t ports)
{
    if (to != from) {
        emu_dev_signal_remote(to->dev[index], event, ports);
        return;
    }
    emu_signals_add(&to->signalled, index, event, ports, 1);
}

/** emu_signal_credit - signal a credit at @port. emu_worker_wants() says if it steps the device. */
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

/** emu_dev_signal - signal an event at @ports to @dev. @from: this worker. */
static inline void emu_dev_signal(struct emu_dev *dev, const struct emu_worker *from,
                                  enum emu_event event, uint64_t ports)
{
    emu_signal(dev->worker, dev->index, from, event, ports);
}

/**
 * emu_dev_wake - clock virtual: step @dev at @at_ps at the latest. Thread: any, while workers are
 * stopped.
 */
static inline void emu_dev_wake(struct emu_dev *dev, uint64_t at_ps)
{
    uint64_t *due_ps = &dev->worker->due_ps[dev->index];

    if (at_ps < *due_ps)
        dev->next_ps = *due_ps = at_ps;
}

/**
 * emu_dev_poll_within - raw: step this device again in the next pass, and let the worker sleep at
 * most @max_sleep_ps before that. EMU_NEVER: step the device only when it is signalled. The call
 * affects only the next pass. Thread: the device's own step.
 */
static inline void emu_dev_poll_within(struct emu_dev *dev, uint64_t max_sleep_ps)
{
    struct emu_worker *worker = dev->worker;

    dev->next_ps = max_sleep_ps == EMU_NEVER ? EMU_NEVER : 0;
    if (max_sleep_ps < worker->max_sleep_ps)
        worker->max_sleep_ps = max_sleep_ps;
}

/**
 * emu_dev_expect - timed: note that @dev has sent something that arrives at @at_ps. On clock
 * virtual this time must be after the current window, because otherwise results would depend on the
 * order in which devices are stepped. emu_worker_window() checks it.
 */
static inline void emu_dev_expect(struct emu_dev *dev, uint64_t at_ps)
{
    struct emu_worker *worker = dev->worker;

    if (at_ps < worker->sent_ps)
        worker->sent_ps = at_ps;
}

/**
 * emu_dev_stamp_ps - return the time to write into an entry that arrives at @at_ps: on clock raw 0,
 * else @at_ps. If the device sends the entry itself, it must also call emu_dev_expect() on timed
 * clocks.
 */
static inline uint64_t emu_dev_stamp_ps(const struct emu_dev *dev, uint64_t at_ps)
{
    return dev->timed ? at_ps : 0;
}

/**
 * emu_dev_note_lag - timed: note that an event that was due at @due_ps happens at @now_ps, because
 * this host is late (docs/ARCHITECTURE.md, section 6). Thread: the device's own step.
 */
static inline void emu_dev_note_lag(struct emu_dev *dev, uint64_t due_ps, uint64_t now_ps)
{
    _Atomic uint64_t *worst = &dev->worker->worst_lag_ps;

    if (now_ps - due_ps > atomic_load_explicit(worst, memory_order_relaxed))
        atomic_store_explicit(worst, now_ps - due_ps, memory_order_relaxed);
}

/**
 * emu_dev_wants - timed: from now on, a credit from the same worker steps this device only if the
 * credit is at one of @ports. Initially these are all ports. Call it only in a device that reads
 * its rings of credits before it waits for a credit, because only such a device also finds the
 * credits that have not stepped it. Thread: the device's own step.
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

/** emu_dev_add_event - add an event for the current step. Thread: the device's own step. */
static inline void emu_dev_add_event(struct emu_dev *dev, enum emu_event event, uint64_t ports)
{
    dev->worker->taken.ready[dev->index][event] |= ports;
}

/** emu_dev_take - return the ports that had an event, and clear them. Thread: the device's step. */
static inline uint64_t emu_dev_take(struct emu_dev *dev, enum emu_event event)
{
    uint64_t *ready = &dev->worker->taken.ready[dev->index][event];
    uint64_t ports = *ready;

    *ready = 0;
    return ports;
}

/* --- checks --------------------------------------------------------------------------- */

#define EMU_NO_PORT UINT32_MAX /* the error concerns the device as a whole */

/* A callback for the errors that a check finds. */
struct emu_reporter {
    void (*report)(void *ctx, uint32_t port, const char *wrong);
    void *ctx;
};

/** emu_report_error - report error @wrong at @port. NULL: there is no error. */
static inline void emu_report_error(const struct emu_reporter *reporter, uint32_t port,
                                    const char *wrong)
{
    if (wrong)
        reporter->report(reporter->ctx, port, wrong);
}

/* A `report` that keeps the first error. @ctx: const char **, initially pointing to NULL. */
static inline void emu_report_first(void *ctx, uint32_t port, const char *wrong)
{
    const char **first = ctx;

    (void)port;
    if (!*first)
        *first = wrong;
}

#endif
