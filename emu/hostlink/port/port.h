/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - the Ethernet port of a host link, which receives and sends frames.
 *
 * A port is a DPDK device (emu/hostlink/dpdk) or, in tests, a simulated wire. It may lose,
 * duplicate, reorder or damage frames without notice; sessions handle that (session.h).
 *
 * Owner: the one device that steps the port (hostlink.h). Only one thread at a time calls it. No
 * call blocks, except close().
 */
#ifndef EMU_HOSTLINK_PORT_H
#define EMU_HOSTLINK_PORT_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_HOSTLINK_MAC_BYTES   6
#define EMU_HOSTLINK_BURST       32u     /* maximum number of frames received or sent by one call */
#define EMU_HOSTLINK_ETHERTYPE   0x88b5u /* IEEE 802 local experimental EtherType 1 */
#define EMU_HOSTLINK_FRAME_BYTES 9014u   /* largest frame: 9000 bytes and the Ethernet header */
#define EMU_HOSTLINK_FRAME_LEAST 60u     /* shorter frames are padded with zeros */

/* A frame, beginning with the Ethernet header. It belongs to the port, which counts its holders. */
struct emu_hostframe {
    uint8_t *data;
    uint32_t bytes; /* length of the frame; set by the writer of the frame */
    uint32_t room;  /* bytes of memory at `data` */
    void *own;      /* private to the port */
};

struct emu_hostport;

struct emu_hostport_ops {
    /* Receive at most @max frames. The caller must drop each of them once. */
    uint32_t (*receive)(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t max);
    /*
     * Send @count frames: at most EMU_HOSTLINK_BURST, of at most frame_bytes each. Returns how many
     * of them, in their order, the port has taken. The port drops these when they are on the wire.
     * The caller still holds the other frames.
     */
    uint32_t (*send)(struct emu_hostport *port, struct emu_hostframe **frames, uint32_t count);
    /* Get a free frame, or NULL if none is free now. */
    struct emu_hostframe *(*take)(struct emu_hostport *port);
    /* Add a holder, so that the frame must be dropped once more. */
    void (*keep)(struct emu_hostport *port, struct emu_hostframe *frame);
    /*
     * Return whether the caller is the only holder. If so, the device has sent the frame, and the
     * caller may write it. With some devices the result stays false until another frame is sent.
     */
    bool (*is_alone)(struct emu_hostport *port, const struct emu_hostframe *frame);
    void (*drop)(struct emu_hostport *port, struct emu_hostframe *frame);
    /* Return a descriptor that becomes readable when frames may have arrived; -1: not supported. */
    int (*wake_fd)(struct emu_hostport *port);
    /*
     * Re-arm wake_fd(), before sleeping on it. A frame may have arrived just before this. Therefore
     * the caller must call receive() once more, and sleep only if it returns no frame. The
     * descriptor may also become readable for other reasons: an unplugged cable, or frames with
     * other EtherTypes.
     */
    void (*wake_clear)(struct emu_hostport *port);
    void (*close)(struct emu_hostport *port); /* frees the port; nobody may hold a frame */
};

struct emu_hostport {
    const struct emu_hostport_ops *ops;
    uint8_t mac[EMU_HOSTLINK_MAC_BYTES];
    /* largest frame, with its Ethernet header, without the checksum */
    uint32_t frame_bytes;
    char name[64]; /* the user's name of the device, for reports */
};

#endif
