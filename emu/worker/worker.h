/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h - threads that step devices.
 */
#ifndef EMU_WORKER_H
#define EMU_WORKER_H

#include "emu/dev/dev.h"
#include "emu/util/wait.h"

struct emu_hostif;

/* The edges that a worker looks at; immutable while published. */
struct emu_hostif_list {
    uint64_t serial; /* tells lists apart: an address may come again */
    uint32_t count;
    struct emu_hostif *edge[];
};

/**
 * emu_worker_create - a worker with room for @devs devices; its thread does not run yet.
 * @pool may be NULL when no segment carries a payload.
 */
int emu_worker_create(struct emu_worker **ret, uint32_t devs, const struct emu_clock *clock,
                      struct emu_pool *pool);
void emu_worker_destroy(struct emu_worker *worker);

/**
 * emu_worker_pass - look at the edges and step every device that is ready, once.
 * Returns segments moved. Thread: the worker's own, or a test that started none.
 */
uint32_t emu_worker_pass(struct emu_worker *worker);

/**
 * emu_worker_window - clock virtual: step every device that has something to do by @until_ps, once,
 * and let it do all of it. Entries sent meanwhile are for later windows: no device can act on
 * another sooner than a window is long.
 * Returns when the earliest of its devices, or of the devices it sent to, has something to do next.
 * Thread: the worker's own; nobody else's devices are touched.
 */
uint64_t emu_worker_window(struct emu_worker *worker, uint64_t until_ps);

/**
 * emu_worker_due_ps - the earliest time that one of its devices waits for. Thread: while it stands
 * still.
 */
uint64_t emu_worker_due_ps(const struct emu_worker *worker);

/** emu_worker_quiet - is no device ready? Thread: the worker's own. */
bool emu_worker_quiet(const struct emu_worker *worker);

/* A thread that runs a worker. */
struct emu_thread;
int emu_thread_start(struct emu_thread **ret, struct emu_worker *worker, const char *name);
/**
 * emu_thread_hold, emu_thread_go - between the two the thread stands still, between two passes:
 * what the worker and its devices have may be looked at and changed. @thread NULL: there is none.
 * Thread: manager.
 */
void emu_thread_hold(struct emu_thread *thread);
void emu_thread_go(struct emu_thread *thread);

/** emu_worker_rebase - the clock is rebased by @by_ps. Thread: manager, while it stands still. */
void emu_worker_rebase(struct emu_worker *worker, uint64_t by_ps);

/** emu_thread_stop - ask the thread to end and wait for it. */
void emu_thread_stop(struct emu_thread *thread);

/**
 * emu_worker_edges - publish a new list of edges, wake the worker, and wait until it no longer
 * uses the old one: that is the caller's again, as are the edges that are not in the new one.
 * Sets the list's serial. Thread: manager.
 */
void emu_worker_edges(struct emu_worker *worker, struct emu_hostif_list *list);

#endif
