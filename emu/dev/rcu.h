/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcu.h - read-copy-update: the manager publishes, workers read without locks.
 *
 * liburcu's QSBR flavour: a worker's loop is its quiescent state, and a worker
 * that sleeps is offline. Readers load published pointers with acquire order
 * once a step and keep nothing across steps.
 */
#ifndef EMU_RCU_H
#define EMU_RCU_H

/** Thread: a worker, at its start and end, and between passes. */
void emu_rcu_enter(void);
void emu_rcu_leave(void);
void emu_rcu_quiescent(void);
void emu_rcu_offline(void);
void emu_rcu_online(void);

/**
 * emu_rcu_wait - until no reader can hold what was unpublished before the call. Thread: no reader.
 */
void emu_rcu_wait(void);

#endif
