/* SPDX-License-Identifier: BSD-3-Clause */
/* link_end.c - see link_end.h. */
#include "apps/bench/link_end.h"

/*
 * Without buffers it sends nothing: there are to be as many as its cables have slots. Entries are
 * made where they go: one that is made elsewhere, a field after the other, and then copied whole,
 * is waited for longer than all the rest takes.
 */
static uint32_t end_send(struct bench_link_end *end)
{
    uint32_t sent = 0;

    emu_tx_take_credits(&end->tx);
    for (; sent < BENCH_LINK_BURST && end->tx.credits; sent++) {
        struct emu_entry *slot = emu_tx_slot(&end->tx);

        slot->buf = emu_pool_take(&end->dev.worker->cache);
        if (slot->buf == EMU_NO_BUF)
            break;
        slot->hdr = (struct emu_hdr){.dst = BENCH_LINK_NODES / 2,
                                     .seq = sent,
                                     .kind = EMU_UNICAST,
                                     .len = EMU_PAYLOAD_BYTES};
        slot->born_ns = 0;
        emu_tx_show(&end->tx, 0);
    }
    emu_tx_flush(&end->tx);
    return sent;
}

static uint32_t end_take(struct bench_link_end *end)
{
    const struct emu_entry *entry;
    uint32_t got = 0;

    for (; got < BENCH_LINK_BURST && (entry = emu_rx_front(&end->rx, EMU_NEVER)); got++) {
        emu_pool_drop(&end->dev.worker->cache, entry->buf);
        emu_rx_skip(&end->rx);
    }
    if (got) {
        emu_rx_done(&end->rx, got);
        end->rx.owed = got;
        emu_rx_pay(&end->rx, end->rx.owner, 0);
    }
    return got;
}

static uint32_t end_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct bench_link_end *end = (struct bench_link_end *)dev;
    uint32_t moved;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    moved = end->sends ? end_send(end) : end_take(end);
    if (moved == BENCH_LINK_BURST)
        emu_dev_again(dev);
    return moved;
}

void bench_link_end_init(struct bench_link_end *end, struct emu_worker *worker, bool sends)
{
    emu_dev_init(&end->dev, worker, end_step);
    end->sends = sends;
}
