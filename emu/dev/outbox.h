/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox.h - clock virtual: what a worker's devices send to those of another worker.
 *
 * What is sent in one window is served in the next, so nobody needs to see it before the workers
 * have met. So an entry or a credit for another worker's device does not go into its ring, but on
 * a page, with the slot where it belongs, and that worker puts it there when it begins the next
 * window. Each pair of workers with cables between them has two pages each way: the one writes the
 * one while the other reads the other, and the meeting (windows.h) orders both. A window's
 * crossings are then lines in a row, each written by one worker and read by one; the rings, the
 * ends and the signals of a device are touched by its own worker alone. Measured with two workers:
 * 0.4 cache lines move between cores for each hop instead of 1.6 (kary:4,4, load 0.5).
 */
#ifndef EMU_OUTBOX_H
#define EMU_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"

struct emu_peer;
struct emu_worker;

/*
 * For each cable, one way, there is room for so many items of a window at either end: one that
 * carries full segments takes less than one, and as many credits go back. What finds no room goes
 * as without.
 */
#define EMU_OUTBOX_CABLE 2u
#define EMU_OUTBOX_ITEM  48u                                      /* bytes: four in three lines */
#define EMU_OUTBOX_BYTES (4 * EMU_OUTBOX_CABLE * EMU_OUTBOX_ITEM) /* for it, of all pages */

/**
 * emu_outbox_join - one cable more between two workers of one clock virtual: each has an outbox
 * for the other. Thread: any, while both stand still. Errors: -ENOMEM; -ENOTSUP: they are not such
 * workers, or one, or have no numbers of 16 bits.
 */
int emu_outbox_join(struct emu_worker *a, struct emu_worker *b);

/**
 * emu_outbox_open - the cables of @worker have been joined: pages for its outboxes. Until then all
 * goes as without. Thread: as above. Errors: -ENOMEM.
 */
int emu_outbox_open(struct emu_worker *worker);

/**
 * emu_outbox_entry, emu_outbox_credit - @entry, or @credit, is for @slot, which is empty, and its
 * device is told, in the next window. False: there is no room; nothing was done.
 * Thread: the one of @from.
 */
bool emu_outbox_entry(struct emu_worker *from, const struct emu_peer *to, struct emu_entry *slot,
                      const struct emu_entry *entry);
bool emu_outbox_credit(struct emu_worker *from, const struct emu_peer *to, struct emu_credit *slot,
                       const struct emu_credit *credit);

/**
 * emu_outbox_begin - a window begins: what was sent to @worker in the one before is put where it
 * belongs. Thread: @worker's.
 */
void emu_outbox_begin(struct emu_worker *worker);

/**
 * emu_outbox_settle - the same, where no window begins now: who looks at the rings is to find it
 * there. Thread: any, while all workers stand still.
 */
void emu_outbox_settle(struct emu_worker *worker);

/** emu_outbox_free - those of @worker, which nobody reads any more. */
void emu_outbox_free(struct emu_worker *worker);

#endif
