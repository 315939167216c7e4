/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.h - collectives in the switches: one stream of numbered segments per group. Lock: held. */
#ifndef NIC_STREAM_H
#define NIC_STREAM_H

#include "nic/host/group/group.h"

/** nic_stream_add - append @c to the stream. */
void nic_stream_add(struct fabemu_group *g, struct nic_coll *c);
/** nic_stream_send - send a burst of segments, and the tokens that are due. Returns how many. */
uint32_t nic_stream_send(struct fabemu_group *g);
/** nic_stream_receive - a segment of the stream arrived. */
void nic_stream_receive(struct fabemu_group *g, const struct emu_seg *seg);
/**
 * nic_stream_receive_run - receive at most @most segments of the down ring, starting with its
 * first, @seg, as long as they are consecutive full results of one operation; pop them. Returns how
 * many; 0: nothing was done, and @seg must go to nic_stream_receive().
 */
uint32_t nic_stream_receive_run(struct fabemu_group *g, const struct emu_seg *seg, uint32_t most);
/** nic_stream_needs - does the stream still need this segment of ours? */
bool nic_stream_needs(const struct fabemu_group *g, const struct emu_seg *seg);
/** nic_stream_what - describes @c for comparison with other members. */
struct emu_pending_what nic_stream_what(const struct nic_coll *c);
/** nic_stream_awaits - the number on the wire of the segment that @c completes next. */
uint32_t nic_stream_awaits(const struct fabemu_group *g, const struct nic_coll *c);
/** nic_stream_break - end all operations of the stream with -EPIPE. */
void nic_stream_break(struct fabemu_group *g);
/** nic_coll_end - @c ends with its status. */
void nic_coll_end(struct fabemu_group *g, struct nic_coll *c);

#endif
