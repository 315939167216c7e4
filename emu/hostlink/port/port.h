/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - an Ethernet port as host links see it: it receives and sends frames.
 *
 * The implementation is a DPDK device (emu/hostlink/dpdk) or, in tests, a simulated wire. It may
 * silently lose, duplicate, reorder or damage frames; sessions handle that (session.h).
 *
 * Owner: the one device that steps it (hostlink.h): one thread at a time. No call blocks except
 * close().
 */
#ifndef EMU_HOSTLINK_PORT_H
#define EMU_HOSTLINK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_HOSTLINK_MAC_BYTES   6
#define EMU_HOSTLINK_BURST       32u     /* most frames per call */
#define EMU_HOSTLINK_ETHERTYPE   0x88b5u /* IEEE 802 local experimental EtherType 1 */
#define EMU_HOSTLINK_FRAME_BYTES 9014u   /* largest frame: 9000 bytes and the Ethernet header */
#define EMU_HOSTLINK_FRAME_LEAST 60u     /* shorter frames are padded with zeros */

/* A frame, from the Ethernet header on. It belongs to the port and is lent to its holders. */
struct emu_hostframe {
    uint8_t *data;
    uint32_t bytes; /* its length; set by the writer */
    uint32_t room;  /* capacity at data */
    void *own;      /* private to the port */
};

struct emu_hostport;

struct emu_hostport_ops {
    /* Receive at most @max frames. The caller must drop each once. */
    uint32_t (*receive)(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t max);
    /*
     * Send @count frames, at most EMU_HOSTLINK_BURST of at most frame_bytes each. Returns how many
     * of the first the port took; it drops these itself once they are on the wire. The caller keeps
     * the others.
     */
    uint32_t (*send)(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count);
    /* Get a free frame; NULL: none is free now. */
    struct emu_hostframe *(*take)(struct emu_hostport *port);
    /* Add a holder: the frame must be dropped once more. */
    void (*keep)(struct emu_hostport *port, struct emu_hostframe *frame);
    /*
     * Is the caller the only holder? Then the device has finished sending and the frame may be
     * written. With some devices it stays false until something else is sent.
     */
    bool (*is_alone)(struct emu_hostport *port, const struct emu_hostframe *frame);
    void (*drop)(struct emu_hostport *port, struct emu_hostframe *frame);
    /* A descriptor that becomes readable when frames may have arrived; -1: not supported. */
    int (*wake_fd)(struct emu_hostport *port);
    /*
     * Re-arm wake_fd() before sleeping on it. A frame may have arrived just before: call receive()
     * once more and sleep only if it returns none. The descriptor may also fire for other events (a
     * cable was unplugged), and for frames with other EtherTypes.
     */
    void (*wake_clear)(struct emu_hostport *port);
    /* Does the device report a carrier? A system call. */
    bool (*is_up)(struct emu_hostport *port);
    void (*close)(struct emu_hostport *port); /* frees the port; no frame may be held any more */
};

struct emu_hostport {
    const struct emu_hostport_ops *ops;
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES];
    uint32_t frame_bytes; /* largest frame, with its Ethernet header, without the checksum */
    char name[64];        /* for reports: the device as the user named it */
};

#endif
