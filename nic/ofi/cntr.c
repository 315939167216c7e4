/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cntr.c - completion counters. Reading one steps the adapter.
 *
 * C1 pairs with C2: who reads a count sees what the operations that it counts
 * have written.
 */
#include "nic/ofi/ofi.h"

#include <stdlib.h>

static struct ofi_cntr *cntr_of(struct fid_cntr *fid)
{
    return container_of(fid, struct ofi_cntr, cntr_fid);
}

static uint64_t cntr_get(_Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_acquire); /* C1; C2 is in op.c */
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    fabemu_progress(cntr_of(fid)->domain->fab);
    return cntr_get(&cntr_of(fid)->done);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    return cntr_get(&cntr_of(fid)->failed);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add_explicit(&cntr_of(fid)->done, value, memory_order_relaxed);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    atomic_store_explicit(&cntr_of(fid)->done, value, memory_order_relaxed);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add_explicit(&cntr_of(fid)->failed, value, memory_order_relaxed);
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    atomic_store_explicit(&cntr_of(fid)->failed, value, memory_order_relaxed);
    return 0;
}

/* Ends, too, when an operation fails meanwhile: the count would never be reached. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
    struct ofi_cntr *cntr = cntr_of(fid);
    uint64_t failed = cntr_get(&cntr->failed);
    int64_t until = ofi_clock_ms() + timeout_ms;

    for (unsigned rounds = 0; cntr_get(&cntr->done) < threshold; rounds++) {
        if (cntr_get(&cntr->failed) != failed)
            return -FI_EAVAIL;
        if (timeout_ms >= 0 && ofi_clock_ms() >= until)
            return -FI_ETIMEDOUT;
        if (!fabemu_progress(cntr->domain->fab))
            ofi_pause(cntr->domain->fab, rounds);
        else
            rounds = 0;
    }
    return 0;
}

static int cntr_close(struct fid *fid)
{
    struct ofi_cntr *cntr = container_of(fid, struct ofi_cntr, cntr_fid.fid);

    if (ofi_held(&cntr->refs))
        return -FI_EBUSY;
    ofi_release(&cntr->domain->refs);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cntr_close,
    .bind = ofi_no_bind,
    .control = ofi_no_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **ret,
                  void *context)
{
    struct ofi_cntr *cntr;

    if (attr->events != FI_CNTR_EVENTS_COMP ||
        (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
         attr->wait_obj != FI_WAIT_YIELD))
        return -FI_ENOSYS;
    cntr = calloc(1, sizeof *cntr);
    if (!cntr)
        return -FI_ENOMEM;
    cntr->domain = ofi_domain_of(domain);
    cntr->cntr_fid.fid.fclass = FI_CLASS_CNTR;
    cntr->cntr_fid.fid.context = context;
    cntr->cntr_fid.fid.ops = &cntr_fid_ops;
    cntr->cntr_fid.ops = &cntr_ops;
    ofi_hold(&cntr->domain->refs);
    *ret = &cntr->cntr_fid;
    return 0;
}
