/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the protocol between adapters, in the payload of unicast segments.
 *
 * There are two classes of segments. A *request* starts an operation. Each pair of processes
 * numbers its requests from 0, in hdr.seq. The receiver dispatches them in the order of these
 * numbers, because segments may overtake each other in the fabric. *Answers* and bulk data name a
 * transfer (an operation that moves data) by its id and may arrive in any order.
 *
 * With acknowledgments the network may drop a segment for good. It then returns the segment to its
 * sender with EMU_FAILED, and the receiver never gets a request with this number. So the pair
 * starts again, in its next epoch (peer/handshake.c).
 *
 * Numbers are in the host's byte order, which is the same for all adapters of a fabric.
 */
#ifndef NIC_WIRE_H
#define NIC_WIRE_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "nic/host/base/adapter.h"

enum nic_what {
    /* Requests, dispatched in the order of their numbers. */
    NIC_EAGER = 1, /* nic_wire_msg, then the message or its first part */
    NIC_MORE,      /* nic_wire_head, then more of the last eager message */
    NIC_RTS,       /* nic_wire_msg: a message that waits at the sender for CTS */
    NIC_PUT,       /* nic_wire_mem, then data: an eager put */
    NIC_PUT_RTS,   /* nic_wire_mem: a put that waits at the sender for CTS */
    NIC_GET,       /* nic_wire_mem */
    NIC_ATOMIC,    /* nic_wire_atomic, then operands */
    /* nic_wire_short, then the message: an eager message that fits the short header */
    NIC_SHORT,
    NIC_PUT_NOTICE,     /* nic_wire_mem, nic_wire_notice, then the data: a NIC_PUT with a notice */
    NIC_PUT_NOTICE_RTS, /* nic_wire_mem, nic_wire_notice: a NIC_PUT_RTS with a notice */
    /* nic_wire_mem, then the first bytes of a list of records. offset: size of the result, which
       the receiver sends as NIC_DATA; 0: no result. id 0: the sender wants no FIN */
    NIC_BATCH,
    NIC_BATCH_MORE, /* nic_wire_head, then more of the last batch */
    NIC_REQUEST_LAST = NIC_BATCH_MORE,

    /* Answers and other segments that may arrive in any order. */
    NIC_CTS, /* nic_wire_cts: send this many bytes to my transfer */
    /* nic_wire_fin: your transfer has ended with this status (0: all its bytes have arrived);
       nothing more follows */
    NIC_FIN,
    NIC_RESULT,     /* nic_wire_result, then values: your atomic was executed */
    NIC_ACK,        /* nic_wire_head: carries only acknowledgments */
    NIC_DISCONNECT, /* nic_wire_disconnect */
    NIC_DATA,       /* nic_wire_data, then bytes of a transfer */
    NIC_HELLO       /* nic_wire_hello */
};

/* The first bytes of every segment except NIC_DATA and NIC_HELLO. */
struct nic_wire_head {
    uint8_t what;          /* enum nic_what */
    uint8_t targets_queue; /* memory requests: 1 if the events of `queue` count the request */
    uint16_t queue;        /* messages, notices, memory requests: the receiver's queue */
    /* nic_check() of both processes and the epoch; a wrong value means that another process has
       replaced one of them, or that the segment belongs to an earlier epoch */
    uint32_t check;
    /* acknowledges requests: how many of the receiver's requests the sender has dispatched,
       free-running */
    uint32_t ack;
    /* acknowledges charged messages (peer.h): how many bytes of them the sender's application has
       received from the receiver of this segment, free-running */
    uint32_t consumed;
};

struct nic_wire_msg {
    struct nic_wire_head head;
    uint16_t src_queue;
    uint16_t mark; /* mark of struct fabemu_dest */
    /* the sender's id of the transfer. In a NIC_EAGER: 0, or the id that the receiver confirms with
       NIC_FIN when it has the whole message */
    uint32_t id;
    uint64_t tag;
    uint64_t data;
    uint64_t bytes; /* size of the whole message */
};

