/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - a log of fault hits: written by the devices of one worker, read by the manager. When it
 * is full, hits are dropped and counted: the fabric never waits.
 */
#ifndef EMU_FAULT_LOG_H
#define EMU_FAULT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_FAULT_BEGINS 16u /* bytes of the payload kept, to show the kind of message */

struct emu_fault_hit {
    uint64_t at_ps; /* timed: due arrival; raw: the host's clock */
    uint32_t fault;
    uint32_t cable; /* emu_faults.name */
    uint8_t what;   /* enum emu_fault_what */
    uint8_t packet; /* enum emu_fault_packet */
    bool link_down; /* lost because the link was down; `what` is unused */
    bool known;     /* hdr is valid */
    struct emu_hdr hdr;
    uint8_t begins[EMU_FAULT_BEGINS]; /* of the payload; zeros after hdr.len bytes */
};

struct emu_fault_log;

/** emu_fault_log_create - NULL: no memory. */
struct emu_fault_log *emu_fault_log_create(void);
void emu_fault_log_destroy(struct emu_fault_log *log);

/** emu_fault_log_put - @log: NULL: nothing happens. Thread: the worker. */
void emu_fault_log_put(struct emu_fault_log *log, const struct emu_fault_hit *hit);

/** emu_fault_log_take - take the oldest hit. False: there is none. Thread: the manager. */
bool emu_fault_log_take(struct emu_fault_log *log, struct emu_fault_hit *ret);

/** emu_fault_log_missed - hits dropped because the log was full. Thread: any. */
uint64_t emu_fault_log_missed(const struct emu_fault_log *log);

#endif
