/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compute.h - clock virtual: account for the time that the program computes between two calls of
 * this library (`--compute`), and for the fixed time of each call (`--call-ns`).
 *
 * Each call of the program begins with nic_call_begin() and ends with nic_call_end(). Only calls of
 * the thread that has attached take time. On other clocks, and in a signal handler that has
 * interrupted a call (nic_sim_enter()), these functions do nothing.
 */
#ifndef NIC_COMPUTE_H
#define NIC_COMPUTE_H

#include "emu/hostif/calls.h"
#include "nic/host/base/local_time.h"

/** nic_sim_has_begun - return whether simulated time has begun. Z8 pairs with Z7. */
static inline bool nic_sim_has_begun(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->hostif.shared->sim.base_ns, memory_order_acquire); /* Z8 */
}

/**
 * nic_compute_open - begin to count the program's computing, in the mode that the fabric has
 * chosen. @calls_fd: the file in which calls are recorded, or from which they are replayed; -1:
 * none. This function closes it, or nic_compute_close() does. Errors: those of nic_tape_open(),
 * nic_trace_open() and emu_instructions_open().
 */
int nic_compute_open(struct fabemu *fab, int calls_fd);
/** nic_compute_close - undo nic_compute_open(). No call follows, because the process detaches. */
void nic_compute_close(struct fabemu *fab);

/**
 * nic_sim_progress - count the time of the polls since the last call of this function as waiting,
 * because the program has posted an operation or one has completed. Polls and sleeps after the last
 * operation are not counted. In these, MPI_Finalize() waits for the launcher, for a time that
 * depends on the host.
 * Thread: the one that has attached.
 */
void nic_sim_progress(struct fabemu *fab);

/**
 * nic_call_begin - at the beginning of a call, advance the local time by the time for which the
 * program has computed and, if the call posts an operation, by the fixed time of a call
 * (`--call-ns`). May handle segments. Lock: not held.
 */
void nic_call_begin(struct fabemu *fab, const struct emu_call *call);

/**
 * nic_call_end - handle the end of a call. @posted: the call has posted an operation. Pass false if
 * the call failed: it is then neither counted nor recorded. Lock: not held.
 */
void nic_call_end(struct fabemu *fab, const struct emu_call *call, bool posted);

#endif
