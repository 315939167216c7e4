/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * taps.h - capture of packets on chosen cables of a running fabric into rings for a reader.
 *
 * Taps (emu/link/tap.h) are added and removed between two passes, while the workers are held.
 * One capture at a time.
 */
#ifndef APPS_FABRIC_TAPS_H
#define APPS_FABRIC_TAPS_H

#include "apps/fabric/fabric.h"
#include "emu/link/tap.h"

/* Directions of a cable, as bits. */
enum fabric_capture_direction {
    FABRIC_CAPTURE_OUT = 1, /* from its first end */
    FABRIC_CAPTURE_IN = 2   /* to its first end */
};

struct fabric_capture {
    const uint8_t *directions_of; /* by cable: bits of enum fabric_capture_direction */
    struct emu_tap_filter filter;
};

/**
 * fabric_capture_start - add taps to those of the directions that have an end here.
 * @memfd: the rings (emu/link/tap_area.h); the caller closes it.
 * Errors: -EBUSY, another capture is active; -ENODEV, no such direction has an end here; -ENOMEM;
 * errors of memfd_create() and mmap(). Thread: manager; holds the workers.
 */
int fabric_capture_start(struct fabric *fabric, const struct fabric_capture *capture, int *memfd);

/** fabric_capture_stop - remove the taps, if any. Thread: manager; holds the workers. */
void fabric_capture_stop(struct fabric *fabric);

/** fabric_direction_name - name of a direction: "3:5>7:1", "n4:0>1:0". @text: 48 bytes. */
void fabric_direction_name(const struct fabric *fabric, uint32_t cable, bool out, char *text);

#endif
