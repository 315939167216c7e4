/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox.h - clock virtual: entries and credits for devices of another worker.
 *
 * An entry sent in one window is served in the next, so nobody reads it before the workers have
 * met. Instead of writing to the other worker's ring, the sender puts the entry or credit on a page
 * together with its slot, and the receiving worker copies it there at the beginning of the next
 * window. Each pair of workers with cables between them has two pages per direction: one is written
 * while the other is read, and the meeting (windows.h) orders both. So each window's crossings are
 * consecutive lines with one writer and one reader, while a device's rings, link ends and signals
 * are touched by its own worker only. Measured with two workers: 0.4 cache lines move between cores
 * per hop instead of 1.6 (kary:4,4, load 0.5).
 */
#ifndef EMU_OUTBOX_H
#define EMU_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"

struct emu_peer;
struct emu_worker;

/*
 * Items per cable, direction and window. A cable full of full segments needs less than one, and as
 * many credits. When a page is full the sender uses the ring.
 */
#define EMU_OUTBOX_CABLE 2u
#define EMU_OUTBOX_ITEM  48u                                      /* bytes: four in three lines */
#define EMU_OUTBOX_BYTES (4 * EMU_OUTBOX_CABLE * EMU_OUTBOX_ITEM) /* per cable, all pages */

/**
 * emu_outbox_join - add a cable between two workers of a clock virtual, with an outbox in each
 * direction. Thread: any, while both are stopped.
 * Errors: -ENOMEM; -ENOTSUP: the same worker, another clock, or indexes of more than 16 bits.
 */
int emu_outbox_join(struct emu_worker *a, struct emu_worker *b);

/**
 * emu_outbox_open - allocate the pages of @worker after its cables are joined; until then rings are
 * used. Thread: any, while workers are stopped. Errors: -ENOMEM.
 */
int emu_outbox_open(struct emu_worker *worker);

/**
 * emu_outbox_entry, emu_outbox_credit - have @entry or @credit put into the empty @slot, and its
 * device signalled, in the next window. False: no space; nothing was done. Thread: @from's.
 */
bool emu_outbox_entry(struct emu_worker *from, const struct emu_peer *to, struct emu_entry *slot,
                      const struct emu_entry *entry);
bool emu_outbox_credit(struct emu_worker *from, const struct emu_peer *to, struct emu_credit *slot,
                       const struct emu_credit *credit);

/** emu_outbox_begin - begin a window: deliver the last one's entries. Thread: @worker's. */
void emu_outbox_begin(struct emu_worker *worker);

/**
 * emu_outbox_settle - deliver to the rings when no window follows. Thread: any, all are stopped.
 */
void emu_outbox_settle(struct emu_worker *worker);

/** emu_outbox_free - free the outboxes of @worker. No other worker reads them any more. */
void emu_outbox_free(struct emu_worker *worker);

#endif
