/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * entry.h - an entry of a ring as a record, and back: what a cable carries to another host,
 * whatever the clock. Times are the sender's as they stand; who has another clock translates them.
 */
#ifndef EMU_HOSTLINK_ENTRY_H
#define EMU_HOSTLINK_ENTRY_H

#include "emu/hostlink/wire.h"
#include "emu/link/pool.h"
#include "emu/profile.h"

/**
 * hostlink_is_segment - is it a segment, which a credit comes back for? On cables with channels
 * replies are none. Pure.
 */
bool hostlink_is_segment(const struct emu_hdr *hdr, bool channels);

/**
 * hostlink_entry_record - @entry as a record of cable 0, in @ret, which is all zeros: its payload,
 * if it has one, stays in @pool's buffer. On cables with channels the adapter's own header is
 * payload, too: if it was damaged on its way here its length is not what it was, and the far
 * adapter is to find that, by the packet's checksum.
 */
void hostlink_entry_record(const struct emu_entry *entry, struct emu_pool *pool, bool channels,
                           struct emu_hostlink_record *ret);

/**
 * hostlink_entry_is_sane - can such an entry be on a cable of @profile? Pure.
 * @nodes: of the network. @inside: they are inside the fabric, and need not send what no switch
 *         reads of a payload.
 */
bool hostlink_entry_is_sane(const struct emu_hostlink_record *record,
                            const struct emu_profile *profile, uint32_t nodes, bool inside);

/**
 * hostlink_entry_of - the entry of a record that is sane; @buf: a buffer of @pool, which gets what
 * lies in the record's, or EMU_NO_BUF.
 */
struct emu_entry hostlink_entry_of(const struct emu_hostlink_record *record, struct emu_pool *pool,
                                   uint32_t buf);

#endif
