/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream.h - collectives that the switches carry out: one stream of numbered segments a group.
 *
 * Owner: a group's numbers, its operations in stream order, the stash. Lock: held. Callers:
 * dispatch.c, coll.c, break.c.
 */
#ifndef NIC_STREAM_H
#define NIC_STREAM_H

#include "nic/host/group/group.h"

/** nic_stream_add - @c takes the next numbers of the stream. */
void nic_stream_add(struct fabemu_group *g, struct nic_coll *c);
/** nic_stream_send - a burst of segments and the tokens that are due. Returns segments. */
uint32_t nic_stream_send(struct fabemu_group *g);
/** nic_stream_receive - a segment of the stream came. */
void nic_stream_receive(struct fabemu_group *g, const struct emu_seg *seg);
/**
 * nic_stream_receive_run - the next segments of the down ring, from @seg on, its first, as far as
 * they are full results in a row of one operation; @most at most. Returns how many were taken, and
 * popped. 0: nothing was done, @seg is for nic_stream_receive().
 */
uint32_t nic_stream_receive_run(struct fabemu_group *g, const struct emu_seg *seg, uint32_t most);
/** nic_stream_needs - does the stream still wait for this segment of ours? */
bool nic_stream_needs(const struct fabemu_group *g, const struct emu_seg *seg);
/** nic_stream_what - what @c is, for others to compare. */
struct emu_pending_what nic_stream_what(const struct nic_coll *c);
/** nic_stream_awaits - the number of the segment that @c is to complete next, on the wire. */
uint32_t nic_stream_awaits(const struct fabemu_group *g, const struct nic_coll *c);
/** nic_stream_break - nothing more will come: all of its operations end with -EPIPE. */
void nic_stream_break(struct fabemu_group *g);
/** nic_coll_end - @c is over, with its status. */
void nic_coll_end(struct fabemu_group *g, struct nic_coll *c);

#endif
