/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h - threads that step devices. A *pass* is one iteration of a worker's loop. On clock
 * virtual a worker has *windows* of simulated time instead (windows.h). The *manager* is the thread
 * that controls the fabric.
 */
#ifndef EMU_WORKER_H
#define EMU_WORKER_H

#include "emu/dev/dev.h"
#include "emu/util/wait.h"

struct emu_hostif;
struct emu_lockstep;

/* The host interfaces that a worker polls; immutable while published. */
struct emu_hostif_list {
    uint64_t serial; /* identifies the list, because its address may be reused */
    uint32_t count;
    struct emu_hostif *hostif[];
};

/**
 * emu_worker_create - create a worker for @devs devices, without a thread. @pool: payload buffers;
 * NULL if no segment has a payload.
 */
int emu_worker_create(struct emu_worker **ret, uint32_t devs, const struct emu_clock *clock,
                      struct emu_pool *pool);
void emu_worker_destroy(struct emu_worker *worker);

/**
 * emu_worker_pass - poll the host interfaces and step every device that is signalled or due, once.
 * Returns the number of segments moved. Thread: the worker, or a test without threads.
 */
uint32_t emu_worker_pass(struct emu_worker *worker);

/**
 * emu_worker_window - clock virtual: call the step function of each device that has events up to
 * @until_ps. One call handles all these events of the device. Everything that a device sends
 * arrives in later windows, because no device can affect another in less than a window's length.
 * Returns the time of the next event of the worker's devices and of the devices to which they sent.
 * Thread: the worker.
 */
uint64_t emu_worker_window(struct emu_worker *worker, uint64_t until_ps);

/**
 * emu_worker_due_ps - return the earliest next_ps of the worker's devices. Thread: any, while the
 * worker is stopped.
 */
uint64_t emu_worker_due_ps(const struct emu_worker *worker);

/** emu_worker_quiet - return whether no device is signalled. Thread: the worker. */
bool emu_worker_quiet(const struct emu_worker *worker);

struct emu_thread;
/**
 * emu_thread_start - start a thread for @worker. @lockstep: the thread drives it instead of the
 * worker (lockstep.h); NULL: the thread drives the worker.
 */
int emu_thread_start(struct emu_thread **ret, struct emu_worker *worker,
                     struct emu_lockstep *lockstep, const char *name);
/**
 * emu_threads_pause, emu_threads_resume - stop @count threads, each between two passes, and let
 * them continue. While a thread is stopped, its worker and devices may be read and changed.
 * emu_threads_pause() requests all threads to stop before it waits for the first of them, and
 * emu_threads_resume() does not wait, because each wait lasts a time slice or more if threads
 * outnumber cores. Elements may be NULL. Thread: the manager.
 */
void emu_threads_pause(struct emu_thread *const *thread, uint32_t count);
void emu_threads_resume(struct emu_thread *const *thread, uint32_t count);

/** emu_worker_rebase - subtract @by_ps from all times. Thread: any, while the worker is stopped. */
void emu_worker_rebase(struct emu_worker *worker, uint64_t by_ps);

void emu_thread_stop(struct emu_thread *thread);

/**
 * emu_worker_hostifs - publish a new list of host interfaces, wake the worker, and wait until it no
 * longer uses the old list. The caller may then free the old list, and interfaces that are not in
 * the new one. Sets the new list's serial. Thread: the manager.
 */
void emu_worker_hostifs(struct emu_worker *worker, struct emu_hostif_list *list);

#endif
