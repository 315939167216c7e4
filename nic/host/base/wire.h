/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the protocol between adapters, in the payload of unicast segments.
 *
 * There are two classes. Requests carry a number in hdr.seq (per pair of nodes, from 0) and are
 * dispatched in that order, because segments may overtake each other in the fabric. Answers and
 * bulk data name a transfer by its id and may arrive in any order.
 *
 * With acknowledgments the network may drop a segment for good: it returns to its sender with
 * EMU_FAILED, and the numbers have a gap. Then the pair starts again under its next epoch
 * (peer/handshake.c).
 *
 * Byte order is the host's: all adapters of one fabric have the same.
 */
#ifndef NIC_WIRE_H
#define NIC_WIRE_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "nic/host/base/adapter.h"

enum nic_what {
    /* Requests, in order. */
    NIC_EAGER = 1,      /* nic_wire_msg, then the message or its first part */
    NIC_MORE,           /* nic_wire_head, then more of the last eager message */
    NIC_RTS,            /* nic_wire_msg: a message that waits at the sender for CTS */
    NIC_PUT,            /* nic_wire_mem, then the data: a put of one segment */
    NIC_PUT_RTS,        /* nic_wire_mem: a put that waits at the sender for CTS */
    NIC_GET,            /* nic_wire_mem */
    NIC_ATOMIC,         /* nic_wire_atomic */
    NIC_SHORT,          /* nic_wire_short, then the message: an eager one that qualifies */
    NIC_PUT_NOTICE,     /* nic_wire_mem, nic_wire_notice, then the data: as NIC_PUT */
    NIC_PUT_NOTICE_RTS, /* nic_wire_mem, nic_wire_notice: as NIC_PUT_RTS */
    NIC_REQUEST_LAST = NIC_PUT_NOTICE_RTS,

    /* Answers, in any order. */
    NIC_CTS, /* nic_wire_cts: send this many bytes to this transfer of mine */
    /*
     * nic_wire_fin: your transfer has ended with this status (0: I have all of it); it gets no more
     * data
     */
    NIC_FIN,
    NIC_RESULT,     /* nic_wire_result: your atomic is done */
    NIC_ACK,        /* nic_wire_head: only its acknowledgments */
    NIC_DISCONNECT, /* nic_wire_disconnect */
    NIC_DATA,       /* nic_wire_data, then bytes of a transfer */
    NIC_HELLO       /* nic_wire_hello */
};

/* The first bytes of every segment except NIC_DATA and NIC_HELLO. */
struct nic_wire_head {
    uint8_t what; /* enum nic_what */
    uint8_t spare;
    uint16_t queue; /* messages and notices: the receiver's queue */
    uint32_t check; /* nic_check() of both processes; a mismatch means a stranger's segment */
    uint32_t ack;   /* your requests that I have dispatched, free-running */
    /* bytes of your charged eager messages that the application has received, free-running */
    uint32_t consumed;
};

struct nic_wire_msg {
    struct nic_wire_head head;
    uint16_t src_queue;
    uint16_t spare;
    /* the sender's transfer. NIC_EAGER: the one to confirm with NIC_FIN when all is here, or 0 */
    uint32_t id;
    uint64_t tag;
    uint64_t data;
    uint64_t bytes; /* of the whole message */
};

/*
 * Enough for most eager messages of one segment: no FIN is wanted, and the data is below 2^32. With
 * messages up to 16 bytes the segment then fits in one cache line, which moves between three cores:
 * half a round trip of 8 bytes takes 0.92 of the time with two lines.
 */
struct nic_wire_short {
    struct nic_wire_head head;
    uint16_t src_queue;
    uint16_t spare;
    uint32_t data;
    uint64_t tag;
};

struct nic_wire_mem {
    struct nic_wire_head head;
    uint32_t id; /* the requester's transfer */
    uint32_t spare;
    uint64_t key;
    uint64_t offset; /* in the region, bytes */
    uint64_t bytes;
};

/* Follows nic_wire_mem: the notice for the target's queue when the put is in memory. */
struct nic_wire_notice {
    uint64_t data;
    uint16_t src_queue;
    uint16_t spare[3];
};

#define NIC_ATOMIC_FETCH 1u /* return the word's previous value */

struct nic_wire_atomic {
    struct nic_wire_mem mem; /* bytes: size of the word */
    uint8_t op;              /* enum fabemu_atomic_op */
    uint8_t type;            /* enum fabemu_type */
    uint8_t flags;           /* NIC_ATOMIC_FETCH */
    uint8_t spare[5];
    uint64_t operand, compare; /* of the type, in the first bytes */
};

struct nic_wire_result {
    struct nic_wire_head head;
    uint32_t id;
    uint32_t spare;
    uint64_t value; /* previous value; 0 unless requested */
};

struct nic_wire_cts {
    struct nic_wire_head head;
    uint32_t id;    /* the transfer that may continue */
    uint32_t to;    /* the transfer to name in NIC_DATA */
    uint64_t bytes; /* accepted, from the beginning */
};

struct nic_wire_fin {
    struct nic_wire_head head;
    uint32_t id;
    int32_t status; /* 0 or a negative errno */
};