/*
 * A shorter header for eager messages of one segment that need no NIC_FIN and whose field data is
 * below 2^32. Most have these properties. The segment of a message of up to 16 bytes then fits in
 * one cache line, which passes through three cores: the sender's, the worker's, the receiver's.
 * With one line, half a round trip of 8 bytes takes 0.92 of the time that it takes with two.
 */
struct nic_wire_short {
    struct nic_wire_head head;
    uint16_t src_queue;
    uint16_t mark;
    uint32_t data;
    uint64_t tag;
};

/*
 * An eager put may have several segments. Each contains this header. Only the last one is answered.
 */
struct nic_wire_mem {
    struct nic_wire_head head;
    uint32_t id; /* the requester's id of the transfer */
    uint32_t at; /* puts: position of the segment's data in the data of the put, in bytes */
    uint64_t key;
    uint64_t offset; /* position in the region, in bytes */
    uint64_t bytes;
};

/*
 * Follows nic_wire_mem: the notice for the target's queue, which is delivered when all bytes of the
 * put are in memory.
 */
struct nic_wire_notice {
    uint64_t data;
    uint16_t src_queue;
    uint16_t spare[3];
};

#define NIC_ATOMIC_FETCH 1u /* return the previous values of the elements */

/*
 * After it come mem.bytes of operands, if the operation has any, and then as many bytes of values
 * to compare with, if it compares.
 */
struct nic_wire_atomic {
    struct nic_wire_mem mem; /* mem.bytes: size of all elements */
    uint8_t op;              /* enum fabemu_atomic_op */
    uint8_t type;            /* enum fabemu_type */
    uint8_t flags;           /* NIC_ATOMIC_FETCH */
    uint8_t spare[5];
};

/* Followed by the previous values of the elements, if NIC_ATOMIC_FETCH was set. */
struct nic_wire_result {
    struct nic_wire_head head;
    uint32_t id;
    uint32_t spare;
};

struct nic_wire_cts {
    struct nic_wire_head head;
    uint32_t id;    /* receiver's id of the transfer that may send its data */
    uint32_t to;    /* sender's id of the transfer, which NIC_DATA must name */
    uint64_t bytes; /* number of bytes to send, from the beginning */
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
    uint32_t id;    /* the receiver's id of the transfer */
    /* hdr.seq: number of this piece; each piece except the last has NIC_DATA_BYTES */
};

/*
 * Handshake of two processes. A process sends requests only after the receiver has confirmed the
 * sender's incarnation. So requests of successive processes of a node are never mixed up.
 */
struct nic_wire_hello {
    uint8_t what;
    uint8_t want; /* 1: the receiver must answer with a hello */
    uint16_t spare;
    /* epoch of the pair: a process that notices a lost segment adds 1, modulo 2^32; both use the
       later epoch */
    uint32_t epoch;
    uint64_t incarnation; /* the sender's incarnation */
    uint64_t known;       /* the receiver's incarnation as the sender knows it; 0: unknown */
};

/*
 * Two processes disconnect (api/leave.c, peer/disconnect.c). The process that detaches sends a
 * query (ASK), which contains the number of requests that it has sent. The other process answers
 * when all of these have arrived, and sends no more requests. Queries may be repeated and may
 * overtake each other. So each query contains the number of queries, and no process detaches before
 * all queries to it have arrived.
 */
enum nic_disconnect {
    NIC_DISCONNECT_ASK,
    NIC_DISCONNECT_ANSWER,
    /* answer to a process with which the sender will not handshake; has the check of that process's
       query */
    NIC_DISCONNECT_UNKNOWN,
    /* from a process that detaches, after it has received the answer: it sends no more queries. If
       the peer detaches, too, the peer must first wait for queries that are still in flight */
    NIC_DISCONNECT_DONE
};

