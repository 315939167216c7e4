/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * taps.h - what passes chosen cables of a running fabric, into rings that somebody empties.
 *
 * Taps (emu/link/tap.h) are put on and taken off while the workers are held, between two passes.
 * One capture at a time.
 */
#ifndef APPS_FABRIC_TAPS_H
#define APPS_FABRIC_TAPS_H

#include "apps/fabric/fabric.h"
#include "emu/link/tap.h"

/* Ways of a cable, as bits. */
enum fabric_capture_way {
    FABRIC_CAPTURE_OUT = 1, /* from its first end */
    FABRIC_CAPTURE_IN = 2   /* to it */
};

struct fabric_capture {
    const uint8_t *ways; /* by cable: bits of enum fabric_capture_way */
    struct emu_tap_filter filter;
};

/**
 * fabric_capture_start - taps on all of these ways that have an end here, and rings for them.
 * @memfd: of the rings (emu/link/tap_area.h), the caller's to close.
 * Errors: -EBUSY, somebody captures already; -ENODEV, no such way has an end here; -ENOMEM; of
 * memfd_create() and mmap(). Thread: manager; holds the workers.
 */
int fabric_capture_start(struct fabric *fabric, const struct fabric_capture *capture, int *memfd);

/**
 * fabric_capture_stop - the taps are gone, and what was noted is all in the rings; nothing, if
 * there were none. Thread: the same.
 */
void fabric_capture_stop(struct fabric *fabric);

/** fabric_captures - is there a capture? Thread: manager. */
bool fabric_captures(const struct fabric *fabric);

/** fabric_cable_way_name - "3:5>7:1", "n4:0>1:0": a way of a cable. @text: of 48 bytes. */
void fabric_cable_way_name(const struct fabric *fabric, uint32_t cable, bool out, char *text);

#endif
