/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets.c - see packets.h.
 *
 * Of a packet the sender's adapter copies the payload out of the edge, and computes its CRC-32; its
 * segments go through two rings, the head's entry ahead of as many as there are, each ring with a
 * credit that comes back; the receiver's adapter checks the CRC-32, copies the payload into the
 * other edge, and its reply goes back through two rings. There is no route to choose, no channel,
 * no header that is checked, no list of what is not acknowledged yet, nothing that counts, and
 * nobody else.
 */
#include "apps/bench/bare/packets.h"

#include <stdlib.h>

#include "emu/alloc.h"
#include "emu/edge/around.h"
#include "emu/edge/edge.h"
#include "emu/link/ring.h"
#include "emu/packet/crc.h"

#define SEGMENTS (BARE_PACKET_SLOTS + 1u) /* on a cable: payload and headers of a packet */
#define SLOTS    64u                      /* of a cable's ring */

/* One direction of a cable. */
struct cable {
    struct emu_ring_end put, take;
    struct emu_credit_end owe, back;
    uint32_t room; /* credits here */
};

struct bare_packets {
    struct cable out[2], reply[2];        /* in the order in which a packet takes them */
    struct emu_seg *pool;                 /* BARE_PACKET_SLOTS buffers: nobody else has any */
    const void *piece[BARE_PACKET_SLOTS]; /* where they are */
    uint64_t sent, acknowledged, bad;
};

static bool cable_open(struct cable *cable)
{
    cable->room = SLOTS;
    return emu_ring_create(&cable->put, &cable->take, SLOTS) &&
           emu_credit_create(&cable->owe, &cable->back, SLOTS);
}

struct bare_packets *bare_packets_open(void)
{
    struct bare_packets *ret = calloc(1, sizeof *ret);

    if (!ret)
        return NULL;
    ret->pool = emu_zeros(BARE_PACKET_SLOTS * sizeof *ret->pool);
    if (!ret->pool || !cable_open(&ret->out[0]) || !cable_open(&ret->out[1]) ||
        !cable_open(&ret->reply[0]) || !cable_open(&ret->reply[1])) {
        bare_packets_close(ret);
        return NULL;
    }
    for (uint32_t s = 0; s < BARE_PACKET_SLOTS; s++)
        ret->piece[s] = &ret->pool[s];
    return ret;
}

void bare_packets_close(struct bare_packets *ret)
{
    if (!ret)
        return;
    for (uint32_t i = 0; i < 2; i++) {
        emu_ring_destroy(&ret->out[i].put);
        emu_ring_destroy(&ret->reply[i].put);
        emu_credit_destroy(&ret->out[i].owe);
        emu_credit_destroy(&ret->reply[i].owe);
    }
    free(ret->pool);
    free(ret);
}

uint64_t bare_packets_bad(const struct bare_packets *packets)
{
    return packets->bad;
}

/* False: the cable has no credit for so many. */
static inline bool cable_has(struct cable *cable, uint32_t wanted)
{
    const struct emu_credit *back;

    while (cable->room < wanted && (back = emu_credit_front(&cable->back))) {
        cable->room += back->count;
        emu_credit_skip(&cable->back);
    }
    return cable->room >= wanted;
}

static inline void cable_put(struct cable *cable, const struct emu_entry *entry)
{
    emu_ring_put_at(&cable->put, entry, 0);
    cable->room--;
}

/* The sender's adapter. */
static void packets_send(struct bare_packets *packets, const struct emu_seg *from)
{
    struct emu_entry entry = {.packet = {.kind = EMU_PACKET_HEAD}, .buf = 0};
    uint32_t crc;

    for (uint32_t s = 0; s < BARE_PACKET_SLOTS; s++) {
        emu_seg_prefetch(from + s + EMU_EDGE_AHEAD, false);
        emu_seg_copy(&packets->pool[s], &from[s], EMU_PAYLOAD_BYTES);
    }
    crc = emu_crc32_pieces(0, packets->piece, BARE_PACKET_SLOTS);
    if (!cable_has(&packets->out[0], SEGMENTS))
        return;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        entry.packet.last = s == BARE_PACKET_SLOTS;
        entry.buf = s < BARE_PACKET_SLOTS ? s : EMU_NO_BUF;
        entry.crc = crc;
        cable_put(&packets->out[0], &entry);
        entry.packet.kind = EMU_PACKET_CONT;
    }
    packets->sent++;
}

/* The switch: what came by @from goes on by @to. */
static void packets_switch(struct cable *from, struct cable *to)
{
    const struct emu_entry *entry;
    uint32_t moved = 0;

    while ((entry = emu_ring_front(&from->take)) && cable_has(to, 1)) {
        cable_put(to, entry);
        emu_ring_skip(&from->take);
        moved++;
    }
    if (moved)
        emu_credit_put(&from->owe, moved, 0, 0);
}

/* The receiver's adapter. */
static void packets_receive(struct bare_packets *packets, struct emu_seg *to)
{
    struct cable *cable = &packets->out[1];
    struct emu_entry reply = {.packet = {.kind = EMU_PACKET_ACK}, .buf = EMU_NO_BUF};
    const void *piece[SEGMENTS];
    const struct emu_entry *entry;
    uint32_t moved = 0, crc = 0;

    while (moved < SEGMENTS && (entry = emu_ring_front(&cable->take))) {
        piece[moved++] = entry->buf != EMU_NO_BUF ? &packets->pool[entry->buf] : NULL;
        crc = entry->crc;
        emu_ring_skip(&cable->take);
    }
    if (moved < SEGMENTS)
        return;
    emu_credit_put(&cable->owe, moved, 0, 0);
    packets->bad += emu_crc32_pieces(0, piece, BARE_PACKET_SLOTS) != crc;
    for (uint32_t s = 0; s < BARE_PACKET_SLOTS; s++) {
        const struct emu_seg *seg = piece[s];

        emu_around_write(&to[s], emu_hdr_words(&seg->hdr), seg->payload, seg->payload + 8);
    }
    if (cable_has(&packets->reply[0], 1))
        cable_put(&packets->reply[0], &reply);
}

/* The sender's adapter again. */
static void packets_replied(struct bare_packets *packets)
{
    struct cable *cable = &packets->reply[1];
    uint32_t moved = 0;

    for (; emu_ring_front(&cable->take); moved++)
        emu_ring_skip(&cable->take);
    packets->acknowledged += moved;
    if (moved)
        emu_credit_put(&cable->owe, moved, 0, 0);
}

void bare_packets_move(struct bare_packets *packets, const struct emu_seg *from, struct emu_seg *to)
{
    packets_send(packets, from);
    packets_switch(&packets->out[0], &packets->out[1]);
    packets_receive(packets, to);
    packets_switch(&packets->reply[0], &packets->reply[1]);
    packets_replied(packets);
    packets->bad += packets->acknowledged != packets->sent;
}
