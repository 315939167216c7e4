/* SPDX-License-Identifier: BSD-3-Clause */
/* dev.c - add a device to a worker, and signal it from other threads. */
#include "emu/dev/dev.h"

#include <string.h>

#include "emu/util/wait.h"

void emu_dev_init(struct emu_dev *dev, struct emu_worker *worker, emu_step_fn step)
{
    memset(dev, 0, sizeof *dev);
    dev->step = step;
    dev->worker = worker;
    dev->index = worker->devs;
    dev->timed = worker->clock.mode != EMU_CLOCK_RAW;
    dev->next_ps = EMU_NEVER;
    worker->due_ps[worker->devs] = EMU_NEVER;
    worker->wants[worker->devs] = UINT64_MAX;
    worker->dev[worker->devs++] = dev;
}

void emu_dev_always(struct emu_dev *dev)
{
    dev->worker->always[dev->index / 64] |= emu_bit(dev->index % 64);
}

/*
 * W2 pairs with W1, and W4 with W3 (worker_take). The ring's entry is published before the port
 * bit, and the port bit before the device bit. If a port bit of this device was still set, the
 * thread that set it also sets the device bit. The worker that takes that device bit then takes our
 * port bit, too. The load of `asleep` comes after a locked instruction in the same total order.
 * Therefore either we see that the worker sleeps, or the worker sees our bit before it sleeps.
 */
void emu_dev_signal_remote(struct emu_dev *dev, enum emu_event event, uint64_t ports)
{
    struct emu_worker *worker = dev->worker;

    if (atomic_fetch_or_explicit(&dev->ready_remote[event], ports, memory_order_seq_cst)) /* W2 */
        return;
    atomic_fetch_or_explicit(&worker->remote[dev->index / 64], emu_bit(dev->index % 64),
                             memory_order_seq_cst);                    /* W4 */
    if (atomic_load_explicit(&worker->asleep, memory_order_seq_cst) && /* after W4; pairs with W5 */
        atomic_exchange_explicit(&worker->asleep, 0, memory_order_seq_cst))
        emu_waiter_ring(worker->waiter);
}

bool emu_dev_is_signalled(const struct emu_dev *dev)
{
    return atomic_load_explicit(&dev->worker->remote[dev->index / 64], memory_order_relaxed) >>
               dev->index % 64 &
           1;
}
