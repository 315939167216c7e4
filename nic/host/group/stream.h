/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h - collectives that the switches execute: one stream of numbered segments per group.
 * Lock: held.
 */
#ifndef NIC_STREAM_H
#define NIC_STREAM_H

#include "nic/host/group/group.h"

void nic_stream_add(struct fabemu_group *g, struct nic_coll *c);
/** nic_stream_send - send a burst of segments and the tokens that are due. Returns their number. */
uint32_t nic_stream_send(struct fabemu_group *g);
void nic_stream_receive(struct fabemu_group *g, const struct emu_seg *seg);
/**
 * nic_stream_receive_run - receive @seg, which is the first segment in the ring from the fabric,
 * and the segments behind it, as long as they are consecutive full results of one operation.
 * Removes at most @most segments from the ring. Returns their number. 0: nothing was done, and @seg
 * must be given to nic_stream_receive().
 */
uint32_t nic_stream_receive_run(struct fabemu_group *g, const struct emu_seg *seg, uint32_t most);
/** nic_stream_needs - return whether the stream still needs our segment @seg, which was dropped. */
bool nic_stream_needs(const struct fabemu_group *g, const struct emu_seg *seg);
/** nic_stream_what - describe @c, for the comparison with other members' operations. */
struct emu_pending_what nic_stream_what(const struct nic_coll *c);
/** nic_stream_awaits - return the number on the wire of the segment that @c must complete next. */
uint32_t nic_stream_awaits(const struct fabemu_group *g, const struct nic_coll *c);
/** nic_stream_break - end all operations of the stream with -EPIPE. */
void nic_stream_break(struct fabemu_group *g);
void nic_coll_end(struct fabemu_group *g, struct nic_coll *c);

#endif
