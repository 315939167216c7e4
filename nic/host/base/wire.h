/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - what adapters say to each other inside a unicast segment's payload.
 *
 * Two classes. Requests carry a number in hdr.seq (per pair of nodes, from 0)
 * and are dispatched in that order, because the fabric may overtake: they are
 * what decides the order of matching. Answers and bulk data name a transfer
 * by its id and may arrive in any order.
 *
 * With acknowledgments the network may give a segment up: it comes back with EMU_FAILED, and the
 * numbers have a hole. Then the pair begins anew, under its next epoch (peer/meet.c).
 *
 * The order of the bytes is the host's: adapters of one fabric share a host kind.
 */
#ifndef NIC_WIRE_H
#define NIC_WIRE_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "nic/host/base/adapter.h"

enum nic_what {
    /* Requests, ordered. */
    NIC_EAGER = 1,      /* nic_wire_msg, then the message or its beginning */
    NIC_MORE,           /* nic_wire_head, then more of the last eager message */
    NIC_RTS,            /* nic_wire_msg: a message that waits at the sender */
    NIC_PUT,            /* nic_wire_mem, then the data: a put of one segment */
    NIC_PUT_RTS,        /* nic_wire_mem: a put that waits at the sender */
    NIC_GET,            /* nic_wire_mem */
    NIC_ATOMIC,         /* nic_wire_atomic */
    NIC_SHORT,          /* nic_wire_short, then the message: an eager one that fits */
    NIC_PUT_NOTICE,     /* nic_wire_mem, nic_wire_notice, then the data: as NIC_PUT */
    NIC_PUT_NOTICE_RTS, /* nic_wire_mem, nic_wire_notice: as NIC_PUT_RTS */
    NIC_REQUEST_LAST = NIC_PUT_NOTICE_RTS,

    /* Answers, unordered. */
    NIC_CTS, /* nic_wire_cts: send so many bytes to this transfer of mine */
    /*
     * nic_wire_fin: your transfer is over, with this status (0: I have all of it). One that waits
     * for data gets no more.
     */
    NIC_FIN,
    NIC_RESULT, /* nic_wire_result: your atomic is done */
    NIC_ACK,    /* nic_wire_head: nothing but its acknowledgment */
    NIC_BYE,    /* nic_wire_bye */
    NIC_DATA,   /* nic_wire_data, then bytes of a transfer */
    NIC_HELLO   /* nic_wire_hello */
};

/* Begins every segment but NIC_DATA and NIC_HELLO. */
struct nic_wire_head {
    uint8_t what; /* enum nic_what */
    uint8_t spare;
    uint16_t queue; /* messages and notices: the receiver's queue */
    uint32_t check; /* nic_check() of both processes: others' segments are strangers' */
    uint32_t ack;   /* requests of yours that I dispatched, free-running */
    /* Bytes of your charged eager messages that the application took, free-running. */
    uint32_t consumed;
};

struct nic_wire_msg {
    struct nic_wire_head head;
    uint16_t src_queue;
    uint16_t spare;
    /* The sender's transfer. NIC_EAGER: the one to tell (NIC_FIN) when all is here, or 0. */
    uint32_t id;
    uint64_t tag;
    uint64_t data;
    uint64_t bytes; /* of the whole message */
};

/*
 * What most eager messages of one segment need: nobody is to be told, and their data is below 2^32.
 * Of messages up to 16 bytes the segment is one line then, which each of three cores takes over:
 * half a round trip of 8 bytes took 0.92 of what it does with two lines.
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

/* Follows nic_wire_mem: the notice for the target's queue once the put is in memory. */
struct nic_wire_notice {
    uint64_t data;
    uint16_t src_queue;
    uint16_t spare[3];
};

#define NIC_ATOMIC_FETCH 1u /* the word's value before is wanted */

struct nic_wire_atomic {
    struct nic_wire_mem mem; /* bytes: of the word */
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
    uint64_t value; /* before; 0 unless it was wanted */
};

struct nic_wire_cts {
    struct nic_wire_head head;
    uint32_t id;    /* the transfer that may go on */
    uint32_t to;    /* the transfer to name in NIC_DATA */
    uint64_t bytes; /* as many are wanted, from the beginning */
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
};                  /* hdr.seq: which piece of NIC_DATA_BYTES it is */

