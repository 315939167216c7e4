/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - what faults have hit: a worker's devices write, the manager reads.
 *
 * A ring with one writer and one reader. When it is full a hit is counted and not kept: the fabric
 * waits for nobody.
 */
#ifndef EMU_FAULT_LOG_H
#define EMU_FAULT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_FAULT_BEGINS 16u /* bytes of a payload that are kept: what its kind of message is */

struct emu_fault_hit {
    uint64_t at_ps; /* timed: when it was to arrive; raw: by the host's clock */
    uint32_t fault;
    uint32_t cable; /* emu_faults.name */
    uint8_t what;   /* enum emu_fault_what */
    uint8_t packet; /* enum emu_fault_packet */
    bool dark;      /* it was on a cable that was down: `what` means nothing */
    bool known;     /* hdr is the segment's */
    struct emu_hdr hdr;
    uint8_t begins[EMU_FAULT_BEGINS]; /* of the payload; those beyond hdr.len are 0 */
};

struct emu_fault_log;

/** emu_fault_log_create - NULL: there is no memory. */
struct emu_fault_log *emu_fault_log_create(void);
void emu_fault_log_destroy(struct emu_fault_log *log);

/** emu_fault_log_put - Thread: the one whose devices write. */
void emu_fault_log_put(struct emu_fault_log *log, const struct emu_fault_hit *hit);

/** emu_fault_log_take - the oldest; false: there is none. Thread: manager. */
bool emu_fault_log_take(struct emu_fault_log *log, struct emu_fault_hit *ret);

/** emu_fault_log_missed - hits that found it full. Thread: any. */
uint64_t emu_fault_log_missed(const struct emu_fault_log *log);

#endif
