/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcu.h - read-copy-update: the manager (the thread that controls the fabric) publishes data, and
 * workers read it without locks.
 *
 * This is liburcu's QSBR flavour. A worker is quiescent between two passes (iterations of its
 * loop), and offline while it sleeps. In each step a worker loads published pointers anew, with
 * acquire order, and it keeps none of them until the next step.
 */
#ifndef EMU_RCU_H
#define EMU_RCU_H

/** A worker calls these at the start and end of its thread, between passes, and around a sleep. */
void emu_rcu_enter(void);
void emu_rcu_leave(void);
void emu_rcu_quiescent(void);
void emu_rcu_offline(void);
void emu_rcu_online(void);

/** emu_rcu_wait - wait until no reader uses data that is no longer published. Not for readers. */
void emu_rcu_wait(void);

#endif