struct nic_wire_data {
    uint8_t what;
    uint8_t spare;
    uint16_t check; /* low half of nic_check() */
    uint32_t id;    /* the receiver's transfer */
};                  /* hdr.seq: number of this piece of NIC_DATA_BYTES */

/*
 * Handshake of two processes. A request is sent only after the receiver is known to know this
 * process, so the streams of a node's successive processes are never mixed up.
 */
struct nic_wire_hello {
    uint8_t what;
    uint8_t want; /* 1: answer with a hello */
    uint16_t spare;
    /* the pair's epoch: raised by 1, modulo 2^32, when its streams break; the later one wins */
    uint32_t epoch;
    uint64_t incarnation; /* the sender's incarnation */
    uint64_t known;       /* the receiver's incarnation as far as the sender knows, 0: unknown */
};

/*
 * Two processes disconnect (api/leave.c, peer/disconnect.c). The process that detaches sends a
 * query. The other answers once it has received all requests that the query counts, and sends
 * nothing more. Queries may be repeated and may overtake each other, so each carries a count, and
 * no process detaches before it has received them all.
 */
enum nic_disconnect {
    NIC_DISCONNECT_ASK,
    NIC_DISCONNECT_ANSWER,
    /* to a process that the sender will not handshake with; carries the check of its query */
    NIC_DISCONNECT_UNKNOWN,
    /*
     * from a process that detaches, once it has its answer: it sends no more queries. If the peer
     * detaches, too, it first waits for the queries that are still in flight.
     */
    NIC_DISCONNECT_DONE
};

struct nic_wire_disconnect {
    struct nic_wire_head head;
    uint32_t sent; /* total of requests sent */
    uint8_t kind;  /* enum nic_disconnect */
    uint8_t done;  /* answers: 1 if a DONE was sent before it */
    /* queries that the sender has sent to the receiver, including this one */
    uint16_t queries_sent;
    uint16_t came;  /* answers: queries of the receiver that have arrived, */
    uint16_t given; /* and answers sent to them, including this one */
    uint8_t unused[4];
    uint64_t incarnation; /* the sender's incarnation */
};

/*
 * Kinds of multicast segments, in hdr.op. Segments of the collective stream (group/stream.c) have
 * 0. The others have EMU_NOTIFY and are not numbered: hdr.seq is the sender's operation id, by
 * which it recognises the network's reply.
 */
enum nic_multicast_kind {
    NIC_MULTICAST_STREAM,
    /* nic_wire_broadcast, then bytes. hdr.type is the segment's number in the put, modulo 256 */
    NIC_MULTICAST_BODY,
    NIC_MULTICAST_LAST,   /* the same: the last segment of its put */
    NIC_MULTICAST_BROKEN, /* empty: the sender has broken the group, for all members */
    /* empty: the sender waits and checks that all members can be reached */
    NIC_MULTICAST_PROBE
};

struct nic_wire_broadcast {
    uint64_t key;    /* of a symmetric region of the group */
    uint64_t offset; /* of these bytes in the region */
};

/* Data bytes in a segment of each kind. */
#define NIC_INLINE_BYTES    (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_msg))
#define NIC_NOTICED_BYTES   (NIC_INLINE_BYTES - sizeof(struct nic_wire_notice))
#define NIC_MORE_BYTES      (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_head))
#define NIC_DATA_BYTES      (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_data))
#define NIC_BROADCAST_BYTES (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_broadcast))

/* Limit of a transfer: the numbers of its pieces have 32 bits. */
#define NIC_TRANSFER_MAX ((uint64_t)NIC_DATA_BYTES << 32)

static_assert(sizeof(struct nic_wire_head) == 16, "wire format");
static_assert(sizeof(struct nic_wire_msg) == 48, "wire format");
static_assert(sizeof(struct nic_wire_short) == 32, "wire format");
static_assert(sizeof(struct nic_wire_mem) == 48, "wire format");
static_assert(sizeof(struct nic_wire_notice) == 16, "wire format");
static_assert(sizeof(struct nic_wire_atomic) == 72, "wire format");
static_assert(sizeof(struct nic_wire_result) == 32, "wire format");
static_assert(sizeof(struct nic_wire_data) == 8, "wire format");
static_assert(sizeof(struct nic_wire_hello) == 24, "wire format");
static_assert(sizeof(struct nic_wire_disconnect) == 40, "wire format");
static_assert(sizeof(struct nic_wire_broadcast) == 16, "wire format");

/**
 * nic_check - hash of a sender, a receiver and their epoch. Pure.
 *
 * If one of the three changes by less than 65536, both the result and its lower half change. So a
 * late segment to or from a process is never taken for one of its successor.
 */
static inline uint32_t nic_check(uint64_t from_incarnation, uint64_t to_incarnation, uint32_t epoch)
{
    return (uint32_t)from_incarnation * 0x9e3779b1u + (uint32_t)to_incarnation * 0x85ebca77u +
           epoch * 0xc2b2ae3du;
}

/**
 * nic_wire_read - copy a segment that must have exactly @bytes. False: it does not (counted as
 * malformed).
 */
static inline bool nic_wire_read(struct fabemu *fab, const struct emu_seg *seg, void *to,
                                 size_t bytes)
{
    if (seg->hdr.len != bytes) {
        fab->counts.malformed++;
        return false;
    }
    memcpy(to, seg->payload, bytes);
    return true;
}

#endif
