/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * taps.h - capture the traffic on selected cables of a running fabric into rings for a reader.
 *
 * A *tap* records the traffic at one end of a link (emu/link/tap.h). These functions hold the
 * workers between two passes while they add or remove taps. A fabric has at most one capture.
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
    const uint8_t *directions_of; /* by cable: bits of enum fabric_capture_direction to capture */
    struct emu_tap_filter filter;
};

/**
 * fabric_capture_start - capture the selected directions whose sender is on this host.
 * @memfd: receives a descriptor of the rings (emu/link/tap_area.h); the caller closes it.
 * Errors: -EBUSY, a capture is active; -ENODEV, no selected direction has its sender on this host;
 * -ENOMEM; errors of memfd_create() and mmap(). Thread: manager; holds the workers itself.
 */
int fabric_capture_start(struct fabric *fabric, const struct fabric_capture *capture, int *memfd);

/** fabric_capture_stop - end the capture, if any. Thread: manager; holds the workers itself. */
void fabric_capture_stop(struct fabric *fabric);

/**
 * fabric_direction_name - write the name of a direction of a cable into the 48 bytes at @text.
 * "3:5>7:1" leads from port 5 of switch 3 to port 1 of switch 7; "n4:0>1:0" from link 0 of node 4.
 */
void fabric_direction_name(const struct fabric *fabric, uint32_t cable, bool out, char *text);

#endif