/*
 * Two processes meet. A request goes out only after the receiver is known to
 * know this process, so a node whose process was replaced never mistakes one
 * stream for another.
 */
struct nic_wire_hello {
    uint8_t what;
    uint8_t want; /* 1: answer with a hello of yours */
    uint16_t spare;
    /* The pair's: one more each time its streams break off, modulo 2^32. The later one counts. */
    uint32_t epoch;
    uint64_t life;  /* the sending process's seat */
    uint64_t known; /* the receiving process as the sender knows it, 0: not at all */
};

/*
 * Two processes part (api/leave.c, peer/bye.c). The one that leaves asks; the other answers once
 * it has all that the head's sender says it has sent, and does not send more. A question may be
 * said again, and they overtake each other: so each says how many there are of its, and none leaves
 * before it has them all.
 */
enum nic_bye {
    NIC_BYE_ASK,
    NIC_BYE_ANSWER,
    /* To a process that the sender will not meet. It carries the question's check. */
    NIC_BYE_UNKNOWN,
    /*
     * From who leaves, once it is answered: it asks no more. Who wants to leave as well takes all
     * its questions before, some of which may be under way.
     */
    NIC_BYE_DONE
};

struct nic_wire_bye {
    struct nic_wire_head head;
    uint32_t sent;  /* requests, in all */
    uint8_t kind;   /* enum nic_bye */
    uint8_t done;   /* answers: 1, a DONE was said before it */
    uint16_t asked; /* questions of the sender's to the receiver, with this one: how many */
    uint16_t came;  /* answers: so many questions of the receiver's have come, */
    uint16_t given; /* and so many were answered, with this one */
    uint8_t unused[4];
    uint64_t life; /* the sending process's seat */
};

/*
 * What a multicast segment is. Those of the collective stream (group/stream.c) have hdr.op 0, as
 * before there were others; the rest have hdr.op one of these, EMU_NOTIFY, and are not numbered:
 * hdr.seq is the sender's operation, so that the network's word on it finds that.
 */
enum nic_multicast_kind {
    NIC_MULTICAST_STREAM,
    /* nic_wire_broadcast, then bytes. hdr.type is the segment's number in the put, modulo 256. */
    NIC_MULTICAST_PART,
    NIC_MULTICAST_LAST,   /* the same: the last one of its put */
    NIC_MULTICAST_BROKEN, /* empty: the group is broken at the sender, and thereby at all members */
    /* Empty: the sender waits, and asks the network whether all can be reached. */
    NIC_MULTICAST_PROBE
};

struct nic_wire_broadcast {
    uint64_t key;    /* of a symmetric region of the group */
    uint64_t offset; /* of these bytes in it */
};

/* Bytes that a segment of each kind carries. */
#define NIC_INLINE_BYTES    (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_msg))
#define NIC_NOTICED_BYTES   (NIC_INLINE_BYTES - sizeof(struct nic_wire_notice))
#define NIC_MORE_BYTES      (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_head))
#define NIC_DATA_BYTES      (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_data))
#define NIC_BROADCAST_BYTES (EMU_PAYLOAD_BYTES - sizeof(struct nic_wire_broadcast))

/* Bytes of a transfer: its pieces are numbered in 32 bits. */
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
static_assert(sizeof(struct nic_wire_bye) == 40, "wire format");
static_assert(sizeof(struct nic_wire_broadcast) == 16, "wire format");

/**
 * nic_check - a number that stands for a sender, a receiver and their epoch. Pure.
 *
 * If only one of the three changes, by less than 65536, the number changes, and so does its lower
 * half. So a late segment to or from a process is never taken for one to or from its successor.
 */
static inline uint32_t nic_check(uint64_t from_life, uint64_t to_life, uint32_t epoch)
{
    return (uint32_t)from_life * 0x9e3779b1u + (uint32_t)to_life * 0x85ebca77u +
           epoch * 0xc2b2ae3du;
}

/**
 * nic_wire_read - copy a segment that is to have exactly @bytes. False: it has not, and is counted
 * as malformed.
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
