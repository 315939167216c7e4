/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - a ring of fault hits. The devices of one worker write it. The manager (the thread that
 * controls the fabric) reads it. If the ring is full, the worker drops the hit and counts it,
 * because the worker never waits.
 */
#ifndef EMU_FAULT_LOG_H
#define EMU_FAULT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

/* number of payload bytes that are logged: enough to show the kind of message */
#define EMU_FAULT_BEGINS 16u

struct emu_fault_hit {
    uint64_t at_ps; /* timed: when the entry would have arrived; raw: the host's clock */
    uint32_t fault;
    uint32_t cable; /* number of one direction of a cable: emu_faults.name */
    uint8_t what;   /* enum emu_fault_what */
    uint8_t packet; /* enum emu_fault_packet */
    bool link_down; /* the entry was lost because the link was down; `what` is unused */
    bool known;     /* `hdr` is valid */
    struct emu_hdr hdr;
    uint8_t begins[EMU_FAULT_BEGINS]; /* first bytes of the payload; zeros after hdr.len bytes */
};

struct emu_fault_log;

/** emu_fault_log_create - create an empty log. Returns NULL if there is no memory. */
struct emu_fault_log *emu_fault_log_create(void);
void emu_fault_log_destroy(struct emu_fault_log *log);

/** emu_fault_log_put - append a hit. Does nothing if @log is NULL. Thread: the worker. */
void emu_fault_log_put(struct emu_fault_log *log, const struct emu_fault_hit *hit);

/** emu_fault_log_take - take the oldest hit. Returns false if there is none. Thread: manager. */
bool emu_fault_log_take(struct emu_fault_log *log, struct emu_fault_hit *ret);

/** emu_fault_log_missed - return how many hits were dropped for lack of space. Thread: any. */
uint64_t emu_fault_log_missed(const struct emu_fault_log *log);

#endif
