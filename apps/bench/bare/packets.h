/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets.h - what the one between two ends has to do with a stream in acknowledged packets,
 * however little it does.
 */
#ifndef APPS_BENCH_BARE_PACKETS_H
#define APPS_BENCH_BARE_PACKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/link/seg.h"

/*
 * Slots of an edge's ring that one packet takes: 4 KB. Rings are divided by it; those of qsnet3 on
 * clock raw have 15.
 */
#define BARE_PACKET_SLOTS 16u

struct bare_packets;

/** bare_packets_open - two adapters and the switch between them. NULL: there is no memory. */
struct bare_packets *bare_packets_open(void);
/** bare_packets_close - NULL: nothing is done. */
void bare_packets_close(struct bare_packets *ret);

/**
 * bare_packets_move - one packet of BARE_PACKET_SLOTS full slots, from @from to @to, until its
 * reply is back. Nothing of @from is read that is not copied first: who wrote it may change it.
 */
void bare_packets_move(struct bare_packets *packets, const struct emu_seg *from,
                       struct emu_seg *to);

/** bare_packets_bad - packets whose CRC-32 was not that of what arrived. */
uint64_t bare_packets_bad(const struct bare_packets *packets);

#endif