struct nic_wire_disconnect {
    struct nic_wire_head head;
    uint32_t sent; /* number of requests that the sender has sent in total */
    uint8_t kind;  /* enum nic_disconnect */
    uint8_t done;  /* answers: 1 if the sender has already sent a NIC_DISCONNECT_DONE */
    /* number of queries that the sender has sent to the receiver, including this one */
    uint16_t queries_sent;
    /* answers: number of queries of the receiver that have arrived at the sender */
    uint16_t queries_received;
    /* answers: number of answers that the sender has sent to the receiver, including this one */
    uint16_t answers_sent;
    uint8_t unused[4];
    uint64_t incarnation; /* the sender's incarnation */
};

/*
 * Kinds of multicast segments, in hdr.op. Segments of the collective stream (group/stream.c) have
 * NIC_MULTICAST_STREAM and a number in hdr.seq. All others have EMU_NOTIFY. Their hdr.seq is the id
 * of the sender's operation, by which the sender recognises the network's report.
 */
enum nic_multicast_kind {
    NIC_MULTICAST_STREAM,
    /* nic_wire_broadcast, then bytes of a broadcast put. hdr.type: number of the segment in the
       put, modulo 256 */
    NIC_MULTICAST_BODY,
    NIC_MULTICAST_LAST,   /* as NIC_MULTICAST_BODY, for the last segment of the put */
    NIC_MULTICAST_BROKEN, /* empty: the sender notifies all members that it has broken the group */
    /* empty: the sender waits in a collective and checks that all members can be reached */
    NIC_MULTICAST_PROBE
};

struct nic_wire_broadcast {
    uint64_t key;    /* key of a symmetric region of the group */
    uint64_t offset; /* position of these bytes in the region */
};

/* Bytes of data that fit in a segment of each kind. */
#define NIC_INLINE_BYTES    (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_msg))
#define NIC_NOTICED_BYTES   (NIC_INLINE_BYTES - sizeof(struct nic_wire_notice))
#define NIC_MORE_BYTES      (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_head))
#define NIC_DATA_BYTES      (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_data))
#define NIC_ATOMIC_BYTES    (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_atomic))
#define NIC_BROADCAST_BYTES (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_broadcast))

/* A segment of a batch holds whole units, so neither a record nor an element is divided. */
static_assert(NIC_INLINE_BYTES % FABEMU_RECORD_UNIT == 0, "whole units");
static_assert(NIC_MORE_BYTES % FABEMU_RECORD_UNIT == 0, "whole units");

/* The size of the largest transfer: the number of a piece (NIC_DATA) has 32 bits. */
#define NIC_TRANSFER_MAX ((uint64_t)NIC_DATA_BYTES << 32)

static_assert(sizeof(struct nic_wire_head) == 16, "wire format");
static_assert(sizeof(struct nic_wire_msg) == 48, "wire format");
static_assert(sizeof(struct nic_wire_short) == 32, "wire format");
static_assert(sizeof(struct nic_wire_mem) == 48, "wire format");
static_assert(sizeof(struct nic_wire_notice) == 16, "wire format");
static_assert(sizeof(struct nic_wire_atomic) == 56, "wire format");
static_assert(sizeof(struct nic_wire_result) == 24, "wire format");
static_assert(sizeof(struct nic_wire_data) == 8, "wire format");
static_assert(sizeof(struct nic_wire_hello) == 24, "wire format");
static_assert(sizeof(struct nic_wire_disconnect) == 40, "wire format");
static_assert(sizeof(struct nic_wire_broadcast) == 16, "wire format");

/**
 * nic_check - return a hash of the incarnations of sender and receiver and the pair's epoch. Pure.
 *
 * If one of the three changes by less than 65536, both the hash and its lower half change. So a
 * late segment is never taken for a segment of a later process.
 */
static inline uint32_t nic_check(uint64_t from_incarnation, uint64_t to_incarnation, uint32_t epoch)
{
    return (uint32_t)from_incarnation * 0x9e3779b1u + (uint32_t)to_incarnation * 0x85ebca77u +
           epoch * 0xc2b2ae3du;
}

/**
 * nic_wire_read - copy the payload of @seg, which must have exactly @bytes. Returns false, and
 * counts a malformed segment, if it has another length.
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
