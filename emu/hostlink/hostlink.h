/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostlink.h - the device that carries cables to another host.
 *
 * A cable whose ends are on two hosts is, on each of them, a local cable (link.h) between the
 * switch, or the link engine, and this device. What the switch sends the device takes out of the
 * ring and puts into frames; what comes in frames it puts into the ring of the switch, where there
 * is room for it, because the far device never sends more than that ring has slots (TAKEN says
 * which have been emptied). The cable's own credits pass unread, as the switches at its ends return
 * them: that the wire is longer changes nothing for them. So a host link neither adds buffers to a
 * network nor takes any away, and no cycle of waits goes through it that the network does not have.
 *
 * Many cables share a session by turns: each may put so many entries into frames, and then it is
 * the next one's turn. Control bytes have a share of their own.
 */
#ifndef EMU_HOSTLINK_H
#define EMU_HOSTLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostlink/session.h"
#include "emu/link/link.h"

struct emu_hostlink;

/* One cable's end here: the device's own ends of the local cable. */
struct emu_hostlink_cable {
    struct emu_tx tx; /* to the switch here */
    struct emu_rx rx; /* from it */
};

/* Another host that the port leads to. */
struct emu_hostlink_peer {
    struct emu_session_config session; /* `port` is set by the device */
    uint32_t cables;                   /* to that host over this port */
    /*
     * A stream socket for the control channel: what is written to its other end arrives, in order,
     * at the far host's. -1: none goes over this port. The device's, which closes it. Not blocking.
     */
    int control_fd;
};

/**
 * emu_hostlink_create - the device of @port, which it closes in the end, on @worker. Sessions begin
 * with the worker. Errors: as emu_session_create().
 */
int emu_hostlink_create(struct emu_hostlink **ret, struct emu_worker *worker,
                        struct emu_hostport *port, const struct emu_hostlink_peer *peers,
                        uint32_t count);
void emu_hostlink_destroy(struct emu_hostlink *link);

struct emu_dev *emu_hostlink_dev(struct emu_hostlink *link);

/**
 * emu_hostlink_cable - its ends, to be joined by emu_link_join() before the worker starts, with
 * emu_hostlink_port() for the device's port.
 */
struct emu_hostlink_cable *emu_hostlink_cable(struct emu_hostlink *link, uint32_t peer,
                                              uint32_t cable);

/** emu_hostlink_port - the bit that tells the device of the cable; several share one. Pure. */
uint8_t emu_hostlink_port(const struct emu_hostlink *link, uint32_t peer, uint32_t cable);

/** emu_hostlink_session - of @peer; to be read: state, counts. */
const struct emu_session *emu_hostlink_session(const struct emu_hostlink *link, uint32_t peer);

#endif
