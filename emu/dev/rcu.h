/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcu.h - read-copy-update: the manager publishes, workers read without locks.
 *
 * This is liburcu's QSBR flavour: a worker is quiescent between passes and offline while it sleeps.
 * Readers load published pointers with acquire order once a step and keep none across steps.
 */
#ifndef EMU_RCU_H
#define EMU_RCU_H

/** Thread: a worker, at its start and end, and between passes. */
void emu_rcu_enter(void);
void emu_rcu_leave(void);
void emu_rcu_quiescent(void);
void emu_rcu_offline(void);
void emu_rcu_online(void);

/** emu_rcu_wait - wait until no reader uses what was unpublished. Thread: any but readers. */
void emu_rcu_wait(void);

#endif
