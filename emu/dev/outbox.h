/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox.h - clock virtual: pass entries and credits to devices of another worker.
 *
 * All workers step their devices through the same *windows* of simulated time (worker/windows.h).
 * An entry or credit that is sent in one window is received in the next one, after all workers have
 * met between the windows. Therefore the sender need not write to the other worker's ring. It puts
 * the entry or credit on a *page*, together with the address of its ring slot. The receiving worker
 * copies it to that slot at the beginning of the next window.
 *
 * Each pair of workers with cables between them has two pages per direction. One page is written
 * while the other is read, and the meeting of the workers orders both. So everything that one
 * worker sends to another in a window is in consecutive lines with one writer and one reader, and
 * only a device's own worker touches its rings, link ends and signals. With two workers, 0.4 cache
 * lines move between cores per hop instead of 1.6 (measured on kary:4,4 with load 0.5).
 *
 * Thread, unless a function says otherwise: any, while all workers are stopped.
 */
#ifndef EMU_OUTBOX_H
#define EMU_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/buffer/ring.h"

struct emu_peer;
struct emu_worker;

/*
 * Maximum number of items (entries and credits) per cable, direction and window. A cable that is
 * busy with full segments has less than one entry and less than one credit per window. If a page is
 * full, the sender writes to the ring itself.
 */
#define EMU_OUTBOX_CABLE 2u
#define EMU_OUTBOX_ITEM  48u /* bytes; four items take three lines */
#define EMU_OUTBOX_BYTES (4 * EMU_OUTBOX_CABLE * EMU_OUTBOX_ITEM) /* bytes per cable on all pages */

/**
 * emu_outbox_join - reserve space for a cable between two workers on clock virtual, in the outboxes
 * of both directions. Errors: -ENOMEM; -ENOTSUP: @a is @b, the clock is not virtual, or the index
 * of a worker has more than 16 bits.
 */
int emu_outbox_join(struct emu_worker *a, struct emu_worker *b);

/**
 * emu_outbox_open - allocate the pages of @worker, after its cables were joined. Until then senders
 * write to the rings. Errors: -ENOMEM.
 */
int emu_outbox_open(struct emu_worker *worker);

/**
 * emu_outbox_entry, emu_outbox_credit - have the receiving worker copy @entry or @credit to the
 * empty @slot in the next window, and signal its device. Returns false and does nothing if there is
 * no space. Thread: worker @from.
 */
bool emu_outbox_entry(struct emu_worker *from, const struct emu_peer *to, struct emu_entry *slot,
                      const struct emu_entry *entry);
bool emu_outbox_credit(struct emu_worker *from, const struct emu_peer *to, struct emu_credit *slot,
                       const struct emu_credit *credit);

/** emu_outbox_begin - begin a window: receive the items of the previous window. Thread: @worker. */
void emu_outbox_begin(struct emu_worker *worker);

/** emu_outbox_settle - copy everything on the pages to the rings, because no window follows. */
void emu_outbox_settle(struct emu_worker *worker);

/** emu_outbox_free - free the outboxes of @worker. No other worker may read them any more. */
void emu_outbox_free(struct emu_worker *worker);

#endif
