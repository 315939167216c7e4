/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_run_test.c - invalid sequences of pieces of a stream at a receive that waits for them: every
 * check of the first piece must hold for each piece that is handled in the same run.
 */
#include <string.h>

#include "nic/host/base/adapter.h"
#include "nic/host/base/op.h"
#include "nic/host/base/wire.h"
#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define PIECES 100u /* of the largest message */
#define BYTES  (PIECES * NIC_DATA_BYTES)
#define BEYOND (64u * NIC_DATA_BYTES) /* bytes after it, where an overrun would write */
#define STEPS  1000u

#define BEFORE 0xa5 /* the receiver's memory before */
#define FILL   0x77 /* the bytes of all pieces */

static struct peers w;
static uint8_t in[BYTES + BEYOND];
static struct fabemu_req receives, sends;

/* Node 0 waits for @bytes of node 1, and none has arrived. Node 2 is attached, too. */
static void wait_for(size_t bytes)
{
    static uint8_t out[BYTES];

    peers_open(&w, 3, false);
    for (uint32_t n = 1; n < 3; n++) { /* they are connected */
        peers_inject(&w, n, 0, 99, "x", 1);
        peers_inject(&w, 0, n, 99, "x", 1);
    }
    fake_quiet(w.fake);
    memset(in, BEFORE, sizeof in);
    peers_recv(&w, 0, 1, 1, 0, in, bytes, &receives);
    peers_send(&w, 1, 0, 1, out, bytes, &sends);
    for (uint32_t i = 0; i < STEPS && !nic_op_of(&receives)->id; i++) {
        fake_step(w.fake);
        fabemu_progress(w.fab[1]);
        fabemu_progress(w.fab[0]);
    }
    CU_ASSERT_NOT_EQUAL_FATAL(nic_op_of(&receives)->id, 0);
    CU_ASSERT_EQUAL_FATAL(nic_op_of(&receives)->moved, 0);
}

/* Inject piece @seq, sent by node @src; @flip: bits of the pair's secret to invert. */
static void piece(uint32_t src, uint32_t seq, uint8_t len, uint16_t flip)
{
    struct nic_wire_data data = {.what = NIC_DATA,
                                 .check = (uint16_t)(w.fab[0]->peers[1].rx_check ^ flip),
                                 .id = nic_op_of(&receives)->id};
    struct emu_seg seg = {.hdr = {.src = src, .seq = seq, .kind = EMU_UNICAST, .len = len}};

    memset(seg.payload, FILL, sizeof seg.payload);
    memcpy(seg.payload, &data, sizeof data);
    CU_ASSERT_TRUE_FATAL(fake_inject(w.fake, 0, &seg));
}

static void pieces(uint32_t from, uint32_t end)
{
    for (uint32_t seq = from; seq < end; seq++)
        piece(1, seq, EMU_PAYLOAD_BYTES, 0);
}

/* Are @bytes from @at on unchanged? */
static bool untouched(size_t at, size_t bytes)
{
    for (size_t i = at; i < at + bytes; i++)
        if (in[i] != BEFORE)
            return false;
    return true;
}

/* Of pieces @from to @end only @fit lie within @bytes; nothing is written behind these. */
static void run_beyond(size_t bytes, uint32_t from, uint32_t end, uint32_t fit)
{
    wait_for(bytes);
    pieces(from, end);
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(nic_op_of(&receives)->moved, fit * NIC_DATA_BYTES);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, end - from - fit);
    CU_ASSERT_TRUE(untouched(bytes, sizeof in - bytes));
    peers_close(&w);
}

static void run__beyond_the_end_is_malformed(void)
{
    run_beyond(BYTES - NIC_DATA_BYTES + 10, PIECES - 3, PIECES + 9, 2);
    run_beyond(BYTES, PIECES - 1, PIECES + 10, 1);
    run_beyond(BYTES, PIECES, PIECES + 10, 0);
}

static void run__of_short_pieces_counts_their_bytes(void)
{
    const uint32_t some = 100;

    wait_for(BYTES);
    for (uint32_t seq = 3; seq < 6; seq++)
        piece(1, seq, (uint8_t)(sizeof(struct nic_wire_data) + some), 0);
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(nic_op_of(&receives)->moved, 3 * some);
    for (uint32_t seq = 3; seq < 6; seq++) {
        CU_ASSERT_EQUAL(in[seq * NIC_DATA_BYTES + some - 1], FILL);
        CU_ASSERT_TRUE(untouched(seq * NIC_DATA_BYTES + some, NIC_DATA_BYTES - some));
    }
    peers_close(&w);
}

static void run__of_another_node_is_dropped(void)
{
    wait_for(BYTES);
    piece(1, 3, EMU_PAYLOAD_BYTES, 0);
    piece(2, 4, EMU_PAYLOAD_BYTES, 0);
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(nic_op_of(&receives)->moved, NIC_DATA_BYTES);
    CU_ASSERT_TRUE(untouched(4 * NIC_DATA_BYTES, NIC_DATA_BYTES));
    peers_close(&w);
}

static void run__of_another_incarnation_is_dropped(void)
{
    wait_for(BYTES);
    for (uint32_t seq = 2; seq < 5; seq++)
        piece(1, seq, EMU_PAYLOAD_BYTES, seq != 3);
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(nic_op_of(&receives)->moved, NIC_DATA_BYTES);
    CU_ASSERT_EQUAL(w.fab[0]->counts.wrong_incarnation, 2);
    CU_ASSERT_TRUE(untouched(2 * NIC_DATA_BYTES, NIC_DATA_BYTES));
    CU_ASSERT_TRUE(untouched(4 * NIC_DATA_BYTES, NIC_DATA_BYTES));
    peers_close(&w);
}

/* The receive ends with the last piece, and the program owns its memory again. */
static void run__ends_with_the_last_piece(void)
{
    wait_for(BYTES);
    pieces(0, PIECES + 10);
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(fabemu_req_status(&receives), 0);
    CU_ASSERT_EQUAL(w.fab[0]->counts.stale, 10);
    CU_ASSERT_TRUE(untouched(BYTES, BEYOND));
    peers_close(&w);
}

/* The same two pieces again and again count for no more than the message's bytes. */
static void run__repeated_counts_at_most_once(void)
{
    wait_for(BYTES - 10);
    for (uint32_t i = 0; i < 2 * PIECES; i++)
        piece(1, i % 2, EMU_PAYLOAD_BYTES, 0);
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(nic_op_of(&receives)->moved, (PIECES - 1) * NIC_DATA_BYTES);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, PIECES + 1);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(run__beyond_the_end_is_malformed),
        CASE(run__of_short_pieces_counts_their_bytes),
        CASE(run__of_another_node_is_dropped),
        CASE(run__of_another_incarnation_is_dropped),
        CASE(run__ends_with_the_last_piece),
        CASE(run__repeated_counts_at_most_once),
        {NULL, NULL},
    };

    return test_run("nic_run", cases);
}
