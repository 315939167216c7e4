/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - an Ethernet port as host links see it: frames in, frames out.
 *
 * What stands behind it is a DPDK device (emu/hostlink/dpdk) or, in tests, a wire in memory. It may
 * lose, double, reorder or damage frames, and never says so: sessions see to that (session.h).
 *
 * Owner: the one device that steps it (hostlink.h): one thread at a time. No call blocks but
 * close().
 */
#ifndef EMU_HOSTLINK_PORT_H
#define EMU_HOSTLINK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_HOSTLINK_MAC_BYTES   6
#define EMU_HOSTLINK_BURST       32u     /* frames of one call, at most */
#define EMU_HOSTLINK_ETHERTYPE   0x88b5u /* of all our frames: IEEE 802's, for experiments */
#define EMU_HOSTLINK_FRAME_BYTES 9014u   /* of the largest frame: 9000 and the Ethernet header */
#define EMU_HOSTLINK_FRAME_LEAST 60u     /* a shorter frame arrives filled up with zeros */

/* A frame: it begins with the Ethernet header. The port's, lent to whoever holds it. */
struct emu_hostframe {
    uint8_t *data;
    uint32_t bytes; /* of it; set by who fills it */
    uint32_t room;  /* bytes that fit at data */
    void *own;      /* the port's own */
};

struct emu_hostport;

struct emu_hostport_ops {
    /* Frames that have come, at most @max: the caller's, each to be dropped once. */
    uint32_t (*receive)(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t max);
    /*
     * Send @count frames, at most EMU_HOSTLINK_BURST of at most frame_bytes each. Returns how many
     * the port took, the first of them; the others stay the caller's. What it took it drops itself,
     * once it is on the wire.
     */
    uint32_t (*send)(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count);
    /* A frame to fill; NULL: none is free now. */
    struct emu_hostframe *(*take)(struct emu_hostport *port);
    /* One holder more: the frame must be dropped once more. */
    void (*keep)(struct emu_hostport *port, struct emu_hostframe *frame);
    /*
     * Does the caller hold it alone? Then the device is done with it, and it may be written. With
     * some devices it stays false until something else is sent.
     */
    bool (*is_alone)(struct emu_hostport *port, const struct emu_hostframe *frame);
    void (*drop)(struct emu_hostport *port, struct emu_hostframe *frame);
    /* A descriptor that epoll finds readable when frames may have come; -1: none can tell. */
    int (*wake_fd)(struct emu_hostport *port);
    /*
     * Before sleeping on wake_fd(): what it has told so far is told no more. A frame may have come
     * just before: receive() once more, and sleep only when there was none. The descriptor may
     * also tell of what is no frame (a cable pulled), and of frames that are nobody's.
     */
    void (*wake_clear)(struct emu_hostport *port);
    /* Has the port a carrier, as far as the device says? A system call. */
    bool (*is_up)(struct emu_hostport *port);
    void (*close)(struct emu_hostport *port); /* frees the port; no frame is held any more */
};

struct emu_hostport {
    const struct emu_hostport_ops *ops;
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES];
    uint32_t frame_bytes; /* of a frame at most, with its Ethernet header, without the check sum */
    char name[64];        /* for reports: the device, as the user named it */
};

#endif
