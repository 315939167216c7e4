/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.c - waiting for events of queues, counters and wait sets: their file descriptors, and
 * fi_trywait().
 *
 * fi_trywait() arms the signals of the objects, and then checks that no event is there. A callback
 * that completes an operation first enters it into its queue, and then checks whether the signal is
 * armed. Writing to a file descriptor is a system call, so the callback writes only if the signal
 * is armed. Both threads execute a fence between their two steps, so at least one of them sees the
 * first step of the other.
 */
#include "nic/ofi/cq.h"

#include <sys/eventfd.h>
#include <unistd.h>

static int signal_open(struct ofi_signal *signal, enum fi_wait_obj wait_obj)
{
    signal->fd = -1;
    switch (wait_obj) {
    case FI_WAIT_NONE:
    case FI_WAIT_UNSPEC:
    case FI_WAIT_YIELD:
    /* FI_WAIT_MUTEX_COND works only in blocking calls. A callback cannot take a mutex that the
       program may hold while it calls the provider. */
    case FI_WAIT_MUTEX_COND:
        return 0;
    case FI_WAIT_FD:
        signal->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return signal->fd < 0 ? -errno : 0;
    default:
        return -FI_ENOSYS;
    }
}

static void signal_arm(struct ofi_signal *signal)
{
    eventfd_t ignored;

    if (signal->fd < 0)
        return;
    eventfd_read(signal->fd, &ignored);
    atomic_store_explicit(&signal->armed, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* O3 pairs with O2 */
}

int ofi_source_open(struct ofi_source *source, enum fi_wait_obj wait_obj, struct fid_wait *wait_set)
{
    int err;

    source->wait_obj = wait_obj;
    source->signal = &source->own_signal;
    if (wait_obj != FI_WAIT_SET)
        return signal_open(&source->own_signal, wait_obj);
    if (!wait_set || wait_set->fid.fclass != FI_CLASS_WAIT)
        return -FI_EINVAL;
    source->own_signal.fd = -1;
    source->set = ofi_wait_set_of(&wait_set->fid);
    err = ofi_wait_set_add(source->set, source);
    source->signal = ofi_wait_set_source(source->set)->signal;
    return err;
}

void ofi_source_close(struct ofi_source *source)
{
    if (source->set)
        ofi_wait_set_remove(source->set, source);
    if (source->own_signal.fd >= 0)
        close(source->own_signal.fd);
}

struct ofi_source *ofi_source_of(struct fid *fid)
{
    switch (fid ? fid->fclass : FI_CLASS_UNSPEC) {
    case FI_CLASS_CQ:
        return &container_of(fid, struct ofi_cq, cq_fid.fid)->source;
    case FI_CLASS_CNTR:
        return &container_of(fid, struct ofi_cntr, cntr_fid.fid)->source;
    case FI_CLASS_EQ:
        return ofi_eq_source(fid);
    case FI_CLASS_WAIT:
        return ofi_wait_set_source(ofi_wait_set_of(fid));
    default:
        return NULL;
    }
}

int ofi_source_control(struct fid *fid, int command, void *arg)
{
    const struct ofi_source *source = ofi_source_of(fid);

    if (!arg)
        return -FI_EINVAL;
    switch (command) {
    case FI_GETWAIT:
        if (source->own_signal.fd < 0)
            return -FI_ENOSYS;
        *(int *)arg = source->own_signal.fd;
        return 0;
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = source->wait_obj;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

bool ofi_source_step(struct ofi_source *source)
{
    if (source->fab)
        fabemu_progress(source->fab);
    return source->ready(source);
}

void ofi_source_block(struct ofi_source *source)
{
    if (source->fab)
        fabemu_block(source->fab);
    else
        source->block(source);
}

void ofi_source_wake(struct ofi_source *source)
{
    struct ofi_signal *signal = source->signal;

    if (signal->fd < 0)
        return;
    atomic_thread_fence(memory_order_seq_cst); /* O2 pairs with O3 */
    if (atomic_load_explicit(&signal->armed, memory_order_relaxed) &&
        atomic_exchange_explicit(&signal->armed, false, memory_order_relaxed))
        eventfd_write(signal->fd, 1);
}

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    (void)fabric;
    if (!fids)
        return -FI_EINVAL;
    for (int i = 0; i < count; i++) {
        struct ofi_source *source = ofi_source_of(fids[i]);

        if (!source)
            return -FI_EINVAL;
        signal_arm(source->signal);
        if (ofi_source_step(source))
            return -FI_EAGAIN;
    }
    for (int i = 0; i < count; i++)
        ofi_source_block(ofi_source_of(fids[i]));
    return 0;
}
